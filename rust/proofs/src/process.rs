//! A fork of the process in a model.

use crate::fork as registry;
use crate::sync;

/// Which of the two processes the model goes on as.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Parent,
    Child,
}

/// What `fork` does in the thread that calls it; `at` is called at the moment whose state the child inherits.
///
/// In the model of a child the other threads continue on the same memory, so the child's handlers must be correct
/// whatever these threads do.
pub fn fork<R>(side: Side, at: impl FnOnce() -> R) -> R {
    registry::install();
    let [prepare, parent, child] = sync::fork_handlers();
    prepare();
    let result = at();
    match side {
        Side::Parent => parent(),
        Side::Child => child(),
    }
    result
}
