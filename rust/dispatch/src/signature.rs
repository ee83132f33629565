//! torch-style signatures: one line of text for the argument parser, the stubs and the documentation.
//!
//! `"(Tensor self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor"`. The types are `Tensor`, `Tensor|Scalar`,
//! `Tensor|float`, `Scalar`, `int`, `float`, `bool`, `truth` (any object with a truth value), `int[]` (also separate numbers if it is
//! the only positional argument), `int[1]` (also one number), `float[]`, `Scalar[]`, `object`, `Tensor[]` (separate tensors with a star
//! before its name), `ScalarType`, `Device`, `Layout`, `MemoryFormat`, `str`, `Generator`; a `?` after a type allows
//! `None`. Results are `Tensor`, `(Tensor values, Tensor indices)`, `Tensor[]`, `bool`, `int`, `float`, `ScalarType`,
//! `None`.

use crate::value::{Arg, Ints, Value};
use rushlight_core::{DType, Scalar};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Tensor,
    /// A tensor, or a number that is treated as a 0-d tensor.
    Operand,
    /// A tensor, or a number that stays one.
    TensorOrFloat,
    Scalar,
    Int,
    Float,
    Bool,
    /// An object's truth value, as torch reads flags that it does not pass on.
    Truth,
    Ints,
    /// A list of numbers, or one number used as such a list.
    IntOrInts,
    Floats,
    /// A list of numbers of any kind. No operator takes this kind or the next one, but functions written in Python do.
    Scalars,
    /// Any object.
    Object,
    Tensors,
    DType,
    Device,
    /// `torch.strided` and so on; the value is its name.
    Layout,
    /// `torch.contiguous_format` and so on; the value is its name.
    MemoryFormat,
    Str,
    Generator,
}

impl Kind {
    pub fn parse(text: &str) -> Option<Kind> {
        Some(match text {
            "Tensor" => Kind::Tensor,
            "Tensor|Scalar" => Kind::Operand,
            "Tensor|float" => Kind::TensorOrFloat,
            "Scalar" => Kind::Scalar,
            "int" => Kind::Int,
            "float" => Kind::Float,
            "bool" => Kind::Bool,
            "truth" => Kind::Truth,
            "int[]" => Kind::Ints,
            "int[1]" => Kind::IntOrInts,
            "float[]" => Kind::Floats,
            "Scalar[]" => Kind::Scalars,
            "object" => Kind::Object,
            "Tensor[]" | "Tensor?[]" => Kind::Tensors,
            "ScalarType" => Kind::DType,
            "Device" => Kind::Device,
            "Layout" => Kind::Layout,
            "MemoryFormat" => Kind::MemoryFormat,
            "str" => Kind::Str,
            "Generator" => Kind::Generator,
            _ => return None,
        })
    }

    /// The type's name in torch's messages.
    pub fn display_name(self) -> &'static str {
        match self {
            Kind::Tensor | Kind::Operand | Kind::TensorOrFloat => "Tensor",
            Kind::Scalar => "Number",
            Kind::Int => "int",
            Kind::Float => "float",
            Kind::Bool | Kind::Truth => "bool",
            Kind::Ints | Kind::IntOrInts => "tuple of ints",
            Kind::Floats => "tuple of floats",
            Kind::Scalars => "tuple of Scalars",
            Kind::Object => "object",
            Kind::Tensors => "tuple of Tensors",
            Kind::DType => "torch.dtype",
            Kind::Device => "torch.device",
            Kind::Layout => "torch.layout",
            Kind::MemoryFormat => "torch.memory_format",
            Kind::Str => "str",
            Kind::Generator => "torch.Generator",
        }
    }

    /// The type in a Python stub.
    pub fn annotation(self) -> &'static str {
        match self {
            Kind::Tensor => "Tensor",
            Kind::Operand => "Tensor | Number",
            Kind::TensorOrFloat => "Tensor | float",
            Kind::Scalar => "Number",
            Kind::Int => "int",
            Kind::Float => "float",
            Kind::Bool | Kind::Truth => "bool",
            Kind::Ints => "Sequence[int]",
            Kind::IntOrInts => "int | Sequence[int]",
            Kind::Floats => "float | Sequence[float]",
            Kind::Scalars => "Sequence[Number]",
            Kind::Object => "object",
            Kind::Tensors => "Sequence[Tensor]",
            Kind::DType => "dtype",
            Kind::Device => "DeviceLike",
            Kind::Layout => "layout",
            Kind::MemoryFormat => "memory_format",
            Kind::Str => "str",
            Kind::Generator => "Generator",
        }
    }
}

/// The kinds of arguments that may hold a tensor, and those that may hold a number.
pub(crate) const TENSOR: &[Kind] = &[Kind::Tensor, Kind::Operand, Kind::TensorOrFloat];
pub(crate) const NUMBER: &[Kind] =
    &[Kind::Scalar, Kind::Operand, Kind::TensorOrFloat, Kind::Int, Kind::Float, Kind::Bool, Kind::Truth];

pub struct Param {
    pub name: &'static str,
    pub kind: Kind,
    pub optional: bool,
    pub keyword_only: bool,
    /// A list that may be written without brackets: `meshgrid(a, b)`.
    pub variadic: bool,
    /// A list that must be written so: `block_diag(a, b)`.
    pub separate: bool,
    /// The default as written in the signature; `None` if the argument is required.
    pub default: Option<&'static str>,
    preset: Value<'static>,
}

impl Param {
    #[inline]
    pub(crate) fn preset(&self) -> &Value<'static> {
        &self.preset
    }

    /// The value of an omitted argument.
    #[inline]
    pub fn default_value(&self) -> Value<'static> {
        match &self.preset {
            // The most frequent default, which avoids the general copy of a value.
            Value::None => Value::None,
            preset => preset.clone(),
        }
    }
}

/// Parses a default; `None` if the text is not a value of the kind.
fn preset(kind: Kind, default: Option<&'static str>) -> Option<Value<'static>> {
    let Some(text) = default else { return Some(Value::None) };
    match (kind, text) {
        (_, "None") => Some(Value::None),
        (Kind::Bool | Kind::Truth, "True") => Some(Value::Bool(true)),
        (Kind::Bool | Kind::Truth, "False") => Some(Value::Bool(false)),
        (Kind::Int, number) => number.parse().ok().map(Value::Int),
        (Kind::Float, number) => number.parse().ok().map(Value::Float),
        (Kind::Str, quoted) => Some(Value::Str(quoted.strip_prefix('\'')?.strip_suffix('\'')?)),
        (Kind::Ints | Kind::IntOrInts, list) => parse_ints(list).map(Value::Ints),
        (Kind::DType, name) => DType::ALL.into_iter().find(|dtype| dtype.name() == name).map(Value::DType),
        (Kind::Operand | Kind::Scalar, "True") => Some(Value::Scalar(Scalar::Bool(true))),
        (Kind::Operand | Kind::Scalar, "False") => Some(Value::Scalar(Scalar::Bool(false))),
        (Kind::Operand | Kind::Scalar, number) => match number.parse() {
            Ok(int) => Some(Value::Scalar(Scalar::Int(int))),
            Err(_) => number.parse().ok().map(|float| Value::Scalar(Scalar::Float(float))),
        },
        _ => None,
    }
}

fn parse_ints(list: &str) -> Option<Ints> {
    let list = list.trim_matches(['[', ']', '(', ')']);
    if list.is_empty() { Some(Ints::new()) } else { list.split(',').map(|n| n.trim().parse().ok()).collect() }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Returns {
    Tensor,
    /// A tuple with field names.
    Named(&'static [&'static str]),
    List,
    Other(&'static str),
}

/// A signature, parsed once per process.
pub struct Schema {
    pub params: Vec<Param>,
    pub returns: Returns,
    /// The number of positional parameters.
    pub positional: usize,
    /// `truth inplace=False`, which writes the result into the first argument.
    pub inplace: Option<Arg>,
    /// The keywords `dtype`, `layout`, `device`, `pin_memory` and `requires_grad` of a factory (`create::factory!`).
    pub options: Option<[Arg; 5]>,
    /// The numbers among the defaults, in order: the numbers of a pointwise loop if none are given.
    pub numbers: Vec<Scalar>,
}

impl Schema {
    /// Parses a signature; the table's test parses all of them, so a mistake in one never reaches a user.
    pub fn parse(text: &'static str) -> Option<Schema> {
        let (list, returns) = text.split_once(") -> ")?;
        let list = list.strip_prefix('(')?;
        let mut params = Vec::new();
        let mut keyword_only = false;
        for part in split_top(list) {
            if part == "*" {
                keyword_only = true;
                continue;
            }
            let (kind, rest) = part.rsplit_once(' ').filter(|_| !part.contains('=')).or_else(|| {
                let name_at = part[..part.find('=')?].rfind(' ')?;
                Some((&part[..name_at], &part[name_at + 1..]))
            })?;
            let (name, default) = match rest.split_once('=') {
                Some((name, default)) => (name, Some(default)),
                None => (rest, None),
            };
            let (name, variadic) = name.strip_prefix('*').map_or((name, false), |name| (name, true));
            let optional = kind.ends_with('?');
            let kind = Kind::parse(kind.trim_end_matches('?'))?;
            let separate = variadic && kind == Kind::Tensor;
            let kind = if separate { Kind::Tensors } else { kind };
            let preset = preset(kind, default)?;
            params.push(Param { name, kind, optional, keyword_only, variadic, separate, default, preset });
        }
        let returns = match returns {
            "Tensor" => Returns::Tensor,
            "Tensor[]" => Returns::List,
            tuple if tuple.starts_with('(') => {
                let names: Vec<&'static str> = tuple
                    .trim_matches(['(', ')'])
                    .split(',')
                    .filter_map(|part| part.trim().strip_prefix("Tensor"))
                    .map(str::trim)
                    .collect();
                Returns::Named(Box::leak(names.into_boxed_slice()))
            }
            other => Returns::Other(other),
        };
        let positional = params.iter().filter(|param| !param.keyword_only).count();
        let arg = |name| {
            let position = params.iter().position(|param: &Param| param.name == name)?;
            Some(Arg::of_signature(position, name))
        };
        let inplace = arg("inplace");
        let options = match ["dtype", "layout", "device", "pin_memory", "requires_grad"].map(arg) {
            [Some(dtype), Some(layout), Some(device), Some(pinned), Some(gradient)] => {
                Some([dtype, layout, device, pinned, gradient])
            }
            _ => None,
        };
        let numbers = params.iter().filter_map(|param: &Param| match param.preset {
            Value::Scalar(number) => Some(number),
            Value::Bool(flag) => Some(Scalar::Bool(flag)),
            Value::Int(number) => Some(Scalar::Int(number)),
            Value::Float(number) => Some(Scalar::Float(number)),
            _ => None,
        });
        let numbers = numbers.collect();
        Some(Schema { params, returns, positional, inplace, options, numbers })
    }

    /// Whether the only argument after a method's object, or the only one of a function, is a list that may be written
    /// without brackets: `x.view(2, 3)`, `meshgrid(a, b)`.
    pub fn takes_variadic(&self, method: bool) -> bool {
        let own = usize::from(method);
        self.positional == own + 1
            && matches!(
                self.params[own],
                Param { variadic: true, .. } | Param { kind: Kind::Ints, optional: false, default: None, .. }
            )
    }

    pub fn place(&self, name: &str) -> Option<usize> {
        self.params.iter().position(|param| param.name == name)
    }

    /// The argument of this name, if the operator has one.
    pub fn arg(&self, name: &'static str) -> Option<Arg> {
        self.place(name).map(|position| Arg::of_signature(position, name))
    }
}

/// Splits at commas outside of brackets.
fn split_top(list: &'static str) -> Vec<&'static str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (at, letter) in list.char_indices() {
        match letter {
            '[' | '(' => depth += 1,
            ']' | ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(list[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}
