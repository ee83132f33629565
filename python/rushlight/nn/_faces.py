"""Functions whose operators want numbers for words, or bags and grids in one form."""

from __future__ import annotations

import rushlight as torch
from rushlight._warnings import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight import Tensor

_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}
_BAGS = {"sum": 0, "mean": 1, "max": 2}


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """Each element, times a slope where it is negative: in training a random one for each, else the mean of the bounds.

    Raises:
        RuntimeError: the lower bound is above the upper one.

    >>> torch.nn.functional.rrelu(torch.tensor([-4.0, 2.0]), 0.25, 0.25)
    tensor([-1.,  2.])
    """
    return (torch.rrelu_ if inplace else torch.rrelu)(input, lower, upper, training)


rrelu_ = torch.rrelu_


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Minus the logarithm of the probability of a labelling, summed over all ways to spread it over time.

    Raises:
        RuntimeError: lengths that are not those of a batch, or longer than it; a blank that is no class.
        ValueError: an unknown reduction.

    >>> torch.nn.functional.ctc_loss(torch.zeros(2, 1, 2).log_softmax(-1), torch.tensor([[1]]), (2,), (1,))
    tensor(0.2877)
    """
    if reduction not in _REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    of_inputs: Any = input_lengths
    of_targets: Any = target_lengths
    # Both lists or both tensors: so the operator takes them.
    if isinstance(of_inputs, torch.Tensor) or isinstance(of_targets, torch.Tensor):
        of_inputs, of_targets = torch.as_tensor(of_inputs), torch.as_tensor(of_targets)
    return torch.ctc_loss(log_probs, targets, of_inputs, of_targets, blank, _REDUCTIONS[reduction], zero_infinity)


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The places for `grid_sample` at which images ``(N, C, H, W)``, or volumes, are moved by affine maps.

    Raises:
        NotImplementedError: a size that is neither that of images nor of volumes.
        ValueError: maps of another shape, or of integers.

    >>> torch.nn.functional.affine_grid(torch.eye(2, 3)[None], (1, 1, 1, 2), align_corners=True)
    tensor([[[[-1.,  0.],
              [ 1.,  0.]]]])
    """
    if align_corners is None:
        warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please "
            "specify align_corners=True if the old behavior is desired. See the documentation of grid_sample for "
            "details.",
        )
        align_corners = False
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    size = tuple(size)
    if len(size) not in (4, 5):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. "
            f"Got size {size}."
        )
    dims = len(size) - 2
    if theta.dim() != 3 or theta.shape[-2] != dims or theta.shape[-1] != dims + 1:
        raise ValueError(
            f"Expected a batch of {dims}D affine matrices of shape Nx{dims}x{dims + 1} for size {size}. "
            f"Got {theta.shape}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return torch.affine_grid_generator(theta, size, align_corners)


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
    """The sum, mean or maximum of the rows of ``weight`` that each bag of ``input`` names.

    A matrix of row numbers is a bag in each row; else bag ``i`` begins at ``offsets[i]``.

    Raises:
        ValueError: no offsets, or offsets for a matrix; an unknown mode.
        NotImplementedError: weights of samples, unless they are summed.

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
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                f"sequences. However, found offsets of type {type(offsets)}"
            )
        offsets = torch.arange(0, input.numel(), max(input.size(1), 1), dtype=input.dtype)
        if input.size(1) == 0:
            offsets = torch.zeros(input.size(0), dtype=input.dtype)
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    elif input.dim() == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.dim() != 1:
            raise ValueError("offsets has to be a 1D Tensor")
    else:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    if mode not in _BAGS:
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if max_norm is not None:
        with torch.no_grad():
            torch.embedding_renorm_(weight, input, max_norm, norm_type)
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
