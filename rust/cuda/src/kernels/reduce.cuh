// The skeleton of every reduction. A program gives the functions of a fold and the types in memory; see `reduce.rs`.
//
// The order in which elements are combined depends on the shape alone: each thread takes every 256th element of its piece of a
// row, the threads of a block join in a tree, and pieces join in a tree again.

#pragma once

#include "geometry.cuh"

namespace rushlight {

/// The join of all threads' accumulators, for thread 0.
template <class Fold> DEVICE typename Fold::A join_block(typename Fold::A own) {
    typedef typename Fold::A A;
    // As bytes, because shared variables have no constructors.
    __shared__ u128 bytes[THREADS * sizeof(A) / sizeof(u128)];
    A* const all = (A*)bytes;
    __syncthreads();
    all[threadIdx.x] = own;
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            all[threadIdx.x] = Fold::join(all[threadIdx.x], all[threadIdx.x + half]);
        }
    }
    return all[0];
}

template <class Fold, class Out, class In> struct Reduction {
    typedef typename Fold::A A;
    typedef typename Fold::T T;

    static DEVICE A take(A total, const u8* row, const Loops<1>& inner, u64 element, const Numbers& numbers) {
        i64 offset = 0;
        inner.move(element, &offset);
        return Fold::take(total, convert<T>(load<In>(row + offset)), numbers);
    }

    /// Where a result and its row begin.
    struct Place {
        i64 offsets[2];
        DEVICE Place(const Loops<2>& outer, u64 result) : offsets{} { outer.move(result, offsets); }
    };

    /// A thread for each result: for short rows.
    static DEVICE void serial(u8* out, const u8* input, const Loops<2>& outer, const Loops<1>& inner, u64 results, u64 length,
                              const Numbers& numbers) {
        for (u64 result = first_element(); result < results; result += element_step()) {
            const Place place(outer, result);
            A total = Fold::start();
            for (u64 element = 0; element < length; element++) {
                total = take(total, input + place.offsets[1], inner, element, numbers);
            }
            store<Out>(out + place.offsets[0], Fold::done(total, length, numbers));
        }
    }

    /// A block for each piece of a row. The accumulators of pieces go to `partial`, if there are several.
    static DEVICE void rows(u8* out, const u8* input, const Loops<2>& outer, const Loops<1>& inner, u64 results, u64 length,
                            u64 piece, A* partial, const Numbers& numbers) {
        const u64 first = blockIdx.y * piece, end = first + piece < length ? first + piece : length;
        for (u64 result = blockIdx.x; result < results; result += gridDim.x) {
            const Place place(outer, result);
            A total = Fold::start();
            for (u64 element = first + threadIdx.x; element < end; element += THREADS) {
                total = take(total, input + place.offsets[1], inner, element, numbers);
            }
            total = join_block<Fold>(total);
            if (threadIdx.x == 0 && partial) {
                partial[result * gridDim.y + blockIdx.y] = total;
            } else if (threadIdx.x == 0) {
                store<Out>(out + place.offsets[0], Fold::done(total, length, numbers));
            }
        }
    }

    /// A block for each result, which joins its pieces.
    static DEVICE void pieces(u8* out, const A* partial, const Loops<2>& outer, u64 results, u64 count, u64 length, const Numbers& numbers) {
        for (u64 result = blockIdx.x; result < results; result += gridDim.x) {
            A total = Fold::start();
            for (u64 piece = threadIdx.x; piece < count; piece += THREADS) {
                total = Fold::join(total, partial[result * count + piece]);
            }
            total = join_block<Fold>(total);
            if (threadIdx.x == 0) {
                store<Out>(out + Place(outer, result).offsets[0], Fold::done(total, length, numbers));
            }
        }
    }
};

} // namespace rushlight
