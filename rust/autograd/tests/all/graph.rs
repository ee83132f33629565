//! Gradients of small graphs: of leaves, of inputs, of gradients; and what is refused.

use crate::toy::*;
use rushlight_autograd::engine::Options;
use rushlight_autograd::modes::{GradMode, InferenceMode};
use rushlight_autograd::*;
use rushlight_core::{DType, Device, Layout, Storage};

const KEEP: Options = Options { retain_graph: true, create_graph: false };

#[test]
fn gradients_of_a_small_graph() {
    let (x, y) = (leaf(&[1.0, 2.0]), leaf(&[3.0, 4.0]));
    let z = add(&mul(&x, &y).unwrap(), &x).unwrap();
    run(&sum(&z).unwrap()).unwrap();
    assert_eq!(grad_of(&x), [4.0, 5.0]);
    assert_eq!(grad_of(&y), [1.0, 2.0]);
    assert_eq!(z.grad_fn().unwrap().unwrap().name(), "AddBackward0");
    assert!(!z.is_leaf() && x.is_leaf());
    // A second graph adds, in place, to the same gradient.
    let kept = x.grad().unwrap();
    run(&sum(&mul(&x, &x).unwrap()).unwrap()).unwrap();
    assert_eq!(grad_of(&x), [6.0, 9.0]);
    assert!(x.grad().unwrap().ptr_eq(&kept));
}

#[test]
fn a_first_gradient_is_never_shared() {
    let (x, y) = (leaf(&[1.0, 2.0]), leaf(&[3.0, 4.0]));
    let weight = tensor(&[1.0, 1.0]);
    backward(&[add(&x, &y).unwrap()], &[Some(weight.clone())], None, Options::default()).unwrap();
    let (a, b) = (x.grad().unwrap(), y.grad().unwrap());
    assert!(
        !a.storage().same(b.storage()) && !a.storage().same(weight.storage()) && !b.storage().same(weight.storage())
    );
}

#[test]
fn a_gradient_lies_in_memory_as_its_leaf() {
    let x = transposed_leaf(2, 3, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    run(&sum(&mul(&x, &x).unwrap()).unwrap()).unwrap();
    assert_eq!(grad_of(&x), [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
    assert_eq!(x.grad().unwrap().layout().strides, x.layout().strides);
}

#[test]
fn gradients_of_gradients() {
    // d3/dx3 of exp(x * x) at 0.5, by hand: (12 x + 8 x^3) exp(x^2)
    let x = leaf(&[0.5]);
    let mut value = sum(&exp(&mul(&x, &x).unwrap()).unwrap()).unwrap();
    for _ in 0..3 {
        value = sum(&grads(&value, &[&x], true)[0]).unwrap();
    }
    assert!((read(&value)[0] - (6.0 + 1.0) * 0.25f64.exp()).abs() < 1e-12);
    assert!(x.grad().is_none());
}

#[test]
fn create_graph_accumulates_recorded_gradients() {
    let x = leaf(&[3.0]);
    let options = Options { retain_graph: true, create_graph: true };
    for _ in 0..2 {
        backward(&[sum(&mul(&x, &mul(&x, &x).unwrap()).unwrap()).unwrap()], &[], None, options).unwrap();
    }
    let first = x.grad().unwrap();
    assert_eq!(read(&first), [54.0]);
    assert_eq!(read(&grads(&sum(&first).unwrap(), &[&x], false)[0]), [36.0]);
}

#[test]
fn a_released_graph_refuses_a_second_walk() {
    let x = leaf(&[1.0, 2.0]);
    let y = sum(&mul(&x, &x).unwrap()).unwrap();
    backward(std::slice::from_ref(&y), &[], None, KEEP).unwrap();
    run(&y).unwrap();
    assert_eq!(grad_of(&x), [4.0, 8.0]);
    let error = run(&y).unwrap_err().to_string();
    assert!(error.starts_with("Trying to backward through the graph a second time (or"), "{error}");
}

#[test]
fn only_the_asked_inputs() {
    let (x, y) = (leaf(&[1.0, 2.0]), leaf(&[3.0, 4.0]));
    let middle = mul(&x, &y).unwrap();
    let out = sum(&mul(&middle, &middle).unwrap()).unwrap();
    let results = grads(&out, &[&middle, &x, &middle, &out], true);
    let results: Vec<_> = results.iter().map(read).collect();
    assert_eq!(results, [vec![6.0, 16.0], vec![18.0, 64.0], vec![6.0, 16.0], vec![1.0]]);
    assert!(x.grad().is_none() && y.grad().is_none());
    backward(std::slice::from_ref(&out), &[], Some(&[y.clone(), middle.clone()]), KEEP).unwrap();
    assert_eq!(grad_of(&y), [6.0, 32.0]);
    assert_eq!(grad_of(&middle), [6.0, 16.0]);
    assert!(x.grad().is_none());
}

#[test]
fn modes() {
    let x = leaf(&[1.0]);
    {
        let _off = GradMode::new(false);
        assert!(!mul(&x, &x).unwrap().requires_grad());
        let _on = GradMode::new(true);
        assert!(mul(&x, &x).unwrap().requires_grad());
    }
    assert!(modes::grad_enabled());
    let inference = {
        let _inference = InferenceMode::new(true);
        assert!(!mul(&x, &x).unwrap().requires_grad());
        clone(&x).unwrap()
    };
    assert!(inference.is_inference());
    let says = |error: rushlight_core::Error, text: &str| assert!(error.to_string().starts_with(text), "{error}");
    says(inference.version().unwrap_err(), "Inference tensors do not track version counter.");
    says(mul(&x, &inference).err().unwrap(), "Inference tensors cannot be saved for backward.");
    says(add_(&inference, &x).unwrap_err(), "Inplace update to inference tensor outside InferenceMode");
    says(inference.set_requires_grad(true).unwrap_err(), "Setting requires_grad=True on inference tensor");
    assert!(add(&x, &inference).unwrap().requires_grad());
}

#[test]
fn wrong_calls_say_what_torch_says() {
    let x = leaf(&[1.0, 2.0]);
    let twice = add(&x, &x).unwrap();
    let fails = |outcome: rushlight_core::Result<()>, text: &str| {
        let error = outcome.unwrap_err().to_string();
        assert!(error.starts_with(text), "{error}");
    };
    fails(run(&tensor(&[1.0])), "element 0 of tensors does not require grad and does not have a grad_fn");
    fails(run(&twice), "grad can be implicitly created only for scalar outputs");
    let shape = backward(std::slice::from_ref(&twice), &[Some(tensor(&[1.0; 4]))], None, KEEP);
    fails(
        shape,
        "Mismatch in shape: grad_output[0] has a shape of torch.Size([4]) and output[0] has a shape of torch.Size([2]).",
    );
    fails(
        backward(std::slice::from_ref(&twice), &[], Some(&[]), KEEP),
        "`inputs` argument to `backward()` cannot be empty.",
    );
    let total = sum(&twice).unwrap();
    let ask = |input: Tensor| grad(std::slice::from_ref(&total), &[input], &[], false, KEEP).map(drop);
    fails(ask(leaf(&[1.0])), "The differentiated Tensor at index 0 appears to not have been used in the graph.");
    fails(ask(tensor(&[1.0])), "One of the differentiated Tensors does not require grad");
    fails(
        grad(std::slice::from_ref(&total), &[], &[], false, KEEP).map(drop),
        "`inputs` argument to `grad()` cannot be empty.",
    );
    assert!(grad(&[total], &[leaf(&[1.0])], &[], true, KEEP).unwrap()[0].is_none());
    fails(twice.set_requires_grad(false), "you can only change requires_grad flags of leaf variables.");
    twice.set_requires_grad(true).unwrap();
    assert!(!twice.is_leaf());
    let whole = Tensor::new(Storage::heap(8).unwrap(), Layout::contiguous(&[1]), DType::I64, Device::Cpu);
    fails(whole.set_requires_grad(true), "only Tensors of floating point dtype can require gradients");
    fails(x.set_grad(Some(x.clone())), "can't assign Variable as its own grad");
    fails(x.set_grad(Some(tensor(&[1.0]))), "attempting to assign a gradient of size '[1]' to a tensor of size '[2]'.");
    fails(
        x.set_grad(Some(whole)),
        "attempting to assign a gradient with dtype 'long int' to a tensor with grad_dtype 'Double'.",
    );
}

#[test]
fn unused_outputs_get_no_gradient_and_detached_tensors_no_history() {
    let x = leaf(&[1.0, 2.0, 3.0, 4.0]);
    let (_, second) = halves(&mul(&x, &x).unwrap());
    assert_eq!(second.output_nr().unwrap(), 1);
    run(&sum(&second).unwrap()).unwrap();
    assert_eq!(grad_of(&x), [0.0, 0.0, 6.0, 8.0]);
    let y = mul(&x, &x).unwrap();
    let detached = y.detach();
    assert!(!detached.requires_grad() && detached.storage().same(y.storage()));
    add_(&detached, &tensor(&[1.0])).unwrap();
    assert_eq!(y.version().unwrap(), 1);
    add_(&y.data(), &tensor(&[1.0])).unwrap();
    assert_eq!(y.version().unwrap(), 1);
    y.detach_().unwrap();
    assert!(y.is_leaf() && !y.requires_grad());
    assert!(second.detach_().is_err());
}
