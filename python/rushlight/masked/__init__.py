"""`torch.masked`: functions that use only the elements where a mask is true, and tensors that carry such a mask.

The functions replace masked elements by the identity of the operation: zero for a sum, minus infinity for a maximum. The
mask broadcasts to the input. Without a mask, all elements are used. `MaskedTensor` is loaded when it is first used.
"""

from __future__ import annotations

from rushlight._loading import load as _load
from rushlight._missing_names import missing_from as _missing_from
from rushlight._set_module import set_public_module as _set_public_module

from ._ops import amax as amax
from ._ops import amin as amin
from ._ops import argmax as argmax
from ._ops import argmin as argmin
from ._ops import cumprod as cumprod
from ._ops import cumsum as cumsum
from ._ops import log_softmax as log_softmax
from ._ops import logaddexp as logaddexp
from ._ops import logsumexp as logsumexp
from ._ops import mean as mean
from ._ops import median as median
from ._ops import norm as norm
from ._ops import normalize as normalize
from ._ops import prod as prod
from ._ops import softmax as softmax
from ._ops import softmin as softmin
from ._ops import std as std
from ._ops import sum as sum
from ._ops import var as var

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .maskedtensor import MaskedTensor as MaskedTensor
    from .maskedtensor import as_masked_tensor as as_masked_tensor
    from .maskedtensor import is_masked_tensor as is_masked_tensor
    from .maskedtensor import masked_tensor as masked_tensor

_TENSORS = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]
__all__ = [
    "MaskedTensor",
    "amax",
    "amin",
    "argmax",
    "argmin",
    "as_masked_tensor",
    "cumprod",
    "cumsum",
    "is_masked_tensor",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "masked_tensor",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]

_set_public_module(globals())

if not TYPE_CHECKING:

    def __getattr__(name):
        if name == "maskedtensor":
            return _load(f"{__name__}.maskedtensor")
        if name not in _TENSORS:
            raise _missing_from("torch.masked", name, __dir__)
        return getattr(_load(f"{__name__}.maskedtensor"), name)


def __dir__() -> list[str]:
    return __all__
