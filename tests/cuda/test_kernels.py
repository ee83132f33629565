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
        extern "C" __global__ void packed(Pointers<3> operands, Numbers numbers, u64 count, Loops<3> loops) {
            Loop::packed<u32>(operands, numbers, count, loops);
        }
        extern "C" __global__ void strided(Pointers<3> operands, Numbers numbers, u64 count, Loops<3> loops) {
            Loop::strided<u32>(operands, numbers, count, loops);
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
        extern "C" __global__ void rows(u8* out, const u8* input, const __grid_constant__ Loops<2> outer, const __grid_constant__ Loops<1> inner, u64 results, u64 length,
                                        u64 piece, u32 packed, Fold::A* partial, const __grid_constant__ Numbers numbers) {
            Rows::rows<THREADS>(out, input, outer, inner, results, length, piece, packed, partial, numbers);
        }
        extern "C" __global__ void warps(u8* out, const u8* input, const __grid_constant__ Loops<2> outer, const __grid_constant__ Loops<1> inner, u64 results, u64 length,
                                        u64 piece, u32 packed, Fold::A* partial, const __grid_constant__ Numbers numbers) {
            Rows::rows<WARP>(out, input, outer, inner, results, length, piece, packed, partial, numbers);
        }
        extern "C" __global__ void columns(u8* out, const u8* input, const __grid_constant__ Loops<2> outer, const __grid_constant__ Loops<1> inner, u64 results, u64 length,
                                        u64 piece, u32 packed, Fold::A* partial, const __grid_constant__ Numbers numbers) {
            Rows::columns(out, input, outer, inner, results, length, piece, partial, numbers);
        }
        extern "C" __global__ void pieces(u8* out, const Fold::A* partial, const __grid_constant__ Loops<2> outer, u64 results, u64 count, u64 length,
                                          const __grid_constant__ Numbers numbers) {
            Rows::pieces(out, partial, outer, results, count, length, numbers);
        }
    """,
    "normalize": """
        #include "normalize.cuh"
        #include "prelude.cuh"
        using namespace rushlight;
        typedef f32 C;
        extern "C" __global__ void forward_warps(View view, f64 eps, const u8* input, const u8* grad, const C* weight, const C* bias,
                                        C* mean, C* variance, u8* out, C* to_weight, C* to_bias, u64 piece, void* parts) {
            const Normalize<bf16, C> all{view, C(eps), input, grad, weight, bias, mean, variance, out};
            all.forward<WARP>();
        }
        extern "C" __global__ void forward_blocks(View view, f64 eps, const u8* input, const u8* grad, const C* weight, const C* bias,
                                        C* mean, C* variance, u8* out, C* to_weight, C* to_bias, u64 piece, void* parts) {
            const Normalize<bf16, C> all{view, C(eps), input, grad, weight, bias, mean, variance, out};
            all.forward<THREADS>();
        }
        extern "C" __global__ void forward_parts(View view, f64 eps, const u8* input, const u8* grad, const C* weight, const C* bias,
                                        C* mean, C* variance, u8* out, C* to_weight, C* to_bias, u64 piece, void* parts) {
            const Normalize<bf16, C> all{view, C(eps), input, grad, weight, bias, mean, variance, out};
            all.forward_parts(piece, (Moments<C>*)parts);
        }
        extern "C" __global__ void forward_joined(View view, f64 eps, const u8* input, const u8* grad, const C* weight, const C* bias,
                                        C* mean, C* variance, u8* out, C* to_weight, C* to_bias, u64 piece, void* parts) {
            const Normalize<bf16, C> all{view, C(eps), input, grad, weight, bias, mean, variance, out};
            all.forward_joined(piece, (const Moments<C>*)parts);
        }
        extern "C" __global__ void backward_warps(View view, f64 eps, const u8* input, const u8* grad, const C* weight, const C* bias,
                                        C* mean, C* variance, u8* out, C* to_weight, C* to_bias, u64 piece, void* parts) {
            const Normalize<bf16, C> all{view, C(eps), input, grad, weight, bias, mean, variance, out};
            all.backward<WARP>(to_weight, to_bias);
        }
        extern "C" __global__ void backward_blocks(View view, f64 eps, const u8* input, const u8* grad, const C* weight, const C* bias,
                                        C* mean, C* variance, u8* out, C* to_weight, C* to_bias, u64 piece, void* parts) {
            const Normalize<bf16, C> all{view, C(eps), input, grad, weight, bias, mean, variance, out};
            all.backward<THREADS>(to_weight, to_bias);
        }
        extern "C" __global__ void backward_parts(View view, f64 eps, const u8* input, const u8* grad, const C* weight, const C* bias,
                                        C* mean, C* variance, u8* out, C* to_weight, C* to_bias, u64 piece, void* parts) {
            const Normalize<bf16, C> all{view, C(eps), input, grad, weight, bias, mean, variance, out};
            all.backward_parts(piece, (Sums<C>*)parts);
        }
        extern "C" __global__ void backward_joined(View view, f64 eps, const u8* input, const u8* grad, const C* weight, const C* bias,
                                        C* mean, C* variance, u8* out, C* to_weight, C* to_bias, u64 piece, void* parts) {
            const Normalize<bf16, C> all{view, C(eps), input, grad, weight, bias, mean, variance, out};
            all.backward_joined(piece, (const Sums<C>*)parts, to_weight, to_bias);
        }
        extern "C" __global__ void parameters(View view, f64 eps, const u8* input, const u8* grad, const C* weight, const C* bias,
                                        C* mean, C* variance, u8* out, C* to_weight, C* to_bias, u64 piece, void* parts) {
            const Normalize<bf16, C> all{view, C(eps), input, grad, weight, bias, mean, variance, out};
            all.parameters(piece, (Sums<C>*)parts);
        }
        extern "C" __global__ void join_parameters(View view, f64 eps, const u8* input, const u8* grad, const C* weight, const C* bias,
                                        C* mean, C* variance, u8* out, C* to_weight, C* to_bias, u64 piece, void* parts) {
            const Normalize<bf16, C> all{view, C(eps), input, grad, weight, bias, mean, variance, out};
            all.join_parameters(piece, (const Sums<C>*)parts, to_weight, to_bias);
        }
    """,
    "softmax": """
        #include "softmax.cuh"
        #include "prelude.cuh"
        using namespace rushlight;
        typedef Softmax<SoftmaxForward<f32, true>, f32, bf16, bf16> Forward;
        typedef Softmax<SoftmaxBackward<f64, false>, f64, f64, f64> Backward;
        extern "C" __global__ void warps(u8* out, const u8* x, const u8* y, u64 lines, u64 n, u64 inner) {
            Forward{out, x, y}.kept<WARP, 8>(lines, n);
        }
        extern "C" __global__ void lines(u8* out, const u8* x, const u8* y, u64 lines, u64 n, u64 inner) {
            Backward{out, x, y}.lines(lines, n);
        }
        extern "C" __global__ void blocks(u8* out, const u8* x, const u8* y, u64 lines, u64 n, u64 inner) {
            Backward{out, x, y}.kept<THREADS, 16>(lines, n);
        }
        extern "C" __global__ void columns(u8* out, const u8* x, const u8* y, u64 lines, u64 n, u64 inner) {
            Forward{out, x, y}.columns(lines, n, inner);
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
    **{
        f"lines of {what}": f"""
        #include "lines.cuh"
        using namespace rushlight;
        typedef {what} What;
        typedef rushlight::Lines<What, {bits}, {each}, {along}> Rows;
        extern "C" __global__ void __launch_bounds__(THREADS, {4 if along == "true" else 3}) results(LineOperands operands, LineShape shape, const What::A* before) {{
            Rows::run(operands, shape, before, nullptr);
        }}
        extern "C" __global__ void __launch_bounds__(THREADS, {4 if along == "true" else 3}) totals(LineOperands operands, LineShape shape, What::A* totals) {{
            Rows::run(operands, shape, nullptr, totals);
        }}
        extern "C" __global__ void __launch_bounds__(THREADS) joined(LineOperands operands, LineShape shape) {{
            rushlight::Lines<Joined<What, {each}>, {bits}, {each}, true>::run(operands, shape, nullptr, nullptr);
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
        extern "C" __global__ void __launch_bounds__(THREADS, 3) move(Digits<{key}, {index}> digits) {{
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
    "pool": """
        #include "pool.cuh"
        using namespace rushlight;
        extern "C" __global__ void greatest(const bf16* input, bf16* output, i64* places, u64 count, PoolAxes axes, u64 nothing) {
            pool_max<bf16, f32, i32>(input, output, places, count, axes, load<bf16>(&nothing));
        }
        extern "C" __global__ void greatest_backward(f64* output, const f64* values, const i64* places, u64 count, PoolAxes axes) {
            pool_max_backward<f64, f64, i64>(output, values, places, count, axes);
        }
        extern "C" __global__ void mean(f16* output, const f16* input, u64 count, PoolAxes axes, Divisor divisor) {
            pool_mean<f16, f32, i32>(input, output, count, axes, divisor);
        }
        extern "C" __global__ void mean_backward(i64* output, const i64* input, u64 count, PoolAxes axes, Divisor divisor) {
            pool_mean_backward<i64, i64, i64>(output, input, count, axes, divisor);
        }
        extern "C" __global__ void find(u64* last, const i64* places, u64 count, u64 pixels, u64 area, u64* outside) {
            find_last(last, places, count, pixels, area, outside);
        }
        extern "C" __global__ void put(u16* output, const u16* values, const u64* last, u64 count, u64 pixels, u64 area) {
            put_last(output, values, last, count, pixels, area);
        }
    """,
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
        f"attention of {element} and {mask} with {columns} columns": f"""
        #include "attention_half.cuh"
        #include "attention_half_gradients.cuh"
        using namespace rushlight;
        extern "C" __global__ void __launch_bounds__(THREADS, HALF_BLOCKS<{columns}>) forward(
            AttentionOperands operands, Loops<5> batch, u64 batches, AttentionSizes sizes, u8* out, f32* sums) {{
            attention_half<{element}, {mask}, {columns}>(operands, batch, batches, sizes, out, sums);
        }}
        extern "C" __global__ void __launch_bounds__(THREADS, 1) of_queries(
            AttentionOperands operands, Loops<5> batch, u64 batches, AttentionSizes sizes, const f32* sums, const f32* means, u8* out) {{
            attention_half_of_queries<{element}, {mask}, {columns}>(operands, batch, batches, sizes, sums, means, out);
        }}
        extern "C" __global__ void __launch_bounds__(THREADS, 1) of_keys(
            AttentionOperands operands, Loops<5> batch, u64 batches, AttentionSizes sizes, const f32* sums, const f32* means,
            u8* of_keys, u8* of_values) {{
            attention_half_of_keys<{element}, {mask}, {columns}>(operands, batch, batches, sizes, sums, means, of_keys, of_values);
        }}
    """
        for element, mask, columns in [
            ("bf16", "Unmasked", 4),
            ("f16", "Bool", 3),
            ("bf16", "bf16", 4),
            ("f16", "Unmasked", 8),
            ("f16", "f32", 8),
        ]
    },
    "recurrent": """
        #include "recurrent.cuh"
        using namespace rushlight;
        extern "C" __global__ void lstm(f16* out, f16* next, const f16* gates, const f16* state, u64 count, u64 n) {
            lstm_gates<f16, f32>(gates, state, out, next, count, n);
        }
        extern "C" __global__ void gru(f64* next, const f64* input, const f64* hidden, const f64* state, u64 count, u64 n) {
            gru_gates<f64, f64>(input, hidden, state, next, count, n);
        }
        extern "C" __global__ void step(f32* gates, f32* out, f32* next, const f32* state, u64 count, u64 n) {
            lstm_step<f32>(gates, state, out, next, count, n);
        }
        extern "C" __global__ void back(f64* to, f64* kept, LstmStep<f64> step, u64 count, u64 n) {
            lstm_step_back<f64>(step, to, kept, count, n);
        }
        extern "C" __global__ void gru_back(bf16* to_input, bf16* to_hidden, bf16* to_state, const bf16* grad, const bf16* input,
                                            const bf16* hidden, const bf16* state, u64 count, u64 n) {
            gru_gates_back<bf16, f32>(grad, input, hidden, state, to_input, to_hidden, to_state, count, n);
        }
    """,
    "sampling": """
        #include "sampling.cuh"
        using namespace rushlight;
        extern "C" __global__ void at(const f16* x, const i64* indices, const f16* weights, f16* out, u64 count, MixSizes sizes) {
            mix<f16, f32>(x, indices, weights, out, count, sizes);
        }
        extern "C" __global__ void spread(const f64* values, const i64* indices, const f64* weights, const i64* order, f64* out,
                                          u64 count, MixSizes sizes) {
            mix_spread<f64, f64>(values, indices, weights, order, out, count, sizes);
        }
        extern "C" __global__ void meet(const f32* values, const f32* x, const i64* indices, f32* out, u64 count, MixSizes sizes) {
            mix_meet<f32, f32>(values, x, indices, out, count, sizes);
        }
        extern "C" __global__ void taps(const f16* x, const i64* indices, const f32* weights, f16* out, u64 count, LineSizes sizes) {
            line_taps<f16, f32>(x, indices, weights, out, count, sizes);
        }
        extern "C" __global__ void spread_taps(const f64* values, const i64* indices, const f64* weights, const i64* order, f64* out,
                                               u64 count, LineSizes sizes) {
            line_taps_spread<f64, f64>(values, indices, weights, order, out, count, sizes);
        }
        extern "C" __global__ void blocks(const u16* images, u16* columns, u64 count, Blocks blocks) {
            unfold(images, columns, count, blocks);
        }
        extern "C" __global__ void images(const c128* columns, c128* images, u64 count, Blocks blocks) {
            fold<c128, c128>(columns, images, count, blocks);
        }
    """,
    "pairs": """
        #include "pairs.cuh"
        using namespace rushlight;
        extern "C" __global__ void between(const f64* rows, const f64* columns, f64* out, u64 count, PairSizes sizes, u32 pairs) {
            distances<EuclidNorm>(rows, columns, out, count, sizes, pairs);
        }
        extern "C" __global__ void gradient(const f32* weights, const f32* rows, const f32* columns, const f32* distances, f32* out,
                                            u64 count, PairSizes sizes, u32 pairs) {
            slopes<GreatestNorm>(weights, rows, columns, distances, out, count, sizes, pairs);
        }
    """,
    "search": """
        #include "search.cuh"
        using namespace rushlight;
        extern "C" __global__ void positions(const f16* sorted, const f16* values, i64* to, u64 count, u64 length, u64 per_line,
                                             u32 right) {
            search<f16, f32>(sorted, values, to, count, length, per_line, right);
        }
        extern "C" __global__ void members(const i64* sorted, const i64* values, u8* to, u64 count, u64 length, u32 invert) {
            find_members<i64, i64>(sorted, values, to, count, length, invert);
        }
        extern "C" __global__ void middle(const f64* elements, const i64* places, i64* to, u64 lines, u64 n, u64 inner, u32 skips) {
            find_middle<f64, f64>(elements, places, to, lines, n, inner, skips);
        }
        extern "C" __global__ void mode(const u8* elements, const i64* places, i64* to, u64 lines, u64 n, u64 inner) {
            find_mode<u8, Bool>(elements, places, to, lines, n, inner);
        }
    """,
    "mantissas": """
        #include "mantissas.cuh"
        using namespace rushlight;
        extern "C" __global__ void parts(const bf16* numbers, bf16* mantissas, i32* exponents, u64 count) {
            split<bf16, f32>(numbers, mantissas, exponents, count);
        }
    """,
    "nll": """
        #include "nll.cuh"
        using namespace rushlight;
        extern "C" __global__ void losses(const bf16* scores, f32* losses, f32* weights, NllTargets<bf16> own, u64* outside) {
            nll_losses<bf16, f32>(scores, losses, weights, own, outside);
        }
        extern "C" __global__ void gradients(f64* out, const f64* grads, u32 each, const f64* total, NllTargets<f64> own) {
            nll_gradients<f64, f64>(out, grads, each, total, own);
        }
    """,
    "rejection": """
        #include "rejection.cuh"
        using namespace rushlight;
        extern "C" __global__ void gamma(Pointers<3> operands, u64 count, Loops<3> loops, random::Place place, u64* outside) {
            random::reject<random::StandardGamma, f32>(operands, count, loops, place, outside);
        }
        extern "C" __global__ void poisson(Pointers<3> operands, u64 count, Loops<3> loops, random::Place place, u64* outside) {
            random::reject<random::Poisson, bf16>(operands, count, loops, place, outside);
        }
        extern "C" __global__ void binomial(Pointers<3> operands, u64 count, Loops<3> loops, random::Place place, u64* outside) {
            random::reject<random::Binomial, f64>(operands, count, loops, place, outside);
        }
    """,
    "compact": """
        #include "compact.cuh"
        using namespace rushlight;
        extern "C" __global__ void count(const u8* mask, i64* counts, u64 count, u64 chunks) {
            count_true(mask, counts, count, chunks);
        }
        extern "C" __global__ void write(const u8* mask, const i64* ends, i64* to, u64 count, u64 chunks) {
            write_true(mask, ends, to, count, chunks);
        }
        extern "C" __global__ void along(const i64* places, i64* to, u64 count, u64 inner, u64 size) {
            coordinates(places, to, count, inner, size);
        }
        extern "C" __global__ void numbers(const i64* numbers, u64* counts, u64 count) { count_numbers(numbers, counts, count); }
        extern "C" __global__ void runs(const f16* values, u8* to, u64 count) { mark_runs<f16, f32>(values, to, count); }
        extern "C" __global__ void bins(const f16* values, u64* counts, u64 count, Bins bins) {
            count_bins(values, counts, count, bins);
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

# With packs of eight elements.
SKELETONS["reduce of packs"] = (
    SKELETONS["reduce"].replace("c128, c64", "f32, bf16").replace("c128", "f32").replace("A()", "0")
)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("skeleton", SKELETONS)
def test_skeletons_compile(nvrtc, skeleton, architecture):
    """Kernels are compiled for cards without spilling registers, and without copies of their parameters in each thread's memory."""
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
    assert max(int(size) for size in re.findall(r"(\d+) bytes stack frame", log)) < 256, log


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
