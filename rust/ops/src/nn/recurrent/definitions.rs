//! The operators `lstm`, `gru`, `rnn_*`: their definitions, and the checks of their arguments.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Error, Result};
use rushlight_dispatch::op;
use rushlight_dispatch::operator::{
    Args, Autocast, Autocasts, BatchRule, DTypes, Derivative, Implementation, Operator, Tags, Variants, operator,
};
use rushlight_dispatch::value::{Arg, Ints, Output};

use super::network::{Network, split_states};
use super::steps::{Kind, State, Weights};
use super::{by_cudnn, size};
use crate::view::transpose::TRANSPOSE;

/// The arguments that all these operators have. Their positions differ if the sequences are packed.
struct Positions {
    hx: Arg,
    params: Arg,
    has_biases: Arg,
    num_layers: Arg,
    dropout: Arg,
    train: Arg,
    bidirectional: Arg,
}

impl Positions {
    const PLAIN: Positions = {
        use RNN_TANH::*;
        Positions {
            hx: HX,
            params: PARAMS,
            has_biases: HAS_BIASES,
            num_layers: NUM_LAYERS,
            dropout: DROPOUT,
            train: TRAIN,
            bidirectional: BIDIRECTIONAL,
        }
    };

    const PACKED: Positions = {
        use RNN_TANH_PACKED::*;
        Positions {
            hx: HX,
            params: PARAMS,
            has_biases: HAS_BIASES,
            num_layers: NUM_LAYERS,
            dropout: DROPOUT,
            train: TRAIN,
            bidirectional: BIDIRECTIONAL,
        }
    };
}

/// Reads the parameters and checks their number, and that of the states, in torch's order.
fn read<'a>(
    args: &'a Args,
    kind: Kind,
    positions: &Positions,
    projected: bool,
    batch_sizes: Option<&'a Tensor>,
    states: &[&Tensor],
) -> Result<(Network<'a>, Vec<State>)> {
    let params = args.tensors(positions.params)?;
    let has_biases = args.bool(positions.has_biases)?;
    let stride = Weights::count(has_biases, projected);
    // For these dtypes torch's library cuts the list itself, and reads as many states as it needs.
    let is_cut = kind == Kind::Lstm
        && !projected
        && batch_sizes.is_none()
        && params.first().is_some_and(|weight| matches!(weight.dtype(), DType::F32 | DType::BF16));
    if params.len() % stride != 0 {
        let n = params.len();
        let sentence = if is_cut {
            format!("MatrixRef: ArrayRef size {n} not divisible by stride {stride}")
        } else {
            "got an incorrect number of RNN parameters".to_owned()
        };
        return Err(
            Error::runtime(sentence).hint("Each layer and direction needs two weights, and two biases if has_biases.")
        );
    }
    let first = split_states(states)?;
    let directions = if args.bool(positions.bidirectional)? { 2 } else { 1 };
    if !is_cut {
        check_counts(args.int(positions.num_layers)?, directions, params.len() / stride, first.len())?;
    }
    let layers = usize::try_from(args.int(positions.num_layers)?)
        .map_err(|_| Error::runtime("num_layers must not be negative"))?;
    if layers.checked_mul(directions).is_none_or(|count| count > params.len() / stride) {
        let n = params.len();
        return Err(Error::runtime(format!("ArrayRef: invalid slice, N = {n}; M = {stride}; size = {n}"))
            .hint("Each layer and direction needs weights of its positions."));
    }
    let given = args.float(positions.dropout)?;
    let dropout = if args.bool(positions.train)? { given } else { 0.0 };
    // Also without training: the module's weights have a buffer for each layer.
    let layer_by_layer = given != 0.0;
    let numbers = batch_sizes.and_then(|tensor| fitting(tensor, args.tensor(Arg::FIRST).ok()?));
    let weights = Weights::list(&params, has_biases, projected);
    Ok((
        Network {
            kind,
            weights,
            layers,
            directions,
            dropout,
            layer_by_layer,
            given_batch_sizes: batch_sizes,
            batch_sizes: numbers,
        },
        first,
    ))
}

fn run(args: &Args, kind: Kind, packed: bool) -> Result<Output> {
    let positions = if packed { Positions::PACKED } else { Positions::PLAIN };
    let input = args.tensor(Arg::FIRST)?;
    let states = if kind == Kind::Lstm { args.tensors(positions.hx)? } else { vec![args.tensor(positions.hx)?] };
    if kind == Kind::Lstm && states.len() != 2 {
        return Err(Error::runtime("lstm expects two hidden states"));
    }
    let projected = match states[..] {
        [hidden, cell] => size(hidden, 2)? != size(cell, 2)?,
        _ => false,
    };
    if !packed {
        check_devices(input, &states, &args.tensors(positions.params)?)?;
    }
    let batch_sizes = packed.then(|| args.valued(RNN_TANH_PACKED::BATCH_SIZES)).transpose()?;
    let batch_first = !packed && args.bool(RNN_TANH::BATCH_FIRST)?;
    let turned = |tensor: &Tensor| op!(TRANSPOSE, tensor, 0i64, 1i64);
    let input = if batch_first { turned(input)? } else { input.clone() };
    let (network, first) = read(args, kind, &positions, projected, batch_sizes, &states)?;
    let mut results = match by_cudnn::run(&network, &input, &states)? {
        Some(results) => results,
        None => network.results(&input, &first)?,
    };
    if batch_first {
        results[0] = turned(&results[0])?;
    }
    Ok(Output::Tuple(results))
}

/// Each layer and direction has weights and a state.
fn check_counts(layers: i64, directions: usize, weights: usize, states: usize) -> Result<()> {
    if !weights.is_multiple_of(directions) || !states.is_multiple_of(directions) {
        return Err(Error::runtime("Odd number of params or hiddens given to a bidirectional RNN"));
    }
    for (count, name) in [(states, "hidden states"), (weights, "weights")] {
        if layers != (count / directions) as i64 {
            return Err(Error::runtime(format!("Expected more {name} in stacked_rnn")).hint(format!(
                "{layers} layers need as many {name} in each direction, and there are {}.",
                count / directions
            )));
        }
    }
    Ok(())
}

/// The number of sequences in each step, which never increases; `None` if the numbers do not fit the input.
fn fitting(given: &Tensor, data: &Tensor) -> Option<Ints> {
    if given.dtype() != DType::I64 || given.rank() != 1 || data.rank() == 0 {
        return None;
    }
    let batch_sizes = crate::convert::to_vec::<i64>(given).ok()?;
    let falls = batch_sizes.windows(2).all(|pair| pair[0] >= pair[1]) && batch_sizes.iter().all(|&n| n > 0);
    let sum = batch_sizes.iter().try_fold(0i64, |sum, &n| sum.checked_add(n));
    (falls && sum == Some(data.sizes()[0] as i64)).then(|| batch_sizes.into())
}

/// The states and parameters are where the input is.
fn check_devices(input: &Tensor, states: &[&Tensor], params: &[&Tensor]) -> Result<()> {
    let named = states.iter().map(|state| ("hidden", state)).chain(params.iter().map(|param| ("parameter", param)));
    for (name, tensor) in named {
        let (first, other) = (input.device(), tensor.device());
        if first != other {
            return Err(Error::runtime(format!(
                "Input and {name} tensors are not at the same device, found input tensor at {first} and {name} tensor at {other}"
            )));
        }
    }
    Ok(())
}

const LAYERS: Operator = Operator {
    variants: Variants::FUNCTION,
    dtypes: DTypes::FLOATS,
    derivative: Derivative::CompositeImplicit,
    ..Operator::BASE
};

macro_rules! layer_rows {
    ($($op:ident $packed:ident $name:literal $packed_name:literal $kind:ident $hx:literal $results:literal $what:literal,
       $autocast:ident, $samples:expr, $errors:expr, $example:literal, $packed_samples:expr, $packed_errors:expr, $packed_example:literal;)*) => {$(
        #[operator]
        pub static $op: Operator = Operator {
            name: $name,
            signature: concat!(
                "(Tensor input, ", $hx, ", Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> ",
                $results
            ),
            doc: concat!(
                $what,
                " over sequences of one length.\n\nShapes: input `(T, N, I)`, with `batch_first` `(N, T, I)`; each of hx `(layers * directions, N, H)`; results: the\nlast layer's outputs `(T, N, directions * H)`, and the last states. `params` has, for each layer and direction, the weights of\nthe input and of the hidden state, and if `has_biases` their biases.\n\n",
                $example
            ),
            autocast: Autocasts { cpu: Autocast::$autocast, cuda: Autocast::LowerPrecision },
            tags: Tags::MIXED_DEVICES,
            implementation: Implementation::CompositeImplicit(|args| run(args, Kind::$kind, false)),
            samples: $samples,
            errors: $errors,
            ..LAYERS
        };

        #[operator]
        pub static $packed: Operator = Operator {
            name: $packed_name,
            signature: concat!(
                "(Tensor data, Tensor batch_sizes, ", $hx, ", Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional) -> ",
                $results
            ),
            doc: concat!(
                $what,
                " over packed sequences.\n\nShapes: data `(sum(batch_sizes), I)`, the first steps of all sequences, then the second ones; `batch_sizes` how many\nsequences have each step; the rest as for sequences of one length.\n\n",
                $packed_example
            ),
            autocast: Autocast::LowerPrecision.on_cuda_alone(),
            // The numbers of sequences lie on the host.
            tags: Tags::DATA_DEPENDENT.union(Tags::MIXED_DEVICES),
            batch_rule: BatchRule::FallbackIf(&[BATCH_SIZES]),
            implementation: Implementation::CompositeImplicit(|args| run(args, Kind::$kind, true)),
            samples: $packed_samples,
            errors: $packed_errors,
            ..LAYERS
        };
    )*};
}

layer_rows! {
    RNN_TANH RNN_TANH_PACKED "rnn_tanh" "rnn_tanh.data" Tanh "Tensor hx" "(Tensor, Tensor)" "Recurrent layers with tanh",
        Unchanged,
        &[
            "t(3, 2, 2), t(1, 2, 2), [t(2, 2), t(2, 2), t(2), t(2)], True, 1, 0.0, True, False, False",
            "t(2, 3, 2), t(2, 2, 2), [t(2, 2), t(2, 2), t(2, 2), t(2, 2)], False, 1, 0.0, False, True, True",
        ],
        &[("t(0, 2, 2), t(1, 2, 2), [t(2, 2), t(2, 2)], False, 1, 0.0, True, False, False", "RuntimeError", "Expected sequence length to be larger than 0 in RNN")],
        "    >>> x = torch.ones(1, 1, 1)
    >>> torch.rnn_tanh(x, x, [x[0], x[0]], False, 1, 0.0, False, False, False)
    (tensor([[[0.9640]]]), tensor([[[0.9640]]]))",
        &["t(3, 2), torch.tensor([2, 1]), t(1, 2, 2), [t(2, 2), t(2, 2), t(2), t(2)], True, 1, 0.0, True, False"],
        &[("t(3, 2), torch.tensor([2, 1]), t(1, 2, 2), [t(2, 2)], False, 1, 0.0, True, False", "RuntimeError", "got an incorrect number of RNN parameters")],
        "    >>> x = torch.ones(1, 1)
    >>> torch.rnn_tanh(x, torch.tensor([1]), torch.ones(1, 1, 1), [x, x], False, 1, 0.0, False, False)
    (tensor([[0.9640]]), tensor([[[0.9640]]]))";
    RNN_RELU RNN_RELU_PACKED "rnn_relu" "rnn_relu.data" Relu "Tensor hx" "(Tensor, Tensor)" "Recurrent layers with relu",
        Unchanged,
        &["t(3, 2, 2), t(1, 2, 2), [t(2, 2), t(2, 2), t(2), t(2)], True, 1, 0.0, True, False, False"],
        &[("t(0, 2, 2), t(1, 2, 2), [t(2, 2), t(2, 2)], False, 1, 0.0, True, False, False", "RuntimeError", "Expected sequence length to be larger than 0 in RNN")],
        "    >>> x = torch.ones(1, 1, 1)
    >>> torch.rnn_relu(x, x, [x[0], x[0]], False, 1, 0.0, False, False, False)
    (tensor([[[2.]]]), tensor([[[2.]]]))",
        &["t(3, 2), torch.tensor([2, 1]), t(1, 2, 2), [t(2, 2), t(2, 2), t(2), t(2)], True, 1, 0.0, True, False"],
        &[("t(3, 2), torch.tensor([2, 1]), t(1, 2, 2), [t(2, 2)], False, 1, 0.0, True, False", "RuntimeError", "got an incorrect number of RNN parameters")],
        "    >>> x = torch.ones(1, 1)
    >>> torch.rnn_relu(x, torch.tensor([1]), torch.ones(1, 1, 1), [x, x], False, 1, 0.0, False, False)
    (tensor([[2.]]), tensor([[[2.]]]))";
    GRU GRU_PACKED "gru" "gru.data" Gru "Tensor hx" "(Tensor, Tensor)" "Layers of gated recurrent units (see `gru_cell`)",
        Unchanged,
        &[
            "t(3, 2, 2), t(1, 2, 2), [t(6, 2), t(6, 2), t(6), t(6)], True, 1, 0.0, True, False, False",
            "t(3, 2, 2), t(2, 2, 2), [t(6, 2), t(6, 2), t(6, 2), t(6, 2)], False, 2, 0.0, True, False, False",
        ],
        &[("t(0, 2, 2), t(1, 2, 2), [t(6, 2), t(6, 2)], False, 1, 0.0, True, False, False", "RuntimeError", "Expected sequence length to be larger than 0 in RNN")],
        "    >>> w = torch.zeros(3, 1)
    >>> torch.gru(torch.ones(1, 1, 1), torch.ones(1, 1, 1), [w, w], False, 1, 0.0, False, False, False)
    (tensor([[[0.5000]]]), tensor([[[0.5000]]]))",
        &["t(3, 2), torch.tensor([2, 1]), t(2, 2, 2), [t(6, 2), t(6, 2), t(6), t(6), t(6, 2), t(6, 2), t(6), t(6)], True, 1, 0.0, True, True"],
        &[("t(3, 2), torch.tensor([2, 1]), t(1, 2, 2), [t(6, 2)], False, 1, 0.0, True, False", "RuntimeError", "got an incorrect number of RNN parameters")],
        "    >>> w = torch.zeros(3, 1)
    >>> torch.gru(torch.ones(1, 1), torch.tensor([1]), torch.ones(1, 1, 1), [w, w], False, 1, 0.0, False, False)
    (tensor([[0.5000]]), tensor([[[0.5000]]]))";
    LSTM LSTM_PACKED "lstm" "lstm.data" Lstm "Tensor[] hx" "(Tensor, Tensor, Tensor)" "Layers of long short-term memory (see `lstm_cell`)",
        LowerPrecision,
        &[
            "t(3, 2, 2), [t(1, 2, 2), t(1, 2, 2)], [t(8, 2), t(8, 2), t(8), t(8)], True, 1, 0.0, True, False, False",
            "t(2, 3, 2), [t(2, 2, 2), t(2, 2, 2)], [t(8, 2), t(8, 2), t(8, 2), t(8, 2)], False, 1, 0.0, True, True, True",
            "t(2, 2, 2), [t(1, 2, 1), t(1, 2, 2)], [t(8, 2), t(8, 1), t(1, 2)], False, 1, 0.0, True, False, False",
        ],
        &[
            ("t(3, 2, 2), [t(1, 2, 2)], [t(8, 2), t(8, 2)], False, 1, 0.0, True, False, False", "RuntimeError", "lstm expects two hidden states"),
            ("t(3, 2, 2), [t(1, 2, 2), t(1, 2, 2)], [t(8, 2), t(8, 2), t(8)], True, 1, 0.0, True, False, False", "RuntimeError", "MatrixRef: ArrayRef size 3 not divisible by stride 4"),
        ],
        "    >>> w, h = torch.zeros(4, 1), torch.ones(1, 1, 1)
    >>> torch.lstm(h, (h, h), [w, w], False, 1, 0.0, False, False, False)
    (tensor([[[0.2311]]]), tensor([[[0.2311]]]), tensor([[[0.5000]]]))",
        &["t(5, 2), torch.tensor([2, 2, 1]), [t(2, 2, 2), t(2, 2, 2)], [t(8, 2), t(8, 2), t(8), t(8), t(8, 2), t(8, 2), t(8), t(8)], True, 1, 0.0, True, True"],
        &[("t(3, 2), torch.tensor([2, 1]), [t(1, 2, 2)], [t(8, 2), t(8, 2)], False, 1, 0.0, True, False", "RuntimeError", "lstm expects two hidden states")],
        "    >>> w, h = torch.zeros(4, 1), torch.ones(1, 1, 1)
    >>> torch.lstm(h[0], torch.tensor([1]), (h, h), [w, w], False, 1, 0.0, False, False)
    (tensor([[0.2311]]), tensor([[[0.2311]]]), tensor([[[0.5000]]]))";
}
