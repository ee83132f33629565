//! Hooks of tensors and nodes: their order, what they may return, and what becomes of their errors.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::toy::*;
use rushlight_autograd::engine::{Options, queue_callback};
use rushlight_autograd::*;
use rushlight_core::Error;
use smallvec::smallvec;

#[test]
fn the_order_is_torchs() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = |what: &'static str| {
        let seen = seen.clone();
        move || seen.lock().unwrap().push(what)
    };
    let x = leaf(&[1.0, 2.0]);
    let y = mul(&x, &tensor(&[3.0])).unwrap();
    let node = y.grad_fn().unwrap().unwrap();
    let (post, pre, tensor_hook, after) = (note("post"), note("pre"), note("tensor"), note("after accumulate"));
    node.hooks().post.add(Arc::new(move |_, _| {
        post();
        Ok(None)
    }));
    node.hooks().pre.add(Arc::new(move |grads| {
        pre();
        let doubled = mul(grads[0].as_ref().unwrap(), &tensor(&[2.0]))?;
        Ok(Some(smallvec![Some(doubled)]))
    }));
    y.retain_grad().unwrap();
    y.register_hook(Arc::new(move |grad| {
        tensor_hook();
        grad.map(|grad| add(grad, &tensor(&[1.0]))).transpose()
    }))
    .unwrap();
    x.register_post_accumulate_grad_hook(Arc::new(move |leaf| {
        after();
        assert!(leaf.grad().is_some());
        Ok(())
    }))
    .unwrap();
    run(&sum(&y).unwrap()).unwrap();
    assert_eq!(*seen.lock().unwrap(), ["tensor", "pre", "post", "after accumulate"]);
    assert_eq!(grad_of(&y), [2.0, 2.0]);
    assert_eq!(grad_of(&x), [12.0, 12.0]);
}

#[test]
fn a_leafs_hooks_outlive_its_graphs_and_can_be_removed() {
    let x = leaf(&[1.0]);
    let handle = x.register_hook(Arc::new(|grad| grad.map(|grad| mul(grad, &tensor(&[10.0]))).transpose())).unwrap();
    for expected in [10.0, 20.0] {
        run(&sum(&x).unwrap()).unwrap();
        assert_eq!(grad_of(&x), [expected]);
    }
    assert_eq!(read(&grads(&sum(&x).unwrap(), &[&x], false)[0]), [10.0]);
    handle.remove();
    run(&sum(&x).unwrap()).unwrap();
    assert_eq!(grad_of(&x), [21.0]);
}

#[test]
fn hooks_are_checked() {
    let x = leaf(&[1.0, 2.0]);
    let y = add(&x, &x).unwrap();
    y.register_hook(Arc::new(|_| Ok(Some(tensor(&[1.0; 7]))))).unwrap();
    assert_eq!(run(&sum(&y).unwrap()).unwrap_err().sentence(), "hook '<unknown>' has changed the size of value");
    let plain = tensor(&[1.0]);
    let refused = plain.register_hook(Arc::new(|_| Ok(None))).err().unwrap();
    assert_eq!(refused.sentence(), "cannot register a hook on a tensor that doesn't require gradient");
    let refused = y.register_post_accumulate_grad_hook(Arc::new(|_| Ok(()))).err().unwrap();
    assert_eq!(refused.sentence(), "post accumulate grad hooks cannot be registered on non-leaf tensors");
    assert_eq!(plain.retain_grad().unwrap_err().sentence(), "can't retain_grad on Tensor that has requires_grad=False");
}

#[test]
fn a_foreign_exception_passes_unchanged() {
    let x = leaf(&[1.0]);
    let y = add(&x, &x).unwrap();
    y.register_hook(Arc::new(|_| Err(Error::foreign(Arc::new(42u8))))).unwrap();
    let exception = run(&sum(&y).unwrap()).unwrap_err().take_foreign().unwrap();
    assert_eq!(exception.downcast_ref::<u8>(), Some(&42));
}

#[test]
fn callbacks_run_at_the_end_of_their_own_walk() {
    let x = leaf(&[1.0]);
    let y = add(&x, &x).unwrap();
    let outer = Arc::new(AtomicUsize::new(0));
    let count = outer.clone();
    y.register_hook(Arc::new(move |_| {
        let count = count.clone();
        queue_callback(Box::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }))?;
        // A nested backward pass, as checkpointing makes it.
        let _recording = modes::GradMode::new(true);
        let inner = leaf(&[2.0]);
        run(&sum(&mul(&inner, &inner)?)?)?;
        assert_eq!(grad_of(&inner), [4.0]);
        Ok(None)
    }))
    .unwrap();
    run(&sum(&y).unwrap()).unwrap();
    assert_eq!(outer.load(Ordering::Relaxed), 1);
    let refused = queue_callback(Box::new(|| Ok(()))).unwrap_err();
    assert_eq!(refused.sentence(), "Final callbacks can only be installed during backward pass.");
}

/// A function with the results that the test sets.
struct Fixed(Vec<Option<Tensor>>);

impl Backward for Fixed {
    fn name(&self) -> &str {
        "FixedBackward"
    }
    fn apply(&self, _: &BackwardCall<'_>, _: Gradients) -> rushlight_core::Result<Gradients> {
        Ok(self.0.iter().cloned().collect())
    }
    fn release(&self) {}
}

#[test]
fn results_are_validated() {
    let outcome = |results: Vec<Option<Tensor>>| {
        let x = leaf(&[1.0, 2.0, 3.0]);
        let y = tensor(&[0.0]);
        record(Fixed(results), &[Some(&x)], &[&y]).unwrap();
        backward(&[y], &[], None, Options::default()).map(|()| x.grad().map(|grad| read(&grad)))
    };
    let says = |results, text: &str| assert_eq!(outcome(results).unwrap_err().sentence(), text);
    says(vec![], "function FixedBackward returned an incorrect number of gradients (expected 1, got 0)");
    let three = || Some(tensor(&[1.0; 3]));
    says(
        vec![three(), three()],
        "function FixedBackward returned an incorrect number of gradients (expected 1, got 2)",
    );
    says(
        vec![Some(tensor(&[1.0; 5]))],
        "Function FixedBackward returned an invalid gradient at index 0 - got [5] but expected shape compatible with [3]",
    );
    assert_eq!(outcome(vec![three(), None]).unwrap(), Some(vec![1.0; 3]));
    assert_eq!(outcome(vec![None]).unwrap(), None);
    assert_eq!(outcome(vec![Some(matrix(2, 3, &[1.0]))]).unwrap(), Some(vec![2.0; 3]));
}
