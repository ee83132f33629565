"""PyTorch's API on an engine written in Rust: ``import rushlight as torch``."""

# First, since modules that load after it answer for the names that they do not have.
from rushlight import _names as _names  # isort: skip
from rushlight import _C
from rushlight import _tensor as _tensor
from rushlight import _untyped_storage as _untyped_storage
from rushlight._C import *  # noqa: F403
from rushlight._C import Generator as Generator
from rushlight._C import Tensor as Tensor
from rushlight._C import default_generator as default_generator
from rushlight._C import device as device
from rushlight._C import dtype as dtype
from rushlight._facts import *  # noqa: F403
from rushlight._functions import *  # noqa: F403
from rushlight._homes import adopt as _adopt
from rushlight._loading import load as _load
from rushlight._modes import enable_grad as enable_grad
from rushlight._modes import inference_mode as inference_mode
from rushlight._modes import no_grad as no_grad
from rushlight._modes import set_grad_enabled as set_grad_enabled
from rushlight._settings import *  # noqa: F403
from rushlight._size import Size as Size

__version__ = "0.1.0"

# For the engine's own Python files only.
del HookHandle  # noqa: F821

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


def set_rng_state(new_state: Tensor) -> None:
    """Puts the default generator into a state that `get_rng_state` gave.

    Raises:
        RuntimeError: a tensor that is no such state.
        TypeError: no tensor of bytes.

    >>> state = torch.get_rng_state()
    >>> first = torch.rand(2)
    >>> torch.set_rng_state(state)
    >>> torch.equal(first, torch.rand(2))
    True
    """
    default_generator.set_state(new_state)


# What loads when it is first used: modules, and names that live in modules of their own.
_SUBMODULES = frozenset(
    "accelerator amp array_api autograd backends compiler cpu cuda distributed distributions fft func functional futures jit "
    "linalg masked multiprocessing nn npz optim overrides profiler random return_types safetensors serialization signal sparse special "
    "storage testing types utils version".split()
)
_ELSEWHERE = {
    **dict.fromkeys(
        "chain_matmul einsum gesv gradient histogramdd lu tensordot unique unique_consecutive unravel_index".split(),
        "functional",
    ),
    **dict.fromkeys(
        "alpha_dropout alpha_dropout_ dropout_ feature_alpha_dropout feature_alpha_dropout_ feature_dropout "
        "feature_dropout_".split(),
        "_dropouts",
    ),
    **dict.fromkeys(["pca_lowrank", "svd_lowrank"], "_lowrank"),
    **dict.fromkeys(["finfo", "iinfo"], "_limits"),
    "lobpcg": "_lobpcg",
    "AmbiguousReduction": "_warnings",
    **dict.fromkeys(["AcceleratorError", "OutOfMemoryError"], "_errors"),
    **dict.fromkeys(["get_printoptions", "set_printoptions"], "_printing"),
    **dict.fromkeys(["load", "save"], "serialization"),
    "sparse_coo_tensor": "sparse",
    "from_file": "storage",
    "autocast": "amp",
    **dict.fromkeys(
        "clear_autocast_cache get_autocast_cpu_dtype get_autocast_dtype get_autocast_gpu_dtype is_autocast_cache_enabled "
        "is_autocast_cpu_enabled is_autocast_enabled set_autocast_cache_enabled set_autocast_cpu_dtype "
        "set_autocast_cpu_enabled set_autocast_dtype set_autocast_enabled set_autocast_gpu_dtype".split(),
        "amp.autocast_mode",
    ),
    "vmap": "func",
    **dict.fromkeys(
        "set_default_tensor_type FloatTensor DoubleTensor HalfTensor BFloat16Tensor ByteTensor CharTensor ShortTensor "
        "IntTensor LongTensor BoolTensor".split(),
        "_legacy",
    ),
}

TYPE_CHECKING = False
if TYPE_CHECKING:
    # The same once more, for editors and checkers of types.
    from rushlight import accelerator as accelerator
    from rushlight import amp as amp
    from rushlight import array_api as array_api
    from rushlight import autograd as autograd
    from rushlight import backends as backends
    from rushlight import compiler as compiler
    from rushlight import cpu as cpu
    from rushlight import cuda as cuda
    from rushlight import distributed as distributed
    from rushlight import distributions as distributions
    from rushlight import fft as fft
    from rushlight import func as func
    from rushlight import functional as functional
    from rushlight import futures as futures
    from rushlight import jit as jit
    from rushlight import linalg as linalg
    from rushlight import masked as masked
    from rushlight import multiprocessing as multiprocessing
    from rushlight import nn as nn
    from rushlight import npz as npz
    from rushlight import optim as optim
    from rushlight import overrides as overrides
    from rushlight import profiler as profiler
    from rushlight import random as random
    from rushlight import return_types as return_types
    from rushlight import safetensors as safetensors
    from rushlight import serialization as serialization
    from rushlight import signal as signal
    from rushlight import sparse as sparse
    from rushlight import special as special
    from rushlight import storage as storage
    from rushlight import testing as testing
    from rushlight import types as types
    from rushlight import utils as utils
    from rushlight import version as version
    from rushlight._dropouts import alpha_dropout as alpha_dropout
    from rushlight._dropouts import alpha_dropout_ as alpha_dropout_
    from rushlight._dropouts import dropout_ as dropout_
    from rushlight._dropouts import feature_alpha_dropout as feature_alpha_dropout
    from rushlight._dropouts import feature_alpha_dropout_ as feature_alpha_dropout_
    from rushlight._dropouts import feature_dropout as feature_dropout
    from rushlight._dropouts import feature_dropout_ as feature_dropout_
    from rushlight._errors import AcceleratorError as AcceleratorError
    from rushlight._errors import OutOfMemoryError as OutOfMemoryError
    from rushlight._legacy import BFloat16Tensor as BFloat16Tensor
    from rushlight._legacy import BoolTensor as BoolTensor
    from rushlight._legacy import ByteTensor as ByteTensor
    from rushlight._legacy import CharTensor as CharTensor
    from rushlight._legacy import DoubleTensor as DoubleTensor
    from rushlight._legacy import FloatTensor as FloatTensor
    from rushlight._legacy import HalfTensor as HalfTensor
    from rushlight._legacy import IntTensor as IntTensor
    from rushlight._legacy import LongTensor as LongTensor
    from rushlight._legacy import ShortTensor as ShortTensor
    from rushlight._legacy import set_default_tensor_type as set_default_tensor_type
    from rushlight._limits import finfo as finfo
    from rushlight._limits import iinfo as iinfo
    from rushlight._lobpcg import lobpcg as lobpcg
    from rushlight._lowrank import pca_lowrank as pca_lowrank
    from rushlight._lowrank import svd_lowrank as svd_lowrank
    from rushlight._printing import get_printoptions as get_printoptions
    from rushlight._printing import set_printoptions as set_printoptions
    from rushlight._warnings import AmbiguousReduction as AmbiguousReduction
    from rushlight.amp import autocast as autocast
    from rushlight.amp.autocast_mode import clear_autocast_cache as clear_autocast_cache
    from rushlight.amp.autocast_mode import get_autocast_cpu_dtype as get_autocast_cpu_dtype
    from rushlight.amp.autocast_mode import get_autocast_dtype as get_autocast_dtype
    from rushlight.amp.autocast_mode import get_autocast_gpu_dtype as get_autocast_gpu_dtype
    from rushlight.amp.autocast_mode import is_autocast_cache_enabled as is_autocast_cache_enabled
    from rushlight.amp.autocast_mode import is_autocast_cpu_enabled as is_autocast_cpu_enabled
    from rushlight.amp.autocast_mode import is_autocast_enabled as is_autocast_enabled
    from rushlight.amp.autocast_mode import set_autocast_cache_enabled as set_autocast_cache_enabled
    from rushlight.amp.autocast_mode import set_autocast_cpu_dtype as set_autocast_cpu_dtype
    from rushlight.amp.autocast_mode import set_autocast_cpu_enabled as set_autocast_cpu_enabled
    from rushlight.amp.autocast_mode import set_autocast_dtype as set_autocast_dtype
    from rushlight.amp.autocast_mode import set_autocast_enabled as set_autocast_enabled
    from rushlight.amp.autocast_mode import set_autocast_gpu_dtype as set_autocast_gpu_dtype
    from rushlight.func import vmap as vmap
    from rushlight.functional import chain_matmul as chain_matmul
    from rushlight.functional import einsum as einsum
    from rushlight.functional import gesv as gesv
    from rushlight.functional import gradient as gradient
    from rushlight.functional import histogramdd as histogramdd
    from rushlight.functional import lu as lu
    from rushlight.functional import tensordot as tensordot
    from rushlight.functional import unique as unique
    from rushlight.functional import unique_consecutive as unique_consecutive
    from rushlight.functional import unravel_index as unravel_index
    from rushlight.serialization import load as load
    from rushlight.serialization import save as save
    from rushlight.sparse import sparse_coo_tensor as sparse_coo_tensor
    from rushlight.storage import from_file as from_file
else:

    def __getattr__(name):
        if name in _SUBMODULES:
            return _load(f"rushlight.{name}")
        if name in _ELSEWHERE:
            value = globals()[name] = getattr(_load(f"rushlight.{_ELSEWHERE[name]}"), name)
            return value
        from rushlight._names import missing_from

        raise missing_from("torch", name, __dir__)


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBMODULES, *_ELSEWHERE} - {"TYPE_CHECKING"})


if not TYPE_CHECKING:
    # What `from rushlight import *` binds: everything but the modules.
    __all__ = [name for name in __dir__() if not name.startswith("_") and name not in _SUBMODULES]
    _adopt(globals())
