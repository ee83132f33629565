"""The time of all_reduce between ranks on machines, which are only names here, beside torch's gloo if it is installed.

machines.py [--places 0,1] [--torch PYTHON]
"""

import argparse
import os
import socket
import subprocess
import sys
import time

SIZES = {1 << 10: 300, 16 << 10: 200, 1 << 20: 30, 64 << 20: 3}  # bytes, and how many calls are timed together


def rank_main(rank: int, ranks: int, port: str) -> None:
    if os.environ["ENGINE"] == "torch":
        import torch
        from torch import distributed as dist

        torch.set_num_threads(1)
    else:
        import rushlight as torch
        from rushlight import distributed as dist
    began = time.perf_counter()
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    times = [f"init {time.perf_counter() - began:.2f} s"]
    for size, calls in SIZES.items():
        tensor, best = torch.zeros(size // 4), 1e9
        for _ in range(5):
            dist.barrier()
            began = time.perf_counter()
            for _ in range(calls):
                dist.all_reduce(tensor)
            best = min(best, (time.perf_counter() - began) / calls)
        times.append(f"{size} bytes {best * 1e3:.3f} ms")
    if rank == 0:
        print(f"{os.environ['ENGINE']}, ranks on machines {os.environ['PLACES']}: {', '.join(times)}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def measure(engine: str, python: str, places: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    environment = {**os.environ, "ENGINE": engine, "PLACES": ",".join(places)}
    ranks = [
        subprocess.Popen(
            [python, __file__, "--rank", str(rank), "--port", port, "--places", ",".join(places)],
            env={**environment, "RUSHLIGHT_MACHINE": place},
        )
        for rank, place in enumerate(places)
    ]
    for process in ranks:
        process.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--places", default="0,1", help="the machine of each rank")
    parser.add_argument("--torch", default=None, help="a Python with torch")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--port", help=argparse.SUPPRESS)
    options = parser.parse_args()
    places = options.places.split(",")
    if options.rank is not None:
        rank_main(options.rank, len(places), options.port)
    else:
        measure("rushlight", sys.executable, places)
        if options.torch:
            measure("torch", options.torch, places)
