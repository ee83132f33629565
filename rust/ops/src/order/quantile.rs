//! Quantiles, out of sorting and interpolation.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Error, Result, Scalar};

use super::sort::SORT;
use crate::convert::to_vec;
use crate::derive::Derivative;
use crate::expr::Expr;
use crate::op;
use crate::row::{DTypes, Row, Run, Variants};
use crate::value::{Args, Ints, Output, Value};

/// Each function takes its fractions as a tensor or as one number.
macro_rules! quantiles {
    ($($row:ident $scalar:ident, $name:literal, $overload:literal, $nan:expr, $sentence:literal;)*) => {$(
        pub static $row: Row = Row {
            name: $name,
            variants: Variants::BOTH.and(Variants::OUT),
            signature: "(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
            doc: concat!($sentence, " at each fraction of `q`, along a new first dimension.\n\n    >>> torch.", $name,
                "(torch.tensor([1., 2., 3., 4.]), torch.tensor([0.25, 0.5]))\n    tensor([1.7500, 2.5000])"),
            dtypes: DTypes::FLOATS,
            run: Run::Compose(|args| quantile(args, args.tensor(1)?, $nan)),
            derivative: Derivative::Composed,
            samples: &["t(5), torch.tensor([0.2, 0.7], dtype=t(1).dtype)"],
            ..Row::BASE
        };

        pub static $scalar: Row = Row {
            name: $overload,
            variants: Variants::BOTH.and(Variants::OUT),
            signature: "(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
            doc: concat!($sentence, " at the fraction `q`.\n\n    >>> torch.", $name,
                "(torch.tensor([1., 2., 3., 4.]), 0.5)\n    tensor(2.5000)"),
            dtypes: DTypes::FLOATS,
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
            ..Row::BASE
        };
    )*};
}

quantiles! {
    QUANTILE QUANTILE_SCALAR, "quantile", "quantile.scalar", false, "The quantiles along `dim` (of all elements by default)";
    NANQUANTILE NANQUANTILE_SCALAR, "nanquantile", "nanquantile.scalar", true, "The quantiles of the elements that are not NaN";
}

fn quantile(args: &Args, q: &Tensor, skip_nan: bool) -> Result<Output> {
    let own = args.tensor(0)?;
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
    let interpolation = args.str(4)?;
    if !["linear", "lower", "higher", "midpoint", "nearest"].contains(&interpolation) {
        return Err(Error::runtime(format!(
            "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )));
    }
    let fractions = to_vec::<f64>(q)?;
    if fractions.iter().any(|fraction| !(0.0..=1.0).contains(fraction)) {
        return Err(Error::runtime("quantile() q values must be in the range [0, 1]"));
    }
    // The dimension goes last, everything else before it.
    let keepdim = args.bool(3)?;
    let (lines, kept) = match args.optional_int(2) {
        None => (op!(crate::view::RESHAPE, own, Value::Ints(Ints::from_slice(&[-1])))?, vec![1isize; if keepdim { own.rank() } else { 0 }]),
        Some(_) => {
            let dim = crate::reduce::one_dim(args, 2)?;
            if own.rank() == 0 {
                (op!(crate::view::RESHAPE, own, Value::Ints(Ints::from_slice(&[-1])))?, Vec::new())
            } else {
                let mut kept = own.sizes().to_vec();
                if keepdim { kept[dim] = 1 } else { drop(kept.remove(dim)) }
                (op!(crate::view::transpose::MOVEDIM, own, Value::Ints(Ints::from_slice(&[dim as i64])), Value::Ints(Ints::from_slice(&[-1])))?, kept)
            }
        }
    };
    let sorted = SORT.call([(&lines).into(), (-1i64).into(), false.into()])?.into_tensors();
    let sorted = sorted.into_iter().next().ok_or_else(|| Error::runtime("sort gave no result"))?;
    let size = lines.sizes()[lines.rank() - 1] as f64;
    let nan = Expr::from(&sorted.detach()).call(&crate::pointwise::compare::ISNAN, []).done()?;
    let wide = |tensor: &Tensor| crate::convert::to_dtype(tensor, DType::F64);
    let total = |mask: Tensor| Expr::from(mask).call(&crate::reduce::sum::SUM_DIM, [Ints::from_slice(&[-1]).into(), true.into()]);
    // How many elements of each line are not NaN.
    let real = total(op!(crate::pointwise::logical::LOGICAL_NOT, &nan)?);
    let mut results = Vec::new();
    for fraction in &fractions {
        // The place among a line's elements, which need not be whole; where NaN counts, it stands last and is taken.
        let rank = if skip_nan {
            let last = Expr::new(wide(&real.clone().done()?)) - 1.0;
            last.call(&crate::pointwise::clamp::CLAMP, [Value::Scalar(Scalar::Float(0.0))]) * *fraction
        } else {
            let places = Expr::new(wide(&real.clone().done()?)).zeros_like() + fraction * (size - 1.0);
            real.clone().below(size).choose(size - 1.0, places)
        };
        let rank = wide(&rank.done()?)?;
        let rounded = |row: &'static Row| -> Result<Tensor> {
            let whole = row.tensor([(&rank).into()])?;
            crate::convert::to_dtype(&whole, DType::I64)
        };
        let pick = |place: &Tensor| op!(crate::index::gather::GATHER, &sorted, -1i64, place);
        use crate::pointwise::round::{CEIL, FLOOR, ROUND};
        let value = match interpolation {
            "lower" => pick(&rounded(&FLOOR)?)?,
            "higher" => pick(&rounded(&CEIL)?)?,
            "nearest" => pick(&rounded(&ROUND)?)?,
            _ => {
                let (below, above) = (pick(&rounded(&FLOOR)?)?, pick(&rounded(&CEIL)?)?);
                let share = if interpolation == "midpoint" {
                    Expr::from(0.5)
                } else {
                    Expr::new(crate::convert::to_dtype(&(Expr::from(&rank) - crate::op!(FLOOR, &rank)?).done()?, own.dtype()))
                };
                (Expr::from(&below) + share * (Expr::from(above) - &below)).done()?
            }
        };
        results.push(crate::view::RESHAPE.tensor([(&value).into(), crate::view::reshape::sizes_value(&kept)])?);
    }
    if q.rank() == 0 {
        return Ok(results.pop().map_or(Output::Nothing, Output::Tensor));
    }
    crate::join::STACK.tensor([Value::from(results), 0i64.into()]).map(Output::Tensor)
}
