// Softmax and its logarithm along lines, and their gradients. See `softmax.rs`.
//
// A group of threads reads a line twice: first for what all its elements amount to, and then for the results. Lines whose elements
// are apart have a thread each, so that neighbouring threads read neighbouring elements.

#pragma once

#include "reduce.cuh"
#include "special.cuh"

namespace rushlight {

/// The largest element, and the sum of the exponentials of all elements less the largest.
template <class C> struct Powers {
    C largest, sum;
};

template <class Number, bool logarithm> struct SoftmaxForward {
    typedef Number C;
    typedef Powers<C> A;
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

    /// A warp or a block for each line of adjacent elements.
    template <int GROUP> DEVICE void lines(u64 lines, u64 n) const {
        constexpr u64 GROUPS = THREADS / GROUP;
        constexpr int DEEP = 4;
        __shared__ u128 bytes[GROUPS * sizeof(A) / sizeof(u128) + 1];
        A* const joined = (A*)bytes;
        const unsigned own = threadIdx.x % GROUP, group = threadIdx.x / GROUP;
        for (u64 line = blockIdx.x * GROUPS + group; line < lines; line += gridDim.x * GROUPS) {
            const u64 first = line * n, end = first + n;
            A totals[DEEP];
            for (int turn = 0; turn < DEEP; turn++) {
                totals[turn] = Rule::start();
            }
            u64 at = first + own;
            for (; at + (DEEP - 1) * GROUP < end; at += DEEP * GROUP) {
                for (int turn = 0; turn < DEEP; turn++) {
                    totals[turn] = take(totals[turn], at + turn * GROUP);
                }
            }
            for (; at < end; at += GROUP) {
                totals[0] = take(totals[0], at);
            }
            const A half = Rule::join(totals[0], totals[1]), other = Rule::join(totals[2], totals[3]);
            const A total = join_group<Rule, GROUP>(Rule::join(half, other));
            if (own == 0) {
                joined[group] = Rule::done(total);
            }
            if constexpr (GROUP > WARP) {
                __syncthreads();
            } else {
                __syncwarp();
            }
            const A all = joined[group];
#pragma unroll 4
            for (u64 at = first + own; at < end; at += GROUP) {
                give(all, at);
            }
            __syncwarp();
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
