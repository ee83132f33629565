"""Kernels that programs write in CUDA C++: whole ones, and functions of the jiterator."""

import pytest
from card import needs_card, run
from soft_card import RAISES

import rushlight as torch


@needs_card
def test_a_kernel_is_compiled_and_launched():
    run(
        RAISES
        + r'''
source = """
// The name is found without extern "C".
__global__ void scaled(float* to, const float* from, int count, double by) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) to[at] = from[at] * (float)by;
}
"""
kernel = torch.cuda._compile_kernel(source, "scaled")
x = torch.arange(300.0, device="cuda")
y = torch.full((302,), 7.0, device="cuda")
view = y[1:301]
kernel(grid=(3, 1, 1), block=(128, 1, 1), args=[view, x, 300, 0.5])
assert torch.equal(view, x * 0.5) and y[0].item() == y[-1].item() == 7
stream = torch.cuda.Stream()
stream.wait_stream(torch.cuda.current_stream())
kernel((3, 1, 1), (128, 1, 1), [y, x, 300, 2.0], stream=stream)
stream.synchronize()
assert torch.equal(y[:300], x * 2)
raises(ValueError, "Kernel source cannot be empty", lambda: torch.cuda._compile_kernel(" ", "scaled"))
raises(RuntimeError, "NVRTC error", lambda: torch.cuda._compile_kernel("__global__ void f( {", "f"))
raises(ValueError, "All tensor arguments must be CUDA tensors or pinned CPU tensors", lambda: kernel(args=[torch.ones(300), x, 300, 1.0]))
missing = "CUDA error: named symbol not found\n  The source has no kernel with the name other."
raises(torch.AcceleratorError, missing, lambda: torch.cuda._compile_kernel(source, "other"))
raises(TypeError, "Unsupported argument type: <class 'str'>", lambda: kernel(args=["x"]))
raises(RuntimeError, "Kernel requires 60000 bytes of shared memory (>= 48KB), but not configured", lambda: kernel(args=[y, x, 300, 1.0], shared_mem=60000))
'''
    )


@needs_card
def test_arguments_have_the_bytes_of_the_parameters():
    run(
        RAISES
        + r'''
source = """
__global__ void written(double* to, signed char a, short b, int c, long long d, float e, double f, bool g, unsigned int h) {
    const double all[8] = {double(a), double(b), double(c), double(d), double(e), f, double(g), double(h)};
    for (int n = 0; n < 8; n++) to[n] = all[n];
}
"""
kernel = torch.cuda._compile_kernel(source, "written")
out = torch.zeros(8, dtype=torch.float64, device="cuda")
given = [-7, -300, -70000, -(2**40), 0.5, 0.1, True, 2**32 - 1]
kernel(args=[out, *given])
assert out.tolist() == given
raises(TypeError, "the kernel has 9 parameters, and args has length 0", kernel)
raises(TypeError, "the kernel has 9 parameters, and args has length 10", lambda: kernel(args=[out, *given, 1]))
raises(OverflowError, "int too big to convert\n  The kernel's parameter has 1 bytes.", lambda: kernel(args=[out, -129, *given[1:]]))
raises(OverflowError, "int too big to convert", lambda: kernel(args=[out, *given[:-1], 2**32]))
raises(OverflowError, "int too big to convert", lambda: kernel(args=[out, 2**200, *given[1:]]))
raises(TypeError, "argument 2 is float, which cannot be passed as a parameter of 2 bytes", lambda: kernel(args=[out, 1, 1.0, *given[2:]]))
raises(TypeError, "argument 3 is Tensor, which cannot be passed as a parameter of 4 bytes", lambda: kernel(args=[out, 1, 1, out, *given[3:]]))
assert out.tolist() == given
'''
    )


@needs_card
def test_printing_raises_what_a_kernel_has_done():
    run(
        RAISES
        + r"""
kernel = torch.cuda._compile_kernel("__global__ void outside(float* x) { x[1 << 28] = 1; }", "outside")
x = torch.ones(3, device="cuda")
copied = torch.empty(3, pin_memory=True)
torch.cuda.synchronize()
kernel(args=[x])
copied.copy_(x, non_blocking=True)
for _ in range(2):
    for tensor in (copied, x, x[::2]):
        raises(torch.AcceleratorError, "CUDA error: an illegal memory access was encountered", lambda: repr(tensor))
"""
    )


@needs_card
def test_printing_needs_memory_for_conjugates():
    run(
        RAISES
        + """
x = torch.ones(1 << 20, dtype=torch.complex128, device="cuda").conj()
torch.cuda.set_per_process_memory_fraction(0.0)
raises(torch.OutOfMemoryError, "CUDA out of memory. Tried to allocate 16.00 MiB.", lambda: repr(x))
torch.cuda.set_per_process_memory_fraction(1.0)
assert repr(x).startswith("tensor([1.-0.j, 1.-0.j")
"""
    )


@needs_card
def test_an_elementwise_function_promotes_and_broadcasts():
    run(
        RAISES
        + r"""
jit = torch.cuda.jiterator
mixed = jit._create_jit_fn(
    "template <typename T> T half_of(T x) { return x / 2; }"
    "template <typename T> T mixed(T x, T y, T by) { return half_of<T>(x) + by * y; }",
    by=3.0,
)
x = torch.arange(6.0, device="cuda").reshape(2, 3)
y = torch.tensor([1, 2, 3], device="cuda")
assert torch.equal(mixed(x, y), x / 2 + 3 * y) and torch.equal(mixed(x.t(), x.t(), by=1), x.t() * 1.5)
assert mixed(x, y).dtype == torch.float32 and mixed(y, y, by=2).dtype == torch.int64
assert mixed(y, y, by=2).tolist() == [2, 5, 7]
assert mixed(x.double(), torch.tensor(2, device="cuda")).dtype == torch.float64
assert mixed(y, torch.tensor(0.5)).tolist() == [2.0, 2.5, 3.0]
for dtype in (torch.float16, torch.bfloat16):
    got = mixed(x.to(dtype), x.to(dtype))
    assert got.dtype == dtype and torch.equal(got, (x * 3.5).to(dtype))
assert mixed(x[:0], y).shape == (0, 3)
both = jit._create_multi_output_jit_fn(
    "template <typename T> void both(T x, T y, T more, T& sum, T& product) { sum = x + y + more; product = x * y; }", 2, more=0
)
sums, products = both(x, y)
assert torch.equal(sums, x + y) and torch.equal(products, x * y)
assert torch.equal(both(x, y, more=4)[0], x + y + 4)
one = jit._create_multi_output_jit_fn("template <typename T> void one(T x, T& y) { y = x + 1; }", 1)
assert torch.equal(one(x), x + 1) and not one(x.clone().requires_grad_()).requires_grad
raises(KeyError, "'other is not declared in function definition'", lambda: mixed(x, y, other=1))
raises(AssertionError, "jiterator only supports up to 8 tensor inputs, got 9", lambda: mixed(*[x] * 9))
raises(TypeError, "Unsupported argument type: <class 'str'>", lambda: mixed(x, y, by="3"))
raises(OverflowError, "int too big to convert", lambda: mixed(x, y, by=2**70))
many = jit._create_multi_output_jit_fn("template <typename T> void many(T x, T& y) { y = x; }", 9)
raises(AssertionError, "jiterator only supports up to 8 outputs, got 9", lambda: many(x))
raises(RuntimeError, "Expected all tensors to be on the same device", lambda: mixed(x, torch.ones(3)))
raises(NotImplementedError, "jiterator: elements of complex64", lambda: one(x.to(torch.complex64)))
raises(RuntimeError, "NVRTC error", lambda: jit._create_jit_fn("template <typename T> T f(T x) { return nothing; }")(x))
"""
    )


def test_what_is_no_function_is_refused():
    with pytest.raises(Exception, match=r"Couldn't parse code, please check correctness:\n int f"):
        torch.cuda.jiterator._create_jit_fn("int f")
    if not torch.cuda.is_available():
        function = torch.cuda.jiterator._create_jit_fn("template <typename T> T f(T x) { return x; }")
        with pytest.raises(
            AssertionError, match="Jiterator is only supported on CUDA and ROCm GPUs, none are available"
        ):
            function(torch.ones(1))
