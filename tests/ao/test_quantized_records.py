"""Quantised tensors, observers and layers, compared with torch's results (`quantized_cases.py`)."""

import json

import pytest
import quantized_cases

import rushlight as torch

RECORD = json.loads(quantized_cases.RECORD.read_text())

#: Results of functions that differ in their last bits, such as `exp`.
CLOSE = {name for name in RECORD if name.startswith(("recurrent", "fake"))}


def test_every_case_is_recorded():
    assert set(RECORD) == set(quantized_cases.CASES)


@pytest.mark.parametrize("name", RECORD)
def test_results_are_torchs(name):
    result = quantized_cases.run(torch, name)
    if name in CLOSE:
        assert_close(result, RECORD[name], name)
    else:
        assert as_text(result) == as_text(RECORD[name])


def as_text(value):
    """As text, in which NaN equals NaN."""
    return json.dumps(value)


def assert_close(result, expected, name):
    if isinstance(expected, list):
        assert len(result) == len(expected)
        for one, other in zip(result, expected):
            assert_close(one, other, name)
    elif isinstance(expected, float):
        assert result == pytest.approx(expected, rel=1e-4, abs=2e-5), name
    else:
        assert result == expected
