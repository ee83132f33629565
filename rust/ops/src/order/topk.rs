//! The k largest, the k-th smallest, the median and the most frequent element along a dimension.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Error, Result};
use rushlight_cpu::order::{Line, Ranked, Sortable};

use super::sort::{Arrange, check_order, write_lines};
use crate::derive::{Derivative, Saves, formula};
use crate::mapped::{Batch, Mapped};
use crate::op;
use crate::reduce::extreme::SHARED_ALL;
use crate::reduce::one_dim;
use crate::reduce::put_back::{ORDERED, put_back, spread};
use crate::row::{Accepts, DTypes, Kernel, Out, Row, Run, Spec, Variants};
use crate::value::{Args, Output};
use crate::view::RESHAPE;
use crate::view::reshape::sizes_value;

const OUT_KTH: Out = Out::new(
    Accepts::Same,
    &["output values must be of same type as input", "output indices must be of scalar type Long"],
)
.apart();
const OUT_MEDIAN: Out = Out::new(
    Accepts::Same,
    &[
        "Expected tensor for 'values' to have the same type as tensor for argument #2 'self'; but type torch.{Out}Tensor does not equal torch.{Result}Tensor (while checking arguments for median)",
        "Expected tensor for argument #1 'indices' to have scalar type Long; but got torch.{Out}Tensor instead (while checking arguments for median)",
    ],
);
const OUT_MODE: Out = Out::new(
    Accepts::Same,
    &[
        "expected scalar type '{Result}' but got '{Out}' for values output",
        "expected scalar type '{Result}' but got '{Out}' for indices output",
    ],
);

pub static TOPK: Row = Row {
    name: "topk",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)",
    doc: "The `k` largest elements along `dim`, or the smallest, in order, and where they stand.

    >>> torch.topk(torch.tensor([3, 1, 2]), 2)
    torch.return_types.topk(
    values=tensor([3, 2]),
    indices=tensor([0, 2]))",
    out: Out::EXACT,
    dtypes: DTypes::REAL,
    mapped: Mapped::Along(2),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let own = args.tensor(0)?;
            let dim = one_dim(args, 2)?;
            if own.dtype() == DType::Bool {
                return Err(Error::runtime("topk does not support bool dtypes on CPU"));
            }
            check_order(args, " topk does not support complex dtypes on CPU")?;
            let (k, size) = (args.int(1)? as isize, own.sizes().get(dim).copied().unwrap_or(1));
            if k < 0 || k > size {
                return Err(Error::runtime("selected index k out of range"));
            }
            let mut sizes = own.sizes().clone();
            if let Some(slot) = sizes.get_mut(dim) {
                *slot = k;
            }
            Ok(vec![Spec::new(&sizes, own.dtype(), own), Spec::new(&sizes, DType::I64, own)])
        },
        cpu: |args, results| {
            // A tensor without dimensions has its one element whatever is asked for.
            let own = args.tensor(0)?;
            let k = if own.rank() == 0 { 1 } else { args.int(1)? as usize };
            write_lines(own, one_dim(args, 2)?, args.bool(3)?, results, k, First(k))
        },
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::result(1), |d| {
        spread(d, d.grad(), d.result_of(1), d.int(2))
    })]),
    samples: &["t(5), 2", "t(2, 3), 1, 0", "t(2, 3, 4), 2, 1, False", "t(), 1", "t(), 0"],
    errors: &[("t(3), 4", "RuntimeError", "selected index k out of range")],
    ..Row::BASE
};

pub static KTHVALUE: Row = Row {
    name: "kthvalue",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
    doc: "The `k`-th smallest element along `dim`, counted from one, and where it stands.

    >>> torch.kthvalue(torch.tensor([3, 1, 2]), 2)
    torch.return_types.kthvalue(
    values=tensor(2),
    indices=tensor(2))",
    out: OUT_KTH,
    dtypes: DTypes::REAL,
    mapped: Mapped::Along(2),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let own = args.tensor(0)?;
            let dim = one_dim(args, 2)?;
            let specs = infer_one(args, 2)?;
            let (k, size) = (args.int(1)? as isize, own.sizes().get(dim).copied().unwrap_or(1));
            if k < 1 || k > size {
                return Err(Error::runtime(format!("kthvalue(): selected number k out of range for dimension {dim}")));
            }
            Ok(specs)
        },
        cpu: |args, results| write_one(args, 2, results, Kth(args.int(1)? as usize - 1)),
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::result(1), |d| {
        put_back(d, d.grad(), d.result_of(1), d.int(2), d.flag(3))
    })]),
    samples: &["t(5), 2", "t(2, 3), 1, 0", "t(2, 3), 2, 1, True"],
    errors: &[("t(3), 4", "RuntimeError", "kthvalue(): selected number k out of range for dimension 0")],
    reference: "(lambda at: (np.take_along_axis(self, at, dim) if keepdim else np.take_along_axis(self, at, dim).squeeze(dim), at if keepdim else at.squeeze(dim)))(np.argsort(self, dim, kind='stable').take([k - 1], dim)) if self.dtype.kind == 'f' else None",
    ..Row::BASE
};

/// The median of each sample's elements, which stand in a line; one of no elements is not that of an empty line.
fn of_each(batch: &Batch, along: &'static Row) -> Result<Option<Output>> {
    let shown = batch.tensor(0)?;
    if shown.numel() == 0 {
        return Ok(None);
    }
    let lines = op!(RESHAPE, shown, sizes_value(&[batch.size, -1]))?;
    Ok(along.call([lines.into(), 1i64.into()])?.into_tensors().into_iter().next().map(Output::Tensor))
}

macro_rules! medians {
    ($($all:ident $along:ident $name:literal $skips:literal $all_doc:literal $along_doc:literal;)*) => {$(
        pub static $all: Row = Row {
            name: $name,
            signature: "(Tensor self) -> Tensor",
            doc: $all_doc,
            dtypes: DTypes::REAL,
            mapped: Mapped::Rule(|batch| of_each(batch, &$along)),
            run: Run::Kernel(Kernel {
                infer: infer_all,
                cpu: |args, results| write_all(args, results, Middle { skip_nan: $skips }),
            }),
            derivative: SHARED_ALL,
            samples: &["t(5)", "t(2, 3)", "t()"],
            reference: "np.sort(self.ravel())[(self.size - 1) // 2]",
            ..Row::BASE
        };

        pub static $along: Row = Row {
            name: concat!($name, ".dim"),
            variants: Variants::BOTH.union(Variants::OUT),
            signature: "(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
            doc: $along_doc,
            out: OUT_MEDIAN,
            dtypes: DTypes::REAL,
            mapped: Mapped::Along(1),
            run: Run::Kernel(Kernel {
                infer: |args| infer_one(args, 1),
                cpu: |args, results| write_one(args, 1, results, Middle { skip_nan: $skips }),
            }),
            derivative: PLACED,
            samples: &["t(2, 3), 1", "t(2, 3), 0, True"],
            errors: &[
                ("t(0, 3), 0", "IndexError", "median(): Expected reduction dim 0 to have non-zero size."),
                ("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)"),
            ],
            ..Row::BASE
        };
    )*};
}

medians! {
    MEDIAN MEDIAN_DIM "median" false
    "The median of all elements, the lower one of two; NaN if any element is.

    >>> torch.median(torch.tensor([3., 1., 2., 4.]))
    tensor(2.)"
    "The medians along `dim`, the lower ones of two, and where they stand.

    >>> torch.median(torch.tensor([[3, 1, 2]]), dim=1)
    torch.return_types.median(
    values=tensor([2]),
    indices=tensor([2]))";
    NANMEDIAN NANMEDIAN_DIM "nanmedian" true
    "The median of the elements that are not NaN.

    >>> torch.nanmedian(torch.tensor([3., float('nan'), 2.]))
    tensor(2.)"
    "The medians along `dim` of the elements that are not NaN, and where they stand.

    >>> torch.nanmedian(torch.tensor([[3., float('nan'), 2.]]), dim=1)
    torch.return_types.nanmedian(
    values=tensor([2.]),
    indices=tensor([2]))";
}

pub static MODE: Row = Row {
    name: "mode",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
    doc: "The most frequent element along `dim` (the smallest of several), and where it last stands.

    >>> torch.mode(torch.tensor([3, 1, 1, 2]))
    torch.return_types.mode(
    values=tensor(1),
    indices=tensor(2))",
    out: OUT_MODE,
    dtypes: ORDERED,
    mapped: Mapped::Along(1),
    run: Run::Kernel(Kernel {
        infer: |args| infer_one(args, 1),
        cpu: |args, results| write_one(args, 1, results, Frequent),
    }),
    derivative: PLACED,
    samples: &["t(5)", "i(3, 2, 6), 1", "t(2, 3), 0, True"],
    errors: &[("t(0)", "IndexError", "mode(): Expected reduction dim 0 to have non-zero size.")],
    ..Row::BASE
};

const PLACED: Derivative = Derivative::Formulas(&[formula(0, Saves::result(1), |d| {
    put_back(d, d.grad(), d.result_of(1), d.int(1), d.flag(2))
})]);

/// The first `0` ranks in order.
struct First(usize);

impl Arrange for First {
    fn arrange<T: Sortable>(&self, line: &mut Line<T>) {
        if self.0 > 0 && self.0 < line.ranks.len() {
            line.ranks.select_nth_unstable(self.0 - 1);
        }
        let k = self.0.min(line.ranks.len());
        line.ranks[..k].sort_unstable();
    }

    fn wanted(&self) -> Option<usize> {
        Some(self.0)
    }
}

/// The rank that would stand at place `0` brought to the front.
struct Kth(usize);

impl Arrange for Kth {
    fn arrange<T: Sortable>(&self, line: &mut Line<T>) {
        bring(line, self.0);
    }
}

fn bring<T: Sortable>(line: &mut Line<T>, k: usize) {
    if k < line.ranks.len() {
        line.ranks.select_nth_unstable(k);
        line.ranks.swap(0, k);
    }
}

/// The lower median; a NaN takes its place unless NaN is skipped.
struct Middle {
    skip_nan: bool,
}

impl Arrange for Middle {
    fn arrange<T: Sortable>(&self, line: &mut Line<T>) {
        let n = line.ranks.len();
        let mut real = 0;
        let mut first = None;
        for place in 0..n {
            if line.element(place).is_nan() {
                first = first.or(Some(place));
            } else {
                real += 1;
            }
        }
        match first {
            Some(place) if !self.skip_nan || real == 0 => line.ranks.swap(0, place),
            _ if real > 0 => bring(line, (real - 1) / 2),
            _ => {}
        }
    }
}

/// The longest run of equal elements; of several the smallest, and its last element.
struct Frequent;

impl Arrange for Frequent {
    fn arrange<T: Sortable>(&self, line: &mut Line<T>) {
        line.ranks.sort_unstable();
        let (mut best, mut longest, mut start) = (0, 0, 0);
        for i in 0..line.ranks.len() {
            if !line.ranks[i].ties(line.ranks[start]) {
                start = i;
            }
            if i + 1 - start > longest {
                longest = i + 1 - start;
                best = i;
            }
        }
        if !line.ranks.is_empty() {
            line.ranks.swap(0, best);
        }
    }
}

/// Values and places of one element along the dimension at `place`.
fn infer_one(args: &Args, place: usize) -> Result<Vec<Spec>> {
    let (own, dim) = (args.tensor(0)?, one_dim(args, place)?);
    check_supported(args)?;
    let mut sizes = own.sizes().clone();
    match sizes.get_mut(dim) {
        Some(0) => {
            // torch calls both medians by one name here.
            let name = if args.row.name == NANMEDIAN_DIM.name { "median" } else { args.row.python_name() };
            return Err(Error::index(format!("{name}(): Expected reduction dim {dim} to have non-zero size."))
                .shapes([own.sizes().as_slice()])
                .axis(dim));
        }
        Some(size) if args.bool(place + 1)? => *size = 1,
        Some(_) => drop(sizes.remove(dim)),
        None => {}
    }
    Ok(vec![Spec::new(&sizes, own.dtype(), own), Spec::new(&sizes, DType::I64, own)])
}

fn check_supported(args: &Args) -> Result<()> {
    let dtype = args.tensor(0)?.dtype();
    if args.row.dtypes.has(dtype) {
        return Ok(());
    }
    let kernel = match args.row.python_name() {
        // Of all elements; along a dimension it has another name.
        name if name.ends_with("median") && args.row.schema().params.len() == 1 => "median_cpu",
        name if name.ends_with("median") => "median_out",
        name => &format!("{name}_cpu"),
    };
    Err(Error::unsupported(kernel, dtype))
}

fn write_one(args: &Args, place: usize, results: &[Tensor], how: impl Arrange) -> Result<()> {
    write_lines(args.tensor(0)?, one_dim(args, place)?, false, results, 1, how)
}

fn infer_all(args: &Args) -> Result<Vec<Spec>> {
    check_supported(args)?;
    Ok(vec![Spec::new(&[], args.tensor(0)?.dtype(), args.tensor(0)?)])
}

/// The median of everything; of nothing it is NaN.
fn write_all(args: &Args, results: &[Tensor], how: impl Arrange) -> Result<()> {
    let own = args.tensor(0)?;
    if own.numel() == 0 {
        return crate::create::fill(&results[0], rushlight_core::Scalar::Float(f64::NAN));
    }
    let flat = crate::convert::contiguous(&own.detach())?;
    let layout = rushlight_core::Layout {
        offset: flat.layout().offset,
        ..rushlight_core::Layout::contiguous(&[own.numel() as isize])
    };
    let line = Tensor::view_of(&flat, layout);
    let place = crate::create::empty(&[], DType::I64, own.device())?;
    write_lines(&line, 0, false, &[results[0].clone(), place], 1, how)
}
