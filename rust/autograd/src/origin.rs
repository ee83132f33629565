//! Where in the user's program something happened: noted in a few nanoseconds, decoded only for an error message.

use std::sync::OnceLock;

use rushlight_core::Result;

/// A code object's number and an instruction offset in it; zero where nothing is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Origin {
    pub code: u32,
    pub offset: u32,
}

/// How Python tells where it is.
pub struct Locator {
    /// The place that runs now; `Origin::default()` if there is none. Called for every node and every
    /// change in place, on any thread and under locks: it must be quick, and wait for nothing.
    pub here: fn() -> Origin,
    /// In words for people: file, line, function.
    pub describe: fn(Origin) -> Option<String>,
    /// All lines that led here, the outermost first, one below the other. Slow, and it waits for the interpreter.
    pub trace: fn() -> Option<String>,
    /// Warns at the user's line; fails where warnings are errors.
    pub warn: fn(&str) -> Result<()>,
}

static LOCATOR: OnceLock<Locator> = OnceLock::new();

/// Installs Python's locator; the first one stays.
pub fn set_locator(locator: Locator) {
    let _ = LOCATOR.set(locator);
}

/// All lines that led here, where the search for anomalies wants to show them.
pub(crate) fn trace() -> Option<Box<str>> {
    LOCATOR.get().and_then(|locator| (locator.trace)()).map(String::into_boxed_str)
}

pub(crate) fn warn(message: &str) -> Result<()> {
    LOCATOR.get().map_or(Ok(()), |locator| (locator.warn)(message))
}

impl Origin {
    #[inline]
    pub fn here() -> Origin {
        LOCATOR.get().map_or(Origin::default(), |locator| (locator.here)())
    }

    pub fn describe(self) -> Option<String> {
        if self == Origin::default() {
            return None;
        }
        LOCATOR.get().and_then(|locator| (locator.describe)(self))
    }

    pub(crate) fn pack(self) -> u64 {
        u64::from(self.code) << 32 | u64::from(self.offset)
    }

    pub(crate) fn unpack(packed: u64) -> Origin {
        Origin { code: (packed >> 32) as u32, offset: packed as u32 }
    }
}
