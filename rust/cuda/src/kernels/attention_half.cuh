// The results of attention in half precision by products of matrices in registers (`half_tiles.cuh`). Keys and values pass through
// shared memory. Scores, and the weights that come from them, stay in registers.
//
// Scores are in units of a binary logarithm: their factor, which is positive, is applied with the subtraction of the greatest one.
// A negative factor gives its sign to the queries.

#pragma once

#include "half_tiles.cuh"

namespace rushlight {

/// The greater number by one instruction; the other one in place of NaN.
DEVICE f32 greater(f32 x, f32 y) { return ::fmaxf(x, y); }

/// The greatest number, or the sum, over the four lanes that share rows.
DEVICE f32 greatest_of_quad(f32 x) {
    x = greater(x, __shfl_xor_sync(~0u, x, 1));
    return greater(x, __shfl_xor_sync(~0u, x, 2));
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

/// How far a score may be above the greatest one that the weights of its query are relative to: the weights are at most 2^8, and so
/// sums are rarely corrected after the first keys.
constexpr f32 SLACK = 8.0f;

/// The keys of a tile that are multiplied at once: fewer, where registers are full of queries and results, or read a mask.
template <class M, int COLUMNS>
constexpr int FORWARD_PART = COLUMNS <= 4 ? (same<M, Unmasked> ? 64 : 32) : COLUMNS <= (same<M, Unmasked> ? 6 : 5) ? 32 : 16;

/// The same as `attention`, for fewer than 2^30 queries and keys, and 2^31 blocks. A block has one place of the batch.
template <class T, class M, int COLUMNS, int DEEP, bool PACKED>
DEVICE void attention_half(const AttentionOperands& operands, const Loops<5>& batch, u64 batches, const AttentionSizes& all, u8* out,
                           f32* log_sums) {
    constexpr int ROWS = HalfTiles<COLUMNS>::ROWS, PART = FORWARD_PART<M, COLUMNS>, PACKS = PART / 8;
    constexpr bool ADDS = !same<M, Unmasked> && !same<M, Bool>;
    __shared__ HalfTiles<COLUMNS> tiles;
    const HalfSizes sizes(all);
    const HalfBlock<DEEP> block(operands, batch, u32(batches), sizes, true);
    const Lane& lane = block.lane;
    const SeenKeys seen(block, sizes);
    u32 queries[DEEP][COLUMNS][4];
    load_rows<PACKED>(queries, tiles, lane, block.queries, block.first, sizes.width);
    const u32 sign = all.scale < 0.0f ? 0x80008000 : 0;
#pragma unroll
    for (int i = 0; i < DEEP * COLUMNS * 4; i++) {
        queries[i / 4 / COLUMNS][i / 4 % COLUMNS][i % 4] ^= sign;
    }
    // Masks are added to scores that have their factor.
    const f32 factor_of_scores = unit_of_scores(all.scale), unit = ADDS ? 1.0f : factor_of_scores;
    // Weights are relative to `greatest`, a finite number: a query that has seen nothing has sums of zero.
    f32 results[DEEP][2 * COLUMNS][4] = {}, greatest[DEEP][2], totals[DEEP][2] = {};
#pragma unroll
    for (int i = 0; i < DEEP * 2; i++) {
        greatest[i / 2][i % 2] = -max<f32>();
    }
    RowCopies<DEEP, COLUMNS, PACKED> keys(block.keys, 0, sizes.width), values(block.values, 0, sizes.depth);
    const auto copy_tile = [&](int stage, u32 key) {
        keys.template copy<ROWS>(tiles.rows[stage][0], key);
        values.template copy<ROWS>(tiles.rows[stage][1], key);
    };
    for_parts<ROWS, PART>(0, seen.of_block, seen.of_warp, copy_tile, [&](int stage, u32 key, int part) {
        f32 scores[DEEP][PACKS][4] = {}, most[DEEP][2];
        add_scores<T>(scores, lane, queries, tiles.rows[stage][0] + part);
        if constexpr (ADDS) {
#pragma unroll
            for (int i = 0; i < DEEP * PACKS * 4; i++) {
                scores[i / 4 / PACKS][i / 4 % PACKS][i % 4] *= factor_of_scores;
            }
        }
        // Only the last keys, or those on the diagonal, are hidden from some queries of the warp.
        const bool hides = key + PART > seen.of_each;
#pragma unroll
        for (int m = 0; m < DEEP; m++) {
            const u32 row = block.row + m * MATRIX + lane.row, column = key + lane.column;
            if constexpr (!same<M, Unmasked>) {
                mask_scores<M, false>(scores[m], row, column, sizes, block.mask, operands.rows[MASK], operands.columns[MASK]);
            }
            if (hides) {
                hide_scores<false>(scores[m], row, column, sizes);
            }
        }
        bool rises = false;
#pragma unroll
        for (int i = 0; i < DEEP * 2; i++) {
            const int m = i / 2, half = i % 2;
            f32 own = scores[m][0][half * 2];
#pragma unroll
            for (int n = 1; n < 2 * PACKS; n++) {
                own = greater(own, scores[m][n / 2][half * 2 + n % 2]);
            }
            most[m][half] = greatest_of_quad(own) * unit;
            rises |= most[m][half] > greatest[m][half] + SLACK;
        }
        if (__any_sync(~0u, rises)) {
#pragma unroll
            for (int i = 0; i < DEEP * 2; i++) {
                const int m = i / 2, half = i % 2;
                const f32 next = greater(most[m][half], greatest[m][half]), factor = quick_exp2(greatest[m][half] - next);
                greatest[m][half] = next;
                totals[m][half] *= factor;
#pragma unroll
                for (int n = 0; n < 4 * COLUMNS; n++) {
                    results[m][n / 2][half * 2 + n % 2] *= factor;
                }
            }
        }
#pragma unroll
        for (int i = 0; i < DEEP * PACKS * 4; i++) {
            const int m = i / 4 / PACKS, half = i / 2 % 2;
            f32& score = scores[m][i / 4 % PACKS][i % 4];
            score = quick_exp2(mul_add(score, unit, -greatest[m][half]));
            totals[m][half] += score;
        }
        add_rows<T, COLUMNS>(results, lane, scores, tiles.rows[stage][1] + part);
    });
    f32 factors[DEEP][2];
#pragma unroll
    for (int i = 0; i < DEEP * 2; i++) {
        const int m = i / 2, half = i % 2;
        const u32 row = block.row + m * MATRIX + lane.row + half * 8;
        const f32 total = sum_of_quad(totals[m][half]);
        const bool nothing = total == 0.0f;
        factors[m][half] = nothing ? 0.0f : 1.0f / total;
        if (row < sizes.queries && lane.column == 0) {
            log_sums[u64(block.place) * sizes.queries + row] =
                nothing ? infinity<f32>() : greatest[m][half] * f32(LN_2) + f32(libm::ln(f64(total)));
        }
    }
    store_rows<T>(out + u64(block.place) * sizes.queries * sizes.depth * sizeof(T), tiles, lane, results, factors, block.row,
                  sizes.queries, sizes.depth);
}

} // namespace rushlight
