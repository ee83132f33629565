//! The active `vmap`s of a thread.

use std::cell::RefCell;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use rushlight_core::fork::{ForkMutex, Rank};

use crate::interceptors::Triggers;

/// The behaviour of random operators inside a `vmap`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Randomness {
    Error,
    Different,
    Same,
}

/// One active `vmap`.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    pub number: i64,
    pub size: isize,
    pub randomness: Randomness,
}

/// No level is used twice, so that a tensor that outlives its `vmap` is never mistaken for that of another one.
static NEXT: AtomicI64 = AtomicI64::new(1);

/// The levels of all threads that have not ended; tasks of other threads may compute with tensors of a `vmap`.
static OPEN: ForkMutex<Vec<i64>> = ForkMutex::new(Rank::Tables, Vec::new());

thread_local! {
    static LEVELS: RefCell<Vec<Level>> = const { RefCell::new(Vec::new()) };
}

/// Begins a `vmap` over `size` samples; returns its level.
pub fn enter(size: isize, randomness: Randomness) -> i64 {
    let number = NEXT.fetch_add(1, Relaxed);
    OPEN.lock().push(number);
    LEVELS.with_borrow_mut(|levels| levels.push(Level { number, size, randomness }));
    Triggers::VMAP.enter();
    number
}

/// Ends a `vmap`, and those inside it that were not ended.
pub fn leave(number: i64) {
    let ended: Vec<i64> = LEVELS.with_borrow_mut(|levels| {
        let first = levels.iter().position(|level| level.number >= number).unwrap_or(levels.len());
        levels.drain(first..).map(|level| level.number).collect()
    });
    OPEN.lock().retain(|open| !ended.contains(open));
    Triggers::VMAP.leave(ended.len());
}

/// Whether a level has not ended.
pub fn is_open(number: i64) -> bool {
    OPEN.lock().contains(&number)
}

/// The active `vmap`s of this thread, the outermost first.
pub fn current() -> Vec<Level> {
    LEVELS.with_borrow(Vec::clone)
}

pub fn inside() -> bool {
    LEVELS.with_borrow(|levels| !levels.is_empty())
}

/// Runs `work` as if outside of every `vmap`.
pub fn outside<R>(work: impl FnOnce() -> R) -> R {
    among(Vec::new(), work)
}

/// Runs `work` as if outside of one `vmap`.
pub fn without<R>(number: i64, work: impl FnOnce() -> R) -> R {
    among(current().into_iter().filter(|level| level.number != number).collect(), work)
}

/// Runs `work` with exactly these levels active.
fn among<R>(levels: Vec<Level>, work: impl FnOnce() -> R) -> R {
    struct Restore(Vec<Level>);
    impl Drop for Restore {
        fn drop(&mut self) {
            LEVELS.set(std::mem::take(&mut self.0));
        }
    }
    let _restore = Restore(LEVELS.replace(levels));
    work()
}
