"""`embedding_bag`. Its operator takes the mode as a number, and bags in one form."""

from __future__ import annotations

import rushlight as torch
from rushlight import _C
from rushlight._overridable import overridable
from rushlight._warnings import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor

_BAGS = {"sum": 0, "mean": 1, "max": 2}


def _shorten_rows(weight: Tensor, input: Tensor, max_norm: float, norm_type: float) -> None:
    """Rescales the rows that are looked up and are too long, in place. Neither gradients nor tangents notice."""
    tangents = _C._set_tangents_enabled(False)
    try:
        with torch.no_grad():
            torch.embedding_renorm_(weight.data, input, max_norm, norm_type)
    finally:
        _C._set_tangents_enabled(tangents)


def _in_line(input: Tensor, offsets: Tensor | None, weights: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """All bags concatenated, and the offset of each bag."""
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                f"sequences. However, found offsets of type {type(offsets)}"
            )
        offsets = torch.arange(0, input.numel(), max(input.size(1), 1), dtype=input.dtype, device=input.device)
        if input.size(1) == 0:
            offsets = torch.zeros(input.size(0), dtype=input.dtype, device=input.device)
        input = input.reshape(-1)
        if weights is not None:
            weights = weights.reshape(-1)
    elif input.dim() == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.dim() != 1:
            raise ValueError("offsets has to be a 1D Tensor")
    else:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    return input, offsets, weights


def _check_mode(mode: str, scale_grad_by_freq: bool, sparse: bool) -> None:
    if mode not in tuple(_BAGS):  # which takes unhashable modes, too
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")


@overridable
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The sum, mean or maximum of the rows of ``weight`` for each bag of indices in ``input``.

    Each row of a matrix ``input`` is a bag. For a vector ``input``, bag ``i`` begins at ``offsets[i]``.

    Raises:
        ValueError: ``offsets`` is missing, or is given for a matrix; or the mode is unknown.
        NotImplementedError: ``per_sample_weights`` is given and the mode is not "sum".

    >>> table = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> torch.nn.functional.embedding_bag(torch.tensor([[0, 1], [1, 1]]), table, mode="sum")
    tensor([[4., 6.],
            [6., 8.]])
    """
    if weight.dtype == torch.long and input.is_floating_point():
        warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, ...)` is "
            "deprecated, and should now be `embedding_bag(input, weight, ...)`.",
        )
        weight, input = input, weight
    if per_sample_weights is not None and input.size() != per_sample_weights.size():
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then it must have the "
            f"same shape as the input ({input.shape})"
        )
    if weight.dim() != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}")
    # The bags of a matrix end at the ends of its rows.
    include_last_offset = include_last_offset and input.dim() != 2
    input, offsets, per_sample_weights = _in_line(input, offsets, per_sample_weights)
    _check_mode(mode, scale_grad_by_freq, sparse)
    if max_norm is not None:
        _shorten_rows(weight, input, max_norm, norm_type)
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
            f"(got mode='{mode}'). Please open a feature request on GitHub."
        )
    return torch.embedding_bag(
        weight,
        input,
        offsets,
        scale_grad_by_freq,
        _BAGS[mode],
        sparse,
        per_sample_weights,
        include_last_offset,
        padding_idx,
    )[0]
