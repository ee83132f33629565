"""The places in a model where tensors become quantised ones, and numbers again."""

from __future__ import annotations

from typing import Any

from rushlight import Tensor, nn

__all__ = ["DeQuantStub", "QuantStub", "QuantWrapper"]


class QuantStub(nn.Module):
    """Passes a tensor on; `convert` replaces it by a module that quantises.

    >>> torch.ao.quantization.QuantStub()(torch.ones(1))
    tensor([1.])
    """

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        return x


class DeQuantStub(nn.Module):
    """Passes a tensor on; `convert` replaces it by a module that gives the numbers of a quantised tensor.

    >>> torch.ao.quantization.DeQuantStub()(torch.ones(1))
    tensor([1.])
    """

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        return x


class QuantWrapper(nn.Module):
    """A module between a `QuantStub` and a `DeQuantStub`.

    >>> torch.ao.quantization.QuantWrapper(torch.nn.ReLU())(torch.tensor([-1.0]))
    tensor([0.])
    """

    quant: QuantStub
    dequant: DeQuantStub
    module: nn.Module

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        qconfig = getattr(module, "qconfig", None)
        self.add_module("quant", QuantStub(qconfig))
        self.add_module("dequant", DeQuantStub(qconfig))
        self.add_module("module", module)
        self.train(module.training)

    def forward(self, X: Tensor) -> Tensor:
        return self.dequant(self.module(self.quant(X)))


def __dir__() -> list[str]:
    return __all__
