//! Permuting dimensions.

use rushlight_autograd::{Backward, BackwardCall, Gradients, Tensor};
use rushlight_core::layout::{Shape, to_dims, wrap_dim};
use rushlight_core::{Error, Layout, Result};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Args, BackwardContext, DTypes, Derivative, Implementation, Operator, Saves, Sparse, Variants, formula, operator,
};
use rushlight_dispatch::value::{Arg, Ints, Output, Value};
use rushlight_dispatch::{interceptors, op, profile, warn_once};
use smallvec::SmallVec;

use crate::view::complex::conjugate;

type Order = SmallVec<[usize; 6]>;

#[operator]
pub static TRANSPOSE: Operator = Operator {
    name: "transpose",
    node: "TransposeBackward0 in_place=TransposeBackward1",
    aliases: &["swapdims"],
    variants: Variants::BOTH.union(Variants::INPLACE),
    signature: "(Tensor self, int dim0, int dim1) -> Tensor",
    doc: "A view with two dimensions exchanged.

    >>> torch.transpose(torch.tensor([[1, 2], [3, 4]]), 0, 1)
    tensor([[1, 3],
            [2, 4]])",
    dtypes: DTypes::ALL,
    sparse: Sparse::ExplicitAutograd,
    implementation: Implementation::View(|args| exchanged(args, [DIM0, DIM1])),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| exchange_back(d, [DIM0, DIM1]))]),
    samples: &["t(2, 3), 0, 1", "t(2, 3, 4), -1, 0", "t(), 0, -1"],
    errors: &[(
        "t(2, 3), 0, 2",
        "IndexError",
        "Dimension out of range (expected to be in range of [-2, 1], but got 2)",
    )],
    reference: "np.swapaxes(self, dim0, dim1) if self.ndim else self",
    ..Operator::BASE
};

#[operator]
pub static SWAPAXES: Operator = Operator {
    name: "swapaxes",
    variants: Variants::BOTH.union(Variants::INPLACE),
    signature: "(Tensor self, int axis0, int axis1) -> Tensor",
    doc: "A view with two dimensions exchanged; NumPy's name of `transpose`.

    >>> torch.swapaxes(torch.tensor([[1, 2], [3, 4]]), 0, 1)
    tensor([[1, 3],
            [2, 4]])",
    dtypes: DTypes::ALL,
    sparse: Sparse::ExplicitAutograd,
    implementation: Implementation::View(|args| exchanged(args, [AXIS0, AXIS1])),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| exchange_back(d, [AXIS0, AXIS1]))]),
    errors: &[(
        "t(2, 3), 0, 2",
        "IndexError",
        "Dimension out of range (expected to be in range of [-2, 1], but got 2)",
    )],
    node: "TransposeBackward0",
    samples: &["t(2, 3), 0, 1"],
    reference: "np.swapaxes(self, axis0, axis1)",
    ..Operator::BASE
};

fn exchanged(args: &Args, [first, second]: [Arg; 2]) -> Result<Layout> {
    let layout = args.tensor(Arg::FIRST)?.layout();
    Ok(layout.transpose(wrap_dim(args.int(first)?, layout.rank())?, wrap_dim(args.int(second)?, layout.rank())?))
}

fn exchange_back(d: &BackwardContext, dims: [Arg; 2]) -> Expr {
    d.grad().call(&TRANSPOSE, dims.map(|dim| d.int(dim).into()))
}

#[operator]
pub static T: Operator = Operator {
    name: "t",
    node: "in_place=TBackward1",
    variants: Variants::BOTH.union(Variants::INPLACE),
    signature: "(Tensor self) -> Tensor",
    doc: "A matrix transposed, as a view; tensors of fewer dimensions are returned unchanged.

    >>> torch.t(torch.tensor([[1, 2], [3, 4]]))
    tensor([[1, 3],
            [2, 4]])",
    dtypes: DTypes::ALL,
    sparse: Sparse::ExplicitAutograd,
    implementation: Implementation::View(|args| {
        let layout = args.tensor(INPUT)?.layout();
        match layout.rank() {
            0 | 1 => Ok(layout.clone()),
            2 => Ok(layout.transpose(0, 1)),
            rank => Err(Error::runtime(format!("t() expects a tensor with <= 2 dimensions, but self is {rank}D"))),
        }
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| d.grad().call(&T, []))]),
    samples: &["t(2, 3)", "t(3)", "t()"],
    errors: &[("t(2, 3, 4)", "RuntimeError", "t() expects a tensor with <= 2 dimensions, but self is 3D")],
    reference: "np.transpose(self)",
    ..Operator::BASE
};

/// `T` for frequent internal use on matrices: the same view behind a node of the same name, without the steps of a call
/// and without the data of an operator's node.
pub fn across(input: &Tensor) -> Result<Tensor> {
    if input.rank() != 2 || !input.is_plain() || !interceptors::active(&T).is_empty() {
        return op!(T, input);
    }
    let view = Tensor::view_of(input, input.layout().transpose(0, 1));
    if input.is_tracked() && rushlight_autograd::modes::recording() {
        rushlight_autograd::record(Across, &[Some(input)], &[&view])?;
    }
    Ok(view)
}

/// The derivative of `across`.
struct Across;

impl Backward for Across {
    fn name(&self) -> &str {
        "TBackward0"
    }

    fn apply(&self, call: &BackwardCall<'_>, mut grads: Gradients) -> Result<Gradients> {
        let gradient = profile::node(&T, call, || grads.pop().flatten().map(|grad| back(&grad)).transpose());
        Ok(Gradients::from_iter([gradient?]))
    }

    fn release(&self) {}
}

/// A transposed gradient. The gradient of a product is usually a transposed matrix itself; then the result is that
/// matrix.
fn back(grad: &Tensor) -> Result<Tensor> {
    if let Some(base) = grad.base()
        && !grad.is_tracked()
        && grad.is_plain()
        && base.is_plain()
        && base.dtype() == grad.dtype()
        && *base.layout() == grad.layout().transpose(0, 1)
    {
        return Ok(base.clone());
    }
    across(grad)
}

#[operator]
pub static PERMUTE: Operator = Operator {
    name: "permute",
    signature: "(Tensor self, int[] dims) -> Tensor",
    doc: "A view with the dimensions in the order of `dims`.

    >>> torch.permute(torch.arange(6).view(1, 2, 3), (2, 0, 1)).shape
    torch.Size([3, 1, 2])",
    dtypes: DTypes::ALL,
    sparse: Sparse::ExplicitAutograd,
    implementation: Implementation::View(|args| {
        let layout = args.tensor(INPUT)?.layout();
        Ok(layout.permute(&order(args.ints(DIMS)?, layout.rank())?))
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| {
        let rank = d.rank(INPUT);
        let order = order(d.ints(DIMS), rank).unwrap_or_default();
        let back: Ints = (0..rank).map(|dim| order.iter().position(|&o| o == dim).unwrap_or(dim) as i64).collect();
        d.grad().call(&PERMUTE, [Value::Ints(back)])
    })]),
    samples: &["t(2, 3, 4), (2, 0, 1)", "t(2, 3), (-1, 0)", "t(), ()"],
    errors: &[
        (
            "t(2, 3), (0,)",
            "RuntimeError",
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of dimensions i.e. input.dim() = 2 is not equal to len(dims) = 1",
        ),
        ("t(2, 3), (0, 0)", "RuntimeError", "permute(): duplicate dims are not allowed."),
    ],
    reference: "np.transpose(self, dims)",
    ..Operator::BASE
};

/// The permutation in a list of dimensions, if it names each once.
pub fn order(dims: &[i64], rank: usize) -> Result<Order> {
    if dims.len() != rank {
        return Err(Error::runtime(format!(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of dimensions i.e. input.dim() = {rank} is not equal to len(dims) = {}",
            dims.len()
        )));
    }
    let mut order = Order::new();
    for &dim in dims {
        let dim = wrap_dim(dim, rank)?;
        if order.contains(&dim) {
            return Err(Error::runtime("permute(): duplicate dims are not allowed.").hint("Name each dimension once."));
        }
        order.push(dim);
    }
    Ok(order)
}

/// A tensor with its dimensions permuted; all of them are listed, counted from zero.
pub fn permuted(tensor: &rushlight_autograd::Tensor, order: &[usize]) -> Result<rushlight_autograd::Tensor> {
    op!(PERMUTE, tensor, order.iter().map(|&dim| dim as i64).collect::<Ints>())
}

#[operator]
pub static MOVEDIM_INT: Operator = Operator {
    name: "movedim.int",
    aliases: &["moveaxis"],
    signature: "(Tensor self, int source, int destination) -> Tensor",
    doc: "A view with one dimension moved to another position; the others keep their order.

    >>> torch.movedim(torch.zeros(2, 3, 4), 0, -1).shape
    torch.Size([3, 4, 2])",
    dtypes: DTypes::ALL,
    implementation: Implementation::CompositeImplicit(|args| {
        MOVEDIM.call([
            args.tensor(INPUT)?.into(),
            Ints::from_slice(&[args.int(SOURCE)?]).into(),
            Ints::from_slice(&[args.int(DESTINATION)?]).into(),
        ])
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3, 4), 0, -1", "t(2, 3), -1, 0"],
    errors: &[(
        "t(2, 3), 2, 0",
        "IndexError",
        "Dimension out of range (expected to be in range of [-2, 1], but got 2)",
    )],
    reference: "np.moveaxis(self, source, destination)",
    ..Operator::BASE
};

#[operator]
pub static MOVEDIM: Operator = Operator {
    name: "movedim",
    aliases: &["moveaxis"],
    signature: "(Tensor self, int[] source, int[] destination) -> Tensor",
    doc: "A view with some dimensions moved to other positions; the others keep their order.

    >>> torch.movedim(torch.zeros(2, 3, 4), (0, 1), (2, 0)).shape
    torch.Size([3, 4, 2])",
    dtypes: DTypes::ALL,
    implementation: Implementation::CompositeImplicit(|args| {
        let tensor = args.tensor(INPUT)?;
        let rank = tensor.rank();
        let (source, destination) = (args.ints(SOURCE)?, args.ints(DESTINATION)?);
        if source.len() != destination.len() {
            return Err(Error::runtime(format!(
                "movedim: Invalid source or destination dims: source ({} dims) should contain the same number of dims as destination ({} dims)",
                Shape(&to_dims(source)),
                Shape(&to_dims(destination))
            )));
        }
        let source = distinct(source, rank, "source")?;
        let destination = distinct(destination, rank, "destination")?;
        let mut rest = (0..rank).filter(|dim| !source.contains(dim));
        let order: Order = (0..rank)
            .map(|place| match destination.iter().position(|&d| d == place) {
                Some(at) => source[at],
                None => rest.next().unwrap_or(place),
            })
            .collect();
        if rank == 0 {
            return Ok(Output::Tensor(tensor.clone()));
        }
        permuted(tensor, &order).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3, 4), (0, 1), (2, 0)", "t(2, 3), [], []"],
    errors: &[("t(2, 3), (0, 0), (0, 1)", "RuntimeError", "movedim: repeated dim in `source` ([0, 0])")],
    reference: "np.moveaxis(self, source, destination)",
    ..Operator::BASE
};

fn distinct(dims: &[i64], rank: usize, role: &str) -> Result<Order> {
    let mut found = Order::new();
    for wrapped in dims.iter().map(|&dim| wrap_dim(dim, rank)).collect::<Result<Vec<_>>>()? {
        if found.contains(&wrapped) {
            return Err(Error::runtime(format!("movedim: repeated dim in `{role}` ({})", Shape(&to_dims(dims))))
                .hint("Name each dimension once."));
        }
        found.push(wrapped);
    }
    Ok(found)
}

#[operator]
pub static ADJOINT: Operator = Operator {
    name: "adjoint",
    signature: "(Tensor self) -> Tensor",
    doc: "The conjugate transpose of matrices: the last two dimensions are exchanged.

    >>> torch.adjoint(torch.tensor([[1, 2], [3, 4]]))
    tensor([[1, 3],
            [2, 4]])",
    implementation: Implementation::CompositeImplicit(|args| {
        let turned = matrix_transposed(args.tensor(INPUT)?, "tensor.adjoint()")?;
        conjugate(&turned).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3)", "t(2, 3, 4)"],
    reference: "np.conj(np.swapaxes(self, -1, -2))",
    ..Operator::BASE
};

/// `x.T`: all dimensions in reverse.
pub fn reversed(tensor: &rushlight_autograd::Tensor) -> Result<rushlight_autograd::Tensor> {
    if tensor.rank() == 0 {
        warn_once!("Tensor.T is deprecated on 0-D tensors. This function is the identity in these cases.")?;
    } else if tensor.rank() != 2 {
        warn_once!(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it will throw an error in a future release. Consider `x.mT` to transpose batches of matrices or `x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse the dimensions of a tensor.",
        )?;
    }
    permuted(tensor, &(0..tensor.rank()).rev().collect::<Order>())
}

/// `x.mT`: the last two dimensions exchanged.
pub fn matrix_transposed(tensor: &rushlight_autograd::Tensor, name: &str) -> Result<rushlight_autograd::Tensor> {
    match tensor.rank() {
        0 => {
            match name {
                "tensor.mT" => {
                    warn_once!("Tensor.mT is deprecated on 0-D tensors. This function is the identity in these cases.")?
                }
                _ => warn_once!("Tensor.mH is deprecated on 0-D tensors. Consider using x.conj().")?,
            }
            Ok(tensor.clone())
        }
        1 => {
            Err(Error::runtime(format!("{name} is only supported on matrices or batches of matrices. Got 1-D tensor.")))
        }
        _ => op!(TRANSPOSE, tensor, -2i64, -1i64),
    }
}

/// `x.H`: a matrix transposed and conjugated.
pub fn hermitian(tensor: &rushlight_autograd::Tensor) -> Result<rushlight_autograd::Tensor> {
    match tensor.rank() {
        0 => {
            warn_once!("Tensor.H is deprecated on 0-D tensors. Consider using x.conj().")?;
            conjugate(tensor)
        }
        2 => conjugate(&op!(TRANSPOSE, tensor, 0i64, 1i64)?),
        rank => Err(Error::runtime(format!(
            "tensor.H is only supported on matrices (2-D tensors). Got {rank}-D tensor.{}",
            if rank > 2 { " For batches of matrices, consider using tensor.mH" } else { "" }
        ))),
    }
}
