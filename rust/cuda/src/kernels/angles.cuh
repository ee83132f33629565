// Sine, cosine, tangent and their inverses, as in `rust/simd/src/math/trig.rs` and `inverse.rs`, which have
// the explanations.

#pragma once

#include "elementary.cuh"

namespace rushlight {

/// Beyond this magnitude an argument is reduced by integers.
constexpr f64 NEAR = 1e6;

/// Quadrant in the two low bits, and r + c in [-pi/4, pi/4].
struct Angle {
    u64 quadrant;
    f64 r, c;
};

DEVICE Angle reduce_near(f64 x) {
    const f64 shifted = mul_add(x, FRAC_2_PI, ROUND64), k = shifted - ROUND64;
    const f64 r0 = mul_add(-k, PIO2_PARTS[0], x);
    const Sum first = two_sum(r0, -(k * PIO2_PARTS[1]));
    const Sum second = two_sum(first.hi, -(k * PIO2_PARTS[2]));
    const Sum sum = fast_two_sum(second.hi, first.lo + mul_add(-k, PIO2_PARTS[3], second.lo));
    return {to_bits(shifted), sum.hi, sum.lo};
}

/// The upper 26 bits.
DEVICE f64 leading_bits(f64 x) { return double_of(to_bits(x) & 0xfffffffff8000000); }

/// `two_prod` without a fused multiply-add, as the host's `reduce_far` has it.
DEVICE Sum split_product(f64 a, f64 b) {
    const f64 product = a * b, ah = leading_bits(a), bh = leading_bits(b), al = a - ah, bl = b - bh;
    return {product, ((ah * bh - product) + ah * bl + al * bh) + al * bl};
}

/// The bits of 2/pi from a place on.
DEVICE u64 window(u32 word, u32 shift) {
    const u64 first = TWO_OVER_PI[word], second = TWO_OVER_PI[word + 1];
    return shift == 0 ? first : first << shift | second >> (64 - shift);
}

/// An integer of 75 bits, rounded once: what is lost of it counts as one bit.
DEVICE f64 rounded(u64 high, u64 low) {
    const i32 width = 64 - leading_zeros(high);
    if (width == 0) {
        return f64(low);
    }
    const u64 lost = low & ((u64(1) << width) - 1);
    return f64(high << (64 - width) | low >> width | u64(lost != 0)) * f64(u64(1) << width);
}

/// Any x with |x| >= 1, after Payne and Hanek.
DEVICE Angle reduce_far(f64 x) {
    const u64 bits = to_bits(x);
    const u32 exponent = u32(bits >> 52 & 0x7ff);
    if (exponent == 0x7ff) {
        return {0, nan<f64>(), 0.0};
    }
    const u64 mantissa = (bits & 0x000fffffffffffff) | u64(1) << 52;
    const u32 start = exponent + 62 - 1075, word = start / 64, shift = start % 64;
    // The product's low 192 bits, whose first two are the quadrant.
    const u64 w2 = window(word + 2, shift), w1 = window(word + 1, shift), w0 = window(word, shift);
    const u64 low = mantissa * w2, carry = upper_product(mantissa, w2);
    const u64 mid = mantissa * w1 + carry;
    const u64 high = mantissa * w0 + upper_product(mantissa, w1) + u64(mid < carry);
    u64 top = high << 2 | mid >> 62, next = mid << 2 | low >> 62, rest = low << 2;
    const bool negative = top >> 63 == 1;
    if (negative) {
        top = ~top, next = ~next, rest = ~rest;
    }
    const i32 zeros = top == 0 ? 64 + leading_zeros(next) : leading_zeros(top);
    if (zeros >= 64) {
        top = zeros == 64 ? next : next << (zeros - 64);
        next = rest;
    } else if (zeros > 0) {
        top = top << zeros | next >> (64 - zeros);
        next = next << zeros | rest >> (64 - zeros);
    }
    const f64 unit = pow2(f64(-zeros));
    const f64 hi = f64(top >> 11) * pow2(75.0 - 128.0) * unit;
    const f64 lo = rounded(top & 0x7ff, next) * pow2(-128.0) * unit;
    const Sum product = split_product(hi, PIO2_HI);
    const Sum sum = fast_two_sum(product.hi, product.lo + (hi * PIO2_LO + lo * PIO2_HI));
    const f64 sign = negative != (x < 0.0) ? -1.0 : 1.0;
    const u64 quadrant = (high >> 62) + u64(negative);
    return {x < 0.0 ? 0 - quadrant : quadrant, sum.hi * sign, sum.lo * sign};
}

/// sin(r + c) and cos(r + c).
template <class T> struct Pair {
    T sin, cos;
};

DEVICE Pair<f64> sin_cos(Angle a) {
    const f64 z = a.r * a.r, cube = z * a.r;
    const f64 sin = a.r + mul_add(cube, poly(z, SIN64), mul_add(-0.5 * z, a.c, a.c));
    const f64 half = 0.5 * z, w = 1.0 - half;
    const f64 tail = mul_add(z * z, poly(z, COS64), -(a.r * a.c));
    return {sin, w + (((1.0 - w) - half) + tail)};
}

/// `quadrant` 0 gives `a`, 1 `b`, 2 `-a`, 3 `-b`.
DEVICE f64 turn(u64 quadrant, f64 a, f64 b) {
    return double_of(to_bits((quadrant & 1) == 0 ? a : b) ^ (quadrant & 2) << 62);
}
DEVICE f32 turn(u32 quadrant, f32 a, f32 b) {
    return float_of(to_bits((quadrant & 1) == 0 ? a : b) ^ (quadrant & 2) << 30);
}

DEVICE f64 sin_of(Angle a) {
    const Pair<f64> p = sin_cos(a);
    return turn(a.quadrant, p.sin, p.cos);
}
DEVICE f64 cos_of(Angle a) {
    const Pair<f64> p = sin_cos(a);
    return turn(a.quadrant + 1, p.sin, p.cos);
}
/// -cos / sin in odd quadrants.
DEVICE f64 slope(u64 quadrant, f64 sin, f64 cos) { return (quadrant & 1) == 1 ? -cos / sin : sin / cos; }
DEVICE f64 tan_of(Angle a) {
    const Pair<f64> p = sin_cos(a);
    return slope(a.quadrant, p.sin, p.cos);
}

DEVICE Angle reduce_any(f64 x) { return abs(x) > NEAR ? reduce_far(x) : reduce_near(x); }
DEVICE f64 sin(f64 x) { return x == 0.0 ? x : sin_of(reduce_any(x)); }
DEVICE f64 cos(f64 x) { return x == 0.0 ? 1.0 : cos_of(reduce_any(x)); }
DEVICE f64 tan(f64 x) { return x == 0.0 ? x : tan_of(reduce_any(x)); }

/// Quadrant, sine and cosine in single precision.
struct Turned {
    u32 quadrant;
    f32 sin, cos;
};

DEVICE Turned sin_cos(f32 x) {
    const f32 shifted = mul_add(x, f32(FRAC_2_PI), ROUND32), k = shifted - ROUND32;
    const f32 r0 = mul_add(-k, PIO2_PARTS_32[0], x);
    const f32 next = k * PIO2_PARTS_32[1], next_lo = mul_add(k, PIO2_PARTS_32[1], -next);
    const f32 r = r0 - next, c = mul_add(-k, PIO2_PARTS_32[2], ((r0 - r) - next) - next_lo);
    const f32 z = r * r, half = 0.5f * z;
    const f32 sin = r + mul_add(z * r, poly(z, SIN32), mul_add(-half, c, c));
    const f32 w = 1.0f - half, tail = mul_add(z * z, poly(z, COS32), -(r * c));
    return {to_bits(shifted), sin, w + (((1.0f - w) - half) + tail)};
}

DEVICE f32 sin(f32 x) {
    if (abs(x) > f32(NEAR)) {
        return f32(sin_of(reduce_far(f64(x))));
    }
    const Turned t = sin_cos(x);
    return x == 0.0f ? x : turn(t.quadrant, t.sin, t.cos);
}
DEVICE f32 cos(f32 x) {
    if (abs(x) > f32(NEAR)) {
        return f32(cos_of(reduce_far(f64(x))));
    }
    const Turned t = sin_cos(x);
    return x == 0.0f ? 1.0f : turn(t.quadrant + 1, t.sin, t.cos);
}
DEVICE f32 tan(f32 given) {
    if (abs(given) > f32(NEAR)) {
        return f32(tan_of(reduce_far(f64(given))));
    }
    const f64 x = f64(given), shifted = mul_add(x, FRAC_2_PI, ROUND64), k = shifted - ROUND64;
    const f64 near = mul_add(-k, PIO2_PARTS[1], mul_add(-k, PIO2_PARTS[0], x));
    const f64 r = mul_add(-k, PIO2_PARTS[2], near), z = r * r;
    const f64 sin = mul_add(z * r, poly(z, SIN40), r);
    const f64 cos = mul_add(z * z, poly(z, COS40), mul_add(-0.5, z, 1.0));
    return given == 0.0f ? given : f32(slope(to_bits(shifted), sin, cos));
}

// The inverse trigonometric functions.

template <bool FULL> DEVICE Sum sqrt_sum(f64 z) {
    const f64 s = sqrt(z);
    if constexpr (!FULL) {
        return {s, 0.0};
    }
    const Sum square = two_prod(s, s);
    const f64 c = ((z - square.hi) - square.lo) / (2.0 * s);
    return {s, z == 0.0 ? 0.0 : c};
}

/// asin(s + c) - s for z = s^2 <= 1/4.
template <bool FULL> DEVICE f64 asin_tail(f64 s, f64 c, f64 z) {
    return mul_add(s * z, poly<FULL>(z, ASIN64, ASIN40), c);
}

template <bool FULL> DEVICE f64 asin_(f64 x) {
    const f64 a = abs(x), half = 0.5 * (1.0 - a);
    const bool near = a < 0.5;
    const Sum root = sqrt_sum<FULL>(half);
    const f64 s = near ? a : root.hi;
    const f64 tail = asin_tail<FULL>(s, near ? 0.0 : root.lo, near ? a * a : half);
    const Sum sum = fast_two_sum(PIO2_HI, -2.0 * root.hi);
    const f64 far = sum.hi + (sum.lo + mul_add(-2.0, tail, PIO2_LO));
    return flip_sign(near ? s + tail : far, x);
}
DEVICE f64 asin(f64 x) { return asin_<true>(x); }
DEVICE f32 asin(f32 x) { return f32(asin_<false>(f64(x))); }

template <bool FULL> DEVICE f64 acos_(f64 x) {
    const f64 a = abs(x), half = 0.5 * (1.0 - a);
    const bool near = a < 0.5;
    const Sum root = sqrt_sum<FULL>(half);
    const f64 s = near ? x : root.hi;
    const f64 tail = asin_tail<FULL>(s, near ? 0.0 : root.lo, near ? x * x : half);
    const f64 twice = near ? s : 2.0 * s, twice_tail = near ? tail : 2.0 * tail;
    const bool right = near || !(x < 0.0);
    const f64 base = near ? PIO2_HI : 2.0 * PIO2_HI, base_lo = near ? PIO2_LO : 2.0 * PIO2_LO;
    const Sum sum = fast_two_sum(base, -twice);
    const f64 from_base = sum.hi + (sum.lo + (base_lo - twice_tail));
    return near || !right ? from_base : twice + twice_tail;
}
DEVICE f64 acos(f64 x) { return acos_<true>(x); }
DEVICE f32 acos(f32 x) { return f32(acos_<false>(f64(x))); }

/// j pi/4 + p.
struct Octant {
    f64 j, p;
};

template <bool FULL> DEVICE Octant octant(f64 small, f64 large) {
    const bool upper = small > 0.41421356237309503 * large;
    const f64 t = (upper ? small - large : small) / (upper ? small + large : large), z = t * t;
    return {upper ? 1.0 : 0.0, mul_add(t * z, poly<FULL>(z, ATAN64, ATAN40), t)};
}

DEVICE f64 angle(f64 j, f64 p) {
    const Sum sum = two_sum(j * PIO4_HI, p);
    return sum.hi + mul_add(j, PIO4_LO, sum.lo);
}

template <bool FULL> DEVICE f64 atan_(f64 x) {
    const f64 a = abs(x);
    const bool steep = a > 1.0;
    const Octant o = octant<FULL>(steep ? 1.0 : a, steep ? a : 1.0);
    return flip_sign(angle(steep ? 2.0 - o.j : o.j, steep ? -o.p : o.p), x);
}
DEVICE f64 atan(f64 x) { return atan_<true>(x); }
DEVICE f32 atan(f32 x) { return f32(atan_<false>(f64(x))); }

template <bool FULL> DEVICE f64 atan2_(f64 y, f64 x) {
    const f64 a = abs(y), b = abs(x);
    const bool steep = a > b;
    f64 small = steep ? b : a, large = steep ? a : b;
    f64 by = large > 1e300 ? 1e-100 : 1.0;
    by = large < 1e-200 ? 1e100 : by;
    small = small * by, large = large * by;
    const bool both = small == infinity<f64>();
    small = both ? 1.0 : small;
    large = both || large == 0.0 ? 1.0 : large;
    const Octant o = octant<FULL>(small, large);
    const f64 j = steep ? 2.0 - o.j : o.j, p = steep ? -o.p : o.p;
    const bool left = is_sign_negative(x);
    const f64 turned = flip_sign(angle(left ? 4.0 - j : j, left ? -p : p), y);
    return is_nan(x) || is_nan(y) ? x + y : turned;
}
DEVICE f64 atan2(f64 y, f64 x) { return atan2_<true>(y, x); }
DEVICE f32 atan2(f32 y, f32 x) { return f32(atan2_<false>(f64(y), f64(x))); }

} // namespace rushlight
