// Softmax and its logarithm along lines, and their gradients. See `softmax.rs`.
//
// A group of threads keeps a line in registers. A longer line is read twice: first for what all its elements amount to, and then for
// the results. Lines whose elements are apart have a thread each, so that neighbouring threads read neighbouring elements.

#pragma once

#include "reduce.cuh"
#include "special.cuh"

namespace rushlight {

/// The largest element, and the sum of the exponentials of all elements less the largest.
template <class C> struct Powers {
    C largest, sum;
};

template <class C> struct Greatest {
    typedef C A;
    static DEVICE C join(C a, C b) { return a > b ? a : b; }
};
template <class C> struct Total {
    typedef C A;
    static DEVICE C join(C a, C b) { return a + b; }
};

template <class Number, bool logarithm> struct SoftmaxForward {
    typedef Number C;
    typedef Powers<C> A;
    static constexpr bool TWO = false;
    /// Turns the elements that the threads of a group keep into results.
    template <int GROUP, int DEEP> static DEVICE void solve(C (&x)[DEEP], const C (&)[DEEP], int count) {
        C largest = neg_infinity<C>();
        for (int n = 0; n < DEEP; n++) {
            largest = n < count ? Greatest<C>::join(largest, x[n]) : largest;
        }
        largest = share_group<GROUP>(join_group<Greatest<C>, GROUP>(largest));
        C sum = C(0);
        for (int n = 0; n < DEEP; n++) {
            const C shifted = x[n] - largest, power = exp(shifted);
            sum = n < count ? sum + power : sum;
            x[n] = logarithm ? shifted : power;
        }
        sum = share_group<GROUP>(join_group<Total<C>, GROUP>(sum));
        const C divisor = logarithm ? C(libm::ln(sum)) : sum;
        for (int n = 0; n < DEEP; n++) {
            x[n] = logarithm ? x[n] - divisor : x[n] / divisor;
        }
    }
    static DEVICE A start() { return {neg_infinity<C>(), C(0)}; }
    /// The exponential of a difference that is zero if both are infinite.
    static DEVICE C scale(C less, C largest) { return less == largest ? C(1) : exp(less - largest); }
    /// A new largest element counts as one, or as NaN if it is infinite.
    static DEVICE A take(A a, C x, C) {
        return x > a.largest ? A{x, a.sum * exp(a.largest - x) + (C(1) + (x - x))} : A{a.largest, a.sum + scale(x, a.largest)};
    }
    static DEVICE A join(A a, A b) {
        const C largest = a.largest > b.largest ? a.largest : b.largest;
        return {largest, a.sum * scale(a.largest, largest) + b.sum * scale(b.largest, largest)};
    }
    static DEVICE A done(A all) { return {all.largest, logarithm ? C(libm::ln(all.sum)) : all.sum}; }
    static DEVICE C give(A all, C x, C) {
        const C shifted = x - all.largest;
        return logarithm ? shifted - all.sum : exp(shifted) / all.sum;
    }
};

/// From the gradient and the result.
template <class Number, bool logarithm> struct SoftmaxBackward {
    typedef Number C;
    typedef C A;
    static constexpr bool TWO = true;
    template <int GROUP, int DEEP> static DEVICE void solve(C (&grad)[DEEP], const C (&result)[DEEP], int count) {
        C all = C(0);
        for (int n = 0; n < DEEP; n++) {
            all = n < count ? take(all, grad[n], result[n]) : all;
        }
        all = share_group<GROUP>(join_group<Total<C>, GROUP>(all));
        for (int n = 0; n < DEEP; n++) {
            grad[n] = give(all, grad[n], result[n]);
        }
    }
    static DEVICE A start() { return C(0); }
    static DEVICE A take(A a, C grad, C result) { return a + (logarithm ? grad : grad * result); }
    static DEVICE A join(A a, A b) { return a + b; }
    static DEVICE A done(A all) { return all; }
    static DEVICE C give(A all, C grad, C result) {
        return logarithm ? grad - exp(result) * all : result * (grad - all);
    }
};

template <class Rule, class Out, class X, class Y> struct Softmax {
    typedef typename Rule::C C;
    typedef typename Rule::A A;

    u8* out;
    const u8 *x, *y;

    DEVICE A take(A all, u64 at) const {
        return Rule::take(all, convert<C>(load<X>(x + at * sizeof(X))), convert<C>(load<Y>(y + at * sizeof(Y))));
    }
    DEVICE void give(A all, u64 at) const {
        const C value = Rule::give(all, convert<C>(load<X>(x + at * sizeof(X))), convert<C>(load<Y>(y + at * sizeof(Y))));
        store<Out>(out + at * sizeof(Out), value);
    }

    /// A warp or a block for each line of adjacent elements, of which a thread keeps up to `DEEP`.
    template <int GROUP, int DEEP> DEVICE void kept(u64 lines, u64 n) const {
        constexpr u64 GROUPS = THREADS / GROUP;
        const unsigned own = threadIdx.x % GROUP;
        const int count = own < n ? int((n - own + GROUP - 1) / GROUP) : 0;
        for (u64 line = blockIdx.x * GROUPS + threadIdx.x / GROUP; line < lines; line += gridDim.x * GROUPS) {
            const u64 first = line * n + own;
            C values[DEEP], others[DEEP];
            for (int turn = 0; turn < DEEP; turn++) {
                const u64 at = first + (turn < count ? turn : 0) * GROUP;
                values[turn] = turn < count ? convert<C>(load<X>(x + at * sizeof(X))) : C(0);
                others[turn] = Rule::TWO && turn < count ? convert<C>(load<Y>(y + at * sizeof(Y))) : C(0);
            }
            Rule::template solve<GROUP>(values, others, count);
            for (int turn = 0; turn < DEEP; turn++) {
                if (turn < count) {
                    store<Out>(out + (first + turn * GROUP) * sizeof(Out), values[turn]);
                }
            }
        }
    }

    /// A block for each line of adjacent elements, however long.
    DEVICE void lines(u64 lines, u64 n) const {
        constexpr int DEEP = 4;
        for (u64 line = blockIdx.x; line < lines; line += gridDim.x) {
            const u64 first = line * n, end = first + n;
            A totals[DEEP];
            for (int turn = 0; turn < DEEP; turn++) {
                totals[turn] = Rule::start();
            }
            u64 at = first + threadIdx.x;
            for (; at + (DEEP - 1) * THREADS < end; at += DEEP * THREADS) {
                for (int turn = 0; turn < DEEP; turn++) {
                    totals[turn] = take(totals[turn], at + turn * THREADS);
                }
            }
            for (; at < end; at += THREADS) {
                totals[0] = take(totals[0], at);
            }
            const A half = Rule::join(totals[0], totals[1]), other = Rule::join(totals[2], totals[3]);
            const A total = join_group<Rule, THREADS>(Rule::join(half, other));
            const A all = Rule::done(share_group<THREADS>(total));
#pragma unroll 4
            for (u64 at = first + threadIdx.x; at < end; at += THREADS) {
                give(all, at);
            }
        }
    }

    /// A thread for each line of elements that are `inner` apart.
    DEVICE void columns(u64 lines, u64 n, u64 inner) const {
        for (u64 line = first_element(); line < lines; line += element_step()) {
            const u64 first = line / inner * n * inner + line % inner;
            A all = Rule::start();
            for (u64 at = 0; at < n; at++) {
                all = take(all, first + at * inner);
            }
            all = Rule::done(all);
            for (u64 at = 0; at < n; at++) {
                give(all, first + at * inner);
            }
        }
    }
};

} // namespace rushlight
