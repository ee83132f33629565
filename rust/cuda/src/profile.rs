//! Times of kernels and copies for the profiler: an event before and one after each, in its stream.
//!
//! Times of devices are told in the clock of the host. Both are compared once for each device, when nothing else is enqueued before.

use std::sync::atomic::{AtomicBool, Ordering};

use rushlight_core::Result;
use rushlight_core::device_memory::StreamId;
use rushlight_core::fork::{ForkMutex, Rank};
use rushlight_core::memory_record::Moment;

use crate::stream::{self, Event};
use crate::{capture, card};

/// Work that has run, in nanoseconds of the profiler's clock.
#[derive(Clone, Debug)]
pub struct Interval {
    pub name: &'static str,
    pub device: u8,
    pub stream: StreamId,
    pub enqueued: Moment,
    pub start: u64,
    pub end: u64,
}

/// Work between two events.
struct Mark {
    name: &'static str,
    device: u8,
    stream: StreamId,
    enqueued: Moment,
    events: [Event; 2],
}

/// An event of a device, and when it was there.
struct Base {
    event: Event,
    time: u64,
}

struct Recording {
    profilers: usize,
    clock: fn() -> Moment,
    bases: Vec<Base>,
    marks: Vec<Mark>,
    intervals: Vec<Interval>,
}

static IS_ON: AtomicBool = AtomicBool::new(false);
static RECORDING: ForkMutex<Recording> = ForkMutex::new(
    Rank::Tables,
    Recording {
        profilers: 0,
        clock: || Moment { time: 0, thread: 0 },
        bases: Vec::new(),
        marks: Vec::new(),
        intervals: Vec::new(),
    },
);

/// Work beyond this number is not recorded.
const LIMIT: usize = 1 << 20;

/// The event before work that is about to be enqueued, if a profiler is active. Captured work has no times.
pub fn before(device: u8, stream: StreamId) -> Option<Event> {
    if !IS_ON.load(Ordering::Relaxed) || capture::is_capturing(device, stream) {
        return None;
    }
    let event = Event::new(device, true).ok()?;
    event.record(stream).ok()?;
    Some(event)
}

/// Ends the interval that `before` began.
pub fn after(before: Option<Event>, name: &'static str, stream: StreamId) {
    let Some(before) = before else { return };
    let device = before.device();
    let Ok(event) = Event::new(device, true) else { return };
    if event.record(stream).is_ok() {
        let mut recording = RECORDING.lock();
        if recording.marks.len() + recording.intervals.len() < LIMIT {
            let enqueued = (recording.clock)();
            recording.marks.push(Mark { name, device, stream, enqueued, events: [before, event] });
        }
    }
}

/// Starts a profiler, which reads a clock of the host.
pub fn start(clock: fn() -> Moment) {
    let mut recording = RECORDING.lock();
    recording.profilers += 1;
    recording.clock = clock;
    IS_ON.store(true, Ordering::Relaxed);
}

/// Compares the clocks of a device and of the host.
fn base_of(device: u8, clock: fn() -> Moment) -> Result<Base> {
    card::select(device)?.synchronize()?;
    let event = Event::new(device, true)?;
    event.record(stream::DEFAULT)?;
    event.synchronize()?;
    Ok(Base { event, time: clock().time })
}

/// Stops a profiler: the work that was enqueued since then, and that has run now.
pub fn stop(since: u64) -> Vec<Interval> {
    let (marks, mut bases, clock) = {
        let mut recording = RECORDING.lock();
        recording.profilers = recording.profilers.saturating_sub(1);
        IS_ON.store(recording.profilers > 0, Ordering::Relaxed);
        (std::mem::take(&mut recording.marks), std::mem::take(&mut recording.bases), recording.clock)
    };
    let mut found = Vec::with_capacity(marks.len());
    for Mark { name, device, stream, enqueued, events } in marks {
        if bases.iter().all(|base| base.event.device() != device) {
            // A device that has failed has no times.
            bases.extend(base_of(device, clock));
        }
        let Some(base) = bases.iter().find(|base| base.event.device() == device) else { continue };
        let time = |event: &Event| {
            event.synchronize().ok()?;
            let apart = f64::from(base.event.elapsed_to(event).ok()?) * 1e6;
            Some((base.time as f64 + apart).max(0.0) as u64)
        };
        if let [Some(start), Some(end)] = events.each_ref().map(time) {
            found.push(Interval { name, device, stream, enqueued, start, end });
        }
    }
    let mut recording = RECORDING.lock();
    recording.intervals.extend(found);
    if recording.profilers > 0 {
        recording.bases = bases;
        return recording.intervals.iter().filter(|one| one.enqueued.time >= since).cloned().collect();
    }
    let mut all = std::mem::take(&mut recording.intervals);
    all.retain(|one| one.enqueued.time >= since);
    all
}
