//! Kernels that a program writes in CUDA C++ (`torch.cuda._compile_kernel`, `torch.cuda.jiterator`).

use std::ffi::CString;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rushlight_core::device_memory::StreamId;
use rushlight_core::{Device, Storage};
use rushlight_cuda::user_kernel::UserKernel;

use crate::errors::raise;
use crate::object;

/// A kernel on the device for which it was compiled.
#[pyclass(frozen, name = "_CudaKernel", module = "rushlight._C")]
struct PyKernel(UserKernel);

#[pymethods]
impl PyKernel {
    /// Compiles a text for the current device, with more options of NVRTC.
    #[new]
    fn new(py: Python<'_>, text: &str, name: CString, options: Vec<String>) -> PyResult<Self> {
        py.detach(|| UserKernel::new(text, &name, options)).map(PyKernel).map_err(raise)
    }

    #[getter]
    fn device(&self) -> u8 {
        self.0.device()
    }

    /// Lets a block have more than 48 KiB of shared memory that its launch names.
    fn allow_shared(&self, nbytes: usize) -> PyResult<()> {
        self.0.allow_shared(nbytes).map_err(raise)
    }

    /// Enqueues the kernel. An argument is a tensor, whose address is passed and whose memory is held until the kernel has run, or
    /// the bytes of a number.
    fn launch(
        &self,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
        stream: usize,
        arguments: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let stream = StreamId(stream);
        let mut values = Vec::new();
        for argument in &arguments {
            let bytes: Vec<u8> = match object::is_tensor(argument) {
                true => address(argument, self.0.device(), stream)?.to_ne_bytes().to_vec(),
                false => argument.extract()?,
            };
            // Numbers of any size begin at an address that suits them.
            let mut room = vec![0u128; bytes.len().div_ceil(16).max(1)];
            for (n, byte) in bytes.iter().enumerate() {
                room[n / 16] |= u128::from(*byte) << (n % 16 * 8);
            }
            values.push(room);
        }
        // SAFETY: the program says that the arguments are those of the kernel; tensors are held for the stream.
        unsafe { self.0.launch([grid, block], shared, stream, &mut values) }.map_err(raise)
    }
}

/// Where the elements of a tensor begin, held for a stream.
fn address(tensor: &Bound<'_, PyAny>, device: u8, stream: StreamId) -> PyResult<usize> {
    let tensor = object::tensor(tensor)?;
    let storage: &Storage = tensor.storage();
    let start = match tensor.device() {
        Device::Cuda(index) if index == device => storage.pin_on(stream).map_err(raise)?.address(),
        _ => return Err(PyValueError::new_err(format!("a kernel for cuda:{device} takes tensors of this device"))),
    };
    Ok(start.wrapping_add_signed(tensor.first_byte()))
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyKernel>()
}
