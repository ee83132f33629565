//! Contractions: outer and inner products, `tensordot`, chains of matrices.

use rushlight_autograd::Tensor;
use rushlight_core::layout::{Shape, wrap_dim};
use rushlight_core::{Dims, Error, Result};
use rushlight_dispatch::operator::{
    Accepts, Args, Autocast, Autocasts, DTypes, Derivative, Implementation, Operator, Out, Variants, operator,
};
use rushlight_dispatch::value::{Ints, Output};
use rushlight_dispatch::{op, value};
use smallvec::SmallVec;

use crate::view::transpose::permuted;

fn reshaped(tensor: &Tensor, sizes: &[isize]) -> Result<Tensor> {
    crate::view::RESHAPE.tensor([tensor.into(), value::sizes_value(sizes)])
}

#[operator]
pub static OUTER: Operator = Operator {
    name: "outer",
    variants: Variants::BOTH.union(Variants::OUT),
    aliases: &["ger"],
    signature: "(Tensor self, Tensor vec2) -> Tensor",
    doc: "The products of each pair of two vectors' elements.

    >>> torch.outer(torch.tensor([1, 2]), torch.tensor([3, 4]))
    tensor([[3, 4],
            [6, 8]])",
    implementation: Implementation::CompositeImplicit(|args| {
        let (x, y) = (args.tensor(INPUT)?, args.tensor(VEC2)?);
        for (name, vector) in [("self", x), ("vec2", y)] {
            if vector.rank() != 1 {
                return Err(Error::runtime(format!(
                    "outer: Expected 1-D argument {name}, but got {}-D",
                    vector.rank()
                )));
            }
        }
        op!(crate::pointwise::arith::MUL, &reshaped(x, &[x.sizes()[0], 1])?, y).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3), t(4)", "t(0), t(4)"],
    errors: &[("t(3, 3), t(2)", "RuntimeError", "outer: Expected 1-D argument self, but got 2-D")],
    reference: "np.outer(self, vec2)",
    ..Operator::BASE
};

#[operator]
pub static INNER: Operator = Operator {
    name: "inner",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, Tensor other) -> Tensor",
    doc: "Sums of products over the last dimension of both; with a 0-d tensor the elementwise product.

    >>> torch.inner(torch.tensor([1, 2, 3]), torch.tensor([0, 2, 1]))
    tensor(7)",
    out: Out::new(
        // A product with a 0-d tensor is elementwise.
        Accepts::CastIf(|args| {
            args.tensor(INPUT).is_ok_and(|a| a.rank() == 0) || args.tensor(OTHER).is_ok_and(|b| b.rank() == 0)
        }),
        &["tensordot: Expected the output tensor to have dtype {Result}, but got an output tensor with dtype {Out}"],
    ),
    dtypes: DTypes::NUMBERS,
    autocast: Autocast::Promote.everywhere(),
    implementation: Implementation::CompositeImplicit(|args| {
        let (a, b) = (args.tensor(INPUT)?, args.tensor(OTHER)?);
        if a.rank() == 0 || b.rank() == 0 {
            return op!(crate::pointwise::arith::MUL, a, b).map(Output::Tensor);
        }
        if a.sizes().last() != b.sizes().last() {
            return Err(Error::runtime(format!(
                "inner() the last dimension must match on both input tensors but got shapes {} and {}",
                Shape(a.sizes()),
                Shape(b.sizes())
            ))
            .shapes([a.sizes().as_slice(), b.sizes().as_slice()]));
        }
        if a.dtype() != b.dtype() {
            return Err(Error::runtime("both inputs should have same dtype"));
        }
        if a.rank() == 1 && b.rank() == 1 {
            return op!(super::matrix::DOT, a, b).map(Output::Tensor);
        }
        contract(a, b, &[a.rank() - 1], &[b.rank() - 1]).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3), t(3)", "t(2, 3), t(4, 3)", "t(2, 3), t()", "t(2, 2, 3), t(3)"],
    errors: &[(
        "t(2, 3), t(3, 4)",
        "RuntimeError",
        "inner() the last dimension must match on both input tensors but got shapes [2, 3] and [3, 4]",
    )],
    reference: "np.inner(self, other)",
    ..Operator::BASE
};

/// Sums of products over pairs of dimensions; the remaining dimensions of `a` come first, then those of `b`.
pub fn contract(a: &Tensor, b: &Tensor, from_a: &[usize], from_b: &[usize]) -> Result<Tensor> {
    let rest = |tensor: &Tensor, taken: &[usize]| -> SmallVec<[usize; 6]> {
        (0..tensor.rank()).filter(|dim| !taken.contains(dim)).collect()
    };
    let (kept_a, kept_b) = (rest(a, from_a), rest(b, from_b));
    let sizes = |tensor: &Tensor, dims: &[usize]| -> Dims { dims.iter().map(|&d| tensor.sizes()[d]).collect() };
    let inner: isize = sizes(a, from_a).iter().product();
    let (mut shape, other) = (sizes(a, &kept_a), sizes(b, &kept_b));
    let (rows, cols) = (shape.iter().product::<isize>(), other.iter().product::<isize>());
    let order: Vec<usize> = kept_a.iter().chain(from_a).copied().collect();
    let left = reshaped(&permuted(a, &order)?, &[rows, inner])?;
    let order: Vec<usize> = from_b.iter().chain(&kept_b).copied().collect();
    let right = reshaped(&permuted(b, &order)?, &[inner, cols])?;
    shape.extend(other);
    reshaped(&op!(super::matrix::MM, &left, &right)?, &shape)
}

#[operator]
pub static TENSORDOT: Operator = Operator {
    name: "_tensordot",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor",
    doc: "Sums of products over pairs of dimensions: `dims_self[i]` of one with `dims_other[i]` of the other.

    >>> torch._tensordot(torch.ones(2, 3), torch.ones(3, 2), (1,), (0,))
    tensor([[3., 3.],
            [3., 3.]])",
    out: Out::new(
        Accepts::Same,
        &["tensordot: Expected the output tensor to have dtype {Result}, but got an output tensor with dtype {Out}"],
    ),
    dtypes: DTypes::NUMBERS,
    autocast: Autocasts { cpu: Autocast::LowerPrecision, cuda: Autocast::Promote },
    implementation: Implementation::CompositeImplicit(|args| tensordot(args).map(Output::Tensor)),
    derivative: Derivative::CompositeImplicit,
    samples: &[
        "t(2, 3), t(3, 4), (1,), (0,)",
        "t(2, 3, 4), t(4, 3), (1, 2), (1, 0)",
        "t(2), t(3), (), ()",
        "t(2, 3), t(1, 4), (1,), (0,)",
    ],
    errors: &[
        (
            "t(2, 3), t(4, 3), (-1,), (0,)",
            "RuntimeError",
            "contracted dimensions need to match, but first has size 3 in dim -1 and second has size 4 in dim 0",
        ),
        ("t(2, 2), t(2, 2), (0, -2), (0, 1)", "RuntimeError", "dim 0 appears multiple times in the list of dims"),
        ("t(2, 3), t(3, 4), (0,), (1, 0)", "RuntimeError", "both dimension lists should have same length"),
    ],
    reference: "np.tensordot(self, np.repeat(other, self.shape[1], 0) if len(other) == 1 else other, (dims_self, dims_other))",
    ..Operator::BASE
};

fn tensordot(args: &Args) -> Result<Tensor> {
    use TENSORDOT::*;

    let (a, b, from_a, from_b) =
        (args.tensor(INPUT)?, args.tensor(OTHER)?, args.ints(DIMS_SELF)?, args.ints(DIMS_OTHER)?);
    if from_a.len() != from_b.len() {
        return Err(Error::runtime("both dimension lists should have same length"));
    }
    if a.dtype() != b.dtype() {
        return Err(Error::runtime("both inputs should have same dtype").hint("Convert one of them: x.to(y.dtype)."));
    }
    let wrap = |dims: &[i64], rank: usize| -> Result<SmallVec<[usize; 6]>> {
        if let (0, [dim, ..]) = (rank, dims) {
            return Err(Error::index(format!("Dimension specified as {dim} but tensor has no dimensions"))
                .hint("Use x.reshape(1) to add a dimension."));
        }
        dims.iter().map(|&dim| wrap_dim(dim, rank)).collect()
    };
    let (dims_a, dims_b) = (wrap(from_a, a.rank())?, wrap(from_b, b.rank())?);
    let (mut a, mut b) = (a.clone(), b.clone());
    for (at, (&x, &y)) in dims_a.iter().zip(&dims_b).enumerate() {
        let (own, other) = (a.sizes()[x], b.sizes()[y]);
        if own == other {
            continue;
        }
        // A size of one broadcasts.
        if own == 1 {
            b = op!(crate::reduce::sum::SUM_DIM, &b, Ints::from_slice(&[y as i64]), true, b.dtype())?;
        } else if other == 1 {
            a = op!(crate::reduce::sum::SUM_DIM, &a, Ints::from_slice(&[x as i64]), true, a.dtype())?;
        } else {
            return Err(Error::runtime(format!(
                "contracted dimensions need to match, but first has size {own} in dim {} and second has size {other} in dim {}",
                from_a[at], from_b[at]
            ))
            .shapes([a.sizes().as_slice(), b.sizes().as_slice()]));
        }
    }
    for dims in [&dims_a, &dims_b] {
        if let Some((_, dim)) = dims.iter().enumerate().find(|(at, dim)| dims[..*at].contains(dim)) {
            return Err(Error::runtime(format!("dim {dim} appears multiple times in the list of dims"))
                .hint("Name each dimension once."));
        }
    }
    contract(&a, &b, &dims_a, &dims_b)
}

#[operator]
pub static MULTI_DOT: Operator = Operator {
    name: "multi_dot",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor[] tensors) -> Tensor",
    doc: "The product of a chain of matrices, in the order that takes the fewest multiplications.

The first and the last may be vectors.

    >>> torch.linalg.multi_dot([torch.ones(2, 3), torch.ones(3, 4), torch.ones(4)])
    tensor([12., 12.])",
    out: Out::new(Accepts::Same, &["multi_dot(): expected out tensor to have dtype {result} but got {out}"]),
    dtypes: DTypes::NUMBERS,
    autocast: Autocast::LowerPrecision.everywhere(),
    implementation: Implementation::CompositeImplicit(|args| multi_dot(&args.tensors(TENSORS)?).map(Output::Tensor)),
    derivative: Derivative::CompositeImplicit,
    samples: &["[t(2, 3), t(3, 4), t(4, 5)]", "[t(3), t(3, 4), t(4)]", "[t(2, 3), t(3)]"],
    errors: &[("[t(2, 3)]", "RuntimeError", "multi_dot(): expected at least 2 tensors but got 1")],
    reference: "np.linalg.multi_dot(tensors)",
    ..Operator::BASE
};

fn multi_dot(chain: &[&Tensor]) -> Result<Tensor> {
    let n = chain.len();
    if n < 2 {
        return Err(Error::runtime(format!("multi_dot(): expected at least 2 tensors but got {n}")));
    }
    let mut matrices = Vec::with_capacity(n);
    let mut sizes = Ints::new();
    for (at, tensor) in chain.iter().enumerate() {
        let shape = tensor.sizes();
        let ends = at == 0 || at == n - 1;
        match (shape.as_slice(), ends) {
            ([k], true) if at == 0 => matrices.push(reshaped(tensor, &[1, *k])?),
            ([k], true) => matrices.push(reshaped(tensor, &[*k, 1])?),
            ([rows, cols], _) => {
                if at == 0 {
                    sizes.push(*rows as i64);
                }
                if at == n - 1 {
                    sizes.push(*cols as i64);
                }
                matrices.push((*tensor).clone());
            }
            _ => {
                let which = match at {
                    0 => "the first tensor must be 1D or 2D".to_string(),
                    _ if at == n - 1 => "the last tensor must be 1D or 2D".to_string(),
                    _ => format!("tensor {at} must be 2D"),
                };
                return Err(Error::runtime(format!("multi_dot(): {which} but got {}D", tensor.rank())));
            }
        }
    }
    for (at, tensor) in chain.iter().enumerate() {
        if tensor.dtype() != chain[0].dtype() {
            return Err(Error::runtime(format!(
                "multi_dot(): all tensors must have be the same dtype but tensor 0 is {} and tensor {at} {}",
                chain[0].dtype().c_name(),
                tensor.dtype().c_name()
            )));
        }
    }
    for at in 0..n - 1 {
        if matrices[at].sizes()[1] != matrices[at + 1].sizes()[0] {
            let (a, b) = (chain[at], chain[at + 1]);
            return Err(Error::runtime(format!(
                "multi_dot(): tensors {at} and {} with shapes {} and {} cannot be multiplied",
                at + 1,
                Shape(a.sizes()),
                Shape(b.sizes())
            )));
        }
    }
    let result = Order::best(&matrices).multiply(&matrices, 0, n - 1)?;
    op!(crate::view::RESHAPE, &result, sizes)
}

/// The best split of each part of a chain: the classic dynamic programme over lengths.
struct Order {
    n: usize,
    cuts: Vec<usize>,
}

impl Order {
    fn best(chain: &[Tensor]) -> Order {
        let n = chain.len();
        let size = |at: usize| if at == 0 { chain[0].sizes()[0] } else { chain[at - 1].sizes()[1] } as f64;
        let (mut costs, mut cuts) = (vec![0.0; n * n], vec![0; n * n]);
        for length in 1..n {
            for first in 0..n - length {
                let last = first + length;
                let cost = |cut: usize| {
                    costs[first * n + cut] + costs[(cut + 1) * n + last] + size(first) * size(cut + 1) * size(last + 1)
                };
                let (mut least, mut place) = (f64::INFINITY, first);
                for cut in first..last {
                    if cost(cut) < least {
                        (least, place) = (cost(cut), cut);
                    }
                }
                costs[first * n + last] = least;
                cuts[first * n + last] = place;
            }
        }
        Order { n, cuts }
    }

    fn multiply(&self, chain: &[Tensor], first: usize, last: usize) -> Result<Tensor> {
        if first == last {
            return Ok(chain[first].clone());
        }
        let cut = self.cuts[first * self.n + last];
        op!(super::matrix::MM, &self.multiply(chain, first, cut)?, &self.multiply(chain, cut + 1, last)?)
    }
}
