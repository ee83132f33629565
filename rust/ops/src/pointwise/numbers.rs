//! Arithmetic on single elements that Rust's own types lack: torch's integer arithmetic, complex functions.

use num_complex::Complex;
use rushlight_core::dtype::{c64, c128};

/// Integers with total operations: sums and products wrap, division by zero gives zero (the operators reject it
/// before).
pub trait Integer: Copy + PartialEq + PartialOrd {
    fn floor_div(self, other: Self) -> Self;
    fn trunc_div(self, other: Self) -> Self;
    /// The remainder with the divisor's sign.
    fn modulo(self, other: Self) -> Self;
    /// The remainder with the dividend's sign.
    fn rest(self, other: Self) -> Self;
    fn power(self, exponent: Self) -> Self;
    fn gcd(self, other: Self) -> Self;
    fn lcm(self, other: Self) -> Self;
    fn sign(self) -> Self;
    fn magnitude(self) -> Self;
    fn is_negative(self) -> bool;
    fn left(self, by: Self) -> Self;
    fn right(self, by: Self) -> Self;
}

macro_rules! integers {
    ($($type:ty, $unsigned:ty, $signed:literal;)*) => {$(
        impl Integer for $type {
            #[inline(always)]
            fn floor_div(self, other: $type) -> $type {
                if other == 0 { return 0 }
                let quotient = self.wrapping_div(other);
                let inexact = self.wrapping_rem(other) != 0;
                #[allow(unused_comparisons)]
                let opposite = (self < 0) != (other < 0);
                if inexact && opposite { quotient.wrapping_sub(1) } else { quotient }
            }
            #[inline(always)]
            fn trunc_div(self, other: $type) -> $type {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }
            #[inline(always)]
            fn modulo(self, other: $type) -> $type {
                if other == 0 { return 0 }
                let rest = self.wrapping_rem(other);
                #[allow(unused_comparisons)]
                let opposite = (rest < 0) != (other < 0);
                if rest != 0 && opposite { rest.wrapping_add(other) } else { rest }
            }
            #[inline(always)]
            fn rest(self, other: $type) -> $type {
                if other == 0 { 0 } else { self.wrapping_rem(other) }
            }
            #[inline(always)]
            fn power(self, exponent: $type) -> $type {
                #[allow(unused_comparisons)]
                if exponent < 0 {
                    // Only 1 and -1 have an inverse among integers.
                    let odd = exponent & 1 != 0;
                    return if self == 1 { 1 } else if self == (0 as $type).wrapping_sub(1) {
                        if odd { self } else { 1 }
                    } else { 0 };
                }
                let (mut base, mut left, mut product) = (self, exponent, 1 as $type);
                while left != 0 {
                    if left & 1 != 0 {
                        product = product.wrapping_mul(base);
                    }
                    base = base.wrapping_mul(base);
                    left >>= 1;
                }
                product
            }
            #[inline(always)]
            fn gcd(self, other: $type) -> $type {
                let (mut a, mut b) = (self.magnitude(), other.magnitude());
                while b != 0 {
                    (a, b) = (b, a.wrapping_rem(b).magnitude());
                }
                a
            }
            #[inline(always)]
            fn lcm(self, other: $type) -> $type {
                let divisor = self.gcd(other);
                if divisor == 0 { 0 } else { self.wrapping_div(divisor).wrapping_mul(other).magnitude() }
            }
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn sign(self) -> $type {
                if self > 0 { 1 } else if self < 0 { (0 as $type).wrapping_sub(1) } else { 0 }
            }
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn magnitude(self) -> $type {
                if self < 0 { self.wrapping_neg() } else { self }
            }
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn is_negative(self) -> bool {
                self < 0
            }
            #[inline(always)]
            fn left(self, by: $type) -> $type {
                // A shift by the width or more gives zero.
                if by as u64 >= <$type>::BITS as u64 { 0 } else { ((self as $unsigned) << by) as $type }
            }
            #[inline(always)]
            fn right(self, by: $type) -> $type {
                // A shift by the width or more leaves only the sign.
                if by as u64 >= <$type>::BITS as u64 {
                    if $signed { self >> (<$type>::BITS - 1) } else { 0 }
                } else {
                    self >> by
                }
            }
        }
    )*};
}

integers! {
    u8, u8, false; i8, u8, true; i16, u16, true; i32, u32, true; i64, u64, true;
    u16, u16, false; u32, u32, false; u64, u64, false;
}

/// Real division with torch's rounding.
pub trait Real: Copy {
    fn floor_div(self, other: Self) -> Self;
    fn modulo(self, other: Self) -> Self;
    fn sign(self) -> Self;
    /// Rounds halves to even.
    fn even(self) -> Self;
}

macro_rules! reals {
    ($($type:ty)*) => {$(
        impl Real for $type {
            #[inline(always)]
            fn floor_div(self, other: $type) -> $type {
                if other == 0.0 {
                    return self / other;
                }
                let rest = self % other;
                let mut quotient = (self - rest) / other;
                if rest != 0.0 && (other < 0.0) != (rest < 0.0) {
                    quotient -= 1.0;
                }
                if quotient == 0.0 {
                    return (0.0 as $type).copysign(self / other);
                }
                let floor = quotient.floor();
                if quotient - floor > 0.5 { floor + 1.0 } else { floor }
            }
            #[inline(always)]
            fn modulo(self, other: $type) -> $type {
                let rest = self % other;
                if rest != 0.0 && (other < 0.0) != (rest < 0.0) { rest + other } else { rest }
            }
            #[inline(always)]
            fn sign(self) -> $type {
                ((self > 0.0) as i8 - (self < 0.0) as i8) as $type
            }
            #[inline(always)]
            fn even(self) -> $type {
                self.round_ties_even()
            }
        }
    )*};
}

reals! { f32 f64 }

/// Conversion of complex numbers to double precision, in which all their functions are computed.
pub trait Analytic: Copy {
    fn wide(self) -> c128;
}

impl Analytic for c64 {
    #[inline(always)]
    fn wide(self) -> c128 {
        Complex::new(f64::from(self.re), f64::from(self.im))
    }
}

impl Analytic for c128 {
    #[inline(always)]
    fn wide(self) -> c128 {
        self
    }
}

/// Conversion back to the type of the loop.
pub trait Narrow<T> {
    fn narrow(self) -> T;
}

impl Narrow<c64> for c128 {
    #[inline(always)]
    fn narrow(self) -> c64 {
        Complex::new(self.re as f32, self.im as f32)
    }
}

impl Narrow<c128> for c128 {
    #[inline(always)]
    fn narrow(self) -> c128 {
        self
    }
}

/// Functions of a complex number that `num_complex` lacks or computes inaccurately.
pub trait ComplexMath {
    fn quotient(self, other: Self) -> Self;
    fn logarithm(self) -> Self;
    fn log1p(self) -> Self;
    fn logaddexp(self, other: Self) -> Self;
    fn root(self) -> Self;
    fn power(self, exponent: Self) -> Self;
    fn signum(self) -> Self;
}

/// `|z|^2 - 1` near the unit circle, accurate to the last digit: the squares with their rounding errors, the larger one
/// first, so that both differences are exact if they cancel.
fn beyond_one(z: c128) -> f64 {
    let (large, small) = if z.re.abs() >= z.im.abs() { (z.re, z.im) } else { (z.im, z.re) };
    let squares = (large * large, small * small);
    let rest = large.mul_add(large, -squares.0) + small.mul_add(small, -squares.1);
    (squares.0 - 1.0) + squares.1 + rest
}

impl ComplexMath for c128 {
    /// Smith's method: scaled by the divisor's larger part, so that no intermediate value overflows.
    #[inline]
    fn quotient(self, other: c128) -> c128 {
        let (a, b, c, d) = (self.re, self.im, other.re, other.im);
        if c.abs() >= d.abs() {
            if c == 0.0 && d == 0.0 {
                return Complex::new(a / c.abs(), b / d.abs());
            }
            let ratio = d / c;
            let scale = 1.0 / (c + d * ratio);
            Complex::new((a + b * ratio) * scale, (b - a * ratio) * scale)
        } else {
            let ratio = c / d;
            let scale = 1.0 / (c * ratio + d);
            Complex::new((a * ratio + b) * scale, (b * ratio - a) * scale)
        }
    }

    #[inline]
    fn logarithm(self) -> c128 {
        let size = self.re.hypot(self.im);
        let real = if (size - 1.0).abs() < 0.25 { 0.5 * beyond_one(self).ln_1p() } else { size.ln() };
        Complex::new(real, self.im.atan2(self.re))
    }

    #[inline]
    fn log1p(self) -> c128 {
        let near = self.re.abs() < 0.5 && self.im.abs() < 0.5;
        let real = if near {
            0.5 * (self.re * (2.0 + self.re) + self.im * self.im).ln_1p()
        } else {
            (1.0 + self.re).hypot(self.im).ln()
        };
        Complex::new(real, self.im.atan2(1.0 + self.re))
    }

    #[inline]
    fn logaddexp(self, other: c128) -> c128 {
        let (high, low) = if self.re >= other.re { (self, other) } else { (other, self) };
        if high.re.is_infinite() && high.re == low.re {
            return if high.re > 0.0 { high } else { (high.exp() + low.exp()).logarithm() };
        }
        high + (low - high).exp().log1p()
    }

    #[inline]
    fn root(self) -> c128 {
        if self.re == 0.0 && self.im == 0.0 {
            return Complex::new(0.0, self.im);
        }
        if self.im.is_infinite() {
            return Complex::new(f64::INFINITY, self.im);
        }
        if self.re.is_infinite() {
            let other = if self.im.is_nan() { f64::NAN } else { 0.0 };
            return if self.re > 0.0 {
                Complex::new(self.re, other.copysign(self.im))
            } else {
                Complex::new(other, f64::INFINITY.copysign(self.im))
            };
        }
        let half = ((self.re.abs() * 0.5) + (self.re * 0.5).hypot(self.im * 0.5)).sqrt();
        let other = self.im / (2.0 * half);
        if self.re >= 0.0 { Complex::new(half, other) } else { Complex::new(other.abs(), half.copysign(self.im)) }
    }

    #[inline]
    fn power(self, exponent: c128) -> c128 {
        if exponent.re == 0.0 && exponent.im == 0.0 {
            return Complex::new(1.0, 0.0);
        }
        if self.re == 0.0 && self.im == 0.0 {
            return if exponent.re > 0.0 || exponent.im == 0.0 && exponent.re >= 0.0 {
                Complex::new(0.0, 0.0)
            } else {
                (exponent * self.logarithm()).exp()
            };
        }
        if exponent.im == 0.0 && exponent.re.fract() == 0.0 && exponent.re.abs() <= 1024.0 {
            return self.powi(exponent.re as i32);
        }
        (exponent * self.logarithm()).exp()
    }

    #[inline]
    fn signum(self) -> c128 {
        let size = self.re.hypot(self.im);
        if size == 0.0 { Complex::new(0.0, 0.0) } else { Complex::new(self.re / size, self.im / size) }
    }
}

/// The Hurwitz zeta function: the sum of `(q + k)^-s`, its tail by Euler and Maclaurin.
pub fn zeta(s: f64, q: f64) -> f64 {
    /// `(2k)! / B(2k)`
    const TAIL: [f64; 12] = [
        12.0,
        -720.0,
        30240.0,
        -1209600.0,
        47900160.0,
        -1_307_674_368_000.0 / 691.0,
        74_724_249_600.0,
        -10_670_622_842_880_000.0 / 3617.0,
        5_109_094_217_170_944_000.0 / 43867.0,
        -802_857_662_698_291_200_000.0 / 174_611.0,
        14_101_100_039_391_805_440_000.0 / 77683.0,
        -1_693_824_136_731_743_669_452_800_000.0 / 236_364_091.0,
    ];
    /// Below this the terms are summed as two tails instead of one by one.
    const FAR: f64 = -64.0;
    if s == 1.0 {
        return f64::INFINITY;
    }
    if s < 1.0 {
        return f64::NAN;
    }
    if q <= 0.0 && q == q.floor() {
        return f64::INFINITY;
    }
    if s.is_nan() || q.is_nan() || (q <= 0.0 && s != s.floor()) {
        return f64::NAN;
    }
    if q < FAR {
        let rest = q - q.floor();
        let sign = if s % 2.0 == 0.0 { 1.0 } else { -1.0 };
        return zeta(s, rest) + sign * (zeta(s, 1.0 - rest) - zeta(s, 1.0 - q));
    }
    let mut sum = 0.0;
    let mut at = q;
    let mut term = at.powf(-s);
    let mut taken = 0;
    while taken < 10 || at <= 9.0 {
        sum += term;
        at += 1.0;
        term = at.powf(-s);
        taken += 1;
        if (term / sum).abs() < f64::EPSILON * 0.5 {
            return sum;
        }
    }
    sum += term * at / (s - 1.0) + 0.5 * term;
    let mut factor = 1.0;
    let mut rising = 0.0;
    for divisor in TAIL {
        factor *= s + rising;
        term /= at;
        let part = factor * term / divisor;
        sum += part;
        if (part / sum).abs() < f64::EPSILON * 0.5 {
            break;
        }
        rising += 1.0;
        factor *= s + rising;
        term /= at;
        rising += 1.0;
    }
    sum
}

/// The `n`-th derivative of digamma (the factorial is infinite above 170), for n >= 1 and x where the zeta function is
/// defined.
pub fn polygamma(n: f64, x: f64) -> f64 {
    let factorial = (1..=n.min(171.0) as u32).fold(1.0, |product, k| product * f64::from(k));
    let sign = if n % 2.0 == 0.0 { -1.0 } else { 1.0 };
    sign * factorial * zeta(n + 1.0, x)
}
