"""The Python array API standard, 2024.12: the namespace that ``x.__array_namespace__()`` returns.

The functions have the standard's names, arguments and rules where these differ from torch's: numbers take the dtype of
the array, zero-dimensional tensors promote like any other, and variances are divided by the number of elements by
default.

>>> xp = torch.ones(2).__array_namespace__()
>>> xp.sum(xp.asarray([[1, 2], [3, 4]]), axis=0)
tensor([4, 6])
"""

from rushlight import bool as bool
from rushlight import (
    complex64,
    complex128,
    e,
    float32,
    float64,
    inf,
    int8,
    int16,
    int32,
    int64,
    nan,
    newaxis,
    pi,
    uint8,
    uint16,
    uint32,
    uint64,
)
from rushlight._set_module import set_public_module as _set_public_module

from . import _creation, _elementwise, _manipulation, _statistics, fft, linalg
from ._creation import *  # noqa: F403
from ._dtypes import __array_namespace_info__, astype, can_cast, finfo, iinfo, isdtype, result_type
from ._elementwise import *  # noqa: F403
from ._manipulation import *  # noqa: F403
from ._statistics import *  # noqa: F403

__array_api_version__ = "2024.12"

__all__ = [
    *_creation.__all__,
    *_elementwise.__all__,
    *_manipulation.__all__,
    *_statistics.__all__,
    "__array_api_version__",
    "__array_namespace_info__",
    "astype",
    "bool",
    "can_cast",
    "complex64",
    "complex128",
    "e",
    "fft",
    "finfo",
    "float32",
    "float64",
    "iinfo",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "isdtype",
    "linalg",
    "nan",
    "newaxis",
    "pi",
    "result_type",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

_set_public_module(globals())
