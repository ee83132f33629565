"""The extension module: tensors, dtypes, devices and the operators."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias, overload

Number: TypeAlias = bool | int | float | complex
DeviceLike: TypeAlias = device | str | int

class dtype: ...
class device: ...
class Generator: ...

class Tensor:
    # the operators' methods

# the operators
