"""Helpers of several distributions: broadcasting of parameters, conversion of probabilities and logits, lazy properties."""

from __future__ import annotations

from functools import update_wrapper

import rushlight as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant = 0.57721566490153286060


def broadcast_all(*values: Any) -> tuple[torch.Tensor, ...]:
    """Broadcasts numbers and tensors. Numbers get the dtype and the device of the first tensor.

    Raises:
        ValueError: an argument is neither a number nor a tensor.

    >>> torch.distributions.utils.broadcast_all(1.0, torch.zeros(2))
    (tensor([1., 1.]), tensor([0., 0.]))
    """
    if not all(isinstance(value, (torch.Tensor, int, float)) for value in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__."
        )
    first = next((value for value in values if isinstance(value, torch.Tensor)), None)
    dtype, device = (torch.get_default_dtype(), None) if first is None else (first.dtype, first.device)
    tensors = [
        value if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=dtype, device=device)
        for value in values
    ]
    return tuple(torch.broadcast_tensors(*tensors))


def _standard_normal(shape: Any, dtype: torch.dtype, device: Any) -> torch.Tensor:
    return torch.normal(torch.zeros(shape, dtype=dtype, device=device), torch.ones(shape, dtype=dtype, device=device))


def _sum_rightmost(value: Any, dim: int) -> Any:
    """The sum over the last ``dim`` dimensions."""
    return value if dim == 0 else value.reshape(value.shape[:-dim] + (-1,)).sum(-1)


def logits_to_probs(logits: torch.Tensor, is_binary: bool = False) -> torch.Tensor:
    """Converts logits to probabilities, of one event each (``is_binary``) or of the events along the last dimension.

    >>> torch.distributions.utils.logits_to_probs(torch.zeros(2))
    tensor([0.5000, 0.5000])
    """
    return torch.sigmoid(logits) if is_binary else torch.softmax(logits, dim=-1)


def clamp_probs(probs: torch.Tensor) -> torch.Tensor:
    """Clamps probabilities away from zero and one by the dtype's rounding unit, so that their logarithms are finite.

    >>> torch.distributions.utils.clamp_probs(torch.tensor([0.0, 0.5])).log().isfinite()
    tensor([True, True])
    """
    eps = torch.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: torch.Tensor, is_binary: bool = False) -> torch.Tensor:
    """Converts probabilities to logits: log-odds (``is_binary``), or the logarithms of the probabilities.

    >>> torch.distributions.utils.probs_to_logits(torch.tensor([0.5, 0.5]), is_binary=True)
    tensor([0., 0.])
    """
    clamped = clamp_probs(probs)
    return torch.log(clamped) - torch.log1p(-clamped) if is_binary else torch.log(clamped)


class lazy_property:
    """A property that is computed once, with gradients, and then stored as an attribute.

    >>> class Circle:
    ...     radius = 2
    ...     @torch.distributions.utils.lazy_property
    ...     def diameter(self):
    ...         return 2 * self.radius
    >>> circle = Circle()
    >>> circle.diameter, vars(circle)
    (4, {'diameter': 4})
    """

    def __init__(self, wrapped: Callable[..., Any]) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]  # an object with a docstring instead of a function

    def __get__(self, instance: Any, obj_type: Any = None) -> Any:
        if instance is None:
            return _ClassProperty(self.wrapped)
        with torch.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class _ClassProperty(lazy_property, property):
    """A lazy property when it is read from the class, for `inspect`."""

    def __init__(self, wrapped: Callable[..., Any]) -> None:
        property.__init__(self, wrapped)


def tril_matrix_to_vec(mat: torch.Tensor, diag: int = 0) -> torch.Tensor:
    """The lower triangles of matrices (.., n, n) as vectors, row by row. ``diag`` is the diagonal, as in `torch.tril`.

    Raises:
        ValueError: ``diag`` is outside of the matrix.

    >>> torch.distributions.utils.tril_matrix_to_vec(torch.arange(4.0).reshape(2, 2))
    tensor([0., 2., 3.])
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    places = torch.arange(n, device=mat.device)
    return mat[..., places < places.view(-1, 1) + (diag + 1)]


def vec_to_tril_matrix(vec: torch.Tensor, diag: int = 0) -> torch.Tensor:
    """Vectors to lower triangular matrices, row by row. The elements above the diagonal are zero.

    Raises:
        ValueError: no triangle has this number of elements.

    >>> torch.distributions.utils.vec_to_tril_matrix(torch.tensor([1.0, 2.0, 3.0]))
    tensor([[1., 0.],
            [2., 3.]])
    """
    side = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * vec.shape[-1] + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if not round(side) - side <= torch.finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {vec.shape[-1]} which cannot be expressed as "
            "the lower triangular part of a square D x D matrix."
        )
    n = round(side)
    matrix = vec.new_zeros((*vec.shape[:-1], n, n))
    places = torch.arange(n, device=vec.device)
    matrix[..., places < places.view(-1, 1) + (diag + 1)] = vec
    return matrix


def _check_all(parts: Iterable[Any], kind: type[Any], name: str) -> None:
    if not all(isinstance(one, kind) for one in parts):
        raise AssertionError(f"All elements of {name} must be {kind.__name__} instances")


def _check_counts(lengths: list[int], parts: list[Any], name: str) -> None:
    if len(lengths) != len(parts):
        raise AssertionError(f"lengths ({len(lengths)}) must match {name} ({len(parts)})")


def _check_dim(dim: int, value: torch.Tensor, name: str) -> None:
    if not -value.dim() <= dim < value.dim():
        raise AssertionError(f"dim {dim} out of range for {name} with {value.dim()} dimensions")


def __dir__() -> list[str]:
    return __all__
