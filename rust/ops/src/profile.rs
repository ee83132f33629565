//! Step 8: what a profiler sees of calls, of the nodes that a backward pass runs, and of stretches that programs name. Off,
//! it costs one relaxed load.
//!
//! There is one list for all threads. Several profilers may share it: each takes what began after it did.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use once_cell::race::OnceBox;
use rushlight_core::Dims;
use rushlight_core::fork::{ChildHook, ForkMutex, Rank};

use crate::node::node_name;
use crate::row::Row;
use crate::value::Args;

/// More events than these are counted, and not kept.
const LIMIT: usize = 1 << 20;

static ON: AtomicBool = AtomicBool::new(false);
static SHAPES: AtomicBool = AtomicBool::new(false);

/// What took its time.
#[derive(Clone)]
pub enum Name {
    Operator {
        row: &'static Row,
        in_place: bool,
    },
    /// The derivative of a row.
    Node(&'static Row),
    Given(String),
}

impl Name {
    /// As torch names it.
    pub fn text(&self) -> String {
        match self {
            Name::Operator { row, in_place } => {
                let name = row.flat_name();
                format!("aten::{name}{}", if *in_place { "_" } else { "" })
            }
            Name::Node(row) => node_name(row).to_owned(),
            Name::Given(name) => name.clone(),
        }
    }
}

/// A stretch of time on one thread, in nanoseconds since the first question for the time.
#[derive(Clone)]
pub struct Event {
    pub name: Name,
    pub thread: u64,
    pub start: u64,
    pub end: u64,
    /// The sizes of a call's arguments, where somebody asked for them; empty for what is no tensor.
    pub sizes: Vec<Dims>,
}

/// What a profiler takes with it.
pub struct Taken {
    pub events: Vec<Event>,
    /// How many were too many since the list was last empty.
    pub dropped: usize,
}

struct List {
    events: Vec<Event>,
    dropped: usize,
    profilers: usize,
}

static LIST: ForkMutex<List> = ForkMutex::new(Rank::Profiler, List { events: Vec::new(), dropped: 0, profilers: 0 });

/// A forked child is profiled by nobody before it says so itself.
static IN_CHILD: ChildHook = ChildHook::new(|| {
    ON.store(false, Ordering::Relaxed);
    *LIST.lock() = List { events: Vec::new(), dropped: 0, profilers: 0 };
});

#[inline]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

fn now() -> u64 {
    static FIRST: OnceBox<Instant> = OnceBox::new();
    FIRST.get_or_init(|| Box::new(Instant::now())).elapsed().as_nanos() as u64
}

/// The number of this thread, in the order in which threads were first seen here.
fn thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! { static OWN: Cell<u64> = const { Cell::new(0) } }
    OWN.with(|own| {
        if own.get() == 0 {
            own.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        own.get()
    })
}

/// The beginning of a stretch, if somebody wants to know.
#[inline]
pub fn begin() -> Option<u64> {
    is_on().then(now)
}

/// The end of what had that beginning.
#[inline]
pub fn end(start: Option<u64>, name: impl FnOnce() -> Name, args: Option<&Args>) {
    if let Some(start) = start {
        keep(start, name(), args);
    }
}

#[cold]
fn keep(start: u64, name: Name, args: Option<&Args>) {
    let end = now();
    let sizes = match args {
        Some(args) if SHAPES.load(Ordering::Relaxed) => {
            let sizes = |value: &crate::Value| value.as_tensor().map(|tensor| tensor.sizes().clone());
            args.values.iter().map(|value| sizes(value).unwrap_or_default()).collect()
        }
        _ => Vec::new(),
    };
    let event = Event { name, thread: thread(), start, end, sizes };
    let mut list = LIST.lock();
    if list.profilers == 0 {
        return; // the last profiler stopped meanwhile
    }
    if list.events.len() < LIMIT && list.events.try_reserve(1).is_ok() {
        list.events.push(event);
    } else {
        list.dropped += 1;
    }
}

/// Starts a profiler; the time at which it began.
pub fn start(shapes: bool) -> u64 {
    IN_CHILD.enrol();
    let mut list = LIST.lock();
    list.profilers += 1;
    SHAPES.store(shapes || list.profilers > 1 && SHAPES.load(Ordering::Relaxed), Ordering::Relaxed);
    ON.store(true, Ordering::Relaxed);
    now()
}

/// Stops the profiler that began at `since`, and gives what began after it.
pub fn stop(since: u64) -> Taken {
    let mut list = LIST.lock();
    list.profilers = list.profilers.saturating_sub(1);
    let dropped = list.dropped;
    if list.profilers > 0 {
        let events = list.events.iter().filter(|event| event.start >= since).cloned().collect();
        return Taken { events, dropped };
    }
    ON.store(false, Ordering::Relaxed);
    list.dropped = 0;
    let mut events = std::mem::take(&mut list.events);
    events.retain(|event| event.start >= since);
    Taken { events, dropped }
}
