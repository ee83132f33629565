//! Modules: layers and losses with their parameters.

use rushlight_autograd::Tensor;
use rushlight_core::Result;
use rushlight_dispatch::generator::Generator;
use rushlight_dispatch::op;
use rushlight_dispatch::value::Value;

use super::create::zeros;
use crate::create::draw;
use crate::nn::Reduction;
use crate::nn::linear::LINEAR;
use crate::nn::loss::MSE_LOSS;

/// `x @ weight.t() + bias`. Weight and bias begin as torch's, in the order of its draws: uniform between `-1 / sqrt(inputs)` and
/// `1 / sqrt(inputs)`.
///
/// ```
/// # use rushlight::Result;
/// # fn main() -> Result<()> {
/// let layer = rushlight::nn::Linear::new(4, 3)?;
/// assert_eq!(layer.forward(&rushlight::ones(&[2, 4], ())?)?.sizes().as_slice(), [2, 3]);
/// # Ok(())
/// # }
/// ```
pub struct Linear {
    /// `outputs x inputs`.
    pub weight: Tensor,
    pub bias: Option<Tensor>,
}

impl Linear {
    /// A layer with a bias.
    pub fn new(inputs: isize, outputs: isize) -> Result<Linear> {
        let layer = Linear::without_bias(inputs, outputs)?;
        Ok(Linear { bias: Some(parameter(&[outputs], per_root(1.0, inputs))?), ..layer })
    }

    pub fn without_bias(inputs: isize, outputs: isize) -> Result<Linear> {
        // `kaiming_uniform_` with `a = sqrt(5)`, in its steps: the last bit follows from them.
        let gain = (2.0 / (1.0 + 5f64.sqrt().powi(2))).sqrt();
        let bound = 3f64.sqrt() * per_root(gain, inputs);
        Ok(Linear { weight: parameter(&[outputs, inputs], bound)?, bias: None })
    }

    /// The parameters, the weight first.
    pub fn parameters(&self) -> impl Iterator<Item = &Tensor> {
        std::iter::once(&self.weight).chain(&self.bias)
    }

    /// `... x inputs` to `... x outputs`.
    ///
    /// # Errors
    /// RuntimeError: the sizes do not fit.
    pub fn forward(&self, input: &Tensor) -> Result<Tensor> {
        op!(LINEAR, input, &self.weight, self.bias.as_ref())
    }
}

/// A number over the root of the number of inputs; 0 if there are none.
fn per_root(number: f64, inputs: isize) -> f64 {
    if inputs > 0 { number / (inputs as f64).sqrt() } else { 0.0 }
}

/// Uniform numbers between `-bound` and `bound`, which require a gradient.
fn parameter(sizes: &[isize], bound: f64) -> Result<Tensor> {
    let tensor = zeros(sizes, ())?;
    draw::uniform(&tensor, &Generator::default_stream(), -bound, bound)?;
    tensor.set_requires_grad(true)?;
    Ok(tensor)
}

/// The squares of the differences, reduced.
#[derive(Clone, Copy, Default, Debug)]
pub struct MSELoss {
    pub reduction: Reduction,
}

impl MSELoss {
    pub fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        let reduction = match self.reduction {
            Reduction::None => "none",
            Reduction::Mean => "mean",
            Reduction::Sum => "sum",
        };
        op!(MSE_LOSS, input, target, Value::None, Value::None, reduction)
    }
}
