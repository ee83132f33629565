"""The older spelling of ``reduction``: two booleans."""

from __future__ import annotations

from rushlight._warnings import warn


def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """The reduction that the two deprecated arguments mean."""
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
