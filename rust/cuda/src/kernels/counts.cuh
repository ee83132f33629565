// Counts of numbers and of the elements of bins. See `counts.rs`.

#pragma once

#include "convert.cuh"
#include "geometry.cuh"

namespace rushlight {

/// Counts each number from zero on. Sums of integers do not depend on their order.
DEVICE void count_numbers(const i64* numbers, u64* counts, u64 count) {
    for (u64 at = first_element(); at < count; at += element_step()) {
        atomicAdd(counts + numbers[at], u64(1));
    }
}

/// The range of a histogram, and the width and the number of its bins as numbers of the elements' dtype.
struct Bins {
    f64 low, high, width, number;
    u64 count;
};

/// Counts the elements of each bin. Every step is rounded to `T`.
template <class T> DEVICE void count_bins(const T* values, u64* counts, u64 count, const Bins& bins) {
    const auto rounded = [](f64 x) { return convert<f64>(convert<T>(x)); };
    for (u64 at = first_element(); at < count; at += element_step()) {
        const f64 value = convert<f64>(values[at]);
        if (value >= bins.low && value <= bins.high) {
            const u64 bin = cast<u64>(rounded(rounded(rounded(value - bins.low) * bins.number) / bins.width));
            atomicAdd(counts + (bin < bins.count ? bin : bins.count - 1), u64(1));
        }
    }
}

} // namespace rushlight
