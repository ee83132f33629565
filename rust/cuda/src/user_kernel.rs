//! Kernels that a program writes in CUDA C++.

use std::ffi::{CStr, c_void};

use cudarc::driver::sys::{self, CUfunction};
use rushlight_core::device_memory::StreamId;
use rushlight_core::{Error, Result};

use crate::driver::check;
use crate::launch::enqueue;
use crate::{card, program, stream};

/// What shared memory a block may have without asking.
const SHARED: usize = 48 << 10;

/// A kernel on the device for which it was compiled.
pub struct UserKernel {
    device: u8,
    function: CUfunction,
    /// The bytes of each parameter.
    sizes: Vec<usize>,
}

// SAFETY: functions of a module that is never unloaded may be launched by any thread.
unsafe impl Send for UserKernel {}
// SAFETY: as above.
unsafe impl Sync for UserKernel {}

impl UserKernel {
    /// Compiles a text for the current device, with options of NVRTC, and finds a kernel by its name.
    pub fn new(text: &str, kernel: &CStr, more: Vec<String>) -> Result<UserKernel> {
        let card = card::select(card::current())?;
        let mut options: Vec<String> = program::options(card);
        options.retain(|own| !more.iter().any(|given| given.split('=').next() == own.split('=').next()));
        options.extend(more);
        let function = program::load_kernel(text, kernel, &options)?;
        let mut kernel = UserKernel { device: card.index, function, sizes: Vec::new() };
        let (mut offset, mut size) = (0, 0);
        // SAFETY: a context is current, the function was just loaded, and the pointers are those of local variables.
        let tell = |at, offset, size| unsafe { sys::cuFuncGetParamInfo(function, at, offset, size) };
        loop {
            match tell(kernel.sizes.len(), &raw mut offset, &raw mut size) {
                // There are no more.
                sys::CUresult::CUDA_ERROR_INVALID_VALUE => return Ok(kernel),
                status => check(status)?,
            }
            kernel.sizes.push(size);
        }
    }

    /// The bytes of each parameter, which the driver reads at the addresses of the arguments.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// Lets a block have more than 48 KiB of shared memory that its launch names.
    pub fn allow_shared(&self, bytes: usize) -> Result<()> {
        card::select(self.device)?;
        let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        match i32::try_from(bytes) {
            _ if bytes <= SHARED => Ok(()),
            // SAFETY: a context is current, and the function is one of a loaded module.
            Ok(bytes) => check(unsafe { sys::cuFuncSetAttribute(self.function, attribute, bytes) }),
            Err(_) => Err(Error::runtime("a block has less shared memory")),
        }
    }

    pub fn device(&self) -> u8 {
        self.device
    }

    /// Enqueues the kernel.
    ///
    /// # Safety
    /// There are as many arguments as parameters, each with the bytes of its parameter, and the kernel uses no other memory than
    /// what is held for the stream.
    pub unsafe fn launch(
        &self,
        [grid, block]: [[u32; 3]; 2],
        shared: u32,
        stream: StreamId,
        arguments: &mut [Vec<u128>],
    ) -> Result<()> {
        let card = card::select(self.device)?;
        let mut pointers: Vec<*mut c_void> = arguments.iter_mut().map(|bytes| bytes.as_mut_ptr().cast()).collect();
        enqueue(card, "user kernel", stream, || {
            // SAFETY: guaranteed by the caller.
            check(unsafe {
                sys::cuLaunchKernel(
                    self.function,
                    grid[0],
                    grid[1],
                    grid[2],
                    block[0],
                    block[1],
                    block[2],
                    shared,
                    stream::handle(stream),
                    pointers.as_mut_ptr(),
                    std::ptr::null_mut(),
                )
            })
        })
    }
}
