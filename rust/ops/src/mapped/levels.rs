//! The maps that a thread is inside of.

use std::cell::RefCell;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// What random rows give inside a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Randomness {
    Error,
    Different,
    Same,
}

/// One `vmap` that runs.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    pub number: i64,
    pub size: isize,
    pub randomness: Randomness,
}

/// No number is given twice, so that what outlives its map is never taken for another's.
static NEXT: AtomicI64 = AtomicI64::new(1);

thread_local! {
    static LEVELS: RefCell<Vec<Level>> = const { RefCell::new(Vec::new()) };
}

/// Begins a map over so many samples; its number.
pub fn enter(size: isize, randomness: Randomness) -> i64 {
    let number = NEXT.fetch_add(1, Relaxed);
    LEVELS.with_borrow_mut(|levels| levels.push(Level { number, size, randomness }));
    number
}

/// Ends a map, and those inside it that nobody ended.
pub fn leave(number: i64) {
    LEVELS.with_borrow_mut(|levels| levels.retain(|level| level.number < number));
}

/// The maps that this thread is inside of, the outermost first.
pub fn current() -> Vec<Level> {
    LEVELS.with_borrow(Vec::clone)
}

pub fn inside() -> bool {
    LEVELS.with_borrow(|levels| !levels.is_empty())
}

/// Runs `work` as if outside of all maps.
pub fn outside<R>(work: impl FnOnce() -> R) -> R {
    among(Vec::new(), work)
}

/// Runs `work` as if outside of one map.
pub fn without<R>(number: i64, work: impl FnOnce() -> R) -> R {
    among(current().into_iter().filter(|level| level.number != number).collect(), work)
}

/// Runs `work` inside these maps and no other.
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
