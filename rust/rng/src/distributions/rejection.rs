//! Rejection sampling: gamma, Poisson, binomial. Values are drawn one at a time, because the number of words per value
//! varies.

use crate::{Stream, element::Wide};

/// A value of the gamma distribution of scale one (Marsaglia and Tsang 2000), not rounded to the caller's dtype.
///
/// Expressions of `alpha` alone have its precision, the rest that of f64.
pub fn standard_gamma<T: Wide>(stream: &mut Stream, alpha: T) -> f64 {
    let one = T::from_f64(1.0);
    let (mut alpha, mut scale) = (alpha, 1.0);
    if alpha < one {
        if alpha == T::from_f64(0.0) {
            return 0.0;
        }
        // Below 1 few proposals are accepted: draw for alpha + 1 and scale by a power of a uniform value.
        scale = (1.0 - stream.uniform64()).powf((one / alpha).to_f64());
        alpha = alpha + one;
    }
    // These constants are f32 in torch.
    let d = (alpha - T::from_f64(f64::from(1.0f32 / 3.0))).to_f64();
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = stream.standard_normal();
        let y = 1.0 + c * x;
        if y <= 0.0 {
            continue;
        }
        let v = y * y * y;
        let u = 1.0 - stream.uniform64();
        let square = x * x;
        // If `alpha` is NaN, the first of the two conditions accepts the sample.
        if u < 1.0 - f64::from(0.0331f32) * square * square || u.ln() < 0.5 * square + d * (1.0 - v + v.ln()) {
            return scale * d * v;
        }
    }
}

/// A value of the Poisson distribution: by multiplying uniform values for a small rate, by Hörmann's transformed
/// rejection (1993) for a large one. In torch a negative rate is an error, which the caller raises.
pub fn poisson(stream: &mut Stream, rate: f64) -> f64 {
    if rate.is_nan() || rate < 10.0 {
        if rate == 0.0 {
            return 0.0;
        }
        let limit = (-rate).exp();
        let (mut count, mut product) = (0.0, 1.0);
        loop {
            product *= stream.uniform64();
            if product > limit {
                count += 1.0;
            } else {
                return count;
            }
        }
    }
    let (root, log) = (rate.sqrt(), rate.ln());
    let b = 0.931 + 2.53 * root;
    let a = -0.059 + 0.02483 * b;
    let inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
    let tight = 0.9277 - 3.6224 / (b - 2.0);
    loop {
        let u = stream.uniform64() - 0.5;
        let v = stream.uniform64();
        let us = 0.5 - u.abs();
        let k = ((2.0 * a / us + b) * u + rate + 0.43).floor();
        // An infinite rate accepts no proposal.
        if k.is_nan() || (us >= 0.07 && v <= tight) {
            return k;
        }
        if k < 0.0 || (us < 0.013 && v > us) {
            continue;
        }
        if v.ln() + inverse_alpha.ln() - (a / (us * us) + b).ln() <= -rate + k * log - libm::lgamma(k + 1.0) {
            return k;
        }
    }
}

/// A value of the binomial distribution for the rarer outcome: by waiting times if few successes are expected, by
/// Hörmann's transformed rejection (1993) if many are.
///
/// Sums and products of counts and probabilities alone have their precision, the rest that of f64.
pub fn binomial<T: Wide>(stream: &mut Stream, count: T, p: T) -> f64 {
    let (zero, one) = (T::from_f64(0.0), T::from_f64(1.0));
    if count <= zero || p <= zero {
        0.0
    } else if p >= one {
        count.to_f64()
    } else if count.to_f64().is_nan() || p.to_f64().is_nan() {
        // No number of trials exceeds such a count.
        f64::NAN
    } else if p <= T::from_f64(0.5) {
        rarer(stream, count, p).to_f64()
    } else {
        (count - rarer(stream, count, one - p)).to_f64()
    }
}

fn rarer<T: Wide>(stream: &mut Stream, count: T, p: T) -> T {
    if count * p >= T::from_f64(10.0) {
        transformed(stream, count, p)
    } else {
        T::from_f64(waited(stream, count.to_f64(), p.to_f64()))
    }
}

/// The number of successes in `count` trials, from the number of trials between successes.
fn waited(stream: &mut Stream, count: f64, p: f64) -> f64 {
    let log = (-p).ln_1p();
    let (mut trials, mut successes) = (0.0, 0.0);
    loop {
        trials += (stream.uniform64().ln() / log).ceil();
        if trials.is_nan() || trials > count {
            return successes;
        }
        successes += 1.0;
    }
}

fn transformed<T: Wide>(stream: &mut Stream, count: T, p: T) -> T {
    let one = T::from_f64(1.0);
    let deviation = (count * p * (one - p)).to_f64().sqrt();
    let b = 1.15 + 2.53 * deviation;
    let a = -0.0873 + 0.0248 * b + 0.01 * p.to_f64();
    let c = (count * p).to_f64() + 0.5;
    let tight = 0.92 - 4.2 / b;
    let odds = (p / (one - p)).to_f64();
    let alpha = (2.83 + 5.1 / b) * deviation;
    let m = ((count + one) * p).to_f64().floor();
    let others = count.to_f64() - m;
    loop {
        let u = stream.uniform64() - 0.5;
        let v = stream.uniform64();
        let us = 0.5 - u.abs();
        let k = T::from_f64(((2.0 * a / us + b) * u + c).floor());
        // An infinite count accepts no proposal.
        if k.to_f64().is_nan() || (us >= 0.07 && v <= tight) {
            return k;
        }
        if k < T::from_f64(0.0) || k > count {
            continue;
        }
        let (misses, next) = ((count - k + one).to_f64(), (k + one).to_f64());
        let bound = (m + 0.5) * ((m + 1.0) / (odds * (others + 1.0))).ln()
            + (count + one).to_f64() * ((others + 1.0) / misses).ln()
            + (k.to_f64() + 0.5) * (odds * misses / next).ln()
            + stirling_rest(m)
            + stirling_rest(others)
            - stirling_rest(k)
            - stirling_rest(count - k);
        if (v * alpha / (a / (us * us) + b)).ln() <= bound {
            return k;
        }
    }
}

/// The remainder of Stirling's formula for ln k!: ln k! - (k + 1/2) ln(k + 1) + (k + 1) - ln(2 pi) / 2.
fn stirling_rest<T: Wide>(k: T) -> f64 {
    const TABLE: [f64; 10] = [
        0.0810614667953272,
        0.0413406959554092,
        0.0276779256849983,
        0.02079067210376509,
        0.0166446911898211,
        0.0138761288230707,
        0.0118967099458917,
        0.0104112652619720,
        0.00925546218271273,
        0.00833056343336287,
    ];
    let small = k.to_f64();
    if (0.0..=9.0).contains(&small) {
        return TABLE[small as usize];
    }
    let next = (k + T::from_f64(1.0)).to_f64();
    (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / 1260.0 / (next * next)) / (next * next)) / next
}
