"""Kernels compile for cards. NVRTC, the compiler, needs neither a card nor a driver: it is in the extra `dev`.

`tests/data/registers.txt` lists the registers that each kernel needs. What its compiler has compiled from the same text is not compiled
again, unless the run is thorough. Whoever changes a kernel, or has a later compiler, writes the file again, and reads what has changed:

    python tests/cuda/test_kernels.py
"""

import concurrent.futures
import ctypes
import hashlib
import importlib.metadata
import os
import re
from pathlib import Path

import pytest
from engine_programs import (
    KERNELS,
    attention,
    elementwise,
    filled,
    functions_of_fold,
    lines,
    programs,
    reduction,
    sort,
    source,
)

RECORD = Path(__file__).parents[1] / "data/registers.txt"
ARCHITECTURES = (80, 90, 100)
#: Compiled in every run, so that the compiler is called.
FRESH = "elementwise flat"
EXPRESSIONS = '#include "expressions.cuh"\n'
#: Functions that stay functions, so that each is in the result, and the least that the compiler can do to them.
OPTIONS = (
    "--std=c++17",
    "--fmad=false",
    "--relocatable-device-code=true",
    "--define-macro=DEVICE=__device__",
    "--Ofast-compile=max",
    f"--include-path={KERNELS}",
)


def load():
    """NVRTC, or None if it is not installed."""
    try:
        files = importlib.metadata.files("nvidia-cuda-nvrtc") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    [library] = [file for file in files if re.fullmatch(r"libnvrtc\.so\.\d+", file.name)]
    return ctypes.CDLL(str(library.locate()))


@pytest.fixture(scope="module")
def nvrtc():
    if "softcuda" in os.environ.get("LD_LIBRARY_PATH", ""):
        pytest.skip(
            "NVIDIA's NVRTC would take the place of that of the card made of software for the rest of the process"
        )
    return load() or pytest.skip("nvidia-cuda-nvrtc is not installed")


def text_of(nvrtc, program, what):
    """The log or the machine code of a program."""
    size = ctypes.c_size_t()
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{what}")(program, text)
    return text.raw


#: Programs of the skeletons. Forms, bounds and numbers are those that the engine chooses for these types.
SKELETONS = {
    "8-bit floats": """
        #include "elementwise.cuh"
        using namespace rushlight;
        template <class To, class From> struct Cast {
            static DEVICE To value(const Numbers& numbers, To x0) { return x0; }
            static DEVICE void run(const Pointers<2>& operands, const Numbers& numbers, u64 count) {
                Elementwise<Cast, To, 4, 1, To, From>::flat(operands, numbers, count);
            }
        };
        #define CAST(to, from) extern "C" __global__ void from##_to_##to(Pointers<2> operands, Numbers numbers, u64 count) { \
            Cast<to, from>::run(operands, numbers, count); \
        }
        CAST(f8e5m2, f32) CAST(f8e4m3fn, bf16) CAST(f8e5m2fnuz, f64) CAST(f8e4m3fnuz, c32) CAST(f8e8m0fnu, f8e4m3fn)
        CAST(f32, f8e5m2) CAST(f16, f8e4m3fn) CAST(Bool, f8e5m2fnuz) CAST(i64, f8e4m3fnuz) CAST(c64, f8e8m0fnu)
    """,
    **{
        f"elementwise {title}": elementwise(
            form, "x0 * x1 + number<f32>(numbers, 0)", "f32", types, items, packs, index
        )
        for title, form, types, items, packs, index in [
            ("flat", "Flat", ("f16", "bf16", "Bool"), 8, 2, "u32"),
            ("packed", "Strided", ("f16", "bf16", "Bool"), 8, 2, "u32"),
            ("strided", "Strided", ("f16", "bf16", "Bool"), 1, 4, "u64"),
            ("of one dtype", "Flat", ("f32", "f32", "f32"), 4, 2, "u32"),
        ]
    },
    "transpose": elementwise("Transposed", "x0", "u128", ("u128", "u128"), 1, 4, "u64"),
    "transpose and convert": elementwise("Transposed", "x0", "f32", ("f32", "bf16"), 1, 4),
    # With packs of few and of eight elements, and with rows that are loops over loops.
    **{
        f"reduce {plan} {stored} to {result}{'' if even else ', loops'}": reduction(
            plan, functions_of_fold("sum"), f"sum_{{}}_{element}", element, element, result, stored, even
        )
        for element, stored, result, even in [
            ("c128", "c64", "c128", True),
            ("f32", "bf16", "f32", True),
            ("f32", "f32", "f32", False),
        ]
        for plan in ("Serial", "Warps", "Rows", "Columns")
    },
    **{
        f"lines of {what}": lines(what, bits, each, along, along, resident)
        for what, bits, each, along, resident in [
            ("CumulativeSum<f32, f32, f64, f32>", 3, True, True, 4),
            ("CumulativeProduct<u8, u8, u8, u8>", 3, True, False, 3),
            ("CumulativeLogSum<f64, f64, f64, f64>", 3, True, False, 3),
            ("Best<bf16, f32, true, false>", 2, True, True, 4),
            ("Best<i64, i64, false, true>", 2, False, True, 4),
            ("Recurrence<c128, c128>", 1, True, False, 2),
        ]
    },
    **{
        f"sort of {element}": sort(element, key, index, raw)
        for element, key, index, raw in [
            ("f32", "u32", "u32", "u32"),
            ("Bool", "u32", "i64", "u8"),
            ("f64", "u64", "u32", "u64"),
            ("i64", "u64", "i64", "u64"),
        ]
    },
    **{
        f"attention of {element} and {mask}": "".join(
            attention("attention", "attention", f"{element}, {mask}, 8", [("THREADS, 1", "")] * 3)
        )
        for element, mask in [("f16", "Bool"), ("bf16", "f32"), ("f32", "Unmasked")]
    },
    **{
        f"attention of {element} and {mask} with {columns} columns{'' if packed else ', not packed'}": "".join(
            attention(
                "attention_half",
                "attention_half_gradients",
                f"{element}, {mask}, {columns}",
                [(f"HALF_THREADS<{deep}>, {deep}", f", {deep}, {str(packed).lower()}") for deep in deeps],
            )
        )
        # The widest rows of which a warp has two matrices, and of which it has one; see `deep` in `attention.rs`.
        for element, mask, columns, deeps, packed in [
            ("bf16", "Unmasked", 3, (2, 2, 2), True),
            ("bf16", "Unmasked", 4, (2, 2, 1), True),
            ("bf16", "Unmasked", 4, (2, 2, 1), False),
            ("bf16", "Unmasked", 6, (2, 1, 1), True),
            ("f16", "Unmasked", 8, (2, 1, 1), True),
            ("f16", "Unmasked", 6, (2, 1, 1), False),
            ("f16", "Bool", 3, (2, 2, 2), True),
            ("bf16", "bf16", 4, (2, 2, 1), True),
            ("f16", "f32", 6, (2, 1, 1), True),
            ("f16", "f32", 8, (1, 1, 1), True),
        ]
    },
}

#: Files of the engine whose programs are compiled as they are. For each program: the dtypes of its elements and of what it computes in,
#: and what else stands for placeholders in its text.
ENGINE = {
    "conditional": [("f32", "f32")],
    "convolution": [("f16", "f32"), ("f32", "f32"), ("c128", "c128"), ("i64", "i64")],
    "counts": [("bf16", "f32")],
    "cusolver/pivots": [("f32", "f32")],
    "ctc": [("f32", "f32"), ("f64", "f64")],
    "distance": [("f32", "f32"), ("f64", "f64")],
    "fold": [("bf16", "f32"), ("f64", "f64")],
    "frexp": [("f16", "f32")],
    "indexed": [("f16", "f32", "Added")],
    "matmul": [("f16", "f32")],
    "mix": [("bf16", "f32"), ("f64", "f64")],
    "nll": [("bf16", "f32"), ("f64", "f64")],
    "nonzero": [("bf16", "f32")],
    "normalize": [("bf16", "f32")],
    "optimizer": [("f16", "f32", "sgd"), ("f16", "f32", "adam")],
    "pool": [("bf16", "f32"), ("i64", "i64")],
    "random": [("bf16", "f32", "Normal"), ("f64", "f64", "Uniform")],
    "ranges": [("bf16", "f32"), ("i64", "i64")],
    "recurrent": [("f16", "f32"), ("f64", "f64")],
    "rejection": [("f32", "f32", "StandardGamma"), ("bf16", "f32", "Poisson"), ("f64", "f64", "Binomial")],
    "search": [("f16", "f32"), ("i64", "i64")],
    "softmax": [
        (element, compute, title, call)
        for element, compute, title, calls in [
            ("bf16", "f32", "SoftmaxForward", ["kept<WARP, 8>(lines, n)", "columns(lines, n, inner)"]),
            ("f64", "f64", "SoftmaxBackward", ["kept<THREADS, 16>(lines, n)", "lines(lines, n)"]),
        ]
        for call in calls
    ],
    "taps": [("bf16", "f32"), ("f64", "f64")],
    "unique": [("bf16", "f32")],
}
#: The placeholders of a file that its rows fill, after the dtypes.
FILLED = {
    "indexed": ["name"],
    "optimizer": ["name"],
    "random": ["name"],
    "rejection": ["name"],
    "softmax": ["title", "call"],
}
#: What stands for the others.
OPEN = {
    "0": "u16",
    "index": "i32",
    "norm": "EuclidNorm",
    "name": "pool_mean",
    "operands": "input, output",
    "halves": "false",
    "place": "u32",
    "logarithm": "true",
}


def parameters_of(algorithm):
    """The parameters of an optimizer's kernel, and the values that it passes on."""
    [(parameters, values)] = re.findall(rf'"{algorithm}", "(.+?)", "(.+?)"', source("optimizer"))
    return {"parameters": parameters, "values": values}


def program(text, file, element, compute, *more):
    """The text of a program of these files without placeholders."""
    values = {
        **OPEN,
        "element": element,
        "compute": compute,
        **dict.fromkeys(("sum", "drawn", "chance"), compute),
        **dict(zip(FILLED.get(file, ()), more, strict=True)),
    }
    values |= {"to": compute, "first": element, "second": element}
    if file == "optimizer":
        values |= parameters_of(*more)
    return filled(text, **values)


SKELETONS.update(
    (" ".join([file, str(number), row[0], *row[2:]]), program(text, file, *row))
    for file, rows in ENGINE.items()
    for row in rows
    for number, text in enumerate(programs(file))
)

# With products of matrices by warps.
SKELETONS["convolution in half precision"] = SKELETONS["convolution 0 f16"].replace("false", "true")
assert SKELETONS["convolution in half precision"] != SKELETONS["convolution 0 f16"]


def version(nvrtc):
    major, minor = ctypes.c_int(), ctypes.c_int()
    assert nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)) == 0
    return f"{major.value}.{minor.value}"


def digest(text):
    """What decides the code of a program, besides the compiler: its text and the headers that it includes."""
    parts, waiting = [text], re.findall(r'#include "(\S+)"', text)
    seen = set(waiting)
    for name in waiting:
        parts.append((KERNELS / name).read_text())
        new = dict.fromkeys(re.findall(r'#include "(\S+)"', parts[-1])).keys() - seen
        waiting += sorted(new)
        seen |= new
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def compiled(nvrtc, text, options, architecture):
    """The log and the machine code of a program."""
    program = ctypes.c_void_p()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None) == 0
    options = [option.encode() for option in (*options, f"--gpu-architecture=sm_{architecture}")]
    try:
        status = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        log = text_of(nvrtc, program, "ProgramLog").decode()
        assert status == 0, log
        return log, text_of(nvrtc, program, "CUBIN")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def registers(nvrtc, skeleton):
    """For each kernel, the registers that it needs on each architecture. None of them is spilled, and threads have no copies of
    their parameters."""
    found = {}
    for architecture in ARCHITECTURES:
        options = ("--std=c++17", "--fmad=false", "--ptxas-options=-v", f"--include-path={KERNELS}")
        log, _ = compiled(nvrtc, SKELETONS[skeleton], options, architecture)
        entries = re.findall(
            r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores.*?Used (\d+) registers",
            log,
            re.DOTALL,
        )
        assert entries, log
        for name, stack, spilled, used in entries:
            assert int(spilled) == 0 and int(stack) < 256, (skeleton, architecture, name, log)
            found.setdefault(name, []).append(int(used))
    return found


def lines_of(skeleton, found):
    """The lines of a program in the record."""
    kernels = [f"  {name}: {' '.join(map(str, used))}" for name, used in sorted(found.items())]
    return [f"{skeleton} ({digest(SKELETONS.get(skeleton, EXPRESSIONS))})", *kernels]


def recorded():
    """The version of the compiler that made the record, and the lines of each program."""
    head, *parts = re.split(r"\n(?=\S)", RECORD.read_text().rstrip("\n"))
    programs = [part.split("\n") for part in parts]
    return head.split()[1].rstrip(","), {lines[0].rsplit(" (", 1)[0]: lines for lines in programs}


def known(nvrtc, skeleton):
    """The lines of a program in the record, if this compiler has compiled the same text."""
    compiler, programs = recorded()
    lines = programs.get(skeleton)
    return lines if lines and compiler == version(nvrtc) and lines[0] == lines_of(skeleton, {})[0] else None


@pytest.mark.parametrize("skeleton", SKELETONS)
def test_skeletons_compile(nvrtc, skeleton, thorough):
    """Kernels are compiled for cards without spilling registers, and without copies of their parameters in each thread's memory."""
    lines = known(nvrtc, skeleton)
    if lines and skeleton != FRESH and not thorough:
        return
    found = lines_of(skeleton, registers(nvrtc, skeleton))
    if recorded()[0] == version(nvrtc):
        assert found == lines, f"{RECORD} is old: python {__file__} writes it again"


def test_programs_of_every_file_are_compiled():
    """Besides these lists, some files have programs whose parts the engine puts together: `engine_programs.py` has a function for each."""
    files = {str(path.relative_to(KERNELS.parent).with_suffix("")) for path in KERNELS.parent.rglob("*.rs")}
    assert {file for file in files if programs(file)} == {
        *ENGINE,
        "attention",
        "cumulative",
        "elementwise",
        "order",
        "reduce",
    }


def test_no_other_programs_are_recorded():
    assert list(recorded()[1]) == ["expressions", *SKELETONS]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_device_functions_compile(nvrtc, architecture, thorough):
    """Every function of the generated header is in the machine code for a card. A new function need not be recorded."""
    if not thorough and (known(nvrtc, "expressions") or architecture != ARCHITECTURES[1]):
        return
    check_expressions(nvrtc, architecture)


def check_expressions(nvrtc, architecture):
    _, code = compiled(nvrtc, EXPRESSIONS, OPTIONS, architecture)
    names = re.findall(r"^DEVICE \w+ (\w+)\(", (KERNELS / "expressions.cuh").read_text(), re.MULTILINE)
    assert names
    # A name stands in the code behind its length, as C++ writes names for the linker.
    absent = [name for name in names if f"{len(name)}{name}".encode() not in code]
    assert not absent


def entry(skeleton):
    """The lines of a program for the record, compiled if they are not known."""
    nvrtc = load()
    if lines := known(nvrtc, skeleton):
        return lines
    if skeleton in SKELETONS:
        return lines_of(skeleton, registers(nvrtc, skeleton))
    for architecture in ARCHITECTURES:
        check_expressions(nvrtc, architecture)
    return lines_of(skeleton, {})


if __name__ == "__main__":
    names = ", ".join(f"sm_{architecture}" for architecture in ARCHITECTURES)
    # Compilations of one process would wait for each other.
    with concurrent.futures.ProcessPoolExecutor() as pool:
        entries = list(pool.map(entry, ["expressions", *SKELETONS]))
    head = f"NVRTC {version(load())}, registers of each kernel for {names}; none is spilled"
    RECORD.write_text("\n".join([head, *(line for entry in entries for line in entry)]) + "\n")
