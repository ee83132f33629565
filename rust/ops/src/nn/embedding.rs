//! Tables of vectors: rows looked up by number.

use rushlight_autograd::Tensor;
use rushlight_core::alloc::filled;
use rushlight_core::layout::Shape;
use rushlight_core::{DType, Device, Dims, Error, Result, Scalar};
use rushlight_cpu::nn::embedding::{sum_rows, take};

use crate::derive::{Derivative, Saves, formula};
use crate::expr::Expr;
use crate::mapped::Mapped;
use crate::mapped::each::replaced;
use crate::operands::plain;
use crate::row::{DTypes, Kernel, Row, Run, Spec, Traits, Variants};
use crate::value::{Args, Output};

pub static EMBEDDING: Row = Row {
    name: "embedding",
    variants: Variants::FUNCTION,
    signature: "(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor",
    doc: "The rows of `weight` with the numbers in `indices`.

The row `padding_idx` gets no gradient; with `scale_grad_by_freq` the gradient of a row is divided by how often it was
looked up.

    >>> torch.embedding(torch.tensor([[1., 2.], [3., 4.]]), torch.tensor([1, 0]))
    tensor([[3., 4.],
            [1., 2.]])",
    dtypes: DTypes::ALL,
    mapped: Mapped::Rule(super::mapped::embedding),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let (weight, indices) = (args.tensor(0)?, args.tensor(1)?);
            if weight.rank() != 2 {
                return Err(Error::runtime("'weight' must be 2-D"));
            }
            check_indices(indices, 1, "embedding")?;
            let mut sizes = Dims::from_slice(indices.sizes());
            sizes.push(weight.sizes()[1]);
            Ok(vec![Spec::new(&sizes, weight.dtype(), weight)])
        },
        cpu: |args, results| {
            let weight = args.tensor(0)?;
            let outside = |bad| crate::index::along::outside_of(weight, 0, bad, false);
            let indices = numbers_or(args.tensor(1)?, weight.sizes()[0], |_, bad| outside(bad))?;
            let size = weight.dtype().size();
            // Rows must be contiguous; their distance is free.
            let rows = if weight.sizes()[1] <= 1 || weight.layout().strides[1] == 1 {
                weight.clone()
            } else {
                plain(weight, weight.dtype())?
            };
            let (table, out) = (rows.storage().pin()?, results[0].storage().pin()?);
            let first = table.as_ptr().wrapping_offset(rows.layout().offset * size as isize);
            let step = rows.layout().strides[0].wrapping_mul(size as isize);
            // SAFETY: indices are rows, and the result has room for one row each.
            unsafe { take(first, step, weight.sizes()[1] as usize * size, &indices, out.as_ptr()) };
            Ok(())
        },
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(1), |d| match d.input(1).done() {
        Ok(indices) => {
            let rows = d.sizes(0)[0] as i64;
            if d.flag(4) {
                return Expr::new(
                    d.grad().done().and_then(|grad| sparse_gradient(&grad, &indices, d.sizes(0), d.int(2), d.flag(3))),
                );
            }
            d.grad().call(&EMBEDDING_BACKWARD, [indices.into(), rows.into(), d.int(2).into(), d.flag(3).into()])
        }
        Err(error) => Expr::Failed(error),
    })]),
    samples: &["t(4, 3), i(4, 2, 5)", "t(4, 3), i(4, 5), 1", "t(4, 3), i(4)"],
    errors: &[
        ("t(3, 4), torch.tensor([0, 5])", "IndexError", "index out of range in self"),
        ("t(3), torch.tensor([0])", "RuntimeError", "'weight' must be 2-D"),
    ],
    reference: "weight[indices]",
    ..Row::BASE
};

/// The gradient of a table as a sparse tensor: an entry for each look-up, but for those of the padding.
fn sparse_gradient(grad: &Tensor, indices: &Tensor, sizes: &[isize], skipped: i64, averages: bool) -> Result<Tensor> {
    use crate::view::RESHAPE;
    use crate::view::reshape::sizes_value;
    if averages {
        return Err(Error::runtime("embedding_backward: scale_grad_by_freq not supported with sparse gradients"));
    }
    let mut indices = crate::op!(RESHAPE, indices, sizes_value(&[1, -1]))?;
    let mut values = crate::op!(RESHAPE, grad, sizes_value(&[indices.numel() as isize, sizes[1]]))?;
    if skipped >= 0 {
        let list = numbers(&indices, sizes[0])?;
        let mut kept = rushlight_core::alloc::list(list.len())?;
        kept.extend((0i64..).zip(&list).filter(|&(_, &row)| row != skipped).map(|(at, _)| at));
        let kept = crate::create::from_slice(&kept)?;
        indices = crate::op!(crate::index::along::INDEX_SELECT, &indices, 1i64, &kept)?;
        values = crate::op!(crate::index::along::INDEX_SELECT, &values, 0i64, &kept)?;
    }
    crate::op!(crate::sparse::MADE, &indices, &values, sizes_value(sizes))
}

pub static EMBEDDING_BACKWARD: Row = Row {
    name: "embedding_dense_backward",
    variants: Variants::FUNCTION,
    signature: "(Tensor grad_output, Tensor indices, int num_weights, int padding_idx, bool scale_grad_by_freq) -> Tensor",
    doc: "For each row of a table the sum of the gradients that belong to it.

    >>> torch.embedding_dense_backward(torch.ones(3, 1), torch.tensor([0, 1, 1]), 2, -1, False)
    tensor([[1.],
            [2.]])",
    dtypes: DTypes::NUMBERS,
    mapped: Mapped::Rule(super::mapped::embedding_backward),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let grad = args.tensor(0)?;
            let width = grad.sizes().last().copied().unwrap_or(1);
            let indices = args.tensor(1)?;
            check_indices(indices, 2, "embedding_backward")?;
            if grad.numel() != indices.numel() * width as usize {
                return Err(Error::runtime(format!(
                    "shape '{}' is invalid for input of size {}",
                    Shape(&[indices.numel() as isize, width]),
                    grad.numel()
                ))
                .hint("The gradient has a row for each index."));
            }
            if args.int(2)? < 0 {
                return Err(Error::runtime("zeros: Dimension size must be non-negative."));
            }
            Ok(vec![Spec::new(&[args.int(2)? as isize, width], grad.dtype(), grad)])
        },
        cpu: |args, results| {
            let out = &results[0];
            let indices = numbers(args.tensor(1)?, out.sizes()[0])?;
            let grads = plain(args.tensor(0)?, out.dtype())?;
            let (source, target) = (grads.storage().pin()?, out.storage().pin()?);
            let first = source.as_ptr().wrapping_offset(grads.layout().offset * out.dtype().size() as isize);
            let (rows, width) = (out.sizes()[0] as usize, out.sizes()[1] as usize);
            // SAFETY: indices are rows, with as many gradients each as the result is wide.
            unsafe { sum_rows(out.dtype(), first, &indices, target.as_ptr(), rows, width, args.int(3)?, args.bool(4)?) }
        },
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(1), |d| {
        let gradient = || {
            let indices = d.input(1).done()?;
            let grads = d.grad().call(&EMBEDDING, [(&indices).into()]);
            let factor = row_factors(
                &indices,
                d.int(2),
                d.int(3),
                d.flag(4),
                d.facts(0).map_or(DType::F32, |facts| facts.dtype),
            )?;
            match factor {
                Some(factor) => (grads * Expr::from(factor)).done(),
                None => grads.done(),
            }
        };
        Expr::new(gradient())
    })]),
    samples: &["t(5, 3), i(4, 5), 4, -1, False", "t(5, 3), i(4, 5), 4, 1, False", "t(5, 3), i(4, 5), 4, -1, True"],
    errors: &[
        (
            "t(3, 2), t(3), 4, -1, False",
            "RuntimeError",
            "Expected tensor for argument #2 'indices' to have one of the following scalar types: Long, Int; but got torch.FloatTensor instead (while checking arguments for embedding_backward)",
        ),
        ("t(3, 2), i(4, 2), 4, -1, False", "RuntimeError", "shape '[2, 2]' is invalid for input of size 6"),
    ],
    reference: "",
    ..Row::BASE
};

/// What each looked-up row's gradient is multiplied with: zero at the padding, one over its frequency; nothing if all ones.
fn row_factors(indices: &Tensor, rows: i64, skipped: i64, averages: bool, dtype: DType) -> Result<Option<Tensor>> {
    if skipped < 0 && !averages {
        return Ok(None);
    }
    let (shown, axes) = crate::mapped::all_shown(indices);
    let numbers = numbers(&shown, rows as isize)?;
    let mut factors = rushlight_core::alloc::list(numbers.len())?;
    for sample in numbers.chunks(indices.numel().max(1)) {
        let mut counts = filled(0u32, rows as usize)?;
        sample.iter().for_each(|&row| counts[row as usize] += 1);
        factors.extend(sample.iter().map(|&row| match (row == skipped, averages) {
            (true, _) => 0.0,
            (false, true) => 1.0 / f64::from(counts[row as usize]),
            (false, false) => 1.0,
        }));
    }
    let factors = crate::convert::to_dtype(&crate::create::from_slice::<f64>(&factors)?, dtype)?;
    let mut sizes = shown.sizes().clone();
    sizes.push(1);
    let factors = crate::op!(crate::view::RESHAPE, &factors, crate::view::reshape::sizes_value(&sizes))?;
    Ok(Some(crate::mapped::all_hidden(&factors, &axes)))
}

pub(super) fn check_indices(indices: &Tensor, place: usize, row: &str) -> Result<()> {
    if matches!(indices.dtype(), DType::I64 | DType::I32) {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "Expected tensor for argument #{place} 'indices' to have one of the following scalar types: Long, Int; but got {} instead (while checking arguments for {row})",
        match indices.dtype() {
            DType::Bool => "CPUBoolType".into(),
            dtype => format!("torch.{}Tensor", dtype.title()),
        }
    ))
    .hint("Row numbers are integers: indices.long()."))
}

/// The indices as a list; each is less than `rows`.
pub(super) fn numbers(indices: &Tensor, rows: isize) -> Result<Vec<i64>> {
    numbers_or(indices, rows, |_, bad| {
        Error::index("index out of range in self").hint(format!("{bad} is no row of a table with {rows} rows."))
    })
}

/// The same; one that is not gives the error for its place and itself.
pub(super) fn numbers_or(indices: &Tensor, rows: isize, error: impl Fn(usize, i64) -> Error) -> Result<Vec<i64>> {
    let numbers = crate::convert::to_vec::<i64>(indices)?;
    match numbers.iter().position(|&index| index < 0 || index >= rows as i64) {
        Some(at) => Err(error(at, numbers[at])),
        None => Ok(numbers),
    }
}

pub static EMBEDDING_RENORM: Row = Row {
    name: "embedding_renorm_",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor indices, float max_norm, float norm_type) -> Tensor",
    doc: "Shortens, in place, the rows that `indices` names to a norm of at most `max_norm`.

    >>> torch.embedding_renorm_(torch.tensor([[3., 4.]]), torch.tensor([0]), 1.0, 2.0)
    tensor([[0.6000, 0.8000]])",
    dtypes: DTypes::INEXACT,
    check: Some(|args| {
        let rank = args.tensor(0)?.rank();
        if rank != 2 {
            return Err(Error::runtime(format!(
                "Expected 2-dimensional tensor, but got {rank}-dimensional tensor for argument #1 'self' (while checking arguments for embedding_renorm_)"
            )));
        }
        check_indices(args.tensor(1)?, 2, "embedding_renorm_")
    }),
    run: Run::Overwrite(|args, weight| {
        if weight.device() == Device::Meta {
            return Ok(());
        }
        let (limit, power) = (args.float(2)?, args.float(3)?);
        let mut rows = numbers(args.tensor(1)?, weight.sizes()[0])?;
        rows.sort_unstable();
        rows.dedup();
        if !rows.is_empty() && !weight.dtype().is_differentiable() {
            return Err(Error::runtime(format!(
                "norm(): input dtype should be either floating point or complex. Got {} instead.",
                weight.dtype().title()
            )));
        }
        for row in rows {
            let own = Tensor::new(
                weight.storage().clone(),
                weight.layout().select(0, row as isize),
                weight.dtype(),
                weight.device(),
            );
            let lengths = Expr::from(&own).abs().done()?;
            let norm = norm(&crate::convert::to_vec::<f64>(&lengths)?, power);
            if norm > limit {
                let shorter = crate::op!(crate::pointwise::arith::MUL, &own, Scalar::Float(limit / (norm + 1e-7)))?;
                crate::copy::copy(&own, &shorter)?;
            }
        }
        Ok(())
    }),
    derivative: Derivative::NonDifferentiable("it changes the table outside of the graph"),
    samples: &["t(4, 3), i(4, 2), 1.0, 2.0", "t(4, 3), i(4, 5), 0.5, 1.0", "t(4, 3).t(), i(3, 2), 1.0, inf"],
    errors: &[
        (
            "t(3), i(3, 2), 1., 2.",
            "RuntimeError",
            "Expected 2-dimensional tensor, but got 1-dimensional tensor for argument #1 'self' (while checking arguments for embedding_renorm_)",
        ),
        (
            "t(3, 2), t(2), 1., 2.",
            "RuntimeError",
            "Expected tensor for argument #2 'indices' to have one of the following scalar types: Long, Int; but got torch.FloatTensor instead (while checking arguments for embedding_renorm_)",
        ),
    ],
    reference: "",
    ..Row::BASE
};

fn norm(row: &[f64], power: f64) -> f64 {
    if power == f64::INFINITY {
        return row.iter().fold(0.0, |most, x| x.abs().max(most));
    }
    row.iter().map(|x| x.abs().powf(power)).sum::<f64>().powf(1.0 / power)
}

pub static ONE_HOT: Row = Row {
    name: "one_hot",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int num_classes=-1) -> Tensor",
    doc:
        "For each class number a row of zeros with a one at its place; `num_classes=-1` takes one more than the largest.

    >>> torch.nn.functional.one_hot(torch.tensor([0, 2]))
    tensor([[1, 0, 0],
            [0, 0, 1]])",
    dtypes: DTypes::INTS,
    traits: Traits::NEEDS_VALUES,
    // How many classes there are may differ from sample to sample, unless the call says it.
    mapped: Mapped::Rule(|batch| match batch.args.int(1)? {
        0.. => crate::call(replaced(batch.args, |tensor| Ok(batch.shown(tensor)))?).map(Some),
        _ => Ok(None),
    }),
    run: Run::Body(one_hot),
    derivative: Derivative::NonDifferentiable("class numbers are integers"),
    samples: &["i(4, 2, 3)", "i(4, 3), 5"],
    errors: &[("torch.tensor([0, 2]), 2", "RuntimeError", "Class values must be smaller than num_classes.")],
    reference: "np.eye(self.max() + 1 if num_classes == -1 else num_classes, dtype=np.int64)[self]",
    ..Row::BASE
};

fn one_hot(args: &Args) -> Result<Output> {
    let own = args.tensor(0)?;
    if own.dtype() != DType::I64 {
        return Err(Error::runtime("one_hot is only applicable to index tensor of type LongTensor."));
    }
    let wanted = args.int(1)?;
    if own.device() == Device::Meta {
        if wanted < 0 {
            return Err(Error::runtime("Tensor.item() cannot be called on meta tensors")
                .hint("How many classes there are depends on values: say num_classes."));
        }
        let mut sizes = own.sizes().clone();
        sizes.push(wanted as isize);
        return crate::create::empty(&sizes, DType::I64, own.device()).map(Output::Tensor);
    }
    let numbers = crate::convert::to_vec::<i64>(own)?;
    if numbers.is_empty() && wanted <= 0 {
        return Err(Error::runtime("Can not infer total number of classes from empty tensor."));
    }
    if numbers.iter().any(|&n| n < 0) {
        return Err(Error::runtime("Class values must be non-negative."));
    }
    let classes = if wanted == -1 { numbers.iter().max().map_or(0, |most| most + 1) } else { wanted };
    if numbers.iter().any(|&n| n >= classes) {
        return Err(Error::runtime("Class values must be smaller than num_classes."));
    }
    let mut sizes = own.sizes().clone();
    sizes.push(classes as isize);
    let result = crate::create::zeros(&sizes, DType::I64, own.device())?;
    let pin = result.storage().pin()?;
    for (at, &class) in numbers.iter().enumerate() {
        // SAFETY: the class is less than the row's length.
        unsafe { pin.as_ptr().cast::<i64>().add(at * classes as usize + class as usize).write(1) };
    }
    drop(pin);
    Ok(Output::Tensor(result))
}
