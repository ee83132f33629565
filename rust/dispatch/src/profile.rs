//! Events for the profiler: calls, the nodes that a backward pass runs, and named ranges. If it is off, it
//! costs one relaxed load.
//!
//! There is one list for all threads. Several profilers may share it: each takes the events that began after its start.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use once_cell::race::OnceBox;
use rushlight_autograd::{BackwardCall, next_sequence};
use rushlight_core::fork::{ChildHook, ForkMutex, Rank};
use rushlight_core::memory_record::{self, Changes, Moment};
use rushlight_core::{Dims, Result, alloc};
use rushlight_cuda::nvtx::Emitted;

use crate::interceptors::{Rest, Triggers};
use crate::naming::{node_name, step_name};
use crate::operator::{Args, Operator};
use crate::value::{Output, Target, Value};

/// Events beyond this number are counted, but not stored.
const LIMIT: usize = 1 << 20;

/// Whether a profiler, or `emit_nvtx`, asks for the sizes of arguments.
static SHAPES: AtomicBool = AtomicBool::new(false);

/// The source of an event.
#[derive(Clone)]
pub enum Name {
    Operator {
        op: &'static Operator,
        in_place: bool,
    },
    /// The derivative of an operator.
    Node(&'static Operator),
    Given(String),
}

impl Name {
    /// torch's name for it.
    pub fn text(&self) -> String {
        match self {
            Name::Operator { op, in_place } => {
                format!("aten::{}{}", step_name(op), if *in_place { "_" } else { "" })
            }
            Name::Node(op) => node_name(op).to_owned(),
            Name::Given(name) => name.clone(),
        }
    }
}

/// An interval on one thread, in nanoseconds since the first use of the clock.
#[derive(Clone)]
pub struct Event {
    pub name: Name,
    pub thread: u64,
    pub start: u64,
    pub end: u64,
    /// The sizes of a call's arguments, if they are recorded; empty for arguments that are not tensors.
    pub sizes: Vec<Dims>,
    /// The sizes of a call's first result, if those of arguments are recorded.
    pub result: Dims,
    /// The number of the node that the call may have recorded, or of the node that ran.
    pub sequence: Option<u64>,
}

/// The events that a profiler takes.
pub struct Recording {
    pub events: Vec<Event>,
    /// The number of dropped events since the list was last empty.
    pub dropped: usize,
}

struct List {
    events: Vec<Event>,
    dropped: usize,
    /// When each profiler began, and whether it asks for sizes.
    profilers: Vec<(u64, bool)>,
    /// For each `emit_nvtx`, whether it asks for sizes.
    emitters: Vec<bool>,
}

impl List {
    const EMPTY: List = List { events: Vec::new(), dropped: 0, profilers: Vec::new(), emitters: Vec::new() };

    /// Records sizes as long as anyone asks for them.
    fn ask_for_shapes(&self) {
        let asks = self.profilers.iter().any(|(_, shapes)| *shapes) || self.emitters.contains(&true);
        SHAPES.store(asks, Ordering::Relaxed);
    }
}

static LIST: ForkMutex<List> = ForkMutex::new(Rank::Profiler, List::EMPTY);

/// A forked child is not profiled until it starts a profiler itself.
static IN_CHILD: ChildHook = ChildHook::new(|| {
    Triggers::PROFILER.clear();
    memory_record::clear();
    SHAPES.store(false, Ordering::Relaxed);
    let before = std::mem::replace(&mut *LIST.lock(), List::EMPTY);
    before.emitters.iter().for_each(|_| rushlight_cuda::nvtx::emit(false));
});

fn now() -> u64 {
    static FIRST: OnceBox<Instant> = OnceBox::new();
    FIRST.get_or_init(|| Box::new(Instant::now())).elapsed().as_nanos() as u64
}

/// The number of this thread, in the order in which threads first recorded an event.
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

/// The time and this thread.
pub fn moment() -> Moment {
    Moment { time: now(), thread: thread() }
}

/// Whether calls are recorded, or ranges made for NVIDIA's profilers.
#[inline]
pub fn is_on() -> bool {
    Triggers::PROFILER.is_in_use()
}

/// The start of an interval, if a profiler is active.
#[inline]
pub fn begin() -> Option<u64> {
    is_on().then(begin_recorded)
}

#[cold]
fn begin_recorded() -> u64 {
    if memory_record::is_on() {
        alloc::record_here();
    }
    now()
}

/// Ends the interval with that start.
#[inline]
pub fn end(start: Option<u64>, name: impl FnOnce() -> Name) {
    if let Some(start) = start {
        keep(start, name(), Vec::new(), Dims::new(), None);
    }
}

/// Runs the derivative of an operator, and tells how long it took.
#[inline]
pub fn node<T>(op: &'static Operator, call: &BackwardCall, run: impl FnOnce() -> T) -> T {
    let Some(start) = begin() else { return run() };
    let _range = Emitted::begin(|| Name::Node(op).text());
    let result = run();
    keep(start, Name::Node(op), Vec::new(), Dims::new(), Some(call.node.sequence()));
    result
}

/// Whether the sizes of arguments are recorded.
pub fn records_sizes() -> bool {
    SHAPES.load(Ordering::Relaxed)
}

/// Begins or ends to make a range of each call and node for NVIDIA's profilers, with the sizes of arguments if `shapes`.
pub fn emit(begins: bool, shapes: bool) {
    IN_CHILD.register();
    let mut list = LIST.lock();
    if begins {
        list.emitters.push(shapes);
        Triggers::PROFILER.enter();
    } else {
        // A forked child has none.
        let Some(place) = list.emitters.iter().position(|one| *one == shapes) else { return };
        list.emitters.swap_remove(place);
        Triggers::PROFILER.leave(1);
    }
    rushlight_cuda::nvtx::emit(begins);
    list.ask_for_shapes();
}

/// Tells how long a call took.
#[cold]
pub fn intercept(args: Args, target: Target, rest: Rest) -> Result<Output> {
    let name = Name::Operator { op: args.op, in_place: matches!(target, Target::InPlace) };
    let sizes = |value: &Value| value.as_tensor().map_or_else(Dims::new, |tensor| tensor.sizes().clone());
    let shapes = records_sizes();
    let sizes: Vec<Dims> = if shapes { args.values.iter().map(sizes).collect() } else { Vec::new() };
    let _range = Emitted::begin(|| match sizes.as_slice() {
        [] => name.text(),
        sizes => {
            let lists: Vec<&[isize]> = sizes.iter().map(|sizes| &sizes[..]).collect();
            format!("{}, sizes = {lists:?}", name.text())
        }
    });
    let sequence = next_sequence();
    let start = begin_recorded();
    let output = rest.call(args, target);
    let first = output.as_ref().ok().filter(|_| shapes).and_then(|output| output.tensors().first());
    let result = first.map_or_else(Dims::new, |tensor| tensor.sizes().clone());
    keep(start, name, sizes, result, sequence);
    output
}

#[cold]
fn keep(start: u64, name: Name, sizes: Vec<Dims>, result: Dims, sequence: Option<u64>) {
    let end = now();
    let event = Event { name, thread: thread(), start, end, sizes, result, sequence };
    let mut list = LIST.lock();
    if list.profilers.is_empty() {
        return; // the last profiler has stopped meanwhile
    }
    if list.events.len() < LIMIT && list.events.try_reserve(1).is_ok() {
        list.events.push(event);
    } else {
        list.dropped += 1;
    }
}

/// Starts a profiler, which records memory too if asked; returns the time at which it began.
pub fn start(shapes: bool, memory: bool) -> u64 {
    IN_CHILD.register();
    if memory {
        memory_record::start(moment);
        alloc::record_here();
    }
    let mut list = LIST.lock();
    let since = now();
    list.profilers.push((since, shapes));
    list.ask_for_shapes();
    Triggers::PROFILER.enter();
    since
}

/// Ends the record of memory of the profiler that began at `since`: the changes after it.
pub fn stop_memory(since: u64) -> Changes {
    memory_record::stop(since)
}

/// Stops the profiler that began at `since`, and returns the events that began after it.
pub fn stop(since: u64) -> Recording {
    let mut list = LIST.lock();
    if let Some(place) = list.profilers.iter().position(|(start, _)| *start == since) {
        list.profilers.swap_remove(place);
        list.ask_for_shapes();
        Triggers::PROFILER.leave(1);
    }
    let dropped = list.dropped;
    if !list.profilers.is_empty() {
        let events = list.events.iter().filter(|event| event.start >= since).cloned().collect();
        return Recording { events, dropped };
    }
    list.dropped = 0;
    let mut events = std::mem::take(&mut list.events);
    events.retain(|event| event.start >= since);
    Recording { events, dropped }
}
