"""What a checkpoint may name and call. Each function takes values that an attacker may have chosen, and checks them."""

import collections

import rushlight as torch
from rushlight._utils import _rebuild_parameter, _rebuild_parameter_with_state, set_state, view_of
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


def _view(storage, dtype, offset, size, stride):
    """A tensor on a storage, of the storage's dtype unless another is given."""
    if not isinstance(storage, TypedStorage):
        raise TypeError(f"a tensor needs a storage, got {type(storage).__name__}")
    dtype = dtype or storage.dtype
    if not isinstance(dtype, torch.dtype):
        name = f"{dtype.module}.{dtype.name}" if isinstance(dtype, Global) else repr(dtype)
        raise NotImplementedError(f"the checkpoint holds a tensor of {name}, which rushlight does not have yet")
    untyped = storage.untyped()
    _check_extent(untyped.nbytes(), dtype, offset, size, stride)
    return view_of(untyped, dtype, offset, tuple(size), tuple(stride))


def _check_extent(available: int, dtype, offset, size, stride) -> None:
    """A view must lie within its storage, or it would show memory that is not its own."""
    numbers = [offset, *size, *stride]
    if not all(type(number) is int and 0 <= number < 1 << 62 for number in numbers) or len(size) != len(stride):
        raise RuntimeError(
            f"the checkpoint describes an impossible tensor: size {size}, stride {stride}, offset {offset}"
        )
    last = offset + sum((length - 1) * step for length, step in zip(size, stride))
    needed = 0 if 0 in size else (last + 1) * dtype.itemsize
    if needed > available:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset}, and itemsize "
            f"{dtype.itemsize} requiring a storage size of {needed} are out of bounds for storage of size {available}"
        )


def _rebuild_from_type_v2(function, kind, arguments, state):
    tensor = function(*arguments)
    if kind is not torch.Tensor and type(tensor) is not kind:
        tensor = tensor.as_subclass(kind)
    return set_state(tensor, state)


def _rebuild_meta_tensor_no_storage(dtype, size, stride, requires_grad):
    return torch.empty_strided(size, stride, dtype=dtype, device="meta", requires_grad=requires_grad)


def _rebuild_sparse_tensor(layout, data):
    if layout is not torch.sparse_coo:
        raise NotImplementedError(
            f"the checkpoint holds a tensor of layout {layout}, which rushlight does not have yet"
        )
    indices, values, size, *coalesced = data
    if not (isinstance(indices, torch.Tensor) and isinstance(values, torch.Tensor)):
        raise TypeError("a sparse tensor needs indices and values")
    return torch.sparse_coo_tensor(indices, values, size, is_coalesced=coalesced == [True])


def _get_layout(name: str):
    """The layout of a name that torch wrote; a name that stands for none yet is told of where a tensor has it."""
    if not isinstance(name, str):
        raise TypeError(f"a layout is called by its name, not {name!r}")
    return {"torch.strided": torch.strided, "torch.sparse_coo": torch.sparse_coo}.get(name, name)


_CALLS = {
    "collections.Counter": lambda: collections.Counter,
    "collections.OrderedDict": lambda: collections.OrderedDict,
    "collections.defaultdict": lambda: collections.defaultdict,
    "builtins.dict": lambda: dict,
    "builtins.float": lambda: float,
    "builtins.int": lambda: int,
    "builtins.list": lambda: list,
    "torch.Size": lambda: torch.Size,
    "torch.Tensor": lambda: torch.Tensor,
    "torch.device": lambda: torch.device,
    "torch.nn.parameter.Parameter": lambda: torch.nn.Parameter,
    "torch.serialization._get_layout": lambda: _get_layout,
    "torch._tensor._rebuild_from_type_v2": lambda: _rebuild_from_type_v2,
}

_BUILDERS = {
    f"torch._utils.{function.__name__}": function
    for function in (
        _rebuild_tensor,
        _rebuild_tensor_v2,
        _rebuild_tensor_v3,
        _rebuild_parameter,
        _rebuild_parameter_with_state,
        _rebuild_meta_tensor_no_storage,
        _rebuild_sparse_tensor,
    )
}


#: Where torch's built-in functions are found here, and what their names begin with there.
_BUILT_IN = {
    "torch._C._nn": ("rushlight.nn.functional", ""),
    "torch._C._special": ("rushlight.special", "special_"),
    "torch._C._linalg": ("rushlight.linalg", "linalg_"),
    "torch._C._fft": ("rushlight.fft", "fft_"),
}
#: The classes whose attributes torch's other functions and methods are.
_CLASSES = {"_VariableFunctionsClass": ("rushlight", "_functions"), "TensorBase": ("rushlight", "Tensor")}


def home(module: str, name: str) -> tuple[str, str]:
    """Where what a file calls by torch's name is found here."""
    if module in _BUILT_IN:
        own, prefix = _BUILT_IN[module]
        return own, name.removeprefix(prefix)
    if name.startswith("torch."):  # so Python calls torch's memory formats: through any module that imported torch
        return "rushlight", name.removeprefix("torch.")
    if module == "torch._C" and name in _CLASSES:
        return _CLASSES[name]
    if module == "torch" or module.startswith("torch."):
        return "rushlight" + module[len("torch") :], name
    return module, name


def find_known(module: str, name: str):
    """The object behind a name that checkpoints use; None if it is not ours."""
    full = f"{'builtins' if module == '__builtin__' else module}.{name}"
    if full in _CALLS:
        return _CALLS[full]()
    if full in _BUILDERS:
        return _BUILDERS[full]
    if full in ("torch.storage.UntypedStorage", "torch.UntypedStorage", "torch.storage.TypedStorage"):
        return StorageClass(torch.uint8)
    if module == "torch" and name in STORAGE_DTYPES:
        return StorageClass(getattr(torch, STORAGE_DTYPES[name]))
    if module == "torch" and isinstance(found := getattr(torch, name, None), torch.dtype):
        return found
    return None
