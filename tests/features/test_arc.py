"""ARC: the structure of the package, and its requirements."""

import copy
import importlib
import inspect
import pickle
import re
import subprocess
import sys
import tomllib
import traceback
from pathlib import Path

import numpy as np
import pytest

import rushlight as torch

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["autograd", "nn", "multiprocessing", "utils"])
def test_arc_1_components(name):
    """The parts of early torch exist. The part that was deprecated at the time does not."""
    assert getattr(torch, name) is importlib.import_module(f"rushlight.{name}")
    with pytest.raises(ImportError):
        importlib.import_module("rushlight.legacy")


def test_arc_2_an_engine_without_python():
    """Only the crate with the bindings depends on Python, so that Rust programs can use the others.

    The development tool names `pyo3-macros`, which need no Python.
    """
    users = {
        path.parent.name
        for path in (ROOT / "rust").glob("*/Cargo.toml")
        if re.search(r"^pyo3\b(?!-macros)", path.read_text(), re.M)
    }
    assert users == {"py"}
    engine = tomllib.loads((ROOT / "rust/ops/Cargo.toml").read_text())["package"]["name"]
    bindings = tomllib.loads((ROOT / "rust/py/Cargo.toml").read_text())
    assert engine in bindings["dependencies"] and bindings["package"]["name"] not in engine


def test_arc_3_among_pythons_libraries():
    """Buffers, arrays, DLPack, pickles, copies, signatures and types follow Python's protocols, for other libraries."""
    x = torch.arange(6.0).reshape(2, 3)
    view = memoryview(x)
    assert (view.shape, view.format) == ((2, 3), "f")
    view[0, 0] = 7
    assert x[0, 0] == 7
    assert np.asarray(x).ctypes.data == x.data_ptr() and np.exp(x).shape == (2, 3)
    assert np.from_dlpack(x).tolist() == x.tolist() and torch.from_dlpack(np.arange(3)).tolist() == [0, 1, 2]
    for again in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert torch.equal(again, x) and again.data_ptr() != x.data_ptr()
    assert list(inspect.signature(torch.add).parameters) == ["input", "other", "alpha", "out"]
    assert list(inspect.signature(torch.nn.Linear).parameters)[:3] == ["in_features", "out_features", "bias"]
    package = Path(torch.__file__).parent
    assert (package / "py.typed").exists() and "class Tensor" in (package / "_C.pyi").read_text()


def test_arc_5_debugging(tmp_path):
    """The debugger steps through a model line by line, and the innermost line of an error is the user's."""
    program = tmp_path / "model.py"
    program.write_text("import rushlight as torch\nx = torch.ones(2)\ny = x * 3\nz = y + torch.ones(5)\n")
    said = subprocess.run(
        [sys.executable, "-m", "pdb", program],
        input="next\nnext\nnext\np y.sum().item()\nnext\nquit\n",
        capture_output=True,
        text=True,
    ).stdout
    assert "(4)<module>()" in said and "6.0" in said
    assert "RuntimeError: The size of tensor a (2) must match the size of tensor b (5)" in said
    with pytest.raises(RuntimeError) as caught:
        torch.ones(2) + torch.ones(5)  # the mistake
    innermost = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert innermost.filename == __file__ and innermost.line.endswith("# the mistake")


def test_arc_6_one_wheel(fresh):
    """One module works with every Python since 3.11. Importing it compiles nothing, starts nothing and needs no network."""
    assert torch._C.__file__.endswith("_C.abi3.so")
    assert '"abi3-py311"' in (ROOT / "Cargo.toml").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=3.11" and project["dependencies"] == []
    program = """
import sys
seen = []
def watch(event, args):
    if event.startswith(("socket.", "subprocess.", "os.fork", "os.exec", "os.posix_spawn", "os.system", "urllib.")):
        seen.append(event)
sys.addaudithook(watch)
import rushlight, rushlight.nn, rushlight.optim
print(seen)
"""
    assert fresh(program) == "[]"


def test_arc_7_strided_storage():
    """A tensor is a storage, an offset and strides, which may be zero or negative."""
    x = torch.arange(12)
    table = x.as_strided((2, 3), (1, 4), 2)
    assert table.tolist() == [[2, 6, 10], [3, 7, 11]]
    assert (table.stride(), table.storage_offset()) == ((1, 4), 2)
    assert table.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert torch.tensor([7]).expand(3).stride() == (0,)
    backwards = x[::-4]
    assert backwards.tolist() == [11, 7, 3] and (backwards.stride(), backwards.storage_offset()) == ((-4,), 11)
    assert (backwards + table[0]).tolist() == [13, 13, 13]


def test_arc_8_threads(fresh):
    """The number of threads is set by a call or by the environment. A forked process has its own threads."""
    count = "import rushlight as torch; print(torch.get_num_threads())"
    assert fresh(count, RUSHLIGHT_NUM_THREADS="3") == "3" == fresh(count, RUSHLIGHT_NUM_THREADS="", OMP_NUM_THREADS="3")
    forked = """
import os
import rushlight as torch
torch.set_num_threads(3)
x = torch.rand(1_000_000)
parent = x.exp().sum().item()
child = os.fork()
if child == 0:
    same = x.exp().sum().item() == parent and torch.get_num_threads() == 3
    os._exit(0 if same and len(os.listdir("/proc/self/task")) == 3 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert fresh(forked) == "0"


def test_arc_9_cuda_is_loaded_when_asked_for(fresh):
    """The import does not load the driver, and without one `is_available` is False."""
    program = """
import rushlight as torch
torch.ones(2) + 1
print([line for line in open("/proc/self/maps") if "libcuda" in line or "libnvrtc" in line], torch.cuda.is_available())
"""
    assert fresh(program, CUDA_VISIBLE_DEVICES="") == "[] False"


def test_arc_10_torch_by_another_name():
    """Imports of torch in a program can be imports of rushlight."""
    import rushlight.multiprocessing as mp
    import rushlight.nn as nn
    import rushlight.nn.functional as F
    from rushlight.autograd import Function, Variable
    from rushlight.utils.data import DataLoader, TensorDataset

    leaf = Variable(torch.ones(3), requires_grad=True)
    F.relu(leaf).sum().backward()
    assert leaf.grad.tolist() == [1, 1, 1] and issubclass(Function, object) and issubclass(nn.Linear, nn.Module)
    assert torch.ones(2).share_memory_().is_shared() and mp.get_start_method() in mp.get_all_start_methods()
    assert [batch[0].tolist() for batch in DataLoader(TensorDataset(torch.arange(4)), batch_size=2)] == [[0, 1], [2, 3]]


def test_arc_11_hogwild(fresh):
    """Processes train one model in shared memory, without locks."""
    program = """
import rushlight as torch
import rushlight.multiprocessing as mp

def train(model, seed):
    torch.manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(300):
        x = torch.rand(16, 2)
        optimizer.zero_grad()
        loss = ((model(x) - (x @ torch.tensor([[2.0], [-3.0]]) + 1)) ** 2).mean()
        loss.backward()
        optimizer.step()

model = torch.nn.Linear(2, 1)
model.share_memory()
context = mp.get_context("fork")
workers = [context.Process(target=train, args=(model, seed)) for seed in range(2)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
print([worker.exitcode for worker in workers])
print([round(value, 1) for value in (*model.weight[0].tolist(), model.bias.item())])
"""
    assert fresh(program) == "[0, 0]\n[2.0, -3.0, 1.0]"


def test_arc_12_broadcasting_is_fuzzed():
    """The suite with random shapes is part of the tests, with a profile of 100,000 examples. See also BRO-19."""
    suite = (ROOT / "tests/test_broadcast.py").read_text()
    assert suite.count("@given(") >= 8 and "broadcastable_shapes" in suite
    assert re.search(r'register_profile\("nightly", max_examples=100_000', (ROOT / "tests/conftest.py").read_text())
