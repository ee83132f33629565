//! Tasks beside their caller: each runs once, its result arrives whole, and who waits is woken or told why not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use loom::thread;

use super::number::Number;
use crate::future::{Future, Progress};
use crate::model::Model;
use crate::process::{Side, fork};
use crate::{deadlock, executor, futex};

pub const MODELS: &[Model] = &[
    Model { name: "task-and-waiter", preemptions: 3, run: || one_task(false) },
    Model { name: "task-and-waiter-without-patience", preemptions: 2, run: || one_task(true) },
    Model { name: "task-of-two-waiters", preemptions: 2, run: two_waiters },
    Model { name: "task-without-waiter", preemptions: 2, run: || nobody_waits(false) },
    Model { name: "task-while-idle-threads-go", preemptions: 2, run: || nobody_waits(true) },
    Model { name: "task-panics", preemptions: 2, run: panics },
    Model { name: "task-deadlock", preemptions: 2, run: deadlock },
    Model { name: "task-after-close", preemptions: 2, run: closing },
    Model { name: "task-while-forking", preemptions: 2, run: forking },
    Model { name: "task-in-a-child", preemptions: 3, run: child },
];

const PATIENCE: Duration = Duration::from_secs(1);

/// As `wait` of Python does it: run it unless somebody has begun, then sleep until it is done.
fn result<T: Send + Sync + Copy>(future: &Future<T>) -> T {
    future.run();
    loop {
        match future.wait(PATIENCE) {
            Progress::Done => break,
            Progress::Waiting => thread::yield_now(),
            other => panic!("{other:?}"),
        }
    }
    *future.get().expect("done").as_ref().expect("no panic")
}

fn task() -> (Arc<Number>, Arc<Future<usize>>) {
    let number = Arc::new(Number::new());
    let inside = number.clone();
    let future = executor::fork(move || {
        inside.add(1);
        7
    });
    (number, future)
}

fn one_task(impatient: bool) {
    if impatient {
        futex::lose_patience();
    }
    let (number, future) = task();
    assert_eq!(result(&future), 7);
    assert_eq!(number.get(), 1);
    assert!(executor::close(PATIENCE));
}

fn two_waiters() {
    let (number, future) = task();
    let (same, again) = (number.clone(), future.clone());
    let other = thread::spawn(move || {
        assert_eq!(result(&again), 7);
        assert_eq!(same.get(), 1);
    });
    assert_eq!(result(&future), 7);
    assert_eq!(number.get(), 1);
    other.join().expect("no panic");
    assert!(executor::close(PATIENCE));
}

/// A task that nobody waits for is run, also one that comes when a thread is just leaving.
fn nobody_waits(impatient: bool) {
    if impatient {
        futex::lose_patience();
    }
    for _ in 0..2 {
        let (number, future) = task();
        while future.get().is_none() {
            thread::yield_now();
        }
        assert_eq!(number.get(), 1);
    }
    assert!(executor::close(PATIENCE));
}

fn panics() {
    let future = executor::fork(|| -> u8 { std::panic::resume_unwind(Box::new("on purpose")) });
    future.run();
    while future.wait(PATIENCE) != Progress::Done {
        thread::yield_now();
    }
    let payload = future.get().expect("done").as_ref().expect_err("it panicked");
    assert_eq!(payload.downcast_ref::<String>().map(String::as_str), Some("on purpose"));
    assert!(executor::close(PATIENCE));
}

/// Two tasks that wait for each other: the one that would complete the cycle gets an error, and neither sleeps for
/// ever.
fn deadlock() {
    let futures: [Arc<std::sync::OnceLock<Arc<Future<bool>>>>; 2] = Default::default();
    let deadlocks = Arc::new(AtomicUsize::new(0));
    for own in 0..2 {
        let (others, deadlocks) = (futures.clone(), deadlocks.clone());
        let future = Arc::new(Future::new(Box::new(move || {
            let other = others[1 - own].get().expect("both are there");
            loop {
                match other.wait(PATIENCE) {
                    Progress::Deadlock => {
                        deadlocks.fetch_add(1, Relaxed);
                        return true;
                    }
                    Progress::Done => return false,
                    _ => thread::yield_now(),
                }
            }
        })));
        assert!(futures[own].set(future).is_ok());
    }
    let second = futures[1].get().expect("set").clone();
    let thread = thread::spawn(move || second.run());
    futures[0].get().expect("set").run();
    thread.join().expect("no panic");
    assert_eq!(deadlocks.load(Relaxed), 1);
    // They hold each other.
    for future in &futures {
        assert!(future.get().is_some_and(|future| future.get().is_some()));
    }
}

/// Whatever the end of the queue leaves is run by who waits for it, and no thread stays.
fn closing() {
    let other = thread::spawn(|| {
        let (number, future) = task();
        assert_eq!(result(&future), 7);
        assert_eq!(number.get(), 1);
    });
    assert!(executor::close(PATIENCE));
    other.join().expect("no panic");
    let future = executor::fork(deadlock::this_thread);
    assert_eq!(result(&future), deadlock::this_thread());
}

/// The process goes on when it was forked in the middle of a task.
fn forking() {
    let (number, future) = task();
    fork(Side::Parent, || ());
    assert_eq!(result(&future), 7);
    assert_eq!(number.get(), 1);
    assert!(executor::close(PATIENCE));
}

/// A child finds a task that nobody has begun, one that is done, or one that runs where it was forked. The parent's thread is not
/// one of the executor, whose count a child begins anew.
fn child() {
    let number = Arc::new(Number::new());
    let begun = Arc::new(AtomicUsize::new(0));
    let (inside, begins) = (number.clone(), begun.clone());
    let future = Arc::new(Future::new(Box::new(move || {
        begins.store(1, Relaxed);
        inside.add(1);
    })));
    let parents = future.clone();
    let thread = thread::spawn(move || parents.run());
    let (begun, done) = fork(Side::Child, || (begun.load(Relaxed) == 1, future.get().is_some()));
    future.run();
    match future.wait(PATIENCE) {
        Progress::Done => assert_eq!(number.get(), 1),
        Progress::Elsewhere => assert!(!done),
        // In a model the parent's thread may begin after the fork what in truth nobody would.
        other => assert!(!begun, "{other:?}"),
    }
    thread.join().expect("no panic");
}
