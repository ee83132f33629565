//! The stubs: `_C.pyi` with the classes, written by hand in `stub.pyi` except for the operators' methods, and
//! `_functions/*.pyi` with the operators as functions, `return_types.pyi` with the results that have names.

use std::collections::BTreeMap;
use std::fmt::Write;

use rushlight::Row;
use rushlight::row::Variants;
use rushlight::signature::{Kind, Param, Returns};

use crate::budget::GENERATED;
use rushlight::names::{self, Form, Names, of_function};

/// The part written by hand; one line in it is replaced.
pub const FRAME: &str = "rust/dev/stub.pyi";
/// Functions of `torch.nn.functional` that need Python around their row.
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
    for ((_, name, form), rows) in names.iter().filter(|((_, _, form), _)| form.is_method()) {
        definition(&mut methods, "    ", "", name, *form, rows);
    }
    let mut text =
        format!("# {GENERATED} from {FRAME} and the operator table.\n\n{}", frame.replacen(METHODS, &methods, 1));
    text.push_str("\n# The operators that the Python files call, and users do not.\n\n");
    for (name, form, rows) in functions(names, "").filter(|(name, ..)| name.starts_with('_')) {
        definition(&mut text, "", "", name, form, rows);
    }
    Ok(text)
}

/// The stubs of `rushlight._functions`: a file for each of torch's namespaces. What `wrappers` defines by itself, or has from a file
/// beside it, is not exported, since a name may have one type only.
pub fn namespaces(names: &Names, wrappers: &str) -> Result<Vec<(String, String)>, String> {
    if let Some((stranger, ..)) = names.keys().find(|key| NAMESPACES.iter().all(|(known, _)| *known != key.0)) {
        return Err(format!("no module of rushlight._functions is for torch.{stranger}"));
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
    for (name, form, rows) in functions(names, namespace).filter(|(name, ..)| !name.starts_with('_')) {
        if !hidden(name) {
            public.push(format!("\"{name}\""));
        }
        definition(&mut definitions, "", namespace, name, form, rows);
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
fn functions<'a>(names: &'a Names, namespace: &str) -> impl Iterator<Item = (&'a str, Form, &'a [&'static Row])> {
    names
        .iter()
        .filter(move |((home, _, form), _)| *home == namespace && !form.is_method())
        .map(|((_, name, form), rows)| (name.as_str(), *form, rows.as_slice()))
}

/// The stub of `rushlight.return_types`: results with names, by the operator's name.
pub fn results(names: &Names) -> String {
    let mut classes = BTreeMap::new();
    for row in names.values().flatten() {
        if let Some(fields) = named(row) {
            classes.insert(row.flat_name(), fields);
            if row.variants.has(Variants::OUT) {
                classes.insert(row.flat_name() + "_out", fields);
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
            "\nclass {name}(tuple[{}]):\n    def __new__(cls, values: Iterable[Tensor]) -> Self: ...\n",
            vec!["Tensor"; fields.len()].join(", ")
        );
        for field in fields {
            let _ = write!(text, "    @property\n    def {field}(self) -> Tensor: ...\n");
        }
    }
    text
}

/// The fields of a row's result, if they have names.
fn named(row: &Row) -> Option<&'static [&'static str]> {
    match row.schema().returns {
        Returns::Named(fields) if !fields.contains(&"") => Some(fields),
        _ => None,
    }
}

fn definition(text: &mut String, indent: &str, namespace: &str, name: &str, form: Form, rows: &[&'static Row]) {
    let mut versions: Vec<(String, &Row)> = Vec::new();
    let parameters = |row: &'static Row, loose| parameters(row, names::params(row, namespace, form), form, loose);
    for (place, row) in rows.iter().enumerate() {
        if rows[..place].iter().any(|earlier| covers(earlier, row)) {
            continue;
        }
        versions.push((parameters(row, false), row));
        if row.schema().takes_loose(form.is_method()) {
            versions.push((parameters(row, true), row));
        }
    }
    versions.dedup_by(|a, b| a.0 == b.0);
    for (place, (parameters, row)) in versions.iter().enumerate() {
        if versions.len() > 1 {
            let _ = writeln!(text, "{indent}@overload");
        }
        let result = match form {
            Form::InPlaceMethod => "Self".into(),
            Form::InPlaceFunction => "Tensor".into(),
            _ => returns(row),
        };
        let _ = match place {
            0 => writeln!(
                text,
                "{indent}def {name}({parameters}) -> {result}:\n{indent}    \"\"\"{}\"\"\"",
                summary(row, form.is_method()).replace('\\', "\\\\")
            ),
            _ => writeln!(text, "{indent}def {name}({parameters}) -> {result}: ..."),
        };
    }
}

/// The first sentence of a row's documentation, as a method's or a function's.
pub fn summary(row: &Row, method: bool) -> String {
    let paragraph = row.doc.split("\n\n").next().unwrap_or_default();
    let sentence = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    if method { sentence } else { of_function(&sentence) }
}

/// Whether every call of an overload also fits an earlier one, as far as a checker of types can see.
fn covers(earlier: &Row, later: &Row) -> bool {
    let (earlier, later) = (&earlier.schema().params, &later.schema().params);
    let fits = |(wide, narrow): (&Param, &Param)| {
        wide.name == narrow.name
            && (wide.kind == narrow.kind
                || wide.kind == Kind::Operand && matches!(narrow.kind, Kind::Tensor | Kind::Scalar))
    };
    earlier.len() == later.len() && earlier.iter().zip(later).all(fits)
}

fn parameters(row: &Row, params: &[Param], form: Form, loose: bool) -> String {
    let schema = row.schema();
    let mut list = Vec::new();
    let mut starred = false;
    for (place, param) in params.iter().enumerate() {
        if place == 0 && form.is_method() {
            list.push("self".to_owned());
        } else if loose && place + 1 == schema.positional {
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
    if form == Form::Function && row.variants.has(Variants::OUT) {
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
        // A keyword of Python: callers give it by position.
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

/// A class has methods named like types (`x.float()`, `x.dtype`), so annotations call types by an alias.
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

fn returns(row: &Row) -> String {
    match row.schema().returns {
        Returns::Tensor => "Tensor".into(),
        Returns::Named(fields) => match named(row) {
            Some(_) => format!("return_types.{}", row.flat_name()),
            None => format!("tuple[{}]", vec!["Tensor"; fields.len()].join(", ")),
        },
        Returns::List => "tuple[Tensor, ...]".into(),
        Returns::Other("ScalarType") => "_dtype".into(),
        Returns::Other(plain) => aliased(plain),
    }
}
