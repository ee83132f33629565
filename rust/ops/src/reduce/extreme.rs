//! The largest and the smallest elements, and their indices.

use rushlight_core::{Bool, DType, Device, Error, Result};
use rushlight_cpu::folds;
use rushlight_cpu::folds::Folds;
use rushlight_cpu::reduce::extremum;
use rushlight_dispatch::call::errors::not_implemented;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::op;
use rushlight_dispatch::operator::{
    Accepts, Args, BackwardContext, BatchRule, DTypes, Derivative, Implementation, Kernel, Operator, Out, Saves, Tags,
    TensorSpec, Variants, formula, operator,
};
use rushlight_dispatch::value::Output;

use super::select_backward::{ORDERED, select_backward};
use super::{ReduceDims, on_cuda, restored};
use crate::expr_ext::ExprExt;
use crate::pointwise::compare::{EQ, ISNAN, MAXIMUM, MINIMUM};

/// Shared by the operators below; those with other variants state them.
const ORDER: Operator =
    Operator { variants: Variants::BOTH.union(Variants::OUT), out: Out::STRICT, dtypes: ORDERED, ..Operator::BASE };

#[operator]
pub static MAX_DIM: Operator = Operator {
    name: "max.dim",
    signature: "(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    doc: "The largest elements along `dim`, and their first indices; NaN is the largest of all.

    >>> torch.max(torch.tensor([[1., 3.], [4., 2.]]), dim=1)
    torch.return_types.max(
    values=tensor([3., 4.]),
    indices=tensor([1, 0]))",
    out: Out::EXACT,
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Kernel(Kernel::on_any_device(infer_places, |args, results| {
        run_places(args, results, true)
    })),
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

#[operator]
pub static MAX: Operator = Operator {
    name: "max",
    out: Out::CAST,
    signature: "(Tensor self) -> Tensor",
    doc: "The largest element; NaN is the largest of all. The gradient is divided among equal ones.

    >>> torch.max(torch.tensor([1., 3., 2.]))
    tensor(3.)",
    batch_rule: BatchRule::FullReduction(&AMAX),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| infer_all(args, "max_all"),
        |args, results| run(args, ReduceDims::ALL, results, LARGEST),
    )),
    derivative: SHARED_ALL,
    node: "MaxBackward1",
    samples: &["t(2, 3)", "t()", "t(3, 2).t()"],
    errors: &[(
        "t(0)",
        "RuntimeError",
        "max(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.",
    )],
    reference: "np.max(self)",
    kernel_name: "max_all",
    ..ORDER
};

#[operator]
pub static MAX_OTHER: Operator = Operator {
    name: "max.other",
    out: Out::CAST,
    signature: "(Tensor self, Tensor other) -> Tensor",
    doc: "The larger of two elements, as `maximum`.

    >>> torch.max(torch.tensor([1, 5]), torch.tensor([3, 2]))
    tensor([3, 5])",
    tags: Tags::BROADCASTS,
    implementation: Implementation::CompositeImplicit(|args| {
        op!(MAXIMUM, args.tensor(INPUT)?, args.tensor(OTHER)?).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3), t(3)"],
    reference: "np.maximum(self, other)",
    ..ORDER
};

#[operator]
pub static MIN_DIM: Operator = Operator {
    name: "min.dim",
    signature: "(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    doc: "The smallest elements along `dim`, and their first indices; NaN is the smallest of all.

    >>> torch.min(torch.tensor([[1., 3.], [4., 2.]]), dim=1)
    torch.return_types.min(
    values=tensor([1., 2.]),
    indices=tensor([0, 1]))",
    out: Out::EXACT,
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Kernel(Kernel::on_any_device(infer_places, |args, results| {
        run_places(args, results, false)
    })),
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

#[operator]
pub static MIN: Operator = Operator {
    name: "min",
    out: Out::CAST,
    signature: "(Tensor self) -> Tensor",
    doc: "The smallest element; NaN is the smallest of all. The gradient is divided among equal ones.

    >>> torch.min(torch.tensor([1., 3., 2.]))
    tensor(1.)",
    batch_rule: BatchRule::FullReduction(&AMIN),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| infer_all(args, "min_all"),
        |args, results| run(args, ReduceDims::ALL, results, SMALLEST),
    )),
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

#[operator]
pub static MIN_OTHER: Operator = Operator {
    name: "min.other",
    out: Out::CAST,
    signature: "(Tensor self, Tensor other) -> Tensor",
    doc: "The smaller of two elements, as `minimum`.

    >>> torch.min(torch.tensor([1, 5]), torch.tensor([3, 2]))
    tensor([1, 2])",
    tags: Tags::BROADCASTS,
    implementation: Implementation::CompositeImplicit(|args| {
        op!(MINIMUM, args.tensor(INPUT)?, args.tensor(OTHER)?).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3), t(3)"],
    reference: "np.minimum(self, other)",
    ..ORDER
};

#[operator]
pub static AMAX: Operator = Operator {
    name: "amax",
    out: Out::new(
        Accepts::Same,
        &[
            "Expected the dtype for input and out to match, but got {Result} for input's dtype and {Out} for out's dtype.",
        ],
    ),
    signature: "(Tensor self, int[1]? dim=[], bool keepdim=False) -> Tensor",
    doc: "The largest elements along one or several dimensions; the gradient is divided among equal ones.

    >>> torch.amax(torch.tensor([[1., 3.], [4., 2.]]), 1)
    tensor([3., 4.])",
    batch_rule: BatchRule::Over(DIM),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| infer_values(args, "max_values"),
        |args, results| run(args, ReduceDims::of(args, DIM, KEEPDIM)?, results, LARGEST),
    )),
    derivative: SHARED,
    samples: &["t(2, 3)", "t(2, 3), 1", "t(2, 3, 4), (0, 2), True"],
    errors: &[("t(0, 3), 0", "IndexError", "amax(): Expected reduction dim 0 to have non-zero size.")],
    reference: "np.max(self, axis=tuple(dim) if isinstance(dim, (list, tuple)) and len(dim) else None if isinstance(dim, (list, tuple)) else dim, keepdims=keepdim)",
    ..ORDER
};

#[operator]
pub static AMIN: Operator = Operator {
    name: "amin",
    out: Out::new(
        Accepts::Same,
        &[
            "Expected the dtype for input and out to match, but got {Result} for input's dtype and {Out} for out's dtype.",
        ],
    ),
    signature: "(Tensor self, int[1]? dim=[], bool keepdim=False) -> Tensor",
    doc: "The smallest elements along one or several dimensions; the gradient is divided among equal ones.

    >>> torch.amin(torch.tensor([[1., 3.], [4., 2.]]), 1)
    tensor([1., 2.])",
    batch_rule: BatchRule::Over(DIM),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| infer_values(args, "min_values"),
        |args, results| run(args, ReduceDims::of(args, DIM, KEEPDIM)?, results, SMALLEST),
    )),
    derivative: SHARED,
    samples: &["t(2, 3)", "t(2, 3), 1", "t(2, 3, 4), (0, 2), True"],
    errors: &[("t(0, 3), 0", "IndexError", "amin(): Expected reduction dim 0 to have non-zero size.")],
    reference: "np.min(self, axis=tuple(dim) if isinstance(dim, (list, tuple)) and len(dim) else None if isinstance(dim, (list, tuple)) else dim, keepdims=keepdim)",
    ..ORDER
};

#[operator]
pub static AMINMAX: Operator = Operator {
    name: "aminmax",
    signature: "(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)",
    doc: "The smallest and the largest elements along `dim`, or of all.

    >>> torch.aminmax(torch.tensor([1., 3., 2.]))
    torch.return_types.aminmax(
    min=tensor(1.),
    max=tensor(3.))",
    batch_rule: BatchRule::Over(DIM),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let input = args.tensor(INPUT)?;
            if input.numel() == 0 && !args.has(DIM) {
                return Err(Error::runtime(
                    "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.",
                )
                .hint("Reduce along a dimension that has elements, or skip empty tensors."));
            }
            let over = ReduceDims::of(args, DIM, KEEPDIM)?;
            over.check_not_empty(args).map_err(|_| {
                Error::index(format!("aminmax: Expected reduction dim {} to have non-zero size.", over.dims.first()))
            })?;
            check_dtype(args, "aminmax_cpu")?;
            let spec = over.spec(args, input.dtype())?;
            Ok(vec![spec.clone(), spec])
        },
        |args, results| {
            let over = ReduceDims::of(args, DIM, KEEPDIM)?;
            run(args, over, &results[..1], SMALLEST)?;
            run(args, over, &results[1..], LARGEST)
        },
    )),
    derivative: Derivative::Formulas(&[formula(
        INPUT,
        Saves::input(INPUT).union(Saves::RESULT).union(Saves::result(1)),
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

#[operator]
pub static ARGMAX: Operator = Operator {
    name: "argmax",
    signature: "(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
    doc: "The first index of the largest element along `dim`, or of all elements in row-major order.

    >>> torch.argmax(torch.tensor([[1., 3.], [4., 2.]]))
    tensor(2)",
    dtypes: DTypes::REAL,
    batch_rule: BatchRule::Over(DIM),
    implementation: Implementation::Kernel(Kernel::on_any_device(infer_arg, |args, results| {
        run_arg(args, results, true)
    })),
    derivative: Derivative::NonDifferentiable("its result is an index"),
    samples: &["t(2, 3)", "t(2, 3), 1", "t(2, 3), 0, True", "t(3, 2).t()", "t()"],
    errors: &[
        ("t(0)", "IndexError", "argmax(): Expected reduction dim to be specified for input.numel() == 0."),
        ("t(0, 3), 0", "IndexError", "argmax(): Expected reduction dim 0 to have non-zero size."),
    ],
    reference: "np.array(np.argmax(self, axis=dim, keepdims=keepdim))",
    ..ORDER
};

#[operator]
pub static ARGMIN: Operator = Operator {
    name: "argmin",
    signature: "(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
    doc: "The first index of the smallest element along `dim`, or of all elements in row-major order.

    >>> torch.argmin(torch.tensor([[1., 3.], [4., 2.]]), dim=0)
    tensor([0, 1])",
    dtypes: DTypes::REAL,
    batch_rule: BatchRule::Over(DIM),
    implementation: Implementation::Kernel(Kernel::on_any_device(infer_arg, |args, results| {
        run_arg(args, results, false)
    })),
    derivative: Derivative::NonDifferentiable("its result is an index"),
    samples: &["t(2, 3)", "t(2, 3), 1", "t(2, 3), 0, True", "t(3, 2).t()", "t()"],
    errors: &[("t(0, 3), 0", "IndexError", "argmin(): Expected reduction dim 0 to have non-zero size.")],
    reference: "np.array(np.argmin(self, axis=dim, keepdims=keepdim))",
    ..ORDER
};

/// The gradient goes to the selected element.
const PLACED: Derivative = {
    use MAX_DIM::*;
    Derivative::Formulas(&[formula(INPUT, Saves::result(1), |d| {
        select_backward(d, d.grad(), d.result_of(1), d.int(DIM), d.flag(KEEPDIM))
    })])
};

/// The gradient is divided among equal elements.
const SHARED: Derivative =
    Derivative::Formulas(&[formula(AMAX::INPUT, Saves::input(AMAX::INPUT).union(Saves::RESULT), |d| {
        share(d, d.grad(), d.result())
    })]);

/// The same for a reduction of all elements; there NaN elements are included.
pub const SHARED_ALL: Derivative =
    Derivative::Formulas(&[formula(MAX::INPUT, Saves::input(MAX::INPUT).union(Saves::RESULT), |d| {
        let input = d.input(MAX::INPUT);
        let same = input.clone().with(&EQ, d.result()).or(input.call(&ISNAN, []).and(d.result().call(&ISNAN, [])));
        let count = same.clone().call(&super::SUM, []);
        same * (d.grad() / count)
    })]);

fn share(d: &BackwardContext, grad: Expr, result: Expr) -> Expr {
    use AMINMAX::*;

    let same = restored(d, result, DIM, KEEPDIM).with(&EQ, d.input(INPUT));
    let count = same.clone().call(&super::sum::SUM_DIM, [super::derived_dims(d, DIM).into(), true.into()]);
    // In this order, which determines the strides.
    restored(d, grad, DIM, KEEPDIM) * same / count
}

fn refuse_complex(args: &Args) -> Result<()> {
    if args.tensor(MAX_DIM::INPUT)?.dtype().is_complex() {
        return Err(Error::runtime(format!("{}(): does not support complex input", args.op.python_name())));
    }
    Ok(())
}

/// torch's error for a dtype without an order, with the name of the missing kernel.
fn check_dtype(args: &Args, kernel: impl std::fmt::Display) -> Result<()> {
    let dtype = args.tensor(MAX_DIM::INPUT)?.dtype();
    if args.op.dtypes.has(dtype) {
        return Ok(());
    }
    Err(Error::unsupported(&kernel.to_string(), dtype))
}

fn infer_places(args: &Args) -> Result<Vec<TensorSpec>> {
    use MAX_DIM::*;

    let input = args.tensor(INPUT)?;
    let over = ReduceDims::of(args, DIM, KEEPDIM)?;
    refuse_complex(args)?;
    check_dtype(args, format_args!("{}_cpu", args.op.python_name()))?;
    over.check_not_empty(args)?;
    Ok(vec![over.spec(args, input.dtype())?, over.spec(args, DType::I64)?])
}

fn run_places(args: &Args, results: &[rushlight_autograd::Tensor], up: bool) -> Result<()> {
    use MAX_DIM::*;

    let input = args.tensor(INPUT)?;
    if let Device::Cuda(_) = input.device() {
        return on_cuda::best(input, ReduceDims::of(args, DIM, KEEPDIM)?.dims, results, up);
    }
    let compute = input.dtype().compute();
    let fold = extremum(compute, up, false).ok_or_else(|| not_implemented(args.op, compute))?;
    super::reduce(input, ReduceDims::of(args, DIM, KEEPDIM)?.dims, results, fold, &[])
}

fn infer_all(args: &Args, kernel: &str) -> Result<Vec<TensorSpec>> {
    let input = args.tensor(MAX::INPUT)?;
    check_dtype(args, kernel)?;
    check_any(args)?;
    Ok(vec![ReduceDims::ALL.spec(args, input.dtype())?])
}

fn check_any(args: &Args) -> Result<()> {
    if args.tensor(MAX::INPUT)?.numel() == 0 {
        return Err(Error::runtime(format!(
            "{}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.",
            args.op.python_name()
        )));
    }
    Ok(())
}

fn infer_values(args: &Args, kernel: &str) -> Result<Vec<TensorSpec>> {
    use AMAX::*;

    let input = args.tensor(INPUT)?;
    let over = ReduceDims::of(args, DIM, KEEPDIM)?;
    if super::dims(args, DIM).is_empty() {
        check_any(args)?;
    }
    over.check_not_empty(args)?;
    check_dtype(args, format_args!("{kernel}_cpu"))?;
    Ok(vec![over.spec(args, input.dtype())?])
}

fn infer_arg(args: &Args) -> Result<Vec<TensorSpec>> {
    use ARGMAX::*;

    let input = args.tensor(INPUT)?;
    refuse_complex(args)?;
    if input.dtype() == DType::Bool {
        return Err(Error::runtime(format!("{}(): does not support bool input", args.op.python_name())));
    }
    check_dtype(args, format_args!("{}_cpu", args.op.python_name()))?;
    let over = ReduceDims::of(args, DIM, KEEPDIM)?;
    if args.has(DIM) {
        over.check_not_empty(args)?;
    } else if input.numel() == 0 {
        return Err(Error::index(format!(
            "{}(): Expected reduction dim to be specified for input.numel() == 0.",
            args.op.python_name()
        )));
    }
    Ok(vec![over.spec(args, DType::I64)?])
}

fn run_arg(args: &Args, results: &[rushlight_autograd::Tensor], up: bool) -> Result<()> {
    use ARGMAX::*;

    let input = args.tensor(INPUT)?;
    if let Device::Cuda(_) = input.device() {
        return on_cuda::best(input, ReduceDims::of(args, DIM, KEEPDIM)?.dims, results, up);
    }
    let compute = input.dtype().compute();
    let fold = extremum(compute, up, true).ok_or_else(|| not_implemented(args.op, compute))?;
    // Indices over all elements count in row-major order, which the skeleton's loops need not follow.
    let flat = if args.has(DIM) { input.clone() } else { crate::convert::contiguous(input)? };
    super::reduce(&flat, ReduceDims::of(args, DIM, KEEPDIM)?.dims, results, fold, &[])
}

fn run(args: &Args, over: ReduceDims, results: &[rushlight_autograd::Tensor], folds: Folds) -> Result<()> {
    super::fold(args, over, results, folds, results[0].dtype().compute(), &[])
}

/// NaN wins over everything, in both directions.
pub const LARGEST: Folds = folds! {
    "amax";
    for<S> [u8, i8, i16, i32, i64] (T::MIN; |a, x| if x > a { x } else { a }; |a, b| if b > a { b } else { a }; |a, _n| a);
    for<S> [f32, f64] (
        T::NEG_INFINITY;
        |a, x| if (x > a) | x.is_nan() { x } else { a };
        |a, b| if (b > a) | b.is_nan() { b } else { a };
        |a, _n| a);
    for<S> [Bool] (Bool(0); |a, x| Bool(a.0 | x.0); |a, b| Bool(a.0 | b.0); |a, _n| a)
};

pub const SMALLEST: Folds = folds! {
    "amin";
    for<S> [u8, i8, i16, i32, i64] (T::MAX; |a, x| if x < a { x } else { a }; |a, b| if b < a { b } else { a }; |a, _n| a);
    for<S> [f32, f64] (
        T::INFINITY;
        |a, x| if (x < a) | x.is_nan() { x } else { a };
        |a, b| if (b < a) | b.is_nan() { b } else { a };
        |a, _n| a);
    for<S> [Bool] (Bool(1); |a, x| Bool(a.0 & x.0); |a, b| Bool(a.0 & b.0); |a, _n| a)
};
