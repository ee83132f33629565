"""Tensors between processes: shared bytes, whichever process ends, and no leftovers."""

import contextlib
import gc
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from leftovers import named_memory

import rushlight as torch
import rushlight.multiprocessing as mp
from rushlight import nn

METHODS = ["fork", "spawn", "forkserver"]


@pytest.fixture(params=METHODS)
def context(request):
    return mp.get_context(request.param)


def same_bytes(a, b):
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def fill(tensors, value):
    for tensor in tensors:
        tensor.fill_(value)


def put_and_die(queue, count):
    queue.put([torch.full((100,), n) for n in range(count)])
    queue.close()
    queue.join_thread()
    os.kill(os.getpid(), signal.SIGKILL)


def put_and_wait(queue, event):
    queue.put(torch.arange(10))
    event.wait(30)


def put_a_view_that_steps_back(queue):
    queue.put(torch.arange(6.0).reshape(2, 3)[:, ::-1])


def add_one(tensor):
    return tensor + 1


def test_views_that_step_back_travel(context):
    queue = context.Queue()
    worker = context.Process(target=put_a_view_that_steps_back, args=(queue,))
    worker.start()
    found = queue.get()
    assert found.tolist() == [[2, 1, 0], [5, 4, 3]] and found.stride() == (3, -1)
    worker.join()


class TestSharing:
    def test_in_place_and_idempotent(self):
        tensor = torch.arange(6.0).reshape(2, 3)
        view = tensor[1]
        assert not tensor.is_shared()
        assert tensor.share_memory_() is tensor
        assert tensor.is_shared() and view.is_shared() and view.tolist() == [3, 4, 5]
        before = tensor.data_ptr()
        tensor.share_memory_()
        assert tensor.data_ptr() == before
        view[0] = 9
        assert tensor[1, 0] == 9

    def test_a_module_with_its_gradients(self):
        module = nn.Linear(3, 2)
        module(torch.ones(1, 3)).sum().backward()
        assert module.share_memory() is module
        assert all(p.is_shared() and p.grad.is_shared() for p in module.parameters())
        where = module.weight.data_ptr()
        module.load_state_dict(nn.Linear(3, 2).state_dict())
        assert module.weight.data_ptr() == where and module.weight.is_shared()

    def test_empty(self):
        assert torch.zeros(0).share_memory_().is_shared()

    def test_more_than_there_is(self):
        with pytest.raises(RuntimeError, match="can't allocate memory"):
            torch.zeros(1, dtype=torch.uint8).expand(1 << 45).contiguous().share_memory_()


class TestMessages:
    def test_what_is_sent_is_shared(self):
        queue = mp.Queue()
        tensor = torch.arange(5)
        queue.put(tensor)
        received = queue.get()
        assert tensor.is_shared() and same_bytes(tensor, received) and received is not tensor
        received[0] = 7
        assert tensor[0] == 7

    def test_views_stay_views_of_one_storage(self):
        queue = mp.Queue()
        base = torch.arange(12.0).reshape(3, 4)
        parts = (base, base.t(), base[1:, ::2], base[0].expand(2, 4))
        queue.put(parts)
        received = queue.get()
        for part, other in zip(parts, received):
            assert (other.shape, other.stride(), other.storage_offset()) == (
                part.shape,
                part.stride(),
                part.storage_offset(),
            )
            assert torch.equal(part, other) and same_bytes(other, received[0])

    def test_parameters_and_gradients(self):
        queue = mp.Queue()
        parameter = nn.Parameter(torch.ones(3))
        parameter.grad = torch.full((3,), 2.0)
        queue.put(parameter)
        received = queue.get()
        assert type(received) is nn.Parameter and received.requires_grad
        assert same_bytes(received.grad, parameter.grad) and parameter.grad.is_shared()
        queue.put(nn.Parameter(torch.ones(3), requires_grad=False))
        received = queue.get()
        assert not received.requires_grad and received.grad is None

    def test_what_has_a_history_is_refused(self):
        with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
            mp.Queue().put(torch.ones(2, requires_grad=True) * 2)

    @pytest.mark.parametrize("module", [nn.Linear(3, 2), nn.Linear(3, 2).state_dict()])
    def test_models_and_their_state(self, module):
        queue = mp.Queue()
        queue.put(module)
        received = queue.get()
        ours, theirs = (m.state_dict() if isinstance(m, nn.Module) else m for m in (module, received))
        assert list(ours) == list(theirs) and all(same_bytes(ours[name], theirs[name]) for name in ours)

    def test_other_kinds(self):
        queue = mp.Queue()
        for item in (torch.zeros(0), torch.zeros(2, 0), torch.tensor(3), torch.tensor([True]), torch.tensor([1 + 2j])):
            queue.put(item)
            received = queue.get()
            assert (received.dtype, received.shape) == (item.dtype, item.shape) and torch.equal(received, item)
        queue.put((torch.float16, torch.Size([2]), torch.device("cpu")))
        assert queue.get() == (torch.float16, torch.Size([2]), torch.device("cpu"))

    def test_a_gigabyte_that_is_shared_already(self):
        queue = mp.Queue()
        tensor = torch.empty(1 << 30, dtype=torch.uint8).share_memory_()
        before = shared_pages()
        queue.put(tensor)
        received = queue.get()
        assert same_bytes(received, tensor) and shared_pages() == before  # nothing was copied


class TestProcesses:
    def test_arguments(self, context):
        tensors = [torch.zeros(4) for _ in range(3)]
        fill(tensors, 1)
        for tensor in tensors:
            tensor.share_memory_()
        process = context.Process(target=fill, args=(tensors, 5))
        process.start()
        process.join()
        assert process.exitcode == 0 and all((tensor == 5).all() for tensor in tensors)

    def test_the_sender_may_die_after_put(self, context):
        queue = context.Queue()
        process = context.Process(target=put_and_die, args=(queue, 300))
        process.start()
        tensors = queue.get(timeout=60)
        process.join()
        assert process.exitcode == -signal.SIGKILL
        assert all((tensor == n).all() for n, tensor in enumerate(tensors))

    def test_multiprocessings_own_queue(self, context):
        import multiprocessing

        plain = multiprocessing.get_context(context.get_start_method())
        queue, event = plain.Queue(), plain.Event()
        process = plain.Process(target=put_and_wait, args=(queue, event))
        process.start()
        assert queue.get(timeout=60).tolist() == list(range(10))
        event.set()
        process.join()

    def test_pool(self, context):
        with context.Pool(2) as pool:
            results = pool.map(add_one, [torch.full((1000,), n) for n in range(20)])
        assert [int(result[0]) for result in results] == list(range(1, 21))

    def test_thousands_with_few_descriptors(self):
        done = subprocess.run([sys.executable, "-c", MANY], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr


MANY = """
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
import rushlight as torch
import rushlight.multiprocessing as mp

queue = mp.Queue()
for number in range(20_000):
    queue.put(torch.tensor([number]))
assert all(int(queue.get()) == number for number in range(20_000))
tensors = [torch.tensor([number]).share_memory_() for number in range(100_000)]
queue.put(tensors)
assert all(int(tensor) == number for number, tensor in enumerate(queue.get()))
assert len(os.listdir("/proc/self/fd")) < 100
"""


def pass_on(source, target):
    """Holds, checks and forwards received tensors until it is killed."""
    held = []
    while True:
        held.append(source.get())
        assert all((tensor == tag).all() for tensor, tag in held)
        if len(held) > 10:
            target.put(held.pop(random.randrange(10)))
        if len(held) > 30:
            held.clear()


def shared_pages():
    """The size in kilobytes of the anonymous files that this process holds."""
    files = {}
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the descriptor of the listing itself
            if "/memfd:" in os.readlink(entry):
                found = entry.stat()
                files[found.st_ino] = found.st_blocks // 2
    return sum(files.values())


def kill_and_check(kills, seconds):
    """Kills workers at random moments while tensors are sent. Returns the number of kills."""
    context = mp.get_context("fork")
    source, target = context.Queue(8), context.Queue()

    def start():
        worker = context.Process(target=pass_on, args=(source, target))
        worker.start()
        return worker

    workers = [start() for _ in range(4)]
    chance = random.Random(0)
    killed, tag, end = 0, 0, time.monotonic() + seconds
    while killed < kills and time.monotonic() < end:
        tag = (tag + 1) % 250
        source.put((torch.full((chance.choice([8, 1000, 50_000]),), tag), tag), timeout=30)
        while not target.empty():
            tensor, mark = target.get(timeout=30)
            assert (tensor == mark).all()
        if chance.random() < 0.1:
            victim = chance.randrange(4)
            assert workers[victim].is_alive()
            workers[victim].kill()
            workers[victim].join()
            workers[victim] = start()
            killed += 1
        assert all(worker.is_alive() for worker in workers)
    for worker in workers:
        worker.kill()
        worker.join()
    for queue in (source, target):
        queue.close()
        queue.join_thread()
    return killed


class TestLifetime:
    def test_kills_at_any_moment(self):
        """No slot is reused while a process holds it, and nothing remains after all have ended."""
        named, descriptors = named_memory(), len(os.listdir("/proc/self/fd"))
        assert kill_and_check(100, 60) > 20
        gc.collect()
        assert named_memory() == named
        assert len(os.listdir("/proc/self/fd")) <= descriptors + 8

    def test_memory_goes_back(self):
        before = shared_pages()
        tensors = [torch.zeros(40 << 20, dtype=torch.uint8).share_memory_() for _ in range(5)]
        assert shared_pages() - before > 150 << 10
        del tensors
        gc.collect()
        assert shared_pages() - before < 50 << 10

    def test_limits_are_raised(self):
        torch.zeros(1).share_memory_()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert soft == hard


def add_often(target, index, count):
    for _ in range(count):
        if index is None:
            mp.atomic_add_(target, torch.ones((), dtype=target.dtype))
        else:
            mp.atomic_add_(target, torch.ones(len(index), 2, dtype=target.dtype), index=index, alpha=2)


class TestAtomicAdd:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.int64])
    @pytest.mark.parametrize("rows", [None, [1, 1, 3, 1]])
    def test_no_addition_is_lost(self, dtype, rows):
        """Integers are added exactly, in any order. The processes constantly update the same few elements."""
        target = torch.zeros(4, 2, dtype=dtype).share_memory_()
        index = None if rows is None else torch.tensor(rows)
        context = mp.get_context("fork")
        workers = [context.Process(target=add_often, args=(target, index, 20_000)) for _ in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert [worker.exitcode for worker in workers] == [0, 0, 0]
        each = [1, 1, 1, 1] if rows is None else [2 * rows.count(row) for row in range(4)]
        assert target.tolist() == [[60_000 * times] * 2 for times in each]

    @pytest.mark.parametrize("view", [lambda x: x, lambda x: x.t(), lambda x: x[1:, ::2], lambda x: x.flip(0)])
    def test_adds_what_add_adds(self, view):
        target, update = torch.randn(50, 40), torch.randn(50, 40)
        expected = target.clone()
        view(expected).add_(view(update), alpha=0.3)
        assert mp.atomic_add_(view(target), view(update), alpha=0.3).shape == view(target).shape
        assert torch.equal(target, expected)
        index = torch.tensor([0, 3, 0, 2], dtype=torch.int32)
        rows = torch.randn(4, *view(target).shape[1:])
        view(expected).index_add_(0, index, rows)
        mp.atomic_add_(view(target), rows, index=index)
        assert torch.equal(target, expected)

    def test_large_and_of_another_dtype(self):
        target = torch.zeros(300, 400, dtype=torch.float64)
        mp.atomic_add_(target, torch.arange(400), alpha=2)
        assert torch.equal(target, (2.0 * torch.arange(400, dtype=torch.float64)).expand(300, 400))

    @pytest.mark.parametrize("name", "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16".split())
    def test_adds_what_add_adds_in_each_dtype(self, name):
        dtype = getattr(torch, name)
        target, update = torch.arange(100).to(dtype), torch.arange(50, 150).to(dtype)
        wide = torch.float64 if dtype.is_floating_point else torch.int64
        expected = (target.to(wide) + 3 * update.to(wide)).to(dtype)
        assert torch.equal(mp.atomic_add_(target, update, alpha=3), expected)
        if not dtype.is_floating_point:
            with pytest.raises(RuntimeError, match="alpha must not be a floating point number"):
                mp.atomic_add_(target, update, alpha=0.5)
            assert torch.equal(target, expected)

    def test_nothing_is_recorded_and_the_change_is_counted(self):
        weight = torch.ones(2, requires_grad=True)
        product = (weight * weight).sum()
        assert mp.atomic_add_(weight, weight) is weight and weight.is_leaf and weight.tolist() == [2, 2]
        with pytest.raises(RuntimeError, match=r"modified by an inplace operation"):
            product.backward()

    @pytest.mark.parametrize(
        "target, update, index, error",
        [
            (torch.zeros(2, dtype=torch.bool), torch.ones(2, dtype=torch.bool), None, TypeError),
            (torch.zeros(2, dtype=torch.int64), torch.ones(2), None, RuntimeError),
            (torch.zeros(2), torch.ones(2, dtype=torch.complex64), None, RuntimeError),
            (torch.zeros(2), torch.ones(3), None, RuntimeError),
            (torch.zeros(1).expand(2), torch.ones(2), None, RuntimeError),
            (torch.zeros(2, device="meta"), torch.ones(2), None, RuntimeError),
            (torch.zeros(2), torch.ones(2), torch.tensor([0, 2]), RuntimeError),
            (torch.zeros(2), torch.ones(2), torch.tensor([0, -1]), RuntimeError),
            (torch.zeros(2), torch.ones(2), torch.tensor([0]), RuntimeError),
            (torch.zeros(2, 2), torch.ones(1, 3), torch.tensor([0]), RuntimeError),
            (torch.zeros(()), torch.ones(()), torch.tensor([0]), RuntimeError),
            (torch.zeros(2), torch.ones(2), torch.tensor([0.0, 1.0]), IndexError),
            (torch.zeros(2), torch.ones(1, 2), torch.tensor([[0, 1]]), IndexError),
            (torch.frombuffer(bytearray(9), dtype=torch.float32, count=2, offset=1), torch.ones(2), None, RuntimeError),
            ([0.0], torch.ones(1), None, TypeError),
        ],
    )
    def test_what_cannot_be_added(self, target, update, index, error):
        with pytest.raises(error):
            mp.atomic_add_(target, update, index=index)
        assert isinstance(target, list) or target.device.type == "meta" or not target.any()


def write(tensor, queue):
    tensor[1:].fill_(9)
    queue.put(tensor)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_files_that_are_written_through_stay_files(tmp_path, method):
    """A process that receives such a tensor maps the file itself, even if the file has been unlinked."""
    path = tmp_path / "numbers"
    tensor = torch.from_file(path, shared=True, size=4, dtype=torch.uint8)
    assert tensor.is_shared() and tensor.untyped_storage().filename == str(path)
    assert tensor.share_memory_() is tensor
    assert not torch.from_file(path, size=4, dtype=torch.uint8).is_shared()
    context = mp.get_context(method)
    queue = context.Queue()
    process = context.Process(target=write, args=(tensor[1:], queue))
    process.start()
    back = queue.get()
    process.join()
    assert tensor.tolist() == [0, 0, 9, 9] and back.tolist() == [0, 9, 9]
    assert path.read_bytes() == b"\0\0\t\t"
    tensor.fill_(3)
    assert back.tolist() == [3, 3, 3] and path.read_bytes() == b"\3\3\3\3"
    path.unlink()
    queue.put(tensor)
    there = queue.get()
    there[0] = 5
    assert tensor.tolist() == [5, 3, 3, 3]


def sizes_of(queue, answers):
    storage = queue.get()
    answers.put((storage.nbytes(), bytes(storage)))


def test_a_storage_that_shrank_is_sent_with_its_own_size(context):
    queue, answers = context.SimpleQueue(), context.SimpleQueue()
    storage = torch.full((1 << 16,), 7, dtype=torch.uint8).untyped_storage()
    storage.resize_(3)
    process = context.Process(target=sizes_of, args=(queue, answers))
    process.start()
    queue.put(storage)
    assert answers.get() == (3, b"\7\7\7")
    process.join()


def test_what_a_storage_discarded_is_not_moved_to_shared_memory():
    x = torch.full((8,), 7, dtype=torch.uint8)
    behind = x[4:]
    x.untyped_storage().resize_(4)
    x.share_memory_()
    assert x[:4].tolist() == [7] * 4 and behind.tolist() == [0] * 4
