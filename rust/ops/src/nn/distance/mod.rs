//! Lengths, distances and angles of vectors.

pub mod primitives;

use rushlight_autograd::Tensor;
use rushlight_core::broadcast::broadcast;
use rushlight_core::{DType, Dims, Error, Result};
use rushlight_dispatch::call::devices::check_devices;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{Autocast, DTypes, Derivative, Implementation, Operator, Variants, operator};
use rushlight_dispatch::value::{Ints, Output};
use rushlight_dispatch::{handled, op, value};

use self::primitives::{CDIST_ROWS, PDIST_ROWS, has_kernel};
use crate::create::c_text;
use crate::expr_ext::ExprExt;
use crate::pointwise::clamp::{CLAMP_MAX, CLAMP_MIN};
use crate::reduce::norm::VECTOR_NORM;
use crate::reduce::sum::SUM_DIM;
use crate::view::expand::EXPAND;

fn length(of: &Tensor, p: f64, dim: i64, keepdim: bool) -> Result<Tensor> {
    op!(VECTOR_NORM, of, p, Ints::from_slice(&[dim]), keepdim)
}

#[operator]
pub static NORMALIZE: Operator = Operator {
    name: "normalize",
    namespace: "nn.functional",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor input, float p=2.0, int dim=1, float eps=1e-12) -> Tensor",
    doc: "Divides by the norms along `dim`, so that they become one; norms below `eps` are raised to `eps`.

    >>> torch.nn.functional.normalize(torch.tensor([[3., 4.]]))
    tensor([[0.6000, 0.8000]])",
    dtypes: DTypes::INEXACT,
    implementation: Implementation::CompositeImplicit(|args| {
        let input = args.tensor(INPUT)?;
        let length = Expr::from(length(input, args.float(P)?, args.int(DIM)?, true)?);
        let raised = length.call(&CLAMP_MIN, [args.float(EPS)?.into()]);
        let wide = raised.call(&EXPAND, [value::sizes_value(input.sizes())]);
        (Expr::from(input) / wide).done().map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3)", "t(2, 3, 4), 1.0, -1", "t(3), 2.0, 0, 0.1"],
    errors: &[("t(3)", "IndexError", "Dimension out of range (expected to be in range of [-1, 0], but got 1)")],
    reference: "input / np.maximum((np.abs(input) ** p).sum(dim, keepdims=True) ** (1 / p), eps)",
    ..Operator::BASE
};

#[operator]
pub static COSINE_SIMILARITY: Operator = Operator {
    name: "cosine_similarity",
    namespace: "nn.functional",
    aliases: &["cosine_similarity"],
    variants: Variants::FUNCTION,
    signature: "(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
    doc: "The cosines of the angles between vectors along `dim`; norms below `eps` are raised to `eps`.

    >>> torch.nn.functional.cosine_similarity(torch.tensor([[1., 0.]]), torch.tensor([[1., 1.]]))
    tensor([0.7071])",
    dtypes: DTypes::NUMBERS,
    implementation: Implementation::CompositeImplicit(|args| {
        let dtype = rushlight_core::dtype::promote(args.tensor(X1)?.dtype(), args.tensor(X2)?.dtype())?;
        if !dtype.is_floating() {
            return Err(Error::runtime(format!(
                "expected common dtype to be floating point, yet common dtype is {}",
                dtype.display_name()
            )));
        }
        let (dim, eps) = (args.int(DIM)?, args.float(EPS)?);
        if eps.is_nan() || eps < 0.0 {
            return Err(Error::runtime(format!("eps must be non-negative, got: {}", c_text(eps))));
        }
        let sizes = broadcast(args.tensor(X1)?.sizes(), args.tensor(X2)?.sizes())?;
        // Each operand is expanded and reduced before they meet, which may be long.
        check_devices(args)?;
        let unit = |arg| -> Result<Expr> {
            let own = crate::convert::to_dtype(args.tensor(arg)?, dtype)?;
            let own = op!(EXPAND, &own, value::sizes_value(&sizes))?;
            let length = length(&own, 2.0, dim, true)?;
            // The limit does not affect the gradient, and an infinite length stays infinite.
            let missing = Expr::from(eps) - Expr::new(handled::detach(&length)).call(&CLAMP_MAX, [eps.into()]);
            let raised = Expr::from(&length) + missing;
            Ok(Expr::from(own) / raised)
        };
        (unit(X1)? * unit(X2)?).call(&SUM_DIM, [Ints::from_slice(&[dim]).into()]).done().map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    autocast: Autocast::Fp32.on_cuda_alone(),
    samples: &["real(2, 3) * 1.0, real(2, 3) * 1.0", "real(2, 3, 4) * 1.0, real(1, 3, 1) * 1.0, -1"],
    errors: &[
        ("t(2, 3), t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)"),
        (
            "t(2, 3), t(4)",
            "RuntimeError",
            "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1",
        ),
    ],
    reference: "(lambda a, b: (a * b).sum(dim) / np.sqrt((a * a).sum(dim) * (b * b).sum(dim)))(*np.broadcast_arrays(x1, x2))",
    ..Operator::BASE
};

#[operator]
pub static PAIRWISE_DISTANCE: Operator = Operator {
    name: "pairwise_distance",
    namespace: "nn.functional",
    aliases: &["pairwise_distance"],
    variants: Variants::FUNCTION,
    signature: "(Tensor x1, Tensor x2, float p=2.0, float eps=1e-06, bool keepdim=False) -> Tensor",
    doc: "The norms of `x1 - x2 + eps` along the last dimension.

    >>> torch.nn.functional.pairwise_distance(torch.tensor([[0., 0.]]), torch.tensor([[3., 4.]]))
    tensor([5.0000])",
    dtypes: DTypes::NUMBERS,
    implementation: Implementation::CompositeImplicit(|args| {
        let difference = (Expr::from(args.tensor(X1)?) - Expr::from(args.tensor(X2)?) + args.float(EPS)?).done()?;
        length(&difference, args.float(P)?, -1, args.bool(KEEPDIM)?).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3), t(2, 3)", "t(2, 3), t(3), 1.0, 0.1, True"],
    errors: &[(
        "t(2, 3), t(2, 4)",
        "RuntimeError",
        "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1",
    )],
    reference: "(np.abs(x1 - x2 + eps) ** p).sum(-1, keepdims=keepdim) ** (1 / p)",
    ..Operator::BASE
};

fn check_p(name: &str, p: f64) -> Result<()> {
    if p >= 0.0 { Ok(()) } else { Err(Error::runtime(format!("{name} only supports non-negative p values"))) }
}

/// Whether distances are computed from a product of matrices, which is faster and less exact. As in torch, this depends on
/// the number of rows unless the caller decides.
fn wants_product(a: &Tensor, b: &Tensor, mode: Option<&str>) -> Result<bool> {
    let rows = |input: &Tensor| input.sizes()[input.rank() - 2];
    match mode {
        None | Some("use_mm_for_euclid_dist_if_necessary") => Ok(rows(a) > 25 || rows(b) > 25),
        Some("use_mm_for_euclid_dist") => Ok(true),
        Some("donot_use_mm_for_euclid_dist") => Ok(false),
        Some(other) => Err(invalid_mode(other)),
    }
}

fn invalid_mode(mode: &str) -> Error {
    Error::value(format!("{mode} is not a valid value for compute_mode")).hint(
        "It must be 'use_mm_for_euclid_dist_if_necessary', 'use_mm_for_euclid_dist' or 'donot_use_mm_for_euclid_dist'.",
    )
}

/// Whether distances are computed so here.
fn by_product(a: &Tensor, b: &Tensor, mode: Option<&str>) -> Result<bool> {
    let is_computed = matches!(a.dtype(), DType::F32 | DType::F64);
    Ok(wants_product(a, b, mode)? && is_computed && a.numel() > 0 && b.numel() > 0)
}

/// The second tensor, if both have one dtype. As in torch, this matters only where there are numbers to compute with, and the
/// sentence is that of the way in which distances would be computed.
fn same_dtype(a: &Tensor, b: &Tensor, by_product: bool) -> Result<Tensor> {
    if a.dtype() == b.dtype() {
        return Ok(b.clone());
    }
    if a.numel() == 0 || b.numel() == 0 {
        return crate::convert::to_dtype(b, a.dtype());
    }
    Err(Error::runtime(if by_product {
        format!("expected m1 and m2 to have the same dtype, but got: {} != {}", a.dtype().c_name(), b.dtype().c_name())
    } else {
        format!("expected scalar type {} but found {}", a.dtype().display_name(), b.dtype().display_name())
    })
    .hint("Convert one of them, for example with `x2.to(x1.dtype)`."))
}

/// The roots of `|x|^2 - 2 x y + |y|^2`. Where rounding leaves nothing, distance and derivative are zero; NaN stays NaN.
fn product_distances(a: &Tensor, b: &Tensor) -> Expr {
    let squares = |input: &Tensor| {
        let squares = Expr::from(input).square();
        squares.call(&SUM_DIM, [Ints::from_slice(&[-1]).into(), true.into()])
    };
    let product = Expr::from(a).matmul(Expr::from(b).transposed()) * -2.0;
    let squared = product + squares(a) + squares(b).transposed();
    let meets = squared.clone().at_most(0i64);
    meets.clone().choose(0.0, meets.choose(1.0, squared).sqrt())
}

#[operator]
pub static CDIST: Operator = Operator {
    name: "cdist",
    node: "CdistBackward0",
    variants: Variants::FUNCTION,
    signature: "(Tensor x1, Tensor x2, float p=2.0, str compute_mode='use_mm_for_euclid_dist_if_necessary') -> Tensor",
    doc: "The distances between each vector of `x1` (its rows) and each of `x2`. The dimensions before the last two broadcast.

    >>> torch.cdist(torch.tensor([[0., 0.], [3., 4.]]), torch.tensor([[0., 0.]]))
    tensor([[0.],
            [5.]])",
    dtypes: DTypes::FLOATS,
    autocast: Autocast::Fp32.everywhere(),
    implementation: Implementation::CompositeImplicit(|args| {
        let (a, b, p) = (args.tensor(X1)?, args.tensor(X2)?, args.float(P)?);
        // The ways differ in torch's speed and rounding alone.
        let mode = args.str(COMPUTE_MODE)?;
        if !["use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"]
            .contains(&mode)
        {
            return Err(invalid_mode(mode));
        }
        for (name, input) in [("X1", a), ("X2", b)] {
            if input.rank() < 2 {
                let rank = input.rank();
                return Err(Error::runtime(format!("cdist only supports at least 2D tensors, {name} got: {rank}D")));
            }
        }
        let (left, right) = (a.sizes()[a.rank() - 1], b.sizes()[b.rank() - 1]);
        if left != right {
            return Err(Error::runtime(format!(
                "X1 and X2 must have the same number of columns. X1: {left} X2: {right}"
            )));
        }
        for (name, input) in [("X1", a), ("X2", b)] {
            if !input.dtype().is_floating() {
                let display_name = input.dtype().display_name();
                return Err(Error::runtime(format!(
                    "cdist only supports floating-point dtypes, {name} got: {display_name}"
                )));
            }
        }
        check_p("cdist", p)?;
        check_devices(args)?;
        let batch = broadcast(&a.sizes()[..a.rank() - 2], &b.sizes()[..b.rank() - 2])?;
        let b = &same_dtype(a, b, p == 2.0 && wants_product(a, b, args.optional_str(COMPUTE_MODE))?)?;
        if p == 2.0 && by_product(a, b, args.optional_str(COMPUTE_MODE))? {
            return product_distances(a, b).done().map(Output::Tensor);
        }
        if has_kernel(p, &[a, b]) {
            let wide = |input: &Tensor| {
                let matrix = &input.sizes()[input.rank() - 2..];
                let sizes: Dims = batch.iter().chain(matrix).copied().collect();
                Expr::from(input).call(&EXPAND, [value::sizes_value(&sizes)])
            };
            return op!(CDIST_ROWS, wide(a).done()?, wide(b).transposed().done()?, p).map(Output::Tensor);
        }
        let rows = op!(crate::view::squeeze::UNSQUEEZE, a, -2i64)?;
        let columns = op!(crate::view::squeeze::UNSQUEEZE, b, -3i64)?;
        let difference = (Expr::from(rows) - Expr::from(columns)).done()?;
        length(&difference, p, -1, false).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3), t(4, 3)", "t(2, 2, 3), t(4, 3), 1.0", "t(3, 2), t(4, 2), 2.0, 'use_mm_for_euclid_dist'"],
    errors: &[
        ("t(3), t(2, 3)", "RuntimeError", "cdist only supports at least 2D tensors, X1 got: 1D"),
        ("t(2, 3), t(2, 4)", "RuntimeError", "X1 and X2 must have the same number of columns. X1: 3 X2: 4"),
        ("t(2, 3), t(2, 3), -1", "RuntimeError", "cdist only supports non-negative p values"),
        (
            "torch.ones(2, 3), torch.ones(2, 3).double()",
            "RuntimeError",
            "expected scalar type Float but found Double",
        ),
        (
            "torch.ones(30, 3), torch.ones(2, 3).double()",
            "RuntimeError",
            "expected m1 and m2 to have the same dtype, but got: float != double",
        ),
        ("t(2, 3), t(2, 3), 2.0, None", "ValueError", "None is not a valid value for compute_mode"),
    ],
    reference: "(np.abs(x1[..., :, None, :] - x2[..., None, :, :]) ** p).sum(-1) ** (1 / p)",
    ..Operator::BASE
};

#[operator]
pub static PDIST: Operator = Operator {
    name: "pdist",
    node: "PdistBackward0",
    namespace: "nn.functional",
    aliases: &["pdist"],
    variants: Variants::FUNCTION,
    signature: "(Tensor input, float p=2.0) -> Tensor",
    doc: "The distances between each pair of rows.

    >>> torch.nn.functional.pdist(torch.tensor([[0., 0.], [3., 4.], [0., 4.]]))
    tensor([5., 4., 3.])",
    dtypes: DTypes::FLOATS,
    implementation: Implementation::CompositeImplicit(|args| {
        let (input, p) = (args.tensor(INPUT)?, args.float(P)?);
        if input.rank() != 2 {
            return Err(Error::runtime(format!("pdist only supports 2D tensors, got: {}D", input.rank())));
        }
        if !input.dtype().is_floating() {
            return Err(Error::runtime("pdist only supports floating-point dtypes"));
        }
        check_p("pdist", p)?;
        if has_kernel(p, &[input]) {
            return op!(PDIST_ROWS, input, p).map(Output::Tensor);
        }
        let n = input.sizes()[0] as i64;
        let pairs = op!(crate::create::constant::TRIU_INDICES, n, n, 1i64)?;
        let pairs = crate::convert::to_device(&pairs, input.device())?;
        let picked = |op: i64| -> Result<Tensor> {
            let places = op!(crate::view::narrow::SELECT, &pairs, 0i64, op)?;
            op!(crate::index::index_select::INDEX_SELECT, input, 0i64, &places)
        };
        let difference = (Expr::from(picked(0)?) - Expr::from(picked(1)?)).done()?;
        length(&difference, p, -1, false).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    autocast: Autocast::Fp32.on_cuda_alone(),
    samples: &["t(4, 3)", "t(3, 2), 1.0"],
    errors: &[
        ("t(3)", "RuntimeError", "pdist only supports 2D tensors, got: 1D"),
        ("t(3, 2), -1", "RuntimeError", "pdist only supports non-negative p values"),
    ],
    reference: "(np.abs(input[:, None] - input[None]) ** p).sum(-1)[np.triu_indices(len(input), 1)] ** (1 / p)",
    ..Operator::BASE
};
