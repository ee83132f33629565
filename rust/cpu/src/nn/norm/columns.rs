//! Pooled channels of one element: groups are the columns of a matrix, and adjacent columns are computed side by side.

use std::ops::Range;

use rushlight_core::Result;
use rushlight_core::alloc::{filled, list};
use rushlight_simd::multiversion;

use super::groups::{Backward, Forward, NormGroups, joined};
use crate::float::Float;
use crate::reduce::moments::{Moments, NONE, measured_columns, merge};

/// Rows that are measured at once, while they are in the cache.
const ROWS: usize = 128;

/// # Safety
/// Same as for `NormGroups::forward`.
pub unsafe fn forward<T: Float>(own: &NormGroups, operands: &Forward<T>) -> Result<()> {
    let (rows, n) = (own.samples, own.groups);
    let part = |rows: Range<usize>| -> Result<Vec<Moments>> {
        let (mut all, mut block) = (filled(NONE, n)?, filled(NONE, n)?);
        let end = rows.end;
        for start in rows.step_by(ROWS) {
            // SAFETY: guaranteed by the caller (see `# Safety`); the rows are within the matrix.
            unsafe { measured_columns(&mut block, operands.input.add(start * n), ROWS.min(end - start)) };
            all.iter_mut().zip(&block).for_each(|(all, &block)| *all = merge(*all, block));
        }
        Ok(all)
    };
    let both = |left: Result<Vec<Moments>>, right: Result<Vec<Moments>>| {
        let (mut left, right) = (left?, right?);
        left.iter_mut().zip(&right).for_each(|(own, &other)| *own = merge(*own, other));
        Ok(left)
    };
    let Some(found) = rushlight_par::parallel_reduce(rows, own.part(rows, n), part, both) else { return Ok(()) };
    let (mut centres, mut scales) = (list(n)?, list(n)?);
    for (column, found) in found?.into_iter().enumerate() {
        let [mean, variance] = own.statistics(found);
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            operands.mean.add(column).write(mean);
            operands.variance.add(column).write(variance);
            scales.push(T::narrow(own.rstd(variance)) * *operands.weight.add(column));
        }
        centres.push(mean);
    }
    rushlight_par::parallel_for(rows, own.grain(n), |rows| {
        for row in rows {
            // SAFETY: guaranteed by the caller (see `# Safety`); the results belong to this row.
            unsafe {
                let (to, from) = (operands.out.add(row * n), operands.input.add(row * n));
                scaled(to, from, &centres, &scales, operands.bias);
            }
        }
    });
    Ok(())
}

/// # Safety
/// Same as for `NormGroups::backward`.
pub unsafe fn backward<T: Float>(own: &NormGroups, operands: &Backward<T>) -> Result<()> {
    let (rows, n) = (own.samples, own.groups);
    let part = |rows: Range<usize>| -> Result<Vec<T>> {
        let mut sums = filled(T::narrow(0.0), 2 * n)?;
        let end = rows.end;
        for start in rows.step_by(ROWS) {
            let mut block = filled(T::narrow(0.0), 2 * n)?;
            for row in start..end.min(start + ROWS) {
                let (plain, product) = block.split_at_mut(n);
                // SAFETY: guaranteed by the caller (see `# Safety`); the row is within the matrix.
                unsafe {
                    let (grad, from) = (operands.grad.add(row * n), operands.input.add(row * n));
                    gathered(plain, product, grad, from, operands.mean);
                }
            }
            sums.iter_mut().zip(&block).for_each(|(sum, &block)| *sum = *sum + block);
        }
        Ok(sums)
    };
    let Some(sums) = rushlight_par::parallel_reduce(rows, own.part(rows, n), part, joined) else { return Ok(()) };
    let sums = sums?;
    let (plain, product) = sums.split_at(n);
    let mut factors: [Vec<T>; 3] = [list(n)?, list(n)?, list(n)?];
    for column in 0..n {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            let rstd = own.rstd(*operands.variance.add(column));
            operands.to_weight.add(column).write(T::narrow(product[column].wide() * rstd));
            operands.to_bias.add(column).write(plain[column]);
            let weight = (*operands.weight.add(column)).wide();
            let [centred, each] = own.shares(rstd, [plain[column].wide() * weight, product[column].wide() * weight]);
            for (list, number) in factors.iter_mut().zip([rstd * weight, centred, each]) {
                list.push(T::narrow(number));
            }
        }
    }
    rushlight_par::parallel_for(rows, own.grain(n), |rows| {
        for row in rows {
            // SAFETY: guaranteed by the caller (see `# Safety`); the results belong to this row.
            unsafe {
                let (grad, from) = (operands.grad.add(row * n), operands.input.add(row * n));
                mixed(operands.to_input.add(row * n), grad, from, operands.mean, &factors);
            }
        }
    });
    Ok(())
}

multiversion! {
    /// # Safety
    /// A row and the numbers for its columns, as many as there are centres.
    unsafe fn scaled<S, T: Float>(to: *mut T, from: *const T, centres: &[T], scales: &[T], bias: *const T) {
        for (i, (&centre, &scale)) in centres.iter().zip(scales).enumerate() {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe { to.add(i).write(S::mul_add(*from.add(i) - centre, scale, *bias.add(i))) };
        }
    }
}

multiversion! {
    /// Adds a row to the sums of the gradients, and of their products with the centred elements.
    ///
    /// # Safety
    /// Rows, and a centre for each column, as many as there are sums.
    unsafe fn gathered<S, T: Float>(plain: &mut [T], product: &mut [T], grad: *const T, from: *const T, centre: *const T) {
        for (i, (plain, product)) in plain.iter_mut().zip(product).enumerate() {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                let g = *grad.add(i);
                *plain = *plain + g;
                *product = S::mul_add(g, *from.add(i) - *centre.add(i), *product);
            }
        }
    }
}

multiversion! {
    /// `to = grad * direct + (from - centre) * centred + each`.
    ///
    /// # Safety
    /// Rows, and numbers for each column, as many as there are factors.
    unsafe fn mixed<S, T: Float>(to: *mut T, grad: *const T, from: *const T, centre: *const T, factors: &[Vec<T>; 3]) {
        let [direct, centred, each] = factors;
        for (i, ((&direct, &centred), &each)) in direct.iter().zip(centred).zip(each).enumerate() {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                let own = S::mul_add(*from.add(i) - *centre.add(i), centred, each);
                to.add(i).write(S::mul_add(*grad.add(i), direct, own));
            }
        }
    }
}
