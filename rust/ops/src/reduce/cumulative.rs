//! Cumulative sums, products and extremes along a dimension.

#![allow(clippy::useless_conversion, reason = "expressions are pasted into loops of several types")]

use rushlight_autograd::Tensor;
use rushlight_core::dtype::{c64, c128};
use rushlight_core::layout::wrap_dim;
use rushlight_core::{Bool, DType, Device, Error, Result, Scalar, dispatch};
use rushlight_dispatch::call::errors::not_implemented;
use rushlight_dispatch::call::on_host;
use rushlight_dispatch::operator::{
    Accepts, Args, Autocast, BackwardContext, BatchRule, DTypes, Derivative, Implementation, Kernel, OnCuda, Operator,
    Out, Saves, Tags, TensorSpec, Variants, formula, operator,
};
use rushlight_dispatch::value::{Arg, Ints, Output, Value};

use rushlight_cpu::reduce::cumulative::{scan, scan_best};
use rushlight_cpu::reduce::{Extreme, Towards};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operands::{lines, plain, settle, workplace};
use rushlight_dispatch::{create, op};
use rushlight_simd::{Base, Isa};

use super::on_cuda::{self, Running};
use super::select_backward::{ORDERED, scatter_gradient};
use crate::expr_ext::ExprExt;

#[operator]
pub static CUMSUM: Operator = Operator {
    name: "cumsum",
    tags: Tags::ANY_DTYPE_WITHOUT_ELEMENTS,
    variants: Variants::ALL,
    signature: "(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
    doc: "The cumulative sums along `dim`; integers and bool are summed in int64.

    >>> torch.cumsum(torch.tensor([1, 2, 3]), dim=0)
    tensor([1, 3, 6])",
    out: Out::REQUESTED_DTYPE,
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Kernel(Kernel {
        infer,
        cpu: |args, results| accumulated(args, &results[0], sums),
        cuda: OnCuda::Own(|args, results| {
            accumulated(args, &results[0], |args, result| cumulative(args, result, Running::Sum))
        }),
    }),
    kernel_name: "cumsum_out_cpu",
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| {
        let dim = d.int(DIM);
        along(d.grad(), dim, |grad, axis| {
            let sums = op!(CUMSUM, &flipped(grad, axis)?, axis)?;
            op!(crate::join::flip::FLIP, &sums, Ints::from_slice(&[axis as i64]))
        })
    })]),
    autocast: Autocast::Fp32.on_cuda_alone(),
    samples: &["t(2, 3), 1", "t(2, 3, 4), 1", "t(3, 2).t(), 0", "t(), 0"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    reference: "np.cumsum(self, axis=dim).reshape(self.shape)",
    ..Operator::BASE
};

#[operator]
pub static CUMPROD: Operator = Operator {
    name: "cumprod",
    tags: Tags::ANY_DTYPE_WITHOUT_ELEMENTS,
    variants: Variants::ALL,
    signature: "(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
    doc: "The cumulative products along `dim`; integers and bool are multiplied in int64.

    >>> torch.cumprod(torch.tensor([1, 2, 3]), dim=0)
    tensor([1, 2, 6])",
    out: Out::REQUESTED_DTYPE,
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Kernel(Kernel {
        infer,
        cpu: |args, results| accumulated(args, &results[0], products),
        cuda: OnCuda::Own(|args, results| {
            accumulated(args, &results[0], |args, result| cumulative(args, result, Running::Product))
        }),
    }),
    kernel_name: "cumprod_out_cpu",
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        let grad = d.grad();
        let dim = d.int(DIM);
        along(d.input(INPUT), dim, |own, axis| {
            // Each element is a factor of its own cumulative product and of all that follow.
            let own = op!(crate::pointwise::complex::CONJ_AT_ONCE, own)?;
            let turned = [flipped(&as_line(grad.clone())?, axis)?, flipped(&shifted(&own, axis, false)?, axis)?];
            let after = flipped(&op!(RECURRENCE, &turned[0], &turned[1], axis)?, axis)?;
            (Expr::from(after) * product_before(&own, axis)?).done()
        })
    })]),
    autocast: Autocast::Fp32.on_cuda_alone(),
    samples: &["t(2, 3), 1", "t(2, 3, 4), 1", "t(3, 2).t(), 0", "t(), 0"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    reference: "np.cumprod(self, axis=dim).reshape(self.shape)",
    ..Operator::BASE
};

/// `out[k] = self[k] + factor[k] * out[k - 1]`: the basis of gradients of products without division.
#[operator]
pub static RECURRENCE: Operator = Operator {
    name: "_linear_recurrence",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor factor, int dim) -> Tensor",
    doc: "Along `dim`, each result is an element plus a factor times the result before it.

    >>> torch._linear_recurrence(torch.tensor([1., 1.]), torch.tensor([9., 3.]), 0)
    tensor([1., 4.])",
    dtypes: DTypes::INEXACT,
    autocast: Autocast::Promote.everywhere(),
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let (own, factor) = (args.tensor(INPUT)?, args.tensor(FACTOR)?);
            if own.sizes() != factor.sizes() {
                return Err(Error::runtime("a recurrence needs a factor for each element")
                    .shapes([own.sizes().as_slice(), factor.sizes().as_slice()]));
            }
            Ok(vec![TensorSpec::new(own.sizes(), own.dtype(), own)])
        },
        cpu: |args, results| recurrence(args, &results[0]),
        cuda: OnCuda::Own(|args, results| {
            let input = args.tensor(INPUT)?;
            on_cuda::recurrence(input, args.tensor(FACTOR)?, super::one_dim(args, DIM)?, &results[0])
        }),
    }),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(FACTOR), back),
        formula(FACTOR, Saves::input(FACTOR).union(Saves::RESULT), |d| {
            let before = along(d.result(), d.int(DIM), |result, axis| shifted(result, axis, true));
            back(d) * before.conj()
        }),
    ]),
    samples: &["t(2, 3), t(2, 3), 1", "t(2, 3), t(2, 3), 0"],
    ..Operator::BASE
};

#[operator]
pub static CUMMAX: Operator = Operator {
    name: "cummax",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int dim) -> (Tensor values, Tensor indices)",
    doc: "The largest element so far along `dim`, and its index (the last of equal ones).

    >>> torch.cummax(torch.tensor([1., 3., 2.]), dim=0)
    torch.return_types.cummax(
    values=tensor([1., 3., 3.]),
    indices=tensor([0, 1, 1]))",
    out: Out::new(Accepts::Same, &["expected scalar_type {Result} but found {Out}"]),
    dtypes: ORDERED,
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Kernel(Kernel {
        infer: infer_best,
        cpu: |args, results| best(args, results, true),
        cuda: OnCuda::Own(|args, results| {
            on_cuda::cumulative_best(args.tensor(INPUT)?, super::one_dim(args, DIM)?, results, true)
        }),
    }),
    derivative: BEST,
    samples: &["t(2, 3), 1", "t(2, 3, 4), 1", "t(), 0"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    ..Operator::BASE
};

#[operator]
pub static CUMMIN: Operator = Operator {
    name: "cummin",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int dim) -> (Tensor values, Tensor indices)",
    doc: "The smallest element so far along `dim`, and its index (the last of equal ones).

    >>> torch.cummin(torch.tensor([3., 1., 2.]), dim=0)
    torch.return_types.cummin(
    values=tensor([3., 1., 1.]),
    indices=tensor([0, 1, 1]))",
    out: Out::new(Accepts::Same, &["expected scalar_type {Result} but found {Out}"]),
    dtypes: ORDERED,
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Kernel(Kernel {
        infer: infer_best,
        cpu: |args, results| best(args, results, false),
        cuda: OnCuda::Own(|args, results| {
            on_cuda::cumulative_best(args.tensor(INPUT)?, super::one_dim(args, DIM)?, results, false)
        }),
    }),
    derivative: BEST,
    samples: &["t(2, 3), 1", "t(2, 3, 4), 1", "t(), 0"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    ..Operator::BASE
};

#[operator]
pub static LOGCUMSUMEXP: Operator = Operator {
    name: "logcumsumexp",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int dim) -> Tensor",
    doc: "The logarithms of the cumulative sums of exponentials along `dim`.

    >>> torch.logcumsumexp(torch.tensor([0., 0., 0.]), dim=0)
    tensor([0.0000, 0.6931, 1.0986])",
    out: Out::new(Accepts::Same, &["expected scalar_type {Result} but found {Out}"]),
    dtypes: DTypes::INEXACT,
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let input = args.tensor(INPUT)?;
            super::one_dim(args, DIM)?;
            if !input.dtype().is_differentiable() {
                return Err(Error::unsupported("logcumsumexp_out_cpu", input.dtype()));
            }
            Ok(vec![TensorSpec::new(input.sizes(), input.dtype(), input)])
        },
        cpu: |args, results| log_sums(args, &results[0]),
        cuda: OnCuda::Own(|args, results| match results[0].dtype().is_complex() {
            true => on_host::fill(|args, results| log_sums(args, &results[0]), args, results),
            false => cumulative(args, &results[0], Running::LogSum),
        }),
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT).union(Saves::RESULT), |d| {
        if d.rank(INPUT) == 0 {
            return d.grad();
        }
        // sum over i >= k of g[i] exp(x[k] - y[i]), as a recurrence from the end: h[k] = g[k] + exp(y[k] - y[k + 1])
        // h[k + 1], and exp(x[k] - y[k]) h[k]. It is linear in g, so that it has a derivative where g is zero too.
        let grad = d.grad();
        let running = along(d.result(), d.int(DIM), |sums, axis| {
            let factors = flipped(&decays(sums, axis)?, axis)?;
            let turned = flipped(&as_line(grad.clone())?, axis)?;
            flipped(&op!(RECURRENCE, &turned, &factors, axis)?, axis)
        });
        (d.input(INPUT) - d.result()).exp().conj() * running
    })]),
    samples: &["unit(2, 3), 1", "unit(2, 3, 4), 1", "t(), 0"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    reference: "np.log(np.cumsum(np.exp(self), axis=dim)).reshape(self.shape)",
    ..Operator::BASE
};

/// Returns an error for a tensor that cannot be put before or after the operand of `diff`.
fn check_ends(input: &Tensor, more: &Tensor, dim: i64) -> Result<()> {
    if input.rank() != more.rank() {
        return Err(Error::runtime("diff expects prepend or append to be the same dimension as input"));
    }
    let dim = wrap_dim(dim, input.rank())?;
    match (0..input.rank()).find(|&other| other != dim && input.sizes()[other] != more.sizes()[other]) {
        Some(other) => Err(Error::runtime(format!(
            "diff expects the shape of tensor to prepend or append to match that of input except along the differencing dimension; input.size({other}) = {}, but got tensor.size({other}) = {}",
            input.sizes()[other],
            more.sizes()[other]
        ))
        .shapes([input.sizes().as_slice(), more.sizes().as_slice()])),
        None => Ok(()),
    }
}

#[operator]
pub static DIFF: Operator = Operator {
    name: "diff",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
    doc: "The differences of adjacent elements along `dim`, applied `n` times.

    >>> torch.diff(torch.tensor([1, 3, 2]))
    tensor([ 2, -1])",
    out: Out::new(
        Accepts::CastIf(|args| args.int(N).is_ok_and(|n| n > 0)),
        &["expected scalar_type {Result} but found {Out}"],
    )
    .no_alias(),
    implementation: Implementation::CompositeImplicit(|args| {
        let input = args.tensor(INPUT)?;
        if input.rank() == 0 {
            return Err(Error::runtime("diff expects input to be at least one-dimensional"));
        }
        let n = args.int(N)?;
        for more in [PREPEND, APPEND].into_iter().filter_map(|arg| args.optional_tensor(arg)) {
            check_ends(input, more, args.int(DIM)?)?;
        }
        if n < 0 {
            return Err(Error::runtime(format!("order must be non-negative but got {n}")));
        }
        let axis = super::one_dim(args, DIM)?;
        if n == 0 {
            return op!(crate::convert::CLONE, input).map(Output::Tensor);
        }
        let mut joined = input.clone();
        if args.has(PREPEND) || args.has(APPEND) {
            let parts = [args.optional_tensor(PREPEND), Some(input), args.optional_tensor(APPEND)]
                .into_iter()
                .flatten()
                .cloned();
            joined = crate::join::CAT.tensor([Value::from(parts.collect::<Vec<_>>()), axis.into()])?;
        }
        let mut times = n.min(joined.sizes()[axis] as i64) as isize;
        if joined.device() == Device::Meta && times > 1 {
            // Without elements there is nothing to subtract, and the sizes determine the result.
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
    derivative: Derivative::CompositeImplicit,
    samples: &["t(4)", "t(2, 4), 2", "t(3, 4), 1, 0", "t(3), prepend=t(1), append=t(2)"],
    errors: &[("t()", "RuntimeError", "diff expects input to be at least one-dimensional")],
    reference: "np.diff(self, n, dim, **{key: x for key, x in (('prepend', prepend), ('append', append)) if x is not None}) if self.dtype != bool else None",
    ..Operator::BASE
};

const BEST: Derivative = Derivative::Formulas(&[formula(CUMMAX::INPUT, Saves::result(1), |d| {
    scatter_gradient(d, d.grad(), d.result_of(1), d.int(CUMMAX::DIM))
})]);

/// Applies `work` along a dimension that may be negative; a 0-d tensor counts as one-dimensional.
fn along(value: Expr, dim: i64, work: impl Fn(&Tensor, usize) -> Result<Tensor>) -> Expr {
    let tensor = match value.done() {
        Ok(tensor) => tensor,
        Err(error) => return Expr::failed(error),
    };
    Expr::new(wrap_dim(dim, tensor.rank()).and_then(|axis| {
        if tensor.rank() > 0 {
            return work(&tensor, axis);
        }
        op!(crate::view::squeeze::SQUEEZE, &work(&as_line(Expr::from(&tensor))?, axis)?)
    }))
}

/// A 0-d tensor as a one-dimensional one.
fn as_line(value: Expr) -> Result<Tensor> {
    let tensor = value.done()?;
    if tensor.rank() > 0 { Ok(tensor) } else { op!(crate::view::squeeze::UNSQUEEZE, &tensor, 0i64) }
}

/// The reverse view along a dimension.
pub fn flipped(tensor: &Tensor, axis: usize) -> Result<Tensor> {
    let size = tensor.sizes()[axis];
    crate::view::narrow::sliced(tensor, axis, (size - 1).max(0), size, -1)
}

/// The elements shifted by one index, later (with a zero first) or earlier.
fn shifted(tensor: &Tensor, axis: usize, later: bool) -> Result<Tensor> {
    let size = tensor.sizes()[axis];
    if size == 0 {
        return Ok(tensor.clone());
    }
    let rest = crate::view::narrow::sliced(tensor, axis, isize::from(!later), size - 1, 1)?;
    let mut sizes = tensor.sizes().clone();
    sizes[axis] = 1;
    let zero = create::zeros(&sizes, tensor.dtype(), tensor.device())?;
    let parts = if later { vec![zero, rest] } else { vec![rest, zero] };
    crate::join::CAT.tensor([Value::from(parts), axis.into()])
}

/// The exponential of each element's distance to the next one, conjugated; zero for the last. Equal elements have the
/// distance zero, even if they are infinite.
fn decays(logs: &Tensor, axis: usize) -> Result<Tensor> {
    let rest = logs.sizes()[axis] - 1;
    if rest < 0 {
        return Ok(logs.clone());
    }
    let part = |first| crate::view::narrow::sliced(logs, axis, first, rest, 1).map(Expr::from);
    let (each, next) = (part(0)?, part(1)?);
    let decays = each.clone().equals(next.clone()).choose(1.0, (each - next).exp()).conj().done()?;
    let mut sizes = logs.sizes().clone();
    sizes[axis] = 1;
    let zero = create::zeros(&sizes, logs.dtype(), logs.device())?;
    crate::join::CAT.tensor([Value::from(vec![decays, zero]), axis.into()])
}

/// The product of all elements before each.
pub fn product_before(tensor: &Tensor, axis: usize) -> Result<Tensor> {
    let size = tensor.sizes()[axis];
    if size == 0 {
        return Ok(tensor.clone());
    }
    let mut sizes = tensor.sizes().clone();
    sizes[axis] = 1;
    let one = create::full(&sizes, Scalar::ONE, tensor.dtype(), tensor.device())?;
    let rest = op!(CUMPROD, &crate::view::narrow::sliced(tensor, axis, 0, size - 1, 1)?, axis)?;
    crate::join::CAT.tensor([Value::from(vec![one, rest]), axis.into()])
}

/// The recurrence's gradient: the same recurrence from the other end, with the factors shifted by one.
fn back(d: &BackwardContext) -> Expr {
    use RECURRENCE::*;

    let grad = d.grad();
    along(d.input(FACTOR), d.int(DIM), |factor, axis| {
        let factor = op!(crate::pointwise::complex::CONJ_AT_ONCE, &shifted(factor, axis, false)?)?;
        let turned = flipped(&as_line(grad.clone())?, axis)?;
        flipped(&op!(RECURRENCE, &turned, &flipped(&factor, axis)?, axis)?, axis)
    })
}

/// Runs a cumulative sum or product in a result's dtype, which is one that torch accumulates in. A result without a
/// dimension or without elements is a copy, in any dtype.
fn accumulated(args: &Args, result: &Tensor, kernel: impl Fn(&Args, &Tensor) -> Result<()>) -> Result<()> {
    if result.rank() == 0 || result.numel() == 0 {
        return rushlight_dispatch::copy::copy(result, args.tensor(CUMSUM::INPUT)?);
    }
    let dtype = result.dtype();
    if !DTypes::NUMBERS.has(dtype) {
        return Err(not_implemented(args.op, dtype));
    }
    kernel(args, result)
}

fn cumulative(args: &Args, result: &Tensor, what: Running) -> Result<()> {
    on_cuda::cumulative(args.tensor(CUMSUM::INPUT)?, super::one_dim(args, CUMSUM::DIM)?, result, what)
}

fn infer(args: &Args) -> Result<Vec<TensorSpec>> {
    use CUMSUM::*;

    let input = args.tensor(INPUT)?;
    super::one_dim(args, DIM)?;
    Ok(vec![TensorSpec::new(input.sizes(), super::sum::result_dtype(args, DTYPE)?, input)])
}

fn infer_best(args: &Args) -> Result<Vec<TensorSpec>> {
    use CUMMAX::*;

    let input = args.tensor(INPUT)?;
    if input.rank() == 0 && !matches!(args.int(DIM)?, -1 | 0) {
        return Err(Error::index(format!(
            "{}(): Expected reduction dim -1 or 0 for scalar but got {}",
            args.op.name,
            args.int(DIM)?
        )));
    }
    // torch looks at the dimension only if there are elements.
    if input.numel() > 0 {
        super::one_dim(args, DIM)?;
    }
    if !args.op.dtypes.has(input.dtype()) {
        return Err(not_implemented(args.op, input.dtype()));
    }
    Ok(vec![TensorSpec::new(input.sizes(), input.dtype(), input), TensorSpec::new(input.sizes(), DType::I64, input)])
}

/// Runs a scan over the first argument in a result's compute dtype: `$state` is the accumulator.
macro_rules! scanned {
    ($args:ident, $result:ident, [$($t:ty => $state:ty),*], $start:expr, $take:expr, $give:expr) => {{
        let own = $args.tensor(Arg::FIRST)?;
        let compute = $result.dtype().compute();
        let lines = lines(own, super::one_dim($args, CUMSUM::DIM)?);
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
        Err(not_implemented($args.op, compute))
    }};
}

fn sums(args: &Args, result: &Tensor) -> Result<()> {
    if result.dtype().is_differentiable() {
        return inexact_sums(args, result);
    }
    scanned!(args, result, [u8 => u8, i8 => i8, i16 => i16, i32 => i32, i64 => i64], 0, |a, x| a.wrapping_add(x), |a| a)
}

/// Sums of floats are accumulated in double precision, as in torch.
fn inexact_sums(args: &Args, result: &Tensor) -> Result<()> {
    if result.dtype().is_complex() {
        return scanned!(args, result, [c64 => c128, c128 => c128], A::default(),
            |a, x| A::new(a.re + f64::from(x.re), a.im + f64::from(x.im)), |a| T::new(a.re as _, a.im as _));
    }
    scanned!(args, result, [f32 => f64, f64 => f64], 0.0, |a, x| a + f64::from(x), |a| a as T)
}

fn products(args: &Args, result: &Tensor) -> Result<()> {
    if result.dtype().is_complex() {
        return scanned!(args, result, [c64 => c128, c128 => c128], A::new(1.0, 0.0),
            |a, x| a * A::new(f64::from(x.re), f64::from(x.im)), |a| T::new(a.re as _, a.im as _));
    }
    if result.dtype().is_floating() {
        return scanned!(args, result, [f32 => f64, f64 => f64], 1.0, |a, x| a * f64::from(x), |a| a as T);
    }
    scanned!(args, result, [u8 => u8, i8 => i8, i16 => i16, i32 => i32, i64 => i64], 1, |a, x| a.wrapping_mul(x), |a| a)
}

/// The maximum and the rest separately: `a.0 + log(a.1)`, so that nothing overflows.
fn log_sums(args: &Args, result: &Tensor) -> Result<()> {
    if result.dtype().is_complex() {
        return complex_log_sums(args, result);
    }
    scanned!(args, result, [f32 => (f64, f64), f64 => (f64, f64)], (f64::NEG_INFINITY, 0.0),
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
    scanned!(args, result, [c64 => c128, c128 => c128], c128::new(f64::NEG_INFINITY, 0.0),
        |sum, x| log_add(sum, c128::new(f64::from(x.re), f64::from(x.im))),
        |sum| T::new(sum.re as _, sum.im as _))
}

/// `log(exp(a) + exp(b))`, relative to the one with the larger real part: its angle is unchanged, even beyond a full
/// turn.
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
    use RECURRENCE::*;

    let (input, factor) = (args.tensor(INPUT)?, args.tensor(FACTOR)?);
    let compute = result.dtype().compute();
    let lines = lines(input, super::one_dim(args, DIM)?);
    let (source, factors, place) = (plain(input, compute)?, plain(factor, compute)?, workplace(result, compute)?);
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
    }, else => return Err(not_implemented(args.op, compute)));
    settle(&place, result)
}

fn best(args: &Args, results: &[Tensor], up: bool) -> Result<()> {
    use CUMMAX::*;

    let input = args.tensor(INPUT)?;
    let compute = input.dtype().compute();
    let lines = lines(input, super::one_dim(args, DIM)?);
    let (source, values) = (plain(input, compute)?, workplace(&results[0], compute)?);
    let (from, to, places) = (source.storage().pin()?, values.storage().pin()?, results[1].storage().pin()?);
    let offset = source.layout().offset;
    dispatch!(compute, T in [u8, i8, i16, i32, i64, f32, f64, Bool] => {
        // SAFETY: all are contiguous and of one shape; values and operand are of the compute dtype.
        unsafe {
            let (to, from) = (to.as_ptr().cast::<T>(), from.as_ptr().cast::<T>().offset(offset));
            let places = places.as_ptr().cast::<i64>();
            // The best element so far is kept only if it is strictly better.
            if up {
                scan_best(lines, to, places, from, <Towards<T, true> as Extreme>::beats);
            } else {
                scan_best(lines, to, places, from, <Towards<T, false> as Extreme>::beats);
            }
        }
    }, else => return Err(not_implemented(args.op, compute)));
    settle(&values, &results[0])
}
