"""Operations as modules, so that their results have observers, and scales once they are quantised."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight import Tensor, nn
from rushlight import _quantized_ops as ops

__all__ = ["FXFloatFunctional", "FloatFunctional", "QFunctional"]


class FloatFunctional(nn.Module):
    """Sums, products and concatenation of numbers, whose results an observer sees.

    >>> torch.ao.nn.quantized.FloatFunctional().add(torch.ones(1), torch.ones(1))
    tensor([2.])
    """

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process: nn.Module = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        raise RuntimeError("FloatFunctional is not intended to use the 'forward'. Please use the underlying operation")

    def _seen(self, result: Tensor) -> Tensor:
        seen: Tensor = self.activation_post_process(result)
        return seen

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum."""
        return self._seen(torch.add(x, y))

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        """The sum with a number, which no observer sees."""
        return torch.add(x, y)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """The product."""
        return self._seen(torch.mul(x, y))

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        """The product with a number, which no observer sees."""
        return torch.mul(x, y)

    def cat(self, x: Any, dim: int = 0) -> Tensor:
        """The tensors joined."""
        return self._seen(torch.cat(x, dim=dim))

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum without negative numbers."""
        return self._seen(torch.relu(torch.add(x, y)))

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """The matrix product."""
        return self._seen(torch.matmul(x, y))


class FXFloatFunctional(nn.Module):
    """The operations of `FloatFunctional` without an observer.

    >>> torch.ao.nn.quantized.FXFloatFunctional().add(torch.ones(1), torch.ones(1))
    tensor([2.])
    """

    def forward(self, x: Tensor) -> Tensor:
        raise RuntimeError("FloatFunctional is not intended to use the 'forward'. Please use the underlying operation")

    add = staticmethod(lambda x, y: torch.add(x, y))
    add_scalar = staticmethod(lambda x, y: torch.add(x, y))
    mul = staticmethod(lambda x, y: torch.mul(x, y))
    mul_scalar = staticmethod(lambda x, y: torch.mul(x, y))
    cat = staticmethod(lambda x, dim=0: torch.cat(x, dim=dim))
    add_relu = staticmethod(lambda x, y: torch.relu(torch.add(x, y)))
    matmul = staticmethod(lambda x, y: torch.matmul(x, y))


class QFunctional(nn.Module):
    """The operations of `FloatFunctional` over quantised tensors.

    >>> q = torch.quantize_per_tensor(torch.ones(1), 0.5, 0, torch.quint8)
    >>> torch.ao.nn.quantized.QFunctional().add(q, q).dequantize()
    tensor([2.])
    """

    def __init__(self) -> None:
        super().__init__()
        self.scale = 1.0
        self.zero_point = 0
        self.activation_post_process: nn.Module = nn.Identity()

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"] = torch.tensor(self.scale)
        destination[prefix + "zero_point"] = torch.tensor(self.zero_point)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any) -> None:
        self.scale = float(state_dict.pop(prefix + "scale"))
        self.zero_point = int(state_dict.pop(prefix + "zero_point"))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *rest[1:])

    def _get_name(self) -> str:
        return "QFunctional"

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}"

    def forward(self, x: Tensor) -> Tensor:
        raise RuntimeError("Functional is not intended to use the 'forward'. Please use the underlying operation")

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum."""
        return ops.add(x, y, self.scale, self.zero_point)

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        """The sum with a number."""
        return ops.add_scalar(x, y)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """The product."""
        return ops.mul(x, y, self.scale, self.zero_point)

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        """The product with a number."""
        return ops.mul_scalar(x, y)

    def cat(self, x: Any, dim: int = 0) -> Tensor:
        """The tensors joined."""
        return ops.cat(x, dim, self.scale, self.zero_point)

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum without negative numbers."""
        return ops.add_relu(x, y, self.scale, self.zero_point)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> QFunctional:
        """The module for a prepared `FloatFunctional`."""
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        made = cls()
        made.scale, made.zero_point = float(scale), int(zero_point)
        return made


def __dir__() -> list[str]:
    return __all__
