"""`ctc_loss`, whose operator wants a number for the reduction, and lengths all in one form."""

from __future__ import annotations

import rushlight as torch
from rushlight._overridable import overridable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor

_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


@overridable
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Minus the logarithm of the probability of a labelling, summed over all ways to spread it over time.

    Raises:
        RuntimeError: lengths that are not those of a batch, or longer than it; a blank that is no class.
        ValueError: an unknown reduction.

    >>> torch.nn.functional.ctc_loss(torch.zeros(2, 1, 2).log_softmax(-1), torch.tensor([[1]]), (2,), (1,))
    tensor(0.2877)
    """
    if reduction not in _REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    of_inputs: Any = input_lengths
    of_targets: Any = target_lengths
    # Both lists or both tensors: so the operator takes them.
    if isinstance(of_inputs, torch.Tensor) or isinstance(of_targets, torch.Tensor):
        of_inputs, of_targets = torch.as_tensor(of_inputs), torch.as_tensor(of_targets)
    return torch.ctc_loss(log_probs, targets, of_inputs, of_targets, blank, _REDUCTIONS[reduction], zero_infinity)
