//! Functions of a program's own library that give out the memory of devices (`torch.cuda.memory.CUDAPluggableAllocator`).

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};

use once_cell::race::OnceBox;
use rushlight_core::device_memory::StreamId;
use rushlight_core::{Error, Result};

use crate::allocator::PoolId;
use crate::driver;
use crate::stream;

type Allocate = unsafe extern "C" fn(isize, c_int, *mut c_void) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void, isize, c_int, *mut c_void);

/// Two functions of a library: `void* allocate(ssize_t size, int device, cudaStream_t stream)` and
/// `void free(void* address, ssize_t size, int device, cudaStream_t stream)`.
#[derive(Clone, Copy)]
pub struct UserAllocator {
    allocate: Allocate,
    free: Free,
}

/// The allocator of all memory, once a program has chosen one.
static CURRENT: OnceBox<UserAllocator> = OnceBox::new();

impl UserAllocator {
    /// # Safety
    /// The addresses are those of such functions, in a library that stays loaded. They call neither Python nor rushlight.
    pub unsafe fn new(allocate: usize, free: usize) -> UserAllocator {
        let [allocate, free] = [allocate, free].map(std::ptr::with_exposed_provenance_mut::<c_void>);
        // SAFETY: guaranteed by the caller.
        unsafe {
            UserAllocator {
                allocate: std::mem::transmute::<*mut c_void, Allocate>(allocate),
                free: std::mem::transmute::<*mut c_void, Free>(free),
            }
        }
    }

    /// The address of new memory of a device, whose context is current; `None` if the function returned a null pointer.
    pub fn allocate(&self, bytes: usize, device: u8, stream: StreamId) -> Option<usize> {
        // SAFETY: `new` requires functions of this type.
        let address = unsafe { (self.allocate)(bytes.cast_signed(), device.into(), stream::handle(stream).cast()) };
        (!address.is_null()).then(|| address.expose_provenance())
    }

    pub fn free(&self, address: usize, bytes: usize, device: u8, stream: StreamId) {
        // SAFETY: as above; the memory came from `allocate`.
        unsafe {
            (self.free)(
                std::ptr::with_exposed_provenance_mut(address),
                bytes.cast_signed(),
                device.into(),
                stream::handle(stream).cast(),
            );
        }
    }
}

/// The allocator of all memory, if a program has chosen one.
pub fn current() -> Option<UserAllocator> {
    CURRENT.get().copied()
}

/// Chooses the allocator of all memory, before any is used.
pub fn choose(allocator: UserAllocator) -> Result<()> {
    let refused = || Error::runtime("Can't swap an already initialized allocator");
    if driver::is_initialized() {
        return Err(refused().hint("Change it before the first call that uses a GPU."));
    }
    CURRENT.set(Box::new(allocator)).map_err(|_| refused())
}

/// The allocators of pools.
pub type OfPools = BTreeMap<PoolId, UserAllocator>;
