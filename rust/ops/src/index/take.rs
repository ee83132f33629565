//! Indices into the elements as if they stood in one row.

use rushlight_core::{Class, DType, Error, Result};
use rushlight_cpu::index::merge::Merge;

use super::get::get_into;
use super::put::{put_into, single};
use super::{INDEX, PUT as INDEX_PUT};
use crate::derive::{Derivative, Saves, formula};
use crate::expr::Expr;
use crate::mapped::{Batch, Mapped};
use crate::row::{Accepts, DTypes, Kernel, Out, Row, Run, Spec, Update, Variants};
use crate::value::Output;
use crate::view::reshape::sizes_value;
use crate::{Tensor, op};

pub static TAKE: Row = Row {
    name: "take",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, Tensor index) -> Tensor",
    doc: "The elements at indices into the row-major order; the result has the shape of `index`.

    >>> torch.take(torch.tensor([[1, 2], [3, 4]]), torch.tensor([0, -1]))
    tensor([1, 4])",
    out: Out::new(Accepts::Same, &["{name}(): self and out expected to have the same dtype, but got self.dtype = {Result} and out.dtype = {Out}"]).apart(),
    dtypes: DTypes::ALL,
    run: Run::Kernel(Kernel {
        infer: |args| {
            let (own, index) = (args.tensor(0)?, args.tensor(1)?);
            if index.dtype() != DType::I64 {
                return Err(Error::runtime(format!(
                    "take(): Expected a long tensor for index, but got {}",
                    index.dtype().title()
                )));
            }
            if own.numel() == 0 && index.numel() != 0 {
                return Err(Error::index("take(): tried to take from an empty tensor"));
            }
            Ok(vec![Spec::new(index.sizes(), own.dtype(), own)])
        },
        cpu: |args, results| {
            let flat = flattened(args.tensor(0)?)?;
            let cut = single(&flat, 0, args.tensor(1)?)?;
            let words = || outside(args.tensor(1), flat.numel());
            cut.offsets(&flat).map_err(|error| error.reworded(Class::Index, words))?;
            get_into(&flat, &cut, &results[0])
        },
    }),
    mapped: Mapped::Rule(taken),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(1), |d| {
        let Some(facts) = d.facts(0) else { return Expr::Nothing };
        match (crate::create::zeros(&facts.sizes, facts.dtype, facts.device), d.input(1), d.grad()) {
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
    ..Row::BASE
};

/// The elements in one row: a view where that is possible.
fn flattened(tensor: &Tensor) -> Result<Tensor> {
    op!(crate::view::RESHAPE, &tensor.detach(), sizes_value(&[-1]))
}

/// The elements of each sample in one row.
fn rows(batch: &Batch, place: usize) -> Result<Tensor> {
    op!(crate::view::RESHAPE, batch.tensor(place)?, sizes_value(&[batch.size, -1]))
}

/// Indices out of the range of a sample in this row's words.
fn in_words(error: Error, batch: &Batch) -> Error {
    let numel = batch.args.tensor(0).map_or(0, Tensor::numel);
    error.reworded(Class::Index, || outside(batch.tensor(1).as_ref().map_err(Error::clone), numel))
}

fn taken(batch: &Batch) -> Result<Option<Output>> {
    if batch.size == 0 {
        return Ok(None);
    }
    let index = batch.tensor(1)?;
    let found = match batch.differs_at(0) {
        false => op!(TAKE, batch.one(0)?, index),
        true => {
            let samples = batch.numbers(index.rank() - 1)?;
            op!(INDEX, rows(batch, 0)?, vec![samples, index], &[0i64, 1][..]).map_err(|error| in_words(error, batch))
        }
    };
    found.map(|found| Some(Output::Tensor(found)))
}

fn written(batch: &Batch) -> Result<Option<Output>> {
    if batch.size == 0 {
        return Ok(None);
    }
    let (index, source) = (rows(batch, 1)?, rows(batch, 2)?);
    let places = vec![batch.numbers(1)?, index];
    let whole = op!(INDEX_PUT, rows(batch, 0)?, places, &[0i64, 1][..], source, batch.args.bool(3)?);
    let mut sizes = vec![batch.size];
    sizes.extend_from_slice(batch.args.tensor(0)?.sizes());
    let whole = whole.map_err(|error| in_words(error, batch))?;
    op!(crate::view::RESHAPE, whole, sizes_value(&sizes)).map(|whole| Some(Output::Tensor(whole)))
}

#[cold]
fn outside(index: Result<&Tensor>, numel: usize) -> Error {
    let n = numel as i64;
    let list = match index.and_then(crate::to_vec::<i64>) {
        Ok(list) => list,
        Err(error) => return error,
    };
    let bad = list.into_iter().find(|&value| value < -n || value >= n).unwrap_or(0);
    Error::index(format!("out of range: tried to access index {bad} on a tensor of {numel} elements."))
}

pub static PUT: Row = Row {
    name: "put",
    variants: Variants::BOTH.union(Variants::INPLACE),
    signature: "(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor",
    doc: "A copy with the elements of `source` written to, or added at, indices into the row-major order.

    >>> torch.put(torch.zeros(2, 2), torch.tensor([3, 0]), torch.tensor([1., 2.]))
    tensor([[2., 0.],
            [0., 1.]])",
    dtypes: DTypes::ALL,
    run: Run::Update(Update {
        check: |args| {
            let (own, index, source) = (args.tensor(0)?, args.tensor(1)?, args.tensor(2)?);
            if index.dtype() != DType::I64 {
                return Err(Error::runtime(format!(
                    "put_(): Expected a long tensor for index, but got {}",
                    index.dtype().title()
                )));
            }
            if own.dtype() != source.dtype() {
                return Err(Error::runtime(format!(
                    "put_(): self and source expected to have the same dtype, but got self.dtype = {} and source.dtype = {}",
                    own.dtype().title(),
                    source.dtype().title()
                )));
            }
            if index.numel() != source.numel() {
                return Err(Error::index(format!(
                    "put_(): Expected source and index to have the same number of elements, but got source.numel() = {}, index.numel() = {}",
                    source.numel(),
                    index.numel()
                )));
            }
            if own.numel() == 0 && index.numel() != 0 {
                return Err(Error::index("put_(): Tried to put elements into an empty tensor"));
            }
            Ok(())
        },
        cpu: |args, target| {
            let merge = if args.bool(3)? { Merge::Add } else { Merge::Set };
            // A tensor that no view shows in one row is changed in a copy.
            let flat = flattened(target)?;
            let (index, source) = (flattened(args.tensor(1)?)?, flattened(args.tensor(2)?)?);
            let cut = single(&flat, 0, &index)?;
            let words = || outside(args.tensor(1), flat.numel());
            cut.offsets(&flat).map_err(|error| error.reworded(Class::Index, words))?;
            put_into(&flat, &cut, &source, merge)?;
            if flat.storage().same(target.storage()) {
                return Ok(());
            }
            crate::copy::copy(target, &op!(crate::view::RESHAPE, flat, sizes_value(target.sizes()))?)
        },
    }),
    mapped: Mapped::Rule(written),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1), |d| {
            if d.flag(3) {
                return d.grad();
            }
            match d.input(1) {
                Expr::Tensor(index) => match crate::create::zeros(index.sizes(), d.results[0].dtype, index.device()) {
                    Ok(zeros) => d.grad().call(&PUT, [index.into(), zeros.into()]),
                    Err(error) => Expr::failed(error),
                },
                other => other,
            }
        }),
        formula(2, Saves::input(1), |d| match d.input(1) {
            Expr::Tensor(index) => {
                d.grad().call(&TAKE, [index.into()]).call(&crate::view::RESHAPE, [sizes_value(d.sizes(2))])
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
    ..Row::BASE
};
