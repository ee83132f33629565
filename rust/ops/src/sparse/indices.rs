//! The check of indices.

use rushlight_core::{Error, Result};

/// Checks that all indices along a dimension are in range.
pub fn check_places(places: &[i64], dim: usize, size: isize) -> Result<()> {
    if let Some(least) = places.iter().min().filter(|&&least| least < 0) {
        return Err(Error::runtime(format!("found negative index {least} for dim {dim}")));
    }
    match places.iter().max() {
        Some(&most) if most >= size as i64 => Err(Error::runtime(format!(
            "size is inconsistent with indices: for dim {dim}, size is {size} but found index {most}"
        ))),
        _ => Ok(()),
    }
}
