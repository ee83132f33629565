"""Functions that torch has removed, which only tell what took their place, and `range`, which it deprecates."""

from __future__ import annotations

import math

import rushlight as torch
from rushlight._loading import load
from rushlight._set_module import set_module
from rushlight._warnings import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from rushlight import Tensor


def _removed(sentence: str, *today: str) -> NoReturn:
    first = f"This function was deprecated since version 1.9 and is now removed.{sentence}"
    raise RuntimeError("\n".join([first, *(f"Use {call}." for call in today)]))


def eig(input: Tensor, eigenvectors: bool = False, *, out: Any = None) -> NoReturn:
    """Removed in favour of `torch.linalg.eig` and `torch.linalg.eigvals`.

    Raises:
        RuntimeError: always.

    >>> try:
    ...     torch.eig(torch.eye(2))
    ... except RuntimeError as error:
    ...     print(str(error).splitlines()[1])
    Use torch.linalg.eigvals(A).
    """
    _removed(
        " `torch.linalg.eig` returns complex tensors of dtype `cfloat` or `cdouble` rather than real tensors mimicking "
        "complex tensors.",
        "torch.linalg.eigvals(A)",
        "torch.linalg.eig(A) with eigenvectors=True",
    )


def symeig(input: Tensor, eigenvectors: bool = False, upper: bool = True, *, out: Any = None) -> NoReturn:
    """Removed in favour of `torch.linalg.eigh` and `torch.linalg.eigvalsh`.

    Raises:
        RuntimeError: always.

    >>> try:
    ...     torch.symeig(torch.eye(2))
    ... except RuntimeError as error:
    ...     print(str(error).splitlines()[1])
    Use torch.linalg.eigvalsh(A, UPLO='U' if upper else 'L').
    """
    _removed(
        " The default behavior has changed from using the upper triangular portion of the matrix by default to using the "
        "lower triangular portion.",
        "torch.linalg.eigvalsh(A, UPLO='U' if upper else 'L')",
        "torch.linalg.eigh(A, UPLO='U' if upper else 'L') with eigenvectors=True",
    )


def lstsq(input: Tensor, A: Tensor, *, out: Any = None) -> NoReturn:
    """Removed in favour of `torch.linalg.lstsq`, whose arguments are in the other order.

    Raises:
        RuntimeError: always.

    >>> try:
    ...     torch.lstsq(torch.eye(2), torch.eye(2))
    ... except RuntimeError as error:
    ...     print(str(error).splitlines()[1])
    Use torch.linalg.lstsq(A, B).solution.
    """
    _removed(
        " `torch.lstsq` is deprecated in favor of `torch.linalg.lstsq`.",
        "torch.linalg.lstsq(A, B).solution",
        "torch.linalg.qr(A) for the QR decomposition",
    )


def solve(input: Tensor, A: Tensor, *, out: Any = None) -> NoReturn:
    """Removed in favour of `torch.linalg.solve`, whose arguments are in the other order.

    Raises:
        RuntimeError: always.

    >>> try:
    ...     torch.solve(torch.eye(2), torch.eye(2))
    ... except RuntimeError as error:
    ...     print(str(error).splitlines()[1])
    Use torch.linalg.solve(A, B).
    """
    _removed(
        " `torch.solve` is deprecated in favor of `torch.linalg.solve`. `torch.linalg.solve` has its arguments reversed "
        "and does not return the LU factorization.",
        "torch.linalg.solve(A, B)",
        "torch.linalg.lu_factor(A) for the LU factorization",
    )


def matrix_rank(input: Tensor, tol: Any = None, symmetric: bool = False, *, out: Any = None) -> NoReturn:
    """Removed in favour of `torch.linalg.matrix_rank`.

    Raises:
        RuntimeError: always.

    >>> try:
    ...     torch.matrix_rank(torch.eye(2))
    ... except RuntimeError as error:
    ...     print(str(error).splitlines()[1])
    Use torch.linalg.matrix_rank(A, hermitian=symmetric).
    """
    _removed("", "torch.linalg.matrix_rank(A, hermitian=symmetric)")


def range(
    start: float,
    end: float,
    step: float = 1,
    *,
    out: Tensor | None = None,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The numbers from ``start`` to ``end``, both included, in steps of ``step``. Deprecated in favour of `torch.arange`.

    Args:
        start: the first number.
        end: the number that is not exceeded.
        step: the distance between two numbers.
        out: a tensor that gets the numbers.
        dtype: the dtype of the result, by default the default dtype, also for integers.
        layout: the layout of the result: only strided.
        device: the device of the result.
        requires_grad: whether the result requires a gradient.

    Raises:
        RuntimeError: the step is zero, or leads away from the end.

    >>> torch.range(1, 2, 0.5)
    tensor([1.0000, 1.5000, 2.0000])
    """
    warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with "
        "Python's range builtin. Instead, use torch.arange, which produces values in [start, end).",
    )
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    count = math.floor((end - start) / step) + 1
    if out is not None and out.layout is not torch.strided:
        name = load("rushlight.sparse")._layout_name(out)
        raise RuntimeError(f"layout Strided does not match layout of out parameter ({name})")
    if out is not None:
        # It compares the other arguments with `out`, and resizes it.
        torch.arange(count, dtype=dtype, device=device, requires_grad=requires_grad, out=out)
        dtype, device = out.dtype, out.device
    dtype = torch.get_default_dtype() if dtype is None else dtype
    # In the precision of Python's numbers, as torch does, so that rounding happens once.
    whole = not (dtype.is_floating_point or dtype.is_complex)
    places = torch.arange(count, dtype=torch.int64 if whole else torch.float64, device=device)
    numbers = (int(start) + int(step) * places) if whole else (start + step * places)
    if out is not None:
        with torch.no_grad():
            return out.copy_(numbers.view(out.shape))
    result = numbers.to(dtype)
    return result.requires_grad_() if requires_grad else result


set_module("rushlight", eig, symeig, lstsq, solve, matrix_rank, range)
