"""Functions of torch's engine that `torch.nn.functional` has with other arguments: all by position, the reduction as a number.

Old programs and libraries call them, `torch.batch_norm` for example. Also the copying forms of some views.
"""

from __future__ import annotations

import rushlight as torch
from rushlight._compiled import compiled
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from rushlight import Tensor


def _reduced(losses: Tensor, reduction: int) -> Tensor:
    """The mean for 1, the sum for 2, and the losses themselves for all other numbers, as in torch."""
    return losses.mean() if reduction == 1 else losses.sum() if reduction == 2 else losses


# --- normalisation -----------------------------------------------------------------------------------------------------


@compiled()
def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """`torch.nn.functional.batch_norm` with the weights before the statistics. ``cudnn_enabled`` has no effect.

    >>> torch.batch_norm(torch.tensor([[0.0], [2.0]]), None, None, None, None, True, 0.1, 1e-9, False).flatten()
    tensor([-1.,  1.])
    """
    return functional.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


@compiled()
def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """`torch.nn.functional.instance_norm` with the weights before the statistics. ``cudnn_enabled`` has no effect.

    >>> torch.instance_norm(torch.tensor([[[0.0, 2.0]]]), None, None, None, None, True, 0.1, 1e-9, False)
    tensor([[[-1.,  1.]]])
    """
    return functional.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


@compiled()
def batch_norm_update_stats(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, momentum: float
) -> tuple[Tensor, Tensor]:
    """Updates the running statistics as `batch_norm` does, and returns the mean and the variance of the batch.

    Args:
        input: a batch, with the channels in the second dimension.
        running_mean, running_var: one number per channel, changed in place; or None.
        momentum: the part of the running statistics that is replaced.

    >>> mean = torch.zeros(1)
    >>> torch.batch_norm_update_stats(torch.tensor([[0.0], [2.0]]), mean, torch.ones(1), 0.5)
    (tensor([1.]), tensor([1.]))
    >>> mean
    tensor([0.5000])
    """
    rest = [dim for dim in range(input.dim()) if dim != 1]
    variance, mean = torch.var_mean(input, rest, correction=0)
    count = input.numel() // max(input.shape[1], 1)
    with torch.no_grad():
        if running_mean is not None:
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
        if running_var is not None:
            unbiased = variance * (count / (count - 1)) if count > 1 else variance * torch.nan
            running_var.lerp_(unbiased.to(running_var.dtype), momentum)
    return mean, variance


def _for_gpus_alone(name: str, input: Tensor) -> NoReturn:
    """Raises torch's error for an operator that only GPUs have."""
    backend = "Meta" if input.is_meta else "CUDA" if input.is_cuda else "CPU"
    raise NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the '{backend}' backend.\n"
        "  torch has it for GPUs alone, and rushlight does not have it: `nn.SyncBatchNorm` and `batch_norm` do the whole work."
    )


@compiled()
def batch_norm_stats(input: Tensor, eps: float) -> NoReturn:
    """The mean and the inverse standard deviation of a part of a batch. A part of synchronised batch normalisation, which torch has for GPUs alone.

    Raises:
        NotImplementedError: always.

    >>> x, c = torch.ones(2, 3), torch.ones(3)
    >>> try:
    ...     torch.batch_norm_stats(x, 1e-5)
    ... except NotImplementedError as error:
    ...     print(str(error).splitlines()[0])
    Could not run 'aten::batch_norm_stats' with arguments from the 'CPU' backend.
    """
    _for_gpus_alone("batch_norm_stats", input)


@compiled()
def batch_norm_elemt(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, invstd: Tensor, eps: float
) -> NoReturn:
    """A part of a batch, normalised by given statistics. A part of synchronised batch normalisation, which torch has for GPUs alone.

    Raises:
        NotImplementedError: always.

    >>> x, c = torch.ones(2, 3), torch.ones(3)
    >>> try:
    ...     torch.batch_norm_elemt(x, c, c, c, c, 1e-5)
    ... except NotImplementedError as error:
    ...     print(str(error).splitlines()[0])
    Could not run 'aten::batch_norm_elemt' with arguments from the 'CPU' backend.
    """
    _for_gpus_alone("batch_norm_elemt", input)


@compiled()
def batch_norm_gather_stats(
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    count: int,
) -> NoReturn:
    """The statistics of a batch from those of equal parts. A part of synchronised batch normalisation, which torch has for GPUs alone.

    Raises:
        NotImplementedError: always.

    >>> x, c = torch.ones(2, 3), torch.ones(3)
    >>> try:
    ...     torch.batch_norm_gather_stats(x, c, c, None, None, 0.1, 1e-5, 3)
    ... except NotImplementedError as error:
    ...     print(str(error).splitlines()[0])
    Could not run 'aten::batch_norm_gather_stats' with arguments from the 'CPU' backend.
    """
    _for_gpus_alone("batch_norm_gather_stats", input)


@compiled()
def batch_norm_gather_stats_with_counts(
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> NoReturn:
    """The statistics of a batch from those of its parts. A part of synchronised batch normalisation, which torch has for GPUs alone.

    Raises:
        NotImplementedError: always.

    >>> x, c = torch.ones(2, 3), torch.ones(3)
    >>> try:
    ...     torch.batch_norm_gather_stats_with_counts(x, c, c, None, None, 0.1, 1e-5, c)
    ... except NotImplementedError as error:
    ...     print(str(error).splitlines()[0])
    Could not run 'aten::batch_norm_gather_stats_with_counts' with arguments from the 'CPU' backend.
    """
    _for_gpus_alone("batch_norm_gather_stats_with_counts", input)


@compiled()
def batch_norm_backward_reduce(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> NoReturn:
    """The sums of a part of a batch that the gradient needs. A part of synchronised batch normalisation, which torch has for GPUs alone.

    Raises:
        NotImplementedError: always.

    >>> x, c = torch.ones(2, 3), torch.ones(3)
    >>> try:
    ...     torch.batch_norm_backward_reduce(x, x, c, c, c, True, True, True)
    ... except NotImplementedError as error:
    ...     print(str(error).splitlines()[0])
    Could not run 'aten::batch_norm_backward_reduce' with arguments from the 'CPU' backend.
    """
    _for_gpus_alone("batch_norm_backward_reduce", grad_out)


@compiled()
def batch_norm_backward_elemt(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    sum_dy: Tensor,
    sum_dy_xmu: Tensor,
    count: Tensor,
) -> NoReturn:
    """The gradient of a part of a batch. A part of synchronised batch normalisation, which torch has for GPUs alone.

    Raises:
        NotImplementedError: always.

    >>> x, c = torch.ones(2, 3), torch.ones(3)
    >>> try:
    ...     torch.batch_norm_backward_elemt(x, x, c, c, c, c, c, c)
    ... except NotImplementedError as error:
    ...     print(str(error).splitlines()[0])
    Could not run 'aten::batch_norm_backward_elemt' with arguments from the 'CPU' backend.
    """
    _for_gpus_alone("batch_norm_backward_elemt", grad_out)


@compiled()
def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norm over all dimensions but one, which keeps its place; ``dim=-1`` is the norm over all dimensions.

    >>> torch.norm_except_dim(torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5.],
            [1.]])
    """
    if dim == -1:
        return torch.linalg.vector_norm(v, pow)
    if not -v.dim() <= dim < v.dim():
        bounds = f"[{-v.dim()}, {v.dim() - 1}]"
        raise IndexError(f"Dimension out of range (expected to be in range of {bounds}, but got {dim})")
    rest = [other for other in range(v.dim()) if other != dim % v.dim()]
    return torch.linalg.vector_norm(v, pow, rest, keepdim=True) if rest else v.abs()


@compiled()
def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Dropout that also returns which elements it has kept. ``train=None`` means True.

    >>> torch.native_dropout(torch.ones(2), 0.0, True)
    (tensor([1., 1.]), tensor([True, True]))
    """
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")
    if train is False or input.numel() == 0:
        return input.clone(), torch.ones_like(input, dtype=torch.bool)
    if p == 1:
        return input * 0, torch.zeros_like(input, dtype=torch.bool)
    kept = torch.empty_like(input).bernoulli_(1 - p)
    return input * kept / (1 - p), kept.bool()


@compiled()
def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """`torch.nn.functional.channel_shuffle`.

    >>> torch.native_channel_shuffle(torch.arange(4).reshape(1, 4, 1), 2).flatten()
    tensor([0, 2, 1, 3])
    """
    return torch.channel_shuffle(input, groups)


# --- convolution -------------------------------------------------------------------------------------------------------


@compiled()
def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Tensor:
    """A convolution, or a transposed one, in one to three dimensions.

    Args:
        input, weight, bias, stride, padding, dilation, groups: as for `torch.nn.functional.conv2d`.
        transposed: whether it is `torch.nn.functional.conv_transpose2d`.
        output_padding: only for transposed convolutions.

    >>> torch.convolution(torch.ones(1, 1, 3), torch.ones(1, 1, 2), None, [1], [0], [1], False, [0], 1)
    tensor([[[2., 2.]]])
    """
    if not 3 <= weight.dim() <= 5:
        raise RuntimeError(f"weight should have at least three dimensions\n  This one has {weight.dim()} of 3 to 5.")
    name = f"conv{'_transpose' * transposed}{weight.dim() - 2}d"
    if transposed:
        return getattr(functional, name)(
            input, weight, bias, stride, padding, output_padding, groups=groups, dilation=dilation
        )
    return getattr(functional, name)(input, weight, bias, stride, padding, dilation, groups)


@compiled()
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """A convolution over time.

    Args:
        input: a tensor of shape (time, batch, channels).
        weight: a tensor of shape (size of the kernel, channels, channels of the result).
        bias: one number per channel of the result.
        pad: the number of zeros on both sides.

    >>> torch.conv_tbc(torch.ones(3, 1, 1), torch.ones(2, 1, 1), torch.zeros(1)).flatten()
    tensor([2., 2.])
    """
    if input.dim() != 3:
        raise RuntimeError("Input must have 3 dims: time, batch, in_channel")
    if weight.dim() != 3:
        raise RuntimeError("Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.")
    if bias.dim() != 1:
        raise RuntimeError("Bias must be 1-D")
    if input.shape[2] != weight.shape[1]:
        raise RuntimeError("Input dim 2 (input channels) is not == dim 1 in the weight tensor")
    if weight.shape[2] != bias.shape[0]:
        raise RuntimeError("Bias size must equal dim 2 in the weight tensor (output channels).")
    result = functional.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return result.permute(2, 0, 1).contiguous()


# --- losses ------------------------------------------------------------------------------------------------------------


@compiled()
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: int = 1,
) -> Tensor:
    """`torch.nn.functional.binary_cross_entropy_with_logits`; the reduction is 0 for none, 1 for the mean, 2 for the sum.

    >>> torch.binary_cross_entropy_with_logits(torch.zeros(2), torch.ones(2))
    tensor(0.6931)
    """
    losses = functional.binary_cross_entropy_with_logits(input, target, weight, reduction="none", pos_weight=pos_weight)
    return _reduced(losses, reduction)


@compiled()
def kl_div(input: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False) -> Tensor:
    """`torch.nn.functional.kl_div`; the reduction is 0 for none, 1 for the mean, 2 for the sum.

    >>> torch.kl_div(torch.zeros(2), torch.ones(2), 2)
    tensor(0.)
    """
    return _reduced(functional.kl_div(input, target, reduction="none", log_target=log_target), reduction)


@compiled()
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """`torch.nn.functional.cosine_embedding_loss`; the reduction is 0 for none, 1 for the mean, 2 for the sum.

    >>> torch.cosine_embedding_loss(torch.eye(2), torch.eye(2), torch.tensor([1, -1]))
    tensor(0.5000)
    """
    return _reduced(functional.cosine_embedding_loss(input1, input2, target, margin, reduction="none"), reduction)


@compiled()
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1) -> Tensor:
    """`torch.nn.functional.hinge_embedding_loss`; the reduction is 0 for none, 1 for the mean, 2 for the sum.

    >>> torch.hinge_embedding_loss(torch.tensor([0.5, 0.5]), torch.tensor([1, -1]), reduction=0)
    tensor([0.5000, 0.5000])
    """
    return _reduced(functional.hinge_embedding_loss(input, target, margin, reduction="none"), reduction)


@compiled()
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """`torch.nn.functional.margin_ranking_loss`; the reduction is 0 for none, 1 for the mean, 2 for the sum.

    >>> torch.margin_ranking_loss(torch.zeros(2), torch.ones(2), torch.tensor([1.0, -1.0]), reduction=0)
    tensor([1., 0.])
    """
    return _reduced(functional.margin_ranking_loss(input1, input2, target, margin, reduction="none"), reduction)


@compiled()
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int) -> Tensor:
    """`torch.nn.functional.poisson_nll_loss`; the reduction is 0 for none, 1 for the mean, 2 for the sum.

    >>> torch.poisson_nll_loss(torch.zeros(2), torch.ones(2), True, False, 1e-8, 2)
    tensor(2.)
    """
    losses = functional.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction="none")
    return _reduced(losses, reduction)


@compiled()
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 1,
) -> Tensor:
    """`torch.nn.functional.triplet_margin_loss`; the reduction is 0 for none, 1 for the mean, 2 for the sum.

    >>> torch.triplet_margin_loss(torch.zeros(1, 1), torch.zeros(1, 1), torch.zeros(1, 1))
    tensor(1.)
    """
    losses = functional.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction="none")
    return _reduced(losses, reduction)


# --- copies of views ---------------------------------------------------------------------------------------------------


@compiled()
def detach_copy(input: Tensor) -> Tensor:
    """A copy of the elements. Gradients flow through it, as in torch.

    >>> torch.detach_copy(torch.ones(2))
    tensor([1., 1.])
    """
    return input.clone()


@compiled()
def slice_copy(input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    """A copy of a slice of one dimension.

    >>> torch.slice_copy(torch.arange(5), 0, 1, 5, 2)
    tensor([1, 3])
    """
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    return input.transpose(0, dim)[start:end:step].transpose(0, dim).clone(memory_format=torch.contiguous_format)


@compiled()
def slice_inverse(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """The tensor of which a slice is a part: a view of the memory of `input` with the sizes and strides of `src`.

    The other arguments, those of the slice, are not needed.

    >>> whole = torch.arange(6)
    >>> torch.slice_inverse(whole[1:5:2], whole, 0, 1, 5, 2)
    tensor([0, 1, 2, 3, 4, 5])
    """
    return input.as_strided(src.shape, src.stride(), src.storage_offset())


@compiled()
def view_as_real_copy(input: Tensor) -> Tensor:
    """A copy of complex numbers as pairs of real ones.

    >>> torch.view_as_real_copy(torch.tensor([1j]))
    tensor([[0., 1.]])
    """
    return torch.view_as_real(input).clone()


@compiled()
def view_as_complex_copy(input: Tensor) -> Tensor:
    """A copy of pairs of real numbers as complex ones.

    >>> torch.view_as_complex_copy(torch.tensor([[0.0, 1.0]]))
    tensor([0.+1.j])
    """
    return torch.view_as_complex(input).clone()


@compiled()
def indices_copy(input: Tensor) -> Tensor:
    """A copy of the indices of a sparse tensor.

    >>> torch.indices_copy(torch.eye(2).to_sparse())
    tensor([[0, 1],
            [0, 1]])
    """
    return input.indices().clone()


@compiled()
def values_copy(input: Tensor) -> Tensor:
    """A copy of the values of a sparse tensor.

    >>> torch.values_copy(torch.eye(2).to_sparse())
    tensor([1., 1.])
    """
    return input.values().clone()


@compiled()
def crow_indices_copy(input: Tensor) -> Tensor:
    """A copy of where each row begins in a sparse tensor that is compressed by rows.

    >>> torch.crow_indices_copy(torch.eye(2).to_sparse_csr())
    tensor([0, 1, 2])
    """
    return input.crow_indices().clone()


@compiled()
def col_indices_copy(input: Tensor) -> Tensor:
    """A copy of the column of each value in a sparse tensor that is compressed by rows.

    >>> torch.col_indices_copy(torch.eye(2).to_sparse_csr())
    tensor([0, 1])
    """
    return input.col_indices().clone()


@compiled()
def ccol_indices_copy(input: Tensor) -> Tensor:
    """A copy of where each column begins in a sparse tensor that is compressed by columns.

    >>> torch.ccol_indices_copy(torch.eye(2).to_sparse_csc())
    tensor([0, 1, 2])
    """
    return input.ccol_indices().clone()


@compiled()
def row_indices_copy(input: Tensor) -> Tensor:
    """A copy of the row of each value in a sparse tensor that is compressed by columns.

    >>> torch.row_indices_copy(torch.eye(2).to_sparse_csc())
    tensor([0, 1])
    """
    return input.row_indices().clone()


set_module("rushlight", *(value for value in list(globals().values()) if getattr(value, "__module__", "") == __name__))

# Here, because it imports functions of this module.
from rushlight.nn import functional  # noqa: E402
