//! Elements chosen by a mask of truths.

use rushlight_core::plan::Plan;
use rushlight_core::{DType, Device, Error, Result, Scalar};
use rushlight_cpu::index::merge::Merge;
use rushlight_cpu::pointwise::{Lane, run};

use super::nonzero::positions;
use super::put::{put_into, single};
use super::scatter::SCATTER;
use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::mapped::Mapped;
use crate::reduce::cumulative::CUMSUM;
use crate::row::{Accepts, DTypes, Out, Row, Run, Spec, Traits, Update, Variants};
use crate::value::{Args, Ints, Output, Value};
use crate::view::expand::EXPAND;
use crate::view::narrow::sliced;
use crate::view::reshape::sizes_value;
use crate::{Tensor, op};

pub static MASKED_SELECT: Row = Row {
    name: "masked_select",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, Tensor mask) -> Tensor",
    doc: "The elements where `mask` is true, in row-major order; both broadcast.

    >>> torch.masked_select(torch.tensor([1, 2, 3]), torch.tensor([True, False, True]))
    tensor([1, 3])",
    out: Out::new(Accepts::Same, &["masked_select(): self and result must have the same scalar type"]).apart(),
    dtypes: DTypes::ALL,
    traits: Traits::NEEDS_VALUES,
    mapped: Mapped::Refused(by_mask),
    run: Run::Body(|args| {
        let (own, mask) = (args.tensor(0)?, args.valued(1)?);
        if mask.dtype() != DType::Bool {
            return Err(Error::runtime("masked_select: expected BoolTensor for mask"));
        }
        let sizes = rushlight_core::broadcast::broadcast(mask.sizes(), own.sizes())?;
        let places = crate::from_slice(&positions(&stretched(mask, &sizes)?)?)?;
        let flat = op!(crate::view::RESHAPE, stretched(own, &sizes)?, sizes_value(&[-1]))?;
        let chosen = crate::call::allocate(&Spec::new(places.sizes(), own.dtype(), own))?;
        super::get::get_into(&flat, &single(&flat, 0, &places)?, &chosen)?;
        Ok(Output::Tensor(chosen))
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(1), |d| match d.input(1) {
        Expr::Tensor(mask) => Expr::new(select_back(d, &mask)),
        other => other,
    })]),
    samples: &["t(3, 4), b(3, 4)", "t(3, 4), b(4)", "t(4), b(3, 4)", "t(3, 4).t(), b(4, 3)"],
    errors: &[("t(3), i(2, 3)", "RuntimeError", "masked_select: expected BoolTensor for mask")],
    reference: "np.broadcast_to(self, np.broadcast(self, mask).shape)[np.broadcast_to(mask, np.broadcast(self, mask).shape)]",
    ..Row::BASE
};

/// A detached view of a larger shape.
fn stretched(tensor: &Tensor, sizes: &[isize]) -> Result<Tensor> {
    Ok(Tensor::view_of(&tensor.detach(), tensor.layout().broadcast_to(sizes)?))
}

fn select_back(d: &Derive, mask: &Tensor) -> Result<Tensor> {
    let Some(facts) = d.facts(0) else { return Err(Error::runtime("masked_select lost its argument")) };
    let sizes = rushlight_core::broadcast::broadcast(mask.sizes(), &facts.sizes)?;
    let zeros = crate::create::zeros(&sizes, facts.dtype, facts.device)?;
    let mask = op!(EXPAND, mask, sizes_value(&sizes))?;
    op!(MASKED_SCATTER, zeros, mask, d.grad().done()?)
}

pub static MASKED_FILL: Row = Row {
    name: "masked_fill",
    variants: Variants::INPLACE,
    signature: "(Tensor self, Tensor mask, Scalar value) -> Tensor",
    doc: "One number where `mask`, which broadcasts, is true.

    >>> torch.zeros(3).masked_fill_(torch.tensor([True, False, True]), 5)
    tensor([5., 0., 5.])",
    dtypes: DTypes::ALL,
    traits: Traits::WRITES_EXPANDED.union(Traits::ROW_MAJOR),
    mapped: Mapped::Aligned,
    run: Run::Update(Update {
        check: |args| {
            crate::create::check_fits(args.scalar(2)?, args.tensor(0)?.dtype())?;
            check_mask(args)
        },
        cpu: |args, target| {
            let value = crate::create::scalar_of(args.scalar(2)?, target.dtype(), target.device())?;
            fill(target, args.tensor(1)?, &value)
        },
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(1), cleared)]),
    node: "MaskedFillBackward0",
    samples: &["t(3, 4), b(3, 4), 2", "t(3, 4), b(4), 2"],
    errors: &[
        (
            "t(3), i(2, 3), 1",
            "RuntimeError",
            "masked_fill_ only supports boolean masks, but got mask with dtype long int",
        ),
        ("i(3, 3), b(3), 1j", "RuntimeError", "value cannot be converted to type int64_t without overflow"),
    ],
    reference: "np.where(mask, value, self)",
    ..Row::BASE
};

pub static MASKED_FILL_TENSOR: Row = Row {
    name: "masked_fill.Tensor",
    variants: Variants::INPLACE,
    signature: "(Tensor self, Tensor mask, Tensor value) -> Tensor",
    doc: "The number of a 0-d tensor where `mask`, which broadcasts, is true.

    >>> torch.zeros(3).masked_fill_(torch.tensor([True, False, True]), torch.tensor(5))
    tensor([5., 0., 5.])",
    dtypes: DTypes::ALL,
    traits: Traits::WRITES_EXPANDED.union(Traits::ROW_MAJOR),
    mapped: Mapped::Rule(super::mapped::masked),
    run: Run::Update(Update {
        check: |args| {
            let value = args.tensor(2)?;
            if value.rank() != 0 {
                return Err(Error::runtime(format!(
                    "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
                    value.rank()
                )));
            }
            if value.device() == Device::Cpu && !value.is_mapped() {
                crate::create::check_fits(crate::convert::item(value)?, args.tensor(0)?.dtype())?;
            }
            check_mask(args)
        },
        cpu: |args, target| fill(target, args.tensor(1)?, args.tensor(2)?),
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1), cleared),
        formula(2, Saves::input(1), |d| d.input(1).choose(d.grad(), 0i64).call(&crate::reduce::SUM, [])),
    ]),
    node: "MaskedFillBackward1",
    samples: &["t(3, 4), b(3, 4), t()"],
    errors: &[(
        "i(3, 3), b(3), torch.tensor(1j)",
        "RuntimeError",
        "value cannot be converted to type int64_t without overflow",
    )],
    reference: "np.where(mask, value, self)",
    ..Row::BASE
};

/// The functions, whose result takes the common shape of both.
macro_rules! out_of_place {
    ($($row:ident $name:literal $in_place:ident $signature:literal $sample:literal $reference:literal $doc:literal;)*) => {$(
        pub static $row: Row = Row {
            name: $name,
            signature: $signature,
            doc: $doc,
            dtypes: DTypes::ALL,
            run: Run::Compose(|args| {
                let (own, mask) = (args.tensor(0)?, args.tensor(1)?);
                let sizes = rushlight_core::broadcast::broadcast(mask.sizes(), own.sizes())?;
                let own = if *own.sizes() == sizes { own.clone() } else { op!(EXPAND, own, sizes_value(&sizes))? };
                crate::call::call(Args::new(&$in_place, [Value::Own(own), mask.into(), args.values[2].clone()]))
            }),
            derivative: Derivative::Composed,
            samples: &[$sample],
            reference: $reference,
            ..Row::BASE
        };
    )*};
}

out_of_place! {
    FILLED "masked_fill.out_of_place" MASKED_FILL "(Tensor self, Tensor mask, Scalar value) -> Tensor" "t(3, 4), b(4), 2" "np.where(mask, value, self)"
    "A copy with one number where `mask`, which broadcasts, is true.

    >>> torch.masked_fill(torch.zeros(3), torch.tensor([True, False, True]), 5)
    tensor([5., 0., 5.])";
    FILLED_TENSOR "masked_fill.out_of_place_Tensor" MASKED_FILL_TENSOR "(Tensor self, Tensor mask, Tensor value) -> Tensor" "t(3, 4), b(4), t()" "np.where(mask, value, self)"
    "A copy with the number of a 0-d tensor where `mask`, which broadcasts, is true.

    >>> torch.masked_fill(torch.zeros(3), torch.tensor([True, False, True]), torch.tensor(5))
    tensor([5., 0., 5.])";
    SCATTERED "masked_scatter.out_of_place" MASKED_SCATTER "(Tensor self, Tensor mask, Tensor source) -> Tensor" "t(4), b(3, 4), t(12)" ""
    "A copy with the elements of `source`, in order, where `mask` is true; tensor and mask broadcast.

    >>> torch.masked_scatter(torch.zeros(3), torch.tensor([True, False, True]), torch.tensor([1., 2.]))
    tensor([1., 0., 2.])";
}

fn check_mask(args: &Args) -> Result<()> {
    let (own, mask) = (args.tensor(0)?, args.tensor(1)?);
    if mask.dtype() != DType::Bool {
        return Err(Error::runtime(format!(
            "masked_fill_ only supports boolean masks, but got mask with dtype {}",
            mask.dtype().c_name()
        )));
    }
    check_shape(own, mask)
}

/// The mask broadcasts to the tensor, which keeps its shape.
fn check_shape(own: &Tensor, mask: &Tensor) -> Result<()> {
    let sizes = rushlight_core::broadcast::broadcast(own.sizes(), mask.sizes())?;
    if sizes == *own.sizes() {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "output with shape {} doesn't match the broadcast shape {}",
        rushlight_core::layout::Shape(own.sizes()),
        rushlight_core::layout::Shape(&sizes)
    ))
    .shapes([own.sizes().as_slice(), mask.sizes().as_slice()]))
}

fn cleared(d: &Derive) -> Expr {
    match d.input(1) {
        Expr::Tensor(mask) => d.grad().call(&MASKED_FILL, [mask.into(), Value::Scalar(Scalar::ZERO)]),
        other => other,
    }
}

/// Overwrites with one value where the mask is true. An element that an expanded tensor shows several times is overwritten
/// where any of its places is.
fn fill(target: &Tensor, mask: &Tensor, value: &Tensor) -> Result<()> {
    let expanded: Ints = target.layout().expanded().map(|dim| dim as i64).collect();
    if expanded.is_empty() {
        return fill_each(target, mask, value);
    }
    let whole = stretched(mask, target.sizes())?;
    let (mut layout, dims) = (target.layout().clone(), expanded.clone());
    dims.iter().for_each(|&dim| layout.sizes[dim as usize] = 1);
    let mask = op!(crate::reduce::truth::ANY_DIMS, &whole, expanded, true)?;
    fill_each(&Tensor::view_of(&target.detach(), layout), &mask, value)
}

/// The same for a tensor that shows each element once.
fn fill_each(target: &Tensor, mask: &Tensor, value: &Tensor) -> Result<()> {
    /// # Safety
    /// `out` and the inputs hold `n` elements.
    unsafe fn tile<T: Copy>(out: *mut u8, inputs: *const *const u8, n: usize, _: &[Scalar]) {
        // SAFETY: the walk gives `n` elements on each side, and bytes for the mask.
        unsafe {
            let (old, mask, value) = (*inputs, *inputs.add(1), *inputs.add(2));
            for i in 0..n {
                let from = if *mask.add(i) != 0 { value } else { old };
                out.cast::<T>().add(i).write_unaligned(from.cast::<T>().add(i).read_unaligned());
            }
        }
    }
    let layout = target.layout();
    if layout.numel() == 0 {
        return Ok(());
    }
    let (wide_mask, wide_value) =
        (mask.layout().broadcast_to(&layout.sizes)?, value.layout().broadcast_to(&layout.sizes)?);
    let dtype = target.dtype();
    let plan =
        Plan::new([layout, layout, &wide_mask, &wide_value], [dtype.size(), dtype.size(), 1, value.dtype().size()]);
    let (to, truths, number) = (target.storage().pin()?, mask.storage().pin()?, value.storage().pin()?);
    let lane = |pointer: *mut u8, dtype: DType| Lane { pointer, dtype };
    let lanes = [
        lane(to.as_ptr(), dtype),
        lane(to.as_ptr(), dtype),
        lane(truths.as_ptr(), DType::Bool),
        lane(number.as_ptr(), value.dtype()),
    ];
    let each = match dtype.size() {
        1 => tile::<u8>,
        2 => tile::<u16>,
        4 => tile::<u32>,
        8 => tile::<u64>,
        _ => tile::<u128>,
    };
    // SAFETY: layouts stay within their pinned storages, and the walk casts the value to the target's dtype.
    unsafe { run(&plan, lanes, [dtype, dtype, DType::Bool, dtype], each, &[]) };
    Ok(())
}

pub static MASKED_SCATTER: Row = Row {
    name: "masked_scatter",
    variants: Variants::INPLACE,
    signature: "(Tensor self, Tensor mask, Tensor source) -> Tensor",
    doc: "The elements of `source`, in order, where `mask`, which broadcasts, is true.

    >>> torch.zeros(3).masked_scatter_(torch.tensor([True, False, True]), torch.tensor([1., 2.]))
    tensor([1., 0., 2.])",
    dtypes: DTypes::ALL,
    traits: Traits::ROW_MAJOR,
    run: Run::Update(Update {
        check: |args| {
            let (own, mask, source) = (args.tensor(0)?, args.tensor(1)?, args.tensor(2)?);
            if own.dtype() != source.dtype() {
                return Err(Error::runtime(format!(
                    "masked_scatter: expected self and source to have same dtypes but got{} and {}",
                    own.dtype().title(),
                    source.dtype().title()
                )));
            }
            if mask.dtype() == DType::U8 {
                crate::host::warn(
                    "masked_scatter_ received a mask with dtype torch.uint8, this behavior is now deprecated,please use a mask with dtype torch.bool instead.",
                )?;
            }
            if mask.dtype() != DType::Bool {
                return Err(Error::runtime(format!(
                    "masked_scatter_ only supports boolean masks, but got mask with dtype {}",
                    mask.dtype().title()
                )));
            }
            check_shape(own, mask)
        },
        cpu: |args, target| {
            let places = positions(&stretched(args.tensor(1)?, target.sizes())?)?;
            let source = args.tensor(2)?;
            if places.len() > source.numel() {
                return Err(Error::runtime("Number of elements of source < number of ones in mask")
                    .hint("source needs an element for each True of the mask."));
            }
            let row = op!(crate::view::RESHAPE, &source.detach(), sizes_value(&[-1]))?;
            let values = Tensor::view_of(&row, row.layout().slice(0, 0, places.len() as isize, 1));
            let flat = op!(crate::view::RESHAPE, &target.detach(), sizes_value(&[-1]))?;
            let places = crate::from_slice(&places)?;
            put_into(&flat, &single(&flat, 0, &places)?, &values, Merge::Set)?;
            if flat.storage().same(target.storage()) {
                return Ok(());
            }
            crate::copy::copy(target, &op!(crate::view::RESHAPE, flat, sizes_value(target.sizes()))?)
        },
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1), cleared),
        formula(2, Saves::input(1), |d| match d.input(1) {
            Expr::Tensor(mask) => Expr::new(scatter_back(d, &mask)),
            other => other,
        }),
    ]),
    samples: &["t(3, 4), b(3, 4), t(12)", "t(3, 4), b(4), t(3, 4)"],
    errors: &[("t(3), b(3) | True, t(1)", "RuntimeError", "Number of elements of source < number of ones in mask")],
    ..Row::BASE
};

/// The chosen elements of the gradient, followed by zeros for what was not used of the source.
fn scatter_back(d: &Derive, mask: &Tensor) -> Result<Tensor> {
    if let Some(facts) = d.facts(2).filter(|facts| facts.device == Device::Meta) {
        return crate::create::empty(&facts.sizes, facts.dtype, facts.device);
    }
    let sizes = d.sizes(2);
    if mask.is_mapped() {
        return scatter_back_each(&d.grad().done()?, mask, sizes);
    }
    let chosen = op!(MASKED_SELECT, d.grad().done()?, mask)?;
    let rest = sizes.iter().product::<isize>() - chosen.numel() as isize;
    let zeros = crate::create::zeros(&[rest], chosen.dtype(), chosen.device())?;
    let whole = op!(crate::join::CAT, vec![chosen, zeros], 0i64)?;
    op!(crate::view::RESHAPE, whole, sizes_value(sizes))
}

/// The same without a look at how many elements are chosen, which may be another number in each sample: every element has
/// a place, and that of those which were not chosen is beyond the source.
fn scatter_back_each(grad: &Tensor, mask: &Tensor, sizes: &[isize]) -> Result<Tensor> {
    let numel = sizes.iter().product::<isize>();
    let line = |tensor: &Tensor| op!(crate::view::RESHAPE, tensor, sizes_value(&[-1]));
    let mask = line(&op!(EXPAND, mask, sizes_value(grad.sizes()))?)?;
    let count = Expr::from(&mask).call(&CUMSUM, [0i64.into()]);
    let places = Expr::from(&mask).choose(count - 1i64, numel as i64).done()?;
    let room = crate::create::zeros(&[numel + 1], grad.dtype(), grad.device())?;
    let whole = op!(SCATTER, room, 0i64, places, line(grad)?)?;
    op!(crate::view::RESHAPE, sliced(&whole, 0, 0, numel, 1)?, sizes_value(sizes))
}

#[cold]
fn by_mask(_: &Row) -> Error {
    Error::runtime(
        "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) We cannot support this because for each batch this would return a differently shaped Tensor. Please file an issue at https://github.com/pytorch/pytorch/issues if you need this feature.",
    )
}
