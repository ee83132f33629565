"""What stands for the function of an operator of a program: classes of tensors, modes, and rules for samples."""

import pytest

import rushlight as torch
from rushlight.library import custom_op
from rushlight.utils._python_dispatch import TorchDispatchMode


def test_modes_see_the_operators_of_programs():
    seen = []

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    torch.library.define("tests::in_mode", "(Tensor x) -> Tensor")
    torch.library.impl("tests::in_mode", "CPU", lambda x: x * 2)
    custom = custom_op("tests::own_in_mode", lambda x: x * 3, mutates_args=(), schema="(Tensor x) -> Tensor")
    x = torch.ones(1)
    with Seen():
        found = torch.ops.tests.in_mode(x) + custom(x)
    assert found.item() == 5
    assert seen == ["tests.in_mode.default", "tests.own_in_mode.default", "aten.add.Tensor"]


def test_rules_for_samples_and_dtypes():
    op = custom_op("tests::ruled", lambda x, n: x * n, mutates_args=(), schema="(Tensor x, int n) -> Tensor")
    seen = []

    @op.register_vmap
    def rule(info, in_dims, x, n):
        seen.append((info.batch_size, in_dims, x.shape))
        return x * n * 10, in_dims[0]

    assert torch.vmap(lambda x: op(x, 2))(torch.ones(3)).tolist() == [20, 20, 20]
    assert seen == [(3, (0, None), (3,))]
    op.register_autocast("cpu", torch.bfloat16)
    with torch.autocast("cpu"):
        assert op(torch.ones(1), 2).dtype is torch.bfloat16
    assert op(torch.ones(1), 2).dtype is torch.float32


class _Wrapper(torch.Tensor):
    """Holds a tensor, and calls operators with it."""

    @staticmethod
    def __new__(cls, inner, requires_grad=False):
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, requires_grad=requires_grad)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return cls(func(*[arg.inner if isinstance(arg, cls) else arg for arg in args], **(kwargs or {})))


class _Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("member", [False, True])
def test_functions_in_place_of_torch_dispatch(member):
    made = custom_op("tests::dispatched", lambda x, n: x * n, mutates_args=(), schema="(Tensor x, int n) -> Tensor")
    op = torch.ops.tests.dispatched.default if member else made
    seen = []

    def handler(mode, func, types, args, kwargs):
        seen.append((mode, func, types, args[1:], kwargs))
        return torch.full((1,), 9.0)

    class Derived(_Mode):
        pass

    plain, mode = torch.ones(1), _Mode()
    assert torch.library.register_torch_dispatch(made, _Mode, handler) is handler
    made.register_torch_dispatch(_Wrapper, handler)
    with mode:
        assert op(plain, 4).item() == 9
    with Derived():
        assert op(plain, 4).item() == 4
    assert op(_Wrapper(plain), 5).item() == 9
    assert op(plain, 4).item() == 4
    overload = torch.ops.tests.dispatched.default
    assert seen == [(mode, overload, (), (4,), {}), (_Wrapper, overload, (_Wrapper,), (5,), {})]
    made.register_torch_dispatch(_Mode, lambda *_: 5)
    with _Mode(), pytest.raises(RuntimeError, match="Unable to cast 5 to Tensor"):
        op(plain, 4)


@pytest.mark.parametrize("member", [False, True])
def test_classes_handle_operators_below_autograd(member):
    made = custom_op("tests::below", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    made.register_autograd(lambda ctx, gradient: gradient * 5)
    made.register_autocast("cpu", torch.bfloat16)
    op = torch.ops.tests.below.default if member else made
    x = _Wrapper(torch.ones(2), requires_grad=True)
    y = op(x)
    assert isinstance(y, _Wrapper) and y.inner.tolist() == [2, 2]
    y.sum().backward()
    assert x.grad.inner.tolist() == [5, 5]
    with torch.autocast("cpu"):
        assert op(_Wrapper(torch.ones(2))).dtype is torch.bfloat16


@pytest.mark.parametrize(
    ("result", "error", "message"),
    [
        (lambda x: x, RuntimeError, "Expected the vmap staticmethod to have two returns"),
        (lambda x: (x, 7), IndexError, r"expected to be in range of \[-1, 0\], but got 7"),
        (lambda x: (x, (0, 0)), ValueError, "out_dims has structure"),
    ],
)
def test_rules_must_return_a_result_and_its_dimension(result, error, message):
    op = custom_op("tests::misruled", lambda x: x * 1, mutates_args=(), schema="(Tensor x) -> Tensor")
    op.register_vmap(lambda info, in_dims, x: result(x))
    with pytest.raises(error, match=message):
        torch.vmap(op)(torch.ones(2))

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def vmap(info, in_dims, x):
            return result(x)

    with pytest.raises(error, match=message):
        torch.vmap(Doubled.apply)(torch.ones(2))


def test_torch_function_sees_the_operators_of_programs():
    seen = []

    class Seen(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    class Named(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return super().__torch_function__(func, types, args, kwargs or {})

    custom = custom_op("tests::seen", lambda x: x * 3, mutates_args=(), schema="(Tensor x) -> Tensor")
    calls = [torch.ops.tests.seen, torch.ops.tests.seen.default, custom]
    x = torch.ones(1)
    with Seen():
        found = [call(x) for call in calls]
    assert [one.item() for one in found] == [3, 3, 3]
    named = x.as_subclass(Named)
    found = [call(named) for call in calls]
    assert seen[:3] == ["tests.seen", "tests.seen.default", "tests.seen.default"]
    assert [name for name in seen[3:] if "seen" in name] == seen[:3]
    assert all(type(result) is Named and result.tolist() == [3] for result in found)
    several = custom_op("tests::seen_in_lists", lambda xs: xs[0] * 1, mutates_args=(), schema="(Tensor[] xs) -> Tensor")
    assert type(several([x, named])) is Named and "tests.seen_in_lists.default" in seen


def test_schemas_of_operators():
    schema = torch.ops.aten.add.Tensor._schema
    assert str(schema) == "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    assert torch.ops.aten.relu_.default._schema.is_mutable and not schema.is_mutable
    for absent in (
        lambda: torch.ops.aten.add.absent,
        lambda: torch.ops.aten.sin.Tensor,
        lambda: torch.ops.aten.add.name,
    ):
        with pytest.raises(AttributeError, match="^The underlying op of 'aten.(add|sin)' has no overload name '"):
            absent()
    assert set(torch.ops.aten.add.overloads()) > {"Scalar", "Scalar_out", "Tensor", "out"}


@pytest.mark.parametrize("key", ["CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd", "Autograd"])
def test_functions_do_not_get_values_that_are_the_default(key):
    seen = []
    with torch.library._scoped_library("tests_shortened", "DEF") as library:
        library.define('f(Tensor x, int[2] y=1, str s="a", *, Scalar k=3, bool b=True) -> Tensor')
        library.impl("f", lambda x, *args, **kwargs: (seen.append((args, kwargs)), x * 2)[1], key)
        op, x = torch.ops.tests_shortened.f, torch.ones(1)
        for args, kwargs in (
            ((), {}),
            ((1,), {"k": 3, "b": True}),
            (((1, 1), "a"), {"b": False}),
            ((), {"s": "b"}),
            ((5,), {"k": 3.0}),
        ):
            op(x, *args, **kwargs)
    assert seen == [
        ((), {}),
        ((), {}),
        ((), {"b": False}),
        (([1, 1], "b"), {}),
        (([5, 5],), {"k": 3.0}),
    ]
    assert type(seen[-1][1]["k"]) is float


def test_setup_context_gets_all_values():
    seen = []
    schema = "(Tensor x, int n=2, *, float b=1.0) -> Tensor"
    op = custom_op("tests::set_up", lambda x, *args, **kwargs: x * 2, mutates_args=(), schema=schema)
    op.register_autograd(
        lambda ctx, gradient: (gradient, None),
        setup_context=lambda ctx, inputs, output, keyword_only_inputs: seen.append((inputs[1:], keyword_only_inputs)),
    )
    op.register_vmap(lambda info, in_dims, *args: (seen.append((in_dims, args[1:])), (args[0], 0))[1])
    op(torch.ones(1, requires_grad=True)).backward()
    torch.vmap(op)(torch.ones(2))
    assert seen == [((2,), {"b": 1.0}), ((0,), ())]


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("recorded", [False, True])
def test_a_list_of_tensors_is_returned_as_a_list(kind, recorded):
    name = f"tests::listed_{kind.__name__}_{recorded}"
    schema = "(Tensor x) -> Tensor[]"
    op = custom_op(name, lambda x: kind([x * 1, x * 2]), mutates_args=(), schema=schema)
    op.register_autograd(lambda ctx, gradients: gradients[0] + gradients[1] * 2)
    x = torch.ones(1, requires_grad=recorded)
    found = op(x)
    assert type(found) is list and [one.item() for one in found] == [1, 2]
    if recorded:
        sum(found).backward()
        assert x.grad.item() == 3
