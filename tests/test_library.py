"""Operators of programs (`torch.library.custom_op`) and `torch.ops`."""

import gc
import pickle
import re

import pytest

import rushlight as torch
from rushlight import Tensor
from rushlight.library import Library, custom_op, infer_schema, opcheck

calls = []


@custom_op("tests::scale", mutates_args=())
def scale(x: Tensor, factor: float = 2.0) -> Tensor:
    calls.append(torch.is_grad_enabled())
    return x * factor


def test_an_operator_is_called_like_its_function():
    calls.clear()
    x = torch.ones(2)
    assert scale(x).tolist() == [2, 2] and scale(x, factor=3.0).tolist() == [3, 3]
    assert torch.ops.tests.scale(x, 4.0).tolist() == torch.ops.tests.scale.default(x, factor=4.0).tolist() == [4, 4]
    assert calls == [False] * 4, "the function is not recorded"
    assert repr(scale) == "<CustomOpDef(tests::scale)>" and str(scale._opoverload) == "tests.scale.default"


def test_derivatives_are_registered():
    op = custom_op("tests::power", lambda x, n=2: x**n, mutates_args=(), schema="(Tensor x, int n=2) -> Tensor")
    x = torch.tensor([3.0], requires_grad=True)
    y = op(x)
    assert y.requires_grad and type(y.grad_fn).__name__.startswith("GeneratedBackwardFor_tests_power_default")
    with pytest.raises(
        RuntimeError, match="Trying to backward through tests.power.default but no autograd formula was"
    ):
        y.backward()

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.n = inputs[1]

    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * ctx.n * x ** (ctx.n - 1), None

    torch.library.register_autograd("tests::power", backward, setup_context=setup_context)
    op(x, n=3).backward()
    assert x.grad.tolist() == [27]
    with torch.no_grad():
        assert not op(x).requires_grad


def test_derivatives_of_lists():
    def sums(x: Tensor, rest: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        return x * 1, [x + one for one in rest]

    op = custom_op("tests::sums", sums, mutates_args=())
    op.register_autograd(lambda ctx, one, more: (one + more[0] + more[1], [more[0], None]))
    x, y = (torch.ones(1, requires_grad=True) for _ in range(2))
    first, (second, third) = op(x, [y, y])
    (first + 2 * second + 3 * third).backward()
    assert (x.grad.item(), y.grad.item()) == (6, 2)


def test_tensors_without_data_need_a_function_of_their_own():
    op = custom_op("tests::hidden", lambda x: x + 1, mutates_args=(), schema="(Tensor x) -> Tensor")
    x = torch.ones(2, device="meta")
    with pytest.raises(RuntimeError, match=r"There was no fake impl registered for <CustomOpDef\(tests::hidden\)>"):
        op(x)
    torch.library.register_fake("tests::hidden", torch.empty_like)
    assert op(x).shape == (2,) and op(torch.ones(1)).item() == 2
    torch.library.register_kernel(op, "cpu", lambda x: x + 10)
    assert op(torch.ones(1)).item() == 11


def test_operators_that_change_arguments():
    def add_(x: Tensor, y: Tensor) -> None:
        x.add_(y)

    op = custom_op("tests::add_", add_, mutates_args={"x"})
    x = torch.zeros(1)
    assert op(x, torch.ones(1)) is None and x.item() == 1
    with pytest.raises(RuntimeError, match="Cannot register autograd formula for non-functional operator"):
        op.register_autograd(lambda ctx, gradient: gradient)


@pytest.mark.parametrize("function", [lambda x: x, lambda x: x.view(-1), lambda x: (y := x + 1, y)])
def test_results_share_no_memory(function):
    op = custom_op("tests::alias", function, mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="must not also be an input to this custom operator"):
        op(torch.ones(2))


def test_what_is_wrong_with_a_definition():
    with pytest.raises(ValueError, match="Parameter x must have a type annotation"):
        custom_op("tests::bare", lambda x: x, mutates_args=())
    with pytest.raises(ValueError, match="'namespace::name', got bare"):
        custom_op("bare", lambda x: x, mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="operator tests::none does not exist"):
        torch.library.register_fake("tests::none", torch.empty_like)


def test_operators_by_the_names_of_the_registry():
    aten, x = torch.ops.aten, torch.arange(6.0).reshape(2, 3)
    assert torch.equal(aten.add.Tensor(x, x), x * 2) and torch.equal(aten.relu(-x), torch.zeros(2, 3))
    assert torch.equal(aten.slice.Tensor(x, 1, 1, 3), x[:, 1:3]) and torch.equal(aten.alias(x), x)
    assert torch.equal(aten.index.Tensor(x, [None, torch.tensor([0])]), x[:, [0]])
    copy = aten._to_copy(x, dtype=torch.float64)
    assert copy.dtype == torch.float64 and aten._to_copy(x).data_ptr() != x.data_ptr()
    assert aten.add.Tensor is aten.add.Tensor and aten.add.Tensor.overloadpacket is aten.add
    assert (str(aten.add), str(aten.add.Tensor), aten.add.Tensor.name()) == (
        "aten.add",
        "aten.add.Tensor",
        "aten::add.Tensor",
    )
    for namespace, name in ((aten, "no_such_operator"), (torch.ops.other, "nms")):
        with pytest.raises(
            AttributeError, match=f"'_OpNamespace' '{namespace._name}' object has no attribute '{name}'"
        ):
            getattr(namespace, name)
    with pytest.raises(NotImplementedError, match="sparse CSR"):
        aten._sparse_mm_reduce_impl(x, x, "sum")
    with pytest.raises(OSError, match="Could not load this library: ops.so"):
        torch.ops.load_library("ops.so")


@pytest.fixture
def library():
    made = Library("tests_registry", "DEF")
    yield made
    made._destroy()


def test_operators_are_defined_by_schemas(library):
    ops = torch.ops.tests_registry
    assert library.define("twice(Tensor x) -> Tensor") == "twice" and str(ops.twice) == "tests_registry.twice"
    with pytest.raises(
        NotImplementedError, match="Could not run 'tests_registry::twice' with arguments from the 'CPU'"
    ):
        ops.twice(torch.ones(2))
    library.impl("twice", lambda x: x * 2, "CPU")
    assert ops.twice(torch.ones(2)).tolist() == ops.twice.default(torch.ones(2)).tolist() == [2, 2]
    with pytest.raises(NotImplementedError, match="no fake impl or Meta kernel registered"):
        ops.twice(torch.ones(2, device="meta"))
    torch.library.register_fake("tests_registry::twice", torch.empty_like)
    assert ops.twice(torch.ones(2, device="meta")).shape == (2,)
    assert str(ops.twice.default._schema) == "tests_registry::twice(Tensor x) -> Tensor"
    library._destroy()
    with pytest.raises(AttributeError, match="'_OpNamespace' 'tests_registry' object has no attribute 'twice'"):
        ops.twice


def test_arguments_are_checked_by_the_schema(library):
    schema = (
        "sc(Tensor x, float a, int b=3, *, bool c=True, Tensor?[] d=[], int[2] e=1, str? f=None) -> (Tensor, Tensor)"
    )
    library.define(schema)
    seen = []

    def function(x, a, b=3, **rest):
        seen.append((type(a), b, rest))
        return x.clone(), x.clone()

    library.impl("sc", function, "CompositeExplicitAutograd")
    op, x = torch.ops.tests_registry.sc, torch.ones(1)
    op(x, 2)
    op(x, 2.0, c=False, d=[None, x], e=[1, 2], f="a")
    assert seen[0] == (float, 3, {})
    assert seen[1][2]["e"] == [1, 2]
    declaration = "Declaration: tests_registry::" + schema
    for args, kwargs, message in (
        (
            (x, "a"),
            {},
            "tests_registry::sc() Expected a value of type 'float' for argument 'a' but instead found type 'str'.",
        ),
        (
            (3, 2),
            {},
            "tests_registry::sc() Expected a value of type 'Tensor' for argument 'x' but instead found type 'int'.",
        ),
        ((x,), {}, f"tests_registry::sc() is missing value for argument 'a'. {declaration}"),
        ((x, 2, 3, 4), {}, f"tests_registry::sc() takes 3 positional argument(s) but 4 was/were given.  {declaration}"),
        (
            (x,) * 8,
            {},
            f"tests_registry::sc() expected at most 7 argument(s) but received 8 argument(s). {declaration}",
        ),
        (
            (x, 2),
            {"q": 1},
            f"Unknown keyword argument 'q' for operator 'tests_registry::sc'. Schema: tests_registry::{schema}",
        ),
    ):
        with pytest.raises(RuntimeError) as caught:
            op(*args, **kwargs)
        assert str(caught.value).startswith(message)


def test_overloads_are_chosen_by_their_arguments(library):
    library.define("add.Tensor(Tensor x, Tensor y) -> Tensor")
    library.define("add.Scalar(Tensor x, Scalar y) -> Tensor")
    library.impl("add.Tensor", lambda x, y: x + 1, "CPU")
    library.impl("add.Scalar", lambda x, y: x + 2, "CPU")
    add, x = torch.ops.tests_registry.add, torch.ones(1)
    assert (add(x, x).item(), add(x, 2).item(), add.Scalar(x, 2).item()) == (2, 3, 3)
    assert add.overloads() == ["Tensor", "Scalar"] and add.Tensor.name() == "tests_registry::add.Tensor"
    with pytest.raises(RuntimeError, match="same name and overload name multiple times"):
        library.define("add.Tensor(Tensor x) -> Tensor")


def test_functions_above_recording(library):
    library.define("f(Tensor x) -> Tensor")
    library.impl("f", lambda x: x * 3, "CompositeImplicitAutograd")
    x = torch.ones(1, requires_grad=True)
    torch.ops.tests_registry.f(x).backward()
    assert x.grad.item() == 3
    library.impl("f", lambda x: x * 5, "Autograd")
    assert torch.ops.tests_registry.f(torch.ones(1)).item() == 5
    library.impl("f", torch.library.fallthrough_kernel, "Autograd")
    assert torch.ops.tests_registry.f(torch.ones(1)).item() == 3


def test_derivatives_of_defined_operators(library):
    library.define("g(Tensor x) -> Tensor")
    library.impl("g", lambda x: x + 1, "CPU")
    x = torch.ones(2, requires_grad=True)
    op = torch.ops.tests_registry.g
    assert type(op(x).grad_fn).__name__ == "AddBackward0", "its own operators are recorded"
    torch.library.register_autograd("tests_registry::g", lambda ctx, gradient: gradient * 7, lib=library)
    op(x).sum().backward()
    assert x.grad.tolist() == [7, 7]


def test_what_a_library_refuses(library):
    for arguments, error, sentence in (
        (("tests_registry", "DEF"), RuntimeError, "Only a single TORCH_LIBRARY can be used to register the namespace"),
        (("tests_registry", "OTHER"), ValueError, "Unsupported kind: OTHER"),
        (("prim", "DEF"), ValueError, "prim is a reserved namespace"),
    ):
        with pytest.raises(error, match=sentence):
            Library(*arguments)
    for text in ("bad", "bad(Tensor) -> Tensor", "bad(Tensor x)"):
        with pytest.raises(RuntimeError):
            library.define(text)
    with pytest.raises(NotImplementedError, match="cannot replace aten::add"):
        Library("aten", "IMPL").impl("add", lambda x: x, "CPU")
    with pytest.raises(ValueError, match='to be of the form "namespace::name", but got noname'):
        torch.library.define("noname", "(Tensor x) -> Tensor")
    with pytest.raises(TypeError, match="required to be a callable"):
        library.impl("f", 3)


def _many(
    x: Tensor, y: Tensor | None, n: int, s: list[int], f: float = 1.5, b: bool = True, *, k: int | None = None,
    t: torch.dtype = torch.float32, text: str = "a", many: list[Tensor] | None = None,
) -> tuple[Tensor, int]: ...  # fmt: skip


def test_schemas_are_inferred_from_annotations():
    expected = (
        "(Tensor(a0!) x, Tensor? y, SymInt n, SymInt[] s, float f=1.5, bool b=True, *, SymInt? k=None, ScalarType t=float32, "
        'str text="a", Tensor[]? many=None) -> (Tensor, SymInt)'
    )
    assert infer_schema(_many, mutates_args={"x"}) == expected
    assert infer_schema(_many, mutates_args={"x"}, op_name="ns::many").startswith("ns::many(Tensor(a0!) x")

    def nothing(x: Tensor, z: int | float | bool) -> None: ...

    assert infer_schema(nothing, mutates_args="unknown") == "(Tensor(a0!) x, Scalar z) -> ()"

    def wrong(x: dict) -> Tensor: ...

    def variadic(*x: Tensor) -> Tensor: ...

    def open_end(x: Tensor): ...

    def odd(x: Tensor) -> dict: ...

    for function, sentence in (
        (wrong, "Parameter x has unsupported type"),
        (variadic, "We do not support positional-only args, varargs, or varkwargs."),
        (open_end, "No return type annotation was provided."),
        (odd, "Return has unsupported type"),
    ):
        with pytest.raises(ValueError, match=sentence):
            infer_schema(function, mutates_args=())
    with pytest.raises(ValueError, match="{'q'} in mutates_args were not found"):
        infer_schema(nothing, mutates_args={"q"})


def test_gradients_of_a_list_are_as_many_as_its_tensors():
    op = custom_op("tests::summed", lambda xs: sum(xs) * 1, mutates_args=(), schema="(Tensor[] xs) -> Tensor")
    x = torch.ones(2, requires_grad=True)
    op.register_autograd(lambda ctx, gradient: [gradient])
    with pytest.raises(
        RuntimeError, match="Expected the return from backward to be of the same structure as the inputs"
    ):
        op([x, x]).sum().backward()
    op.register_autograd(lambda ctx, gradient: [gradient, None])
    op([x, x]).sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_members_of_torch_ops_are_pickled_by_name():
    op = custom_op("tests::sent", lambda x: x * 1, mutates_args=(), schema="(Tensor x) -> Tensor")
    for member in (torch.ops.tests.sent, op._opoverload, torch.ops.aten.sin, torch.ops.aten.add.Tensor):
        assert pickle.loads(pickle.dumps(member)) is member
    with pytest.raises(AttributeError, match="The underlying op of 'tests.sent' has no overload name 'other'"):
        torch.ops.tests.sent.other


def test_schemas_that_are_cut_or_change_numbers_are_refused():
    library = Library("tests_cut", "FRAGMENT")
    for text in ("f(Tensor x", "f() -> (Tensor"):
        with pytest.raises(RuntimeError, match=r"^expected \) but found 'eof' here:"):
            library.define(text)
    assert library.define('f(str s="(") -> Tensor') == "f"

    def scaled(x: torch.Tensor, n: int) -> torch.Tensor: ...

    with pytest.raises(ValueError, match="Parameter n is in mutable_args but only Tensors"):
        infer_schema(scaled, mutates_args=("n",))


def test_functions_can_be_taken_out_of_use():
    op = custom_op("tests::replaced", lambda x: x + 1, mutates_args=(), schema="(Tensor x) -> Tensor")
    op.register_kernel("cpu", lambda x: x + 2)
    with op.set_kernel_enabled("cpu", False):
        assert op(torch.zeros(1)).item() == 1
    assert op(torch.zeros(1)).item() == 2


def test_checks_of_operators():
    op = custom_op("tests::checked", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(Exception, match="test_faketensor failed with There was no fake impl registered") as caught:
        opcheck(op, (x,), test_utils="test_faketensor")
    assert type(caught.value).__name__ == "OpCheckError"
    op.register_autograd(lambda ctx, gradient: gradient * 2)
    op.register_fake(lambda x: torch.empty(3, device="meta"))
    assert "has the shape" in opcheck(op, (x,), raise_exception=False)["test_faketensor"]
    op.register_fake(lambda x: torch.empty_like(x, dtype=torch.float64))
    assert "has the dtype" in opcheck(op, (x,), raise_exception=False)["test_faketensor"]
    op.register_fake(torch.empty_like)
    assert set(opcheck(op, (x,)).values()) == {"SUCCESS"} and x.grad is None
    writes = custom_op("tests::writes", lambda x: x.add_(1).clone(), mutates_args=(), schema="(Tensor x) -> Tensor")
    outcome = opcheck(writes, (torch.ones(1),), test_utils="test_schema", raise_exception=False)
    assert outcome == {"test_schema": "Argument x is not defined as mutable but was mutated"}


def test_an_operator_of_a_block():
    with torch.library._scoped_library("tests_scoped", "DEF") as library:
        library.define("q(Tensor x) -> Tensor")
        library.impl("q", lambda x: x + 1, "CPU")
        assert torch.ops.tests_scoped.q(torch.zeros(1)).item() == 1
    assert not hasattr(torch.ops.tests_scoped, "q")


def test_operators_live_as_long_as_their_library():
    library = torch.library.Library("short_lived", "DEF")
    library.define("f(Tensor x) -> Tensor")
    library.impl("f", lambda x: x * 2, "CPU")
    assert torch.ops.short_lived.f(torch.ones(1)).item() == 2
    del library
    gc.collect()
    with pytest.raises(AttributeError, match="'_OpNamespace' 'short_lived' object has no attribute 'f'"):
        torch.ops.short_lived.f(torch.ones(1))
    again = torch.library.Library("short_lived", "DEF")
    assert again.define("f(Tensor x) -> Tensor") == "f"


def test_functions_may_be_registered_before_their_operator():
    library = torch.library.Library("tests_later", "FRAGMENT")
    torch.library.impl("tests_later::first", "CPU", lambda x: x + 1)
    library.impl("second", lambda x: x + 2, "CompositeExplicitAutograd")
    library.define("first(Tensor x) -> Tensor")
    library.define("second(Tensor x) -> Tensor")
    assert (
        torch.ops.tests_later.first(torch.ones(1)).item() == 2
        and torch.ops.tests_later.second(torch.ones(1)).item() == 3
    )


def test_values_are_converted_for_their_types():
    library = torch.library.Library("tests_converted", "DEF")
    library.define("f(int a, float b, bool c, int[2] d, float[2]? e, int[] f) -> Tensor")
    seen = []
    library.impl("f", lambda *args: seen.append(args) or torch.ones(1), "CompositeExplicitAutograd")
    torch.ops.tests_converted.f(torch.tensor(2), torch.tensor([3]), torch.tensor(True), 4, 1.5, [torch.tensor(5), 6])
    assert repr(seen) == "[(2, 3.0, True, [4, 4], [1.5, 1.5], [5, 6])]"
    torch.ops.tests_converted.f(torch.tensor(2.5), True, 2, 4, None, [True])
    torch.ops.tests_converted.f(True, 3, torch.tensor(0.0), 4, None, [])
    assert repr(seen[1:]) == "[(2, 1.0, True, [4, 4], None, [1]), (1, 3.0, False, [4, 4], None, [])]"
    for a in (torch.tensor(float("inf")), torch.tensor(1j), torch.ones(2, dtype=torch.int64), 2**63, 2.0):
        with pytest.raises(RuntimeError, match="Expected a value of type 'int' for argument 'a'"):
            torch.ops.tests_converted.f(a, 1.0, True, 4, None, [])


def test_unknown_dispatch_keys_are_refused():
    library = torch.library.Library("keyed", "DEF")
    library.define("f(Tensor x) -> Tensor")
    for key in ("Nonsense", "cpu"):
        with pytest.raises(RuntimeError, match=f"^could not parse dispatch key: {key}$"):
            library.impl("f", lambda x: x, key)
        with pytest.raises(RuntimeError, match=f"^could not parse dispatch key: {key}$"):
            torch.library.Library("keyed", "IMPL", key)
    library.impl("f", lambda x: x, "CPU")
    library.impl("f", lambda x: x.bfloat16(), "AutocastCPU")
    assert torch.ops.keyed.f(torch.ones(1)).dtype is torch.float32
    with torch.autocast("cpu"):
        assert torch.ops.keyed.f(torch.ones(1)).dtype is torch.bfloat16
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)):
            assert torch.ops.keyed.f(torch.ones(1)).dtype is torch.float32
    with pytest.raises(NotImplementedError, match="cannot skip the steps of Python"):
        torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.Python))
    for key in ("Functionalize", "SparseCsrMeta", "Tracer"):
        with pytest.raises(NotImplementedError, match=f"the dispatch key {key} would never run"):
            library.impl("f", lambda x: x, key)
    library.impl("f", torch.library.fallthrough_kernel, "Functionalize")


@pytest.mark.parametrize(
    "returns, result, error, message",
    [
        ("Tensor", 3, RuntimeError, "Unable to cast 3 to Tensor"),
        ("Tensor?", 3, RuntimeError, "Unable to cast 3 to Tensor"),
        ("(Tensor, Tensor)", torch.ones(1), TypeError, "Object of type 'Tensor' is not an instance of 'sequence'"),
        ("(Tensor, Tensor)", (torch.ones(1), 1), RuntimeError, "Unable to cast 1 to Tensor"),
        (
            "(Tensor, Tensor)",
            (torch.ones(1),) * 3,
            RuntimeError,
            "has 2 results by its schema, but its function returned 3",
        ),
        ("()", 3, RuntimeError, "to return None but it returned something else instead."),
        ("Tensor[]", torch.ones(1), RuntimeError, "Unable to cast Python instance of type"),
        ("Tensor[]", [1], RuntimeError, "Unable to cast Python instance of type <class 'list'>"),
        ("Scalar", "a", RuntimeError, "Cannot cast a to number"),
        ("complex", "1", RuntimeError, "Unable to cast Python instance of type <class 'str'>"),
        ("complex", torch.ones(2), RuntimeError, "Unable to cast Python instance of type <class"),
        ("ScalarType", "float32", RuntimeError, "Unable to cast Python instance of type <class 'str'>"),
        ("str", 1, RuntimeError, "Unable to cast Python instance of type <class 'int'>"),
    ],
)
def test_results_are_checked_by_the_schema(library, returns, result, error, message):
    library.define(f"f(Tensor x) -> {returns}")
    library.impl("f", lambda x: result, "CPU")
    with pytest.raises(error, match=re.escape(message)):
        torch.ops.tests_registry.f(torch.ones(1))


@pytest.mark.parametrize(
    "returns, result, expected",
    [
        ("int", torch.tensor(2), 2),
        ("float", 1, 1.0),
        ("bool", 1, True),
        ("Tensor", None, None),
        ("()", None, None),
        ("complex", 2, 2 + 0j),
        ("complex", torch.tensor(1.5), 1.5 + 0j),
        ("ScalarType", torch.int8, torch.int8),
    ],
)
def test_results_are_converted_by_the_schema(library, returns, result, expected):
    library.define(f"f(Tensor x) -> {returns}")
    library.impl("f", lambda x: result, "CPU")
    made = torch.ops.tests_registry.f(torch.ones(1))
    assert made == expected and type(made) is type(expected)


@pytest.mark.parametrize("schema", ["f(Foo x) -> Tensor", "f(Tensor x) -> Foo", "f(List[int] x) -> Tensor"])
def test_unknown_types_of_a_schema_are_refused(library, schema):
    with pytest.raises(RuntimeError, match="^\nunknown type specifier. Common valid schema types include Tensor"):
        library.define(schema)


@pytest.mark.parametrize(
    "gradients, message",
    [
        (lambda g: (g,), r"returned an incorrect number of gradients \(expected 3, got 2\)"),
        (
            lambda g: (g, g, g),
            "returned a gradient different than None at position 3, but the corresponding forward input",
        ),
        (lambda g: (g, g, None, g), r"returned an incorrect number of gradients \(expected 3, got 5\)"),
        (lambda g: ([g], g), r"expected Variable or None \(got list\)"),
    ],
)
def test_gradients_are_as_many_as_arguments(gradients, message):
    op = custom_op("tests::counted", lambda x, y: x * y, mutates_args=(), schema="(Tensor x, Tensor y) -> Tensor")
    op.register_autograd(lambda ctx, g: gradients(g))
    with pytest.raises(RuntimeError, match=message):
        op(torch.ones(1, requires_grad=True), torch.ones(1)).backward()


def test_surplus_gradients_may_be_none():
    op = custom_op("tests::surplus", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    op.register_autograd(lambda ctx, g: (g * 2, None, None))
    x = torch.ones(1, requires_grad=True)
    op(x).backward()
    assert x.grad.item() == 2


def test_kernels_are_registered_by_keys_and_by_devices(library):
    for kind in ("CPU", "cpu", "default", "CompositeImplicitAutograd"):
        for register in (torch.library.register_kernel, torch.library.impl):
            library.define(f"{kind}_{register.__name__}(Tensor x) -> Tensor")
            register(f"tests_registry::{kind}_{register.__name__}", kind, lambda x: x * 2)
            assert getattr(torch.ops.tests_registry, f"{kind}_{register.__name__}")(torch.ones(1)).item() == 2
    library.define("f(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="^Expected one of cpu, cuda"):
        torch.library.register_kernel("tests_registry::f", "Nonsense", lambda x: x)
    with pytest.raises(NotImplementedError, match="the dispatch key Functionalize would never run"):
        torch.library.register_kernel("tests_registry::f", "Functionalize", lambda x: x)


def test_a_schema_names_the_namespace_of_its_library(library):
    with pytest.raises(RuntimeError, match=r"^Explicitly provided namespace \(other\) in schema string does not match"):
        library.define("other::f(Tensor x) -> Tensor")
    assert library.define("tests_registry::f(Tensor x) -> Tensor") == "f"


def test_an_operator_without_a_rule_is_called_for_each_sample():
    seen = []

    @custom_op("tests::each_sample", mutates_args=())
    def scaled(x: torch.Tensor, y: torch.Tensor, by: float) -> tuple[torch.Tensor, torch.Tensor]:
        seen.append(tuple(x.shape))
        return x * by + y, x.sum()

    x, y = torch.arange(6.0).reshape(2, 3), torch.ones(3)
    outer, total = torch.vmap(lambda a: scaled(a, y, 2.0))(x)
    assert outer.tolist() == [[1, 3, 5], [7, 9, 11]] and total.tolist() == [3, 12] and seen == [(3,), (3,)]
    by_columns = torch.vmap(lambda a: scaled(a, y[:2], 2.0)[1], in_dims=1)(x)
    assert by_columns.tolist() == [3, 5, 7]
    nested = torch.vmap(torch.vmap(lambda a, b: scaled(a, b, 3.0)[0], in_dims=(0, None)), in_dims=(0, 0))
    assert torch.equal(nested(x[:, :, None], x[:, :1]), x[:, :, None] * 3 + x[:, None, :1])


def test_opcheck_takes_operators_and_known_checks():
    with pytest.raises(ValueError, match="op must be instance of torch._ops.OpOverload"):
        opcheck(torch.sin, (torch.ones(1),))
    with pytest.raises(RuntimeError, match="opcheck can only test operators without overloads. Got the following"):
        library = Library("tests_overloads", "DEF")
        library.define("f(Tensor x) -> Tensor")
        library.define("f.more(Tensor x, int by) -> Tensor")
        opcheck(torch.ops.tests_overloads.f, (torch.ones(1),))
    op = custom_op("tests::checked", lambda x: x + 1, mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(ValueError, match=r"test_utils=\('nope',\)\), expected test_utils to be subset of"):
        opcheck(op, (torch.ones(1),), test_utils="nope")
    assert opcheck(torch.ops.tests.checked.default, (torch.ones(1),), test_utils="test_schema") == {
        "test_schema": "SUCCESS"
    }


def test_dictionaries_in_schemas():
    torch.library.define("tests::of_dict", "(Dict(str, Tensor) x) -> Dict(str, Tensor)")
    torch.library.impl("tests::of_dict", "CPU", lambda x: x)
    torch.library.impl("tests::of_dict", "CompositeImplicitAutograd", lambda x: {"twice": x["a"] * 2})
    assert torch.ops.tests.of_dict({"a": torch.ones(1)})["twice"].tolist() == [2]
    with pytest.raises(RuntimeError, match=r"Expected a value of type 'Dict\[str, Tensor\]' for argument 'x'"):
        torch.ops.tests.of_dict(5)


def test_a_fallback_carries_out_what_has_no_function():
    library = torch.library.Library("_", "IMPL")
    torch.library.define("tests::unknown_here", "(Tensor x) -> Tensor")
    torch.library.define("tests::known_here", "(Tensor x) -> Tensor")
    torch.library.impl("tests::known_here", "CPU", lambda x: x * 3)
    names = []
    library.fallback(lambda op, x: names.append(str(op)) or x * 2, "CPU")
    assert torch.ops.tests.unknown_here(torch.ones(1)).item() == 2 and names == ["tests.unknown_here.default"]
    assert torch.ops.tests.known_here(torch.ones(1)).item() == 3
    with pytest.raises(
        RuntimeError, match="^Tried to register multiple backend fallbacks for the same dispatch key CPU"
    ):
        library.fallback(lambda op, x: x, "CPU")
    with pytest.raises(AssertionError, match="^dispatch_key must not be empty for fallback"):
        library.fallback(lambda op, x: x)
    library._destroy()
    with pytest.raises(NotImplementedError, match="^Could not run 'tests::unknown_here'"):
        torch.ops.tests.unknown_here(torch.ones(1))
    with pytest.raises(
        RuntimeError, match="^Fallback can only be registered using library fragment on the global namespace"
    ):
        torch.library.Library("tests_own", "IMPL").fallback(lambda op, x: x, "CPU")


def test_a_rule_for_what_is_no_operator():
    with pytest.raises(AttributeError, match="^'_OpNamespace' 'tests' object has no attribute 'absent'"):
        torch.library.register_vmap("tests::absent", lambda info, dims, x: (x, 0))
    with pytest.raises(ValueError, match=r"^register_vmap\(5\): got unexpected type for op: <class 'int'>"):
        torch.library.register_vmap(5, lambda info, dims, x: (x, 0))
    with pytest.raises(ValueError, match='expected schema to look like e.g. "\\(Tensor x\\) -> Tensor" but got'):
        torch.library.define("tests::bad", "Tensor x -> Tensor")
