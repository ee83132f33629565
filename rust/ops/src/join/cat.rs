//! Concatenation along a dimension, and stacking along a new one.

use rushlight_autograd::Tensor;
use rushlight_core::layout::{Shape, wrap_dim};
use rushlight_core::{DType, Dims, Error, Layout, Result};
use rushlight_dispatch::operator::{
    Accepts, Args, Autocast, BackwardContext, BatchRule, BatchedCall, DTypes, Derivative, Implementation, Joint,
    Kernel, Operator, Out, Saves, Sparse, TensorSpec, Variants, operator,
};
use rushlight_dispatch::promote::PromotionState;
use rushlight_dispatch::value::{Ints, Output};
use rushlight_dispatch::vmap::{RuleResult, one_result};
use rushlight_dispatch::{copy, create, op};

use crate::view::narrow::{selected, sliced};

const JOINED: Out =
    Out::new(Accepts::Cast, &["torch.cat(): input types can't be cast to the desired output type {Out}"])
        .type_error()
        .no_alias();

#[operator]
pub static CAT: Operator = Operator {
    name: "cat",
    aliases: &["concat", "concatenate"],
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor[] tensors, int dim=0) -> Tensor",
    doc: "Concatenates tensors along `dim`; all other sizes must be equal.

    >>> torch.cat([torch.tensor([1, 2]), torch.tensor([3])])
    tensor([1, 2, 3])",
    out: JOINED,
    dtypes: DTypes::ALL,
    autocast: Autocast::Promote.on_cpu_alone(),
    sparse: Sparse::ExplicitAutograd,
    batch_rule: BatchRule::Custom(batched_cat),
    implementation: Implementation::Kernel(Kernel::on_any_device(infer_cat, run_cat)),
    derivative: Derivative::Joint(Joint { inputs: &[TENSORS], saves: Saves::NOTHING, gradients: cut }),
    samples: &["[t(2, 3), t(1, 3)]", "[t(2, 3), t(2, 1)], 1", "[t(2), t(0), t(3)], -1", "[t(2, 3).t(), t(1, 2)]"],
    errors: &[
        ("[], 0", "ValueError", "torch.cat(): expected a non-empty list of Tensors"),
        (
            "[t(2, 3), t(2, 4)], 0",
            "RuntimeError",
            "Sizes of tensors must match except in dimension 0. Expected size 3 but got size 4 for tensor number 1 in the list.",
        ),
        ("[t(2, 3), t(2)], 0", "RuntimeError", "Tensors must have same number of dimensions: got 2 and 1"),
        ("[t(), t()], 0", "RuntimeError", "zero-dimensional tensor (at position 0) cannot be concatenated"),
    ],
    reference: "np.concatenate(tensors, dim)",
    ..Operator::BASE
};

/// An empty vector joins with anything, for compatibility with old programs.
fn skipped(tensor: &Tensor) -> bool {
    tensor.sizes().as_slice() == [0]
}

/// The dtype to which the tensors promote.
pub fn common(tensors: &[&Tensor]) -> Result<DType> {
    let mut state = PromotionState::default();
    for tensor in tensors {
        state.tensor(tensor.dtype(), tensor.rank())?;
    }
    state.result()
}

fn infer_cat(args: &Args) -> Result<Vec<TensorSpec>> {
    use CAT::*;

    let tensors = args.tensors(TENSORS)?;
    let Some(first) = tensors.iter().find(|tensor| !skipped(tensor)).or(tensors.first()) else {
        return Err(Error::value("torch.cat(): expected a non-empty list of Tensors"));
    };
    if let Some(at) = tensors.iter().position(|tensor| tensor.rank() == 0) {
        return Err(Error::runtime(format!("zero-dimensional tensor (at position {at}) cannot be concatenated"))
            .hint("Use torch.stack, or x.reshape(1)."));
    }
    // With empty vectors alone, torch does not look at the dimension.
    let dim = if skipped(first) { 0 } else { wrap_dim(args.int(DIM)?, first.rank())? };
    let mut sizes = first.sizes().clone();
    sizes[dim] = 0;
    for (at, tensor) in tensors.iter().enumerate().filter(|(_, tensor)| !skipped(tensor)) {
        if tensor.rank() != sizes.len() {
            return Err(Error::runtime(format!(
                "Tensors must have same number of dimensions: got {} and {}",
                sizes.len(),
                tensor.rank()
            )));
        }
        for (other, &size) in tensor.sizes().iter().enumerate().filter(|(other, _)| *other != dim) {
            if size != sizes[other] {
                return Err(Error::runtime(format!(
                    "Sizes of tensors must match except in dimension {dim}. Expected size {} but got size {size} for tensor number {at} in the list.",
                    sizes[other]
                ))
                .shapes(tensors.iter().map(|tensor| tensor.sizes().as_slice()))
                .axis(other)
                .fit(advice(&tensors)));
            }
        }
        let Some(length) = sizes[dim].checked_add(tensor.sizes()[dim]) else {
            return Err(Error::runtime(format!(
                "torch.cat(): sizes along dimension {dim} add up to more than a tensor can have"
            )));
        };
        sizes[dim] = length;
    }
    let mut spec = TensorSpec::new(&sizes, common(&tensors)?, first);
    if let Some(strides) = with_channels_last(&tensors, first, &sizes)? {
        spec.layout.strides = strides;
    }
    Ok(vec![spec])
}

/// The strides of a result of channels-last images, which stays channels-last.
fn with_channels_last(tensors: &[&Tensor], first: &Tensor, sizes: &[isize]) -> Result<Option<Dims>> {
    let last = |tensor: &Tensor| rushlight_core::memory_format::channels_last_format(tensor.layout());
    match last(first) {
        Some(format) if tensors.iter().all(|tensor| last(tensor) == Some(format)) => {
            rushlight_core::memory_format::strides(sizes, Some(format), None).map(Some)
        }
        _ => Ok(None),
    }
}

/// The dimension along which the tensors could be joined, if there is one.
#[cold]
fn advice(tensors: &[&Tensor]) -> String {
    let shapes: Vec<&Dims> = tensors.iter().filter(|tensor| !skipped(tensor)).map(|tensor| tensor.sizes()).collect();
    let fits = |&dim: &usize| {
        let alike = |(other, (x, y)): (usize, (&isize, &isize))| other == dim || x == y;
        shapes.iter().all(|sizes| sizes.len() == shapes[0].len() && sizes.iter().zip(shapes[0]).enumerate().all(alike))
    };
    match (0..shapes[0].len()).find(fits) {
        Some(dim) => format!("They would fit in torch.cat with dim={dim}."),
        None => "Only sizes along dim may differ.".into(),
    }
}

fn run_cat(args: &Args, results: &[Tensor]) -> Result<()> {
    use CAT::*;

    let whole = &results[0];
    if whole.numel() == 0 {
        return Ok(());
    }
    let dim = wrap_dim(args.int(DIM)?, whole.rank())?;
    let mut start = 0;
    for tensor in args.tensors(TENSORS)?.into_iter().filter(|tensor| !skipped(tensor)) {
        let length = tensor.sizes()[dim];
        copy::copy_to_view(whole, &whole.layout().slice(dim, start, length, 1), tensor)?;
        start += length;
    }
    Ok(())
}

fn cut(d: &BackwardContext) -> Result<Vec<Option<Tensor>>> {
    let grad = d.grad().done()?;
    let dim = if grad.sizes().as_slice() == [0] { 0 } else { wrap_dim(d.int(CAT::DIM), grad.rank())? };
    let mut start = 0;
    let mut gradients = Vec::with_capacity(d.inputs.len());
    for (meta, &wanted) in d.inputs.iter().zip(d.wanted) {
        if meta.sizes.as_slice() == [0] {
            gradients.push(Some(create::zeros(&[0], meta.dtype, meta.device)?));
            continue;
        }
        let length = meta.sizes[dim];
        gradients.push(if wanted { Some(sliced(&grad, dim, start, length, 1)?) } else { None });
        start += length;
    }
    Ok(gradients)
}

#[operator]
pub static STACK: Operator = Operator {
    name: "stack",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor[] tensors, int dim=0) -> Tensor",
    doc: "Stacks tensors of one shape along a new dimension.

    >>> torch.stack([torch.tensor([1, 2]), torch.tensor([3, 4])], 1)
    tensor([[1, 3],
            [2, 4]])",
    out: JOINED,
    dtypes: DTypes::ALL,
    autocast: Autocast::Promote.on_cpu_alone(),
    sparse: Sparse::ExplicitAutograd,
    batch_rule: BatchRule::Custom(batched_stack),
    implementation: Implementation::Kernel(Kernel::on_any_device(infer_stack, run_stack)),
    derivative: Derivative::Joint(Joint {
        inputs: &[TENSORS],
        saves: Saves::NOTHING,
        gradients: |d| {
            let grad = d.grad().done()?;
            let dim = wrap_dim(d.int(DIM), grad.rank())?;
            let each = d.wanted.iter().enumerate();
            each.map(|(at, &wanted)| if wanted { selected(&grad, dim, at as isize).map(Some) } else { Ok(None) })
                .collect()
        },
    }),
    samples: &["[t(2, 3), t(2, 3)]", "[t(2, 3), t(2, 3)], -1", "[t(), t()]"],
    errors: &[
        (
            "[t(2), t(3)]",
            "RuntimeError",
            "stack expects each tensor to be equal size, but got [2] at entry 0 and [3] at entry 1",
        ),
        ("[]", "RuntimeError", "stack expects a non-empty TensorList"),
    ],
    reference: "np.stack(tensors, dim)",
    ..Operator::BASE
};

fn infer_stack(args: &Args) -> Result<Vec<TensorSpec>> {
    use STACK::*;

    let tensors = args.tensors(TENSORS)?;
    let Some(first) = tensors.first() else { return Err(Error::runtime("stack expects a non-empty TensorList")) };
    let mut sizes: Dims = first.sizes().clone();
    if let Some(at) = tensors.iter().position(|tensor| tensor.sizes() != &sizes) {
        return Err(Error::runtime(format!(
            "stack expects each tensor to be equal size, but got {} at entry 0 and {} at entry {at}",
            Shape(&sizes),
            Shape(tensors[at].sizes())
        )));
    }
    let dim = wrap_dim(args.int(DIM)?, sizes.len() + 1)?;
    let mut joined = sizes.clone();
    sizes.insert(dim, tensors.len() as isize);
    let mut spec = TensorSpec::new(&sizes, common(&tensors)?, first);
    // They are laid out as if they were joined along `dim`, which is then split.
    if let Some(size) = joined.get_mut(dim) {
        *size = size.saturating_mul(tensors.len() as isize);
        if let Some(strides) = with_channels_last(&tensors, first, &joined)? {
            let whole = Layout { sizes: joined, strides, offset: 0 };
            spec.layout.strides = whole.view_strides(&sizes).unwrap_or(spec.layout.strides);
        }
    }
    Ok(vec![spec])
}

fn run_stack(args: &Args, results: &[Tensor]) -> Result<()> {
    use STACK::*;

    let whole = &results[0];
    let dim = wrap_dim(args.int(DIM)?, whole.rank())?;
    for (at, tensor) in args.tensors(TENSORS)?.into_iter().enumerate() {
        copy::copy_to_view(whole, &whole.layout().select(dim, at as isize), tensor)?;
    }
    Ok(())
}

macro_rules! stacks {
    ($($op:ident $name:literal $aliases:expr, $reference:literal $prepare:expr, $dim:expr, $bad:literal $sentence:literal $doc:literal;)*) => {$(
        #[operator]
        pub static $op: Operator = Operator {
            name: $name,
            aliases: $aliases,
            variants: Variants::FUNCTION.union(Variants::OUT),
            signature: "(Tensor[] tensors) -> Tensor",
            doc: $doc,
            out: JOINED,
            dtypes: DTypes::ALL,
            implementation: Implementation::CompositeImplicit(|args| {
                let prepare: &'static Operator = $prepare;
                let tensors = args.tensors(TENSORS)?;
                if tensors.is_empty() {
                    return Err(Error::runtime(concat!($name, " expects a non-empty TensorList")));
                }
                let ready: Vec<Tensor> = tensors.into_iter().map(|tensor| op!(prepare, tensor)).collect::<Result<_>>()?;
                let dim: fn(&Tensor) -> i64 = $dim;
                let dim = dim(&ready[0]);
                op!(CAT, ready, dim).map(Output::Tensor)
            }),
            derivative: Derivative::CompositeImplicit,
            samples: &["[t(2), t(2)]", "[t(2, 3), t(2, 3)]"],
            errors: &[
                ("[]", "RuntimeError", concat!($name, " expects a non-empty TensorList")),
                ($bad, "RuntimeError", $sentence),
            ],
            reference: $reference,
            ..Operator::BASE
        };
    )*};
}

stacks! {
    HSTACK "hstack" &[], "np.hstack(tensors)" &crate::view::flatten::ATLEAST_1D, |first| i64::from(first.rank() > 1),
    "[t(2, 3), t(3, 3)]" "Sizes of tensors must match except in dimension 1. Expected size 2 but got size 3 for tensor number 1 in the list."
    "Concatenates tensors along the columns (vectors along their only dimension).

    >>> torch.hstack([torch.tensor([1, 2]), torch.tensor([3])])
    tensor([1, 2, 3])";
    VSTACK "vstack" &["row_stack"], "np.vstack(tensors)" &crate::view::flatten::ATLEAST_2D, |_| 0,
    "[t(2, 3), t(2, 4)]" "Sizes of tensors must match except in dimension 0. Expected size 3 but got size 4 for tensor number 1 in the list."
    "Concatenates tensors along the rows; a vector is one row.

    >>> torch.vstack([torch.tensor([1, 2]), torch.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])";
    DSTACK "dstack" &[], "np.dstack(tensors)" &crate::view::flatten::ATLEAST_3D, |_| 2,
    "[t(2, 3), t(2, 4)]" "Sizes of tensors must match except in dimension 2. Expected size 3 but got size 4 for tensor number 1 in the list."
    "Concatenates tensors along the third dimension.

    >>> torch.dstack([torch.tensor([1, 2]), torch.tensor([3, 4])])
    tensor([[[1, 3],
             [2, 4]]])";
}

#[operator]
pub static COLUMN_STACK: Operator = Operator {
    name: "column_stack",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor[] tensors) -> Tensor",
    doc: "Concatenates vectors, as columns, and matrices along the columns.

    >>> torch.column_stack([torch.tensor([1, 2]), torch.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])",
    out: JOINED,
    dtypes: DTypes::ALL,
    implementation: Implementation::CompositeImplicit(|args| {
        let column = |tensor: &Tensor| match tensor.rank() {
            0 | 1 => op!(crate::view::RESHAPE, tensor, Ints::from_slice(&[tensor.numel() as i64, 1])),
            _ => Ok(tensor.clone()),
        };
        let tensors = args.tensors(TENSORS)?;
        if tensors.is_empty() {
            return Err(Error::runtime("column_stack expects a non-empty TensorList"));
        }
        let ready: Vec<Tensor> = tensors.into_iter().map(column).collect::<Result<_>>()?;
        op!(CAT, ready, 1i64).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["[t(2), t(2, 3)]", "[t(2, 3), t(2, 1)]"],
    errors: &[
        (
            "[t(2), t(3)]",
            "RuntimeError",
            "Sizes of tensors must match except in dimension 1. Expected size 2 but got size 3 for tensor number 1 in the list.",
        ),
        ("[]", "RuntimeError", "column_stack expects a non-empty TensorList"),
    ],
    reference: "np.column_stack(tensors)",
    ..Operator::BASE
};

fn batched_cat(batch: &BatchedCall) -> RuleResult {
    use CAT::*;

    let list = batch.args.tensors(TENSORS)?;
    // An empty vector joins with anything, as in old versions of torch.
    let kept: Vec<&Tensor> = match list.iter().any(|tensor| tensor.rank() != 1) {
        true => list.into_iter().filter(|tensor| tensor.rank() != 1 || tensor.numel() > 0).collect(),
        false => list,
    };
    let Some(first) = kept.first() else { return Ok(None) };
    let dim = wrap_dim(batch.args.int(DIM)?, first.rank())?;
    let shown: Vec<Tensor> = kept.into_iter().map(|tensor| batch.physical(tensor)).collect();
    one_result(op!(CAT, shown, dim + 1))
}

fn batched_stack(batch: &BatchedCall) -> RuleResult {
    use STACK::*;

    let list = batch.args.tensors(TENSORS)?;
    let dim = wrap_dim(batch.args.int(DIM)?, list[0].rank() + 1)?;
    let shown: Vec<Tensor> = list.into_iter().map(|tensor| batch.physical(tensor)).collect();
    one_result(op!(STACK, shown, dim + 1))
}
