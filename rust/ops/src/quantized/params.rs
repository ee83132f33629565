//! The choice of scale and zero point for a range of numbers, as torch's library for x86 makes it.

/// Scales below are raised to it, and the range is widened.
const SMALLEST: f32 = 6.1e-5;

/// The scale and the zero point for numbers from `low` to `high`, which are widened to contain zero, and integers from
/// `least` to `most`. Zero is represented exactly.
pub fn choose(low: f32, high: f32, least: i32, most: i32) -> (f64, i64) {
    let (mut low, mut high) = (low.min(0.0), high.max(0.0));
    let steps = f64::from(most) - f64::from(least);
    let mut scale = (f64::from(high) - f64::from(low)) / steps;
    if scale as f32 == 0.0 || (1.0 / scale as f32).is_infinite() {
        scale = 0.1;
    }
    if scale < f64::from(SMALLEST) {
        let before = scale as f32;
        scale = f64::from(SMALLEST);
        if low == 0.0 {
            high = (scale * steps) as f32;
        } else if high == 0.0 {
            low = (-scale * steps) as f32;
        } else {
            let amplifier = SMALLEST / before;
            low *= amplifier;
            high *= amplifier;
        }
    }
    let (low, high, least, most) = (f64::from(low) / scale, f64::from(high) / scale, f64::from(least), f64::from(most));
    let (from_low, from_high) = (least - low, most - high);
    let zero = if least.abs() + low.abs() < most.abs() + high.abs() { from_low } else { from_high };
    // NaN becomes zero.
    (scale, zero.clamp(least, most).round_ties_even() as i64)
}
