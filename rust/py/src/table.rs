//! The operator table as Python reads it: what tests and generators walk instead of lists of their own.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use rushlight::derive::Derivative;
use rushlight::node::node_name;
use rushlight::row::{Accepts, Run, Variants};
use rushlight::signature::{Param, Returns};
use rushlight::{Row, table};

/// Every row as a dictionary of plain values, in the table's order.
#[pyfunction]
fn _table(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for row in table::ROWS {
        list.append(describe(py, row)?)?;
    }
    Ok(list)
}

fn describe<'py>(py: Python<'py>, row: &'static Row) -> PyResult<Bound<'py, PyDict>> {
    let schema = row.schema();
    let facts = PyDict::new(py);
    facts.set_item("name", row.name)?;
    facts.set_item("python_name", row.python_name())?;
    facts.set_item("namespace", row.namespace)?;
    facts.set_item("aliases", row.aliases)?;
    facts.set_item("variants", variants(row))?;
    facts.set_item("signature", row.signature)?;
    facts.set_item("params", schema.params.iter().map(|p| param(py, p)).collect::<PyResult<Vec<_>>>()?)?;
    match schema.returns {
        Returns::Tensor => facts.set_item("returns", "Tensor")?,
        Returns::List => facts.set_item("returns", "Tensor[]")?,
        Returns::Named(fields) => facts.set_item("returns", fields)?,
        Returns::Other(kind) => facts.set_item("returns", kind)?,
    }
    facts.set_item("doc", row.doc)?;
    facts.set_item("out", out(py, row)?)?;
    facts.set_item("dtypes", row.dtypes.list().map(|dtype| dtype.name()).collect::<Vec<_>>())?;
    facts.set_item("traits", row.traits.names().collect::<Vec<_>>())?;
    facts.set_item("run", run(&row.run))?;
    facts.set_item(
        "promote",
        match &row.run {
            Run::Pointwise(body) => Some(format!("{:?}", body.promote)),
            _ => None,
        },
    )?;
    let (kind, reason) = derivative(&row.derivative);
    facts.set_item("derivative", kind)?;
    facts.set_item("reason", reason)?;
    let covered: Vec<usize> = (0..schema.params.len()).filter(|place| row.derivative.covers(*place)).collect();
    facts.set_item("differentiable", covered)?;
    facts.set_item("samples", row.samples)?;
    facts.set_item("errors", row.errors)?;
    facts.set_item("reference", row.reference)?;
    facts.set_item("node", node_name(row))?;
    facts.set_item("cuda", row.cuda)?;
    Ok(facts)
}

fn variants(row: &Row) -> Vec<&'static str> {
    let all = [
        ("function", Variants::FUNCTION),
        ("method", Variants::METHOD),
        ("inplace", Variants::INPLACE),
        ("out", Variants::OUT),
    ];
    all.into_iter().filter(|(_, variant)| row.variants.has(*variant)).map(|(name, _)| name).collect()
}

/// Which dtypes `out=` may have beside the result's own: a rule, or a list.
fn out<'py>(py: Python<'py>, row: &Row) -> PyResult<Bound<'py, PyAny>> {
    let rule = match row.out.accepts {
        // The row that the call chooses decides.
        _ if matches!(row.run, Run::Defer(_)) => "depends",
        Accepts::CastIf(_) => "depends",
        Accepts::Cast => "cast",
        Accepts::Any | Accepts::Asked => "any",
        Accepts::Same => "same",
        Accepts::Also(dtypes) => return Ok(PyList::new(py, dtypes.list().map(|dtype| dtype.name()))?.into_any()),
    };
    Ok(rule.into_pyobject(py)?.into_any())
}

fn param<'py>(py: Python<'py>, param: &Param) -> PyResult<Bound<'py, PyDict>> {
    let facts = PyDict::new(py);
    facts.set_item("name", param.name)?;
    facts.set_item("kind", format!("{:?}", param.kind))?;
    facts.set_item("optional", param.optional)?;
    facts.set_item("keyword_only", param.keyword_only)?;
    facts.set_item("default", param.default)?;
    Ok(facts)
}

/// How a row is carried out; "compose" stands for everything that other rows do.
fn run(run: &Run) -> &'static str {
    match run {
        Run::Pointwise(_) => "pointwise",
        Run::Kernel(_) => "kernel",
        Run::Update(_) => "update",
        Run::View(_) | Run::Retype(_) => "view",
        Run::Views(_) => "views",
        Run::Body(_) => "body",
        Run::Overwrite(_) => "overwrite",
        _ => "compose",
    }
}

fn derivative(derivative: &Derivative) -> (&'static str, &'static str) {
    match derivative {
        Derivative::Unstated => ("unstated", ""),
        Derivative::Composed => ("composed", ""),
        Derivative::NonDifferentiable(reason) => ("none", reason),
        Derivative::Missing(operator) => ("missing", operator),
        Derivative::Formulas(_) => ("formulas", ""),
        Derivative::Joint(_) => ("joint", ""),
    }
}

/// Panics, for the test that a panic arrives as an exception.
#[pyfunction]
fn _panic() {
    panic!("asked for");
}

/// Panics inside a parallel loop, away from the calling thread where there are several.
#[pyfunction]
fn _panic_in_kernel(py: Python<'_>) {
    crate::attach::release(py, || {
        rushlight_par::parallel_for(1 << 12, 1, |range| assert!(range.start != 1 << 11, "asked for"));
    });
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_table, module)?)?;
    module.add_function(wrap_pyfunction!(_panic, module)?)?;
    module.add_function(wrap_pyfunction!(_panic_in_kernel, module)?)
}
