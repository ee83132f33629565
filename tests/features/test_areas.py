"""Every feature of the areas of this folder has a test that bears its id, or stands here with the reason why not."""

import re
from pathlib import Path

import pytest

#: How many features each area has, and the file that shows them.
AREAS = {
    "ARC": (12, "test_packaging.py"),
    "AUT": (23, "test_autograd.py"),
    "BRO": (19, "test_broadcasting.py"),
    "DAT": (14, "test_data.py"),
    "ERR": (14, "test_errors.py"),
    "EXA": (12, "test_programs.py"),
    "EXT": (10, "test_extending.py"),
    "FUN": (7, "test_functional.py"),
    "HOR": (7, "test_higher_order.py"),
    "IDX": (18, "test_indexing.py"),
    "INP": (7, "test_inplace.py"),
    "JIT": (15, "test_tasks.py"),
    "LAY": (22, "test_layers.py"),
    "LIN": (6, "test_linear_algebra.py"),
    "LOS": (8, "test_losses.py"),
    "MOD": (11, "test_modules.py"),
    "MUL": (16, "test_processes.py"),
    "NUM": (9, "test_stability.py"),
    "OPS": (23, "test_operators.py"),
    "OPT": (8, "test_optimizers.py"),
    "PER": (7, "test_performance.py"),
    "RED": (7, "test_reductions.py"),
    "SER": (6, "test_files.py"),
    "TEN": (17, "test_tensors.py"),
}

#: Rows that no test here shows. This list may only shrink.
WITHOUT_TEST = {
    "ARC-4": "left out: nothing is made for phones",
    "ERR-5": "nothing computes on a card yet, so that a forked process cannot do so by mistake",
    "ERR-6": "cuDNN is not used, so that its version cannot be the wrong one",
    "ERR-10": "a speed",
    "ERR-11": "a wheel for a machine that the tests do not have",
    "JIT-12": "a ratio of times",
    "MUL-11": "nothing computes on a card yet, so that there are no tensors of one to share",
    "MUL-12": "nothing computes on a card yet",
    "MUL-14": "nothing computes on a card yet",
    "PER-1": "a time",
    "PER-2": "a ratio of times; that nothing is copied, IDX-11 shows",
    "PER-3": "a ratio of times",
    "PER-4": "a time",
    "PER-5": "to be measured, not to be asserted",
    "PER-6": "a comparison with torch",
}


def test_only_features_are_without_test():
    features = {f"{area}-{number}" for area, (count, _) in AREAS.items() for number in range(1, count + 1)}
    assert WITHOUT_TEST.keys() <= features


@pytest.mark.parametrize("area", AREAS)
def test_every_feature_is_shown(area):
    count, file = AREAS[area]
    text = (Path(__file__).parent / file).read_text()
    shown = [(name.upper(), int(number)) for name, number in re.findall(r"^def test_([a-z]{3})_(\d+)_", text, re.M)]
    features = [(area, number) for number in range(1, count + 1)]
    absent = [one for one in features if "{}-{}".format(*one) in WITHOUT_TEST]
    assert sorted({*shown, *absent}) == features
    assert not set(shown) & set(absent), "shown, and yet called absent"
    assert shown == sorted(shown), "in the order of their numbers"
