"""A linear layer followed by cross entropy, optionally computed for a few samples at a time."""

from __future__ import annotations

import dataclasses
import math

import rushlight as torch
from rushlight import _C, dtype
from rushlight._overridable import overridable
from rushlight._set_module import set_module
from rushlight._warnings import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor

_POLICIES = ("auto", "accurate", "balanced", "compact")


@dataclasses.dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """Makes `linear_cross_entropy` split the batch into chunks, so that only one chunk's scores exist at a time.

    Args:
        allow_retain_graph: whether backward may run again through a sum or a mean.
        batch_chunk_size: the number of samples per chunk.
        chunking_method: how to choose the chunk size: "aspect_ratio" makes a chunk's scores about as large as the
            input, "aspect_ratio:N" ``N`` times smaller; "auto" is "aspect_ratio:2".
        acc_policy: "auto", "accurate", "balanced" or "compact": accepted; it has no effect on the result.
        acc_dtype: accepted; it has no effect.

    Raises:
        ValueError: the policy or the method is unknown, or the size is not a positive number.

    >>> torch.nn.LinearCrossEntropyOptions(batch_chunk_size=2).batch_chunk_size
    2
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: dtype | None = None

    def __post_init__(self) -> None:
        if self.acc_policy not in _POLICIES:
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        if self.chunking_method not in (None, "auto") and _factor(self.chunking_method or "") is None:
            raise ValueError(f"invalid chunking_method: {self.chunking_method!r}")
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")

    def chunk(self, batch: int, features: int, classes: int) -> int:
        """The number of samples per chunk for these sizes."""
        method = self.chunking_method
        if method == "auto":
            method = "aspect_ratio:2" if self.batch_chunk_size is None else None
        if method is None:
            return max(1, min(self.batch_chunk_size or batch, batch))
        near = -(-batch // -(-classes // max(features, 1)))
        chosen = max(1, min((1 << (near - 1).bit_length()) // (_factor(method) or 1), batch))
        if self.batch_chunk_size is not None and self.batch_chunk_size != chosen:
            raise ValueError(
                f"batch_chunk_size (={self.batch_chunk_size}) and chunking_method ('{method}') give different "
                f"chunk sizes ({self.batch_chunk_size} vs {chosen}); pass only one."
            )
        return chosen


set_module("rushlight.nn.modules", LinearCrossEntropyOptions)


def _factor(method: str) -> int | None:
    """``N`` of "aspect_ratio:N", 1 if ``N`` is missing, or None for other text."""
    name, _, factor = method.partition(":")
    factor = factor if ":" in method else "1"
    return int(factor) if name == "aspect_ratio" and factor.isdigit() and int(factor) > 0 else None


@overridable
def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> Tensor:
    """`cross_entropy` of ``linear(input, linear_weight, linear_bias)``.

    Args:
        input: shape ``(features)`` or ``(N, features)``.
        linear_weight: shape ``(C, features)``, or ``(C, d1, .., features)`` for a loss with several dimensions.
        target: class indices or probabilities, as in `cross_entropy`.
        linear_bias: the shape of ``linear_weight`` without its last dimension.
        weight, reduction, label_smoothing: as in `cross_entropy`.
        ignore_index: targets with this class index are ignored; -100 by default.
        options: splits the batch into chunks if targets are class indices and there is no label smoothing. The scores
            of all samples then never exist at the same time. A sum or mean has no second gradients then, because its
            gradients are computed with it.

    Raises:
        RuntimeError: the shapes do not match, ``ignore_index`` is given with probabilities, or backward runs again
            through a sum or mean in chunks without ``allow_retain_graph``.

    >>> torch.nn.functional.linear_cross_entropy(torch.ones(2, 3), torch.zeros(4, 3), torch.tensor([0, 3]))
    tensor(1.3863)
    """
    classes, sizes = _check(input, linear_weight, linear_bias)
    shape = (*input.shape[:-1], classes, *sizes)
    if tuple(target.shape) == shape and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    ignored = -100 if ignore_index is None else ignore_index
    # The extra dimensions of the loss are treated as classes until the scores are reshaped.
    rows = math.prod(sizes, start=classes)
    table = linear_weight.reshape(rows, linear_weight.shape[-1])
    bias = None if linear_bias is None else linear_bias.reshape(rows)

    def losses(input: Tensor, target: Tensor, table: Tensor, bias: Tensor | None, reduction: str) -> Tensor:
        scores = torch.nn.functional.linear(input, table, bias)
        scores = scores.reshape(*input.shape[:-1], classes, *sizes)
        return torch.nn.functional.cross_entropy(
            scores, target, weight, ignore_index=ignored, reduction=reduction, label_smoothing=label_smoothing
        )

    if options is None:
        return losses(input, target, table, bias, reduction)
    if sizes or reduction not in ("mean", "sum", "none") or label_smoothing or target.dtype is not torch.int64:
        warn(
            "linear_cross_entropy: ``options`` ignored; chunked path needs reduction in {'mean','sum','none'}, "
            "label_smoothing == 0, target.dtype == int64, out_features == (). Got "
            f"reduction={reduction!r}, label_smoothing={label_smoothing}, target.dtype={target.dtype}, "
            f"out_features={sizes}, tracing=False, linear_bias.shape={None if linear_bias is None else tuple(linear_bias.shape)}.",
        )
        return losses(input, target, table, bias, reduction)
    one_sample = input.dim() == 1
    if one_sample:
        input, target = input[None], target[None]
    size = options.chunk(input.shape[0], input.shape[1], classes)
    if reduction == "none":
        parts = [
            torch.utils.checkpoint.checkpoint(losses, *pair, table, bias, "none", use_reentrant=False)
            for pair in zip(input.split(size), target.split(size))
        ]
        return parts[0].squeeze(0) if one_sample else torch.cat(parts)
    operands = (input, table) if bias is None else (input, table, bias)
    if torch.is_grad_enabled() and any(operand.requires_grad for operand in operands):
        total = _SumOfChunks.apply(input, table, bias, target, size, losses, options.allow_retain_graph)
    else:
        pairs = zip(input.split(size), target.split(size))
        total = torch.stack([losses(*pair, table, bias, "sum") for pair in pairs]).sum()
    if reduction == "sum":
        return total
    counted = target != ignored
    if weight is None:
        return total / counted.sum()
    return total / weight.detach()[target.where(counted, 0)].where(counted, 0).sum()


class _SumOfChunks(torch.autograd.Function):
    """The sum of the losses of all chunks. The gradients of a chunk are computed while its scores exist, and kept."""

    @staticmethod
    def forward(ctx, input, table, bias, target, size, losses, repeatable):
        wanted = ctx.needs_input_grad[:3]
        table, bias = (
            None if tensor is None else _C._requiring_grad(tensor.detach(), needed)
            for tensor, needed in zip((table, bias), wanted[1:])
        )
        sums, of_input, of_others = [], [], []
        for part, labels in zip(input.split(size), target.split(size)):
            part = _C._requiring_grad(part.detach(), wanted[0])
            with torch.enable_grad():
                loss = losses(part, labels, table, bias, "sum")
            sums.append(loss.detach())
            operands = [tensor for tensor, needed in zip((part, table, bias), wanted) if needed]
            grads = torch.autograd.grad(loss, operands) if operands else ()
            if wanted[0]:
                of_input.append(grads[0])
                grads = grads[1:]
            of_others = [before + grad for before, grad in zip(of_others, grads)] if of_others else list(grads)
        found = iter(of_others)
        ctx.kept = [
            torch.cat(of_input) if wanted[0] else None,
            *(next(found) if needed else None for needed in wanted[1:]),
        ]
        ctx.repeatable = repeatable
        return torch.stack(sums).sum()

    @staticmethod
    def backward(ctx, grad):
        if ctx.kept is None:
            raise RuntimeError(
                "linear_cross_entropy chunked backward called twice; retain_graph=True / double backward are not supported."
            )
        grads = [None if kept is None else kept * grad for kept in ctx.kept]
        if not ctx.repeatable:
            ctx.kept = None
        return *grads, None, None, None, None


def _check(input: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[int, tuple[int, ...]]:
    """The number of classes, and the other dimensions of the loss."""
    if not 1 <= input.dim() <= 2:
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if weight.dim() < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {weight.dim()}")
    if input.shape[-1] != weight.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), "
            f"got {input.shape[-1]} and {weight.shape[-1]}, respectively"
        )
    classes, *sizes = weight.shape[:-1]
    if bias is not None and tuple(bias.shape) != (classes, *sizes):
        raise RuntimeError(f"expected linear_bias shape {(classes, *sizes)}, got {tuple(bias.shape)}")
    if sizes and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(weight.shape)} requires batched input, "
            f"(N, {input.shape[-1]}), got unbatched input with shape {tuple(input.shape)}"
        )
    return classes, tuple(sizes)
