//! Calls that wait for a device, of which a program may want to hear (`torch.cuda.set_sync_debug_mode`).

use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

use rushlight_core::device_memory::StreamId;
use rushlight_core::{Error, Result};

use crate::interpreter;

/// 0 says nothing, 1 warns, 2 is an error.
static MODE: AtomicU8 = AtomicU8::new(0);

pub fn set_mode(mode: u8) {
    MODE.store(mode, Ordering::Relaxed);
}

pub fn mode() -> u8 {
    MODE.load(Ordering::Relaxed)
}

/// Announces that this call waits for a device.
#[inline]
pub fn announce() -> Result<()> {
    if mode() == 0 { Ok(()) } else { tell() }
}

#[cold]
fn tell() -> Result<()> {
    let sentence = "called a synchronizing CUDA operation";
    match mode() {
        1 => interpreter::warn(sentence),
        _ => Err(Error::runtime(sentence).hint("torch.cuda.set_sync_debug_mode(0) permits it.")),
    }
}

/// Is told of each wait for a stream.
pub type Watcher = fn(StreamId) -> Result<()>;

static WATCHER: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Tells a function of waits from now on, or none.
pub fn set_watcher(watcher: Option<Watcher>) {
    WATCHER.store(watcher.map_or(std::ptr::null_mut(), |watcher| watcher as *mut ()), Ordering::Release);
}

/// Tells the watcher that the program waits for a stream.
#[inline]
pub fn tell_watcher(stream: StreamId) -> Result<()> {
    let watcher = WATCHER.load(Ordering::Acquire);
    if watcher.is_null() {
        return Ok(());
    }
    // SAFETY: only `set_watcher` stores here, and it stores a `Watcher`.
    let watcher: Watcher = unsafe { std::mem::transmute(watcher) };
    watcher(stream)
}
