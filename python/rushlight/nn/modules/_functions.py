"""Batch normalisation with the statistics of several processes."""

from __future__ import annotations

import rushlight as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def sync_batch_norm(
    input: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running: tuple[torch.Tensor, torch.Tensor] | None,
    share: float,
    eps: float,
    group: Any,
) -> torch.Tensor:
    """Normalises each channel over the batches of all ranks of a group. Gradients pass through the statistics.

    Means and sums of squares of parts are combined by the formulas of Chan, Golub and LeVeque (1979).

    Args:
        input: this rank's batch, which may be empty.
        running: the running mean and variance, which are updated.
        share: the weight of this batch in the running statistics.
    """
    from rushlight.distributed.nn.functional import all_gather

    wide = input.float() if input.dtype.itemsize < 4 else input
    dims, channels = [0, *range(2, input.dim())], input.size(1)
    count = input.numel() // channels
    if count:
        variance, mean = torch.var_mean(wide, dims, correction=0)
    else:
        variance = mean = wide.sum(dims)
    parts = torch.stack(all_gather(torch.cat([mean, variance * count, wide.new_full((1,), count)]), group))
    means, squares, counts = parts[:, :channels], parts[:, channels:-1], parts[:, -1:].detach()
    total = int(counts.sum())
    if total <= 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.shape}")
    mean = (means * counts).sum(0) / total
    squares = (squares + counts * (means - mean).square()).sum(0)
    if running is not None:
        with torch.no_grad():
            for kept, new in zip(running, (mean, squares / (total - 1))):
                kept.lerp_(new.to(kept.dtype), share)
    shape = [1, channels, *[1] * (input.dim() - 2)]
    scale = (squares / total + eps).rsqrt()
    if weight is not None:
        scale = scale * weight
    out = (wide - mean.view(shape)) * scale.view(shape)
    if bias is not None:
        out = out + bias.view(shape)
    return out.to(input.dtype)
