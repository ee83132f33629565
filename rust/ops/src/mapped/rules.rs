//! How rows take a first dimension of samples, by kind.

use rushlight_autograd::Tensor;
use rushlight_core::layout::wrap_dim;
use rushlight_core::{Dims, Result};

use super::each::replaced;
use super::{Batch, Mapped};
use crate::call::{Target, call, call_into, common_dtype_of};
use crate::convert::to_dtype;
use crate::op;
use crate::row::{Promote, Run};
use crate::signature::Kind;
use crate::value::{Args, Ints, Output, Value};
use crate::view::expand::EXPAND;
use crate::view::reshape::sizes_value;

/// The results with the samples along a first dimension; nothing where each sample has to run alone.
pub fn apply(batch: &Batch) -> Result<Option<Output>> {
    let args = batch.args;
    match super::way(args) {
        Mapped::Each | Mapped::EachIf(_) | Mapped::Instead(_) => Ok(None),
        Mapped::ByKind if matches!(args.row.run, Run::Pointwise(_)) => call(aligned(batch)?).map(Some),
        Mapped::ByKind => Ok(None),
        Mapped::Aligned => call(aligned(batch)?).map(Some),
        Mapped::Batch => call(replaced(args, |tensor| Ok(batch.shown(tensor)))?).map(Some),
        Mapped::Items if batch.size == 0 => Ok(None),
        Mapped::Items => items(batch).map(Some),
        Mapped::Along(place) | Mapped::Over(place) if args.all_tensors(|tensor| tensor.rank() == 0) => {
            lone(batch, place)
        }
        Mapped::Along(place) => along(batch, place)?.map(call).transpose(),
        Mapped::Over(place) => over(batch, place)?.map(call).transpose(),
        Mapped::Whole(row) => whole(batch, row).map(Some),
        Mapped::Shape => shape(batch).map(Some),
        Mapped::Refused(error) => Err(error(args.row)),
        Mapped::Rule(rule) => rule(batch),
    }
}

/// Whether the whole batch was changed at once.
pub fn in_place(batch: &Batch) -> Result<bool> {
    let args = batch.args;
    let changed = match (super::way(args), &args.row.run) {
        (Mapped::ByKind, Run::Pointwise(_)) | (Mapped::Aligned, _) => {
            // An operand of more dimensions is refused in a sample's words.
            let own = args.tensor(0)?;
            for (_, tensor) in args.each_tensor().skip(1) {
                tensor.layout().broadcast_to(own.sizes())?;
            }
            Some(aligned(batch)?)
        }
        (Mapped::Batch, _) => Some(replaced(args, |tensor| Ok(batch.shown(tensor)))?),
        (Mapped::Along(place), _) => along(batch, place)?,
        (Mapped::Rule(rule), Run::Update(_)) => {
            let Some(made) = rule(batch)? else { return Ok(false) };
            let own = args.tensor(0)?;
            crate::copy::copy(&batch.shown(own), &made.into_tensor()?)?;
            return Ok(true);
        }
        _ => None,
    };
    let Some(changed) = changed else { return Ok(false) };
    let target = if matches!(args.row.run, Run::Overwrite(_)) { Target::Fresh } else { Target::InPlace };
    call_into(changed, target).map(|_| true)
}

/// Operands that broadcast as those of a sample do: ones stand between the samples and an operand's own dimensions. A
/// sample without dimensions is a number among tensors, and stays one where dtypes meet.
pub fn aligned<'a>(batch: &Batch<'_, 'a>) -> Result<Args<'a>> {
    let args = batch.args;
    let rank = args.each_tensor().map(|(_, tensor)| tensor.rank()).max().unwrap_or(0);
    let common = match &args.row.run {
        Run::Pointwise(body) => common_dtype_of(args, body.promote == Promote::WithNumbers)?,
        _ => None,
    };
    let mut aligned = replaced(args, |tensor| {
        let shown = match tensor.axis(batch.level) {
            // One of more dimensions needs no first one.
            None if tensor.rank() > 0 || rank > 0 => return Ok(tensor.clone()),
            None => Tensor::with_meta(tensor.meta_with(tensor.layout().unsqueeze(0))),
            Some(_) => spread(&batch.shown(tensor), rank),
        };
        match common {
            Some(common) if tensor.rank() == 0 && rank > 0 => to_dtype(&shown, common),
            _ => Ok(shown),
        }
    })?;
    if let Run::Update(_) = args.row.run {
        // What changes has every sample.
        aligned.values[0] = Value::Own(spread(&batch.tensor(0)?, rank));
    }
    Ok(aligned)
}

/// Ones behind the first dimension, so that `rank` dimensions follow it.
pub fn spread(shown: &Tensor, rank: usize) -> Tensor {
    let mut layout = shown.layout().clone();
    while layout.rank() < rank + 1 {
        layout = layout.unsqueeze(1);
    }
    Tensor::with_meta(shown.meta_with(layout))
}

/// The first two dimensions as one.
pub fn joined(shown: &Tensor) -> Result<Tensor> {
    let mut sizes = shown.sizes()[1..].to_vec();
    sizes[0] *= shown.sizes()[0];
    op!(crate::view::RESHAPE, shown, sizes_value(&sizes))
}

/// The first dimension as two, of which the first has this size.
pub fn parted(whole: &Tensor, size: isize) -> Result<Tensor> {
    let mut sizes = vec![size, whole.sizes()[0] / size.max(1)];
    sizes.extend_from_slice(&whole.sizes()[1..]);
    op!(crate::view::RESHAPE, whole, sizes_value(&sizes))
}

/// A row of items, with the samples' items one after the other.
fn items(batch: &Batch) -> Result<Output> {
    let output = call(replaced(batch.args, |tensor| joined(&batch.shown(tensor)))?)?;
    super::each_tensor(output, |whole| parted(&whole, batch.size))
}

/// The argument at a place that names dimensions, for tensors with one more in front.
fn shifted(args: &Args, place: usize, rank: usize) -> Result<Value<'static>> {
    let shift = |dim: i64| wrap_dim(dim, rank).map(|dim| dim as i64 + 1);
    Ok(match (args.optional_ints(place), args.optional_int(place)) {
        (Some(list), _) => Value::Ints(list.iter().map(|&dim| shift(dim)).collect::<Result<Ints>>()?),
        (None, Some(dim)) => match args.row.schema().params[place].kind {
            Kind::Ints | Kind::IntOrInts => Value::Ints(Ints::from_slice(&[shift(dim)?])),
            _ => Value::Int(shift(dim)?),
        },
        (None, None) => Value::None,
    })
}

/// A row along dimensions that an argument names.
fn along<'a>(batch: &Batch<'_, 'a>, place: usize) -> Result<Option<Args<'a>>> {
    let rank = batch.args.each_tensor().map(|(_, tensor)| tensor.rank()).max().unwrap_or(0);
    let ranks_differ = batch.args.each_tensor().any(|(_, tensor)| tensor.rank() != rank);
    if ranks_differ || rank == 0 || matches!(batch.args.values[place], Value::None) {
        return Ok(None);
    }
    let mut args = replaced(batch.args, |tensor| Ok(batch.shown(tensor)))?;
    args.values[place] = shifted(batch.args, place, rank)?;
    Ok(Some(args))
}

/// The same for samples without dimensions, which count as having one.
fn lone(batch: &Batch, place: usize) -> Result<Option<Output>> {
    let mut args = replaced(batch.args, |tensor| Ok(spread(&batch.shown(tensor), 1)))?;
    args.values[place] = match args.row.schema().params[place].kind {
        Kind::Ints | Kind::IntOrInts => Value::Ints(Ints::from_slice(&[1])),
        _ => Value::Int(1),
    };
    let output = call(args)?;
    if output.tensors().iter().any(|all| all.numel() != batch.size as usize) {
        return Ok(None);
    }
    super::each_tensor(output, |all| op!(crate::view::RESHAPE, all, sizes_value(&[batch.size]))).map(Some)
}

/// A row that takes away dimensions that an argument names, or all.
fn over<'a>(batch: &Batch<'_, 'a>, place: usize) -> Result<Option<Args<'a>>> {
    let rank = batch.args.tensor(0)?.rank();
    if rank == 0 {
        return Ok(None);
    }
    let kind = batch.args.row.schema().params[place].kind;
    let named = match batch.args.optional_ints(place) {
        Some(list) => !list.is_empty(),
        None => batch.args.optional_int(place).is_some(),
    };
    if named {
        return along(batch, place);
    }
    let mut args = replaced(batch.args, |tensor| Ok(batch.shown(tensor)))?;
    if matches!(kind, Kind::Ints | Kind::IntOrInts) {
        args.values[place] = Value::Ints((1..=rank as i64).collect());
        return Ok(Some(args));
    }
    // Places are counted through all elements.
    if batch.args.optional_bool(place + 1) == Some(true) {
        return Ok(None);
    }
    args.values[0] = Value::Own(flattened(&batch.tensor(0)?)?);
    args.values[place] = Value::Int(1);
    Ok(Some(args))
}

/// The elements of each sample in a row.
fn flattened(shown: &Tensor) -> Result<Tensor> {
    let count: isize = shown.sizes()[1..].iter().product();
    op!(crate::view::RESHAPE, shown, sizes_value(&[shown.sizes()[0], count]))
}

/// A row that takes all dimensions away, by one that takes some.
fn whole(batch: &Batch, row: &'static crate::Row) -> Result<Output> {
    let shown = batch.tensor(0)?;
    let several = matches!(row.schema().params[1].kind, Kind::Ints | Kind::IntOrInts);
    let (shown, dims) = match shown.rank() {
        1 => (spread(&shown, 1), 1),
        rank if several => (shown, rank - 1),
        _ => (flattened(&shown)?, 1),
    };
    let dims = if several { Value::Ints((1..=dims as i64).collect()) } else { Value::Int(1) };
    let mut args = Args::new(row, [shown.into(), dims]);
    if let (Some(from), Some(to)) = (batch.args.row.schema().place("dtype"), row.schema().place("dtype")) {
        args.values[to] = batch.args.values[from].clone();
    }
    Ok(match call(args)? {
        Output::Tuple(list) => Output::Tensor(list[0].clone()),
        other => other,
    })
}

/// What a sample's shape gives, with memory for every sample.
fn shape(batch: &Batch) -> Result<Output> {
    let plain = replaced(batch.args, |tensor| {
        let meta = tensor.meta_with(tensor.layout().clone()).with_axes([]);
        Ok(Tensor::with_meta(meta))
    })?;
    let mut axes: Vec<_> = batch.args.each_tensor().flat_map(|(_, tensor)| tensor.axes().to_vec()).collect();
    axes.sort_unstable_by_key(|axis| axis.level);
    axes.dedup_by_key(|axis| axis.level);
    let made = call(plain)?.into_tensor()?;
    let mut sizes: Dims = axes.iter().map(|axis| axis.size).collect();
    sizes.extend_from_slice(made.sizes());
    let whole = crate::copy::clone(&op!(EXPAND, &made, sizes_value(&sizes))?)?;
    // All but the innermost are hidden here, from the outermost on.
    let outer = axes.iter().filter(|axis| axis.level != batch.level).copied().collect::<Vec<_>>();
    Ok(Output::Tensor(super::all_hidden(&whole, &outer)))
}
