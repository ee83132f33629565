//! Sparse tensors in coordinate format (COO): the indices and values of some elements; all others are zero.
//!
//! The form in the tensor's `TensorMeta` says so; every call checks it anyway. The layout has the sizes of the whole
//! and strides of zero, over a storage of one zero: code that does not check the form reads zeros, and never memory out
//! of bounds.

use std::sync::Arc;

use rushlight_core::{DType, Device, Dims, Layout, Storage};

use crate::graph::{Coo, Form, SparseParts, Tensor, TensorMeta};
use crate::lock::Slot;

impl Tensor {
    /// A sparse tensor. `storage` holds one zero.
    pub fn sparse(storage: Storage, sizes: Dims, parts: SparseParts) -> Tensor {
        let strides = Dims::from_elem(0, sizes.len());
        let (dtype, device): (DType, Device) = (parts.values.dtype(), parts.values.device());
        let meta = TensorMeta::new(storage, Layout { sizes, strides, offset: 0 }, dtype, device);
        Tensor::with_meta(TensorMeta { form: Form::Sparse(Arc::new(Coo(Slot::new(Some(Arc::new(parts)))))), ..meta })
    }

    #[inline]
    pub fn is_sparse(&self) -> bool {
        matches!(self.meta().form, Form::Sparse(_))
    }

    /// The current parts of a sparse tensor; `None` for others.
    pub fn parts(&self) -> Option<Arc<SparseParts>> {
        match &self.meta().form {
            Form::Sparse(coo) => coo.0.get(),
            _ => None,
        }
    }

    /// Replaces the parts of a sparse tensor by others of the same sizes and dtype. Tensors detached from it share
    /// them.
    pub fn set_parts(&self, parts: SparseParts) {
        if let Form::Sparse(coo) = &self.meta().form {
            coo.0.replace(Some(Arc::new(parts)));
        }
    }
}
