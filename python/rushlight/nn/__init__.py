"""Neural network modules: `Module` and its containers, layers, losses, and their helpers."""

from . import functional, init, modules, parallel, utils
from .modules import *  # noqa: F403
from .parallel import DataParallel
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    "Buffer",
    "DataParallel",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "functional",
    "init",
    "modules",
    "parallel",
    "utils",
    *modules.__all__,
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import attention as attention
else:

    def __getattr__(name: str) -> object:
        if name == "attention":  # seldom wanted, and not light
            from rushlight._loading import load

            return load("rushlight.nn.attention")
        from rushlight._names import missing_from

        raise missing_from("torch.nn", name, lambda: __all__)


def __dir__() -> list[str]:
    return [*__all__, "attention", "parameter"]
