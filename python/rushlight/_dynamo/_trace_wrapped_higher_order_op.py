"""A mode of torch's compiler that masks of attention use."""

from __future__ import annotations

from contextlib import nullcontext


class TransformGetItemToIndex(nullcontext):
    """Has no effect. In torch it lets `x[index]` work inside `vmap` for an index that is batched, as it always does here."""
