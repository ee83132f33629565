"""Spectral normalisation by a hook, which divides a weight by its largest singular value."""

from __future__ import annotations

import rushlight as torch

from .. import functional as F
from ..modules.conv import _ConvTransposeNd
from ..parameter import Parameter, is_lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from rushlight import Tensor

    from ..modules.module import Module

    M = TypeVar("M", bound=Module)

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]


class SpectralNorm:
    """A hook that computes a weight from ``{name}_orig`` before each call.

    The singular value is estimated by power iteration. Its vectors ``{name}_u`` and ``{name}_v`` are buffers, which
    training updates.

    >>> linear = torch.nn.utils.spectral_norm(torch.nn.Linear(2, 2))
    >>> [name for name, _ in linear.named_parameters()]
    ['bias', 'weight_orig']
    """

    _version = 1

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """The weight as a matrix with the indices of ``dim`` as rows."""
        return weight.movedim(self.dim, 0).reshape(weight.size(self.dim), -1)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """The weight divided by the singular value, optionally after a power iteration."""
        weight, u, v = (getattr(module, self.name + suffix) for suffix in ("_orig", "_u", "_v"))
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with torch.no_grad():
                for _ in range(self.n_power_iterations):
                    # Written in place, because copies of the module on other devices share the buffers.
                    F.normalize(matrix.t() @ u, dim=0, eps=self.eps, out=v)
                    F.normalize(matrix @ v, dim=0, eps=self.eps, out=u)
            # Cloned, because the next call changes the buffers and backward of this call needs the old values.
            u, v = u.clone(), v.clone()
        return weight / torch.dot(u, torch.mv(matrix, v))

    def remove(self, module: Module) -> None:
        """Makes the weight an ordinary parameter again."""
        with torch.no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for suffix in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + suffix)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    @staticmethod
    def apply(module: Module, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Replaces the parameter and registers the hook."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        own = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. Make sure to run the dummy "
                "forward before applying spectral normalization"
            )
        with torch.no_grad():
            height, width = own.reshape_weight_to_matrix(weight).size()
            u, v = (F.normalize(weight.new_empty(size).normal_(0, 1), dim=0, eps=eps) for size in (height, width))
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        # A plain tensor instead of a parameter, which the hook replaces by the computed weight.
        setattr(module, name, weight.data)
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(own)
        module._register_state_dict_hook(_NoteVersion(own))
        module._register_load_state_dict_pre_hook(_ReadFirstVersion(own))
        return own


class _NoteVersion:
    """Stores the version of the normalisation in the metadata of a state, as torch does."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(self, module: Module, state_dict: Any, prefix: str, local_metadata: dict[str, Any]) -> None:
        local_metadata.setdefault("spectral_norm", {})[self.fn.name + ".version"] = self.fn._version


class _ReadFirstVersion:
    """Completes a state of the first version, which has the normalised weight instead of ``{name}_v``."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        *others: list[str],
    ) -> None:
        version = local_metadata.get("spectral_norm", {}).get(self.fn.name + ".version")
        key = prefix + self.fn.name
        if version is not None and version >= 1:
            return
        if version is None and key not in state_dict and all(key + end in state_dict for end in ("_orig", "_u", "_v")):
            return  # the metadata was lost
        if missing := [key + end for end in ("_orig", "", "_u") if key + end not in state_dict]:
            if strict:
                missing_keys.extend(missing)
            return
        with torch.no_grad():
            original, u = state_dict[key + "_orig"], state_dict[key + "_u"]
            value = (original / state_dict.pop(key)).mean()
            matrix = self.fn.reshape_weight_to_matrix(original)
            # The vector of which the matrix makes a multiple of u, as long as the singular value says.
            v = torch.linalg.pinv(matrix) @ u
            state_dict[key + "_v"] = v * (value / torch.dot(u, torch.mv(matrix, v)))


def spectral_norm(
    module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> M:
    """Divides a weight by its largest singular value before each call (Miyato et al. 2018).

    Args:
        module, name: the module and the name of the weight.
        n_power_iterations: the number of power iterations per call in training.
        eps: the smallest norm to divide by.
        dim: the dimension of the outputs; by default 1 for transposed convolutions and 0 otherwise.

    Raises:
        RuntimeError: the weight is already normalised.
        ValueError: the parameter is None, or the number of steps is not positive.

    >>> layer = torch.nn.utils.spectral_norm(torch.nn.Linear(20, 40))
    >>> layer.weight_u.shape
    torch.Size([40])
    """
    if dim is None:
        dim = 1 if isinstance(module, _ConvTransposeNd) else 0
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Removes `spectral_norm`. The weight keeps its last value.

    Raises:
        ValueError: the weight is not normalised.

    >>> layer = torch.nn.utils.spectral_norm(torch.nn.Linear(20, 40))
    >>> torch.nn.utils.remove_spectral_norm(layer)
    Linear(in_features=20, out_features=40, bias=True)
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            break
    else:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    for key, noting in module._state_dict_hooks.items():
        if isinstance(noting, _NoteVersion) and noting.fn.name == name:
            del module._state_dict_hooks[key]
            break
    for key, reading in module._load_state_dict_pre_hooks.items():
        own = getattr(reading, "hook", None)
        if isinstance(own, _ReadFirstVersion) and own.fn.name == name:
            del module._load_state_dict_pre_hooks[key]
            break
    return module
