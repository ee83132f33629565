//! Tensors whose elements are mirror images of what is stored (`Form::Mirrored`), as operands and as targets.
//!
//! Loops read and write what is stored. So a row gets such operands as copies, and what it writes to such a target is computed
//! apart and copied over; rows that only see memory otherwise hand the mark on.

use rushlight_autograd::Tensor;
use rushlight_core::Result;

use super::{Target, call_into};
use crate::row::{Row, Run, Traits};
use crate::value::{Args, Output, Value};
use crate::variants::through_copy;

/// Whether a tensor of the call is marked, and its row would take it for what is stored.
#[cold]
pub fn concerns(args: &Args, target: &Target) -> bool {
    let plain = |tensor: &Tensor| !tensor.is_mirrored();
    let all_plain = args.all_tensors(plain) && !matches!(target, Target::Out(outs) if !outs.iter().all(plain));
    !all_plain && !hands_on(args.row)
}

#[cold]
fn hands_on(row: &Row) -> bool {
    let by_kind = matches!(row.run, Run::View(_) | Run::Views(_) | Run::Retype(_) | Run::Compose(_) | Run::Defer(_));
    by_kind || row.traits.has(Traits::SEES_MIRRORED)
}

/// Makes a call that `concerns` is true of.
#[cold]
pub fn call(args: Args, target: Target) -> Result<Output> {
    let overwrites = matches!(args.row.run, Run::Overwrite(_));
    let writes_marked = match &target {
        Target::Fresh => overwrites && args.tensor(0)?.is_mirrored(),
        Target::InPlace => args.tensor(0)?.is_mirrored(),
        Target::Out(outs) => outs.iter().any(Tensor::is_mirrored),
    };
    if writes_marked {
        return through_copy(&args, if overwrites { Target::InPlace } else { target });
    }
    call_into(all_resolved(args)?, target)
}

/// The arguments, with copies of those that are marked.
pub fn all_resolved(mut args: Args) -> Result<Args> {
    for value in &mut args.values {
        match value {
            Value::Tensors(list) => {
                for tensor in list.iter_mut().flatten() {
                    *tensor = resolved(tensor)?;
                }
            }
            value => {
                if let Some(tensor) = value.as_tensor().filter(|tensor| tensor.is_mirrored()) {
                    *value = Value::Own(resolved(tensor)?);
                }
            }
        }
    }
    Ok(args)
}

/// The tensor itself, or a copy in which what is stored is what is meant.
pub fn resolved(tensor: &Tensor) -> Result<Tensor> {
    if tensor.is_mirrored() { crate::op!(crate::convert::CLONE, tensor) } else { Ok(tensor.clone()) }
}
