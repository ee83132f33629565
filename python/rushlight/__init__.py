"""PyTorch's API on an engine written in Rust: ``import rushlight as torch``."""

import sys as _sys

from rushlight import _C, _tensor
from rushlight._C import *  # noqa: F403
from rushlight._C import Generator, Tensor, default_generator, device, dtype
from rushlight._modes import enable_grad, inference_mode, no_grad, set_grad_enabled
from rushlight._size import Size

__version__ = "0.1.0"

# The operators, as the engine's table lists them.
globals().update(_C._functions[""])

half, float, double, bfloat16 = _C.float16, _C.float32, _C.float64, _C.bfloat16
cfloat, cdouble = _C.complex64, _C.complex128
short, int, long = _C.int16, _C.int32, _C.int64
bool = _C.bool

pi = 3.141592653589793
e = 2.718281828459045
inf = _sys.float_info.max * 2
nan = inf - inf
newaxis = None

manual_seed = default_generator.manual_seed
seed = default_generator.seed
initial_seed = default_generator.initial_seed
get_rng_state = default_generator.get_state


def set_rng_state(new_state):
    """Puts the default generator into a state that `get_rng_state` gave."""
    default_generator.set_state(new_state)


_SUBMODULES = frozenset(
    "autograd cuda distributed fft jit library linalg multiprocessing nn optim random serialization special testing "
    "types utils version".split()
)
# Names that live in a module of their own, which loads when one of them is first used.
_ELSEWHERE = {
    "load": "serialization",
    "save": "serialization",
    "set_printoptions": "_printing",
    "finfo": "_limits",
    "iinfo": "_limits",
    "typename": "_types",
}


def __getattr__(name):
    import importlib

    if name in _SUBMODULES:
        return importlib.import_module(f"rushlight.{name}")
    if name in _ELSEWHERE:
        value = getattr(importlib.import_module(f"rushlight.{_ELSEWHERE[name]}"), name)
        globals()[name] = value
        return value
    from rushlight._names import missing

    raise missing(f"module 'torch' has no attribute {name!r}", name, __dir__)


def __dir__():
    return sorted({*globals(), *_SUBMODULES, *_ELSEWHERE})
