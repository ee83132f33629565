//! Where in the user's program something happened: noted in a few nanoseconds, decoded only for an error message.

use std::sync::OnceLock;

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
}

static LOCATOR: OnceLock<Locator> = OnceLock::new();

/// Installs Python's locator; the first one stays.
pub fn set_locator(locator: Locator) {
    let _ = LOCATOR.set(locator);
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
