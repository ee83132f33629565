"""Batch normalisation, and the base that it shares with instance normalisation: learned scales, running statistics."""

from __future__ import annotations

from typing import Any

import rushlight as torch

from .. import functional as F
from .. import init
from ..parameter import Parameter, UninitializedBuffer, UninitializedParameter
from ._functions import sync_batch_norm
from .lazy import LazyModuleMixin
from .module import Module

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "SyncBatchNorm",
]


class _NormBase(Module):
    """A scale and a shift for each channel, and running statistics of the channels."""

    _version = 2
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]
    # The allowed numbers of dimensions of an input.
    _dimensions: tuple[int, ...]
    num_features: int
    eps: float
    momentum: float | None
    affine: bool
    track_running_stats: bool
    weight: torch.Tensor
    bias: torch.Tensor
    running_mean: torch.Tensor | None
    running_var: torch.Tensor | None
    num_batches_tracked: torch.Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            own = Parameter(torch.empty(num_features, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, own)
        mean = var = count = None
        if track_running_stats:
            mean = torch.zeros(num_features, device=device, dtype=dtype)
            var = torch.ones(num_features, device=device, dtype=dtype)
            count = torch.tensor(0, dtype=torch.int64, device=device)
        self.register_buffer("running_mean", mean)
        self.register_buffer("running_var", var)
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Resets the running statistics."""
        if self.track_running_stats:
            assert self.running_mean is not None
            assert self.running_var is not None
            assert self.num_batches_tracked is not None
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Sets the scale to one and the shift to zero, and resets the running statistics."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() not in self._dimensions:
            expected = " or ".join(f"{dimensions}D" for dimensions in self._dimensions)
            raise ValueError(
                f"expected {expected} input (got {input.dim()}D input)\n  Its shape is {list(input.shape)}."
            )

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
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
        version = local_metadata.get("version")
        if (version is None or version < 2) and self.track_running_stats:
            # State dictionaries of the first version do not contain the number of batches.
            count = self.num_batches_tracked
            fresh = torch.tensor(0, dtype=torch.int64)
            state_dict.setdefault(prefix + "num_batches_tracked", fresh if count is None or count.is_meta else count)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class _BatchNorm(_NormBase):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(input)
        share = self._count()
        mean, var = self.running_mean, self.running_var
        by_batch = self.training or (mean is None and var is None)
        if self.training and not self.track_running_stats:
            mean = var = None
        return F.batch_norm(input, mean, var, self.weight, self.bias, by_batch, share, self.eps)

    def _count(self) -> float:
        """Counts this batch, and returns its weight in the running statistics."""
        share = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                # The running statistics are the mean over all batches so far.
                share = 1.0 / float(self.num_batches_tracked)
        return share


class BatchNorm1d(_BatchNorm):
    """Normalises each feature over the batch. Arguments as in `BatchNorm2d`.

    Shapes: input ``(N, C)`` or ``(N, C, L)``.

    >>> torch.nn.BatchNorm1d(1, affine=False)(torch.tensor([[1.0], [3.0]])).round().flatten()
    tensor([-1.,  1.])
    """

    _dimensions = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalises each channel over the batch (Ioffe and Szegedy 2015): ``(x - mean) / sqrt(var + eps) * weight + bias``.

    Training uses the statistics of the batch and updates the running statistics. Evaluation uses the running
    statistics.

    Args:
        num_features: the number of channels C.
        eps: added to the variance.
        momentum: the weight of a new batch in the running statistics; ``None`` averages over all batches.
        affine: whether to learn a scale and a shift for each channel.
        track_running_stats: whether to keep running statistics; otherwise evaluation uses those of the batch too.
        bias: whether to learn the shift.

    Shapes: input ``(N, C, H, W)``, floating point.

    Raises:
        ValueError: the input has the wrong number of dimensions, or in training only one value per channel.
        RuntimeError: the input has the wrong number of channels.

    >>> layer = torch.nn.BatchNorm2d(1)
    >>> layer(torch.tensor([1.0, 3.0]).reshape(2, 1, 1, 1)).shape
    torch.Size([2, 1, 1, 1])
    >>> layer.running_mean
    tensor([0.2000])
    """

    _dimensions = (4,)


class BatchNorm3d(_BatchNorm):
    """Normalises each channel of volumes over the batch. Arguments as in `BatchNorm2d`.

    Shapes: input ``(N, C, D, H, W)``.

    >>> torch.nn.BatchNorm3d(2).eval()(torch.zeros(1, 2, 1, 1, 1)).flatten()
    tensor([0., 0.], grad_fn=<ViewBackward0>)
    """

    _dimensions = (5,)


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """The base of lazy normalisations. The first input determines the number of channels."""

    weight: Any
    bias: Any
    running_mean: Any
    running_var: Any

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = torch.tensor(0, dtype=torch.int64, device=device)

    def reset_parameters(self) -> None:
        """Initialises scale and shift and resets the running statistics, if there are sizes."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: torch.Tensor) -> None:
        """Sets the number of channels from the input."""
        if not self.has_uninitialized_params():
            # A loaded state has already set the sizes.
            known = self.weight if self.affine else self.running_mean
            self.num_features = input.shape[1] if known is None else known.shape[0]
            return
        self.num_features = input.shape[1]
        for own in (self.weight, self.bias, self.running_mean, self.running_var):
            if own is not None:
                own.materialize((self.num_features,))
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """A `BatchNorm1d` that takes ``num_features`` from the first input.

    >>> layer = torch.nn.LazyBatchNorm1d()
    >>> layer(torch.zeros(4, 7, 2)).shape[1], layer.num_features
    (7, 7)
    """

    cls_to_become = BatchNorm1d
    _dimensions = BatchNorm1d._dimensions


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """A `BatchNorm2d` that takes ``num_features`` from the first input.

    >>> layer = torch.nn.LazyBatchNorm2d()
    >>> layer(torch.zeros(4, 7, 2, 2)).shape[1], layer.num_features
    (7, 7)
    """

    cls_to_become = BatchNorm2d
    _dimensions = BatchNorm2d._dimensions


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """A `BatchNorm3d` that takes ``num_features`` from the first input.

    >>> layer = torch.nn.LazyBatchNorm3d()
    >>> layer(torch.zeros(4, 7, 2, 2, 2)).shape[1], layer.num_features
    (7, 7)
    """

    cls_to_become = BatchNorm3d
    _dimensions = BatchNorm3d._dimensions


class SyncBatchNorm(_BatchNorm):
    """A batch normalisation with the common statistics of the batches of all processes.

    Args:
        num_features, eps, momentum, affine, track_running_stats, bias: as in `BatchNorm2d`.
        process_group: the processes; all of them if None.

    Each process calls the layer on its part of the batch. The result and its gradients are those of `BatchNorm2d` for the
    whole batch, for any number of dimensions from two. The parts may have different sizes. Evaluation is that of one process.

    Raises:
        ValueError: the input has fewer than two dimensions, or no channels.

    >>> layer = torch.nn.SyncBatchNorm.convert_sync_batchnorm(torch.nn.Sequential(torch.nn.BatchNorm1d(3)))
    >>> layer
    Sequential(
      (0): SyncBatchNorm(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    )
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(
                f"expected at least 2D input (got {input.dim()}D input)\n  Its shape is {list(input.shape)}."
            )
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        from rushlight import distributed as dist

        if not self.training or not dist.is_initialized() or dist.get_world_size(self.process_group) == 1:
            return super().forward(input)
        self._check_input_dim(input)
        share = self._count()
        mean, var = self.running_mean, self.running_var
        running = (mean, var) if self.track_running_stats and mean is not None and var is not None else None
        return sync_batch_norm(input, self.weight, self.bias, running, share, self.eps, self.process_group)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """Replaces every batch normalisation in a module by one of this class with the same state."""
        converted = module
        if isinstance(module, _BatchNorm):
            made = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            made.weight, made.bias = module.weight, module.bias
            made.running_mean, made.running_var = module.running_mean, module.running_var
            made.num_batches_tracked = module.num_batches_tracked
            made.training = module.training
            converted = made
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted
