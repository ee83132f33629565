// The functions that the operators' expressions call, with their Rust names. See `mod.rs`.

#pragma once

#include "bessel.cuh"
#include "complex.cuh"
#include "integers.cuh"
#include "special.cuh"

namespace rushlight {

// The constants of `rust/ops/src/pointwise/activation.rs`.
constexpr f64 ROOT = 0.79788456080286535588;
constexpr f64 CUBIC = 0.044715;
constexpr f64 DENSITY = 0.39894228040143267794;

/// The greater and the smaller number, as in `rust/ops/src/reduce/norm.rs`: NaN beats everything.
template <class T> DEVICE T larger(T a, T b) { return b > a || b != b ? b : a; }
template <class T> DEVICE T smaller(T a, T b) { return b < a || b != b ? b : a; }

} // namespace rushlight
