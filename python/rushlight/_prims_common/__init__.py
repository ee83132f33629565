"""Names of `torch._prims_common` that libraries import."""

from __future__ import annotations

import rushlight as torch
from rushlight._warnings import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rushlight import Tensor


def is_contiguous_or_false(a: Tensor) -> bool:
    """Whether a tensor is contiguous. While a compiler traces, torch answers False where it cannot know.

    >>> from rushlight._prims_common import is_contiguous_or_false
    >>> is_contiguous_or_false(torch.ones(2, 3).T)
    False
    """
    return a.is_contiguous()


def suggest_memory_format(x: Tensor) -> torch.memory_format:
    """The memory format of which a tensor's strides are: of images or volumes with channels last, else the contiguous one.

    >>> from rushlight._prims_common import suggest_memory_format
    >>> suggest_memory_format(torch.ones(2, 3, 4, 4).to(memory_format=torch.channels_last))
    torch.channels_last
    """
    order = {4: (1, 3, 2, 0), 5: (1, 4, 3, 2, 0)}.get(x.dim())
    if order is None or x.layout != torch.strided or x.stride(1) == 0:
        return torch.contiguous_format
    least = 0
    for dim in order:
        size, stride = x.size(dim), x.stride(dim)
        # Sizes of 1 leave the order open; then the contiguous format counts.
        if size == 0 or stride < least or (dim == 0 and least == x.stride(1)):
            return torch.contiguous_format
        least = stride * max(size, 1)
    return torch.channels_last if x.dim() == 4 else torch.channels_last_3d


def make_contiguous_strides_for(shape: Sequence[int], row_major: bool = True) -> tuple[int, ...]:
    """The strides of a contiguous tensor of a shape; with its last two dimensions exchanged unless ``row_major``.

    >>> from rushlight._prims_common import make_contiguous_strides_for
    >>> make_contiguous_strides_for((2, 3, 4))
    (12, 4, 1)
    """
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    strides.reverse()
    if row_major or len(shape) < 2:
        return tuple(strides)
    return (*strides[:-2], 1, max(shape[-2], 1))


def alert_not_deterministic(caller: str) -> None:
    """Says that a function has no deterministic form, if `torch.use_deterministic_algorithms` asks for one.

    Args:
        caller: the name of the function.

    Raises:
        RuntimeError: only deterministic functions are wanted; with ``warn_only=True`` this is a warning.

    >>> torch._prims_common.alert_not_deterministic("roi_align")
    """
    if not torch.are_deterministic_algorithms_enabled():
        return
    sentence = (
        f"{caller} does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms(True"
    )
    if torch.is_deterministic_algorithms_warn_only_enabled():
        warn(
            f"{sentence}, warn_only=True)'. You can file an issue at https://github.com/pytorch/pytorch/issues to help us prioritize "
            "adding deterministic support for this operation."
        )
        return
    raise RuntimeError(
        f"{sentence})'. You can turn off determinism just for this operation, or you can use the 'warn_only=True' option, if "
        "that's acceptable for your application. You can also file an issue at https://github.com/pytorch/pytorch/issues to help "
        "us prioritize adding deterministic support for this operation."
    )
