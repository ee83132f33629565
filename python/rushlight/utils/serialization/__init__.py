"""`torch.utils.serialization`: what `save` and `load` do where a call does not say it."""

from . import config as config

__all__ = ["config"]


def __dir__() -> list[str]:
    return __all__
