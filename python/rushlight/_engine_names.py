"""Names of `torch._C` that libraries use and that the engine does not need. `torch._C` finds them here."""

from __future__ import annotations

from types import ModuleType

import rushlight as torch
from rushlight._checkpoint.rebuild import BUILT_IN
from rushlight._loading import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The class of `torch.Tensor`, a metaclass of its own in torch.
_TensorMeta = type(torch.Tensor)
_TensorBase = TensorBase = torch.Tensor
#: The base class of storages.
StorageBase = torch.UntypedStorage
# What torch was built with. The engine has functions of its own for factorisations and Fourier transforms.
_has_mkldnn = has_mkl = has_openmp = False
has_lapack = has_spectral = True


def _get_deterministic_algorithms() -> bool:
    """`torch.are_deterministic_algorithms_enabled`.

    >>> torch._C._get_deterministic_algorithms()
    False
    """
    return torch.are_deterministic_algorithms_enabled()


def _activate_gpu_trace() -> None:
    """Calls the functions of `torch.cuda._gpu_trace` from now on.

    >>> torch._C._activate_gpu_trace()
    """
    from rushlight.cuda import _gpu_trace

    _gpu_trace._activate()


def _get_default_device() -> str:
    """The type of the device on which tensors are made by default.

    >>> torch._C._get_default_device()
    'cpu'
    """
    return torch.get_default_device().type


def _get_accelerator(check: bool = False) -> torch.device:
    """The device of `torch.accelerator`, or that of the host if there is none.

    Args:
        check: whether a device must be there, and not only the support for it. It has no effect: devices are found at run time.

    >>> torch._C._get_accelerator().type in ("cpu", "cuda")
    True
    """
    found = torch.accelerator.current_accelerator()
    return torch.device("cpu") if found is None else torch.device(found.type)


def _accelerator_setAllocatorSettings(env: str) -> None:
    """Changes the settings of the allocators of GPUs. Those that the text does not name stay as they are.

    Args:
        env: settings in the grammar of ``PYTORCH_ALLOC_CONF``, such as ``max_split_size_mb:128``.

    Raises:
        ValueError: a key is unknown, or a value is no number or out of its range.
        IndexError: a number is too large.
        RuntimeError: a value is missing, or the backend is another one.

    >>> torch._C._accelerator_setAllocatorSettings("garbage_collection_threshold:0.8")
    >>> torch._C._accelerator_getAllocatorSettings()
    'garbage_collection_threshold:0.8'
    """
    if not isinstance(env, str):
        raise TypeError(
            "_accelerator_setAllocatorSettings(): incompatible function arguments. The following argument types are "
            f"supported:\n    1. (arg0: str) -> None\n\nInvoked with: {env!r}"
        )
    torch._C._cuda_set_allocator_settings(env)


def _accelerator_getAllocatorSettings() -> str:
    """The text that `_accelerator_setAllocatorSettings` has read last, or that of the variable.

    >>> isinstance(torch._C._accelerator_getAllocatorSettings(), str)
    True
    """
    torch._C._cuda_check_allocator_settings()
    return torch._C._cuda_allocator_settings_text()


def _cuda_getAllocatorBackend() -> str:
    """`torch.cuda.get_allocator_backend`.

    >>> torch._C._cuda_getAllocatorBackend()
    'native'
    """
    return torch.cuda.get_allocator_backend()


def _get_privateuse1_backend_name() -> str:
    """The name of the type of devices that a program may add to torch.

    >>> torch._C._get_privateuse1_backend_name()
    'privateuseone'
    """
    return "privateuseone"


class _Part(ModuleType):
    """A module of built-in functions, `torch._C._nn` for example, whose functions are those of a public module."""

    def __init__(self, name: str, home: str, prefix: str) -> None:
        super().__init__(f"rushlight._C.{name}", f"The built-in functions of `{home.replace('rushlight', 'torch')}`.")
        self._home, self._prefix = home, prefix

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(load(self._home), name.removeprefix(self._prefix))


def __getattr__(name: str) -> Any:
    if f"torch._C.{name}" in BUILT_IN:
        made = globals()[name] = _Part(name, *BUILT_IN[f"torch._C.{name}"])
        if name == "_nn":
            pooling = load("rushlight.nn._pooling")
            vars(made).update(
                _parse_to=load("rushlight.nn.modules._convert").parse_to,
                max_unpool2d=pooling._max_unpool2d,
                max_unpool3d=pooling._max_unpool3d,
            )
        return made
    if name in ("_VariableFunctions", "_VariableFunctionsClass"):
        return load("rushlight._functions")
    if name == "_cpu":
        return load("rushlight.cpu._capabilities")
    if name == "_functorch":
        return load("rushlight._C._functorch")
    if name in ("DispatchKey", "DispatchKeySet", "_ExcludeDispatchKeyGuard"):
        return getattr(load("rushlight._dispatch_keys"), name)
    if name in load("rushlight.jit._types").__all__:
        return getattr(load("rushlight.jit._types"), name)
    if name in load("rushlight.jit._graph").__all__:
        return getattr(load("rushlight.jit._graph"), name)
    if name in load("rushlight.jit._fusers").__all__:
        return getattr(load("rushlight.jit._fusers"), name)
    if name == "Tag":
        return torch.Tag
    if name == "_LinAlgError":
        return torch.linalg.LinAlgError
    if name == "ScriptModule":
        return torch.jit.ScriptModule
    raise AttributeError(f"module 'torch._C' has no attribute {name!r}")


def _log_api_usage_once(event: str) -> None:
    """Accepted; nothing is logged.

    >>> torch._C._log_api_usage_once("my_library.Model")
    """
    if not isinstance(event, str):
        raise TypeError("bad argument type for built-in operation")


def _are_functorch_transforms_active() -> bool:
    """Whether this thread is inside a `vmap`.

    >>> torch._C._are_functorch_transforms_active()
    False
    """
    return bool(torch._C._vmap_levels())


def _is_torch_function_mode_enabled() -> bool:
    """Whether a `TorchFunctionMode` is active.

    >>> torch._C._is_torch_function_mode_enabled()
    False
    """
    return torch._C._has_mode()


def _is_alias_of(data: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors have the same storage.

    >>> x = torch.ones(4)
    >>> torch._C._is_alias_of(x, x[2:]), torch._C._is_alias_of(x, x.clone())
    (True, False)
    """
    return data.untyped_storage() is other.untyped_storage()


def _get_tracing_state() -> Any:
    """The trace that `torch.jit._get_trace_graph` is recording, with its scopes; else None.

    >>> torch._C._get_tracing_state() is None
    True
    """
    return load("rushlight.jit._trace_graph").current()
