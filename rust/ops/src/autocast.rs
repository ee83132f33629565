//! Mixed precision: while it is on for a thread, products run in a half type, what needs the range in float32.
//!
//! Each row says what it does (`Row::autocast`). A call looks here before its eight steps; with no thread in the mode that is
//! one relaxed load. What an operator that casts calls itself is not cast again.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Device, Error, Result};

use crate::convert::to_dtype;
use crate::value::{Args, Value};

/// Whether any thread ever turned it on: until then nobody pays for the look at the thread's own mode.
static EVER: AtomicBool = AtomicBool::new(false);

thread_local! {
    static LOWER: Cell<Option<DType>> = const { Cell::new(None) };
}

/// Sets the type that products run in on this thread, none for mixed precision being off; returns the one before.
pub fn set(lower: Option<DType>) -> Option<DType> {
    if lower.is_some() {
        EVER.store(true, Ordering::Relaxed);
    }
    LOWER.replace(lower)
}

/// The type that products run in on this thread, if mixed precision is on.
#[inline]
pub fn lower() -> Option<DType> {
    if EVER.load(Ordering::Relaxed) { LOWER.get() } else { None }
}

/// Mixed precision is off until the guard is dropped.
pub struct Off(Option<DType>);

/// Turns mixed precision off on this thread.
pub fn off() -> Off {
    Off(if EVER.load(Ordering::Relaxed) { set(None) } else { None })
}

impl Drop for Off {
    fn drop(&mut self) {
        if self.0.is_some() {
            set(self.0);
        }
    }
}

/// What mixed precision does to an operator's arguments. Which operators do which is torch's choice for CPUs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Autocast {
    Unchanged,
    /// They become the half type.
    Lower,
    /// They become float32.
    Single,
    /// They become the widest type among them.
    Widest,
}

impl Autocast {
    /// For operators of a family, of which only some need the range.
    pub const fn single_if(needed: bool) -> Autocast {
        if needed { Autocast::Single } else { Autocast::Unchanged }
    }
}

/// Whether mixed precision concerns a tensor: float64 stays as it is.
fn concerned(tensor: &Tensor) -> bool {
    tensor.dtype().is_floating() && tensor.dtype() != DType::F64 && tensor.device() == Device::Cpu
}

/// The half type, unless float32 is among the arguments; another half type before it belongs to no mixed precision.
fn widest(args: &Args, lower: DType) -> Result<DType> {
    let meet = |found: DType, tensor: &Tensor| match tensor.dtype() {
        _ if !concerned(tensor) => Ok(found),
        own if own == found => Ok(found),
        own if own == DType::F32 || found == DType::F32 => Ok(DType::F32),
        own => Err(Error::runtime("Unexpected floating ScalarType in at::autocast::prioritize").hint(format!(
            "Mixed precision computes in {} here, and one of the tensors is {}.",
            lower.name(),
            own.name()
        ))),
    };
    args.values.iter().try_fold(lower, |found, value| match value {
        Value::Tensor(tensor) => meet(found, tensor),
        Value::Own(tensor) => meet(found, tensor),
        Value::Tensors(list) => list.iter().flatten().try_fold(found, meet),
        _ => Ok(found),
    })
}

/// The arguments as mixed precision wants them for this row, and a guard for the call; none if it leaves them.
pub fn cast<'a>(args: &Args<'a>, lower: DType) -> Result<Option<(Args<'a>, Off)>> {
    let wanted = match args.row.autocast {
        Autocast::Lower => Some(lower),
        Autocast::Single => Some(DType::F32),
        Autocast::Widest => Some(widest(args, lower)?),
        Autocast::Unchanged => None,
    };
    let Some(wanted) = wanted else { return Ok(None) };
    // From here on, so that the casts are not looked at either.
    let off = off();
    let mut changed = args.clone();
    for value in &mut changed.values {
        match value {
            Value::Tensor(tensor) if concerned(tensor) => *value = Value::Own(to_dtype(tensor, wanted)?),
            Value::Own(tensor) if concerned(tensor) => *tensor = to_dtype(tensor, wanted)?,
            Value::Tensors(list) => {
                for tensor in list.iter_mut().flatten().filter(|tensor| concerned(tensor)) {
                    *tensor = to_dtype(tensor, wanted)?;
                }
            }
            _ => {}
        }
    }
    Ok(Some((changed, off)))
}
