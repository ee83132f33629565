"""`torch.cuda.streams`: the classes of `torch.cuda` for streams, under the name of their module in torch."""

from rushlight import cuda as _home

_NAMES = "Event ExternalStream Stream".split()
__all__ = [*_NAMES]

globals().update({name: getattr(_home, name) for name in __all__})


def __dir__() -> list[str]:
    return __all__
