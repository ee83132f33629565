"""Calls that once differed from torch give what torch 2.13 gave: the exception's class and first line, or dtypes and shapes.

`compare_operators.py --source found.jsonl --record` adds calls to `tests/data/recorded_calls.txt` in an environment with torch.
"""

import re

import pytest

pytest.importorskip("numpy")

from calls import Call
from compare_operators import RECORD
from compared import recorded

import rushlight as torch


@pytest.mark.filterwarnings("ignore")
def test_calls_give_what_torch_gave():
    wrong = []
    for entry in RECORD.read_text().strip().split("\n\n"):
        written, wanted = entry.split("\n")
        call = Call(*re.fullmatch(r"([\w.]+)\((.*)\)  # (\w+)", written).groups())
        if (found := recorded(torch, call)) != wanted:
            wrong.append(f"{written}\n    got {found}\n    wanted {wanted}")
    assert not wrong, "\n".join(wrong)
