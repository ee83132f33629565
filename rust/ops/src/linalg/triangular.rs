//! Systems of linear equations with triangular matrices.

use rushlight_autograd::Tensor;
use rushlight_core::Result;
use rushlight_core::broadcast::broadcast;
use rushlight_dispatch::call::on_host;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Accepts, Args, Autocast, BackwardContext, BatchRule, BatchedCall, DTypes, Derivative, ExplicitAutograd,
    Implementation, Joint, Kernel, OnCuda, Operator, Out, Saves, Sparse, TensorSpec, Variants, operator,
};
use rushlight_dispatch::value::{Output, sizes_value};
use rushlight_dispatch::vmap::{RuleResult, unsqueeze_to_rank};
use rushlight_dispatch::{copy, op, warn_once};

use super::dense::{
    batch_sizes, by_columns, check_fit, check_kernel, check_matrix, check_operands, check_square, common_batch, count,
    dense, matrices, matrix_sizes, sized, steady,
};
use super::factors_on_cuda;
use crate::expr_ext::ExprExt;

#[operator]
pub static SOLVE_TRIANGULAR: Operator = Operator {
    name: "solve_triangular",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor",
    doc: "The solution `X` of `self @ X = B` for triangular matrices, or of `X @ self = B` if `left` is false.

Only one triangle is read, without its diagonal if `unitriangular` is true.

    >>> torch.linalg.solve_triangular(torch.tensor([[2., 1.], [0., 4.]]), torch.tensor([[4.], [8.]]), upper=True)
    tensor([[1.],
            [2.]])",
    out: Out::new(Accepts::Same, &["expected scalar type {Result} but found {Out}"]),
    dtypes: DTypes::DENSE,
    batch_rule: BatchRule::Custom(batched_matrices),
    implementation: Implementation::Kernel(Kernel {
        infer: infer_triangular,
        cpu: solve_triangle,
        cuda: OnCuda::Own(solve_triangle_on_cuda),
    }),
    derivative: Derivative::Joint(Joint {
        inputs: &[INPUT, B],
        saves: Saves::input(INPUT).union(Saves::RESULT),
        gradients: triangular_gradients,
    }),
    samples: &[
        "t(3, 3) + torch.eye(3) * 4, t(3, 2), upper=True",
        "t(2, 3, 3) + torch.eye(3) * 4, t(3, 2), upper=False",
        "t(3, 3) + torch.eye(3) * 4, t(2, 4, 3), upper=True, left=False, unitriangular=True",
        "t(0, 0), t(0, 2), upper=True",
    ],
    errors: &[
        (
            "t(3), t(3), upper=True",
            "RuntimeError",
            "linalg.solve_triangular: The input tensor A must have at least 2 dimensions.",
        ),
        (
            "t(3, 3), t(4, 2), upper=True",
            "RuntimeError",
            "linalg.solve_triangular: Incompatible shapes of A and B for the equation AX = B (3x3 and 4x2)",
        ),
    ],
    ..Operator::BASE
};

#[operator]
pub static TRIANGULAR_SOLVE: Operator = Operator {
    name: "triangular_solve",
    node: "TriangularSolveBackward0",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient)",
    doc: "The solution `X` of `A @ X = self` for triangular `A`, and `A`; `torch.linalg.solve_triangular` is the newer form.

    >>> torch.triangular_solve(torch.tensor([[4.], [8.]]), torch.tensor([[2., 1.], [0., 4.]])).solution
    tensor([[1.],
            [2.]])",
    out: Out::EXACT,
    dtypes: DTypes::DENSE,
    sparse: Sparse::CompositeImplicit,
    autocast: Autocast::Fp32.on_cpu_alone(),
    batch_rule: BatchRule::Custom(batched_matrices),
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        warn_once!(
            "torch.triangular_solve is deprecated in favor of torch.linalg.solve_triangularand will be removed in a future PyTorch release.\ntorch.linalg.solve_triangular has its arguments reversed and does not return a copy of one of the inputs.\nX = torch.triangular_solve(B, A).solution\nshould be replaced with\nX = torch.linalg.solve_triangular(A, B)."
        )?;
        let (b, a) = (args.tensor(INPUT)?, args.tensor(A)?);
        check_operands("torch.triangular_solve", "triangular_solve", b, a)?;
        check_kernel("triangular_solve_cpu", a)?;
        let (b, a) = common_batch(b, a)?;
        let turned = if args.bool(TRANSPOSE)? { Expr::from(&a).transposed().done()? } else { a.clone() };
        let solution = triangular(&turned, &b, args.bool(UPPER)? != args.bool(TRANSPOSE)?, true, args.bool(UNITRIANGULAR)?)?;
        let turned = op!(crate::convert::CLONE, Expr::from(&a).transposed().done()?, "contiguous_format")?;
        Ok(Output::Tuple(vec![solution, Expr::from(turned).transposed().done()?]))
    })),
    derivative: Derivative::Joint(Joint {
        inputs: &[INPUT, A],
        saves: Saves::input(A).union(Saves::result(0)),
        gradients: system_gradients,
    }),
    samples: &["t(3, 2), t(3, 3) + torch.eye(3) * 4", "t(3, 2), t(2, 3, 3) + torch.eye(3) * 4, False, True"],
    errors: &[(
        "t(4, 1), t(3, 3)",
        "RuntimeError",
        "Incompatible matrix sizes for triangular_solve: each A matrix is 3 by 3 but each b matrix is 4 by 1",
    )],
    ..Operator::BASE
};

/// Calls `solve_triangular`.
pub fn triangular(a: &Tensor, b: &Tensor, upper: bool, left: bool, unit: bool) -> Result<Tensor> {
    op!(SOLVE_TRIANGULAR, a, b, upper, left, unit)
}

fn infer_triangular(args: &Args) -> Result<Vec<TensorSpec>> {
    use SOLVE_TRIANGULAR::*;

    let (a, b, left) = (args.tensor(INPUT)?, args.tensor(B)?, args.bool(LEFT)?);
    let name = "linalg.solve_triangular";
    check_square(name, a)?;
    check_matrix(name, "B", b)?;
    check_fit(name, a, &matrix_sizes(b), left)?;
    check_kernel("triangular_solve_cpu", a)?;
    let mut sizes = broadcast(batch_sizes(a), batch_sizes(b))?;
    sizes.extend(matrix_sizes(b));
    // As in torch, the right-hand sides take the dtype of the matrices.
    Ok(vec![by_columns(&sizes, a.dtype(), b)])
}

fn solve_triangle(args: &Args, results: &[Tensor]) -> Result<()> {
    use SOLVE_TRIANGULAR::*;

    let solution = &results[0];
    copy::copy(solution, args.tensor(B)?)?;
    let a = steady(&stretched(args, solution)?)?;
    if solution.numel() == 0 {
        return Ok(());
    }
    let (pa, ps) = (a.storage().pin()?, solution.storage().pin()?);
    let (upper, left, unit) = (args.bool(UPPER)?, args.bool(LEFT)?, args.bool(UNITRIANGULAR)?);
    dense!(a.dtype(), T => {
        let (mut on, mut to) = (matrices::<T>(&a, &pa), matrices::<T>(solution, &ps));
        if !left {
            (on, to) = (on.transposed(), to.transposed());
        }
        // SAFETY: the result is new and does not overlap the triangle; sizes were checked, both storages are pinned.
        unsafe { rushlight_cpu::linalg::solve_triangular(count(solution), on, to, upper == left, unit) }
    })
}

/// The matrices, with the batch of the solution.
fn stretched(args: &Args, solution: &Tensor) -> Result<Tensor> {
    let a = args.tensor(SOLVE_TRIANGULAR::INPUT)?.detach();
    let sizes = sized(solution, &matrix_sizes(&a));
    if *a.sizes() == sizes { Ok(a) } else { crate::view::expand::EXPAND.tensor([(&a).into(), sizes_value(&sizes)]) }
}

fn solve_triangle_on_cuda(args: &Args, results: &[Tensor]) -> Result<()> {
    use SOLVE_TRIANGULAR::*;

    let solution = &results[0];
    copy::copy(solution, args.tensor(B)?)?;
    let a = stretched(args, solution)?;
    let (upper, left, unit) = (args.bool(UPPER)?, args.bool(LEFT)?, args.bool(UNITRIANGULAR)?);
    let done = factors_on_cuda::solve_triangular(&a, solution, upper, left, unit)?;
    if done { Ok(()) } else { on_host::fill(solve_triangle, args, results) }
}

fn triangular_gradients(d: &BackwardContext) -> Result<Vec<Option<Tensor>>> {
    use SOLVE_TRIANGULAR::*;

    let (upper, left, unit) = (d.flag(UPPER), d.args.optional_bool(LEFT).unwrap_or(true), d.flag(UNITRIANGULAR));
    let sides = || d.input(INPUT).adjoint().solve_triangular(d.grad(), !upper, left, unit);
    let own = d.needs(INPUT).then(|| {
        let product = match left {
            true => sides().matmul(d.result().adjoint()),
            false => d.result().adjoint().matmul(sides()),
        };
        if upper { -product.triu(unit.into()) } else { -product.tril(-i64::from(unit)) }
    });
    let own = own.map(Expr::done).transpose()?;
    Ok(vec![own, d.needs(B).then(sides).map(Expr::done).transpose()?])
}

fn system_gradients(d: &BackwardContext) -> Result<Vec<Option<Tensor>>> {
    use TRIANGULAR_SOLVE::*;

    let (transpose, unit) = (d.flag(TRANSPOSE), d.flag(UNITRIANGULAR));
    let upper = d.args.optional_bool(UPPER).unwrap_or(true) != transpose;
    let turned = |a: Expr| if transpose { a.transposed() } else { a };
    let sides = d.has_grad(0).then(|| {
        turned(d.input(A)).adjoint().solve_triangular(d.grad_of(0), !upper, true, unit).done().map(Expr::from)
    });
    let sides = sides.transpose()?;
    let own = d.needs(A).then(|| {
        let of_solution = sides.clone().map(|sides| {
            let product = sides.matmul(d.result_of(0).adjoint());
            turned(if upper { -product.triu(unit.into()) } else { -product.tril(-i64::from(unit)) })
        });
        match of_solution {
            Some(found) if d.has_grad(1) => found + d.grad_of(1),
            Some(found) => found,
            None => d.grad_of(1),
        }
    });
    let own = own.map(Expr::done).transpose()?;
    Ok(vec![sides.filter(|_| d.needs(INPUT)).map(Expr::done).transpose()?, own])
}

/// An operator on batches of matrices that broadcast.
fn batched_matrices(batch: &BatchedCall) -> RuleResult {
    let rank = batch.args.each_tensor().map(|(_, tensor)| tensor.rank()).max().unwrap_or(0);
    let args = batch.args.replaced(|tensor| Ok(unsqueeze_to_rank(&batch.physical(tensor), rank)))?;
    args.call().map(Some)
}
