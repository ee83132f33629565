//! A forked child of a busy process can use the tensors on which other threads of the parent worked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::toy::*;
use rushlight_autograd::Tensor;

fn work(x: &Tensor) -> bool {
    let y = clone(x).unwrap();
    mul_(&slice(&y, 0, 1), &tensor(&[2.0])).unwrap();
    x.register_hook(std::sync::Arc::new(|_| Ok(None))).unwrap().remove();
    run(&sum(&mul(&y, x).unwrap()).unwrap()).is_ok() && x.grad().is_some()
}

#[test]
fn children_of_a_busy_process_walk() {
    let x = leaf(&[1.0, 2.0]);
    assert!(work(&x));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    assert!(work(&x));
                }
            });
        }
        let hung = (0..200).find(|_| !child_ends(|| (0..5).all(|_| work(&x))));
        stop.store(true, Ordering::Relaxed);
        assert_eq!(hung, None);
    });
}

/// Whether a forked child finds `task` true within five seconds.
fn child_ends(task: impl Fn() -> bool) -> bool {
    // SAFETY: the child runs only fork-safe code of ours and exits through `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork failed");
    if child == 0 {
        let good = task();
        // SAFETY: ends the child without running the test harness's exit code.
        unsafe { libc::_exit(i32::from(!good)) };
    }
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let mut status = 0;
        // SAFETY: waits for our own child, with room for its status.
        if unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == child {
            return status == 0;
        }
        if Instant::now() > deadline {
            // SAFETY: kills and reaps our own child, which hangs.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, &mut status, 0);
            }
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
