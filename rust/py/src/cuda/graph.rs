//! `torch.cuda.CUDAGraph`.

use pyo3::prelude::*;
use rushlight_cuda::allocator::PoolId;
use rushlight_cuda::graph::{self, Graph};

use crate::errors::raise;

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
        self.0.begin(pool.map(PoolId), error_mode).map_err(raise)
    }

    fn end(&self) -> PyResult<()> {
        self.0.end().map_err(raise)
    }

    fn replay(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.replay()).map_err(raise)
    }

    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.reset()).map_err(raise)
    }

    /// The number of the graph's pool; None before a capture.
    #[getter]
    fn pool(&self) -> PyResult<Option<u64>> {
        Ok(self.0.pool().map_err(raise)?.map(|pool| pool.0))
    }
}

/// The number of a new pool.
#[pyfunction]
fn _cuda_new_pool() -> u64 {
    graph::new_pool().0
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyGraph>()?;
    module.add_function(wrap_pyfunction!(_cuda_new_pool, module)?)
}
