"""Parameter groups, state, hooks and errors of optimizers."""

import copy
import importlib
import pickle

import pytest

import rushlight as torch
from rushlight import nn, optim
from rushlight.optim.optimizer import register_optimizer_step_post_hook


def parameter(*values):
    return nn.Parameter(torch.tensor(values or (1.0,)))


def stepped(make):
    p = parameter()
    optimizer = make([p])
    p.grad = torch.ones(1)
    optimizer.step()
    return p, optimizer


def test_repr():
    assert repr(optim.SGD([parameter()], lr=0.1, momentum=0.9)) == (
        "SGD (\nParameter Group 0\n    dampening: 0\n    differentiable: False\n    foreach: None\n    fused: None\n"
        "    lr: 0.1\n    maximize: False\n    momentum: 0.9\n    nesterov: False\n    weight_decay: 0\n)"
    )
    assert repr(optim.AdamW([parameter()])) == (
        "AdamW (\nParameter Group 0\n    amsgrad: False\n    betas: (0.9, 0.999)\n    capturable: False\n"
        "    decoupled_weight_decay: True\n    differentiable: False\n    eps: 1e-08\n    foreach: None\n"
        "    fused: None\n    lr: 0.001\n    maximize: False\n    weight_decay: 0.01\n)"
    )


P = parameter()


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (lambda: optim.SGD(P), TypeError, "params argument given to the optimizer should be an iterable of Tensors or dicts, but got torch.FloatTensor"),
        (lambda: optim.SGD([]), ValueError, "optimizer got an empty parameter list"),
        (lambda: optim.SGD([3]), TypeError, "optimizer can only optimize Tensors, but one of the params is int"),
        (lambda: optim.SGD([P * 2]), ValueError, "can't optimize a non-leaf Tensor"),
        (lambda: optim.SGD([{"params": P}, {"params": P}]), ValueError, "some parameters appear in more than one parameter group"),
        (lambda: optim.SGD([{"params": {P}}]), TypeError, "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets will change between runs. Please use a list instead."),
        (lambda: optim.SGD([("a", P), parameter()]), ValueError, "all optimizer params should be with/without names. Some param names are missing"),
        (lambda: optim.SGD([{"params": [("a", P)]}, {"params": parameter()}]), ValueError, "all optimizer param groups should be with/without names. cannot add param group without names to the optimizer"),
        (lambda: optim.SGD([P]).add_param_group(3), TypeError, "param_group must be a dict, but got <class 'int'>"),
        (lambda: optim.SGD([P], -1), ValueError, "Invalid learning rate: -1"),
        (lambda: optim.SGD([P], "a"), TypeError, "'<' not supported between instances of 'str' and 'float'"),
        (lambda: optim.Adam([P], "a"), TypeError, "'<=' not supported between instances of 'float' and 'str'"),
        (lambda: optim.Adam([P], float("nan")), ValueError, "Invalid learning rate: nan"),
        (lambda: optim.SparseAdam([P], "a"), TypeError, "'<' not supported between instances of 'float' and 'str'"),
        (lambda: optim.SparseAdam([P], float("nan")), ValueError, "Invalid learning rate: nan"),
        (lambda: optim.SparseAdam([P], eps="a"), TypeError, "'<' not supported between instances of 'float' and 'str'"),
        (lambda: optim.SGD([P], torch.ones(2)), ValueError, "Tensor lr must be 1-element"),
        (lambda: optim.SGD([P], momentum=-1), ValueError, "Invalid momentum value: -1"),
        (lambda: optim.SGD([P], weight_decay=-1), ValueError, "Invalid weight_decay value: -1"),
        (lambda: optim.SGD([P], nesterov=True), ValueError, "Nesterov momentum requires a momentum and zero dampening"),
        (lambda: optim.SGD([P], fused=True, foreach=True), RuntimeError, "`fused` and `foreach` cannot be `True` together."),
        (lambda: optim.SGD([P], fused=True, differentiable=True), RuntimeError, "`fused` does not support `differentiable`"),
        (lambda: optim.Adam([P], eps=-1), ValueError, "Invalid epsilon value: -1"),
        (lambda: optim.Adam([P], betas=(0.5, 1.0)), ValueError, "Invalid beta parameter at index 1: 1.0"),
        (lambda: optim.Adam([P], torch.tensor(0.1), foreach=True), ValueError, "lr as a Tensor is not supported for capturable=False and foreach=True"),
        (lambda: optim.Adam([P], betas=(torch.tensor(0.9), 0.9)), ValueError, "betas must be either both floats or both Tensors"),
        (lambda: optim.AdamW([P], betas=(0, 0.9)), ValueError, "betas must be either both floats or both Tensors"),
        (lambda: optim.SGD([P]).load_state_dict({"state": {}, "param_groups": []}), ValueError, "loaded state dict has a different number of parameter groups"),
        (lambda: optim.SGD([P]).load_state_dict({"state": {}, "param_groups": [{"params": [1, 2]}]}), ValueError, "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"),
    ],
)  # fmt: skip
def test_misuse(act, error, message):
    with pytest.raises(error) as caught:
        act()
    assert str(caught.value) == message


def test_sgd_takes_a_rate_that_is_no_number():
    """Unlike the other optimizers."""
    p, _ = stepped(lambda params: optim.SGD(params, lr=float("nan")))
    assert p.isnan().all()


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (optim.SGD, {"lr": 0.1, "momentum": 0.5, "dampening": 0.25, "weight_decay": 0.5}),
        (optim.Adam, {"lr": 0.1, "eps": 0.5, "weight_decay": 0.5}),
        (optim.AdamW, {"lr": 0.1, "eps": 0.5, "weight_decay": 0.5}),
    ],
)
@pytest.mark.parametrize("shape", [(), (1,)])
def test_options_may_be_tensors_of_one_element(kind, options, shape):
    if shape and kind is not optim.AdamW:  # Operators take these as numbers.
        options = {name: value for name, value in options.items() if name not in ("weight_decay", "dampening")}
    plain, _ = stepped(lambda params: kind(params, **options))
    tensors = {name: torch.full(shape, value, dtype=torch.float64) for name, value in options.items()}
    assert torch.equal(stepped(lambda params: kind(params, **tensors))[0], plain)


@pytest.mark.parametrize(
    ("kind", "option"),
    [("SGD", "weight_decay"), ("RMSprop", "lr"), ("Adagrad", "lr"), ("Adadelta", "lr"), ("Muon", "lr")]
    + [(kind, "betas") for kind in ("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "SparseAdam")]
    + [("Rprop", "etas"), ("ASGD", "lambd"), ("Adafactor", "eps")],
)
def test_a_step_reports_that_a_loaded_group_has_no_options(kind, option):
    """Also if no parameter has a gradient, as in torch."""
    optimizer = getattr(optim, kind)([nn.Parameter(torch.ones(2, 2))], lr=0.1)
    optimizer.load_state_dict({"state": {}, "param_groups": [{"params": [0]}]})
    with pytest.raises(KeyError, match=f"^'{option}'$"):
        optimizer.step()


def test_duplicates_warn():
    with pytest.warns(UserWarning, match="optimizer contains a parameter group with duplicate parameters"):
        optim.SGD([P, P])


def test_misspelt_optimizers_propose_the_nearest():
    with pytest.raises(AttributeError, match="Did you mean 'AdamW'"):
        optim.Adamw


def test_state_dict_is_torchs():
    _, optimizer = stepped(lambda params: optim.Adam(params, lr=0.1))
    state = optimizer.state_dict()
    assert list(state) == ["state", "param_groups"]
    assert list(state["state"]) == [0] and list(state["state"][0]) == ["step", "exp_avg", "exp_avg_sq"]
    assert state["state"][0]["step"].item() == 1 and state["state"][0]["step"].dtype == torch.float32
    assert state["state"][0]["exp_avg"].tolist() == pytest.approx([0.1])
    assert state["param_groups"] == [
        {
            "lr": 0.1, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0, "amsgrad": False, "maximize": False,
            "foreach": None, "capturable": False, "differentiable": False, "fused": None,
            "decoupled_weight_decay": False, "params": [0],
        }
    ]  # fmt: skip
    assert stepped(lambda params: optim.SGD(params))[1].state_dict()["state"] == {}
    _, with_momentum = stepped(lambda params: optim.SGD(params, momentum=0.9))
    assert with_momentum.state_dict()["state"][0]["momentum_buffer"].tolist() == [1]


def test_loading_continues_where_saving_stopped():
    p, optimizer = stepped(lambda params: optim.Adam(params, lr=0.1))
    q = nn.Parameter(p.detach().double())
    other = optim.Adam([q], lr=5.0)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert other.state[q]["exp_avg"].dtype == torch.float64 and other.state[q]["step"].dtype == torch.float32
    assert other.param_groups[0]["lr"] == 0.1 and other.param_groups[0]["params"][0] is q
    p.grad, q.grad = torch.ones(1), torch.ones(1).double()
    optimizer.step()
    other.step()
    assert p.item() == pytest.approx(q.item(), abs=1e-6)


def test_loading_of_older_and_foreign_entries():
    p = parameter()
    optimizer = optim.Adam([p])
    saved = {
        "state": {0: {"step": 3, "exp_avg": torch.ones(1), "exp_avg_sq": torch.ones(1)}, "note": 5},
        "param_groups": [{"lr": 0.1, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0, "params": [0]}],
    }
    optimizer.load_state_dict(saved)
    assert optimizer.state[p]["step"].item() == 3 and optimizer.state["note"] == 5
    assert optimizer.param_groups[0]["amsgrad"] is False and optimizer.param_groups[0]["fused"] is None
    p.grad = torch.ones(1)
    optimizer.step()
    assert optimizer.state[p]["step"].item() == 4
    # Groups from before there was a fused step do not ask for one.
    optimizer = optim.SGD([p], fused=True)
    optimizer.load_state_dict({"state": {}, "param_groups": [{"lr": 0.1, "momentum": 0, "params": [0]}]})
    assert optimizer.param_groups[0]["fused"] is False and optimizer.param_groups[0]["foreach"] is None


def test_names_travel():
    named = optim.SGD([("a", parameter())])
    assert named.state_dict()["param_groups"][0]["param_names"] == ["a"]
    plain = optim.SGD([parameter()])
    plain.load_state_dict(named.state_dict())
    assert plain.param_groups[0]["param_names"] == ["a"]


def test_copies_are_independent():
    p, optimizer = stepped(lambda params: optim.Adam(params))
    for twin in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        (q,) = twin.param_groups[0]["params"]
        assert q is not p and twin.state[q]["step"].item() == 1
        q.grad = torch.ones(1)
        twin.step()
        assert twin.state[q]["step"].item() == 2 and optimizer.state[p]["step"].item() == 1


def test_groups_added_later_are_optimized():
    _, optimizer = stepped(lambda params: optim.SGD(params, lr=0.1))
    q = parameter()
    optimizer.add_param_group({"params": q, "lr": 0.5})
    q.grad = torch.ones(1)
    optimizer.step()
    assert q.item() == 0.5 and optimizer.param_groups[1]["momentum"] == 0
    search = optim.LBFGS([parameter()])
    search.add_param_group({"params": parameter()})
    with pytest.raises(AssertionError, match="Expected exactly one param_group, but got 2"):
        search.step(lambda: 0.0)
    # A replaced submodule leaves its parameters in the group without gradients.
    optimizer.param_groups[1]["params"] = [parameter(3.0)]
    optimizer.step()
    assert q.item() == 0.5


@pytest.mark.parametrize("name", ["LambdaLR", "MultiplicativeLR"])
def test_schedules_by_functions_know_their_groups(name):
    optimizer = optim.SGD([parameter()], lr=0.1)
    schedule = getattr(optim.lr_scheduler, name)(optimizer, lambda epoch: 0.5)
    optimizer.add_param_group({"params": parameter()})
    optimizer.step()
    with pytest.raises(ValueError, match="argument 2 is (longer|shorter) than argument 1"):
        schedule.step()


def test_zero_grad():
    p, optimizer = stepped(lambda params: optim.SGD(params))
    grad = p.grad
    optimizer.zero_grad(set_to_none=False)
    assert p.grad is grad and grad.item() == 0
    optimizer.zero_grad()
    assert p.grad is None


def test_step_hooks():
    _, optimizer = stepped(lambda params: optim.SGD(params))
    seen = []
    handle = optimizer.register_step_pre_hook(
        lambda o, args, kwargs: seen.append(("pre", o is optimizer, args[0] is o))
    )
    optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("post"))
    everywhere = register_optimizer_step_post_hook(lambda o, args, kwargs: seen.append("global"))
    optimizer.step()
    assert seen == [("pre", True, True), "post", "global"]
    handle.remove()
    everywhere.remove()
    optimizer.step()
    assert seen[3:] == ["post"]
    optimizer.register_step_pre_hook(lambda o, args, kwargs: 3)
    with pytest.raises(RuntimeError, match=r"must return None or a tuple of \(new_args, new_kwargs\), but got 3."):
        optimizer.step()


def test_state_hooks():
    _, optimizer = stepped(lambda params: optim.SGD(params))
    seen = []
    optimizer.register_load_state_dict_pre_hook(lambda o, state: seen.append("before load"))
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append("after load"))
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("before save"))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "extra": 1})
    state = optimizer.state_dict()
    assert state["extra"] == 1
    optimizer.load_state_dict(state)
    assert seen == ["before save", "before load", "after load"]


def test_a_users_optimizer():
    class Signs(optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    p.data.add_(p.grad.sign(), alpha=-group["lr"])

    p, optimizer = stepped(lambda params: Signs(params, 0.25))
    assert p.item() == 0.75 and repr(optimizer) == "Signs (\nParameter Group 0\n    lr: 0.25\n)"
    seen = []
    optimizer.register_step_post_hook(lambda *args: seen.append(1))
    optimizer.step()
    assert seen == [1]


def test_modules_do_not_stand_where_classes_are_sought():
    """`torch.optim.adam(...)` is reported as a misspelling of `Adam`, although the module can be imported."""
    for name in ("adam", "sgd", "adamw", "optimizer"):
        assert not hasattr(optim, name)
    with pytest.raises(AttributeError, match="has no attribute 'adam'\nDid you mean 'Adam'"):
        optim.adam
    from rushlight.optim.adam import Adam

    assert Adam is optim.Adam and not hasattr(optim, "adam")


def test_state_stands_in_the_order_of_files():
    _, optimizer = stepped(optim.NAdam)
    assert list(optimizer.state_dict()["state"][0]) == ["step", "mu_product", "exp_avg", "exp_avg_sq"]


def test_a_parameter_twice_in_a_group_is_known_by_its_last_place():
    p = parameter()
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optimizer = optim.SGD([p, p], lr=0.1)
    optimizer.add_param_group({"params": parameter()})
    assert [group["params"] for group in optimizer.state_dict()["param_groups"]] == [[1, 1], [2]]


def test_schedules_keep_copies_of_rates_and_momenta():
    parameter = torch.zeros(1, requires_grad=True)
    lr = torch.optim.lr_scheduler
    for make in (
        lambda optimizer, value: torch.optim.swa_utils.SWALR(optimizer, value, anneal_epochs=2),
        lambda optimizer, value: lr.CyclicLR(optimizer, value, 1.0, max_momentum=value, base_momentum=value),
        lambda optimizer, value: lr.OneCycleLR(optimizer, value, 10, max_momentum=value, base_momentum=value),
    ):
        seen = []
        for change in (False, True):
            optimizer = torch.optim.SGD([parameter], lr=0.25, momentum=0.5)
            value = torch.tensor(0.75)
            schedule = make(optimizer, value)
            if change:
                value.fill_(100)
            optimizer.step()
            schedule.step()
            seen.append([float(optimizer.param_groups[0][name]) for name in ("lr", "momentum")])
        assert seen[0] == seen[1]


def test_lbfgs_takes_a_gradient_of_zero():
    weight = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight], tolerance_grad=-1)

    def closure():
        optimizer.zero_grad()
        loss = (weight * 0).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 0 and weight.item() == 1


_LISTS = {
    "adadelta": (["square_avg", "acc_delta"], {"rho": 0.9, "eps": 1e-6, "weight_decay": 0.1}),
    "adagrad": (["sum"], {"lr_decay": 0.1, "eps": 1e-6, "weight_decay": 0.1}),
    "adamax": (["exp_avg", "exp_inf"], {"betas": (0.9, 0.99), "eps": 1e-6, "weight_decay": 0.1}),
    "asgd": (["ax", "mu", "eta"], {"lambd": 0.01, "alpha": 0.75, "t0": 1.0, "weight_decay": 0.1}),
    "nadam": (
        ["exp_avg", "exp_avg_sq", "mu_product"],
        {"betas": (0.9, 0.99), "eps": 1e-6, "weight_decay": 0.1, "momentum_decay": 0.01},
    ),
    "radam": (["exp_avg", "exp_avg_sq"], {"betas": (0.9, 0.99), "eps": 1e-6, "weight_decay": 0.1}),
    "rmsprop": (
        ["square_avg", "grad_avg", "momentum_buffer"],
        {"alpha": 0.9, "eps": 1e-6, "weight_decay": 0.1, "momentum": 0.5, "centered": True},
    ),
    "rprop": (["prev", "step_size"], {"etas": (0.5, 1.2), "step_sizes": (1e-6, 50)}),
    "adam": (
        ["exp_avg", "exp_avg_sq", "max_exp_avg_sq"],
        {"betas": (0.9, 0.99), "eps": 1e-6, "weight_decay": 0.1, "amsgrad": True},
    ),
    "adamw": (
        ["exp_avg", "exp_avg_sq", "max_exp_avg_sq"],
        {"betas": (0.9, 0.99), "eps": 1e-6, "weight_decay": 0.1, "amsgrad": True},
    ),
    "sgd": (["momentum_buffer"], {"momentum": 0.5, "dampening": 0.1, "weight_decay": 0.1, "nesterov": False}),
}
_SPLIT = {
    "betas": ("beta1", "beta2"),
    "etas": ("etaminus", "etaplus"),
    "step_sizes": ("step_size_min", "step_size_max"),
}


@pytest.mark.parametrize("name", _LISTS)
def test_the_form_for_lists_does_the_step_of_the_class(name):
    module = importlib.import_module(f"rushlight.optim.{name}")
    parts, options = _LISTS[name]
    kind = getattr(torch.optim, next(found for found in module.__all__ if found != name))
    (lists_of,) = ([*parts, "step"] if name != "sgd" else parts,)
    weights = [torch.tensor([1.0, -2.0]), torch.tensor([[3.0]])]
    owned = [weight.clone().requires_grad_() for weight in weights]
    optimizer = kind(owned, lr=0.25, maximize=True, **options)
    named = {"lr": 0.25, "maximize": True}
    for key, value in options.items():
        named.update(zip(_SPLIT[key], value) if key in _SPLIT else {key: value})
    if name == "rprop":
        del named["lr"]
    start = {"mu": 1.0, "mu_product": 1.0, "eta": 0.25, "step_size": 0.25}
    lists = []
    for part in lists_of:
        shapes = [() if part in ("step", "mu", "eta", "mu_product") else weight.shape for weight in weights]
        lists.append([None if name == "sgd" else torch.full(shape, start.get(part, 0.0)) for shape in shapes])
    for step in range(3):
        grads = [torch.full_like(weight, 0.5 - step) for weight in weights]
        for own, grad in zip(owned, grads):
            own.grad = grad.clone()
        optimizer.step()
        getattr(module, name)(weights, grads, *lists, **named)
        for place, own in enumerate(owned):
            assert torch.equal(own, weights[place])
            for part, values in zip(lists_of, lists):
                assert torch.equal(optimizer.state[own][part], values[place]), part


def test_fused_forms_for_lists_unscale_and_skip():
    from rushlight.optim.sgd import sgd

    options = {"weight_decay": 0.0, "momentum": 0.0, "lr": 0.5, "dampening": 0.0, "nesterov": False, "maximize": False}
    weight, grad = torch.ones(1), torch.full((1,), 8.0)
    sgd([weight], [grad], [None], fused=True, grad_scale=torch.tensor(4.0), found_inf=torch.tensor(0.0), **options)
    assert weight.item() == 0
    sgd([weight], [grad], [None], fused=True, found_inf=torch.tensor(1.0), **options)
    assert weight.item() == 0
    with pytest.raises(AssertionError, match="Expected grad_scale and found_inf to be None"):
        sgd([weight], [grad], [None], found_inf=torch.tensor(1.0), **options)


@pytest.mark.parametrize("adjust", [None, "match_rms_adamw"])
def test_the_form_for_lists_of_muon_does_the_step_of_the_class(adjust):
    from rushlight.optim._muon import muon

    options = {
        "lr": 0.25,
        "weight_decay": 0.1,
        "momentum": 0.5,
        "nesterov": True,
        "ns_coefficients": (3.4445, -4.775, 2.0315),
        "ns_steps": 5,
        "eps": 1e-7,
        "adjust_lr_fn": adjust,
    }
    weight = torch.tensor([[1.0, 2.0], [-0.5, 0.25], [3.0, 1.0]])
    own, mean = weight.clone().requires_grad_(), torch.zeros(3, 2)
    optimizer = torch.optim.Muon([own], **options)
    for step in range(3):
        own.grad = torch.full((3, 2), 0.5 - step).tril()
        optimizer.step()
        muon([weight], [own.grad], [mean], has_complex=False, **options)
    assert torch.equal(own, weight) and torch.equal(optimizer.state[own]["momentum_buffer"], mean)
    with pytest.raises(RuntimeError, match="^Foreach is not supported for Muon yet$"):
        muon([weight], [weight], [mean], foreach=True, has_complex=False, **options)
    with pytest.raises(ValueError, match="^Param gradient must be a 2D matrix$"):
        muon([weight], [torch.ones(2)], [mean], has_complex=False, **options)


def test_gradients_flow_to_the_product_of_momenta_of_nadam():
    from rushlight.optim.nadam import nadam

    product = torch.ones(1, requires_grad=True)
    weight = torch.ones(1)
    lists = [torch.zeros(1)], [torch.zeros(1)], [product.clone()], [torch.tensor(1.0)]
    options = {"beta1": 0.9, "beta2": 0.99, "lr": 0.1, "weight_decay": 0.0, "momentum_decay": 0.1, "eps": 1e-8}
    nadam([weight], [torch.tensor([0.5])], *lists, differentiable=True, **options)
    (slope,) = torch.autograd.grad(weight.sum(), product)
    assert slope.item() == pytest.approx(-0.1192, abs=1e-4)


def test_an_optimizer_lends_its_place():
    model, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    swap = torch.optim.swap_in_optimizer_params_and_state
    with (
        pytest.raises(RuntimeError, match="requires initialized optimizer state"),
        swap(optimizer, dict(other.named_parameters()), optimizer.state_dict()),
    ):
        pass
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    state = pickle.loads(pickle.dumps(optimizer.state_dict()))
    before = [parameter.detach().clone() for parameter in (*model.parameters(), *other.parameters())]
    with swap(optimizer, dict(other.named_parameters()), state):
        other(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), before))
    assert not any(torch.equal(a, b) for a, b in zip(other.parameters(), before[2:]))
    assert optimizer.state[model.weight]["step"] == 1 and other.weight not in optimizer.state
    for parameters, given, sentence in (({"a": before[0]}, state, "to match"), ({}, {}, "NoneType")):
        with pytest.raises(RuntimeError, match=sentence), swap(optimizer, parameters, given):
            pass


@pytest.mark.parametrize(
    ("kind", "options", "argument"),
    [
        (torch.optim.SGD, {"lr": 0.1, "weight_decay": torch.tensor([0.1])}, "add(): argument 'alpha'"),
        (torch.optim.SGD, {"lr": 0.1, "momentum": 0.5, "dampening": torch.tensor([0.1])}, "add_(): argument 'alpha'"),
        (torch.optim.Adam, {"weight_decay": torch.tensor([0.1])}, "add(): argument 'alpha'"),
        (torch.optim.Adadelta, {"weight_decay": torch.tensor([0.1])}, "add(): argument 'alpha'"),
        (torch.optim.RMSprop, {"weight_decay": torch.tensor([0.1])}, "add(): argument 'alpha'"),
        (torch.optim.Adamax, {"betas": (torch.tensor([0.1]), 0.9)}, "addcdiv_(): argument 'value'"),
        (torch.optim.NAdam, {"betas": (0.9, torch.tensor([0.1]))}, "addcmul_(): argument 'value'"),
        (torch.optim.RAdam, {"betas": (0.9, torch.tensor([0.1]))}, "addcmul_(): argument 'value'"),
    ],
)
def test_options_are_numbers_where_an_operator_needs_one(kind, options, argument):
    """Tensors without dimensions are numbers, others are not."""

    def step(options):
        weight = torch.nn.Parameter(torch.ones(2))
        weight.grad = torch.ones(2)
        optimizer = kind([weight], **options)
        optimizer.step()
        optimizer.step()
        return weight.tolist()

    with pytest.raises(TypeError) as found:
        step(options)
    assert str(found.value).startswith(f"{argument} must be Number, not Tensor")
    as_number = lambda one: one[0] if isinstance(one, torch.Tensor) else one
    plain = {key: tuple(map(as_number, one)) if key == "betas" else as_number(one) for key, one in options.items()}
    floats = {key: tuple(map(float, one)) if key == "betas" else float(one) for key, one in plain.items()}
    assert step(plain) == step(floats)


def test_a_decay_beside_the_gradient_may_be_a_tensor():
    weight = torch.nn.Parameter(torch.ones(2))
    weight.grad = torch.ones(2)
    torch.optim.AdamW([weight], weight_decay=torch.tensor([0.5])).step()
    assert weight[0].item() < 1
