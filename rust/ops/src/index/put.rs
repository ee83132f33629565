//! Writing by indices: of several values for one element the last one wins, or they are added.

use rushlight_autograd::Tensor;
use rushlight_core::index::gathered;
use rushlight_core::{DType, Device, Dims, Error, Layout, Result};
use rushlight_cpu::index::scatter::{ScatterKernels, ScatterOp};
use rushlight_cpu::index::{Frame, Source};
use rushlight_cuda::indexed::Column;
use rushlight_dispatch::call::errors::with_context;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Args, Autocast, BatchRule, BatchedCall, DTypes, Derivative, Implementation, Operator, Saves, Tags, Update,
    Variants, formula, operator,
};
use rushlight_dispatch::value::{Arg, Ints, Output, Target, sizes_value};
use rushlight_dispatch::vmap::RuleResult;
use rushlight_dispatch::{copy, create, op, overlap};

use super::geometry::{IndexGeometry, check_not_empty_dims, common, value_shape_error};
use super::get::{Places, indices, permuted};
use super::last_writes::of_last_writes;
use super::masks::{prepare, refuse_bytes};
use super::on_cuda;
use crate::view::expand::EXPAND;

/// The operator behind `x[i, j] = v` and `index_put`.
#[operator]
pub static INDEX_PUT_DIMS: Operator = Operator {
    name: "_index_put",
    variants: Variants::FUNCTION.union(Variants::INPLACE),
    signature: "(Tensor self, Tensor[] indices, int[] dims, Tensor values, bool accumulate=False) -> Tensor",
    doc: "Writes or adds `values` at `indices` into the dimensions `dims`.

    >>> torch._index_put(torch.zeros(3), (torch.tensor([0, 0]),), (0,), torch.tensor([1., 2.]), True)
    tensor([3., 0., 0.])",
    dtypes: DTypes::ALL,
    tags: Tags::WRITES_EXPANDED,
    batch_rule: BatchRule::Custom(batched_index_put),
    implementation: Implementation::Update(Update::on_any_device(
        |args| {
            let (input, values) = (args.tensor(INPUT)?, args.tensor(VALUES)?);
            check_dtypes(input, values)?;
            let cut = IndexGeometry::new(input, &args.tensors(INDICES)?, args.ints(DIMS)?)?;
            check_not_empty_dims(input, &cut.dims, &cut.common)?;
            if values.layout().broadcast_to(&cut.sizes(input)).is_err() {
                return Err(value_shape_error(values, input, &cut.dims, &cut.common));
            }
            Ok(())
        },
        |args, target| {
            let cut = IndexGeometry::new(target, &args.tensors(INDICES)?, args.ints(DIMS)?)?;
            // Threads divide the dimensions without an index, so their elements must not overlap.
            if target.layout().expanded().any(|dim| !cut.dims.contains(&dim)) {
                overlap::check_no_self_overlap(target)?;
            }
            let merge = if args.bool(ACCUMULATE)? { ScatterOp::Add } else { ScatterOp::Set };
            put_into(target, &cut, args.tensor(VALUES)?, merge)
        },
    )),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(INDICES), |d| {
            if d.flag(ACCUMULATE) {
                return d.grad();
            }
            match (indices(d), d.grad()) {
                (Ok((indices, dims)), Expr::Tensor(grad)) => {
                    let zero = create::scalar_of(rushlight_core::Scalar::ZERO, grad.dtype(), grad.device());
                    Expr::new(zero.and_then(|zero| op!(INDEX_PUT_DIMS, grad, indices, dims, zero)))
                }
                (Err(error), _) => Expr::failed(error),
                (_, grad) => grad,
            }
        }),
        formula(VALUES, Saves::input(INDICES), |d| match (indices(d), d.grad()) {
            (Ok((indices, dims)), Expr::Tensor(grad)) => {
                let own = Expr::new(op!(super::INDEX, grad, indices.clone(), dims.clone()));
                if d.flag(ACCUMULATE) {
                    return own;
                }
                of_last_writes(
                    d,
                    own,
                    |zeros, numbers| op!(INDEX_PUT_DIMS, zeros, indices.clone(), dims.clone(), numbers),
                    |written| op!(super::INDEX, written, indices.clone(), dims.clone()),
                )
            }
            (Err(error), _) => Expr::failed(error),
            (_, grad) => grad,
        }),
    ]),
    samples: &[
        "t(4, 3), (torch.tensor([3, 1]),), (0,), t(2, 3)",
        "t(4, 3), (i(4, 6),), (0,), t(3), True",
        "t(4, 3, 2), (i(4, 5), i(2, 5)), (0, 2), t(5, 3), True",
    ],
    ..Operator::BASE
};

fn check_dtypes(input: &Tensor, values: &Tensor) -> Result<()> {
    if input.dtype() == values.dtype() {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "Index put requires the source and destination dtypes match, got {} for the destination and {} for the source.",
        input.dtype().display_name(),
        values.dtype().display_name()
    ))
    .hint(format!("Convert the values: v.to({}).", input.dtype())))
}

/// Merges values, which broadcast, into a tensor.
pub fn put_into(target: &Tensor, cut: &IndexGeometry, values: &Tensor, merge: ScatterOp) -> Result<()> {
    // The loops move bytes, so source and target must have the same width.
    if values.dtype() != target.dtype() {
        let (values, target) = (values.dtype().display_name(), target.dtype().display_name());
        return Err(Error::runtime(format!("values of dtype {values} cannot be put into a tensor of dtype {target}")));
    }
    let sizes = cut.sizes(target);
    if sizes.contains(&0) {
        return Ok(());
    }
    let on_device = matches!(target.device(), Device::Cuda(_));
    let offsets = if on_device { Vec::new() } else { cut.offsets(target)? };
    let places = if on_device { Some(cut.offsets_on_cuda(target)?) } else { None };
    let wide = values.layout().broadcast_to(&sizes)?;
    let n: isize = cut.common.iter().product();
    let plain;
    let (mut frame, middle) = cut.source(&wide);
    let (values, step) = match middle.view_strides(&[n]) {
        Some(strides) => (values, strides[0]),
        None => {
            plain = create::empty(&sizes, values.dtype(), values.device())?;
            copy::copy(&plain, values)?;
            frame = cut.source(&Layout::contiguous(&sizes)).0;
            let after: isize = frame.after.sizes.iter().product();
            (&plain, after)
        }
    };
    let width = target.dtype().size();
    if let Some(places) = places {
        let Frame { before, after } = cut.frame(target.layout());
        let column = Column {
            length: n as usize,
            scale: 1,
            value_step: step.wrapping_mul(width as isize),
            place_step: size_of::<i64>() as isize,
        };
        let (to, from) = (joined(&before, &after), joined(&frame.before, &frame.after));
        let mut still = Layout { offset: places.layout().offset, ..to.clone() };
        still.strides.fill(0);
        return on_cuda::merge((target, &to), (values, &from), (&places, &still), merge, column);
    }
    let (to, from) = (target.storage().pin()?, values.storage().pin()?);
    let source = Source { pointer: from.as_ptr(), frame, step: step.wrapping_mul(width as isize) };
    let kernels = ScatterKernels::new(merge, target.dtype());
    // SAFETY: offsets were checked, layouts stay within their storages, and both dtypes are the same.
    unsafe { rushlight_cpu::index::put(to.as_ptr(), &cut.frame(target.layout()), &offsets, &source, kernels, width) };
    Ok(())
}

/// The layouts of the dimensions before and after an index as one.
fn joined(before: &Layout, after: &Layout) -> Layout {
    let both = |a: &[isize], b: &[isize]| Dims::from_slice(&[a, b].concat());
    Layout {
        sizes: both(&before.sizes, &after.sizes),
        strides: both(&before.strides, &after.strides),
        offset: before.offset + after.offset,
    }
}

/// Writes in place, recorded.
pub fn put_(input: &Tensor, indices: Vec<Tensor>, dims: Ints, values: &Tensor, accumulate: bool) -> Result<()> {
    let args =
        Args::new(&INDEX_PUT_DIMS, [input.into(), indices.into(), dims.into(), values.into(), accumulate.into()]);
    args.call_into(Target::InPlace).map(drop)
}

/// The arguments of `index_put` in the form of `INDEX_PUT_DIMS`; torch's list may be shorter than the dimensions.
fn arguments<'a>(args: &Args<'a>) -> Result<Args<'a>> {
    use INDEX_PUT::*;

    let input = args.tensor(INPUT)?;
    let given: Vec<Tensor> = args.tensors(INDICES)?.into_iter().cloned().collect();
    let mut dim = 0;
    let mut dims = Vec::with_capacity(given.len());
    for index in &given {
        dims.push(dim);
        let mask = matches!(index.dtype(), DType::Bool | DType::U8);
        dim += if mask { index.rank() } else { 1 };
    }
    if dim.max(given.len()) > input.rank() {
        return Err(Error::index(format!(
            "too many indices for tensor of dimension {} (got {})",
            input.rank(),
            given.len()
        ))
        .hint("Use at most one index per dimension; a mask counts once for each of its dimensions."));
    }
    let (mut values, accumulate) = (args.tensor(VALUES)?, args.bool(ACCUMULATE)?);
    let moved;
    if values.rank() == 0 && values.device() == Device::Cpu && matches!(input.device(), Device::Cuda(_)) {
        moved = crate::convert::to_device(values, input.device())?;
        values = &moved;
    }
    // A single number with one mask is cast to the tensor's dtype, as with `masked_fill`, whatever its rank.
    let by_mask = !accumulate && values.numel() == 1 && given.len() == 1 && given[0].dtype() == DType::Bool;
    if !accumulate && values.numel() == 1 {
        refuse_bytes(input, &given, &dims)?;
    }
    let mut values = if by_mask {
        if values.dtype() != input.dtype() && !values.is_batched() {
            create::check_fits(crate::convert::item(values)?, input.dtype())?;
        }
        let single = op!(crate::view::RESHAPE, values, Ints::new())?;
        crate::convert::to_dtype(&single, input.dtype())?
    } else {
        values.clone()
    };
    let mut nowhere = false;
    for mask in given.iter().filter(|index| index.rank() == 0 && matches!(index.dtype(), DType::Bool | DType::U8)) {
        nowhere |= !mask.is_batched() && !crate::convert::item(mask)?.truth();
    }
    let (mut indices, mut dims) = prepare(input, given, &dims)?;
    if nowhere {
        // A mask without dimensions has no coordinates that could be empty: the tensor's own values are written.
        check_dtypes(input, &values)?;
        let cut = IndexGeometry::new(input, &indices.iter().collect::<Vec<_>>(), &dims)?;
        if values.layout().broadcast_to(&cut.sizes(input)).is_err() {
            return Err(value_shape_error(&values, input, &cut.dims, &cut.common));
        }
        (indices, dims) = (Vec::new(), Ints::new());
        values = if accumulate {
            op!(crate::create::constant::ZEROS_LIKE, input)?
        } else {
            op!(crate::convert::CLONE, input)?
        };
    }
    Ok(Args::new(
        &INDEX_PUT_DIMS,
        [args.value(Arg::FIRST).clone(), indices.into(), dims.into(), values.into(), accumulate.into()],
    ))
}

#[operator]
pub static INDEX_PUT: Operator = Operator {
    name: "index_put",
    variants: Variants::BOTH.union(Variants::INPLACE).union(Variants::INPLACE_FUNCTION),
    signature: "(Tensor self, Tensor[] indices, Tensor values, bool accumulate=False) -> Tensor",
    doc: "A copy with `values` written or added at a tuple of index tensors.

    >>> torch.index_put(torch.zeros(3), (torch.tensor([0, 2]),), torch.tensor([1., 2.]))
    tensor([1., 0., 2.])",
    dtypes: DTypes::ALL,
    tags: Tags::DATA_DEPENDENT,
    implementation: Implementation::Delegate(|args| {
        arguments(&args).map_err(|error| with_context(error, &args, false))
    }),
    derivative: Derivative::CompositeImplicit,
    autocast: Autocast::Promote.on_cuda_alone(),
    samples: &[
        "t(4, 3), (torch.tensor([2, 0]),), t(2, 3)",
        "t(4, 3), (i(4, 6), i(3, 6)), t(6), True",
        "t(4), (b(4),), t(1)",
    ],
    errors: &[
        ("t(3), (i(3, 2), i(3, 2)), t(2)", "IndexError", "too many indices for tensor of dimension 1 (got 2)"),
        (
            "t(3), (i(3, 2),), t(3)",
            "RuntimeError",
            "shape mismatch: value tensor of shape [3] cannot be broadcast to indexing result of shape [2]",
        ),
        ("t(3), (t(2),), t(2)", "IndexError", "tensors used as indices must be long, int, byte or bool tensors"),
    ],
    ..Operator::BASE
};

/// A list of indices of one dimension.
pub fn single(input: &Tensor, dim: usize, index: &Tensor) -> Result<IndexGeometry> {
    IndexGeometry::new(input, &[index], &[dim as i64])
}

/// `x[i, j] = v`.
fn batched_index_put(batch: &BatchedCall) -> RuleResult {
    use INDEX_PUT_DIMS::*;

    let args = batch.args;
    let places = Places::of(batch, false)?;
    let owned: Vec<Tensor> = args.tensors(INDICES)?.into_iter().cloned().collect();
    let dims: Vec<usize> = args.ints(DIMS)?.iter().map(|&dim| dim as usize).collect();
    let sizes = gathered(args.tensor(INPUT)?.sizes(), &dims, &common(&owned)?);
    let values = batch.physical(&op!(EXPAND, args.tensor(VALUES)?, sizes_value(&sizes))?);
    let order = places.order(values.rank());
    let mut back = vec![0; order.len()];
    for (to, &from) in order.iter().enumerate() {
        back[from] = to;
    }
    let values = permuted(&values, &back)?;
    let accumulate = args.bool(ACCUMULATE)?;
    op!(INDEX_PUT_DIMS, batch.tensor(INPUT)?, places.indices, places.dims, values, accumulate)
        .map(|tensor| Some(Output::Tensor(tensor)))
}
