"""The card made of software finds planted mistakes: of kernels, of memory, of streams and of graphs. Without one it is silent."""

import json
import subprocess
import sys

import pytest
from soft_card import environment, needs_soft_card

pytestmark = needs_soft_card

#: Short names for the driver, and `KERNELS`, which are compiled once. Each program runs in a forked child, which begins
#: the driver with its seed and shows the first status that is not 0, or what it prints.
PROGRAM = """
import ctypes, json, os, signal, sys, tempfile
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

def compiled(source):
    program, size = new(nvrtc.nvrtcCreateProgram, source.encode(), b"k.cu", 0, None, None), N()
    ok(nvrtc.nvrtcCompileProgram(program, 0, None))
    ok(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)))
    image = ctypes.create_string_buffer(size.value)
    ok(nvrtc.nvrtcGetCUBIN(program, image))
    return image

def launch(name, *pointers, on=None, threads=256, blocks=4):
    function = new(cuda.cuModuleGetFunction, new(cuda.cuModuleLoadData, IMAGE), name.encode())
    values = [P(pointer.value) for pointer in (*pointers, P())[:2]]
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

def in_child(program, seed, shown, errors):
    signal.alarm(60)
    os.environ["SOFTCUDA_SEED"] = str(seed)
    os.dup2(shown.fileno(), 1)
    os.dup2(errors.fileno(), 2)
    try:
        ok(cuda.cuInit(0))
        ok(cuda.cuCtxSetCurrent(new(cuda.cuDevicePrimaryCtxRetain, 0)))
        exec(program, globals())
    except Fault as fault:
        print("fault", fault.args[0])
    sys.stdout.flush()

source, runs = json.load(sys.stdin)
IMAGE, answers = compiled(source), []
for program, seed in runs:
    with tempfile.TemporaryFile("w+") as shown, tempfile.TemporaryFile("w+") as errors:
        if (child := os.fork()) == 0:
            try:
                in_child(program, seed, shown, errors)
            finally:
                os._exit(sys.exc_info()[0] is not None)
        ended = os.waitpid(child, 0)[1]
        answers.append([file.seek(0) or file.read().strip() for file in (shown, errors)] + [ended])
print(json.dumps(answers))
"""

SUM = """
    __shared__ int all[256];
    all[threadIdx.x] = threadIdx.x;
    for (int half = 128; half > 0; half /= 2) {
        BARRIER
        if (threadIdx.x < half) all[threadIdx.x] += all[threadIdx.x + half];
    }
    __syncthreads();
    out[blockIdx.x * 256 + threadIdx.x] = all[0];
"""

#: Copies to shared memory that run by themselves: of `in`, of another part of it, and of zeros over both.
COPIES = """
    alignas(16) __shared__ int tile[1024];
    int* const own = tile + 4 * (threadIdx.x % 128);
    __pipeline_memcpy_async(own, in + 4 * (threadIdx.x % 128), 16);
    __pipeline_commit();
    __pipeline_memcpy_async(own + 512, in + 4 * threadIdx.x, 16);
    __pipeline_commit();
    WAIT
    BARRIER
    const int found = tile[1023 - (blockIdx.x * 256 + threadIdx.x)];
    AGAIN
    __pipeline_memcpy_async(own, in, 16, 16);
    __pipeline_memcpy_async(own + 512, in, 16, 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[blockIdx.x * 256 + threadIdx.x] = found + tile[threadIdx.x];
"""


def copies(wait="__pipeline_wait_prior(0);", barrier="__syncthreads();", again="__syncthreads();"):
    return COPIES.replace("WAIT", wait).replace("BARRIER", barrier).replace("AGAIN", again)


#: Kernels, most of them with a mistake. They write to `out`, and may read `in`.
KERNELS = {
    "write_outside": "out[threadIdx.x + 100000] = 1;",
    "read_outside": "out[0] = ((volatile int*)out)[threadIdx.x + 100000];",
    "write_before": "out[-1024 * 1024 + int(threadIdx.x)] = 1;",
    "write_through_null": "((volatile int*)0)[threadIdx.x] = 1;",
    "write_behind": "if (threadIdx.x == 0) out[1] = 1;",
    "write": "out[threadIdx.x] = 1;",
    "copy": "const int n = blockIdx.x * 256 + threadIdx.x; out[n] = in[n];",
    "add": "out[blockIdx.x * 256 + threadIdx.x] += 1;",
    "outside_of_shared": "__shared__ int all[256]; all[threadIdx.x + 1] = 1; __syncthreads(); out[threadIdx.x] = all[0];",
    "before_shared": "__shared__ int all[256]; out[threadIdx.x] = all[int(threadIdx.x) - 1];",
    "misaligned_read": "out[threadIdx.x] = ((int*)((char*)out + 2))[threadIdx.x];",
    "misaligned_write": "*(double*)(out + 1) = 1;",
    "divergent_barrier": "if (threadIdx.x < 100) __syncthreads();",
    "divergent_shuffle": "if (threadIdx.x % 2) __shfl_sync(~0u, 1, 0);",
    "outside_of_mask": "__shfl_sync(1u, 1, 0);",
    "fails": '__assertfail("x is 1", "k.cu", 7, "kernel", 1);',
    "votes": """
        int sum = threadIdx.x % 32;
        for (int by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(~0u, sum, by);
        const int votes = __popc(__ballot_sync(~0u, sum == 496));
        out[blockIdx.x * 256 + threadIdx.x] = votes == 32 ? sum : -1;
    """,
    "sum": SUM.replace("BARRIER", "__syncthreads();"),
    "sum_without_barrier": SUM.replace("BARRIER", ""),
    "copies": copies(),
    "copies_without_wait": copies(wait=""),
    "copies_of_a_batch": copies(wait="__pipeline_wait_prior(1);"),
    "copies_without_barrier": copies(barrier=""),
    "copies_over_what_is_read": copies(again=""),
    "misaligned_copy": "alignas(16) __shared__ int tile[8]; __pipeline_memcpy_async(tile + 1, in, 16);",
    "copy_outside": "alignas(16) __shared__ int tile[4]; __pipeline_memcpy_async(tile, in + 100000, 16); "
    "__pipeline_commit(); __pipeline_wait_prior(0);",
}
SOURCE = "\n".join(
    f'extern "C" __global__ void {name}(int* out, const int* in) {{ {body} }}' for name, body in KERNELS.items()
)

ILLEGAL, ASSERTED, MISALIGNED, FAILED, INVALID, HANDLE = 700, 710, 716, 719, 1, 400

#: Mistakes that a status reports, with the words that the card writes, if any.
REPORTED = {
    "write outside of memory": (
        "x = memory(); launch('write_outside', x); wait()",
        ILLEGAL,
        "illegal access",
    ),
    "read outside of memory": (
        "x = memory(); launch('read_outside', x); wait()",
        ILLEGAL,
        "illegal access",
    ),
    "write before memory": (
        "x = memory(4096); launch('write_before', x); wait()",
        ILLEGAL,
        "illegal access",
    ),
    "write through null": (
        "x = memory(); launch('write_through_null', x); wait()",
        ILLEGAL,
        "illegal access",
    ),
    "write behind the end": (
        "x = memory(4); launch('write_behind', x); wait(); free(x); wait()",
        ILLEGAL,
        "behind the end",
    ),
    "write after free": (
        "x = memory(); free(x); launch('write', x); wait()",
        ILLEGAL,
        "illegal access",
    ),
    "read after free": (
        "x, y = memory(), memory(); free(y); launch('copy', x, y); wait()",
        ILLEGAL,
        "illegal access",
    ),
    "index outside of shared memory": (
        "x = memory(); launch('outside_of_shared', x); wait()",
        ILLEGAL,
        "illegal index 256 of an array",
    ),
    "negative index of shared memory": (
        "x = memory(); launch('before_shared', x); wait()",
        ILLEGAL,
        "illegal index -1 of an array",
    ),
    "misaligned read": (
        "x = memory(); launch('misaligned_read', x); wait()",
        MISALIGNED,
        "misaligned access",
    ),
    "misaligned write of a wide value": (
        "x = memory(); launch('misaligned_write', x); wait()",
        MISALIGNED,
        "misaligned access",
    ),
    "misaligned copy": (
        "x = memory(); launch('misaligned_copy', x, x); wait()",
        MISALIGNED,
        "misaligned access",
    ),
    "copy from outside of memory": (
        "x = memory(); launch('copy_outside', x, x); wait()",
        ILLEGAL,
        "illegal access",
    ),
    "divergent barrier": (
        "x = memory(); launch('divergent_barrier', x); wait()",
        FAILED,
        "wait for ever",
    ),
    "divergent shuffle": (
        "x = memory(); launch('divergent_shuffle', x); wait()",
        FAILED,
        "wait for ever",
    ),
    "lane outside of its mask": (
        "x = memory(); launch('outside_of_mask', x); wait()",
        FAILED,
        "not in its own mask",
    ),
    "failed assertion": (
        "x = memory(); launch('fails', x); wait()",
        ASSERTED,
        "assertion: x is 1",
    ),
    "too many threads": ("x = memory(); launch('write', x, threads=2048)", INVALID, ""),
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

#: Mistakes that give wrong numbers: a program with and without the part that it forgets, and the right numbers.
SILENT = {
    "missing barrier": (
        "x = memory(); launch(PART, x); shown = read(x)",
        "'sum'",
        "'sum_without_barrier'",
        255 * 128,
    ),
    **{
        title: (
            "x, y = memory(), memory(); fill(y, 1); launch(PART, x, y); shown = read(x)",
            "'copies'",
            f"'{kernel}'",
            0x01010101,
        )
        for title, kernel in [
            ("missing wait for a copy", "copies_without_wait"),
            ("missing wait for the last copies", "copies_of_a_batch"),
            ("missing barrier behind a copy", "copies_without_barrier"),
            ("copy over what other threads read", "copies_over_what_is_read"),
        ]
    },
    "missing wait between streams": (
        "s, x, y, e = stream(), memory(), memory(), event(); fill(x, 0); fill(y, 0); wait(); launch('add', x, on=s)\n"
        "PART\nlaunch('copy', y, x); shown = read(y)",
        "ok(cuda.cuEventRecord(e, s)); ok(cuda.cuStreamWaitEvent(None, e, 0))",
        "pass",
        1,
    ),
    "memory used again before another stream has finished": (
        "s, x, y, e = stream(), memory(), memory(), event(); fill(x, 1); fill(y, 0); wait()\n"
        "launch('copy', y, x, on=s)\nPART\nfill(x, 9); wait(); wait(s); shown = read(y)",
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
        "x = memory()\nPART\nlaunch('add', x); shown = read(x)",
        "fill(x, 0)",
        "pass",
        1,
    ),
}


#: A program without a mistake, whose warps exchange sums.
VOTES = "x = memory(); launch('votes', x); print(set(read(x)) == {496})"

SEEDS = (0, 1, 2, 3, 4)
#: How often a program without the mistake runs; one with it runs with all seeds.
RIGHT = 3


def programs(name):
    """A program without a mistake and one with it, which show whether the numbers are right."""
    program, right, wrong, number = SILENT[name]
    return [program.replace("PART", part) + f"\nprint(set(shown) == {{{number}}})" for part in (right, wrong)]


@pytest.fixture(scope="module")
def answers():
    """What each program shows and what the card writes, by the program and the seed. One process runs all of them."""
    runs = [(program, 0) for program, _, _ in REPORTED.values()]
    runs += [(VOTES, seed) for seed in SEEDS[:RIGHT]]
    for right, wrong in map(programs, SILENT):
        runs += [(right, seed) for seed in SEEDS[:RIGHT]] + [(wrong, seed) for seed in SEEDS]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([SOURCE, runs]),
        env=environment(SOFTCUDA_DEVICES=2),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(runs, map(tuple, json.loads(done.stdout)), strict=True))


@pytest.mark.parametrize("name", REPORTED)
def test_a_mistake_is_reported(name, answers):
    program, status, words = REPORTED[name]
    shown, errors, ended = answers[program, 0]
    assert (shown, ended) == (f"fault {status}", 0) and words in errors, errors


@pytest.mark.parametrize("name", SILENT)
def test_a_mistake_changes_the_numbers(name, answers):
    right, wrong = programs(name)
    assert [answers[right, seed] for seed in SEEDS[:RIGHT]] == [("True", "", 0)] * RIGHT
    assert "False" in [answers[wrong, seed][0] for seed in SEEDS]


def test_shuffles_and_votes(answers):
    assert [answers[VOTES, seed] for seed in SEEDS[:RIGHT]] == [("True", "", 0)] * RIGHT
