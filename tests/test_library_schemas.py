"""Operators of programs are held to their schemas, and schemas have torch's text and objects."""

import pytest

import rushlight as torch


@pytest.mark.parametrize(
    "changed, schema",
    [
        (["x"], "(Tensor x) -> Tensor"),
        ((), "(Tensor(a!) x) -> Tensor"),
        (["x", "y"], "(Tensor(a!) x, Tensor y) -> Tensor"),
        ("unknown", "(Tensor(a!) x) -> Tensor"),
        (["nothing"], "(Tensor x) -> Tensor"),
    ],
)
def test_a_schema_changes_what_custom_op_is_told(changed, schema):
    with pytest.raises(ValueError, match="^Attempted to create a custom op with `mutates_args="):
        torch.library.custom_op("tests::contradicting", lambda *args: args[0] * 1, mutates_args=changed, schema=schema)
    assert not hasattr(torch.ops.tests, "contradicting")


def test_tensors_by_keywords_alone_are_refused_where_they_would_have_no_gradient():
    def scaled(x: torch.Tensor, *, by: torch.Tensor) -> torch.Tensor:
        return x * by

    with pytest.raises(NotImplementedError, match="^custom_op with kwarg-only Tensor args"):
        torch.library.custom_op("tests::scaled", scaled, mutates_args=())
    library = torch.library.Library("tests_by_keyword", "DEF")
    library.define("f(Tensor x, *, Tensor? by=None) -> Tensor")
    with pytest.raises(NotImplementedError, match="^register_autograd with kwarg-only Tensor args"):
        torch.library.register_autograd("tests_by_keyword::f", lambda ctx, gradient: gradient)


def test_an_operator_that_changes_its_argument_has_no_rule_of_itself():
    def added(x: torch.Tensor, y: torch.Tensor) -> None:
        x.add_(y)

    op = torch.library.custom_op("tests::added", added, mutates_args=["x"])
    x = torch.zeros(3, 2)
    with pytest.raises(
        RuntimeError, match="^Batching rule not implemented for tests::added; the fallback path doesn't work"
    ):
        torch.vmap(op)(x, torch.ones(3, 2))
    assert not x.any()


@pytest.mark.parametrize("namespace", ["aten", "prims", "quantized", "c10d"])
def test_the_namespaces_of_torch_are_defined(namespace):
    with pytest.raises(
        RuntimeError, match=f"^Only a single TORCH_LIBRARY can be used to register the namespace {namespace}"
    ):
        torch.library.Library(namespace, "DEF")
    torch.library.Library(namespace, "IMPL")


class TestSchemas:
    """Schemas have torch's text and its objects."""

    def test_listed_schemas_are_read_and_printed(self):
        from rushlight._library.schema import parse
        from rushlight._library.stable import _schemas

        different = [line for line in _schemas().values() if str(parse(line)) != line]
        assert len(_schemas()) > 2000 and not different

    def test_defaults(self):
        library = torch.library.Library("tests_defaults", "DEF")
        library.define(
            "f(Tensor x, float a=1.0, float[] b=[1e-05,2.5],str c='x', int[2] d=3, complex e=1j) -> Tensor y"
        )
        assert str(torch.ops.tests_defaults.f.default._schema) == (
            'tests_defaults::f(Tensor x, float a=1., float[] b=[1.0000000000000001e-05, 2.5], str c="x", int[2] d=3, '
            "complex e=0.+1.j) -> Tensor y"
        )

    def test_arguments(self):
        schema = torch.ops.aten.sum.IntList_out._schema
        listed = [(one.name, str(one.type), one.has_default_value(), one.N) for one in schema.arguments]
        assert listed == [
            ("self", "Tensor", False, None),
            ("dim", "Optional[List[int]]", False, 1),
            ("keepdim", "bool", True, None),
            ("dtype", "Optional[int]", True, None),
            ("out", "Tensor", False, None),
        ]
        assert [str(one.real_type) for one in schema.arguments][3] == "Optional[ScalarType]"
        own, dtype, out = schema.arguments[0], schema.arguments[3], schema.arguments[4]
        assert own.alias_info is None and not own.kwarg_only and dtype.kwarg_only and not dtype.is_out
        assert out.is_out and out.is_write and out.alias_info.before_set == out.alias_info.after_set == {"a"}
        (result,) = schema.returns
        assert result.name == "" and result.is_write and str(result.type) == "Tensor"

    def test_shared_memory(self):
        parts = torch.ops.aten.split.Tensor._schema
        own = parts.arguments[0].alias_info
        assert (own.is_write, own.before_set, own.after_set) == (False, {"a"}, {"*"})
        assert str(parts.returns[0].type) == "List[Tensor]" and parts.returns[0].alias_info.before_set == set()
        assert [one.name for one in torch.ops.aten.max.dim._schema.returns] == ["values", "indices"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a(Tensor x)", "expected arrow but found 'eof' here:"),
        ("a(Tensor x) ->", "expected ident but found 'eof' here:"),
        ("", "expected ident but found 'eof' here:"),
        ("(Tensor x) -> Tensor", "expected ident but found '(' here:"),
        ("3a(Tensor x) -> Tensor", "expected ident but found 'number' here:"),
        ("a(Tensor x) -> Tensor -> Tensor", "expected eof but found 'arrow' here:"),
    ],
)
def test_what_a_text_lacks_is_told(text, sentence):
    with pytest.raises(RuntimeError) as found:
        torch.library.Library("lacking", "FRAGMENT").define(text)
    assert str(found.value).splitlines()[0] == sentence


@pytest.mark.parametrize("schema", ["(Tensor x) ->", "(Tensor x)->Tensor", "Tensor x -> Tensor"])
def test_a_schema_has_one_form(schema):
    with pytest.raises(ValueError, match="expected schema to look like e.g."):
        torch.library.define("lacking::form", schema)
