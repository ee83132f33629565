//! Products whose result has another dtype than the factors: `mm(a, b, out_dtype=torch.float32)` of half-precision
//! matrices. As in torch the CPU refuses them.
//!
//! They are not in the table, because its tests run on the CPU.

use rushlight_autograd::Tensor;
use rushlight_core::error::Class;
use rushlight_core::{DType, Device, Error, Result};
use rushlight_dispatch::operator::{
    Args, DTypes, Derivative, ExplicitAutograd, Implementation, Operator, Out, Variants, operator,
};
use rushlight_dispatch::value::{Arg, Output, Value, Values};

use super::addmm::{ADDMM, BADDBMM};
use super::matrix::{BMM, MM};
use crate::convert::to_dtype;

pub static OPERATORS: &[&Operator] = &[&MM_DTYPE, &BMM_DTYPE, &ADDMM_DTYPE, &BADDBMM_DTYPE];

const BASE: Operator = Operator {
    variants: Variants::FUNCTION.union(Variants::OUT),
    out: Out::EXACT,
    dtypes: DTypes::NUMBERS,
    ..Operator::BASE
};

const MATRICES: &str = "out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs";
const BATCHES: &str =
    "out_dtype only supported for torch.float32 output with float16/bfloat16 inputs or same as input dtypes";

#[operator]
pub static MM_DTYPE: Operator = Operator {
    name: "mm.dtype",
    signature: "(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor",
    doc: "The product of two matrices on a GPU, with sums and results in `out_dtype`: the dtype of the matrices, or
    `float32` if it is `float16` or `bfloat16`.",
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        product(args, &MM, OUT_DTYPE, MAT2, MATRICES)
    })),
    derivative: Derivative::NotImplemented("aten::mm.dtype"),
    ..BASE
};

#[operator]
pub static BMM_DTYPE: Operator = Operator {
    name: "bmm.dtype",
    signature: "(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor",
    doc: "Products of two batches of matrices on a GPU, with sums and results in `out_dtype`: the dtype of the
    matrices, or `float32` if it is `float16` or `bfloat16`.",
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        product(args, &BMM, OUT_DTYPE, MAT2, BATCHES)
    })),
    derivative: Derivative::NotImplemented("aten::bmm.dtype"),
    ..BASE
};

#[operator]
pub static ADDMM_DTYPE: Operator = Operator {
    name: "addmm.dtype",
    signature: "(Tensor self, Tensor mat1, Tensor mat2, ScalarType out_dtype, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    doc: "The product of two matrices added to a third on a GPU, with sums and results in `out_dtype`: the dtype of the
    matrices, or `float32` if it is `float16` or `bfloat16`.",
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        product(args, &ADDMM, OUT_DTYPE, MAT2, MATRICES)
    })),
    derivative: Derivative::NotImplemented("aten::addmm.dtype"),
    ..BASE
};

#[operator]
pub static BADDBMM_DTYPE: Operator = Operator {
    name: "baddbmm.dtype",
    signature: "(Tensor self, Tensor batch1, Tensor batch2, ScalarType out_dtype, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    doc: "Products of two batches of matrices added to a third on a GPU, with sums and results in `out_dtype`: the
    dtype of the matrices, or `float32` if it is `float16` or `bfloat16`.",
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        product(args, &BADDBMM, OUT_DTYPE, BATCH2, BATCHES)
    })),
    derivative: Derivative::NotImplemented("aten::baddbmm.dtype"),
    ..BASE
};

/// The operator without `out_dtype` on tensors of that dtype, which has the factors' digits exactly.
fn product(args: &Args, op: &'static Operator, out_dtype: Arg, factor: Arg, refusal: &'static str) -> Result<Output> {
    let factor = args.tensor(factor)?;
    if factor.device() == Device::Cpu {
        return Err(Error::new(
            Class::NotImplemented,
            format!(
                "Could not run 'aten::{}' with arguments from the 'CPU' backend. This could be because the operator doesn't exist for this backend, or was omitted during the selective/custom build process (if using custom build).",
                args.op.name
            ),
        )
        .hint("Only GPUs have products with another dtype: convert the tensors with to(out_dtype)."));
    }
    let (own, wanted) = (factor.dtype(), args.dtype(out_dtype).unwrap_or(factor.dtype()));
    if wanted != own && !(wanted == DType::F32 && matches!(own, DType::F16 | DType::BF16)) {
        return Err(Error::runtime(refusal));
    }
    // Tensors of other dtypes reach the operator as they are, which refuses them.
    let cast = |tensor: &Tensor| if tensor.dtype() == own { to_dtype(tensor, wanted) } else { Ok(tensor.clone()) };
    let mut values = Values::new();
    for value in &args.values {
        match value {
            Value::DType(_) => {}
            other => values.push(match other.as_tensor() {
                Some(tensor) => Value::Own(cast(tensor)?),
                None => other.clone(),
            }),
        }
    }
    Args { op, values }.call()
}
