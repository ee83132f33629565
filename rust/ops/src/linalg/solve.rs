//! Systems of linear equations and inverses.

use rushlight_autograd::Tensor;
use rushlight_core::broadcast::broadcast;
use rushlight_core::{DType, Error, Result};

use super::dense::{
    batch_sizes, by_columns, by_columns_copy, check_dense, check_inexact, check_info, check_kernel, check_matrix,
    check_square, count, dense, identities, matrices, matrix_sizes, results, sized, steady,
};
use super::lu::{LU_FACTOR_EX, solve_factored};
use crate::autocast::Autocast;
use crate::derive::{Derivative, Derive, Joint, Saves};
use crate::expr::Expr;
use crate::mapped::Mapped;
use crate::op;
use crate::row::{DTypes, Kernel, Out, Row, Run, Spec, Variants};
use crate::value::{Args, Output};
use crate::view::reshape::sizes_value;

pub static SOLVE_TRIANGULAR: Row = Row {
    name: "solve_triangular",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor",
    doc: "The solution `X` of `self @ X = B` for triangular matrices, or of `X @ self = B` where `left` is false.

Only one triangle is read, without its diagonal where `unitriangular` is true.

    >>> torch.linalg.solve_triangular(torch.tensor([[2., 1.], [0., 4.]]), torch.tensor([[4.], [8.]]), upper=True)
    tensor([[1.],
            [2.]])",
    out: Out::EXACT,
    dtypes: DTypes::DENSE,
    mapped: Mapped::Rule(super::mapped::matrices),
    run: Run::Kernel(Kernel { infer: infer_triangular, cpu: solve_triangle }),
    derivative: Derivative::Joint(Joint {
        inputs: &[0, 1],
        saves: Saves::input(0).union(Saves::RESULT),
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
    ..Row::BASE
};

pub static TRIANGULAR_SOLVE: Row = Row {
    name: "triangular_solve",
    node: "TriangularSolveBackward0",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient)",
    doc: "The solution `X` of `A @ X = self` for triangular `A`, and `A`; `torch.linalg.solve_triangular` is the newer form.

    >>> torch.triangular_solve(torch.tensor([[4.], [8.]]), torch.tensor([[2., 1.], [0., 4.]])).solution
    tensor([[1.],
            [2.]])",
    dtypes: DTypes::DENSE,
    autocast: Autocast::Single,
    run: Run::Compose(|args| {
        crate::warn_once!(
            "torch.triangular_solve is deprecated in favor of torch.linalg.solve_triangularand will be removed in a future PyTorch release.\ntorch.linalg.solve_triangular has its arguments reversed and does not return a copy of one of the inputs.\nX = torch.triangular_solve(B, A).solution\nshould be replaced with\nX = torch.linalg.solve_triangular(A, B)."
        )?;
        let (b, a) = (args.tensor(0)?, args.tensor(1)?);
        check_operands("torch.triangular_solve", "triangular_solve", b, a)?;
        check_kernel("triangular_solve_cpu", a)?;
        let (b, a) = common_batch(b, a)?;
        let turned = if args.bool(3)? { Expr::from(&a).transposed().done()? } else { a.clone() };
        let solution = triangular(&turned, &b, args.bool(2)? != args.bool(3)?, true, args.bool(4)?)?;
        let turned = op!(crate::convert::CLONE, Expr::from(&a).transposed().done()?, "contiguous_format")?;
        Ok(Output::Tuple(vec![solution, Expr::from(turned).transposed().done()?]))
    }),
    derivative: Derivative::Composed,
    samples: &["t(3, 2), t(3, 3) + torch.eye(3) * 4", "t(3, 2), t(2, 3, 3) + torch.eye(3) * 4, False, True"],
    errors: &[(
        "t(4, 1), t(3, 3)",
        "RuntimeError",
        "Incompatible matrix sizes for triangular_solve: each A matrix is 3 by 3 but each b matrix is 4 by 1",
    )],
    ..Row::BASE
};

pub static SOLVE_EX: Row = Row {
    name: "_linalg_solve_ex",
    variants: Variants::FUNCTION,
    signature: "(Tensor A, Tensor B, bool left=True) -> (Tensor result, Tensor info)",
    doc: "The solution of a system, and for each matrix the place of the first zero pivot.

    >>> torch._linalg_solve_ex(torch.eye(2), torch.ones(2))[1]
    tensor(0, dtype=torch.int32)",
    dtypes: DTypes::DENSE,
    run: Run::Body(|args| {
        let (a, b, left) = (args.tensor(0)?, args.tensor(1)?, args.bool(2)?);
        check_system(a, b, left)?;
        let vector = is_vector(a, b);
        let [lu, pivots, infos] = results(LU_FACTOR_EX.call([a.into()])?)?;
        let sides = if vector { Expr::from(b).along_rows().done()? } else { b.clone() };
        let solution = solve_factored(&lu, &pivots, &sides, left, false)?;
        let solution = if vector { drop_last(solution)? } else { solution };
        Ok(Output::Tuple(vec![solution, infos]))
    }),
    derivative: Derivative::Joint(Joint {
        inputs: &[0, 1],
        saves: Saves::input(0).union(Saves::RESULT),
        gradients: system_gradients,
    }),
    samples: &[
        "t(3, 3) + torch.eye(3) * 4, t(3, 2)",
        "t(2, 3, 3) + torch.eye(3) * 4, t(2, 3)",
        "t(3, 3) + torch.eye(3) * 4, t(2, 3), False",
    ],
    ..Row::BASE
};

pub static SOLVE: Row = Row {
    name: "solve",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor A, Tensor B, *, bool left=True) -> Tensor",
    doc: "The solution `X` of `A @ X = B` for square matrices, or of `X @ A = B` where `left` is false.

`B` may be a vector, or a batch of vectors as long as that of the matrices.

    >>> torch.linalg.solve(torch.tensor([[2., 0.], [0., 4.]]), torch.tensor([2., 8.]))
    tensor([1., 2.])",
    out: Out::EXACT,
    dtypes: DTypes::DENSE,
    autocast: Autocast::Single,
    run: Run::Compose(|args| {
        let [solution, infos] = solved(args)?;
        check_singular("torch.linalg.solve", &infos)?;
        Ok(Output::Tensor(solution))
    }),
    derivative: Derivative::Composed,
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
    ..Row::BASE
};

pub static SOLVE_EX_PUBLIC: Row = Row {
    name: "solve_ex",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor info)",
    doc: "As `torch.linalg.solve`, with the place of the first zero pivot of each matrix instead of an exception.

    >>> torch.linalg.solve_ex(torch.eye(2), torch.ones(2)).info
    tensor(0, dtype=torch.int32)",
    out: Out::EXACT,
    dtypes: DTypes::DENSE,
    autocast: Autocast::Single,
    run: Run::Compose(|args| {
        let [solution, infos] = solved(args)?;
        if args.bool(3)? {
            check_singular("torch.linalg.solve_ex", &infos)?;
        }
        Ok(Output::Tuple(vec![solution, infos]))
    }),
    derivative: Derivative::Composed,
    samples: &["t(3, 3) + torch.eye(3) * 4, t(3, 2)"],
    errors: &[("t(3), t(3)", "RuntimeError", "linalg.solve: The input tensor A must have at least 2 dimensions.")],
    reference: "(np.linalg.solve(A, B), np.zeros(A.shape[:-2], np.int32))",
    ..Row::BASE
};

pub static INV_EX: Row = Row {
    name: "inv_ex",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)",
    doc: "The inverses of matrices, and for each the place of the first zero pivot.

    >>> torch.linalg.inv_ex(torch.tensor([[2., 0.], [0., 4.]])).inverse
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])",
    out: Out::EXACT,
    dtypes: DTypes::DENSE,
    autocast: Autocast::Single,
    run: Run::Body(|args| {
        let a = args.tensor(0)?;
        check_square("linalg.inv", a)?;
        check_dense("linalg.inv", a)?;
        let [lu, pivots, infos] = results(LU_FACTOR_EX.call([a.into()])?)?;
        let n = a.sizes()[a.rank() - 1];
        let inverse = solve_factored(&lu, &pivots, &identities(a, n, n)?, true, false)?;
        if args.bool(1)? {
            check_inverted("linalg.inv_ex", &infos)?;
        }
        Ok(Output::Tuple(vec![inverse, infos]))
    }),
    derivative: Derivative::Joint(Joint {
        inputs: &[0],
        saves: Saves::RESULT,
        gradients: |d| {
            let turned = || d.result().adjoint();
            (-turned().matmul(d.grad().matmul(turned()))).gradient().map(|gradient| vec![gradient])
        },
    }),
    samples: &["t(3, 3) + torch.eye(3) * 4", "t(2, 3, 3) + torch.eye(3) * 4", "t(0, 0)"],
    errors: INVERSE_ERRORS,
    reference: "(np.linalg.inv(A), np.zeros(A.shape[:-2], np.int32))",
    ..Row::BASE
};

const INVERSE_ERRORS: &[crate::row::Bad] = &[
    ("t(3)", "RuntimeError", "linalg.inv: The input tensor A must have at least 2 dimensions."),
    ("t(2, 3)", "RuntimeError", "linalg.inv: A must be batches of square matrices, but they are 2 by 3 matrices"),
    ("i(3, 2, 2)", "RuntimeError", "linalg.inv: Expected a floating point or complex tensor as input. Got Long"),
];

pub static INV: Row = Row {
    name: "inv",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor A) -> Tensor",
    doc: "The inverses of matrices.

    >>> torch.linalg.inv(torch.tensor([[2., 0.], [0., 4.]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])",
    out: Out::EXACT,
    dtypes: DTypes::DENSE,
    autocast: Autocast::Single,
    run: Run::Compose(|args| inverse(args.tensor(0)?).map(Output::Tensor)),
    derivative: Derivative::Composed,
    samples: &["t(3, 3) + torch.eye(3) * 4", "t(2, 3, 3) + torch.eye(3) * 4", "t(0, 0)"],
    errors: INVERSE_ERRORS,
    reference: "np.linalg.inv(A)",
    ..Row::BASE
};

pub static INVERSE: Row = Row {
    name: "inverse",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self) -> Tensor",
    doc: "The inverses of matrices, as `torch.linalg.inv`.

    >>> torch.inverse(torch.tensor([[2., 0.], [0., 4.]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])",
    out: Out::EXACT,
    dtypes: DTypes::DENSE,
    autocast: Autocast::Single,
    run: Run::Compose(|args| inverse(args.tensor(0)?).map(Output::Tensor)),
    derivative: Derivative::Composed,
    samples: &["t(3, 3) + torch.eye(3) * 4"],
    errors: &[(
        "torch.zeros(3, 3)",
        "RuntimeError",
        "linalg.inv: The diagonal element 1 is zero, the inversion could not be completed because the input matrix is singular.",
    )],
    reference: "np.linalg.inv(self)",
    ..Row::BASE
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
    .map_err(|error| error.hint("torch.linalg.pinv gives the pseudo-inverse, torch.linalg.inv_ex tells instead of raising."))
}

fn check_singular(name: &str, infos: &Tensor) -> Result<()> {
    check_info(name, infos, |_| "The solver failed because the input matrix is singular.".to_owned()).map_err(|error| {
        error.hint(
            "torch.linalg.lstsq solves it with the smallest error, torch.linalg.solve_ex tells instead of raising.",
        )
    })
}

fn solved(args: &Args) -> Result<[Tensor; 2]> {
    results(SOLVE_EX.call([args.tensor(0)?.into(), args.tensor(1)?.into(), args.bool(2)?.into()])?)
}

/// Whether `b` is one vector, or a batch of vectors as the matrices are batched.
pub fn is_vector(a: &Tensor, b: &Tensor) -> bool {
    b.rank() == 1 || (a.rank() == b.rank() + 1 && a.sizes()[..a.rank() - 1] == b.sizes()[..])
}

/// Without the last dimension, whose size is one.
pub fn drop_last(tensor: Tensor) -> Result<Tensor> {
    op!(crate::view::squeeze::SQUEEZE_DIM, &tensor, -1i64)
}

fn check_system(a: &Tensor, b: &Tensor, left: bool) -> Result<()> {
    check_inexact("linalg.solve", a)?;
    check_square("linalg.solve", a)?;
    if a.dtype() != b.dtype() {
        return Err(different_dtypes("linalg.solve", "A", a, "B", b));
    }
    check_kernel("lu_cpu", a)?;
    if b.rank() > 0 && is_vector(a, b) {
        return check_fit("linalg.solve", a, &[*b.sizes().last().unwrap_or(&1), 1], left);
    }
    check_matrix("linalg.solve", "B", b)?;
    check_fit("linalg.solve", a, &matrix_sizes(b), left)
}

pub fn different_dtypes(name: &str, first: &str, a: &Tensor, second: &str, b: &Tensor) -> Error {
    Error::runtime(format!(
        "{name}: Expected {first} and {second} to have the same dtype, but found {first} of type {} and {second} of type {} instead",
        a.dtype().title(),
        b.dtype().title()
    ))
}

/// Refuses right sides of another height than the matrices.
pub fn check_fit(name: &str, a: &Tensor, sides: &[isize; 2], left: bool) -> Result<()> {
    let [rows, cols] = matrix_sizes(a);
    let fits = if left { rows == sides[0] } else { cols == sides[1] };
    if fits {
        return Ok(());
    }
    let equation = if left { "AX = B" } else { "XA = B" };
    Err(Error::runtime(format!(
        "{name}: Incompatible shapes of A and B for the equation {equation} ({rows}x{cols} and {}x{})",
        sides[0], sides[1]
    ))
    .hint("B needs as many rows as A (with left=False: as many columns); a single vector goes in as b.unsqueeze(-1)."))
}

/// The checks of torch's older functions, which take the right sides first.
pub fn check_operands(long: &str, short: &str, b: &Tensor, a: &Tensor) -> Result<()> {
    for (name, tensor) in [("b", b), ("A", a)] {
        if tensor.rank() < 2 {
            return Err(Error::runtime(format!(
                "{long}: Expected {name} to have at least 2 dimensions, but it has {} dimensions instead",
                tensor.rank()
            )));
        }
    }
    check_sizes(short, b, a)
}

/// The part of those checks that sees sizes and dtypes.
pub fn check_sizes(name: &str, b: &Tensor, a: &Tensor) -> Result<()> {
    let ([rows, cols], [height, width]) = (matrix_sizes(a), matrix_sizes(b));
    if a.dtype() != b.dtype() {
        return Err(Error::runtime(format!(
            "Expected b and A to have the same dtype, but found b of type {} and A of type {} instead.",
            b.dtype().title(),
            a.dtype().title()
        )));
    }
    if rows != cols {
        return Err(Error::runtime(format!(
            "A must be batches of square matrices, but they are {rows} by {cols} matrices"
        )));
    }
    if rows != height {
        return Err(Error::runtime(format!(
            "Incompatible matrix sizes for {name}: each A matrix is {rows} by {rows} but each b matrix is {height} by {width}"
        )).hint("b needs as many rows as A has; a single vector b goes in as b.unsqueeze(-1).")
        .shapes([a.sizes().as_slice(), b.sizes().as_slice()]));
    }
    Ok(())
}

/// Both stretched to one batch.
pub fn common_batch(a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor)> {
    if batch_sizes(a) == batch_sizes(b) {
        return Ok((a.clone(), b.clone()));
    }
    let batch = broadcast(batch_sizes(a), batch_sizes(b))?;
    let stretch = |tensor: &Tensor| {
        let mut sizes = batch.clone();
        sizes.extend(matrix_sizes(tensor));
        crate::view::expand::EXPAND.tensor([tensor.into(), sizes_value(&sizes)])
    };
    Ok((stretch(a)?, stretch(b)?))
}

/// Calls `solve_triangular`.
pub fn triangular(a: &Tensor, b: &Tensor, upper: bool, left: bool, unit: bool) -> Result<Tensor> {
    op!(SOLVE_TRIANGULAR, a, b, upper, left, unit)
}

impl Expr {
    /// The solution of a system whose triangle this is.
    pub fn solve_triangular(self, b: Expr, upper: bool, left: bool, unit: bool) -> Expr {
        match (self.done(), b.done()) {
            (Ok(a), Ok(b)) => Expr::new(triangular(&a, &b, upper, left, unit)),
            (Err(error), _) | (_, Err(error)) => Expr::failed(error),
        }
    }
}

fn infer_triangular(args: &Args) -> Result<Vec<Spec>> {
    let (a, b, left) = (args.tensor(0)?, args.tensor(1)?, args.bool(3)?);
    let name = "linalg.solve_triangular";
    check_square(name, a)?;
    check_matrix(name, "B", b)?;
    check_fit(name, a, &matrix_sizes(b), left)?;
    if a.dtype() != b.dtype() {
        return Err(different_dtypes(name, "A", a, "B", b));
    }
    check_kernel("triangular_solve_cpu", a)?;
    let mut sizes = broadcast(batch_sizes(a), batch_sizes(b))?;
    sizes.extend(matrix_sizes(b));
    Ok(vec![by_columns(&sizes, b.dtype(), b)])
}

fn solve_triangle(args: &Args, results: &[Tensor]) -> Result<()> {
    let solution = &results[0];
    crate::copy::copy(solution, args.tensor(1)?)?;
    let a = args.tensor(0)?.detach();
    let sizes = sized(solution, &matrix_sizes(&a));
    let a = if *a.sizes() == sizes {
        steady(&a)?
    } else {
        by_columns_copy(&crate::view::expand::EXPAND.tensor([(&a).into(), sizes_value(&sizes)])?)?
    };
    if solution.numel() == 0 {
        return Ok(());
    }
    let (pa, ps) = (a.storage().pin()?, solution.storage().pin()?);
    let (upper, left, unit) = (args.bool(2)?, args.bool(3)?, args.bool(4)?);
    dense!(a.dtype(), T => {
        let (mut on, mut to) = (matrices::<T>(&a, &pa), matrices::<T>(solution, &ps));
        if !left {
            (on, to) = (on.transposed(), to.transposed());
        }
        // SAFETY: the result is fresh and apart from the triangle; sizes were checked, both storages are pinned.
        unsafe { rushlight_cpu::linalg::solve_triangular(count(solution), on, to, upper == left, unit) }
    })
}

fn triangular_gradients(d: &Derive) -> Result<Vec<Option<Tensor>>> {
    let (upper, left, unit) = (d.flag(2), d.args.optional_bool(3).unwrap_or(true), d.flag(4));
    let sides = || d.input(0).adjoint().solve_triangular(d.grad(), !upper, left, unit);
    let own = d.needs(0).then(|| {
        let product = match left {
            true => sides().matmul(d.result().adjoint()),
            false => d.result().adjoint().matmul(sides()),
        };
        if upper { -product.triu(unit.into()) } else { -product.tril(-i64::from(unit)) }
    });
    let own = own.map(Expr::done).transpose()?;
    Ok(vec![own, d.needs(1).then(sides).map(Expr::done).transpose()?])
}

fn system_gradients(d: &Derive) -> Result<Vec<Option<Tensor>>> {
    let left = d.args.optional_bool(2).unwrap_or(true);
    let (a, x) = (d.input(0).done()?, d.result().done()?);
    let vector = is_vector(&a, &x);
    let adjoint = Expr::from(&a).adjoint().done()?;
    let grad = d.grad().done()?;
    let column = |x: Tensor| if vector { Expr::from(x).along_rows() } else { Expr::from(x) };
    let sides = op!(SOLVE, &adjoint, &column(grad).done()?, left)?;
    let own = d.needs(0).then(|| match left {
        true => -Expr::from(&sides).matmul(column(x).adjoint()),
        false => -column(x).adjoint().matmul(Expr::from(&sides)),
    });
    let own = own.map(Expr::done).transpose()?;
    let sides = if vector { drop_last(sides)? } else { sides };
    Ok(vec![own, Some(sides)])
}

/// The dtype of what counts rows and pivots.
pub const PIVOTS: DType = DType::I32;
