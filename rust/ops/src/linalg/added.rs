//! Products added to something: `beta * self + alpha * product`. With a `beta` of zero `self` is not read.

use rushlight_autograd::Tensor;
use rushlight_core::dtype::promote;
use rushlight_core::layout::Shape;
use rushlight_core::{DType, Dims, Error, Result, Scalar};

use super::matrix::{check_batches, check_shapes, gradient_of_first, gradient_of_second};
use super::{Matrix, by, check_dtype, product, scaled};
use crate::autocast::Autocast;
use crate::create::check_fits;
use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::mapped::Mapped;
use crate::op;
use crate::row::{Accepts, DTypes, Kernel, Out, Row, Run, Spec, Traits, Variants};
use crate::sparse::Sparse;
use crate::value::{Args, Output};
use crate::view::transpose::permuted;

/// Refuses an addend that does not stretch to the product's sizes.
pub fn check_addend(own: &Tensor, sizes: &[isize]) -> Result<()> {
    own.layout().broadcast_to(sizes).map(drop).map_err(|_| {
        let missing = sizes.len().saturating_sub(own.rank());
        let bad = (0..own.rank()).rev().find(|&dim| sizes.get(missing + dim) != Some(&own.sizes()[dim]) && own.sizes()[dim] != 1);
        let sentence = match bad {
            Some(dim) if own.rank() <= sizes.len() => format!(
                "The expanded size of the tensor ({}) must match the existing size ({}) at non-singleton dimension {}.  Target sizes: {}.  Tensor sizes: {}",
                sizes[missing + dim],
                own.sizes()[dim],
                missing + dim,
                Shape(sizes),
                Shape(own.sizes())
            ),
            _ => format!(
                "expand(torch.{}Tensor{{{}}}, size={}): the number of sizes provided ({}) must be greater or equal to the number of dimensions in the tensor ({})",
                own.dtype().title(),
                Shape(own.sizes()),
                Shape(sizes),
                sizes.len(),
                own.rank()
            ),
        };
        Error::runtime(sentence).shapes([own.sizes().as_slice(), sizes])
    })
}

fn check_mats(own: &Tensor, a: &Tensor, b: &Tensor) -> Result<Dims> {
    for (place, tensor) in [("mat1", a), ("mat2", b)] {
        if tensor.rank() != 2 {
            return Err(Error::runtime(format!("{place} must be a matrix, got {}-D tensor", tensor.rank())));
        }
    }
    let differ = |x: &str, y: &str, left: &Tensor, right: &Tensor| {
        Error::runtime(format!(
            "{x} and {y} must have the same dtype, but got {} and {}",
            left.dtype().title(),
            right.dtype().title()
        ))
    };
    if own.dtype() != b.dtype() {
        return Err(differ("self", "mat2", own, b));
    }
    if a.dtype() != b.dtype() {
        return Err(differ("mat1", "mat2", a, b));
    }
    check_shapes(a, b, own.sizes())?;
    let sizes = Dims::from_slice(&[a.sizes()[0], b.sizes()[1]]);
    check_addend(own, &sizes)?;
    check_dtype("addmm_impl_cpu_", a.dtype())?;
    Ok(sizes)
}

/// `beta` and `alpha` at places 3 and 4.
fn factors(args: &Args) -> Result<(Scalar, Scalar)> {
    Ok((args.scalar(3)?, args.scalar(4)?))
}

/// Refuses factors that the tensors' dtype does not hold.
fn check_factors(args: &Args) -> Result<()> {
    let (beta, alpha) = factors(args)?;
    let dtype = args.tensor(0)?.dtype();
    check_fits(beta, dtype)?;
    check_fits(alpha, dtype)
}

/// The result's columns are those of the product; a vector counts as one column.
fn add_product(args: &Args, results: &[Tensor]) -> Result<()> {
    let (beta, alpha) = factors(args)?;
    let own = Matrix::of(args.tensor(0)?).expanded(results[0].sizes())?;
    product(
        Matrix::column(&results[0]),
        alpha,
        Matrix::of(args.tensor(1)?),
        Matrix::column(args.tensor(2)?),
        Some((beta, own.column_if_vector())),
    )
}

/// The gradient of the addend; `fit` sums over what was stretched.
fn addend_gradient(d: &Derive) -> Expr {
    scaled(d.grad(), d.scalar(3))
}

pub static ADDMM: Row = Row {
    name: "addmm",
    variants: Variants::ALL,
    signature: "(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    doc: "The product of two matrices added to a third, which broadcasts.

    out = beta * self + alpha * (mat1 @ mat2)

    >>> torch.addmm(torch.tensor([10, 20]), torch.tensor([[1, 2]]), torch.tensor([[1, 0], [0, 1]]))
    tensor([[11, 22]])",
    out: Out::EXACT,
    dtypes: DTypes::NUMBERS,
    autocast: Autocast::Lower,
    sparse: Sparse::Compose(crate::sparse::product::addmm),
    mapped: Mapped::Rule(super::mapped::addmm),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let own = args.tensor(0)?;
            check_factors(args)?;
            let sizes = check_mats(own, args.tensor(1)?, args.tensor(2)?)?;
            Ok(vec![Spec::new(&sizes, own.dtype(), own)])
        },
        cpu: add_product,
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::NOTHING, addend_gradient),
        formula(1, Saves::input(2), |d| scaled(gradient_of_first(d, 1), d.scalar(4))),
        formula(2, Saves::input(1), |d| scaled(gradient_of_second(d, 1), d.scalar(4))),
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
    ..Row::BASE
};

pub static ADDMV: Row = Row {
    name: "addmv",
    variants: Variants::ALL.union(Variants::INPLACE_FUNCTION),
    signature: "(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    doc: "The product of a matrix with a vector, added to another vector.

    out = beta * self + alpha * (mat @ vec)

    >>> torch.addmv(torch.tensor([1, 1]), torch.tensor([[1, 2], [3, 4]]), torch.tensor([1, 1]))
    tensor([4, 8])",
    out: Out::EXACT,
    dtypes: DTypes::NUMBERS,
    mapped: Mapped::Rule(super::mapped::addmv),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let (own, a, v) = (args.tensor(0)?, args.tensor(1)?, args.tensor(2)?);
            check_factors(args)?;
            if a.rank() != 2 || v.rank() != 1 || own.rank() > 1 {
                return Err(Error::runtime(format!(
                    "vector + matrix @ vector expected, got {}, {}, {}",
                    own.rank(),
                    a.rank(),
                    v.rank()
                )));
            }
            let rows = a.sizes()[0];
            if a.sizes()[1] != v.sizes()[0] || (own.numel() != 1 && own.numel() != rows as usize) {
                return Err(Error::runtime(format!(
                    "size mismatch, got input ({}), mat ({}), vec ({})",
                    own.numel(),
                    by(a.sizes()),
                    v.numel()
                )).hint("The vector needs as many elements as the matrix has columns, and the input as many as it has rows.")
                .shapes([own.sizes().as_slice(), a.sizes().as_slice(), v.sizes().as_slice()]));
            }
            if own.dtype() != a.dtype() || a.dtype() != v.dtype() {
                return Err(Error::runtime(format!(
                    "addmv input tensors must have the same dtype, but got {}, {}, and {}",
                    own.dtype().title(),
                    a.dtype().title(),
                    v.dtype().title()
                )));
            }
            check_dtype("addmv_impl_cpu", a.dtype())?;
            Ok(vec![Spec::new(&[rows], own.dtype(), own)])
        },
        cpu: add_product,
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::NOTHING, addend_gradient),
        formula(1, Saves::input(2), |d| {
            scaled(d.grad().with_tensor(&super::contract::OUTER, d.input(2).conj()), d.scalar(4))
        }),
        formula(2, Saves::input(1), |d| scaled(d.input(1).adjoint().matmul(d.grad()), d.scalar(4))),
    ]),
    samples: &["t(3), t(3, 4), t(4)", "t(), t(3, 4), t(4), beta=2, alpha=3"],
    errors: &[
        ("t(4), t(3, 3), t(4)", "RuntimeError", "size mismatch, got input (4), mat (3x3), vec (4)"),
        ("t(3, 3), t(3, 4), t(4)", "RuntimeError", "vector + matrix @ vector expected, got 2, 2, 1"),
    ],
    reference: "beta * self + alpha * np.matmul(mat, vec)",
    ..Row::BASE
};

pub static BADDBMM: Row = Row {
    name: "baddbmm",
    variants: Variants::ALL,
    signature: "(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    doc: "Products of two batches of matrices, pair by pair, added to a third batch, which broadcasts.

    out = beta * self + alpha * (batch1 @ batch2)

    >>> torch.baddbmm(torch.ones(1), torch.ones(1, 1, 3), torch.ones(1, 3, 2))
    tensor([[[4., 4.]]])",
    out: Out::EXACT,
    dtypes: DTypes::NUMBERS,
    autocast: Autocast::Lower,
    mapped: Mapped::Rule(super::mapped::baddbmm),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let (own, a, b) = (args.tensor(0)?, args.tensor(1)?, args.tensor(2)?);
            check_factors(args)?;
            if a.rank() == 3 {
                rushlight_core::layout::wrap_dim(2, b.rank())?;
            }
            check_batches(a, b, own.sizes())?;
            let sizes = [a.sizes()[0], a.sizes()[1], b.sizes()[2]];
            check_addend(own, &sizes)?;
            if own.dtype() != a.dtype() || a.dtype() != b.dtype() {
                return Err(Error::runtime(format!(
                    "Input dtypes must be the same, got: input {}, batch1: {}, batch2: {}",
                    own.dtype().c_name(),
                    a.dtype().c_name(),
                    b.dtype().c_name()
                )));
            }
            check_dtype("baddbmm", a.dtype())?;
            Ok(vec![Spec::new(&sizes, own.dtype(), own)])
        },
        cpu: add_product,
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::NOTHING, addend_gradient),
        formula(1, Saves::input(2), |d| scaled(d.grad().matmul(d.input(2).adjoint()), d.scalar(4))),
        formula(2, Saves::input(1), |d| scaled(d.input(1).adjoint().matmul(d.grad()), d.scalar(4))),
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
    ..Row::BASE
};

pub static ADDBMM: Row = Row {
    name: "addbmm",
    node: "AddbmmBackward0",
    variants: Variants::ALL,
    signature: "(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    doc: "The sum of the products of two batches of matrices, added to a matrix, which broadcasts.

    out = beta * self + alpha * sum(batch1[i] @ batch2[i])

    >>> torch.addbmm(torch.ones(1), torch.ones(2, 1, 3), torch.ones(2, 3, 2))
    tensor([[7., 7.]])",
    out: Out::new(Accepts::Same, &["self and mat2 must have the same dtype, but got {Out} and {Result}"]).silently(),
    traits: Traits::RESHAPES_IN_PLACE,
    dtypes: DTypes::NUMBERS,
    autocast: Autocast::Lower,
    run: Run::Compose(|args| {
        let (own, a, b) = (args.tensor(0)?, args.tensor(1)?, args.tensor(2)?);
        if let ([x, n, k], [y, other, p]) = (a.sizes().as_slice(), b.sizes().as_slice()) {
            check_addend(own, &[*n, *p])?;
            if x != y || k != other {
                return Err(Error::runtime(format!("Incompatible matrix sizes for bmm ({n}x{k} and {other}x{p})"))
                    .shapes([a.sizes().as_slice(), b.sizes().as_slice()])
                    .hint("Batches are of one length, and batch1 has as many columns as batch2 has rows."));
            }
        } else {
            if a.rank() == 3 {
                rushlight_core::layout::wrap_dim(2, b.rank())?;
            }
            check_batches(a, b, &[])?;
        }
        // The batch joins the dimension that is summed: one product.
        let left = permuted(a, &[1, 0, 2])?;
        let (rows, cols) = (a.sizes()[1], b.sizes()[2]);
        let inner = a.sizes()[0] * a.sizes()[2];
        let shape = crate::view::reshape::sizes_value;
        let left = crate::view::RESHAPE.tensor([left.into(), shape(&[rows, inner])])?;
        let right = crate::view::RESHAPE.tensor([b.into(), shape(&[inner, cols])])?;
        let (beta, alpha) = factors(args)?;
        op!(ADDMM, own, left, right, beta, alpha).map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["t(3, 5), t(2, 3, 4), t(2, 4, 5)", "t(5), t(2, 3, 4), t(2, 4, 5), beta=2, alpha=3"],
    errors: &[("t(3, 3), t(2, 3, 4), t(2, 5, 3)", "RuntimeError", "Incompatible matrix sizes for bmm (3x4 and 5x3)")],
    reference: "beta * self + alpha * np.matmul(batch1, batch2).sum(0)",
    ..Row::BASE
};

pub static ADDR: Row = Row {
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
    run: Run::Compose(|args| {
        let (own, x, y) = (args.tensor(0)?, args.tensor(1)?, args.tensor(2)?);
        for (name, vector) in [("vec1", x), ("vec2", y)] {
            if vector.rank() != 1 {
                return Err(Error::runtime(format!("addr: Expected 1-D argument {name}, but got {}-D", vector.rank())));
            }
        }
        check_addend(own, &[x.sizes()[0], y.sizes()[0]])?;
        let (beta, alpha) = factors(args)?;
        let dtype = promote(promote(own.dtype(), x.dtype())?, y.dtype())?;
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
        }
        // Among bools the factors are bools too.
        let truth = |factor: Scalar| if dtype == DType::Bool { Scalar::Bool(factor.truth()) } else { factor };
        let (beta, alpha) = (truth(beta), truth(alpha));
        let outer = op!(super::contract::OUTER, x, y)?;
        let outer = if alpha.is_one() { outer } else { op!(crate::pointwise::arith::MUL, &outer, alpha)? };
        if beta.is_zero() {
            // The addend counts only with its shape and dtype; its values, NaN too, are not read.
            return crate::convert::to_dtype(&outer, dtype).map(Output::Tensor);
        }
        let own = if beta.is_one() { own.clone() } else { op!(crate::pointwise::arith::MUL, own, beta)? };
        op!(crate::pointwise::arith::ADD, &own, &outer).map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
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
    ..Row::BASE
};
