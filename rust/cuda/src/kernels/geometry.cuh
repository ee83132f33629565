// What kernels of all kinds take: numbers, addresses, and the loops over strided operands.

#pragma once

#include "convert.cuh"

namespace rushlight {

/// The most dimensions of a launch; `LoopNest` has joined adjacent ones.
constexpr int DIMS = 12;
constexpr int THREADS = 256;
constexpr int WARP = 32;
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

/// Nested loops, the innermost first. Strides count bytes. Fewer than 2^31 elements are divided by a size with a product and a shift.
template <int N> struct Loops {
    u32 rank;
    u64 sizes[DIMS];
    i64 strides[DIMS][N];
    u32 multipliers[DIMS], shifts[DIMS];

    DEVICE u64 quotient(u64 element, u32 dim) const { return element / sizes[dim]; }
    DEVICE u32 quotient(u32 element, u32 dim) const {
        return (u32(u64(element) * multipliers[dim] >> 32) + element) >> shifts[dim];
    }

    /// Adds the distance of an element to the offsets of all operands. The element is counted from the loop `dim` on.
    template <class Index> DEVICE void move(Index element, i64* offsets, u32 dim = 0) const {
        for (; dim < rank; dim++) {
            const Index rest = dim + 1 < rank ? quotient(element, dim) : 0, at = element - rest * Index(sizes[dim]);
            element = rest;
            for (int n = 0; n < N; n++) {
                offsets[n] += i64(at) * strides[dim][n];
            }
        }
    }
};

/// The first element of a thread, and the distance to its next one.
DEVICE u64 first_element() { return u64(blockIdx.x) * blockDim.x + threadIdx.x; }
DEVICE u64 element_step() { return u64(gridDim.x) * blockDim.x; }

/// Lowers `outside`, which the host reads, to the position of an index out of range. Nobody reads after a run of a graph: without
/// `outside` the device stops with an error, as in torch.
DEVICE void report(u64* outside, u64 position) {
    if (outside) {
        atomicMin(outside, position);
    } else {
        __assertfail("index out of bounds", "geometry.cuh", __LINE__, "report", 1);
    }
}

} // namespace rushlight
