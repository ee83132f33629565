//! `torch.cuda.CUDAGraph`.

use std::ffi::CString;

use pyo3::prelude::*;
use rushlight_core::Device;
use rushlight_cuda::allocator::PoolId;
use rushlight_cuda::graph::{self, Graph};
use rushlight_cuda::nodes::{self, Node, Nodes};
use rushlight_cuda::{capture, card, stream};
use rushlight_dispatch::generator::Generator;

use crate::errors::raise;
use crate::generator::PyGenerator;

/// A graph, which `torch.cuda.CUDAGraph` wraps.
#[pyclass(frozen, name = "_CudaGraph", module = "rushlight._C")]
pub struct PyGraph(Graph);

#[pymethods]
impl PyGraph {
    #[new]
    fn new() -> Self {
        PyGraph(Graph::default())
    }

    fn begin(&self, pool: Option<u64>, error_mode: &str) -> PyResult<()> {
        self.register(&Generator::default_of(Device::Cuda(card::current())))?;
        self.0.begin(pool.map(PoolId), error_mode).map_err(raise)
    }

    /// Lets recorded work draw of a generator.
    fn register_generator_state(&self, generator: &Bound<'_, PyGenerator>) -> PyResult<()> {
        self.register(&generator.get().0)
    }

    fn end(&self) -> PyResult<()> {
        self.0.end().map_err(raise)
    }

    /// The number of the capture that is recorded; None outside of one.
    #[getter]
    fn capture(&self) -> PyResult<Option<u64>> {
        Ok(self.0.capture().map_err(raise)?.map(|capture| capture.0))
    }

    /// Begins to record work that runs if the bool at an address of the device is true.
    fn begin_if(&self, value: u64, on: u8) -> PyResult<()> {
        self.0.begin_if(value, on).map_err(raise)
    }

    fn end_if(&self) -> PyResult<()> {
        self.0.end_if().map_err(raise)
    }

    /// The pieces of the recorded work, and the number of its form that is run; None before a capture.
    fn nodes(&self) -> PyResult<Option<(NodeRows, Option<u32>)>> {
        Ok(self.0.nodes().map_err(raise)?.map(|(nodes, number)| (node_rows(nodes), number)))
    }

    fn replay(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.replay()).map_err(raise)
    }

    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.reset()).map_err(raise)
    }

    fn instantiate(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.instantiate()).map_err(raise)
    }

    /// The driver's handles of the recorded work and of the form that is run; None before a capture.
    #[getter]
    fn handles(&self) -> PyResult<Option<[usize; 2]>> {
        self.0.handles().map_err(raise)
    }

    /// Writes the recorded work to a file as a picture of Graphviz.
    fn print(&self, path: CString) -> PyResult<()> {
        self.0.print(&path).map_err(raise)
    }

    /// The number of the graph's pool; None before a capture.
    #[getter]
    fn pool(&self) -> PyResult<Option<u64>> {
        Ok(self.0.pool().map_err(raise)?.map(|pool| pool.0))
    }
}

impl PyGraph {
    fn register(&self, generator: &Generator) -> PyResult<()> {
        generator.recorded().map_or(Ok(()), |source| self.0.register(source)).map_err(raise)
    }
}

/// Pieces of work, each with its kind, number and kernel; the pairs of which the second one comes after the first; and the pieces
/// after which the next work comes.
type NodeRows = (Vec<(&'static str, u64, Option<String>)>, Vec<(usize, usize)>, Vec<usize>);

fn node_rows(nodes: Nodes) -> NodeRows {
    let row = |node: Node| (node.kind, node.number, node.kernel);
    (nodes.all.into_iter().map(row).collect(), nodes.edges, nodes.last)
}

/// The number of the capture of this thread's current stream of a device, by default the current one; None without one.
#[pyfunction]
#[pyo3(signature = (device=None))]
fn _cuda_current_capture(device: Option<u8>) -> Option<u64> {
    let device = device.unwrap_or_else(card::current);
    capture::of(device, stream::current(device)).map(|capture| capture.0)
}

/// What the capture of this thread's current stream has recorded so far; None without one.
#[pyfunction]
fn _cuda_captured_nodes() -> PyResult<Option<NodeRows>> {
    let device = card::current();
    card::select(device).map_err(raise)?;
    Ok(Nodes::captured_from(stream::current(device)).map_err(raise)?.map(node_rows))
}

/// Whether the driver numbers pieces of graphs for tools.
#[pyfunction]
fn _cuda_numbers_nodes() -> PyResult<bool> {
    card::select(card::current()).map_err(raise)?;
    Ok(nodes::has_numbers())
}

/// The number of a new pool.
#[pyfunction]
fn _cuda_new_pool() -> u64 {
    graph::new_pool().0
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyGraph>()?;
    module.add_function(wrap_pyfunction!(_cuda_current_capture, module)?)?;
    module.add_function(wrap_pyfunction!(_cuda_captured_nodes, module)?)?;
    module.add_function(wrap_pyfunction!(_cuda_numbers_nodes, module)?)?;
    module.add_function(wrap_pyfunction!(_cuda_new_pool, module)?)
}
