"""Private functions of torch's engine that libraries and old programs call, made of public ones."""

from __future__ import annotations

import rushlight as torch
from rushlight import _C
from rushlight._aten_functions import _convolution, _log_softmax, _softmax
from rushlight._compiled import compiled
from rushlight._set_module import set_module
from rushlight._value_checks import _dtype_names
from rushlight.nn.utils.weight_norm import norm_except_dim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rushlight import Generator, Tensor

__all__ = [
    "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "_aminmax", "_amp_update_scale_", "_cast_Byte", "_cast_Char", "_cast_Double",
    "_cast_Float", "_cast_Half", "_cast_Int", "_cast_Long", "_cast_Short", "_convolution", "_dim_arange", "_euclidean_dist",
    "_log_softmax", "_logcumsumexp", "_safe_softmax", "_sample_dirichlet", "_segment_reduce", "_softmax", "_stack", "_unique",
    "_weight_norm", "_weight_norm_interface",
]  # fmt: skip

_segment_reduce = torch.segment_reduce


@compiled()
def _adaptive_avg_pool2d(input: Tensor, output_size: int | Sequence[int]) -> Tensor:
    """`torch.nn.functional.adaptive_avg_pool2d`.

    >>> torch._adaptive_avg_pool2d(torch.ones(1, 2, 2), 1)
    tensor([[[1.]]])
    """
    return torch.nn.functional.adaptive_avg_pool2d(input, output_size)


@compiled()
def _adaptive_avg_pool3d(input: Tensor, output_size: int | Sequence[int]) -> Tensor:
    """`torch.nn.functional.adaptive_avg_pool3d`.

    >>> torch._adaptive_avg_pool3d(torch.ones(1, 2, 2, 2), 1)
    tensor([[[[1.]]]])
    """
    return torch.nn.functional.adaptive_avg_pool3d(input, output_size)


def _aminmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """`torch.aminmax` with its results as a plain tuple.

    >>> torch._aminmax(torch.tensor([2, 0, 1]))
    (tensor(0), tensor(2))
    """
    smallest, largest = torch.aminmax(input, dim=dim, keepdim=keepdim)
    return smallest, largest


def _amp_update_scale_(
    input: Tensor,
    growth_tracker: Tensor,
    found_inf: Tensor,
    scale_growth_factor: float,
    scale_backoff_factor: float,
    growth_interval: int,
) -> Tensor:
    """Changes the scale of a loss after a step, in place.

    Args:
        input: the scale, one element.
        growth_tracker: the number of steps with finite gradients since the last change, one element of int32.
        found_inf: not zero if a gradient was not finite. Then the scale is multiplied by ``scale_backoff_factor``.
        growth_interval: after so many finite steps the scale is multiplied by ``scale_growth_factor``, if it stays finite.

    Raises:
        RuntimeError: a tensor does not have one element, or ``growth_tracker`` is not of int32.

    >>> scale, steps = torch.tensor([4.0]), torch.tensor([0], dtype=torch.int32)
    >>> torch._amp_update_scale_(scale, steps, torch.tensor([1.0]), 2.0, 0.5, 2000)
    tensor([2.])
    """
    for name, one in {"growth_tracker": growth_tracker, "current_scale": input, "found_inf": found_inf}.items():
        if one.numel() != 1:
            raise RuntimeError(f"{name} must be a 1-element tensor.")
    if growth_tracker.dtype is not torch.int32:
        raise RuntimeError("growth_tracker must be an int tensor.")
    with torch.no_grad():
        if found_inf.item():
            growth_tracker.zero_()
            return input.mul_(scale_backoff_factor)
        if int(growth_tracker.item()) + 1 < growth_interval:
            growth_tracker.add_(1)
            return input
        growth_tracker.zero_()
        grown = input * scale_growth_factor
        return input.copy_(grown) if grown.isfinite().item() else input


def _cast(kind: str, dtype: torch.dtype) -> Callable[..., Tensor]:
    def cast(input: Tensor, non_blocking: bool = False) -> Tensor:
        return input.to(dtype, non_blocking=non_blocking)

    cast.__name__ = cast.__qualname__ = f"_cast_{kind}"
    cast.__doc__ = f"The tensor as `{dtype}`."
    return compiled()(cast)


_cast_Byte = _cast("Byte", torch.uint8)
_cast_Char = _cast("Char", torch.int8)
_cast_Short = _cast("Short", torch.int16)
_cast_Int = _cast("Int", torch.int32)
_cast_Long = _cast("Long", torch.int64)
_cast_Half = _cast("Half", torch.float16)
_cast_Float = _cast("Float", torch.float32)
_cast_Double = _cast("Double", torch.float64)


@compiled()
def _dim_arange(like: Tensor, dim: int) -> Tensor:
    """The indices of a dimension.

    >>> torch._dim_arange(torch.zeros(2, 3), 1)
    tensor([0, 1, 2])
    """
    return torch.arange(like.size(dim), device=like.device)


@compiled()
def _euclidean_dist(x1: Tensor, x2: Tensor) -> Tensor:
    """`torch.cdist` of Euclidean distances, by a product of matrices.

    >>> torch._euclidean_dist(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]))
    tensor([[5.]])
    """
    return torch.cdist(x1, x2, compute_mode="use_mm_for_euclid_dist")


@compiled()
def _logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """`torch.logcumsumexp`.

    >>> torch._logcumsumexp(torch.zeros(2), 0)
    tensor([0.0000, 0.6931])
    """
    return torch.logcumsumexp(input, dim)


@compiled()
def _safe_softmax(input: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """`torch.softmax` with zeros where all elements are minus infinity.

    >>> torch._safe_softmax(torch.tensor([[0.0, 0.0], [-torch.inf, -torch.inf]]), 1)
    tensor([[0.5000, 0.5000],
            [0.0000, 0.0000]])
    """
    masked = (input == -torch.inf).all(dim, keepdim=True)
    return torch.softmax(input, dim, dtype=dtype).masked_fill(masked, 0)


@compiled()
def _sample_dirichlet(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Vectors of a Dirichlet distribution, without a gradient; `torch.distributions.Dirichlet` has it.

    Args:
        input: the concentrations of shape (..., n).

    >>> sample = torch._sample_dirichlet(torch.tensor([1.0, 2.0]))
    >>> 0 < sample[0] < 1, sample.sum()
    (tensor(True), tensor(1.))
    """
    if not input.is_floating_point():
        raise NotImplementedError(f"\"dirichlet\" not implemented for '{_dtype_names(input.dtype)[0]}'")
    # In double precision, so that small concentrations do not only give zeros.
    drawn = _C._standard_gamma(input.detach().double(), generator)
    sample = (drawn / drawn.sum(-1, True)).to(input.dtype)
    finfo = torch.finfo(sample.dtype)
    return sample.clamp_(min=finfo.tiny, max=1 - finfo.eps / 2)


@compiled()
def _stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """`torch.stack`.

    >>> torch._stack([torch.tensor(1), torch.tensor(2)])
    tensor([1, 2])
    """
    return torch.stack(tensors, dim)


@compiled()
def _unique(input: Tensor, sorted: bool = True, return_inverse: bool = False) -> tuple[Tensor, Tensor]:
    """The distinct elements, and the place of each element among them (nothing without ``return_inverse``).

    >>> torch._unique(torch.tensor([3, 1, 3]), return_inverse=True)
    (tensor([1, 3]), tensor([1, 0, 1]))
    """
    if return_inverse:
        return torch.unique(input, sorted, True)
    return torch.unique(input, sorted), torch.empty(0, dtype=torch.int64, device=input.device)


@compiled()
def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """The directions ``v`` with the norms ``g``, one for each index of ``dim``, or one for all with -1.

    >>> torch._weight_norm(torch.tensor([[3.0, 4.0]]), torch.tensor([[10.0]]))
    tensor([[6., 8.]])
    """
    return v * (g / norm_except_dim(v, dim))


@compiled()
def _weight_norm_interface(v: Tensor, g: Tensor, dim: int = 0) -> tuple[Tensor, Tensor]:
    """`torch._weight_norm`, and the norms that ``v`` had.

    >>> torch._weight_norm_interface(torch.tensor([[3.0, 4.0]]), torch.tensor([[10.0]]))
    (tensor([[6., 8.]]), tensor([[5.]]))
    """
    norm = norm_except_dim(v, dim)
    return v * (g / norm), norm


set_module("rushlight", *(globals()[_name] for _name in __all__ if _name not in ("_segment_reduce",)))
