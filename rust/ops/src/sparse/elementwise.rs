//! Operators on the values: functions that map zero to zero, and products and quotients.

use rushlight_autograd::sparse::layout_in_errors;
use rushlight_autograd::{SparseParts, Tensor};
use rushlight_core::alloc::list;
use rushlight_core::broadcast::broadcast;
use rushlight_core::layout::{Shape, checked_numel};
use rushlight_core::{DType, Device, Dims, Error, Result};
use rushlight_dispatch::operator::Args;
use rushlight_dispatch::sparse::unsupported;
use rushlight_dispatch::value::{Arg, Output, Value, sizes_value};
use rushlight_dispatch::{create, op};

use super::convert::{COALESCE, VALUES};
use super::indices::placed;
use super::parts::{build, empty, empty_in, entries, in_format_of, moved, parts, stored_values, taken, with_values};
use super::{coalesce, compressed};
use crate::convert::to_vec;
use crate::create::Options;
use crate::index::index_select::INDEX_SELECT;
use crate::pointwise::arith::MUL;
use crate::view::RESHAPE;
use crate::view::expand::EXPAND;

/// Applies the operator to the values of its first argument.
pub fn over_values(args: &Args, coalesced: bool) -> Result<Output> {
    use crate::convert::CLONE::*;

    let input = args.tensor(INPUT)?;
    if input.parts().is_none() {
        return on_stored(args, INPUT, args.op.python_name()).map(Output::Tensor);
    }
    let mut parts = (*parts(input, args.op.python_name())?).clone();
    if coalesced {
        parts = coalesce::coalesced(&parts, input.sizes())?;
    }
    let values = on_values(args, INPUT, &parts.values)?;
    with_values(input, &parts, values).map(Output::Tensor)
}

fn on_values(args: &Args, arg: Arg, values: &Tensor) -> Result<Tensor> {
    let mut inner = args.clone();
    inner.set(arg, Value::Own(values.detach()));
    inner.call()?.into_tensor()
}

/// Applies the operator to the stored values of an argument, which keeps its indices.
pub(super) fn on_stored(args: &Args, arg: Arg, name: &str) -> Result<Tensor> {
    let own = args.tensor(arg)?;
    with_stored(own, name, on_values(args, arg, &stored_values(own, name)?)?)
}

fn with_stored(input: &Tensor, name: &str, values: Tensor) -> Result<Tensor> {
    match input.compressed_parts() {
        Some(held) => compressed::parts::with_values(input, &held, &values),
        None => with_values(input, &*parts(input, name)?, values),
    }
}

pub fn pow(args: &Args) -> Result<Output> {
    if args.scalar(crate::pointwise::power::POW::EXPONENT)?.is_zero() {
        return Err(Error::runtime(
            "pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor dense",
        ));
    }
    over_values(args, true)
}

/// A copy; memory formats apply only to dense tensors.
pub fn clone(args: &Args) -> Result<Output> {
    if !matches!(args.optional_str(crate::convert::CLONE::MEMORY_FORMAT), None | Some("preserve_format")) {
        return Err(Error::runtime("unsupported memory format option Contiguous"));
    }
    over_values(args, false)
}

/// Whether an argument is a number, or a dense 0-d tensor.
fn is_number(args: &Args, arg: Arg) -> bool {
    args.optional_tensor(arg).is_none_or(|tensor| tensor.rank() == 0 && !tensor.is_sparse())
}

pub fn mul(args: &Args) -> Result<Output> {
    use MUL::*;

    let sparse = |arg| args.optional_tensor(arg).filter(|tensor| tensor.is_sparse());
    match (sparse(INPUT), sparse(OTHER)) {
        (Some(_), None) if is_number(args, OTHER) => on_stored(args, INPUT, "mul").map(Output::Tensor),
        (None, Some(_)) if is_number(args, INPUT) => on_stored(args, OTHER, "mul").map(Output::Tensor),
        (Some(input), None) | (None, Some(input)) => {
            let (a, b) = (args.tensor(INPUT)?, args.tensor(OTHER)?);
            times_dense(input, if input.ptr_eq(a) { b } else { a }, &broadcast(a.sizes(), b.sizes())?)
        }
        _ => times_sparse(args.tensor(INPUT)?, args.tensor(OTHER)?),
    }
}

/// The product with a dense tensor, which has the given sizes.
fn times_dense(input: &Tensor, dense: &Tensor, sizes: &[isize]) -> Result<Output> {
    if input.compressed_parts().is_some() && dense.sizes() != input.sizes() {
        return Err(Error::runtime(format!(
            "sparse_mask(): operands have incompatible sizes; self has size {} but mask has size {}",
            Shape(dense.sizes()),
            Shape(input.sizes())
        ))
        .hint("Tensors in compressed formats do not broadcast: use x.to_sparse(), or dense.expand_as(x)."));
    }
    let dense = op!(EXPAND, dense, sizes_value(sizes))?;
    let held = entries(input, "mul")?;
    let product = |held: &SparseParts| op!(MUL, &held.values, &taken(&dense, &held.indices)?);
    if input.sizes()[..] == *sizes {
        return with_values(input, &held, product(&held)?).map(Output::Tensor);
    }
    let held = repeated(&held, input.sizes(), sizes)?;
    build(sizes, SparseParts { values: product(&held)?, ..held }).map(Output::Tensor)
}

/// The entries of a tensor that is broadcast to `sizes`: repeated along new dimensions, and along sparse ones that had one
/// element. Dense dimensions are left to the product of the values.
fn repeated(held: &SparseParts, old: &[isize], sizes: &[isize]) -> Result<SparseParts> {
    let (added, count) = (sizes.len() - old.len(), held.indices.sizes()[1]);
    let rows = added + held.indices.sizes()[0] as usize;
    let repeats: Dims =
        (0..rows).map(|dim| if dim < added || old[dim - added] != sizes[dim] { sizes[dim] } else { 1 }).collect();
    let copies = checked_numel(&repeats)?;
    let stored = to_vec::<i64>(&held.indices)?;
    let mut indices = list(checked_numel(&[rows as isize, copies as isize, count])?)?;
    for dim in 0..rows {
        let inner = repeats[dim + 1..].iter().product::<isize>() as usize;
        let stored = dim.checked_sub(added).map(|row| &stored[row * count as usize..][..count as usize]);
        for copy in 0..copies {
            let place = (copy / inner % repeats[dim] as usize) as i64;
            indices.extend((0..count as usize).map(|entry| place + stored.map_or(0, |stored| stored[entry])));
        }
    }
    let mut entries = list(copies * count as usize)?;
    entries.extend((0..copies).flat_map(|_| 0..count as i64));
    let (device, shape) = (held.indices.device(), [rows as isize, (copies * count as usize) as isize]);
    Ok(SparseParts {
        indices: op!(RESHAPE, &placed(&indices, device)?, sizes_value(&shape))?,
        values: op!(INDEX_SELECT, &held.values.detach(), 0i64, &placed(&entries, device)?)?,
        coalesced: held.coalesced && repeats[added..].iter().all(|&times| times == 1),
    })
}

/// The product at the indices that both have. Dense dimensions are broadcast.
fn times_sparse(a: &Tensor, b: &Tensor) -> Result<Output> {
    let (x, y) = (entries(a, "mul")?, entries(b, "mul")?);
    let sparse_dims = x.indices.sizes()[0] as usize;
    let is_compressed = a.compressed_parts().is_some();
    if a.rank() != b.rank()
        || y.indices.sizes()[0] as usize != sparse_dims
        || a.sizes()[..sparse_dims] != b.sizes()[..sparse_dims]
        || is_compressed && a.sizes() != b.sizes()
    {
        return Err(Error::runtime(
            "sparse_binary_op_intersection_cpu(): expects sparse inputs with equal dimensionality, number of sparse dimensions, and shape of sparse dimensions",
        )
        .shapes([a.sizes().as_slice(), b.sizes().as_slice()]));
    }
    let sizes = broadcast(a.sizes(), b.sizes())?;
    let (x, y) = (coalesce::coalesced(&x, a.sizes())?, coalesce::coalesced(&y, b.sizes())?);
    let keys = |parts: &SparseParts| to_vec::<i64>(&coalesce::keys(parts, a.sizes())?);
    let (left, right) = (keys(&x)?, keys(&y)?);
    let most = left.len().min(right.len());
    let (mut i, mut j, mut of_x, mut of_y) = (0, 0, list(most)?, list(most)?);
    while i < left.len() && j < right.len() {
        let order = left[i].cmp(&right[j]);
        if order.is_eq() {
            of_x.push(i as i64);
            of_y.push(j as i64);
        }
        i += usize::from(order.is_le());
        j += usize::from(order.is_ge());
    }
    let (of_x, of_y) = (placed(&of_x, a.device())?, placed(&of_y, a.device())?);
    let values = op!(MUL, &op!(INDEX_SELECT, &x.values, 0i64, &of_x)?, &op!(INDEX_SELECT, &y.values, 0i64, &of_y)?)?;
    let indices = op!(INDEX_SELECT, &x.indices, 1i64, &of_x)?;
    let product = SparseParts { indices, values, coalesced: true };
    if is_compressed { in_format_of(a, product) } else { build(&sizes, product) }.map(Output::Tensor)
}

/// A quotient by a number.
pub fn div(args: &Args) -> Result<Output> {
    use crate::pointwise::divide::DIV::*;

    match args.optional_tensor(INPUT) {
        Some(own) if own.is_sparse() && is_number(args, OTHER) => over_values(args, false),
        _ if args.each_tensor().any(|(_, tensor)| tensor.compressed_parts().is_some()) => {
            let first = args.each_tensor().find(|(_, tensor)| tensor.is_sparse());
            let kind = first.map_or("Strided", |(_, tensor)| super::layouts::named(tensor));
            Err(Error::runtime(format!("unsupported tensor layout: {kind}")))
        }
        _ => {
            let divisor = args.tensor(OTHER)?;
            Err(Error::runtime(format!(
                "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape {} for divisor)",
                Shape(divisor.sizes())
            )))
        }
    }
}

/// The norm of all elements.
pub fn norm(args: &Args) -> Result<Output> {
    use crate::reduce::norm::NORM::*;

    let input = args.tensor(INPUT)?;
    let dims = args.optional_ints(DIM).unwrap_or(&[]);
    if input.compressed_parts().is_some() {
        return Err(match dims {
            [] => unsupported("norm.out", input),
            _ => Error::runtime(format!(
                "resize_reduction: support for output with {} layout is not implemented yet",
                input.layout_name()
            )),
        });
    }
    if !dims.is_empty() && dims.len() != input.rank() {
        return Err(Error::runtime(
            "norm_sparse currently only supports full reductions, so 'dim' must either be empty or contain all dimensions of the input",
        ));
    }
    if args.bool(KEEPDIM)? {
        return Err(Error::runtime("norm_sparse currently does not support keepdim=True"));
    }
    if args.dtype(DTYPE).is_some() {
        return Err(Error::runtime("norm_sparse currently does not support 'dtype' argument"));
    }
    if !input.dtype().is_differentiable() {
        return Err(Error::runtime(format!(
            "norm(): input dtype should be either floating point or complex. Got {} instead.",
            input.dtype().display_name()
        )));
    }
    let mut inner = args.clone();
    inner.set(INPUT, Value::Own(op!(VALUES, &op!(COALESCE, input)?)?));
    inner.set(DIM, Value::None);
    inner.call()
}

/// The values as pairs of real numbers, in a new last dimension: `view_as_real`.
pub fn view_as_real(args: &Args) -> Result<Output> {
    use crate::view::complex::VIEW_AS_REAL::*;

    let input = args.tensor(INPUT)?;
    let parts = parts(input, "view_as_real")?;
    if !input.dtype().is_complex() {
        return Err(Error::runtime("view_as_real is only supported for complex tensors"));
    }
    let sizes: Vec<isize> = input.sizes().iter().copied().chain([2]).collect();
    let values = on_values(args, INPUT, &parts.values)?;
    build(&sizes, SparseParts { values, ..(*parts).clone() }).map(Output::Tensor)
}

/// `threshold_backward`: the gradient's elements where the saved one is above the threshold.
pub fn threshold_backward(args: &Args) -> Result<Output> {
    use crate::pointwise::activation_backward::THRESHOLD_BACKWARD::*;

    let (grad, input) = (args.tensor(GRAD_OUTPUT)?, args.tensor(INPUT)?);
    let values = stored_values(input, "threshold_backward")?;
    let mut inner = args.clone();
    inner.set(GRAD_OUTPUT, Value::Own(op!(crate::create::constant::ONES_LIKE, &values)?));
    inner.set(INPUT, Value::Own(values));
    let mask = with_stored(input, "threshold_backward", inner.call()?.into_tensor()?)?;
    op!(MUL, grad, &mask).map(Output::Tensor)
}

/// `floor_divide` by a number.
pub fn floor_divide(args: &Args) -> Result<Output> {
    use crate::pointwise::divide::FLOOR_DIVIDE::*;

    match args.optional_tensor(INPUT) {
        Some(own) if own.is_sparse() && is_number(args, OTHER) => over_values(args, false),
        _ => Err(Error::runtime(format!(
            "Sparse floor division requires a scalar or zero-dim dense tensor divisor (got shape {} for divisor)",
            Shape(args.tensor(OTHER)?.sizes())
        ))),
    }
}

/// Numbers at the indices of a compressed tensor, or in all places of a dense one: `full_like`, `randn_like` and their kin.
pub fn filled_like(args: &Args) -> Result<Output> {
    let input = args.tensor(Arg::FIRST)?;
    let options = Options::of_any_layout(args)?;
    let (filler, fills_compressed) = match args.op.python_name() {
        "rand_like" => ("uniform_", false),
        "randn_like" => ("normal_", true),
        "randint_like" => ("random_.from", false),
        _ => ("fill_.Scalar", true),
    };
    let mut inner = args.clone();
    if let Some([_, layout, ..]) = args.op.schema().options {
        inner.set(layout, Value::None);
    }
    if input.compressed_parts().is_none() {
        if options.layout.as_deref() != Some("strided") {
            return Err(unsupported(filler, input));
        }
        inner.set(Arg::FIRST, Value::Own(create::empty(input.sizes(), input.dtype(), input.device())?));
        return inner.call();
    }
    check_same_layout(input, options.layout.as_deref())?;
    if !fills_compressed {
        return Err(unsupported(filler, input));
    }
    on_stored(&inner, Arg::FIRST, args.op.python_name()).map(Output::Tensor)
}

/// Returns torch's error for a compressed tensor whose kin is to have another layout.
fn check_same_layout(input: &Tensor, asked: Option<&str>) -> Result<()> {
    match asked.filter(|asked| input.compressed_parts().is_some() && *asked != input.python_layout()) {
        None => Ok(()),
        Some(asked) => Err(Error::runtime(format!(
            "empty_like with different sparse layout is not supported (self is {} but you requested {})",
            input.layout_name(),
            layout_in_errors(asked)
        ))),
    }
}

/// A tensor without entries, in another's sizes: `zeros_like`.
pub fn zeros_like(args: &Args) -> Result<Output> {
    let input = args.tensor(crate::create::constant::EMPTY_LIKE::INPUT)?;
    let options = Options::of_any_layout(args)?;
    // torch makes zeros in another sparse layout, but nothing that it leaves open.
    let asked = options.layout.as_deref();
    if asked == Some("strided") || args.op.name == "empty_like" {
        check_same_layout(input, asked)?;
    }
    let (dtype, device) = (options.dtype.unwrap_or(input.dtype()), options.device.unwrap_or(input.device()));
    let made = match options.layout.as_deref() {
        Some("strided") => create::zeros(input.sizes(), dtype, device)?,
        Some(layout) if layout != input.python_layout() => empty_in(layout, input.sizes(), dtype, device)?,
        _ => none_like(input, dtype, device)?,
    };
    options.finish(made)
}

/// A tensor without entries in the sizes and the layout of another.
fn none_like(input: &Tensor, dtype: DType, device: Device) -> Result<Tensor> {
    if let Some(held) = input.compressed_parts() {
        return compressed::parts::none(input, &held, dtype, device);
    }
    let sparse_dims = parts(input, "zeros_like")?.indices.sizes()[0] as usize;
    empty(input.sizes(), sparse_dims, dtype, device)
}

/// Casts to another dtype, or moves to another device. On `meta` a sparse tensor has no entries.
pub fn cast(args: &Args) -> Result<Output> {
    use crate::convert::TO_DTYPE::*;

    let input = args.tensor(INPUT)?;
    let (dtype, device) = (args.dtype(DTYPE).unwrap_or(input.dtype()), args.device(DEVICE).unwrap_or(input.device()));
    match (input.device(), device) {
        (from, to) if from == to => moved(input, dtype, device),
        (Device::Meta, _) => Err(Error::not_implemented("Cannot copy out of meta tensor; no data!")),
        (_, Device::Meta) => none_like(input, dtype, device),
        _ => moved(input, dtype, device),
    }
    .map(Output::Tensor)
}
