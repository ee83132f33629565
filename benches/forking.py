"""Tests that forked children work while the parent's threads compute, allocate, run backward and draw random numbers.

    python benches/forking.py 10000

A child that does not end within a minute counts as hanging and is killed.
"""

import os
import select
import signal
import sys
import threading
import time

import rushlight as torch

PATIENCE = 60


def heavy(weight):
    """A computation large enough to use the thread pool, forward and backward."""
    loss = ((weight * 2).exp().sum(1) / 3).log().sum()
    (grad,) = torch.autograd.grad(loss, weight)
    return loss.item() + grad.sum().item()


def compute():
    values = torch.rand(300, 300)
    (values @ values).exp().sum()


def allocate():
    kept = [torch.zeros(1 << size) for size in range(4, 20)]
    kept[0].share_memory_()


def differentiate():
    heavy(torch.rand(100, 100, requires_grad=True))


def draw():
    torch.randn(300_000)


def fork(weight, expected):
    """Forks a child that computes. Returns its exit code, or None if it hangs."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if heavy(weight) == expected:
                torch.rand(1000).share_memory_()
                code = 0
        finally:
            os._exit(code)
    ending = os.pidfd_open(child)
    ended, _, _ = select.select([ending], [], [], PATIENCE)
    os.close(ending)
    if not ended:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) if ended else None


def main(count):
    torch.set_num_threads(4)
    stop = threading.Event()

    def repeat(work):
        while not stop.is_set():
            work()

    others = [threading.Thread(target=repeat, args=(work,)) for work in (compute, allocate, differentiate, draw)]
    for other in others:
        other.start()
    weight = torch.randn(200, 200, requires_grad=True)
    expected, begin, codes = heavy(weight), time.monotonic(), {}
    for _ in range(count):
        code = fork(weight, expected)
        codes[code] = codes.get(code, 0) + 1
    stop.set()
    for other in others:
        other.join()
    wrong = {code: number for code, number in codes.items() if code not in (0, None)}
    print(f"{count} forks under load in {time.monotonic() - begin:.0f} s: {codes.get(None, 0)} hang, "
          f"{sum(wrong.values())} went wrong {wrong or ''}")  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]))
