//! Quantiles, out of sorting and interpolation.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Device, Error, Result, Scalar};

use super::sort::SORT;
use crate::autocast::Autocast;
use crate::convert::to_vec;
use crate::derive::Derivative;
use crate::expr::Expr;
use crate::index::gather::GATHER;
use crate::op;
use crate::pointwise::clamp::CLAMP;
use crate::pointwise::compare::ISNAN;
use crate::pointwise::logical::LOGICAL_NOT;
use crate::pointwise::round::{CEIL, FLOOR, ROUND};
use crate::reduce::sum::SUM_DIM;
use crate::row::{Accepts, DTypes, Out, Row, Run, Variants};
use crate::value::{Args, Ints, Output, Value};
use crate::view::RESHAPE;
use crate::view::reshape::sizes_value;
use crate::view::transpose::MOVEDIM;

/// Each function takes its fractions as a tensor or as one number.
macro_rules! quantiles {
    ($($row:ident $scalar:ident, $name:literal, $overload:literal, $nan:expr, $sentence:literal;)*) => {$(
        pub static $row: Row = Row {
            name: $name,
            autocast: Autocast::Single,
            variants: Variants::BOTH.union(Variants::OUT),
            signature: "(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
            doc: concat!($sentence, " at each fraction of `q`, along a new first dimension.\n\n    >>> torch.", $name,
                "(torch.tensor([1., 2., 3., 4.]), torch.tensor([0.25, 0.5]))\n    tensor([1.7500, 2.5000])"),
            out: Out::new(Accepts::Same, &["quantile() out tensor must be same dtype as the input tensor"]),
            dtypes: DTypes::of(&[DType::F32, DType::F64]),
            run: Run::Compose(|args| quantile(args, args.tensor(1)?, $nan)),
            derivative: Derivative::Composed,
            samples: &["t(5), torch.tensor([0.2, 0.7], dtype=t(1).dtype)"],
            reference: concat!("np.", $name, "(self, q, axis=dim, keepdims=keepdim, method=interpolation)"),
            ..Row::BASE
        };

        pub static $scalar: Row = Row {
            name: $overload,
            autocast: Autocast::Single,
            variants: Variants::BOTH.union(Variants::OUT),
            signature: "(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
            doc: concat!($sentence, " at the fraction `q`.\n\n    >>> torch.", $name,
                "(torch.tensor([1., 2., 3., 4.]), 0.5)\n    tensor(2.5000)"),
            out: Out::new(Accepts::Same, &["quantile() out tensor must be same dtype as the input tensor"]),
            dtypes: DTypes::of(&[DType::F32, DType::F64]),
            run: Run::Compose(|args| {
                let own = args.tensor(0)?;
                let fraction = args.float(1)?;
                if !(0.0..=1.0).contains(&fraction) {
                    return Err(Error::runtime(format!("quantile() q must be in the range [0, 1] but got {fraction}")));
                }
                let dtype = if own.dtype().is_floating() { own.dtype() } else { DType::F32 };
                quantile(args, &crate::create::scalar_of(Scalar::Float(fraction), dtype, own.device())?, $nan)
            }),
            derivative: Derivative::Composed,
            samples: &["t(5), 0.5", "t(2, 3), 0.3, 1, True"],
            errors: &[("t(3), 2.", "RuntimeError", "quantile() q must be in the range [0, 1] but got 2")],
            reference: concat!("np.", $name, "(self, q, axis=dim, keepdims=keepdim, method=interpolation)"),
            ..Row::BASE
        };
    )*};
}

quantiles! {
    QUANTILE QUANTILE_SCALAR, "quantile", "quantile.scalar", false, "The quantiles along `dim` (of all elements by default)";
    NANQUANTILE NANQUANTILE_SCALAR, "nanquantile", "nanquantile.scalar", true, "The quantiles of the elements that are not NaN";
}

const INTERPOLATIONS: [&str; 5] = ["linear", "lower", "higher", "midpoint", "nearest"];

fn check(own: &Tensor, q: &Tensor, interpolation: &str) -> Result<()> {
    if own.numel() == 0 {
        return Err(Error::runtime("quantile() input tensor must be non-empty"));
    }
    if !matches!(own.dtype(), DType::F32 | DType::F64) {
        return Err(Error::runtime("quantile() input tensor must be either float or double dtype"));
    }
    if q.rank() > 1 {
        return Err(Error::runtime("quantile() q must be a scalar or 1D tensor"));
    }
    if q.dtype() != own.dtype() {
        return Err(Error::runtime("quantile() q tensor must be same dtype as the input tensor"));
    }
    if !INTERPOLATIONS.contains(&interpolation) {
        return Err(Error::runtime(format!(
            "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )));
    }
    if q.device() == Device::Cpu
        && to_vec::<f64>(&crate::mapped::samples(q))?.iter().any(|fraction| !(0.0..=1.0).contains(fraction))
    {
        return Err(Error::runtime("quantile() q values must be in the range [0, 1]"));
    }
    Ok(())
}

/// One line of elements for each result, in the last dimension, and the sizes of the results.
fn lines(args: &Args) -> Result<(Tensor, Vec<isize>)> {
    let (own, keepdim) = (args.tensor(0)?, args.bool(3)?);
    let flat = || op!(RESHAPE, own, Ints::from_slice(&[-1]));
    if args.optional_int(2).is_none() {
        return Ok((flat()?, vec![1; if keepdim { own.rank() } else { 0 }]));
    }
    let dim = crate::reduce::one_dim(args, 2)?;
    if own.rank() == 0 {
        return Ok((flat()?, Vec::new()));
    }
    let mut kept = own.sizes().to_vec();
    if keepdim {
        kept[dim] = 1;
    } else {
        kept.remove(dim);
    }
    Ok((op!(MOVEDIM, own, Ints::from_slice(&[dim as i64]), Ints::from_slice(&[-1]))?, kept))
}

/// The places among each sorted line's elements, which need not be whole. A NaN stands last: where it counts, it is taken.
fn ranks(sorted: &Tensor, fractions: &Tensor, skip_nan: bool) -> Result<Tensor> {
    let size = sorted.sizes()[sorted.rank() - 1] as f64;
    let real = Expr::from(&sorted.detach()).call(&ISNAN, []).call(&LOGICAL_NOT, []);
    let count = real.call(&SUM_DIM, [Ints::from_slice(&[-1]).into(), true.into()]);
    let count = Expr::new(crate::convert::to_dtype(&count.done()?, sorted.dtype()));
    if skip_nan {
        return ((count - 1.0) * fractions).call(&CLAMP, [Value::Scalar(Scalar::Float(0.0))]).done();
    }
    count.below(size).choose(size - 1.0, Expr::from(fractions) * (size - 1.0)).done()
}

/// The elements at `ranks`, or what lies between two of them.
fn picked(sorted: &Tensor, ranks: &Tensor, interpolation: &str) -> Result<Tensor> {
    let at = |rounded: Result<Tensor>| {
        op!(GATHER, sorted, -1i64, &crate::convert::to_dtype(&rounded?.detach(), DType::I64)?)
    };
    match interpolation {
        "lower" => at(op!(FLOOR, ranks)),
        "higher" => at(op!(CEIL, ranks)),
        "nearest" => at(op!(ROUND, ranks)),
        _ => {
            let (below, above) = (at(op!(FLOOR, ranks))?, at(op!(CEIL, ranks))?);
            let half = interpolation == "midpoint";
            let share = if half { Expr::from(0.5) } else { Expr::from(ranks) - op!(FLOOR, ranks)?.detach() };
            (Expr::from(&below) + share * (Expr::from(above) - &below)).done()
        }
    }
}

fn quantile(args: &Args, q: &Tensor, skip_nan: bool) -> Result<Output> {
    let interpolation = args.str(4)?;
    check(args.tensor(0)?, q, interpolation)?;
    let (lines, mut kept) = lines(args)?;
    let sorted = SORT.call([(&lines).into(), (-1i64).into(), false.into()])?.into_tensors();
    let sorted = sorted.into_iter().next().ok_or_else(|| Error::runtime("sort gave no result"))?;
    let fractions = op!(RESHAPE, q, Ints::from_slice(&[-1]))?;
    let value = picked(&sorted, &ranks(&sorted, &fractions, skip_nan)?, interpolation)?;
    // The fractions go first, or away.
    if q.rank() == 0 {
        return RESHAPE.tensor([(&value).into(), sizes_value(&kept)]).map(Output::Tensor);
    }
    let first = op!(MOVEDIM, &value, Ints::from_slice(&[-1]), Ints::from_slice(&[0]))?;
    kept.insert(0, q.numel() as isize);
    RESHAPE.tensor([(&first).into(), sizes_value(&kept)]).map(Output::Tensor)
}
