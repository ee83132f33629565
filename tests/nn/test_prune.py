"""Pruning, compared with torch's masks."""

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn.utils import prune

WEIGHT = torch.tensor([[1.0, -2.0, 3.0, -0.5], [0.1, 5.0, -6.0, 0.2], [4.0, -0.3, 0.4, 7.0]])


def layer():
    made = nn.Linear(4, 3)
    with torch.no_grad():
        made.weight.copy_(WEIGHT)
    return made


def test_the_smallest_go_first_and_later_prunings_see_what_is_left():
    pruned = prune.l1_unstructured(layer(), "weight", 0.25)
    assert pruned.weight_mask.tolist() == [[1, 1, 1, 1], [0, 1, 1, 0], [1, 0, 1, 1]]
    assert torch.equal(pruned.weight, WEIGHT * pruned.weight_mask)
    assert sorted(pruned.state_dict()) == ["bias", "weight_mask", "weight_orig"]
    prune.l1_unstructured(pruned, "weight", 2)
    assert pruned.weight_mask.tolist() == [[1, 1, 1, 0], [0, 1, 1, 0], [1, 0, 0, 1]]
    prune.ln_structured(pruned, "weight", 1, n=2, dim=-1)
    assert pruned.weight_mask.tolist() == [[0, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]]
    (hook,) = pruned._forward_pre_hooks.values()
    assert isinstance(hook, prune.PruningContainer) and len(hook) == 3
    pruned(torch.ones(1, 4)).sum().backward()
    assert torch.equal(pruned.weight_orig.grad, pruned.weight_mask)
    prune.remove(pruned, "weight")
    assert sorted(pruned.state_dict()) == ["bias", "weight"] and not prune.is_pruned(pruned)


def test_random_prunings_are_torchs():
    torch.manual_seed(0)
    pruned = prune.random_unstructured(layer(), "weight", 6)
    assert pruned.weight_mask.sum() == 6
    pruned = prune.random_structured(layer(), "weight", 0.5, dim=1)
    assert sorted(pruned.weight_mask.sum(0).tolist()) == [0, 0, 3, 3]
    assert torch.equal(prune.identity(layer(), "weight").weight, WEIGHT)


def test_several_parameters_as_one():
    first, second = layer(), layer()
    with torch.no_grad():
        second.weight.mul_(10)
    prune.global_unstructured([(first, "weight"), (second, "weight")], prune.L1Unstructured, amount=5)
    assert int(first.weight_mask.sum()) == 7 and int(second.weight_mask.sum()) == 12


def test_what_cannot_be_pruned():
    with pytest.raises(TypeError, match=r"^topk\(\): argument 'k' must be int, not bool"):
        prune.l1_unstructured(layer(), "weight", True)
    with pytest.raises(AttributeError, match="^'int' object has no attribute '_tensor_name'"):
        prune.PruningContainer(5)
    with pytest.raises(TypeError, match="^<class 'int'> is not a BasePruningMethod subclass"):
        prune.PruningContainer(5, 6)
    with pytest.raises(ValueError, match="has to be pruned before pruning can be removed"):
        prune.remove(layer(), "weight")
    with pytest.raises(ValueError, match="amount=13 should be smaller than the number of parameters to prune=12"):
        prune.l1_unstructured(layer(), "weight", 13)
    with pytest.raises(ValueError, match=r"amount=1.5 should either be a float in the range \[0, 1\]"):
        prune.l1_unstructured(layer(), "weight", 1.5)
    with pytest.raises(ValueError, match="Structured pruning can only be applied to multidimensional tensors"):
        prune.ln_structured(layer(), "bias", 1, 2, 0)
    with pytest.raises(TypeError, match="Invalid type for amount: all"):
        prune.l1_unstructured(layer(), "weight", "all")
    rolled_back = layer()
    with pytest.raises(IndexError, match="Invalid index 2 for tensor of size"):
        prune.random_structured(rolled_back, "weight", 1, 2)
    assert sorted(rolled_back.state_dict()) == ["bias", "weight"]
