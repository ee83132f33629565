"""`dir` of a module lists the public names, without names that the module imports."""

import importlib
import operator
import pickle
import subprocess
import sys
import types
import typing
from pathlib import Path

import pytest
from public_names import callables, modules

import rushlight as torch


@pytest.mark.parametrize("name", sorted(modules()))
def test_dir_shows_what_is_for_users(name):
    module = modules()[name]
    for part in dir(module):
        value = getattr(module, part)  # raises an error if it does not exist
        assert part not in ("TYPE_CHECKING", "annotations", "warn", "torch")
        promised = part in getattr(module, "__all__", ())
        if isinstance(value, types.ModuleType) and not promised and not part.startswith("_"):
            assert value.__name__ == f"{name}.{part}", f"{part} is a module of another place"
    assert set(getattr(module, "__all__", ())) <= set(dir(module))


def test_helpers_are_not_offered():
    assert "set_rate" not in dir(torch.optim.lr_scheduler) and "StepLR" in dir(torch.optim.lr_scheduler)
    assert "queues" not in dir(torch.multiprocessing) and "Queue" in dir(torch.multiprocessing)
    assert "math" not in dir(torch.nn.init) and "zeros_" in dir(torch.nn.init)
    assert {"relu", "linear", "max_pool2d"} <= set(dir(torch.nn.functional))


HOMES = [line.split() for line in (Path(__file__).parent / "data" / "public_modules.txt").read_text().splitlines()]


@pytest.mark.parametrize("name, home", HOMES, ids=[name for name, _ in HOMES])
def test_classes_live_where_torch_has_them(name, home):
    """Pickles identify a class by its module, so that each library can load the other's pickles."""
    module, _, part = name.replace("torch", "rushlight", 1).rpartition(".")
    value = getattr(importlib.import_module(module), part)
    assert f"{value.__module__}.{value.__qualname__}".replace("rushlight", "torch", 1) == home
    assert operator.attrgetter(value.__qualname__)(importlib.import_module(value.__module__)) is value


@pytest.mark.parametrize(
    "name, sentence",
    [
        ("compile", "module 'torch' has no attribute 'compile'\nNothing is compiled"),
        ("compiler.compile", "module 'torch.compiler' has no attribute 'compile'\nNothing is compiled"),
        (
            "legacy.nn",
            "module 'torch' has no attribute 'legacy'\nThe port of Lua's torch was removed: use the modules of torch.nn",
        ),
        ("utils.ffi", "module 'torch.utils' has no attribute 'ffi'\nLoad C libraries with ctypes or cffi"),
        ("utils.swap_tensor", "module 'torch.utils' has no attribute 'swap_tensor'\nDid you mean 'swap_tensors'?"),
        ("cuda.is_availabel", "module 'torch.cuda' has no attribute 'is_availabel'\nDid you mean 'is_available'?"),
    ],
)
def test_missing_names_say_what_to_do(name, sentence):
    with pytest.raises(AttributeError) as caught:
        operator.attrgetter(name)(torch)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    "statement, sentence",
    [
        ("import rushlight.legacy.nn", "No module named 'torch.legacy'\nThe port of Lua's torch was removed"),
        ("from rushlight import legacy", "No module named 'torch.legacy'\nThe port of Lua's torch was removed"),
        (
            "from rushlight.utils.ffi import create_extension",
            "No module named 'torch.utils.ffi'\nLoad C libraries with",
        ),
    ],
)
def test_modules_that_are_gone_say_what_took_their_place(statement, sentence):
    with pytest.raises(ImportError) as caught:
        exec(statement)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("name", sorted(modules()))
def test_every_module_proposes_a_name(name):
    if name == "rushlight.ops":
        pytest.skip("every name is a namespace of operators, as in torch")
    module = modules()[name]
    own = name.replace("rushlight", "torch", 1)
    meant = max((part for part in dir(module) if not part.startswith("_")), key=len, default=None)
    with pytest.raises(AttributeError) as caught:
        getattr(module, "no_such_name" if meant is None else meant + "_")
    first, *rest = str(caught.value).split("\n")
    assert first == f"module '{own}' has no attribute {caught.value.name!r}"
    # Two names may differ in an underscore only.
    proposed = [line.replace("_'?", "'?") for line in rest]
    assert proposed == ([] if meant is None else [f"Did you mean '{meant.rstrip('_')}'?"])


def test_a_compiler_is_asked_and_says_no():
    @torch.compiler.disable
    def one():
        return 1

    @torch.compiler.disable(recursive=False, reason="it prints")
    def two():
        return 2

    assert (one(), two()) == (1, 2)
    assert not torch.compiler.is_compiling() and torch.compiler.list_backends() == []
    assert not hasattr(torch, "compile")  # the condition that programs use


def test_exceptions_of_cards_can_be_caught():
    assert torch.cuda.OutOfMemoryError is torch.OutOfMemoryError and issubclass(torch.OutOfMemoryError, RuntimeError)
    assert not issubclass(torch.OutOfMemoryError, torch.AcceleratorError)
    with pytest.raises(ZeroDivisionError):
        try:
            1 / 0
        except torch.OutOfMemoryError:
            pass


def test_operators_are_functions_of_the_module_too():
    from rushlight.functional import norm, stft

    assert norm is torch.norm and stft is torch.stft
    assert all(getattr(torch.functional, name) is getattr(torch, name) for name in dir(torch.functional))
    with pytest.raises(AttributeError, match="module 'torch.functional' has no attribute 'nrom'"):
        torch.functional.nrom


def test_hints_are_for_names_that_are_missing():
    from rushlight._missing_names import REPLACEMENTS

    def there(name):
        value = torch
        for part in name.split(".")[1:]:
            value = getattr(value, part, None)
            if value is None:
                return False
        return True

    assert [name for name in REPLACEMENTS if there(name)] == []


def test_functions_and_classes_live_where_programs_find_them():
    """Classes and functions of the engine alone, which torch has in `torch._C` too."""
    lost = {}
    for name, thing in callables().items():
        home = getattr(thing, "__module__", None) or ""
        if home in ("", "rushlight._C") or not isinstance(thing, (type, types.FunctionType)):
            continue
        if home == "rushlight.testing.strategies":
            continue  # hypothesis creates and names them
        if any(part.startswith("_") and not part.endswith("__") for part in home.split(".")):
            lost[name] = home
        elif operator.attrgetter(thing.__qualname__)(importlib.import_module(home)) is not thing:
            lost[name] = f"{home}.{thing.__qualname__} is another"
    assert lost == {}


def test_names_of_functions():
    assert torch.overrides.resolve_name(torch.nn.functional.interpolate) == "torch.nn.functional.interpolate"
    assert torch.overrides.resolve_name(torch.is_complex) == "torch.is_complex"
    assert pickle.loads(pickle.dumps(torch.func.vmap)) is torch.func.vmap


def test_importing_a_module_keeps_the_function_of_its_name(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        "import torch, torch.autograd.gradcheck, torch.nn.utils.spectral_norm, torch.autograd.variable\n"
        "import torch.nn.parallel.data_parallel, torch.nn.utils.parametrize\n"
        "from torch.nn.utils.weight_norm import WeightNorm\n"
        "from torch import autograd, nn\n"
        "kept = autograd.gradcheck, nn.utils.weight_norm, nn.utils.spectral_norm, nn.parallel.data_parallel\n"
        "print(WeightNorm.__name__, [type(one).__name__ for one in (*kept, autograd.variable, nn.utils.parametrize)])\n"
    )
    done = subprocess.run([sys.executable, "-m", "rushlight", script], capture_output=True, text=True)
    assert done.stdout == f"WeightNorm {['function'] * 5 + ['module']}\n", done.stderr


def test_annotations_of_classes_can_be_evaluated():
    """Libraries evaluate those of a program's own modules (`typing.get_type_hints`), which include those of the base."""
    failed = []
    for name, value in callables().items():
        if isinstance(value, type):
            try:
                typing.get_type_hints(value)
            except NameError as error:
                failed.append((name, str(error)))
    # Its settings are annotated with a class of the module that reads them.
    assert [name for name, _ in failed if not name.startswith("rushlight.utils.serialization.config")] == []


@pytest.mark.parametrize(
    "name, home",
    [
        ("cuda.memory", "cuda"),
        ("cuda.random", "cuda"),
        ("cuda.streams", "cuda"),
        ("cuda.graphs", "cuda"),
        ("cuda.amp.autocast_mode", "cuda.amp"),
        ("cuda.amp.common", "cuda.amp"),
        ("cuda.amp.grad_scaler", "cuda.amp"),
        ("cpu.amp.autocast_mode", "cpu.amp"),
        ("cpu.amp.grad_scaler", "cpu.amp"),
        ("profiler.profiler", "profiler"),
    ],
)
def test_modules_of_torch_that_are_imported_by_path(name, home):
    module, package = (importlib.import_module(f"rushlight.{path}") for path in (name, home))
    assert module.__all__
    for part in module.__all__:
        assert getattr(module, part) is getattr(package, part)
