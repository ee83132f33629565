// Cumulative results along lines, and results of whole lines, whose elements are accumulated in their order: sums, recurrences,
// and the best elements with their indices. Operands are row-major, as `outer` blocks of `n` times `inner` elements; a line has
// the `n` elements at one place of a block. See `cumulative.rs`.
//
// A block takes tiles: as many neighbouring lines as it has groups of threads, and `ITEMS` elements of its line for each thread. A
// tile passes through shared memory, so that neighbouring threads read and write neighbouring elements in whichever direction
// memory runs. Each thread joins its own elements, shuffles join the threads of a warp, and the accumulation of a line so far goes
// on to its next tile, which is loaded meanwhile. If there are few lines, blocks share them in pieces: one kernel finds the totals of the pieces, a second
// one accumulates these, and the third one goes through the elements again, each piece after the total of those before it.
// The order in which elements are joined depends on the shape alone.

#pragma once

#include "tiles.cuh"
#include "special.cuh"
#include "warps.cuh"

namespace rushlight {

/// Results are the first two operands, and inputs the others.
typedef Pointers<4> LineOperands;

/// Lines, their pieces of `piece` elements, and the logarithm of the number of threads that share a line.
struct LineShape {
    u64 lines, n, inner, piece, pieces;
    u32 thread_bits;

    DEVICE u64 start(u64 line) const { return inner == 1 ? line * n : line / inner * n * inner + line % inner; }
};

/// With `each` there is a result for every element, otherwise for every line. Neighbouring elements lie `along` lines, or across. If
/// lines are `alone`, all threads of a block share one, and the places of elements follow from constants.
template <class Scan, u32 item_bits, bool each, bool along, bool alone> struct Lines {
    typedef typename Scan::A A;
    static constexpr u32 ITEMS = 1 << item_bits, THREAD_BITS = 8;
    /// A cell is left free after the elements of each thread and of each line, so that threads use different banks.
    static constexpr u32 CELLS = THREADS * (ITEMS + 2);
    static DEVICE u32 cell(u32 place, u32 column) { return place + place / ITEMS + column; }

    /// Accumulates all pieces, which follow the total `before` them if there is one. Gives the results, or with `totals` the
    /// total of each piece instead.
    static DEVICE void run(const LineOperands& operands, const LineShape& shape, const A* before, A* totals) {
        // As bytes, because shared variables have no constructors.
        __shared__ u128 bytes[((CELLS + WARPS + THREADS) * sizeof(A) + sizeof(u128) - 1) / sizeof(u128)];
        A *const tile = (A*)bytes, *const sums = tile + CELLS, *const ends = sums + WARPS;
        const u32 thread_bits = alone ? THREAD_BITS : shape.thread_bits;
        const u32 threads = 1 << thread_bits, columns = THREADS >> thread_bits, rows = threads * ITEMS;
        const u32 column = alone ? 0 : threadIdx.x >> thread_bits, first = (threadIdx.x - column * threads) * ITEMS;
        // Where this thread reads and writes, in the order of memory: along the lines, or across them.
        const bool gives = each && !totals;
        const u32 own_across = threadIdx.x & (columns - 1), own_along = threadIdx.x / columns;
        const auto column_of = [&](u32 n) {
            return alone ? 0 : along ? (n * THREADS + threadIdx.x) >> (thread_bits + item_bits) : own_across;
        };
        const auto row_of = [&](u32 n) {
            return along ? (n * THREADS + threadIdx.x) - column_of(n) * rows : n * threads + own_along;
        };
        const auto cell_of = [&](u32 n) { return cell(column_of(n) * rows + row_of(n), column_of(n)); };
        const u64 count = (shape.lines + columns - 1) / columns * shape.pieces;
        for (u64 at = blockIdx.x; at < count; at += gridDim.x) {
            // From the last piece to the first: the results, which come next, begin with what the cache still has.
            const u64 work = totals ? count - 1 - at : at;
            const u64 line = work / shape.pieces * columns, piece = work % shape.pieces;
            const u64 end = (piece + 1) * shape.piece < shape.n ? (piece + 1) * shape.piece : shape.n;
            const u64 across = along ? 0 : shape.start(line + own_across);
            const auto place_of = [&](u32 n, u64 row) {
                return along ? (line + column_of(n)) * shape.n + row : across + row * shape.inner;
            };
            const bool is_line = line + column < shape.lines;
            const u64 total = (line + column) * shape.pieces + piece;
            Option<A> so_far = {before && piece > 0 && is_line, A()};
            if (so_far.some) {
                so_far.value = before[total - 1];
            }
            const auto height_of = [&](u64 row) { return end - row < rows ? u32(end - row) : rows; };
            const auto is_inside = [&](u32 n, u32 height) {
                return row_of(n) < height && (alone || line + column_of(n) < shape.lines);
            };
            // As in memory: a conversion would wait for them.
            typename Scan::Stored items[ITEMS];
            const auto load_tile = [&](u64 row) {
                const u32 height = height_of(row);
#pragma unroll
                for (u32 n = 0; n < ITEMS; n++) {
                    if (is_inside(n, height)) {
                        items[n] = Scan::stored(operands, place_of(n, row + row_of(n)));
                    }
                }
            };
            load_tile(piece * shape.piece);
            for (u64 row = piece * shape.piece; row < end; row += rows) {
                const u32 height = height_of(row);
                __syncthreads();
#pragma unroll
                for (u32 n = 0; n < ITEMS; n++) {
                    tile[cell_of(n)] = is_inside(n, height) ? Scan::element(items[n], row + row_of(n)) : A();
                }
                __syncthreads();
                // The next tile is under way while this one is accumulated.
                if (row + rows < end) {
                    load_tile(row + rows);
                }
                A* const own = tile + cell(column * rows + first, column);
                A joined = own[0];
                for (u32 n = 1; n < ITEMS; n++) {
                    joined = Scan::join(joined, own[n]);
                }
                const Option<A> beside = before_thread<Scan>(joined, threads, sums);
                Option<A> running = beside.some ? Option<A>{true, after<Scan>(so_far, beside.value)} : so_far;
                const u32 own_count = first < height ? (height - first < ITEMS ? height - first : ITEMS) : 0;
                const bool is_last = own_count && first + own_count == height;
                if (gives || is_last) {
                    for (u32 n = 0; n < own_count; n++) {
                        running = {true, after<Scan>(running, own[n])};
                        own[n] = running.value;
                    }
                }
                if (is_last) {
                    ends[column] = running.value;
                }
                __syncthreads();
                so_far = {true, ends[column]};
                if (gives) {
#pragma unroll
                    for (u32 n = 0; n < ITEMS; n++) {
                        if (is_inside(n, height)) {
                            Scan::give(operands, place_of(n, row + row_of(n)), tile[cell_of(n)]);
                        }
                    }
                }
            }
            if (is_line && first == 0 && totals) {
                totals[total] = so_far.value;
            } else if (is_line && first == 0 && !each) {
                Scan::give(operands, line + column, so_far.value);
            }
        }
    }
};

/// Totals of pieces, the third operand, which are accumulated in their place; or the results of whole lines.
template <class Scan, bool each> struct Joined : Scan {
    typedef typename Scan::A A;
    typedef A Stored;
    static DEVICE A stored(const LineOperands& operands, u64 at) { return ((const A*)operands.at[2])[at]; }
    static DEVICE A element(A total, u64) { return total; }
    static DEVICE void give(const LineOperands& operands, u64 at, A total) {
        if constexpr (each) {
            ((A*)operands.at[2])[at] = total;
        } else {
            Scan::give(operands, at, total);
        }
    }
};

/// Elements are converted to `C`, the type of the arithmetic, and then to the accumulator's.
template <class In, class C, class Sum, class Out> struct Accumulated {
    typedef Sum A;
    typedef typename rushlight::stored<In>::type Stored;
    static DEVICE Stored stored(const LineOperands& operands, u64 at) { return ((const Stored*)operands.at[2])[at]; }
    static DEVICE A element(Stored x, u64) { return convert<A>(convert<C>(load<In>(&x))); }
    static DEVICE void give(const LineOperands& operands, u64 at, A total) {
        store<Out>(operands.at[0] + at * sizeof(Out), convert<C>(total));
    }
};
template <class In, class C, class Sum, class Out> struct CumulativeSum : Accumulated<In, C, Sum, Out> {
    static DEVICE Sum join(Sum a, Sum b) { return plus(a, b); }
};
template <class In, class C, class Sum, class Out> struct CumulativeProduct : Accumulated<In, C, Sum, Out> {
    static DEVICE Sum join(Sum a, Sum b) { return times(a, b); }
};
/// Logarithms of sums of exponentials.
template <class In, class C, class Sum, class Out> struct CumulativeLogSum : Accumulated<In, C, Sum, Out> {
    static DEVICE Sum join(Sum a, Sum b) {
        if (a != a || b != b) {
            return a + b;
        }
        const Sum more = a > b ? a : b, less = a > b ? b : a;
        return more == less && is_infinite(more) ? more : more + libm::ln_1p(libm::exp(less - more));
    }
};

/// The best element so far and its index. NaN is better than all others; of equal ones the `first` or the last is chosen.
template <class T> struct Chosen {
    T value;
    i64 index;
};
template <class T> DEVICE bool not_a_number(T x) {
    if constexpr (floating<T>) {
        return x != x;
    } else {
        return false;
    }
}
template <class T> DEVICE bool beats(T a, T b, bool up) {
    return not_a_number(a) ? !not_a_number(b) : (up ? a > b : a < b);
}
template <class In, class C, bool up, bool first> struct Best {
    typedef Chosen<C> A;
    typedef typename rushlight::stored<In>::type Stored;
    static DEVICE Stored stored(const LineOperands& operands, u64 at) { return ((const Stored*)operands.at[2])[at]; }
    static DEVICE A element(Stored x, u64 index) { return {convert<C>(load<In>(&x)), i64(index)}; }
    static DEVICE A join(A a, A b) {
        if constexpr (first) {
            return beats(b.value, a.value, up) ? b : a;
        } else {
            return beats(a.value, b.value, up) ? a : b;
        }
    }
    static DEVICE void give(const LineOperands& operands, u64 at, A best) {
        if (operands.at[0]) {
            store<In>(operands.at[0] + at * sizeof(In), best.value);
        }
        store<i64>(operands.at[1] + at * sizeof(i64), best.index);
    }
};

/// `x + factor * before`: composed as functions of the result before.
template <class C> struct Affine {
    C factor, value;
};
template <class T, class C> struct Recurrence {
    typedef Affine<C> A;
    typedef Affine<T> Stored;
    static DEVICE Stored stored(const LineOperands& operands, u64 at) {
        return {((const T*)operands.at[3])[at], ((const T*)operands.at[2])[at]};
    }
    static DEVICE A element(Stored x, u64) { return {convert<C>(x.factor), convert<C>(x.value)}; }
    static DEVICE A join(A a, A b) { return {times(b.factor, a.factor), plus(b.value, times(b.factor, a.value))}; }
    static DEVICE void give(const LineOperands& operands, u64 at, A total) {
        store<T>(operands.at[0] + at * sizeof(T), total.value);
    }
};

} // namespace rushlight
