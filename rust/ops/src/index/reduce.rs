//! `index_reduce`: slices are reduced into those of a tensor at a vector of indices.

use rushlight_autograd::Tensor;
use rushlight_core::layout::wrap_dim;
use rushlight_core::{Error, Layout, Result, Scalar};
use rushlight_cpu::index::scatter::ScatterOp;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Args, BackwardContext, BatchRule, BatchedCall, DTypes, Derivative, Implementation, Joint, Operator, Out, Saves,
    Tags, Update, Variants, operator,
};
use rushlight_dispatch::value::{Output, Value, sizes_value};
use rushlight_dispatch::vmap::RuleResult;
use rushlight_dispatch::{create, warn_once};

use super::index_select::{INDEX_ADD, INDEX_FILL, INDEX_SELECT, changed, check_index, check_slices, merge, vector};
use super::put::{put_into, single};
use super::scatter::{Reduction, once_where};
use crate::expr_ext::ExprExt;

#[operator]
pub static INDEX_REDUCE: Operator = Operator {
    name: "index_reduce",
    variants: Variants::ALL,
    signature: "(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor",
    doc: "A copy with the slices of `source` reduced (`prod`, `mean`, `amax`, `amin`) into those of `dim` at `index`.

    >>> torch.index_reduce(torch.ones(2), 0, torch.tensor([0, 0]), torch.tensor([3., 5.]), 'prod')
    tensor([15.,  1.])",
    out: Out::STRICT,
    dtypes: DTypes::REAL,
    batch_rule: BatchRule::Custom(batched_index_reduce),
    tags: Tags::ROW_MAJOR,
    implementation: Implementation::Update(Update::on_any_device(
        |args| {
            reduction(args)?;
            warn_once!("index_reduce() is in beta and the API may change at any time.")?;
            let (input, source) = (args.tensor(INPUT)?, args.tensor(SOURCE)?);
            if input.dtype() != source.dtype() {
                return Err(Error::runtime(format!(
                    "index_reduce_(): self ({}) and source ({}) must have the same scalar type",
                    input.dtype().display_name(),
                    source.dtype().display_name()
                )));
            }
            check_index(args, "index_reduce_()")?;
            check_slices(args, "index_reduce_()")
        },
        |args, target| {
            let way = reduction(args)?;
            let number = |value| create::scalar_of(value, target.dtype(), target.device());
            if !args.bool(INCLUDE_SELF)? {
                put_number(args, target, &number(way.neutral(target.dtype()))?, ScatterOp::Set)?;
            }
            merge(args, target, args.tensor(SOURCE)?, way.merge())?;
            if way == Reduction::Mean {
                let first = if args.bool(INCLUDE_SELF)? { Scalar::ONE } else { Scalar::ZERO };
                let counts = create::full(target.sizes(), first, target.dtype(), target.device())?;
                put_number(args, &counts, &number(Scalar::ONE)?, ScatterOp::Add)?;
                super::scatter::divide(target, &counts)?;
            }
            Ok(())
        },
    )),
    derivative: Derivative::Joint(Joint { inputs: &[INPUT, SOURCE], saves: REDUCED, gradients: reduced }),
    samples: &[
        "t(3, 4), 0, i(3, 5), t(5, 4), 'prod'",
        "t(3), 0, i(3, 5), t(5), 'mean', include_self=False",
        "t(3), 0, i(3, 5), t(5), 'amax'",
    ],
    errors: &[(
        "t(3), 0, torch.tensor([0]), t(1), 'sum'",
        "RuntimeError",
        "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got sum.",
    )],
    ..Operator::BASE
};

const REDUCED: Saves = {
    use INDEX_REDUCE::*;
    Saves::input(INPUT).union(Saves::input(INDEX)).union(Saves::input(SOURCE)).union(Saves::RESULT)
};

fn reduction(args: &Args) -> Result<Reduction> {
    let name = args.str(INDEX_REDUCE::REDUCE)?;
    Reduction::named(name).filter(|way| *way != Reduction::Sum).ok_or_else(|| {
        Error::runtime(format!("index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {name}."))
    })
}

/// Writes one number into all slices at the index.
fn put_number(args: &Args, target: &Tensor, number: &Tensor, way: ScatterOp) -> Result<()> {
    use INDEX_REDUCE::*;

    let (target, index) = (vector(target), vector(args.tensor(INDEX)?));
    let dim = wrap_dim(args.int(DIM)?, target.rank())?;
    put_into(&target, &single(&target, dim, &index)?, number, way)
}

/// As `scatter_reduce` with the index expanded over the slices.
fn reduced(d: &BackwardContext) -> Result<Vec<Option<Tensor>>> {
    use INDEX_REDUCE::*;

    let (dim, index) = (wrap_dim(d.int(DIM), d.rank(INPUT))?, d.input(INDEX).done()?);
    let (input, source, result, grad) = (d.input(INPUT), d.input(SOURCE), d.result(), d.grad());
    let read = |from: Expr| from.call(&INDEX_SELECT, [d.int(DIM).into(), (&index).into()]);
    let added = |to: Expr, values: Expr| -> Result<Expr> {
        Ok(to.call(&INDEX_ADD, [d.int(DIM).into(), (&index).into(), values.done()?.into()]))
    };
    let number = |truth: Expr| truth.choose(1.0, 0.0).call(&crate::convert::TO_DTYPE, [d.results[0].dtype.into()]);
    let (mut for_own, for_source) = match d.args.str(REDUCE).ok().and_then(Reduction::named) {
        Some(Reduction::Mean) => {
            let first = if d.flag(INCLUDE_SELF) { Scalar::ONE } else { Scalar::ZERO };
            let dtype = d.results[0].dtype;
            let count = create::full(d.sizes(INPUT), first, dtype, index.device())?;
            let ones = create::full(d.sizes(SOURCE), Scalar::ONE, dtype, index.device())?;
            let count = added(count.into(), ones.into())?;
            let count = count.clone().equals(0i64).choose(1i64, count);
            (grad.clone() / count.clone(), read(grad / count))
        }
        Some(Reduction::Product) => {
            let row = |from: Expr, values: Expr| -> Result<Expr> {
                let args: [Value; 6] = [
                    from.done()?.into(),
                    d.int(DIM).into(),
                    (&index).into(),
                    values.done()?.into(),
                    "prod".into(),
                    d.flag(INCLUDE_SELF).into(),
                ];
                Ok(Expr::new(INDEX_REDUCE.call(args).and_then(Output::into_tensor)))
            };
            let own_whole = input.clone().equals(0i64).choose(1i64, input.clone());
            let for_own = grad.clone() * row(own_whole.clone(), source.clone())? / own_whole;
            let zero = source.clone().equals(0i64);
            let count = added(input.clone().zeros_like(), number(zero.clone()))?;
            let count = read(count);
            let lone = zero.clone().and(count.clone().equals(1i64));
            let several = zero.clone().and(count.real().above(1i64));
            let others = row(input, lone.clone().choose(1i64, source.clone()))?;
            let plain = read(grad.clone() * result) / zero.choose(1i64, source);
            let for_source = lone.choose(read(grad * others), plain);
            let message = "index_reduce(): Double backward is unsupported for source when >1 zeros in source are scattered to the same position in self";
            (for_own, once_where(d, for_source, several, message)?)
        }
        _ => {
            let own_is = number(input.equals(result.clone()));
            let source_is = number(source.equals(read(result)));
            let share = grad / added(own_is.clone(), source_is.clone())?;
            (own_is * share.clone(), source_is * read(share))
        }
    };
    if !d.flag(INCLUDE_SELF) {
        for_own = for_own.call(&INDEX_FILL, [Value::Int(dim as i64), (&index).into(), Value::Scalar(Scalar::ZERO)]);
    }
    let whole = Layout::contiguous(d.sizes(SOURCE));
    let for_source = for_source.call(&crate::view::expand::EXPAND, [sizes_value(&whole.sizes)]);
    Ok(vec![for_own.gradient()?, for_source.gradient()?])
}

/// An operator that can change all samples at once only with a shared index.
fn batched_index_reduce(batch: &BatchedCall) -> RuleResult {
    changed(batch, Some(INDEX_REDUCE::SOURCE), None)
}
