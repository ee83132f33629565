"""Volatile tensors, as before torch 0.4. They are in a separate file, because overriding classes slow down all calls."""

from __future__ import annotations

from rushlight import Tensor, no_grad

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class VolatileTensor(Tensor):
    """A tensor that is never recorded. Results of operations with it are volatile too."""

    volatile = True

    @classmethod
    def __torch_function__(
        cls, func: Callable, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        with no_grad():
            return super().__torch_function__(func, types, args, kwargs)
