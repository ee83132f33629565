//! Cholesky factors of positive definite matrices.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Error, Result};

use super::dense::{
    batch_sizes, by_columns, check_inexact, check_info, check_kernel, check_square, count, dense, identities, matrices,
    numbers, results,
};
use super::solve::triangular;
use crate::autocast::Autocast;
use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::mapped::Mapped;
use crate::row::{DTypes, Kernel, Out, Row, Run, Spec, Variants};
use crate::value::{Args, Output};

pub static CHOLESKY_EX: Row = Row {
    name: "cholesky_ex",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)",
    doc: "The Cholesky factors `L` of matrices `L @ L.mH`, and for each the order of the first minor that is not positive.

`upper=True` gives `L.mH`. Nothing is raised unless `check_errors` says so.

    >>> torch.linalg.cholesky_ex(torch.tensor([[4., 2.], [2., 5.]]))
    torch.return_types.linalg_cholesky_ex(
    L=tensor([[2., 0.],
            [1., 2.]]),
    info=tensor(0, dtype=torch.int32))",
    out: Out::EXACT,
    dtypes: DTypes::DENSE,
    autocast: Autocast::Single,
    mapped: Mapped::Batch,
    run: Run::Kernel(Kernel { infer, cpu: factorise }),
    derivative: Derivative::Formulas(&[formula(0, Saves::RESULT, gradient)]),
    samples: &["torch.eye(3).double() * 4 + i(2, 3, 3)", "t(0, 2, 2)", "torch.eye(2).repeat(2, 1, 1), upper=True"],
    errors: &[
        ("t(3)", "RuntimeError", "linalg.cholesky: The input tensor A must have at least 2 dimensions."),
        ("t(2, 3)", "RuntimeError", "linalg.cholesky: A must be batches of square matrices, but they are 2 by 3 matrices"),
        ("i(3, 2, 2)", "RuntimeError", "linalg.cholesky: Expected a floating point or complex tensor as input. Got Long"),
    ],
    ..Row::BASE
};

pub static CHOLESKY: Row = Row {
    name: "cholesky",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, *, bool upper=False) -> Tensor",
    doc: "The Cholesky factors `L` of positive definite matrices `L @ L.mH`; `upper=True` gives `L.mH`.

    >>> torch.linalg.cholesky(torch.tensor([[4., 2.], [2., 5.]]))
    tensor([[2., 0.],
            [1., 2.]])",
    out: Out::EXACT,
    dtypes: DTypes::DENSE,
    autocast: Autocast::Single,
    run: Run::Compose(|args| checked(args.tensor(0)?, args.bool(1)?, "linalg.cholesky").map(Output::Tensor)),
    derivative: Derivative::Composed,
    samples: &["torch.eye(3).double() * 4 + i(2, 3, 3)", "t(0, 2, 2)"],
    errors: &[(
        "torch.zeros(2, 2)",
        "RuntimeError",
        "linalg.cholesky: The factorization could not be completed because the input is not positive-definite (the leading minor of order 1 is not positive-definite).",
    )],
    reference: "np.linalg.cholesky(np.tril(self) + np.conj(np.swapaxes(np.tril(self, -1), -1, -2))) if self.size else None",
    ..Row::BASE
};

pub static CHOLESKY_OLD: Row = Row {
    name: "cholesky",
    node: "CholeskyBackward0",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, bool upper=False) -> Tensor",
    doc: "The Cholesky factors of positive definite matrices; `torch.linalg.cholesky` is the newer form.

    >>> torch.cholesky(torch.tensor([[4., 2.], [2., 5.]]), upper=True)
    tensor([[2., 1.],
            [0., 2.]])",
    dtypes: DTypes::DENSE,
    autocast: Autocast::Single,
    run: Run::Compose(|args| {
        crate::warn_once!(
            "torch.cholesky is deprecated in favor of torch.linalg.cholesky and will be removed in a future PyTorch release.\nL = torch.cholesky(A)\nshould be replaced with\nL = torch.linalg.cholesky(A)\nand\nU = torch.cholesky(A, upper=True)\nshould be replaced with\nU = torch.linalg.cholesky(A).mH\nThis transform will produce equivalent results for all valid (symmetric positive definite) inputs.",
        )?;
        checked(args.tensor(0)?, args.bool(1)?, "cholesky").map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["torch.eye(3).double() * 4 + i(2, 3, 3)", "t(0, 2, 2)"],
    ..Row::BASE
};

pub static CHOLESKY_SOLVE: Row = Row {
    name: "cholesky_solve",
    node: "CholeskySolveBackward0",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, Tensor input2, bool upper=False) -> Tensor",
    doc: "The solution `X` of `A @ X = self`, where `input2` is the Cholesky factor of `A`.

    >>> torch.cholesky_solve(torch.tensor([[8.], [12.]]), torch.tensor([[2., 0.], [1., 2.]]))
    tensor([[1.],
            [2.]])",
    dtypes: DTypes::DENSE,
    autocast: Autocast::Single,
    run: Run::Compose(|args| {
        let (b, factor) = (args.tensor(0)?, args.tensor(1)?);
        for (name, tensor) in [("b", b), ("u", factor)] {
            if tensor.rank() < 2 {
                return Err(Error::runtime(format!(
                    "{name} should have at least 2 dimensions, but has {} dimensions instead",
                    tensor.rank()
                )));
            }
        }
        if b.dtype() != factor.dtype() {
            return Err(Error::runtime(format!(
                "Expected b and A to have the same dtype, but found b of type {} and A of type {} instead.",
                b.dtype().title(),
                factor.dtype().title()
            )));
        }
        let side = |tensor: &Tensor, back: usize| tensor.sizes()[tensor.rank() - back];
        let (rows, columns) = (side(factor, 2), side(factor, 1));
        if rows != columns {
            return Err(Error::runtime(format!(
                "A must be batches of square matrices, but they are {rows} by {columns} matrices"
            )));
        }
        if columns != side(b, 2) {
            return Err(Error::runtime(format!(
                "Incompatible matrix sizes for cholesky_solve: each A matrix is {rows} by {columns} but each b matrix is {} by {}",
                side(b, 2),
                side(b, 1)
            )).hint("b needs as many rows as A has; a single vector b goes in as b.unsqueeze(-1)."));
        }
        check_kernel("cholesky_solve_cpu", b)?;
        solve_with(factor, b, args.bool(2)?).map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["t(3, 2), pos(3, 3)", "t(2, 3, 1), pos(3, 3)"],
    errors: &[
        ("t(3), t(3, 3)", "RuntimeError", "b should have at least 2 dimensions, but has 1 dimensions instead"),
        (
            "t(2, 1), t(3, 3)",
            "RuntimeError",
            "Incompatible matrix sizes for cholesky_solve: each A matrix is 3 by 3 but each b matrix is 2 by 1",
        ),
        ("t(2, 1), t(2, 3)", "RuntimeError", "A must be batches of square matrices, but they are 2 by 3 matrices"),
    ],
    ..Row::BASE
};

pub static CHOLESKY_INVERSE: Row = Row {
    name: "cholesky_inverse",
    node: "CholeskyInverseBackward0",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, bool upper=False) -> Tensor",
    doc: "The inverse of `A`, where `self` is the Cholesky factor of `A`.

    >>> torch.cholesky_inverse(torch.tensor([[2., 0.], [0., 1.]]))
    tensor([[0.2500, 0.0000],
            [0.0000, 1.0000]])",
    dtypes: DTypes::DENSE,
    autocast: Autocast::Single,
    run: Run::Compose(|args| {
        let factor = args.tensor(0)?;
        check_square("cholesky_inverse", factor)?;
        check_kernel("cholesky_inverse_out_cpu", factor)?;
        let n = factor.sizes()[factor.rank() - 1];
        solve_with(factor, &identities(factor, n, n)?, args.bool(1)?).map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["torch.eye(3).double() * 4 + i(2, 3, 3)", "torch.eye(3), True", "t(0, 0)"],
    errors: &[(
        "t(2, 3)",
        "RuntimeError",
        "cholesky_inverse: A must be batches of square matrices, but they are 2 by 3 matrices",
    )],
    ..Row::BASE
};

/// One triangle of `factor` and its adjoint, solved one after the other.
fn solve_with(factor: &Tensor, b: &Tensor, upper: bool) -> Result<Tensor> {
    let adjoint = Expr::from(factor).adjoint().done()?;
    let (first, second) = if upper { (&adjoint, factor) } else { (factor, &adjoint) };
    triangular(second, &triangular(first, b, false, true, false)?, true, true, false)
}

fn checked(a: &Tensor, upper: bool, name: &str) -> Result<Tensor> {
    let [factor, infos] = results(CHOLESKY_EX.call([a.into(), upper.into()])?)?;
    check_positive(name, &infos)?;
    Ok(factor)
}

fn check_positive(name: &str, infos: &Tensor) -> Result<()> {
    check_info(name, infos, |info| {
        format!(
            "The factorization could not be completed because the input is not positive-definite (the leading minor of order {info} is not positive-definite)."
        )
    })
    .map_err(|error| error.hint("Add a small number to the diagonal, or ask torch.linalg.cholesky_ex, which tells instead of raising."))
}

fn infer(args: &Args) -> Result<Vec<Spec>> {
    let a = args.tensor(0)?;
    check_square("linalg.cholesky", a)?;
    check_inexact("linalg.cholesky", a)?;
    check_kernel("cholesky_cpu", a)?;
    Ok(vec![by_columns(a.sizes(), a.dtype(), a), Spec::new(batch_sizes(a), DType::I32, a)])
}

fn factorise(args: &Args, results: &[Tensor]) -> Result<()> {
    let (factor, infos) = (&results[0], &results[1]);
    crate::copy::copy(factor, args.tensor(0)?)?;
    crate::create::fill(infos, rushlight_core::Scalar::ZERO)?;
    let (pf, pi) = (factor.storage().pin()?, infos.storage().pin()?);
    let upper = args.bool(1)?;
    dense!(factor.dtype(), T => {
        let on = matrices::<T>(factor, &pf);
        let on = if upper { on.transposed() } else { on };
        // SAFETY: results are fresh and of the sizes that `infer` gave them; both storages are pinned.
        unsafe { rushlight_cpu::linalg::cholesky(count(factor), on, numbers(infos, &pi, 1)) }
    })?;
    if args.bool(2)? { check_positive("linalg.cholesky_ex", infos) } else { Ok(()) }
}

/// `L^-H sym(L^H gL) L^-1`, where `sym` takes the lower triangle and makes it Hermitian.
fn gradient(d: &Derive) -> Expr {
    let upper = d.flag(1);
    let turn = |x: Expr| if upper { x.adjoint() } else { x };
    let factor = || turn(d.result());
    let product = factor().adjoint().matmul(turn(d.grad()));
    let half = (product.clone().tril(0) + product.tril(-1)) * 0.25;
    let middle = half.clone() + half.adjoint();
    let solved = factor().adjoint().solve_triangular(middle, true, true, false);
    factor().solve_triangular(solved, false, false, false)
}
