//! The store of `rushlight-dist` for `distributed/store.py`, which says in torch's words what is asked and answered.

use std::io::ErrorKind;
use std::mem::take;
use std::time::Duration;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyList};
use rushlight_dist::{Answer, Client, Question, Server, Table};

use crate::attach::{acquire, idle};

/// What `release` runs may look whether Ctrl-C was pressed.
fn look() -> std::io::Result<()> {
    acquire(|py| py.check_signals()).map_err(|error| std::io::Error::other(crate::errors::raise(error)))
}

fn seconds(value: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn question(name: &str, fields: Vec<Bound<'_, PyAny>>) -> PyResult<Question> {
    let amount =
        fields.get(1).and_then(|field| field.cast::<PyInt>().ok()).map(|amount| amount.extract()).transpose()?;
    let taken = fields.len() - usize::from(amount.is_some());
    let mut all = fields.into_iter().take(taken).map(|field| field.extract()).collect::<PyResult<Vec<Vec<u8>>>>()?;
    Ok(match (name, amount, all.as_mut_slice()) {
        ("set", None, [key, value]) => Question::Set(take(key), take(value)),
        ("add", Some(amount), [key]) => Question::Add(take(key), amount),
        ("compare_set", None, [key, expected, desired]) => {
            Question::CompareSet(take(key), take(expected), take(desired))
        }
        ("append", None, [key, tail]) => Question::Append(take(key), take(tail)),
        ("delete", None, [key]) => Question::Delete(take(key)),
        ("keys", None, []) => Question::Keys,
        ("get", None, _) => Question::Get(all),
        ("wait", None, _) => Question::Wait(all),
        ("check", None, _) => Question::Check(all),
        _ => return Err(PyTypeError::new_err(format!("no such question: {name}"))),
    })
}

fn answer(py: Python<'_>, answer: Answer) -> PyResult<Py<PyAny>> {
    Ok(match answer {
        Answer::Values(values) => {
            PyList::new(py, values.iter().map(|value| PyBytes::new(py, value)))?.into_any().unbind()
        }
        Answer::Truth(truth) => truth.into_pyobject(py)?.to_owned().into_any().unbind(),
        Answer::Number(number) => number.into_pyobject(py)?.into_any().unbind(),
        Answer::Refused(why) => return Err(PyValueError::new_err(why)),
    })
}

/// A store within this process.
#[pyclass(name = "_StoreTable", module = "rushlight._C", frozen)]
struct PyTable {
    table: Table,
    generation: u64,
}

#[pymethods]
impl PyTable {
    #[new]
    fn new() -> Self {
        PyTable { table: Table::default(), generation: rushlight_core::fork::generation() }
    }

    #[pyo3(signature = (name, fields, timeout, /))]
    fn ask(&self, py: Python<'_>, name: &str, fields: Vec<Bound<'_, PyAny>>, timeout: f64) -> PyResult<Py<PyAny>> {
        seconds(timeout)?;
        // Its lock may have been held by a thread that the child does not have.
        if self.generation != rushlight_core::fork::generation() {
            return Err(std::io::Error::from(std::io::ErrorKind::NotConnected).into());
        }
        let question = question(name, fields)?;
        answer(py, idle(py, || self.table.ask(question)))
    }
}

/// The end of a store that has the table; serves until it is dropped.
#[pyclass(name = "_StoreServer", module = "rushlight._C", frozen)]
struct PyServer(Server);

#[pymethods]
impl PyServer {
    #[new]
    fn new(py: Python<'_>, host: String, port: u16, token: Vec<u8>) -> PyResult<Self> {
        Ok(PyServer(idle(py, || Server::new(&host, port, token))?))
    }

    #[getter]
    fn port(&self) -> u16 {
        self.0.port()
    }
}

/// The end of a store that asks.
#[pyclass(name = "_StoreClient", module = "rushlight._C", frozen)]
struct PyClient(Client);

#[pymethods]
impl PyClient {
    #[new]
    fn new(py: Python<'_>, host: String, port: u16, token: Vec<u8>, timeout: f64) -> PyResult<Self> {
        let timeout = seconds(timeout)?;
        Ok(PyClient(idle(py, || Client::connect(&host, port, &token, timeout, &mut look))?))
    }

    #[pyo3(signature = (name, fields, timeout, /))]
    fn ask(&self, py: Python<'_>, name: &str, fields: Vec<Bound<'_, PyAny>>, timeout: f64) -> PyResult<Py<PyAny>> {
        let (question, timeout) = (question(name, fields)?, seconds(timeout)?);
        let found = idle(py, || self.0.ask(question, timeout, &mut look));
        answer(
            py,
            found.map_err(|error| match error.kind() {
                // What is wrong is the question, not the connection.
                ErrorKind::InvalidInput => PyValueError::new_err(error.to_string()),
                _ => error.into(),
            })?,
        )
    }
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyTable>()?;
    module.add_class::<PyServer>()?;
    module.add_class::<PyClient>()
}
