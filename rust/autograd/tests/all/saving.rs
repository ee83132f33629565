//! Saved tensors: changes after they were saved, hooks that pack them, and their release.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::toy::*;
use rushlight_autograd::modes::{GradMode, set_anomaly};
use rushlight_autograd::saved::{Packed, SavedTensorHooks, pop_hooks, push_hooks};
use rushlight_autograd::*;
use rushlight_core::Result;

#[test]
fn a_changed_output_names_both_lines() {
    at_line(10);
    let x = leaf(&[1.0, 2.0, 3.0]);
    at_line(11);
    let y = exp(&x).unwrap();
    at_line(12);
    add_(&y, &tensor(&[1.0])).unwrap();
    for line in 13..=14 {
        at_line(line);
        add_(&y, &tensor(&[1.0])).unwrap();
    }
    let error = run(&sum(&y).unwrap()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "one of the variables needed for gradient computation has been modified by an inplace operation: [torch.DoubleTensor [3]], which is output 0 of Exp, is at version 3; expected version 0 instead. Hint: enable anomaly detection to find the operation that failed to compute its gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False).\n  changed in place at program.py, line 12\n  the derivative needs its old value: make a new tensor there (y = y + 1, not y += 1), or change a clone()\n  in ExpBackward0, the derivative of the call at program.py, line 11"
    );
    at_line(0);
}

#[test]
fn a_changed_input_is_found_also_through_views_and_detach() {
    let x = leaf(&[1.0, 2.0, 3.0]);
    let change: [fn(&Tensor); 3] = [
        |y| add_(y, &tensor(&[1.0])).unwrap(),
        |y| add_(&slice(y, 0, 1), &tensor(&[1.0])).unwrap(),
        |y| add_(&y.detach(), &tensor(&[1.0])).unwrap(),
    ];
    for change in change {
        let y = clone(&x).unwrap();
        let z = mul(&y, &x).unwrap();
        change(&y);
        let error = run(&sum(&z).unwrap()).unwrap_err().to_string();
        assert!(error.contains("is at version 1; expected version 0 instead."), "{error}");
    }
    let y = clone(&x).unwrap();
    let z = mul(&y, &x).unwrap();
    let _off = GradMode::new(false);
    add_(&y.data(), &tensor(&[1.0])).unwrap();
    run(&sum(&z).unwrap()).unwrap_err();
    let _on = GradMode::new(true);
    run(&sum(&mul(&y, &x).unwrap()).unwrap()).unwrap();
}

#[test]
fn what_is_saved_is_released_as_soon_as_used() {
    let x = leaf(&[1.0, 2.0]);
    let y = clone(&x).unwrap();
    let weak = y.downgrade();
    let z = sum(&mul(&y, &y).unwrap()).unwrap();
    drop(y);
    assert!(weak.upgrade().is_some());
    run(&z).unwrap();
    assert!(weak.upgrade().is_none());
}

#[test]
fn a_saved_output_makes_no_cycle() {
    let x = leaf(&[1.0, 2.0]);
    let y = exp(&x).unwrap();
    let (weak, node) = (y.downgrade(), Arc::downgrade(&y.grad_fn().unwrap().unwrap()));
    drop(y);
    assert!(weak.upgrade().is_none() && node.upgrade().is_none());
}

struct Counting {
    packed: AtomicUsize,
    unpacked: AtomicUsize,
}

impl SavedTensorHooks for Counting {
    fn pack(&self, tensor: Tensor) -> Result<Packed> {
        self.packed.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(read(&tensor)))
    }
    fn unpack(&self, packed: &Packed) -> Result<Tensor> {
        self.unpacked.fetch_add(1, Ordering::Relaxed);
        Ok(tensor(packed.downcast_ref::<Vec<f64>>().unwrap()))
    }
}

#[test]
fn saved_tensors_may_be_packed() {
    let hooks = Arc::new(Counting { packed: AtomicUsize::new(0), unpacked: AtomicUsize::new(0) });
    let x = leaf(&[1.0, 2.0]);
    push_hooks(hooks.clone());
    let y = sum(&exp(&mul(&x, &x).unwrap()).unwrap()).unwrap();
    pop_hooks();
    let first = grads(&y, &[&x], true).remove(0);
    assert_eq!(read(&first), [2.0 * 1f64.exp(), 4.0 * 4f64.exp()]);
    let second = grads(&sum(&first).unwrap(), &[&x], false).remove(0);
    assert_eq!(read(&second), [6.0 * 1f64.exp(), 18.0 * 4f64.exp()]);
    assert_eq!(hooks.packed.load(Ordering::Relaxed), 3);
    assert!(hooks.unpacked.load(Ordering::Relaxed) >= 3);
}

#[test]
fn anomaly_detection_names_the_function() {
    let x = leaf(&[f64::INFINITY]);
    let y = sum(&mul(&x, &tensor(&[0.0])).unwrap()).unwrap();
    let z = mul(&y, &sum(&x).unwrap()).unwrap();
    set_anomaly(true, true);
    let error = run(&z);
    assert_eq!(error.unwrap_err().sentence(), "Function 'MulBackward0' returned nan values in its 1th output.");
    let without = "Error detected in MulBackward0. No forward pass information available. Enable detect anomaly during forward pass for more information.";
    assert_eq!(warnings(), [without]);
    at_line(7);
    let z = mul(&mul(&x, &tensor(&[0.0])).unwrap(), &x).unwrap();
    at_line(0);
    let error = run(&sum(&z).unwrap());
    set_anomaly(false, true);
    assert!(error.is_err());
    let with = "Error detected in MulBackward0. Traceback of forward call that caused the error:\nprogram.py, line 7";
    assert_eq!(warnings(), [with]);
}
