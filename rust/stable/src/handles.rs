//! Handles of tensors: their geometry, their memory, and new ones.

use std::ffi::c_void;

use rushlight_autograd::{Form, Tensor, modes};
use rushlight_core::block::Block;
use rushlight_core::layout::{MAX_RANK, wrap_dim};
use rushlight_core::{DType, Device, Dims, Error, Layout, Result, Storage};
use rushlight_dispatch::allocate::allocate;
use rushlight_dispatch::operator::TensorSpec;

use crate::errors::export;
use crate::numbers;

/// A tensor, or none for one that is not defined.
pub type Handle = *mut Option<Tensor>;

/// The tensor of a handle.
///
/// # Safety
/// The handle is null, or was not deleted and is not while the result is used.
pub unsafe fn tensor<'a>(handle: Handle) -> Result<&'a Tensor> {
    // SAFETY: guaranteed by the caller.
    let tensor = unsafe { handle.as_ref() }.and_then(Option::as_ref);
    tensor.ok_or_else(|| Error::runtime("a tensor of the stable ABI is not defined"))
}

pub fn handle(tensor: Tensor) -> Handle {
    Box::into_raw(Box::new(Some(tensor)))
}

/// The address of the first element; null if there are no elements.
fn address(tensor: &Tensor) -> Result<*mut c_void> {
    if !matches!(tensor.meta().form, Form::Plain | Form::Quantized(_)) {
        return Err(Error::runtime("a library cannot read a tensor whose elements are not stored one by one")
            .hint("Pass tensor.to_dense() of a sparse tensor, tensor.resolve_conj() or tensor.resolve_neg() of a view that is conjugated or negated when it is read."));
    }
    if tensor.numel() == 0 || tensor.device() == Device::Meta {
        return Ok(std::ptr::null_mut());
    }
    if tensor.device() == Device::Cpu {
        tensor.storage().expose()?;
    }
    let first = tensor.layout().offset * tensor.dtype().size() as isize;
    Ok(std::ptr::with_exposed_provenance_mut(tensor.storage().address().wrapping_add_signed(first)))
}

fn writable(tensor: &Tensor) -> Result<*mut c_void> {
    if tensor.storage().is_read_only() {
        return Err(
            Error::runtime("a library cannot write a tensor whose memory is read-only").hint("Pass tensor.clone().")
        );
    }
    address(tensor)
}

/// Sizes and strides of a caller as a layout.
///
/// # Safety
/// The arguments are a caller's, as the ABI has them.
unsafe fn layout(rank: i64, sizes: *const i64, strides: *const i64, offset: i64) -> Result<Layout> {
    let count = usize::try_from(rank).ok().filter(|rank| *rank <= MAX_RANK);
    let count = count.ok_or_else(|| Error::runtime(format!("{rank} dimensions are not possible")))?;
    let dims = |list: *const i64| -> Dims {
        if count == 0 {
            return Dims::new();
        }
        // SAFETY: the caller's lists have as many entries as there are dimensions.
        unsafe { std::slice::from_raw_parts(list, count) }.iter().map(|n| *n as isize).collect()
    };
    let sizes = dims(sizes);
    let strides = if strides.is_null() { Layout::contiguous(&sizes).strides } else { dims(strides) };
    Ok(Layout { sizes, strides, offset: offset as isize })
}

/// Memory of a library, and how it is freed.
struct Memory {
    data: *mut c_void,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
}

/// Memory that a tensor has taken over.
struct Owner(Memory);

// SAFETY: only the deleter uses the pointers, and the ABI lets it be called on any thread.
unsafe impl Send for Owner {}
// SAFETY: as above.
unsafe impl Sync for Owner {}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Some(deleter) = self.0.deleter {
            // SAFETY: the memory's last user is gone.
            unsafe { deleter(self.0.data, self.0.context) };
        }
    }
}

/// A tensor over memory of a caller, to whom the memory still belongs if this fails.
///
/// # Safety
/// The arguments are a caller's, as the ABI has them.
unsafe fn over(memory: Memory, layout: Layout, dtype: i32, device: Device) -> Result<Tensor> {
    if device != Device::Cpu {
        return Err(Error::not_implemented(format!("torch_from_blob makes no tensors of memory on {device}")));
    }
    let dtype: DType = numbers::dtype_of(dtype)?;
    let data = memory.data.cast::<u8>();
    let span = layout.checked_span().ok_or_else(|| Error::runtime("Storage size calculation overflowed"))?;
    let (low, high) = span.unwrap_or((0, -1));
    if low < 0 {
        return Err(Error::runtime("a tensor over memory of a library begins before it"));
    }
    let bytes = ((high + 1) as usize).checked_mul(dtype.size()).filter(|bytes| isize::try_from(*bytes).is_ok());
    let bytes = bytes.ok_or_else(|| Error::runtime("Storage size calculation overflowed"))?;
    if bytes > 0 && data.is_null() {
        return Err(Error::runtime("a tensor over memory of a library has elements, but no memory"));
    }
    // SAFETY: the caller's memory has these elements until the deleter is called.
    let block = unsafe { Block::foreign(data, bytes, false, Box::new(Owner(memory))) };
    Ok(Tensor::new(Storage::new(block), layout, dtype, device))
}

export! {
    fn aoti_torch_new_uninitialized_tensor(result: *mut Handle) {
        *result = Box::into_raw(Box::new(None));
    }

    fn aoti_torch_new_tensor_handle(original: Handle, result: *mut Handle) {
        let tensor = original.as_ref().ok_or_else(|| Error::runtime("the handle of a tensor is null"))?;
        *result = Box::into_raw(Box::new(tensor.clone()));
    }

    fn aoti_torch_delete_tensor_object(handle: Handle) {
        if !handle.is_null() {
            drop(Box::from_raw(handle));
        }
    }

    fn aoti_torch_is_defined(handle: Handle, result: *mut bool) {
        *result = tensor(handle).is_ok();
    }

    fn aoti_torch_get_data_ptr(handle: Handle, result: *mut *mut c_void) {
        *result = writable(tensor(handle)?)?;
    }

    fn torch_get_mutable_data_ptr(handle: Handle, result: *mut *mut c_void) {
        *result = writable(tensor(handle)?)?;
    }

    fn torch_get_const_data_ptr(handle: Handle, result: *mut *const c_void) {
        *result = address(tensor(handle)?)?;
    }

    fn aoti_torch_get_storage_size(handle: Handle, result: *mut i64) {
        *result = tensor(handle)?.storage().len() as i64;
    }

    fn aoti_torch_get_storage_numel(handle: Handle, result: *mut i64) {
        let tensor = tensor(handle)?;
        *result = (tensor.storage().len() / tensor.dtype().size()) as i64;
    }

    fn aoti_torch_get_dim(handle: Handle, result: *mut i64) {
        *result = tensor(handle)?.rank() as i64;
    }

    fn aoti_torch_get_numel(handle: Handle, result: *mut i64) {
        *result = tensor(handle)?.numel() as i64;
    }

    fn aoti_torch_get_sizes(handle: Handle, result: *mut *const i64) {
        *result = tensor(handle)?.sizes().as_ptr().cast();
    }

    fn aoti_torch_get_size(handle: Handle, dim: i64, result: *mut i64) {
        let tensor = tensor(handle)?;
        *result = *known(tensor.sizes(), dim)? as i64;
    }

    fn aoti_torch_get_strides(handle: Handle, result: *mut *const i64) {
        *result = tensor(handle)?.layout().strides.as_ptr().cast();
    }

    fn aoti_torch_get_stride(handle: Handle, dim: i64, result: *mut i64) {
        let tensor = tensor(handle)?;
        *result = *known(&tensor.layout().strides, dim)? as i64;
    }

    fn aoti_torch_get_storage_offset(handle: Handle, result: *mut i64) {
        *result = tensor(handle)?.layout().offset as i64;
    }

    fn aoti_torch_is_contiguous(handle: Handle, result: *mut bool) {
        *result = tensor(handle)?.layout().is_contiguous();
    }

    fn aoti_torch_get_dtype(handle: Handle, result: *mut i32) {
        *result = tensor(handle)?.dtype() as i32;
    }

    fn aoti_torch_get_device_type(handle: Handle, result: *mut i32) {
        *result = numbers::device_numbers(tensor(handle)?.device())?.0;
    }

    fn aoti_torch_get_device_index(handle: Handle, result: *mut i32) {
        *result = numbers::device_numbers(tensor(handle)?.device())?.1;
    }

    fn aoti_torch_get_layout(handle: Handle, result: *mut i32) {
        let tensor = tensor(handle)?;
        *result = numbers::Enumeration::LAYOUT.of(match (tensor.compressed_parts(), tensor.is_sparse()) {
            (Some(parts), _) => parts.format.name(),
            (None, true) => "sparse_coo",
            (None, false) => "strided",
        })?;
    }

    fn torch_set_requires_grad(handle: Handle, requires_grad: bool) {
        tensor(handle)?.set_requires_grad(requires_grad)?;
    }

    fn aoti_torch_empty_strided(
        rank: i64,
        sizes: *const i64,
        strides: *const i64,
        dtype: i32,
        device_type: i32,
        device_index: i32,
        result: *mut Handle,
    ) {
        let layout = layout(rank, sizes, strides, 0)?;
        let (dtype, device) = (numbers::dtype_of(dtype)?, numbers::device_of(device_type, device_index)?);
        *result = handle(allocate(&TensorSpec { layout, dtype, device })?);
    }

    fn aoti_torch_create_tensor_from_blob(
        data: *mut c_void,
        rank: i64,
        sizes: *const i64,
        strides: *const i64,
        offset: i64,
        dtype: i32,
        device_type: i32,
        device_index: i32,
        result: *mut Handle,
    ) {
        let device = numbers::device_of(device_type, device_index)?;
        let memory = Memory { data, context: std::ptr::null_mut(), deleter: None };
        *result = handle(over(memory, layout(rank, sizes, strides, offset)?, dtype, device)?);
    }

    fn torch_from_blob(
        data: *mut c_void,
        rank: i64,
        sizes: *const i64,
        strides: *const i64,
        offset: i64,
        dtype: i32,
        device_type: i32,
        device_index: i32,
        result: *mut Handle,
        kind: i32,
        _metadata: *const u8,
        _metadata_size: i64,
        deleter: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
        context: *mut c_void,
    ) {
        if numbers::Enumeration::LAYOUT.name(kind)? != "strided" {
            return Err(Error::not_implemented("torch_from_blob makes strided tensors only"));
        }
        let device = numbers::device_of(device_type, device_index)?;
        let layout = layout(rank, sizes, strides, offset)?;
        *result = handle(over(Memory { data, context, deleter }, layout, dtype, device)?);
    }
}

/// An entry of sizes or strides; a negative dimension counts from the end.
fn known(list: &[isize], dim: i64) -> Result<&isize> {
    let place = wrap_dim(dim, list.len())?;
    list.get(place).ok_or_else(|| Error::index(format!("Dimension specified as {dim} but tensor has no dimensions")))
}

#[unsafe(no_mangle)]
pub extern "C" fn aoti_torch_grad_mode_is_enabled() -> bool {
    modes::grad_enabled()
}
