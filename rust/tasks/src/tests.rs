//! Tasks run once each, and their waiters get the result or the failure.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use super::{Future, Progress, fork};

fn result<T: Send + Sync + Copy>(future: &Future<T>) -> T {
    future.run();
    loop {
        match future.wait(Duration::from_secs(1)) {
            Progress::Done => return *future.get().unwrap().as_ref().unwrap(),
            Progress::Waiting => {}
            other => panic!("{other:?}"),
        }
    }
}

fn tree(depth: u32) -> u64 {
    if depth == 0 {
        return 1;
    }
    let (left, right) = (fork(move || tree(depth - 1)), fork(move || tree(depth - 1)));
    result(&left) + result(&right)
}

#[test]
fn tasks_run_once() {
    let count = Arc::new(AtomicUsize::new(0));
    let futures: Vec<_> = (0..1000)
        .map(|i| {
            let count = count.clone();
            fork(move || {
                count.fetch_add(1, Ordering::Relaxed);
                i
            })
        })
        .collect();
    assert_eq!(futures.iter().map(|future| result(future)).sum::<usize>(), 499_500);
    assert_eq!(count.load(Ordering::Relaxed), 1000);
}

#[test]
fn more_nested_tasks_than_threads() {
    assert_eq!(tree(10), 1024);
}

#[test]
fn sleeping_tasks_overlap() {
    let meeting = Arc::new(std::sync::Barrier::new(4));
    let futures: Vec<_> = (0..4)
        .map(|_| {
            let meeting = meeting.clone();
            // Returns only when all four tasks have arrived.
            fork(move || meeting.wait().is_leader())
        })
        .collect();
    while futures.iter().any(|future| future.get().is_none()) {
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(futures.iter().filter(|future| result(future)).count(), 1);
}

#[test]
fn a_panic_arrives() {
    let future = fork(|| -> u8 { panic!("on purpose") });
    future.run();
    while future.wait(Duration::from_secs(1)) != Progress::Done {}
    let payload = future.get().unwrap().as_ref().unwrap_err();
    assert_eq!(payload.downcast_ref::<String>().unwrap(), "on purpose");
}

#[test]
fn who_waits_for_himself_is_told() {
    static OWN: OnceLock<Arc<Future<bool>>> = OnceLock::new();
    let future = fork(|| OWN.wait().wait(Duration::from_secs(60)) == Progress::Deadlock);
    assert!(OWN.set(future.clone()).is_ok());
    assert!(result(&future));
}

#[test]
fn modes_travel_with_the_task() {
    let _off = rushlight_autograd::modes::GradMode::new(false);
    let future = fork(rushlight_autograd::modes::grad_enabled);
    while future.get().is_none() {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(!result(&future));
}
