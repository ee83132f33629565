//! Products of two operands: matrices, batches of matrices, vectors.

use rushlight_autograd::Tensor;
use rushlight_core::broadcast::{broadcast, can_broadcast, can_expand, hint, transposed, unsqueezed};
use rushlight_core::layout::{Shape, checked_numel};
use rushlight_core::{Dims, Error, Result, Scalar};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::op;
use rushlight_dispatch::operator::{
    Accepts, Args, Autocast, BackwardContext, BatchRule, BatchedCall, DTypes, Derivative, Implementation, Kernel,
    Operator, Out, Saves, Sparse, TensorSpec, Variants, formula, operator,
};
use rushlight_dispatch::saved_meta::SavedMeta;
use rushlight_dispatch::value::{Arg, Ints, Output, sizes_value};
use rushlight_dispatch::vmap::{RuleResult, merge_batch, one_result, split_batch, unsqueeze_to_rank};

use super::{Matrix, PRODUCT_KERNEL, PRODUCTS, by, check_dtype, check_product_dtype, product};
use crate::expr_ext::ExprExt;
use crate::view::reshape::reshaped_fresh;
use crate::view::squeeze::{SQUEEZE_DIM, SQUEEZED, UNSQUEEZE};
use crate::view::transpose::TRANSPOSE;

/// A matrix times an operand.
fn multiply(args: &Args, operands: [Arg; 2], results: &[Tensor]) -> Result<()> {
    multiply_as(args, operands, Matrix::of(&results[0]))
}

/// The result of a product of vectors viewed as matrices, regardless of its own rank.
fn multiply_as(args: &Args, [first, second]: [Arg; 2], out: Matrix) -> Result<()> {
    product(out, Scalar::ONE, Matrix::row(args.tensor(first)?), Matrix::column(args.tensor(second)?), None)
}

/// torch's error for two matrices that do not fit; the hint also considers a product to which the addend expands.
pub fn check_shapes(a: &Tensor, b: &Tensor, addend: &[isize]) -> Result<()> {
    let (own, other) = (a.sizes(), b.sizes());
    if own[1] == other[0] {
        return Ok(());
    }
    let fits = |x: &[isize], y: &[isize]| match (x, y) {
        ([rows, inner], [other, columns]) => inner == other && can_expand(addend, &[*rows, *columns]),
        _ => false,
    };
    Err(shape_error(own, other).fit(
        hint([transposed, unsqueezed], [own, other], ["mat1", "mat2"], fits)
            .unwrap_or_else(|| "The first must have as many columns as the second has rows.".into()),
    ))
}

#[cold]
pub fn shape_error(a: &[isize], b: &[isize]) -> Error {
    Error::runtime(format!("mat1 and mat2 shapes cannot be multiplied ({} and {})", by(a), by(b))).shapes([a, b])
}

/// The nearest change that makes two operands multipliable, each of one dimension or more.
fn advice(a: &[isize], b: &[isize]) -> String {
    hint([transposed, unsqueezed], [a, b], ["self", "other"], multiply_quietly).unwrap_or_else(|| {
        "The first must have as many columns as the second has rows, and batches must broadcast.".into()
    })
}

/// Whether `matmul` accepts two shapes.
fn multiply_quietly(a: &[isize], b: &[isize]) -> bool {
    let (Some((columns, x)), Some((&last, y))) = (a.split_last(), b.split_last()) else { return false };
    let (rows, y) = y.split_last().map_or((last, y), |(&rows, batch)| (rows, batch));
    *columns == rows && can_broadcast(x.split_last().map_or(x, |(_, batch)| batch), y)
}

#[operator]
pub static MM: Operator = Operator {
    name: "mm",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, Tensor mat2) -> Tensor",
    doc: "The product of two matrices.

    >>> torch.mm(torch.tensor([[1, 2], [3, 4]]), torch.tensor([[5], [6]]))
    tensor([[17],
            [39]])",
    out: Out::EXACT,
    dtypes: PRODUCTS,
    autocast: Autocast::LowerPrecision.everywhere(),
    sparse: Sparse::CompositeImplicit,
    batch_rule: BatchRule::Custom(batched_mm),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let (a, b) = (args.tensor(INPUT)?, args.tensor(MAT2)?);
            if a.rank() != 2 {
                return Err(Error::runtime("self must be a matrix"));
            }
            if b.rank() != 2 {
                return Err(Error::runtime("mat2 must be a matrix"));
            }
            check_shapes(a, b, &[])?;
            if a.dtype() != b.dtype() {
                return Err(Error::runtime(format!(
                    "expected m1 and m2 to have the same dtype, but got: {} != {}",
                    a.dtype().c_name(),
                    b.dtype().c_name()
                )));
            }
            check_product_dtype(a.dtype())?;
            Ok(vec![TensorSpec::new(&[a.sizes()[0], b.sizes()[1]], a.dtype(), a)])
        },
        |args, results| multiply(args, [INPUT, MAT2], results),
    )),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(MAT2), |d| gradient_of_first(d, INPUT, MAT2)),
        formula(MAT2, Saves::input(INPUT), |d| gradient_of_second(d, INPUT, MAT2)),
    ]),
    samples: &["t(3, 4), t(4, 2)", "t(3, 4).t(), t(3, 2)", "t(0, 4), t(4, 2)", "t(3, 0), t(0, 2)", "t(1, 5), t(5, 7)"],
    errors: &[
        ("t(3, 5), t(4, 6)", "RuntimeError", "mat1 and mat2 shapes cannot be multiplied (3x5 and 4x6)"),
        ("t(3), t(3, 3)", "RuntimeError", "self must be a matrix"),
        ("t(3, 3), t(3)", "RuntimeError", "mat2 must be a matrix"),
    ],
    reference: "np.matmul(self, mat2)",
    kernel_name: PRODUCT_KERNEL,
    ..Operator::BASE
};

/// The gradient of the first of two multiplied matrices. It is column-major if the matrix is, such as a transposed
/// weight: the leaf then keeps the gradient without a copy.
pub fn gradient_of_first(d: &BackwardContext, first: Arg, second: Arg) -> Expr {
    if d.meta(first).is_some_and(SavedMeta::is_column_major) {
        return d.input(second).conj().with_tensor(&MM, d.grad().across()).across();
    }
    d.grad().with_tensor(&MM, d.input(second).across().conj())
}

/// The gradient of the second.
pub fn gradient_of_second(d: &BackwardContext, first: Arg, second: Arg) -> Expr {
    if d.meta(second).is_some_and(SavedMeta::is_column_major) {
        return d.grad().across().with_tensor(&MM, d.input(first).conj()).across();
    }
    d.input(first).across().conj().with_tensor(&MM, d.grad())
}

/// Sizes of the product of two batches, which broadcast.
fn batched_sizes(a: &Tensor, b: &Tensor) -> Result<Dims> {
    let (x, y) = (a.sizes(), b.sizes());
    if x.len() < 2 || y.len() < 2 {
        return Err(Error::runtime(format!("{} and {} are not both batches of matrices", Shape(x), Shape(y))));
    }
    let mut sizes = broadcast(&x[..a.rank() - 2], &y[..b.rank() - 2])?;
    if x[a.rank() - 1] != y[b.rank() - 2] {
        let batch: isize = sizes.iter().product();
        return Err(Error::runtime(format!(
            "Expected size for first two dimensions of batch2 tensor to be: [{batch}, {}] but got: [{batch}, {}].",
            x[a.rank() - 1],
            y[b.rank() - 2]
        ))
        .shapes([x.as_slice(), y.as_slice()]));
    }
    sizes.extend([x[a.rank() - 2], y[b.rank() - 1]]);
    Ok(sizes)
}

fn check_batched(a: &Tensor, b: &Tensor) -> Result<()> {
    check_dtype("bmm", a.dtype())?;
    if a.dtype() != b.dtype() {
        return Err(Error::runtime(format!(
            "expected scalar type {} but found {}",
            a.dtype().display_name(),
            b.dtype().display_name()
        )));
    }
    Ok(())
}

/// Checks `batch1` and `batch2` as torch does.
pub fn check_batches(a: &Tensor, b: &Tensor, addend: &[isize]) -> Result<()> {
    if a.rank() != 3 {
        return Err(Error::runtime("batch1 must be a 3D tensor"));
    }
    if b.rank() != 3 {
        return Err(Error::runtime("batch2 must be a 3D tensor"));
    }
    let (x, y) = (a.sizes(), b.sizes());
    if x[0] != y[0] || x[2] != y[1] {
        return Err(Error::runtime(format!(
            "Expected size for first two dimensions of batch2 tensor to be: [{}, {}] but got: [{}, {}].",
            x[0], x[2], y[0], y[1]
        ))
        .shapes([x.as_slice(), y.as_slice()])
        .fit(batched_advice(x, y, addend)));
    }
    Ok(())
}

/// The size of a dimension; an error if the tensor does not have it.
pub fn size_of(tensor: &Tensor, dim: i64) -> Result<isize> {
    if tensor.rank() == 0 {
        return Err(Error::index(format!("Dimension specified as {dim} but tensor has no dimensions")));
    }
    rushlight_core::layout::wrap_dim(dim, tensor.rank()).map(|dim| tensor.sizes()[dim])
}

/// The nearest change that makes two batches multipliable, which do not broadcast.
fn batched_advice(a: &[isize], b: &[isize], addend: &[isize]) -> String {
    let fits = |x: &[isize], y: &[isize]| match (x, y) {
        ([m, rows, inner], [n, other, columns]) => {
            m == n && inner == other && can_expand(addend, &[*m, *rows, *columns])
        }
        _ => false,
    };
    hint([transposed, unsqueezed], [a, b], ["batch1", "batch2"], fits).unwrap_or_else(|| {
        match (a[0] == b[0], a[2] == b[1]) {
            (false, true) => "Batches must have the same length; torch.matmul broadcasts a batch of one.".into(),
            (true, false) => "batch1 must have as many columns as batch2 has rows.".into(),
            _ => "Batches must have the same length, and batch1 as many columns as batch2 has rows.".into(),
        }
    })
}

#[operator]
pub static BMM: Operator = Operator {
    name: "bmm",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, Tensor mat2) -> Tensor",
    doc: "Products of the matrices of two batches, pair by pair.

    >>> torch.bmm(torch.ones(2, 1, 3), torch.ones(2, 3, 1))
    tensor([[[3.]],
    <BLANKLINE>
            [[3.]]])",
    out: Out::EXACT,
    dtypes: DTypes::NUMBERS,
    autocast: Autocast::LowerPrecision.everywhere(),
    sparse: Sparse::CompositeImplicit,
    batch_rule: BatchRule::Custom(|batch| batched_products(batch, [INPUT, MAT2])),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let (a, b) = (args.tensor(INPUT)?, args.tensor(MAT2)?);
            check_batches(a, b, &[])?;
            check_batched(a, b)?;
            Ok(vec![TensorSpec::new(&[a.sizes()[0], a.sizes()[1], b.sizes()[2]], a.dtype(), a)])
        },
        |args, results| multiply(args, [INPUT, MAT2], results),
    )),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(MAT2), |d| d.grad().with_tensor(&BMM, d.input(MAT2).adjoint())),
        formula(MAT2, Saves::input(INPUT), |d| d.input(INPUT).adjoint().with_tensor(&BMM, d.grad())),
    ]),
    samples: &[
        "t(2, 3, 4), t(2, 4, 5)",
        "t(2, 4, 3).transpose(1, 2), t(2, 4, 5)",
        "t(0, 3, 4), t(0, 4, 5)",
        "t(2, 3, 0), t(2, 0, 5)",
    ],
    errors: &[
        ("t(3, 4), t(2, 4, 3)", "RuntimeError", "batch1 must be a 3D tensor"),
        ("t(2, 3, 4), t(4, 3)", "RuntimeError", "batch2 must be a 3D tensor"),
        (
            "t(2, 3, 4), t(3, 4, 3)",
            "RuntimeError",
            "Expected size for first two dimensions of batch2 tensor to be: [2, 4] but got: [3, 4].",
        ),
    ],
    reference: "np.matmul(self, mat2)",
    kernel_name: "baddbmm_with_gemm",
    ..Operator::BASE
};

/// `matmul` of two operands with batches: the batches broadcast without copies.
#[operator]
pub static BATCHED: Operator = Operator {
    name: "_matmul",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor other) -> Tensor",
    doc: "Products of the matrices of two batches, which broadcast.

    >>> torch._matmul(torch.ones(2, 1, 1, 3), torch.ones(4, 3, 1)).shape
    torch.Size([2, 4, 1, 1])",
    dtypes: DTypes::NUMBERS,
    batch_rule: BatchRule::Custom(|batch| batched_products(batch, [INPUT, OTHER])),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let (a, b) = (args.tensor(INPUT)?, args.tensor(OTHER)?);
            let sizes = batched_sizes(a, b)?;
            check_batched(a, b)?;
            Ok(vec![TensorSpec::new(&sizes, a.dtype(), a)])
        },
        |args, results| multiply(args, [INPUT, OTHER], results),
    )),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(OTHER), |d| d.grad().matmul(d.input(OTHER).adjoint())),
        formula(OTHER, Saves::input(INPUT), |d| d.input(INPUT).adjoint().matmul(d.grad())),
    ]),
    node: "BmmBackward0",
    samples: &["t(2, 1, 3, 4), t(5, 4, 2)", "t(2, 3, 4), t(1, 4, 5)", "t(3, 4), t(2, 4, 5)"],
    reference: "np.matmul(self, other)",
    ..Operator::BASE
};

#[operator]
pub static MV: Operator = Operator {
    name: "mv",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, Tensor vec) -> Tensor",
    doc: "The product of a matrix with a vector.

    >>> torch.mv(torch.tensor([[1, 2], [3, 4]]), torch.tensor([5, 6]))
    tensor([17, 39])",
    out: Out::EXACT,
    dtypes: DTypes::NUMBERS,
    autocast: Autocast::LowerPrecision.on_cuda_alone(),
    sparse: Sparse::CompositeImplicit,
    batch_rule: BatchRule::Custom(batched_mv),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let (a, v) = (args.tensor(INPUT)?, args.tensor(VEC)?);
            if a.rank() != 2 || v.rank() != 1 {
                size_of(a, 0)?;
                let rank = a.rank().min(1).max(usize::from(a.rank() == 2));
                return Err(Error::runtime(format!(
                    "vector + matrix @ vector expected, got {rank}, {}, {}",
                    a.rank(),
                    v.rank()
                )));
            }
            let (x, y) = (a.sizes(), v.sizes());
            if x[1] != y[0] {
                return Err(Error::runtime(format!(
                    "size mismatch, got input ({}), mat ({}), vec ({})",
                    x[0],
                    by(x),
                    y[0]
                ))
                .hint("The vector must have as many elements as the matrix has columns.")
                .shapes([x.as_slice(), y.as_slice()]));
            }
            if a.dtype() != v.dtype() {
                return Err(Error::runtime(format!(
                    "addmv input tensors must have the same dtype, but got {1}, {0}, and {1}",
                    a.dtype().display_name(),
                    v.dtype().display_name()
                )));
            }
            check_dtype("addmv_impl_cpu", a.dtype())?;
            Ok(vec![TensorSpec::new(&x[..1], a.dtype(), a)])
        },
        |args, results| multiply_as(args, [INPUT, VEC], Matrix::column(&results[0])),
    )),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(VEC), |d| d.grad().outer(d.input(VEC).conj())),
        formula(VEC, Saves::input(INPUT), |d| d.input(INPUT).adjoint().with_tensor(&MV, d.grad())),
    ]),
    samples: &["t(3, 4), t(4)", "t(4, 3).t(), t(4)", "t(0, 4), t(4)", "t(3, 0), t(0)"],
    errors: &[
        ("t(3, 3), t(4)", "RuntimeError", "size mismatch, got input (3), mat (3x3), vec (4)"),
        ("t(3), t(3)", "RuntimeError", "vector + matrix @ vector expected, got 1, 1, 1"),
    ],
    reference: "np.matmul(self, vec)",
    kernel_name: "addmv_impl_cpu",
    ..Operator::BASE
};

fn infer_dot(args: &Args, second: Arg) -> Result<Vec<TensorSpec>> {
    let (a, b) = (args.tensor(Arg::FIRST)?, args.tensor(second)?);
    if a.rank() != 1 || b.rank() != 1 {
        return Err(Error::runtime(format!("1D tensors expected, but got {}D and {}D tensors", a.rank(), b.rank())));
    }
    if a.dtype() != b.dtype() {
        return Err(Error::runtime(format!(
            "dot : expected both vectors to have same dtype, but found {} and {}",
            a.dtype().display_name(),
            b.dtype().display_name()
        )));
    }
    if a.numel() != b.numel() {
        return Err(Error::runtime(format!(
            "inconsistent tensor size, expected tensor {} and src {} to have the same number of elements, but got {} and {} elements respectively",
            Shape(a.sizes()),
            Shape(b.sizes()),
            a.numel(),
            b.numel()
        ))
        .shapes([a.sizes().as_slice(), b.sizes().as_slice()]));
    }
    check_dtype("dot", a.dtype())?;
    Ok(vec![TensorSpec::new(&[], a.dtype(), a)])
}

#[operator]
pub static DOT: Operator = Operator {
    name: "dot",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, Tensor tensor) -> Tensor",
    doc: "The sum of the products of two vectors' elements.

    >>> torch.dot(torch.tensor([2, 3]), torch.tensor([2, 1]))
    tensor(7)",
    out: Out::new(Accepts::Same, &["result dtype {Out} does not match input dtype {Result}"]),
    dtypes: DTypes::NUMBERS,
    batch_rule: BatchRule::Custom(batched_dot),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| infer_dot(args, TENSOR),
        |args, results| {
            let out = Matrix { tensor: &results[0], layout: results[0].layout().unsqueeze(0).unsqueeze(0) };
            multiply_as(args, [INPUT, TENSOR], out)
        },
    )),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(TENSOR), |d| d.grad() * d.input(TENSOR).conj()),
        formula(TENSOR, Saves::input(INPUT), |d| d.grad() * d.input(INPUT).conj()),
    ]),
    autocast: Autocast::Promote.on_cuda_alone(),
    samples: &["t(4), t(4)", "t(0), t(0)", "t(1), t(1)"],
    errors: &[
        (
            "t(3), t(4)",
            "RuntimeError",
            "inconsistent tensor size, expected tensor [3] and src [4] to have the same number of elements, but got 3 and 4 elements respectively",
        ),
        ("t(3, 3), t(4)", "RuntimeError", "1D tensors expected, but got 2D and 1D tensors"),
    ],
    reference: "np.dot(self, tensor)",
    kernel_name: "dot",
    ..Operator::BASE
};

#[operator]
pub static VDOT: Operator = Operator {
    name: "vdot",
    node: "VdotBackward0",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, Tensor other) -> Tensor",
    doc: "The sum of the products of two vectors' elements, those of the first conjugated.

    >>> torch.vdot(torch.tensor([1 + 1j]), torch.tensor([1 + 1j]))
    tensor(2.+0.j)",
    out: Out::new(Accepts::Same, &["result dtype {Out} does not match input dtype {Result}"]),
    dtypes: DTypes::NUMBERS,
    implementation: Implementation::CompositeImplicit(|args| {
        infer_dot(args, OTHER)?;
        let conjugate = Expr::from(args.tensor(INPUT)?).conj().done()?;
        DOT.call([(&conjugate).into(), args.tensor(OTHER)?.into()])
    }),
    derivative: Derivative::CompositeImplicit,
    autocast: Autocast::Promote.on_cuda_alone(),
    samples: &["t(4), t(4)", "t(0), t(0)"],
    errors: &[("t(3, 3), t(4)", "RuntimeError", "1D tensors expected, but got 2D and 1D tensors")],
    reference: "np.vdot(self, other)",
    ..Operator::BASE
};

#[operator]
pub static MATMUL: Operator = Operator {
    name: "matmul",
    aliases: &["linalg.matmul"],
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, Tensor other) -> Tensor",
    doc: "The product `self @ other` of vectors, matrices or batches of matrices.

Two vectors give a number, a vector with a matrix counts as one row (left) or one column (right), and dimensions
before the last two are batches, which broadcast.

    >>> torch.matmul(torch.ones(2, 3), torch.tensor([1., 2., 3.]))
    tensor([6., 6.])",
    out: Out::EXACT.row_if(|args| matches!(ranks(args, [INPUT, OTHER]), (1, 2))),
    dtypes: DTypes::NUMBERS,
    autocast: Autocast::LowerPrecision.everywhere(),
    sparse: Sparse::CompositeImplicit,
    implementation: Implementation::CompositeImplicit(|args| {
        let (input, other) = (args.tensor(INPUT)?, args.tensor(OTHER)?);
        matmul(input, other).map(Output::Tensor).map_err(|error| with_matmul_hint(error, input, other))
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &[
        "t(3), t(3)",
        "t(2, 3), t(3)",
        "t(3), t(3, 4)",
        "t(2, 3), t(3, 4)",
        "t(5, 2, 3), t(3, 4)",
        "t(5, 2, 3), t(3)",
        "t(3), t(5, 3, 4)",
        "t(2, 3), t(5, 3, 4)",
        "t(2, 1, 2, 3), t(5, 3, 4)",
    ],
    errors: &[
        ("t(), t(3)", "RuntimeError", "both arguments to matmul need to be at least 1D, but they are 0D and 1D"),
        ("t(2, 3), t(4)", "RuntimeError", "size mismatch, got input (2), mat (2x3), vec (4)"),
        ("t(2), t(3, 4)", "RuntimeError", "mat1 and mat2 shapes cannot be multiplied (1x2 and 3x4)"),
        ("t(2, 3, 4), t(5, 2)", "RuntimeError", "mat1 and mat2 shapes cannot be multiplied (6x4 and 5x2)"),
        (
            "t(2, 3, 4), t(3, 4, 2)",
            "RuntimeError",
            "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0",
        ),
    ],
    reference: "np.matmul(self, other)",
    ..Operator::BASE
};

/// The numbers of dimensions of two arguments.
pub fn ranks(args: &Args, [first, second]: [Arg; 2]) -> (usize, usize) {
    let rank = |arg| args.tensor(arg).map_or(0, Tensor::rank);
    (rank(first), rank(second))
}

/// The error of a part, with a hint for the whole if the shapes are wrong.
#[cold]
fn with_matmul_hint(error: Error, input: &Tensor, other: &Tensor) -> Error {
    let (a, b) = (input.sizes(), other.sizes());
    if a.is_empty() || b.is_empty() || multiply_quietly(a, b) {
        return error;
    }
    error.shapes([a.as_slice(), b.as_slice()]).no_axis().fit(advice(a, b))
}

/// The product, composed of the parts that torch's graph shows.
pub fn matmul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    match (a.rank(), b.rank()) {
        (0, _) | (_, 0) => Err(Error::runtime(format!(
            "both arguments to matmul need to be at least 1D, but they are {}D and {}D",
            a.rank(),
            b.rank()
        ))),
        (1, 1) => op!(DOT, a, b),
        (2, 1) => op!(MV, a, b),
        (1, 2) => {
            let row = op!(MM, &op!(UNSQUEEZE, a, 0i64)?, b)?;
            op!(SQUEEZED, row, 0i64)
        }
        (2, 2) => op!(MM, a, b),
        // One matrix or vector for a whole batch: a single tall product.
        (rank, 1 | 2) => {
            let tall = fold(a)?;
            let result = if b.rank() == 1 { op!(MV, &tall, b)? } else { op!(MM, &tall, b)? };
            let mut sizes: Ints = a.sizes()[..rank - 1].iter().map(|&n| n as i64).collect();
            sizes.extend(b.sizes().get(1).map(|&n| n as i64));
            reshaped_fresh(&result, sizes)
        }
        (1, rank) => drop_dim(&op!(BATCHED, &as_row(a)?, b)?, rank - 2),
        _ => op!(BATCHED, a, b),
    }
}

fn as_row(vector: &Tensor) -> Result<Tensor> {
    op!(crate::view::RESHAPE, vector, Ints::from_slice(&[1, vector.numel() as i64]))
}

/// A new tensor without a dimension of size one.
fn drop_dim(fresh: &Tensor, dim: usize) -> Result<Tensor> {
    let mut sizes: Ints = fresh.sizes().iter().map(|&size| size as i64).collect();
    sizes.remove(dim);
    reshaped_fresh(fresh, sizes)
}

/// All dimensions but the last as one.
pub fn fold(tensor: &Tensor) -> Result<Tensor> {
    let last = tensor.sizes()[tensor.rank() - 1] as i64;
    let rows = checked_numel(&tensor.sizes()[..tensor.rank() - 1])? as i64;
    op!(crate::view::RESHAPE, tensor, Ints::from_slice(&[rows, last]))
}

/// `a @ b` for matrices: one product if all samples share the second matrix, else a batch of products.
fn batched_mm(batch: &BatchedCall) -> RuleResult {
    use MM::*;

    one_result(match (batch.differs_at(INPUT), batch.differs_at(MAT2)) {
        (true, false) => split_batch(&op!(MM, merge_batch(&batch.tensor(INPUT)?)?, batch.one(MAT2)?)?, batch.size),
        _ => op!(BMM, batch.tensor(INPUT)?, batch.tensor(MAT2)?),
    })
}

/// `a @ b` for batches, whose dimensions before the matrices broadcast.
fn batched_products(batch: &BatchedCall, [first, second]: [Arg; 2]) -> RuleResult {
    let rank = batch.args.tensor(first)?.rank().max(batch.args.tensor(second)?.rank());
    let side = |arg| batch.tensor(arg).map(|shown| unsqueeze_to_rank(&shown, rank));
    one_result(op!(BATCHED, side(first)?, side(second)?))
}

/// A matrix times a vector.
fn batched_mv(batch: &BatchedCall) -> RuleResult {
    use MV::*;

    one_result(match (batch.differs_at(INPUT), batch.differs_at(VEC)) {
        (true, false) => split_batch(&op!(MV, merge_batch(&batch.tensor(INPUT)?)?, batch.one(VEC)?)?, batch.size),
        (false, true) => op!(MM, batch.tensor(VEC)?, op!(TRANSPOSE, batch.one(INPUT)?, 0i64, 1i64)?),
        _ => {
            let columns = op!(UNSQUEEZE, batch.tensor(VEC)?, 2i64)?;
            op!(SQUEEZE_DIM, op!(BMM, batch.tensor(INPUT)?, columns)?, 2i64)
        }
    })
}

/// The product of two vectors.
fn batched_dot(batch: &BatchedCall) -> RuleResult {
    use DOT::*;

    one_result(match (batch.differs_at(INPUT), batch.differs_at(TENSOR)) {
        (true, false) => op!(MV, batch.tensor(INPUT)?, batch.one(TENSOR)?),
        (false, true) => op!(MV, batch.tensor(TENSOR)?, batch.one(INPUT)?),
        _ => {
            let row = op!(UNSQUEEZE, batch.tensor(INPUT)?, 1i64)?;
            let column = op!(UNSQUEEZE, batch.tensor(TENSOR)?, 2i64)?;
            op!(crate::view::RESHAPE, op!(BMM, row, column)?, sizes_value(&[batch.size]))
        }
    })
}
