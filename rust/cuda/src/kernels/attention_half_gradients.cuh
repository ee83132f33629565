// The gradients of attention in half precision by products of matrices in registers (`half_tiles.cuh`). A warp computes the gradients of
// 16 queries, or of 16 keys and their values, and passes over the others in parts of tiles. Nothing is added by several threads, so
// that results are the same in each run.
//
// Scores less the logarithm of their sum are in units of a binary logarithm. What the weights are multiplied with is rounded, as in
// the results.

#pragma once

#include "half_tiles.cuh"

namespace rushlight {

/// The weight of a score that has its factor, less the logarithm of the sum.
template <class M, bool ROWS_ARE_KEYS>
DEVICE void to_weights(f32 (&scores)[PART / 8][4], bool hides, u32 row, u32 column, const AttentionSizes& sizes, const u8* mask,
                       const AttentionOperands& operands) {
    if (hides) {
        mask_scores<M, ROWS_ARE_KEYS>(scores, row, column, sizes, mask, operands.rows[MASK], operands.columns[MASK]);
    }
#pragma unroll
    for (int i = 0; i < PART / 2; i++) {
        scores[i / 4][i % 4] = quick_exp2(scores[i / 4][i % 4]);
    }
}

/// What the gradients read of each query of a place of the batch.
struct QuerySums {
    const f32 *log_sums, *means;
    u64 first, count;

    DEVICE QuerySums(const f32* log_sums, const f32* means, u32 place, u64 queries)
        : log_sums(log_sums), means(means), first(u64(place) * queries), count(queries) {}

    /// The logarithm of the sum, in units of a binary logarithm. A query that does not exist has no weights.
    DEVICE f32 log_sum(u32 query) const { return query < count ? log_sums[first + query] * f32(LOG2_E) : infinity<f32>(); }
    DEVICE f32 mean(u32 query) const { return query < count ? means[first + query] : 0.0f; }
};

/// The same as `attention_of_queries`, for fewer than 2^31 queries, keys and blocks.
template <class T, class M, int COLUMNS>
DEVICE void attention_half_of_queries(const AttentionOperands& operands, const Loops<5>& batch, u64 batches,
                                      const AttentionSizes& sizes, const f32* log_sums, const f32* means, u8* out) {
    constexpr int ROWS = HalfTiles<COLUMNS>::ROWS;
    __shared__ HalfTiles<COLUMNS> tiles;
    const HalfBlock block(operands, batch, batches, sizes, true);
    const Lane& lane = block.lane;
    const u32 query = block.row;
    const SeenKeys seen(block, sizes);
    u32 own_queries[COLUMNS][4], own_grads[COLUMNS][4];
    load_rows<COLUMNS>(own_queries, tiles, lane, block.queries, block.first, sizes.width);
    load_rows<COLUMNS>(own_grads, tiles, lane, block.grads, block.first, sizes.depth);
    const QuerySums of_queries(log_sums, means, block.place, sizes.queries);
    f32 own_sums[2], own_means[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        own_sums[half] = of_queries.log_sum(query + lane.row + half * 8);
        own_means[half] = of_queries.mean(query + lane.row + half * 8);
    }
    const f32 unit = sizes.scale * f32(LOG2_E);
    f32 results[2 * COLUMNS][4] = {};
    const auto copy_tile = [&](int stage, u32 key) {
        copy_rows<ROWS, COLUMNS>(tiles.rows[stage][0], block.keys, key, sizes.width);
        copy_rows<ROWS, COLUMNS>(tiles.rows[stage][1], block.values, key, sizes.depth);
    };
    for_parts<ROWS>(0, seen.of_block, seen.of_warp, copy_tile, [&](int stage, u32 key, int part) {
        f32 scores[PART / 8][4] = {}, away[PART / 8][4] = {};
        add_scores<T, COLUMNS>(scores, lane, own_queries, tiles.rows[stage][0] + part);
        add_scores<T, COLUMNS>(away, lane, own_grads, tiles.rows[stage][1] + part);
#pragma unroll
        for (int i = 0; i < PART / 2; i++) {
            scores[i / 4][i % 4] = mul_add(scores[i / 4][i % 4], unit, -own_sums[i / 2 % 2]);
        }
        to_weights<M, false>(scores, !same<M, Unmasked> || key + PART > seen.of_each, query + lane.row, key + lane.column, sizes,
                             block.mask, operands);
#pragma unroll
        for (int i = 0; i < PART / 2; i++) {
            scores[i / 4][i % 4] *= away[i / 4][i % 4] - own_means[i / 2 % 2];
        }
        u32 weights[PART / MATRIX][4];
        round_sums<T>(weights, scores);
        add_rows<T, COLUMNS>(results, lane, weights, tiles.rows[stage][0] + part);
    });
    store_sums<T, COLUMNS>(out + u64(block.place) * sizes.queries * sizes.width * sizeof(T), lane, results,
                           {sizes.scale, sizes.scale}, query, sizes.queries, sizes.width);
}

/// The logarithms of the sums, in units of a binary logarithm, and the means of the queries of the present and of the next tile.
template <int ROWS> struct SumsOfTiles {
    f32 sums[2][ROWS], means[2][ROWS];
};

/// The gradients of a block's keys, of its values, or of both.
template <class T, class M, int COLUMNS, bool OF_KEYS, bool OF_VALUES>
DEVICE void attention_half_over_queries(HalfTiles<COLUMNS>& tiles, SumsOfTiles<HalfTiles<COLUMNS>::ROWS>& of_tiles,
                                        const AttentionOperands& operands, const Loops<5>& batch, u64 batches,
                                        const AttentionSizes& sizes, const f32* log_sums, const f32* means, u8* of_keys,
                                        u8* of_values) {
    constexpr int ROWS = HalfTiles<COLUMNS>::ROWS;
    const HalfBlock block(operands, batch, batches, sizes, false);
    const Lane& lane = block.lane;
    const u32 key = block.row;
    u32 own_keys[COLUMNS][4], own_values[COLUMNS][4];
    load_rows<COLUMNS>(own_keys, tiles, lane, block.keys, block.first, sizes.width);
    if constexpr (OF_KEYS) {
        load_rows<COLUMNS>(own_values, tiles, lane, block.values, block.first, sizes.depth);
    }
    const f32 unit = sizes.scale * f32(LOG2_E);
    f32 to_keys[OF_KEYS ? 2 * COLUMNS : 1][4] = {}, to_values[OF_VALUES ? 2 * COLUMNS : 1][4] = {};
    const u32 end = sizes.queries;
    const QuerySums of_queries(log_sums, means, block.place, sizes.queries);
    const auto copy_tile = [&](int stage, u32 query) {
        copy_rows<ROWS, COLUMNS>(tiles.rows[stage][0], block.queries, query, sizes.width);
        copy_rows<ROWS, COLUMNS>(tiles.rows[stage][1], block.grads, query, sizes.depth);
        if (threadIdx.x < ROWS) {
            of_tiles.sums[stage][threadIdx.x] = of_queries.log_sum(query + threadIdx.x);
            of_tiles.means[stage][threadIdx.x] = of_queries.mean(query + threadIdx.x);
        }
    };
    // With a causal mask earlier queries do not see these keys.
    const u32 start = sizes.causal ? block.first / ROWS * ROWS : 0;
    for_parts<ROWS>(start, end, key < sizes.keys ? end : 0, copy_tile, [&](int stage, u32 query, int part) {
        if (sizes.causal && query + PART <= key) {
            return;
        }
        const bool hides = !same<M, Unmasked> || (sizes.causal && query < key + WARP_ROWS);
        f32 scores[PART / 8][4] = {};
        add_scores<T, COLUMNS>(scores, lane, own_keys, tiles.rows[stage][0] + part);
#pragma unroll
        for (int i = 0; i < PART / 2; i++) {
            const f32 sum = of_tiles.sums[stage][part + i / 4 * 8 + lane.column + i % 2];
            scores[i / 4][i % 4] = mul_add(scores[i / 4][i % 4], unit, -sum);
        }
        to_weights<M, true>(scores, hides, key + lane.row, query + lane.column, sizes, block.mask, operands);
        u32 weights[PART / MATRIX][4];
        if constexpr (OF_VALUES) {
            round_sums<T>(weights, scores);
            add_rows<T, COLUMNS>(to_values, lane, weights, tiles.rows[stage][1] + part);
        }
        if constexpr (OF_KEYS) {
            f32 away[PART / 8][4] = {};
            add_scores<T, COLUMNS>(away, lane, own_values, tiles.rows[stage][1] + part);
#pragma unroll
            for (int i = 0; i < PART / 2; i++) {
                scores[i / 4][i % 4] *= away[i / 4][i % 4] - of_tiles.means[stage][part + i / 4 * 8 + lane.column + i % 2];
            }
            round_sums<T>(weights, scores);
            add_rows<T, COLUMNS>(to_keys, lane, weights, tiles.rows[stage][0] + part);
        }
    });
    if constexpr (OF_KEYS) {
        store_sums<T, COLUMNS>(of_keys + u64(block.place) * sizes.keys * sizes.width * sizeof(T), lane, to_keys,
                               {sizes.scale, sizes.scale}, key, sizes.keys, sizes.width);
    }
    if constexpr (OF_VALUES) {
        store_sums<T, COLUMNS>(of_values + u64(block.place) * sizes.keys * sizes.depth * sizeof(T), lane, to_values,
                               {1.0f, 1.0f}, key, sizes.keys, sizes.depth);
    }
}

/// The same as `attention_of_keys`, for fewer than 2^31 queries, keys and blocks. Where rows are wide, registers have room for the
/// sums of one gradient at a time.
template <class T, class M, int COLUMNS>
DEVICE void attention_half_of_keys(const AttentionOperands& operands, const Loops<5>& batch, u64 batches, const AttentionSizes& sizes,
                                   const f32* log_sums, const f32* means, u8* of_keys, u8* of_values) {
    __shared__ HalfTiles<COLUMNS> tiles;
    __shared__ SumsOfTiles<HalfTiles<COLUMNS>::ROWS> of_tiles;
    if constexpr (COLUMNS <= 4) {
        attention_half_over_queries<T, M, COLUMNS, true, true>(tiles, of_tiles, operands, batch, batches, sizes, log_sums, means,
                                                               of_keys, of_values);
    } else {
        attention_half_over_queries<T, M, COLUMNS, false, true>(tiles, of_tiles, operands, batch, batches, sizes, log_sums, means,
                                                                of_keys, of_values);
        __syncthreads();
        attention_half_over_queries<T, M, COLUMNS, true, false>(tiles, of_tiles, operands, batch, batches, sizes, log_sums, means,
                                                                of_keys, of_values);
    }
}

} // namespace rushlight
