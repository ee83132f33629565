//! Derivatives: formulas over operators, written next to the forward and valid for every device and order.
//!
//! A formula gives the gradient of one argument: `|d| d.grad() * d.result()`. It also declares the tensors that it
//! needs saved, so that no others are. The effects of broadcasting, promotion and real arguments of complex results are
//! handled for all formulas in one place (`fit`).

use crate::signature::{Kind, NUMBER, TENSOR};
use crate::value::Arg;
use rushlight_autograd::{Tensor, is_stretched};
use rushlight_core::{Error, Result, Scalar};

use crate::expr::Expr;
use crate::operator::{BackwardContext, Derivative, Saves};
use crate::primitives::primitives;
use crate::saved_meta::SavedMeta;

impl Derivative {
    /// The error of backward through an operator without a derivative.
    #[cold]
    pub fn not_implemented(operator: &str) -> Error {
        if operator.starts_with("aten::") {
            Error::runtime(format!("derivative for {operator} is not implemented"))
        } else {
            Error::not_implemented(format!("the derivative for '{operator}' is not implemented."))
        }
    }

    /// torch's name of the gradient of the argument at `place`, if it is not implemented.
    pub fn missing(&self, place: usize) -> Option<&'static str> {
        match self {
            Derivative::Formulas(list) => {
                list.iter().find(|formula| formula.input.position() == place).and_then(|formula| formula.missing)
            }
            Derivative::NotImplemented(operator) => Some(operator),
            _ => None,
        }
    }

    /// Whether the argument at `place` has a gradient.
    pub fn has_gradient(&self, place: usize) -> bool {
        match self {
            Derivative::Formulas(list) => list.iter().any(|formula| formula.input.position() == place),
            Derivative::Joint(joint) => joint.has_gradient(place),
            Derivative::NotImplemented(_) => true,
            _ => false,
        }
    }

    /// The tensors to save if exactly the arguments in `needs` require gradients.
    pub fn saves(&self, needs: impl Fn(usize) -> bool) -> Saves {
        match self {
            Derivative::Formulas(list) => list
                .iter()
                .filter(|formula| needs(formula.input.position()))
                .fold(Saves::NOTHING, |all, formula| all.union(formula.saves)),
            Derivative::Joint(joint) => joint.saves,
            _ => Saves::NOTHING,
        }
    }
}

impl BackwardContext<'_> {
    /// The gradient of the first result.
    pub fn grad(&self) -> Expr {
        self.grad_of(0)
    }

    /// The gradient of a result; zeros if there is none.
    pub fn grad_of(&self, index: usize) -> Expr {
        match (self.grads.get(index), self.results.get(index)) {
            (Some(Some(grad)), _) => Expr::from(grad),
            (_, Some(meta)) => Expr::new(crate::create::zeros(&meta.sizes, meta.dtype, meta.device)),
            _ => Expr::failed(Error::runtime("a derivative asked for a gradient that does not exist")),
        }
    }

    /// The gradients of all results, with zeros for missing ones.
    pub fn all_grads(&self) -> Result<Vec<Tensor>> {
        (0..self.results.len()).map(|index| self.grad_of(index).done()).collect()
    }

    pub fn has_grad(&self, index: usize) -> bool {
        matches!(self.grads.get(index), Some(Some(_)))
    }

    /// An argument: a saved tensor, or the number that was given.
    pub fn input(&self, arg: Arg) -> Expr {
        arg.check(self.args.op, &[Kind::Tensor, Kind::Operand, Kind::Scalar]);
        match self.inputs.iter().position(|meta| meta.place == arg.position()) {
            Some(at) => match self.saved_inputs.get(at) {
                Some(Some(tensor)) => Expr::from(tensor),
                _ => Expr::failed(Error::runtime(format!(
                    "the derivative of {} reads argument {} without saving it",
                    self.args.op.name,
                    arg.position()
                ))),
            },
            None => match self.args.optional_scalar(arg) {
                Some(scalar) => Expr::from(scalar),
                None => Expr::failed(Error::runtime(format!(
                    "argument {} of {} was not given",
                    arg.position(),
                    self.args.op.name
                ))),
            },
        }
    }

    /// All saved tensors of a list argument.
    pub fn list(&self, arg: Arg) -> Vec<Option<&Tensor>> {
        arg.check(self.args.op, &[Kind::Tensors]);
        let of_place = self.inputs.iter().zip(&self.saved_inputs).filter(|(meta, _)| meta.place == arg.position());
        of_place.map(|(_, kept)| kept.as_ref()).collect()
    }

    /// Whether a tensor was given.
    pub fn is_tensor(&self, arg: Arg) -> bool {
        self.meta(arg).is_some()
    }

    /// Whether a tangent is computed from this gradient, which must be the true one then. Of several values that are
    /// written to one element torch gives each the element's gradient, but only the last one has an effect.
    pub fn for_tangent(&self) -> bool {
        rushlight_autograd::modes::current().tangents_visible
    }

    /// Whether an argument needs its gradient.
    pub fn needs(&self, arg: Arg) -> bool {
        arg.check(self.args.op, &[Kind::Tensor, Kind::Operand, Kind::Tensors]);
        self.inputs.iter().zip(self.wanted).any(|(meta, wanted)| meta.place == arg.position() && *wanted)
    }

    pub fn result(&self) -> Expr {
        self.result_of(0)
    }

    pub fn result_of(&self, index: usize) -> Expr {
        match self.saved_results.get(index) {
            Some(Some(tensor)) => Expr::from(tensor),
            _ => Expr::failed(Error::runtime(format!(
                "the derivative of {} reads result {index} without saving it",
                self.args.op.name
            ))),
        }
    }

    /// The sizes of a tensor argument.
    pub fn sizes(&self, arg: Arg) -> &[isize] {
        self.meta(arg).map_or(&[], |meta| &meta.sizes)
    }

    pub fn rank(&self, arg: Arg) -> usize {
        self.sizes(arg).len()
    }

    pub fn meta(&self, arg: Arg) -> Option<&SavedMeta> {
        arg.check(self.args.op, TENSOR);
        self.inputs.iter().find(|meta| meta.place == arg.position())
    }

    pub fn scalar(&self, arg: Arg) -> Scalar {
        arg.check(self.args.op, NUMBER);
        self.args.optional_scalar(arg).unwrap_or(Scalar::ONE)
    }

    pub fn int(&self, arg: Arg) -> i64 {
        arg.check(self.args.op, &[Kind::Int]);
        self.args.optional_int(arg).unwrap_or(0)
    }

    pub fn flag(&self, arg: Arg) -> bool {
        arg.check(self.args.op, &[Kind::Bool, Kind::Truth]);
        self.args.optional_bool(arg).unwrap_or(false)
    }

    pub fn ints(&self, arg: Arg) -> &[i64] {
        arg.check(self.args.op, &[Kind::Ints, Kind::IntOrInts]);
        self.args.optional_ints(arg).unwrap_or(&[])
    }
}

/// Fits a gradient to its argument: sums over broadcast dimensions, casts, drops an imaginary part.
pub fn fit(grad: Tensor, meta: &SavedMeta) -> Result<Tensor> {
    let mut grad = grad;
    if grad.dtype().is_complex() && !meta.dtype.is_complex() {
        grad = primitives()?.real.tensor([grad.into()])?;
    }
    // The engine refuses a gradient of any other shape.
    if grad.layout().sizes != meta.sizes && is_stretched(grad.sizes(), &meta.sizes) {
        grad = (primitives()?.sum_to)(&grad, &meta.sizes)?;
    }
    if grad.dtype() != meta.dtype {
        grad = (primitives()?.cast)(&grad, meta.dtype)?;
    }
    Ok(grad)
}
