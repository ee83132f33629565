//! Out-of-place forms of `x[...] = src`: a copy in which one view is overwritten.

use rushlight_autograd::Tensor;
use rushlight_core::layout::{Shape, to_dims, wrap_dim};
use rushlight_core::{Error, Layout, Result};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Args, BackwardContext, BatchRule, BatchedCall, DTypes, Derivative, Implementation, Operator, Out, Saves, Tags,
    Update, Variants, formula, operator,
};
use rushlight_dispatch::value::{Output, Value, Values};
use rushlight_dispatch::{copy, create, op};

use crate::convert::CLONE;
use crate::index::last_writes::of_last_writes;
use crate::view::strided::as_strided;

/// The target view of the source, given the remaining arguments.
type ViewOf = fn(&Layout, &Args) -> Result<Layout>;

fn check(args: &Args, place: ViewOf) -> Result<()> {
    let (input, source) = (args.tensor(SLICE_SCATTER::INPUT)?, args.tensor(SLICE_SCATTER::SRC)?);
    let slot = place(input.layout(), args)?;
    if *source.sizes() == slot.sizes {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "expected src to have a size equal to the slice of self. src size = {}, slice size = {}",
        Shape(source.sizes()),
        Shape(&slot.sizes)
    )))
}

fn write(args: &Args, target: &Tensor, place: ViewOf) -> Result<()> {
    copy::copy_to_view(target, &place(target.layout(), args)?, args.tensor(SLICE_SCATTER::SRC)?)
}

/// The same slot in every sample.
fn in_each(batch: &BatchedCall, place: ViewOf) -> Result<Option<Output>> {
    if batch.size == 0 {
        return Ok(None);
    }
    let whole = op!(CLONE, batch.tensor(SLICE_SCATTER::INPUT)?, "contiguous_format")?;
    let mut slot = place(&whole.layout().select(0, 0), batch.args)?;
    slot.sizes.insert(0, batch.size);
    slot.strides.insert(0, whole.layout().strides[0]);
    copy::copy_to_view(&whole, &slot, &batch.tensor(SLICE_SCATTER::SRC)?)?;
    Ok(Some(Output::Tensor(whole)))
}

/// The gradient of the tensor: zero in the view.
fn outside(d: &BackwardContext, op: &'static Operator) -> Expr {
    let Expr::Tensor(grad) = d.grad() else { return d.grad() };
    let zeros = match create::zeros(d.sizes(SLICE_SCATTER::SRC), grad.dtype(), grad.device()) {
        Ok(zeros) => zeros,
        Err(error) => return Expr::failed(error),
    };
    let mut values: Values = [Value::Own(grad), Value::Own(zeros)].into_iter().collect();
    values.extend(d.args.values.iter().skip(2).cloned());
    Expr::new(Args { op, values }.call().and_then(Output::into_tensor))
}

/// The gradient of the source: the elements of the view.
fn inside(d: &BackwardContext, place: ViewOf) -> Expr {
    let Expr::Tensor(grad) = d.grad() else { return d.grad() };
    Expr::new(place(grad.layout(), d.args).and_then(|slot| as_strided(&grad, &slot)))
}

macro_rules! slots {
    ($($op:ident $name:literal $variants:expr, $signature:literal $place:ident $samples:expr, $errors:expr, $doc:literal;)*) => {$(
        #[operator]
        pub static $op: Operator = Operator {
            name: $name,
            variants: $variants,
            signature: $signature,
            out: Out::STRICT,
            doc: $doc,
            dtypes: DTypes::ALL,
            tags: Tags::KEEPS_STRIDES,
            batch_rule: BatchRule::Custom(|batch| in_each(batch, $place)),
            implementation: Implementation::Update(Update::on_any_device(|args| check(args, $place), |args, target| write(args, target, $place))),
            derivative: Derivative::Formulas(&[
                formula(INPUT, Saves::NOTHING, |d| outside(d, &$op)),
                formula(SRC, Saves::NOTHING, |d| inside(d, $place)),
            ]),
            samples: $samples,
            errors: $errors,
            ..Operator::BASE
        };
    )*};
}

slots! {
    SLICE_SCATTER "slice_scatter" Variants::BOTH.union(Variants::OUT), "(Tensor self, Tensor src, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor" slice
    &["t(4, 3), t(2, 3), 0, 1, 3", "t(4, 3), t(4, 2), 1, 0, 3, 2"],
    &[
        ("t(4), t(3), 0, 0, 2", "RuntimeError", "expected src to have a size equal to the slice of self. src size = [3], slice size = [2]"),
        ("t(4), t(2), 1", "IndexError", "Dimension out of range (expected to be in range of [-1, 0], but got 1)"),
        ("t(4), t(2), 0, 0, 2, 0", "RuntimeError", "slice step must be positive"),
    ],
    "A copy with `src` in place of the slice `start:end:step` of `dim`.

    >>> torch.slice_scatter(torch.zeros(4), torch.ones(2), start=1, end=3)
    tensor([0., 1., 1., 0.])";
    SELECT_SCATTER "select_scatter" Variants::BOTH, "(Tensor self, Tensor src, int dim, int index) -> Tensor" select
    &["t(4, 3), t(3), 0, 1", "t(4, 3), t(4), -1, -1"],
    &[
        ("t(2, 3), t(2), 0, 0", "RuntimeError", "expected src to have a size equal to the slice of self. src size = [2], slice size = [3]"),
        ("t(2, 3), t(3), 0, 2", "IndexError", "select(): index 2 out of range for tensor of size [2, 3] at dimension 0"),
    ],
    "A copy with `src` in place of the slice at one index of `dim`.

    >>> torch.select_scatter(torch.zeros(2, 2), torch.ones(2), 0, 1)
    tensor([[0., 0.],
            [1., 1.]])";
    DIAGONAL_SCATTER "diagonal_scatter" Variants::BOTH, "(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor" diagonal
    &["t(3, 4), t(3)", "t(3, 4), t(2), -1"],
    &[
        ("t(3, 3), t(2)", "RuntimeError", "expected src to have a size equal to the slice of self. src size = [2], slice size = [3]"),
        ("t(3, 3), t(3), 0, 1, 1", "RuntimeError", "diagonal dimensions cannot be identical 1, 1"),
    ],
    "A copy with `src` in place of a diagonal.

    >>> torch.diagonal_scatter(torch.zeros(2, 2), torch.ones(2))
    tensor([[1., 0.],
            [0., 1.]])";
}

fn slice(own: &Layout, args: &Args) -> Result<Layout> {
    use SLICE_SCATTER::*;

    let dim = wrap_dim(args.int(DIM)?, own.rank())?;
    let end = |arg, missing: isize| args.optional_int(arg).map_or(missing, |at| at as isize);
    let Some(&size) = own.sizes.get(dim) else {
        return Err(
            Error::index("slice() cannot be applied to a 0-dim tensor.").hint("Use x.reshape(1) to add a dimension.")
        );
    };
    let step = args.int(STEP)? as isize;
    if step <= 0 {
        return Err(Error::runtime("slice step must be positive"));
    }
    let (start, length) = rushlight_core::index::bounds(end(START, 0), end(END, isize::MAX), step, size)?;
    Ok(own.slice(dim, start, length, step))
}

fn select(own: &Layout, args: &Args) -> Result<Layout> {
    crate::view::narrow::select_at(own, args.int(SELECT_SCATTER::DIM)?, args.int(SELECT_SCATTER::INDEX)?)
}

fn diagonal(own: &Layout, args: &Args) -> Result<Layout> {
    use DIAGONAL_SCATTER::*;

    crate::view::diagonal::diagonal_at(own, args.int(OFFSET)?, args.int(DIM1)?, args.int(DIM2)?)
}

#[operator]
pub static AS_STRIDED_SCATTER: Operator = Operator {
    name: "as_strided_scatter",
    signature: "(Tensor self, Tensor src, int[] size, int[] stride, int? storage_offset=None) -> Tensor",
    doc:
        "A copy with the strides of `self` and with `src` in place of the view with the given sizes, strides and offset.

    >>> torch.as_strided_scatter(torch.zeros(4), torch.ones(2), (2,), (2,))
    tensor([1., 0., 1., 0.])",
    dtypes: DTypes::ALL,
    tags: Tags::STRIDE_DEPENDENT.union(Tags::KEEPS_STRIDES),
    implementation: Implementation::Update(Update::on_any_device(
        |args| check(args, strided),
        |args, target| write(args, target, strided),
    )),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::NOTHING, inside_alone),
        formula(SRC, Saves::NOTHING, |d| {
            of_last_writes(
                d,
                Expr::new(slot_of_gradient(d)),
                |zeros, numbers| written(d, zeros, numbers),
                |written| as_strided(written, &strided(written.layout(), d.args)?),
            )
        }),
    ]),
    samples: &["t(6), t(2), (2,), (3,)"],
    errors: &[(
        "t(4), t(2), (3,), (1,)",
        "RuntimeError",
        "expected src to have a size equal to the slice of self. src size = [2], slice size = [3]",
    )],
    ..Operator::BASE
};

fn slot_of_gradient(d: &BackwardContext) -> Result<Tensor> {
    let grad = crate::convert::contiguous(&d.grad().done()?)?;
    as_strided(&grad, &strided(grad.layout(), d.args)?)
}

/// torch's gradient of the tensor: the gradient in the view, and zeros around it. The true one, from which tangents are
/// computed, is the reverse of that, as for the other operators here.
fn inside_alone(d: &BackwardContext) -> Expr {
    let gradient = || {
        let slot = slot_of_gradient(d)?;
        let zeros = |sizes: &[isize]| create::zeros(sizes, slot.dtype(), slot.device());
        if d.for_tangent() {
            return written(d, &crate::convert::contiguous(&d.grad().done()?)?, &zeros(slot.sizes())?);
        }
        written(d, &zeros(d.sizes(AS_STRIDED_SCATTER::INPUT))?, &slot)
    };
    Expr::new(gradient())
}

/// The same call with other tensors.
fn written(d: &BackwardContext, input: &Tensor, src: &Tensor) -> Result<Tensor> {
    let mut values: Values = [input.into(), src.into()].into_iter().collect();
    values.extend(d.args.values.iter().skip(2).cloned());
    Args { op: &AS_STRIDED_SCATTER, values }.call().and_then(Output::into_tensor)
}

fn strided(own: &Layout, args: &Args) -> Result<Layout> {
    use AS_STRIDED_SCATTER::*;

    if args.ints(SIZE)?.len() != args.ints(STRIDE)?.len() {
        return Err(Error::runtime("mismatch in length of strides and shape"));
    }
    let slot = Layout {
        sizes: to_dims(args.ints(SIZE)?),
        strides: to_dims(args.ints(STRIDE)?),
        offset: own.offset + args.optional_int(STORAGE_OFFSET).unwrap_or(0) as isize,
    };
    let (low, high) = own.span().unwrap_or((0, -1));
    match slot.checked_span() {
        Some(Some((first, last))) if first >= low && last <= high => Ok(slot),
        Some(None) => Ok(slot),
        _ => {
            let width = args.tensor(INPUT)?.dtype().size();
            slot.check_within((high + 1) as usize * width, width, [])?;
            Err(Error::runtime(format!(
                "as_strided_scatter: sizes {} and strides {} leave a tensor of {} elements",
                Shape(&slot.sizes),
                Shape(&slot.strides),
                own.numel()
            )))
        }
    }
}
