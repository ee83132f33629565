"""`torch.tensor` and attributes, conversions, copies and Python operations of tensors."""

import ast
import copy
import gc
import pickle
import re
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

import rushlight as torch


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1, "int64"), (1.5, "float32"), (True, "bool"), (1j, "complex64"), ([], "float32"), ([[], []], "float32"),
        ([1, 2], "int64"), ([1, 2.5], "float32"), ([True, 2], "int64"), ([1, 2.5, 3j], "complex64"),
        ([[1, 2], (3, 4)], "int64"), (range(3), "int64"), (bytearray(b"ab"), "int64"), (((1,), (2,)), "int64"),
    ],
)  # fmt: skip
def test_inferred_dtype(data, dtype):
    tensor = torch.tensor(data)
    assert tensor.dtype == getattr(torch, dtype)
    plain = [list(row) if isinstance(row, tuple) else row for row in data] if hasattr(data, "__len__") else data
    assert tensor.tolist() == plain


@pytest.mark.parametrize(
    ("data", "keywords", "error", "sentence"),
    [
        ("a", {}, TypeError, "new(): invalid data type 'str'"),
        (["a"], {}, ValueError, "too many dimensions 'str'"),
        ([1, "a"], {}, TypeError, "new(): invalid data type 'str'"),
        (None, {}, RuntimeError, "Could not infer dtype of NoneType"),
        ({1: 2}, {}, RuntimeError, "Could not infer dtype of dict"),
        ([[1, 2], [3]], {}, ValueError, "expected sequence of length 2 at dim 1 (got 1)"),
        ([[[1], [2]], [[3], [4, 5]]], {}, ValueError, "expected sequence of length 1 at dim 2 (got 2)"),
        ([[1, 2], 3], {}, TypeError, "not a sequence"),
        ([1, [2]], {}, TypeError, "'list' object cannot be interpreted as an integer"),
        (300, {"dtype": torch.uint8}, RuntimeError, "value cannot be converted to type uint8 without overflow"),
        (
            float("nan"),
            {"dtype": torch.int64},
            RuntimeError,
            "value cannot be converted to type int64 without overflow",
        ),
        (2**63, {}, ValueError, "Overflow when unpacking long long"),
        (1j, {"dtype": torch.float32}, TypeError, "must be real number, not complex"),
        (1, {"requires_grad": True}, RuntimeError, "Only Tensors of floating point and complex dtype can require grad"),
        (1, {"dtype": "float32"}, TypeError, "tensor(): argument 'dtype' must be torch.dtype, not str"),
    ],
)
def test_refused_data(data, keywords, error, sentence):
    with pytest.raises(error) as caught:
        torch.tensor(data, **keywords)
    assert str(caught.value).startswith(sentence)


def test_conversions_of_values():
    assert torch.tensor([1.5, -1.5], dtype=torch.int64).tolist() == [1, -1]
    assert torch.tensor(-1, dtype=torch.uint8).item() == 255
    assert torch.tensor([2, 0.0, 1j], dtype=torch.bool).tolist() == [True, False, True]
    assert torch.tensor(1e300, dtype=torch.float32).item() == float("inf")
    assert torch.tensor(2**63, dtype=torch.uint64).item() == 2**63
    assert torch.tensor([torch.tensor(1), 2.5]).tolist() == [1.0, 2.5]
    assert torch.tensor(1, dtype=float).dtype == torch.float64


def test_a_list_that_holds_itself():
    loop = []
    loop.append(loop)
    with pytest.raises(ValueError, match="too many dimensions 'list'"):
        torch.tensor(loop)


def test_copying_a_tensor_warns():
    x = torch.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="To copy construct from a tensor, it is recommended to use"):
        y = torch.tensor(x)
    assert not y.requires_grad and y.data_ptr() != x.data_ptr()


def test_geometry():
    x = torch.zeros(2, 3, 4)
    assert x.shape == x.size() == (2, 3, 4) and isinstance(x.shape, torch.Size)
    assert x.size(-1) == 4 and x.stride() == (12, 4, 1) and x.stride(0) == 12
    assert x.dim() == x.ndim == x.ndimension() == 3
    assert x.numel() == x.nelement() == 24 and x.nbytes == 96 and x.itemsize == x.element_size() == 4
    assert x[1].storage_offset() == 12 and x[1].data_ptr() == x.data_ptr() + 48
    assert x.is_contiguous() and not x.transpose(0, 1).is_contiguous()
    assert x.shape.numel() == 24 and x.shape[1:] == torch.Size([3, 4]) and x.shape + (1,) == torch.Size([2, 3, 4, 1])
    with pytest.raises(IndexError, match=r"Dimension out of range \(expected to be in range of \[-3, 2\], but got 5\)"):
        x.size(5)
    with pytest.raises(TypeError, match=r"size\(\): argument 'dim' \(position 1\) must be int, not str"):
        x.size("a")


def test_facts():
    x = torch.zeros(2)
    assert x.is_cpu and not x.is_cuda and not x.is_meta and not x.is_sparse and x.get_device() == -1
    assert x.layout == torch.strided and x.device == torch.device("cpu") and x.dtype is torch.float32
    assert torch.is_tensor(x) and torch.is_floating_point(x) and not torch.is_complex(x)
    assert x.is_set_to(x) and not x.is_set_to(x.clone()) and x.is_same_size(torch.ones(2))
    with pytest.raises(AttributeError):
        x.dtype = torch.float64
    with pytest.raises(AttributeError, match="has no attribute 'nonexistent'"):
        x.nonexistent


def test_transposed_attributes():
    x = torch.arange(6).reshape(2, 3)
    assert x.T.tolist() == x.mT.tolist() == [[0, 3], [1, 4], [2, 5]]
    z = torch.tensor([[1 + 2j, 3]])
    assert z.H.tolist() == z.mH.tolist() == [[1 - 2j], [3 - 0j]]
    assert z.real.tolist() == [[1, 3]] and z.imag.tolist() == [[2, 0]]
    z.imag = 0.0
    assert z.tolist() == [[1, 3]]


def test_numbers():
    x = torch.tensor([2.5])
    assert float(x) == x.item() == 2.5 and int(x) == 2 and complex(x) == 2.5
    assert bool(torch.tensor([[1]])) and not torch.tensor(0.0)
    assert [10, 11, 12][torch.tensor(2)] == 12
    with pytest.raises(TypeError, match="only integer tensors of a single element can be converted to an index"):
        [1][torch.tensor(0.0)]
    for empty_or_many, sentence in [(torch.ones(0), "no values"), (torch.ones(2), "more than one value")]:
        with pytest.raises(RuntimeError, match=f"Boolean value of Tensor with {sentence} is ambiguous"):
            bool(empty_or_many)
    with pytest.raises(RuntimeError, match="a Tensor with 2 elements cannot be converted to Scalar"):
        torch.ones(2).item()
    with pytest.raises(ValueError, match="only one element tensors can be converted to Python scalars"):
        float(torch.ones(2))


def test_sequences():
    x = torch.arange(6).reshape(3, 2)
    assert len(x) == 3 and [row.tolist() for row in x] == [[0, 1], [2, 3], [4, 5]]
    assert 3 in x and 7 not in x
    assert torch.tensor(5).tolist() == 5 and torch.zeros(0, 2).tolist() == []
    for word in (len, iter):
        with pytest.raises(TypeError, match="0-d tensor"):
            word(torch.tensor(1))
    with pytest.raises(RuntimeError, match="Tensor.__contains__ only supports Tensor or scalar, but you passed in a"):
        x.__contains__("a")


def test_to_returns_itself_where_nothing_changes():
    x = torch.ones(2)
    assert x.to(torch.float32) is x.to("cpu") is x.float() is x.cpu() is x.to(x) is x.type_as(x) is x
    assert x.to(torch.float32, copy=True) is not x
    assert x.to("cpu", torch.float64).dtype == x.to(dtype=torch.float64).dtype == x.double().dtype == torch.float64
    assert x.to(torch.ones(1, dtype=torch.int8)).dtype == torch.int8
    assert x.to("meta").is_meta
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
        torch.ones(1, device="meta").cpu()
    for name in () if torch.cuda.is_available() else ("cuda", "to"):
        with pytest.raises(RuntimeError, match="Found no NVIDIA driver on your system."):
            getattr(x, name)(*([] if name == "cuda" else ["cuda"]))


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("half", "float16"), ("float", "float32"), ("double", "float64"), ("bfloat16", "bfloat16"), ("byte", "uint8"),
        ("char", "int8"), ("short", "int16"), ("int", "int32"), ("long", "int64"), ("bool", "bool"),
        ("cfloat", "complex64"), ("cdouble", "complex128"),
    ],
)  # fmt: skip
def test_short_conversions(name, dtype):
    assert getattr(torch.ones(2, dtype=torch.int16), name)().dtype == getattr(torch, dtype)


def test_conversion_is_differentiable():
    x = torch.ones(2, requires_grad=True)
    x.double().sum().backward()
    assert x.grad.dtype == torch.float32 and x.grad.tolist() == [1, 1]


def test_type():
    x = torch.ones(2)
    assert x.type() == torch.typename(x) == "torch.FloatTensor"
    assert x.type("torch.DoubleTensor").dtype == x.type(torch.DoubleTensor).dtype == torch.float64
    with pytest.raises(ValueError, match="invalid type: 'foo'"):
        x.type("foo")


def test_old_constructors():
    assert torch.Tensor(2, 3).shape == torch.FloatTensor(2, 3).shape == (2, 3)
    assert torch.Tensor([1, 2]).dtype == torch.float32 and torch.LongTensor([1.5]).tolist() == [1]
    assert torch.Tensor().shape == (0,)
    assert isinstance(torch.ones(1), torch.FloatTensor) and not isinstance(torch.ones(1), torch.DoubleTensor)
    assert repr(torch.FloatTensor) == "<class 'torch.FloatTensor'>"
    with pytest.raises(TypeError, match=r"new\(\): data must be a sequence \(got float\)"):
        torch.Tensor(1.5)


def test_data():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    x.data.fill_(5)
    assert x.tolist() == [5, 5] and x._version == 0
    x.data = torch.zeros(3)
    assert x.shape == (3,) and x.requires_grad
    with pytest.raises(RuntimeError, match="data set to a tensor that requires gradients must be floating point"):
        x.data = torch.zeros(3, dtype=torch.int64)
    assert y.detach().requires_grad is False and y.detach().data_ptr() == y.data_ptr()


def test_set_and_storage():
    x = torch.zeros(6)
    y = torch.ones(1)
    y.set_(x.untyped_storage(), 1, (2, 2), (2, 1))
    y.fill_(7)
    assert x.tolist() == [0, 7, 7, 7, 7, 0]
    assert x.untyped_storage().nbytes() == 24 and x.untyped_storage().data_ptr() == x.data_ptr()
    z = torch.ones(1).set_(x.untyped_storage(), 5, (2, 2), (2, 1))
    assert (
        z.shape == (2, 2) and x.untyped_storage().nbytes() == 36 and x.tolist() == [0, 7, 7, 7, 7, 0] and z[0, 0] == 0
    )
    with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"):
        y.set_(torch.from_numpy(np.zeros(2, dtype=np.float32)).untyped_storage(), 0, (3,))
    with pytest.raises(RuntimeError, match=r"Could not set tensor of type double to a tensor of type float"):
        y.set_(torch.ones(4, dtype=torch.float64))
    with pytest.raises(RuntimeError, match=r"on device \"cpu\" to a storage on different device \"meta\""):
        y.set_(torch.ones(4, device="meta"))
    assert y.dtype == torch.float32 and y.tolist() == [[7, 7], [7, 7]]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("gpu", "Expected one of cpu, cuda, ipu, xpu,"),
        ("float16", "Invalid device string: 'float16'"),
        ("cuda0", "Invalid device string: 'cuda0'"),
        ("foo bar", "Invalid device string: 'foo bar'"),
        ("cpu:", "Invalid device string: 'cpu:'"),
        ("", "Device string must not be empty"),
    ],
)
def test_devices_that_are_not_there(name, sentence):
    for ask in (torch.device, torch.ones(1).to, lambda name: torch.ones(1, device=name), torch.nn.Linear(1, 1).to):
        with pytest.raises(RuntimeError, match=sentence):
            ask(name)


def test_pinning_without_a_card_says_so():
    x = torch.ones(2)
    for ask in (
        x.pin_memory,
        lambda: torch.ones(2, pin_memory=True),
        lambda: torch.tensor([1], pin_memory=True),
        lambda: torch.empty_like(x, pin_memory=True),
        lambda: x.new_empty(2, pin_memory=True),
        lambda: x.new_tensor([1], pin_memory=True),
    ):
        with pytest.warns(UserWarning, match=r"'pin_memory' argument is set as true but no accelerator") as caught:
            assert not ask().is_pinned()
        assert caught[0].filename == __file__
    assert torch.ones(2, device="meta", pin_memory=True).is_meta and not torch.ones(2, pin_memory=False).is_pinned()


def test_elementwise_python():
    x = torch.tensor([1.0, 2.0])
    assert x.apply_(lambda value: value + 1) is x and x.tolist() == [2, 3]
    assert x.map_(torch.tensor([10.0, 20.0]), lambda a, b: a * b).tolist() == [20, 60]


def test_copies():
    x = torch.arange(4.0, requires_grad=True)
    shallow, deep = copy.copy(x), copy.deepcopy(x)
    assert shallow.data_ptr() == x.data_ptr() and deep.data_ptr() != x.data_ptr()
    assert deep.requires_grad and deep.tolist() == x.tolist()
    base = torch.arange(4)
    first, second = copy.deepcopy([base, base[2:]])
    first[2] = 9
    assert second[0].item() == 9
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(x * 2)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickles(protocol):
    x = torch.arange(6.0).reshape(2, 3).t().requires_grad_()
    y = pickle.loads(pickle.dumps(x, protocol))
    assert y.tolist() == x.tolist() and y.stride() == x.stride() and y.requires_grad
    for value in (
        torch.float32,
        torch.device("cpu"),
        torch.Size([1]),
        torch.strided,
        torch.preserve_format,
        torch.Tensor,
    ):
        assert pickle.loads(pickle.dumps(value, protocol)) == value


def test_identity():
    x = torch.ones(2)
    assert hash(x) == hash(x) and len({x, x, torch.ones(2)}) == 2
    x.note = "kept"
    assert x.note == "kept" and "note" in dir(x) and "add" in dir(x)
    alive = weakref.ref(x)
    del x
    gc.collect()
    assert alive() is None


def test_subclass():
    class Marked(torch.Tensor):
        pass

    x = torch.ones(2).as_subclass(Marked)
    assert type(x) is Marked and type(x + 1) is Marked
    assert type(Marked([1, 2])) is Marked


def test_modes():
    x = torch.ones(1, requires_grad=True)
    with torch.no_grad():
        assert not (x * 2).requires_grad
        with torch.enable_grad():
            assert (x * 2).requires_grad
    with torch.set_grad_enabled(False):
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()

    @torch.no_grad()
    def quiet():
        return (x * 2).requires_grad

    @torch.no_grad
    def bare():
        return (x * 2).requires_grad

    @torch.no_grad()
    def steps():
        yield (x * 2).requires_grad
        yield torch.is_grad_enabled()

    assert not quiet() and not bare()
    generator = steps()
    assert next(generator) is False and torch.is_grad_enabled() and next(generator) is False
    with torch.inference_mode():
        made = torch.ones(1)
    assert made.is_inference()
    with pytest.raises(RuntimeError):
        with torch.no_grad():
            raise RuntimeError("the mode ends with the block")
    assert torch.is_grad_enabled()


def test_settings():
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(threads)
    with pytest.raises(RuntimeError, match="set_num_threads expects a positive integer"):
        torch.set_num_threads(0)


def test_dtype_questions():
    assert torch.promote_types(torch.int8, torch.uint8) == torch.int16
    with pytest.raises(RuntimeError, match="attempted to promote UInt16 and ComplexFloat"):
        torch.promote_types(torch.uint16, torch.complex64)
    assert not torch.can_cast(torch.float32, torch.int32)
    assert torch.result_type(torch.ones(1, dtype=torch.int32), 1.5) == torch.float32
    assert torch.broadcast_shapes((2,), (3, 1)) == (3, 2) and torch.broadcast_shapes(5, [1], torch.Size()) == (5,)
    message = (
        "length 2 at -1! Mismatching argument at index 1 had (2,); but expected shape should be broadcastable to [3]"
    )
    with pytest.raises(RuntimeError, match=re.escape(message)):
        torch.broadcast_shapes((3,), (2,))
    assert torch.broadcast_shapes(None, (2,)) == (2,) and torch.broadcast_shapes(None) == ()
    for shapes, kind, sentence in (
        (((2,), None, 3), RuntimeError, "of length 3 at -1! Mismatching argument at index 1 had (3,); but expected"),
        (((2,), (3, 4)), RuntimeError, "had (3, 4); but expected shape should be broadcastable to [1, 2]"),
        (((2,), -1), RuntimeError, "of length -1 at -1! Mismatching argument at index 1 had (-1,)"),
        (((1,), (-1,)), ValueError, "Attempting to broadcast a dimension with negative length!"),
        (("a",), TypeError, "'<' not supported between instances of 'str' and 'int'"),
        (((2.0,),), TypeError, "torch.Size() takes an iterable of 'int' (item 0 is 'float')"),
        ((1.5,), RuntimeError, "Input shapes should be of type ints, a tuple of ints, or a list of ints, got 1.5"),
    ):
        with pytest.raises(kind) as found:
            torch.broadcast_shapes(*shapes)
        assert sentence in str(found.value)
    assert torch.finfo(torch.bfloat16).eps == 0.0078125 and torch.iinfo(torch.uint64).max == 2**64 - 1
    with pytest.raises(TypeError, match="requires a floating point input type"):
        torch.finfo(torch.int32)


def test_names_that_do_not_exist():
    with pytest.raises(AttributeError) as caught:
        torch.zeros_lik
    assert str(caught.value).endswith("Did you mean 'zeros_like'?")
    assert not hasattr(torch, "zeros_lik")


def test_cuda_without_a_card():
    assert torch.cuda.is_available() is False and isinstance(torch.cuda.device_count(), int)
    torch.cuda.manual_seed_all(0)


def run(code, *arguments):
    command = [sys.executable, *arguments] if code is None else [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_import_is_light():
    heavy = "{'numpy', 'inspect', 'dataclasses', 'typing', 'pickle', 'asyncio'} & set(sys.modules)"
    done = run(f"import sys; before = set(sys.modules); import rushlight; print(sorted({heavy} - before))")
    assert done.stdout == "[]\n", done.stderr


PROGRAM = """
import sys
import torch
import torch.nn as nn
from torch.utils.data import DataLoader
import torch.multiprocessing as mp


def work(queue, x):
    import torch
    queue.put((torch.__name__, type(x).__name__, x.sum().item()))


if __name__ == "__main__":
    print(sys.argv[1:], torch.__name__, nn.Linear.__module__, sys.modules["torch.nn"] is nn)
    context = mp.get_context("spawn")
    queue = context.SimpleQueue()
    process = context.Process(target=work, args=(queue, torch.ones(3)))
    process.start()
    print(queue.get())
    process.join()
    try:
        import torch.nonsense
    except ModuleNotFoundError as error:
        print(str(error).split(":")[0])
    try:
        torch.zeroes(3)
    except AttributeError as error:
        print(str(error).splitlines()[-1])
"""


def test_a_program_for_torch_runs_unchanged(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    done = run(None, "-m", "rushlight", str(script), "a", "--b")
    assert done.stdout.splitlines() == [
        "['a', '--b'] torch rushlight.nn.modules.linear True",
        "('torch', 'Tensor', 3.0)",
        "No module named 'torch.nonsense'",
        "Did you mean 'zeros'?",
    ], done.stderr


def test_the_runner_says_what_is_wrong(tmp_path):
    done = run(None, "-m", "rushlight", str(tmp_path / "missing.py"))
    assert done.returncode == 1 and "can't open file" in done.stderr
    assert "usage: python -m rushlight" in run(None, "-m", "rushlight").stdout
    for line, sentence in [
        ("x.cuda(async=True)", "`async` is a keyword since Python 3.7: use non_blocking=True."),
        ("print(\u201ca\u201d)", "The line has typographic quotes: use ' or \"."),
    ]:
        (tmp_path / "old.py").write_text(line, encoding="utf-8")
        done = run(None, "-m", "rushlight", str(tmp_path / "old.py"))
        assert done.returncode == 1 and done.stderr.splitlines()[-1] == sentence


@pytest.mark.parametrize(
    "thing",
    [
        torch.add,
        torch.special.expit,
        torch.linalg.vector_norm,
        torch.nn.functional.gelu,
        torch.nn.functional.relu,
        torch.Tensor.view,
        torch.Tensor,
        torch.FloatTensor,
        torch.float32,
        torch.strided,
        torch.channels_last,
    ],
    ids=lambda thing: getattr(thing, "__name__", str(thing)),
)
def test_functions_and_classes_are_pickled_by_name(thing):
    assert pickle.loads(pickle.dumps(thing)) is thing


def test_results_with_names_are_pickled():
    found = pickle.loads(pickle.dumps(torch.tensor([[1.0, 3.0]]).max(dim=1)))
    assert type(found) is torch.return_types.max
    assert (found.values.item(), found.indices.item()) == (3, 1)


def test_a_pickled_result_has_no_history():
    found = pickle.loads(pickle.dumps(torch.ones(2, requires_grad=True) * 2))
    assert found.is_leaf and found.requires_grad


def test_everything_public_is_imported_by_a_star():
    found = {}
    exec("from rushlight import *", found)
    assert {"Tensor", "einsum", "save", "finfo", "FloatTensor", "no_grad", "float32", "pi"} <= found.keys()
    assert not {"nn", "TYPE_CHECKING", "HookHandle"} & found.keys()


@pytest.mark.parametrize("name", sorted(torch._SUBMODULES | torch._ELSEWHERE.keys()))
def test_names_that_load_late_exist(name):
    assert getattr(torch, name) is not None and name in dir(torch)


def test_names_that_load_late_are_known_to_checkers_of_types():
    tree = ast.parse(Path(torch.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    named = {alias.name for line in block.body if isinstance(line, ast.ImportFrom) for alias in line.names}
    assert named == torch._SUBMODULES | torch._ELSEWHERE.keys()


class TestSize:
    def test_it_is_a_tuple_that_stays_a_size(self):
        size = torch.ones(2, 3).shape
        assert repr(size) == "torch.Size([2, 3])" and size == (2, 3) and hash(size) == hash((2, 3))
        for made in (size + (1,), (1,) + size, size[1:], size * 2, copy.copy(size), pickle.loads(pickle.dumps(size))):
            assert type(made) is torch.Size
        assert torch.Size.__module__ == "rushlight" and size.numel() == 6

    def test_its_items_are_integers(self):
        assert torch.Size(torch.tensor([1, 2])) == (1, 2) and type(torch.Size([torch.tensor(3)])[0]) is int
        for items, sentence in (
            ((1, "a"), "torch.Size() takes an iterable of 'int' (item 1 is 'str')"),
            ([1.5], "torch.Size() takes an iterable of 'int' (item 0 is 'float')"),
        ):
            with pytest.raises(TypeError, match=re.escape(sentence)):
                torch.Size(items)


def test_a_change_of_size_counts_as_a_version():
    x = torch.zeros(2)
    x.resize_(3)
    assert x._version == 1


class TestStorage:
    def test_a_storage_stays_the_same_key_wherever_its_bytes_go(self):
        x = torch.ones(2)
        known = {x.untyped_storage()}
        x.resize_(1000)
        x.share_memory_()
        assert x.untyped_storage() in known

    @pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
    def test_the_elements_of_a_storage(self):
        x = torch.arange(6).reshape(2, 3)
        storage = x[1].storage()
        assert (len(storage), storage.size(), storage.nbytes(), storage[-1]) == (6, 6, 48, 5)
        assert list(storage) == storage.tolist() == [0, 1, 2, 3, 4, 5]
        storage[0] = 7
        storage[2:4] = 9
        assert x.tolist() == [[7, 1, 9], [9, 4, 5]]
        copy = storage.clone().fill_(1)
        assert storage.copy_(copy) is storage and x.sum() == 6
        assert (
            repr(torch.ones(1).storage())
            == " 1.0\n[torch.storage.TypedStorage(dtype=torch.float32, device=cpu) of size 1]"
        )
        for index, error, sentence in [
            (6, IndexError, "index 6 out of range for storage of size 6"),
            (slice(2), RuntimeError, "slices are only supported in UntypedStorage.__getitem__"),
            ("a", RuntimeError, "can't index a"),
        ]:
            with pytest.raises(error, match=sentence):
                storage[index]


def test_the_constructors_of_old_take_whole_numbers_of_any_kind_as_sizes():
    class Two:
        def __index__(self):
            return 2

    for size in (np.int64(2), np.array(2), Two()):
        assert torch.Tensor(size).shape == torch.LongTensor(size).shape == (2,)
    assert torch.Tensor(np.array([7.0])).tolist() == [7]
    for wrong, sentence in (
        (True, r"a sequence \(got bool\)"),
        ({1}, r"a sequence \(got set\)"),
        (b"a", "type 'bytes'"),
    ):
        with pytest.raises(TypeError, match=rf"new\(\): .*{sentence}"):
            torch.Tensor(wrong)


def test_the_constructors_of_old_take_tensors_of_their_dtype():
    x = torch.tensor([1, 2])
    assert torch.Tensor(x).dtype == torch.int64 and torch.Tensor(x).data_ptr() == x.data_ptr()
    assert torch.Tensor(torch.ones(1, requires_grad=True)).requires_grad
    with pytest.raises(
        TypeError, match=r"expected TensorOptions\(dtype=float, .*\) \(got TensorOptions\(dtype=long int,"
    ):
        torch.FloatTensor(x)


def test_attributes_and_arguments_of_the_wrong_kind():
    x = torch.ones(2)
    with pytest.raises(RuntimeError, match="^Deleting tensor data is not allowed. Delete tensor instead!"):
        del x.data
    for call, sentence in (
        (lambda: x.as_subclass(int), "Creating a Tensor subclass from a class that does not inherit from Tensor"),
        (lambda: x.as_subclass(5), r"cls must be a type \(got int\)"),
        (lambda: x.as_subclass(), r'as_subclass\(\) missing 1 required positional arguments: "cls"'),
        (lambda: torch.tensor(2.0, requires_grad="yes"), r"tensor\(\): argument 'requires_grad' must be bool, not str"),
        (lambda: torch.einsum(5, x), r"einsum\(\): argument 'equation' \(position 1\) must be str, not int"),
    ):
        with pytest.raises(TypeError, match=sentence):
            call()
    assert x.double().type(torch.Tensor).dtype == torch.float32


def test_views_without_elements_have_no_address():
    x = torch.rand(3)
    assert x[3:].data_ptr() == x[1:1].data_ptr() == 0 != x[2:].data_ptr()
    assert x.resize_(0).data_ptr() == 0 and x[:0].numpy().shape == (0,)


def test_tensors_have_numbers_of_their_own():
    x = torch.ones(2)
    assert isinstance(x._cdata, int) and x._cdata == x._cdata and x._cdata != x.detach()._cdata
