// Conversions between dtypes, as in `rust/core/src/element.rs`, and elements in memory.

#pragma once

#include "complex.cuh"
#include "float8.cuh"

namespace rushlight {

template <class T> struct part {
    typedef T type;
};
template <class R> struct part<cx<R>> {
    typedef R type;
};
template <class T> constexpr bool is_complex = !same<T, typename part<T>::type>;
template <class T> constexpr bool is_half = same<T, f16> || same<T, bf16>;

/// One value rounded to nearest even, as in `rust/simd/src/convert.rs`.
DEVICE bf16 round_to_bf16(f32 x) {
    const u32 bits = to_bits(x);
    return {u16(x != x ? bits >> 16 | 0x40 : (bits + (0x7fff + (bits >> 16 & 1))) >> 16)};
}
DEVICE f16 round_to_f16(f32 x) {
    const u32 bits = to_bits(x), magnitude = bits & 0x7fffffff;
    // Subnormal results: adding 0.5 makes the addition itself round at the right bit.
    const u32 tiny = to_bits(float_of(magnitude) + 0.5f) - to_bits(0.5f);
    const u32 normal = (magnitude - (112u << 23) + (0xfff + (magnitude >> 13 & 1))) >> 13;
    const u32 large = magnitude > 0x7f800000 ? 0x7e00 | (magnitude >> 13 & 0x3ff) : 0x7c00;
    const u32 value = magnitude >= 0x47800000 ? large : magnitude < 113u << 23 ? tiny : normal;
    return {u16(value | (bits >> 16 & 0x8000))};
}

/// Towards zero; values outside of the range become the smallest number of 32 or 64 bits, of which narrower types take the lower bits.
template <class T, class F> DEVICE T truncated(F x) {
    if constexpr (same<T, u64>) {
        return x >= F(9223372036854775808.0) ? x < F(18446744073709551616.0) ? u64(x) : ~u64(0) : u64(truncated<i64>(x));
    } else if constexpr (same<T, i64> || same<T, u32>) {
        return T(x >= F(-9223372036854775808.0) && x < F(9223372036854775808.0) ? i64(x) : min<i64>());
    } else {
        return T(x >= F(-2147483648.0) && x < F(2147483648.0) ? i32(x) : min<i32>());
    }
}

/// Complex numbers in half precision, which are only moved and converted.
struct alignas(4) c32 {
    f16 re, im;
};

template <class To, class From> DEVICE To convert(From x) {
    if constexpr (same<To, From>) {
        return x;
    } else if constexpr (is_float8<From>) {
        return convert<To>(float_of(From::decode(x.bits)));
    } else if constexpr (same<From, c32>) {
        return convert<To>(c64(to_f32(x.re), to_f32(x.im)));
    } else if constexpr (same<To, c32>) {
        const c64 z = convert<c64>(x);
        return {round_to_f16(z.re), round_to_f16(z.im)};
    } else if constexpr (is_complex<From>) {
        if constexpr (is_complex<To>) {
            typedef typename part<To>::type R;
            return To(R(x.re), R(x.im));
        } else if constexpr (same<To, Bool>) {
            return x.re != 0 || x.im != 0;
        } else {
            return convert<To>(x.re);
        }
    } else if constexpr (is_complex<To>) {
        typedef typename part<To>::type R;
        return To(convert<R>(x), R(0));
    } else if constexpr (is_float8<To>) {
        return {To::encode(convert<f32>(x))};
    } else if constexpr (is_half<From>) {
        return convert<To>(to_f32(x));
    } else if constexpr (same<To, f16>) {
        return round_to_f16(f32(x));
    } else if constexpr (same<To, bf16>) {
        return round_to_bf16(f32(x));
    } else if constexpr (same<To, Bool>) {
        return x != From(0);
    } else if constexpr (floating<From> && !floating<To>) {
        return truncated<To>(x);
    } else {
        return To(x);
    }
}

/// An element as it is stored: a bool in memory may be any byte.
template <class T> struct stored {
    typedef T type;
};
template <> struct stored<Bool> {
    typedef u8 type;
};

template <class T> DEVICE T load(const void* from) {
    const typename stored<T>::type value = *(const typename stored<T>::type*)from;
    if constexpr (same<T, Bool>) {
        return value != 0;
    } else {
        return value;
    }
}

template <class T, class From> DEVICE void store(void* to, From x) { *(typename stored<T>::type*)to = convert<T>(x); }

/// Sixteen bytes without a meaning.
struct alignas(16) u128 {
    u64 low, high;
};

} // namespace rushlight
