"""An addition that loses nothing when several processes or threads add to the same elements."""

from __future__ import annotations

from rushlight import _C, Tensor


def atomic_add_(target: Tensor, update: Tensor, *, index: Tensor | None = None, alpha: float = 1) -> Tensor:
    """``target.add_(update, alpha=alpha)``, or with ``index`` ``target.index_add_(0, index, update, alpha=alpha)``, in which no
    element loses what another process or thread adds to it atomically at the same time.

    Each element is exchanged for its sum only while it is still what was read, and otherwise read again; elements stay
    independent of each other, and no lock is held, so that a process may be killed in the midst. The sums of several processes come
    in any order, and are rounded in that order. Additions by `Tensor.add_` or `copy_` beside it are still lost, or lose it. As in a
    step of an optimizer, nothing is recorded for `backward`.

    Args:
        target: a tensor of float32 or float64 on the CPU, mostly one that `share_memory_` has moved.
        update: what to add: broadcast to the target or, with ``index``, a row for each of its numbers.
        index: the rows of the target that are added to, which may repeat: a vector of int64 or int32.
        alpha: a factor for the update.

    Returns:
        The target.

    Raises:
        TypeError: a target of another dtype.
        RuntimeError: shapes that do not fit, an index outside of the target, whose elements are then unchanged, a target whose elements
            overlap.
        IndexError: an index that is no vector of integers.

    >>> weights = torch.zeros(3).share_memory_()
    >>> torch.multiprocessing.atomic_add_(weights, torch.tensor([1.0, 2.0]), index=torch.tensor([0, 2]), alpha=0.5)
    tensor([0.5000, 0.0000, 1.0000])
    """
    _C._atomic_add(target, update, index, alpha)
    return target
