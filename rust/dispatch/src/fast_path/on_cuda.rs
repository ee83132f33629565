//! The fast path on CUDA devices.

use rushlight_autograd::Tensor;
use rushlight_core::alloc::out_of_memory;
use rushlight_core::storage::DevicePin;
use rushlight_core::{DType, Device, Layout, Result, Scalar, reserve};
use rushlight_cuda::elementwise::{Function, Input, Memory};
use rushlight_cuda::launch::ElementType;
use rushlight_cuda::{card, elementwise, stream};
use smallvec::SmallVec;

use super::call::{Alike, Call};
use crate::operator::Tags;
use crate::value::Operand;
use crate::{allocate, promote};

/// The result, if the operands are alike and aligned.
#[inline(never)]
pub fn attempt<const N: usize>(call: Call, index: u8, operands: &[Operand; N]) -> Result<Option<Tensor>> {
    let Call { op, body, model, numbers, over, gil } = call;
    // The objects of a result cannot fail to be allocated.
    if !reserve::hold() {
        return Err(out_of_memory(0));
    }
    let dtype = model.dtype();
    // A number next to a half type may have to be rounded first; that is left to the general path.
    let is_narrow = dtype.compute() != dtype;
    let keeps_numbers = dtype.is_half() && op.tags.has(Tags::UNROUNDED_NUMBERS);
    let accepts = |at: usize, _| !is_narrow || at > 0 && keeps_numbers;
    let Some(alike) = call.alike(operands, accepts) else { return Ok(None) };
    let Alike { numel, result } = alike;
    if numel > i32::MAX as usize {
        return Ok(None);
    }
    let in_dtype = |dtype: DType| body.loops.expression(dtype);
    let Some((expression, compute)) = in_dtype(dtype).or_else(|| in_dtype(dtype.compute())) else {
        return Ok(None);
    };
    let card = card::get(index)?;
    let stream = stream::current(index);
    let mut pins: [Option<DevicePin>; N] = [const { None }; N];
    let mut inputs = [Input::Memory; N];
    // The result is the first one; there are at most three operands.
    let mut memory = [Memory { address: 0, element: ElementType::Of(result) }; 4];
    let mut used = 1;
    for (n, operand) in operands.iter().enumerate() {
        match operand {
            Operand::Tensor(tensor) => {
                let start = match gil {
                    // SAFETY: `gil` is the caller's guarantee that it holds the GIL.
                    Some(_) => match unsafe { tensor.storage().unpinned_on(stream) } {
                        Some(start) => start,
                        None => return Ok(None),
                    },
                    None => pins[n].insert(tensor.storage().pin_on(stream)?).address(),
                };
                let address = start.wrapping_add_signed(tensor.layout().offset * dtype.size() as isize);
                memory[used] = Memory { address, element: ElementType::Of(dtype) };
                used += 1;
            }
            Operand::Number(number) => inputs[n] = Input::Number(promote::bits(*number, compute)),
        }
    }
    let rounds = is_narrow && op.tags.has(Tags::ROUNDED_PARAMETERS);
    let rounded = |number: Scalar| if rounds { promote::rounded(number, dtype) } else { number };
    let numbers: SmallVec<[[u64; 2]; 4]> =
        numbers.iter().map(|number| promote::bits(rounded(*number), compute)).collect();
    let (count, optional) = (expression.numbers.len(), expression.optional.len());
    let function = Function::Operator { name: op.name, dtype: compute, numbers: count, optional };
    if !elementwise::is_aligned(&memory[..used]) {
        return Ok(None);
    }
    let launch = |memory: &[Memory]| {
        // Here, because memory was allocated meanwhile.
        card::select(index)?;
        // SAFETY: every operand holds `numel` adjacent elements, and is held for the stream. New memory is aligned as well.
        unsafe { elementwise::run_flat(card, stream, function, numel, memory, &inputs, &numbers) }
    };
    let Some(args) = over else {
        let storage = allocate::storage(Device::Cuda(index), numel * result.size())?;
        memory[0].address = storage.address();
        launch(&memory[..used])?;
        drop(pins);
        let layout = Layout { offset: 0, ..model.layout().clone() };
        return Ok(Some(Tensor::new(storage, layout, result, Device::Cuda(index))));
    };
    let addresses = memory[1..used].iter().map(|operand| operand.address);
    let Some(change) = call.begin_in_place(args, alike, addresses)? else { return Ok(None) };
    memory[0].address = memory[1].address;
    launch(&memory[..used])?;
    drop(pins);
    change.finish()?.into_tensor().map(Some)
}
