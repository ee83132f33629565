//! The bilinear map of two inputs.

use rushlight_autograd::Tensor;
use rushlight_core::layout::wrap_dim;
use rushlight_core::{Error, Result};
use rushlight_dispatch::operator::{Args, Autocast, DTypes, Derivative, Implementation, Operator, Variants, operator};
use rushlight_dispatch::value::{Output, sizes_value};
use rushlight_dispatch::{autocast, op};

use crate::linalg::matrix::{MATMUL, fold};
use crate::pointwise::arith::ADD;
use crate::view::transpose::permuted;

#[operator]
pub static BILINEAR: Operator = Operator {
    name: "bilinear",
    aliases: &["nn.functional.bilinear"],
    variants: Variants::FUNCTION,
    signature: "(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor",
    doc: "Combines two inputs through one matrix for each output.

    out[k] = input1 @ weight[k] @ input2 + bias[k]

Shapes: inputs `(*, in1)` and `(*, in2)`, weight `(out, in1, in2)`, bias `(out)`, result `(*, out)`.

    >>> torch.bilinear(torch.tensor([1., 2.]), torch.tensor([3.]), torch.ones(1, 2, 1))
    tensor([9.])",
    dtypes: DTypes::INEXACT,
    implementation: Implementation::CompositeImplicit(|args| bilinear(args).map(Output::Tensor)),
    derivative: Derivative::CompositeImplicit,
    autocast: Autocast::Promote.on_cuda_alone(),
    samples: &["t(2, 3), t(2, 4), t(5, 3, 4), t(5)", "t(3), t(4), t(5, 3, 4)", "t(2, 2, 3), t(2, 2, 4), t(5, 3, 4)"],
    errors: &[
        (
            "t(2, 3), t(2, 4), t(5, 3, 4).to(torch.float16)",
            "RuntimeError",
            "All tensors must have the same dtype, got input1: ",
        ),
        (
            "t(2, 2), t(2, 4), t(5, 3, 4)",
            "RuntimeError",
            "bilinear(): input1 size does not match weight size: got 2 but expected 3",
        ),
        (
            "t(2, 3), t(3, 4), t(5, 3, 4)",
            "RuntimeError",
            "bilinear(): input batch dimensions do not match at dim 0: got 2 and 3",
        ),
    ],
    reference: "np.einsum('...i,kij,...j->...k', input1, weight, input2) + (0 if bias is None else bias)",
    ..Operator::BASE
};

/// Checks that all tensors have one dtype, with torch's message.
fn check_dtypes(args: &Args) -> Result<()> {
    let params = &args.op.schema().params;
    let all = || args.each_tensor().map(|(at, tensor)| (&params[at], tensor));
    let dtype = args.tensor(BILINEAR::INPUT1)?.dtype();
    if all().all(|(_, tensor)| tensor.dtype() == dtype) {
        return Ok(());
    }
    let found: Vec<String> =
        all().map(|(param, tensor)| format!("{}: {}", param.name, tensor.dtype().c_name())).collect();
    Err(Error::runtime(format!("All tensors must have the same dtype, got {}", found.join(", "))))
}

/// The size of a dimension, or torch's error if there is none.
fn size(tensor: &Tensor, dim: usize) -> Result<isize> {
    if tensor.rank() == 0 {
        return Err(Error::index(format!("Dimension specified as {dim} but tensor has no dimensions")));
    }
    Ok(tensor.sizes()[wrap_dim(dim as i64, tensor.rank())?])
}

fn bilinear(args: &Args) -> Result<Tensor> {
    use BILINEAR::*;

    // Its products are explicit sums in torch, which mixed precision leaves in their dtype.
    let _off = autocast::disable();
    check_dtypes(args)?;
    let (x, y, weight, bias) =
        (args.tensor(INPUT1)?, args.tensor(INPUT2)?, args.tensor(WEIGHT)?, args.optional_tensor(BIAS));
    if x.rank() != y.rank() {
        return Err(Error::runtime(format!(
            "bilinear(): input dimensions do not match: got {} and {}",
            x.rank(),
            y.rank()
        )));
    }
    let (Some((own, batch)), Some((other, others))) = (x.sizes().split_last(), y.sizes().split_last()) else {
        return Err(Error::runtime("bilinear(): inputs must have at least one dimension"));
    };
    for (dim, (a, b)) in batch.iter().zip(others).enumerate() {
        if a != b {
            return Err(Error::runtime(format!(
                "bilinear(): input batch dimensions do not match at dim {dim}: got {a} and {b}"
            )));
        }
    }
    for (name, got, dim) in [("input1", *own, 1), ("input2", *other, 2)] {
        let expected = size(weight, dim)?;
        if got != expected {
            return Err(Error::runtime(format!(
                "bilinear(): {name} size does not match weight size: got {got} but expected {expected}"
            )));
        }
    }
    if let Some(bias) = bias {
        let (got, expected) = (size(bias, 0)?, size(weight, 0)?);
        if got != expected {
            return Err(Error::runtime(format!(
                "bilinear(): bias size does not match weight size: got {got} but expected {expected}"
            )));
        }
    }
    let &[out, first, second] = weight.sizes().as_slice() else {
        return Err(Error::runtime("number of dimensions must match"));
    };
    if x.dtype().is_wide_unsigned() {
        return Err(Error::unsupported("bmm", x.dtype()));
    }
    let reshape = |tensor: &Tensor, sizes: &[isize]| crate::view::RESHAPE.tensor([tensor.into(), sizes_value(sizes)]);
    let rows: isize = batch.iter().product();
    let matrices = reshape(&permuted(weight, &[1, 0, 2])?, &[first, out * second])?;
    let mixed = reshape(&op!(MATMUL, &fold(x)?, &matrices)?, &[rows, out, second])?;
    let mut shape = batch.to_vec();
    shape.push(out);
    let result = reshape(&op!(MATMUL, &mixed, &reshape(y, &[rows, second, 1])?)?, &shape)?;
    match bias {
        Some(bias) => op!(ADD, &result, bias),
        None => Ok(result),
    }
}
