"""MUL: tensors in several processes."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import rushlight as torch
import rushlight.multiprocessing as mp
import rushlight.nn.functional as F
from rushlight import nn

sys.path.insert(0, str(Path(__file__).parents[1] / "cuda"))
from leftovers import named_memory
from soft_card import needs_soft_card
from soft_card import run as run_on_card
from soft_card import run_file as run_file_on_card

METHODS = ["fork", "spawn", "forkserver"]
HANGS = 120


def join(*processes):
    for process in processes:
        process.join(HANGS)
    assert [process.exitcode for process in processes] == [0] * len(processes)


def fill_and_answer(inbox, outbox):
    tensor = inbox.get(timeout=HANGS)
    tensor.fill_(7)
    outbox.put(tensor)


@pytest.mark.parametrize("method", METHODS)
def test_mul_1_a_drop_in(method):
    """The names of `multiprocessing`. A tensor in a queue moves to shared memory, with every start method."""
    assert set(multiprocessing.__all__) <= set(dir(mp))
    context = mp.get_context(method)
    inbox, outbox = context.Queue(), context.Queue()
    process = context.Process(target=fill_and_answer, args=(inbox, outbox))
    process.start()
    tensor = torch.zeros(3)
    inbox.put(tensor)
    back = outbox.get(timeout=HANGS)
    assert tensor.is_shared() and tensor.tolist() == back.tolist() == [7.0] * 3
    join(process)


def add_to_data_and_grads(with_grad, without_grad):
    with torch.no_grad():
        with_grad.add_(1)
        with_grad.grad.add_(1)
        without_grad.add_(1)
    without_grad.grad = torch.ones(2)


def test_mul_2_gradients():
    """An existing gradient is shared with its tensor. A later one belongs to each process."""
    tensors = [torch.zeros(2, requires_grad=True) for _ in range(2)]
    tensors[0].grad = torch.full((2,), 5.0)
    join(started(add_to_data_and_grads, *tensors, method="spawn"))
    assert [t.tolist() for t in tensors] == [[1.0, 1.0]] * 2
    assert tensors[0].grad.tolist() == [6.0, 6.0] and tensors[1].grad is None


def started(target, *args, method="fork"):
    process = mp.get_context(method).Process(target=target, args=args)
    process.start()
    return process


def test_mul_3_share_memory():
    """Sharing is in place, can be repeated, and is kept when a state is loaded."""
    tensor = torch.ones(3)
    assert not tensor.is_shared() and tensor.share_memory_() is tensor and tensor.is_shared()
    address = tensor.data_ptr()
    assert tensor.share_memory_().data_ptr() == address and tensor.tolist() == [1.0] * 3
    model = nn.Linear(2, 2)
    assert model.share_memory() is model
    model.load_state_dict(nn.Linear(2, 2).state_dict())
    assert all(p.is_shared() for p in model.parameters())


def regression():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(256, 4, generator=generator)
    return x, x @ torch.tensor([[1.0], [-2.0], [3.0], [0.5]]) + 0.25


def train(model, seed, steps=200):
    torch.manual_seed(seed)
    x, y = regression()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.5)
    for _ in range(steps):
        rows = torch.randint(0, 256, (16,))
        optimizer.zero_grad()
        F.mse_loss(model(x[rows]), y[rows]).backward()
        optimizer.step()


def loss_of(model):
    with torch.no_grad():
        x, y = regression()
        return F.mse_loss(model(x), y).item()


@pytest.mark.parametrize("method", METHODS)
def test_mul_4_hogwild(method):
    """Four processes train one model without locks. The parent sees the updates, and the result is as good as with one."""
    torch.manual_seed(0)
    model, alone = nn.Linear(4, 1), nn.Linear(4, 1)
    alone.load_state_dict(model.state_dict())
    model.share_memory()
    addresses = [p.data_ptr() for p in model.parameters()]
    before = loss_of(model)
    join(*[started(train, model, rank, method=method) for rank in range(4)])
    train(alone, 0, 800)
    assert loss_of(model) < before / 1000 and loss_of(alone) < before / 1000
    assert [p.data_ptr() for p in model.parameters()] == addresses
    assert torch.allclose(model.weight, alone.weight, atol=0.01)


def test_mul_5_after_work_in_the_parent():
    """The parent may have run backward before. Children end normally, and no named memory remains."""
    names = named_memory()
    model = nn.Linear(4, 1).share_memory()
    train(model, 0, 5)
    join(*[started(train, model, rank, 20) for rank in range(4)])
    assert multiprocessing.active_children() == []
    assert named_memory() <= names


def test_mul_6_inheriting():
    """A forked child may use a shared tensor without receiving it. Unshared tensors are copies."""
    shared, private = torch.ones(2).share_memory_(), torch.ones(2)
    join(started(lambda: (shared.mul_(3), private.mul_(3))))
    assert shared.tolist() == [3.0, 3.0] and private.tolist() == [1.0, 1.0]
    queue = mp.get_context("fork").Queue()
    queue.put(private)
    join(started(lambda: queue.get(timeout=HANGS).mul_(5)))
    assert private.tolist() == [5.0, 5.0]


def test_mul_7_models_and_states():
    """A whole model and its state both go through a queue."""
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    queue = mp.Queue()
    queue.put((model, model.state_dict()))
    whole, state = queue.get(timeout=HANGS)
    x = torch.randn(4, 2)
    assert torch.equal(whole.eval()(x), model.eval()(x))
    assert list(state) == list(model.state_dict())
    assert all(torch.equal(state[name], value) for name, value in model.state_dict().items())


def send_back(inbox, outbox, count):
    for _ in range(count):
        outbox.put(inbox.get(timeout=HANGS).add_(1))


def test_mul_8_buffers_go_round():
    """A shared tensor is not copied, however often it is sent."""
    context = mp.get_context("spawn")
    inbox, outbox = context.Queue(), context.Queue()
    process = context.Process(target=send_back, args=(inbox, outbox, 3))
    process.start()
    buffer = torch.zeros(1000).share_memory_()
    address = buffer.untyped_storage().data_ptr()
    for turn in range(1, 4):
        inbox.put(buffer)
        back = outbox.get(timeout=HANGS)
        assert back.untyped_storage().data_ptr() == address
        assert buffer.unique().tolist() == [turn]
    join(process)


def work():
    (torch.rand(256, 256) @ torch.rand(256, 256)).sum().item()


def test_mul_9_forking_after_work():
    """A forked child can compute and end after heavy work on several threads, and while other threads work."""
    work()
    stop = threading.Event()

    def keep_busy():
        while not stop.is_set():
            work()

    busy = [threading.Thread(target=keep_busy) for _ in range(2)]
    for thread in busy:
        thread.start()
    try:
        for _ in range(5):
            join(started(work))
    finally:
        stop.set()
        for thread in busy:
            thread.join()
    queue = mp.SimpleQueue()
    queue.put(torch.ones(2))
    assert queue.get().tolist() == [1.0, 1.0] and queue.empty()


def test_mul_10_the_guard(tmp_path):
    """With spawn, a program without a `__main__` guard gets an error that explains this."""
    program = tmp_path / "unguarded.py"
    program.write_text(
        "import rushlight.multiprocessing as mp\n"
        "process = mp.get_context('spawn').Process(target=print)\n"
        "process.start()\n"
        "process.join()\n"
        "assert process.exitcode != 0\n"
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0, done.stderr
    assert "RuntimeError" in done.stderr and "if __name__ == '__main__':" in done.stderr


ON_A_GPU = """
import rushlight as torch
import rushlight.multiprocessing as mp

def change(x, queue):
    assert x.device == torch.device("cuda:1")
    x += 1
    torch.cuda.synchronize(1)
    queue.put(x.sum().item())

if __name__ == "__main__":
    for method in ("spawn", "forkserver"):
        context = mp.get_context(method)
        x, queue = torch.ones(3, device="cuda:1"), context.Queue()
        child = context.Process(target=change, args=(x, queue))
        child.start()
        assert queue.get(timeout=60) == 6.0
        child.join()
        assert child.exitcode == 0 and x.tolist() == [2.0] * 3
"""


@needs_soft_card
def test_mul_11_tensors_on_gpus(tmp_path):
    """The argument of a process is the same memory there, on a device that is not the current one."""
    run_file_on_card(tmp_path / "program.py", ON_A_GPU, SOFTCUDA_DEVICES=2)


IN_A_CHILD = """
import os
x = torch.ones(2, device="cuda")
if os.fork() == 0:
    try:
        torch.ones(2, device="cuda")
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
print((x + 1).tolist())
"""


@needs_soft_card
def test_mul_12_gpus_in_a_forked_child():
    """The error names the start method that works; the parent goes on."""
    output = run_on_card(IN_A_CHILD)
    assert output.startswith("Cannot re-initialize CUDA in forked subprocess.") and "'spawn'" in output
    assert output.endswith("[2.0, 2.0]\n")


def test_mul_13_empty_tensors():
    """Tensors without elements are shared and sent like others."""
    empty = torch.empty(0, 3)
    assert empty.share_memory_().is_shared()
    queue = mp.Queue()
    queue.put([empty, torch.empty(2, 0, dtype=torch.int64)])
    found = queue.get(timeout=HANGS)
    assert [(tuple(t.shape), t.dtype) for t in found] == [((0, 3), torch.float32), ((2, 0), torch.int64)]


def resident():
    """The bytes of shared memory that this process has accessed."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssShmem:"):
            return int(line.split()[1]) * 1024


def touch_one(inbox, outbox):
    before = resident()
    tensor = inbox.get(timeout=HANGS)
    tensor[-1] = 5
    outbox.put((tensor.numel(), resident() - before))


def test_mul_14_the_page_about_gpus_and_processes():
    page = (Path(__file__).parents[2] / "docs/cuda.md").read_text()
    assert (
        "`spawn` or `forkserver`" in page and "A forked child cannot use GPUs" in page and "`nn.DataParallel`" in page
    )


def test_mul_15_nothing_is_copied():
    """A large shared tensor is sent as a handle. The receiver accesses only the pages that it uses."""
    context = mp.get_context("spawn")
    inbox, outbox = context.Queue(), context.Queue()
    process = context.Process(target=touch_one, args=(inbox, outbox))
    process.start()
    tensor = torch.ones(2**24).share_memory_()
    inbox.put(tensor)
    count, touched = outbox.get(timeout=HANGS)
    assert count == 2**24 and tensor[-1].item() == 5
    assert touched < 2**22, "of 2^26 bytes"
    join(process)


KILLED = """
import os, sys, time
import rushlight as torch
import rushlight.multiprocessing as mp

def wait(tensor, queue):
    queue.put(torch.ones(1000))
    time.sleep(1000)

if __name__ == "__main__":
    context = mp.get_context("fork")
    tensor, queue = torch.ones(100_000).share_memory_(), context.Queue()
    children = [context.Process(target=wait, args=(tensor, queue)) for _ in range(3)]
    for child in children:
        child.start()
    for _ in children:
        queue.get()
    print("ready", flush=True)
    time.sleep(1000)
"""


def test_mul_16_everybody_is_killed():
    """Killing a whole group of processes leaves nothing behind, because the memory has no name."""
    names = named_memory()
    with subprocess.Popen(
        [sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            assert named_memory() <= names
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert named_memory() <= names
