//! Membership tests.

use std::collections::HashSet;
use std::hash::Hash;

use rushlight_autograd::Tensor;
use rushlight_core::alloc::{collected, out_of_memory};
use rushlight_core::dtype::promote;
use rushlight_core::{DType, Device, Error, Result};
use rushlight_dispatch::create::scalar_of;
use rushlight_dispatch::operator::{
    Accepts, Args, BatchRule, BatchedCall, DTypes, Derivative, Implementation, Kernel, OnCuda, Operator, Out,
    TensorSpec, Variants, operator,
};
use rushlight_dispatch::value::{Arg, Output, Value};
use rushlight_dispatch::vmap::RuleResult;
use rushlight_dispatch::{create, op};

use super::on_cuda;
use super::search::{SEARCHSORTED, lines, shaped};
use super::sort::SORT;
use crate::convert::{to_dtype, to_vec};
use crate::index::gather::GATHER;
use crate::pointwise::clamp::CLAMP_MAX;
use crate::pointwise::compare::EQ;
use crate::pointwise::logical::LOGICAL_NOT;

const COMPARED: DTypes = DTypes::REAL.union(DTypes::WIDE);

/// torch makes a tensor of a number, whose dtype may not be compared.
fn check_numbers(args: &Args) -> Result<()> {
    let number = [ISIN::ELEMENTS, ISIN::TEST_ELEMENTS].into_iter().find_map(|arg| args.optional_scalar(arg));
    let dtype = match number {
        Some(number) if number.is_bool() => DType::Bool,
        Some(number) if number.is_complex() => DType::C128,
        _ => return Ok(()),
    };
    Err(Error::runtime(format!("Unsupported input type encountered for isin(): {}", dtype.display_name())))
}

#[operator]
pub static ISIN: Operator = Operator {
    name: "isin",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor|Scalar elements, Tensor|Scalar test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor",
    doc: "Whether each of `elements` is in `test_elements`, or with `invert` is not. One of the two may be a number.

    >>> torch.isin(torch.tensor([1, 2, 3]), torch.tensor([2, 9]))
    tensor([False,  True, False])",
    out: Out::new(Accepts::Same, &["Expected out tensor to have dtype {result}, but got {out} instead"]),
    dtypes: COMPARED,
    batch_rule: BatchRule::Custom(batched_isin),
    check: Some(|args| {
        crate::pointwise::some_tensor(args)?;
        match args.each_tensor().find(|(_, tensor)| !COMPARED.has(tensor.dtype())) {
            Some((_, tensor)) => Err(Error::runtime(format!(
                "Unsupported input type encountered for isin(): {}",
                tensor.dtype().display_name()
            ))
            .hint("Convert it first: x.to(torch.uint8).")),
            None => check_numbers(args),
        }
    }),
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let like = args.optional_tensor(ELEMENTS).map_or_else(|| args.tensor(TEST_ELEMENTS), Ok)?;
            let sizes = args.optional_tensor(ELEMENTS).map(|tensor| tensor.sizes().clone()).unwrap_or_default();
            Ok(vec![TensorSpec::new(&sizes, DType::Bool, like)])
        },
        cpu: |args, results| {
            let dtype = common(args)?;
            let invert = args.bool(INVERT)?;
            let found = if dtype.is_integral() {
                let tests = set(numbers(args, TEST_ELEMENTS, dtype, to_vec::<i64>)?)?;
                collected(numbers(args, ELEMENTS, dtype, to_vec::<i64>)?.iter().map(|x| tests.contains(x) != invert))?
            } else {
                // Both zeros are equal, and NaN is not equal to itself.
                let bits = |x: f64| (x + 0.0).to_bits();
                let tests = set(collected(numbers(args, TEST_ELEMENTS, dtype, to_vec::<f64>)?.into_iter().map(bits))?)?;
                let own = numbers(args, ELEMENTS, dtype, to_vec::<f64>)?;
                collected(own.into_iter().map(|x| (!x.is_nan() && tests.contains(&bits(x))) != invert))?
            };
            let pin = results[0].storage().pin()?;
            // SAFETY: the result is new, row-major, and has a byte for each element.
            unsafe { std::ptr::copy_nonoverlapping(found.as_ptr().cast::<u8>(), pin.as_ptr(), found.len()) };
            Ok(())
        },
        cuda: OnCuda::Own(|args, results| {
            let (dtype, device) = (common(args)?, results[0].device());
            let side = |arg| match args.optional_tensor(arg) {
                Some(tensor) => to_dtype(&tensor.detach(), dtype),
                None => scalar_of(args.scalar(arg)?, dtype, device),
            };
            on_cuda::write_members(&side(ELEMENTS)?, &side(TEST_ELEMENTS)?, args.bool(INVERT)?, &results[0])
        }),
    }),
    derivative: Derivative::NonDifferentiable("its results are bool"),
    samples: &["t(2, 3), t(4)", "t(5), t(2, 2), invert=True", "t(4), 1", "2, t(3)", "t(0), t(3)"],
    errors: &[("t(2) > 0, t(2)", "RuntimeError", "Unsupported input type encountered for isin(): Bool")],
    reference: "np.isin(elements, test_elements, invert=invert)",
    ..Operator::BASE
};

/// The dtype in which both sides are compared.
fn common(args: &Args) -> Result<DType> {
    use ISIN::*;

    match (args.optional_tensor(ELEMENTS), args.optional_tensor(TEST_ELEMENTS)) {
        (Some(a), Some(b)) => promote(a.dtype(), b.dtype()),
        (Some(one), None) | (None, Some(one)) => {
            let number = args.scalar(if args.has_tensor(ELEMENTS) { TEST_ELEMENTS } else { ELEMENTS })?;
            let whole = number.is_integral() || number.is_bool();
            Ok(if one.dtype().is_integral() && !whole { DType::F64 } else { one.dtype() })
        }
        (None, None) => Err(args.needs_tensor()),
    }
}

fn numbers<T>(args: &Args, arg: Arg, dtype: DType, read: fn(&Tensor) -> Result<Vec<T>>) -> Result<Vec<T>> {
    match args.optional_tensor(arg) {
        Some(tensor) => read(&to_dtype(&tensor.detach(), dtype)?),
        None => read(&scalar_of(args.scalar(arg)?, dtype, rushlight_core::Device::Cpu)?),
    }
}

/// The numbers as a set, or an error if there is no memory for it.
fn set<T: Eq + Hash>(numbers: Vec<T>) -> Result<HashSet<T>> {
    let mut set = HashSet::new();
    set.try_reserve(numbers.len()).map_err(|_| out_of_memory(numbers.len().saturating_mul(size_of::<T>())))?;
    set.extend(numbers);
    Ok(set)
}

/// Each sample's elements are searched in its own sorted values.
fn batched_isin(batch: &BatchedCall) -> RuleResult {
    use ISIN::*;

    let (args, invert) = (batch.args, batch.args.bool(INVERT)?);
    if batch.size == 0 {
        return Ok(None);
    }
    if !batch.differs_at(TEST_ELEMENTS) {
        if !args.has_tensor(ELEMENTS) {
            return Ok(None);
        }
        let tests = if args.has_tensor(TEST_ELEMENTS) {
            Value::Own(batch.one(TEST_ELEMENTS)?)
        } else {
            args.value(TEST_ELEMENTS).clone()
        };
        return op!(ISIN, batch.tensor(ELEMENTS)?, tests, args.bool(ASSUME_UNIQUE)?, invert)
            .map(|found| Some(Output::Tensor(found)));
    }
    let dtype = common(args)?;
    let own = match args.has_tensor(ELEMENTS) {
        true => to_dtype(&batch.tensor(ELEMENTS)?, dtype)?,
        false => create::scalar_of(args.scalar(ELEMENTS)?, dtype, Device::Cpu)?,
    };
    let (own, tests) = (lines(&own, batch.size)?, lines(&to_dtype(&batch.tensor(TEST_ELEMENTS)?, dtype)?, batch.size)?);
    let count = tests.sizes()[1] as i64;
    if count == 0 {
        return Ok(None);
    }
    let sorted = SORT.call([tests.into(), 1i64.into()])?.into_tensors().swap_remove(0);
    let places = op!(CLAMP_MAX, op!(SEARCHSORTED, &sorted, &own)?, count - 1)?;
    let found = op!(EQ, op!(GATHER, &sorted, 1i64, places)?, own)?;
    shaped(batch, if invert { op!(LOGICAL_NOT, found)? } else { found }, ELEMENTS)
}
