//! Functions with a derivative of their own.

use once_cell::race::OnceBox;
use rushlight_autograd::custom::{CustomCall, Notes, plain_view};
use rushlight_autograd::modes::GradMode;
use rushlight_autograd::{Backward, BackwardCall, Gradients, Reachable, SavedTensor, Tensor, should_record};
use rushlight_core::{Error, Result};

use crate::install::install;

/// What `forward` tells about its call.
pub struct Context<D> {
    /// What `backward` gets besides tensors.
    pub saved_data: D,
    notes: Notes,
    materialize_grads: bool,
}

impl<D> Context<D> {
    /// Keeps arguments and results for `backward`. None stands for an argument that was not given.
    pub fn save_for_backward(&mut self, tensors: impl IntoIterator<Item = Option<Tensor>>) {
        self.notes.to_save = tensors.into_iter().collect();
    }

    /// Names the arguments that `forward` changes in place, and returns.
    pub fn mark_dirty(&mut self, tensors: impl IntoIterator<Item = Tensor>) {
        self.notes.dirty = tensors.into_iter().collect();
    }

    /// Names the results that have no gradient.
    pub fn mark_non_differentiable(&mut self, tensors: impl IntoIterator<Item = Tensor>) {
        self.notes.non_differentiable = tensors.into_iter().collect();
    }

    /// Whether `backward` gets zeros for a result without a gradient, as it does by default, or None.
    pub fn set_materialize_grads(&mut self, value: bool) {
        self.materialize_grads = value;
    }
}

/// What `backward` may ask.
pub struct BackwardContext<'a, D> {
    /// What `forward` has kept.
    pub saved_data: &'a D,
    call: &'a BackwardCall<'a>,
    saved: &'a [Option<SavedTensor>],
    edges: &'a [Option<usize>],
}

impl<D> BackwardContext<'_, D> {
    /// The tensors that `forward` has saved.
    ///
    /// # Errors
    /// RuntimeError: a backward pass has released them, or one was changed in place since.
    pub fn get_saved_variables(&self) -> Result<Vec<Option<Tensor>>> {
        self.saved.iter().map(|saved| saved.as_ref().map(|saved| self.call.unpack(saved)).transpose()).collect()
    }

    /// Whether the gradient of an argument is asked for.
    pub fn needs_input_grad(&self, argument: usize) -> bool {
        self.edges.get(argument).copied().flatten().is_some_and(|edge| self.call.needs(edge))
    }
}

/// A function whose derivative is written beside it. `apply` calls it.
///
/// ```
/// use rushlight::autograd::{BackwardContext, Context, Function};
/// use rushlight::{Operators, Result, Tensor};
///
/// struct MulConstant;
///
/// impl Function for MulConstant {
///     type Data = f64;
///
///     fn forward(context: &mut Context<f64>, arguments: &[Option<Tensor>]) -> Result<Vec<Tensor>> {
///         let [Some(tensor)] = arguments else { unreachable!() };
///         Ok(vec![(tensor.expr() * context.saved_data).done()?])
///     }
///
///     fn backward(context: &BackwardContext<f64>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
///         let [Some(grad)] = grads else { unreachable!() };
///         Ok(vec![Some((grad.expr() * *context.saved_data).done()?)])
///     }
/// }
///
/// # fn main() -> Result<()> {
/// let x = rushlight::ones(&[2], rushlight::requires_grad())?;
/// let y = &MulConstant::apply(&[Some(x.clone())], 5.5)?[0];
/// y.sum()?.backward(None)?;
/// assert_eq!(x.grad().unwrap().to_vec::<f64>()?, [5.5, 5.5]);
/// # Ok(())
/// # }
/// ```
pub trait Function: Sized + 'static {
    /// The arguments that are no tensors, and whatever else `backward` needs.
    type Data: Send + Sync;

    /// Computes the results. Nothing is recorded meanwhile.
    fn forward(context: &mut Context<Self::Data>, arguments: &[Option<Tensor>]) -> Result<Vec<Tensor>>;

    /// Computes a gradient for each argument from those of the results. None is a gradient of zero.
    fn backward(context: &BackwardContext<'_, Self::Data>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>>;

    /// Calls `forward`, and records `backward` if an argument needs a gradient. None is an argument that is not given.
    ///
    /// # Errors
    /// Those of `forward`. RuntimeError: what it has marked does not fit its arguments and results.
    fn apply(arguments: &[Option<Tensor>], data: Self::Data) -> Result<Vec<Tensor>> {
        install();
        let given: Vec<Option<&Tensor>> = arguments.iter().map(Option::as_ref).collect();
        let records = should_record(&given);
        let mut context = Context { saved_data: data, notes: Notes::default(), materialize_grads: true };
        let results = {
            let _guard = GradMode::new(false);
            Self::forward(&mut context, arguments)?
        };
        let Context { saved_data, notes, materialize_grads } = context;
        let node = FunctionNode::<Self> {
            name: name_of::<Self>(),
            data: saved_data,
            saved: OnceBox::new(),
            edges: places(arguments),
            materialize_grads,
        };
        let results: Vec<Option<Tensor>> = results.into_iter().map(Some).collect();
        let call = CustomCall { inputs: arguments, results: &results, notes: &notes, view: &plain_view };
        let (outputs, recorded) = call.finish(records.then_some(node))?;
        if let Some(recorded) = recorded
            && let Some(node) = recorded.node.function_as::<FunctionNode<Self>>()
        {
            let _ = node.saved.set(Box::new(recorded.saved));
        }
        Ok(outputs.into_iter().flatten().collect())
    }
}

/// The node's name: that of the type, and `Backward`.
fn name_of<F>() -> String {
    let path = std::any::type_name::<F>();
    let plain = path.split('<').next().unwrap_or(path);
    format!("{}Backward", plain.rsplit("::").next().unwrap_or(plain))
}

/// The edge of each argument: one for every tensor.
fn places(arguments: &[Option<Tensor>]) -> Vec<Option<usize>> {
    let mut edges = 0..;
    arguments.iter().map(|argument| argument.as_ref().and_then(|_| edges.next())).collect()
}

struct FunctionNode<F: Function> {
    name: String,
    data: F::Data,
    saved: OnceBox<Vec<Option<SavedTensor>>>,
    edges: Vec<Option<usize>>,
    materialize_grads: bool,
}

impl<F: Function> FunctionNode<F> {
    fn saved(&self) -> impl Iterator<Item = &SavedTensor> {
        self.saved.get().into_iter().flatten().flatten()
    }
}

impl<F: Function> Backward for FunctionNode<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn apply(&self, call: &BackwardCall<'_>, mut grads: Gradients) -> Result<Gradients> {
        if self.materialize_grads {
            for (output, grad) in grads.iter_mut().enumerate() {
                if grad.is_none() {
                    *grad = Some(call.zeros(output)?);
                }
            }
        }
        let saved = self.saved.get().map_or(&[][..], Vec::as_slice);
        let context = BackwardContext { saved_data: &self.data, call, saved, edges: &self.edges };
        let found = F::backward(&context, &grads)?;
        if found.len() != self.edges.len() {
            return Err(Error::runtime(format!(
                "function {} returned an incorrect number of gradients (expected {}, got {})",
                self.name,
                self.edges.len(),
                found.len()
            )));
        }
        Ok(found.into_iter().zip(&self.edges).filter_map(|(grad, edge)| edge.map(|_| grad)).collect())
    }

    fn release(&self) {
        self.saved().for_each(SavedTensor::release);
    }

    fn reachable(&self, visit: &mut dyn FnMut(Reachable)) {
        self.saved().filter_map(SavedTensor::reachable).for_each(visit);
    }
}
