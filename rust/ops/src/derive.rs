//! Derivatives: sentences over operators, written beside the forward and good for every device and order.
//!
//! A formula says the gradient of one argument in the words of the forward: `|d| d.grad() * d.result()`. It also says
//! what it needs kept, so that nothing else is. Broadcasting, promotion and real arguments of complex results are undone
//! for all formulas in one place (`fit`).

use rushlight_autograd::{Axis, Gradients, Tensor};
use rushlight_core::layout::copied;
use rushlight_core::{DType, Device, Dims, Error, Layout, Result, Scalar};

use crate::expr::Expr;
use crate::signature::Kind;
use crate::value::Args;

/// What a formula needs of the forward: arguments (by place) and results.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Saves(pub u32);

impl Saves {
    pub const NOTHING: Saves = Saves(0);
    pub const RESULT: Saves = Saves::result(0);

    /// The argument at `place` of the signature.
    pub const fn input(place: usize) -> Saves {
        Saves(1 << place)
    }

    pub const fn result(index: usize) -> Saves {
        Saves(1 << (16 + index))
    }

    pub const fn union(self, other: Saves) -> Saves {
        Saves(self.0 | other.0)
    }

    pub fn has_input(self, place: usize) -> bool {
        place < 16 && self.0 & (1 << place) != 0
    }

    pub fn has_result(self, index: usize) -> bool {
        index < 16 && self.0 & (1 << (16 + index)) != 0
    }
}

/// The gradient of one argument.
pub struct Formula {
    /// The argument's place in the signature.
    pub input: usize,
    pub saves: Saves,
    pub gradient: fn(&Derive) -> Expr,
}

/// `formula(0, Saves::RESULT, |d| d.grad() * d.result())`
pub const fn formula(input: usize, saves: Saves, gradient: fn(&Derive) -> Expr) -> Formula {
    Formula { input, saves, gradient }
}

/// Gradients of several arguments that share work.
pub struct Joint {
    /// The places of the differentiable arguments; a list of tensors stands for each of its tensors.
    pub inputs: &'static [usize],
    pub saves: Saves,
    /// A gradient for each tensor among `inputs`, where `d.needs(place)` asks for it.
    pub gradients: fn(&Derive) -> Result<Vec<Option<Tensor>>>,
}

pub enum Derivative {
    /// The table refuses it: say something.
    Unstated,
    /// The body consists of rows that know theirs.
    Composed,
    /// Why there is none.
    NonDifferentiable(&'static str),
    /// Results are part of the graph, but nothing can go back through them: torch's operator without a derivative. Of those
    /// in its namespace `aten` the engine itself says so, of the others their node.
    Missing(&'static str),
    Formulas(&'static [Formula]),
    Joint(Joint),
}

impl Derivative {
    /// What is said to who goes backward through an operator that has no derivative.
    #[cold]
    pub fn missing(operator: &str) -> Error {
        if operator.starts_with("aten::") {
            Error::runtime(format!("derivative for {operator} is not implemented"))
        } else {
            Error::not_implemented(format!("the derivative for '{operator}' is not implemented."))
        }
    }

    /// Whether the argument at `place` has a gradient.
    pub fn covers(&self, place: usize) -> bool {
        match self {
            Derivative::Formulas(list) => list.iter().any(|formula| formula.input == place),
            Derivative::Joint(joint) => joint.inputs.contains(&place),
            Derivative::Missing(_) => true,
            _ => false,
        }
    }

    /// What must be kept when exactly the arguments that `needs` names want gradients.
    pub fn saves(&self, needs: impl Fn(usize) -> bool) -> Saves {
        match self {
            Derivative::Formulas(list) => list
                .iter()
                .filter(|formula| needs(formula.input))
                .fold(Saves::NOTHING, |all, formula| all.union(formula.saves)),
            Derivative::Joint(joint) => joint.saves,
            _ => Saves::NOTHING,
        }
    }
}

/// What is known of a tensor argument or result without keeping it.
pub struct Facts {
    pub place: usize,
    pub sizes: Dims,
    pub dtype: DType,
    pub device: Device,
    lie: Lie,
}

/// How a tensor lies in its memory, and what `vmap` hides of it: every recorded call keeps this, and few tensors need more
/// than a word for it.
enum Lie {
    RowMajor,
    /// A row-major matrix seen transposed, as weights are.
    ColumnMajor,
    Special(Box<(Layout, Vec<Axis>)>),
}

impl Lie {
    #[inline]
    fn of(tensor: &Tensor) -> Lie {
        let layout = tensor.layout();
        if layout.offset == 0 && !tensor.is_mapped() {
            if layout.is_contiguous() {
                return Lie::RowMajor;
            }
            if lies_in_columns(layout) {
                return Lie::ColumnMajor;
            }
        }
        Lie::Special(Box::new((layout.clone(), tensor.axes().to_vec())))
    }
}

fn lies_in_columns(layout: &Layout) -> bool {
    matches!((&layout.strides[..], &layout.sizes[..]), ([1, step], [rows, _]) if step == rows)
}

impl Facts {
    #[inline]
    pub fn of(place: usize, tensor: &Tensor) -> Facts {
        let sizes = copied(&tensor.layout().sizes);
        Facts { place, sizes, dtype: tensor.dtype(), device: tensor.device(), lie: Lie::of(tensor) }
    }

    pub fn layout(&self) -> Layout {
        match (&self.lie, &self.sizes[..]) {
            (Lie::Special(special), _) => special.0.clone(),
            (Lie::ColumnMajor, &[rows, columns]) => Layout::contiguous(&[columns, rows]).transpose(0, 1),
            _ => Layout::contiguous(&self.sizes),
        }
    }

    /// Whether it is a matrix whose columns follow one another in memory.
    pub fn is_column_major(&self) -> bool {
        match &self.lie {
            Lie::RowMajor => false,
            Lie::ColumnMajor => true,
            Lie::Special(special) => lies_in_columns(&special.0),
        }
    }

    /// What `vmap` hides of it.
    #[inline]
    pub fn axes(&self) -> &[Axis] {
        match &self.lie {
            Lie::Special(special) => &special.1,
            _ => &[],
        }
    }
}

/// What a formula sees.
pub struct Derive<'a> {
    /// The arguments but for tensors.
    pub args: &'a Args<'static>,
    /// Every tensor argument's facts, in order.
    pub inputs: &'a [Facts],
    pub results: &'a [Facts],
    /// Kept tensors, aligned with `inputs` and `results`.
    pub kept_inputs: Gradients,
    pub kept_results: Gradients,
    pub grads: Gradients,
    /// Which of `inputs` want a gradient.
    pub wanted: &'a [bool],
}

impl Derive<'_> {
    /// The gradient that arrives for the first result.
    pub fn grad(&self) -> Expr {
        self.grad_of(0)
    }

    /// The gradient that arrives for a result; zeros where none did.
    pub fn grad_of(&self, index: usize) -> Expr {
        match (self.grads.get(index), self.results.get(index)) {
            (Some(Some(grad)), _) => Expr::from(grad),
            (_, Some(facts)) => Expr::new(crate::create::zeros(&facts.sizes, facts.dtype, facts.device)),
            _ => Expr::failed(Error::runtime("a derivative asked for a gradient that does not exist")),
        }
    }

    /// The gradients of all results, zeros where none arrived.
    pub fn all_grads(&self) -> Result<Vec<Tensor>> {
        (0..self.results.len()).map(|index| self.grad_of(index).done()).collect()
    }

    pub fn has_grad(&self, index: usize) -> bool {
        matches!(self.grads.get(index), Some(Some(_)))
    }

    /// The argument at `place`: a kept tensor, or the number that stood there.
    pub fn input(&self, place: usize) -> Expr {
        match self.inputs.iter().position(|facts| facts.place == place) {
            Some(at) => match self.kept_inputs.get(at) {
                Some(Some(tensor)) => Expr::from(tensor),
                _ => Expr::failed(Error::runtime(format!(
                    "the derivative of {} reads argument {place} without saving it",
                    self.args.row.name
                ))),
            },
            None => match self.args.optional_scalar(place) {
                Some(scalar) => Expr::from(scalar),
                None => {
                    Expr::failed(Error::runtime(format!("argument {place} of {} was not given", self.args.row.name)))
                }
            },
        }
    }

    /// All kept tensors of a list argument.
    pub fn list(&self, place: usize) -> Vec<Option<&Tensor>> {
        let of_place = self.inputs.iter().zip(&self.kept_inputs).filter(|(facts, _)| facts.place == place);
        of_place.map(|(_, kept)| kept.as_ref()).collect()
    }

    /// Whether a tensor was given at `place`.
    pub fn is_tensor(&self, place: usize) -> bool {
        self.inputs.iter().any(|facts| facts.place == place)
    }

    /// Whether the argument at `place` wants its gradient.
    pub fn needs(&self, place: usize) -> bool {
        self.inputs.iter().zip(self.wanted).any(|(facts, wanted)| facts.place == place && *wanted)
    }

    pub fn result(&self) -> Expr {
        self.result_of(0)
    }

    pub fn result_of(&self, index: usize) -> Expr {
        match self.kept_results.get(index) {
            Some(Some(tensor)) => Expr::from(tensor),
            _ => Expr::failed(Error::runtime(format!(
                "the derivative of {} reads result {index} without saving it",
                self.args.row.name
            ))),
        }
    }

    /// The sizes of the tensor at `place`.
    pub fn sizes(&self, place: usize) -> &[isize] {
        self.facts(place).map_or(&[], |facts| &facts.sizes)
    }

    pub fn rank(&self, place: usize) -> usize {
        self.sizes(place).len()
    }

    pub fn facts(&self, place: usize) -> Option<&Facts> {
        self.inputs.iter().find(|facts| facts.place == place)
    }

    /// Whether the argument at `place` is of a kind that the derivative may ask about so: a wrong place would be a wrong
    /// gradient without a word.
    fn check_kind(&self, place: usize, kinds: &[Kind]) {
        debug_assert!(
            self.args.row.schema().params.get(place).is_some_and(|param| kinds.contains(&param.kind)),
            "the derivative of {} asks argument {place} for what it is not",
            self.args.row.name
        );
    }

    pub fn scalar(&self, place: usize) -> Scalar {
        self.check_kind(place, &[Kind::Scalar, Kind::Operand, Kind::Int, Kind::Float, Kind::Bool, Kind::Truth]);
        self.args.optional_scalar(place).unwrap_or(Scalar::ONE)
    }

    pub fn int(&self, place: usize) -> i64 {
        self.check_kind(place, &[Kind::Int]);
        self.args.optional_int(place).unwrap_or(0)
    }

    pub fn flag(&self, place: usize) -> bool {
        self.check_kind(place, &[Kind::Bool]);
        self.args.optional_bool(place).unwrap_or(false)
    }

    pub fn ints(&self, place: usize) -> &[i64] {
        self.check_kind(place, &[Kind::Ints, Kind::IntOrInts]);
        self.args.optional_ints(place).unwrap_or(&[])
    }
}

/// Brings a gradient to its argument: sums over what was broadcast, casts back, drops an imaginary part.
pub fn fit(grad: Tensor, facts: &Facts) -> Result<Tensor> {
    let mut grad = grad;
    if grad.dtype().is_complex() && !facts.dtype.is_complex() {
        grad = Expr::from(grad).real().done()?;
    }
    if grad.layout().sizes != facts.sizes {
        grad = crate::reduce::sum_to(&grad, &facts.sizes)?;
    }
    if grad.dtype() != facts.dtype {
        grad = crate::convert::to_dtype(&grad, facts.dtype)?;
    }
    Ok(grad)
}
