"""Predefined parametrizations: orthogonal matrices, spectral normalisation, weight normalisation."""

from __future__ import annotations

import rushlight as torch

from .. import functional as F
from ..modules.conv import _ConvTransposeNd
from ..modules.module import Module
from . import parametrize
from .weight_norm import norm_except_dim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def _tensor_of(module: Module, name: str) -> Tensor:
    weight = getattr(module, name, None)
    if not isinstance(weight, torch.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return weight


def _positive(a: Tensor) -> Tensor:
    """The orthogonal factor of a QR factorisation whose triangular factor has a positive diagonal."""
    q, r = torch.linalg.qr(a)
    return q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    """Maps any matrix to one with orthonormal columns (rows, if there are fewer).

    With ``base``, the result is multiplied by a fixed orthogonal matrix. Assigning a value sets this matrix.
    """

    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Tensor) -> Tensor:
        wide = x.size(-2) < x.size(-1)
        if wide:
            x = x.mT
        height, width = x.shape[-2:]
        if self.orthogonal_map == "householder":
            below = x.tril(-1)
            tau = 2.0 / (1.0 + (below * below).sum(-2))
            q = torch.linalg.householder_product(below, tau)
            # The diagonal contains the signs of the columns.
            q = q * x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        else:
            x = x.tril()
            if height != width:
                x = torch.cat([x, x.new_zeros((*x.shape[:-1], height - width))], -1)
            skew = x - x.mH
            if self.orthogonal_map == "matrix_exp":
                q = torch.matrix_exp(skew)
            else:
                one = torch.eye(height, dtype=skew.dtype, device=skew.device)
                q = torch.linalg.solve(one - skew / 2, one + skew / 2)
            q = q[..., :width]
        base = self._buffers.get("base")
        if base is not None:
            q = base @ q
        return q.mT if wide else q

    def right_inverse(self, q: Tensor) -> Tensor:
        if q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {q.shape}."
            )
        with torch.no_grad():
            wide = q.size(-2) < q.size(-1)
            shape = q.shape
            if wide:
                q = q.mT
            height, width = q.shape[-2:]
            if "base" not in self._buffers:
                if self.orthogonal_map != "householder":
                    raise NotImplementedError(
                        "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                        "use_trivialization=False."
                    )
                reflections, tau = torch.geqrf(q)
                signs = reflections.diagonal(dim1=-2, dim2=-1)
                signs.copy_(signs.sign() * (1 - 2 * (tau == 0)))
                return reflections.mT if wide else reflections
            if height != width:
                filler = torch.randn((*q.shape[:-1], height - width), dtype=q.dtype, device=q.device)
                self.base = _positive(torch.cat([q, filler], -1))
            else:
                one = torch.eye(width, dtype=q.dtype, device=q.device)
                near = 10.0 * height * torch.finfo(q.dtype).eps
                self.base = q.clone() if torch.allclose(q.mH @ q, one, atol=near) else _positive(q)
            # All maps send minus the identity matrix to the identity, so that the product is the base.
            origin = torch.zeros(shape, dtype=q.dtype, device=q.device)
            origin.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
            return origin


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Parametrizes a matrix of a module to be orthogonal (orthonormal columns, or rows if there are fewer).

    Args:
        module, name: the module and the name of the matrix.
        orthogonal_map: ``"matrix_exp"``, ``"cayley"`` or ``"householder"`` (Lezcano-Casado 2019). The default is the
            first for square and complex matrices, and the last otherwise.
        use_trivialization: whether to multiply by a fixed orthogonal matrix, so that any matrix can be assigned.

    Raises:
        ValueError: there is no such matrix, the map is unknown, or the matrix is complex and the map is householder.

    >>> layer = orthogonal(torch.nn.Linear(20, 40))
    >>> torch.allclose(layer.weight.mT @ layer.weight, torch.eye(20), atol=1e-4)
    True
    """
    weight = _tensor_of(module, name)
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1) or weight.is_complex()
        orthogonal_map = "matrix_exp" if square else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    own = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, own, unsafe=True)


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return torch._weight_norm(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Splits a weight into norm and direction (Salimans and Kingma 2016), with one norm per index of ``dim``.

    The norms are ``parametrizations.{name}.original0``, and the direction is ``original1``. States of the older
    `torch.nn.utils.weight_norm` can be loaded.

    Raises:
        ValueError: there is no such tensor.

    >>> layer = weight_norm(torch.nn.Linear(20, 40))
    >>> layer.parametrizations.weight.original0.shape
    torch.Size([40, 1])
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old):
            for place, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{place}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename)
    return module


class _SpectralNorm(Module):
    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        dimensions = weight.ndim
        if not -dimensions <= dim < dimensions:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{dimensions}, {dimensions - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % dimensions
        self.eps = eps
        if dimensions > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._matrix(weight)
            for buffer, size in zip(("_u", "_v"), matrix.size()):
                self.register_buffer(buffer, F.normalize(matrix.new_empty(size).normal_(0, 1), dim=0, eps=eps))
            self._power_method(matrix, 15)

    def _matrix(self, weight: Tensor) -> Tensor:
        return weight.movedim(self.dim, 0).flatten(1)

    def _power_method(self, matrix: Tensor, steps: int) -> None:
        with torch.no_grad():
            for _ in range(steps):
                F.normalize(matrix @ self._v, dim=0, eps=self.eps, out=self._u)
                F.normalize(matrix.mH @ self._u, dim=0, eps=self.eps, out=self._v)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # Cloned, because the next call changes the buffers and backward of this call needs the old values.
        u, v = self._u.clone(), self._v.clone()
        return weight / torch.vdot(u, torch.mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divides a tensor by its largest singular value (Miyato et al. 2018), or a vector by its norm.

    Args:
        module, name: the module and the name of the tensor.
        n_power_iterations: the number of power iterations at each access in training.
        eps: the smallest norm to divide by.
        dim: the dimension of the outputs; by default 1 for transposed convolutions and 0 otherwise.

    Raises:
        ValueError: there is no such tensor, or the number of steps is not positive.
        IndexError: the tensor has no such dimension.

    >>> layer = spectral_norm(torch.nn.Linear(20, 40))
    >>> abs(torch.linalg.matrix_norm(layer.weight, 2).item() - 1) < 0.1
    True
    """
    weight = _tensor_of(module, name)
    if dim is None:
        dim = 1 if isinstance(module, _ConvTransposeNd) else 0
    return parametrize.register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))


def __dir__() -> list[str]:
    return __all__
