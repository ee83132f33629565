//! The Box-Muller transform on blocks: 16 uniform numbers become 16 normal ones.
//!
//! In a block the first 8 numbers give the radius, sqrt(-2 ln(1 - u)), the last 8 the angle, 2 pi u; the cosines go to the
//! first half and the sines to the second.
//!
//! Nothing else is needed for f64. For f32 torch has vector code for AVX2 with the logarithm, sine and cosine of the
//! Cephes library in single precision, whose last bits depend on the order of operations and on which multiplications
//! are fused with the following addition. They are written out here in that order, in scalar code over arrays of 8,
//! which the compiler turns into the same vector instructions. Accuracy is that of Cephes, under 2 ulp for the domain
//! needed: (0, 1] for the logarithm and [0, 2 pi) for the angle; nothing else is handled.

use crate::vector::vectorised;

/// Numbers in a block.
pub const BLOCK: usize = 16;
const HALF: usize = BLOCK / 2;

vectorised! {
    pub fn blocks_f32(data: &mut [f32], mean: f32, std: f32) {
        for block in data.as_chunks_mut::<BLOCK>().0 {
            for j in 0..HALF {
                let radius = (-2.0 * ln(1.0 - block[j])).sqrt();
                let (sin, cos) = sin_cos(std::f32::consts::TAU * block[j + HALF]);
                block[j] = (radius * cos).mul_add(std, mean);
                block[j + HALF] = (radius * sin).mul_add(std, mean);
            }
        }
    }

    pub fn blocks_f64(data: &mut [f64], mean: f64, std: f64) {
        for block in data.as_chunks_mut::<BLOCK>().0 {
            for j in 0..HALF {
                let radius = (-2.0 * (1.0 - block[j]).ln()).sqrt();
                let (sin, cos) = (std::f64::consts::TAU * block[j + HALF]).sin_cos();
                block[j] = (radius * cos).mul_add(std, mean);
                block[j + HALF] = (radius * sin).mul_add(std, mean);
            }
        }
    }
}

/// Cephes `logf` for normal positive numbers: x = m 2^e with m in [sqrt(1/2), sqrt(2)), then a polynomial in m - 1.
#[inline(always)]
fn ln(x: f32) -> f32 {
    let bits = x.to_bits();
    let m = f32::from_bits((bits & 0x007f_ffff) | 0x3f00_0000);
    let e = ((bits >> 23) as i32 - 126) as f32;
    let small = m < std::f32::consts::FRAC_1_SQRT_2;
    let e = e - if small { 1.0 } else { 0.0 };
    let m = (m - 1.0) + if small { m } else { 0.0 };

    let square = m * m;
    let series = 7.037_683_6e-2_f32
        .mul_add(m, -1.151_461e-1)
        .mul_add(m, 1.167_699_85e-1)
        .mul_add(m, -1.242_014_1e-1)
        .mul_add(m, 1.424_932_3e-1)
        .mul_add(m, -1.666_805_8e-1)
        .mul_add(m, 2.000_071_4e-1)
        .mul_add(m, -2.499_999_4e-1)
        .mul_add(m, 3.333_333e-1)
        * m;
    // ln 2 in two parts, the smaller first.
    let small_terms = series.mul_add(square, e * -2.121_944_4e-4) - square * 0.5;
    e.mul_add(0.693_359_4, m + small_terms)
}

/// Cephes `sinf` and `cosf` for angles from 0 to 8192: reduce to an eighth of the circle, two polynomials, choose.
#[inline(always)]
fn sin_cos(angle: f32) -> (f32, f32) {
    // The even octant: (octant & 2) decides which polynomial is the sine, (octant & 4) its sign.
    let octant = ((angle * (4.0 / std::f64::consts::PI) as f32) as i32 + 1) & !1;
    let y = octant as f32;
    // pi/4 in three parts, so that the difference stays exact.
    let x = y.mul_add(-0.785_156_25, angle);
    let x = y.mul_add(-2.418_756_5e-4, x);
    let x = y.mul_add(-3.774_895e-8, x);

    let square = x * x;
    let cos = 2.443_315_7e-5_f32.mul_add(square, -1.388_731_6e-3).mul_add(square, 4.166_664_6e-2) * square;
    let cos = cos.mul_add(square, -(square * 0.5)) + 1.0;
    let sin = (-1.951_529_6e-4_f32).mul_add(square, 8.332_161e-3).mul_add(square, -1.666_665_5e-1) * square;
    let sin = sin.mul_add(x, x);

    let swapped = octant & 2 != 0;
    let (for_sin, for_cos) = if swapped { (cos, sin) } else { (sin, cos) };
    let sin_sign = ((octant & 4) as u32) << 29;
    let cos_sign = ((!(octant - 2) & 4) as u32) << 29;
    (f32::from_bits(for_sin.to_bits() ^ sin_sign), f32::from_bits(for_cos.to_bits() ^ cos_sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The distance of two numbers in units of the last place of the second.
    fn ulps(found: f32, exact: f64) -> f64 {
        let last_place = f64::from((exact as f32).abs().max(1e-3).next_up() - (exact as f32).abs().max(1e-3));
        (f64::from(found) - exact).abs() / last_place
    }

    #[test]
    fn polynomials_are_accurate() {
        for i in 1..=1 << 16 {
            let x = i as f32 / (1 << 16) as f32;
            assert!(ulps(ln(x), f64::from(x).ln()) < 2.0, "ln {x}");
            let angle = x * std::f32::consts::TAU;
            let (sin, cos) = sin_cos(angle);
            assert!(ulps(sin, f64::from(angle).sin()) < 2.0, "sin {angle}");
            assert!(ulps(cos, f64::from(angle).cos()) < 2.0, "cos {angle}");
        }
    }
}
