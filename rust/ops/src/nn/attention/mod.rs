//! Attention: for each query a mean of the values, weighted by how well the query matches their keys.

mod fused;
mod on_cuda;

pub use fused::{ATTENTION, ATTENTION_BACKWARD};

use rushlight_autograd::Tensor;
use rushlight_core::broadcast::{broadcast, can_broadcast, can_expand};
use rushlight_core::{DType, Device, Dims, Error, Result, Scalar};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{Args, Autocast, DTypes, Derivative, Implementation, Operator, Variants, operator};
use rushlight_dispatch::value::{Ints, Output, Value, sizes_value};
use rushlight_dispatch::{create, op};

use crate::convert::to_dtype;
use crate::expr_ext::ExprExt;
use crate::linalg::matrix::shape_error;
use crate::reduce::softmax::SOFTMAX;
use crate::view::expand::EXPAND;
use crate::view::squeeze::UNSQUEEZE;

#[operator]
pub static SCALED_DOT_PRODUCT_ATTENTION: Operator = Operator {
    name: "scaled_dot_product_attention",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
    doc: "Means of the values, one for each query, weighted by the softmax of the products of the query with the keys.

    out = softmax(query @ key.mT * scale + attn_mask, -1) @ value

Shapes: query `(*, L, E)`, key `(*, S, E)`, value `(*, S, Ev)`, result `(*, L, Ev)`; the scale is `1 / sqrt(E)` by default. A
bool mask selects the `(L, S)` scores that count, a float mask is added to them; with `is_causal` query `i` sees the
keys up to `i`. A query that sees no key gets zeros. With `enable_gqa` several heads of the query, in the third dimension
from the end, share one of key and value. In training `dropout_p` of the weights are dropped: pass 0 otherwise.

    >>> x = torch.tensor([[[1., 0.], [0., 1.]]])
    >>> torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
    tensor([[[1.0000, 0.0000],
             [0.3302, 0.6698]]])",
    dtypes: DTypes::FLOATS,
    autocast: Autocast::LowerPrecision.everywhere(),
    check: Some(check),
    implementation: Implementation::CompositeImplicit(|args| {
        let (query, key, value) = (args.tensor(QUERY)?, args.tensor(KEY)?, args.tensor(VALUE)?);
        if args.bool(ENABLE_GQA)? {
            return grouped(args, query, key, value);
        }
        let mask = args.optional_tensor(ATTN_MASK);
        let result = attend(args, query, key, value, mask).map(Output::Tensor);
        result.map_err(|error| with_hint(error, [query, key, value], mask))
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &[
        "t(2, 3, 4), t(2, 5, 4), t(2, 5, 2)",
        "t(2, 2, 3, 4), t(2, 1, 5, 4), t(2, 2, 5, 4), t(3, 5)",
        "t(2, 3, 4), t(2, 5, 4), t(2, 5, 2), torch.eye(3, 5).bool()",
        "t(3, 4), t(5, 4), t(5, 2), None, 0.0, True",
        "t(2, 4, 3, 2), t(2, 2, 3, 2), t(2, 2, 3, 2), enable_gqa=True, scale=0.7",
        "t(4, 3, 2), t(2, 3, 2), t(2, 3, 2), t(4, 3, 3), enable_gqa=True",
        "t(2, 3, 2), t(2, 3, 2), t(2, 3, 2), t(3, 3), 0.5",
    ],
    errors: &[
        (
            "t(3), t(3), t(3)",
            "RuntimeError",
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: 1 key.dim: 1 and value.dim: 1 instead.",
        ),
        (
            "t(2, 3, 4), t(2, 3, 5), t(2, 3, 4)",
            "RuntimeError",
            "Expected size for first two dimensions of batch2 tensor to be: [2, 4] but got: [2, 5].",
        ),
        (
            "t(2, 3, 4), t(2, 3, 4), t(2, 3, 4), t(3, 3), is_causal=True",
            "RuntimeError",
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True",
        ),
        (
            "t(2, 3, 4), t(2, 3, 4), t(2, 3, 4), i(2, 3, 3)",
            "RuntimeError",
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: long int and  query.dtype: float instead.",
        ),
        (
            "t(2, 3, 4), t(2, 3, 4), t(2, 3, 4), t(4, 3)",
            "RuntimeError",
            "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1",
        ),
        (
            "t(1, 4, 2, 2), t(1, 3, 2, 2), t(1, 3, 2, 2), enable_gqa=True",
            "RuntimeError",
            "Number of heads in key and value must divide the number of heads in ",
        ),
        (
            "t(2, 3, 4), t(2, 3, 4), t(2, 3, 4), None, 2.0",
            "RuntimeError",
            "dropout probability has to be between 0 and 1, but got 2",
        ),
        (
            "t(1, 2, 3, 4), t(1, 2, 3, 4), t(1, 2, 3, 4), None, -1.0",
            "RuntimeError",
            "scaled_dot_product_attention_flash_attention: Currently do not support dropout > 0",
        ),
    ],
    reference: "",
    ..Operator::BASE
};

fn check(args: &Args) -> Result<()> {
    use SCALED_DOT_PRODUCT_ATTENTION::*;

    let [query, key, value] = [args.tensor(QUERY)?, args.tensor(KEY)?, args.tensor(VALUE)?];
    if key.dtype() != query.dtype() || value.dtype() != query.dtype() {
        return Err(Error::runtime(format!(
            "Expected query, key, and value to have the same dtype, but got query.dtype: {} key.dtype: {} and value.dtype: {} instead.",
            query.dtype().c_name(),
            key.dtype().c_name(),
            value.dtype().c_name()
        )));
    }
    if [query, key, value].iter().any(|tensor| tensor.rank() < 2) {
        return Err(Error::runtime(format!(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: {} key.dim: {} and value.dim: {} instead.",
            query.rank(),
            key.rank(),
            value.rank()
        )));
    }
    if let Some(mask) = args.optional_tensor(ATTN_MASK) {
        if ![DType::Bool, DType::F32, query.dtype()].contains(&mask.dtype()) {
            return Err(Error::runtime(format!(
                "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: {} and  query.dtype: {} instead.",
                mask.dtype().c_name(),
                query.dtype().c_name()
            )));
        }
        if args.bool(IS_CAUSAL)? && !masked_and_causal(args, [query, key, value], mask)? {
            return Err(Error::runtime(
                "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True",
            ));
        }
    }
    let p = args.float(DROPOUT_P)?;
    if p > 1.0 {
        return Err(Error::runtime(format!(
            "dropout probability has to be between 0 and 1, but got {}",
            crate::create::c_text(p)
        )));
    }
    if !(0.0..).contains(&p) && query.rank() == 4 {
        return Err(Error::runtime(
            "scaled_dot_product_attention_flash_attention: Currently do not support dropout > 0",
        )
        .hint(format!("dropout_p is a probability, and {} is none.", crate::create::c_text(p))));
    }
    Ok(())
}

/// Whether torch applies a mask and hides later keys too: its fused kernel for the CPU does, which takes batches of heads
/// of one width without dropout, and masks without gradient. Its composed form refuses them.
fn masked_and_causal(args: &Args, tensors: [&Tensor; 3], mask: &Tensor) -> Result<bool> {
    use SCALED_DOT_PRODUCT_ATTENTION::*;

    let [query, key, value] = tensors.map(|tensor| tensor.sizes().as_slice());
    let ([batch, heads, rows, width], [_, _, columns, _]) = (query, key) else { return Ok(false) };
    let whole = |size: &isize, all: isize| *size == all || *size == 1;
    let fits = match mask.sizes().as_slice() {
        [rows_of, columns_of] => whole(rows_of, *rows) && whole(columns_of, *columns),
        [batch_of, heads_of, rows_of, columns_of] => {
            whole(batch_of, *batch) && whole(heads_of, *heads) && whole(rows_of, *rows) && whole(columns_of, *columns)
        }
        _ => false,
    };
    let plain = |tensor: &Tensor| tensor.device() == Device::Cpu && tensor.layout().strides.last() == Some(&1);
    Ok(fits
        && tensors.iter().all(|tensor| plain(tensor))
        && key[..2] == query[..2]
        && value[..2] == query[..2]
        && value.len() == 4
        && key[3] == *width
        && value[3] == *width
        && ![*rows, *columns].contains(&0)
        && args.float(DROPOUT_P)? == 0.0
        && !mask.requires_grad())
}

/// Refuses numbers that are no floats, with the error of the step that torch comes to.
fn check_kind(query: &Tensor) -> Result<()> {
    let dtype = query.dtype();
    match dtype.is_floating() {
        true => Ok(()),
        false if dtype.is_complex() => Err(Error::unsupported("softmax_lastdim_kernel_impl", dtype)),
        false => Err(Error::runtime(format!("expected scalar type Float but found {}", dtype.display_name()))),
    }
}

/// The error of a call, with a hint that makes its shapes match if they do not.
#[cold]
fn with_hint(error: Error, tensors: [&Tensor; 3], mask: Option<&Tensor>) -> Error {
    let fits = |shapes: &[Dims; 3], mask: Option<&Dims>| {
        let [query, key, value] = shapes.each_ref().map(|shape| shape.split_at(shape.len() - 2));
        let batch = broadcast(query.0, key.0).ok();
        let scores = batch.clone().map(|mut sizes| {
            sizes.extend([query.1[0], key.1[0]]);
            sizes
        });
        query.1[1] == key.1[1]
            && key.1[0] == value.1[0]
            && batch.is_some_and(|batch| can_broadcast(&batch, value.0))
            && mask.is_none_or(|mask| scores.is_some_and(|scores| can_expand(mask, &scores)))
    };
    let shapes = tensors.map(|tensor| tensor.sizes().clone());
    let masked = mask.map(Tensor::sizes);
    if fits(&shapes, masked) {
        return error;
    }
    let turned = |shape: &Dims| {
        let (mut shape, last) = (shape.clone(), shape.len() - 1);
        shape.swap(last - 1, last);
        shape
    };
    let turned_at = |places: &[usize]| {
        let mut shapes = shapes.clone();
        places.iter().for_each(|&at| shapes[at] = turned(&shapes[at]));
        shapes
    };
    let shown: Vec<&[isize]> = shapes.iter().chain(masked).map(|sizes| sizes.as_slice()).collect();
    let error = error.shapes(shown).no_axis();
    let ways: [(&[usize], &str); 3] = [
        (&[1], "key.transpose(-2, -1)"),
        (&[2], "value.transpose(-2, -1)"),
        (&[1, 2], "key.transpose(-2, -1) and value.transpose(-2, -1)"),
    ];
    if let Some((_, way)) = ways.iter().find(|(places, _)| fits(&turned_at(places), masked)) {
        return error.fit(format!("They would fit after {way}."));
    }
    if masked.is_some_and(|mask| mask.len() >= 2 && fits(&shapes, Some(&turned(mask)))) {
        return error.fit("They would fit after attn_mask.transpose(-2, -1).");
    }
    if masked.is_some() && fits(&shapes, None) {
        return error.fit("The mask must expand to the scores: a row for each query, a column for each key.");
    }
    error.fit("Shapes must be query (*, L, E), key (*, S, E), value (*, S, Ev); use enable_gqa=True for heads that share keys.")
}

/// The query's heads in groups, one for each head of key and value.
fn grouped(args: &Args, query: &Tensor, key: &Tensor, value: &Tensor) -> Result<Output> {
    use SCALED_DOT_PRODUCT_ATTENTION::*;

    let heads = |tensor: &Tensor| tensor.rank().checked_sub(3).map(|at| tensor.sizes()[at]);
    let (Some(own), Some(keys), Some(values)) = (heads(query), heads(key), heads(value)) else {
        return Err(Error::index("Dimension out of range (expected to be in range of [-2, 1], but got -3)"));
    };
    if own == keys && own == values {
        return attend(args, query, key, value, args.optional_tensor(ATTN_MASK)).map(Output::Tensor);
    }
    if keys == 0 || values == 0 || own % keys != 0 || own % values != 0 {
        return Err(Error::runtime("Number of heads in key and value must divide the number of heads in "));
    }
    let groups = keys.max(values);
    // If there are fewer heads of keys than of values, or the reverse, each is repeated.
    let spread = |tensor: &Tensor, heads: isize| -> Result<Tensor> {
        let apart = op!(UNSQUEEZE, tensor, -3i64)?;
        if heads == groups {
            return Ok(apart);
        }
        let mut sizes = apart.sizes().clone();
        let at = sizes.len() - 3;
        sizes[at] = groups / heads;
        let mut joined = tensor.sizes().clone();
        joined[at - 1] = groups;
        let repeated = op!(crate::view::RESHAPE, &op!(EXPAND, &apart, sizes_value(&sizes))?, sizes_value(&joined))?;
        op!(UNSQUEEZE, &repeated, -3i64)
    };
    let by_group = |tensor: &Tensor| -> Result<Tensor> {
        let (at, mut sizes) = (tensor.rank() - 3, tensor.sizes().clone());
        sizes[at] = groups;
        sizes.insert(at + 1, own / groups);
        op!(crate::view::RESHAPE, tensor, sizes_value(&sizes))
    };
    if groups % keys != 0 || groups % values != 0 {
        return Err(Error::runtime("Number of heads in key and value must divide the number of heads in "));
    }
    let mask = match args.optional_tensor(ATTN_MASK) {
        Some(mask) if mask.rank() >= 3 && heads(mask) == Some(own) => Some(by_group(mask)?),
        Some(mask) if mask.rank() >= 3 => Some(op!(UNSQUEEZE, mask, -3i64)?),
        mask => mask.cloned(),
    };
    let (key, value) = (spread(key, keys)?, spread(value, values)?);
    let out = attend(args, &by_group(query)?, &key, &value, mask.as_ref())?;
    let (at, mut sizes) = (out.rank() - 4, out.sizes().clone());
    sizes[at] *= sizes[at + 1];
    sizes.remove(at + 1);
    op!(crate::view::RESHAPE, &out, sizes_value(&sizes)).map(Output::Tensor)
}

fn attend(args: &Args, query: &Tensor, key: &Tensor, value: &Tensor, mask: Option<&Tensor>) -> Result<Tensor> {
    use SCALED_DOT_PRODUCT_ATTENTION::*;

    if let Err(error) = check_kind(query) {
        scores_sizes(query, key, mask)?;
        return Err(error);
    }
    let (p, causal) = (args.float(DROPOUT_P)?, args.bool(IS_CAUSAL)?);
    let width = query.sizes()[query.rank() - 1];
    // Vectors without elements have equal scores; an infinite scale would make them NaN.
    let scale = args.optional_scalar(SCALE).map_or_else(|| 1.0 / (width.max(1) as f64).sqrt(), Scalar::f64);
    // As in torch, a probability below zero, or none, drops nothing.
    if p.is_nan() || p <= 0.0 {
        let values = [query.into(), key.into(), value.into(), mask.into(), causal.into(), Value::from(scale)];
        let results = ATTENTION.call(values)?.into_tensors();
        return results.into_iter().next().ok_or_else(|| Error::runtime("attention gave no result"));
    }
    scores_sizes(query, key, mask)?;
    let scores = hidden(Expr::from(query) * scale, Expr::from(key), mask, causal)?;
    let seen = scores.clone().call(&crate::reduce::extreme::AMAX, [Ints::from_slice(&[-1]).into(), true.into()]);
    let some = seen.above(f64::NEG_INFINITY);
    let weights = some.choose(scores.call(&SOFTMAX, [(-1i64).into()]), 0.0);
    weights.call(&super::dropout::DROPOUT, [p.into(), true.into()]).matmul(Expr::from(value)).done()
}

/// The products of queries and keys, with masked ones removed.
fn hidden(query: Expr, key: Expr, mask: Option<&Tensor>, causal: bool) -> Result<Expr> {
    let scores = query.matmul(key.transposed()).done()?;
    let lowest = f64::NEG_INFINITY;
    let seen = match mask {
        Some(mask) if mask.dtype() == DType::Bool => Expr::from(mask).choose(Expr::from(&scores), lowest),
        Some(mask) => Expr::from(&scores) + Expr::from(to_dtype(mask, scores.dtype())?),
        None => Expr::from(&scores),
    };
    if !causal {
        return Ok(seen);
    }
    let sizes = &scores.sizes()[scores.rank() - 2..];
    let square = create::full(sizes, Scalar::Bool(true), DType::Bool, scores.device());
    Ok(Expr::from(square).call(&crate::join::tril::TRIL, []).choose(seen, lowest))
}

/// The sizes of the scores `(*, L, S)`; a mask must expand to them.
fn scores_sizes(query: &Tensor, key: &Tensor, mask: Option<&Tensor>) -> Result<Dims> {
    let (x, y) = (query.sizes(), key.sizes());
    let (own, other) = (query.rank(), key.rank());
    if own < 2 || other < 2 {
        return Err(Error::runtime("queries and keys are matrices"));
    }
    let mut sizes = broadcast(&x[..own - 2], &y[..other - 2])?;
    if x[own - 1] != y[other - 1] {
        if own == 2 && other == 2 {
            return Err(shape_error(x, &[y[1], y[0]]));
        }
        let batch: isize = sizes.iter().product();
        return Err(Error::runtime(format!(
            "Expected size for first two dimensions of batch2 tensor to be: [{batch}, {}] but got: [{batch}, {}].",
            x[own - 1],
            y[other - 1]
        ))
        .shapes([x.as_slice(), y.as_slice()]));
    }
    sizes.extend([x[own - 2], y[other - 2]]);
    if let Some(mask) = mask
        && broadcast(&sizes, mask.sizes())? != sizes
    {
        return Err(
            Error::runtime("a mask does not stretch to the scores").shapes([sizes.as_slice(), mask.sizes().as_slice()])
        );
    }
    Ok(sizes)
}

/// The result's sizes except for the last two dimensions.
fn batch_sizes(query: &Tensor, key: &Tensor, value: &Tensor, mask: Option<&Tensor>) -> Result<Dims> {
    let scores = scores_sizes(query, key, mask)?;
    let (at, rank) = (scores.len() - 2, value.rank());
    if rank < 2 || value.sizes()[rank - 2] != scores[at + 1] {
        let batch: isize = scores[..at].iter().product();
        return Err(Error::runtime(format!(
            "Expected size for first two dimensions of batch2 tensor to be: [{batch}, {}] but got: [{batch}, {}].",
            scores[at + 1],
            value.sizes().get(rank.wrapping_sub(2)).copied().unwrap_or(1)
        ))
        .shapes([scores.as_slice(), value.sizes().as_slice()]));
    }
    broadcast(&scores[..at], &value.sizes()[..rank - 2])
}
