// Products of matrices: `alpha * (a @ b) + beta * addend`, for batches and any strides.

#pragma once

#include "tiles.cuh"

namespace rushlight {

/// The result, the two factors and the addend: their first bytes, and the distances between rows and between columns.
struct Matrices {
    u8* at[4];
    i64 rows[4], columns[4];
};
enum { RESULT, FIRST, SECOND, ADDEND };

struct Sizes {
    u64 rows, columns, inner;
};

template <class T, class A>
DEVICE void multiply(const Matrices& matrices, const Loops<4>& batch, u64 batches, const Sizes& sizes, bool has_addend,
                     const Numbers& numbers) {
    __shared__ SquareSlice<A> first, second;
    const u64 across = (sizes.columns + SQUARE - 1) / SQUARE;
    const u64 row = blockIdx.x / across * SQUARE, column = blockIdx.x % across * SQUARE;
    const A alpha = number<A>(numbers, 0), beta = number<A>(numbers, 1);
    for (u64 at = blockIdx.y; at < batches; at += gridDim.y) {
        i64 offsets[4] = {};
        batch.move(at, offsets);
        const StridedLines<T> rows{matrices.at[FIRST] + offsets[FIRST], matrices.rows[FIRST], matrices.columns[FIRST], row, sizes.rows,
                                   sizes.inner};
        const StridedLines<T> columns{matrices.at[SECOND] + offsets[SECOND], matrices.columns[SECOND], matrices.rows[SECOND], column,
                                      sizes.columns, sizes.inner};
        Square<A> square;
        add_products(square, first, second, rows, columns, 0, sizes.inner);
        square.each([&](int own_row, int own_column, A sum) {
            const u64 r = row + own_row, c = column + own_column;
            if (r >= sizes.rows || c >= sizes.columns) {
                return;
            }
            const auto address = [&](int n) {
                return matrices.at[n] + offsets[n] + i64(r) * matrices.rows[n] + i64(c) * matrices.columns[n];
            };
            A value = times(alpha, sum);
            if (has_addend) {
                value = plus(value, times(beta, convert<A>(load<T>(address(ADDEND)))));
            }
            store<T>(address(RESULT), value);
        });
    }
}

} // namespace rushlight
