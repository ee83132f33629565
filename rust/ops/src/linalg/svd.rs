//! Singular values.

use rushlight_autograd::Tensor;
use rushlight_core::{Class, Error, Result};
use rushlight_dispatch::allocate::allocate;
use rushlight_dispatch::call::on_host;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Args, Autocast, BackwardContext, BatchRule, DTypes, Derivative, Implementation, Kernel, OnCuda, Operator, Out,
    Saves, TensorSpec, Variants, formula, operator,
};
use rushlight_dispatch::value::Output;
use rushlight_dispatch::{copy, create, op};

use super::dense::{
    batch_sizes, by_columns, by_columns_copy, check_inexact, check_kernel, check_matrix, count, dense, is_tracked,
    matrices, matrix_sizes, per_matrix, results, sized, steady,
};
use super::factors_on_cuda;
use super::invariance::check_phase;
use crate::expr_ext::ExprExt;
use crate::view::transpose::TRANSPOSE;

#[operator]
pub static SVD_KERNEL: Operator = Operator {
    name: "_linalg_svd",
    variants: Variants::FUNCTION,
    signature: "(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
    doc: "The singular value decomposition behind all others; without vectors if `compute_uv` is false.

    >>> torch._linalg_svd(torch.eye(2))[1]
    tensor([1., 1.])",
    dtypes: DTypes::DENSE,
    batch_rule: BatchRule::LeadingDims,
    implementation: Implementation::Kernel(Kernel { infer, cpu: decompose, cuda: OnCuda::Own(decompose_on_cuda) }),
    derivative: Derivative::Formulas(&[formula(
        A,
        Saves::result(0).union(Saves::result(1)).union(Saves::result(2)),
        gradient,
    )]),
    samples: &["real(3, 2)", "real(2, 2, 4)", "real(3, 3)"],
    ..Operator::BASE
};

#[operator]
pub static SVD: Operator = Operator {
    name: "svd",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
    doc: "The singular value decomposition `A = U @ diag(S) @ Vh`, with `S` descending.

`full_matrices=False` omits the columns of `U` and rows of `Vh` without a singular value.

    >>> torch.linalg.svd(torch.tensor([[3., 0.], [0., 4.]])).S
    tensor([4., 3.])",
    out: Out::EXACT,
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::CompositeImplicit(|args| {
        SVD_KERNEL.call([
            args.tensor(A)?.into(),
            args.bool(FULL_MATRICES)?.into(),
            true.into(),
            args.optional_str(DRIVER).into(),
        ])
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["real(3, 2), False", "real(2, 2, 3), False", "t(0, 2, 3)"],
    errors: &[
        ("t(3)", "RuntimeError", "linalg.svd: The input tensor A must have at least 2 dimensions."),
        ("i(3, 2, 2)", "RuntimeError", "linalg.svd: Expected a floating point or complex tensor as input. Got Long"),
        (
            "t(2, 2), driver='gesvd'",
            "RuntimeError",
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend.",
        ),
        (
            "torch.full((2, 2), nan)",
            "RuntimeError",
            "linalg.svd: The algorithm failed to converge because the input matrix contained non-finite values.",
        ),
    ],
    ..Operator::BASE
};

#[operator]
pub static SVDVALS: Operator = Operator {
    name: "svdvals",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor A, *, str? driver=None) -> Tensor",
    doc: "The singular values of matrices, descending.

    >>> torch.linalg.svdvals(torch.tensor([[3., 0.], [0., 4.]]))
    tensor([4., 3.])",
    out: Out::EXACT.known_as_real_first(),
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::CompositeImplicit(|args| {
        singular_values(args.tensor(A)?, args.optional_str(DRIVER)).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3, 2)", "t(2, 3)", "t(2, 3, 3)", "t(0, 3)"],
    errors: &[("t(3)", "RuntimeError", "linalg.svd: The input tensor A must have at least 2 dimensions.")],
    reference: "np.linalg.svd(A, compute_uv=False) if A.size else None",
    ..Operator::BASE
};

#[operator]
pub static SVD_OLD: Operator = Operator {
    name: "svd",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)",
    doc: "The singular value decomposition `self = U @ diag(S) @ V.mH`; `torch.linalg.svd` is the newer form.

    >>> torch.svd(torch.tensor([[3., 0.], [0., 4.]])).S
    tensor([4., 3.])",
    out: Out::EXACT,
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::CompositeImplicit(|args| {
        let input = args.tensor(INPUT)?;
        if input.rank() < 2 {
            return Err(Error::runtime(format!(
                "linalg.svd: input should have at least 2 dimensions, but has {} dimensions instead",
                args.tensor(INPUT)?.rank()
            )));
        }
        let (some, vectors) = (args.bool(SOME)?, args.bool(COMPUTE_UV)?);
        if vectors {
            let [u, s, vh] = results(SVD_KERNEL.call([input.into(), (!some).into()])?)?;
            return Ok(Output::Tuple(vec![u, s, Expr::from(vh).adjoint().done()?]));
        }
        let [m, n] = matrix_sizes(input);
        let s = singular_values(input, None)?;
        let zeros = |size| create::zeros(&sized(input, &[size, size]), input.dtype(), input.device());
        // torch's V is the transposed Vh.
        let v = op!(TRANSPOSE, &zeros(n)?, -2i64, -1i64)?;
        Ok(Output::Tuple(vec![zeros(m)?, s, v]))
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3, 2), True, False"],
    ..Operator::BASE
};

/// The singular values, computed with the vectors if a gradient may be needed.
pub fn singular_values(a: &Tensor, driver: Option<&str>) -> Result<Tensor> {
    let vectors = is_tracked(a);
    let [_, s, _] = results(SVD_KERNEL.call([a.into(), false.into(), vectors.into(), driver.into()])?)?;
    Ok(s)
}

fn infer(args: &Args) -> Result<Vec<TensorSpec>> {
    use SVD_KERNEL::*;

    let a = args.tensor(A)?;
    check_matrix("linalg.svd", "A", a)?;
    check_inexact("linalg.svd", a)?;
    if args.optional_str(DRIVER).is_some() {
        return Err(Error::runtime(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend.",
        ));
    }
    check_kernel("linalg_svd_cpu", a)?;
    let [m, n] = matrix_sizes(a);
    let k = m.min(n);
    let full = args.bool(FULL_MATRICES)?;
    let vectors = |sizes: [isize; 2]| {
        if args.optional_bool(COMPUTE_UV) == Some(false) {
            TensorSpec::new(&[0], a.dtype(), a)
        } else {
            by_columns(&sized(a, &sizes), a.dtype(), a)
        }
    };
    Ok(vec![
        vectors([m, if full { m } else { k }]),
        TensorSpec::new(&sized(a, &[k]), a.dtype().to_real(), a),
        vectors([if full { n } else { k }, n]),
    ])
}

fn decompose(args: &Args, results: &[Tensor]) -> Result<()> {
    use SVD_KERNEL::*;

    let a = steady(args.tensor(A)?)?;
    let (u, s, vh) = (&results[0], &results[1], &results[2]);
    let infos = create::zeros(batch_sizes(&a), rushlight_core::DType::I32, a.device())?;
    let pins = [&a, u, s, vh, &infos].map(|tensor| tensor.storage().pin());
    let [pa, pu, ps, pv, pi] = pins;
    let (pa, pu, ps, pv, pi) = (pa?, pu?, ps?, pv?, pi?);
    let vectors = args.bool(COMPUTE_UV)?;
    let k = a.sizes()[a.rank() - 2].min(a.sizes()[a.rank() - 1]) as usize;
    dense!(a.dtype(), T => {
        let pair = vectors.then(|| (matrices::<T>(u, &pu), matrices::<T>(vh, &pv)));
        // SAFETY: results are new and of the sizes from `infer`; all storages are pinned.
        unsafe {
            rushlight_cpu::linalg::svd(count(&a), matrices::<T>(&a, &pa), per_matrix(s, &ps, k), pair, per_matrix(&infos, &pi, 1))
        }
    })?;
    let list = crate::convert::to_vec::<i32>(&infos)?;
    match list.iter().find(|&&info| info != 0) {
        None => Ok(()),
        Some(-1) => Err(Error::new(
            Class::LinAlg,
            "linalg.svd: The algorithm failed to converge because the input matrix contained non-finite values.",
        )
        .hint("Use torch.isfinite(x) to find these elements, or torch.nan_to_num(x) to replace them.")),
        Some(info) => super::dense::check_info("linalg.svd", &infos, |_| {
            format!(
                "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated singular values (error code: {info})."
            )
        }),
    }
}

fn decompose_on_cuda(args: &Args, results: &[Tensor]) -> Result<()> {
    use SVD_KERNEL::*;

    let a = by_columns_copy(args.tensor(A)?)?;
    let (wanted, full) = (args.bool(COMPUTE_UV)?, args.bool(FULL_MATRICES)?);
    let [m, n] = matrix_sizes(&a);
    let k = m.min(n);
    let room = |rows, columns| allocate(&by_columns(&sized(&a, &[rows, columns]), a.dtype(), &a));
    let u = if wanted { results[0].clone() } else { room(m, k)? };
    let v = room(n, if wanted && full { n } else { k })?;
    let infos = create::zeros(batch_sizes(&a), rushlight_core::DType::I32, a.device())?;
    let done = factors_on_cuda::singular(&a, [&u, &results[1], &v], &infos, wanted, full && wanted)?;
    if !done || !factors_on_cuda::is_exact(&infos, &results[1])? {
        // What did not converge is for the host's method, which is another one and knows the reasons.
        return on_host::fill(decompose, args, results);
    }
    if wanted { copy::copy(&results[2], &Expr::from(&v).adjoint().done()?) } else { Ok(()) }
}

/// With gradients of singular values alone: `U diag(gS) Vh`. Otherwise the vectors rotate within the space that they
/// span, by skew-Hermitian amounts divided by the differences of squared singular values, and out of it.
fn gradient(d: &BackwardContext) -> Expr {
    use SVD_KERNEL::*;

    if !d.flag(COMPUTE_UV) && d.args.optional_bool(COMPUTE_UV).is_some() {
        return Expr::failed(Error::runtime(
            "svd_backward: the singular vectors are needed, and compute_uv=False left them away",
        ));
    }
    let [m, n] = [d.sizes(A)[d.rank(A) - 2], d.sizes(A)[d.rank(A) - 1]];
    let k = m.min(n);
    let s = || d.result_of(1);
    let u = || d.result_of(0).part(-1, 0, k);
    let vh = || d.result_of(2).part(-2, 0, k);
    if !d.has_grad(0) && !d.has_grad(2) {
        return match m >= n {
            true => (u() * d.grad_of(1).along_columns()).matmul(vh()),
            false => u().matmul(d.grad_of(1).along_rows() * vh()),
        };
    }
    let skew = |x: Expr| x.clone() - x.adjoint();
    let turned_u = || skew(u().adjoint().matmul(d.grad_of(0).part(-1, 0, k)));
    let turned_v = || skew(vh().matmul(d.grad_of(2).part(-2, 0, k).adjoint()));
    let complex = d.meta(A).is_some_and(|meta| meta.dtype.is_complex());
    if complex {
        let own = if d.has_grad(0) { Some(turned_u()) } else { None };
        let other = if d.has_grad(2) { Some(turned_v()) } else { None };
        let sum = match (own, other) {
            (Some(own), Some(other)) => own + other,
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => Expr::Nothing,
        };
        if let Err(error) = check_phase("svd_backward", "singular vectors", sum) {
            return Expr::failed(error);
        }
    }
    let squares = || s().square();
    let gaps = (squares().along_columns() - squares().along_rows()).with_diagonal_of_ones();
    let mut inner = match (d.has_grad(0), d.has_grad(2)) {
        (true, true) => (turned_u() * s().along_columns() + s().along_rows() * turned_v()) / gaps,
        (true, false) => turned_u() / gaps * s().along_columns(),
        _ => s().along_rows() * (turned_v() / gaps),
    };
    if d.has_grad(1) {
        inner = inner + d.grad_of(1).on_diagonals();
    }
    if complex && d.has_grad(0) && d.has_grad(2) {
        inner = inner + (turned_u().diagonals() / (s() * 2.0)).on_diagonals();
    }
    if m > k && d.has_grad(0) {
        let outward = d.grad_of(0).part(-1, 0, k) / s().along_columns();
        let apart = outward.clone() - u().matmul(u().adjoint().matmul(outward));
        return (u().matmul(inner) + apart).matmul(vh());
    }
    if n > k && d.has_grad(2) {
        let outward = d.grad_of(2).part(-2, 0, k) / s().along_rows();
        let apart = outward.clone() - outward.matmul(vh().adjoint()).matmul(vh());
        return u().matmul(inner.matmul(vh()) + apart);
    }
    if m >= n { u().matmul(inner.matmul(vh())) } else { u().matmul(inner).matmul(vh()) }
}
