//! The front end for programs in Rust, with the names of torch's C++ front end.
//!
//! - `create` has the factories, `options` the dtype, device and gradient of what they make.
//! - `operators` has the operators that programs use most, as methods, and `call` every operator by its name.
//! - `function` is for functions with a derivative of their own, `modules` has layers and losses.
//!
//! Arithmetic is written with [`Expr`](crate::Expr): its operators pass an error on, so that a formula needs one `?`.
//!
//! This is the tutorial of torch's C++ front end:
//!
//! ```
//! use rushlight::autograd::{self, NoGradGuard};
//! use rushlight::{Expr, Operators, Result, Tensor};
//!
//! # fn main() -> Result<()> {
//! let x = rushlight::ones(&[2, 2], rushlight::requires_grad())?;
//! assert_eq!(x.to_string(), " 1  1\n 1  1\n[ CPUFloatType{2,2} ]");
//!
//! let y = (x.expr() + 2.0).done()?;
//! assert_eq!(y.grad_fn()?.unwrap().short_name(), "AddBackward0");
//! let z = (y.expr() * &y * 3.0).done()?;
//! let out = z.mean()?;
//! println!("{z}\n{out}");
//! assert_eq!(out.item()?, 27.0.into());
//! out.backward(None)?;
//! assert_eq!(x.grad().unwrap().to_vec::<f64>()?, [4.5; 4]);
//!
//! let a = rushlight::randn(&[2, 2], ())?;
//! let a = (a.expr() * 3.0 / (a.expr() - 1.0)).done()?;
//! assert!(!a.requires_grad());
//! a.requires_grad_(true)?;
//! let b = (a.expr() * &a).done()?.sum()?;
//! assert_eq!(b.grad_fn()?.unwrap().short_name(), "SumBackward0");
//!
//! // A product of a vector and the Jacobian.
//! let x = rushlight::tensor(&[0.5, -0.3, 0.7])?.requires_grad_(true)?;
//! let mut y = (x.expr() * 2.0).done()?;
//! while y.norm(2.0, &[], false)?.item()?.f64() < 800.0 {
//!     y = (y.expr() * 2.0).done()?;
//! }
//! y.backward(Some(&rushlight::tensor(&[0.1, 1.0, 0.0001])?))?;
//! assert_eq!(x.grad().unwrap().to_string(), "  102.4000\n 1024.0000\n    0.1024\n[ CPUFloatType{3} ]");
//!
//! {
//!     let _guard = NoGradGuard::new();
//!     assert!(!x.pow(2.0)?.requires_grad());
//! }
//! assert!(x.pow(2.0)?.requires_grad());
//! let y = x.detach();
//! assert!(!y.requires_grad() && x.eq(&y)?.all()?.item()?.truth());
//!
//! // A penalty on the length of a gradient, which is differentiated again.
//! let model = rushlight::nn::Linear::new(4, 3)?;
//! let input = rushlight::randn(&[3, 4], rushlight::requires_grad())?;
//! let output = model.forward(&input)?;
//! let loss = rushlight::nn::MSELoss::default().forward(&output, &rushlight::randn(&[3, 3], ())?)?;
//! let weights = rushlight::ones_like(&output)?;
//! let options = autograd::Options { create_graph: true, retain_graph: true };
//! let gradients = autograd::grad(&[output], &[input.clone()], &[Some(weights)], false, options)?;
//! let [Some(gradient)] = &gradients[..] else { unreachable!() };
//! let penalty = (gradient.norm(2.0, &[1], false)?.expr() - 1.0).done()?.pow(2.0)?.mean()?;
//! (loss.expr() + &penalty).done()?.backward(None)?;
//! assert_eq!(input.grad().unwrap().sizes().as_slice(), [3, 4]);
//! # Ok(())
//! # }
//! ```

mod call;
mod create;
mod function;
mod modules;
mod operators;
mod options;

pub use call::call;
pub use create::{full, manual_seed, ones, ones_like, rand, randn, tensor, zeros};
pub use function::{BackwardContext, Context, Function};
pub use modules::{Linear, MSELoss};
pub use operators::Operators;
pub use options::{TensorOptions, device, dtype, requires_grad};
