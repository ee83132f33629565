//! The fork registry: what a child inherits is whole, nobody waits for ever, and every hook runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use loom::thread;

use super::number::Number;
use crate::fork::{ChildHook, ForkMutex, Rank, generation};
use crate::model::Model;
use crate::process::{Side, fork};
use crate::sync;

pub const MODELS: &[Model] = &[
    Model { name: "fork-finds-whole-values", preemptions: 3, run: || values_are_whole(Side::Parent) },
    Model { name: "fork-child-finds-whole-values", preemptions: 3, run: || values_are_whole(Side::Child) },
    Model { name: "fork-while-locks-nest", preemptions: 3, run: locks_nest },
    Model { name: "fork-twice-at-once", preemptions: 2, run: two_forks },
    Model { name: "fork-runs-hooks", preemptions: 3, run: hooks_run },
];

sync::statics! {
    /// Both numbers of a pair change together.
    static OUTER: ForkMutex<(Number, Number)> = ForkMutex::new(Rank::Graph, (Number::new(), Number::new()));
    static INNER: ForkMutex<usize> = ForkMutex::new(Rank::FreeList, 0);
    static PAIR: Arc<(Number, Number)> = Arc::new((Number::new(), Number::new()));
    static GUARDED: ForkMutex<()> = ForkMutex::new(Rank::Tables, ());
    static HOOK: ChildHook = ChildHook::new(count_child);
    static CHILDREN: Arc<AtomicUsize> = Arc::default();
}

fn change() {
    let _guard = GUARDED.lock();
    PAIR.0.add(1);
    thread::yield_now();
    PAIR.1.add(1);
}

fn is_whole() {
    assert_eq!(PAIR.0.get(), PAIR.1.get());
}

/// A lock that is enrolled at any moment of the fork, or was long before.
fn values_are_whole(side: Side) {
    let changer = thread::spawn(|| {
        change();
        change();
    });
    fork(side, is_whole);
    assert_eq!(generation(), u64::from(side == Side::Child));
    change();
    changer.join().expect("no panic");
    is_whole();
    assert_eq!(PAIR.0.get(), 3);
}

/// A thread holds one lock while it enrols and takes another.
fn locks_nest() {
    let nester = thread::spawn(|| {
        let outer = OUTER.lock();
        outer.0.add(1);
        *INNER.lock() += 1;
        outer.1.add(1);
    });
    let other = thread::spawn(|| *INNER.lock() += 1);
    fork(Side::Parent, || ());
    nester.join().expect("no panic");
    other.join().expect("no panic");
    assert_eq!(*INNER.lock(), 2);
}

/// The C library lets two threads into the handlers at once.
fn two_forks() {
    let changer = thread::spawn(change);
    let forker = thread::spawn(|| fork(Side::Parent, is_whole));
    fork(Side::Child, is_whole);
    forker.join().expect("no panic");
    changer.join().expect("no panic");
    assert_eq!(generation(), 1);
}

fn count_child() {
    // Hooks take locks, as the pool's does.
    change();
    CHILDREN.fetch_add(1, Relaxed);
}

/// A hook that was enrolled when the child was made runs there, once.
fn hooks_run() {
    let enrolled = Arc::new(AtomicUsize::new(0));
    let seen = enrolled.clone();
    let thread = thread::spawn(move || {
        HOOK.register();
        enrolled.store(1, Relaxed);
        change();
    });
    let before = fork(Side::Child, || seen.load(Relaxed));
    let ran = CHILDREN.load(Relaxed);
    assert!(ran >= before && ran <= 1, "{ran} of {before}");
    HOOK.register();
    thread.join().expect("no panic");
    fork(Side::Child, is_whole);
    assert_eq!(CHILDREN.load(Relaxed), ran + 1);
}
