"""Addresses of stores."""

import re

__all__ = ["parse_rendezvous_endpoint"]


def __dir__() -> list[str]:
    return __all__


def parse_rendezvous_endpoint(endpoint, default_port):
    """The host and the port of ``node0:29400``, or of an address such as ``[::1]:29400``.

    Args:
        endpoint: the text; without a host it is ``localhost``.
        default_port: the port of a text without one; -1 asks for any.

    Raises:
        ValueError: the port is no number of a port.

    >>> torch.distributed.elastic.rendezvous.utils.parse_rendezvous_endpoint("node0", 29400)
    ('node0', 29400)
    """
    endpoint = (endpoint or "").strip()
    found = re.fullmatch(r"(.*?)(?::([^:\]]*))?", endpoint)
    host, port = found.groups() if found is not None else (endpoint, "")
    port = port or str(default_port)
    if port != "-1" and (not port.isdecimal() or int(port) > 65535):
        raise ValueError(
            f"The port number of the rendezvous endpoint '{endpoint}' must be an integer between 0 and 65536.\n"
            "  Write HOST:PORT, or [ADDRESS]:PORT for an address with colons."
        )
    return host.removeprefix("[").removesuffix("]") or "localhost", int(port)
