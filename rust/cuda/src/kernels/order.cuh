// The order of elements along lines: stable sorting by merging. Keys are row-major, as `outer` blocks of `n` times `inner`
// elements; places are a row of `n` integers for each line. See `order.rs`.

#pragma once

#include "lines.cuh"

namespace rushlight {

template <class T, class C> struct SortKeys {
    const u8* at;
    u64 n, inner;
    bool descending;

    DEVICE C key(u64 line, i64 place) const {
        return convert<C>(load<T>(at + (line / inner * n * inner + line % inner + u64(place) * inner) * sizeof(T)));
    }
    /// NaN is the greatest.
    DEVICE bool before(C x, C y) const { return descending ? beats(x, y, true) : beats(y, x, true); }
};

/// Merges adjacent sorted runs of `width` places. An element's new place follows from the number of elements of the other run
/// that come before it. Without `from` each run is one element.
template <class T, class C>
DEVICE void merge_runs(const SortKeys<T, C>& keys, const i64* from, i64* to, u64 count, u64 width) {
    for (u64 element = first_element(); element < count; element += element_step()) {
        const u64 line = element / keys.n, at = element % keys.n, row = line * keys.n;
        const u64 start = at / (2 * width) * (2 * width), middle = start + width < keys.n ? start + width : keys.n;
        const u64 end = start + 2 * width < keys.n ? start + 2 * width : keys.n;
        const bool is_first = at < middle;
        const i64 own = from ? from[element] : i64(at);
        const C key = keys.key(line, own);
        u64 low = is_first ? middle : start, high = is_first ? end : middle;
        const u64 begin = low;
        while (low < high) {
            const u64 half = low + (high - low) / 2;
            const C other = keys.key(line, from ? from[row + half] : i64(half));
            const bool precedes = is_first ? keys.before(other, key) : !keys.before(key, other);
            (precedes ? low : high) = precedes ? half + 1 : half;
        }
        to[row + (is_first ? at : at - middle + start) + (low - begin)] = own;
    }
}

} // namespace rushlight
