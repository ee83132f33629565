"""Names of `torch._C` that libraries use and that the engine does not need. `torch._C` finds them here."""

from __future__ import annotations

from types import SimpleNamespace

import rushlight as torch
from rushlight.nn.modules._convert import parse_to

#: The class of `torch.Tensor`, a metaclass of its own in torch.
_TensorMeta = type(torch.Tensor)

_nn = SimpleNamespace(_parse_to=parse_to)


def _log_api_usage_once(event: str) -> None:
    """Accepted; nothing is logged.

    >>> torch._C._log_api_usage_once("my_library.Model")
    """
    if not isinstance(event, str):
        raise TypeError("bad argument type for built-in operation")


def _get_tracing_state() -> None:
    """The trace that is being recorded: always None.

    >>> torch._C._get_tracing_state() is None
    True
    """
    return None
