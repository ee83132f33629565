"""Tensors that are volatile as those before 0.4 were. In a file of its own: classes that answer for operators slow all calls."""

from __future__ import annotations

from rushlight import Tensor, no_grad

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class VolatileTensor(Tensor):
    """Nothing that is computed with it is recorded, and the results are volatile too."""

    volatile = True

    @classmethod
    def __torch_function__(
        cls, func: Callable, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        with no_grad():
            return super().__torch_function__(func, types, args, kwargs)
