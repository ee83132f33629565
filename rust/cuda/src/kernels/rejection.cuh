// Random numbers by rejection, as in `rust/rng/src/distributions/rejection.rs`: each element draws as many numbers as it needs. See
// `rejection.rs`.

#pragma once

#include "random.cuh"

namespace rushlight::random {

/// The numbers of one element. Bit 63 of the thread's number is set, which no other call does, so that streams never meet. A call
/// reserves few blocks; each stands for 2^20 here, because an element may need many.
struct Draws {
    u64 seed, thread, block;
    Words words;
    u32 used;
    DEVICE Draws(const Place& now, u64 element)
        : seed(now.seed), thread(element | u64(1) << 63), block(now.block() << 20), words(), used(4) {}
    DEVICE u32 word() {
        if (used == 4) {
            words = philox(seed, thread, block++);
            used = 0;
        }
        return words.at[used++];
    }
    /// From 0 (inclusive) to 1 (exclusive), of 53 bits.
    DEVICE f64 uniform() {
        const u64 high = word();
        return f64((high << 32 | word()) >> 11) * 1.1102230246251565e-16;
    }
    DEVICE f64 normal() {
        const f64 radius = sqrt(-2.0 * libm::ln(1.0 - uniform()));
        return radius * libm::cos(TAU * uniform());
    }
};

/// Gamma distributions of scale one (Marsaglia and Tsang 2000).
struct StandardGamma {
    static DEVICE bool accepts(f64) { return true; }
    template <class T> static DEVICE f64 value(Draws& draws, f64 alpha, f64) {
        f64 scale = 1.0;
        if (alpha < 1.0) {
            if (alpha == 0.0) {
                return least<T>();
            }
            // Below 1 few proposals are accepted: draw for alpha + 1 and scale by a power of a uniform value.
            scale = libm::powf(1.0 - draws.uniform(), 1.0 / alpha);
            alpha += 1.0;
        }
        const f64 d = alpha - 1.0 / 3.0, c = 1.0 / sqrt(9.0 * d);
        while (true) {
            const f64 x = draws.normal(), y = 1.0 + c * x;
            if (y <= 0.0) {
                continue;
            }
            const f64 v = y * y * y, u = 1.0 - draws.uniform(), square = x * x;
            // If `alpha` is NaN, the first of the two conditions accepts the sample.
            if (u < 1.0 - 0.0331 * square * square || libm::ln(u) < 0.5 * square + d * (1.0 - v + libm::ln(v))) {
                const f64 sample = scale * d * v;
                return sample > least<T>() ? sample : least<T>();
            }
        }
    }
    /// The least normal number: samples are positive.
    template <class T> static DEVICE f64 least() {
        if constexpr (same<T, f32>) {
            return f64(from_bits<f32>(u32(1) << 23));
        } else {
            return from_bits<f64>(u64(1) << 52);
        }
    }
};

/// Poisson distributions: by multiplying uniform values for a small rate, by Hörmann's transformed rejection (1993) for a large one.
struct Poisson {
    static DEVICE bool accepts(f64 rate) { return rate >= 0.0; }
    template <class T> static DEVICE f64 value(Draws& draws, f64 rate, f64) {
        if (rate < 10.0) {
            const f64 limit = libm::exp(-rate);
            f64 count = 0.0, product = rate == 0.0 ? 0.0 : draws.uniform();
            for (; product > limit; count += 1.0) {
                product *= draws.uniform();
            }
            return count;
        }
        const f64 b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b, log = libm::ln(rate);
        const f64 inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), tight = 0.9277 - 3.6224 / (b - 2.0);
        while (true) {
            const f64 u = draws.uniform() - 0.5, v = draws.uniform(), us = 0.5 - abs(u);
            const f64 k = floor((2.0 * a / us + b) * u + rate + 0.43);
            // An infinite rate accepts no proposal.
            if (is_nan(k) || (us >= 0.07 && v <= tight)) {
                return k;
            }
            if (k < 0.0 || (us < 0.013 && v > us)) {
                continue;
            }
            if (libm::ln(v) + libm::ln(inverse_alpha) - libm::ln(a / (us * us) + b) <= k * log - rate - libm::lgamma(k + 1.0)) {
                return k;
            }
        }
    }
};

/// Binomial distributions of the rarer outcome: by waiting times if few successes are expected, by Hörmann's transformed rejection
/// (1993) if many are.
struct Binomial {
    static DEVICE bool accepts(f64) { return true; }
    template <class T> static DEVICE f64 value(Draws& draws, f64 count, f64 p) {
        if (count <= 0.0 || p <= 0.0) {
            return 0.0;
        }
        if (p >= 1.0) {
            return count;
        }
        if (is_nan(count) || is_nan(p)) {
            return nan<f64>();
        }
        return p <= 0.5 ? rarer(draws, count, p) : count - rarer(draws, count, 1.0 - p);
    }
    static DEVICE f64 rarer(Draws& draws, f64 count, f64 p) {
        return count * p >= 10.0 ? transformed(draws, count, p) : waited(draws, count, p);
    }
    /// The number of successes in `count` trials, from the number of trials between successes.
    static DEVICE f64 waited(Draws& draws, f64 count, f64 p) {
        const f64 log = libm::ln_1p(-p);
        f64 trials = 0.0, successes = 0.0;
        while (true) {
            trials += ceil(libm::ln(draws.uniform()) / log);
            if (!(trials <= count)) {
                return successes;
            }
            successes += 1.0;
        }
    }
    static DEVICE f64 transformed(Draws& draws, f64 count, f64 p) {
        const f64 deviation = sqrt(count * p * (1.0 - p)), b = 1.15 + 2.53 * deviation;
        const f64 a = -0.0873 + 0.0248 * b + 0.01 * p, c = count * p + 0.5, tight = 0.92 - 4.2 / b, odds = p / (1.0 - p);
        const f64 alpha = (2.83 + 5.1 / b) * deviation, m = floor((count + 1.0) * p), others = count - m;
        while (true) {
            const f64 u = draws.uniform() - 0.5, v = draws.uniform(), us = 0.5 - abs(u);
            const f64 k = floor((2.0 * a / us + b) * u + c);
            // An infinite count accepts no proposal.
            if (is_nan(k) || (us >= 0.07 && v <= tight)) {
                return k;
            }
            if (k < 0.0 || k > count) {
                continue;
            }
            const f64 misses = count - k + 1.0;
            const f64 bound = (m + 0.5) * libm::ln((m + 1.0) / (odds * (others + 1.0))) +
                              (count + 1.0) * libm::ln((others + 1.0) / misses) +
                              (k + 0.5) * libm::ln(odds * misses / (k + 1.0)) + stirling_rest(m) + stirling_rest(others) -
                              stirling_rest(k) - stirling_rest(count - k);
            if (libm::ln(v * alpha / (a / (us * us) + b)) <= bound) {
                return k;
            }
        }
    }
    /// The remainder of Stirling's formula for ln k!: ln k! - (k + 1/2) ln(k + 1) + (k + 1) - ln(2 pi) / 2.
    static DEVICE f64 stirling_rest(f64 k) {
        const f64 next = k + 1.0;
        if (k < 10.0) {
            return libm::lgamma(next) - (k + 0.5) * libm::ln(next) + next - 0.5 * libm::ln(TAU);
        }
        return (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / 1260.0 / (next * next)) / (next * next)) / next;
    }
};

/// Draws each element for its parameters: the operands are the result and two parameters, of which a distribution may use one.
/// `outside` becomes the first element whose parameter is not accepted; see `report`.
template <class What, class T>
DEVICE void reject(const Pointers<3>& operands, u64 count, const Loops<3>& loops, const Place& place, u64* outside) {
    const Place now = place.now();
    for (u64 element = first_element(); element < count; element += element_step()) {
        i64 offsets[3] = {};
        loops.move(element, offsets);
        const f64 first = convert<f64>(load<T>(operands.at[1] + offsets[1])), second = convert<f64>(load<T>(operands.at[2] + offsets[2]));
        if (!What::accepts(first)) {
            report(outside, element);
            continue;
        }
        Draws draws(now, element);
        store<T>(operands.at[0] + offsets[0], What::template value<T>(draws, first, second));
    }
}

} // namespace rushlight::random
