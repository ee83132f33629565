"""`torch._functorch`: the functions of `torch.func`, and parts of `vmap`, by the names that libraries import."""

from __future__ import annotations

from . import apis, vmap

__all__ = ["apis", "vmap"]


def __dir__() -> list[str]:
    return __all__
