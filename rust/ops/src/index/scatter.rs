//! Writing, adding and reducing with an index for every element, along one dimension.

use rushlight_autograd::Tensor;
use rushlight_core::layout::{Shape, wrap_dim};
use rushlight_core::{DType, Device, Error, Layout, Result, Scalar};
use rushlight_cpu::index::gather::IndexedOperand;
use rushlight_cpu::index::scatter::{ScatterKernels, ScatterOp};
use rushlight_cuda::indexed::Column;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Args, Autocast, BackwardContext, BatchRule, DTypes, Derivative, Implementation, Joint, Operator, Out, Saves, Tags,
    Update, Variants, formula, operator,
};
use rushlight_dispatch::subgraph::undifferentiable;
use rushlight_dispatch::value::{Arg, Output, Value};
use rushlight_dispatch::{copy, create, op, warn_once};

use super::gather::{GATHER, at_least_1d, check_index, check_values, long, not_within};
use super::last_writes::of_last_writes;
use super::on_cuda;
use crate::expr_ext::ExprExt;

#[operator]
pub static SCATTER: Operator = Operator {
    name: "scatter",
    variants: Variants::ALL,
    out: Out::STRICT,
    signature: "(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
    doc: "A copy with the elements of `src` written along `dim` at `index`; of repeated indices the last one wins.

    out[index[i][j]][j] = src[i][j]   for dim=0

    >>> torch.scatter(torch.zeros(2, 2), 1, torch.tensor([[1], [0]]), torch.tensor([[5.], [6.]]))
    tensor([[0., 5.],
            [6., 0.]])",
    dtypes: DTypes::COMPUTED,
    tags: Tags::ROW_MAJOR,
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Update(Update::on_any_device(
        |args| check(args, Some(SRC), "scatter"),
        |args, target| write(args, SRC, target, ScatterOp::Set),
    )),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(INDEX), |d| zeroed(d, d.grad())),
        formula(SRC, Saves::input(INDEX), |d| {
            let Expr::Tensor(index) = d.input(INDEX) else { return gathered(d, d.grad()) };
            let dim = d.int(DIM);
            let read = of_last_writes(
                d,
                d.grad().call(&GATHER, [dim.into(), (&index).into()]),
                |zeros, numbers| op!(SCATTER, zeros, dim, &index, numbers),
                |written| op!(GATHER, written, dim, &index),
            );
            whole(d, read)
        }),
    ]),
    samples: &["t(3, 4), 1, torch.tensor([[0, 3], [2, 1], [1, 0]]), t(3, 4)", "t(3), 0, torch.tensor([2, 0]), t(2)"],
    errors: &[
        ("t(3), 0, torch.tensor([5]), t(1)", "RuntimeError", "index 5 is out of bounds for dimension 0 with size 3"),
        (
            "t(3), 0, torch.tensor([0, 1]), t(1)",
            "RuntimeError",
            "Expected index [2] to be no larger than self [3] apart from dimension 0 and to be no larger size than src [1]",
        ),
        (
            "t(3, 4), 0, torch.tensor([0]), t(1)",
            "RuntimeError",
            "Index tensor must have the same number of dimensions as self tensor",
        ),
    ],
    kernel_name: "scatter_gather_tensor_cpu",
    ..Operator::BASE
};

#[operator]
pub static SCATTER_VALUE: Operator = Operator {
    name: "scatter.value",
    variants: Variants::ALL,
    out: Out::STRICT,
    signature: "(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
    doc: "A copy with one number written along `dim` at `index`.

    >>> torch.scatter(torch.zeros(2, 2), 1, torch.tensor([[1], [0]]), 5.)
    tensor([[0., 5.],
            [5., 0.]])",
    dtypes: DTypes::COMPUTED,
    tags: Tags::ROW_MAJOR,
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Update(Update::on_any_device(
        |args| check(args, None, "scatter").and_then(|()| check_value(args)),
        |args, target| write(args, VALUE, target, ScatterOp::Set),
    )),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INDEX), |d| zeroed(d, d.grad()))]),
    samples: &["t(3, 4), 1, torch.tensor([[0, 3], [2, 1], [1, 0]]), 2"],
    errors: &[(
        "i(3), 0, torch.tensor([0]), float('nan')",
        "RuntimeError",
        "value cannot be converted to type int64_t without overflow",
    )],
    ..Operator::BASE
};

#[operator]
pub static SCATTER_MERGED: Operator = Operator {
    name: "scatter.reduce",
    variants: Variants::ALL,
    out: Out::STRICT,
    signature: "(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor",
    doc: "A copy with `src` added to, or multiplied with, the elements at `index`.

    >>> torch.scatter(torch.ones(2), 0, torch.tensor([1, 1]), torch.tensor([2., 3.]), reduce='multiply')
    tensor([1., 6.])",
    dtypes: DTypes::COMPUTED,
    tags: Tags::ROW_MAJOR,
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Update(Update::on_any_device(
        |args| {
            check(args, Some(SRC), "scatter")?;
            merge_named(args.str(REDUCE)?)?;
            warn_once!(
                "The reduce argument of torch.scatter with Tensor src is deprecated and will be removed in a future PyTorch release. Use torch.scatter_reduce instead for more reduction options.",
            )
        },
        |args, target| write(args, SRC, target, merge_named(args.str(REDUCE)?)?),
    )),
    derivative: Derivative::NotImplemented("aten::scatter"),
    samples: &["t(3), 0, torch.tensor([2, 2]), t(2), reduce='add'"],
    errors: &[(
        "t(3), 0, torch.tensor([0]), t(1), reduce='foo'",
        "RuntimeError",
        "reduce argument must be either add or multiply.",
    )],
    ..Operator::BASE
};

#[operator]
pub static SCATTER_VALUE_MERGED: Operator = Operator {
    name: "scatter.value_reduce",
    variants: Variants::ALL,
    out: Out::STRICT,
    signature: "(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor",
    doc: "A copy with a number added to, or multiplied with, the elements at `index`.

    >>> torch.scatter(torch.ones(2), 0, torch.tensor([1, 1]), 2, reduce='add')
    tensor([1., 5.])",
    dtypes: DTypes::COMPUTED,
    tags: Tags::ROW_MAJOR,
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Update(Update::on_any_device(
        |args| {
            check(args, None, "scatter")?;
            merge_named(args.str(REDUCE)?)?;
            check_value(args)
        },
        |args, target| write(args, VALUE, target, merge_named(args.str(REDUCE)?)?),
    )),
    derivative: Derivative::NotImplemented("aten::scatter"),
    samples: &["t(3), 0, torch.tensor([2, 2]), 2, reduce='multiply'"],
    ..Operator::BASE
};

/// Returns an error for a number at position 3 that the tensor's dtype cannot hold.
fn check_value(args: &Args) -> Result<()> {
    use SCATTER_VALUE::*;

    create::check_fits(args.scalar(VALUE)?, args.tensor(INPUT)?.dtype())
}

fn merge_named(name: &str) -> Result<ScatterOp> {
    match name {
        "add" => Ok(ScatterOp::Add),
        "multiply" => Ok(ScatterOp::Multiply),
        _ => Err(Error::runtime("reduce argument must be either add or multiply.")),
    }
}

#[operator]
pub static SCATTER_ADD: Operator = Operator {
    name: "scatter_add",
    variants: Variants::ALL,
    out: Out::STRICT,
    signature: "(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
    doc: "A copy with the elements of `src` added along `dim` at `index`.

    >>> torch.scatter_add(torch.zeros(3), 0, torch.tensor([0, 0, 2]), torch.tensor([1., 2., 3.]))
    tensor([3., 0., 3.])",
    dtypes: DTypes::COMPUTED,
    tags: Tags::ROW_MAJOR,
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Update(Update::on_any_device(
        |args| check(args, Some(SRC), "scatter"),
        |args, target| write(args, SRC, target, ScatterOp::Add),
    )),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::NOTHING, |d| d.grad()),
        formula(SRC, Saves::input(INDEX), |d| gathered(d, d.grad())),
    ]),
    autocast: Autocast::Promote.on_cuda_alone(),
    samples: &["t(3, 4), 1, i(4, 3, 4), t(3, 4)", "t(3), 0, i(3, 5), t(6)", "t(3, 4), 0, i(3, 2, 3), t(2, 4)"],
    errors: &[(
        "t(3), 0, torch.tensor([5]), t(1)",
        "RuntimeError",
        "index 5 is out of bounds for dimension 0 with size 3",
    )],
    ..Operator::BASE
};

/// The gradient at the index: the source's.
fn gathered(d: &BackwardContext, grad: Expr) -> Expr {
    use SCATTER::*;

    let read = match (grad, d.input(INDEX)) {
        (Expr::Tensor(grad), Expr::Tensor(index)) => Expr::new(op!(GATHER, grad, d.int(DIM), index)),
        (Expr::Failed(error), _) | (_, Expr::Failed(error)) => Expr::Failed(error),
        (grad, _) => grad,
    };
    whole(d, read)
}

/// The gradient of the whole source, of which the call read only the first part if it is larger than the index.
fn whole(d: &BackwardContext, read: Expr) -> Expr {
    let Some(meta) = d.meta(SCATTER::SRC) else { return Expr::Nothing };
    match &read {
        Expr::Tensor(grad) if *grad.sizes() != meta.sizes && grad.rank() == meta.sizes.len() => {
            let place = rushlight_core::Layout {
                sizes: grad.sizes().clone(),
                strides: rushlight_core::layout::contiguous_strides(&meta.sizes),
                offset: 0,
            };
            crate::view::strided::embed_at(read, &meta.sizes, &place)
        }
        _ => read,
    }
}

/// The part of the source that the call read.
fn corner(d: &BackwardContext, index: &Tensor) -> Expr {
    use SCATTER_REDUCE::*;

    let read = |source: Expr, (dim, (&size, &length)): (usize, (&isize, &isize))| match size == length {
        true => source,
        false => source.call(&crate::view::narrow::NARROW, [dim.into(), 0i64.into(), (length as i64).into()]),
    };
    d.sizes(SRC).iter().zip(index.sizes()).enumerate().fold(d.input(SRC), read)
}

/// The gradient with zeros at the overwritten elements.
fn zeroed(d: &BackwardContext, grad: Expr) -> Expr {
    use SCATTER::*;

    match (grad, d.input(INDEX)) {
        (Expr::Tensor(grad), Expr::Tensor(index)) => {
            Expr::new(op!(SCATTER_VALUE, grad, d.int(DIM), index, Scalar::ZERO))
        }
        (Expr::Failed(error), _) | (_, Expr::Failed(error)) => Expr::Failed(error),
        (grad, _) => grad,
    }
}

fn check(args: &Args, source: Option<Arg>, name: &str) -> Result<()> {
    use SCATTER::*;

    let (input, index) = (args.tensor(INPUT)?, args.tensor(INDEX)?);
    let dim = wrap_dim(args.int(DIM)?, input.rank())?;
    check_index(name, index)?;
    let source = source.map(|source| args.tensor(source)).transpose()?;
    if let Some(source) = source.filter(|source| source.dtype() != input.dtype()) {
        return Err(Error::runtime(format!("{name}(): Expected self.dtype to be equal to src.dtype")).hint(format!(
            "self is {}, src is {}.",
            input.dtype(),
            source.dtype()
        )));
    }
    if index.numel() == 0 {
        return Ok(());
    }
    if index.rank().max(1) != input.rank().max(1) {
        return Err(Error::runtime("Index tensor must have the same number of dimensions as self tensor"));
    }
    let one = [1isize];
    let sizes = |tensor: &Tensor| if tensor.rank() == 0 { one.as_slice().into() } else { tensor.sizes().clone() };
    let (own_sizes, index_sizes) = (sizes(input), sizes(index));
    let beyond_own = (0..own_sizes.len()).any(|other| other != dim && index_sizes[other] > own_sizes[other]);
    match source {
        Some(source) => {
            let source_sizes = sizes(source);
            // torch compares all sizes before the numbers of dimensions.
            let larger = index_sizes.iter().zip(&source_sizes).any(|(index, source)| index > source);
            if !beyond_own && !larger && (1..index_sizes.len()).contains(&source.rank()) {
                wrap_dim(source.rank() as i64, source.rank())?;
            }
            if source_sizes.len() != index_sizes.len() {
                return Err(Error::runtime("Index tensor must have the same number of dimensions as src tensor"));
            }
            if beyond_own || larger {
                return Err(Error::runtime(format!(
                    "Expected index {} to be no larger than self {} apart from dimension {dim} and to be no larger size than src {}",
                    Shape(index.sizes()),
                    Shape(input.sizes()),
                    Shape(source.sizes())
                )));
            }
        }
        None if beyond_own => {
            return Err(Error::runtime(format!(
                "Expected index {} to be no larger than self {} apart from dimension {dim}",
                Shape(index.sizes()),
                Shape(input.sizes())
            )));
        }
        None => {}
    }
    Ok(())
}

/// Merges the source, or the number in its place, into the target.
fn write(args: &Args, source: Arg, target: &Tensor, merge: ScatterOp) -> Result<()> {
    use SCATTER::*;

    let dim = wrap_dim(args.int(DIM)?, target.rank())?;
    match args.value(source).as_tensor() {
        Some(source) => scatter_into(target, dim, args.tensor(INDEX)?, source, merge),
        None => {
            let number = create::scalar_of(args.scalar(source)?, target.dtype(), target.device())?;
            scatter_number(target, dim, args.tensor(INDEX)?, &number, merge)
        }
    }
}

/// Merges one number at every index.
fn scatter_number(target: &Tensor, dim: usize, index: &Tensor, number: &Tensor, merge: ScatterOp) -> Result<()> {
    let sizes = at_least_1d(index.layout()).sizes;
    let wide = Tensor::view_of(number, number.layout().broadcast_to(&sizes)?);
    scatter_into(target, dim, index, &wide, merge)
}

/// Merges `source` into `target` along `dim` at `index`.
fn scatter_into(target: &Tensor, dim: usize, index: &Tensor, source: &Tensor, merge: ScatterOp) -> Result<()> {
    if index.numel() == 0 {
        return Ok(());
    }
    let index = long(index)?;
    let (own, places, from) = (at_least_1d(target.layout()), at_least_1d(index.layout()), at_least_1d(source.layout()));
    check_values(&index, &places, own.sizes[dim], dim)?;
    if let Device::Cuda(_) = target.device() {
        let column = Column {
            length: places.sizes[dim] as usize,
            scale: own.strides[dim] * target.dtype().size() as isize,
            value_step: from.strides[dim] * source.dtype().size() as isize,
            place_step: places.strides[dim] * size_of::<i64>() as isize,
        };
        let mut columns = places.sizes.clone();
        columns[dim] = 1;
        let [own, from, places] = [own, from, places].map(|layout| Layout { sizes: columns.clone(), ..layout });
        return on_cuda::merge((target, &own), (source, &from), (&index, &places), merge, column);
    }
    let (to, at, values) = (target.storage().pin()?, index.storage().pin()?, source.storage().pin()?);
    // SAFETY: sizes were checked, layouts stay within their storages, and both dtypes are the same.
    unsafe {
        rushlight_cpu::index::gather::scatter(
            IndexedOperand { pointer: to.as_ptr(), layout: &own },
            IndexedOperand { pointer: values.as_ptr(), layout: &from },
            IndexedOperand { pointer: at.as_ptr(), layout: &places },
            dim,
            ScatterKernels::new(merge, target.dtype()),
            target.dtype().size(),
        )
    }
    .map_err(|bad| not_within(bad, own.sizes[dim], dim))
}

/// The reductions of `scatter_reduce` and `index_reduce`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    Sum,
    Product,
    Mean,
    Max,
    Min,
}

impl Reduction {
    pub fn named(name: &str) -> Option<Reduction> {
        Some(match name {
            "sum" => Reduction::Sum,
            "prod" => Reduction::Product,
            "mean" => Reduction::Mean,
            "amax" => Reduction::Max,
            "amin" => Reduction::Min,
            _ => return None,
        })
    }

    pub fn merge(self) -> ScatterOp {
        match self {
            Reduction::Sum | Reduction::Mean => ScatterOp::Add,
            Reduction::Product => ScatterOp::Multiply,
            Reduction::Max => ScatterOp::Max,
            Reduction::Min => ScatterOp::Min,
        }
    }

    /// The neutral element, in a dtype.
    pub fn neutral(self, dtype: rushlight_core::DType) -> Scalar {
        use rushlight_core::DType;
        let (low, high) = match dtype {
            DType::U8 => (0, i64::from(u8::MAX)),
            DType::I8 => (i8::MIN.into(), i8::MAX.into()),
            DType::I16 => (i16::MIN.into(), i16::MAX.into()),
            DType::I32 => (i32::MIN.into(), i32::MAX.into()),
            DType::I64 => (i64::MIN, i64::MAX),
            DType::U16 => (0, u16::MAX.into()),
            DType::U32 => (0, u32::MAX.into()),
            DType::Bool => (0, 1),
            _ => (0, 0),
        };
        let floating = dtype.is_floating();
        match self {
            Reduction::Sum | Reduction::Mean => Scalar::ZERO,
            Reduction::Product => Scalar::ONE,
            Reduction::Max if floating => Scalar::Float(f64::NEG_INFINITY),
            Reduction::Min if floating => Scalar::Float(f64::INFINITY),
            Reduction::Max => Scalar::Int(low),
            Reduction::Min if dtype == DType::U64 => Scalar::UInt(u64::MAX),
            Reduction::Min => Scalar::Int(high),
        }
    }
}

#[operator]
pub static SCATTER_REDUCE: Operator = Operator {
    name: "scatter_reduce",
    variants: Variants::ALL,
    out: Out::STRICT,
    signature: "(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor",
    doc: "A copy with the elements of `src` reduced (`sum`, `prod`, `mean`, `amax`, `amin`) at `index`.

    >>> torch.scatter_reduce(torch.zeros(2), 0, torch.tensor([0, 0]), torch.tensor([3., 5.]), 'mean', include_self=False)
    tensor([4., 0.])",
    dtypes: DTypes::COMMON,
    tags: Tags::ROW_MAJOR,
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Update(Update::on_any_device(
        |args| {
            refuse_dtype(reduction(args)?, args.str(REDUCE)?, args.tensor(INPUT)?.dtype())?;
            check(args, Some(SRC), "scatter")
        },
        |args, target| {
            let way = reduction(args)?;
            let dim = wrap_dim(args.int(DIM)?, target.rank())?;
            let (index, source) = (args.tensor(INDEX)?, args.tensor(SRC)?);
            let number = |value| create::scalar_of(value, target.dtype(), target.device());
            if !args.bool(INCLUDE_SELF)? {
                scatter_number(target, dim, index, &number(way.neutral(target.dtype()))?, ScatterOp::Set)?;
            }
            scatter_into(target, dim, index, source, way.merge())?;
            if way == Reduction::Mean {
                let first = if args.bool(INCLUDE_SELF)? { Scalar::ONE } else { Scalar::ZERO };
                let counts = create::full(target.sizes(), first, target.dtype(), target.device())?;
                scatter_number(&counts, dim, index, &number(Scalar::ONE)?, ScatterOp::Add)?;
                divide(target, &counts)?;
            }
            Ok(())
        },
        )),
    derivative: Derivative::Joint(Joint { inputs: &[INPUT, SRC], saves: REDUCED, gradients: reduced }),
    samples: &[
        "t(3, 4), 1, i(4, 3, 4), t(3, 4), 'sum'",
        "t(3) * 1, 0, i(3, 5), t(6) * 1, 'mean'",
        "t(3), 0, i(3, 5), t(6), 'prod', include_self=False",
        "real(3), 0, i(3, 5), real(6), 'amax'",
        "real(3), 0, i(3, 5), real(6), 'amin', include_self=False",
    ],
    errors: &[(
        "t(3), 0, torch.tensor([0]), t(1), 'foo'",
        "RuntimeError",
        "reduce argument must be either sum, prod, mean, amax or amin, got foo",
    )],
    ..Operator::BASE
};

/// Booleans have no mean, and complex numbers no order.
fn refuse_dtype(way: Reduction, name: &str, dtype: DType) -> Result<()> {
    let fits = match way {
        Reduction::Sum | Reduction::Product => true,
        Reduction::Mean => dtype != DType::Bool,
        Reduction::Max | Reduction::Min => !dtype.is_complex(),
    };
    if fits && SCATTER_REDUCE.dtypes.has(dtype) {
        return Ok(());
    }
    let kernel = if matches!(way, Reduction::Sum | Reduction::Product) { "" } else { &format!("_reduce_{name}") };
    Err(Error::unsupported(&format!("scatter_gather_tensor_cpu{kernel}"), dtype))
}

fn reduction(args: &Args) -> Result<Reduction> {
    let name = args.str(SCATTER_REDUCE::REDUCE)?;
    Reduction::named(name).ok_or_else(|| {
        Error::runtime(format!("reduce argument must be either sum, prod, mean, amax or amin, got {name}"))
    })
}

const REDUCED: Saves = {
    use SCATTER_REDUCE::*;
    Saves::input(INPUT).union(Saves::input(INDEX)).union(Saves::input(SRC)).union(Saves::RESULT)
};

/// Divides by counts, which are zero for untouched elements; integers round down.
pub fn divide(target: &Tensor, counts: &Tensor) -> Result<()> {
    let one = create::scalar_of(Scalar::ONE, counts.dtype(), counts.device())?;
    let zero = create::scalar_of(Scalar::ZERO, counts.dtype(), counts.device())?;
    let counted = op!(crate::pointwise::compare::EQ, counts, zero)?;
    let counts = op!(crate::pointwise::where_::WHERE, counted, one, counts)?;
    let quotient = if target.dtype().is_differentiable() {
        op!(crate::pointwise::divide::DIV, target, counts)?
    } else {
        op!(crate::pointwise::divide::FLOOR_DIVIDE, target, counts)?
    };
    copy::copy(target, &quotient)
}

/// The gradients of `scatter_reduce`, by reduction.
fn reduced(d: &BackwardContext) -> Result<Vec<Option<Tensor>>> {
    use SCATTER_REDUCE::*;

    let way = d.args.str(REDUCE).ok().and_then(Reduction::named);
    let (dim, index) = (d.int(DIM), d.input(INDEX).done()?);
    let (input, source, result) = (d.input(INPUT), corner(d, &index), d.result());
    let read = |from: Expr| from.call(&GATHER, [dim.into(), (&index).into()]);
    let grad = d.grad();
    let (mut for_own, for_source) = match way {
        Some(Reduction::Sum) | None => (grad.clone(), read(grad)),
        Some(Reduction::Mean) => {
            let first = if d.flag(INCLUDE_SELF) { Scalar::ONE } else { Scalar::ZERO };
            let count = create::full(d.sizes(INPUT), first, grad.clone().done()?.dtype(), index.device())?;
            let ones = create::full(d.sizes(SRC), Scalar::ONE, count.dtype(), count.device())?;
            let count = Expr::new(op!(SCATTER_ADD, count, dim, &index, ones));
            let count = count.clone().equals(0i64).choose(1i64, count);
            (grad.clone() / count.clone(), read(grad / count))
        }
        Some(Reduction::Max | Reduction::Min) => {
            let like =
                |truth: Expr| truth.choose(1.0, 0.0).call(&crate::convert::TO_DTYPE, [d.results[0].dtype.into()]);
            let own_is = like(input.equals(result.clone()));
            let source_is = like(source.equals(read(result)));
            let sharers =
                own_is.clone().call(&SCATTER_ADD, [dim.into(), (&index).into(), source_is.clone().done()?.into()]);
            let share = grad / sharers;
            (own_is * share.clone(), source_is * read(share))
        }
        Some(Reduction::Product) => product(d, input, source, result, grad, &index)?,
    };
    if !d.flag(INCLUDE_SELF) {
        for_own = zeroed(d, for_own);
    }
    Ok(vec![for_own.gradient()?, whole(d, for_source).gradient()?])
}

/// A product's gradient without division by zero: a single zero gets the product of the other factors.
fn product(
    d: &BackwardContext,
    input: Expr,
    source: Expr,
    result: Expr,
    grad: Expr,
    index: &Tensor,
) -> Result<(Expr, Expr)> {
    use SCATTER_REDUCE::*;

    let dim = d.int(DIM);
    let row = |from: Expr, values: Expr| -> Result<Expr> {
        let args: [Value; 6] = [
            from.done()?.into(),
            dim.into(),
            index.into(),
            values.done()?.into(),
            "prod".into(),
            d.flag(INCLUDE_SELF).into(),
        ];
        Ok(Expr::new(SCATTER_REDUCE.call(args).and_then(Output::into_tensor)))
    };
    let read = |from: Expr| from.call(&GATHER, [dim.into(), index.into()]);
    let own_whole = input.clone().equals(0i64).choose(1i64, input.clone());
    let for_own = grad.clone() * (row(own_whole.clone(), source.clone())? / own_whole).conj();
    let zero = source.clone().equals(0i64);
    let zeros = zero.clone().choose(1.0, 0.0).call(&crate::convert::TO_DTYPE, [d.results[0].dtype.into()]);
    let count = input.clone().zeros_like().call(&SCATTER_ADD, [dim.into(), index.into(), zeros.done()?.into()]);
    let count = read(count);
    let single = zero.clone().and(count.clone().equals(1i64));
    let several = zero.clone().and(count.real().above(1i64));
    let others = row(input, single.clone().choose(1i64, source.clone()))?;
    let plain = read(grad.clone() * result.conj()) / zero.choose(1i64, source).conj();
    let for_source = single.choose(read(grad * others.conj()), plain);
    let message = "scatter_reduce(): Double backward is unsupported for src when >1 zeros in src are scattered to the same position in self";
    Ok((for_own, once_where(d, for_source, several, message)?))
}

/// A product's gradient, whose own derivative is wrong if zeros meet in one element of the result: an error, as in torch.
pub fn once_where(d: &BackwardContext, grad: Expr, zeros_meet: Expr, message: &'static str) -> Result<Expr> {
    if d.for_tangent() || !rushlight_autograd::modes::recording() {
        return Ok(grad);
    }
    let found = zeros_meet.call(&crate::reduce::all_any::ANY, []).done()?;
    if found.is_batched() || !crate::convert::item(&found)?.truth() {
        return Ok(grad);
    }
    undifferentiable(grad.done()?, message).map(Expr::from)
}
