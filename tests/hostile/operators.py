"""Calls every operator with random, often invalid arguments. `fuzz_operators.py` runs it in a child process.

    python operators.py SEED FIRST LAST CURRENT KIND

Case `n` of a seed is always the same, except for races. KIND selects the callables (`KINDS`): the operators, internal
operators, whose operands no public operator has checked, or public names that are not operators. The file CURRENT
contains the text of the current case, so that the parent can report it after a crash. An exception is correct. Findings
are: a panic, running out of memory without large arguments, a crash, a call that does not end within `PATIENCE` seconds
of computing or waiting, a message that exposes the engine's internals, and a leaked file descriptor.
"""

import gc
import math
import os
import random
import re
import resource
import signal
import sys
import threading
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "ops"))

import numpy as np
from names import names
from table_cases import ALL, OPERATORS, Draw, dtype_of

import rushlight as torch

#: Enough memory for any realistic case, and far less than a wrong size would need.
MEMORY = 3 << 30
#: Seconds of computing, and of waiting, after which a case counts as endless.
PATIENCE = 20, 90
#: The number of file descriptors that may stay open, because shared memory keeps some.
DESCRIPTORS = 16
#: Text that must not occur in messages: terms of Rust, file names and addresses of the engine.
INSIDE = re.compile(
    r"panick|unwrap|\.rs\b|(core|std|alloc|rushlight\w*)::|\b(usize|isize|u64|i64|u8|Option|Vec|RefCell|PyErr|PyAny)\b"
    r"|rushlight[-_]\w|pyo3|\brust\b|unreachable|attempt to (add|subtract|multiply|divide|negate|shift)"
)
#: The share of cases in which another thread changes the tensors, and of those that are long enough for it.
RACING = 0.04
SIZES = (
    0,
    1,
    2,
    3,
    -1,
    -2,
    5,
    64,
    65,
    1000,
    2**31 - 1,
    2**31,
    -(2**31),
    2**40,
    -(2**40),
    2**62,
    2**63 - 1,
    -(2**63),
    2**64,
)
NUMBERS = (
    0,
    1,
    -1,
    2.5,
    True,
    1j,
    2**40,
    2**63 - 1,
    -(2**63),
    float("nan"),
    float("inf"),
    -float("inf"),
    1e300,
    1e-300,
)
WORDS = (
    "none",
    "mean",
    "sum",
    "trunc",
    "floor",
    "reflect",
    "constant",
    "same",
    "valid",
    "tanh",
    "ij",
    "ij,jk->ik",
    "x",
)
VALUES = (0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e300, 2.0**62, -(2.0**63), 127.0, 128.0, 255.0, 1e-320)


class Refuses:
    """An object with all methods of a number and of a sequence, each of which raises an error."""

    def refuse(self, *_):
        raise ArithmeticError("refused")

    __index__ = __float__ = __len__ = __getitem__ = refuse


class Derived(torch.Tensor):
    """A tensor subclass."""


class Meddler:
    """A number and sequence that changes the other arguments of the call when its value is read."""

    def __init__(self, case):
        self.case = case

    def meddle(self):
        self.case.meddle()
        return self.case.pick((0, 1, 2))

    def __getitem__(self, place):
        if place > 3:
            raise IndexError
        return self.meddle()

    def __len__(self):
        return min(self.meddle(), 3)

    __index__ = meddle

    def __float__(self):
        return float(self.meddle())

    def __bool__(self):
        return bool(self.meddle())


def endless():
    inside = []
    inside.append(inside)
    return inside


class Case:
    """The arguments of one call, generated from a separate random stream."""

    def __init__(self, operators, seed, number):
        self.random = random.Random(seed * 1_000_003 + number)
        self.op = operators[number % len(operators)]
        self.made, self.races = [], self.chance(RACING)
        first = (self.pick((100, 600)), 257) if self.races and self.chance(0.5) else self.shape()
        self.shapes = [first, first[1:], (1, *first[1:])]
        self.args, self.kwargs = self.sample() if self.op.samples and self.chance(0.5) else self.invented()
        self.name, self.function = self.form()
        self.name = f"{self.op.namespace}.{self.name}".lstrip(".")

    def chance(self, share):
        return self.random.random() < share

    def pick(self, items):
        return self.random.choice(items)

    # Arguments

    def sample(self):
        """One of the operator's samples, with some arguments replaced."""
        dtype = self.pick(self.op.dtypes)
        text = self.pick(self.op.samples)
        try:
            args, kwargs = eval(f"capture({text})", Draw(dtype, str(self.random.random())).words())
        except (NotImplementedError, RuntimeError):  # the sample needs another dtype
            return self.invented()
        args = list(args)
        for _ in range(self.pick((0, 1, 1, 1, 2, 3))):
            if args:
                at = self.random.randrange(len(args))
                param = self.op.params[min(at, len(self.op.params) - 1)]
                twist = isinstance(args[at], torch.Tensor) and self.chance(0.4)
                args[at] = self.twisted(args[at]) if twist else self.value(param["kind"])
        return args, kwargs

    def invented(self):
        args, kwargs = [], {}
        for param in self.op.params:
            if param["default"] is None or self.chance(0.6):
                if param["keyword_only"] or kwargs:
                    kwargs[param["name"]] = self.value(param["kind"])
                else:
                    args.append(self.value(param["kind"]))
            elif not param["keyword_only"]:
                break
        return args, kwargs

    def value(self, kind):
        if self.chance(0.06):
            return self.junk()
        if kind == "Tensors":
            return [self.tensor() for _ in range(self.pick((0, 1, 2, 2, 3)))]
        if kind == "Tensor" or (kind == "Operand" and self.chance(0.7)):
            return self.tensor()
        if kind == "Int":
            return self.size()
        if kind == "Ints":
            return self.size() if self.chance(0.15) else [self.size() for _ in range(self.random.randint(0, 4))]
        if kind == "Floats":
            return [self.random.uniform(-3, 3) for _ in range(self.random.randint(0, 3))]
        if kind == "Bool":
            return self.chance(0.5)
        if kind == "DType":
            return dtype_of(self.pick(ALL))
        if kind == "Str":
            return self.pick(WORDS)
        if kind == "Device":
            return self.pick(("cpu", "cpu:1", "cuda", "meta", "nowhere"))
        if kind == "Key":
            return self.part() if self.chance(0.3) else tuple(self.part() for _ in range(self.random.randint(0, 4)))
        if kind == "Any":
            return self.value(
                self.pick(("Tensor", "Tensor", "Tensors", "Int", "Ints", "Scalar", "Bool", "Str", "DType"))
            )
        return self.pick(NUMBERS)

    def part(self):
        """A random part of an index."""
        ways = (
            self.size,
            lambda: slice(*(self.pick((None, self.size())) for _ in range(3))),
            lambda: None,
            lambda: ...,
            lambda: self.chance(0.5),
            self.tensor,
            lambda: torch.randint(-2, 3, self.shape()),
            lambda: torch.rand(self.pick(self.shapes)) > 0.5,
            lambda: [self.size() for _ in range(self.random.randint(0, 3))],
            self.junk,
        )
        return self.pick(ways)()

    def size(self):
        return self.pick((0, 1, 2, 3, -1, -2)) if self.chance(0.75) else self.pick(SIZES)

    def junk(self):
        """A random class that is not a tensor class: CPython 3.11 to 3.13 may read beyond its stack if a method of such
        a class, as of `str`, is called without arguments.
        """
        made = (
            None,
            2**100,
            10**400,
            "",
            "\ud800",
            b"x",
            (),
            [None],
            [[1]],
            {},
            Meddler(self),
            [1, Meddler(self)],
            Meddler(self),
            Refuses(),
            [Refuses()],
            endless(),
            object(),
        )
        others = (
            len,
            torch.float32,
            int,
            np.float32(2),
            np.arange(3),
            np.ones((2, 3), ">f4")[::-1],
            np.zeros(2, "i4,f8"),
            torch.empty(2**40, 2**10, device="meta"),
            torch.float,
            (1,) * 70,
            (2**62, 2**62),
            range(3),
            ...,
        )
        return self.pick(made + others)

    # Tensors

    def shape(self):
        if self.chance(0.12):
            return ()
        if self.chance(0.12):
            return (self.random.randint(0, 3), 0, self.random.randint(1, 3))
        if self.chance(0.03):
            return (1,) * 64
        return tuple(self.random.randint(1, 5) for _ in range(self.random.randint(1, 4)))

    def tensor(self):
        """A new tensor, or another one of the call, possibly as a view."""
        if self.made and self.chance(0.12):
            tensor = self.pick(self.made)
            return self.twisted(tensor) if self.chance(0.5) else tensor
        self.made.append(self.drawn())
        return self.made[-1]

    def drawn(self):
        shape = self.pick(self.shapes) if self.chance(0.6) else self.shape()
        values = np.random.default_rng(self.random.getrandbits(32))
        array = values.choice(VALUES, shape) if self.chance(0.2) else values.uniform(-3, 3, shape)
        dtype = self.pick(("float32", "float64", "int64")) if self.chance(0.55) else self.pick(ALL)
        made = torch.from_numpy(np.array(array)).to(dtype_of(dtype))
        if self.chance(0.4):
            made = self.twisted(made)
        if (
            self.chance(0.3)
            and made.is_leaf
            and not made.is_inference()
            and (made.is_floating_point() or made.is_complex())
        ):
            made.requires_grad_()
        return made

    def twisted(self, tensor):
        """Changes the geometry, the dtype or the class."""
        ways = (
            lambda: tensor.expand(3, *tensor.shape)[1:],
            lambda: tensor[::-1],
            lambda: tensor[..., ::2],
            lambda: tensor.transpose(0, -1),
            lambda: tensor[:0],
            lambda: tensor.reshape(-1).as_strided((tensor.numel() // 2, 2), (1, 1)),
            lambda: tensor.as_strided(tensor.shape, (0,) * tensor.dim()),
            lambda: tensor.as_subclass(Derived),
            lambda: tensor.to(dtype_of(self.pick(ALL))),
            lambda: tensor.detach().clone().share_memory_(),
            lambda: tensor[..., :1].expand(*tensor.shape[:-1], 70_000),
            lambda: tensor[:0].expand(0, *tensor.shape[1:], 2**40),
            lambda: tensor.as_strided(tensor.shape, self.random.choices((0, 1, 1, 2), k=tensor.dim())),
            lambda: tensor.clone().set_(),
            lambda: torch.nn.Parameter(tensor.detach()),
            lambda: inference(tensor),
            lambda: tensor.to("meta"),
            lambda: tensor.to("meta")[..., :1].expand(*tensor.shape[:-1], self.pick((2**31, 2**31 + 1, 2**62))),
            lambda: tensor[(None,) * (64 - tensor.dim())],
            lambda: torch.from_numpy(tensor.detach().numpy()[::-1, ...]),
        )
        try:
            return self.pick(ways)()
        except (IndexError, RuntimeError, TypeError, ValueError):
            return tensor

    def meddle(self):
        """Changes a tensor of the call, even while it is in use."""
        if not self.made:
            return
        tensor = self.pick(self.made)
        ways = (
            lambda: tensor.set_(),
            lambda: tensor.set_(torch.rand(self.random.randint(0, 9)).to(tensor.dtype)),
            lambda: tensor.resize_(self.pick(self.shapes)),
            lambda: tensor.resize_(self.random.randint(0, 200_000)),
            lambda: setattr(tensor, "data", tensor.detach().clone()),
            lambda: setattr(tensor, "data", torch.ones(2, dtype=torch.int8)),
            lambda: tensor.detach().fill_(self.pick((0, 1, -1, 2**40, float("nan")))),
            lambda: tensor.requires_grad_(self.chance(0.5)),
            lambda: tensor.share_memory_(),
            lambda: tensor.t_(),
            lambda: tensor.detach_(),
            lambda: setattr(tensor, "grad", None),
        )
        try:
            self.pick(ways)()
        except (IndexError, RuntimeError, TypeError, ValueError):
            pass

    # The call

    def form(self):
        """The name and the callable: function, method, in-place form or with `out=`."""
        op, name = self.op, self.op.python_name
        found = op.function() if "function" in op.variants else None
        own = self.args and isinstance(self.args[0], torch.Tensor)
        if "inplace" in op.variants and own and self.chance(0.25):
            return name + "_", op.method("_")
        if "out" in op.variants and found and self.chance(0.25):
            tensors = tensors_in(self.args)
            self.kwargs["out"] = self.pick(tensors) if tensors and self.chance(0.5) else self.tensor()
        elif "method" in op.variants and own and (found is None or self.chance(0.2)):
            return name, op.method()
        return name, found

    def run(self):
        if not self.races:
            return self.call()
        over = threading.Event()
        other = threading.Thread(target=self.meddle_until, args=(over,))
        other.start()
        try:
            self.call()
        finally:
            over.set()
            other.join()

    def meddle_until(self, over):
        while not over.is_set():
            self.meddle()

    def call(self):
        results = tensors_in(self.function(*self.args, **self.kwargs))
        for result in results:
            # A tensor without elements is a nested list according to the sizes before the first zero.
            if math.prod(size or 1 for size in result.shape) < 10_000 and result.device.type == "cpu":
                repr(result)
                result.detach().clone().tolist()
        tracked = [result for result in results if result.requires_grad and result.numel() < 10_000_000]
        if tracked:
            self.differentiate(self.pick(tracked))

    def differentiate(self, result):
        leaves = [tensor for tensor in tensors_in([self.args, self.kwargs]) if tensor.is_leaf and tensor.requires_grad]
        grads = torch.autograd.grad(result, leaves, torch.ones_like(result), create_graph=True, allow_unused=True)
        further = [grad for grad in grads if grad is not None and grad.requires_grad]
        if further:
            sum(grad.abs().sum() for grad in further).backward()

    def __str__(self):
        named = [f"{key}={show(value)}" for key, value in self.kwargs.items()]
        return f"{self.name}({', '.join([show(value) for value in self.args] + named)})"


def tensors_in(value, depth=0):
    """The tensors in an argument or result. A list may contain itself."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, (list, tuple)) or depth > 4:
        return []
    return [found for item in value for found in tensors_in(item, depth + 1)]


def show(value):
    if isinstance(value, torch.Tensor):
        return f"<{type(value).__name__} {tuple(value.shape)} {value.dtype} strides {value.stride()}>"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(show(item) if item is not value else '...' for item in value)}]"
    return ascii(value)


def inference(tensor):
    with torch.inference_mode():
        return tensor.clone()


def is_modest(case):
    """Whether all arguments are small: no huge numbers, no tensors on other devices or with many elements."""

    def modest(value, depth=0):
        if isinstance(value, torch.Tensor):
            return value.device.type == "cpu" and value.numel() < 10**6 and modest(values_of(value), 1)
        if isinstance(value, (int, float, complex, np.generic)):
            return value != value or abs(value) < 10**4
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, (list, tuple)):
            return depth < 5 and len(value) < 64 and all(modest(item, depth + 1) for item in value)
        return value is None or isinstance(value, (str, bool, torch.dtype, torch.device))

    return not case.races and modest([case.args, case.kwargs])


def values_of(tensor):
    """Whether integers may be sizes."""
    return tensor.flatten()[:100].tolist() if tensor.dtype in (torch.int64, torch.int32) else []


#: The callables for each kind of attack.
KINDS = {
    "operators": lambda: OPERATORS,
    "engine": lambda: [op for op in OPERATORS if op.name.startswith("_")],
    "names": names,
}


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def main(seed, first, last, current, kind):
    operators = KINDS[kind]()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    sys.setswitchinterval(1e-4)
    warnings.simplefilter("ignore")
    file = os.open(current, os.O_WRONLY)
    allowed = descriptors() + DESCRIPTORS
    for number in range(first, last):
        torch.manual_seed(number)
        case = Case(operators, seed, number)
        if case.function is None:
            continue
        text = f"{number} of seed {seed}, {kind}: {'racing ' if case.races else ''}{case}".encode()[:4000]
        os.pwrite(file, text.ljust(4000), 0)
        signal.setitimer(signal.ITIMER_PROF, PATIENCE[0])
        signal.setitimer(signal.ITIMER_REAL, PATIENCE[1])
        try:
            case.run()
        except (SystemError, MemoryError):
            if is_modest(case):
                raise
        except Exception as error:
            if INSIDE.search(str(error)):
                raise
        if descriptors() > allowed:
            del case
            gc.collect()
            if descriptors() > allowed:
                raise SystemExit(f"{descriptors()} descriptors are open, {allowed} were to be expected")
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), *sys.argv[4:])
