"""Names of torch beside its operators: settings of compilers, conditions, numbers of steps, gradients of sparse tensors."""

import pickle
import subprocess
import sys
import types

import pytest

import rushlight as torch


def test_settings_of_a_compiler_are_kept():
    compiler = torch.compiler
    with pytest.raises(TypeError, match="backend must be a string or callable"):
        compiler.set_default_backend(3)
    with pytest.raises(RuntimeError, match="non-default stance cannot have force_backend set"):
        compiler.set_stance("force_eager", force_backend="eager")
    assert compiler.set_stance("force_eager")(len) is len
    assert compiler.nested_compile_region()(len) is len
    with pytest.raises(TypeError, match="substitute_in_graph expects a function but got <class 'int'>"):
        compiler.substitute_in_graph(3)
    double = compiler.wrap_numpy(lambda x: (x * 2, [x]))
    result = double(torch.arange(3.0))
    assert torch.equal(result[0], torch.tensor([0.0, 2.0, 4.0])) and isinstance(result[1][0], torch.Tensor)
    with pytest.raises(RuntimeError, match="requires grad"):
        double(torch.ones(1, requires_grad=True))


def test_conditions_choose_a_function():
    x = torch.ones(1)
    for pred in (True, 1, torch.tensor(True), torch.tensor([2])):
        assert torch.cond(pred, torch.sin, torch.neg, (x,)).item() == pytest.approx(0.8414710)
    assert torch.cond(False, list, dict) == {}
    with pytest.raises(RuntimeError, match="Expected pred to be bool or single-element tensor"):
        torch.cond(torch.tensor([1, 2]), torch.sin, torch.neg, (x,))


def test_limits_of_sizes():
    torch.sym_constrain_range(3, min=1, max=5)
    with pytest.raises(RuntimeError, match=r"Invalid value range for 7 between \[1, 5\]"):
        torch.sym_constrain_range(7, min=1, max=5)
    with pytest.raises(RuntimeError, match="must be greater than 2"):
        torch.sym_constrain_range_for_size(1, max=2)


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
    for parameters, given, told in (({"a": before[0]}, state, "to match"), ({}, {}, "NoneType")):
        with pytest.raises(RuntimeError, match=told), swap(optimizer, parameters, given):
            pass


def test_steps_and_keys_of_a_profiler():
    profiler = torch.autograd.profiler
    unique = profiler.EnforceUnique()
    unique.see(1, 2)
    with pytest.raises(RuntimeError, match=r"duplicate key: \(1, 2\)"):
        unique.see(1, 2)
    tracker = profiler.KinetoStepTracker
    start = tracker.current_step()
    assert [tracker.increment_step("a"), tracker.increment_step("b"), tracker.increment_step("b")] == [
        start + 1,
        start + 2,
        start + 3,
    ]
    assert tracker.current_step() == start + 3 and tracker.erase_step_count("a") and not tracker.erase_step_count("a")
    records = [(types.SimpleNamespace(start_ns=lambda at=at: at), at) for at in (30, 10, 20)]
    assert [at for _, at in profiler.MemRecordsAcc(records).in_interval(10, 20)] == [10, 20]


D = [[0, 1.0, 0, 2], [2, 3, 0, 0]]


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr"])
def test_gradients_of_sparse_tensors(layout, masked):
    options = {"blocksize": (2, 2)} if layout == "sparse_bsr" else {}
    x = torch.tensor(D, dtype=torch.float64).to_sparse(layout=getattr(torch, layout), **options).requires_grad_()
    check = torch.sparse.as_sparse_gradcheck(torch.autograd.gradcheck)
    assert check.__name__ == "gradcheck_with_sparse_support"
    assert check(lambda x: x.to_dense(masked_grad=masked).sin(), x, masked=masked)
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        check(lambda x: x.detach().to_dense() * x.to_dense(), x, masked=masked)


def test_samples_are_shown():
    seen = []

    def look(x):
        def inner(y):
            seen.extend([torch.func.debug_unwrap(y).shape, torch.func.debug_unwrap(y, recurse=False).shape])
            return y

        return torch.vmap(inner)(x)

    torch.vmap(look)(torch.ones(2, 3))
    assert seen == [(2, 3), (3,)]


def test_blocks_of_mixed_precision_are_counted():
    assert torch.autocast_increment_nesting() == 1
    with torch.autocast("cpu"):
        assert torch.autocast_increment_nesting() == 3 and torch.autocast_decrement_nesting() == 2
    assert torch.autocast_decrement_nesting() == 0
    with pytest.warns(DeprecationWarning):
        assert torch.is_autocast_xla_enabled() is False


def test_the_processor_is_described():
    told = torch.cpu.get_capabilities()
    assert told["architecture"] and told["num_logical_cores"] >= told["num_sockets"] >= 1
    with pytest.raises(TypeError):
        told["sse"] = True


@pytest.mark.parametrize("name", ["int3", "uint7", "bits8", "bits16", "float4_e2m1fn_x2"])
def test_packed_dtypes_are_named(name):
    dtype = getattr(torch, name)
    assert repr(dtype) == f"torch.{name}" and dtype.itemsize == (2 if name == "bits16" else 1)
    assert dtype.is_floating_point == name.startswith("float") and dtype.is_signed == name.startswith(("int", "float"))
    with pytest.raises(TypeError):
        torch.ones(1, dtype=dtype)


def test_functional_helpers():
    functional = torch.nn.functional
    assert functional.has_torch_function((torch.ones(1),)) is False and functional.Tensor is torch.Tensor
    with pytest.raises(AssertionError, match="size must"):
        functional.assert_int_or_pair([1, 2, 3], "size", "{} must")
    assert functional.GRID_SAMPLE_PADDING_MODES["border"] == 1


def test_a_function_is_passed_on():
    class Counted(torch.Tensor):
        calls = 0

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.calls += 1
            return torch.overrides.redispatch_function(func, types, args, kwargs)

    x = torch.ones(2).as_subclass(Counted)
    assert type(x + 1) is not Counted and Counted.calls == 1


def test_overrides_do_not_load_with_the_modules():
    code = "import rushlight.nn.functional, sys; print('rushlight.overrides' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout == "False\n"
