//! Waits for a device that Ctrl-C ends: they ask the driver again and again, because its own waits return only when the work has run.
//!
//! `look` tells whether the program is interrupted: it is an error then.

use std::time::{Duration, Instant};

use rushlight_core::Result;

use crate::card::Card;
use crate::stream::{self, Event, Stream};
use crate::{capture, failures};

/// How long a wait asks without pause. Later pauses are short beside the time that has passed.
const WITHOUT_PAUSE: Duration = Duration::from_millis(5);
const SHORTEST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(1);
/// How often `look` is called, which may need the interpreter.
const LOOKS_EACH: Duration = Duration::from_millis(50);

/// Asks until the answer is yes.
fn until(look: impl Fn() -> Result<()>, has_passed: impl Fn() -> Result<bool>) -> Result<()> {
    let (begun, mut looked) = (Instant::now(), Duration::ZERO);
    while !has_passed()? {
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
    Ok(())
}

/// Waits until the work enqueued on a stream has run.
pub fn wait_for_stream(stream: Stream, look: impl Fn() -> Result<()>) -> Result<()> {
    // The driver refuses either wait while work is captured, but a question ends the capture too.
    if capture::is_any() {
        return stream.synchronize();
    }
    until(look, || stream.query())?;
    failures::check(stream.device())
}

/// Waits until the recorded work of an event has run.
pub fn wait_for_event(event: &Event, look: impl Fn() -> Result<()>) -> Result<()> {
    if capture::is_any() {
        return event.synchronize();
    }
    until(look, || event.query())?;
    failures::check(event.device())
}

/// Waits until everything enqueued on a device has run. The streams of other libraries are not known here: what they still have to do
/// is not interrupted.
pub fn wait_for_device(card: &Card, look: impl Fn() -> Result<()>) -> Result<()> {
    if !capture::is_any() {
        for stream in stream::all_of(card.index) {
            until(&look, || stream.query())?;
        }
    }
    card.synchronize()
}
