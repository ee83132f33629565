"""Kernels without mistakes have a card's results on the card made of software; `test_faults.py` plants mistakes."""

import subprocess
import sys
import textwrap

import pytest
from soft_card import environment, needs_soft_card

pytestmark = needs_soft_card

#: Loads the driver, compiles a kernel and launches it once.
PROGRAM = """
import ctypes, sys
cuda, nvrtc = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnvrtc.so.13")
P, N = ctypes.c_void_p, ctypes.c_size_t

def ok(status):
    assert status == 0, status

ok(cuda.cuInit(0))
context, program, module, function, memory = (P() for _ in range(5))
ok(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
ok(cuda.cuCtxSetCurrent(context))
ok(nvrtc.nvrtcCreateProgram(ctypes.byref(program), SOURCE.encode(), b"kernel.cu", 0, None, None))
assert nvrtc.nvrtcCompileProgram(program, 0, None) == 0
size = N()
ok(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)))
image = ctypes.create_string_buffer(size.value)
ok(nvrtc.nvrtcGetCUBIN(program, image))
ok(cuda.cuModuleLoadData(ctypes.byref(module), image))
ok(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"kernel"))
count = 1024
ok(cuda.cuMemAlloc_v2(ctypes.byref(memory), N(4 * count)))
ok(cuda.cuMemsetD8Async(memory, 0, N(4 * count), None))
argument = P(memory.value)
arguments = (P * 1)(ctypes.addressof(argument))
ok(cuda.cuLaunchKernel(function, count // 256, 1, 1, 256, 1, 1, 0, None, arguments, None))
status = cuda.cuCtxSynchronize()
out = (ctypes.c_int * count)()
if status == 0:
    ok(cuda.cuMemcpyDtoHAsync_v2(out, memory, N(4 * count), None))
print(status, sum(out))
"""

#: Each thread of a block adds the numbers of all.
SUM = """
extern "C" __global__ void kernel(int* out) {
    __shared__ int all[256];
    all[threadIdx.x] = threadIdx.x;
    for (int half = 128; half > 0; half /= 2) {
        BARRIER;
        if (threadIdx.x < half) all[threadIdx.x] += all[threadIdx.x + half];
    }
    __syncthreads();
    out[blockIdx.x * 256 + threadIdx.x] = all[0];
}
"""

#: The same, in warps.
SHUFFLE = """
extern "C" __global__ void kernel(int* out) {
    int sum = threadIdx.x % 32;
    for (int by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(~0u, sum, by);
    int votes = __popc(__ballot_sync(~0u, sum == 496));
    out[blockIdx.x * 256 + threadIdx.x] = votes == 32 ? sum : -1;
}
"""


def launch(source, seed):
    """The status of a kernel, and the sum of its 1024 results."""
    program = f"SOURCE = {source!r}\n" + textwrap.dedent(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(SOFTCUDA_SEED=seed),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    status, total = done.stdout.split()
    return int(status), int(total)


@pytest.mark.parametrize("seed", [0, 1, 5])
def test_right_kernels_give_right_results(seed):
    assert launch(SUM.replace("BARRIER", "__syncthreads()"), seed) == (0, 1024 * 255 * 128)


def test_shuffles_and_votes():
    assert [launch(SHUFFLE, seed) for seed in (0, 3)] == [(0, 1024 * 496)] * 2


def test_nvidias_compiler_runs_beside_the_drivers_stand_in():
    """NVRTC asks the driver for tables of functions that have no name."""
    program = """
import ctypes, importlib.metadata, re
try:
    files = importlib.metadata.files("nvidia-cuda-nvrtc") or []
except importlib.metadata.PackageNotFoundError:
    raise SystemExit(print("absent"))
[path] = [str(one.locate()) for one in files if re.fullmatch(r"libnvrtc\\.so\\.\\d+", one.name)]
nvrtc, program = ctypes.CDLL(path), ctypes.c_void_p()
source = b'extern "C" __global__ void kernel(int* out) { *out = 1; }'
assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"kernel.cu", 0, None, None) == 0
print(nvrtc.nvrtcCompileProgram(program, 1, (ctypes.c_char_p * 1)(b"--gpu-architecture=sm_90")))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, timeout=120, check=False
    )
    if done.stdout == "absent\n":
        pytest.skip("nvidia-cuda-nvrtc is not installed")
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
