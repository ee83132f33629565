"""Functions that torch has removed, which only tell what took their place."""

from __future__ import annotations

from functools import wraps

from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn, ParamSpec

    from rushlight import Tensor

    Parameters = ParamSpec("Parameters")


def _removed(
    instead: str, note: str, *today: str
) -> Callable[[Callable[Parameters, None]], Callable[Parameters, NoReturn]]:
    """Refuses every call of a function, of which only the parameters are written.

    Args:
        instead: what took its place, for the docstring.
        note: what torch's sentence says besides.
        today: the calls that do the same.
    """
    sentence = f"This function was deprecated since version 1.9 and is now removed.{note}"
    sentence = "\n".join([sentence, *(f"Use {call}." for call in today)])

    def refused(function: Callable[Parameters, None]) -> Callable[Parameters, NoReturn]:
        @wraps(function)
        def refuse(*args: Parameters.args, **kwargs: Parameters.kwargs) -> NoReturn:
            # TypeError for arguments that the function did not have.
            function(*args, **kwargs)
            raise RuntimeError(sentence)

        needed = function.__code__.co_argcount - len(function.__defaults__ or ())
        refuse.__doc__ = f"""Removed in favour of {instead}.

    Raises:
        RuntimeError: always.

    >>> try:
    ...     torch.{function.__name__}({", ".join(["torch.eye(2)"] * needed)})
    ... except RuntimeError as error:
    ...     print(str(error).splitlines()[1])
    Use {today[0]}.
    """
        set_module("rushlight", refuse)
        return refuse

    return refused


@_removed(
    "`torch.linalg.eig` and `torch.linalg.eigvals`",
    " `torch.linalg.eig` returns complex tensors of dtype `cfloat` or `cdouble` rather than real tensors mimicking complex tensors.",
    "torch.linalg.eigvals(A)",
    "torch.linalg.eig(A) with eigenvectors=True",
)
def eig(input: Tensor, eigenvectors: bool = False, *, out: Any = None) -> None: ...


@_removed(
    "`torch.linalg.eigh` and `torch.linalg.eigvalsh`",
    " The default behavior has changed from using the upper triangular portion of the matrix by default to using the lower "
    "triangular portion.",
    "torch.linalg.eigvalsh(A, UPLO='U' if upper else 'L')",
    "torch.linalg.eigh(A, UPLO='U' if upper else 'L') with eigenvectors=True",
)
def symeig(input: Tensor, eigenvectors: bool = False, upper: bool = True, *, out: Any = None) -> None: ...


@_removed(
    "`torch.linalg.lstsq`, whose arguments are in the other order",
    " `torch.lstsq` is deprecated in favor of `torch.linalg.lstsq`.",
    "torch.linalg.lstsq(A, B).solution",
    "torch.linalg.qr(A) for the QR decomposition",
)
def lstsq(input: Tensor, A: Tensor, *, out: Any = None) -> None: ...


@_removed(
    "`torch.linalg.solve`, whose arguments are in the other order",
    " `torch.solve` is deprecated in favor of `torch.linalg.solve`. `torch.linalg.solve` has its arguments reversed and does not "
    "return the LU factorization.",
    "torch.linalg.solve(A, B)",
    "torch.linalg.lu_factor(A) for the LU factorization",
)
def solve(input: Tensor, A: Tensor, *, out: Any = None) -> None: ...


@_removed("`torch.linalg.matrix_rank`", "", "torch.linalg.matrix_rank(A, hermitian=symmetric)")
def matrix_rank(input: Tensor, tol: Any = None, symmetric: bool = False, *, out: Any = None) -> None: ...
