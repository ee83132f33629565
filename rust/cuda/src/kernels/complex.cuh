// Complex numbers: arithmetic as in the crate `num-complex`, functions as in `numbers.rs` and `analytic.rs` of
// `rust/ops/src/pointwise`, which have the explanations. All functions compute in double precision.

#pragma once

#include "angles.cuh"

namespace rushlight {

template <class R> struct cx {
    R re, im;
    DEVICE cx() : re(0), im(0) {}
    DEVICE cx(R re, R im) : re(re), im(im) {}
};
typedef cx<f32> c64;
typedef cx<f64> c128;

template <class R> DEVICE cx<R> operator+(cx<R> x, cx<R> y) { return {x.re + y.re, x.im + y.im}; }
template <class R> DEVICE cx<R> operator-(cx<R> x, cx<R> y) { return {x.re - y.re, x.im - y.im}; }
template <class R> DEVICE cx<R> operator-(cx<R> x) { return {-x.re, -x.im}; }
template <class R> DEVICE cx<R> operator*(cx<R> x, cx<R> y) {
    return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}
template <class R> DEVICE cx<R> operator+(cx<R> x, R y) { return {x.re + y, x.im}; }
template <class R> DEVICE cx<R> operator*(cx<R> x, R y) { return {x.re * y, x.im * y}; }
template <class R> DEVICE cx<R> operator/(cx<R> x, R y) { return {x.re / y, x.im / y}; }
template <class R> DEVICE bool operator==(cx<R> x, cx<R> y) { return x.re == y.re && x.im == y.im; }
template <class R> DEVICE bool operator!=(cx<R> x, cx<R> y) { return !(x == y); }

template <class R> DEVICE cx<R> conj(cx<R> z) { return {z.re, -z.im}; }
template <class R> DEVICE R norm_sqr(cx<R> z) { return z.re * z.re + z.im * z.im; }
template <class R> DEVICE R norm(cx<R> z) { return hypot(z.re, z.im); }

/// On the way to double precision, in which all functions are computed, and back to whichever type the result has.
template <class R> DEVICE c128 wide(cx<R> z) { return {f64(z.re), f64(z.im)}; }
struct Narrow {
    c128 value;
    DEVICE operator c128() const { return value; }
    DEVICE operator c64() const { return {f32(value.re), f32(value.im)}; }
};
DEVICE Narrow narrow(c128 z) { return {z}; }

namespace analytic {

/// From here on the exponential is taken as a product of two roots.
constexpr f64 FAR = 700.0;

DEVICE c128 turned(c128 z) { return {-z.im, z.re}; }
DEVICE c128 turned_back(c128 z) { return {z.im, -z.re}; }

/// `exp(x) * factor`, infinite only where the product is.
DEVICE f64 swollen(f64 x, f64 factor) {
    const f64 root = libm::exp(0.5 * x);
    return root * factor * root;
}

DEVICE c128 exp(c128 z) {
    const f64 x = z.re, y = z.im;
    if (y == 0.0) {
        return {libm::exp(x), y};
    }
    if (!is_finite(y)) {
        return x == neg_infinity<f64>() ? c128(0.0, 0.0)
             : x == infinity<f64>()     ? c128(x, nan<f64>())
                                        : c128(nan<f64>(), nan<f64>());
    }
    const f64 sin = libm::sin(y), cos = libm::cos(y);
    if (x > FAR) {
        return {swollen(x, cos), swollen(x, sin)};
    }
    const f64 size = libm::exp(x);
    return {size * cos, size * sin};
}

} // namespace analytic

/// Smith's way: scaled by the divisor's larger part.
DEVICE c128 quotient(c128 x, c128 y) {
    const f64 a = x.re, b = x.im, c = y.re, d = y.im;
    if (abs(c) >= abs(d)) {
        if (c == 0.0 && d == 0.0) {
            return {a / abs(c), b / abs(d)};
        }
        const f64 ratio = d / c, scale = 1.0 / (c + d * ratio);
        return {(a + b * ratio) * scale, (b - a * ratio) * scale};
    }
    const f64 ratio = c / d, scale = 1.0 / (c * ratio + d);
    return {(a * ratio + b) * scale, (b * ratio - a) * scale};
}

/// `|z|^2 - 1` near the unit circle, to the last digit.
DEVICE f64 beyond_one(c128 z) {
    const bool tall = !(abs(z.re) >= abs(z.im));
    const f64 large = tall ? z.im : z.re, small = tall ? z.re : z.im;
    const f64 square = large * large, other = small * small;
    const f64 rest = mul_add(large, large, -square) + mul_add(small, small, -other);
    return (square - 1.0) + other + rest;
}

DEVICE c128 logarithm(c128 z) {
    const f64 size = hypot(z.re, z.im);
    const f64 real = abs(size - 1.0) < 0.25 ? 0.5 * libm::ln_1p(beyond_one(z)) : libm::ln(size);
    return {real, libm::atan2(z.im, z.re)};
}

DEVICE c128 log1p(c128 z) {
    const bool near = abs(z.re) < 0.5 && abs(z.im) < 0.5;
    const f64 real = near ? 0.5 * libm::ln_1p(z.re * (2.0 + z.re) + z.im * z.im) : libm::ln(hypot(1.0 + z.re, z.im));
    return {real, libm::atan2(z.im, 1.0 + z.re)};
}

/// The exponential of `num-complex`, which differs from `analytic::exp` where a part is infinite or NaN.
DEVICE c128 plain_exp(c128 z) {
    const f64 x = z.re;
    f64 y = z.im;
    if (is_infinite(x)) {
        if (x < 0.0) {
            y = is_finite(y) ? y : 0.0;
        } else if (y == 0.0 || !is_finite(y)) {
            return {x, is_infinite(y) ? nan<f64>() : y};
        }
    } else if (is_nan(x) && y == 0.0) {
        return z;
    }
    const f64 size = libm::exp(x);
    return {size * libm::cos(y), size * libm::sin(y)};
}

DEVICE c128 logaddexp(c128 x, c128 y) {
    const bool first = x.re >= y.re;
    const c128 high = first ? x : y, low = first ? y : x;
    if (is_infinite(high.re) && high.re == low.re) {
        return high.re > 0.0 ? high : logarithm(plain_exp(high) + plain_exp(low));
    }
    return high + log1p(plain_exp(low - high));
}

DEVICE c128 root(c128 z) {
    if (z.re == 0.0 && z.im == 0.0) {
        return {0.0, z.im};
    }
    if (is_infinite(z.im)) {
        return {infinity<f64>(), z.im};
    }
    if (is_infinite(z.re)) {
        const f64 other = is_nan(z.im) ? nan<f64>() : 0.0;
        return z.re > 0.0 ? c128(z.re, copysign(other, z.im)) : c128(other, copysign(infinity<f64>(), z.im));
    }
    const f64 half = sqrt(abs(z.re) * 0.5 + hypot(z.re * 0.5, z.im * 0.5)), other = z.im / (2.0 * half);
    return z.re >= 0.0 ? c128(half, other) : c128(abs(other), copysign(half, z.im));
}

/// A whole power, by squares.
DEVICE c128 whole_power(c128 base, i32 exponent) {
    if (exponent == 0) {
        return {1.0, 0.0};
    }
    if (exponent < 0) {
        const f64 size = norm_sqr(base);
        base = c128(base.re / size, -base.im / size);
        exponent = -exponent;
    }
    for (; (exponent & 1) == 0; exponent >>= 1) {
        base = base * base;
    }
    c128 product = base;
    while (exponent > 1) {
        exponent >>= 1;
        base = base * base;
        if ((exponent & 1) == 1) {
            product = product * base;
        }
    }
    return product;
}

DEVICE c128 power(c128 x, c128 exponent) {
    if (exponent.re == 0.0 && exponent.im == 0.0) {
        return {1.0, 0.0};
    }
    if (x.re == 0.0 && x.im == 0.0) {
        if (exponent.re > 0.0 || (exponent.im == 0.0 && exponent.re >= 0.0)) {
            return {0.0, 0.0};
        }
        return plain_exp(exponent * logarithm(x));
    }
    if (exponent.im == 0.0 && exponent.re - trunc(exponent.re) == 0.0 && abs(exponent.re) <= 1024.0) {
        return whole_power(x, i32(exponent.re));
    }
    return plain_exp(exponent * logarithm(x));
}

DEVICE c128 signum(c128 z) {
    const f64 size = hypot(z.re, z.im);
    return size == 0.0 ? c128(0.0, 0.0) : c128(z.re / size, z.im / size);
}

namespace analytic {

DEVICE c128 sigmoid(c128 z) {
    if (z.re < 0.0) {
        const c128 small = exp(z);
        return quotient(small, small + 1.0);
    }
    return quotient(c128(1.0, 0.0), exp(-z) + 1.0);
}

DEVICE c128 sinh(c128 z) {
    const f64 x = z.re, y = z.im;
    if (y == 0.0) {
        return {libm::sinh(x), y};
    }
    if (!is_finite(y)) {
        return {x == 0.0 || is_infinite(x) ? x : nan<f64>(), nan<f64>()};
    }
    const f64 sin = libm::sin(y), cos = libm::cos(y);
    if (abs(x) > FAR) {
        return {copysign(swollen(abs(x), 0.5 * cos), cos * x), swollen(abs(x), 0.5 * sin)};
    }
    return {libm::sinh(x) * cos, libm::cosh(x) * sin};
}

DEVICE c128 cosh(c128 z) {
    const f64 x = z.re, y = z.im;
    if (y == 0.0) {
        return {libm::cosh(x), is_nan(x) ? y : copysign(0.0, x) * copysign(1.0, y)};
    }
    if (!is_finite(y)) {
        return {is_infinite(x) ? infinity<f64>() : nan<f64>(), x == 0.0 ? 0.0 : nan<f64>()};
    }
    const f64 sin = libm::sin(y), cos = libm::cos(y);
    if (abs(x) > FAR) {
        return {swollen(abs(x), 0.5 * cos), copysign(swollen(abs(x), 0.5 * sin), sin * x)};
    }
    return {libm::cosh(x) * cos, libm::sinh(x) * sin};
}

DEVICE c128 tanh(c128 z) {
    const f64 x = z.re, y = z.im;
    if (y == 0.0) {
        return {libm::tanh(x), y};
    }
    if (is_infinite(x) && !is_finite(y)) {
        return {copysign(1.0, x), copysign(0.0, y)};
    }
    if (!is_finite(y)) {
        return {x == 0.0 ? x : nan<f64>(), nan<f64>()};
    }
    const f64 sin = libm::sin(y), cos = libm::cos(y), size = abs(x);
    if (size > 20.0) {
        // exp(-2|x|) is lost beside one.
        return {copysign(1.0, x), 4.0 * sin * cos * libm::exp(-2.0 * size)};
    }
    const f64 grown = libm::exp_m1(size), shrunk = -grown / (grown + 1.0);
    const f64 odd = 0.5 * (grown - shrunk), even = 0.5 * (grown + shrunk) + 1.0;
    const f64 scale = 1.0 / (odd * odd + cos * cos);
    return {copysign(odd * even * scale, x), sin * cos * scale};
}

DEVICE c128 expm1(c128 z) {
    const f64 x = z.re, y = z.im;
    if (y == 0.0) {
        return {libm::exp_m1(x), y};
    }
    if (!is_finite(y)) {
        return x == neg_infinity<f64>() ? c128(-1.0, 0.0)
             : x == infinity<f64>()     ? c128(x, nan<f64>())
                                        : c128(nan<f64>(), nan<f64>());
    }
    const f64 sin = libm::sin(y), cos = libm::cos(y);
    if (x > FAR) {
        return {swollen(x, cos), swollen(x, sin)};
    }
    const f64 half = libm::sin(0.5 * y);
    const f64 real = abs(x) < 1.0 ? libm::exp_m1(x) * cos - 2.0 * half * half : libm::exp(x) * cos - 1.0;
    return {real, libm::exp(x) * sin};
}

DEVICE c128 sin(c128 z) { return turned_back(sinh(turned(z))); }
DEVICE c128 cos(c128 z) { return cosh(turned(z)); }
DEVICE c128 tan(c128 z) { return turned_back(tanh(turned(z))); }

/// The real parts of the inverse sine and cosine of a number of the first quadrant, and the size of their imaginary parts.
struct Arcs {
    f64 sine, cosine, height;
};

/// After Hull, Fairgrieve and Tang.
DEVICE Arcs arcs(f64 x, f64 y) {
    if ((x > y ? x : y) > 1e150) {
        return {libm::atan2(x, y), libm::atan2(y, x), libm::ln(hypot(0.25 * x, 0.25 * y)) + 3.0 * LN_2};
    }
    const f64 right = hypot(x + 1.0, y), left = hypot(x - 1.0, y);
    const f64 mean = 0.5 * (right + left), ratio = x / mean;
    Arcs found;
    if (ratio <= 0.64) {
        found.sine = libm::asin(ratio);
        found.cosine = libm::acos(ratio);
    } else {
        const f64 reach = 0.5 * (mean + x);
        const f64 root = x <= 1.0 ? sqrt(reach * (y * y / (right + x + 1.0) + (left + (1.0 - x))))
                                  : y * sqrt(reach / (right + x + 1.0) + reach / (left + (x - 1.0)));
        found.sine = libm::atan2(x, root);
        found.cosine = libm::atan2(root, x);
    }
    if (x < 1.0 && y <= EPSILON * (1.0 - x)) {
        found.height = y / sqrt((1.0 - x) * (1.0 + x));
    } else if (mean <= 1.5) {
        const f64 other = x < 1.0 ? y * y / (left + (1.0 - x)) : left + (x - 1.0);
        const f64 above = 0.5 * (y * y / (right + x + 1.0) + other);
        found.height = libm::ln_1p(above + sqrt(above * (mean + 1.0)));
    } else {
        found.height = libm::ln(mean + sqrt(mean * mean - 1.0));
    }
    return found;
}

DEVICE c128 asin(c128 z) {
    const f64 x = z.re, y = z.im;
    if (is_nan(x) || is_nan(y)) {
        return {x == 0.0 ? x : nan<f64>(), is_infinite(y) ? y : is_infinite(x) ? x : nan<f64>()};
    }
    if (is_infinite(x) || is_infinite(y)) {
        return {copysign(libm::atan2(abs(x), abs(y)), x), copysign(infinity<f64>(), y)};
    }
    const Arcs found = arcs(abs(x), abs(y));
    return {copysign(found.sine, x), copysign(found.height, y)};
}

DEVICE c128 acos(c128 z) {
    const f64 x = z.re, y = z.im;
    if (is_nan(x) || is_nan(y)) {
        const f64 imaginary = is_infinite(y) ? -y : is_infinite(x) ? neg_infinity<f64>() : nan<f64>();
        return {x == 0.0 ? FRAC_PI_2 : nan<f64>(), imaginary};
    }
    if (is_infinite(x) || is_infinite(y)) {
        return {libm::atan2(abs(y), x), -copysign(infinity<f64>(), y)};
    }
    const Arcs found = arcs(abs(x), abs(y));
    return {is_sign_negative(x) ? PI - found.cosine : found.cosine, -copysign(found.height, y)};
}

DEVICE c128 asinh(c128 z) { return turned_back(asin(turned(z))); }
DEVICE c128 acosh(c128 z) {
    const c128 arc = acos(z);
    return {abs(arc.im), copysign(arc.re, z.im)};
}

DEVICE c128 atanh(c128 z) {
    // Beyond it one is lost beside the number.
    constexpr f64 LARGE = 1e16;
    const f64 x = abs(z.re), y = abs(z.im);
    f64 real, imaginary;
    if (is_nan(x) || is_nan(y)) {
        real = x == 0.0 || is_infinite(x) || is_infinite(y) ? 0.0 : nan<f64>();
        imaginary = is_infinite(y) ? FRAC_PI_2 : nan<f64>();
    } else if ((x > y ? x : y) > LARGE) {
        const f64 ratio = x >= y ? y / x : x / y;
        real = is_infinite(x) || is_infinite(y) ? 0.0
             : x >= y                           ? 1.0 / x / (1.0 + ratio * ratio)
                                                : ratio / y / (1.0 + ratio * ratio);
        imaginary = FRAC_PI_2;
    } else if (x == 1.0 && y < EPSILON) {
        real = 0.5 * (LN_2 - libm::ln(y));
        imaginary = y == 0.0 ? 0.0 : 0.5 * libm::atan2(2.0, -y);
    } else {
        const f64 beside = x - 1.0;
        real = 0.25 * libm::ln_1p(4.0 * x / (beside * beside + y * y));
        imaginary = 0.5 * libm::atan2(2.0 * y, (1.0 - x) * (1.0 + x) - y * y);
    }
    return {copysign(real, z.re), copysign(imaginary, z.im)};
}

DEVICE c128 atan(c128 z) { return turned_back(atanh(turned(z))); }

} // namespace analytic

} // namespace rushlight
