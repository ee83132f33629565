"""What stays the same object when a module is converted, and the settings of `torch.__future__` for it."""

import weakref

import pytest

import rushlight as torch


@pytest.fixture(autouse=True)
def defaults():
    yield
    torch.__future__.set_overwrite_module_params_on_conversion(False)
    torch.__future__.set_swap_module_params_on_conversion(False)


def converted(convert):
    """What is the same after a conversion: the parameter, its gradient, its memory. And the old parameter's dtype."""
    linear = torch.nn.Linear(2, 2)
    weight, grad, address = linear.weight, torch.ones(2, 2), linear.weight.data_ptr()
    weight.grad = grad
    convert(linear)
    assert linear.weight.grad.dtype is linear.weight.dtype and type(linear.weight) is torch.nn.Parameter
    assert linear.weight.requires_grad and not linear.weight.grad.requires_grad
    same = linear.weight is weight, linear.weight.grad is grad, linear.weight.data_ptr() == address
    return *same, weight.dtype, linear.weight.dtype


SINGLE, DOUBLE = torch.float32, torch.float64


@pytest.mark.parametrize(
    "overwrite, swap, double, single",
    [
        (False, False, (True, True, False, DOUBLE, DOUBLE), (True, True, True, SINGLE, SINGLE)),
        (True, False, (False, False, False, SINGLE, DOUBLE), (False, True, True, SINGLE, SINGLE)),
        (False, True, (True, True, False, DOUBLE, DOUBLE), (True, True, True, SINGLE, SINGLE)),
        (True, True, (True, True, False, DOUBLE, DOUBLE), (True, True, True, SINGLE, SINGLE)),
    ],
)
def test_what_a_conversion_keeps(overwrite, swap, double, single):
    torch.__future__.set_overwrite_module_params_on_conversion(overwrite)
    torch.__future__.set_swap_module_params_on_conversion(swap)
    assert torch.__future__.get_overwrite_module_params_on_conversion() is overwrite
    assert torch.__future__.get_swap_module_params_on_conversion() is swap
    assert converted(lambda module: module.double()) == double
    assert converted(lambda module: module.float()) == single


def test_swapping_needs_parameters_without_weak_references():
    torch.__future__.set_swap_module_params_on_conversion(True)
    linear = torch.nn.Linear(2, 2)
    reference = weakref.ref(linear.weight)
    with pytest.raises(RuntimeError, match=r"_apply\(\): Couldn't swap Linear.weight"):
        linear.double()
    assert reference() is linear.weight and linear.weight.dtype is SINGLE


def test_loading_with_assign_swaps():
    torch.__future__.set_swap_module_params_on_conversion(True)
    linear = torch.nn.Linear(2, 2)
    weight = linear.weight
    state = {name: tensor.double() for name, tensor in linear.state_dict().items()}
    linear.load_state_dict(state, assign=True)
    assert linear.weight is weight and weight.dtype is DOUBLE and weight.requires_grad
    assert not state["weight"].requires_grad


def test_a_number_stands_for_a_tensor_of_its_type():
    """As in torch: `to(3.5)` converts to float64 on the CPU. Only an integer alone is the number of a device."""
    parse = torch._C._nn._parse_to
    cpu = torch.device("cpu")
    for number, dtype in ((3.5, torch.float64), (2j, torch.complex128), (True, torch.bool)):
        assert parse(number) == (cpu, dtype, False, None) and parse(number, True) == (cpu, dtype, True, None)
        converted = torch.ones(1).to(number)
        assert converted.dtype is dtype and torch.ones(1).to(number, False, True).dtype is dtype
    assert parse(3, True) == (cpu, torch.int64, True, None) and torch.ones(1).to(3, False).dtype is torch.int64
    assert parse(float) == (None, torch.float64, False, None) and parse(dtype=complex)[1] is torch.complex128
    linear = torch.nn.Linear(1, 1)
    assert linear.to(3.5).weight.dtype is torch.float64 and linear.to(float).weight.dtype is torch.float64
    with pytest.raises(
        TypeError, match="nn.Module.to only accepts floating point or complex dtypes, but got desired dtype=torch.bool"
    ):
        linear.to(True)
    for call in (linear.to, torch.ones(1).to, parse):
        with pytest.raises(
            TypeError, match=r"^to\(\) received an invalid combination of arguments - got \(float, torch.dtype\)"
        ):
            call(3.5, torch.float32)
        with pytest.raises(
            TypeError, match=r"^to\(\) received an invalid combination of arguments - got \(dtype=float, \)"
        ):
            call(dtype=3.5)
