"""The names under which calls of groups stand in a profile."""

import contextlib
import threading

from rushlight import _C
from rushlight.autograd.profiler import record_function


class _Chosen(threading.local):
    """What the program calls its calls in this thread, or None."""

    name: str | None = None


_chosen = _Chosen()
_NOTHING: contextlib.nullcontext[None] = contextlib.nullcontext()


@contextlib.contextmanager
def record_comm(name):
    """Within this context, calls of groups have this name in a profile, in place of ``gloo:all_reduce`` and the like.

    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> with torch.profiler.profile() as profiled, dist.record_comm("gradients"):
    ...     dist.all_reduce(torch.ones(1))
    >>> "gradients" in [event.name for event in profiled.events()]
    True
    >>> dist.destroy_process_group()
    """
    before, _chosen.name = _chosen.name, name
    try:
        yield
    finally:
        _chosen.name = before


def recorded(group, kind, name):
    """A range of a profile for a call, on tensors of a type of device. A call in the background is recorded while it begins."""
    if not _C._profile_is_on():
        return _NOTHING
    backend = group._config.get_device_backend_map().get(kind, group._backend)
    return record_function(_chosen.name or f"{backend}:{name}")
