"""`torch.types`: names for annotations."""

from builtins import bool as _bool
from builtins import float as _float
from builtins import int as _int
from builtins import str as _str
from typing import TypeAlias as _TypeAlias

from rushlight import Size, Tensor, device, dtype, layout

Number: _TypeAlias = _int | _float | _bool | complex
Device: _TypeAlias = device | _str | _int | None
_dtype = dtype
_device = device
_layout = layout
_size: _TypeAlias = Size | list[_int] | tuple[_int, ...]
_TensorOrTensors: _TypeAlias = Tensor | tuple[Tensor, ...]
FileLike: _TypeAlias = object
