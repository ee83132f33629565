// The orders of rows that exchanges of rows make. See `cusolver/pivots.rs`.

#pragma once

#include "geometry.cuh"

namespace rushlight {

/// Rows in their order after each was exchanged with its pivot, one matrix by a thread; of `inverse`, where each row goes to. Pivots
/// count from one. `outside` becomes the first position of one out of range; see `report`.
DEVICE void exchange_rows(const i32* pivots, i64* to, u64 count, u64 steps, u64 size, bool inverse, u64* outside) {
    for (u64 matrix = first_element(); matrix < count; matrix += element_step()) {
        i64* const rows = to + matrix * size;
        for (u64 row = 0; row < size; row++) {
            rows[row] = i64(row);
        }
        for (u64 n = 0; n < steps; n++) {
            // The inverse makes the exchanges from the last one on.
            const u64 step = inverse ? steps - 1 - n : n;
            const i32 pivot = pivots[matrix * steps + step];
            if (pivot < 1 || u64(pivot) > size || step >= size) {
                report(outside, matrix * steps + step);
                continue;
            }
            const i64 row = rows[step];
            rows[step] = rows[pivot - 1];
            rows[pivot - 1] = row;
        }
    }
}

} // namespace rushlight
