// The results of attention in half precision by products of matrices in registers (`half_tiles.cuh`). A warp computes the results of 16
// queries, a block those of 128, and keys and values pass through shared memory. The weights of a tile stay in registers: as sums
// they have the layout that the second product needs.
//
// Scores are in units of a binary logarithm: their factor, which is positive, is applied with the subtraction of the greatest one.
// A negative factor gives its sign to the queries.

#pragma once

#include "half_tiles.cuh"

namespace rushlight {

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

/// The factor of scores. It is not zero, so that a hidden score stays minus infinity.
DEVICE f32 unit_of_scores(f32 scale) {
    const f32 unit = abs(scale) * f32(LOG2_E), least = from_bits<f32>(u32(1) << 23);
    return unit < least ? least : unit;
}

/// The blocks that `attention_half` shares a multiprocessor with: as many as registers allow.
template <int COLUMNS> constexpr int HALF_BLOCKS = COLUMNS <= 4 ? 2 : 1;

/// The same as `attention`, for fewer than 2^31 queries, keys and blocks. A block has one place of the batch.
template <class T, class M, int COLUMNS>
DEVICE void attention_half(const AttentionOperands& operands, const Loops<5>& batch, u64 batches, const AttentionSizes& sizes,
                           u8* out, f32* log_sums) {
    constexpr int ROWS = HalfTiles<COLUMNS>::ROWS, PACKS = PART / 8;
    constexpr bool ADDS = !same<M, Unmasked> && !same<M, Bool>;
    __shared__ HalfTiles<COLUMNS> tiles;
    // With a causal mask the last queries take the longest, and begin first.
    const HalfBlock block(operands, batch, batches, sizes, true);
    const Lane& lane = block.lane;
    const u32 query = block.row;
    const SeenKeys seen(block, sizes);
    u32 left[COLUMNS][4];
    load_rows<COLUMNS>(left, tiles, lane, block.queries, block.first, sizes.width);
    const u32 sign = sizes.scale < 0.0f ? 0x80008000 : 0;
#pragma unroll
    for (int k = 0; k < 4 * COLUMNS; k++) {
        left[k / 4][k % 4] ^= sign;
    }
    // Masks are added to scores that have their factor.
    const f32 factor_of_scores = unit_of_scores(sizes.scale), unit = ADDS ? 1.0f : factor_of_scores;
    f32 results[2 * COLUMNS][4] = {}, greatest[2] = {neg_infinity<f32>(), neg_infinity<f32>()}, totals[2] = {};
    const auto copy_tile = [&](int stage, u32 key) {
        copy_rows<ROWS, COLUMNS>(tiles.rows[stage][0], block.keys, key, sizes.width);
        copy_rows<ROWS, COLUMNS>(tiles.rows[stage][1], block.values, key, sizes.depth);
    };
    for_parts<ROWS>(0, seen.of_block, seen.of_warp, copy_tile, [&](int stage, u32 key, int part) {
        f32 scores[PACKS][4] = {};
        add_scores<T, COLUMNS>(scores, lane, left, tiles.rows[stage][0] + part);
        if constexpr (ADDS) {
#pragma unroll
            for (int i = 0; i < 4 * PACKS; i++) {
                scores[i / 4][i % 4] *= factor_of_scores;
            }
        }
        if (!same<M, Unmasked> || key + PART > seen.of_each) {
            mask_scores<M, false>(scores, query + lane.row, key + lane.column, sizes, block.mask, operands.rows[MASK],
                                  operands.columns[MASK]);
        }
        f32 factors[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            f32 most = scores[0][half * 2];
#pragma unroll
            for (int i = 1; i < 2 * PACKS; i++) {
                const f32 score = scores[i / 2][half * 2 + i % 2];
                most = score > most ? score : most;
            }
            most = greatest_of_quad(most) * unit;
            most = most > greatest[half] ? most : greatest[half];
            // A query that has seen nothing yet has sums of zero.
            const f32 base = most == neg_infinity<f32>() ? 0.0f : most;
            factors[half] = quick_exp2(greatest[half] - base);
            greatest[half] = most;
            f32 total = 0.0f;
#pragma unroll
            for (int i = 0; i < 2 * PACKS; i++) {
                f32& score = scores[i / 2][half * 2 + i % 2];
                score = quick_exp2(mul_add(score, unit, -base));
                total += score;
            }
            totals[half] = mul_add(totals[half], factors[half], total);
        }
        // The greatest score rarely changes after the first tiles.
        if (__any_sync(~0u, factors[0] != 1.0f || factors[1] != 1.0f)) {
#pragma unroll
            for (int i = 0; i < 8 * COLUMNS; i++) {
                results[i / 4][i % 4] *= factors[i / 2 % 2];
            }
        }
        u32 weights[PART / MATRIX][4];
        round_sums<T>(weights, scores);
        add_rows<T, COLUMNS>(results, lane, weights, tiles.rows[stage][1] + part);
    });
    f32 factors[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const u32 row = query + lane.row + half * 8;
        const f32 total = sum_of_quad(totals[half]);
        const bool nothing = total == 0.0f;
        factors[half] = nothing ? 0.0f : 1.0f / total;
        if (row < sizes.queries && lane.column == 0) {
            log_sums[u64(block.place) * sizes.queries + row] =
                nothing ? infinity<f32>() : greatest[half] * f32(LN_2) + f32(libm::ln(f64(total)));
        }
    }
    store_sums<T, COLUMNS>(out + u64(block.place) * sizes.queries * sizes.depth * sizeof(T), lane, results, factors, query,
                           sizes.queries, sizes.depth);
}

} // namespace rushlight
