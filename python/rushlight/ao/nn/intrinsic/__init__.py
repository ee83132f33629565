"""`torch.ao.nn.intrinsic`: layers that are quantised together, in sequences that `fuse_modules` makes."""

from __future__ import annotations

from typing import Any

from rushlight import nn

__all__ = [
    "BNReLU2d",
    "BNReLU3d",
    "ConvBn1d",
    "ConvBn2d",
    "ConvBn3d",
    "ConvBnReLU1d",
    "ConvBnReLU2d",
    "ConvBnReLU3d",
    "ConvReLU1d",
    "ConvReLU2d",
    "ConvReLU3d",
    "LinearBn1d",
    "LinearReLU",
]


class _FusedModule(nn.Sequential):
    """A sequence of layers of given classes."""

    _kinds: tuple[type[nn.Module], ...] = ()

    def __init__(self, *layers: Any) -> None:
        if not all(
            type(layer) is kind or self._is_parametrized(layer, kind) for layer, kind in zip(layers, self._kinds)
        ):
            raise AssertionError(
                f"Incorrect types for input modules: {' and '.join(type(layer).__name__ for layer in layers)}"
            )
        super().__init__(*layers)

    @staticmethod
    def _is_parametrized(layer: Any, kind: type[nn.Module]) -> bool:
        return nn.utils.parametrize.is_parametrized(layer) and isinstance(layer, kind)


def _fused(name: str, *kinds: type[nn.Module]) -> type[_FusedModule]:
    layers = ", ".join(kind.__name__ for kind in kinds)
    return type(name, (_FusedModule,), {"__doc__": f"A sequence of {layers}.", "__module__": __name__, "_kinds": kinds})


ConvReLU1d = _fused("ConvReLU1d", nn.Conv1d, nn.ReLU)
ConvReLU2d = _fused("ConvReLU2d", nn.Conv2d, nn.ReLU)
ConvReLU3d = _fused("ConvReLU3d", nn.Conv3d, nn.ReLU)
ConvBn1d = _fused("ConvBn1d", nn.Conv1d, nn.BatchNorm1d)
ConvBn2d = _fused("ConvBn2d", nn.Conv2d, nn.BatchNorm2d)
ConvBn3d = _fused("ConvBn3d", nn.Conv3d, nn.BatchNorm3d)
ConvBnReLU1d = _fused("ConvBnReLU1d", nn.Conv1d, nn.BatchNorm1d, nn.ReLU)
ConvBnReLU2d = _fused("ConvBnReLU2d", nn.Conv2d, nn.BatchNorm2d, nn.ReLU)
ConvBnReLU3d = _fused("ConvBnReLU3d", nn.Conv3d, nn.BatchNorm3d, nn.ReLU)
LinearReLU = _fused("LinearReLU", nn.Linear, nn.ReLU)
LinearBn1d = _fused("LinearBn1d", nn.Linear, nn.BatchNorm1d)
BNReLU2d = _fused("BNReLU2d", nn.BatchNorm2d, nn.ReLU)
BNReLU3d = _fused("BNReLU3d", nn.BatchNorm3d, nn.ReLU)


def __dir__() -> list[str]:
    return __all__
