"""Every module has torch's text, initial weights, results and gradients, recorded by `module_cases`."""

import json

import module_cases
import pytest

import rushlight as torch

RECORDED = json.loads(module_cases.RECORDED.read_text())


def check(measured, recorded):
    assert len(measured) == len(recorded)
    for own, torchs in zip(measured, recorded):
        assert own["shape"] == torchs["shape"]
        # Gradients that cancel to zero consist of rounding errors, whose size is not recorded.
        scale = 2e-5 * (1 + max(map(abs, torchs["first"]), default=0.0))
        assert own["first"] == pytest.approx(torchs["first"], rel=1e-4, abs=scale)
        assert own["sums"] == pytest.approx(torchs["sums"], rel=1e-4, abs=scale * (1 + sum(torchs["shape"])))


@pytest.mark.parametrize("case", module_cases.CASES, ids=module_cases.identity)
def test_module_is_torchs(case):
    measured, recorded = module_cases.measure(torch, case), RECORDED[module_cases.identity(case)]
    for key in ("repr", "state", "weights"):
        assert measured[key] == recorded[key]
    for key in ("results", "grads", "buffers", "evaluated"):
        check(measured[key], recorded[key])
