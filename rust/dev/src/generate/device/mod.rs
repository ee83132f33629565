//! Device functions: the expressions of operators and reductions as C++, based on the prelude in `rust/cuda/src/kernels`.

mod tables;
mod translate;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use rushlight::DType;
use rushlight::table::OPERATORS;
use rushlight_cpu::folds::{FoldExpressions, Step};
use rushlight_cpu::loops::Expression;
use rushlight_cuda::kernels::{function_name, type_name};
use rushlight_dispatch::operator::Implementation;

use crate::budget::GENERATED;
use crate::tree;

const FOLDER: &str = "rust/cuda/src/kernels";
/// The coefficients of the functions of `rushlight-simd`; the device functions use the same.
const COEFFICIENTS: &str = "rust/simd/src/math/tables.rs";

pub fn files(root: &Path) -> Result<Vec<(String, String)>, String> {
    let coefficients = tree::read(&root.join(COEFFICIENTS))?;
    Ok(vec![
        (format!("{FOLDER}/expressions.cuh"), expressions()?),
        (
            format!("{FOLDER}/tables.cuh"),
            tables::text(&coefficients).map_err(|error| format!("{COEFFICIENTS}: {error}"))?,
        ),
    ])
}

fn expressions() -> Result<String, String> {
    let mut text = format!(
        "// {GENERATED} from the expressions of the operator table; do not edit.\n\n#pragma once\n\n\
         #include \"prelude.cuh\"\n\nnamespace rushlight::pointwise {{\n"
    );
    let mut names = BTreeSet::new();
    let pointwise = OPERATORS.iter().filter_map(|op| match &op.implementation {
        Implementation::Pointwise(body) => Some((*op, body.loops)),
        _ => None,
    });
    for (op, loops) in pointwise.chain(rushlight::pointwise::complex::LOOPS) {
        let _ = write!(text, "\n// {}\n", op.name);
        for expression in loops.expressions {
            for &dtype in expression.dtypes {
                let (name, function) =
                    function(op.name, expression, dtype).map_err(|error| format!("{}: {error}", op.name))?;
                if !names.insert(name.clone()) {
                    return Err(format!("two device functions are called {name}"));
                }
                text.push_str(&function);
            }
        }
    }
    text.push_str("\n} // namespace rushlight::pointwise\n\nnamespace rushlight::folds {\n");
    for folds in rushlight::reduce::FOLDS {
        let name = folds.name;
        let _ = write!(text, "\n// {name}\n");
        for expressions in folds.expressions {
            for &dtype in expressions.dtypes {
                text.push_str(&fold(name, expressions, dtype).map_err(|error| format!("{name}: {error}"))?);
            }
        }
    }
    text.push_str("\n} // namespace rushlight::folds\n");
    Ok(text)
}

/// The four functions of a reduction: initial value, next element, combination, and result.
fn fold(name: &str, fold: &FoldExpressions, dtype: DType) -> Result<String, String> {
    let element = type_name(dtype);
    let accumulator = type_name(fold.accumulator.unwrap_or(dtype));
    let result = fold.result.map_or(accumulator, type_name);
    let types: translate::Types = &[("T", element), ("A", accumulator), ("O", result)];
    let step = |part: &str, step: &Step, kinds: [&str; 2], gives: &str| -> Result<String, String> {
        let pair = step.parameters.iter().zip(kinds).map(|(name, kind)| format!("{kind} {name}"));
        let numbers = step.numbers.iter().map(|name| format!("f64 {name}"));
        let parameters = pair.chain(numbers).collect::<Vec<_>>().join(", ");
        let function = function_name(&format!("{name}.{part}"), dtype);
        Ok(format!("DEVICE {gives} {function}({parameters}) {}\n", translate::body(step.value, types)?))
    };
    let start = function_name(&format!("{name}.start"), dtype);
    Ok([
        format!("DEVICE {accumulator} {start}() {}\n", translate::body(fold.start, types)?),
        step("take", &fold.take, [accumulator, element], accumulator)?,
        step("join", &fold.join, [accumulator, accumulator], accumulator)?,
        step("done", &fold.done, [accumulator, "usize"], result)?,
    ]
    .concat())
}

fn function(row: &str, expression: &Expression, dtype: DType) -> Result<(String, String), String> {
    let element = type_name(dtype);
    let result = type_name(expression.result.unwrap_or(dtype));
    let plain = expression.operands.iter().chain(expression.numbers).map(|name| format!("{element} {name}"));
    let optional = expression.optional.iter().map(|name| format!("Option<{element}> {name}"));
    let parameters = plain.chain(optional).collect::<Vec<_>>().join(", ");
    let body = translate::body(expression.value, &[("T", element), ("O", result)])?;
    let name = function_name(row, dtype);
    Ok((name.clone(), format!("DEVICE {result} {name}({parameters}) {body}\n")))
}
