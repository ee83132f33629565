"""Measures a GPU: copies, products, launches and training steps of rushlight beside torch.

    python benches/cuda.py                              # torch from this interpreter
    python benches/cuda.py --torch PYTHON --rounds 5

The engines take turns, each in a process of its own, and the median of the rounds is printed. It does not pass or fail.
"""

import argparse
import functools
import importlib
import json
import statistics
import subprocess
import sys
import time

import models


def seconds(torch, work, count):
    """The time of a call on the device, between two events, after three calls to warm up."""
    for _ in range(3):
        work()
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    first.record()
    for _ in range(count):
        work()
    last.record()
    torch.cuda.synchronize()
    return first.elapsed_time(last) / count / 1e3


def host_seconds(torch, work, count=500):
    """The time that a call takes on the host, which does not wait for the device."""
    for _ in range(20):
        work()
    times = []
    for _ in range(5):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(count):
            work()
        times.append((time.perf_counter() - began) / count)
    return min(times)


def calls(torch):
    """Title and unit of each call, and a function that measures it."""

    def normal(*sizes, **options):
        return torch.randn(*sizes, device="cuda", **options)

    def bandwidth(moved, work):
        return lambda: moved / seconds(torch, work, 10) / 1e9

    def rate(operations, work):
        return lambda: operations / seconds(torch, work, 5) / 1e12

    def launch(work):
        return lambda: host_seconds(torch, work) * 1e6

    count = 1 << 28
    x, y = normal(count), normal(count)
    rows = x.view(-1, 4096)
    yield "copy, 1 GiB of float32, GB/s", bandwidth(8 * count, lambda: y.copy_(x))
    yield "exp, GB/s", bandwidth(8 * count, lambda: torch.exp(x, out=y))
    yield "a + b, GB/s", bandwidth(12 * count, lambda: torch.add(x, y, out=y))
    yield "sum, GB/s", bandwidth(4 * count, lambda: x.sum())
    yield "sum of rows of 4096, GB/s", bandwidth(4 * count, lambda: rows.sum(1))
    yield "sum of columns, GB/s", bandwidth(4 * count, lambda: rows.sum(0))
    yield "softmax of rows of 4096, GB/s", bandwidth(8 * count, lambda: torch.softmax(rows, 1))
    yield "transposed copy, GB/s", bandwidth(8 * count, lambda: rows.t().contiguous())
    yield "sort of 2^24, ms", lambda: 1e3 * seconds(torch, lambda: x[: 1 << 24].sort(), 5)
    yield "cumsum of 2^24, ms", lambda: 1e3 * seconds(torch, lambda: x[: 1 << 24].cumsum(0), 5)
    for kind in "float32", "bfloat16":
        a, b = (normal(8192, 8192).to(getattr(torch, kind)) for _ in range(2))
        yield f"product of 8192, {kind}, TFLOP/s", rate(2 * 8192**3, lambda a=a, b=b: a @ b)
    image = normal(32, 64, 56, 56)
    convolution = torch.nn.Conv2d(64, 64, 3, padding=1, bias=False, device="cuda").requires_grad_(False)
    yield "convolution, 3x3, TFLOP/s", rate(2 * 9 * 64 * image.numel(), lambda: convolution(image))
    q = normal(8, 12, 1024, 64).to(torch.bfloat16)
    attention = torch.nn.functional.scaled_dot_product_attention
    yield "attention, bfloat16, TFLOP/s", rate(4 * 1024 * q.numel(), lambda: attention(q, q, q))
    a, b, g, m = normal(16), normal(16), normal(16, requires_grad=True), normal(16, 16)
    yield "launch of a + b, us", launch(lambda: a + b)
    yield "launch of a + b with gradient, us", launch(lambda: g + b)
    yield "launch of a product, us", launch(lambda: m @ m)


def steps(torch):
    """Title of each model, and a function that makes its training step."""
    yield "ResNet-18, 32 x 56 x 56", lambda: models.resnet(torch, 32, 56)
    yield "MLP, 784-512-512-10", lambda: models.mlp(torch, [784, 512, 512, 10], 128)
    yield "LSTM, width 256, 32 x 64", lambda: models.lstm(torch, 256, 32, 64)
    yield "GPT, width 256, 4 layers", lambda: models.gpt(torch, 256, 4, 4, 32, 128)


def training(torch, make):
    """Milliseconds of a step, and how often ten further steps asked the driver for memory."""
    step = make()
    spent = seconds(torch, step, 10) * 1e3
    before = torch.cuda.memory_stats()["num_device_alloc"]
    for _ in range(10):
        step()
    torch.cuda.synchronize()
    return spent, torch.cuda.memory_stats()["num_device_alloc"] - before


def measure(engine):
    """Prints what one engine gives as JSON: numbers, or the first line of an error."""
    torch = importlib.import_module(engine)
    found = {}

    def note(title, work):
        try:
            found[title] = work()
        except Exception as error:
            found[title] = f"{type(error).__name__}: {error}".splitlines()[0]
        print(f"{engine}: {title}: {found[title]}", file=sys.stderr, flush=True)

    for title, work in calls(torch):
        note(title, work)
    torch.cuda.empty_cache()
    torch.set_default_device("cuda")
    for title, make in steps(torch):
        note(title, functools.partial(training, torch, make))
        if isinstance(found[title], tuple):
            spent, allocations = found.pop(title)
            found |= {f"{title}, ms": spent, f"{title}, driver allocations": allocations}
    print(json.dumps(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", default=sys.executable, help="the interpreter that has torch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engine", help="measure this engine alone")
    options = parser.parse_args()
    if options.engine:
        return measure(options.engine)
    rounds = {"rushlight": [], "torch": []}
    for _ in range(options.rounds):
        for engine, python in ("rushlight", sys.executable), ("torch", options.torch):
            command = [python, __file__, "--engine", engine]
            answer = subprocess.run(command, stdout=subprocess.PIPE, text=True)
            if answer.returncode == 0:
                rounds[engine].append(json.loads(answer.stdout))
    print(f"{'':45}{'rushlight':>14}{'torch':>14}")
    for title in dict.fromkeys(title for answers in rounds.values() for answer in answers for title in answer):
        cells = []
        for answers in rounds.values():
            values = [answer[title] for answer in answers if title in answer]
            numbers = [value for value in values if not isinstance(value, str)]
            cells.append(f"{statistics.median(numbers):14.2f}" if numbers else f"{(values or ['-'])[0][:40]:>14}")
        print(f"{title:45}{''.join(cells)}")


if __name__ == "__main__":
    main()
