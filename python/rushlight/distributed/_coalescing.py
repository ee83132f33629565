"""Collective calls that a program makes together: they are held back, and begin when the context ends."""

import contextlib

from rushlight._set_module import set_module
from rushlight.distributed._groups import resolve
from rushlight.distributed._work import Work


class _IllegalWork(Work):
    """What a call returns that is held back: there is nothing to wait for yet."""

    def __init__(self):
        super().__init__([])

    def __getattribute__(self, name):
        if name in ("is_success", "exception", "wait", "source_rank", "_source_rank", "result", "synchronize"):
            raise RuntimeError(f"Illegal to call {name} on IllegalWork object")
        return super().__getattribute__(name)


class _CoalescingManager:
    """The works of calls that were made together."""

    def __init__(self):
        self.works: list[Work] = []

    def append(self, work=None):
        """Adds a work."""
        if work:
            self.works.append(work)

    def wait(self):
        """Waits for all works."""
        for work in self.works:
            work.wait()


@contextlib.contextmanager
def _coalescing_manager(group=None, device=None, async_ops=False):
    """A context that holds back `all_reduce`, `all_gather_single` and `reduce_scatter_single` of a group until it ends.

    Args:
        group: the ranks that take part, by default all.
        device: accepted.
        async_ops: return at once; the context's value has a `wait`.

    Raises:
        ValueError: the group holds back calls already.
        RuntimeError: the calls are of several kinds.

    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> tensors = [torch.ones(2), torch.ones(3)]
    >>> with dist._coalescing_manager(async_ops=True) as manager:
    ...     for tensor in tensors:
    ...         dist.all_reduce(tensor)
    >>> manager.wait()
    >>> tensors
    [tensor([1., 1.]), tensor([1., 1., 1.])]
    >>> dist.destroy_process_group()
    """
    group = resolve(group)
    if group._held is not None:
        raise ValueError("ProcessGroup has non-empty op list at the start of coalescing")
    group._held, manager = [], _CoalescingManager()
    try:
        yield manager
    finally:
        held, group._held = group._held, None
    kinds = {call.__name__ for call, _ in held}
    if len(kinds) > 1:
        raise RuntimeError(
            f"Coalescing manager requires all collectives to be the same type, but got mixed types: {kinds}"
        )
    for call, arguments in held:
        manager.append(call(*arguments, group=group, async_op=True))
    if not async_ops:
        manager.wait()


def hold(group, async_op, call, *arguments):
    """Holds back a call. Returns what stands for its work, if one is wanted."""
    group._held.append((call, arguments))
    return _IllegalWork() if async_op else None


set_module("rushlight.distributed", _CoalescingManager)
