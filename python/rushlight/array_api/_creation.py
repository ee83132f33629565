"""The standard's functions that create arrays."""

from __future__ import annotations

import rushlight as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]


def _sizes(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: Any = None, device: Any = None
) -> torch.Tensor:
    """Evenly spaced numbers. Empty if the step leads away from the end."""
    if stop is None:
        start, stop = 0, start
    if (stop - start) * step <= 0:
        if dtype is None:
            dtype = torch.int64 if all(isinstance(n, int) for n in (start, stop, step)) else torch.get_default_dtype()
        return torch.empty(0, dtype=dtype, device=device)
    return torch.arange(start, stop, step, dtype=dtype, device=device)


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> torch.Tensor:
    """A tensor with the values of numbers, sequences or arrays."""
    return torch.asarray(obj, dtype=dtype, device=device, copy=copy)


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> torch.Tensor:
    """An uninitialised tensor."""
    return torch.empty(_sizes(shape), dtype=dtype, device=device)


def empty_like(x: torch.Tensor, /, *, dtype: Any = None, device: Any = None) -> torch.Tensor:
    """An uninitialised tensor of the same shape."""
    return torch.empty_like(x, dtype=dtype, device=device)


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None
) -> torch.Tensor:
    """Ones on the diagonal ``k``, zeros elsewhere."""
    made = torch.zeros(n_rows, n_rows if n_cols is None else n_cols, dtype=dtype, device=device)
    if -made.shape[0] <= k <= made.shape[1]:
        made.diagonal(k).fill_(1)
    return made


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> torch.Tensor:
    """A tensor that shares the memory of another library's array."""
    return torch.from_dlpack(x, device=device, copy=copy)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> torch.Tensor:
    """A tensor filled with one value."""
    return torch.full(_sizes(shape), fill_value, dtype=dtype, device=device)


def full_like(x: torch.Tensor, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> torch.Tensor:
    """A tensor of the same shape, filled with one value."""
    return torch.full_like(x, fill_value, dtype=dtype, device=device)


def linspace(
    start: complex, stop: complex, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> torch.Tensor:
    """Evenly spaced numbers, with or without the end."""
    if endpoint:
        return torch.linspace(start, stop, num, dtype=dtype, device=device)
    return torch.linspace(start, stop, num + 1, dtype=dtype, device=device)[:num]


def meshgrid(*arrays: torch.Tensor, indexing: str = "xy") -> list[torch.Tensor]:
    """Coordinate matrices of a grid."""
    return list(torch.meshgrid(*arrays, indexing=indexing))


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> torch.Tensor:
    """A tensor of ones."""
    return torch.ones(_sizes(shape), dtype=dtype, device=device)


def ones_like(x: torch.Tensor, /, *, dtype: Any = None, device: Any = None) -> torch.Tensor:
    """A tensor of ones of the same shape."""
    return torch.ones_like(x, dtype=dtype, device=device)


def tril(x: torch.Tensor, /, *, k: int = 0) -> torch.Tensor:
    """The lower triangles of matrices, with zeros above the diagonal ``k``."""
    return torch.tril(x, k)


def triu(x: torch.Tensor, /, *, k: int = 0) -> torch.Tensor:
    """The upper triangles of matrices, with zeros below the diagonal ``k``."""
    return torch.triu(x, k)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> torch.Tensor:
    """A tensor of zeros."""
    return torch.zeros(_sizes(shape), dtype=dtype, device=device)


def zeros_like(x: torch.Tensor, /, *, dtype: Any = None, device: Any = None) -> torch.Tensor:
    """A tensor of zeros of the same shape."""
    return torch.zeros_like(x, dtype=dtype, device=device)
