//! What an allocator has done: each block that was taken and given back, with the lines of Python that asked for it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rushlight_core::device_memory::StreamId;
use rushlight_core::fork::{ForkMutex, Rank};

/// A line of a program, in a function.
#[derive(Clone, Debug)]
pub struct Frame {
    pub file: String,
    pub line: u32,
    pub function: String,
}

/// The lines that led to an action, the innermost first.
pub type Frames = Option<Arc<[Frame]>>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    Alloc,
    FreeRequested,
    FreeCompleted,
    SegmentAlloc,
    SegmentFree,
    Oom,
    Snapshot,
}

impl Action {
    pub const ALL: [Action; 7] = [
        Action::Alloc,
        Action::FreeRequested,
        Action::FreeCompleted,
        Action::SegmentAlloc,
        Action::SegmentFree,
        Action::Oom,
        Action::Snapshot,
    ];

    /// torch's name.
    pub fn name(self) -> &'static str {
        match self {
            Action::Alloc => "alloc",
            Action::FreeRequested => "free_requested",
            Action::FreeCompleted => "free_completed",
            Action::SegmentAlloc => "segment_alloc",
            Action::SegmentFree => "segment_free",
            Action::Oom => "oom",
            Action::Snapshot => "snapshot",
        }
    }
}

/// An action. For `Oom` the address is the number of bytes that the driver still had.
#[derive(Clone, Debug)]
pub struct Entry {
    pub action: Action,
    pub address: usize,
    pub bytes: usize,
    pub stream: StreamId,
    /// The number of the pool.
    pub pool: u64,
    /// Microseconds since 1970.
    pub time: i64,
    pub frames: Frames,
    pub metadata: Arc<str>,
}

/// What is recorded.
#[derive(Clone)]
pub struct Settings {
    /// Actions, besides the lines of blocks that are in use.
    pub actions: bool,
    /// Lines of blocks in use, of their allocations among the actions, and of all other actions.
    pub frames: [bool; 3],
    /// The most actions of a device; older ones are forgotten.
    pub most: usize,
    pub skipped: Vec<Action>,
    pub metadata: Arc<str>,
}

static IS_ON: AtomicBool = AtomicBool::new(false);
static SETTINGS: ForkMutex<Option<Settings>> = ForkMutex::new(Rank::Tables, None);
/// What finds the lines of this thread; a `fn() -> Frames`.
static FIND: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Begins to record, or ends it; `find` tells the lines that this thread runs.
pub fn set(settings: Option<Settings>, find: fn() -> Frames) {
    FIND.store(find as *mut (), Ordering::Release);
    IS_ON.store(settings.is_some(), Ordering::Release);
    *SETTINGS.lock() = settings;
}

/// Sets a text that is kept with later actions.
pub fn set_metadata(text: &str) {
    if let Some(settings) = SETTINGS.lock().as_mut() {
        settings.metadata = text.into();
    }
}

pub fn metadata() -> String {
    SETTINGS.lock().as_ref().map_or_else(String::new, |settings| settings.metadata.to_string())
}

/// What a call records of itself.
pub struct Call {
    settings: Settings,
    frames: Frames,
}

impl Call {
    /// A call that takes memory (`takes`) or gives it back; `None` if nothing is recorded. No lock may be held.
    #[inline]
    pub fn new(takes: bool) -> Option<Call> {
        if IS_ON.load(Ordering::Relaxed) { Call::recorded(takes) } else { None }
    }

    #[cold]
    fn recorded(takes: bool) -> Option<Call> {
        let settings = SETTINGS.lock().clone()?;
        let wanted = if takes { settings.frames[0] } else { settings.frames[2] };
        let find = FIND.load(Ordering::Acquire);
        let frames = if wanted && !find.is_null() {
            // SAFETY: only `set` stores here, and it stores a function of this type.
            unsafe { std::mem::transmute::<*mut (), fn() -> Frames>(find)() }
        } else {
            None
        };
        Some(Call { settings, frames })
    }
}

/// The history of a device's memory.
#[derive(Default)]
pub struct History {
    entries: VecDeque<Entry>,
    /// The lines that asked for the blocks in use, by address.
    blocks: BTreeMap<usize, Frames>,
    /// The call that is being carried out.
    pub call: Option<Call>,
}

impl History {
    /// Records an action of the present call.
    #[inline]
    pub fn note(&mut self, action: Action, address: usize, bytes: usize, stream: StreamId, pool: u64) {
        if let Some(call) = &self.call {
            let entry = Entry {
                action,
                address,
                bytes,
                stream,
                pool,
                time: now(),
                frames: call
                    .frames
                    .clone()
                    .filter(|_| call.settings.frames[if action == Action::Alloc { 1 } else { 2 }]),
                metadata: call.settings.metadata.clone(),
            };
            if action == Action::Alloc {
                self.blocks.insert(address, call.frames.clone());
            }
            if call.settings.actions && !call.settings.skipped.contains(&action) {
                if self.entries.len() >= call.settings.most {
                    self.entries.pop_front();
                }
                if call.settings.most > 0 {
                    self.entries.push_back(entry);
                }
            }
        }
        if action == Action::FreeCompleted {
            self.blocks.remove(&address);
        }
    }

    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// The lines that asked for a block in use.
    pub fn of_block(&self, address: usize) -> Frames {
        self.blocks.get(&address).cloned().flatten()
    }

    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64)
}
