// Numbers as mantissas and exponents. See `frexp.rs`.

#pragma once

#include "geometry.cuh"
#include "special.cuh"

namespace rushlight {

/// Mantissas from 0.5 to 1 and powers of two; zero, infinities and NaN are themselves.
template <class T, class C> DEVICE void frexp(const T* numbers, T* mantissas, i32* exponents, u64 count) {
    for (u64 at = first_element(); at < count; at += element_step()) {
        f64 x = f64(convert<C>(numbers[at]));
        i32 power = 0;
        if (x == 0.0 || !is_finite(x)) {
            mantissas[at] = convert<T>(C(x));
            exponents[at] = 0;
            continue;
        }
        if ((to_bits(x) >> 52 & 0x7ff) == 0) {
            x *= 18446744073709551616.0;
            power = -64;
        }
        const u64 bits = to_bits(x);
        mantissas[at] = convert<T>(C(double_of((bits & ~(u64(0x7ff) << 52)) | u64(1022) << 52)));
        exponents[at] = power + i32(bits >> 52 & 0x7ff) - 1022;
    }
}

} // namespace rushlight
