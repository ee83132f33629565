//! The state of a call: under way, done, or failed.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rushlight_core::{Error, Result};

/// What a finished call tells: for a receive, the rank that sent.
pub type Outcome = Result<Option<usize>>;

#[derive(Default)]
pub struct Work {
    outcome: Mutex<Option<Outcome>>,
    changed: Condvar,
}

impl Work {
    fn lock(&self) -> MutexGuard<'_, Option<Outcome>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the work; the first outcome stands.
    pub fn finish(&self, outcome: Outcome) {
        self.lock().get_or_insert(outcome);
        self.changed.notify_all();
    }

    pub fn fail(&self, error: Error) {
        self.finish(Err(error));
    }

    pub fn outcome(&self) -> Option<Outcome> {
        self.lock().clone()
    }

    /// Waits at most for `patience`.
    pub fn wait(&self, patience: Duration) -> Option<Outcome> {
        let outcome = self.lock();
        let still = |outcome: &mut Option<Outcome>| outcome.is_none();
        self.changed.wait_timeout_while(outcome, patience, still).unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}
