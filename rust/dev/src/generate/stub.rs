//! The stubs: `_C.pyi` with the classes, written by hand in `stub.pyi` except for the operators' methods, and
//! `_functions.pyi` with the operators as functions.

use std::fmt::Write;

use rushlight::Row;
use rushlight::row::Variants;
use rushlight::signature::{Kind, Param, Returns};

use crate::budget::GENERATED;
use rushlight::names::{Form, Names};

/// The part written by hand; one line in it is replaced.
pub const FRAME: &str = "rust/dev/stub.pyi";
const METHODS: &str = "    # the operators' methods\n";

/// The stub of the extension module.
pub fn classes(frame: &str, names: &Names) -> Result<String, String> {
    if !frame.contains(METHODS) {
        return Err(format!("{FRAME}: the line '{}' is missing", METHODS.trim()));
    }
    let mut methods = String::new();
    for ((_, name, form), rows) in names.iter().filter(|((_, _, form), _)| form.is_method()) {
        definition(&mut methods, "    ", name, *form, rows);
    }
    let mut text =
        format!("# {GENERATED} from {FRAME} and the operator table.\n\n{}", frame.replacen(METHODS, &methods, 1));
    for fields in named_results(names) {
        let _ = writeln!(text, "\nclass {}(NamedTuple):", tuple_name(fields));
        for field in fields {
            let _ = writeln!(text, "    {field}: Tensor");
        }
    }
    Ok(text)
}

/// The stub of `rushlight._functions`, the operators of torch's first namespace.
pub fn functions(names: &Names) -> String {
    let mut imports = vec!["Generator".to_owned(), "Tensor".into(), "_DeviceLike".into(), "_Number".into()];
    imports.extend(named_results(names).into_iter().map(tuple_name));
    let mut text = format!(
        "# {GENERATED} from the operator table.\n\n\
         from builtins import bool as _bool, float as _float, int as _int, str as _str\n\
         from collections.abc import Sequence\n\
         from typing import overload\n\n\
         from ._C import {}, dtype as _dtype\n\n",
        imports.join(", ")
    );
    let mut public = Vec::new();
    for ((namespace, name, form), rows) in names {
        if namespace.is_empty() && !form.is_method() && !name.starts_with('_') {
            public.push(format!("\"{name}\""));
            definition(&mut text, "", name, *form, rows);
        }
    }
    let _ = writeln!(text, "\n__all__ = [{}]", public.join(", "));
    text
}

fn named_results(names: &Names) -> Vec<&'static [&'static str]> {
    let mut found = Vec::new();
    for row in names.values().flatten() {
        if let Returns::Named(fields) = row.schema().returns
            && !fields.contains(&"")
            && !found.contains(&fields)
        {
            found.push(fields);
        }
    }
    found
}

fn tuple_name(fields: &[&str]) -> String {
    format!("_{}", fields.join("_"))
}

fn definition(text: &mut String, indent: &str, name: &str, form: Form, rows: &[&Row]) {
    let mut versions: Vec<(String, &Row)> = Vec::new();
    for row in rows {
        versions.push((parameters(row, form, false), row));
        if takes_loose_ints(row) {
            versions.push((parameters(row, form, true), row));
        }
    }
    versions.dedup_by(|a, b| a.0 == b.0);
    for (place, (parameters, row)) in versions.iter().enumerate() {
        if versions.len() > 1 {
            let _ = writeln!(text, "{indent}@overload");
        }
        let result = if form.is_in_place() { "Tensor".into() } else { returns(row) };
        let _ = match place {
            0 => writeln!(
                text,
                "{indent}def {name}({parameters}) -> {result}:\n{indent}    \"\"\"{}\"\"\"",
                summary(row).replace('\\', "\\\\")
            ),
            _ => writeln!(text, "{indent}def {name}({parameters}) -> {result}: ..."),
        };
    }
}

/// The first sentence of a row's documentation.
pub fn summary(row: &Row) -> String {
    let paragraph = row.doc.split("\n\n").next().unwrap_or_default();
    paragraph.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `x.view(2, 3)` beside `x.view((2, 3))`: the last positional parameter is a list of ints.
fn takes_loose_ints(row: &Row) -> bool {
    let schema = row.schema();
    schema.positional > 0 && schema.params[schema.positional - 1].kind == Kind::Ints && schema.positional <= 2
}

fn parameters(row: &Row, form: Form, loose: bool) -> String {
    let schema = row.schema();
    let mut list = Vec::new();
    let mut starred = false;
    for (place, param) in schema.params.iter().enumerate() {
        if place == 0 && form.is_method() {
            list.push("self".to_owned());
        } else if loose && place + 1 == schema.positional {
            list.push(format!("*{}: _int", param.name));
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
        "bool" | "float" | "int" | "str" | "dtype" | "Number" | "DeviceLike" => format!("_{word}"),
        other => other.to_owned(),
    };
    annotation.split_inclusive(|letter: char| !letter.is_alphanumeric()).fold(String::new(), |text, piece| {
        let name = piece.trim_end_matches(|letter: char| !letter.is_alphanumeric());
        text + &word(name) + &piece[name.len()..]
    })
}

fn returns(row: &Row) -> String {
    match row.schema().returns {
        Returns::Tensor => "Tensor".into(),
        Returns::Named(fields) if fields.contains(&"") => "tuple[Tensor, ...]".into(),
        Returns::Named(fields) => tuple_name(fields),
        Returns::List => "tuple[Tensor, ...]".into(),
        Returns::Other("ScalarType") => "_dtype".into(),
        Returns::Other(plain) => aliased(plain),
    }
}
