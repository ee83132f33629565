//! What the graph knows of a call's tensors without keeping them.

use rushlight_autograd::{BatchDim, Tensor};
use rushlight_core::layout::copied;
use rushlight_core::{DType, Device, Dims, Layout};

/// The metadata of a tensor argument or result, which is kept without the tensor.
pub struct SavedMeta {
    pub place: usize,
    pub sizes: Dims,
    pub dtype: DType,
    pub device: Device,
    saved_layout: SavedLayout,
}

/// A tensor's memory order and batch dimensions: every recorded call stores them, and most tensors need only one word
/// for them.
enum SavedLayout {
    RowMajor,
    /// A row-major matrix, transposed, as weights are.
    ColumnMajor,
    Special(Box<(Layout, Vec<BatchDim>)>),
}

impl SavedLayout {
    #[inline]
    fn of(tensor: &Tensor) -> SavedLayout {
        let layout = tensor.layout();
        if layout.offset == 0 && !tensor.is_batched() {
            // Rows or columns of one element are contiguous in both orders. Their strides say which one.
            if has_column_major_strides(layout) {
                return SavedLayout::ColumnMajor;
            }
            if layout.is_contiguous() {
                return SavedLayout::RowMajor;
            }
        }
        SavedLayout::Special(Box::new((layout.clone(), tensor.batch_dims().to_vec())))
    }
}

fn has_column_major_strides(layout: &Layout) -> bool {
    matches!((&layout.strides[..], &layout.sizes[..]), ([1, step], [rows, _]) if step == rows)
}

impl SavedMeta {
    #[inline]
    pub fn of(place: usize, tensor: &Tensor) -> SavedMeta {
        let sizes = copied(&tensor.layout().sizes);
        SavedMeta {
            place,
            sizes,
            dtype: tensor.dtype(),
            device: tensor.device(),
            saved_layout: SavedLayout::of(tensor),
        }
    }

    pub fn layout(&self) -> Layout {
        match (&self.saved_layout, &self.sizes[..]) {
            (SavedLayout::Special(special), _) => special.0.clone(),
            (SavedLayout::ColumnMajor, &[rows, columns]) => Layout::contiguous(&[columns, rows]).transpose(0, 1),
            _ => Layout::contiguous(&self.sizes),
        }
    }

    /// Whether it is a matrix in column-major order.
    pub fn is_column_major(&self) -> bool {
        match &self.saved_layout {
            SavedLayout::RowMajor => false,
            SavedLayout::ColumnMajor => true,
            SavedLayout::Special(special) => has_column_major_strides(&special.0),
        }
    }

    /// Its batch dimensions.
    #[inline]
    pub fn batch_dims(&self) -> &[BatchDim] {
        match &self.saved_layout {
            SavedLayout::Special(special) => &special.1,
            _ => &[],
        }
    }
}
