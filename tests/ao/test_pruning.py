"""`torch.ao.pruning`: masks, schedules and what is left of them in a model. The masks are those of torch for the same weights."""

import pickle

import pytest

import rushlight as torch
from rushlight.ao.pruning import (
    BaseScheduler,
    BaseSparsifier,
    CubicSL,
    FakeSparsity,
    LambdaSL,
    NearlyDiagonalSparsifier,
    WeightNormSparsifier,
    fqn_to_module,
    module_to_fqn,
)
from rushlight.ao.pruning.sparsifier.utils import module_contains_param, swap_module
from rushlight.nn.utils import parametrize

nn = torch.nn


def model(rows=4, columns=4):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(columns, rows), nn.ReLU(), nn.Sequential(nn.Linear(rows, 3)))


def prepared(sparsifier, config=None, net=None):
    net = model() if net is None else net
    sparsifier.prepare(net, config)
    return net


@pytest.mark.parametrize(
    "shape, options, expected, dtype",
    [
        ((4, 8), {}, "11110000000011110000111111110000", torch.float32),
        ((4, 8), {"sparsity_level": 0.3}, "11110000000011111111111111111111", torch.float32),
        ((3, 7), {"sparse_block_shape": (2, 3)}, "111111011111100001110", torch.float32),
        ((4, 8), {"zeros_per_block": 2}, "11111001011011110110111111111001", torch.bool),
        ((4, 8), {"zeros_per_block": 2, "sparsity_level": 1.0}, "00111001011011000110010100111001", torch.bool),
        ((4, 6), {"sparse_block_shape": (2, 2), "norm": 1}, "001100001100110011110011", torch.float32),
        ((4, 6), {"sparse_block_shape": (1, 1)}, "011100010000111001110101", torch.float32),
        ((4, 6), {"sparsity_level": 0.99, "sparse_block_shape": (2, 2)}, "000000000000110000110000", torch.float32),
        ((4, 6), {"sparsity_level": 0.0}, "1" * 24, torch.float32),
        ((4, 6), {"sparsity_level": 1.0}, "0" * 24, torch.float32),
        (
            (6, 6),
            {"sparse_block_shape": (3, 2), "zeros_per_block": 4, "sparsity_level": 0.6},
            "001100010000100011101111001111011111",
            torch.bool,
        ),
        ((5, 5), {"norm": lambda t: -t, "sparse_block_shape": (1, 1)}, "0011100010111110001100101", torch.float32),
    ],
)
def test_masks_of_the_largest_blocks(shape, options, expected, dtype):
    sparsifier = WeightNormSparsifier(**options)
    net = prepared(sparsifier, [{"tensor_fqn": "0.weight"}], model(*shape))
    sparsifier.step()
    mask = net[0].parametrizations.weight[0].mask
    assert "".join(str(int(one)) for one in mask.flatten()) == expected and mask.dtype is dtype and mask.shape == shape
    assert sparsifier.state["0.weight"]["mask"] is mask


def test_elements_of_smaller_blocks_at_the_end():
    """torch raises an error of shapes here."""
    sparsifier = WeightNormSparsifier(sparsity_level=1, sparse_block_shape=(1, 4), zeros_per_block=2)
    net = nn.Sequential(nn.Linear(6, 1))
    net[0].weight.data = torch.tensor([[4.0, 1, 3, 2, 6, 5]])
    prepared(sparsifier, [{"tensor_fqn": "0.weight"}], net)
    sparsifier.step()
    assert net[0].parametrizations.weight[0].mask.tolist() == [[True, False, True, False, False, False]]


@pytest.mark.parametrize(
    "zeros, sentence",
    [(9, "Number of zeros per block cannot be more than the total number of elements in that block."),
     (-1, "Number of zeros per block should be positive.")],
)  # fmt: skip
def test_numbers_of_zeros_that_are_impossible(zeros, sentence):
    sparsifier = WeightNormSparsifier(zeros_per_block=zeros)
    prepared(sparsifier)
    with pytest.raises(ValueError) as caught:
        sparsifier.step()
    assert str(caught.value) == sentence
    sparsifier.enable_mask_update = False
    sparsifier.step()


def test_masks_near_the_diagonal():
    sparsifier = NearlyDiagonalSparsifier(3)
    net = prepared(sparsifier, [{"tensor_fqn": "0.weight"}])
    sparsifier.step()
    assert net[0].weight.ne(0).int().tolist() == [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]
    for count, sentence in (
        (2, "nearliness can only be an odd number"),
        (9, "nearliness cannot be larger than the dimensions"),
    ):
        sparsifier.groups[0]["nearliness"] = count
        with pytest.raises(ValueError, match=sentence):
            sparsifier.step()
    sparsifier.groups[0]["nearliness"] = 0
    sparsifier.step()
    assert not net[0].weight.any()


def test_masked_weights_train_and_are_squashed():
    sparsifier = WeightNormSparsifier()
    net = prepared(sparsifier)
    assert sparsifier.config == [{"tensor_fqn": "0.weight"}, {"tensor_fqn": "2.0.weight"}]
    assert repr(sparsifier).count("\tGroup ") == 2 and "\n\t    sparse_block_shape: (1, 4)\n" in repr(sparsifier)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        net(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        sparsifier.step()
    mask = net[0].parametrizations.weight[0].mask
    assert [name for name in net.state_dict() if "mask" in name] == []
    sparsifier.squash_mask(("sparsity_level",), {"0": ("zeros_per_block",)})
    assert net[0].sparse_params == {"sparsity_level": 0.5, "zeros_per_block": 4}
    assert net[2][0].sparse_params == {"sparsity_level": 0.5} and type(net[0]) is nn.Linear
    assert torch.equal(net[0].weight == 0, mask == 0) and 0 < mask.sum() < 16


def test_states_are_loaded():
    first, second = WeightNormSparsifier(), WeightNormSparsifier(sparsity_level=0.1)
    prepared(first)
    first.step()
    state = pickle.loads(pickle.dumps(first.state_dict()))
    assert sorted(state["groups"][0]) == ["sparse_block_shape", "sparsity_level", "tensor_fqn", "zeros_per_block"]
    net = prepared(second)
    second.load_state_dict(state)
    expected = state["state"]["2.0.weight"]["mask"]
    assert torch.equal(net[2][0].parametrizations.weight[0].mask, expected) and not expected.all()
    assert second.groups[1]["sparsity_level"] == 0.5 and second.groups[1]["module"] is net[2][0]
    second.model = nn.Sequential()
    with pytest.raises(RuntimeError, match="Error loading 0.weight into the model"):
        second.load_state_dict(state)
    first.squash_mask()
    assert not hasattr(pickle.loads(pickle.dumps(first)), "model")


def test_modules_with_masks_are_converted():
    class Sparse(nn.Linear):
        @classmethod
        def from_dense(cls, dense):
            return cls(dense.in_features, dense.out_features)

    sparsifier = WeightNormSparsifier()
    net = prepared(sparsifier, [{"tensor_fqn": "2.0.weight"}])
    calls = []
    net[2][0].register_forward_hook(lambda *_: calls.append(1))
    found = sparsifier.convert(net, {nn.Linear: Sparse})
    assert type(found[2][0]) is Sparse and type(found[0]) is nn.Linear and type(net[2][0]) is not Sparse
    found(torch.ones(4))
    assert (
        calls == [1]
        and module_contains_param(net[2][0], FakeSparsity)
        and not module_contains_param(net[0], FakeSparsity)
    )
    assert sparsifier.convert(net, {nn.Linear: Sparse}, inplace=True) is net and type(net[2][0]) is Sparse
    assert swap_module(net[1], {}) is net[1]
    with pytest.raises(NotImplementedError, match="Need to auto generate mapping"):
        sparsifier.convert(net)


def test_configurations_are_checked():
    for config, sentence in (
        ([{}], "tensor_fqn is a required argument in the sparsity config"),
        ([nn.Linear(1, 1)], "config elements should be dicts not modules"),
        ([{"tensor_fqn": "0.weight", "module_fqn": "1"}], "Given both `module_fqn` and `tensor_fqn` in the config"),
    ):
        with pytest.raises(AssertionError, match=sentence):
            WeightNormSparsifier().prepare(model(), config)
    with pytest.raises(NotImplementedError, match="L-3 is not yet implemented"):
        WeightNormSparsifier(norm=3)
    with pytest.raises(TypeError, match="abstract"):
        BaseSparsifier()
    with pytest.raises(AssertionError, match="must match x shape"):
        FakeSparsity(torch.ones(2))(torch.ones(3))
    net = model()
    assert module_to_fqn(net, net) == "" and module_to_fqn(net, model()) is None
    assert fqn_to_module(net, "2.0.weight") is net[2][0].weight and fqn_to_module(net, "0.none.at.all") is None
    assert parametrize.is_parametrized(net[0]) is False


def test_levels_follow_a_schedule(capsys):
    sparsifier = WeightNormSparsifier()
    prepared(sparsifier)
    scheduler = CubicSL(sparsifier, init_t=1, delta_t=1, total_t=3, initially_zero=True)
    assert scheduler.get_last_sl() == [0, 0]
    with pytest.warns(UserWarning, match=r"Detected call of `scheduler.step\(\)` before `sparsifier.step\(\)`"):
        scheduler.step()
    levels = []
    for _ in range(4):
        sparsifier.step()
        scheduler.step()
        levels.append(scheduler.get_last_sl()[0])
    assert levels == pytest.approx([0.3518518518518518, 0.48148148148148145, 0.5, 0.5], rel=1e-12)
    with pytest.warns(UserWarning, match="please use `get_last_sl"):
        scheduler.get_sl()
    again = LambdaSL(sparsifier, [lambda step: step, lambda step: 0.5], verbose=True)
    assert again.get_last_sl() == [0, 0.25]
    assert capsys.readouterr().out.splitlines()[0] == "Adjusting sparsity level of group 0 to 0.0000e+00."
    again.load_state_dict({**scheduler.state_dict(), "last_epoch": 8})
    assert again.last_epoch == 8 and "sparsifier" not in scheduler.state_dict()
    assert repr(scheduler).startswith("CubicSL (\nSparsifier WeightNormSparsifier (") and "base_sl: [0.5, 0.5]" in repr(
        scheduler
    )
    sparsifier.step = lambda: None
    scheduler._step_count = 1
    with pytest.warns(UserWarning, match="has been overridden"):
        scheduler.step()
    with pytest.raises(TypeError, match="int is not an instance of torch.ao.pruning.BaseSparsifier"):
        BaseScheduler(1)
    with pytest.raises(ValueError, match="Expected 2 lr_lambdas, but got 1"):
        LambdaSL(sparsifier, [len])
    with pytest.raises(ValueError, match="Expected variable of length 2, but got 1"):
        CubicSL(sparsifier, init_sl=[1])


def test_configurations_of_observers_are_removed():
    """torchao's sparsifiers keep the norms of activations by observers and remove them so."""
    from rushlight.ao.quantization.quantize import _remove_qconfig

    net = model()
    net.qconfig = net[2][0].qconfig = torch.ao.quantization.default_qconfig
    torch.ao.quantization.prepare(net, inplace=True)
    assert hasattr(net[2][0], "activation_post_process")
    _remove_qconfig(net)
    assert not any(hasattr(one, "qconfig") or hasattr(one, "activation_post_process") for one in net.modules())


def test_observers_without_a_memory_see_the_arguments():
    from rushlight.ao.quantization import MovingAverageMinMaxObserver, QConfig, default_weight_observer, prepare

    for constant, expected in ((1, 5.0), (0.5, 10.0)):
        net = nn.Sequential(nn.Linear(1, 1, bias=False))
        net[0].weight.data.fill_(2)
        net.qconfig = QConfig(
            MovingAverageMinMaxObserver.with_args(averaging_constant=constant), default_weight_observer
        )
        prepare(net, inplace=True)
        net(torch.tensor([[5.0]]))
        assert net[0].activation_post_process.max_val.item() == expected
