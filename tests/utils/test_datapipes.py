"""Data pipes: datasets that are chained by methods."""

import pickle

import pytest

import rushlight as torch
from rushlight.utils.data import DataLoader, IterDataPipe, MapDataPipe, functional_datapipe
from rushlight.utils.data.datapipes.iter import IterableWrapper as Wrapper
from rushlight.utils.data.datapipes.map import SequenceWrapper


class Numbers(IterDataPipe):
    def __init__(self, count):
        self.count = count
        self.resets = 0

    def __iter__(self):
        yield from range(self.count)

    def __len__(self):
        return self.count

    def reset(self):
        self.resets += 1


@functional_datapipe("times_for_tests")
class Times(IterDataPipe):
    def __init__(self, source, factor):
        self.source, self.factor = source, factor

    def __iter__(self):
        for number in self.source:
            yield self.factor * number


def test_pipes_are_methods_of_others():
    assert list(Numbers(4).times_for_tests(3)) == list(Numbers(4).times_for_tests(factor=3)) == [0, 3, 6, 9]
    assert not hasattr(SequenceWrapper("ab"), "times_for_tests")
    with pytest.raises(AttributeError, match="'Numbers' object has no attribute 'nothing'"):
        Numbers(4).nothing
    with pytest.raises(Exception, match="Unable to add DataPipe function name times_for_tests as it is already taken"):
        functional_datapipe("times_for_tests")(Times)
    IterDataPipe.register_function("name_for_tests", lambda pipe, suffix: f"{pipe}{suffix}")
    assert Numbers(1).name_for_tests("!") == "Numbers!"


def test_a_pipe_has_one_iterator():
    pipe = Numbers(4)
    first = iter(pipe)
    assert next(first) == 0
    second = iter(pipe)
    assert next(second) == 0
    with pytest.raises(
        RuntimeError, match="This iterator has been invalidated because another .* IterDataPipe: Numbers"
    ):
        next(first)
    assert list(pipe) == list(pipe) == [0, 1, 2, 3] and pipe.resets == 4


def test_a_pipe_that_is_its_own_iterator():
    class Own(IterDataPipe):
        def __iter__(self):
            self.number = 0
            return self

        def __next__(self):
            if self.number == 3:
                raise StopIteration
            self.number += 1
            return self.number

    assert list(Own()) == [1, 2, 3]


def test_pipes_are_datasets():
    assert [batch.tolist() for batch in DataLoader(Numbers(4), batch_size=2)] == [[0, 1], [2, 3]]
    assert list(pickle.loads(pickle.dumps(Numbers(3)))) == [0, 1, 2]
    pipe = SequenceWrapper([1, 2, 3]).map(float)
    assert [batch.tolist() for batch in DataLoader(pipe, batch_size=2)] == [[1, 2], [3]]
    with pytest.raises(TypeError, match="has no len"):
        len(Times(Numbers(1), 2))


def test_maps_and_filters():
    pairs = Wrapper([(1, 2), (3, 4)])
    assert list(pairs.map(lambda x: x + 1, input_col=0)) == [(2, 2), (4, 4)]
    assert list(pairs.map(lambda x, y: x + y, input_col=[0, 1], output_col=-1)) == [(1, 2, 3), (3, 4, 7)]
    assert list(pairs.map(lambda x, y: x + y, input_col=[0, 1])) == [(3,), (7,)]
    assert list(pairs.map(lambda x: 10 * x, input_col=1, output_col=0)) == [(20, 2), (40, 4)]
    assert list(pairs.filter(lambda x: x > 2, input_col=0)) == [(3, 4)]
    with pytest.raises(ValueError, match="`output_col` must be None when `input_col` is None."):
        pairs.map(str, output_col=1)
    with pytest.raises(ValueError, match="Boolean output is required for `filter_fn` of FilterIterDataPipe"):
        list(Wrapper([1]).filter(lambda x: x))


def test_batches():
    pipe = Wrapper(range(5))
    assert list(pipe.batch(2)) == [[0, 1], [2, 3], [4]] and len(pipe.batch(2)) == 3
    assert list(pipe.batch(2, drop_last=True)) == [[0, 1], [2, 3]] and len(pipe.batch(2, drop_last=True)) == 2
    nested = Wrapper([[1, [2]], [3]])
    assert list(nested.unbatch()) == [1, [2], 3] and list(nested.unbatch(unbatch_level=-1)) == [1, 2, 3]
    with pytest.raises(IndexError, match="unbatch_level 2 exceeds the depth of the DataPipe"):
        list(nested.unbatch(unbatch_level=2))
    assert torch.equal(next(iter(Wrapper([[1, 2]]).collate())), torch.tensor([1, 2]))
    assert next(iter(pipe.batch(2, wrapper_class=torch.utils.data.DataChunk))).as_str() == "[0, 1]"


def test_several_pipes():
    numbers, letters = Wrapper(range(3)), Wrapper("abcd")
    assert list(numbers.zip(letters)) == [(0, "a"), (1, "b"), (2, "c")] and len(numbers.zip(letters)) == 3
    assert list(numbers.concat(letters)) == [0, 1, 2, "a", "b", "c", "d"] and len(numbers.concat(letters)) == 7
    assert list(numbers.mux(letters)) == [0, "a", 1, "b", 2, "c"] and len(numbers.mux(letters)) == 6
    with pytest.raises(TypeError, match="Expected all inputs to be `IterDataPipe`"):
        numbers.zip([1])


def test_shuffling_has_torchs_order():
    assert list(Wrapper(range(10)).shuffle(buffer_size=4).set_seed(3)) == [1, 4, 2, 3, 0, 8, 7, 5, 9, 6]
    torch.manual_seed(0)
    pipe = Wrapper(range(10)).shuffle()
    assert list(pipe) == [3, 5, 0, 1, 9, 6, 2, 7, 4, 8] and sorted(pipe) == list(range(10))
    assert list(pipe.set_shuffle(False)) == list(range(10))


def test_shares():
    pipe = Wrapper(range(10)).sharding_filter()
    pipe.apply_sharding(3, 1)
    assert list(pipe) == [1, 4, 7] and len(pipe) == 3
    with pytest.raises(ValueError, match=r"instance_id\(3\) should be smaller than num_of_instances\(3\)"):
        pipe.apply_sharding(3, 3)


def test_wrapped_objects_are_copied():
    items = [1, 2]
    pipes = SequenceWrapper(items), SequenceWrapper(items, deepcopy=False)
    items.append(3)
    assert [len(pipe) for pipe in pipes] == [2, 3]
    stream = iter(Wrapper(items))
    next(stream)
    items.append(4)
    assert list(stream) == [2, 3]


def test_pipes_with_an_index():
    assert issubclass(MapDataPipe, torch.utils.data.Dataset)
    numbers, letters = SequenceWrapper([1, 2, 3]), SequenceWrapper("ab")
    assert list(numbers.map(str)) == ["1", "2", "3"] and list(numbers.batch(2)) == [[1, 2], [3]]
    assert list(numbers.batch(2, drop_last=True)) == [[1, 2]]
    assert list(numbers.concat(letters)) == [1, 2, 3, "a", "b"] and list(numbers.zip(letters)) == [(1, "a"), (2, "b")]
    with pytest.raises(ValueError, match="Expected at least one DataPipe, but got nothing"):
        type(numbers.zip(letters))()
