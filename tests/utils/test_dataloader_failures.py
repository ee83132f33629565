"""Workers that raise errors, crash, hang or are abandoned, and parents that end: messages, and no leftovers."""

import contextlib
import gc
import itertools
import os
import resource
import signal
import subprocess
import sys
import time

import pytest
from loaders import Numbers, batches, children, plain

from rushlight.utils.data import DataLoader, Dataset, IterableDataset

# The machine may have fewer processors than a test has workers.
pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.usefixtures("no_process_is_left"),
]


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
    assert note.startswith("Worker 0 raised it while loading batch 2, last index 5.\nMemory: the worker's peak ")


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


def test_a_worker_that_dies_before_its_first_batch_was_at_none():
    with pytest.raises(RuntimeError, match="Worker 0 exited with status 3 before its first batch"):
        list(DataLoader(Numbers(4), num_workers=1, worker_init_fn=lambda worker: os._exit(3)))


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
    """Samples that are sent in a memory file. From index `at` on, the worker may open no more files."""

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
    # The previous sample may still be in transit when no more files can be opened.
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
    assert not children()


def _fail():
    raise ValueError("no luck")


def test_nothing_stays_open():
    """At the end of a pass its descriptors are closed, however it ends."""

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


class HandlerError(Exception):
    pass


class Slow(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        time.sleep(0.03)
        return index


class SlowStream(IterableDataset):
    def __iter__(self):
        for index in range(12):
            time.sleep(0.03)
            yield index


@pytest.mark.parametrize("data", [Slow(), SlowStream()])
@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("error", [HandlerError, KeyboardInterrupt])
def test_a_pass_goes_on_after_an_exception_from_a_signals_handler(data, method, error):
    def handler(_, frame):
        # Elsewhere the exception could meet a batch that is being received, which is an error.
        while frame is not None:
            if frame.f_code.co_name == "wait_for_result":
                raise error
            frame = frame.f_back

    before = signal.signal(signal.SIGALRM, handler)
    numbers = iter(DataLoader(data, batch_size=None, num_workers=1, multiprocessing_context=method))
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.05)
    raised, got = 0, []
    try:
        while True:
            try:
                got.append(next(numbers))
            except error:
                raised += 1
            except StopIteration:
                break
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert raised and got == list(range(12))


@pytest.mark.parametrize("data", [Slow(), SlowStream()])
def test_an_exception_at_any_moment_loses_nothing_in_silence(data, monkeypatch):
    armed = [True]

    def handler(*_):
        if armed:
            raise HandlerError

    # pytest's own hook would be interrupted too.
    monkeypatch.setattr(sys, "unraisablehook", lambda *_: None)
    before = signal.signal(signal.SIGALRM, handler)
    got = []
    try:
        numbers = iter(DataLoader(data, batch_size=None, num_workers=1))
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0007)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                got.append(next(numbers))
            except HandlerError:
                pass
            except RuntimeError as lost:
                assert "a batch was lost, because HandlerError was raised" in str(lost)
                return
            except StopIteration:
                break
        else:
            pytest.fail("the pass does not end")
    except HandlerError:
        return  # outside of the loader
    finally:
        del armed[:]
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(got) <= 12


@pytest.mark.parametrize("error", [HandlerError, RuntimeError])
def test_a_batch_that_is_lost_on_its_way_does_not_look_like_the_end(error, monkeypatch):
    # One worker: with two, the second batch may arrive before the first, and is then no longer received.
    numbers = iter(DataLoader(Numbers(8), num_workers=1))
    next(numbers)

    def interrupted():
        raise error

    for worker in numbers._pool.workers:
        monkeypatch.setattr(worker.connection, "recv", interrupted)
    with pytest.raises(error):
        next(numbers)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=rf"a batch was lost, because {error.__name__} was raised"):
            next(numbers)


def _interrupted_at(place, workers):
    """A pass of batches whose second `next` gets an exception at a call or return in the loader's files, as from a handler.

    Returns:
        the batches, the text of the error that the pass ends with, and the functions that were running; none if there
        are fewer calls.
    """
    numbers = iter(DataLoader(range(8), batch_size=2, num_workers=workers))
    got = [next(numbers)]
    count, running = 0, []

    def event(frame, kind, _):
        nonlocal count
        if kind in ("call", "c_return") and "/utils/data/" in frame.f_code.co_filename:
            count += 1
            if count == place:
                while frame is not None:
                    running.append(frame.f_code.co_qualname)
                    frame = frame.f_back
                raise HandlerError

    lost = ""
    sys.setprofile(event)
    try:
        got.append(next(numbers))
    except HandlerError:
        pass
    finally:
        sys.setprofile(None)
    try:
        got.extend(numbers)
    except RuntimeError as error:
        lost = str(error)
    return [batch.tolist() for batch in got], lost, running


@pytest.mark.parametrize("workers", [0, 1])
def test_an_exception_at_each_call_loses_nothing_in_silence(workers):
    everything = [[0, 1], [2, 3], [4, 5], [6, 7]]
    kept = 0
    for place in itertools.count(1):
        got, lost, running = _interrupted_at(place, workers)
        if not running:
            break
        if lost:
            assert "a batch was lost, because HandlerError was raised while" in lost
            assert got == everything[: len(got)]
        elif got != everything:
            # Without workers, the exception is like one of the dataset.
            assert not workers and {"MapDatasetFetcher.fetch", "_Batch.__init__"} & {*running}, running
        kept += got == everything
    assert place > 20 and kept > 3


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_of_the_sampler_does_not_look_like_the_end(workers):
    def sampler():
        yield from range(5)
        raise ValueError("no more")

    numbers = iter(DataLoader(Numbers(8), sampler=sampler(), batch_size=None, num_workers=workers))
    got = []
    with pytest.raises(
        RuntimeError, match="a batch was lost, because ValueError was raised while its indices were drawn"
    ):
        for _ in range(8):
            with contextlib.suppress(ValueError):
                got.append(int(next(numbers)))
    assert got == [0, 1, 2, 3, 4]


class Closing(IterableDataset):
    def __init__(self, path):
        self.path = path

    def __iter__(self):
        try:
            yield from range(10)
        finally:
            self.path.touch()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_an_early_break_closes_the_generator_in_the_worker(method, tmp_path):
    path = tmp_path / "closed"
    for _ in DataLoader(Closing(path), num_workers=1, multiprocessing_context=method):
        break
    gc.collect()
    assert path.exists()


_STUCK = """
import os, sys, time
from rushlight.utils.data import DataLoader, Dataset
from rushlight.utils.data._utils import worker

worker._LAST_SECONDS = 0.2

class Stuck(Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, index):
        os.write(1, b"%d\\n" % os.getpid())
        time.sleep(1000)

if __name__ == "__main__":
    list(DataLoader(Stuck(), num_workers=1, multiprocessing_context=sys.argv[1]))
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_worker_that_is_stuck_ends_with_its_parent(method, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(_STUCK)
    with subprocess.Popen([sys.executable, str(script), method], stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        parent.kill()
        parent.wait()
        deadline = time.monotonic() + 30
        while _runs(pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        try:
            assert not _runs(pid)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
