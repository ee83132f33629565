//! In the place of `core/src/shared/mod.rs`: its files, between whose calls of the real kernel other processes may come.
//!
//! A process of a model is a thread with arenas of its own: claims belong to open file descriptions, and so differ between two
//! arenas of one process as they do between two processes.

#[path = "../../../core/src/shared/arena.rs"]
pub mod arena;
#[path = "../../../core/src/shared/error.rs"]
mod error;
#[path = "../../../core/src/shared/sys.rs"]
mod kernel;
#[path = "../../../core/src/shared/lease.rs"]
mod lease;
#[path = "../../../core/src/shared/ranges.rs"]
mod ranges;
pub mod sys;

/// No model has one.
pub enum SharedBlock {}

impl SharedBlock {
    pub fn as_ptr(&self) -> *mut u8 {
        match *self {}
    }

    pub fn len(&self) -> usize {
        match *self {}
    }
}
