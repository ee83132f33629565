//! Kernels that a program writes in CUDA C++ (`torch.cuda._compile_kernel`, `torch.cuda.jiterator`).

use std::ffi::CString;

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyInt};
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

    /// Enqueues the kernel. An argument is a tensor, whose address is passed and whose memory is held until the kernel has run, a
    /// number, or the bytes of one.
    fn launch(
        &self,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
        stream: usize,
        arguments: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (sizes, stream) = (self.0.sizes(), StreamId(stream));
        let known = |argument: &&Bound<'_, PyAny>| {
            let number = argument.is_instance_of::<PyInt>() || argument.is_instance_of::<PyFloat>();
            number || object::is_tensor(argument) || argument.is_instance_of::<PyBytes>()
        };
        if let Some(other) = arguments.iter().find(|argument| !known(argument)) {
            return Err(PyTypeError::new_err(format!("Unsupported argument type: {}", other.get_type().repr()?)));
        }
        if arguments.len() != sizes.len() {
            let [takes, given] = [sizes.len(), arguments.len()];
            return Err(PyTypeError::new_err(format!(
                "the kernel has {takes} parameters, and args has length {given}"
            )));
        }
        let mut values = Vec::new();
        for (place, (argument, &size)) in arguments.iter().zip(sizes).enumerate() {
            let bytes = match object::is_tensor(argument) {
                true => address(argument, self.0.device(), stream)?.to_ne_bytes().to_vec(),
                false => number(argument, size)?,
            };
            if bytes.len() != size {
                let kind = argument.get_type().name()?;
                return Err(PyTypeError::new_err(format!(
                    "argument {place} is {kind}, which cannot be passed as a parameter of {size} bytes"
                )));
            }
            // Numbers of any size begin at an address that suits them.
            let mut room = vec![0u128; bytes.len().div_ceil(16).max(1)];
            for (n, byte) in bytes.iter().enumerate() {
                room[n / 16] |= u128::from(*byte) << (n % 16 * 8);
            }
            values.push(room);
        }
        // SAFETY: the sizes are those of the parameters; tensors are held for the stream, and the program says that the kernel uses no
        // other memory.
        unsafe { self.0.launch([grid, block], shared, stream, &mut values) }.map_err(raise)
    }
}

/// The bytes of a number for a parameter of `size` bytes: an integer of this size, or a float of it. Other sizes than a number can
/// have are left to the caller.
fn number(argument: &Bound<'_, PyAny>, size: usize) -> PyResult<Vec<u8>> {
    if let Ok(float) = argument.cast::<PyFloat>() {
        return Ok(if size == 4 {
            (float.value() as f32).to_ne_bytes().to_vec()
        } else {
            float.value().to_ne_bytes().to_vec()
        });
    }
    if argument.is_instance_of::<PyInt>() {
        let bytes = argument.extract::<i128>().map_err(|_| too_big(size))?.to_le_bytes();
        let (kept, rest) = bytes.split_at(size.min(bytes.len()));
        let negative = |byte: u8| byte & 0x80 != 0;
        let fits = match kept.last() {
            _ if rest.iter().all(|&byte| byte == 0) => true,
            Some(&last) => negative(last) && rest.iter().all(|&byte| byte == 0xff),
            None => true,
        };
        return if fits { Ok(kept.to_vec()) } else { Err(too_big(size)) };
    }
    argument.extract()
}

fn too_big(size: usize) -> PyErr {
    PyOverflowError::new_err(format!("int too big to convert\n  The kernel's parameter has {size} bytes."))
}

/// Where the elements of a tensor begin, held for a stream.
fn address(tensor: &Bound<'_, PyAny>, device: u8, stream: StreamId) -> PyResult<usize> {
    let tensor = object::tensor(tensor)?;
    let storage: &Storage = tensor.storage();
    let start = match tensor.device() {
        Device::Cuda(index) if index == device => storage.pin_on(stream).map_err(raise)?.address(),
        _ => {
            return Err(PyValueError::new_err(format!(
                "All tensor arguments must be CUDA tensors or pinned CPU tensors\n  This kernel is for cuda:{device}, and takes \
                 tensors of this device alone; the tensor is on {}.",
                tensor.device()
            )));
        }
    };
    Ok(start.wrapping_add_signed(tensor.first_byte()))
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyKernel>()
}
