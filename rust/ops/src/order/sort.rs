//! Sorting along a dimension.

use rushlight_autograd::Tensor;
use rushlight_core::{Bool, DType, Error, Layout, Result, dispatch};
use rushlight_cpu::order::{Line, Ranked, Sortable, each_line};
use rushlight_cpu::reduce::cumulative::Lines;
use rushlight_par::Address;

use crate::derive::{Derivative, Saves, formula};
use crate::mapped::Mapped;
use crate::operands::{lines, plain};
use crate::reduce::one_dim;
use crate::reduce::put_back::{ORDERED, spread};
use crate::row::{DTypes, Kernel, Out, Row, Run, Spec, Variants};
use crate::value::{Args, Output};

const SORTABLE: DTypes = ORDERED.union(DTypes::WIDE);

pub static SORT: Row = Row {
    name: "sort",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
    doc: "The elements along `dim` in order, and where each stood; equal ones keep their order, NaN is the largest.

    >>> torch.sort(torch.tensor([3, 1, 2]))
    torch.return_types.sort(
    values=tensor([1, 2, 3]),
    indices=tensor([1, 2, 0]))",
    out: Out::EXACT,
    dtypes: SORTABLE,
    mapped: Mapped::Along(1),
    run: Run::Kernel(Kernel {
        infer: |args| infer(args, 1),
        cpu: |args, results| sort(args.tensor(0)?, one_dim(args, 1)?, args.bool(2)?, results),
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::result(1), |d| {
        spread(d, d.grad(), d.result_of(1), d.int(1))
    })]),
    samples: &["t(5)", "t(2, 3), 0", "t(2, 3, 4), 1, True", "t()"],
    errors: &[("t(2, 3), 5", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 5)")],
    reference: "(np.sort(self, axis=dim), np.argsort(self, axis=dim, kind='stable')) if self.ndim and not descending else None",
    ..Row::BASE
};

pub static SORT_STABLE: Row = Row {
    name: "sort.stable",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
    doc: "The elements along `dim` in order; equal ones keep theirs, whatever `stable` says.

    >>> torch.sort(torch.tensor([2, 1, 2]), stable=True, descending=True)
    torch.return_types.sort(
    values=tensor([2, 2, 1]),
    indices=tensor([0, 2, 1]))",
    out: Out::EXACT,
    dtypes: SORTABLE,
    mapped: Mapped::Along(2),
    run: Run::Kernel(Kernel {
        infer: |args| infer(args, 2),
        cpu: |args, results| sort(args.tensor(0)?, one_dim(args, 2)?, args.bool(3)?, results),
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::result(1), |d| {
        spread(d, d.grad(), d.result_of(1), d.int(2))
    })]),
    samples: &["t(5), stable=True", "t(2, 3), stable=True, dim=0, descending=True"],
    reference: "((-np.sort(-self, dim), np.argsort(-self, dim, kind='stable')) if descending else (np.sort(self, dim), np.argsort(self, dim, kind='stable'))) if self.dtype.kind == 'f' else None",
    ..Row::BASE
};

pub static ARGSORT: Row = Row {
    name: "argsort",
    signature: "(Tensor self, int dim=-1, bool descending=False) -> Tensor",
    doc: "Where the elements stand that sorting along `dim` would put in order.

    >>> torch.argsort(torch.tensor([3, 1, 2]))
    tensor([1, 2, 0])",
    dtypes: SORTABLE,
    run: Run::Compose(|args| places(args.tensor(0)?, args.int(1)?, args.bool(2)?)),
    derivative: Derivative::Composed,
    samples: &["t(5)", "t(2, 3), 0, True"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    reference: "np.argsort(self, axis=dim, kind='stable') if not descending else None",
    ..Row::BASE
};

pub static ARGSORT_STABLE: Row = Row {
    name: "argsort.stable",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor",
    doc: "Where the elements stand that sorting along `dim` would put in order; equal ones keep theirs.

    >>> torch.argsort(torch.tensor([2, 1, 2]), stable=True)
    tensor([1, 0, 2])",
    out: Out::EXACT,
    dtypes: SORTABLE,
    run: Run::Compose(|args| places(args.tensor(0)?, args.int(2)?, args.bool(3)?)),
    derivative: Derivative::Composed,
    samples: &["t(5), stable=True"],
    errors: &[(
        "t(2, 3), stable=True, dim=2",
        "IndexError",
        "Dimension out of range (expected to be in range of [-2, 1], but got 2)",
    )],
    reference: "np.argsort(self, dim, kind='stable')",
    ..Row::BASE
};

pub static MSORT: Row = Row {
    name: "msort",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self) -> Tensor",
    doc: "The elements in order along the first dimension.

    >>> torch.msort(torch.tensor([[3, 1], [2, 4]]))
    tensor([[2, 1],
            [3, 4]])",
    out: Out::EXACT,
    dtypes: SORTABLE,
    run: Run::Compose(|args| {
        let own = args.tensor(0)?;
        let sorted = SORT.call([own.into(), 0i64.into(), false.into()])?.into_tensors();
        Ok(sorted.into_iter().next().map_or(Output::Nothing, Output::Tensor))
    }),
    derivative: Derivative::Composed,
    samples: &["t(4, 2)"],
    reference: "np.sort(self, axis=0)",
    ..Row::BASE
};

fn places(own: &Tensor, dim: i64, descending: bool) -> Result<Output> {
    let sorted = SORT.call([(&own.detach()).into(), dim.into(), descending.into()])?.into_tensors();
    Ok(sorted.into_iter().nth(1).map_or(Output::Nothing, Output::Tensor))
}

/// Refuses complex numbers, and what else has no order.
pub fn check_order(args: &Args, sentence: &str) -> Result<()> {
    let own = args.tensor(0)?;
    if own.dtype().is_complex() {
        return Err(Error::runtime(sentence));
    }
    if !args.row.dtypes.has(own.dtype()) {
        return Err(crate::call::not_implemented(args.row, own.dtype()));
    }
    Ok(())
}

fn infer(args: &Args, dim: usize) -> Result<Vec<Spec>> {
    let own = args.tensor(0)?;
    one_dim(args, dim)?;
    check_order(args, " Sort does not support complex dtypes on CPU")?;
    let layout = Layout { sizes: own.sizes().clone(), strides: own.layout().preserved_strides(), offset: 0 };
    let spec = |dtype| Spec { layout: layout.clone(), dtype, device: own.device() };
    Ok(vec![spec(own.dtype()), spec(DType::I64)])
}

fn sort(own: &Tensor, dim: usize, descending: bool, results: &[Tensor]) -> Result<()> {
    let take = own.sizes().get(dim).copied().unwrap_or(1) as usize;
    if results[0].layout().is_contiguous() {
        return write_lines(own, dim, descending, results, take, SORTED);
    }
    let apart = [&results[0], &results[1]].map(|result| crate::call::allocate(&Spec::like(result)));
    let [values, places] = apart;
    let apart = [values?, places?];
    write_lines(own, dim, descending, &apart, take, SORTED)?;
    results.iter().zip(&apart).try_for_each(|(result, apart)| crate::copy::copy(result, apart))
}

/// How a line's ranks are brought into the order in which `take` of them are written.
pub trait Arrange: Sync {
    fn arrange<T: Sortable>(&self, line: &mut Line<T>);

    /// How many of the least ranks are all that it looks at; nothing where it needs the whole line.
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

/// Arranges each line of `own` and writes the first `take` elements, and their places, as lines of the results.
pub fn write_lines(
    own: &Tensor,
    dim: usize,
    descending: bool,
    results: &[Tensor],
    take: usize,
    how: impl Arrange,
) -> Result<()> {
    let shape = lines(own, dim);
    let source = plain(own, own.dtype())?;
    let (from, values, places) = (source.storage().pin()?, results[0].storage().pin()?, results[1].storage().pin()?);
    let offset = source.layout().offset;
    let places = Address(places.as_ptr().cast::<i64>());
    dispatch!(own.dtype(), T in [u8, i8, i16, i32, i64, u16, u32, u64, f32, f64, rushlight_core::dtype::f16_, rushlight_core::dtype::bf16_, Bool] => {
        let values = Address(values.as_ptr().cast::<T>());
        // SAFETY: the operand is contiguous; results are fresh and row-major, with `take` elements along the dimension.
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
    }, else => Err(Error::unsupported("sort", own.dtype())))
}

/// Where a line begins in a result that has `take` elements along the dimension.
fn written(shape: Lines, take: usize, first: usize) -> usize {
    let block = shape.n * shape.inner;
    first.checked_div(block).map_or(0, |lines| lines * take * shape.inner + first % block)
}
