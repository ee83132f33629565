// What kernels of all kinds take: numbers, addresses, and the loops over strided operands.

#pragma once

#include "convert.cuh"

namespace rushlight {

/// The most dimensions of a launch; `LoopNest` has joined adjacent ones.
constexpr int DIMS = 12;
constexpr int THREADS = 256;
/// The most numbers of a launch.
constexpr int NUMBERS = 12;

/// The numbers of a call, each in the dtype that the kernel computes in.
struct Numbers {
    u64 bits[NUMBERS][2];
    u32 count;
};

template <class T> DEVICE T number(const Numbers& numbers, int n) { return load<T>(numbers.bits[n]); }
template <class T> DEVICE Option<T> option(const Numbers& numbers, int n) {
    return {numbers.count > u32(n), number<T>(numbers, n)};
}

/// The first byte of each operand, the result first.
template <int N> struct Pointers {
    u8* at[N];
};

/// Nested loops, the innermost first. Strides count bytes.
template <int N> struct Loops {
    u32 rank;
    u64 sizes[DIMS];
    i64 strides[DIMS][N];

    /// Adds the distance of an element to the offsets of all operands.
    template <class Index> DEVICE void move(Index element, i64* offsets) const {
        for (u32 dim = 0; dim < rank; dim++) {
            const Index size = Index(sizes[dim]), at = dim + 1 < rank ? element % size : element;
            element = dim + 1 < rank ? element / size : 0;
            for (int n = 0; n < N; n++) {
                offsets[n] += i64(at) * strides[dim][n];
            }
        }
    }
};

/// The first element of a thread, and the distance to its next one.
DEVICE u64 first_element() { return u64(blockIdx.x) * blockDim.x + threadIdx.x; }
DEVICE u64 element_step() { return u64(gridDim.x) * blockDim.x; }

} // namespace rushlight
