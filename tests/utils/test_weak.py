"""`torch.utils.weak`: references and dictionaries by identity."""

import gc

import pytest

import rushlight as torch
from rushlight.utils._python_dispatch import is_traceable_wrapper_subclass
from rushlight.utils.weak import TensorWeakRef, WeakIdKeyDictionary, WeakIdRef


def test_references_compare_by_identity():
    x, y = torch.ones(2), torch.ones(2)
    assert WeakIdRef(x) == WeakIdRef(x) != WeakIdRef(y) and hash(WeakIdRef(x)) == hash(WeakIdRef(x))
    reference, kept = TensorWeakRef(x), hash(WeakIdRef(x))
    weak = WeakIdRef(x)
    del x
    gc.collect()
    assert reference() is None and weak() is None and hash(weak) == kept and weak != WeakIdRef(y)
    with pytest.raises(AssertionError, match="expected torch.Tensor, got <class 'int'>"):
        TensorWeakRef(1)


def test_dictionaries_forget_keys_that_are_gone():
    x, y = torch.ones(2), torch.ones(2)
    names = WeakIdKeyDictionary({x: "x", y: "y"})
    assert names[x] == "x" and names[y] == "y" and [key is x or key is y for key in names] == [True, True]
    copied = names.copy()
    del names[x], y
    gc.collect()
    assert len(names) == 0 and x in copied and list(copied.values()) == ["x"] and 1 not in names
    with pytest.raises(KeyError):
        names[x]
    copied.data.clear()
    assert copied.get(x) is None


def test_classes_that_can_be_taken_apart():
    class Plain(torch.Tensor):
        pass

    class Apart(torch.Tensor):
        def __tensor_flatten__(self):
            return [], None

        @staticmethod
        def __tensor_unflatten__(inner, meta, size, stride):
            return None

    x = torch.ones(1)
    assert [is_traceable_wrapper_subclass(value) for value in (x, x.as_subclass(Plain), x.as_subclass(Apart), 1)] == [
        False,
        False,
        True,
        False,
    ]
