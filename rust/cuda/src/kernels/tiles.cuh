// Sums of products over an inner dimension: a block computes a square of 64 rows and columns. The lines of the two factors, which are
// the rows of the first one and the columns of the second one, pass through shared memory in slices. Where the elements of a line lie
// is the operand's affair: of a matrix at constant distances (`StridedLines`), of windows elsewhere (`convolution.cuh`).
//
// Each element is summed in the order of the inner dimension.

#pragma once

#include "geometry.cuh"
#include "integers.cuh"

namespace rushlight {

constexpr int SQUARE = 64;

template <class A> DEVICE A multiply_add(A sum, A x, A y) {
    if constexpr (floating<A>) {
        return mul_add(x, y, sum);
    } else if constexpr (is_complex<A>) {
        return sum + x * y;
    } else {
        return wrapping_add(sum, wrapping_mul(x, y));
    }
}

template <class A> DEVICE A times(A x, A y) {
    if constexpr (floating<A> || is_complex<A>) {
        return x * y;
    } else {
        return wrapping_mul(x, y);
    }
}

template <class A> DEVICE A plus(A x, A y) {
    if constexpr (floating<A> || is_complex<A>) {
        return x + y;
    } else {
        return wrapping_add(x, y);
    }
}

/// A slice of 64 lines, in the type of the sums.
template <class A> struct SquareSlice {
    static constexpr int DEPTH = 16;
    /// One more than the lines, so that the elements of a line lie in different banks.
    static constexpr int ROW = SQUARE + 1;
    /// Because shared variables have no constructors.
    u128 bytes[ROW * DEPTH * sizeof(A) / sizeof(u128)];

    DEVICE A* elements() { return (A*)bytes; }
    template <class T> DEVICE void put(int line, int place, T element) { elements()[place * ROW + line] = convert<A>(element); }
};

/// A square whose elements are multiplied one by one; each thread has 16 of its sums.
template <class Sum> struct Square {
    typedef Sum A;
    typedef SquareSlice<A> Slice;
    static constexpr int DEPTH = Slice::DEPTH, ROW = Slice::ROW;
    /// The rows, and the columns, of a thread, and the distance between them.
    static constexpr int LINES = 4, APART = SQUARE / LINES;

    A sums[LINES][LINES];

    DEVICE Square() {
#pragma unroll
        for (int i = 0; i < LINES * LINES; i++) {
            sums[i / LINES][i % LINES] = A();
        }
    }

    DEVICE void add(Slice& first, Slice& second) {
        const A* const rows = first.elements() + threadIdx.x / APART;
        const A* const columns = second.elements() + threadIdx.x % APART;
#pragma unroll 4
        for (int k = 0; k < DEPTH; k++) {
#pragma unroll
            for (int i = 0; i < LINES * LINES; i++) {
                sums[i / LINES][i % LINES] =
                    multiply_add(sums[i / LINES][i % LINES], rows[k * ROW + i / LINES * APART], columns[k * ROW + i % LINES * APART]);
            }
        }
    }

    /// Gives the thread's sums to a function, with their rows and columns.
    template <class Take> DEVICE void each(const Take& take) const {
#pragma unroll
        for (int i = 0; i < LINES * LINES; i++) {
            take(int(threadIdx.x) / APART + i / LINES * APART, int(threadIdx.x) % APART + i % LINES * APART, sums[i / LINES][i % LINES]);
        }
    }
};

/// The lines of a matrix from `first` on, of which there are `count`, with `inner` elements each.
template <class T> struct StridedLines {
    const u8* at;
    i64 line_step, inner_step;
    u64 first, count, inner;

    /// Whether neighbours in memory are neighbours in a line.
    DEVICE bool along() const { return inner_step < line_step; }

    /// An element of a slice, by its line and its place in the slice, which begins with `start`.
    DEVICE T element(int line, int place, u64 start) const {
        const u64 l = first + line, k = start + place;
        return l < count && k < inner ? load<T>(at + i64(l) * line_step + i64(k) * inner_step) : T();
    }
};

/// Copies a slice of an operand to shared memory.
template <class S, class Operand> DEVICE void copy_slice(typename S::Slice& to, const Operand& from, u64 start) {
    // Neighbouring threads read neighbouring elements.
    if (from.along()) {
#pragma unroll
        for (int n = 0; n < SQUARE * S::DEPTH; n += THREADS) {
            const int line = (n + int(threadIdx.x)) / S::DEPTH, place = int(threadIdx.x) % S::DEPTH;
            to.put(line, place, from.element(line, place, start));
        }
    } else {
#pragma unroll
        for (int n = 0; n < SQUARE * S::DEPTH; n += THREADS) {
            const int line = int(threadIdx.x) % SQUARE, place = (n + int(threadIdx.x)) / SQUARE;
            to.put(line, place, from.element(line, place, start));
        }
    }
}

/// Adds the products of the elements from `start` to `end`. Operands have zeros behind their end. `prepare` is called by all threads
/// before a slice is copied, while others may still multiply the one before.
template <class S, class First, class Second, class Prepare>
DEVICE void add_products(S& square, typename S::Slice& rows, typename S::Slice& columns, const First& first, const Second& second,
                         u64 start, u64 end, const Prepare& prepare) {
    for (; start < end; start += S::DEPTH) {
        prepare(start);
        __syncthreads();
        copy_slice<S>(rows, first, start);
        copy_slice<S>(columns, second, start);
        __syncthreads();
        square.add(rows, columns);
    }
}

template <class S, class First, class Second>
DEVICE void add_products(S& square, typename S::Slice& rows, typename S::Slice& columns, const First& first, const Second& second,
                         u64 start, u64 end) {
    add_products(square, rows, columns, first, second, start, end, [](u64) {});
}

} // namespace rushlight
