//! In-place changes of tensors and views, and the histories that they get.

use std::sync::Arc;

use crate::toy::*;
use rushlight_autograd::modes::{GradMode, InferenceMode};
use rushlight_autograd::*;

fn name(tensor: &Tensor) -> String {
    tensor.grad_fn().unwrap().unwrap().name().to_string()
}

fn refuses(outcome: rushlight_core::Result<()>, text: &str) {
    let error = outcome.unwrap_err().to_string();
    assert!(error.starts_with(text), "{error}");
}

#[test]
fn a_tensor_changed_in_place_has_the_change_as_its_history() {
    let (x, y) = (leaf(&[1.0, 2.0]), leaf(&[3.0, 4.0]));
    let z = clone(&x).unwrap();
    mul_(&z, &y).unwrap();
    exp_(&z).unwrap();
    assert_eq!((name(&z), z.version().unwrap()), ("ExpBackward0".into(), 2));
    run(&sum(&z).unwrap()).unwrap();
    assert_eq!(grad_of(&x), [3.0 * 3f64.exp(), 4.0 * 8f64.exp()]);
    assert_eq!(grad_of(&y), [3f64.exp(), 2.0 * 8f64.exp()]);
}

#[test]
fn a_plain_tensor_joins_the_graph() {
    let x = leaf(&[1.0, 2.0]);
    let z = tensor(&[5.0, 6.0]);
    mul_(&z, &x).unwrap();
    assert!(z.requires_grad() && !z.is_leaf());
    run(&sum(&z).unwrap()).unwrap();
    assert_eq!(grad_of(&x), [5.0, 6.0]);
}

#[test]
fn leaves_are_protected() {
    let x = leaf(&[1.0, 2.0]);
    let one = tensor(&[1.0]);
    refuses(add_(&x, &one), "a leaf Variable that requires grad is being used in an in-place operation.");
    refuses(
        add_(&slice(&x, 0, 1), &one),
        "a view of a leaf Variable that requires grad is being used in an in-place operation.",
    );
    let view = slice(&tensor(&[1.0, 2.0]), 0, 1);
    view.set_requires_grad(true).unwrap();
    refuses(add_(&view, &one), "a view of a leaf Variable that requires grad is being used in an in-place operation.");
    let _off = GradMode::new(false);
    add_(&x, &one).unwrap();
    add_(&slice(&x, 0, 1), &one).unwrap();
    assert_eq!((read(&x), x.version().unwrap(), x.is_leaf()), (vec![3.0, 3.0], 2, true));
}

#[test]
fn a_change_of_a_view_changes_the_base() {
    let (x, w) = (leaf(&[1.0, 2.0, 3.0]), leaf(&[10.0, 20.0]));
    let y = mul(&x, &x).unwrap();
    let sibling = slice(&y, 1, 2);
    let view = slice(&y, 0, 2);
    mul_(&view, &w).unwrap();
    assert_eq!(
        (name(&y), name(&view), name(&sibling)),
        ("torch::autograd::CopySlices".into(), "AsStridedBackward0".into(), "AsStridedBackward0".into())
    );
    assert_eq!(name(&view), "AsStridedBackward0");
    let edge = y.grad_fn().unwrap().unwrap().edges()[0].clone().unwrap();
    assert_eq!(edge.node().name(), "MulBackward0");
    run(&sum(&mul(&y, &y).unwrap()).unwrap()).unwrap();
    // y = [10 x0^2, 20 x1^2, x2^2]
    assert_eq!(grad_of(&x), [400.0, 12800.0, 108.0]);
    assert_eq!(grad_of(&w), [20.0, 640.0]);
}

#[test]
fn views_follow_a_changed_base_and_each_other() {
    let x = leaf(&[1.0, 2.0, 3.0]);
    let y = clone(&x).unwrap();
    let (a, b) = (slice(&y, 0, 2), slice(&y, 1, 2));
    let inner = slice(&b, 0, 1);
    mul_(&a, &tensor(&[7.0, 11.0])).unwrap();
    mul_(&inner, &tensor(&[3.0])).unwrap();
    mul_(&y, &tensor(&[2.0])).unwrap();
    // y = [14 x0, 66 x1, 2 x2]
    for (part, expected) in [(&a, [14.0, 66.0, 0.0]), (&b, [0.0, 66.0, 2.0]), (&inner, [0.0, 66.0, 0.0])] {
        assert_eq!(read(&grads(&sum(part).unwrap(), &[&x], true)[0]), expected);
    }
}

#[test]
fn a_plain_base_gets_its_history_from_a_view() {
    let w = leaf(&[5.0, 7.0]);
    let base = tensor(&[1.0, 2.0, 3.0]);
    let (view, other) = (slice(&base, 0, 2), slice(&base, 1, 2));
    assert!(!other.requires_grad() && other.is_leaf());
    mul_(&view, &w).unwrap();
    assert!(base.requires_grad() && other.requires_grad() && !other.is_leaf() && !base.is_leaf());
    run(&sum(&other).unwrap()).unwrap();
    assert_eq!(grad_of(&w), [0.0, 2.0]);
}

#[test]
fn gradients_of_gradients_through_changed_views() {
    // The same function once in place on views and once out of place.
    let in_place = |x: &Tensor| {
        let y = clone(x).unwrap();
        mul_(&slice(&y, 1, 2), &slice(x, 0, 2)).unwrap();
        exp_(&slice(&y, 0, 2)).unwrap();
        sum(&mul(&y, &y).unwrap()).unwrap()
    };
    let plain = |x: &Tensor| {
        let first = exp(&slice(x, 0, 1)).unwrap();
        let second = exp(&mul(&slice(x, 1, 1), &slice(x, 0, 1)).unwrap()).unwrap();
        let third = mul(&slice(x, 2, 1), &slice(x, 1, 1)).unwrap();
        let square = |y: &Tensor| sum(&mul(y, y).unwrap()).unwrap();
        add(&add(&square(&first), &square(&second)).unwrap(), &square(&third)).unwrap()
    };
    let derivatives = |f: &dyn Fn(&Tensor) -> Tensor| {
        let x = leaf(&[0.5, 0.25, 2.0]);
        let first = grads(&f(&x), &[&x], true).remove(0);
        let second = grads(&sum(&mul(&first, &first).unwrap()).unwrap(), &[&x], true).remove(0);
        let third = grads(&sum(&second).unwrap(), &[&x], false).remove(0);
        [read(&first), read(&second), read(&third)].concat()
    };
    for (a, b) in derivatives(&in_place).into_iter().zip(derivatives(&plain)) {
        assert!((a - b).abs() < 1e-9 * b.abs().max(1.0), "{a} {b}");
    }
}

#[test]
fn a_base_of_any_strides() {
    let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let x = transposed_leaf(2, 3, &values);
    let w = transposed_leaf(2, 3, &[1.0; 6]);
    let base = rushlight_autograd::Tensor::new(w.storage().clone(), w.layout().flip(1), w.dtype(), w.device());
    copy_(&base, &x).unwrap();
    let row = as_strided(&base, &base.layout().select(0, 1)).unwrap();
    mul_(&row, &tensor(&[10.0])).unwrap();
    run(&sum(&mul(&base, &base).unwrap()).unwrap()).unwrap();
    assert_eq!(grad_of(&x), [2.0, 4.0, 6.0, 800.0, 1000.0, 1200.0]);
}

#[test]
fn views_without_a_clear_meaning_are_refused() {
    let x = leaf(&[1.0, 2.0, 3.0, 4.0]);
    let one = tensor(&[1.0]);
    let y = clone(&x).unwrap();
    let (first, second) = halves(&y);
    refuses(
        add_(&second, &one),
        "Output 1 of Split is a view and is being modified inplace. This view is the output of a function that returns multiple views.",
    );
    refuses(
        add_(&slice(&first, 0, 1), &one),
        "Output 0 of AsStrided is a view and is being modified inplace. This view is the output of a function that returns multiple views.",
    );
    let plain = halves(&tensor(&[1.0, 2.0])).0;
    refuses(
        add_(&plain, &leaf(&[1.0])),
        "A view was created in no_grad mode and is being modified inplace with grad mode enabled. This view is the output of a function that returns multiple views.",
    );
    add_(&y, &one).unwrap();
    refuses(
        first.grad_fn().map(drop),
        "Output 0 of Split is a view and its base or another view of its base has been modified inplace.",
    );

    let y = clone(&x).unwrap();
    let view = {
        let _off = GradMode::new(false);
        slice(&y, 0, 2)
    };
    refuses(
        add_(&view, &one),
        "A view was created in no_grad mode and is being modified inplace with grad mode enabled.",
    );
    refuses(
        add_(&slice(&view, 0, 1), &one),
        "Output 0 of AsStrided is a view of a view which was created in no_grad mode and is being modified inplace with grad mode enabled.",
    );
    let view = {
        let _inference = InferenceMode::new(true);
        slice(&y, 0, 2)
    };
    refuses(add_(&view, &one), "A view was created in inference mode and is being modified inplace in normal mode.");
    let view = slice(&y, 0, 2);
    view.set_view_kind(ViewKind::CustomFunction);
    refuses(
        add_(&view, &one),
        "Output 0 of AsStrided is a view and is being modified inplace. This view was created inside a custom Function",
    );
}

#[test]
fn a_replayed_view() {
    let x = leaf(&[1.0, 2.0, 3.0]);
    let y = clone(&x).unwrap();
    // The view is made by a function instead of by its geometry; views of it compose.
    let replay: Replay = Arc::new(|base| as_strided(base, &base.layout().flip(0)));
    let view = Tensor::view_with(&y, y.meta_with(y.layout().flip(0)), replay);
    let node = as_strided(&y, &y.layout().flip(0)).unwrap().grad_fn().unwrap().unwrap();
    view.set_history(node, 0);
    let part = slice(&view, 0, 2);
    mul_(&part, &tensor(&[10.0, 100.0])).unwrap();
    assert_eq!(read(&y), [1.0, 200.0, 30.0]);
    assert_eq!(read(&grads(&sum(&y).unwrap(), &[&x], true)[0]), [1.0, 100.0, 10.0]);
    assert_eq!(read(&grads(&sum(&view).unwrap(), &[&x], true)[0]), [1.0, 100.0, 10.0]);
}

#[test]
fn a_kept_gradient_moves_with_the_history() {
    let x = leaf(&[1.0, 2.0]);
    let y = clone(&x).unwrap();
    y.retain_grad().unwrap();
    mul_(&y, &tensor(&[3.0])).unwrap();
    run(&sum(&mul(&y, &tensor(&[5.0])).unwrap()).unwrap()).unwrap();
    assert_eq!(grad_of(&y), [5.0, 5.0]);
    assert_eq!(grad_of(&x), [15.0, 15.0]);
}
