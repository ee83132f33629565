//! Sine, cosine, tangent.
//!
//! x = k pi/2 + r with |r| <= pi/4; k modulo 4 decides which of sin r, cos r is the result and its sign. Up to |x| =
//! [`NEAR`] subtracting k times pi/2 in four exact parts gives r to more than 53 bits, without a branch. Above,
//! [`reduce_far`] multiplies x by the right window of the bits of 2/pi (Payne and Hanek), in integers: slow, exact, and
//! not vectorisable. The `*_near` functions are for loops that have checked their arguments first, as those in
//! [`slices`](super::slices) do.

use super::Isa;
use super::float::*;
use super::tables::*;

/// The `*_near` functions are accurate up to this magnitude: k has 20 bits, so its products with the parts are exact.
pub const NEAR: f64 = 1e6;

/// An argument of a sine: quadrant in the two low bits, and r + c in [-pi/4, pi/4] (a little more at the ends).
#[derive(Clone, Copy)]
pub struct Reduced {
    quadrant: u64,
    r: f64,
    c: f64,
}

#[inline(always)]
fn reduce_near<S: Isa>(x: f64) -> Reduced {
    let shifted = S::mul_add(x, std::f64::consts::FRAC_2_PI, ROUND64);
    let k = shifted - ROUND64;
    let r0 = S::mul_add(-k, PIO2_PARTS[0], x);
    let (r1, e1) = two_sum(r0, -(k * PIO2_PARTS[1]));
    let (r2, e2) = two_sum(r1, -(k * PIO2_PARTS[2]));
    let (r, c) = fast_two_sum(r2, e1 + S::mul_add(-k, PIO2_PARTS[3], e2));
    Reduced { quadrant: shifted.to_bits(), r, c }
}

/// The same in single precision. x - k P0 is exact, because both are multiples of one unit and their difference is
/// below 1; the rounding error of subtracting k P1 is exact too.
#[inline(always)]
fn reduce_fused_32<S: Isa>(x: f32) -> (u32, f32, f32) {
    let shifted = S::mul_add(x, std::f32::consts::FRAC_2_PI, ROUND32);
    let k = shifted - ROUND32;
    let r0 = S::mul_add(-k, PIO2_PARTS_32[0], x);
    let next = k * PIO2_PARTS_32[1];
    let next_lo = S::mul_add(k, PIO2_PARTS_32[1], -next);
    let r = r0 - next;
    let c = S::mul_add(-k, PIO2_PARTS_32[2], ((r0 - r) - next) - next_lo);
    (shifted.to_bits(), r, c)
}

/// sin(r + c) and cos(r + c).
#[inline(always)]
fn sin_cos_fused_32<S: Isa>(r: f32, c: f32) -> (f32, f32) {
    let z = r * r;
    let half = 0.5 * z;
    let sin = r + S::mul_add(z * r, poly32::<S>(z, &SIN32), S::mul_add(-half, c, c));
    let w = 1.0 - half;
    let tail = S::mul_add(z * z, poly32::<S>(z, &COS32), -(r * c));
    (sin, w + (((1.0 - w) - half) + tail))
}

/// In double precision, without a fused multiply-add, two parts are enough: r needs 30 bits after a cancellation of at most 40.
#[inline(always)]
fn reduce_near_32<S: Isa>(x: f64) -> (u64, f64) {
    let shifted = S::mul_add(x, std::f64::consts::FRAC_2_PI, ROUND64);
    let k = shifted - ROUND64;
    let r = S::mul_add(-k, PIO2_PARTS[1], S::mul_add(-k, PIO2_PARTS[0], x));
    (shifted.to_bits(), S::mul_add(-k, PIO2_PARTS[2], r))
}

/// Any finite x with |x| >= 1; exact to 110 bits.
#[cold]
#[inline(never)]
fn reduce_far(x: f64) -> Reduced {
    let bits = x.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as usize;
    if exponent == 0x7ff {
        return Reduced { quadrant: 0, r: f64::NAN, c: 0.0 };
    }
    let mantissa = (bits & 0x000f_ffff_ffff_ffff | 1 << 52) as u128;
    // |x| = mantissa 2^e with e = exponent - 1075. Bit i of 2/pi weighs 2^-i, so those with i <= e - 2 give multiples of
    // 4 and are skipped; the table's zeros (bits -63 ..= 0) serve a negative e.
    let start = exponent + 62 - 1075;
    let (word, shift) = (start / 64, start % 64);
    let window = |i: usize| {
        let pair = (TWO_OVER_PI[word + i] as u128) << 64 | TWO_OVER_PI[word + i + 1] as u128;
        (pair << shift >> 64) as u64 as u128
    };
    // The product's low 192 bits, whose first two are the quadrant.
    let low = mantissa * window(2);
    let mid = mantissa * window(1) + (low >> 64);
    let high = (mantissa * window(0) + (mid >> 64)) as u64;
    let quadrant = high >> 62;
    let top = ((high as u128) << 64 | mid as u64 as u128) << 2 | (low as u64 >> 62) as u128;
    let rest = (low as u64) << 2;
    // The fraction as a signed number in [-1/2, 1/2), so that r is small.
    let negative = top >> 127 == 1;
    let (top, rest) = match negative {
        true => (!top, !rest),
        false => (top, rest),
    };
    let zeros = top.leading_zeros();
    let digits = if zeros == 0 { top } else { top << zeros | rest as u128 >> (64 - zeros.min(64)) };
    let hi = (digits >> 75) as f64 * 2f64.powi(75 - 128);
    let lo = (digits & ((1 << 75) - 1)) as f64 * 2f64.powi(-128);
    let unit = 2f64.powi(-(zeros as i32));
    let (hi, lo) = (hi * unit, lo * unit);
    let (r, e) = two_prod::<super::super::Base>(hi, PIO2_HI);
    let (r, c) = fast_two_sum(r, e + (hi * PIO2_LO + lo * PIO2_HI));
    let sign = if negative != (x < 0.0) { -1.0 } else { 1.0 };
    let quadrant = quadrant + negative as u64;
    Reduced { quadrant: if x < 0.0 { quadrant.wrapping_neg() } else { quadrant }, r: r * sign, c: c * sign }
}

/// sin(r + c) and cos(r + c).
#[inline(always)]
fn sin_cos<S: Isa>(r: f64, c: f64) -> (f64, f64) {
    let z = r * r;
    let cube = z * r;
    let sin = r + S::mul_add(cube, poly::<S>(z, &SIN64), S::mul_add(-0.5 * z, c, c));
    let half = 0.5 * z;
    let w = 1.0 - half;
    let tail = S::mul_add(z * z, poly::<S>(z, &COS64), -(r * c));
    (sin, w + (((1.0 - w) - half) + tail))
}

/// Selects value and sign: `quadrant` 0 gives `a`, 1 `b`, 2 `-a`, 3 `-b`.
#[inline(always)]
fn turn(quadrant: u64, a: f64, b: f64) -> f64 {
    let value = if quadrant & 1 == 0 { a } else { b };
    f64::from_bits(value.to_bits() ^ (quadrant & 2) << 62)
}

#[inline(always)]
fn sin_of<S: Isa>(a: Reduced) -> f64 {
    let (s, c) = sin_cos::<S>(a.r, a.c);
    turn(a.quadrant, s, c)
}

#[inline(always)]
fn cos_of<S: Isa>(a: Reduced) -> f64 {
    let (s, c) = sin_cos::<S>(a.r, a.c);
    turn(a.quadrant.wrapping_add(1), s, c)
}

#[inline(always)]
fn tan_of<S: Isa>(a: Reduced) -> f64 {
    let (s, c) = sin_cos::<S>(a.r, a.c);
    quotient(a.quadrant & 1 == 1, s, c)
}

/// [`turn`] in single precision.
#[inline(always)]
fn turn_32(quadrant: u32, a: f32, b: f32) -> f32 {
    let value = if quadrant & 1 == 0 { a } else { b };
    f32::from_bits(value.to_bits() ^ (quadrant & 2) << 30)
}

/// tan from sin and cos: -cos / sin in odd quadrants.
#[inline(always)]
fn quotient(odd: bool, s: f64, c: f64) -> f64 {
    let (top, bottom) = (if odd { -c } else { s }, if odd { s } else { c });
    top / bottom
}

/// sin r and cos r to 40 bits.
#[inline(always)]
fn sin_cos_32<S: Isa>(r: f64) -> (f64, f64) {
    let z = r * r;
    let sin = S::mul_add(z * r, poly::<S>(z, &SIN40), r);
    let cos = S::mul_add(z * z, poly::<S>(z, &COS40), S::mul_add(-0.5, z, 1.0));
    (sin, cos)
}

/// A function of all arguments and one for small arguments, in both precisions; a zero argument keeps its sign. The
/// last choice is for processors with FMA, where single precision needs no double precision.
macro_rules! periodic {
    ($name:ident $near:ident $name_32:ident $near_32:ident $of:ident, |$x:ident| $zero:expr, |$q:ident, $s:ident, $c:ident| $single:expr, $fused:expr) => {
        #[inline(always)]
        pub fn $near<S: Isa>($x: f64) -> f64 {
            let y = $of::<S>(reduce_near::<S>($x));
            if $x == 0.0 { $zero } else { y }
        }

        #[inline(always)]
        pub fn $name<S: Isa>(x: f64) -> f64 {
            if x.abs() > NEAR { $of::<S>(reduce_far(x)) } else { $near::<S>(x) }
        }

        #[inline(always)]
        pub fn $near_32<S: Isa>($x: f32) -> f32 {
            let fused: Option<fn(u32, f32, f32) -> f32> = $fused;
            let y = if let (Some(choose), true) = (fused, S::FMA) {
                let (quadrant, r, c) = reduce_fused_32::<S>($x);
                let (sin, cos) = sin_cos_fused_32::<S>(r, c);
                choose(quadrant, sin, cos)
            } else {
                let ($q, r) = reduce_near_32::<S>($x as f64);
                let ($s, $c) = sin_cos_32::<S>(r);
                ($single) as f32
            };
            if $x == 0.0 { $zero } else { y }
        }

        #[inline(always)]
        pub fn $name_32<S: Isa>(x: f32) -> f32 {
            if x.abs() > NEAR as f32 { $of::<S>(reduce_far(x as f64)) as f32 } else { $near_32::<S>(x) }
        }
    };
}

periodic!(sin sin_near sin_32 sin_near_32 sin_of, |x| x, |q, s, c| turn(q, s, c), Some(turn_32));
periodic!(cos cos_near cos_32 cos_near_32 cos_of, |x| 1.0, |q, s, c| turn(q.wrapping_add(1), s, c), Some(|q, s, c| turn_32(q.wrapping_add(1), s, c)));
periodic!(tan tan_near tan_32 tan_near_32 tan_of, |x| x, |q, s, c| quotient(q & 1 == 1, s, c), None);
