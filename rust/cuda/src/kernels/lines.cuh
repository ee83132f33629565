// Cumulative results along lines, and results of whole lines, whose elements are accumulated in their order: sums, recurrences,
// and the best elements with their indices. Operands are row-major, as `outer` blocks of `n` times `inner` elements; a line has
// the `n` elements at one place of a block. See `lines.rs`.
//
// A thread takes short lines. A block divides a long line into 256 adjacent pieces, whose accumulations are joined in order.

#pragma once

#include "matmul.cuh"
#include "special.cuh"

namespace rushlight {

/// Results are the first two operands, and inputs the others.
typedef Pointers<4> LineOperands;

template <class Scan> struct Lines {
    typedef typename Scan::A A;

    static DEVICE u64 start(u64 line, u64 n, u64 inner) { return line / inner * n * inner + line % inner; }

    /// The accumulation of a part of a line that is not empty, after `before` if there is one. `each` gives it for every element.
    static DEVICE A run(const LineOperands& operands, u64 start, u64 inner, u64 first, u64 end, const A* before, bool each) {
        A total = Scan::element(operands, start + first * inner, first);
        if (before) {
            total = Scan::join(*before, total);
        }
        for (u64 at = first;; ) {
            if (each) {
                Scan::give(operands, start + at * inner, total);
            }
            if (++at >= end) {
                return total;
            }
            total = Scan::join(total, Scan::element(operands, start + at * inner, at));
        }
    }

    static DEVICE void serial(const LineOperands& operands, u64 lines, u64 n, u64 inner, bool each) {
        for (u64 line = first_element(); line < lines; line += element_step()) {
            const A total = run(operands, start(line, n, inner), inner, 0, n, nullptr, each);
            if (!each) {
                Scan::give(operands, line, total);
            }
        }
    }

    static DEVICE void blocks(const LineOperands& operands, u64 lines, u64 n, u64 inner, bool each) {
        // As bytes, because shared variables have no constructors.
        __shared__ u128 bytes[THREADS * sizeof(A) / sizeof(u128)];
        A* const all = (A*)bytes;
        const u64 piece = (n + THREADS - 1) / THREADS, first = threadIdx.x * piece;
        const u64 end = first + piece < n ? first + piece : n, pieces = (n + piece - 1) / piece;
        for (u64 line = blockIdx.x; line < lines; line += gridDim.x) {
            const u64 begin = start(line, n, inner);
            __syncthreads();
            if (first < n) {
                all[threadIdx.x] = run(operands, begin, inner, first, end, nullptr, false);
            }
            __syncthreads();
            if (threadIdx.x == 0) {
                for (u64 at = 1; at < pieces; at++) {
                    all[at] = Scan::join(all[at - 1], all[at]);
                }
                if (!each) {
                    Scan::give(operands, line, all[pieces - 1]);
                }
            }
            __syncthreads();
            if (each && first < n) {
                run(operands, begin, inner, first, end, threadIdx.x ? all + threadIdx.x - 1 : nullptr, true);
            }
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
