// Attention without the matrix of scores: a block computes the results of 64 queries, or the gradients of 64 keys, and passes over
// the others in tiles of 64. Only a tile of scores exists at a time. See `attention.rs`.
//
// Scores are summed in `f32`. The weights of a query are relative to its greatest score so far; sums are corrected when a greater
// one is found.

#pragma once

#include "elementary.cuh"
#include "tiles.cuh"

namespace rushlight {

/// The rows, and the columns, of a thread in a tile, and the distance between them.
constexpr int LINES = Square<f32>::LINES, APART = Square<f32>::APART;
/// The rows that are weighted at once.
constexpr int SLICE = 16;
/// The distance between rows of a tile in shared memory, odd so that a column's elements lie in different banks.
constexpr int TILE_ROW = SQUARE + 1;

/// First bytes, and the distances between rows and between columns.
struct AttentionOperands {
    u8* at[5];
    i64 rows[5], columns[5];
};
enum { QUERY, KEY, VALUE, MASK, GRAD };

struct AttentionSizes {
    u64 queries, keys, width, depth;
    f32 scale;
    u32 causal;
};

/// No mask.
struct Unmasked {
    u8 none;
};

/// The rows of an operand at one place of the batch.
struct OperandRows {
    const u8* at;
    i64 row, column;
    u64 count;
};

/// What the threads of a block share.
template <int COLUMNS> struct AttentionTile {
    SquareSlice<f32> first, second;
    f32 rows[SLICE * COLUMNS * APART];
    f32 weights[SQUARE * TILE_ROW];
};

/// The products of 64 rows of one operand with 64 rows of another.
template <class T, class Tile>
DEVICE void tile_product(f32 (&sums)[LINES][LINES], Tile& tile, const OperandRows& a, u64 row, const OperandRows& b, u64 column, u64 inner) {
    Square<f32> square;
    const StridedLines<T> rows{a.at, a.row, a.column, row, a.count, inner}, columns{b.at, b.row, b.column, column, b.count, inner};
    add_products(square, tile.first, tile.second, rows, columns, 0, inner);
#pragma unroll
    for (int i = 0; i < LINES * LINES; i++) {
        sums[i / LINES][i % LINES] = square.sums[i / LINES][i % LINES];
    }
}

/// Adds the products of a tile of weights with 64 rows, of which a thread has every 16th column.
template <class T, int COLUMNS>
DEVICE void tile_apply(f32 (&sums)[LINES][COLUMNS], const f32* weights, f32* rows, const OperandRows& b, u64 first, u64 width) {
    constexpr int ACROSS = COLUMNS * APART;
    const int own_row = int(threadIdx.x) / APART, own_column = int(threadIdx.x) % APART;
    for (int start = 0; start < SQUARE && first + start < b.count; start += SLICE) {
        __syncthreads();
        for (int n = int(threadIdx.x); n < SLICE * ACROSS; n += THREADS) {
            const u64 row = first + start + n / ACROSS, column = n % ACROSS;
            rows[n] = row < b.count && column < width
                          ? convert<f32>(load<T>(b.at + i64(row) * b.row + i64(column) * b.column))
                          : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < SLICE; k++) {
            for (int i = 0; i < LINES; i++) {
                const f32 weight = weights[(own_row + i * APART) * TILE_ROW + start + k];
                for (int c = 0; c < COLUMNS; c++) {
                    sums[i][c] = mul_add(weight, rows[k * ACROSS + own_column + c * APART], sums[i][c]);
                }
            }
        }
    }
}

/// The score of a pair, from the product of its operands.
template <class M>
DEVICE f32 score_of(f32 product, u64 query, u64 key, const AttentionSizes& sizes, const u8* mask, i64 row, i64 column) {
    if (query >= sizes.queries || key >= sizes.keys || (sizes.causal && key > query)) {
        return neg_infinity<f32>();
    }
    const f32 score = product * sizes.scale;
    if constexpr (same<M, Unmasked>) {
        return score;
    } else if constexpr (same<M, Bool>) {
        return load<Bool>(mask + i64(query) * row + i64(key) * column) ? score : neg_infinity<f32>();
    } else {
        return score + convert<f32>(load<M>(mask + i64(query) * row + i64(key) * column));
    }
}

DEVICE OperandRows rows_of(const AttentionOperands& operands, const i64* offsets, int n, u64 count) {
    return {operands.at[n] + offsets[n], operands.rows[n], operands.columns[n], count};
}

/// The greatest number, or the sum, over the 16 threads that share rows.
DEVICE f32 greatest_of_row(f32 x) {
    for (int flip = APART / 2; flip > 0; flip /= 2) {
        const f32 other = __shfl_xor_sync(~0u, x, flip);
        x = other > x ? other : x;
    }
    return x;
}
DEVICE f32 sum_of_row(f32 x) {
    for (int flip = APART / 2; flip > 0; flip /= 2) {
        x += __shfl_xor_sync(~0u, x, flip);
    }
    return x;
}

/// The end of the keys that some of `count` queries see.
DEVICE u64 seen_keys(const AttentionSizes& sizes, u64 query, u64 count) {
    return sizes.causal && query + count < sizes.keys ? query + count : sizes.keys;
}

/// Results, row-major, and for each query the logarithm of the sum of its scores' exponentials.
template <class T, class M, int COLUMNS>
DEVICE void attention(const AttentionOperands& operands, const Loops<5>& batch, u64 batches, const AttentionSizes& sizes, u8* out,
                      f32* log_sums) {
    __shared__ AttentionTile<COLUMNS> tile;
    const int own_row = int(threadIdx.x) / APART, own_column = int(threadIdx.x) % APART;
    const u64 query = u64(blockIdx.x) * SQUARE;
    for (u64 at = blockIdx.y; at < batches; at += gridDim.y) {
        i64 offsets[5] = {};
        batch.move(at, offsets);
        const OperandRows queries = rows_of(operands, offsets, QUERY, sizes.queries), keys = rows_of(operands, offsets, KEY, sizes.keys);
        const OperandRows values = rows_of(operands, offsets, VALUE, sizes.keys);
        const u8* const mask = operands.at[MASK] + offsets[MASK];
        f32 results[LINES][COLUMNS], greatest[LINES], totals[LINES];
        for (int i = 0; i < LINES; i++) {
            greatest[i] = neg_infinity<f32>();
            totals[i] = 0.0f;
            for (int c = 0; c < COLUMNS; c++) {
                results[i][c] = 0.0f;
            }
        }
        const u64 end = seen_keys(sizes, query, SQUARE);
        for (u64 key = 0; key < end; key += SQUARE) {
            f32 scores[LINES][LINES];
            tile_product<T>(scores, tile, queries, query, keys, key, sizes.width);
            for (int i = 0; i < LINES; i++) {
                f32 most = greatest[i];
                for (int j = 0; j < LINES; j++) {
                    scores[i][j] = score_of<M>(scores[i][j], query + own_row + i * APART, key + own_column + j * APART, sizes, mask,
                                               operands.rows[MASK], operands.columns[MASK]);
                    most = scores[i][j] > most ? scores[i][j] : most;
                }
                most = greatest_of_row(most);
                // A query that has seen nothing yet has no sums to correct.
                const f32 base = most == neg_infinity<f32>() ? 0.0f : most;
                const f32 factor = greatest[i] == neg_infinity<f32>() ? 1.0f : exp(greatest[i] - base);
                greatest[i] = most;
                f32 total = 0.0f;
                for (int j = 0; j < LINES; j++) {
                    const f32 weight = exp(scores[i][j] - base);
                    total += weight;
                    tile.weights[(own_row + i * APART) * TILE_ROW + own_column + j * APART] = weight;
                }
                totals[i] = totals[i] * factor + sum_of_row(total);
                for (int c = 0; c < COLUMNS; c++) {
                    results[i][c] *= factor;
                }
            }
            tile_apply<T, COLUMNS>(results, tile.weights, tile.rows, values, key, sizes.depth);
            __syncthreads();
        }
        for (int i = 0; i < LINES; i++) {
            const u64 row = query + own_row + i * APART;
            if (row >= sizes.queries) {
                continue;
            }
            const bool nothing = totals[i] == 0.0f;
            if (own_column == 0) {
                log_sums[at * sizes.queries + row] = nothing ? infinity<f32>() : greatest[i] + f32(libm::ln(f64(totals[i])));
            }
            for (int c = 0; c < COLUMNS; c++) {
                const u64 column = own_column + c * APART;
                if (column < sizes.depth) {
                    store<T>(out + ((at * sizes.queries + row) * sizes.depth + column) * sizeof(T),
                             nothing ? 0.0f : results[i][c] / totals[i]);
                }
            }
        }
    }
}

/// Stores the rows of a block, times a number.
template <class T, int COLUMNS>
DEVICE void store_rows(u8* out, const f32 (&sums)[LINES][COLUMNS], f32 scale, u64 first, u64 count, u64 width) {
    const int own_row = int(threadIdx.x) / APART, own_column = int(threadIdx.x) % APART;
    for (int i = 0; i < LINES * COLUMNS; i++) {
        const u64 row = first + own_row + i / COLUMNS * APART, column = own_column + i % COLUMNS * APART;
        if (row < count && column < width) {
            store<T>(out + (row * width + column) * sizeof(T), sums[i / COLUMNS][i % COLUMNS] * scale);
        }
    }
}

/// The gradients of 64 queries. `means` are the sums of the products of results and their gradients.
template <class T, class M, int COLUMNS>
DEVICE void attention_of_queries(const AttentionOperands& operands, const Loops<5>& batch, u64 batches,
                                 const AttentionSizes& sizes, const f32* log_sums, const f32* means, u8* out) {
    __shared__ AttentionTile<COLUMNS> tile;
    const int own_row = int(threadIdx.x) / APART, own_column = int(threadIdx.x) % APART;
    const u64 query = u64(blockIdx.x) * SQUARE;
    for (u64 at = blockIdx.y; at < batches; at += gridDim.y) {
        i64 offsets[5] = {};
        batch.move(at, offsets);
        const OperandRows queries = rows_of(operands, offsets, QUERY, sizes.queries), keys = rows_of(operands, offsets, KEY, sizes.keys);
        const OperandRows values = rows_of(operands, offsets, VALUE, sizes.keys), grads = rows_of(operands, offsets, GRAD, sizes.queries);
        const u8* const mask = operands.at[MASK] + offsets[MASK];
        f32 results[LINES][COLUMNS] = {};
        const u64 end = seen_keys(sizes, query, SQUARE);
        for (u64 key = 0; key < end; key += SQUARE) {
            f32 scores[LINES][LINES], away[LINES][LINES];
            tile_product<T>(scores, tile, queries, query, keys, key, sizes.width);
            tile_product<T>(away, tile, grads, query, values, key, sizes.depth);
            for (int i = 0; i < LINES * LINES; i++) {
                const int place = own_row + i / LINES * APART, other = own_column + i % LINES * APART;
                const u64 row = query + place, number = at * sizes.queries + row;
                const f32 score = score_of<M>(scores[i / LINES][i % LINES], row, key + other, sizes, mask, operands.rows[MASK],
                                              operands.columns[MASK]);
                tile.weights[place * TILE_ROW + other] =
                    row < sizes.queries ? exp(score - log_sums[number]) * (away[i / LINES][i % LINES] - means[number]) : 0.0f;
            }
            tile_apply<T, COLUMNS>(results, tile.weights, tile.rows, keys, key, sizes.width);
            __syncthreads();
        }
        store_rows<T, COLUMNS>(out + at * sizes.queries * sizes.width * sizeof(T), results, sizes.scale, query, sizes.queries,
                               sizes.width);
    }
}

/// The gradients of 64 keys and of their values.
template <class T, class M, int COLUMNS>
DEVICE void attention_of_keys(const AttentionOperands& operands, const Loops<5>& batch, u64 batches, const AttentionSizes& sizes,
                              const f32* log_sums, const f32* means, u8* of_keys, u8* of_values) {
    __shared__ AttentionTile<COLUMNS> tile;
    const int own_row = int(threadIdx.x) / APART, own_column = int(threadIdx.x) % APART;
    const u64 key = u64(blockIdx.x) * SQUARE;
    for (u64 at = blockIdx.y; at < batches; at += gridDim.y) {
        i64 offsets[5] = {};
        batch.move(at, offsets);
        const OperandRows queries = rows_of(operands, offsets, QUERY, sizes.queries), keys = rows_of(operands, offsets, KEY, sizes.keys);
        const OperandRows values = rows_of(operands, offsets, VALUE, sizes.keys), grads = rows_of(operands, offsets, GRAD, sizes.queries);
        const u8* const mask = operands.at[MASK] + offsets[MASK];
        f32 to_keys[LINES][COLUMNS] = {}, to_values[LINES][COLUMNS] = {};
        // With a causal mask earlier queries do not see these keys.
        for (u64 query = sizes.causal ? key : 0; query < sizes.queries; query += SQUARE) {
            f32 scores[LINES][LINES], away[LINES][LINES];
            tile_product<T>(scores, tile, keys, key, queries, query, sizes.width);
            for (int i = 0; i < LINES * LINES; i++) {
                const int place = own_row + i / LINES * APART, other = own_column + i % LINES * APART;
                const u64 row = query + other;
                const f32 score = score_of<M>(scores[i / LINES][i % LINES], row, key + place, sizes, mask, operands.rows[MASK],
                                              operands.columns[MASK]);
                const f32 weight = row < sizes.queries ? exp(score - log_sums[at * sizes.queries + row]) : 0.0f;
                scores[i / LINES][i % LINES] = weight;
                tile.weights[place * TILE_ROW + other] = weight;
            }
            tile_apply<T, COLUMNS>(to_values, tile.weights, tile.rows, grads, query, sizes.depth);
            tile_product<T>(away, tile, values, key, grads, query, sizes.depth);
            for (int i = 0; i < LINES * LINES; i++) {
                const int place = own_row + i / LINES * APART, other = own_column + i % LINES * APART;
                const u64 row = query + other;
                tile.weights[place * TILE_ROW + other] =
                    row < sizes.queries
                        ? scores[i / LINES][i % LINES] * (away[i / LINES][i % LINES] - means[at * sizes.queries + row])
                        : 0.0f;
            }
            tile_apply<T, COLUMNS>(to_keys, tile.weights, tile.rows, queries, query, sizes.width);
            __syncthreads();
        }
        store_rows<T, COLUMNS>(of_keys + at * sizes.keys * sizes.width * sizeof(T), to_keys, sizes.scale, key, sizes.keys,
                               sizes.width);
        store_rows<T, COLUMNS>(of_values + at * sizes.keys * sizes.depth * sizeof(T), to_values, 1.0f, key, sizes.keys, sizes.depth);
    }
}

} // namespace rushlight
