//! Indices: their checks, and lists of numbers that the host computes for tensors of any device.
//!
//! Programs may write to the indices of a tensor, so code that reads them checks them.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Device, Element, Error, Result, Scalar};
use rushlight_dispatch::create::from_slice;
use rushlight_dispatch::op;
use rushlight_dispatch::value::Value;

use crate::convert::{item, to_device, to_vec};
use crate::create::range::ARANGE;
use crate::join::cat::{CAT, STACK};
use crate::pointwise::compare::{LE, LT};
use crate::reduce::all_any::ALL;
use crate::reduce::extreme::AMINMAX;
use crate::view::narrow::{SELECT, sliced};

/// The indices as one tensor for each sparse dimension.
pub fn each_index(indices: &Tensor) -> Result<Vec<Tensor>> {
    (0..indices.sizes()[0] as i64).map(|dim| op!(SELECT, indices, 0i64, dim)).collect()
}

/// The least and the greatest index along each sparse dimension; none if there are no entries.
pub fn bounds(indices: &Tensor) -> Result<Vec<[i64; 2]>> {
    if indices.sizes()[1] == 0 {
        return Ok(Vec::new());
    }
    let both = AMINMAX.call([indices.into(), Value::Int(1)])?.into_tensors();
    // In one tensor, so that the host waits for a device once.
    let both = to_vec::<i64>(&op!(STACK, both, 1i64)?)?;
    Ok(both.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect())
}

/// Checks that the bounds of the indices along a dimension are in range.
fn check_bounds([least, most]: [i64; 2], dim: usize, size: isize) -> Result<()> {
    if least < 0 {
        return Err(Error::runtime(format!("found negative index {least} for dim {dim}")));
    }
    if most >= size as i64 {
        return Err(Error::runtime(format!(
            "size is inconsistent with indices: for dim {dim}, size is {size} but found index {most}"
        )));
    }
    Ok(())
}

/// Checks that all indices are in range, by their bounds.
pub fn check(bounds: &[[i64; 2]], sizes: &[isize]) -> Result<()> {
    bounds.iter().zip(sizes).enumerate().try_for_each(|(dim, (&bounds, &size))| check_bounds(bounds, dim, size))
}

/// Checks that all indices along a dimension are in range.
pub fn check_places(places: &[i64], dim: usize, size: isize) -> Result<()> {
    match (places.iter().min(), places.iter().max()) {
        (Some(&least), Some(&most)) => check_bounds([least, most], dim, size),
        _ => Ok(()),
    }
}

/// Whether each number is greater than the one before.
pub fn is_ascending(numbers: &Tensor) -> Result<bool> {
    let pairs = numbers.sizes()[0] - 1;
    if pairs < 1 {
        return Ok(true);
    }
    let rises = op!(LT, &sliced(numbers, 0, 0, pairs, 1)?, &sliced(numbers, 0, 1, pairs, 1)?)?;
    item(&op!(ALL, &rises)?).map(|all| all.truth())
}

/// Whether numbers begin with zero, never fall, and end with a count.
pub fn rise_from_zero_to(numbers: &Tensor, count: isize) -> Result<bool> {
    let ends = placed(&[0, count as i64], numbers.device())?;
    let [zero, count] = [0, 1].map(|at| sliced(&ends, 0, at, 1, 1));
    let (zero, count) = (zero?, count?);
    let last = sliced(numbers, 0, numbers.sizes()[0] - 1, 1, 1)?;
    let lower = op!(CAT, vec![zero.clone(), numbers.clone(), sliced(numbers, 0, 0, 1, 1)?, count.clone()], 0i64)?;
    let upper = op!(CAT, vec![numbers.clone(), count, zero, last], 0i64)?;
    item(&op!(ALL, &op!(LE, &lower, &upper)?)?).map(|all| all.truth())
}

/// A list from the host as a tensor on a device.
pub fn placed<T: Element>(list: &[T], device: Device) -> Result<Tensor> {
    to_device(&from_slice(list)?, device)
}

/// The numbers from zero up to a count.
pub fn numbers(count: isize, device: Device) -> Result<Tensor> {
    op!(ARANGE, Scalar::Int(count as i64), DType::I64, Value::None, Value::Device(device))
}
