"""What tests of programs that use tensors need: ``assert_close`` (of old ``assert_allclose``), ``make_tensor``, ``fuzz`` for derivatives, and in
``strategies`` shapes, strides and dtypes for hypothesis."""

from rushlight._homes import adopt as _adopt

from ._comparison import assert_allclose, assert_close
from ._creation import make_tensor
from ._fuzz import FuzzError, fuzz
from ._operands import operand

__all__ = ["FuzzError", "assert_allclose", "assert_close", "fuzz", "make_tensor", "operand"]

_adopt(globals())
