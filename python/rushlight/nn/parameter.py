"""`Parameter` and `Buffer`: tensors that a module registers when they are assigned to it."""

from __future__ import annotations

import rushlight as torch
from rushlight import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Buffer", "Parameter"]


class _ParameterMeta(type):
    """Lets a tensor of a foreign subclass count as a parameter once it is marked ``_is_param``."""

    def __instancecheck__(cls, instance: object) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that a `Module` lists among its parameters when it is assigned as an attribute.

    Args:
        data: tensor of any shape; floating point or complex if ``requires_grad``. An empty tensor by default.
        requires_grad: whether gradients flow into it.

    Raises:
        RuntimeError: ``requires_grad`` with an integer or boolean tensor.

    The parameter shares its memory with ``data``.

    >>> torch.nn.Parameter(torch.tensor([4.0, 9.0]))
    Parameter containing:
    tensor([4., 9.], requires_grad=True)
    """

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
        return marked  # type: ignore[return-value] # of the tensor's own class, and an instance by its mark

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.data.clone(memory_format=torch.preserve_format), self.requires_grad)
        return memo[id(self)]

    def __repr__(self) -> str:
        # As an ordinary tensor: a subclass would be printed with its own name.
        return "Parameter containing:\n" + repr(self.detach().requires_grad_(self.requires_grad))

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        from collections import OrderedDict

        from rushlight import _utils

        # Hooks are not pickled; the empty dict keeps torch's number of arguments.
        state = self.__dict__
        if state:
            return _utils._rebuild_parameter_with_state, (self.data, self.requires_grad, OrderedDict(), state)
        return _utils._rebuild_parameter, (self.data, self.requires_grad, OrderedDict())


class _BufferMeta(type):
    """A buffer is an ordinary tensor with a mark, so ``isinstance`` asks for the mark."""

    def __instancecheck__(cls, instance: object) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Buffer and isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that a `Module` lists among its buffers when it is assigned as an attribute.

    Args:
        data: tensor of any shape and dtype. An empty tensor by default.
        persistent: whether the buffer is part of the module's ``state_dict``.

    >>> module = torch.nn.Module()
    >>> module.mean = torch.nn.Buffer(torch.zeros(2))
    >>> list(module.state_dict())
    ['mean']
    """

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        if data is None:
            data = torch.empty(0)
        marked = data.detach().requires_grad_(data.requires_grad)
        vars(marked).update(persistent=persistent, _is_buffer=True)
        return marked  # type: ignore[return-value] # an instance by its mark
