"""Every requirement of the areas in this folder has a test with its id, or an entry here with the reason."""

import re
from pathlib import Path

import pytest

#: The number of requirements of each area, and its subject. `test_arc.py` shows those of ARC.
AREAS = {
    "ARC": (12, "packaging"),
    "AUT": (23, "autograd"),
    "BRO": (19, "broadcasting"),
    "CUD": (15, "GPUs"),
    "DAT": (14, "data"),
    "DIS": (19, "several processes"),
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

#: Requirements without a test: what they are, and why.
WITHOUT_TEST = {
    "ARC-4": "a library for phones: out of scope",
    "DIS-19": "kernels of several GPUs run at once: the tests have none",
    "ERR-10": "copies of transposed tensors run at memory speed: a ratio of times",
    "ERR-11": "processors other than x86-64: not available to the tests",
    "JIT-12": "the first call is not slower: a ratio of times",
    "PER-1": "500 slices of rows in a Python loop are as fast as in torch: a time",
    "PER-2": "`unbind` is faster than slicing in a loop: a ratio of times; IDX-11 tests that it does not copy",
    "PER-3": "a sum over a dimension is fifty times as fast as a loop over slices: a ratio of times",
    "PER-4": "the time of a small operator, and of batches: a time",
    "PER-5": "orders of magnitude: measured, not tested",
    "PER-6": "time and memory of training steps: a comparison with torch",
}


#: The requirements of programs in Rust, whose tests are in Rust too.
FRONT_END, OF_THE_FRONT_END = Path(__file__).parents[2] / "rust/ops/tests/front.rs", 19


def test_every_requirement_of_the_front_end_has_a_test():
    above_tests = re.findall(r"^/// (RUS-[^\n]*)(?:\n///[^\n]*)*\n#\[test\]", FRONT_END.read_text(), re.M)
    shown = [int(number) for line in above_tests for number in re.findall(r"RUS-(\d+)", line)]
    assert sorted(shown) == list(range(1, OF_THE_FRONT_END + 1))


def test_only_requirements_are_without_test():
    requirements = {f"{area}-{number}" for area, (count, _) in AREAS.items() for number in range(1, count + 1)}
    assert WITHOUT_TEST.keys() <= requirements


@pytest.mark.parametrize("area", AREAS)
def test_every_requirement_has_a_test(area):
    count, _ = AREAS[area]
    text = (Path(__file__).parent / f"test_{area.lower()}.py").read_text()
    shown = [(name.upper(), int(number)) for name, number in re.findall(r"^def test_([a-z]{3})_(\d+)_", text, re.M)]
    requirements = [(area, number) for number in range(1, count + 1)]
    absent = [one for one in requirements if "{}-{}".format(*one) in WITHOUT_TEST]
    assert sorted({*shown, *absent}) == requirements
    assert not set(shown) & set(absent), "shown, and yet called absent"
    assert shown == sorted(shown), "in the order of their numbers"
