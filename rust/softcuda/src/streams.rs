//! Queues of work, and events.

use std::collections::{HashMap, VecDeque};
use std::ffi::{c_int, c_uint};
use std::sync::Arc;
use std::time::Instant;

use crate::exchange::Exchange;
use crate::modules::Launch;

/// What is computed, for the counters of tests.
#[derive(Clone, Copy)]
pub enum Library {
    Products,
    Convolutions,
    /// Those that may differ from call to call.
    LooseConvolutions,
    /// Passes of recurrent networks, forward or backward.
    Networks,
    Transforms,
    Factorisations,
}

impl Library {
    pub const ALL: usize = 6;
}

#[derive(Clone)]
pub enum Work {
    Launch(Launch),
    /// What a library computes. An error stops the device.
    Compute(Library, Arc<dyn Fn() -> Result<(), &'static str> + Send + Sync>),
    /// A function of the program.
    Call(Arc<dyn Fn() + Send + Sync>),
    Exchange(Exchange),
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
    /// What runs if the number at an address is not zero.
    If {
        value: usize,
        body: Arc<[Work]>,
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

#[derive(Clone)]
pub enum Source {
    /// Memory that is read when the work runs.
    Address(usize),
    /// Bytes that were read when the work was enqueued, as a driver does with memory that is not page-locked.
    Bytes(Vec<u8>),
}

pub struct Stream {
    pub device: c_int,
    pub priority: c_int,
    pub queue: VecDeque<Work>,
    /// Whether it has exchanged memory with other processes, which do not wait for this process's host.
    pub exchanges: bool,
    /// The multiprocessors on which its work runs; 0 for all.
    pub part: c_uint,
}

pub struct Event {
    pub device: c_int,
    /// Whether other processes use it. They cannot make this one's work run, so that it runs at once.
    pub shared: bool,
    /// The number of records that were enqueued and that have run, and the stream of the last one.
    pub recorded: u64,
    pub done: u64,
    pub stream: usize,
    pub time: Option<Instant>,
    /// Whether the program has destroyed it. What waits for it must still find its record, after which it is removed.
    pub destroyed: bool,
}

#[derive(Default)]
pub struct Streams {
    pub streams: HashMap<usize, Stream>,
    pub events: HashMap<usize, Event>,
    last: usize,
}

/// The key of a stream: the default stream of each device has the handle 0.
fn key(device: c_int, handle: usize) -> usize {
    if handle == 0 { device as usize + 1 } else { handle }
}

impl Streams {
    /// An event that the program has not destroyed.
    pub fn event(&self, handle: usize) -> Option<&Event> {
        self.events.get(&handle).filter(|event| !event.destroyed)
    }

    fn new_handle(&mut self) -> usize {
        self.last = self.last.max(0x10_0000) + 0x10;
        self.last
    }

    pub fn create(&mut self, device: c_int, priority: c_int) -> usize {
        let handle = self.new_handle();
        self.streams.insert(handle, Stream { device, priority, queue: VecDeque::new(), exchanges: false, part: 0 });
        handle
    }

    pub fn create_event(&mut self, device: c_int, shared: bool) -> usize {
        let handle = self.new_handle();
        self.events
            .insert(handle, Event { device, shared, recorded: 0, done: 0, stream: 0, time: None, destroyed: false });
        handle
    }

    pub fn remove(&mut self, handle: usize) {
        self.streams.remove(&handle);
    }

    /// The stream of a handle in the context of a device; `None` if it does not exist or belongs to another device.
    pub fn find(&mut self, device: c_int, handle: usize) -> Option<usize> {
        let key = key(device, handle);
        if handle == 0 {
            self.streams.entry(key).or_insert(Stream {
                device,
                priority: 0,
                queue: VecDeque::new(),
                exchanges: false,
                part: 0,
            });
        }
        self.streams.get(&key).filter(|stream| stream.device == device).map(|_| key)
    }

    pub fn is_idle(&self, stream: usize) -> bool {
        self.streams.get(&stream).is_none_or(|stream| stream.queue.is_empty())
    }

    pub fn keys(&self, device: Option<c_int>) -> Vec<usize> {
        let wanted = self.streams.iter().filter(|(_, stream)| device.is_none_or(|device| stream.device == device));
        let mut keys: Vec<usize> = wanted.map(|(&key, _)| key).collect();
        keys.sort_unstable();
        keys
    }
}
