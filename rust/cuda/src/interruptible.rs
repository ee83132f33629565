//! Waits for a device that Ctrl-C ends: they ask the driver again and again, because its own waits return only when the work has run.
//!
//! They wait for an event that is recorded when the wait begins, so that other threads may enqueue more work meanwhile, and begin a
//! capture. `look` tells whether the program is interrupted: it is an error then.

use std::time::{Duration, Instant};

use rushlight_core::Result;

use crate::capture::{self, Relaxed};
use crate::card::Card;
use crate::stream::{self, Event, Stream};
use crate::{failures, green};

/// How long a wait asks without pause. Later pauses are short beside the time that has passed.
const WITHOUT_PAUSE: Duration = Duration::from_millis(5);
const SHORTEST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(1);
/// How often `look` is called, which may need the interpreter.
const LOOKS_EACH: Duration = Duration::from_millis(50);

/// Asks until the recorded work of an event has run.
fn until(event: &Event, look: impl Fn() -> Result<()>) -> Result<()> {
    let (begun, mut looked) = (Instant::now(), Duration::ZERO);
    loop {
        // Where another thread captures work, the driver permits no question otherwise.
        let permission = Relaxed::begin();
        if event.query()? {
            // This returns at once, and writes what kernels have printed.
            return event.synchronize();
        }
        drop(permission);
        let waited = begun.elapsed();
        if waited - looked >= LOOKS_EACH {
            looked = waited;
            look()?;
        }
        if waited < WITHOUT_PAUSE {
            std::hint::spin_loop();
        } else {
            std::thread::sleep((waited / 64).clamp(SHORTEST_PAUSE, LONGEST_PAUSE));
        }
    }
}

/// An event after the work that a stream has now.
fn mark(stream: Stream) -> Result<Event> {
    let event = Event::new(stream.device(), false)?;
    event.record(stream.id())?;
    Ok(event)
}

/// Waits until the work that a stream has now has run.
pub fn wait_for_stream(stream: Stream, look: impl Fn() -> Result<()>) -> Result<()> {
    // The driver refuses to wait while work is captured, and a record would be captured too.
    if capture::is_any() || stream.query()? {
        return stream.synchronize();
    }
    until(&mark(stream)?, look)
}

/// Waits until the recorded work of an event has run; if another thread records the event again meanwhile, until that has run.
pub fn wait_for_event(event: &Event, look: impl Fn() -> Result<()>) -> Result<()> {
    if capture::is_any() {
        return event.synchronize();
    }
    until(event, look)
}

/// Waits until everything that a device has now has run. The streams of other libraries are not known here: what they still have to do
/// is not interrupted.
pub fn wait_for_device(card: &Card, look: impl Fn() -> Result<()>) -> Result<()> {
    if capture::is_any() {
        return card.synchronize();
    }
    let streams = stream::all_of(card.index).into_iter().chain(green::streams_of(card.index));
    let events = streams.filter(|stream| !matches!(stream.query(), Ok(true))).map(mark).collect::<Result<Vec<_>>>()?;
    for event in events {
        until(&event, &look)?;
    }
    // A capture that another thread has begun meanwhile would end by the driver's wait.
    if capture::is_any() { failures::check(card.index) } else { card.synchronize() }
}
