// The five 8-bit floats: conversion from and to `f32`, as in `rust/core/src/float8.rs`. They have no arithmetic of their own.

#pragma once

#include "base.cuh"

namespace rushlight {

/// A format with a sign: the bits of the fraction, the greatest finite number without a sign, what larger numbers become, and NaN.
/// With `SIGNED` zero and NaN have a sign.
template <u32 FRACTION, u32 BIAS, u32 GREATEST, u32 LARGER, u32 NONE, bool SIGNED> struct Float8 {
    u8 bits;

    static DEVICE u32 decode(u8 code) {
        const u32 sign = u32(code & 0x80) << 24, magnitude = code & 0x7f, fraction = magnitude & ((1 << FRACTION) - 1);
        if (!SIGNED && code == NONE) {
            return 0x7f800001;
        }
        if (SIGNED && magnitude > GREATEST) {
            const bool infinite = LARGER != GREATEST && magnitude == LARGER;
            return sign | 0x7f800000 | (infinite ? 0 : 1 << 22) | fraction << (23 - FRACTION);
        }
        if (magnitude >> FRACTION > 0) {
            return sign | ((magnitude >> FRACTION) + 127 - BIAS) << 23 | fraction << (23 - FRACTION);
        }
        if (fraction == 0) {
            return sign;
        }
        // `f32` has these numbers with an exponent: the leading bit of the fraction becomes the hidden one.
        const u32 leading = 63 - leading_zeros(u64(fraction)), exponent = 127 + 1 + leading - BIAS - FRACTION;
        return sign | exponent << 23 | (fraction << (23 - leading) & ((1 << 23) - 1));
    }

    /// The nearest number; of two equally near ones the one with an even fraction.
    static DEVICE u8 encode(f32 x) {
        constexpr u32 DROPPED = 23 - FRACTION;
        const u32 bits = to_bits(x), magnitude = bits & 0x7fffffff;
        const u32 rounded = magnitude + ((1 << (DROPPED - 1)) - 1) + (magnitude >> DROPPED & 1);
        const u32 normal = (rounded >> DROPPED) - ((127 - BIAS) << FRACTION);
        // Adding a number whose last bit has the value of the format's last bit rounds to that bit.
        constexpr u32 UNIT = (127 + 1 + 23 - BIAS - FRACTION) << 23;
        const u32 small = to_bits(float_of(magnitude) + float_of(UNIT)) - UNIT;
        u32 found = magnitude < (127 + 1 - BIAS) << 23 ? small : normal;
        found = magnitude > 0x7f800000 ? NONE : found > GREATEST ? LARGER : found;
        return u8(found | (SIGNED || (found != 0 && found != NONE) ? bits >> 31 << 7 : 0));
    }
};

/// Powers of two: the exponent of an `f32`, without a sign, a fraction and a zero.
struct f8e8m0fnu {
    u8 bits;

    static DEVICE u32 decode(u8 code) { return code == 0 ? 1 << 22 : code == 0xff ? 0x7f800001 : u32(code) << 23; }
    /// Halves are rounded up, except to the smallest normal `f32`.
    static DEVICE u8 encode(f32 x) {
        const u32 magnitude = to_bits(x) & 0x7fffffff, half = 1 << 22;
        const u32 rounded = ((magnitude + half) >> 23) - u32(magnitude == half);
        return u8(rounded > 0xff ? 0xff : rounded);
    }
};

typedef Float8<2, 15, 0x7b, 0x7c, 0x7f, true> f8e5m2;
typedef Float8<3, 7, 0x7e, 0x7e, 0x7f, true> f8e4m3fn;
typedef Float8<2, 16, 0x7f, 0x80, 0x80, false> f8e5m2fnuz;
typedef Float8<3, 8, 0x7f, 0x80, 0x80, false> f8e4m3fnuz;

template <class T>
constexpr bool is_float8 =
    same<T, f8e5m2> || same<T, f8e4m3fn> || same<T, f8e5m2fnuz> || same<T, f8e4m3fnuz> || same<T, f8e8m0fnu>;

} // namespace rushlight
