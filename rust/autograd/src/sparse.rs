//! Sparse tensors in coordinates (COO): the places of some elements, and what stands there; all else is zero.
//!
//! Such a tensor is marked in its `Meta`, where every call looks anyway. Its layout has the sizes of the whole and no strides,
//! over a storage of one zero: code that missed the mark would read zeros, and never memory that is not there.

use std::sync::Arc;

use rushlight_core::{DType, Device, Dims, Layout, Storage};

use crate::lock::Slot;
use crate::tensor::{Form, Meta, Tensor};

/// What a sparse tensor consists of.
#[derive(Clone)]
pub struct Parts {
    /// `sparse_dim x nnz` integers of 64 bits. A program may write to them: whoever reads them checks them.
    pub indices: Tensor,
    /// `nnz` elements, or blocks of them that have the sizes of the dense dimensions.
    pub values: Tensor,
    /// Whether the places are in order, and none comes twice.
    pub coalesced: bool,
}

/// The parts of one sparse tensor, which changes in place replace.
pub struct Coo(Slot<Arc<Parts>>);

impl Tensor {
    /// A sparse tensor. `storage` holds one zero.
    pub fn sparse(storage: Storage, sizes: Dims, parts: Parts) -> Tensor {
        let strides = Dims::from_elem(0, sizes.len());
        let (dtype, device): (DType, Device) = (parts.values.dtype(), parts.values.device());
        let meta = Meta::new(storage, Layout { sizes, strides, offset: 0 }, dtype, device);
        Tensor::with_meta(Meta { form: Form::Sparse(Arc::new(Coo(Slot::new(Some(Arc::new(parts)))))), ..meta })
    }

    #[inline]
    pub fn is_sparse(&self) -> bool {
        matches!(self.meta().form, Form::Sparse(_))
    }

    /// The parts of a sparse tensor as they are now; nothing for another.
    pub fn parts(&self) -> Option<Arc<Parts>> {
        match &self.meta().form {
            Form::Sparse(coo) => coo.0.get(),
            _ => None,
        }
    }

    /// Gives a sparse tensor other parts, of the same sizes and dtype. Tensors detached from it have them too.
    pub fn set_parts(&self, parts: Parts) {
        if let Form::Sparse(coo) = &self.meta().form {
            coo.0.replace(Some(Arc::new(parts)));
        }
    }
}
