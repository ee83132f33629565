// The square of `tiles.cuh` in half precision: matrices are multiplied by warps, of which each has 16 rows and 32 columns.

#pragma once

#include "matrix.cuh"
#include "tiles.cuh"

namespace rushlight {

template <class T> struct HalfSquare {
    typedef f32 A;
    static constexpr int DEPTH = 32;
    /// The columns of a warp.
    static constexpr int ACROSS = 32;
    static_assert(THREADS / WARP * MATRIX * ACROSS == SQUARE * SQUARE, "the warps have the whole square");

    /// The eight halves behind each line put lines into different banks.
    struct alignas(sizeof(u128)) Slice {
        u16 lines[SQUARE][DEPTH + 8];
        DEVICE void put(int line, int place, T element) { lines[line][place] = element.bits; }
    };

    f32 sums[ACROSS / 8][4] = {};
    const Lane lane;
    const int row = lane.warp % (SQUARE / MATRIX) * MATRIX, column = lane.warp / (SQUARE / MATRIX) * ACROSS;

    DEVICE void add(const Slice& first, const Slice& second) {
#pragma unroll
        for (int k = 0; k < DEPTH; k += MATRIX) {
            u32 left[4];
            load_matrices(left, &first.lines[row + lane.below_row][k + lane.below_column]);
#pragma unroll
            for (int n = 0; n < ACROSS / MATRIX; n++) {
                u32 right[4];
                load_matrices(right, &second.lines[column + n * MATRIX + lane.beside_row][k + lane.beside_column]);
                add_product<T>(sums[2 * n], left, right[0], right[1]);
                add_product<T>(sums[2 * n + 1], left, right[2], right[3]);
            }
        }
    }

    /// Gives the thread's sums to a function, with their rows and columns.
    template <class Take> DEVICE void each(const Take& take) const {
#pragma unroll
        for (int i = 0; i < ACROSS / 8 * 4; i++) {
            take(row + lane.row + i % 4 / 2 * 8, column + i / 4 * 8 + lane.column + i % 2, sums[i / 4][i % 4]);
        }
    }
};

} // namespace rushlight
