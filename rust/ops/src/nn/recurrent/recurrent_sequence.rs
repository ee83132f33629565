//! A layer in one direction over a whole sequence as one operator, which GPUs use: plain and gated units, and packed sequences of all kinds.
//!
//! Steps write into the tensors of the whole sequence. The gradient of the state's weights is one product over all steps.

use rushlight_autograd::{Tensor, modes};
use rushlight_core::layout::Shape;
use rushlight_core::{Device, Error, Layout, Result, Scalar};
use rushlight_dispatch::operator::{
    Args, BackwardContext, DTypes, Derivative, ExplicitAutograd, Implementation, Joint, Operator, Saves, TensorSpec,
    Variants, operator,
};
use rushlight_dispatch::value::{Arg, Output, Target, Value};
use rushlight_dispatch::{allocate::allocate, copy, create, op};

use super::gates::{GRU_GATES, GRU_GATES_BACKWARD, LSTM_GATES, LSTM_GATES_BACKWARD, run_into};
use super::rerun;
use super::steps::{Kind, State};
use crate::join::cat::CAT;
use crate::linalg::addmm::ADDMM;
use crate::linalg::matrix::MM;
use crate::linalg::{Matrix, product};
use crate::pointwise::activation::RELU;
use crate::pointwise::activation_backward::{TANH_BACKWARD, THRESHOLD_BACKWARD};
use crate::pointwise::arith::ADD;
use crate::pointwise::hyperbolic::TANH;
use crate::reduce::sum_to;
use crate::view::narrow::NARROW;
use crate::view::transpose::TRANSPOSE;

/// Rows of all steps, or of the state before them, that are the state before other rows. With `batch_sizes` `[2, 1]`, the steps have
/// the rows 0 and 1, and 2. Row 2 reads what row 0 has computed: `{ to: 2, of_first: false, from: 0, rows: 1 }`.
#[derive(Clone, Copy)]
struct Part {
    /// The first row that reads them.
    to: isize,
    of_first: bool,
    from: isize,
    rows: isize,
}

/// The steps of a sequence: where each begins, and how many rows it has.
struct Steps {
    starts: Vec<isize>,
    batch_sizes: Vec<isize>,
    backwards: bool,
}

impl Steps {
    fn new(batch_sizes: &[i64], backwards: bool) -> Result<Steps> {
        let batch_sizes: Vec<isize> = batch_sizes.iter().map(|&count| count as isize).collect();
        if batch_sizes.is_empty()
            || batch_sizes.iter().any(|&rows| rows < 1)
            || batch_sizes.windows(2).any(|pair| pair[0] < pair[1])
        {
            return Err(Error::runtime("the numbers of sequences in each step must be positive and never increase"));
        }
        let mut starts = Vec::with_capacity(batch_sizes.len());
        let mut row = 0isize;
        for &count in &batch_sizes {
            starts.push(row);
            row = row.checked_add(count).ok_or_else(|| Error::runtime("too many rows"))?;
        }
        Ok(Steps { starts, batch_sizes, backwards })
    }

    fn rows(&self) -> isize {
        self.starts.last().zip(self.batch_sizes.last()).map_or(0, |(start, rows)| start + rows)
    }

    /// The steps in the order in which they run.
    fn order(&self) -> Vec<usize> {
        let steps = 0..self.batch_sizes.len();
        if self.backwards { steps.rev().collect() } else { steps.collect() }
    }

    /// The states before a step.
    fn before(&self, step: usize) -> Vec<Part> {
        let (to, rows) = (self.starts[step], self.batch_sizes[step]);
        let first = |to: isize, from: isize, rows: isize| Part { to, of_first: true, from, rows };
        if !self.backwards {
            return match step.checked_sub(1) {
                None => vec![first(to, 0, rows)],
                Some(last) => vec![Part { to, of_first: false, from: self.starts[last], rows }],
            };
        }
        let Some(&running) = self.batch_sizes.get(step + 1) else { return vec![first(to, 0, rows)] };
        let mut parts = vec![Part { to, of_first: false, from: self.starts[step + 1], rows: running }];
        if running < rows {
            parts.push(first(to + running, running, rows - running));
        }
        parts
    }

    /// The states before all steps, in as few parts as possible.
    fn all_before(&self) -> Vec<Part> {
        let mut merged: Vec<Part> = Vec::new();
        for part in (0..self.batch_sizes.len()).flat_map(|step| self.before(step)) {
            match merged.last_mut() {
                Some(last)
                    if last.of_first == part.of_first
                        && last.to + last.rows == part.to
                        && last.from + last.rows == part.from =>
                {
                    last.rows += part.rows;
                }
                _ => merged.push(part),
            }
        }
        merged
    }
}

/// A view of rows of a matrix, which is not recorded.
fn rows(of: &Tensor, first: isize, count: isize) -> Tensor {
    Tensor::view_of(of, of.layout().slice(0, first, count, 1))
}

/// The states before all rows.
fn shifted(steps: &Steps, first: &Tensor, all: &Tensor) -> Result<Tensor> {
    let whole = allocate(&TensorSpec::like(all))?;
    for part in steps.all_before() {
        let from = rows(if part.of_first { first } else { all }, part.from, part.rows);
        copy::copy_to_view(&whole, rows(&whole, part.to, part.rows).layout(), &from)?;
    }
    Ok(whole)
}

/// The operands with gradients, at the same places in both operators.
const OPERANDS: [Arg; 5] = {
    use RECURRENT_SEQUENCE::*;

    [PRODUCTS, HX, CX, W_HH, B_HH]
};

/// The operands of both operators.
struct Sequence<'a> {
    kind: Kind,
    products: &'a Tensor,
    hx: &'a Tensor,
    cx: Option<&'a Tensor>,
    weight: &'a Tensor,
    bias: Option<&'a Tensor>,
    steps: Steps,
}

impl<'a> Sequence<'a> {
    fn read(args: &'a Args) -> Result<Sequence<'a>> {
        use RECURRENT_SEQUENCE::*;

        let sequence = Sequence {
            kind: Kind::named(args.str(MODE)?)?,
            products: args.tensor(PRODUCTS)?,
            hx: args.tensor(HX)?,
            cx: args.optional_tensor(CX),
            weight: args.tensor(W_HH)?,
            bias: args.optional_tensor(B_HH),
            steps: Steps::new(args.ints(BATCH_SIZES)?, args.bool(BACKWARDS)?)?,
        };
        let (gates, first) = (sequence.kind.gates(), sequence.steps.batch_sizes[0]);
        let fits = matches!(sequence.hx.sizes()[..], [count, width] if count == first
            && sequence.products.sizes()[..] == [sequence.steps.rows(), gates * width]
            && sequence.weight.sizes()[..] == [gates * width, width]
            && sequence.cx.is_some() == (sequence.kind == Kind::Lstm)
            && sequence.cx.is_none_or(|cells| cells.sizes() == sequence.hx.sizes())
            && sequence.bias.is_none_or(|bias| sequence.kind == Kind::Gru && bias.sizes()[..] == [gates * width]))
            && [Some(sequence.hx), sequence.cx, Some(sequence.weight), sequence.bias]
                .iter()
                .flatten()
                .all(|tensor| tensor.dtype() == sequence.products.dtype());
        match fits {
            true => Ok(sequence),
            false => Err(Error::runtime(format!(
                "weights of {} do not fit products of {} and a state of {}",
                Shape(sequence.weight.sizes()),
                Shape(sequence.products.sizes()),
                Shape(sequence.hx.sizes())
            ))),
        }
    }

    fn width(&self) -> isize {
        self.hx.sizes()[1]
    }

    fn empty(&self, columns: isize) -> Result<Tensor> {
        allocate(&TensorSpec::new(&[self.steps.rows(), columns], self.products.dtype(), self.products))
    }

    fn nothing(&self) -> Result<Tensor> {
        create::empty(&[0], self.products.dtype(), self.products.device())
    }

    /// The state before a step: rows of the outputs, of the first state, or of both.
    fn state(&self, step: usize, first: &Tensor, all: &Tensor) -> Result<Tensor> {
        let part = |part: &Part| rows(if part.of_first { first } else { all }, part.from, part.rows);
        match &self.steps.before(step)[..] {
            [only] => Ok(part(only)),
            parts => CAT.tensor([Value::from(parts.iter().map(part).collect::<Vec<_>>()), 0i64.into()]),
        }
    }

    /// Outputs, cells, and the sums of the gates that the gradients need, by kernels that write into them.
    fn forward(&self) -> Result<Vec<Tensor>> {
        let (width, gates) = (self.width(), self.kind.gates());
        let outputs = self.empty(width)?;
        let cells = if self.kind == Kind::Lstm { self.empty(width)? } else { self.nothing()? };
        let sums = if gates > 1 { self.empty(gates * width)? } else { self.nothing()? };
        if let Some(bias) = self.bias {
            let shown = bias.layout().broadcast_to(sums.sizes())?;
            copy::copy(&sums, &Tensor::view_of(&bias.detach(), shown))?;
        }
        let products = self.products.detach();
        let turned = || Matrix::laid(self.weight, self.weight.layout().transpose(0, 1));
        for step in self.steps.order() {
            let at = |of: &Tensor| rows(of, self.steps.starts[step], self.steps.batch_sizes[step]);
            let (state, given, output) = (self.state(step, &self.hx.detach(), &outputs)?, at(&products), at(&outputs));
            let multiply = |to: &Tensor, addend: Option<&Tensor>| {
                let addend = addend.map(|tensor| (Scalar::Int(1), Matrix::of(tensor)));
                product(Matrix::of(to), Scalar::Int(1), Matrix::of(&state), turned(), addend)
            };
            match self.kind {
                Kind::Tanh | Kind::Relu => {
                    multiply(&output, Some(&given))?;
                    let activation = if self.kind == Kind::Tanh { &TANH } else { &RELU };
                    Args::new(activation, [Value::from(&output)]).call_into(Target::InPlace)?;
                }
                Kind::Gru => {
                    let sums = at(&sums);
                    multiply(&sums, self.bias.map(|_| &sums))?;
                    run_into(&GRU_GATES, [&given, &sums, &state], &[output])?;
                }
                Kind::Lstm => {
                    let (sums, cell) = (at(&sums), at(&cells));
                    multiply(&sums, Some(&given))?;
                    let before = self.state(step, &self.cx.unwrap_or(self.hx).detach(), &cells)?;
                    run_into(&LSTM_GATES, [&sums, &before], &[output, cell])?;
                }
            }
        }
        Ok(vec![outputs, cells, sums])
    }

    /// The gradients of products, hx, cx, w_hh and b_hh, from those of outputs and cells and the results.
    fn backward(&self, results: [&Tensor; 3], grads: [Option<&Tensor>; 2]) -> Result<Vec<Tensor>> {
        let (width, gates) = (self.width(), self.kind.gates());
        let [outputs, cells, sums] = results.map(Tensor::detach);
        let of_steps = |grad: Option<&Tensor>| match grad {
            Some(grad) => copy::laid_out(&grad.detach(), Layout::contiguous(grad.sizes())),
            None => create::zeros(outputs.sizes(), outputs.dtype(), outputs.device()),
        };
        let zeros = |like: &Tensor| create::zeros(like.sizes(), like.dtype(), like.device());
        // Gradients of states before a step are added to those of the step before, or to those of the first state.
        let (all, to_first) = (of_steps(grads[0])?, zeros(self.hx)?);
        let before = shifted(&self.steps, &self.hx.detach(), &outputs)?;
        let of_cells = match self.cx {
            Some(cx) => Some((of_steps(grads[1])?, zeros(cx)?, shifted(&self.steps, &cx.detach(), &cells)?)),
            None => None,
        };
        let to_products = self.empty(gates * width)?;
        let to_sums = if self.kind == Kind::Gru { self.empty(gates * width)? } else { to_products.clone() };
        let products = self.products.detach();
        let add = |to: &Tensor, more: &Tensor| Args::new(&ADD, [to.into(), more.into()]).call_into(Target::InPlace);
        for step in self.steps.order().into_iter().rev() {
            let at = |of: &Tensor| rows(of, self.steps.starts[step], self.steps.batch_sizes[step]);
            let (grad, output, to) = (at(&all), at(&outputs), at(&to_products));
            let direct = match (self.kind, &of_cells) {
                (Kind::Tanh, _) => {
                    let values = [Value::from(&grad), (&output).into()];
                    Args::new(&TANH_BACKWARD, values).call_into(Target::Out(&[to]))?;
                    None
                }
                (Kind::Relu, _) => {
                    let values = [Value::from(&grad), (&output).into(), Scalar::Int(0).into()];
                    Args::new(&THRESHOLD_BACKWARD, values).call_into(Target::Out(&[to]))?;
                    None
                }
                (Kind::Gru, _) => {
                    let direct = allocate(&TensorSpec::like(&grad))?;
                    let operands = [&grad, &at(&products), &at(&sums), &at(&before)];
                    run_into(&GRU_GATES_BACKWARD, operands, &[to, at(&to_sums), direct.clone()])?;
                    Some((direct, &all, &to_first))
                }
                (Kind::Lstm, Some((of_cells, to_cell, before_cells))) => {
                    let direct = allocate(&TensorSpec::like(&grad))?;
                    let operands = [&grad, &at(of_cells), &at(&sums), &at(before_cells), &at(&cells)];
                    run_into(&LSTM_GATES_BACKWARD, operands, &[to, direct.clone()])?;
                    Some((direct, of_cells, to_cell))
                }
                (Kind::Lstm, None) => return Err(Error::runtime("an LSTM needs two states")),
            };
            for part in self.steps.before(step) {
                let row = part.to - self.steps.starts[step];
                let target =
                    |all: &Tensor, first: &Tensor| rows(if part.of_first { first } else { all }, part.from, part.rows);
                if let Some((direct, all, first)) = &direct {
                    add(&target(all, first), &rows(direct, row, part.rows))?;
                }
                let (to, moved) = (target(&all, &to_first), rows(&to_sums, part.to, part.rows));
                let addend = Some((Scalar::Int(1), Matrix::of(&to)));
                product(Matrix::of(&to), Scalar::Int(1), Matrix::of(&moved), Matrix::of(self.weight), addend)?;
            }
        }
        let to_weight = allocate(&TensorSpec::like(self.weight))?;
        let turned = Matrix::laid(&to_sums, to_sums.layout().transpose(0, 1));
        product(Matrix::of(&to_weight), Scalar::Int(1), turned, Matrix::of(&before), None)?;
        let to_bias = self.bias.map(|bias| sum_to(&to_sums, bias.sizes())).transpose()?;
        let to_cell = of_cells.map(|(_, to_cell, _)| to_cell);
        Ok([Some(to_products), Some(to_first), to_cell, Some(to_weight), to_bias].into_iter().flatten().collect())
    }

    /// The same results, composed of operators that are recorded.
    fn composed(&self) -> Result<Vec<Tensor>> {
        let turned = op!(TRANSPOSE, self.weight, 0i64, 1i64)?;
        let count = self.steps.batch_sizes.len();
        let (mut outputs, mut cells, mut all_sums) = (vec![None; count], vec![None; count], vec![None; count]);
        let mut state = State { output: self.hx.clone(), cell: self.cx.cloned() };
        for step in self.steps.order() {
            let (start, rows) = (self.steps.starts[step] as i64, self.steps.batch_sizes[step] as i64);
            let given = op!(NARROW, self.products, 0i64, start, rows)?;
            let before = |last: &Tensor, first: &Tensor| -> Result<Tensor> {
                let running = last.sizes()[0] as i64;
                if running >= rows {
                    return op!(NARROW, last, 0i64, 0i64, rows);
                }
                let more = op!(NARROW, first, 0i64, running, rows - running)?;
                CAT.tensor([Value::from(vec![last.clone(), more]), 0i64.into()])
            };
            let output = before(&state.output, self.hx)?;
            let cell = state.cell.as_ref().zip(self.cx).map(|(last, first)| before(last, first)).transpose()?;
            let next = match (self.kind, cell) {
                (Kind::Tanh, _) => op!(TANH, &op!(ADDMM, &given, &output, &turned)?)?,
                (Kind::Relu, _) => op!(RELU, &op!(ADDMM, &given, &output, &turned)?)?,
                (Kind::Gru, _) => {
                    let sums = match self.bias {
                        Some(bias) => op!(ADDMM, bias, &output, &turned)?,
                        None => op!(MM, &output, &turned)?,
                    };
                    all_sums[step] = Some(sums.clone());
                    op!(GRU_GATES, &given, &sums, &output)?
                }
                (Kind::Lstm, cell) => {
                    let sums = op!(ADDMM, &given, &output, &turned)?;
                    let both = LSTM_GATES.call([(&sums).into(), cell.into()])?.into_tensors();
                    let [next, cell] =
                        <[Tensor; 2]>::try_from(both).map_err(|_| Error::runtime("a step without results"))?;
                    (cells[step], all_sums[step]) = (Some(cell.clone()), Some(sums));
                    state.cell = Some(cell);
                    next
                }
            };
            outputs[step] = Some(next.clone());
            state.output = next;
        }
        let joined = |list: Vec<Option<Tensor>>| {
            CAT.tensor([Value::from(list.into_iter().flatten().collect::<Vec<_>>()), 0i64.into()])
        };
        let cells = if self.kind == Kind::Lstm { joined(cells)? } else { self.nothing()? };
        let sums = if self.kind.gates() > 1 { joined(all_sums)? } else { self.nothing()? };
        Ok(vec![joined(outputs)?, cells, sums])
    }
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
        let sequence = Sequence::read(args)?;
        let results = if is_composed(args) { sequence.composed()? } else { sequence.forward()? };
        Ok(Output::Tuple(results))
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

/// The fused gradient, which is not recorded.
#[operator]
pub static RECURRENT_SEQUENCE_BACKWARD: Operator = Operator {
    name: "_recurrent_sequence_backward",
    variants: Variants::FUNCTION,
    signature: "(Tensor products, Tensor hx, Tensor? cx, Tensor w_hh, Tensor? b_hh, int[] batch_sizes, str mode, bool backwards, Tensor outputs, Tensor cells, Tensor sums, Tensor? grad_outputs, Tensor? grad_cells) -> Tensor[]",
    doc: "The gradients of those of products, hx, cx, w_hh and b_hh that were given to `_recurrent_sequence`, from its results and their
gradients.

Shapes: as there.

    >>> h, none = torch.ones(1, 1), torch.empty(0)
    >>> torch._recurrent_sequence_backward(h, h, None, h, None, [1], 'RNN_RELU', False, 2 * h, none, none, h, None)
    (tensor([[1.]]), tensor([[1.]]), tensor([[1.]]))",
    dtypes: DTypes::FLOATS,
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        let (sequence, grads) = (Sequence::read(args)?, grads(args)?);
        let results = [args.tensor(OUTPUTS)?, args.tensor(CELLS)?, args.tensor(SUMS)?];
        let [narrow, wide] = [1, sequence.kind.gates()].map(|times| [sequence.steps.rows(), times * sequence.width()]);
        let fits = |tensor: &Tensor, has: bool, sizes: [isize; 2]| {
            !has || tensor.sizes()[..] == sizes && tensor.dtype() == sequence.products.dtype()
        };
        if !fits(results[0], true, narrow)
            || !fits(results[1], sequence.kind == Kind::Lstm, narrow)
            || !fits(results[2], sequence.kind.gates() > 1, wide)
        {
            return Err(Error::runtime("results do not fit their sequence"));
        }
        if is_composed(args) { again(args) } else { sequence.backward(results, grads).map(Output::List) }
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

/// Whether operators compose the call: on all samples of a `vmap`, and without data.
fn is_composed(args: &Args) -> bool {
    rerun::is_batched(args) || !args.all_tensors(|tensor| tensor.device() != Device::Meta)
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
    Sequence::read(&call)?.composed()
}

/// The gradients that arrive, which have the sizes of outputs.
fn grads<'a>(args: &'a Args) -> Result<[Option<&'a Tensor>; 2]> {
    use RECURRENT_SEQUENCE_BACKWARD::*;

    let sequence = Sequence::read(args)?;
    let grads = [GRAD_OUTPUTS, GRAD_CELLS].map(|arg| args.optional_tensor(arg));
    let sizes = [sequence.steps.rows(), sequence.width()];
    match grads.iter().flatten().all(|grad| grad.sizes()[..] == sizes && grad.dtype() == sequence.products.dtype()) {
        true => Ok(grads),
        false => Err(Error::runtime("a gradient does not fit its sequence")),
    }
}

/// Fused, unless the gradient itself is recorded, or one of the sums arrives.
fn gradients(d: &BackwardContext) -> Result<Vec<Option<Tensor>>> {
    use RECURRENT_SEQUENCE::*;

    let given = OPERANDS.map(|arg| d.is_tensor(arg));
    let operands = OPERANDS.into_iter().filter(|&arg| d.is_tensor(arg)).map(|arg| d.input(arg).done());
    let operands = operands.collect::<Result<Vec<_>>>()?;
    // Results that do not exist have empty gradients.
    let arriving = [0, 1, 2].map(|at| d.grads.get(at).cloned().flatten().filter(|grad| grad.numel() > 0));
    let [of_outputs, of_cells, of_sums] = &arriving;
    if modes::recording() || of_sums.is_some() {
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
