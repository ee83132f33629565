"""Times a list of statements on one engine and prints the nanoseconds of each as JSON; `run.py` starts one per engine.

    python benches/timing.py rushlight 2        # engine, threads

Each row has a title, a set-up, a statement, and the bytes it must move or the operations it must do. The set-up is
torch's; for NumPy a row has a second pair, or none.
"""

import importlib
import json
import sys
import time

GRAD = "x = torch.ones(10, 10, requires_grad=True)"
STEP = """
model = torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32), torch.nn.ReLU(),
                            torch.nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.ones(16, 10), torch.zeros(16, 1)
def step():
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
"""
CHAIN = """
x = torch.ones(10, 10, requires_grad=True)
def chain():
    y = x
    for _ in range(50):
        y = y * 1.01 + 0.01
    y.sum().backward()
"""
BIG = 20_000_000


def small():
    tens = "a, b = torch.ones(10, 10), torch.ones(10, 10)"
    arrays = "a, b = np.ones((10, 10), np.float32), np.ones((10, 10), np.float32)"
    yield "a + b, 10x10", tens, "a + b", arrays, "a + b", None
    yield "a + b, 10x10, with gradient", GRAD, "x + x", None, None, None
    yield "a.add_(b)", tens, "a.add_(b)", arrays, "np.add(a, b, a)", None
    yield "a[2:5]", tens, "a[2:5]", arrays, "a[2:5]", None
    yield "a[3]", tens, "a[3]", arrays, "a[3]", None
    yield "a.view(100)", tens, "a.view(100)", arrays, "a.reshape(100)", None
    yield "a.t()", tens, "a.t()", arrays, "a.T", None
    yield "a.sum()", tens, "a.sum()", arrays, "a.sum()", None
    yield "a[3].tolist()", tens, "a[3].tolist()", arrays, "a[3].tolist()", None
    yield "zeros(3)", "", "torch.zeros(3)", "", "np.zeros(3, np.float32)", None
    yield "100 operators, forward and backward", CHAIN, "chain()", None, None, None
    yield "training step, 10-32-32-1", STEP, "step()", None, None, None


def large():
    tens, arrays = f"a, b = torch.ones({BIG}), torch.ones({BIG})", f"a, b = (np.ones({BIG}, np.float32) for _ in 'ab')"
    yield "a + b, 2e7", tens, "a + b", arrays, "a + b", ("GB/s", 12 * BIG)
    yield "a.exp(), 2e7", tens, "a.exp()", arrays, "np.exp(a)", ("GB/s", 8 * BIG)
    yield "a.sum(), 2e7", tens, "a.sum()", arrays, "a.sum()", ("GB/s", 4 * BIG)
    for kind, count in ("float32", 32), ("float32", 64), ("float32", 1024), ("float64", 1024), ("bfloat16", 1024):
        tens = (
            f"a, b = torch.ones({count}, {count}, dtype=torch.{kind}), torch.ones({count}, {count}, dtype=torch.{kind})"
        )
        numpy = (
            (None, None)
            if kind == "bfloat16"
            else (f"a, b = (np.ones(({count}, {count}), np.{kind}) for _ in 'ab')", "a @ b")
        )
        yield f"a @ b, {count}, {kind}", tens, "a @ b", *numpy, ("GFLOP/s", 2 * count**3)


GROUPS = {"small": small, "large": large}


def best(statement, names):
    """Nanoseconds of one execution: the fastest of several blocks of about 20 ms."""
    loop = {}
    exec(f"def loop(count):\n for _ in range(count):\n  {statement}", names, loop)
    loop, count = loop["loop"], 1
    while True:
        begin = time.perf_counter_ns()
        loop(count)
        spent = time.perf_counter_ns() - begin
        if spent > 20_000_000:
            break
        count *= 2
    blocks = [spent]
    for _ in range(6):
        begin = time.perf_counter_ns()
        loop(count)
        blocks.append(time.perf_counter_ns() - begin)
    return min(blocks) / count


def main(engine, threads, *groups):
    module = importlib.import_module(engine)
    if engine != "numpy":
        module.set_num_threads(int(threads))
    times = {}
    for group in groups:
        for title, setup, statement, numpy_setup, numpy_statement, _ in GROUPS[group]():
            if engine == "numpy":
                setup, statement = numpy_setup, numpy_statement
            if statement is None:
                continue
            names = {"torch": module, "np": module}
            try:
                exec(setup, names)
                times[title] = best(statement, names)
            except Exception as error:
                times[title] = f"{type(error).__name__}: {error}".splitlines()[0]
    print(json.dumps(times))


if __name__ == "__main__":
    main(*sys.argv[1:])
