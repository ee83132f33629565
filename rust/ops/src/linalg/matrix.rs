//! Products of two operands: matrices, batches of matrices, vectors.

use rushlight_autograd::Tensor;
use rushlight_core::broadcast::{broadcast, broadcast_quietly, expands, stretched, turned, way_out};
use rushlight_core::layout::Shape;
use rushlight_core::{Dims, Error, Result, Scalar};

use super::{Matrix, by, check_dtype, product};
use crate::autocast::Autocast;
use crate::derive::{Derivative, Derive, Facts, Saves, formula};
use crate::expr::Expr;
use crate::mapped::Mapped;
use crate::op;
use crate::row::{Accepts, DTypes, Kernel, Out, Row, Run, Spec, Variants};
use crate::sparse::Sparse;
use crate::value::{Args, Ints, Output, Value};
use crate::view::reshape::reshaped_fresh;
use crate::view::squeeze::{SQUEEZED, UNSQUEEZE};

/// Matrix 0 times operand 1, without more.
fn multiply(args: &Args, results: &[Tensor]) -> Result<()> {
    product(Matrix::of(&results[0]), Scalar::ONE, Matrix::row(args.tensor(0)?), Matrix::column(args.tensor(1)?), None)
}

/// The result of a product of vectors seen as matrices, whatever its own rank.
fn multiply_as(args: &Args, out: Matrix) -> Result<()> {
    product(out, Scalar::ONE, Matrix::row(args.tensor(0)?), Matrix::column(args.tensor(1)?), None)
}

/// torch's sentence for two matrices that do not fit; the way out also has a product to which the addend expands.
pub fn check_shapes(a: &Tensor, b: &Tensor, addend: &[isize]) -> Result<()> {
    let (own, other) = (a.sizes(), b.sizes());
    if own[1] == other[0] {
        return Ok(());
    }
    let fits = |x: &[isize], y: &[isize]| match (x, y) {
        ([rows, inner], [other, columns]) => inner == other && expands(addend, &[*rows, *columns]),
        _ => false,
    };
    Err(misfit(own, other).fit(
        way_out([turned, stretched], [own, other], ["mat1", "mat2"], fits)
            .unwrap_or_else(|| "The columns of the first must be as many as the rows of the second.".into()),
    ))
}

#[cold]
pub fn misfit(a: &[isize], b: &[isize]) -> Error {
    Error::runtime(format!("mat1 and mat2 shapes cannot be multiplied ({} and {})", by(a), by(b))).shapes([a, b])
}

/// The nearest change that lets two operands be multiplied, each of one dimension or more.
fn advice(a: &[isize], b: &[isize]) -> String {
    way_out([turned, stretched], [a, b], ["self", "other"], multiply_quietly).unwrap_or_else(|| {
        "The columns of the first must be as many as the rows of the second, and batches must broadcast.".into()
    })
}

/// Whether `matmul` takes two shapes.
fn multiply_quietly(a: &[isize], b: &[isize]) -> bool {
    let (Some((columns, x)), Some((&last, y))) = (a.split_last(), b.split_last()) else { return false };
    let (rows, y) = y.split_last().map_or((last, y), |(&rows, batch)| (rows, batch));
    *columns == rows && broadcast_quietly(x.split_last().map_or(x, |(_, batch)| batch), y)
}

pub static MM: Row = Row {
    name: "mm",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, Tensor mat2) -> Tensor",
    doc: "The product of two matrices.

    >>> torch.mm(torch.tensor([[1, 2], [3, 4]]), torch.tensor([[5], [6]]))
    tensor([[17],
            [39]])",
    out: Out::EXACT,
    dtypes: DTypes::NUMBERS,
    autocast: Autocast::Lower,
    sparse: Sparse::Compose(crate::sparse::product::matmul),
    mapped: Mapped::Rule(super::mapped::mm),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let (a, b) = (args.tensor(0)?, args.tensor(1)?);
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
            check_dtype("addmm_impl_cpu_", a.dtype())?;
            Ok(vec![Spec::new(&[a.sizes()[0], b.sizes()[1]], a.dtype(), a)])
        },
        cpu: multiply,
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1), |d| gradient_of_first(d, 0)),
        formula(1, Saves::input(0), |d| gradient_of_second(d, 0)),
    ]),
    samples: &["t(3, 4), t(4, 2)", "t(3, 4).t(), t(3, 2)", "t(0, 4), t(4, 2)", "t(3, 0), t(0, 2)", "t(1, 5), t(5, 7)"],
    errors: &[
        ("t(3, 5), t(4, 6)", "RuntimeError", "mat1 and mat2 shapes cannot be multiplied (3x5 and 4x6)"),
        ("t(3), t(3, 3)", "RuntimeError", "self must be a matrix"),
        ("t(3, 3), t(3)", "RuntimeError", "mat2 must be a matrix"),
    ],
    reference: "np.matmul(self, mat2)",
    ..Row::BASE
};

/// The gradient of the first of two matrices that are multiplied, of which it stands at `place`. One that lies in memory
/// column by column, as a transposed weight does, has a gradient that lies so, which its leaf can keep as it is.
pub fn gradient_of_first(d: &Derive, place: usize) -> Expr {
    if d.facts(place).is_some_and(Facts::is_column_major) {
        return d.input(place + 1).conj().with_tensor(&MM, d.grad().across()).across();
    }
    d.grad().with_tensor(&MM, d.input(place + 1).across().conj())
}

/// The gradient of the second.
pub fn gradient_of_second(d: &Derive, place: usize) -> Expr {
    if d.facts(place + 1).is_some_and(Facts::is_column_major) {
        return d.grad().across().with_tensor(&MM, d.input(place).conj()).across();
    }
    d.input(place).across().conj().with_tensor(&MM, d.grad())
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
    if a.dtype() != b.dtype() {
        return Err(Error::runtime(format!(
            "expected scalar type {} but found {}",
            a.dtype().title(),
            b.dtype().title()
        )));
    }
    check_dtype("bmm", a.dtype())
}

/// `batch1` and `batch2` as torch checks them.
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

/// The nearest change that lets two batches be multiplied, which do not broadcast.
fn batched_advice(a: &[isize], b: &[isize], addend: &[isize]) -> String {
    let fits = |x: &[isize], y: &[isize]| match (x, y) {
        ([m, rows, inner], [n, other, columns]) => m == n && inner == other && expands(addend, &[*m, *rows, *columns]),
        _ => false,
    };
    way_out([turned, stretched], [a, b], ["batch1", "batch2"], fits).unwrap_or_else(|| {
        match (a[0] == b[0], a[2] == b[1]) {
            (false, true) => "Batches are of one length; torch.matmul broadcasts a batch of one.".into(),
            (true, false) => "batch1 needs as many columns as batch2 has rows.".into(),
            _ => "Batches are of one length, and batch1 has as many columns as batch2 has rows.".into(),
        }
    })
}

pub static BMM: Row = Row {
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
    autocast: Autocast::Lower,
    mapped: Mapped::Rule(super::mapped::batched),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let (a, b) = (args.tensor(0)?, args.tensor(1)?);
            check_batches(a, b, &[])?;
            check_batched(a, b)?;
            Ok(vec![Spec::new(&[a.sizes()[0], a.sizes()[1], b.sizes()[2]], a.dtype(), a)])
        },
        cpu: multiply,
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1), |d| d.grad().with_tensor(&BMM, d.input(1).adjoint())),
        formula(1, Saves::input(0), |d| d.input(0).adjoint().with_tensor(&BMM, d.grad())),
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
    ..Row::BASE
};

/// `matmul` of operands that have batches both: the batches broadcast without copies.
pub static BATCHED: Row = Row {
    name: "_matmul",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor other) -> Tensor",
    doc: "Products of the matrices of two batches, which broadcast.

    >>> torch._matmul(torch.ones(2, 1, 1, 3), torch.ones(4, 3, 1)).shape
    torch.Size([2, 4, 1, 1])",
    dtypes: DTypes::NUMBERS,
    mapped: Mapped::Rule(super::mapped::batched),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let (a, b) = (args.tensor(0)?, args.tensor(1)?);
            let sizes = batched_sizes(a, b)?;
            check_batched(a, b)?;
            Ok(vec![Spec::new(&sizes, a.dtype(), a)])
        },
        cpu: multiply,
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1), |d| d.grad().matmul(d.input(1).adjoint())),
        formula(1, Saves::input(0), |d| d.input(0).adjoint().matmul(d.grad())),
    ]),
    node: "BmmBackward0",
    samples: &["t(2, 1, 3, 4), t(5, 4, 2)", "t(2, 3, 4), t(1, 4, 5)", "t(3, 4), t(2, 4, 5)"],
    reference: "np.matmul(self, other)",
    ..Row::BASE
};

pub static MV: Row = Row {
    name: "mv",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, Tensor vec) -> Tensor",
    doc: "The product of a matrix with a vector.

    >>> torch.mv(torch.tensor([[1, 2], [3, 4]]), torch.tensor([5, 6]))
    tensor([17, 39])",
    out: Out::new(
        Accepts::Same,
        &["addmv input tensors must have the same dtype, but got {Out}, {Result}, and {Result}"],
    ),
    dtypes: DTypes::NUMBERS,
    sparse: Sparse::Compose(crate::sparse::product::matmul),
    mapped: Mapped::Rule(super::mapped::mv),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let (a, v) = (args.tensor(0)?, args.tensor(1)?);
            if a.rank() != 2 || v.rank() != 1 {
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
                .hint("The vector needs as many elements as the matrix has columns.")
                .shapes([x.as_slice(), y.as_slice()]));
            }
            if a.dtype() != v.dtype() {
                return Err(Error::runtime(format!(
                    "addmv input tensors must have the same dtype, but got {1}, {0}, and {1}",
                    a.dtype().title(),
                    v.dtype().title()
                )));
            }
            check_dtype("addmv_impl_cpu", a.dtype())?;
            Ok(vec![Spec::new(&x[..1], a.dtype(), a)])
        },
        cpu: |args, results| multiply_as(args, Matrix::column(&results[0])),
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1), |d| d.grad().with_tensor(&super::contract::OUTER, d.input(1).conj())),
        formula(1, Saves::input(0), |d| d.input(0).adjoint().with_tensor(&MV, d.grad())),
    ]),
    samples: &["t(3, 4), t(4)", "t(4, 3).t(), t(4)", "t(0, 4), t(4)", "t(3, 0), t(0)"],
    errors: &[
        ("t(3, 3), t(4)", "RuntimeError", "size mismatch, got input (3), mat (3x3), vec (4)"),
        ("t(3), t(3)", "RuntimeError", "vector + matrix @ vector expected, got 1, 1, 1"),
    ],
    reference: "np.matmul(self, vec)",
    ..Row::BASE
};

fn infer_dot(args: &Args) -> Result<Vec<Spec>> {
    let (a, b) = (args.tensor(0)?, args.tensor(1)?);
    if a.rank() != 1 || b.rank() != 1 {
        return Err(Error::runtime(format!("1D tensors expected, but got {}D and {}D tensors", a.rank(), b.rank())));
    }
    if a.dtype() != b.dtype() {
        return Err(Error::runtime(format!(
            "dot : expected both vectors to have same dtype, but found {} and {}",
            a.dtype().title(),
            b.dtype().title()
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
    Ok(vec![Spec::new(&[], a.dtype(), a)])
}

pub static DOT: Row = Row {
    name: "dot",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, Tensor tensor) -> Tensor",
    doc: "The sum of the products of two vectors' elements.

    >>> torch.dot(torch.tensor([2, 3]), torch.tensor([2, 1]))
    tensor(7)",
    out: Out::new(Accepts::Same, &["result dtype {Out} does not match input dtype {Result}"]),
    dtypes: DTypes::NUMBERS,
    mapped: Mapped::Rule(super::mapped::dot),
    run: Run::Kernel(Kernel {
        infer: infer_dot,
        cpu: |args, results| {
            let out = Matrix { tensor: &results[0], layout: results[0].layout().unsqueeze(0).unsqueeze(0) };
            multiply_as(args, out)
        },
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1), |d| d.grad() * d.input(1).conj()),
        formula(1, Saves::input(0), |d| d.grad() * d.input(0).conj()),
    ]),
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
    ..Row::BASE
};

pub static VDOT: Row = Row {
    name: "vdot",
    node: "VdotBackward0",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, Tensor other) -> Tensor",
    doc: "The sum of the products of two vectors' elements, those of the first conjugated.

    >>> torch.vdot(torch.tensor([1 + 1j]), torch.tensor([1 + 1j]))
    tensor(2.+0.j)",
    out: Out::new(Accepts::Same, &["result dtype {Out} does not match input dtype {Result}"]),
    dtypes: DTypes::NUMBERS,
    run: Run::Compose(|args| {
        infer_dot(args)?;
        let conjugate = Expr::from(args.tensor(0)?).conj().done()?;
        DOT.call([(&conjugate).into(), args.tensor(1)?.into()])
    }),
    derivative: Derivative::Composed,
    samples: &["t(4), t(4)", "t(0), t(0)"],
    errors: &[("t(3, 3), t(4)", "RuntimeError", "1D tensors expected, but got 2D and 1D tensors")],
    reference: "np.vdot(self, other)",
    ..Row::BASE
};

pub static MATMUL: Row = Row {
    name: "matmul",
    aliases: &["linalg.matmul"],
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, Tensor other) -> Tensor",
    doc: "The product `self @ other` of vectors, matrices or batches of matrices.

Two vectors give a number, a vector beside a matrix counts as one row (left) or one column (right), and dimensions
before the last two are batches, which broadcast.

    >>> torch.matmul(torch.ones(2, 3), torch.tensor([1., 2., 3.]))
    tensor([6., 6.])",
    out: Out::EXACT,
    dtypes: DTypes::NUMBERS,
    autocast: Autocast::Lower,
    sparse: Sparse::Compose(crate::sparse::product::matmul),
    run: Run::Compose(|args| {
        let (own, other) = (args.tensor(0)?, args.tensor(1)?);
        matmul(own, other).map(Output::Tensor).map_err(|error| unfit(error, own, other))
    }),
    derivative: Derivative::Composed,
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
    ..Row::BASE
};

/// The error of a part, with a way out for the whole where shapes are at fault.
#[cold]
fn unfit(error: Error, own: &Tensor, other: &Tensor) -> Error {
    let (a, b) = (own.sizes(), other.sizes());
    if a.is_empty() || b.is_empty() || multiply_quietly(a, b) {
        return error;
    }
    error.shapes([a.as_slice(), b.as_slice()]).no_axis().fit(advice(a, b))
}

/// The product in the parts that torch's graph shows.
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

/// Without a dimension of size one.
fn drop_dim(tensor: &Tensor, dim: usize) -> Result<Tensor> {
    let mut sizes = tensor.sizes().clone();
    sizes.remove(dim);
    crate::view::RESHAPE.tensor([Value::Tensor(tensor), crate::view::reshape::sizes_value(&sizes)])
}

/// All dimensions but the last as one.
pub fn fold(tensor: &Tensor) -> Result<Tensor> {
    let last = tensor.sizes()[tensor.rank() - 1] as i64;
    let rows = tensor.sizes()[..tensor.rank() - 1].iter().product::<isize>() as i64;
    op!(crate::view::RESHAPE, tensor, Ints::from_slice(&[rows, last]))
}
