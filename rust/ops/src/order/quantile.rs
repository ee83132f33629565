//! Quantiles, by sorting and interpolation.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Device, Error, Result, Scalar};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Accepts, Args, Autocast, DTypes, Derivative, Implementation, Operator, Out, Variants, operator,
};
use rushlight_dispatch::value::{Ints, Output, Value, sizes_value};
use rushlight_dispatch::{create, handled, op, vmap};

use super::sort::SORT;
use crate::convert::to_vec;
use crate::create::c_text;
use crate::expr_ext::ExprExt;
use crate::index::gather::GATHER;
use crate::pointwise::clamp::CLAMP;
use crate::pointwise::compare::ISNAN;
use crate::pointwise::logical::LOGICAL_NOT;
use crate::pointwise::round::{CEIL, FLOOR, ROUND};
use crate::pointwise::ternary::LERP;
use crate::reduce::sum::SUM_DIM;
use crate::view::RESHAPE;
use crate::view::transpose::MOVEDIM;

/// Each function takes its fractions as a tensor or as one number.
macro_rules! quantiles {
    ($($op:ident $scalar:ident, $name:literal, $overload:literal, $nan:expr, $sentence:literal;)*) => {$(
        #[operator]
        pub static $op: Operator = Operator {
            name: $name,
            autocast: Autocast::Fp32.on_cpu_alone(),
            variants: Variants::BOTH.union(Variants::OUT),
            signature: "(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
            doc: concat!($sentence, " at each fraction of `q`, along a new first dimension.\n\n    >>> torch.", $name,
                "(torch.tensor([1., 2., 3., 4.]), torch.tensor([0.25, 0.5]))\n    tensor([1.7500, 2.5000])"),
            out: Out::new(Accepts::Same, &["quantile() out tensor must be same dtype as the input tensor"]),
            dtypes: DTypes::of(&[DType::F32, DType::F64]),
            implementation: Implementation::CompositeImplicit(|args| quantile(args, args.tensor(Q)?, $nan)),
            derivative: Derivative::CompositeImplicit,
            samples: &["t(5), torch.tensor([0.2, 0.7], dtype=t(1).dtype)"],
            reference: concat!("np.", $name, "(self, q, axis=dim, keepdims=keepdim, method=interpolation)"),
            ..Operator::BASE
        };

        #[operator]
        pub static $scalar: Operator = Operator {
            name: $overload,
            autocast: Autocast::Fp32.on_cpu_alone(),
            variants: Variants::BOTH.union(Variants::OUT),
            signature: "(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
            doc: concat!($sentence, " at the fraction `q`.\n\n    >>> torch.", $name,
                "(torch.tensor([1., 2., 3., 4.]), 0.5)\n    tensor(2.5000)"),
            out: Out::new(Accepts::Same, &["quantile() out tensor must be same dtype as the input tensor"]),
            dtypes: DTypes::of(&[DType::F32, DType::F64]),
            implementation: Implementation::CompositeImplicit(|args| {
                let input = args.tensor(INPUT)?;
                let fraction = args.float(Q)?;
                if !(0.0..=1.0).contains(&fraction) {
                    return Err(Error::runtime(format!("quantile() q must be in the range [0, 1] but got {}", c_text(fraction))));
                }
                let dtype = if input.dtype().is_floating() { input.dtype() } else { DType::F32 };
                quantile(args, &create::scalar_of(Scalar::Float(fraction), dtype, input.device())?, $nan)
            }),
            derivative: Derivative::CompositeImplicit,
            samples: &["t(5), 0.5", "t(2, 3), 0.3, 1, True"],
            errors: &[("t(3), 2.", "RuntimeError", "quantile() q must be in the range [0, 1] but got 2")],
            reference: concat!("np.", $name, "(self, q, axis=dim, keepdims=keepdim, method=interpolation)"),
            ..Operator::BASE
        };
    )*};
}

quantiles! {
    QUANTILE QUANTILE_SCALAR, "quantile", "quantile.scalar", false, "The quantiles along `dim` (of all elements by default)";
    NANQUANTILE NANQUANTILE_SCALAR, "nanquantile", "nanquantile.scalar", true, "The quantiles of the elements that are not NaN";
}

const INTERPOLATIONS: [&str; 5] = ["linear", "lower", "higher", "midpoint", "nearest"];

fn check(input: &Tensor, q: &Tensor, interpolation: &str) -> Result<()> {
    if input.numel() == 0 {
        return Err(Error::runtime("quantile() input tensor must be non-empty"));
    }
    if !matches!(input.dtype(), DType::F32 | DType::F64) {
        return Err(Error::runtime("quantile() input tensor must be either float or double dtype"));
    }
    if q.rank() > 1 {
        return Err(Error::runtime("quantile() q must be a scalar or 1D tensor"));
    }
    if q.dtype() != input.dtype() {
        return Err(Error::runtime("quantile() q tensor must be same dtype as the input tensor"));
    }
    if !INTERPOLATIONS.contains(&interpolation) {
        return Err(Error::runtime(format!(
            "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )));
    }
    if q.device() == Device::Cpu
        && to_vec::<f64>(&vmap::samples(q)?)?.iter().any(|fraction| !(0.0..=1.0).contains(fraction))
    {
        return Err(Error::runtime("quantile() q values must be in the range [0, 1]"));
    }
    Ok(())
}

/// One line of elements for each result, in the last dimension, and the sizes of the results.
fn lines(args: &Args) -> Result<(Tensor, Vec<isize>)> {
    use QUANTILE::*;

    let (input, keepdim) = (args.tensor(INPUT)?, args.bool(KEEPDIM)?);
    let flat = || op!(RESHAPE, input, Ints::from_slice(&[-1]));
    if args.optional_int(DIM).is_none() {
        return Ok((flat()?, vec![1; if keepdim { input.rank() } else { 0 }]));
    }
    let dim = crate::reduce::one_dim(args, DIM)?;
    if input.rank() == 0 {
        return Ok((flat()?, Vec::new()));
    }
    let mut kept = input.sizes().to_vec();
    if keepdim {
        kept[dim] = 1;
    } else {
        kept.remove(dim);
    }
    Ok((op!(MOVEDIM, input, Ints::from_slice(&[dim as i64]), Ints::from_slice(&[-1]))?, kept))
}

/// The positions among each sorted line's elements, which may be fractional. NaN sorts last; unless it is skipped, it
/// is the result.
fn ranks(sorted: &Tensor, fractions: &Tensor, skip_nan: bool) -> Result<Tensor> {
    let size = sorted.sizes()[sorted.rank() - 1] as f64;
    let real = Expr::new(handled::detach(sorted)).call(&ISNAN, []).call(&LOGICAL_NOT, []);
    let count = real.call(&SUM_DIM, [Ints::from_slice(&[-1]).into(), true.into()]);
    let count = Expr::new(crate::convert::to_dtype(&count.done()?, sorted.dtype()));
    if skip_nan {
        return ((count - 1.0) * fractions).call(&CLAMP, [Value::Scalar(Scalar::Float(0.0))]).done();
    }
    count.below(size).choose(size - 1.0, Expr::from(fractions) * (size - 1.0)).done()
}

/// The elements at `ranks`, interpolated between two of them if necessary.
fn picked(sorted: &Tensor, ranks: &Tensor, interpolation: &str) -> Result<Tensor> {
    let at = |rounded: Result<Tensor>| {
        op!(GATHER, sorted, -1i64, &crate::convert::to_dtype(&handled::detach(&rounded?)?, DType::I64)?)
    };
    match interpolation {
        "lower" => at(op!(FLOOR, ranks)),
        "higher" => at(op!(CEIL, ranks)),
        "nearest" => at(op!(ROUND, ranks)),
        _ => {
            let (below, above) = (at(op!(FLOOR, ranks))?, at(op!(CEIL, ranks))?);
            if interpolation == "midpoint" {
                return op!(LERP, below, above, Scalar::Float(0.5));
            }
            op!(LERP, below, above, (Expr::from(ranks) - handled::detach(&op!(FLOOR, ranks)?)?).done()?)
        }
    }
}

fn quantile(args: &Args, q: &Tensor, skip_nan: bool) -> Result<Output> {
    use QUANTILE::*;

    let interpolation = args.str(INTERPOLATION)?;
    check(args.tensor(INPUT)?, q, interpolation)?;
    let (lines, mut kept) = lines(args)?;
    let sorted = SORT.call([(&lines).into(), (-1i64).into(), false.into()])?.into_tensors();
    let sorted = sorted.into_iter().next().ok_or_else(|| Error::runtime("sort gave no result"))?;
    let fractions = op!(RESHAPE, q, Ints::from_slice(&[-1]))?;
    let value = picked(&sorted, &ranks(&sorted, &fractions, skip_nan)?, interpolation)?;
    // The dimension of the fractions comes first, or is removed.
    if q.rank() == 0 {
        return RESHAPE.tensor([(&value).into(), sizes_value(&kept)]).map(Output::Tensor);
    }
    kept.push(q.numel() as isize);
    let last = RESHAPE.tensor([(&value).into(), sizes_value(&kept)])?;
    op!(MOVEDIM, &last, Ints::from_slice(&[-1]), Ints::from_slice(&[0])).map(Output::Tensor)
}
