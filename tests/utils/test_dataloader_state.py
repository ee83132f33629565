"""The loader's features beyond torch's: reproducible samples, resuming, and datasets in shared memory."""

import os
import pickle
import random
import re
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

import rushlight as torch
from rushlight.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from rushlight.utils.data._utils.memory import memory_report
from rushlight.utils.data._utils.share import SharedDict, SharedList, share

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
COUNT, BATCH = 11, 3


def drawn():
    return torch.rand(()).item(), random.random(), np.random.rand()


class Augmented(Dataset):
    """Samples that draw from every random stream, different numbers of times."""

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        torch.rand(int(index))
        return int(index), *drawn()


class Batches:
    """A sampler whose batches have a given type."""

    def __init__(self, kind):
        self.kind = kind

    def __iter__(self):
        return map(self.kind, BatchSampler(RandomSampler(range(COUNT)), BATCH, False))


class AugmentedStream(IterableDataset):
    def __iter__(self):
        start = random.randrange(1000)
        for index in range(COUNT):
            yield start + index, *drawn()


def blend(samples):
    """A collate function that also draws random numbers."""
    return [list(sample) for sample in samples], drawn()


def with_generator():
    return {"shuffle": True, "generator": torch.Generator().manual_seed(5)}


CASES = {
    "sequential": (Augmented, dict),
    "shuffled": (Augmented, lambda: {"shuffle": True}),
    "generator": (Augmented, with_generator),
    "weighted": (Augmented, lambda: {"sampler": WeightedRandomSampler(torch.ones(COUNT), COUNT)}),
    "stream": (AugmentedStream, lambda: {"shard": "auto"}),
    "batches": (Augmented, lambda: {"batch_sampler": BatchSampler(RandomSampler(range(COUNT)), BATCH, False)}),
    "tuples": (Augmented, lambda: {"batch_sampler": Batches(tuple)}),
    "tensors": (Augmented, lambda: {"batch_sampler": Batches(torch.tensor)}),
    "iterators": (Augmented, lambda: {"batch_sampler": Batches(iter)}),
}


def loader(case, workers, **more):
    dataset, options = CASES[case]
    chosen = {
        "batch_size": BATCH,
        "num_workers": workers,
        "reproducible": True,
        "collate_fn": blend,
        **options(),
        **more,
    }
    if "batch_sampler" in chosen:
        del chosen["batch_size"]
    return DataLoader(dataset(), **chosen)


@pytest.mark.parametrize("case", CASES)
def test_reproducible_samples_do_not_depend_on_the_workers(case):
    results = []
    for workers, more in [(0, {}), (1, {}), (3, {"persistent_workers": True, "prefetch_factor": 1})]:
        torch.manual_seed(3)
        numbers = loader(case, workers, **more)
        passes = [list(numbers), list(numbers)]
        results.append((passes, drawn()[0]))  # the program's next random number is the same too
        assert passes[0] != passes[1]
    assert results[1:] == results[:-1]


@pytest.mark.parametrize("kind", ["tuples", "tensors", "iterators"])
def test_samples_are_counted_in_batches_of_any_kind(kind):
    found = []
    for case in ("batches", kind):
        torch.manual_seed(3)
        numbers = loader(case, 0)
        iterator = iter(numbers)
        batches = [next(iterator), next(iterator)]
        found.append((batches, numbers.state_dict()["samples"]))
    assert found[0] == found[1] and found[1][1] == 2 * BATCH


def test_the_programs_streams_go_on_as_if_nothing_was_loaded():
    torch.manual_seed(1), random.seed(2), np.random.seed(3)
    numbers = loader("shuffled", 0)
    iter(numbers)  # this draws the seed
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    list(numbers)
    after = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    assert torch.equal(before[0], after[0]) and before[1:] == after[1:]


@pytest.mark.parametrize("workers, others", [(0, 2), (2, 0), (2, 3)])
@pytest.mark.parametrize("case", CASES)
def test_resuming_at_the_next_sample(case, workers, others):
    torch.manual_seed(3)
    numbers = loader(case, 0)
    whole, following = list(numbers), list(numbers)
    for stop in range(len(whole) + 1):
        torch.manual_seed(3)
        numbers = loader(case, workers)
        iterator = iter(numbers)
        head = [next(iterator) for _ in range(stop)]
        state = numbers.state_dict()
        assert len(pickle.dumps(state)) < 300
        del iterator
        torch.manual_seed(1000 + stop)
        numbers = loader(case, others)
        numbers.load_state_dict(pickle.loads(pickle.dumps(state)))
        assert numbers.state_dict() == state
        assert head + list(numbers) == whole
        if stop in (0, 2):
            assert list(numbers) == following


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_state_of_another_order_is_refused(shuffled):
    numbers = DataLoader(range(11), batch_size=2, shuffle=shuffled)
    next(iter(numbers))
    other = DataLoader(range(11), batch_size=2, shuffle=not shuffled)
    with pytest.raises(ValueError, match=f"a DataLoader {'with' if shuffled else 'without'} shuffle=True$"):
        other.load_state_dict(numbers.state_dict())


@pytest.mark.parametrize(
    "name, value", [("samples", -1), ("batches", 2**63), ("epoch", True), ("shuffle", -1), ("version", True)]
)
def test_counts_of_a_state_are_checked(name, value):
    numbers = DataLoader(range(11), batch_size=2)
    with pytest.raises(ValueError, match="a DataLoader"):
        numbers.load_state_dict({**numbers.state_dict(), name: value})


def test_a_shuffle_resumes_without_being_reproducible_and_in_other_batches():
    torch.manual_seed(0)
    numbers = DataLoader(range(20), batch_size=4, shuffle=True)
    iterator = iter(numbers)
    next(iterator)
    state = numbers.state_dict()
    rest = [index for batch in iterator for index in batch.tolist()]
    again = DataLoader(range(20), batch_size=5, shuffle=True)
    again.load_state_dict(state)
    assert [index for batch in again for index in batch.tolist()] == rest
    assert numbers.state_dict()["epoch"] == 1 and numbers.state_dict()["batches"] == 0


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("stop", [0, 2])
def test_an_order_that_has_been_drawn_stays_known(stop, workers):
    """Also before the first batch, and in a loader with a loaded state that has not begun."""
    torch.manual_seed(0)
    numbers = DataLoader(range(20), batch_size=4, shuffle=True, num_workers=workers)
    iterator = iter(numbers)  # workers have received the first tasks
    head = [next(iterator).tolist() for _ in range(stop)]
    state = numbers.state_dict()
    whole = head + [batch.tolist() for batch in iterator]
    again = DataLoader(range(20), batch_size=4, shuffle=True)
    again.load_state_dict(state)
    assert again.state_dict() == state
    iterator = iter(again)
    assert again.state_dict() == state
    assert head + [batch.tolist() for batch in iterator] == whole
    assert sorted(index for batch in again for index in batch.tolist()) == list(range(20))


@pytest.mark.parametrize(
    "options, reason",
    [
        ({"in_order": False}, "the next sample is unknown"),
        ({"shuffle": True, "generator": torch.Generator()}, "depends on the program's random state"),
        ({"sampler": SubsetRandomSampler(range(3))}, "depends on the program's random state"),
        ({"dataset": AugmentedStream(), "num_workers": 2}, "the workers split the stream themselves"),
    ],
)
def test_positions_that_are_not_known(options, reason):
    loader = DataLoader(**{"dataset": range(3), **options})
    with pytest.raises(RuntimeError, match=reason):
        loader.state_dict()
    assert not hasattr(loader, "state_dict") and hasattr(DataLoader(range(3)), "state_dict")


def test_states_are_checked():
    state = DataLoader(range(3)).state_dict()
    for wrong in ({}, {**state, "version": 2}, {**state, "samples": "1"}, {**state, "seed": 1}):
        with pytest.raises(ValueError, match=r"state"):
            DataLoader(range(3)).load_state_dict(wrong)


# --- datasets in shared memory -------------------------------------------------------------------------------------


class Large(Dataset):
    def __init__(self, count=100):
        self.names = [f"sample {index}" for index in range(count)]
        self.facts = {name: {"length": len(name)} for name in self.names}
        self.values = np.arange(count * 50.0).reshape(count, 50)
        self.table = torch.arange(count)
        self.mean = np.zeros(3)
        self.parts = [self.values, self.names]
        self.unknown = [lambda: None] * count

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        name = self.names[index]
        return name, self.facts[name]["length"], self.values[index], self.table[index]


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_a_shared_dataset_has_the_same_samples(method):
    plain = Large()
    del plain.unknown
    shared = DataLoader(plain, 30, share_dataset=True, num_workers=2, multiprocessing_context=method)
    for (names, lengths, values, rows), found in zip(DataLoader(plain, 30), shared, strict=True):
        assert found[0] == names
        assert torch.equal(found[1], lengths) and torch.equal(found[2], values) and torch.equal(found[3], rows)


def test_what_is_shared():
    plain = Large()
    frozen = share(plain)
    assert type(frozen.names) is SharedList and type(frozen.facts) is SharedDict and frozen.table.is_shared()
    assert frozen.parts[0] is frozen.values and frozen.parts[1] is frozen.names  # shared references stay shared
    assert frozen.unknown is plain.unknown
    assert not frozen.values.flags.writeable and not frozen.mean.flags.writeable and plain.mean.flags.writeable
    assert (
        list(frozen.names) == plain.names
        and frozen.names[-1] == plain.names[-1]
        and frozen.names[5:7] == plain.names[5:7]
    )
    assert dict(frozen.facts) == plain.facts and list(frozen.facts) == plain.names and "other" not in frozen.facts
    assert len(share({index: str(index) for index in range(100)})) == 100
    assert share(list(range(100)))[99] == 99
    with pytest.raises(IndexError):
        frozen.names[100]
    with pytest.raises(KeyError):
        frozen.facts["other"]


class Walk(Dataset):
    """A dataset that reads itself completely in every worker."""

    def __init__(self, count):
        self.names = [f"{index:0100}" for index in range(count)]

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return sum(len(name) for name in self.names)


@pytest.mark.parametrize("batch_size", [None, 2])
def test_nothing_keeps_the_dataset_that_was_shared(batch_size):
    walk = Walk(100)
    gone = weakref.ref(walk)
    loader = DataLoader(walk, batch_size, share_dataset=True)
    del walk
    assert gone() is None and len(list(loader)) == 8 // (batch_size or 1)


@pytest.mark.parametrize("layout", ["whole", "transposed", "view", "shared", "sparse", "empty"])
def test_shared_tensors_are_what_they_were(layout):
    whole = torch.arange(4096.0).reshape(4, 32, 32)
    made = {
        "whole": lambda: whole,
        "transposed": lambda: whole.permute(2, 0, 1),
        "view": lambda: whole[1:, ::2],
        "shared": lambda: whole.clone().share_memory_(),
        "sparse": lambda: whole[0].to_sparse(),
        "empty": lambda: whole[:0],
    }[layout]().requires_grad_()
    found = share([made])[0]
    parts = [found._indices(), found._values()] if layout == "sparse" else [found]
    assert all(part.is_shared() for part in parts) and found.requires_grad and found.dtype == made.dtype
    assert torch.equal(found.to_dense(), made.to_dense())
    if layout != "sparse":
        assert found.stride() == torch.empty_like(made).stride()
        # Tensors without elements have the address 0.
        assert (found.data_ptr() == made.data_ptr()) == (layout in ("shared", "empty"))


def proportional(pids):
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            total += int(re.search(r"Pss: +(\d+)", file.read())[1])
    return total


def kilobytes(count, workers):
    """The memory of a loader with the given number of names and its workers, after all of them have read everything."""
    numbers = DataLoader(Walk(count), None, share_dataset=True, num_workers=workers)
    iterator = iter(numbers)
    for _ in range(len(numbers)):
        next(iterator)
    return proportional([os.getpid(), *(worker.process.pid for worker in iterator._pool.workers)])


def test_eight_workers_take_the_memory_of_one():
    """The memory for the dataset. The interpreters of the workers are measured separately, with a small dataset."""

    def measured(count, workers):
        # Each in its own process, because the allocator may keep memory of an earlier loader.
        command = f"import test_dataloader_state as test; print(test.kilobytes({count}, {workers}))"
        return int(subprocess.check_output([sys.executable, "-W", "ignore", "-c", command], cwd=Path(__file__).parent))

    count = 100_000  # 13 MB as a list, 8.5 MB frozen
    of_dataset = {workers: measured(count, workers) - measured(16, workers) for workers in (1, 8)}
    assert of_dataset[8] <= 1.1 * of_dataset[1] + 2_000


OWN_MEMORY = """
import re, sys
import numpy
from rushlight.utils.data import DataLoader

if __name__ == "__main__":
    iterator = iter(DataLoader(range(8), num_workers=2, multiprocessing_context=sys.argv[1]))
    next(iterator)
    with open(f"/proc/{iterator._pool.workers[0].process.pid}/smaps_rollup") as file:
        print(re.search(r"Private_Dirty: +(\\d+)", file.read())[1])
"""


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_a_worker_shares_its_interpreter_too(method, tmp_path):
    """A worker's private memory is a few megabytes, also if the program uses NumPy: modules are not loaded again."""
    program = tmp_path / "program.py"
    program.write_text(OWN_MEMORY)
    own = int(subprocess.check_output([sys.executable, program, method]))
    assert own < 8_000  # a new interpreter with both needs 25,000


@pytest.mark.parametrize(
    "line, folder, limit, used",
    [
        ("0::/a/b", "a", "memory.max", "memory.current"),
        ("9:cpu,cpuacct:/other\n4:memory:/a/b\n0::/", "memory/a", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ],
    ids=["second", "first"],
)
def test_memory_of_control_groups_of_both_versions(line, folder, limit, used, tmp_path):
    proc, groups = tmp_path / "proc", tmp_path / "groups"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal:  2097152 kB\nMemFree: 1 kB\nMemAvailable: 1024 kB\n")
    (proc / "self/cgroup").write_text(line)
    (groups / folder / "b").mkdir(parents=True)
    of_machine = ["MemTotal 2.0 GiB", "MemAvailable 1 MiB"]
    assert memory_report(proc, groups) == of_machine
    for at, group in ((f"{folder}/b", "9223372036854771712"), (folder, str(3 << 20))):
        (groups / at / limit).write_text(group)
        (groups / at / used).write_text(str(1 << 20))
    assert memory_report(proc, groups) == [*of_machine, "the control group uses 1 MiB of 3 MiB"]
    assert memory_report(tmp_path, groups) == []
