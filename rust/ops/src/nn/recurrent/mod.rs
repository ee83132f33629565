//! Recurrent networks: cells, which compute one step, and layers of them over sequences.
//!
//! The products of a whole sequence with the input's weights are one product; each step adds the product of the hidden
//! state with its weights, and `gates` computes the elementwise part of the step.
//!
//! The words are torch's, in all layers. A state is the hidden state (hx before a step, hy after it) and, of an LSTM, the cell
//! state (cx, cy); those of all steps are outputs and cells. The gates of an LSTM are i, f, g and o: input, forget, cell and
//! output gate. Those of a GRU are r, z and n: reset, update and new gate. Before they are activated they are sums.
//!
//! `definitions` has the operators for networks. Three paths compute them:
//! - On CUDA, `by_cudnn` gives all layers to cuDNN, if it is installed and takes them, and neither determinism is asked for nor `vmap` runs.
//! - Else `network` runs layer after layer. Two operators have all steps of a layer in one direction: `_lstm_sequence` in
//!   `lstm_sequence` has LSTMs without projection over sequences of one length, on all devices;
//!   `_recurrent_sequence` in `recurrent_sequence` has packed LSTMs without projection, GRUs and RNNs, on CUDA and outside of `vmap`.
//!   On CUDA both make the passes of `passes`, with the kernels of `on_cuda`.
//! - All others run step by step, fused (`network`) or as torch composes them (`composed`).
//!
//! `steps` has what the paths share, `layer` one layer in one direction, and `rerun` the gradients of gradients.

pub mod by_cudnn;
mod composed;
pub mod definitions;
pub mod gates;
mod layer;
pub mod lstm_sequence;
mod network;
mod on_cuda;
mod passes;
pub mod recurrent_sequence;
mod rerun;
mod steps;

use rushlight_autograd::Tensor;
use rushlight_core::{Error, Result};
use rushlight_dispatch::op;
use rushlight_dispatch::operator::{Args, Autocast, DTypes, Derivative, Implementation, Operator, Variants, operator};
use rushlight_dispatch::value::Output;

use self::gates::{GRU_GATES, LSTM_GATES};
use super::linear::LINEAR;
use crate::pointwise::activation::RELU;
use crate::pointwise::arith::ADD;
use crate::pointwise::hyperbolic::TANH;

#[operator]
const CELL: Operator = Operator {
    variants: Variants::FUNCTION,
    dtypes: DTypes::FLOATS,
    autocast: Autocast::LowerPrecision.on_cuda_alone(),
    signature: "(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor",
    derivative: Derivative::CompositeImplicit,
    ..Operator::BASE
};

/// torch's error for a tensor without a dimension `dim`.
#[cold]
fn no_dim(tensor: &Tensor, dim: usize) -> Error {
    if tensor.rank() == 0 {
        return Error::index(format!("Dimension specified as {dim} but tensor has no dimensions"));
    }
    let rank = tensor.rank();
    Error::index(format!("Dimension out of range (expected to be in range of [-{rank}, {}], but got {dim})", rank - 1))
}

fn size(tensor: &Tensor, dim: usize) -> Result<isize> {
    tensor.sizes().get(dim).copied().ok_or_else(|| no_dim(tensor, dim))
}

/// Checks the number of the input's features.
fn check_input(args: &Args) -> Result<()> {
    use RNN_TANH_CELL::*;

    let (wanted, features) = (size(args.tensor(W_IH)?, 1)?, size(args.tensor(INPUT)?, 1)?);
    match features == wanted {
        true => Ok(()),
        false => Err(Error::runtime(format!("input has inconsistent input_size: got {features} expected {wanted}"))),
    }
}

/// Checks the shapes of one step with torch's messages, in its order: `input (N, I)` and each state `(N, H)`.
fn check_step(args: &Args, states: &[&Tensor]) -> Result<()> {
    use RNN_TANH_CELL::*;

    check_input(args)?;
    let (input, w_hh) = (args.tensor(INPUT)?, args.tensor(W_HH)?);
    let rows = size(input, 0)?;
    let hidden = size(w_hh, 1)?;
    for (label, state) in states.iter().enumerate() {
        let batch = size(state, 0)?;
        if rows != batch {
            return Err(Error::runtime(format!(
                "Input batch size {rows} doesn't match hidden{label} batch size {batch}"
            )));
        }
        let width = size(state, 1)?;
        if width != hidden {
            return Err(Error::runtime(format!(
                "hidden{label} has inconsistent hidden_size: got {width}, expected {hidden}"
            )));
        }
    }
    Ok(())
}

/// Checks the numbers of rows of the weights, each kind of cell at its own time.
fn check_weights(args: &Args, gates: isize) -> Result<()> {
    use RNN_TANH_CELL::*;

    let (w_ih, w_hh) = (args.tensor(W_IH)?, args.tensor(W_HH)?);
    let wanted = gates * size(w_hh, 1)?;
    for (name, weight) in [("weight_ih", w_ih), ("weight_hh", w_hh)] {
        let first = size(weight, 0)?;
        if first != wanted {
            return Err(Error::runtime(format!(
                "{name} first dim must be {gates} * hidden_size = {wanted}, but got {first}"
            )));
        }
    }
    Ok(())
}

/// The product of the input with its weight, and the bias. The order of the two products is torch's, because backward
/// reverses it.
fn of_input(args: &Args) -> Result<Tensor> {
    use RNN_TANH_CELL::*;

    op!(LINEAR, args.tensor(INPUT)?, args.tensor(W_IH)?, args.optional_tensor(B_IH))
}

/// The same for the hidden state.
fn of_hidden(args: &Args, hx: &Tensor) -> Result<Tensor> {
    use RNN_TANH_CELL::*;

    op!(LINEAR, hx, args.tensor(W_HH)?, args.optional_tensor(B_HH))
}

fn simple_cell(args: &Args, activation: &'static Operator) -> Result<Output> {
    let hx = args.tensor(RNN_TANH_CELL::HX)?;
    check_weights(args, 1)?;
    check_step(args, &[hx])?;
    let products = of_hidden(args, hx)?;
    op!(activation, &op!(ADD, &of_input(args)?, &products)?).map(Output::Tensor)
}

#[operator]
pub static RNN_TANH_CELL: Operator = Operator {
    name: "rnn_tanh_cell",
    doc: "One step of a recurrent network.

    out = tanh(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh)

Shapes: input `(N, I)`, hx and result `(N, H)`, w_ih `(H, I)`, w_hh `(H, H)`, biases `(H)`.

    >>> x = torch.ones(1, 1)
    >>> torch.rnn_tanh_cell(x, x, x, x)
    tensor([[0.9640]])",
    implementation: Implementation::CompositeImplicit(|args| simple_cell(args, &TANH)),
    samples: &["t(2, 3), t(2, 4), t(4, 3), t(4, 4)", "t(2, 3), t(2, 4), t(4, 3), t(4, 4), t(4), t(4)"],
    errors: &[
        ("t(2, 5), t(2, 4), t(4, 3), t(4, 4)", "RuntimeError", "input has inconsistent input_size: got 5 expected 3"),
        (
            "t(2, 3), t(2, 5), t(4, 3), t(4, 4)",
            "RuntimeError",
            "hidden0 has inconsistent hidden_size: got 5, expected 4",
        ),
        ("t(2, 3), t(3, 4), t(4, 3), t(4, 4)", "RuntimeError", "Input batch size 2 doesn't match hidden0 batch size 3"),
        (
            "t(3), t(4), t(4, 3), t(4, 4)",
            "IndexError",
            "Dimension out of range (expected to be in range of [-1, 0], but got 1)",
        ),
    ],
    reference: "np.tanh(input @ w_ih.T + hx @ w_hh.T + (0 if b_ih is None else b_ih + b_hh))",
    ..CELL
};

#[operator]
pub static RNN_RELU_CELL: Operator = Operator {
    name: "rnn_relu_cell",
    doc: "One step of a recurrent network.

    out = relu(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh)

Shapes: input `(N, I)`, hx and result `(N, H)`, w_ih `(H, I)`, w_hh `(H, H)`, biases `(H)`.

    >>> x = torch.ones(1, 1)
    >>> torch.rnn_relu_cell(x, x, x, x)
    tensor([[2.]])",
    implementation: Implementation::CompositeImplicit(|args| simple_cell(args, &RELU)),
    samples: &["t(2, 3), t(2, 4), t(4, 3), t(4, 4)", "t(2, 3), t(2, 4), t(4, 3), t(4, 4), t(4), t(4)"],
    errors: &[(
        "t(2, 5), t(2, 4), t(4, 3), t(4, 4)",
        "RuntimeError",
        "input has inconsistent input_size: got 5 expected 3",
    )],
    reference: "np.maximum(input @ w_ih.T + hx @ w_hh.T + (0 if b_ih is None else b_ih + b_hh), 0)",
    ..CELL
};

#[operator]
pub static GRU_CELL: Operator = Operator {
    name: "gru_cell",
    doc: "One step of a gated recurrent unit. The rows of weights and biases are those of the reset, the update and the new gate.

    r = sigmoid(W_ir @ x + b_ir + W_hr @ h + b_hr)
    z = sigmoid(W_iz @ x + b_iz + W_hz @ h + b_hz)
    n = tanh(W_in @ x + b_in + r * (W_hn @ h + b_hn))
    out = (1 - z) * n + z * h

Shapes: input `(N, I)`, hx and result `(N, H)`, w_ih `(3 * H, I)`, w_hh `(3 * H, H)`, biases `(3 * H)`.

    >>> torch.gru_cell(torch.ones(1, 1), torch.ones(1, 1), torch.zeros(3, 1), torch.zeros(3, 1))
    tensor([[0.5000]])",
    implementation: Implementation::CompositeImplicit(|args| {
        let hx = args.tensor(HX)?;
        check_step(args, &[hx])?;
        check_weights(args, 3)?;
        let input = of_input(args)?;
        op!(GRU_GATES, &input, &of_hidden(args, hx)?, hx).map(Output::Tensor)
    }),
    samples: &["t(2, 3), t(2, 2), t(6, 3), t(6, 2)", "t(2, 3), t(2, 2), t(6, 3), t(6, 2), t(6), t(6)"],
    errors: &[(
        "t(2, 3), t(2, 5), t(6, 3), t(6, 2)",
        "RuntimeError",
        "hidden0 has inconsistent hidden_size: got 5, expected 2",
    )],
    reference: "(lambda s, x, h: (lambda z, n: (hx - n) * z + n)(s(x[1] + h[1]), np.tanh(x[2] + s(x[0] + h[0]) * h[2])))(lambda x: 1 / (1 + np.exp(-x)), np.split(input @ w_ih.T + (0 if b_ih is None else b_ih), 3, -1), np.split(hx @ w_hh.T + (0 if b_hh is None else b_hh), 3, -1))",
    ..CELL
};

#[operator]
pub static LSTM_CELL: Operator = Operator {
    name: "lstm_cell",
    signature: "(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> (Tensor, Tensor)",
    doc: "One step of a long short-term memory, from and to a hidden state and a cell state. The rows of weights and biases are those of
the input, the forget, the cell and the output gate.

    i, f, g, o = W_i @ x + b_i + W_h @ h + b_h
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    h = sigmoid(o) * tanh(c)

Shapes: input `(N, I)`, both of hx and both results `(N, H)`, w_ih `(4 * H, I)`, w_hh `(4 * H, H)`, biases `(4 * H)`.

    >>> h = torch.ones(1, 1)
    >>> torch.lstm_cell(h, (h, h), torch.zeros(4, 1), torch.zeros(4, 1))
    (tensor([[0.2311]]), tensor([[0.5000]]))",
    implementation: Implementation::CompositeImplicit(|args| {
        let states = args.tensors(HX)?;
        let [hx, cx] = states[..] else { return Err(Error::runtime("lstm_cell expects two hidden states")) };
        check_input(args)?;
        check_weights(args, 4)?;
        check_step(args, &states)?;
        let products = of_hidden(args, hx)?;
        LSTM_GATES.call([op!(ADD, &of_input(args)?, &products)?.into(), cx.into()])
    }),
    samples: &[
        "t(2, 3), [t(2, 2), t(2, 2)], t(8, 3), t(8, 2)",
        "t(2, 3), [t(2, 2), t(2, 2)], t(8, 3), t(8, 2), t(8), t(8)",
    ],
    errors: &[
        ("t(2, 3), [t(2, 2)], t(8, 3), t(8, 2)", "RuntimeError", "lstm_cell expects two hidden states"),
        (
            "t(2, 3), [t(2, 2), t(2, 3)], t(8, 3), t(8, 2)",
            "RuntimeError",
            "hidden1 has inconsistent hidden_size: got 3, expected 2",
        ),
    ],
    ..CELL
};
