//! Detects CUDA at run time: nothing is linked, and no driver is required. `kernels` has the sources of device functions.

pub mod kernels;

use std::ffi::c_int;
use std::sync::OnceLock;

use libloading::Library;
use rushlight_core::Error;

/// The names under which the NVIDIA driver's library is installed.
const DRIVER: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

/// The number of CUDA devices; zero if there is no driver or it cannot start. Determined once per process.
pub fn device_count() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| count_devices().unwrap_or(0))
}

/// The error for using a CUDA device, in torch's words for a machine without a driver and for a library without
/// kernels.
pub fn unsupported() -> Error {
    let sentence = match device_count() {
        0 => {
            "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from \
             http://www.nvidia.com/Download/index.aspx"
        }
        _ => "CUDA error: no kernel image is available for execution on the device",
    };
    Error::runtime(sentence).hint("rushlight runs on the CPU only at present: use device='cpu'.")
}

fn count_devices() -> Option<usize> {
    // SAFETY: loading the driver runs its initialisers, which any program may load.
    let driver = DRIVER.iter().find_map(|name| unsafe { Library::new(*name) }.ok())?;
    // SAFETY: the driver's C interface gives these functions these types.
    let (init, count) = unsafe {
        let init = driver.get::<unsafe extern "C" fn(u32) -> c_int>(b"cuInit\0").ok()?;
        let count = driver.get::<unsafe extern "C" fn(*mut c_int) -> c_int>(b"cuDeviceGetCount\0").ok()?;
        (*init, *count)
    };
    let mut cards = 0;
    // SAFETY: as above; the library is never unloaded.
    let status = unsafe { if init(0) == 0 { count(&raw mut cards) } else { 1 } };
    std::mem::forget(driver);
    (status == 0).then_some(cards.max(0) as usize)
}
