//! The store of `rushlight-dist` for `distributed/store.py`, which translates torch's interface into its requests.

use std::io::ErrorKind;
use std::mem::take;
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Duration;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyList};
use rushlight_dist::{Client, Request, Response, Server, Table};

use crate::attach::{self, idle};

/// Called during `release` to check for Ctrl-C.
fn look() -> std::io::Result<()> {
    attach::look().map_err(|error| std::io::Error::other(crate::errors::raise(error)))
}

fn seconds(value: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn request(name: &str, fields: Vec<Bound<'_, PyAny>>) -> PyResult<Request> {
    let amount =
        fields.get(1).and_then(|field| field.cast::<PyInt>().ok()).map(|amount| amount.extract()).transpose()?;
    let taken = fields.len() - usize::from(amount.is_some());
    let mut all = fields.into_iter().take(taken).map(|field| field.extract()).collect::<PyResult<Vec<Vec<u8>>>>()?;
    Ok(match (name, amount, all.as_mut_slice()) {
        ("set", None, [key, value]) => Request::Set(take(key), take(value)),
        ("add", Some(amount), [key]) => Request::Add(take(key), amount),
        ("compare_set", None, [key, expected, desired]) => {
            Request::CompareSet(take(key), take(expected), take(desired))
        }
        ("append", None, [key, tail]) => Request::Append(take(key), take(tail)),
        ("delete", None, [key]) => Request::Delete(take(key)),
        ("keys", None, []) => Request::Keys,
        ("get", None, _) => Request::Get(all),
        ("wait", None, _) => Request::Wait(all),
        ("check", None, _) => Request::Check(all),
        _ => return Err(PyTypeError::new_err(format!("no such request: {name}"))),
    })
}

fn response(py: Python<'_>, response: Response) -> PyResult<Py<PyAny>> {
    Ok(match response {
        Response::Values(values) => {
            PyList::new(py, values.iter().map(|value| PyBytes::new(py, value)))?.into_any().unbind()
        }
        Response::Bool(truth) => truth.into_pyobject(py)?.to_owned().into_any().unbind(),
        Response::Number(number) => number.into_pyobject(py)?.into_any().unbind(),
        Response::Refused(why) => return Err(PyValueError::new_err(why)),
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
    fn request(&self, py: Python<'_>, name: &str, fields: Vec<Bound<'_, PyAny>>, timeout: f64) -> PyResult<Py<PyAny>> {
        seconds(timeout)?;
        // Its lock may have been held by a thread that does not exist in the child.
        if self.generation != rushlight_core::fork::generation() {
            return Err(std::io::Error::from(std::io::ErrorKind::NotConnected).into());
        }
        let request = request(name, fields)?;
        response(py, idle(py, || self.table.handle(request)))
    }
}

/// The server of a store, which owns the table; serves until it is dropped.
#[pyclass(name = "_StoreServer", module = "rushlight._C", frozen, weakref)]
struct PyServer(Server);

#[pymethods]
impl PyServer {
    #[new]
    #[pyo3(signature = (host, port, token, descriptor=None, /))]
    fn new(py: Python<'_>, host: String, port: u16, token: Vec<u8>, descriptor: Option<i32>) -> PyResult<Self> {
        let Some(descriptor) = descriptor else {
            return Ok(PyServer(idle(py, || Server::new(&host, port, token))?));
        };
        // SAFETY: the caller has found a socket there, and hands it over, as the interface of torch says.
        let own = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Ok(PyServer(idle(py, || Server::on_socket(own, token))?))
    }

    #[getter]
    fn port(&self) -> u16 {
        self.0.port()
    }
}

/// The client of a store.
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
    fn request(&self, py: Python<'_>, name: &str, fields: Vec<Bound<'_, PyAny>>, timeout: f64) -> PyResult<Py<PyAny>> {
        let (request, timeout) = (request(name, fields)?, seconds(timeout)?);
        let found = idle(py, || self.0.send(request, timeout, &mut look));
        response(
            py,
            found.map_err(|error| match error.kind() {
                // The request is invalid, not the connection.
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
