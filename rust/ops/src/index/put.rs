//! Writing by indices: the last of several values for one place wins, or they add up.

use rushlight_core::{DType, Error, Layout, Result};
use rushlight_cpu::index::Source;
use rushlight_cpu::index::merge::{Merge, Merger};

use super::geometry::{Cut, check_room, unfit};
use super::get::indices;
use crate::Tensor;
use crate::call::Target;
use crate::derive::{Derivative, Saves, formula};
use crate::expr::Expr;
use crate::mapped::Mapped;
use crate::op;
use crate::row::{DTypes, Row, Run, Traits, Update, Variants};
use crate::value::{Args, Ints};

/// Behind `x[i, j] = v` and `index_put`.
pub static PUT: Row = Row {
    name: "_index_put",
    variants: Variants::FUNCTION.union(Variants::INPLACE),
    signature: "(Tensor self, Tensor[] indices, int[] dims, Tensor values, bool accumulate=False) -> Tensor",
    doc: "`values` written to, or added at, the places that `indices` into the dimensions `dims` name.

    >>> torch._index_put(torch.zeros(3), (torch.tensor([0, 0]),), (0,), torch.tensor([1., 2.]), True)
    tensor([3., 0., 0.])",
    dtypes: DTypes::ALL,
    traits: Traits::WRITES_EXPANDED,
    mapped: Mapped::Rule(super::mapped::put),
    run: Run::Update(Update {
        check: |args| {
            let (own, values) = (args.tensor(0)?, args.tensor(3)?);
            if own.dtype() != values.dtype() {
                return Err(Error::runtime(format!(
                    "Index put requires the source and destination dtypes match, got {} for the destination and {} for the source.",
                    own.dtype().title(),
                    values.dtype().title()
                ))
                .hint(format!("Convert the values: v.to({}).", own.dtype())));
            }
            let cut = Cut::new(own, &args.tensors(1)?, args.ints(2)?)?;
            check_room(own, &cut.dims, &cut.common)?;
            if values.layout().broadcast_to(&cut.sizes(own)).is_err() {
                return Err(unfit(values, own, &cut.dims, &cut.common));
            }
            Ok(())
        },
        cpu: |args, target| {
            let cut = Cut::new(target, &args.tensors(1)?, args.ints(2)?)?;
            // Threads share the dimensions without an index: no two of their elements may be one.
            if target.layout().expanded().any(|dim| !cut.dims.contains(&dim)) {
                crate::variants::check_no_self_overlap(target)?;
            }
            let merge = if args.bool(4)? { Merge::Add } else { Merge::Set };
            put_into(target, &cut, args.tensor(3)?, merge)
        },
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1), |d| {
            if d.flag(4) {
                return d.grad();
            }
            match (indices(d), d.grad()) {
                (Ok((indices, dims)), Expr::Tensor(grad)) => {
                    let zero = crate::create::scalar_of(rushlight_core::Scalar::ZERO, grad.dtype(), grad.device());
                    Expr::new(zero.and_then(|zero| op!(PUT, grad, indices, dims, zero)))
                }
                (Err(error), _) => Expr::failed(error),
                (_, grad) => grad,
            }
        }),
        formula(3, Saves::input(1), |d| match (indices(d), d.grad()) {
            (Ok((indices, dims)), Expr::Tensor(grad)) => Expr::new(op!(super::INDEX, grad, indices, dims)),
            (Err(error), _) => Expr::failed(error),
            (_, grad) => grad,
        }),
    ]),
    samples: &[
        "t(4, 3), (torch.tensor([3, 1]),), (0,), t(2, 3)",
        "t(4, 3), (i(4, 6),), (0,), t(3), True",
        "t(4, 3, 2), (i(4, 5), i(2, 5)), (0, 2), t(5, 3), True",
    ],
    ..Row::BASE
};

/// Merges values, which broadcast, into a tensor.
pub fn put_into(target: &Tensor, cut: &Cut, values: &Tensor, merge: Merge) -> Result<()> {
    // The loops move bytes: what is read is as wide as what is written.
    if values.dtype() != target.dtype() {
        let (values, target) = (values.dtype().title(), target.dtype().title());
        return Err(Error::runtime(format!("values of dtype {values} cannot be put into a tensor of dtype {target}")));
    }
    let sizes = cut.sizes(target);
    if sizes.contains(&0) {
        return Ok(());
    }
    let offsets = cut.offsets(target)?;
    let wide = values.layout().broadcast_to(&sizes)?;
    let n: isize = cut.common.iter().product();
    let plain;
    let (mut frame, middle) = cut.source(&wide);
    let (values, step) = match middle.view_strides(&[n]) {
        Some(strides) => (values, strides[0]),
        None => {
            plain = crate::create::empty(&sizes, values.dtype(), values.device())?;
            crate::copy::copy(&plain, values)?;
            frame = cut.source(&Layout::contiguous(&sizes)).0;
            let after: isize = frame.after.sizes.iter().product();
            (&plain, after)
        }
    };
    let width = target.dtype().size();
    let (to, from) = (target.storage().pin()?, values.storage().pin()?);
    let source = Source { pointer: from.as_ptr(), frame, step: step.wrapping_mul(width as isize) };
    let merger = Merger::new(merge, target.dtype());
    // SAFETY: offsets were checked, layouts stay within their storages, and both dtypes are the same.
    unsafe { rushlight_cpu::index::put(to.as_ptr(), &cut.frame(target.layout()), &offsets, &source, merger, width) };
    Ok(())
}

/// Writes in place, recorded.
pub fn put_(own: &Tensor, indices: Vec<Tensor>, dims: Ints, values: &Tensor, accumulate: bool) -> Result<()> {
    let args = Args::new(&PUT, [own.into(), indices.into(), dims.into(), values.into(), accumulate.into()]);
    crate::call::call_into(args, Target::InPlace).map(drop)
}

/// The arguments of `index_put` in the form that `PUT` takes; torch's list may be shorter than the dimensions.
fn arguments<'a>(args: &Args<'a>) -> Result<Args<'a>> {
    let own = args.tensor(0)?;
    let given: Vec<Tensor> = args.tensors(1)?.into_iter().cloned().collect();
    let mut dim = 0;
    let mut dims = Vec::with_capacity(given.len());
    for index in &given {
        dims.push(dim);
        let mask = matches!(index.dtype(), DType::Bool | DType::U8);
        dim += if mask { index.rank() } else { 1 };
    }
    if dim.max(given.len()) > own.rank() {
        return Err(Error::index(format!(
            "too many indices for tensor of dimension {} (got {})",
            own.rank(),
            given.len()
        ))
        .hint("At most one index for each dimension; a mask counts for as many as it has."));
    }
    let (values, accumulate) = (args.tensor(2)?, args.bool(3)?);
    // One number at the places of one mask takes the tensor's dtype, as `masked_fill` gives it.
    let by_mask = !accumulate && values.numel() == 1 && given.len() == 1 && given[0].dtype() == DType::Bool;
    if !accumulate && values.numel() == 1 {
        super::refuse_bytes(&given)?;
    }
    let values = if by_mask && values.dtype() != own.dtype() {
        if !values.is_mapped() {
            crate::create::check_fits(crate::convert::item(values)?, own.dtype())?;
        }
        crate::convert::to_dtype(values, own.dtype())?
    } else {
        values.clone()
    };
    let (indices, dims) = super::prepare(own, given, &dims)?;
    Ok(Args::new(&PUT, [args.values[0].clone(), indices.into(), dims.into(), values.into(), accumulate.into()]))
}

pub static INDEX_PUT: Row = Row {
    name: "index_put",
    variants: Variants::BOTH.union(Variants::INPLACE).union(Variants::INPLACE_FUNCTION),
    signature: "(Tensor self, Tensor[] indices, Tensor values, bool accumulate=False) -> Tensor",
    doc: "A copy with `values` written to, or added at, the places that a tuple of index tensors names.

    >>> torch.index_put(torch.zeros(3), (torch.tensor([0, 2]),), torch.tensor([1., 2.]))
    tensor([1., 0., 2.])",
    dtypes: DTypes::ALL,
    traits: Traits::NEEDS_VALUES,
    run: Run::Defer(|args| arguments(&args).map_err(|error| crate::call::placed(error, &args, false))),
    derivative: Derivative::Composed,
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
    ..Row::BASE
};

/// A list of indices of one dimension.
pub fn single(own: &Tensor, dim: usize, index: &Tensor) -> Result<Cut> {
    Cut::new(own, &[index], &[dim as i64])
}
