//! The row: everything about one operator, in the operator's own room.
//!
//! `table.rs` names each row once; all else walks the table: Python functions and methods, in-place and `out=` variants,
//! stubs, reference pages, tests.

use std::sync::atomic::{AtomicPtr, Ordering};

use rushlight_autograd::{Meta, Tensor};
use rushlight_core::memory_format::{channels_last, has_channels_last};
use rushlight_core::{DType, Device, Layout, Result};
use rushlight_cpu::pointwise::Tile;

use crate::autocast::Autocast;
use crate::derive::Derivative;
use crate::mapped::Mapped;
use crate::node;
pub use crate::out::{Accepts, Out};
use crate::signature::{Kind, Param, Schema};
use crate::sparse::Sparse;
use crate::value::{Args, Output};

/// Where Python finds an operator.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Variants(pub u8);

impl Variants {
    pub const FUNCTION: Variants = Variants(1);
    pub const METHOD: Variants = Variants(2);
    /// `name_` as a method, and as a function where the row takes nothing else.
    pub const INPLACE: Variants = Variants(4);
    /// `name_` as a function, for those of several arguments that torch has.
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

/// What sets a row apart from most, which its callers and its tests must know.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Traits(u16);

impl Traits {
    pub const NONE: Traits = Traits(0);
    /// The result follows strides and storage, not the elements alone.
    pub const SEES_MEMORY: Traits = Traits(1);
    /// What comes out depends on values in number, size or kind: a call on `meta` may refuse.
    pub const NEEDS_VALUES: Traits = Traits(2);
    /// In place it refuses more than dtypes and shapes say.
    pub const REFUSES_IN_PLACE: Traits = Traits(4);
    /// Its tensors need not live on one device.
    pub const ACROSS_DEVICES: Traits = Traits(8);
    /// In place its tensor takes the result's shape.
    pub const RESHAPES_IN_PLACE: Traits = Traits(16);
    /// Its tensors take a common shape, as those of pointwise rows always do.
    pub const BROADCASTS: Traits = Traits(32);
    /// It minds marks of conjugates and negatives (`Form::Mirrored`), as all views do.
    pub const SEES_MIRRORED: Traits = Traits(64);
    /// It draws random numbers.
    pub const DRAWS: Traits = Traits(128);
    /// It takes its numbers in double precision, whatever the dtype of its tensors.
    pub const WIDE_NUMBERS: Traits = Traits(256);
    /// In place it leaves no trace in the graph and asks nothing of its tensor, as in torch.
    pub const UNRECORDED_IN_PLACE: Traits = Traits(512);
    /// In place it writes into an expanded tensor too, and tells that this is old.
    pub const WRITES_EXPANDED: Traits = Traits(1024);
    /// In place all its elements become the same, so that one may stand for many.
    pub const UNIFORM: Traits = Traits(4096);
    /// Its result is row-major, however its tensor lies.
    pub const ROW_MAJOR: Traits = Traits(2048);
    /// Its result has the strides of its tensor, with the gaps between elements that a slice has.
    pub const KEEPS_STRIDES: Traits = Traits(8192);

    pub const fn union(self, other: Traits) -> Traits {
        Traits(self.0 | other.0)
    }

    const NAMES: [(Traits, &'static str); 14] = [
        (Traits::BROADCASTS, "broadcasts"),
        (Traits::SEES_MEMORY, "sees memory"),
        (Traits::NEEDS_VALUES, "needs values"),
        (Traits::REFUSES_IN_PLACE, "refuses in place"),
        (Traits::ACROSS_DEVICES, "across devices"),
        (Traits::RESHAPES_IN_PLACE, "reshapes in place"),
        (Traits::SEES_MIRRORED, "sees mirrored"),
        (Traits::WIDE_NUMBERS, "wide numbers"),
        (Traits::DRAWS, "draws"),
        (Traits::UNRECORDED_IN_PLACE, "unrecorded in place"),
        (Traits::WRITES_EXPANDED, "writes expanded"),
        (Traits::UNIFORM, "uniform"),
        (Traits::ROW_MAJOR, "row-major"),
        (Traits::KEEPS_STRIDES, "keeps strides"),
    ];

    pub const fn has(self, other: Traits) -> bool {
        self.0 & other.0 == other.0
    }

    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Traits::NAMES.into_iter().filter(move |(one, _)| self.has(*one)).map(|(_, name)| name)
    }
}

/// A set of dtypes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DTypes(pub u16);

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
    pub const ALL: DTypes = DTypes(0x7fff);
    /// What matrices are factorised in.
    pub const DENSE: DTypes = DTypes::of(&[DType::F32, DType::F64, DType::C64, DType::C128]);

    pub const fn of(list: &[DType]) -> DTypes {
        let mut bits = 0;
        let mut i = 0;
        while i < list.len() {
            bits |= 1 << list[i] as u16;
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
        self.0 & (1 << dtype as u16) != 0
    }

    pub fn list(self) -> impl Iterator<Item = DType> {
        DType::ALL.into_iter().filter(move |dtype| self.has(*dtype))
    }
}

/// How the operands' dtypes become the dtype of the computation and of the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Promote {
    /// The operands' common dtype, for both.
    Common,
    /// The common dtype; integers and bool become the default float.
    IntToFloat,
    /// The operands meet in their common dtype, the result is bool.
    ToBool,
    /// The common dtype; the result of a complex number is real.
    ComplexToReal,
    /// Like `Common`, and the row's numbers take part (`clamp` of integers by 0.5 is float).
    WithNumbers,
}

impl Promote {
    /// The dtype of the result where `compute` is the dtype of the computation.
    pub fn result(self, compute: DType) -> DType {
        match self {
            Promote::ToBool => DType::Bool,
            Promote::ComplexToReal => compute.to_real(),
            _ => compute,
        }
    }
}

/// An operator that treats each element alone.
pub struct Pointwise {
    pub promote: Promote,
    /// The loop for a compute dtype; see `rushlight_cpu::tiles!`.
    pub cpu: fn(DType) -> Option<Tile>,
}

/// What a result will be, before it exists.
#[derive(Clone)]
pub struct Spec {
    pub layout: Layout,
    pub dtype: DType,
    pub device: Device,
}

impl Spec {
    /// A row-major result beside `like`.
    pub fn new(sizes: &[isize], dtype: DType, like: &Tensor) -> Spec {
        Spec { layout: Layout::contiguous(sizes), dtype, device: like.device() }
    }

    /// The same, with the channels last where those of `like` are.
    pub fn formatted(mut self, like: &Layout) -> Spec {
        if self.layout.rank() == like.rank() && has_channels_last(like) {
            self.layout.strides = channels_last(&self.layout.sizes);
        }
        self
    }

    /// The same for sequences, which are images of height one.
    pub fn formatted_as_image(mut self, like: &Layout) -> Spec {
        if like.rank() == 3 && has_channels_last(&like.unsqueeze(2)) {
            let order = [0, 2, 1];
            self.layout = Layout::contiguous(&self.layout.permute(&order).sizes).permute(&order);
        }
        self
    }

    /// A row-major result that is as `like`.
    pub fn like(like: &Tensor) -> Spec {
        Spec::new(like.sizes(), like.dtype(), like)
    }
}

/// An operator with an algorithm of its own.
pub struct Kernel {
    /// Checks the arguments and says what the results will be; runs without data.
    pub infer: fn(&Args) -> Result<Vec<Spec>>,
    /// Fills the results.
    pub cpu: fn(&Args, &[Tensor]) -> Result<()>,
}

/// An operator whose result is its first argument with some elements changed.
pub struct Update {
    /// Checks the arguments; runs without data.
    pub check: fn(&Args) -> Result<()>,
    /// Changes the tensor, which holds the first argument's elements; no other argument shares its memory.
    pub cpu: fn(&Args, &Tensor) -> Result<()>,
}

/// How a row is carried out.
pub enum Run {
    Pointwise(Pointwise),
    Kernel(Kernel),
    Update(Update),
    /// The same bytes seen otherwise. In place the tensor itself takes the geometry.
    View(fn(&Args) -> Result<Layout>),
    /// The same bytes seen as other elements.
    Retype(fn(&Args) -> Result<Meta>),
    /// Several views at once, which in-place operations may not rebase.
    Views(fn(&Args) -> Result<Vec<Layout>>),
    /// Other rows; it has neither kernel nor derivative.
    Compose(fn(&Args) -> Result<Output>),
    /// Anything, most often other rows too: what happens inside leaves no trace in the graph, and the derivative is the row's own.
    Body(fn(&Args) -> Result<Output>),
    /// The first argument filled anew, in place, whatever it held; the derivative is the row's own.
    Overwrite(fn(&Args, &Tensor) -> Result<()>),
    /// One other row, chosen by the arguments, with the arguments to call it with; it writes in place and to `out=`.
    Defer(for<'a> fn(Args<'a>) -> Result<Args<'a>>),
}

/// A call that must fail: arguments, torch's exception class, and the beginning of torch's sentence.
pub type Bad = (&'static str, &'static str, &'static str);

pub struct Row {
    /// torch's name; an overload's own name follows a dot (`max.dim`) and is not seen from Python.
    pub name: &'static str,
    /// Other names of the same function, with their namespace (`true_divide`, `special.expit`).
    pub aliases: &'static [&'static str],
    /// The module behind `torch.`; empty for `torch` itself.
    pub namespace: &'static str,
    pub variants: Variants,
    pub signature: &'static str,
    /// Sentences, formula, and one example that the tests run.
    pub doc: &'static str,
    /// What `out=` may be, where the variants have it.
    pub out: Out,
    /// The dtypes that the computation accepts, after promotion.
    pub dtypes: DTypes,
    /// What mixed precision makes of its arguments.
    pub autocast: Autocast,
    pub traits: Traits,
    pub run: Run,
    /// What it makes of sparse operands.
    pub sparse: Sparse,
    /// What it makes of mapped ones.
    pub mapped: Mapped,
    /// What the arguments must fulfil beside their types and dtypes.
    pub check: Option<fn(&Args) -> Result<()>>,
    /// The dtypes of which `check` has something to say where an operator's sign stands for the call, so that only the
    /// operands differ: it is not asked about tensors of others.
    pub checks: DTypes,
    /// Who refuses a dtype in torch's sentence, where it is not the operator's name with `_cpu`.
    pub refuses: &'static str,
    /// The CUDA kernel: an expression over the operands' names for a pointwise row, a kernel's name, or none yet.
    pub cuda: Option<&'static str>,
    pub derivative: Derivative,
    /// Arguments of good calls, as Python text; `t(2, 3)` is a random tensor of that shape in the dtype under test.
    pub samples: &'static [&'static str],
    pub errors: &'static [Bad],
    /// torch's name of the node, where the rule (`AddBackward0`) does not give it; a composed row that has one leaves one node
    /// behind instead of its parts'. After it the names of cases: `number=PowBackward0` where a number is an operand,
    /// `first=` where it is the first one, `in_place=`; `left_out=`, without a name, says that what may be left out has no edge then.
    pub node: &'static str,
    /// The same in NumPy, over the parameters' names.
    pub reference: &'static str,
    /// Use `Row::schema` and its neighbours.
    pub known: AtomicPtr<Known>,
}

/// What follows from what a row states, found out once and kept.
pub struct Known {
    schema: Schema,
    titles: [&'static str; 2],
    open_edges: u64,
}

impl Row {
    /// What rows have in common; a row states the rest.
    pub const BASE: Row = Row {
        name: "",
        aliases: &[],
        namespace: "",
        variants: Variants::BOTH,
        signature: "() -> None",
        doc: "",
        out: Out::CAST,
        dtypes: DTypes::COMMON,
        autocast: Autocast::Unchanged,
        traits: Traits::NONE,
        run: Run::Compose(|_| Ok(Output::Nothing)),
        sparse: Sparse::Refused,
        mapped: Mapped::ByKind,
        check: None,
        checks: DTypes::ALL,
        refuses: "",
        cuda: None,
        derivative: Derivative::Unstated,
        samples: &[],
        errors: &[],
        node: "",
        reference: "",
        known: AtomicPtr::new(std::ptr::null_mut()),
    };

    /// The signature taken apart.
    #[inline]
    pub fn schema(&self) -> &'static Schema {
        &self.known().schema
    }

    /// The places, as bits, that have an edge in the graph even where no tensor stands there.
    #[inline]
    pub fn open_edges(&self) -> u64 {
        self.known().open_edges
    }

    /// What errors call it, or its form in place: `linalg.inv`, `add_`.
    pub fn title(&self, in_place: bool) -> &'static str {
        self.known().titles[usize::from(in_place)]
    }

    #[inline]
    fn known(&self) -> &'static Known {
        let known = self.known.load(Ordering::Acquire);
        if known.is_null() {
            return self.know();
        }
        // SAFETY: only `know` stores here, and what it stores is leaked.
        unsafe { &*known }
    }

    #[cold]
    fn know(&self) -> &'static Known {
        // The table's tests read every signature, so that only its author meets this.
        let schema = Schema::parse(self.signature)
            .unwrap_or_else(|| panic!("the signature of {} cannot be read: {}", self.name, self.signature));
        let title = match self.namespace {
            "" => self.python_name().to_owned(),
            namespace => format!("{namespace}.{}", self.python_name()),
        };
        let in_place = if title.ends_with('_') { title.clone() } else { format!("{title}_") };
        let open_edges = node::open_edges(self, &schema.params);
        let known: &'static Known =
            Box::leak(Box::new(Known { schema, titles: [title.leak(), in_place.leak()], open_edges }));
        self.known.store(std::ptr::from_ref(known).cast_mut(), Ordering::Release);
        known
    }

    /// The name without the overload's.
    pub fn python_name(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(name, _)| name)
    }

    /// torch's name for it where there are no modules: in classes of results, some errors and profiles. `linalg_svd`, but
    /// `linear` of `nn.functional`.
    pub fn flat_name(&self) -> String {
        match self.namespace {
            "" | "nn.functional" => self.python_name().to_owned(),
            namespace => format!("{}_{}", namespace.replace('.', "_"), self.python_name()),
        }
    }

    /// The arguments that take a common shape; none where at most one tensor takes part.
    pub fn broadcasting(&self) -> Vec<&'static str> {
        let takes_part = |param: &&Param| matches!(param.kind, Kind::Tensor | Kind::Operand);
        let shown = |param: &Param| if param.name == "self" { "input" } else { param.name };
        let all: Vec<_> = self.schema().params.iter().filter(takes_part).map(shown).collect();
        let meet = matches!(self.run, Run::Pointwise(_)) || self.traits.has(Traits::BROADCASTS);
        if meet && all.len() > 1 { all } else { Vec::new() }
    }

    pub fn is_view(&self) -> bool {
        matches!(self.run, Run::View(_) | Run::Retype(_) | Run::Views(_))
    }

    /// Calls the operator from Rust.
    #[inline]
    pub fn call<'a, const N: usize>(&'static self, values: [crate::value::Value<'a>; N]) -> Result<Output> {
        crate::call::call(Args::new(self, values))
    }

    /// Calls an operator that gives one tensor.
    #[inline]
    pub fn tensor<'a, const N: usize>(&'static self, values: [crate::value::Value<'a>; N]) -> Result<Tensor> {
        self.call(values)?.into_tensor()
    }
}

/// `op!(MUL, grad, other)?`: calls a row with anything that turns into values, missing arguments take their defaults.
#[macro_export]
macro_rules! op {
    ($row:path $(, $arg:expr)* $(,)?) => { $row.tensor([$($crate::value::Value::from($arg)),*]) };
}
