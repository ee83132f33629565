//! Whether a thread is inside of a parallel loop: loops within it run inline.

use std::cell::Cell;

use rushlight_core::sync;

sync::thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is a worker, or a caller that runs its own loop.
pub(crate) fn is_inside() -> bool {
    INSIDE.with(Cell::get)
}

/// Runs `f` as part of a parallel loop: nested loops run inline.
pub(crate) fn enter<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            INSIDE.with(|inside| inside.set(self.0));
        }
    }
    let _restore = Restore(INSIDE.with(|inside| inside.replace(true)));
    f()
}

pub(crate) fn set(inside: bool) {
    INSIDE.with(|own| own.set(inside));
}
