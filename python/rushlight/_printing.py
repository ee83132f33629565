"""How tensors are printed: `set_printoptions`."""

from rushlight import _C

_DEFAULT = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}
_PROFILES = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": float("inf"), "edgeitems": 3, "linewidth": 80},
}
_options = dict(_DEFAULT)


def get_printoptions():
    """The options in force."""
    return dict(_options)


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    """Changes how tensors are printed.

    Args:
        precision: digits after the point (4).
        threshold: from how many elements on only the edges are shown (1000).
        edgeitems: how many elements of an edge are shown (3).
        linewidth: characters on a line (80).
        profile: ``"default"``, ``"short"`` or ``"full"``; the other arguments change what it sets.
        sci_mode: scientific notation always or never; without it, where the numbers ask for it.
    """
    _options.update(_PROFILES.get(profile, {}))
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    _options.update({name: value for name, value in given.items() if value is not None})
    _options["sci_mode"] = sci_mode
    limit = 2**63 - 1
    threshold = limit if _options["threshold"] > limit else int(_options["threshold"])
    _C._set_print_options(
        _options["precision"], threshold, _options["edgeitems"], _options["linewidth"], _options["sci_mode"]
    )
