//! Symmetric matrices as `L D L^T`.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Device, Error, Result};
use rushlight_dispatch::operator::{
    Args, BatchRule, DTypes, Derivative, ErrorInput, Implementation, Kernel, OnCuda, Operator, Out, TensorSpec,
    Variants, operator,
};
use rushlight_dispatch::value::{Output, sizes_value};
use rushlight_dispatch::{copy, create, operands, vmap};

use super::dense::{
    PIVOTS, batch_sizes, by_columns, by_columns_copy, check_inexact, check_info, check_kernel, check_sizes,
    check_square, common_batch, count, dense, matrices, matrix_sizes, per_matrix, results,
};

#[operator]
pub static LDL_FACTOR_EX: Operator = Operator {
    name: "ldl_factor_ex",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, *, bool hermitian=False, bool check_errors=False) -> (Tensor LD, Tensor pivots, Tensor info)",
    doc: "Symmetric (or Hermitian) matrices as `L @ D @ L.mT`, both in one matrix, with LAPACK's pivots.

    >>> torch.linalg.ldl_factor_ex(torch.tensor([[2., 1.], [1., 3.]])).LD
    tensor([[2.0000, 0.0000],
            [0.5000, 2.5000]])",
    out: Out::EXACT,
    dtypes: DTypes::DENSE,
    batch_rule: BatchRule::LeadingDims,
    implementation: Implementation::Kernel(Kernel { infer, cpu: factorise, cuda: OnCuda::Host }),
    derivative: Derivative::NotImplemented("aten::linalg_ldl_factor_ex"),
    samples: &["t(3, 3)", "t(2, 4, 4), hermitian=True", "t(0, 0)"],
    errors: ERRORS,
    ..Operator::BASE
};

const ERRORS: &[ErrorInput] = &[
    ("t(3)", "RuntimeError", "torch.linalg.ldl_factor_ex: The input tensor A must have at least 2 dimensions."),
    (
        "t(2, 3)",
        "RuntimeError",
        "torch.linalg.ldl_factor_ex: A must be batches of square matrices, but they are 2 by 3 matrices",
    ),
];

#[operator]
pub static LDL_FACTOR: Operator = Operator {
    name: "ldl_factor",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)",
    doc: "Symmetric (or Hermitian) matrices as `L @ D @ L.mT`, for `torch.linalg.ldl_solve`.

    >>> torch.linalg.ldl_factor(torch.tensor([[2., 1.], [1., 3.]])).pivots
    tensor([1, 2], dtype=torch.int32)",
    out: Out::EXACT,
    dtypes: DTypes::DENSE,
    implementation: Implementation::CompositeImplicit(|args| {
        let [ld, pivots, infos] =
            results(LDL_FACTOR_EX.call([args.tensor(INPUT)?.into(), args.bool(HERMITIAN)?.into()])?)?;
        check_blocks("torch.linalg.ldl_factor", &infos)?;
        Ok(Output::Tuple(vec![ld, pivots]))
    }),
    derivative: Derivative::NotImplemented("aten::linalg_ldl_factor_ex"),
    samples: &["t(3, 3)", "t(2, 4, 4), hermitian=True", "t(0, 0)"],
    errors: ERRORS,
    ..Operator::BASE
};

#[operator]
pub static LDL_SOLVE: Operator = Operator {
    name: "ldl_solve",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor",
    doc: "The solution `X` of `A @ X = B`, given the result of `torch.linalg.ldl_factor` for `A`.

    >>> factors = torch.linalg.ldl_factor(torch.tensor([[2., 1.], [1., 3.]]))
    >>> torch.linalg.ldl_solve(*factors, torch.tensor([[3.], [4.]]))
    tensor([[1.],
            [1.]])",
    out: Out::EXACT,
    dtypes: DTypes::DENSE,
    batch_rule: BatchRule::LeadingDims,
    implementation: Implementation::Kernel(Kernel { infer: infer_solve, cpu: solve, cuda: OnCuda::Host }),
    derivative: Derivative::NotImplemented("aten::linalg_ldl_solve"),
    samples: &["t(2, 2) + torch.eye(2) * 4, torch.tensor([1, 2], dtype=torch.int32), t(2, 1)"],
    errors: &[(
        "t(3, 3), torch.ones(3), t(3, 1)",
        "RuntimeError",
        "torch.linalg.ldl_solve: Expected pivots to be integers. Got Float",
    )],
    ..Operator::BASE
};

fn infer(args: &Args) -> Result<Vec<TensorSpec>> {
    let a = args.tensor(LDL_FACTOR_EX::INPUT)?;
    check_square("torch.linalg.ldl_factor_ex", a)?;
    check_inexact("torch.linalg.ldl_factor_ex", a)?;
    check_kernel("ldl_factor_kernel_cpu", a)?;
    Ok(vec![
        by_columns(a.sizes(), a.dtype(), a),
        TensorSpec::new(&a.sizes()[..a.rank() - 1], PIVOTS, a),
        TensorSpec::new(batch_sizes(a), DType::I32, a),
    ])
}

fn factorise(args: &Args, results: &[Tensor]) -> Result<()> {
    use LDL_FACTOR_EX::*;

    let (ld, pivots, infos) = (&results[0], &results[1], &results[2]);
    copy::copy(ld, args.tensor(INPUT)?)?;
    create::fill(infos, rushlight_core::Scalar::ZERO)?;
    let (pl, pp, pi) = (ld.storage().pin()?, pivots.storage().pin()?, infos.storage().pin()?);
    let (n, hermitian) = (matrix_sizes(ld)[0] as usize, args.bool(HERMITIAN)? && ld.dtype().is_complex());
    dense!(ld.dtype(), T => {
        let (steps, infos) = (per_matrix(pivots, &pp, n), per_matrix(infos, &pi, 1));
        // SAFETY: results are new and of the sizes from `infer`; all storages are pinned.
        unsafe { rushlight_cpu::linalg::ldl(count(ld), matrices::<T>(ld, &pl), steps, infos, hermitian) }
    })?;
    if args.bool(CHECK_ERRORS)? { check_blocks("torch.linalg.ldl_factor_ex", infos) } else { Ok(()) }
}

fn check_blocks(name: &str, infos: &Tensor) -> Result<()> {
    match check_info(name, infos, |info| {
        format!("The diagonal block {info} of D is zero, and dividing by it would not solve a system.")
    }) {
        // Here torch raises a plain RuntimeError.
        Err(error) => Err(Error::runtime(error.sentence())),
        done => done,
    }
}

fn infer_solve(args: &Args) -> Result<Vec<TensorSpec>> {
    use LDL_SOLVE::*;

    let (ld, pivots, b) = (args.tensor(LD)?, args.tensor(PIVOTS)?, args.tensor(B)?);
    let name = "torch.linalg.ldl_solve";
    check_square(name, ld)?;
    check_inexact(name, ld)?;
    super::matrix::size_of(b, -2)?;
    if pivots.sizes()[..] != ld.sizes()[..ld.rank() - 1] {
        return Err(Error::runtime(format!(
            "{name}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape {} instead",
            rushlight_core::layout::Shape(pivots.sizes())
        )));
    }
    if !pivots.dtype().is_integral() {
        return Err(Error::runtime(format!(
            "{name}: Expected pivots to be integers. Got {}",
            pivots.dtype().display_name()
        )));
    }
    check_sizes(name, b, ld)?;
    check_kernel("ldl_solve_kernel_cpu", ld)?;
    let n = matrix_sizes(ld)[0];
    if pivots.device() == Device::Cpu {
        let list = crate::convert::to_vec::<i64>(&vmap::samples(pivots)?)?;
        if list.iter().any(|&pivot| pivot == 0 || pivot.unsigned_abs() > n as u64) {
            return Err(Error::runtime(format!(
                "{name}: Expected pivots to be between 1 and {n}, or between -{n} and -1"
            )));
        }
    }
    let mut sizes = rushlight_core::broadcast::broadcast(batch_sizes(ld), batch_sizes(b))?;
    sizes.extend(matrix_sizes(b));
    Ok(vec![by_columns(&sizes, b.dtype(), b)])
}

fn solve(args: &Args, results: &[Tensor]) -> Result<()> {
    let solution = &results[0];
    copy::copy(solution, args.tensor(LDL_SOLVE::B)?)?;
    if solution.numel() == 0 {
        return Ok(());
    }
    let (ld, _) = common_batch(&args.tensor(LDL_SOLVE::LD)?.detach(), solution)?;
    let ld = by_columns_copy(&ld)?;
    let steps = &ld.sizes()[..ld.rank() - 1];
    let stretched = crate::view::expand::EXPAND.tensor([args.tensor(LDL_SOLVE::PIVOTS)?.into(), sizes_value(steps)])?;
    let pivots = operands::plain(&stretched, PIVOTS)?;
    let (pl, pp, ps) = (ld.storage().pin()?, pivots.storage().pin()?, solution.storage().pin()?);
    let (n, hermitian) = (matrix_sizes(&ld)[0] as usize, args.bool(LDL_SOLVE::HERMITIAN)? && ld.dtype().is_complex());
    dense!(ld.dtype(), T => {
        let (on, steps) = (matrices::<T>(&ld, &pl), per_matrix(&pivots, &pp, n));
        // SAFETY: the copies and the result are new, sizes and pivots were checked.
        unsafe { rushlight_cpu::linalg::ldl_solve(count(solution), on, steps, matrices(solution, &ps), hermitian) }
    })
}
