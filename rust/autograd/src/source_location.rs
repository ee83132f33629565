//! The line of the user's program that made a call: recorded in a few nanoseconds, decoded only for an error message.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

/// A code object's number and an instruction offset in it; zero if unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SourceLocation {
    pub code: u32,
    pub offset: u32,
}

/// How Python reports the current line.
pub struct SourceLocator {
    /// The current location; `SourceLocation::default()` if there is none. Called for every node and every in-place change, on
    /// any thread and under locks: it must be fast and must not block.
    pub here: fn() -> SourceLocation,
    /// As text: file, line, function.
    pub describe: fn(SourceLocation) -> Option<String>,
    /// The whole stack, the outermost frame first, one per line. Slow, and takes the GIL.
    pub trace: fn() -> Option<String>,
    /// Warns at the user's line. Where warnings are errors it writes to stderr, so that the error in backward is the one that is
    /// raised.
    pub announce: fn(&str),
}

static SOURCE_LOCATOR: OnceLock<SourceLocator> = OnceLock::new();

/// Installs Python's source locator; the first one stays.
pub fn set_source_locator(locator: SourceLocator) {
    let _ = SOURCE_LOCATOR.set(locator);
}

/// The origin of a node that was made under anomaly detection.
pub(crate) struct Origin {
    /// The stack of the forward call.
    pub lines: Option<String>,
    /// The node in whose derivative it was made.
    pub induced_by: Option<Arc<Inducer>>,
}

/// A node whose derivative runs under anomaly detection.
pub(crate) struct Inducer {
    pub name: String,
    pub origin: Option<Arc<Origin>>,
}

thread_local! {
    static INDUCER: RefCell<Option<Arc<Inducer>>> = const { RefCell::new(None) };
}

/// Restores the node whose derivative this thread runs, when it is dropped.
pub(crate) struct InducerGuard(Option<Arc<Inducer>>);

impl InducerGuard {
    /// Nodes that this thread makes from now on are made in the derivative of this one.
    pub(crate) fn begin(name: &str, origin: Option<Arc<Origin>>) -> InducerGuard {
        let inducer = Arc::new(Inducer { name: name.to_owned(), origin });
        InducerGuard(INDUCER.replace(Some(inducer)))
    }
}

impl Drop for InducerGuard {
    fn drop(&mut self) {
        let ended = INDUCER.replace(self.0.take());
        drop(ended);
    }
}

/// The origin of a node that is made now.
pub(crate) fn origin() -> Arc<Origin> {
    let lines = SOURCE_LOCATOR.get().and_then(|locator| (locator.trace)());
    Arc::new(Origin { lines, induced_by: INDUCER.with_borrow(Option::clone) })
}

pub(crate) fn announce(message: &str) {
    if let Some(locator) = SOURCE_LOCATOR.get() {
        (locator.announce)(message);
    }
}

impl SourceLocation {
    #[inline]
    pub fn here() -> SourceLocation {
        SOURCE_LOCATOR.get().map_or(SourceLocation::default(), |locator| (locator.here)())
    }

    pub fn describe(self) -> Option<String> {
        if self == SourceLocation::default() {
            return None;
        }
        SOURCE_LOCATOR.get().and_then(|locator| (locator.describe)(self))
    }

    pub(crate) fn pack(self) -> u64 {
        u64::from(self.code) << 32 | u64::from(self.offset)
    }

    pub(crate) fn unpack(packed: u64) -> SourceLocation {
        SourceLocation { code: (packed >> 32) as u32, offset: packed as u32 }
    }
}
