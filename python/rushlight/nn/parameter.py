"""`Parameter` and `Buffer`: tensors that a module registers when they are assigned as attributes."""

from __future__ import annotations

from typing import ClassVar

import rushlight as torch
from rushlight import _C, Tensor
from rushlight._answers import answered_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "is_lazy"]


class _ParameterMeta(type):
    """Makes `isinstance` true for instances of other tensor subclasses that are marked ``_is_param``."""

    def __instancecheck__(cls, instance: object) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that becomes a parameter of a `Module` when it is assigned as an attribute.

    Args:
        data: a tensor of any shape; floating point or complex if ``requires_grad``. An empty tensor by default.
        requires_grad: whether it requires a gradient.

    Raises:
        RuntimeError: ``requires_grad`` with an integer or boolean tensor.

    The parameter shares its memory with ``data``.

    >>> torch.nn.Parameter(torch.tensor([4.0, 9.0]))
    Parameter containing:
    tensor([4., 9.], requires_grad=True)
    """

    # For every operator it is an ordinary tensor.
    __torch_function__ = _C._disabled_torch_function_impl  # type: ignore[assignment] # never bound

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = torch.empty(0)
        if type(data) is Tensor or type(data) is Parameter:
            return Tensor._make_subclass(cls, data, requires_grad)
        marked = data.detach().requires_grad_(requires_grad)
        if type(marked) is not type(data):
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {type(data).__name__} requires that detach() returns "
                f"an instance of the same type, but return type {type(marked).__name__} was found instead. To use the "
                "type as a Parameter, please correct the detach() semantics defined by its __torch_dispatch__() "
                "implementation."
            )
        vars(marked).update(_is_param=True)
        return marked  # type: ignore[return-value] # has the tensor's own class; `isinstance` checks the mark

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.data.clone(memory_format=torch.preserve_format), self.requires_grad)
        return memo[id(self)]

    def __repr__(self) -> str:
        if type(self) is not Parameter:
            return f"Parameter containing:\nParameter({Tensor.__repr__(self)})"
        # Printed as an ordinary tensor. Otherwise the text would contain the name of this class.
        return "Parameter containing:\n" + repr(self.detach().requires_grad_(self.requires_grad))

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        from collections import OrderedDict

        from rushlight import _utils

        # Hooks are not pickled. The empty dict keeps torch's number of arguments.
        state = self.__dict__
        if state:
            return _utils._rebuild_parameter_with_state, (self.data, self.requires_grad, OrderedDict(), state)
        return _utils._rebuild_parameter, (self.data, self.requires_grad, OrderedDict())


class _BufferMeta(type):
    """A buffer is an ordinary tensor with a mark, so ``isinstance`` checks the mark."""

    def __instancecheck__(cls, instance: object) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Buffer and isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that becomes a buffer of a `Module` when it is assigned as an attribute.

    Args:
        data: a tensor of any shape and dtype. An empty tensor by default.
        persistent: whether the buffer is part of the module's ``state_dict``.

    >>> module = torch.nn.Module()
    >>> module.mean = torch.nn.Buffer(torch.zeros(2))
    >>> list(module.state_dict())
    ['mean']
    """

    __torch_function__ = _C._disabled_torch_function_impl  # type: ignore[assignment] # as in Parameter
    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        if data is None:
            data = torch.empty(0)
        marked = data.detach().requires_grad_(data.requires_grad)
        vars(marked).update(persistent=persistent, _is_buffer=True)
        return marked  # type: ignore[return-value] # `isinstance` checks the mark


class UninitializedTensorMixin:
    """A tensor whose sizes are not known yet. It can be moved, converted and given its sizes; other operations fail.

    Lazy modules, such as `LazyLinear`, have them until their first input.
    """

    cls_to_become: ClassVar[type[Tensor]]

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Sets the sizes and allocates uninitialised memory. The tensor becomes an ordinary parameter or buffer."""
        own: Any = self
        wanted = {
            "device": own.data.device if device is None else device,
            "dtype": own.data.dtype if dtype is None else dtype,
        }
        own.data = torch.empty(shape, **wanted)
        own.__class__ = self.cls_to_become

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` to "
            "initialize the parameters before accessing their attributes."
        )

    def share_memory_(self) -> Any:
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters "
            "before calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        own: Any = self
        return type(self), (own.requires_grad, own.data.device, own.data.dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        own: Any = self
        if id(self) not in memo:
            memo[id(self)] = _uninitialized(type(own), own.requires_grad, own.data.device, own.data.dtype)
        return memo[id(self)]


def _uninitialized(kind: Any, requires_grad: bool, device: Any, dtype: Any) -> Any:
    _C._expect_overrides()
    return Tensor._make_subclass(kind, torch.empty(0, device=device, dtype=dtype), requires_grad)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose sizes are not known yet. `materialize` sets them.

    Args:
        requires_grad: whether it will require a gradient.
        device, dtype: its device and dtype; the defaults if None.

    Raises:
        RuntimeError: its shape is read.
        ValueError: another method is called before it has sizes.

    >>> weight = torch.nn.UninitializedParameter()
    >>> weight.materialize((2, 3))
    >>> weight.shape
    torch.Size([2, 3])
    """

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> UninitializedParameter:
        return _uninitialized(cls, requires_grad, device, dtype)


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose sizes are not known yet. `materialize` sets them.

    Raises:
        RuntimeError: its shape is read.
        ValueError: another method is called before it has sizes.

    >>> mean = torch.nn.UninitializedBuffer()
    >>> mean.materialize(4)
    >>> mean.shape
    torch.Size([4])
    """

    __torch_function__ = _C._disabled_torch_function_impl  # type: ignore[assignment] # until `_answer` takes its place
    cls_to_become = Tensor
    persistent: bool

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> UninitializedBuffer:
        made = _uninitialized(cls, requires_grad, device, dtype)
        vars(made).update(persistent=persistent, _is_buffer=True)
        return made


_ALLOWED = frozenset(
    getattr(Tensor, name)
    for name in "__hash__ size copy_ is_complex is_floating_point half float double char short int long cuda cpu to "
    "get_device".split()
)


def _answer(cls: type, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls the functions that need no sizes, and refuses all others."""
    # Properties are read through wrapped methods.
    if func in _ALLOWED or type(func).__name__ == "method-wrapper":
        return _C._disabled_torch_function_impl(func, (cls,), args, kwargs)
    raise ValueError(
        f"Attempted to use an uninitialized parameter in {func}. This error happens when you are using a `LazyModule` "
        f"or explicitly manipulating `torch.nn.parameter.{cls.__name__}` objects. When using LazyModules Call "
        "`forward` with a dummy batch to initialize the parameters before calling torch functions"
    )


for _cls in (UninitializedParameter, UninitializedBuffer):
    answered_by(_cls, _answer)


def _kept(name: str) -> Callable[..., Any]:
    convert = getattr(Tensor, name)

    def converted(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = convert(self, *args, **kwargs)
        if made is self or not isinstance(made, Tensor):
            return made
        return UninitializedBuffer(made.requires_grad, made.device, made.dtype)

    converted.__name__ = name
    return converted


# A converted buffer still has no sizes. For a parameter, a module converts only the data.
for _name in "char cpu cuda double float half int long short to".split():
    setattr(UninitializedBuffer, _name, _kept(_name))


def is_lazy(param: Any) -> bool:
    """Whether a parameter or buffer has no sizes yet.

    >>> torch.nn.parameter.is_lazy(torch.nn.UninitializedParameter())
    True
    """
    return isinstance(param, UninitializedTensorMixin)


def __dir__() -> list[str]:
    return __all__
