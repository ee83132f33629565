"""Pickles objects for a checkpoint, with torch's names for rushlight's classes, and with short descriptions of tensors."""

import collections
import operator
import pickle
import sys
import types
from typing import ClassVar

import rushlight as torch
from rushlight import _C
from rushlight._quantized import parameters_of
from rushlight._utils import is_sparse, sparse_parts, wrapper_form
from rushlight.storage import TypedStorage
from rushlight.utils.hooks import warn_if_has_hooks

from .locations import location_tag
from .storage_classes import STORAGE_NAMES


class Global:
    """A name to write into the pickle, whatever object it refers to in rushlight."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self, *_):
        raise TypeError(f"{self.module}.{self.name} is a name in a checkpoint")


_GLOBALS: dict = {}


def named(module: str, name: str) -> Global:
    """Returns one object per name, so that the pickle contains it once."""
    return _GLOBALS.setdefault((module, name), Global(module, name))


class StorageReference:
    """A storage in the pickle: its persistent id."""

    def __init__(self, kind: Global, key: str, location: str, elements: int) -> None:
        # One string per location, so that the pickle contains it once.
        self.id = ("storage", kind, key, sys.intern(location), elements)


class LocalObjectError(pickle.PicklingError, AttributeError):
    """A function or class has no importable name. It derives from the exceptions of newer and of older Python versions."""


class Pickler(pickle._Pickler):
    def __init__(self, file, protocol: int, compact: bool) -> None:
        super().__init__(file, protocol)
        self.storages: list = []
        self.item_sizes: list[int] = []
        self._compact = compact
        self._keys: dict = {}  # address and size -> key, dtype

    def persistent_id(self, obj):
        if isinstance(obj, torch.UntypedStorage):
            return self._storage(obj, None).id
        if isinstance(obj, TypedStorage):
            name = str(obj.dtype).rpartition(".")[2]
            return self._storage(obj.untyped(), name if name in STORAGE_NAMES else None).id
        return obj.id if isinstance(obj, StorageReference) else None

    def reducer_override(self, obj):
        if isinstance(obj, torch.layout):
            return named("torch.serialization", "_get_layout"), (str(obj),)
        if isinstance(obj, torch.Tensor):
            # The functions for parameters already have torch's names.
            return self._reduce_tensor(obj) if type(obj).__reduce_ex__ is torch.Tensor.__reduce_ex__ else NotImplemented
        if isinstance(obj, Global):
            return obj.name
        if isinstance(obj, (torch.dtype, torch.qscheme)):
            return str(obj).rpartition(".")[2]
        if isinstance(obj, torch.Size):
            return named("torch", "Size"), (tuple(obj),)
        if isinstance(obj, torch.device):
            return named("torch", "device"), (obj.type,) if obj.index is None else (obj.type, obj.index)
        return NotImplemented

    def save_global(self, obj, name=None):
        module, name = _checkpoint_name(obj, name)
        if module is None:
            path = name or getattr(obj, "__qualname__", "")
            if "<locals>" in path.split("."):
                raise LocalObjectError(
                    f"Can't pickle local object {path!r}\nA function or class is saved as its name: give it one at the top "
                    "of a module."
                )
            super().save_global(obj, name)
        else:
            self._write_global(obj, module, name)

    def _write_global(self, obj, module, name):
        owner, _, last = name.rpartition(".")
        if self.proto >= 4:
            self.save(module)
            self.save(name)
            self.write(pickle.STACK_GLOBAL)
        elif owner:  # older protocols do not support dotted names
            self.save_reduce(getattr, (operator.attrgetter(owner)(self._module_of(obj, module)), last))
        else:
            self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
        self.memoize(obj)

    def _module_of(self, obj, name):
        """The module that has an object, which the pickle calls by a name."""
        return sys.modules[obj.__module__]

    # The base class looks up functions and types in this table before it calls `save_global`.
    dispatch: ClassVar[dict] = {**pickle._Pickler.dispatch, types.FunctionType: save_global}

    def save_type(self, obj):
        if obj in (type(None), type(NotImplemented), type(...)):
            super().save_type(obj)
        else:
            self.save_global(obj)

    dispatch[type] = save_type

    def _reduce_tensor(self, tensor):
        kind = type(tensor)
        state = dict(getattr(tensor, "__dict__", None) or {})
        function, arguments = self._describe(tensor)
        if kind is torch.Tensor and not state:
            return function, arguments
        return named("torch._tensor", "_rebuild_from_type_v2"), (function, kind, arguments, state)

    def _describe(self, tensor):
        """The function that rebuilds a tensor, and its arguments."""
        if _C._is_wrapper(tensor):
            return named("torch._utils", "_rebuild_wrapper_subclass"), wrapper_form(tensor)
        if tensor.device.type == "meta":
            shape = (tensor.dtype, tuple(tensor.size()), tuple(tensor.stride()), tensor.requires_grad)
            return named("torch._utils", "_rebuild_meta_tensor_no_storage"), shape
        if tensor._backward_hooks:
            warn_if_has_hooks(tensor)
        requires_grad = tensor.requires_grad
        tensor = tensor.detach()
        if is_sparse(tensor):
            return named("torch._utils", "_rebuild_sparse_tensor"), (tensor.layout, sparse_parts(tensor))
        stride = tuple(tensor.stride())
        if self._compact or any(step < 0 for step in stride):
            # torch has no negative strides, so that such a view is saved as a copy.
            tensor = tensor.clone(memory_format=torch.contiguous_format)
            stride = tuple(tensor.stride())
        name = str(tensor.dtype).rpartition(".")[2]
        typed = name in STORAGE_NAMES
        reference = self._storage(tensor.untyped_storage(), name if typed else None)
        if tensor.is_quantized:
            where = reference, tensor.storage_offset(), tuple(tensor.size()), stride
            rest = parameters_of(tensor), requires_grad, collections.OrderedDict()
            return named("torch._utils", "_rebuild_qtensor"), (*where, *rest)
        arguments = (reference, tensor.storage_offset(), tuple(tensor.size()), stride, requires_grad)
        arguments += (collections.OrderedDict(),)
        if typed:
            if tensor.is_conj() or tensor.is_neg():
                arguments += ({"conj" if tensor.is_conj() else "neg": True},)
            return named("torch._utils", "_rebuild_tensor_v2"), arguments
        return named("torch._utils", "_rebuild_tensor_v3"), (*arguments, tensor.dtype)

    def _storage(self, storage, dtype) -> StorageReference:
        size = storage.nbytes()
        # Different empty storages may have the same address.
        place = (storage.data_ptr(), size) if size else object()
        key, known = self._keys.setdefault(place, (str(len(self.storages)), dtype))
        if known != dtype:
            raise RuntimeError("Cannot save multiple tensors or storages that view the same data as different types")
        if int(key) == len(self.storages):
            # Kept alive until it is written, because its address identifies it.
            self.storages.append(storage)
            self.item_sizes.append(getattr(torch, dtype).itemsize if dtype else 1)
        kind = named("torch", STORAGE_NAMES[dtype]) if dtype else named("torch.storage", "UntypedStorage")
        elements = size // getattr(torch, dtype).itemsize if dtype else size
        return StorageReference(kind, key, location_tag(storage), elements)


def _checkpoint_name(obj, name):
    """torch's name of one of rushlight's objects; (None, name) for all others."""
    if isinstance(obj, Global):
        return obj.module, obj.name
    if isinstance(obj, (torch.dtype, torch.qscheme)):
        return "torch", name
    if obj is torch.Tensor:
        return "torch", "Tensor"
    module = getattr(obj, "__module__", None) or ""
    if module == "rushlight" or module.startswith("rushlight."):
        return "torch" + module[len("rushlight") :], name or obj.__qualname__
    return None, name
