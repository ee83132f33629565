//! Eigenvalues and eigenvectors.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Error, Result};

use super::dense::{
    batch_sizes, by_columns, check_info, check_kernel, check_square, count, dense, is_watched, matrices, numbers,
    results, steady,
};
use super::invariance::check_phase;
use super::solve::SOLVE;
use crate::autocast::Autocast;
use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::mapped::Mapped;
use crate::row::{DTypes, Kernel, Out, Row, Run, Spec, Variants};
use crate::value::{Args, Output};

const UNSYMMETRIC: (&str, &str, &str) =
    ("t(2, 3)", "RuntimeError", "linalg.eigh: A must be batches of square matrices, but they are 2 by 3 matrices");

pub static EIGH_KERNEL: Row = Row {
    name: "_linalg_eigh",
    variants: Variants::FUNCTION,
    signature: "(Tensor A, str UPLO='L', bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)",
    doc: "Eigenvalues of Hermitian matrices, ascending; without vectors where `compute_v` is false.

    >>> torch._linalg_eigh(torch.tensor([[1., 0.], [2., 1.]]))[0]
    tensor([-1.,  3.])",
    dtypes: DTypes::DENSE,
    mapped: Mapped::Batch,
    run: Run::Kernel(Kernel { infer: infer_symmetric, cpu: decompose_symmetric }),
    derivative: Derivative::Formulas(&[formula(0, Saves::result(0).union(Saves::result(1)), |d| gradient(d, true))]),
    samples: &["i(9, 3, 3).double(), 'U'", "i(9, 2, 3, 3).double(), 'L', False"],
    errors: &[UNSYMMETRIC, ("t(2, 2), 'A'", "RuntimeError", "Expected UPLO argument to be 'L' or 'U', but got A")],
    ..Row::BASE
};

pub static EIGH: Row = Row {
    name: "eigh",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor A, str UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors)",
    doc: "Eigenvalues of symmetric or Hermitian matrices, ascending, and their orthonormal eigenvectors as columns.

Only the lower triangle is read, or the upper one where `UPLO` is 'U'.

    >>> torch.linalg.eigh(torch.tensor([[1., 0.], [2., 1.]])).eigenvalues
    tensor([-1.,  3.])",
    out: Out::EXACT,
    dtypes: DTypes::DENSE,
    autocast: Autocast::Single,
    run: Run::Compose(|args| EIGH_KERNEL.call([args.tensor(0)?.into(), args.str(1)?.into()])),
    derivative: Derivative::Composed,
    samples: &["i(9, 3, 3).double(), 'U'", "i(9, 2, 3, 3).double()", "t(0, 0)"],
    errors: &[UNSYMMETRIC, ("t(2, 2), 'A'", "RuntimeError", "Expected UPLO argument to be 'L' or 'U', but got A")],
    ..Row::BASE
};

pub static EIGVALSH: Row = Row {
    name: "eigvalsh",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor A, str UPLO='L') -> Tensor",
    doc: "Eigenvalues of symmetric or Hermitian matrices, ascending.

    >>> torch.linalg.eigvalsh(torch.tensor([[1., 0.], [2., 1.]]))
    tensor([-1.,  3.])",
    out: Out::EXACT,
    dtypes: DTypes::DENSE,
    autocast: Autocast::Single,
    run: Run::Compose(|args| eigvalsh(args.tensor(0)?, args.str(1)?).map(Output::Tensor)),
    derivative: Derivative::Composed,
    samples: &["i(9, 3, 3).double(), 'U'", "i(9, 2, 3, 3).double()", "t(0, 0)"],
    errors: &[UNSYMMETRIC],
    reference: "np.linalg.eigvalsh(A, UPLO)",
    ..Row::BASE
};

pub static EIG_KERNEL: Row = Row {
    name: "_linalg_eig",
    variants: Variants::FUNCTION,
    signature: "(Tensor A, bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)",
    doc: "Eigenvalues of matrices, complex; without vectors where `compute_v` is false.

    >>> torch._linalg_eig(torch.tensor([[0., 1.], [-1., 0.]]), False)[0].abs()
    tensor([1., 1.])",
    dtypes: DTypes::DENSE,
    mapped: Mapped::Batch,
    run: Run::Kernel(Kernel { infer: infer_general, cpu: decompose_general }),
    derivative: Derivative::Formulas(&[formula(0, Saves::result(0).union(Saves::result(1)), |d| gradient(d, false))]),
    samples: &["i(9, 3, 3).double()", "i(9, 2, 3, 3).double(), False"],
    errors: &[(
        "t(2, 3)",
        "RuntimeError",
        "linalg.eig: A must be batches of square matrices, but they are 2 by 3 matrices",
    )],
    ..Row::BASE
};

pub static EIG: Row = Row {
    name: "eig",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor A) -> (Tensor eigenvalues, Tensor eigenvectors)",
    doc: "Eigenvalues of matrices and their eigenvectors of length one as columns, always complex.

    >>> torch.linalg.eig(torch.tensor([[2., 0.], [0., 3.]])).eigenvalues.real
    tensor([2., 3.])",
    dtypes: DTypes::DENSE,
    autocast: Autocast::Single,
    run: Run::Compose(|args| EIG_KERNEL.call([args.tensor(0)?.into()])),
    derivative: Derivative::Composed,
    samples: &["i(9, 3, 3).double()", "i(9, 2, 3, 3).double()", "t(0, 0)"],
    errors: &[
        ("t(3)", "RuntimeError", "linalg.eig: The input tensor A must have at least 2 dimensions."),
        ("torch.full((2, 2), nan)", "RuntimeError", "torch.linalg.eig: input tensor should not contain infs or NaNs."),
    ],
    ..Row::BASE
};

pub static EIGVALS: Row = Row {
    name: "eigvals",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor A) -> Tensor",
    doc: "Eigenvalues of matrices, always complex, in no particular order.

    >>> torch.linalg.eigvals(torch.tensor([[0., 1.], [-1., 0.]])).abs()
    tensor([1., 1.])",
    dtypes: DTypes::DENSE,
    autocast: Autocast::Single,
    run: Run::Compose(|args| {
        let a = args.tensor(0)?;
        check_square("linalg.eigvals", a)?;
        let [values, _] = results(EIG_KERNEL.call([a.into(), is_watched(a).into()])?)?;
        Ok(Output::Tensor(values))
    }),
    derivative: Derivative::Composed,
    samples: &["i(9, 3, 3).double()", "i(9, 2, 3, 3).double()", "t(0, 0)"],
    errors: &[(
        "t(2, 3)",
        "RuntimeError",
        "linalg.eigvals: A must be batches of square matrices, but they are 2 by 3 matrices",
    )],
    ..Row::BASE
};

/// Eigenvalues, by way of the vectors where a gradient may be asked for.
pub fn eigvalsh(a: &Tensor, triangle: &str) -> Result<Tensor> {
    let [values, _] = results(EIGH_KERNEL.call([a.into(), triangle.into(), is_watched(a).into()])?)?;
    Ok(values)
}

fn infer_symmetric(args: &Args) -> Result<Vec<Spec>> {
    let (a, triangle) = (args.tensor(0)?, args.str(1)?);
    check_square("linalg.eigh", a)?;
    if !matches!(triangle, "L" | "U" | "l" | "u") {
        return Err(Error::runtime(format!("Expected UPLO argument to be 'L' or 'U', but got {triangle}")));
    }
    check_kernel("linalg_eigh_cpu", a)?;
    let vectors = if args.bool(2)? { by_columns(a.sizes(), a.dtype(), a) } else { Spec::new(&[0], a.dtype(), a) };
    Ok(vec![Spec::new(&a.sizes()[..a.rank() - 1], a.dtype().to_real(), a), vectors])
}

fn decompose_symmetric(args: &Args, results: &[Tensor]) -> Result<()> {
    let a = Expr::from(&args.tensor(0)?.detach());
    let a = if matches!(args.str(1)?, "U" | "u") { a.adjoint() } else { a };
    // Of a Hermitian matrix' diagonal the real parts count.
    let diagonal = || a.clone().diagonals();
    let a = if args.tensor(0)?.dtype().is_complex() {
        a.clone() - (diagonal() - diagonal().real()).on_diagonals()
    } else {
        a.clone()
    };
    let a = steady(&a.done()?)?;
    let (values, vectors) = (&results[0], &results[1]);
    let infos = crate::create::zeros(batch_sizes(&a), DType::I32, a.device())?;
    let (pa, pl) = (a.storage().pin()?, values.storage().pin()?);
    let (pv, pi) = (vectors.storage().pin()?, infos.storage().pin()?);
    let (n, wanted) = (a.sizes()[a.rank() - 1] as usize, args.bool(2)?);
    dense!(a.dtype(), T => {
        let on = rushlight_cpu::linalg::Symmetric::<T> {
            a: matrices(&a, &pa),
            values: numbers(values, &pl, n),
            vectors: wanted.then(|| matrices(vectors, &pv)),
        };
        // SAFETY: results are fresh and of the sizes that `infer_symmetric` gave them; all storages are pinned.
        unsafe { rushlight_cpu::linalg::eigh(count(&a), on, numbers(&infos, &pi, 1)) }
    })?;
    check_info("linalg.eigh", &infos, |info| {
        format!(
            "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated eigenvalues (error code: {info})."
        )
    })
}

fn infer_general(args: &Args) -> Result<Vec<Spec>> {
    let a = args.tensor(0)?;
    check_square("linalg.eig", a)?;
    if !a.dtype().is_differentiable() {
        return Err(Error::runtime(format!("Unknown Complex ScalarType for {}", a.dtype().title())));
    }
    check_kernel("linalg_eig_out_cpu", a)?;
    let complex = a.dtype().to_complex();
    let vectors = if args.bool(1)? { by_columns(a.sizes(), complex, a) } else { Spec::new(&[0], complex, a) };
    Ok(vec![Spec::new(&a.sizes()[..a.rank() - 1], complex, a), vectors])
}

fn decompose_general(args: &Args, results: &[Tensor]) -> Result<()> {
    let a = steady(args.tensor(0)?)?;
    let (values, vectors) = (&results[0], &results[1]);
    let infos = crate::create::zeros(batch_sizes(&a), DType::I32, a.device())?;
    let (pa, pl) = (a.storage().pin()?, values.storage().pin()?);
    let (pv, pi) = (vectors.storage().pin()?, infos.storage().pin()?);
    let (n, wanted) = (a.sizes()[a.rank() - 1] as usize, args.bool(1)?);
    dense!(a.dtype(), T => {
        let to = wanted.then(|| matrices(vectors, &pv));
        let infos = numbers(&infos, &pi, 1);
        // SAFETY: results are fresh and of the sizes that `infer_general` gave them; all storages are pinned.
        unsafe { rushlight_cpu::linalg::eig::<T>(count(&a), matrices(&a, &pa), numbers(values, &pl, n), to, infos) }
    })?;
    if crate::to_vec::<i32>(&infos)?.contains(&-1) {
        return Err(Error::runtime("torch.linalg.eig: input tensor should not contain infs or NaNs."));
    }
    check_info("linalg.eig", &infos, |info| {
        format!(
            "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated eigenvalues (error code: {info})."
        )
    })
}

/// Vectors turn into one another by `V^H gV` over the differences of eigenvalues; the whole is seen from `V`'s base.
fn gradient(d: &Derive, hermitian: bool) -> Expr {
    let (values, vectors) = (|| d.result_of(0), || d.result_of(1));
    if !d.has_grad(1) {
        if hermitian {
            return (vectors() * d.grad_of(0).along_columns()).matmul(vectors().adjoint());
        }
        return vectors().adjoint().with_tensor(&SOLVE, d.grad_of(0).along_rows() * vectors().adjoint());
    }
    let turned = || vectors().adjoint().matmul(d.grad_of(1));
    if d.results.get(1).is_some_and(|facts| facts.dtype.is_complex()) {
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
