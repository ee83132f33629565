//! Forks a busy process two hundred times; each child must finish a parallel loop of its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rushlight_par::{parallel_reduce, set_num_threads};

fn work() -> Option<usize> {
    parallel_reduce(200_000, 1000, |range| range.map(|i| i % 7).sum::<usize>(), |a, b| a + b)
}

#[test]
fn children_of_a_busy_process_work() {
    set_num_threads(3);
    let expected = work();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(work(), expected);
                }
            });
        }
        let outcome = std::panic::catch_unwind(|| {
            for round in 0..200 {
                // SAFETY: the child runs only fork-safe code of ours and exits through `_exit`.
                match unsafe { libc::fork() } {
                    -1 => panic!("fork failed"),
                    0 => {
                        let good = (0..3).all(|_| work() == expected);
                        // SAFETY: ends the child without running the test harness's exit code.
                        unsafe { libc::_exit(if good { 0 } else { 1 }) }
                    }
                    child => await_child(child, round),
                }
            }
        });
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
}

fn await_child(child: i32, round: usize) {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let mut status = 0;
        // SAFETY: waits for our own child, with room for its status.
        if unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == child {
            assert_eq!(status, 0, "child {round} failed");
            return;
        }
        if Instant::now() > deadline {
            // SAFETY: kills our own child, which hangs.
            unsafe { libc::kill(child, libc::SIGKILL) };
            panic!("child {round} hung");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
