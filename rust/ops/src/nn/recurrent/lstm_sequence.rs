//! A layer of long short-term memory over a whole sequence of one length, fused forward and backward.

use rushlight_autograd::Tensor;
use rushlight_core::dtype::default_dtype;
use rushlight_core::layout::Shape;
use rushlight_core::{DType, Error, Layout, Result, Scalar};
use rushlight_cpu::float::Float;
use rushlight_cpu::linalg::matmul::GemmElement;
use rushlight_cpu::nn::recurrent::sequence::{Backward, Forward, Sequence};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operands::{plain, settle, workplace};
use rushlight_dispatch::operator::{
    Args, BackwardContext, BatchRule, BatchedCall, DTypes, Derivative, Implementation, Joint, Kernel, OnCuda, Operator,
    Saves, TensorSpec, Variants, operator,
};
use rushlight_dispatch::value::{Arg, Output, Value, sizes_value};
use rushlight_dispatch::variants::check_cast;
use rushlight_dispatch::vmap::{self, RuleResult, split_batch};
use rushlight_dispatch::{create, op};

use super::gates::{first, joined, parts};
use super::passes::{Gradients, Pass, Results, Steps};
use super::steps::Kind;
use crate::expr_ext::ExprExt;
use crate::join::cat::{CAT, STACK};
use crate::linalg::matrix::BMM;
use crate::view::RESHAPE;
use crate::view::narrow::{NARROW, sliced};
use crate::view::squeeze::UNSQUEEZE;
use crate::view::transpose::TRANSPOSE;

#[operator]
pub static LSTM_SEQUENCE: Operator = Operator {
    name: "_lstm_sequence",
    variants: Variants::FUNCTION,
    signature: "(Tensor products, Tensor hx, Tensor cx, Tensor w_hh, bool backwards) -> (Tensor, Tensor, Tensor)",
    doc: "The outputs, cells and gates of all steps of a long short-term memory.

Shapes: products of the input with its weights `(T, N, 4 * H)`, hx and cx `(N, H)`, w_hh `(4 * H, H)`; outputs and cells
`(T, N, H)`, activated gates `(T, N, 4 * H)`. With `backwards` the last step is the first.

    >>> h = torch.ones(1, 1)
    >>> torch._lstm_sequence(torch.zeros(1, 1, 4), h, h, torch.zeros(4, 1), False)[:2]
    (tensor([[[0.2311]]]), tensor([[[0.5000]]]))",
    dtypes: DTypes::FLOATS,
    batch_rule: BatchRule::Custom(batched_lstm),
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let products = args.tensor(PRODUCTS)?;
            if !products.dtype().is_differentiable() {
                check_cast(default_dtype(), products.dtype())?;
            }
            let [steps, rows, width] = sizes(args, [PRODUCTS, HX, CX, W_HH])?;
            let spec = |times: isize| TensorSpec::new(&[steps, rows, times * width], products.dtype(), products);
            Ok(vec![spec(1), spec(1), spec(4)])
        },
        cpu: |args, results| match results[0].dtype().compute() {
            DType::F32 => run::<f32>(args, results),
            DType::F64 => run::<f64>(args, results),
            dtype => Err(Error::unsupported("lstm", dtype)),
        },
        cuda: OnCuda::Own(|args, results| {
            let sizes = sizes(args, [PRODUCTS, HX, CX, W_HH])?;
            if results[0].numel() == 0 {
                return Ok(());
            }
            let dtype = results[0].dtype().compute();
            let operands = [PRODUCTS, HX, CX, W_HH].map(|arg| plain(args.tensor(arg)?, dtype));
            let [products, hx, cx, weight] = operands;
            let (products, hx, cx, weight) = (by_rows(&products?), hx?, cx?, weight?);
            let pass = pass(sizes, [&products, &hx, &cx, &weight], args.bool(BACKWARDS)?)?;
            let places = results.iter().map(|result| workplace(result, dtype)).collect::<Result<Vec<_>>>()?;
            let [outputs, cells, gates] = [0, 1, 2].map(|at| by_rows(&places[at]));
            pass.forward(&Results { outputs, cells, gates })?;
            places.iter().zip(results).try_for_each(|(place, result)| settle(place, result))
        }),
    }),
    derivative: Derivative::Joint(Joint {
        inputs: &[PRODUCTS, HX, CX, W_HH],
        saves: Saves::input(HX)
            .union(Saves::input(CX))
            .union(Saves::input(W_HH))
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
    ..Operator::BASE
};

/// Steps, sequences and elements of a state; checks products, both states and weights.
fn sizes(args: &Args, operands: [Arg; 4]) -> Result<[isize; 3]> {
    let [products, hx, cx, weight] = operands.map(|arg| args.tensor(arg));
    let (products, hx, cx, weight) = (products?, hx?, cx?, weight?);
    if let ([steps, rows, gates], [count, width]) = (&products.sizes()[..], &cx.sizes()[..])
        && hx.sizes() == cx.sizes()
        && count == rows
        && *gates == 4 * width
        && weight.sizes()[..] == [*gates, *width]
    {
        return Ok([*steps, *rows, *width]);
    }
    Err(Error::runtime(format!(
        "weights of {} do not fit products of {} and a state of {}",
        Shape(weight.sizes()),
        Shape(products.sizes()),
        Shape(cx.sizes())
    )))
}

/// The tensor of all steps as one of all rows.
fn by_rows(all: &Tensor) -> Tensor {
    let (rows, width) = (all.sizes()[0] * all.sizes()[1], all.sizes()[2]);
    Tensor::view_of(all, Layout { offset: all.layout().offset, ..Layout::contiguous(&[rows, width]) })
}

/// The passes of GPUs over a sequence of one length, from the rows of products, both states and the weight.
fn pass<'a>([steps, rows, _]: [isize; 3], operands: [&'a Tensor; 4], backwards: bool) -> Result<Pass<'a>> {
    let [products, hx, cx, weight] = operands;
    let steps = Steps::new(&vec![rows as i64; steps as usize], backwards)?;
    Ok(Pass { kind: Kind::Lstm, products, hx, cx: Some(cx), weight, bias: None, steps })
}

fn sequence([steps, rows, width]: [isize; 3], backwards: bool) -> Sequence {
    Sequence { steps: steps as usize, rows: rows as usize, width: width as usize, backwards }
}

fn run<T: Float + GemmElement<Sum = T>>(args: &Args, results: &[Tensor]) -> Result<()> {
    use LSTM_SEQUENCE::*;

    let sequence = sequence(sizes(args, [PRODUCTS, HX, CX, W_HH])?, args.bool(BACKWARDS)?);
    if results[0].numel() == 0 {
        return Ok(());
    }
    let given = |arg| args.tensor(arg).and_then(|tensor| plain(tensor, T::DTYPE));
    let operands = [given(PRODUCTS)?, given(HX)?, given(CX)?, given(W_HH)?];
    let place = |at: usize| workplace(&results[at], T::DTYPE);
    let places = [place(0)?, place(1)?, place(2)?];
    {
        let [products, hx, cx, weight] = &operands;
        let pins = (products.storage().pin()?, hx.storage().pin()?, cx.storage().pin()?, weight.storage().pin()?);
        let to = (places[0].storage().pin()?, places[1].storage().pin()?, places[2].storage().pin()?);
        let forward = Forward::<T> {
            products: first(&pins.0, products),
            hx: first(&pins.1, hx),
            cx: first(&pins.2, cx),
            weight: first(&pins.3, weight),
            outputs: first(&to.0, &places[0]),
            cells: first(&to.1, &places[1]),
            gates: first(&to.2, &places[2]),
        };
        // SAFETY: row-major tensors of the compute dtype, whose sizes `infer` has checked; the results are new.
        unsafe { sequence.forward(&forward)? };
    }
    places.iter().zip(results).try_for_each(|(place, result)| settle(place, result))
}

/// The fused gradient. Its own derivative is needed only if the gradient is recorded, and then the gradient is composed
/// instead.
#[operator]
pub static LSTM_SEQUENCE_BACKWARD: Operator = Operator {
    name: "_lstm_sequence_backward",
    variants: Variants::FUNCTION,
    signature: "(Tensor grad_outputs, Tensor? grad_cells, Tensor hx, Tensor cx, Tensor w_hh, Tensor outputs, Tensor cells, Tensor gates, bool backwards) -> (Tensor, Tensor, Tensor, Tensor)",
    doc: "The gradients of products, hx, cx and w_hh in `_lstm_sequence`, computed from those of outputs and cells.

Shapes: as there.

    >>> h, w = torch.ones(1, 1), torch.zeros(4, 1)
    >>> results = torch._lstm_sequence(torch.zeros(1, 1, 4), h, h, w, False)
    >>> torch._lstm_sequence_backward(torch.ones(1, 1, 1), None, h, h, w, *results, False)[2]
    tensor([[0.1966]])",
    dtypes: DTypes::FLOATS,
    batch_rule: BatchRule::Custom(batched_lstm_backward),
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let [steps, rows, width] = sizes(args, [GATES, HX, CX, W_HH])?;
            let all = [steps, rows, width];
            for arg in [GRAD_OUTPUTS, GRAD_CELLS, OUTPUTS, CELLS] {
                if let Some(tensor) = args.optional_tensor(arg)
                    && tensor.sizes()[..] != all
                {
                    return Err(Error::runtime("a gradient does not fit its sequence")
                        .shapes([tensor.sizes().as_slice(), all.as_slice()]));
                }
            }
            let like = args.tensor(GRAD_OUTPUTS)?;
            let spec = |sizes: &[isize]| TensorSpec::new(sizes, like.dtype(), like);
            let state = spec(&[rows, width]);
            Ok(vec![spec(&[steps, rows, 4 * width]), state.clone(), state, spec(&[4 * width, width])])
        },
        cpu: |args, results| match results[0].dtype().compute() {
            DType::F32 => run_backward::<f32>(args, results),
            DType::F64 => run_backward::<f64>(args, results),
            dtype => Err(Error::unsupported("lstm", dtype)),
        },
        cuda: OnCuda::Own(|args, results| {
            let sizes = sizes(args, [GATES, HX, CX, W_HH])?;
            if sizes.contains(&0) {
                return results.iter().try_for_each(|result| create::fill(result, Scalar::Int(0)));
            }
            let dtype = results[0].dtype().compute();
            let places = results.iter().map(|result| workplace(result, dtype)).collect::<Result<Vec<_>>>()?;
            let given = |arg| plain(args.tensor(arg)?, dtype);
            let (hx, cx, weight) = (given(HX)?, given(CX)?, given(W_HH)?);
            let to_products = by_rows(&places[0]);
            // The gradient has the rows of the products, which it does not read.
            let pass = pass(sizes, [&to_products, &hx, &cx, &weight], args.bool(BACKWARDS)?)?;
            let [outputs, cells, gates] = [OUTPUTS, CELLS, GATES].map(|arg| given(arg).map(|tensor| by_rows(&tensor)));
            let found = Results { outputs: outputs?, cells: cells?, gates: gates? };
            let of_outputs = by_rows(&given(GRAD_OUTPUTS)?);
            let of_cells = if args.has_tensor(GRAD_CELLS) { Some(by_rows(&given(GRAD_CELLS)?)) } else { None };
            let [hx, cx, weight] = [1, 2, 3].map(|at| places[at].clone());
            let to = Gradients { products: to_products.clone(), hx, cx: Some(cx), weight };
            pass.backward(&found, [Some(&of_outputs), of_cells.as_ref()], &to)?;
            places.iter().zip(results).try_for_each(|(place, result)| settle(place, result))
        }),
    }),
    derivative: Derivative::NonDifferentiable("if gradients are recorded, the gradient of the sequence is composed"),
    samples: &["t(3, 2, 2), None, t(2, 2), t(2, 2), t(8, 2), t(3, 2, 2), t(3, 2, 2), t(3, 2, 8), False"],
    errors: &[(
        "t(2, 2, 2), None, t(2, 2), t(2, 2), t(8, 2), t(3, 2, 2), t(3, 2, 2), t(3, 2, 8), False",
        "RuntimeError",
        "a gradient does not fit its sequence",
    )],
    ..Operator::BASE
};

fn run_backward<T: Float + GemmElement<Sum = T>>(args: &Args, results: &[Tensor]) -> Result<()> {
    use LSTM_SEQUENCE_BACKWARD::*;

    let sequence = sequence(sizes(args, [GATES, HX, CX, W_HH])?, args.bool(BACKWARDS)?);
    if sequence.steps * sequence.rows * sequence.width == 0 {
        return results.iter().try_for_each(|result| create::fill(result, Scalar::Int(0)));
    }
    let given = |arg| args.tensor(arg).and_then(|tensor| plain(tensor, T::DTYPE));
    let operands =
        [given(GRAD_OUTPUTS)?, given(HX)?, given(CX)?, given(W_HH)?, given(OUTPUTS)?, given(CELLS)?, given(GATES)?];
    let arriving = args.optional_tensor(GRAD_CELLS).map(|tensor| plain(tensor, T::DTYPE)).transpose()?;
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
            grad_cells: match (&arriving, &arriving_pin) {
                (Some(tensor), Some(pin)) => first::<T>(pin, tensor),
                _ => std::ptr::null(),
            },
            hx: from(1),
            cx: from(2),
            weight: from(3),
            outputs: from(4),
            cells: from(5),
            gates: from(6),
            to_products: into(0),
            to_hx: into(1),
            to_cx: into(2),
            to_weight: into(3),
        };
        // SAFETY: row-major tensors of the compute dtype, whose sizes `infer` has checked; the gradients are new.
        unsafe { sequence.backward(&backward)? };
    }
    places.iter().zip(results).try_for_each(|(place, result)| settle(place, result))
}

fn gradients(d: &BackwardContext) -> Result<Vec<Option<Tensor>>> {
    use LSTM_SEQUENCE::*;

    if rushlight_autograd::modes::recording() || d.has_grad(2) {
        return backward_decomposition(d);
    }
    let arriving = if d.has_grad(1) { Some(d.grad_of(1).done()?) } else { None };
    let kept = [d.input(HX), d.input(CX), d.input(W_HH), d.result_of(0), d.result_of(1), d.result_of(2)];
    let mut values: Vec<Value> = vec![d.grad().done()?.into(), arriving.into()];
    for tensor in kept {
        values.push(tensor.done()?.into());
    }
    values.push(d.flag(BACKWARDS).into());
    let found = Args::new(&LSTM_SEQUENCE_BACKWARD, values).call()?.into_tensors();
    Ok(found.into_iter().map(Some).collect())
}

/// The same with operators, step by step.
fn backward_decomposition(d: &BackwardContext) -> Result<Vec<Option<Tensor>>> {
    use LSTM_SEQUENCE::*;

    let [outputs, cells, gates] = [d.result_of(0).done()?, d.result_of(1).done()?, d.result_of(2).done()?];
    let [grad_outputs, grad_cells, grad_gates] = [d.grad_of(0).done()?, d.grad_of(1).done()?, d.grad_of(2).done()?];
    let steps = outputs.sizes()[0];
    let at = |tensor: &Tensor, step: isize| -> Result<Tensor> {
        let one = sliced(tensor, 0, step, 1, 1)?;
        op!(crate::view::RESHAPE, &one, sizes_value(&one.sizes()[1..]))
    };
    let place = |turn: isize| if d.flag(BACKWARDS) { steps - 1 - turn } else { turn };
    let before = |turn: isize, first: Expr, all: &Tensor| {
        if turn == 0 { first } else { Expr::new(at(all, place(turn - 1))) }
    };
    let slope = |gate: Expr| gate.clone() * (1.0 - gate);
    let mut to_hx = d.input(HX).zeros_like();
    let mut to_cx = d.input(CX).zeros_like();
    let mut weight = d.input(W_HH).zeros_like();
    let mut found = Vec::new();
    for turn in (0..steps).rev() {
        let step = place(turn);
        let [i, f, g, o] = parts(at(&gates, step)?)?;
        let [grad_i, grad_f, grad_g, grad_o] = parts(at(&grad_gates, step)?)?;
        let tanh = Expr::new(at(&cells, step)).tanh();
        let to_hy = Expr::new(at(&grad_outputs, step)) + to_hx;
        let through = to_hy.clone() * o.clone() * (1.0 - tanh.clone().square());
        let to_cy = to_cx + Expr::new(at(&grad_cells, step)) + through;
        let to_sums = joined(vec![
            (to_cy.clone() * g.clone() + grad_i) * slope(i.clone()),
            (to_cy.clone() * before(turn, d.input(CX), &cells) + grad_f) * slope(f.clone()),
            (to_cy.clone() * i + grad_g) * (1.0 - g.square()),
            (to_hy * tanh + grad_o) * slope(o),
        ])?;
        to_hx = Expr::from(&to_sums).matmul(d.input(W_HH));
        to_cx = to_cy * f;
        weight = weight + Expr::from(&to_sums).transposed().matmul(before(turn, d.input(HX), &outputs));
        found.push(to_sums);
    }
    if !d.flag(BACKWARDS) {
        found.reverse();
    }
    let products = STACK.tensor([Value::from(found), 0i64.into()])?;
    Ok(vec![Some(products), Some(to_hx.done()?), Some(to_cx.done()?), Some(weight.done()?)])
}

/// `[B, T, N, ..]` as `[T, B * N, ..]`.
fn as_sequences(shown: &Tensor) -> Result<Tensor> {
    let [size, steps, rows, width] = shown.sizes()[..] else { return Err(Error::runtime("no sequences")) };
    op!(RESHAPE, op!(TRANSPOSE, shown, 0i64, 1i64)?, sizes_value(&[steps, size * rows, width]))
}

/// The inverse of `as_sequences`.
fn from_sequences(whole: &Tensor, size: isize) -> Result<Tensor> {
    let [steps, rows, width] = whole.sizes()[..] else { return Err(Error::runtime("no sequences")) };
    op!(TRANSPOSE, op!(RESHAPE, whole, sizes_value(&[steps, size, rows / size, width]))?, 0i64, 1i64)
}

/// Samples that share the weights are more sequences.
fn batched_lstm(batch: &BatchedCall) -> RuleResult {
    use LSTM_SEQUENCE::*;

    if batch.size == 0 || batch.differs_at(W_HH) {
        return Ok(None);
    }
    let [products, hx, cx] = [PRODUCTS, HX, CX].map(|arg| batch.tensor(arg));
    let operands = [as_sequences(&products?)?, vmap::merge_batch(&hx?)?, vmap::merge_batch(&cx?)?, batch.one(W_HH)?]
        .map(Value::Own);
    let values = operands.into_iter().chain([batch.args.bool(BACKWARDS)?.into()]);
    let results = Args::new(batch.args.op, values).call()?.into_tensors();
    let results = results.iter().map(|whole| from_sequences(whole, batch.size)).collect::<Result<_>>()?;
    Ok(Some(Output::Tuple(results)))
}

/// The weights have a gradient for each sample.
fn batched_lstm_backward(batch: &BatchedCall) -> RuleResult {
    use LSTM_SEQUENCE_BACKWARD::*;

    let steps = batch.args.tensor(OUTPUTS)?.sizes()[0] as i64;
    if batch.size == 0 || steps == 0 || batch.differs_at(W_HH) {
        return Ok(None);
    }
    let backwards = batch.args.bool(BACKWARDS)?;
    let sequences = |arg| as_sequences(&batch.tensor(arg)?).map(Value::Own);
    let state = |arg| vmap::merge_batch(&batch.tensor(arg)?).map(Value::Own);
    let arriving = if batch.args.has_tensor(GRAD_CELLS) { sequences(GRAD_CELLS)? } else { Value::None };
    let operands = [
        sequences(GRAD_OUTPUTS)?,
        arriving,
        state(HX)?,
        state(CX)?,
        batch.one(W_HH)?.into(),
        sequences(OUTPUTS)?,
        sequences(CELLS)?,
        sequences(GATES)?,
        backwards.into(),
    ];
    let results = <[Tensor; 4]>::try_from(batch.args.op.call(operands)?.into_tensors());
    let [products, hx, cx, _] = results.map_err(|_| Error::runtime("a sequence without gradients"))?;
    let products = from_sequences(&products, batch.size)?;
    // Each step's product is with the previous output.
    let (first, outputs) = (op!(UNSQUEEZE, batch.tensor(HX)?, 1i64)?, batch.tensor(OUTPUTS)?);
    let others = op!(NARROW, &outputs, 1i64, i64::from(backwards), steps - 1)?;
    let before = op!(CAT, if backwards { vec![others, first] } else { vec![first, others] }, 1i64)?;
    let flat = |of: &Tensor| op!(RESHAPE, of, sizes_value(&[batch.size, -1, of.sizes()[3]]));
    let weight = op!(BMM, op!(TRANSPOSE, flat(&products)?, 1i64, 2i64)?, flat(&before)?)?;
    Ok(Some(Output::Tuple(vec![products, split_batch(&hx, batch.size)?, split_batch(&cx, batch.size)?, weight])))
}
