"""DAT: datasets and the data loader."""

import collections
import gc
import io
import multiprocessing
import os
import signal
import tarfile
import warnings

import pytest

import rushlight as torch
import rushlight.utils.data as data
from rushlight.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info

# The machine may have fewer processors than a test has workers.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


class Squares(Dataset):
    """The index and its square. A test may call a function at one index."""

    def __init__(self, count=11, action=None, at=None):
        self.count, self.action, self.at = count, action, at

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index == self.at:
            self.action()
        return index, torch.tensor(index**2)


def plain(batches):
    return [[part.tolist() for part in batch] for batch in batches]


class ImageDirectoryDataset(Dataset):
    """The documented example with its four mistakes fixed: the samples are the files of a folder."""

    def __init__(self, path):
        self.paths = sorted(os.path.join(path, name) for name in os.listdir(path))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, idx):
        with open(self.paths[idx], "rb") as file:
            return torch.tensor(list(file.read()))


def test_dat_1_a_folder_as_a_dataset(tmp_path):
    """A dataset has a length and returns samples. The error for a missing argument names it."""
    for number in range(3):
        (tmp_path / f"{number}.img").write_bytes(bytes([number, number + 10]))
    found = [batch.tolist() for batch in DataLoader(ImageDirectoryDataset(tmp_path), batch_size=2)]
    assert found == [[[0, 10], [1, 11]], [[2, 12]]]

    class Unmended(Dataset):
        def __init__(self, path):
            paths = [path]  # noqa: F841  (the slip: not kept)

        def __len__():  # the mistake: no `self`
            return 1

    with pytest.raises(TypeError, match=r"__len__\(\) takes 0 positional arguments but 1 was given"):
        list(DataLoader(Unmended(tmp_path)))
    with pytest.raises(NotImplementedError):
        Unmended(tmp_path)[0]


@pytest.mark.parametrize("workers", [1, 3, 8])
def test_dat_2_workers_change_nothing(workers):
    """The same batches in the same order for every number of workers. No process remains after the loop is left."""
    torch.manual_seed(5)
    expected = plain(DataLoader(Squares(), batch_size=3, shuffle=True))
    torch.manual_seed(5)
    assert plain(DataLoader(Squares(), batch_size=3, shuffle=True, num_workers=workers)) == expected
    before = set(multiprocessing.active_children())
    for _ in DataLoader(Squares(), num_workers=workers):
        break
    gc.collect()
    assert set(multiprocessing.active_children()) <= before


def test_dat_3_options():
    """Batches, orders, samplers and collation."""
    squares = Squares(7)

    def indices(**options):
        return [batch[0].tolist() for batch in DataLoader(squares, **options)]

    assert indices(batch_size=3) == [[0, 1, 2], [3, 4, 5], [6]]
    assert indices(batch_size=3, drop_last=True) == [[0, 1, 2], [3, 4, 5]]
    assert indices(batch_size=2, sampler=data.SequentialSampler(range(3))) == [[0, 1], [2]]
    assert indices(batch_sampler=[[6, 0], [3]]) == [[6, 0], [3]]
    shuffled = indices(batch_size=7, shuffle=True, generator=torch.Generator().manual_seed(1))
    assert shuffled == indices(batch_size=7, shuffle=True, generator=torch.Generator().manual_seed(1))
    assert sorted(shuffled[0]) == list(range(7)) != shuffled[0]
    assert list(DataLoader(squares, batch_size=4, collate_fn=len)) == [4, 3]
    options = {"num_workers": 2, "prefetch_factor": 1, "persistent_workers": True, "timeout": 60, "in_order": True}
    assert indices(batch_size=4, **options) == [[0, 1, 2, 3], [4, 5, 6]]
    with pytest.raises(ValueError, match="mutually exclusive"):
        DataLoader(squares, batch_sampler=[[0]], batch_size=2)


class Named(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        return os.environ["RUSHLIGHT_TEST_WORKER"]


def name_worker(number):
    os.environ["RUSHLIGHT_TEST_WORKER"] = f"worker {number}"


def test_dat_3_worker_init_fn():
    """A function runs in each worker before its first sample."""
    found = DataLoader(Named(), num_workers=2, worker_init_fn=name_worker)
    assert [batch for [batch] in found] == ["worker 0", "worker 1"]


@pytest.mark.filterwarnings("default:This DataLoader will create")
def test_dat_4_more_workers_than_processors():
    """More workers than available processors give a warning."""
    usable = len(os.sched_getaffinity(0))
    with pytest.warns(UserWarning, match=rf"will create {usable + 8} worker processes in total"):
        DataLoader(Squares(), num_workers=usable + 8)


def add_member(archive, name, content):
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def write_parts(folder, count):
    """Tar files with three members each, numbered consecutively."""
    paths = []
    for part in range(count):
        paths.append(folder / f"part-{part}.tar")
        with tarfile.open(paths[-1], "w") as archive:
            for member in range(3):
                add_member(archive, f"{member}.txt", str(3 * part + member).encode())
    return paths


class TarImageDataset(IterableDataset):
    """The members of tar files, read sequentially."""

    def __init__(self, paths):
        self.paths = paths

    def members(self, path):
        with open(path, "rb") as file, tarfile.open(fileobj=file, mode="r|") as archive:
            for member in archive:
                yield int(archive.extractfile(member).read())

    def __iter__(self):
        for path in self.paths:
            yield from self.members(path)


class ShardedTarImageDataset(TarImageDataset):
    """One file for each worker."""

    def __iter__(self):
        info = get_worker_info()
        if info is None:
            yield from super().__iter__()
        elif info.num_workers != len(info.dataset.paths):
            raise ValueError("Number of workers doesn't match number of files.")
        else:
            yield from self.members(self.paths[info.id])


@pytest.mark.parametrize("workers", [0, 1])
def test_dat_5_streams(tmp_path, workers):
    """An iterable dataset reads its file sequentially, in this process or in a worker."""
    loader = DataLoader(TarImageDataset(write_parts(tmp_path, 2)), batch_size=4, num_workers=workers)
    assert [batch.tolist() for batch in loader] == [[0, 1, 2, 3], [4, 5]]


class Count(IterableDataset):
    def __iter__(self):
        return iter(range(6))


def test_dat_6_every_worker_has_the_whole_stream():
    """As in torch each item occurs once per worker, with a warning in rushlight. With `shard="auto"` it occurs once."""
    with pytest.warns(UserWarning, match="every item comes once per worker"):
        found = [item.item() for item in DataLoader(Count(), num_workers=3)]
    assert sorted(found) == sorted(list(range(6)) * 3)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="Each of the")
        assert [item.item() for item in DataLoader(Count(), num_workers=3, shard="auto")] == list(range(6))


def test_dat_7_a_file_for_each_worker(tmp_path):
    """A worker knows its index, the number of workers, its seed and its dataset. Two workers return each item once."""
    parts = ShardedTarImageDataset(write_parts(tmp_path, 2))
    assert sorted(item.item() for item in DataLoader(parts, num_workers=2)) == list(range(6))
    assert get_worker_info() is None
    with pytest.raises(ValueError, match="Number of workers doesn't match number of files"):
        list(DataLoader(parts, num_workers=3))


class Facts(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        yield info.id, info.num_workers, info.seed, info.dataset is self


def test_dat_7_the_facts():
    """The four attributes. The seeds of consecutive workers differ by one."""
    first, second = ([int(fact) for fact in facts] for facts in DataLoader(Facts(), num_workers=2))
    assert (first[0], second[0]) == (0, 1) and first[1] == second[1] == 2 and second[2] == first[2] + 1
    assert first[3] == second[3] == 1


def test_dat_8_no_reading_backwards(tmp_path):
    """The dataset of the example only reads its file sequentially."""
    (path,) = write_parts(tmp_path, 1)

    class Forwards(io.FileIO):
        def seek(self, *where):
            raise AssertionError("read backwards")

    found = []
    with Forwards(path) as file, tarfile.open(fileobj=file, mode="r|") as archive:
        found = [int(archive.extractfile(member).read()) for member in archive]
    assert found == [0, 1, 2]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device to pin for")
def test_dat_9_pinning_without_a_device():
    """Without a GPU memory is not pinned, with one warning, and batches of any structure are unchanged."""
    Point = collections.namedtuple("Point", "x y")
    samples = [{"a": torch.ones(1), "b": (torch.zeros(1), Point(torch.ones(1), 2))}] * 2
    with pytest.warns(UserWarning, match="'pin_memory' argument is set as true but no accelerator is found") as caught:
        (batch,) = DataLoader(samples, batch_size=2, pin_memory=True)
    assert len(caught) == 1
    assert batch["a"].shape == (2, 1) and isinstance(batch["b"][1], Point) and batch["b"][1].y.tolist() == [2, 2]


def test_dat_10_datasets_of_datasets():
    """Concatenated datasets, a subset, tensors by their first dimension, a random split."""
    both = data.ConcatDataset([range(10, 13), range(20, 22)])
    assert len(both) == 5 and both.cumulative_sizes == [3, 5]
    assert [both[0], both[3], both[-1]] == [10, 20, 21]
    with pytest.raises(ValueError, match="absolute value of index should not exceed dataset length"):
        both[-6]
    assert list(data.Subset(range(10), [7, 1])) == [7, 1]
    tensors = TensorDataset(torch.arange(3), torch.arange(3) * 10)
    assert len(tensors) == 3 and [t.item() for t in tensors[2]] == [2, 20]
    a, b = data.random_split(range(10), [7, 3], generator=torch.Generator().manual_seed(0))
    assert len(a) == 7 and sorted([*a, *b]) == list(range(10))


@pytest.mark.parametrize("drop_last", [False, True])
def test_dat_11_distributed_sampler(drop_last):
    """Each process has its own part. The parts have equal lengths, and each epoch has another order."""
    samplers = [data.DistributedSampler(range(10), num_replicas=3, rank=rank, drop_last=drop_last) for rank in range(3)]

    def parts(epoch):
        for sampler in samplers:
            sampler.set_epoch(epoch)
        return [list(sampler) for sampler in samplers]

    first = parts(0)
    assert [len(part) for part in first] == [3 if drop_last else 4] * 3
    every = [index for part in first for index in part]
    assert len(set(every)) == (9 if drop_last else 10)
    assert parts(1) != first and parts(0) == first


def test_dat_12_collation():
    """Samples of any structure become a batch of the same structure."""
    Pair = collections.namedtuple("Pair", "left right")
    samples = [{"n": i, "f": i / 2, "t": (torch.ones(2) * i, f"s{i}"), "p": Pair([i], True)} for i in range(2)]
    batch = data.default_collate(samples)
    assert batch["n"].dtype == torch.int64 and batch["n"].tolist() == [0, 1]
    assert batch["f"].dtype == torch.float64 and batch["f"].tolist() == [0.0, 0.5]
    assert batch["t"][0].tolist() == [[0.0, 0.0], [1.0, 1.0]] and batch["t"][1] == ("s0", "s1")
    assert isinstance(batch["p"], Pair) and batch["p"].left[0].tolist() == [0, 1]
    assert batch["p"].right.tolist() == [True, True]
    with pytest.raises(RuntimeError, match="equal size"):
        data.default_collate([[1, 2], [3]])
    with pytest.raises(TypeError, match="default_collate: batch must contain tensors"):
        data.default_collate([object()])


def end_at_once():
    os.kill(os.getpid(), signal.SIGKILL)


def test_dat_13_a_killed_worker():
    """The error names the worker, the signal, the last index and the memory."""
    with pytest.raises(RuntimeError) as caught:
        list(DataLoader(Squares(8, end_at_once, 5), batch_size=2, num_workers=2, timeout=60))
    message = str(caught.value)
    assert message.startswith("DataLoader worker (pid(s) ")
    for words in ("Worker 0 ", "SIGKILL", "last index 5", "Memory: "):
        assert words in message


def test_dat_14_names():
    """The public names of the package."""
    for name in (
        "BatchSampler ChainDataset ConcatDataset DataLoader Dataset DistributedSampler IterableDataset RandomSampler "
        "Sampler SequentialSampler StackDataset Subset SubsetRandomSampler TensorDataset WeightedRandomSampler "
        "default_collate default_convert get_worker_info random_split"
    ).split():
        assert name in data.__all__ and callable(getattr(data, name)), name
