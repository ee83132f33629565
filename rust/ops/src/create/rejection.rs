//! New tensors of values that are drawn by rejection, and how gamma and Dirichlet samples move with their parameters.

#![allow(clippy::useless_conversion, reason = "expressions are pasted into loops of several types")]

use rushlight_autograd::Tensor;
use rushlight_core::broadcast::broadcast;
use rushlight_core::dtype::{bf16_, f16_};
use rushlight_core::layout::Dims;
use rushlight_core::{DType, Error, Result, dispatch};
use rushlight_cpu::tiles;
use rushlight_rng::{Element, Stream, distributions};

use super::draw::{self, generator};
use super::overwrite::nothing;
use crate::call::not_implemented;
use crate::create::slopes::{beta_slope, gamma_slope};
use crate::derive::{Derivative, Saves, formula};
use crate::expr::Expr;
use crate::generator::Generator;
use crate::pointwise::float;
use crate::row::{DTypes, Kernel, Row, Run, Spec, Traits, Variants};
use crate::value::Args;

const BASE: Row = Row { variants: Variants::FUNCTION, dtypes: DTypes::FLOATS, ..Row::BASE };

/// A result of the size in which the tensors meet, in the first one's dtype.
fn meeting(args: &Args) -> Result<Vec<Spec>> {
    let own = args.tensor(0)?;
    let mut sizes = Dims::new();
    for (_, tensor) in args.each_tensor() {
        if tensor.dtype() != own.dtype() {
            return Err(Error::runtime(format!(
                "Found dtype {} but expected {}",
                tensor.dtype().title(),
                own.dtype().title()
            )));
        }
        sizes = broadcast(&sizes, tensor.sizes())?;
    }
    Ok(vec![Spec::new(&sizes, own.dtype(), own)])
}

/// The elements of a tensor that is spread over the result's size.
fn values<T: rushlight_core::Element>(tensor: &Tensor, result: &Tensor) -> Result<Vec<T>> {
    let layout = tensor.layout().broadcast_to(result.sizes())?;
    crate::convert::to_vec(&Tensor::new(tensor.storage().clone(), layout, tensor.dtype(), tensor.device()))
}

/// Fills the result in order with what `next` draws for each place.
fn fill<T: Element>(result: &Tensor, generator: &Generator, next: impl Fn(&mut Stream, usize) -> f64) -> Result<()> {
    draw::fill::<T>(result, generator, |stream, out| {
        for (place, slot) in out.iter_mut().enumerate() {
            *slot = T::from_f64(next(stream, place));
        }
    })
}

/// The derivative of what nobody has differentiated: asking for it is an error.
pub fn unknown(name: &str) -> Expr {
    Expr::failed(Error::not_implemented(format!("derivative for aten::{name} is not implemented")))
}

pub static STANDARD_GAMMA: Row = Row {
    name: "_standard_gamma",
    signature: "(Tensor self, *, Generator? generator=None) -> Tensor",
    doc: "Values of gamma distributions of scale one, each with the shape at its place.

    >>> torch._standard_gamma(torch.tensor([1., 9.])) > 0
    tensor([True, True])",
    traits: Traits::DRAWS,
    run: Run::Kernel(Kernel {
        infer: meeting,
        cpu: |args, results| {
            let (own, result) = (args.tensor(0)?, &results[0]);
            dispatch!(own.dtype(), T in [f32, f64] => {
                let (alpha, least) = (values::<T>(own, result)?, f64::from(T::MIN_POSITIVE));
                fill::<T>(result, &generator(args, 1), |stream, place| {
                    distributions::standard_gamma(stream, alpha[place]).max(least)
                })
            }, else => Err(not_implemented(args.row, own.dtype())))
        },
    }),
    dtypes: DTypes::of(&[DType::F32, DType::F64]),
    refuses: "gamma_cpu",
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0).union(Saves::RESULT), |d| {
        d.grad() * d.input(0).with(&STANDARD_GAMMA_GRAD, d.result())
    })]),
    samples: &["pos(2, 3)", "pos(3, 2).t()"],
    errors: &[
        ("i(2)", "NotImplementedError", "\"gamma_cpu\" not implemented for 'Long'"),
        ("t(2).half()", "NotImplementedError", "\"gamma_cpu\" not implemented for 'Half'"),
    ],
    ..BASE
};

pub static STANDARD_GAMMA_GRAD: Row = Row {
    name: "_standard_gamma_grad",
    signature: "(Tensor self, Tensor output) -> Tensor",
    doc: "How samples of gamma distributions move with their shapes.

    >>> torch._standard_gamma_grad(torch.tensor([1.]), torch.tensor([1.]))
    tensor([1.1736])",
    run: float(tiles! { for<S> [f32, f64] (|a, x| gamma_slope(f64::from(a), f64::from(x)) as T) }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::NOTHING, |_| unknown("_standard_gamma_grad")),
        formula(1, Saves::NOTHING, |_| unknown("_standard_gamma_grad")),
    ]),
    samples: &["pos(2, 3), pos(2, 3)"],
    ..BASE
};

pub static DIRICHLET_GRAD: Row = Row {
    name: "_dirichlet_grad",
    signature: "(Tensor x, Tensor alpha, Tensor total) -> Tensor",
    doc: "How samples of beta distributions of `alpha` and `total - alpha` move with `alpha`, by `1 - x`.

    >>> torch._dirichlet_grad(torch.tensor([0.5]), torch.tensor([1.]), torch.tensor([2.]))
    tensor([0.6931])",
    run: float(tiles! {
        for<S> [f32, f64] (|x, a, t| beta_slope(f64::from(x), f64::from(a), f64::from(t) - f64::from(a)) as T)
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::NOTHING, |_| unknown("_dirichlet_grad")),
        formula(1, Saves::NOTHING, |_| unknown("_dirichlet_grad")),
        formula(2, Saves::NOTHING, |_| unknown("_dirichlet_grad")),
    ]),
    samples: &["unit(2, 3).abs(), pos(2, 3), pos(2, 3) + 10"],
    ..BASE
};

pub static POISSON: Row = Row {
    name: "poisson",
    signature: "(Tensor self, *, Generator? generator=None) -> Tensor",
    doc: "Values of Poisson distributions, each with the rate at its place.

    >>> torch.poisson(torch.tensor([0., 0.]))
    tensor([0., 0.])",
    traits: Traits::DRAWS,
    run: Run::Kernel(Kernel {
        infer: meeting,
        cpu: |args, results| {
            let (own, result) = (args.tensor(0)?, &results[0]);
            dispatch!(own.dtype(), T in [f16_, bf16_, f32, f64] => {
                let rates = values::<f64>(own, result)?;
                if rates.iter().any(|rate| rate.is_nan() || *rate < 0.0) {
                    return Err(Error::runtime("invalid Poisson rate, expected rate to be non-negative"));
                }
                fill::<T>(result, &generator(args, 1), |stream, place| distributions::poisson(stream, rates[place]))
            }, else => Err(not_implemented(args.row, own.dtype())))
        },
    }),
    refuses: "poisson_cpu",
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, nothing)]),
    samples: &["pos(2, 3)", "pos(3, 2).t() * 20"],
    errors: &[
        ("torch.tensor([-1.])", "RuntimeError", "invalid Poisson rate, expected rate to be non-negative"),
        ("i(2)", "NotImplementedError", "\"poisson_cpu\" not implemented for 'Long'"),
    ],
    ..BASE
};

pub static BINOMIAL: Row = Row {
    name: "binomial",
    signature: "(Tensor count, Tensor prob, *, Generator? generator=None) -> Tensor",
    doc: "Values of binomial distributions: how many of `count` trials succeed with probability `prob`. The two broadcast.

    >>> torch.binomial(torch.tensor([5., 5.]), torch.tensor([0., 1.]))
    tensor([0., 5.])",
    check: Some(|args| {
        for (tensor, name) in [(args.tensor(0)?, "count"), (args.tensor(1)?, "prob")] {
            if !tensor.dtype().is_floating() {
                let dtype = tensor.dtype().title();
                return Err(Error::value(format!("binomial only supports floating-point dtypes for {name}, got: {dtype}")));
            }
        }
        Ok(())
    }),
    traits: Traits::DRAWS,
    run: Run::Kernel(Kernel {
        infer: meeting,
        cpu: |args, results| {
            let result = &results[0];
            dispatch!(result.dtype(), T in [f32, f64] => {
                let (counts, chances) = (values::<T>(args.tensor(0)?, result)?, values::<T>(args.tensor(1)?, result)?);
                fill::<T>(result, &generator(args, 2), |stream, place| {
                    distributions::binomial(stream, counts[place], chances[place])
                })
            }, else => Err(not_implemented(args.row, result.dtype())))
        },
    }),
    dtypes: DTypes::of(&[DType::F32, DType::F64]),
    refuses: "binomial_cpu",
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, nothing), formula(1, Saves::NOTHING, nothing)]),
    samples: &["pos(2, 3) * 0 + 9, unit(2, 3).abs()", "pos(3) * 0 + 90, unit(3).abs()"],
    errors: &[
        ("torch.ones(2, dtype=torch.float64), t(2)", "RuntimeError", "Found dtype Float but expected Double"),
        ("i(2), t(2)", "ValueError", "binomial only supports floating-point dtypes for count, got: Long"),
        ("t(2), i(2)", "ValueError", "binomial only supports floating-point dtypes for prob, got: Long"),
        ("t(2).half(), t(2).half()", "NotImplementedError", "\"binomial_cpu\" not implemented for 'Half'"),
    ],
    ..BASE
};
