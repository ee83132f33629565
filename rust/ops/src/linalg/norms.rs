//! Norms and condition numbers of matrices.

use rushlight_autograd::Tensor;
use rushlight_core::layout::wrap_dim;
use rushlight_core::{DType, Error, Result, Scalar};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Accepts, Args, Autocast, DTypes, Derivative, Implementation, Operator, Out, Variants, operator,
};
use rushlight_dispatch::value::{Ints, Output, Value};
use rushlight_dispatch::{create, op};

use super::dense::{batch_sizes, check_inexact, check_matrix, check_square, results};
use super::solve::INV_EX;
use super::svd::singular_values;
use crate::create::c_text;
use crate::expr_ext::ExprExt;
use crate::reduce::extreme::{AMAX, AMIN};
use crate::reduce::norm::{NORM, VECTOR_NORM, deferred};
use crate::reduce::sum::SUM_DIM;
use crate::view::squeeze::UNSQUEEZE;

#[operator]
pub static MATRIX_NORM: Operator = Operator {
    name: "matrix_norm",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, Scalar ord, int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    doc: "The norms of the matrices along two dimensions.

2 and -2 are the largest and the smallest singular value; 1 and -1 of the columns' sums, inf and -inf of the rows'.

    >>> torch.linalg.matrix_norm(torch.tensor([[1., -2.], [3., 4.]]), 1)
    tensor(6.)",
    out: Out::new(Accepts::Same, &["linalg.matrix_norm expected out tensor dtype {Result} but got: {Out}"]),
    dtypes: DTypes::INEXACT,
    autocast: Autocast::Fp32.on_cuda_alone(),
    implementation: Implementation::CompositeImplicit(|args| {
        let order = args.scalar(ORD)?;
        if order.is_complex() {
            return Err(Error::runtime("linalg.matrix_norm: Expected a non-complex scalar as the order of norm."));
        }
        matrix_norm(args, Order::Number(order.f64())).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3, 2), 1", "t(3, 2), float('inf'), (0, 1), True", "t(2, 3, 2), -1, (0, 2)"],
    errors: &[
        ("t(3), 1", "RuntimeError", "linalg.matrix_norm: The input tensor A must have at least 2 dimensions."),
        ("t(2, 3), 3", "RuntimeError", "linalg.matrix_norm: Order 3 not supported."),
        ("t(2, 3), 1+2j", "RuntimeError", "linalg.matrix_norm: Expected a non-complex scalar as the order of norm."),
        ("t(2, 3), 1, (0,)", "RuntimeError", "linalg.matrix_norm: dim must be a 2-tuple. Got 0"),
        ("t(2, 3), 1, (0, 0)", "RuntimeError", "linalg.matrix_norm: dims must be different. Got (0, 0)"),
    ],
    ..Operator::BASE
};

#[operator]
pub static MATRIX_NORM_NAMED: Operator = Operator {
    name: "matrix_norm.str_ord",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, str ord='fro', int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    doc: "The Frobenius norm ('fro') or the nuclear norm ('nuc', the sum of singular values) of matrices.

    >>> torch.linalg.matrix_norm(torch.tensor([[3., 0.], [0., 4.]]))
    tensor(5.)",
    out: Out::new(Accepts::Same, &["linalg.matrix_norm expected out tensor dtype {Result} but got: {Out}"]),
    dtypes: DTypes::INEXACT,
    autocast: Autocast::Fp32.on_cuda_alone(),
    implementation: Implementation::CompositeImplicit(|args| {
        matrix_norm(args, Order::named(args.str(ORD)?)?).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3, 2)", "t(2, 3, 2), 'fro', (0, 1), True"],
    errors: &[("t(2, 3), 'x'", "RuntimeError", "linalg.matrix_norm: Order x not supported.")],
    reference: "np.linalg.norm(self, ord, tuple(dim), keepdim).astype(self.real.dtype) if dtype is None else None",
    ..Operator::BASE
};

#[operator]
pub static LINALG_NORM: Operator = Operator {
    name: "norm",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    doc: "The norm of vectors if `dim` is one dimension, of matrices if it is two, of all elements by default.

    >>> torch.linalg.norm(torch.tensor([3., 4.]))
    tensor(5.)",
    out: Out::new(Accepts::Same, &["linalg.norm expected out tensor dtype {Result} but got: {Out}"]),
    dtypes: DTypes::INEXACT,
    implementation: Implementation::CompositeImplicit(|args| {
        let is_complex = args.optional_scalar(ORD).is_some_and(Scalar::is_complex);
        if is_complex && args.optional_ints(DIM).map_or(args.tensor(INPUT)?.rank() == 2, |dims| dims.len() == 2) {
            return Err(Error::runtime("linalg.matrix_norm: Expected a non-complex scalar as the order of norm."));
        }
        let ord = args.optional_scalar(ORD).map(crate::reduce::norm::real_order).transpose()?;
        norm(args, ord.map(Order::Number)).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    autocast: Autocast::Fp32.on_cuda_alone(),
    samples: &["t(3, 2)", "t(3), 1", "t(3, 2), 1", "t(3, 2), 3, 0", "t(2, 3, 2), float('inf'), (0, 2), True"],
    errors: &[
        (
            "t(2, 3, 4), 2",
            "RuntimeError",
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got 3D.",
        ),
        (
            "t(2, 3, 4), 2, (0, 1, 2)",
            "RuntimeError",
            "linalg.norm: If dim is specified, it must be of length 1 or 2. Got [0, 1, 2]",
        ),
    ],
    ..Operator::BASE
};

#[operator]
pub static LINALG_NORM_NAMED: Operator = Operator {
    name: "norm.ord_str",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, str ord, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    doc: "The Frobenius norm ('fro') or the nuclear norm ('nuc') of matrices.

    >>> torch.linalg.norm(torch.tensor([[3., 0.], [0., 4.]]), 'fro')
    tensor(5.)",
    out: Out::new(Accepts::Same, &["linalg.norm expected out tensor dtype {Result} but got: {Out}"]),
    dtypes: DTypes::INEXACT,
    implementation: Implementation::CompositeImplicit(|args| {
        norm(args, Some(Order::named(args.str(ORD)?)?)).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    autocast: Autocast::Fp32.on_cuda_alone(),
    samples: &["t(3, 2), 'fro'"],
    ..Operator::BASE
};

#[operator]
pub static NUCLEAR_NORM: Operator = Operator {
    name: "nuclear_norm",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, int[] dim=[-2, -1], bool keepdim=False) -> Tensor",
    doc: "The sum of singular values of matrices.

    >>> torch.nuclear_norm(torch.tensor([[3., 0.], [0., 4.]]))
    tensor(7.)",
    out: Out::new(Accepts::Same, &["linalg.matrix_norm expected out tensor dtype {Result} but got: {Out}"]),
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.everywhere(),
    implementation: Implementation::CompositeImplicit(|args| {
        MATRIX_NORM_NAMED.call([
            args.tensor(INPUT)?.into(),
            "nuc".into(),
            args.ints(DIM)?.into(),
            args.bool(KEEPDIM)?.into(),
        ])
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3, 2)", "t(2, 3, 2), (0, 2), True"],
    errors: &[("t(3)", "RuntimeError", "linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")],
    reference: "np.linalg.norm(self, 'nuc', tuple(dim), keepdim)",
    ..Operator::BASE
};

#[operator]
pub static FROBENIUS_NORM: Operator = Operator {
    name: "frobenius_norm",
    node: "NormBackward1",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
    doc: "The norm of the elements along `dim`.

    >>> torch.frobenius_norm(torch.tensor([[3., 4.]]), 1)
    tensor([5.])",
    out: Out::EXACT,
    dtypes: DTypes::INEXACT,
    implementation: Implementation::CompositeImplicit(|args| {
        let dims = args.ints(DIM)?;
        if dims.len() > 2 {
            let count = dims.len();
            return Err(Error::runtime(format!("Expected at most 2 dimensions, but got {count} dimensions instead.")));
        }
        let dtype = args.tensor(INPUT)?.dtype();
        if !dtype.is_differentiable() {
            return Err(Error::runtime(format!(
                "norm(): input dtype should be either floating point or complex. Got {} instead.",
                dtype.display_name()
            )));
        }
        let input = args.tensor(INPUT)?;
        let norm = if input.is_sparse() { &NORM } else { &VECTOR_NORM };
        norm.call([input.into(), 2i64.into(), dims.into(), args.bool(KEEPDIM)?.into()])
    }),
    derivative: Derivative::CompositeImplicit,
    autocast: Autocast::Fp32.on_cuda_alone(),
    samples: &["t(3, 2), (0, 1)", "t(3, 2), 1, True"],
    errors: &[(
        "t(3, 3, 3), (0, 1, 2)",
        "RuntimeError",
        "Expected at most 2 dimensions, but got 3 dimensions instead.",
    )],
    ..Operator::BASE
};

#[operator]
pub static COND: Operator = Operator {
    name: "cond",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, Scalar? p=None) -> Tensor",
    doc: "The condition number of matrices: their norm times that of their inverse, by default the ratio of extreme singular values.

    >>> torch.linalg.cond(torch.tensor([[2., 0.], [0., 4.]]))
    tensor(2.)",
    out: Out::new(Accepts::Cast, &["linalg.cond: Expected result to be safely castable from {Result} dtype, but got result with dtype {Out}"]).known_as_real_first(),
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::CompositeImplicit(|args| {
        let a = args.tensor(INPUT)?;
        check_condition(a)?;
        if args.optional_scalar(P).is_some_and(Scalar::is_complex) {
            return Err(Error::runtime("value cannot be converted to type double without overflow"));
        }
        match args.optional_scalar(P).map(Scalar::f64) {
            None => spectral(a, 2.0),
            Some(p) if p.abs() == 2.0 => spectral(a, p),
            Some(p) if p.abs() == 1.0 || p.is_infinite() => by_inverse(a, &Scalar::Float(p).into(), &c_text(p)),
            Some(p) => Err(Error::runtime(format!("linalg.cond got an invalid norm type: {}", c_text(p))).hint("p must be None, 2, -2, 1, -1, inf, -inf, 'fro' or 'nuc'.")),
        }
        .map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3, 3) + torch.eye(3) * 4", "t(2, 3, 3) + torch.eye(3) * 4, 1", "t(3, 2), -2", "t(0, 0)"],
    errors: &[
        ("t(3)", "RuntimeError", "linalg.cond: The input tensor must have at least 2 dimensions."),
        ("t(2, 2), 3", "RuntimeError", "linalg.cond got an invalid norm type: 3"),
        ("t(2, 3), 1", "RuntimeError", "linalg.cond(ord=1): A must be batches of square matrices, but they are 2 by 3 matrices"),
    ],
    reference: "np.linalg.cond(self, p) if self.size else None",
    ..Operator::BASE
};

#[operator]
pub static COND_NAMED: Operator = Operator {
    name: "cond.p_str",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, str p) -> Tensor",
    doc: "The condition number of matrices in the Frobenius norm ('fro') or the nuclear norm ('nuc').

    >>> torch.linalg.cond(torch.eye(2), 'nuc')
    tensor(4.)",
    out: Out::new(
        Accepts::Cast,
        &["linalg.cond: Expected result to be safely castable from {Result} dtype, but got result with dtype {Out}"],
    )
    .known_as_real_first(),
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::CompositeImplicit(|args| {
        let (a, p) = (args.tensor(INPUT)?, args.str(P)?);
        check_condition(a)?;
        if !matches!(p, "fro" | "nuc") {
            return Err(Error::runtime(format!("linalg.cond got an invalid norm type: {p}"))
                .hint("p must be None, 2, -2, 1, -1, inf, -inf, 'fro' or 'nuc'."));
        }
        by_inverse(a, &p.into(), p).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3, 3) + torch.eye(3) * 4, 'fro'", "t(3, 3) + torch.eye(3) * 4, 'nuc'"],
    reference: "np.linalg.cond(self, p)",
    ..Operator::BASE
};

#[derive(Clone, Copy, PartialEq)]
enum Order {
    Number(f64),
    Frobenius,
    Nuclear,
}

impl Order {
    fn named(name: &str) -> Result<Order> {
        match name {
            "fro" => Ok(Order::Frobenius),
            "nuc" => Ok(Order::Nuclear),
            _ => Err(Error::runtime(format!("linalg.matrix_norm: Order {name} not supported."))),
        }
    }
}

fn matrix_norm(args: &Args, order: Order) -> Result<Tensor> {
    use MATRIX_NORM::*;

    let (a, dims) = (args.tensor(INPUT)?, args.ints(DIM)?);
    norm_over(a, order, dims, args.bool(KEEPDIM)?, args.dtype(DTYPE))
}

fn norm_over(a: &Tensor, order: Order, dims: &[i64], keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
    let name = "linalg.matrix_norm";
    if let Order::Number(number) = order
        && !(number.abs() == 1.0 || number.abs() == 2.0 || number.is_infinite())
    {
        return Err(Error::runtime(format!("{name}: Order {} not supported.", c_text(number))));
    }
    check_matrix(name, "A", a)?;
    check_inexact(name, a)?;
    let &[first, second] = dims else {
        return Err(Error::runtime(format!(
            "{name}: dim must be a 2-tuple. Got {}",
            dims.iter().map(i64::to_string).collect::<Vec<_>>().join(" ")
        )));
    };
    let (rows, cols) = (wrap_dim(first, a.rank())?, wrap_dim(second, a.rank())?);
    if rows == cols {
        return Err(Error::runtime(format!("{name}: dims must be different. Got ({first}, {second})")));
    }
    let a = match dtype {
        Some(dtype) => {
            check_wider(name, a, dtype)?;
            crate::convert::to_dtype(a, dtype)?
        }
        None => a.clone(),
    };
    let pair = [rows as i64, cols as i64];
    match order {
        Order::Frobenius => VECTOR_NORM.tensor([(&a).into(), 2i64.into(), pair[..].into(), keepdim.into()]),
        Order::Number(number) if number.abs() != 2.0 => {
            let (inner, outer) = if number.is_infinite() { (cols, rows) } else { (rows, cols) };
            let sums = op!(VECTOR_NORM, &a, 1i64, Ints::from_slice(&[inner as i64]), keepdim)?;
            let outer = if outer > inner && !keepdim { outer - 1 } else { outer } as i64;
            if number > 0.0 && sums.sizes()[outer as usize] == 0 {
                return op!(SUM_DIM, &sums, Ints::from_slice(&[outer]), keepdim);
            }
            let extreme = if number > 0.0 { &AMAX } else { &AMIN };
            extreme.tensor([(&sums).into(), Value::Ints(Ints::from_slice(&[outer])), keepdim.into()])
        }
        _ => {
            if a.dtype().is_half() {
                let name = a.dtype().display_name();
                return Err(Error::runtime(format!(
                    "linalg.matrix_norm: Low precision dtypes not supported. Got {name}"
                )));
            }
            let values =
                singular_values(&crate::view::transpose::permuted(&a, &last_two(a.rank(), rows, cols))?, None)?;
            let last = || Ints::from_slice(&[-1]);
            let found = match order {
                Order::Nuclear => op!(SUM_DIM, &values, last(), keepdim),
                Order::Number(2.0) if values.sizes().last() == Some(&0) => op!(SUM_DIM, &values, last(), keepdim),
                Order::Number(2.0) => op!(AMAX, &values, last(), keepdim),
                _ => op!(AMIN, &values, last(), keepdim),
            }?;
            if !keepdim {
                return Ok(found);
            }
            let mut back = vec![0; a.rank()];
            last_two(a.rank(), rows, cols).into_iter().enumerate().for_each(|(place, dim)| back[dim] = place);
            crate::view::transpose::permuted(&op!(UNSQUEEZE, &found, -1i64)?, &back)
        }
    }
}

/// The order of dimensions in which two come last.
fn last_two(rank: usize, rows: usize, cols: usize) -> Vec<usize> {
    (0..rank).filter(|dim| *dim != rows && *dim != cols).chain([rows, cols]).collect()
}

fn check_wider(name: &str, a: &Tensor, dtype: DType) -> Result<()> {
    if !dtype.is_differentiable() {
        return Err(Error::runtime(format!(
            "{name}: dtype should be floating point or complex. Got {}",
            dtype.display_name()
        )));
    }
    if a.dtype().is_complex() != dtype.is_complex() {
        let kind = if a.dtype().is_complex() { "complex" } else { "real" };
        return Err(Error::runtime(format!(
            "{name}: dtype should be {kind} for {kind} inputs, but got {}",
            dtype.display_name()
        )));
    }
    if dtype.size() < a.dtype().size() {
        return Err(Error::runtime(format!(
            "{name}: the dtype of the input ({}) should be convertible without narrowing to the specified dtype ({})",
            a.dtype().display_name(),
            dtype.display_name()
        )));
    }
    Ok(())
}

fn norm(args: &Args, order: Option<Order>) -> Result<Tensor> {
    use LINALG_NORM::*;

    let a = args.tensor(INPUT)?;
    let (dims, keepdim) = (args.optional_ints(DIM), args.bool(KEEPDIM)?);
    if let Some(dims) = dims
        && dims.len() != 1
        && dims.len() != 2
    {
        return Err(Error::runtime(format!(
            "linalg.norm: If dim is specified, it must be of length 1 or 2. Got {}",
            rushlight_core::layout::Shape(&rushlight_core::layout::to_dims(dims))
        )));
    }
    let matrix = match (order, dims) {
        (Some(_), None) if a.rank() != 1 && a.rank() != 2 => {
            return Err(Error::runtime(format!(
                "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {}D.",
                a.rank()
            )));
        }
        (Some(Order::Number(_)), None) => a.rank() == 2,
        (Some(Order::Number(_)), Some(dims)) => dims.len() == 2,
        (Some(_), _) => true,
        (None, _) => false,
    };
    if matrix && let Some(order) = order {
        return norm_over(a, order, dims.unwrap_or(&[-2, -1]), keepdim, args.dtype(DTYPE));
    }
    let number = match order {
        Some(Order::Number(number)) => number,
        _ => 2.0,
    };
    let dims = dims.map_or(Value::None, Value::from);
    let dtype = args.dtype(DTYPE).map_or(Value::None, Value::DType);
    VECTOR_NORM.tensor([a.into(), Scalar::Float(number).into(), dims, keepdim.into(), dtype])
}

fn check_condition(a: &Tensor) -> Result<()> {
    if a.rank() < 2 {
        return Err(Error::runtime("linalg.cond: The input tensor must have at least 2 dimensions."));
    }
    Ok(())
}

/// The largest singular value divided by the smallest, or the reverse.
fn spectral(a: &Tensor, p: f64) -> Result<Tensor> {
    if a.numel() == 0 {
        return create::zeros(batch_sizes(a), a.dtype().to_real(), a.device());
    }
    let values = singular_values(a, None)?;
    let k = values.sizes()[values.rank() - 1];
    let (first, last) = (|| Expr::from(&values).part(-1, 0, 1), || Expr::from(&values).part(-1, k - 1, 1));
    let ratio = if p > 0.0 { first() / last() } else { last() / first() };
    super::solve::drop_last(ratio.done()?)
}

/// The norm times that of the inverse; infinite if there is none.
fn by_inverse(a: &Tensor, p: &Value, name: &str) -> Result<Tensor> {
    check_square(&format!("linalg.cond(ord={name})"), a)?;
    if a.numel() == 0 {
        return create::zeros(batch_sizes(a), a.dtype().to_real(), a.device());
    }
    let op = if matches!(p, Value::Str(_)) { &MATRIX_NORM_NAMED } else { &MATRIX_NORM };
    let [inverse, infos] = results(INV_EX.call([a.into()])?)?;
    let singular = Expr::from(&infos).above(0i64).done()?;
    let safe = Expr::from(singular.clone()).along_rows().along_rows().choose(0.0, Expr::from(inverse)).done()?;
    let product = Expr::from(op.tensor([a.into(), p.clone()])?) * op.tensor([(&safe).into(), p.clone()])?;
    Expr::from(singular).choose(f64::INFINITY, product).done()
}

#[operator]
pub static NORM_NAMED: Operator = Operator {
    name: "norm.named",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, str p='fro', int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    doc: "The Frobenius norm, `p='fro'`, or the sum of singular values, `p='nuc'`.

    >>> torch.norm(torch.tensor([[3., 4.]]))
    tensor(5.)",
    dtypes: DTypes::INEXACT,
    implementation: Implementation::Delegate(|mut args| match args.str(P)? {
        // Sparse tensors have the older operator only.
        "fro" if args.tensor(INPUT)?.is_sparse() => {
            if args.dtype(DTYPE).is_some() {
                return Err(Error::value("dtype argument is not supported in frobenius norm"));
            }
            args.op = &NORM;
            args.set(P, Value::Scalar(Scalar::Int(2)));
            Ok(args)
        }
        "fro" if args.optional_ints(DIM).is_some_and(|dims| dims.len() > 2) => {
            args.op = &MATRIX_NORM_NAMED;
            Ok(args)
        }
        "fro" => deferred(args, Scalar::Int(2)),
        "nuc" => nuclear(args),
        other if args.tensor(INPUT)?.is_sparse() => {
            Err(Error::runtime(format!("only valid string values are 'fro' and 'nuc', found {other}")))
        }
        other => Err(Error::runtime(format!("linalg.matrix_norm: Order {other} not supported."))),
    }),
    derivative: Derivative::CompositeImplicit,
    autocast: Autocast::Fp32.on_cuda_alone(),
    samples: &["t(2, 3)", "t(2, 3), 'fro'", "t(2, 3), 'fro', 1"],
    errors: &[
        ("t(2, 3), 'abc'", "RuntimeError", "linalg.matrix_norm: Order abc not supported."),
        ("t(2, 2, 2), 'nuc'", "RuntimeError", "linalg.matrix_norm: dim must be a 2-tuple. Got 0 1 2"),
        ("t(2, 2, 2), dim=(0, 1, 2)", "RuntimeError", "linalg.matrix_norm: dim must be a 2-tuple. Got 0 1 2"),
        ("t(2, 2, 2), 'fro', (0, 1, 2)", "RuntimeError", "linalg.matrix_norm: dim must be a 2-tuple. Got 0 1 2"),
    ],
    reference: "np.linalg.norm(self, None, dim, keepdim)",
    ..Operator::BASE
};

fn nuclear(mut args: Args) -> Result<Args> {
    args.op = &MATRIX_NORM_NAMED;
    if !args.has(NORM_NAMED::DIM) {
        let all: Vec<i64> = (0..args.tensor(NORM_NAMED::INPUT)?.rank() as i64).collect();
        args.set(NORM_NAMED::DIM, Value::Ints(Ints::from_slice(&all)));
    }
    Ok(args)
}
