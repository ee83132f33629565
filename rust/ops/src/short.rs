//! The short way through a call: small operands that already look alike need no walk and no conversion.
//!
//! The eight steps are the same; what they would find is known beforehand. Everything else takes the long way (`call`).

use rushlight_autograd::{Tensor, modes};
use rushlight_core::dtype::Category;
use rushlight_core::storage::Block;
use rushlight_core::{DType, Device, Layout, Result, Scalar, Storage};
use smallvec::SmallVec;

use crate::row::{Pointwise, Promote, Row, Run};
use crate::value::{Args, Output, Value, Values};
use crate::{node, profile, promote};

/// An operand of a pointwise row.
#[derive(Clone, Copy)]
pub enum Operand<'a> {
    Tensor(&'a Tensor),
    Number(Scalar),
}

pub type Operands<'a> = SmallVec<[Operand<'a>; 4]>;

/// More elements than this are cut for threads, and run without the interpreter's lock.
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

/// `x op y` for a row whose other arguments take their defaults.
pub fn binary(row: &'static Row, x: Operand, y: Operand) -> Result<Tensor> {
    if let Run::Pointwise(body) = &row.run
        && !profile::is_on()
        && (row.check.is_none() || plain(x) && plain(y))
        && let Some(result) = attempt(row, body, &[x, y], &row.schema().numbers)
    {
        let result = result?;
        let watched = |operand: Operand| matches!(operand, Operand::Tensor(tensor) if tensor.requires_grad());
        if modes::grad_enabled() && (watched(x) || watched(y)) {
            return node::record(&arguments(row, x, y), Output::Tensor(result))?.into_tensor();
        }
        return Ok(result);
    }
    crate::call(arguments(row, x, y))?.into_tensor()
}

fn arguments<'a>(row: &'static Row, x: Operand<'a>, y: Operand<'a>) -> Args<'a> {
    let mut args = Args { row, values: Values::new() };
    args.values.push(x.into());
    args.values.push(y.into());
    for param in row.schema().params.iter().skip(2) {
        args.values.push(param.default_value());
    }
    args
}

/// What rows with two operands check concerns whole numbers, bool and complex numbers only.
#[inline]
fn plain(operand: Operand) -> bool {
    match operand {
        Operand::Tensor(tensor) => tensor.dtype().is_floating(),
        Operand::Number(number) => number.is_floating() || number.is_integral(),
    }
}

/// The result of a pointwise row, if all its tensors are small, contiguous, on the host and of one shape and dtype.
#[inline]
pub fn attempt(
    row: &'static Row,
    body: &Pointwise,
    operands: &[Operand],
    numbers: &[Scalar],
) -> Option<Result<Tensor>> {
    match operands {
        [x] => exactly(row, body, [*x], numbers),
        [x, y] => exactly(row, body, [*x, *y], numbers),
        [x, y, z] => exactly(row, body, [*x, *y, *z], numbers),
        _ => None,
    }
}

/// The same for a known number of operands, so that loops over them are written out.
fn exactly<const N: usize>(
    row: &'static Row,
    body: &Pointwise,
    operands: [Operand; N],
    numbers: &[Scalar],
) -> Option<Result<Tensor>> {
    let model = operands.iter().find_map(|operand| match operand {
        Operand::Tensor(tensor) => Some(*tensor),
        Operand::Number(_) => None,
    })?;
    let (layout, dtype) = (model.layout(), model.dtype());
    let numel = layout.numel();
    let result = match body.promote {
        Promote::Common => dtype,
        Promote::IntToFloat if dtype.is_differentiable() => dtype,
        Promote::ToBool if dtype.is_differentiable() => DType::Bool,
        _ => return None,
    };
    if numel == 0 || numel > SHORT || dtype.is_half() || !row.dtypes.has(dtype) {
        return None;
    }
    let alike = |operand: &Operand| match operand {
        Operand::Tensor(tensor) => {
            std::ptr::eq(*tensor, model) || tensor.dtype() == dtype && tensor.sizes() == &layout.sizes && fits(tensor)
        }
        Operand::Number(number) => {
            numel <= REPEATED && dtype.category() >= number.dtype().category() && dtype.category() > Category::Bool
        }
    };
    if !fits(model) || !operands.iter().all(alike) {
        return None;
    }
    let tile = (body.cpu)(dtype)?;
    let fresh = Block::heap(numel * result.size()).and_then(|block| Ok((block.as_ptr()?, block)));
    let (out, block) = match fresh {
        Ok(fresh) => fresh,
        Err(error) => return Some(Err(error)),
    };
    let mut pins: [Option<rushlight_core::storage::Pin>; N] = [const { None }; N];
    let mut inputs = [std::ptr::null::<u8>(); N];
    let mut repeated = std::mem::MaybeUninit::<[u128; REPEATED]>::uninit();
    let mut has_number = false;
    for n in 0..N {
        match operands[n] {
            Operand::Tensor(tensor) => {
                let pin = match tensor.storage().pin() {
                    Ok(pin) => pin,
                    Err(error) => return Some(Err(error)),
                };
                // SAFETY: the layout lies within the pinned storage.
                inputs[n] = unsafe { pin.as_ptr().offset(tensor.layout().offset * dtype.size() as isize) };
                pins[n] = Some(pin);
            }
            Operand::Number(number) => {
                // Two numbers beside a tensor are rare: they take the long way.
                if std::mem::replace(&mut has_number, true) {
                    return None;
                }
                inputs[n] = repeated.as_ptr().cast();
                repeat(promote::bits(number, dtype), dtype.size(), numel, repeated.as_mut_ptr().cast());
            }
        }
    }
    // SAFETY: every input holds `numel` contiguous elements of the dtype that the loop works on, and so does the block.
    unsafe { tile(out, inputs.as_ptr(), numel, numbers) };
    drop(pins);
    let layout = Layout::contiguous(&layout.sizes);
    Some(Ok(Tensor::new(Storage::new(block), layout, result, Device::Cpu)))
}

#[inline]
fn fits(tensor: &Tensor) -> bool {
    tensor.device() == Device::Cpu && tensor.layout().is_contiguous()
}

/// Writes a number's bytes `n` times.
fn repeat(bits: [u64; 2], width: usize, n: usize, to: *mut u8) {
    // SAFETY: the buffer holds REPEATED elements of any width, and `n` is at most that.
    unsafe {
        match width {
            1 => to.write_bytes(bits[0] as u8, n),
            2 => std::slice::from_raw_parts_mut(to.cast::<std::mem::MaybeUninit<u16>>(), n)
                .fill(std::mem::MaybeUninit::new(bits[0] as u16)),
            4 => std::slice::from_raw_parts_mut(to.cast::<std::mem::MaybeUninit<u32>>(), n)
                .fill(std::mem::MaybeUninit::new(bits[0] as u32)),
            8 => std::slice::from_raw_parts_mut(to.cast::<std::mem::MaybeUninit<u64>>(), n)
                .fill(std::mem::MaybeUninit::new(bits[0])),
            _ => std::slice::from_raw_parts_mut(to.cast::<std::mem::MaybeUninit<[u64; 2]>>(), n)
                .fill(std::mem::MaybeUninit::new(bits)),
        }
    }
}
