// The beginnings of runs of equal elements. See `unique.rs`.

#pragma once

#include "convert.cuh"
#include "geometry.cuh"

namespace rushlight {

/// Whether each element differs from the one before it. NaN differs from all.
template <class T, class C> DEVICE void mark_runs(const T* values, u8* to, u64 count) {
    for (u64 at = first_element(); at < count; at += element_step()) {
        to[at] = at == 0 || !(convert<C>(values[at]) == convert<C>(values[at - 1]));
    }
}

} // namespace rushlight
