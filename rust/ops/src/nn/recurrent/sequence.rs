//! A layer of long short-term memory over a whole sequence of one length, fused forward and backward.

use rushlight_autograd::Tensor;
use rushlight_core::layout::Shape;
use rushlight_core::storage::Pin;
use rushlight_core::{DType, Error, Result, Scalar};
use rushlight_cpu::float::Float;
use rushlight_cpu::linalg::matmul::GemmElement;
use rushlight_cpu::nn::recurrent::sequence::{Backward, Forward, Sequence};

use super::gates::{joined, parts};
use crate::derive::{Derivative, Derive, Joint, Saves};
use crate::expr::Expr;
use crate::join::cat::STACK;
use crate::mapped::Mapped;
use crate::operands::{plain, settle, workplace};
use crate::row::{DTypes, Kernel, Row, Run, Spec, Variants};
use crate::value::{Args, Value};
use crate::view::narrow::sliced;
use crate::view::reshape::sizes_value;

pub static LSTM_SEQUENCE: Row = Row {
    name: "_lstm_sequence",
    variants: Variants::FUNCTION,
    signature: "(Tensor products, Tensor hx, Tensor cx, Tensor w_hh, bool backwards) -> (Tensor, Tensor, Tensor)",
    doc: "The outputs, states and gates of all steps of a long short-term memory.

Shapes: products of the input with its weights `(T, N, 4 * H)`, hx and cx `(N, H)`, w_hh `(4 * H, H)`; outputs and states
`(T, N, H)`, gates as they act `(T, N, 4 * H)`. With `backwards` the last step is the first.

    >>> h = torch.ones(1, 1)
    >>> torch._lstm_sequence(torch.zeros(1, 1, 4), h, h, torch.zeros(4, 1), False)[:2]
    (tensor([[[0.2311]]]), tensor([[[0.5000]]]))",
    dtypes: DTypes::FLOATS,
    mapped: Mapped::Rule(super::mapped::lstm),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let products = args.tensor(0)?;
            let [steps, rows, width] = sizes(args, [0, 1, 2, 3])?;
            let spec = |times: isize| Spec::new(&[steps, rows, times * width], products.dtype(), products);
            Ok(vec![spec(1), spec(1), spec(4)])
        },
        cpu: |args, results| match results[0].dtype().compute() {
            DType::F32 => run::<f32>(args, results),
            DType::F64 => run::<f64>(args, results),
            dtype => Err(Error::unsupported("lstm", dtype)),
        },
    }),
    derivative: Derivative::Joint(Joint {
        inputs: &[0, 1, 2, 3],
        saves: Saves::input(1)
            .union(Saves::input(2))
            .union(Saves::input(3))
            .union(Saves::result(0))
            .union(Saves::result(1))
            .union(Saves::result(2)),
        gradients,
    }),
    samples: &["t(3, 2, 12), t(2, 3), t(2, 3), t(12, 3), False", "t(2, 2, 8), t(2, 2), t(2, 2), t(8, 2), True"],
    errors: &[(
        "t(3, 2, 12), t(2, 3), t(2, 3), t(12, 2), False",
        "RuntimeError",
        "weights of [12, 2] do not fit products of [3, 2, 12] and a state of [2, 3]",
    )],
    ..Row::BASE
};

/// Steps, sequences and elements of a state; checks products, output, state and weights at these places.
fn sizes(args: &Args, places: [usize; 4]) -> Result<[isize; 3]> {
    let [products, output, state, weight] = places.map(|place| args.tensor(place));
    let (products, output, state, weight) = (products?, output?, state?, weight?);
    if let ([steps, rows, gates], [own, width]) = (&products.sizes()[..], &state.sizes()[..])
        && output.sizes() == state.sizes()
        && own == rows
        && *gates == 4 * width
        && weight.sizes()[..] == [*gates, *width]
    {
        return Ok([*steps, *rows, *width]);
    }
    Err(Error::runtime(format!(
        "weights of {} do not fit products of {} and a state of {}",
        Shape(weight.sizes()),
        Shape(products.sizes()),
        Shape(state.sizes())
    )))
}

fn sequence([steps, rows, width]: [isize; 3], backwards: bool) -> Sequence {
    Sequence { steps: steps as usize, rows: rows as usize, width: width as usize, backwards }
}

fn first<T>(pin: &Pin, tensor: &Tensor) -> *mut T {
    pin.as_ptr().cast::<T>().wrapping_offset(tensor.layout().offset)
}

fn run<T: Float + GemmElement<Sum = T>>(args: &Args, results: &[Tensor]) -> Result<()> {
    let own = sequence(sizes(args, [0, 1, 2, 3])?, args.bool(4)?);
    if results[0].numel() == 0 {
        return Ok(());
    }
    let given = |place: usize| args.tensor(place).and_then(|tensor| plain(tensor, T::DTYPE));
    let operands = [given(0)?, given(1)?, given(2)?, given(3)?];
    let place = |at: usize| workplace(&results[at], T::DTYPE);
    let places = [place(0)?, place(1)?, place(2)?];
    {
        let [products, output, state, weight] = &operands;
        let pins =
            (products.storage().pin()?, output.storage().pin()?, state.storage().pin()?, weight.storage().pin()?);
        let to = (places[0].storage().pin()?, places[1].storage().pin()?, places[2].storage().pin()?);
        let forward = Forward::<T> {
            products: first(&pins.0, products),
            output: first(&pins.1, output),
            state: first(&pins.2, state),
            weight: first(&pins.3, weight),
            outputs: first(&to.0, &places[0]),
            states: first(&to.1, &places[1]),
            gates: first(&to.2, &places[2]),
        };
        // SAFETY: row-major tensors of the compute dtype, whose sizes `infer` has checked; the results are fresh.
        unsafe { own.forward(&forward)? };
    }
    places.iter().zip(results).try_for_each(|(place, result)| settle(place, result))
}

/// The fused gradient. A derivative of it is wanted only where the gradient is recorded, and is then composed instead.
pub static LSTM_SEQUENCE_BACKWARD: Row = Row {
    name: "_lstm_sequence_backward",
    variants: Variants::FUNCTION,
    signature: "(Tensor grad_outputs, Tensor? grad_states, Tensor hx, Tensor cx, Tensor w_hh, Tensor outputs, Tensor states, Tensor gates, bool backwards) -> (Tensor, Tensor, Tensor, Tensor)",
    doc: "The gradients of products, hx, cx and w_hh in `_lstm_sequence`, out of those of outputs and states.

Shapes: as there.

    >>> h, w = torch.ones(1, 1), torch.zeros(4, 1)
    >>> results = torch._lstm_sequence(torch.zeros(1, 1, 4), h, h, w, False)
    >>> torch._lstm_sequence_backward(torch.ones(1, 1, 1), None, h, h, w, *results, False)[2]
    tensor([[0.1966]])",
    dtypes: DTypes::FLOATS,
    mapped: Mapped::Rule(super::mapped::lstm_backward),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let [steps, rows, width] = sizes(args, [7, 2, 3, 4])?;
            let all = [steps, rows, width];
            for place in [0, 1, 5, 6] {
                if let Some(tensor) = args.optional_tensor(place)
                    && tensor.sizes()[..] != all
                {
                    return Err(Error::runtime("a gradient does not fit its sequence")
                        .shapes([tensor.sizes().as_slice(), all.as_slice()]));
                }
            }
            let like = args.tensor(0)?;
            let spec = |sizes: &[isize]| Spec::new(sizes, like.dtype(), like);
            let state = spec(&[rows, width]);
            Ok(vec![spec(&[steps, rows, 4 * width]), state.clone(), state, spec(&[4 * width, width])])
        },
        cpu: |args, results| match results[0].dtype().compute() {
            DType::F32 => run_backward::<f32>(args, results),
            DType::F64 => run_backward::<f64>(args, results),
            dtype => Err(Error::unsupported("lstm", dtype)),
        },
    }),
    derivative: Derivative::NonDifferentiable("where gradients are recorded, the gradient of the sequence is composed"),
    samples: &["t(3, 2, 2), None, t(2, 2), t(2, 2), t(8, 2), t(3, 2, 2), t(3, 2, 2), t(3, 2, 8), False"],
    errors: &[(
        "t(2, 2, 2), None, t(2, 2), t(2, 2), t(8, 2), t(3, 2, 2), t(3, 2, 2), t(3, 2, 8), False",
        "RuntimeError",
        "a gradient does not fit its sequence",
    )],
    ..Row::BASE
};

fn run_backward<T: Float + GemmElement<Sum = T>>(args: &Args, results: &[Tensor]) -> Result<()> {
    let own = sequence(sizes(args, [7, 2, 3, 4])?, args.bool(8)?);
    if own.steps * own.rows * own.width == 0 {
        return results.iter().try_for_each(|result| crate::create::fill(result, Scalar::Int(0)));
    }
    let given = |place: usize| args.tensor(place).and_then(|tensor| plain(tensor, T::DTYPE));
    let operands = [given(0)?, given(2)?, given(3)?, given(4)?, given(5)?, given(6)?, given(7)?];
    let arriving = args.optional_tensor(1).map(|tensor| plain(tensor, T::DTYPE)).transpose()?;
    let place = |at: usize| workplace(&results[at], T::DTYPE);
    let places = [place(0)?, place(1)?, place(2)?, place(3)?];
    {
        let pins = operands.iter().map(|tensor| tensor.storage().pin()).collect::<Result<Vec<_>>>()?;
        let arriving_pin = arriving.as_ref().map(|tensor| tensor.storage().pin()).transpose()?;
        let to = places.iter().map(|tensor| tensor.storage().pin()).collect::<Result<Vec<_>>>()?;
        let from = |at: usize| first::<T>(&pins[at], &operands[at]).cast_const();
        let into = |at: usize| first::<T>(&to[at], &places[at]);
        let backward = Backward {
            grad_outputs: from(0),
            grad_states: match (&arriving, &arriving_pin) {
                (Some(tensor), Some(pin)) => first::<T>(pin, tensor),
                _ => std::ptr::null(),
            },
            output: from(1),
            state: from(2),
            weight: from(3),
            outputs: from(4),
            states: from(5),
            gates: from(6),
            to_products: into(0),
            to_output: into(1),
            to_state: into(2),
            to_weight: into(3),
        };
        // SAFETY: row-major tensors of the compute dtype, whose sizes `infer` has checked; the gradients are fresh.
        unsafe { own.backward(&backward)? };
    }
    places.iter().zip(results).try_for_each(|(place, result)| settle(place, result))
}

fn gradients(d: &Derive) -> Result<Vec<Option<Tensor>>> {
    if rushlight_autograd::modes::recording() || d.has_grad(2) {
        return composed(d);
    }
    let arriving = if d.has_grad(1) { Some(d.grad_of(1).done()?) } else { None };
    let kept = [d.input(1), d.input(2), d.input(3), d.result_of(0), d.result_of(1), d.result_of(2)];
    let mut values: Vec<Value> = vec![d.grad().done()?.into(), arriving.into()];
    for tensor in kept {
        values.push(tensor.done()?.into());
    }
    values.push(d.flag(4).into());
    let found = crate::call::call(Args::new(&LSTM_SEQUENCE_BACKWARD, values))?.into_tensors();
    Ok(found.into_iter().map(Some).collect())
}

/// The same out of operators, step by step.
fn composed(d: &Derive) -> Result<Vec<Option<Tensor>>> {
    let [outputs, states, gates] = [d.result_of(0).done()?, d.result_of(1).done()?, d.result_of(2).done()?];
    let [grads, grad_states, grad_gates] = [d.grad_of(0).done()?, d.grad_of(1).done()?, d.grad_of(2).done()?];
    let steps = outputs.sizes()[0];
    let at = |tensor: &Tensor, step: isize| -> Result<Tensor> {
        let one = sliced(tensor, 0, step, 1, 1)?;
        crate::op!(crate::view::RESHAPE, &one, sizes_value(&one.sizes()[1..]))
    };
    let place = |turn: isize| if d.flag(4) { steps - 1 - turn } else { turn };
    let before = |turn: isize, first: Expr, all: &Tensor| {
        if turn == 0 { first } else { Expr::new(at(all, place(turn - 1))) }
    };
    let slope = |gate: Expr| gate.clone() * (1.0 - gate);
    let mut carried = d.input(1).zeros_like();
    let mut kept = d.input(2).zeros_like();
    let mut weight = d.input(3).zeros_like();
    let mut found = Vec::new();
    for turn in (0..steps).rev() {
        let step = place(turn);
        let [enter, keep, fresh, leave] = parts(at(&gates, step)?)?;
        let [of_enter, of_keep, of_fresh, of_leave] = parts(at(&grad_gates, step)?)?;
        let tanh = Expr::new(at(&states, step)).tanh();
        let output = Expr::new(at(&grads, step)) + carried;
        let through = output.clone() * leave.clone() * (1.0 - tanh.clone().square());
        let state = kept + Expr::new(at(&grad_states, step)) + through;
        let moved = joined(vec![
            (state.clone() * fresh.clone() + of_enter) * slope(enter.clone()),
            (state.clone() * before(turn, d.input(2), &states) + of_keep) * slope(keep.clone()),
            (state.clone() * enter + of_fresh) * (1.0 - fresh.square()),
            (output * tanh + of_leave) * slope(leave),
        ])?;
        carried = Expr::from(&moved).matmul(d.input(3));
        kept = state * keep;
        weight = weight + Expr::from(&moved).transposed().matmul(before(turn, d.input(1), &outputs));
        found.push(moved);
    }
    if !d.flag(4) {
        found.reverse();
    }
    let products = STACK.tensor([Value::from(found), 0i64.into()])?;
    Ok(vec![Some(products), Some(carried.done()?), Some(kept.done()?), Some(weight.done()?)])
}
