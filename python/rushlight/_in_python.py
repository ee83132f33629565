"""What a function that torch writes in Python does with arguments that its operator refuses.

Such a function checks some arguments, and uses others, before or instead of the operator. A refused call is made again by
the form here. It raises torch's error, returns what torch returns, or returns `NotImplemented` if nothing before the
operator refuses the call.
"""

from __future__ import annotations

from math import log, pi, prod

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.nn._reduction import get_enum, legacy_get_string

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _word(size_average: Any, reduce: Any, reduction: Any) -> Any:
    """The reduction after the deprecated flags."""
    if size_average is None and reduce is None:
        return reduction
    return legacy_get_string(size_average, reduce, emit_warning=False)


def _reduced(loss: Any, reduction: Any) -> Any:
    if reduction == "none":
        return loss
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    raise ValueError(reduction + " is not valid")


def _check_batch(size: Any) -> None:
    if size[0] * prod(size[2:]) == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {size}")


def _pair(sizes: Any) -> Any:
    try:
        iter(sizes)
    except TypeError as error:
        if isinstance(sizes, torch.Tensor):
            raise
        del error
        return sizes, sizes
    return tuple(sizes)


def gaussian_nll_loss(
    input: Any, target: Any, var: Any, full: Any = False, eps: Any = 1e-6, reduction: Any = "mean"
) -> Any:
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * torch.ones_like(input)
    elif torch.any(var < 0):
        raise ValueError("var has negative entry/entries")
    if var.size() != input.size():
        if input.size()[:-1] == var.size():
            var = var.unsqueeze(-1)
        else:
            sizes = [of_var for own, of_var in zip(input.size(), var.size()) if own != of_var]
            if input.ndim != var.ndim or sum(sizes) != 1:
                raise ValueError("var is of incorrect size")
    if reduction != "none" and reduction != "mean" and reduction != "sum":
        raise ValueError(reduction + " is not valid")
    var = var.clone()
    with torch.no_grad():
        var.clamp_(min=eps)
    loss = 0.5 * (torch.log(var) + (input - target) ** 2 / var)
    if full:
        loss += 0.5 * log(2 * pi)
    return _reduced(loss, reduction)


def multilabel_soft_margin_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: Any = "mean",
) -> Any:
    reduction = _word(size_average, reduce, reduction)
    loss = -(target * F.logsigmoid(input) + (1 - target) * F.logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    dim = input.dim() - 1
    classes = input.size(dim)
    return _reduced(loss.sum(dim=dim) / classes, reduction)


def local_response_norm(input: Any, size: Any, alpha: Any = 1e-4, beta: Any = 0.75, k: Any = 1.0) -> Any:
    dim = input.dim()
    if dim < 3:
        gap = " " * 26
        raise ValueError(f"Expected 3D or higher dimensionality{gap}input (got {dim} dimensions)")
    if input.numel() == 0:
        return input
    squares = input.mul(input)
    if dim == 3:
        squares = F.pad(squares.unsqueeze(1), (0, 0, size // 2, (size - 1) // 2))
        means = F.avg_pool2d(squares, (size, 1), stride=1).squeeze(1)
    else:
        sizes = input.size()
        squares = squares.view(sizes[0], 1, sizes[1], sizes[2], -1)
        squares = F.pad(squares, (0, 0, 0, 0, size // 2, (size - 1) // 2))
        means = F.avg_pool3d(squares, (size, 1, 1), stride=1).squeeze(1).view(sizes)
    return input / means.mul(alpha).add(k).pow(beta)


def multi_margin_loss(
    input: Any,
    target: Any,
    p: Any = 1,
    margin: Any = 1.0,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: Any = "mean",
) -> Any:
    get_enum(_word(size_average, reduce, reduction))
    if p != 1 and p != 2:
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    return NotImplemented


def hardtanh(input: Any, min_val: Any = -1.0, max_val: Any = 1.0, inplace: Any = False) -> Any:
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return NotImplemented


def margin_ranking_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: Any = 0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: Any = "mean",
) -> Any:
    get_enum(_word(size_average, reduce, reduction))
    if input1.dim() != input2.dim() or input1.dim() != target.dim():
        sizes = f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()}"
        raise RuntimeError(
            f"margin_ranking_loss : All input tensors should have same dimension but got sizes: {sizes} "
        )
    return NotImplemented


def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: Any = 1.0,
    p: Any = 2,
    eps: Any = 1e-6,
    swap: Any = False,
    size_average: Any = None,
    reduce: Any = None,
    reduction: Any = "mean",
) -> Any:
    get_enum(_word(size_average, reduce, reduction))
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    return NotImplemented


def normalize(input: Any, p: Any = 2.0, dim: Any = 1, eps: Any = 1e-12, out: Any = None) -> Any:
    norm = input.norm(p, dim, keepdim=True)
    if out is None:
        return input / norm.clamp_min(eps).expand_as(input)
    return torch.div(input, norm.clamp_min_(eps).expand_as(input), out=out)


def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: Any = False,
    momentum: Any = 0.1,
    eps: Any = 1e-5,
) -> Any:
    if training:
        _check_batch(input.size())
        if eps <= 0.0:
            raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    elif eps < 0.0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    return NotImplemented


def instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: Any = True,
    momentum: Any = 0.1,
    eps: Any = 1e-5,
) -> Any:
    if use_input_stats and prod(input.size()[2:]) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.size()}")
    return NotImplemented


def group_norm(input: Any, num_groups: Any, weight: Any = None, bias: Any = None, eps: Any = 1e-5) -> Any:
    if input.dim() < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.dim()}")
    _check_batch([input.size(0) * input.size(1) // num_groups, num_groups, *input.size()[2:]])
    return NotImplemented


def binary_cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: Any = "mean",
) -> Any:
    get_enum(_word(size_average, reduce, reduction))
    if target.size() != input.size():
        sizes = f"Using a target size ({target.size()}) that is different to the input size ({input.size()})"
        raise ValueError(f"{sizes} is deprecated. Please ensure they have the same size.")
    if weight is not None:
        shape = torch.broadcast_shapes(target.size(), weight.size())
        weight.expand(shape)
    return NotImplemented


def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: Any = "mean",
    pos_weight: Any = None,
) -> Any:
    get_enum(_word(size_average, reduce, reduction))
    if target.size() != input.size():
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    return NotImplemented


def smooth_l1_loss(
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: Any = "mean",
    beta: Any = 1.0,
) -> Any:
    target.size(), input.size()
    reduction = _word(size_average, reduce, reduction)
    torch.broadcast_tensors(input, target)
    bool(beta == 0.0)
    get_enum(reduction)
    return NotImplemented


def grid_sample(
    input: Any, grid: Any, mode: Any = "bilinear", padding_mode: Any = "zeros", align_corners: Any = None
) -> Any:
    if mode != "bilinear" and mode != "nearest" and mode != "bicubic":
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode != "zeros" and padding_mode != "border" and padding_mode != "reflection":
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', "
            f"but got: '{padding_mode}'"
        )
    return NotImplemented


def fold(input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    return _with_pairs(F.fold, input, output_size, kernel_size, dilation, padding, stride)


def unfold(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    return _with_pairs(F.unfold, input, kernel_size, dilation, padding, stride)


def _with_pairs(function: Any, input: Any, *given: Any) -> Any:
    """The function with pairs of sizes, if they are not pairs yet."""
    pairs = [_pair(sizes) for sizes in given]
    is_listed = all(isinstance(sizes, tuple | list) for sizes in given)
    return NotImplemented if is_listed else function(input, *pairs)


def _with_flag(name: str) -> Callable[..., Any]:
    """The form of a pooling function that takes `return_indices`, which its operator does not have, and ignores it."""

    def form(
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: Any = False,
        return_indices: Any = NotImplemented,
    ) -> Any:
        if return_indices is NotImplemented:
            return NotImplemented
        return getattr(F, name)(input, kernel_size, stride, padding, dilation, ceil_mode)

    form.__name__ = form.__qualname__ = name
    return form


def adaptive_avg_pool2d(input: Any, output_size: Any) -> Any:
    return _with_listed(F.adaptive_avg_pool2d, input, output_size)


def adaptive_avg_pool3d(input: Any, output_size: Any) -> Any:
    return _with_listed(F.adaptive_avg_pool3d, input, output_size)


def adaptive_max_pool2d_with_indices(input: Any, output_size: Any, return_indices: Any = False) -> Any:
    return _with_listed(F.adaptive_max_pool2d_with_indices, input, output_size)


def adaptive_max_pool3d_with_indices(input: Any, output_size: Any, return_indices: Any = False) -> Any:
    return _with_listed(F.adaptive_max_pool3d_with_indices, input, output_size)


def _with_listed(function: Any, input: Any, output_size: Any) -> Any:
    """The function with a list of sizes, where those of the input stand for None."""
    own = input.size()
    if isinstance(output_size, int):
        return NotImplemented
    if len(own) <= len(output_size):
        raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
    rest = own[-len(output_size) :]
    sizes = [size if wanted is None else wanted for wanted, size in zip(output_size, rest)]
    is_listed = isinstance(output_size, tuple | list) and None not in output_size
    return NotImplemented if is_listed else function(input, sizes)


def norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: Any = False, out: Any = None, dtype: Any = None) -> Any:
    if input.layout != torch.strided:
        if p == "fro" and dtype is not None and out is None:
            raise ValueError("dtype argument is not supported in frobenius norm")
        return NotImplemented
    dims = [dim] if isinstance(dim, int) else dim
    more = {"dtype": dtype} if out is None else {"dtype": dtype, "out": out}
    if not isinstance(p, str):
        return torch.linalg.vector_norm(input, 2.0 if p is None else p, dims, keepdim, **more)
    if p == "fro" and (dim is None or isinstance(dim, int) or len(dim) <= 2):
        return torch.linalg.vector_norm(input, 2, dims, keepdim, **more)
    return torch.linalg.matrix_norm(input, p, list(range(input.ndim)) if dims is None else dims, keepdim, **more)


def _norm_of(self: Any, p: Any = "fro", dim: Any = None, keepdim: Any = False, dtype: Any = None) -> Any:
    return norm(self, p, dim, keepdim, dtype=dtype)


def split(tensor: Any, split_size_or_sections: Any, dim: Any = 0) -> Any:
    return NotImplemented if isinstance(tensor, torch.Tensor) else tensor.split(split_size_or_sections, dim)


def stft(
    input: Any,
    n_fft: Any,
    hop_length: Any = None,
    win_length: Any = None,
    window: Any = None,
    center: Any = True,
    pad_mode: Any = "reflect",
    normalized: Any = False,
    onesided: Any = None,
    return_complex: Any = None,
    align_to_window: Any = None,
) -> Any:
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    if center:
        dim = input.dim()
        pad = int(n_fft // 2)
        padded = F.pad(input.view([1] * (3 - dim) + list(input.size())), [pad, pad], pad_mode)
        padded.view(padded.shape[-dim:])
    return NotImplemented


def _stft_of(
    self: Any,
    n_fft: Any,
    hop_length: Any = None,
    win_length: Any = None,
    window: Any = None,
    center: Any = True,
    pad_mode: Any = "reflect",
    normalized: Any = False,
    onesided: Any = None,
    return_complex: Any = None,
    align_to_window: Any = None,
) -> Any:
    return stft(self, n_fft, center=center, pad_mode=pad_mode, align_to_window=align_to_window)


_stft_of.__name__, _stft_of.__qualname__ = "stft", "Tensor.stft"
_norm_of.__name__, _norm_of.__qualname__ = "norm", "Tensor.norm"

#: The forms, by the names of the functions and methods.
FORMS: dict[str, Callable[..., Any]] = {
    **{
        f"nn.functional.{form.__name__}": form
        for form in (
            gaussian_nll_loss,
            multilabel_soft_margin_loss,
            local_response_norm,
            multi_margin_loss,
            hardtanh,
            margin_ranking_loss,
            triplet_margin_loss,
            normalize,
            batch_norm,
            instance_norm,
            group_norm,
            binary_cross_entropy,
            binary_cross_entropy_with_logits,
            smooth_l1_loss,
            grid_sample,
            fold,
            unfold,
            adaptive_avg_pool2d,
            adaptive_avg_pool3d,
            adaptive_max_pool2d_with_indices,
            adaptive_max_pool3d_with_indices,
        )
    },
    **{
        f"nn.functional.{name}": _with_flag(name)
        for name in ("max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices")
    },
    "norm": norm,
    "split": split,
    "stft": stft,
    "Tensor.norm": _norm_of,
    "Tensor.stft": _stft_of,
}
