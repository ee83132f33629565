//! Memory that a call both reads and writes, or writes twice.
//!
//! Two cases differ: a result that shares memory with an input (`overlap` and its users here), and a result whose own
//! elements share memory (`check_no_self_overlap`; `call/self_overlap.rs` changes such a tensor in place).

use rushlight_autograd::Tensor;
use rushlight_core::{Error, Layout, Result};

use crate::args::replace_where;
use crate::operator::Args;

pub const OVERLAPS: &str = "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please clone() the tensor before performing the operation.";

pub fn check_no_self_overlap(tensor: &Tensor) -> Result<()> {
    if !tensor.layout().is_contiguous() && tensor.layout().overlaps() {
        return Err(Error::runtime(OVERLAPS));
    }
    Ok(())
}

/// The relation of an input's memory to a result's.
#[derive(PartialEq, Eq)]
pub enum Overlap {
    /// No common memory.
    Nothing,
    /// Exactly the same elements.
    Same,
    /// At least one has gaps: whether different elements overlap was not determined.
    Unknown,
    /// Different elements overlap.
    Partial,
}

/// Returns an error for an input that may share part of the result's memory; exactly the same memory is allowed.
pub fn check_overlap(out: &Tensor, input: &Tensor) -> Result<()> {
    match overlap(out, input) {
        Overlap::Nothing | Overlap::Same => Ok(()),
        Overlap::Unknown | Overlap::Partial => Err(shared_memory()),
    }
}

/// Whether an input must be read before the result of a pointwise operator is written. Like torch, returns an error for
/// two dense tensors that overlap partially. If torch computes in an unspecified order, the result here is that of a copy.
pub fn must_be_copied(out: &Tensor, input: &Tensor) -> Result<bool> {
    match overlap(out, input) {
        Overlap::Nothing | Overlap::Same => Ok(false),
        Overlap::Unknown => Ok(true),
        Overlap::Partial => Err(shared_memory()),
    }
}

pub fn overlap(out: &Tensor, input: &Tensor) -> Overlap {
    if !out.storage().shares_bytes(input.storage()) {
        return Overlap::Nothing;
    }
    let (a, b) = (out.layout(), input.layout());
    if a == b && out.dtype() == input.dtype() {
        return Overlap::Same;
    }
    let bytes = |tensor: &Tensor, layout: &Layout| {
        let width = tensor.dtype().size() as isize;
        layout.span().map(|(low, high)| (low.saturating_mul(width), (high + 1).saturating_mul(width)))
    };
    let (Some(x), Some(y)) = (bytes(out, a), bytes(input, b)) else { return Overlap::Nothing };
    if x.1 <= y.0 || y.1 <= x.0 || (out.dtype() == input.dtype() && interleave(a, b)) {
        return Overlap::Nothing;
    }
    if a.is_dense() && b.is_dense() { Overlap::Partial } else { Overlap::Unknown }
}

#[cold]
pub fn shared_memory() -> Error {
    Error::runtime(
        "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location. Please clone() the tensor before performing the operation.",
    )
}

/// The arguments with copies of those tensors, other than the first, that share memory with `own`; `None` if there are
/// none.
pub fn without_aliases<'a>(args: &Args<'a>, input: &Tensor) -> Result<Option<Args<'a>>> {
    let shares = |tensor: &Tensor| overlap(input, tensor) != Overlap::Nothing;
    if !args.each_tensor().skip(1).any(|(_, tensor)| shares(tensor)) {
        return Ok(None);
    }
    let mut args = args.clone();
    replace_where(&mut args.values[1..], shares, crate::copy::clone)?;
    Ok(Some(args))
}

/// Whether two views interleave without overlap (columns of one matrix, for example).
fn interleave(a: &Layout, b: &Layout) -> bool {
    if a.sizes != b.sizes || a.strides != b.strides || a.numel() == 0 {
        return false;
    }
    let gap = (a.offset - b.offset).abs();
    let steps: Vec<isize> =
        a.sizes.iter().zip(&a.strides).filter(|(size, _)| **size > 1).map(|(_, stride)| stride.abs()).collect();
    let common = steps.iter().copied().fold(0, gcd);
    common != 0 && gap % common != 0
}

fn gcd(a: isize, b: isize) -> isize {
    if b == 0 { a } else { gcd(b, a % b) }
}
