//! Loops over elements on a CUDA device: expressions of operators, conversions, fills. They are enqueued on the thread's current
//! stream of the result's device.

use rushlight_autograd::Tensor;
use rushlight_core::loop_nest::LoopNest;
use rushlight_core::storage::DevicePin;
use rushlight_core::{DType, Element, Error, Layout, Result, Scalar, dispatch};
use rushlight_cpu::loops::Loops;
use rushlight_cuda::elementwise::{Function, Input, Memory};
use rushlight_cuda::launch::ElementType;
use rushlight_cuda::{card, elementwise, stream};
use smallvec::SmallVec;

use crate::promote;
use crate::value::{Operand, Operands};

/// A tensor in memory, broadcast to the sizes of the result.
struct View<'a> {
    tensor: &'a Tensor,
    layout: Layout,
}

/// Computes every element of `out` from those of the operands, which broadcast. The number of an operand on the host is read;
/// `dtype` is that of the computation.
pub fn compute(out: &Tensor, function: Function, operands: &Operands, numbers: &[Scalar], dtype: DType) -> Result<()> {
    let mut views: SmallVec<[View; 5]> = SmallVec::new();
    views.push(View { tensor: out, layout: out.layout().clone() });
    let mut inputs: SmallVec<[Input; 4]> = SmallVec::new();
    for operand in operands {
        match operand {
            Operand::Tensor(tensor) if tensor.device() == out.device() => {
                views.push(View { tensor, layout: tensor.layout().broadcast_to(out.sizes())? });
                inputs.push(Input::Memory);
            }
            Operand::Tensor(tensor) => inputs.push(Input::Number(promote::bits(number_of(tensor)?, dtype))),
            Operand::Number(number) => inputs.push(Input::Number(promote::bits(*number, dtype))),
        }
    }
    let numbers: SmallVec<[[u64; 2]; 4]> = numbers.iter().map(|number| promote::bits(*number, dtype)).collect();
    let types: SmallVec<[ElementType; 5]> = views.iter().map(|view| ElementType::Of(view.tensor.dtype())).collect();
    launch(function, &views, &types, &inputs, &numbers)
}

/// Computes an operator whose loops belong to no pointwise operator.
pub fn compute_loops(
    out: &Tensor,
    name: &'static str,
    loops: &Loops,
    operands: &Operands,
    compute: DType,
) -> Result<()> {
    let Some((_, dtype)) = loops.expression(compute) else { return Err(Error::unsupported(name, compute)) };
    if out.numel() == 0 {
        return Ok(());
    }
    self::compute(out, Function::Operator { name, dtype, numbers: 0, optional: 0 }, operands, &[], dtype)
}

/// The elements of `yes` where `condition` is true, elsewhere those of `no`, in the dtype of `out`.
pub fn select(out: &Tensor, condition: Operand, yes: Operand, no: Operand) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let dtype = out.dtype().compute();
    compute(out, Function::Select(dtype), &Operands::from_slice(&[condition, yes, no]), &[], dtype)
}

/// Overwrites every element of `out` with the element of `from` at the same place of the layouts, converted. All are on one device.
pub fn convert(out: &Tensor, target: &Layout, from: &Tensor, source: &Layout) -> Result<()> {
    let (to_dtype, from_dtype) = (out.dtype(), from.dtype());
    let (function, types) = match to_dtype == from_dtype {
        true => {
            let raw = ElementType::Raw(to_dtype.size() as u8);
            (Function::Element(raw), [raw, raw])
        }
        false => {
            (Function::Element(ElementType::Of(to_dtype)), [ElementType::Of(to_dtype), ElementType::Of(from_dtype)])
        }
    };
    let views = [View { tensor: out, layout: target.clone() }, View { tensor: from, layout: source.clone() }];
    launch(function, &views, &types, &[Input::Memory], &[])
}

/// Overwrites every element with a number.
pub fn fill(out: &Tensor, value: Scalar) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let raw = ElementType::Raw(out.dtype().size() as u8);
    let views = [View { tensor: out, layout: out.layout().clone() }];
    launch(Function::Element(raw), &views, &[raw], &[Input::Number(promote::bits(value, out.dtype()))], &[])
}

fn launch(
    function: Function,
    views: &[View],
    types: &[ElementType],
    inputs: &[Input],
    numbers: &[[u64; 2]],
) -> Result<()> {
    match views.len() {
        1 => run::<1>(function, views, types, inputs, numbers),
        2 => run::<2>(function, views, types, inputs, numbers),
        3 => run::<3>(function, views, types, inputs, numbers),
        4 => run::<4>(function, views, types, inputs, numbers),
        5 => run::<5>(function, views, types, inputs, numbers),
        more => Err(Error::runtime(format!("a kernel takes at most four operands, not {}", more - 1))),
    }
}

fn run<const N: usize>(
    function: Function,
    views: &[View],
    types: &[ElementType],
    inputs: &[Input],
    numbers: &[[u64; 2]],
) -> Result<()> {
    let card = card::of(views[0].tensor.device())?;
    let stream = stream::current(card.index);
    let nest = LoopNest::new(std::array::from_fn(|n| &views[n].layout), std::array::from_fn(|n| types[n].size()));
    let pins =
        views.iter().map(|view| view.tensor.storage().pin_on(stream)).collect::<Result<SmallVec<[DevicePin; 5]>>>()?;
    let memory: [Memory; N] = std::array::from_fn(|n| Memory { address: pins[n].address(), element: types[n] });
    // SAFETY: every layout stays within its storage (tensors are constructed that way), which is pinned on the stream.
    unsafe { elementwise::run(card, stream, function, &nest, &memory, inputs, numbers) }
}

/// The element of a tensor without dimensions in memory of the host.
fn number_of(tensor: &Tensor) -> Result<Scalar> {
    let pin = tensor.storage().pin()?;
    Ok(dispatch!(tensor.dtype(), T in all => {
        // SAFETY: the layout lies within the pinned storage; foreign memory may be unaligned.
        unsafe { pin.as_ptr().cast::<T>().offset(tensor.layout().offset).read_unaligned() }.to_scalar()
    }))
}
