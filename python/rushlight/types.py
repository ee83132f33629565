"""`torch.types`: names for annotations."""

from builtins import bool as _bool
from builtins import float as _float
from builtins import int as _int
from builtins import str as _str
from typing import TypeAlias

from rushlight import Size, Tensor, device, dtype, layout

Number: TypeAlias = _int | _float | _bool | complex
Device: TypeAlias = device | _str | _int | None
_dtype = dtype
_device = device
_layout = layout
_size: TypeAlias = Size | list[_int] | tuple[_int, ...]
_TensorOrTensors: TypeAlias = Tensor | tuple[Tensor, ...]
FileLike: TypeAlias = object
