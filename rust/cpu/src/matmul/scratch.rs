//! Working memory for packed operands and sums, kept by each thread between products.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::ptr::NonNull;

const ALIGN: usize = 64;
/// Buffers that a thread keeps, and the size of the largest worth keeping.
const KEPT: usize = 4;
const LARGEST_KEPT: usize = 32 << 20;

struct Buffer {
    ptr: NonNull<u8>,
    bytes: usize,
}

impl Buffer {
    fn layout(bytes: usize) -> Layout {
        // SAFETY: the alignment is a power of two, and no operand's copy nears the largest size.
        unsafe { Layout::from_size_align_unchecked(bytes, ALIGN) }
    }

    fn new(bytes: usize) -> Self {
        let bytes = bytes.next_multiple_of(4096).max(4096);
        // SAFETY: the size is not zero.
        let ptr = unsafe { alloc(Self::layout(bytes)) };
        match NonNull::new(ptr) {
            Some(ptr) => Buffer { ptr, bytes },
            None => handle_alloc_error(Self::layout(bytes)),
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with this layout.
        unsafe { dealloc(self.ptr.as_ptr(), Self::layout(self.bytes)) }
    }
}

thread_local! {
    static SPARE: RefCell<Vec<Buffer>> = const { RefCell::new(Vec::new()) };
}

/// Uninitialised room for elements, given back to the thread when dropped.
pub struct Scratch<E> {
    buffer: Option<Buffer>,
    of: PhantomData<E>,
}

impl<E> Scratch<E> {
    /// Room for `len` elements.
    pub fn take(len: usize) -> Self {
        let bytes = len * size_of::<E>();
        if bytes == 0 {
            return Scratch { buffer: None, of: PhantomData };
        }
        let spare = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            let fitting = spare.iter().position(|buffer| buffer.bytes >= bytes);
            fitting.map(|i| spare.swap_remove(i))
        });
        let buffer = spare.ok().flatten().unwrap_or_else(|| Buffer::new(bytes));
        Scratch { buffer: Some(buffer), of: PhantomData }
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
        // A thread that is ending keeps nothing.
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
