//! Indices into the flattened tensor.

use rushlight_autograd::Tensor;
use rushlight_core::{Class, DType, Error, Result};
use rushlight_cpu::index::scatter::ScatterOp;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Accepts, BatchRule, BatchedCall, DTypes, Derivative, Implementation, Kernel, Operator, Out, Saves, TensorSpec,
    Update, Variants, formula, operator,
};
use rushlight_dispatch::value::{Arg, Output, sizes_value};
use rushlight_dispatch::{copy, create, deterministic, op};

use super::get::get_into;
use super::last_writes::of_last_writes;
use super::put::{put_into, single};
use super::{INDEX, INDEX_PUT_DIMS};

#[operator]
pub static TAKE: Operator = Operator {
    name: "take",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, Tensor index) -> Tensor",
    doc: "The elements of the flattened tensor at `index`; the result has the shape of `index`.

    >>> torch.take(torch.tensor([[1, 2], [3, 4]]), torch.tensor([0, -1]))
    tensor([1, 4])",
    out: Out::new(Accepts::Same, &["{name}(): self and out expected to have the same dtype, but got self.dtype = {Result} and out.dtype = {Out}"]).no_alias(),
    dtypes: DTypes::COMPUTED,
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let (input, index) = (args.tensor(INPUT)?, args.tensor(INDEX)?);
            if index.dtype() != DType::I64 {
                return Err(Error::runtime(format!(
                    "take(): Expected a long tensor for index, but got {}",
                    index.dtype().display_name()
                )));
            }
            if input.numel() == 0 && index.numel() != 0 {
                return Err(Error::index("take(): tried to take from an empty tensor"));
            }
            Ok(vec![TensorSpec::new(index.sizes(), input.dtype(), input)])
        },
        |args, results| {
            let flat = flattened(args.tensor(INPUT)?)?;
            let cut = single(&flat, 0, args.tensor(INDEX)?)?;
            let words = || outside(args.tensor(INDEX), flat.numel());
            get_into(&flat, &cut, &results[0]).map_err(|error| error.reworded(Class::Index, words))
        },
        )),
    batch_rule: BatchRule::Custom(taken),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INDEX), |d| {
        let Some(meta) = d.meta(INPUT) else { return Expr::Nothing };
        match (create::zeros(&meta.sizes, meta.dtype, meta.device), d.input(INDEX), d.grad()) {
            (Ok(zeros), Expr::Tensor(index), Expr::Tensor(grad)) => Expr::new(op!(PUT, zeros, index, grad, true)),
            (Err(error), ..) | (_, Expr::Failed(error), _) => Expr::failed(error),
            (_, _, grad) => grad,
        }
    })]),
    samples: &["t(3, 4), i(12, 5)", "t(3, 4).t(), i(12, 2, 2)", "t(3), i(3)"],
    errors: &[(
        "t(3), torch.tensor([9])",
        "IndexError",
        "out of range: tried to access index 9 on a tensor of 3 elements.",
    )],
    reference: "np.take(self, index)",
    ..Operator::BASE
};

/// The flattened tensor: a view if possible.
fn flattened(tensor: &Tensor) -> Result<Tensor> {
    op!(crate::view::RESHAPE, &tensor.detach(), sizes_value(&[-1]))
}

/// The flattened elements of each sample.
fn rows(batch: &BatchedCall, arg: Arg) -> Result<Tensor> {
    op!(crate::view::RESHAPE, batch.tensor(arg)?, sizes_value(&[batch.size, -1]))
}

/// The error for indices that are out of a sample's range, in this operator's words.
fn in_words(error: Error, batch: &BatchedCall) -> Error {
    use TAKE::*;

    let numel = batch.args.tensor(INPUT).map_or(0, Tensor::numel);
    error.reworded(Class::Index, || outside(batch.tensor(INDEX).as_ref().map_err(Error::clone), numel))
}

fn taken(batch: &BatchedCall) -> Result<Option<Output>> {
    if batch.size == 0 {
        return Ok(None);
    }
    let index = batch.tensor(TAKE::INDEX)?;
    let found = match batch.differs_at(TAKE::INPUT) {
        false => op!(TAKE, batch.one(TAKE::INPUT)?, index),
        true => {
            let samples = batch.numbers(index.rank() - 1)?;
            op!(INDEX, rows(batch, TAKE::INPUT)?, vec![samples, index], &[0i64, 1][..])
                .map_err(|error| in_words(error, batch))
        }
    };
    found.map(|found| Some(Output::Tensor(found)))
}

fn written(batch: &BatchedCall) -> Result<Option<Output>> {
    use PUT::*;

    if batch.size == 0 {
        return Ok(None);
    }
    let (index, source) = (rows(batch, INDEX)?, rows(batch, SOURCE)?);
    let places = vec![batch.numbers(1)?, index];
    let whole = op!(INDEX_PUT_DIMS, rows(batch, INPUT)?, places, &[0i64, 1][..], source, batch.args.bool(ACCUMULATE)?);
    let mut sizes = vec![batch.size];
    sizes.extend_from_slice(batch.args.tensor(INPUT)?.sizes());
    let whole = whole.map_err(|error| in_words(error, batch))?;
    op!(crate::view::RESHAPE, whole, sizes_value(&sizes)).map(|whole| Some(Output::Tensor(whole)))
}

#[cold]
fn outside(index: Result<&Tensor>, numel: usize) -> Error {
    let n = numel as i64;
    let list = match index.and_then(crate::convert::to_vec::<i64>) {
        Ok(list) => list,
        Err(error) => return error,
    };
    let bad = list.into_iter().find(|&value| value < -n || value >= n).unwrap_or(0);
    Error::index(format!("out of range: tried to access index {bad} on a tensor of {numel} elements."))
}

#[operator]
pub static PUT: Operator = Operator {
    name: "put",
    variants: Variants::BOTH.union(Variants::INPLACE),
    signature: "(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor",
    doc: "A copy with the elements of `source` written or added at indices into the flattened tensor.

    >>> torch.put(torch.zeros(2, 2), torch.tensor([3, 0]), torch.tensor([1., 2.]))
    tensor([[2., 0.],
            [0., 1.]])",
    dtypes: DTypes::COMPUTED,
    implementation: Implementation::Update(Update::on_any_device(
        |args| {
            let (input, index, source) = (args.tensor(INPUT)?, args.tensor(INDEX)?, args.tensor(SOURCE)?);
            if index.dtype() != DType::I64 {
                return Err(Error::runtime(format!(
                    "put_(): Expected a long tensor for index, but got {}",
                    index.dtype().display_name()
                )));
            }
            if input.dtype() != source.dtype() {
                return Err(Error::runtime(format!(
                    "put_(): self and source expected to have the same dtype, but got self.dtype = {} and source.dtype = {}",
                    input.dtype().display_name(),
                    source.dtype().display_name()
                )));
            }
            if index.numel() != source.numel() {
                return Err(Error::index(format!(
                    "put_(): Expected source and index to have the same number of elements, but got source.numel() = {}, index.numel() = {}",
                    source.numel(),
                    index.numel()
                )));
            }
            if input.numel() == 0 && index.numel() != 0 {
                return Err(Error::index("put_(): Tried to put elements into an empty tensor"));
            }
            // torch does not determine which of several elements for one place remains.
            if args.bool(ACCUMULATE)? { Ok(()) } else { deterministic::alert("put_") }
        },
        |args, target| {
            let merge = if args.bool(ACCUMULATE)? { ScatterOp::Add } else { ScatterOp::Set };
            // A tensor that cannot be flattened to a view is changed in a copy.
            let flat = flattened(target)?;
            let (index, source) = (flattened(args.tensor(INDEX)?)?, flattened(args.tensor(SOURCE)?)?);
            let cut = single(&flat, 0, &index)?;
            let words = || outside(args.tensor(INDEX), flat.numel());
            put_into(&flat, &cut, &source, merge).map_err(|error| error.reworded(Class::Index, words))?;
            if flat.storage().same(target.storage()) {
                return Ok(());
            }
            copy::copy(target, &op!(crate::view::RESHAPE, flat, sizes_value(target.sizes()))?)
        },
    )),
    batch_rule: BatchRule::Custom(written),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(INDEX), |d| {
            if d.flag(ACCUMULATE) {
                return d.grad();
            }
            match d.input(INDEX) {
                Expr::Tensor(index) => match create::zeros(index.sizes(), d.results[0].dtype, index.device()) {
                    Ok(zeros) => d.grad().call(&PUT, [index.into(), zeros.into()]),
                    Err(error) => Expr::failed(error),
                },
                other => other,
            }
        }),
        formula(SOURCE, Saves::input(INDEX), |d| match d.input(INDEX) {
            Expr::Tensor(index) => {
                let own = d.grad().call(&TAKE, [(&index).into()]);
                let own = match d.flag(ACCUMULATE) {
                    true => own,
                    false => of_last_writes(
                        d,
                        own,
                        |zeros, numbers| op!(PUT, zeros, &index, numbers),
                        |written| op!(TAKE, written, &index),
                    ),
                };
                own.call(&crate::view::RESHAPE, [sizes_value(d.sizes(SOURCE))])
            }
            other => other,
        }),
    ]),
    samples: &["t(3, 4), torch.tensor([3, 0]), t(2)", "t(3, 4).t(), i(12, 5), t(5), True"],
    errors: &[(
        "t(3), torch.tensor([9]), t(1)",
        "IndexError",
        "out of range: tried to access index 9 on a tensor of 3 elements.",
    )],
    kernel_name: "take_put_cpu",
    ..Operator::BASE
};
