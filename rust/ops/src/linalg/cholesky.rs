//! Cholesky factors of positive definite matrices.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Error, Result};
use rushlight_dispatch::call::on_host;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Accepts, Args, Autocast, BackwardContext, BatchRule, DTypes, Derivative, Implementation, Kernel, OnCuda, Operator,
    Out, Saves, TensorSpec, Variants, formula, operator,
};
use rushlight_dispatch::value::Output;
use rushlight_dispatch::{copy, create, op, warn_once};

use super::dense::{
    batch_sizes, by_columns, check_filled, check_inexact, check_info, check_kernel, check_square, count, dense,
    identities, matrices, per_matrix, results,
};
use super::factors_on_cuda;
use super::triangular::triangular;
use crate::expr_ext::ExprExt;

#[operator]
pub static CHOLESKY_EX: Operator = Operator {
    name: "cholesky_ex",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)",
    doc: "The Cholesky factors `L` of matrices `L @ L.mH`, and for each the order of the first minor that is not positive, or 0.

`upper=True` gives `L.mH`. Raises only if `check_errors` is true.

    >>> torch.linalg.cholesky_ex(torch.tensor([[4., 2.], [2., 5.]]))
    torch.return_types.linalg_cholesky_ex(
    L=tensor([[2., 0.],
            [1., 2.]]),
    info=tensor(0, dtype=torch.int32))",
    out: Out::EXACT,
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    batch_rule: BatchRule::LeadingDims,
    implementation: Implementation::Kernel(Kernel {
        infer,
        cpu: factorise,
        cuda: OnCuda::Own(factorise_on_cuda),
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::RESULT, gradient)]),
    samples: &["torch.eye(3).double() * 4 + i(2, 3, 3)", "t(0, 2, 2)", "torch.eye(2).repeat(2, 1, 1), upper=True"],
    errors: &[
        ("t(3)", "RuntimeError", "linalg.cholesky: The input tensor A must have at least 2 dimensions."),
        ("t(2, 3)", "RuntimeError", "linalg.cholesky: A must be batches of square matrices, but they are 2 by 3 matrices"),
        ("i(3, 2, 2)", "RuntimeError", "linalg.cholesky: Expected a floating point or complex tensor as input. Got Long"),
    ],
    ..Operator::BASE
};

#[operator]
pub static CHOLESKY: Operator = Operator {
    name: "cholesky",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, *, bool upper=False) -> Tensor",
    doc: "The Cholesky factors `L` of positive definite matrices `L @ L.mH`; `upper=True` gives `L.mH`.

    >>> torch.linalg.cholesky(torch.tensor([[4., 2.], [2., 5.]]))
    tensor([[2., 0.],
            [1., 2.]])",
    out: Out::EXACT.known_as_first(),
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::CompositeImplicit(|args| {
        checked(args.tensor(INPUT)?, args.bool(UPPER)?, "linalg.cholesky").map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["torch.eye(3).double() * 4 + i(2, 3, 3)", "t(0, 2, 2)"],
    errors: &[(
        "torch.zeros(2, 2)",
        "RuntimeError",
        "linalg.cholesky: The factorization could not be completed because the input is not positive-definite (the leading minor of order 1 is not positive-definite).",
    )],
    reference: "np.linalg.cholesky(np.tril(self) + np.conj(np.swapaxes(np.tril(self, -1), -1, -2))) if self.size else None",
    ..Operator::BASE
};

#[operator]
pub static CHOLESKY_OLD: Operator = Operator {
    name: "cholesky",
    node: "CholeskyBackward0",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, bool upper=False) -> Tensor",
    doc: "The Cholesky factors of positive definite matrices; `torch.linalg.cholesky` is the newer form.

    >>> torch.cholesky(torch.tensor([[4., 2.], [2., 5.]]), upper=True)
    tensor([[2., 1.],
            [0., 2.]])",
    out: Out::new(
        Accepts::Cast,
        &["cholesky: Expected result to be safely castable from {Result} dtype, but got result with dtype {Out}"],
    )
    .known_as_first(),
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::CompositeImplicit(|args| {
        warn_once!(
            "torch.cholesky is deprecated in favor of torch.linalg.cholesky and will be removed in a future PyTorch release.\nL = torch.cholesky(A)\nshould be replaced with\nL = torch.linalg.cholesky(A)\nand\nU = torch.cholesky(A, upper=True)\nshould be replaced with\nU = torch.linalg.cholesky(A).mH\nThis transform will produce equivalent results for all valid (symmetric positive definite) inputs.",
        )?;
        let input = args.tensor(INPUT)?;
        // torch returns a matrix without elements before it looks at its sizes and dtype.
        let factor = match input.numel() {
            0 => op!(crate::convert::CLONE, input, "contiguous_format"),
            _ => {
                check_square("cholesky", input)?;
                check_kernel("cholesky_cpu", input)?;
                checked(input, args.bool(UPPER)?, "cholesky")
            }
        };
        factor.map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["torch.eye(3).double() * 4 + i(2, 3, 3)", "t(0, 2, 2)"],
    ..Operator::BASE
};

#[operator]
pub static CHOLESKY_SOLVE: Operator = Operator {
    name: "cholesky_solve",
    node: "CholeskySolveBackward0",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, Tensor input2, bool upper=False) -> Tensor",
    doc: "The solution `X` of `A @ X = self`, where `input2` is the Cholesky factor of `A`.

    >>> torch.cholesky_solve(torch.tensor([[8.], [12.]]), torch.tensor([[2., 0.], [1., 2.]]))
    tensor([[1.],
            [2.]])",
    out: Out::new(
        Accepts::Cast,
        &["cholesky_solve: Expected result to be safely castable from {Result} dtype, but got result with dtype {Out}"],
    ),
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::CompositeImplicit(|args| {
        let (b, factor) = (args.tensor(INPUT)?, args.tensor(INPUT2)?);
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
                b.dtype().display_name(),
                factor.dtype().display_name()
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
            )).hint("b must have as many rows as A; pass a single vector as b.unsqueeze(-1)."));
        }
        check_kernel("cholesky_solve_cpu", b)?;
        solve_with(factor, b, args.bool(UPPER)?).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
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
    ..Operator::BASE
};

#[operator]
pub static CHOLESKY_INVERSE: Operator = Operator {
    name: "cholesky_inverse",
    node: "CholeskyInverseBackward0",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, bool upper=False) -> Tensor",
    doc: "The inverse of `A`, where `self` is the Cholesky factor of `A`.

    >>> torch.cholesky_inverse(torch.tensor([[2., 0.], [0., 1.]]))
    tensor([[0.2500, 0.0000],
            [0.0000, 1.0000]])",
    out: Out::new(
        Accepts::Cast,
        &[
            "cholesky_inverse: Expected result to be safely castable from {Result} dtype, but got result with dtype {Out}",
        ],
    ),
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::CompositeImplicit(|args| {
        let factor = args.tensor(INPUT)?;
        check_square("cholesky_inverse", factor)?;
        check_kernel("cholesky_inverse_out_cpu", factor)?;
        let n = factor.sizes()[factor.rank() - 1];
        solve_with(factor, &identities(factor, n, n)?, args.bool(UPPER)?).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["torch.eye(3).double() * 4 + i(2, 3, 3)", "torch.eye(3), True", "t(0, 0)"],
    errors: &[(
        "t(2, 3)",
        "RuntimeError",
        "cholesky_inverse: A must be batches of square matrices, but they are 2 by 3 matrices",
    )],
    ..Operator::BASE
};

/// Solves with one triangle of `factor` and then with its adjoint.
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
    .map_err(|error| error.hint("Add a small number to the diagonal, or use torch.linalg.cholesky_ex, which returns an error code instead."))
}

fn infer(args: &Args) -> Result<Vec<TensorSpec>> {
    let a = args.tensor(CHOLESKY_EX::INPUT)?;
    check_square("linalg.cholesky", a)?;
    check_inexact("linalg.cholesky", a)?;
    check_filled("cholesky_cpu", a)?;
    Ok(vec![by_columns(a.sizes(), a.dtype(), a), TensorSpec::new(batch_sizes(a), DType::I32, a)])
}

fn factorise(args: &Args, results: &[Tensor]) -> Result<()> {
    use CHOLESKY_EX::*;

    let (factor, infos) = (&results[0], &results[1]);
    copy::copy(factor, args.tensor(INPUT)?)?;
    create::fill(infos, rushlight_core::Scalar::ZERO)?;
    if factor.numel() == 0 {
        return Ok(());
    }
    let (pf, pi) = (factor.storage().pin()?, infos.storage().pin()?);
    let upper = args.bool(UPPER)?;
    dense!(factor.dtype(), T => {
        let on = matrices::<T>(factor, &pf);
        let on = if upper { on.transposed() } else { on };
        // SAFETY: results are new and of the sizes from `infer`; both storages are pinned.
        unsafe { rushlight_cpu::linalg::cholesky(count(factor), on, per_matrix(infos, &pi, 1)) }
    })?;
    if args.bool(CHECK_ERRORS)? { check_positive("linalg.cholesky_ex", infos) } else { Ok(()) }
}

fn factorise_on_cuda(args: &Args, results: &[Tensor]) -> Result<()> {
    use CHOLESKY_EX::*;

    let (factor, infos, upper) = (&results[0], &results[1], args.bool(UPPER)?);
    copy::copy(factor, args.tensor(INPUT)?)?;
    create::fill(infos, rushlight_core::Scalar::ZERO)?;
    if !factors_on_cuda::cholesky(factor, infos, upper)? {
        return on_host::fill(factorise, args, results);
    }
    factors_on_cuda::keep_triangle(factor, upper)?;
    if args.bool(CHECK_ERRORS)? { check_positive("linalg.cholesky_ex", infos) } else { Ok(()) }
}

/// `L^-H sym(L^H gL) L^-1`, where `sym` takes the lower triangle and makes it Hermitian.
fn gradient(d: &BackwardContext) -> Expr {
    let upper = d.flag(CHOLESKY_EX::UPPER);
    let turn = |x: Expr| if upper { x.adjoint() } else { x };
    let factor = || turn(d.result());
    let product = factor().adjoint().matmul(turn(d.grad()));
    let half = (product.clone().tril(0) + product.tril(-1)) * 0.25;
    let middle = half.clone() + half.adjoint();
    let solved = factor().adjoint().solve_triangular(middle, true, true, false);
    factor().solve_triangular(solved, false, false, false)
}
