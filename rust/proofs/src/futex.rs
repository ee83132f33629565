//! In the place of `core/src/futex.rs`: the kernel's futex. A sleeper that nobody wakes sleeps for ever, which loom reports,
//! or, where a model says so, its patience ends at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use loom::sync::{Condvar, Mutex};
use loom::thread;

use crate::sync;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};

sync::statics! {
    /// Who sleeps, by the address of the number.
    static SLEEPERS: Mutex<HashMap<usize, Arc<Condvar>>> = Mutex::new(HashMap::new());
    static IMPATIENT: AtomicBool = AtomicBool::new(false);
}

/// From here on nobody sleeps longer than a moment.
pub fn lose_patience() {
    IMPATIENT.store(true, Ordering::SeqCst);
}

pub fn wait(number: &AtomicU32, expected: u32, _: Duration) {
    if IMPATIENT.load(Ordering::SeqCst) {
        return thread::yield_now();
    }
    let mut sleepers = SLEEPERS.lock().expect("nobody panics here");
    // Whoever changes the number wakes afterwards: an old value seen here means that the call is still to come.
    if number.load(Ordering::Relaxed) == expected {
        let bed = sleepers.entry(std::ptr::from_ref(number).addr()).or_insert_with(|| Arc::new(Condvar::new())).clone();
        drop(bed.wait(sleepers));
    }
}

pub fn wake(number: &AtomicU32, count: i32) {
    let sleepers = SLEEPERS.lock().expect("nobody panics here");
    if let Some(bed) = sleepers.get(&std::ptr::from_ref(number).addr()) {
        if count == 1 { bed.notify_one() } else { bed.notify_all() }
    }
}
