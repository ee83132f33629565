//! Sums over everything or over some dimensions.

use rushlight_core::dtype::{c64, c128};
use rushlight_core::{Bool, DType, Error, Result};
use rushlight_cpu::folds;
use rushlight_cpu::reduce::Fold;

use super::{Over, expand, restored};
use crate::autocast::Autocast;
use crate::derive::{Derivative, Saves, formula};
use crate::expr::Expr;
use crate::mapped::Mapped;
use crate::row::{Accepts, DTypes, Kernel, Out, Row, Run, Spec, Variants};
use crate::sparse::Sparse;
use crate::value::{Args, Output, Value};

pub static SUM: Row = Row {
    name: "sum",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, *, ScalarType? dtype=None) -> Tensor",
    doc: "The sum of all elements.

Integers and bool add up in int64. Floats add up in a fixed tree, so that the error grows with the logarithm of the count
and the bits do not depend on the number of threads.

    >>> torch.sum(torch.tensor([[1., 2.], [3., 4.]]))
    tensor(10.)",
    dtypes: DTypes::ALL,
    sparse: Sparse::Body(crate::sparse::elementwise::total),
    mapped: Mapped::Whole(&SUM_DIM),
    run: Run::Kernel(Kernel {
        infer: |args| infer(args, Over::ALL, 1),
        cpu: |args, results| run(args, Over::ALL, results, sums()),
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| expand(d, d.grad()))]),
    samples: &["t(2, 3)", "t(0)", "t()", "t(2, 3).t()", "t(2, 3), dtype=torch.float64"],
    reference: "np.sum(self) if dtype is None else np.sum(self, dtype=dtype)",
    ..Row::BASE
};

pub static SUM_DIM: Row = Row {
    name: "sum.dim",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    doc: "The sums along `dim`, one dimension or several; they disappear unless `keepdim`.

    >>> torch.sum(torch.tensor([[1., 2.], [3., 4.]]), dim=1)
    tensor([3., 7.])",
    out: Out::ASKED,
    dtypes: DTypes::ALL,
    mapped: Mapped::Over(1),
    run: Run::Kernel(Kernel {
        infer: |args| infer(args, Over::of(args, 1)?, 3),
        cpu: |args, results| run(args, Over::of(args, 1)?, results, sums()),
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| expand(d, restored(d, d.grad(), 1)))]),
    samples: &[
        "t(2, 3), 1",
        "t(2, 3), dim=(0, 1)",
        "t(2, 3, 4), (0, 2), True",
        "t(0, 3), 0",
        "t(2, 3, 4).transpose(0, 2), 1",
    ],
    errors: &[
        ("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)"),
        ("t(2, 3), (0, -2)", "RuntimeError", "dim 0 appears multiple times in the list of dims"),
    ],
    reference: "np.sum(self, axis=dim, keepdims=keepdim)",
    ..Row::BASE
};

pub static NANSUM: Row = Row {
    name: "nansum",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    doc: "The sums along `dim` (all dimensions by default), in which NaN counts as zero.

    >>> torch.nansum(torch.tensor([1., float('nan'), 2.]))
    tensor(3.)",
    out: Out::ASKED,
    dtypes: DTypes::REAL.union(DTypes::BOOL),
    mapped: Mapped::Over(1),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let own = args.tensor(0)?.dtype();
            if own.is_complex() {
                return Err(Error::runtime("nansum on CPU does not support complex inputs"));
            }
            if let Some(asked) = args.dtype(3).filter(|asked| own.is_floating() && asked.is_complex()) {
                return Err(crate::call::not_implemented(args.row, asked));
            }
            infer(args, Over::of(args, 1)?, 3)
        },
        cpu: |args, results| {
            let (own, over) = (args.tensor(0)?, Over::of(args, 1)?);
            if results[0].dtype().is_floating() && own.dtype().is_floating() {
                let pick = folds! {
                    for<S> [f32, f64] (0.0; |a, x| if x.is_nan() { a } else { a + x }; |a, b| a + b; |a, _n| a)
                };
                return run(args, over, results, pick);
            }
            // No other dtype has NaN: it goes before the elements are converted.
            let mut args = args.clone();
            if own.dtype().is_floating() {
                let lost = Expr::from(own).call(&crate::pointwise::compare::ISNAN, []);
                args.values[0] = Value::Own(lost.choose(0.0, Expr::from(own)).done()?);
            }
            run(&args, over, results, sums())
        },
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        let real =
            d.input(0).call(&crate::pointwise::compare::ISNAN, []).call(&crate::pointwise::logical::LOGICAL_NOT, []);
        restored(d, d.grad(), 1) * real
    })]),
    samples: &["t(2, 3)", "t(2, 3), 1", "t(2, 3, 4), (0, 2), True"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    reference: "np.nansum(self, axis=dim, keepdims=keepdim)",
    ..Row::BASE
};

pub static MEAN: Row = Row {
    name: "mean",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, *, ScalarType? dtype=None) -> Tensor",
    doc: "The mean of all elements, which are floats or complex numbers; NaN where there are none.

    >>> torch.mean(torch.tensor([1., 2., 6.]))
    tensor(3.)",
    out: Out::new(Accepts::Cast, &["{name}.dtype_out(): input types can't be cast to the desired output type {Out}"]),
    dtypes: DTypes::INEXACT,
    mapped: Mapped::Whole(&MEAN_DIM),
    run: Run::Kernel(Kernel {
        infer: |args| Ok(vec![Over::ALL.spec(args, mean_dtype(args, 1)?)?]),
        cpu: |args, results| run(args, Over::ALL, results, means()),
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| {
        let count: isize = d.sizes(0).iter().product();
        expand(d, d.grad()) / count as f64
    })]),
    samples: &["t(2, 3)", "t()", "t(2, 3).t()"],
    errors: &[(
        "i(3, 2)",
        "RuntimeError",
        "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: Long",
    )],
    reference: "np.mean(self)",
    ..Row::BASE
};

pub static MEAN_DIM: Row = Row {
    name: "mean.dim",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    doc: "The means along `dim`, one dimension or several.

    >>> torch.mean(torch.tensor([[1., 2.], [3., 4.]]), 0)
    tensor([2., 3.])",
    dtypes: DTypes::INEXACT,
    mapped: Mapped::Over(1),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let dtype = mean_dtype(args, 3)?;
            Ok(vec![Over::of(args, 1)?.spec(args, dtype)?])
        },
        cpu: |args, results| run(args, Over::of(args, 1)?, results, means()),
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| {
        expand(d, restored(d, d.grad(), 1)) / super::derived_count(d, 1)
    })]),
    samples: &["t(2, 3), 1", "t(2, 3), (0, 1)", "t(2, 3, 4), (0, 2), True", "t(2, 3, 4).transpose(0, 2), 1"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    reference: "np.mean(self, axis=dim, keepdims=keepdim)",
    ..Row::BASE
};

pub static NANMEAN: Row = Row {
    name: "nanmean",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    doc: "The means along `dim` (all dimensions by default) of the elements that are not NaN.

    >>> torch.nanmean(torch.tensor([1., float('nan'), 2.]))
    tensor(1.5000)",
    dtypes: DTypes::FLOATS,
    run: Run::Compose(|args| {
        let own = args.tensor(0)?;
        if !own.dtype().is_differentiable() {
            return Err(Error::runtime(format!(
                "nanmean(): expected input to have floating point or complex dtype but got {}",
                own.dtype().title()
            )));
        }
        if let Some(asked) = args.dtype(3).filter(|asked| !asked.is_differentiable()) {
            return Err(Error::runtime(format!(
                "nanmean(): could not infer output dtype. Optional dtype must be either a floating point or complex dtype. Got: {}",
                asked.title()
            )));
        }
        let keepdim = args.bool(2)?;
        let real = Expr::from(&own.detach()).call(&crate::pointwise::compare::ISNAN, []);
        let count = real
            .call(&crate::pointwise::logical::LOGICAL_NOT, [])
            .call(&SUM_DIM, [super::dims(args, 1).into(), keepdim.into()]);
        let total = crate::op!(NANSUM, own, super::dims(args, 1), keepdim, args.dtype(3))?;
        (Expr::from(total) / count).done().map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 3)", "t(2, 3), 1", "t(2, 3, 4), (0, 2), True"],
    errors: &[(
        "i(3, 2)",
        "RuntimeError",
        "nanmean(): expected input to have floating point or complex dtype but got Long",
    )],
    reference: "np.nanmean(self, axis=dim, keepdims=keepdim)",
    ..Row::BASE
};

pub static TRACE: Row = Row {
    name: "trace",
    node: "TraceBackward0",
    signature: "(Tensor self) -> Tensor",
    doc: "The sum of a matrix's diagonal.

    >>> torch.trace(torch.tensor([[1, 2], [3, 4]]))
    tensor(5)",
    dtypes: DTypes::COMMON,
    autocast: Autocast::Single,
    run: Run::Compose(|args| {
        let own = args.tensor(0)?;
        if own.rank() != 2 {
            return Err(Error::runtime(format!("trace: expected a matrix, but got tensor with dim {}", own.rank())));
        }
        if !args.row.dtypes.has(own.dtype()) {
            return Err(Error::unsupported("trace", own.dtype()));
        }
        Expr::from(own).call(&crate::view::diagonal::DIAGONAL, []).call(&SUM, []).done().map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["t(3, 3)", "t(2, 4)"],
    errors: &[("t(2)", "RuntimeError", "trace: expected a matrix, but got tensor with dim 1")],
    reference: "np.trace(self)",
    ..Row::BASE
};

/// Sums by compute dtype; bool adds up as "or".
fn sums() -> fn(DType) -> Option<Fold> {
    folds! {
        for<S> [u8, i8, i16, i32, i64] (0; |a, x| a.wrapping_add(x); |a, b| a.wrapping_add(b); |a, _n| a);
        for<S> [f32, f64, c64, c128] (T::default(); |a, x| a + x; |a, b| a + b; |a, _n| a);
        for<S> [Bool] (Bool(0); |a, x| Bool(a.0 | x.0); |a, b| Bool(a.0 | b.0); |a, _n| a)
    }
}

/// Means by compute dtype.
pub fn means() -> fn(DType) -> Option<Fold> {
    folds! {
        for<S> [f32, f64] (0.0; |a, x| a + x; |a, b| a + b; |a, n| a / n as T);
        for<S> [c64] (T::default(); |a, x| a + x; |a, b| a + b; |a, n| a / n as f32);
        for<S> [c128] (T::default(); |a, x| a + x; |a, b| a + b; |a, n| a / n as f64)
    }
}

/// The dtype of a sum: what was asked for, int64 for integers, else the operand's.
pub fn result_dtype(args: &Args, place: usize) -> Result<DType> {
    let own = args.tensor(0)?.dtype();
    let exact = own.is_integral() || own == DType::Bool;
    let dtype = args.dtype(place).unwrap_or(if exact { DType::I64 } else { own });
    if !dtype.is_differentiable() && args.tensor(0)?.requires_grad() && rushlight_autograd::modes::grad_enabled() {
        return Err(Error::runtime(format!("Autograd not support dtype: {}", dtype.title()))
            .hint("Whole numbers have no gradient: x.detach() leaves the history."));
    }
    Ok(dtype)
}

fn mean_dtype(args: &Args, place: usize) -> Result<DType> {
    let (asked, own) = (args.dtype(place), args.tensor(0)?.dtype());
    let dtype = asked.unwrap_or(own);
    if !dtype.is_differentiable() {
        let which = if asked.is_some() { "Optional" } else { "Input" };
        return Err(Error::runtime(format!(
            "mean(): could not infer output dtype. {which} dtype must be either a floating point or complex dtype. Got: {}",
            dtype.title()
        ))
        .hint("x.float().mean() or x.mean(dtype=torch.float32) takes the mean of integers."));
    }
    Ok(dtype)
}

fn infer(args: &Args, over: Over, dtype: usize) -> Result<Vec<Spec>> {
    Ok(vec![over.spec(args, result_dtype(args, dtype)?)?])
}

fn run(args: &Args, over: Over, results: &[rushlight_autograd::Tensor], pick: fn(DType) -> Option<Fold>) -> Result<()> {
    super::run(args, over, results, pick, results[0].dtype().compute(), &[])
}
