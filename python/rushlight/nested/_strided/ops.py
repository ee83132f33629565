"""Calls of strided nested tensors: `answer` finds what a call needs by the name of its function.

torch has few functions for them, and these are the same. Functions of contiguous tensors run on the buffer. Others run
sample by sample, and pack the results.
"""

from __future__ import annotations

from rushlight._answers import OF_THE_ELEMENTS, fits, name_of, write_attribute
from rushlight._aten_names import aten_name
from rushlight._C import DisableTorchFunctionSubclass

# The modules whose functions answer calls
from . import elementwise as elementwise
from . import products as products
from . import properties as properties
from . import shapes as shapes
from .registry import ANSWERS
from .tensor import StridedNestedTensor, refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OF_THE_BUFFER = OF_THE_ELEMENTS | {"data_ptr", "layout", "numel", "nelement", "_base"}


def answer(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a call that has such a tensor among its arguments.

    Raises:
        NotImplementedError: the function has no form for them.
    """
    name, writes = name_of(func)
    if writes:
        return write_attribute(func, *args)
    if name in _OF_THE_BUFFER:
        with DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
    found = ANSWERS.get(name)
    if found is None or not fits(found, args, StridedNestedTensor):
        name = {"norm": "linalg_vector_norm"}.get(name, name)
        operator = aten_name(name, args, kwargs).removesuffix(".default")
        raise refusal(operator, args)
    if "self" in kwargs:
        kwargs = {"input" if key == "self" else key: value for key, value in kwargs.items()}
    return found(func, *args, **kwargs)
