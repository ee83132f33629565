"""Groups of processes for `run.py kills`. Each group works until it is killed.

    python benches/victims.py loaders|queues|pipes|servers|stores fork|spawn|forkserver

It prints `ready` when all of its processes work.
"""

import sys
import time

import rushlight as torch
from rushlight import distributed, multiprocessing
from rushlight.utils.data import DataLoader, Dataset


class Samples(Dataset):
    """Samples large enough that batches travel in shared memory."""

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
    """Two senders and two receivers, with bounded and unbounded queues."""
    queue, back = multiprocessing.Queue(8), multiprocessing.SimpleQueue()
    for target, args in ((send, (queue,)), (receive, (queue, back))) * 2:
        multiprocessing.Process(target=target, args=args, daemon=True).start()
    back.get()
    ready()
    while True:
        back.get()


def bounce(connection, tasks):
    while True:
        connection.send(connection.recv().add_(1))
        tasks.get()
        tasks.task_done()


def pipes():
    """Pipes that send the same tensors in both directions, and a queue that counts the round trips."""
    tasks, ends, tensor = multiprocessing.JoinableQueue(), [], torch.zeros(100_000)
    for _ in range(3):
        end, other = multiprocessing.Pipe()
        multiprocessing.Process(target=bounce, args=(other, tasks), daemon=True).start()
        ends.append(end)
    first = True
    while True:
        for end in ends:
            end.send(tensor)
            tasks.put(torch.ones(10))
        for end in ends:
            end.recv()
        if first:
            ready()
            first = False


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


def count(port, number):
    store = distributed.TCPStore("127.0.0.1", port, is_master=False)
    while True:
        store.add("turns", 1)
        store.set(f"worker {number}", bytes(1000))


def stores():
    """The server of a store and its clients."""
    store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    for number in range(3):
        multiprocessing.Process(target=count, args=(store.port, number), daemon=True).start()
    store.wait([f"worker {number}" for number in range(3)])
    ready()
    while True:
        store.get("turns")


if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[2])
    {"loaders": loaders, "queues": queues, "pipes": pipes, "servers": servers, "stores": stores}[sys.argv[1]]()
