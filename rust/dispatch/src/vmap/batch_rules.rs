//! How operators handle a leading batch dimension, by kind.

use rushlight_autograd::Tensor;
use rushlight_core::layout::wrap_dim;
use rushlight_core::{Dims, Result};

use super::batched_call::effective_rule;
use super::physical::all_logical;
use crate::call::pointwise_operands::common_dtype_of;
use crate::copy;
use crate::operator::{Args, BatchRule, BatchedCall, Implementation, Operator, Promote};
use crate::primitives::primitives;
use crate::signature::Kind;
use crate::value::{Arg, Ints, Output, Target, Value, sizes_value};

/// The results with the batch dimension first; `None` if each sample must run separately.
pub fn apply(batch: &BatchedCall) -> Result<Option<Output>> {
    let args = batch.args;
    match effective_rule(args) {
        BatchRule::Fallback | BatchRule::FallbackIf(_) | BatchRule::Substitute(_) => Ok(None),
        BatchRule::Default if matches!(args.op.implementation, Implementation::Pointwise(_)) => {
            broadcast_operands(batch)?.call().map(Some)
        }
        BatchRule::Default => Ok(None),
        BatchRule::Broadcast => broadcast_operands(batch)?.call().map(Some),
        BatchRule::LeadingDims => args.replaced(|tensor| Ok(batch.physical(tensor)))?.call().map(Some),
        BatchRule::Items if batch.size == 0 => Ok(None),
        BatchRule::Items => items(batch).map(Some),
        BatchRule::Along(place) | BatchRule::Over(place) if args.all_tensors(|tensor| tensor.rank() == 0) => {
            for_scalars(batch, place)
        }
        BatchRule::Along(place) => along(batch, place)?.map(Args::call).transpose(),
        BatchRule::Over(place) => over(batch, place)?.map(Args::call).transpose(),
        BatchRule::FullReduction(op) => whole(batch, op).map(Some),
        BatchRule::ShapeOnly => shape(batch).map(Some),
        BatchRule::Unsupported(error) => Err(error(args.op)),
        BatchRule::Custom(rule) => rule(batch),
    }
}

/// Whether the whole batch was changed at once.
pub fn in_place(batch: &BatchedCall) -> Result<bool> {
    let args = batch.args;
    let changed = match (effective_rule(args), &args.op.implementation) {
        (BatchRule::Default, Implementation::Pointwise(_)) | (BatchRule::Broadcast, _) => {
            // The error for an operand of more dimensions is raised with a sample's shapes.
            let input = args.tensor(Arg::FIRST)?;
            for (_, tensor) in args.each_tensor().skip(1) {
                tensor.layout().broadcast_to(input.sizes())?;
            }
            Some(broadcast_operands(batch)?)
        }
        (BatchRule::LeadingDims, _) => Some(args.replaced(|tensor| Ok(batch.physical(tensor)))?),
        (BatchRule::Along(place), _) => along(batch, place)?,
        (BatchRule::Custom(rule), Implementation::Update(_)) => {
            let Some(made) = rule(batch)? else { return Ok(false) };
            let input = args.tensor(Arg::FIRST)?;
            copy::copy(&batch.physical(input), &made.into_tensor()?)?;
            return Ok(true);
        }
        _ => None,
    };
    let Some(changed) = changed else { return Ok(false) };
    let target =
        if matches!(args.op.implementation, Implementation::InPlaceFill(_)) { Target::Fresh } else { Target::InPlace };
    changed.call_into(target).map(|_| true)
}

/// Operands that broadcast like those of a sample: dimensions of size one are inserted between the batch dimension and
/// an operand's own. A 0-d sample is a number in promotion, and stays one.
pub fn broadcast_operands<'a>(batch: &BatchedCall<'_, 'a>) -> Result<Args<'a>> {
    let args = batch.args;
    let rank = args.each_tensor().map(|(_, tensor)| tensor.rank()).max().unwrap_or(0);
    let common = match &args.op.implementation {
        Implementation::Pointwise(body) => common_dtype_of(args, body.promote == Promote::WithNumbers)?,
        _ => None,
    };
    let mut aligned = args.replaced(|tensor| {
        let physical = match tensor.batch_dim(batch.level) {
            // An operand with dimensions that is not batched needs no batch dimension.
            None if tensor.rank() > 0 || rank > 0 => return Ok(tensor.clone()),
            None => Tensor::with_meta(tensor.meta_with(tensor.layout().unsqueeze(0))),
            Some(_) => unsqueeze_to_rank(&batch.physical(tensor), rank),
        };
        match common {
            Some(common) if tensor.rank() == 0 && rank > 0 => (primitives()?.cast)(&physical, common),
            _ => Ok(physical),
        }
    })?;
    if let Implementation::Update(_) = args.op.implementation {
        // The tensor that changes has every sample.
        aligned.set(Arg::FIRST, Value::Own(unsqueeze_to_rank(&batch.tensor(Arg::FIRST)?, rank)));
    }
    Ok(aligned)
}

/// Inserts dimensions of size one after the first, so that `rank` dimensions follow it.
pub fn unsqueeze_to_rank(physical: &Tensor, rank: usize) -> Tensor {
    let mut layout = physical.layout().clone();
    while layout.rank() < rank + 1 {
        layout = layout.unsqueeze(1);
    }
    Tensor::with_meta(physical.meta_with(layout))
}

fn reshaped(tensor: &Tensor, sizes: &[isize]) -> Result<Tensor> {
    primitives()?.reshape.tensor([tensor.into(), sizes_value(sizes)])
}

/// The first two dimensions joined into one.
pub fn merge_batch(physical: &Tensor) -> Result<Tensor> {
    let mut sizes = physical.sizes()[1..].to_vec();
    sizes[0] *= physical.sizes()[0];
    reshaped(physical, &sizes)
}

/// The first dimension split in two, of which the first has this size.
pub fn split_batch(whole: &Tensor, size: isize) -> Result<Tensor> {
    let mut sizes = vec![size, whole.sizes()[0] / size.max(1)];
    sizes.extend_from_slice(&whole.sizes()[1..]);
    reshaped(whole, &sizes)
}

/// An operator on items, with the samples' items concatenated.
fn items(batch: &BatchedCall) -> Result<Output> {
    let output = batch.args.replaced(|tensor| merge_batch(&batch.physical(tensor)))?.call()?;
    output.map(|whole| split_batch(&whole, batch.size))
}

/// An argument that selects dimensions, for tensors with an additional first dimension.
fn shifted(args: &Args, arg: Arg, rank: usize) -> Result<Value<'static>> {
    let shift = |dim: i64| wrap_dim(dim, rank).map(|dim| dim as i64 + 1);
    Ok(match args.value(arg) {
        Value::Ints(list) => Value::Ints(list.iter().map(|&dim| shift(dim)).collect::<Result<Ints>>()?),
        Value::Int(dim) => match args.param(arg).kind {
            Kind::Ints | Kind::IntOrInts => Value::Ints(Ints::from_slice(&[shift(*dim)?])),
            _ => Value::Int(shift(*dim)?),
        },
        _ => Value::None,
    })
}

/// An operator along the dimensions in an argument.
fn along<'a>(batch: &BatchedCall<'_, 'a>, arg: Arg) -> Result<Option<Args<'a>>> {
    let rank = batch.args.each_tensor().map(|(_, tensor)| tensor.rank()).max().unwrap_or(0);
    let ranks_differ = batch.args.each_tensor().any(|(_, tensor)| tensor.rank() != rank);
    if ranks_differ || rank == 0 || !batch.args.has(arg) {
        return Ok(None);
    }
    let mut args = batch.args.replaced(|tensor| Ok(batch.physical(tensor)))?;
    args.set(arg, shifted(batch.args, arg, rank)?);
    Ok(Some(args))
}

/// The same for 0-d samples, which count as having one dimension.
fn for_scalars(batch: &BatchedCall, arg: Arg) -> Result<Option<Output>> {
    let mut args = batch.args.replaced(|tensor| Ok(unsqueeze_to_rank(&batch.physical(tensor), 1)))?;
    let along = match args.param(arg).kind {
        Kind::Ints | Kind::IntOrInts => Value::Ints(Ints::from_slice(&[1])),
        _ => Value::Int(1),
    };
    args.set(arg, along);
    let output = args.call()?;
    if output.tensors().iter().any(|all| all.numel() != batch.size as usize) {
        return Ok(None);
    }
    output.map(|all| reshaped(&all, &[batch.size])).map(Some)
}

/// An operator that reduces the dimensions in an argument, or all.
fn over<'a>(batch: &BatchedCall<'_, 'a>, arg: Arg) -> Result<Option<Args<'a>>> {
    let rank = batch.args.tensor(Arg::FIRST)?.rank();
    if rank == 0 {
        return Ok(None);
    }
    let named = match batch.args.value(arg) {
        Value::Ints(list) => !list.is_empty(),
        value => matches!(value, Value::Int(_)),
    };
    if named {
        return along(batch, arg);
    }
    let mut args = batch.args.replaced(|tensor| Ok(batch.physical(tensor)))?;
    if matches!(args.param(arg).kind, Kind::Ints | Kind::IntOrInts) {
        args.set(arg, Value::Ints((1..=rank as i64).collect()));
        return Ok(Some(args));
    }
    // Indices count through all elements.
    let keepdim = args.op.schema().arg("keepdim");
    if keepdim.is_some_and(|arg| args.optional_bool(arg) == Some(true)) {
        return Ok(None);
    }
    args.set(Arg::FIRST, Value::Own(flattened(&batch.tensor(Arg::FIRST)?)?));
    args.set(arg, Value::Int(1));
    Ok(Some(args))
}

/// The flattened elements of each sample.
fn flattened(physical: &Tensor) -> Result<Tensor> {
    let count: isize = physical.sizes()[1..].iter().product();
    reshaped(physical, &[physical.sizes()[0], count])
}

/// An operator that reduces all dimensions, implemented by one that reduces some.
fn whole(batch: &BatchedCall, op: &'static Operator) -> Result<Output> {
    let physical = batch.tensor(Arg::FIRST)?;
    let several = matches!(op.schema().params[1].kind, Kind::Ints | Kind::IntOrInts);
    let (physical, dims) = match physical.rank() {
        1 => (unsqueeze_to_rank(&physical, 1), 1),
        rank if several => (physical, rank - 1),
        _ => (flattened(&physical)?, 1),
    };
    let dims = if several { Value::Ints((1..=dims as i64).collect()) } else { Value::Int(1) };
    let mut args = Args::new(op, [physical.into(), dims]);
    if let (Some(from), Some(to)) = (batch.args.op.schema().arg("dtype"), op.schema().arg("dtype")) {
        args.set(to, batch.args.value(from).clone());
    }
    Ok(match args.call()? {
        Output::Tuple(list) => Output::Tensor(list[0].clone()),
        other => other,
    })
}

/// A result that depends on a sample's shape, with memory for every sample.
fn shape(batch: &BatchedCall) -> Result<Output> {
    let plain = batch.args.replaced(|tensor| {
        let meta = tensor.meta_with(tensor.layout().clone()).with_batch_dims([]);
        Ok(Tensor::with_meta(meta))
    })?;
    let mut batch_dims: Vec<_> =
        batch.args.each_tensor().flat_map(|(_, tensor)| tensor.batch_dims().to_vec()).collect();
    batch_dims.sort_unstable_by_key(|batch_dim| batch_dim.level);
    batch_dims.dedup_by_key(|batch_dim| batch_dim.level);
    let made = plain.call()?.into_tensor()?;
    let mut sizes: Dims = batch_dims.iter().map(|batch_dim| batch_dim.size).collect();
    sizes.extend_from_slice(made.sizes());
    let whole = copy::clone(&primitives()?.expand.tensor([(&made).into(), sizes_value(&sizes)])?)?;
    // All but the innermost are hidden here, from the outermost on.
    let outer = batch_dims.iter().filter(|batch_dim| batch_dim.level != batch.level).copied().collect::<Vec<_>>();
    Ok(Output::Tensor(all_logical(&whole, &outer)))
}
