//! Arguments and results, 64 bits each: numbers as they are, all else as the address of a value that its receiver owns.

use std::ffi::c_char;

use rushlight_autograd::Tensor;
use rushlight_core::{Device, Error, Result};
use rushlight_dispatch::generator::Generator;

use crate::errors::export;
use crate::handles::Handle;
use crate::numbers;

pub type List = *mut Vec<u64>;
/// The bytes of a text and a zero.
pub type Text = *mut Vec<u8>;
pub type GeneratorHandle = *mut Generator;

/// The value of something that its receiver owns.
fn owned<T>(value: T) -> u64 {
    Box::into_raw(Box::new(value)).expose_provenance() as u64
}

/// Takes back what `owned` gave away.
///
/// # Safety
/// The value is one of `owned` for this type, taken once.
unsafe fn taken<T>(value: u64, what: &str) -> Result<T> {
    let address = std::ptr::with_exposed_provenance_mut::<T>(value as usize);
    if address.is_null() {
        return Err(Error::runtime(format!("a {what} of the stable ABI is a null pointer")));
    }
    // SAFETY: guaranteed by the caller.
    Ok(*unsafe { Box::from_raw(address) })
}

/// A tensor, or none.
pub fn of_tensor(tensor: Option<&Tensor>) -> u64 {
    owned(tensor.cloned())
}

/// # Safety
/// The value is that of a tensor, taken once.
pub unsafe fn take_tensor(value: u64) -> Result<Option<Tensor>> {
    // SAFETY: guaranteed by the caller.
    unsafe { taken(value, "tensor") }
}

pub fn of_list(values: Vec<u64>) -> u64 {
    owned(values)
}

/// # Safety
/// The value is that of a list, taken once. The values in it belong to the caller.
pub unsafe fn take_list(value: u64) -> Result<Vec<u64>> {
    // SAFETY: guaranteed by the caller.
    unsafe { taken(value, "list") }
}

pub fn of_text(text: &[u8]) -> u64 {
    owned(ended(text))
}

fn ended(text: &[u8]) -> Vec<u8> {
    [text, &[0]].concat()
}

/// # Safety
/// The value is that of a text, taken once.
pub unsafe fn take_text(value: u64) -> Result<String> {
    // SAFETY: guaranteed by the caller.
    let mut text: Vec<u8> = unsafe { taken(value, "string") }?;
    text.pop();
    String::from_utf8(text).map_err(|_| Error::runtime("a string of a library is not UTF-8"))
}

pub fn of_generator(generator: &Generator) -> u64 {
    owned(generator.clone())
}

/// # Safety
/// The value is that of a generator, taken once.
pub unsafe fn take_generator(value: u64) -> Result<Generator> {
    // SAFETY: guaranteed by the caller.
    unsafe { taken(value, "generator") }
}

/// An optional value: the address of it, or 0. C++ deletes it with `delete`, so its memory is the C library's.
pub fn of_optional(value: Option<u64>) -> u64 {
    let Some(value) = value else { return 0 };
    let cell = new_cell();
    if cell.is_null() {
        std::alloc::handle_alloc_error(std::alloc::Layout::new::<u64>());
    }
    // SAFETY: eight bytes that were just allocated.
    unsafe { cell.write(value) };
    cell.expose_provenance() as u64
}

/// # Safety
/// The value is that of an optional value, taken once.
pub unsafe fn take_optional(value: u64) -> Option<u64> {
    let cell = std::ptr::with_exposed_provenance_mut::<u64>(value as usize);
    if cell.is_null() {
        return None;
    }
    // SAFETY: guaranteed by the caller; C++ allocates such a cell with `new`, which is `malloc`.
    unsafe {
        let inner = cell.read();
        libc::free(cell.cast());
        Some(inner)
    }
}

fn new_cell() -> *mut u64 {
    // SAFETY: `malloc` may be called with any size.
    unsafe { libc::malloc(size_of::<u64>()).cast() }
}

/// A device, as `numbers::packed` has it.
pub fn of_device(device: Device) -> Result<u64> {
    let (kind, index) = numbers::device_numbers(device)?;
    Ok(numbers::packed(kind, index))
}

pub fn device_of(value: u64) -> Result<Device> {
    numbers::device_of((value >> 32) as i32, value as i32)
}

/// The list behind a handle.
///
/// # Safety
/// The arguments are a caller's, as the ABI has them.
unsafe fn list<'a>(handle: List) -> Result<&'a mut Vec<u64>> {
    // SAFETY: the caller's handle is null or that of a list.
    unsafe { handle.as_mut() }.ok_or_else(|| Error::runtime("the handle of a list is null"))
}

/// The place of an element of a list.
fn element(list: &mut [u64], index: usize) -> Result<&mut u64> {
    let count = list.len();
    list.get_mut(index)
        .ok_or_else(|| Error::index(format!("index {index} is out of range of a list of {count} values")))
}

export! {
    fn torch_new_list_reserve_size(size: usize, result: *mut List) {
        let mut values = Vec::new();
        values.try_reserve(size).map_err(|_| Error::runtime(format!("no memory for a list of {size} values")))?;
        *result = Box::into_raw(Box::new(values));
    }

    fn torch_list_size(handle: List, size: *mut usize) {
        *size = list(handle)?.len();
    }

    fn torch_list_get_item(handle: List, index: usize, result: *mut u64) {
        *result = *element(list(handle)?, index)?;
    }

    fn torch_list_set_item(handle: List, index: usize, value: u64) {
        *element(list(handle)?, index)? = value;
    }

    fn torch_list_push_back(handle: List, value: u64) {
        list(handle)?.push(value);
    }

    fn torch_delete_list(handle: List) {
        if !handle.is_null() {
            drop(Box::from_raw(handle));
        }
    }

    fn torch_new_string_handle(data: *const c_char, length: usize, result: *mut Text) {
        let bytes = if length == 0 { &[] } else { std::slice::from_raw_parts(data.cast::<u8>(), length) };
        *result = Box::into_raw(Box::new(ended(bytes)));
    }

    fn torch_delete_string(handle: Text) {
        if !handle.is_null() {
            drop(Box::from_raw(handle));
        }
    }

    fn torch_string_length(handle: Text, length: *mut usize) {
        let text = handle.as_ref().ok_or_else(|| Error::runtime("the handle of a string is null"))?;
        *length = text.len() - 1;
    }

    fn torch_string_c_str(handle: Text, data: *mut *const c_char) {
        let text = handle.as_ref().ok_or_else(|| Error::runtime("the handle of a string is null"))?;
        *data = text.as_ptr().cast();
    }

    fn torch_new_stable_ivalue(result: *mut *mut u64) {
        let cell = new_cell();
        if cell.is_null() {
            return Err(Error::runtime("no memory for a value"));
        }
        *result = cell;
    }

    fn torch_delete_stable_ivalue(cell: *mut u64) {
        if cell.is_null() {
            return Err(Error::runtime("a null pointer is no value that can be deleted"));
        }
        libc::free(cell.cast());
    }

    fn torch_new_generator_handle(handle: GeneratorHandle, result: *mut GeneratorHandle) {
        let generator = handle.as_ref().ok_or_else(|| Error::runtime("the handle of a generator is null"))?;
        *result = Box::into_raw(Box::new(generator.clone()));
    }

    fn torch_delete_generator(handle: GeneratorHandle) {
        if !handle.is_null() {
            drop(Box::from_raw(handle));
        }
    }

    fn torch_generator_get_device(handle: GeneratorHandle, kind: *mut i32, index: *mut i32) {
        let generator = handle.as_ref().ok_or_else(|| Error::runtime("the handle of a generator is null"))?;
        (*kind, *index) = numbers::device_numbers(generator.device())?;
    }
}

/// The value of a handle: a handle of its own on the same tensor.
///
/// # Safety
/// The handle is null or was not deleted.
pub unsafe fn of_handle(handle: Handle) -> u64 {
    // SAFETY: guaranteed by the caller.
    of_tensor(unsafe { handle.as_ref() }.and_then(Option::as_ref))
}
