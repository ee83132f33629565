"""The functions that a checkpoint calls, and the lookup of names in a checkpoint.

The functions' arguments may come from an attacker, so they are validated.
"""

import importlib

import rushlight as torch
from rushlight import _C
from rushlight._quantized import over
from rushlight._utils import set_state, sparse_of, stored, view_of, wrapper_of
from rushlight.storage import TypedStorage

from .pickler import Global
from .storage_classes import STORAGE_DTYPES, StorageClass


def _rebuild_tensor(storage, storage_offset, size, stride):
    return _view(storage, None, storage_offset, size, stride)


def _rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata=None):
    tensor = _view(storage, None, storage_offset, size, stride)
    if metadata:
        if metadata.get("conj"):
            tensor = tensor.conj().detach()
        if metadata.get("neg"):
            tensor = torch._neg_view(tensor).detach() if tensor.is_floating_point() else tensor.neg()
    return tensor.requires_grad_() if requires_grad else tensor


def _rebuild_tensor_v3(storage, storage_offset, size, stride, requires_grad, backward_hooks, dtype, metadata=None):
    tensor = _view(storage, dtype, storage_offset, size, stride)
    return tensor.requires_grad_() if requires_grad else tensor


def _rebuild_qtensor(storage, storage_offset, size, stride, quantizer_params, requires_grad, backward_hooks):
    if not isinstance(quantizer_params, tuple) or len(quantizer_params) < 3:
        raise TypeError("a quantised tensor needs a scheme and its parameters")
    return over(_view(storage, stored(storage.dtype), storage_offset, size, stride), quantizer_params)


def _view(storage, dtype, offset, size, stride):
    """Rebuilds a tensor on a storage, with the storage's dtype unless another is given."""
    if not isinstance(storage, TypedStorage):
        raise TypeError(f"a tensor needs a storage, got {type(storage).__name__}")
    dtype = dtype or storage.dtype
    if not isinstance(dtype, torch.dtype):
        name = f"{dtype.module}.{dtype.name}" if isinstance(dtype, Global) else repr(dtype)
        raise NotImplementedError(f"the checkpoint contains a tensor of {name}, which rushlight does not support yet")
    if any(step < 0 for step in stride):  # torch has no negative strides
        raise RuntimeError(f"the checkpoint describes an impossible tensor: stride {stride}")
    return view_of(storage.untyped(), dtype, offset, tuple(size), tuple(stride))


def _rebuild_from_type_v2(function, kind, arguments, state):
    tensor = function(*arguments)
    if kind is not torch.Tensor and type(tensor) is not kind:
        tensor = tensor.as_subclass(kind)
    if tensor.layout is torch.jagged and isinstance(state, dict):
        # torch repeats the parts of a nested tensor, by private names.
        state = {name: value for name, value in state.items() if not name.startswith("_")}
    return set_state(tensor, state)


def _rebuild_wrapper_subclass(cls, dtype, size, stride, storage_offset, layout, device, requires_grad):
    return wrapper_of(cls, dtype, size, stride, storage_offset, layout, device, requires_grad)


def _rebuild_meta_tensor_no_storage(dtype, size, stride, requires_grad):
    return torch.empty_strided(size, stride, dtype=dtype, device="meta", requires_grad=requires_grad)


def _rebuild_sparse_tensor(layout, data):
    if not isinstance(layout, torch.layout) or layout is torch.strided:
        raise NotImplementedError(
            f"the checkpoint contains a tensor of layout {layout}, which rushlight does not support yet"
        )
    parts = 2 if layout is torch.sparse_coo else 3
    if len(data) <= parts or not all(isinstance(part, torch.Tensor) for part in data[:parts]):
        raise TypeError("a sparse tensor needs indices and values")
    return sparse_of(layout, data)


def _get_layout(name: str):
    """The layout for torch's name. Names of unsupported layouts raise an error when a tensor uses them."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a layout must be a str, not {name!r}")
    known = (torch.strided, torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
    return {str(layout): layout for layout in known}.get(name, name)


#: The modules of rushlight that have torch's built-in functions, and the prefix of their names.
BUILT_IN = {
    "torch._C._nn": ("rushlight.nn.functional", ""),
    "torch._C._special": ("rushlight.special", "special_"),
    "torch._C._linalg": ("rushlight.linalg", "linalg_"),
    "torch._C._fft": ("rushlight.fft", "fft_"),
}
#: The classes that have torch's other functions and methods as attributes.
_CLASSES = {"_VariableFunctionsClass": ("rushlight", "_functions"), "TensorBase": ("rushlight", "Tensor")}


def home(module: str, name: str) -> tuple[str, str]:
    """The location in rushlight of a name in torch."""
    if module in BUILT_IN:
        own, prefix = BUILT_IN[module]
        return own, name.removeprefix(prefix)
    if name.startswith("torch."):  # Python may pickle memory formats with any such module
        return "rushlight", name.removeprefix("torch.")
    if module == "torch._C" and name in _CLASSES:
        return _CLASSES[name]
    if module == "torch" or module.startswith("torch."):
        return "rushlight" + module[len("torch") :], name
    return module, name


#: The modules in which torch has the functions of this file.
_OWN_MODULES = ("torch._utils", "torch._tensor", "torch.serialization")


def find_known(module: str, name: str):
    """The object for a name that every checkpoint may use. None for other names and for unsupported dtypes."""
    if not _C._checkpoint_knows(module, name):
        return None
    if name in STORAGE_DTYPES:
        return StorageClass(getattr(torch, STORAGE_DTYPES[name]))
    if name in ("UntypedStorage", "TypedStorage"):
        return StorageClass(torch.uint8)
    if module in _OWN_MODULES and name in globals():
        return globals()[name]
    own, name = home("builtins" if module == "__builtin__" else module, name)
    found = getattr(importlib.import_module(own), name, None)
    return None if getattr(found, "__unsupported__", False) else found
