"""Where events go, by the name of the destination."""

import logging

__all__ = ["get_logging_handler"]


def __dir__() -> list[str]:
    return __all__


# A program may add its own.
_log_handlers: dict[str, logging.Handler] = {
    "console": logging.StreamHandler(),
    "dynamic_rendezvous": logging.NullHandler(),
    "null": logging.NullHandler(),
}


def get_logging_handler(destination="null"):
    """The handler of a destination: ``"null"``, ``"console"``, or ``"dynamic_rendezvous"``, which drops events too.

    Raises:
        KeyError: there is no such destination.

    >>> torch.distributed.elastic.events.get_logging_handler("null")
    <NullHandler (NOTSET)>
    """
    return _log_handlers[destination]
