// Basic functions of floating-point numbers, and in the namespace `libm` the platform's mathematical library.
//
// On the CPU, Rust's methods of `f64` call the same library. CUDA's library has errors of at most two units in the last place.

#pragma once

#include "base.cuh"

namespace rushlight {

#define BOTH_FLOATS(name, single, twice)            \
    DEVICE f32 name(f32 x) { return single(x); }    \
    DEVICE f64 name(f64 x) { return twice(x); }

BOTH_FLOATS(abs, ::fabsf, ::fabs)
BOTH_FLOATS(trunc, ::truncf, ::trunc)
BOTH_FLOATS(floor, ::floorf, ::floor)
BOTH_FLOATS(ceil, ::ceilf, ::ceil)
BOTH_FLOATS(even, ::rintf, ::rint)
BOTH_FLOATS(sqrt, ::sqrtf, ::sqrt)

DEVICE f32 mul_add(f32 a, f32 b, f32 c) { return ::fmaf(a, b, c); }
DEVICE f64 mul_add(f64 a, f64 b, f64 c) { return ::fma(a, b, c); }
DEVICE f32 copysign(f32 x, f32 y) { return ::copysignf(x, y); }
DEVICE f64 copysign(f64 x, f64 y) { return ::copysign(x, y); }
/// The remainder with the sign of `x`.
DEVICE f32 rem(f32 x, f32 y) { return ::fmodf(x, y); }
DEVICE f64 rem(f64 x, f64 y) { return ::fmod(x, y); }
DEVICE f32 hypot(f32 x, f32 y) { return ::hypotf(x, y); }
DEVICE f64 hypot(f64 x, f64 y) { return ::hypot(x, y); }

namespace libm {

DEVICE f64 exp(f64 x) { return ::exp(x); }
DEVICE f64 exp_m1(f64 x) { return ::expm1(x); }
DEVICE f64 ln(f64 x) { return ::log(x); }
DEVICE f64 ln_1p(f64 x) { return ::log1p(x); }
DEVICE f64 powf(f64 x, f64 y) { return ::pow(x, y); }
DEVICE f64 sin(f64 x) { return ::sin(x); }
DEVICE f64 cos(f64 x) { return ::cos(x); }
DEVICE f64 tan(f64 x) { return ::tan(x); }
DEVICE f64 asin(f64 x) { return ::asin(x); }
DEVICE f64 acos(f64 x) { return ::acos(x); }
DEVICE f64 atan2(f64 y, f64 x) { return ::atan2(y, x); }
DEVICE f64 sinh(f64 x) { return ::sinh(x); }
DEVICE f64 cosh(f64 x) { return ::cosh(x); }
DEVICE f64 tanh(f64 x) { return ::tanh(x); }
DEVICE f64 lgamma(f64 x) { return ::lgamma(x); }

} // namespace libm

template <class T> DEVICE bool is_nan(T x) {
    if constexpr (floating<T>) {
        return x != x;
    } else {
        return to_f32(x) != to_f32(x);
    }
}
template <class T> DEVICE bool is_infinite(T x) { return abs(x) == infinity<T>(); }
template <class T> DEVICE bool is_finite(T x) { return abs(x) < infinity<T>(); }
DEVICE bool is_sign_negative(f32 x) { return to_bits(x) >> 31 != 0; }
DEVICE bool is_sign_negative(f64 x) { return to_bits(x) >> 63 != 0; }
DEVICE f32 sign(f32 x) { return f32(i32(x > 0.0f) - i32(x < 0.0f)); }
DEVICE f64 sign(f64 x) { return f64(i32(x > 0.0) - i32(x < 0.0)); }

/// The next greater number, found by its bits.
template <class T, class Bits> DEVICE T above(T x, Bits negative_zero) {
    const Bits bits = to_bits(x), size = bits & ~negative_zero;
    if (is_nan(x) || x == infinity<T>()) {
        return x;
    }
    return from_bits<T>(size == 0 ? Bits(1) : bits == size ? Bits(bits + 1) : Bits(bits - 1));
}
DEVICE f32 next_up(f32 x) { return above(x, u32(1) << 31); }
DEVICE f64 next_up(f64 x) { return above(x, u64(1) << 63); }
template <class T> DEVICE T next_down(T x) { return -next_up(-x); }

/// The bits of the half-precision number after `x` on the way to `y`, which differs.
DEVICE u16 next_half(u16 bits, f32 x, f32 y) {
    if (x == 0.0f) {
        return u16(u16(y < 0.0f) << 15 | 1);
    }
    return (x < y) == (x > 0.0f) ? u16(bits + 1) : u16(bits - 1);
}

/// The quotient rounded down, from the remainder.
template <class T> DEVICE T floor_quotient(T x, T y) {
    if (y == T(0)) {
        return x / y;
    }
    const T rest = rem(x, y);
    T quotient = (x - rest) / y;
    if (rest != T(0) && (y < T(0)) != (rest < T(0))) {
        quotient -= T(1);
    }
    if (quotient == T(0)) {
        return copysign(T(0), x / y);
    }
    const T whole = floor(quotient);
    return quotient - whole > T(0.5) ? whole + T(1) : whole;
}
DEVICE f32 floor_div(f32 x, f32 y) { return floor_quotient(x, y); }
DEVICE f64 floor_div(f64 x, f64 y) { return floor_quotient(x, y); }

/// The remainder with the divisor's sign.
template <class T> DEVICE T floor_rest(T x, T y) {
    const T rest = rem(x, y);
    return rest != T(0) && (y < T(0)) != (rest < T(0)) ? rest + y : rest;
}
DEVICE f32 modulo(f32 x, f32 y) { return floor_rest(x, y); }
DEVICE f64 modulo(f64 x, f64 y) { return floor_rest(x, y); }

} // namespace rushlight
