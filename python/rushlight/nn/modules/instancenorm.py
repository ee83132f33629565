"""Instance normalisation, which normalises each channel of each sample separately."""

from __future__ import annotations

import rushlight as torch
from rushlight._warnings import warn

from .. import functional as F
from .batchnorm import _LazyNormBase, _NormBase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]


class _InstanceNorm(_NormBase):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(input)
        unbatched = self._dimensions[0]
        dim = input.dim() - unbatched
        if input.size(dim) != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={dim} to match num_features ({self.num_features}), but got: "
                    f"{input.size(dim)}."
                )
            warn(
                f"input's size at dim={dim} does not match num_features. You can silence this warning by not passing "
                "in num_features, which is not used because affine=False",
            )
        if input.dim() == unbatched:
            return self._normalized(input.unsqueeze(0)).squeeze(0)
        return self._normalized(input)

    def _normalized(self, input: torch.Tensor) -> torch.Tensor:
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0,
            self.eps,
        )

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        if local_metadata.get("version") is None and not self.track_running_stats:
            keys = [key for key in (prefix + "running_mean", prefix + "running_var") if key in state_dict]
            if keys:
                kind = type(self).__name__
                names = " and ".join(f'"{key}"' for key in keys)
                error_msgs.append(
                    f"Unexpected running stats buffer(s) {names} for {kind} with track_running_stats=False. If "
                    "state_dict is a checkpoint saved before 0.4.0, this may be expected because "
                    f"{kind} does not track running stats by default since 0.4.0. Please remove these keys from "
                    "state_dict. If the running stats are actually needed, instead set track_running_stats=True in "
                    f"{kind} to enable them. See the documentation of {kind} for details."
                )
                for key in keys:
                    del state_dict[key]
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class InstanceNorm1d(_InstanceNorm):
    """Normalises each channel of each sample along one dimension. Arguments as in `InstanceNorm2d`.

    Shapes: input ``(N, C, L)`` or ``(C, L)``.

    >>> torch.nn.InstanceNorm1d(1)(torch.tensor([[[1.0, 3.0]]]))
    tensor([[[-1.0000,  1.0000]]])
    """

    _dimensions = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalises each channel of each image separately (Ulyanov et al. 2016).

    Args:
        num_features: the number of channels C.
        eps: added to the variance.
        momentum: the weight of a new batch's mean statistics in the running statistics.
        affine: whether to learn a scale and a shift for each channel.
        track_running_stats: whether to keep running statistics and use them in evaluation.
        bias: whether to learn the shift.

    Shapes: input ``(N, C, H, W)`` or ``(C, H, W)``, floating point.

    Raises:
        ValueError: the number of dimensions, or of channels (if ``affine``), is wrong, or a channel has only one value.

    >>> torch.nn.InstanceNorm2d(1)(torch.tensor([[[[1.0, 3.0]]]]))
    tensor([[[[-1.0000,  1.0000]]]])
    """

    _dimensions = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Normalises each channel of each volume separately. Arguments as in `InstanceNorm2d`.

    Shapes: input ``(N, C, D, H, W)`` or ``(C, D, H, W)``.

    >>> torch.nn.InstanceNorm3d(1)(torch.tensor([[[[[1.0, 3.0]]]]]))
    tensor([[[[[-1.0000,  1.0000]]]]])
    """

    _dimensions = (4, 5)


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """An `InstanceNorm1d` that takes ``num_features`` from the first input; affine by default.

    >>> layer = torch.nn.LazyInstanceNorm1d()
    >>> layer(torch.zeros(4, 7, 2)).shape[1], layer.num_features
    (7, 7)
    """

    cls_to_become = InstanceNorm1d
    _dimensions = InstanceNorm1d._dimensions


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """An `InstanceNorm2d` that takes ``num_features`` from the first input; affine by default.

    >>> layer = torch.nn.LazyInstanceNorm2d()
    >>> layer(torch.zeros(4, 7, 2, 2)).shape[1], layer.num_features
    (7, 7)
    """

    cls_to_become = InstanceNorm2d
    _dimensions = InstanceNorm2d._dimensions


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """An `InstanceNorm3d` that takes ``num_features`` from the first input; affine by default.

    >>> layer = torch.nn.LazyInstanceNorm3d()
    >>> layer(torch.zeros(4, 7, 2, 2, 2)).shape[1], layer.num_features
    (7, 7)
    """

    cls_to_become = InstanceNorm3d
    _dimensions = InstanceNorm3d._dimensions
