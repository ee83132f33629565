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

KERNELS = Path(__file__).parents[2] / "rust/cuda/src/kernels"
RECORD = Path(__file__).parents[1] / "data/registers.txt"
ARCHITECTURES = (80, 90, 100)
#: Compiled in every run, so that the compiler is called.
FRESH = "elementwise"
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


#: A kernel of each skeleton, as the engine writes them.
SKELETONS = {
    "elementwise": """
        #include "elementwise.cuh"
        #include "prelude.cuh"
        using namespace rushlight;
        struct Function {
            static DEVICE auto value(const Numbers& numbers, f32 x0, f32 x1) { return x0 * x1 + number<f32>(numbers, 0); }
        };
        typedef Elementwise<Function, f32, 8, 2, f16, bf16, Bool> Packs;
        extern "C" __global__ void flat(Pointers<3> operands, Numbers numbers, u64 count) {
            Packs::flat(operands, numbers, count);
        }
        extern "C" __global__ void packed(Pointers<3> operands, Numbers numbers, u64 count, Loops<3> loops) {
            Packs::nested<u32>(operands, numbers, count, loops);
        }
        extern "C" __global__ void strided(Pointers<3> operands, Numbers numbers, u64 count, Loops<3> loops) {
            Elementwise<Function, f32, 1, 4, f16, bf16, Bool>::nested<u64>(operands, numbers, count, loops);
        }
        struct Add {
            static DEVICE auto value(const Numbers& numbers, f32 x0, f32 x1) { return x0 + number<f32>(numbers, 0) * x1; }
        };
        extern "C" __global__ void add(Pointers<3> operands, Numbers numbers, u64 count) {
            Elementwise<Add, f32, 4, 2, f32, f32, f32>::flat(operands, numbers, count);
        }
    """,
    "transpose": """
        #include "elementwise.cuh"
        using namespace rushlight;
        struct Copy {
            static DEVICE auto value(const Numbers& numbers, u128 x0) { return x0; }
        };
        struct Cast {
            static DEVICE auto value(const Numbers& numbers, f32 x0) { return x0; }
        };
        extern "C" __global__ void copy(Pointers<2> operands, Numbers numbers, u64 squares, Loops<2> loops) {
            transpose<Copy, u128, u128, u128, u64>(operands, numbers, squares, loops);
        }
        extern "C" __global__ void cast(Pointers<2> operands, Numbers numbers, u64 squares, Loops<2> loops) {
            transpose<Cast, f32, f32, bf16, u32>(operands, numbers, squares, loops);
        }
    """,
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
    "reduce": """
        #include "reduce.cuh"
        using namespace rushlight;
        struct Fold {
            typedef c128 T;
            typedef c128 A;
            static DEVICE A start() { return A(); }
            static DEVICE A take(A a, T x, const Numbers& numbers) { return a + x; }
            static DEVICE A join(A a, A b) { return a + b; }
            static DEVICE auto done(A a, u64 n, const Numbers& numbers) { return a; }
        };
        typedef Reduction<Fold, c128, c64, true> Rows;
        extern "C" __global__ void rows(u8* out, const u8* input, const __grid_constant__ Loops<2> outer, const __grid_constant__ Loops<1> inner, u64 units, u64 length,
                                        u64 piece, u32 packed, u32 lane_bits, Fold::A* partial, const __grid_constant__ Numbers numbers) {
            Rows::rows<THREADS>(out, input, outer, inner, units, length, piece, packed, partial, numbers);
        }
        extern "C" __global__ void warps(u8* out, const u8* input, const __grid_constant__ Loops<2> outer, const __grid_constant__ Loops<1> inner, u64 units, u64 length,
                                        u64 piece, u32 packed, u32 lane_bits, Fold::A* partial, const __grid_constant__ Numbers numbers) {
            Rows::rows<WARP>(out, input, outer, inner, units, length, piece, packed, partial, numbers);
        }
        extern "C" __global__ void columns(u8* out, const u8* input, const __grid_constant__ Loops<2> outer, const __grid_constant__ Loops<1> inner, u64 units, u64 length,
                                        u64 piece, u32 packed, u32 lane_bits, Fold::A* partial, const __grid_constant__ Numbers numbers) {
            Rows::columns(out, input, outer, inner, units, length, piece, packed, lane_bits, partial, numbers);
        }
        extern "C" __global__ void pieces(u8* out, const Fold::A* partial, const __grid_constant__ Loops<2> outer, u64 results, u64 count, u64 length,
                                          const __grid_constant__ Numbers numbers) {
            Rows::pieces(out, partial, outer, results, count, length, numbers);
        }
    """,
    **{
        f"lines of {what}": f"""
        #include "cumulative.cuh"
        using namespace rushlight;
        typedef {what} What;
        typedef rushlight::Lines<What, {bits}, {each}, {along}, {along}> Rows;
        extern "C" __global__ void __launch_bounds__(THREADS, {4 if along == "true" else 2 if "c128" in what else 3}) results(LineOperands operands, LineShape shape, const What::A* before) {{
            Rows::run(operands, shape, before, nullptr);
        }}
        extern "C" __global__ void __launch_bounds__(THREADS, {4 if along == "true" else 2 if "c128" in what else 3}) totals(LineOperands operands, LineShape shape, What::A* totals) {{
            Rows::run(operands, shape, nullptr, totals);
        }}
        extern "C" __global__ void __launch_bounds__(THREADS) joined(LineOperands operands, LineShape shape) {{
            rushlight::Lines<Joined<What, {each}>, {bits}, {each}, true, false>::run(operands, shape, nullptr, nullptr);
        }}
    """
        for what, bits, each, along in [
            ("CumulativeSum<f32, f32, f64, f32>", 3, "true", "true"),
            ("CumulativeProduct<u8, u8, u8, u8>", 3, "true", "false"),
            ("CumulativeLogSum<f64, f64, f64, f64>", 3, "true", "false"),
            ("Best<bf16, f32, true, false>", 2, "true", "true"),
            ("Best<i64, i64, false, true>", 2, "false", "true"),
            ("Recurrence<c128, c128>", 1, "true", "false"),
        ]
    },
    **{
        f"sort of {element}": f"""
        #include "order.cuh"
        using namespace rushlight;
        extern "C" __global__ void whole(const u8* source, i64* places, u64 lines, u64 n, u32 bits, u32 descending) {{
            sort_lines<{key}, {element}>(source, places, lines, n, bits, descending);
        }}
        extern "C" __global__ void count(Digits<{key}, {index}> digits) {{ digits.count_tiles<{element}>(); }}
        extern "C" __global__ void __launch_bounds__(THREADS, 2) move(Digits<{key}, {index}> digits) {{
            digits.move_tiles<{element}>();
        }}
        extern "C" __global__ void take(const u8* source, const i64* places, u8* to, u64 count, u64 n) {{
            rushlight::take<{key}>(source, places, to, count, n);
        }}
    """
        for element, key, index in [
            ("f32", "u32", "u32"),
            ("Bool", "u32", "i64"),
            ("f64", "u64", "u32"),
            ("i64", "u64", "i64"),
        ]
    },
    "attention": """
        #include "attention.cuh"
        using namespace rushlight;
        extern "C" __global__ void forward(AttentionOperands operands, Loops<5> batch, u64 batches, AttentionSizes sizes, u8* out,
                                           f32* sums) {
            attention<f16, Bool, 8>(operands, batch, batches, sizes, out, sums);
        }
        extern "C" __global__ void of_queries(AttentionOperands operands, Loops<5> batch, u64 batches, AttentionSizes sizes,
                                              const f32* sums, const f32* means, u8* out) {
            attention_of_queries<bf16, f32, 8>(operands, batch, batches, sizes, sums, means, out);
        }
        extern "C" __global__ void of_keys(AttentionOperands operands, Loops<5> batch, u64 batches, AttentionSizes sizes,
                                           const f32* sums, const f32* means, u8* of_keys, u8* of_values) {
            attention_of_keys<f32, Unmasked, 8>(operands, batch, batches, sizes, sums, means, of_keys, of_values);
        }
    """,
    **{
        f"attention of {element} and {mask} with {columns} columns{'' if packed else ', not packed'}": f"""
        #include "attention_half.cuh"
        #include "attention_half_gradients.cuh"
        using namespace rushlight;
        extern "C" __global__ void __launch_bounds__(HALF_THREADS<{deep}>, {deep}) forward(
            AttentionOperands operands, Loops<5> batch, u64 batches, AttentionSizes sizes, u8* out, f32* sums) {{
            attention_half<{element}, {mask}, {columns}, {deep}, {str(packed).lower()}>(operands, batch, batches, sizes, out, sums);
        }}
        extern "C" __global__ void __launch_bounds__(HALF_THREADS<{queries}>, {queries}) of_queries(
            AttentionOperands operands, Loops<5> batch, u64 batches, AttentionSizes sizes, const f32* sums, const f32* means, u8* out) {{
            attention_half_of_queries<{element}, {mask}, {columns}, {queries}, {str(packed).lower()}>(
                operands, batch, batches, sizes, sums, means, out);
        }}
        extern "C" __global__ void __launch_bounds__(HALF_THREADS<{keys}>, {keys}) of_keys(
            AttentionOperands operands, Loops<5> batch, u64 batches, AttentionSizes sizes, const f32* sums, const f32* means,
            u8* of_keys, u8* of_values) {{
            attention_half_of_keys<{element}, {mask}, {columns}, {keys}, {str(packed).lower()}>(
                operands, batch, batches, sizes, sums, means, of_keys, of_values);
        }}
    """
        # The widest rows of which a warp has two matrices, and of which it has one; see `deep` in `attention.rs`.
        for element, mask, columns, deep, queries, keys, packed in [
            ("bf16", "Unmasked", 3, 2, 2, 2, True),
            ("bf16", "Unmasked", 4, 2, 2, 1, True),
            ("bf16", "Unmasked", 4, 2, 2, 1, False),
            ("bf16", "Unmasked", 6, 2, 1, 1, True),
            ("f16", "Unmasked", 8, 2, 1, 1, True),
            ("f16", "Unmasked", 6, 2, 1, 1, False),
            ("f16", "Bool", 3, 2, 2, 2, True),
            ("bf16", "bf16", 4, 2, 2, 1, True),
            ("f16", "f32", 6, 2, 1, 1, True),
            ("f16", "f32", 8, 1, 1, 1, True),
        ]
    },
}

#: Files of the engine whose programs are compiled as they are. For each program: the dtypes of its elements and of what it computes in,
#: and what else stands for placeholders in its text.
ENGINE = {
    "conditional": [("f32", "f32")],
    "convolution": [("f16", "f32"), ("f32", "f32"), ("c128", "c128"), ("i64", "i64")],
    "counts": [("bf16", "f32")],
    "ctc": [("f32", "f32"), ("f64", "f64")],
    "distance": [("f32", "f32"), ("f64", "f64")],
    "fold": [("bf16", "f32"), ("f64", "f64")],
    "frexp": [("f16", "f32")],
    "matmul": [("f16", "f32")],
    "mix": [("bf16", "f32"), ("f64", "f64")],
    "nll": [("bf16", "f32"), ("f64", "f64")],
    "nonzero": [("bf16", "f32")],
    "normalize": [("bf16", "f32")],
    "optimizer": [("f16", "f32", "sgd"), ("f16", "f32", "adam")],
    "pool": [("bf16", "f32"), ("i64", "i64")],
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
FILLED = {"optimizer": ["name"], "rejection": ["name"], "softmax": ["title", "call"]}
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


def programs(file):
    """The texts of the programs in a file of the engine, with placeholders."""
    source = (KERNELS.parent / f"{file}.rs").read_text()
    texts = re.findall(r'r#"(.*?)"#', source, re.DOTALL)
    if file == "normalize":
        # A head, and a kernel for each of these calls.
        head, kernel = texts
        calls = re.findall(r'\(c"(\w+)", "(.+)"\),', source)
        return [head + "".join(kernel.replace("{name}", name).replace("{call}", call) for name, call in calls)]
    return [text for text in texts if text.startswith("#include")]


def parameters_of(algorithm):
    """The parameters of an optimizer's kernel, and the values that it passes on."""
    source = (KERNELS.parent / "optimizer.rs").read_text()
    [(parameters, values)] = re.findall(rf'"{algorithm}", "(.+?)", "(.+?)"', source)
    return {"parameters": parameters, "values": values}


def filled(text, file, element, compute, *more):
    """The text of a program without placeholders."""
    values = {
        **OPEN,
        "element": element,
        "compute": compute,
        "sum": compute,
        **dict(zip(FILLED.get(file, ()), more, strict=True)),
    }
    values |= {"to": compute, "first": element, "second": element}
    if file == "optimizer":
        values |= parameters_of(*more)
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text.replace("{{", "{").replace("}}", "}")


SKELETONS.update(
    (" ".join([file, str(number), row[0], *row[2:]]), filled(text, file, *row))
    for file, rows in ENGINE.items()
    for row in rows
    for number, text in enumerate(programs(file))
)

# With products of matrices by warps.
SKELETONS["convolution in half precision"] = SKELETONS["convolution 0 f16"].replace("false", "true")
assert SKELETONS["convolution in half precision"] != SKELETONS["convolution 0 f16"]

# With packs of eight elements, and with rows that are loops over loops.
SKELETONS["reduce of packs"] = (
    SKELETONS["reduce"].replace("c128, c64", "f32, bf16").replace("c128", "f32").replace("A()", "0")
)
SKELETONS["reduce of loops"] = SKELETONS["reduce of packs"].replace("bf16, true", "f32, false")


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
