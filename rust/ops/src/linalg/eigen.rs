//! Eigenvalues and eigenvectors.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Error, Result};
use rushlight_dispatch::allocate::allocate;
use rushlight_dispatch::call::on_host;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Accepts, Args, Autocast, BackwardContext, BatchRule, DTypes, Derivative, Implementation, Kernel, OnCuda, Operator,
    Out, Saves, TensorSpec, Variants, formula, operator,
};
use rushlight_dispatch::value::{Arg, Output};
use rushlight_dispatch::{copy, create};

use super::dense::{
    batch_sizes, by_columns, check_filled, check_info, check_kernel, check_square, count, dense, is_tracked, matrices,
    per_matrix, results, steady,
};
use super::factors_on_cuda;
use super::invariance::check_phase;
use super::solve::SOLVE;
use crate::expr_ext::ExprExt;

const UNSYMMETRIC: (&str, &str, &str) =
    ("t(2, 3)", "RuntimeError", "linalg.eigh: A must be batches of square matrices, but they are 2 by 3 matrices");

#[operator]
pub static EIGH_KERNEL: Operator = Operator {
    name: "_linalg_eigh",
    variants: Variants::FUNCTION,
    signature: "(Tensor A, str UPLO='L', bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)",
    doc: "Eigenvalues of Hermitian matrices, ascending; without vectors if `compute_v` is false.

    >>> torch._linalg_eigh(torch.tensor([[1., 0.], [2., 1.]]))[0]
    tensor([-1.,  3.])",
    dtypes: DTypes::DENSE,
    batch_rule: BatchRule::LeadingDims,
    implementation: Implementation::Kernel(Kernel {
        infer: infer_symmetric,
        cpu: decompose_symmetric,
        cuda: OnCuda::Own(decompose_symmetric_on_cuda),
    }),
    derivative: Derivative::Formulas(&[formula(A, Saves::result(0).union(Saves::result(1)), |d| gradient(d, true))]),
    samples: &["i(9, 3, 3).double(), 'U'", "i(9, 2, 3, 3).double(), 'L', False"],
    errors: &[UNSYMMETRIC, ("t(2, 2), 'A'", "RuntimeError", "Expected UPLO argument to be 'L' or 'U', but got A")],
    ..Operator::BASE
};

#[operator]
pub static EIGH: Operator = Operator {
    name: "eigh",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, str UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors)",
    doc: "Eigenvalues of symmetric or Hermitian matrices, ascending, and their orthonormal eigenvectors as columns.

Only the lower triangle is read, or the upper one if `UPLO` is 'U'.

    >>> torch.linalg.eigh(torch.tensor([[1., 0.], [2., 1.]])).eigenvalues
    tensor([-1.,  3.])",
    out: Out::EXACT,
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::CompositeImplicit(|args| {
        EIGH_KERNEL.call([args.tensor(INPUT)?.into(), args.str(UPLO)?.into()])
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["i(9, 3, 3).double(), 'U'", "i(9, 2, 3, 3).double()", "t(0, 0)"],
    errors: &[UNSYMMETRIC, ("t(2, 2), 'A'", "RuntimeError", "Expected UPLO argument to be 'L' or 'U', but got A")],
    ..Operator::BASE
};

#[operator]
pub static EIGVALSH: Operator = Operator {
    name: "eigvalsh",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, str UPLO='L') -> Tensor",
    doc: "Eigenvalues of symmetric or Hermitian matrices, ascending.

    >>> torch.linalg.eigvalsh(torch.tensor([[1., 0.], [2., 1.]]))
    tensor([-1.,  3.])",
    out: Out::EXACT,
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::CompositeImplicit(|args| {
        eigvalsh(args.tensor(INPUT)?, args.str(UPLO)?).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["i(9, 3, 3).double(), 'U'", "i(9, 2, 3, 3).double()", "t(0, 0)"],
    errors: &[UNSYMMETRIC],
    reference: "np.linalg.eigvalsh(self, UPLO)",
    ..Operator::BASE
};

#[operator]
pub static EIG_KERNEL: Operator = Operator {
    name: "_linalg_eig",
    variants: Variants::FUNCTION,
    signature: "(Tensor A, bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)",
    doc: "Eigenvalues of matrices, complex; without vectors if `compute_v` is false.

    >>> torch._linalg_eig(torch.tensor([[0., 1.], [-1., 0.]]), False)[0].abs()
    tensor([1., 1.])",
    dtypes: DTypes::DENSE,
    batch_rule: BatchRule::LeadingDims,
    implementation: Implementation::Kernel(Kernel { infer: infer_general, cpu: decompose_general, cuda: OnCuda::Host }),
    derivative: Derivative::Formulas(&[formula(A, Saves::result(0).union(Saves::result(1)), |d| gradient(d, false))]),
    samples: &["i(9, 3, 3).double()", "i(9, 2, 3, 3).double(), False"],
    errors: &[(
        "t(2, 3)",
        "RuntimeError",
        "linalg.eig: A must be batches of square matrices, but they are 2 by 3 matrices",
    )],
    ..Operator::BASE
};

#[operator]
pub static EIG: Operator = Operator {
    name: "eig",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)",
    doc: "Eigenvalues of matrices and their eigenvectors of length one as columns, always complex.

    >>> torch.linalg.eig(torch.tensor([[2., 0.], [0., 3.]])).eigenvalues.real
    tensor([2., 3.])",
    out: Out::new(
        Accepts::Cast,
        &[
            "torch.linalg.eig: Expected eigenvalues to be safely castable from {Result} dtype, but got eigenvalues with dtype {Out}",
            "torch.linalg.eig: Expected eigenvectors to be safely castable from {Result} dtype, but got eigenvectors with dtype {Out}",
        ],
    ),
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::CompositeImplicit(|args| EIG_KERNEL.call([args.tensor(INPUT)?.into()])),
    derivative: Derivative::CompositeImplicit,
    samples: &["i(9, 3, 3).double()", "i(9, 2, 3, 3).double()", "t(0, 0)"],
    errors: &[
        ("t(3)", "RuntimeError", "linalg.eig: The input tensor A must have at least 2 dimensions."),
        ("torch.full((2, 2), nan)", "RuntimeError", "torch.linalg.eig: input tensor should not contain infs or NaNs."),
    ],
    ..Operator::BASE
};

#[operator]
pub static EIGVALS: Operator = Operator {
    name: "eigvals",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self) -> Tensor",
    doc: "Eigenvalues of matrices, always complex, in no particular order.

    >>> torch.linalg.eigvals(torch.tensor([[0., 1.], [-1., 0.]])).abs()
    tensor([1., 1.])",
    out: Out::new(
        Accepts::Cast,
        &[
            "torch.linalg.eigvals: Expected eigenvalues to be safely castable from {Result} dtype, but got eigenvalues with dtype {Out}",
        ],
    ).known(|args| args.tensor(Arg::FIRST).ok().filter(|own| own.dtype().is_differentiable()).map(|own| own.dtype().to_complex())),
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::CompositeImplicit(|args| {
        let a = args.tensor(INPUT)?;
        check_square("linalg.eigvals", a)?;
        let [values, _] = results(EIG_KERNEL.call([a.into(), is_tracked(a).into()])?)?;
        Ok(Output::Tensor(values))
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["i(9, 3, 3).double()", "i(9, 2, 3, 3).double()", "t(0, 0)"],
    errors: &[(
        "t(2, 3)",
        "RuntimeError",
        "linalg.eigvals: A must be batches of square matrices, but they are 2 by 3 matrices",
    )],
    ..Operator::BASE
};

/// Eigenvalues, computed with the vectors if a gradient may be needed.
pub fn eigvalsh(a: &Tensor, triangle: &str) -> Result<Tensor> {
    let [values, _] = results(EIGH_KERNEL.call([a.into(), triangle.into(), is_tracked(a).into()])?)?;
    Ok(values)
}

fn infer_symmetric(args: &Args) -> Result<Vec<TensorSpec>> {
    use EIGH_KERNEL::*;

    let (a, triangle) = (args.tensor(A)?, args.str(UPLO)?);
    check_square("linalg.eigh", a)?;
    if !matches!(triangle, "L" | "U" | "l" | "u") {
        return Err(Error::runtime(format!("Expected UPLO argument to be 'L' or 'U', but got {triangle}")));
    }
    check_filled("linalg_eigh_cpu", a)?;
    let vectors =
        if args.bool(COMPUTE_V)? { by_columns(a.sizes(), a.dtype(), a) } else { TensorSpec::new(&[0], a.dtype(), a) };
    Ok(vec![TensorSpec::new(&a.sizes()[..a.rank() - 1], a.dtype().to_real(), a), vectors])
}

fn decompose_symmetric(args: &Args, results: &[Tensor]) -> Result<()> {
    use EIGH_KERNEL::*;

    if args.tensor(A)?.numel() == 0 {
        return Ok(());
    }
    let a = steady(&hermitian(args)?)?;
    let (values, vectors) = (&results[0], &results[1]);
    let infos = create::zeros(batch_sizes(&a), DType::I32, a.device())?;
    let (pa, pl) = (a.storage().pin()?, values.storage().pin()?);
    let (pv, pi) = (vectors.storage().pin()?, infos.storage().pin()?);
    let (n, wanted) = (a.sizes()[a.rank() - 1] as usize, args.bool(COMPUTE_V)?);
    dense!(a.dtype(), T => {
        let on = rushlight_cpu::linalg::Symmetric::<T> {
            a: matrices(&a, &pa),
            values: per_matrix(values, &pl, n),
            vectors: wanted.then(|| matrices(vectors, &pv)),
        };
        // SAFETY: results are new and of the sizes from `infer_symmetric`; all storages are pinned.
        unsafe { rushlight_cpu::linalg::eigh(count(&a), on, per_matrix(&infos, &pi, 1)) }
    })?;
    check_info("linalg.eigh", &infos, |info| {
        format!(
            "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated eigenvalues (error code: {info})."
        )
    })
}

/// The matrices, whose lower triangle is the one that counts.
fn hermitian(args: &Args) -> Result<Tensor> {
    use EIGH_KERNEL::*;

    let a = Expr::from(&args.tensor(A)?.detach());
    let a = if matches!(args.str(UPLO)?, "U" | "u") { a.adjoint() } else { a };
    // Only the real parts of the diagonal of a Hermitian matrix are used.
    let diagonal = || a.clone().diagonals();
    let a = if args.tensor(A)?.dtype().is_complex() {
        a.clone() - (diagonal() - diagonal().real()).on_diagonals()
    } else {
        a.clone()
    };
    a.done()
}

fn decompose_symmetric_on_cuda(args: &Args, results: &[Tensor]) -> Result<()> {
    let (values, a) = (&results[0], hermitian(args)?);
    let wanted = args.bool(EIGH_KERNEL::COMPUTE_V)?;
    let vectors = if wanted { results[1].clone() } else { allocate(&by_columns(a.sizes(), a.dtype(), &a))? };
    copy::copy(&vectors, &a)?;
    let infos = create::zeros(batch_sizes(&a), DType::I32, a.device())?;
    let done = factors_on_cuda::eigen(&vectors, values, &infos, wanted)? && factors_on_cuda::is_exact(&infos, values)?;
    // What did not converge is for the host's method, which is another one and knows the reasons.
    if done { Ok(()) } else { on_host::fill(decompose_symmetric, args, results) }
}

fn infer_general(args: &Args) -> Result<Vec<TensorSpec>> {
    use EIG_KERNEL::*;

    let a = args.tensor(A)?;
    if !a.dtype().is_differentiable() {
        return Err(Error::runtime(format!("Unknown Complex ScalarType for {}", a.dtype().display_name())));
    }
    check_square("linalg.eig", a)?;
    check_kernel("linalg_eig_out_cpu", a)?;
    let complex = a.dtype().to_complex();
    let vectors =
        if args.bool(COMPUTE_V)? { by_columns(a.sizes(), complex, a) } else { TensorSpec::new(&[0], complex, a) };
    Ok(vec![TensorSpec::new(&a.sizes()[..a.rank() - 1], complex, a), vectors])
}

fn decompose_general(args: &Args, results: &[Tensor]) -> Result<()> {
    use EIG_KERNEL::*;

    let a = steady(args.tensor(A)?)?;
    let (values, vectors) = (&results[0], &results[1]);
    let infos = create::zeros(batch_sizes(&a), DType::I32, a.device())?;
    let (pa, pl) = (a.storage().pin()?, values.storage().pin()?);
    let (pv, pi) = (vectors.storage().pin()?, infos.storage().pin()?);
    let (n, wanted) = (a.sizes()[a.rank() - 1] as usize, args.bool(COMPUTE_V)?);
    dense!(a.dtype(), T => {
        let to = wanted.then(|| matrices(vectors, &pv));
        let infos = per_matrix(&infos, &pi, 1);
        // SAFETY: results are new and of the sizes from `infer_general`; all storages are pinned.
        unsafe { rushlight_cpu::linalg::eig::<T>(count(&a), matrices(&a, &pa), per_matrix(values, &pl, n), to, infos) }
    })?;
    if crate::convert::to_vec::<i32>(&infos)?.contains(&-1) {
        return Err(Error::runtime("torch.linalg.eig: input tensor should not contain infs or NaNs."));
    }
    check_info("linalg.eig", &infos, |info| {
        format!(
            "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated eigenvalues (error code: {info})."
        )
    })
}

/// Vectors mix by `V^H gV` divided by the differences of eigenvalues; the result is transformed from the basis `V`.
fn gradient(d: &BackwardContext, hermitian: bool) -> Expr {
    let (values, vectors) = (|| d.result_of(0), || d.result_of(1));
    if !d.has_grad(1) {
        if hermitian {
            return (vectors() * d.grad_of(0).along_columns()).matmul(vectors().adjoint());
        }
        return vectors().adjoint().with_tensor(&SOLVE, d.grad_of(0).along_rows() * vectors().adjoint());
    }
    let turned = || vectors().adjoint().matmul(d.grad_of(1));
    if d.results.get(1).is_some_and(|meta| meta.dtype.is_complex()) {
        let name = if hermitian { "linalg_eigh_backward" } else { "linalg_eig_backward" };
        if let Err(error) = check_phase(name, "eigenvectors", turned()) {
            return Expr::failed(error);
        }
    }
    let tangent = if hermitian {
        (turned() - turned().adjoint()) * 0.5
    } else {
        let gram = vectors().adjoint().matmul(vectors());
        turned() - gram * turned().diagonals().real().along_columns()
    };
    let gaps = (values().along_columns() - values().along_rows()).conj().with_diagonal_of_ones();
    let mut inner = tangent / gaps;
    if d.has_grad(0) {
        inner = inner.clone() - inner.diagonals().on_diagonals() + d.grad_of(0).on_diagonals();
    }
    if hermitian {
        return vectors().matmul(inner.matmul(vectors().adjoint()));
    }
    vectors().adjoint().with_tensor(&SOLVE, inner.matmul(vectors().adjoint()))
}
