"""Nested and masked tensors give torch 2.13's results and errors, as recorded by `nested_cases.py`."""

import json
import math
import re

import pytest
from nested_cases import RECORDED, calls, outcome

import rushlight as torch

EXPECTED = json.loads(RECORDED.read_text())
NUMBER = re.compile(r"-?(?:\d+\.\d*(?:e[-+]?\d+)?|inf|nan)")


def near(found, wanted):
    """Whether two results are the same, with numbers that differ by rounding alone."""
    if isinstance(wanted, dict):
        return (
            isinstance(found, dict) and found.keys() == wanted.keys() and all(near(found[k], wanted[k]) for k in wanted)
        )
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(near, found, wanted))
    if isinstance(wanted, float):
        return (math.isnan(wanted) and math.isnan(found)) or math.isclose(found, wanted, rel_tol=2e-4, abs_tol=2e-5)
    if isinstance(wanted, str) and NUMBER.search(wanted) and isinstance(found, str):
        texts = [" ".join(NUMBER.sub("#", text).split()) for text in (found, wanted)]
        numbers = [list(map(float, NUMBER.findall(text))) for text in (found, wanted)]
        return texts[0] == texts[1] and near(*numbers)
    return found == wanted


def test_all_calls_are_recorded():
    assert list(EXPECTED) == calls()


@pytest.mark.parametrize("call", EXPECTED)
def test_call(call):
    found = outcome(torch, call)
    assert near(found, EXPECTED[call]), f"{call}\nfound    {found}\nexpected {EXPECTED[call]}"
