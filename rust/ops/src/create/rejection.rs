//! New tensors of values drawn by rejection, and the derivatives of gamma and Dirichlet samples in their parameters.

#![allow(clippy::useless_conversion, reason = "expressions are pasted into loops of several types")]

use rushlight_autograd::Tensor;
use rushlight_core::broadcast::broadcast;
use rushlight_core::dtype::{bf16_, f16_};
use rushlight_core::{DType, Dims, Error, Result, dispatch};
use rushlight_cpu::loops;
use rushlight_cuda::rejection::Rejection;
use rushlight_dispatch::call::errors::not_implemented;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::generator::Generator;
use rushlight_dispatch::operator::{
    Args, DTypes, Derivative, Implementation, Kernel, OnCuda, Operator, Saves, Tags, TensorSpec, Variants, formula,
    operator,
};
use rushlight_dispatch::value::Arg;
use rushlight_rng::{Element, Stream, distributions};

use super::draw::{self, generator};
use super::fill::nothing;
use super::on_cuda;
use crate::create::sample_grad::{beta_sample_grad, gamma_sample_grad};
use crate::pointwise::float;

const BASE: Operator = Operator { variants: Variants::FUNCTION, dtypes: DTypes::FLOATS, ..Operator::BASE };

/// A result of the broadcast size of the tensors, in the first one's dtype.
fn meeting(args: &Args) -> Result<Vec<TensorSpec>> {
    let input = args.tensor(Arg::FIRST)?;
    let mut sizes = Dims::new();
    for (_, tensor) in args.each_tensor() {
        if tensor.dtype() != input.dtype() {
            return Err(Error::runtime(format!(
                "Found dtype {} but expected {}",
                tensor.dtype().display_name(),
                input.dtype().display_name()
            )));
        }
        sizes = broadcast(&sizes, tensor.sizes())?;
    }
    Ok(vec![TensorSpec::new(&sizes, input.dtype(), input)])
}

/// The elements of a tensor that is expanded to the result's size.
fn values<T: rushlight_core::Element>(tensor: &Tensor, result: &Tensor) -> Result<Vec<T>> {
    let layout = tensor.layout().broadcast_to(result.sizes())?;
    crate::convert::to_vec(&Tensor::new(tensor.storage().clone(), layout, tensor.dtype(), tensor.device()))
}

/// Fills the result in order with the values of `next`.
fn fill<T: Element>(result: &Tensor, generator: &Generator, next: impl Fn(&mut Stream, usize) -> f64) -> Result<()> {
    draw::fill::<T>(result, generator, |stream, out| {
        for (place, slot) in out.iter_mut().enumerate() {
            *slot = T::from_f64(next(stream, place));
        }
    })
}

/// A derivative that is not implemented; using it is an error.
pub fn unknown(name: &str) -> Expr {
    Expr::failed(Error::not_implemented(format!("derivative for aten::{name} is not implemented")))
}

#[operator]
pub static STANDARD_GAMMA: Operator = Operator {
    name: "_standard_gamma",
    signature: "(Tensor self, Generator? generator=None) -> Tensor",
    doc: "Values of gamma distributions of scale one, each with the shape parameter at its index.

    >>> torch._standard_gamma(torch.tensor([1., 9.])) > 0
    tensor([True, True])",
    tags: Tags::RANDOM,
    implementation: Implementation::Kernel(Kernel {
        infer: meeting,
        cpu: |args, results| {
            let (input, result) = (args.tensor(INPUT)?, &results[0]);
            dispatch!(input.dtype(), T in [f32, f64] => {
                let (alpha, least) = (values::<T>(input, result)?, f64::from(T::MIN_POSITIVE));
                fill::<T>(result, &generator(args, GENERATOR), |stream, place| {
                    distributions::standard_gamma(stream, alpha[place]).max(least)
                })
            }, else => Err(not_implemented(args.op, input.dtype())))
        },
        cuda: OnCuda::Own(|args, results| {
            let input = args.tensor(INPUT)?;
            on_cuda::reject(&results[0], &generator(args, GENERATOR), Rejection::StandardGamma, [input, input])
                .map(drop)
        }),
    }),
    dtypes: DTypes::of(&[DType::F32, DType::F64]),
    kernel_name: "gamma_cpu",
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT).union(Saves::RESULT), |d| {
        d.grad() * d.input(INPUT).with(&STANDARD_GAMMA_GRAD, d.result())
    })]),
    samples: &["pos(2, 3)", "pos(3, 2).t()"],
    errors: &[
        ("i(2)", "NotImplementedError", "\"gamma_cpu\" not implemented for 'Long'"),
        ("t(2).half()", "NotImplementedError", "\"gamma_cpu\" not implemented for 'Half'"),
    ],
    ..BASE
};

#[operator]
pub static STANDARD_GAMMA_GRAD: Operator = Operator {
    name: "_standard_gamma_grad",
    signature: "(Tensor self, Tensor output) -> Tensor",
    doc: "The derivatives of samples of gamma distributions in their shape parameters.

    >>> torch._standard_gamma_grad(torch.tensor([1.]), torch.tensor([1.]))
    tensor([1.1736])",
    implementation: float(loops! { for<S> [f32, f64] (|a, x| gamma_sample_grad(f64::from(a), f64::from(x)) as T) }),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::NOTHING, |_| unknown("_standard_gamma_grad")),
        formula(OUTPUT, Saves::NOTHING, |_| unknown("_standard_gamma_grad")),
    ]),
    samples: &["pos(2, 3), pos(2, 3)"],
    ..BASE
};

#[operator]
pub static DIRICHLET_GRAD: Operator = Operator {
    name: "_dirichlet_grad",
    signature: "(Tensor x, Tensor alpha, Tensor total) -> Tensor",
    doc: "The derivatives of samples `x` of beta distributions of `alpha` and `total - alpha` in `alpha`, divided by `1 - x`.

    >>> torch._dirichlet_grad(torch.tensor([0.5]), torch.tensor([1.]), torch.tensor([2.]))
    tensor([0.6931])",
    implementation: float(loops! {
        for<S> [f32, f64] (|x, a, t| beta_sample_grad(f64::from(x), f64::from(a), f64::from(t) - f64::from(a)) as T)
    }),
    derivative: Derivative::Formulas(&[
        formula(X, Saves::NOTHING, |_| unknown("_dirichlet_grad")),
        formula(ALPHA, Saves::NOTHING, |_| unknown("_dirichlet_grad")),
        formula(TOTAL, Saves::NOTHING, |_| unknown("_dirichlet_grad")),
    ]),
    samples: &["unit(2, 3).abs(), pos(2, 3), pos(2, 3) + 10"],
    ..BASE
};

fn invalid_rate() -> Error {
    Error::runtime("invalid Poisson rate, expected rate to be non-negative")
}

#[operator]
pub static POISSON: Operator = Operator {
    name: "poisson",
    signature: "(Tensor self, Generator? generator=None) -> Tensor",
    doc: "Values of Poisson distributions, each with the rate at its index.

    >>> torch.poisson(torch.tensor([0., 0.]))
    tensor([0., 0.])",
    tags: Tags::RANDOM,
    implementation: Implementation::Kernel(Kernel {
        infer: meeting,
        cpu: |args, results| {
            let (input, result) = (args.tensor(INPUT)?, &results[0]);
            dispatch!(input.dtype(), T in [f16_, bf16_, f32, f64] => {
                let rates = values::<f64>(input, result)?;
                if rates.iter().any(|rate| rate.is_nan() || *rate < 0.0) {
                    return Err(invalid_rate());
                }
                fill::<T>(result, &generator(args, GENERATOR), |stream, place| distributions::poisson(stream, rates[place]))
            }, else => Err(not_implemented(args.op, input.dtype())))
        },
        cuda: OnCuda::Own(|args, results| {
            let input = args.tensor(INPUT)?;
            match on_cuda::reject(&results[0], &generator(args, GENERATOR), Rejection::Poisson, [input, input])? {
                true => Ok(()),
                false => Err(invalid_rate()),
            }
        }),
    }),
    kernel_name: "poisson_cpu",
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, nothing)]),
    samples: &["pos(2, 3)", "pos(3, 2).t() * 20"],
    errors: &[
        ("torch.tensor([-1.])", "RuntimeError", "invalid Poisson rate, expected rate to be non-negative"),
        ("i(2)", "NotImplementedError", "\"poisson_cpu\" not implemented for 'Long'"),
    ],
    ..BASE
};

#[operator]
pub static BINOMIAL: Operator = Operator {
    name: "binomial",
    signature: "(Tensor count, Tensor prob, Generator? generator=None) -> Tensor",
    doc: "Values of binomial distributions: the number of successes in `count` trials of probability `prob`. The two broadcast.

    >>> torch.binomial(torch.tensor([5., 5.]), torch.tensor([0., 1.]))
    tensor([0., 5.])",
    check: Some(|args| {
        for (tensor, name) in [(args.tensor(COUNT)?, "count"), (args.tensor(PROB)?, "prob")] {
            if !tensor.dtype().is_floating() {
                let dtype = tensor.dtype().display_name();
                return Err(Error::value(format!("binomial only supports floating-point dtypes for {name}, got: {dtype}")));
            }
        }
        Ok(())
    }),
    tags: Tags::RANDOM,
    implementation: Implementation::Kernel(Kernel {
        infer: meeting,
        cpu: |args, results| {
            let result = &results[0];
            dispatch!(result.dtype(), T in [f32, f64] => {
                let (counts, chances) = (values::<T>(args.tensor(COUNT)?, result)?, values::<T>(args.tensor(PROB)?, result)?);
                fill::<T>(result, &generator(args, GENERATOR), |stream, place| {
                    distributions::binomial(stream, counts[place], chances[place])
                })
            }, else => Err(not_implemented(args.op, result.dtype())))
        },
        cuda: OnCuda::Own(|args, results| {
            let parameters = [args.tensor(COUNT)?, args.tensor(PROB)?];
            on_cuda::reject(&results[0], &generator(args, GENERATOR), Rejection::Binomial, parameters).map(drop)
        }),
    }),
    dtypes: DTypes::of(&[DType::F32, DType::F64]),
    kernel_name: "binomial_cpu",
    derivative: Derivative::Formulas(&[formula(COUNT, Saves::NOTHING, nothing), formula(PROB, Saves::NOTHING, nothing)]),
    samples: &["pos(2, 3) * 0 + 9, unit(2, 3).abs()", "pos(3) * 0 + 90, unit(3).abs()"],
    errors: &[
        ("torch.ones(2, dtype=torch.float64), t(2)", "RuntimeError", "Found dtype Float but expected Double"),
        ("i(2), t(2)", "ValueError", "binomial only supports floating-point dtypes for count, got: Long"),
        ("t(2), i(2)", "ValueError", "binomial only supports floating-point dtypes for prob, got: Long"),
        ("t(2).half(), t(2).half()", "NotImplementedError", "\"binomial_cpu\" not implemented for 'Half'"),
    ],
    ..BASE
};
