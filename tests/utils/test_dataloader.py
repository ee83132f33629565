"""The loader: torch's orders and messages, and the same batches for any number of workers."""

import contextlib
import copy
import math
import os
import pickle
import random
import threading
import time
import warnings

import pytest
from loaders import Numbers, Stream, batches, plain

import rushlight as torch
from rushlight.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info

# The machine may have fewer processors than a test has workers.
pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.usefixtures("no_process_is_left"),
]


# --- order -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_shuffle_has_torchs_order(workers):
    torch.manual_seed(0)
    assert batches(range(10), shuffle=True, batch_size=4, num_workers=workers) == [[6, 7, 1, 4], [2, 0, 9, 8], [3, 5]]
    assert torch.rand(1).item() == pytest.approx(0.30742281675338745, abs=0)


@pytest.mark.parametrize("workers", [0, 1])
def test_generator_has_torchs_order(workers):
    generator = torch.Generator().manual_seed(1)
    found = batches(range(10), shuffle=True, batch_size=4, num_workers=workers, generator=generator)
    assert found == [[4, 6, 9, 2], [3, 1, 0, 7], [8, 5]]


def test_two_passes_have_torchs_order():
    torch.manual_seed(0)
    numbers = DataLoader(range(10), shuffle=True, batch_size=4)
    assert [plain(batch) for batch in numbers] == [[6, 7, 1, 4], [2, 0, 9, 8], [3, 5]]
    assert [plain(batch) for batch in numbers] == [[2, 4, 7, 0], [8, 9, 5, 3], [6, 1]]


@pytest.mark.parametrize("options", [{}, {"drop_last": True}, {"batch_size": None}, {"prefetch_factor": 1}])
def test_batches_do_not_depend_on_the_number_of_workers(options):
    dataset = TensorDataset(torch.arange(23), torch.arange(23) * 2)
    results = []
    for workers in (0, 1, 2, 4):
        torch.manual_seed(5)
        chosen = {"batch_size": 3, "shuffle": True, "num_workers": workers, **options}
        if workers == 0:
            chosen.pop("prefetch_factor", None)
        results.append([[plain(part) for part in batch] for batch in DataLoader(dataset, **chosen)])
    assert all(result == results[0] for result in results)


def test_streams_take_turns():
    found = [plain(b) for b in DataLoader(Stream([5, 2, 3]), batch_size=2, num_workers=3)]
    assert found == [[0, 1], [100, 101], [200, 201], [2, 3], [202], [4]]


def test_persistent_workers():
    numbers = DataLoader(Stream([3, 3]), batch_size=2, num_workers=2, persistent_workers=True)
    first = [plain(batch) for batch in numbers]
    workers = [worker.process.pid for worker in numbers._iterator._pool.workers]
    assert [plain(batch) for batch in numbers] == first == [[0, 1], [100, 101], [2], [102]]
    assert [worker.process.pid for worker in numbers._iterator._pool.workers] == workers
    for _ in numbers:  # leave early: prefetched batches must not appear in the next pass
        break
    assert [plain(batch) for batch in numbers] == first


def test_threads_share_a_pass():
    """With persistent workers every `iter` returns the same pass, so that several threads can take batches from it."""
    loader = DataLoader(Numbers(60), num_workers=2, persistent_workers=True)
    passes = [iter(loader) for _ in range(3)]
    found = []
    threads = [threading.Thread(target=lambda numbers=numbers: found.extend(map(plain, numbers))) for numbers in passes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [[index] for index in range(60)]
    assert [plain(batch) for batch in loader] == [[index] for index in range(60)]


def test_a_copy_has_workers_of_its_own():
    loader = DataLoader(Numbers(4), num_workers=1, persistent_workers=True)
    assert len(list(loader)) == 4
    other = copy.deepcopy(loader)
    assert [plain(batch) for batch in other] == [plain(batch) for batch in loader] == [[0], [1], [2], [3]]
    assert other._iterator is not loader._iterator


def test_a_forked_process_starts_workers_of_its_own():
    loader = DataLoader(Numbers(4), num_workers=1, persistent_workers=True)
    assert len(list(loader)) == 4
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.write(theirs, bytes(batch.item() for batch in loader))
        os._exit(0)
    os.close(theirs)
    with open(ours, "rb") as found:
        assert found.read() == bytes(range(4))
    os.waitpid(child, 0)
    assert len(list(loader)) == 4


def test_out_of_order():
    slow = Numbers(6, lambda: time.sleep(0.5), at=0)
    found = [plain(batch)[0] for batch in DataLoader(slow, num_workers=2, in_order=False)]
    assert sorted(found) == list(range(6)) and found[0] != 0


def test_shard_gives_each_item_once():
    class Whole(IterableDataset):
        def __iter__(self):
            return iter(range(7))

    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="Each of the")
        found = [
            item for batch in DataLoader(Whole(), num_workers=3, shard="auto", batch_size=2) for item in plain(batch)
        ]
    assert found == list(range(7))
    with pytest.warns(UserWarning, match=r"every item comes once per worker"):
        assert len(list(DataLoader(Whole(), num_workers=2))) == 14


# --- workers -----------------------------------------------------------------------------------------------------


class Facts(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        info = get_worker_info()
        return (
            info.id,
            info.num_workers,
            info.seed,
            torch.initial_seed(),
            torch.get_num_threads(),
            random.randint(0, 100),
        )


def test_workers_are_seeded_as_torch_seeds_them():
    assert get_worker_info() is None
    torch.manual_seed(0)
    found = [[plain(part)[0] for part in batch] for batch in DataLoader(Facts(), num_workers=2)]
    seed = 900450186894289455
    assert [row[:5] for row in found] == [[i % 2, 2, seed + i % 2, seed + i % 2, 1] for i in range(4)]
    assert [row[5] for row in found] == [27, 98, 35, 20]


def test_numpy_in_workers_is_seeded_as_torch_seeds_it():
    numpy = pytest.importorskip("numpy")

    class Random(Numbers):
        def __getitem__(self, index):
            return int(numpy.random.randint(100))

    torch.manual_seed(0)
    # In the recorded run, workers also draw torch.randint and random.randint, which are separate streams.
    assert [plain(batch)[0] for batch in DataLoader(Random(), num_workers=2)] == [10, 23, 41, 74, 50, 37]


def test_worker_init_fn():
    def init(worker):
        get_worker_info().dataset.at = worker

    def collate(samples):
        return get_worker_info().dataset.at

    assert list(DataLoader(Numbers(4), num_workers=2, worker_init_fn=init, collate_fn=collate)) == [0, 1, 0, 1]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_other_start_methods(method):
    dataset = TensorDataset(torch.arange(4))
    found = [
        plain(batch[0]) for batch in DataLoader(dataset, num_workers=2, batch_size=2, multiprocessing_context=method)
    ]
    assert found == [[0, 1], [2, 3]]


def test_large_results_do_not_block():
    dataset = [b"x" * 1_000_000] * 8
    assert [len(batch[0]) for batch in DataLoader(dataset, num_workers=2, collate_fn=list)] == [1_000_000] * 8


# --- arguments -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"num_workers": -1}, ValueError, "num_workers option should be non-negative"),
        ({"timeout": -1}, ValueError, "timeout option should be non-negative"),
        ({"prefetch_factor": 2}, ValueError, "prefetch_factor option could only be specified in multiprocessing"),
        ({"num_workers": 1, "prefetch_factor": -1}, ValueError, "prefetch_factor option should be non-negative"),
        ({"persistent_workers": True}, ValueError, "persistent_workers option needs num_workers > 0"),
        ({"sampler": [1], "shuffle": True}, ValueError, "sampler option is mutually exclusive with shuffle"),
        (
            {"batch_sampler": [[1]], "batch_size": 2},
            ValueError,
            "batch_sampler option is mutually exclusive with batch_size",
        ),
        ({"batch_size": None, "drop_last": True}, ValueError, "batch_size=None option disables auto-batching"),
        ({"batch_size": 0}, ValueError, "batch_size should be a positive integer value, but got batch_size=0"),
        (
            {"multiprocessing_context": "fork"},
            ValueError,
            "multiprocessing_context can only be used with multi-process",
        ),
        ({"multiprocessing_context": "no", "num_workers": 1}, ValueError, "should specify a valid start method in"),
        ({"multiprocessing_context": 3, "num_workers": 1}, TypeError, "should be a valid context object or a string"),
        ({"shard": "all"}, ValueError, "shard option should be None or 'auto'"),
    ],
)
def test_arguments_are_checked(options, error, message):
    with pytest.raises(error, match=message):
        DataLoader(range(3), **options)


@pytest.mark.parametrize(
    "options",
    [{"num_workers": 1.5}, {"num_workers": 0.5}]
    + [{"num_workers": 1, "prefetch_factor": factor} for factor in (1.5, 2.0, 0.5, math.nan, math.inf)],
    ids=str,
)
def test_numbers_of_workers_and_of_batches_ahead_are_integers(options):
    """As in torch this is checked when the pass begins. With a fraction it did not end."""
    numbers = DataLoader(range(8), batch_size=2, **options)
    with pytest.raises(TypeError, match="^'float' object cannot be interpreted as an integer$"):
        iter(numbers)


def test_a_timeout_that_is_no_number_has_no_limit():
    assert len(list(DataLoader(range(4), num_workers=1, timeout=math.nan))) == 4


def test_a_timeout_needs_workers():
    """As in torch it is read when the pass begins, so that the number of workers may still change."""
    numbers = DataLoader(range(3), timeout=5)
    with pytest.raises(AssertionError, match="_SingleProcessDataLoaderIter requires timeout == 0"):
        iter(numbers)


@pytest.mark.parametrize("option", ["shuffle", "sampler", "batch_sampler"])
def test_streams_have_their_own_order(option):
    with pytest.raises(ValueError, match=rf"DataLoader with IterableDataset: expected unspecified {option} option"):
        DataLoader(Stream([1]), **{option: [[1]]})


def test_attributes_that_are_fixed():
    numbers = DataLoader(range(3), batch_size=2)
    for name in ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"):
        with pytest.raises(ValueError, match=rf"{name} attribute should not be set after DataLoader is initialized"):
            setattr(numbers, name, 4)
    with pytest.raises(NotImplementedError, match=r"cannot be pickled"):
        pickle.dumps(iter(numbers))


def test_length():
    assert len(DataLoader(range(5), batch_size=2)) == 3
    assert len(DataLoader(range(5), batch_size=2, drop_last=True)) == 2
    with pytest.raises(TypeError, match=r"has no len"):
        len(DataLoader(Stream([1])))


def test_a_stream_longer_than_it_said():
    class Liar(Stream):
        def __len__(self):
            return 2

    numbers = DataLoader(Liar([3]))
    assert len(numbers) == 2
    with pytest.warns(UserWarning, match=r"reported to be 2\(when accessing len\(dataloader\)\), but 3 samples"):
        list(numbers)


def test_too_many_workers():
    with pytest.warns(
        UserWarning, match=r"This DataLoader will create 5000 worker processes in total. Our suggested max"
    ):
        DataLoader(range(3), num_workers=5000)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device to pin for")
def test_pinning_without_a_device():
    numbers = DataLoader([torch.zeros(1)], pin_memory=True)
    with pytest.warns(UserWarning, match=r"'pin_memory' argument is set as true but no accelerator is found"):
        assert len(list(numbers)) == 1


def test_a_new_task_is_at_its_first_sample():
    """The report about a worker that ends before the first sample does not name a sample of the previous batch."""
    from rushlight.utils.data._utils.flight_recorder import FlightRecorder

    recorder = FlightRecorder()
    recorder.begin(1)
    recorder.note(7)
    recorder.begin(2)
    assert (recorder.task, recorder.position) == (2, 0)
    recorder.close()


def test_a_number_of_workers_that_is_no_number_is_found_when_the_pass_begins():
    numbers = DataLoader(range(3), num_workers=math.nan)
    with pytest.raises(TypeError, match="^'<=' not supported between instances of 'NoneType' and 'int'"):
        iter(numbers)
