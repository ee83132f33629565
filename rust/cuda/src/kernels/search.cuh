// Positions of values in sorted lines, values that are among others, and the middle of sorted lines. See `search.rs`.

#pragma once

#include "cumulative.cuh"

namespace rushlight {

/// The position of a value in a sorted line; every value goes behind a NaN, as torch compares. `C` is the type of the comparison.
template <class T, class C> DEVICE u64 position_of(const T* line, u64 length, C wanted, bool right) {
    u64 low = 0, high = length;
    while (low < high) {
        const u64 middle = low + (high - low) / 2;
        const C own = convert<C>(line[middle]);
        if (right ? own > wanted : own >= wanted) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/// The positions of `per_line` values in each line.
template <class T, class C>
DEVICE void search(const T* sorted, const T* values, i64* to, u64 count, u64 length, u64 per_line, bool right) {
    for (u64 at = first_element(); at < count; at += element_step()) {
        to[at] = i64(position_of<T, C>(sorted + at / per_line * length, length, convert<C>(values[at]), right));
    }
}

/// Whether each value is in the sorted line, or is not. NaN equals nothing.
template <class T, class C>
DEVICE void find_members(const T* sorted, const T* values, u8* to, u64 count, u64 length, bool invert) {
    for (u64 at = first_element(); at < count; at += element_step()) {
        const C wanted = convert<C>(values[at]);
        // The line's NaN are at its end.
        u64 low = 0, high = length;
        while (low < high) {
            const u64 middle = low + (high - low) / 2;
            (convert<C>(sorted[middle]) < wanted ? low : high) = convert<C>(sorted[middle]) < wanted ? middle + 1 : middle;
        }
        const bool found = low < length && convert<C>(sorted[low]) == wanted;
        to[at] = found != invert;
    }
}

/// The place of the middle one of each line's elements that are not NaN, or of its first NaN: of all its elements are NaN, or if NaN
/// is not skipped and there is one. The lines are rows of sorted places of elements in blocks of `n` times `inner`.
template <class T, class C>
DEVICE void find_middle(const T* elements, const i64* places, i64* to, u64 lines, u64 n, u64 inner, bool skips) {
    for (u64 line = first_element(); line < lines; line += element_step()) {
        const T* const own = elements + line / inner * n * inner + line % inner;
        const i64* const row = places + line * n;
        u64 real = 0, high = n;
        while (real < high) {
            const u64 middle = real + (high - real) / 2;
            const bool nan = not_a_number(convert<C>(own[u64(row[middle]) * inner]));
            (nan ? high : real) = nan ? middle : middle + 1;
        }
        to[line] = row[real == n || (skips && real > 0) ? (real - 1) / 2 : real];
    }
}

/// The place of the last of each line's most frequent elements, the smallest of several. NaN equals nothing. Lines are as above.
template <class T, class C> DEVICE void find_mode(const T* elements, const i64* places, i64* to, u64 lines, u64 n, u64 inner) {
    for (u64 line = first_element(); line < lines; line += element_step()) {
        const T* const own = elements + line / inner * n * inner + line % inner;
        const i64* const row = places + line * n;
        u64 best = 0, longest = 0, start = 0;
        C first = convert<C>(own[u64(row[0]) * inner]);
        for (u64 at = 0; at < n; at++) {
            const C value = convert<C>(own[u64(row[at]) * inner]);
            if (at > 0 && !(value == first)) {
                start = at;
                first = value;
            }
            if (at + 1 - start > longest) {
                longest = at + 1 - start;
                best = at;
            }
        }
        to[line] = row[best];
    }
}

} // namespace rushlight
