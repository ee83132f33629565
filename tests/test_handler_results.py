"""What handlers of `__torch_dispatch__` and operators of programs may return, and what tensors without elements tell and refuse."""

import re

import pytest

import rushlight as torch
from rushlight.utils import _pytree as pytree
from rushlight.utils._python_dispatch import TorchDispatchMode

E = torch.arange(6.0).reshape(2, 3) + 1


class Wrapper(torch.Tensor):
    """Holds another tensor, handles every operator with the result for that tensor."""

    @staticmethod
    def __new__(cls, data):
        made = torch.Tensor._make_wrapper_subclass(
            cls, size=data.size(), strides=data.stride(), dtype=data.dtype, device=data.device, requires_grad=False
        )
        made.data_inside = data
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        args, kwargs = pytree.tree_map_only(Wrapper, lambda one: one.data_inside, (args, kwargs or {}))
        return func(*args, **kwargs)


def test_what_is_no_wrapper():
    with pytest.raises(TypeError, match="Tensor must define __torch_dispatch__"):
        torch.Tensor._make_wrapper_subclass(torch.Tensor, (2,))


@pytest.mark.parametrize("result", [3, "a", [torch.ones(1)], (torch.ones(1),)])
def test_results_of_handlers_are_tensors(result):
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return result

    x = torch.ones(1)
    with pytest.raises(RuntimeError, match=re.escape(f"Unable to cast {result} to Tensor")), Mode():
        torch.add(x, 1)


def test_results_of_handlers_are_lists_where_the_operator_has_a_list():
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return args[0]

    x = torch.ones(2)
    with pytest.raises(RuntimeError, match="Unable to cast Python instance of type"), Mode():
        torch.split(x, 1)


def test_a_wrapper_refuses_unknown_arguments():
    class Wrapper(torch.Tensor):
        __torch_dispatch__ = classmethod(lambda cls, func, types, args=(), kwargs=None: NotImplemented)

    with pytest.raises(TypeError, match=r"_make_wrapper_subclass\(\) got an unexpected keyword argument 'foo'"):
        torch.Tensor._make_wrapper_subclass(Wrapper, (2,), foo=1)


@pytest.mark.parametrize(
    ("call", "result", "sentence"),
    [
        (torch.sort, None, "Object of type 'NoneType' is not an instance of 'sequence'"),
        (torch.sort, (torch.ones(2), 1), "Unable to cast 1 to Tensor"),
        (torch.sort, (torch.ones(2),), "Expected Tensor but got None"),
        (torch.max, 1.5, "Unable to cast 1.5 to Tensor"),
        (lambda x: torch.max(x, 0), "a", "Unable to cast a to Tensor"),
        (lambda x: torch.max(x, 0), torch.ones(2), "Object of type 'Tensor' is not an instance of 'sequence'"),
        (lambda x: x.min(0), (torch.ones(2),), "Expected Tensor but got None"),
        (torch.max, [torch.ones(2), torch.ones(2)], r"Unable to cast \["),
        (lambda x: x.sum().item(), "a", "Unable to cast|Cannot cast"),
        (lambda x: torch.equal(x, x), "a", "Unable to cast Python instance of type <class 'str'>"),
    ],
)
def test_results_of_handlers_fit_the_operator(call, result, sentence):
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return result

    x = torch.ones(2)
    with pytest.raises(RuntimeError, match=sentence), Mode():
        call(x)


class Changing(TorchDispatchMode):
    """Changes the result of one operator."""

    def __init__(self, name, change):
        super().__init__()
        self.name, self.change = name, change

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return self.change(result) if func.overloadpacket.__name__ == self.name else result


@pytest.mark.parametrize(
    ("name", "call", "change", "sentence"),
    [
        ("mul", lambda x: x * 2, lambda one: one.int(), "Int"),
        ("mul", lambda x: x * 2, lambda one: one > 0, "Bool"),
        ("max", lambda x: torch.max(x, 1), lambda both: both[::-1], "Long"),
    ],
)
def test_results_without_gradients_are_refused(name, call, change, sentence):
    x = torch.ones(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match=f"^Autograd not support dtype: {sentence}"), Changing(name, change):
        call(x)
    with torch.no_grad(), Changing(name, change):
        call(x)
    with Changing("_to_copy", lambda one: one):
        assert x.int().dtype == torch.int32


def test_a_result_of_another_shape_is_told_in_backward():
    x = torch.ones(2, 3, requires_grad=True)
    with Changing("mul", lambda one: one.sum(0)):
        y = x * 2
    assert y.shape == (3,) and y.requires_grad
    sentence = re.escape(
        "Function MulBackward0 returned an invalid gradient at index 0 - got [3] but expected shape compatible"
    )
    with pytest.raises(RuntimeError, match=sentence):
        y.sum().backward()
    # One that broadcasting explains is summed.
    with Changing("mul", lambda one: one[None]):
        (x * 2).sum().backward()
    assert x.grad.tolist() == [[2.0] * 3] * 2


def test_results_may_be_none():
    x = torch.ones(2, 3, requires_grad=True)
    with Changing("mul", lambda one: None):
        assert x * 2 is None
    with Changing("max", lambda both: (both[0], None)):
        values, places = torch.max(x, 1)
    assert values.requires_grad and places is None
    with pytest.raises(RuntimeError, match="is not on the expected device cpu"):
        values.sum().backward()
    out = torch.empty(2, 3)
    with Changing("mul", lambda one: None):
        assert torch.mul(x.detach(), 2, out=out) is out


def test_the_storage_of_a_wrapper_has_no_bytes():
    x = Wrapper(E)
    storage = x.untyped_storage()
    assert storage.nbytes() == len(storage) == 24 and x.data_ptr() == 0
    calls = {
        "access the data pointer on": (storage.data_ptr, storage.tobytes, lambda: x.storage().data_ptr()),
        "call fill_() on": (lambda: storage.fill_(1), lambda: x.storage().fill_(1)),
        "call copy_() on": (
            storage.clone,
            lambda: storage.copy_(E.untyped_storage()),
            lambda: E.untyped_storage().copy_(storage),
        ),
        "call resize_() on": (lambda: storage.resize_(4),),
        "call share_memory_() on": (storage.share_memory_,),
        "call __setitem__() on": (lambda: storage.__setitem__(0, 1),),
        "call byteswap() on": (lambda: storage.byteswap(torch.float32),),
    }
    for sentence, functions in calls.items():
        for function in functions:
            with pytest.raises(RuntimeError, match=re.escape(f"Attempted to {sentence} an invalid python storage.")):
                function()
    for function in (lambda: storage[0], storage.tolist):
        with pytest.raises(RuntimeError, match="but its data is not allocated yet"):
            function()


def test_wrappers_have_the_form_that_is_asked_for():
    make = torch.Tensor._make_wrapper_subclass
    assert make(Wrapper, (2, 3), memory_format=torch.channels_last).stride() == (3, 1)
    far = make(Wrapper, (2,), (1,), 3)
    assert far.storage_offset() == 3 and far.untyped_storage().nbytes() == 20
    assert make(Wrapper, (2,), storage_size=100).untyped_storage().nbytes() == 100


@pytest.mark.parametrize(
    ("args", "kwargs", "kind", "sentence"),
    [
        ((3, (2,)), {}, TypeError, "cls must be a type (got int)"),
        (
            (int, (2,)),
            {},
            TypeError,
            "Creating a Tensor subclass from a class that does not inherit from Tensor is not",
        ),
        ((Wrapper, 3), {}, TypeError, "argument 'size' (position 2) must be tuple of ints, not int"),
        ((Wrapper, (2, 1.0)), {}, TypeError, "must be tuple of ints, but found element of type float at pos 1"),
        (
            (Wrapper, (2,)),
            {"dtype": 3},
            TypeError,
            "_make_wrapper_subclass(): argument 'dtype' must be torch.dtype, not int",
        ),
        (
            (Wrapper, (2,)),
            {"layout": 3},
            TypeError,
            "_make_wrapper_subclass(): argument 'layout' must be torch.layout, not",
        ),
        (
            (Wrapper, (2,), (1, 1)),
            {},
            RuntimeError,
            "dimensionality of sizes (1) must match dimensionality of strides (2)",
        ),
        ((Wrapper, (2,)), {"storage_offset": 3}, RuntimeError, "setting storage offset without stride not supported"),
        (
            (Wrapper, (2,)),
            {"dispatch_sizes_strides_policy": "x"},
            ValueError,
            "Unknown sizes_strides_policy: x; expected",
        ),
        (
            (Wrapper, (2,)),
            {"dtype": torch.int8, "requires_grad": True},
            RuntimeError,
            "Only Tensors of floating point and",
        ),
    ],
)
def test_forms_that_wrappers_refuse(args, kwargs, kind, sentence):
    with pytest.raises(kind, match=re.escape(sentence)):
        torch.Tensor._make_wrapper_subclass(*args, **kwargs)


def test_several_results_have_their_names():
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return [args[0], args[0]]

    x = torch.ones(2)
    with Mode():
        assert type(torch.sort(x)) is torch.return_types.sort


@pytest.mark.parametrize(
    ("kinds", "result", "error", "sentence"),
    [
        ("str, Tensor", 5, TypeError, "'int' object is not iterable"),
        ("str, Tensor", {"a": 5}, RuntimeError, "Unable to cast 5 to Tensor"),
        ("str, Tensor", {5: None}, RuntimeError, "Unable to cast Python instance of type <class 'int'> to C++ type"),
        ("str, int", {"a": "b"}, RuntimeError, "Unable to cast Python instance of type <class 'str'> to C++ type"),
        ("str, Tensor[]", {"a": "b"}, RuntimeError, "Unable to cast Python instance of type <class 'str'> to C++ type"),
    ],
)
def test_dictionaries_that_an_operator_returns_have_the_types_of_its_schema(kinds, result, error, sentence):
    library = torch.library.Library("tests_dicts", "FRAGMENT")
    try:
        library.define(f"made(Tensor x) -> Dict({kinds})")
        library.impl("made", lambda x: result, "CPU")
        with pytest.raises(error) as raised:
            torch.ops.tests_dicts.made(torch.ones(2))
        assert str(raised.value).startswith(sentence)
    finally:
        library._destroy()


def test_pairs_that_an_operator_returns_are_a_dictionary():
    library = torch.library.Library("tests_pairs", "DEF")
    library.define("made(Tensor x) -> Dict(str, float)")
    library.impl("made", lambda x: [("a", 1)], "CPU")
    made = torch.ops.tests_pairs.made(torch.ones(2))
    assert made == {"a": 1.0} and type(made["a"]) is float
    library._destroy()
