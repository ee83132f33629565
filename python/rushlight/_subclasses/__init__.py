"""`torch._subclasses`: tensors without data for a compiler, which rushlight does not have. Libraries ask whether one is meant."""

from .fake_tensor import FakeTensor as FakeTensor
from .fake_tensor import FakeTensorMode as FakeTensorMode
