"""Events: what happens to the processes of torchrun, as lines for a log.

Each destination has a logger, ``torchelastic-events-<destination>``, to which a program can add handlers.
"""

import inspect
import logging
import os
import socket
import traceback

from .api import Event, EventMetadataValue, EventSource, NodeState, RdzvEvent
from .handlers import get_logging_handler

__all__ = [
    "Event",
    "EventMetadataValue",
    "EventSource",
    "NodeState",
    "RdzvEvent",
    "construct_and_record_rdzv_event",
    "get_logging_handler",
    "record",
    "record_rdzv_event",
]


def __dir__() -> list[str]:
    return [*__all__, "api", "handlers"]


_events_loggers: dict[str, logging.Logger] = {}


def _get_or_create_logger(destination="null"):
    if destination not in _events_loggers:
        logger = logging.getLogger(f"torchelastic-events-{destination}")
        logger.setLevel(os.environ.get("LOGLEVEL", "INFO"))
        logger.propagate = False
        logger.addHandler(get_logging_handler(destination))
        _events_loggers[destination] = logger
    return _events_loggers[destination]


def record(event, destination="null"):
    """Writes an event to the log of a destination.

    Args:
        event: an `Event`.
        destination: ``"null"`` for none, or ``"console"``, which is stderr.

    Raises:
        KeyError: there is no such destination.

    >>> events = torch.distributed.elastic.events
    >>> events.record(events.Event("saved", events.EventSource.WORKER, metadata={"step": 3}))
    """
    _get_or_create_logger(destination).info(event.serialize())


def record_rdzv_event(event):
    """Writes a `RdzvEvent` to the log of the destination ``"dynamic_rendezvous"``."""
    _get_or_create_logger("dynamic_rendezvous").info(event.serialize())


def construct_and_record_rdzv_event(
    run_id, message, node_state, name="", hostname="", pid=None, master_endpoint="", local_id=None, rank=None
):
    """Makes a `RdzvEvent` of this process and its caller, and writes it to the log, if that goes anywhere.

    Args:
        run_id: the name of the job.
        message: a text.
        node_state: a `NodeState`. FAILED adds the traceback of the error that is handled.
        name: what happened, by default the name of the calling function; the name of its file stands before it.
        hostname, pid: by default those of this process.
        master_endpoint, local_id, rank: as in `RdzvEvent`.
    """
    if isinstance(get_logging_handler("dynamic_rendezvous"), logging.NullHandler):
        return
    caller = inspect.stack(0)[1]
    event = RdzvEvent(
        name=f"{os.path.basename(caller.filename)}:{name or caller.function}",
        run_id=run_id,
        message=message,
        hostname=hostname or socket.getfqdn(),
        pid=os.getpid() if pid is None else pid,
        node_state=node_state,
        master_endpoint=master_endpoint,
        rank=rank,
        local_id=local_id,
        error_trace=traceback.format_exc() if node_state is NodeState.FAILED else "",
    )
    record_rdzv_event(event)
