"""`__torch_function__`: classes and modes that override operators, as in torch 2.13."""

import contextlib
import copy
import inspect
import operator
import os
import pickle
import subprocess
import sys
import threading
import types

import numpy as np
import pytest

import rushlight as torch
from rushlight import overrides
from rushlight.overrides import TorchFunctionMode


class Plain(torch.Tensor):
    pass


class Derived(Plain):
    pass


class Other(torch.Tensor):
    pass


class Logged(torch.Tensor):
    calls: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append((overrides.resolve_name(func), types, len(args), kwargs))
        return super().__torch_function__(func, types, args, kwargs)


class Duck:
    """Not a tensor, but a class that overrides functions."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return overrides.resolve_name(func), types


class Silent:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


def made(kind, *shape):
    return torch.ones(*shape or (2, 3)).as_subclass(kind)


def names(call):
    """The names of the functions that handlers were called with in a call."""
    Logged.calls.clear()
    call()
    return [call[0].removeprefix("torch.") for call in Logged.calls]


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x + 1,
        lambda x: 1 - x,
        lambda x: torch.ones(2, 3) * x,
        lambda x: x @ x.T,
        lambda x: x**2,
        lambda x: ~(x > 0),
        lambda x: -x,
        lambda x: x[0],
        lambda x: x.T,
        lambda x: x.data,
        lambda x: x.sum(),
        lambda x: x.clone(),
        lambda x: x.detach(),
        lambda x: x.to(torch.float64),
        lambda x: x.view(3, 2),
        lambda x: torch.cat([torch.ones(1, 3), x]),
        lambda x: torch.add(x, 1),
        lambda x: torch.nn.functional.linear(torch.ones(4, 3), x),
        lambda x: torch.nn.functional.softmax(x, -1),
        lambda x: torch.einsum("ij->i", x),
        lambda x: torch.nn.Linear(3, 1)(x),
        lambda x: x.add_(1),
        lambda x: copy.copy(x),
        lambda x: copy.deepcopy(x),
        lambda x: torch.zeros_like(x),
        lambda x: x.reshape(-1).cpu().float(),
    ],
)
def test_results_are_of_the_arguments_class(call):
    assert type(call(made(Plain))) is Plain
    assert type(call(made(Derived))) is Derived


def test_results_that_are_many():
    x = made(Plain)
    assert [type(part) for part in x.split(1)] == [Plain, Plain]
    assert [type(part) for part in x] == [Plain, Plain]
    found = x.max(1)
    assert type(found) is torch.return_types.max
    assert type(found.values) is Plain and type(found.indices) is Plain
    assert type(x.shape) is torch.Size
    assert type(x.sum().item()) is float


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("numel", (torch.ones(2),)),
        ("is_floating_point", (torch.ones(2),)),
        ("is_complex", (torch.ones(2),)),
        ("is_nonzero", (torch.ones(1),)),
        ("is_same_size", (torch.ones(2), torch.ones(2))),
        ("result_type", (torch.ones(2), 1)),
        ("can_cast", (torch.float32, torch.int32)),
        ("promote_types", (torch.float32, torch.int32)),
        ("sparse_coo_tensor", ([[0]], [1.0], (2,))),
    ],
)
def test_questions_are_put_as_the_functions_that_were_called(name, args):
    function, seen = getattr(torch, name), []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Mode():
        found = function(*args)
    assert seen == [function]
    assert str(found) == str(function(*args))
    if name not in ("can_cast", "promote_types", "sparse_coo_tensor"):
        assert function(*[Duck() if isinstance(arg, torch.Tensor) else arg for arg in args])[0] == f"torch.{name}"


def test_the_most_derived_class_wins_and_strangers_do_not_mix():
    plain, derived, other = made(Plain), made(Derived), made(Other)
    assert type(plain + derived) is type(derived + plain) is Derived
    with pytest.raises(TypeError, match=r"^Multiple dispatch failed for 'torch\.add'; all __torch_function__ handlers"):
        torch.add(plain, other)
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \+: 'Plain' and 'Other'"):
        plain + other


def test_gradients_are_plain_and_history_has_the_alias():
    x = made(Plain, 3).requires_grad_()
    y = x * 2
    assert type(x) is type(y) is Plain
    assert y.grad_fn.name() == "AliasBackward0"
    y.sum().backward()
    assert type(x.grad) is torch.Tensor
    assert x.grad.tolist() == [2, 2, 2]


def test_parameters_and_buffers():
    x = made(Plain)
    parameter = torch.nn.Parameter(x)
    assert type(parameter) is Plain and isinstance(parameter, torch.nn.Parameter)
    assert type(torch.nn.Parameter(torch.ones(1)) * 2) is torch.Tensor
    assert torch.nn.Parameter.__torch_function__ is torch._C._disabled_torch_function_impl
    layer = torch.nn.Linear(3, 1)
    layer.weight = torch.nn.Parameter(made(Plain, 1, 3))
    assert type(layer(torch.ones(3))) is Plain
    assert type(torch.nn.Buffer(x)) is Plain


def test_what_handlers_are_told():
    x, y = made(Logged), torch.ones(2, 3)
    both = {
        "Tensor.add": operator.add,
        "Tensor.sub": operator.sub,
        "Tensor.mul": operator.mul,
        "Tensor.div": operator.truediv,
        "Tensor.__floordiv__": operator.floordiv,
        "Tensor.remainder": operator.mod,
        "Tensor.__pow__": operator.pow,
        "Tensor.__eq__": operator.eq,
        "Tensor.ne": operator.ne,
        "Tensor.lt": operator.lt,
        "Tensor.ge": operator.ge,
        "Tensor.add_": operator.iadd,
        "Tensor.__ipow__": operator.ipow,
    }
    for name, call in both.items():
        assert names(lambda call=call: call(x, y)) == [name]
    turned = {
        "Tensor.__rsub__": operator.sub,
        "Tensor.__rtruediv__": operator.truediv,
        "Tensor.__rpow__": operator.pow,
        "Tensor.__rmod__": operator.mod,
        "Tensor.mul": operator.mul,
        "Tensor.gt": operator.lt,
    }
    for name, call in turned.items():
        assert names(lambda call=call: call(2, x)) == [name]
    alone = {
        "Tensor.neg": operator.neg,
        "Tensor.positive": operator.pos,
        "Tensor.abs": operator.abs,
        "Tensor.__len__": len,
        "Tensor.__repr__": repr,
        "Tensor.__dir__": dir,
        "Tensor.shape.__get__": lambda x: x.shape,
        "Tensor.requires_grad.__set__": lambda x: setattr(x, "requires_grad", False),
        "Tensor.size": lambda x: x.size(),
        "Tensor.tolist": lambda x: x.tolist(),
        "Tensor.__getitem__": lambda x: x[0],
        "Tensor.__setitem__": lambda x: operator.setitem(x, 0, 1),
        "Tensor.__reduce_ex__": lambda x: x.__reduce_ex__(4),
        "cat": lambda x: torch.cat([y, x]),
        "fft.fft": lambda x: torch.fft.fft(x),
        "linalg.norm": lambda x: torch.linalg.norm(x),
        "nn.functional.relu": lambda x: torch.nn.functional.relu(x),
    }
    for name, call in alone.items():
        assert names(lambda call=call: call(x)) == [name]
    one = torch.ones(()).as_subclass(Logged)
    for name, call in {"__bool__": bool, "__int__": int, "__float__": float}.items():
        assert names(lambda call=call: call(one)) == [f"Tensor.{name}"]
    Logged.calls.clear()
    torch.sum(x, dim=1)
    assert Logged.calls == [("torch.sum", (Logged,), 1, {"dim": 1})]


def test_places_where_a_class_is_met():
    """An instance of an overriding class is found at any position: after a plain tensor, as index, as value."""
    x, y = made(Logged), torch.ones(2, 3)
    assert names(lambda: operator.setitem(y, 0, x[0])) == ["Tensor.__getitem__", "Tensor.__setitem__"]
    assert names(lambda: torch.ones(3)[torch.tensor([1]).as_subclass(Logged)]) == ["Tensor.__getitem__"]
    assert names(lambda: torch.where(y > 0, y, x)) == ["where"]
    assert names(lambda: torch.stack((y, x))) == ["stack"]
    array = np.ones((2, 3), dtype=np.float32)
    assert names(lambda: (x == array, x != array)) == ["Tensor.__eq__", "Tensor.ne"]


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda d: torch.mean(d), "torch.mean"),
        (lambda d: torch.ones(2) + d, "torch.Tensor.add"),
        (lambda d: d + torch.ones(2), "torch.Tensor.add"),
        (lambda d: torch.ones(2) @ d, "torch.Tensor.matmul"),
        (lambda d: torch.ones(2).add(d), "torch.Tensor.add"),
        (lambda d: torch.add(torch.ones(2), 1, out=d), "torch.add"),
        (lambda d: torch.cat([torch.ones(2), d]), "torch.cat"),
        (lambda d: torch.sum(torch.ones(2), dim=d), "torch.sum"),
        (lambda d: torch.nn.functional.linear(torch.ones(2), d), "torch.nn.functional.linear"),
    ],
)
def test_what_is_no_tensor_answers_too(call, name):
    assert call(Duck()) == (name, (Duck,))


def test_what_is_no_tensor_answers_in_a_program_without_classes_of_tensors():
    """The class is not registered with the engine."""
    program = """
import rushlight as torch
class D:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__
x, d = torch.ones(2), D()
print(torch.mean(d), x + d, d + x, x[d], x.to(d), x.type_as(d), torch.einsum("i,i", d, d), torch.cat([x, d]), x == d)
x[0] = d
print(torch.unique(d), torch.nn.functional.interpolate(d), x.map_(tensor=d, callable=abs))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [
        *"mean add add __getitem__ to type_as einsum cat __eq__".split(),
        *"unique interpolate map_".split(),
    ]


def test_classes_of_the_library_cost_no_question():
    """Calls only pay for overrides if the program has overriding classes."""
    program = """
from public_names import modules
modules()
import rushlight as torch
torch.nn.Linear(2, 2), torch.nn.Buffer()
print(torch._C._expect_overrides(), torch._C._expect_overrides())
"""
    path = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=path)
    assert done.stdout.split() == ["False", "True"]


def test_a_parameter_class_hands_on_what_it_does_not_change():
    class Quantised(torch.nn.Parameter):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs or {})

    assert (Quantised(torch.ones(2)) + 1).tolist() == [2, 2]
    with Count() as mode, torch._C.DisableTorchFunction():
        torch._C._disabled_torch_function_impl(torch.add, (), (torch.ones(1), 1), {})
    assert mode.met == []


def test_nobody_answers():
    with pytest.raises(TypeError) as caught:
        torch.mean(Silent())
    assert str(caught.value).splitlines() == [
        "Multiple dispatch failed for 'torch.mean'; all __torch_function__ handlers returned NotImplemented:",
        "",
        f"  - tensor subclass {Silent!r}",
    ]
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \+: 'Tensor' and 'Silent'"):
        torch.ones(2) + Silent()


def test_a_handler_that_raises_is_heard():
    class Broken(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise LookupError("here")

    x = torch.ones(2).as_subclass(Broken)
    for call in (
        lambda: x + 1,
        lambda: x.shape,
        lambda: x[0],
        lambda: operator.setitem(x, 0, 1),
        lambda: len(x),
        lambda: repr(x),
        lambda: bool(x),
        lambda: x.size(),
        lambda: setattr(x, "data", x),
        lambda: iter(x),
        lambda: torch.sum(x),
    ):
        with pytest.raises(LookupError, match="here"):
            call()


def test_a_handler_of_the_object_is_deprecated():
    class Method:
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return "own"

    with pytest.warns(UserWarning, match="as a plain method is deprecated"):
        torch.set_warn_always(True)
        try:
            assert torch.mean(Method()) == "own"
        finally:
            torch.set_warn_always(False)


class Count(TorchFunctionMode):
    def __init__(self):
        self.met = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.met.append(overrides.resolve_name(func))
        return func(*args, **(kwargs or {}))


def test_modes_meet_every_call_in_their_block():
    x = torch.ones(2)
    with Count() as outer:
        torch.zeros(2) + x
        with Count() as inner:
            x.sum()
        x.shape
    x + 1
    assert inner.met == ["torch.Tensor.sum"]
    assert outer.met == ["torch.zeros", "torch.Tensor.add", "torch.Tensor.sum", "torch.Tensor.shape.__get__"]


def test_one_mode_twice():
    with Count() as outer, Count() as inner, outer:
        torch.ones(1)
    assert outer.met == ["torch.ones"] * 2 and inner.met == ["torch.ones"]
    with pytest.raises(RuntimeError, match="trying to pop from empty mode stack"):
        outer.__exit__(None, None, None)


def test_modes_belong_to_a_thread_and_end_with_an_exception():
    met = []
    with pytest.raises(ZeroDivisionError), Count() as mode:
        thread = threading.Thread(target=lambda: met.append(torch.ones(2) + 1))
        thread.start()
        thread.join()
        raise ZeroDivisionError
    torch.ones(2)
    assert mode.met == [] and len(met) == 1


def test_a_mode_that_refuses():
    class Refusing(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    with Refusing(), pytest.raises(TypeError, match=r"Multiple dispatch failed for 'torch\.zeros'"):
        torch.zeros(2)
    x = made(Plain)
    with Refusing(), pytest.raises(TypeError, match=r"^Multiple dispatch failed for 'torch\.add'"):
        torch.add(x, 1)


def test_contexts_in_which_nobody_is_asked():
    x = made(Plain)
    with torch._C.DisableTorchFunctionSubclass():
        assert type(x + 1) is torch.Tensor
        assert not overrides.has_torch_function((x,))
        with Count() as mode:
            x + 1
        assert mode.met == ["torch.Tensor.add"]
    with Count() as mode, torch._C.DisableTorchFunction():
        assert type(x + 1) is torch.Tensor
        with torch._C.DisableTorchFunctionSubclass():
            x + 1
    assert mode.met == []
    assert type(x + 1) is Plain


def test_whatever_can_be_overridden_asks():
    asked = []

    class Asking(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            asked.append(func)

    class Foreign:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            asked.append(func)

    def asks(function):
        """Whether overrides are called for a call with any number of arguments. Arguments of wrong kinds are refused before,
        unless an object that is no tensor handles the call."""
        asked.clear()
        for operand in (torch.ones(1).as_subclass(Asking), Foreign()):
            for count in range(1, 9):
                with contextlib.suppress(Exception):
                    function(*[operand] * count)
        # Python's operators are those of the table.
        return function in asked or (function.__name__.startswith("__") and bool(asked))

    found = overrides.get_overridable_functions()
    silent = {home: [f for f in functions if not asks(f)] for home, functions in found.items()}
    assert {home: functions for home, functions in silent.items() if functions} == {}
    assert torch.nn.functional.interpolate in found[torch.nn.functional] and torch.einsum in found[torch]
    assert found[torch.Tensor.shape] == [torch.Tensor.shape.__get__] and torch.Tensor.backward in found[torch.Tensor]
    homes = {home: functions for home, functions in found.items() if isinstance(home, (type, types.ModuleType))}
    assert len(homes) == 7 and {home for home, functions in homes.items() if len(functions) < 20} == set()


def test_what_is_ignored_is_not_overridable():
    ignored = overrides.get_ignored_functions()
    assert {torch.zeros, torch.tensor, torch.no_grad, torch.Tensor.new_ones, torch.fft.fftfreq} <= ignored
    assert not ignored & {f for functions in overrides.get_overridable_functions().values() for f in functions}


def test_answers_for_tests_have_the_signatures_of_what_they_answer_for():
    found = overrides.get_testing_overrides()
    assert set(found) == {f for functions in overrides.get_overridable_functions().values() for f in functions}
    assert found[torch.add](1, 2, alpha=3) == found[torch.max](1) == found[torch.nn.functional.softmax](1, dim=2) == -1
    assert inspect.signature(found[torch.add]) == inspect.signature(torch.add)
    with pytest.raises(TypeError):
        found[torch.add](1)


CALLS = {
    "softmax": lambda x: (x, 1),
    "log_softmax": lambda x: (x, 1),
    "softmin": lambda x: (x, 1),
    "gumbel_softmax": lambda x: (x,),
    "dropout": lambda x: (x,),
    "alpha_dropout": lambda x: (x,),
    "dropout2d": lambda x: (x[None],),
    "rrelu": lambda x: (x,),
    "embedding": lambda x: (torch.zeros(1, dtype=torch.long), x),
    "embedding_bag": lambda x: (torch.zeros(1, 1, dtype=torch.long), x),
    "adaptive_avg_pool2d": lambda x: (x[None], 1),
    "lp_pool1d": lambda x: (x, 2.0, 2),
    "interpolate": lambda x: (x[None], 4),
    "relu": lambda x: (x,),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_handler_is_given_the_function_that_was_called(name):
    """The mode does not see calls that the function itself makes."""
    function, args = getattr(torch.nn.functional, name), CALLS[name](made(Plain))
    calls = []

    class Listening(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            calls.append(func)
            return func(*args, **(kwargs or {}))

    with Listening():
        function(*args)
    assert calls == [function]


def test_a_mode_is_asked_about_functions_that_make_tensors():
    calls = []

    class Listening(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            calls.append((func, types, args, kwargs))
            return func(*args, **(kwargs or {}))

    with Listening():
        made = [torch.tensor([1]), torch.as_tensor(2.0, dtype=torch.float64), torch.asarray([3], copy=True)]
        zeros = torch.zeros(1)
    assert [x.tolist() for x in made] == [[1], 2.0, [3]] and zeros.tolist() == [0]
    assert calls == [
        (torch.tensor, (), ([1],), None),
        (torch.as_tensor, (), (2.0,), {"dtype": torch.float64}),
        (torch.asarray, (), ([3],), {"copy": True}),
        (torch.zeros, (), (1,), None),
    ]


def test_questions():
    x = made(Plain)
    assert overrides.has_torch_function((1, x)) and overrides.has_torch_function_unary(x)
    assert not overrides.has_torch_function_variadic(torch.ones(1), torch.nn.Parameter(torch.ones(1)), [x])
    assert overrides.is_tensor_like(Duck()) and not overrides.is_tensor_like([1])
    assert overrides.is_tensor_method_or_property(torch.Tensor.shape.__get__)
    assert not overrides.is_tensor_method_or_property(torch.add)
    assert overrides.resolve_name(torch.Tensor.__add__) == "torch.Tensor.__add__"
    assert overrides.resolve_name(torch.nn.functional.gelu) == "torch.nn.functional.gelu"
    assert overrides.resolve_name(3) is None
    found = overrides.get_overridable_functions()
    assert torch.Tensor.add in found[torch.Tensor] and torch.Tensor.unique in found[torch.Tensor]
    for home, one in ((torch, torch.add), (torch.nn.functional, torch.nn.functional.relu), (torch.fft, torch.fft.fft)):
        assert one in found[home]
    assert Plain.__torch_function__(torch.add, (Plain, Other), (x, x)) is NotImplemented


def test_a_class_changes_and_travels():
    x = torch.ones(2)
    x.__class__ = Plain
    assert type(x + 1) is Plain
    back = pickle.loads(pickle.dumps(made(Plain)))
    assert type(back) is Plain and back.tolist() == torch.ones(2, 3).tolist()


def test_metadata_travels_through_a_handler():
    """A common example: a unit that every result keeps."""

    class Quantity(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            result = super().__torch_function__(func, types, args, kwargs)
            if isinstance(result, cls):
                unit = next(arg.__dict__.get("unit") for arg in args if isinstance(arg, cls))
                result.__dict__.setdefault("unit", unit)
            return result

    x = torch.tensor([1.0, 2.0]).as_subclass(Quantity)
    x.unit = "m"
    assert (x * 2 + 1).sum().unit == "m"


def test_answers_of_the_wrong_kind():
    class Rubbish(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "rubbish"

    x = torch.ones(1).as_subclass(Rubbish)
    with pytest.raises(TypeError, match="__bool__ should return bool, returned str"):
        bool(x)
    # NumPy calls the override instead of reading the tensor's memory.
    with pytest.raises(ValueError, match="__array_"):
        np.asarray(x)


@pytest.mark.parametrize(
    "call, count, keywords",
    [
        (lambda F, x: torch.nn.functional.relu(x), 1, {"inplace": False}),
        (lambda F, x: torch.nn.functional.relu(x, True), 1, {"inplace": True}),
        (lambda F, x: torch.split(x, 1), 2, {"dim": 0}),
        (lambda F, x: x.split(1, dim=1), 2, {"dim": 1}),
        (lambda F, x: x.norm(), 1, {"p": "fro", "dim": None, "keepdim": False, "dtype": None}),
        (lambda F, x: torch.cdist(x, x), 2, {"p": 2.0, "compute_mode": "use_mm_for_euclid_dist_if_necessary"}),
        (lambda F, x: F.layer_norm(x, (2,)), 2, {"weight": None, "bias": None, "eps": 1e-05}),
        (lambda F, x: F.softmin(x, 0), 1, {"dim": 0, "_stacklevel": 3, "dtype": None}),
        (lambda F, x: F.pad(x, (1, 1)), 2, {"mode": "constant", "value": None}),
        (lambda F, x: F.linear(x, x), 2, {}),
        (lambda F, x: x.sum(0, keepdim=True), 2, {"keepdim": True}),
        (lambda F, x: torch.pca_lowrank(x), 1, {"q": None, "center": True, "niter": 2}),
        (lambda F, x: F.tanhshrink(x), 1, {}),
        (lambda F, x: x.unflatten(0, (2, 1)), 3, {}),
    ],
)
def test_functions_that_torch_writes_in_python_pass_their_defaults(call, count, keywords):
    seen = []

    class Seeing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append((len(args), kwargs or {}))
            return super().__torch_function__(func, types, args, kwargs)

    call(torch.nn.functional, torch.ones(2, 2).as_subclass(Seeing))
    assert seen == [(count, keywords)]


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


def test_unknown_keywords_are_refused_before_anyone_is_asked():
    class Handler:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "handled"

    class Own(Handler, torch.Tensor):
        pass

    for call in (
        lambda x: torch.add(x, 1, bogus=2),
        lambda x: torch.cat([x], bogus=1),
        lambda x: torch.ones(2).add(x, bogus=1),
        lambda x: torch.linalg.eigh(x, bogus=2),
        lambda x: torch.nn.functional.gelu(x, bogus=2),
    ):
        with pytest.raises(TypeError):
            call(Handler())
        with pytest.raises(TypeError, match="got an unexpected keyword argument 'bogus'"):
            call(torch.ones(2, 2).as_subclass(Own))
    assert (
        torch.add(Handler(), other=1, alpha=2)
        == torch.sum(Handler(), axis=1)
        == torch.mm(Handler(), mat2=1)
        == "handled"
    )


@pytest.mark.parametrize("operator", [lambda x: -x, lambda x: +x, lambda x: ~x, abs])
def test_an_operator_of_one_operand_is_not_left_to_another(operator):
    class Refusing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    class Failing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise TypeError("of the handler")

    x = torch.ones(2, dtype=torch.int64)
    with pytest.raises(TypeError, match="^Multiple dispatch failed for 'torch.Tensor."):
        operator(x.as_subclass(Refusing))
    with pytest.raises(TypeError, match="^of the handler$"):
        operator(x.as_subclass(Failing))


class Refusing:
    """No tensor, and takes no call."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


class RefusingTensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: torch.norm(x), "torch.functional.norm"),
        (lambda x: torch.split(x, 1), "torch.functional.split"),
        (lambda x: torch.einsum("i,i", x, x), "torch.functional.einsum"),
        (lambda x: torch.meshgrid(x, x), "torch.functional.meshgrid"),
        (lambda x: torch.lobpcg(x, 1), "torch._lobpcg.lobpcg"),
        (lambda x: torch.nn.functional.relu(x), "torch.nn.functional.relu"),
        (lambda x: torch.nn.functional.interpolate(x, 2), "torch.nn.functional.interpolate"),
        (lambda x: torch.nn.init.uniform_(x), "torch.nn.init.uniform_"),
        (lambda x: torch.nn.functional.softsign(x), "torch.nn.functional.softsign"),
        (lambda x: torch.nn.functional.tanhshrink(x), "torch.nn.functional.tanhshrink"),
        (lambda x: x.norm(), "torch._tensor.norm"),
        (lambda x: x.unflatten(0, (1, 1)), "torch._tensor.unflatten"),
        (lambda x: x.unique(), "torch._tensor.unique"),
        (lambda x: x.backward(), "torch._tensor.backward"),
    ],
)
def test_functions_that_torch_writes_in_python_are_named_by_their_module(call, name):
    with pytest.raises(TypeError) as found:
        call(RefusingTensor())
    wanted = f"no implementation found for '{name}' on types that implement __torch_function__: [{RefusingTensor!r}]"
    assert str(found.value) == wanted


@pytest.mark.parametrize("call", [torch.abs, torch.linalg.norm, torch.nn.functional.gelu])
def test_other_functions_tell_who_refused(call):
    with pytest.raises(TypeError, match="^Multiple dispatch failed for 'torch"):
        call(RefusingTensor())
    with pytest.raises(TypeError, match="^Multiple dispatch failed for 'torch"):
        call(Refusing())


#: The functions of `torch.nn.functional` that torch 2.13 has compiled: those whose type is `types.BuiltinFunctionType`.
COMPILED = """adaptive_avg_pool1d avg_pool1d avg_pool2d avg_pool3d bilinear celu_ channel_shuffle conv1d conv2d conv3d conv_tbc
    conv_transpose1d conv_transpose2d conv_transpose3d cosine_similarity elu_ gelu hardshrink hardtanh_ leaky_relu_ linear
    logsigmoid native_channel_shuffle one_hot pairwise_distance pdist pixel_shuffle pixel_unshuffle prelu relu_ rrelu_
    scaled_dot_product_attention selu_ softplus softshrink threshold_""".split()
#: Its functions and methods in Python, by their modules. Methods are listed that ask for overrides themselves.
IN_PYTHON = {
    "functional": """atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors cartesian_prod cdist chain_matmul einsum lu meshgrid
        norm split stft tensordot unique unique_consecutive unravel_index""",
    "_lobpcg": "lobpcg",
    "_lowrank": "pca_lowrank svd_lowrank",
    "_tensor": """__array__ __array_wrap__ __contains__ __deepcopy__ __dlpack__ __dlpack_device__ __floordiv__ __format__ __len__
        __rdiv__ __reduce_ex__ __repr__ __reversed__ __rfloordiv__ __rlshift__ __rmatmul__ __rmod__ __rpow__ __rrshift__ __rsub__
        __setstate__ backward dim_order index is_shared istft lu module_load norm register_hook
        register_post_accumulate_grad_hook resize resize_as share_memory_ split stft storage storage_type unflatten unique
        unique_consecutive""",
}


def test_the_functions_that_torch_writes_in_python():
    """The engine refuses their calls as CPython does, and overrides get their defaults."""
    functional = {name for name in [*torch._C._functions["nn.functional"], *COMPILED] if not name.startswith("_")}
    homes = {name: torch._C._home_in_python("nn.functional", name, False) for name in functional}
    assert sorted(name for name, home in homes.items() if home is None) == COMPILED
    methods = IN_PYTHON["_tensor"].split()
    assert {torch._C._home_in_python("", name, True) for name in methods} == {"_tensor"}
    shown = [name for name in vars(torch.Tensor) if name not in methods]
    assert {torch._C._home_in_python("", name, True) for name in shown} == {None}
    known = {name: home for home, names in IN_PYTHON.items() if home != "_tensor" for name in names.split()}
    own = {name for name in dir(torch) if not name.startswith("_")}
    found = {name: torch._C._home_in_python("", name, False) for name in own}
    assert {name: home for name, home in found.items() if home is not None} == known
