// Distances between the rows of matrices, and their gradients, as in `rust/cpu/src/nn/distance.rs`. The other matrix is transposed,
// so that neighbouring threads read neighbouring elements. See `distance.rs`.

#pragma once

#include "geometry.cuh"

namespace rushlight {

struct PairSizes {
    u64 batch, rows, others, width;
};

/// The position of a pair of rows, the lesser first, among all pairs of `count` rows.
DEVICE u64 pair_of(u64 lesser, u64 greater, u64 count) { return lesser * (2 * count - lesser - 1) / 2 + greater - lesser - 1; }

struct CountNorm {
    template <class C> static DEVICE C add(C sum, C x) { return sum + (x == C(0) ? C(0) : abs(x) > C(0) ? C(1) : x); }
    template <class C> static DEVICE C finish(C sum) { return sum; }
    template <class C> static DEVICE C slope(C, C, C) { return C(0); }
};
/// The weight with a difference's sign; zero or NaN for a difference that is.
template <class C> DEVICE C signed_weight(C weight, C x) { return x > C(0) ? weight : x < C(0) ? C(0) - weight : x + C(0); }
struct SumNorm {
    template <class C> static DEVICE C add(C sum, C x) { return sum + abs(x); }
    template <class C> static DEVICE C finish(C sum) { return sum; }
    template <class C> static DEVICE C slope(C weight, C x, C) { return signed_weight(weight, x); }
};
struct EuclidNorm {
    template <class C> static DEVICE C add(C sum, C x) { return sum + x * x; }
    template <class C> static DEVICE C finish(C sum) { return sqrt(sum); }
    template <class C> static DEVICE C slope(C weight, C x, C) { return weight * x; }
};
struct GreatestNorm {
    template <class C> static DEVICE C add(C greatest, C x) { return abs(x) > greatest || x != x ? abs(x) : greatest; }
    template <class C> static DEVICE C finish(C greatest) { return greatest; }
    template <class C> static DEVICE C slope(C weight, C x, C farthest) {
        return abs(x) == farthest ? signed_weight(weight, x) : farthest != farthest ? farthest : C(0);
    }
};

/// The distance of each row from each other row of its matrix, or with `pairs` from each row after it.
template <class Norm, class C>
DEVICE void distances(const C* rows, const C* columns, C* out, u64 count, const PairSizes& sizes, bool pairs) {
    for (u64 at = first_element(); at < count; at += element_step()) {
        const u64 row = at / sizes.others, other = at % sizes.others, matrix = row / sizes.rows, own = row % sizes.rows;
        if (pairs && other <= own) {
            continue;
        }
        const C *const x = rows + row * sizes.width, *const y = columns + matrix * sizes.width * sizes.others + other;
        C sum = C(0);
        for (u64 k = 0; k < sizes.width; k++) {
            sum = Norm::add(sum, x[k] - y[k * sizes.others]);
        }
        out[pairs ? matrix * (sizes.rows * (sizes.rows - 1) / 2) + pair_of(own, other, sizes.rows) : at] = Norm::finish(sum);
    }
}

/// The gradients of rows: for each the sum over the others of a weight times the slope. A warp computes one element; its lanes sum in
/// the order of the CPU's.
template <class Norm, class C>
DEVICE void slopes(const C* weights, const C* rows, const C* columns, const C* distances, C* out, u64 count, const PairSizes& sizes,
                   bool pairs) {
    const u64 lane = threadIdx.x % 32;
    for (u64 at = first_element() / 32; at < count; at += element_step() / 32) {
        const u64 row = at / sizes.width, k = at % sizes.width, matrix = row / sizes.rows, own = row % sizes.rows;
        const C* const y = columns + (matrix * sizes.width + k) * sizes.others;
        C sum = C(0);
        for (u64 other = lane; other < sizes.others; other += 32) {
            C weight = C(0), distance = C(0);
            if (!pairs) {
                weight = weights[row * sizes.others + other];
                distance = distances[row * sizes.others + other];
            } else if (other != own) {
                const u64 pair = matrix * (sizes.rows * (sizes.rows - 1) / 2) +
                                 (own < other ? pair_of(own, other, sizes.rows) : pair_of(other, own, sizes.rows));
                weight = weights[pair];
                distance = distances[pair];
            }
            sum = sum + Norm::slope(weight, rows[at] - y[other], distance);
        }
        C total = C(0);
        for (int n = 0; n < 32; n++) {
            total = total + __shfl_sync(~0u, sum, n);
        }
        if (lane == 0) {
            out[at] = total;
        }
    }
}

} // namespace rushlight
