//! Channels of several adjacent elements.

use rushlight_core::Result;
use rushlight_core::alloc::filled;
use rushlight_simd::multiversion;

use super::groups::{Backward, Forward, NormGroups};
use crate::float::Float;
use crate::reduce::moments::{NONE, measured, merge};
use crate::reduce::softmax::added;
use rushlight_par::Address;

/// The position of a group's channels: the first element, the distance to the next run, the number of runs, and the
/// first parameter.
struct GroupLayout {
    first: usize,
    step: usize,
    runs: usize,
    parameter: usize,
}

fn place(own: &NormGroups, group: usize) -> GroupLayout {
    if own.pooled {
        GroupLayout { first: group * own.run, step: own.groups * own.run, runs: own.samples, parameter: group }
    } else {
        let parameter = group % own.groups * own.channels;
        GroupLayout { first: group * own.channels * own.run, step: own.run, runs: own.channels, parameter }
    }
}

impl GroupLayout {
    /// The parameter of a run.
    fn parameter(&self, own: &NormGroups, run: usize) -> usize {
        if own.pooled { self.parameter } else { self.parameter + run }
    }
}

/// Runs with fewer elements are copied next to each other before they are summed, and how many elements the buffer
/// holds.
const SHORT: usize = 256;
const SIDE_BY_SIDE: usize = 1024;

/// Calls `sum` with all elements of a group in parts, with as many of each operand.
///
/// # Safety
/// The operands hold the group's runs.
unsafe fn each<T: Float, const N: usize>(
    own: &NormGroups,
    place: &GroupLayout,
    operands: [*const T; N],
    mut sum: impl FnMut([*const T; N], usize),
) {
    let at = |run: usize| place.first + run * place.step;
    if own.run >= SHORT {
        // SAFETY: guaranteed by the caller (see `# Safety`), here and below.
        (0..place.runs).for_each(|run| sum(operands.map(|from| unsafe { from.add(at(run)) }), own.run));
        return;
    }
    let mut room = [[T::narrow(0.0); SIDE_BY_SIDE]; N];
    let many = SIDE_BY_SIDE / own.run.max(1);
    for first in (0..place.runs).step_by(many) {
        let count = many.min(place.runs - first);
        for (room, from) in room.iter_mut().zip(operands) {
            for (run, to) in room.chunks_exact_mut(own.run.max(1)).enumerate().take(count) {
                // SAFETY: as above; the buffer belongs to this function.
                unsafe { std::ptr::copy_nonoverlapping(from.add(at(first + run)), to.as_mut_ptr(), own.run) };
            }
        }
        sum(room.each_ref().map(|room| room.as_ptr()), count * own.run);
    }
}

/// # Safety
/// Same as for `NormGroups::forward`.
pub unsafe fn forward<T: Float>(own: &NormGroups, operands: &Forward<T>) {
    rushlight_par::parallel_for(own.count(), own.grain(own.size()), |groups| {
        for group in groups {
            let place = place(own, group);
            // SAFETY: guaranteed by the caller (see `# Safety`); the results belong to this group.
            unsafe {
                let mut found = NONE;
                if own.pooled {
                    each(own, &place, [operands.input], |[input], n| {
                        found = merge(found, measured(input, n, own.centred));
                    });
                } else {
                    found = measured(operands.input.add(place.first), own.size(), own.centred);
                }
                let [mean, variance] = own.statistics(found);
                operands.mean.add(group).write(mean);
                operands.variance.add(group).write(variance);
                let rstd = T::narrow(own.rstd(variance));
                for run in 0..place.runs {
                    let (at, parameter) = (place.first + run * place.step, place.parameter(own, run));
                    let scale = rstd * *operands.weight.add(parameter);
                    let numbers = [mean, scale, *operands.bias.add(parameter)];
                    scaled(operands.out.add(at), operands.input.add(at), own.run, numbers);
                }
            }
        }
    });
}

/// # Safety
/// Same as for `NormGroups::backward`.
pub unsafe fn backward<T: Float>(own: &NormGroups, operands: &Backward<T>) -> Result<()> {
    // A channel's sums, for each sample separately unless samples are pooled.
    let sums = own.count() * if own.pooled { 1 } else { own.channels };
    let (mut weights, mut biases) = (filled(T::narrow(0.0), sums)?, filled(T::narrow(0.0), sums)?);
    let (to_weight, to_bias) = (Address(weights.as_mut_ptr()), Address(biases.as_mut_ptr()));
    rushlight_par::parallel_for(own.count(), own.grain(own.size()), |groups| {
        for group in groups {
            let place = place(own, group);
            // SAFETY: guaranteed by the caller (see `# Safety`); the sums and results belong to this group.
            unsafe {
                let (centre, rstd) = (*operands.mean.add(group), own.rstd(*operands.variance.add(group)));
                let mut all = [0.0; 2];
                if own.pooled {
                    each(own, &place, [operands.grad, operands.input], |[grad, input], n| {
                        let [sum, product] = products(grad, input, n, centre);
                        all = [all[0] + sum.wide(), all[1] + product.wide()];
                    });
                    to_bias.at(group).write(T::narrow(all[0]));
                    to_weight.at(group).write(T::narrow(all[1] * rstd));
                    all = all.map(|sum| sum * (*operands.weight.add(place.parameter)).wide());
                } else {
                    for run in 0..place.runs {
                        let at = place.first + run * place.step;
                        let [sum, product] = products(operands.grad.add(at), operands.input.add(at), own.run, centre);
                        let weight = (*operands.weight.add(place.parameter(own, run))).wide();
                        all = [all[0] + sum.wide() * weight, all[1] + product.wide() * weight];
                        let slot = group * own.channels + run;
                        to_weight.at(slot).write(T::narrow(product.wide() * rstd));
                        to_bias.at(slot).write(sum);
                    }
                }
                let [centred, each] = own.shares(rstd, all);
                for run in 0..place.runs {
                    let (at, parameter) = (place.first + run * place.step, place.parameter(own, run));
                    let direct = rstd * (*operands.weight.add(parameter)).wide();
                    let numbers = [centre, T::narrow(direct), T::narrow(centred), T::narrow(each)];
                    let (grad, input) = (operands.grad.add(at), operands.input.add(at));
                    mixed(operands.to_input.add(at), grad, input, own.run, numbers);
                }
            }
        }
    });
    let parameters = own.parameters();
    for (to, parts) in [(operands.to_weight, &weights), (operands.to_bias, &biases)] {
        for parameter in 0..parameters {
            let total = parts.iter().skip(parameter).step_by(parameters).fold(0.0, |sum, part| sum + part.wide());
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe { to.add(parameter).write(T::narrow(total)) };
        }
    }
    Ok(())
}

multiversion! {
    /// `to = (from - centre) * scale + shift`.
    ///
    /// # Safety
    /// Both hold `n` elements.
    unsafe fn scaled<S, T: Float>(to: *mut T, from: *const T, n: usize, numbers: [T; 3]) {
        let [centre, scale, shift] = numbers;
        for i in 0..n {
            // SAFETY: the caller gives n elements.
            unsafe { to.add(i).write(S::mul_add(*from.add(i) - centre, scale, shift)) };
        }
    }
}

multiversion! {
    /// The sums of the gradients, and of their products with the centred elements.
    ///
    /// # Safety
    /// Both hold `n` elements.
    unsafe fn products<S, T: Float>(grad: *const T, from: *const T, n: usize, centre: T) -> [T; 2] {
        // SAFETY: the caller gives n elements.
        unsafe { [added(n, |i| *grad.add(i)), added(n, |i| *grad.add(i) * (*from.add(i) - centre))] }
    }
}

multiversion! {
    /// `to = grad * direct + (from - centre) * centred + each`.
    ///
    /// # Safety
    /// All hold `n` elements.
    unsafe fn mixed<S, T: Float>(to: *mut T, grad: *const T, from: *const T, n: usize, numbers: [T; 4]) {
        let [centre, direct, centred, each] = numbers;
        for i in 0..n {
            // SAFETY: the caller gives n elements.
            unsafe {
                let own = S::mul_add(*from.add(i) - centre, centred, each);
                to.add(i).write(S::mul_add(*grad.add(i), direct, own));
            }
        }
    }
}
