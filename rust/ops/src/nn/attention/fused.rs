//! The operators behind attention, computed in blocks: the matrix of scores is never stored as a whole.

use rushlight_autograd::Tensor;
use rushlight_core::storage::Pin;
use rushlight_core::{DType, Dims, Error, Result, Scalar};
use rushlight_cpu::nn::attention::{Attention, Gradients, Mask, Operand};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operands::{plain, settle, workplace};
use rushlight_dispatch::operator::{
    Args, BackwardContext, BatchRule, BatchedCall, DTypes, Derivative, Implementation, Joint, Kernel, OnCuda, Operator,
    Saves, TensorSpec, Variants, operator,
};
use rushlight_dispatch::value::{Arg, Ints, Value};
use rushlight_dispatch::vmap::{RuleResult, broadcast_operands, unsqueeze_to_rank};
use rushlight_dispatch::{autocast, copy, create};

use super::on_cuda::Call;
use super::{batch_sizes, hidden};
use crate::convert::to_dtype;
use crate::expr_ext::ExprExt;
use crate::reduce::logsumexp::LOGSUMEXP;
use crate::reduce::softmax::SOFTMAX;
use crate::reduce::sum::SUM_DIM;
use crate::view::squeeze::UNSQUEEZE;

/// The operator behind `scaled_dot_product_attention`: a fused kernel.
#[operator]
pub static ATTENTION: Operator = Operator {
    name: "_attention",
    variants: Variants::FUNCTION,
    signature: "(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, bool is_causal, float scale) -> (Tensor, Tensor)",
    doc: "Attention, and for each query the logarithm of the sum of its scores' exponentials (infinite if it sees no key).

    >>> torch._attention(torch.zeros(1, 2), torch.zeros(2, 2), torch.tensor([[1.], [3.]]), None, False, 1.0)
    (tensor([[2.]]), tensor([0.6931]))",
    dtypes: DTypes::FLOATS,
    batch_rule: BatchRule::Broadcast,
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let [query, key, value] = [args.tensor(QUERY)?, args.tensor(KEY)?, args.tensor(VALUE)?];
            if [key, value].iter().any(|tensor| tensor.dtype() != query.dtype()) {
                return Err(Error::runtime("query, key and value differ in dtype"));
            }
            let mut sizes = batch_sizes(query, key, value, args.optional_tensor(ATTN_MASK))?;
            sizes.push(query.sizes()[query.rank() - 2]);
            let sums = TensorSpec::new(&sizes, query.dtype().compute(), query);
            sizes.push(value.sizes()[value.rank() - 1]);
            Ok(vec![TensorSpec::new(&sizes, query.dtype(), query), sums])
        },
        cpu: |args, results| match results[1].dtype() {
            DType::F32 => run::<f32>(args, results),
            DType::F64 => run::<f64>(args, results),
            dtype => Err(Error::unsupported("attention", dtype)),
        },
        cuda: OnCuda::Own(run_on_cuda),
    }),
    derivative: Derivative::Joint(Joint {
        inputs: &[QUERY, KEY, VALUE, ATTN_MASK],
        saves: Saves::input(QUERY)
            .union(Saves::input(KEY))
            .union(Saves::input(VALUE))
            .union(Saves::input(ATTN_MASK))
            .union(Saves::RESULT)
            .union(Saves::result(1)),
        gradients,
    }),
    node: "ScaledDotProductFlashAttentionForCpuBackward0 left_out=",
    samples: &[
        "t(2, 3, 4), t(2, 5, 4), t(2, 5, 2), None, False, 0.5",
        "t(2, 1, 3, 4), t(2, 5, 4), t(5, 2), t(3, 5), False, 1.5",
        "t(3, 4), t(5, 4), t(5, 2), None, True, 1.0",
        "t(70, 2), t(300, 2), t(300, 2), None, True, 1.0",
        "t(2, 3, 4), t(2, 5, 4), t(2, 5, 2), torch.eye(3, 5).bool(), False, 1.0",
    ],
    errors: &[(
        "t(2, 3, 4), t(2, 5, 4), t(2, 6, 4), None, False, 1.0",
        "RuntimeError",
        "Expected size for first two dimensions of batch2 tensor to be: [2, 5] but got: [2, 6].",
    )],
    reference: "(lambda s: (lambda m: (lambda p: (np.matmul(p, value) / np.maximum(p.sum(-1), 1e-300)[..., None], np.where(p.sum(-1) == 0, np.inf, m[..., 0] + np.log(p.sum(-1)))))(np.exp(s - m)))(np.max(s, axis=-1, keepdims=True, initial=-1e300)))(np.where(np.tri(query.shape[-2], key.shape[-2]) < is_causal, -np.inf, np.matmul(query, np.swapaxes(key, -1, -2)) * scale + (0 if attn_mask is None else np.where(attn_mask, 0, -np.inf) if attn_mask.dtype == bool else attn_mask)))",
    ..Operator::BASE
};

/// The operands of the kernels: query, key, value and mask in the compute dtype.
struct Operands {
    tensors: [Tensor; 3],
    mask: Option<Tensor>,
}

/// The pins of their memory.
struct Pins<'a> {
    tensors: [Pin<'a>; 3],
    mask: Option<Pin<'a>>,
}

impl Operands {
    fn of(args: &Args, [query, key, value, mask]: [Arg; 4], compute: DType) -> Result<Operands> {
        let wide = |arg| args.tensor(arg).and_then(|tensor| to_dtype(&tensor.detach(), compute));
        let mask = match args.optional_tensor(mask) {
            Some(mask) if mask.dtype() != DType::Bool => Some(to_dtype(&mask.detach(), compute)?),
            mask => mask.cloned(),
        };
        Ok(Operands { tensors: [wide(query)?, wide(key)?, wide(value)?], mask })
    }

    fn pins(&self) -> Result<Pins<'_>> {
        let [query, key, value] = &self.tensors;
        let tensors = [query.storage().pin()?, key.storage().pin()?, value.storage().pin()?];
        Ok(Pins { tensors, mask: self.mask.as_ref().map(|mask| mask.storage().pin()).transpose()? })
    }

    /// The call, for a batch of these sizes, with row-major results.
    fn attention<'a, T>(
        &self,
        pins: &Pins,
        batch: &[isize],
        counts: &'a [usize],
        (scale, causal): (f64, bool),
        [out, log_sums]: [*mut T; 2],
    ) -> Result<Attention<'a, T>> {
        let [query, key, value] = &self.tensors;
        let [queries, width] = [query.sizes()[query.rank() - 2], query.sizes()[query.rank() - 1]];
        let [keys, depth] = [value.sizes()[value.rank() - 2], value.sizes()[value.rank() - 1]];
        let laid = |tensor: &Tensor, rows: isize, cols: isize| {
            let mut sizes = Dims::from_slice(batch);
            sizes.extend([rows, cols]);
            tensor.layout().broadcast_to(&sizes)
        };
        fn operand<E>(layout: &rushlight_core::Layout, pin: &Pin) -> Operand<*const E> {
            let rank = layout.rank();
            Operand {
                ptr: pin.as_ptr().cast::<E>().cast_const().wrapping_offset(layout.offset),
                batch: layout.strides[..rank - 2].to_vec(),
                row: layout.strides[rank - 2],
                col: layout.strides[rank - 1],
            }
        }
        let mask = match (&self.mask, &pins.mask) {
            (Some(mask), Some(pin)) => {
                let layout = laid(mask, queries, keys)?;
                match mask.dtype() {
                    DType::Bool => Mask::Boolean(operand(&layout, pin)),
                    _ => Mask::Additive(operand(&layout, pin)),
                }
            }
            _ => Mask::None,
        };
        Ok(Attention {
            batch: counts,
            queries: queries as usize,
            keys: keys as usize,
            widths: [width as usize, depth as usize],
            scale,
            causal,
            q: operand(&laid(query, queries, width)?, &pins.tensors[0]),
            k: operand(&laid(key, keys, width)?, &pins.tensors[1]),
            v: operand(&laid(value, keys, depth)?, &pins.tensors[2]),
            mask,
            out,
            log_sums,
        })
    }
}

fn counted(batch: &[isize]) -> Vec<usize> {
    batch.iter().map(|&size| size as usize).collect()
}

fn first<T>(pin: &Pin, tensor: &Tensor) -> *mut T {
    pin.as_ptr().cast::<T>().wrapping_offset(tensor.layout().offset)
}

fn run<T>(args: &Args, results: &[Tensor]) -> Result<()>
where
    T: rushlight_core::Element + rushlight_cpu::float::Float + rushlight_cpu::linalg::matmul::GemmElement<Sum = T>,
{
    use ATTENTION::*;

    if results[1].numel() == 0 {
        return Ok(());
    }
    let out = workplace(&results[0], T::DTYPE)?;
    let batch = &results[1].sizes()[..results[1].rank() - 1];
    let operands = Operands::of(args, [QUERY, KEY, VALUE, ATTN_MASK], T::DTYPE)?;
    let held = operands.pins()?;
    {
        let pins = [out.storage().pin()?, results[1].storage().pin()?];
        let counts = counted(batch);
        let numbers = (args.float(SCALE)?, args.bool(IS_CAUSAL)?);
        let to = [first(&pins[0], &out), first(&pins[1], &results[1])];
        let attention = operands.attention::<T>(&held, batch, &counts, numbers, to)?;
        // SAFETY: layouts stay within their pinned storages; the results are new, row-major and of the compute dtype.
        unsafe { attention.run()? };
    }
    settle(&out, &results[0])
}

/// Scores as the kernels have them, and their operands in the compute dtype.
fn scores(args: &Args, [query, key, mask]: [Arg; 3], compute: DType, numbers: [Arg; 2]) -> Result<[Expr; 3]> {
    let wide = |arg| args.tensor(arg).and_then(|tensor| to_dtype(&tensor.detach(), compute)).map(Expr::from);
    let (query, key) = (wide(query)?, wide(key)?);
    let (scale, causal) = (args.float(numbers[0])?, args.bool(numbers[1])?);
    let mask = args.optional_tensor(mask).map(Tensor::detach);
    Ok([hidden(query.clone() * scale, key.clone(), mask.as_ref(), causal)?, query, key])
}

/// `run` with kernels, or from other operators.
fn run_on_cuda(args: &Args, results: &[Tensor]) -> Result<()> {
    use ATTENTION::*;

    if results[1].numel() == 0 {
        return Ok(());
    }
    let _off = autocast::disable();
    let compute = results[1].dtype();
    let value = to_dtype(&args.tensor(VALUE)?.detach(), compute)?;
    if value.sizes()[value.rank() - 2] == 0 {
        create::fill(&results[0], Scalar::ZERO)?;
        return create::fill(&results[1], Scalar::Float(f64::INFINITY));
    }
    let batch = &results[1].sizes()[..results[1].rank() - 1];
    if Call::read(args, [QUERY, KEY, VALUE, ATTN_MASK], batch, [SCALE, IS_CAUSAL])?.forward(results)? {
        return Ok(());
    }
    let [scores, ..] = scores(args, [QUERY, KEY, ATTN_MASK], compute, [SCALE, IS_CAUSAL])?;
    let scores = scores.done()?;
    let column = |tensor: Expr| tensor.call(&UNSQUEEZE, [(-1i64).into()]);
    let sums = Expr::from(&scores).call(&LOGSUMEXP, [Ints::from_slice(&[-1]).into()]);
    let sums = sums.clone().equals(f64::NEG_INFINITY).choose(f64::INFINITY, sums).done()?;
    let weights = (Expr::from(&scores) - column(Expr::from(&sums))).exp();
    copy::copy(&results[0], &weights.matmul(value).done()?)?;
    copy::copy(&results[1], &sums)
}

/// `run_backward` with kernels, or from other operators; `backward_decomposition` has the formula.
fn run_backward_on_cuda(args: &Args, results: &[Tensor]) -> Result<()> {
    use ATTENTION_BACKWARD::*;

    if results.iter().any(|result| result.numel() == 0) {
        return results.iter().try_for_each(|result| create::fill(result, Scalar::Int(0)));
    }
    let _off = autocast::disable();
    let compute = results[0].dtype().compute();
    let wide = |arg| args.tensor(arg).and_then(|tensor| to_dtype(&tensor.detach(), compute)).map(Expr::from);
    let grad = wide(GRAD)?;
    let means = (grad.clone() * wide(OUT)?).call(&SUM_DIM, [Ints::from_slice(&[-1]).into()]);
    let means = if args.has_tensor(GRAD_SUMS) { means - wide(GRAD_SUMS)? } else { means };
    let (means, sums) = (means.done()?, wide(SUMS)?.done()?);
    let batch = &sums.sizes()[..sums.rank() - 1];
    let call = Call::read(args, [QUERY, KEY, VALUE, ATTN_MASK], batch, [SCALE, IS_CAUSAL])?;
    if call.backward(&args.tensor(GRAD)?.detach(), &sums, &means, results)? {
        return Ok(());
    }
    let [scores, query, key] = scores(args, [QUERY, KEY, ATTN_MASK], compute, [SCALE, IS_CAUSAL])?;
    let column = |expr: Expr| expr.call(&UNSQUEEZE, [(-1i64).into()]);
    let weights = (scores - column(Expr::from(&sums))).exp();
    let away = grad.clone().matmul(wide(VALUE)?.transposed()) - column(Expr::from(&means));
    let moved = weights.clone() * away;
    let scale = args.float(SCALE)?;
    let found = [
        moved.clone().matmul(key) * scale,
        moved.transposed().matmul(query) * scale,
        weights.transposed().matmul(grad),
    ];
    results.iter().zip(found).try_for_each(|(result, found)| copy::copy(result, &found.done()?))
}

/// The operator behind the gradient: fused, in blocks like the forward. Its own derivative is needed only if the
/// gradient is recorded, and then the gradient is composed instead.
#[operator]
pub static ATTENTION_BACKWARD: Operator = Operator {
    name: "_attention_backward",
    variants: Variants::FUNCTION,
    signature: "(Tensor grad, Tensor? grad_sums, Tensor query, Tensor key, Tensor value, Tensor? attn_mask, Tensor out, Tensor sums, bool is_causal, float scale) -> (Tensor, Tensor, Tensor)",
    doc:
        "The gradients of query, key and value in `_attention`, computed from those of its results and the results themselves.

Shapes: those of the operands, over the batch of the result.

    >>> key, value = torch.zeros(2, 2), torch.tensor([[1.], [3.]])
    >>> out, sums = torch._attention(torch.zeros(1, 2), key, value, None, False, 1.0)
    >>> torch._attention_backward(torch.ones(1, 1), None, torch.zeros(1, 2), key, value, None, out, sums, False, 1.0)[2]
    tensor([[0.5000],
            [0.5000]])",
    dtypes: DTypes::FLOATS,
    batch_rule: BatchRule::Custom(batched_attention_backward),
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let [query, key, value] = [args.tensor(QUERY)?, args.tensor(KEY)?, args.tensor(VALUE)?];
            let batch = batch_sizes(query, key, value, args.optional_tensor(ATTN_MASK))?;
            let mut sums = batch.clone();
            sums.push(query.sizes()[query.rank() - 2]);
            let mut out = sums.clone();
            out.push(value.sizes()[value.rank() - 1]);
            let fits = [args.tensor(GRAD)?, args.tensor(OUT)?].iter().all(|tensor| *tensor.sizes() == out)
                && [args.optional_tensor(GRAD_SUMS), Some(args.tensor(SUMS)?)]
                    .iter()
                    .flatten()
                    .all(|tensor| *tensor.sizes() == sums);
            if !fits {
                return Err(Error::runtime("a gradient does not fit its attention")
                    .shapes([args.tensor(GRAD)?.sizes().as_slice(), out.as_slice()]));
            }
            Ok([query, key, value]
                .map(|tensor| {
                    let mut sizes = batch.clone();
                    sizes.extend_from_slice(&tensor.sizes()[tensor.rank() - 2..]);
                    TensorSpec::new(&sizes, query.dtype(), query)
                })
                .to_vec())
        },
        cpu: |args, results| match results[0].dtype().compute() {
            DType::F32 => run_backward::<f32>(args, results),
            DType::F64 => run_backward::<f64>(args, results),
            dtype => Err(Error::unsupported("attention", dtype)),
        },
        cuda: OnCuda::Own(run_backward_on_cuda),
    }),
    derivative: Derivative::NonDifferentiable("if gradients are recorded, the gradient of attention is composed"),
    samples: &["t(2, 3, 2), None, t(2, 3, 4), t(2, 5, 4), t(2, 5, 2), None, t(2, 3, 2), t(2, 3), False, 0.5"],
    errors: &[(
        "t(2, 3, 2), None, t(2, 3, 4), t(2, 5, 4), t(2, 5, 2), None, t(2, 2, 2), t(2, 3), False, 0.5",
        "RuntimeError",
        "a gradient does not fit its attention",
    )],
    ..Operator::BASE
};

fn run_backward<T>(args: &Args, results: &[Tensor]) -> Result<()>
where
    T: rushlight_core::Element + rushlight_cpu::float::Float + rushlight_cpu::linalg::matmul::GemmElement<Sum = T>,
{
    use ATTENTION_BACKWARD::*;

    if results.iter().any(|result| result.numel() == 0) {
        // Without keys or values all gradients are zero.
        return results.iter().try_for_each(|result| create::fill(result, Scalar::Int(0)));
    }
    let sums = plain(args.tensor(SUMS)?, T::DTYPE)?;
    let batch = &sums.sizes()[..sums.rank() - 1];
    let operands = Operands::of(args, [QUERY, KEY, VALUE, ATTN_MASK], T::DTYPE)?;
    let held = operands.pins()?;
    let (grad, out) = (plain(args.tensor(GRAD)?, T::DTYPE)?, plain(args.tensor(OUT)?, T::DTYPE)?);
    let grad_sums = args.optional_tensor(GRAD_SUMS).map(|tensor| plain(tensor, T::DTYPE)).transpose()?;
    let places =
        [workplace(&results[0], T::DTYPE)?, workplace(&results[1], T::DTYPE)?, workplace(&results[2], T::DTYPE)?];
    {
        let pins = [sums.storage().pin()?, grad.storage().pin()?, out.storage().pin()?];
        let grad_pin = grad_sums.as_ref().map(|tensor| tensor.storage().pin()).transpose()?;
        let to = [places[0].storage().pin()?, places[1].storage().pin()?, places[2].storage().pin()?];
        let counts = counted(batch);
        let numbers = (args.float(SCALE)?, args.bool(IS_CAUSAL)?);
        let forward =
            operands.attention::<T>(&held, batch, &counts, numbers, [first(&pins[2], &out), first(&pins[0], &sums)])?;
        let gradients = Gradients {
            forward,
            grad: first(&pins[1], &grad),
            grad_sums: match (&grad_sums, &grad_pin) {
                (Some(tensor), Some(pin)) => first::<T>(pin, tensor),
                _ => std::ptr::null(),
            },
            to_query: first(&to[0], &places[0]),
            to_key: first(&to[1], &places[1]),
            to_value: first(&to[2], &places[2]),
        };
        // SAFETY: layouts stay within their pinned storages; row-major operands are in the compute dtype, and the
        // gradients are new.
        unsafe { gradients.run()? };
    }
    places.iter().zip(results).try_for_each(|(place, result)| settle(place, result))
}

/// Fused, unless the gradient itself is recorded or the mask has one.
fn gradients(d: &BackwardContext) -> Result<Vec<Option<Tensor>>> {
    use ATTENTION::*;

    if rushlight_autograd::modes::recording() || d.needs(ATTN_MASK) {
        return backward_decomposition(d);
    }
    let mask = if d.is_tensor(ATTN_MASK) { Some(d.input(ATTN_MASK).done()?) } else { None };
    let arriving = if d.has_grad(1) { Some(d.grad_of(1).done()?) } else { None };
    let values: [Value; 10] = [
        d.grad().done()?.into(),
        arriving.into(),
        d.input(QUERY).done()?.into(),
        d.input(KEY).done()?.into(),
        d.input(VALUE).done()?.into(),
        mask.into(),
        d.result().done()?.into(),
        d.result_of(1).done()?.into(),
        d.flag(IS_CAUSAL).into(),
        d.scalar(SCALE).f64().into(),
    ];
    let mut found: Vec<_> = ATTENTION_BACKWARD.call(values)?.into_tensors().into_iter().map(Some).collect();
    if d.is_tensor(ATTN_MASK) {
        found.push(None);
    }
    Ok(found)
}

/// With weights p, the gradient of values is weighted by p, and that of scores by p times the value's distance from the
/// mean.
fn backward_decomposition(d: &BackwardContext) -> Result<Vec<Option<Tensor>>> {
    use ATTENTION::*;

    let compute = d.results[1].dtype;
    let wide = |expr: Expr| -> Result<Expr> { Ok(Expr::from(to_dtype(&expr.done()?, compute)?)) };
    let (query, key, value) = (wide(d.input(QUERY))?, wide(d.input(KEY))?, wide(d.input(VALUE))?);
    let mask = if d.is_tensor(ATTN_MASK) { Some(d.input(ATTN_MASK).done()?) } else { None };
    let scale = d.scalar(SCALE).f64();
    let column = |expr: Expr| expr.call(&UNSQUEEZE, [(-1i64).into()]);
    let scores = hidden(query.clone() * scale, key.clone(), mask.as_ref(), d.flag(IS_CAUSAL))?;
    let softmax = |scores: Expr| scores.call(&SOFTMAX, [(-1i64).into()]);
    let weights = if mask.is_some() {
        let seen = column(d.result_of(1)).below(f64::INFINITY);
        seen.clone().choose(softmax(seen.choose(scores, 0.0)), 0.0)
    } else {
        softmax(scores)
    };
    let grad = wide(d.grad())?;
    let mut found = vec![None, None, None];
    if d.needs(VALUE) {
        found[2] = Some(weights.clone().transposed().matmul(grad.clone()).done()?);
    }
    if [QUERY, KEY, ATTN_MASK].iter().any(|&arg| d.needs(arg)) {
        let away = grad.matmul(value.transposed());
        // Computing it from the result would be shorter, but this way a query that sees one key has a gradient of
        // exactly zero.
        let means = (weights.clone() * away.clone()).call(&SUM_DIM, [Ints::from_slice(&[-1]).into(), true.into()]);
        let mut away = away - means;
        if d.has_grad(1) {
            away = away + column(d.grad_of(1));
        }
        let moved = weights * away;
        if d.needs(QUERY) {
            found[0] = Some((moved.clone().matmul(key) * scale).done()?);
        }
        if d.needs(KEY) {
            found[1] = Some((moved.clone().transposed().matmul(query) * scale).done()?);
        }
        if d.is_tensor(ATTN_MASK) {
            found.push(if d.needs(ATTN_MASK) { Some(moved.done()?) } else { None });
        }
    } else if d.is_tensor(ATTN_MASK) {
        found.push(None);
    }
    Ok(found)
}

/// Queries, keys, values and masks broadcast as in the forward; gradients, results and sums have all samples.
fn batched_attention_backward(batch: &BatchedCall) -> RuleResult {
    use ATTENTION_BACKWARD::*;

    let mut args = broadcast_operands(batch)?;
    for arg in [GRAD, GRAD_SUMS, OUT, SUMS] {
        if let Some(tensor) = batch.args.optional_tensor(arg) {
            args.set(arg, batch.physical(tensor).into());
        }
    }
    let rank = batch.args.each_tensor().map(|(_, tensor)| tensor.rank()).max().unwrap_or(0);
    args.set(QUERY, unsqueeze_to_rank(&batch.tensor(QUERY)?, rank).into());
    args.call().map(Some)
}
