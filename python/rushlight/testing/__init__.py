"""Tools for tests of programs with tensors: ``assert_close`` (formerly ``assert_allclose``), ``make_tensor``, ``fuzz``
for derivatives, and ``strategies`` with shapes, strides and dtypes for hypothesis."""

from rushlight._set_module import set_public_module as _set_public_module

from ._comparison import assert_allclose, assert_close
from ._creation import make_tensor
from ._file_check import FileCheck
from ._fuzz import FuzzError, fuzz
from ._operands import operand

__all__ = ["FileCheck", "FuzzError", "assert_allclose", "assert_close", "fuzz", "make_tensor", "operand"]

_set_public_module(globals())
