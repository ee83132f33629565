"""Products of several groups of matrices, of 8-bit floats with the factors that were divided out of them, and of 8-bit integers.

They are products of matrices of wider numbers.
"""

from __future__ import annotations

from enum import IntEnum

import rushlight as torch
from rushlight._compiled import compiled
from rushlight._overridable import overridable
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

    from rushlight import Tensor

__all__ = ["ScalingType", "SwizzleType", "grouped_mm", "scaled_grouped_mm", "scaled_mm"]


class ScalingType(IntEnum):
    """Which elements of a matrix have a common factor; CPUs support the first two.

    >>> torch.nn.functional.ScalingType.RowWise.name
    'RowWise'
    """

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(IntEnum):
    """How a matrix of factors lies in memory; CPUs support row-major matrices alone.

    >>> torch.nn.functional.SwizzleType.NO_SWIZZLE.value
    0
    """

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


def _check_matrices(name: str, matrix: Tensor) -> None:
    if matrix.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        shown = matrix.type().removeprefix("torch.").removesuffix("Tensor")
        raise RuntimeError(f"Expected {name} to be Float32, BFloat16 or Float16 matrix, got {shown}")


def _check_strides(matrix: Tensor) -> None:
    (rows, columns), (down, across) = matrix.shape[-2:], matrix.stride()[-2:]
    if down == 1 and across >= max(1, rows):
        line = across
    elif across == 1 and down >= max(1, columns):
        line = down
    else:
        raise RuntimeError(
            f"Invalid strides/sizes, got {list(matrix.stride())} for strides and {list(matrix.shape)} for sizes"
        )
    if line * matrix.element_size() % 16:
        raise RuntimeError("strides should be multiple of 16 bytes")


@overridable
def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """Multiplies the matrices of each of several groups.

    Two batches of matrices are multiplied pair by pair. In a single matrix the groups are consecutive: rows of
    ``mat_a`` or columns of ``mat_b`` for a matrix with a batch, and the summed dimension for two matrices.

    Args:
        mat_a: ``(groups, M, K)``, or ``(M, K)`` for all groups together.
        mat_b: ``(groups, K, N)``, or ``(K, N)`` for all groups together.
        offs: an int32 vector with the end of each group, if an operand is a single matrix. Elements of the result beyond
            the last group are zero.
        bias: must be None.
        out_dtype: None or the dtype of ``mat_a``.

    Raises:
        RuntimeError: the operands do not fit, or are neither float32 nor half types.

    >>> rows, weights = torch.ones(3, 4), torch.ones(2, 4, 4) * torch.tensor([1.0, 2.0]).view(2, 1, 1)
    >>> torch.nn.functional.grouped_mm(rows, weights, offs=torch.tensor([1, 3], dtype=torch.int32))[:, 0]
    tensor([4., 8., 8.])
    """
    return _grouped_mm(mat_a, mat_b, offs=offs, bias=bias, out_dtype=out_dtype)


def _multiplied(
    mat_a: Tensor, mat_b: Tensor, offs: Tensor | None, bias: Tensor | None, out_dtype: torch.dtype | None
) -> Tensor:
    _check_matrices("mat_a", mat_a)
    _check_matrices("mat_b", mat_b)
    for name, matrix in (("mat_a", mat_a), ("mat_b", mat_b)):
        if matrix.dim() not in (2, 3):
            raise RuntimeError(f"{name} has to be 2 or 3d")
    ranks = (mat_a.dim(), mat_b.dim())
    if 3 in ranks and mat_a.size(-1) != mat_b.size(-2):
        raise RuntimeError("contraction dimension of mat_a and mat_b must match")
    _check_strides(mat_a)
    _check_strides(mat_b)
    if (offs is None) != (ranks == (3, 3)):
        raise RuntimeError("Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d")
    if offs is not None and offs.dim() != 1:
        raise RuntimeError("offs has to be 1D")
    if offs is not None and offs.dtype != torch.int32:
        raise RuntimeError("Offsets have to be int32")
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    if out_dtype not in (None, mat_a.dtype):
        raise RuntimeError("Grouped gemm output dtype must match `mat_a` dtype")
    if offs is None:
        if mat_a.size(0) != mat_b.size(0):
            raise RuntimeError("batched dimension has to match")
        return torch.bmm(mat_a, mat_b)
    batch = mat_b if ranks == (2, 3) else mat_a
    if ranks != (2, 2) and batch.size(0) != offs.size(0):
        raise RuntimeError("matrix batch sizes have to match")
    ends = offs.tolist()
    parts = [slice(start, end) for start, end in zip([0, *ends], ends)]
    if ranks == (2, 2):
        return torch.stack([mat_a[:, part] @ mat_b[part] for part in parts])
    if ranks == (2, 3):
        products, rest, dim = [mat_a[part] @ mat_b[group] for group, part in enumerate(parts)], mat_a.size(0), 0
    else:
        products, rest, dim = [mat_a[group] @ mat_b[:, part] for group, part in enumerate(parts)], mat_b.size(1), 1
    done = sum(product.size(dim) for product in products)
    shape = [mat_a.size(-2), mat_b.size(-1)]
    shape[dim] = max(rest - done, 0)
    return torch.cat([*products, mat_a.new_zeros(shape)], dim)


@compiled()
def _grouped_mm(
    input: Tensor,
    mat2: Tensor,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """`torch.nn.functional.grouped_mm`, by its older name.

    >>> torch._grouped_mm(torch.ones(2, 3, 4), torch.ones(2, 4, 4)).shape
    torch.Size([2, 3, 4])
    """
    return _multiplied(input, mat2, offs, bias, out_dtype)


def _refuse(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor) -> NoReturn:
    def shown(name: str, tensor: Tensor, layout: bool) -> str:
        text = f"{name}.dtype()={tensor.type().removeprefix('torch.').removesuffix('Tensor')}"
        return (
            f"{text}, {name}.size()={list(tensor.shape)}, {name}.stride()={list(tensor.stride())}" if layout else text
        )

    parts = [shown("mat_a", a, False), shown("scale_a", scale_a, True), shown("mat_b", b, False)]
    last = shown("scale_b", scale_b, True).rpartition(", ")
    raise ValueError(
        "Invalid scaling configuration.\n"
        "- For TensorWise scaling, a and b should be float8, scales should be float and singletons.\n"
        f"- For RowWise scaling, a and b should be float8, scales should be float, scale_a should be ({a.size(0)}, 1) and "
        f"scale_b should be (1, {b.size(1)}), and both should be contiguous.\n"
        f"Got {', '.join(parts)}, {last[0]} and {last[2]}"
    )


@compiled()
def _int_mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of two matrices of 8-bit integers, with sums of 32 bits.

    >>> x = torch.full((2, 2), 100, dtype=torch.int8)
    >>> torch._int_mm(x, x)
    tensor([[20000, 20000],
            [20000, 20000]], dtype=torch.int32)
    """

    def expect(holds: bool, sentence: str) -> None:
        if not holds:
            raise RuntimeError(f"int_mm_out_cpu: {sentence}")

    expect(input.dim() == 2, f"Expected self to be of dimension 2 but got {input.dim()}")
    expect(mat2.dim() == 2, f"Expected mat2 to be of dimension 2 but got {mat2.dim()}")
    (rows, inner), (other, columns) = input.shape, mat2.shape
    expect(inner == other, f"self.size(1) needs to match mat2.size(0) but got {inner} and {other}")
    eight_bits = (torch.int8, torch.uint8)
    expect(input.dtype in eight_bits, f"Expected self dtype to be int8 or uint8 but got {_c_name(input)}")
    expect(mat2.dtype == torch.int8, f"Expected mat2 dtype to be of type int8 but got {_c_name(mat2)}")
    if out is not None:
        expect(out.dtype == torch.int32, f"Expected result dtype to be of type kInt but got {_c_name(out)}")
        expect(out.size(0) == rows, f"Expected result.size(0) to be {rows} but got {out.size(0)}")
        expect(out.size(1) == columns, f"Expected result.size(1) to be {columns} but got {out.size(1)}")
    return torch.mm(input.to(torch.int32), mat2.to(torch.int32), out=out)


def _c_name(tensor: Tensor) -> str:
    """What C++ calls a dtype."""
    name = str(tensor.dtype).removeprefix("torch.")
    names = {"uint8": "unsigned char", "int8": "signed char", "int16": "short int", "int32": "int", "int64": "long int"}
    return {**names, "float32": "float", "float64": "double"}.get(name, name)


@compiled()
def _scaled_mm(
    input: Tensor,
    mat2: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None = None,
    scale_result: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> Tensor:
    """The product of two matrices of 8-bit floats, each multiplied by its factors first; rounded once.

    >>> x = torch.ones(2, 2).to(torch.float8_e5m2)
    >>> torch._scaled_mm(x, x, torch.tensor(0.5), torch.tensor(1.0), out_dtype=torch.float32)
    tensor([[1., 1.],
            [1., 1.]])
    """
    for name, matrix in (("mat1", input), ("mat2", mat2)):
        if matrix.dim() != 2:
            raise RuntimeError(f"{name} must be a matrix")
    (rows, inner), (other, columns) = input.shape, mat2.shape
    if inner != other:
        raise RuntimeError(f"mat_a and mat_b shapes cannot be multiplied ({rows}x{inner} and {other}x{columns})")
    scales = (scale_a, scale_b)
    eight_bits = all(matrix.dtype.itemsize == 1 and matrix.is_floating_point() for matrix in (input, mat2))
    whole = all(scale.numel() == 1 for scale in scales)
    by_row = tuple(scale_a.shape) == (rows, 1) and tuple(scale_b.shape) == (1, columns)
    by_row = by_row and all(scale.is_contiguous() for scale in scales)
    if not eight_bits or any(scale.dtype != torch.float32 for scale in scales) or not (whole or by_row):
        _refuse(input, mat2, scale_a, scale_b)
    if bias is not None and bias.numel() != columns:
        raise RuntimeError(f"Bias must be size {columns} but got {bias.numel()}")
    if whole:
        scale_a, scale_b = scale_a.view(()), scale_b.view(())
    product = (input.float() * scale_a) @ (mat2.float() * scale_b)
    if bias is not None:
        product = product + bias.float()
    dtype = input.dtype if out_dtype is None else out_dtype
    if scale_result is not None and dtype.itemsize == 1 and dtype.is_floating_point:
        product = product / scale_result
    return product.to(dtype)


def _listed(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]


@overridable
def scaled_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    scale_a: Tensor | list[Tensor],
    scale_recipe_a: ScalingType | list[ScalingType],
    scale_b: Tensor | list[Tensor],
    scale_recipe_b: ScalingType | list[ScalingType],
    swizzle_a: SwizzleType | list[SwizzleType] | None = None,
    swizzle_b: SwizzleType | list[SwizzleType] | None = None,
    bias: Tensor | None = None,
    output_dtype: torch.dtype | None = torch.bfloat16,
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
) -> Tensor:
    """Multiplies matrices of 8-bit floats, each multiplied by its factors.

    Args:
        mat_a: ``(M, K)``.
        mat_b: ``(K, N)``.
        scale_a: the factor of ``mat_a`` in float32, or one for each row, ``(M, 1)``.
        scale_recipe_a: ``TensorWise`` or ``RowWise``.
        scale_b: the factor of ``mat_b`` in float32, or one for each column, ``(1, N)``.
        scale_recipe_b: as ``scale_recipe_a``.
        swizzle_a: ``NO_SWIZZLE`` or None.
        swizzle_b: as ``swizzle_a``.
        bias: N numbers that are added.
        output_dtype: the dtype of the result; None for that of ``mat_a``.
        contraction_dim: not used on CPUs.
        use_fast_accum: not used on CPUs.

    Raises:
        ValueError: the factors do not fit the matrices, or have another form than CPUs support.

    >>> F = torch.nn.functional
    >>> x, half = torch.ones(2, 2).to(torch.float8_e5m2), torch.tensor(0.5)
    >>> F.scaled_mm(x, x, half, F.ScalingType.TensorWise, half, F.ScalingType.TensorWise)
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]], dtype=torch.bfloat16)
    """
    if any(swizzle != SwizzleType.NO_SWIZZLE for swizzle in (*_listed(swizzle_a), *_listed(swizzle_b))):
        raise ValueError("CPU does not support swizzle.")
    if mat_a.dim() == mat_b.dim() == 2 and mat_a.size(1) != mat_b.size(0):
        shapes = f"{mat_a.size(0)}x{mat_a.size(1)} and {mat_b.size(0)}x{mat_b.size(1)}"
        raise ValueError(f"mat_a and mat_b shapes cannot be multiplied ({shapes})")
    factors = [_listed(scale_a), _listed(scale_b)]
    first, second = factors[0][0], factors[1][0]
    recipes = [_listed(scale_recipe_a), _listed(scale_recipe_b)]
    known = (ScalingType.TensorWise, ScalingType.RowWise)
    if any(len(one) != 1 for one in (*factors, *recipes)) or recipes[0] != recipes[1] or recipes[0][0] not in known:
        _refuse(mat_a, mat_b, first, second)
    if recipes[0][0] == ScalingType.TensorWise:
        for name, scale in (("scale_a", first), ("scale_b", second)):
            if scale.numel() != 1 or scale.dtype != torch.float32:
                raise ValueError(f"{name} must have 1 Float element")
    return _scaled_mm(mat_a, mat_b, first, second, bias, None, output_dtype, use_fast_accum)


@overridable
def scaled_grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    scale_a: Tensor | list[Tensor],
    scale_recipe_a: ScalingType | list[ScalingType],
    scale_b: Tensor | list[Tensor],
    scale_recipe_b: ScalingType | list[ScalingType],
    swizzle_a: SwizzleType | list[SwizzleType] | None = None,
    swizzle_b: SwizzleType | list[SwizzleType] | None = None,
    bias: Tensor | None = None,
    offs: Tensor | None = None,
    output_dtype: torch.dtype | None = torch.bfloat16,
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
) -> Tensor:
    """`grouped_mm` of matrices of 8-bit floats on a GPU, with a factor for each row of ``mat_a`` and column of ``mat_b``.

    Args:
        mat_a: ``(groups, M, K)``, or ``(M, K)`` for all groups together.
        mat_b: ``(groups, K, N)``, or ``(K, N)`` for all groups together.
        scale_a: float32 factors ``(groups, M)`` or ``(M,)``; ``(groups * M,)`` for two single matrices.
        scale_recipe_a: ``RowWise``.
        scale_b: float32 factors ``(groups, N)`` or ``(N,)``; ``(groups * N,)`` for two single matrices.
        scale_recipe_b: ``RowWise``.
        swizzle_a, swizzle_b: ``NO_SWIZZLE`` or None.
        bias: must be None.
        offs: an int32 vector with the end of each group, if an operand is a single matrix.
        output_dtype: the dtype of the result.
        contraction_dim, use_fast_accum: accepted; they have no effect.

    Raises:
        NotImplementedError: the tensors are on the CPU.
        ValueError: the matrices are no 8-bit floats, or the factors have another form.

    >>> F = torch.nn.functional
    >>> try:
    ...     x, ones = torch.ones(1, 16, 16).to(torch.float8_e4m3fn), torch.ones(1, 16)
    ...     F.scaled_grouped_mm(x, x, ones, F.ScalingType.RowWise, ones, F.ScalingType.RowWise)
    ... except NotImplementedError as error:
    ...     print(str(error).partition(" with arguments")[0])
    Could not run 'aten::_scaled_grouped_mm_v2'
    """
    recipes = [recipe.value for recipe in (*_listed(scale_recipe_a), *_listed(scale_recipe_b))]
    if mat_a.is_cpu:
        raise NotImplementedError(
            "Could not run 'aten::_scaled_grouped_mm_v2' with arguments from the 'CPU' backend. This could be because the "
            "operator doesn't exist for this backend, or was omitted during the selective/custom build process (if using "
            "custom build).\n  Only GPUs have it: multiply by the factors and call grouped_mm."
        )
    scales = [*_listed(scale_a), *_listed(scale_b)]
    if recipes != [ScalingType.RowWise] * 2 or len(scales) != 2 or any((*_listed(swizzle_a), *_listed(swizzle_b))):
        raise ValueError("Invalid scaling configuration")
    if any(matrix.dtype.itemsize != 1 or not matrix.is_floating_point() for matrix in (mat_a, mat_b)):
        raise ValueError(f"Expected matrices of 8-bit floats, got {mat_a.dtype} and {mat_b.dtype}")
    first, second = scales
    if offs is not None and mat_a.dim() == mat_b.dim() == 2:
        # Each group has factors of its own, which multiply the product.
        product = _multiplied(mat_a.float(), mat_b.float(), offs, bias, None)
        factors = first.view(-1, mat_a.size(0), 1) * second.view(-1, 1, mat_b.size(1))
        return (product * factors).to(output_dtype or mat_a.dtype)
    left, right = mat_a.float() * first.unsqueeze(-1), mat_b.float() * second.unsqueeze(-2)
    return _multiplied(left, right, offs, bias, None).to(output_dtype or mat_a.dtype)


set_module("rushlight.nn.functional", ScalingType, SwizzleType, grouped_mm, scaled_grouped_mm, scaled_mm)
