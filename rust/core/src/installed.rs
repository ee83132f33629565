//! What a crate takes from those above it: a table of functions that is installed at start.

use std::sync::atomic::{AtomicPtr, Ordering};

/// The place of a table.
pub struct Installed<T: 'static>(AtomicPtr<T>);

impl<T: Sync> Installed<T> {
    pub const fn nothing() -> Installed<T> {
        Installed(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// Installs a table; a later call replaces it.
    pub fn set(&self, table: &'static T) {
        self.0.store(std::ptr::from_ref(table).cast_mut(), Ordering::Release);
    }

    #[inline]
    pub fn get(&self) -> Option<&'static T> {
        // SAFETY: only `set` stores here, and it stores the address of a value that is never dropped and may be shared.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }
}
