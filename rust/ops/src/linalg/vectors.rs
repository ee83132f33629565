//! Products of vectors, and matrices constructed from them.

use rushlight_autograd::Tensor;
use rushlight_core::broadcast::broadcast;
use rushlight_core::layout::wrap_dim;
use rushlight_core::{DType, Error, Result, Scalar};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Accepts, Autocast, DTypes, Derivative, Implementation, Operator, Out, Variants, operator,
};
use rushlight_dispatch::value::{Ints, Output, Value, sizes_value};
use rushlight_dispatch::{create, op, warn_once};

use super::solve::{SOLVE, inverse};
use crate::convert::copy::CONTIGUOUS;
use crate::expr_ext::ExprExt;
use crate::reduce::sum::SUM_DIM;
use crate::view::reshape::reshaped_fresh;

#[operator]
pub static CROSS: Operator = Operator {
    name: "cross",
    node: "LinalgCrossBackward0",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, Tensor other, *, int dim=-1) -> Tensor",
    doc: "The cross product of 3-element vectors along `dim`.

    >>> torch.linalg.cross(torch.tensor([1, 0, 0]), torch.tensor([0, 1, 0]))
    tensor([0, 0, 1])",
    out: Out::STRICT,
    dtypes: DTypes::NUMBERS,
    implementation: Implementation::CompositeImplicit(|args| {
        cross(args.tensor(INPUT)?, args.tensor(OTHER)?, args.int(DIM)?).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    autocast: Autocast::Promote.on_cuda_alone(),
    samples: &["t(3), t(3)", "t(2, 3), t(1, 3)", "t(3, 2), t(3, 2), dim=0"],
    errors: &[
        ("t(4), t(4)", "RuntimeError", "linalg.cross: inputs dimension -1 must have length 3. Got 4 and 4"),
        ("t(3), t(4, 3)", "RuntimeError", "linalg.cross: inputs must have the same number of dimensions."),
        ("t(3), i(5, 3)", "RuntimeError", "expected scalar type Float but found Long"),
    ],
    reference: "np.cross(*np.broadcast_arrays(self, other), axis=dim)",
    ..Operator::BASE
};

#[operator]
pub static CROSS_OLD: Operator = Operator {
    name: "cross",
    node: "LinalgCrossBackward0",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, Tensor other, int? dim=None) -> Tensor",
    doc: "The cross product along `dim`, by default the first dimension of size three. `input` and `other` broadcast together.

    >>> torch.cross(torch.tensor([1, 0, 0]), torch.tensor([0, 1, 0]), dim=0)
    tensor([0, 0, 1])",
    out: Out::STRICT,
    dtypes: DTypes::NUMBERS,
    implementation: Implementation::CompositeImplicit(|args| {
        let input = args.tensor(INPUT)?;
        let dim = match args.optional_int(DIM) {
            Some(dim) => dim,
            None => {
                warn_once!(
                    "Using torch.cross without specifying the dim arg is deprecated.\nPlease either pass the dim explicitly or simply use torch.linalg.cross.\nThe default value of dim will change to agree with that of linalg.cross in a future release.",
                )?;
                let found = input.sizes().iter().position(|&size| size == 3);
                found.ok_or_else(|| {
                    Error::runtime("no dimension of size 3 in input")
                        .hint("Name the dimension of size 3 with torch.linalg.cross(a, b, dim=...).")
                })? as i64
            }
        };
        cross(input, args.tensor(OTHER)?, dim).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    autocast: Autocast::Promote.on_cuda_alone(),
    samples: &["t(2, 3), t(2, 3), 1", "t(3, 2), t(3, 2), 0"],
    errors: &[("t(2, 4), t(2, 4)", "RuntimeError", "no dimension of size 3 in input")],
    reference: "np.cross(self, other, axis=dim)",
    ..Operator::BASE
};

#[operator]
pub static VECDOT: Operator = Operator {
    name: "vecdot",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor x, Tensor y, *, int dim=-1) -> Tensor",
    doc: "Sums of products along `dim`, the elements of `x` conjugated.

    >>> torch.linalg.vecdot(torch.tensor([1., 2.]), torch.tensor([3., 4.]))
    tensor(11.)",
    out: Out::new(Accepts::Same, &["linalg.vecdot: Expected out of dtype{Result} but found {Out}"]).known_as_first(),
    dtypes: DTypes::INEXACT,
    autocast: Autocast::LowerPrecision.everywhere(),
    implementation: Implementation::CompositeImplicit(|args| {
        let (x, y) = (args.tensor(X)?, args.tensor(Y)?);
        super::dense::check_inexact("linalg.vecdot", x)?;
        if x.dtype() != y.dtype() {
            return Err(super::dense::different_dtypes("linalg.vecdot", "x", x, "y", y));
        }
        if x.rank() == 1 && y.rank() == 1 {
            return super::matrix::VDOT.call([x.into(), y.into()]);
        }
        let products = Expr::from(x).conj() * Expr::from(y);
        products.call(&SUM_DIM, [Ints::from_slice(&[args.int(DIM)?]).into()]).done().map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3), t(3)", "t(2, 3), t(2, 3)", "t(3, 2), t(3, 2), dim=0", "t(2, 3), t(1, 3)"],
    errors: &[(
        "i(3, 2), i(3, 2)",
        "RuntimeError",
        "linalg.vecdot: Expected a floating point or complex tensor as input. Got Long",
    )],
    reference: "np.sum(np.conj(x) * y, axis=dim)",
    ..Operator::BASE
};

#[operator]
pub static DIAGONAL: Operator = Operator {
    name: "diagonal",
    namespace: "linalg",
    variants: Variants::FUNCTION,
    signature: "(Tensor A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
    doc: "A view of the diagonals of matrices, as the last dimension.

    >>> torch.linalg.diagonal(torch.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])",
    dtypes: DTypes::ALL,
    implementation: Implementation::CompositeImplicit(|args| {
        let (offset, first, second) = (args.int(OFFSET)?, args.int(DIM1)?, args.int(DIM2)?);
        crate::view::diagonal::DIAGONAL.call([args.tensor(A)?.into(), offset.into(), first.into(), second.into()])
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3, 3)", "t(2, 3, 4), offset=1"],
    reference: "np.diagonal(A, offset, dim1, dim2)",
    ..Operator::BASE
};

#[operator]
pub static LINALG_VANDER: Operator = Operator {
    name: "vander",
    namespace: "linalg",
    variants: Variants::FUNCTION,
    signature: "(Tensor x, *, int? N=None) -> Tensor",
    doc: "Rows of the powers 0 to `N - 1` of each element.

    >>> torch.linalg.vander(torch.tensor([1, 2, 3]))
    tensor([[1, 1, 1],
            [1, 2, 4],
            [1, 3, 9]])",
    dtypes: DTypes::INTS.union(DTypes::DENSE),
    implementation: Implementation::CompositeImplicit(|args| {
        let x = &crate::index::gather::at_least_1d(args.tensor(X)?.layout());
        let x = &crate::view::RESHAPE.tensor([args.tensor(X)?.into(), sizes_value(&x.sizes)])?;
        if !DTypes::DENSE.has(x.dtype()) && !x.dtype().is_integral() {
            return Err(Error::runtime(format!(
                "linalg.vander supports floating point, complex, and integer tensors, but got {}",
                x.dtype().display_name()
            )));
        }
        let last = x.sizes().last().copied().unwrap_or(1);
        let n = args.optional_int(N).unwrap_or(last as i64);
        if n <= 1 {
            return Err(Error::runtime("N must be greater than 1."));
        }
        powers(x, n).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3)", "t(2, 3), N=2"],
    errors: &[("t(3), N=1", "RuntimeError", "N must be greater than 1.")],
    reference: "np.vander(x, N, increasing=True) if x.ndim == 1 else None",
    ..Operator::BASE
};

#[operator]
pub static VANDER: Operator = Operator {
    name: "vander",
    variants: Variants::FUNCTION,
    signature: "(Tensor x, int? N=None, bool increasing=False) -> Tensor",
    doc: "Rows of powers of each element, descending unless `increasing`.

    >>> torch.vander(torch.tensor([1, 2, 3]), 2)
    tensor([[1, 1],
            [2, 1],
            [3, 1]])",
    dtypes: DTypes::COMMON,
    implementation: Implementation::CompositeImplicit(|args| {
        let x = args.tensor(X)?;
        if x.rank() != 1 {
            return Err(Error::runtime("x must be a one-dimensional tensor."));
        }
        let n = args.optional_int(N).unwrap_or(x.numel() as i64);
        if n < 0 {
            return Err(Error::runtime("N must be non-negative."));
        }
        let grown = rushlight_core::dtype::promote(x.dtype(), DType::I64)?;
        let x = &if x.dtype() == DType::Bool { crate::convert::to_dtype(x, grown)? } else { x.clone() };
        let rows = if n == 0 { create::zeros(&[x.sizes()[0], 0], grown, x.device())? } else { powers(x, n)? };
        if args.bool(INCREASING)? {
            return Ok(Output::Tensor(rows));
        }
        op!(crate::join::flip::FLIP, &rows, Ints::from_slice(&[-1])).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3)", "t(3), 2, True", "t(3), 0"],
    errors: &[("t(2, 2)", "RuntimeError", "x must be a one-dimensional tensor.")],
    reference: "np.vander(x, N, increasing)",
    ..Operator::BASE
};

#[operator]
pub static TENSORINV: Operator = Operator {
    name: "tensorinv",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, int ind=2) -> Tensor",
    doc: "The inverse of the linear map `torch.tensordot(self, x, dims=ind)`.

    >>> torch.linalg.tensorinv(torch.eye(4).reshape(2, 2, 4), ind=2).shape
    torch.Size([4, 2, 2])",
    out: Out::new(
        Accepts::Cast,
        &["tensorinv: Expected result to be safely castable from {Result} dtype, but got result with dtype {Out}"],
    )
    .known_as_first(),
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::CompositeImplicit(|args| {
        let (input, ind) = (args.tensor(INPUT)?, args.int(IND)?);
        if ind < 1 {
            return Err(Error::runtime(
                "Expected a strictly positive integer for 'ind', but got ".to_owned() + &ind.to_string(),
            ));
        }
        let at = ind as usize;
        if at > input.rank() {
            return Err(Error::runtime(format!("ArrayRef: invalid slice, N = {at}; size = {}", input.rank())));
        }
        let (front, behind) = input.sizes().split_at(at);
        let (rows, cols) = (front.iter().product::<isize>(), behind.iter().product::<isize>());
        if rows != cols {
            return Err(Error::runtime(format!(
                "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got {cols} != {rows}"
            )));
        }
        let matrix = crate::view::RESHAPE.tensor([input.into(), sizes_value(&[rows, cols])])?;
        let sizes: Vec<isize> = behind.iter().chain(front).copied().collect();
        crate::view::RESHAPE.call([(&inverse(&matrix)?).into(), sizes_value(&sizes)])
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["(t(4, 4) + torch.eye(4) * 4).reshape(2, 2, 4), 2"],
    errors: &[("t(2, 2), 0", "RuntimeError", "Expected a strictly positive integer for 'ind', but got 0")],
    reference: "np.linalg.tensorinv(self, ind)",
    ..Operator::BASE
};

#[operator]
pub static TENSORSOLVE: Operator = Operator {
    name: "tensorsolve",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, Tensor other, int[]? dims=None) -> Tensor",
    doc: "The solution `X` of `torch.tensordot(self, X, X.ndim) == other`.

    >>> torch.linalg.tensorsolve(torch.eye(4).reshape(2, 2, 4), torch.ones(2, 2))
    tensor([1., 1., 1., 1.])",
    out: Out::new(
        Accepts::Cast,
        &["tensorsolve: Expected result to be safely castable from {Result} dtype, but got result with dtype {Out}"],
    )
    .known_as_first(),
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::CompositeImplicit(|args| {
        let (input, other) = (args.tensor(INPUT)?, args.tensor(OTHER)?);
        let input = match args.optional_ints(DIMS) {
            Some(dims) => {
                let moved = dims.iter().map(|&dim| wrap_dim(dim, input.rank())).collect::<Result<Vec<_>>>()?;
                let order: Vec<usize> =
                    (0..input.rank()).filter(|dim| !moved.contains(dim)).chain(moved.iter().copied()).collect();
                crate::view::transpose::permuted(input, &order)?
            }
            None => input.clone(),
        };
        let at = other.rank().min(input.rank());
        let (front, behind) = input.sizes().split_at(at);
        let (rows, cols) = (front.iter().product::<isize>(), behind.iter().product::<isize>());
        if rows != cols || cols != other.numel() as isize {
            let rows = other.numel();
            return Err(Error::runtime(format!(
                "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), but got {cols} != {rows}"
            )));
        }
        let matrix = crate::view::RESHAPE.tensor([(&input).into(), sizes_value(&[rows, cols])])?;
        let vector = crate::view::RESHAPE.tensor([other.into(), sizes_value(&[other.numel() as isize])])?;
        crate::view::RESHAPE.call([(&op!(SOLVE, &matrix, &vector)?).into(), sizes_value(behind)])
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &[
        "(t(4, 4) + torch.eye(4) * 4).reshape(2, 2, 4), t(2, 2)",
        "(t(4, 4) + torch.eye(4) * 4).reshape(2, 4, 2), t(2, 2), (1,)",
    ],
    errors: &[(
        "t(2, 3), t(2)",
        "RuntimeError",
        "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), but got 3 != 2",
    )],
    reference: "np.linalg.tensorsolve(self, other, dims)",
    ..Operator::BASE
};

#[operator]
pub static KRON: Operator = Operator {
    name: "kron",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, Tensor other) -> Tensor",
    doc: "The Kronecker product: every element of `self` times the whole of `other`.

    >>> torch.kron(torch.tensor([1, 10]), torch.tensor([1, 2]))
    tensor([ 1,  2, 10, 20])",
    out: Out::new(Accepts::Cast, &["result type {Result} can't be cast to the desired output type {Out}"]),
    implementation: Implementation::CompositeImplicit(|args| {
        let (a, b) = (args.tensor(INPUT)?, args.tensor(OTHER)?);
        let rank = a.rank().max(b.rank());
        let padded = |tensor: &Tensor, dim: usize| match (dim + tensor.rank()).checked_sub(rank) {
            Some(own) => tensor.sizes()[own],
            None => 1,
        };
        let (mut own, mut other, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
        for dim in 0..rank {
            let (x, y) = (padded(a, dim), padded(b, dim));
            own.extend([x, 1]);
            other.extend([1, y]);
            sizes.push(x.saturating_mul(y));
        }
        let shaped =
            |tensor: &Tensor, sizes: &[isize]| crate::view::RESHAPE.tensor([tensor.into(), sizes_value(sizes)]);
        let product = op!(crate::pointwise::arith::MUL, &shaped(a, &own)?, &shaped(b, &other)?)?;
        reshaped_fresh(&product, sizes.into_iter().map(|size| size as i64).collect()).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3), t(3, 2)", "t(2), t(2, 3)", "t(), t(2)"],
    errors: &[("t(3), 3", "TypeError", "kron(): argument 'other' (position 2) must be Tensor, not int")],
    reference: "np.kron(self, other)",
    ..Operator::BASE
};

fn cross(a: &Tensor, b: &Tensor, dim: i64) -> Result<Tensor> {
    if a.rank() != b.rank() {
        return Err(Error::runtime("linalg.cross: inputs must have the same number of dimensions."));
    }
    let axis = wrap_dim(dim, a.rank())?;
    if a.rank() == 0 || a.sizes()[axis] != 3 || b.sizes()[axis] != 3 {
        let size = |tensor: &Tensor| tensor.sizes().get(axis).copied().unwrap_or(1);
        return Err(Error::runtime(format!(
            "linalg.cross: inputs dimension {dim} must have length 3. Got {} and {}",
            size(a),
            size(b)
        )));
    }
    let sizes = broadcast(a.sizes(), b.sizes())?;
    let stretch = |tensor: &Tensor| crate::view::expand::EXPAND.tensor([tensor.into(), sizes_value(&sizes)]);
    let rolled = |tensor: &Tensor, by: i64| {
        crate::join::flip::ROLL.tensor([
            tensor.into(),
            Ints::from_slice(&[by]).into(),
            Ints::from_slice(&[axis as i64]).into(),
        ])
    };
    let (a, b) = (op!(CONTIGUOUS, &stretch(a)?)?, op!(CONTIGUOUS, &stretch(b)?)?);
    let dtype = a.dtype();
    if !DTypes::NUMBERS.has(dtype) {
        return Err(Error::unsupported("cross", dtype));
    }
    if b.dtype() != dtype {
        return Err(Error::runtime(format!(
            "expected scalar type {} but found {}",
            dtype.display_name(),
            b.dtype().display_name()
        )));
    }
    (Expr::from(rolled(&a, -1)?) * rolled(&b, -2)? - Expr::from(rolled(&a, -2)?) * rolled(&b, -1)?).done()
}

/// The dtype of cumulative products of `x`.
fn grown_dtype(x: &Tensor) -> DType {
    if x.dtype().is_integral() { DType::I64 } else { x.dtype() }
}

/// Powers 0 to `n - 1` of each element, in a new last dimension.
fn powers(x: &Tensor, n: i64) -> Result<Tensor> {
    let mut sizes = x.sizes().clone();
    sizes.push(n as isize - 1);
    let bases =
        crate::view::expand::EXPAND.tensor([(&Expr::from(x).along_rows().done()?).into(), sizes_value(&sizes)])?;
    let dim = x.rank();
    let grown = op!(crate::reduce::cumulative::CUMPROD, &bases, dim, grown_dtype(x))?;
    sizes[dim] = 1;
    let one = create::full(&sizes, Scalar::ONE, grown.dtype(), grown.device())?;
    crate::join::CAT.tensor([Value::from(vec![one, grown]), dim.into()])
}
