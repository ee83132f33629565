//! The largest and the smallest elements, and where they stand.

use rushlight_core::{Bool, DType, Error, Result};
use rushlight_cpu::folds;
use rushlight_cpu::reduce::{Fold, extremum};

use super::put_back::{ORDERED, put_back};
use super::{Over, restored};
use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::mapped::Mapped;
use crate::pointwise::compare::{EQ, ISNAN, MAXIMUM, MINIMUM};
use crate::row::{Accepts, Kernel, Out, Row, Run, Spec, Traits, Variants};
use crate::value::{Args, Output};

/// What the rows below have in common; those of other variants say so.
const ORDER: Row =
    Row { variants: Variants::BOTH.union(Variants::OUT), out: Out::STRICT, dtypes: ORDERED, ..Row::BASE };

pub static MAX_DIM: Row = Row {
    name: "max.dim",
    signature: "(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    doc: "The largest elements along `dim`, and the places where they first stand; NaN is the largest of all.

    >>> torch.max(torch.tensor([[1., 3.], [4., 2.]]), dim=1)
    torch.return_types.max(
    values=tensor([3., 4.]),
    indices=tensor([1, 0]))",
    out: Out::EXACT,
    mapped: Mapped::Along(1),
    run: Run::Kernel(Kernel { infer: infer_places, cpu: |args, results| run_places(args, results, true) }),
    derivative: PLACED,
    node: "MaxBackward0",
    samples: &["t(2, 3), 1", "t(2, 3, 4), 1, True", "t(3, 2).t(), 0", "t(), 0"],
    errors: &[
        ("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)"),
        ("t(0, 3), 0", "IndexError", "max(): Expected reduction dim 0 to have non-zero size."),
    ],
    reference: "(np.max(self, axis=dim, keepdims=keepdim), np.array(np.argmax(self, axis=dim, keepdims=keepdim)))",
    ..ORDER
};

pub static MAX: Row = Row {
    name: "max",
    out: Out::CAST,
    signature: "(Tensor self) -> Tensor",
    doc: "The largest element; NaN is the largest of all. Equal ones share the gradient.

    >>> torch.max(torch.tensor([1., 3., 2.]))
    tensor(3.)",
    mapped: Mapped::Whole(&AMAX),
    run: Run::Kernel(Kernel {
        infer: |args| infer_all(args, "max_all"),
        cpu: |args, results| run(args, Over::ALL, results, largest()),
    }),
    derivative: SHARED_ALL,
    node: "MaxBackward1",
    samples: &["t(2, 3)", "t()", "t(3, 2).t()"],
    errors: &[(
        "t(0)",
        "RuntimeError",
        "max(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.",
    )],
    reference: "np.max(self)",
    ..ORDER
};

pub static MAX_OTHER: Row = Row {
    name: "max.other",
    out: Out::CAST,
    signature: "(Tensor self, Tensor other) -> Tensor",
    doc: "The larger of two elements, as `maximum`.

    >>> torch.max(torch.tensor([1, 5]), torch.tensor([3, 2]))
    tensor([3, 5])",
    traits: Traits::BROADCASTS,
    run: Run::Compose(|args| crate::op!(MAXIMUM, args.tensor(0)?, args.tensor(1)?).map(Output::Tensor)),
    derivative: Derivative::Composed,
    samples: &["t(2, 3), t(3)"],
    reference: "np.maximum(self, other)",
    ..ORDER
};

pub static MIN_DIM: Row = Row {
    name: "min.dim",
    signature: "(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    doc: "The smallest elements along `dim`, and the places where they first stand; NaN is the smallest of all.

    >>> torch.min(torch.tensor([[1., 3.], [4., 2.]]), dim=1)
    torch.return_types.min(
    values=tensor([1., 2.]),
    indices=tensor([0, 1]))",
    out: Out::EXACT,
    mapped: Mapped::Along(1),
    run: Run::Kernel(Kernel { infer: infer_places, cpu: |args, results| run_places(args, results, false) }),
    derivative: PLACED,
    node: "MinBackward0",
    samples: &["t(2, 3), 1", "t(2, 3, 4), 1, True", "t(3, 2).t(), 0", "t(), 0"],
    errors: &[
        ("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)"),
        ("t(0, 3), 0", "IndexError", "min(): Expected reduction dim 0 to have non-zero size."),
    ],
    reference: "(np.min(self, axis=dim, keepdims=keepdim), np.array(np.argmin(self, axis=dim, keepdims=keepdim)))",
    ..ORDER
};

pub static MIN: Row = Row {
    name: "min",
    out: Out::CAST,
    signature: "(Tensor self) -> Tensor",
    doc: "The smallest element; NaN is the smallest of all. Equal ones share the gradient.

    >>> torch.min(torch.tensor([1., 3., 2.]))
    tensor(1.)",
    mapped: Mapped::Whole(&AMIN),
    run: Run::Kernel(Kernel {
        infer: |args| infer_all(args, "min_all"),
        cpu: |args, results| run(args, Over::ALL, results, smallest()),
    }),
    derivative: SHARED_ALL,
    node: "MinBackward1",
    samples: &["t(2, 3)", "t()", "t(3, 2).t()"],
    errors: &[(
        "t(0)",
        "RuntimeError",
        "min(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.",
    )],
    reference: "np.min(self)",
    ..ORDER
};

pub static MIN_OTHER: Row = Row {
    name: "min.other",
    out: Out::CAST,
    signature: "(Tensor self, Tensor other) -> Tensor",
    doc: "The smaller of two elements, as `minimum`.

    >>> torch.min(torch.tensor([1, 5]), torch.tensor([3, 2]))
    tensor([1, 2])",
    traits: Traits::BROADCASTS,
    run: Run::Compose(|args| crate::op!(MINIMUM, args.tensor(0)?, args.tensor(1)?).map(Output::Tensor)),
    derivative: Derivative::Composed,
    samples: &["t(2, 3), t(3)"],
    reference: "np.minimum(self, other)",
    ..ORDER
};

pub static AMAX: Row = Row {
    name: "amax",
    out: Out::new(
        Accepts::Same,
        &[
            "Expected the dtype for input and out to match, but got {Result} for input's dtype and {Out} for out's dtype.",
        ],
    ),
    signature: "(Tensor self, int[1]? dim=[], bool keepdim=False) -> Tensor",
    doc: "The largest elements along one or several dimensions; equal ones share the gradient.

    >>> torch.amax(torch.tensor([[1., 3.], [4., 2.]]), 1)
    tensor([3., 4.])",
    mapped: Mapped::Over(1),
    run: Run::Kernel(Kernel {
        infer: |args| infer_values(args, "max_values"),
        cpu: |args, results| run(args, Over::of(args, 1)?, results, largest()),
    }),
    derivative: SHARED,
    samples: &["t(2, 3)", "t(2, 3), 1", "t(2, 3, 4), (0, 2), True"],
    errors: &[("t(0, 3), 0", "IndexError", "amax(): Expected reduction dim 0 to have non-zero size.")],
    reference: "np.max(self, axis=tuple(dim) if isinstance(dim, (list, tuple)) and len(dim) else None if isinstance(dim, (list, tuple)) else dim, keepdims=keepdim)",
    ..ORDER
};

pub static AMIN: Row = Row {
    name: "amin",
    out: Out::new(
        Accepts::Same,
        &[
            "Expected the dtype for input and out to match, but got {Result} for input's dtype and {Out} for out's dtype.",
        ],
    ),
    signature: "(Tensor self, int[1]? dim=[], bool keepdim=False) -> Tensor",
    doc: "The smallest elements along one or several dimensions; equal ones share the gradient.

    >>> torch.amin(torch.tensor([[1., 3.], [4., 2.]]), 1)
    tensor([1., 2.])",
    mapped: Mapped::Over(1),
    run: Run::Kernel(Kernel {
        infer: |args| infer_values(args, "min_values"),
        cpu: |args, results| run(args, Over::of(args, 1)?, results, smallest()),
    }),
    derivative: SHARED,
    samples: &["t(2, 3)", "t(2, 3), 1", "t(2, 3, 4), (0, 2), True"],
    errors: &[("t(0, 3), 0", "IndexError", "amin(): Expected reduction dim 0 to have non-zero size.")],
    reference: "np.min(self, axis=tuple(dim) if isinstance(dim, (list, tuple)) and len(dim) else None if isinstance(dim, (list, tuple)) else dim, keepdims=keepdim)",
    ..ORDER
};

pub static AMINMAX: Row = Row {
    name: "aminmax",
    signature: "(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)",
    doc: "The smallest and the largest elements along `dim`, or of all.

    >>> torch.aminmax(torch.tensor([1., 3., 2.]))
    torch.return_types.aminmax(
    min=tensor(1.),
    max=tensor(3.))",
    mapped: Mapped::Over(1),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let own = args.tensor(0)?;
            if own.numel() == 0 && !args.has(1) {
                return Err(Error::runtime(
                    "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.",
                )
                .hint("Reduce along a dimension that has elements, or skip empty tensors."));
            }
            let over = Over::of(args, 1)?;
            over.check_not_empty(args).map_err(|_| {
                Error::index(format!("aminmax: Expected reduction dim {} to have non-zero size.", over.dims.first()))
            })?;
            check_dtype(args, "aminmax_cpu")?;
            let spec = over.spec(args, own.dtype())?;
            Ok(vec![spec.clone(), spec])
        },
        cpu: |args, results| {
            let over = Over::of(args, 1)?;
            run(args, over, &results[..1], smallest())?;
            run(args, over, &results[1..], largest())
        },
    }),
    derivative: Derivative::Formulas(&[formula(
        0,
        Saves::input(0).union(Saves::RESULT).union(Saves::result(1)),
        |d| {
            let side = |at: usize| share(d, d.grad_of(at), d.result_of(at));
            match (d.has_grad(0), d.has_grad(1)) {
                (true, true) => side(0) + side(1),
                (true, false) => side(0),
                _ => side(1),
            }
        },
    )]),
    samples: &["t(2, 3)", "t(2, 3), dim=1", "t(2, 3), dim=0, keepdim=True"],
    errors: &[(
        "t(0, 3)",
        "RuntimeError",
        "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.",
    )],
    reference: "(np.min(self, axis=dim, keepdims=keepdim), np.max(self, axis=dim, keepdims=keepdim))",
    ..ORDER
};

pub static ARGMAX: Row = Row {
    name: "argmax",
    signature: "(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
    doc: "Where the largest element along `dim` first stands, or the largest of all in row-major order.

    >>> torch.argmax(torch.tensor([[1., 3.], [4., 2.]]))
    tensor(2)",
    dtypes: crate::row::DTypes::REAL,
    mapped: Mapped::Over(1),
    run: Run::Kernel(Kernel { infer: infer_arg, cpu: |args, results| run_arg(args, results, true) }),
    derivative: Derivative::NonDifferentiable("its result is a place"),
    samples: &["t(2, 3)", "t(2, 3), 1", "t(2, 3), 0, True", "t(3, 2).t()", "t()"],
    errors: &[
        ("t(0)", "IndexError", "argmax(): Expected reduction dim to be specified for input.numel() == 0."),
        ("t(0, 3), 0", "IndexError", "argmax(): Expected reduction dim 0 to have non-zero size."),
    ],
    reference: "np.array(np.argmax(self, axis=dim, keepdims=keepdim))",
    ..ORDER
};

pub static ARGMIN: Row = Row {
    name: "argmin",
    signature: "(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
    doc: "Where the smallest element along `dim` first stands, or the smallest of all in row-major order.

    >>> torch.argmin(torch.tensor([[1., 3.], [4., 2.]]), dim=0)
    tensor([0, 1])",
    dtypes: crate::row::DTypes::REAL,
    mapped: Mapped::Over(1),
    run: Run::Kernel(Kernel { infer: infer_arg, cpu: |args, results| run_arg(args, results, false) }),
    derivative: Derivative::NonDifferentiable("its result is a place"),
    samples: &["t(2, 3)", "t(2, 3), 1", "t(2, 3), 0, True", "t(3, 2).t()", "t()"],
    errors: &[("t(0, 3), 0", "IndexError", "argmin(): Expected reduction dim 0 to have non-zero size.")],
    reference: "np.array(np.argmin(self, axis=dim, keepdims=keepdim))",
    ..ORDER
};

/// The gradient goes to the element that was found.
const PLACED: Derivative = Derivative::Formulas(&[formula(0, Saves::result(1), |d| {
    put_back(d, d.grad(), d.result_of(1), d.int(1), d.flag(2))
})]);

/// The gradient is shared among equal elements.
const SHARED: Derivative =
    Derivative::Formulas(&[formula(0, Saves::input(0).union(Saves::RESULT), |d| share(d, d.grad(), d.result()))]);

/// The same where everything was reduced; there, NaN shares too.
pub const SHARED_ALL: Derivative = Derivative::Formulas(&[formula(0, Saves::input(0).union(Saves::RESULT), |d| {
    let same = d.input(0).with(&EQ, d.result()).or(d.input(0).call(&ISNAN, []).and(d.result().call(&ISNAN, [])));
    let count = same.clone().call(&super::SUM, []);
    same * (d.grad() / count)
})]);

fn share(d: &Derive, grad: Expr, result: Expr) -> Expr {
    let same = d.input(0).with(&EQ, restored(d, result, 1));
    let count = same.clone().call(&super::sum::SUM_DIM, [super::derived_dims(d, 1).into(), true.into()]);
    same * (restored(d, grad, 1) / count)
}

fn refuse_complex(args: &Args) -> Result<()> {
    if args.tensor(0)?.dtype().is_complex() {
        return Err(Error::runtime(format!("{}(): does not support complex input", args.row.python_name())));
    }
    Ok(())
}

/// Refuses a dtype without order, in torch's words for the kernel that misses.
fn check_dtype(args: &Args, kernel: impl std::fmt::Display) -> Result<()> {
    let dtype = args.tensor(0)?.dtype();
    if args.row.dtypes.has(dtype) {
        return Ok(());
    }
    Err(Error::unsupported(&kernel.to_string(), dtype))
}

fn infer_places(args: &Args) -> Result<Vec<Spec>> {
    let own = args.tensor(0)?;
    let over = Over::of(args, 1)?;
    refuse_complex(args)?;
    check_dtype(args, format_args!("{}_cpu", args.row.python_name()))?;
    over.check_not_empty(args)?;
    Ok(vec![over.spec(args, own.dtype())?, over.spec(args, DType::I64)?])
}

fn run_places(args: &Args, results: &[rushlight_autograd::Tensor], up: bool) -> Result<()> {
    let own = args.tensor(0)?;
    let compute = own.dtype().compute();
    let fold = extremum(compute, up, false).ok_or_else(|| crate::call::not_implemented(args.row, compute))?;
    super::reduce(own, Over::of(args, 1)?.dims, results, fold, &[])
}

fn infer_all(args: &Args, kernel: &str) -> Result<Vec<Spec>> {
    let own = args.tensor(0)?;
    check_dtype(args, kernel)?;
    check_any(args)?;
    Ok(vec![Over::ALL.spec(args, own.dtype())?])
}

fn check_any(args: &Args) -> Result<()> {
    if args.tensor(0)?.numel() == 0 {
        return Err(Error::runtime(format!(
            "{}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.",
            args.row.python_name()
        )));
    }
    Ok(())
}

fn infer_values(args: &Args, kernel: &str) -> Result<Vec<Spec>> {
    let own = args.tensor(0)?;
    let over = Over::of(args, 1)?;
    if super::dims(args, 1).is_empty() {
        check_any(args)?;
    }
    over.check_not_empty(args)?;
    check_dtype(args, format_args!("{kernel}_cpu"))?;
    Ok(vec![over.spec(args, own.dtype())?])
}

fn infer_arg(args: &Args) -> Result<Vec<Spec>> {
    let own = args.tensor(0)?;
    refuse_complex(args)?;
    if own.dtype() == DType::Bool {
        return Err(Error::runtime(format!("{}(): does not support bool input", args.row.python_name())));
    }
    check_dtype(args, format_args!("{}_cpu", args.row.python_name()))?;
    let over = Over::of(args, 1)?;
    if args.has(1) {
        over.check_not_empty(args)?;
    } else if own.numel() == 0 {
        return Err(Error::index(format!(
            "{}(): Expected reduction dim to be specified for input.numel() == 0.",
            args.row.python_name()
        )));
    }
    Ok(vec![over.spec(args, DType::I64)?])
}

fn run_arg(args: &Args, results: &[rushlight_autograd::Tensor], up: bool) -> Result<()> {
    let own = args.tensor(0)?;
    let compute = own.dtype().compute();
    let fold = extremum(compute, up, true).ok_or_else(|| crate::call::not_implemented(args.row, compute))?;
    // Places among all elements count in row-major order, which the skeleton's walk need not follow.
    let flat = if args.has(1) { own.clone() } else { crate::convert::contiguous(own)? };
    super::reduce(&flat, Over::of(args, 1)?.dims, results, fold, &[])
}

fn run(args: &Args, over: Over, results: &[rushlight_autograd::Tensor], pick: fn(DType) -> Option<Fold>) -> Result<()> {
    super::run(args, over, results, pick, results[0].dtype().compute(), &[])
}

/// NaN beats everything, in both directions.
fn largest() -> fn(DType) -> Option<Fold> {
    folds! {
        for<S> [u8, i8, i16, i32, i64] (T::MIN; |a, x| if x > a { x } else { a }; |a, b| if b > a { b } else { a }; |a, _n| a);
        for<S> [f32, f64] (
            T::NEG_INFINITY;
            |a, x| if (x > a) | x.is_nan() { x } else { a };
            |a, b| if (b > a) | b.is_nan() { b } else { a };
            |a, _n| a);
        for<S> [Bool] (Bool(0); |a, x| Bool(a.0 | x.0); |a, b| Bool(a.0 | b.0); |a, _n| a)
    }
}

fn smallest() -> fn(DType) -> Option<Fold> {
    folds! {
        for<S> [u8, i8, i16, i32, i64] (T::MAX; |a, x| if x < a { x } else { a }; |a, b| if b < a { b } else { a }; |a, _n| a);
        for<S> [f32, f64] (
            T::INFINITY;
            |a, x| if (x < a) | x.is_nan() { x } else { a };
            |a, b| if (b < a) | b.is_nan() { b } else { a };
            |a, _n| a);
        for<S> [Bool] (Bool(1); |a, x| Bool(a.0 & x.0); |a, b| Bool(a.0 & b.0); |a, _n| a)
    }
}
