//! Sorting along a dimension.

use rushlight_autograd::Tensor;
use rushlight_autograd::modes::GradMode;
use rushlight_core::{Bool, DType, Device, Error, Layout, Result, dispatch};
use rushlight_cpu::order::{Line, Ranked, Sortable, each_line};
use rushlight_cpu::reduce::cumulative::Lines;
use rushlight_dispatch::allocate::allocate;
use rushlight_dispatch::call::errors::not_implemented;
use rushlight_dispatch::copy;
use rushlight_dispatch::operands::{lines, plain};
use rushlight_dispatch::operator::{
    Args, BatchRule, DTypes, Derivative, Implementation, Kernel, Operator, Out, Saves, TensorSpec, Variants, formula,
    operator,
};
use rushlight_dispatch::value::{Arg, Output};
use rushlight_par::Address;

use super::on_cuda;
use crate::reduce::one_dim;
use crate::reduce::select_backward::{ORDERED, scatter_gradient};

const SORTABLE: DTypes = ORDERED.union(DTypes::WIDE);

#[operator]
pub static SORT: Operator = Operator {
    name: "sort",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
    doc: "The sorted elements along `dim`, and their indices; equal ones keep their order, NaN is the largest.

    >>> torch.sort(torch.tensor([3, 1, 2]))
    torch.return_types.sort(
    values=tensor([1, 2, 3]),
    indices=tensor([1, 2, 0]))",
    out: Out::EXACT,
    dtypes: SORTABLE,
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| infer(args, DIM),
        |args, results| sort(args.tensor(INPUT)?, one_dim(args, DIM)?, args.bool(DESCENDING)?, results),
    )),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::result(1), |d| {
        scatter_gradient(d, d.grad(), d.result_of(1), d.int(DIM))
    })]),
    samples: &["t(5)", "t(2, 3), 0", "t(2, 3, 4), 1, True", "t()"],
    errors: &[("t(2, 3), 5", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 5)")],
    reference: "(np.sort(self, axis=dim), np.argsort(self, axis=dim, kind='stable')) if self.ndim and not descending else None",
    kernel_name: "sorting_kernel_method_name",
    ..Operator::BASE
};

#[operator]
pub static SORT_STABLE: Operator = Operator {
    name: "sort.stable",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
    doc: "The sorted elements along `dim`, and their indices; equal ones keep their order for any `stable`.

    >>> torch.sort(torch.tensor([2, 1, 2]), stable=True, descending=True)
    torch.return_types.sort(
    values=tensor([2, 2, 1]),
    indices=tensor([0, 2, 1]))",
    out: Out::EXACT,
    dtypes: SORTABLE,
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| infer(args, DIM),
        |args, results| sort(args.tensor(INPUT)?, one_dim(args, DIM)?, args.bool(DESCENDING)?, results),
    )),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::result(1), |d| {
        scatter_gradient(d, d.grad(), d.result_of(1), d.int(DIM))
    })]),
    samples: &["t(5), stable=True", "t(2, 3), stable=True, dim=0, descending=True"],
    reference: "((-np.sort(-self, dim), np.argsort(-self, dim, kind='stable')) if descending else (np.sort(self, dim), np.argsort(self, dim, kind='stable'))) if self.dtype.kind == 'f' else None",
    ..Operator::BASE
};

#[operator]
pub static ARGSORT: Operator = Operator {
    name: "argsort",
    signature: "(Tensor self, int dim=-1, bool descending=False) -> Tensor",
    doc: "The indices that sort the elements along `dim`.

    >>> torch.argsort(torch.tensor([3, 1, 2]))
    tensor([1, 2, 0])",
    dtypes: SORTABLE,
    implementation: Implementation::CompositeImplicit(|args| {
        places(args.tensor(INPUT)?, args.int(DIM)?, args.bool(DESCENDING)?)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(5)", "t(2, 3), 0, True"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    reference: "np.argsort(self, axis=dim, kind='stable') if not descending else None",
    ..Operator::BASE
};

#[operator]
pub static ARGSORT_STABLE: Operator = Operator {
    name: "argsort.stable",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor",
    doc: "The indices that sort the elements along `dim`; equal ones keep their order.

    >>> torch.argsort(torch.tensor([2, 1, 2]), stable=True)
    tensor([1, 0, 2])",
    out: Out::EXACT,
    dtypes: SORTABLE,
    implementation: Implementation::CompositeImplicit(|args| {
        places(args.tensor(INPUT)?, args.int(DIM)?, args.bool(DESCENDING)?)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(5), stable=True"],
    errors: &[(
        "t(2, 3), stable=True, dim=2",
        "IndexError",
        "Dimension out of range (expected to be in range of [-2, 1], but got 2)",
    )],
    reference: "np.argsort(self, dim, kind='stable')",
    ..Operator::BASE
};

#[operator]
pub static MSORT: Operator = Operator {
    name: "msort",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self) -> Tensor",
    doc: "The sorted elements along the first dimension.

    >>> torch.msort(torch.tensor([[3, 1], [2, 4]]))
    tensor([[2, 1],
            [3, 4]])",
    out: Out::EXACT,
    dtypes: SORTABLE,
    implementation: Implementation::CompositeImplicit(|args| {
        let input = args.tensor(INPUT)?;
        let sorted = SORT.call([input.into(), 0i64.into(), false.into()])?.into_tensors();
        Ok(sorted.into_iter().next().map_or(Output::Nothing, Output::Tensor))
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(4, 2)"],
    reference: "np.sort(self, axis=0)",
    ..Operator::BASE
};

fn places(input: &Tensor, dim: i64, descending: bool) -> Result<Output> {
    let _off = GradMode::new(false);
    let sorted = SORT.call([input.into(), dim.into(), descending.into()])?.into_tensors();
    Ok(sorted.into_iter().nth(1).map_or(Output::Nothing, Output::Tensor))
}

/// Returns an error for complex numbers, and for other dtypes without an order.
pub fn check_order(args: &Args, sentence: &str) -> Result<()> {
    let input = args.tensor(SORT::INPUT)?;
    if input.dtype().is_complex() {
        return Err(Error::runtime(sentence));
    }
    if !args.op.dtypes.has(input.dtype()) {
        return Err(not_implemented(args.op, input.dtype()));
    }
    Ok(())
}

fn infer(args: &Args, dim: Arg) -> Result<Vec<TensorSpec>> {
    let input = args.tensor(SORT::INPUT)?;
    one_dim(args, dim)?;
    check_order(args, " Sort does not support complex dtypes on CPU")?;
    let layout = Layout { sizes: input.sizes().clone(), strides: input.layout().preserved_strides(), offset: 0 };
    let spec = |dtype| TensorSpec { layout: layout.clone(), dtype, device: input.device() };
    Ok(vec![spec(input.dtype()), spec(DType::I64)])
}

fn sort(input: &Tensor, dim: usize, descending: bool, results: &[Tensor]) -> Result<()> {
    let take = input.sizes().get(dim).copied().unwrap_or(1) as usize;
    if let Device::Cuda(_) = input.device() {
        return on_cuda::sort(input, dim, descending, results);
    }
    if results[0].layout().is_contiguous() {
        return write_lines(input, dim, descending, results, take, SORTED);
    }
    let apart = [&results[0], &results[1]].map(|result| allocate(&TensorSpec::like(result)));
    let [values, places] = apart;
    let apart = [values?, places?];
    write_lines(input, dim, descending, &apart, take, SORTED)?;
    results.iter().zip(&apart).try_for_each(|(result, apart)| copy::copy(result, apart))
}

/// How a line's ranks are brought into the order in which the first `take` are written.
pub trait Arrange: Sync {
    fn arrange<T: Sortable>(&self, line: &mut Line<T>);

    /// How many of the least ranks are needed; `None` if the whole line is.
    fn wanted(&self) -> Option<usize> {
        None
    }
}

pub struct Sorted;
pub const SORTED: Sorted = Sorted;

impl Arrange for Sorted {
    fn arrange<T: Sortable>(&self, line: &mut Line<T>) {
        line.ranks.sort_unstable();
    }
}

/// Arranges each line of `own` and writes the first `take` elements, and their indices, as lines of the results.
pub fn write_lines(
    input: &Tensor,
    dim: usize,
    descending: bool,
    results: &[Tensor],
    take: usize,
    how: impl Arrange,
) -> Result<()> {
    let shape = lines(input, dim);
    let source = plain(input, input.dtype())?;
    let (from, values, places) = (source.storage().pin()?, results[0].storage().pin()?, results[1].storage().pin()?);
    let offset = source.layout().offset;
    let places = Address(places.as_ptr().cast::<i64>());
    dispatch!(input.dtype(), T in [u8, i8, i16, i32, i64, u16, u32, u64, f32, f64, rushlight_core::dtype::f16_, rushlight_core::dtype::bf16_, Bool] => {
        let values = Address(values.as_ptr().cast::<T>());
        // SAFETY: the operand is contiguous; results are new and row-major, with `take` elements along the dimension.
        unsafe {
            each_line(shape, from.as_ptr().cast::<T>().offset(offset), descending, how.wanted(), |mut line: Line<T>| {
                how.arrange(&mut line);
                let to = written(shape, take, line.first);
                for (i, rank) in line.ranks.iter().take(take).enumerate() {
                    values.at(to + i * shape.inner).write(line.element(rank.place()));
                    places.at(to + i * shape.inner).write(rank.place() as i64);
                }
            })
        }
    }, else => Err(Error::unsupported("sort", input.dtype())))
}

/// The first element of a line in a result that has `take` elements along the dimension.
fn written(shape: Lines, take: usize, first: usize) -> usize {
    let block = shape.n * shape.inner;
    first.checked_div(block).map_or(0, |lines| lines * take * shape.inner + first % block)
}
