//! Batched tensors: the samples of a batch as one tensor that has the shape of a single sample.
//!
//! The layout is that of the first sample, so that sizes, dimensions and views are a sample's. The form stores the
//! hidden batch dimensions: for each enclosing `vmap`, the number of samples and the stride between them.

use std::sync::Arc;

use rushlight_core::Layout;

use crate::graph::{BatchDim, Form, Tensor, TensorMeta};

impl Tensor {
    /// The hidden dimensions, the outermost first; empty for a tensor that is not batched.
    #[inline]
    pub fn batch_dims(&self) -> &[BatchDim] {
        self.meta().batch_dims()
    }

    #[inline]
    pub fn is_batched(&self) -> bool {
        matches!(self.meta().form, Form::Batched(_))
    }

    pub fn batch_dim(&self, level: i64) -> Option<BatchDim> {
        self.batch_dims().iter().copied().find(|batch_dim| batch_dim.level == level)
    }
}

impl TensorMeta {
    /// This metadata with these hidden dimensions.
    pub fn with_batch_dims(self, batch_dims: impl IntoIterator<Item = BatchDim>) -> TensorMeta {
        let mut batch_dims: Vec<BatchDim> = batch_dims.into_iter().collect();
        batch_dims.sort_unstable_by_key(|batch_dim| batch_dim.level);
        TensorMeta {
            form: if batch_dims.is_empty() { Form::Plain } else { Form::Batched(Arc::from(batch_dims)) },
            ..self
        }
    }

    #[inline]
    fn batch_dims(&self) -> &[BatchDim] {
        match &self.form {
            Form::Batched(batch_dims) => batch_dims,
            _ => &[],
        }
    }

    /// Makes dimension `dim` the batch dimension of a level.
    pub fn add_batch_dim(&self, dim: usize, level: i64) -> TensorMeta {
        let mut layout = self.layout.clone();
        let (size, stride) = (layout.sizes.remove(dim), layout.strides.remove(dim));
        let batch_dims: Vec<BatchDim> =
            self.batch_dims().iter().copied().chain([BatchDim { level, size, stride }]).collect();
        TensorMeta { layout, ..self.clone() }.with_batch_dims(batch_dims)
    }

    /// Makes the batch dimension of a level dimension `dim` again. A tensor that is not batched at this level has
    /// `size` equal samples.
    pub fn remove_batch_dim(&self, dim: usize, level: i64, size: isize) -> TensorMeta {
        let batch_dim = self.batch_dims().iter().copied().find(|batch_dim| batch_dim.level == level);
        let BatchDim { size, stride, .. } = batch_dim.unwrap_or(BatchDim { level, size, stride: 0 });
        let mut layout: Layout = self.layout.clone();
        layout.sizes.insert(dim, size);
        layout.strides.insert(dim, stride);
        let rest: Vec<BatchDim> =
            self.batch_dims().iter().copied().filter(|batch_dim| batch_dim.level != level).collect();
        TensorMeta { layout, ..self.clone() }.with_batch_dims(rest)
    }
}
