//! Work that several processes do together: the calls of one group of NCCL, on one stream.
//!
//! A rank posts where its memory is and waits until all have posted the same call. Then it reads the others' memory, waits until
//! all have read, and writes its results. Work that waits is tried again later. If a rank never comes, the others wait until they abort.

use std::collections::HashSet;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};

use crate::memory::Memory;
use crate::reductions;
use crate::shared_memory::{self, SharedMemory};

/// A status of NCCL (`ncclResult_t`).
pub type Status = c_int;
pub const SUCCESS: Status = 0;
pub const INVALID_USAGE: Status = 5;

/// One rank's part of a communicator.
pub struct Communicator {
    pub shared: SharedMemory,
    pub rank: usize,
    pub size: usize,
    pub device: c_int,
    pub aborted: AtomicBool,
    /// The error that `ncclCommGetAsyncError` tells.
    pub error: AtomicI32,
    /// How much work was enqueued and has not run.
    pub pending: AtomicUsize,
    /// How many collective calls were begun.
    calls: AtomicU64,
}

impl Communicator {
    pub fn new(shared: SharedMemory, rank: usize, size: usize, device: c_int) -> Communicator {
        let (aborted, error) = (AtomicBool::new(false), AtomicI32::new(SUCCESS));
        let (pending, calls) = (AtomicUsize::new(0), AtomicU64::new(0));
        Communicator { shared, rank, size, device, aborted, error, pending, calls }
    }

    /// Whether all ranks take part.
    pub fn is_complete(&self) -> bool {
        (0..self.size).all(|rank| self.shared.joined(rank).load(Ordering::Acquire) != 0)
    }

    /// Records a mistake, which the card would answer with wrong results or a wait without end.
    fn complain(&self, what: &str) {
        if self.error.swap(INVALID_USAGE, Ordering::Relaxed) == SUCCESS {
            eprintln!("softcuda: NCCL: rank {}: {what}", self.rank);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    AllReduce,
    Broadcast,
    Reduce,
    AllGather,
    ReduceScatter,
    Send,
    Receive,
}

/// A call. `count` is the number of values that the function takes; `peer` is the other rank, or the root.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub kind: Kind,
    pub from: usize,
    pub to: usize,
    pub count: usize,
    pub code: c_int,
    pub reduction: c_int,
    pub peer: usize,
}

impl Call {
    /// The bytes of values.
    fn bytes(&self, count: usize) -> usize {
        count * reductions::bytes_of(self.code).unwrap_or(0)
    }

    /// The bytes that this rank reads and writes.
    pub fn lengths(&self, rank: usize, size: usize) -> (usize, usize) {
        let root = self.peer == rank;
        let (read, written) = match self.kind {
            Kind::AllReduce => (self.count, self.count),
            Kind::Broadcast => (if root { self.count } else { 0 }, self.count),
            Kind::Reduce => (self.count, if root { self.count } else { 0 }),
            Kind::AllGather => (self.count, self.count * size),
            Kind::ReduceScatter => (self.count * size, self.count),
            Kind::Send => (self.count, 0),
            Kind::Receive => (0, self.count),
        };
        (self.bytes(read), self.bytes(written))
    }

    fn is_message(&self) -> bool {
        matches!(self.kind, Kind::Send | Kind::Receive)
    }
}

#[derive(Clone)]
enum Progress {
    New,
    Posted(u64),
    Read(u64, Vec<u8>),
    Done,
}

pub struct Exchange {
    communicator: Arc<Communicator>,
    calls: Vec<(Call, Progress)>,
}

impl Exchange {
    pub fn new(communicator: Arc<Communicator>, calls: &[Call]) -> Exchange {
        communicator.pending.fetch_add(1, Ordering::Relaxed);
        Exchange { communicator, calls: calls.iter().map(|&call| (call, Progress::New)).collect() }
    }

    /// Does what can be done now; true at the end. After an abort nothing more is done.
    pub fn advance(&mut self, memory: &Memory) -> bool {
        let communicator = self.communicator.clone();
        let mut waiting = HashSet::new();
        let aborted = communicator.aborted.load(Ordering::Relaxed);
        for (call, progress) in &mut self.calls {
            // Collective calls follow each other, and so do messages of two ranks in one direction.
            let order = if call.is_message() { Some((call.kind == Kind::Send, call.peer)) } else { None };
            if aborted || matches!(progress, Progress::Done) || waiting.contains(&order) {
                continue;
            }
            loop {
                let next = match call.kind {
                    Kind::Send => communicator.send(call, progress, memory),
                    Kind::Receive => communicator.receive(call),
                    _ => communicator.collective(call, progress, memory),
                };
                match next {
                    Some(next) => *progress = next,
                    None => break,
                }
                if matches!(progress, Progress::Done) {
                    break;
                }
            }
            if !matches!(progress, Progress::Done) {
                waiting.insert(order);
            }
        }
        aborted || waiting.is_empty()
    }
}

impl Clone for Exchange {
    fn clone(&self) -> Exchange {
        let calls: Vec<Call> = self.calls.iter().map(|(call, _)| *call).collect();
        Exchange::new(self.communicator.clone(), &calls)
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.communicator.pending.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Communicator {
    /// The next step of a message that is sent; `None` if it must wait.
    fn send(&self, call: &Call, progress: &Progress, memory: &Memory) -> Option<Progress> {
        let post = SharedMemory::message(self.rank, call.peer);
        match progress {
            Progress::New => {
                let number = self.shared.latest(post) + 1;
                self.shared.write(post, number, &self.description(call, memory)?);
                Some(Progress::Posted(number))
            }
            Progress::Posted(number) => {
                (self.shared.read(post).load(Ordering::Acquire) >= *number).then_some(Progress::Done)
            }
            _ => Some(Progress::Done),
        }
    }

    fn receive(&self, call: &Call) -> Option<Progress> {
        let post = SharedMemory::message(call.peer, self.rank);
        let number = self.shared.latest(post);
        if number == self.shared.read(post).load(Ordering::Relaxed) {
            return None;
        }
        let [process, file, offset, bytes, _, code, ..] = self.shared.values(post);
        let wanted = call.bytes(call.count);
        if bytes as usize != wanted || code != call.code as u64 {
            self.complain(&format!(
                "rank {} sends {bytes} bytes of type {code}, and it receives {wanted} of type {}",
                call.peer, call.code
            ));
            return None;
        }
        let got = shared_memory::fetch(process, file, offset, wanted)?;
        write(call.to, &got);
        self.shared.read(post).store(number, Ordering::Release);
        Some(Progress::Done)
    }

    /// What others need to know of a call: process, descriptor, offset and length of the memory, and the arguments.
    fn description(&self, call: &Call, memory: &Memory) -> Option<[u64; shared_memory::POST - 2]> {
        let (bytes, _) = call.lengths(self.rank, self.size);
        let (file, offset) = if bytes == 0 { (0, 0) } else { memory.place(call.from, bytes)? };
        let process = u64::from(std::process::id());
        let arguments =
            [call.kind as u64, call.code as u64, call.reduction as u64, call.peer as u64, call.count as u64];
        let mut all = [0; shared_memory::POST - 2];
        all[..4].copy_from_slice(&[process, file as u64, offset as u64, bytes as u64]);
        all[4..9].copy_from_slice(&arguments);
        Some(all)
    }

    /// The next step of a collective call; `None` if it must wait.
    fn collective(&self, call: &Call, progress: &Progress, memory: &Memory) -> Option<Progress> {
        let own = SharedMemory::collective(self.rank);
        let all = |reached: &dyn Fn(usize) -> u64, number: u64| (0..self.size).all(|rank| reached(rank) >= number);
        match progress {
            Progress::New => {
                let description = self.description(call, memory)?;
                let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
                self.shared.write(own, number, &description);
                Some(Progress::Posted(number))
            }
            Progress::Posted(number) => {
                if !all(&|rank| self.shared.latest(SharedMemory::collective(rank)), *number) {
                    return None;
                }
                let mine = self.shared.values(own);
                let posts: Vec<_> =
                    (0..self.size).map(|rank| self.shared.values(SharedMemory::collective(rank))).collect();
                if let Some(other) = posts.iter().position(|post| post[4..] != mine[4..]) {
                    let name = |post: &[u64]| format!("kind, type, reduction, root, count = {:?}", &post[4..9]);
                    self.complain(&format!("{call:?} ({}), and rank {other}: {}", name(&mine), name(&posts[other])));
                    return None;
                }
                let result = self.result(call, &posts)?;
                self.shared.read(own).store(*number, Ordering::Release);
                Some(Progress::Read(*number, result))
            }
            Progress::Read(number, result) => {
                let read = |rank| self.shared.read(SharedMemory::collective(rank)).load(Ordering::Acquire);
                if !all(&read, *number) {
                    return None;
                }
                write(call.to, result);
                Some(Progress::Done)
            }
            Progress::Done => Some(Progress::Done),
        }
    }

    /// What this rank writes; `None` if the memory of a rank is gone.
    fn result(&self, call: &Call, posts: &[[u64; shared_memory::POST - 2]]) -> Option<Vec<u8>> {
        let (_, written) = call.lengths(self.rank, self.size);
        let part = |rank: usize, from: usize, bytes: usize| {
            let [process, file, offset, ..] = posts[rank];
            shared_memory::fetch(process, file, offset + from as u64, bytes)
        };
        let parts =
            |from: usize, bytes: usize| (0..self.size).map(|rank| part(rank, from, bytes)).collect::<Option<Vec<_>>>();
        if written == 0 {
            return Some(Vec::new());
        }
        Some(match call.kind {
            Kind::Broadcast => part(call.peer, 0, written)?,
            Kind::AllGather => parts(0, written / self.size)?.concat(),
            Kind::ReduceScatter => reductions::of(&parts(self.rank * written, written)?, call.code, call.reduction),
            _ => reductions::of(&parts(0, written)?, call.code, call.reduction),
        })
    }
}

/// Writes to memory of a device, which was checked when the work was enqueued.
fn write(to: usize, bytes: &[u8]) {
    if !bytes.is_empty() {
        // SAFETY: freeing memory waits for its device.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(to).copy_from(bytes.as_ptr(), bytes.len()) };
    }
}
