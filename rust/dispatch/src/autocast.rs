//! Mixed precision: while it is on for a thread, products run in a half type, and operators that need the range in
//! float32.
//!
//! Each operator says what it does (`Operator::autocast`). What an operator that casts calls itself is not cast again.

use std::cell::Cell;

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Device, Error, Result};

use crate::args::replace_where;
use crate::interceptors::{Modes, Rest};
use crate::operator::{Args, Autocast};
use crate::primitives::primitives;
use crate::value::{Output, Target};

thread_local! {
    static HALF_DTYPE: Cell<Option<DType>> = const { Cell::new(None) };
}

/// Sets the dtype of products on this thread, `None` to turn mixed precision off; returns the previous one.
pub fn set(lower: Option<DType>) -> Option<DType> {
    if lower.is_some() {
        Modes::AUTOCAST.enter();
    }
    let before = HALF_DTYPE.replace(lower);
    if before.is_some() {
        Modes::AUTOCAST.leave(1);
    }
    before
}

/// The dtype of products on this thread, if mixed precision is on.
#[inline]
pub fn lower() -> Option<DType> {
    if Modes::AUTOCAST.is_in_use() { HALF_DTYPE.get() } else { None }
}

/// Turns mixed precision off until the guard is dropped.
pub struct Disabled(Option<DType>);

/// Turns mixed precision off on this thread.
pub fn disable() -> Disabled {
    Disabled(if Modes::AUTOCAST.is_in_use() { HALF_DTYPE.take() } else { None })
}

impl Drop for Disabled {
    fn drop(&mut self) {
        if self.0.is_some() {
            HALF_DTYPE.set(self.0);
        }
    }
}

/// Starts the call anew with the arguments as mixed precision wants them, where this thread is in it and wants others.
#[cold]
pub fn intercept(args: Args, target: Target, rest: Rest) -> Result<Output> {
    if let (Some(lower), Target::Fresh) = (lower(), &target)
        && let Some((args, _off)) = cast(&args, lower)?
    {
        return args.call();
    }
    rest.call(args, target)
}

/// Whether mixed precision casts a tensor: float64 is unchanged.
fn applies_to(tensor: &Tensor) -> bool {
    tensor.dtype().is_floating() && tensor.dtype() != DType::F64 && tensor.device() == Device::Cpu
}

/// The half type, unless float32 is among the arguments; another half type before it is an error.
fn promoted(args: &Args, lower: DType) -> Result<DType> {
    let meet = |found: DType, tensor: &Tensor| match tensor.dtype() {
        _ if !applies_to(tensor) => Ok(found),
        own if own == found => Ok(found),
        own if own == DType::F32 || found == DType::F32 => Ok(DType::F32),
        own => Err(Error::runtime("Unexpected floating ScalarType in at::autocast::prioritize").hint(format!(
            "Mixed precision uses {} here, but one of the tensors is {}.",
            lower.name(),
            own.name()
        ))),
    };
    args.each_tensor().try_fold(lower, |found, (_, tensor)| meet(found, tensor))
}

/// The arguments cast for this operator, and a guard for the call; `None` if it leaves them unchanged.
fn cast<'a>(args: &Args<'a>, lower: DType) -> Result<Option<(Args<'a>, Disabled)>> {
    let wanted = match args.op.autocast {
        Autocast::LowerPrecision => Some(lower),
        Autocast::Fp32 => Some(DType::F32),
        Autocast::Promote => Some(promoted(args, lower)?),
        Autocast::Unchanged => None,
    };
    let Some(wanted) = wanted else { return Ok(None) };
    let to_dtype = primitives()?.cast;
    // Begins here, so that the casts themselves are not cast.
    let disable = disable();
    let mut changed = args.clone();
    replace_where(&mut changed.values, applies_to, |tensor| to_dtype(tensor, wanted))?;
    Ok(Some((changed, disable)))
}
