"""How tensors are printed: `set_printoptions`."""

from __future__ import annotations

from operator import index

from rushlight import _C
from rushlight._homes import at_home

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
#: The engine's options are words; more is as good as this.
_MOST = 2**63 - 1


def get_printoptions() -> dict[str, Any]:
    """The options of `set_printoptions` that are in force, as a dict of its own.

    >>> torch.get_printoptions()["precision"]
    4
    """
    return dict(_options)


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Changes how tensors are printed; what is not given stays, but for ``sci_mode``.

    Args:
        precision: digits after the point (4).
        threshold: tensors of more elements than this show their edges only (1000); infinity shows all.
        edgeitems: how many elements of an edge are shown (3).
        linewidth: characters on a line (80).
        profile: ``"default"``, ``"short"`` or ``"full"``; the other arguments change what it sets.
        sci_mode: scientific notation always or never; without it, where the numbers ask for it.

    Raises:
        TypeError: digits, elements or characters that are no whole number.
        ValueError: a negative number of digits or elements. Then nothing has changed.

    >>> torch.set_printoptions(precision=2)
    >>> torch.tensor(3.14159)
    tensor(3.14)
    >>> torch.set_printoptions(profile="default")
    """
    wanted = {**_options, **_PROFILES.get(profile or "", {})}
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    wanted.update({name: value for name, value in given.items() if value is not None})
    wanted["sci_mode"] = None if sci_mode is None else bool(sci_mode)
    for name in ("precision", "edgeitems", "linewidth"):
        wanted[name] = index(wanted[name])
    for name in ("precision", "edgeitems"):
        if wanted[name] < 0:
            raise ValueError(f"set_printoptions: {name} must not be negative, but got {wanted[name]}")
    _C._set_print_options(
        min(wanted["precision"], _MOST),
        # What is not below it, NaN among it, is shown whole.
        int(max(wanted["threshold"], 0)) if wanted["threshold"] < _MOST else _MOST,
        min(wanted["edgeitems"], _MOST),
        min(max(wanted["linewidth"], 0), _MOST),
        wanted["sci_mode"],
    )
    _options.update(wanted)


at_home("rushlight", get_printoptions, set_printoptions)
