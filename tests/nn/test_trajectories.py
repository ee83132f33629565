"""Training of six networks: the losses of the first steps are torch's, recorded by `trajectory_cases`."""

import json

import pytest
import trajectory_cases
from trajectory_cases import distance, losses

import rushlight as torch

RECORDED = json.loads(trajectory_cases.RECORDED.read_text())

#: The number of steps to run for networks that are slow: a step of the residual network takes as long as many of the
#: others.
STEPS = dict.fromkeys(trajectory_cases.NETWORKS, 20) | {"resnet18": 5}


@pytest.mark.parametrize("name", trajectory_cases.NETWORKS)
def test_losses_are_torchs(name, thorough):
    steps = trajectory_cases.STEPS if thorough else STEPS[name]
    expected = RECORDED[name]["float64"][:steps]
    assert distance(losses(torch, name, torch.float64, steps), expected) < 1e-12


@pytest.mark.parametrize("name", trajectory_cases.NETWORKS)
def test_losses_in_single_precision_are_as_near_as_torchs_own(name, thorough):
    expected = RECORDED[name]["float32"]
    found = losses(torch, name, torch.float32, len(expected) if thorough else 1)
    assert distance(found[:1], expected[:1]) < 1e-5
    if thorough:
        assert distance(found, expected) < 3 * RECORDED[name]["apart"]
