//! Orthogonal factors, and the Householder reflections from which they are made.

use rushlight_autograd::Tensor;
use rushlight_core::{Dims, Error, Result};
use rushlight_dispatch::call::on_host;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Accepts, Args, Autocast, BackwardContext, BatchRule, DTypes, Derivative, Implementation, Kernel, OnCuda, Operator,
    Out, Saves, TensorSpec, Variants, formula, operator,
};
use rushlight_dispatch::value::Output;
use rushlight_dispatch::{copy, create, op, operands, warn_once};

use super::dense::{
    by_columns, by_columns_copy, check_inexact, check_kernel, check_matrix, count, dense, identities, is_tracked,
    matrices, matrix_sizes, per_matrix, sized, steady,
};
use super::factors_on_cuda;
use super::matrix::size_of;
use crate::convert::contiguous;
use crate::expr_ext::ExprExt;
use crate::reduce::SUM;

#[operator]
pub static QR: Operator = Operator {
    name: "qr",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)",
    doc: "Matrices as `Q @ R`: orthonormal columns and an upper triangle.

`mode` is 'reduced', 'complete' (square `Q`) or 'r' (no `Q`).

    >>> torch.linalg.qr(torch.tensor([[3., 1.], [4., 1.]])).R.abs()
    tensor([[5.0000, 1.4000],
            [0.0000, 0.2000]])",
    out: Out::EXACT,
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    batch_rule: BatchRule::LeadingDims,
    implementation: Implementation::Kernel(Kernel { infer, cpu: decompose, cuda: OnCuda::Own(decompose_on_cuda) }),
    derivative: Derivative::Formulas(&[formula(A, Saves::result(0).union(Saves::result(1)), gradient)]),
    samples: &["t(3, 3)", "t(2, 4, 3)", "t(3, 5)", "t(3, 0)"],
    errors: &[
        ("t(3)", "RuntimeError", "linalg.qr: The input tensor A must have at least 2 dimensions."),
        ("i(3, 2, 2)", "RuntimeError", "linalg.qr: Expected a floating point or complex tensor as input. Got Long"),
        (
            "t(3, 3), 'x'",
            "RuntimeError",
            "qr received unrecognized mode 'x' but expected one of 'reduced' (default), 'r', or 'complete'",
        ),
    ],
    ..Operator::BASE
};

#[operator]
pub static QR_OLD: Operator = Operator {
    name: "qr",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, bool some=True) -> (Tensor Q, Tensor R)",
    doc: "Matrices as `Q @ R`; `torch.linalg.qr` is the newer form.

    >>> torch.qr(torch.tensor([[3., 1.], [4., 1.]])).R.abs()
    tensor([[5.0000, 1.4000],
            [0.0000, 0.2000]])",
    out: Out::EXACT,
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::CompositeImplicit(|args| {
        warn_once!(
            "torch.qr is deprecated in favor of torch.linalg.qr and will be removed in a future PyTorch release.\nThe boolean parameter 'some' has been replaced with a string parameter 'mode'.\nQ, R = torch.qr(A, some)\nshould be replaced with\nQ, R = torch.linalg.qr(A, 'reduced' if some else 'complete')"
        )?;
        QR.call([args.tensor(INPUT)?.into(), if args.bool(SOME)? { "reduced" } else { "complete" }.into()])
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3, 3)", "t(2, 4, 3)"],
    ..Operator::BASE
};

#[operator]
pub static GEQRF: Operator = Operator {
    name: "geqrf",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self) -> (Tensor a, Tensor tau)",
    doc: "The reflections behind `torch.linalg.qr`: `R` in the upper triangle, the reflections' vectors below, their factors in `tau`.

    >>> torch.geqrf(torch.tensor([[3.], [4.]])).tau
    tensor([1.6000])",
    out: Out::new(Accepts::Cast, &["torch.geqrf: Expected a to be safely castable from {Result} dtype, but got a with dtype {Out}", "torch.geqrf: Expected tau to be safely castable from {Result} dtype, but got tau with dtype {Out}"]),
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    batch_rule: BatchRule::LeadingDims,
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let a = args.tensor(INPUT)?;
            if a.rank() < 2 {
                return Err(Error::runtime("torch.geqrf: input must have at least 2 dimensions."));
            }
            check_kernel("geqrf_cpu", a)?;
            let [m, n] = matrix_sizes(a);
            Ok(vec![by_columns(a.sizes(), a.dtype(), a), TensorSpec::new(&sized(a, &[m.min(n)]), a.dtype(), a)])
        },
        cpu: geqrf,
        cuda: OnCuda::Own(geqrf_on_cuda),
    }),
    derivative: Derivative::NotImplemented("geqrf"),
    samples: &["t(3, 3)", "t(2, 4, 3)", "t(3, 5)"],
    errors: &[("t(3)", "RuntimeError", "torch.geqrf: input must have at least 2 dimensions.")],
    ..Operator::BASE
};

#[operator]
pub static HOUSEHOLDER_PRODUCT: Operator = Operator {
    name: "householder_product",
    node: "LinalgHouseholderProductBackward0",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor input, Tensor tau) -> Tensor",
    doc: "The first columns of the product of reflections, in the format of `torch.geqrf`.

    >>> torch.linalg.householder_product(torch.tensor([[1.], [2.]]), torch.tensor([0.4]))
    tensor([[ 0.6000],
            [-0.8000]])",
    out: Out::new(
        Accepts::Cast,
        &[
            "torch.linalg.householder_product: Expected result to be safely castable from {Result} dtype, but got result with dtype {Out}",
        ],
    ),
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::CompositeImplicit(|args| {
        householder_product(args.tensor(INPUT)?, args.tensor(TAU)?)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3, 2), t(2)", "t(2, 3, 3), t(2, 2)", "t(3, 3), t(1)", "t(3, 0), t(0)"],
    errors: &[
        ("t(3), t(3)", "RuntimeError", "torch.linalg.householder_product: input must have at least 2 dimensions."),
        (
            "t(3, 3), t(4)",
            "RuntimeError",
            "torch.linalg.householder_product: input.shape[-1] must be greater than or equal to tau.shape[-1]",
        ),
    ],
    ..Operator::BASE
};

#[operator]
pub static ORGQR: Operator = Operator {
    name: "orgqr",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, Tensor input2) -> Tensor",
    doc: "The first columns of the product of reflections, as `torch.linalg.householder_product`.

    >>> torch.tensor([[1.], [2.]]).orgqr(torch.tensor([0.4]))
    tensor([[ 0.6000],
            [-0.8000]])",
    out: Out::new(
        Accepts::Cast,
        &[
            "torch.linalg.householder_product: Expected result to be safely castable from {Result} dtype, but got result with dtype {Out}",
        ],
    ),
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::CompositeImplicit(|args| {
        householder_product(args.tensor(INPUT)?, args.tensor(INPUT2)?)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3, 2), t(2)"],
    errors: &[(
        "t(3), t(3)",
        "RuntimeError",
        "torch.linalg.householder_product: input must have at least 2 dimensions.",
    )],
    ..Operator::BASE
};

#[operator]
pub static ORMQR: Operator = Operator {
    name: "ormqr",
    node: "OrmqrBackward0",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor",
    doc: "The product of reflections (`self` and their factors `input2`) times `input3`, or `input3` times it if `left` is false.

    >>> torch.ormqr(torch.tensor([[1.], [2.]]), torch.tensor([0.4]), torch.eye(2))
    tensor([[ 0.6000, -0.8000],
            [-0.8000, -0.6000]])",
    out: Out::new(Accepts::Same, &["torch.ormqr: Expected input and result to have the same dtype, but input has dtype{Result} and result has dtype {Out}"]),
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::CompositeImplicit(|args| {
        let (input, tau, other) = (args.tensor(INPUT)?, args.tensor(INPUT2)?, args.tensor(INPUT3)?);
        let (left, adjoint) = (args.bool(LEFT)?, args.bool(TRANSPOSE)?);
        check_multiplied(input, tau, other, left, false)?;
        reflected(input, tau, other, left, adjoint).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3, 2), t(2), t(3, 4)", "t(2, 3, 2), t(2, 2), t(2, 4, 3), False, True"],
    errors: &[("t(3), t(3), t(3)", "RuntimeError", "torch.ormqr: input must have at least 2 dimensions.")],
    ..Operator::BASE
};

/// The kernel behind `ormqr` and `householder_product`.
#[operator]
pub static REFLECT: Operator = Operator {
    name: "_reflect",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor tau, Tensor other, bool left, bool adjoint) -> Tensor",
    doc: "A product of reflections applied to matrices.

    >>> torch._reflect(torch.tensor([[1.], [2.]]), torch.tensor([0.4]), torch.eye(2), True, False)
    tensor([[ 0.6000, -0.8000],
            [-0.8000, -0.6000]])",
    dtypes: DTypes::DENSE,
    batch_rule: BatchRule::LeadingDims,
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let other = args.tensor(OTHER)?;
            check_multiplied(args.tensor(INPUT)?, args.tensor(TAU)?, other, args.bool(LEFT)?, true)?;
            Ok(vec![by_columns(other.sizes(), other.dtype(), other)])
        },
        cpu: reflect,
        cuda: OnCuda::Own(reflect_on_cuda),
    }),
    derivative: Derivative::NonDifferentiable(
        "the operators that call it compose the reflections if a gradient is needed",
    ),
    samples: &["t(3, 2), t(2), t(3, 4), True, False"],
    ..Operator::BASE
};

fn infer(args: &Args) -> Result<Vec<TensorSpec>> {
    use QR::*;

    let (a, mode) = (args.tensor(A)?, args.str(MODE)?);
    check_matrix("linalg.qr", "A", a)?;
    check_inexact("linalg.qr", a)?;
    let [m, n] = matrix_sizes(a);
    let k = match mode {
        "reduced" | "r" => m.min(n),
        "complete" => m,
        other => {
            return Err(Error::runtime(format!(
                "qr received unrecognized mode '{other}' but expected one of 'reduced' (default), 'r', or 'complete'"
            )));
        }
    };
    check_kernel("geqrf_cpu", a)?;
    let q =
        if mode == "r" { TensorSpec::new(&[0], a.dtype(), a) } else { by_columns(&sized(a, &[m, k]), a.dtype(), a) };
    Ok(vec![q, by_columns(&sized(a, &[k, n]), a.dtype(), a)])
}

fn decompose(args: &Args, results: &[Tensor]) -> Result<()> {
    use QR::*;

    let a = by_columns_copy(args.tensor(A)?)?;
    let (q, r) = (&results[0], &results[1]);
    let (pa, pq, pr) = (a.storage().pin()?, q.storage().pin()?, r.storage().pin()?);
    let wanted = args.str(MODE)? != "r";
    dense!(a.dtype(), T => {
        let to = wanted.then(|| matrices(q, &pq));
        // SAFETY: the copy and the results are new and of the sizes from `infer`.
        unsafe { rushlight_cpu::linalg::qr(count(&a), matrices::<T>(&a, &pa), to, matrices(r, &pr)) }
    })
}

fn decompose_on_cuda(args: &Args, results: &[Tensor]) -> Result<()> {
    use QR::*;

    let a = by_columns_copy(args.tensor(A)?)?;
    let (q, r) = (&results[0], &results[1]);
    let [m, n] = matrix_sizes(&a);
    let tau = create::empty(&sized(&a, &[m.min(n)]), a.dtype(), a.device())?;
    if !factors_on_cuda::reflections(&a, &tau)? {
        return on_host::fill(decompose, args, results);
    }
    let rows = matrix_sizes(r)[0];
    copy::copy(r, &crate::view::narrow::sliced(&a, a.rank() - 2, 0, rows, 1)?)?;
    factors_on_cuda::keep_triangle(r, true)?;
    if args.str(MODE)? == "r" {
        return Ok(());
    }
    copy::copy(q, &identities(&a, m, matrix_sizes(q)[1])?)?;
    let done = factors_on_cuda::reflect(&a, &tau, q, true, false)?;
    if done { Ok(()) } else { on_host::fill(decompose, args, results) }
}

fn geqrf(args: &Args, results: &[Tensor]) -> Result<()> {
    let (a, tau) = (&results[0], &results[1]);
    copy::copy(a, args.tensor(GEQRF::INPUT)?)?;
    let (pa, pt) = (a.storage().pin()?, tau.storage().pin()?);
    let [m, n] = matrix_sizes(a);
    dense!(a.dtype(), T => {
        let factors = per_matrix(tau, &pt, m.min(n) as usize);
        // SAFETY: both results are new and of the sizes from `infer`.
        unsafe { rushlight_cpu::linalg::reflections(count(a), matrices::<T>(a, &pa), factors) }
    })
}

fn geqrf_on_cuda(args: &Args, results: &[Tensor]) -> Result<()> {
    copy::copy(&results[0], args.tensor(GEQRF::INPUT)?)?;
    let done = factors_on_cuda::reflections(&results[0], &results[1])?;
    if done { Ok(()) } else { on_host::fill(geqrf, args, results) }
}

fn reflect(args: &Args, results: &[Tensor]) -> Result<()> {
    use REFLECT::*;

    let (a, to) = (steady(args.tensor(INPUT)?)?, &results[0]);
    let tau = operands::plain(args.tensor(TAU)?, a.dtype())?;
    copy::copy(to, args.tensor(OTHER)?)?;
    let (pa, pt, po) = (a.storage().pin()?, tau.storage().pin()?, to.storage().pin()?);
    let steps = tau.sizes().last().map_or(0, |&n| n as usize);
    let (left, adjoint) = (args.bool(LEFT)?, args.bool(ADJOINT)?);
    dense!(a.dtype(), T => {
        let (on, factors) = (matrices::<T>(&a, &pa), per_matrix(&tau, &pt, steps));
        // SAFETY: the result is new, sizes were checked, all storages are pinned.
        unsafe { rushlight_cpu::linalg::reflect(count(to), on, factors, matrices(to, &po), left, adjoint) }
    })
}

fn reflect_on_cuda(args: &Args, results: &[Tensor]) -> Result<()> {
    use REFLECT::*;

    let (a, to) = (args.tensor(INPUT)?, &results[0]);
    let tau = operands::plain(args.tensor(TAU)?, a.dtype())?;
    copy::copy(to, args.tensor(OTHER)?)?;
    let done = factors_on_cuda::reflect(a, &tau, to, args.bool(LEFT)?, args.bool(ADJOINT)?)?;
    if done { Ok(()) } else { on_host::fill(reflect, args, results) }
}

/// `(gQ + Q S) R^-H`, where `S` is the upper triangle of `gR R^H - Q^H gQ` made Hermitian. For a wide matrix that is
/// the gradient of the leading square block; that of the remaining columns follows through `Q^H`.
fn gradient(d: &BackwardContext) -> Expr {
    use QR::*;

    let mode = d.args.optional_str(MODE).unwrap_or("reduced");
    if mode == "r" {
        return Expr::failed(Error::runtime(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use linalg.qr(A, mode='reduced') if you are going to compute the derivative of linalg.qr.",
        ));
    }
    let [m, n] = [d.sizes(A)[d.rank(A) - 2], d.sizes(A)[d.rank(A) - 1]];
    if mode == "complete" && m > n {
        return Expr::failed(Error::runtime(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols.",
        ));
    }
    let k = m.min(n);
    let (q, square) = (|| d.result_of(0), || d.result_of(1).part(-1, 0, k));
    let beside = |x: Expr| x.part(-1, k, n - k);
    let mut turned = d.grad_of(0);
    if n > m {
        // The remaining columns are Q times those of R.
        turned = turned + q().matmul(beside(d.result_of(1)).matmul(beside(d.grad_of(1)).adjoint()));
    }
    let both = d.grad_of(1).part(-1, 0, k).matmul(square().adjoint()) - q().adjoint().matmul(turned.clone());
    let half = (both.clone().triu(0) + both.triu(1)) * 0.5;
    let middle = turned + q().matmul(half.clone() + half.adjoint());
    let front = square().adjoint().solve_triangular(middle, false, false, false);
    if n <= m {
        return front;
    }
    let other = q().matmul(beside(d.grad_of(1)));
    match (front.done(), other.done()) {
        (Ok(front), Ok(other)) => Expr::new(crate::join::cat::CAT.tensor([vec![front, other].into(), (-1i64).into()])),
        (Err(error), _) | (_, Err(error)) => Expr::failed(error),
    }
}

fn householder_product(input: &Tensor, tau: &Tensor) -> Result<Output> {
    let name = "torch.linalg.householder_product";
    if input.rank() < 2 {
        return Err(Error::runtime(format!("{name}: input must have at least 2 dimensions.")));
    }
    let [m, n] = matrix_sizes(input);
    size_of(tau, -1)?;
    if m < n {
        return Err(Error::runtime(format!(
            "{name}: input.shape[-2] must be greater than or equal to input.shape[-1]"
        )));
    }
    if n < *tau.sizes().last().unwrap_or(&0) {
        return Err(Error::runtime(format!("{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")));
    }
    check_ranks(name, input, tau)?;
    if tau.dtype() != input.dtype() {
        return Err(Error::runtime(format!(
            "{name}: tau dtype {} does not match input dtype {}",
            tau.dtype().display_name(),
            input.dtype().display_name()
        )));
    }
    check_kernel("orgqr_cpu", input)?;
    reflected(input, tau, &identities(input, m, n)?, true, false).map(Output::Tensor)
}

fn check_ranks(name: &str, input: &Tensor, tau: &Tensor) -> Result<()> {
    if input.rank() != tau.rank() + 1 {
        return Err(Error::runtime(format!(
            "{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to {} and input.ndim is equal to {}",
            tau.rank(),
            input.rank()
        )));
    }
    let batch = |tensor: &Tensor, less: usize| Dims::from_slice(&tensor.sizes()[..tensor.rank() - less]);
    if batch(input, 2) != batch(tau, 1) {
        return Err(Error::runtime(format!(
            "{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {}",
            rushlight_core::layout::Shape(&batch(tau, 1))
        )));
    }
    Ok(())
}

/// `ormqr` takes all reflections that a matrix has, `householder_product` also `fewer`.
fn check_multiplied(input: &Tensor, tau: &Tensor, other: &Tensor, left: bool, fewer: bool) -> Result<()> {
    let name = "torch.ormqr";
    for (which, tensor) in [("input", input), ("other", other)] {
        if tensor.rank() < 2 {
            return Err(Error::runtime(format!("{name}: {which} must have at least 2 dimensions.")));
        }
    }
    let place = if left { 2 } else { 1 };
    let height = other.sizes()[other.rank() - place];
    let [m, n] = matrix_sizes(input);
    if height != m {
        return Err(Error::runtime(format!("{name}: other.shape[-{place}] must be equal to input.shape[-2]")));
    }
    let steps = size_of(tau, -1)?;
    let all = height.min(n);
    if steps > all || (steps < all && !fewer) {
        return Err(Error::runtime(format!(
            "{name}: tau.shape[-1] must be equal to min(other.shape[-{place}], input.shape[-1])"
        )));
    }
    check_ranks(name, input, tau)?;
    if other.rank() != input.rank() {
        return Err(Error::runtime(format!(
            "{name}: Expected other to have the same number of dimensions as input, but got other.ndim equal to {} and input.ndim is equal to {}",
            other.rank(),
            input.rank()
        )));
    }
    if other.sizes()[..other.rank() - 2] != input.sizes()[..input.rank() - 2] {
        return Err(Error::runtime(format!(
            "{name}: Expected batch dimensions of other to be equal to input.shape[:-2], but got {}",
            rushlight_core::layout::Shape(&other.sizes()[..other.rank() - 2])
        )));
    }
    for (which, tensor) in [("tau", tau), ("other", other)] {
        if tensor.dtype() != input.dtype() {
            return Err(Error::runtime(format!(
                "{name}: Expected input and {which} to have the same dtype, but input has dtype{} and {which} has dtype {}",
                input.dtype().display_name(),
                tensor.dtype().display_name()
            )));
        }
    }
    check_kernel("ormqr_cpu", input)
}

/// Reflections applied to matrices: by the kernel, or one by one with operators if a gradient is needed.
fn reflected(input: &Tensor, tau: &Tensor, to: &Tensor, left: bool, adjoint: bool) -> Result<Tensor> {
    if ![input, tau, to].into_iter().any(is_tracked) {
        return op!(REFLECT, input, tau, to, left, adjoint);
    }
    let [m, n] = matrix_sizes(input);
    let vectors = (Expr::from(input).tril(-1) + identities(input, m, n)?).done()?;
    let steps = *tau.sizes().last().unwrap_or(&0);
    if steps == 0 {
        // No reflection reads them, but their gradient is zero and not undefined.
        let of_none = |tensor: &Tensor| Expr::from(tensor).part(-1, 0, 0).call(&SUM, []);
        return (Expr::from(to) + of_none(input) + of_none(tau)).done();
    }
    let mut to = Expr::from(to);
    for step in 0..steps {
        let k = if left == adjoint { step } else { steps - 1 - step };
        let vector = || Expr::from(&vectors).part(-1, k, 1);
        let factor = Expr::from(tau).part(-1, k, 1).along_rows();
        let factor = if adjoint { factor.conj() } else { factor };
        let change = match left {
            true => vector().matmul(vector().adjoint().matmul(to.clone())),
            false => to.clone().matmul(vector()).matmul(vector().adjoint()),
        };
        to = to - change * factor;
    }
    // The kernel's results are stored by columns.
    contiguous(&to.transposed().done()?).map(|rows| Expr::from(&rows).transposed())?.done()
}
