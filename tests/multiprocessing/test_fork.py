"""A process may fork at any time, whatever its threads do, and the child can compute immediately."""

import os
import select
import signal
import subprocess
import sys
import threading
import time

import pytest

import rushlight as torch

WATCHDOG = 5.0


def heavy(weight):
    """A computation that uses the thread pool, forward and backward."""
    loss = ((weight * 2).exp().sum(1) / 3).log().sum()
    (grad,) = torch.autograd.grad(loss, weight)
    return loss.item() + grad.sum().item()


def fork(work):
    """Runs `work` in a forked child. Returns its exit code, or None if it hung and was killed."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    ending = os.pidfd_open(child)
    ended, _, _ = select.select([ending], [], [], WATCHDOG)
    os.close(ending)
    if not ended:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) if ended else None


@pytest.fixture
def threads():
    """Uses more than one thread on any machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def test_after_work_in_the_parent(threads, thorough):
    torch.manual_seed(0)
    weight = torch.randn(300, 300, requires_grad=True)
    expected = heavy(weight)

    def child():
        assert heavy(weight) == expected

    for _ in range(1000 if thorough else 100):
        assert heavy(weight) == expected
        assert fork(child) == 0


def allocate(stop):
    while not stop.is_set():
        kept = [torch.zeros(1 << size) for size in range(4, 20)]
        kept[0].share_memory_()


def compute(stop):
    values = torch.rand(500, 500)
    while not stop.is_set():
        values.exp().sum()


def differentiate(stop):
    weight = torch.rand(100, 100, requires_grad=True)
    while not stop.is_set():
        heavy(weight)


@pytest.mark.parametrize("business", [allocate, compute, differentiate])
def test_while_other_threads_are_busy(business, threads, thorough):
    stop = threading.Event()
    others = [threading.Thread(target=business, args=(stop,)) for _ in range(2)]
    for other in others:
        other.start()
    try:
        time.sleep(0.05)
        weight = torch.randn(300, 300, requires_grad=True)
        expected = heavy(weight)

        def child():
            assert heavy(weight) == expected
            torch.zeros(1000).share_memory_()

        for _ in range(300 if thorough else 30):
            assert fork(child) == 0
    finally:
        stop.set()
        for other in others:
            other.join()


def test_a_generator_that_another_thread_draws_from(thorough):
    generator, stop = torch.Generator(), threading.Event()

    def draw():
        while not stop.is_set():
            torch.randn(300_000, generator=generator)

    other = threading.Thread(target=draw)
    other.start()
    try:
        for _ in range(200 if thorough else 20):
            assert fork(lambda: torch.rand(3, generator=generator)) == 0
    finally:
        stop.set()
        other.join()


FIRST_STEPS = """
import os, signal, threading
import rushlight as torch

shared = torch.ones(200, 200, requires_grad=True)

def work():
    (shared * torch.rand(200, 200)).exp().sum().backward()

other = threading.Thread(target=work)
other.start()
child = os.fork()
if child == 0:
    signal.alarm(10)
    shared.grad = None
    work()
    os._exit(0)
other.join()
assert os.waitpid(child, 0)[1] == 0
"""


def test_while_another_thread_takes_every_lock_for_the_first_time(thorough):
    """In new processes, in which no lock is registered when the fork begins."""
    for _ in range(200 if thorough else 10):
        subprocess.run([sys.executable, "-c", FIRST_STEPS], timeout=60, check=True)
