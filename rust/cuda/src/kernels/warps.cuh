// What the threads of a warp or of a block give each other: the values of other lanes, and accumulations over the threads before.

#pragma once

#include "geometry.cuh"

namespace rushlight {

constexpr int WARPS = THREADS / WARP;

/// Shuffles a value of any type in words, because shuffles take numbers.
template <class T, class Shuffle> DEVICE T in_words(T own, const Shuffle& shuffle) {
    constexpr int WORDS = (sizeof(T) + 3) / 4;
    u32 words[WORDS] = {};
    memcpy(words, &own, sizeof(T));
    for (int n = 0; n < WORDS; n++) {
        words[n] = shuffle(words[n]);
    }
    memcpy((void*)&own, words, sizeof(T));
    return own;
}

/// The value of another lane of the warp.
template <class T> DEVICE T from_lane(T own, u32 lane) {
    return in_words(own, [=](u32 word) { return __shfl_sync(~0u, word, lane); });
}

/// The value of the lane that is `by` lanes lower.
template <class T> DEVICE T from_below(T own, u32 by) {
    return in_words(own, [=](u32 word) { return __shfl_up_sync(~0u, word, by); });
}

/// An accumulation, and after it a value.
template <class Scan> DEVICE typename Scan::A after(const Option<typename Scan::A>& before, typename Scan::A own) {
    return before.some ? Scan::join(before.value, own) : own;
}

/// The accumulation of the threads before this one, of `threads` adjacent ones that belong together: a power of two. `sums` is
/// shared, and has a value for each warp.
template <class Scan> DEVICE Option<typename Scan::A> before_thread(typename Scan::A own, u32 threads, typename Scan::A* sums) {
    typedef typename Scan::A A;
    const u32 warp = threadIdx.x / WARP, rank = threadIdx.x & (threads - 1), lane = rank % WARP;
    for (u32 by = 1; by < threads && by < WARP; by *= 2) {
        const A other = from_below(own, by);
        own = lane >= by ? Scan::join(other, own) : own;
    }
    const Option<A> beside = {lane > 0, from_below(own, 1)};
    if (threads <= WARP) {
        return beside;
    }
    if (lane == WARP - 1) {
        sums[warp] = own;
    }
    __syncthreads();
    Option<A> before = {false, own};
    for (u32 other = warp - rank / WARP; other < warp; other++) {
        before = {true, after<Scan>(before, sums[other])};
    }
    return beside.some ? Option<A>{true, after<Scan>(before, beside.value)} : before;
}

} // namespace rushlight
