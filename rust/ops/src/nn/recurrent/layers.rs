//! Layers of recurrent cells over sequences: of one length, or packed (for each step, the elements of all sequences
//! together).

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Error, Result};
use rushlight_dispatch::op;
use rushlight_dispatch::operator::{
    Args, Autocast, BatchRule, DTypes, Derivative, Implementation, Operator, Tags, Variants, operator,
};
use rushlight_dispatch::value::{Arg, Ints, Output, Value, sizes_value};

use super::gates::{GRU_GATES, LSTM_GATES};
use super::sequence::LSTM_SEQUENCE;
use super::steps::{Kind, State, Weights, run_packed, run_steps};
use super::{composed, size};
use crate::join::cat::{CAT, STACK};
use crate::linalg::addmm::ADDMM;
use crate::linalg::matrix::MM;
use crate::nn::dropout::DROPOUT;
use crate::nn::linear::LINEAR;
use crate::pointwise::activation::RELU;
use crate::pointwise::arith::ADD;
use crate::pointwise::hyperbolic::TANH;
use crate::view::RESHAPE;
use crate::view::narrow::{NARROW, sliced};
use crate::view::split::{SPLIT_WITH_SIZES, UNBIND};
use crate::view::transpose::TRANSPOSE;

/// One layer in one direction, prepared: its products with the input are computed, and its weights are in the layout of
/// the steps.
struct Layer {
    kind: Kind,
    /// The state's weights, transposed.
    own: Tensor,
    /// The state's bias, if it cannot be added to the input's.
    own_bias: Option<Tensor>,
    projection: Option<Tensor>,
}

impl Layer {
    /// The layer, and for all rows of the input the start values of its steps.
    fn new(kind: Kind, input: &Tensor, weights: &Weights) -> Result<(Layer, Tensor)> {
        let turned = |tensor: &Tensor| op!(TRANSPOSE, tensor, 0i64, 1i64);
        // A gated unit multiplies the state's part, bias included, by its reset gate.
        let apart = kind == Kind::Gru;
        let bias = match weights.biases {
            None => None,
            Some([input, _]) if apart => Some(input.clone()),
            Some([input, own]) => Some(op!(ADD, input, own)?),
        };
        let products = op!(LINEAR, input, weights.input, bias.as_ref())?;
        let layer = Layer {
            kind,
            own: turned(weights.own)?,
            own_bias: weights.biases.filter(|_| apart).map(|[_, own]| own.clone()),
            projection: weights.projection.map(turned).transpose()?,
        };
        Ok((layer, products))
    }

    fn step(&self, input: &Tensor, state: &State) -> Result<State> {
        let output = match self.kind {
            Kind::Tanh => op!(TANH, &op!(ADDMM, input, &state.output, &self.own)?)?,
            Kind::Relu => op!(RELU, &op!(ADDMM, input, &state.output, &self.own)?)?,
            Kind::Gru => {
                let own = match &self.own_bias {
                    Some(bias) => op!(ADDMM, bias, &state.output, &self.own)?,
                    None => op!(MM, &state.output, &self.own)?,
                };
                op!(GRU_GATES, input, &own, &state.output)?
            }
            Kind::Lstm => {
                let gates = op!(ADDMM, input, &state.output, &self.own)?;
                let both = LSTM_GATES.call([(&gates).into(), state.cell.as_ref().into()])?.into_tensors();
                let [output, cell] =
                    <[Tensor; 2]>::try_from(both).map_err(|_| Error::runtime("a step without results"))?;
                let output = match &self.projection {
                    Some(projection) => op!(MM, &output, projection)?,
                    None => output,
                };
                return Ok(State { output, cell: Some(cell) });
            }
        };
        Ok(State { output, cell: None })
    }

    /// All steps at once, if a fused kernel supports them; operands that do not match are left to the steps, which
    /// raise the error.
    fn run_fused(
        weights: &Weights,
        products: &Tensor,
        first: &State,
        backwards: bool,
    ) -> Result<Option<(Tensor, State)>> {
        let State { output, cell: Some(cell) } = first else { return Ok(None) };
        let fits = weights.projection.is_none()
            && products.rank() == 3
            && output.sizes() == cell.sizes()
            && [output, cell, weights.own]
                .iter()
                .all(|tensor| tensor.dtype() == products.dtype() && tensor.rank() == 2)
            && output.sizes()[0] == products.sizes()[1]
            && weights.own.sizes()[..] == [products.sizes()[2], output.sizes()[1]]
            && products.sizes()[2] == 4 * output.sizes()[1];
        if !fits {
            return Ok(None);
        }
        let values = [products.into(), output.into(), cell.into(), weights.own.into(), backwards.into()];
        let results = LSTM_SEQUENCE.call(values)?.into_tensors();
        let [outputs, cells, _] =
            <[Tensor; 3]>::try_from(results).map_err(|_| Error::runtime("a sequence without results"))?;
        let last = if backwards { 0 } else { products.sizes()[0] - 1 };
        let at = |all: &Tensor| op!(RESHAPE, &sliced(all, 0, last, 1, 1)?, sizes_value(&all.sizes()[1..]));
        let state = State { output: at(&outputs)?, cell: Some(at(&cells)?) };
        Ok(Some((outputs, state)))
    }
}

/// The arguments shared by all layers.
struct Network<'a> {
    kind: Kind,
    weights: Vec<Weights<'a>>,
    layers: usize,
    directions: usize,
    dropout: f64,
    /// The number of sequences in each step, if they are packed.
    batch_sizes: Option<&'a Tensor>,
    /// The same as numbers, if they fit the input.
    lengths: Option<Ints>,
}

impl<'a> Network<'a> {
    /// Reads the parameters and checks their number, and that of the states, in torch's order.
    fn read(
        args: &'a Args,
        kind: Kind,
        own: &Own,
        projected: bool,
        batch_sizes: Option<&'a Tensor>,
        states: &[&Tensor],
    ) -> Result<(Network<'a>, Vec<State>)> {
        let params = args.tensors(own.params)?;
        let has_biases = args.bool(own.has_biases)?;
        let stride = if has_biases { 4 } else { 2 } + usize::from(projected);
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
            return Err(Error::runtime(sentence)
                .hint("Each layer and direction needs two weights, and two biases if has_biases."));
        }
        let hidden = apart(states)?;
        let directions = if args.bool(own.bidirectional)? { 2 } else { 1 };
        if !is_cut {
            check_counts(args.int(own.num_layers)?, directions, params.len() / stride, hidden.len())?;
        }
        let layers = usize::try_from(args.int(own.num_layers)?)
            .map_err(|_| Error::runtime("num_layers must not be negative"))?;
        if layers.checked_mul(directions).is_none_or(|count| count > params.len() / stride) {
            let n = params.len();
            return Err(Error::runtime(format!("ArrayRef: invalid slice, N = {n}; M = {stride}; size = {n}"))
                .hint("Each layer and direction needs weights of its own."));
        }
        let weights = params.chunks(stride).map(|own| Weights {
            input: own[0],
            own: own[1],
            biases: has_biases.then(|| [own[2], own[3]]),
            projection: projected.then(|| own[stride - 1]),
        });
        let dropout = if args.bool(own.train)? { args.float(own.dropout)? } else { 0.0 };
        let lengths = batch_sizes.and_then(|sizes| lengths(sizes, args.tensor(Arg::FIRST).ok()?));
        let weights = weights.collect();
        Ok((Network { kind, weights, layers, directions, dropout, batch_sizes, lengths }, hidden))
    }

    /// One layer in one direction. Operands that the fast form does not take have the results and the errors of the steps
    /// that torch composes.
    fn run_layer(&self, input: &Tensor, weights: &Weights, first: &State, backwards: bool) -> Result<(Tensor, State)> {
        if self.is_regular(input, weights, first)
            && let Ok(found) = self.run_fast(input, weights, first, backwards)
        {
            return Ok(found);
        }
        let products = op!(LINEAR, input, weights.input, weights.biases.map(|[input, _]| input))?;
        let step = |input: &Tensor, state: &State| composed::step(self.kind, weights, input, state);
        let Some(batch_sizes) = self.batch_sizes else {
            return run_steps(&step, UNBIND.call([(&products).into()])?.into_tensors(), first.clone(), backwards);
        };
        let lengths = read_lengths(batch_sizes)?;
        let rows = |at: usize| {
            let (start, end) = if backwards {
                let after = lengths[at + 1..].iter().fold(0i64, |sum, &n| sum.wrapping_add(n));
                (products.sizes().first().map_or(0, |&rows| rows as i64).wrapping_sub(after), lengths[at])
            } else {
                (lengths[..at].iter().fold(0i64, |sum, &n| sum.wrapping_add(n)), lengths[at])
            };
            let start = if backwards { start.wrapping_sub(end) } else { start };
            op!(NARROW, &products, 0i64, start, end)
        };
        run_packed(&step, &rows, &lengths, first.clone(), backwards)
    }

    /// Whether the operands have one dtype and the dimensions of a layer.
    fn is_regular(&self, input: &Tensor, weights: &Weights, first: &State) -> bool {
        let has = |tensor: &Tensor, rank: usize| {
            tensor.dtype() == input.dtype() && tensor.rank() == rank && !tensor.is_sparse()
        };
        let rank = if self.batch_sizes.is_some() { 2 } else { 3 };
        has(input, rank)
            && self.lengths.is_some() == self.batch_sizes.is_some()
            && [weights.input, weights.own].iter().chain(&weights.projection).all(|weight| has(weight, 2))
            && weights.biases.is_none_or(|biases| biases.iter().all(|bias| has(bias, 1)))
            && has(&first.output, 2)
            && first.cell.as_ref().is_none_or(|cell| has(cell, 2))
            && input.sizes()[0] > 0
    }

    fn run_fast(&self, input: &Tensor, weights: &Weights, first: &State, backwards: bool) -> Result<(Tensor, State)> {
        let (ready, products) = Layer::new(self.kind, input, weights)?;
        let step = |input: &Tensor, state: &State| ready.step(input, state);
        match &self.lengths {
            None => match Layer::run_fused(weights, &products, first, backwards)? {
                Some(found) => Ok(found),
                None => run_steps(&step, UNBIND.call([(&products).into()])?.into_tensors(), first.clone(), backwards),
            },
            Some(lengths) => {
                let parts = SPLIT_WITH_SIZES.call([(&products).into(), lengths.clone().into()])?.into_tensors();
                let rows = |at: usize| {
                    parts.get(at).cloned().ok_or_else(|| Error::runtime("fewer steps than numbers of sequences"))
                };
                run_packed(&step, &rows, lengths, first.clone(), backwards)
            }
        }
    }

    /// The last layer's outputs, and the last states of all layers and directions.
    fn run(&self, input: &Tensor, first: &[State]) -> Result<(Tensor, Vec<State>)> {
        if first.len() < self.layers * self.directions {
            return Err(Error::runtime(format!(
                "Expected hidden states of {} layers and directions, got {}",
                self.layers * self.directions,
                first.len()
            )));
        }
        let mut input = input.clone();
        let mut last = Vec::with_capacity(first.len());
        for layer in 0..self.layers {
            let mut outputs = Vec::with_capacity(self.directions);
            for direction in 0..self.directions {
                let at = layer * self.directions + direction;
                let (output, state) = self.run_layer(&input, &self.weights[at], &first[at], direction == 1)?;
                outputs.push(output);
                last.push(state);
            }
            input = match <[Tensor; 1]>::try_from(outputs) {
                Ok([only]) => only,
                Err(outputs) => CAT.tensor([Value::from(outputs), (-1i64).into()])?,
            };
            if self.dropout != 0.0 && layer + 1 < self.layers {
                input = op!(DROPOUT, &input, self.dropout, true)?;
            }
        }
        Ok((input, last))
    }
}

/// The first states, split: one of each layer and direction.
fn apart(states: &[&Tensor]) -> Result<Vec<State>> {
    let mut lists = Vec::new();
    for state in states {
        lists.push(UNBIND.call([(*state).into()])?.into_tensors());
    }
    let cells = if lists.len() > 1 { lists.pop() } else { None };
    let mut cells = cells.into_iter().flatten();
    let outputs = lists.into_iter().flatten();
    Ok(outputs.map(|output| State { output, cell: cells.next() }).collect())
}

/// The arguments that all these operators have. Their positions differ if the sequences are packed.
struct Own {
    hx: Arg,
    params: Arg,
    has_biases: Arg,
    num_layers: Arg,
    dropout: Arg,
    train: Arg,
    bidirectional: Arg,
}

impl Own {
    const PLAIN: Own = {
        use RNN_TANH::*;
        Own {
            hx: HX,
            params: PARAMS,
            has_biases: HAS_BIASES,
            num_layers: NUM_LAYERS,
            dropout: DROPOUT,
            train: TRAIN,
            bidirectional: BIDIRECTIONAL,
        }
    };

    const PACKED: Own = {
        use RNN_TANH_PACKED::*;
        Own {
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

fn run(args: &Args, kind: Kind, packed: bool) -> Result<Output> {
    let own = if packed { Own::PACKED } else { Own::PLAIN };
    let input = args.tensor(Arg::FIRST)?;
    let states = if kind == Kind::Lstm { args.tensors(own.hx)? } else { vec![args.tensor(own.hx)?] };
    if kind == Kind::Lstm && states.len() != 2 {
        return Err(Error::runtime("lstm expects two hidden states"));
    }
    let projected = match states[..] {
        [output, cell] => size(output, 2)? != size(cell, 2)?,
        _ => false,
    };
    if !packed {
        check_devices(input, &states, &args.tensors(own.params)?)?;
    }
    let batch_sizes = packed.then(|| args.valued(RNN_TANH_PACKED::BATCH_SIZES)).transpose()?;
    let first = !packed && args.bool(RNN_TANH::BATCH_FIRST)?;
    let turned = |tensor: &Tensor| op!(TRANSPOSE, tensor, 0i64, 1i64);
    let input = if first { turned(input)? } else { input.clone() };
    let (network, hidden) = Network::read(args, kind, &own, projected, batch_sizes, &states)?;
    let (output, last) = network.run(&input, &hidden)?;
    let output = if first { turned(&output)? } else { output };
    let mut results = vec![output];
    let (outputs, cells): (Vec<_>, Vec<_>) = last.into_iter().map(|state| (state.output, state.cell)).unzip();
    results.push(STACK.tensor([Value::from(outputs), 0i64.into()])?);
    if kind == Kind::Lstm {
        let cells: Vec<Tensor> = cells.into_iter().flatten().collect();
        results.push(STACK.tensor([Value::from(cells), 0i64.into()])?);
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
fn lengths(sizes: &Tensor, data: &Tensor) -> Option<Ints> {
    if sizes.dtype() != DType::I64 || sizes.rank() != 1 || data.rank() == 0 {
        return None;
    }
    let list = crate::convert::to_vec::<i64>(sizes).ok()?;
    let falls = list.windows(2).all(|pair| pair[0] >= pair[1]) && list.iter().all(|&n| n > 0);
    let sum = list.iter().try_fold(0i64, |sum, &n| sum.checked_add(n));
    (falls && sum == Some(data.sizes()[0] as i64)).then(|| list.into())
}

/// The same numbers as they are.
fn read_lengths(sizes: &Tensor) -> Result<Vec<i64>> {
    let steps = size(sizes, 0)?;
    if sizes.dtype() != DType::I64 {
        let name = sizes.dtype().display_name();
        return Err(Error::runtime(format!("expected scalar type Long but found {name}")));
    }
    let mut list = crate::convert::to_vec::<i64>(sizes)?;
    list.truncate(steps as usize);
    Ok(list)
}

/// The states and parameters are where the input is.
fn check_devices(input: &Tensor, states: &[&Tensor], params: &[&Tensor]) -> Result<()> {
    let named = states.iter().map(|state| ("hidden", state)).chain(params.iter().map(|param| ("parameter", param)));
    for (name, tensor) in named {
        let (own, other) = (input.device(), tensor.device());
        if own != other {
            return Err(Error::runtime(format!(
                "Input and {name} tensors are not at the same device, found input tensor at {own} and {name} tensor at {other}"
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
                " over sequences of one length.\n\nShapes: input `(T, N, I)`, with `batch_first` `(N, T, I)`; each of hx `(layers * directions, N, H)`; results: the\nlast layer's outputs `(T, N, directions * H)`, and the last states. `params` has, for each layer and direction, the weights of\nthe input and of the state, and if `has_biases` their biases.\n\n",
                $example
            ),
            autocast: Autocast::$autocast,
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
