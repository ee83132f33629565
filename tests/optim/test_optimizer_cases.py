"""Every option of the optimizers gives torch's results, as recorded by `optimizer_cases`, in every implementation."""

import json

import optimizer_cases
import pytest
from optimizer_cases import OPTIONS, STEPS, Training, alone_and_together, kinds, ways

import rushlight as torch

RECORDED = json.loads(optimizer_cases.RECORDED.read_text())


@pytest.mark.parametrize(
    ("name", "kind", "way"), [(name, kind, way) for name in OPTIONS for kind in kinds(name)[1:] for way in ways(name)]
)
def test_steps_lead_where_torchs_do(name, kind, way):
    recorded = RECORDED[f"{name} {kind}" + " differentiable" * ("differentiable" in way)]
    for options, expected in zip(alone_and_together(name), recorded, strict=True):
        if kind == "complex" and way.get("fused"):
            with pytest.raises(RuntimeError, match="requires all the params to be floating point Tensors of supported"):
                Training(torch, name, {**options, **way}, kind).run(range(1))
            continue
        found = Training(torch, name, {**options, **way}, kind).run(range(STEPS)).end()
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-6), options
