"""`torch.utils.serialization`: the defaults of `save` and `load`."""

from . import config as config

__all__ = ["config"]


def __dir__() -> list[str]:
    return __all__
