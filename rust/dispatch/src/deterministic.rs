//! `torch.use_deterministic_algorithms`. Results are the same bits for any number of threads without it; it refuses calls that
//! torch calls nondeterministic, and fills new memory.

use std::sync::atomic::{AtomicU8, Ordering};

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Device, Error, Layout, Result, Scalar};

use crate::operator::TensorSpec;
use crate::{allocate, create, interpreter};

const ENABLED: u8 = 1;
const WARN_ONLY: u8 = 2;
const FILL: u8 = 4;

static MODE: AtomicU8 = AtomicU8::new(0);

/// `fill` is `torch.utils.deterministic.fill_uninitialized_memory`.
pub fn set(enabled: bool, warn_only: bool, fill: bool) {
    let mode = (u8::from(enabled) * ENABLED) | (u8::from(warn_only) * WARN_ONLY) | (u8::from(fill) * FILL);
    MODE.store(mode, Ordering::Relaxed);
}

fn has(bits: u8) -> bool {
    MODE.load(Ordering::Relaxed) & bits == bits
}

/// Whether equal calls must give equal bits.
pub fn is_enabled() -> bool {
    has(ENABLED)
}

/// Returns an error, or warns, for a call that torch calls nondeterministic.
pub fn alert(name: &str) -> Result<()> {
    if !has(ENABLED) {
        return Ok(());
    }
    let (flags, advice) = if has(WARN_ONLY) {
        ("True, warn_only=True", "")
    } else {
        (
            "True",
            "You can turn off determinism just for this operation, or you can use the 'warn_only=True' option, if that's acceptable for your application. ",
        )
    };
    let file = if has(WARN_ONLY) { "You can file" } else { "You can also file" };
    let text = format!(
        "{name} does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms({flags})'. {advice}{file} an issue at https://github.com/pytorch/pytorch/issues to help us prioritize adding deterministic support for this operation."
    );
    if has(WARN_ONLY) { interpreter::warn(&text) } else { Err(Error::runtime(text)) }
}

/// Memory that a program asked for without saying what it holds: filled in this mode, so that reading it gives the same results
/// each time.
pub fn uninitialized(spec: &TensorSpec) -> Result<Tensor> {
    let tensor = allocate::allocate(spec)?;
    if has(ENABLED | FILL) {
        fill(&tensor, 0)?;
    }
    Ok(tensor)
}

/// Fills the elements of a storage that lie beyond its former length in bytes.
pub fn fill_grown(tensor: &Tensor, before: usize) -> Result<()> {
    if has(ENABLED | FILL) { fill(tensor, before.div_ceil(tensor.dtype().size())) } else { Ok(()) }
}

fn fill(tensor: &Tensor, first: usize) -> Result<()> {
    let storage = tensor.storage();
    let count = (storage.len() / tensor.dtype().size()).saturating_sub(first);
    if tensor.device() == Device::Meta || count == 0 {
        return Ok(());
    }
    let layout = Layout { offset: first as isize, ..Layout::contiguous(&[count as isize]) };
    let whole = Tensor::new(storage.clone(), layout, tensor.dtype(), tensor.device());
    create::fill(&whole, unusual(tensor.dtype()))
}

/// NaN, or the largest integer.
fn unusual(dtype: DType) -> Scalar {
    match dtype {
        DType::Bool => Scalar::Bool(true),
        DType::U8 => Scalar::Int(u8::MAX.into()),
        DType::I8 => Scalar::Int(i8::MAX.into()),
        DType::I16 => Scalar::Int(i16::MAX.into()),
        DType::I32 => Scalar::Int(i32::MAX.into()),
        DType::I64 => Scalar::Int(i64::MAX),
        DType::U16 => Scalar::Int(u16::MAX.into()),
        DType::U32 => Scalar::Int(u32::MAX.into()),
        DType::U64 => Scalar::UInt(u64::MAX),
        _ => Scalar::Float(f64::NAN),
    }
}
