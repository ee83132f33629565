// Bessel functions of orders zero and one, and Airy's function, as in `rust/simd/src/math/bessel.rs`, which has the
// explanations.

#pragma once

#include "platform.cuh"

namespace rushlight::bessel {

constexpr f64 EULER = 0.5772156649015329;
/// From here on the asymptotic series of the oscillating functions are exact.
constexpr f64 FAR = 25.0;
/// The same for the growing ones.
constexpr f64 FAR_GROWING = 30.0;

/// The sum of terms, each made of the one before, until they no longer count or no longer shrink.
template <class Next> DEVICE f64 sum(f64 first, Next next) {
    f64 total = first, term = first;
    for (i32 k = 1; k < 500; k++) {
        const f64 following = next(term, f64(k));
        if (abs(following) > abs(term) && abs(term) < abs(total)) {
            break;
        }
        total += following;
        if (abs(following) <= abs(total) * 1e-18) {
            break;
        }
        term = following;
    }
    return total;
}

/// The growing function of an order, times `exp(-|x|)`.
DEVICE f64 growing(i32 order, f64 x) {
    const f64 size = abs(x), nu = f64(order);
    f64 value = 0.0;
    if (size <= FAR_GROWING) {
        const f64 quarter = size * size / 4.0;
        f64 total = order == 0 ? 1.0 : size / 2.0, term = total;
        for (f64 k = 1.0; term > total * 1e-18; k += 1.0) {
            term *= quarter / (k * (k + nu));
            total += term;
        }
        value = total * libm::exp(-size);
    } else if (!is_infinite(size)) {
        const f64 square = 4.0 * nu * nu;
        const f64 series = sum(1.0, [=](f64 term, f64 k) {
            const f64 odd = 2.0 * k - 1.0;
            return -term * (square - odd * odd) / (8.0 * size * k);
        });
        // The product overflows for the largest numbers.
        value = size < 0x1.fffffffffffffp1023 / 8.0 ? series / sqrt(2.0 * PI * size) : series / sqrt(2.0 * PI) / sqrt(size);
    }
    return order == 1 && x < 0.0 ? -value : value;
}

DEVICE f64 i0e(f64 x) { return is_nan(x) ? x : growing(0, x); }
DEVICE f64 i1e(f64 x) { return is_nan(x) ? x : growing(1, x); }

/// Undoes the scale in two steps, so that only the result overflows.
DEVICE f64 grown(f64 scaled, f64 x) {
    const f64 half = libm::exp(abs(x) / 2.0);
    // The scaled function of a very large number may be zero, but not the product.
    if (is_finite(x) && is_infinite(half)) {
        return copysign(half, scaled);
    }
    return scaled * half * half;
}
DEVICE f64 i0(f64 x) { return grown(i0e(x), x); }
DEVICE f64 i1(f64 x) { return grown(i1e(x), x); }

/// The functions of two orders that follow each other.
struct Orders {
    f64 first, second;
};

/// Temme's continued fraction for the decaying functions of orders `nu` and `nu + 1`, times `exp(x)`.
DEVICE Orders steed(f64 nu, f64 x) {
    if (is_infinite(x)) {
        return {0.0, 0.0};
    }
    const f64 start = 0.25 - nu * nu;
    f64 b = 2.0 * (1.0 + x), d = 1.0 / b, step = d, h = d;
    f64 before = 0.0, now = 1.0, q = start, c = start, a = -start, total = 1.0 + q * step;
    for (i32 k = 2; k < 10000; k++) {
        const f64 i = f64(k);
        a -= 2.0 * (i - 1.0);
        c *= -a / i;
        const f64 next = (before - b * now) / a;
        before = now;
        now = next;
        q += c * next;
        b += 2.0;
        d = 1.0 / (b + a * d);
        step *= b * d - 1.0;
        h += step;
        const f64 part = q * step;
        total += part;
        if (abs(part) < abs(total) * 1e-17) {
            break;
        }
    }
    const f64 value = sqrt(PI / (2.0 * x)) / total;
    return {value, value * (nu + x + 0.5 - start * h) / x};
}

/// The decaying functions of orders zero and one, times `exp(x)`.
DEVICE Orders decaying(f64 x) {
    if (is_nan(x) || x < 0.0) {
        return {nan<f64>(), nan<f64>()};
    }
    if (x == 0.0) {
        return {infinity<f64>(), infinity<f64>()};
    }
    if (x > 2.0) {
        return steed(0.0, x);
    }
    const f64 quarter = x * x / 4.0, log = libm::ln(x / 2.0);
    f64 even = 1.0, odd = 1.0, harmonic = 0.0, zeroth = -(log + EULER), first = log + EULER - 0.5;
    for (i32 n = 1; n < 40; n++) {
        const f64 k = f64(n);
        even *= quarter / (k * k);
        odd *= quarter / (k * (k + 1.0));
        harmonic += 1.0 / k;
        zeroth += even * (harmonic - log - EULER);
        first += odd * (log + EULER - harmonic - 0.5 / (k + 1.0));
    }
    const f64 scale = libm::exp(x);
    return {zeroth * scale, (1.0 / x + first * x / 2.0) * scale};
}

DEVICE f64 k0e(f64 x) { return decaying(x).first; }
DEVICE f64 k1e(f64 x) { return decaying(x).second; }
DEVICE f64 decayed(f64 scaled, f64 x) { return x == infinity<f64>() ? 0.0 : scaled * libm::exp(-x); }
DEVICE f64 k0(f64 x) { return decayed(k0e(x), x); }
DEVICE f64 k1(f64 x) { return decayed(k1e(x), x); }

/// J0, J1, Y0 and Y1.
struct Oscillating {
    f64 j0, j1, y0, y1;
};

/// Hankel's series of an order, with the cosine and the sine of its angle.
DEVICE Orders of_order(f64 x, f64 nu, f64 cos, f64 sin) {
    const f64 amplitude = sqrt(FRAC_2_PI / x);
    f64 p = 1.0, q = 0.0, term = 1.0;
    for (i32 k = 1; k < 200; k++) {
        const f64 odd = f64(2 * k - 1);
        const f64 next = term * (4.0 * nu * nu - odd * odd) / (8.0 * f64(k) * x);
        if (abs(next) < 1e-18 || abs(next) > abs(term)) {
            break;
        }
        term = next;
        switch (k % 4) {
        case 1: q += term; break;
        case 2: p -= term; break;
        case 3: q -= term; break;
        default: p += term;
        }
    }
    return {amplitude * (p * cos - q * sin), amplitude * (p * sin + q * cos)};
}

DEVICE Oscillating hankel(f64 x) {
    const f64 sine = libm::sin(x), cosine = libm::cos(x);
    // cos and sin of x - pi/4 and of x - 3 pi/4.
    const f64 ahead = (sine + cosine) * FRAC_1_SQRT_2, behind = (sine - cosine) * FRAC_1_SQRT_2;
    const Orders zeroth = of_order(x, 0.0, ahead, behind), first = of_order(x, 1.0, behind, -ahead);
    return {zeroth.first, first.first, zeroth.second, first.second};
}

/// All orders by recurrence downwards; Neumann's series make Y0 and Y1 of them.
DEVICE Oscillating miller(f64 x) {
    if (x < 1e-8) {
        const f64 log = libm::ln(x / 2.0) + EULER;
        return {1.0, x / 2.0, FRAC_2_PI * log, -FRAC_2_PI / x};
    }
    f64 above = 0.0, now = 1e-250, norm = 0.0, evens = 0.0, odds = 0.0;
    // `now` is the function of order n.
    for (i32 n = 2 * ((i32(x) + 40) / 2); n > 0; n--) {
        const i32 half = n / 2;
        if (n % 2 == 0) {
            norm += 2.0 * now;
            evens += (half % 2 == 0 ? now : -now) / f64(half);
        } else if (n > 1) {
            const f64 part = now * f64(n) / f64(half * (half + 1));
            odds += half % 2 == 0 ? part : -part;
        }
        const f64 below = 2.0 * f64(n) / x * now - above;
        above = now;
        now = below;
        if (abs(now) > 1e200) {
            above *= 1e-200, now *= 1e-200, norm *= 1e-200, evens *= 1e-200, odds *= 1e-200;
        }
    }
    norm += now;
    const f64 j0 = now / norm, j1 = above / norm, log = libm::ln(x / 2.0);
    const f64 y0 = FRAC_2_PI * ((log + EULER) * j0 - 2.0 * evens / norm);
    const f64 y1 = FRAC_2_PI * ((log + EULER - 1.0) * j1 - j0 / x - odds / norm);
    return {j0, j1, y0, y1};
}

/// Of a positive number; of infinity nothing.
DEVICE Oscillating oscillating(f64 x) {
    if (is_infinite(x)) {
        return {nan<f64>(), nan<f64>(), nan<f64>(), nan<f64>()};
    }
    return x >= FAR ? hankel(x) : miller(x);
}

DEVICE f64 j0(f64 x) { return x == 0.0 ? 1.0 : is_nan(x) ? x : oscillating(abs(x)).j0; }
DEVICE f64 j1(f64 x) {
    if (x == 0.0 || is_nan(x)) {
        return x;
    }
    const f64 value = oscillating(abs(x)).j1;
    return x < 0.0 ? -value : value;
}
DEVICE f64 y0(f64 x) { return x == 0.0 ? neg_infinity<f64>() : x > 0.0 ? oscillating(x).y0 : nan<f64>(); }
DEVICE f64 y1(f64 x) { return x == 0.0 ? neg_infinity<f64>() : x > 0.0 ? oscillating(x).y1 : nan<f64>(); }

/// `sin(x) / x`
DEVICE f64 spherical_j0(f64 x) {
    if (is_infinite(x)) {
        return 0.0;
    }
    if (abs(x) < 0.5) {
        return sum(1.0, [=](f64 term, f64 k) { return -term * x * x / (2.0 * k * (2.0 * k + 1.0)); });
    }
    return libm::sin(x) / x;
}

/// Far on the oscillating side.
DEVICE f64 airy_far(f64 x) {
    const f64 reach = 2.0 / 3.0 * x * sqrt(x);
    f64 p = 1.0, q = 0.0, term = 1.0;
    for (i32 k = 1; k < 100; k++) {
        const f64 n = f64(k), next = term * (6.0 * n - 5.0) * (6.0 * n - 1.0) / (72.0 * n * reach);
        if (abs(next) < 1e-18 || abs(next) > abs(term)) {
            break;
        }
        term = next;
        switch (k % 4) {
        case 1: q += term; break;
        case 2: p -= term; break;
        case 3: q -= term; break;
        default: p += term;
        }
    }
    const f64 sine = libm::sin(reach), cosine = libm::cos(reach);
    const f64 ahead = (sine + cosine) * FRAC_1_SQRT_2, behind = (sine - cosine) * FRAC_1_SQRT_2;
    return (ahead * p + behind * q) / (sqrt(PI) * libm::powf(x, 0.25));
}

/// Airy's function of the first kind.
DEVICE f64 airy_ai(f64 x) {
    if (is_nan(x) || is_infinite(x)) {
        return nan<f64>();
    }
    if (x > 2.0) {
        const f64 reach = 2.0 / 3.0 * x * sqrt(x);
        return reach > 1e3 ? 0.0 : sqrt(x / 3.0) / PI * steed(1.0 / 3.0, reach).first * libm::exp(-reach);
    }
    if (x < -9.0) {
        return airy_far(-x);
    }
    // Steps of the differential equation y'' = x y, each a power series around where the last one ended.
    const f64 least = ceil(abs(x) * 2.0), steps = least > 1.0 ? least : 1.0, step = x / steps;
    // Value and slope at zero.
    f64 value = 0.3550280538878172, slope = -0.2588194037928068;
    for (i32 n = 0; n < i32(steps); n++) {
        const f64 at = step * f64(n);
        f64 c0 = value, c1 = slope, c2 = value * at / 2.0, power = step * step;
        f64 end = value + slope * step + c2 * power, rise = slope + 2.0 * c2 * step;
        for (i32 i = 3; i < 40; i++) {
            const f64 k = f64(i), following = (at * c1 + c0) / (k * (k - 1.0));
            c0 = c1, c1 = c2, c2 = following;
            rise += k * following * power;
            power *= step;
            end += following * power;
        }
        value = end, slope = rise;
    }
    return value;
}

} // namespace rushlight::bessel
