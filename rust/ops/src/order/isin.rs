//! Which elements are among others.

use std::collections::HashSet;
use std::hash::Hash;

use rushlight_autograd::Tensor;
use rushlight_core::alloc::{collected, out_of_memory};
use rushlight_core::dtype::promote;
use rushlight_core::{DType, Error, Result};

use crate::convert::{to_dtype, to_vec};
use crate::create::scalar_of;
use crate::derive::Derivative;
use crate::mapped::Mapped;
use crate::row::{Accepts, DTypes, Kernel, Out, Row, Run, Spec, Variants};
use crate::value::Args;

const COMPARED: DTypes = DTypes::REAL.union(DTypes::WIDE);

pub static ISIN: Row = Row {
    name: "isin",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor|Scalar elements, Tensor|Scalar test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor",
    doc: "Which of `elements` are among `test_elements`, or with `invert` are not. One of the two may be a number.

    >>> torch.isin(torch.tensor([1, 2, 3]), torch.tensor([2, 9]))
    tensor([False,  True, False])",
    out: Out::new(Accepts::Same, &["Expected out tensor to have dtype {result}, but got {out} instead"]),
    dtypes: COMPARED,
    mapped: Mapped::Rule(super::mapped::isin),
    check: Some(|args| {
        crate::pointwise::some_tensor(args)?;
        match args.each_tensor().find(|(_, tensor)| !COMPARED.has(tensor.dtype())) {
            Some((_, tensor)) => Err(Error::runtime(format!(
                "Unsupported input type encountered for isin(): {}",
                tensor.dtype().title()
            ))
            .hint("Convert it first: x.to(torch.uint8).")),
            None => Ok(()),
        }
    }),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let like = args.optional_tensor(0).map_or_else(|| args.tensor(1), Ok)?;
            let sizes = args.optional_tensor(0).map(|tensor| tensor.sizes().clone()).unwrap_or_default();
            Ok(vec![Spec::new(&sizes, DType::Bool, like)])
        },
        cpu: |args, results| {
            let dtype = common(args)?;
            let invert = args.bool(3)?;
            let found = if dtype.is_integral() {
                let tests = set(numbers(args, 1, dtype, to_vec::<i64>)?)?;
                collected(numbers(args, 0, dtype, to_vec::<i64>)?.iter().map(|x| tests.contains(x) != invert))?
            } else {
                // Both zeros are equal, and NaN is not even itself.
                let bits = |x: f64| (x + 0.0).to_bits();
                let tests = set(collected(numbers(args, 1, dtype, to_vec::<f64>)?.into_iter().map(bits))?)?;
                let own = numbers(args, 0, dtype, to_vec::<f64>)?;
                collected(own.into_iter().map(|x| (!x.is_nan() && tests.contains(&bits(x))) != invert))?
            };
            let pin = results[0].storage().pin()?;
            // SAFETY: the result is fresh, row-major, and has a byte for each element.
            unsafe { std::ptr::copy_nonoverlapping(found.as_ptr().cast::<u8>(), pin.as_ptr(), found.len()) };
            Ok(())
        },
    }),
    derivative: Derivative::NonDifferentiable("its results are bool"),
    samples: &["t(2, 3), t(4)", "t(5), t(2, 2), invert=True", "t(4), 1", "2, t(3)", "t(0), t(3)"],
    errors: &[("t(2) > 0, t(2)", "RuntimeError", "Unsupported input type encountered for isin(): Bool")],
    reference: "np.isin(elements, test_elements, invert=invert)",
    ..Row::BASE
};

/// The dtype in which both sides are compared.
pub fn common(args: &Args) -> Result<DType> {
    match (args.optional_tensor(0), args.optional_tensor(1)) {
        (Some(a), Some(b)) => promote(a.dtype(), b.dtype()),
        (Some(one), None) | (None, Some(one)) => {
            let number = args.scalar(usize::from(args.has_tensor(0)))?;
            let whole = number.is_integral() || number.is_bool();
            Ok(if one.dtype().is_integral() && !whole { DType::F64 } else { one.dtype() })
        }
        (None, None) => Err(args.needs_tensor()),
    }
}

fn numbers<T>(args: &Args, place: usize, dtype: DType, read: fn(&Tensor) -> Result<Vec<T>>) -> Result<Vec<T>> {
    match args.optional_tensor(place) {
        Some(tensor) => read(&to_dtype(&tensor.detach(), dtype)?),
        None => read(&scalar_of(args.scalar(place)?, dtype, rushlight_core::Device::Cpu)?),
    }
}

/// The numbers as a set, or an error where there is no memory for one.
fn set<T: Eq + Hash>(numbers: Vec<T>) -> Result<HashSet<T>> {
    let mut set = HashSet::new();
    set.try_reserve(numbers.len()).map_err(|_| out_of_memory(numbers.len().saturating_mul(size_of::<T>())))?;
    set.extend(numbers);
    Ok(set)
}
