//! Numbers as mantissa and exponent.

use rushlight_autograd::Tensor;
use rushlight_core::dtype::{bf16_, f16_};
use rushlight_core::{DType, Element, Error, Layout, Result, Scalar, dispatch};
use rushlight_cuda::frexp;
use rushlight_dispatch::copy;
use rushlight_dispatch::operator::{
    Accepts, Args, BatchRule, DTypes, Derivative, Implementation, Kernel, OnCuda, Operator, Out, Saves, TensorSpec,
    Variants, formula, operator,
};

use crate::held::Held;

#[operator]
pub static FREXP: Operator = Operator {
    name: "frexp",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self) -> (Tensor mantissa, Tensor exponent)",
    doc: "Each element as a mantissa from 0.5 to 1 and a power of two.

    self = mantissa * 2 ** exponent

    >>> torch.frexp(torch.tensor([1., -3.]))
    torch.return_types.frexp(
    mantissa=tensor([ 0.5000, -0.7500]),
    exponent=tensor([1, 2], dtype=torch.int32))",
    out: Out::new(
        Accepts::Same,
        &[
            "torch.frexp() expects mantissa to have dtype {result} but got {out}",
            "torch.frexp() expects exponent to have int dtype but got {out}",
        ],
    ),
    dtypes: DTypes::FLOATS,
    check: Some(|args| match args.tensor(INPUT)?.dtype().is_floating() {
        true => Ok(()),
        false => Err(Error::runtime("torch.frexp() only supports floating-point dtypes")),
    }),
    batch_rule: BatchRule::Broadcast,
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let input = args.tensor(INPUT)?;
            let layout =
                Layout { sizes: input.sizes().clone(), strides: input.layout().preserved_strides(), offset: 0 };
            let spec = |dtype| TensorSpec { layout: layout.clone(), dtype, device: input.device() };
            Ok(vec![spec(input.dtype()), spec(DType::I32)])
        },
        cpu: |args, results| dispatch!(results[0].dtype(), T in [f16_, bf16_, f32, f64] => run::<T>(args, results), else => Ok(())),
        cuda: OnCuda::Own(|args, results| {
            let own = in_order(args, &results[0])?;
            if own.numel() == 0 {
                return Ok(());
            }
            let mut held = Held::on(&own)?;
            let operands = held.addresses([&own, &results[0], &results[1]])?;
            // SAFETY: dense operands of as many elements in one order, held for the stream.
            unsafe { frexp::frexp(held.card, held.stream, own.dtype(), operands, own.numel()) }
        }),
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::result(1), |d| {
        d.grad() / d.result_of(1).call(&super::explog::EXP2, [])
    })]),
    samples: &["t(2, 3)", "t(3, 2).t()", "t()", "t(0)"],
    errors: &[("i(3, 2)", "RuntimeError", "torch.frexp() only supports floating-point dtypes")],
    reference: "np.frexp(self)",
    ..Operator::BASE
};

fn split(x: f64) -> (f64, i32) {
    if x == 0.0 || !x.is_finite() {
        return (x, 0);
    }
    let bits = x.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32;
    if exponent == 0 {
        // A subnormal number.
        let (mantissa, power) = split(x * 2f64.powi(64));
        return (mantissa, power - 64);
    }
    (f64::from_bits(bits & !(0x7ff << 52) | 1022 << 52), exponent - 1022)
}

/// The operand in the layout of the results, so that the order of memory is an order of elements.
fn in_order(args: &Args, result: &Tensor) -> Result<Tensor> {
    let (given, layout) = (args.tensor(FREXP::INPUT)?, result.layout());
    if given.layout().strides == layout.strides { Ok(given.clone()) } else { copy::laid_out(given, layout.clone()) }
}

fn run<T: Element>(args: &Args, results: &[Tensor]) -> Result<()> {
    let own = in_order(args, &results[0])?;
    let count = own.numel();
    let pins = (own.storage().pin()?, results[0].storage().pin()?, results[1].storage().pin()?);
    let from = pins.0.as_ptr().cast::<T>().wrapping_offset(own.layout().offset) as usize;
    let (mantissas, exponents) = (pins.1.as_ptr() as usize, pins.2.as_ptr() as usize);
    rushlight_par::parallel_for(count, 1 << 14, |range| {
        for at in range {
            // SAFETY: dense operands of `count` elements in one order; each result is written once.
            unsafe {
                let (mantissa, exponent) = split((*(from as *const T).add(at)).to_scalar().f64());
                (mantissas as *mut T).add(at).write(T::from_scalar(Scalar::Float(mantissa)));
                (exponents as *mut i32).add(at).write(exponent);
            }
        }
    });
    Ok(())
}
