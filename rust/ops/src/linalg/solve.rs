//! Systems of linear equations and inverses.

use rushlight_autograd::Tensor;
use rushlight_core::Result;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::op;
use rushlight_dispatch::operator::{
    Args, Autocast, BackwardContext, DTypes, Derivative, ErrorInput, ExplicitAutograd, Implementation, Joint, Operator,
    Out, Saves, Variants, operator,
};
use rushlight_dispatch::value::Output;

use super::dense::{
    check_dense, check_fit, check_inexact, check_info, check_kernel, check_matrix, check_square, different_dtypes,
    identities, matrix_sizes, results,
};
use super::lu::{LU_FACTOR_EX, solve_factored};
use crate::expr_ext::ExprExt;

#[operator]
pub static SOLVE_EX: Operator = Operator {
    name: "_linalg_solve_ex",
    variants: Variants::FUNCTION,
    signature: "(Tensor A, Tensor B, bool left=True) -> (Tensor result, Tensor info)",
    doc: "The solution of a system, and for each matrix the position of the first zero pivot.

    >>> torch._linalg_solve_ex(torch.eye(2), torch.ones(2))[1]
    tensor(0, dtype=torch.int32)",
    dtypes: DTypes::DENSE,
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        let (a, b, left) = (args.tensor(A)?, args.tensor(B)?, args.bool(LEFT)?);
        check_system(a, b, left)?;
        let vector = is_vector(a, b);
        let [lu, pivots, infos] = results(LU_FACTOR_EX.call([a.into()])?)?;
        let sides = if vector { Expr::from(b).along_rows().done()? } else { b.clone() };
        let solution = solve_factored(&lu, &pivots, &sides, left, false)?;
        let solution = if vector { drop_last(solution)? } else { solution };
        Ok(Output::Tuple(vec![solution, infos]))
    })),
    derivative: Derivative::Joint(Joint {
        inputs: &[A, B],
        saves: Saves::input(A).union(Saves::RESULT),
        gradients: system_gradients,
    }),
    samples: &[
        "t(3, 3) + torch.eye(3) * 4, t(3, 2)",
        "t(2, 3, 3) + torch.eye(3) * 4, t(2, 3)",
        "t(3, 3) + torch.eye(3) * 4, t(2, 3), False",
    ],
    ..Operator::BASE
};

#[operator]
pub static SOLVE: Operator = Operator {
    name: "solve",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor A, Tensor B, *, bool left=True) -> Tensor",
    doc: "The solution `X` of `A @ X = B` for square matrices, or of `X @ A = B` if `left` is false.

`B` may be a vector, or a batch of vectors with the matrices' batch sizes. Batch dimensions broadcast together otherwise.

    >>> torch.linalg.solve(torch.tensor([[2., 0.], [0., 4.]]), torch.tensor([2., 8.]))
    tensor([1., 2.])",
    out: Out::EXACT.known_as_first(),
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::CompositeImplicit(|args| {
        let [solution, infos] = solved(args)?;
        check_singular("torch.linalg.solve", &infos)?;
        Ok(Output::Tensor(solution))
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3, 3) + torch.eye(3) * 4, t(3, 2)", "t(2, 3, 3) + torch.eye(3) * 4, t(3, 2)", "t(0, 0), t(0, 2)"],
    errors: &[
        ("t(3), t(3)", "RuntimeError", "linalg.solve: The input tensor A must have at least 2 dimensions."),
        (
            "t(3, 3), t(4)",
            "RuntimeError",
            "linalg.solve: Incompatible shapes of A and B for the equation AX = B (3x3 and 4x1)",
        ),
        (
            "torch.zeros(3, 3), torch.ones(3)",
            "RuntimeError",
            "torch.linalg.solve: The solver failed because the input matrix is singular.",
        ),
    ],
    reference: "np.linalg.solve(A, B) if left else None",
    ..Operator::BASE
};

#[operator]
pub static SOLVE_EX_PUBLIC: Operator = Operator {
    name: "solve_ex",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor info)",
    doc: "As `torch.linalg.solve`, with the position of the first zero pivot of each matrix instead of an exception.

    >>> torch.linalg.solve_ex(torch.eye(2), torch.ones(2)).info
    tensor(0, dtype=torch.int32)",
    out: Out::EXACT.known_as_first(),
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::CompositeImplicit(|args| {
        let [solution, infos] = solved(args)?;
        if args.bool(CHECK_ERRORS)? {
            check_singular("torch.linalg.solve_ex", &infos)?;
        }
        Ok(Output::Tuple(vec![solution, infos]))
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3, 3) + torch.eye(3) * 4, t(3, 2)"],
    errors: &[("t(3), t(3)", "RuntimeError", "linalg.solve: The input tensor A must have at least 2 dimensions.")],
    reference: "(np.linalg.solve(A, B), np.zeros(A.shape[:-2], np.int32))",
    ..Operator::BASE
};

#[operator]
pub static INV_EX: Operator = Operator {
    name: "inv_ex",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)",
    doc: "The inverses of matrices, and for each the position of the first zero pivot.

    >>> torch.linalg.inv_ex(torch.tensor([[2., 0.], [0., 4.]])).inverse
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])",
    out: Out::EXACT,
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        let a = args.tensor(A)?;
        check_square("linalg.inv", a)?;
        check_dense("linalg.inv", a)?;
        let [lu, pivots, infos] = results(LU_FACTOR_EX.call([a.into()])?)?;
        let n = a.sizes()[a.rank() - 1];
        let inverse = solve_factored(&lu, &pivots, &identities(a, n, n)?, true, false)?;
        if args.bool(CHECK_ERRORS)? {
            check_inverted("linalg.inv_ex", &infos)?;
        }
        Ok(Output::Tuple(vec![inverse, infos]))
    })),
    derivative: Derivative::Joint(Joint {
        inputs: &[A],
        saves: Saves::RESULT,
        gradients: |d| {
            let turned = || d.result().adjoint();
            (-turned().matmul(d.grad().matmul(turned()))).gradient().map(|gradient| vec![gradient])
        },
    }),
    samples: &["t(3, 3) + torch.eye(3) * 4", "t(2, 3, 3) + torch.eye(3) * 4", "t(0, 0)"],
    errors: INVERSE_ERRORS,
    reference: "(np.linalg.inv(A), np.zeros(A.shape[:-2], np.int32))",
    ..Operator::BASE
};

const INVERSE_ERRORS: &[ErrorInput] = &[
    ("t(3)", "RuntimeError", "linalg.inv: The input tensor A must have at least 2 dimensions."),
    ("t(2, 3)", "RuntimeError", "linalg.inv: A must be batches of square matrices, but they are 2 by 3 matrices"),
    ("i(3, 2, 2)", "RuntimeError", "linalg.inv: Expected a floating point or complex tensor as input. Got Long"),
];

#[operator]
pub static INV: Operator = Operator {
    name: "inv",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor A) -> Tensor",
    doc: "The inverses of matrices.

    >>> torch.linalg.inv(torch.tensor([[2., 0.], [0., 4.]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])",
    out: Out::EXACT.known_as_first(),
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::CompositeImplicit(|args| inverse(args.tensor(A)?).map(Output::Tensor)),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3, 3) + torch.eye(3) * 4", "t(2, 3, 3) + torch.eye(3) * 4", "t(0, 0)"],
    errors: INVERSE_ERRORS,
    reference: "np.linalg.inv(A)",
    ..Operator::BASE
};

#[operator]
pub static INVERSE: Operator = Operator {
    name: "inverse",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self) -> Tensor",
    doc: "The inverses of matrices, as `torch.linalg.inv`.

    >>> torch.inverse(torch.tensor([[2., 0.], [0., 4.]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])",
    out: Out::EXACT.known_as_first(),
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::CompositeImplicit(|args| inverse(args.tensor(INPUT)?).map(Output::Tensor)),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3, 3) + torch.eye(3) * 4"],
    errors: &[(
        "torch.zeros(3, 3)",
        "RuntimeError",
        "linalg.inv: The diagonal element 1 is zero, the inversion could not be completed because the input matrix is singular.",
    )],
    reference: "np.linalg.inv(self)",
    ..Operator::BASE
};

pub fn inverse(a: &Tensor) -> Result<Tensor> {
    let [inverse, infos] = results(INV_EX.call([a.into()])?)?;
    check_inverted("linalg.inv", &infos)?;
    Ok(inverse)
}

fn check_inverted(name: &str, infos: &Tensor) -> Result<()> {
    check_info(name, infos, |info| {
        format!(
            "The diagonal element {info} is zero, the inversion could not be completed because the input matrix is singular."
        )
    })
    .map_err(|error| error.hint("Use torch.linalg.pinv for the pseudo-inverse, or torch.linalg.inv_ex, which returns an error code instead."))
}

fn check_singular(name: &str, infos: &Tensor) -> Result<()> {
    check_info(name, infos, |_| "The solver failed because the input matrix is singular.".to_owned()).map_err(|error| {
        error.hint(
            "Use torch.linalg.lstsq for a least-squares solution, or torch.linalg.solve_ex, which returns an error code instead.",
        )
    })
}

fn solved(args: &Args) -> Result<[Tensor; 2]> {
    use SOLVE::*;

    results(SOLVE_EX.call([args.tensor(A)?.into(), args.tensor(B)?.into(), args.bool(LEFT)?.into()])?)
}

/// Whether `b` is one vector, or a batch of vectors with the matrices' batch sizes.
pub fn is_vector(a: &Tensor, b: &Tensor) -> bool {
    b.rank() == 1 || (a.rank() == b.rank() + 1 && a.sizes()[..a.rank() - 1] == b.sizes()[..])
}

/// Without the last dimension, whose size is one.
pub fn drop_last(tensor: Tensor) -> Result<Tensor> {
    op!(crate::view::squeeze::SQUEEZE_DIM, &tensor, -1i64)
}

fn check_system(a: &Tensor, b: &Tensor, left: bool) -> Result<()> {
    check_inexact("linalg.solve", a)?;
    if a.dtype() != b.dtype() {
        return Err(different_dtypes("linalg.solve", "A", a, "B", b));
    }
    check_square("linalg.solve", a)?;
    if b.rank() > 0 && is_vector(a, b) {
        check_fit("linalg.solve", a, &[*b.sizes().last().unwrap_or(&1), 1], left)?;
    } else {
        check_matrix("linalg.solve", "B", b)?;
        check_fit("linalg.solve", a, &matrix_sizes(b), left)?;
    }
    check_kernel("lu_cpu", a)
}

fn system_gradients(d: &BackwardContext) -> Result<Vec<Option<Tensor>>> {
    use SOLVE_EX::*;

    let left = d.args.optional_bool(LEFT).unwrap_or(true);
    let (a, x) = (d.input(A).done()?, d.result().done()?);
    let vector = is_vector(&a, &x);
    let adjoint = Expr::from(&a).adjoint().done()?;
    let grad = d.grad().done()?;
    let column = |x: Tensor| if vector { Expr::from(x).along_rows() } else { Expr::from(x) };
    let sides = op!(SOLVE, &adjoint, &column(grad).done()?, left)?;
    let own = d.needs(A).then(|| match left {
        true => -Expr::from(&sides).matmul(column(x).adjoint()),
        false => -column(x).adjoint().matmul(Expr::from(&sides)),
    });
    let own = own.map(Expr::done).transpose()?;
    let sides = if vector { drop_last(sides)? } else { sides };
    Ok(vec![own, Some(sides)])
}
