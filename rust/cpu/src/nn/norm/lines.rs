//! Channels of one element, adjacent within a group: a group is a line with parameters of the same length.

use std::ops::Range;

use rushlight_core::Result;
use rushlight_core::alloc::filled;
use rushlight_simd::multiversion;

use super::groups::{Backward, Forward, NormGroups, joined};
use crate::float::Float;
use crate::reduce::moments::measured;
use crate::reduce::softmax::{LANES, tree};

/// Rounds of the lanes that are summed before they join the rest, so that the error stays small for long lines.
const ROUNDS: usize = 16;

/// # Safety
/// Same as for `NormGroups::forward`.
pub unsafe fn forward<T: Float>(own: &NormGroups, operands: &Forward<T>) {
    let n = own.channels;
    rushlight_par::parallel_for(own.count(), own.grain(n), |lines| {
        for line in lines {
            // SAFETY: guaranteed by the caller (see `# Safety`); the results belong to this line.
            unsafe {
                let from = operands.input.add(line * n);
                let [mean, variance] = own.statistics(measured(from, n, own.centred));
                operands.mean.add(line).write(mean);
                operands.variance.add(line).write(variance);
                let first = line % own.groups * n;
                let parameters = [operands.weight.add(first), operands.bias.add(first)];
                let numbers = [mean, T::narrow(own.rstd(variance))];
                scaled(operands.out.add(line * n), from, n, numbers, parameters);
            }
        }
    });
}

/// # Safety
/// Same as for `NormGroups::backward`.
pub unsafe fn backward<T: Float>(own: &NormGroups, operands: &Backward<T>) -> Result<()> {
    let (n, parameters) = (own.channels, own.parameters());
    let part = |lines: Range<usize>| -> Result<Vec<T>> {
        let mut sums = filled(T::narrow(0.0), 2 * parameters)?;
        for line in lines {
            let first = line % own.groups * n;
            // SAFETY: guaranteed by the caller (see `# Safety`); the results belong to this line.
            unsafe {
                let (grad, from) = (operands.grad.add(line * n), operands.input.add(line * n));
                let (centre, rstd) = (*operands.mean.add(line), own.rstd(*operands.variance.add(line)));
                let weight = operands.weight.add(first);
                let to_weight = sums.as_mut_ptr().add(first);
                let own_sums = [to_weight, to_weight.add(parameters)];
                let all = gathered(grad, from, n, [centre, T::narrow(rstd)], weight, own_sums);
                let [centred, each] = own.shares(rstd, all.map(T::wide));
                let numbers = [centre, T::narrow(rstd), T::narrow(centred), T::narrow(each)];
                mixed(operands.to_input.add(line * n), grad, from, n, numbers, weight);
            }
        }
        Ok(sums)
    };
    let lines = own.count();
    let Some(sums) = rushlight_par::parallel_reduce(lines, own.part(lines, n), part, joined) else { return Ok(()) };
    let sums = sums?;
    // SAFETY: guaranteed by the caller (see `# Safety`); the sums are of both parameters.
    unsafe {
        operands.to_weight.copy_from_nonoverlapping(sums.as_ptr(), parameters);
        operands.to_bias.copy_from_nonoverlapping(sums.as_ptr().add(parameters), parameters);
    }
    Ok(())
}

multiversion! {
    /// # Safety
    /// All hold `n` elements.
    unsafe fn scaled<S, T: Float>(to: *mut T, from: *const T, n: usize, numbers: [T; 2], parameters: [*const T; 2]) {
        let ([centre, rstd], [weight, bias]) = (numbers, parameters);
        for i in 0..n {
            // SAFETY: the caller gives n elements.
            unsafe { to.add(i).write(S::mul_add((*from.add(i) - centre) * rstd, *weight.add(i), *bias.add(i))) };
        }
    }
}

multiversion! {
    /// Adds the line to the sums of the parameters' gradients, and returns the line's own sums: of the gradients times
    /// the weights, and of their products with the centred elements.
    ///
    /// # Safety
    /// All hold `n` elements; the sums do not overlap the operands.
    unsafe fn gathered<S, T: Float>(grad: *const T, from: *const T, n: usize, numbers: [T; 2], weight: *const T, sums: [*mut T; 2]) -> [T; 2] {
        let ([centre, rstd], [to_weight, to_bias]) = (numbers, sums);
        let zero = T::narrow(0.0);
        let (mut plain, mut product) = ([zero; LANES], [zero; LANES]);
        // SAFETY: the caller gives n elements.
        unsafe {
            let take = |i: usize, plain: &mut T, product: &mut T| {
                let (g, gap) = (*grad.add(i), *from.add(i) - centre);
                to_bias.add(i).write(*to_bias.add(i) + g);
                to_weight.add(i).write(S::mul_add(g, gap * rstd, *to_weight.add(i)));
                let weighted = g * *weight.add(i);
                *plain = *plain + weighted;
                *product = S::mul_add(weighted, gap, *product);
            };
            let whole = n - n % LANES;
            for start in (0..whole).step_by(ROUNDS * LANES) {
                let (mut a, mut b) = ([zero; LANES], [zero; LANES]);
                for i in (start..whole.min(start + ROUNDS * LANES)).step_by(LANES) {
                    for j in 0..LANES {
                        take(i + j, &mut a[j], &mut b[j]);
                    }
                }
                for j in 0..LANES {
                    plain[j] = plain[j] + a[j];
                    product[j] = product[j] + b[j];
                }
            }
            for j in 0..n - whole {
                take(whole + j, &mut plain[j], &mut product[j]);
            }
        }
        [tree(plain, |a, b| a + b), tree(product, |a, b| a + b)]
    }
}

multiversion! {
    /// `to = grad * weight * rstd + (from - centre) * centred + each`.
    ///
    /// # Safety
    /// All hold `n` elements.
    unsafe fn mixed<S, T: Float>(to: *mut T, grad: *const T, from: *const T, n: usize, numbers: [T; 4], weight: *const T) {
        let [centre, rstd, centred, each] = numbers;
        for i in 0..n {
            // SAFETY: the caller gives n elements.
            unsafe {
                let own = S::mul_add(*from.add(i) - centre, centred, each);
                to.add(i).write(S::mul_add(*grad.add(i) * *weight.add(i), rstd, own));
            }
        }
    }
}
