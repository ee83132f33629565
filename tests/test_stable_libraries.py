"""Compiled libraries that use the stable ABI of LibTorch (`torch.ops.load_library`)."""

import ctypes
import gc
import re
import shutil
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest

import rushlight as torch
from rushlight import _C
from rushlight._library import stable

COMPILER = shutil.which("c++")
pytestmark = pytest.mark.skipif(
    COMPILER is None or sys.platform != "linux", reason="needs a C++ compiler, and the dynamic loader of Linux"
)


def compiled(folder: Path, source: str, name: str, *options: str) -> str:
    """Compiles a source as the shared library `name`."""
    file = folder / "source.cpp"
    file.write_text(source)
    command = [str(COMPILER), "-std=c++17", "-fPIC", "-shared", "-o", str(folder / name), str(file), *options]
    subprocess.run(command, check=True, timeout=120)
    return str(folder / name)


def against_torch(folder: Path) -> list[str]:
    """The options that make a library depend on `libtorch.so`, which does not exist when it is loaded."""
    absent = folder / "absent"
    absent.mkdir()
    compiled(absent, "", "libtorch.so", "-Wl,-soname,libtorch.so")
    return ["-Wl,--no-as-needed", f"-L{absent}", "-ltorch"]


@pytest.fixture(scope="module")
def ops(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compiled")
    source = (Path(__file__).parent / "stable_library.cpp").read_text()
    torch.ops.load_library(compiled(folder, source, "library.so", *against_torch(folder)))
    return torch.ops.tests_compiled


def test_a_kernel_reads_and_makes_tensors(ops):
    x = torch.arange(6.0).reshape(2, 3)
    assert ops.add_one(x).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert ops.add_one(x.t()).tolist() == [[1, 4], [2, 5], [3, 6]], "by strides"
    assert ops.add_one(x.flip(1)).tolist() == [[3, 2, 1], [6, 5, 4]], "by negative strides"


def test_values_of_every_type_pass_both_ways(ops):
    x, generator = torch.ones(2), torch.Generator()
    given = [
        *(x, None, [x, x], [None, x], -3, 4, [5, 6], 0.5, None, True, "name", "ä\0b"),
        *(torch.bfloat16, torch.strided, torch.channels_last, torch.device("meta"), [0.5, -1.0], generator),
    ]
    returned = ops.echo(*given)
    assert returned[0] is x and returned[2][1] is x and returned[3] == [None, x], "tensors are the same objects"
    assert list(returned[4:17]) == given[4:17]
    assert (
        torch.rand(2, generator=returned[17].manual_seed(3)).tolist()
        == torch.rand(2, generator=generator.manual_seed(3)).tolist()
    )
    given[17] = None
    assert ops.echo(*given)[17] is None
    assert ops.reversed([1, 2, 3]) == [3, 2, 1] and ops.reversed([]) == []


def test_arguments_of_other_types_are_refused(ops):
    with pytest.raises(
        RuntimeError, match=re.escape("tests_compiled::reversed() Expected a value of type 'List[int]'")
    ):
        ops.reversed([1, "2"])
    with pytest.raises(RuntimeError, match=re.escape("tests_compiled::add_one() is missing value for argument 'x'")):
        ops.add_one()


def test_changed_arguments_count_as_changed(ops):
    x = torch.ones(2)
    before = x._version
    assert ops.double_(x) is None and x.tolist() == [2, 2] and x._version == before + 1


@pytest.mark.parametrize(
    ("kind", "exception", "message"),
    [
        (0, RuntimeError, "runtime"),
        (1, ValueError, "argument"),
        (2, IndexError, "range"),
        (3, OverflowError, "overflow"),
        (4, MemoryError, "std::bad_alloc"),
        (5, RuntimeError, "a library threw an exception that is no std::exception"),
        (6, RuntimeError, "a library threw an exception that is no std::exception"),
    ],
)
def test_exceptions_of_cpp_become_those_of_python(ops, kind, exception, message):
    for _ in range(3):
        with pytest.raises(exception) as raised:
            ops.fail(kind)
        assert type(raised.value) is exception and str(raised.value) == message


def test_sums_are_right_for_any_number_of_threads(ops):
    x = torch.arange(100_000.0, dtype=torch.float64)
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 4):
            torch.set_num_threads(threads)
            assert ops.total(x) == (x.sum().item(), threads)
            with pytest.raises(RuntimeError, match="in a loop"):
                ops.total(x[:1])
    finally:
        torch.set_num_threads(before)


def test_a_library_calls_operators(ops):
    x = torch.arange(4.0).reshape(2, 2)
    assert torch.equal(ops.call("aten::matmul", "", x, x), x @ x)
    torch.library.define("tests_compiled_by_name::first", "(Tensor x, Tensor y) -> Tensor")
    torch.library.impl("tests_compiled_by_name::first", "default", lambda x, y: x + 1)
    assert torch.equal(ops.call("tests_compiled_by_name::first", "", x, x), x + 1)
    with pytest.raises(RuntimeError, match="the call failed: mat1 and mat2 shapes cannot be multiplied") as raised:
        ops.call("aten::mm", "", x, torch.ones(3, 3))
    assert isinstance(raised.value.__cause__, RuntimeError), "the operator's own error"
    with pytest.raises(RuntimeError, match="Could not find schema for aten::no_such_operator"):
        ops.call("aten::no_such_operator", "", x, x)


def test_every_schema_is_that_of_an_operator():
    for qualified in stable._schemas():
        name, _, overload = qualified.partition(".")
        function, arguments, results = stable.operator_of(name, overload)
        of_tensors = "Tensor" in "".join(arguments + results)
        assert callable(function) and of_tensors != stable.takes_numbers_alone(qualified)


def test_every_operator_has_a_schema():
    """`aten_schemas.txt` has the schemas of torch. A new operator needs those of its overloads there."""
    known = {qualified.partition(".")[0].removeprefix("aten::") for qualified in stable._schemas()}
    assert not {name for name in _C._functions[""] if not name.startswith("_")} - known


def test_results_are_recorded_only_if_composed_or_told(ops):
    x = torch.ones(1, 2, requires_grad=True)
    result = ops.add_one(x)
    with pytest.warns(UserWarning, match="tests_compiled::add_one: an autograd kernel was not registered"):
        (result.sum() + x.sum() * 2).backward()
    assert x.grad.tolist() == [[2, 2]]
    y = ops.squared(x * 3)
    assert y.requires_grad and torch.autograd.grad(y.sum(), x)[0].tolist() == [[18, 18]]
    torch.library.register_autograd("tests_compiled::add_one", lambda ctx, gradient: gradient * 7)
    assert torch.autograd.grad(ops.add_one(x).sum(), x)[0].tolist() == [[7, 7]]


def test_memory_of_a_library_is_freed_with_its_tensor(ops):
    x = ops.counting(5)
    assert x.tolist() == [0, 1, 2, 3, 4] and x.add_(1).tolist() == [1, 2, 3, 4, 5]
    view, before = x[1:], ops.freed()
    del x
    assert ops.freed() == before and view.sum() == 14
    del view
    assert ops.freed() == before + 1


def test_nothing_keeps_arguments_alive(ops):
    x = torch.ones(2, 2)
    ref = weakref.ref(x)
    ops.add_one(x)
    ops.echo(
        x, x, [x], [x], 1, 1, [1, 1], 1.0, 1.0, True, "", "", torch.int8, None, torch.channels_last, "cpu", None, None
    )
    with pytest.raises(RuntimeError):
        ops.call("aten::mm", "", x, torch.ones(3))
    del x
    gc.collect()
    assert ref() is None


def test_a_library_sees_elements_as_they_are(ops):
    x = torch.complex(torch.ones(2, 2), torch.full((2, 2), 3.0))
    assert ops.add_one(x.conj().imag).tolist() == [[-2, -2], [-2, -2]], "negated as it is read"
    with pytest.raises(RuntimeError, match="elements are not stored one by one"):
        ops.add_one(torch.ones(2, 2).to_sparse())
    with pytest.raises(RuntimeError, match="elements are not stored one by one"):
        ops.double_(x.conj().imag)


def test_vmap_calls_a_kernel_for_each_sample(ops):
    x = torch.arange(12.0).reshape(3, 2, 2)
    assert torch.equal(torch.vmap(ops.add_one)(x), x + 1)
    assert torch.equal(torch.vmap(ops.add_one, in_dims=1)(x), x.transpose(0, 1) + 1)


def test_a_library_cannot_write_what_is_read_only(ops, tmp_path):
    file = tmp_path / "numbers"
    file.write_bytes(bytes(8))
    x = torch.from_file(str(file), shared=False, size=2)
    assert ops.double_(x) is None, "a private mapping may be written"
    numpy = pytest.importorskip("numpy")
    array = numpy.zeros(2, numpy.float32)
    array.flags.writeable = False
    x = torch.from_numpy(array)
    with pytest.raises(RuntimeError, match="memory is read-only"):
        ops.double_(x)


def refused(path: str) -> str:
    with pytest.raises(OSError, match=f"^Could not load this library: {re.escape(path)}\n") as raised:
        torch.ops.load_library(path)
    return str(raised.value)


def test_what_is_no_library_is_refused(tmp_path):
    assert "No such file" in refused(str(tmp_path / "absent.so"))
    for content in (b"", b"\x7fELF", b"text" * 100, bytes(5000)):
        (tmp_path / "wrong.so").write_bytes(content)
        refused(str(tmp_path / "wrong.so"))


def test_damaged_libraries_are_refused_or_loaded(tmp_path):
    """The tables are read before the loader reads them: no damage to them may end the process."""
    path = Path(compiled(tmp_path, "", "damaged.so", *against_torch(tmp_path)))
    whole = path.read_bytes()
    program = (
        "import sys, rushlight as torch\n"
        "for path in sys.argv[1:]:\n    try: torch.ops.load_library(path)\n    except OSError: pass\nprint('alive')"
    )
    # The tables that rushlight reads are those of sections, at the end of the file; the loader reads none of them.
    start = int.from_bytes(whole[40:48], "little")
    files = []
    for number, place in enumerate(range(start, len(whole), max((len(whole) - start) // 60, 1))):
        for byte in (0, 255):
            file = tmp_path / f"damaged{number}_{byte}.so"
            file.write_bytes(whole[:place] + bytes([byte]) + whole[place + 1 :])
            files.append(str(file))
    done = subprocess.run([sys.executable, "-c", program, *files], capture_output=True, text=True, timeout=120)
    assert done.stdout == "alive\n", done.stderr[-2000:]


def test_functions_outside_of_the_abi_are_refused_by_name(tmp_path):
    source = 'extern "C" void at_some_function(); void call() { at_some_function(); }'
    message = refused(compiled(tmp_path, source, "unstable.so", *against_torch(tmp_path)))
    assert "undefined symbol: at_some_function" in message and "stable ABI of LibTorch" in message


def test_functions_of_cuda_are_left_out_without_its_runtime(tmp_path):
    """A library for CUDA calls functions of its runtime as it is loaded. Without the runtime they return an error."""
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    versions = runtime / "versions"
    versions.write_text("libcudart.so.99 { *; };")
    compiled(
        *(runtime, 'extern "C" int cudaTestDevice() { return 0; }', "libcudart.so"),
        *("-Wl,-soname,libcudart.so.99", f"-Wl,--version-script={versions}"),
    )
    source = """
        #include <initializer_list>
        extern "C" {
        int cudaTestDevice();
        int aoti_torch_library_init_fragment(const char*, const char*, unsigned, void**);
        int aoti_torch_library_init_impl(const char*, const char*, const char*, unsigned, void**);
        int aoti_torch_library_def(void*, const char*);
        int torch_library_impl(void*, const char*, void (*)(unsigned long*, unsigned long, unsigned long), unsigned long);
        }
        static unsigned long status = cudaTestDevice();
        static void code(unsigned long* stack, unsigned long, unsigned long) { stack[0] = status; }
        static int registered = [] {
            void* library;
            aoti_torch_library_init_fragment("NAME", "", 0, &library);
            aoti_torch_library_def(library, "status() -> int");
            for (auto key : {"CompositeExplicitAutograd", "CUDA", "Functionalize"}) {
                aoti_torch_library_init_impl("NAME", key, "", 0, &library);
                torch_library_impl(library, "status", code, 0);
            }
            return 0;
        }();
    """
    options = [*against_torch(tmp_path), f"-L{runtime}", "-lcudart"]
    for name in ("tests_cuda_first", "tests_cuda_second"):
        torch.ops.load_library(compiled(tmp_path, source.replace("NAME", name), f"{name}.so", *options))
        assert getattr(torch.ops, name).status() == 100, "cudaErrorNoDevice"
        operator = getattr(torch.ops, name).status._operators[""]
        assert list(operator.kernels) == ["CompositeExplicitAutograd"]


def test_a_library_is_loaded_once(tmp_path):
    source = 'extern "C" int aoti_torch_abi_version(); static int version = aoti_torch_abi_version();'
    path = compiled(tmp_path, source, "once.so", *against_torch(tmp_path))
    torch.ops.load_library(path)
    torch.ops.load_library(path)
    assert path in torch.ops.loaded_libraries


REGISTERING = """
    #include <initializer_list>
    extern "C" {
    int aoti_torch_library_init_fragment(const char*, const char*, unsigned, void**);
    int aoti_torch_library_init_impl(const char*, const char*, const char*, unsigned, void**);
    int aoti_torch_library_def(void*, const char*);
    int torch_library_impl(void*, const char*, void (*)(unsigned long*, unsigned long, unsigned long), unsigned long);
    }
    static void one(unsigned long* stack, unsigned long, unsigned long) { stack[0] = 1; }
    static int registered = [] {
        void* library;
        aoti_torch_library_init_impl("NAME", "CompositeExplicitAutograd", "", 0, &library);
        torch_library_impl(library, "one", one, 0);
        aoti_torch_library_init_fragment("NAME", "", 0, &library);
        for (auto schema : {SCHEMAS}) aoti_torch_library_def(library, schema);
        return 0;
    }();
"""


def registering(folder: Path, name: str, *schemas: str) -> str:
    source = REGISTERING.replace("NAME", name).replace("SCHEMAS", ", ".join(f'"{schema}"' for schema in schemas))
    return compiled(folder, source, f"{name}.so", *against_torch(folder))


def test_an_operator_that_cannot_be_registered_is_told_each_time(tmp_path):
    path = registering(tmp_path, "tests_wrong", "wrong(Nonsense", "one() -> int", "one() -> int")
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"expected \) but found"):
            torch.ops.load_library(path)
        assert path not in torch.ops.loaded_libraries
    assert torch.ops.tests_wrong.one() == 1, "the others are registered"


def test_libraries_that_others_load_are_registered(ops, tmp_path):
    path = registering(tmp_path, "tests_by_ctypes", "one() -> int")
    ctypes.CDLL(path)
    assert torch.ops.tests_by_ctypes.one() == 1
    torch.ops.load_library(path)
    assert torch.ops.tests_by_ctypes.one() == 1


def test_threads_that_load_one_library_find_its_operators(tmp_path):
    path = registering(tmp_path, "tests_by_threads", "one() -> int")
    found, errors = [], []

    def load():
        try:
            torch.ops.load_library(path)
            found.append(torch.ops.tests_by_threads.one())
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=load) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [1] * 8 and not errors


def test_what_is_no_file_is_not_read(tmp_path):
    refused("/dev/zero")
    refused("")
    with (tmp_path / "large.so").open("wb") as file:
        file.truncate(1 << 42)
    refused(str(tmp_path / "large.so"))
