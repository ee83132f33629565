//! Atomic additions from several processes to the same elements, for Hogwild. It is not an operator.

use half::{bf16, f16};
use rushlight_autograd::Tensor;
use rushlight_core::layout::Shape;
use rushlight_core::{DType, Device, Error, Result, Scalar};
use rushlight_cpu::atomic::{self, Number};
use rushlight_cpu::index::gather::IndexedOperand;
use rushlight_dispatch::{copy, interpreter, overlap, variants, vmap};

use crate::convert;
use crate::index::gather::{check_values, long};

/// `target += alpha * update`, or `target[index[i]] += alpha * update[i]`; not recorded.
pub fn add(target: &Tensor, index: Option<&Tensor>, update: &Tensor, alpha: Scalar) -> Result<()> {
    if [Some(target), Some(update), index].into_iter().flatten().any(Tensor::is_batched) {
        return Err(vmap::data_error());
    }
    variants::check_writable(target)?;
    overlap::check_no_self_overlap(target)?;
    variants::check_cast(update.dtype(), target.dtype())?;
    let update = copy::readable(&convert::to_dtype(&update.detach(), target.dtype())?)?;
    if alpha.is_floating() && !target.dtype().is_differentiable() {
        return Err(Error::runtime("For integral input tensors, argument alpha must not be a floating point number."));
    }
    let add = match target.dtype() {
        DType::F16 => add_numbers::<f16>,
        DType::BF16 => add_numbers::<bf16>,
        DType::F32 => add_numbers::<f32>,
        DType::F64 => add_numbers::<f64>,
        DType::I8 => add_numbers::<i8>,
        DType::I16 => add_numbers::<i16>,
        DType::I32 => add_numbers::<i32>,
        DType::I64 => add_numbers::<i64>,
        DType::U8 => add_numbers::<u8>,
        DType::U16 => add_numbers::<u16>,
        DType::U32 => add_numbers::<u32>,
        DType::U64 => add_numbers::<u64>,
        other => {
            let name = other.display_name();
            return Err(Error::type_(format!("atomic_add_() does not add to {name}")));
        }
    };
    add(target, index, &update, alpha)
}

fn add_numbers<T: Number>(target: &Tensor, index: Option<&Tensor>, update: &Tensor, alpha: Scalar) -> Result<()> {
    if [Some(target), Some(update), index].into_iter().flatten().any(|tensor| tensor.device() != Device::Cpu) {
        return Err(Error::runtime("atomic_add_() works on tensors of the CPU"));
    }
    if target.is_lazy_conj() {
        return Err(Error::runtime("atomic_add_() adds to memory as it is; resolve_neg() the target first"));
    }
    let index = index.map(|index| rows(target, index, update)).transpose()?;
    let source = match index {
        Some(_) => update.layout().clone(),
        None => update.layout().broadcast_to(target.sizes())?,
    };
    interpreter::while_detached(source.numel(), || {
        let (out, input) = (target.storage().pin()?, update.storage().pin()?);
        if !(out.as_ptr() as usize).is_multiple_of(size_of::<T>()) {
            return Err(Error::runtime("atomic_add_() needs elements at addresses that are multiples of their size"));
        }
        let to = IndexedOperand { pointer: out.as_ptr(), layout: target.layout() };
        let from = IndexedOperand { pointer: input.as_ptr(), layout: &source };
        match &index {
            None => {
                // SAFETY: layouts of the same sizes within their pinned storages; the target's elements are aligned.
                unsafe { atomic::add::<T>(to, from, alpha) }
            }
            Some(index) => {
                let pin = index.storage().pin()?;
                let names = IndexedOperand { pointer: pin.as_ptr(), layout: index.layout() };
                // SAFETY: as above; `rows` has checked the sizes and the index, which is not shared.
                unsafe { atomic::add_rows::<T>(to, names, from, alpha) }
            }
        }
        Ok(())
    })?;
    target.bump_version();
    Ok(())
}

/// A copy of an index of the target's rows, with one entry for each row of the update; other threads may be writing to
/// the original.
fn rows(target: &Tensor, index: &Tensor, update: &Tensor) -> Result<Tensor> {
    if index.rank() != 1 || !matches!(index.dtype(), DType::I64 | DType::I32) {
        return Err(Error::index(format!(
            "atomic_add_(): index must be a vector of int64 or int32, got {} of shape {}",
            index.dtype().display_name(),
            Shape(index.sizes())
        )));
    }
    let fits = target.rank() > 0
        && update.rank() == target.rank()
        && update.sizes()[0] == index.sizes()[0]
        && update.sizes()[1..] == target.sizes()[1..];
    if !fits {
        return Err(Error::runtime(format!(
            "atomic_add_(): an update of shape {} does not give {} rows for a target of shape {}",
            Shape(update.sizes()),
            index.sizes()[0],
            Shape(target.sizes())
        ))
        .shapes([target.sizes().as_slice(), update.sizes().as_slice()]));
    }
    let index = copy::clone(&long(index)?)?;
    check_values(&index, index.layout(), target.sizes()[0], 0)?;
    Ok(index)
}
