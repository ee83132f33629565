"""Decorators of data pipes: which passes repeat, and what items and arguments are."""

from typing import Any

import pytest

from rushlight.utils.data import (
    IterDataPipe,
    MapDataPipe,
    argument_validation,
    guaranteed_datapipes_determinism,
    non_deterministic,
    runtime_validation,
    runtime_validation_disabled,
)


def pipe(hint):
    class Given(IterDataPipe[hint]):
        def __init__(self, *items):
            self.items = items

        @runtime_validation
        def __iter__(self):
            yield from self.items

    return Given


@pytest.mark.parametrize(
    "hint, fitting, other",
    [
        (int, 1, "a"),
        (tuple[int, str], (1, "a"), (1, 2)),
        (tuple[int, ...], (1, 2, 3), (1, "a")),
        (list[int], [1], ["a"]),
        (int | None, None, "a"),
        (dict[str, list[int]], {"a": [1]}, {"a": [""]}),
        (int | str, "a", 2.0),
        (set[int], {1}, {"a"}),
    ],
)
def test_items_are_checked_by_the_annotation(hint, fitting, other):
    Given = pipe(hint)

    class Derived(Given):
        pass

    for kind in (Given, Derived):
        assert list(kind(fitting, fitting)) == [fitting, fitting]
        with pytest.raises(RuntimeError, match="Expected an instance as subtype of .*, but found"):
            list(kind(fitting, other))
    with runtime_validation_disabled():
        assert list(Given(other)) == [other]
    with pytest.raises(RuntimeError):
        list(Given(other))


def test_items_of_any_type_are_not_checked():
    assert list(pipe(Any)(1, "a")) == [1, "a"]


def test_only_iter_is_validated():
    with pytest.raises(TypeError, match="Can not decorate function other with 'runtime_validation'"):

        @runtime_validation
        def other(self):
            pass


def test_arguments_must_be_pipes():
    @argument_validation
    def function(source: IterDataPipe, table: MapDataPipe | None = None, count: int = 1):
        return count

    assert function(pipe(int)(), count="any") == "any"
    with pytest.raises(TypeError, match="Expected argument 'source' as a IterDataPipe, but found <class 'list'>"):
        function([1])


def test_pipes_that_differ_from_pass_to_pass_are_refused():
    @non_deterministic
    class Always(IterDataPipe):
        pass

    @non_deterministic(lambda shuffled: shuffled)
    class Sometimes(IterDataPipe):
        def __init__(self, shuffled):
            pass

    assert isinstance(Always(), IterDataPipe) and isinstance(Sometimes(True), IterDataPipe)
    with guaranteed_datapipes_determinism():
        with pytest.raises(TypeError, match="^Always is non-deterministic, but you set"):
            Always()
        with pytest.raises(TypeError, match="^Sometimes is non-deterministic with the inputs, but you set"):
            Sometimes(True)
        assert isinstance(Sometimes(False), IterDataPipe)
        with pytest.raises(TypeError, match="required to return a boolean value"):
            Sometimes(1)
    Always()


def test_what_cannot_be_decorated():
    with pytest.raises(TypeError, match="3 can not be decorated by non_deterministic"):
        non_deterministic(3)
    with pytest.raises(TypeError, match="but int is found"):
        non_deterministic(int)
    with pytest.raises(TypeError, match="but int is found"):
        non_deterministic(lambda: True)(int)
