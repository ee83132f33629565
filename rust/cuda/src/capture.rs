//! Whether work is being captured for a graph, and what a capture does not permit.

use std::sync::atomic::{AtomicUsize, Ordering};

use cudarc::driver::sys::{self, CUstreamCaptureMode, CUstreamCaptureStatus};
use rushlight_core::device_memory::StreamId;

use crate::card;
use crate::driver::check;
use crate::stream::handle;

/// How many captures are in progress.
static CAPTURES: AtomicUsize = AtomicUsize::new(0);

/// Counts a capture that begins or ends.
pub fn count(begins: bool) {
    if begins {
        CAPTURES.fetch_add(1, Ordering::Relaxed);
    } else {
        CAPTURES.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether work that is enqueued on a stream is being captured.
pub fn is_capturing(device: u8, stream: StreamId) -> bool {
    if CAPTURES.load(Ordering::Relaxed) == 0 || card::select(device).is_err() {
        return false;
    }
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: a context is current, streams are never destroyed, and the pointer is that of a local variable.
    let answered = check(unsafe { sys::cuStreamIsCapturing(handle(stream), &raw mut status) });
    answered.is_ok() && status == CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE
}

/// Permits this thread to call what is unsafe during a capture, such as an allocation, until it is dropped.
pub struct Relaxed(Option<CUstreamCaptureMode>);

impl Relaxed {
    pub fn begin() -> Relaxed {
        if CAPTURES.load(Ordering::Relaxed) == 0 {
            return Relaxed(None);
        }
        Relaxed(exchange(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED))
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        if let Some(mode) = self.0 {
            exchange(mode);
        }
    }
}

fn exchange(mut mode: CUstreamCaptureMode) -> Option<CUstreamCaptureMode> {
    // SAFETY: the driver is loaded, and the pointer is that of a local variable.
    check(unsafe { sys::cuThreadExchangeStreamCaptureMode(&raw mut mode) }).ok().map(|()| mode)
}
