//! The short way through a call: small operands that already look alike need no walk and no conversion.
//!
//! The eight steps are the same; what they would find is known beforehand. Everything else takes the long way (`call`).

use std::mem::MaybeUninit;

use rushlight_autograd::{Tensor, modes};
use rushlight_core::dtype::Category;
use rushlight_core::storage::{Block, Pin};
use rushlight_core::{DType, Device, Layout, Result, Scalar, Storage};
use smallvec::SmallVec;

use crate::row::{Pointwise, Promote, Row, Run};
use crate::value::{Args, Output, Value};
use crate::{keeper, node, profile, promote};

/// An operand of a pointwise row.
#[derive(Clone, Copy)]
pub enum Operand<'a> {
    Tensor(&'a Tensor),
    Number(Scalar),
}

pub type Operands<'a> = SmallVec<[Operand<'a>; 4]>;

/// Calls of up to this many elements are short: one loop on this thread, with the interpreter's lock held.
const SHORT: usize = 1 << 14;
/// Numbers are repeated for as many elements as this on the stack.
const REPEATED: usize = 256;

impl<'a> From<Operand<'a>> for Value<'a> {
    #[inline]
    fn from(operand: Operand<'a>) -> Self {
        match operand {
            Operand::Tensor(tensor) => Value::Tensor(tensor),
            Operand::Number(number) => Value::Scalar(number),
        }
    }
}

/// A caller's word that it holds the interpreter's lock until the call returns: then nobody replaces a block meanwhile,
/// and operands need no pins.
#[derive(Clone, Copy)]
pub struct Locked(());

impl Locked {
    /// # Safety
    /// The calling thread holds the lock, and keeps it for as long as the value is used.
    #[inline]
    pub unsafe fn assume() -> Locked {
        Locked(())
    }
}

/// `x op y` for a row whose other arguments take their defaults.
#[inline]
pub fn binary(row: &'static Row, x: Operand, y: Operand, locked: Option<Locked>) -> Result<Tensor> {
    if let Run::Pointwise(body) = &row.run
        && !profile::is_on()
        && !keeper::is_expected()
        && (row.check.is_none() || is_unchecked(row, x) && is_unchecked(row, y))
        && let Some(result) = attempt(row, body, &[x, y], &row.schema().numbers, None, locked)?
    {
        let watched = |operand: Operand| matches!(operand, Operand::Tensor(tensor) if tensor.is_watched());
        if (watched(x) || watched(y)) && modes::recording() {
            let output = Output::Tensor(result);
            node::leave_node(&arguments(row, x, y), &output)?;
            return output.into_tensor();
        }
        return Ok(result);
    }
    crate::call(arguments(row, x, y))?.into_tensor()
}

fn arguments<'a>(row: &'static Row, x: Operand<'a>, y: Operand<'a>) -> Args<'a> {
    Args::new(row, [x.into(), y.into()])
}

/// Whether the row's check has nothing to say of an operand. A whole number or a float beside a tensor is never what a
/// check refuses; without a tensor the call is not short.
#[inline]
fn is_unchecked(row: &Row, operand: Operand) -> bool {
    match operand {
        Operand::Tensor(tensor) => !row.checks.has(tensor.dtype()),
        Operand::Number(number) => number.is_floating() || number.is_integral(),
    }
}

/// The result of a pointwise row, if all its tensors are small, row-major, on the host and of one shape and dtype; nothing
/// where they are not. An in-place call gives its arguments as `over`, and its first tensor is the result.
#[inline]
pub fn attempt(
    row: &'static Row,
    body: &Pointwise,
    operands: &[Operand],
    numbers: &[Scalar],
    over: Option<&Args>,
    locked: Option<Locked>,
) -> Result<Option<Tensor>> {
    match operands {
        [x] => exactly(row, body, [*x], numbers, over, locked),
        [x, y] => exactly(row, body, [*x, *y], numbers, over, locked),
        [x, y, z] => exactly(row, body, [*x, *y, *z], numbers, over, locked),
        _ => Ok(None),
    }
}

/// The same for a known number of operands, so that loops over them are written out.
#[inline]
fn exactly<const N: usize>(
    row: &'static Row,
    body: &Pointwise,
    operands: [Operand; N],
    numbers: &[Scalar],
    over: Option<&Args>,
    locked: Option<Locked>,
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
    let numel = match layout.row_major() {
        Some(numel) if (1..=SHORT).contains(&numel) => numel,
        _ => return Ok(None),
    };
    let alike = |operand: &Operand| match operand {
        Operand::Tensor(tensor) => {
            tensor.is_plain()
                && (std::ptr::eq(*tensor, model)
                    || tensor.dtype() == dtype && tensor.device() == Device::Cpu && tensor.layout().lies_like(layout))
        }
        Operand::Number(number) => {
            numel <= REPEATED && dtype.category() >= number.dtype().category() && dtype.category() > Category::Bool
        }
    };
    if dtype.is_half() || !row.dtypes.has(dtype) || model.device() != Device::Cpu || !operands.iter().all(alike) {
        return Ok(None);
    }
    let Some(tile) = (body.cpu)(dtype) else { return Ok(None) };
    let mut pins: [Option<Pin>; N] = [const { None }; N];
    let mut inputs = [std::ptr::null::<u8>(); N];
    let mut repeated = MaybeUninit::<[u128; REPEATED]>::uninit();
    let mut has_number = false;
    for n in 0..N {
        match operands[n] {
            Operand::Tensor(tensor) => {
                let start = match locked {
                    // SAFETY: the caller's word.
                    Some(_) => match unsafe { tensor.storage().unpinned() } {
                        Some(start) => start,
                        None => return Ok(None),
                    },
                    None => pins[n].insert(tensor.storage().pin()?).as_ptr(),
                };
                // SAFETY: the layout lies within the storage, whose block stays.
                inputs[n] = unsafe { start.offset(tensor.layout().offset * dtype.size() as isize) };
            }
            Operand::Number(number) => {
                // Two numbers beside a tensor are rare: they take the long way.
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
        // SAFETY: every input holds `numel` contiguous elements of the dtype that the loop works on, and so does the block.
        unsafe { tile(block.as_ptr()?, inputs.as_ptr(), numel, numbers) };
        drop(pins);
        let layout = Layout { offset: 0, ..layout.clone() };
        return Ok(Some(Tensor::new(Storage::new(block), layout, result, Device::Cpu)));
    };
    // The first operand is the tensor that changes. An input may lie on it or apart from it.
    let (own, to) = (args.tensor(0)?, inputs[0]);
    let apart = |input: *const u8| input == to || input.addr().abs_diff(to.addr()) >= bytes;
    if !std::ptr::eq(own, model) || result != dtype || !inputs.iter().all(|&input| apart(input)) {
        return Ok(None);
    }
    crate::variants::check_writable(own)?;
    let change = node::Change::begin(args)?;
    // SAFETY: as above; a tile reads a block of each input before it writes that block of the result.
    unsafe { tile(to.cast_mut(), inputs.as_ptr(), numel, numbers) };
    drop(pins);
    change.finish()?.into_tensor().map(Some)
}

/// Writes a number's bytes `n` times, and at most as often as there is room.
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
/// There is room for `n` elements at `to`, in their alignment.
unsafe fn fill<T: Copy>(to: *mut MaybeUninit<T>, n: usize, element: T) {
    // SAFETY: by the caller's word.
    unsafe { std::slice::from_raw_parts_mut(to, n) }.fill(MaybeUninit::new(element));
}
