//! Mapped tensors: the samples of a batch as one tensor that looks like any one of them.
//!
//! The layout is that of the first sample, so that sizes, dimensions and views are a sample's. What is hidden stands in the
//! form: for each `vmap` around, how many samples there are and how far they lie apart.

use std::sync::Arc;

use rushlight_core::Layout;

use crate::tensor::{Form, Meta, Tensor};

/// One hidden dimension. Its number is that of one `vmap`, and is never given twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Axis {
    pub level: i64,
    pub size: isize,
    /// In elements; zero where all samples are the same.
    pub stride: isize,
}

impl Tensor {
    /// The hidden dimensions, the outermost first; none of a tensor that is not mapped.
    #[inline]
    pub fn axes(&self) -> &[Axis] {
        self.meta().axes()
    }

    #[inline]
    pub fn is_mapped(&self) -> bool {
        matches!(self.meta().form, Form::Mapped(_))
    }

    pub fn axis(&self, level: i64) -> Option<Axis> {
        self.axes().iter().copied().find(|axis| axis.level == level)
    }
}

impl Meta {
    /// What is here, with these hidden dimensions.
    pub fn with_axes(self, axes: impl IntoIterator<Item = Axis>) -> Meta {
        let mut axes: Vec<Axis> = axes.into_iter().collect();
        axes.sort_unstable_by_key(|axis| axis.level);
        Meta { form: if axes.is_empty() { Form::Plain } else { Form::Mapped(Arc::from(axes)) }, ..self }
    }

    #[inline]
    fn axes(&self) -> &[Axis] {
        match &self.form {
            Form::Mapped(axes) => axes,
            _ => &[],
        }
    }

    /// Hides the dimension `dim`.
    pub fn hide(&self, dim: usize, level: i64) -> Meta {
        let mut layout = self.layout.clone();
        let (size, stride) = (layout.sizes.remove(dim), layout.strides.remove(dim));
        let axes: Vec<Axis> = self.axes().iter().copied().chain([Axis { level, size, stride }]).collect();
        Meta { layout, ..self.clone() }.with_axes(axes)
    }

    /// Shows a hidden dimension as the dimension `dim`; all samples are the same where the tensor is not mapped there.
    pub fn show(&self, dim: usize, level: i64, size: isize) -> Meta {
        let axis = self.axes().iter().copied().find(|axis| axis.level == level);
        let Axis { size, stride, .. } = axis.unwrap_or(Axis { level, size, stride: 0 });
        let mut layout: Layout = self.layout.clone();
        layout.sizes.insert(dim, size);
        layout.strides.insert(dim, stride);
        let rest: Vec<Axis> = self.axes().iter().copied().filter(|axis| axis.level != level).collect();
        Meta { layout, ..self.clone() }.with_axes(rest)
    }
}
