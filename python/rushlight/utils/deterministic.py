"""`torch.utils.deterministic`: whether the deterministic mode fills new memory."""

import sys
from types import ModuleType

from rushlight import _settings


class _Deterministic(ModuleType):
    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether `torch.empty`, `Tensor.resize_` and similar functions fill new memory with NaN or the largest integer while
        `torch.use_deterministic_algorithms` is on. True by default.

        >>> torch.use_deterministic_algorithms(True)
        >>> torch.empty(2)
        tensor([nan, nan])
        >>> torch.use_deterministic_algorithms(False)
        """
        return _settings._strict["fill"]

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: bool) -> None:
        if type(mode) is not bool:
            raise RuntimeError(f"expected a bool, but got {type(mode).__name__}")
        _settings._set_fill(mode)

    def __dir__(self) -> list[str]:
        return ["fill_uninitialized_memory"]


sys.modules[__name__].__class__ = _Deterministic
