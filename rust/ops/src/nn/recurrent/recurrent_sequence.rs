//! A layer in one direction over a whole sequence as one operator, which GPUs use: plain and gated units, and packed sequences of all
//! kinds. The passes are those of `passes`.

use std::cell::RefCell;

use rushlight_autograd::{Tensor, modes};
use rushlight_core::layout::Shape;
use rushlight_core::{Device, Error, Result};
use rushlight_dispatch::operator::{
    Args, BackwardContext, DTypes, Derivative, ExplicitAutograd, Implementation, Joint, Operator, Saves, Variants,
    operator,
};
use rushlight_dispatch::value::{Arg, Output, Value};

use super::gates::activated;
use super::layer::Layer;
use super::passes::{Pass, Results, Steps};
use super::rerun;
use super::steps::{Kind, State, run_packed};
use crate::join::cat::CAT;
use crate::view::split::SPLIT_WITH_SIZES;

/// The operands with gradients, at the same places in both operators.
const OPERANDS: [Arg; 5] = {
    use RECURRENT_SEQUENCE::*;

    [PRODUCTS, HX, CX, W_HH, B_HH]
};

/// Reads the operands of either operator.
fn read<'a>(args: &'a Args) -> Result<Pass<'a>> {
    use RECURRENT_SEQUENCE::*;

    let pass = Pass {
        kind: Kind::named(args.str(MODE)?)?,
        products: args.tensor(PRODUCTS)?,
        hx: args.tensor(HX)?,
        cx: args.optional_tensor(CX),
        weight: args.tensor(W_HH)?,
        bias: args.optional_tensor(B_HH),
        steps: Steps::new(args.ints(BATCH_SIZES)?, args.bool(BACKWARDS)?)?,
    };
    let (gates, first) = (pass.kind.gates(), pass.steps.batch_sizes[0]);
    let fits = matches!(pass.hx.sizes()[..], [count, width] if count == first
        && pass.products.sizes()[..] == [pass.steps.rows(), gates * width]
        && pass.weight.sizes()[..] == [gates * width, width]
        && pass.cx.is_some() == (pass.kind == Kind::Lstm)
        && pass.cx.is_none_or(|cells| cells.sizes() == pass.hx.sizes())
        && pass.bias.is_none_or(|bias| pass.kind == Kind::Gru && bias.sizes()[..] == [gates * width]))
        && [Some(pass.hx), pass.cx, Some(pass.weight), pass.bias]
            .iter()
            .flatten()
            .all(|tensor| tensor.dtype() == pass.products.dtype());
    match fits {
        true => Ok(pass),
        false => Err(Error::runtime(format!(
            "weights of {} do not fit products of {} and a state of {}",
            Shape(pass.weight.sizes()),
            Shape(pass.products.sizes()),
            Shape(pass.hx.sizes())
        ))),
    }
}

/// The results of a pass forward, composed of operators that are recorded.
fn composed(args: &Args) -> Result<Vec<Tensor>> {
    let pass = read(args)?;
    let layer = Layer::of_hidden(pass.kind, pass.weight, pass.bias)?;
    let (batch_sizes, backwards) = (args.ints(RECURRENT_SEQUENCE::BATCH_SIZES)?, pass.steps.backwards);
    let given = SPLIT_WITH_SIZES.call([pass.products.into(), batch_sizes.into()])?.into_tensors();
    // What each step leaves besides its hidden state, in the order in which they run.
    let (cells, gates) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
    let step = |input: &Tensor, state: &State| {
        let sums = layer.sums(input, state)?;
        let next = layer.next(input, &sums, state)?;
        cells.borrow_mut().extend(next.cell.clone());
        match pass.kind {
            Kind::Tanh | Kind::Relu => {}
            Kind::Gru => gates.borrow_mut().push(sums),
            Kind::Lstm => gates.borrow_mut().push(activated(sums)?),
        }
        Ok(next)
    };
    let first = State { hidden: pass.hx.clone(), cell: pass.cx.cloned() };
    let (outputs, _) = run_packed(&step, &|at| Ok(given[at].clone()), batch_sizes, first, backwards)?;
    let joined = |list: RefCell<Vec<Tensor>>| {
        let mut list = list.into_inner();
        if backwards {
            list.reverse();
        }
        if list.is_empty() { pass.nothing() } else { CAT.tensor([Value::from(list), 0i64.into()]) }
    };
    Ok(vec![outputs, joined(cells)?, joined(gates)?])
}

#[operator]
pub static RECURRENT_SEQUENCE: Operator = Operator {
    name: "_recurrent_sequence",
    variants: Variants::FUNCTION,
    signature: "(Tensor products, Tensor hx, Tensor? cx, Tensor w_hh, Tensor? b_hh, int[] batch_sizes, str mode, bool backwards) -> (Tensor, Tensor, Tensor)",
    doc: "The outputs and cells of all steps of a recurrent layer in one direction, and what its gradients need besides.

Shapes: products of the input with its weights `(sum(batch_sizes), gates * H)`, hx and cx `(batch_sizes[0], H)`, w_hh
`(gates * H, H)`, b_hh of a gated recurrent unit `(gates * H)`; outputs `(sum(batch_sizes), H)`, and so are the cells of an LSTM.
`mode` is that of `nn.RNNBase`. With `backwards` the last step is the first.

    >>> h = torch.ones(1, 1)
    >>> torch._recurrent_sequence(torch.ones(2, 1), h, None, h, None, [1, 1], 'RNN_RELU', False)[0]
    tensor([[2.],
            [3.]])",
    dtypes: DTypes::FLOATS,
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        if is_composed(args) {
            return composed(args).map(Output::Tuple);
        }
        let pass = read(args)?;
        let results = pass.results()?;
        pass.forward(&results)?;
        Ok(Output::Tuple(vec![results.outputs, results.cells, results.gates]))
    })),
    derivative: Derivative::Joint(Joint {
        inputs: &OPERANDS,
        saves: Saves::input(PRODUCTS)
            .union(Saves::input(HX))
            .union(Saves::input(CX))
            .union(Saves::input(W_HH))
            .union(Saves::input(B_HH))
            .union(Saves::result(0))
            .union(Saves::result(1))
            .union(Saves::result(2)),
        gradients,
    }),
    samples: &[
        "t(3, 2), t(2, 2), None, t(2, 2), None, [2, 1], 'RNN_TANH', True",
        "t(3, 6), t(2, 2), None, t(6, 2), t(6), [2, 1], 'GRU', False",
        "t(3, 8), t(2, 2), t(2, 2), t(8, 2), None, [2, 1], 'LSTM', True",
    ],
    errors: &[
        (
            "t(3, 2), t(2, 2), None, t(4, 2), None, [2, 1], 'RNN_TANH', True",
            "RuntimeError",
            "weights of [4, 2] do not fit products of [3, 2] and a state of [2, 2]",
        ),
        (
            "t(3, 2), t(2, 2), None, t(2, 2), None, [1, 2], 'RNN_TANH', True",
            "RuntimeError",
            "the numbers of sequences in each step must be positive and never increase",
        ),
    ],
    ..Operator::BASE
};

/// The gradient by one pass, which is not recorded.
#[operator]
pub static RECURRENT_SEQUENCE_BACKWARD: Operator = Operator {
    name: "_recurrent_sequence_backward",
    variants: Variants::FUNCTION,
    signature: "(Tensor products, Tensor hx, Tensor? cx, Tensor w_hh, Tensor? b_hh, int[] batch_sizes, str mode, bool backwards, Tensor outputs, Tensor cells, Tensor gates, Tensor? grad_outputs, Tensor? grad_cells) -> Tensor[]",
    doc: "The gradients of those of products, hx, cx, w_hh and b_hh that were given to `_recurrent_sequence`, from its results and their
gradients.

Shapes: as there.

    >>> h, none = torch.ones(1, 1), torch.empty(0)
    >>> torch._recurrent_sequence_backward(h, h, None, h, None, [1], 'RNN_RELU', False, 2 * h, none, none, h, None)
    (tensor([[1.]]), tensor([[1.]]), tensor([[1.]]))",
    dtypes: DTypes::FLOATS,
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        let (pass, grads) = (read(args)?, grads(args)?);
        let results = [args.tensor(OUTPUTS)?, args.tensor(CELLS)?, args.tensor(GATES)?];
        let [narrow, wide] = [1, pass.kind.gates()].map(|times| [pass.steps.rows(), times * pass.width()]);
        let fits = |tensor: &Tensor, has: bool, sizes: [isize; 2]| {
            !has || tensor.sizes()[..] == sizes && tensor.dtype() == pass.products.dtype()
        };
        if !fits(results[0], true, narrow)
            || !fits(results[1], pass.kind == Kind::Lstm, narrow)
            || !fits(results[2], pass.kind.gates() > 1, wide)
        {
            return Err(Error::runtime("results do not fit their sequence"));
        }
        if is_composed(args) {
            return again(args);
        }
        let (results, to) = (Results::of(results), pass.gradients()?);
        let to_bias = pass.backward(&results, grads, &to)?;
        let found = [Some(to.products), Some(to.hx), to.cx, Some(to.weight), to_bias];
        Ok(Output::List(found.into_iter().flatten().collect()))
    })),
    derivative: Derivative::NonDifferentiable("if gradients are recorded, the gradient of the sequence is composed"),
    // The outputs are some that these operands can have: none is cut off.
    samples: &[
        "pos(2, 2), pos(2, 2), None, pos(2, 2), None, [2], 'RNN_RELU', True, pos(2, 2), torch.empty(0), torch.empty(0), t(2, 2), None",
    ],
    errors: &[(
        "t(3, 2), t(2, 2), None, t(2, 2), None, [2, 1], 'RNN_TANH', True, t(3, 2), torch.empty(0), torch.empty(0), t(2, 2), None",
        "RuntimeError",
        "a gradient does not fit its sequence",
    )],
    ..Operator::BASE
};

/// Whether operators compose the call: on all samples of a `vmap`, and elsewhere than on GPUs.
fn is_composed(args: &Args) -> bool {
    rerun::is_batched(args) || !args.all_tensors(|tensor| matches!(tensor.device(), Device::Cuda(_)))
}

/// All gradients, from operators that run again.
fn again(args: &Args) -> Result<Output> {
    let arriving = grads(args)?.map(|grad| grad.cloned());
    let given = OPERANDS.map(|arg| args.has_tensor(arg));
    let operands: Vec<Tensor> = OPERANDS.iter().filter_map(|&arg| args.optional_tensor(arg).cloned()).collect();
    rerun::gradients(&operands, &arriving, |operands| steps(args, given, operands)).map(Output::List)
}

/// The results of a call of either operator, composed, with other operands in place of those that were given.
fn steps(args: &Args, given: [bool; 5], operands: &[Tensor]) -> Result<Vec<Tensor>> {
    use RECURRENT_SEQUENCE::*;

    let mut operands = operands.iter();
    let values = given.map(|given| if given { operands.next() } else { None }).map(Value::from);
    let rest = [args.ints(BATCH_SIZES)?.into(), args.str(MODE)?.into(), args.bool(BACKWARDS)?.into()];
    let call = Args::new(&RECURRENT_SEQUENCE, values.into_iter().chain(rest));
    composed(&call)
}

/// The gradients that arrive, which have the sizes of outputs.
fn grads<'a>(args: &'a Args) -> Result<[Option<&'a Tensor>; 2]> {
    use RECURRENT_SEQUENCE_BACKWARD::*;

    let pass = read(args)?;
    let grads = [GRAD_OUTPUTS, GRAD_CELLS].map(|arg| args.optional_tensor(arg));
    let sizes = [pass.steps.rows(), pass.width()];
    match grads.iter().flatten().all(|grad| grad.sizes()[..] == sizes && grad.dtype() == pass.products.dtype()) {
        true => Ok(grads),
        false => Err(Error::runtime("a gradient does not fit its sequence")),
    }
}

/// Fused, unless the gradient itself is recorded, or one of the gates arrives.
fn gradients(d: &BackwardContext) -> Result<Vec<Option<Tensor>>> {
    use RECURRENT_SEQUENCE::*;

    let given = OPERANDS.map(|arg| d.is_tensor(arg));
    let operands = OPERANDS.into_iter().filter(|&arg| d.is_tensor(arg)).map(|arg| d.input(arg).done());
    let operands = operands.collect::<Result<Vec<_>>>()?;
    // Results that do not exist have empty gradients.
    let arriving = [0, 1, 2].map(|at| d.grads.get(at).cloned().flatten().filter(|grad| grad.numel() > 0));
    let [of_outputs, of_cells, of_gates] = &arriving;
    if modes::recording() || of_gates.is_some() {
        return rerun::derived(operands, &arriving, |operands| steps(d.args, given, operands));
    }
    let mut operands = operands.into_iter();
    let values = given.map(|given| if given { operands.next() } else { None }).map(Value::from);
    let rest = [d.ints(BATCH_SIZES).into(), d.args.str(MODE)?.into(), d.flag(BACKWARDS).into()];
    let results = [d.result_of(0).done()?, d.result_of(1).done()?, d.result_of(2).done()?];
    let values = values.into_iter().chain(rest).chain(results.map(Value::from));
    let values = values.chain([of_outputs.as_ref().into(), of_cells.as_ref().into()]);
    let found = Args::new(&RECURRENT_SEQUENCE_BACKWARD, values).call()?;
    Ok(found.into_tensors().into_iter().map(Some).collect())
}
