//! Working memory for packed operands and sums, which each thread caches between products.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ptr::NonNull;

use rushlight_core::Result;
use rushlight_core::alloc::{allocate_scratch, free};

/// Sizes are multiples of this.
const SPACE: usize = 4096;
/// The number of buffers that a thread caches, and the size of the largest one.
const KEPT: usize = 4;
const LARGEST_KEPT: usize = 32 << 20;

struct Buffer {
    ptr: NonNull<u8>,
    bytes: usize,
}

impl Buffer {
    fn new(bytes: usize) -> Result<Self> {
        let bytes = bytes.saturating_add(SPACE - 1) / SPACE * SPACE;
        Ok(Buffer { ptr: allocate_scratch(bytes)?, bytes })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with this size.
        unsafe { free(self.ptr, self.bytes) }
    }
}

thread_local! {
    static SPARE: RefCell<Vec<Buffer>> = const { RefCell::new(Vec::new()) };
}

/// Uninitialised space for elements, returned to the thread's cache when dropped.
pub struct Scratch<E> {
    buffer: Option<Buffer>,
    of: PhantomData<E>,
}

impl<E> Scratch<E> {
    /// Space for `len` elements.
    pub fn take(len: usize) -> Result<Self> {
        let bytes = len.saturating_mul(size_of::<E>());
        if bytes == 0 {
            return Ok(Scratch { buffer: None, of: PhantomData });
        }
        let spare = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            let fitting = spare.iter().position(|buffer| buffer.bytes >= bytes);
            fitting.map(|i| spare.swap_remove(i))
        });
        let buffer = spare.ok().flatten().map_or_else(|| Buffer::new(bytes), Ok)?;
        Ok(Scratch { buffer: Some(buffer), of: PhantomData })
    }

    pub fn ptr(&self) -> *mut E {
        self.buffer.as_ref().map_or(std::ptr::dangling_mut(), |buffer| buffer.ptr.as_ptr().cast())
    }
}

impl<E> Drop for Scratch<E> {
    fn drop(&mut self) {
        let Some(buffer) = self.buffer.take() else { return };
        if buffer.bytes > LARGEST_KEPT {
            return;
        }
        // A thread that is ending caches nothing.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() == KEPT
                && let Some(smallest) = (0..KEPT).min_by_key(|&i| spare[i].bytes)
            {
                spare.swap_remove(smallest);
            }
            spare.push(buffer);
        });
    }
}
