//! The few operations that the engine performs on gradients, handed in by the crate that has operators.
//!
//! Each of them is an ordinary operator call: it records if the current mode says so, which is what makes gradients of
//! gradients work.

use std::sync::OnceLock;

use rushlight_core::{DType, Device, Error, Layout, Result};

use crate::tensor::Tensor;

pub struct Arithmetic {
    pub add: fn(&Tensor, &Tensor) -> Result<Tensor>,
    /// Adds into the first operand.
    pub add_: fn(&Tensor, &Tensor) -> Result<()>,
    pub clone: fn(&Tensor) -> Result<Tensor>,
    /// Fresh elements with any value, of another tensor's kind, and as many samples where that is mapped.
    pub empty: fn(&Layout, &Tensor) -> Result<Tensor>,
    /// Fresh, contiguous and equal to the number.
    pub full: fn(&[isize], f64, DType, Device) -> Result<Tensor>,
    /// Copies the second operand's elements into the first.
    pub copy_: fn(&Tensor, &Tensor) -> Result<()>,
    /// A view with this geometry; the offset counts from the storage's start.
    pub as_strided: fn(&Tensor, &Layout) -> Result<Tensor>,
    /// Sums what broadcasting had repeated, down to these sizes.
    pub sum_to: fn(&Tensor, &[isize]) -> Result<Tensor>,
    /// Another dtype; of complex numbers a real dtype keeps the real part.
    pub cast: fn(&Tensor, DType) -> Result<Tensor>,
    pub has_nan: fn(&Tensor) -> Result<bool>,
}

static TABLE: OnceLock<Arithmetic> = OnceLock::new();

/// Hands the operations in; the first table stays.
pub fn install(table: Arithmetic) {
    let _ = TABLE.set(table);
}

pub(crate) fn arithmetic() -> Result<&'static Arithmetic> {
    TABLE.get().ok_or_else(|| Error::runtime("autograd: no arithmetic is installed"))
}

/// A copy with the given geometry in memory of its own; recorded if the mode says so.
pub(crate) fn clone_as(source: &Tensor, layout: &Layout) -> Result<Tensor> {
    let table = arithmetic()?;
    let copy = (table.empty)(layout, source)?;
    (table.copy_)(&copy, source)?;
    Ok(copy)
}
