"""`torch.compiler`, `torch.cond` and the limits of symbolic sizes, which a compiler would read."""

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
