//! The entry points of NCCL that rushlight calls. NVIDIA's documentation of NCCL describes them.
//!
//! The processes are on one machine. Every call is checked: its arguments, that its memory belongs to the communicator's device, and, when
//! it runs, that all ranks make the same one.
#![allow(non_snake_case, clippy::missing_safety_doc, clippy::too_many_arguments)]

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use crate::driver::current;
use crate::exchange::{Call, Communicator, Exchange, INVALID_USAGE, Kind, SUCCESS, Status};
use crate::machine::{PAUSE, number, with};
use crate::reductions;
use crate::shared_memory::{self, Id, MOST, SharedMemory};
use crate::streams::Work;

const UNHANDLED_CUDA_ERROR: Status = 1;
const SYSTEM_ERROR: Status = 2;
const INVALID_ARGUMENT: Status = 4;
const IN_PROGRESS: Status = 7;

/// How long work of other processes may wait for a process that does not wait for its own work.
const LATE: Duration = Duration::from_millis(5);

/// `ncclConfig_t`, as far as it is read.
#[repr(C)]
pub struct Config {
    size: usize,
    magic: u32,
    version: u32,
    blocking: c_int,
    group_size: c_int,
    fewest_blocks: c_int,
    most_blocks: c_int,
}

/// A communicator, and whether its functions may return before they are done.
#[derive(Clone)]
struct Entry {
    communicator: Arc<Communicator>,
    blocking: bool,
    finalized: Arc<AtomicBool>,
}

static ENTRIES: Mutex<Option<HashMap<usize, Entry>>> = Mutex::new(None);

fn entries() -> MutexGuard<'static, Option<HashMap<usize, Entry>>> {
    ENTRIES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn find(handle: usize) -> Option<Entry> {
    entries().as_ref()?.get(&handle).cloned()
}

thread_local! {
    /// How many groups were begun.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// The calls of the group: communicator, stream, call.
    static GROUP: RefCell<Vec<(usize, usize, Call)>> = const { RefCell::new(Vec::new()) };
}

/// Runs this process's part of exchanges while its threads do something else.
fn start_runner() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        std::thread::spawn(|| {
            loop {
                std::thread::sleep(LATE);
                with(|machine| {
                    machine.run_exchanges();
                    SUCCESS
                });
            }
        });
    });
}

/// Takes a call, which is enqueued at the end of the group.
fn take(handle: usize, stream: usize, call: Call) -> Status {
    let Some(entry) = find(handle) else { return INVALID_ARGUMENT };
    let communicator = &entry.communicator;
    let known = reductions::bytes_of(call.code).is_some();
    let reduced = matches!(call.kind, Kind::AllReduce | Kind::Reduce | Kind::ReduceScatter);
    if !known || call.peer >= communicator.size || (reduced && !reductions::is_supported(call.code, call.reduction)) {
        return INVALID_ARGUMENT;
    }
    if !communicator.is_complete() || entry.finalized.load(Ordering::Relaxed) {
        return INVALID_USAGE;
    }
    GROUP.with_borrow_mut(|group| group.push((handle, stream, call)));
    if DEPTH.get() == 0 { enqueue() } else { SUCCESS }
}

/// Enqueues the calls of the group, those of a communicator as one.
fn enqueue() -> Status {
    let mut left = GROUP.take();
    let mut blocking = true;
    while let Some(&(handle, stream, _)) = left.first() {
        let (own, others): (Vec<_>, Vec<_>) = left.into_iter().partition(|(other, ..)| *other == handle);
        left = others;
        let Some(entry) = find(handle) else { return INVALID_ARGUMENT };
        if own.iter().any(|(_, other, _)| *other != stream) {
            return INVALID_USAGE;
        }
        let calls: Vec<Call> = own.into_iter().map(|(.., call)| call).collect();
        let status = enqueue_on(&entry.communicator, stream, &calls);
        if status != SUCCESS {
            return status;
        }
        blocking &= entry.blocking;
    }
    if blocking { SUCCESS } else { IN_PROGRESS }
}

fn enqueue_on(communicator: &Arc<Communicator>, stream: usize, calls: &[Call]) -> Status {
    let device = communicator.device;
    if current() != Ok(device) {
        return INVALID_USAGE;
    }
    let mut done = UNHANDLED_CUDA_ERROR;
    with(|machine| {
        let Some(key) = machine.streams.find(device, stream) else { return SUCCESS };
        if machine.fault(device) != SUCCESS {
            return SUCCESS;
        }
        let owned = |address: usize, bytes: usize, code: c_int| {
            let aligned = address.is_multiple_of(reductions::bytes_of(code).unwrap_or(1));
            bytes == 0
                || (aligned
                    && machine.memory.place(address, bytes).is_some()
                    && machine.memory.device_of(address, bytes) == Some(device))
        };
        let valid = calls.iter().all(|call| {
            let (read, written) = call.lengths(communicator.rank, communicator.size);
            owned(call.from, read, call.code) && owned(call.to, written, call.code)
        });
        done = if valid { SUCCESS } else { INVALID_ARGUMENT };
        if valid {
            machine.enqueue(key, Work::Exchange(Exchange::new(communicator.clone(), calls)));
        }
        SUCCESS
    });
    done
}

/// A call with a reduction or without.
fn call(kind: Kind, from: usize, to: usize, count: usize, code: c_int) -> Call {
    Call { kind, from, to, count, code, reduction: reductions::SUM, peer: 0 }
}

/// A rank as an index, which is too large if it is negative.
fn rank(number: c_int) -> usize {
    usize::try_from(number).unwrap_or(MOST)
}

entries! {
    ncclGetVersion(version: *mut c_int) { *version = number("SOFTCUDA_NCCL_VERSION").unwrap_or(22703) as c_int; SUCCESS }

    ncclGetUniqueId(id: *mut Id) {
        match shared_memory::create() {
            Some(made) => { id.write_unaligned(made); SUCCESS }
            None => SYSTEM_ERROR,
        }
    }

    ncclCommInitRankConfig(handle: *mut usize, size: c_int, id: Id, own: c_int, config: *const Config) {
        let (count, own) = (rank(size), rank(own));
        let Ok(device) = current() else { return UNHANDLED_CUDA_ERROR };
        let config = &*config;
        let chosen = [config.group_size, config.fewest_blocks, config.most_blocks];
        let valid = config.magic == 0xcafe_beef && config.size >= size_of::<Config>() && (0..=1).contains(&config.blocking)
            && chosen.iter().all(|&one| one == c_int::MIN || one > 0);
        if !valid || own >= count || count > MOST { return INVALID_ARGUMENT; }
        let Some(shared) = SharedMemory::of(&id) else { return SYSTEM_ERROR };
        // A rank is there with the number of its device, of all that the machine has.
        let place = 1 + physical(device);
        if (0..MOST).any(|other| shared.joined(other).load(Ordering::Acquire) == place) {
            eprintln!("softcuda: NCCL: two ranks of a communicator have device {}", place - 1);
            return INVALID_USAGE;
        }
        if shared.joined(own).swap(place, Ordering::AcqRel) != 0 { return INVALID_USAGE; }
        start_runner();
        let communicator = Arc::new(Communicator::new(shared, own, count, device));
        let blocking = config.blocking == 1;
        while blocking && !communicator.is_complete() { std::thread::sleep(PAUSE); }
        let made = Arc::as_ptr(&communicator).expose_provenance();
        let entry = Entry { communicator, blocking, finalized: Arc::new(AtomicBool::new(false)) };
        entries().get_or_insert_default().insert(made, entry);
        *handle = made;
        if blocking { SUCCESS } else { IN_PROGRESS }
    }

    ncclCommGetAsyncError(handle: usize, status: *mut Status) {
        let Some(entry) = find(handle) else { return INVALID_ARGUMENT };
        let communicator = &entry.communicator;
        let waits = entry.finalized.load(Ordering::Relaxed) && communicator.pending.load(Ordering::Relaxed) > 0;
        *status = match communicator.error.load(Ordering::Relaxed) {
            SUCCESS if waits || !communicator.is_complete() => IN_PROGRESS,
            error => error,
        };
        SUCCESS
    }

    ncclCommFinalize(handle: usize) {
        let Some(entry) = find(handle) else { return INVALID_ARGUMENT };
        if entry.finalized.swap(true, Ordering::Relaxed) { return INVALID_USAGE; }
        if entry.blocking { SUCCESS } else { IN_PROGRESS }
    }

    ncclCommDestroy(handle: usize) {
        let Some(entry) = find(handle) else { return INVALID_ARGUMENT };
        let pending = entry.communicator.pending.load(Ordering::Relaxed);
        if !entry.finalized.load(Ordering::Relaxed) || pending > 0 {
            eprintln!("softcuda: NCCL: a communicator was destroyed with {pending} calls under way, or before it was finalized");
            return INVALID_USAGE;
        }
        entries().as_mut().map(|all| all.remove(&handle));
        SUCCESS
    }

    ncclCommAbort(handle: usize) {
        let Some(entry) = entries().as_mut().and_then(|all| all.remove(&handle)) else { return INVALID_ARGUMENT };
        entry.communicator.aborted.store(true, Ordering::Relaxed);
        SUCCESS
    }

    ncclGroupStart() { DEPTH.set(DEPTH.get() + 1); SUCCESS }

    ncclGroupEnd() {
        let Some(depth) = DEPTH.get().checked_sub(1) else { return INVALID_USAGE };
        DEPTH.set(depth);
        if depth == 0 { enqueue() } else { SUCCESS }
    }

    ncclAllReduce(from: usize, to: usize, count: usize, code: c_int, reduction: c_int, handle: usize, stream: usize) {
        take(handle, stream, Call { reduction, ..call(Kind::AllReduce, from, to, count, code) })
    }

    ncclBroadcast(from: usize, to: usize, count: usize, code: c_int, root: c_int, handle: usize, stream: usize) {
        take(handle, stream, Call { peer: rank(root), ..call(Kind::Broadcast, from, to, count, code) })
    }

    ncclReduce(
        from: usize, to: usize, count: usize, code: c_int, reduction: c_int, root: c_int, handle: usize, stream: usize
    ) {
        take(handle, stream, Call { reduction, peer: rank(root), ..call(Kind::Reduce, from, to, count, code) })
    }

    ncclAllGather(from: usize, to: usize, count: usize, code: c_int, handle: usize, stream: usize) {
        take(handle, stream, call(Kind::AllGather, from, to, count, code))
    }

    ncclReduceScatter(from: usize, to: usize, count: usize, code: c_int, reduction: c_int, handle: usize, stream: usize) {
        take(handle, stream, Call { reduction, ..call(Kind::ReduceScatter, from, to, count, code) })
    }

    ncclSend(from: usize, count: usize, code: c_int, peer: c_int, handle: usize, stream: usize) {
        take(handle, stream, Call { peer: rank(peer), ..call(Kind::Send, from, 0, count, code) })
    }

    ncclRecv(to: usize, count: usize, code: c_int, peer: c_int, handle: usize, stream: usize) {
        take(handle, stream, Call { peer: rank(peer), ..call(Kind::Receive, 0, to, count, code) })
    }
}

/// The number of a device among all of the machine.
fn physical(device: c_int) -> u64 {
    let listed = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    let named = listed.and_then(|list| list.split(',').nth(device as usize)?.trim().parse().ok());
    named.unwrap_or(device as u64)
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclGetErrorString(status: Status) -> *const c_char {
    let text = match status {
        SUCCESS => c"no error",
        UNHANDLED_CUDA_ERROR => c"unhandled cuda error",
        SYSTEM_ERROR => c"unhandled system error",
        INVALID_ARGUMENT => c"invalid argument",
        INVALID_USAGE => c"invalid usage",
        IN_PROGRESS => c"NCCL operation in progress",
        _ => c"unknown result code",
    };
    text.as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclGetLastError(_handle: usize) -> *const c_char {
    c"".as_ptr()
}
