"""Times a list of statements on one engine and prints the nanoseconds of each as JSON; `run.py` starts it per engine.

    python benches/timing.py rushlight 2        # engine, threads

Each row has a title, a set-up, a statement, and the number of bytes it moves or of operations it performs. The set-up
is for torch and rushlight. A row has a second set-up and statement for NumPy, or none.
"""

import importlib
import io
import json
import os
import sys
import tempfile
import time
import warnings

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


def training():
    models = {
        "MLP, 64-64-10, batches of 32": "mlp(torch, [64, 64, 10], 32)",
        "MLP, 784-512-512-10, batches of 128": "mlp(torch, [784, 512, 512, 10], 128)",
        "LeNet, batches of 64": "lenet(torch, 64)",
        "LSTM, width 64, 16 x 32": "lstm(torch, 64, 16, 32)",
        "LSTM, width 256, 32 x 64": "lstm(torch, 256, 32, 64)",
        "GPT, width 32, 2 layers, 8 x 32": "gpt(torch, 32, 2, 2, 8, 32)",
        "GPT, width 128, 4 layers, 8 x 128": "gpt(torch, 128, 4, 4, 8, 128)",
        "ResNet-18, 16 images of 32 x 32": "resnet(torch, 16, 32)",
    }
    for title, call in models.items():
        yield title, f"import models; step = models.{call}", "step()", None, None, None


def optimizers():
    options = {"SGD, momentum": "momentum=0.9", "Adam, amsgrad": "amsgrad=True"}
    names = "SGD Adam AdamW NAdam RAdam Adamax Adagrad Adadelta RMSprop Rprop ASGD Adafactor".split()
    for title in [*names, *options]:
        call = f"optimizer(torch, '{title.split(',')[0]}', {options.get(title, '')})"
        yield f"{title}, 1e7 parameters", f"import models; step = models.{call}", "step()", None, None, None


SAMPLES = """
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 10))
weights = {name: weight.detach() for name, weight in model.named_parameters()}
x, y = torch.ones(128, 64), torch.ones(128, 10)
def loss(weights, x, y):
    return torch.nn.functional.mse_loss(torch.func.functional_call(model, weights, (x,)), y)
each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
"""
WAVE = """
w = torch.ones(64, 64) / 64
def wave(x):
    return (w @ x.sin()).tanh() * x
x = torch.linspace(0, 1, 64)
"""


def maps():
    yield "128 gradients, MLP 64-64-10", SAMPLES, "each(weights, x, y)", None, None, None
    yield "jacrev, 64 to 64", f"{WAVE}f = torch.func.jacrev(wave)", "f(x)", None, None, None
    yield "jacfwd, 64 to 64", f"{WAVE}f = torch.func.jacfwd(wave)", "f(x)", None, None, None
    yield "hessian, 64 arguments", f"{WAVE}f = torch.func.hessian(lambda x: wave(x).sum())", "f(x)", None, None, None
    ensemble = (
        "a, x = torch.ones(50, 32, 32), torch.ones(32)\nf = torch.vmap(lambda a, x: (a @ x).relu().sum(), (0, None))"
    )
    yield "50 products, ReLU, sum", ensemble, "f(a, x)", None, None, None


GROUPS = {"small": small, "large": large, "training": training, "optimizers": optimizers, "maps": maps}


# ---- data: loaders, queues, files -----------------------------------------------------------------------------------


class Range:
    """A dataset whose samples take no time to create."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return index


class Images:
    """A dataset of images that are already in memory."""

    def __init__(self, torch, count):
        self.count, self.image = count, torch.ones(3, 224, 224)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.image


def produce(torch, queue, count, done):
    torch.set_num_threads(1)  # torch hangs in a forked child if its parent has used several threads
    for _ in range(count):
        queue.put(torch.ones(1 << 18))
    done.wait()


def seconds(action, rounds=3):
    """The fastest of some rounds. The result of a round is released before the next."""
    spent = []
    for _ in range(rounds):
        begin = time.perf_counter()
        result = action()
        spent.append(time.perf_counter() - begin)
        del result
    return min(spent)


def data(torch):
    """Measures samples and messages per second, and the seconds that files take."""
    warnings.simplefilter("ignore")  # more workers than cores, on purpose
    yield from loaders(torch, importlib.import_module(f"{torch.__name__}.utils.data"))
    yield from messages(torch, importlib.import_module(f"{torch.__name__}.multiprocessing"))
    yield from files(torch)


def loaders(torch, module):
    def rate(dataset, workers):
        batches = iter(module.DataLoader(dataset, batch_size=32, num_workers=workers))
        next(batches)
        begin = time.perf_counter()
        for _ in batches:
            pass
        return len(dataset) / (time.perf_counter() - begin)

    for workers in (0, 2, 4):
        yield f"samples/s, {workers} workers", rate(Range(400_000 if workers == 0 else 40_000), workers)
    yield "images/s, batches of 19 MB, 2 workers", rate(Images(torch, 6400), 2)


def messages(torch, processes):
    queue, done = processes.Queue(), processes.Event()
    producer = processes.Process(target=produce, args=(torch, queue, 600, done))
    producer.start()
    for _ in range(100):
        queue.get()
    begin = time.perf_counter()
    for _ in range(500):
        queue.get()
    yield "1 MB tensors/s through a Queue", 500 / (time.perf_counter() - begin)
    done.set()
    producer.join()
    queue, shared = processes.SimpleQueue(), torch.zeros(1 << 28).share_memory_()

    def there_and_back():
        queue.put(shared)
        return queue.get()

    yield "1 GiB, already shared, through a queue: us", 1e6 * seconds(there_and_back, 20)


def files(torch):
    state = {f"layer{number}": torch.ones(25_000_000 // 4) for number in range(40)}
    # In memory if possible, so that the disk is not measured.
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        path = os.path.join(folder, "state.pt")
        yield "save 1 GB: s", seconds(lambda: torch.save(state, path))
        yield "load 1 GB: s", seconds(lambda: torch.load(path))
        yield "load 1 GB with mmap=True: ms", 1e3 * seconds(lambda: torch.load(path, mmap=True))
    buffer = io.BytesIO()
    torch.save(dict(list(state.items())[:4]), buffer)

    def load():
        buffer.seek(0)
        return torch.load(buffer)

    yield "load 100 MB from memory: ms", 1e3 * seconds(load, 5)


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
    if groups == ("data",):
        print(json.dumps(dict(data(module))))
        return
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
