// Exponentials, logarithms and powers, as in `rust/simd/src/math`, which has the
// explanations: the same polynomials and the same order of operations, with fused multiply-adds.
//
// Functions with `FULL` compute 53 bits; the others about 35, for results that are then rounded to `f32`.

#pragma once

#include "platform.cuh"
#include "tables.cuh"

namespace rushlight {

/// Adding and subtracting it rounds to an integer, which then stands in the low bits of the sum.
constexpr f64 ROUND64 = 6755399441055744.0;
constexpr f32 ROUND32 = 12582912.0f;

/// A sum of two numbers.
struct Sum {
    f64 hi, lo;
};

/// Every `step`-th power from `first` on.
template <class T, int N> DEVICE T horner(T z, const T (&c)[N], int first, int step) {
    const int last = first + (N - 1 - first) / step * step;
    T sum = c[last];
    for (int i = last - step; i >= first; i -= step) {
        sum = mul_add(sum, z, c[i]);
    }
    return sum;
}

/// `c[0] + c[1] x + ...`, even and odd powers of long polynomials apart.
template <class T, int N> DEVICE T poly(T x, const T (&c)[N]) {
    if constexpr (N < (same<T, f64> ? 5 : 8)) {
        return horner(x, c, 0, 1);
    } else {
        const T z = x * x;
        return mul_add(horner(z, c, 1, 2), x, horner(z, c, 0, 2));
    }
}

template <bool FULL, int N, int M> DEVICE f64 poly(f64 x, const f64 (&full)[N], const f64 (&single)[M]) {
    if constexpr (FULL) {
        return poly(x, full);
    } else {
        return poly(x, single);
    }
}

DEVICE f64 pow2(f64 k) { return double_of(to_bits(k + (ROUND64 + 1023.0)) << 52); }

DEVICE f64 scale(f64 y, f64 k) {
    const f64 half = (k * 0.5 + ROUND64) - ROUND64;
    return y * pow2(half) * pow2(k - half);
}

DEVICE f32 raise_32(f32 tail, f32 shifted) {
    const u32 whole = to_bits(shifted) << 23, half = u32(i32(whole) >> 1) & 0xff800000u, one = 0x3f800000u;
    const f32 near = mul_add(float_of(one + half), tail, float_of(one + half));
    return near * float_of(one + (whole - half));
}

DEVICE Sum two_sum(f64 a, f64 b) {
    const f64 sum = a + b, b_in = sum - a;
    return {sum, (a - (sum - b_in)) + (b - b_in)};
}

/// `two_sum` where |a| >= |b| or a = 0.
DEVICE Sum fast_two_sum(f64 a, f64 b) {
    const f64 sum = a + b;
    return {sum, (a - sum) + b};
}

DEVICE Sum two_prod(f64 a, f64 b) {
    const f64 product = a * b;
    return {product, mul_add(a, b, -product)};
}

DEVICE f64 flip_sign(f64 value, f64 sign) { return double_of(to_bits(value) ^ (to_bits(sign) & (u64(1) << 63))); }
DEVICE f32 flip_sign(f32 value, f32 sign) { return float_of(to_bits(value) ^ (to_bits(sign) & (u32(1) << 31))); }

template <class T> DEVICE T limit(T x, T low, T high) {
    x = x > high ? high : x;
    return x < low ? low : x;
}

DEVICE bool is_ordinary(f32 x) { return to_bits(x) - 1 < 0x7f800000u - 1; }

// The exponential function.

/// hi + lo = k ln 2 + r + c.
struct Exponent {
    f64 k, r, c;
};

template <bool FULL> DEVICE Exponent reduce(f64 hi, f64 lo) {
    const f64 x = limit(hi, -746.0, 711.0);
    const f64 k = mul_add(x, LOG2_E, ROUND64) - ROUND64;
    const f64 r_hi = mul_add(-k, LN2_HI, x);
    if constexpr (!FULL) {
        return {k, mul_add(-k, LN2_LO, r_hi + lo), 0.0};
    }
    const f64 r_lo = mul_add(-k, LN2_LO, lo), r = r_hi + r_lo;
    return {k, r, (r_hi - r) + r_lo};
}

template <bool FULL> DEVICE f64 exp_tail(Exponent e) {
    return mul_add(e.r * e.r, poly<FULL>(e.r, EXP64, EXP40), FULL ? mul_add(e.c, e.r, e.c) : 0.0);
}

template <bool FULL> DEVICE f64 exp_sum(f64 hi, f64 lo) {
    const Exponent e = reduce<FULL>(hi, lo);
    return scale(1.0 + (e.r + exp_tail<FULL>(e)), e.k);
}

template <bool FULL> DEVICE f64 exp_(f64 x) {
    const bool vanishes = x < -746.0;
    const f64 y = exp_sum<FULL>(vanishes ? 0.0 : x, 0.0);
    return vanishes ? 0.0 : y;
}

template <bool FULL> DEVICE f64 half_exp(f64 x) {
    const Exponent e = reduce<FULL>(x, 0.0);
    return scale(1.0 + (e.r + exp_tail<FULL>(e)), e.k - 1.0);
}

DEVICE f64 exp(f64 x) { return exp_<true>(x); }
DEVICE f32 exp(f32 given) {
    const bool vanishes = given < -104.0f;
    const f32 limited = given > 89.0f ? 89.0f : given, x = vanishes ? 0.0f : limited;
    const f32 shifted = mul_add(x, f32(LOG2_E), ROUND32), k = shifted - ROUND32;
    const f32 r_hi = mul_add(-k, LN2_HI_32, x), r = mul_add(-k, LN2_LO_32, r_hi);
    const f32 c = mul_add(-k, LN2_LO_32, r_hi - r);
    const f32 y = raise_32(r + mul_add(r * r, poly(r, EXP32), c), shifted);
    return vanishes ? 0.0f : y;
}

DEVICE f64 exp2(f64 given) {
    const f64 x = limit(given, -1080.0, 1025.0);
    const f64 k = (x + ROUND64) - ROUND64, r = (x - k) * LN_2;
    return scale(1.0 + mul_add(x - k, LN_2, r * r * poly(r, EXP64)), k);
}
DEVICE f32 exp2(f32 given) {
    const f32 x = limit(given, -151.0f, 129.0f);
    const f32 shifted = x + ROUND32, k = shifted - ROUND32, r = (x - k) * f32(LN_2);
    return raise_32(mul_add(x - k, f32(LN_2), r * r * poly(r, EXP32)), shifted);
}

template <bool FULL> DEVICE f64 expm1_(f64 x) {
    const Exponent e = reduce<FULL>(x, 0.0);
    const f64 half = pow2(limit(e.k, -1000.0, 1024.0) - 1.0);
    const Sum sum = two_sum(half - 0.5, half * e.r);
    const f64 y = 2.0 * (sum.hi + mul_add(half, exp_tail<FULL>(e), sum.lo));
    return abs(x) < 1e-17 ? x : x > 710.0 ? infinity<f64>() : y;
}
DEVICE f64 expm1(f64 x) { return expm1_<true>(x); }
DEVICE f32 expm1(f32 x) { return f32(expm1_<false>(f64(x))); }

template <class T> DEVICE T sigmoid(T x) {
    const T e = exp(-abs(x));
    return (x < T(0) ? e : T(1)) / (T(1) + e);
}

DEVICE f64 tanh(f64 x) {
    const f64 a = abs(x), z = a * a;
    const f64 near = mul_add(a * z, poly(z, TANH64), a);
    const f64 far = 1.0 - 2.0 / (exp(2.0 * a) + 1.0);
    return flip_sign(a < 0.6 ? near : far, x);
}

/// 2^(k + r) from `k + ROUND32`, to 23 bits.
DEVICE f32 raise_rough(f32 r, f32 shifted) {
    const f32 power = float_of(0x3f800000u + (to_bits(shifted) << 23));
    return mul_add(power * r, poly(r, EXP2_32), power);
}
DEVICE f32 exp2_rough(f32 t) {
    const f32 shifted = t + ROUND32;
    return raise_rough(t - (shifted - ROUND32), shifted);
}

DEVICE f32 tanh(f32 x) {
    const f32 a = abs(x), z = a * a;
    const f32 near = mul_add(a * z, poly(z, TANH32), a);
    const f32 limited = limit(a, 0.0f, 10.0f), twice = 2.0f * f32(LOG2_E);
    const f32 shifted = mul_add(limited, twice, ROUND32);
    const f32 r = mul_add(limited, twice, -(shifted - ROUND32));
    const f32 far = 1.0f - 2.0f / (raise_rough(r, shifted) + 1.0f);
    return flip_sign(a < 0.9f ? near : far, x);
}

template <bool FULL> DEVICE f64 sinh_(f64 x) {
    const f64 z = x * x, near = mul_add(x * z, poly<FULL>(z, SINH64, SINH40), x);
    const f64 h = half_exp<FULL>(abs(x));
    return abs(x) < 1.0 ? near : flip_sign(h - 0.25 / h, x);
}
DEVICE f64 sinh(f64 x) { return sinh_<true>(x); }
DEVICE f32 sinh(f32 x) { return f32(sinh_<false>(f64(x))); }

template <bool FULL> DEVICE f64 cosh_(f64 x) {
    const f64 h = half_exp<FULL>(abs(x));
    return h + 0.25 / h;
}
DEVICE f64 cosh(f64 x) { return cosh_<true>(x); }
DEVICE f32 cosh(f32 x) { return f32(cosh_<false>(f64(x))); }

// Logarithms and the inverse hyperbolic functions.

/// x = 2^k m with m beside 1.
template <class T> struct Split {
    T k, m;
};

DEVICE Split<f64> split(f64 x) {
    constexpr u64 SQRT_HALF = 0x3fe6a09e667f3bcd;
    const bool tiny = x < 2.2250738585072014e-308;
    const f64 y = tiny ? x * 18014398509481984.0 : x;
    const f64 shift = tiny ? 4503599627370496.0 + 1024.0 + 54.0 : 4503599627370496.0 + 1024.0;
    const u64 bits = to_bits(y) - SQRT_HALF;
    const u64 k = ((bits + (u64(1024) << 52)) >> 52) | 0x4330000000000000;
    return {double_of(k) - shift, double_of((bits & 0x000fffffffffffff) + SQRT_HALF)};
}

DEVICE Split<f32> split(f32 x) {
    constexpr u32 SQRT_HALF = 0x3f3504f3;
    const bool tiny = x < 1.17549435e-38f;
    const u32 bits = to_bits(tiny ? x * 33554432.0f : x) - SQRT_HALF;
    const f32 k = f32(i32(bits) >> 23) - (tiny ? 25.0f : 0.0f);
    return {k, float_of((bits & 0x007fffff) + SQRT_HALF)};
}

/// The values of every logarithm outside (0, inf).
DEVICE f64 outside(f64 x, f64 y) {
    y = x < infinity<f64>() ? y : x;
    y = x == 0.0 ? neg_infinity<f64>() : y;
    return x < 0.0 ? nan<f64>() : y;
}

/// log(1 + f) = f - half_square + rest.
struct LogParts {
    f64 half_square, rest;
};

template <bool FULL> DEVICE LogParts log_parts(f64 f) {
    const f64 s = f / (2.0 + f), z = s * s, half_square = 0.5 * f * f;
    return {half_square, s * mul_add(z, poly<FULL>(z, LOG64, LOG40), half_square)};
}

/// k ln 2 + log(1 + f).
template <bool FULL> DEVICE f64 log_of(f64 k, f64 f) {
    const LogParts p = log_parts<FULL>(f);
    return mul_add(k, LN2_HI, f - (p.half_square - mul_add(k, LN2_LO, p.rest)));
}

template <bool FULL> DEVICE f64 log_(f64 x) {
    const Split<f64> s = split(x);
    return outside(x, log_of<FULL>(s.k, s.m - 1.0));
}

template <bool FULL> DEVICE Sum log_sum(f64 f) {
    const LogParts p = log_parts<FULL>(f);
    const f64 hi = double_of(to_bits(f - p.half_square) & 0xffffffff00000000);
    return {hi, (f - hi) - p.half_square + p.rest};
}

DEVICE f64 log(f64 x) { return log_<true>(x); }
DEVICE f32 log(f32 x) {
    const Split<f32> s = split(x);
    const f32 f = s.m - 1.0f, z = f * f;
    const f32 tail = mul_add(s.k, LN2_LO_32, z * f * poly(f, LOG32));
    const f32 sum = mul_add(z, -0.5f, tail) + f;
    const f32 beyond = x == 0.0f ? neg_infinity<f32>() : x < 0.0f ? nan<f32>() : x;
    return is_ordinary(x) ? mul_add(s.k, LN2_HI_32, sum) : beyond;
}

DEVICE f64 log2(f64 x) {
    const Split<f64> s = split(x);
    const Sum log = log_sum<true>(s.m - 1.0);
    const f64 low = mul_add(log.lo + log.hi, LOG2E_LO, log.lo * LOG2E_HI);
    const Sum sum = two_sum(s.k, log.hi * LOG2E_HI);
    return outside(x, sum.hi + (sum.lo + low));
}
DEVICE f32 log2(f32 x) {
    const Split<f64> s = split(f64(x));
    return f32(outside(f64(x), mul_add(log_of<false>(0.0, s.m - 1.0), LOG2_E, s.k)));
}

DEVICE f64 log10(f64 x) {
    const Split<f64> s = split(x);
    const Sum log = log_sum<true>(s.m - 1.0);
    const f64 low = mul_add(s.k, LOG10_2_LO, mul_add(log.lo + log.hi, LOG10E_LO, log.lo * LOG10E_HI));
    const Sum sum = two_sum(s.k * LOG10_2_HI, log.hi * LOG10E_HI);
    return outside(x, sum.hi + (sum.lo + low));
}
DEVICE f32 log10(f32 x) { return f32(log_<false>(f64(x)) * LOG10_E); }

template <bool FULL> DEVICE f64 log1p_sum(f64 hi, f64 lo) {
    const Sum u = two_sum(1.0, hi);
    const Split<f64> s = split(u.hi);
    const f64 down = pow2(-limit(s.k, -1000.0, 1000.0));
    return outside(u.hi, log_of<FULL>(s.k, (s.m - 1.0) + (u.lo + lo) * down));
}

template <bool FULL> DEVICE f64 log1p_(f64 x) {
    const f64 y = log1p_sum<FULL>(x, 0.0);
    return abs(x) < 1e-17 ? x : y;
}
DEVICE f64 log1p(f64 x) { return log1p_<true>(x); }
DEVICE f32 log1p(f32 x) { return f32(log1p_<false>(f64(x))); }

template <bool FULL> DEVICE f64 asinh_(f64 x) {
    const f64 a = abs(x);
    const bool large = a > 1e17;
    const f64 b = large ? 1.0 : a, b2 = b * b;
    const Sum sum = two_sum(b, b2 / (1.0 + sqrt(1.0 + b2)));
    f64 y = log1p_sum<FULL>(large ? a : sum.hi, large ? 0.0 : sum.lo);
    y = large ? y + LN_2 : y;
    return flip_sign(a < 1e-17 ? a : y, x);
}
DEVICE f64 asinh(f64 x) { return asinh_<true>(x); }
DEVICE f32 asinh(f32 x) { return f32(asinh_<false>(f64(x))); }

template <bool FULL> DEVICE f64 acosh_(f64 x) {
    const bool large = x > 1e17;
    const f64 t = large ? 1.0 : x - 1.0;
    const Sum sum = two_sum(sqrt(t * (t + 2.0)), t);
    f64 y = log1p_sum<FULL>(large ? x : sum.hi, large ? 0.0 : sum.lo);
    y = large ? y + LN_2 : y;
    return x < 1.0 ? nan<f64>() : y;
}
DEVICE f64 acosh(f64 x) { return acosh_<true>(x); }
DEVICE f32 acosh(f32 x) { return f32(acosh_<false>(f64(x))); }

template <bool FULL> DEVICE f64 atanh_(f64 x) {
    const f64 a = abs(x);
    const Sum sum = two_sum(2.0 * a, 2.0 * a * a / (1.0 - a));
    f64 y = 0.5 * log1p_sum<FULL>(sum.hi, sum.lo);
    y = a < 1e-17 ? a : y;
    y = a == 1.0 ? infinity<f64>() : y;
    return flip_sign(a > 1.0 ? nan<f64>() : y, x);
}
DEVICE f64 atanh(f64 x) { return atanh_<true>(x); }
DEVICE f32 atanh(f32 x) { return f32(atanh_<false>(f64(x))); }

// Powers.

/// log(x) for positive finite x, with a relative error of 2^-65.
DEVICE Sum log_double(f64 x) {
    const Split<f64> p = split(x);
    const f64 m = p.m;
    const Sum bottom = m < 1.0 ? fast_two_sum(1.0, m) : fast_two_sum(m, 1.0);
    const f64 top = m - 1.0, s = top / bottom.hi;
    const Sum back = two_prod(s, bottom.hi);
    const f64 s_lo = ((top - back.hi) - back.lo - s * bottom.lo) / bottom.hi;
    const Sum square = two_prod(s, s);
    const f64 z = square.hi, z_lo = mul_add(2.0 * s, s_lo, square.lo);
    const Sum third = fast_two_sum(TWO_THIRDS_HI, z * poly(z, LOGDD));
    const f64 c = third.hi, c_lo = third.lo + TWO_THIRDS_LO;
    const Sum cube = two_prod(s, z);
    const f64 sz = cube.hi, sz_lo = cube.lo + mul_add(s, z_lo, s_lo * z);
    const Sum product = two_prod(sz, c);
    const f64 q_lo = product.lo + mul_add(sz, c_lo, sz_lo * c);
    const Sum sum = fast_two_sum(2.0 * s, product.hi);
    const f64 left = sum.lo + (q_lo + 2.0 * s_lo);
    const Sum whole = two_sum(p.k * LN2_HI, sum.hi);
    return fast_two_sum(whole.hi, whole.lo + mul_add(p.k, LN2_LO, left));
}

/// |x|^y with what C99 says about signs, ones and non-integral powers.
template <class T> DEVICE T signed_power(T x, T y, bool ordinary, T magnitude) {
    const T big = same<T, f64> ? T(4503599627370496.0) : T(8388608.0), b = abs(y);
    const bool integral = b >= big || (b + big) - big == b;
    const T half = T(0.5) * b;
    const bool even = b >= T(2) * big || (half + big) - big == half;
    const bool negative = is_sign_negative(x);
    T r = negative && integral && !even ? -magnitude : magnitude;
    r = negative && ordinary && !integral ? nan<T>() : r;
    return x == T(1) || y == T(0) ? T(1) : r;
}

DEVICE f64 pow(f64 x, f64 y) {
    const f64 a = abs(x), b = limit(y, -1e20, 1e20);
    const bool ordinary = a > 0.0 && a < infinity<f64>();
    const Sum log = log_double(a);
    const f64 beyond = a == 0.0 ? neg_infinity<f64>() : a;
    const Sum product = two_prod(b, log.hi);
    const f64 t_lo = mul_add(b, log.lo, product.lo);
    const bool inside = abs(product.hi) < 1e4 && ordinary;
    const f64 t = ordinary ? product.hi : b * beyond;
    return signed_power(x, y, ordinary, exp_sum<true>(t, inside ? t_lo : 0.0));
}

DEVICE f32 pow(f32 x, f32 y) {
    const f32 a = abs(x);
    const Split<f32> s = split(a);
    const f32 beyond = a == 0.0f ? neg_infinity<f32>() : a;
    const bool ordinary = is_ordinary(a);
    const f64 k = f64(ordinary ? s.k : beyond), f = f64(s.m - 1.0f);
    const f64 log = mul_add(f, poly(f, LOG2_40), k);
    const f64 t = limit(f64(limit(y, -1e30f, 1e30f)) * log, -160.0, 140.0);
    const f64 shifted = t + ROUND64, r = t - (shifted - ROUND64);
    const f64 power = double_of((to_bits(shifted) << 52) + 0x3ff0000000000000);
    return signed_power(x, y, ordinary, f32(mul_add(power * r, poly(r, EXP2_40), power)));
}

template <class T> DEVICE T rsqrt(T x) { return T(1) / sqrt(x); }

} // namespace rushlight
