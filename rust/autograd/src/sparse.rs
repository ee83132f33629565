//! Sparse tensors: in coordinate format (COO), the indices and values of some elements; in the four compressed formats,
//! the same by rows or columns. All other elements are zero.
//!
//! The form in the tensor's `TensorMeta` says so; every call checks it anyway. The layout has the sizes of the whole
//! and strides of zero, over a storage of one zero: code that does not check the form reads zeros, and never memory out
//! of bounds.

use std::sync::Arc;

use rushlight_core::{DType, Device, Dims, Layout, Storage};

use crate::graph::{Compressed, CompressedFormat, CompressedParts, Coo, Form, SparseParts, Tensor, TensorMeta};
use crate::lock::Slot;

impl CompressedFormat {
    pub const ALL: [CompressedFormat; 4] = [
        CompressedFormat { columns: false, blocks: false },
        CompressedFormat { columns: true, blocks: false },
        CompressedFormat { columns: false, blocks: true },
        CompressedFormat { columns: true, blocks: true },
    ];

    /// torch's name of the layout in Python.
    pub fn name(self) -> &'static str {
        match (self.blocks, self.columns) {
            (false, false) => "sparse_csr",
            (false, true) => "sparse_csc",
            (true, false) => "sparse_bsr",
            (true, true) => "sparse_bsc",
        }
    }

    /// The format of that name.
    pub fn named(name: &str) -> Option<CompressedFormat> {
        CompressedFormat::ALL.into_iter().find(|format| format.name() == name)
    }

    /// torch's name of the layout in errors.
    pub fn layout_name(self) -> &'static str {
        match (self.blocks, self.columns) {
            (false, false) => "SparseCsr",
            (false, true) => "SparseCsc",
            (true, false) => "SparseBsr",
            (true, true) => "SparseBsc",
        }
    }

    /// The format of the transposed matrix with the same entries.
    pub fn transposed(self) -> CompressedFormat {
        CompressedFormat { columns: !self.columns, ..self }
    }

    /// The names of the two indices.
    pub fn index_names(self) -> [&'static str; 2] {
        if self.columns { ["ccol_indices", "row_indices"] } else { ["crow_indices", "col_indices"] }
    }
}

impl CompressedParts {
    pub fn batch_dims(&self) -> usize {
        self.compressed.rank() - 1
    }

    pub fn dense_dims(&self) -> usize {
        self.values.rank() - self.compressed.rank() - if self.format.blocks { 2 } else { 0 }
    }

    /// The number of entries, or blocks of them, in each batch.
    pub fn count(&self) -> isize {
        self.plain.sizes().last().copied().unwrap_or(0)
    }

    /// The sizes of a block; one and one if the entries are not blocks.
    pub fn block(&self) -> [isize; 2] {
        let first = self.compressed.rank();
        if self.format.blocks { [self.values.sizes()[first], self.values.sizes()[first + 1]] } else { [1, 1] }
    }
}

/// torch's name in errors of a layout that has this name in Python.
pub fn layout_in_errors(name: &str) -> &'static str {
    match name {
        "strided" => "Strided",
        "sparse_coo" => "Sparse",
        _ => CompressedFormat::named(name).map_or("Unknown", CompressedFormat::layout_name),
    }
}

fn with_form(storage: Storage, sizes: Dims, (dtype, device): (DType, Device), form: Form) -> Tensor {
    let strides = Dims::from_elem(0, sizes.len());
    let meta = TensorMeta::new(storage, Layout { sizes, strides, offset: 0 }, dtype, device);
    Tensor::with_meta(TensorMeta { form, ..meta })
}

impl Tensor {
    /// A sparse tensor in coordinate format. `storage` holds one zero.
    pub fn sparse(storage: Storage, sizes: Dims, parts: SparseParts) -> Tensor {
        let kind = (parts.values.dtype(), parts.values.device());
        with_form(storage, sizes, kind, Form::Sparse(Arc::new(Coo(Slot::new(Some(Arc::new(parts)))))))
    }

    /// A sparse tensor in a compressed format. `storage` holds one zero.
    pub fn compressed(storage: Storage, sizes: Dims, parts: CompressedParts) -> Tensor {
        let kind = (parts.values.dtype(), parts.values.device());
        with_form(storage, sizes, kind, Form::Compressed(Arc::new(Compressed(Slot::new(Some(Arc::new(parts)))))))
    }

    /// Whether the tensor has a sparse format, one with coordinates or a compressed one.
    #[inline]
    pub fn is_sparse(&self) -> bool {
        matches!(self.meta().form, Form::Sparse(_) | Form::Compressed(_))
    }

    /// The current parts of a sparse tensor in coordinate format; `None` for others.
    pub fn parts(&self) -> Option<Arc<SparseParts>> {
        match &self.meta().form {
            Form::Sparse(coo) => coo.0.get(),
            _ => None,
        }
    }

    /// The current parts of a sparse tensor in a compressed format; `None` for others.
    pub fn compressed_parts(&self) -> Option<Arc<CompressedParts>> {
        match &self.meta().form {
            Form::Compressed(compressed) => compressed.0.get(),
            _ => None,
        }
    }

    /// torch's name of the tensor's layout in Python.
    pub fn python_layout(&self) -> &'static str {
        match &self.meta().form {
            Form::Sparse(_) => "sparse_coo",
            Form::Compressed(_) => self.compressed_parts().map_or("sparse_csr", |parts| parts.format.name()),
            _ => "strided",
        }
    }

    /// torch's name of the tensor's layout in errors.
    pub fn layout_name(&self) -> &'static str {
        match &self.meta().form {
            Form::Sparse(_) => "Sparse",
            Form::Compressed(_) => self.compressed_parts().map_or("SparseCsr", |parts| parts.format.layout_name()),
            _ => "Strided",
        }
    }

    /// Replaces the parts of a sparse tensor by others of the same sizes and dtype. Tensors detached from it share
    /// them.
    pub fn set_parts(&self, parts: SparseParts) {
        if let Form::Sparse(coo) = &self.meta().form {
            coo.0.replace(Some(Arc::new(parts)));
        }
    }

    /// The same for a compressed format.
    pub fn set_compressed_parts(&self, parts: CompressedParts) {
        if let Form::Compressed(compressed) = &self.meta().form {
            compressed.0.replace(Some(Arc::new(parts)));
        }
    }
}
