"""Tensors with a mask of the elements that are valid."""

from .core import MaskedTensor as MaskedTensor
from .core import is_masked_tensor as is_masked_tensor
from .creation import as_masked_tensor as as_masked_tensor
from .creation import masked_tensor as masked_tensor

__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]
