"""What tests of programs that use tensors need: ``assert_close``, ``make_tensor``, and in ``strategies`` shapes, strides
and dtypes for hypothesis."""

from ._comparison import assert_close
from ._creation import make_tensor

__all__ = ["assert_close", "make_tensor"]
