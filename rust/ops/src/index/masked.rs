//! Elements selected by a boolean mask.

use rushlight_autograd::Tensor;
use rushlight_core::dtype::promote;
use rushlight_core::loop_nest::LoopNest;
use rushlight_core::{DType, Device, Error, Result, Scalar};
use rushlight_cpu::index::scatter::ScatterOp;
use rushlight_cpu::pointwise::{RawOperand, run};
use rushlight_dispatch::allocate::allocate;
use rushlight_dispatch::backcompat::broadcast_with_warnings;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Accepts, Args, BackwardContext, BatchRule, BatchedCall, DTypes, Derivative, ExplicitAutograd, Implementation,
    OnCuda, Operator, Out, Saves, Tags, TensorSpec, Update, Variants, formula, operator,
};
use rushlight_dispatch::value::{Ints, Operand, Output, Value, sizes_value};
use rushlight_dispatch::vmap::{RuleResult, one_result, unsqueeze_to_rank};
use rushlight_dispatch::{copy, create, device_loops, interpreter, op};

use super::nonzero::positions;
use super::put::{put_into, single};
use super::scatter::SCATTER;
use crate::convert::{to_device, to_dtype};
use crate::expr_ext::ExprExt;
use crate::pointwise::where_::WHERE;
use crate::reduce::cumulative::CUMSUM;
use crate::view::expand::EXPAND;
use crate::view::narrow::sliced;

#[operator]
pub static MASKED_SELECT: Operator = Operator {
    name: "masked_select",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, Tensor mask) -> Tensor",
    doc: "The elements where `mask` is true, in row-major order; both broadcast.

    >>> torch.masked_select(torch.tensor([1, 2, 3]), torch.tensor([True, False, True]))
    tensor([1, 3])",
    out: Out::new(Accepts::Same, &["masked_select(): self and result must have the same scalar type"]).no_alias(),
    dtypes: DTypes::ALL,
    tags: Tags::DATA_DEPENDENT,
    batch_rule: BatchRule::Custom(batched_masked_select),
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        let (input, mask) = (args.tensor(INPUT)?, args.valued(MASK)?);
        if mask.dtype() != DType::Bool {
            return Err(Error::runtime("masked_select: expected BoolTensor for mask"));
        }
        let sizes = broadcast_with_warnings("masked_select", mask.sizes(), input.sizes())?;
        let places = to_device(&positions(&stretched(mask, &sizes)?)?, input.device())?;
        let flat = op!(crate::view::RESHAPE, stretched(input, &sizes)?, sizes_value(&[-1]))?;
        let chosen = allocate(&TensorSpec::new(places.sizes(), input.dtype(), input))?;
        super::get::get_into(&flat, &single(&flat, 0, &places)?, &chosen)?;
        Ok(Output::Tensor(chosen))
    })),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(MASK), |d| match d.input(MASK) {
        Expr::Tensor(mask) => Expr::new(select_back(d, &mask)),
        other => other,
    })]),
    samples: &["t(3, 4), b(3, 4)", "t(3, 4), b(4)", "t(4), b(3, 4)", "t(3, 4).t(), b(4, 3)"],
    errors: &[("t(3), i(2, 3)", "RuntimeError", "masked_select: expected BoolTensor for mask")],
    reference: "np.broadcast_to(self, np.broadcast(self, mask).shape)[np.broadcast_to(mask, np.broadcast(self, mask).shape)]",
    ..Operator::BASE
};

/// A detached view, expanded to a larger shape.
fn stretched(tensor: &Tensor, sizes: &[isize]) -> Result<Tensor> {
    Ok(Tensor::view_of(&tensor.detach(), tensor.layout().broadcast_to(sizes)?))
}

fn select_back(d: &BackwardContext, mask: &Tensor) -> Result<Tensor> {
    let Some(meta) = d.meta(MASKED_SELECT::INPUT) else {
        return Err(Error::runtime("masked_select lost its argument"));
    };
    let sizes = rushlight_core::broadcast::broadcast(mask.sizes(), &meta.sizes)?;
    let zeros = create::zeros(&sizes, meta.dtype, meta.device)?;
    let mask = op!(EXPAND, mask, sizes_value(&sizes))?;
    op!(MASKED_SCATTER, zeros, mask, d.grad().done()?)
}

#[operator]
pub static MASKED_FILL: Operator = Operator {
    name: "masked_fill",
    variants: Variants::INPLACE,
    signature: "(Tensor self, Tensor mask, Scalar value) -> Tensor",
    doc: "Writes one number where `mask`, which broadcasts, is true.

    >>> torch.zeros(3).masked_fill_(torch.tensor([True, False, True]), 5)
    tensor([5., 0., 5.])",
    dtypes: DTypes::COMPUTED.union(DTypes::COMPLEX32),
    tags: Tags::WRITES_EXPANDED.union(Tags::ROW_MAJOR),
    batch_rule: BatchRule::Broadcast,
    implementation: Implementation::Update(Update {
        check: |args| {
            check_mask(args)?;
            check_fits(args.scalar(VALUE)?, args.tensor(INPUT)?.dtype())
        },
        cpu: |args, target| {
            let value = create::scalar_of(args.scalar(VALUE)?, target.dtype(), target.device())?;
            fill(target, args.tensor(MASK)?, &value)
        },
        cuda: OnCuda::Own(|args, target| {
            let (mask, value) = (args.tensor(MASK)?, args.scalar(VALUE)?);
            device_loops::select(target, Operand::Tensor(mask), Operand::Number(value), Operand::Tensor(target))
        }),
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(MASK), cleared)]),
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
    kernel_name: "masked_fill",
    ..Operator::BASE
};

#[operator]
pub static MASKED_FILL_TENSOR: Operator = Operator {
    name: "masked_fill.Tensor",
    variants: Variants::INPLACE,
    signature: "(Tensor self, Tensor mask, Tensor value) -> Tensor",
    doc: "Writes the value of a 0-d tensor where `mask`, which broadcasts, is true.

    >>> torch.zeros(3).masked_fill_(torch.tensor([True, False, True]), torch.tensor(5))
    tensor([5., 0., 5.])",
    dtypes: DTypes::COMPUTED.union(DTypes::COMPLEX32),
    tags: Tags::WRITES_EXPANDED.union(Tags::ROW_MAJOR),
    batch_rule: BatchRule::Custom(batched_masked_fill),
    implementation: Implementation::Update(Update {
        check: |args| {
            let value = args.tensor(VALUE)?;
            if value.rank() != 0 {
                return Err(Error::runtime(format!(
                    "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
                    value.rank()
                )));
            }
            check_mask(args)?;
            // A number on another device is read if the tensor's dtype may not hold it, which waits for the device.
            let dtype = args.tensor(INPUT)?.dtype();
            let may_not_fit = promote(dtype, value.dtype()).map_or(true, |both| both != dtype);
            let is_readable = value.device() != Device::Meta && !value.is_batched();
            if is_readable && (value.device() == Device::Cpu || may_not_fit) {
                check_fits(crate::convert::item(value)?, args.tensor(INPUT)?.dtype())?;
            }
            Ok(())
        },
        cpu: |args, target| fill(target, args.tensor(MASK)?, args.tensor(VALUE)?),
        cuda: OnCuda::Own(|args, target| {
            let (mask, value) = (args.tensor(MASK)?, args.tensor(VALUE)?);
            device_loops::select(target, Operand::Tensor(mask), Operand::Tensor(value), Operand::Tensor(target))
        }),
    }),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(MASK), cleared),
        formula(VALUE, Saves::input(MASK), |d| d.input(MASK).choose(d.grad(), 0i64).call(&crate::reduce::SUM, [])),
    ]),
    node: "MaskedFillBackward1",
    samples: &["t(3, 4), b(3, 4), t()"],
    errors: &[(
        "i(3, 3), b(3), torch.tensor(1j)",
        "RuntimeError",
        "value cannot be converted to type int64_t without overflow",
    )],
    reference: "np.where(mask, value, self)",
    kernel_name: "masked_fill",
    ..Operator::BASE
};

/// The out-of-place forms, whose result has the broadcast shape of both.
macro_rules! out_of_place {
    ($($op:ident $name:literal $in_place:ident $source:ident $signature:literal $sample:literal $reference:literal $doc:literal;)*) => {$(
        #[operator]
        pub static $op: Operator = Operator {
            name: $name,
            signature: $signature,
            doc: $doc,
            dtypes: DTypes::ALL,
            implementation: Implementation::CompositeImplicit(|args| {
                let (input, mask) = (args.tensor(INPUT)?, args.tensor(MASK)?);
                let sizes = broadcast_with_warnings(args.op.display_name(false), mask.sizes(), input.sizes())?;
                let whole = |tensor: &Tensor| match *tensor.sizes() == sizes {
                    true => Ok(tensor.clone()),
                    false => op!(EXPAND, tensor, sizes_value(&sizes)),
                };
                let operands = [whole(input)?.into(), whole(mask)?.into(), args.value($source).clone()];
                Args::new(&$in_place, operands).call()
            }),
            derivative: Derivative::CompositeImplicit,
            samples: &[$sample],
            reference: $reference,
            ..Operator::BASE
        };
    )*};
}

out_of_place! {
    FILLED "masked_fill.out_of_place" MASKED_FILL VALUE "(Tensor self, Tensor mask, Scalar value) -> Tensor" "t(3, 4), b(4), 2" "np.where(mask, value, self)"
    "A copy with one number where `mask`, which broadcasts, is true.

    >>> torch.masked_fill(torch.zeros(3), torch.tensor([True, False, True]), 5)
    tensor([5., 0., 5.])";
    FILLED_TENSOR "masked_fill.out_of_place_Tensor" MASKED_FILL_TENSOR VALUE "(Tensor self, Tensor mask, Tensor value) -> Tensor" "t(3, 4), b(4), t()" "np.where(mask, value, self)"
    "A copy with the value of a 0-d tensor where `mask`, which broadcasts, is true.

    >>> torch.masked_fill(torch.zeros(3), torch.tensor([True, False, True]), torch.tensor(5))
    tensor([5., 0., 5.])";
    SCATTERED "masked_scatter.out_of_place" MASKED_SCATTER SOURCE "(Tensor self, Tensor mask, Tensor source) -> Tensor" "t(4), b(3, 4), t(12)" ""
    "A copy with the elements of `source`, in order, where `mask` is true; tensor and mask broadcast.

    >>> torch.masked_scatter(torch.zeros(3), torch.tensor([True, False, True]), torch.tensor([1., 2.]))
    tensor([1., 0., 2.])";
}

/// Returns an error for a number that the dtype cannot hold. Of a half complex dtype this counts for each part.
fn check_fits(value: Scalar, dtype: DType) -> Result<()> {
    // The kernel lacks other dtypes that are only stored, and does not come to the number.
    if dtype.is_storage_only() && dtype != DType::C32 {
        return Ok(());
    }
    if dtype != DType::C32 {
        return create::check_fits(value, dtype);
    }
    let parts = match value {
        Scalar::Complex(number) => [number.re, number.im],
        number => [number.f64(), 0.0],
    };
    match parts.iter().all(|part| Scalar::Float(*part).fits(DType::F16)) {
        true => Ok(()),
        false => Err(Error::runtime(format!("value cannot be converted to type {} without overflow", dtype.c_name()))),
    }
}

fn check_mask(args: &Args) -> Result<()> {
    use MASKED_FILL::*;

    let (input, mask) = (args.tensor(INPUT)?, args.tensor(MASK)?);
    if mask.dtype() != DType::Bool {
        return Err(Error::runtime(format!(
            "masked_fill_ only supports boolean masks, but got mask with dtype {}",
            mask.dtype().c_name()
        )));
    }
    check_shape("masked_fill_", input, mask)
}

/// Checks that the mask broadcasts to the tensor, which keeps its shape.
fn check_shape(name: &'static str, input: &Tensor, mask: &Tensor) -> Result<()> {
    let sizes = broadcast_with_warnings(name, input.sizes(), mask.sizes())?;
    if sizes == *input.sizes() {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "output with shape {} doesn't match the broadcast shape {}",
        rushlight_core::layout::Shape(input.sizes()),
        rushlight_core::layout::Shape(&sizes)
    ))
    .shapes([input.sizes().as_slice(), mask.sizes().as_slice()]))
}

fn cleared(d: &BackwardContext) -> Expr {
    match d.input(MASKED_FILL::MASK) {
        Expr::Tensor(mask) => d.grad().call(&MASKED_FILL, [mask.into(), Value::Scalar(Scalar::ZERO)]),
        other => other,
    }
}

/// Overwrites with one value where the mask is true. A repeated element of an expanded tensor is overwritten if the
/// mask is true at any of its indices.
fn fill(target: &Tensor, mask: &Tensor, value: &Tensor) -> Result<()> {
    let expanded: Ints = target.layout().expanded().map(|dim| dim as i64).collect();
    if expanded.is_empty() {
        return fill_each(target, mask, value);
    }
    let whole = stretched(mask, target.sizes())?;
    let (mut layout, dims) = (target.layout().clone(), expanded.clone());
    dims.iter().for_each(|&dim| layout.sizes[dim as usize] = 1);
    let mask = op!(crate::reduce::all_any::ANY_DIMS, &whole, expanded, true)?;
    fill_each(&Tensor::view_of(&target.detach(), layout), &mask, value)
}

/// The same for a tensor without repeated elements.
fn fill_each(target: &Tensor, mask: &Tensor, value: &Tensor) -> Result<()> {
    /// # Safety
    /// `out` and the inputs hold `n` elements.
    unsafe fn inner_loop<T: Copy>(out: *mut u8, inputs: *const *const u8, n: usize, _: &[Scalar]) {
        // SAFETY: the loop gives `n` elements on each side, and bytes for the mask.
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
    let nest =
        LoopNest::new([layout, layout, &wide_mask, &wide_value], [dtype.size(), dtype.size(), 1, value.dtype().size()]);
    let (to, truths, number) = (target.storage().pin()?, mask.storage().pin()?, value.storage().pin()?);
    let raw_operand = |pointer: *mut u8, dtype: DType| RawOperand { pointer, dtype };
    let raw = [
        raw_operand(to.as_ptr(), dtype),
        raw_operand(to.as_ptr(), dtype),
        raw_operand(truths.as_ptr(), DType::Bool),
        raw_operand(number.as_ptr(), value.dtype()),
    ];
    let each = match dtype.size() {
        1 => inner_loop::<u8>,
        2 => inner_loop::<u16>,
        4 => inner_loop::<u32>,
        8 => inner_loop::<u64>,
        _ => inner_loop::<u128>,
    };
    // SAFETY: layouts stay within their pinned storages, and the loop casts the value to the target's dtype.
    unsafe { run(&nest, raw, [dtype, dtype, DType::Bool, dtype], each, &[]) };
    Ok(())
}

#[operator]
pub static MASKED_SCATTER: Operator = Operator {
    name: "masked_scatter",
    variants: Variants::INPLACE,
    signature: "(Tensor self, Tensor mask, Tensor source) -> Tensor",
    doc: "Writes the elements of `source`, in order, where `mask`, which broadcasts, is true.

    >>> torch.zeros(3).masked_scatter_(torch.tensor([True, False, True]), torch.tensor([1., 2.]))
    tensor([1., 0., 2.])",
    dtypes: DTypes::COMPUTED,
    tags: Tags::ROW_MAJOR,
    implementation: Implementation::Update(Update::on_any_device(
        |args| {
            let (input, mask, source) = (args.tensor(INPUT)?, args.tensor(MASK)?, args.tensor(SOURCE)?);
            if input.dtype() != source.dtype() {
                return Err(Error::runtime(format!(
                    "masked_scatter: expected self and source to have same dtypes but got{} and {}",
                    input.dtype().display_name(),
                    source.dtype().display_name()
                )));
            }
            op!(EXPAND, mask.detach(), sizes_value(input.sizes()))?;
            if mask.dtype() == DType::U8 {
                interpreter::warn(
                    "masked_scatter_ received a mask with dtype torch.uint8, this behavior is now deprecated,please use a mask with dtype torch.bool instead.",
                )?;
            }
            if mask.dtype() != DType::Bool {
                return Err(Error::runtime(format!(
                    "masked_scatter_ only supports boolean masks, but got mask with dtype {}",
                    mask.dtype().display_name()
                )));
            }
            Ok(())
        },
        |args, target| {
            let places = positions(&stretched(args.tensor(MASK)?, target.sizes())?)?;
            let source = args.tensor(SOURCE)?;
            if places.numel() > source.numel() {
                // torch's kernel lacks these dtypes and does not come to the numbers.
                if target.dtype().is_wide_unsigned() {
                    return Err(Error::unsupported("masked_scatter", target.dtype()));
                }
                return Err(Error::runtime("Number of elements of source < number of ones in mask")
                    .hint("source must have an element for each True in the mask."));
            }
            let row = op!(crate::view::RESHAPE, &source.detach(), sizes_value(&[-1]))?;
            let values = Tensor::view_of(&row, row.layout().slice(0, 0, places.numel() as isize, 1));
            let flat = op!(crate::view::RESHAPE, &target.detach(), sizes_value(&[-1]))?;
            let places = to_device(&places, target.device())?;
            put_into(&flat, &single(&flat, 0, &places)?, &values, ScatterOp::Set)?;
            if flat.storage().same(target.storage()) {
                return Ok(());
            }
            copy::copy(target, &op!(crate::view::RESHAPE, flat, sizes_value(target.sizes()))?)
        },
    )),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(MASK), cleared),
        formula(SOURCE, Saves::input(MASK), |d| match d.input(MASK) {
            Expr::Tensor(mask) => Expr::new(scatter_back(d, &mask)),
            other => other,
        }),
    ]),
    samples: &["t(3, 4), b(3, 4), t(12)", "t(3, 4), b(4), t(3, 4)"],
    errors: &[("t(3), b(3) | True, t(1)", "RuntimeError", "Number of elements of source < number of ones in mask")],
    kernel_name: "masked_scatter",
    ..Operator::BASE
};

/// The selected elements of the gradient, followed by zeros for the unused part of the source.
fn scatter_back(d: &BackwardContext, mask: &Tensor) -> Result<Tensor> {
    use MASKED_SCATTER::*;

    if let Some(meta) = d.meta(SOURCE).filter(|meta| meta.device == Device::Meta) {
        return create::empty(&meta.sizes, meta.dtype, meta.device);
    }
    let sizes = d.sizes(SOURCE);
    if mask.is_batched() {
        return scatter_back_each(&d.grad().done()?, mask, sizes);
    }
    let chosen = op!(MASKED_SELECT, d.grad().done()?, mask)?;
    let rest = sizes.iter().product::<isize>() - chosen.numel() as isize;
    let zeros = create::zeros(&[rest], chosen.dtype(), chosen.device())?;
    let whole = op!(crate::join::CAT, vec![chosen, zeros], 0i64)?;
    op!(crate::view::RESHAPE, whole, sizes_value(sizes))
}

/// The same without counting the selected elements, whose number may differ between samples: every element has a target
/// index, which is out of the source's range for those that were not selected.
fn scatter_back_each(grad: &Tensor, mask: &Tensor, sizes: &[isize]) -> Result<Tensor> {
    let numel = sizes.iter().product::<isize>();
    let line = |tensor: &Tensor| op!(crate::view::RESHAPE, tensor, sizes_value(&[-1]));
    let mask = line(&op!(EXPAND, mask, sizes_value(grad.sizes()))?)?;
    let count = Expr::from(&mask).call(&CUMSUM, [0i64.into()]);
    let places = Expr::from(&mask).choose(count - 1i64, numel as i64).done()?;
    let room = create::zeros(&[numel + 1], grad.dtype(), grad.device())?;
    let whole = op!(SCATTER, room, 0i64, places, line(grad)?)?;
    op!(crate::view::RESHAPE, sliced(&whole, 0, 0, numel, 1)?, sizes_value(sizes))
}

/// One mask for all samples selects equally many elements of each.
fn batched_masked_select(batch: &BatchedCall) -> RuleResult {
    use MASKED_SELECT::*;

    if batch.differs_at(MASK) {
        return Err(by_mask());
    }
    let (own, mask) = (batch.args.tensor(INPUT)?, batch.one(MASK)?);
    if mask.dtype() != DType::Bool {
        return Ok(None);
    }
    let sizes = rushlight_core::broadcast::broadcast(mask.sizes(), own.sizes())?;
    let places = to_device(&positions(&stretched(&mask, &sizes)?)?, own.device())?;
    let mut aligned = vec![batch.size];
    aligned.extend(std::iter::repeat_n(1, sizes.len() - own.rank()));
    aligned.extend_from_slice(own.sizes());
    let mut whole = vec![batch.size];
    whole.extend_from_slice(&sizes);
    let all =
        op!(EXPAND, op!(crate::view::RESHAPE, batch.tensor(INPUT)?, sizes_value(&aligned))?, sizes_value(&whole))?;
    let lines = op!(crate::view::RESHAPE, all, sizes_value(&[batch.size, sizes.iter().product()]))?;
    one_result(op!(crate::index::index_select::INDEX_SELECT, lines, 1i64, places))
}

#[cold]
fn by_mask() -> Error {
    Error::runtime(
        "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) We cannot support this because for each batch this would return a differently shaped Tensor. Please file an issue at https://github.com/pytorch/pytorch/issues if you need this feature.",
    )
}

/// `masked_fill` with a number that differs between samples.
fn batched_masked_fill(batch: &BatchedCall) -> RuleResult {
    use MASKED_FILL_TENSOR::*;

    let (own, value) = (batch.args.tensor(INPUT)?, batch.args.tensor(VALUE)?);
    // Numbers of another kind may not fit, and a repeated element changes if the mask is true at any of its indices.
    if value.dtype().category() > own.dtype().category() || own.layout().expanded().next().is_some() {
        return Ok(None);
    }
    let [own, mask] = [INPUT, MASK].map(|arg| batch.tensor(arg).map(|all| unsqueeze_to_rank(&all, own.rank())));
    let (own, mask) = (own?, mask?);
    let value = unsqueeze_to_rank(&to_dtype(&batch.tensor(VALUE)?, own.dtype())?, own.rank() - 1);
    op!(WHERE, mask, value, own).map(|whole| Some(Output::Tensor(whole)))
}
