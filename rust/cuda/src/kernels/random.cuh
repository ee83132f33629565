// Random numbers of torch's stream for CUDA devices. See `random.rs`.
//
// A number depends on the seed, the thread and the block of four words that the thread draws: Philox4x32-10, as in
// `rust/rng/src/philox.rs`. How many threads draw, and which elements each of them gets, is torch's choice. So are the
// transformations; each function of torch's that a number passes, exact to some
// units in the last place or approximate, is CUDA's own here, so that the bits agree.

#pragma once

#include "elementwise.cuh"
#include "prelude.cuh"

namespace rushlight::random {

/// Where the numbers of a call begin (`Place` in `random.rs`). In a graph, the generator's state of each run stands at `run`: its seed,
/// and the offset that `offset` is added to.
struct Place {
    u64 seed, offset;
    const u64* run;
    /// The state of this run. Offsets count words; `block` counts blocks of four.
    DEVICE Place now() const { return run == nullptr ? *this : Place{run[0], run[1] + offset, run}; }
    DEVICE u64 block() const { return offset / 4; }
};

struct Words {
    u32 at[4];
    DEVICE u64 pair(int n) const { return u64(at[2 * n]) << 32 | at[2 * n + 1]; }
};

DEVICE Words philox(u64 seed, u64 thread, u64 block) {
    u32 c0 = u32(block), c1 = u32(block >> 32), c2 = u32(thread), c3 = u32(thread >> 32);
    u32 k0 = u32(seed), k1 = u32(seed >> 32);
    for (int round = 0; round < 10; round++) {
        const u64 first = u64(c0) * 0xd2511f53u, second = u64(c2) * 0xcd9e8d57u;
        const u32 next0 = u32(second >> 32) ^ c1 ^ k0, next2 = u32(first >> 32) ^ c3 ^ k1;
        c0 = next0, c1 = u32(second), c2 = next2, c3 = u32(first);
        k0 += 0x9e3779b9u, k1 += 0xbb67ae85u;
    }
    return {{c0, c1, c2, c3}};
}

#ifdef __CUDACC__
DEVICE f32 quick_exp(f32 x) { return __expf(x); }
DEVICE f32 quick_log(f32 x) { return __logf(x); }
DEVICE f32 quick_tan(f32 x) { return __tanf(x); }
DEVICE void turn(f32 angle, f32* sine, f32* cosine) { __sincosf(angle, sine, cosine); }
DEVICE f32 exact_log(f32 x) { return ::logf(x); }
DEVICE f64 exact_log(f64 x) { return ::log(x); }
DEVICE void half_turns(f64 angle, f64* sine, f64* cosine) { ::sincospi(angle, sine, cosine); }
#else
DEVICE f32 quick_exp(f32 x) { return f32(libm::exp(x)); }
DEVICE f32 quick_log(f32 x) { return f32(libm::ln(x)); }
DEVICE f32 quick_tan(f32 x) { return f32(libm::tan(x)); }
DEVICE void turn(f32 angle, f32* sine, f32* cosine) {
    *sine = f32(libm::sin(angle));
    *cosine = f32(libm::cos(angle));
}
template <class C> DEVICE C exact_log(C x) { return C(libm::ln(x)); }
DEVICE void half_turns(f64 angle, f64* sine, f64* cosine) {
    *sine = libm::sin(PI * angle);
    *cosine = libm::cos(PI * angle);
}
#endif
DEVICE f64 quick_exp(f64 x) { return libm::exp(x); }
DEVICE f64 quick_log(f64 x) { return libm::ln(x); }
DEVICE f64 quick_tan(f64 x) { return libm::tan(x); }
DEVICE f32 quick_log_1p(f32 x) { return quick_log(1.0f + x); }
DEVICE f64 quick_log_1p(f64 x) { return libm::ln_1p(x); }

/// From 0 (exclusive) to 1 (inclusive): four numbers of 32 bits, or two of 53.
template <class C> struct Uniforms;
template <> struct Uniforms<f32> {
    static constexpr int COUNT = 4;
    static DEVICE f32 of(u32 word) { return mul_add(f32(word), 2.3283064e-10f, 1.1641532e-10f); }
    static DEVICE void draw(const Words& words, f32* to) {
        for (int n = 0; n < COUNT; n++) {
            to[n] = of(words.at[n]);
        }
    }
};
template <> struct Uniforms<f64> {
    static constexpr int COUNT = 2;
    static DEVICE f64 of(u32 low, u32 high) {
        return mul_add(f64(u64(low) ^ u64(high) << 21), 1.1102230246251565e-16, 5.5511151231257827e-17);
    }
    static DEVICE void draw(const Words& words, f64* to) {
        for (int n = 0; n < COUNT; n++) {
            to[n] = of(words.at[2 * n], words.at[2 * n + 1]);
        }
    }
};

/// Pairs of normally distributed numbers, after Box and Muller.
template <class C> struct Normals;
template <> struct Normals<f32> {
    static constexpr int COUNT = 4;
    static DEVICE void draw(const Words& words, f32* to) {
        for (int n = 0; n < COUNT; n += 2) {
            const f32 angle = mul_add(f32(words.at[n + 1]), 1.46291807e-9f, 7.3145903e-10f);
            const f32 radius = sqrt(-2.0f * exact_log(Uniforms<f32>::of(words.at[n])));
            f32 sine, cosine;
            turn(angle, &sine, &cosine);
            to[n] = radius * sine, to[n + 1] = radius * cosine;
        }
    }
};
template <> struct Normals<f64> {
    static constexpr int COUNT = 2;
    static DEVICE void draw(const Words& words, f64* to) {
        const f64 radius = sqrt(-2.0 * exact_log(Uniforms<f64>::of(words.at[0], words.at[1])));
        const f64 half = f64(u64(words.at[2]) ^ u64(words.at[3]) << 21);
        f64 sine, cosine;
        half_turns(mul_add(half, 2.2204460492503131e-16, 1.1102230246251565e-16), &sine, &cosine);
        to[0] = radius * sine, to[1] = radius * cosine;
    }
};

/// Integers of 32 or 64 bits.
template <class C> struct Integers;
template <> struct Integers<u32> {
    static constexpr int COUNT = 4;
    static DEVICE void draw(const Words& words, u32* to) {
        for (int n = 0; n < COUNT; n++) {
            to[n] = words.at[n];
        }
    }
};
template <> struct Integers<u64> {
    static constexpr int COUNT = 2;
    static DEVICE void draw(const Words& words, u64* to) {
        to[0] = words.pair(0), to[1] = words.pair(1);
    }
};

// The distributions. `C` is the type of the arithmetic, `T` that of the elements; numbers are doubles or integers.

template <class T, class C> DEVICE C parameter(const Numbers& numbers, int n) {
    return convert<C>(number<f64>(numbers, n));
}
template <class C> constexpr C epsilon = same<C, f32> ? C(1.1920929e-07) : C(2.220446049250313e-16);

template <class T, class C> struct Uniform : Uniforms<C> {
    static DEVICE T value(C x, const Numbers& numbers) {
        const T from = convert<T>(number<f64>(numbers, 0)), to = convert<T>(number<f64>(numbers, 1));
        const C range = convert<C>(number<f64>(numbers, 2));
        const T value = convert<T>(mul_add(x, range, convert<C>(from)));
        return value == to ? from : value;
    }
};
/// A number of the element's precision, moved to a range in double precision.
template <class T, class C> struct Slope : Uniforms<C> {
    static DEVICE T value(C x, const Numbers& numbers) {
        return convert<T>(mul_add(convert<f64>(convert<T>(x)), number<f64>(numbers, 1), number<f64>(numbers, 0)));
    }
};
template <class T, class C> struct Normal : Normals<C> {
    static DEVICE C value(C x, const Numbers& numbers) {
        return mul_add(x, parameter<T, C>(numbers, 1), parameter<T, C>(numbers, 0));
    }
};
template <class T, class C> struct LogNormal : Normals<C> {
    static DEVICE C value(C x, const Numbers& numbers) { return quick_exp(Normal<T, C>::value(x, numbers)); }
};
template <class T, class C> struct Exponential : Uniforms<C> {
    static DEVICE C value(C x, const Numbers& numbers) {
        const C log = x >= C(1) - epsilon<C> / 2 ? -epsilon<C> / 2 : quick_log(x);
        return C(-1) / parameter<T, C>(numbers, 0) * log;
    }
};
template <class T, class C> struct Cauchy : Uniforms<C> {
    static DEVICE C value(C x, const Numbers& numbers) {
        if constexpr (same<C, f32>) {
            x = x > 1.0f - epsilon<f32> ? 1.0f - epsilon<f32> : x < epsilon<f32> ? epsilon<f32> : x;
        }
        return mul_add(parameter<T, C>(numbers, 1), quick_tan(C(PI) * (x - C(0.5))), parameter<T, C>(numbers, 0));
    }
};
template <class T, class C> struct Geometric : Uniforms<C> {
    static DEVICE C value(C x, const Numbers& numbers) {
        return ceil(quick_log(x) / quick_log_1p(-parameter<T, C>(numbers, 0)));
    }
};
template <class T, class C> struct Bernoulli : Uniforms<C> {
    static DEVICE bool value(C x, const Numbers& numbers) { return x < parameter<T, C>(numbers, 0); }
};
/// Integers of a range, from a base.
template <class T, class C> struct Between : Integers<C> {
    static DEVICE T value(C x, const Numbers& numbers) {
        return convert<T>(i64(u64(x) % number<u64>(numbers, 0) + number<u64>(numbers, 1)));
    }
};
/// Any integer of 64 bits.
template <class T, class C> struct Whole : Integers<C> {
    static DEVICE T value(C x, const Numbers&) { return convert<T>(i64(x)); }
};

/// Fills a tensor, in the order of its memory.
template <class Draw, class C, class Out>
DEVICE void draw(u8* out, u64 count, const Loops<1>& loops, const Place& place, const Numbers& numbers) {
    const u64 own = first_element(), threads = element_step();
    const Place now = place.now();
    u64 block = now.block();
    for (u64 first = own; first < count; first += threads * Draw::COUNT, block++) {
        C drawn[Draw::COUNT];
        Draw::draw(philox(now.seed, own, block), drawn);
        for (int n = 0; n < Draw::COUNT; n++) {
            const u64 element = first + threads * n;
            if (element < count) {
                i64 at = 0;
                loops.move(element, &at);
                store<Out>(out + at, Draw::value(drawn[n], numbers));
            }
        }
    }
}

/// Whether each element's number is at most its probability: four adjacent elements share a thread.
template <class Out, class P>
DEVICE void trials(u8* out, const u8* chances, u64 count, const Loops<2>& loops, const Place& place) {
    const Place now = place.now();
    for (u64 element = first_element(); element < count; element += element_step()) {
        i64 places[2] = {};
        loops.move(element, places);
        const f32 x = Uniforms<f32>::of(philox(now.seed, element / 4, now.block()).at[element % 4]);
        store<Out>(out + places[0], P(x) <= load<P>(chances + places[1]));
    }
}

/// The mask of dropout: a factor with a probability, otherwise zero. A thread of torch's kernel takes `width` adjacent elements
/// at once, of which `threads` times as many are taken in a round. It draws whole blocks of words for several elements, and uses a
/// block up if it takes one element at a time.
template <class Out>
DEVICE void dropout(u8* out, u64 count, u64 width, u64 threads, const Place& place, f64 kept, f64 factor) {
    const Place now = place.now();
    const u64 drawn = width == 1 ? 1 : width > 4 ? width : 4;
    for (u64 element = first_element(); element < count; element += element_step()) {
        const u64 thread = element / width % threads, turn = element / width / threads * drawn + element % width;
        const f32 x = Uniforms<f32>::of(philox(now.seed, thread, now.block() + turn / 4).at[turn % 4]);
        store<Out>(out + element * sizeof(Out), x < kept ? factor : 0.0);
    }
}

/// Shuffles the places of equal keys. Keys are sorted, and the first of several equal ones has a thread that draws.
template <class K> DEVICE void shuffle_equal(const K* keys, i64* places, u64 count, const Place& place) {
    const Place now = place.now();
    for (u64 first = first_element(); first < count; first += element_step()) {
        const K key = keys[first];
        if (first > 0 && keys[first - 1] == key) {
            continue;
        }
        u64 length = 1;
        while (first + length < count && keys[first + length] == key) {
            length++;
        }
        Words words;
        for (u64 last = length - 1, drawn = 0; last > 0; last--, drawn++) {
            if (drawn % 4 == 0) {
                words = philox(now.seed, first, now.block() + drawn / 4);
            }
            const u64 other = words.at[drawn % 4] % (last + 1);
            const i64 moved = places[first + last];
            places[first + last] = places[first + other];
            places[first + other] = moved;
        }
    }
}

/// One uniform number for each of `columns` samples of each row. A row of `width` threads draws for every `rows`-th row of the result.
template <class Out>
DEVICE void one_each(u8* out, u64 count, u64 columns, u64 width, u64 rows, const Place& place) {
    const Place now = place.now();
    for (u64 element = first_element(); element < count; element += element_step()) {
        const u64 row = element / columns, thread = row % rows * width + element % columns;
        store<Out>(out + element * sizeof(Out), Uniforms<f32>::of(philox(now.seed, thread, now.block() + row / rows).at[0]));
    }
}

} // namespace rushlight::random
