//! Graphs of many nodes run, and end, on a small stack.

use crate::toy::*;
use rushlight_autograd::*;

const DEPTH: usize = 100_000;

/// Runs on a stack that nested calls would soon exhaust.
fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(128 * 1024).spawn(test).unwrap().join().unwrap();
}

#[test]
fn deep_chains_run_and_end() {
    on_a_small_stack(|| {
        let x = leaf(&[1.0]);
        let one = tensor(&[1.0]);
        let mut y = x.clone();
        for _ in 0..DEPTH {
            // Each node saves the previous output, so that both paths down the chain are deep.
            y = mul(&y, &one).unwrap();
        }
        let second = add(&y, &y).unwrap();
        run(&sum(&second).unwrap()).unwrap();
        assert_eq!(grad_of(&x), [2.0]);
        drop((y, second));
        // Backward does not run: the saved tensors still exist when the chain is dropped.
        let mut y = x.clone();
        for _ in 0..DEPTH {
            y = mul(&y, &x).unwrap();
        }
        drop(y);
    });
}

#[test]
fn deep_chains_of_changes_in_place() {
    on_a_small_stack(|| {
        let x = leaf(&[1.0, 1.0]);
        let y = clone(&x).unwrap();
        for _ in 0..10_000 {
            mul_(&slice(&y, 0, 1), &tensor(&[1.0])).unwrap();
        }
        run(&sum(&y).unwrap()).unwrap();
        assert_eq!(grad_of(&x), [1.0, 1.0]);
    });
}

#[test]
fn wide_graphs_add_in_a_fixed_order() {
    let backward = || {
        let x = leaf(&[0.1]);
        let mut total = mul(&x, &tensor(&[0.0])).unwrap();
        for i in 0..200 {
            total = add(&total, &mul(&x, &tensor(&[0.1 * f64::from(i)])).unwrap()).unwrap();
        }
        run(&sum(&total).unwrap()).unwrap();
        grad_of(&x)[0].to_bits()
    };
    let first = backward();
    assert!((0..20).all(|_| backward() == first));
}

#[test]
fn eight_threads_at_once() {
    let x = leaf(&[1.0, 2.0]);
    let shared = sum(&mul(&mul(&x, &x).unwrap(), &x).unwrap()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..200 {
                    // One graph shared by all threads, and one for each thread.
                    let options = engine::Options { retain_graph: true, create_graph: false };
                    backward(std::slice::from_ref(&shared), &[], None, options).unwrap();
                    run(&sum(&mul(&x, &tensor(&[1.0, 1.0])).unwrap()).unwrap()).unwrap();
                }
            });
        }
    });
    assert_eq!(grad_of(&x), [1600.0 * (3.0 + 1.0), 1600.0 * (12.0 + 1.0)]);
}

#[test]
fn hooks_come_and_go_while_others_walk() {
    let x = leaf(&[1.0]);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..500 {
                    run(&sum(&mul(&x, &x).unwrap()).unwrap()).unwrap();
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..500 {
                    x.register_hook(std::sync::Arc::new(|_| Ok(None))).unwrap().remove();
                }
            });
        }
    });
    assert_eq!(grad_of(&x), [2000.0]);
}
