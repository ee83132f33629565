"""Runs functions of `nccl_cases.py` and `nccl_parts.py` on several ranks, each a process with a card made of software.

Each line of the input, as JSON, names a module, a function, the number of ranks, a folder and variables of the environment. What the
functions return is written to the folder, a file for each rank. The answer is a line, empty or with what went wrong. The ranks are
forked from this process, which has imported everything once and does not use a device.
"""

import json
import multiprocessing
import os
import signal
import sys

import nccl_cases
import nccl_parts

from rushlight import distributed as dist

MODULES = {module.__name__: module for module in (nccl_cases, nccl_parts)}


def run(rank, function, size, folder, variables):
    os.environ.update(variables)
    output = os.open(f"{folder}/output", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(output, stream)
    signal.alarm(100)
    result = function(rank, size, f"{folder}/store")
    if dist.is_initialized():
        dist.destroy_process_group()
    with open(f"{folder}/{rank}", "w") as file:
        json.dump(result, file)


def answer(module, name, size, folder, variables):
    arguments = (getattr(MODULES[module], name), size, folder, variables)
    processes = [
        multiprocessing.get_context("fork").Process(target=run, args=(rank, *arguments)) for rank in range(size)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    codes = [process.exitcode for process in processes]
    expected = [0] * (size - 1) + [-signal.SIGKILL if name == "killed" else 0]
    return "" if codes == expected else f"the ranks of {name} ended with {codes}"


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(*json.loads(line))), flush=True)
