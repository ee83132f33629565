"""Times calls of several processes, and training steps under DistributedDataParallel, beside torch with its backend gloo.

    python benches/collectives.py                          # with torch, if it is installed beside rushlight
    python benches/collectives.py --torch PYTHON --rounds 5 --sizes 2

Engines alternate in each round, and the median of the rounds is printed. Every process computes with one thread.
"""

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import models

#: A title, how often the call is made, and a function that takes the engine and returns the call.
CALLS = [
    ("all_reduce, 1 kB", 500, lambda torch: reduction(torch, 256)),
    ("all_reduce, 1 MB", 100, lambda torch: reduction(torch, 1 << 18)),
    ("all_reduce, 64 MB", 5, lambda torch: reduction(torch, 1 << 24)),
    ("broadcast, 1 MB", 100, lambda torch: broadcast(torch, 1 << 18)),
    ("all_gather, 1 MB from each", 50, lambda torch: gathering(torch, 1 << 18)),
    ("step of ResNet-18, 8 images of 32x32", 3, lambda torch: models.resnet(torch, 8, 32)),
    ("step of a small GPT, 8 passages of 64", 5, lambda torch: models.gpt(torch, 128, 4, 4, 8, 64)),
]


def reduction(torch, count):
    tensor = torch.ones(count)
    return lambda: torch.distributed.all_reduce(tensor, torch.distributed.ReduceOp.MAX)


def broadcast(torch, count):
    tensor = torch.ones(count)
    return lambda: torch.distributed.broadcast(tensor, 0)


def gathering(torch, count):
    tensor, parts = torch.ones(count), [torch.empty(count) for _ in range(torch.distributed.get_world_size())]
    return lambda: torch.distributed.all_gather(parts, tensor)


def work(engine, rank, size, address, chosen):
    """One rank. Rank 0 prints the milliseconds of each call as JSON."""
    torch = importlib.import_module(engine)
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=size)
    found = {}
    for title, count, make in CALLS:
        if chosen not in title:
            continue
        call = make(torch)
        call()
        torch.distributed.barrier()
        begin = time.perf_counter()
        for _ in range(count):
            call()
        torch.distributed.barrier()
        found[title] = 1e3 * (time.perf_counter() - begin) / count
    torch.distributed.destroy_process_group()
    if rank == 0:
        print(json.dumps(found))


def measure(python, engine, size, chosen):
    """The milliseconds of each call on one engine, or None if it does not exist."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = [
            subprocess.Popen(
                [python, __file__, "--work", engine, str(rank), str(size), f"file://{folder}/store", chosen],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
            for rank in range(size)
        ]  # fmt: skip
        answers = [rank.communicate() for rank in ranks]
    failed = [errors for rank, (_, errors) in zip(ranks, answers) if rank.returncode]
    if failed and f"No module named '{engine}'" not in failed[0]:
        print(failed[0], file=sys.stderr)
    return None if failed else json.loads(answers[0][0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch", default=sys.executable, metavar="PYTHON", help="an interpreter that has torch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[2, 4], help="numbers of processes")
    parser.add_argument("--only", default="", help="only the calls with this text in their titles")
    options = parser.parse_args()
    engines = {"rushlight": sys.executable, "torch": options.torch}
    for size in options.sizes:
        rounds = {engine: [] for engine in engines}
        for _ in range(options.rounds):
            for engine, python in engines.items():
                if (answer := measure(python, engine, size, options.only)) is not None:
                    rounds[engine].append(answer)
        print(f"\n{size} processes{'':27}{''.join(f'{engine:>14}' for engine in engines)}   of torch")
        for title, _, _ in CALLS:
            medians = [
                statistics.median(answer[title] for answer in answers) if answers and title in answers[0] else None
                for answers in rounds.values()
            ]
            if medians == [None, None]:
                continue
            cells = "".join(f"{'-':>14}" if median is None else f"{median:11.3f} ms" for median in medians)
            print(f"{title:38}{cells}" + (f"{medians[0] / medians[1]:10.2f}" if all(medians) else f"{'-':>10}"))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        engine, rank, size, address, chosen = sys.argv[2:]
        work(engine, int(rank), int(size), address, chosen)
    else:
        main()
