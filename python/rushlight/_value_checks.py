"""Operators that check values: `torch._assert_async`, `_assert_scalar`, `_assert_tensor_metadata`, `_is_all_true`. Programs that
were exported, and masks of attention in libraries, call them."""

from __future__ import annotations

import rushlight as torch
from rushlight._compiled import compiled
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor

#: torch's name of each dtype in errors, and that of its elements in C++.
_DTYPES = {
    "uint8": ("Byte", "unsigned char"),
    "int8": ("Char", "signed char"),
    "int16": ("Short", "short int"),
    "int32": ("Int", "int"),
    "int64": ("Long", "long int"),
    "uint16": ("UInt16", "short unsigned int"),
    "uint32": ("UInt32", "unsigned int"),
    "uint64": ("UInt64", "long unsigned int"),
    "float16": ("Half", "c10::Half"),
    "float32": ("Float", "float"),
    "float64": ("Double", "double"),
    "complex32": ("ComplexHalf", "c10::complex<c10::Half>"),
    "complex64": ("ComplexFloat", "c10::complex<float>"),
    "complex128": ("ComplexDouble", "c10::complex<double>"),
    "bool": ("Bool", "bool"),
    "bfloat16": ("BFloat16", "c10::BFloat16"),
}


def _dtype_names(dtype: torch.dtype) -> tuple[str, str]:
    name = str(dtype).removeprefix("torch.")
    plain = name[:1].upper() + name[1:]
    return _DTYPES.get(name, (plain, f"c10::{plain}"))


def _layout_name(layout: torch.layout) -> str:
    name = str(layout).removeprefix("torch.").replace("sparse_coo", "sparse")
    return "".join(part.capitalize() for part in name.strip("_").split("_"))


def _assert_async(input: Tensor, assert_msg: str = "Expected Tensor with single nonzero value, but got zero") -> None:
    """Raises a RuntimeError if the only element of a tensor is zero. A tensor on the device ``meta`` passes.

    >>> torch._assert_async(torch.tensor(True))
    """
    if not isinstance(input, torch.Tensor):
        raise TypeError(f"_assert_async(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    if not input.is_meta and not bool(input):
        raise RuntimeError(assert_msg)


def _assert_scalar(self: Any, assert_msg: str) -> None:
    """Raises a RuntimeError if a number is zero, and a TypeError for a tensor.

    >>> torch._assert_scalar(1, "the number is zero")
    """
    if isinstance(self, torch.Tensor):
        raise TypeError("_assert_scalar(): argument 'self' must be Number, not Tensor")
    if not self:
        raise RuntimeError(assert_msg)


def _assert_tensor_metadata(
    a: Tensor,
    size: Any = None,
    stride: Any = None,
    dtype: torch.dtype | None = None,
    *,
    device: torch.device | str | None = None,
    layout: torch.layout | None = None,
) -> None:
    """Raises a RuntimeError unless a tensor has this size, stride, dtype, device and layout.

    >>> torch._assert_tensor_metadata(torch.ones(2, 3), [2, 3], dtype=torch.float32)
    """
    for what, expected, got in (
        ("sizes", size, list(a.shape)),
        ("strides", stride, None if stride is None else list(a.stride())),
    ):
        if expected is not None and list(expected) != got:
            raise RuntimeError(f"Tensor {what} mismatch! Expected: {list(expected)}, Got: {got}")
    if dtype is not None and dtype is not a.dtype:
        raise RuntimeError(
            f"Tensor dtype mismatch! Expected: {_dtype_names(dtype)[0]}, Got: {_dtype_names(a.dtype)[1]}"
        )
    if device is not None and torch.device(device) != a.device:
        raise RuntimeError(f"Tensor device mismatch! Expected: {torch.device(device)}, Got: {a.device}")
    if layout is not None and layout is not a.layout:
        raise RuntimeError(f"Tensor layout mismatch! Expected: {_layout_name(layout)}, Got: {_layout_name(a.layout)}")


def _check_bools(name: str, input: Tensor) -> None:
    if input.dtype is not torch.bool:
        raise RuntimeError(f"{name}(): expected a tensor of bools, but got one of {input.dtype}.")


@compiled()
def _is_all_true(input: Tensor) -> Tensor:
    """Whether all elements of a bool tensor are True, as a tensor.

    Raises:
        RuntimeError: the tensor is not one of bools.

    >>> torch._is_all_true(torch.tensor([True, False]))
    tensor(False)
    """
    _check_bools("_is_all_true", input)
    return input.all()


@compiled()
def _is_any_true(input: Tensor) -> Tensor:
    """Whether an element of a bool tensor is True, as a tensor.

    Raises:
        RuntimeError: the tensor is not one of bools.

    >>> torch._is_any_true(torch.tensor([True, False]))
    tensor(True)
    """
    _check_bools("_is_any_true", input)
    return input.any()


@compiled()
def _has_compatible_shallow_copy_type(input: Tensor, from_: Tensor) -> bool:
    """Whether ``input.data = from_`` keeps the kind of tensor: both strided, or both sparse in the same way.

    >>> x = torch.ones(2)
    >>> torch._has_compatible_shallow_copy_type(x, x.double()), torch._has_compatible_shallow_copy_type(x, x.to_sparse())
    (True, False)
    """
    compressed = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
    kinds = [2 if one.layout in compressed else int(one.layout == torch.sparse_coo) for one in (input, from_)]
    return kinds[0] == kinds[1] and input.is_quantized == from_.is_quantized


for _function in (
    _assert_async,
    _assert_scalar,
    _assert_tensor_metadata,
    _has_compatible_shallow_copy_type,
    _is_all_true,
    _is_any_true,
):
    set_module("rushlight", _function)
