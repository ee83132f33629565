// The skeleton of every reduction. A program gives the functions of a fold and the types in memory; see `reduce.rs`.
//
// The order in which elements are combined depends on shapes and types alone. Adjacent elements form packs of up to 16 bytes, and each
// place of a pack has an accumulator of its own. The threads of a group, a warp or a block, take the packs of a row in turn. The
// accumulators of a warp join in a tree, then those of the warps in their order, and so do the pieces of a long row.
//
// Bandwidth needs many requests at once: a thread loads several packs before it takes the first one.

#pragma once

#include "warps.cuh"

namespace rushlight {

/// The join of the accumulators of a warp or of a block, for its first thread.
template <class Fold, int GROUP> DEVICE typename Fold::A join_group(typename Fold::A own) {
    typedef typename Fold::A A;
    for (unsigned by = WARP / 2; by > 0; by /= 2) {
        own = Fold::join(own, from_lane(own, threadIdx.x + by));
    }
    if constexpr (GROUP > WARP) {
        // As bytes, because shared variables have no constructors.
        __shared__ u128 bytes[WARPS * sizeof(A) / sizeof(u128) + 1];
        A* const all = (A*)bytes;
        __syncthreads();
        if (threadIdx.x % WARP == 0) {
            all[threadIdx.x / WARP] = own;
        }
        __syncthreads();
        own = all[0];
        for (int n = 1; n < WARPS; n++) {
            own = Fold::join(own, all[n]);
        }
    }
    return own;
}

/// The value of a group's first thread, for all of them.
template <int GROUP, class A> DEVICE A share_group(A own) {
    if constexpr (GROUP > WARP) {
        __shared__ u128 bytes[sizeof(A) / sizeof(u128) + 1];
        A* const first = (A*)bytes;
        __syncthreads();
        if (threadIdx.x == 0) {
            *first = own;
        }
        __syncthreads();
        return *first;
    } else {
        return from_lane(own, 0);
    }
}

/// The greatest power of two that is not greater.
DEVICE constexpr int power_of_two(int n) { return n < 2 ? 1 : 2 * power_of_two(n / 2); }

/// As `move` of the loops, whose unrolling costs registers: those of a function that is called are its callers', too.
template <class Index, int N> DEVICE void move_in_turn(const Loops<N>& loops, Index element, i64* offsets) {
#pragma unroll 1
    for (u32 dim = 0; dim < loops.rank; dim++) {
        const Index rest = dim + 1 < loops.rank ? loops.quotient(element, dim) : 0;
        const i64 at = i64(element - rest * Index(loops.sizes[dim]));
        element = rest;
        for (int n = 0; n < N; n++) {
            offsets[n] += at * loops.strides[dim][n];
        }
    }
}

/// The elements of a row lie at one distance from each other if it is `even`.
template <class Fold, class Out, class In, bool even> struct Reduction {
    typedef typename Fold::A A;
    typedef typename Fold::T T;

    static constexpr int WIDE = 16 / sizeof(In), ROOM = power_of_two(64 / sizeof(A));
    /// The elements of a pack, whose accumulators fit into registers.
    static constexpr int PACK = WIDE < ROOM ? WIDE : ROOM;
    struct alignas(PACK * sizeof(In)) Pack {
        typename stored<In>::type items[PACK];
    };
    /// How many packs a thread loads at once.
    static constexpr int PACKS = 4;

    /// Where a result and its row begin.
    struct Position {
        i64 result, row;
    };
    static DEVICE Position position(const Loops<2>& outer, u64 result, u64 results) {
        if (outer.rank <= 1) {
            return {i64(result) * outer.strides[0][0], i64(result) * outer.strides[0][1]};
        }
        return find_position(outer, result, results >> 31 == 0);
    }
    static CALLED Position find_position(const Loops<2>& outer, u64 result, bool small) {
        i64 offsets[2] = {};
        if (small) {
            move_in_turn(outer, u32(result), offsets);
        } else {
            move_in_turn(outer, result, offsets);
        }
        return {offsets[0], offsets[1]};
    }

    /// The part of a row that a block takes, which is shorter than 2^32 elements.
    struct Row {
        const u8* first;
        const Loops<1>& loops;
        u64 start;
        u32 count;
        bool small;

        DEVICE Row(const u8* first, const Loops<1>& loops, u64 start, u64 piece, u64 length)
            : first(even ? first + i64(start) * loops.strides[0][0] : first), loops(loops), start(start),
              count(u32(length - start < piece ? length - start : piece)), small(length >> 31 == 0) {}
        DEVICE const u8* at(u32 element) const {
            return first + (even ? i64(element) * loops.strides[0][0] : distance(loops, start + element, small));
        }
        /// Of rows whose packs are adjacent.
        DEVICE const Pack* pack(u32 element) const {
            return (const Pack*)(even ? first + u64(element) * sizeof(In) : at(element));
        }
    };
    static CALLED i64 distance(const Loops<1>& loops, u64 element, bool small) {
        i64 offset = 0;
        if (small) {
            move_in_turn(loops, u32(element), &offset);
        } else {
            move_in_turn(loops, element, &offset);
        }
        return offset;
    }

    static DEVICE A take_one(A total, const void* from, const Numbers& numbers) {
        return Fold::take(total, convert<T>(load<In>(from)), numbers);
    }

    /// Joins some accumulators in a tree.
    template <int N> static DEVICE A tree(A (&totals)[N]) {
#pragma unroll
        for (int step = 1; step < N; step *= 2) {
#pragma unroll
            for (int n = 0; n < N; n += 2 * step) {
                totals[n] = Fold::join(totals[n], totals[n + step]);
            }
        }
        return totals[0];
    }

    /// A thread for each result: for short rows.
    static DEVICE void serial(u8* out, const u8* input, const Loops<2>& outer, const Loops<1>& inner, u64 results, u64 length,
                              const Numbers& numbers) {
        for (u64 result = first_element(); result < results; result += element_step()) {
            const Position at = position(outer, result, results);
            const Row own(input + at.row, inner, 0, length, length);
            A total = Fold::start();
            for (u32 element = 0; element < own.count; element += PACKS) {
                typename stored<In>::type items[PACKS];
#pragma unroll
                for (int n = 0; n < PACKS; n++) {
                    if (element + n < own.count) {
                        items[n] = *(const typename stored<In>::type*)own.at(element + n);
                    }
                }
#pragma unroll
                for (int n = 0; n < PACKS; n++) {
                    if (element + n < own.count) {
                        total = take_one(total, &items[n], numbers);
                    }
                }
            }
            store<Out>(out + at.result, Fold::done(total, length, numbers));
        }
    }

    /// Takes the first elements of a pack.
    static DEVICE void take_pack(A* totals, const Pack& pack, u32 count, const Numbers& numbers) {
#pragma unroll
        for (int item = 0; item < PACK; item++) {
            if (u32(item) < count) {
                totals[item] = take_one(totals[item], &pack.items[item], numbers);
            }
        }
    }

    /// What one thread of a group takes of a row. `packed` if packs are adjacent in memory and aligned.
    template <int GROUP> static DEVICE A take(const Row& row, bool packed, const Numbers& numbers) {
        constexpr u32 STEP = GROUP * PACK;
        const u32 first = threadIdx.x % GROUP * PACK;
        A totals[PACK];
#pragma unroll
        for (int n = 0; n < PACK; n++) {
            totals[n] = Fold::start();
        }
        const u32 whole = packed ? row.count - row.count % PACK : 0;
        for (u32 at = first; at < whole; at += PACKS * STEP) {
            Pack packs[PACKS];
#pragma unroll
            for (int n = 0; n < PACKS; n++) {
                if (at + n * STEP < whole) {
                    packs[n] = *row.pack(at + n * STEP);
                }
            }
#pragma unroll
            for (int n = 0; n < PACKS; n++) {
                if (at + n * STEP < whole) {
                    take_pack(totals, packs[n], PACK, numbers);
                }
            }
        }
        // What fills no pack is the next thread's turn.
        const u32 turn = whole / PACK % GROUP * PACK;
        for (u32 at = whole + (first < turn ? first + STEP : first) - turn; at < row.count; at += STEP) {
            const u32 left = row.count - at;
            Pack pack;
#pragma unroll
            for (int item = 0; item < PACK; item++) {
                if (u32(item) < left) {
                    pack.items[item] = *(const typename stored<In>::type*)row.at(at + item);
                }
            }
            take_pack(totals, pack, left, numbers);
        }
        return tree(totals);
    }

    /// Writes the result of a row, or of the block's piece if there are several.
    static DEVICE void give(u8* out, A total, u64 result, u64 length, A* partial, const Numbers& numbers) {
        if (partial) {
            partial[result * gridDim.y + blockIdx.y] = total;
        } else {
            store<Out>(out, Fold::done(total, length, numbers));
        }
    }

    /// A warp or a block for each row, or for each piece of a row.
    template <int GROUP>
    static DEVICE void rows(u8* out, const u8* input, const Loops<2>& outer, const Loops<1>& inner, u64 results, u64 length,
                            u64 piece, bool packed, A* partial, const Numbers& numbers) {
        constexpr u64 GROUPS = THREADS / GROUP;
        for (u64 result = blockIdx.x * GROUPS + threadIdx.x / GROUP; result < results; result += gridDim.x * GROUPS) {
            const Position at = position(outer, result, results);
            const A own = take<GROUP>(Row(input + at.row, inner, blockIdx.y * piece, piece, length), packed, numbers);
            const A total = join_group<Fold, GROUP>(own);
            if (threadIdx.x % GROUP == 0) {
                give(out + at.result, total, result, length, partial, numbers);
            }
        }
    }

    /// Rows whose elements are adjacent: a thread takes a pack of neighbouring rows, and `1 << lane_bits` threads lie side by side. The
    /// others of a block take further elements of the same rows, in turn. The rows of a line, the innermost loop, form packs of
    /// their own, of which there are `packs` in all lines.
    static DEVICE void columns(u8* out, const u8* input, const Loops<2>& outer, const Loops<1>& inner, u64 packs, u64 length,
                               u64 piece, bool packed, u32 lane_bits, A* partial, const Numbers& numbers) {
        __shared__ u128 bytes[THREADS * PACK * sizeof(A) / sizeof(u128)];
        A(*const all)[THREADS] = (A(*)[THREADS])bytes;
        const u32 lanes = 1 << lane_bits, strand = threadIdx.x >> lane_bits, strands = THREADS >> lane_bits;
        const u64 line = outer.sizes[0], packs_of_line = (line + PACK - 1) / PACK;
        for (u64 group = blockIdx.x; group << lane_bits < packs; group += gridDim.x) {
            const u64 pack = (group << lane_bits) + (threadIdx.x & (lanes - 1));
            const u64 before = outer.rank <= 1 ? 0 : pack / packs_of_line, first = (pack - before * packs_of_line) * PACK;
            const u64 result = pack < packs ? before * line + first : 0;
            const int width = pack < packs ? (line - first < PACK ? int(line - first) : PACK) : 0;
            const Position at = position(outer, result, packs * PACK);
            const Row own(input + at.row, inner, blockIdx.y * piece, piece, length);
            A totals[PACK];
#pragma unroll
            for (int item = 0; item < PACK; item++) {
                totals[item] = Fold::start();
            }
            const auto load = [&](const u8* from) {
                Pack loaded;
                if (packed) {
                    return *(const Pack*)from;
                }
#pragma unroll
                for (int item = 0; item < PACK; item++) {
                    if (item < width) {
                        loaded.items[item] = ((const typename stored<In>::type*)from)[item];
                    }
                }
                return loaded;
            };
            for (u32 element = width > 0 ? strand : own.count; element < own.count; element += PACKS * strands) {
                Pack loaded[PACKS];
#pragma unroll
                for (int n = 0; n < PACKS; n++) {
                    if (element + n * strands < own.count) {
                        loaded[n] = load(own.at(element + n * strands));
                    }
                }
#pragma unroll
                for (int n = 0; n < PACKS; n++) {
                    if (element + n * strands < own.count) {
                        take_pack(totals, loaded[n], PACK, numbers);
                    }
                }
            }
            __syncthreads();
#pragma unroll
            for (int item = 0; item < PACK; item++) {
                all[item][threadIdx.x] = totals[item];
            }
            for (u32 by = strands / 2; by > 0; by /= 2) {
                __syncthreads();
                if (strand < by) {
#pragma unroll
                    for (int item = 0; item < PACK; item++) {
                        all[item][threadIdx.x] = Fold::join(all[item][threadIdx.x], all[item][threadIdx.x + by * lanes]);
                    }
                }
            }
            for (int item = 0; strand == 0 && item < width; item++) {
                give(out + at.result + item * outer.strides[0][0], all[item][threadIdx.x], result + item, length, partial, numbers);
            }
        }
    }

    /// A block for each result, which joins its pieces.
    static DEVICE void pieces(u8* out, const A* partial, const Loops<2>& outer, u64 results, u64 count, u64 length, const Numbers& numbers) {
        for (u64 result = blockIdx.x; result < results; result += gridDim.x) {
            A total = Fold::start();
            for (u64 piece = threadIdx.x; piece < count; piece += THREADS) {
                total = Fold::join(total, partial[result * count + piece]);
            }
            total = join_group<Fold, THREADS>(total);
            if (threadIdx.x == 0) {
                store<Out>(out + position(outer, result, results).result, Fold::done(total, length, numbers));
            }
        }
    }
};

} // namespace rushlight
