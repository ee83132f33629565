//! torch-style signatures: one line of text that the parser of arguments, the stubs and the docs all read.
//!
//! `"(Tensor self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor"`. The types are `Tensor`, `Tensor|Scalar`, `Scalar`,
//! `int`, `float`, `bool`, `truth` (anything that Python takes for true or false), `int[]` (also loose numbers where nothing else stands in position), `int[1]` (one number too), `float[]`,
//! `Tensor[]` (loose with a star before its name), `ScalarType`, `Device`, `Layout`, `MemoryFormat`, `str`, `Generator`; a `?` behind one allows `None`. Results are
//! `Tensor`, `(Tensor values, Tensor indices)`, `Tensor[]`, `bool`, `int`, `float`, `ScalarType`, `None`.

use crate::value::{Ints, Value};
use rushlight_core::{DType, Scalar};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Tensor,
    /// A tensor, or a number that takes part as a tensor of no dimension.
    Operand,
    Scalar,
    Int,
    Float,
    Bool,
    /// Whether Python takes an object for true, as torch reads flags that it does not hand on.
    Truth,
    Ints,
    /// A list of numbers, or one number that stands for such a list.
    IntOrInts,
    Floats,
    Tensors,
    DType,
    Device,
    /// `torch.strided` and its kind; the value is its name.
    Layout,
    /// `torch.contiguous_format` and its kind; the value is its name.
    MemoryFormat,
    Str,
    Generator,
}

impl Kind {
    fn parse(text: &str) -> Option<Kind> {
        Some(match text {
            "Tensor" => Kind::Tensor,
            "Tensor|Scalar" => Kind::Operand,
            "Scalar" => Kind::Scalar,
            "int" => Kind::Int,
            "float" => Kind::Float,
            "bool" => Kind::Bool,
            "truth" => Kind::Truth,
            "int[]" => Kind::Ints,
            "int[1]" => Kind::IntOrInts,
            "float[]" => Kind::Floats,
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

    /// The type as torch's messages name it.
    pub fn title(self) -> &'static str {
        match self {
            Kind::Tensor | Kind::Operand => "Tensor",
            Kind::Scalar => "Number",
            Kind::Int => "int",
            Kind::Float => "float",
            Kind::Bool | Kind::Truth => "bool",
            Kind::Ints | Kind::IntOrInts => "tuple of ints",
            Kind::Floats => "tuple of floats",
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
            Kind::Scalar => "Number",
            Kind::Int => "int",
            Kind::Float => "float",
            Kind::Bool | Kind::Truth => "bool",
            Kind::Ints => "Sequence[int]",
            Kind::IntOrInts => "int | Sequence[int]",
            Kind::Floats => "float | Sequence[float]",
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

pub struct Param {
    pub name: &'static str,
    pub kind: Kind,
    pub optional: bool,
    pub keyword_only: bool,
    /// A list that is also written without brackets: `meshgrid(a, b)`.
    pub loose: bool,
    /// The default as written in the signature; nothing where the argument is required.
    pub default: Option<&'static str>,
    preset: Value<'static>,
}

impl Param {
    #[inline]
    pub(crate) fn preset(&self) -> &Value<'static> {
        &self.preset
    }

    /// The value that stands for an argument that was not given.
    #[inline]
    pub fn default_value(&self) -> Value<'static> {
        match &self.preset {
            // Most defaults: not worth the call that copies any kind of value.
            Value::None => Value::None,
            preset => preset.clone(),
        }
    }
}

/// Reads a default; nothing where the text is no value of the kind.
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

/// A signature, taken apart once per process.
pub struct Schema {
    pub params: Vec<Param>,
    pub returns: Returns,
    /// How many parameters may be given by position.
    pub positional: usize,
    /// The place of `truth inplace=False`, which asks for the result in the first argument's place.
    pub inplace: Option<usize>,
    /// The place of `ScalarType dtype` where a factory's keywords begin (`create::factory!`).
    pub options: Option<usize>,
    /// The numbers among the defaults, in order: what a pointwise loop gets when nothing else was said.
    pub numbers: Vec<Scalar>,
}

impl Schema {
    /// Reads a signature; the table's test reads all of them, so a mistake in one never reaches a user.
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
            let (name, loose) = name.strip_prefix('*').map_or((name, false), |name| (name, true));
            let optional = kind.ends_with('?');
            let kind = Kind::parse(kind.trim_end_matches('?'))?;
            let preset = preset(kind, default)?;
            params.push(Param { name, kind, optional, keyword_only, loose, default, preset });
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
        let inplace = params.iter().position(|param| param.name == "inplace");
        let options = params.windows(2).position(|two| (two[0].kind, two[1].kind) == (Kind::DType, Kind::Layout));
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

    /// Whether the one argument behind a method's object, or the only one of a function, is a list that is also written
    /// loose: `x.view(2, 3)`, `meshgrid(a, b)`.
    pub fn takes_loose(&self, method: bool) -> bool {
        let own = usize::from(method);
        self.positional == own + 1
            && matches!(
                self.params[own],
                Param { loose: true, .. } | Param { kind: Kind::Ints, optional: false, default: None, .. }
            )
    }

    pub fn place(&self, name: &str) -> Option<usize> {
        self.params.iter().position(|param| param.name == name)
    }
}

/// Splits at commas that stand outside brackets.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_taken_apart() {
        let schema =
            Schema::parse("(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor")
                .unwrap();
        let names: Vec<_> = schema.params.iter().map(|p| (p.name, p.kind, p.optional, p.keyword_only)).collect();
        assert_eq!(names[1], ("dim", Kind::IntOrInts, true, false));
        assert_eq!(names[3], ("dtype", Kind::DType, true, true));
        assert_eq!(schema.positional, 3);
        assert!(matches!(schema.params[2].default_value(), Value::Bool(false)));
    }

    #[test]
    fn results_may_have_names() {
        let schema = Schema::parse("(Tensor self, int dim) -> (Tensor values, Tensor indices)").unwrap();
        assert_eq!(schema.returns, Returns::Named(&["values", "indices"]));
    }
}
