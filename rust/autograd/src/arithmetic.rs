//! The few operations that the engine performs on gradients. The crate with the operators installs them.
//!
//! Each of them is an ordinary operator call: it is recorded if the current mode says so, which makes gradients of
//! gradients work.

use rushlight_core::installed::Installed;
use rushlight_core::{DType, Device, Error, Layout, Result};

use crate::graph::Tensor;

pub struct Arithmetic {
    pub add: fn(&Tensor, &Tensor) -> Result<Tensor>,
    /// Adds into the first operand.
    pub add_: fn(&Tensor, &Tensor) -> Result<()>,
    pub clone: fn(&Tensor) -> Result<Tensor>,
    /// The same elements without history. For a tensor of `Form::Wrapper` its class makes the result.
    pub detach: fn(&Tensor) -> Result<Tensor>,
    /// New elements with any value, of another tensor's dtype and device; batched like it.
    pub empty: fn(&Layout, &Tensor) -> Result<Tensor>,
    /// New, contiguous and filled with the number.
    pub full: fn(&[isize], f64, DType, Device) -> Result<Tensor>,
    /// Copies the second operand's elements into the first.
    pub copy_: fn(&Tensor, &Tensor) -> Result<()>,
    /// A view with this geometry; the offset counts from the storage's start.
    pub as_strided: fn(&Tensor, &Layout) -> Result<Tensor>,
    /// Sums broadcast dimensions down to these sizes.
    pub sum_to: fn(&Tensor, &[isize]) -> Result<Tensor>,
    /// Casts to another dtype; a cast from complex to real keeps the real part.
    pub cast: fn(&Tensor, DType) -> Result<Tensor>,
    pub has_nan: fn(&Tensor) -> Result<bool>,
    pub has_inf: fn(&Tensor) -> Result<bool>,
    /// The elements in row-major order, for printing; the real parts of complex ones.
    pub elements: fn(&Tensor) -> Result<Vec<f64>>,
}

static ARITHMETIC: Installed<Arithmetic> = Installed::nothing();

/// Installs the operations; a later call replaces them.
pub fn install(arithmetic: &'static Arithmetic) {
    ARITHMETIC.set(arithmetic);
}

pub(crate) fn arithmetic() -> Result<&'static Arithmetic> {
    ARITHMETIC.get().ok_or_else(|| Error::runtime("autograd: no arithmetic is installed"))
}

/// A copy with the given geometry in memory of its own; recorded if the mode says so.
pub(crate) fn clone_as(source: &Tensor, layout: &Layout) -> Result<Tensor> {
    let table = arithmetic()?;
    let copy = (table.empty)(layout, source)?;
    (table.copy_)(&copy, source)?;
    Ok(copy)
}
