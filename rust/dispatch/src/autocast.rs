//! Mixed precision: while it is on for a thread, products run in a half type, and operators that need the range in
//! float32.
//!
//! Each operator says what it does (`Operator::autocast`). What an operator that casts calls itself is not cast again.

use std::cell::Cell;

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Device, Error, Result};

use crate::args::replace_where;
use crate::interceptors::{Rest, Triggers, count_autocast_on_cuda};
use crate::operator::{Args, Autocast};
use crate::primitives::primitives;
use crate::value::{Output, Target};

/// The devices that have a mixed precision of their own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Processor {
    Host,
    Cuda,
}

impl Processor {
    /// A call with an operand on a GPU runs there.
    fn of_call(args: &Args) -> Processor {
        let cuda = args.each_tensor().any(|(_, one)| Processor::of(one) == Some(Processor::Cuda));
        if cuda { Processor::Cuda } else { Processor::Host }
    }

    fn of(tensor: &Tensor) -> Option<Processor> {
        match tensor.device() {
            Device::Cpu => Some(Processor::Host),
            Device::Cuda(_) => Some(Processor::Cuda),
            _ => None,
        }
    }
}

thread_local! {
    /// The dtype of products on the host and on CUDA devices.
    static HALF_DTYPES: Cell<[Option<DType>; 2]> = const { Cell::new([None; 2]) };
}

/// Sets the dtype of products on this thread, `None` to turn mixed precision off; returns the previous one.
pub fn set(processor: Processor, lower: Option<DType>) -> Option<DType> {
    if lower.is_some() {
        Triggers::AUTOCAST.enter();
    }
    let mut dtypes = HALF_DTYPES.get();
    let before = std::mem::replace(&mut dtypes[processor as usize], lower);
    HALF_DTYPES.set(dtypes);
    if processor == Processor::Cuda && lower.is_some() != before.is_some() {
        count_autocast_on_cuda(lower.is_some());
    }
    if before.is_some() {
        Triggers::AUTOCAST.leave(1);
    }
    before
}

/// The dtype of products on this thread, if mixed precision is on.
#[inline]
pub fn lower(processor: Processor) -> Option<DType> {
    if Triggers::AUTOCAST.is_in_use() { HALF_DTYPES.get()[processor as usize] } else { None }
}

/// Turns mixed precision off until the guard is dropped.
pub struct Disabled([Option<DType>; 2]);

/// Turns mixed precision off on this thread.
pub fn disable() -> Disabled {
    Disabled(if Triggers::AUTOCAST.is_in_use() { HALF_DTYPES.take() } else { [None; 2] })
}

impl Drop for Disabled {
    fn drop(&mut self) {
        if self.0.iter().any(Option::is_some) {
            HALF_DTYPES.set(self.0);
        }
    }
}

/// Starts the call anew with the dtypes of mixed precision, if this thread is in it and the arguments have others.
#[cold]
pub fn intercept(args: Args, target: Target, rest: Rest) -> Result<Output> {
    if let Target::Fresh = &target
        && let processor = Processor::of_call(&args)
        && let Some(lower) = lower(processor)
        && let Some((args, _off)) = cast(&args, processor, lower)?
    {
        return args.call();
    }
    rest.call(args, target)
}

/// Whether mixed precision changes an argument of this call.
pub fn changes(args: &Args) -> Result<bool> {
    let processor = Processor::of_call(args);
    let Some(lower) = lower(processor) else { return Ok(false) };
    let Some(wanted) = wanted(args, processor, lower)? else { return Ok(false) };
    Ok(args.each_tensor().any(|(_, one)| applies_to(one, processor) && one.dtype() != wanted))
}

/// Whether mixed precision casts a tensor: float64 is unchanged.
fn applies_to(tensor: &Tensor, processor: Processor) -> bool {
    tensor.dtype().is_floating() && tensor.dtype() != DType::F64 && Processor::of(tensor) == Some(processor)
}

/// The half type, unless float32 is among the arguments; another half type before it is an error.
fn promoted(args: &Args, processor: Processor, lower: DType) -> Result<DType> {
    let meet = |found: DType, tensor: &Tensor| match tensor.dtype() {
        _ if !applies_to(tensor, processor) => Ok(found),
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

/// The dtype to which the arguments of this operator are cast; `None` if it leaves them unchanged.
fn wanted(args: &Args, processor: Processor, lower: DType) -> Result<Option<DType>> {
    let rule = match processor {
        Processor::Host => args.op.autocast.cpu,
        Processor::Cuda => args.op.autocast.cuda,
    };
    Ok(match rule {
        Autocast::LowerPrecision => Some(lower),
        Autocast::Fp32 => Some(DType::F32),
        Autocast::Promote => Some(promoted(args, processor, lower)?),
        Autocast::Unchanged => None,
        Autocast::Refused([sentence, hint]) => return Err(Error::runtime(*sentence).hint(*hint)),
    })
}

/// The arguments cast for this operator, and a guard for the call; `None` if it leaves them unchanged.
fn cast<'a>(args: &Args<'a>, processor: Processor, lower: DType) -> Result<Option<(Args<'a>, Disabled)>> {
    let Some(wanted) = wanted(args, processor, lower)? else { return Ok(None) };
    let to_dtype = primitives()?.cast;
    // Begins here, so that the casts themselves are not cast.
    let disable = disable();
    let mut changed = args.clone();
    replace_where(&mut changed.values, |tensor| applies_to(tensor, processor), |tensor| to_dtype(tensor, wanted))?;
    Ok(Some((changed, disable)))
}
