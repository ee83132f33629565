//! Methods and functions of sparse tensors for Python.

use pyo3::exceptions::{PyNotImplementedError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use rushlight::sparse::compressed::convert::to_layout;
use rushlight::sparse::{
    COALESCE, FROM_COMPRESSED, FROM_PARTS, TO_DENSE, TO_SPARSE, VALUES, convert::MASKED, product::times,
};
use rushlight_autograd::{CompressedParts, SparseParts, Tensor};
use rushlight_core::Device;
use rushlight_dispatch::op;
use rushlight_dispatch::value::{Value, sizes_value};

use crate::dtype::PyLayout;
use crate::errors::raise;
use crate::methods::Own;
use crate::tensor_methods::given;
use crate::{methods, object, scalars};

/// The parts of a sparse tensor; the error for others has the name of a public method.
fn parts(own: &Own, name: &str) -> PyResult<std::sync::Arc<SparseParts>> {
    own.tensor.parts().ok_or_else(|| {
        PyRuntimeError::new_err(format!(
            "{name} expected sparse coordinate tensor layout but got {}",
            own.tensor.layout_name()
        ))
    })
}

/// The parts of a compressed sparse tensor that compresses rows, or columns.
fn compressed(own: &Own, name: &str, columns: bool) -> PyResult<std::sync::Arc<CompressedParts>> {
    own.tensor.compressed_parts().filter(|parts| parts.format.columns == columns).ok_or_else(|| {
        PyRuntimeError::new_err(format!(
            "{name} expected sparse {} compressed tensor layout but got {}",
            if columns { "column" } else { "row" },
            own.tensor.layout_name()
        ))
    })
}

/// The tensor in another layout; the block size is one number or two.
fn converted<'py>(
    own: &Own<'_, 'py>,
    called: &str,
    layout: &str,
    blocksize: Option<Bound<'py, PyAny>>,
    dense_dim: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let blocksize = match blocksize.filter(|size| !size.is_none()) {
        Some(size) => Some(match scalars::int(&size)? {
            Some(size) => vec![size, size],
            None => size.extract::<Vec<i64>>()?,
        }),
        None => None,
    };
    let dense_dim = dense_dim.filter(|dims| !dims.is_none()).map(|dims| dims.extract::<i64>()).transpose()?;
    let result = to_layout(own.tensor, called, layout, blocksize.as_deref(), dense_dim).map_err(raise)?;
    if result.id() == own.tensor.id() { own.same() } else { own.wrap(result) }
}

/// torch's name of the backend of a tensor that has no coordinates.
pub fn backend(tensor: &Tensor) -> &'static str {
    match (tensor.is_sparse(), matches!(tensor.device(), Device::Cuda(_))) {
        (true, true) => "SparseCsrCUDA",
        (true, false) => "SparseCsrCPU",
        (false, true) => "CUDA",
        (false, false) => "CPU",
    }
}

/// The indices and values, for methods that exist in torch only for sparse tensors.
fn inner(own: &Own, name: &str) -> PyResult<std::sync::Arc<SparseParts>> {
    own.tensor.parts().ok_or_else(|| {
        PyNotImplementedError::new_err(format!(
            "Could not run 'aten::{name}' with arguments from the '{}' backend. This could be because the operator doesn't exist for this backend, or was omitted during the selective/custom build process (if using custom build).",
            backend(own.tensor)
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
    fn crow_indices(own) "For each row of a CSR or BSR tensor its first value, and after them the number of values." {
        own.wrap(compressed(own, "crow_indices", false)?.compressed.detach())
    }
    fn col_indices(own) "For each value of a CSR or BSR tensor its column." {
        own.wrap(compressed(own, "col_indices", false)?.plain.detach())
    }
    fn ccol_indices(own) "For each column of a CSC or BSC tensor its first value, and after them the number of values." {
        own.wrap(compressed(own, "ccol_indices", true)?.compressed.detach())
    }
    fn row_indices(own) "For each value of a CSC or BSC tensor its row." {
        own.wrap(compressed(own, "row_indices", true)?.plain.detach())
    }
    fn values(own) "The values of a coalesced tensor, or of a compressed one." {
        if !own.tensor.is_sparse() {
            return Err(PyRuntimeError::new_err("values expected sparse tensor layout but got Strided"));
        }
        own.wrap(op!(VALUES, own.tensor).map_err(raise)?)
    }
    fn _indices(own) "The stored indices, one column for each element." {
        own.wrap(inner(own, "_indices")?.indices.detach())
    }
    fn _values(own) "The stored values." { own.wrap(inner(own, "_values")?.values.detach()) }
    fn _nnz(own) "The number of values; in each batch of a compressed tensor." {
        match own.tensor.compressed_parts() {
            Some(parts) => own.give(parts.count()),
            None => own.give(inner(own, "_nnz")?.indices.sizes()[1]),
        }
    }
    fn sparse_dim(own) "The number of sparse dimensions; zero for a dense tensor." {
        if own.tensor.compressed_parts().is_some() {
            return own.give(2);
        }
        own.give(own.tensor.parts().map_or(0, |parts| parts.indices.sizes()[0]))
    }
    fn dense_dim(own) "The number of dense dimensions; all of a dense tensor's." {
        if let Some(parts) = own.tensor.compressed_parts() {
            return own.give(parts.dense_dims());
        }
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
    fn to_dense(own, dtype, masked_grad) "The dense form of a sparse tensor; a dense tensor itself. The gradient has the tensor's indices, unless `masked_grad` is false." {
        let masked = masked_grad.filter(|masked| !masked.is_none()).map_or(Ok(true), |masked| masked.is_truthy())?;
        let whole = op!(TO_DENSE, own.tensor, masked).map_err(raise)?;
        match dtype.filter(|dtype| !dtype.is_none()) {
            None if !own.tensor.is_sparse() => own.same(),
            None => own.wrap(whole),
            Some(dtype) => match crate::dtype::extract_dtype(&dtype) {
                Some(dtype) => own.wrap(rushlight::convert::to_dtype(&whole, dtype).map_err(raise)?),
                None => Err(PyTypeError::new_err("to_dense(): argument 'dtype' must be torch.dtype")),
            },
        }
    }
    fn to_sparse(own, sparse_dim, layout, blocksize, dense_dim) "The non-zero elements as a sparse tensor; with `sparse_dim`, blocks of them. `layout` may be any sparse one." {
        let Some(dims) = sparse_dim.filter(|dims| !dims.is_none()) else {
            let layout = match layout.filter(|layout| !layout.is_none()) {
                Some(layout) => layout.cast::<PyLayout>().map(|layout| layout.get().0).map_err(|_| {
                    PyTypeError::new_err("to_sparse(): argument 'layout' must be torch.layout")
                })?,
                None => "sparse_coo",
            };
            return converted(own, "to_sparse", layout, blocksize, dense_dim);
        };
        let Some(dims) = scalars::int(&dims)? else {
            return Err(PyTypeError::new_err("to_sparse(): argument 'sparse_dim' must be int"));
        };
        let (held, name) = match (own.tensor.parts(), own.tensor.compressed_parts()) {
            (Some(parts), _) => (Some(parts.indices.sizes()[0] as i64), ("to_sparse", "self.sparse_dim()")),
            (_, Some(_)) => (Some(2), ("sparse_compressed_to_sparse", "2")),
            _ => (None, ("", "")),
        };
        match held {
            Some(held) if held != dims => Err(PyRuntimeError::new_err(format!(
                "{}: conversion from {} to Sparse with sparse_dim argument !={} is not supported",
                name.0,
                own.tensor.layout_name(),
                name.1
            ))),
            Some(_) => converted(own, "to_sparse", "sparse_coo", None, None),
            None => own.wrap(op!(TO_SPARSE, own.tensor, Value::Int(dims)).map_err(raise)?),
        }
    }
    fn to_sparse_csr(own, dense_dim) "The tensor in layout torch.sparse_csr." {
        converted(own, "to_sparse_csr", "sparse_csr", None, dense_dim)
    }
    fn to_sparse_csc(own, dense_dim) "The tensor in layout torch.sparse_csc." {
        converted(own, "to_sparse_csc", "sparse_csc", None, dense_dim)
    }
    fn to_sparse_bsr(own, blocksize = required, dense_dim) "The tensor in layout torch.sparse_bsr." {
        converted(own, "to_sparse_bsr", "sparse_bsr", Some(given("to_sparse_bsr", "blocksize", blocksize)?), dense_dim)
    }
    fn to_sparse_bsc(own, blocksize = required, dense_dim) "The tensor in layout torch.sparse_bsc." {
        converted(own, "to_sparse_bsc", "sparse_bsc", Some(given("to_sparse_bsc", "blocksize", blocksize)?), dense_dim)
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

/// Implements `torch.sparse_compressed_tensor`: a sparse tensor from both indices, values and, if given, a size.
#[pyfunction]
#[pyo3(signature = (layout, compressed_indices, plain_indices, values, size=None, ordered=false))]
fn _sparse_compressed_tensor<'py>(
    py: Python<'py>,
    layout: &Bound<'py, PyAny>,
    compressed_indices: &Bound<'py, PyAny>,
    plain_indices: &Bound<'py, PyAny>,
    values: &Bound<'py, PyAny>,
    size: Option<Vec<i64>>,
    ordered: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let layout = layout.cast::<PyLayout>()?.get().0;
    let size = size.map_or(Value::None, |size| Value::from(size.as_slice()));
    let (compressed, plain) = (object::tensor(compressed_indices)?, object::tensor(plain_indices)?);
    let made =
        op!(FROM_COMPRESSED, compressed, plain, object::tensor(values)?, layout, size, ordered).map_err(raise)?;
    object::wrap_bound(py, made)
}

/// Implements `torch.sparse.mm`, by `times`: the product of two matrices of which at least one is sparse, in either order.
#[pyfunction]
fn _sparse_mm<'py>(py: Python<'py>, a: &Bound<'py, PyAny>, b: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    object::wrap_bound(py, times(object::tensor(a)?, object::tensor(b)?, false).map_err(raise)?)
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_sparse_coo_tensor, module)?)?;
    module.add_function(wrap_pyfunction!(_sparse_compressed_tensor, module)?)?;
    module.add_function(wrap_pyfunction!(_sparse_mm, module)?)
}
