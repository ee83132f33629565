"""Neural network modules: `Module` and its containers, layers, losses, and their helpers."""

from . import functional, init, modules, utils
from .modules import *  # noqa: F403
from .parameter import Buffer, Parameter

__all__ = ["Buffer", "Parameter", "functional", "init", "modules", "utils", *modules.__all__]

TYPE_CHECKING = False
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        from ._text import missing

        raise missing(f"module 'torch.nn' has no attribute {name!r}", name, lambda: __all__)
