"""An atomic addition, for several processes or threads that add to the same elements."""

from __future__ import annotations

from rushlight import _C, Tensor


def atomic_add_(target: Tensor, update: Tensor, *, index: Tensor | None = None, alpha: float = 1) -> Tensor:
    """``target.add_(update, alpha=alpha)``, or with ``index`` ``target.index_add_(0, index, update, alpha=alpha)``,
    with an atomic addition for each element: concurrent atomic additions of other processes and threads are not lost.

    Each element is updated with one atomic instruction or a compare-and-swap. Elements are independent of each other, and there is no lock, so
    that a process may be killed at any time. Processes add in any order, and sums are rounded in that order. Concurrent
    `Tensor.add_` or `copy_` can still lose additions. As in an optimizer's step, nothing is recorded for `backward`.

    Args:
        target: a tensor of integers or of floating-point numbers on the CPU, usually in shared memory (`share_memory_`).
        update: the values to add: they broadcast to the target or, with ``index``, are one row per index.
        index: the rows of the target to add to, a vector of int64 or int32. Rows may be repeated.
        alpha: a factor for the update; an integer if the target has integers, whose sums wrap around.

    Returns:
        The target.

    Raises:
        TypeError: the target is boolean or complex.
        RuntimeError: the shapes do not match, an index is out of range (the target is unchanged then), or elements of
            the target overlap.
        IndexError: the index is not a vector of integers.

    >>> weights = torch.zeros(3).share_memory_()
    >>> torch.multiprocessing.atomic_add_(weights, torch.tensor([1.0, 2.0]), index=torch.tensor([0, 2]), alpha=0.5)
    tensor([0.5000, 0.0000, 1.0000])
    """
    _C._atomic_add(target, update, index, alpha)
    return target
