"""TorchScript's types: what the values of a graph are. Programs compare them and read their names."""

from __future__ import annotations

import rushlight as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Self, TypeAlias

    #: `str` is a method of the classes.
    _Str: TypeAlias = str

__all__ = [
    "AnyType",
    "AwaitType",
    "BoolType",
    "ComplexType",
    "DeviceObjType",
    "DictType",
    "FloatType",
    "FutureType",
    "InferredType",
    "IntType",
    "ListType",
    "NoneType",
    "NumberType",
    "OptionalType",
    "PyObjectType",
    "RRefType",
    "StreamObjType",
    "StringType",
    "SymBoolType",
    "SymIntType",
    "TensorType",
    "TupleType",
    "Type",
    "UnionType",
    "unify_type_list",
]


class Type:
    """A type of TorchScript.

    >>> torch.ListType(torch.IntType.get())
    List[int]
    """

    __hash__ = None  # type: ignore[assignment]

    def containedTypes(self) -> list[Type]:
        """The types of which this one is made.

        >>> torch.DictType(torch.StringType.get(), torch.IntType.get()).containedTypes()
        [str, int]
        """
        return []

    @property
    def annotation_str(self) -> _Str:
        """The type as an annotation in Python: ``List[int]``."""
        raise NotImplementedError

    def str(self) -> _Str:
        """The type as in the schema of an operator.

        >>> torch.ListType(torch.IntType.get()).str()
        'int[]'
        """
        return self.annotation_str

    def kind(self) -> _Str:
        """The name of the class.

        >>> torch.IntType.get().kind()
        'IntType'
        """
        return type(self).__name__

    def isSubtypeOf(self, other: Type) -> bool:
        """Whether a value of this type is one of ``other`` too. Lists and dictionaries are of one type only.

        >>> torch.IntType.get().isSubtypeOf(torch.NumberType.get())
        True
        """
        if isinstance(other, AnyType) or self == other:
            return True
        if isinstance(self, UnionType):
            return all(each.isSubtypeOf(other) for each in self.containedTypes())
        if isinstance(self, OptionalType):
            own = [*self.containedTypes(), NoneType.get()]
            return isinstance(other, (OptionalType, UnionType)) and all(each.isSubtypeOf(other) for each in own)
        if isinstance(other, OptionalType):
            return isinstance(self, NoneType) or self.isSubtypeOf(other.getElementType())
        if isinstance(other, UnionType):
            return any(self.isSubtypeOf(each) for each in other.containedTypes())
        if isinstance(other, NumberType):
            return isinstance(self, (IntType, FloatType, ComplexType))
        if isinstance(self, TupleType) and isinstance(other, TupleType):
            own, wanted = self.elements(), other.elements()
            return len(own) == len(wanted) and all(map(Type.isSubtypeOf, own, wanted))
        return isinstance(self, TensorType) and type(other) is TensorType and other.sizes() is None

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.containedTypes() == other.containedTypes()

    def __repr__(self) -> _Str:
        return self.annotation_str


_singles: dict[type, Any] = {}


class _Single(Type):
    """A type without parts."""

    _word = ""

    @classmethod
    def get(cls) -> Self:
        """The only object of this class."""
        return _singles.setdefault(cls, cls.__new__(cls))

    def __init__(self) -> None:
        raise TypeError(f"torch._C.{type(self).__name__}: No constructor defined!")

    @property
    def annotation_str(self) -> _Str:
        return self._word


class AnyType(_Single):
    """The type of all values.

    >>> torch.AnyType.get()
    Any
    """

    _word = "Any"


class BoolType(_Single):
    """The type of bools.

    >>> torch.BoolType.get()
    bool
    """

    _word = "bool"


class ComplexType(_Single):
    """The type of complex numbers.

    >>> torch.ComplexType.get()
    complex
    """

    _word = "complex"


class DeviceObjType(_Single):
    """The type of devices.

    >>> torch.DeviceObjType.get()
    Device
    """

    _word = "Device"


class FloatType(_Single):
    """The type of floats.

    >>> torch.FloatType.get()
    float
    """

    _word = "float"


class IntType(_Single):
    """The type of ints.

    >>> torch.IntType.get()
    int
    """

    _word = "int"


class NoneType(_Single):
    """The type of None.

    >>> torch.NoneType.get()
    NoneType
    """

    _word = "NoneType"


class NumberType(_Single):
    """The type of ints, floats and complex numbers.

    >>> torch.NumberType.get()
    number
    """

    _word = "number"


class PyObjectType(_Single):
    """The type of objects that TorchScript does not know.

    >>> torch.PyObjectType.get()
    PyObject
    """

    _word = "PyObject"


class StreamObjType(_Single):
    """The type of streams of a device.

    >>> torch.StreamObjType.get()
    Stream
    """

    _word = "Stream"


class StringType(_Single):
    """The type of texts.

    >>> torch.StringType.get()
    str
    """

    _word = "str"


class SymBoolType(_Single):
    """The type of bools that a compiler does not know yet.

    >>> torch.SymBoolType.get()
    bool
    """

    _word = "bool"


class SymIntType(_Single):
    """The type of ints that a compiler does not know yet.

    >>> torch.SymIntType.get()
    int
    """

    _word = "int"


class TensorType(_Single):
    """The type of tensors, or of tensors of one dtype, device and shape.

    >>> torch.TensorType.create_from_tensor(torch.ones(2, 3)).sizes()
    [2, 3]
    """

    _word = "Tensor"
    # Comments, because an annotation would be looked up in `torch`, the public module of the class.
    _example = None  # type: torch.Tensor | None
    _device = None  # type: torch.device | None

    @classmethod
    def getInferred(cls) -> Self:
        """The type of tensors, as assumed for a parameter without annotation.

        >>> torch.TensorType.getInferred()
        Tensor
        """
        return cls.get()

    @classmethod
    def create_from_tensor(cls, tensor: torch.Tensor) -> Self:
        """The type of tensors like this one."""
        made = cls.__new__(cls)
        made._example = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")
        made._device = tensor.device
        return made

    def sizes(self) -> list[int] | None:
        """The sizes of the dimensions, or None."""
        return None if self._example is None else list(self._example.size())

    varyingSizes = sizes

    def strides(self) -> list[int] | None:
        """The strides, or None."""
        return None if self._example is None else list(self._example.stride())

    def dim(self) -> int | None:
        """The number of dimensions, or None."""
        return None if self._example is None else self._example.dim()

    def dtype(self) -> torch.dtype | None:
        """The dtype, or None."""
        return None if self._example is None else self._example.dtype

    def device(self) -> torch.device | None:
        """The device, or None."""
        return self._device

    def scalarType(self) -> _Str | None:
        """The name of the dtype in C++, or None.

        >>> torch.TensorType.create_from_tensor(torch.ones(1)).scalarType()
        'Float'
        """
        return None if self._example is None else _CPP_NAMES.get(self._example.dtype)

    def undefined(self) -> bool:
        """Whether there is no tensor: always False."""
        return False

    def __eq__(self, other: object) -> bool:
        def form(one: TensorType) -> Any:
            return one.sizes(), one.strides(), one.dtype(), one.device()

        return isinstance(other, TensorType) and form(self) == form(other)


_CPP_NAMES = {
    torch.uint8: "Byte", torch.int8: "Char", torch.int16: "Short", torch.int32: "Int", torch.int64: "Long",
    torch.float16: "Half", torch.float32: "Float", torch.float64: "Double", torch.complex32: "ComplexHalf",
    torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble", torch.bool: "Bool",
    torch.bfloat16: "BFloat16", torch.uint16: "UInt16", torch.uint32: "UInt32", torch.uint64: "UInt64",
}  # fmt: skip


class _Around(Type):
    """A type around another one."""

    _form = _schema_form = ""

    def __init__(self, a: Type) -> None:
        if not isinstance(a, Type):
            raise TypeError(f"__init__(): incompatible constructor arguments: {type(a).__name__} is not a type")
        self._element = a

    def getElementType(self) -> Type:
        """The inner type.

        >>> torch.OptionalType(torch.IntType.get()).getElementType()
        int
        """
        return self._element

    def containedTypes(self) -> list[Type]:
        return [self._element]

    @property
    def annotation_str(self) -> _Str:
        return self._form.format(self._element.annotation_str)

    def str(self) -> _Str:
        return (self._schema_form or self._form).format(self._element.str())


class AwaitType(_Around):
    """The type of calls that run when their result is asked for.

    >>> torch.AwaitType(torch.IntType.get())
    Await[int]
    """

    _form, _schema_form = "Await[{}]", "Await({})"


class FutureType(_Around):
    """The type of the results of forked calls.

    >>> torch.FutureType(torch.IntType.get())
    Future[int]
    """

    _form = "Future[{}]"


class RRefType(_Around):
    """The type of references to values of other processes.

    >>> torch.RRefType(torch.IntType.get())
    RRef[int]
    """

    _form = "RRef[{}]"


class OptionalType(_Around):
    """The type of a value or None.

    >>> torch.OptionalType(torch.IntType.get())
    Optional[int]
    """

    _form, _schema_form = "Optional[{}]", "{}?"

    @staticmethod
    def ofTensor() -> OptionalType:
        """The type of tensors and None.

        >>> torch.OptionalType.ofTensor()
        Optional[Tensor]
        """
        return OptionalType(TensorType.get())


class ListType(_Around):
    """The type of lists with elements of one type.

    >>> torch.ListType(torch.IntType.get())
    List[int]
    """

    _form, _schema_form = "List[{}]", "{}[]"

    @staticmethod
    def ofBools() -> ListType:
        """The type of lists of bools."""
        return ListType(BoolType.get())

    @staticmethod
    def ofComplexDoubles() -> ListType:
        """The type of lists of complex numbers."""
        return ListType(ComplexType.get())

    @staticmethod
    def ofFloats() -> ListType:
        """The type of lists of floats."""
        return ListType(FloatType.get())

    @staticmethod
    def ofInts() -> ListType:
        """The type of lists of ints."""
        return ListType(IntType.get())

    @staticmethod
    def ofStrings() -> ListType:
        """The type of lists of strings."""
        return ListType(StringType.get())

    @staticmethod
    def ofTensors() -> ListType:
        """The type of lists of tensors."""
        return ListType(TensorType.get())


class _Several(Type):
    """A type made of several ones."""

    def __init__(self, a: Sequence[Type]) -> None:
        self._parts = list(a)

    def containedTypes(self) -> list[Type]:
        return list(self._parts)

    def _joined(self, of: Any) -> _Str:
        return ", ".join(map(of, self._parts))


class TupleType(_Several):
    """The type of tuples with elements of these types.

    >>> torch.TupleType([torch.IntType.get(), torch.FloatType.get()])
    Tuple[int, float]
    """

    def elements(self) -> list[Type]:
        """The types of the elements.

        >>> torch.TupleType([torch.IntType.get(), torch.FloatType.get()]).elements()
        [int, float]
        """
        return self.containedTypes()

    @property
    def annotation_str(self) -> _Str:
        return f"Tuple[{self._joined(lambda part: part.annotation_str) or '()'}]"

    def str(self) -> _Str:
        return f"({self._joined(lambda part: part.str())})"


class UnionType(_Several):
    """The type of values of one of these types.

    >>> torch.UnionType([torch.IntType.get(), torch.StringType.get()])
    Union[int, str]
    """

    @property
    def annotation_str(self) -> _Str:
        return f"Union[{self._joined(lambda part: part.annotation_str)}]"

    def str(self) -> _Str:
        return f"Union({self._joined(lambda part: part.str())})"

    def __eq__(self, other: object) -> bool:
        def holds(one: UnionType, two: UnionType) -> bool:
            return all(part in two.containedTypes() for part in one.containedTypes())

        return isinstance(other, UnionType) and holds(self, other) and holds(other, self)


class DictType(Type):
    """The type of dictionaries.

    >>> torch.DictType(torch.StringType.get(), torch.IntType.get())
    Dict[str, int]
    """

    def __init__(self, key: Type, value: Type) -> None:
        self._key, self._value = key, value

    def getKeyType(self) -> Type:
        """The type of the keys."""
        return self._key

    def getValueType(self) -> Type:
        """The type of the values."""
        return self._value

    def containedTypes(self) -> list[Type]:
        return [self._key, self._value]

    @property
    def annotation_str(self) -> _Str:
        return f"Dict[{self._key.annotation_str}, {self._value.annotation_str}]"

    def str(self) -> _Str:
        return f"Dict({self._key.str()}, {self._value.str()})"


class InferredType:
    """A type that was found for a value, or the reason why there is none.

    >>> torch.InferredType(torch.IntType.get()).type()
    int
    """

    def __init__(self, arg0: Type | _Str) -> None:
        self._found = arg0

    def success(self) -> bool:
        """Whether there is a type."""
        return isinstance(self._found, Type)

    def type(self) -> Type:
        """The type.

        Raises:
            RuntimeError: there is none.
        """
        if not isinstance(self._found, Type):
            raise RuntimeError("Tried to get the type from an InferredType but the type is null.")
        return self._found

    def reason(self) -> _Str:
        """Why there is no type.

        Raises:
            RuntimeError: there is one.
        """
        if isinstance(self._found, Type):
            raise RuntimeError("the type was inferred, so that there is no reason why not")
        return self._found


def unify_type_list(types: Sequence[Type]) -> Type:
    """The type of all types of a list, which must be the same.

    Raises:
        RuntimeError: the list is empty, or its types differ.

    >>> torch.unify_type_list([torch.IntType.get(), torch.IntType.get()])
    int
    """
    if not types:
        raise RuntimeError("Cannot get unified type from empty list")
    for place, kind in enumerate(types):
        if kind != types[0]:
            raise RuntimeError(
                f"Could not unify type list since element {place} of type {kind} did not match the types before it "
                f"({types[0]})"
            )
    return types[0]


for _name in __all__:
    globals()[_name].__module__ = "rushlight"


def type_of(value: Any) -> Type:
    """The type of a value of a graph."""
    if isinstance(value, torch.Tensor):
        return TensorType.create_from_tensor(value)
    if isinstance(value, tuple):
        return TupleType([type_of(item) for item in value])
    if isinstance(value, list):
        kinds = [type_of(item) for item in value]
        if any(isinstance(kind, TensorType) for kind in kinds):
            return ListType.ofTensors()
        return ListType(kinds[0]) if kinds else ListType.ofTensors()
    for kind, found in (
        (bool, BoolType),
        (int, IntType),
        (float, FloatType),
        (complex, ComplexType),
        (str, StringType),
        (torch.device, DeviceObjType),
        # A dtype, a layout and a memory format are their numbers.
        ((torch.dtype, torch.layout, torch.memory_format), IntType),
        (type(None), NoneType),
    ):
        if isinstance(value, kind):
            return found.get()
    return PyObjectType.get()


def __dir__() -> list[str]:
    return __all__
