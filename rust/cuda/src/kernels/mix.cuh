// Weighted sums of a few elements of each plane, as in `rust/cpu/src/nn/mix.rs`. All operands are row-major. See `mix.rs`.
//
// Every result is computed by one thread, in the order of the CPU's loops.

#pragma once

#include "tiles.cuh"

namespace rushlight {

/// Items, channels, elements of a plane, points, and elements mixed for each point.
struct MixSizes {
    u64 items, channels, area, places, taps;
};

/// The mixture at each point; an index outside of the plane contributes zero.
template <class T, class C>
DEVICE void mix(const T* x, const i64* indices, const T* weights, T* out, u64 count, const MixSizes& sizes) {
    for (u64 at = first_element(); at < count; at += element_step()) {
        const u64 plane = at / sizes.places, first = (plane / sizes.channels * sizes.places + at % sizes.places) * sizes.taps;
        C sum = C(0);
        for (u64 k = first; k < first + sizes.taps; k++) {
            const bool inside = u64(indices[k]) < sizes.area;
            // A weight of NaN gives NaN, even outside of the plane.
            sum += convert<C>(weights[k]) * (inside ? convert<C>(x[plane * sizes.area + u64(indices[k])]) : C(0));
        }
        out[at] = convert<T>(sum);
    }
}

/// The values at the points, distributed over the elements that were mixed for them. `order` has the taps of each item sorted by
/// their indices, and equal ones in their order.
template <class T, class C>
DEVICE void mix_spread(const T* values, const i64* indices, const T* weights, const i64* order, T* out, u64 count,
                       const MixSizes& sizes) {
    const u64 taps = sizes.places * sizes.taps;
    for (u64 at = first_element(); at < count; at += element_step()) {
        const u64 plane = at / sizes.area, item = plane / sizes.channels * taps;
        const i64 own = i64(at % sizes.area);
        u64 low = 0, high = taps;
        while (low < high) {
            const u64 half = low + (high - low) / 2;
            (indices[item + order[item + half]] < own ? low : high) = indices[item + order[item + half]] < own ? half + 1 : half;
        }
        C sum = C(0);
        for (; low < taps && indices[item + order[item + low]] == own; low++) {
            const u64 tap = u64(order[item + low]);
            sum += convert<C>(weights[item + tap]) * convert<C>(values[plane * sizes.places + tap / sizes.taps]);
        }
        out[at] = convert<T>(sum);
    }
}

/// The products of a point's values with the elements that were mixed for it, summed over the channels.
template <class T, class C>
DEVICE void mix_meet(const T* values, const T* x, const i64* indices, T* out, u64 count, const MixSizes& sizes) {
    for (u64 at = first_element(); at < count; at += element_step()) {
        const u64 point = at / sizes.taps, item = point / sizes.places, place = point % sizes.places;
        C sum = C(0);
        if (u64(indices[at]) < sizes.area) {
            for (u64 plane = item * sizes.channels; plane < (item + 1) * sizes.channels; plane++) {
                sum += convert<C>(values[plane * sizes.places + place]) * convert<C>(x[plane * sizes.area + u64(indices[at])]);
            }
        }
        out[at] = convert<T>(sum);
    }
}

} // namespace rushlight
