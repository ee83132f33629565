"""Compares every recorded module with finite differences in float64, to second order, with non-contiguous inputs.

One random direction is sufficient: an error in the Jacobian is missed only if it is orthogonal to random vectors.
"""

import copy

import module_cases
import pytest

import rushlight as torch
from rushlight.autograd import gradcheck, gradgradcheck


def spread(tensor, place):
    """The same numbers in another memory layout: transposed, with gaps, or unchanged."""
    if not tensor.dim():
        return tensor
    if place % 2:
        return torch.stack([tensor, tensor + 1], -1)[..., 0]
    return tensor.transpose(0, -1).contiguous().transpose(0, -1)


def reversed_in_memory(tensor):
    return torch.flip(tensor, (-1,))[..., ::-1] if tensor.dim() else tensor


def called(case, layout):
    """The module as a function of its inputs and parameters, with the same random numbers each time; and these tensors."""
    name, args, options, *inputs = case
    torch.manual_seed(7)
    module = getattr(torch.nn, name)(*args, **options).double()
    tensors = []
    for place, given in enumerate(inputs):
        numbers, shape = module_cases.values(given, place)
        tensor = torch.tensor(numbers).reshape(shape)
        if tensor.is_floating_point():
            # Away from points where a function has a kink.
            tensor = layout(tensor.double() + 0.0137 * (place + 1), place)
            # Targets that are signs or probabilities are constants.
            tensor.requires_grad_(place == 0 or not isinstance(given[0], str))
        tensors.append(tensor)
    parameters = dict(module.named_parameters())
    own = [layout(parameter.detach(), 1).requires_grad_() for parameter in parameters.values()]
    buffers = copy.deepcopy(dict(module.named_buffers()))
    count = len(tensors)

    def function(*given):
        torch.manual_seed(8)
        state = {**dict(zip(parameters, given[count:])), **{key: one.clone() for key, one in buffers.items()}}
        own_inputs = tuple(one.clone() if getattr(module, "inplace", False) else one for one in given[:count])
        results = module_cases.flattened(torch.func.functional_call(module, state, own_inputs))
        return tuple(one for one in results if one.requires_grad)

    return function, (*tensors, *own)


@pytest.mark.parametrize("case", module_cases.CASES, ids=module_cases.identity)
def test_gradients(case):
    for layout in (spread, lambda tensor, place: reversed_in_memory(tensor)):
        function, inputs = called(case, layout)
        torch.manual_seed(0)
        assert gradcheck(function, inputs, fast_mode=True, atol=1e-4)


@pytest.mark.parametrize("case", module_cases.CASES, ids=module_cases.identity)
def test_second_gradients(case):
    function, inputs = called(case, spread)
    torch.manual_seed(0)
    assert gradgradcheck(function, inputs, fast_mode=True, atol=1e-4, gen_non_contig_grad_outputs=True)
