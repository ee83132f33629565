//! Coalescing: sorted indices, and one value for each.

use rushlight_autograd::SparseParts;
use rushlight_core::alloc::{collected, filled, list};
use rushlight_core::{Dims, Result};
use rushlight_dispatch::create::{from_slice, zeros};
use rushlight_dispatch::op;

use super::indices::check_places;
use crate::convert::to_vec;
use crate::index::index_select::{INDEX_ADD, INDEX_SELECT};

/// For each entry its row-major index over the sparse dimensions.
pub fn keys(parts: &SparseParts, sizes: &[isize]) -> Result<Vec<i64>> {
    let (dims, count) = (parts.indices.sizes()[0] as usize, parts.indices.sizes()[1] as usize);
    let places = to_vec::<i64>(&parts.indices)?;
    let mut keys = filled(0i64, count)?;
    for (dim, &size) in sizes.iter().enumerate().take(dims) {
        let own = &places[dim * count..(dim + 1) * count];
        check_places(own, dim, size)?;
        keys.iter_mut().zip(own).for_each(|(key, &place)| *key = key.wrapping_mul(size as i64).wrapping_add(place));
    }
    Ok(keys)
}

/// The coalesced parts: values of equal indices are added in their order.
pub fn coalesced(parts: &SparseParts, sizes: &[isize]) -> Result<SparseParts> {
    if parts.coalesced {
        return Ok(parts.clone());
    }
    let keys = keys(parts, sizes)?;
    if keys.is_sorted_by(|a, b| a < b) {
        return Ok(SparseParts { coalesced: true, ..parts.clone() });
    }
    let mut order = collected(keys.iter().enumerate().map(|(entry, &key)| (key, entry as i64)))?;
    order.sort_unstable();
    let mut firsts = list(order.len())?;
    let mut groups = filled(0i64, order.len())?;
    let mut last = None;
    for &(key, entry) in &order {
        if last != Some(key) {
            firsts.push(entry);
            last = Some(key);
        }
        groups[entry as usize] = firsts.len() as i64 - 1;
    }
    let indices = op!(INDEX_SELECT, &parts.indices, 1i64, &from_slice(&firsts)?)?;
    let mut of_values = Dims::from_slice(parts.values.sizes());
    of_values[0] = firsts.len() as isize;
    let none = zeros(&of_values, parts.values.dtype(), parts.values.device())?;
    let values = op!(INDEX_ADD, &none, 0i64, &from_slice(&groups)?, &parts.values)?;
    Ok(SparseParts { indices, values, coalesced: true })
}
