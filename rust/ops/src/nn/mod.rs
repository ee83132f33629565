//! Functions of neural networks.

pub mod attention;
pub mod bilinear;
pub mod conv;
pub mod cross_entropy;
pub mod ctc;
mod ctc_on_cuda;
mod cudnn;
pub mod distance;
pub mod dropout;
pub mod embedding;
pub mod embedding_bag;
pub mod fold;
pub mod grid_sample;
pub mod linear;
pub mod loss;
pub mod margin;
pub mod mix;
pub mod multilabel;
pub mod nll;
mod nll_on_cuda;
pub mod norm;
pub mod pixel_shuffle;
pub mod pool;
pub mod prelu;
pub mod recurrent;
pub mod taps;

pub use crate::front::{Linear, MSELoss};

use rushlight_autograd::Tensor;
use rushlight_core::{Error, Result};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::BackwardContext;
use rushlight_dispatch::value::Arg;
use rushlight_dispatch::{create, interpreter, op};

/// How the losses of the elements are combined.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Reduction {
    None,
    #[default]
    Mean,
    Sum,
}

impl Reduction {
    pub fn parse(text: &str) -> Result<Reduction> {
        if text == "elementwise_mean" {
            interpreter::warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.")?;
            return Ok(Reduction::Mean);
        }
        Reduction::parse_or(text, "is not a valid value for reduction")
    }

    /// Parses one of the three words; torch's message otherwise.
    pub fn parse_or(text: &str, complaint: &str) -> Result<Reduction> {
        match text {
            "none" => Ok(Reduction::None),
            "mean" => Ok(Reduction::Mean),
            "sum" => Ok(Reduction::Sum),
            _ => Err(Error::value(format!("{text} {complaint}")).hint("It must be \"mean\", \"sum\" or \"none\".")),
        }
    }

    /// The number that operators store for their derivative.
    pub fn code(self) -> i64 {
        self as i64
    }

    pub fn of_code(code: i64) -> Reduction {
        match code {
            0 => Reduction::None,
            1 => Reduction::Mean,
            2 => Reduction::Sum,
            _ => Reduction::None,
        }
    }

    pub fn apply(self, losses: Tensor) -> Result<Tensor> {
        match self {
            Reduction::None => Ok(losses),
            Reduction::Sum => op!(crate::reduce::SUM, &losses),
            Reduction::Mean => op!(crate::reduce::sum::MEAN, &losses),
        }
    }
}

/// The gradient of an argument whose values do not matter.
pub fn zeros_like_input(d: &BackwardContext, arg: Arg) -> Expr {
    match d.meta(arg) {
        Some(meta) => Expr::new(create::zeros(&meta.sizes, meta.dtype, meta.device)),
        None => Expr::Nothing,
    }
}
