//! The driver library: opened at the first question, never at import.

use std::sync::OnceLock;

use libloading::{Library, Symbol};
use rushlight_core::fork;

type Init = unsafe extern "C" fn(flags: u32) -> i32;
type DeviceGetCount = unsafe extern "C" fn(count: *mut i32) -> i32;

/// What the first question found, and in which generation of forks it was asked.
struct Found {
    generation: u64,
    count: usize,
    /// Kept open: the driver starts threads that unloading would pull the ground from under.
    _library: Option<Library>,
}

static FOUND: OnceLock<Found> = OnceLock::new();

/// The number of cards; zero without a driver, whatever the reason.
///
/// A forked child gets its parent's answer: the driver must not be initialised again there.
pub fn device_count() -> usize {
    FOUND.get_or_init(look).count
}

pub fn is_available() -> bool {
    device_count() > 0
}

/// Whether this process was forked from one that had already initialised the driver, so that it cannot use it.
pub fn is_bad_fork() -> bool {
    FOUND.get().is_some_and(|found| found.count > 0 && found.generation != fork::generation())
}

fn look() -> Found {
    let nothing = |library| Found { generation: fork::generation(), count: 0, _library: library };
    // SAFETY: loading NVIDIA's driver runs its initialisers, which is what every CUDA program does.
    let Ok(library) = (unsafe { Library::new("libcuda.so.1") }) else { return nothing(None) };
    // SAFETY: the two functions have had these types since the first CUDA.
    let count = unsafe {
        let init: Result<Symbol<Init>, _> = library.get(b"cuInit\0");
        let get_count: Result<Symbol<DeviceGetCount>, _> = library.get(b"cuDeviceGetCount\0");
        match (init, get_count) {
            (Ok(init), Ok(get_count)) if init(0) == 0 => {
                let mut count = 0;
                if get_count(&raw mut count) == 0 { count.max(0) as usize } else { 0 }
            }
            _ => 0,
        }
    };
    Found { generation: fork::generation(), count, _library: Some(library) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_never_fails() {
        assert_eq!(device_count(), device_count());
        assert_eq!(is_available(), device_count() > 0);
        assert!(!is_bad_fork());
    }
}
