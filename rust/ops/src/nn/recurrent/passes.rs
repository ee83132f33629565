//! Passes over a whole sequence on GPUs, of a layer in one direction, forward and backward. Sequences of one length and packed ones
//! are the same to them: rows of steps.
//!
//! A step is a product with the hidden state's weights and one kernel for its elementwise part, which write into the tensors of the whole
//! sequence. The gradient of the weights is one product over all steps.

use rushlight_autograd::Tensor;
use rushlight_core::{Error, Layout, Result, Scalar};
use rushlight_dispatch::operator::{Args, TensorSpec};
use rushlight_dispatch::value::{Target, Value};
use rushlight_dispatch::{allocate::allocate, copy, create};

use super::gates::{GRU_GATES, GRU_GATES_BACKWARD, run_into};
use super::on_cuda::{self, LstmStep};
use super::steps::{Kind, joined};
use crate::linalg::{Matrix, product};
use crate::pointwise::activation::RELU;
use crate::pointwise::activation_backward::{TANH_BACKWARD, THRESHOLD_BACKWARD};
use crate::pointwise::arith::ADD;
use crate::pointwise::hyperbolic::TANH;
use crate::reduce::sum_to;

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
pub(super) struct Steps {
    starts: Vec<isize>,
    pub batch_sizes: Vec<isize>,
    pub backwards: bool,
}

impl Steps {
    pub fn new(batch_sizes: &[i64], backwards: bool) -> Result<Steps> {
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

    pub fn rows(&self) -> isize {
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

/// The operands of both passes.
pub(super) struct Pass<'a> {
    pub kind: Kind,
    pub products: &'a Tensor,
    pub hx: &'a Tensor,
    pub cx: Option<&'a Tensor>,
    pub weight: &'a Tensor,
    pub bias: Option<&'a Tensor>,
    pub steps: Steps,
}

/// The results of a pass forward: outputs, the cells of an LSTM, and what the gradients need of the gates: those of an LSTM, and of a
/// gated unit the sums of the hidden state's part.
pub(super) struct Results {
    pub outputs: Tensor,
    pub cells: Tensor,
    pub gates: Tensor,
}

impl Results {
    pub fn of([outputs, cells, gates]: [&Tensor; 3]) -> Results {
        Results { outputs: outputs.clone(), cells: cells.clone(), gates: gates.clone() }
    }
}

/// The gradients of the operands, which a pass backward fills.
pub(super) struct Gradients {
    pub products: Tensor,
    pub hx: Tensor,
    pub cx: Option<Tensor>,
    pub weight: Tensor,
}

impl Pass<'_> {
    pub fn width(&self) -> isize {
        self.hx.sizes()[1]
    }

    /// New memory for a row of `times` states for each row of the products.
    fn empty(&self, times: isize) -> Result<Tensor> {
        let sizes = [self.steps.rows(), times * self.width()];
        allocate(&TensorSpec::new(&sizes, self.products.dtype(), self.products))
    }

    /// A result that layers of this kind do not have.
    pub fn nothing(&self) -> Result<Tensor> {
        create::empty(&[0], self.products.dtype(), self.products.device())
    }

    /// New memory for the results.
    pub fn results(&self) -> Result<Results> {
        let gates = self.kind.gates();
        Ok(Results {
            outputs: self.empty(1)?,
            cells: if self.kind == Kind::Lstm { self.empty(1)? } else { self.nothing()? },
            gates: if gates > 1 { self.empty(gates)? } else { self.nothing()? },
        })
    }

    /// New memory for the gradients.
    pub fn gradients(&self) -> Result<Gradients> {
        let like = |tensor: &Tensor| allocate(&TensorSpec::like(tensor));
        Ok(Gradients {
            products: self.empty(self.kind.gates())?,
            hx: like(self.hx)?,
            cx: self.cx.map(like).transpose()?,
            weight: like(self.weight)?,
        })
    }

    /// The state before a step: rows of the outputs, of the first state, or of both.
    fn state(&self, step: usize, first: &Tensor, all: &Tensor) -> Result<Tensor> {
        let part = |part: &Part| rows(if part.of_first { first } else { all }, part.from, part.rows);
        joined(self.steps.before(step).iter().map(part).collect(), 0)
    }

    /// Fills the results, which are row-major.
    pub fn forward(&self, Results { outputs, cells, gates }: &Results) -> Result<()> {
        if let Some(bias) = self.bias {
            let shown = bias.layout().broadcast_to(gates.sizes())?;
            copy::copy(gates, &Tensor::view_of(&bias.detach(), shown))?;
        }
        let products = self.products.detach();
        let turned = || Matrix::of(self.weight).transposed();
        for step in self.steps.order() {
            let at = |of: &Tensor| rows(of, self.steps.starts[step], self.steps.batch_sizes[step]);
            let (state, given, output) = (self.state(step, &self.hx.detach(), outputs)?, at(&products), at(outputs));
            let multiply = |to: &Tensor, addend: Option<&Tensor>| {
                let addend = addend.map(|tensor| (Scalar::Int(1), Matrix::of(tensor)));
                product(Matrix::of(to), Scalar::Int(1), Matrix::of(&state), turned(), addend)
            };
            match (self.kind, self.cx) {
                (Kind::Tanh | Kind::Relu, _) => {
                    multiply(&output, Some(&given))?;
                    let activation = if self.kind == Kind::Tanh { &TANH } else { &RELU };
                    Args::new(activation, [Value::from(&output)]).call_into(Target::InPlace)?;
                }
                (Kind::Gru, _) => {
                    let sums = at(gates);
                    multiply(&sums, self.bias.map(|_| &sums))?;
                    run_into(&GRU_GATES, [&given, &sums, &state], &[output])?;
                }
                (Kind::Lstm, Some(cx)) => {
                    let gates = at(gates);
                    multiply(&gates, Some(&given))?;
                    on_cuda::lstm_step(&gates, &self.state(step, &cx.detach(), cells)?, [&output, &at(cells)])?;
                }
                (Kind::Lstm, None) => return Err(without_cells()),
            }
        }
        Ok(())
    }

    /// Fills the gradients, from those of outputs and cells and the results. The gradient of the bias follows the others.
    pub fn backward(&self, results: &Results, grads: [Option<&Tensor>; 2], to: &Gradients) -> Result<Option<Tensor>> {
        let outputs = results.outputs.detach();
        // The gradient of the state before a step is added to those of the step before, or to that of the first state.
        let all = match grads[0] {
            Some(grad) => copy::laid_out(&grad.detach(), Layout::contiguous(grad.sizes()))?,
            None => create::zeros(outputs.sizes(), outputs.dtype(), outputs.device())?,
        };
        // That of a cell stays in its place until its sequence's next step.
        [Some(&to.hx), to.cx.as_ref()].into_iter().flatten().try_for_each(|to| create::fill(to, Scalar::ZERO))?;
        let before = shifted(&self.steps, &self.hx.detach(), &outputs)?;
        let before_cells = match self.cx {
            Some(cx) => Some(shifted(&self.steps, &cx.detach(), &results.cells.detach())?),
            None => None,
        };
        let of_cells =
            grads[1].map(|grad| copy::laid_out(&grad.detach(), Layout::contiguous(grad.sizes()))).transpose()?;
        let to_sums = if self.kind == Kind::Gru { self.empty(self.kind.gates())? } else { to.products.clone() };
        let products = self.products.detach();
        for step in self.steps.order().into_iter().rev() {
            let at = |of: &Tensor| rows(of, self.steps.starts[step], self.steps.batch_sizes[step]);
            let (grad, output, to_products) = (at(&all), at(&outputs), at(&to.products));
            let mut direct = None;
            match (self.kind, &before_cells, &to.cx) {
                (Kind::Tanh, ..) => {
                    let values = [Value::from(&grad), (&output).into()];
                    Args::new(&TANH_BACKWARD, values).call_into(Target::Out(&[to_products]))?;
                }
                (Kind::Relu, ..) => {
                    let values = [Value::from(&grad), (&output).into(), Scalar::Int(0).into()];
                    Args::new(&THRESHOLD_BACKWARD, values).call_into(Target::Out(&[to_products]))?;
                }
                (Kind::Gru, ..) => {
                    let through = allocate(&TensorSpec::like(&grad))?;
                    let operands = [&grad, &at(&products), &at(&results.gates), &at(&before)];
                    run_into(&GRU_GATES_BACKWARD, operands, &[to_products, at(&to_sums), through.clone()])?;
                    direct = Some(through);
                }
                (Kind::Lstm, Some(before_cells), Some(to_cells)) => on_cuda::lstm_step_back(LstmStep {
                    gates: &at(&results.gates),
                    cx: &at(before_cells),
                    cy: &at(&results.cells),
                    grad_hy: &grad,
                    grad_cy: of_cells.as_ref().map(at).as_ref(),
                    to_sums: &to_products,
                    to_cx: &rows(to_cells, 0, self.steps.batch_sizes[step]),
                })?,
                (Kind::Lstm, ..) => return Err(without_cells()),
            }
            for part in self.steps.before(step) {
                let first = part.to - self.steps.starts[step];
                let target = rows(if part.of_first { &to.hx } else { &all }, part.from, part.rows);
                if let Some(direct) = &direct {
                    let more = rows(direct, first, part.rows);
                    Args::new(&ADD, [(&target).into(), Value::from(&more)]).call_into(Target::InPlace)?;
                }
                let moved = rows(&to_sums, part.to, part.rows);
                let addend = Some((Scalar::Int(1), Matrix::of(&target)));
                product(Matrix::of(&target), Scalar::Int(1), Matrix::of(&moved), Matrix::of(self.weight), addend)?;
            }
        }
        let turned = Matrix::of(&to_sums).transposed();
        product(Matrix::of(&to.weight), Scalar::Int(1), turned, Matrix::of(&before), None)?;
        self.bias.map(|bias| sum_to(&to_sums, bias.sizes())).transpose()
    }
}

fn without_cells() -> Error {
    Error::runtime("an LSTM needs two states")
}
