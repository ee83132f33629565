"""The card made of software finds planted mistakes: of kernels, of memory, of streams and of graphs. Without one it is silent."""

import subprocess
import sys
import textwrap

import pytest
from soft_card import environment, needs_soft_card

pytestmark = needs_soft_card

#: Short names for the driver. `status` shows the first status that is not 0, or `fine`.
PROGRAM = """
import ctypes
cuda, nvrtc = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnvrtc.so.13")
P, N = ctypes.c_void_p, ctypes.c_size_t
COUNT = 1024

class Fault(Exception):
    pass

def ok(status):
    if status:
        raise Fault(status)

def new(function, *arguments):
    made = P()
    ok(function(ctypes.byref(made), *arguments))
    return made

def memory(bytes=4 * COUNT):
    return new(cuda.cuMemAlloc_v2, N(bytes))

def pinned(bytes=4 * COUNT):
    return new(cuda.cuMemHostAlloc, N(bytes), 1)

def stream():
    return new(cuda.cuStreamCreateWithPriority, 1, 0)

def event():
    return new(cuda.cuEventCreate, 0)

def kernel(body, parameters="int* out"):
    source = 'extern "C" __global__ void kernel(' + parameters + ') {' + body + '}'
    program, size = new(nvrtc.nvrtcCreateProgram, source.encode(), b"k.cu", 0, None, None), N()
    ok(nvrtc.nvrtcCompileProgram(program, 0, None))
    ok(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)))
    image = ctypes.create_string_buffer(size.value)
    ok(nvrtc.nvrtcGetCUBIN(program, image))
    return new(cuda.cuModuleGetFunction, new(cuda.cuModuleLoadData, image), b"kernel")

def launch(function, *pointers, on=None, threads=256, blocks=4):
    values = [P(pointer.value) for pointer in pointers]
    arguments = (P * len(values))(*map(ctypes.addressof, values))
    ok(cuda.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, on, arguments, None))

def fill(pointer, byte=0, on=None, bytes=4 * COUNT):
    ok(cuda.cuMemsetD8Async(pointer, byte, N(bytes), on))

def wait(on=None):
    ok(cuda.cuStreamSynchronize(on))

def read(pointer, on=None):
    out = (ctypes.c_int * COUNT)()
    ok(cuda.cuMemcpyDtoHAsync_v2(out, pointer, N(4 * COUNT), on))
    return list(out)

def free(pointer):
    ok(cuda.cuMemFree_v2(pointer))

ok(cuda.cuInit(0))
ok(cuda.cuCtxSetCurrent(new(cuda.cuDevicePrimaryCtxRetain, 0)))
"""

ILLEGAL, ASSERTED, MISALIGNED, FAILED, INVALID, HANDLE = 700, 710, 716, 719, 1, 400

#: Mistakes that a status reports, with the words that the card writes, if any.
REPORTED = {
    "write outside of memory": (
        "x = memory(); launch(kernel('out[threadIdx.x + 100000] = 1;'), x); wait()",
        ILLEGAL,
        "illegal access",
    ),
    "read outside of memory": (
        "x = memory(); launch(kernel('out[0] = ((volatile int*)out)[threadIdx.x + 100000];'), x); wait()",
        ILLEGAL,
        "illegal access",
    ),
    "write before memory": (
        "x = memory(4096); launch(kernel('out[-1024 * 1024 + int(threadIdx.x)] = 1;'), x); wait()",
        ILLEGAL,
        "illegal access",
    ),
    "write through null": (
        "x = memory(); launch(kernel('((volatile int*)0)[threadIdx.x] = 1;'), x); wait()",
        ILLEGAL,
        "illegal access",
    ),
    "write behind the end": (
        "x = memory(4); launch(kernel('if (threadIdx.x == 0) out[1] = 1;'), x); wait(); free(x); wait()",
        ILLEGAL,
        "behind the end",
    ),
    "write after free": (
        "x = memory(); k = kernel('out[threadIdx.x] = 1;'); free(x); launch(k, x); wait()",
        ILLEGAL,
        "illegal access",
    ),
    "read after free": (
        "x, y = memory(), memory(); k = kernel('out[threadIdx.x] = in[threadIdx.x];', 'int* out, const int* in'); free(y); "
        "launch(k, x, y); wait()",
        ILLEGAL,
        "illegal access",
    ),
    "index outside of shared memory": (
        "x = memory(); launch(kernel('__shared__ int all[256]; all[threadIdx.x + 1] = 1; __syncthreads(); out[threadIdx.x] = all[0];'), x); "
        "wait()",
        ILLEGAL,
        "illegal index 256 of an array",
    ),
    "negative index of shared memory": (
        "x = memory(); launch(kernel('__shared__ int all[256]; out[threadIdx.x] = all[int(threadIdx.x) - 1];'), x); wait()",
        ILLEGAL,
        "illegal index -1 of an array",
    ),
    "misaligned read": (
        "x = memory(); launch(kernel('out[threadIdx.x] = ((int*)((char*)out + 2))[threadIdx.x];'), x); wait()",
        MISALIGNED,
        "misaligned access",
    ),
    "misaligned write of a wide value": (
        "x = memory(); launch(kernel('*(double*)(out + 1) = 1;'), x); wait()",
        MISALIGNED,
        "misaligned access",
    ),
    "divergent barrier": (
        "x = memory(); launch(kernel('if (threadIdx.x < 100) __syncthreads();'), x); wait()",
        FAILED,
        "wait for ever",
    ),
    "divergent shuffle": (
        "x = memory(); launch(kernel('if (threadIdx.x % 2) __shfl_sync(~0u, 1, 0);'), x); wait()",
        FAILED,
        "wait for ever",
    ),
    "lane outside of its mask": (
        "x = memory(); launch(kernel('__shfl_sync(1u, 1, 0);'), x); wait()",
        FAILED,
        "not in its own mask",
    ),
    "failed assertion": (
        'x = memory(); launch(kernel(\'__assertfail("x is 1", "k.cu", 7, "kernel", 1);\'), x); wait()',
        ASSERTED,
        "assertion: x is 1",
    ),
    "too many threads": ("x = memory(); launch(kernel('out[0] = 1;'), x, threads=2048)", INVALID, ""),
    "double free": ("x = memory(); free(x); free(x)", INVALID, ""),
    "free of the wrong kind": ("free(pinned())", INVALID, ""),
    "copy behind the end": ("x = memory(16); read(x)", INVALID, ""),
    "copy into freed memory": (
        "x, y = memory(), memory(); free(y); ok(cuda.cuMemcpyDtoDAsync_v2(y, x, N(4096), None))",
        INVALID,
        "",
    ),
    "stream that does not exist": ("wait(P(12345 * 16))", HANDLE, ""),
    "event of another device": (
        "e = event(); ok(cuda.cuCtxSetCurrent(new(cuda.cuDevicePrimaryCtxRetain, 1))); ok(cuda.cuEventRecord(e, None))",
        HANDLE,
        "",
    ),
    "stream of another device": (
        "s = stream(); ok(cuda.cuCtxSetCurrent(new(cuda.cuDevicePrimaryCtxRetain, 1))); wait(s)",
        HANDLE,
        "",
    ),
    "wait during a capture": ("s = stream(); ok(cuda.cuStreamBeginCapture_v2(s, 0)); wait(s)", 900, ""),
    "allocation during a capture": ("s = stream(); ok(cuda.cuStreamBeginCapture_v2(s, 0)); memory()", 900, ""),
    "work of a capture that nothing waits for": (
        "s, t, e, x = stream(), stream(), event(), memory(); ok(cuda.cuStreamBeginCapture_v2(s, 0)); ok(cuda.cuEventRecord(e, s)); "
        "ok(cuda.cuStreamWaitEvent(t, e, 0)); fill(x, on=t); "
        "ok(cuda.cuStreamEndCapture(s, ctypes.byref(P())))",
        904,
        "",
    ),
}

SUM = """
__shared__ int all[256];
all[threadIdx.x] = threadIdx.x;
for (int half = 128; half > 0; half /= 2) { BARRIER if (threadIdx.x < half) all[threadIdx.x] += all[threadIdx.x + half]; }
__syncthreads();
out[blockIdx.x * 256 + threadIdx.x] = all[0];
"""
ADD = "out[blockIdx.x * 256 + threadIdx.x] += 1;"
COPY = "const int n = blockIdx.x * 256 + threadIdx.x; out[n] = in[n];"

#: Mistakes that give wrong numbers: a program with and without the part that it forgets, and the right numbers.
SILENT = {
    "missing barrier": (
        "x = memory(); launch(kernel(SUM.replace('BARRIER', PART)), x); shown = read(x)",
        "'__syncthreads();'",
        "''",
        255 * 128,
    ),
    "missing wait between streams": (
        "s, x, y, e = stream(), memory(), memory(), event(); fill(x, 0); fill(y, 0); wait(); launch(kernel(ADD), x, on=s)\n"
        "PART\nlaunch(kernel(COPY, 'int* out, const int* in'), y, x); shown = read(y)",
        "ok(cuda.cuEventRecord(e, s)); ok(cuda.cuStreamWaitEvent(None, e, 0))",
        "pass",
        1,
    ),
    "memory used again before another stream has finished": (
        "s, x, y, e = stream(), memory(), memory(), event(); fill(x, 1); fill(y, 0); wait()\n"
        "launch(kernel(COPY, 'int* out, const int* in'), y, x, on=s)\nPART\nfill(x, 9); wait(); wait(s); shown = read(y)",
        "ok(cuda.cuEventRecord(e, s)); ok(cuda.cuStreamWaitEvent(None, e, 0))",
        "pass",
        0x01010101,
    ),
    "host reads before the copy has run": (
        "h, x = pinned(), memory(); ctypes.memset(h, 7, 4096); fill(x, 1); ok(cuda.cuMemcpyDtoHAsync_v2(h, x, N(4096), None))\n"
        "PART\nshown = list((ctypes.c_int * COUNT).from_address(h.value))",
        "wait()",
        "pass",
        0x01010101,
    ),
    "host writes before the copy has run": (
        "h, x = pinned(), memory(); ctypes.memset(h, 1, 4096); ok(cuda.cuMemcpyHtoDAsync_v2(x, h, N(4096), None))\n"
        "PART\nctypes.memset(h, 7, 4096); shown = read(x)",
        "wait()",
        "pass",
        0x01010101,
    ),
    "memory that nothing has written": (
        "x = memory()\nPART\nlaunch(kernel(ADD), x); shown = read(x)",
        "fill(x, 0)",
        "pass",
        1,
    ),
}


def run(program, seed=0, **variables):
    names = f"SUM, ADD, COPY = {SUM!r}, {ADD!r}, {COPY!r}\n"
    text = (
        PROGRAM
        + names
        + "try:\n"
        + textwrap.indent(program, "    ")
        + "\nexcept Fault as fault:\n    print('fault', fault.args[0])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", text],
        env=environment(SOFTCUDA_SEED=seed, SOFTCUDA_DEVICES=2, **variables),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize("name", REPORTED)
def test_a_mistake_is_reported(name):
    program, status, words = REPORTED[name]
    shown, told = run(program)
    assert shown == f"fault {status}" and words in told


@pytest.mark.parametrize("name", SILENT)
def test_a_mistake_changes_the_numbers(name):
    program, right, wrong, number = SILENT[name]
    seeds = (0, 1, 2, 3, 4)
    answer = f"\nprint(set(shown) == {{{number}}})"
    assert [run(program.replace("PART", right) + answer, seed)[0] for seed in seeds[:3]] == ["True"] * 3
    assert "False" in [run(program.replace("PART", wrong) + answer, seed)[0] for seed in seeds]
