"""Every random operator for every dtype and layout: numbers, strides, the state of the stream, and errors are torch's."""

import json

import pytest
from random_cases import CALLS, LAYOUTS, RECORDED, drawn, dtypes

import rushlight as torch

SAID = json.loads(RECORDED.read_text())


@pytest.mark.parametrize("call", CALLS)
def test_draws_are_torchs(call):
    wrong = {}
    for dtype in dtypes(call):
        for layout, word in zip(LAYOUTS, SAID["draws"][call][dtype].split(), strict=True):
            wanted = word if len(word) == 8 else SAID["errors"][int(word)]
            if (ours := drawn(torch, call, dtype, layout)) != wanted:
                wrong[dtype, layout] = (ours, wanted)
    assert not wrong
