//! The k largest, the k-th smallest, the median and the most frequent element along a dimension.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Device, Error, Result};
use rushlight_cpu::order::{Line, Ranked, Sortable, introsort};
use rushlight_cuda::search::Pick;
use rushlight_dispatch::operator::{
    Accepts, Args, BatchRule, BatchedCall, DTypes, Derivative, Implementation, Kernel, OnCuda, Operator, Out, Saves,
    TensorSpec, Variants, formula, operator,
};
use rushlight_dispatch::value::{Arg, Output, sizes_value};
use rushlight_dispatch::{create, op};

use super::on_cuda;
use super::sort::{Arrange, check_order, write_lines};
use crate::reduce::extreme::SHARED_ALL;
use crate::reduce::one_dim;
use crate::reduce::select_backward::{ORDERED, scatter_gradient, select_backward};
use crate::view::RESHAPE;

const OUT_KTH: Out = Out::new(
    Accepts::Same,
    &["output values must be of same type as input", "output indices must be of scalar type Long"],
)
.no_alias();
const OUT_MEDIAN: Out = Out::new(
    Accepts::Same,
    &[
        "Expected tensor for 'values' to have the same type as tensor for argument #2 'self'; but type {Type} does not equal torch.{Result}Tensor (while checking arguments for median)",
        "Expected tensor for argument #1 'indices' to have scalar type Long; but got {Type} instead (while checking arguments for median)",
    ],
);
const OUT_MODE: Out = Out::new(
    Accepts::Same,
    &[
        "expected scalar type '{Result}' but got '{Out}' for values output",
        "expected scalar type '{Result}' but got '{Out}' for indices output",
    ],
);

#[operator]
pub static TOPK: Operator = Operator {
    name: "topk",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)",
    doc: "The `k` largest elements along `dim`, or the smallest, in order, and their indices.

    >>> torch.topk(torch.tensor([3, 1, 2]), 2)
    torch.return_types.topk(
    values=tensor([3, 2]),
    indices=tensor([0, 2]))",
    out: Out::EXACT,
    dtypes: DTypes::REAL,
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let input = args.tensor(INPUT)?;
            let dim = one_dim(args, DIM)?;
            let (k, size) = (args.int(K)? as isize, input.sizes().get(dim).copied().unwrap_or(1));
            if k < 0 || k > size {
                return Err(Error::runtime("selected index k out of range"));
            }
            if input.dtype() == DType::Bool {
                return Err(Error::runtime("topk does not support bool dtypes on CPU"));
            }
            check_order(args, " topk does not support complex dtypes on CPU")?;
            let mut sizes = input.sizes().clone();
            if let Some(slot) = sizes.get_mut(dim) {
                *slot = k;
            }
            Ok(vec![TensorSpec::new(&sizes, input.dtype(), input), TensorSpec::new(&sizes, DType::I64, input)])
        },
        |args, results| {
            // A 0-d tensor returns its only element for every `k`.
            let input = args.tensor(INPUT)?;
            let k = if input.rank() == 0 { 1 } else { args.int(K)? as usize };
            let dim = one_dim(args, DIM)?;
            if let Device::Cuda(_) = input.device() {
                let places = on_cuda::places(input, dim, args.bool(LARGEST)?)?;
                return on_cuda::write(input, dim, &on_cuda::part(&places, dim, 0, k), results);
            }
            write_lines(input, dim, args.bool(LARGEST)?, results, k, First(k))
        },
    )),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::result(1), |d| {
        scatter_gradient(d, d.grad(), d.result_of(1), d.int(DIM))
    })]),
    samples: &["t(5), 2", "t(2, 3), 1, 0", "t(2, 3, 4), 2, 1, False", "t(), 1", "t(), 0"],
    errors: &[("t(3), 4", "RuntimeError", "selected index k out of range")],
    ..Operator::BASE
};

#[operator]
pub static KTHVALUE: Operator = Operator {
    name: "kthvalue",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
    doc: "The `k`-th smallest element along `dim`, counted from one, and its index.

    >>> torch.kthvalue(torch.tensor([3, 1, 2]), 2)
    torch.return_types.kthvalue(
    values=tensor(2),
    indices=tensor(2))",
    out: OUT_KTH,
    dtypes: DTypes::REAL,
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Kernel(Kernel {
        infer: |args| infer_one(args, DIM, KEEPDIM),
        cpu: |args, results| write_one(args, DIM, results, Kth(args.int(K)? as usize - 1)),
        cuda: OnCuda::Own(|args, results| {
            let (input, dim) = (args.tensor(INPUT)?, one_dim(args, DIM)?);
            let places = on_cuda::places(input, dim, false)?;
            on_cuda::write(input, dim, &on_cuda::part(&places, dim, args.int(K)? as usize - 1, 1), results)
        }),
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::result(1), |d| {
        select_backward(d, d.grad(), d.result_of(1), d.int(DIM), d.flag(KEEPDIM))
    })]),
    samples: &["t(5), 2", "t(2, 3), 1, 0", "t(2, 3), 2, 1, True"],
    errors: &[("t(3), 4", "RuntimeError", "kthvalue(): selected number k out of range for dimension 0")],
    reference: "(lambda at: (np.take_along_axis(self, at, dim) if keepdim else np.take_along_axis(self, at, dim).squeeze(dim), at if keepdim else at.squeeze(dim)))(np.argsort(self, dim, kind='stable').take([k - 1], dim)) if self.dtype.kind == 'f' else None",
    ..Operator::BASE
};

/// The median of each sample's elements, which form a line; the median of an empty tensor differs from that of an empty
/// line.
fn of_each(batch: &BatchedCall, along: &'static Operator) -> Result<Option<Output>> {
    let shown = batch.tensor(MEDIAN::INPUT)?;
    if shown.numel() == 0 {
        return Ok(None);
    }
    let lines = op!(RESHAPE, shown, sizes_value(&[batch.size, -1]))?;
    Ok(along.call([lines.into(), 1i64.into()])?.into_tensors().into_iter().next().map(Output::Tensor))
}

macro_rules! medians {
    ($($all:ident $along:ident $name:literal $skips:literal $all_doc:literal $along_doc:literal;)*) => {$(
        #[operator]
        pub static $all: Operator = Operator {
            name: $name,
            signature: "(Tensor self) -> Tensor",
            doc: $all_doc,
            dtypes: DTypes::REAL,
            batch_rule: BatchRule::Custom(|batch| of_each(batch, &$along)),
            implementation: Implementation::Kernel(Kernel {
                infer: infer_all,
                cpu: |args, results| write_all(args, results, |line, results| {
                    write_lines(line, 0, false, results, 1, Middle { skip_nan: $skips })
                }),
                cuda: OnCuda::Own(|args, results| write_all(args, results, |line, results| {
                    on_cuda::write_one(line, 0, Pick::Middle { skips: $skips }, results)
                })),
            }),
            derivative: SHARED_ALL,
            samples: &["t(5)", "t(2, 3)", "t()"],
            reference: "np.sort(self.ravel())[(self.size - 1) // 2]",
            ..Operator::BASE
        };

        #[operator]
        pub static $along: Operator = Operator {
            name: concat!($name, ".dim"),
            variants: Variants::BOTH.union(Variants::OUT),
            signature: "(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
            doc: $along_doc,
            out: OUT_MEDIAN,
            dtypes: DTypes::REAL,
            batch_rule: BatchRule::Along(DIM),
            implementation: Implementation::Kernel(Kernel {
                infer: |args| infer_one(args, DIM, KEEPDIM),
                cpu: |args, results| write_one(args, DIM, results, Middle { skip_nan: $skips }),
                cuda: OnCuda::Own(|args, results| {
                    let dim = one_dim(args, DIM)?;
                    on_cuda::write_one(args.tensor(INPUT)?, dim, Pick::Middle { skips: $skips }, results)
                }),
            }),
            derivative: PLACED,
            samples: &["t(2, 3), 1", "t(2, 3), 0, True"],
            errors: &[
                ("t(0, 3), 0", "IndexError", "median(): Expected reduction dim 0 to have non-zero size."),
                ("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)"),
            ],
            ..Operator::BASE
        };
    )*};
}

medians! {
    MEDIAN MEDIAN_DIM "median" false
    "The median of all elements, the lower one of two; NaN if any element is.

    >>> torch.median(torch.tensor([3., 1., 2., 4.]))
    tensor(2.)"
    "The medians along `dim`, the lower ones of two, and their indices.

    >>> torch.median(torch.tensor([[3, 1, 2]]), dim=1)
    torch.return_types.median(
    values=tensor([2]),
    indices=tensor([2]))";
    NANMEDIAN NANMEDIAN_DIM "nanmedian" true
    "The median of the elements that are not NaN.

    >>> torch.nanmedian(torch.tensor([3., float('nan'), 2.]))
    tensor(2.)"
    "The medians along `dim` of the elements that are not NaN, and their indices.

    >>> torch.nanmedian(torch.tensor([[3., float('nan'), 2.]]), dim=1)
    torch.return_types.nanmedian(
    values=tensor([2.]),
    indices=tensor([2]))";
}

#[operator]
pub static MODE: Operator = Operator {
    name: "mode",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
    doc: "The most frequent element along `dim` (the smallest of several), and its last index.

    >>> torch.mode(torch.tensor([3, 1, 1, 2]))
    torch.return_types.mode(
    values=tensor(1),
    indices=tensor(2))",
    out: OUT_MODE,
    dtypes: ORDERED,
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Kernel(Kernel {
        infer: |args| infer_one(args, DIM, KEEPDIM),
        cpu: |args, results| write_one(args, DIM, results, Frequent),
        cuda: OnCuda::Own(|args, results| {
            on_cuda::write_one(args.tensor(INPUT)?, one_dim(args, DIM)?, Pick::Mode, results)
        }),
    }),
    derivative: PLACED,
    samples: &["t(5)", "i(3, 2, 6), 1", "t(2, 3), 0, True"],
    errors: &[("t(0)", "IndexError", "mode(): Expected reduction dim 0 to have non-zero size.")],
    ..Operator::BASE
};

const PLACED: Derivative = {
    use MODE::*;
    Derivative::Formulas(&[formula(INPUT, Saves::result(1), |d| {
        select_backward(d, d.grad(), d.result_of(1), d.int(DIM), d.flag(KEEPDIM))
    })])
};

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

/// The rank at index `0` of the sorted line, moved to the front.
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

/// The lower median; a NaN is the result unless NaN is skipped.
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

/// The longest run of equal elements; of several the smallest, and its last element. NaN equals nothing.
struct Frequent;

impl Arrange for Frequent {
    fn arrange<T: Sortable>(&self, line: &mut Line<T>) {
        introsort(line.ranks);
        let (mut best, mut longest, mut start) = (0, 0, 0);
        for i in 0..line.ranks.len() {
            let alone = line.element(line.ranks[i].place()).is_nan();
            if alone || !line.ranks[i].ties(line.ranks[start]) {
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

/// Values and indices of one element along a dimension.
fn infer_one(args: &Args, dim: Arg, keepdim: Arg) -> Result<Vec<TensorSpec>> {
    let (input, dim) = (args.tensor(KTHVALUE::INPUT)?, one_dim(args, dim)?);
    let mut sizes = input.sizes().clone();
    match sizes.get_mut(dim) {
        Some(0) => {
            // torch uses one name for both medians here.
            let name = if args.op.name == NANMEDIAN_DIM.name { "median" } else { args.op.python_name() };
            return Err(Error::index(format!("{name}(): Expected reduction dim {dim} to have non-zero size."))
                .shapes([input.sizes().as_slice()])
                .axis(dim));
        }
        Some(size) if args.bool(keepdim)? => *size = 1,
        Some(_) => drop(sizes.remove(dim)),
        None => {}
    }
    if args.op.name == KTHVALUE.name {
        let (k, size) = (args.int(KTHVALUE::K)? as isize, input.sizes().get(dim).copied().unwrap_or(1));
        if k < 1 || k > size {
            return Err(Error::runtime(format!("kthvalue(): selected number k out of range for dimension {dim}")));
        }
    }
    check_supported(args)?;
    Ok(vec![TensorSpec::new(&sizes, input.dtype(), input), TensorSpec::new(&sizes, DType::I64, input)])
}

fn check_supported(args: &Args) -> Result<()> {
    let dtype = args.tensor(KTHVALUE::INPUT)?.dtype();
    if args.op.dtypes.has(dtype) {
        return Ok(());
    }
    let kernel = match args.op.python_name() {
        // Over all elements; along a dimension it has another name.
        name if name.ends_with("median") && args.op.schema().params.len() == 1 => "median_cpu",
        name if name.ends_with("median") => "median_out",
        name => &format!("{name}_cpu"),
    };
    Err(Error::unsupported(kernel, dtype))
}

fn write_one(args: &Args, arg: Arg, results: &[Tensor], how: impl Arrange) -> Result<()> {
    write_lines(args.tensor(KTHVALUE::INPUT)?, one_dim(args, arg)?, false, results, 1, how)
}

fn infer_all(args: &Args) -> Result<Vec<TensorSpec>> {
    use MEDIAN::*;

    check_supported(args)?;
    Ok(vec![TensorSpec::new(&[], args.tensor(INPUT)?.dtype(), args.tensor(INPUT)?)])
}

/// The median of all elements, which `write` finds in a line; NaN for an empty tensor.
fn write_all(args: &Args, results: &[Tensor], write: impl FnOnce(&Tensor, &[Tensor]) -> Result<()>) -> Result<()> {
    let input = args.tensor(MEDIAN::INPUT)?;
    if input.numel() == 0 {
        return create::fill(&results[0], rushlight_core::Scalar::Float(f64::NAN));
    }
    let flat = crate::convert::contiguous(&input.detach())?;
    let layout = rushlight_core::Layout {
        offset: flat.layout().offset,
        ..rushlight_core::Layout::contiguous(&[input.numel() as isize])
    };
    let line = Tensor::view_of(&flat, layout);
    let place = create::empty(&[], DType::I64, input.device())?;
    write(&line, &[results[0].clone(), place])
}
