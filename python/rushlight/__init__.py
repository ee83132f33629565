"""PyTorch's API on an engine written in Rust: ``import rushlight as torch``."""

from rushlight import _C
from rushlight import _tensor as _tensor
from rushlight._C import *  # noqa: F403
from rushlight._C import Generator, Tensor, default_generator, device, dtype
from rushlight._facts import *  # noqa: F403
from rushlight._functions import *  # noqa: F403
from rushlight._modes import enable_grad, inference_mode, no_grad, set_grad_enabled
from rushlight._size import Size

__version__ = "0.1.0"

# The operators once more: also those that are not for users and whose names begin with an underscore.
globals().update(_C._functions[""])

half, float, double = _C.float16, _C.float32, _C.float64
cfloat, cdouble = _C.complex64, _C.complex128
short, int, long = _C.int16, _C.int32, _C.int64
bool = _C.bool

pi = 3.141592653589793
e = 2.718281828459045
inf = 1e999
nan = inf - inf
newaxis = None

seed = default_generator.seed
initial_seed = default_generator.initial_seed
manual_seed = default_generator.manual_seed
get_rng_state = default_generator.get_state


def set_rng_state(new_state):
    """Puts the default generator into a state that `get_rng_state` gave."""
    default_generator.set_state(new_state)


# What loads when it is first used: modules, and names that live in modules of their own.
_SUBMODULES = frozenset(
    "autograd cuda distributed fft functional jit linalg multiprocessing nn optim random return_types serialization special "
    "testing types utils version".split()
)
_ELSEWHERE = {
    "chain_matmul": "functional",
    "einsum": "functional",
    "finfo": "_limits",
    "get_printoptions": "_printing",
    "iinfo": "_limits",
    "load": "serialization",
    "save": "serialization",
    "set_default_tensor_type": "_legacy",
    "set_printoptions": "_printing",
    "tensordot": "functional",
    **dict.fromkeys(
        "FloatTensor DoubleTensor HalfTensor BFloat16Tensor ByteTensor CharTensor ShortTensor IntTensor LongTensor "
        "BoolTensor".split(),
        "_legacy",
    ),
}


def __getattr__(name):
    from importlib import import_module

    if name in _SUBMODULES:
        return import_module(f"rushlight.{name}")
    if name in _ELSEWHERE:
        value = globals()[name] = getattr(import_module(f"rushlight.{_ELSEWHERE[name]}"), name)
        return value
    from rushlight._names import missing

    raise missing(f"module 'torch' has no attribute {name!r}", name, __dir__)


def __dir__():
    return sorted({*globals(), *_SUBMODULES, *_ELSEWHERE})
