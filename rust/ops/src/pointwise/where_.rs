//! Elementwise choice between two tensors.

use rushlight_autograd::Tensor;
use rushlight_core::loop_nest::{LoopNest, result_layout};
use rushlight_core::storage::pin_all;
use rushlight_core::{DType, Error, Layout, Result, Scalar};
use rushlight_cpu::pointwise::{InnerLoop, RawOperand, run};
use rushlight_dispatch::operator::{
    Accepts, Args, BatchRule, BatchedCall, DTypes, Derivative, Implementation, Kernel, OnCuda, Operator, Out, Saves,
    Tags, TensorSpec, Variants, formula, operator,
};
use rushlight_dispatch::promote::PromotionState;
use rushlight_dispatch::value::{Operand, Output, Value};
use rushlight_dispatch::vmap::broadcast_operands;
use rushlight_dispatch::{backcompat, create, device_loops, warn_once};

use crate::expr_ext::ExprExt;

#[operator]
pub static WHERE: Operator = Operator {
    name: "where",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor condition, Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
    doc: "The elements of `self` where `condition` is true, elsewhere those of `other`; all three broadcast.

    >>> torch.where(torch.tensor([True, False]), torch.tensor([1, 2]), 0)
    tensor([1, 0])",
    out: Out::new(Accepts::Same, &["Expected out type to be {Result} but got {Out}"]),
    dtypes: DTypes::ALL,
    batch_rule: BatchRule::Custom(chosen),
    implementation: Implementation::Kernel(Kernel { infer, cpu, cuda: OnCuda::Own(cuda) }),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(CONDITION), |d| d.input(CONDITION).choose(d.grad(), 0i64)),
        formula(OTHER, Saves::input(CONDITION), |d| d.input(CONDITION).choose(0i64, d.grad())),
    ]),
    samples: &[
        "b(2, 3), t(2, 3), t(2, 3)",
        "b(3, 1), t(4), t(3, 4)",
        "b(3), t(3), 1",
        "b(3), 0, t(3)",
        "b(), t(), t(0)",
    ],
    errors: &[(
        "i(2, 3), t(3), t(3)",
        "RuntimeError",
        "where expected condition to be a boolean tensor, but got a tensor with dtype Long",
    )],
    reference: "np.where(condition, self, other)",
    ..Operator::BASE
};

#[operator]
pub static WHERE_METHOD: Operator = Operator {
    name: "where.self",
    variants: Variants::METHOD,
    signature: "(Tensor self, Tensor condition, Tensor|Scalar other) -> Tensor",
    doc: "The tensor's elements where `condition` is true, elsewhere those of `other`.

    >>> torch.tensor([1, 2]).where(torch.tensor([True, False]), 0)
    tensor([1, 0])",
    dtypes: DTypes::ALL,
    tags: Tags::BROADCASTS,
    implementation: Implementation::Delegate(|mut args| {
        args.values.swap(0, 1);
        args.op = &WHERE;
        Ok(args)
    }),
    derivative: Derivative::CompositeImplicit,
    errors: &[(
        "t(3), i(2, 3), t(3)",
        "RuntimeError",
        "where expected condition to be a boolean tensor, but got a tensor with dtype Long",
    )],
    samples: &["t(2, 3), b(2, 3), t(2, 3)", "t(3), b(3), 1"],
    reference: "np.where(condition, self, other)",
    ..Operator::BASE
};

fn infer(args: &Args) -> Result<Vec<TensorSpec>> {
    let condition = args.tensor(WHERE::CONDITION)?;
    if !matches!(condition.dtype(), DType::Bool | DType::U8) {
        return Err(Error::runtime(format!(
            "where expected condition to be a boolean tensor, but got a tensor with dtype {}",
            condition.dtype().display_name()
        )));
    }
    if condition.dtype() == DType::U8 {
        warn_once!(
            "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future version of PyTorch. Use a boolean condition instead."
        )?;
    }
    let mut state = PromotionState::default();
    for arg in [WHERE::INPUT, WHERE::OTHER] {
        match args.optional_tensor(arg) {
            Some(tensor) => state.tensor(tensor.dtype(), tensor.rank())?,
            None => state.number(args.scalar(arg)?)?,
        }
    }
    let mut sizes = condition.sizes().clone();
    for (_, tensor) in args.each_tensor() {
        sizes = backcompat::broadcast_with_warnings("where", &sizes, tensor.sizes())?;
    }
    // A number is a tensor without dimensions.
    let number = Layout::contiguous(&[]);
    let each = [WHERE::CONDITION, WHERE::INPUT, WHERE::OTHER].map(|arg| args.optional_tensor(arg));
    let layout = result_layout(&sizes, each.into_iter().map(|tensor| tensor.map_or(&number, Tensor::layout)));
    Ok(vec![TensorSpec { layout, dtype: state.result()?, device: condition.device() }])
}

/// A number that the result's dtype holds. Narrow floats take infinity for greater ones.
fn fitting(number: Scalar, dtype: DType) -> Result<Scalar> {
    let is_narrow = dtype.is_half() || dtype.is_float8();
    if is_narrow && !number.is_complex() {
        return Ok(number);
    }
    create::check_fits(number, dtype)?;
    Ok(number)
}

fn cpu(args: &Args, results: &[Tensor]) -> Result<()> {
    let out = &results[0];
    let (dtype, sizes) = (out.dtype(), out.sizes());
    let operand = |arg| match args.optional_tensor(arg) {
        Some(tensor) => Ok(tensor.clone()),
        None => create::scalar_of(fitting(args.scalar(arg)?, dtype)?, dtype, out.device()),
    };
    let operands = [args.tensor(WHERE::CONDITION)?.clone(), operand(WHERE::INPUT)?, operand(WHERE::OTHER)?];
    let stretched: Vec<Layout> =
        operands.iter().map(|operand| operand.layout().broadcast_to(sizes)).collect::<Result<_>>()?;
    let pins = pin_all(operands.iter().map(Tensor::storage))?;
    let pin = out.storage().pin()?;
    let raw_operand = |n: usize| RawOperand { pointer: pins[n].as_ptr(), dtype: operands[n].dtype() };
    // Every byte but zero is true, also of uint8.
    let condition = RawOperand { dtype: DType::Bool, ..raw_operand(0) };
    let raw = [RawOperand { pointer: pin.as_ptr(), dtype }, condition, raw_operand(1), raw_operand(2)];
    let nest = LoopNest::new(
        [out.layout(), &stretched[0], &stretched[1], &stretched[2]],
        std::array::from_fn(|n| raw[n].dtype.size()),
    );
    // SAFETY: every layout stays within its pinned storage, and the loop has elements of the result's width.
    unsafe { run(&nest, raw, [dtype, DType::Bool, dtype, dtype], inner_loop(dtype.size()), &[]) };
    Ok(())
}

fn cuda(args: &Args, results: &[Tensor]) -> Result<()> {
    let out = &results[0];
    let operand = |arg| -> Result<Operand> {
        match args.optional_tensor(arg) {
            Some(tensor) => Ok(Operand::Tensor(tensor)),
            None => Ok(Operand::Number(fitting(args.scalar(arg)?, out.dtype())?)),
        }
    };
    let condition = Operand::Tensor(args.tensor(WHERE::CONDITION)?);
    device_loops::select(out, condition, operand(WHERE::INPUT)?, operand(WHERE::OTHER)?)
}

/// Moves elements of a given width, regardless of their dtype.
fn inner_loop(width: usize) -> InnerLoop {
    macro_rules! pick {
        ($type:ty) => {
            rushlight_simd::simd_loop!(for<S> |out: *mut u8, inputs: *const *const u8, n: usize, _params: &[Scalar]| {
                // SAFETY: the loop gives `n` elements behind each pointer; the result may be an input's memory.
                unsafe {
                    let condition = *inputs;
                    let (yes, no) = ((*inputs.add(1)).cast::<$type>(), (*inputs.add(2)).cast::<$type>());
                    for i in 0..n {
                        let (yes, no) = (yes.add(i).read_unaligned(), no.add(i).read_unaligned());
                        let value = if *condition.add(i) != 0 { yes } else { no };
                        out.cast::<$type>().add(i).write_unaligned(value);
                    }
                }
            })
        };
    }
    match width {
        1 => pick!(u8),
        2 => pick!(u16),
        4 => pick!(u32),
        8 => pick!(u64),
        _ => pick!(u128),
    }
}

/// Operands that broadcast; a number in a batch takes the dtype of the result before it becomes a vector.
fn chosen(batch: &BatchedCall) -> Result<Option<Output>> {
    let Implementation::Kernel(kernel) = &WHERE.implementation else { return Ok(None) };
    let dtype = (kernel.infer)(batch.args)?[0].dtype;
    let mut args = broadcast_operands(batch)?;
    for value in args.values.iter_mut().skip(1) {
        if let Some(tensor) = value.as_tensor().filter(|tensor| tensor.dtype() != dtype) {
            *value = Value::Own(crate::convert::to_dtype(tensor, dtype)?);
        }
    }
    args.call().map(Some)
}
