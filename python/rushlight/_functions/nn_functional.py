"""The operators of `torch.nn.functional`. The stub is generated."""

from rushlight._C import _functions

globals().update(_functions["nn.functional"])
