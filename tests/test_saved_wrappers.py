"""Copies, pickles and checkpoints of tensors whose class handles operators (`_make_wrapper_subclass`)."""

import copy
import io
import pickle

import pytest

import rushlight as torch
from rushlight.utils import _pytree as pytree


class Twin(torch.Tensor):
    """Holds another tensor. Results hold those of the operators."""

    @staticmethod
    def __new__(cls, inside, requires_grad=False):
        made = torch.Tensor._make_wrapper_subclass(
            cls, inside.size(), strides=inside.stride(), dtype=inside.dtype, requires_grad=requires_grad
        )
        made.inside = inside
        return made

    def __init__(self, inside, requires_grad=False):
        pass

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        args, kwargs = pytree.tree_map_only(Twin, lambda one: one.inside, (args, kwargs or {}))
        return pytree.tree_map_only(torch.Tensor, cls.wrap, func(*args, **kwargs))

    @classmethod
    def wrap(cls, result):
        return cls(result)


class Opening(Twin):
    """Its results are plain tensors."""

    @classmethod
    def wrap(cls, result):
        return result


def saved(value, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return torch.load(buffer, **options)


def check(found, original):
    assert type(found) is type(original) and found.inside is not original.inside
    assert torch.equal(found.inside, original.inside) and found.requires_grad == original.requires_grad
    assert (found.shape, found.stride(), found.dtype) == (original.shape, original.stride(), original.dtype)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_wrappers_are_copied_and_saved(requires_grad):
    original = Twin(torch.arange(6.0).reshape(2, 3).t(), requires_grad)
    assert copy.copy(original).inside is original.inside
    check(copy.deepcopy(original), original)
    check(pickle.loads(pickle.dumps(original)), original)
    check(saved(original, weights_only=False), original)
    with torch.serialization.safe_globals([Twin]):
        check(saved({"one": [original]}, weights_only=True)["one"][0], original)


def test_a_class_is_allowed_by_the_program():
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        saved(Twin(torch.ones(2)), weights_only=True)


def test_a_wrapper_is_a_weight():
    layer = torch.nn.Linear(3, 1, bias=False)
    layer.weight = torch.nn.Parameter(Twin(torch.tensor([[1.0, 2.0, 3.0]])))
    other = copy.deepcopy(layer)
    check(other.weight, layer.weight)
    with torch.serialization.safe_globals([Twin]):
        other.load_state_dict(saved(layer.state_dict()), assign=True)
    check(other.weight, layer.weight)
    assert other(torch.ones(1, 3)).inside.tolist() == [[6.0]]


def test_a_class_without_copies_is_refused():
    with pytest.raises(
        RuntimeError, match="The default implementation of __deepcopy__\\(\\) for wrapper subclasses only works"
    ):
        copy.deepcopy(Opening(torch.ones(2)))
