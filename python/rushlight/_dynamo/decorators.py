"""Marks of dimensions. torch leaves them on the lengths of nested tensors, so that they occur in checkpoints."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _DimRange:
    """The sizes that a dimension may have; None means that a side is open."""

    dim: int
    min: int | None
    max: int | None
