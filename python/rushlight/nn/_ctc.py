"""`ctc_loss`. Its operator takes the reduction as a number, and both lengths in the same form."""

from __future__ import annotations

import rushlight as torch
from rushlight._overridable import overridable
from rushlight.nn._reduction import get_enum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor


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
    """The negative log-likelihood of a labelling, summed over all alignments (connectionist temporal classification).

    Raises:
        RuntimeError: the lengths do not match the batch or are too large, or ``blank`` is not a class.
        ValueError: the reduction is unknown.

    >>> torch.nn.functional.ctc_loss(torch.zeros(2, 1, 2).log_softmax(-1), torch.tensor([[1]]), (2,), (1,))
    tensor(0.2877)
    """
    code = get_enum(reduction)
    return torch.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, code, zero_infinity)
