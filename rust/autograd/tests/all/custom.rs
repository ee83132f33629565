//! Functions of a user: which gradients they get, and what becomes of arguments that they return.

use std::sync::{Arc, Mutex};

use crate::toy::*;
use rushlight_autograd::custom::{CustomCall, Notes, plain_view};
use rushlight_autograd::*;
use rushlight_core::Result;

/// A function of one input: its gradient is that of its first result. It notes which results had a gradient.
#[derive(Clone, Default)]
struct Custom(Arc<Mutex<Vec<bool>>>);

impl Backward for Custom {
    fn name(&self) -> &str {
        "CustomBackward"
    }
    fn apply(&self, _: &BackwardCall<'_>, grads: Gradients) -> Result<Gradients> {
        *self.0.lock().unwrap() = grads.iter().map(Option::is_some).collect();
        Ok(Gradients::from_elem(grads[0].clone(), 1))
    }
    fn release(&self) {}
}

fn finish(input: &Tensor, results: &[Option<Tensor>], notes: &Notes) -> Result<Vec<Option<Tensor>>> {
    let call = CustomCall { inputs: &[Some(input.clone())], results, notes, view: &plain_view };
    call.finish(Some(Custom::default())).map(|(outputs, _)| outputs)
}

fn message(outcome: Result<Vec<Option<Tensor>>>) -> String {
    outcome.expect_err("an error").to_string()
}

#[test]
fn backward_has_a_place_for_every_result() {
    let (x, y, plain) = (leaf(&[1.0, 2.0]), tensor(&[5.0, 6.0]), tensor(&[7.0]));
    let function = Custom::default();
    let notes = Notes { non_differentiable: vec![plain.clone()], ..Notes::default() };
    let results = [Some(y), None, Some(plain)];
    let call = CustomCall { inputs: &[None, Some(x.clone())], results: &results, notes: &notes, view: &plain_view };
    let (outputs, recorded) = call.finish(Some(function.clone())).unwrap();
    assert!(recorded.is_some() && outputs[1].is_none());
    assert!(!outputs[2].as_ref().unwrap().requires_grad());
    run(&sum(outputs[0].as_ref().unwrap()).unwrap()).unwrap();
    assert_eq!(*function.0.lock().unwrap(), [true, false, false]);
    assert_eq!(grad_of(&x), [1.0, 1.0]);
}

#[test]
fn an_input_that_comes_back_unchanged_is_a_view_with_a_history() {
    let x = leaf(&[1.0, 2.0]);
    let outputs = finish(&x, &[Some(x.clone())], &Notes::default()).unwrap();
    let output = outputs[0].as_ref().unwrap();
    assert!(!output.ptr_eq(&x) && output.is_view() && !output.is_leaf() && x.is_leaf());
}

#[test]
fn without_a_function_changes_are_counted_and_nothing_is_recorded() {
    let x = leaf(&[1.0, 2.0]);
    let notes = Notes { dirty: vec![x.clone()], ..Notes::default() };
    let call = CustomCall { inputs: &[Some(x.clone())], results: &[Some(x.clone())], notes: &notes, view: &plain_view };
    let (outputs, recorded) = call.finish(None::<Custom>).unwrap();
    assert!(recorded.is_none() && outputs[0].as_ref().unwrap().ptr_eq(&x) && x.is_leaf());
    assert_eq!(x.version().unwrap(), 1);
}

#[test]
fn a_change_in_place_is_checked() {
    let (x, y) = (leaf(&[1.0, 2.0]), tensor(&[3.0]));
    let dirty = |tensor: &Tensor| Notes { dirty: vec![tensor.clone()], ..Notes::default() };
    let lost = message(finish(&x, &[Some(y.clone())], &dirty(&x)));
    assert!(lost.starts_with("Some elements marked as dirty"), "{lost}");
    let of_a_leaf = message(finish(&x, &[Some(x.clone())], &dirty(&x)));
    assert!(of_a_leaf.starts_with("a leaf Variable that requires grad has been used"), "{of_a_leaf}");
    let view = slice(&clone(&x).unwrap(), 0, 1);
    let of_a_view = message(finish(&view, &[Some(view.clone()), Some(y)], &dirty(&view)));
    assert!(of_a_view.starts_with("If your Function modifies inplace an input that is a view"), "{of_a_view}");
    assert_eq!(x.version().unwrap(), 0);
}

#[test]
fn a_changed_view_passes_its_history_to_its_base() {
    let x = leaf(&[1.0, 2.0]);
    let base = clone(&x).unwrap();
    let view = slice(&base, 0, 1);
    let notes = Notes { dirty: vec![view.clone()], ..Notes::default() };
    finish(&view, &[Some(view.clone())], &notes).unwrap();
    assert_eq!(base.grad_fn().unwrap().unwrap().name(), "torch::autograd::CopySlices");
    run(&sum(&base).unwrap()).unwrap();
    assert_eq!(grad_of(&x), [1.0, 1.0]);
}

#[test]
fn a_saved_result_does_not_keep_itself_alive() {
    let (x, y) = (leaf(&[1.0]), tensor(&[2.0]));
    let notes = Notes { to_save: vec![Some(y.clone()), None, Some(x.clone())], ..Notes::default() };
    let results = [Some(y)];
    let call = CustomCall { inputs: &[Some(x.clone())], results: &results, notes: &notes, view: &plain_view };
    let (outputs, recorded) = call.finish(Some(Custom::default())).unwrap();
    let recorded = recorded.unwrap();
    let node = Arc::downgrade(&recorded.node);
    let saved = recorded.saved;
    assert!(saved[1].is_none());
    let unpacked = BackwardCall::outside(&recorded.node).unpack(saved[0].as_ref().unwrap()).unwrap();
    assert!(unpacked.grad_fn().unwrap().is_some());
    drop((outputs, unpacked, results, notes, recorded.node));
    assert!(node.upgrade().is_none(), "the saved result holds its own node");
    drop(saved);
}
