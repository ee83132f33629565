// The gradients of attention in half precision by products of matrices in registers (`half_tiles.cuh`). A warp computes the gradients of
// its queries, or of its keys and their values, and passes over the others in parts of tiles. Nothing is added by several threads, so
// that results are the same in each run.
//
// Scores less the logarithm of their sum are in units of a binary logarithm. What the weights are multiplied with is rounded, as in
// the results.

#pragma once

#include "half_tiles.cuh"

namespace rushlight {

/// The queries or keys of a tile that are multiplied at once: few, where registers are full of a warp's rows and their gradients.
template <int COLUMNS, int DEEP> constexpr int BACKWARD_PART = DEEP == 1 || COLUMNS <= 2 ? 32 : 16;

/// What the gradients read of each query of a place of the batch.
struct QuerySums {
    const f32 *log_sums, *means;
    u64 first;
    u32 count;

    DEVICE QuerySums(const f32* log_sums, const f32* means, u32 place, u32 queries)
        : log_sums(log_sums), means(means), first(u64(place) * queries), count(queries) {}

    /// The logarithm of the sum, in units of a binary logarithm. A query that does not exist has no weights.
    DEVICE f32 log_sum(u32 query) const { return query < count ? log_sums[first + query] * f32(LOG2_E) : infinity<f32>(); }
    DEVICE f32 mean(u32 query) const { return query < count ? means[first + query] : 0.0f; }
};

/// The same as `attention_of_queries`, for fewer than 2^30 queries and keys.
template <class T, class M, int COLUMNS, int DEEP, bool PACKED>
DEVICE void attention_half_of_queries(const AttentionOperands& operands, const Loops<5>& batch, u64 batches, const AttentionSizes& all,
                                      const f32* log_sums, const f32* means, u8* out) {
    constexpr int ROWS = HalfTiles<COLUMNS>::ROWS, PART = BACKWARD_PART<COLUMNS, DEEP>, PACKS = PART / 8;
    __shared__ HalfTiles<COLUMNS> tiles;
    const HalfSizes sizes(all);
    const HalfBlock<DEEP> block(operands, batch, u32(batches), sizes, true);
    const Lane& lane = block.lane;
    const SeenKeys seen(block, sizes);
    u32 own_queries[DEEP][COLUMNS][4], own_grads[DEEP][COLUMNS][4];
    load_rows<PACKED>(own_queries, tiles, lane, block.queries, block.first, sizes.width);
    load_rows<PACKED>(own_grads, tiles, lane, block.grads, block.first, sizes.depth);
    const QuerySums of_queries(log_sums, means, block.place, sizes.queries);
    f32 own_sums[DEEP][2], own_means[DEEP][2], factors[DEEP][2];
#pragma unroll
    for (int i = 0; i < DEEP * 2; i++) {
        const u32 query = block.row + lane.row + i * 8;
        own_sums[i / 2][i % 2] = of_queries.log_sum(query);
        own_means[i / 2][i % 2] = of_queries.mean(query);
        factors[i / 2][i % 2] = all.scale;
    }
    const f32 unit = all.scale * f32(LOG2_E);
    f32 results[DEEP][2 * COLUMNS][4] = {};
    RowCopies<DEEP, COLUMNS, PACKED> keys(block.keys, 0, sizes.width), values(block.values, 0, sizes.depth);
    const auto copy_tile = [&](int stage, u32 key) {
        keys.template copy<ROWS>(tiles.rows[stage][0], key);
        values.template copy<ROWS>(tiles.rows[stage][1], key);
    };
    for_parts<ROWS, PART>(0, seen.of_block, seen.of_warp, copy_tile, [&](int stage, u32 key, int part) {
        f32 scores[DEEP][PACKS][4] = {}, away[DEEP][PACKS][4] = {};
        add_scores<T>(scores, lane, own_queries, tiles.rows[stage][0] + part);
        add_scores<T>(away, lane, own_grads, tiles.rows[stage][1] + part);
#pragma unroll
        for (int m = 0; m < DEEP; m++) {
#pragma unroll
            for (int i = 0; i < PACKS * 4; i++) {
                scores[m][i / 4][i % 4] = mul_add(scores[m][i / 4][i % 4], unit, -own_sums[m][i / 2 % 2]);
            }
            const u32 row = block.row + m * MATRIX + lane.row, column = key + lane.column;
            if constexpr (!same<M, Unmasked>) {
                mask_scores<M, false>(scores[m], row, column, sizes, block.mask, operands.rows[MASK], operands.columns[MASK]);
            }
            if (key + PART > seen.of_each) {
                hide_scores<false>(scores[m], row, column, sizes);
            }
#pragma unroll
            for (int i = 0; i < PACKS * 4; i++) {
                f32& score = scores[m][i / 4][i % 4];
                score = quick_exp2(score) * (away[m][i / 4][i % 4] - own_means[m][i / 2 % 2]);
            }
        }
        add_rows<T, COLUMNS>(results, lane, scores, tiles.rows[stage][0] + part);
    });
    store_rows<T>(out + u64(block.place) * sizes.queries * sizes.width * sizeof(T), tiles, lane, results, factors, block.row,
                  sizes.queries, sizes.width);
}

/// The logarithms of the sums, in units of a binary logarithm, and the means of the queries of the present and of the next tile.
template <int ROWS> struct SumsOfTiles {
    f32 sums[2][ROWS], means[2][ROWS];
};

/// The gradients of a block's keys, of its values, or of both.
template <class T, class M, int COLUMNS, int DEEP, bool PACKED, bool OF_KEYS, bool OF_VALUES>
DEVICE void attention_half_over_queries(HalfTiles<COLUMNS>& tiles, SumsOfTiles<HalfTiles<COLUMNS>::ROWS>& of_tiles,
                                        const AttentionOperands& operands, const Loops<5>& batch, u64 batches,
                                        const AttentionSizes& all, const f32* log_sums, const f32* means, u8* of_keys,
                                        u8* of_values) {
    constexpr int ROWS = HalfTiles<COLUMNS>::ROWS, PART = BACKWARD_PART<COLUMNS, DEEP>, PACKS = PART / 8;
    const HalfSizes sizes(all);
    const HalfBlock<DEEP> block(operands, batch, u32(batches), sizes, false);
    const Lane& lane = block.lane;
    const u32 key = block.row;
    u32 own_keys[DEEP][COLUMNS][4], own_values[DEEP][COLUMNS][4];
    load_rows<PACKED>(own_keys, tiles, lane, block.keys, block.first, sizes.width);
    if constexpr (OF_KEYS) {
        load_rows<PACKED>(own_values, tiles, lane, block.values, block.first, sizes.depth);
    }
    const f32 unit = all.scale * f32(LOG2_E);
    f32 to_keys[DEEP][2 * COLUMNS][4] = {}, to_values[DEEP][2 * COLUMNS][4] = {};
    const QuerySums of_queries(log_sums, means, block.place, sizes.queries);
    // With a causal mask earlier queries do not see these keys.
    const u32 start = sizes.causal ? block.first / ROWS * ROWS : 0;
    RowCopies<DEEP, COLUMNS, PACKED> queries(block.queries, start, sizes.width), grads(block.grads, start, sizes.depth);
    const auto copy_tile = [&](int stage, u32 query) {
        queries.template copy<ROWS>(tiles.rows[stage][0], query);
        grads.template copy<ROWS>(tiles.rows[stage][1], query);
        if (threadIdx.x < ROWS) {
            of_tiles.sums[stage][threadIdx.x] = of_queries.log_sum(query + threadIdx.x);
            of_tiles.means[stage][threadIdx.x] = of_queries.mean(query + threadIdx.x);
        }
    };
    for_parts<ROWS, PART>(start, sizes.queries, key < sizes.keys ? sizes.queries : 0, copy_tile, [&](int stage, u32 query, int part) {
        if (sizes.causal && query + PART <= key) {
            return;
        }
        const bool hides = sizes.causal && query < key + WARP_ROWS<DEEP>;
        f32 scores[DEEP][PACKS][4] = {};
        add_scores<T>(scores, lane, own_keys, tiles.rows[stage][0] + part);
#pragma unroll
        for (int m = 0; m < DEEP; m++) {
#pragma unroll
            for (int i = 0; i < PACKS * 4; i++) {
                const f32 sum = of_tiles.sums[stage][part + i / 4 * 8 + lane.column + i % 2];
                scores[m][i / 4][i % 4] = mul_add(scores[m][i / 4][i % 4], unit, -sum);
            }
            const u32 row = key + m * MATRIX + lane.row, column = query + lane.column;
            if constexpr (!same<M, Unmasked>) {
                mask_scores<M, true>(scores[m], row, column, sizes, block.mask, operands.rows[MASK], operands.columns[MASK]);
            }
            if (hides) {
                hide_scores<true>(scores[m], row, column, sizes);
            }
#pragma unroll
            for (int i = 0; i < PACKS * 4; i++) {
                scores[m][i / 4][i % 4] = quick_exp2(scores[m][i / 4][i % 4]);
            }
        }
        if constexpr (OF_VALUES) {
            add_rows<T, COLUMNS>(to_values, lane, scores, tiles.rows[stage][1] + part);
        }
        if constexpr (OF_KEYS) {
            f32 away[DEEP][PACKS][4] = {};
            add_scores<T>(away, lane, own_values, tiles.rows[stage][1] + part);
#pragma unroll
            for (int i = 0; i < DEEP * PACKS * 4; i++) {
                const int m = i / 4 / PACKS, n = i / 4 % PACKS;
                scores[m][n][i % 4] *= away[m][n][i % 4] - of_tiles.means[stage][part + n * 8 + lane.column + i % 2];
            }
            add_rows<T, COLUMNS>(to_keys, lane, scores, tiles.rows[stage][0] + part);
        }
    });
    f32 scales[DEEP][2], ones[DEEP][2];
#pragma unroll
    for (int i = 0; i < DEEP * 2; i++) {
        scales[i / 2][i % 2] = all.scale;
        ones[i / 2][i % 2] = 1.0f;
    }
    if constexpr (OF_KEYS) {
        store_rows<T>(of_keys + u64(block.place) * sizes.keys * sizes.width * sizeof(T), tiles, lane, to_keys, scales, key, sizes.keys,
                      sizes.width);
    }
    if constexpr (OF_VALUES) {
        store_rows<T>(of_values + u64(block.place) * sizes.keys * sizes.depth * sizeof(T), tiles, lane, to_values, ones, key, sizes.keys,
                      sizes.depth);
    }
}

/// The same as `attention_of_keys`, for fewer than 2^30 queries and keys. Where rows are wide, registers have room for the sums of one
/// gradient at a time.
template <class T, class M, int COLUMNS, int DEEP, bool PACKED>
DEVICE void attention_half_of_keys(const AttentionOperands& operands, const Loops<5>& batch, u64 batches, const AttentionSizes& sizes,
                                   const f32* log_sums, const f32* means, u8* of_keys, u8* of_values) {
    __shared__ HalfTiles<COLUMNS> tiles;
    __shared__ SumsOfTiles<HalfTiles<COLUMNS>::ROWS> of_tiles;
    if constexpr (COLUMNS <= 4) {
        attention_half_over_queries<T, M, COLUMNS, DEEP, PACKED, true, true>(tiles, of_tiles, operands, batch, batches, sizes, log_sums,
                                                                             means, of_keys, of_values);
    } else {
        attention_half_over_queries<T, M, COLUMNS, DEEP, PACKED, false, true>(tiles, of_tiles, operands, batch, batches, sizes, log_sums,
                                                                              means, of_keys, of_values);
        __syncthreads();
        attention_half_over_queries<T, M, COLUMNS, DEEP, PACKED, true, false>(tiles, of_tiles, operands, batch, batches, sizes, log_sums,
                                                                              means, of_keys, of_values);
    }
}

} // namespace rushlight
