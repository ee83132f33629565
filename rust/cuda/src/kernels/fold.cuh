// The blocks of images, as in `rust/cpu/src/nn/fold.rs`. All operands are row-major. See `fold.rs`.
//
// Every result is computed by one thread, in the order of the CPU's loops.

#pragma once

#include "tiles.cuh"
#include "pool.cuh"

namespace rushlight {

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
