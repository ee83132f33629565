//! The operator table for Python: tests and generators iterate over it instead of lists of their own.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use rushlight::table;
use rushlight_dispatch::naming::node_name;
use rushlight_dispatch::operator::{Accepts, Derivative, Implementation, Operator, Variants};
use rushlight_dispatch::signature::{Param, Returns};

/// Every operator as a dictionary of plain values, in the table's order.
#[pyfunction]
fn _table(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for op in table::OPERATORS {
        list.append(describe(py, op)?)?;
    }
    Ok(list)
}

fn describe<'py>(py: Python<'py>, op: &'static Operator) -> PyResult<Bound<'py, PyDict>> {
    let schema = op.schema();
    let entry = PyDict::new(py);
    entry.set_item("name", op.name)?;
    entry.set_item("python_name", op.python_name())?;
    entry.set_item("namespace", op.namespace)?;
    entry.set_item("aliases", op.aliases)?;
    entry.set_item("variants", variants(op))?;
    entry.set_item("signature", op.signature)?;
    entry.set_item("params", schema.params.iter().map(|p| param(py, p)).collect::<PyResult<Vec<_>>>()?)?;
    match schema.returns {
        Returns::Tensor => entry.set_item("returns", "Tensor")?,
        Returns::List => entry.set_item("returns", "Tensor[]")?,
        Returns::Named(fields) => entry.set_item("returns", fields)?,
        Returns::Other(kind) => entry.set_item("returns", kind)?,
    }
    entry.set_item("doc", op.doc)?;
    entry.set_item("out", out(py, op)?)?;
    entry.set_item("dtypes", op.dtypes.list().map(|dtype| dtype.name()).collect::<Vec<_>>())?;
    entry.set_item("tags", op.tags.names().collect::<Vec<_>>())?;
    entry.set_item("implementation", op.implementation.kind())?;
    entry.set_item(
        "promote",
        match &op.implementation {
            Implementation::Pointwise(body) => Some(format!("{:?}", body.promote)),
            _ => None,
        },
    )?;
    let (kind, reason) = derivative(&op.derivative);
    entry.set_item("derivative", kind)?;
    entry.set_item("reason", reason)?;
    let covered: Vec<usize> = (0..schema.params.len()).filter(|place| op.derivative.has_gradient(*place)).collect();
    entry.set_item("differentiable", covered)?;
    entry.set_item("samples", op.samples)?;
    entry.set_item("errors", op.errors)?;
    entry.set_item("reference", op.reference)?;
    entry.set_item("node", node_name(op))?;
    Ok(entry)
}

fn variants(op: &Operator) -> Vec<&'static str> {
    let all = [
        ("function", Variants::FUNCTION),
        ("method", Variants::METHOD),
        ("inplace", Variants::INPLACE),
        ("out", Variants::OUT),
    ];
    all.into_iter().filter(|(_, variant)| op.variants.has(*variant)).map(|(name, _)| name).collect()
}

/// The dtypes that `out=` may have in addition to the result's own: a rule, or a list.
fn out<'py>(py: Python<'py>, op: &Operator) -> PyResult<Bound<'py, PyAny>> {
    let rule = match op.out.accepts {
        // Depends on the operator that the call chooses.
        _ if matches!(op.implementation, Implementation::Delegate(_)) => "depends",
        Accepts::CastIf(_) | Accepts::ExactIf(_) => "depends",
        Accepts::Cast => "cast",
        Accepts::Any | Accepts::Requested | Accepts::RequestedIf(_) => "any",
        Accepts::Same => "same",
        Accepts::Also(dtypes) => return Ok(PyList::new(py, dtypes.list().map(|dtype| dtype.name()))?.into_any()),
    };
    Ok(rule.into_pyobject(py)?.into_any())
}

fn param<'py>(py: Python<'py>, param: &Param) -> PyResult<Bound<'py, PyDict>> {
    let entry = PyDict::new(py);
    entry.set_item("name", param.name)?;
    entry.set_item("kind", format!("{:?}", param.kind))?;
    entry.set_item("optional", param.optional)?;
    entry.set_item("keyword_only", param.keyword_only)?;
    entry.set_item("separate", param.separate)?;
    entry.set_item("default", param.default)?;
    Ok(entry)
}

fn derivative(derivative: &Derivative) -> (&'static str, &'static str) {
    match derivative {
        Derivative::Unspecified => ("unspecified", ""),
        Derivative::CompositeImplicit => ("composite", ""),
        Derivative::NonDifferentiable(reason) => ("none", reason),
        Derivative::NotImplemented(operator) => ("not implemented", operator),
        Derivative::Formulas(_) => ("formulas", ""),
        Derivative::Joint(_) => ("joint", ""),
    }
}

/// Panics, to test that a panic becomes an exception.
#[pyfunction]
fn _panic() {
    panic!("asked for");
}

/// Panics inside a parallel loop, on another thread than the calling one if there are several.
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
