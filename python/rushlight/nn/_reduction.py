"""Deprecated forms of ``reduction``: a number, and two booleans."""

from __future__ import annotations

from rushlight._warnings import warn


def get_enum(reduction: str) -> int:
    """The number of a reduction. Programs with their own losses use it.

    Raises:
        ValueError: the reduction is unknown.
    """
    if reduction == "elementwise_mean":
        warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.")
        reduction = "mean"
    words = ("none", "mean", "sum")
    if reduction not in words:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return words.index(reduction)


def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """The reduction for the values of the two deprecated arguments."""
    if not (reduce is None or reduce):
        reduction = "none"
    elif size_average is None or size_average:
        reduction = "mean"
    else:
        reduction = "sum"
    if emit_warning:
        warn(
            f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.",
        )
    return reduction
