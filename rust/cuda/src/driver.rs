//! The NVIDIA driver: loaded when it is first needed, and its statuses as errors.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cudarc::driver::sys::{self, CUresult};
use once_cell::race::OnceBox;
use rushlight_core::{Class, Error, Result, fork};

/// The driver after its initialisation.
#[derive(Clone, Copy)]
enum Driver {
    Missing,
    /// Without devices, or with the status of a failed initialisation.
    Unusable(CUresult),
    /// Its version, which is less than `OLDEST`.
    TooOld(i32),
    Ready(usize),
}

/// The oldest version of the driver that has all functions that are called: CUDA 12.8.
const OLDEST: i32 = 12080;

/// The number of forks before the process that loaded the driver.
static LOADED_IN: AtomicU64 = AtomicU64::new(0);
/// Whether a device was used.
static USED: AtomicBool = AtomicBool::new(false);

fn driver() -> Driver {
    // Two threads may both load it, which has no effect.
    static DRIVER: OnceBox<Driver> = OnceBox::new();
    *DRIVER.get_or_init(|| {
        LOADED_IN.store(fork::generation(), Ordering::Relaxed);
        Box::new(load())
    })
}

fn load() -> Driver {
    // SAFETY: loading the driver runs its initialisers, which any program may load.
    if !unsafe { sys::is_culib_present() } {
        return Driver::Missing;
    }
    let (mut count, mut version) = (0, 0);
    // SAFETY: the driver is present; the functions exist in every version of it.
    let status = unsafe {
        if sys::cuDriverGetVersion(&raw mut version) == CUresult::CUDA_SUCCESS && version < OLDEST {
            return Driver::TooOld(version);
        }
        match sys::cuInit(0) {
            CUresult::CUDA_SUCCESS => sys::cuDeviceGetCount(&raw mut count),
            status => status,
        }
    };
    match status {
        CUresult::CUDA_SUCCESS if count > 0 => Driver::Ready(count as usize),
        CUresult::CUDA_SUCCESS => Driver::Unusable(CUresult::CUDA_ERROR_NO_DEVICE),
        status => Driver::Unusable(status),
    }
}

/// The number of CUDA devices; zero if there is no driver or it cannot start. Determined once per process.
pub fn device_count() -> usize {
    match driver() {
        Driver::Ready(count) => count,
        _ => 0,
    }
}

/// Whether this process was forked from one that had loaded the driver, so that it cannot use devices.
pub fn is_in_forked_child() -> bool {
    matches!(driver(), Driver::Ready(_)) && LOADED_IN.load(Ordering::Relaxed) != fork::generation()
}

/// Whether a device was used in this process.
pub fn is_initialized() -> bool {
    USED.load(Ordering::Relaxed) && !is_in_forked_child()
}

/// The number of devices; an error if none can be used.
#[inline]
pub fn initialize() -> Result<usize> {
    match driver() {
        Driver::Ready(count) if LOADED_IN.load(Ordering::Relaxed) == fork::generation() => {
            USED.store(true, Ordering::Relaxed);
            Ok(count)
        }
        unusable => Err(unusable.error()),
    }
}

impl Driver {
    /// Why no device can be used.
    #[cold]
    fn error(self) -> Error {
        match self {
            Driver::Ready(_) => Error::runtime(
                "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method",
            ),
            Driver::Missing | Driver::Unusable(CUresult::CUDA_ERROR_NO_DEVICE) => Error::runtime(
                "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from \
                 http://www.nvidia.com/Download/index.aspx",
            )
            .hint("Use device='cpu' on this machine."),
            Driver::TooOld(found) => Error::runtime(format!(
                "The NVIDIA driver on your system is too old (found version {found}). Please update your GPU driver by downloading and \
                 installing a new version from the URL: http://www.nvidia.com/Download/index.aspx"
            ))
            .hint(format!("rushlight needs a driver for CUDA {} or later.", version_name(OLDEST))),
            Driver::Unusable(status) => failure(status),
        }
    }
}

/// The name of a version: 12.8 for 12080.
fn version_name(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// The state of the driver in a sentence, for `python -m rushlight doctor`: whether devices can be used, and what was found.
pub fn describe() -> (bool, String) {
    let mut version = 0;
    match driver() {
        Driver::Missing => (false, "no driver: libcuda.so.1 is not installed".into()),
        Driver::Unusable(CUresult::CUDA_ERROR_NO_DEVICE) => {
            (false, "a driver, but no GPU that this process sees".into())
        }
        Driver::Unusable(status) => (false, format!("a driver that cannot start: {}", failure(status).sentence())),
        Driver::TooOld(found) => {
            (false, format!("a driver for CUDA {}, which is older than {}", version_name(found), version_name(OLDEST)))
        }
        Driver::Ready(count) => {
            // SAFETY: the driver is present, and the pointer is that of a local variable.
            unsafe { sys::cuDriverGetVersion(&raw mut version) };
            let devices = if count == 1 { "device" } else { "devices" };
            (true, format!("a driver for CUDA {} and {count} {devices}", version_name(version)))
        }
    }
}

/// An error unless a function of the driver has succeeded.
#[inline]
pub fn check(status: CUresult) -> Result<()> {
    if status == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(failure(status)) }
}

/// The error for a status, in torch's words.
#[cold]
pub fn failure(status: CUresult) -> Error {
    let mut text = std::ptr::null();
    // SAFETY: a status comes from the driver, which is therefore loaded; its texts live as long as it.
    let text = unsafe {
        if sys::cuGetErrorString(status, &raw mut text) == CUresult::CUDA_SUCCESS && !text.is_null() {
            CStr::from_ptr(text).to_string_lossy().into_owned()
        } else {
            format!("status {}", status as u32)
        }
    };
    Error::new(Class::Accelerator, format!("CUDA error: {text}"))
        .hint("An earlier kernel may have caused it: CUDA_LAUNCH_BLOCKING=1 makes every call wait for its kernel.")
}
