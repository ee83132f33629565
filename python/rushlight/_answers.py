"""What nested, masked and distributed tensors share: something beside the elements, and a class that answers functions.

Each class has a table of answers by the names of the functions, because a function, a method and Python's operator have
one name but are several objects.
"""

from __future__ import annotations

from types import GetSetDescriptorType

from rushlight._aten_names import PYTHON_OPERATORS
from rushlight._C import DisableTorchFunctionSubclass, Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Answer = Callable[..., Any]

#: Attributes and methods that ask for the elements' dtype, memory or history, and so need no answer of the class.
OF_THE_ELEMENTS = frozenset(
    """dtype device requires_grad is_leaf retains_grad output_nr is_cuda is_cpu is_meta is_sparse is_mkldnn is_quantized
    is_inference is_floating_point is_complex is_signed element_size itemsize get_device is_pinned is_shared is_conj is_neg
    untyped_storage storage_offset _version retain_grad nbytes is_xpu is_mps is_ipu is_xla is_vulkan is_mtia is_maia _is_view
    """.split()
)


def registering(table: dict[str, Answer]) -> Callable[..., Callable[[Answer], Answer]]:
    """A decorator that makes a function answer calls of some names. It gets the function called, and its arguments."""

    def answers(*names: str) -> Callable[[Answer], Answer]:
        def kept(answer: Answer) -> Answer:
            table.update(dict.fromkeys(names, answer))
            return answer

        return kept

    return answers


def fits(answer: Answer, args: tuple[Any, ...], cls: type) -> bool:
    """Whether a call's first argument is one that an answer takes: an instance of the class, unless ``input`` is Any."""
    of_the_class = answer.__annotations__.get("input", "Any") != "Any"
    return not (of_the_class and args and not isinstance(args[0], cls))


def where_operands(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, Any]:
    """The condition and the two operands of a call of `torch.where`, or of the method, which has the condition second.

    Raises:
        TypeError: one is missing.
    """
    names = ("input", "condition", "other") if func is Tensor.where else ("condition", "input", "other")
    given = {**dict(zip(names, args)), **kwargs}
    for name in names:
        if name not in given:
            raise TypeError(f'where() missing 1 required positional arguments: "{name}"')
    return given["condition"], given["input"], given["other"]


def name_of(func: Any) -> tuple[str, bool]:
    """The name of a function, method or attribute, and whether the attribute is written."""
    owner = getattr(func, "__self__", None)
    if isinstance(owner, GetSetDescriptorType):
        return owner.__name__, func.__name__ in ("__set__", "__delete__")
    name = func.__name__
    if name == "grad":
        return "grad_of", False  # the function of `torch.autograd`
    return PYTHON_OPERATORS.get(name, name), False


def answered_by(cls: type, answer: Callable[[type, Any, tuple[Any, ...], dict[str, Any]], Any]) -> None:
    """Lets a class answer the functions that get its tensors: its ``__torch_function__`` calls ``answer``.

    The class is defined without it, so that programs that only load it do not pay for overrides. The functions that make
    its tensors call `_C._expect_overrides`.
    """

    def __torch_function__(
        cls: type, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return answer(cls, func, args, kwargs or {})

    cls.__torch_function__ = classmethod(__torch_function__)  # type: ignore[attr-defined]


def own_node(node: Any) -> Any:
    """The node behind those that only change the class of a tensor."""
    while node is not None and node.name() == "AliasBackward0":
        behind = node.next_functions[0][0]
        if behind is None or behind.name() == "torch::autograd::AccumulateGrad":
            break
        node = behind
    return node


def elements(tensor: Tensor) -> Tensor:
    """The elements as a plain tensor, with their history."""
    with DisableTorchFunctionSubclass():
        return tensor.as_subclass(Tensor)


def write_attribute(func: Any, tensor: Tensor, value: Any = None) -> None:
    """Writes or deletes an attribute of the elements, such as their gradient."""
    if isinstance(value, Tensor):
        value = elements(value)
    with DisableTorchFunctionSubclass():
        if func.__name__ == "__delete__":
            func(tensor)
        else:
            func(tensor, value)
