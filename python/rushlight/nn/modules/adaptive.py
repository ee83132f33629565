"""A softmax for many classes of which few are frequent."""

from __future__ import annotations

from collections import namedtuple

import rushlight as torch

from .. import functional as F
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """An approximation of the softmax for many classes sorted by frequency (Grave et al. 2016), and its loss.

    The head contains the frequent classes and one entry per cluster. Each cluster has a projection to a smaller space.

    Args:
        in_features: the size of the input's last dimension.
        n_classes: the number of classes.
        cutoffs: the first class of each cluster: increasing class indices from 1 to ``n_classes - 1``.
        div_value: the factor by which each cluster's space is smaller than the one before.
        head_bias: whether the head has a bias.

    Shapes: input ``(N, in_features)`` or ``(in_features)``, target ``(N)`` or ``()`` with class indices. The result is
        a
    tuple: ``output``, the log probability of each target, and ``loss``, the negative of their mean.

    Raises:
        ValueError: the cutoffs do not increase or are out of range.
        RuntimeError: the shapes do not match, or a target is out of range.

    >>> layer = torch.nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs=[5, 10], div_value=2.0)
    >>> result = layer(torch.zeros(3, 8), torch.tensor([1, 7, 15]))
    >>> result.output.shape, result.loss.item() > 0
    (torch.Size([3]), True)
    >>> layer.log_prob(torch.zeros(3, 8)).shape, layer.predict(torch.zeros(3, 8)).shape
    (torch.Size([3, 20]), torch.Size([3]))
    """

    in_features: int
    n_classes: int
    cutoffs: list[int]
    div_value: float
    head_bias: bool
    head: Linear
    tail: ModuleList

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        bounds = list(cutoffs)
        if not bounds:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        whole = all(int(bound) == bound for bound in bounds)
        if not whole or bounds != sorted(set(bounds)) or bounds[0] <= 0 or bounds[-1] > n_classes - 1:
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each value "
                "is between 1 and n_classes-1"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*bounds, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = bounds[0]
        self.n_clusters = len(bounds)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, device=device, dtype=dtype)
        self.tail = ModuleList()
        for place, (first, last) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            inner = int(in_features // div_value ** (place + 1))
            down = Linear(in_features, inner, bias=False, device=device, dtype=dtype)
            self.tail.append(Sequential(down, Linear(inner, last - first, bias=False, device=device, dtype=dtype)))

    def reset_parameters(self) -> None:
        """Initialises all weights."""
        self.head.reset_parameters()
        for down, out in self._pairs():
            down.reset_parameters()
            out.reset_parameters()

    def _pairs(self) -> Iterator[Any]:
        """The two layers of each cluster."""
        return iter(self.tail)

    def forward(self, input_: torch.Tensor, target_: torch.Tensor) -> Any:
        batched = _check_shapes(input_, target_)
        input, target = (input_, target_) if batched else (input_.unsqueeze(0), target_.unsqueeze(0))
        # The target in the head: classes of a cluster are represented by the cluster's entry.
        chosen = target.clone()
        reached = (target >= 0) & (target < self.shortlist_size)
        below: list[tuple[torch.Tensor, torch.Tensor]] = []
        for place, (first, last) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            here = (target >= first) & (target < last)
            rows = here.nonzero().squeeze(1)
            reached = reached | here
            if rows.numel() == 0:
                continue
            chosen = chosen.masked_fill(here, self.shortlist_size + place)
            scores = F.log_softmax(self.tail[place](input.index_select(0, rows)), dim=1)
            own = (target.index_select(0, rows) - first).unsqueeze(1)
            below.append((rows, scores.gather(1, own).squeeze(1)))
        if not bool(reached.all()):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range [{target.min().item()}, "
                f"{target.max().item()}] were found. "
            )
        output = F.log_softmax(self.head(input), dim=1).gather(1, chosen.unsqueeze(1)).squeeze(1)
        for rows, scores in below:
            output = output.index_add(0, rows, scores)
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def log_prob(self, input: torch.Tensor) -> torch.Tensor:
        """The log probabilities of all classes, ``(N, n_classes)``."""
        return self._all_log_probs(input, self.head(input))

    def _all_log_probs(self, input: torch.Tensor, head: torch.Tensor) -> torch.Tensor:
        scores = F.log_softmax(head, dim=1)
        parts = [scores[:, : self.shortlist_size]]
        for place, projection in enumerate(self.tail):
            cluster = scores[:, self.shortlist_size + place].unsqueeze(1)
            parts.append(F.log_softmax(projection(input), dim=1) + cluster)
        return torch.cat(parts, dim=1)

    def predict(self, input: torch.Tensor) -> torch.Tensor:
        """The most probable class of each row. A cluster is evaluated only if its entry wins in the head."""
        head = self.head(input)
        best = head.argmax(dim=1)
        inside = best < self.shortlist_size
        if bool(inside.all()):
            return best
        rows = (~inside).nonzero().squeeze(1)
        probabilities = self._all_log_probs(input.index_select(0, rows), head.index_select(0, rows))
        return best.index_copy(0, rows, probabilities.argmax(dim=1))


def _check_shapes(input: torch.Tensor, target: torch.Tensor) -> bool:
    """Whether there is a batch."""
    if target.dim() == 1:
        if input.size(0) != target.size(0):
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if input.dim() != 2:
            raise RuntimeError(f"1D target tensor expects 2D input tensors, but found inputs with size {input.size()}")
        return True
    if target.dim() == 0:
        if input.dim() != 1:
            raise RuntimeError(f"0D target tensor expects 1D input tensors, but found inputs with size {input.size()}")
        return False
    raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
