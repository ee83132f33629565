// Evenly spaced numbers, from their positions, as in `rust/ops/src/create/range.rs`. See `ranges.rs`.

#pragma once

#include "convert.cuh"
#include "geometry.cuh"
#include "platform.cuh"

namespace rushlight {

/// Integers, modulo 2^64.
template <class T> DEVICE void count_up(T* to, u64 count, i64 first, i64 step) {
    for (u64 at = first_element(); at < count; at += element_step()) {
        to[at] = convert<T>(i64(u64(first) + u64(step) * at));
    }
}

/// Numbers from the first one on, each rounded once to double precision.
template <class T> DEVICE void step_on(T* to, u64 count, f64 first, f64 step) {
    for (u64 at = first_element(); at < count; at += element_step()) {
        to[at] = convert<T>(mul_add(f64(at), step, first));
    }
}

/// Numbers from one end to the other, computed from the nearer one, so that both are exact. A single one is the first end.
template <class T, class F> DEVICE void fill_between(T* to, u64 count, F first, F last, F step) {
    for (u64 at = first_element(); at < count; at += element_step()) {
        const bool near = count == 1 || at < count / 2;
        const F steps = F(near ? at : count - at - 1) * step;
        to[at] = convert<T>(count == 1 ? first : near ? first + steps : last - steps);
    }
}

} // namespace rushlight
