"""Trees of containers (`torch.utils._pytree`): registration, structures, paths, and structures as text."""

import copy
import dataclasses
import enum
import pickle
import time
from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

import rushlight as torch
import rushlight.utils._cxx_pytree as twin
import rushlight.utils._pytree as pytree

Point = namedtuple("Point", "x y")
Mark = enum.Enum("Mark", "ON OFF")


class Placed(Point):
    pass


class Pair:
    def __init__(self, first, second):
        self.first, self.second = first, second

    def __eq__(self, other):
        return (self.first, self.second) == (other.first, other.second)


def tree():
    return {
        "b": [1, (2, 3)],
        "a": Point(4, []),
        "c": OrderedDict(x=None, y=deque([5, 6], maxlen=3)),
        "d": defaultdict(list, {1: 7}),
    }


@pytest.fixture
def pairs():
    pytree.register_pytree_node(
        Pair,
        lambda pair: ([pair.first, pair.second], "ctx"),
        lambda children, context: Pair(*children),
        serialized_type_name="tests.Pair",
    )
    yield
    pytree._deregister_pytree_node(Pair)


def test_flatten_and_unflatten():
    leaves, spec = pytree.tree_flatten(tree())
    assert leaves == [1, 2, 3, 4, None, 5, 6, 7] == list(pytree.tree_iter(tree())) == pytree.tree_leaves(tree())
    built = pytree.tree_unflatten(iter(leaves), spec)
    assert built == tree() and type(built["a"]) is Point and built["c"]["y"].maxlen == 3
    assert built["d"].default_factory is list


def test_structures_print_as_in_torch():
    spec = pytree.tree_structure(tree())
    assert (
        repr(spec)
        == f"""TreeSpec(dict, ['b', 'a', 'c', 'd'], [TreeSpec(list, None, [*,
    TreeSpec(tuple, None, [*,
      *])]),
  TreeSpec(namedtuple, {Point}, [*,
    TreeSpec(list, None, [])]),
  TreeSpec(OrderedDict, ['x', 'y'], [*,
    TreeSpec(deque, 3, [*,
      *])]),
  TreeSpec(defaultdict, [<class 'list'>, [1]], [*])])"""
    )
    assert pytree.treespec_pprint(spec) == (
        "{'b': [*, (*, *)], 'a': Point(x=*, y=[]), 'c': OrderedDict([('x', *), ('y', deque([*, *], maxlen=3))]), "
        "'d': defaultdict(<class 'list'>, {1: *})}"
    )
    assert (spec.num_leaves, spec.num_nodes, spec.num_children) == (8, 16, 4)
    assert spec.type is dict and spec.context == ["b", "a", "c", "d"] and spec.child(1) == spec.children()[1]
    leaf = pytree.tree_structure(1)
    assert repr(leaf) == "*" and leaf.is_leaf() and isinstance(leaf, pytree.LeafSpec) and not spec.is_leaf()
    assert (leaf.type, leaf.context, leaf.num_children, leaf.num_leaves) == (None, None, 0, 1)


def test_equal_structures():
    spec = pytree.tree_structure(tree())
    for same in (pytree.tree_structure(tree()), pickle.loads(pickle.dumps(spec)), copy.deepcopy(spec)):
        assert same == spec and hash(same) == hash(spec)
    assert pytree.tree_structure([1]) != pytree.tree_structure((1,))
    assert pytree.tree_structure({"a": 1, "b": 2}) != pytree.tree_structure({"b": 1, "a": 2})
    assert pytree.treespec_tuple([pytree.treespec_leaf()]) == pytree.tree_structure((1,))
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'type'"):
        spec.type = list
    with pytest.warns(FutureWarning, match="`isinstance\\(treespec, LeafSpec\\)` is deprecated"):
        assert pytree.LeafSpec() == pytree.tree_structure(1)
    with pytest.warns(FutureWarning, match="`treespec.children_specs` is deprecated"):
        assert spec.children_specs == spec.children()


@pytest.mark.parametrize(
    "other, sentence",
    [
        ([1], "Node arity mismatch; expected 2, but got 1."),
        ((1, {"a": 1}), "Node type mismatch; expected <class 'list'>, but got <class 'tuple'>."),
        ([1, {"b": 1}], "Node keys mismatch; missing key(s): {'a'}; extra key(s): {'b'}."),
        ([1, 2], "Node type mismatch; expected <class 'dict'>, but got <class 'int'>."),
        ([1, {"a": 1, "c": 2}], "Node arity mismatch; expected 1, but got 2."),
    ],
)
def test_trees_that_do_not_begin_like_a_structure(other, sentence):
    for attempt in (
        lambda: pytree.tree_structure([1, {"a": 2}]).flatten_up_to(other),
        lambda: pytree.tree_map(lambda x, y: x, [1, {"a": 2}], other),
    ):
        with pytest.raises(ValueError) as caught:
            attempt()
        assert str(caught.value) == sentence


def test_what_fits_a_structure():
    structure = pytree.tree_structure
    assert structure([1, {"a": 2}]).flatten_up_to([[1, 2], {"a": (3, 4)}]) == [[1, 2], (3, 4)]
    # Kinds of dictionaries and their order do not matter, nor does the length limit of a deque.
    assert structure({"a": 1, "b": 2}).flatten_up_to(OrderedDict(b=1, a=2)) == [2, 1]
    assert structure(defaultdict(int, a=1)).flatten_up_to({"a": 3}) == [3]
    assert structure(deque([1], maxlen=3)).flatten_up_to(deque([2], maxlen=4)) == [2]
    with pytest.raises(ValueError, match="Node context mismatch for node type"):
        structure(Point(1, 2)).flatten_up_to(Placed(3, 4))
    with pytest.raises(ValueError, match="`leaves` has length 2 but the spec refers to a pytree that holds 1 items"):
        structure([1]).unflatten([1, 2])
    with pytest.raises(TypeError, match="Expected `treespec` to be an instance of PyTreeSpec but got item of type"):
        pytree.tree_unflatten([1], 3)


def test_maps():
    assert pytree.tree_map(lambda x, y: (x, y), {"a": 1, "b": [2]}, {"b": [3], "a": 4}) == {"a": (1, 4), "b": [(2, 3)]}
    whole = pytree.tree_map(lambda leaf: ("leaf", leaf), [1, (2, 3)], is_leaf=lambda part: isinstance(part, tuple))
    assert whole == [("leaf", 1), ("leaf", (2, 3))]
    values = [1, 2.0, ("x",)]
    assert pytree.tree_map_only(int, str, values) == ["1", 2.0, ("x",)]
    assert pytree.tree_map_only((int, float), str, values) == ["1", "2.0", ("x",)]
    assert pytree.tree_map_only(int | float, str, values) == ["1", "2.0", ("x",)]
    assert pytree.tree_map_only(lambda leaf: leaf == 1, str, values) == ["1", 2.0, ("x",)]
    with pytest.raises(TypeError, match="Argument must be a type, a tuple of types, or a callable."):
        pytree.tree_map_only(3, str, values)
    tensors = [torch.ones(2), 3]
    assert pytree.tree_map_only_(torch.Tensor, lambda tensor: tensor.zero_(), tensors) is tensors
    assert tensors[0].tolist() == [0, 0]


def test_questions():
    assert pytree.tree_any(bool, [1, 0]) and not pytree.tree_all(bool, [1, 0])
    assert pytree.tree_all_only(int, bool, [1, 0.0]) and not pytree.tree_any_only(int, bool, [0, 1.0])
    assert pytree.tree_is_leaf(None) and not pytree.tree_is_leaf(())
    assert pytree.tree_is_leaf((1,), is_leaf=lambda part: True)
    assert pytree.arg_tree_leaves(1, [2], a=(3,)) == [1, 2, 3]


def test_paths():
    pairs = pytree.tree_leaves_with_path(tree())
    assert [pytree.keystr(path) for path, _ in pairs] == [
        "['b'][0]", "['b'][1][0]", "['b'][1][1]", "['a'].x", "['c']['x']", "['c']['y'][0]", "['c']['y'][1]", "['d'][1]",
    ]  # fmt: skip
    assert [pytree.key_get(tree(), path) for path, _ in pairs] == pytree.tree_leaves(tree())
    assert pytree.tree_flatten_with_path(tree()) == (pairs, pytree.tree_structure(tree()))
    assert pairs[3][0] == (pytree.MappingKey("a"), pytree.GetAttrKey("x"))
    assert repr(pairs[0][0]) == "(MappingKey(key='b'), SequenceKey(idx=0))"
    named = pytree.tree_map_with_path(lambda path, x, y: (pytree.keystr(path), x, y), [1, (2,)], [3, (4,)])
    assert named == [("[0]", 1, 3), (("[1][0]", 2, 4),)]
    short = pytree.tree_leaves_with_path([1, (2, 3)], is_leaf=lambda part: isinstance(part, tuple))
    assert [leaf for _, leaf in short] == [1, (2, 3)]


def test_registered_classes(pairs):
    assert pytree.tree_map(lambda leaf: leaf + 1, [Pair(1, [2])]) == [Pair(2, [3])]
    assert str(pytree.tree_structure(Pair(1, 2))) == "TreeSpec(Pair, ctx, [*,\n  *])"
    text = pytree.treespec_dumps(pytree.tree_structure(Pair(1, 2)))
    leaf = '{"type": null, "context": null, "children_spec": []}'
    assert text == f'[1, {{"type": "tests.Pair", "context": "\\"ctx\\"", "children_spec": [{leaf}, {leaf}]}}]'
    assert pytree.treespec_loads(text) == pytree.tree_structure(Pair(1, 2))
    with pytest.raises(ValueError, match="Pair'> is already registered as pytree node."):
        pytree.register_pytree_node(Pair, lambda pair: ([], None), lambda children, context: None)
    with pytest.warns(FutureWarning, match="_register_pytree_node` is deprecated"):
        with pytest.warns(UserWarning, match="Overwriting the previous registration."):
            pytree._register_pytree_node(Pair, lambda pair: ([pair.first], None), lambda one, context: Pair(*one, 0))
    assert pytree.tree_leaves(Pair(1, 2)) == [1]
    with pytest.raises(ValueError, match="Did not find a flatten_with_keys_fn for type"):
        pytree.tree_leaves_with_path(Pair(1, 2))
    with pytest.raises(NotImplementedError, match="No registered serialization name"):
        pytree.treespec_dumps(pytree.tree_structure(Pair(1, 2)))


def test_a_refused_registration_leaves_nothing():
    with pytest.raises(ValueError, match="Both to_dumpable_context and from_dumpable_context"):
        pytree.register_pytree_node(Pair, lambda pair: ([], None), lambda one, two: None, to_dumpable_context=str)
    assert len(pytree.tree_leaves(Pair(1, 2))) == 1


def test_function_transforms_see_registered_classes(pairs):
    doubled = torch.func.vmap(lambda pair: Pair(pair.first * 2, pair.second))(Pair(torch.ones(3), torch.zeros(3)))
    assert doubled.first.tolist() == [2, 2, 2]
    assert torch.func.grad(lambda pair: (pair.first * pair.second).sum())(
        Pair(torch.ones(2), torch.full((2,), 3.0))
    ).first.tolist() == [3, 3]


def test_named_tuples_and_results_of_operators():
    result = torch.tensor([[1.0, 2.0]]).max(0)
    for value, named, structure in ((Point(1, 2), True, False), (Placed(1, 2), True, False), (result, False, True)):
        kind = type(value)
        assert pytree.is_namedtuple(kind) is pytree.is_namedtuple(value) is named
        assert pytree.is_namedtuple_class(kind) is pytree.is_namedtuple_instance(value) is named
        assert pytree.is_structseq(kind) is pytree.is_structseq(value) is structure
        assert pytree.is_structseq_class(kind) is pytree.is_structseq_instance(value) is structure
        assert not pytree.is_namedtuple_class(value) and not pytree.is_namedtuple_instance(kind)
        assert type(pytree.tree_map(lambda leaf: leaf, value)) is kind
    assert pytree.is_structseq(time.gmtime(0)) and pytree.tree_structure(time.gmtime(0)).is_leaf()
    assert str(pytree.tree_structure(result)) == "TreeSpec(max, None, [*,\n  *])"
    assert str(pytree.tree_structure(torch.Size([1]))) == "TreeSpec(Size, None, [*])"


def test_subclasses_of_containers_are_leaves():
    values = type("Values", (list,), {})([1])
    assert pytree.tree_leaves(values) == [values]


def test_structures_as_text():
    spec = pytree.tree_structure(
        {
            "b": [1, (2, 3)],
            "c": OrderedDict(x=None),
            "d": defaultdict(list, {1: 7}),
            "e": deque([1], maxlen=2),
            Mark.ON: 1,
        }
    )
    text = pytree.treespec_dumps(spec)
    assert pytree.treespec_loads(text) == spec
    assert '"default_factory_module": "builtins", "default_factory_name": "list", "dict_context": [1]' in text
    assert '\\"__enum__\\": true, \\"fqn\\": \\"' in text
    for attempt, error, sentence in (
        (lambda: pytree.treespec_dumps(spec, protocol=7), ValueError, "Unknown protocol 7. Available protocols: [1]"),
        (lambda: pytree.treespec_loads("[2, {}]"), ValueError, "Unknown protocol 2. Available protocols: [1]"),
        (
            lambda: pytree.treespec_loads('[1, {"type": "foo", "context": "null", "children_spec": []}]'),
            NotImplementedError,
            "Deserializing foo in pytree is not registered.",
        ),
        (
            lambda: pytree.treespec_dumps(pytree.tree_structure(Point(1, 2))),
            NotImplementedError,
            f"Can't serialize TreeSpec of namedtuple class {Point} because we didn't register a serializated_type_name. "
            "Please register using `_register_namedtuple`.",
        ),
    ):
        with pytest.raises(error) as caught:
            attempt()
        assert str(caught.value) == sentence
    pytree._register_namedtuple(Placed, serialized_type_name="tests.Placed")
    placed = pytree.tree_structure(Placed(1, 2))
    assert pytree.treespec_loads(pytree.treespec_dumps(placed)) == placed
    with pytest.warns(FutureWarning, match="`str_to_pytree` is deprecated"):
        assert pytree.str_to_pytree(text) == spec
    with pytest.warns(FutureWarning, match="`pytree_to_str` is deprecated"):
        assert pytree.pytree_to_str(spec) == text


def test_dataclasses():
    @dataclasses.dataclass
    class Batch:
        inputs: object
        targets: object = None
        name: object = "all"

    with pytest.raises(ValueError, match="Missing fields in `field_names`: {'targets'}"):
        pytree.register_dataclass(Batch, field_names=["inputs", "name"])
    with pytest.raises(ValueError, match="Unexpected fields in `field_names`: {'other'}"):
        pytree.register_dataclass(Batch, field_names=["inputs", "targets", "name", "other"])
    with pytest.raises(ValueError, match="as it is not a dataclass"):
        pytree.register_dataclass(Pair)
    pytree.register_dataclass(Batch, drop_field_names=["name"])
    batch = Batch([1, 2], name="some")
    leaves, spec = pytree.tree_flatten(batch)
    assert leaves == [1, 2] and spec.context == [["inputs"], ["targets"]]
    assert pytree.tree_map(str, batch) == Batch(["1", "2"])
    assert [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path(batch)] == [".inputs[0]", ".inputs[1]"]


def test_constants():
    @dataclasses.dataclass(frozen=True)
    class Mode:
        name: str

    pytree.register_constant(Mode)
    leaves, spec = pytree.tree_flatten([Mode("train"), 1])
    assert leaves == [1] and pytree.tree_unflatten([2], spec) == [Mode("train"), 2]
    assert spec != pytree.tree_structure([Mode("test"), 1])
    assert pytree.is_constant_class(Mode) and not pytree.is_constant_class(Pair)
    with pytest.raises(TypeError, match="non-default `__eq__` implementation"):
        pytree.register_constant(type("Plain", (), {}))


def test_broadcasting():
    spec = pytree.tree_structure([[0, 0], (0, 0)])
    assert pytree._broadcast_to_and_flatten([1, (2, 3)], spec) == [1, 1, 2, 3]
    assert pytree._broadcast_to_and_flatten(1, spec) == [1, 1, 1, 1]
    assert pytree._broadcast_to_and_flatten([1], spec) is None


def test_the_twin_has_the_same_functions():
    assert all(getattr(twin, name) is getattr(pytree, name) for name in pytree.__all__)
    assert pytree.TreeSpec.__module__ == "rushlight.utils._pytree"
