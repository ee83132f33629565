//! The definition of an operator, as one value in the module of its family; and all that an operator may say.
//!
//! `table.rs` of the crate above lists each definition once, and everything else iterates over the table: Python functions and methods,
//! in-place and `out=` variants, stubs, reference pages, tests.
//!
//! These types stand in one file because they contain each other: an operator holds functions of arguments, and arguments name
//! their operator. What is done with them stands in files of their own.

use crate::signature::{Kind, Schema};
use crate::value::{Arg, Output, Values};
use std::sync::atomic::AtomicPtr;

use rushlight_autograd::{Gradients, Tensor, TensorMeta};
use rushlight_core::memory_format::{channels_last, has_channels_last};
use rushlight_core::{Class, DType, Device, Error, Layout, Result};
use rushlight_cpu::loops::Loops;
pub use rushlight_macros::operator;

use crate::expr::Expr;
use crate::saved_meta::SavedMeta;

/// The Python forms of an operator.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Variants(pub u8);

impl Variants {
    pub const FUNCTION: Variants = Variants(1);
    pub const METHOD: Variants = Variants(2);
    /// `name_` as a method, and as a function if the operator has no other arguments.
    pub const INPLACE: Variants = Variants(4);
    /// `name_` as a function, for those with several arguments that torch has.
    pub const INPLACE_FUNCTION: Variants = Variants(16);
    pub const OUT: Variants = Variants(8);
    pub const BOTH: Variants = Variants(3);
    pub const ALL: Variants = Variants(15);

    pub const fn union(self, other: Variants) -> Variants {
        Variants(self.0 | other.0)
    }

    pub const fn has(self, other: Variants) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Special properties of an operator, which its callers and its tests use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Tags(u32);

impl Tags {
    pub const NONE: Tags = Tags(0);
    /// The result depends on strides and storage, not only on the elements.
    pub const STRIDE_DEPENDENT: Tags = Tags(1);
    /// The number, size or kind of the results depends on values: a call on `meta` may raise.
    pub const DATA_DEPENDENT: Tags = Tags(2);
    /// In place it raises for more than dtypes and shapes.
    pub const RESTRICTED_IN_PLACE: Tags = Tags(4);
    /// Its tensors may be on different devices.
    pub const MIXED_DEVICES: Tags = Tags(8);
    /// In place its tensor takes the result's shape.
    pub const RESHAPES_IN_PLACE: Tags = Tags(16);
    /// Its tensors broadcast to a common shape, as those of pointwise operators always do.
    pub const BROADCASTS: Tags = Tags(32);
    /// It handles the conjugate and negative bits (`Form::LazyConj`), as all views do.
    pub const LAZY_CONJ: Tags = Tags(64);
    /// It draws random numbers.
    pub const RANDOM: Tags = Tags(128);
    /// It takes its numbers in double precision, regardless of the dtype of its tensors.
    pub const DOUBLE_SCALARS: Tags = Tags(256);
    /// In place it is not recorded and checks nothing of its tensor, as in torch.
    pub const NO_GRAD_IN_PLACE: Tags = Tags(512);
    /// In place it also writes into an expanded tensor, with a deprecation warning.
    pub const WRITES_EXPANDED: Tags = Tags(1024);
    /// All elements of its result are equal, so that it may be written to a tensor that repeats one.
    pub const UNIFORM: Tags = Tags(4096);
    /// Its result is row-major, regardless of the layout of its tensor.
    pub const ROW_MAJOR: Tags = Tags(2048);
    /// Its result has the strides of its tensor, including the gaps of a slice.
    pub const KEEPS_STRIDES: Tags = Tags(8192);
    /// A composite operator with a node that is linear in its tensors: its parts save constants alone.
    pub const LINEAR: Tags = Tags(16384);
    /// Numbers and 0-d tensors after the first operand are not rounded to the half type of the others.
    pub const UNROUNDED_NUMBERS: Tags = Tags(32768);
    /// The numbers besides its operands are rounded to a half type, as operands are.
    pub const ROUNDED_PARAMETERS: Tags = Tags(65536);
    /// Changing an element once more changes nothing, so in place its tensor may be expanded.
    pub const IDEMPOTENT: Tags = Tags(131072);
    /// Without elements it accepts every dtype: torch does not reach the kernel that would reject it.
    pub const ANY_DTYPE_WITHOUT_ELEMENTS: Tags = Tags(262_144);
    /// Its result is row-major if its first operand is a number.
    pub const ROW_MAJOR_FOR_NUMBERS: Tags = Tags(524_288);
    /// Its result is not differentiable, but in place it is recorded with gradients of zero, as in torch.
    pub const ZERO_GRADIENT_IN_PLACE: Tags = Tags(1_048_576);

    /// A view that keeps the dimensions of its tensor, apart from those of size one and those that are joined or divided: a quantised
    /// tensor finds the dimension of its channels in it.
    pub const KEEPS_CHANNELS: Tags = Tags(2_097_152);

    pub const fn union(self, other: Tags) -> Tags {
        Tags(self.0 | other.0)
    }

    const NAMES: [(Tags, &'static str); 22] = [
        (Tags::BROADCASTS, "broadcasts"),
        (Tags::STRIDE_DEPENDENT, "stride dependent"),
        (Tags::DATA_DEPENDENT, "data dependent"),
        (Tags::RESTRICTED_IN_PLACE, "restricted in place"),
        (Tags::MIXED_DEVICES, "mixed devices"),
        (Tags::RESHAPES_IN_PLACE, "reshapes in place"),
        (Tags::LAZY_CONJ, "lazy conj"),
        (Tags::DOUBLE_SCALARS, "double scalars"),
        (Tags::RANDOM, "random"),
        (Tags::NO_GRAD_IN_PLACE, "no grad in place"),
        (Tags::WRITES_EXPANDED, "writes expanded"),
        (Tags::UNIFORM, "uniform"),
        (Tags::ROW_MAJOR, "row-major"),
        (Tags::KEEPS_STRIDES, "keeps strides"),
        (Tags::LINEAR, "linear"),
        (Tags::UNROUNDED_NUMBERS, "unrounded numbers"),
        (Tags::ROUNDED_PARAMETERS, "rounded parameters"),
        (Tags::IDEMPOTENT, "idempotent"),
        (Tags::ANY_DTYPE_WITHOUT_ELEMENTS, "any dtype without elements"),
        (Tags::ROW_MAJOR_FOR_NUMBERS, "row-major for numbers"),
        (Tags::ZERO_GRADIENT_IN_PLACE, "zero gradient in place"),
        (Tags::KEEPS_CHANNELS, "keeps channels"),
    ];

    pub const fn has(self, other: Tags) -> bool {
        self.0 & other.0 == other.0
    }

    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Tags::NAMES.into_iter().filter(move |(one, _)| self.has(*one)).map(|(_, name)| name)
    }
}

/// A set of dtypes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DTypes(pub u32);

impl DTypes {
    pub const NONE: DTypes = DTypes(0);
    pub const HALVES: DTypes = DTypes::of(&[DType::F16, DType::BF16]);
    pub const FLOATS: DTypes = DTypes::of(&[DType::F16, DType::BF16, DType::F32, DType::F64]);
    pub const COMPLEX: DTypes = DTypes::of(&[DType::C64, DType::C128]);
    pub const INTS: DTypes = DTypes::of(&[DType::U8, DType::I8, DType::I16, DType::I32, DType::I64]);
    pub const WIDE: DTypes = DTypes::of(&[DType::U16, DType::U32, DType::U64]);
    pub const BOOL: DTypes = DTypes::of(&[DType::Bool]);
    /// Floats and complex numbers.
    pub const INEXACT: DTypes = DTypes::FLOATS.union(DTypes::COMPLEX);
    /// Integers and floats.
    pub const REAL: DTypes = DTypes::INTS.union(DTypes::FLOATS);
    /// Integers, floats and complex numbers.
    pub const NUMBERS: DTypes = DTypes::REAL.union(DTypes::COMPLEX);
    /// Integers of all kinds, and bool.
    pub const EXACT: DTypes = DTypes::INTS.union(DTypes::WIDE).union(DTypes::BOOL);
    /// All but the wide unsigned.
    pub const COMMON: DTypes = DTypes::NUMBERS.union(DTypes::BOOL);
    /// All that operators compute with.
    pub const COMPUTED: DTypes = DTypes::COMMON.union(DTypes::WIDE);
    pub const FLOAT8: DTypes = DTypes::of(&DType::FLOAT8);
    pub const COMPLEX32: DTypes = DTypes::of(&[DType::C32]);
    /// The 8-bit floats of which matrices may be multiplied.
    pub const FLOAT8_MATRICES: DTypes = DTypes::FLOAT8.without(DTypes::of(&[DType::F8E8M0Fnu]));
    pub const ALL: DTypes = DTypes::of(&DType::ALL);
    /// The dtypes of matrix factorisations.
    pub const DENSE: DTypes = DTypes::of(&[DType::F32, DType::F64, DType::C64, DType::C128]);

    pub const fn of(list: &[DType]) -> DTypes {
        let mut bits = 0;
        let mut i = 0;
        while i < list.len() {
            bits |= 1 << list[i] as u32;
            i += 1;
        }
        DTypes(bits)
    }

    pub const fn union(self, other: DTypes) -> DTypes {
        DTypes(self.0 | other.0)
    }

    pub const fn without(self, other: DTypes) -> DTypes {
        DTypes(self.0 & !other.0)
    }

    pub const fn has(self, dtype: DType) -> bool {
        self.0 & (1 << dtype as u32) != 0
    }

    pub fn list(self) -> impl Iterator<Item = DType> {
        DType::ALL.into_iter().filter(move |dtype| self.has(*dtype))
    }
}

/// How the dtypes of the computation and of the result follow from the operands'.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Promote {
    /// The operands' common dtype, for both.
    Common,
    /// The common dtype; integers and bool become the default float.
    IntToFloat,
    /// The operands are computed in their common dtype, and the result is bool.
    ToBool,
    /// The common dtype; the result of a complex number is real.
    ComplexToReal,
    /// Like `Common`, but the operator's numbers take part (`clamp` of integers by 0.5 is float).
    WithNumbers,
}

impl Promote {
    /// The dtype of the result for the dtype `compute` of the computation.
    pub fn result(self, compute: DType) -> DType {
        match self {
            Promote::ToBool => DType::Bool,
            Promote::ComplexToReal => compute.to_real(),
            _ => compute,
        }
    }
}

/// An elementwise operator.
pub struct Pointwise {
    pub promote: Promote,
    /// The dtypes for which the result has the strides of its first operand even where they mean nothing: torch allocates
    /// it with `empty_like`.
    pub keeps_strides: DTypes,
    /// What it computes for each dtype, on all devices; see `rushlight_cpu::loops!`.
    pub loops: Loops,
}

/// A result before it exists.
#[derive(Clone)]
pub struct TensorSpec {
    pub layout: Layout,
    pub dtype: DType,
    pub device: Device,
}

impl TensorSpec {
    /// A row-major result on the device of `like`.
    pub fn new(sizes: &[isize], dtype: DType, like: &Tensor) -> TensorSpec {
        TensorSpec { layout: Layout::contiguous(sizes), dtype, device: like.device() }
    }

    /// The same, channels-last if `like` is.
    pub fn formatted(mut self, like: &Layout) -> TensorSpec {
        if self.layout.rank() == like.rank() && has_channels_last(like) {
            self.layout.strides = channels_last(&self.layout.sizes);
        }
        self
    }

    /// The same for sequences, which are images of height one.
    pub fn formatted_as_image(mut self, like: &Layout) -> TensorSpec {
        if like.rank() == 3 && has_channels_last(&like.unsqueeze(2)) {
            let order = [0, 2, 1];
            self.layout = Layout::contiguous(&self.layout.permute(&order).sizes).permute(&order);
        }
        self
    }

    /// A row-major result with the sizes, dtype and device of `like`.
    pub fn like(like: &Tensor) -> TensorSpec {
        TensorSpec::new(like.sizes(), like.dtype(), like)
    }
}

/// How an operator runs on a CUDA device.
#[derive(Clone, Copy)]
pub enum OnCuda<F> {
    /// A form of its own, which enqueues kernels or calls other operators.
    Own(F),
    /// The form for the CPU, with one copy each way: the operands are copied to the host, and the results back.
    Host,
    /// There is no form, for this reason.
    Refused(&'static str),
}

/// An operator with an algorithm of its own.
pub struct Kernel {
    /// Checks the arguments and returns the results' specs; runs without data.
    pub infer: fn(&Args) -> Result<Vec<TensorSpec>>,
    /// Fills the results.
    pub cpu: KernelFn,
    pub cuda: OnCuda<KernelFn>,
}

pub type KernelFn = fn(&Args, &[Tensor]) -> Result<()>;

impl Kernel {
    /// An algorithm that runs on the device of its tensors, whichever it is.
    pub const fn on_any_device(infer: fn(&Args) -> Result<Vec<TensorSpec>>, fill: KernelFn) -> Kernel {
        Kernel { infer, cpu: fill, cuda: OnCuda::Own(fill) }
    }
}

/// An operator whose result is its first argument with some elements changed.
pub struct Update {
    /// Checks the arguments; runs without data.
    pub check: fn(&Args) -> Result<()>,
    /// Changes the tensor, which holds the first argument's elements; no other argument shares its memory.
    pub cpu: UpdateFn,
    pub cuda: OnCuda<UpdateFn>,
}

impl Update {
    /// A change that is made on the device of its tensors, whichever it is.
    pub const fn on_any_device(check: fn(&Args) -> Result<()>, change: UpdateFn) -> Update {
        Update { check, cpu: change, cuda: OnCuda::Own(change) }
    }
}

pub type UpdateFn = fn(&Args, &Tensor) -> Result<()>;

/// An operator that fills its first argument in place and ignores its previous contents; the definition has the
/// derivative.
pub struct InPlaceFill {
    pub cpu: UpdateFn,
    pub cuda: OnCuda<UpdateFn>,
}

impl InPlaceFill {
    /// An implementation that reads and writes memory of the host.
    pub const fn on_host(change: UpdateFn) -> InPlaceFill {
        InPlaceFill { cpu: change, cuda: OnCuda::Host }
    }

    /// An implementation that only calls other operators and runs on any device that they support.
    pub const fn on_any_device(change: UpdateFn) -> InPlaceFill {
        InPlaceFill { cpu: change, cuda: OnCuda::Own(change) }
    }
}

/// An operator whose inner calls are not recorded; the definition has the derivative, as with torch's
/// `CompositeExplicitAutograd`. On `meta` the implementation for the host runs; it must not access any data.
pub struct ExplicitAutograd {
    pub cpu: ExplicitFn,
    pub cuda: OnCuda<ExplicitFn>,
}

pub type ExplicitFn = fn(&Args) -> Result<Output>;

impl ExplicitAutograd {
    /// An implementation that reads memory of the host.
    pub const fn on_host(compute: ExplicitFn) -> ExplicitAutograd {
        ExplicitAutograd { cpu: compute, cuda: OnCuda::Host }
    }

    /// An implementation that no other device has, for this reason.
    pub const fn on_cpu_alone(reason: &'static str, compute: ExplicitFn) -> ExplicitAutograd {
        ExplicitAutograd { cpu: compute, cuda: OnCuda::Refused(reason) }
    }

    /// An implementation that only calls other operators and runs on any device that they support.
    pub const fn on_any_device(compute: ExplicitFn) -> ExplicitAutograd {
        ExplicitAutograd { cpu: compute, cuda: OnCuda::Own(compute) }
    }
}

/// The implementation of an operator.
pub enum Implementation {
    Pointwise(Pointwise),
    Kernel(Kernel),
    Update(Update),
    /// A view of the same bytes. In place the tensor itself takes the geometry.
    View(fn(&Args) -> Result<Layout>),
    /// A view of the same bytes as other elements.
    ViewDtype(fn(&Args) -> Result<TensorMeta>),
    /// Several views at once, which in-place operations may not rebase.
    MultiView(fn(&Args) -> Result<Vec<Layout>>),
    /// A composition of other operators; it has neither kernel nor derivative.
    CompositeImplicit(fn(&Args) -> Result<Output>),
    ExplicitAutograd(ExplicitAutograd),
    InPlaceFill(InPlaceFill),
    /// One other operator, chosen by the arguments, with the arguments of its call; it writes in place and to `out=`.
    Delegate(for<'a> fn(Args<'a>) -> Result<Args<'a>>),
}

impl Implementation {
    pub fn kind(&self) -> &'static str {
        match self {
            Implementation::Pointwise(_) => "pointwise",
            Implementation::Kernel(_) => "kernel",
            Implementation::Update(_) => "update",
            Implementation::View(_) | Implementation::ViewDtype(_) => "view",
            Implementation::MultiView(_) => "multi-view",
            Implementation::ExplicitAutograd(_) => "explicit autograd",
            Implementation::InPlaceFill(_) => "in-place fill",
            Implementation::CompositeImplicit(_) | Implementation::Delegate(_) => "composite",
        }
    }

    /// How the operator runs on CUDA devices. Expressions, views and compositions run on any device.
    pub fn on_cuda(&self) -> OnCuda<()> {
        fn of<F>(form: &OnCuda<F>) -> OnCuda<()> {
            match form {
                OnCuda::Own(_) => OnCuda::Own(()),
                OnCuda::Host => OnCuda::Host,
                OnCuda::Refused(reason) => OnCuda::Refused(reason),
            }
        }
        match self {
            Implementation::Kernel(kernel) => of(&kernel.cuda),
            Implementation::Update(update) => of(&update.cuda),
            Implementation::InPlaceFill(overwrite) => of(&overwrite.cuda),
            Implementation::ExplicitAutograd(body) => of(&body.cuda),
            Implementation::Pointwise(_)
            | Implementation::View(_)
            | Implementation::ViewDtype(_)
            | Implementation::MultiView(_)
            | Implementation::CompositeImplicit(_)
            | Implementation::Delegate(_) => OnCuda::Own(()),
        }
    }
}

impl Arg {
    /// Panics unless the operator has an argument of this name and of one of these kinds. Release builds do not check.
    #[cfg(debug_assertions)]
    pub fn check(self, op: &Operator, kinds: &[Kind]) {
        let (position, name) = (self.position(), self.name());
        let Some(param) = op.schema().params.get(position) else {
            panic!("{} has no argument {name} at position {position}", op.name);
        };
        let same = name.is_empty()
            || name == param.name
            || ["self", "input"].contains(&name) && ["self", "input"].contains(&param.name);
        assert!(same, "argument {position} of {} is {}, not {name}", op.name, param.name);
        assert!(
            kinds.is_empty() || kinds.contains(&param.kind),
            "argument {} of {} is {:?}",
            param.name,
            op.name,
            param.kind
        );
    }

    #[cfg(not(debug_assertions))]
    #[inline]
    pub fn check(self, _: &Operator, _: &[Kind]) {}
}

/// The arguments of one call, in the order of the operator's signature; defaults are filled in.
#[derive(Clone)]
pub struct Args<'a> {
    pub op: &'static Operator,
    pub values: Values<'a>,
}

#[derive(Clone, Copy)]
pub enum Accepts {
    /// The result's dtype and those to which it may be cast: never to a lower category.
    Cast,
    /// Only the result's own dtype.
    Same,
    /// As `Cast` for calls for which this is true, as `Same` for all others.
    CastIf(fn(&Args) -> bool),
    /// As `Cast`, and of those only the result's own dtype in calls for which this is true, with the sentence of `Out::EXACT`.
    ExactIf(fn(&Args) -> bool),
    /// The result's own dtype and these.
    Also(DTypes),
    /// Every dtype.
    Any,
    /// Every dtype: the result is computed in it, unless `dtype=` gives another.
    Requested,
    /// The same, if this accepts the dtype of `out=` for the call.
    RequestedIf(fn(&Args, DType) -> Result<()>),
}

/// The warning if `out=` has elements, but not the result's sizes, and is resized.
#[derive(Clone, Copy)]
pub enum Resized {
    /// Warns that this is deprecated.
    Deprecated,
    /// No warning, as in torch's factories.
    Silently,
    /// Warns that the number of elements differs.
    Counted,
    /// For calls for which this is true, the result is computed as the only row of a matrix, to which `out=` is resized
    /// before the row is taken. `Deprecated` for all others.
    RowIf(fn(&Args) -> bool),
}

#[derive(Clone, Copy)]
pub struct Out {
    pub accepts: Accepts,
    /// torch's sentence for each result; the last one is used for all others.
    pub sentences: &'static [&'static str],
    /// The class of the error that says them.
    pub class: Class,
    /// Whether it may share no memory with an argument; otherwise it may be exactly an argument's memory.
    pub no_alias: bool,
    /// Whether a one-dimensional result fills an `out` of any shape with as many elements.
    pub filled: bool,
    /// Whether the kernel fills `out` itself, whatever its dtype and strides: random numbers are drawn in its memory
    /// order.
    pub direct: bool,
    /// Whether such a kernel broadcasts its result to the size that `out` has before.
    pub spanning: bool,
    /// Whether the call only resizes `out`, whose elements are of unspecified values anyway.
    pub only_resizes: bool,
    /// Whether torch resizes `out` before anything else, also to the same size, which a tensor that requires a gradient
    /// refuses.
    pub resizes_first: bool,
    pub resized: Resized,
    /// The dtype of the result, where it is compared with the target's before anything is computed.
    pub known: Option<fn(&Args) -> Option<DType>>,
}

/// The memory format of the gradients that a node made of several calls gives to its inputs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum GradientFormat {
    /// As the derivatives of the calls give them.
    OfParts,
    /// Row-major.
    Contiguous,
    /// Channels last if the gradient of the result is, else row-major.
    OfResult,
}

/// An operator's support of sparse operands.
#[derive(Clone, Copy)]
pub enum Sparse {
    /// No support: raises an error. A composite operator leaves that to its parts.
    Unsupported,
    /// Runs as on other tensors.
    Supported,
    /// Maps zero to zero and is linear: applied to the values.
    Linear,
    /// Maps zero to zero: applied to the values of the coalesced tensor.
    ZeroPreserving,
    /// A sum with this factor of the second operand.
    Add(i64),
    /// Another body, which is not recorded in the graph; the operator has its own derivative. `SparsePrimitives::bodies`
    /// lists the bodies.
    ExplicitAutograd,
    /// Another body of that list, a composite of operators with derivatives.
    CompositeImplicit,
}

/// An operator's batching rule.
#[derive(Clone, Copy)]
pub enum BatchRule {
    /// The default for its kind: views and operators made of others (composite ones, those with a derivative of their own, and
    /// those that delegate) work unchanged, elementwise loops align operands, kernels run once for each sample.
    Default,
    /// Runs once for each sample, whatever its kind.
    Fallback,
    /// Runs once for each sample if one of these arguments is batched; the body reads their values.
    FallbackIf(&'static [Arg]),
    /// Broadcasts its tensors, and is elementwise.
    Broadcast,
    /// Its tensors may have any leading dimensions, all the same.
    LeadingDims,
    /// The first dimension of all its tensors, and of its results, is one of independent items: samples are more items.
    Items,
    /// It works along the dimensions that this argument selects; its tensors have the same number of dimensions.
    Along(Arg),
    /// The same, but it works over all dimensions if the argument is missing.
    Over(Arg),
    /// Reduces all dimensions; this operator does so along given ones.
    FullReduction(&'static Operator),
    /// Another operator with the same arguments.
    Substitute(&'static Operator),
    /// The result depends only on the shape.
    ShapeOnly,
    /// The number of results depends on values: raises this error.
    Unsupported(fn(&Operator) -> Error),
    /// A rule of its own, which gets the call on samples: `batch.tensor(INPUT)` shows all of them along a first
    /// dimension, which the results must have. `None` if the rule does not support the case, which then runs for each
    /// sample.
    Custom(fn(&BatchedCall) -> Result<Option<Output>>),
}

/// A call with one batch dimension shown.
pub struct BatchedCall<'a, 'v> {
    /// The call as it was made, on samples.
    pub args: &'a Args<'v>,
    pub level: i64,
    pub size: isize,
}

/// The effect of mixed precision on an operator's arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Autocast {
    Unchanged,
    /// Cast to the half type.
    LowerPrecision,
    /// Cast to float32.
    Fp32,
    /// Cast to the widest type among them.
    Promote,
    /// The call is an error: its sentence, and a way out.
    Refused(&'static [&'static str; 2]),
}

impl Autocast {
    /// For families in which only some operators need the range.
    pub const fn fp32_if(needed: bool) -> Autocast {
        if needed { Autocast::Fp32 } else { Autocast::Unchanged }
    }

    pub const fn everywhere(self) -> Autocasts {
        Autocasts { cpu: self, cuda: self }
    }

    pub const fn on_cpu_alone(self) -> Autocasts {
        Autocasts { cpu: self, cuda: Autocast::Unchanged }
    }

    pub const fn on_cuda_alone(self) -> Autocasts {
        Autocasts { cpu: Autocast::Unchanged, cuda: self }
    }
}

/// What mixed precision does on the CPU and on CUDA devices.
#[derive(Clone, Copy)]
pub struct Autocasts {
    pub cpu: Autocast,
    pub cuda: Autocast,
}

/// The arguments and results of the forward that a formula uses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Saves(pub u32);

impl Saves {
    pub const NOTHING: Saves = Saves(0);
    pub const RESULT: Saves = Saves::result(0);

    pub const fn input(arg: Arg) -> Saves {
        Saves(1 << arg.position())
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
    pub input: Arg,
    pub saves: Saves,
    pub gradient: fn(&BackwardContext) -> Expr,
    /// torch's name of a gradient that is not implemented.
    pub missing: Option<&'static str>,
}

/// `formula(INPUT, Saves::RESULT, |d| d.grad() * d.result())`
pub const fn formula(input: Arg, saves: Saves, gradient: fn(&BackwardContext) -> Expr) -> Formula {
    Formula { input, saves, gradient, missing: None }
}

/// The place of a formula that is not known: backward raises an error that has this name.
pub const fn missing_formula(input: Arg, name: &'static str) -> Formula {
    Formula { input, saves: Saves::NOTHING, gradient: |_| Expr::Nothing, missing: Some(name) }
}

/// Gradients of several arguments, computed together.
pub struct Joint {
    /// The differentiable arguments; a list of tensors counts as each of its tensors.
    pub inputs: &'static [Arg],
    pub saves: Saves,
    /// A gradient for each tensor among `inputs` for which `d.needs(arg)` is true.
    pub gradients: fn(&BackwardContext) -> Result<Vec<Option<Tensor>>>,
}

impl Joint {
    /// Whether the argument at `place` has a gradient.
    pub fn has_gradient(&self, place: usize) -> bool {
        self.inputs.iter().any(|arg| arg.position() == place)
    }
}

pub enum Derivative {
    /// Not stated; the table's tests reject it.
    Unspecified,
    /// The body consists of operators with derivatives.
    CompositeImplicit,
    /// The reason why there is none.
    NonDifferentiable(&'static str),
    /// Results are part of the graph, but backward through them is an error: torch's operator has no derivative. For
    /// operators in its namespace `aten` the engine raises the error, for others their node.
    NotImplemented(&'static str),
    Formulas(&'static [Formula]),
    Joint(Joint),
}

/// The arguments of a formula.
pub struct BackwardContext<'a> {
    /// The arguments other than tensors.
    pub args: &'a Args<'static>,
    /// The metadata of every tensor argument, in order.
    pub inputs: &'a [SavedMeta],
    pub results: &'a [SavedMeta],
    /// Saved tensors, aligned with `inputs` and `results`.
    pub saved_inputs: Gradients,
    pub saved_results: Gradients,
    pub grads: Gradients,
    /// Which of `inputs` require a gradient.
    pub wanted: &'a [bool],
    /// Whether the saved tensors are released afterwards.
    pub releases: bool,
}

/// A call that must fail: arguments, torch's exception class, and the beginning of torch's sentence.
pub type ErrorInput = (&'static str, &'static str, &'static str);

pub struct Operator {
    /// torch's name; an overload's own name follows a dot (`max.dim`) and is not visible in Python.
    pub name: &'static str,
    /// Other names of the same function, with their namespace (`true_divide`, `special.expit`).
    pub aliases: &'static [&'static str],
    /// The module within `torch`; empty for `torch` itself.
    pub namespace: &'static str,
    pub variants: Variants,
    pub signature: &'static str,
    /// Documentation: sentences, formula, and one example that the tests run.
    pub doc: &'static str,
    /// An example of the in-place form, if its tensor cannot become the result of the example in `doc`.
    pub in_place_example: &'static str,
    /// The requirements on `out=`, if the variants have it.
    pub out: Out,
    /// The dtypes that the computation accepts, after promotion.
    pub dtypes: DTypes,
    /// The effect of mixed precision on its arguments, on each device: torch's lists differ.
    pub autocast: Autocasts,
    pub tags: Tags,
    pub implementation: Implementation,
    /// The support of sparse operands.
    pub sparse: Sparse,
    /// The batching rule.
    pub batch_rule: BatchRule,
    /// Checks of the arguments beyond their types and dtypes.
    pub check: Option<fn(&Args) -> Result<()>>,
    /// The dtypes for which `check` may return an error when the call comes from a Python operator, so that only the
    /// operands vary: it is skipped for others.
    pub checked_dtypes: DTypes,
    /// What the in-place form of an operator that is not elementwise checks first: whether its tensor can be the result.
    pub check_target: Option<fn(&Args) -> Result<()>>,
    /// The kernel's name in torch's error for a dtype, if it is not the operator's name with `_cpu`.
    pub kernel_name: &'static str,
    pub derivative: Derivative,
    /// Arguments of valid calls, as Python text; `t(2, 3)` is a random tensor of that shape in the dtype under test.
    pub samples: &'static [&'static str],
    pub errors: &'static [ErrorInput],
    /// torch's name of the node, if the rule (`AddBackward0`) does not give it; a composite operator with a name is
    /// recorded as one node instead of its parts'. It is followed by names of special cases: `number=PowBackward0` if
    /// an operand is a number, `first=` if the first one is, `in_place=`; `left_out=`, without a name, means that
    /// omitted arguments have no edge.
    pub node: &'static str,
    /// The memory format of the gradients of a composite operator with a `node`.
    pub gradient_format: GradientFormat,
    /// The same in NumPy, with the parameters' names.
    pub reference: &'static str,
    /// Use `Operator::schema` and the methods after it.
    pub cached: AtomicPtr<Cached>,
}

/// Values derived from the definition, computed once and cached.
pub struct Cached {
    pub(crate) schema: Schema,
    pub(crate) display_names: [&'static str; 2],
    pub(crate) optional_edges: u64,
}

impl Operator {
    /// Defaults of a definition, which states the rest.
    pub const BASE: Operator = Operator {
        name: "",
        aliases: &[],
        namespace: "",
        variants: Variants::BOTH,
        signature: "() -> None",
        doc: "",
        in_place_example: "",
        out: Out::CAST,
        dtypes: DTypes::COMMON,
        autocast: Autocast::Unchanged.everywhere(),
        tags: Tags::NONE,
        implementation: Implementation::CompositeImplicit(|_| Ok(Output::Nothing)),
        sparse: Sparse::Unsupported,
        batch_rule: BatchRule::Default,
        check: None,
        checked_dtypes: DTypes::ALL,
        check_target: None,
        kernel_name: "",
        derivative: Derivative::Unspecified,
        samples: &[],
        errors: &[],
        node: "",
        gradient_format: GradientFormat::OfParts,
        reference: "",
        cached: AtomicPtr::new(std::ptr::null_mut()),
    };
}

/// `op!(MUL, grad, other)?`: calls an operator with values convertible to arguments; missing arguments take their
/// defaults.
#[macro_export]
macro_rules! op {
    ($op:path $(, $arg:expr)* $(,)?) => { $op.tensor([$($crate::value::Value::from($arg)),*]) };
}
