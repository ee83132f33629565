// The positions of true elements. See `nonzero.rs`.

#pragma once

#include "warps.cuh"

namespace rushlight {

/// The adjacent elements of a thread, and those of a block.
constexpr u64 PER_THREAD = 16;
constexpr u64 CHUNK = PER_THREAD * THREADS;

DEVICE u32 count_own(const u8* mask, u64 first, u64 count) {
    u32 own = 0;
    for (u64 at = first; at < first + PER_THREAD && at < count; at++) {
        own += mask[at] != 0;
    }
    return own;
}

struct SumOfCounts {
    typedef u32 A;
    static DEVICE A join(A a, A b) { return a + b; }
};

/// The sum of the numbers of all threads before this one. `sums` is shared.
DEVICE u32 sum_before(u32 own, u32* sums) {
    // Threads may still read the sums of the chunk before.
    __syncthreads();
    return unwrap_or(before_thread<SumOfCounts>(own, THREADS, sums), 0u);
}

/// The number of true elements of each chunk.
DEVICE void count_true(const u8* mask, i64* counts, u64 count, u64 chunks) {
    __shared__ u32 sums[WARPS];
    for (u64 chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
        const u32 own = count_own(mask, chunk * CHUNK + threadIdx.x * PER_THREAD, count);
        const u32 before = sum_before(own, sums);
        if (threadIdx.x == THREADS - 1) {
            counts[chunk] = before + own;
        }
    }
}

/// The positions of true elements, from the numbers of those up to the end of each chunk.
DEVICE void write_true(const u8* mask, const i64* ends, i64* to, u64 count, u64 chunks) {
    __shared__ u32 sums[WARPS];
    for (u64 chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
        const u64 first = chunk * CHUNK + threadIdx.x * PER_THREAD;
        const u32 own = count_own(mask, first, count);
        i64 place = (chunk ? ends[chunk - 1] : 0) + sum_before(own, sums);
        for (u64 at = first; at < first + PER_THREAD && at < count; at++) {
            if (mask[at] != 0) {
                to[place++] = i64(at);
            }
        }
    }
}

/// Coordinates along a dimension of `size`, with `inner` elements for each of its indices.
DEVICE void coordinates(const i64* places, i64* to, u64 count, u64 inner, u64 size) {
    for (u64 at = first_element(); at < count; at += element_step()) {
        to[at] = i64(u64(places[at]) / inner % size);
    }
}

} // namespace rushlight
