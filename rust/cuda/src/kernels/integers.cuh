// Integers whose every operation is defined: sums and products wrap, division by zero gives zero.

#pragma once

#include "base.cuh"

namespace rushlight {

/// Sums and products of narrow integers fit an `int`; those of wide ones wrap as unsigned numbers.
template <class T> DEVICE T wrapping_add(T x, T y) { return T(u64(x) + u64(y)); }
template <class T> DEVICE T wrapping_sub(T x, T y) { return T(u64(x) - u64(y)); }
template <class T> DEVICE T wrapping_mul(T x, T y) { return T(u64(x) * u64(y)); }
template <class T> DEVICE T wrapping_neg(T x) { return T(u64(0) - u64(x)); }

template <class T> DEVICE T complement(T x) { return T(~x); }
DEVICE bool complement(bool x) { return !x; }

template <class T> DEVICE bool is_negative(T x) { return x < T(0); }
template <class T> DEVICE T sign(T x) { return x > T(0) ? T(1) : x < T(0) ? T(-1) : T(0); }
template <class T> DEVICE T magnitude(T x) { return is_negative(x) ? wrapping_neg(x) : x; }

/// Towards zero; the smallest number by -1 wraps.
template <class T> DEVICE T trunc_div(T x, T y) {
    return y == T(0) ? T(0) : is_negative(y) && y == T(-1) ? wrapping_neg(x) : T(x / y);
}
/// The remainder with the dividend's sign.
template <class T> DEVICE T rest(T x, T y) {
    return y == T(0) || (is_negative(y) && y == T(-1)) ? T(0) : T(x % y);
}
template <class T> DEVICE T floor_div(T x, T y) {
    const T quotient = trunc_div(x, y);
    return rest(x, y) != T(0) && is_negative(x) != is_negative(y) ? wrapping_sub(quotient, T(1)) : quotient;
}
/// The remainder with the divisor's sign.
template <class T> DEVICE T modulo(T x, T y) {
    const T left = rest(x, y);
    return left != T(0) && is_negative(left) != is_negative(y) ? wrapping_add(left, y) : left;
}

template <class T> DEVICE T power(T x, T exponent) {
    if (is_negative(exponent)) {
        // Only 1 and -1 have an inverse among integers.
        return x == T(1) ? T(1) : x == T(-1) ? ((exponent & 1) != 0 ? x : T(1)) : T(0);
    }
    T product = 1;
    for (T left = exponent; left != T(0); left = T(left >> 1)) {
        product = (left & 1) != 0 ? wrapping_mul(product, x) : product;
        x = wrapping_mul(x, x);
    }
    return product;
}

template <class T> DEVICE T gcd(T x, T y) {
    T a = magnitude(x), b = magnitude(y);
    while (b != T(0)) {
        const T left = magnitude(rest(a, b));
        a = b;
        b = left;
    }
    return a;
}
template <class T> DEVICE T lcm(T x, T y) {
    const T divisor = gcd(x, y);
    return divisor == T(0) ? T(0) : magnitude(wrapping_mul(trunc_div(x, divisor), y));
}

/// Beyond the width nothing is left.
template <class T> DEVICE T left(T x, T by) { return u64(by) >= 8 * sizeof(T) ? T(0) : T(u64(x) << by); }
/// Beyond the width only the sign is left.
template <class T> DEVICE T right(T x, T by) {
    return u64(by) >= 8 * sizeof(T) ? T(is_negative(x) ? -1 : 0) : T(x >> by);
}

} // namespace rushlight
