//! A copy in which one view is overwritten: the out-of-place forms of `x[...] = src`.

use rushlight_core::layout::{Shape, to_dims, wrap_dim};
use rushlight_core::{Error, Layout, Result};

use crate::Tensor;
use crate::convert::CLONE;
use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::mapped::{Batch, Mapped};
use crate::op;
use crate::row::{DTypes, Out, Row, Run, Traits, Update, Variants};
use crate::value::{Args, Output, Value, Values};

/// Where the source goes, by the arguments behind it.
type Place = fn(&Layout, &Args) -> Result<Layout>;

fn check(args: &Args, place: Place) -> Result<()> {
    let (own, source) = (args.tensor(0)?, args.tensor(1)?);
    let slot = place(own.layout(), args)?;
    if *source.sizes() == slot.sizes {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "expected src to have a size equal to the slice of self. src size = {}, slice size = {}",
        Shape(source.sizes()),
        Shape(&slot.sizes)
    )))
}

fn write(args: &Args, target: &Tensor, place: Place) -> Result<()> {
    crate::copy::copy_to_view(target, &place(target.layout(), args)?, args.tensor(1)?)
}

/// The same slot in every sample.
fn in_each(batch: &Batch, place: Place) -> Result<Option<Output>> {
    if batch.size == 0 {
        return Ok(None);
    }
    let whole = op!(CLONE, batch.tensor(0)?, "contiguous_format")?;
    let mut slot = place(&whole.layout().select(0, 0), batch.args)?;
    slot.sizes.insert(0, batch.size);
    slot.strides.insert(0, whole.layout().strides[0]);
    crate::copy::copy_to_view(&whole, &slot, &batch.tensor(1)?)?;
    Ok(Some(Output::Tensor(whole)))
}

/// The gradient of the tensor: nothing comes from the slot.
fn outside(d: &Derive, row: &'static Row) -> Expr {
    let Expr::Tensor(grad) = d.grad() else { return d.grad() };
    let zeros = match crate::create::zeros(d.sizes(1), grad.dtype(), grad.device()) {
        Ok(zeros) => zeros,
        Err(error) => return Expr::failed(error),
    };
    let mut values: Values = [Value::Own(grad), Value::Own(zeros)].into_iter().collect();
    values.extend(d.args.values.iter().skip(2).cloned());
    Expr::new(crate::call::call(Args { row, values }).and_then(Output::into_tensor))
}

/// The gradient of the source: what stands in the slot.
fn inside(d: &Derive, place: Place) -> Expr {
    let Expr::Tensor(grad) = d.grad() else { return d.grad() };
    Expr::new(place(grad.layout(), d.args).and_then(|slot| crate::view::strided::as_strided(&grad, &slot)))
}

macro_rules! slots {
    ($($row:ident $name:literal $variants:expr, $signature:literal $place:ident $samples:expr, $errors:expr, $doc:literal;)*) => {$(
        pub static $row: Row = Row {
            name: $name,
            variants: $variants,
            signature: $signature,
            out: Out::STRICT,
            doc: $doc,
            dtypes: DTypes::ALL,
            traits: Traits::KEEPS_STRIDES,
            mapped: Mapped::Rule(|batch| in_each(batch, $place)),
            run: Run::Update(Update { check: |args| check(args, $place), cpu: |args, target| write(args, target, $place) }),
            derivative: Derivative::Formulas(&[
                formula(0, Saves::NOTHING, |d| outside(d, &$row)),
                formula(1, Saves::NOTHING, |d| inside(d, $place)),
            ]),
            samples: $samples,
            errors: $errors,
            ..Row::BASE
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
    let dim = wrap_dim(args.int(2)?, own.rank())?;
    let end = |place: usize, missing: isize| args.optional_int(place).map_or(missing, |at| at as isize);
    let Some(&size) = own.sizes.get(dim) else {
        return Err(
            Error::index("slice() cannot be applied to a 0-dim tensor.").hint("x.reshape(1) gives it a dimension.")
        );
    };
    let step = args.int(5)? as isize;
    if step <= 0 {
        return Err(Error::runtime("slice step must be positive"));
    }
    let (start, length) = rushlight_core::index::bounds(end(3, 0), end(4, isize::MAX), step, size)?;
    Ok(own.slice(dim, start, length, step))
}

fn select(own: &Layout, args: &Args) -> Result<Layout> {
    crate::view::narrow::select_at(own, args.int(2)?, args.int(3)?)
}

fn diagonal(own: &Layout, args: &Args) -> Result<Layout> {
    crate::view::diagonal::diagonal_at(own, args.int(2)?, args.int(3)?, args.int(4)?)
}

pub static AS_STRIDED_SCATTER: Row = Row {
    name: "as_strided_scatter",
    signature: "(Tensor self, Tensor src, int[] size, int[] stride, int? storage_offset=None) -> Tensor",
    doc:
        "A copy with the strides of `self` and with `src` in place of the elements that sizes, strides and offset name.

    >>> torch.as_strided_scatter(torch.zeros(4), torch.ones(2), (2,), (2,))
    tensor([1., 0., 1., 0.])",
    dtypes: DTypes::ALL,
    traits: Traits::SEES_MEMORY.union(Traits::KEEPS_STRIDES),
    run: Run::Update(Update { check: |args| check(args, strided), cpu: |args, target| write(args, target, strided) }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::NOTHING, inside_alone),
        formula(1, Saves::NOTHING, |d| Expr::new(slot_of_gradient(d))),
    ]),
    samples: &["t(6), t(2), (2,), (3,)"],
    errors: &[(
        "t(4), t(2), (3,), (1,)",
        "RuntimeError",
        "expected src to have a size equal to the slice of self. src size = [2], slice size = [3]",
    )],
    ..Row::BASE
};

fn slot_of_gradient(d: &Derive) -> Result<Tensor> {
    let grad = crate::convert::contiguous(&d.grad().done()?)?;
    crate::view::strided::as_strided(&grad, &strided(grad.layout(), d.args)?)
}

/// torch's gradient of the tensor: what arrives in the slot, and zeros around it. The derivative is the reverse of that, as
/// for the other slots; programs see what torch gives.
fn inside_alone(d: &Derive) -> Expr {
    let gradient = || {
        let slot = slot_of_gradient(d)?;
        let zeros = crate::create::zeros(d.sizes(0), slot.dtype(), slot.device())?;
        let mut values: Values = [Value::Own(zeros), Value::Own(slot)].into_iter().collect();
        values.extend(d.args.values.iter().skip(2).cloned());
        crate::call::call(Args { row: &AS_STRIDED_SCATTER, values }).and_then(Output::into_tensor)
    };
    Expr::new(gradient())
}

fn strided(own: &Layout, args: &Args) -> Result<Layout> {
    let slot = Layout {
        sizes: to_dims(args.ints(2)?),
        strides: to_dims(args.ints(3)?),
        offset: own.offset + args.optional_int(4).unwrap_or(0) as isize,
    };
    let (low, high) = own.span().unwrap_or((0, -1));
    match slot.checked_span() {
        Some(Some((first, last))) if slot.sizes.len() == slot.strides.len() && first >= low && last <= high => Ok(slot),
        Some(None) => Ok(slot),
        _ => Err(Error::runtime(format!(
            "as_strided_scatter: sizes {} and strides {} leave a tensor of {} elements",
            Shape(&slot.sizes),
            Shape(&slot.strides),
            own.numel()
        ))),
    }
}
