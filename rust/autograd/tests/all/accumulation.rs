//! Gradients of several threads, and the lock under which they are added.

use std::cell::Cell;
use std::sync::Arc;

use crate::toy::*;
use rushlight_autograd::engine::Options;
use rushlight_autograd::*;
use rushlight_core::fork;

fn run_recorded(output: &Tensor) {
    let options = Options { retain_graph: true, create_graph: true };
    backward(std::slice::from_ref(output), &[], None, options).unwrap();
}

/// Additions in place and recorded additions into one gradient at the same time.
#[test]
fn no_gradient_of_another_thread_is_lost() {
    const ROUNDS: usize = 400;
    let x = leaf(&[0.0; 64]);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let x = &x;
            scope.spawn(move || {
                let one = tensor(&[1.0]);
                for _ in 0..ROUNDS {
                    let y = sum(&mul(x, &one).unwrap()).unwrap();
                    if thread % 2 == 0 { run(&y).unwrap() } else { run_recorded(&y) }
                }
            });
        }
    });
    assert_eq!(grad_of(&x), [4.0 * ROUNDS as f64; 64]);
}

#[test]
fn a_stack_is_read_without_a_lock() {
    let x = leaf(&[2.0]);
    modes::set_anomaly(true, false);
    // The locator of these tests fails if a lock is held.
    for _ in 0..2 {
        run_recorded(&mul(&x, &x).unwrap());
    }
    modes::set_anomaly(false, false);
    assert_eq!(grad_of(&x), [8.0]);
}

#[test]
fn a_watcher_is_called_once_for_a_sum_and_without_a_lock() {
    thread_local! { static CALLS: Cell<usize> = const { Cell::new(0) } }
    let x = leaf(&[2.0]);
    mutation_hook::set_mutation_hook(Some(Arc::new(|_| {
        fork::assert_no_lock_held();
        CALLS.set(CALLS.get() + 1);
        Ok(())
    })));
    for calls in 0..3 {
        run(&mul(&x, &tensor(&[3.0])).unwrap()).unwrap();
        assert_eq!(CALLS.get(), calls);
    }
    mutation_hook::set_mutation_hook(None);
    assert_eq!(grad_of(&x), [9.0]);
}
