//! The stub of the extension module: classes written by hand in `stub.pyi`, operators from the table.

use std::fmt::Write;

use rushlight::Row;
use rushlight::row::Variants;
use rushlight::signature::{Kind, Param, Returns};

use super::names::{Form, Names};
use crate::budget::GENERATED;

/// The part written by hand; two lines in it are replaced.
pub const FRAME: &str = "rust/dev/stub.pyi";
const METHODS: &str = "    # the operators' methods\n";
const FUNCTIONS: &str = "# the operators\n";

pub fn text(frame: &str, names: &Names) -> Result<String, String> {
    let mut methods = String::new();
    let mut functions = String::new();
    let mut results = Vec::new();
    for ((namespace, name, form), rows) in names {
        for row in rows {
            if let Returns::Named(fields) = row.schema().returns
                && !results.contains(&fields)
            {
                results.push(fields);
            }
        }
        if form.is_method() {
            definition(&mut methods, "    ", name, *form, rows);
        } else if namespace.is_empty() {
            definition(&mut functions, "", name, *form, rows);
        }
    }
    let mut tuples = String::new();
    for fields in results {
        let _ = writeln!(tuples, "\nclass {}(NamedTuple):", tuple_name(fields));
        for field in fields {
            let _ = writeln!(tuples, "    {field}: Tensor");
        }
    }
    for mark in [METHODS, FUNCTIONS] {
        if !frame.contains(mark) {
            return Err(format!("{FRAME}: the line '{}' is missing", mark.trim()));
        }
    }
    let body = frame.replacen(METHODS, &methods, 1).replacen(FUNCTIONS, &format!("{tuples}\n{functions}"), 1);
    Ok(format!("# {GENERATED} from {FRAME} and the operator table.\n\n{body}"))
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
            list.push(format!("*{}: int", param.name));
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
    let name = if param.name == "self" { "input" } else { param.name };
    let none = if param.optional || param.default == Some("None") { " | None" } else { "" };
    let default = match param.default {
        Some(plain @ ("None" | "True" | "False")) => format!(" = {plain}"),
        Some(number) if number.parse::<f64>().is_ok_and(f64::is_finite) => format!(" = {number}"),
        Some(_) => " = ...".into(),
        None => String::new(),
    };
    format!("{name}: {}{none}{default}", param.kind.annotation())
}

fn returns(row: &Row) -> String {
    match row.schema().returns {
        Returns::Tensor => "Tensor".into(),
        Returns::Named(fields) => tuple_name(fields),
        Returns::List => "tuple[Tensor, ...]".into(),
        Returns::Other("ScalarType") => "dtype".into(),
        Returns::Other(plain) => plain.into(),
    }
}
