"""The functions of `torch.func`."""

from rushlight.func import grad as grad
from rushlight.func import grad_and_value as grad_and_value
from rushlight.func import vmap as vmap
