"""Helpers of torch that libraries import: for factories, versions and storages."""

import types

import pytest

import rushlight as torch
from rushlight import nn, serialization


def test_keywords_of_factories():
    assert nn.factory_kwargs(None) == {}
    assert nn.factory_kwargs({"device": "cpu", "factory_kwargs": {"dtype": 3}}) == {"dtype": 3, "device": "cpu"}
    with pytest.raises(TypeError, match="unexpected kwargs {'x'}"):
        nn.factory_kwargs({"x": 1})
    with pytest.raises(TypeError, match=r"device specified twice, in \*\*kwargs and in factory_kwargs"):
        nn.factory_kwargs({"device": "a", "factory_kwargs": {"device": "b"}})


def test_versions_of_modules():
    module = types.ModuleType("mm")
    module.__version__ = "1.2.3"
    check = serialization.check_module_version_greater_or_equal
    assert check(module, (1, 2)) and not check(module, (1, 3))
    module.__version__ = "x"
    with pytest.raises(RuntimeError, match="'mm' module version string is malformed 'x'"):
        check(module, (1, 2))
    with pytest.warns(UserWarning, match="but continuing assuming that requirement is met"):
        assert check(module, (1, 2), False)


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_classes_of_storages():
    assert serialization.normalize_storage_type(torch.cuda.FloatStorage) is torch.FloatStorage
    assert serialization.storage_to_tensor_type(torch.LongStorage(1)) is torch.LongTensor
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
        serialization.validate_cuda_device("cuda:0")


def test_hooks_that_will_not_be_saved_are_named():
    x = torch.ones(1, requires_grad=True)
    x.register_hook(torch.utils.hooks.unserializable_hook(lambda grad: grad))
    torch.utils.hooks.warn_if_has_hooks(x)
    x.register_hook(torch.abs)
    with pytest.warns(UserWarning, match="^backward hook .*abs.* on tensor will not be serialized"):
        torch.utils.hooks.warn_if_has_hooks(x)


def test_a_backward_hook_of_a_module_can_be_made_by_hand():
    seen = []
    hook = torch.utils.hooks.BackwardHook("module", [lambda *given: seen.append(given)], [])
    x = torch.ones(2, requires_grad=True)
    (given,) = hook.setup_input_hook((x,))
    hook.setup_output_hook((given * 3,))[0].sum().backward()
    ((module, (grad_input,), (grad_output,)),) = seen
    assert module == "module"
    assert grad_input.tolist() == [3, 3]
    assert grad_output.tolist() == [1, 1]
