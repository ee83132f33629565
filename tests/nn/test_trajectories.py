"""Six networks learn as in torch: the losses of their first steps, recorded by `trajectory_cases`."""

import json

import pytest
import trajectory_cases

import rushlight as torch

RECORDED = json.loads(trajectory_cases.RECORDED.read_text())


@pytest.mark.parametrize("name", trajectory_cases.NETWORKS)
def test_losses_are_torchs(name):
    steps = trajectory_cases.STEPS
    assert trajectory_cases.distance(trajectory_cases.losses(torch, name, torch.float64, steps), RECORDED[name]) < 1e-12
    first = trajectory_cases.losses(torch, name, torch.float32, 1)
    assert trajectory_cases.distance(first, RECORDED[name][:1]) < 1e-5
