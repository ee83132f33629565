//! Queues of work, and events.

use std::collections::{HashMap, VecDeque};
use std::ffi::c_int;
use std::time::Instant;

use crate::machine::{ILLEGAL_ADDRESS, LAUNCH_FAILED, Machine, SUCCESS, Status};
use crate::modules::Launch;

pub enum Work {
    Launch(Launch),
    Copy {
        to: usize,
        from: Source,
        bytes: usize,
    },
    /// Repeats a pattern.
    Fill {
        to: usize,
        pattern: Vec<u8>,
        count: usize,
    },
    Record {
        event: usize,
        ticket: u64,
    },
    Wait {
        event: usize,
        ticket: u64,
    },
}

pub enum Source {
    /// Memory that is read when the work runs.
    Address(usize),
    /// Bytes that were read when the work was enqueued, as a driver does with memory that is not page-locked.
    Bytes(Vec<u8>),
}

pub struct Stream {
    pub device: c_int,
    queue: VecDeque<Work>,
}

pub struct Event {
    pub device: c_int,
    /// The number of records that were enqueued and that have run, and the stream of the last one.
    pub recorded: u64,
    done: u64,
    stream: usize,
    pub time: Option<Instant>,
}

#[derive(Default)]
pub struct Streams {
    streams: HashMap<usize, Stream>,
    pub events: HashMap<usize, Event>,
    last: usize,
}

/// The key of a stream: the default stream of each device has the handle 0.
fn key(device: c_int, handle: usize) -> usize {
    if handle == 0 { device as usize + 1 } else { handle }
}

impl Streams {
    fn new_handle(&mut self) -> usize {
        self.last = self.last.max(0x10_0000) + 0x10;
        self.last
    }

    pub fn create(&mut self, device: c_int) -> usize {
        let handle = self.new_handle();
        self.streams.insert(handle, Stream { device, queue: VecDeque::new() });
        handle
    }

    pub fn create_event(&mut self, device: c_int) -> usize {
        let handle = self.new_handle();
        self.events.insert(handle, Event { device, recorded: 0, done: 0, stream: 0, time: None });
        handle
    }

    pub fn remove(&mut self, handle: usize) {
        self.streams.remove(&handle);
    }

    /// The stream of a handle in the context of a device; `None` if it does not exist or belongs to another device.
    pub fn find(&mut self, device: c_int, handle: usize) -> Option<usize> {
        let key = key(device, handle);
        if handle == 0 {
            self.streams.entry(key).or_insert(Stream { device, queue: VecDeque::new() });
        }
        self.streams.get(&key).filter(|stream| stream.device == device).map(|_| key)
    }

    pub fn is_idle(&self, stream: usize) -> bool {
        self.streams.get(&stream).is_none_or(|stream| stream.queue.is_empty())
    }

    fn keys(&self, device: Option<c_int>) -> Vec<usize> {
        let wanted = self.streams.iter().filter(|(_, stream)| device.is_none_or(|device| stream.device == device));
        let mut keys: Vec<usize> = wanted.map(|(&key, _)| key).collect();
        keys.sort_unstable();
        keys
    }
}

impl Machine {
    /// Adds work to a stream, and perhaps runs some work of any stream.
    pub fn enqueue(&mut self, stream: usize, work: Work) {
        if let Some(stream) = self.streams.streams.get_mut(&stream) {
            stream.queue.push_back(work);
        }
        self.progress();
    }

    /// Runs a little work at random.
    pub fn progress(&mut self) {
        let draw = self.random();
        if draw == 0 || !draw.is_multiple_of(4) {
            return;
        }
        let keys = self.streams.keys(None);
        let Some(&chosen) = keys.get((draw >> 8) as usize % keys.len().max(1)) else { return };
        for _ in 0..(draw >> 32) % 4 {
            self.run_next(chosen);
        }
    }

    /// Enqueues the record of an event.
    pub fn record(&mut self, event: usize, stream: usize) {
        let Some(state) = self.streams.events.get_mut(&event) else { return };
        state.recorded += 1;
        state.stream = stream;
        let ticket = state.recorded;
        self.enqueue(stream, Work::Record { event, ticket });
    }

    /// Whether the last record of an event has run.
    pub fn has_passed(&self, event: usize) -> bool {
        self.streams.events.get(&event).is_none_or(|event| event.done >= event.recorded)
    }

    /// Runs everything before a record of an event.
    pub fn reach(&mut self, event: usize, ticket: u64) {
        loop {
            let Some(state) = self.streams.events.get(&event) else { return };
            let stream = state.stream;
            if state.done >= ticket || !self.run_next(stream) {
                return;
            }
        }
    }

    /// Runs all work of a stream.
    pub fn drain(&mut self, stream: usize) {
        while self.run_next(stream) {}
    }

    /// Runs all work of a device; returns the device's error.
    pub fn drain_device(&mut self, device: c_int) -> Status {
        for stream in self.streams.keys(Some(device)) {
            self.drain(stream);
        }
        self.fault(device)
    }

    /// Runs the next work of a stream; false if there is none. A device with an error runs nothing.
    fn run_next(&mut self, stream: usize) -> bool {
        let Some(state) = self.streams.streams.get_mut(&stream) else { return false };
        let (device, Some(work)) = (state.device, state.queue.pop_front()) else { return false };
        let stopped = self.fault(device) != SUCCESS;
        match work {
            Work::Record { event, ticket } => {
                if let Some(event) = self.streams.events.get_mut(&event) {
                    event.done = event.done.max(ticket);
                    event.time = Some(Instant::now());
                }
            }
            Work::Wait { event, ticket } => self.reach(event, ticket),
            _ if stopped => {}
            Work::Launch(launch) => {
                self.launches += 1;
                let seed = self.random();
                if let Some(fault) = launch.run(seed) {
                    let status = if fault.starts_with("illegal") { ILLEGAL_ADDRESS } else { LAUNCH_FAILED };
                    self.stop(device, status, &fault);
                }
            }
            Work::Copy { to, from, bytes } => {
                let from = match &from {
                    Source::Address(address) => std::ptr::with_exposed_provenance::<u8>(*address),
                    Source::Bytes(bytes) => bytes.as_ptr(),
                };
                // SAFETY: both ranges were checked when the work was enqueued, and freeing memory waits for its device.
                unsafe { std::ptr::copy(from, std::ptr::with_exposed_provenance_mut(to), bytes) };
            }
            Work::Fill { to, pattern, count } => {
                for n in 0..count {
                    // SAFETY: as above.
                    unsafe {
                        let to = std::ptr::with_exposed_provenance_mut::<u8>(to + n * pattern.len());
                        to.copy_from_nonoverlapping(pattern.as_ptr(), pattern.len());
                    }
                }
            }
        }
        true
    }
}
