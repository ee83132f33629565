//! An index for every element, along one dimension: writing, adding, reducing.

use rushlight_core::layout::{Shape, wrap_dim};
use rushlight_core::{DType, Error, Result, Scalar};
use rushlight_cpu::index::gather::Side;
use rushlight_cpu::index::merge::{Merge, Merger};

use super::gather::{GATHER, at_least_1d, check_index, check_values, long, not_within};
use crate::derive::{Derivative, Derive, Joint, Saves, formula};
use crate::expr::Expr;
use crate::mapped::Mapped;
use crate::row::{DTypes, Out, Row, Run, Traits, Update, Variants};
use crate::value::{Args, Output, Value};
use crate::{Tensor, op};

pub static SCATTER: Row = Row {
    name: "scatter",
    variants: Variants::ALL,
    out: Out::STRICT,
    signature: "(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
    doc: "A copy with the elements of `src` written along `dim` at the places that `index` names; the last for a place stays.

    out[index[i][j]][j] = src[i][j]   for dim=0

    >>> torch.scatter(torch.zeros(2, 2), 1, torch.tensor([[1], [0]]), torch.tensor([[5.], [6.]]))
    tensor([[0., 5.],
            [6., 0.]])",
    dtypes: DTypes::ALL,
    traits: Traits::ROW_MAJOR,
    mapped: Mapped::Along(1),
    run: Run::Update(Update { check: |args| check(args, "scatter"), cpu: |args, target| write(args, target, Merge::Set) }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(2), |d| zeroed(d, d.grad())),
        formula(3, Saves::input(2), |d| gathered(d, d.grad())),
    ]),
    samples: &["t(3, 4), 1, torch.tensor([[0, 3], [2, 1], [1, 0]]), t(3, 4)", "t(3), 0, torch.tensor([2, 0]), t(2)"],
    errors: &[
        ("t(3), 0, torch.tensor([5]), t(1)", "RuntimeError", "index 5 is out of bounds for dimension 0 with size 3"),
        (
            "t(3), 0, torch.tensor([0, 1]), t(1)",
            "RuntimeError",
            "Expected index [2] to be no larger than self [3] apart from dimension 0 and to be no larger size than src [1]",
        ),
        ("t(3, 4), 0, torch.tensor([0]), t(1)", "RuntimeError", "Index tensor must have the same number of dimensions as self tensor"),
    ],
    ..Row::BASE
};

pub static SCATTER_VALUE: Row = Row {
    name: "scatter.value",
    variants: Variants::ALL,
    out: Out::STRICT,
    signature: "(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
    doc: "A copy with one number written along `dim` at the places that `index` names.

    >>> torch.scatter(torch.zeros(2, 2), 1, torch.tensor([[1], [0]]), 5.)
    tensor([[0., 5.],
            [5., 0.]])",
    dtypes: DTypes::ALL,
    traits: Traits::ROW_MAJOR,
    mapped: Mapped::Along(1),
    run: Run::Update(Update {
        check: |args| check(args, "scatter").and_then(|()| check_value(args)),
        cpu: |args, target| write(args, target, Merge::Set),
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(2), |d| zeroed(d, d.grad()))]),
    samples: &["t(3, 4), 1, torch.tensor([[0, 3], [2, 1], [1, 0]]), 2"],
    errors: &[(
        "i(3), 0, torch.tensor([0]), float('nan')",
        "RuntimeError",
        "value cannot be converted to type int64_t without overflow",
    )],
    ..Row::BASE
};

pub static SCATTER_MERGED: Row = Row {
    name: "scatter.reduce",
    variants: Variants::ALL,
    out: Out::STRICT,
    signature: "(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor",
    doc: "A copy with `src` added to, or multiplied into, what stands at the places that `index` names.

    >>> torch.scatter(torch.ones(2), 0, torch.tensor([1, 1]), torch.tensor([2., 3.]), reduce='multiply')
    tensor([1., 6.])",
    dtypes: DTypes::ALL,
    traits: Traits::ROW_MAJOR,
    mapped: Mapped::Along(1),
    run: Run::Update(Update {
        check: |args| {
            merge_named(args.str(4)?)?;
            crate::warn_once!(
                "The reduce argument of torch.scatter with Tensor src is deprecated and will be removed in a future PyTorch release. Use torch.scatter_reduce instead for more reduction options.",
            )?;
            check(args, "scatter")
        },
        cpu: |args, target| write(args, target, merge_named(args.str(4)?)?),
    }),
    derivative: Derivative::Missing("aten::scatter"),
    samples: &["t(3), 0, torch.tensor([2, 2]), t(2), reduce='add'"],
    errors: &[(
        "t(3), 0, torch.tensor([0]), t(1), reduce='foo'",
        "RuntimeError",
        "reduce argument must be either add or multiply.",
    )],
    ..Row::BASE
};

pub static SCATTER_VALUE_MERGED: Row = Row {
    name: "scatter.value_reduce",
    variants: Variants::ALL,
    out: Out::STRICT,
    signature: "(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor",
    doc: "A copy with a number added to, or multiplied into, what stands at the places that `index` names.

    >>> torch.scatter(torch.ones(2), 0, torch.tensor([1, 1]), 2, reduce='add')
    tensor([1., 5.])",
    dtypes: DTypes::ALL,
    traits: Traits::ROW_MAJOR,
    mapped: Mapped::Along(1),
    run: Run::Update(Update {
        check: |args| {
            merge_named(args.str(4)?)?;
            check(args, "scatter")?;
            check_value(args)
        },
        cpu: |args, target| write(args, target, merge_named(args.str(4)?)?),
    }),
    derivative: Derivative::Missing("aten::scatter"),
    samples: &["t(3), 0, torch.tensor([2, 2]), 2, reduce='multiply'"],
    ..Row::BASE
};

/// Refuses a number at place 3 that the tensor's dtype does not hold.
fn check_value(args: &Args) -> Result<()> {
    crate::create::check_fits(args.scalar(3)?, args.tensor(0)?.dtype())
}

fn merge_named(name: &str) -> Result<Merge> {
    match name {
        "add" => Ok(Merge::Add),
        "multiply" => Ok(Merge::Multiply),
        _ => Err(Error::runtime("reduce argument must be either add or multiply.")),
    }
}

pub static SCATTER_ADD: Row = Row {
    name: "scatter_add",
    variants: Variants::ALL,
    out: Out::STRICT,
    signature: "(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
    doc: "A copy with the elements of `src` added along `dim` at the places that `index` names.

    >>> torch.scatter_add(torch.zeros(3), 0, torch.tensor([0, 0, 2]), torch.tensor([1., 2., 3.]))
    tensor([3., 0., 3.])",
    dtypes: DTypes::ALL,
    traits: Traits::ROW_MAJOR,
    mapped: Mapped::Along(1),
    run: Run::Update(Update {
        check: |args| check(args, "scatter"),
        cpu: |args, target| write(args, target, Merge::Add),
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::NOTHING, |d| d.grad()),
        formula(3, Saves::input(2), |d| gathered(d, d.grad())),
    ]),
    samples: &["t(3, 4), 1, i(4, 3, 4), t(3, 4)", "t(3), 0, i(3, 5), t(6)", "t(3, 4), 0, i(3, 2, 3), t(2, 4)"],
    errors: &[(
        "t(3), 0, torch.tensor([5]), t(1)",
        "RuntimeError",
        "index 5 is out of bounds for dimension 0 with size 3",
    )],
    ..Row::BASE
};

/// The gradient at the places that the index names: the source's.
fn gathered(d: &Derive, grad: Expr) -> Expr {
    let read = match (grad, d.input(2)) {
        (Expr::Tensor(grad), Expr::Tensor(index)) => Expr::new(op!(GATHER, grad, d.int(1), index)),
        (Expr::Failed(error), _) | (_, Expr::Failed(error)) => Expr::Failed(error),
        (grad, _) => grad,
    };
    whole(d, read)
}

/// The gradient of all of the source, of which the call read a corner where it is larger than the index.
fn whole(d: &Derive, read: Expr) -> Expr {
    let Some(facts) = d.facts(3) else { return Expr::Nothing };
    match &read {
        Expr::Tensor(grad) if *grad.sizes() != facts.sizes && grad.rank() == facts.sizes.len() => {
            let place = rushlight_core::Layout {
                sizes: grad.sizes().clone(),
                strides: rushlight_core::layout::contiguous_strides(&facts.sizes),
                offset: 0,
            };
            crate::view::embed::embed_at(read, &facts.sizes, &place)
        }
        _ => read,
    }
}

/// The corner of the source that the call read.
fn corner(d: &Derive, index: &Tensor) -> Expr {
    let read = |source: Expr, (dim, (&size, &length)): (usize, (&isize, &isize))| match size == length {
        true => source,
        false => source.call(&crate::view::narrow::NARROW, [dim.into(), 0i64.into(), (length as i64).into()]),
    };
    d.sizes(3).iter().zip(index.sizes()).enumerate().fold(d.input(3), read)
}

/// The gradient with zeros at the places that were overwritten.
fn zeroed(d: &Derive, grad: Expr) -> Expr {
    match (grad, d.input(2)) {
        (Expr::Tensor(grad), Expr::Tensor(index)) => Expr::new(op!(SCATTER_VALUE, grad, d.int(1), index, Scalar::ZERO)),
        (Expr::Failed(error), _) | (_, Expr::Failed(error)) => Expr::Failed(error),
        (grad, _) => grad,
    }
}

fn check(args: &Args, name: &str) -> Result<()> {
    let (own, index) = (args.tensor(0)?, args.tensor(2)?);
    let dim = wrap_dim(args.int(1)?, own.rank())?;
    check_index(name, index)?;
    let source = args.optional_tensor(3);
    if let Some(source) = source.filter(|source| source.dtype() != own.dtype()) {
        return Err(Error::runtime(format!("{name}(): Expected self.dtype to be equal to src.dtype")).hint(format!(
            "self is {}, src is {}.",
            own.dtype(),
            source.dtype()
        )));
    }
    if index.numel() == 0 {
        return Ok(());
    }
    if index.rank().max(1) != own.rank().max(1) {
        return Err(Error::runtime("Index tensor must have the same number of dimensions as self tensor"));
    }
    let one = [1isize];
    let sizes = |tensor: &Tensor| if tensor.rank() == 0 { one.as_slice().into() } else { tensor.sizes().clone() };
    let (own_sizes, index_sizes) = (sizes(own), sizes(index));
    let beyond_own = (0..own_sizes.len()).any(|other| other != dim && index_sizes[other] > own_sizes[other]);
    match source {
        Some(source) => {
            let source_sizes = sizes(source);
            if source_sizes.len() != index_sizes.len() {
                return Err(Error::runtime("Index tensor must have the same number of dimensions as src tensor"));
            }
            if beyond_own || index_sizes.iter().zip(&source_sizes).any(|(index, source)| index > source) {
                return Err(Error::runtime(format!(
                    "Expected index {} to be no larger than self {} apart from dimension {dim} and to be no larger size than src {}",
                    Shape(index.sizes()),
                    Shape(own.sizes()),
                    Shape(source.sizes())
                )));
            }
        }
        None if beyond_own => {
            return Err(Error::runtime(format!(
                "Expected index {} to be no larger than self {} apart from dimension {dim}",
                Shape(index.sizes()),
                Shape(own.sizes())
            )));
        }
        None => {}
    }
    Ok(())
}

/// Merges the source, or the number that stands for one, into the target.
fn write(args: &Args, target: &Tensor, merge: Merge) -> Result<()> {
    let dim = wrap_dim(args.int(1)?, target.rank())?;
    match args.optional_tensor(3) {
        Some(source) => scatter_into(target, dim, args.tensor(2)?, source, merge),
        None => {
            let number = crate::create::scalar_of(args.scalar(3)?, target.dtype(), target.device())?;
            scatter_number(target, dim, args.tensor(2)?, &number, merge)
        }
    }
}

/// Merges one number at every place that an index names.
fn scatter_number(target: &Tensor, dim: usize, index: &Tensor, number: &Tensor, merge: Merge) -> Result<()> {
    let sizes = at_least_1d(index.layout()).sizes;
    let wide = Tensor::view_of(number, number.layout().broadcast_to(&sizes)?);
    scatter_into(target, dim, index, &wide, merge)
}

/// Merges `source` into `target` at the places along `dim` that `index` names.
fn scatter_into(target: &Tensor, dim: usize, index: &Tensor, source: &Tensor, merge: Merge) -> Result<()> {
    if index.numel() == 0 {
        return Ok(());
    }
    let index = long(index)?;
    let (own, places, from) = (at_least_1d(target.layout()), at_least_1d(index.layout()), at_least_1d(source.layout()));
    check_values(&index, &places, own.sizes[dim], dim)?;
    let (to, at, values) = (target.storage().pin()?, index.storage().pin()?, source.storage().pin()?);
    // SAFETY: sizes were checked, layouts stay within their storages, and both dtypes are the same.
    unsafe {
        rushlight_cpu::index::gather::scatter(
            Side { pointer: to.as_ptr(), layout: &own },
            Side { pointer: values.as_ptr(), layout: &from },
            Side { pointer: at.as_ptr(), layout: &places },
            dim,
            Merger::new(merge, target.dtype()),
            target.dtype().size(),
        )
    }
    .map_err(|bad| not_within(bad, own.sizes[dim], dim))
}

/// The ways of `scatter_reduce` and `index_reduce`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    Sum,
    Product,
    Mean,
    Greatest,
    Least,
}

impl Reduction {
    pub fn named(name: &str) -> Option<Reduction> {
        Some(match name {
            "sum" => Reduction::Sum,
            "prod" => Reduction::Product,
            "mean" => Reduction::Mean,
            "amax" => Reduction::Greatest,
            "amin" => Reduction::Least,
            _ => return None,
        })
    }

    pub fn merge(self) -> Merge {
        match self {
            Reduction::Sum | Reduction::Mean => Merge::Add,
            Reduction::Product => Merge::Multiply,
            Reduction::Greatest => Merge::Greatest,
            Reduction::Least => Merge::Least,
        }
    }

    /// What changes nothing, in a dtype.
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
            Reduction::Greatest if floating => Scalar::Float(f64::NEG_INFINITY),
            Reduction::Least if floating => Scalar::Float(f64::INFINITY),
            Reduction::Greatest => Scalar::Int(low),
            Reduction::Least if dtype == DType::U64 => Scalar::UInt(u64::MAX),
            Reduction::Least => Scalar::Int(high),
        }
    }
}

pub static SCATTER_REDUCE: Row = Row {
    name: "scatter_reduce",
    variants: Variants::ALL,
    out: Out::STRICT,
    signature: "(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor",
    doc: "A copy with the elements of `src` reduced (`sum`, `prod`, `mean`, `amax`, `amin`) at the places that `index` names.

    >>> torch.scatter_reduce(torch.zeros(2), 0, torch.tensor([0, 0]), torch.tensor([3., 5.]), 'mean', include_self=False)
    tensor([4., 0.])",
    dtypes: DTypes::COMMON,
    traits: Traits::ROW_MAJOR,
    mapped: Mapped::Along(1),
    run: Run::Update(Update {
        check: |args| {
            refuse_dtype(reduction(args)?, args.str(4)?, args.tensor(0)?.dtype())?;
            check(args, "scatter")
        },
        cpu: |args, target| {
            let way = reduction(args)?;
            let dim = wrap_dim(args.int(1)?, target.rank())?;
            let (index, source) = (args.tensor(2)?, args.tensor(3)?);
            let number = |value| crate::create::scalar_of(value, target.dtype(), target.device());
            if !args.bool(5)? {
                scatter_number(target, dim, index, &number(way.neutral(target.dtype()))?, Merge::Set)?;
            }
            scatter_into(target, dim, index, source, way.merge())?;
            if way == Reduction::Mean {
                let first = if args.bool(5)? { Scalar::ONE } else { Scalar::ZERO };
                let counts = crate::create::full(target.sizes(), first, target.dtype(), target.device())?;
                scatter_number(&counts, dim, index, &number(Scalar::ONE)?, Merge::Add)?;
                divide(target, &counts)?;
            }
            Ok(())
        },
    }),
    derivative: Derivative::Joint(Joint { inputs: &[0, 3], saves: REDUCED, gradients: reduced }),
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
    ..Row::BASE
};

/// Truths have no mean, complex numbers no order.
fn refuse_dtype(way: Reduction, name: &str, dtype: DType) -> Result<()> {
    let fits = match way {
        Reduction::Sum | Reduction::Product => true,
        Reduction::Mean => dtype != DType::Bool,
        Reduction::Greatest | Reduction::Least => !dtype.is_complex(),
    };
    if fits && SCATTER_REDUCE.dtypes.has(dtype) {
        return Ok(());
    }
    let kernel = if matches!(way, Reduction::Sum | Reduction::Product) { "" } else { &format!("_reduce_{name}") };
    Err(Error::unsupported(&format!("scatter_gather_tensor_cpu{kernel}"), dtype))
}

fn reduction(args: &Args) -> Result<Reduction> {
    let name = args.str(4)?;
    Reduction::named(name).ok_or_else(|| {
        Error::runtime(format!("reduce argument must be either sum, prod, mean, amax or amin, got {name}"))
    })
}

const REDUCED: Saves = Saves::input(0).union(Saves::input(2)).union(Saves::input(3)).union(Saves::RESULT);

/// Divides by counts, of which those of untouched places are zero; integers round down.
pub fn divide(target: &Tensor, counts: &Tensor) -> Result<()> {
    let one = crate::create::scalar_of(Scalar::ONE, counts.dtype(), counts.device())?;
    let zero = crate::create::scalar_of(Scalar::ZERO, counts.dtype(), counts.device())?;
    let counted = op!(crate::pointwise::compare::EQ, counts, zero)?;
    let counts = op!(crate::pointwise::choose::WHERE, counted, one, counts)?;
    let quotient = if target.dtype().is_differentiable() {
        op!(crate::pointwise::divide::DIV, target, counts)?
    } else {
        op!(crate::pointwise::divide::FLOOR_DIVIDE, target, counts)?
    };
    crate::copy::copy(target, &quotient)
}

/// The gradients of `scatter_reduce`, by way.
fn reduced(d: &Derive) -> Result<Vec<Option<Tensor>>> {
    let way = d.args.str(4).ok().and_then(Reduction::named);
    let (dim, index) = (d.int(1), d.input(2).done()?);
    let (own, source, result) = (d.input(0), corner(d, &index), d.result());
    let read = |from: Expr| from.call(&GATHER, [dim.into(), (&index).into()]);
    let grad = d.grad();
    let (mut for_own, for_source) = match way {
        Some(Reduction::Sum) | None => (grad.clone(), read(grad)),
        Some(Reduction::Mean) => {
            let first = if d.flag(5) { Scalar::ONE } else { Scalar::ZERO };
            let count = crate::create::full(d.sizes(0), first, grad.clone().done()?.dtype(), index.device())?;
            let ones = crate::create::full(d.sizes(3), Scalar::ONE, count.dtype(), count.device())?;
            let count = Expr::new(op!(SCATTER_ADD, count, dim, &index, ones));
            let count = count.clone().equals(0i64).choose(1i64, count);
            (grad.clone() / count.clone(), read(grad / count))
        }
        Some(Reduction::Greatest | Reduction::Least) => {
            let like =
                |truth: Expr| truth.choose(1.0, 0.0).call(&crate::convert::TO_DTYPE, [d.results[0].dtype.into()]);
            let own_is = like(own.equals(result.clone()));
            let source_is = like(source.equals(read(result)));
            let sharers =
                own_is.clone().call(&SCATTER_ADD, [dim.into(), (&index).into(), source_is.clone().done()?.into()]);
            let share = grad / sharers;
            (own_is * share.clone(), source_is * read(share))
        }
        Some(Reduction::Product) => product(d, own, source, result, grad, &index)?,
    };
    if !d.flag(5) {
        for_own = zeroed(d, for_own);
    }
    Ok(vec![for_own.gradient()?, whole(d, for_source).gradient()?])
}

/// A product's gradient without dividing by zero: a single zero at a place gets the product of the others.
fn product(d: &Derive, own: Expr, source: Expr, result: Expr, grad: Expr, index: &Tensor) -> Result<(Expr, Expr)> {
    let dim = d.int(1);
    let row = |from: Expr, values: Expr| -> Result<Expr> {
        let args: [Value; 6] =
            [from.done()?.into(), dim.into(), index.into(), values.done()?.into(), "prod".into(), d.flag(5).into()];
        Ok(Expr::new(SCATTER_REDUCE.call(args).and_then(Output::into_tensor)))
    };
    let read = |from: Expr| from.call(&GATHER, [dim.into(), index.into()]);
    let own_whole = own.clone().equals(0i64).choose(1i64, own.clone());
    let for_own = grad.clone() * (row(own_whole.clone(), source.clone())? / own_whole).conj();
    let zero = source.clone().equals(0i64);
    let zeros = zero.clone().choose(1.0, 0.0).call(&crate::convert::TO_DTYPE, [d.results[0].dtype.into()]);
    let count = own.clone().zeros_like().call(&SCATTER_ADD, [dim.into(), index.into(), zeros.done()?.into()]);
    let single = zero.clone().and(read(count).equals(1i64));
    let others = row(own, single.clone().choose(1i64, source.clone()))?;
    let plain = read(grad.clone() * result.conj()) / zero.choose(1i64, source).conj();
    Ok((for_own, single.choose(read(grad * others.conj()), plain)))
}
