//! One rank's part of some ranks that exchange tensors on devices.
//!
//! Calls are enqueued on a stream of the communicator, which waits for the current stream. Nothing waits on the host, except for the
//! library to enqueue a call, which includes the first connections to other ranks.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use once_cell::race::OnceBox;
use rushlight_core::device_memory::StreamId;
use rushlight_core::sync::{Arc, Mutex, MutexGuard, PoisonError};
use rushlight_core::{Class, Error, Result, fork};

use crate::nccl::functions::{
    Config, Functions, Handle, IN_PROGRESS, SUCCESS, Settings, UniqueId, check, failure, functions,
};
use crate::nccl::watchdog::{self, Pending};
use crate::stream::{self, Event, Stream};
use crate::{capture, card, failures};

/// How NCCL reduces (`ncclRedOp_t`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reduction {
    Sum = 0,
    Product = 1,
    Max = 2,
    Min = 3,
    Average = 4,
}

/// Values of one type in memory of the device: their address, number and type for NCCL.
#[derive(Clone, Copy)]
pub struct Values {
    pub address: usize,
    pub count: usize,
    pub code: c_int,
}

/// One call of the library. A peer or root is a rank of the communicator.
#[derive(Clone, Copy)]
pub enum Exchange {
    AllReduce { from: Values, to: Values, reduction: Reduction },
    Broadcast { values: Values, root: c_int },
    Reduce { from: Values, to: Values, reduction: Reduction, root: c_int },
    AllGather { from: Values, to: Values },
    ReduceScatter { from: Values, to: Values, reduction: Reduction },
    Send { values: Values, peer: c_int },
    Receive { values: Values, peer: c_int },
}

impl Exchange {
    /// # Safety
    /// The memory is held for the stream, and the communicator exists.
    unsafe fn enqueue(self, library: &Functions, communicator: Handle, stream: StreamId) -> Result<()> {
        let stream = stream::handle(stream);
        // SAFETY: guaranteed by the caller.
        check(unsafe {
            match self {
                Exchange::AllReduce { from, to, reduction } => (library.all_reduce)(
                    from.address,
                    to.address,
                    from.count,
                    from.code,
                    reduction as c_int,
                    communicator,
                    stream,
                ),
                Exchange::Broadcast { values, root } => (library.broadcast)(
                    values.address,
                    values.address,
                    values.count,
                    values.code,
                    root,
                    communicator,
                    stream,
                ),
                Exchange::Reduce { from, to, reduction, root } => (library.reduce)(
                    from.address,
                    to.address,
                    from.count,
                    from.code,
                    reduction as c_int,
                    root,
                    communicator,
                    stream,
                ),
                Exchange::AllGather { from, to } => {
                    (library.all_gather)(from.address, to.address, from.count, from.code, communicator, stream)
                }
                Exchange::ReduceScatter { from, to, reduction } => (library.reduce_scatter)(
                    from.address,
                    to.address,
                    to.count,
                    to.code,
                    reduction as c_int,
                    communicator,
                    stream,
                ),
                Exchange::Send { values, peer } => {
                    (library.send)(values.address, values.count, values.code, peer, communicator, stream)
                }
                Exchange::Receive { values, peer } => {
                    (library.receive)(values.address, values.count, values.code, peer, communicator, stream)
                }
            }
        })
    }
}

/// A handle of the library, until the communicator ends.
struct Owned(Option<Handle>);

// SAFETY: a communicator may be used by any thread, by one at a time.
unsafe impl Send for Owned {}

/// One rank's part of a communicator.
pub struct Communicator {
    number: u64,
    device: u8,
    stream: Stream,
    generation: u64,
    handle: Mutex<Owned>,
    failed: OnceBox<Error>,
    ended: AtomicBool,
}

/// Called during a wait, to let Ctrl-C end it.
pub type Look<'a> = &'a mut dyn FnMut() -> Result<()>;

/// How long a thread asks without a pause. The library enqueues most calls in less.
const SOON: Duration = Duration::from_millis(1);
/// How long a thread sleeps before it asks the library again.
const NAP: Duration = Duration::from_micros(100);
/// How often it looks for Ctrl-C, in naps.
const LOOKS: u32 = 200;
/// How long the end of a communicator may take before it is aborted.
const END: Duration = Duration::from_secs(5);

impl Communicator {
    /// Joins the communicator of an id. Every rank does so, each with a device of its own.
    pub fn join(
        device: u8,
        id: UniqueId,
        rank: c_int,
        size: c_int,
        settings: &Settings,
        timeout: Duration,
        look: Look,
    ) -> Result<Communicator> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let library = functions()?;
        card::select(device)?;
        let stream = Stream::new(device, settings.priority)?;
        let (mut handle, mut config) = (std::ptr::null_mut(), Config::without_blocking(settings));
        // SAFETY: a context is current, and the pointers are those of local variables and of the settings.
        check(unsafe { (library.begin)(&raw mut handle, size, id, rank, &raw mut config) })?;
        let made = Communicator {
            number: COUNT.fetch_add(1, Ordering::Relaxed),
            device,
            stream,
            generation: fork::generation(),
            handle: Mutex::new(Owned(Some(handle))),
            failed: OnceBox::new(),
            ended: AtomicBool::new(false),
        };
        let (begun, mut owned) = (Instant::now(), made.lock()?);
        let done = made.settle(&owned, begun, timeout, look);
        if !matches!(done, Ok(true)) {
            made.abort_owned(&mut owned);
        }
        drop(owned);
        match done {
            Ok(true) => Ok(made),
            Ok(false) => Err(Error::new(
                Class::DistBackend,
                format!("[Rank {rank}] not all {size} ranks joined NCCL's communicator in {} ms", timeout.as_millis()),
            )
            .hint("A rank has died, or it does not make the call that needs the communicator.")),
            Err(error) => Err(error),
        }
    }

    pub fn device(&self) -> u8 {
        self.device
    }

    pub fn stream(&self) -> Stream {
        self.stream
    }

    /// The error that has ended the communicator.
    pub fn failure(&self) -> Option<&Error> {
        self.failed.get()
    }

    fn lock(&self) -> Result<MutexGuard<'_, Owned>> {
        if self.generation != fork::generation() {
            return Err(Error::runtime("A communicator of NCCL cannot be used in a forked process"));
        }
        Ok(self.handle.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn check(&self) -> Result<()> {
        match self.failed.get() {
            Some(error) => Err(error.clone()),
            None if self.ended.load(Ordering::Acquire) => Err(aborted()),
            None => Ok(()),
        }
    }

    /// Waits until the library has done what was begun; false if this takes too long.
    fn settle(&self, owned: &Owned, begun: Instant, timeout: Duration, look: Look) -> Result<bool> {
        let (Some(handle), library) = (owned.0, functions()?) else { return Err(aborted()) };
        for count in 1.. {
            let mut status = SUCCESS;
            // SAFETY: the communicator exists while it is owned, and the pointer is that of a local variable.
            check(unsafe { (library.state)(handle, &raw mut status) })?;
            match status {
                SUCCESS => break,
                IN_PROGRESS if begun.elapsed() > timeout => return Ok(false),
                IN_PROGRESS if begun.elapsed() < SOON => std::thread::yield_now(),
                IN_PROGRESS => std::thread::sleep(NAP),
                _ => return Err(failure(status)),
            }
            if count % LOOKS == 0 {
                look()?;
            }
        }
        Ok(true)
    }

    /// Enqueues calls as one, after the work of the current stream.
    ///
    /// # Safety
    /// The values are on the device, and are held for the communicator's stream.
    pub unsafe fn call(
        self: &Arc<Self>,
        calls: &[Exchange],
        what: Description,
        timeout: Duration,
        look: Look,
    ) -> Result<Arc<Work>> {
        self.check()?;
        let (library, begun) = (functions()?, Instant::now());
        card::select(self.device)?;
        let current = stream::current(self.device);
        let ready = Event::new(self.device, false)?;
        ready.record(current)?;
        self.stream.wait(&ready)?;
        let mut owned = self.lock()?;
        let Some(handle) = owned.0 else { return Err(self.check().err().unwrap_or_else(aborted)) };
        if !calls.is_empty() {
            let relaxed = capture::Relaxed::begin();
            // SAFETY: the library is loaded; each start has its end.
            check(unsafe { (library.group_start)() })?;
            // SAFETY: guaranteed by the caller; the communicator exists while it is owned.
            let begun = calls.iter().try_for_each(|call| unsafe { call.enqueue(library, handle, self.stream.id()) });
            // SAFETY: as above.
            let ended = check(unsafe { (library.group_end)() });
            drop(relaxed);
            begun?;
            ended?;
        }
        let end = Event::new(self.device, false)?;
        let work = Arc::new(Work { communicator: self.clone(), end, what, timeout, begun });
        let settled =
            self.settle(&owned, begun, timeout, look).and_then(|done| if done { Ok(()) } else { Err(work.late()) });
        if let Err(error) = settled {
            let own = match error.clone().take_foreign() {
                Some(_) => Error::new(Class::DistBackend, format!("{}) was interrupted.", work.what.begin())),
                None => error.clone(),
            };
            self.give_up(&mut owned, own);
            return Err(error);
        }
        work.end.record(self.stream.id())?;
        drop(owned);
        if !capture::is_capturing(self.device, current) {
            watchdog::watch(work.clone());
        }
        Ok(work)
    }

    /// Looks for an error that the library has found. Does nothing while another thread uses the communicator.
    fn look_for_errors(&self) {
        let Ok(owned) = self.handle.try_lock() else { return };
        let (Some(handle), Ok(library)) = (owned.0, functions()) else { return };
        let mut status = SUCCESS;
        // SAFETY: the communicator exists while it is owned, and the pointer is that of a local variable.
        let asked = unsafe { (library.state)(handle, &raw mut status) };
        drop(owned);
        if let Err(error) = check(asked).and_then(|()| check(status)) {
            self.fail(error);
        }
    }

    /// Gives the calls up that are under way: they and later ones raise the error.
    fn fail(&self, error: Error) {
        if let Ok(mut owned) = self.lock() {
            self.give_up(&mut owned, error);
        }
    }

    fn give_up(&self, owned: &mut Owned, error: Error) {
        if self.ended.load(Ordering::Acquire) {
            return;
        }
        // Waits for the device end with the abort, and must find the error then.
        failures::record(self.number, self.device, error.clone());
        let _ = self.failed.set(Box::new(error));
        self.abort_owned(owned);
    }

    fn abort_owned(&self, owned: &mut Owned) {
        self.ended.store(true, Ordering::Release);
        if let (Some(handle), Ok(library), Ok(_)) = (owned.0.take(), functions(), card::select(self.device)) {
            // SAFETY: the communicator exists, and nothing uses it any more.
            unsafe { (library.abort)(handle) };
        }
    }

    /// Ends the communicator at once; calls that are under way are given up.
    pub fn abort(&self) {
        if let Ok(mut owned) = self.lock() {
            self.abort_owned(&mut owned);
        }
        failures::forget(self.number);
    }

    /// Ends the communicator once its calls have run, and with the error of one that fails.
    pub fn end(&self, timeout: Duration, look: Look) -> Result<()> {
        let begun = Instant::now();
        for count in 1.. {
            if self.ended.load(Ordering::Acquire) || self.generation != fork::generation() {
                break;
            }
            match self.stream.query() {
                Ok(true) => break,
                Ok(false) if begun.elapsed() < timeout => std::thread::sleep(NAP * 10),
                _ => break,
            }
            if count % (LOOKS / 10) == 0
                && let Err(error) = look()
            {
                self.abort();
                return Err(error);
            }
        }
        self.finish(look);
        failures::forget(self.number);
        Ok(())
    }

    /// Lets go of the library's communicator.
    fn finish(&self, look: Look) {
        let Ok(mut owned) = self.lock() else { return };
        let (Some(handle), Ok(library), Ok(_)) = (owned.0, functions(), card::select(self.device)) else { return };
        // SAFETY: the communicator exists, and no call of it is under way.
        let begun = check(unsafe { (library.finalize)(handle) }).is_ok();
        if begun && matches!(self.settle(&owned, Instant::now(), END, look), Ok(true)) {
            owned.0 = None;
            self.ended.store(true, Ordering::Release);
            // SAFETY: as above.
            unsafe { (library.destroy)(handle) };
        } else {
            self.abort_owned(&mut owned);
        }
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        if self.generation == fork::generation() {
            self.abort();
        }
    }
}

#[cold]
fn aborted() -> Error {
    Error::new(Class::DistBackend, "The communicator of NCCL was aborted")
}

/// What errors say of calls that were enqueued together.
pub struct Description {
    pub group: String,
    pub rank: usize,
    /// How many such calls the group has made, this one included.
    pub number: u64,
    /// torch's name of the operation.
    pub operation: String,
    /// The numbers of elements that are read and written.
    pub elements: [usize; 2],
    /// The other rank and the tag of a message.
    pub message: Option<(usize, i64)>,
}

impl Description {
    /// The beginning of torch's sentence about calls that take too long.
    fn begin(&self) -> String {
        let Description { group, rank, number, operation, elements: [read, written], message } = self;
        let message = message.map_or(String::new(), |(peer, tag)| format!(", Peer={peer}, Tag={tag}"));
        format!(
            "[PG ID {group} Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={number}, \
             OpType={operation}, NumelIn={read}, NumelOut={written}{message}"
        )
    }
}

/// Calls that were enqueued.
pub struct Work {
    communicator: Arc<Communicator>,
    end: Event,
    what: Description,
    timeout: Duration,
    begun: Instant,
}

impl Work {
    /// The error of the calls, if they have failed.
    pub fn failure(&self) -> Option<&Error> {
        self.communicator.failure()
    }

    /// Whether the calls are over, with or without success.
    pub fn is_over(&self) -> bool {
        self.failure().is_some()
            || self.end.query().unwrap_or_else(|error| {
                self.communicator.fail(error);
                true
            })
    }

    /// Makes the current stream wait for the calls. The host goes on.
    pub fn wait(&self) -> Result<()> {
        self.check()?;
        Stream::current(self.communicator.device).wait(&self.end)
    }

    fn check(&self) -> Result<()> {
        self.failure().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Makes the host wait for the calls, which are given up after `timeout`.
    pub fn wait_on_host(&self, timeout: Duration, look: Look) -> Result<()> {
        let begun = Instant::now();
        for count in 1.. {
            if self.is_over() {
                break;
            }
            if begun.elapsed() > timeout {
                self.communicator.fail(self.late());
                break;
            }
            std::thread::sleep(NAP);
            if count % LOOKS == 0 {
                look()?;
            }
        }
        self.check()
    }

    /// torch's error for calls that take too long.
    fn late(&self) -> Error {
        let (limit, passed) = (self.timeout.as_millis(), self.begun.elapsed().as_millis());
        Error::new(
            Class::DistBackend,
            format!(
                "{}, Timeout(ms)={limit}) ran for {passed} milliseconds before timing out.",
                self.what.begin()
            ),
        )
        .hint(
            "A rank has died, or the ranks make different calls. The calls were given up, and their results are undefined: \
             end the group by torch.distributed.destroy_process_group().",
        )
    }
}

impl Pending for Work {
    fn look_after(&self) -> bool {
        if self.is_over() || self.communicator.ended.load(Ordering::Acquire) {
            return true;
        }
        if self.begun.elapsed() > self.timeout {
            self.communicator.fail(self.late());
            return true;
        }
        self.communicator.look_for_errors();
        false
    }
}
