//! The basis of resizing: weighted sums of a few elements along one dimension, with the same weights for all lines.

use rushlight_autograd::Tensor;
use rushlight_core::layout::Shape;
use rushlight_core::{DType, Error, Layout, Result};
use rushlight_cpu::nn::taps::{Sizes, mix, spread};
use rushlight_cuda::taps;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::op;
use rushlight_dispatch::operands::{plain, plain_workplace, settle, workplace};
use rushlight_dispatch::operator::{
    Args, BackwardContext, BatchRule, BatchedCall, DTypes, Derivative, Implementation, Kernel, OnCuda, Operator, Saves,
    TensorSpec, Variants, formula, operator,
};
use rushlight_dispatch::value::{Output, Value, sizes_value};
use rushlight_dispatch::vmap::RuleResult;

use super::mix::MEET;
use crate::held::Held;
use crate::order::on_cuda::places;
use crate::view::RESHAPE;
use crate::view::squeeze::UNSQUEEZE;
use crate::view::transpose::TRANSPOSE;

#[operator]
pub static TAPS: Operator = Operator {
    name: "_taps",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int dim, Tensor indices, Tensor weights) -> Tensor",
    doc: "Sums along a dimension, which is not negative: the element `p` of the result is the sum over `k` of `weights[p, k]` times the
element `indices[p, k]`. An index outside of the dimension contributes zero.

    >>> torch._taps(torch.tensor([5., 6., 7.]), 0, torch.tensor([[0, 2], [1, -1]]), torch.ones(2, 2))
    tensor([12.,  6.])",
    dtypes: DTypes::FLOATS,
    batch_rule: BatchRule::Custom(batched),
    implementation: Implementation::Kernel(Kernel {
        infer: |args| infer(args, args.tensor(WEIGHTS)?.sizes().first().copied().unwrap_or(0)),
        cpu: |args, results| {
            let input = args.tensor(INPUT)?;
            // SAFETY: `run` upholds the kernel's contract.
            run(args, input.sizes(), &results[0], |dtype, s, x, at, w, out| unsafe { mix(dtype, s, x, at, w, out) })
        },
        cuda: OnCuda::Own(|args, results| run_on_cuda(args, args.tensor(INPUT)?.sizes(), &results[0], false)),
    }),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(INDICES).union(Saves::input(WEIGHTS)), |d| {
            let (dim, area) = (d.int(DIM), d.sizes(INPUT)[d.int(DIM) as usize] as i64);
            d.grad().call(&TAPS_SPREAD, [dim.into(), kept(d.input(INDICES)), kept(d.input(WEIGHTS)), area.into()])
        }),
        formula(WEIGHTS, Saves::input(INPUT).union(Saves::input(INDICES)), |d| {
            of_weights(d, d.grad(), d.input(INPUT), d.input(INDICES))
        }),
    ]),
    samples: &["t(2, 3, 5), 2, i(5, 4, 2), t(4, 2)", "t(3, 2), 0, torch.tensor([[0, 7], [-1, 1]]), t(2, 2)"],
    errors: &[(
        "t(3, 2), 0, i(3, 4, 2), t(4, 1)",
        "RuntimeError",
        "indices of [4, 2] and weights of [4, 1] do not fit dimension 0 of a tensor of [3, 2]",
    )],
    reference: "",
    ..Operator::BASE
};

#[operator]
pub static TAPS_SPREAD: Operator = Operator {
    name: "_taps_spread",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int dim, Tensor indices, Tensor weights, int area) -> Tensor",
    doc:
        "Zeros, `area` along a dimension, with `weights[p, k]` times the element `p` of `self` added at `indices[p, k]`.

    >>> torch._taps_spread(torch.tensor([2., 3.]), 0, torch.tensor([[0], [0]]), torch.ones(2, 1), 2)
    tensor([5., 0.])",
    dtypes: DTypes::FLOATS,
    batch_rule: BatchRule::Custom(batched),
    implementation: Implementation::Kernel(Kernel {
        infer: |args| infer(args, args.int(AREA)?.max(0) as isize),
        cpu: |args, results| {
            // SAFETY: `run` upholds the kernel's contract.
            run(args, results[0].sizes(), &results[0], |dtype, s, x, at, w, out| unsafe {
                spread(dtype, s, x, at, w, out)
            })
        },
        cuda: OnCuda::Own(|args, results| run_on_cuda(args, results[0].sizes(), &results[0], true)),
    }),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(INDICES).union(Saves::input(WEIGHTS)), |d| {
            d.grad().call(&TAPS, [d.int(DIM).into(), kept(d.input(INDICES)), kept(d.input(WEIGHTS))])
        }),
        formula(WEIGHTS, Saves::input(INPUT).union(Saves::input(INDICES)), |d| {
            of_weights(d, d.input(INPUT), d.grad(), d.input(INDICES))
        }),
    ]),
    samples: &["t(2, 3, 4), 2, i(5, 4, 2), t(4, 2), 5", "t(2, 3), 0, torch.tensor([[0, 7], [-1, 1]]), t(2, 2), 3"],
    errors: &[(
        "t(3, 2), 0, i(3, 4, 2), t(4, 2), 5",
        "RuntimeError",
        "indices of [4, 2] and weights of [4, 2] do not fit dimension 0 of a tensor of [3, 2]",
    )],
    reference: "",
    ..Operator::BASE
};

fn kept(expr: Expr) -> Value<'static> {
    expr.done().map_or(Value::None, Value::from)
}

/// The gradient of the weights: the sums of the products of values at the places and elements at the indices.
fn of_weights(d: &BackwardContext, values: Expr, x: Expr, indices: Expr) -> Expr {
    let rows = |expr: Expr| -> Result<Tensor> {
        let own = op!(TRANSPOSE, expr.done()?, d.int(TAPS::DIM), -1i64)?;
        let (last, others) = own.sizes().split_last().map_or((1, 1), |(last, others)| (*last, others.iter().product()));
        op!(RESHAPE, own, sizes_value(&[1, others, last]))
    };
    let found = || -> Result<Tensor> {
        let found = op!(MEET, rows(values)?, rows(x)?, op!(UNSQUEEZE, indices.done()?, 0i64)?)?;
        op!(RESHAPE, &found, sizes_value(&found.sizes()[1..]))
    };
    Expr::new(found())
}

/// A result with `size` elements along the dimension; checks the operands. What is read and what is written differ in the dimension
/// alone, and the sums, or the values, have as many elements along it as there are indices.
fn infer(args: &Args, size: isize) -> Result<Vec<TensorSpec>> {
    use TAPS::*;

    let (input, indices, weights) = (args.tensor(INPUT)?, args.tensor(INDICES)?, args.tensor(WEIGHTS)?);
    let dim = args.int(DIM)?;
    let spreads = std::ptr::eq(args.op, &raw const TAPS_SPREAD);
    let mut sizes = input.sizes().clone();
    if let Some(along) = usize::try_from(dim).ok().and_then(|dim| sizes.get_mut(dim))
        && let [count, _] = indices.sizes()[..]
        && indices.dtype() == DType::I64
        && indices.sizes() == weights.sizes()
        && (!spreads || *along == count)
    {
        *along = size;
        return Ok(vec![TensorSpec::new(&sizes, input.dtype(), input)]);
    }
    Err(Error::runtime(format!(
        "indices of {} and weights of {} do not fit dimension {dim} of a tensor of {}",
        Shape(indices.sizes()),
        Shape(weights.sizes()),
        Shape(input.sizes())
    )))
}

/// The sizes of a call whose elements, or their gradients, have the sizes `area`.
fn sizes(args: &Args, area: &[isize]) -> Result<Sizes> {
    use TAPS::*;

    let (dim, indices) = (args.int(DIM)? as usize, args.tensor(INDICES)?.sizes());
    let count = |sizes: &[isize]| sizes.iter().product::<isize>() as usize;
    Ok(Sizes {
        outer: count(&area[..dim]),
        inner: count(&area[dim + 1..]),
        area: area[dim] as usize,
        places: indices[0] as usize,
        taps: indices[1] as usize,
    })
}

type Run = fn(DType, Sizes, *const u8, *const i64, *const u8, *mut u8) -> Result<()>;

/// Runs a kernel on the elements, the indices and the weights, all row-major and in the compute dtype.
fn run(args: &Args, area: &[isize], result: &Tensor, kernel: Run) -> Result<()> {
    use TAPS::*;

    let (sizes, compute) = (sizes(args, area)?, result.dtype().compute());
    let (input, weights) = (plain(args.tensor(INPUT)?, compute)?, plain(args.tensor(WEIGHTS)?, compute)?);
    let indices = plain(args.tensor(INDICES)?, DType::I64)?;
    let target = workplace(result, compute)?;
    {
        let pins =
            (input.storage().pin()?, indices.storage().pin()?, weights.storage().pin()?, target.storage().pin()?);
        let first =
            |pin: &rushlight_core::storage::Pin, tensor: &Tensor| pin.as_ptr().wrapping_offset(tensor.first_byte());
        let at = first(&pins.1, &indices).cast_const().cast::<i64>();
        kernel(compute, sizes, first(&pins.0, &input), at, first(&pins.2, &weights), first(&pins.3, &target))?;
    }
    settle(&target, result)
}

fn run_on_cuda(args: &Args, area: &[isize], result: &Tensor, spreads: bool) -> Result<()> {
    use TAPS::*;

    if result.numel() == 0 {
        return Ok(());
    }
    let (sizes, dtype) = (sizes(args, area)?, result.dtype());
    let (input, weights) = (plain(args.tensor(INPUT)?, dtype)?, plain(args.tensor(WEIGHTS)?, dtype.compute())?);
    let indices = plain(args.tensor(INDICES)?, DType::I64)?;
    let target = plain_workplace(result, dtype)?;
    let line =
        Layout { offset: indices.layout().offset, ..Layout::contiguous(&[(sizes.places * sizes.taps) as isize]) };
    // The sums over places read the indices in their order.
    let order = if spreads { Some(places(&Tensor::view_of(&indices, line), 0, false)?) } else { None };
    let mut held = Held::on(&target)?;
    let operands = held.addresses([&input, &indices, &weights])?;
    let (to, order) = (held.address(&target)?, held.optional(order.as_ref())?);
    let sizes = taps::TapsSizes {
        inner: sizes.inner as u64,
        area: sizes.area as u64,
        places: sizes.places as u64,
        taps: sizes.taps as u64,
    };
    let count = result.numel();
    // SAFETY: row-major operands of the sizes that were inferred, held for the stream; the kernels check the indices.
    unsafe { taps::taps(held.card, held.stream, dtype, operands, spreads.then_some(order), to, count, sizes)? };
    settle(&target, result)
}

/// Samples with the same indices and weights are more lines.
fn batched(batch: &BatchedCall) -> RuleResult {
    use TAPS::*;

    if batch.differs_at(INDICES) || batch.differs_at(WEIGHTS) {
        return Ok(None);
    }
    let shared = [batch.one(INDICES)?, batch.one(WEIGHTS)?].map(Value::Own);
    let values = [Value::Own(batch.tensor(INPUT)?), (batch.args.int(DIM)? + 1).into()].into_iter().chain(shared);
    let area = std::ptr::eq(batch.args.op, &raw const TAPS_SPREAD).then(|| batch.args.int(TAPS_SPREAD::AREA));
    let area = area.transpose()?.map(Value::from);
    let result = Args::new(batch.args.op, values.chain(area)).call()?;
    Ok(result.into_tensors().into_iter().next().map(Output::Tensor))
}
