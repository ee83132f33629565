"""Saving and loading the state of modules."""

import gc

import pytest

import rushlight as torch
from rushlight import nn


def test_keys_metadata_and_what_is_shared():
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    net.register_buffer("seen", torch.zeros(1))
    net.register_buffer("scratch", torch.zeros(1), persistent=False)
    state = net.state_dict()
    assert list(state) == ["seen", "0.weight", "0.bias"]
    assert dict(state._metadata) == {"": {"version": 1}, "0": {"version": 1}, "1": {"version": 1}}
    assert state["0.weight"].data_ptr() == net[0].weight.data_ptr()
    assert not state["0.weight"].requires_grad
    assert net.state_dict(prefix="p.", keep_vars=True)["p.0.weight"] is net[0].weight


def test_loading_copies_in_place():
    source, target = nn.Linear(2, 2), nn.Linear(2, 2)
    weight = target.weight
    report = target.load_state_dict(source.state_dict())
    assert repr(report) == str(report) == "<All keys matched successfully>"
    assert target.weight is weight and torch.equal(weight, source.weight)
    assert weight.data_ptr() != source.weight.data_ptr()


def test_assign_takes_the_tensors():
    target = nn.Linear(2, 2)
    state = {"weight": torch.zeros(2, 2, dtype=torch.float64), "bias": torch.zeros(2)}
    target.load_state_dict(state, assign=True)
    assert target.weight.dtype == torch.float64
    assert isinstance(target.weight, nn.Parameter) and target.weight.requires_grad
    assert target.bias.data_ptr() == state["bias"].data_ptr()


def test_all_differences_are_listed():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    wrong = {"0.weight": torch.ones(3, 3), "x": 1, "z.y": torch.ones(1), "1.bias": 3}
    with pytest.raises(RuntimeError) as caught:
        net.load_state_dict(wrong)
    assert str(caught.value) == (
        "Error(s) in loading state_dict for Sequential:\n"
        '\tMissing key(s) in state_dict: "0.bias", "1.weight". \n'
        '\tUnexpected key(s) in state_dict: "x", "z.y". \n'
        "\tsize mismatch for 0.weight: copying a param with shape torch.Size([3, 3]) from checkpoint, the shape in "
        "current model is torch.Size([2, 2]).\n"
        '\tWhile copying the parameter named "1.bias", expected torch.Tensor or Tensor-like object from checkpoint '
        "but received <class 'int'>"
    )
    report = net.load_state_dict({"x": 1}, strict=False)
    assert report.missing_keys == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert report.unexpected_keys == ["x"]
    assert repr(report).startswith("_IncompatibleKeys(missing_keys=['0.weight', ")
    with pytest.raises(TypeError, match=r"Expected state_dict to be dict-like, got <class 'int'>."):
        net.load_state_dict(3)


def test_scalars_saved_as_vectors_load():
    module = nn.Module()
    module.scale = nn.Parameter(torch.tensor(1.0))
    module.load_state_dict({"scale": torch.tensor([5.0])})
    assert float(module.scale) == 5


def test_extra_state():
    class Counting(nn.Module):
        steps = 7

        def get_extra_state(self):
            return {"steps": self.steps}

        def set_extra_state(self, state):
            self.steps = state["steps"]

    net = nn.ModuleDict({"c": Counting()})
    state = net.state_dict()
    assert state["c._extra_state"] == {"steps": 7}
    state["c._extra_state"] = {"steps": 9}
    net.load_state_dict(state)
    assert net["c"].steps == 9
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "c._extra_state"'):
        net.load_state_dict({})


def test_hooks():
    layer = nn.Linear(1, 1)
    seen = []
    layer.register_state_dict_pre_hook(lambda module, prefix, keep: seen.append(("pre", prefix, keep)))
    layer.register_state_dict_post_hook(lambda module, state, prefix, meta: seen.append(("post", list(state))))
    layer.register_load_state_dict_pre_hook(lambda module, state, prefix, *rest: seen.append(("load", module is layer)))
    handle = layer.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
    layer.state_dict()
    layer.load_state_dict({"weight": torch.ones(1, 1)})
    assert seen == [("pre", "", False), ("post", ["weight", "bias"]), ("load", True)]
    handle.remove()
    with pytest.raises(RuntimeError, match="Missing key"):
        layer.load_state_dict({"weight": torch.ones(1, 1)})
    layer.register_state_dict_post_hook(lambda *args: 3)
    with pytest.raises(RuntimeError, match="state_dict post-hook must return None"):
        layer.state_dict()


def test_the_prefix_of_a_wrapper_is_taken_from_a_state():
    model = nn.Sequential(nn.Linear(2, 1), nn.BatchNorm1d(1))
    state = nn.DataParallel(model).state_dict()
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert sorted(state) == sorted(model.state_dict())
    assert state._metadata == model.state_dict()._metadata
    model.load_state_dict(state)
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert sorted(state) == sorted(model.state_dict())


@pytest.mark.parametrize(
    "without, whole, left",
    [
        (nn.Linear(2, 2, bias=False), nn.Linear(2, 2), ["bias"]),
        (nn.Sequential(nn.Conv1d(1, 1, 1, bias=False)), nn.Sequential(nn.Conv1d(1, 1, 1)), ["0.bias"]),
        (nn.LayerNorm(2, elementwise_affine=False), nn.LayerNorm(2), ["weight", "bias"]),
        (
            nn.BatchNorm1d(2, track_running_stats=False),
            nn.BatchNorm1d(2),
            ["running_mean", "running_var", "num_batches_tracked"],
        ),
    ],
)
def test_a_slot_that_holds_none_takes_nothing(without, whole, left):
    with pytest.raises(RuntimeError, match=rf'Unexpected key\(s\) in state_dict: "{left[0]}"'):
        without.load_state_dict(whole.state_dict())
    assert without.load_state_dict(whole.state_dict(), strict=False).unexpected_keys == left


def test_loading_leaves_no_cycles():
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    state = module.state_dict()
    module.load_state_dict(state)
    gc.collect()
    gc.disable()
    try:
        module.load_state_dict(state)
        assert gc.collect() == 0
    finally:
        gc.enable()
