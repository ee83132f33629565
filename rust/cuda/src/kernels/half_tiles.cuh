// What attention in half precision shares. A block has 128 rows of one operand, which its warps keep in registers, and the rows of two
// other operands pass through shared memory in tiles. The next tile is copied while the products of the present one are computed,
// and threads wait for each other once for each tile.
//
// Shared memory is read as fast as two products for each load of four matrices; tensor cores of compute capability 9.0 are faster. So a
// warp has two matrices of rows (`DEEP`) where registers have room for them, and what it loads meets both: a load for four products.
// Blocks are small, and several share a multiprocessor: one has products while another one has exponentials.

#pragma once

#include "attention.cuh"
#include "matrix.cuh"

namespace rushlight {

constexpr int BLOCK_ROWS = 128;
/// The rows of a warp, and the threads of a block.
template <int DEEP> constexpr int WARP_ROWS = DEEP * MATRIX;
template <int DEEP> constexpr int HALF_THREADS = BLOCK_ROWS / WARP_ROWS<DEEP> * WARP;

/// The present and the next tile of two operands. A tile has fewer rows where rows are wide, so that all of them fit into the shared
/// memory of a block. The eight halves behind each row put rows into different banks: loads of matrices have no conflicts, and
/// differ by constants, which they would not if packs were exchanged instead.
template <int COLUMNS> struct alignas(sizeof(u128)) HalfTiles {
    static constexpr int ACROSS = COLUMNS * MATRIX;
    static constexpr int ROWS = COLUMNS <= 5 ? 64 : 32;
    typedef u16 Row[ACROSS + 8];
    Row rows[2][2][ROWS];
    static_assert(BLOCK_ROWS <= 4 * ROWS, "the rows of a block pass through the same memory");
};
template <int COLUMNS> using HalfRow = typename HalfTiles<COLUMNS>::Row;

/// The sizes of a call, of which there are fewer than 2^30 queries and keys.
struct HalfSizes {
    const u32 queries, keys, width, depth;
    const bool causal;
    /// How far ahead of a query the keys are that it sees.
    const i32 ahead = causal ? 0 : 1 << 30;

    DEVICE explicit HalfSizes(const AttentionSizes& sizes)
        : queries(sizes.queries), keys(sizes.keys), width(sizes.width), depth(sizes.depth), causal(sizes.causal) {}

    /// The end of the keys that some of `count` queries see.
    DEVICE u32 seen(u32 query, u32 count) const {
        const u32 end = query + count + ahead;
        return end < keys ? end : keys;
    }
};

/// Where a block works: its place of the batch, the first of its rows and of its warp's, and the operands there. Rows are queries or keys.
template <int DEEP> struct HalfBlock {
    const Lane lane;
    u32 place, first, row;
    OperandRows queries, keys, values, grads;
    const u8* mask;

    /// Blocks of one place follow each other, because they read the same rows. With a causal mask they do not take equally long: then those
    /// that take the longest begin first, of all places, and short ones fill the end. The longest are the last, or the first ones.
    DEVICE HalfBlock(const AttentionOperands& operands, const Loops<5>& batch, u32 batches, const HalfSizes& sizes, bool last_is_longest) {
        const u32 blocks = gridDim.x / batches;
        const u32 number = sizes.causal ? blockIdx.x / batches : blockIdx.x % blocks;
        place = sizes.causal ? blockIdx.x % batches : blockIdx.x / blocks;
        first = (last_is_longest ? blocks - 1 - number : number) * BLOCK_ROWS;
        row = first + lane.warp * WARP_ROWS<DEEP>;
        i64 offsets[5] = {};
        batch.move(place, offsets);
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

    template <int DEEP> DEVICE SeenKeys(const HalfBlock<DEEP>& block, const HalfSizes& sizes) {
        of_block = sizes.seen(block.first, BLOCK_ROWS);
        of_warp = block.row < sizes.queries ? sizes.seen(block.row, WARP_ROWS<DEEP>) : 0;
        of_each = sizes.seen(block.row, 1);
    }
};

/// Passes over the rows from `start` to `end` in tiles, of which the warp takes the parts before `own_end`. `copy` begins to copy the next
/// tile to a stage; `take` has a stage, the first row of a part, and its place in the tile.
template <int ROWS, int PART, class Copy, class Take>
DEVICE void for_parts(u32 start, u32 end, u32 own_end, const Copy& copy, const Take& take) {
    if (start < end) {
        copy(0, start);
    }
    int stage = 0;
    for (u32 tile = start; tile < end; tile += ROWS, stage ^= 1) {
        // Now the tile is there, and no warp reads the former one.
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

/// Copies rows of an operand to shared memory, one tile after another, with zeros in place of what is outside of the operand. Where rows
/// are `PACKED`, the copies of 16 bytes run by themselves until they are awaited.
template <int DEEP, int COLUMNS, bool PACKED> struct RowCopies {
    static constexpr int ACROSS = COLUMNS * MATRIX, COUNT_OF_THREADS = HALF_THREADS<DEEP>;
    static constexpr int PACK = sizeof(u128) / sizeof(u16), PACKS = ACROSS / PACK, STEP = COUNT_OF_THREADS / PACKS;
    const OperandRows from;
    const u32 width;
    /// The first row and column of the thread, and where its first pack of the next tile is.
    const int own = int(threadIdx.x) / PACKS, column = int(threadIdx.x) % PACKS * PACK;
    const u8* at;

    DEVICE RowCopies(const OperandRows& from, u32 first, u32 width)
        : from(from), width(width), at(from.at + i64(first + own) * from.row + column * sizeof(u16)) {}

    template <int COUNT> DEVICE void copy(HalfRow<COLUMNS>* to, u32 first) {
        if constexpr (PACKED) {
            const u32 rows = u32(column) < width && first + own < from.count ? from.count - first - own : 0;
            const u8* pack = at;
#pragma unroll
            for (int n = 0; n < COUNT; n += STEP) {
                if ((STEP * PACKS == COUNT_OF_THREADS && COUNT % STEP == 0) || (own < STEP && n + own < COUNT)) {
                    begin_copy(&to[n + own][column], pack, u32(n) < rows);
                }
                pack += STEP * from.row;
            }
            at += COUNT * from.row;
        } else {
#pragma unroll 1
            for (int n = int(threadIdx.x); n < COUNT * ACROSS; n += COUNT_OF_THREADS) {
                const u32 row = n / ACROSS, column = n % ACROSS;
                const bool inside = first + row < from.count && column < width;
                to[row][column] = inside ? load<u16>(from.at + i64(first + row) * from.row + i64(column) * from.column) : 0;
            }
        }
    }
};

/// Loads the rows of each warp into registers, as left factors. Threads wait for each other.
template <bool PACKED, int DEEP, int COLUMNS>
DEVICE void load_rows(u32 (&to)[DEEP][COLUMNS][4], HalfTiles<COLUMNS>& tiles, const Lane& lane, const OperandRows& from, u32 first,
                      u32 width) {
    HalfRow<COLUMNS>* const rows = tiles.rows[0][0];
    RowCopies<DEEP, COLUMNS, PACKED>(from, first, width).template copy<BLOCK_ROWS>(rows, first);
    await_copies();
    __syncthreads();
#pragma unroll
    for (int m = 0; m < DEEP; m++) {
#pragma unroll
        for (int k = 0; k < COLUMNS; k++) {
            load_matrices(to[m][k], &rows[(lane.warp * DEEP + m) * MATRIX + lane.below_row][k * MATRIX + lane.below_column]);
        }
    }
    __syncthreads();
}

/// Adds the products of a warp's rows with rows of a tile.
template <class T, int DEEP, int COLUMNS, int N>
DEVICE void add_scores(f32 (&sums)[DEEP][N][4], const Lane& lane, const u32 (&left)[DEEP][COLUMNS][4], const HalfRow<COLUMNS>* rows) {
#pragma unroll
    for (int k = 0; k < COLUMNS; k++) {
#pragma unroll
        for (int n = 0; n < N / 2; n++) {
            u32 right[4];
            load_matrices(right, &rows[n * MATRIX + lane.beside_row][k * MATRIX + lane.beside_column]);
#pragma unroll
            for (int m = 0; m < DEEP; m++) {
                add_product<T>(sums[m][2 * n], left[m][k], right[0], right[1]);
                add_product<T>(sums[m][2 * n + 1], left[m][k], right[2], right[3]);
            }
        }
    }
}

/// Adds the rows of a tile, each times its weight. Weights are sums that become left factors, rounded: sums of eight columns are half of
/// the columns of a factor, so that they stay in registers.
template <class T, int COLUMNS, int DEEP, int N>
DEVICE void add_rows(f32 (&sums)[DEEP][2 * COLUMNS][4], const Lane& lane, const f32 (&weights)[DEEP][N][4], const HalfRow<COLUMNS>* rows) {
#pragma unroll
    for (int k = 0; k < N / 2; k++) {
        u32 left[DEEP][4];
#pragma unroll
        for (int i = 0; i < DEEP * 4; i++) {
            const f32* const pair = &weights[i / 4][2 * k + i % 4 / 2][i % 2 * 2];
            left[i / 4][i % 4] = pair_of<T>(pair[0], pair[1]);
        }
#pragma unroll
        for (int n = 0; n < COLUMNS; n++) {
            u32 right[4];
            load_transposed(right, &rows[k * MATRIX + lane.below_row][n * MATRIX + lane.below_column]);
#pragma unroll
            for (int m = 0; m < DEEP; m++) {
                add_product<T>(sums[m][2 * n], left[m], right[0], right[1]);
                add_product<T>(sums[m][2 * n + 1], left[m], right[2], right[3]);
            }
        }
    }
}

/// Hides scores of a matrix of rows: those of keys that do not exist, and with a causal mask those that are ahead of their query. Rows and
/// columns are queries and keys, or the reverse. `row` and `column` are those of the lane's first score, of which each row has `N` packs.
template <bool ROWS_ARE_KEYS, int N> DEVICE void hide_scores(f32 (&scores)[N][4], u32 row, u32 column, const HalfSizes& sizes) {
    // Counted from the first score. Sums hide queries that do not exist, and keys as rows are not stored.
    const i32 ahead = i32(ROWS_ARE_KEYS ? column - row : row - column) + sizes.ahead;
    const i32 columns = ROWS_ARE_KEYS ? max<i32>() : i32(sizes.keys - column);
#pragma unroll
    for (int i = 0; i < N * 4; i++) {
        const int across = i / 4 * 8 + i % 2, below = i / 2 % 2 * 8, away = ROWS_ARE_KEYS ? below - across : across - below;
        if (away > ahead || across >= columns) {
            scores[i / 4][i % 4] = neg_infinity<f32>();
        }
    }
}

/// Applies a mask to the same scores, in units of a binary logarithm.
template <class M, bool ROWS_ARE_KEYS, int N>
DEVICE void mask_scores(f32 (&scores)[N][4], u32 row, u32 column, const HalfSizes& sizes, const u8* mask, i64 query_step, i64 key_step) {
    const i64 row_step = ROWS_ARE_KEYS ? key_step : query_step, column_step = ROWS_ARE_KEYS ? query_step : key_step;
    const u32 rows = ROWS_ARE_KEYS ? sizes.keys : sizes.queries, columns = ROWS_ARE_KEYS ? sizes.queries : sizes.keys;
    typedef typename stored<M>::type Element;
    struct alignas(2 * sizeof(Element)) Pair {
        Element of[2];
    };
    const u8* const first = mask + i64(row) * row_step + i64(column) * column_step;
    const auto apply = [&](const auto& read) {
#pragma unroll
        for (int i = 0; i < N * 4; i += 2) {
            const int across = i / 4 * 8, below = i / 2 % 2 * 8;
            const Pair pair = read(first + below * row_step + across * column_step, below, across);
#pragma unroll
            for (int j = 0; j < 2; j++) {
                f32& score = scores[i / 4][i % 4 + j];
                if constexpr (same<M, Bool>) {
                    score = pair.of[j] != 0 ? score : neg_infinity<f32>();
                } else {
                    score += convert<f32>(pair.of[j]) * f32(LOG2_E);
                }
            }
        }
    };
    const bool inside = row + 8 < rows && column + (N - 1) * 8 + 1 < columns;
    if (inside && column_step == sizeof(Element) && (u64(first) | u64(row_step)) % sizeof(Pair) == 0) {
        apply([&](const u8* at, int, int) { return *(const Pair*)at; });
    } else {
        apply([&](const u8* at, int below, int across) {
            Pair pair = {};
            for (int j = 0; j < 2; j++) {
                if (row + below < rows && column + across + j < columns) {
                    pair.of[j] = *(const Element*)(at + j * column_step);
                }
            }
            return pair;
        });
    }
}

/// Stores the rows of a warp, row-major, each times a number. They pass through shared memory, which joins what is adjacent.
template <class T, int DEEP, int COLUMNS>
DEVICE void store_rows(u8* out, HalfTiles<COLUMNS>& tiles, const Lane& lane, const f32 (&sums)[DEEP][2 * COLUMNS][4],
                       const f32 (&factors)[DEEP][2], u32 first, u32 count, u32 width) {
    constexpr int ACROSS = COLUMNS * MATRIX, PACK = sizeof(u128) / sizeof(u16), PACKS = ACROSS / PACK;
    // Other warps may still read the last tile.
    __syncthreads();
    HalfRow<COLUMNS>* const rows = tiles.rows[0][0] + lane.warp * WARP_ROWS<DEEP>;
#pragma unroll
    for (int i = 0; i < DEEP * 4 * COLUMNS; i++) {
        const int m = i / (4 * COLUMNS), n = i / 2 % (2 * COLUMNS), half = i % 2;
        const f32* const pair = &sums[m][n][half * 2];
        u16* const to = &rows[m * MATRIX + lane.row + half * 8][n * 8 + lane.column];
        *(u32*)to = pair_of<T>(pair[0] * factors[m][half], pair[1] * factors[m][half]);
    }
    __syncwarp();
    out += u64(first) * width * sizeof(T);
    const u32 own = count > first ? count - first : 0;
    if ((u64(out) | width * sizeof(T)) % sizeof(u128) == 0) {
#pragma unroll
        for (int n = lane.lane; n < WARP_ROWS<DEEP> * PACKS; n += WARP) {
            const u32 row = n / PACKS, column = n % PACKS * PACK;
            if (row < own && column < width) {
                *(u128*)(out + (u64(row) * width + column) * sizeof(T)) = *(const u128*)&rows[row][column];
            }
        }
    } else {
#pragma unroll 1
        for (int n = lane.lane; n < WARP_ROWS<DEEP> * ACROSS; n += WARP) {
            const u32 row = n / ACROSS, column = n % ACROSS;
            if (row < own && column < width) {
                *(u16*)(out + (u64(row) * width + column) * sizeof(T)) = rows[row][column];
            }
        }
    }
}

} // namespace rushlight
