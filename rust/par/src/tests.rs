//! Loops and sums for several numbers of threads, and after a fork.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// The number of threads is a setting of the process, so tests that change it run one at a time.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> std::sync::MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn pieces(len: usize, grain: usize) -> Vec<Range<usize>> {
    let seen = Mutex::new(Vec::new());
    parallel_for(len, grain, |range| seen.lock().unwrap().push(range));
    let mut seen = seen.into_inner().unwrap();
    seen.sort_by_key(|range| range.start);
    seen
}

#[test]
fn boundaries_do_not_depend_on_threads() {
    let _turn = turn();
    for (len, grain) in [(0, 4), (1, 4), (4, 4), (5, 4), (1000, 7), (10, 0)] {
        set_num_threads(1);
        let expected = pieces(len, grain);
        assert_eq!(expected.iter().map(Range::len).sum::<usize>(), len);
        assert!(expected.iter().all(|range| range.start % grain.max(1) == 0));
        for threads in [2, 3, 7] {
            set_num_threads(threads);
            assert_eq!(pieces(len, grain), expected);
        }
    }
}

#[test]
fn sums_have_the_same_bits() {
    let _turn = turn();
    let values: Vec<f32> = (0..100_003).map(|i| ((i * 7919) % 1013) as f32 * 0.37 - 150.0).collect();
    let sum = || parallel_reduce(values.len(), 1000, |range| values[range].iter().sum::<f32>(), |a, b| a + b);
    set_num_threads(1);
    let expected = sum().map(f32::to_bits);
    for threads in [2, 3, 7] {
        set_num_threads(threads);
        for _ in 0..20 {
            assert_eq!(sum().map(f32::to_bits), expected);
        }
    }
    assert_eq!(parallel_reduce(0, 10, |_| 1, |a, b| a + b), None);
    assert_eq!(
        parallel_reduce(95, 10, |range| format!("{} ", range.start), |a, b| a + &b).unwrap(),
        "0 10 20 30 40 50 60 70 80 90 "
    );
}

#[test]
fn work_is_shared() {
    let _turn = turn();
    set_num_threads(4);
    let names = Mutex::new(std::collections::HashSet::new());
    parallel_tasks(8, |_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        names.lock().unwrap().insert(std::thread::current().id());
    });
    assert!(names.into_inner().unwrap().len() > 1);
}

#[test]
fn nested_loops_run_inline() {
    let _turn = turn();
    set_num_threads(3);
    let count = AtomicUsize::new(0);
    parallel_tasks(10, |_| {
        let outer = std::thread::current().id();
        parallel_tasks(10, |_| {
            assert_eq!(std::thread::current().id(), outer);
            count.fetch_add(1, Ordering::Relaxed);
        });
    });
    assert_eq!(count.into_inner(), 100);
    assert!(!in_parallel_region());
}

#[test]
fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
    let _turn = turn();
    for threads in [1, 4] {
        set_num_threads(threads);
        for bad in [0, 57, 99] {
            let outcome = std::panic::catch_unwind(|| {
                parallel_tasks(100, |task| assert!(task != bad, "task {task} fails"));
            });
            let payload = outcome.unwrap_err();
            assert_eq!(payload.downcast_ref::<String>().unwrap(), &format!("task {bad} fails"));
            assert!(!in_parallel_region());
        }
        assert_eq!(pieces(100, 1).len(), 100);
    }
}

#[test]
fn the_number_of_threads_may_change_at_any_time() {
    let _turn = turn();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let sum = parallel_reduce(10_000, 100, |range| range.sum::<usize>(), |a, b| a + b);
                    assert_eq!(sum, Some(49_995_000));
                }
            });
        }
        for round in 0..200 {
            set_num_threads(1 + round % 5);
        }
    });
}

#[test]
fn a_group_divides_the_default_only() {
    static MEMBERS: AtomicUsize = AtomicUsize::new(2);
    let _turn = turn();
    crate::threads::forget_request();
    let alone = num_threads();
    set_group(&MEMBERS);
    if ["RUSHLIGHT_NUM_THREADS", "OMP_NUM_THREADS"].into_iter().all(|name| std::env::var(name).is_err()) {
        assert_eq!(num_threads(), (alone / 2).max(1));
        MEMBERS.store(1, Ordering::Relaxed);
        assert_eq!(num_threads(), alone);
    }
    set_num_threads(5);
    set_group(&MEMBERS);
    assert_eq!(num_threads(), 5);
}

#[test]
fn helpers_compute_as_their_caller_does() {
    let _turn = turn();
    let denormals_left = || {
        let left = AtomicUsize::new(0);
        parallel_for(10_000, 1, |_| {
            left.fetch_add((std::hint::black_box(f32::MIN_POSITIVE) * 0.5 != 0.0) as usize, Ordering::Relaxed);
        });
        left.into_inner()
    };
    for threads in [1, 4] {
        set_num_threads(threads);
        assert_eq!(denormals_left(), 10_000);
        if set_flush_denormal(true) {
            assert_eq!(denormals_left(), 0);
        }
        set_flush_denormal(false);
        assert_eq!(denormals_left(), 10_000);
    }
}
