//! Recurrent networks by cuDNN: what it takes, and its operators.
//!
//! All layers are one call, unless the network has dropout between them, which is applied between calls of one layer each. The weights need
//! no copy where they lie in memory as cuDNN's buffer has them; `nn.RNNBase.flatten_parameters` moves them there.

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use rushlight_autograd::{Tensor, modes};
use rushlight_core::{DType, Device, Error, Layout, Result};
use rushlight_cuda::card;
use rushlight_cuda::cudnn::recurrent::{self as cudnn, Backward, Buffer, Call, Forward, Sequences};
use rushlight_cuda::{cudnn::SETTINGS, stream};
use rushlight_dispatch::allocate::allocate;
use rushlight_dispatch::operator::{
    Args, BackwardContext, DTypes, Derivative, ExplicitAutograd, Implementation, Joint, OnCuda, Operator, Saves,
    TensorSpec, Variants, operator,
};
use rushlight_dispatch::value::{Arg, Ints, Output, Value};
use rushlight_dispatch::{copy, create, deterministic, op};

use super::network::{Network, split_states};
use super::rerun;
use super::steps::{Kind, Weights, joined};
use crate::convert::CLONE;
use crate::held::Held;
use crate::nn::cudnn::{is_aligned, ready};
use crate::nn::dropout::DROPOUT;
use crate::view::narrow::NARROW;

/// The results of layers over an input `(T, N, I)`, or packed. `None` if cuDNN does not take them.
pub(super) fn run(network: &Network, input: &Tensor, states: &[&Tensor]) -> Result<Option<Vec<Tensor>>> {
    let Device::Cuda(index) = input.device() else { return Ok(None) };
    // cuDNN promises equal bits for recurrent networks in no mode, and a batch of networks would be one call for each of them.
    let operands = network.weights.iter().flat_map(Weights::each).chain(states.iter().copied()).chain([input]);
    let is_refused = deterministic::is_enabled()
        || SETTINGS.deterministic.load(Ordering::Relaxed)
        || operands.into_iter().any(|tensor| tensor.is_wrapper() || !tensor.batch_dims().is_empty());
    let Some((description, _)) = described(network, input, states).filter(|_| !is_refused) else { return Ok(None) };
    if cudnn::buffer(card::of(input.device())?, stream::current(index), &description)?.is_none() {
        return Ok(None);
    }
    let together = if network.layer_by_layer { 1 } else { network.layers };
    let mut results: Vec<Vec<Tensor>> = vec![Vec::new(); states.len()];
    let mut output = input.clone();
    for first in (0..network.layers).step_by(together) {
        if first > 0 && network.dropout != 0.0 {
            output = op!(DROPOUT, &output, network.dropout, true)?;
        }
        let (start, count) = (first * network.directions, together * network.directions);
        let weights = &network.weights[start..start + count];
        let part = |state: &&Tensor| match together == network.layers {
            true => Ok((*state).clone()),
            false => op!(NARROW, *state, 0i64, start as i64, count as i64),
        };
        let states = states.iter().map(part).collect::<Result<Vec<_>>>()?;
        let params: Vec<Tensor> = weights.iter().flat_map(Weights::each).cloned().collect();
        let keeps = modes::recording() && states.iter().chain(&params).chain([&output]).any(Tensor::is_tracked);
        let found = RECURRENT_LAYERS.call([
            (&output).into(),
            states.into(),
            params.into(),
            network.batch_sizes.clone().unwrap_or_default().into(),
            network.kind.name().into(),
            weights[0].biases.is_some().into(),
            together.into(),
            (network.directions == 2).into(),
            keeps.into(),
        ])?;
        let mut found = found.into_tensors().into_iter();
        output = found.next().ok_or_else(|| Error::runtime("layers without results"))?;
        results.iter_mut().zip(found).for_each(|(all, one)| all.push(one));
    }
    let last = results.into_iter().map(|list| joined(list, 0)).collect::<Result<Vec<_>>>()?;
    Ok(Some([vec![output], last].concat()))
}

/// The layers as cuDNN describes them, if all weights fit each other and no number is too large.
fn layers(network: &Network) -> Option<cudnn::Network> {
    let first = network.weights.first()?;
    let (dtype, device, directions) = (first.input.dtype(), first.input.device(), network.directions as isize);
    let [gates, features] = [network.kind.gates(), *first.input.sizes().get(1)?];
    let width = first.hidden.sizes().first()? / gates;
    let output = first.projection.map_or(Some(width), |weight| weight.sizes().first().copied())?;
    let has = |tensor: &Tensor, sizes: &[isize]| {
        tensor.sizes()[..] == *sizes && tensor.dtype() == dtype && tensor.device() == device && !tensor.is_sparse()
    };
    let fits = |(at, weights): (usize, &Weights)| {
        let given = if at < network.directions { features } else { output * directions };
        has(weights.input, &[gates * width, given])
            && has(weights.hidden, &[gates * width, output])
            && weights.biases.is_some() == first.biases.is_some()
            && weights.biases.iter().flatten().all(|bias| has(bias, &[gates * width]))
            && weights.projection.is_none_or(|weight| network.kind == Kind::Lstm && has(weight, &[output, width]))
    };
    let are_known = network.weights.len() == network.layers * network.directions
        && network.weights.iter().enumerate().all(fits)
        && ![features, width, output].contains(&0);
    let number = |size: isize| c_int::try_from(size).ok();
    let description = cudnn::Network {
        kind: match network.kind {
            Kind::Relu => cudnn::Kind::Relu,
            Kind::Tanh => cudnn::Kind::Tanh,
            Kind::Lstm => cudnn::Kind::Lstm,
            Kind::Gru => cudnn::Kind::Gru,
        },
        dtype,
        biased: first.biases.is_some(),
        bidirectional: network.directions == 2,
        layers: c_int::try_from(network.layers).ok()?,
        input: number(features)?,
        width: number(width)?,
        output: number(output)?,
    };
    are_known.then_some(description)
}

/// The same with the sequences, if input and states fit the layers. A batch of networks is composed of steps.
fn described(network: &Network, input: &Tensor, states: &[&Tensor]) -> Option<(cudnn::Network, Sequences)> {
    let description = layers(network)?;
    let all = network.weights.iter().flat_map(Weights::each).chain(states.iter().copied()).chain([input]);
    if all.into_iter().any(Tensor::is_batched) {
        return None;
    }
    let (features, sequences) = match (&network.batch_sizes, &input.sizes()[..]) {
        (Some(batch_sizes), &[_, features]) => {
            let length = |at: i64| batch_sizes.iter().filter(|&&count| count > at).count() as c_int;
            (features, Sequences { lengths: (0..*batch_sizes.first()?).map(length).collect(), packed: true })
        }
        (None, &[steps, count, features]) if network.given_batch_sizes.is_none() => {
            let steps = c_int::try_from(steps).ok()?;
            (features, Sequences { lengths: vec![steps; usize::try_from(count).ok()?], packed: false })
        }
        _ => return None,
    };
    let weight = network.weights.first()?.input;
    let is_alike =
        |tensor: &Tensor| tensor.dtype() == weight.dtype() && tensor.device() == weight.device() && !tensor.is_sparse();
    let (rows, count) = (network.weights.len() as isize, sequences.lengths.len() as isize);
    let widths = [description.output, description.width].map(|width| width as isize);
    let is_state =
        |(state, width): (&&Tensor, isize)| is_alike(state) && state.sizes()[..] == [rows, count, width] && count > 0;
    let fits = is_alike(input)
        && features == description.input as isize
        && states.len() == network.kind.states()
        && states.iter().zip(widths).all(is_state)
        && sequences.lengths.iter().all(|&length| length > 0);
    fits.then_some((description, sequences))
}

/// The parameters of layers as views of one buffer with their values. `None` if cuDNN does not take the layers, or if the parameters
/// lie in a buffer already.
pub fn flattened(
    params: &[Tensor],
    mode: &str,
    has_biases: bool,
    num_layers: usize,
    bidirectional: bool,
    projected: bool,
) -> Result<Option<Vec<Tensor>>> {
    let params: Vec<&Tensor> = params.iter().collect();
    let network = Network {
        kind: Kind::named(mode)?,
        weights: Weights::list(&params, has_biases, projected),
        layers: num_layers,
        directions: if bidirectional { 2 } else { 1 },
        dropout: 0.0,
        layer_by_layer: false,
        given_batch_sizes: None,
        batch_sizes: None,
    };
    let Some((description, device)) = layers(&network).zip(params.first().map(|param| param.device())) else {
        return Ok(None);
    };
    let Device::Cuda(index) = device else { return Ok(None) };
    let Some(buffer) = cudnn::buffer(card::of(device)?, stream::current(index), &description)? else { return Ok(None) };
    let whole = in_buffer(&params, &buffer)?;
    if whole.storage().same(params[0].storage()) {
        return Ok(None);
    }
    Ok(Some(parts(&params, &buffer, &whole)))
}

#[operator]
pub static RECURRENT_LAYERS: Operator = Operator {
    name: "_recurrent_layers",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor[] hx, Tensor[] params, int[] batch_sizes, str mode, bool has_biases, int num_layers, bool bidirectional, bool keeps) -> (Tensor, Tensor, Tensor, Tensor)",
    doc: "The results of recurrent layers without dropout, by cuDNN where it takes them.

Shapes and arguments as in `lstm`, `gru`, `rnn_tanh` and `rnn_relu`, of which `mode` names one; `batch_sizes` is empty if the
sequences are not packed. The results are the last layer's outputs, the last states, the last cells, and what cuDNN keeps for
gradients if `keeps`; those that do not exist are empty.

    >>> x = torch.ones(1, 1, 1)
    >>> torch._recurrent_layers(x, [x], [x[0], x[0]], [], 'RNN_RELU', False, 1, False, False)[0]
    tensor([[[2.]]])",
    dtypes: DTypes::FLOATS,
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd {
        cpu: |args| with_network(args, stepped),
        cuda: OnCuda::Own(|args| {
            with_network(args, |network, input, states| {
                match forward(network, input, states, args.bool(RECURRENT_LAYERS::KEEPS)?)? {
                    Some(results) => Ok(Output::Tuple(results)),
                    None => stepped(network, input, states),
                }
            })
        }),
    }),
    derivative: Derivative::Joint(Joint {
        inputs: &[INPUT, HX, PARAMS],
        saves: Saves::input(INPUT)
            .union(Saves::input(HX))
            .union(Saves::input(PARAMS))
            .union(Saves::result(0))
            .union(Saves::result(3)),
        gradients,
    }),
    samples: &[
        "t(3, 2, 2), [t(1, 2, 2)], [t(2, 2), t(2, 2), t(2), t(2)], [], 'RNN_TANH', True, 1, False, False",
        "t(3, 2), [t(1, 2, 2), t(1, 2, 2)], [t(8, 2), t(8, 2)], [2, 1], 'LSTM', False, 1, False, False",
    ],
    errors: &[(
        "t(3, 2, 2), [t(1, 2, 2)], [t(2, 2), t(2, 2)], [], 'RNN', False, 1, False, True",
        "RuntimeError",
        "Unrecognized RNN mode: RNN",
    )],
    ..Operator::BASE
};

/// Calls a function with the arguments that `_recurrent_layers` and `_recurrent_layers_backward` have first.
fn with_network<R>(args: &Args, run: impl FnOnce(&Network, &Tensor, &[&Tensor]) -> Result<R>) -> Result<R> {
    use RECURRENT_LAYERS::*;

    let (input, states, params) = (args.tensor(INPUT)?, args.tensors(HX)?, args.tensors(PARAMS)?);
    let kind = Kind::named(args.str(MODE)?)?;
    let sizes = args.ints(BATCH_SIZES)?;
    let given = if sizes.is_empty() { None } else { Some(create::from_slice(sizes)?) };
    let projected = match states[..] {
        [hidden, cell] => hidden.sizes().last() != cell.sizes().last(),
        _ => false,
    };
    let network = Network {
        kind,
        weights: Weights::list(&params, args.bool(HAS_BIASES)?, projected),
        layers: usize::try_from(args.int(NUM_LAYERS)?).unwrap_or(0),
        directions: if args.bool(BIDIRECTIONAL)? { 2 } else { 1 },
        dropout: 0.0,
        layer_by_layer: false,
        given_batch_sizes: given.as_ref(),
        batch_sizes: given.is_some().then(|| Ints::from(sizes)),
    };
    let count = network.layers * network.directions;
    let fits = states.len() == kind.states()
        && network.weights.len() == count
        && network.weights.iter().flat_map(Weights::each).count() == params.len()
        && count > 0
        && states.iter().all(|state| state.rank() == 3 && state.sizes()[0] == count as isize);
    match fits {
        true => run(&network, input, &states),
        false => Err(Error::runtime("weights and states do not fit the number of layers")),
    }
}

/// The results without cuDNN.
fn stepped(network: &Network, input: &Tensor, states: &[&Tensor]) -> Result<Output> {
    let mut results = network.results(input, &split_states(states)?)?;
    if results.len() == 2 {
        results.push(create::empty(&[0], input.dtype(), input.device())?);
    }
    results.push(create::empty(&[0], DType::U8, input.device())?);
    Ok(Output::Tuple(results))
}

/// An operand as cuDNN reads it.
fn row_major(tensor: &Tensor) -> Result<Tensor> {
    ready(tensor, None, true)
}

/// Where a parameter lies in a buffer.
fn place(param: &Tensor, first_byte: usize) -> Layout {
    let mut layout = Layout::contiguous(param.sizes());
    layout.offset = (first_byte / param.dtype().size()) as isize;
    layout
}

/// The parts of a buffer that belong to parameters.
fn parts(params: &[&Tensor], buffer: &Buffer, whole: &Tensor) -> Vec<Tensor> {
    let part = |(param, &first): (&&Tensor, &usize)| Tensor::view_of(whole, place(param, first));
    params.iter().zip(&buffer.places).map(part).collect()
}

/// All weights in one buffer: where they are, if they lie like that, or a copy.
fn in_buffer(params: &[&Tensor], buffer: &Buffer) -> Result<Tensor> {
    let first = params[0].detach();
    let size = first.dtype().size();
    let elements = buffer.bytes.div_ceil(size) as isize;
    let start = first.first_byte() - buffer.places[0] as isize;
    let lies = |(param, &at): (&&Tensor, &usize)| {
        param.storage().same(first.storage())
            && param.layout().is_contiguous()
            && param.first_byte() == start + at as isize
    };
    let is_joined = params.iter().zip(&buffer.places).all(lies)
        && start >= 0
        && start as usize + buffer.bytes <= first.storage().len()
        && is_aligned(first.storage(), start);
    let mut layout = Layout::contiguous(&[elements]);
    if is_joined {
        layout.offset = start / size as isize;
        return Ok(Tensor::view_of(&first, layout));
    }
    let whole = create::zeros(&[elements], first.dtype(), first.device())?;
    for (param, &at) in params.iter().zip(&buffer.places) {
        copy::copy_to_view(&whole, &place(param, at), &param.detach())?;
    }
    Ok(whole)
}

fn forward(network: &Network, input: &Tensor, states: &[&Tensor], keeps: bool) -> Result<Option<Vec<Tensor>>> {
    let Some((description, sequences)) = described(network, input, states) else { return Ok(None) };
    let (card, device) = (card::of(input.device())?, input.device());
    let stream = stream::current(card.index);
    let Some(buffer) = cudnn::buffer(card, stream, &description)? else { return Ok(None) };
    let Some(call) = Call::new(card, stream, &description, &sequences, keeps)? else { return Ok(None) };
    let params: Vec<&Tensor> = network.weights.iter().flat_map(Weights::each).collect();
    let (input, weights) = (row_major(input)?, in_buffer(&params, &buffer)?);
    let given = states.iter().map(|state| row_major(state)).collect::<Result<Vec<_>>>()?;
    let mut sizes = input.sizes().clone();
    let last = sizes.len() - 1;
    sizes[last] = network.directions as isize * states[0].sizes()[2];
    let output = allocate(&TensorSpec::new(&sizes, input.dtype(), &input))?;
    let next = given.iter().map(|state| allocate(&TensorSpec::like(state))).collect::<Result<Vec<_>>>()?;
    let reserve = create::empty(&[call.reserve as isize], DType::U8, device)?;
    let mut held = Held::on(&input)?;
    let at = Forward {
        input: held.address(&input)?,
        output: held.address(&output)?,
        hx: held.address(&given[0])?,
        hy: held.address(&next[0])?,
        cx: held.optional(given.get(1))?,
        cy: held.optional(next.get(1))?,
        weights: held.address(&weights)?,
        reserve: if call.reserve == 0 { 0 } else { held.address(&reserve)? },
    };
    // SAFETY: the tensors are row-major and have the sizes of the description, and their storages are held for the stream.
    let done = unsafe { call.forward(card, stream, &at)? };
    drop(held);
    let mut results = vec![output];
    results.extend(next);
    if results.len() == 2 {
        results.push(create::empty(&[0], input.dtype(), device)?);
    }
    results.push(reserve);
    Ok(done.then_some(results))
}

#[operator]
pub static RECURRENT_LAYERS_BACKWARD: Operator = Operator {
    name: "_recurrent_layers_backward",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor[] hx, Tensor[] params, int[] batch_sizes, str mode, bool has_biases, int num_layers, bool bidirectional, Tensor output, Tensor reserve, Tensor? grad_output, Tensor? grad_hy, Tensor? grad_cy) -> Tensor[]",
    doc: "The gradients of input, hx and params in `_recurrent_layers`, from those of its results. Without a reserve, the layers run again; with
one, the call uses it up.

Shapes: as there; the gradients are in the order of these arguments.

    >>> x = torch.ones(1, 1, 1)
    >>> reserve = torch.empty(0, dtype=torch.uint8)
    >>> torch._recurrent_layers_backward(x, [x], [x[0], x[0]], [], 'RNN_RELU', False, 1, False, x, reserve, x, None, None)[2]
    tensor([[1.]])",
    dtypes: DTypes::FLOATS,
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd {
        cpu: again,
        cuda: OnCuda::Own(|args| match with_network(args, |network, input, states| backward(args, network, input, states))? {
            Some(found) => Ok(Output::List(found)),
            None => again(args),
        }),
    }),
    derivative: Derivative::NonDifferentiable("if gradients are recorded, they are those of steps"),
    samples: &[
        "t(3, 2, 2), [t(1, 2, 2)], [t(2, 2), t(2, 2), t(2), t(2)], [], 'RNN_TANH', True, 1, False, t(3, 2, 2), torch.empty(0, dtype=torch.uint8), t(3, 2, 2), t(1, 2, 2), None",
    ],
    errors: &[(
        "t(3, 2, 2), [t(2, 2, 2)], [t(2, 2), t(2, 2)], [], 'RNN_TANH', False, 1, False, t(3, 2, 2), torch.empty(0, dtype=torch.uint8), t(3, 2, 2), None, None",
        "RuntimeError",
        "weights and states do not fit the number of layers",
    )],
    ..Operator::BASE
};

/// By cuDNN; `None` if the reserve is not that of such a call, and inside of `vmap`.
fn backward(args: &Args, network: &Network, input: &Tensor, states: &[&Tensor]) -> Result<Option<Vec<Tensor>>> {
    use RECURRENT_LAYERS_BACKWARD::*;

    let Some((description, sequences)) = described(network, input, states).filter(|_| !rerun::is_batched(args)) else {
        return Ok(None);
    };
    let (kept, output) = (args.tensor(RESERVE)?, args.tensor(OUTPUT)?);
    let (card, dtype, device) = (card::of(input.device())?, input.dtype(), input.device());
    let stream = stream::current(card.index);
    let Some(buffer) = cudnn::buffer(card, stream, &description)? else { return Ok(None) };
    let Some(call) = Call::new(card, stream, &description, &sequences, true)? else { return Ok(None) };
    let mut sizes = input.sizes().clone();
    let last = sizes.len() - 1;
    sizes[last] = network.directions as isize * states[0].sizes()[2];
    let fits = |tensor: &Tensor, sizes: &[isize]| {
        tensor.sizes()[..] == *sizes && tensor.dtype() == dtype && tensor.device() == device
    };
    let arriving = [GRAD_OUTPUT, GRAD_HY, GRAD_CY].map(|arg| args.optional_tensor(arg));
    let [grad_output, of_states @ ..] = arriving;
    let is_whole = kept.numel() == call.reserve
        && kept.dtype() == DType::U8
        && kept.device() == device
        && call.reserve > 0
        && fits(output, &sizes)
        && grad_output.is_none_or(|grad| fits(grad, &sizes))
        && of_states.iter().zip(states).all(|(grad, state)| grad.is_none_or(|grad| fits(grad, state.sizes())));
    if !is_whole {
        return Ok(None);
    }
    let params: Vec<&Tensor> = network.weights.iter().flat_map(Weights::each).collect();
    let (input, output, weights) = (row_major(input)?, row_major(output)?, in_buffer(&params, &buffer)?);
    let given = states.iter().map(|state| row_major(state)).collect::<Result<Vec<_>>>()?;
    let reserve = row_major(kept)?;
    let grad_output = match grad_output {
        Some(grad) => row_major(grad)?,
        None => create::zeros(&sizes, dtype, device)?,
    };
    let of_states = of_states.into_iter().map(|grad| grad.map(row_major).transpose()).collect::<Result<Vec<_>>>()?;
    let to_input = allocate(&TensorSpec::like(&input))?;
    let to_states = given.iter().map(|state| allocate(&TensorSpec::like(state))).collect::<Result<Vec<_>>>()?;
    let to_weights = create::zeros(weights.sizes(), dtype, device)?;
    let mut held = Held::on(&input)?;
    let at = Backward {
        given: Forward {
            input: held.address(&input)?,
            output: held.address(&output)?,
            hx: held.address(&given[0])?,
            hy: 0,
            cx: held.optional(given.get(1))?,
            cy: 0,
            weights: held.address(&weights)?,
            reserve: held.address(&reserve)?,
        },
        grad_output: held.address(&grad_output)?,
        grad_hy: held.optional(of_states[0].as_ref())?,
        grad_cy: held.optional(of_states[1].as_ref())?,
        to_input: held.address(&to_input)?,
        to_hx: held.address(&to_states[0])?,
        to_cx: held.optional(to_states.get(1))?,
        to_weights: held.address(&to_weights)?,
    };
    // SAFETY: the tensors are row-major and have the sizes of the description, and their storages are held for the stream; the
    // reserve is that of such a call.
    unsafe { call.backward(card, stream, &at)? };
    drop(held);
    let to_params = parts(&params, &buffer, &to_weights);
    Ok(Some([to_input].into_iter().chain(to_states).chain(to_params).collect()))
}

/// All gradients, from steps that run again.
fn again(args: &Args) -> Result<Output> {
    use RECURRENT_LAYERS_BACKWARD::*;

    let operands = with_network(args, |network, input, states| {
        let params = network.weights.iter().flat_map(Weights::each);
        Ok([input].into_iter().chain(states.iter().copied()).chain(params).cloned().collect::<Vec<_>>())
    })?;
    let arriving = [GRAD_OUTPUT, GRAD_HY, GRAD_CY].map(|arg| args.optional_tensor(arg).cloned());
    rerun::gradients(&operands, &arriving, |operands| steps(args, operands)).map(Output::List)
}

/// The results of a call of either operator without cuDNN, with other operands: input, states and parameters.
fn steps(args: &Args, operands: &[Tensor]) -> Result<Vec<Tensor>> {
    use RECURRENT_LAYERS::*;

    let states = Kind::named(args.str(MODE)?)?.states();
    let values = [
        (&operands[0]).into(),
        operands[1..=states].to_vec().into(),
        operands[states + 1..].to_vec().into(),
        args.ints(BATCH_SIZES)?.into(),
        args.str(MODE)?.into(),
        args.bool(HAS_BIASES)?.into(),
        args.int(NUM_LAYERS)?.into(),
        args.bool(BIDIRECTIONAL)?.into(),
        false.into(),
    ];
    let call = Args::new(&RECURRENT_LAYERS, values);
    with_network(&call, |network, input, states| network.results(input, &split_states(states)?))
}

/// By one operator, unless the gradient itself is recorded: then it is that of steps.
fn gradients(d: &BackwardContext) -> Result<Vec<Option<Tensor>>> {
    use RECURRENT_LAYERS::*;

    let list = |arg: Arg| -> Vec<Tensor> { d.list(arg).into_iter().flatten().cloned().collect() };
    let (input, states, params) = (d.input(INPUT).done()?, list(HX), list(PARAMS));
    // Results that do not exist have empty gradients.
    let arriving = [0, 1, 2].map(|at| d.grads.get(at).cloned().flatten().filter(|grad| grad.numel() > 0));
    let rest: [Value; 5] = [
        d.ints(BATCH_SIZES).into(),
        d.args.str(MODE)?.into(),
        d.flag(HAS_BIASES).into(),
        d.int(NUM_LAYERS).into(),
        d.flag(BIDIRECTIONAL).into(),
    ];
    if modes::recording() {
        let operands = [vec![input], states, params].concat();
        return rerun::derived(operands, &arriving, |operands| steps(d.args, operands));
    }
    let reserve = d.result_of(3).done()?;
    // The call uses the reserve up, and a graph that is kept needs it again.
    let reserve = if d.releases { reserve } else { op!(CLONE, &reserve)? };
    let values = [input.into(), states.into(), params.into()].into_iter().chain(rest);
    let values = values.chain([d.result_of(0).done()?.into(), reserve.into()]).chain(arriving.map(Value::from));
    let found = Args::new(&RECURRENT_LAYERS_BACKWARD, values).call()?;
    Ok(found.into_tensors().into_iter().map(Some).collect())
}
