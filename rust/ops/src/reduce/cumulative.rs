//! Running sums, products and extremes along a dimension.

#![allow(clippy::useless_conversion, reason = "expressions are pasted into loops of several types")]

use rushlight_autograd::Tensor;
use rushlight_core::dtype::{c64, c128};
use rushlight_core::{Bool, DType, Device, Error, Result, Scalar, dispatch};

use rushlight_cpu::reduce::cumulative::{scan, scan_best};
use rushlight_cpu::reduce::{Extreme, Towards};
use rushlight_simd::{Base, Isa};

use super::put_back::{ORDERED, spread};
use crate::autocast::Autocast;
use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::mapped::Mapped;
use crate::op;
use crate::operands::{lines, plain, settle, workplace};
use crate::row::{Accepts, DTypes, Kernel, Out, Row, Run, Spec, Variants};
use crate::value::{Args, Output, Value};

pub static CUMSUM: Row = Row {
    name: "cumsum",
    variants: Variants::ALL,
    signature: "(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
    doc: "The running sums along `dim`; integers and bool add up in int64.

    >>> torch.cumsum(torch.tensor([1, 2, 3]), dim=0)
    tensor([1, 3, 6])",
    out: Out::ASKED,
    mapped: Mapped::Along(1),
    run: Run::Kernel(Kernel { infer, cpu: |args, results| sums(args, &results[0]) }),
    refuses: "cumsum_out_cpu",
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| {
        let dim = d.int(1);
        along(d.grad(), dim, |grad, axis| flipped(&op!(CUMSUM, &flipped(grad, axis)?, axis)?, axis))
    })]),
    samples: &["t(2, 3), 1", "t(2, 3, 4), 1", "t(3, 2).t(), 0", "t(), 0"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    reference: "np.cumsum(self, axis=dim).reshape(self.shape)",
    ..Row::BASE
};

pub static CUMPROD: Row = Row {
    name: "cumprod",
    variants: Variants::ALL,
    signature: "(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
    doc: "The running products along `dim`; integers and bool multiply in int64.

    >>> torch.cumprod(torch.tensor([1, 2, 3]), dim=0)
    tensor([1, 2, 6])",
    out: Out::ASKED,
    mapped: Mapped::Along(1),
    run: Run::Kernel(Kernel { infer, cpu: |args, results| products(args, &results[0]) }),
    refuses: "cumprod_out_cpu",
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        let grad = d.grad();
        let dim = d.int(1);
        along(d.input(0), dim, |own, axis| {
            // Each element multiplies what stands before it and, through the running products, all that follows.
            let own = op!(crate::pointwise::complex::CONJ_AT_ONCE, own)?;
            let turned = [flipped(&as_line(grad.clone())?, axis)?, flipped(&shifted(&own, axis, false)?, axis)?];
            let after = flipped(&op!(RECURRENCE, &turned[0], &turned[1], axis)?, axis)?;
            (Expr::from(after) * product_before(&own, axis)?).done()
        })
    })]),
    samples: &["t(2, 3), 1", "t(2, 3, 4), 1", "t(3, 2).t(), 0", "t(), 0"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    reference: "np.cumprod(self, axis=dim).reshape(self.shape)",
    ..Row::BASE
};

/// `out[k] = self[k] + factor[k] * out[k - 1]`: what gradients of products are made of, without a division.
pub static RECURRENCE: Row = Row {
    name: "_linear_recurrence",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor factor, int dim) -> Tensor",
    doc: "Along `dim`, each result is an element plus a factor times the result before it.

    >>> torch._linear_recurrence(torch.tensor([1., 1.]), torch.tensor([9., 3.]), 0)
    tensor([1., 4.])",
    dtypes: DTypes::INEXACT,
    autocast: Autocast::Widest,
    mapped: Mapped::Along(2),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let (own, factor) = (args.tensor(0)?, args.tensor(1)?);
            if own.sizes() != factor.sizes() {
                return Err(Error::runtime("a recurrence needs a factor for each element")
                    .shapes([own.sizes().as_slice(), factor.sizes().as_slice()]));
            }
            Ok(vec![Spec::new(own.sizes(), own.dtype(), own)])
        },
        cpu: |args, results| recurrence(args, &results[0]),
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1), back),
        formula(1, Saves::input(1).union(Saves::RESULT), |d| {
            let before = along(d.result(), d.int(2), |result, axis| shifted(result, axis, true));
            back(d) * before.conj()
        }),
    ]),
    samples: &["t(2, 3), t(2, 3), 1", "t(2, 3), t(2, 3), 0"],
    ..Row::BASE
};

pub static CUMMAX: Row = Row {
    name: "cummax",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int dim) -> (Tensor values, Tensor indices)",
    doc: "The largest element so far along `dim`, and where it stands (the last of equals).

    >>> torch.cummax(torch.tensor([1., 3., 2.]), dim=0)
    torch.return_types.cummax(
    values=tensor([1., 3., 3.]),
    indices=tensor([0, 1, 1]))",
    out: Out::new(Accepts::Same, &["expected scalar_type {Result} but found {Out}"]),
    dtypes: ORDERED,
    mapped: Mapped::Along(1),
    run: Run::Kernel(Kernel { infer: infer_best, cpu: |args, results| best(args, results, true) }),
    derivative: BEST,
    samples: &["t(2, 3), 1", "t(2, 3, 4), 1", "t(), 0"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    ..Row::BASE
};

pub static CUMMIN: Row = Row {
    name: "cummin",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int dim) -> (Tensor values, Tensor indices)",
    doc: "The smallest element so far along `dim`, and where it stands (the last of equals).

    >>> torch.cummin(torch.tensor([3., 1., 2.]), dim=0)
    torch.return_types.cummin(
    values=tensor([3., 1., 1.]),
    indices=tensor([0, 1, 1]))",
    out: Out::new(Accepts::Same, &["expected scalar_type {Result} but found {Out}"]),
    dtypes: ORDERED,
    mapped: Mapped::Along(1),
    run: Run::Kernel(Kernel { infer: infer_best, cpu: |args, results| best(args, results, false) }),
    derivative: BEST,
    samples: &["t(2, 3), 1", "t(2, 3, 4), 1", "t(), 0"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    ..Row::BASE
};

pub static LOGCUMSUMEXP: Row = Row {
    name: "logcumsumexp",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int dim) -> Tensor",
    doc: "The logarithms of the running sums of exponentials along `dim`.

    >>> torch.logcumsumexp(torch.tensor([0., 0., 0.]), dim=0)
    tensor([0.0000, 0.6931, 1.0986])",
    out: Out::new(Accepts::Same, &["expected scalar_type {Result} but found {Out}"]),
    dtypes: DTypes::INEXACT,
    mapped: Mapped::Along(1),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let own = args.tensor(0)?;
            super::one_dim(args, 1)?;
            if !own.dtype().is_differentiable() {
                return Err(Error::unsupported("logcumsumexp_out_cpu", own.dtype()));
            }
            Ok(vec![Spec::new(own.sizes(), own.dtype(), own)])
        },
        cpu: |args, results| log_sums(args, &results[0]),
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0).union(Saves::RESULT), |d| {
        if d.rank(0) == 0 {
            return d.grad();
        }
        // sum over i >= k of g[i] exp(x[k] - y[i]), in logarithms: for positive and negative g apart, where they are real.
        let running = |logs: Expr| {
            along(logs, d.int(1), |logs, axis| flipped(&op!(LOGCUMSUMEXP, &flipped(logs, axis)?, axis)?, axis))
        };
        if d.facts(0).is_some_and(|facts| facts.dtype.is_complex()) {
            let logs = d.grad().equals(0.0).choose(f64::from(f32::MIN), d.grad().log()) - d.result().conj();
            return (running(logs) + d.input(0).conj()).exp();
        }
        let lowest = -d.facts(0).and_then(|facts| facts.dtype.greatest()).unwrap_or(f64::MAX);
        let side = |sign: f64| {
            let grad = d.grad() * sign;
            let logs = grad.clone().above(0i64).choose(grad.log(), lowest) - d.result();
            (running(logs) + d.input(0)).exp()
        };
        side(1.0) - side(-1.0)
    })]),
    samples: &["unit(2, 3), 1", "unit(2, 3, 4), 1", "t(), 0"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    reference: "np.log(np.cumsum(np.exp(self), axis=dim)).reshape(self.shape)",
    ..Row::BASE
};

pub static DIFF: Row = Row {
    name: "diff",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
    doc: "The differences of neighbours along `dim`, `n` times over.

    >>> torch.diff(torch.tensor([1, 3, 2]))
    tensor([ 2, -1])",
    out: Out::new(
        Accepts::CastIf(|args| args.int(1).is_ok_and(|n| n > 0)),
        &["expected scalar_type {Result} but found {Out}"],
    )
    .apart(),
    run: Run::Compose(|args| {
        let own = args.tensor(0)?;
        if own.rank() == 0 {
            return Err(Error::runtime("diff expects input to be at least one-dimensional"));
        }
        let n = args.int(1)?;
        if n < 0 {
            return Err(Error::runtime(format!("order must be non-negative but got {n}")));
        }
        let axis = super::one_dim(args, 2)?;
        if n == 0 {
            return op!(crate::convert::CLONE, own).map(Output::Tensor);
        }
        let mut joined = own.clone();
        if args.has(3) || args.has(4) {
            let parts = [args.optional_tensor(3), Some(own), args.optional_tensor(4)].into_iter().flatten().cloned();
            joined = crate::join::CAT.tensor([Value::from(parts.collect::<Vec<_>>()), axis.into()])?;
        }
        let mut times = n.min(joined.sizes()[axis] as i64) as isize;
        if joined.device() == Device::Meta && times > 1 {
            // Without elements there is nothing to subtract: the sizes alone say what comes out.
            let size = joined.sizes()[axis];
            joined = crate::view::narrow::sliced(&joined, axis, 0, size - (times - 1), 1)?;
            times = 1;
        }
        for _ in 0..times {
            let size = joined.sizes()[axis];
            let later = crate::view::narrow::sliced(&joined, axis, 1, size - 1, 1)?;
            let earlier = crate::view::narrow::sliced(&joined, axis, 0, size - 1, 1)?;
            joined = if joined.dtype() == DType::Bool {
                op!(crate::pointwise::logical::LOGICAL_XOR, &later, &earlier)?
            } else {
                op!(crate::pointwise::arith::SUB, &later, &earlier)?
            };
        }
        Ok(Output::Tensor(joined))
    }),
    derivative: Derivative::Composed,
    samples: &["t(4)", "t(2, 4), 2", "t(3, 4), 1, 0", "t(3), prepend=t(1), append=t(2)"],
    errors: &[("t()", "RuntimeError", "diff expects input to be at least one-dimensional")],
    reference: "np.diff(self, n, dim, **{key: x for key, x in (('prepend', prepend), ('append', append)) if x is not None}) if self.dtype != bool else None",
    ..Row::BASE
};

const BEST: Derivative =
    Derivative::Formulas(&[formula(0, Saves::result(1), |d| spread(d, d.grad(), d.result_of(1), d.int(1)))]);

/// Works on a tensor along a dimension that may be negative; a 0-d tensor counts as one-dimensional.
fn along(value: Expr, dim: i64, work: impl Fn(&Tensor, usize) -> Result<Tensor>) -> Expr {
    let tensor = match value.done() {
        Ok(tensor) => tensor,
        Err(error) => return Expr::failed(error),
    };
    Expr::new(rushlight_core::layout::wrap_dim(dim, tensor.rank()).and_then(|axis| {
        if tensor.rank() > 0 {
            return work(&tensor, axis);
        }
        op!(crate::view::squeeze::SQUEEZE, &work(&as_line(Expr::from(&tensor))?, axis)?)
    }))
}

/// A 0-d tensor as one of one dimension.
fn as_line(value: Expr) -> Result<Tensor> {
    let tensor = value.done()?;
    if tensor.rank() > 0 { Ok(tensor) } else { op!(crate::view::squeeze::UNSQUEEZE, &tensor, 0i64) }
}

/// The reverse view along a dimension.
pub fn flipped(tensor: &Tensor, axis: usize) -> Result<Tensor> {
    let size = tensor.sizes()[axis];
    crate::view::narrow::sliced(tensor, axis, (size - 1).max(0), size, -1)
}

/// The elements one place later (zero comes in), or one place earlier.
fn shifted(tensor: &Tensor, axis: usize, later: bool) -> Result<Tensor> {
    let size = tensor.sizes()[axis];
    if size == 0 {
        return Ok(tensor.clone());
    }
    let rest = crate::view::narrow::sliced(tensor, axis, isize::from(!later), size - 1, 1)?;
    let mut sizes = tensor.sizes().clone();
    sizes[axis] = 1;
    let zero = crate::create::zeros(&sizes, tensor.dtype(), tensor.device())?;
    let parts = if later { vec![zero, rest] } else { vec![rest, zero] };
    crate::join::CAT.tensor([Value::from(parts), axis.into()])
}

/// The product of all elements before each.
pub fn product_before(tensor: &Tensor, axis: usize) -> Result<Tensor> {
    let size = tensor.sizes()[axis];
    if size == 0 {
        return Ok(tensor.clone());
    }
    let mut sizes = tensor.sizes().clone();
    sizes[axis] = 1;
    let one = crate::create::full(&sizes, Scalar::ONE, tensor.dtype(), tensor.device())?;
    let rest = op!(CUMPROD, &crate::view::narrow::sliced(tensor, axis, 0, size - 1, 1)?, axis)?;
    crate::join::CAT.tensor([Value::from(vec![one, rest]), axis.into()])
}

/// The recurrence's gradient: the same recurrence from the other end, with the factors one place on.
fn back(d: &Derive) -> Expr {
    let grad = d.grad();
    along(d.input(1), d.int(2), |factor, axis| {
        let factor = op!(crate::pointwise::complex::CONJ_AT_ONCE, &shifted(factor, axis, false)?)?;
        let turned = flipped(&as_line(grad.clone())?, axis)?;
        flipped(&op!(RECURRENCE, &turned, &flipped(&factor, axis)?, axis)?, axis)
    })
}

fn infer(args: &Args) -> Result<Vec<Spec>> {
    let own = args.tensor(0)?;
    super::one_dim(args, 1)?;
    Ok(vec![Spec::new(own.sizes(), super::sum::result_dtype(args, 2)?, own)])
}

fn infer_best(args: &Args) -> Result<Vec<Spec>> {
    let own = args.tensor(0)?;
    super::one_dim(args, 1)?;
    if !args.row.dtypes.has(own.dtype()) {
        return Err(crate::call::not_implemented(args.row, own.dtype()));
    }
    Ok(vec![Spec::new(own.sizes(), own.dtype(), own), Spec::new(own.sizes(), DType::I64, own)])
}

/// Runs a scan over the first argument in a result's compute dtype: `$state` is what each element is taken into.
macro_rules! scanned {
    ($args:ident, $result:ident, $dim:expr, [$($t:ty => $state:ty),*], $start:expr, $take:expr, $give:expr) => {{
        let own = $args.tensor(0)?;
        let compute = $result.dtype().compute();
        let lines = lines(own, super::one_dim($args, $dim)?);
        let (source, place) = (plain(own, compute)?, workplace($result, compute)?);
        let (from, to) = (source.storage().pin()?, place.storage().pin()?);
        let offset = source.layout().offset;
        $(if compute == <$t as rushlight_core::Element>::DTYPE {
            #[allow(dead_code)]
            type T = $t;
            type A = $state;
            let start: A = $start;
            // SAFETY: both are contiguous, of one shape and of the compute dtype.
            unsafe {
                scan(lines, to.as_ptr().cast::<T>(), from.as_ptr().cast::<T>().offset(offset), start, $take, $give);
            }
            return settle(&place, $result);
        })*
        Err(crate::call::not_implemented($args.row, compute))
    }};
}

fn sums(args: &Args, result: &Tensor) -> Result<()> {
    if result.dtype().is_differentiable() {
        return inexact_sums(args, result);
    }
    scanned!(args, result, 1, [u8 => u8, i8 => i8, i16 => i16, i32 => i32, i64 => i64], 0, |a, x| a.wrapping_add(x), |a| a)
}

/// Sums of floats run in double precision, as torch's do.
fn inexact_sums(args: &Args, result: &Tensor) -> Result<()> {
    if result.dtype().is_complex() {
        return scanned!(args, result, 1, [c64 => c128, c128 => c128], A::default(),
            |a, x| A::new(a.re + f64::from(x.re), a.im + f64::from(x.im)), |a| T::new(a.re as _, a.im as _));
    }
    scanned!(args, result, 1, [f32 => f64, f64 => f64], 0.0, |a, x| a + f64::from(x), |a| a as T)
}

fn products(args: &Args, result: &Tensor) -> Result<()> {
    if result.dtype().is_complex() {
        return scanned!(args, result, 1, [c64 => c128, c128 => c128], A::new(1.0, 0.0),
            |a, x| a * A::new(f64::from(x.re), f64::from(x.im)), |a| T::new(a.re as _, a.im as _));
    }
    if result.dtype().is_floating() {
        return scanned!(args, result, 1, [f32 => f64, f64 => f64], 1.0, |a, x| a * f64::from(x), |a| a as T);
    }
    scanned!(args, result, 1, [u8 => u8, i8 => i8, i16 => i16, i32 => i32, i64 => i64], 1, |a, x| a.wrapping_mul(x), |a| a)
}

/// Largest and rest apart: `a.0 + log(a.1)`, so that nothing overflows.
fn log_sums(args: &Args, result: &Tensor) -> Result<()> {
    if result.dtype().is_complex() {
        return complex_log_sums(args, result);
    }
    scanned!(args, result, 1, [f32 => (f64, f64), f64 => (f64, f64)], (f64::NEG_INFINITY, 0.0),
        |(top, sum), x| {
            let x = f64::from(x);
            if x == f64::NEG_INFINITY {
                (top, sum)
            } else if x > top && x.is_finite() {
                (x, sum * Base::exp(top - x) + 1.0)
            } else if top == f64::NEG_INFINITY {
                (0.0, Base::exp(x))
            } else {
                (top, sum + Base::exp(x - top))
            }
        },
        |(top, sum)| (top + Base::log(sum)) as T)
}

fn complex_log_sums(args: &Args, result: &Tensor) -> Result<()> {
    scanned!(args, result, 1, [c64 => c128, c128 => c128], c128::new(f64::NEG_INFINITY, 0.0),
        |sum, x| log_add(sum, c128::new(f64::from(x.re), f64::from(x.im))),
        |sum| T::new(sum.re as _, sum.im as _))
}

/// `log(exp(a) + exp(b))`, around the one with the larger real part: its angle stays as it is, beyond a full turn too.
fn log_add(a: c128, b: c128) -> c128 {
    let (less, more) = if a.re <= b.re { (a, b) } else { (b, a) };
    if less.re == more.re && less.re.is_infinite() {
        return if less.re < 0.0 { less } else { (less.exp() + more.exp()).ln() };
    }
    let ratio = (less - more).exp();
    let magnitude = (ratio.re * (2.0 + ratio.re) + ratio.im * ratio.im).ln_1p() / 2.0;
    more + c128::new(magnitude, ratio.im.atan2(1.0 + ratio.re))
}

fn recurrence(args: &Args, result: &Tensor) -> Result<()> {
    let (own, factor) = (args.tensor(0)?, args.tensor(1)?);
    let compute = result.dtype().compute();
    let lines = lines(own, super::one_dim(args, 2)?);
    let (source, factors, place) = (plain(own, compute)?, plain(factor, compute)?, workplace(result, compute)?);
    let (from, by, to) = (source.storage().pin()?, factors.storage().pin()?, place.storage().pin()?);
    dispatch!(compute, T in [f32, f64, c64, c128] => {
        let by = rushlight_par::Address(by.as_ptr().cast::<T>());
        let from = rushlight_par::Address(from.as_ptr().cast::<T>());
        let to = rushlight_par::Address(to.as_ptr().cast::<T>());
        let (from_offset, by_offset) = (source.layout().offset as usize, factors.layout().offset as usize);
        // SAFETY: all are contiguous, of one shape and of the compute dtype.
        lines.each(|first, abreast| unsafe {
            for j in 0..abreast {
                let mut state = T::default();
                for i in 0..lines.n {
                    let at = first + j + i * lines.inner;
                    let x = from.at(from_offset + at).read_unaligned();
                    state = if i == 0 { x } else { x + by.at(by_offset + at).read_unaligned() * state };
                    to.at(at).write(state);
                }
            }
        });
    }, else => return Err(crate::call::not_implemented(args.row, compute)));
    settle(&place, result)
}

fn best(args: &Args, results: &[Tensor], up: bool) -> Result<()> {
    let own = args.tensor(0)?;
    let compute = own.dtype().compute();
    let lines = lines(own, super::one_dim(args, 1)?);
    let (source, values) = (plain(own, compute)?, workplace(&results[0], compute)?);
    let (from, to, places) = (source.storage().pin()?, values.storage().pin()?, results[1].storage().pin()?);
    let offset = source.layout().offset;
    dispatch!(compute, T in [u8, i8, i16, i32, i64, f32, f64, Bool] => {
        // SAFETY: all are contiguous and of one shape; values and operand are of the compute dtype.
        unsafe {
            let (to, from) = (to.as_ptr().cast::<T>(), from.as_ptr().cast::<T>().offset(offset));
            let places = places.as_ptr().cast::<i64>();
            // The best so far stays only where it is strictly better.
            if up {
                scan_best(lines, to, places, from, <Towards<T, true> as Extreme>::beats);
            } else {
                scan_best(lines, to, places, from, <Towards<T, false> as Extreme>::beats);
            }
        }
    }, else => return Err(crate::call::not_implemented(args.row, compute)));
    settle(&values, &results[0])
}
