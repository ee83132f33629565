//! LU factors with row exchanges, and solutions computed from them.

use rushlight_autograd::Tensor;
use rushlight_core::alloc::collected;
use rushlight_core::{DType, Device, Dims, Error, Result};
use rushlight_dispatch::call::on_host;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operands::plain;
use rushlight_dispatch::operator::{
    Args, Autocast, BackwardContext, BatchRule, DTypes, Derivative, ErrorInput, Implementation, Kernel, OnCuda,
    Operator, Out, Saves, TensorSpec, Variants, formula, operator,
};
use rushlight_dispatch::value::{Output, sizes_value};
use rushlight_dispatch::{copy, create, op, vmap, warn_once};

use super::dense::{
    PIVOTS, batch_sizes, by_columns, check_filled, check_fit, check_inexact, check_info, check_kernel, check_matrix,
    check_square_as, common_batch, count, dense, different_dtypes, identities, matrices, matrix_sizes, per_matrix,
    results, sized,
};
use super::factors_on_cuda;
use super::triangular::triangular;
use crate::expr_ext::ExprExt;

#[operator]
pub static LU_FACTOR_EX: Operator = Operator {
    name: "lu_factor_ex",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, Tensor info)",
    doc:
        "LU factors in one matrix each, the row that was exchanged in each step, and the position of the first zero pivot.

    >>> torch.linalg.lu_factor_ex(torch.tensor([[0., 1.], [2., 4.]])).pivots
    tensor([2, 2], dtype=torch.int32)",
    out: Out::EXACT,
    dtypes: DTypes::DENSE,
    batch_rule: BatchRule::LeadingDims,
    implementation: Implementation::Kernel(Kernel {
        infer,
        cpu: factorise,
        cuda: OnCuda::Own(factorise_on_cuda),
    }),
    derivative: Derivative::Formulas(&[formula(A, Saves::result(0).union(Saves::result(1)), |d| {
        let [m, n] = [d.sizes(A)[d.rank(A) - 2], d.sizes(A)[d.rank(A) - 1]];
        let k = m.min(n);
        Expr::new(gradient(d, d.grad().part(-1, 0, k).tril(-1), d.grad().part(-2, 0, k).triu(0)))
    })]),
    samples: &[
        "t(3, 3) + torch.eye(3) * 9",
        "t(2, 4, 3) + torch.eye(4, 3) * 9",
        "t(3, 5) + torch.eye(3, 5) * 9",
        "t(0, 3)",
    ],
    errors: FACTOR_ERRORS,
    ..Operator::BASE
};

const FACTOR_ERRORS: &[ErrorInput] = &[
    ("t(3)", "RuntimeError", "torch.lu_factor: Expected tensor with 2 or more dimensions. Got size: [3] instead"),
    ("t(3, 3), pivot=False", "RuntimeError", "linalg.lu_factor: LU without pivoting is not implemented on the CPU"),
];

#[operator]
pub static LU_FACTOR: Operator = Operator {
    name: "lu_factor",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)",
    doc: "LU factors in one matrix each, and the row that was exchanged in each step, for `torch.linalg.lu_solve`.

    >>> torch.linalg.lu_factor(torch.tensor([[0., 1.], [2., 4.]])).LU
    tensor([[2., 4.],
            [0., 1.]])",
    out: Out::EXACT,
    dtypes: DTypes::DENSE,
    implementation: Implementation::CompositeImplicit(|args| {
        let [lu, pivots, infos] = results(LU_FACTOR_EX.call([args.tensor(A)?.into(), args.bool(PIVOT)?.into()])?)?;
        check_pivots("torch.linalg.lu_factor", &infos)?;
        Ok(Output::Tuple(vec![lu, pivots]))
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3, 3) + torch.eye(3) * 9", "t(2, 4, 3) + torch.eye(4, 3) * 9", "t(0, 3)"],
    errors: FACTOR_ERRORS,
    ..Operator::BASE
};

#[operator]
pub static LU: Operator = Operator {
    name: "lu",
    node: "LinalgLuBackward0",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)",
    doc: "Matrices as `P @ L @ U`: a permutation, a lower triangle with ones on its diagonal, an upper one.

    >>> torch.linalg.lu(torch.tensor([[0., 1.], [2., 4.]])).U
    tensor([[2., 4.],
            [0., 1.]])",
    out: Out::EXACT,
    dtypes: DTypes::DENSE,
    implementation: Implementation::CompositeImplicit(|args| {
        let a = args.tensor(A)?;
        check_rank("linalg.lu", a)?;
        let [lu, pivots, _] = results(LU_FACTOR_EX.call([a.into(), args.bool(PIVOT)?.into()])?)?;
        unpack(&lu, &pivots, true, args.bool(PIVOT)?).map(Output::Tuple)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &[
        "t(3, 3) + torch.eye(3) * 9",
        "t(2, 4, 3) + torch.eye(4, 3) * 9",
        "t(3, 5) + torch.eye(3, 5) * 9",
        "t(0, 3)",
    ],
    errors: &[("t(3)", "RuntimeError", "linalg.lu: Expected tensor with 2 or more dimensions. Got size: [3] instead")],
    ..Operator::BASE
};

#[operator]
pub static LU_UNPACK: Operator = Operator {
    name: "lu_unpack",
    node: "LuUnpackBackward0",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> (Tensor P, Tensor L, Tensor U)",
    doc: "The three factors in the packed result of `torch.linalg.lu_factor`.

    >>> torch.lu_unpack(*torch.linalg.lu_factor(torch.tensor([[0., 1.], [2., 4.]]))).P
    tensor([[0., 1.],
            [1., 0.]])",
    out: Out::EXACT,
    dtypes: DTypes::DENSE,
    implementation: Implementation::CompositeImplicit(|args| {
        let (lu, pivots) = (args.tensor(LU_DATA)?, args.tensor(LU_PIVOTS)?);
        if lu.rank() < 2 {
            return Err(Error::runtime(format!(
                "torch.lu_unpack: Expected tensor with 2 or more dimensions. Got size: {} instead",
                rushlight_core::layout::Shape(lu.sizes())
            )));
        }
        if args.bool(UNPACK_PIVOTS)? && pivots.dtype() != DType::I32 {
            return Err(Error::runtime(
                "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\nNote: this function is intended to be used with the output produced by torch.linalg.lu_factor",
            ));
        }
        unpack(lu, pivots, args.bool(UNPACK_DATA)?, args.bool(UNPACK_PIVOTS)?).map(Output::Tuple)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &[
        "t(3, 3), torch.tensor([2, 3, 3], dtype=torch.int32)",
        "t(2, 3), torch.tensor([1, 2], dtype=torch.int32)",
    ],
    errors: &[(
        "t(3, 3), torch.tensor([7, 1, 1], dtype=torch.int32)",
        "RuntimeError",
        "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive.Did you properly pass the result of lu_factor?",
    )],
    ..Operator::BASE
};

#[operator]
pub static LU_SOLVE: Operator = Operator {
    name: "lu_solve",
    node: "LinalgLuSolveBackward0",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor",
    doc: "The solution of a system from its LU factors: of `A @ X = B`, of `X @ A = B` if `left` is false, with `A.mH` if `adjoint` is true.

    >>> lu, pivots = torch.linalg.lu_factor(torch.tensor([[0., 1.], [2., 4.]]))
    >>> torch.linalg.lu_solve(lu, pivots, torch.tensor([[1.], [6.]]))
    tensor([[1.],
            [1.]])",
    out: Out::EXACT,
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::CompositeImplicit(|args| {
        let (lu, pivots, b) = (args.tensor(LU)?, args.tensor(PIVOTS)?, args.tensor(B)?);
        check_factored(lu, pivots, b, args.bool(LEFT)?)?;
        solve_factored(lu, pivots, b, args.bool(LEFT)?, args.bool(ADJOINT)?).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &[
        "t(3, 3) + torch.eye(3) * 4, torch.tensor([2, 3, 3], dtype=torch.int32), t(3, 2)",
        "t(2, 2) + torch.eye(2) * 4, torch.tensor([2, 2], dtype=torch.int32), t(3, 1, 2), left=False, adjoint=True",
    ],
    errors: SOLVE_ERRORS,
    ..Operator::BASE
};

const SOLVE_ERRORS: &[ErrorInput] = &[(
    "t(3, 3), torch.ones(2, dtype=torch.int32), t(3, 1)",
    "RuntimeError",
    "linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix",
)];

#[operator]
pub static LU_SOLVE_OLD: Operator = Operator {
    name: "lu_solve",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor",
    doc: "The solution `X` of `A @ X = self` from the LU factors of `A`; `torch.linalg.lu_solve` is the newer form.

    >>> torch.lu_solve(torch.tensor([[1.], [6.]]), *torch.linalg.lu_factor(torch.tensor([[0., 1.], [2., 4.]])))
    tensor([[1.],
            [1.]])",
    out: Out::EXACT,
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::CompositeImplicit(|args| {
        warn_once!(
            "torch.lu_solve is deprecated in favor of torch.linalg.lu_solveand will be removed in a future PyTorch release.\nNote that torch.linalg.lu_solve has its arguments reversed.\nX = torch.lu_solve(B, LU, pivots)\nshould be replaced with\nX = torch.linalg.lu_solve(LU, pivots, B)"
        )?;
        let (b, lu, pivots) = (args.tensor(INPUT)?, args.tensor(LU_DATA)?, args.tensor(LU_PIVOTS)?);
        check_factored(lu, pivots, b, true)?;
        solve_factored(lu, pivots, b, true, false).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3, 2), t(3, 3) + torch.eye(3) * 4, torch.tensor([2, 3, 3], dtype=torch.int32)"],
    ..Operator::BASE
};

/// The original row of each row of `L @ U`.
#[operator]
pub static ORDER: Operator = Operator {
    name: "_pivots_to_permutation",
    variants: Variants::FUNCTION,
    signature: "(Tensor pivots, int size, bool inverse=False) -> Tensor",
    doc: "The permutation of an LU factorisation: row `i` of `L @ U` is this row of the matrix.

    >>> torch._pivots_to_permutation(torch.tensor([2, 2], dtype=torch.int32), 2)
    tensor([1, 0])",
    dtypes: DTypes::of(&[DType::I32]),
    batch_rule: BatchRule::LeadingDims,
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let pivots = args.tensor(PIVOTS)?;
            let Some((_, batch)) = pivots.sizes().split_last() else {
                return Err(Error::runtime("torch.lu_unpack: Expected LU_pivots to have at least one dimension"));
            };
            let size = args.int(SIZE)?;
            if size < 0 {
                return Err(Error::runtime(format!("a permutation of {size} rows does not exist")));
            }
            let mut sizes = Dims::from_slice(batch);
            sizes.push(size as isize);
            Ok(vec![TensorSpec::new(&sizes, DType::I64, pivots)])
        },
        cpu: order,
        cuda: OnCuda::Own(order_on_cuda),
    }),
    derivative: Derivative::NonDifferentiable("its result is a permutation of rows"),
    samples: &["torch.tensor([[2, 3, 3], [1, 2, 3]], dtype=torch.int32), 4"],
    ..Operator::BASE
};

fn order(args: &Args, results: &[Tensor]) -> Result<()> {
    use ORDER::*;

    let pivots = crate::convert::to_vec::<i32>(args.tensor(PIVOTS)?)?;
    let (size, inverse) = (args.int(SIZE)? as usize, args.bool(INVERSE)?);
    let steps = args.tensor(PIVOTS)?.sizes().last().map_or(0, |&n| n as usize);
    let pin = results[0].storage().pin()?;
    for matrix in 0..results[0].numel().checked_div(size).unwrap_or(0) {
        // SAFETY: the result is new and holds `size` numbers for each matrix.
        let rows = unsafe { std::slice::from_raw_parts_mut(pin.as_ptr().cast::<i64>().add(matrix * size), size) };
        let mut order = collected((0..size).map(|row| row as i64))?;
        for (step, &pivot) in pivots[matrix * steps..][..steps].iter().enumerate() {
            let row = pivot as usize;
            if pivot < 1 || row > size || step >= size {
                return Err(wrong_pivots());
            }
            order.swap(step, row - 1);
        }
        for (place, &row) in order.iter().enumerate() {
            if inverse {
                rows[row as usize] = place as i64;
            } else {
                rows[place] = row;
            }
        }
    }
    Ok(())
}

fn order_on_cuda(args: &Args, results: &[Tensor]) -> Result<()> {
    let pivots = plain(args.tensor(ORDER::PIVOTS)?, DType::I32)?;
    match factors_on_cuda::orders(&pivots, &results[0], args.bool(ORDER::INVERSE)?)? {
        true => Ok(()),
        false => Err(wrong_pivots()),
    }
}

#[cold]
fn wrong_pivots() -> Error {
    Error::runtime(
        "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive.Did you properly pass the result of lu_factor?",
    )
}

/// The rows of matrices in the order of the factors, or back in the order of the matrix.
fn reordered(matrix: &Tensor, pivots: &Tensor, back: bool) -> Result<Tensor> {
    let order = op!(ORDER, pivots, matrix_sizes(matrix)[0] as i64, back)?;
    let order = Expr::from(order).along_rows().done()?;
    let order = crate::view::expand::EXPAND.tensor([(&order).into(), sizes_value(matrix.sizes())])?;
    op!(crate::index::gather::GATHER, matrix, -2i64, &order)
}

fn check_rank(name: &str, a: &Tensor) -> Result<()> {
    if a.rank() >= 2 {
        return Ok(());
    }
    let sizes = rushlight_core::layout::Shape(a.sizes());
    Err(Error::runtime(format!("{name}: Expected tensor with 2 or more dimensions. Got size: {sizes} instead")))
}

fn check_pivots(name: &str, infos: &Tensor) -> Result<()> {
    match check_info(name, infos, |info| {
        format!(
            "U[{info},{info}] is zero and using it on lu_solve would result in a division by zero. If you still want to perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
        )
    }) {
        // Here torch raises a plain RuntimeError.
        Err(error) => Err(Error::runtime(error.sentence())),
        done => done,
    }
}

fn check_factored(lu: &Tensor, pivots: &Tensor, b: &Tensor, left: bool) -> Result<()> {
    let name = "linalg.lu_solve";
    check_inexact("torch.linalg.lu_solve", lu)?;
    if lu.dtype() != b.dtype() {
        return Err(different_dtypes(name, "LU", lu, "B", b));
    }
    if pivots.dtype() != PIVOTS {
        return Err(Error::runtime(format!("{name}: pivots should be a Tensor of scalar type torch.int32")));
    }
    check_square_as(name, "LU", lu)?;
    check_matrix(name, "B", b)?;
    check_fit(name, lu, &matrix_sizes(b), left)?;
    check_kernel("linalg.lu_solve_cpu", lu)?;
    let n = matrix_sizes(lu)[1];
    if pivots.sizes().last() != Some(&n) {
        return Err(Error::runtime(format!(
            "{name}: Number of pivots per batch should be same as the dimension of the matrix"
        )));
    }
    if batch_sizes(lu) != &pivots.sizes()[..pivots.rank() - 1] {
        return Err(Error::runtime(format!(
            "{name}: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with shape {} instead",
            rushlight_core::layout::Shape(pivots.sizes())
        )));
    }
    if pivots.device() == Device::Cpu {
        let list = crate::convert::to_vec::<i32>(&vmap::samples(pivots)?)?;
        if list.iter().any(|&pivot| i64::from(pivot) > n as i64) {
            return Err(Error::runtime(
                "Pivots given to lu_solve must all be smaller or equal to LU.size(-2). Did you properly pass the result of lu_factor?",
            ));
        }
        if list.iter().any(|&pivot| pivot < 1) {
            return Err(Error::runtime(
                "Pivots given to lu_solve must all be greater or equal to 1. Did you properly pass the result of lu_factor?",
            ));
        }
    }
    Ok(())
}

/// The solution from the factors of a matrix: through its triangles, with the rows in their order.
pub fn solve_factored(lu: &Tensor, pivots: &Tensor, b: &Tensor, left: bool, adjoint: bool) -> Result<Tensor> {
    if !left {
        let turned = Expr::from(b).adjoint().done()?;
        return Expr::from(solve_factored(lu, pivots, &turned, true, !adjoint)?).adjoint().done();
    }
    let (lu, b) = common_batch(lu, b)?;
    let pivots = crate::view::expand::EXPAND
        .tensor([pivots.into(), sizes_value(&sized(&b, &[*pivots.sizes().last().unwrap_or(&0)]))])?;
    if adjoint {
        let turned = Expr::from(&lu).adjoint().done()?;
        let first = triangular(&turned, &b, false, true, false)?;
        return reordered(&triangular(&turned, &first, true, true, true)?, &pivots, true);
    }
    let first = triangular(&lu, &reordered(&b, &pivots, false)?, false, true, true)?;
    triangular(&lu, &first, true, true, false)
}

/// `P`, `L` and `U`; empty tensors for those that are not requested.
fn unpack(lu: &Tensor, pivots: &Tensor, data: bool, order: bool) -> Result<Vec<Tensor>> {
    let [m, n] = matrix_sizes(lu);
    let k = m.min(n);
    let nothing = || create::zeros(&[0], lu.dtype(), lu.device());
    let permutation = if order { reordered(&identities(lu, m, m)?, pivots, true)? } else { nothing()? };
    if !data {
        return Ok(vec![permutation, nothing()?, nothing()?]);
    }
    let lower = (Expr::from(lu).part(-1, 0, k).tril(-1) + identities(lu, m, k)?).done()?;
    Ok(vec![permutation, lower, Expr::from(lu).part(-2, 0, k).triu(0).done()?])
}

fn infer(args: &Args) -> Result<Vec<TensorSpec>> {
    use LU_FACTOR_EX::*;

    let a = args.tensor(A)?;
    check_rank("torch.lu_factor", a)?;
    if !args.bool(PIVOT)? && a.numel() > 0 {
        return Err(Error::runtime("linalg.lu_factor: LU without pivoting is not implemented on the CPU")
            .hint("Use pivot=True."));
    }
    check_filled("lu_cpu", a)?;
    let [m, n] = matrix_sizes(a);
    Ok(vec![
        by_columns(a.sizes(), a.dtype(), a),
        TensorSpec::new(&sized(a, &[m.min(n)]), PIVOTS, a),
        TensorSpec::new(batch_sizes(a), DType::I32, a),
    ])
}

fn factorise(args: &Args, results: &[Tensor]) -> Result<()> {
    use LU_FACTOR_EX::*;

    let (lu, pivots, infos) = (&results[0], &results[1], &results[2]);
    copy::copy(lu, args.tensor(A)?)?;
    create::fill(infos, rushlight_core::Scalar::ZERO)?;
    if lu.numel() == 0 {
        return Ok(());
    }
    let (pl, pp, pi) = (lu.storage().pin()?, pivots.storage().pin()?, infos.storage().pin()?);
    let [m, n] = matrix_sizes(lu);
    dense!(lu.dtype(), T => {
        let (steps, infos) = (per_matrix(pivots, &pp, m.min(n) as usize), per_matrix(infos, &pi, 1));
        // SAFETY: results are new and of the sizes from `infer`; all storages are pinned.
        unsafe { rushlight_cpu::linalg::lu(count(lu), matrices::<T>(lu, &pl), steps, infos) }
    })?;
    if args.bool(CHECK_ERRORS)? { check_pivots("torch.linalg.lu_factor_ex", infos) } else { Ok(()) }
}

fn factorise_on_cuda(args: &Args, results: &[Tensor]) -> Result<()> {
    use LU_FACTOR_EX::*;

    let (lu, pivots, infos) = (&results[0], &results[1], &results[2]);
    copy::copy(lu, args.tensor(A)?)?;
    create::fill(infos, rushlight_core::Scalar::ZERO)?;
    if !factors_on_cuda::lu(lu, pivots, infos)? {
        return on_host::fill(factorise, args, results);
    }
    if args.bool(CHECK_ERRORS)? { check_pivots("torch.linalg.lu_factor_ex", infos) } else { Ok(()) }
}

/// Each triangle takes its part of the remainder of the other; the square block first, then the part beside or below
/// it.
fn gradient(d: &BackwardContext, lower_grad: Expr, upper_grad: Expr) -> Result<Tensor> {
    let lu = d.result_of(0).done()?;
    let pivots = d.result_of(1).done()?;
    let [m, n] = matrix_sizes(&lu);
    let k = m.min(n);
    let lower = (Expr::from(&lu).part(-1, 0, k).tril(-1) + identities(&lu, m, k)?).done()?;
    let upper = Expr::from(&lu).part(-2, 0, k).triu(0).done()?;
    let (top, left) = (|| Expr::from(&lower).part(-2, 0, k), || Expr::from(&upper).part(-1, 0, k));
    let (beside, below) = (|x: Expr| x.part(-1, k, n - k), |x: Expr| x.part(-2, k, m - k));
    let mut strict = top().adjoint().matmul(lower_grad.clone().part(-2, 0, k));
    let mut rest = upper_grad.clone().part(-1, 0, k).matmul(left().adjoint());
    if n > k {
        strict = strict - beside(upper_grad.clone()).matmul(beside(Expr::from(&upper)).adjoint());
    }
    if m > k {
        rest = rest - below(Expr::from(&lower)).adjoint().matmul(below(lower_grad.clone()));
    }
    let middle = strict.tril(-1) + rest.triu(0);
    let solved = left().adjoint().solve_triangular(middle, false, false, false);
    let mut whole = top().adjoint().solve_triangular(solved, true, true, true).done()?;
    if n > k {
        let other = top().adjoint().solve_triangular(beside(upper_grad), true, true, true).done()?;
        whole = crate::join::cat::CAT.tensor([vec![whole, other].into(), (-1i64).into()])?;
    } else if m > k {
        let other = left().adjoint().solve_triangular(below(lower_grad), false, false, false).done()?;
        whole = crate::join::cat::CAT.tensor([vec![whole, other].into(), (-2i64).into()])?;
    }
    reordered(&whole, &pivots, true)
}
