"""The operator table as test cases: operators, samples, NumPy references, and reports of failures.

A sample is the text between the parentheses of a call. In it `t(2, 3)` is a random tensor of the dtype under test,
`real(2, 3)` the same for dtypes that are not complex, `pos(2, 3)` one of positive values, `unit(2, 3)` one of values in
(-1, 1), `i(high, 2, 3)` an integer tensor with values below `high`, and `b(2, 3)` a bool tensor. The values depend only
on the operator, the sample and the dtype.
"""

import ast
import itertools
import math
import operator
import re
import warnings
import zlib
from functools import reduce

import numpy as np
import pytest
from references_nn import REFERENCES

import rushlight as torch
from rushlight import _C

HALVES = ("float16", "bfloat16")
FLOATS = (*HALVES, "float32", "float64")
COMPLEX = ("complex64", "complex128")
SIGNED = ("int8", "int16", "int32", "int64")
INTS = ("uint8", *SIGNED)
WIDE = ("uint16", "uint32", "uint64")
ALL = ("bool", *INTS, *WIDE, *FLOATS, *COMPLEX)

#: One dtype of each kind, for tests in which all would take long.
FEW = ("bool", "int32", "bfloat16", "float32", "complex64")
#: Relative and absolute tolerance by the dtype of the result.
TOLERANCE = {
    "float16": (2e-3, 2e-3),
    "bfloat16": (1.6e-2, 1e-2),
    "float32": (1e-5, 1e-5),
    "complex64": (1e-5, 1e-5),
    "float64": (1e-11, 1e-11),
    "complex128": (1e-11, 1e-11),
}


def category(dtype):
    return next(
        (name for name in ("bool", "complex") if dtype.startswith(name)), "float" if "float" in dtype else "int"
    )


RANK = ("bool", "int", "float", "complex")


def can_cast(source, target):
    """Whether results of one dtype may be stored in another, which must not have a lower category."""
    if category(target) == "bool":
        return category(source) == "bool"
    return RANK.index(category(source)) <= RANK.index(category(target))


def name_of(dtype):
    """`torch.float32` as "float32"."""
    return str(dtype).removeprefix("torch.").removeprefix("rushlight.")


def dtype_of(name):
    return getattr(torch, name)


class Operator:
    """One operator of the table."""

    def __init__(self, entry):
        self.entry = entry
        for key, value in entry.items():
            setattr(self, key, value)
        self.tensors = [at for at, p in enumerate(self.params) if p["kind"] in ("Tensor", "Operand", "Tensors")]

    def __repr__(self):
        return self.name

    def full_name(self):
        return f"{self.namespace}.{self.name}" if self.namespace else self.name

    def function(self):
        """The Python callable: the function, or else the method, or else the in-place method."""
        if "function" in self.variants:
            return self.settled(_C._functions[self.namespace][self.python_name])
        return self.method("" if "method" in self.variants else "_")

    def method(self, suffix=""):
        return self.settled(getattr(torch.Tensor, self.python_name + suffix))

    def settled(self, function):
        """Sets uninitialised elements (NumPy's `empty`) to zero, so that results can be compared. A function of separate
        tensors also takes a list of them, as the samples have it.
        """
        if any(p["separate"] for p in self.params):
            return lambda *args, **kwargs: function(
                *(args[0] if args and isinstance(args[0], list) else args), **kwargs
            )
        if not self.reference.startswith("np.empty"):
            return function
        return lambda *args, **kwargs: function(*args, **kwargs).zero_()

    def writes(self):
        """Whether it changes its first argument, or other arguments if it returns nothing."""
        return (
            self.implementation in ("update", "in-place fill")
            or self.python_name.endswith("_")
            or self.returns == "None"
        )

    def is_random(self):
        """Whether it draws random numbers: in memory order, and in the dtype of `out=`."""
        return any(p["kind"] == "Generator" for p in self.params)

    def is_stride_dependent(self):
        """Whether the result depends on the memory layout."""
        return "stride dependent" in self.tags or self.is_random()

    def is_factory(self):
        """Whether it creates tensors without tensor arguments, in a dtype given by the caller."""
        takes_tensors = any(self.params[at]["kind"] != "Operand" for at in self.tensors)
        return not takes_tensors and any(p["kind"] == "DType" for p in self.params)

    def is_differentiable(self):
        return self.derivative in ("formulas", "joint", "composite")

    def bind(self, args, kwargs):
        """The arguments by parameter name, including defaults. None if another overload accepts them."""
        places = [p for p in self.params if not p["keyword_only"]]
        if len(args) > len(places):
            rest = args[len(places) - 1 :]
            if not places or places[-1]["kind"] != "Ints" or not all(isinstance(item, int) for item in rest):
                return None
            args = (*args[: len(places) - 1], tuple(rest))
        bound = {p["name"]: value for p, value in zip(places, args)}
        renamed = {"input": "self"} if "input" not in {p["name"] for p in self.params} else {}
        bound |= {renamed.get(name, name): value for name, value in kwargs.items()}
        for p in self.params:
            if p["name"] not in bound:
                if p["default"] is None:
                    return None
                bound[p["name"]] = default(p)
        return bound if len(bound) == len(self.params) else None


def default(param):
    text = param["default"]
    try:
        return ast.literal_eval(text)
    except ValueError:
        return getattr(torch, text, text)


OPERATORS = [Operator(entry) for entry in _C._table()]
every_operator = pytest.mark.parametrize("op", OPERATORS, ids=repr)
#: Names with a leading underscore are internal.
PUBLIC = [op for op in OPERATORS if not op.python_name.startswith("_")]


class Draw:
    """The words of the samples' syntax, for one dtype and one seed."""

    def __init__(self, dtype, seed, scale=1):
        self.dtype, self.scale = dtype, scale
        self.random = np.random.default_rng(zlib.crc32(seed.encode()))

    def words(self):
        made = {word: getattr(self, word) for word in ("t", "real", "i", "b", "pos", "unit")}
        return {**made, "torch": torch, "inf": float("inf"), "nan": float("nan"), "capture": self.capture}

    @staticmethod
    def tensor(values, dtype):
        return tensor(values, dtype)

    @staticmethod
    def capture(*args, **kwargs):
        return args, kwargs

    def shape(self, sizes):
        return tuple(size * self.scale if size > 1 else size for size in sizes)

    def uniform(self, low, high, shape):
        """Values on a grid that half types represent exactly. Distinct if few, otherwise from the whole interval."""
        if self.dtype in HALVES:
            count = int(np.prod(shape))
            grid = np.arange(np.ceil(low * 128) // 2 * 2 + 1, high * 128, 2) / 128
            return self.random.choice(grid, size=shape, replace=count > len(grid))
        return self.random.uniform(low, high, shape)

    def away_from_zero(self, low, high, shape):
        values = self.uniform(low, high, shape)
        # Without values near zero, where many operators have kinks and finite differences are wrong.
        return np.where(np.abs(values) < 0.05, values + np.copysign(0.1, values), values)

    def make(self, low, high, sizes, least):
        shape = self.shape(sizes)
        if self.dtype == "bool":
            return self.tensor(self.random.integers(0, 2, shape), "bool")
        if self.dtype in (*INTS, *WIDE):
            floor = least if least > 0 or self.dtype not in SIGNED else -9
            return self.tensor(self.random.integers(floor, 10, shape), self.dtype)
        if self.dtype in COMPLEX:
            return self.tensor(
                self.away_from_zero(low, high, shape) + 1j * self.away_from_zero(low, high, shape), self.dtype
            )
        return self.tensor(self.away_from_zero(low, high, shape), self.dtype)

    def t(self, *sizes):
        return self.make(-2, 2, sizes, 0)

    def real(self, *sizes):
        if self.dtype in COMPLEX:
            raise NotImplementedError("real numbers only")
        return self.t(*sizes)

    def pos(self, *sizes):
        return self.make(0.25, 2, sizes, 1)

    def unit(self, *sizes):
        return self.make(-0.95, 0.95, sizes, 0)

    def i(self, high, *sizes):
        high = high * self.scale if self.scale > 1 else high
        return self.tensor(self.random.integers(0, high, self.shape(sizes)), "int64")

    def b(self, *sizes):
        return self.tensor(self.random.integers(0, 2, self.shape(sizes)), "bool")


def tensor(values, dtype):
    """A new tensor with NumPy values. A dtype that NumPy lacks is converted from a wider one."""
    near = np.asarray(values).astype(numpys(dtype))
    made = torch.from_numpy(np.array(near, order="C"))
    return made if numpys(dtype) == dtype else cast(made, dtype)


def numpys(dtype):
    """The dtype itself, or a wider one if NumPy lacks it."""
    if dtype == "complex32":
        return "complex64"
    return "float32" if dtype == "bfloat16" or dtype.startswith("float8") else dtype


def cast(x, dtype):
    """A copy in another dtype, by the operator for conversion."""
    return _C._functions[""]["_to_copy"](x, dtype=dtype_of(dtype))


def array(value):
    """A tensor's values for NumPy, in NumPy's corresponding type."""
    name = str(value.dtype).removeprefix("torch.")
    if numpys(name) != name:
        value = cast(value, numpys(name))
    return np.array(value.detach().resolve_conj().resolve_neg().numpy())


def draw(op, sample, dtype, scale=1):
    """The sample's arguments, as (positional, keyword)."""
    words = Draw(dtype, f"{op.name} {sample} {dtype}", scale).words()
    return eval(f"capture({sample})", words)


def can_draw(op, sample, dtype):
    """Whether the dtype supports the operators in the sample's text."""
    try:
        draw(op, sample, dtype)
    except NotImplementedError:
        return False
    return True


def depends_on_dtype(sample):
    return re.search(r"\b(t|real|pos|unit)\(", sample) is not None


def cases(op, dtypes=ALL):
    """Every accepted dtype with every sample. Samples without tensors of the dtype under test occur once."""
    accepted = [dtype for dtype in dtypes if dtype in op.dtypes]
    for sample in op.samples:
        for dtype in accepted if depends_on_dtype(sample) else accepted[:1]:
            if can_draw(op, sample, dtype):
                yield dtype, sample


def is_tensor(value):
    return isinstance(value, torch.Tensor)


def change(value, how):
    """The same arguments with `how` applied to every tensor."""
    if is_tensor(value):
        return how(value)
    if isinstance(value, dict):
        return {key: change(item, how) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return type(value)(change(item, how) for item in value)
    return value


def is_inexact(value):
    """Whether a tensor may require a gradient."""
    return name_of(value.dtype) in (*FLOATS, *COMPLEX)


def tensors_in(value):
    if is_tensor(value):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [found for item in value for found in tensors_in(item)]
    return []


def call(function, args, kwargs):
    """Calls a function with the generator in its initial state, so that random operators repeat their results."""
    torch.manual_seed(0)
    return function(*args, **kwargs)


def may_require_grad(op, args, kwargs):
    """The tensors that may require a gradient, in order: all inexact ones but those that the operator refuses, as torch
    does for statistics and for some weights and targets of losses.
    """
    if not op.is_differentiable():
        return []
    found = []
    for x in filter(is_inexact, tensors_in((args, kwargs))):
        swap = lambda y, x=x: x.clone().requires_grad_().clone() if y is x else y.clone()
        try:
            call(op.function(), change(args, swap), change(kwargs, swap))
        except RuntimeError as error:
            if "is not differentiable with respect to argument" in str(error):
                continue
        found.append(x)
    return found


#: Operators, and their operands that must be tensors where `out=` is given, as in torch.
TENSORS_WITH_OUT = {"remainder": [0], "where": [1, 2]}


def has_number_for_out(op, args):
    """Whether a call with `out=` is refused because an operand is a number."""
    return not all(is_tensor(args[place]) for place in TENSORS_WITH_OUT.get(op.name, ()))


def evaluate(op, dtype, sample):
    """The sample's arguments, and the operator's results for them."""
    args, kwargs = draw(op, sample, dtype)
    return args, kwargs, call(op.function(), args, kwargs)


def reference(op, args, kwargs):
    """The result of the operator's NumPy expression (or of a function of `references`), or None if there is none.

    Floats are computed in double precision, and so are integers for which NumPy would use a small float type.
    """
    function = REFERENCES.get(op.full_name())
    bound = op.bind(args, kwargs) if op.reference or function else None
    if bound is None:
        return None
    if function:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return function(**for_numpy(bound, "f" if op.promote != "IntToFloat" else "fbiu"))
    expression = op.reference.replace("np.empty", "np.zeros")
    try:
        result = in_numpy(expression, bound, "f" if op.promote != "IntToFloat" else "fbiu")
    except TypeError:  # some NumPy functions do not support bool
        result = in_numpy(expression, bound, "fb")
    if getattr(result, "dtype", None) in (np.float16, np.float32):
        result = in_numpy(expression, bound, "fbiu")
    return result


def in_numpy(expression, bound, widened):
    """Evaluates a NumPy expression. Arrays of the kinds in `widened` are converted to the widest dtype of their kind."""
    values = for_numpy(bound, widened)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        modules = {"np": np, "math": math, "reduce": reduce, "operator": operator, "itertools": itertools}
        return eval(expression, {**modules, **values})


def for_numpy(bound, widened):
    """The arguments converted for NumPy."""

    def to_numpy(value):
        values = array(value)
        if values.dtype == np.complex64:
            return values.astype(np.complex128)
        if values.dtype.kind == "b" and widened == "fb":
            return values.astype(np.int64)
        return values.astype(np.float64) if values.dtype.kind in widened else values

    values = change(bound, to_numpy)
    return {key: np.dtype(numpy_name(v)) if isinstance(v, torch.dtype) else v for key, v in values.items()}


def numpy_name(dtype):
    return {"bfloat16": "float32"}.get(name_of(dtype), name_of(dtype))


def difference(got, wanted, dtype=None):
    """The difference between a result and the expected one as text, or None. Integers must be equal, floats close.

    `dtype` determines the tolerance, if it is not the dtype of the values. An expected `...` matches anything.
    """
    if wanted is ...:
        return None
    if isinstance(got, (list, tuple)) and not is_tensor(got):
        if not isinstance(wanted, (list, tuple)) or len(got) != len(wanted):
            return f"got {len(got)} results, wanted {wanted!r}"
        found = [difference(a, b, dtype) for a, b in zip(got, wanted)]
        return next((f"result {at}: {text}" for at, text in enumerate(found) if text), None)
    values = array(got) if is_tensor(got) else np.asarray(got)
    wanted = array(wanted) if is_tensor(wanted) else np.asarray(wanted)
    kind = name_of(got.dtype) if is_tensor(got) else values.dtype.name
    if values.shape != wanted.shape:
        return f"got shape {values.shape}, wanted {wanted.shape}"
    relative, absolute = TOLERANCE.get(dtype or kind, (0, 0))
    with np.errstate(all="ignore"):
        if kind in (*FLOATS, *COMPLEX):
            same = np.isclose(values, wanted.astype(values.dtype), relative, absolute, equal_nan=True)
        else:
            same = values == wanted.astype(values.dtype)
    if np.all(same):
        return None
    at = tuple(int(n) for n in np.argwhere(~np.atleast_1d(same))[0]) if values.ndim else ()
    return f"got {values[at]}, wanted {wanted[at]}" + (f" at {list(at)}" if at else "")


def same_bits(a, b):
    """Whether two results are the same bits. The sign of NaN is ignored."""
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same_bits(x, y) for x, y in zip(a, b))
    if not is_tensor(a):
        return a == b
    x, y = array(a), array(b)
    if x.shape != y.shape or a.dtype != b.dtype:
        return False
    if x.dtype.kind in "fc":
        parts = [(x.real, y.real), (x.imag, y.imag)] if x.dtype.kind == "c" else [(x, y)]
        signs = all(np.array_equal(np.signbit(p)[~np.isnan(p)], np.signbit(q)[~np.isnan(q)]) for p, q in parts)
        return signs and all(np.array_equal(p, q, equal_nan=True) for p, q in parts)
    return np.array_equal(x, y)


def laid_out(x, strides, offset):
    """The values of `x` with other strides, in new memory with other values in the gaps."""
    length = offset + sum((size - 1) * stride for size, stride in zip(x.shape, strides) if size) + 2
    values = array(x)
    memory = np.ones(length, values.dtype)
    steps = [stride * values.itemsize for stride in strides]
    np.lib.stride_tricks.as_strided(memory[offset:], values.shape, steps)[...] = values
    return torch.as_strided(tensor(memory, name_of(x.dtype)), tuple(x.shape), strides, offset)


def strided(x):
    """Every second element of a larger memory, beginning with the fourth."""
    strides, step = [], 2
    for size in reversed(x.shape):
        strides.insert(0, step)
        step *= max(size, 1) + 1
    return laid_out(x, tuple(strides), 3)


def transposed(x):
    """Column-major memory."""
    strides, step = [], 1
    for size in x.shape:
        strides.append(step)
        step *= max(size, 1)
    return laid_out(x, tuple(strides), 0)


def reversed_(x):
    """Negative strides in every dimension."""
    if x.dtype == torch.bfloat16 or x.dim() == 0:
        return strided(x)
    values = array(x)
    flip = tuple(slice(None, None, -1) for _ in x.shape)
    return torch.from_numpy(np.ascontiguousarray(values[flip])[flip])


def inner(xs, ys):
    """Re <x, y>, the inner product for which gradients are directions of steepest ascent."""
    return float(sum((array(x).conj() * array(y)).real.sum() for x, y in zip(xs, ys)))


def directions(tensors, seed):
    random = np.random.default_rng(seed)
    made = []
    for x in tensors:
        values = random.uniform(-1, 1, tuple(x.shape))
        if name_of(x.dtype) in COMPLEX:
            values = values + 1j * random.uniform(-1, 1, tuple(x.shape))
        made.append(tensor(values, name_of(x.dtype)))
    return made


def gradients(outputs, inputs, cotangents, create_graph=False):
    found = torch.autograd.grad(outputs, inputs, cotangents, create_graph=create_graph, allow_unused=True)
    return [tensor(np.zeros(tuple(x.shape)), name_of(x.dtype)) if g is None else g for x, g in zip(inputs, found)]


class Report:
    """The failures of one test, one line for each."""

    def __init__(self, op):
        self.op, self.lines = op, []

    def add(self, dtype, sample, text):
        text = str(text).split("\n")[0]
        self.lines.append(f"{self.op.name}({sample}) {dtype}: {text}")

    def guard(self, dtype, sample, check):
        """Runs one check. An exception is a failure of this sample and does not end the test."""
        try:
            text = check()
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
        if text:
            self.add(dtype, sample, text)

    def close(self):
        if self.lines:
            shown = self.lines[:12]
            more = f"\n... and {len(self.lines) - len(shown)} more" if len(self.lines) > len(shown) else ""
            pytest.fail("\n".join(shown) + more, pytrace=False)


def unless_unknown(check):
    """Runs a check, but accepts derivatives that torch does not have either, with torch's message."""

    def checked():
        try:
            return check()
        except NotImplementedError as error:
            if "derivative for" not in str(error):
                raise
            return None

    return checked
