"""The package ``functorch``, which torch installs beside itself: the functions of `torch.func` under an older name."""

from rushlight._functorch.make_functional import FunctionalModule as FunctionalModule
from rushlight._functorch.make_functional import FunctionalModuleWithBuffers as FunctionalModuleWithBuffers
from rushlight._functorch.make_functional import combine_state_for_ensemble as combine_state_for_ensemble
from rushlight._functorch.make_functional import make_functional as make_functional
from rushlight._functorch.make_functional import make_functional_with_buffers as make_functional_with_buffers
from rushlight.func import grad as grad
from rushlight.func import grad_and_value as grad_and_value
from rushlight.func import hessian as hessian
from rushlight.func import jacfwd as jacfwd
from rushlight.func import jacrev as jacrev
from rushlight.func import jvp as jvp
from rushlight.func import vjp as vjp
from rushlight.func import vmap as vmap
