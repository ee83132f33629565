"""Calls of jagged tensors: `answer` finds what a call needs by the name of its function.

Inside, everything is plain tensors: the values of the arguments, and the parts that `Raggedness` describes. Elementwise
functions run on the values, functions across the jagged dimension on a padded tensor.
"""

from __future__ import annotations

from rushlight._answers import OF_THE_ELEMENTS, fits, name_of, write_attribute
from rushlight._aten_names import aten_name
from rushlight._C import DisableTorchFunctionSubclass

# The modules whose functions answer calls
from . import products as products
from . import properties as properties
from . import reductions as reductions
from . import shapes as shapes
from .elementwise import ELEMENTWISE_SLOTS, POINTWISE, pointwise
from .nested_tensor import NestedTensor
from .registry import ANSWERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def answer(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a call that has a jagged tensor among its arguments.

    Raises:
        NotImplementedError: the function has no form for jagged tensors.
    """
    name, writes = name_of(func)
    if writes:
        return write_attribute(func, *args)
    if name in OF_THE_ELEMENTS:
        with DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
    found = ANSWERS.get(name)
    if found is not None and fits(found, args, NestedTensor):
        if "axis" in kwargs:
            kwargs = {"dim" if key == "axis" else key: value for key, value in kwargs.items()}
        if "self" in kwargs:
            kwargs = {"input" if key == "self" else key: value for key, value in kwargs.items()}
        return found(func, *args, **kwargs)
    if name.removesuffix("_") in POINTWISE or name in ELEMENTWISE_SLOTS:
        return pointwise(func, name, args, kwargs)
    raise NotImplementedError(
        f"aten.{aten_name(name, args)}\n{name}() does not take tensors of the layout torch.jagged. Call it on their "
        "values, on the tensors of unbind(), or on to_padded_tensor()."
    )
