"""Print options of tensors: `set_printoptions`."""

from __future__ import annotations

from operator import index

from rushlight import _C
from rushlight._set_module import set_module

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
#: The engine stores options as machine words. Larger values are equivalent to this one.
_MOST = 2**63 - 1


def get_printoptions() -> dict[str, Any]:
    """A copy of the current options of `set_printoptions`.

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
    """Sets how tensors are printed. Options that are not given keep their values, except ``sci_mode``.

    Args:
        precision: the number of digits after the decimal point (4).
        threshold: tensors with more elements are summarised (1000); infinity prints all elements.
        edgeitems: the number of elements at each edge of a summary (3).
        linewidth: the number of characters per line (80).
        profile: ``"default"``, ``"short"`` or ``"full"``; other arguments override its values.
        sci_mode: True or False forces scientific notation on or off; by default it depends on the values.

    Raises:
        TypeError: a number of digits, elements or characters is not an integer.
        ValueError: a number of digits or elements is negative. In this case no option changes.

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
        # Any threshold that is not below this value, including NaN, prints all elements.
        int(max(wanted["threshold"], 0)) if wanted["threshold"] < _MOST else _MOST,
        min(wanted["edgeitems"], _MOST),
        min(max(wanted["linewidth"], 0), _MOST),
        wanted["sci_mode"],
    )
    _options.update(wanted)


set_module("rushlight", get_printoptions, set_printoptions)
