// The skeleton of every reduction. A program gives the functions of a fold and the types in memory; see `reduce.rs`.
//
// The order in which elements are combined depends on shapes and types alone. Adjacent elements form packs of 16 bytes, and each
// place of a pack has an accumulator of its own. The threads of a group, a warp or a block, take the packs of a row in turn. The
// accumulators of a warp join in a tree, then those of the warps in their order, and so do the pieces of a long row.

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

template <class Fold, class Out, class In> struct Reduction {
    typedef typename Fold::A A;
    typedef typename Fold::T T;

    static constexpr int WIDE = 16 / sizeof(In), ROOM = power_of_two(64 / sizeof(A));
    /// The elements of a pack, whose accumulators fit into registers.
    static constexpr int PACK = WIDE < ROOM ? WIDE : ROOM;
    struct alignas(PACK * sizeof(In)) Pack {
        typename stored<In>::type items[PACK];
    };
    /// How many loads a thread has under way at once: of packs, and of single elements.
    static constexpr int PACKS = 4, DEEP = ROOM < 8 ? ROOM : 8;

    /// A row of the input.
    struct Row {
        const u8* first;
        const Loops<1>& loops;
        bool small;

        DEVICE const u8* at(u64 element) const {
            return first + (loops.rank <= 1 ? i64(element) * loops.strides[0][0] : distance(element));
        }
        CALLED i64 distance(u64 element) const {
            i64 offset = 0;
            if (small) {
                loops.move(u32(element), &offset);
            } else {
                loops.move(element, &offset);
            }
            return offset;
        }
        DEVICE A take(A total, u64 element, const Numbers& numbers) const {
            return Fold::take(total, convert<T>(load<In>(at(element))), numbers);
        }
    };

    /// Where a result and its row begin.
    struct Position {
        i64 offsets[2];
        DEVICE Position(const Loops<2>& outer, u64 result, u64 results) : offsets{} {
            if (outer.rank <= 1) {
                offsets[0] = i64(result) * outer.strides[0][0];
                offsets[1] = i64(result) * outer.strides[0][1];
            } else {
                find(outer, result, results >> 31 == 0);
            }
        }
        CALLED void find(const Loops<2>& outer, u64 result, bool small) {
            if (small) {
                outer.move(u32(result), offsets);
            } else {
                outer.move(result, offsets);
            }
        }
        DEVICE Row row(const u8* input, const Loops<1>& inner, u64 length) const {
            return {input + offsets[1], inner, length >> 31 == 0};
        }
    };

    /// Joins some accumulators in a tree.
    template <int N> static DEVICE A tree(A (&totals)[N]) {
        for (int step = 1; step < N; step *= 2) {
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
            const Position position(outer, result, results);
            const Row row = position.row(input, inner, length);
            A total = Fold::start();
            for (u64 element = 0; element < length; element++) {
                total = row.take(total, element, numbers);
            }
            store<Out>(out + position.offsets[0], Fold::done(total, length, numbers));
        }
    }

    static DEVICE void take_pack(A* totals, const Pack& pack, const Numbers& numbers) {
        for (int n = 0; n < PACK; n++) {
            totals[n] = Fold::take(totals[n], convert<T>(load<In>(&pack.items[n])), numbers);
        }
    }

    /// What one thread of a group takes of a part of a row. `packed` if packs are adjacent in memory and aligned.
    template <int GROUP> static DEVICE A take(const Row& row, u64 first, u64 end, bool packed, const Numbers& numbers) {
        A totals[PACK];
        for (int n = 0; n < PACK; n++) {
            totals[n] = Fold::start();
        }
        constexpr u64 STEP = GROUP * PACK;
        u64 at = first + threadIdx.x % GROUP * PACK;
        if (packed && row.loops.rank <= 1) {
            for (; at + (PACKS - 1) * STEP + PACK <= end; at += PACKS * STEP) {
                Pack packs[PACKS];
                for (int n = 0; n < PACKS; n++) {
                    packs[n] = *(const Pack*)(row.first + (at + n * STEP) * sizeof(In));
                }
                for (int n = 0; n < PACKS; n++) {
                    take_pack(totals, packs[n], numbers);
                }
            }
        }
        if (packed) {
            for (; at + PACK <= end; at += STEP) {
                take_pack(totals, *(const Pack*)row.at(at), numbers);
            }
        }
        for (; at < end; at += STEP) {
            for (int n = 0; n < PACK; n++) {
                if (at + n < end) {
                    totals[n] = row.take(totals[n], at + n, numbers);
                }
            }
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
        const u64 first = blockIdx.y * piece, end = first + piece < length ? first + piece : length;
        for (u64 result = blockIdx.x * GROUPS + threadIdx.x / GROUP; result < results; result += gridDim.x * GROUPS) {
            const Position position(outer, result, results);
            const A own = take<GROUP>(position.row(input, inner, length), first, end, packed, numbers);
            const A total = join_group<Fold, GROUP>(own);
            if (threadIdx.x % GROUP == 0) {
                give(out + position.offsets[0], total, result, length, partial, numbers);
            }
        }
    }

    /// A lane for each of 32 results whose elements are adjacent. The warps of a block take the elements of rows in turn.
    static DEVICE void columns(u8* out, const u8* input, const Loops<2>& outer, const Loops<1>& inner, u64 results, u64 length,
                               u64 piece, A* partial, const Numbers& numbers) {
        __shared__ u128 bytes[THREADS * sizeof(A) / sizeof(u128)];
        A* const all = (A*)bytes;
        const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
        const u64 first = blockIdx.y * piece, end = first + piece < length ? first + piece : length;
        for (u64 group = blockIdx.x; group * WARP < results; group += gridDim.x) {
            const u64 result = group * WARP + lane;
            const Position position(outer, result < results ? result : 0, results);
            const Row row = position.row(input, inner, length);
            A totals[DEEP];
            for (int n = 0; n < DEEP; n++) {
                totals[n] = Fold::start();
            }
            u64 at = result < results ? first + warp : end;
            if (inner.rank <= 1) {
                for (; at + (DEEP - 1) * WARPS < end; at += DEEP * WARPS) {
                    In loaded[DEEP];
                    for (int n = 0; n < DEEP; n++) {
                        loaded[n] = load<In>(row.first + i64(at + n * WARPS) * inner.strides[0][0]);
                    }
                    for (int n = 0; n < DEEP; n++) {
                        totals[n] = Fold::take(totals[n], convert<T>(loaded[n]), numbers);
                    }
                }
            }
            for (; at < end; at += WARPS) {
                totals[0] = row.take(totals[0], at, numbers);
            }
            A total = tree(totals);
            __syncthreads();
            all[threadIdx.x] = total;
            __syncthreads();
            if (warp == 0 && result < results) {
                for (int n = 1; n < WARPS; n++) {
                    total = Fold::join(total, all[n * WARP + lane]);
                }
                give(out + position.offsets[0], total, result, length, partial, numbers);
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
                store<Out>(out + Position(outer, result, results).offsets[0], Fold::done(total, length, numbers));
            }
        }
    }
};

} // namespace rushlight
