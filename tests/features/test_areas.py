"""Every feature of the areas of this folder has a test that bears its id, or stands here with the reason why not."""

import re
from pathlib import Path

import pytest

#: How many features each area has, and what it is about; `test_arc.py` shows those of ARC.
AREAS = {
    "ARC": (12, "packaging"),
    "AUT": (23, "autograd"),
    "BRO": (19, "broadcasting"),
    "DAT": (14, "data"),
    "ERR": (14, "errors"),
    "EXA": (12, "programs"),
    "EXT": (10, "extending"),
    "FUN": (7, "functional"),
    "HOR": (7, "higher order"),
    "IDX": (18, "indexing"),
    "INP": (7, "inplace"),
    "JIT": (15, "tasks"),
    "LAY": (22, "layers"),
    "LIN": (6, "linear algebra"),
    "LOS": (8, "losses"),
    "MOD": (11, "modules"),
    "MUL": (16, "processes"),
    "NUM": (9, "stability"),
    "OPS": (23, "operators"),
    "OPT": (8, "optimizers"),
    "PER": (7, "performance"),
    "RED": (7, "reductions"),
    "SER": (6, "files"),
    "TEN": (17, "tensors"),
}

#: Features that no test here shows: what they are, and why. This list may only shrink.
WITHOUT_TEST = {
    "ARC-4": "a library for phones: left out, nothing is made for them",
    "ERR-5": "the message when a forked process uses a card: nothing computes on one yet, so that none can do so by mistake",
    "ERR-6": "the versions of cuDNN at compile time and at run time are compared: it is not used",
    "ERR-10": "copies of transposed tensors keep up with memory: a ratio of times",
    "ERR-11": "machines other than x86-64: a wheel for a machine that the tests do not have",
    "JIT-12": "the first call takes no warm-up: a ratio of times",
    "MUL-11": "tensors on cards are shared between processes: nothing computes on a card yet",
    "MUL-12": "a card in a forked child is refused: nothing computes on a card yet",
    "MUL-14": "what to mind about cards in several processes: nothing computes on a card yet",
    "PER-1": "500 slices of rows in a Python loop take no longer than torch's: a time",
    "PER-2": "`unbind` beats slicing in a loop: a ratio of times; that nothing is copied, IDX-11 shows",
    "PER-3": "a sum over a dimension is fifty times as fast as a loop over slices: a ratio of times",
    "PER-4": "how long a small operator takes, and that batches beat many of them: a time",
    "PER-5": "claims about orders of magnitude: to be measured, not to be asserted",
    "PER-6": "time and memory of training steps beside torch: a comparison with another program",
}


def test_only_features_are_without_test():
    features = {f"{area}-{number}" for area, (count, _) in AREAS.items() for number in range(1, count + 1)}
    assert WITHOUT_TEST.keys() <= features


@pytest.mark.parametrize("area", AREAS)
def test_every_feature_is_shown(area):
    count, _ = AREAS[area]
    text = (Path(__file__).parent / f"test_{area.lower()}.py").read_text()
    shown = [(name.upper(), int(number)) for name, number in re.findall(r"^def test_([a-z]{3})_(\d+)_", text, re.M)]
    features = [(area, number) for number in range(1, count + 1)]
    absent = [one for one in features if "{}-{}".format(*one) in WITHOUT_TEST]
    assert sorted({*shown, *absent}) == features
    assert not set(shown) & set(absent), "shown, and yet called absent"
    assert shown == sorted(shown), "in the order of their numbers"
