// Weighted sums of a few elements along a dimension, as in `rust/cpu/src/nn/taps.rs`. All operands are row-major. See `taps.rs`.
//
// Every result is computed by one thread, in the order of the CPU's loops.

#pragma once

#include "tiles.cuh"

namespace rushlight {

/// The elements after a dimension, those along it, points, and elements summed for each point.
struct TapsSizes {
    u64 inner, area, places, taps;
};

/// Sums along a dimension, with the same weights for all lines; an index outside of the dimension contributes zero.
template <class T, class C>
DEVICE void line_taps(const T* x, const i64* indices, const C* weights, T* out, u64 count, const TapsSizes& sizes) {
    for (u64 at = first_element(); at < count; at += element_step()) {
        const u64 row = at / sizes.inner, first = row % sizes.places * sizes.taps;
        const T* const own = x + row / sizes.places * sizes.area * sizes.inner + at % sizes.inner;
        C sum = C(0);
        for (u64 k = first; k < first + sizes.taps; k++) {
            if (u64(indices[k]) < sizes.area) {
                const C part = weights[k] * convert<C>(own[u64(indices[k]) * sizes.inner]);
                // One element with the weight one keeps its sign, even if it is zero.
                sum = k == first ? part : sum + part;
            }
        }
        out[at] = convert<T>(sum);
    }
}

/// The values at the points, distributed over the elements that were summed for them. `order` has the taps sorted by their indices,
/// and equal ones in their order.
template <class T, class C>
DEVICE void line_taps_spread(const T* values, const i64* indices, const C* weights, const i64* order, T* out, u64 count,
                             const TapsSizes& sizes) {
    const u64 taps = sizes.places * sizes.taps;
    for (u64 at = first_element(); at < count; at += element_step()) {
        const u64 row = at / sizes.inner;
        const i64 own = row % sizes.area;
        const T* const from = values + row / sizes.area * sizes.places * sizes.inner + at % sizes.inner;
        u64 low = 0, high = taps;
        while (low < high) {
            const u64 half = low + (high - low) / 2;
            (indices[order[half]] < own ? low : high) = indices[order[half]] < own ? half + 1 : half;
        }
        C sum = C(0);
        for (; low < taps && indices[order[low]] == own; low++) {
            const u64 tap = u64(order[low]);
            sum += weights[tap] * convert<C>(from[tap / sizes.taps * sizes.inner]);
        }
        out[at] = convert<T>(sum);
    }
}

} // namespace rushlight
