"""Public functions and classes are documented: what they do, their arguments, and an example.

Every example runs and prints its output. (Those of operators run in `tests/ops`.)
"""

import doctest
import importlib
import inspect
import pkgutil
import re
import types
from fnmatch import fnmatchcase

import pytest
from public_names import callables

import rushlight as torch

#: `__main__` is a program, the package that replaces `torch` is not a module of its own, and the others raise an error.
PROGRAMS = ("rushlight.__main__", "rushlight._as_torch", "rushlight.legacy", "rushlight.utils.ffi")

#: Names that may be without an example, with the reason. The list may only become shorter.
WITHOUT_EXAMPLE = {
    "array_api.*": "the Python array API standard describes them",
    "return_types.*": "operators return them; programs do not create them",
    "PyTorchFile*": "cannot be created",
    "ScriptObject": "cannot be created",
    "Sym*": "cannot be created",
    "*Tensor": "legacy constructors, all alike",
    "nn.init.*[!_]": "deprecated names of functions with an underscore, which have examples",
    "cpu.amp.*": "deprecated names",
    "compiler.*_unsafe": "refuses every call",
    "compiler.load_*": "refuses every call",
    "export.*": "refuses every call",
    "library.*": "refuses every call",
    "sparse.SparseSemiStructuredTensorCU*": "refuses every call",
    "onnx.*": "refuses every call",
    **dict.fromkeys(
        ["jit.CompilationUnit", "jit.ScriptFunction", "jit.export_opnames", "jit.load", "jit.save"],
        "refuses every call",
    ),
    "cudnn_*": "refuses every call",
    "fbgemm_*": "refuses every call",
    "miopen_*": "refuses every call",
    "mkldnn_*": "refuses every call",
    "quantized_*_cell": "refuses every call",
    "utils.collect_env.*": "asks programs and the machine, whose answers differ",
    "utils.benchmark.CallgrindStats": "refuses every call",
    "utils.cpp_extension.*": "refuses every call",
    "accelerator.*": "needs an accelerator",
    "ao.*": "parts of quantisation that mean something only together",
    "backends.cuda.*": "needs a GPU",
    "cuda.*": "needs a GPU",
    "distributed.*": "needs several processes; `tests/distributed` has them",
    "mps.*": "needs an Apple GPU",
    "mtia.*": "needs an accelerator of Meta",
    "profiler.ExecutionTraceObserver": "refuses every call",
    "profiler.itt.*": "needs Intel's profilers",
    "xpu.*": "needs an Intel GPU",
    "multiprocessing.Manager": "its process would import the program",
    "multiprocessing.Process": "its process would import the program",
    "multiprocessing.ProcessException": "the base of two classes with examples",
    "nn.RNNBase": "the base of three classes with examples",
}

#: Parameters that classes of a family share, and that only the base or the first class describes.
SHARED = {"device", "dtype", "last_epoch", "reduce", "reduction", "size_average", "validate_args"}

#: The names that a program of ten lines uses.
MOST_USED = (
    "Tensor tensor as_tensor from_numpy zeros rand save load no_grad manual_seed nn.Module nn.Linear nn.Conv2d "
    "nn.CrossEntropyLoss nn.Sequential optim.SGD optim.Adam utils.data.DataLoader utils.data.Dataset "
    "autograd.Function"
).split()

CALLABLES = {name.removeprefix("rushlight."): value for name, value in callables().items()}


def text_of(value):
    """The docstring of a class or function itself, without that of base classes."""
    return (vars(value).get("__doc__") if isinstance(value, type) else value.__doc__) or ""


def modules():
    yield torch.__name__
    for found in pkgutil.walk_packages(torch.__path__, torch.__name__ + ".", onerror=lambda name: None):
        if not found.name.startswith(PROGRAMS):
            yield found.name


@pytest.mark.parametrize("name", sorted(modules()))
def test_examples(name):
    module = importlib.import_module(name)
    # Names of `torch` itself are not in the users' namespace: its `float` is a dtype.
    names = {} if module is torch else vars(module)
    outcome = doctest.testmod(module, globs=dict(names), extraglobs={"torch": torch})
    assert outcome.failed == 0


def test_every_example_is_run():
    """Doctest finds objects by their module. Examples of objects that are not in their module would never run."""
    finder = doctest.DocTestFinder()
    run = {one.docstring for name in modules() for one in finder.find(importlib.import_module(name)) if one.examples}
    run |= {text_of(op) for operators in torch._C._functions.values() for op in operators.values()}  # in `tests/ops`
    assert [name for name, value in CALLABLES.items() if ">>>" in text_of(value) and text_of(value) not in run] == []


def test_everything_is_documented():
    assert [name for name, value in CALLABLES.items() if not text_of(value).strip()] == []


def test_examples_do_not_become_fewer():
    without = {name for name, value in CALLABLES.items() if ">>>" not in text_of(value)}
    allowed = {name for name in CALLABLES if any(fnmatchcase(name, one) for one in WITHOUT_EXAMPLE)}
    assert sorted(without - allowed) == [], "these need an example"
    unused = [one for one in WITHOUT_EXAMPLE if not any(fnmatchcase(name, one) for name in without)]
    assert unused == [], "these have an example now: remove them from the list"


def test_methods_of_tensors_have_examples():
    """Methods that are written in Python. The engine's own are operators, or have one line of documentation."""
    without = {
        name
        for name, method in vars(torch.Tensor).items()
        if isinstance(method, types.FunctionType) and not name.startswith("_") and ">>>" not in text_of(method)
    }
    refused = "eig ipu lstsq masked_copy_ mtia solve symeig to_mkldnn xpu".split()
    needs_a_gpu = ["cuda", "pin_memory", "record_stream"]
    assert without == {*refused, *needs_a_gpu, "storage"}, "these only raise an error or give a warning, or need a GPU"


def test_parameters_are_described():
    """If a docstring has an `Args` section, it describes every parameter."""
    missing = []
    for name, value in CALLABLES.items():
        text = text_of(value)
        if "\nArgs:" not in inspect.cleandoc(text):
            continue
        try:
            parameters = inspect.signature(value).parameters.values()
        except (TypeError, ValueError):
            continue
        named = [one.name for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
        missing += [
            f"{name}({one})"
            for one in named
            if one not in SHARED and not one.startswith("_") and not re.search(rf"\b{one}\b", text)
        ]
    assert missing == []


@pytest.mark.parametrize("name", MOST_USED)
def test_help_of_the_most_used_names(name):
    """`help` shows a first sentence on its own line, lines of limited width, and an example."""
    value = torch
    for part in name.split("."):
        value = getattr(value, part)
    lines = inspect.getdoc(value).splitlines()
    assert lines[0].endswith((".", ":")) and len(lines) > 1 and lines[1] == ""
    assert max(map(len, lines)) <= 124 and any(line.lstrip().startswith(">>>") for line in lines)
