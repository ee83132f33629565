//! Calls of process groups that were given up while a device had work that waits for their results.
//!
//! What the device computes after such a call is not what the program meant, so that whatever waits for the device raises the
//! call's error. It ends when the group does.

use std::sync::atomic::{AtomicUsize, Ordering};

use rushlight_core::fork::{ForkMutex, Rank};
use rushlight_core::{Error, Result};

/// How many there are. A wait for a device looks here first.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// The devices and errors, by the number of what has failed.
static FAILED: ForkMutex<Vec<(u64, u8, Error)>> = ForkMutex::new(Rank::Tables, Vec::new());

/// Makes waits for a device fail, until `forget`.
pub fn record(number: u64, device: u8, error: Error) {
    let mut failed = FAILED.lock();
    failed.push((number, device, error));
    COUNT.store(failed.len(), Ordering::Release);
}

/// Ends the failures of a number.
pub fn forget(number: u64) {
    let mut failed = FAILED.lock();
    failed.retain(|(own, ..)| *own != number);
    COUNT.store(failed.len(), Ordering::Release);
}

/// The error of a call that was given up on a device.
#[inline]
pub fn check(device: u8) -> Result<()> {
    if COUNT.load(Ordering::Acquire) == 0 { Ok(()) } else { find(device) }
}

#[cold]
fn find(device: u8) -> Result<()> {
    match FAILED.lock().iter().find(|(_, on, _)| *on == device) {
        Some((.., error)) => Err(error.clone()),
        None => Ok(()),
    }
}
