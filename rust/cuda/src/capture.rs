//! Whether work is being captured, for which graph, and what a capture does not permit.

use std::collections::BTreeMap;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

use cudarc::driver::sys::{self, CUgraph, CUgraphNode, CUstreamCaptureMode, CUstreamCaptureStatus};
use rushlight_core::Result;
use rushlight_core::device_memory::StreamId;
use rushlight_core::fork::{ForkMutex, Rank};

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

/// Whether any work is being captured.
pub fn is_any() -> bool {
    CAPTURES.load(Ordering::Relaxed) != 0
}

/// The driver's number of a capture. All streams that take part in it have the same one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CaptureId(pub u64);

/// The captures of work that runs on a condition, each with the one that has begun it.
static INSIDE: ForkMutex<BTreeMap<CaptureId, CaptureId>> = ForkMutex::new(Rank::MemoryRecord, BTreeMap::new());

/// Makes a capture a part of another one, with its memory and random numbers.
pub fn put_inside(inner: CaptureId, outer: CaptureId) {
    INSIDE.lock().insert(inner, outer);
}

/// Ends `put_inside`.
pub fn take_out(inner: CaptureId) {
    INSIDE.lock().remove(&inner);
}

/// The capture of the work that is enqueued on a stream, if there is one. Work on a condition belongs to the whole.
pub fn of(device: u8, stream: StreamId) -> Option<CaptureId> {
    if CAPTURES.load(Ordering::Relaxed) == 0 || card::select(device).is_err() {
        return None;
    }
    let own = id_of(stream)?;
    Some(INSIDE.lock().get(&own).copied().unwrap_or(own))
}

/// The capture of a stream of the current context, if there is an intact one.
pub fn id_of(stream: StreamId) -> Option<CaptureId> {
    ask(stream).ok().flatten().map(|answer| answer.id)
}

/// The capture in which a stream takes part: its graph, and the nodes after which the next work of the stream comes.
pub struct Capture {
    pub graph: CUgraph,
    pub last: Vec<CUgraphNode>,
}

impl Capture {
    /// That of a stream of the current context; `None` without an intact capture.
    pub fn of(stream: StreamId) -> Result<Option<Capture>> {
        let Some(Answer { graph, nodes, count, .. }) = ask(stream)? else { return Ok(None) };
        // SAFETY: the driver has told as many nodes, which stay until the stream is used again.
        let last = if count == 0 { Vec::new() } else { unsafe { std::slice::from_raw_parts(nodes, count) }.to_vec() };
        Ok(Some(Capture { graph, last }))
    }
}

/// What the driver tells of an intact capture.
struct Answer {
    id: CaptureId,
    graph: CUgraph,
    nodes: *const CUgraphNode,
    count: usize,
}

/// Asks the driver for the capture of a stream of the current context.
fn ask(stream: StreamId) -> Result<Option<Answer>> {
    let (mut status, mut id) = (CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE, 0);
    let (mut graph, mut nodes, mut edges, mut count) = (null_mut(), null(), null(), 0);
    // SAFETY: a context is current, streams are never destroyed, and the pointers are those of local variables.
    check(unsafe {
        sys::cuStreamGetCaptureInfo_v3(
            handle(stream),
            &raw mut status,
            &raw mut id,
            &raw mut graph,
            &raw mut nodes,
            &raw mut edges,
            &raw mut count,
        )
    })?;
    let is_intact = status == CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE;
    Ok(is_intact.then_some(Answer { id: CaptureId(id), graph, nodes, count }))
}

/// Whether work that is enqueued on a stream is being captured.
pub fn is_capturing(device: u8, stream: StreamId) -> bool {
    of(device, stream).is_some()
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
