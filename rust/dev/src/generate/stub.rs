//! The stubs: `_C.pyi` with the classes, written by hand in `stub.pyi` except for the operators' methods;
//! `_functions/*.pyi` with the operators as functions; `return_types.pyi` with the results that have named fields.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::budget::GENERATED;
use rushlight::names::{self, CallForm, Names, of_function};
use rushlight::reference::in_place;
use rushlight_dispatch::operator::{Operator, Variants};
use rushlight_dispatch::signature::{Kind, Param, Returns};

/// The part written by hand; one line in it is replaced.
pub const FRAME: &str = "rust/dev/stub.pyi";
/// Functions of `torch.nn.functional` that wrap their operator in Python.
pub const WRAPPERS: &str = "python/rushlight/nn/functional.py";
/// torch's namespaces, and the modules of `rushlight._functions` that hold them.
const NAMESPACES: [(&str, &str); 5] = [
    ("", "__init__"),
    ("fft", "fft"),
    ("linalg", "linalg"),
    ("nn.functional", "nn_functional"),
    ("special", "special"),
];
const METHODS: &str = "    # the operators' methods\n";

/// The stub of the extension module.
pub fn classes(frame: &str, names: &Names) -> Result<String, String> {
    if !frame.contains(METHODS) {
        return Err(format!("{FRAME}: the line '{}' is missing", METHODS.trim()));
    }
    let mut methods = String::new();
    for ((_, name, form), operators) in names.iter().filter(|((_, _, form), _)| form.is_method()) {
        definition(&mut methods, "    ", "", name, *form, operators);
    }
    let mut text =
        format!("# {GENERATED} from {FRAME} and the operator table.\n\n{}", frame.replacen(METHODS, &methods, 1));
    text.push_str("\n# Private operators, which the Python files call.\n\n");
    for (name, form, operators) in functions(names, "").filter(|(name, ..)| name.starts_with('_')) {
        definition(&mut text, "", "", name, form, operators);
    }
    Ok(text)
}

/// The stubs of `rushlight._functions`: a file for each of torch's namespaces. Names that `wrappers` defines itself, or
/// imports from a file next to it, are not exported, because a name may have one type only.
pub fn namespaces(names: &Names, wrappers: &str) -> Result<Vec<(String, String)>, String> {
    if let Some((stranger, ..)) = names.keys().find(|key| NAMESPACES.iter().all(|(known, _)| *known != key.0)) {
        return Err(format!("torch.{stranger} has no module in rushlight._functions"));
    }
    let wrapped = |name: &str| {
        wrappers.contains(&format!("\ndef {name}(")) || wrappers.contains(&format!(" import {name} as {name}\n"))
    };
    let file = |(namespace, file)| {
        let hidden = |name: &str| namespace == "nn.functional" && wrapped(name);
        (format!("python/rushlight/_functions/{file}.pyi"), public(names, namespace, hidden))
    };
    Ok(NAMESPACES.map(file).into())
}

fn public(names: &Names, namespace: &str, hidden: impl Fn(&str) -> bool) -> String {
    let mut definitions = String::new();
    let mut public = Vec::new();
    for (name, form, operators) in functions(names, namespace).filter(|(name, ..)| !name.starts_with('_')) {
        if !hidden(name) {
            public.push(format!("\"{name}\""));
        }
        definition(&mut definitions, "", namespace, name, form, operators);
    }
    format!(
        "# {GENERATED} from the operator table.\n\n\
         from builtins import bool as _bool, float as _float, int as _int, str as _str\n\
         from collections.abc import Sequence\n\
         from typing import Any, overload\n\n\
         from rushlight import return_types\n\
         from rushlight._C import (\n    Generator,\n    Tensor,\n    _DeviceLike,\n    _dtype,\n    _layout,\n    \
         _memory_format,\n    _Number,\n)\n\n\
         {definitions}\n__all__ = [{}]\n",
        public.join(", ")
    )
}

/// The functions of a namespace.
fn functions<'a>(
    names: &'a Names,
    namespace: &str,
) -> impl Iterator<Item = (&'a str, CallForm, &'a [&'static Operator])> {
    names
        .iter()
        .filter(move |((home, _, form), _)| *home == namespace && !form.is_method())
        .map(|((_, name, form), operators)| (name.as_str(), *form, operators.as_slice()))
}

/// The stub of `rushlight.return_types`: results with named fields, by the operator's name.
pub fn results(names: &Names) -> String {
    let mut classes = BTreeMap::new();
    for op in names.values().flatten() {
        if let Some(fields) = named(op) {
            classes.insert(op.flat_name(), fields);
            if op.variants.has(Variants::OUT) {
                classes.insert(op.flat_name() + "_out", fields);
            }
        }
    }
    let mut text = format!(
        "# {GENERATED} from the operator table.\n\n\
         from collections.abc import Iterable\nfrom typing import Self\n\nfrom rushlight._C import Tensor\n\
         from rushlight._results import histogramdd as histogramdd\n"
    );
    for (name, fields) in classes {
        let _ = write!(
            text,
            "\nclass {name}(tuple[{}]):\n    def __new__(cls, values: Iterable[Tensor], dict: object = None) -> Self: ...\n",
            vec!["Tensor"; fields.len()].join(", ")
        );
        for field in fields {
            let _ = write!(text, "    @property\n    def {field}(self) -> Tensor: ...\n");
        }
    }
    text
}

/// The fields of an operator's result, if they have names.
fn named(op: &Operator) -> Option<&'static [&'static str]> {
    match op.schema().returns {
        Returns::Named(fields) if !fields.contains(&"") => Some(fields),
        _ => None,
    }
}

fn definition(
    text: &mut String,
    indent: &str,
    namespace: &str,
    name: &str,
    form: CallForm,
    operators: &[&'static Operator],
) {
    let mut versions: Vec<(String, &Operator)> = Vec::new();
    let parameters =
        |op: &'static Operator, variadic| parameters(op, names::params(op, namespace, form), form, variadic);
    for (place, op) in operators.iter().enumerate() {
        if operators[..place].iter().any(|earlier| covers(earlier, op)) {
            continue;
        }
        if !op.schema().params.iter().any(|param| param.separate) {
            versions.push((parameters(op, false), op));
        }
        if op.schema().takes_variadic(form.is_method()) {
            versions.push((parameters(op, true), op));
        }
    }
    versions.dedup_by(|a, b| a.0 == b.0);
    for (place, (parameters, op)) in versions.iter().enumerate() {
        if versions.len() > 1 {
            let _ = writeln!(text, "{indent}@overload");
        }
        let result = match form {
            CallForm::InPlaceMethod => "Self".into(),
            CallForm::InPlaceFunction => "Tensor".into(),
            _ => returns(op),
        };
        let _ = match place {
            0 => writeln!(
                text,
                "{indent}def {name}({parameters}) -> {result}:\n{indent}    \"\"\"{}\"\"\"",
                summary(op, form).replace('\\', "\\\\")
            ),
            _ => writeln!(text, "{indent}def {name}({parameters}) -> {result}: ..."),
        };
    }
}

/// The first sentence of an operator's documentation, for one of its forms.
pub fn summary(op: &Operator, form: CallForm) -> String {
    let paragraph = op.doc.split("\n\n").next().unwrap_or_default();
    let sentence = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    match form {
        CallForm::Method => sentence,
        CallForm::Function => of_function(&sentence),
        _ => in_place(op),
    }
}

/// Whether every call of a later overload also fits an earlier one, as far as a type checker can tell.
fn covers(earlier: &Operator, later: &Operator) -> bool {
    let (earlier, later) = (&earlier.schema().params, &later.schema().params);
    let fits = |(wide, narrow): (&Param, &Param)| {
        wide.name == narrow.name
            && (wide.kind == narrow.kind
                || wide.kind == Kind::Operand && matches!(narrow.kind, Kind::Tensor | Kind::Scalar))
    };
    earlier.len() == later.len() && earlier.iter().zip(later).all(fits)
}

fn parameters(op: &Operator, params: &[Param], form: CallForm, variadic: bool) -> String {
    let schema = op.schema();
    let mut list = Vec::new();
    let mut starred = false;
    for (place, param) in params.iter().enumerate() {
        if place == 0 && form.is_method() {
            list.push("self".to_owned());
        } else if variadic && place + 1 == schema.positional {
            let item = if param.kind == Kind::Tensors { "Tensor" } else { "_int" };
            list.push(format!("*{}: {item}", param.name));
            starred = true;
        } else {
            if param.keyword_only && !starred {
                list.push("*".into());
                starred = true;
            }
            list.push(parameter(param));
        }
    }
    if form == CallForm::Function && op.variants.has(Variants::OUT) {
        if !starred {
            list.push("*".into());
        }
        list.push(match schema.returns {
            Returns::Tensor => "out: Tensor | None = None".into(),
            _ => "out: tuple[Tensor, ...] | None = None".into(),
        });
    }
    list.join(", ")
}

fn parameter(param: &Param) -> String {
    let name = match param.name {
        "self" => "input",
        // A keyword of Python: the argument is positional.
        "from" => "from_",
        name => name,
    };
    let none = if param.optional || param.default == Some("None") { " | None" } else { "" };
    let default = match param.default {
        Some(plain @ ("None" | "True" | "False")) => format!(" = {plain}"),
        Some(number) if number.parse::<f64>().is_ok_and(f64::is_finite) => format!(" = {number}"),
        Some(_) => " = ...".into(),
        None => String::new(),
    };
    format!("{name}: {}{none}{default}", aliased(param.kind.annotation()))
}

/// A class has methods with the names of types (`x.float()`, `x.dtype`), so annotations refer to types by an alias.
fn aliased(annotation: &str) -> String {
    let word = |word: &str| match word {
        "bool" | "float" | "int" | "str" | "dtype" | "layout" | "memory_format" | "Number" | "DeviceLike" => {
            format!("_{word}")
        }
        other => other.to_owned(),
    };
    let outside = |letter: char| !letter.is_alphanumeric() && letter != '_';
    annotation.split_inclusive(outside).fold(String::new(), |text, piece| {
        let name = piece.trim_end_matches(outside);
        text + &word(name) + &piece[name.len()..]
    })
}

fn returns(op: &Operator) -> String {
    match op.schema().returns {
        Returns::Tensor => "Tensor".into(),
        Returns::Named(fields) => match named(op) {
            Some(_) => format!("return_types.{}", op.flat_name()),
            None => format!("tuple[{}]", vec!["Tensor"; fields.len()].join(", ")),
        },
        Returns::List => "tuple[Tensor, ...]".into(),
        Returns::Other("ScalarType") => "_dtype".into(),
        Returns::Other(plain) => aliased(plain),
    }
}
