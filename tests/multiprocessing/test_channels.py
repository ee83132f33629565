"""Queues, pipes, pools and spawn with plain objects: every start method, limits, kills and leftovers."""

import contextlib
import multiprocessing
import os
import pickle
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from queue import Empty, Full

import pytest
from leftovers import named_memory
from ranks import PATIENCE

import rushlight as torch
import rushlight.multiprocessing as mp
from rushlight.multiprocessing import bundle, channel, queues

METHODS = ["fork", "spawn", "forkserver"]


@pytest.fixture(params=METHODS)
def context(request):
    return mp.get_context(request.param)


@pytest.fixture(autouse=True)
def watchdog():
    """Makes a test that hangs fail."""

    def give_up(*_):
        raise TimeoutError("the test hangs")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def echo(source, target):
    while (item := source.get()) is not None:
        target.put(item)


def square(x):
    return x * x


def fail(x):
    raise ValueError(f"no {x}")


class TestQueue:
    def test_objects_of_all_sizes_go_there_and_back(self, context):
        there, back = context.Queue(), context.SimpleQueue()
        process = context.Process(target=echo, args=(there, back))
        process.start()
        for item in [0, "text", b"x" * 40_000, b"y" * 5_000_000, {"a": [1, 2]}, None][:-1]:
            there.put(item)
            assert back.get() == item
        there.put(None)
        process.join()
        assert process.exitcode == 0

    def test_put_returns_before_anybody_reads(self):
        queue = mp.Queue()
        for number in range(5000):
            queue.put((number, b"x" * 100))
        assert queue.qsize() == 5000
        assert [queue.get()[0] for _ in range(5000)] == list(range(5000))
        assert queue.qsize() == 0 and queue.empty()

    def test_order_holds_when_the_socket_fills_and_empties(self):
        queue = mp.Queue()
        reader_saw = []
        reader = threading.Thread(target=lambda: reader_saw.extend(queue.get() for _ in range(20_000)))
        reader.start()
        for number in range(20_000):
            queue.put(number)
        reader.join()
        assert reader_saw == list(range(20_000))

    def test_bounded(self, context):
        queue = context.Queue(2)
        queue.put(1)
        queue.put(2)
        assert queue.full() and queue.qsize() == 2
        with pytest.raises(Full):
            queue.put_nowait(3)
        with pytest.raises(Full):
            queue.put(3, timeout=0.01)
        taken = []
        reader = threading.Timer(0.05, lambda: taken.append(queue.get()))
        reader.start()
        queue.put(3, timeout=PATIENCE)
        reader.join()
        assert taken == [1]
        assert [queue.get(), queue.get()] == [2, 3] and not queue.full()

    def test_empty(self):
        queue = mp.Queue()
        with pytest.raises(Empty):
            queue.get_nowait()
        with pytest.raises(Empty):
            queue.get(timeout=0.01)
        assert queue.empty()
        writer = threading.Timer(0.05, queue.put, [1])
        writer.start()
        assert queue.get(timeout=PATIENCE) == 1
        writer.join()

    def test_closed(self):
        queue = mp.Queue()
        queue.put(1)
        queue.close()
        queue.join_thread()
        for call in (lambda: queue.put(1), queue.get):
            with pytest.raises(ValueError, match="is closed"):
                call()

    def test_what_cannot_be_pickled_is_an_error_of_put(self):
        queue = mp.Queue(1)
        with pytest.raises((pickle.PicklingError, AttributeError)):
            queue.put(lambda: 0)
        queue.put(1)
        assert queue.get() == 1

    def test_what_cannot_be_sent_takes_no_room(self):
        queue = mp.JoinableQueue(2)
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        # A long message is sent in a file, and there is no descriptor for it.
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
        try:
            for _ in range(5):
                with pytest.raises(OSError, match="Too many open files"):
                    queue.put(bytes(100_000))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        assert queue.qsize() == 0
        queue.join()
        queue.put(1, block=False)
        queue.put(2, block=False)
        assert [queue.get(), queue.get()] == [1, 2]

    def test_may_only_be_inherited(self):
        with pytest.raises(RuntimeError, match="inheritance"):
            pickle.dumps(mp.Queue())

    def test_is_one_of_multiprocessing(self):
        assert isinstance(mp.Queue(), multiprocessing.queues.Queue)

    def test_what_was_put_before_the_end_arrives(self, context):
        queue = context.Queue()
        process = context.Process(target=put_many, args=(queue, 3000))
        process.start()
        assert [queue.get() for _ in range(3000)] == list(range(3000))
        process.join()
        assert process.exitcode == 0

    def test_cancel_join_thread_ends_at_once(self):
        context = mp.get_context("fork")
        queue = context.Queue()
        process = context.Process(target=put_many, args=(queue, 100_000, True))
        process.start()
        process.join(PATIENCE)
        assert process.exitcode == 0

    def test_joinable(self, context):
        queue = context.JoinableQueue()
        process = context.Process(target=do_tasks, args=(queue,))
        process.start()
        for number in range(20):
            queue.put(number)
        queue.join()
        queue.put(None)
        process.join()
        queue.task_done()
        with pytest.raises(ValueError, match="too many times"):
            queue.task_done()

    def test_many_writers_and_readers(self, context):
        source, target = context.Queue(3), context.Queue()
        workers = [context.Process(target=echo, args=(source, target)) for _ in range(3)]
        for worker in workers:
            worker.start()
        for number in range(300):
            source.put(number)
        assert sorted(target.get() for _ in range(300)) == list(range(300))
        for _ in workers:
            source.put(None)
        for worker in workers:
            worker.join()
            assert worker.exitcode == 0


def put_many(queue, count, cancel=False):
    if cancel:
        queue.cancel_join_thread()
    for number in range(count):
        queue.put(number)


def do_tasks(queue):
    while queue.get() is not None:
        time.sleep(0.001)
        queue.task_done()


def read_for_ever(queue):
    while True:
        queue.get()


def write_for_ever(queue):
    while True:
        queue.put(b"x" * 1000)

    def test_what_could_not_be_sent_was_never_put(self, monkeypatch):
        queue = mp.JoinableQueue(2)

        def broken(*_, **__):
            raise OSError(24, "Too many open files")

        with monkeypatch.context() as patch:
            patch.setattr(queue._writer, "send_message", broken)
            for _ in range(3):
                with pytest.raises(OSError, match="Too many open files"):
                    queue.put(1)
        queue.join()
        queue.put(2, timeout=1)
        queue.put(3, timeout=1)
        assert queue.full() and [queue.get(), queue.get()] == [2, 3]


class TestKills:
    """Kills that multiprocessing's own queues do not survive, because a waiting reader holds a lock."""

    @pytest.mark.parametrize("maxsize", [0, 2])
    def test_readers(self, maxsize):
        context = mp.get_context("fork")
        queue = context.Queue(maxsize)
        for attempt in range(20):
            reader = context.Process(target=read_for_ever, args=(queue,))
            reader.start()
            for number in range(20):
                queue.put(number, timeout=20)
            time.sleep(0.002 * (attempt % 3))
            os.kill(reader.pid, signal.SIGKILL)
            reader.join()
        # At most the messages that killed processes had taken are missing, and all slots are free.
        while not queue.empty():
            queue.get(timeout=20)
        for number in range(maxsize or 10):
            queue.put(number, timeout=20)
        assert [queue.get(timeout=20) for _ in range(maxsize or 10)] == list(range(maxsize or 10))

    def test_writers(self):
        context = mp.get_context("fork")
        queue = context.Queue()
        for _ in range(20):
            writer = context.Process(target=write_for_ever, args=(queue,))
            writer.start()
            assert queue.get(timeout=20) == b"x" * 1000
            os.kill(writer.pid, signal.SIGKILL)
            writer.join()
            while not queue.empty():
                assert queue.get(timeout=20) == b"x" * 1000
        queue.put("alive")
        assert queue.get(timeout=20) == "alive"

    def test_the_sender_may_be_dead(self, context):
        queue = context.SimpleQueue()
        process = context.Process(target=queue.put, args=(b"z" * 1_000_000,))
        process.start()
        process.join()
        assert queue.get() == b"z" * 1_000_000


class TestPipe:
    def test_both_ways(self):
        first, second = mp.Pipe()
        first.send({"a": 1})
        second.send([2])
        assert second.recv() == {"a": 1} and first.recv() == [2]

    def test_one_way(self):
        reader, writer = mp.Pipe(duplex=False)
        with pytest.raises(OSError):
            reader.send(1)
        with pytest.raises(OSError):
            writer.recv()
        writer.send(1)
        assert reader.poll() and reader.recv() == 1 and not reader.poll(0.01)

    def test_bytes(self):
        first, second = mp.Pipe()
        first.send_bytes(b"0123456789", 2, 5)
        assert second.recv_bytes() == b"23456"
        first.send_bytes(b"abc" * 100_000)
        assert second.recv_bytes() == b"abc" * 100_000
        first.send_bytes(b"abc")
        buffer = bytearray(5)
        assert second.recv_bytes_into(buffer, 1) == 3 and buffer == b"\0abc\0"
        first.send_bytes(b"too long")
        with pytest.raises(OSError):
            second.recv_bytes(3)

    def test_the_end(self):
        first, second = mp.Pipe()
        first.send(1)
        second.send(2)
        first.close()
        assert second.recv() == 1
        with pytest.raises(EOFError):
            second.recv()
        with pytest.raises(BrokenPipeError):
            second.send(3)

    @pytest.mark.parametrize("head", [b"", *(bytes([flags]) for flags in (0, 1, 2, 3, 4, 255))])
    @pytest.mark.parametrize("count", [0, 1, 2, 3])
    def test_garbage_is_an_exception_and_leaves_no_descriptor(self, head, count):
        first, second = mp.Pipe()
        sockets = [channel.pair()[0] for _ in range(count)]
        before = descriptors()
        for content in (b"", b"garbage", pickle.dumps(mp.Pipe)[:-1]):
            if head or not content:
                socket.send_fds(first._end, [head + content], [end.fileno() for end in sockets])
                with pytest.raises((EOFError, OSError, pickle.UnpicklingError)):
                    second.recv()
        assert descriptors() == before

    def test_a_memory_file_that_its_sender_could_shorten_is_refused(self):
        first, second = mp.Pipe()
        before = descriptors()
        with open(os.memfd_create("open to all"), "wb", 0) as file:
            file.write(pickle.dumps("text"))
            socket.send_fds(first._end, [b"\1"], [file.fileno()])
        with pytest.raises(OSError, match="not a message of rushlight"):
            second.recv()
        assert descriptors() == before

    def test_a_descriptor_of_another_kind_is_no_pipe(self):
        first, second = mp.Pipe()
        payload, parts = bundle.pack(second)
        with contextlib.closing(parts), open(os.devnull) as other:
            before = descriptors()
            channel.send(first._end, payload, [other.fileno()])
            with pytest.raises(OSError, match="Socket operation on non-socket"):
                second.recv()
            assert descriptors() == before

    def test_a_pipe_goes_through_a_pipe(self, context):
        first, second = mp.Pipe()
        inner_first, inner_second = mp.Pipe()
        first.send(inner_first)
        second.recv().send("through")
        assert inner_second.recv() == "through"

    def test_wait(self):
        pairs = [mp.Pipe() for _ in range(3)]
        pairs[1][0].send(1)
        assert multiprocessing.connection.wait([second for _, second in pairs], 5) == [pairs[1][1]]


def test_a_bare_fork_does_not_open_a_lock():
    """Parent and child share the lock file, but not the file description that the kernel locks."""
    lock = queues.RobustLock()
    ready, say = os.pipe()
    lock.__enter__()
    child = os.fork()
    if child == 0:
        try:
            with lock:
                os.write(say, b"entered")
        finally:
            os._exit(0)
    assert select.select([ready], [], [], 0.5)[0] == []
    lock.__exit__()
    assert os.read(ready, 10) == b"entered"
    os.waitpid(child, 0)
    os.close(ready), os.close(say)


class TestPool:
    def test_map(self, context):
        with context.Pool(2) as pool:
            assert pool.map(square, range(50)) == [x * x for x in range(50)]
            assert pool.apply_async(square, (7,)).get(30) == 49
            with pytest.raises(ValueError, match="no 3"):
                pool.apply(fail, (3,))

    def test_ends_with_tasks_left(self):
        pool = mp.get_context("fork").Pool(2)
        pool.map_async(time.sleep, [0.01] * 5000)
        workers = list(pool._pool)
        time.sleep(0.1)
        pool.terminate()
        pool.join()
        assert workers and not any(worker.is_alive() for worker in workers)


def ok(index, path):
    with open(f"{path}/{index}", "w") as file:
        file.write("done")


def raise_in_one(index):
    if index == 1:
        raise KeyError("the reason")
    time.sleep(30)


def die(index):
    os.kill(os.getpid(), signal.SIGKILL)


def leave(index):
    sys.exit(7)


class TestSpawn:
    def test_all_end_well(self, tmp_path):
        assert mp.spawn(ok, (str(tmp_path),), nprocs=2) is None
        assert sorted(os.listdir(tmp_path)) == ["0", "1"]

    @pytest.mark.parametrize("method", METHODS)
    def test_an_exception_comes_back(self, method):
        with pytest.raises(mp.ProcessRaisedException) as caught:
            mp.start_processes(raise_in_one, nprocs=2, start_method=method)
        message = str(caught.value)
        assert message.startswith("\n\n-- Process 1 terminated with the following error:\nTraceback")
        assert "KeyError: 'the reason'" in message and caught.value.error_index == 1
        assert str(pickle.loads(pickle.dumps(caught.value))) == message

    def test_a_signal(self):
        with pytest.raises(mp.ProcessExitedException, match="process 0 terminated with signal SIGKILL") as caught:
            mp.spawn(die)
        assert (caught.value.exit_code, caught.value.signal_name) == (-9, "SIGKILL")

    def test_an_exit_code(self):
        with pytest.raises(mp.ProcessExitedException, match="process 0 terminated with exit code 7"):
            mp.spawn(leave)

    def test_without_waiting(self):
        context = mp.start_processes(square, nprocs=2, join=False, start_method="fork")
        assert len(context.pids()) == 2
        while not context.join(timeout=30):
            pass

    def test_another_method_warns(self):
        with pytest.warns(FutureWarning, match="only supports start_method=spawn"):
            mp.spawn(square, start_method="fork")


class TestModule:
    def test_names(self):
        assert set(multiprocessing.__all__) <= set(mp.__all__)
        assert issubclass(mp.Process, multiprocessing.Process)

    def test_the_start_method_is_multiprocessings(self):
        assert mp.get_start_method() == multiprocessing.get_start_method()
        with pytest.raises(ValueError):
            mp.get_context("no such method")

    def test_locks_and_managers(self, context):
        with context.Manager() as manager:
            shared, lock = manager.list(), context.Lock()
            workers = [context.Process(target=append, args=(shared, lock, n)) for n in range(2)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            assert sorted(shared) == [0, 1]

    def test_sharing_strategy(self):
        assert mp.get_sharing_strategy() == "file_descriptor"
        assert "file_system" in mp.get_all_sharing_strategies()
        mp.set_sharing_strategy("file_system")
        mp.set_sharing_strategy("file_descriptor")
        with pytest.raises(AssertionError):
            mp.set_sharing_strategy("fax")

    def test_nothing_is_left(self):
        def use():
            queue, pipe = mp.JoinableQueue(3), mp.Pipe()
            queue.put(b"x" * 100_000)
            queue.get()
            pipe[0].send(b"x" * 100_000)

        use()
        before, shm = descriptors(), named_memory()
        for _ in range(50):
            use()
        assert descriptors() == before and named_memory() == shm


def append(shared, lock, number):
    with lock:
        shared.append(number)


def _fail_or_sleep(index):
    if index == 0:
        raise ValueError("no luck")
    time.sleep(100)


def test_processes_that_are_terminated_are_logged(caplog):
    context = mp.start_processes(_fail_or_sleep, nprocs=2, join=False, start_method="fork")
    with caplog.at_level("WARNING"), pytest.raises(mp.ProcessRaisedException, match="no luck"):
        while not context.join():
            pass
    assert f"Terminating process {context.pids()[1]} via signal SIGTERM" in caplog.text


UNAWARE = """
import os, signal, time
import rushlight.multiprocessing as mp
from rushlight.multiprocessing import spawn

def wait(index, pipe):
    os.write(pipe, b"x")
    time.sleep(1000)

spawn._PATIENCE = 0.1
read, write = os.pipe()
child = os.fork()
if child == 0:
    try:
        mp.start_processes(wait, (write,), nprocs=2, start_method="fork")
    except KeyboardInterrupt:
        print("interrupted", flush=True)
else:
    for _ in range(2):
        os.read(read, 1)
    time.sleep(0.2)
    os.kill(child, signal.SIGINT)
    os.wait()
    os.close(write)
    print(os.read(read, 1))
"""


def test_a_signal_to_the_parent_alone_ends_the_processes():
    """A terminal signals all of them; a scheduler or a notebook may signal only the first."""
    done = subprocess.run([sys.executable, "-c", UNAWARE], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "interrupted\nb''\n", done


@pytest.mark.parametrize("value", ["0", "1"])
def test_processes_of_a_fork_server_may_start_together(value, monkeypatch):
    monkeypatch.setenv(mp.ENV_VAR_PARALLEL_START, value)
    total = torch.zeros(3).share_memory_()
    mp.start_processes(_mark, (total,), nprocs=3, start_method="forkserver")
    assert total.tolist() == [1.0, 2.0, 3.0]


def _mark(index, total):
    total[index] = index + 1
