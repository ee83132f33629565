// The basis of the device functions: types with their Rust names, literals, bits and casts.
//
// Only this file and `matrix.cuh` distinguish between the device (NVRTC) and the CPU (C++17), where the functions of the C library
// are declared before it is included.

#pragma once

#ifdef __CUDACC__
#ifndef DEVICE // the tests compile every function separately
#define DEVICE __device__ inline
#endif
/// A function that is compiled once, and called: for code that is long and rarely runs.
#define CALLED __device__ __noinline__
#define TABLE __device__ constexpr
#else
#define DEVICE inline
#define CALLED inline
#define TABLE inline constexpr
#endif

namespace rushlight {

typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef u64 usize;
typedef float f32;
typedef double f64;
typedef bool Bool;

template <class A, class B> constexpr bool same = false;
template <class A> constexpr bool same<A, A> = true;
template <class T> constexpr bool floating = same<T, f32> || same<T, f64>;

constexpr f64 PI = 3.14159265358979323846;
constexpr f64 TAU = 6.28318530717958647693;
constexpr f64 FRAC_PI_2 = 1.57079632679489661923;
constexpr f64 FRAC_2_PI = 0.636619772367581343076;
constexpr f64 FRAC_2_SQRT_PI = 1.12837916709551257390;
constexpr f64 SQRT_2 = 1.41421356237309504880;
constexpr f64 FRAC_1_SQRT_2 = 0.707106781186547524401;
constexpr f64 LN_2 = 0.693147180559945309417;
constexpr f64 LN_10 = 2.30258509299404568402;
constexpr f64 LOG2_E = 1.44269504088896340736;
constexpr f64 LOG10_E = 0.434294481903251827651;
constexpr f64 EPSILON = 2.2204460492503131e-16;

/// A literal of no fixed type: it takes the type of the other operand, as in Rust.
struct lit {
    f64 value;
    DEVICE explicit constexpr lit(f64 value) : value(value) {}
    template <class T> DEVICE constexpr operator T() const { return T(value); }
};

DEVICE lit operator-(lit x) { return lit(-x.value); }
DEVICE lit operator/(lit x, lit y) { return lit(x.value / y.value); }

#define LITERAL_OPERATOR(result, sign)                                                     \
    DEVICE result operator sign(f32 x, lit y) { return x sign f32(y.value); }              \
    DEVICE result operator sign(lit x, f32 y) { return f32(x.value) sign y; }
#define LITERAL_OPERATOR_64(result, sign)                                                  \
    DEVICE result operator sign(f64 x, lit y) { return x sign y.value; }                   \
    DEVICE result operator sign(lit x, f64 y) { return x.value sign y; }
#define LITERAL_ARITHMETIC(sign) LITERAL_OPERATOR(f32, sign) LITERAL_OPERATOR_64(f64, sign)
#define LITERAL_COMPARISON(sign) LITERAL_OPERATOR(bool, sign) LITERAL_OPERATOR_64(bool, sign)

LITERAL_ARITHMETIC(+)
LITERAL_ARITHMETIC(-)
LITERAL_ARITHMETIC(*)
LITERAL_ARITHMETIC(/)
LITERAL_COMPARISON(==)
LITERAL_COMPARISON(!=)
LITERAL_COMPARISON(<)
LITERAL_COMPARISON(<=)
LITERAL_COMPARISON(>)
LITERAL_COMPARISON(>=)

/// A number that may be absent.
template <class T> struct Option {
    bool some;
    T value;
};

template <class T> DEVICE T unwrap_or(Option<T> x, T other) { return x.some ? x.value : other; }
template <class T> DEVICE T unwrap_or(Option<T> x, lit other) { return x.some ? x.value : T(other.value); }

#ifdef __CUDACC__
DEVICE u32 to_bits(f32 x) { return __float_as_uint(x); }
DEVICE u64 to_bits(f64 x) { return __double_as_longlong(x); }
DEVICE f32 float_of(u32 bits) { return __uint_as_float(bits); }
DEVICE f64 double_of(u64 bits) { return __longlong_as_double(bits); }
DEVICE u64 upper_product(u64 x, u64 y) { return __umul64hi(x, y); }
DEVICE i32 leading_zeros(u64 x) { return __clzll(x); }
#else
template <class To, class From> To bits_of(From from) {
    To to;
    static_assert(sizeof to == sizeof from);
    memcpy(&to, &from, sizeof to);
    return to;
}
DEVICE u32 to_bits(f32 x) { return bits_of<u32>(x); }
DEVICE u64 to_bits(f64 x) { return bits_of<u64>(x); }
DEVICE f32 float_of(u32 bits) { return bits_of<f32>(bits); }
DEVICE f64 double_of(u64 bits) { return bits_of<f64>(bits); }
DEVICE u64 upper_product(u64 x, u64 y) { return u64((unsigned __int128)(x) * y >> 64); }
DEVICE i32 leading_zeros(u64 x) { return x == 0 ? 64 : __builtin_clzll(x); }
#endif

/// Floating-point numbers of 16 bits. Operators compute in `f32` instead, except for the neighbours of a number.
struct f16 {
    u16 bits;
};
struct bf16 {
    u16 bits;
};

DEVICE u16 to_bits(f16 x) { return x.bits; }
DEVICE u16 to_bits(bf16 x) { return x.bits; }
DEVICE f32 to_f32(bf16 x) { return float_of(u32(x.bits) << 16); }
DEVICE f32 to_f32(f16 x) {
    const u32 sign = u32(x.bits & 0x8000) << 16, exponent = x.bits >> 10 & 31, digits = x.bits & 0x3ff;
    if (exponent == 0) {
        return float_of(sign | to_bits(f32(digits) * 5.9604644775390625e-8f));
    }
    return float_of(sign | (exponent == 31 ? 255 : exponent + 112) << 23 | digits << 13);
}
DEVICE bool operator==(f16 x, f16 y) { return to_f32(x) == to_f32(y); }
DEVICE bool operator==(bf16 x, bf16 y) { return to_f32(x) == to_f32(y); }

template <class T> DEVICE T from_bits(u64 bits) {
    if constexpr (same<T, f32>) {
        return float_of(u32(bits));
    } else if constexpr (same<T, f64>) {
        return double_of(bits);
    } else {
        return T{u16(bits)};
    }
}

template <class T> DEVICE T infinity() { return from_bits<T>(same<T, f32> ? 0x7f800000 : 0x7ff0000000000000); }
template <class T> DEVICE T neg_infinity() { return -infinity<T>(); }
template <class T> DEVICE T nan() {
    return from_bits<T>(same<T, f64> ? 0x7ff8000000000000 : same<T, f32> ? 0x7fc00000 : same<T, f16> ? 0x7e00 : 0x7fc0);
}

/// The greatest number.
template <class T> DEVICE T max() {
    if constexpr (floating<T>) {
        return from_bits<T>(same<T, f32> ? 0x7f7fffff : 0x7fefffffffffffff);
    } else {
        return T(-1) > T(0) ? T(-1) : T((u64(1) << (8 * sizeof(T) - 1)) - 1);
    }
}

/// The smallest integer.
template <class T> DEVICE T min() { return T(-1) > T(0) ? T(0) : T(u64(1) << (8 * sizeof(T) - 1)); }

/// Rust's `as`: conversions from floats to integers saturate, and NaN becomes zero.
template <class T, class A> DEVICE T cast(A x) {
    if constexpr (floating<A> && !floating<T>) {
        if (x != x) {
            return 0;
        }
        return x >= A(max<T>()) ? max<T>() : x <= A(min<T>()) ? min<T>() : T(x);
    } else {
        return T(x);
    }
}

template <class T, class A> DEVICE T from(A x) { return T(x); }

/// The value of a `Bool`.
DEVICE bool get(bool x) { return x; }

} // namespace rushlight
