"""The legacy constructors: ``torch.Tensor(2, 3)``, ``torch.FloatTensor([1, 2])``."""

from __future__ import annotations

import operator
from types import NoneType

import rushlight as torch
from rushlight import _C
from rushlight._loading import load
from rushlight._set_module import set_module
from rushlight._text import kind_of
from rushlight._warnings import warn_once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_HOST = torch.device("cpu")


def build(
    dtype: torch.dtype,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    home: torch.device = _HOST,
    form: str = "constructor of the form torch.Tensor(tensor, device=device)",
    instead: str = "torch.tensor(...) or torch.as_tensor(...)",
    is_placed: bool = True,
) -> torch.Tensor:
    """A tensor of a dtype on its device, made of sizes, a sequence, a storage or a tensor.

    ``form`` and ``instead`` are for the message about a tensor with a device. ``is_placed`` is whether a tensor has to be there already.
    """
    args, device = _read(args, kwargs)
    if device is not None and args and isinstance(args[0], _C.Tensor):
        raise RuntimeError(f"Legacy tensor {form} is not supported.  Use {instead} instead.")
    _check_device(device, home)
    home = device or home
    data = args[0] if args else 0
    if len(args) > 1 or (_is_size(data) and not isinstance(data, _C.Tensor)):
        try:
            return torch.empty(*args or (0,), dtype=dtype, device=home)
        except TypeError as error:
            raise TypeError(str(error).replace("empty()", "new()", 1)) from None
    if isinstance(data, torch.Size):
        return torch.empty(data, dtype=dtype, device=home)
    if isinstance(data, _C.Tensor):
        if data.dtype != dtype or (data.device.type != home.type and is_placed):
            raise TypeError(f"expected {_options(dtype, home)} (got {_options(data.dtype, data.device)})")
        return data.view_as(data)
    if isinstance(data, load("rushlight.storage").TypedStorage):
        if data.dtype != dtype:
            raise RuntimeError(
                f"Expected a Storage of type {storage_name(dtype)} or an UntypedStorage, but got type "
                f"{storage_name(data.dtype)} for argument 1 'storage'"
            )
        data = data.untyped()
    if isinstance(data, _C.UntypedStorage):
        return torch.empty(0, dtype=dtype, device=home).set_(data)
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{kind_of(data)}'")
    if isinstance(data, dict) or not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        raise TypeError(f"new(): data must be a sequence (got {kind_of(data)})")
    return torch.tensor(data, dtype=dtype, device=home)


def _check_device(device: torch.device | None, home: torch.device) -> None:
    if device is not None and device.type != home.type:
        raise RuntimeError(
            f"legacy constructor expects device type: {home.type} but device type: {device.type} was passed"
        )


def storage_name(dtype: torch.dtype) -> str:
    """The dtype's name in those of legacy classes: ``"Long"``."""
    return load("rushlight.storage").TypedStorage(0, dtype=dtype).pickle_storage_type().removesuffix("Storage")


def _read(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], torch.device | None]:
    """The positional arguments (the first may be given by name) and the device."""
    rest = dict(kwargs)
    device = rest.pop("device", None)
    read = args
    if not args and len(rest) == 1:
        name, value = rest.popitem()
        if name == "size" and isinstance(value, (list, tuple)):
            read = (torch.Size(value),)
        elif name in ("data", "storage") or (name == "other" and isinstance(value, _C.Tensor)):
            read = (value,)
        else:
            rest = kwargs
    if rest or not isinstance(device, (NoneType, str, torch.device)) or (len(read) > 1 and not _is_size(read[0])):
        kinds = [kind_of(value) for value in args] + [f"{name}={kind_of(value)}" for name, value in kwargs.items()]
        raise TypeError(
            f"new() received an invalid combination of arguments - got ({', '.join(kinds)}{'' if args else ', '}), "
            f"but expected one of:{_FORMS}"
        )
    return read, None if device is None else torch.device(device)


_FORMS = """
 * (*, torch.device device = None)
 * (torch.Storage storage)
 * (Tensor other)
 * (tuple of ints size, *, torch.device device = None)
 * (object data, *, torch.device device = None)"""


def _is_size(value: Any) -> bool:
    """Whether it is an integer (also a NumPy integer or a tensor with one element), but not a bool."""
    if isinstance(value, bool):
        return False
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def _options(dtype: torch.dtype, device: torch.device) -> str:
    """The description of a tensor's dtype and device in torch's message, with C++ names."""
    return (
        f"TensorOptions(dtype={name_in_c(dtype)}, device={device}, layout=Strided, requires_grad=false (default), "
        "pinned_memory=false (default), memory_format=(nullopt))"
    )


def name_in_c(dtype: torch.dtype) -> str:
    """The dtype's name in C++, as torch's messages have it: ``"long int"``."""
    return _IN_C.get(dtype, str(dtype).removeprefix("torch."))


_IN_C = {
    _C.float32: "float",
    _C.float64: "double",
    _C.float16: "c10::Half",
    _C.bfloat16: "c10::BFloat16",
    _C.uint8: "unsigned char",
    _C.int8: "signed char",
    _C.int16: "short int",
    _C.int32: "int",
    _C.int64: "long int",
    _C.complex32: "c10::complex<c10::Half>",
    _C.complex64: "c10::complex<float>",
    **{
        getattr(_C, f"float8_{kind}"): f"c10::Float8_{kind}"
        for kind in ("e5m2", "e4m3fn", "e5m2fnuz", "e4m3fnuz", "e8m0fnu")
    },
    _C.complex128: "c10::complex<double>",
}


def construct(cls: type[torch.Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    """``Tensor(...)``, and subclasses of it that have no constructor."""
    # `Tensor` accepts a tensor of any dtype. The types with a dtype accept only tensors of theirs.
    given = args[0] if len(args) == 1 else kwargs.get("other")
    dtype = given.dtype if isinstance(given, _C.Tensor) else torch.get_default_dtype()
    made = build(dtype, args, kwargs, is_placed=False)
    return made if cls is _C.Tensor else _C.Tensor._make_subclass(cls, made)


class _LegacyType(type):
    """The metaclass of ``torch.FloatTensor`` and the other legacy types. Tensors of its dtype are its instances."""

    dtype: torch.dtype
    _type_name: str

    def __new__(mcs, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> _LegacyType:
        for base in bases:
            raise TypeError(f"type '{getattr(base, '_type_name', base.__name__)}' is not an acceptable base type")
        return super().__new__(mcs, name, bases, members)

    def __repr__(cls) -> str:
        return f"<class '{cls._type_name}'>"

    def __instancecheck__(cls, instance: object) -> bool:
        if not isinstance(instance, _C.Tensor) or instance.dtype != cls.dtype or instance.device.type != "cpu":
            return False
        return instance.layout is getattr(cls, "layout", _C.strided)

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.Tensor:
        return build(cls.dtype, args, kwargs)


class _CudaType(_LegacyType):
    """The metaclass of ``torch.cuda.FloatTensor`` and the others. Tensors of its dtype on GPUs are its instances."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _C.Tensor) and instance.is_cuda and instance.dtype == cls.dtype

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.Tensor:
        torch.cuda.init()
        return build(cls.dtype, args, kwargs, _C.device("cuda"))


class _SparseType(_LegacyType):
    """The metaclass of ``torch.sparse.FloatTensor`` and the others. Sparse tensors of its dtype are its instances."""

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.Tensor:
        made = build_sparse(cls.dtype, args, kwargs, "torch.sparse.SparseTensor")
        if args:
            named = (
                ", ".join(("indices", "values", "shape")[: len(args)]) if isinstance(args[0], _C.Tensor) else "shape"
            )
            warn_once(
                f"torch.sparse.SparseTensor({named}, *, device=) is deprecated.  "
                f"Please use torch.sparse_coo_tensor({named}, dtype=, device=)."
            )
        return made


def build_sparse(
    dtype: torch.dtype, args: tuple[Any, ...], kwargs: dict[str, Any], form: str = "SparseTensor.new"
) -> torch.Tensor:
    """A sparse tensor of indices and values, whose dtype it has, or of a size, without entries and of the dtype."""
    parts = 2 <= len(args) <= 3 and all(isinstance(part, _C.Tensor) for part in args[:2])
    given, device = _read(args[:1] if parts else args, kwargs)
    _check_device(device, _HOST)
    if parts:
        if args[0].dtype != _C.int64:
            raise RuntimeError(f"expected scalar type Long but found {storage_name(args[0].dtype)}")
        return torch.sparse_coo_tensor(*args)
    if given and not isinstance(given[0], torch.Size) and not all(_is_size(size) for size in given):
        raise TypeError(
            f"{form}(sequence) only accepts sizes.  Please use torch.sparse_coo_tensor() or "
            "construct a strided tensor and convert it to sparse via to_sparse."
        )
    size = given[0] if given and isinstance(given[0], torch.Size) else given or (0,)
    return torch.sparse_coo_tensor(tuple(size), dtype=dtype)


def sparse_type(name: str) -> _SparseType:
    """``torch.sparse.FloatTensor`` for ``"FloatTensor"``."""
    dtype = TYPES[name]
    doc = f"The legacy type of sparse {dtype} tensors. A call creates a tensor like `torch.sparse_coo_tensor`."
    names = {"dtype": dtype, "layout": _C.sparse_coo, "is_sparse": True, "_type_name": f"torch.sparse.{name}"}
    return _SparseType(name, (), {**names, "__module__": "rushlight.sparse", "__doc__": doc})


def tensor_type(name: str, dtype: torch.dtype) -> _LegacyType:
    """``torch.FloatTensor`` for ``"FloatTensor"`` and its dtype."""
    doc = f"The legacy type of {dtype} tensors on the CPU. A call creates a tensor from sizes or a sequence, like `torch.tensor`."
    names = {"dtype": dtype, "_type_name": f"torch.{name}", "__module__": "rushlight", "__doc__": doc}
    return _LegacyType(name, (), names)


def cuda_type(name: str) -> _CudaType:
    """``torch.cuda.FloatTensor`` for ``"FloatTensor"``."""
    names = {"dtype": TYPES[name], "_type_name": f"torch.cuda.{name}", "__module__": "rushlight.cuda"}
    return _CudaType(name, (), names)


TYPES = {
    "FloatTensor": _C.float32,
    "DoubleTensor": _C.float64,
    "HalfTensor": _C.float16,
    "BFloat16Tensor": _C.bfloat16,
    "ByteTensor": _C.uint8,
    "CharTensor": _C.int8,
    "ShortTensor": _C.int16,
    "IntTensor": _C.int32,
    "LongTensor": _C.int64,
    "BoolTensor": _C.bool,
}


def __getattr__(name: str) -> _LegacyType:
    if name not in TYPES:
        from rushlight._missing_names import missing_from

        raise missing_from("torch", name, lambda: TYPES)
    globals()[name] = made = tensor_type(name, TYPES[name])
    return made


#: Whether a type of GPUs has set the default device.
_on_gpu = False


def set_default_tensor_type(t: Any) -> None:
    """Sets the default dtype to the dtype of a type such as ``torch.DoubleTensor``, or of its name. See
    `set_default_dtype`. With a type of `torch.cuda`, new tensors are on the current GPU, until another type is set.

    Raises:
        TypeError: an integer type.
        RuntimeError: a type of `torch.cuda`, and there is no GPU.

    >>> torch.set_default_tensor_type(torch.DoubleTensor)
    >>> torch.ones(1).dtype
    torch.float64
    >>> torch.set_default_tensor_type("torch.FloatTensor")
    """
    warn_once(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and "
        "torch.set_default_device() as alternatives."
    )
    if isinstance(t, str):
        home, _, name = t.rpartition(".")
        t = getattr(torch.cuda, name) if home == "torch.cuda" else __getattr__(name)
    if isinstance(t, _CudaType):
        torch.cuda.init()
    if isinstance(t, _SparseType):
        raise TypeError("only dense types are supported as the default type")
    if not isinstance(t, _LegacyType):
        raise TypeError("invalid type object: only floating-point types are supported as the default type")
    torch.set_default_dtype(t.dtype)
    global _on_gpu
    if _on_gpu or isinstance(t, _CudaType):
        _on_gpu = isinstance(t, _CudaType)
        torch.set_default_device("cuda" if _on_gpu else None)


set_module("rushlight", set_default_tensor_type)
