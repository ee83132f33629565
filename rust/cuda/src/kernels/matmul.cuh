// Products of matrices: `alpha * (a @ b) + beta * addend`, for batches and any strides. A block computes a square of 64 rows and
// columns, each of its threads 16 elements; rows and columns pass through shared memory in slices of 16.
//
// Each element is summed in the order of the inner dimension.

#pragma once

#include "geometry.cuh"
#include "integers.cuh"

namespace rushlight {

constexpr int SQUARE = 64;
constexpr int SLICE = 16;
constexpr int OWN = 4;
constexpr int SIDE = SQUARE / OWN;

template <class A> DEVICE A multiply_add(A sum, A x, A y) {
    if constexpr (floating<A>) {
        return mul_add(x, y, sum);
    } else if constexpr (is_complex<A>) {
        return sum + x * y;
    } else {
        return wrapping_add(sum, wrapping_mul(x, y));
    }
}

template <class A> DEVICE A times(A x, A y) {
    if constexpr (floating<A> || is_complex<A>) {
        return x * y;
    } else {
        return wrapping_mul(x, y);
    }
}

template <class A> DEVICE A plus(A x, A y) {
    if constexpr (floating<A> || is_complex<A>) {
        return x + y;
    } else {
        return wrapping_add(x, y);
    }
}

/// The result, the two factors and the addend: their first bytes, and the distances between rows and between columns.
struct Matrices {
    u8* at[4];
    i64 rows[4], columns[4];
};
enum { RESULT, FIRST, SECOND, ADDEND };

struct Sizes {
    u64 rows, columns, inner;
};

/// Copies a slice of a factor to shared memory: `lines` are the rows of the first one, or the columns of the second.
template <class T, class A>
DEVICE void load_slice(A* to, const u8* from, i64 line_step, i64 inner_step, u64 line, u64 lines, u64 inner, u64 end) {
    for (int n = 0; n < SQUARE * SLICE / THREADS; n++) {
        const int item = int(threadIdx.x) + n * THREADS;
        // Neighbouring threads read neighbouring elements.
        const bool along = inner_step < line_step;
        const int own_line = along ? item / SLICE : item % SQUARE, own_inner = along ? item % SLICE : item / SQUARE;
        const u64 l = line + own_line, k = inner + own_inner;
        const bool inside = l < lines && k < end;
        to[own_inner * SQUARE + own_line] =
            inside ? convert<A>(load<T>(from + i64(l) * line_step + i64(k) * inner_step)) : A();
    }
}

template <class T, class A>
DEVICE void multiply(const Matrices& matrices, const Loops<4>& batch, u64 batches, const Sizes& sizes, bool has_addend,
                     const Numbers& numbers) {
    __shared__ u128 first_bytes[SQUARE * SLICE * sizeof(A) / sizeof(u128)];
    __shared__ u128 second_bytes[SQUARE * SLICE * sizeof(A) / sizeof(u128)];
    A* const first = (A*)first_bytes;
    A* const second = (A*)second_bytes;
    const u64 across = (sizes.columns + SQUARE - 1) / SQUARE;
    const u64 row = blockIdx.x / across * SQUARE, column = blockIdx.x % across * SQUARE;
    const int own_row = int(threadIdx.x) / SIDE, own_column = int(threadIdx.x) % SIDE;
    const A alpha = number<A>(numbers, 0), beta = number<A>(numbers, 1);
    for (u64 at = blockIdx.y; at < batches; at += gridDim.y) {
        i64 offsets[4] = {};
        batch.move(at, offsets);
        A sums[OWN][OWN];
        for (int i = 0; i < OWN * OWN; i++) {
            sums[i / OWN][i % OWN] = A();
        }
        for (u64 inner = 0; inner < sizes.inner; inner += SLICE) {
            __syncthreads();
            load_slice<T>(first, matrices.at[FIRST] + offsets[FIRST], matrices.rows[FIRST], matrices.columns[FIRST], row,
                          sizes.rows, inner, sizes.inner);
            load_slice<T>(second, matrices.at[SECOND] + offsets[SECOND], matrices.columns[SECOND], matrices.rows[SECOND],
                          column, sizes.columns, inner, sizes.inner);
            __syncthreads();
            const int depth = sizes.inner - inner < SLICE ? int(sizes.inner - inner) : SLICE;
            for (int k = 0; k < depth; k++) {
                for (int i = 0; i < OWN * OWN; i++) {
                    sums[i / OWN][i % OWN] =
                        multiply_add(sums[i / OWN][i % OWN], first[k * SQUARE + own_row + i / OWN * SIDE],
                                     second[k * SQUARE + own_column + i % OWN * SIDE]);
                }
            }
        }
        for (int i = 0; i < OWN * OWN; i++) {
            const u64 r = row + own_row + i / OWN * SIDE, c = column + own_column + i % OWN * SIDE;
            if (r >= sizes.rows || c >= sizes.columns) {
                continue;
            }
            const auto address = [&](int n) {
                return matrices.at[n] + offsets[n] + i64(r) * matrices.rows[n] + i64(c) * matrices.columns[n];
            };
            A value = times(alpha, sums[i / OWN][i % OWN]);
            if (has_addend) {
                value = plus(value, times(beta, convert<A>(load<T>(address(ADDEND)))));
            }
            store<T>(address(RESULT), value);
        }
    }
}

} // namespace rushlight
