//! Streams and events. A stream is a queue of work on one device; each thread has a current stream for each device.

use std::cell::RefCell;
use std::collections::BTreeMap;

use cudarc::driver::sys::{self, CUevent, CUresult, CUstream};
use rushlight_core::Result;
use rushlight_core::device_memory::StreamId;
use rushlight_core::fork::{self, ForkMutex, Rank};

use crate::driver::check;
use crate::{card, failures};

/// The stream that is current until a program sets another.
pub const DEFAULT: StreamId = StreamId(0);

/// The streams of each device and priority, and how often one was asked for. They are never destroyed, because blocks of memory
/// refer to the streams that use them.
type Streams = BTreeMap<(u8, i32), (Vec<usize>, usize)>;
static STREAMS: ForkMutex<Streams> = ForkMutex::new(Rank::Pool, BTreeMap::new());

thread_local! {
    /// The current streams of this thread that are not the default stream, by device.
    static CURRENT: RefCell<Vec<(u8, StreamId)>> = const { RefCell::new(Vec::new()) };
}

/// The handle of a stream, as the driver takes it.
pub fn handle(stream: StreamId) -> CUstream {
    std::ptr::with_exposed_provenance_mut(stream.0)
}

/// A stream of a device.
#[derive(Clone, Copy)]
pub struct Stream {
    device: u8,
    id: StreamId,
}

impl Stream {
    /// The most streams of a device and priority. Programs that create more share them, as in torch.
    pub const MOST: usize = 32;

    /// A stream that does not wait for the default stream. A lower number is a higher priority.
    pub fn new(device: u8, priority: i32) -> Result<Stream> {
        card::select(device)?;
        let mut streams = STREAMS.lock();
        let (made, asked) = streams.entry((device, priority)).or_default();
        if made.len() < Stream::MOST {
            let mut stream = std::ptr::null_mut();
            let flags = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
            // SAFETY: a context is current, and the pointer is that of a local variable.
            check(unsafe { sys::cuStreamCreateWithPriority(&raw mut stream, flags, priority) })?;
            made.push(stream.expose_provenance());
        }
        let id = StreamId(made[*asked % made.len()]);
        *asked += 1;
        Ok(Stream { device, id })
    }

    /// The stream of an id, which is one of the device.
    pub fn of(device: u8, id: StreamId) -> Stream {
        Stream { device, id }
    }

    /// The default stream of a device.
    pub fn default_of(device: u8) -> Stream {
        Stream { device, id: DEFAULT }
    }

    /// This thread's current stream on a device.
    pub fn current(device: u8) -> Stream {
        Stream { device, id: current(device) }
    }

    /// Makes this the current stream of its device in this thread.
    pub fn set_current(self) {
        CURRENT.with_borrow_mut(|all| {
            all.retain(|(of, _)| *of != self.device);
            if self.id != DEFAULT {
                all.push((self.device, self.id));
            }
        });
    }

    pub fn device(self) -> u8 {
        self.device
    }

    pub fn id(self) -> StreamId {
        self.id
    }

    /// A lower number is a higher priority.
    pub fn priority(self) -> Result<i32> {
        card::select(self.device)?;
        let mut priority = 0;
        // SAFETY: a context is current, the stream is alive, and the pointer is that of a local variable.
        check(unsafe { sys::cuStreamGetPriority(handle(self.id), &raw mut priority) })?;
        Ok(priority)
    }

    /// Waits until the work enqueued so far has run.
    pub fn synchronize(self) -> Result<()> {
        synchronize(self.device, self.id)
    }

    /// Whether the work enqueued so far has run.
    pub fn query(self) -> Result<bool> {
        card::select(self.device)?;
        // SAFETY: a context is current, and streams are never destroyed.
        finished(unsafe { sys::cuStreamQuery(handle(self.id)) })
    }

    /// Makes later work of the stream wait for an event.
    pub fn wait(self, event: &Event) -> Result<()> {
        card::select(self.device)?;
        // SAFETY: a context is current, and the event is alive.
        check(unsafe { sys::cuStreamWaitEvent(handle(self.id), event.event, 0) })
    }
}

/// The streams of a device that were made here, and the default one.
pub fn all_of(device: u8) -> Vec<Stream> {
    let streams = STREAMS.lock();
    let made = streams.iter().filter(|((of, _), _)| *of == device).flat_map(|(_, (made, _))| made);
    let ids = made.map(|&address| StreamId(address));
    std::iter::once(DEFAULT).chain(ids).map(|id| Stream { device, id }).collect()
}

/// The lowest and the highest priority of streams of the current device; a lower number is a higher priority.
pub fn priorities() -> Result<(i32, i32)> {
    card::select(card::current())?;
    let (mut least, mut greatest) = (0, 0);
    // SAFETY: a context is current, and the pointers are those of local variables.
    check(unsafe { sys::cuCtxGetStreamPriorityRange(&raw mut least, &raw mut greatest) })?;
    Ok((least, greatest))
}

/// The id of this thread's current stream on a device.
#[inline]
pub fn current(device: u8) -> StreamId {
    CURRENT.with_borrow(|all| all.iter().find(|(of, _)| *of == device).map_or(DEFAULT, |(_, id)| *id))
}

/// Waits until the work enqueued on a stream has run.
pub fn synchronize(device: u8, stream: StreamId) -> Result<()> {
    card::select(device)?;
    // SAFETY: a context is current and the stream is alive.
    check(unsafe { sys::cuStreamSynchronize(handle(stream)) })?;
    failures::check(device)
}

/// Makes later work of a stream wait for the work enqueued so far on another one of its device.
pub fn put_in_order(device: u8, before: StreamId, after: StreamId) -> Result<()> {
    if before == after {
        return Ok(());
    }
    let event = Event::new(device, false)?;
    event.record(before)?;
    // SAFETY: a context is current, the event is alive, and the driver keeps what waits for it.
    check(unsafe { sys::cuStreamWaitEvent(handle(after), event.event, 0) })
}

fn finished(status: CUresult) -> Result<bool> {
    match status {
        CUresult::CUDA_ERROR_NOT_READY => Ok(false),
        status => check(status).map(|()| true),
    }
}

/// A point in a stream: the work that was enqueued before.
pub struct Event {
    device: u8,
    event: CUevent,
    generation: u64,
}

// SAFETY: an event may be used by any thread.
unsafe impl Send for Event {}
// SAFETY: see above.
unsafe impl Sync for Event {}

impl Event {
    /// A new event on a device; only timed ones can be subtracted.
    pub fn new(device: u8, timed: bool) -> Result<Event> {
        Event::with(device, if timed { 0 } else { sys::CUevent_flags_enum::CU_EVENT_DISABLE_TIMING as u32 })
    }

    /// A new event that other processes can use. The driver refuses one that is timed.
    pub fn shared(device: u8, timed: bool) -> Result<Event> {
        let untimed = if timed { 0 } else { sys::CUevent_flags_enum::CU_EVENT_DISABLE_TIMING as u32 };
        Event::with(device, untimed | sys::CUevent_flags_enum::CU_EVENT_INTERPROCESS as u32)
    }

    fn with(device: u8, flags: u32) -> Result<Event> {
        card::select(device)?;
        let mut event = std::ptr::null_mut();
        // SAFETY: a context is current, and the pointer is that of a local variable.
        check(unsafe { sys::cuEventCreate(&raw mut event, flags) })?;
        Ok(Event { device, event, generation: fork::generation() })
    }

    /// The event of another process, by the driver's name of it.
    pub fn open(device: u8, name: [u8; 64]) -> Result<Event> {
        card::select(device)?;
        let mut event = std::ptr::null_mut();
        let name = sys::CUipcEventHandle_st { reserved: name.map(|byte| byte as _) };
        // SAFETY: a context is current, and the pointer is that of a local variable.
        check(unsafe { sys::cuIpcOpenEventHandle(&raw mut event, name) })?;
        Ok(Event { device, event, generation: fork::generation() })
    }

    /// The driver's name of the event for other processes.
    pub fn name(&self) -> Result<[u8; 64]> {
        card::select(self.device)?;
        let mut name = sys::CUipcEventHandle_st { reserved: [0; 64] };
        // SAFETY: a context is current, the event is alive, and the pointer is that of a local variable.
        check(unsafe { sys::cuIpcGetEventHandle(&raw mut name, self.event) })?;
        Ok(name.reserved.map(|byte| byte as u8))
    }

    pub fn device(&self) -> u8 {
        self.device
    }

    /// The driver's handle.
    pub fn handle(&self) -> usize {
        self.event.expose_provenance()
    }

    /// Records the work enqueued so far on a stream of the event's device.
    pub fn record(&self, stream: StreamId) -> Result<()> {
        card::select(self.device)?;
        // SAFETY: a context is current; the stream and the event are alive.
        check(unsafe { sys::cuEventRecord(self.event, handle(stream)) })
    }

    /// Whether the recorded work has run.
    pub fn query(&self) -> Result<bool> {
        card::select(self.device)?;
        // SAFETY: a context is current, and the event is alive.
        finished(unsafe { sys::cuEventQuery(self.event) })
    }

    /// Waits until the recorded work has run.
    pub fn synchronize(&self) -> Result<()> {
        card::select(self.device)?;
        // SAFETY: a context is current, and the event is alive.
        check(unsafe { sys::cuEventSynchronize(self.event) })?;
        failures::check(self.device)
    }

    /// The milliseconds from this event to a later one.
    pub fn elapsed_to(&self, later: &Event) -> Result<f32> {
        card::select(self.device)?;
        let mut milliseconds = 0.0;
        // SAFETY: a context is current, both events are alive, and the pointer is that of a local variable.
        check(unsafe { sys::cuEventElapsedTime_v2(&raw mut milliseconds, self.event, later.event) })?;
        Ok(milliseconds)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.generation == fork::generation() {
            // SAFETY: the event was created or opened by this type, and this is its only owner.
            unsafe { sys::cuEventDestroy_v2(self.event) };
        }
    }
}
