//! Complex functions with the values of C99 (annex G) at infinities, NaN and signed zeros, and with both parts
//! accurate: no intermediate value overflows or cancels unnecessarily.

use std::f64::consts::{FRAC_PI_2, LN_2, PI};

use num_complex::Complex;
use rushlight_core::dtype::c128;

use super::numbers::ComplexMath;

/// Above this the exponential is computed as a product of two roots, so that a small factor is not lost.
const FAR: f64 = 700.0;

/// `i z`, which converts trigonometric functions to hyperbolic ones.
fn turned(z: c128) -> c128 {
    Complex::new(-z.im, z.re)
}

fn turned_back(z: c128) -> c128 {
    Complex::new(z.im, -z.re)
}

/// `exp(x) * factor`, infinite only if the product is.
fn swollen(x: f64, factor: f64) -> f64 {
    let root = (0.5 * x).exp();
    root * factor * root
}

pub fn exp(z: c128) -> c128 {
    let (x, y) = (z.re, z.im);
    if y == 0.0 {
        return Complex::new(x.exp(), y);
    }
    if !y.is_finite() {
        return match x {
            f64::NEG_INFINITY => Complex::new(0.0, 0.0),
            f64::INFINITY => Complex::new(f64::INFINITY, f64::NAN),
            _ => Complex::new(f64::NAN, f64::NAN),
        };
    }
    let (sin, cos) = y.sin_cos();
    if x > FAR {
        return Complex::new(swollen(x, cos), swollen(x, sin));
    }
    let size = x.exp();
    Complex::new(size * cos, size * sin)
}

/// `1 / (1 + exp(-z))`, with the exponential that does not grow.
pub fn sigmoid(z: c128) -> c128 {
    if z.re < 0.0 {
        let small = exp(z);
        return small.quotient(small + 1.0);
    }
    Complex::new(1.0, 0.0).quotient(exp(-z) + 1.0)
}

pub fn sinh(z: c128) -> c128 {
    let (x, y) = (z.re, z.im);
    if y == 0.0 {
        return Complex::new(x.sinh(), y);
    }
    if !y.is_finite() {
        return Complex::new(if x == 0.0 || x.is_infinite() { x } else { f64::NAN }, f64::NAN);
    }
    let (sin, cos) = y.sin_cos();
    if x.abs() > FAR {
        return Complex::new(swollen(x.abs(), 0.5 * cos).copysign(cos * x), swollen(x.abs(), 0.5 * sin));
    }
    Complex::new(x.sinh() * cos, x.cosh() * sin)
}

pub fn cosh(z: c128) -> c128 {
    let (x, y) = (z.re, z.im);
    if y == 0.0 {
        return Complex::new(x.cosh(), if x.is_nan() { y } else { 0f64.copysign(x) * 1f64.copysign(y) });
    }
    if !y.is_finite() {
        let real = if x.is_infinite() { f64::INFINITY } else { f64::NAN };
        return Complex::new(real, if x == 0.0 { 0.0 } else { f64::NAN });
    }
    let (sin, cos) = y.sin_cos();
    if x.abs() > FAR {
        return Complex::new(swollen(x.abs(), 0.5 * cos), swollen(x.abs(), 0.5 * sin).copysign(sin * x));
    }
    Complex::new(x.cosh() * cos, x.sinh() * sin)
}

pub fn tanh(z: c128) -> c128 {
    let (x, y) = (z.re, z.im);
    if y == 0.0 {
        return Complex::new(x.tanh(), y);
    }
    if x.is_infinite() && !y.is_finite() {
        return Complex::new(1f64.copysign(x), 0f64.copysign(y));
    }
    if !y.is_finite() {
        return Complex::new(if x == 0.0 { x } else { f64::NAN }, f64::NAN);
    }
    let (sin, cos) = y.sin_cos();
    let size = x.abs();
    if size > 20.0 {
        // exp(-2|x|) is negligible compared with one.
        return Complex::new(1f64.copysign(x), 4.0 * sin * cos * (-2.0 * size).exp());
    }
    // Half the difference and half the sum of exp(|x|) and exp(-|x|), the first exact near zero.
    let grown = size.exp_m1();
    let shrunk = -grown / (grown + 1.0);
    let (odd, even) = (0.5 * (grown - shrunk), 0.5 * (grown + shrunk) + 1.0);
    let scale = 1.0 / (odd * odd + cos * cos);
    Complex::new((odd * even * scale).copysign(x), sin * cos * scale)
}

pub fn expm1(z: c128) -> c128 {
    let (x, y) = (z.re, z.im);
    if y == 0.0 {
        return Complex::new(x.exp_m1(), y);
    }
    if !y.is_finite() {
        return match x {
            f64::NEG_INFINITY => Complex::new(-1.0, 0.0),
            f64::INFINITY => Complex::new(f64::INFINITY, f64::NAN),
            _ => Complex::new(f64::NAN, f64::NAN),
        };
    }
    let (sin, cos) = y.sin_cos();
    if x > FAR {
        return Complex::new(swollen(x, cos), swollen(x, sin));
    }
    let real = if x.abs() < 1.0 {
        let half = (0.5 * y).sin();
        x.exp_m1() * cos - 2.0 * half * half
    } else {
        x.exp() * cos - 1.0
    };
    Complex::new(real, x.exp() * sin)
}

pub fn sin(z: c128) -> c128 {
    turned_back(sinh(turned(z)))
}

pub fn cos(z: c128) -> c128 {
    cosh(turned(z))
}

pub fn tan(z: c128) -> c128 {
    turned_back(tanh(turned(z)))
}

/// The parts of the inverse sine and cosine of a number in the first quadrant.
struct Arcs {
    /// The real part of the inverse sine.
    sine: f64,
    /// The real part of the inverse cosine.
    cosine: f64,
    /// The magnitude of the imaginary parts of both.
    height: f64,
}

/// After Hull, Fairgrieve and Tang (1997): `|z + 1|` and `|z - 1|`, with cancelling expressions rewritten.
fn arcs(x: f64, y: f64) -> Arcs {
    if x.max(y) > 1e150 {
        let length = (0.25 * x).hypot(0.25 * y);
        return Arcs { sine: x.atan2(y), cosine: y.atan2(x), height: length.ln() + 3.0 * LN_2 };
    }
    let (right, left) = ((x + 1.0).hypot(y), (x - 1.0).hypot(y));
    let mean = 0.5 * (right + left);
    let ratio = x / mean;
    let (sine, cosine) = if ratio <= 0.64 {
        (ratio.asin(), ratio.acos())
    } else {
        // The root of `mean^2 - x^2`.
        let reach = 0.5 * (mean + x);
        let root = if x <= 1.0 {
            (reach * (y * y / (right + x + 1.0) + (left + (1.0 - x)))).sqrt()
        } else {
            y * (reach / (right + x + 1.0) + reach / (left + (x - 1.0))).sqrt()
        };
        (x.atan2(root), root.atan2(x))
    };
    let height = if x < 1.0 && y <= f64::EPSILON * (1.0 - x) {
        y / ((1.0 - x) * (1.0 + x)).sqrt()
    } else if mean <= 1.5 {
        let other = if x < 1.0 { y * y / (left + (1.0 - x)) } else { left + (x - 1.0) };
        let above = 0.5 * (y * y / (right + x + 1.0) + other);
        (above + (above * (mean + 1.0)).sqrt()).ln_1p()
    } else {
        (mean + (mean * mean - 1.0).sqrt()).ln()
    };
    Arcs { sine, cosine, height }
}

pub fn asin(z: c128) -> c128 {
    let (x, y) = (z.re, z.im);
    if x.is_nan() || y.is_nan() {
        let imaginary = if y.is_infinite() {
            y
        } else if x.is_infinite() {
            x
        } else {
            f64::NAN
        };
        return Complex::new(if x == 0.0 { x } else { f64::NAN }, imaginary);
    }
    if x.is_infinite() || y.is_infinite() {
        return Complex::new(x.abs().atan2(y.abs()).copysign(x), f64::INFINITY.copysign(y));
    }
    let Arcs { sine, height, .. } = arcs(x.abs(), y.abs());
    Complex::new(sine.copysign(x), height.copysign(y))
}

pub fn acos(z: c128) -> c128 {
    let (x, y) = (z.re, z.im);
    if x.is_nan() || y.is_nan() {
        let imaginary = if y.is_infinite() {
            -y
        } else if x.is_infinite() {
            f64::NEG_INFINITY
        } else {
            f64::NAN
        };
        return Complex::new(if x == 0.0 { FRAC_PI_2 } else { f64::NAN }, imaginary);
    }
    if x.is_infinite() || y.is_infinite() {
        return Complex::new(y.abs().atan2(x), -f64::INFINITY.copysign(y));
    }
    let Arcs { cosine, height, .. } = arcs(x.abs(), y.abs());
    Complex::new(if x.is_sign_negative() { PI - cosine } else { cosine }, -height.copysign(y))
}

pub fn asinh(z: c128) -> c128 {
    turned_back(asin(turned(z)))
}

pub fn acosh(z: c128) -> c128 {
    let arc = acos(z);
    Complex::new(arc.im.abs(), arc.re.copysign(z.im))
}

pub fn atanh(z: c128) -> c128 {
    /// Above this one is negligible compared with the number.
    const LARGE: f64 = 1e16;
    let (x, y) = (z.re.abs(), z.im.abs());
    let (real, imaginary) = if x.is_nan() || y.is_nan() {
        let real = if x == 0.0 || x.is_infinite() || y.is_infinite() { 0.0 } else { f64::NAN };
        (real, if y.is_infinite() { FRAC_PI_2 } else { f64::NAN })
    } else if x.max(y) > LARGE {
        // The real part equals that of the inverse of the number.
        let real = if x.is_infinite() || y.is_infinite() {
            0.0
        } else if x >= y {
            let ratio = y / x;
            1.0 / x / (1.0 + ratio * ratio)
        } else {
            let ratio = x / y;
            ratio / y / (1.0 + ratio * ratio)
        };
        (real, FRAC_PI_2)
    } else if x == 1.0 && y < f64::EPSILON {
        (0.5 * (LN_2 - y.ln()), if y == 0.0 { 0.0 } else { 0.5 * 2f64.atan2(-y) })
    } else {
        let beside = x - 1.0;
        let real = 0.25 * (4.0 * x / (beside * beside + y * y)).ln_1p();
        (real, 0.5 * (2.0 * y).atan2((1.0 - x) * (1.0 + x) - y * y))
    };
    Complex::new(real.copysign(z.re), imaginary.copysign(z.im))
}

pub fn atan(z: c128) -> c128 {
    turned_back(atanh(turned(z)))
}
