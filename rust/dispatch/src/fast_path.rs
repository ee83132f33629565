//! The fast path of a call: small operands of one shape and dtype need no strides, no broadcasting and no conversion.
//!
//! The steps are the same, but their results are known beforehand. Everything else takes the general path
//! (`call`).

use crate::value::{Arg, Operand};
use std::mem::MaybeUninit;

use rushlight_autograd::Tensor;
use rushlight_core::block::Block;
use rushlight_core::storage::Pin;
use rushlight_core::{DType, Device, Layout, Result, Scalar, Storage};

use crate::node;
use crate::operator::{Args, Operator, Pointwise, Promote};
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

/// The result of a pointwise operator, if all its tensors are small, row-major, on the CPU and of one shape and dtype;
/// else `None`. An in-place call passes its arguments as `over`, and its first tensor is the result.
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
    let Some(Alike { model, numel, result }) = alike(op, body, &operands) else { return Ok(None) };
    let dtype = model.dtype();
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
        let layout = Layout { offset: 0, ..model.layout().clone() };
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

/// What operands of the fast path have in common: the first tensor, the number of elements, and the dtype of the result.
struct Alike<'a> {
    model: &'a Tensor,
    numel: usize,
    result: DType,
}

/// `None` if the operands are not such that the fast path takes them.
#[inline]
fn alike<'a>(op: &Operator, body: &Pointwise, operands: &[Operand<'a>]) -> Option<Alike<'a>> {
    let model = operands.iter().find_map(|operand| match operand {
        Operand::Tensor(tensor) => Some(*tensor),
        Operand::Number(_) => None,
    })?;
    let (layout, dtype) = (model.layout(), model.dtype());
    let result = match body.promote {
        Promote::Common => dtype,
        Promote::IntToFloat if dtype.is_differentiable() => dtype,
        Promote::ToBool if dtype.is_differentiable() => DType::Bool,
        _ => return None,
    };
    let numel = layout.row_major().filter(|numel| (1..=MAX_ELEMENTS).contains(numel))?;
    let is_alike = |operand: &Operand| match operand {
        Operand::Tensor(tensor) => {
            tensor.is_plain()
                && (std::ptr::eq(*tensor, model)
                    || tensor.dtype() == dtype
                        && tensor.device() == Device::Cpu
                        && tensor.layout().same_geometry(layout))
        }
        Operand::Number(number) => numel <= REPEATED && is_absorbed(*number, dtype),
    };
    let on_host = model.device() == Device::Cpu;
    let fits = !dtype.is_half() && op.dtypes.has(dtype) && on_host && operands.iter().all(is_alike);
    fits.then_some(Alike { model, numel, result })
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
