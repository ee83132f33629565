"""Fused layers, training with rounded weights and what follows from it, compared with torch's results (`trained_cases.py`)."""

import json

import pytest
import trained_cases
from test_quantized_records import assert_close

import rushlight as torch

RECORD = json.loads(trained_cases.RECORD.read_text())


def test_every_case_is_recorded():
    assert set(RECORD) == set(trained_cases.CASES)


@pytest.mark.parametrize("name", RECORD)
def test_results_are_torchs(name):
    assert_close(trained_cases.run(torch, name), RECORD[name], name)


own, nn = torch.ao.quantization, torch.nn


@pytest.mark.parametrize(
    "call, error, sentence",
    [
        (
            lambda: own.fuse_conv_bn(False, nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1).eval()),
            AssertionError,
            "Conv and BN both must be in the same mode (train or eval).",
        ),
        (
            lambda: own.fuse_convtranspose_bn(True, nn.ConvTranspose2d(1, 1, 1), nn.BatchNorm2d(1)),
            Exception,
            "Fusing ConvTranspose+BatchNorm not yet supported in QAT.",
        ),
        (
            lambda: own.fuse_conv_bn(True, nn.Conv2d(1, 2, 1), nn.BatchNorm2d(1)),
            AssertionError,
            "Output channel of Conv2d must match num_features of BatchNorm2d.",
        ),
        (
            lambda: own.fuse_conv_bn(True, nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1, affine=False)),
            AssertionError,
            "Only support fusing BatchNorm2d with affine set to True",
        ),
        (
            lambda: own.fuse_linear_bn(True, nn.Linear(1, 2), nn.BatchNorm1d(1)),
            AssertionError,
            "Output features of Linear must match num_features of BatchNorm1d",
        ),
        (
            lambda: own.fuse_modules(nn.Sequential(nn.Conv2d(1, 1, 1), nn.Linear(1, 1)).eval(), ["0", "1"]),
            AssertionError,
            "did not find fuser method for: (<class 'torch.nn.modules.conv.Conv2d'>, <class 'torch.nn.modules.linear.Linear'>) ",
        ),
        (
            lambda: torch.ao.nn.intrinsic.ConvReLU2d(nn.Conv2d(1, 1, 1), nn.Linear(1, 1)),
            AssertionError,
            "Incorrect types for input modules: Conv2d and Linear",
        ),
        (
            lambda: own.prepare_qat(nn.Linear(1, 1).eval()),
            AssertionError,
            "prepare_qat only works on models in training mode",
        ),
        (lambda: torch.ao.nn.qat.Linear(2, 2), AssertionError, "qconfig must be provided for QAT module"),
        (
            lambda: torch.ao.nn.qat.Linear.from_float(nn.Linear(2, 2)),
            AssertionError,
            "Input float module must have qconfig defined",
        ),
        (
            lambda: torch.ao.nn.qat.Linear.from_float(nn.Conv1d(2, 2, 1)),
            AssertionError,
            "qat.Linear.from_float only works for Linear, got Conv1d",
        ),
    ],
)
def test_what_is_refused(call, error, sentence):
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error and str(caught.value).replace("rushlight", "torch") == sentence


def test_hooks_move_to_the_fused_layer():
    model, seen = nn.Sequential(nn.Linear(2, 2), nn.ReLU()).eval(), []
    model[0].register_forward_pre_hook(lambda *_: seen.append("before"))
    model[1].register_forward_hook(lambda *_: seen.append("after"))
    own.fuse_modules(model, ["0", "1"], inplace=True)
    model(torch.ones(1, 2))
    assert seen == ["before", "after"] and type(model[1]) is nn.Identity


def test_trained_layers_become_float_again():
    layer = nn.Conv2d(2, 3, 3, padding=1)
    layer.qconfig = own.default_qat_qconfig
    made = torch.ao.nn.qat.Conv2d.from_float(layer).to_float()
    assert type(made) is nn.Conv2d and torch.equal(made.weight, layer.weight) and made.padding == (1, 1)


def test_states_of_new_layers_are_loaded(tmp_path):
    model = own.QuantWrapper(nn.Sequential(nn.Embedding(5, 3)))
    made = own.quantize_dynamic(model, dtype=torch.quint8)
    torch.save(made.state_dict(), tmp_path / "state.pt")
    other = own.quantize_dynamic(own.QuantWrapper(nn.Sequential(nn.Embedding(5, 3))), dtype=torch.quint8)
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    x = torch.tensor([4, 1])
    assert torch.equal(made.module(x), other.module(x))
