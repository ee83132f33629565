//! Calls of operators from a library: by name, or through the few functions that have an operator's own arguments.

use std::ffi::{CStr, c_char};
use std::sync::OnceLock;

use rushlight_core::{Error, Result};

use crate::errors::export;
use crate::handles::Handle;
use crate::numbers::packed;
use crate::values::{of_handle, of_list, of_optional, of_text};

/// Calls an operator by its name and overload. It takes the arguments from the stack and puts the results there.
pub type Dispatch = unsafe fn(name: &str, overload: &str, stack: *mut u64) -> Result<()>;

static DISPATCH: OnceLock<Dispatch> = OnceLock::new();

/// Installs the function that calls operators.
pub fn set_dispatch(dispatch: Dispatch) {
    let _ = DISPATCH.set(dispatch);
}

/// Calls an operator.
///
/// # Safety
/// The stack has the operator's arguments, and room for its results.
unsafe fn call_operator(name: &str, overload: &str, stack: *mut u64) -> Result<()> {
    let dispatch = DISPATCH.get().ok_or_else(|| Error::runtime("no operators can be called yet"))?;
    // SAFETY: guaranteed by the caller.
    unsafe { dispatch(name, overload, stack) }
}

/// Calls an operator with one tensor as its result.
///
/// # Safety
/// The stack has the arguments of this operator.
unsafe fn result_of(name: &str, overload: &str, mut stack: Vec<u64>) -> Result<Handle> {
    // SAFETY: the stack was made for this operator.
    unsafe { call_operator(name, overload, stack.as_mut_ptr()) }?;
    Ok(std::ptr::with_exposed_provenance_mut(stack[0] as usize))
}

/// # Safety
/// The arguments are a caller's, as the ABI has them.
unsafe fn call_named(name: *const c_char, overload: *const c_char, stack: *mut u64) -> Result<()> {
    // SAFETY: the caller's texts.
    let texts = unsafe { [CStr::from_ptr(name), CStr::from_ptr(overload)] };
    let [Ok(name), Ok(overload)] = texts.map(CStr::to_str) else {
        return Err(Error::runtime("the name of an operator is not UTF-8"));
    };
    // SAFETY: the caller's stack.
    unsafe { call_operator(name, overload, stack) }
}

/// Integers of a caller.
///
/// # Safety
/// The arguments are a caller's, as the ABI has them.
unsafe fn ints(list: *const i64, count: i64) -> u64 {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the caller's list has that many entries.
    let values = if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(list, count) } };
    of_list(values.iter().map(|value| *value as u64).collect())
}

/// An optional number of a caller, which is absent if the pointer is null.
///
/// # Safety
/// The arguments are a caller's, as the ABI has them.
unsafe fn optional(number: *const i32) -> u64 {
    // SAFETY: the caller's pointer.
    of_optional(unsafe { number.as_ref() }.map(|number| *number as u64))
}

/// What new tensors have in common: dtype, layout, device and pinned memory, each of which may be absent.
struct Options {
    dtype: *const i32,
    layout: *const i32,
    device: *const i32,
    device_index: i32,
    pin_memory: *const i32,
}

impl Options {
    /// # Safety
    /// The arguments are a caller's, as the ABI has them.
    unsafe fn values(&self) -> [u64; 4] {
        // SAFETY: the caller's pointers.
        unsafe {
            let device = self.device.as_ref().map(|kind| packed(*kind, self.device_index));
            [optional(self.dtype), optional(self.layout), of_optional(device), optional(self.pin_memory)]
        }
    }
}

/// Calls an operator that makes a tensor of two arguments and options.
///
/// # Safety
/// The arguments are those of this operator, and the options a caller's.
unsafe fn new_tensor(name: &str, arguments: [u64; 2], options: Options) -> Result<Handle> {
    // SAFETY: guaranteed by the caller.
    unsafe { result_of(name, "", [&arguments[..], &options.values()].concat()) }
}

export! {
    fn aoti_torch_call_dispatcher(name: *const c_char, overload: *const c_char, stack: *mut u64) {
        call_named(name, overload, stack)?;
    }

    fn torch_call_dispatcher(name: *const c_char, overload: *const c_char, stack: *mut u64, _version: u64) {
        call_named(name, overload, stack)?;
    }

    fn aoti_torch_aten_amax(tensor: Handle, dim: *const i64, count: i64, keepdim: i32, result: *mut Handle) {
        let stack = vec![of_handle(tensor), ints(dim, count), u64::from(keepdim != 0)];
        *result = result_of("aten::amax", "", stack)?;
    }

    fn aoti_torch_aten_fill__Scalar(tensor: Handle, value: f64) {
        let made = result_of("aten::fill_", "Scalar", vec![of_handle(tensor), value.to_bits()])?;
        drop(Box::from_raw(made));
    }

    fn aoti_torch_aten_narrow(tensor: Handle, dim: i64, start: i64, length: i64, result: *mut Handle) {
        let stack = vec![of_handle(tensor), dim as u64, start as u64, length as u64];
        *result = result_of("aten::narrow", "", stack)?;
    }

    fn aoti_torch_aten_pad(
        tensor: Handle,
        pad: *const i64,
        count: i64,
        mode: *const c_char,
        value: *const f64,
        result: *mut Handle,
    ) {
        let mode = CStr::from_ptr(mode).to_bytes();
        let value = of_optional(value.as_ref().map(|value| value.to_bits()));
        *result = result_of("aten::pad", "", vec![of_handle(tensor), ints(pad, count), of_text(mode), value])?;
    }

    fn aoti_torch_aten_subtract_Tensor(tensor: Handle, other: Handle, alpha: f64, result: *mut Handle) {
        let stack = vec![of_handle(tensor), of_handle(other), alpha.to_bits()];
        *result = result_of("aten::subtract", "Tensor", stack)?;
    }

    fn aoti_torch_aten_full(
        size: *const i64,
        count: i64,
        value: f64,
        dtype: *const i32,
        layout: *const i32,
        device: *const i32,
        device_index: i32,
        pin_memory: *const i32,
        result: *mut Handle,
    ) {
        let options = Options { dtype, layout, device, device_index, pin_memory };
        *result = new_tensor("aten::full", [ints(size, count), value.to_bits()], options)?;
    }

    fn aoti_torch_aten_new_empty(
        tensor: Handle,
        size: *const i64,
        count: i64,
        dtype: *const i32,
        layout: *const i32,
        device: *const i32,
        device_index: i32,
        pin_memory: *const i32,
        result: *mut Handle,
    ) {
        let options = Options { dtype, layout, device, device_index, pin_memory };
        *result = new_tensor("aten::new_empty", [of_handle(tensor), ints(size, count)], options)?;
    }

    fn aoti_torch_aten_new_zeros(
        tensor: Handle,
        size: *const i64,
        count: i64,
        dtype: *const i32,
        layout: *const i32,
        device: *const i32,
        device_index: i32,
        pin_memory: *const i32,
        result: *mut Handle,
    ) {
        let options = Options { dtype, layout, device, device_index, pin_memory };
        *result = new_tensor("aten::new_zeros", [of_handle(tensor), ints(size, count)], options)?;
    }

    fn aoti_torch_clone(tensor: Handle, result: *mut Handle) {
        *result = result_of("aten::clone", "", vec![of_handle(tensor), 0])?;
    }

    fn aoti_torch_zero_(tensor: Handle) {
        let made = result_of("aten::zero_", "", vec![of_handle(tensor)])?;
        drop(Box::from_raw(made));
    }

    fn aoti_torch_copy_(tensor: Handle, source: Handle, non_blocking: i32) {
        let stack = vec![of_handle(tensor), of_handle(source), u64::from(non_blocking != 0)];
        drop(Box::from_raw(result_of("aten::copy_", "", stack)?));
    }
}
