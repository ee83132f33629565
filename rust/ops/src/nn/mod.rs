//! Functions of neural networks.

pub mod attention;
pub mod bag;
pub mod bilinear;
pub mod conv;
pub mod cross_entropy;
pub mod ctc;
pub mod distance;
pub mod dropout;
pub mod embedding;
pub mod fold;
pub mod grid;
pub mod interpolate;
pub mod linear;
pub mod loss;
mod mapped;
pub mod margin;
pub mod multilabel;
pub mod nll;
pub mod norm;
pub mod pool;
pub mod prelu;
pub mod recurrent;
pub mod shuffle;

use rushlight_autograd::Tensor;
use rushlight_core::{Error, Result};

use crate::derive::Derive;
use crate::expr::Expr;

/// What becomes of the losses of the elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reduction {
    None,
    Mean,
    Sum,
}

impl Reduction {
    pub fn parse(text: &str) -> Result<Reduction> {
        if text == "elementwise_mean" {
            crate::host::warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.")?;
            return Ok(Reduction::Mean);
        }
        Reduction::parse_or(text, "is not a valid value for reduction")
    }

    /// One of the three words, or torch's complaint.
    pub fn parse_or(text: &str, complaint: &str) -> Result<Reduction> {
        match text {
            "none" => Ok(Reduction::None),
            "mean" => Ok(Reduction::Mean),
            "sum" => Ok(Reduction::Sum),
            _ => Err(Error::value(format!("{text} {complaint}")).hint("It is \"mean\", \"sum\" or \"none\".")),
        }
    }

    /// As the number that rows keep for their derivative.
    pub fn code(self) -> i64 {
        self as i64
    }

    pub fn of_code(code: i64) -> Reduction {
        match code {
            0 => Reduction::None,
            1 => Reduction::Mean,
            _ => Reduction::Sum,
        }
    }

    pub fn apply(self, losses: Tensor) -> Result<Tensor> {
        match self {
            Reduction::None => Ok(losses),
            Reduction::Sum => crate::op!(crate::reduce::SUM, &losses),
            Reduction::Mean => crate::op!(crate::reduce::sum::MEAN, &losses),
        }
    }
}

/// The gradient of an argument whose values do not matter.
pub fn zeros_like_input(d: &Derive, place: usize) -> Expr {
    match d.facts(place) {
        Some(facts) => Expr::new(crate::create::zeros(&facts.sizes, facts.dtype, facts.device)),
        None => Expr::Nothing,
    }
}
