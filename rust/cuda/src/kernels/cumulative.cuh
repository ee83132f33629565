// Cumulative results along lines, and results of whole lines, whose elements are accumulated in their order: sums, recurrences,
// and the best elements with their indices. Operands are row-major, as `outer` blocks of `n` times `inner` elements; a line has
// the `n` elements at one place of a block. See `cumulative.rs`.
//
// A block takes tiles: as many neighbouring lines as it has groups of threads, and `ITEMS` elements of its line for each thread. A
// tile passes through shared memory, so that neighbouring threads read and write neighbouring elements in whichever direction
// memory runs. Each thread joins its own elements, shuffles join the threads of a warp, and the accumulation of a line so far goes
// on to its next tile. If there are few lines, blocks share them in pieces: one kernel finds the totals of the pieces, a second
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

/// With `each` there is a result for every element, otherwise for every line. Neighbouring elements lie `along` lines, or across.
template <class Scan, u32 item_bits, bool each, bool along> struct Lines {
    typedef typename Scan::A A;
    static constexpr u32 ITEMS = 1 << item_bits;
    /// A cell is left free after the elements of each thread and of each line, so that threads use different banks.
    static constexpr u32 CELLS = THREADS * (ITEMS + 2);
    static DEVICE u32 cell(u32 place, u32 column) { return place + place / ITEMS + column; }

    /// Accumulates all pieces, which follow the total `before` them if there is one. Gives the results, or with `totals` the
    /// total of each piece instead.
    static DEVICE void run(const LineOperands& operands, const LineShape& shape, const A* before, A* totals) {
        // As bytes, because shared variables have no constructors.
        __shared__ u128 bytes[((CELLS + WARPS + THREADS) * sizeof(A) + sizeof(u128) - 1) / sizeof(u128)];
        A *const tile = (A*)bytes, *const sums = tile + CELLS, *const ends = sums + WARPS;
        const u32 threads = 1 << shape.thread_bits, columns = THREADS >> shape.thread_bits, rows = threads * ITEMS;
        const u32 column = threadIdx.x >> shape.thread_bits, first = (threadIdx.x & (threads - 1)) * ITEMS;
        // Where this thread reads and writes, in the order of memory: along the lines, or across them.
        const bool gives = each && !totals;
        const u32 own_across = threadIdx.x & (columns - 1), own_along = threadIdx.x / columns;
        const auto column_of = [&](u32 n) {
            return along ? (n * THREADS + threadIdx.x) >> (shape.thread_bits + item_bits) : own_across;
        };
        const auto row_of = [&](u32 n) { return along ? (n * THREADS + threadIdx.x) & (rows - 1) : n * threads + own_along; };
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
            for (u64 row = piece * shape.piece; row < end; row += rows) {
                const u32 height = end - row < rows ? u32(end - row) : rows;
                const auto inside = [&](u32 n) { return row_of(n) < height && line + column_of(n) < shape.lines; };
                A items[ITEMS];
#pragma unroll
                for (u32 n = 0; n < ITEMS; n++) {
                    const u64 index = row + row_of(n);
                    items[n] = inside(n) ? Scan::element(operands, place_of(n, index), index) : A();
                }
                __syncthreads();
#pragma unroll
                for (u32 n = 0; n < ITEMS; n++) {
                    tile[cell_of(n)] = items[n];
                }
                __syncthreads();
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
                        if (inside(n)) {
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
    static DEVICE A element(const LineOperands& operands, u64 at, u64) { return ((const A*)operands.at[2])[at]; }
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
    static DEVICE A element(const LineOperands& operands, u64 at, u64) {
        return convert<A>(convert<C>(load<In>(operands.at[2] + at * sizeof(In))));
    }
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
    static DEVICE A element(const LineOperands& operands, u64 at, u64 index) {
        return {convert<C>(load<In>(operands.at[2] + at * sizeof(In))), i64(index)};
    }
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
    static DEVICE A element(const LineOperands& operands, u64 at, u64) {
        return {convert<C>(load<T>(operands.at[3] + at * sizeof(T))), convert<C>(load<T>(operands.at[2] + at * sizeof(T)))};
    }
    static DEVICE A join(A a, A b) { return {times(b.factor, a.factor), plus(b.value, times(b.factor, a.value))}; }
    static DEVICE void give(const LineOperands& operands, u64 at, A total) {
        store<T>(operands.at[0] + at * sizeof(T), total.value);
    }
};

} // namespace rushlight
