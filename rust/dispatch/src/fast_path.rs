//! The fast path of a call: operands of one shape and dtype need no strides, no broadcasting and no conversion. On the host
//! they are small, so that their loop may run with the GIL held; a device has its own queue.
//!
//! The steps are the same, but their results are known beforehand. Everything else takes the general path
//! (`call`).

use crate::value::{Arg, Operand};
use std::mem::MaybeUninit;

use rushlight_autograd::Tensor;
use rushlight_core::block::Block;
use rushlight_core::storage::{DevicePin, Pin};
use rushlight_core::{DType, Device, Layout, Result, Scalar, Storage};
use rushlight_cuda::elementwise::{Function, Input, Memory};
use rushlight_cuda::launch::ElementType;
use rushlight_cuda::{card, elementwise, stream};
use smallvec::SmallVec;

use crate::allocate;
use crate::node;
use crate::operator::{Args, Operator, Pointwise, Promote, Tags};
use crate::promote::{self, is_absorbed};

/// The most elements of a call on the fast path: one loop on this thread, with the GIL held.
const MAX_ELEMENTS: usize = 1 << 14;
/// The number of elements for which numbers are repeated on the stack.
const REPEATED: usize = 256;

/// The caller's guarantee that it holds the GIL until the call returns: then no storage's block is replaced meanwhile,
/// and operands need no pins.
#[derive(Clone, Copy)]
pub struct GilHeld(());

impl GilHeld {
    /// # Safety
    /// The calling thread holds the GIL, and keeps it as long as the value is used.
    #[inline]
    pub unsafe fn assume() -> GilHeld {
        GilHeld(())
    }
}

/// Whether the operator's check accepts an operand without running. No check rejects an int or a float next to a
/// tensor; a call without tensors does not take the fast path.
#[inline]
pub fn is_unchecked(op: &Operator, operand: Operand) -> bool {
    match operand {
        Operand::Tensor(tensor) => !op.checked_dtypes.has(tensor.dtype()),
        Operand::Number(number) => number.is_floating() || number.is_integral(),
    }
}

/// The result of a pointwise operator, if all its tensors are row-major, on one device and of one shape and dtype, and small on the
/// host; else `None`. An in-place call passes its arguments as `over`, and its first tensor is the result.
#[inline]
pub fn attempt(
    op: &'static Operator,
    body: &Pointwise,
    operands: &[Operand],
    numbers: &[Scalar],
    over: Option<&Args>,
    gil: Option<GilHeld>,
) -> Result<Option<Tensor>> {
    match operands {
        [x] => attempt_n(op, body, [*x], numbers, over, gil),
        [x, y] => attempt_n(op, body, [*x, *y], numbers, over, gil),
        [x, y, z] => attempt_n(op, body, [*x, *y, *z], numbers, over, gil),
        _ => Ok(None),
    }
}

/// The same for a known number of operands, so that loops over them are unrolled.
#[inline]
fn attempt_n<const N: usize>(
    op: &'static Operator,
    body: &Pointwise,
    operands: [Operand; N],
    numbers: &[Scalar],
    over: Option<&Args>,
    gil: Option<GilHeld>,
) -> Result<Option<Tensor>> {
    let tensor = |operand: &Operand<'_>| matches!(operand, Operand::Tensor(_));
    let Some(Operand::Tensor(model)) = operands.iter().copied().find(tensor) else { return Ok(None) };
    let (layout, dtype) = (model.layout(), model.dtype());
    let result = match body.promote {
        Promote::Common => dtype,
        Promote::IntToFloat if dtype.is_differentiable() => dtype,
        Promote::ToBool if dtype.is_differentiable() => DType::Bool,
        _ => return Ok(None),
    };
    let Some(numel) = layout.row_major() else { return Ok(None) };
    if let Device::Cuda(index) = model.device() {
        let call = OnCuda { index, op, body, model, dtype, result, numel };
        return call.run(&operands, numbers, over, gil);
    }
    if !(1..=MAX_ELEMENTS).contains(&numel) {
        return Ok(None);
    }
    let alike = |operand: &Operand| match operand {
        Operand::Tensor(tensor) => {
            tensor.is_plain()
                && (std::ptr::eq(*tensor, model)
                    || tensor.dtype() == dtype
                        && tensor.device() == Device::Cpu
                        && tensor.layout().same_geometry(layout))
        }
        Operand::Number(number) => numel <= REPEATED && is_absorbed(*number, dtype),
    };
    if dtype.is_half() || !op.dtypes.has(dtype) || model.device() != Device::Cpu || !operands.iter().all(alike) {
        return Ok(None);
    }
    let Some(inner_loop) = (body.loops.cpu)(dtype) else { return Ok(None) };
    let mut pins: [Option<Pin>; N] = [const { None }; N];
    let mut inputs = [std::ptr::null::<u8>(); N];
    let mut repeated = MaybeUninit::<[u128; REPEATED]>::uninit();
    let mut has_number = false;
    for n in 0..N {
        match operands[n] {
            Operand::Tensor(tensor) => {
                let start = match gil {
                    // SAFETY: `gil` is the caller's guarantee that it holds the GIL.
                    Some(_) => match unsafe { tensor.storage().unpinned() } {
                        Some(start) => start,
                        None => return Ok(None),
                    },
                    None => pins[n].insert(tensor.storage().pin()?).as_ptr(),
                };
                // SAFETY: the layout lies within the storage, whose block is not replaced.
                inputs[n] = unsafe { start.offset(tensor.layout().offset * dtype.size() as isize) };
            }
            Operand::Number(number) => {
                // Two numbers with a tensor are rare and take the general path.
                if std::mem::replace(&mut has_number, true) {
                    return Ok(None);
                }
                repeat(promote::bits(number, dtype), dtype.size(), numel, &mut repeated);
                inputs[n] = repeated.as_ptr().cast();
            }
        }
    }
    let bytes = numel * result.size();
    let Some(args) = over else {
        let block = Block::heap(bytes)?;
        // SAFETY: every input holds `numel` contiguous elements of the loop's dtype, and so does the block.
        unsafe { inner_loop(block.as_ptr()?, inputs.as_ptr(), numel, numbers) };
        drop(pins);
        let layout = Layout { offset: 0, ..layout.clone() };
        return Ok(Some(Tensor::new(Storage::new(block), layout, result, Device::Cpu)));
    };
    // The first operand is the tensor that changes. An input is the same memory or does not overlap it.
    let (own, to) = (args.tensor(Arg::FIRST)?, inputs[0]);
    let apart = |input: *const u8| input == to || input.addr().abs_diff(to.addr()) >= bytes;
    if !std::ptr::eq(own, model) || result != dtype || !inputs.iter().all(|&input| apart(input)) {
        return Ok(None);
    }
    crate::variants::check_writable(own)?;
    let change = node::InPlaceCall::begin(args)?;
    // SAFETY: as above; the loop reads a block of each input before it writes that block of the result.
    unsafe { inner_loop(to.cast_mut(), inputs.as_ptr(), numel, numbers) };
    drop(pins);
    change.finish()?.into_tensor().map(Some)
}

/// A call whose first tensor is on a CUDA device.
struct OnCuda<'a> {
    index: u8,
    op: &'static Operator,
    body: &'a Pointwise,
    /// The first tensor, and the number of its elements.
    model: &'a Tensor,
    numel: usize,
    dtype: DType,
    result: DType,
}

impl OnCuda<'_> {
    #[inline(never)]
    fn run<const N: usize>(
        &self,
        operands: &[Operand; N],
        numbers: &[Scalar],
        over: Option<&Args>,
        gil: Option<GilHeld>,
    ) -> Result<Option<Tensor>> {
        let OnCuda { index, op, body, model, numel, dtype, result } = *self;
        // A number next to a half type may have to be rounded first; that is left to the general path.
        let is_narrow = dtype.compute() != dtype;
        let keeps_numbers = dtype.is_half() && op.tags.has(Tags::UNROUNDED_NUMBERS);
        let alike = |(at, operand): (usize, &Operand)| match operand {
            Operand::Tensor(tensor) => {
                tensor.is_plain()
                    && (std::ptr::eq(*tensor, model)
                        || tensor.dtype() == dtype
                            && tensor.device() == model.device()
                            && tensor.layout().same_geometry(model.layout()))
            }
            Operand::Number(number) => is_absorbed(*number, dtype) && (!is_narrow || at > 0 && keeps_numbers),
        };
        let is_counted = (1..=i32::MAX as usize).contains(&numel);
        if !is_counted || dtype.is_float8() || !op.dtypes.has(dtype) || !operands.iter().enumerate().all(alike) {
            return Ok(None);
        }
        let in_dtype = |dtype: DType| body.loops.expression(dtype);
        let Some((expression, compute)) = in_dtype(dtype).or_else(|| in_dtype(dtype.compute())) else {
            return Ok(None);
        };
        let card = card::select(index)?;
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
        let bytes = numel * result.size();
        if !elementwise::is_aligned(&memory[..used]) {
            return Ok(None);
        }
        let launch = |memory: &[Memory]| {
            // SAFETY: every operand holds `numel` adjacent elements, and is held for the stream. New memory is aligned as well.
            unsafe { elementwise::run_flat(card, stream, function, numel, memory, &inputs, &numbers) }
        };
        let Some(args) = over else {
            let storage = allocate::storage(Device::Cuda(index), bytes)?;
            memory[0].address = storage.address();
            launch(&memory[..used])?;
            drop(pins);
            let layout = Layout { offset: 0, ..model.layout().clone() };
            return Ok(Some(Tensor::new(storage, layout, result, Device::Cuda(index))));
        };
        // As on the host.
        let (own, to) = (args.tensor(Arg::FIRST)?, memory[1].address);
        let apart = |input: &Memory| input.address == to || input.address.abs_diff(to) >= bytes;
        if !std::ptr::eq(own, model) || result != dtype || !memory[1..used].iter().all(apart) {
            return Ok(None);
        }
        crate::variants::check_writable(own)?;
        let change = node::InPlaceCall::begin(args)?;
        memory[0].address = to;
        launch(&memory[..used])?;
        drop(pins);
        change.finish()?.into_tensor().map(Some)
    }
}

/// Writes a number's bytes `n` times, up to the size of the buffer.
fn repeat(bits: [u64; 2], width: usize, n: usize, to: &mut MaybeUninit<[u128; REPEATED]>) {
    let (to, n) = (to.as_mut_ptr(), n.min(REPEATED));
    // SAFETY: there is room for REPEATED elements of 16 bytes, the widest, so for `n` of any width.
    unsafe {
        match width {
            1 => to.cast::<u8>().write_bytes(bits[0] as u8, n),
            2 => fill(to.cast(), n, bits[0] as u16),
            4 => fill(to.cast(), n, bits[0] as u32),
            8 => fill(to.cast(), n, bits[0]),
            _ => fill(to.cast(), n, bits),
        }
    }
}

/// # Safety
/// There is room for `n` aligned elements at `to`.
unsafe fn fill<T: Copy>(to: *mut MaybeUninit<T>, n: usize, element: T) {
    // SAFETY: guaranteed by the caller (see `# Safety`).
    unsafe { std::slice::from_raw_parts_mut(to, n) }.fill(MaybeUninit::new(element));
}
