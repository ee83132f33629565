"""Neural network modules: `Module` and its containers, layers, losses, and their helpers."""

from . import functional, init, modules, parallel, utils
from ._factory_kwargs import factory_kwargs
from .modules import *  # noqa: F403
from .parallel import DataParallel
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    "Buffer",
    "DataParallel",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "factory_kwargs",
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
    from . import common_types as common_types
    from . import grad as grad
    from . import intrinsic as intrinsic
    from . import qat as qat
    from . import quantized as quantized
else:
    _SELDOM = ("attention", "common_types", "grad", "intrinsic", "qat", "quantized")  # rarely used, and slow to import

    def __getattr__(name: str) -> object:
        if name in _SELDOM:
            from rushlight._loading import load

            return load(f"rushlight.nn.{name}")
        from rushlight._missing_names import missing_from

        raise missing_from("torch.nn", name, lambda: __all__)


def __dir__() -> list[str]:
    return [*__all__, "attention", "common_types", "grad", "intrinsic", "parameter", "qat", "quantized"]
