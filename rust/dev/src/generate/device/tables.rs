//! Tables of coefficients, from Rust to C++.

use std::fmt::Write;

use syn::{Expr, Item, Lit, Type};

use crate::budget::GENERATED;

/// The constants of a Rust file: numbers, and arrays of numbers.
pub fn text(source: &str) -> Result<String, String> {
    let file = syn::parse_file(source).map_err(|error| error.to_string())?;
    let mut text = format!(
        "// {GENERATED} from rust/simd/src/math/tables.rs; do not edit.\n\n#pragma once\n\n#include \"base.cuh\"\n\n\
         namespace rushlight {{\n\n"
    );
    for item in &file.items {
        let Item::Const(item) = item else { return Err("something else than a constant".into()) };
        let name = item.ident.to_string();
        let (element, values) = match (&*item.ty, &*item.expr) {
            (Type::Array(array), Expr::Array(values)) => (&*array.elem, Some(&values.elems)),
            (single, _) => (single, None),
        };
        let Type::Path(element) = element else { return Err(format!("{name}: a type that is no number")) };
        let element = element.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
        match values {
            Some(values) => {
                let values = values.iter().map(|value| number(value, &element)).collect::<Option<Vec<_>>>();
                let values = values.ok_or_else(|| format!("{name}: an element that is no number"))?;
                let _ = writeln!(text, "TABLE {element} {name}[{}] = {{", values.len());
                for value in values {
                    let _ = writeln!(text, "    {value},");
                }
                text.push_str("};\n");
            }
            None => {
                let value = number(&item.expr, &element).ok_or_else(|| format!("{name}: no number"))?;
                let _ = writeln!(text, "constexpr {element} {name} = {value};");
            }
        }
    }
    text.push_str("\n} // namespace rushlight\n");
    Ok(text)
}

/// A literal with its sign, and with the suffix of its type.
fn number(value: &Expr, element: &str) -> Option<String> {
    let suffix = match element {
        "f32" => "f",
        "u64" => "ull",
        _ => "",
    };
    match value {
        Expr::Unary(negative) if matches!(negative.op, syn::UnOp::Neg(_)) => {
            Some(format!("-{}", number(&negative.expr, element)?))
        }
        Expr::Lit(literal) => match &literal.lit {
            Lit::Float(number) => Some(format!("{}{suffix}", number.base10_digits())),
            Lit::Int(number) => Some(format!("{}{suffix}", number.base10_digits())),
            _ => None,
        },
        _ => None,
    }
}
