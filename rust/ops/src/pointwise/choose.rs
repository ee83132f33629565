//! Choosing between two tensors element by element.

use rushlight_autograd::Tensor;
use rushlight_core::plan::{Plan, result_layout};
use rushlight_core::storage::pin_all;
use rushlight_core::{DType, Error, Layout, Result, Scalar};
use rushlight_cpu::pointwise::{Lane, Tile, run};

use crate::derive::{Derivative, Saves, formula};
use crate::mapped::{Batch, Mapped, aligned};
use crate::promote::State;
use crate::row::{Accepts, DTypes, Kernel, Out, Row, Run, Spec, Traits, Variants};
use crate::value::{Args, Output, Value};

pub static WHERE: Row = Row {
    name: "where",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor condition, Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
    doc: "The elements of `self` where `condition` holds, elsewhere those of `other`; all three broadcast.

    >>> torch.where(torch.tensor([True, False]), torch.tensor([1, 2]), 0)
    tensor([1, 0])",
    out: Out::new(Accepts::Same, &["Expected out type to be {Result} but got {Out}"]),
    dtypes: DTypes::ALL,
    mapped: Mapped::Rule(chosen),
    run: Run::Kernel(Kernel { infer, cpu }),
    derivative: Derivative::Formulas(&[
        formula(1, Saves::input(0), |d| d.input(0).choose(d.grad(), 0i64)),
        formula(2, Saves::input(0), |d| d.input(0).choose(0i64, d.grad())),
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
    ..Row::BASE
};

pub static WHERE_METHOD: Row = Row {
    name: "where.self",
    variants: Variants::METHOD,
    signature: "(Tensor self, Tensor condition, Tensor|Scalar other) -> Tensor",
    doc: "The tensor's elements where `condition` holds, elsewhere those of `other`.

    >>> torch.tensor([1, 2]).where(torch.tensor([True, False]), 0)
    tensor([1, 0])",
    dtypes: DTypes::ALL,
    traits: Traits::BROADCASTS,
    run: Run::Defer(|mut args| {
        args.values.swap(0, 1);
        args.row = &WHERE;
        Ok(args)
    }),
    derivative: Derivative::Composed,
    errors: &[(
        "t(3), i(2, 3), t(3)",
        "RuntimeError",
        "where expected condition to be a boolean tensor, but got a tensor with dtype Long",
    )],
    samples: &["t(2, 3), b(2, 3), t(2, 3)", "t(3), b(3), 1"],
    reference: "np.where(condition, self, other)",
    ..Row::BASE
};

fn infer(args: &Args) -> Result<Vec<Spec>> {
    let condition = args.tensor(0)?;
    if !matches!(condition.dtype(), DType::Bool | DType::U8) {
        return Err(Error::runtime(format!(
            "where expected condition to be a boolean tensor, but got a tensor with dtype {}",
            condition.dtype().title()
        )));
    }
    if condition.dtype() == DType::U8 {
        crate::warn_once!(
            "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future version of PyTorch. Use a boolean condition instead."
        )?;
    }
    let mut state = State::default();
    for place in [1, 2] {
        match args.optional_tensor(place) {
            Some(tensor) => state.tensor(tensor.dtype(), tensor.rank())?,
            None => state.number(args.scalar(place)?)?,
        }
    }
    let mut sizes = condition.sizes().clone();
    for (_, tensor) in args.each_tensor() {
        sizes = crate::backcompat::meet("where", &sizes, tensor.sizes())?;
    }
    let layout = result_layout(&sizes, args.each_tensor().map(|(_, tensor)| tensor.layout()));
    Ok(vec![Spec { layout, dtype: state.result()?, device: condition.device() }])
}

fn cpu(args: &Args, results: &[Tensor]) -> Result<()> {
    let out = &results[0];
    let (dtype, sizes) = (out.dtype(), out.sizes());
    let operand = |place: usize| match args.optional_tensor(place) {
        Some(tensor) => Ok(tensor.clone()),
        None => {
            let number = args.scalar(place)?;
            crate::create::check_fits(number, dtype)?;
            crate::create::scalar_of(number, dtype, out.device())
        }
    };
    let operands = [args.tensor(0)?.clone(), operand(1)?, operand(2)?];
    let stretched: Vec<Layout> =
        operands.iter().map(|operand| operand.layout().broadcast_to(sizes)).collect::<Result<_>>()?;
    let pins = pin_all(operands.iter().map(Tensor::storage))?;
    let pin = out.storage().pin()?;
    let lane = |n: usize| Lane { pointer: pins[n].as_ptr(), dtype: operands[n].dtype() };
    // Any byte but zero is true, of uint8 too.
    let condition = Lane { dtype: DType::Bool, ..lane(0) };
    let lanes = [Lane { pointer: pin.as_ptr(), dtype }, condition, lane(1), lane(2)];
    let plan = Plan::new(
        [out.layout(), &stretched[0], &stretched[1], &stretched[2]],
        std::array::from_fn(|n| lanes[n].dtype.size()),
    );
    // SAFETY: every layout stays within its pinned storage, and the tile has elements of the result's width.
    unsafe { run(&plan, lanes, [dtype, DType::Bool, dtype, dtype], tile(dtype.size()), &[]) };
    Ok(())
}

/// Moves elements of a width, whatever they mean.
fn tile(width: usize) -> Tile {
    macro_rules! pick {
        ($type:ty) => {
            rushlight_simd::simd_loop!(for<S> |out: *mut u8, inputs: *const *const u8, n: usize, _params: &[Scalar]| {
                // SAFETY: the walk gives `n` elements behind each pointer; the result may lie on an input.
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

/// Operands that broadcast; a number among samples takes the dtype of the result before it becomes a vector of numbers.
fn chosen(batch: &Batch) -> Result<Option<Output>> {
    let Run::Kernel(kernel) = &WHERE.run else { return Ok(None) };
    let dtype = (kernel.infer)(batch.args)?[0].dtype;
    let mut args = aligned(batch)?;
    for value in args.values.iter_mut().skip(1) {
        if let Some(tensor) = value.as_tensor().filter(|tensor| tensor.dtype() != dtype) {
            *value = Value::Own(crate::convert::to_dtype(tensor, dtype)?);
        }
    }
    crate::call(args).map(Some)
}
