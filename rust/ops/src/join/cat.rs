//! Tensors one behind the other along a dimension, or side by side along a new one.

use rushlight_core::layout::{Shape, wrap_dim};
use rushlight_core::{DType, Dims, Error, Result};

use crate::autocast::Autocast;
use crate::derive::{Derivative, Derive, Joint, Saves};
use crate::mapped::Mapped;
use crate::promote::State;
use crate::row::{Accepts, DTypes, Kernel, Out, Row, Run, Spec, Variants};
use crate::sparse::{Sparse, places};
use crate::value::{Args, Output};
use crate::view::narrow::{selected, sliced};
use crate::{Tensor, op};

const JOINED: Out =
    Out::new(Accepts::Cast, &["torch.cat(): input types can't be cast to the desired output type {Out}"]).apart();

pub static CAT: Row = Row {
    name: "cat",
    aliases: &["concat", "concatenate"],
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor[] tensors, int dim=0) -> Tensor",
    doc: "Tensors one behind the other along `dim`; all other sizes must agree.

    >>> torch.cat([torch.tensor([1, 2]), torch.tensor([3])])
    tensor([1, 2, 3])",
    out: JOINED,
    dtypes: DTypes::ALL,
    autocast: Autocast::Widest,
    sparse: Sparse::Body(places::cat),
    mapped: Mapped::Rule(super::mapped::cat),
    run: Run::Kernel(Kernel { infer: infer_cat, cpu: run_cat }),
    derivative: Derivative::Joint(Joint { inputs: &[0], saves: Saves::NOTHING, gradients: cut }),
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
    ..Row::BASE
};

/// An empty vector joins with anything, for the sake of old programs.
fn skipped(tensor: &Tensor) -> bool {
    tensor.sizes().as_slice() == [0]
}

/// The dtype in which tensors meet.
pub fn common(tensors: &[&Tensor]) -> Result<DType> {
    let mut state = State::default();
    for tensor in tensors {
        state.tensor(tensor.dtype(), tensor.rank())?;
    }
    state.result()
}

fn infer_cat(args: &Args) -> Result<Vec<Spec>> {
    let tensors = args.tensors(0)?;
    let Some(first) = tensors.iter().find(|tensor| !skipped(tensor)).or(tensors.first()) else {
        return Err(Error::value("torch.cat(): expected a non-empty list of Tensors"));
    };
    if let Some(at) = tensors.iter().position(|tensor| tensor.rank() == 0) {
        return Err(Error::runtime(format!("zero-dimensional tensor (at position {at}) cannot be concatenated"))
            .hint("Use torch.stack, or x.reshape(1)."));
    }
    let dim = wrap_dim(args.int(1)?, first.rank())?;
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
    let mut spec = Spec::new(&sizes, common(&tensors)?, first);
    if let Some(strides) = with_channels_last(&tensors, first, &sizes)? {
        spec.layout.strides = strides;
    }
    Ok(vec![spec])
}

/// The strides of what is joined of images whose channels lie last: they stay so.
fn with_channels_last(tensors: &[&Tensor], first: &Tensor, sizes: &[isize]) -> Result<Option<Dims>> {
    let last = |tensor: &Tensor| crate::create::resize::format_of(tensor.layout());
    match last(first) {
        Some(format) if tensors.iter().all(|tensor| last(tensor) == Some(format)) => {
            rushlight_core::memory_format::strides(sizes, Some(format), None).map(Some)
        }
        _ => Ok(None),
    }
}

/// Along which dimension the tensors would join, if there is one.
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
    let whole = &results[0];
    let dim = wrap_dim(args.int(1)?, whole.rank())?;
    let mut start = 0;
    for tensor in args.tensors(0)?.into_iter().filter(|tensor| !skipped(tensor)) {
        let length = tensor.sizes()[dim];
        crate::copy::copy_to_view(whole, &whole.layout().slice(dim, start, length, 1), tensor)?;
        start += length;
    }
    Ok(())
}

fn cut(d: &Derive) -> Result<Vec<Option<Tensor>>> {
    let grad = d.grad().done()?;
    let dim = wrap_dim(d.int(1), grad.rank())?;
    let mut start = 0;
    let mut gradients = Vec::with_capacity(d.inputs.len());
    for (facts, &wanted) in d.inputs.iter().zip(d.wanted) {
        if facts.sizes.as_slice() == [0] {
            gradients.push(Some(crate::create::zeros(&[0], facts.dtype, facts.device)?));
            continue;
        }
        let length = facts.sizes[dim];
        gradients.push(if wanted { Some(sliced(&grad, dim, start, length, 1)?) } else { None });
        start += length;
    }
    Ok(gradients)
}

pub static STACK: Row = Row {
    name: "stack",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor[] tensors, int dim=0) -> Tensor",
    doc: "Tensors of one shape side by side along a new dimension.

    >>> torch.stack([torch.tensor([1, 2]), torch.tensor([3, 4])], 1)
    tensor([[1, 3],
            [2, 4]])",
    out: JOINED,
    dtypes: DTypes::ALL,
    autocast: Autocast::Widest,
    sparse: Sparse::Body(places::stack),
    mapped: Mapped::Rule(super::mapped::stack),
    run: Run::Kernel(Kernel { infer: infer_stack, cpu: run_stack }),
    derivative: Derivative::Joint(Joint {
        inputs: &[0],
        saves: Saves::NOTHING,
        gradients: |d| {
            let grad = d.grad().done()?;
            let dim = wrap_dim(d.int(1), grad.rank())?;
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
    ..Row::BASE
};

fn infer_stack(args: &Args) -> Result<Vec<Spec>> {
    let tensors = args.tensors(0)?;
    let Some(first) = tensors.first() else { return Err(Error::runtime("stack expects a non-empty TensorList")) };
    let mut sizes: Dims = first.sizes().clone();
    if let Some(at) = tensors.iter().position(|tensor| tensor.sizes() != &sizes) {
        return Err(Error::runtime(format!(
            "stack expects each tensor to be equal size, but got {} at entry 0 and {} at entry {at}",
            Shape(&sizes),
            Shape(tensors[at].sizes())
        )));
    }
    let dim = wrap_dim(args.int(1)?, sizes.len() + 1)?;
    let mut joined = sizes.clone();
    sizes.insert(dim, tensors.len() as isize);
    let mut spec = Spec::new(&sizes, common(&tensors)?, first);
    // They lie as if they were joined along `dim`, which is then split.
    if let Some(size) = joined.get_mut(dim) {
        let inner = *size;
        *size = size.saturating_mul(tensors.len() as isize);
        if let Some(mut strides) = with_channels_last(&tensors, first, &joined)? {
            strides.insert(dim, strides[dim] * inner);
            spec.layout.strides = strides;
        }
    }
    Ok(vec![spec])
}

fn run_stack(args: &Args, results: &[Tensor]) -> Result<()> {
    let whole = &results[0];
    let dim = wrap_dim(args.int(1)?, whole.rank())?;
    for (at, tensor) in args.tensors(0)?.into_iter().enumerate() {
        crate::copy::copy_to_view(whole, &whole.layout().select(dim, at as isize), tensor)?;
    }
    Ok(())
}

macro_rules! stacks {
    ($($row:ident $name:literal $aliases:expr, $reference:literal $prepare:expr, $dim:expr, $bad:literal $sentence:literal $doc:literal;)*) => {$(
        pub static $row: Row = Row {
            name: $name,
            aliases: $aliases,
            variants: Variants::FUNCTION.union(Variants::OUT),
            signature: "(Tensor[] tensors) -> Tensor",
            doc: $doc,
            out: JOINED,
            dtypes: DTypes::ALL,
            run: Run::Compose(|args| {
                let prepare: &'static Row = $prepare;
                let tensors = args.tensors(0)?;
                if tensors.is_empty() {
                    return Err(Error::runtime(concat!($name, " expects a non-empty TensorList")));
                }
                let ready: Vec<Tensor> = tensors.into_iter().map(|tensor| op!(prepare, tensor)).collect::<Result<_>>()?;
                let dim: fn(&Tensor) -> i64 = $dim;
                let dim = dim(&ready[0]);
                op!(CAT, ready, dim).map(Output::Tensor)
            }),
            derivative: Derivative::Composed,
            samples: &["[t(2), t(2)]", "[t(2, 3), t(2, 3)]"],
            errors: &[
                ("[]", "RuntimeError", concat!($name, " expects a non-empty TensorList")),
                ($bad, "RuntimeError", $sentence),
            ],
            reference: $reference,
            ..Row::BASE
        };
    )*};
}

stacks! {
    HSTACK "hstack" &[], "np.hstack(tensors)" &crate::view::flatten::ATLEAST_1D, |first| i64::from(first.rank() > 1),
    "[t(2, 3), t(3, 3)]" "Sizes of tensors must match except in dimension 1. Expected size 2 but got size 3 for tensor number 1 in the list."
    "Tensors one behind the other along the columns (vectors along their only dimension).

    >>> torch.hstack([torch.tensor([1, 2]), torch.tensor([3])])
    tensor([1, 2, 3])";
    VSTACK "vstack" &["row_stack"], "np.vstack(tensors)" &crate::view::flatten::ATLEAST_2D, |_| 0,
    "[t(2, 3), t(2, 4)]" "Sizes of tensors must match except in dimension 0. Expected size 3 but got size 4 for tensor number 1 in the list."
    "Tensors one below the other; a vector is a row.

    >>> torch.vstack([torch.tensor([1, 2]), torch.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])";
    DSTACK "dstack" &[], "np.dstack(tensors)" &crate::view::flatten::ATLEAST_3D, |_| 2,
    "[t(2, 3), t(2, 4)]" "Sizes of tensors must match except in dimension 2. Expected size 3 but got size 4 for tensor number 1 in the list."
    "Tensors one behind the other along the third dimension.

    >>> torch.dstack([torch.tensor([1, 2]), torch.tensor([3, 4])])
    tensor([[[1, 3],
             [2, 4]]])";
}

pub static COLUMN_STACK: Row = Row {
    name: "column_stack",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor[] tensors) -> Tensor",
    doc: "Vectors as columns, and matrices side by side.

    >>> torch.column_stack([torch.tensor([1, 2]), torch.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])",
    out: JOINED,
    dtypes: DTypes::ALL,
    run: Run::Compose(|args| {
        let column = |tensor: &Tensor| match tensor.rank() {
            0 | 1 => op!(crate::view::RESHAPE, tensor, crate::value::Ints::from_slice(&[tensor.numel() as i64, 1])),
            _ => Ok(tensor.clone()),
        };
        let tensors = args.tensors(0)?;
        if tensors.is_empty() {
            return Err(Error::runtime("column_stack expects a non-empty TensorList"));
        }
        let ready: Vec<Tensor> = tensors.into_iter().map(column).collect::<Result<_>>()?;
        op!(CAT, ready, 1i64).map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
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
    ..Row::BASE
};
