"""Resizing of images: each result is a weighted mean of a few neighbours, one dimension at a time.

The weights of one dimension do not depend on the others, so that three dimensions are three passes. The functions are
part of `torch.nn.functional`.
"""

from __future__ import annotations

import math
import operator
from numbers import Integral

import rushlight as torch
from rushlight import _C
from rushlight._C import _Signatures
from rushlight._functions import nn_functional as _nn
from rushlight._overridable import overridable
from rushlight._warnings import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rushlight import Tensor

#: The number of dimensions of the input for modes that accept only one.
_RANKS = {"linear": 3, "bilinear": 4, "bicubic": 4, "trilinear": 5, "lanczos": 4}
_BLOCKS = ("nearest", "nearest-exact", "area")
#: torch's signatures of the other modes.
_ALIGNED = (
    "Tensor input, int[] output_size, bool align_corners, float? scales=None",
    "Tensor input, int[]? output_size, bool align_corners, float[]? scale_factors",
)
#: The number of neighbours with a weight when the image does not shrink, for modes that support antialiasing.
_REACH = {"bilinear": 2, "bicubic": 4, "lanczos": 6}


@overridable
def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resizes an input ``(N, C, *)`` to the given spatial sizes, or by the given scale factors.

    Args:
        mode: ``"nearest"``, ``"nearest-exact"``, ``"area"``, or ``"linear"``, ``"bilinear"``, ``"bicubic"``, ``"trilinear"``,
            ``"lanczos"`` for inputs of their rank.
        align_corners: whether the corners of input and result are aligned, for linear and cubic modes.
        recompute_scale_factor: whether to recompute the scale factors from the rounded sizes.
        antialias: whether to use all input elements when an image shrinks, for bilinear and bicubic modes; lanczos
            always does.

    Raises:
        ValueError: neither or both of ``size`` and ``scale_factor`` are given, or they have the wrong number of dimensions.
        NotImplementedError: the mode does not support this number of dimensions.

    >>> torch.nn.functional.interpolate(torch.tensor([[[1.0, 3.0]]]), scale_factor=2, mode="linear")
    tensor([[[1.0000, 1.5000, 2.5000, 3.0000]]])
    """
    if not isinstance(mode, str):
        mode = repr(mode)  # equal to no mode, and shown so
    if mode in _BLOCKS and align_corners is not None:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"
        )
    dimensions, asked = input.dim() - 2, size
    size, factors = _sizes(input, dimensions, size, scale_factor, mode)
    if recompute_scale_factor and factors is None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if antialias and not (mode in _REACH and input.dim() == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input"
        )
    if size is None:
        assert factors is not None
        lengths = [float(n) * factor for n, factor in zip(input.shape[2:], factors)]
        in_python = recompute_scale_factor or mode == "area"
        if not in_python and not all(-(2.0**63) <= length < 2.0**63 for length in lengths):
            raise RuntimeError("value cannot be converted to type int64_t without overflow")
        size = [math.floor(length) for length in lengths]
        if recompute_scale_factor:
            factors = None
    for place, length in enumerate(size):
        if not -(2**63) <= length < 2**63:
            raise TypeError(
                f"{_kernel(mode, dimensions)}(): argument 'output_size' failed to unpack the object at pos {place + 1} with "
                'error "Overflow when unpacking long long'
            )
    if align_corners is not None and type(align_corners) is not bool:
        name = _kernel(mode, dimensions)
        given = (input, size if isinstance(asked, int) else asked, align_corners, factors)
        _Signatures(f"_{name}_aa" if antialias else name, _ALIGNED, False).check(given, {})
    _check_mode(input, mode, bool(align_corners), antialias)
    if mode == "area":
        pooling = (_nn.adaptive_avg_pool1d, _nn.adaptive_avg_pool2d, _nn.adaptive_avg_pool3d)[dimensions - 1]
        return pooling(input, size)
    _check(input, size)
    if input.element_size() * math.prod((*input.shape[:2], *size)) >= 2**63:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={[*input.shape[:2], *size]}")
    if input.is_quantized:
        return _quantized(input, size, factors, mode, bool(align_corners), antialias)
    if input.is_cuda and torch.is_autocast_enabled("cuda") and input.dtype in (torch.float16, torch.bfloat16):
        input = input.float()  # one of torch's functions that need the range, on GPUs alone
    if not antialias:
        _check_dtype(input, mode)
    align = bool(align_corners)
    return _C._as_one_node(
        _node(mode, dimensions, antialias),
        lambda x: _interpolated(x, size, factors, mode, align, antialias),
        input,
        True,
        mode != "bicubic",
    )


def _node(mode: str, dimensions: int, antialias: bool) -> str:
    """The name of the graph node."""
    kind = "".join(word.capitalize() for word in mode.split("-"))
    return f"Upsample{kind}{dimensions}D{'Aa' if antialias else ''}Backward0"


def _interpolated(
    input: Tensor, size: list[int], factors: list[float] | None, mode: str, align: bool, antialias: bool
) -> Tensor:
    result = input
    axes = list(enumerate(size))
    # Bytes are rounded after each dimension, so that the order of dimensions matters.
    if antialias:  # a dimension that already has its size is not changed, for any scale factor
        axes = [(axis, wanted) for axis, wanted in axes if wanted != input.shape[axis + 2]]
    for axis, wanted in reversed(axes) if antialias or _is_fixed(input, mode) else axes:
        given = None if factors is None else factors[axis]
        result = _resized(result, axis + 2, wanted, given, mode, align, antialias)
    if result is input:
        return result.clone()
    # With one channel an order may be right without saying so in its strides.
    order = _format(input)
    return result.contiguous(memory_format=order).to(memory_format=order)


def _quantized(
    input: Tensor, size: list[int], factors: list[float] | None, mode: str, align: bool, antialias: bool
) -> Tensor:
    """The integers are resized; means of them are rounded."""
    dimensions = len(size)
    if antialias or not ((mode.startswith("nearest") and dimensions > 1) or mode == "bilinear"):
        kernel = f"_{_kernel(mode, dimensions)}_aa" if antialias else _kernel(mode, dimensions)
        raise NotImplementedError(
            f"Could not run 'aten::{kernel}.out' with arguments from the 'QuantizedCPU' backend. This could be because the "
            "operator doesn't exist for this backend, or was omitted during the selective/custom build process (if using "
            "custom build)."
        )
    if input.qscheme() is not torch.per_tensor_affine:
        raise RuntimeError(
            "Expected quantizer->qscheme() == kPerTensorAffine to be true, but got false.  (Could this error message be "
            "improved?  If so, please report an enhancement request to PyTorch.)"
        )
    integers, zero_point = input.int_repr(), input.q_zero_point()
    if mode == "bilinear":
        means = integers.to(torch.float32)
        for axis in (1, 0):
            given = None if factors is None else factors[axis]
            means = _resized(means, axis + 2, size[axis], given, mode, align, False)
        means = means.contiguous(memory_format=_format(input)) - zero_point
        result = torch.quantize_per_tensor(means, 1.0, zero_point, input.dtype).int_repr()
    else:
        result = _interpolated(integers, size, factors, mode, align, False)
    return torch._make_per_tensor_quantized_tensor(result, input.q_scale(), zero_point)


def upsample(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Deprecated: use `interpolate`.

    >>> torch.nn.functional.upsample(torch.tensor([[[1.0, 3.0]]]), scale_factor=2)
    tensor([[[1., 1., 3., 3.]]])
    """
    warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(
    input: Tensor, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """`interpolate` with ``mode="nearest"``. Deprecated.

    >>> torch.nn.functional.upsample_nearest(torch.tensor([[[1.0, 3.0]]]), scale_factor=2)
    tensor([[[1., 1., 3., 3.]]])
    """
    warn("`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(
    input: Tensor, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """`interpolate` with ``mode="bilinear"`` and ``align_corners=True``. Deprecated.

    >>> torch.nn.functional.upsample_bilinear(torch.zeros(1, 1, 2, 2), scale_factor=2).shape
    torch.Size([1, 1, 4, 4])
    """
    warn("`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def _sizes(
    input: Tensor,
    dimensions: int,
    size: int | Sequence[int] | None,
    scale_factor: float | Sequence[float] | None,
    mode: str,
) -> tuple[list[int] | None, list[float] | None]:
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is not None:
        if not isinstance(size, (list, tuple)):
            return [_length(size, mode, dimensions)] * dimensions, None
        if len(size) != dimensions:
            raise ValueError(
                "Input and output must have the same number of spatial dimensions, but got input with spatial dimensions of "
                f"{list(input.shape[2:])} and output size of {size}. Please provide input tensor in (N, C, d1, d2, ...,dK) "
                "format and output size in (o1, o2, ...,oK) format."
            )
        if not all(isinstance(length, Integral) or _is_whole(length) for length in size):
            raise TypeError(
                "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, int], but got size with "
                f"types {[type(length) for length in size]}"
            )
        if isinstance(size[0], bool):  # torch looks at the first length only
            raise _mismatch(mode, dimensions, f"{type(size).__name__}, NoneType", size[0])
        return list(map(operator.index, size)), None
    if scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    if not isinstance(scale_factor, (list, tuple)):
        if not isinstance(scale_factor, (int, float)):
            raise _mismatch(mode, dimensions, "NoneType, list")
        return None, [scale_factor] * dimensions
    if len(scale_factor) != dimensions:
        raise ValueError(
            "Input and scale_factor must have the same number of spatial dimensions, but got input with spatial dimensions of "
            f"{list(input.shape[2:])} and scale_factor of shape {scale_factor}. Please provide input tensor in "
            "(N, C, d1, d2, ...,dK) format and scale_factor in (s1, s2, ...,sK) format."
        )
    if not all(isinstance(factor, (int, float)) for factor in scale_factor):
        raise _mismatch(mode, dimensions, f"NoneType, {type(scale_factor).__name__}")
    return None, list(scale_factor)


def _is_whole(length: object) -> bool:
    return isinstance(length, torch.Tensor) and not (length.is_floating_point() or length.is_complex())


def _length(size: object, mode: str, dimensions: int) -> int:
    """Converts one length for all dimensions to an index. Booleans raise an error."""
    try:
        if not isinstance(size, bool):
            return operator.index(size)  # type: ignore[arg-type]
    except TypeError:
        pass
    raise _mismatch(mode, dimensions, "list, NoneType", size)


def _kernel(mode: str, dimensions: int) -> str:
    """torch's function of a mode and a number of dimensions."""
    if mode == "area":
        return f"adaptive_avg_pool{dimensions}d"
    return f"{'_' if mode == 'nearest-exact' else ''}upsample_{mode.replace('-', '_')}{dimensions}d"


def _mismatch(mode: str, dimensions: int, given: str, wrong: object = None) -> TypeError:
    """The error for lengths or factors that are no numbers; `wrong` is the first wrong length."""
    if mode == "area" and wrong is not None:
        return TypeError(
            f"{_kernel(mode, dimensions)}(): argument 'output_size' (position 2) must be tuple of ints, but found element of "
            f"type {type(wrong).__name__} at pos 0"
        )
    if wrong is not None and mode not in _BLOCKS:
        kind, _, factors = given.partition(", ")
        given = f"{kind}, bool, {factors}"
    return TypeError(
        f"{_kernel(mode, dimensions)}() received an invalid combination of arguments - got (Tensor, {given}), but expected "
        "one of:\n * (Tensor input, tuple of ints output_size, tuple of floats scale_factors)"
    )


def _check_dtype(input: Tensor, mode: str) -> None:
    rank, block = input.dim(), mode in _BLOCKS
    if input.is_floating_point() or (input.dtype == torch.uint8 and (block or rank == 4)):
        return
    kind = "nearest" if block else mode
    if rank == 4 and mode != "bicubic":
        kernel = f"upsample_{kind}2d_channels_last"
    elif rank == 5 and input.shape[1] > 3 and _C._has_channels_last(input):
        kernel = f"upsample_{kind}3d_channels_last"
    else:
        kernel = f"compute_indices_weights_{'nearest' if block else 'cubic' if mode == 'bicubic' else 'linear'}"
    raise _not_implemented(kernel, input)


def _not_implemented(kernel: str, input: Tensor) -> NotImplementedError:
    kind = torch.empty(0, dtype=input.dtype).type().removeprefix("torch.").removesuffix("Tensor")
    return NotImplementedError(f"\"{kernel}\" not implemented for '{kind}'")


def _check_mode(input: Tensor, mode: str, align_corners: bool, antialias: bool) -> None:
    rank = input.dim()
    if 3 <= rank <= 5 and (mode in _BLOCKS or rank == _RANKS.get(mode)):
        if mode == "lanczos" and align_corners:
            raise ValueError("Lanczos mode does not support align_corners=True")
        if mode == "lanczos" and not antialias:
            raise ValueError("Lanczos mode requires antialias=True")
        if antialias and not (input.is_floating_point() or input.is_quantized or input.dtype == torch.uint8):
            raise _not_implemented("compute_index_ranges_weights", input)
    elif 3 <= rank <= 5 and "linear" in mode and mode in _RANKS:
        raise NotImplementedError(f"Got {rank}D input, but {mode} mode needs {_RANKS[mode]}D input")
    else:
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {rank}D) for the modes: nearest | linear | "
            f"bilinear | bicubic | trilinear | lanczos | area | nearest-exact (got {mode})"
        )


def _format(input: Tensor) -> torch.memory_format:
    """The memory order that the result takes from the input's strides."""
    if not _C._has_channels_last(input):
        return torch.contiguous_format
    return torch.channels_last if input.dim() == 4 else torch.channels_last_3d


def _check(input: Tensor, size: Sequence[int]) -> None:
    if min(*size, *input.shape[2:]) <= 0:
        names = "DHW"[3 - len(size) :]
        have, want = (", ".join(map("{}: {}".format, names, sizes)) for sizes in (input.shape[2:], size))
        joint = " and" if len(size) == 1 else ""
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input ({have}){joint} output ({want})"
        )
    if min(input.shape[1:]) == 0:
        raise RuntimeError(
            f"Non-empty {input.dim()}D data tensor expected but got a tensor with sizes {list(input.shape)}"
        )


def _resized(
    input: Tensor, dim: int, wanted: int, factor: float | None, mode: str, align: bool, antialias: bool
) -> Tensor:
    """Resizes dimension ``dim`` to ``wanted`` elements."""
    have = input.shape[dim]
    last = have - 1
    if mode.startswith("nearest"):
        if wanted == have and factor in (None, 1):
            return input.clone() if dim == 2 else input
        scale = have / wanted if factor is None else 1 / factor
        places = torch.arange(wanted, dtype=torch.float32, device=input.device)
        places = (places + 0.5) * scale if mode == "nearest-exact" else places * scale
        near = places.floor().to(torch.int64).clamp(max=last)
        if not input.is_floating_point():
            return input.index_select(dim, near)
        return _C._taps(input, dim, near.unsqueeze(1), torch.ones(wanted, 1, device=input.device))
    fixed = _is_fixed(input, mode)
    exact = torch.float64 if fixed or input.dtype == torch.float64 else torch.float32
    places = torch.arange(wanted, dtype=exact, device=input.device)
    if align:
        scale = last / (wanted - 1) if wanted > 1 else 0.0
    else:
        scale = have / wanted if factor is None else 1 / factor
    if antialias:
        taps, weights = _antialiased_taps(places, scale, have, mode)
    else:
        taps, weights = _nearest(places, scale, last, mode, align)
    if fixed:
        shape = [1] * input.dim()
        shape[dim] = wanted
        return _byte_means(input, dim, taps, [weight.reshape(shape) for weight in weights])
    return _C._taps(input, dim, torch.stack(taps, 1), torch.stack(weights, 1))


def _nearest(places: Tensor, scale: float, last: int, mode: str, align: bool) -> tuple[list[Tensor], list[Tensor]]:
    """The two or four neighbours of each position, and their weights."""
    places = places * scale if align else (places + 0.5) * scale - 0.5
    if not align and mode != "bicubic":
        places = places.clamp(min=0)
    before = places.floor().clamp(max=last)
    share = (places - before).clamp(0, 1)
    first = before.to(torch.int64)
    if mode == "bicubic":
        return [(first + offset).clamp(0, last) for offset in (-1, 0, 1, 2)], _cubic(share)
    return [first, (first + 1).clamp(max=last)], [1 - share, share]


def _antialiased_taps(places: Tensor, scale: float, have: int, mode: str) -> tuple[list[Tensor], list[Tensor]]:
    """All neighbours of each position when an image shrinks, and their weights, padded with zeros."""
    wide = torch.tensor(scale, dtype=places.dtype).clamp(min=1)
    reach = wide * (_REACH[mode] * 0.5)
    middle = (places + 0.5) * scale
    first = (middle - reach + 0.5).trunc().clamp(min=0)
    end = (middle + reach + 0.5).trunc().clamp(max=have)
    count = int((end - first).max())
    taps = [first + number for number in range(count)]
    narrow = 1 / wide
    weights = [torch.where(tap < end, _kernel_weight((tap - middle + 0.5) * narrow, mode), 0) for tap in taps]
    total = sum(weights[1:], weights[0])
    return [tap.clamp(max=have - 1).to(torch.int64) for tap in taps], [weight / total for weight in weights]


def _kernel_weight(x: Tensor, mode: str) -> Tensor:
    """The weight of an element at a distance."""
    x = x.abs()
    if mode == "bilinear":
        return (1 - x).clamp(min=0)
    if mode == "bicubic":
        return torch.where(x < 1, _inner(x, -0.5), torch.where(x < 2, _outer(x, -0.5), 0))
    return torch.where(x < 3, x.sinc() * (x / 3).sinc(), 0)


def _is_fixed(input: Tensor, mode: str) -> bool:
    return input.dtype == torch.uint8 and mode in _REACH


def _byte_means(input: Tensor, dim: int, taps: list[Tensor], weights: list[Tensor]) -> Tensor:
    """Weighted means of bytes in torch's arithmetic: 16-bit fixed-point weights with as many fractional bits as fit."""
    shape = weights[0].shape
    for at in range(len(taps) - 1):
        # At the border several taps are the same element, so that their weights are added.
        same = (taps[at] == taps[at + 1]).reshape(shape)
        weights[at + 1] = weights[at + 1] + torch.where(same, weights[at], 0)
        weights[at] = torch.where(same, 0, weights[at])
    top = max(float(weight.max()) for weight in weights)
    bits = next(bits for bits in range(23) if bits == 22 or int(0.5 + top * 2 ** (bits + 1)) >= 2**15)
    whole = [(weight.abs() * 2**bits + 0.5).floor().copysign(weight).to(torch.int32) for weight in weights]
    total = sum(
        (input.index_select(dim, tap).to(torch.int32) * weight for tap, weight in zip(taps, whole)),
        start=torch.tensor(2**bits // 2, dtype=torch.int32),
    )
    return (total >> bits).clamp(0, 255).to(torch.uint8)


def _cubic(t: Tensor) -> list[Tensor]:
    """The weights of four neighbours for a position ``t`` between the middle two (Keys' cubic kernel)."""
    return [_outer(t + 1, -0.75), _inner(t, -0.75), _inner(1 - t, -0.75), _outer(2 - t, -0.75)]


def _inner(x: Tensor, a: float) -> Tensor:
    return ((a + 2) * x - (a + 3)) * x * x + 1


def _outer(x: Tensor, a: float) -> Tensor:
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
