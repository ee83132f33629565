//! The fast path in memory of the host.

use std::mem::MaybeUninit;

use rushlight_autograd::Tensor;
use rushlight_core::block::Block;
use rushlight_core::storage::Pin;
use rushlight_core::{Device, Layout, Result, Storage};

use super::call::{Alike, Call};
use crate::promote;
use crate::value::Operand;

/// The most elements of a call on the fast path: one loop on this thread, with the GIL held.
const MAX_ELEMENTS: usize = 1 << 14;
/// The number of elements for which numbers are repeated on the stack.
const REPEATED: usize = 256;

/// The result, if the operands are small and alike.
#[inline]
pub fn attempt<const N: usize>(call: Call, operands: [Operand; N]) -> Result<Option<Tensor>> {
    let Call { body, model, numbers, over, gil, .. } = call;
    let dtype = model.dtype();
    let Some(alike) = call.alike(&operands, |_, numel| numel <= REPEATED) else { return Ok(None) };
    let Alike { numel, result } = alike;
    if numel > MAX_ELEMENTS || dtype.is_half() {
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
    let Some(args) = over else {
        let block = Block::heap(numel * result.size())?;
        // SAFETY: every input holds `numel` contiguous elements of the loop's dtype, and so does the block.
        unsafe { inner_loop(block.as_ptr()?, inputs.as_ptr(), numel, numbers) };
        drop(pins);
        let layout = Layout { offset: 0, ..model.layout().clone() };
        return Ok(Some(Tensor::new(Storage::new(block), layout, result, Device::Cpu)));
    };
    let addresses = inputs.iter().map(|input| input.addr());
    let Some(change) = call.begin_in_place(args, alike, addresses)? else { return Ok(None) };
    // SAFETY: as above; the loop reads a block of each input before it writes that block of the result.
    unsafe { inner_loop(inputs[0].cast_mut(), inputs.as_ptr(), numel, numbers) };
    drop(pins);
    change.finish()?.into_tensor().map(Some)
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
