"""Modules of torch that import, answer questions, and say what they do not do when they are called."""

import copy
import importlib
import pickle
import subprocess
import sys

import pytest

import rushlight as torch

REFUSED = {
    "onnx": "export ONNXProgram ExportableModule",
    "fx.experimental.proxy_tensor": "make_fx PythonKeyTracer",
    "library": "get_kernel triton_op",
    "ao.quantization": "prepare_jit PerAxis",
    "ao.nn.quantized": "LSTM Sigmoid",
    "export": "export load save Dim ExportedProgram",
    "_dynamo": "optimize explain OptimizedModule",
    "jit": "load save export_opnames CompilationUnit ScriptFunction",
    "distributed.rpc": "init_rpc remote RRef",
    "distributed.autograd": "backward get_gradients context",
    "distributed.optim": "DistributedOptimizer",
    "distributed.fsdp": "DataParallelMeshDims",
    "distributed.nn": "RemoteModule",
    "utils.cpp_extension": "load CUDAExtension BuildExtension",
}


@pytest.mark.parametrize("name", REFUSED)
def test_calls_are_refused_with_one_sentence(name):
    module = importlib.import_module(f"rushlight.{name}")
    reasons = set()
    for part in REFUSED[name].split():
        with pytest.raises(NotImplementedError) as caught:
            getattr(module, part)(1, some=2)
        first, separator, reason = str(caught.value).partition(": ")
        assert first == f"torch.{name}.{part} is not available" and separator and reason.endswith(".")
        reasons.add(reason)
    assert len(reasons) == 1 and "\n" not in reasons.pop()


def test_questions_have_answers():
    assert torch.onnx.is_in_onnx_export() is False
    assert torch.distributed.rpc.is_available() is False and torch.distributed.autograd.is_available() is False
    assert torch.package.is_from_package(torch.nn.Linear(1, 1)) is False
    assert torch.utils.cpp_extension.is_ninja_available() is False
    assert torch._dynamo.is_compiling() is False and torch._dynamo.list_backends() == []


def test_marks_have_no_effect():
    def function():
        return 1

    dynamo = torch._dynamo
    for mark in (dynamo.allow_in_graph, dynamo.assume_constant_result):
        assert mark(function) is function
    assert dynamo.disable(function)() == 1
    assert dynamo.mark_dynamic(torch.ones(2), 0) is None and dynamo.reset() is None
    dynamo.config.suppress_errors = True
    dynamo.config.suppress_errors = False


def test_exceptions_can_be_caught():
    assert issubclass(torch.onnx.OnnxExporterError, RuntimeError)
    assert issubclass(torch.package.PackagingError, Exception)
    assert str(torch.package.ObjNotFoundError("a", "b")) == "('a', 'b')"


def test_classes_can_be_derived_from():
    class Tracer(torch.fx.experimental.proxy_tensor.PythonKeyTracer):
        pass

    with pytest.raises(NotImplementedError, match="PythonKeyTracer is not available"):
        Tracer()


def test_programs_import_them_as_torchs(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import torch\n"
        + "".join(f"import torch.{name}\n" for name in REFUSED)
        + "from torch.utils._pytree import tree_map\n"
        + "import torch.utils._cxx_pytree, torch.xpu, torch.__future__\n"
        + "import torch.utils._pytree as pytree\n"
        + "assert pytree is torch.utils._pytree and tree_map is pytree.tree_map\n"
        + "print(torch.export.Dim.__module__)\n"
    )
    run = subprocess.run(
        [sys.executable, "-m", "rushlight", str(program)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (run.stdout, run.stderr) == ("rushlight.export\n", "")


def test_names_of_dtypes_that_no_tensor_has():
    for dtype, name in (
        (torch.uint4, "UInt4"),
        (torch.int2, "Int2"),
        (torch.bits8, "Bits8"),
        (torch.bits1x8, "Bits1x8"),
    ):
        with pytest.raises(
            NotImplementedError, match=f"^\"empty\" not implemented for '{name}'\n  No tensor has this dtype"
        ):
            torch.zeros(1, dtype=dtype)


@pytest.mark.parametrize("name", ["quint4x2", "quint2x4"])
def test_dtypes_that_no_tensor_has(name):
    dtype = getattr(torch, name)
    assert repr(dtype) == f"torch.{name}" and pickle.loads(pickle.dumps(dtype)) is copy.deepcopy(dtype) is dtype
    assert torch.ones(1).dtype != dtype and dtype not in (torch.float16, torch.int8)
    for call in (
        lambda: torch.ones(1, dtype=dtype),
        lambda: torch.tensor([1], dtype=dtype),
        lambda: torch.ones(1).to(dtype),
        lambda: torch.rand(1, dtype=dtype),
    ):
        with pytest.raises(
            NotImplementedError, match=f"^\"empty\" not implemented for '{name.replace('quint', 'QUInt')}'"
        ):
            call()
    with pytest.raises(TypeError, match="requires a floating point input type"):
        torch.finfo(dtype)
