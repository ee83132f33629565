//! Helpers for tests. The level is a setting of the process, so tests that change it run one at a time.

use crate::{Level, machine_level, set_level};
use std::sync::{Mutex, MutexGuard, PoisonError};

static TURN: Mutex<()> = Mutex::new(());

pub fn lock_level() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `test` at every level of this machine.
pub fn for_each_level(mut test: impl FnMut(Level)) {
    let _guard = lock_level();
    for level in Level::ALL.into_iter().filter(|&l| l <= machine_level()) {
        set_level(level);
        test(level);
    }
    set_level(Level::V4);
}
