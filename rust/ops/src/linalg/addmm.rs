//! Products plus a scaled addend: `beta * self + alpha * product`. `self` is not read if `beta` is zero.

use rushlight_autograd::Tensor;
use rushlight_core::dtype::promote;
use rushlight_core::layout::Shape;
use rushlight_core::{DType, Dims, Error, Result, Scalar};
use rushlight_dispatch::create::check_fits;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Accepts, Args, Autocast, BackwardContext, BatchRule, BatchedCall, DTypes, Derivative, Implementation, Kernel,
    Operator, Out, Saves, Sparse, Tags, TensorSpec, Variants, formula, operator,
};
use rushlight_dispatch::value::{Arg, Output, Value, sizes_value};
use rushlight_dispatch::vmap::{RuleResult, merge_batch, one_result, split_batch};
use rushlight_dispatch::{op, value};

use super::matrix::{check_batches, check_shapes, gradient_of_first, gradient_of_second, size_of};
use super::{Matrix, PRODUCT_KERNEL, PRODUCTS, by, check_dtype, check_product_dtype, product, scaled};
use crate::expr_ext::ExprExt;
use crate::view::expand::EXPAND;
use crate::view::split::UNBIND;
use crate::view::squeeze::{SQUEEZE_DIM, UNSQUEEZE};
use crate::view::transpose::permuted;

/// Returns an error for an addend that does not expand to the product's sizes.
pub fn check_addend(input: &Tensor, sizes: &[isize]) -> Result<()> {
    input.layout().broadcast_to(sizes).map(drop).map_err(|_| {
        let missing = sizes.len().saturating_sub(input.rank());
        let bad = (0..input.rank()).rev().find(|&dim| sizes.get(missing + dim) != Some(&input.sizes()[dim]) && input.sizes()[dim] != 1);
        let sentence = match bad {
            Some(dim) if input.rank() <= sizes.len() => format!(
                "The expanded size of the tensor ({}) must match the existing size ({}) at non-singleton dimension {}.  Target sizes: {}.  Tensor sizes: {}",
                sizes[missing + dim],
                input.sizes()[dim],
                missing + dim,
                Shape(sizes),
                Shape(input.sizes())
            ),
            _ => format!(
                "expand({}{{{}}}, size={}): the number of sizes provided ({}) must be greater or equal to the number of dimensions in the tensor ({})",
                input.dtype().class_name(input.device()),
                Shape(input.sizes()),
                Shape(sizes),
                sizes.len(),
                input.rank()
            ),
        };
        Error::runtime(sentence).shapes([input.sizes().as_slice(), sizes])
    })
}

fn check_mats(input: &Tensor, a: &Tensor, b: &Tensor) -> Result<Dims> {
    let differ = |x: &str, y: &str, left: &Tensor, right: &Tensor| {
        Error::runtime(format!(
            "{x} and {y} must have the same dtype, but got {} and {}",
            left.dtype().display_name(),
            right.dtype().display_name()
        ))
    };
    if input.dtype() != b.dtype() {
        return Err(differ("self", "mat2", input, b));
    }
    if a.dtype() != b.dtype() {
        return Err(differ("mat1", "mat2", a, b));
    }
    for (place, tensor) in [("mat1", a), ("mat2", b)] {
        if tensor.rank() != 2 {
            return Err(Error::runtime(format!("{place} must be a matrix, got {}-D tensor", tensor.rank())));
        }
    }
    check_shapes(a, b, input.sizes())?;
    let sizes = Dims::from_slice(&[a.sizes()[0], b.sizes()[1]]);
    check_addend(input, &sizes)?;
    check_product_dtype(a.dtype())?;
    Ok(sizes)
}

/// Whether a tensor has the size, and the dtype, of the result that is written over it.
fn check_result(input: &Tensor, sizes: &[isize], dtype: DType) -> Result<()> {
    let differ = |what: &str, found: &dyn std::fmt::Display, wanted: &dyn std::fmt::Display| {
        let sentence = format!("input tensor {what} {found} and output tensor {what} {wanted} should match");
        Err(Error::runtime(format!("Bad in-place call: {sentence}")).shapes([input.sizes().as_slice(), sizes]))
    };
    if input.dtype() != dtype {
        return differ("dtype", &input.dtype().c_name(), &dtype.c_name());
    }
    if input.sizes()[..] != *sizes {
        return differ("size", &Shape(input.sizes()), &Shape(sizes));
    }
    Ok(())
}

/// The checks of the in-place forms, if the operands besides the tensor itself fit together.
fn fits_product(args: &Args) -> Result<()> {
    use ADDMM::*;

    let (input, a, b) = (args.tensor(INPUT)?, args.tensor(MAT1)?, args.tensor(MAT2)?);
    match (a.sizes().as_slice(), b.sizes().as_slice()) {
        (&[rows, inner], &[other, columns])
            if inner == other && [a, b].iter().all(|mat| mat.dtype() == input.dtype() && is_beside(input, mat)) =>
        {
            check_result(input, &[rows, columns], input.dtype())
        }
        _ => Ok(()),
    }
}

fn fits_vector(args: &Args) -> Result<()> {
    use ADDMV::*;

    let (input, a, b) = (args.tensor(INPUT)?, args.tensor(MAT)?, args.tensor(VEC)?);
    match (a.sizes().as_slice(), b.sizes().as_slice()) {
        (&[rows, inner], &[other])
            if inner == other
                && input.rank() <= 1
                && (input.numel() == 1 || input.numel() == rows as usize)
                && is_beside(input, a)
                && is_beside(input, b) =>
        {
            check_result(input, &[rows], b.dtype())
        }
        _ => Ok(()),
    }
}

fn fits_batch(args: &Args) -> Result<()> {
    use BADDBMM::*;

    let (input, a, b) = (args.tensor(INPUT)?, args.tensor(BATCH1)?, args.tensor(BATCH2)?);
    match (a.sizes().as_slice(), b.sizes().as_slice()) {
        (&[count, rows, inner], &[others, other, columns])
            if count == others && inner == other && is_beside(input, a) && is_beside(input, b) =>
        {
            let sizes = [count, rows, columns];
            check_addend(input, &sizes)?;
            check_result(input, &sizes, b.dtype())
        }
        _ => Ok(()),
    }
}

fn fits_outer(args: &Args) -> Result<()> {
    use ADDR::*;

    let (input, x, y) = (args.tensor(INPUT)?, args.tensor(VEC1)?, args.tensor(VEC2)?);
    if x.rank() != 1 || y.rank() != 1 || !is_beside(input, x) || !is_beside(input, y) {
        return Ok(());
    }
    if input.rank() != 2 {
        return Err(Error::runtime(format!("2D tensor expected, got {}D tensor for input", input.rank())));
    }
    if input.sizes()[..] != [x.sizes()[0], y.sizes()[0]] {
        return Err(Error::runtime(format!(
            "size mismatch, input: {}, v1: {}, v2: {}",
            Shape(input.sizes()),
            Shape(x.sizes()),
            Shape(y.sizes())
        )));
    }
    Ok(())
}

/// Whether both are strided tensors of one device.
fn is_beside(input: &Tensor, other: &Tensor) -> bool {
    input.device() == other.device() && !input.is_sparse() && !other.is_sparse()
}

fn factors(args: &Args) -> Result<(Scalar, Scalar)> {
    use ADDMM::*;

    Ok((args.scalar(BETA)?, args.scalar(ALPHA)?))
}

/// Returns an error for factors that a dtype cannot hold.
fn check_factors(args: &Args, dtype: DType) -> Result<()> {
    let (beta, alpha) = factors(args)?;
    check_fits(beta, dtype)?;
    check_fits(alpha, dtype)
}

/// The result has the product's columns; a vector counts as one column.
fn add_product(args: &Args, [first, second]: [Arg; 2], results: &[Tensor]) -> Result<()> {
    let (beta, alpha) = factors(args)?;
    let own = Matrix::of(args.tensor(ADDMM::INPUT)?).expanded(results[0].sizes())?;
    product(
        Matrix::column(&results[0]),
        alpha,
        Matrix::of(args.tensor(first)?),
        Matrix::column(args.tensor(second)?),
        Some((beta, own.column_if_vector())),
    )
}

/// The gradient of the addend; `fit` sums over expanded dimensions.
fn addend_gradient(d: &BackwardContext) -> Expr {
    scaled(d.grad(), d.scalar(ADDMM::BETA))
}

#[operator]
pub static ADDMM: Operator = Operator {
    name: "addmm",
    variants: Variants::ALL,
    signature: "(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    doc: "The product of two matrices added to a third, which broadcasts.

    out = beta * self + alpha * (mat1 @ mat2)

    >>> torch.addmm(torch.tensor([10, 20]), torch.tensor([[1, 2]]), torch.tensor([[1, 0], [0, 1]]))
    tensor([[11, 22]])",
    in_place_example: ">>> torch.tensor([[10, 20]]).addmm_(torch.tensor([[1, 2]]), torch.tensor([[1, 0], [0, 1]]))
    tensor([[11, 22]])",
    out: Out::EXACT,
    dtypes: PRODUCTS,
    autocast: Autocast::LowerPrecision.everywhere(),
    sparse: Sparse::CompositeImplicit,
    batch_rule: BatchRule::Custom(batched_addmm),
    check_target: Some(fits_product),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let input = args.tensor(INPUT)?;
            check_factors(args, input.dtype().compute())?;
            let sizes = check_mats(input, args.tensor(MAT1)?, args.tensor(MAT2)?)?;
            Ok(vec![TensorSpec::new(&sizes, input.dtype(), input)])
        },
        |args, results| add_product(args, [MAT1, MAT2], results),
    )),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::NOTHING, addend_gradient),
        formula(MAT1, Saves::input(MAT2), |d| scaled(gradient_of_first(d, MAT1, MAT2), d.scalar(ALPHA))),
        formula(MAT2, Saves::input(MAT1), |d| scaled(gradient_of_second(d, MAT1, MAT2), d.scalar(ALPHA))),
    ]),
    samples: &[
        "t(3, 2), t(3, 4), t(4, 2)",
        "t(2), t(3, 4), t(4, 2)",
        "t(), t(3, 4), t(4, 2), beta=2, alpha=3",
        "t(3, 2), t(3, 0), t(0, 2)",
    ],
    errors: &[
        ("t(3, 3), t(3, 5), t(4, 6)", "RuntimeError", "mat1 and mat2 shapes cannot be multiplied (3x5 and 4x6)"),
        (
            "t(2, 2), t(3, 5), t(5, 6)",
            "RuntimeError",
            "The expanded size of the tensor (6) must match the existing size (2) at non-singleton dimension 1.  Target sizes: [3, 6].  Tensor sizes: [2, 2]",
        ),
        ("t(3), t(3, 5), t(5)", "RuntimeError", "mat2 must be a matrix, got 1-D tensor"),
    ],
    reference: "beta * self + alpha * np.matmul(mat1, mat2)",
    kernel_name: PRODUCT_KERNEL,
    ..Operator::BASE
};

#[operator]
pub static ADDMV: Operator = Operator {
    name: "addmv",
    variants: Variants::ALL.union(Variants::INPLACE_FUNCTION),
    signature: "(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    doc: "The product of a matrix with a vector, added to another vector, which broadcasts to the product's shape.

    out = beta * self + alpha * (mat @ vec)

    >>> torch.addmv(torch.tensor([1, 1]), torch.tensor([[1, 2], [3, 4]]), torch.tensor([1, 1]))
    tensor([4, 8])",
    out: Out::EXACT,
    dtypes: DTypes::NUMBERS,
    autocast: Autocast::LowerPrecision.on_cuda_alone(),
    sparse: Sparse::CompositeImplicit,
    batch_rule: BatchRule::Custom(batched_addmv),
    check_target: Some(fits_vector),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let (input, a, v) = (args.tensor(INPUT)?, args.tensor(MAT)?, args.tensor(VEC)?);
            check_factors(args, input.dtype())?;
            if a.rank() != 2 || v.rank() != 1 || input.rank() > 1 {
                return Err(Error::runtime(format!(
                    "vector + matrix @ vector expected, got {}, {}, {}",
                    input.rank(),
                    a.rank(),
                    v.rank()
                )));
            }
            let rows = a.sizes()[0];
            if a.sizes()[1] != v.sizes()[0] {
                size_of(input, 0)?;
            }
            if a.sizes()[1] != v.sizes()[0] || (input.numel() != 1 && input.numel() != rows as usize) {
                return Err(Error::runtime(format!(
                    "size mismatch, got input ({}), mat ({}), vec ({})",
                    input.numel(),
                    by(a.sizes()),
                    v.numel()
                )).hint("The vector must have as many elements as the matrix has columns, and the input as many as it has rows.")
                .shapes([input.sizes().as_slice(), a.sizes().as_slice(), v.sizes().as_slice()]));
            }
            if input.dtype() != a.dtype() || a.dtype() != v.dtype() {
                return Err(Error::runtime(format!(
                    "addmv input tensors must have the same dtype, but got {}, {}, and {}",
                    input.dtype().display_name(),
                    a.dtype().display_name(),
                    v.dtype().display_name()
                )));
            }
            check_dtype("addmv_impl_cpu", a.dtype())?;
            Ok(vec![TensorSpec::new(&[rows], input.dtype(), input)])
        },
        |args, results| add_product(args, [MAT, VEC], results),
    )),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::NOTHING, addend_gradient),
        formula(MAT, Saves::input(VEC), |d| {
            scaled(d.grad().with_tensor(&super::contract::OUTER, d.input(VEC).conj()), d.scalar(ALPHA))
        }),
        formula(VEC, Saves::input(MAT), |d| scaled(d.input(MAT).adjoint().matmul(d.grad()), d.scalar(ALPHA))),
    ]),
    samples: &["t(3), t(3, 4), t(4)", "t(), t(3, 4), t(4), beta=2, alpha=3"],
    errors: &[
        ("t(4), t(3, 3), t(4)", "RuntimeError", "size mismatch, got input (4), mat (3x3), vec (4)"),
        ("t(3, 3), t(3, 4), t(4)", "RuntimeError", "vector + matrix @ vector expected, got 2, 2, 1"),
    ],
    reference: "beta * self + alpha * np.matmul(mat, vec)",
    ..Operator::BASE
};

#[operator]
pub static BADDBMM: Operator = Operator {
    name: "baddbmm",
    variants: Variants::ALL,
    signature: "(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    doc: "Products of two batches of matrices, pair by pair, added to a third batch, which broadcasts.

    out = beta * self + alpha * (batch1 @ batch2)

    >>> torch.baddbmm(torch.ones(1), torch.ones(1, 1, 3), torch.ones(1, 3, 2))
    tensor([[[4., 4.]]])",
    in_place_example: ">>> torch.ones(1, 1, 2).baddbmm_(torch.ones(1, 1, 3), torch.ones(1, 3, 2))
    tensor([[[4., 4.]]])",
    out: Out::EXACT,
    dtypes: DTypes::NUMBERS,
    autocast: Autocast::LowerPrecision.everywhere(),
    batch_rule: BatchRule::Custom(batched_baddbmm),
    check_target: Some(fits_batch),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let (input, a, b) = (args.tensor(INPUT)?, args.tensor(BATCH1)?, args.tensor(BATCH2)?);
            let sizes = [size_of(a, 0)?, size_of(a, 1)?, size_of(b, 2)?];
            check_addend(input, &sizes)?;
            if input.dtype() != a.dtype() {
                return Err(Error::runtime(format!(
                    "Input dtypes must be the same, got: input {}, batch1: {}, batch2: {}",
                    input.dtype().c_name(),
                    a.dtype().c_name(),
                    b.dtype().c_name()
                )));
            }
            check_batches(a, b, input.sizes())?;
            check_dtype("baddbmm", a.dtype())?;
            check_factors(args, input.dtype().compute())?;
            if a.dtype() != b.dtype() {
                return Err(Error::runtime(format!(
                    "expected scalar type {} but found {}",
                    a.dtype().display_name(),
                    b.dtype().display_name()
                )));
            }
            Ok(vec![TensorSpec::new(&sizes, input.dtype(), input)])
        },
        |args, results| add_product(args, [BATCH1, BATCH2], results),
    )),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::NOTHING, addend_gradient),
        formula(BATCH1, Saves::input(BATCH2), |d| scaled(d.grad().matmul(d.input(BATCH2).adjoint()), d.scalar(ALPHA))),
        formula(BATCH2, Saves::input(BATCH1), |d| scaled(d.input(BATCH1).adjoint().matmul(d.grad()), d.scalar(ALPHA))),
    ]),
    samples: &["t(2, 3, 5), t(2, 3, 4), t(2, 4, 5)", "t(5), t(2, 3, 4), t(2, 4, 5), beta=2, alpha=3"],
    errors: &[
        (
            "t(2, 3, 3), t(2, 3, 4), t(2, 5, 3)",
            "RuntimeError",
            "Expected size for first two dimensions of batch2 tensor to be: [2, 4] but got: [2, 5].",
        ),
        ("t(3), t(3, 4), t(2, 4, 3)", "RuntimeError", "batch1 must be a 3D tensor"),
    ],
    reference: "beta * self + alpha * np.matmul(batch1, batch2)",
    kernel_name: "baddbmm_with_gemm",
    ..Operator::BASE
};

#[operator]
pub static ADDBMM: Operator = Operator {
    name: "addbmm",
    node: "AddbmmBackward0",
    variants: Variants::ALL,
    signature: "(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    doc: "The sum of the products of two batches of matrices, added to a matrix, which broadcasts.

    out = beta * self + alpha * sum(batch1[i] @ batch2[i])

    >>> torch.addbmm(torch.ones(1), torch.ones(2, 1, 3), torch.ones(2, 3, 2))
    tensor([[7., 7.]])",
    out: Out::new(Accepts::Same, &["self and mat2 must have the same dtype, but got {Out} and {Result}"]).silently(),
    tags: Tags::RESHAPES_IN_PLACE,
    dtypes: DTypes::NUMBERS,
    autocast: Autocast::LowerPrecision.everywhere(),
    implementation: Implementation::CompositeImplicit(|args| {
        let (input, a, b) = (args.tensor(INPUT)?, args.tensor(BATCH1)?, args.tensor(BATCH2)?);
        check_addend(input, &[size_of(a, 1)?, size_of(b, 2)?])?;
        if let ([x, n, k], [y, other, p]) = (a.sizes().as_slice(), b.sizes().as_slice()) {
            if x != y {
                return Err(Error::runtime(format!(
                    "batch1 and batch2 must have same number of batches, got {x} and {y}"
                ))
                .shapes([a.sizes().as_slice(), b.sizes().as_slice()]));
            }
            if k != other {
                return Err(Error::runtime(format!("Incompatible matrix sizes for bmm ({n}x{k} and {other}x{p})"))
                    .shapes([a.sizes().as_slice(), b.sizes().as_slice()])
                    .hint("Batches must have the same length, and batch1 as many columns as batch2 has rows."));
            }
        } else {
            check_batches(a, b, &[])?;
        }
        let (beta, alpha) = factors(args)?;
        let short = input.dtype().is_float8() || matches!(input.dtype(), DType::F16 | DType::BF16);
        if short && a.sizes()[0] > 1 {
            // torch rounds after each matrix, which matters with so few digits.
            return sum_in_turn(input, a, b, beta, alpha).map(Output::Tensor);
        }
        // The batch joins the summed dimension, which gives one product.
        let left = permuted(a, &[1, 0, 2])?;
        let (rows, cols) = (a.sizes()[1], b.sizes()[2]);
        let inner = a.sizes()[0] * a.sizes()[2];
        let shape = value::sizes_value;
        let left = crate::view::RESHAPE.tensor([left.into(), shape(&[rows, inner])])?;
        let right = crate::view::RESHAPE.tensor([b.into(), shape(&[inner, cols])])?;
        op!(ADDMM, input, left, right, beta, alpha).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3, 5), t(2, 3, 4), t(2, 4, 5)", "pos(5), pos(2, 3, 4), pos(2, 4, 5), beta=2, alpha=3"],
    errors: &[("t(3, 3), t(2, 3, 4), t(2, 5, 3)", "RuntimeError", "Incompatible matrix sizes for bmm (3x4 and 5x3)")],
    reference: "beta * self + alpha * np.matmul(batch1, batch2).sum(0)",
    ..Operator::BASE
};

/// `beta * own`, to which the products of the matrices are added one by one.
fn sum_in_turn(input: &Tensor, a: &Tensor, b: &Tensor, beta: Scalar, alpha: Scalar) -> Result<Tensor> {
    let mut sum = op!(EXPAND, input, sizes_value(&[a.sizes()[1], b.sizes()[2]]))?;
    let [first, second] = [a, b].map(|batch| UNBIND.call([batch.into()]).map(Output::into_tensors));
    for (at, (a, b)) in first?.iter().zip(&second?).enumerate() {
        let beta = if at == 0 { beta } else { Scalar::ONE };
        sum = op!(ADDMM, &sum, a, b, beta, alpha)?;
    }
    Ok(sum)
}

#[operator]
pub static ADDR: Operator = Operator {
    name: "addr",
    node: "AddrBackward0",
    variants: Variants::ALL,
    signature: "(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    doc: "The products of each pair of two vectors' elements, added to a matrix, which broadcasts.

    out = beta * self + alpha * outer(vec1, vec2)

    >>> torch.addr(torch.zeros(2, 2), torch.tensor([1., 2.]), torch.tensor([3., 4.]))
    tensor([[3., 4.],
            [6., 8.]])",
    dtypes: DTypes::COMMON,
    check_target: Some(fits_outer),
    implementation: Implementation::CompositeImplicit(|args| {
        let (input, x, y) = (args.tensor(INPUT)?, args.tensor(VEC1)?, args.tensor(VEC2)?);
        for (name, vector) in [("vec1", x), ("vec2", y)] {
            if vector.rank() != 1 {
                return Err(Error::runtime(format!("addr: Expected 1-D argument {name}, but got {}-D", vector.rank())));
            }
        }
        check_addend(input, &[x.sizes()[0], y.sizes()[0]])?;
        let (beta, alpha) = factors(args)?;
        let dtype = promote(promote(input.dtype(), x.dtype())?, y.dtype())?;
        if DTypes::WIDE.has(dtype) {
            return Err(Error::unsupported("addr_cpu", dtype));
        }
        let exact = dtype.is_integral() || dtype == DType::Bool;
        for (name, factor) in [("beta", beta), ("alpha", alpha)] {
            if exact && (factor.is_floating() || factor.is_complex()) {
                return Err(Error::runtime(format!(
                    "For integral input tensors, argument {name} must not be a floating point number."
                )));
            }
            if factor.is_bool() && dtype != DType::Bool {
                return Err(Error::runtime(format!("Boolean {name} only supported for Boolean results.")));
            }
            check_fits(factor, dtype)?;
        }
        // With bool tensors the factors are bools too.
        let truth = |factor: Scalar| if dtype == DType::Bool { Scalar::Bool(factor.truth()) } else { factor };
        let (beta, alpha) = (truth(beta), truth(alpha));
        let [x, y] = [x, y].map(|vector| crate::convert::to_dtype(vector, dtype));
        let outer = op!(super::contract::OUTER, x?, y?)?;
        let outer = if alpha.is_one() { outer } else { op!(crate::pointwise::arith::MUL, &outer, alpha)? };
        if beta.is_zero() {
            // Only the addend's shape and dtype count; its values, NaN included, are not read.
            return crate::convert::to_dtype(&outer, dtype).map(Output::Tensor);
        }
        // In the dtype of the result, which may be wider.
        let input = crate::convert::to_dtype(input, dtype)?;
        let input = if beta.is_one() { input } else { op!(crate::pointwise::arith::MUL, &input, beta)? };
        op!(crate::pointwise::arith::ADD, &input, &outer).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    autocast: Autocast::LowerPrecision.on_cuda_alone(),
    samples: &["t(3, 4), t(3), t(4)", "t(4), t(3), t(4), beta=2, alpha=3"],
    errors: &[
        ("t(3, 4), t(3, 3), t(5)", "RuntimeError", "addr: Expected 1-D argument vec1, but got 2-D"),
        (
            "t(3, 4), t(3), t(5)",
            "RuntimeError",
            "The expanded size of the tensor (5) must match the existing size (4) at non-singleton dimension 1.  Target sizes: [3, 5].  Tensor sizes: [3, 4]",
        ),
    ],
    reference: "beta * self + alpha * np.outer(vec1, vec2)",
    ..Operator::BASE
};

/// The first operand in the sizes of the result, with the batch dimension first.
fn addend(batch: &BatchedCall, sizes: &[isize]) -> Result<Tensor> {
    Ok(batch.physical(&op!(EXPAND, batch.args.tensor(ADDMM::INPUT)?, sizes_value(sizes))?))
}

/// `beta * c + alpha * a @ b`, for batches of matrices with one leading dimension more than the called operator.
fn added(c: Tensor, a: Tensor, b: Tensor, batch: &BatchedCall) -> Result<Tensor> {
    let number = |arg| batch.args.scalar(arg).map(Value::Scalar);
    BADDBMM.tensor([c.into(), a.into(), b.into(), number(ADDMM::BETA)?, number(ADDMM::ALPHA)?])
}

fn batched_addmm(batch: &BatchedCall) -> RuleResult {
    use ADDMM::*;

    let (input, a, b) = (batch.args.tensor(INPUT)?, batch.args.tensor(MAT1)?, batch.args.tensor(MAT2)?);
    if !batch.differs_at(INPUT)
        && batch.differs_at(MAT1)
        && !batch.differs_at(MAT2)
        && (input.rank() < 2 || input.sizes()[0] == 1)
    {
        let number = |arg| batch.args.scalar(arg).map(Value::Scalar);
        let a = merge_batch(&batch.tensor(MAT1)?)?;
        let whole = ADDMM.tensor([
            batch.one(INPUT)?.into(),
            a.into(),
            batch.one(MAT2)?.into(),
            number(BETA)?,
            number(ALPHA)?,
        ])?;
        return one_result(split_batch(&whole, batch.size));
    }
    let sizes = [a.sizes()[0], b.sizes()[1]];
    one_result(added(addend(batch, &sizes)?, batch.tensor(MAT1)?, batch.tensor(MAT2)?, batch))
}

fn batched_addmv(batch: &BatchedCall) -> RuleResult {
    use ADDMV::*;

    let rows = batch.args.tensor(MAT)?.sizes()[0];
    let own = op!(UNSQUEEZE, addend(batch, &[rows])?, 2i64)?;
    let columns = op!(UNSQUEEZE, batch.tensor(VEC)?, 2i64)?;
    one_result(op!(SQUEEZE_DIM, added(own, batch.tensor(MAT)?, columns, batch)?, 2i64))
}

fn batched_baddbmm(batch: &BatchedCall) -> RuleResult {
    use BADDBMM::*;

    let (a, b) = (batch.args.tensor(BATCH1)?, batch.args.tensor(BATCH2)?);
    let sizes = [a.sizes()[0], a.sizes()[1], b.sizes()[2]];
    let own = merge_batch(&addend(batch, &sizes)?)?;
    one_result(split_batch(
        &added(own, merge_batch(&batch.tensor(BATCH1)?)?, merge_batch(&batch.tensor(BATCH2)?)?, batch)?,
        batch.size,
    ))
}
