// The results of attention in half precision by products of matrices in registers (`matrix.cuh`). A warp computes the results of 16
// queries, a block those of 128, and keys and values pass through shared memory in tiles of 64. The weights of a tile stay in
// registers: as sums they have the layout that the second product needs.
//
// Values are copied while scores are computed, and the next keys while values are added. Scores are in units of a binary
// logarithm.

#pragma once

#include "attention.cuh"
#include "matrix.cuh"

namespace rushlight {

/// The queries of a warp and of a block.
constexpr int WARP_QUERIES = 16;
constexpr int BLOCK_QUERIES = THREADS / WARP * WARP_QUERIES;

/// Rows of queries, and then of keys and values. The eight halves behind each row put rows into different banks.
template <int COLUMNS> struct alignas(sizeof(u128)) HalfTile {
    typedef u16 Row[COLUMNS * SIDE + 8];
    Row rows[2 * SQUARE];
};
static_assert(BLOCK_QUERIES == 2 * SQUARE);

/// Begins to copy rows to shared memory, with zeros in place of what is outside of the operand.
template <int COUNT, int COLUMNS>
DEVICE void copy_rows(typename HalfTile<COLUMNS>::Row* to, const Side& from, u32 first, u32 width) {
    constexpr int ACROSS = COLUMNS * SIDE, PACK = sizeof(u128) / sizeof(u16), PACKS = ACROSS / PACK;
    if (from.column == sizeof(u16) && (u64(from.at) | u64(from.row) | width * sizeof(u16)) % sizeof(u128) == 0) {
#pragma unroll 1
        for (int n = int(threadIdx.x); n < COUNT * PACKS; n += THREADS) {
            const u32 row = n / PACKS, column = n % PACKS * PACK;
            const bool inside = first + row < from.count && column < width;
            begin_copy(&to[row][column], inside ? from.at + i64(first + row) * from.row + column * sizeof(u16) : from.at, inside);
        }
    } else {
#pragma unroll 1
        for (int n = int(threadIdx.x); n < COUNT * ACROSS; n += THREADS) {
            const u32 row = n / ACROSS, column = n % ACROSS;
            const bool inside = first + row < from.count && column < width;
            to[row][column] = inside ? load<u16>(from.at + i64(first + row) * from.row + i64(column) * from.column) : 0;
        }
    }
    // The lanes meet again before they load matrices together.
    __syncwarp();
}

/// The greatest number, or the sum, over the four lanes that share rows.
DEVICE f32 greatest_of_quad(f32 x) {
    for (int flip = 1; flip < 4; flip *= 2) {
        const f32 other = __shfl_xor_sync(~0u, x, flip);
        x = other > x ? other : x;
    }
    return x;
}
DEVICE f32 sum_of_quad(f32 x) {
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}

/// Applies masks to a lane's scores of one query and 64 keys, which are the numbers `place` and `place + 1` of each pack.
template <class M>
DEVICE void mask_row(f32 (&scores)[SQUARE / 8][4], int place, u32 query, u32 key, int own_column, const AttentionSizes& sizes,
                     const u8* mask, i64 row_step, i64 column_step) {
    const int seen = query < sizes.queries ? int(u32(seen_keys(sizes, query, 1)) - key) : 0;
    mask += i64(query) * row_step + i64(key + own_column) * column_step;
#pragma unroll
    for (int i = 0; i < SQUARE / 4; i++) {
        f32& score = scores[i / 2][place + i % 2];
        const u8* const at = mask;
        mask += i % 2 == 0 ? column_step : 7 * column_step;
        if (i / 2 * 8 + i % 2 + own_column >= seen) {
            score = neg_infinity<f32>();
        } else if constexpr (same<M, Bool>) {
            score = load<Bool>(at) ? score : neg_infinity<f32>();
        } else if constexpr (!same<M, Unmasked>) {
            score += convert<f32>(load<M>(at)) * f32(LOG2_E);
        }
    }
}

/// The blocks that `attention_half` shares a multiprocessor with: as many as registers allow.
template <class M, int COLUMNS> constexpr int HALF_BLOCKS = COLUMNS <= (same<M, Unmasked> ? 4 : 3) ? 2 : 1;

/// The same as `attention`, for fewer than 2^31 queries, keys and blocks. A block has one place of the batch.
template <class T, class M, int COLUMNS>
DEVICE void attention_half(const AttentionOperands& operands, const Loops<5>& batch, u64 batches, const AttentionSizes& sizes,
                           u8* out, f32* log_sums) {
    __shared__ HalfTile<COLUMNS> tile;
    typename HalfTile<COLUMNS>::Row* const key_rows = tile.rows;
    typename HalfTile<COLUMNS>::Row* const value_rows = tile.rows + SQUARE;
    const int warp = int(threadIdx.x) / WARP, lane = int(threadIdx.x) % WARP;
    const int own_row = lane / 4, own_column = lane % 4 * 2;
    // The row of a matrix whose address a lane gives. Of four matrices the second is below the first one, or beside it.
    const int below_row = lane % 16, below_column = lane / 16 * 8;
    const int beside_row = lane / 16 * 8 + lane % 8, beside_column = lane / 8 % 2 * 8;
    // With a causal mask the last queries take the longest, and begin first.
    const u32 blocks = gridDim.x / u32(batches), at = blockIdx.x / blocks;
    const u32 first = (blocks - 1 - blockIdx.x % blocks) * BLOCK_QUERIES, query = first + warp * WARP_QUERIES;
    const u32 end = seen_keys(sizes, first, BLOCK_QUERIES);
    const u32 own_end = query < sizes.queries ? seen_keys(sizes, query, WARP_QUERIES) : 0;
    const u32 seen_by_all = seen_keys(sizes, query, 1);
    i64 offsets[5] = {};
    batch.move(u64(at), offsets);
    const Side queries = side_of(operands, offsets, QUERY, sizes.queries), keys = side_of(operands, offsets, KEY, sizes.keys);
    const Side values = side_of(operands, offsets, VALUE, sizes.keys);
    const u8* const mask = operands.at[MASK] + offsets[MASK];
    u32 left[COLUMNS][4], right[4];
    copy_rows<BLOCK_QUERIES, COLUMNS>(tile.rows, queries, first, sizes.width);
    await_copies();
    __syncthreads();
#pragma unroll
    for (int k = 0; k < COLUMNS; k++) {
        load_matrices(left[k], &tile.rows[warp * WARP_QUERIES + below_row][k * SIDE + below_column]);
    }
    __syncthreads();
    f32 results[2 * COLUMNS][4] = {}, greatest[2] = {neg_infinity<f32>(), neg_infinity<f32>()}, totals[2] = {};
    if (end > 0) {
        copy_rows<SQUARE, COLUMNS>(key_rows, keys, 0, sizes.width);
    }
    for (u32 key = 0; key < end; key += SQUARE) {
        await_copies();
        __syncthreads();
        copy_rows<SQUARE, COLUMNS>(value_rows, values, key, sizes.depth);
        u32 weights[SQUARE / SIDE][4];
        if (key < own_end) {
            f32 scores[SQUARE / 8][4] = {};
#pragma unroll
            for (int k = 0; k < COLUMNS; k++) {
#pragma unroll
                for (int n = 0; n < SQUARE / SIDE; n++) {
                    load_matrices(right, &key_rows[n * SIDE + beside_row][k * SIDE + beside_column]);
                    add_product<T>(scores[2 * n], left[k], right[0], right[1]);
                    add_product<T>(scores[2 * n + 1], left[k], right[2], right[3]);
                }
            }
#pragma unroll
            for (int i = 0; i < SQUARE / 2; i++) {
                scores[i / 4][i % 4] *= sizes.scale * f32(LOG2_E);
            }
            if (!same<M, Unmasked> || key + SQUARE > seen_by_all) {
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    mask_row<M>(scores, half * 2, query + own_row + half * 8, key, own_column, sizes, mask,
                                operands.rows[MASK], operands.columns[MASK]);
                }
            }
#pragma unroll
            for (int half = 0; half < 2; half++) {
                f32 most = greatest[half];
#pragma unroll
                for (int i = 0; i < SQUARE / 4; i++) {
                    const f32 score = scores[i / 2][half * 2 + i % 2];
                    most = score > most ? score : most;
                }
                most = greatest_of_quad(most);
                // A query that has seen nothing yet has sums of zero.
                const f32 base = most == neg_infinity<f32>() ? 0.0f : most, factor = quick_exp2(greatest[half] - base);
                greatest[half] = most;
                totals[half] *= factor;
#pragma unroll
                for (int i = 0; i < SQUARE / 4; i++) {
                    f32& score = scores[i / 2][half * 2 + i % 2];
                    score = quick_exp2(score - base);
                    totals[half] += score;
                }
#pragma unroll
                for (int i = 0; i < SQUARE / 8; i++) {
                    weights[i / 2][i % 2 * 2 + half] = pair_of<T>(scores[i][half * 2], scores[i][half * 2 + 1]);
                }
#pragma unroll
                for (int i = 0; i < 4 * COLUMNS; i++) {
                    results[i / 2][half * 2 + i % 2] *= factor;
                }
            }
        }
        await_copies();
        __syncthreads();
        if (key + SQUARE < end) {
            copy_rows<SQUARE, COLUMNS>(key_rows, keys, key + SQUARE, sizes.width);
        }
        if (key < own_end) {
#pragma unroll
            for (int k = 0; k < SQUARE / SIDE; k++) {
#pragma unroll
                for (int n = 0; n < COLUMNS; n++) {
                    load_transposed(right, &value_rows[k * SIDE + below_row][n * SIDE + below_column]);
                    add_product<T>(results[2 * n], weights[k], right[0], right[1]);
                    add_product<T>(results[2 * n + 1], weights[k], right[2], right[3]);
                }
            }
        }
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const u32 row = query + own_row + half * 8;
        const f32 total = sum_of_quad(totals[half]);
        const bool nothing = total == 0.0f;
        const f32 factor = nothing ? 0.0f : 1.0f / total;
        if (row < sizes.queries && own_column == 0) {
            log_sums[u64(at) * sizes.queries + row] =
                nothing ? infinity<f32>() : greatest[half] * f32(LN_2) + f32(libm::ln(f64(total)));
        }
#pragma unroll
        for (int i = 0; i < 4 * COLUMNS; i++) {
            const u32 column = i / 2 * 8 + own_column + i % 2;
            if (row < sizes.queries && column < sizes.depth) {
                store<T>(out + ((u64(at) * sizes.queries + row) * sizes.depth + column) * sizeof(T),
                         results[i / 2][half * 2 + i % 2] * factor);
            }
        }
    }
}

} // namespace rushlight
