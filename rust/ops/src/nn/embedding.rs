//! Tables of vectors: rows looked up by index.

use rushlight_autograd::Tensor;
use rushlight_core::alloc::filled;
use rushlight_core::layout::Shape;
use rushlight_core::{DType, Device, Dims, Error, Result, Scalar};
use rushlight_cpu::nn::embedding::{sum_rows, take};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operands::plain;
use rushlight_dispatch::operator::{
    Args, BatchRule, BatchedCall, DTypes, Derivative, ExplicitAutograd, Implementation, InPlaceFill, Kernel, OnCuda,
    Operator, Saves, Sparse, Tags, TensorSpec, Variants, formula, operator,
};
use rushlight_dispatch::value::{Ints, Output, Target, Value};
use rushlight_dispatch::vmap::{RuleResult, one_result};
use rushlight_dispatch::{copy, create, op, value, vmap};

use crate::convert::{item, to_dtype};
use crate::create::range::ARANGE;
use crate::expr_ext::ExprExt;
use crate::index::gather::refuse_outside;
use crate::index::get::get_into;
use crate::index::index_select::{INDEX_ADD, INDEX_COPY, INDEX_FILL, INDEX_SELECT};
use crate::index::put::single;
use crate::index::{INDEX, INDEX_PUT_DIMS};
use crate::pointwise::compare::EQ;
use crate::reduce::extreme::{MAX, MIN};
use crate::reduce::norm::VECTOR_NORM;
use crate::view::squeeze::UNSQUEEZE;

#[operator]
pub static EMBEDDING: Operator = Operator {
    name: "embedding",
    variants: Variants::FUNCTION,
    signature: "(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor",
    doc: "The rows of `weight` at `indices`.

The row `padding_idx` gets no gradient; with `scale_grad_by_freq` the gradient of a row is divided by the number of times it was
looked up.

    >>> torch.embedding(torch.tensor([[1., 2.], [3., 4.]]), torch.tensor([1, 0]))
    tensor([[3., 4.],
            [1., 2.]])",
    dtypes: DTypes::ALL,
    sparse: Sparse::ExplicitAutograd,
    batch_rule: BatchRule::Custom(batched_embedding),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let (weight, indices) = (args.tensor(WEIGHT)?, args.tensor(INDICES)?);
            if weight.rank() != 2 {
                return Err(Error::runtime("'weight' must be 2-D"));
            }
            check_indices(indices.dtype(), indices.device(), 1, "embedding")?;
            let mut sizes = Dims::from_slice(indices.sizes());
            sizes.push(weight.sizes()[1]);
            Ok(vec![TensorSpec::new(&sizes, weight.dtype(), weight)])
        },
        |args, results| {
            let weight = args.tensor(WEIGHT)?;
            let outside = |bad| crate::index::index_select::outside_of(weight, 0, bad, false);
            if let Device::Cuda(_) = weight.device() {
                let indices = args.tensor(INDICES)?;
                refuse_outside(indices, weight.sizes()[0], outside)?;
                return get_into(weight, &single(weight, 0, indices)?, &results[0]);
            }
            let indices = numbers_or(args.tensor(INDICES)?, weight.sizes()[0], |_, bad| outside(bad))?;
            let size = weight.dtype().size();
            // Rows must be contiguous; their stride may be any.
            let rows = if weight.sizes()[1] <= 1 || weight.layout().strides[1] == 1 {
                weight.clone()
            } else {
                plain(weight, weight.dtype())?
            };
            let (table, out) = (rows.storage().pin()?, results[0].storage().pin()?);
            let first = table.as_ptr().wrapping_offset(rows.first_byte());
            let step = rows.layout().strides[0].wrapping_mul(size as isize);
            // SAFETY: indices are rows, and the result has room for one row each.
            unsafe { take(first, step, weight.sizes()[1] as usize * size, &indices, out.as_ptr()) };
            Ok(())
        },
        )),
    derivative: Derivative::Formulas(&[formula(WEIGHT, Saves::input(INDICES), |d| match d.input(INDICES).done() {
        Ok(indices) => {
            let rows = d.sizes(WEIGHT)[0] as i64;
            if d.flag(SPARSE) {
                return Expr::new(d.grad().done().and_then(|grad| {
                    sparse_gradient(&grad, &indices, d.sizes(WEIGHT), d.int(PADDING_IDX), d.flag(SCALE_GRAD_BY_FREQ))
                }));
            }
            d.grad().call(
                &EMBEDDING_BACKWARD,
                [indices.into(), rows.into(), d.int(PADDING_IDX).into(), d.flag(SCALE_GRAD_BY_FREQ).into()],
            )
        }
        Err(error) => Expr::Failed(error),
    })]),
    samples: &["t(4, 3), i(4, 2, 5)", "t(4, 3), i(4, 5), 1", "t(4, 3), i(4)"],
    errors: &[
        ("t(3, 4), torch.tensor([0, 5])", "IndexError", "index out of range in self"),
        ("t(3), torch.tensor([0])", "RuntimeError", "'weight' must be 2-D"),
    ],
    reference: "weight[indices]",
    ..Operator::BASE
};

/// The gradient of a table as a sparse tensor: an entry for each look-up, except those of the padding index.
fn sparse_gradient(grad: &Tensor, indices: &Tensor, sizes: &[isize], skipped: i64, averages: bool) -> Result<Tensor> {
    use crate::view::RESHAPE;
    use rushlight_dispatch::value::sizes_value;
    if averages {
        return Err(Error::runtime("embedding_backward: scale_grad_by_freq not supported with sparse gradients"));
    }
    let mut indices = op!(RESHAPE, indices, sizes_value(&[1, -1]))?;
    let mut values = op!(RESHAPE, grad, sizes_value(&[indices.numel() as isize, sizes[1]]))?;
    if skipped >= 0 {
        let list = numbers(&indices, sizes[0])?;
        let mut kept = rushlight_core::alloc::list(list.len())?;
        kept.extend((0i64..).zip(&list).filter(|&(_, &row)| row != skipped).map(|(at, _)| at));
        let kept = crate::convert::to_device(&create::from_slice(&kept)?, indices.device())?;
        indices = op!(crate::index::index_select::INDEX_SELECT, &indices, 1i64, &kept)?;
        values = op!(crate::index::index_select::INDEX_SELECT, &values, 0i64, &kept)?;
    }
    op!(crate::sparse::FROM_PARTS, &indices, &values, sizes_value(sizes))
}

#[operator]
pub static EMBEDDING_BACKWARD: Operator = Operator {
    name: "embedding_dense_backward",
    variants: Variants::FUNCTION,
    signature: "(Tensor grad_output, Tensor indices, int num_weights, int padding_idx, bool scale_grad_by_freq) -> Tensor",
    doc: "For each row of a table the sum of its gradients.

    >>> torch.embedding_dense_backward(torch.ones(3, 1), torch.tensor([0, 1, 1]), 2, -1, False)
    tensor([[1.],
            [2.]])",
    dtypes: DTypes::NUMBERS,
    batch_rule: BatchRule::Custom(batched_embedding_backward),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let grad = args.tensor(GRAD_OUTPUT)?;
            let width = grad.sizes().last().copied().unwrap_or(1);
            let indices = args.tensor(INDICES)?;
            check_indices(indices.dtype(), indices.device(), 2, "embedding_backward")?;
            if grad.numel() != indices.numel() * width as usize {
                return Err(Error::runtime(format!(
                    "shape '{}' is invalid for input of size {}",
                    Shape(&[indices.numel() as isize, width]),
                    grad.numel()
                ))
                .hint("The gradient must have a row for each index."));
            }
            if args.int(NUM_WEIGHTS)? < 0 {
                return Err(Error::runtime("zeros: Dimension size must be non-negative."));
            }
            Ok(vec![TensorSpec::new(&[args.int(NUM_WEIGHTS)? as isize, width], grad.dtype(), grad)])
        },
        |args, results| {
            let out = &results[0];
            if let Device::Cuda(_) = out.device() {
                return sum_on_cuda(args, out);
            }
            let indices = numbers(args.tensor(INDICES)?, out.sizes()[0])?;
            let grads = plain(args.tensor(GRAD_OUTPUT)?, out.dtype())?;
            let (source, target) = (grads.storage().pin()?, out.storage().pin()?);
            let first = source.as_ptr().wrapping_offset(grads.first_byte());
            let (rows, width) = (out.sizes()[0] as usize, out.sizes()[1] as usize);
            // SAFETY: indices are rows, and each has a gradient of the result's width.
            unsafe {
                sum_rows(
                    out.dtype(),
                    first,
                    &indices,
                    target.as_ptr(),
                    rows,
                    width,
                    args.int(PADDING_IDX)?,
                    args.bool(SCALE_GRAD_BY_FREQ)?,
                )
            }
        },
    )),
    derivative: Derivative::Formulas(&[formula(GRAD_OUTPUT, Saves::input(INDICES), |d| {
        let gradient = || {
            let indices = d.input(INDICES).done()?;
            let grads = d.grad().call(&EMBEDDING, [(&indices).into()]);
            let factor = row_factors(
                &indices,
                d.int(NUM_WEIGHTS),
                d.int(PADDING_IDX),
                d.flag(SCALE_GRAD_BY_FREQ),
                d.meta(GRAD_OUTPUT).map_or(DType::F32, |meta| meta.dtype),
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
    ..Operator::BASE
};

/// `EMBEDDING_BACKWARD` from other operators.
fn sum_on_cuda(args: &Args, out: &Tensor) -> Result<()> {
    use EMBEDDING_BACKWARD::*;

    let (grad, rows) = (args.tensor(GRAD_OUTPUT)?, out.sizes()[0]);
    let indices = op!(crate::view::RESHAPE, args.tensor(INDICES)?, value::sizes_value(&[-1]))?;
    refuse_outside(&indices, rows, |bad| outside_table(bad, rows))?;
    let grads =
        op!(crate::view::RESHAPE, &grad.detach(), value::sizes_value(&[indices.numel() as isize, out.sizes()[1]]))?;
    let zeros = create::zeros(out.sizes(), out.dtype(), out.device())?;
    let mut sum = op!(INDEX_ADD, zeros, 0i64, &indices, grads)?;
    if args.bool(SCALE_GRAD_BY_FREQ)? {
        let column = |rows: isize, value| create::full(&[rows, 1], value, out.dtype(), out.device());
        let ones = column(indices.numel() as isize, Scalar::ONE)?;
        let counts = op!(INDEX_ADD, column(rows, Scalar::ZERO)?, 0i64, &indices, ones)?;
        // Rows that were not looked up have a sum of zero.
        let counts = Expr::from(counts);
        sum = (Expr::from(sum) / counts.clone().equals(0i64).choose(1i64, counts)).done()?;
    }
    let skipped = args.int(PADDING_IDX)?;
    if (0..rows as i64).contains(&skipped) {
        let row = create::full(&[1], Scalar::Int(skipped), DType::I64, out.device())?;
        sum = op!(INDEX_FILL, sum, 0i64, row, Scalar::ZERO)?;
    }
    copy::copy(out, &sum)
}

/// The factor of each looked-up row's gradient: zero for the padding index, one over its frequency; `None` if all are
/// one.
fn row_factors(indices: &Tensor, rows: i64, skipped: i64, averages: bool, dtype: DType) -> Result<Option<Tensor>> {
    if skipped < 0 && !averages {
        return Ok(None);
    }
    let (shown, axes) = vmap::all_physical(indices);
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
    let factors = crate::convert::to_dtype(&create::from_slice::<f64>(&factors)?, dtype)?;
    let factors = crate::convert::to_device(&factors, indices.device())?;
    let mut sizes = shown.sizes().clone();
    sizes.push(1);
    let factors = op!(crate::view::RESHAPE, &factors, value::sizes_value(&sizes))?;
    Ok(Some(vmap::all_logical(&factors, &axes)))
}

pub fn check_indices(dtype: DType, device: Device, place: usize, row: &str) -> Result<()> {
    if matches!(dtype, DType::I64 | DType::I32) {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "Expected tensor for argument #{place} 'indices' to have one of the following scalar types: Long, Int; but got {} instead (while checking arguments for {row})",
        dtype.class_name(device)
    ))
    .hint("Indices must be integers: use indices.long()."))
}

/// The indices as a list; each is checked to be less than `rows`.
pub(super) fn numbers(indices: &Tensor, rows: isize) -> Result<Vec<i64>> {
    numbers_or(indices, rows, |_, bad| outside_table(bad, rows))
}

#[cold]
fn outside_table(bad: i64, rows: isize) -> Error {
    Error::index("index out of range in self").hint(format!("Row {bad} is out of range for a table with {rows} rows."))
}

/// The same; `error` makes the error from the position and value of an invalid index.
pub(super) fn numbers_or(indices: &Tensor, rows: isize, error: impl Fn(usize, i64) -> Error) -> Result<Vec<i64>> {
    let numbers = crate::convert::to_vec::<i64>(indices)?;
    let outside = |index: i64| index as u64 >= rows as u64;
    // Without an early end, so that the loop is vectorised.
    if !numbers.iter().fold(false, |found, &index| found | outside(index)) {
        return Ok(numbers);
    }
    match numbers.iter().position(|&index| outside(index)) {
        Some(at) => Err(error(at, numbers[at])),
        None => Ok(numbers),
    }
}

#[operator]
pub static EMBEDDING_RENORM: Operator = Operator {
    name: "embedding_renorm_",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor indices, float max_norm, float norm_type) -> Tensor",
    doc: "Scales the rows at `indices`, in place, to a norm of at most `max_norm`.

    >>> torch.embedding_renorm_(torch.tensor([[3., 4.]]), torch.tensor([0]), 1.0, 2.0)
    tensor([[0.6000, 0.8000]])",
    dtypes: DTypes::INEXACT,
    check: Some(|args| {
        let rank = args.tensor(INPUT)?.rank();
        if rank != 2 {
            return Err(Error::runtime(format!(
                "Expected 2-dimensional tensor, but got {rank}-dimensional tensor for argument #1 'self' (while checking arguments for embedding_renorm_)"
            )));
        }
        let indices = args.tensor(INDICES)?;
        check_indices(indices.dtype(), indices.device(), 2, "embedding_renorm_")
    }),
    implementation: Implementation::InPlaceFill(InPlaceFill { cpu: shorten, cuda: OnCuda::Own(shorten_on_cuda) }),
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
    ..Operator::BASE
};

fn check_norm(weight: &Tensor) -> Result<()> {
    if weight.dtype().is_differentiable() {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "norm(): input dtype should be either floating point or complex. Got {} instead.",
        weight.dtype().display_name()
    )))
}

/// Scales the rows at indices that are longer than a limit.
fn shorten(args: &Args, weight: &Tensor) -> Result<()> {
    use EMBEDDING_RENORM::*;

    if weight.device() == Device::Meta {
        return Ok(());
    }
    let (limit, power) = (args.float(MAX_NORM)?, args.float(NORM_TYPE)?);
    let mut rows = numbers(args.tensor(INDICES)?, weight.sizes()[0])?;
    rows.sort_unstable();
    rows.dedup();
    if !rows.is_empty() {
        check_norm(weight)?;
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
            let shorter = op!(crate::pointwise::arith::MUL, &own, Scalar::Float(limit / (norm + 1e-7)))?;
            copy::copy(&own, &shorter)?;
        }
    }
    Ok(())
}

/// The same on a CUDA device. A row that occurs several times is written several times, with the same values.
fn shorten_on_cuda(args: &Args, weight: &Tensor) -> Result<()> {
    use EMBEDDING_RENORM::*;

    let (limit, power) = (args.float(MAX_NORM)?, args.float(NORM_TYPE)?);
    let indices = args.tensor(INDICES)?.detach();
    let rows =
        plain(&op!(crate::view::RESHAPE, &indices, value::sizes_value(&[indices.numel() as isize]))?, DType::I64)?;
    if rows.numel() == 0 {
        return Ok(());
    }
    refuse_outside(&rows, weight.sizes()[0], |bad| outside_table(bad, weight.sizes()[0]))?;
    check_norm(weight)?;
    let weight = weight.detach();
    let own = op!(INDEX_SELECT, &weight, 0i64, &rows)?;
    let lengths = to_dtype(&Expr::from(&own).abs().done()?, DType::F64)?;
    let norm = Expr::from(op!(VECTOR_NORM, lengths, Scalar::Float(power), Ints::from_slice(&[1]), true)?);
    let too_long = norm.clone().above(limit);
    let scale = too_long.choose(Expr::from(limit) / (norm + 1e-7), 1.0).done()?;
    let scale = to_dtype(&scale, own.dtype().to_real().compute())?;
    let shorter = to_dtype(&op!(crate::pointwise::arith::MUL, &own, scale)?, weight.dtype())?;
    Args::new(&INDEX_COPY, [(&weight).into(), 0i64.into(), (&rows).into(), (&shorter).into()])
        .call_into(Target::InPlace)
        .map(drop)
}

fn norm(row: &[f64], power: f64) -> f64 {
    if power == f64::INFINITY {
        return row.iter().fold(0.0, |most, x| x.abs().max(most));
    }
    if power == f64::NEG_INFINITY {
        return row.iter().fold(f64::INFINITY, |least, x| x.abs().min(least));
    }
    if power == 0.0 {
        return row.iter().filter(|&&x| x != 0.0).count() as f64;
    }
    row.iter().map(|x| x.abs().powf(power)).sum::<f64>().powf(1.0 / power)
}

#[operator]
pub static ONE_HOT: Operator = Operator {
    name: "one_hot",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int num_classes=-1) -> Tensor",
    doc:
        "For each class index a row of zeros with a one at that index; `num_classes=-1` means one more than the largest index.

    >>> torch.nn.functional.one_hot(torch.tensor([0, 2]))
    tensor([[1, 0, 0],
            [0, 0, 1]])",
    dtypes: DTypes::INTS,
    tags: Tags::DATA_DEPENDENT,
    // The number of classes may differ between samples, unless the call gives it.
    batch_rule: BatchRule::Custom(|batch| match batch.args.int(NUM_CLASSES)? {
        0.. => batch.args.replaced(|tensor| Ok(batch.physical(tensor)))?.call().map(Some),
        _ => Ok(None),
    }),
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(one_hot)),
    derivative: Derivative::NonDifferentiable("class indices are integers"),
    samples: &["i(4, 2, 3)", "i(4, 3), 5"],
    errors: &[("torch.tensor([0, 2]), 2", "RuntimeError", "Class values must be smaller than num_classes.")],
    reference: "np.eye(self.max() + 1 if num_classes == -1 else num_classes, dtype=np.int64)[self]",
    ..Operator::BASE
};

fn one_hot(args: &Args) -> Result<Output> {
    use ONE_HOT::*;

    let input = args.tensor(INPUT)?;
    if input.dtype() != DType::I64 {
        return Err(Error::runtime("one_hot is only applicable to index tensor of type LongTensor."));
    }
    let wanted = args.int(NUM_CLASSES)?;
    if input.device() == Device::Meta {
        if wanted < 0 {
            return Err(Error::runtime("Tensor.item() cannot be called on meta tensors")
                .hint("The number of classes depends on values: set num_classes."));
        }
        let mut sizes = input.sizes().clone();
        sizes.push(wanted as isize);
        return create::empty(&sizes, DType::I64, input.device()).map(Output::Tensor);
    }
    if let Device::Cuda(_) = input.device() {
        return one_hot_on_cuda(&input.detach(), wanted);
    }
    let numbers = crate::convert::to_vec::<i64>(input)?;
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
    let mut sizes = input.sizes().clone();
    sizes.push(classes as isize);
    let result = create::zeros(&sizes, DType::I64, input.device())?;
    let pin = result.storage().pin()?;
    for (at, &class) in numbers.iter().enumerate() {
        // SAFETY: the class is less than the row's length.
        unsafe { pin.as_ptr().cast::<i64>().add(at * classes as usize + class as usize).write(1) };
    }
    drop(pin);
    Ok(Output::Tensor(result))
}

/// `one_hot` by comparisons with all classes.
fn one_hot_on_cuda(input: &Tensor, wanted: i64) -> Result<Output> {
    let mut sizes = input.sizes().clone();
    let classes = if input.numel() == 0 {
        if wanted <= 0 {
            return Err(Error::runtime("Can not infer total number of classes from empty tensor."));
        }
        wanted
    } else {
        let (least, most) = (item(&op!(MIN, input)?)?.i64(), item(&op!(MAX, input)?)?.i64());
        if least < 0 {
            return Err(Error::runtime("Class values must be non-negative."));
        }
        let classes = if wanted == -1 { most + 1 } else { wanted };
        if most >= classes {
            return Err(Error::runtime("Class values must be smaller than num_classes."));
        }
        classes
    };
    sizes.push(classes as isize);
    let result = create::empty(&sizes, DType::I64, input.device())?;
    let options = [Value::Scalar(Scalar::Int(classes)), Value::None, Value::None, Value::Device(input.device())];
    let numbers = ARANGE.tensor(options)?;
    copy::copy(&result, &op!(EQ, op!(UNSQUEEZE, input, -1i64)?, numbers)?)?;
    Ok(Output::Tensor(result))
}

fn batched_embedding(batch: &BatchedCall) -> RuleResult {
    use EMBEDDING::*;

    if !batch.differs_at(WEIGHT) {
        return one_result(op!(EMBEDDING, batch.one(WEIGHT)?, batch.tensor(INDICES)?));
    }
    let indices = batch.tensor(INDICES)?;
    let samples = batch.numbers(indices.rank() - 1)?;
    one_result(op!(INDEX, batch.tensor(WEIGHT)?, vec![samples, indices], &[0i64, 1][..]))
}

fn batched_embedding_backward(batch: &BatchedCall) -> RuleResult {
    use EMBEDDING_BACKWARD::*;

    if batch.args.bool(SCALE_GRAD_BY_FREQ)? {
        return Ok(None);
    }
    let (grad, indices) = (batch.tensor(GRAD_OUTPUT)?, batch.tensor(INDICES)?);
    let (rows, width) = (batch.args.int(NUM_WEIGHTS)?, grad.sizes()[grad.rank() - 1]);
    let zeros = create::zeros(&[batch.size, rows as isize, width], grad.dtype(), grad.device())?;
    let samples = batch.numbers(indices.rank() - 1)?;
    let whole = op!(INDEX_PUT_DIMS, zeros, vec![samples, indices], &[0i64, 1][..], grad, true)?;
    let padding = batch.args.int(PADDING_IDX)?;
    if (0..rows).contains(&padding) {
        let line = op!(crate::view::narrow::SELECT, &whole, 1i64, padding)?;
        create::fill(&line, Scalar::ZERO)?;
    }
    one_result(Ok(whole))
}
