//! Parallel loops: every piece runs once, the caller sees what the helpers wrote, and no helper comes back afterwards.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use loom::thread;

use super::number::Number;
use crate::model::Model;
use crate::pool::Pool;
use crate::process::{Side, fork};
use crate::{fork as registry, inside, job, pool, workers};

pub const MODELS: &[Model] = &[
    Model { name: "loop-of-two", preemptions: 3, run: || loops(1, 2, 1) },
    Model { name: "loop-of-three-workers-two", preemptions: 2, run: || loops(2, 3, 1) },
    Model { name: "loop-after-loop", preemptions: 2, run: || loops(1, 2, 2) },
    Model { name: "loop-panics", preemptions: 2, run: panics },
    Model { name: "loop-of-two-callers", preemptions: 2, run: two_callers },
    Model { name: "loop-while-the-pool-changes", preemptions: 1, run: pool_changes },
    Model { name: "loop-while-forking", preemptions: 2, run: || forked(Side::Parent) },
    Model { name: "loop-in-a-child", preemptions: 2, run: || forked(Side::Child) },
];

fn one_loop(workers: usize, pieces: usize) {
    loop_with(pool::workers(workers).expect("threads are there"), workers, pieces);
}

fn loop_with(pool: Arc<Pool>, workers: usize, pieces: usize) {
    let numbers: Vec<Number> = (0..pieces).map(|_| Number::new()).collect();
    let over = Number::new();
    let helpers = workers.min(pieces - 1);
    job::run(&pool.mailboxes, |helper| pool.spawn(helper), pieces, helpers, &|piece| {
        over.get();
        numbers[piece].add(1);
        assert!(inside::is_inside());
    });
    // Whoever called the body now would meet this.
    over.add(1);
    assert!(numbers.iter().all(|number| number.get() == 1));
    assert!(!inside::is_inside());
}

fn loops(workers: usize, pieces: usize, count: usize) {
    (0..count).for_each(|_| one_loop(workers, pieces));
    workers::end();
}

fn panics() {
    let pool = pool::workers(1).expect("threads are there");
    let over = Number::new();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        job::run(&pool.mailboxes, |helper| pool.spawn(helper), 2, 1, &|piece| {
            over.get();
            if piece == 1 {
                std::panic::resume_unwind(Box::new(piece));
            }
        });
    }));
    over.add(1);
    assert_eq!(outcome.expect_err("a piece panicked").downcast_ref::<usize>(), Some(&1));
    drop(pool);
    one_loop(1, 2);
    workers::end();
}

fn two_callers() {
    let other = thread::spawn(|| one_loop(1, 2));
    one_loop(1, 2);
    other.join().expect("no panic");
    workers::end();
}

/// A loop goes on with the pool that it began with.
fn pool_changes() {
    let pool = pool::workers(1).expect("threads are there");
    let other = thread::spawn(|| loop_with(pool, 1, 2));
    drop(pool::workers(2));
    other.join().expect("no panic");
    workers::end();
}

/// A fork in the middle of a loop; afterwards the process, whichever it is, has a loop of its own.
fn forked(side: Side) {
    let other = thread::spawn(|| one_loop(1, 2));
    fork(side, || ());
    assert_eq!(registry::generation(), u64::from(side == Side::Child));
    one_loop(1, 2);
    other.join().expect("no panic");
    workers::end();
}
