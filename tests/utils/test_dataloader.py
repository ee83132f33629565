"""The loader: torch's orders and messages, the same batches for any number of workers, and workers that fail or die."""

import contextlib
import gc
import multiprocessing
import os
import pickle
import random
import resource
import signal
import subprocess
import sys
import time
import warnings

import pytest

import rushlight as torch
from rushlight.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info


class Numbers(Dataset):
    """`action` happens at one index."""

    def __init__(self, count=6, action=None, at=3):
        self.count, self.action, self.at = count, action, at

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if self.action is not None and index == self.at:
            self.action()
        return index


class Stream(IterableDataset):
    """The numbers of each worker's own list."""

    def __init__(self, lengths):
        self.lengths = lengths

    def __iter__(self):
        info = get_worker_info()
        worker = 0 if info is None else info.id
        return iter(range(100 * worker, 100 * worker + self.lengths[worker]))


def plain(batch):
    return batch.tolist() if isinstance(batch, torch.Tensor) else batch


def batches(dataset, **options):
    return [plain(batch) for batch in DataLoader(dataset, **options)]


# The machine may have fewer processors than a test has workers.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


@pytest.fixture(autouse=True)
def _no_process_is_left():
    yield
    gc.collect()  # `pytest.raises` keeps the frames of what it has caught
    deadline = time.monotonic() + 60
    while (left := _children()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left


def _children():
    return [child for child in multiprocessing.active_children() if child.daemon]


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
    for _ in numbers:  # leave early: what was prefetched must not appear in the next pass
        break
    assert [plain(batch) for batch in numbers] == first


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
    # Workers draw torch.randint and random.randint in the recorded run too, which are streams of their own.
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


# --- failures ----------------------------------------------------------------------------------------------------


class Special(Exception):
    def __init__(self, first, second):
        super().__init__(first, second)


def raiser(error):
    def action():
        raise error

    return action


@pytest.mark.parametrize(
    "error, kind, name, said",
    [
        (KeyError("abc"), KeyError, "KeyError", "KeyError: 'abc'"),
        (ValueError("abc"), ValueError, "ValueError", "ValueError: abc"),
        (Special(1, 2), RuntimeError, "Special", "Special"),
    ],
)
def test_an_error_in_the_dataset_arrives(error, kind, name, said):
    with pytest.raises(kind) as info:
        list(DataLoader(Numbers(action=raiser(error)), num_workers=2))
    lines = str(info.value).splitlines()
    assert lines[0] == f"Caught {name} in DataLoader worker process 1."
    assert lines[1] == "Original Traceback (most recent call last):"
    assert said in lines[-1]


def test_an_error_says_where_it_happened():
    def fail():
        raise ValueError

    with pytest.raises(ValueError) as info:
        list(DataLoader(Numbers(8, fail, at=5), batch_size=2, num_workers=2))
    (note,) = info.value.__notes__
    assert note.startswith("Worker 0 raised it while it loaded batch 2, last index 5.\nMemory: the worker's peak ")


def test_after_an_error_the_next_batches_come():
    found = []
    numbers = iter(DataLoader(Numbers(action=raiser(ValueError("x"))), num_workers=2))
    while True:
        try:
            found.append(plain(next(numbers))[0])
        except StopIteration:
            break
        except ValueError:
            found.append("error")
    assert found == [0, 1, 2, "error", 4, 5]


def test_errors_elsewhere_in_a_worker():
    def init(worker):
        raise ValueError("init")

    with pytest.raises(ValueError, match=r"Caught ValueError in DataLoader worker process 0"):
        list(DataLoader(range(2), num_workers=1, worker_init_fn=init))

    class Broken(IterableDataset):
        def __iter__(self):
            raise ValueError("iter")

    with pytest.raises(ValueError, match=r"Caught ValueError in DataLoader worker process 0"):
        list(DataLoader(Broken(), num_workers=1))
    with pytest.raises(Exception, match=r"Caught .* in DataLoader worker process 0"):
        list(DataLoader([lambda: 1], num_workers=1, collate_fn=lambda samples: samples))


def end(*_):
    raise StopIteration("of another iterator")


class Batches(Numbers):
    def __getitems__(self, indices):
        return end()


class Unopened(IterableDataset):
    def __iter__(self):
        return end()


class Endless(IterableDataset):
    def __iter__(self):
        return iter([1, 2, 3])


STRAY = {
    "a sample of a batch": ({"dataset": Numbers(6, end), "batch_size": 4}, "The dataset", "batch 0, last index 3"),
    "a sample alone": ({"dataset": Numbers(6, end), "batch_size": None}, "The dataset", "batch 3, last index 3"),
    "a batch asked for at once": ({"dataset": Batches(), "batch_size": 2}, "The dataset", "batch 0, last index 0"),
    "collate_fn": ({"dataset": Numbers(), "batch_size": 2, "collate_fn": end}, "collate_fn", "batch 0"),
    "collate_fn of a stream": ({"dataset": Endless(), "batch_size": 2, "collate_fn": end}, "collate_fn", "batch 0"),
    "collate_fn of one": ({"dataset": Endless(), "batch_size": None, "collate_fn": end}, "collate_fn", "batch 0"),
    "the stream's __iter__": ({"dataset": Unopened()}, "The dataset's __iter__", "before its stream began"),
}


@pytest.mark.parametrize("workers, reproducible", [(0, False), (0, True), (1, False), (2, True)])
@pytest.mark.parametrize("case", STRAY)
def test_a_stop_iteration_from_within_is_an_error_and_not_the_end(case, workers, reproducible):
    options, culprit, place = STRAY[case]
    with pytest.raises(RuntimeError) as info:
        list(DataLoader(**options, num_workers=workers, reproducible=reproducible))
    text = str(info.value)
    assert f"RuntimeError: {culprit} raised StopIteration " in f"RuntimeError: {text}" and place in text
    if workers:
        assert text.startswith("Caught RuntimeError in DataLoader worker process ")
        assert "StopIteration: of another iterator" in text
    else:
        assert isinstance(info.value.__cause__, StopIteration)


def test_a_stop_iteration_from_worker_init_fn_is_an_error():
    with pytest.raises(RuntimeError, match="Caught StopIteration in DataLoader worker process 0"):
        list(DataLoader(range(2), num_workers=1, worker_init_fn=end))


def test_a_stream_ends_where_its_iterator_does_and_a_generator_may_not_raise():
    class Generator(IterableDataset):
        def __iter__(self):
            yield 1
            end()

    for workers in (0, 1):
        assert batches(Endless(), batch_size=2, num_workers=workers) == [[1, 2], [3]]
        with pytest.raises(RuntimeError, match="generator raised StopIteration"):
            list(DataLoader(Generator(), num_workers=workers))


@pytest.mark.parametrize(
    "action, words",
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), ["SIGKILL", "out of memory"]),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), ["SIGSEGV", "Python stack of the worker", "__getitem__"]),
        (lambda: os._exit(3), ["exited with status 3"]),
    ],
)
def test_a_dead_worker_is_reported(action, words):
    with pytest.raises(RuntimeError) as info:
        list(DataLoader(Numbers(8, action, at=5), batch_size=2, num_workers=2))
    text = str(info.value)
    assert text.startswith("DataLoader worker (pid(s) ") and " exited unexpectedly\nWorker 0 " in text
    for word in [*words, "last index 5", "Memory: "]:
        assert word in text


def test_a_worker_that_is_killed_from_outside_is_reported_while_its_sample_is_still_awaited():
    numbers = iter(DataLoader(Numbers(8, lambda: time.sleep(1000), at=2), num_workers=2))
    next(numbers), next(numbers)
    victim = numbers._pool.workers[0].process.pid
    os.kill(victim, signal.SIGKILL)
    with pytest.raises(RuntimeError, match=rf"DataLoader worker \(pid\(s\) {victim}\) exited unexpectedly"):
        next(numbers)
    with pytest.raises(StopIteration):
        next(numbers)


class Large(Dataset):
    """Samples that want a file of memory for their way, in a worker that may open no more files from `at` on."""

    def __init__(self, at):
        self.at = at

    def __len__(self):
        return 4

    def __getitem__(self, index):
        if index == self.at:
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
        return b"x" * 100_000


def test_a_worker_that_cannot_send_says_so():
    found = []
    with pytest.raises(OSError, match="Caught OSError in DataLoader worker process 0"):
        for batch in DataLoader(Large(at=2), batch_size=None, num_workers=1, timeout=30):
            found.append(len(batch))
    # The sample before may still be on its way when no more files may be opened.
    assert found in ([100_000], [100_000] * 2)


def test_timeout():
    with pytest.raises(RuntimeError, match=r"^DataLoader timed out after 0.5 seconds\n") as info:
        list(DataLoader(Numbers(action=lambda: time.sleep(60)), num_workers=2, timeout=0.5))
    for word in ("Worker 1 (pid ", "last index 3", "Memory: ", "Python stack of the worker", "__getitem__"):
        assert word in str(info.value)


def test_leaving_early_leaves_no_process():
    numbers = DataLoader(Numbers(100), num_workers=2)
    for _ in numbers:
        break
    iterator = iter(numbers)
    next(iterator)
    del iterator
    assert not _children()


def _fail():
    raise ValueError("no luck")


def test_nothing_stays_open():
    """However a pass ends, its descriptors are closed."""

    def pass_over(action):
        numbers = DataLoader(Numbers(6, action), num_workers=2)
        with contextlib.suppress(ValueError, RuntimeError):
            for batch in numbers:
                if action is None and batch == 2:
                    break

    pass_over(None)
    before = os.listdir("/proc/self/fd")
    for action in (None, _fail, lambda: os._exit(1)):
        pass_over(action)
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) == len(before), action


_INTERRUPTED = """
import os, signal, time
import rushlight as torch
from rushlight.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self): return 1000
    def __getitem__(self, index):
        time.sleep(0.01)
        return index

numbers = iter(DataLoader(Slow(), num_workers=2))
next(numbers)
print(*(worker.process.pid for worker in numbers._pool.workers), flush=True)
for _ in numbers:
    pass
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_parent_that_ends_takes_its_workers_along(number):
    script = subprocess.Popen(
        [sys.executable, "-c", _INTERRUPTED],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    workers = [int(pid) for pid in script.stdout.readline().split()]
    assert len(workers) == 2
    if number == signal.SIGINT:
        os.killpg(script.pid, number)  # as a terminal does
    else:
        script.kill()
    script.wait(timeout=20)
    deadline = time.monotonic() + 60
    while any(_runs(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(_runs(pid) for pid in workers)
    script.stdout.close()


_INTERRUPTED_EARLY = """
import gc, multiprocessing, os, signal, sys
import rushlight as torch
from rushlight import multiprocessing as ours
from rushlight.utils.data import DataLoader

method, place, at = sys.argv[1], sys.argv[2], int(sys.argv[3])
home = {
    "fork": (os, "fork"),
    "spawn": (multiprocessing.util, "spawnv_passfds"),
    "memory": (os, "memfd_create"),
    "wait": (multiprocessing.popen_fork.Popen, "wait"),
}[place]
called, calls = getattr(*home), 0

def interrupted(*args, **options):
    global calls
    result = called(*args, **options)
    if result != 0 or place == "wait":  # 0 is what the child gets
        calls += 1
        if calls == at:
            os.kill(os.getpid(), signal.SIGINT)
    return result

def left():
    children = open(f"/proc/self/task/{os.getpid()}/children").read().split()
    links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    # How long shared memory is kept is its own affair.
    return len(children), sum("/memfd:rushlight " not in os.readlink(link) for link in links if os.path.lexists(link))

if __name__ == "__main__":
    list(DataLoader(range(4), num_workers=1, multiprocessing_context=method))
    before = left()
    setattr(*home, interrupted)
    try:
        for _ in DataLoader(range(100), num_workers=3, multiprocessing_context=method):
            pass
        print("no Ctrl-C was felt")
    except KeyboardInterrupt:
        pass
    setattr(*home, called)
    gc.collect()
    print(before, left())
"""


@pytest.mark.parametrize(
    "method, place, at",
    [("fork", "fork", 1), ("fork", "fork", 3), ("fork", "memory", 2), ("spawn", "spawn", 2), ("fork", "wait", 1)],
)
def test_ctrl_c_while_workers_start_or_end_leaves_none(method, place, at, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(_INTERRUPTED_EARLY)
    done = subprocess.run([sys.executable, script, method, place, str(at)], capture_output=True, text=True, timeout=120)
    counts = done.stdout.strip()
    assert counts.startswith("(") and counts.split(") (")[0] + ")" == "(" + counts.split(") (")[1], done


def _runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


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


def test_a_timeout_needs_workers():
    """As in torch it is asked for when the pass begins, so that the number of workers may still change."""
    numbers = DataLoader(range(3), timeout=5)
    with pytest.raises(AssertionError, match="timeout is for workers"):
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
    """A worker that dies before the first sample is not described by one of the batch before."""
    from rushlight.utils.data._utils.flight_recorder import FlightRecorder

    recorder = FlightRecorder()
    recorder.begin(1)
    recorder.note(7)
    recorder.begin(2)
    assert (recorder.task, recorder.position) == (2, 0)
    recorder.close()
