"""Groups of processes for `run.py kills`: each works until it is killed.

    python benches/victims.py loaders|queues|servers

Says `ready` when all its processes are at work.
"""

import sys
import time

import rushlight as torch
from rushlight import multiprocessing
from rushlight.utils.data import DataLoader, Dataset


class Samples(Dataset):
    """Large enough for batches that travel in shared memory."""

    def __init__(self):
        self.names = [f"sample {number}" for number in range(10_000)]

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        return torch.full((1000,), float(index)), self.names[index]


def ready():
    print("ready", flush=True)


def loaders():
    """A loader of a shared dataset and its workers."""
    loader = DataLoader(Samples(), 32, shuffle=True, num_workers=3, share_dataset=True, persistent_workers=True)
    first = True
    while True:
        for _ in loader:
            if first:
                ready()
                first = False


def send(queue):
    while True:
        queue.put([torch.ones(5000), torch.ones(3)])


def receive(queue, back):
    while True:
        tensors = queue.get()
        back.put(tensors[0].sum())


def queues():
    """Two processes that send, two that receive, and queues with and without a bound."""
    queue, back = multiprocessing.Queue(8), multiprocessing.SimpleQueue()
    for target, args in ((send, (queue,)), (receive, (queue, back))) * 2:
        multiprocessing.Process(target=target, args=args, daemon=True).start()
    back.get()
    ready()
    while True:
        back.get()


def ask(table, queue, number):
    while True:
        table[number] = torch.full((100,), number)
        queue.put(table[number])
        queue.get()


def servers():
    """A manager's server, a pool, and processes that use both."""
    manager = multiprocessing.Manager()
    table, queue = manager.dict(), manager.Queue()
    pool = multiprocessing.Pool(2)
    for number in range(2):
        multiprocessing.Process(target=ask, args=(table, queue, number), daemon=True).start()
    pool.map(torch.ones, [10] * 4)
    ready()
    while True:
        pool.map(torch.ones, [10_000] * 8)
        time.sleep(0.01)


if __name__ == "__main__":
    {"loaders": loaders, "queues": queues, "servers": servers}[sys.argv[1]]()
