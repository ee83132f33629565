"""The device functions compile for cards. NVRTC, the compiler, needs neither a card nor a driver: it is in the extra `dev`."""

import ctypes
import importlib.metadata
import os
import re
from pathlib import Path

import pytest

KERNELS = Path(__file__).parents[2] / "rust/cuda/src/kernels"
ARCHITECTURES = (80, 90, 100)
#: Functions that stay functions, so that each is in the result, and the least that the compiler can do to them.
OPTIONS = (
    "--std=c++17",
    "--fmad=false",
    "--relocatable-device-code=true",
    "--define-macro=DEVICE=__device__",
    "--Ofast-compile=max",
    f"--include-path={KERNELS}",
)


@pytest.fixture(scope="module")
def nvrtc():
    if "softcuda" in os.environ.get("LD_LIBRARY_PATH", ""):
        pytest.skip(
            "NVIDIA's NVRTC would take the place of that of the card made of software for the rest of the process"
        )
    try:
        files = importlib.metadata.files("nvidia-cuda-nvrtc") or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("nvidia-cuda-nvrtc is not installed")
    [library] = [file for file in files if re.fullmatch(r"libnvrtc\.so\.\d+", file.name)]
    return ctypes.CDLL(str(library.locate()))


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
        typedef Elementwise<Function, f32, f16, bf16, Bool> Loop;
        extern "C" __global__ void contiguous(Pointers<3> operands, Numbers numbers, u64 count, u32 aligned) {
            Loop::contiguous(operands, numbers, count, aligned);
        }
        extern "C" __global__ void strided(Pointers<3> operands, Numbers numbers, u64 count, Loops<3> loops) {
            Loop::strided<u32>(operands, numbers, count, loops);
        }
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
        typedef Reduction<Fold, c128, c64> Rows;
        extern "C" __global__ void rows(u8* out, const u8* input, Loops<2> outer, Loops<1> inner, u64 results, u64 length,
                                        u64 piece, Fold::A* partial, Numbers numbers) {
            Rows::rows(out, input, outer, inner, results, length, piece, partial, numbers);
        }
        extern "C" __global__ void pieces(u8* out, const Fold::A* partial, Loops<2> outer, u64 results, u64 count, u64 length,
                                          Numbers numbers) {
            Rows::pieces(out, partial, outer, results, count, length, numbers);
        }
    """,
    "matmul": """
        #include "matmul.cuh"
        using namespace rushlight;
        extern "C" __global__ void multiply(Matrices matrices, Loops<4> batch, u64 batches, Sizes sizes, u32 has_addend,
                                            Numbers numbers) {
            rushlight::multiply<f16, f32>(matrices, batch, batches, sizes, has_addend, numbers);
        }
    """,
    "batch_norm": """
        #include "batch_norm.cuh"
        using namespace rushlight;
        template <int LANES> using Norm = BatchNorm<f16, f32, u64, LANES>;
        extern "C" __global__ void normalise(Groups groups, f16* out, const f16* input, const f32* weight, const f32* bias,
                                             const f32* sums, const f32* squares, f32* means, f32* variances) {
            Norm<1>::normalise(groups, out, input, weight, bias, sums, squares, means, variances, true, f32(0.5));
        }
        extern "C" __global__ void whole(Groups groups, f16* out, const f16* input, const f32* weight, const f32* bias, f32* means,
                                         f32* variances) {
            Norm<32>::whole(groups, out, input, weight, bias, means, variances, true, f32(0.5));
        }
        extern "C" __global__ void gradient(Groups groups, f16* out, const f16* grad, const f16* input, const f32* means,
                                            const f32* variances, const f32* weight, f32* sums, f32* products, f32* to_weight,
                                            f32* to_bias) {
            Norm<32>::gradient_sums(groups, grad, input, means, variances, sums, products, true, f32(0.5));
            Norm<1>::gradient(groups, out, grad, input, means, variances, weight, sums, products, to_weight, to_bias, true,
                              f32(0.5));
        }
    """,
    "optimizer": """
        #include "optimizer.cuh"
        using namespace rushlight;
        extern "C" __global__ void step(f16* param, const f16* grad, f16* mean, f16* square, f16* largest, u64 count,
                                        Numbers numbers, u32 flags) {
            sgd<f16, f32>(param, grad, mean, count, numbers, flags);
            adam<f16, f32>(param, grad, mean, square, largest, count, numbers, flags);
        }
    """,
}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("skeleton", SKELETONS)
def test_skeletons_compile(nvrtc, skeleton, architecture):
    """Kernels are compiled for cards without spilling registers."""
    program = ctypes.c_void_p()
    assert (
        nvrtc.nvrtcCreateProgram(ctypes.byref(program), SKELETONS[skeleton].encode(), b"kernel.cu", 0, None, None) == 0
    )
    texts = ("--std=c++17", "--fmad=false", "--ptxas-options=-v", f"--include-path={KERNELS}")
    options = [option.encode() for option in (*texts, f"--gpu-architecture=sm_{architecture}")]
    try:
        status = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        log = text_of(nvrtc, program, "ProgramLog").decode()
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    assert status == 0, log
    spilled = re.findall(r"(\d+) bytes spill stores", log)
    assert spilled and set(spilled) == {"0"}, log


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_device_functions_compile(nvrtc, architecture):
    """Every function of the generated header is in the machine code for a card."""
    program = ctypes.c_void_p()
    source = b'#include "expressions.cuh"\n'
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"all.cu", 0, None, None) == 0
    options = [option.encode() for option in (*OPTIONS, f"--gpu-architecture=sm_{architecture}")]
    try:
        status = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        assert status == 0, text_of(nvrtc, program, "ProgramLog").decode()
        code = text_of(nvrtc, program, "CUBIN")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    names = re.findall(r"^DEVICE \w+ (\w+)\(", (KERNELS / "expressions.cuh").read_text(), re.MULTILINE)
    assert names
    # A name stands in the code behind its length, as C++ writes names for the linker.
    absent = [name for name in names if f"{len(name)}{name}".encode() not in code]
    assert not absent
