//! Methods and functions of sparse tensors for Python.

use pyo3::exceptions::{PyNotImplementedError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use rushlight::sparse::{COALESCE, FROM_PARTS, TO_DENSE, TO_SPARSE, VALUES, convert::MASKED, product::times};
use rushlight_autograd::SparseParts;
use rushlight_dispatch::op;
use rushlight_dispatch::value::{Value, sizes_value};

use crate::errors::raise;
use crate::methods::Own;
use crate::tensor_methods::given;
use crate::{methods, object, scalars};

/// The parts of a sparse tensor; the error for others has the name of a public method.
fn parts(own: &Own, name: &str) -> PyResult<std::sync::Arc<SparseParts>> {
    own.tensor.parts().ok_or_else(|| {
        PyRuntimeError::new_err(format!("{name} expected sparse coordinate tensor layout but got Strided"))
    })
}

/// The same for methods that exist in torch only for sparse tensors.
fn inner(own: &Own, name: &str) -> PyResult<std::sync::Arc<SparseParts>> {
    own.tensor.parts().ok_or_else(|| {
        PyNotImplementedError::new_err(format!(
            "Could not run 'aten::{name}' with arguments from the 'CPU' backend. This could be because the operator doesn't exist for this backend, or was omitted during the selective/custom build process (if using custom build)."
        ))
    })
}

methods! {
    fn is_coalesced(own) "Whether the indices of a sparse tensor are sorted and unique." {
        own.give(parts(own, "is_coalesced")?.coalesced)
    }
    fn coalesce(own) "The sparse tensor with sorted, unique indices; values of equal indices are added." {
        let parts = parts(own, "coalesce")?;
        if parts.coalesced { own.same() } else { own.wrap(op!(COALESCE, own.tensor).map_err(raise)?) }
    }
    fn indices(own) "The indices of a coalesced tensor, one column for each element." {
        let parts = parts(own, "indices")?;
        if !parts.coalesced {
            return Err(PyRuntimeError::new_err(
                "Cannot get indices on an uncoalesced tensor, please call .coalesce() first",
            ));
        }
        own.wrap(parts.indices.detach())
    }
    fn values(own) "The values of a coalesced tensor." {
        if !own.tensor.is_sparse() {
            return Err(PyRuntimeError::new_err("values expected sparse tensor layout but got Strided"));
        }
        own.wrap(op!(VALUES, own.tensor).map_err(raise)?)
    }
    fn _indices(own) "The stored indices, one column for each element." {
        own.wrap(inner(own, "_indices")?.indices.detach())
    }
    fn _values(own) "The stored values." { own.wrap(inner(own, "_values")?.values.detach()) }
    fn _nnz(own) "The number of values." { own.give(inner(own, "_nnz")?.indices.sizes()[1]) }
    fn sparse_dim(own) "The number of sparse dimensions; zero for a dense tensor." {
        own.give(own.tensor.parts().map_or(0, |parts| parts.indices.sizes()[0]))
    }
    fn dense_dim(own) "The number of dense dimensions; all of a dense tensor's." {
        own.give(own.tensor.parts().map_or(own.tensor.rank(), |parts| parts.values.rank() - 1))
    }
    fn _coalesced_(own, coalesced = required) "Marks the indices as sorted and unique, which is checked, or as possibly not." {
        let parts = parts(own, "_coalesced_")?;
        let wanted = given("_coalesced_", "coalesced", coalesced)?.is_truthy()?;
        let sizes = sizes_value(own.tensor.sizes());
        op!(FROM_PARTS, &parts.indices, &parts.values.detach(), sizes, wanted).map_err(raise)?;
        own.tensor.set_parts(SparseParts { coalesced: wanted, ..(*parts).clone() });
        own.same()
    }
    fn to_dense(own, dtype, masked_grad) "The dense form of a sparse tensor; a dense tensor itself." {
        let _ = masked_grad;
        let whole = op!(TO_DENSE, own.tensor).map_err(raise)?;
        match dtype.filter(|dtype| !dtype.is_none()) {
            None if !own.tensor.is_sparse() => own.same(),
            None => own.wrap(whole),
            Some(dtype) => match crate::dtype::extract_dtype(&dtype) {
                Some(dtype) => own.wrap(rushlight::convert::to_dtype(&whole, dtype).map_err(raise)?),
                None => Err(PyTypeError::new_err("to_dense(): argument 'dtype' must be torch.dtype")),
            },
        }
    }
    fn to_sparse(own, sparse_dim) "The non-zero elements as a sparse tensor; with `sparse_dim`, blocks of them." {
        let dims = match sparse_dim.filter(|dims| !dims.is_none()) {
            Some(dims) => match scalars::int(&dims)? {
                Some(dims) => Value::Int(dims),
                None => return Err(PyNotImplementedError::new_err("to_sparse() only makes tensors of layout torch.sparse_coo")),
            },
            None => Value::None,
        };
        own.wrap(op!(TO_SPARSE, own.tensor, dims).map_err(raise)?)
    }
    fn sparse_mask(own, mask = required) "The elements at the indices of a sparse tensor." {
        let mask = given("sparse_mask", "mask", mask)?;
        own.wrap(op!(MASKED, own.tensor, object::tensor(&mask)?).map_err(raise)?)
    }
}

/// Implements `torch.sparse_coo_tensor`: a sparse tensor from indices, values and, if given, a size.
#[pyfunction]
#[pyo3(signature = (indices, values, size=None, is_coalesced=false))]
fn _sparse_coo_tensor<'py>(
    py: Python<'py>,
    indices: &Bound<'py, PyAny>,
    values: &Bound<'py, PyAny>,
    size: Option<Vec<i64>>,
    is_coalesced: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let size = size.map_or(Value::None, |size| Value::from(size.as_slice()));
    let (indices, values) = (object::tensor(indices)?, object::tensor(values)?);
    object::wrap_bound(py, op!(FROM_PARTS, indices, values, size, is_coalesced).map_err(raise)?)
}

/// Implements `torch.sparse.mm`: the product of two matrices of which at least one is sparse.
#[pyfunction]
fn _sparse_mm<'py>(py: Python<'py>, a: &Bound<'py, PyAny>, b: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    object::wrap_bound(py, times(object::tensor(a)?, object::tensor(b)?, false).map_err(raise)?)
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_sparse_coo_tensor, module)?)?;
    module.add_function(wrap_pyfunction!(_sparse_mm, module)?)
}
