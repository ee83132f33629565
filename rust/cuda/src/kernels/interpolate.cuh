// Weighted sums of a few elements of each plane, as in `rust/cpu/src/nn/interpolate.rs`, and the blocks of images, as in `fold.rs`
// beside it. All operands are row-major. See `sampling.rs`.
//
// Every result is computed by one thread, in the order of the CPU's loops.

#pragma once

#include "tiles.cuh"
#include "pool.cuh"

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

/// The elements after a dimension, those along it, points, and elements summed for each point.
struct LineSizes {
    u64 inner, area, places, taps;
};

/// Sums along a dimension, with the same weights for all lines; an index outside of the dimension contributes zero.
template <class T, class C>
DEVICE void line_taps(const T* x, const i64* indices, const C* weights, T* out, u64 count, const LineSizes& sizes) {
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
                             const LineSizes& sizes) {
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

/// Windows over rows and columns of images.
struct Blocks {
    PoolAxis high, wide;
};

/// Blocks as columns: for each plane a matrix of taps by blocks. Padding is zero.
template <class T> DEVICE void unfold(const T* images, T* columns, u64 count, const Blocks& blocks) {
    const u64 width = u64(blocks.wide.output), per_tap = u64(blocks.high.output) * width;
    const u64 across = u64(blocks.wide.kernel), taps = u64(blocks.high.kernel) * across;
    for (u64 at = first_element(); at < count; at += element_step()) {
        const u64 place = at % per_tap, tap = at / per_tap % taps, plane = at / per_tap / taps;
        const i64 row = i64(place / width) * blocks.high.stride + i64(tap / across) * blocks.high.dilation - blocks.high.padding;
        const i64 column = i64(place % width) * blocks.wide.stride + i64(tap % across) * blocks.wide.dilation - blocks.wide.padding;
        const bool inside = row >= 0 && row < blocks.high.input && column >= 0 && column < blocks.wide.input;
        columns[at] = inside ? images[(i64(plane) * blocks.high.input + row) * blocks.wide.input + column] : T();
    }
}

/// The window whose tap reads an element, or -1.
DEVICE i64 window_of(const PoolAxis& axis, i64 element, i64 tap) {
    const i64 start = element + axis.padding - tap * axis.dilation;
    return start >= 0 && start % axis.stride == 0 && start / axis.stride < axis.output ? start / axis.stride : -1;
}

/// Columns summed into images.
template <class T, class C> DEVICE void fold(const T* columns, T* images, u64 count, const Blocks& blocks) {
    const u64 width = u64(blocks.wide.input), area = u64(blocks.high.input) * width;
    for (u64 at = first_element(); at < count; at += element_step()) {
        const i64 plane = i64(at / area), row = i64(at % area / width), column = i64(at % width);
        C sum = C();
        for (i64 i = 0; i < blocks.high.kernel; i++) {
            const i64 y = window_of(blocks.high, row, i);
            for (i64 j = 0; y >= 0 && j < blocks.wide.kernel; j++) {
                const i64 x = window_of(blocks.wide, column, j);
                if (x >= 0) {
                    const i64 tap = (plane * blocks.high.kernel + i) * blocks.wide.kernel + j;
                    sum = plus(sum, convert<C>(columns[(tap * blocks.high.output + y) * blocks.wide.output + x]));
                }
            }
        }
        images[at] = convert<T>(sum);
    }
}

} // namespace rushlight
