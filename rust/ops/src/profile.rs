//! Step 8: what the profiler sees of a call. Off, it costs one relaxed load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rushlight_core::fork::{ForkMutex, Rank};

use crate::row::Row;
use crate::value::Args;

static ON: AtomicBool = AtomicBool::new(false);

/// A finished call.
#[derive(Clone, Debug)]
pub struct Event {
    pub name: &'static str,
    pub start: Instant,
    pub end: Instant,
    pub sizes: Vec<Vec<isize>>,
}

static EVENTS: ForkMutex<Vec<Event>> = ForkMutex::new(Rank::Profiler, Vec::new());

#[inline]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

#[inline]
pub fn begin() -> Option<Instant> {
    is_on().then(Instant::now)
}

#[inline]
pub fn end(start: Option<Instant>, row: &Row, args: &Args) {
    if let Some(start) = start {
        let sizes = args.each_tensor().map(|(_, tensor)| tensor.layout().sizes.to_vec()).collect();
        EVENTS.lock().push(Event { name: row.name, start, end: Instant::now(), sizes });
    }
}

/// Starts recording, from nothing.
pub fn start() {
    EVENTS.lock().clear();
    ON.store(true, Ordering::Relaxed);
}

/// Stops recording and gives what was recorded.
pub fn stop() -> Vec<Event> {
    ON.store(false, Ordering::Relaxed);
    std::mem::take(&mut *EVENTS.lock())
}
