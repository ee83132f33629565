"""Evaluates calls with rushlight and with another module, torch, and compares the outcomes.

    python compared.py FIRST LAST SEED    # random calls
    python compared.py FIRST LAST sweep   # calls of `calls.sweep`
    python compared.py FIRST LAST FILE    # calls of a file of findings

`compare_operators.py` runs it in a child process. For each call it writes the line `half` when the other module has answered,
and then a `Verdict` as JSON.
"""

import itertools
import json
import os
import re
import resource
import signal
import sys
import warnings
from functools import reduce
from typing import NamedTuple

import numpy as np
from calls import Call, fuzzed, sweep
from table_cases import TOLERANCE, Draw, difference, numpys

import rushlight

#: Bytes of address space, of which torch maps several thousand million at its start.
MEMORY = 7 << 30
#: The number of elements above which only those of a corner are compared: an expanded tensor may have any number.
MANY = 10**6
#: Seconds of computing, and of waiting, after which a call counts as endless.
PATIENCE = 10, 60
#: Operators whose results are not unique. Only their shapes, dtypes and strides are compared.
UNDETERMINED = re.compile(
    r"empty|resize|svd|eig|lobpcg|lowrank|geqrf|householder|ormqr|orgqr|\bqr|lstsq|ldl|\blu(_|\b)|sort|topk|kthvalue|mode|median"
)
#: Calls that are left out, by their text and both outcomes (`compare_operators.known`), and the reasons.
EXCLUDED = (
    (
        r"^answered .* -> NotImplementedError: \"[\w<>]+\" not implemented for '"
        r"|^class .*(out of (bounds|range)|cannot be converted to type uint).* -> NotImplementedError: \"\w+\" not implemented for 'UInt",
        "rushlight computes more dtypes than torch",
    ),
    (
        r"^refused .*(is not on the expected device|at least two devices).* -> \W*Tensor\(dtype='\w+', device='cpu'",
        "torch returns memory that nothing has written where an operand is a meta tensor",
    ),
    (
        r"^refused .*(is not on the expected device|at least two devices)",
        "torch's result is a meta tensor although an operand is on the CPU: its shape functions compare no devices",
    ),
    (r"^(answered|class) .* -> .*attempted to run this operator with Meta tensors", "torch cannot infer all shapes"),
    (r"^value .*\(x := .*out=x\)", "torch writes an operand while it reads it"),
    (r"^value (sub|Tensor.sub_?|rsub)\(.*alpha=-2 \*\* 63", "torch negates the factor, which has no negative"),
    (r"^crash .* -> ended with", "torch crashed, or did not end"),
    (r"grid_sampler.*, 7, |^refused grid_sampler", "torch reads memory that nothing has written for unknown modes"),
    (
        r"INTERNAL ASSERT|internal error|Could this error message be improved|undefined Tensor",
        "torch does not check this",
    ),
    (r"MKL FFT error", "torch's library refuses transforms of nothing"),
    (r"std::bad_alloc|DefaultCPUAllocator|\.cpp:\d+: ", "the sentence names a line of torch's source"),
    (r"NVIDIA driver|Found no NVIDIA|CUDA", "the sentence depends on the machine"),
    (
        r"^refused .*batch_norm\(.*(running_mean|running_var|weight|bias) should contain",
        "torch reads past the end of statistics or weights of a wrong length",
    ),
    (
        r"^answered .* -> RuntimeError: view size is not compatible",
        "torch fails to view an operand of `kron` or `isin` that has no such view",
    ),
    (
        r"^class .*index \d+ is out of bounds for dimension \d+ with size 0 -> RuntimeError: setStorage:",
        "torch's sentence is that of a view which it makes of a tensor without elements",
    ),
    (
        r"^refused .*(tril|triu|cum(sum|prod)|random|bernoulli|cauchy|exponential|geometric|log_normal|normal|uniform|conj_physical)_\(.*more than one element of the written-to tensor",
        "torch writes the same element several times, in an order of its own",
    ),
    (
        r"^answered .* -> RuntimeError: \w+ does not support automatic differentiation for outputs with complex dtype",
        "rushlight has a derivative that torch has not",
    ),
    (r"^value .*polygamma\(.*float64|^value polygamma\(1,", "torch's trigamma has errors of 1e-10 in double precision"),
    (r"^value hamming_window\(.*2 \*\* |^value hamming_window\(.*inf", "torch computes the window in float32"),
    (r"value special\.\w+_polynomial_\w+\(", "torch converts a degree that no integer has, without a defined result"),
    (r"value .*matrix_exp\(.*float16", "torch's results of half types are infinite or undefined"),
    (r"^value .*polygamma\(", "torch's results of orders whose factorial overflows are undefined"),
    (
        r"^value .*special\.(airy_ai|bessel_\w+)\(.*float64",
        "torch's approximations have errors up to 3e-6 in double precision",
    ),
    (r"^value .*soft_margin_loss\(.* -> inf", "torch's exponential of a large score is infinite"),
    (r"^shape .*pixel_unshuffle\(", "torch returns an empty input as it is"),
    (r"^answered .*\(x := .*out=x\)", "torch resizes the operand before it reads it"),
    (r"^refused segment_reduce.*all rows of lengths", "torch reads past the end of the data"),
    (r"^refused .*take_along_dim\(.*is out of bounds", "torch does not check these indices"),
    (r"^refused .*as_strided_\(.*overflowed", "torch gives a tensor a layout past the end of its storage"),
    (r"^(refused|answered) lu_unpack\(.*pivots passed", "torch reads past the end of the pivots"),
    (r"^refused lstm\(", "torch's library reads weights of any shape and dtype as if they fitted"),
    (
        r"^value .*(fft\.|conv_transpose|norm\(|var|cdist|margin|attention).*\.div\(0\)",
        "a sum of infinities is infinite or undefined, which depends on its order",
    ),
    (
        r"^value .*(grid_sample|cdist\(|adaptive_avg_pool3d|gru\().*(float16|complex32)",
        "torch rounds each step in half precision, with larger errors than those of rushlight",
    ),
    (r"^value .*triplet_margin_loss\(.*2 \*\* ", "differences of numbers near 1e19 have no digits"),
)


class Tensor(NamedTuple):
    """What is compared of a tensor."""

    dtype: str
    device: str
    layout: str
    shape: tuple
    values: np.ndarray | None
    requires_grad: bool
    strides: tuple


class Verdict(NamedTuple):
    """What differs between two outcomes (empty: nothing), how the other module's call ended, and both outcomes as text."""

    differs: str
    ending: str
    call: Call
    ours: str = ""
    theirs: str = ""


class Words(Draw):
    """The words of the samples' syntax for a module's tensors."""

    def __init__(self, module, call):
        super().__init__(call.dtype, str(call))
        self.module = module

    def tensor(self, values, dtype):
        near = self.module.from_numpy(np.array(np.asarray(values).astype(numpys(dtype)), order="C"))
        return near if numpys(dtype) == dtype else near.to(getattr(self.module, dtype))

    def words(self):
        return {**super().words(), "torch": self.module, "np": np}


def prepared(module, call):
    """The call as an expression with the names in it. None if the module does not have the callable or the arguments.

    A method is called by a dot: torch's sentences about a bound method are others.
    """
    path = call.name.split(".")
    try:
        args, kwargs = eval(f"capture({call.arguments})", Words(module, call).words())
        if path[0] == "Tensor":
            own, *args = args
            if not isinstance(own, module.Tensor) or not hasattr(own, path[1]):
                return None
            function, names = f"own.{path[1]}", {"own": own}
        else:
            function, names = "function", {"function": reduce(getattr, path, module)}
    except Exception:
        return None
    places = {f"a{at}": value for at, value in enumerate(args)}
    given = [*places, *(f"{key}=kwargs[{key!r}]" for key in kwargs)]
    return compile(f"{function}({', '.join(given)})", "call", "eval"), {**names, **places, "kwargs": kwargs}


def outcome(module, expression, names):
    """The result and the arguments afterwards, or the exception."""
    module.default_generator.manual_seed(0)  # far quicker than torch.manual_seed, which walks the stack for each device
    try:
        result = eval(expression, {}, names)
    except Exception as error:
        return error
    try:
        return [described(module, value) for value in (result, [names[name] for name in names if name != "function"])]
    except Exception as error:
        return RuntimeError(f"the result cannot be read: {type(error).__name__}: {error}")


def described(module, value):
    """A result in terms that both modules share."""
    if isinstance(value, module.Tensor):
        name = str(value.dtype).removeprefix("torch.")
        values = None
        if value.device.type == "cpu" and value.layout == module.strided:
            plain = value.detach()
            if plain.numel() > MANY:
                plain = plain[(slice(2),) * plain.dim()]
            plain = plain.resolve_conj().resolve_neg()
            values = (plain if numpys(name) == name else plain.to(getattr(module, numpys(name)))).numpy()
        strides = tuple(value.stride()) if value.layout == module.strided else ()
        return Tensor(
            name, str(value.device), str(value.layout), tuple(value.shape), values, value.requires_grad, strides
        )
    if isinstance(value, list | tuple) and not isinstance(value, module.Size):
        return [described(module, item) for item in value]
    if isinstance(value, dict):
        return [described(module, item) for item in value.values()]
    if isinstance(value, bool | int | float | complex | str | np.ndarray | np.generic | None):
        return value
    return alike(repr(value))


def compared(ours, theirs, determined=True):
    """What differs first, and the text of both sides. Both are empty if nothing does."""
    if isinstance(ours, Exception) and isinstance(theirs, Exception):
        return refusals(ours, theirs)
    if isinstance(theirs, Exception):
        return "answered", brief(ours), shown(theirs)
    if isinstance(ours, Exception):
        return "refused", shown(ours), brief(theirs)
    return answers(ours, theirs, determined, precision(ours))


def precision(outcome):
    """The least precise floating dtype of the results and arguments, whose rounding errors the results have."""

    def dtypes(value):
        if isinstance(value, Tensor):
            yield value.dtype.replace("complex32", "float16")
        elif isinstance(value, list):
            for item in value:
                yield from dtypes(item)

    return max(
        (dtype for dtype in dtypes(outcome) if dtype in TOLERANCE), key=lambda name: TOLERANCE[name], default=None
    )


def refusals(ours, theirs):
    if class_of(ours) != class_of(theirs):
        return "class", shown(ours), shown(theirs)
    return ("sentence", shown(ours), shown(theirs)) if shown(ours) != shown(theirs) else ("", "", "")


def answers(ours, theirs, determined, dtype):
    if isinstance(ours, list) and isinstance(theirs, list):
        if len(ours) != len(theirs):
            return "kind", f"{len(ours)} results", f"{len(theirs)} results"
        return min(
            (answers(a, b, determined, dtype) for a, b in zip(ours, theirs)),
            key=lambda found: SEVERITY.index(found[0]),
            default=NONE,
        )
    if type(ours) is not type(theirs):
        return "kind", brief(ours), brief(theirs)
    if not isinstance(ours, Tensor):
        same = np.array_equal(ours, theirs, equal_nan=True) if isinstance(ours, np.ndarray) else equal(ours, theirs)
        return NONE if same or not determined else ("value", brief(ours), brief(theirs))
    for field in ("dtype", "device", "layout", "shape"):
        if (a := getattr(ours, field)) != (b := getattr(theirs, field)):
            return field, str(a), str(b)
    own = dtype if ours.dtype in (*TOLERANCE, "complex32") else ours.dtype
    text = difference(ours.values, theirs.values, own) if determined and ours.values is not None else None
    if text and not rounded(ours.values, theirs.values, own):
        return "value", *text.replace("got ", "").split(", wanted ", 1)
    for field in ("requires_grad", "strides"):
        if (a := getattr(ours, field)) != (b := getattr(theirs, field)):
            return field, str(a), str(b)
    return NONE


def rounded(ours, theirs, dtype):
    """Whether two arrays differ no more than the rounding errors of their largest element, as sums that cancel may."""
    if dtype not in TOLERANCE:
        return False
    relative = TOLERANCE[dtype][0]
    with np.errstate(all="ignore"):
        largest = np.max(np.abs(theirs), where=np.isfinite(theirs), initial=0)
        return bool(np.all(np.isclose(ours, theirs, relative, relative * largest, equal_nan=True)))


NONE = "", "", ""
#: The differences, the most harmful first.
SEVERITY = (
    "kind",
    "shape",
    "dtype",
    "value",
    "device",
    "layout",
    "answered",
    "refused",
    "requires_grad",
    "strides",
    "class",
    "sentence",
    "",
)


def equal(a, b):
    """Whether two plain values are the same. Floats may differ in their last digits."""
    if isinstance(a, float | complex):
        return bool(np.isclose(a, b, 1e-5, 1e-6, equal_nan=True))
    return a == b


def class_of(error):
    return type(error).__name__.lstrip("_")


def shown(error):
    return f"{class_of(error)}: {alike(str(error).split(chr(10))[0])}"


def alike(text):
    """A text without what differs between two modules: addresses, and the names of the modules."""
    return re.sub(r"\brushlight\b", "torch", re.sub(r" at 0x[0-9a-f]+", "", text)).replace("torch._C.", "torch.")


def brief(value):
    return re.sub(r"\s+", " ", repr(value))[:300]


def recorded(module, call):
    """What a call gives, in one line: its exception, or the dtype and shape of each result."""
    found = outcome(module, *prepared(module, call))
    if isinstance(found, Exception):
        return shown(found)

    def tensors(value):
        if isinstance(value, Tensor):
            return [f"{value.dtype} {list(value.shape)}"]
        return [text for item in value for text in tensors(item)] if isinstance(value, list) else [repr(value)]

    return "; ".join(tensors(found[0]))


def verdict(other, call, halfway=lambda: None):
    """Compares one call. None if it is not comparable."""
    makes = prepared(other, call), prepared(rushlight, call)
    if None in makes:
        return None
    theirs = outcome(other, *makes[0])
    halfway()
    ours = outcome(rushlight, *makes[1])
    differs, a, b = compared(ours, theirs, determined=not UNDETERMINED.search(call.name))
    return Verdict(differs, "refused" if isinstance(theirs, Exception) else "answered", call, a, b)


def calls_of(source, first, last):
    if source == "sweep":
        return itertools.islice(sweep(), first, last)
    if source.isdecimal():
        return (fuzzed(int(source), number) for number in range(first, last))
    with open(source) as file:
        return [Call(*json.loads(line)[2]) for line in itertools.islice(file, first, last)]


def main(first, last, source):
    import torch

    torch.set_num_threads(1)
    rushlight.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    warnings.simplefilter("ignore")
    out = os.dup(1)
    os.dup2(2, 1)  # some calls print
    for call in calls_of(source, int(first), int(last)):
        signal.setitimer(signal.ITIMER_PROF, PATIENCE[0])
        signal.setitimer(signal.ITIMER_REAL, PATIENCE[1])
        os.write(out, json.dumps(call).encode() + b"\n")
        found = verdict(torch, call, lambda: os.write(out, b"half\n"))
        os.write(out, json.dumps(found).encode() + b"\n")
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
