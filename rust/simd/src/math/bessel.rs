//! Bessel functions of orders zero and one, and Airy's function, in double precision.
//!
//! Power series are used if all terms are positive; downward recurrence and a continued fraction if terms would cancel;
//! and for large arguments Hankel's asymptotic series, which stop when their terms no longer shrink. Each region ends
//! where the next one has reached full precision.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI, PI};

/// Euler's constant.
const EULER: f64 = 0.577_215_664_901_532_9;

/// Above this the asymptotic series of the oscillating functions have full precision.
const FAR: f64 = 25.0;
/// The same for the exponentially growing ones.
const FAR_GROWING: f64 = 30.0;

/// The sum of terms, each computed from the previous one, until they are negligible or no longer shrink.
fn sum(first: f64, next: impl Fn(f64, f64) -> f64) -> f64 {
    let (mut total, mut term) = (first, first);
    for k in 1..500 {
        let following = next(term, f64::from(k));
        if following.abs() > term.abs() && term.abs() < total.abs() {
            break;
        }
        total += following;
        if following.abs() <= total.abs() * 1e-18 {
            break;
        }
        term = following;
    }
    total
}

/// The exponentially growing function of an order, times `exp(-|x|)`.
fn growing(order: i32, x: f64) -> f64 {
    let size = x.abs();
    let nu = f64::from(order);
    let value = if size <= FAR_GROWING {
        let quarter = size * size / 4.0;
        let first = if order == 0 { 1.0 } else { size / 2.0 };
        let mut total = first;
        let mut term = first;
        let mut k = 1.0;
        while term > total * 1e-18 {
            term *= quarter / (k * (k + nu));
            total += term;
            k += 1.0;
        }
        total * (-size).exp()
    } else if size.is_infinite() {
        0.0
    } else {
        let square = 4.0 * nu * nu;
        let series = sum(1.0, |term, k| -term * (square - (2.0 * k - 1.0).powi(2)) / (8.0 * size * k));
        // The product overflows for the largest numbers.
        if size < f64::MAX / 8.0 { series / (2.0 * PI * size).sqrt() } else { series / (2.0 * PI).sqrt() / size.sqrt() }
    };
    if order == 1 && x < 0.0 { -value } else { value }
}

pub fn i0e(x: f64) -> f64 {
    if x.is_nan() { x } else { growing(0, x) }
}

pub fn i1e(x: f64) -> f64 {
    if x.is_nan() { x } else { growing(1, x) }
}

pub fn i0(x: f64) -> f64 {
    grown(i0e(x), x)
}

pub fn i1(x: f64) -> f64 {
    grown(i1e(x), x)
}

/// Removes the scale in two steps, so that only the result overflows; NaN at infinity, as in torch.
fn grown(scaled: f64, x: f64) -> f64 {
    let half = (x.abs() / 2.0).exp();
    // The scaled function of a very large number may be zero, but not the product.
    if x.is_finite() && half == f64::INFINITY {
        return f64::INFINITY.copysign(scaled);
    }
    scaled * half * half
}

/// The decaying functions of orders zero and one, times `exp(x)`.
fn decaying(x: f64) -> (f64, f64) {
    if x.is_nan() || x < 0.0 {
        return (f64::NAN, f64::NAN);
    }
    if x == 0.0 {
        return (f64::INFINITY, f64::INFINITY);
    }
    if x > 2.0 {
        return steed(0.0, x);
    }
    let (quarter, log) = (x * x / 4.0, (x / 2.0).ln());
    // `harmonic` is 1 + 1/2 + .. + 1/k, which gives digamma at integers.
    let (mut even, mut odd, mut harmonic) = (1.0, 1.0, 0.0);
    let (mut zeroth, mut first) = (-(log + EULER), log + EULER - 0.5);
    for k in 1..40 {
        let k = f64::from(k);
        even *= quarter / (k * k);
        odd *= quarter / (k * (k + 1.0));
        harmonic += 1.0 / k;
        zeroth += even * (harmonic - log - EULER);
        first += odd * (log + EULER - harmonic - 0.5 / (k + 1.0));
    }
    let scale = x.exp();
    (zeroth * scale, (1.0 / x + first * x / 2.0) * scale)
}

/// Temme's continued fraction for the decaying function of order `nu` and the next one, times `exp(x)`.
fn steed(nu: f64, x: f64) -> (f64, f64) {
    if x.is_infinite() {
        return (0.0, 0.0);
    }
    let start = 0.25 - nu * nu;
    let mut b = 2.0 * (1.0 + x);
    let mut d = 1.0 / b;
    let (mut step, mut h) = (d, d);
    let (mut before, mut now) = (0.0, 1.0);
    let (mut q, mut c, mut a) = (start, start, -start);
    let mut total = 1.0 + q * step;
    for i in 2..10_000 {
        let i = f64::from(i);
        a -= 2.0 * (i - 1.0);
        c *= -a / i;
        let next = (before - b * now) / a;
        (before, now) = (now, next);
        q += c * next;
        b += 2.0;
        d = 1.0 / (b + a * d);
        step *= b * d - 1.0;
        h += step;
        let part = q * step;
        total += part;
        if part.abs() < total.abs() * 1e-17 {
            break;
        }
    }
    let value = (PI / (2.0 * x)).sqrt() / total;
    (value, value * (nu + x + 0.5 - start * h) / x)
}

pub fn k0e(x: f64) -> f64 {
    decaying(x).0
}

pub fn k1e(x: f64) -> f64 {
    decaying(x).1
}

pub fn k0(x: f64) -> f64 {
    decayed(k0e(x), x)
}

pub fn k1(x: f64) -> f64 {
    decayed(k1e(x), x)
}

fn decayed(scaled: f64, x: f64) -> f64 {
    if x == f64::INFINITY { 0.0 } else { scaled * (-x).exp() }
}

/// J0, J1, Y0 and Y1 of a positive number; NaN for infinity, as in torch.
fn oscillating(x: f64) -> [f64; 4] {
    if x.is_infinite() {
        return [f64::NAN; 4];
    }
    if x >= FAR { hankel(x) } else { miller(x) }
}

fn hankel(x: f64) -> [f64; 4] {
    let (sine, cosine) = x.sin_cos();
    let amplitude = (FRAC_2_PI / x).sqrt();
    let of_order = |nu: f64, cos: f64, sin: f64| {
        let (mut p, mut q, mut term) = (1.0, 0.0, 1.0f64);
        for k in 1..200 {
            let odd = f64::from(2 * k - 1);
            let next = term * (4.0 * nu * nu - odd * odd) / (8.0 * f64::from(k) * x);
            if next.abs() < 1e-18 || next.abs() > term.abs() {
                break;
            }
            term = next;
            match k % 4 {
                1 => q += term,
                2 => p -= term,
                3 => q -= term,
                _ => p += term,
            }
        }
        (amplitude * (p * cos - q * sin), amplitude * (p * sin + q * cos))
    };
    // cos and sin of x - pi/4 and of x - 3 pi/4.
    let (ahead, behind) = ((sine + cosine) * FRAC_1_SQRT_2, (sine - cosine) * FRAC_1_SQRT_2);
    let (j0, y0) = of_order(0.0, ahead, behind);
    let (j1, y1) = of_order(1.0, behind, -ahead);
    [j0, j1, y0, y1]
}

/// All orders by downward recurrence from an order whose value is negligible; Neumann's series give Y0 and Y1.
fn miller(x: f64) -> [f64; 4] {
    if x < 1e-8 {
        let log = (x / 2.0).ln() + EULER;
        return [1.0, x / 2.0, FRAC_2_PI * log, -FRAC_2_PI / x];
    }
    let top = 2 * ((x as i32 + 40) / 2);
    let (mut above, mut now) = (0.0, 1e-250);
    let (mut norm, mut evens, mut odds) = (0.0, 0.0, 0.0);
    let mut n = top;
    // `now` is the function of order n.
    while n > 0 {
        if n % 2 == 0 {
            let half = n / 2;
            norm += 2.0 * now;
            evens += if half % 2 == 0 { now } else { -now } / f64::from(half);
        } else if n > 1 {
            let half = n / 2;
            let part = now * f64::from(n) / f64::from(half * (half + 1));
            odds += if half % 2 == 0 { part } else { -part };
        }
        let below = 2.0 * f64::from(n) / x * now - above;
        (above, now) = (now, below);
        n -= 1;
        if now.abs() > 1e200 {
            for value in [&mut above, &mut now, &mut norm, &mut evens, &mut odds] {
                *value *= 1e-200;
            }
        }
    }
    norm += now;
    let (j0, j1) = (now / norm, above / norm);
    let log = (x / 2.0).ln();
    let y0 = FRAC_2_PI * ((log + EULER) * j0 - 2.0 * evens / norm);
    let y1 = FRAC_2_PI * ((log + EULER - 1.0) * j1 - j0 / x - odds / norm);
    [j0, j1, y0, y1]
}

pub fn j0(x: f64) -> f64 {
    if x == 0.0 {
        1.0
    } else if x.is_nan() {
        x
    } else {
        oscillating(x.abs())[0]
    }
}

pub fn j1(x: f64) -> f64 {
    if x == 0.0 || x.is_nan() {
        return x;
    }
    let value = oscillating(x.abs())[1];
    if x < 0.0 { -value } else { value }
}

pub fn y0(x: f64) -> f64 {
    second(x, 2)
}

pub fn y1(x: f64) -> f64 {
    second(x, 3)
}

fn second(x: f64, place: usize) -> f64 {
    if x == 0.0 {
        f64::NEG_INFINITY
    } else if x > 0.0 {
        oscillating(x)[place]
    } else {
        f64::NAN
    }
}

/// The spherical function of order zero, `sin(x) / x`.
pub fn spherical_j0(x: f64) -> f64 {
    if x.is_infinite() {
        0.0
    } else if x.abs() < 0.5 {
        sum(1.0, |term, k| -term * x * x / (2.0 * k * (2.0 * k + 1.0)))
    } else {
        x.sin() / x
    }
}

/// Airy's function of the first kind.
pub fn airy_ai(x: f64) -> f64 {
    /// Its value and slope at zero.
    const START: (f64, f64) = (0.355_028_053_887_817_2, -0.258_819_403_792_806_8);
    if x.is_nan() || x.is_infinite() {
        return f64::NAN;
    }
    if x > 2.0 {
        let reach = 2.0 / 3.0 * x * x.sqrt();
        return if reach > 1e3 { 0.0 } else { (x / 3.0).sqrt() / PI * steed(1.0 / 3.0, reach).0 * (-reach).exp() };
    }
    if x < -9.0 {
        return airy_far(-x);
    }
    // Steps of the differential equation y'' = x y, each a power series around the end of the previous step.
    let steps = (x.abs() * 2.0).ceil().max(1.0);
    let step = x / steps;
    let (mut value, mut slope) = START;
    for n in 0..steps as i32 {
        let at = step * f64::from(n);
        let mut c = [value, slope, value * at / 2.0];
        let mut power = step * step;
        let mut next = (value + slope * step + c[2] * power, slope + 2.0 * c[2] * step);
        for k in 3..40 {
            let k = f64::from(k);
            let following = (at * c[1] + c[0]) / (k * (k - 1.0));
            c = [c[1], c[2], following];
            next.1 += k * following * power;
            power *= step;
            next.0 += following * power;
        }
        (value, slope) = next;
    }
    value
}

/// Large negative arguments, where the function oscillates.
fn airy_far(x: f64) -> f64 {
    let reach = 2.0 / 3.0 * x * x.sqrt();
    let (mut p, mut q, mut term) = (1.0, 0.0, 1.0f64);
    for k in 1..100 {
        let n = f64::from(k);
        let next = term * (6.0 * n - 5.0) * (6.0 * n - 1.0) / (72.0 * n * reach);
        if next.abs() < 1e-18 || next.abs() > term.abs() {
            break;
        }
        term = next;
        match k % 4 {
            1 => q += term,
            2 => p -= term,
            3 => q -= term,
            _ => p += term,
        }
    }
    let (sine, cosine) = reach.sin_cos();
    let (ahead, behind) = ((sine + cosine) * FRAC_1_SQRT_2, (sine - cosine) * FRAC_1_SQRT_2);
    // cos and sin of reach - pi/4.
    (ahead * p + behind * q) / (PI.sqrt() * x.powf(0.25))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, wanted: f64) {
        assert!((value - wanted).abs() <= 4e-15 * wanted.abs().max(0.05), "{value} is not {wanted}");
    }

    #[test]
    fn the_wronskians_hold() {
        for n in 1..400 {
            let x = f64::from(n) * 0.17;
            let [j0, j1, y0, y1] = oscillating(x);
            near((j1 * y0 - j0 * y1) * x, FRAC_2_PI);
            near((i0e(x) * k1e(x) + i1e(x) * k0e(x)) * x, 1.0);
        }
    }

    #[test]
    fn values_are_known() {
        near(j0(1.0), 0.765_197_686_557_966_6);
        near(j1(-1.0), -0.440_050_585_744_933_5);
        near(y0(1.0), 0.088_256_964_215_676_96);
        near(y1(1.0), -0.781_212_821_300_288_7);
        near(i0(1.0), 1.266_065_877_752_008_3);
        near(i1(1.0), 0.565_159_103_992_485);
        near(k0(1.0), 0.421_024_438_240_708_34);
        near(k1(1.0), 0.601_907_230_197_234_6);
        near(airy_ai(1.0), 0.135_292_416_312_881_42);
        near(airy_ai(-2.0), 0.227_407_428_201_685_57);
        near(airy_ai(5.0), 1.083_444_281_360_744_2e-4);
        near(spherical_j0(0.3), 0.985_067_355_537_798_7);
    }

    #[test]
    fn regions_meet() {
        let kinds: [fn(f64) -> f64; 3] = [j0, y1, airy_ai];
        for (f, edge) in kinds.into_iter().zip([FAR, FAR, -9.0]).chain([
            (i0e as _, FAR_GROWING),
            (k1 as _, 2.0),
            (airy_ai as _, 2.0),
        ]) {
            let (below, above) = (f(edge * (1.0 - 1e-15)), f(edge * (1.0 + 1e-15)));
            assert!((below - above).abs() < 3e-14, "{below} beside {above} at {edge}");
        }
    }
}
