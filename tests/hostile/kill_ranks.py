"""Kills ranks in the middle of collective calls and of training steps, and reports what the others saw.

    python tests/hostile/kill_ranks.py --rounds 500

In each round some ranks form a group and work without end. A random one gets SIGKILL at a random moment. Every other rank must raise
an error that names it, and then form a group with the other survivors. Nothing may stay behind.
"""

import argparse
import collections
import os
import random
import re
import select
import signal
import socket
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import rushlight as torch
from rushlight import distributed as dist
from rushlight import nn
from rushlight.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from leftovers import members, processes, unused

#: Longer than this after the death, a rank is taken for one that hangs. In seconds.
PATIENCE = 20.0
SIZE = 3


def collectives(rank, size):
    """Calls of all kinds, small and large."""
    tensors = [torch.ones(count) for count in (1, 1000, 300_000)]
    parts = [torch.empty(1000) for _ in range(size)]
    while True:
        for tensor in tensors:
            dist.all_reduce(tensor, dist.ReduceOp.AVG)
            dist.broadcast(tensor, 1)
            dist.reduce(tensor, 0, dist.ReduceOp.MAX)
        dist.all_gather(parts, tensors[1])
        dist.all_to_all([torch.empty(10) for _ in range(size)], [torch.ones(10)] * size)
        dist.barrier()


def background(rank, size):
    """Calls in the background, several at a time."""
    tensors = [torch.ones(50_000) for _ in range(4)]
    while True:
        for work in [dist.all_reduce(tensor, dist.ReduceOp.MAX, async_op=True) for tensor in tensors]:
            work.wait()


def messages(rank, size):
    """Messages in a ring, and objects."""
    sent, received, objects = torch.ones(20_000), torch.empty(20_000), [None] * size
    while True:
        work = dist.isend(sent, (rank + 1) % size)
        dist.recv(received, (rank - 1) % size)
        work.wait()
        dist.all_gather_object(objects, {"rank": rank, "text": "x" * 1000})


def training(rank, size):
    """Steps of a model in several buckets."""
    model = nn.Sequential(nn.Linear(100, 300), nn.ReLU(), nn.Linear(300, 300), nn.ReLU(), nn.Linear(300, 10))
    model = DistributedDataParallel(model, bucket_cap_mb=0.1, gradient_as_bucket_view=rank % 2 == 0)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    while True:
        optimizer.zero_grad()
        model(torch.randn(8, 100)).pow(2).mean().backward()
        optimizer.step()


WORKS = {"collectives": collectives, "background": background, "messages": messages, "training": training}


def begin(port, rank, size):
    method = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", method, timedelta(seconds=PATIENCE), rank=rank, world_size=size)


def serve(work, rank, ports, victim, out):
    """One rank: works until an error, tells it, and goes on with the other survivors."""
    torch.set_num_threads(1)
    begin(ports[0], rank, SIZE)
    os.write(out, b"ready\n")
    try:
        WORKS[work](rank, SIZE)
    except Exception as error:
        text = str(error).splitlines()[0]
        os.write(out, f"raised {time.monotonic()} {type(error).__name__}: {text}\n".encode())
    dist.destroy_process_group()
    survivors = [one for one in range(SIZE) if one != victim]
    begin(ports[1], survivors.index(rank), len(survivors))
    total = torch.ones(1)
    dist.all_reduce(total)
    dist.destroy_process_group()
    os.write(out, f"total {total.item():.0f}\n".encode())


def start(work, rank, ports, victim, group, folder):
    """Forks a rank. Returns its process id, and the end of a pipe from which its lines come."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setpgid(0, group)
            os.chdir(folder)
            serve(work, rank, ports, victim, theirs)
            code = 0
        except BaseException as error:
            os.write(theirs, f"failed {type(error).__name__}: {error}\n".encode())
        os._exit(code)
    os.close(theirs)
    return pid, ours


def free_ports(count):
    ends = [socket.socket() for _ in range(count)]
    for end in ends:
        end.bind(("127.0.0.1", 0))
    ports = [end.getsockname()[1] for end in ends]
    for end in ends:
        end.close()
    return ports


class Lines:
    """The lines that ranks write."""

    def __init__(self, ends):
        self._left = dict.fromkeys(ends, b"")
        self.found = {end: [] for end in ends}

    def wait(self, done, seconds):
        """Reads until `done(lines of each rank)`, or all ranks have ended. Returns whether it was done."""
        deadline = time.monotonic() + seconds
        while not done(self.found):
            left = deadline - time.monotonic()
            if left <= 0 or not self._left:
                return False
            for end in select.select(list(self._left), [], [], left)[0]:
                data = os.read(end, 1 << 16)
                if not data:
                    del self._left[end]
                    continue
                *whole, self._left[end] = (self._left[end] + data).split(b"\n")
                self.found[end] += [line.decode() for line in whole]
        return True


def left_behind(group, before):
    """What a round has left: processes of its group, and files."""
    # Other programs of the machine may make files too; theirs are in use.
    names = unused(set(os.listdir("/dev/shm")) - before, processes())
    return [f"process {pid}" for pid in members(group)] + [f"/dev/shm/{name}" for name in names]


def play(work, draw):
    """One round. Returns the faults, the errors of the survivors and the longest time until one."""
    victim, ports, before = draw.randrange(SIZE), free_ports(2), set(os.listdir("/dev/shm"))
    with tempfile.TemporaryDirectory() as folder:
        ranks, group = [], 0
        for rank in range(SIZE):
            ranks.append(start(work, rank, ports, victim, group, folder))
            group = ranks[0][0]
            os.setpgid(ranks[-1][0], group)
        lines, faults = Lines([end for _, end in ranks]), []
        if not lines.wait(lambda found: all(found.values()), PATIENCE):
            faults.append(f"did not begin: {list(lines.found.values())}")
        time.sleep(draw.random() * 0.05)
        os.kill(ranks[victim][0], signal.SIGKILL)
        death = time.monotonic()
        others = [end for rank, (_, end) in enumerate(ranks) if rank != victim]
        lines.wait(lambda found: all(len(found[end]) >= 3 for end in others), 2 * PATIENCE)
        errors, longest = [], 0.0
        for end in others:
            lines_of_rank = lines.found[end]
            if (
                len(lines_of_rank) < 3
                or not lines_of_rank[1].startswith("raised")
                or lines_of_rank[2] != f"total {SIZE - 1}"
            ):
                faults.append(f"rank {[one for _, one in ranks].index(end)}: {lines_of_rank}")
                continue
            _, when, error = lines_of_rank[1].split(" ", 2)
            errors.append(error)
            longest = max(longest, float(when) - death)
            # A survivor may leave before another one has noticed the death.
            if f"rank {victim}" not in error and "has left the group" not in error:
                faults.append(f"the error does not name rank {victim}: {error}")
        for pid, end in ranks:
            deadline = time.monotonic() + 5
            while os.waitpid(pid, os.WNOHANG)[0] == 0:
                if time.monotonic() > deadline:
                    os.kill(pid, signal.SIGKILL)
                time.sleep(0.002)
            os.close(end)
        faults += [f"left behind: {one}" for one in left_behind(group, before)]
        faults += [f"left behind: {one}" for one in os.listdir(folder)]
    return faults, errors, longest


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", choices=list(WORKS), help="only this one")
    options = parser.parse_args()
    draw, seen, slowest, bad = random.Random(options.seed), collections.Counter(), [], 0
    for number in range(options.rounds):
        work = options.work or draw.choice(list(WORKS))
        faults, errors, longest = play(work, draw)
        for error in errors:
            seen[re.sub(r"\d+", "N", error)] += 1
        slowest.append(longest)
        bad += bool(faults)
        for fault in faults:
            print(f"round {number}, {work}: {fault}", flush=True)
    slowest.sort()
    print(f"{options.rounds} rounds, {bad} with faults")
    print(f"until the error: median {slowest[len(slowest) // 2] * 1e3:.1f} ms, longest {slowest[-1] * 1e3:.1f} ms")
    for error, count in seen.most_common():
        print(f"{count:6} {error}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
