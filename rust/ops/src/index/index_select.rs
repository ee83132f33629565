//! One vector of indices along one dimension: whole slices are read, written or added.

use rushlight_autograd::Tensor;
use rushlight_core::layout::{Shape, wrap_dim};
use rushlight_core::{Class, DType, Error, Result, Scalar};
use rushlight_cpu::index::scatter::ScatterOp;
use rushlight_dispatch::create::scalar_of;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Accepts, Args, Autocast, BackwardContext, BatchRule, BatchedCall, DTypes, Derivative, Implementation, Kernel,
    Operator, Out, Saves, Sparse, Tags, TensorSpec, Update, Variants, formula, operator,
};
use rushlight_dispatch::sparse::dense;
use rushlight_dispatch::value::{Arg, Output, Value, sizes_value};
use rushlight_dispatch::vmap::{RuleResult, data_error};
use rushlight_dispatch::{copy, create, op};

use super::gather::{GATHER, long, refuse_outside};
use super::get::get_into;
use super::last_writes::of_last_writes;
use super::put::{put_into, single};
use super::scatter::{SCATTER, SCATTER_ADD, SCATTER_VALUE};
use crate::expr_ext::ExprExt;
use crate::linalg::matrix::size_of;
use crate::pointwise::arith::MUL;
use crate::view::RESHAPE;
use crate::view::expand::EXPAND;
use crate::view::transpose::MOVEDIM;

#[operator]
pub static INDEX_SELECT: Operator = Operator {
    name: "index_select",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int dim, Tensor index) -> Tensor",
    doc: "The slices of `dim` at a vector of indices, in its order.

    >>> torch.index_select(torch.tensor([[1, 2], [3, 4]]), 0, torch.tensor([1, 1]))
    tensor([[3, 4],
            [3, 4]])",
    out: Out::new(Accepts::Same, &["index_select(): self and result must have the same scalar type"]).no_alias(),
    dtypes: DTypes::ALL,
    sparse: Sparse::ExplicitAutograd,
    batch_rule: BatchRule::Custom(batched_index_select),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let (input, index) = (args.tensor(INPUT)?, args.tensor(INDEX)?);
            let dim = wrap_dim(args.int(DIM)?, input.rank())?;
            if index.rank() > 1 {
                return Err(Error::index("index_select(): Index is supposed to be a vector"));
            }
            if !matches!(index.dtype(), DType::I64 | DType::I32) {
                return Err(Error::runtime("index_select(): Expected dtype int32 or int64 for index"));
            }
            let mut sizes = input.sizes().clone();
            match sizes.get_mut(dim) {
                Some(size) => *size = index.numel() as isize,
                None if index.numel() != 1 => {
                    return Err(Error::runtime(format!(
                        "index_select(): Index to scalar can have only 1 value, got {} value(s)",
                        index.numel()
                    )));
                }
                None => {}
            }
            Ok(vec![TensorSpec::new(&sizes, input.dtype(), input)])
        },
        |args, results| {
            let (input, index) = (vector(args.tensor(INPUT)?), vector(args.tensor(INDEX)?));
            let dim = wrap_dim(args.int(DIM)?, input.rank())?;
            let fast = dim == 1 && input.rank() > 1;
            refuse_outside(&index, input.sizes()[dim], |bad| outside_of(&input, dim, bad, fast))?;
            get_into(&input, &single(&input, dim, &index)?, &results[0])
        },
    )),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INDEX), |d| {
        let Some(meta) = d.meta(INPUT) else { return Expr::Nothing };
        match (create::zeros(&meta.sizes, meta.dtype, meta.device), d.input(INDEX), d.grad()) {
            (Ok(zeros), Expr::Tensor(index), Expr::Tensor(grad)) => {
                let added = |grad: Tensor| op!(INDEX_ADD, zeros, d.int(DIM), index, grad);
                Expr::new(dense(&grad).and_then(added))
            }
            (Err(error), ..) | (_, Expr::Failed(error), _) => Expr::failed(error),
            (_, _, grad) => grad,
        }
    })]),
    samples: &["t(3, 4), 0, i(3, 5)", "t(3, 4), 1, i(4, 2)", "t(3, 4).t(), -1, i(3, 2)", "t(3), 0, i(3)"],
    errors: &[
        ("t(3), 0, torch.tensor([5])", "IndexError", "index out of range in self"),
        ("t(3), 0, torch.tensor([[1]])", "IndexError", "index_select(): Index is supposed to be a vector"),
    ],
    reference: "np.take(self, np.atleast_1d(index), axis=dim)",
    ..Operator::BASE
};

/// A number as a vector of one element.
pub fn vector(tensor: &Tensor) -> Tensor {
    if tensor.rank() > 0 { tensor.clone() } else { Tensor::view_of(tensor, tensor.layout().unsqueeze(0)) }
}

/// torch's error for an index out of range, which differs for columns, rows, and tables without elements.
#[cold]
pub fn outside_of(table: &Tensor, dim: usize, bad: i64, columns: bool) -> Error {
    let size = table.sizes()[dim];
    let empty = table.rank() > 1 && table.numel() == 0;
    let error = if empty && size == 0 {
        Error::runtime("index_select(): self indexing axis dim should be positive")
    } else if empty || columns {
        Error::runtime(format!("INDICES element is out of DATA bounds, id={bad} axis_dim={size}"))
    } else {
        Error::index("index out of range in self")
    };
    error.hint(format!("Index {bad} is out of range for dimension {dim} with size {size}."))
}

#[operator]
pub static INDEX_ADD: Operator = Operator {
    name: "index_add",
    variants: Variants::ALL,
    signature: "(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
    doc: "A copy with the slices of `source`, scaled by `alpha`, added to those of `dim` at `index`.

    >>> torch.index_add(torch.zeros(3), 0, torch.tensor([0, 0, 2]), torch.tensor([1., 2., 3.]))
    tensor([3., 0., 3.])",
    out: Out::STRICT,
    dtypes: DTypes::COMMON.union(DTypes::COMPLEX32),
    tags: Tags::ROW_MAJOR,
    batch_rule: BatchRule::Custom(batched_index_add),
    implementation: Implementation::Update(Update::on_any_device(
        |args| {
            let (input, source) = (args.tensor(INPUT)?, args.tensor(SOURCE)?);
            check_index(args, "index_add_()")?;
            if input.dtype() != source.dtype() {
                return Err(Error::runtime(format!(
                    "index_add_(): self ({}) and source ({}) must have the same scalar type",
                    input.dtype().display_name(),
                    source.dtype().display_name()
                )));
            }
            check_slices(args, "index_add_()")?;
            if !args.op.dtypes.has(input.dtype()) {
                let kernel = match input.rank() {
                    0 | 1 => "index_add_",
                    _ if scatters(args, input) => "scatter_gather_tensor_cpu",
                    _ => "add_stub",
                };
                return Err(Error::unsupported(kernel, input.dtype()));
            }
            create::check_fits(args.scalar(ALPHA)?, input.dtype())
        },
        |args, target| {
            let alpha = args.scalar(ALPHA)?;
            let source = args.tensor(SOURCE)?;
            if alpha.is_one() {
                return merge(args, target, source, ScatterOp::Add);
            }
            // As a number of the tensors' dtype: a fractional factor of integers would give other numbers.
            let alpha = create::scalar_of(alpha, source.dtype(), source.device())?;
            merge(args, target, &op!(crate::pointwise::arith::MUL, &source.detach(), &alpha)?, ScatterOp::Add)
        },
    )),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::NOTHING, |d| d.grad()),
        formula(SOURCE, Saves::input(INDEX), |d| {
            let scaled =
                if d.scalar(ALPHA).is_one() { selected(d) } else { selected(d) * Expr::from(d.scalar(ALPHA)).conj() };
            scaled.call(&crate::view::expand::EXPAND, [sizes_value(d.sizes(SOURCE))])
        }),
    ]),
    samples: &["t(3, 4), 0, i(3, 5), t(5, 4)", "t(3, 4), 1, i(4, 2), t(3, 2), alpha=2", "t(3), 0, i(3, 4), t(4)"],
    errors: &[
        ("t(3), 0, torch.tensor([5]), t(1)", "IndexError", "index out of range in self"),
        (
            "i(3), 0, torch.tensor([0]), i(1), alpha=float('inf')",
            "RuntimeError",
            "value cannot be converted to type int64_t without overflow",
        ),
    ],
    ..Operator::BASE
};

/// The gradient's slices at the index.
fn selected(d: &BackwardContext) -> Expr {
    use INDEX_ADD::*;

    match d.input(INDEX) {
        Expr::Tensor(index) => d.grad().call(&INDEX_SELECT, [d.int(DIM).into(), index.into()]),
        other => other,
    }
}

/// Whether torch adds slices as `scatter_add` does, which has its own messages for indices.
fn scatters(args: &Args, input: &Tensor) -> bool {
    let dim = args.int(INDEX_ADD::DIM).and_then(|dim| wrap_dim(dim, input.rank()));
    let outermost = dim.is_ok_and(|dim| input.rank() >= 2 && (dim == 0 || dim == input.rank() - 1));
    let wide = args.tensor(INDEX_ADD::INDEX).is_ok_and(|index| index.dtype() == DType::I64);
    outermost && wide && args.op.schema().arg("alpha").is_some_and(|alpha| args.scalar(alpha).is_ok_and(Scalar::is_one))
}

/// Returns an error for an argument that is not a vector of indices.
pub fn check_index(args: &Args, name: &str) -> Result<()> {
    use INDEX_ADD::*;

    let index = args.tensor(INDEX)?;
    wrap_dim(args.int(DIM)?, args.tensor(INPUT)?.rank())?;
    if index.rank() > 1 {
        return Err(Error::index(format!(
            "{name}: Index is supposed to be a vector, but got dim: {} with type: {} and size: {}",
            index.rank(),
            index.dtype().display_name(),
            Shape(index.sizes())
        )));
    }
    if !matches!(index.dtype(), DType::I64 | DType::I32) {
        return Err(Error::runtime(format!(
            "{name}: Expected dtype int32/int64 for index but got: {}",
            index.dtype().display_name()
        )));
    }
    Ok(())
}

/// Returns an error unless there are as many slices as indices, with the shape of the target's slices.
pub fn check_slices(args: &Args, name: &str) -> Result<()> {
    use INDEX_ADD::*;

    let (input, index, source) = (args.tensor(INPUT)?, args.tensor(INDEX)?, args.tensor(SOURCE)?);
    let dim = wrap_dim(args.int(DIM)?, input.rank())?;
    if dim >= source.rank().max(1) {
        return Err(Error::runtime(format!(
            "{name}: Indexing dim {dim} is out of bounds of the source tensor with dim {}",
            source.rank()
        )));
    }
    let along = source.sizes().get(dim).copied().unwrap_or(1);
    if index.numel() as isize != along {
        if name == "index_reduce_()" {
            size_of(source, dim as i64)?;
        }
        return Err(Error::runtime(format!(
            "{name}: Number of indices ({}) should be equal to source.size(dim): ({along}), for dim: {dim}",
            index.numel()
        )));
    }
    let mut slices = [input, source].map(|tensor| tensor.sizes().clone());
    if input.rank() > 0 && source.rank() > dim {
        for sizes in &mut slices {
            sizes.remove(dim);
        }
    }
    if slices[0] != slices[1] {
        return Err(Error::runtime(format!(
            "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = {} source.shape = {}",
            Shape(input.sizes()),
            Shape(source.sizes())
        ))
        .shapes([input.sizes().as_slice(), source.sizes().as_slice()]));
    }
    Ok(())
}

/// Merges slices into the target at the indices of a call.
pub fn merge(args: &Args, target: &Tensor, source: &Tensor, way: ScatterOp) -> Result<()> {
    use INDEX_ADD::*;

    let (target, source, index) = (vector(target), vector(source), vector(args.tensor(INDEX)?));
    let dim = wrap_dim(args.int(DIM)?, target.rank())?;
    let size = target.sizes()[dim];
    // With no elements no sums of slices are made.
    if matches!(way, ScatterOp::Add) && target.rank() > 1 && target.numel() == 0 {
        return Ok(());
    }
    refuse_outside(&index, size, |bad| match scatters(args, &target) {
        true => Error::runtime(format!("index {bad} is out of bounds for dimension {dim} with size {size}")),
        false => Error::index("index out of range in self"),
    })?;
    put_into(&target, &single(&target, dim, &index)?, &source, way)
}

#[operator]
pub static INDEX_COPY: Operator = Operator {
    name: "index_copy",
    variants: Variants::ALL,
    signature: "(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
    doc: "A copy in which the slices of `dim` at `index` are replaced by those of `source`.

    >>> torch.index_copy(torch.zeros(3), 0, torch.tensor([2, 0]), torch.tensor([1., 2.]))
    tensor([2., 0., 1.])",
    out: Out::STRICT,
    dtypes: DTypes::COMPUTED.union(DTypes::COMPLEX32),
    tags: Tags::ROW_MAJOR,
    autocast: Autocast::Promote.on_cpu_alone(),
    batch_rule: BatchRule::Custom(batched_index_copy),
    implementation: Implementation::Update(Update::on_any_device(check_copy, |args, target| {
        let (target, source, index) = (vector(target), vector(args.tensor(SOURCE)?), vector(args.tensor(INDEX)?));
        let dim = wrap_dim(args.int(DIM)?, target.rank())?;
        let size = target.sizes()[dim];
        refuse_outside(&index, size, |value| {
            Error::index(format!("index_copy_(): index {value} is out of bounds for dimension {dim} with size {size}"))
                .hint("Indices must be at least 0 and less than the size; negative indices are not supported here.")
        })?;
        put_into(&target, &single(&target, dim, &index)?, &source, ScatterOp::Set)
    })),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(INDEX), cleared),
        formula(SOURCE, Saves::input(INDEX), |d| {
            let Expr::Tensor(index) = d.input(INDEX) else { return selected(d) };
            let dim = d.int(DIM);
            of_last_writes(
                d,
                selected(d),
                |zeros, numbers| op!(INDEX_COPY, zeros, dim, &index, numbers),
                |written| op!(INDEX_SELECT, written, dim, &index),
            )
            .call(&crate::view::expand::EXPAND, [sizes_value(d.sizes(SOURCE))])
        }),
    ]),
    samples: &["t(3, 4), 0, torch.tensor([2, 0]), t(2, 4)", "t(3, 4), 1, torch.tensor([1]), t(3, 1)"],
    errors: &[(
        "t(3), 0, torch.tensor([5]), t(1)",
        "IndexError",
        "index_copy_(): index 5 is out of bounds for dimension 0 with size 3",
    )],
    ..Operator::BASE
};

/// The gradient with zeros in the slices at the index.
fn cleared(d: &BackwardContext) -> Expr {
    use INDEX_COPY::*;

    match d.input(INDEX) {
        Expr::Tensor(index) => {
            d.grad().call(&INDEX_FILL, [d.int(DIM).into(), index.into(), Value::Scalar(Scalar::ZERO)])
        }
        other => other,
    }
}

fn check_copy(args: &Args) -> Result<()> {
    use INDEX_COPY::*;

    let (input, index, source) = (args.tensor(INPUT)?, args.tensor(INDEX)?, args.tensor(SOURCE)?);
    let dim = wrap_dim(args.int(DIM)?, input.rank())?;
    if index.rank() > 1 {
        return Err(Error::index(format!("index_copy_(): Index should have dimension 1 or 0 (got {})", index.rank())));
    }
    if source.rank() == 0 && index.numel() != 1 {
        return Err(Error::index(format!(
            "index_copy_(): When source is scalar, index should have one element (got {})",
            index.numel()
        )));
    }
    if source.rank() != input.rank() && source.rank() != 0 && input.rank() != 0 {
        return Err(Error::index(format!(
            "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source dimensionality ({}), destination dimensionality ({})",
            source.rank(),
            input.rank()
        )));
    }
    if index.dtype() != DType::I64 {
        return Err(Error::runtime(format!(
            "index_copy_(): Expected a long tensor for index, but got {}",
            index.dtype().display_name()
        )));
    }
    if input.dtype() != source.dtype() {
        return Err(Error::runtime(format!(
            "index_copy_(): self and source expected to have the same dtype, but got (self) {} and (source) {}",
            input.dtype().display_name(),
            source.dtype().display_name()
        )));
    }
    let apart = |tensor: &Tensor| -> rushlight_core::Dims {
        tensor.sizes().iter().enumerate().filter(|(d, _)| *d != dim).map(|(_, &size)| size).collect()
    };
    let (mine, theirs) = (apart(input), apart(source));
    if mine != theirs {
        let bare = |sizes: &[isize]| sizes.iter().map(isize::to_string).collect::<Vec<_>>().join(" ");
        return Err(Error::runtime(format!(
            "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: {} at dimension {dim} and source slice shape: {} at dimension 0.",
            bare(&mine),
            bare(&theirs)
        )));
    }
    let along = source.sizes().get(dim).copied().unwrap_or(1);
    if index.numel() as isize != along {
        return Err(Error::index(format!(
            "index_copy_(): Number of indices ({}) should be equal to source.size(dim) ({along})",
            index.numel()
        )));
    }
    Ok(())
}

#[operator]
pub static INDEX_FILL: Operator = Operator {
    name: "index_fill",
    variants: Variants::BOTH.union(Variants::INPLACE),
    signature: "(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
    doc: "A copy in which the slices of `dim` at `index` are filled with one number.

    >>> torch.index_fill(torch.zeros(3), 0, torch.tensor([2, 0]), 5)
    tensor([5., 0., 5.])",
    dtypes: DTypes::COMPUTED.union(DTypes::COMPLEX32),
    tags: Tags::WRITES_EXPANDED,
    batch_rule: BatchRule::Custom(batched_index_fill),
    implementation: Implementation::Update(Update::on_any_device(
        |args| {
            check_fill(args)?;
            if args.scalar(VALUE)?.is_complex() && !args.tensor(INPUT)?.dtype().is_complex() {
                return Err(Error::runtime(
                    "index_fill_(): Converting complex Scalar to non-complex type is not supported",
                ));
            }
            create::check_fits(args.scalar(VALUE)?, args.tensor(INPUT)?.dtype())
        },
        |args, target| fill(args, target, &create::scalar_of(args.scalar(VALUE)?, target.dtype(), target.device())?),
    )),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INDEX), cleared)]),
    node: "IndexFillBackward0",
    samples: &["t(3, 4), 0, torch.tensor([2, 0]), 2", "t(3, 4), 1, torch.tensor([-1]), 3"],
    errors: &[("t(3), 0, torch.tensor([5]), 1", "IndexError", "index 5 is out of bounds for dimension 0 with size 3")],
    ..Operator::BASE
};

#[operator]
pub static INDEX_FILL_TENSOR: Operator = Operator {
    name: "index_fill.int_Tensor",
    variants: Variants::BOTH.union(Variants::INPLACE),
    signature: "(Tensor self, int dim, Tensor index, Tensor value) -> Tensor",
    doc: "A copy in which the slices of `dim` at `index` are filled with the value of a 0-d tensor.

    >>> torch.index_fill(torch.zeros(3), 0, torch.tensor([2, 0]), torch.tensor(5.))
    tensor([5., 0., 5.])",
    dtypes: DTypes::COMPUTED.union(DTypes::COMPLEX32),
    tags: Tags::WRITES_EXPANDED,
    implementation: Implementation::Update(Update::on_any_device(
        |args| {
            check_fill(args)?;
            let value = args.tensor(VALUE)?;
            if value.rank() != 0 {
                return Err(Error::runtime(format!(
                    "index_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
                    value.rank()
                )));
            }
            if value.dtype().is_complex() && !args.tensor(INPUT)?.dtype().is_complex() {
                return Err(Error::runtime(
                    "index_fill_(): Converting complex Scalar to non-complex type is not supported",
                ));
            }
            Ok(())
        },
        |args, target| {
            let value = create::empty(&[], target.dtype(), target.device())?;
            copy::copy(&value, args.tensor(VALUE)?)?;
            fill(args, target, &value)
        },
    )),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(INDEX), cleared),
        formula(VALUE, Saves::input(INDEX), |d| match distinct(d) {
            Ok(index) => d.grad().call(&INDEX_SELECT, [d.int(DIM).into(), index.into()]).call(&crate::reduce::SUM, []),
            Err(error) => Expr::failed(error),
        }),
    ]),
    node: "IndexFillBackward1",
    samples: &["t(3, 4), 0, torch.tensor([2, 0]), t()"],
    ..Operator::BASE
};

/// The filled slices, each once.
fn distinct(d: &BackwardContext) -> Result<Tensor> {
    use INDEX_FILL_TENSOR::*;

    let size = d.sizes(INPUT).get(wrap_dim(d.int(DIM), d.rank(INPUT))?).copied().unwrap_or(1) as i64;
    let mut places: Vec<i64> = crate::convert::to_vec::<i64>(&d.input(INDEX).done()?)?;
    places.iter_mut().for_each(|place| *place = place.rem_euclid(size.max(1)));
    places.sort_unstable();
    places.dedup();
    crate::convert::to_device(&create::from_slice(&places)?, d.grad().done()?.device())
}

fn check_fill(args: &Args) -> Result<()> {
    use INDEX_FILL::*;

    let (input, index) = (args.tensor(INPUT)?, args.tensor(INDEX)?);
    wrap_dim(args.int(DIM)?, input.rank())?;
    if index.dtype() != DType::I64 {
        return Err(Error::index("index_fill_(): Expected dtype int64 for index."));
    }
    if index.rank() > 1 {
        return Err(Error::runtime("Index has to be a vector/scalar"));
    }
    Ok(())
}

fn fill(args: &Args, target: &Tensor, value: &Tensor) -> Result<()> {
    use INDEX_FILL::*;

    let (target, index) = (vector(target), vector(args.tensor(INDEX)?));
    let dim = wrap_dim(args.int(DIM)?, target.rank())?;
    // An element that an expanded tensor repeats is filled once.
    let mut layout = target.layout().clone();
    target.layout().expanded().filter(|&other| other != dim).for_each(|other| layout.sizes[other] = 1);
    let target = Tensor::view_of(&target.detach(), layout);
    let cut = single(&target, dim, &index)?;
    let words = || bad_fill(&index, &target, dim);
    put_into(&target, &cut, value, ScatterOp::Set).map_err(|error| error.reworded(Class::Index, words))
}

#[cold]
fn bad_fill(index: &Tensor, target: &Tensor, dim: usize) -> Error {
    let size = target.sizes()[dim] as i64;
    let list = match crate::convert::to_vec::<i64>(index) {
        Ok(list) => list,
        Err(error) => return error,
    };
    let bad = list.into_iter().find(|&value| value < -size || value >= size);
    Error::index(format!("index {} is out of bounds for dimension {dim} with size {size}", bad.unwrap_or(0)))
        .hint("Indices must be at least 0 and less than the size; negative indices are not supported here.")
}

/// The elementwise form, with an index for each element, of an operator on slices.
type Scatter = fn(&BatchedCall, input: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor>;

/// Changes slices along a dimension; each sample may have an index of its own.
pub fn changed(batch: &BatchedCall, source: Option<Arg>, scatter: Option<Scatter>) -> RuleResult {
    use INDEX_ADD::*;

    let (input, index) = (batch.args.tensor(INPUT)?, batch.args.tensor(INDEX)?);
    if input.rank() == 0 {
        return Ok(None);
    }
    if source.is_some_and(|source| batch.args.tensor(source).is_ok_and(|source| source.rank() != input.rank())) {
        return Ok(None);
    }
    let dim = rushlight_core::layout::wrap_dim(batch.args.int(DIM)?, input.rank())?;
    if !batch.differs_at(INDEX) {
        let mut args: Args = batch.args.clone();
        args.set(INPUT, Value::Own(batch.tensor(INPUT)?));
        args.set(DIM, (dim + 1).into());
        args.set(INDEX, Value::Own(batch.one(INDEX)?));
        if let Some(source) = source {
            args.set(source, Value::Own(batch.tensor(source)?));
        }
        return args.call().map(Some);
    }
    let Some(scatter) = scatter else { return Ok(None) };
    let shown = long(&batch.tensor(INDEX)?)?;
    // The error for an invalid index is raised for a single sample.
    if index.rank() > 1 || refuse_outside(&shown, input.sizes()[dim], |_| data_error()).is_err() {
        return Ok(None);
    }
    let mut sizes = vec![batch.size];
    sizes.extend_from_slice(input.sizes());
    sizes[dim + 1] = index.numel() as isize;
    let mut ones = vec![1; input.rank() + 1];
    (ones[0], ones[dim + 1]) = (batch.size, sizes[dim + 1]);
    let each = op!(EXPAND, op!(RESHAPE, shown, sizes_value(&ones))?, sizes_value(&sizes))?;
    scatter(batch, &batch.tensor(INPUT)?, dim as i64 + 1, &each).map(|whole| Some(Output::Tensor(whole)))
}

/// Whole slices along a dimension.
fn batched_index_select(batch: &BatchedCall) -> RuleResult {
    use INDEX_SELECT::*;

    let (own, index) = (batch.args.tensor(INPUT)?, batch.args.tensor(INDEX)?);
    if own.rank() == 0 || index.rank() > 1 {
        return Ok(None);
    }
    let dim = rushlight_core::layout::wrap_dim(batch.args.int(DIM)?, own.rank())?;
    let count = index.numel() as isize;
    let whole = match (batch.differs_at(INPUT), batch.differs_at(INDEX)) {
        (_, false) => op!(INDEX_SELECT, batch.tensor(INPUT)?, dim + 1, batch.one(INDEX)?)?,
        (false, true) => {
            let flat = op!(RESHAPE, batch.tensor(INDEX)?, sizes_value(&[batch.size * count]))?;
            let all = op!(INDEX_SELECT, batch.one(INPUT)?, dim, flat)?;
            let mut sizes = all.sizes().to_vec();
            sizes.splice(dim..=dim, [batch.size, count]);
            op!(MOVEDIM, op!(RESHAPE, all, sizes_value(&sizes))?, &[dim as i64][..], &[0i64][..])?
        }
        (true, true) => {
            let mut sizes = vec![batch.size];
            sizes.extend_from_slice(own.sizes());
            sizes[dim + 1] = count;
            let mut ones = vec![1; own.rank() + 1];
            (ones[0], ones[dim + 1]) = (batch.size, count);
            let index = op!(RESHAPE, batch.tensor(INDEX)?, sizes_value(&ones))?;
            op!(GATHER, batch.tensor(INPUT)?, dim + 1, op!(EXPAND, index, sizes_value(&sizes))?)?
        }
    };
    Ok(Some(Output::Tensor(whole)))
}

fn batched_index_add(batch: &BatchedCall) -> RuleResult {
    use INDEX_ADD::*;

    changed(
        batch,
        Some(SOURCE),
        Some(|batch, own, dim, index| {
            let (source, alpha) = (batch.tensor(SOURCE)?, batch.args.scalar(ALPHA)?);
            let source =
                if alpha.is_one() { source } else { op!(MUL, source, scalar_of(alpha, own.dtype(), own.device())?)? };
            op!(SCATTER_ADD, own, dim, index, source)
        }),
    )
}

fn batched_index_copy(batch: &BatchedCall) -> RuleResult {
    changed(
        batch,
        Some(INDEX_COPY::SOURCE),
        Some(|batch, own, dim, index| op!(SCATTER, own, dim, index, batch.tensor(INDEX_COPY::SOURCE)?)),
    )
}

fn batched_index_fill(batch: &BatchedCall) -> RuleResult {
    changed(
        batch,
        None,
        Some(|batch, own, dim, index| op!(SCATTER_VALUE, own, dim, index, batch.args.scalar(INDEX_FILL::VALUE)?)),
    )
}
