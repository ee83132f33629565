// The error function and related functions, gamma functions, the zeta function and orthogonal polynomials.
//
// The Rust functions have the explanations: `erf.rs` and `gamma.rs` of `rust/simd/src/math`; `gauss.rs`, `numbers.rs`, `incomplete.rs` and
// `polynomials.rs` of `rust/ops/src/pointwise`; `rust/ops/src/create/sample_grad.rs`.

#pragma once

#include "angles.cuh"

namespace rushlight {

// The error function, its complement and its inverse.

/// erf(x) - x for |x| <= 1.
template <bool FULL> DEVICE f64 erf_tail(f64 x) {
    const f64 z = x * x;
    return x * mul_add(z, poly<FULL>(z, ERF64, ERF40), ERF_SLOPE);
}

/// erfc(x) for x >= 0.
template <bool FULL> DEVICE f64 erfc_right(f64 given) {
    const f64 x = limit(given, 0.0, 28.0);
    const Sum square = two_prod(x, x);
    const f64 p = poly<FULL>((x - 4.0) / (x + 4.0), ERFC64, ERFC40);
    return exp_sum<FULL>(-square.hi, -square.lo) * (p / (1.0 + 2.0 * x));
}

DEVICE f64 erf(f64 x) {
    const f64 a = abs(x), near = x + erf_tail<true>(x);
    return a < 1.0 ? near : flip_sign(1.0 - erfc_right<true>(a), x);
}
DEVICE f32 erf(f32 x) {
    const f32 a = abs(x), z = x * x;
    const f32 near = mul_add(x, mul_add(z, poly(z, ERF32), f32(ERF_SLOPE)), x);
    const f32 far = 1.0f - exp2_rough(-poly(limit(a, 0.0f, 4.0f), ERFC32));
    return a < 1.0f ? near : flip_sign(far, x);
}

template <bool FULL> DEVICE f64 erfc_(f64 x) {
    const f64 a = abs(x);
    const Sum sum = fast_two_sum(1.0, -x);
    const f64 near = sum.hi + (sum.lo - erf_tail<FULL>(x)), right = erfc_right<FULL>(a);
    return a < 0.8 ? near : x < 0.0 ? 2.0 - right : right;
}
DEVICE f64 erfc(f64 x) { return erfc_<true>(x); }
DEVICE f32 erfc(f32 x) { return f32(erfc_<false>(f64(x))); }

DEVICE f64 ndtr(f64 x) { return 0.5 * (1.0 + erf(x * FRAC_1_SQRT_2)); }
DEVICE f32 ndtr(f32 x) {
    const f32 end = 5.7f, a = abs(x);
    const f32 rough = exp2_rough(-poly(a > end ? end : a, NDTR32)), below = a > end ? 0.0f : rough;
    return x < 0.0f ? below : 1.0f - below;
}

DEVICE f64 erfinv(f64 x) {
    const f64 w = -log((1.0 - x) * (1.0 + x)), v = sqrt(w);
    const f64 near = poly(w, ERFINV_NEAR), mid = poly(v - 3.25, ERFINV_MID), far = poly(v - 5.0, ERFINV_FAR);
    const f64 y = x * (w < 6.25 ? near : w < 16.0 ? mid : far);
    return abs(x) == 1.0 ? x * infinity<f64>() : y;
}
DEVICE f32 erfinv(f32 given) {
    const f64 x = f64(given), w = -log_<false>((1.0 - x) * (1.0 + x));
    const f64 near = poly(w, ERFINV_NEAR40), far = poly(sqrt(w) - 3.3, ERFINV_FAR40);
    const f64 y = x * (w < 6.25 ? near : far);
    return f32(abs(x) == 1.0 ? x * infinity<f64>() : y);
}

/// exp(x^2) erfc(x).
DEVICE f64 erfcx(f64 x) {
    if (x < 10.0) {
        const f64 square = x * x, rest = mul_add(x, x, -square), power = exp(square);
        return is_infinite(power) ? power : power * (1.0 + rest) * erfc(x);
    }
    f64 total = 1.0, term = 1.0;
    for (i32 k = 1; k < 30; k++) {
        term *= -f64(2 * k - 1) / (2.0 * x * x);
        total += term;
        if (abs(term) < 1e-18) {
            break;
        }
    }
    return total / x * (FRAC_2_SQRT_PI / 2.0);
}

DEVICE f64 log_ndtr(f64 x) {
    const f64 scaled = x * (1.0 / SQRT_2);
    return x < -1.0 ? log(erfcx(-scaled) / 2.0) - x * x / 2.0 : log1p(-erfc(scaled) / 2.0);
}

/// For a share of at most one half, by Newton's method.
DEVICE f64 ndtri_left(f64 share) {
    if (share == 0.0) {
        return neg_infinity<f64>();
    }
    const f64 wanted = log(share);
    f64 x = -sqrt(-2.0 * wanted);
    for (i32 n = 0; n < 20; n++) {
        const f64 slope = sqrt(FRAC_2_PI) / erfcx(-x * (1.0 / SQRT_2)), step = (log_ndtr(x) - wanted) / slope;
        x -= step;
        if (abs(step) <= 1e-16 * abs(x)) {
            break;
        }
    }
    return x;
}

DEVICE f64 ndtri(f64 share) {
    if (!(share >= 0.0 && share <= 1.0)) {
        return nan<f64>();
    }
    if (share > 0.2 && share < 0.8) {
        return SQRT_2 * erfinv(2.0 * share - 1.0);
    }
    return share > 0.5 ? -ndtri_left(1.0 - share) : ndtri_left(share);
}

// Gamma functions.

DEVICE f64 lgamma(f64 x) { return libm::lgamma(x); }
DEVICE f32 lgamma(f32 x) { return f32(libm::lgamma(f64(x))); }

/// Upwards to 10 by the recurrence, then the asymptotic series, for x > 0.
DEVICE f64 digamma_right(f64 x) {
    const f64 series[8] = {1.0 / 12.0,  -1.0 / 120.0,     1.0 / 252.0, -1.0 / 240.0,
                           1.0 / 132.0, -691.0 / 32760.0, 1.0 / 12.0,  -3617.0 / 8160.0};
    f64 shift = 0.0;
    while (x < 10.0) {
        shift -= 1.0 / x;
        x += 1.0;
    }
    const f64 z = 1.0 / (x * x);
    f64 sum = 0.0;
    for (i32 n = 7; n >= 0; n--) {
        sum = (sum + series[n]) * z;
    }
    return shift + (is_finite(x) ? libm::ln(x) - 0.5 / x - sum : x);
}
DEVICE f64 digamma(f64 x) {
    if (x == 0.0) {
        return copysign(infinity<f64>(), -x);
    }
    if (!(x < 0.0)) {
        return digamma_right(x);
    }
    const f64 fraction = x - trunc(x);
    if (fraction == 0.0 || x == neg_infinity<f64>()) {
        return nan<f64>();
    }
    return digamma_right(1.0 - x) - PI / libm::tan(PI * fraction);
}
DEVICE f32 digamma(f32 x) { return f32(digamma(f64(x))); }

/// The sum of `(q + k)^-s` for s > 1 and a q that is no negative integer, its tail by Euler and Maclaurin.
DEVICE f64 zeta_sum(f64 s, f64 q) {
    const f64 tail[12] = {12.0,
                          -720.0,
                          30240.0,
                          -1209600.0,
                          47900160.0,
                          -1307674368000.0 / 691.0,
                          74724249600.0,
                          -10670622842880000.0 / 3617.0,
                          5109094217170944000.0 / 43867.0,
                          -802857662698291200000.0 / 174611.0,
                          14101100039391805440000.0 / 77683.0,
                          -1693824136731743669452800000.0 / 236364091.0};
    f64 sum = 0.0, at = q, term = libm::powf(at, -s);
    for (i32 taken = 0; taken < 10 || at <= 9.0;) {
        sum += term;
        at += 1.0;
        term = libm::powf(at, -s);
        taken += 1;
        if (abs(term / sum) < EPSILON * 0.5) {
            return sum;
        }
    }
    sum += term * at / (s - 1.0) + 0.5 * term;
    f64 factor = 1.0, rising = 0.0;
    for (i32 n = 0; n < 12; n++) {
        factor *= s + rising;
        term /= at;
        const f64 part = factor * term / tail[n];
        sum += part;
        if (abs(part / sum) < EPSILON * 0.5) {
            break;
        }
        rising += 1.0;
        factor *= s + rising;
        term /= at;
        rising += 1.0;
    }
    return sum;
}

/// The Hurwitz zeta function.
DEVICE f64 zeta(f64 s, f64 q) {
    if (s == 1.0) {
        return infinity<f64>();
    }
    if (s < 1.0) {
        return nan<f64>();
    }
    if (q <= 0.0 && q == floor(q)) {
        return infinity<f64>();
    }
    if (is_nan(s) || is_nan(q) || (q <= 0.0 && s != floor(s))) {
        return nan<f64>();
    }
    if (q < -64.0) {
        // Two tails instead of the terms one by one.
        const f64 rest = q - floor(q), sign = rem(s, 2.0) == 0.0 ? 1.0 : -1.0;
        return zeta_sum(s, rest) + sign * (zeta_sum(s, 1.0 - rest) - zeta_sum(s, 1.0 - q));
    }
    return zeta_sum(s, q);
}

/// The `n`-th derivative of digamma, for n >= 1.
DEVICE f64 polygamma(f64 n, f64 x) {
    f64 factorial = 1.0;
    for (f64 k = 1.0; k <= n && k <= 171.0; k += 1.0) {
        factorial *= k;
    }
    const f64 sign = rem(n, 2.0) == 0.0 ? -1.0 : 1.0;
    return sign * factorial * zeta(n + 1.0, x);
}

// The incomplete gamma functions, and how samples move with their distributions' parameters.

/// Terms after which a sum is taken as it is.
constexpr i32 TERMS = 100000;

TABLE f64 UNIFORM_0[9] = {
    -1.0 / 3.0,       1.0 / 12.0,    -2.0 / 135.0,         1.0 / 864.0,         1.0 / 2835.0,
    -139.0 / 777600.0, 1.0 / 25515.0, -571.0 / 261273600.0, -281.0 / 151559100.0,
};
TABLE f64 UNIFORM_1[4] = {-1.0 / 540.0, -1.0 / 288.0, 1.0 / 378.0, -77.0 / 77760.0};

/// A polynomial with these coefficients, the constant first; products and sums are rounded each.
template <int N> DEVICE f64 plain_poly(const f64 (&c)[N], f64 x) {
    f64 sum = 0.0;
    for (i32 n = N - 1; n >= 0; n--) {
        sum = sum * x + c[n];
    }
    return sum;
}

/// Temme's uniform expansion.
struct Uniform {
    f64 ratio, eta, rest;
};

DEVICE Uniform uniform(f64 a, f64 m) {
    f64 ratio = 0.0;
    for (i32 n = 19; n >= 0; n--) {
        ratio = 2.0 / f64(n + 2) - m * ratio;
    }
    const f64 eta = m * sqrt(ratio);
    return {ratio, eta, plain_poly(UNIFORM_0, eta) + plain_poly(UNIFORM_1, eta) / a};
}

/// The lower function P and the upper one Q = 1 - P.
struct Shares {
    f64 lower, upper;
};

/// The density of the gamma distribution of scale one at `x`, times `x`.
DEVICE f64 gamma_weight(f64 a, f64 x) { return libm::exp(a * libm::ln(x) - x - lgamma(a)); }
DEVICE f64 at_most_one(f64 x) { return x < 1.0 ? x : 1.0; }

DEVICE Shares gamma_shares(f64 a, f64 x) {
    const bool nothing = (a == 0.0 && x == 0.0) || (is_infinite(a) && is_infinite(x));
    if (is_nan(a) || is_nan(x) || a < 0.0 || x < 0.0 || nothing) {
        return {nan<f64>(), nan<f64>()};
    }
    if (a == 0.0 || is_infinite(x)) {
        return {1.0, 0.0};
    }
    if (x == 0.0 || is_infinite(a)) {
        return {0.0, 1.0};
    }
    if (a > 1e4 && abs(x / a - 1.0) < 0.1) {
        const Uniform u = uniform(a, (x - a) / a);
        const f64 z = u.eta * sqrt(a / 2.0), rest = u.rest * libm::exp(-z * z) / sqrt(TAU * a);
        return {0.5 * erfc(-z) - rest, 0.5 * erfc(z) + rest};
    }
    if (x < a + 1.0) {
        f64 term = 1.0 / a, sum = term;
        for (i32 n = 1; n < TERMS; n++) {
            term *= x / (a + f64(n));
            sum += term;
            if (term <= sum * 1e-17) {
                break;
            }
        }
        const f64 lower = at_most_one(sum * gamma_weight(a, x));
        return {lower, 1.0 - lower};
    }
    f64 b = x + 1.0 - a, c = 1e300, d = 1.0 / b, h = d;
    for (i32 k = 1; k < TERMS; k++) {
        const f64 n = f64(k), p = -n * (n - a);
        b += 2.0;
        d = 1.0 / (p * d + b);
        c = b + p / c;
        const f64 factor = c * d;
        h *= factor;
        if (abs(factor - 1.0) <= 1e-16) {
            break;
        }
    }
    const f64 upper = at_most_one(h * gamma_weight(a, x));
    return {1.0 - upper, upper};
}
DEVICE f64 gamma_lower(f64 a, f64 x) { return gamma_shares(a, x).lower; }
DEVICE f64 gamma_upper(f64 a, f64 x) { return gamma_shares(a, x).upper; }

DEVICE f64 gamma_sample_grad_uniform(f64 a, f64 x) {
    const f64 m = (x - a) / a, log = libm::ln_1p(m);
    const Uniform u = uniform(a, m);
    const f64 slope = m == 0.0 ? 1.0 : log / u.eta;
    f64 steps = 0.0;
    for (i32 n = 8; n >= 1; n--) {
        steps = steps * u.eta + f64(n) * UNIFORM_0[n];
    }
    const f64 falling = -steps / sqrt(u.ratio) / a, stirling = 1.0 + 1.0 / (12.0 * a);
    return (1.0 + m) * stirling * (slope + u.rest * (log - 0.5 / a) + falling);
}

DEVICE f64 gamma_sample_grad(f64 a, f64 x) {
    if (!(a > 0.0 && x > 0.0 && is_finite(a) && is_finite(x))) {
        return x == 0.0 && a > 0.0 ? 0.0 : nan<f64>();
    }
    if (a > 1e6 && abs(x / a - 1.0) < 0.1) {
        return gamma_sample_grad_uniform(a, x);
    }
    const f64 log = libm::ln(x) - digamma(a);
    if (x < a + 1.0) {
        f64 term = 1.0 / a, rate = -1.0 / a, sum = term, slope = term * rate;
        for (i32 n = 1; n < TERMS; n++) {
            const f64 next = a + f64(n);
            term *= x / next;
            rate -= 1.0 / next;
            sum += term;
            slope += term * rate;
            if (term * abs(rate) <= abs(slope) * 1e-16) {
                break;
            }
        }
        return -x * (sum * log + slope);
    }
    f64 b = x + 1.0 - a, c = 1e300, dc = 0.0, d = 1.0 / b, dd = 1.0 / (b * b), h = d, dh = dd;
    for (i32 k = 1; k < TERMS; k++) {
        const f64 n = f64(k), p = -n * (n - a), dp = n;
        b += 2.0;
        const f64 bottom = p * d + b, dbottom = dp * d + p * dd - 1.0;
        d = 1.0 / bottom;
        dd = -dbottom * d * d;
        const f64 next = b + p / c;
        dc = -1.0 + dp / c - p * dc / (c * c);
        c = next;
        const f64 factor = c * d;
        const f64 added = h * (dc * d + c * dd);
        dh = dh * factor + added;
        h *= factor;
        // For a whole parameter the fraction ends, and its derivative does not.
        if (abs(factor - 1.0) <= 1e-16 && abs(added) <= 1e-15 * (abs(dh) + abs(h))) {
            break;
        }
    }
    return x * (h * log + dh);
}

DEVICE f64 beta_sample_grad(f64 x, f64 a, f64 b) {
    if (!(a > 0.0 && b > 0.0 && is_finite(a + b) && x >= 0.0 && x <= 1.0)) {
        return nan<f64>();
    }
    if (x == 0.0 || x == 1.0) {
        return 0.0;
    }
    const f64 total = digamma(a + b);
    const bool near = x <= (a + 1.0) / (a + b + 2.0);
    const f64 z = near ? x : 1.0 - x, first = near ? a : b;
    f64 term = 1.0, rate = 0.0, sum = 1.0, slope = 0.0;
    for (i32 n = 0; n < TERMS; n++) {
        const f64 up = a + b + f64(n), down = first + 1.0 + f64(n);
        term *= up / down * z;
        rate += near ? 1.0 / up - 1.0 / down : 1.0 / up;
        sum += term;
        slope += term * rate;
        const f64 size = abs(rate);
        if (term * (size > 1.0 ? size : 1.0) <= sum * 1e-17 || !is_finite(term)) {
            break;
        }
    }
    const f64 log = near ? libm::ln(x) - digamma(a) + total - 1.0 / a : libm::ln_1p(-z) - digamma(a) + total;
    const f64 moved = x / first * (sum * log + slope);
    return near ? -moved : moved;
}

// Orthogonal polynomials, by their recurrences.

DEVICE i64 degree(f64 n) { return abs(n) < 9223372036854775808.0 ? i64(n) : min<i64>(); }

template <class Next> DEVICE f64 recur(i64 n, f64 largest, f64 first, Next next) {
    if (n <= 0) {
        return n == 0 ? 1.0 : 0.0;
    }
    if (n > 1 << 30) {
        return nan<f64>();
    }
    f64 before = 1.0, last = first;
    for (i64 k = 1; k < n && !is_nan(last); k++) {
        const f64 following = next(f64(k), last, before);
        before = last;
        last = abs(following) > largest ? copysign(infinity<f64>(), following) : following;
    }
    return last;
}

enum class Kind { T, U, V, W };

DEVICE f64 chebyshev(Kind kind, f64 x, i64 n, f64 largest) {
    if (n < 0) {
        return 0.0;
    }
    const f64 degree = f64(n), broad = 2.0 * f64(n) + 1.0, sign = n % 2 == 0 ? 1.0 : -1.0;
    if (x == 1.0) {
        return kind == Kind::U ? degree + 1.0 : kind == Kind::W ? broad : 1.0;
    }
    if (x == -1.0) {
        return kind == Kind::U ? sign * (degree + 1.0) : kind == Kind::V ? sign * broad : sign;
    }
    if (n > 6 && abs(x) < 1.0) {
        const f64 angle = libm::acos(x);
        switch (kind) {
        case Kind::T: return libm::cos(degree * angle);
        case Kind::U: return libm::sin((degree + 1.0) * angle) / libm::sin(angle);
        case Kind::V: return libm::cos((degree + 0.5) * angle) / libm::cos(angle / 2.0);
        default: return libm::sin((degree + 0.5) * angle) / libm::sin(angle / 2.0);
        }
    }
    const f64 first = kind == Kind::T   ? x
                      : kind == Kind::U ? 2.0 * x
                      : kind == Kind::V ? 2.0 * x - 1.0
                                        : 2.0 * x + 1.0;
    return recur(n, largest, first, [=](f64, f64 last, f64 before) { return 2.0 * x * last - before; });
}

DEVICE f64 shifted(Kind kind, f64 x, i64 n, f64 largest) {
    return chebyshev(kind, 2.0 * x - 1.0, n, largest);
}

DEVICE f64 hermite_h(f64 x, i64 n, f64 largest) {
    return recur(n, largest, 2.0 * x, [=](f64 k, f64 last, f64 before) { return 2.0 * (x * last - k * before); });
}

DEVICE f64 hermite_he(f64 x, i64 n, f64 largest) {
    return recur(n, largest, x, [=](f64 k, f64 last, f64 before) { return x * last - k * before; });
}

DEVICE f64 laguerre(f64 x, i64 n, f64 largest) {
    if (x == 0.0 && n >= 0) {
        return 1.0;
    }
    return recur(n, largest, 1.0 - x, [=](f64 k, f64 last, f64 before) {
        return ((2.0 * k + 1.0 - x) * last - k * before) / (k + 1.0);
    });
}

DEVICE f64 legendre(f64 x, i64 n, f64 largest) {
    if (abs(x) == 1.0 && n >= 0) {
        return x > 0.0 || n % 2 == 0 ? 1.0 : -1.0;
    }
    return recur(n, largest, x, [=](f64 k, f64 last, f64 before) {
        return ((2.0 * k + 1.0) * x * last - k * before) / (k + 1.0);
    });
}

} // namespace rushlight
