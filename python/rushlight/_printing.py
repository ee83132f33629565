"""How tensors are printed: `set_printoptions`."""

from __future__ import annotations

from rushlight import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DEFAULT: dict[str, Any] = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}
_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": float("inf"), "edgeitems": 3, "linewidth": 80},
}
_options = dict(_DEFAULT)


def get_printoptions() -> dict[str, Any]:
    """The options in force."""
    return dict(_options)


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Changes how tensors are printed.

    Args:
        precision: digits after the point (4).
        threshold: from how many elements on only the edges are shown (1000).
        edgeitems: how many elements of an edge are shown (3).
        linewidth: characters on a line (80).
        profile: ``"default"``, ``"short"`` or ``"full"``; the other arguments change what it sets.
        sci_mode: scientific notation always or never; without it, where the numbers ask for it.

    Raises:
        ValueError: a number is negative or NaN.
    """
    asked = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    given = {name: value for name, value in asked.items() if value is not None}
    for name, value in given.items():
        if not value >= 0:
            raise ValueError(f"set_printoptions: {name} cannot be {value}: it counts something")
    options = {**_options, **_PROFILES.get(profile or "", {}), **given, "sci_mode": sci_mode}
    limit = 2**63 - 1
    _C._set_print_options(
        options["precision"],
        int(min(options["threshold"], limit)),
        options["edgeitems"],
        min(options["linewidth"], limit),
        options["sci_mode"],
    )
    _options.update(options)
