"""`torch.utils`: utilities for tensors. Submodules are loaded when they are first used."""

from rushlight._loading import load as _load

_SUBMODULES = (
    "backcompat",
    "benchmark",
    "checkpoint",
    "collect_env",
    "cpp_extension",
    "data",
    "deterministic",
    "dlpack",
    "flop_counter",
    "hooks",
    "model_zoo",
    "module_tracker",
    "serialization",
    "weak",
)


TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.utils import backcompat as backcompat
    from rushlight.utils import benchmark as benchmark
    from rushlight.utils import checkpoint as checkpoint
    from rushlight.utils import collect_env as collect_env
    from rushlight.utils import cpp_extension as cpp_extension
    from rushlight.utils import data as data
    from rushlight.utils import deterministic as deterministic
    from rushlight.utils import dlpack as dlpack
    from rushlight.utils import flop_counter as flop_counter
    from rushlight.utils import hooks as hooks
    from rushlight.utils import model_zoo as model_zoo
    from rushlight.utils import module_tracker as module_tracker
    from rushlight.utils import serialization as serialization
    from rushlight.utils import weak as weak
    from rushlight.utils._swap import swap_tensors as swap_tensors
else:

    def __getattr__(name):
        if name in _SUBMODULES or name in ("_pytree", "_cxx_pytree", "_python_dispatch"):
            return _load(f"{__name__}.{name}")
        if name == "swap_tensors":
            globals()[name] = found = _load(f"{__name__}._swap").swap_tensors
            return found
        from rushlight._missing_names import missing_from

        raise missing_from("torch.utils", name, __dir__)


def __dir__() -> list[str]:
    return [*_SUBMODULES, "swap_tensors"]
