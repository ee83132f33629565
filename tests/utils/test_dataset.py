"""Datasets, samplers and collation. Orders are those of torch 2.13 for the same seeds."""

import collections

import pytest

import rushlight as torch
from rushlight.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    default_convert,
    random_split,
)


class Stream(IterableDataset):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        return iter(range(self.count))


def pairs(count=10):
    x = torch.arange(float(count))
    return TensorDataset(x, x * 2)


def test_tensor_dataset():
    dataset = pairs()
    assert len(dataset) == 10
    assert [part.item() for part in dataset[3]] == [3.0, 6.0]
    with pytest.raises(AssertionError, match=r"^Size mismatch between tensors\n"):
        TensorDataset(torch.zeros(2), torch.zeros(3))


def test_dataset_without_methods():
    with pytest.raises(NotImplementedError, match=r"^Subclasses of Dataset should implement __getitem__\.$"):
        Dataset()[0]
    with pytest.raises(TypeError, match=r"has no len"):
        len(Dataset())
    with pytest.raises(TypeError, match=r"abstract"):
        IterableDataset()
    assert Dataset[int]


def test_concat_dataset():
    dataset = pairs() + pairs(5)
    assert isinstance(dataset, ConcatDataset) and dataset.cumulative_sizes == [10, 15]
    assert dataset[12][0].item() == 2.0 and dataset[-1][0].item() == 4.0
    with pytest.raises(ValueError, match=r"absolute value of index should not exceed dataset length"):
        dataset[-16]
    with pytest.raises(IndexError):
        dataset[15]
    with pytest.raises(AssertionError, match=r"datasets should not be an empty iterable"):
        ConcatDataset([])
    with pytest.raises(AssertionError, match=r"ConcatDataset does not support IterableDataset"):
        ConcatDataset([Stream(1)])
    with pytest.warns(FutureWarning, match=r"renamed to `cumulative_sizes`"):
        assert dataset.cummulative_sizes == [10, 15]


def test_chain_dataset():
    assert list(Stream(2) + Stream(3)) == [0, 1, 0, 1, 2]
    with pytest.raises(AssertionError, match=r"ChainDataset only supports IterableDataset"):
        list(ChainDataset([pairs()]))


def test_stack_dataset():
    assert len(StackDataset(pairs(), pairs())) == 10
    assert StackDataset(a=[1, 2], b=[3, 4])[1] == {"a": 2, "b": 4}
    assert StackDataset([1, 2, 3], [4, 5, 6]).__getitems__([0, 2]) == [(1, 4), (3, 6)]
    with pytest.raises(ValueError, match=r"At least one dataset should be passed"):
        StackDataset()
    with pytest.raises(ValueError, match=r"Size mismatch between datasets"):
        StackDataset([1], [1, 2])
    with pytest.raises(ValueError, match=r"both types are given"):
        StackDataset([1], a=[1])

    class Short(Dataset):
        def __len__(self):
            return 3

        def __getitems__(self, indices):
            return indices[1:]

    with pytest.raises(ValueError, match=r"Nested dataset's output size mismatch. Expected 2, got 1"):
        StackDataset(Short(), [1, 2, 3]).__getitems__([0, 1])


def test_subset_asks_for_a_whole_batch_where_it_can():
    class Batched(Dataset):
        def __getitems__(self, indices):
            return [-index for index in indices]

    assert Subset(Batched(), [5, 6, 7]).__getitems__([0, 2]) == [-5, -7]
    assert Subset(range(10), [5, 6, 7]).__getitems__([0, 2]) == [5, 7]
    assert Subset(range(10), [5, 6, 7])[1] == 6


def test_random_split():
    def seeded():
        return torch.Generator().manual_seed(42)

    parts = random_split(range(10), [3, 7], generator=seeded())
    assert [part.indices for part in parts] == [[2, 6, 1], [8, 4, 5, 0, 9, 3, 7]]
    parts = random_split(range(10), [0.3, 0.3, 0.4], generator=seeded())
    assert [list(part) for part in parts] == [[2, 6, 1], [8, 4, 5], [0, 9, 3, 7]]
    assert [len(part) for part in random_split(range(10), [0.33, 0.33, 0.34])] == [4, 3, 3]
    with pytest.raises(ValueError, match=r"Sum of input lengths does not equal the length of the input dataset!"):
        random_split(range(10), [3, 3])
    with pytest.raises(ValueError, match=r"Fraction at index 0 is not between 0 and 1"):
        random_split(range(10), [-0.1, 1.1])
    with pytest.warns(UserWarning, match=r"Length of split at index 1 is 0"):
        random_split(range(2), [0.1, 0.2, 0.7])


@pytest.mark.parametrize(
    "make, order",
    [
        (lambda: RandomSampler(range(10)), [6, 9, 0, 7, 3, 5, 4, 2, 1, 8]),
        (lambda: RandomSampler(range(10), replacement=True), [6, 0, 4, 3, 9, 5, 7, 8, 9, 1]),
        (
            lambda: RandomSampler(range(10), num_samples=25),
            [6, 9, 0, 7, 3, 5, 4, 2, 1, 8, 1, 8, 5, 4, 9, 2, 0, 7, 3, 6, 0, 7, 9, 3, 8],
        ),
        (
            lambda: RandomSampler(range(10), replacement=True, num_samples=36),
            [6, 0, 4, 3, 9, 5, 7, 8, 9, 1, 8, 5, 6, 9, 0, 0, 8, 3]
            + [0, 0, 1, 9, 0, 7, 8, 3, 9, 7, 2, 2, 2, 9, 4, 6, 8, 8],
        ),
        (lambda: SubsetRandomSampler(range(10, 20)), [14, 11, 17, 15, 13, 19, 10, 18, 16, 12]),
        (lambda: SequentialSampler("abc"), [0, 1, 2]),
    ],
)
def test_orders_are_torchs(make, order):
    torch.manual_seed(0)
    assert list(make()) == order


@pytest.mark.skipif(not hasattr(torch, "multinomial"), reason="needs multinomial")
def test_weighted_random_sampler():
    torch.manual_seed(0)
    assert list(WeightedRandomSampler([0.1, 0.2, 0.7, 1, 2], 5)) == [4, 4, 3, 4, 4]
    torch.manual_seed(0)
    assert list(WeightedRandomSampler([0.1, 0.2, 0.7, 1, 2], 5, False)) == [4, 2, 3, 1, 0]


def test_samplers_refuse_nonsense():
    with pytest.raises(TypeError, match=r"replacement should be a boolean value, but got replacement=3"):
        RandomSampler(range(3), replacement=3)
    for wrong in (0, -1, 2.5, True):
        with pytest.raises(
            ValueError, match=rf"num_samples should be a positive integer value, but got num_samples={wrong}"
        ):
            RandomSampler(range(3), num_samples=wrong)
        with pytest.raises(
            ValueError, match=rf"batch_size should be a positive integer value, but got batch_size={wrong}"
        ):
            BatchSampler(range(3), wrong, False)
    with pytest.raises(ValueError, match=r"drop_last should be a boolean value, but got drop_last=1"):
        BatchSampler(range(3), 2, 1)
    with pytest.raises(ValueError, match=r"weights should be a 1d sequence but given weights have shape \(1, 2\)"):
        WeightedRandomSampler([[0.1, 0.2]], 2)
    with pytest.raises(NotImplementedError):
        iter(Sampler())


def test_batch_sampler():
    assert list(BatchSampler(range(5), 2, False)) == [[0, 1], [2, 3], [4]]
    assert list(BatchSampler(range(5), 2, True)) == [[0, 1], [2, 3]]
    assert len(BatchSampler(range(5), 2, False)) == 3 and len(BatchSampler(range(5), 2, True)) == 2


def test_distributed_sampler():
    shares = [list(DistributedSampler(range(10), 4, rank)) for rank in range(4)]
    assert shares == [[4, 3, 6], [1, 9, 2], [7, 0, 4], [5, 8, 1]]
    shares = [list(DistributedSampler(range(10), 4, rank, shuffle=False, drop_last=True)) for rank in range(4)]
    assert shares == [[0, 4], [1, 5], [2, 6], [3, 7]]
    sampler = DistributedSampler(range(10), 4, 1, seed=3)
    sampler.set_epoch(2)
    assert list(sampler) == [4, 5, 7]
    assert list(DistributedSampler(range(2), 5, 4)) == [0]
    with pytest.raises(ValueError, match=r"Invalid rank 2, rank should be in the interval \[0, 1\]"):
        DistributedSampler(range(10), 2, 2)
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        DistributedSampler(range(10))


Point = collections.namedtuple("Point", "x y")


def test_collate_keeps_structure():
    assert default_collate([1, 2]).tolist() == [1, 2]
    assert default_collate([1.5, 2]).dtype == torch.float64
    assert default_collate([True, False]).dtype == torch.bool
    assert default_collate(["a", "b"]) == ["a", "b"]
    assert default_collate([torch.zeros(2), torch.ones(2)]).tolist() == [[0, 0], [1, 1]]
    batch = default_collate([{"a": 1, "b": (2, [3.0])}, {"a": 4, "b": (5, [6.0])}])
    assert batch["a"].tolist() == [1, 4] and batch["b"][0].tolist() == [2, 5] and batch["b"][1][0].tolist() == [3, 6]
    point = default_collate([Point(1, 2), Point(3, 4)])
    assert isinstance(point, Point) and point.y.tolist() == [2, 4]
    ordered = default_collate([collections.OrderedDict(a=1)])
    assert type(ordered) is collections.OrderedDict
    counts = default_collate([collections.defaultdict(int, a=1), collections.defaultdict(int, a=2)])
    assert counts.default_factory is int and counts["a"].tolist() == [1, 2]


def test_collate_errors():
    for wrong in (None, object(), 1j, {1}):
        with pytest.raises(
            TypeError,
            match=r"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found <class",
        ):
            default_collate([wrong])
    with pytest.raises(RuntimeError, match=r"each element in list of batch should be of equal size"):
        default_collate([[1, 2], [3]])
    with pytest.raises(KeyError):
        default_collate([{"a": 1}, {"b": 1}])
    with pytest.raises(RuntimeError, match=r"stack expects each tensor to be equal size, but got \[2\] at entry 0"):
        default_collate([torch.zeros(2), torch.zeros(3)])


def test_collate_and_convert_numpy():
    numpy = pytest.importorskip("numpy")
    assert default_collate([numpy.zeros(2), numpy.ones(2)]).dtype == torch.float64
    assert default_collate([numpy.float32(1), numpy.float32(2)]).tolist() == [1, 2]
    assert default_collate([numpy.int16(1)]).dtype == torch.int16
    with pytest.raises(TypeError, match=r"found <U1"):
        default_collate([numpy.array(["a"])])
    converted = default_convert([1, "a", numpy.zeros(2), (numpy.int32(1), {"a": numpy.zeros(1)}), Point(b"3", None)])
    assert converted[:2] == [1, "a"] and converted[2].tolist() == [0, 0]
    assert isinstance(converted[3], list) and converted[3][1]["a"].tolist() == [0] and converted[4] == Point(b"3", None)
