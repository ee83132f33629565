//! One vector of indices along one dimension: whole slices read, written, added.

use rushlight_core::layout::{Shape, wrap_dim};
use rushlight_core::{Class, DType, Error, Layout, Result, Scalar};
use rushlight_cpu::index::merge::Merge;

use super::get::get_into;
use super::put::{put_into, single};
use super::scatter::Reduction;
use crate::autocast::Autocast;
use crate::derive::{Derivative, Derive, Joint, Saves, formula};
use crate::expr::Expr;
use crate::mapped::Mapped;
use crate::row::{Accepts, DTypes, Kernel, Out, Row, Run, Spec, Traits, Update, Variants};
use crate::sparse::{Sparse, places};
use crate::value::{Args, Output, Value};
use crate::view::reshape::sizes_value;
use crate::{Tensor, op};

pub static INDEX_SELECT: Row = Row {
    name: "index_select",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int dim, Tensor index) -> Tensor",
    doc: "The slices of `dim` that a vector of indices names, in its order.

    >>> torch.index_select(torch.tensor([[1, 2], [3, 4]]), 0, torch.tensor([1, 1]))
    tensor([[3, 4],
            [3, 4]])",
    out: Out::new(Accepts::Same, &["index_select(): self and result must have the same scalar type"]).apart(),
    dtypes: DTypes::ALL,
    sparse: Sparse::Body(places::index_select),
    mapped: Mapped::Rule(super::mapped::select),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let (own, index) = (args.tensor(0)?, args.tensor(2)?);
            let dim = wrap_dim(args.int(1)?, own.rank())?;
            if index.rank() > 1 {
                return Err(Error::index("index_select(): Index is supposed to be a vector"));
            }
            if !matches!(index.dtype(), DType::I64 | DType::I32) {
                return Err(Error::runtime("index_select(): Expected dtype int32 or int64 for index"));
            }
            let mut sizes = own.sizes().clone();
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
            Ok(vec![Spec::new(&sizes, own.dtype(), own)])
        },
        cpu: |args, results| {
            let (own, index) = (vector(args.tensor(0)?), vector(args.tensor(2)?));
            let dim = wrap_dim(args.int(1)?, own.rank())?;
            let fast = dim == 1 && own.rank() > 1;
            refuse_outside(&index, own.sizes()[dim], |bad| outside_of(&own, dim, bad, fast))?;
            get_into(&own, &single(&own, dim, &index)?, &results[0])
        },
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(2), |d| {
        let Some(facts) = d.facts(0) else { return Expr::Nothing };
        match (crate::create::zeros(&facts.sizes, facts.dtype, facts.device), d.input(2), d.grad()) {
            (Ok(zeros), Expr::Tensor(index), Expr::Tensor(grad)) => {
                let added = |grad: Tensor| op!(INDEX_ADD, zeros, d.int(1), index, grad);
                Expr::new(crate::sparse::convert::dense(&grad).and_then(added))
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
    ..Row::BASE
};

/// A number as a vector of one element.
fn vector(tensor: &Tensor) -> Tensor {
    if tensor.rank() > 0 { tensor.clone() } else { Tensor::view_of(tensor, tensor.layout().unsqueeze(0)) }
}

/// What torch says of an index that names no slice: columns it takes in another way than rows, and tables without elements
/// it asks for their size alone.
#[cold]
pub fn outside_of(table: &Tensor, dim: usize, bad: i64, columns: bool) -> Error {
    let size = table.sizes()[dim];
    let empty = table.rank() > 1 && table.numel() == 0;
    let told = if empty && size == 0 {
        Error::runtime("index_select(): self indexing axis dim should be positive")
    } else if empty || columns {
        Error::runtime(format!("INDICES element is out of DATA bounds, id={bad} axis_dim={size}"))
    } else {
        Error::index("index out of range in self")
    };
    told.hint(format!("{bad} is none of the {size} indices of dimension {dim}."))
}

/// Refuses an index that is not in `0..size`; negative ones are none here.
pub fn refuse_outside(index: &Tensor, size: isize, error: impl Fn(i64) -> Error) -> Result<()> {
    let index = super::gather::long(index)?;
    if index.numel() == 0 {
        return Ok(());
    }
    let pin = index.storage().pin()?;
    let side = rushlight_cpu::index::gather::Side { pointer: pin.as_ptr(), layout: index.layout() };
    // SAFETY: the layout stays within the pinned storage, which holds 64-bit integers.
    match unsafe { rushlight_cpu::index::gather::outside(side, size) } {
        Some(bad) => Err(error(bad.value)),
        None => Ok(()),
    }
}

pub static INDEX_ADD: Row = Row {
    name: "index_add",
    variants: Variants::ALL,
    signature: "(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
    doc: "A copy with the slices of `source`, scaled by `alpha`, added to those of `dim` that `index` names.

    >>> torch.index_add(torch.zeros(3), 0, torch.tensor([0, 0, 2]), torch.tensor([1., 2., 3.]))
    tensor([3., 0., 3.])",
    out: Out::STRICT,
    dtypes: DTypes::COMMON,
    traits: Traits::ROW_MAJOR,
    mapped: Mapped::Rule(super::mapped::add),
    run: Run::Update(Update {
        check: |args| {
            let (own, source) = (args.tensor(0)?, args.tensor(3)?);
            check_index(args, "index_add_()")?;
            if own.dtype() != source.dtype() {
                return Err(Error::runtime(format!(
                    "index_add_(): self ({}) and source ({}) must have the same scalar type",
                    own.dtype().title(),
                    source.dtype().title()
                )));
            }
            check_slices(args, "index_add_()")?;
            if !args.row.dtypes.has(own.dtype()) {
                let kernel = match own.rank() {
                    0 | 1 => "index_add_",
                    _ if scatters(args, own) => "scatter_gather_tensor_cpu",
                    _ => "add_stub",
                };
                return Err(Error::unsupported(kernel, own.dtype()));
            }
            crate::create::check_fits(args.scalar(4)?, own.dtype())
        },
        cpu: |args, target| {
            let alpha = args.scalar(4)?;
            let source = args.tensor(3)?;
            if alpha.is_one() {
                return merge(args, target, source, Merge::Add);
            }
            // As a number of the tensors' dtype: a fraction of integers would make other numbers of them.
            let alpha = crate::create::scalar_of(alpha, source.dtype(), source.device())?;
            merge(args, target, &op!(crate::pointwise::arith::MUL, &source.detach(), &alpha)?, Merge::Add)
        },
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::NOTHING, |d| d.grad()),
        formula(3, Saves::input(2), |d| {
            let scaled = if d.scalar(4).is_one() { selected(d) } else { selected(d) * Expr::from(d.scalar(4)).conj() };
            scaled.call(&crate::view::expand::EXPAND, [sizes_value(d.sizes(3))])
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
    ..Row::BASE
};

/// The gradient's slices that the index names.
fn selected(d: &Derive) -> Expr {
    match d.input(2) {
        Expr::Tensor(index) => d.grad().call(&INDEX_SELECT, [d.int(1).into(), index.into()]),
        other => other,
    }
}

/// Whether torch adds slices as `scatter_add` does, which tells of indices in words of its own.
fn scatters(args: &Args, own: &Tensor) -> bool {
    own.rank() == 2 && args.scalar(4).is_ok_and(Scalar::is_one)
}

/// Refuses what is no vector of indices.
fn check_index(args: &Args, name: &str) -> Result<()> {
    let index = args.tensor(2)?;
    wrap_dim(args.int(1)?, args.tensor(0)?.rank())?;
    if index.rank() > 1 {
        return Err(Error::index(format!(
            "{name}: Index is supposed to be a vector, but got dim: {} with type: {} and size: {}",
            index.rank(),
            index.dtype().title(),
            Shape(index.sizes())
        )));
    }
    if !matches!(index.dtype(), DType::I64 | DType::I32) {
        return Err(Error::runtime(format!(
            "{name}: Expected dtype int32/int64 for index but got: {}",
            index.dtype().title()
        )));
    }
    Ok(())
}

/// Refuses slices that are not as many as the indices, or of another shape than those that they are added to.
fn check_slices(args: &Args, name: &str) -> Result<()> {
    let (own, index, source) = (args.tensor(0)?, args.tensor(2)?, args.tensor(3)?);
    let dim = wrap_dim(args.int(1)?, own.rank())?;
    let along = source.sizes().get(dim).copied().unwrap_or(1);
    if index.numel() as isize != along {
        return Err(Error::runtime(format!(
            "{name}: Number of indices ({}) should be equal to source.size(dim): ({along}), for dim: {dim}",
            index.numel()
        )));
    }
    let mut slices = [own, source].map(|tensor| tensor.sizes().clone());
    if own.rank() > 0 && source.rank() > dim {
        for sizes in &mut slices {
            sizes.remove(dim);
        }
    }
    if slices[0] != slices[1] {
        return Err(Error::runtime(format!(
            "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = {} source.shape = {}",
            Shape(own.sizes()),
            Shape(source.sizes())
        ))
        .shapes([own.sizes().as_slice(), source.sizes().as_slice()]));
    }
    Ok(())
}

/// Merges slices into the target at the indices of a call.
fn merge(args: &Args, target: &Tensor, source: &Tensor, way: Merge) -> Result<()> {
    let (target, source, index) = (vector(target), vector(source), vector(args.tensor(2)?));
    let dim = wrap_dim(args.int(1)?, target.rank())?;
    let size = target.sizes()[dim];
    // No sums of slices are made where there are no elements.
    if matches!(way, Merge::Add) && target.rank() > 1 && target.numel() == 0 {
        return Ok(());
    }
    refuse_outside(&index, size, |bad| match scatters(args, &target) {
        true => Error::runtime(format!("index {bad} is out of bounds for dimension {dim} with size {size}")),
        false => Error::index("index out of range in self"),
    })?;
    put_into(&target, &single(&target, dim, &index)?, &source, way)
}

pub static INDEX_COPY: Row = Row {
    name: "index_copy",
    variants: Variants::ALL,
    signature: "(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
    doc: "A copy with the slices of `source` in place of those of `dim` that `index` names.

    >>> torch.index_copy(torch.zeros(3), 0, torch.tensor([2, 0]), torch.tensor([1., 2.]))
    tensor([2., 0., 1.])",
    out: Out::STRICT,
    dtypes: DTypes::ALL,
    traits: Traits::ROW_MAJOR,
    autocast: Autocast::Widest,
    mapped: Mapped::Rule(super::mapped::copy),
    run: Run::Update(Update {
        check: check_copy,
        cpu: |args, target| {
            let (target, source, index) = (vector(target), vector(args.tensor(3)?), vector(args.tensor(2)?));
            let dim = wrap_dim(args.int(1)?, target.rank())?;
            let size = target.sizes()[dim];
            refuse_outside(&index, size, |value| {
                Error::index(format!(
                    "index_copy_(): index {value} is out of bounds for dimension {dim} with size {size}"
                ))
                .hint("Indices count from 0 to one less than the size; negative ones do not count from the end here.")
            })?;
            put_into(&target, &single(&target, dim, &index)?, &source, Merge::Set)
        },
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(2), cleared),
        formula(3, Saves::input(2), |d| selected(d).call(&crate::view::expand::EXPAND, [sizes_value(d.sizes(3))])),
    ]),
    samples: &["t(3, 4), 0, torch.tensor([2, 0]), t(2, 4)", "t(3, 4), 1, torch.tensor([1]), t(3, 1)"],
    errors: &[(
        "t(3), 0, torch.tensor([5]), t(1)",
        "IndexError",
        "index_copy_(): index 5 is out of bounds for dimension 0 with size 3",
    )],
    ..Row::BASE
};

/// The gradient without the slices that the index names.
fn cleared(d: &Derive) -> Expr {
    match d.input(2) {
        Expr::Tensor(index) => d.grad().call(&INDEX_FILL, [d.int(1).into(), index.into(), Value::Scalar(Scalar::ZERO)]),
        other => other,
    }
}

fn check_copy(args: &Args) -> Result<()> {
    let (own, index, source) = (args.tensor(0)?, args.tensor(2)?, args.tensor(3)?);
    let dim = wrap_dim(args.int(1)?, own.rank())?;
    if index.rank() > 1 {
        return Err(Error::index(format!("index_copy_(): Index should have dimension 1 or 0 (got {})", index.rank())));
    }
    if source.rank() != own.rank() && source.rank() != 0 && own.rank() != 0 {
        return Err(Error::index(format!(
            "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source dimensionality ({}), destination dimensionality ({})",
            source.rank(),
            own.rank()
        )));
    }
    if index.dtype() != DType::I64 {
        return Err(Error::runtime(format!(
            "index_copy_(): Expected a long tensor for index, but got {}",
            index.dtype().title()
        )));
    }
    if own.dtype() != source.dtype() {
        return Err(Error::runtime(format!(
            "index_copy_(): self and source expected to have the same dtype, but got (self) {} and (source) {}",
            own.dtype().title(),
            source.dtype().title()
        )));
    }
    let apart = |tensor: &Tensor| -> rushlight_core::Dims {
        tensor.sizes().iter().enumerate().filter(|(d, _)| *d != dim).map(|(_, &size)| size).collect()
    };
    let (mine, theirs) = (apart(own), apart(source));
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

pub static INDEX_FILL: Row = Row {
    name: "index_fill",
    variants: Variants::BOTH.union(Variants::INPLACE),
    signature: "(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
    doc: "A copy with one number in the slices of `dim` that `index` names.

    >>> torch.index_fill(torch.zeros(3), 0, torch.tensor([2, 0]), 5)
    tensor([5., 0., 5.])",
    dtypes: DTypes::ALL,
    traits: Traits::WRITES_EXPANDED,
    mapped: Mapped::Rule(super::mapped::fill),
    run: Run::Update(Update {
        check: |args| {
            check_fill(args)?;
            if args.scalar(3)?.is_complex() && !args.tensor(0)?.dtype().is_complex() {
                return Err(Error::runtime(
                    "index_fill_(): Converting complex Scalar to non-complex type is not supported",
                ));
            }
            crate::create::check_fits(args.scalar(3)?, args.tensor(0)?.dtype())
        },
        cpu: |args, target| {
            fill(args, target, &crate::create::scalar_of(args.scalar(3)?, target.dtype(), target.device())?)
        },
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(2), cleared)]),
    node: "IndexFillBackward0",
    samples: &["t(3, 4), 0, torch.tensor([2, 0]), 2", "t(3, 4), 1, torch.tensor([-1]), 3"],
    errors: &[("t(3), 0, torch.tensor([5]), 1", "IndexError", "index 5 is out of bounds for dimension 0 with size 3")],
    ..Row::BASE
};

pub static INDEX_FILL_TENSOR: Row = Row {
    name: "index_fill.int_Tensor",
    variants: Variants::BOTH.union(Variants::INPLACE),
    signature: "(Tensor self, int dim, Tensor index, Tensor value) -> Tensor",
    doc: "A copy with the number of a 0-d tensor in the slices of `dim` that `index` names.

    >>> torch.index_fill(torch.zeros(3), 0, torch.tensor([2, 0]), torch.tensor(5.))
    tensor([5., 0., 5.])",
    dtypes: DTypes::ALL,
    traits: Traits::WRITES_EXPANDED,
    run: Run::Update(Update {
        check: |args| {
            check_fill(args)?;
            let value = args.tensor(3)?;
            if value.rank() != 0 {
                return Err(Error::runtime(format!(
                    "index_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
                    value.rank()
                )));
            }
            Ok(())
        },
        cpu: |args, target| {
            let value = crate::create::empty(&[], target.dtype(), target.device())?;
            crate::copy::copy(&value, args.tensor(3)?)?;
            fill(args, target, &value)
        },
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(2), cleared),
        formula(3, Saves::input(2), |d| match distinct(d) {
            Ok(index) => d.grad().call(&INDEX_SELECT, [d.int(1).into(), index.into()]).call(&crate::reduce::SUM, []),
            Err(error) => Expr::failed(error),
        }),
    ]),
    node: "IndexFillBackward1",
    samples: &["t(3, 4), 0, torch.tensor([2, 0]), t()"],
    ..Row::BASE
};

/// The filled slices, each once.
fn distinct(d: &Derive) -> Result<Tensor> {
    let size = d.sizes(0).get(wrap_dim(d.int(1), d.rank(0))?).copied().unwrap_or(1) as i64;
    let mut places: Vec<i64> = crate::to_vec::<i64>(&d.input(2).done()?)?;
    places.iter_mut().for_each(|place| *place = place.rem_euclid(size.max(1)));
    places.sort_unstable();
    places.dedup();
    crate::from_slice(&places)
}

fn check_fill(args: &Args) -> Result<()> {
    let (own, index) = (args.tensor(0)?, args.tensor(2)?);
    wrap_dim(args.int(1)?, own.rank())?;
    if index.dtype() != DType::I64 {
        return Err(Error::index("index_fill_(): Expected dtype int64 for index."));
    }
    if index.rank() > 1 {
        return Err(Error::runtime("Index has to be a vector/scalar"));
    }
    Ok(())
}

fn fill(args: &Args, target: &Tensor, value: &Tensor) -> Result<()> {
    let (target, index) = (vector(target), vector(args.tensor(2)?));
    let dim = wrap_dim(args.int(1)?, target.rank())?;
    // What an expanded tensor shows several times is filled once.
    let mut layout = target.layout().clone();
    target.layout().expanded().filter(|&other| other != dim).for_each(|other| layout.sizes[other] = 1);
    let target = Tensor::view_of(&target.detach(), layout);
    let cut = single(&target, dim, &index)?;
    cut.offsets(&target).map_err(|error| error.reworded(Class::Index, || bad_fill(&index, &target, dim)))?;
    put_into(&target, &cut, value, Merge::Set)
}

#[cold]
fn bad_fill(index: &Tensor, target: &Tensor, dim: usize) -> Error {
    let size = target.sizes()[dim] as i64;
    let list = match crate::to_vec::<i64>(index) {
        Ok(list) => list,
        Err(error) => return error,
    };
    let bad = list.into_iter().find(|&value| value < -size || value >= size);
    Error::index(format!("index {} is out of bounds for dimension {dim} with size {size}", bad.unwrap_or(0)))
        .hint("Indices count from 0 to one less than the size; negative ones do not count from the end here.")
}

pub static INDEX_REDUCE: Row = Row {
    name: "index_reduce",
    variants: Variants::ALL,
    signature: "(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor",
    doc: "A copy with the slices of `source` reduced (`prod`, `mean`, `amax`, `amin`) into those of `dim` that `index` names.

    >>> torch.index_reduce(torch.ones(2), 0, torch.tensor([0, 0]), torch.tensor([3., 5.]), 'prod')
    tensor([15.,  1.])",
    out: Out::STRICT,
    dtypes: DTypes::REAL,
    mapped: Mapped::Rule(super::mapped::reduce),
    traits: Traits::ROW_MAJOR,
    run: Run::Update(Update {
        check: |args| {
            reduction(args)?;
            crate::warn_once!("index_reduce() is in beta and the API may change at any time.")?;
            let (own, source) = (args.tensor(0)?, args.tensor(3)?);
            if own.dtype() != source.dtype() {
                return Err(Error::runtime("index_reduce(): self and source must have the same scalar type".to_owned()));
            }
            check_index(args, "index_reduce()")?;
            check_slices(args, "index_reduce()")
        },
        cpu: |args, target| {
            let way = reduction(args)?;
            let number = |value| crate::create::scalar_of(value, target.dtype(), target.device());
            if !args.bool(5)? {
                put_number(args, target, &number(way.neutral(target.dtype()))?, Merge::Set)?;
            }
            merge(args, target, args.tensor(3)?, way.merge())?;
            if way == Reduction::Mean {
                let first = if args.bool(5)? { Scalar::ONE } else { Scalar::ZERO };
                let counts = crate::create::full(target.sizes(), first, target.dtype(), target.device())?;
                put_number(args, &counts, &number(Scalar::ONE)?, Merge::Add)?;
                super::scatter::divide(target, &counts)?;
            }
            Ok(())
        },
    }),
    derivative: Derivative::Joint(Joint { inputs: &[0, 3], saves: REDUCED, gradients: reduced }),
    samples: &[
        "t(3, 4), 0, i(3, 5), t(5, 4), 'prod'",
        "t(3), 0, i(3, 5), t(5), 'mean', include_self=False",
        "t(3), 0, i(3, 5), t(5), 'amax'",
    ],
    errors: &[(
        "t(3), 0, torch.tensor([0]), t(1), 'sum'",
        "RuntimeError",
        "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got sum.",
    )],
    ..Row::BASE
};

const REDUCED: Saves = Saves::input(0).union(Saves::input(2)).union(Saves::input(3)).union(Saves::RESULT);

fn reduction(args: &Args) -> Result<Reduction> {
    let name = args.str(4)?;
    Reduction::named(name).filter(|way| *way != Reduction::Sum).ok_or_else(|| {
        Error::runtime(format!("index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {name}."))
    })
}

/// One number into all slices that the index names.
fn put_number(args: &Args, target: &Tensor, number: &Tensor, way: Merge) -> Result<()> {
    let (target, index) = (vector(target), vector(args.tensor(2)?));
    let dim = wrap_dim(args.int(1)?, target.rank())?;
    put_into(&target, &single(&target, dim, &index)?, number, way)
}

/// The same as `scatter_reduce` with the index spread over the slices.
fn reduced(d: &Derive) -> Result<Vec<Option<Tensor>>> {
    let (dim, index) = (wrap_dim(d.int(1), d.rank(0))?, d.input(2).done()?);
    let (own, source, result, grad) = (d.input(0), d.input(3), d.result(), d.grad());
    let read = |from: Expr| from.call(&INDEX_SELECT, [d.int(1).into(), (&index).into()]);
    let added = |to: Expr, values: Expr| -> Result<Expr> {
        Ok(to.call(&INDEX_ADD, [d.int(1).into(), (&index).into(), values.done()?.into()]))
    };
    let number = |truth: Expr| truth.choose(1.0, 0.0).call(&crate::convert::TO_DTYPE, [d.results[0].dtype.into()]);
    let (mut for_own, for_source) = match d.args.str(4).ok().and_then(Reduction::named) {
        Some(Reduction::Mean) => {
            let first = if d.flag(5) { Scalar::ONE } else { Scalar::ZERO };
            let dtype = d.results[0].dtype;
            let count = crate::create::full(d.sizes(0), first, dtype, index.device())?;
            let ones = crate::create::full(d.sizes(3), Scalar::ONE, dtype, index.device())?;
            let count = added(count.into(), ones.into())?;
            let count = count.clone().equals(0i64).choose(1i64, count);
            (grad.clone() / count.clone(), read(grad / count))
        }
        Some(Reduction::Product) => {
            let row = |from: Expr, values: Expr| -> Result<Expr> {
                let args: [Value; 6] = [
                    from.done()?.into(),
                    d.int(1).into(),
                    (&index).into(),
                    values.done()?.into(),
                    "prod".into(),
                    d.flag(5).into(),
                ];
                Ok(Expr::new(INDEX_REDUCE.call(args).and_then(Output::into_tensor)))
            };
            let own_whole = own.clone().equals(0i64).choose(1i64, own.clone());
            let for_own = grad.clone() * row(own_whole.clone(), source.clone())? / own_whole;
            let zero = source.clone().equals(0i64);
            let count = added(own.clone().zeros_like(), number(zero.clone()))?;
            let lone = zero.clone().and(read(count).equals(1i64));
            let others = row(own, lone.clone().choose(1i64, source.clone()))?;
            let plain = read(grad.clone() * result) / zero.choose(1i64, source);
            (for_own, lone.choose(read(grad * others), plain))
        }
        _ => {
            let own_is = number(own.equals(result.clone()));
            let source_is = number(source.equals(read(result)));
            let share = grad / added(own_is.clone(), source_is.clone())?;
            (own_is * share.clone(), source_is * read(share))
        }
    };
    if !d.flag(5) {
        for_own = for_own.call(&INDEX_FILL, [Value::Int(dim as i64), (&index).into(), Value::Scalar(Scalar::ZERO)]);
    }
    let whole = Layout::contiguous(d.sizes(3));
    let for_source = for_source.call(&crate::view::expand::EXPAND, [sizes_value(&whole.sizes)]);
    Ok(vec![for_own.gradient()?, for_source.gradient()?])
}
