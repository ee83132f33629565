// What attention in half precision shares: a warp has 16 rows of one operand in registers, a block 128, and the rows of two other
// operands pass through shared memory in tiles. The next tile is copied while the products of the present one are computed.

#pragma once

#include "attention.cuh"
#include "matrix.cuh"

namespace rushlight {

/// The rows of a warp and of a block.
constexpr int WARP_ROWS = 16;
constexpr int BLOCK_ROWS = THREADS / WARP * WARP_ROWS;
/// The rows of a tile that are multiplied at once: few, to keep the sums in registers.
constexpr int PART = 32;

/// The present and the next tile of two operands. A tile has fewer rows where rows are wide, so that all of them fit into the shared
/// memory of a block. The eight halves behind each row put rows into different banks.
template <int COLUMNS> struct alignas(sizeof(u128)) HalfTiles {
    static constexpr int ACROSS = COLUMNS * MATRIX;
    static constexpr int ROWS = COLUMNS <= 5 ? 64 : 32;
    typedef u16 Row[ACROSS + 8];
    Row rows[2][2][ROWS];
    static_assert(BLOCK_ROWS <= 4 * ROWS, "the rows of a block pass through the same memory");
};
template <int COLUMNS> using HalfRow = typename HalfTiles<COLUMNS>::Row;

/// Where a block works: its place of the batch, the first of its rows and of its warp's, and the operands there. Rows are queries or keys.
struct HalfBlock {
    const Lane lane;
    u32 place, first, row;
    OperandRows queries, keys, values, grads;
    const u8* mask;

    /// Blocks with the last rows may begin first.
    DEVICE HalfBlock(const AttentionOperands& operands, const Loops<5>& batch, u64 batches, const AttentionSizes& sizes,
                     bool last_first) {
        const u32 blocks = gridDim.x / u32(batches), number = blockIdx.x % blocks;
        place = blockIdx.x / blocks;
        first = (last_first ? blocks - 1 - number : number) * BLOCK_ROWS;
        row = first + lane.warp * WARP_ROWS;
        i64 offsets[5] = {};
        batch.move(u64(place), offsets);
        queries = rows_of(operands, offsets, QUERY, sizes.queries);
        keys = rows_of(operands, offsets, KEY, sizes.keys);
        values = rows_of(operands, offsets, VALUE, sizes.keys);
        grads = rows_of(operands, offsets, GRAD, sizes.queries);
        mask = operands.at[MASK] + offsets[MASK];
    }
};

/// The ends of the keys that queries see: some query of the block, some of the warp, and each of the warp.
struct SeenKeys {
    u32 of_block, of_warp, of_each;

    DEVICE SeenKeys(const HalfBlock& block, const AttentionSizes& sizes) {
        of_block = seen_keys(sizes, block.first, BLOCK_ROWS);
        of_warp = block.row < sizes.queries ? seen_keys(sizes, block.row, WARP_ROWS) : 0;
        of_each = seen_keys(sizes, block.row, 1);
    }
};

/// Passes over the rows from `start` to `end` in tiles, of which the warp takes the parts before `own_end`. `copy` begins to copy a tile
/// to a stage; `take` has a stage, the first row of a part, and its place in the tile.
template <int ROWS, class Copy, class Take>
DEVICE void for_parts(u32 start, u32 end, u32 own_end, const Copy& copy, const Take& take) {
    if (start < end) {
        copy(0, start);
    }
    int stage = 0;
    for (u32 tile = start; tile < end; tile += ROWS, stage ^= 1) {
        await_copies();
        __syncthreads();
        if (tile + ROWS < end) {
            copy(stage ^ 1, tile + ROWS);
        }
#pragma unroll 1
        for (int part = 0; part < ROWS; part += PART) {
            if (tile + part >= own_end) {
                break;
            }
            take(stage, tile + part, part);
        }
    }
}

/// Begins to copy rows to shared memory, with zeros in place of what is outside of the operand.
template <int COUNT, int COLUMNS> DEVICE void copy_rows(HalfRow<COLUMNS>* to, const OperandRows& from, u32 first, u32 width) {
    constexpr int ACROSS = COLUMNS * MATRIX, PACK = sizeof(u128) / sizeof(u16), PACKS = ACROSS / PACK, STEP = THREADS / PACKS;
    if (from.column == sizeof(u16) && (u64(from.at) | u64(from.row) | width * sizeof(u16)) % sizeof(u128) == 0) {
        const int own = int(threadIdx.x) / PACKS, column = int(threadIdx.x) % PACKS * PACK;
        const u8* at = from.at + i64(first + own) * from.row + column * sizeof(u16);
        const u32 rows = own < STEP && column < width && first < from.count ? from.count - first : 0;
#pragma unroll
        for (int n = 0; n < COUNT; n += STEP) {
            const int row = n + own;
            if (STEP * PACKS == THREADS && COUNT % STEP == 0 || own < STEP && row < COUNT) {
                begin_copy(&to[row][column], at, u32(row) < rows);
            }
            at += STEP * from.row;
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

/// Loads the rows of each warp into registers, as left factors. Threads wait for each other.
template <int COLUMNS>
DEVICE void load_rows(u32 (&to)[COLUMNS][4], HalfTiles<COLUMNS>& tiles, const Lane& lane, const OperandRows& from, u32 first, u32 width) {
    HalfRow<COLUMNS>* const rows = tiles.rows[0][0];
    copy_rows<BLOCK_ROWS, COLUMNS>(rows, from, first, width);
    await_copies();
    __syncthreads();
#pragma unroll
    for (int k = 0; k < COLUMNS; k++) {
        load_matrices(to[k], &rows[lane.warp * WARP_ROWS + lane.below_row][k * MATRIX + lane.below_column]);
    }
    __syncthreads();
}

/// Adds the products of a warp's rows with rows of a tile.
template <class T, int COLUMNS, int N>
DEVICE void add_scores(f32 (&sums)[N][4], const Lane& lane, const u32 (&left)[COLUMNS][4], const HalfRow<COLUMNS>* rows) {
#pragma unroll
    for (int k = 0; k < COLUMNS; k++) {
#pragma unroll
        for (int n = 0; n < N / 2; n++) {
            u32 right[4];
            load_matrices(right, &rows[n * MATRIX + lane.beside_row][k * MATRIX + lane.beside_column]);
            add_product<T>(sums[2 * n], left[k], right[0], right[1]);
            add_product<T>(sums[2 * n + 1], left[k], right[2], right[3]);
        }
    }
}

/// Adds the rows of a tile, each times its weight.
template <class T, int COLUMNS, int N>
DEVICE void add_rows(f32 (&sums)[2 * COLUMNS][4], const Lane& lane, const u32 (&weights)[N][4], const HalfRow<COLUMNS>* rows) {
#pragma unroll
    for (int k = 0; k < N; k++) {
#pragma unroll
        for (int n = 0; n < COLUMNS; n++) {
            u32 right[4];
            load_transposed(right, &rows[k * MATRIX + lane.below_row][n * MATRIX + lane.below_column]);
            add_product<T>(sums[2 * n], weights[k], right[0], right[1]);
            add_product<T>(sums[2 * n + 1], weights[k], right[2], right[3]);
        }
    }
}

/// Sums as the left factor of another product, rounded: sums of eight columns are half of the columns of a factor.
template <class T, int N> DEVICE void round_sums(u32 (&to)[N][4], const f32 (&sums)[2 * N][4]) {
#pragma unroll
    for (int i = 0; i < 4 * N; i++) {
        to[i / 4][i % 4] = pair_of<T>(sums[i / 2][i % 2 * 2], sums[i / 2][i % 2 * 2 + 1]);
    }
}

/// Applies masks to scores, in units of a binary logarithm. Rows and columns are queries and keys, or the reverse. `row` and `column`
/// are those of the lane's first score, of which each row has `N` packs.
template <class M, bool ROWS_ARE_KEYS, int N>
DEVICE void mask_scores(f32 (&scores)[N][4], u32 row, u32 column, const AttentionSizes& sizes, const u8* mask, i64 query_step,
                        i64 key_step) {
    const i64 row_step = ROWS_ARE_KEYS ? key_step : query_step, column_step = ROWS_ARE_KEYS ? query_step : key_step;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const u32 own = row + half * 8;
        // The columns that meet the row begin with `first`.
        const u32 first = ROWS_ARE_KEYS && sizes.causal ? own : 0;
        const u32 end = ROWS_ARE_KEYS ? (own < sizes.keys ? u32(sizes.queries) : 0)
                                      : (own < sizes.queries ? u32(seen_keys(sizes, own, 1)) : 0);
        const u32 count = end > first ? end - first : 0;
        const u8* at = mask + i64(own) * row_step + i64(column) * column_step;
        // Two adjacent elements are read at once.
        typedef typename stored<M>::type Element;
        struct alignas(2 * sizeof(Element)) Pair {
            Element of[2];
        };
        const bool paired = column_step == sizeof(Element) && (u64(at) | u64(row_step)) % sizeof(Pair) == 0;
#pragma unroll
        for (int i = 0; i < N; i++) {
            bool sees[2];
#pragma unroll
            for (int j = 0; j < 2; j++) {
                sees[j] = column + u32(i * 8 + j) - first < count;
            }
            Pair pair = {};
            if constexpr (!same<M, Unmasked>) {
                if (paired && sees[1]) {
                    pair = *(const Pair*)at;
                } else {
#pragma unroll
                    for (int j = 0; j < 2; j++) {
                        pair.of[j] = sees[j] ? *(const Element*)(at + j * column_step) : Element();
                    }
                }
                at += 8 * column_step;
            }
#pragma unroll
            for (int j = 0; j < 2; j++) {
                f32& score = scores[i][half * 2 + j];
                if (!sees[j]) {
                    score = neg_infinity<f32>();
                } else if constexpr (same<M, Bool>) {
                    score = pair.of[j] != 0 ? score : neg_infinity<f32>();
                } else if constexpr (!same<M, Unmasked>) {
                    score += convert<f32>(pair.of[j]) * f32(LOG2_E);
                }
            }
        }
    }
}

/// Stores the rows of a warp, row-major, each times a number.
template <class T, int COLUMNS>
DEVICE void store_sums(u8* out, const Lane& lane, const f32 (&sums)[2 * COLUMNS][4], const f32 (&factors)[2], u32 first, u64 count,
                       u64 width) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const u32 row = first + lane.row + half * 8;
        u8* const to = out + u64(row) * width * sizeof(T);
#pragma unroll
        for (int i = 0; i < 2 * COLUMNS; i++) {
            const u32 column = i * 8 + lane.column;
            const f32 x = sums[i][half * 2] * factors[half], y = sums[i][half * 2 + 1] * factors[half];
            if (row >= count || column >= width) {
                continue;
            }
            if (width % 2 == 0) {
                *(u32*)(to + column * sizeof(T)) = pair_of<T>(x, y);
            } else {
                store<T>(to + column * sizeof(T), x);
                if (column + 1 < width) {
                    store<T>(to + (column + 1) * sizeof(T), y);
                }
            }
        }
    }
}

} // namespace rushlight
