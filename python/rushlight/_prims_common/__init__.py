"""Names of `torch._prims_common` that libraries import."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor


def is_contiguous_or_false(a: Tensor) -> bool:
    """Whether a tensor is contiguous. While a compiler traces, torch answers False where it cannot know.

    >>> from rushlight._prims_common import is_contiguous_or_false
    >>> is_contiguous_or_false(torch.ones(2, 3).T)
    False
    """
    return a.is_contiguous()
