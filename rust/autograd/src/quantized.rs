//! Quantised tensors: numbers stored as integers.
//!
//! The dtype and the layout in a tensor's `TensorMeta` are those of the integers; the form has the quantizer, which says
//! what numbers they stand for. Such tensors have no gradients, as tensors of integers have none.

use std::sync::Arc;

use crate::graph::{Form, Quantizer, Tensor, TensorMeta};

impl Tensor {
    #[inline]
    pub fn is_quantized(&self) -> bool {
        matches!(self.meta().form, Form::Quantized(_))
    }

    /// What numbers the integers of a quantised tensor stand for; `None` for others.
    pub fn quantizer(&self) -> Option<&Arc<Quantizer>> {
        match &self.meta().form {
            Form::Quantized(quantizer) => Some(quantizer),
            _ => None,
        }
    }

    /// The stored integers, in the same memory.
    pub fn integers(&self) -> Tensor {
        self.detach_as(TensorMeta { form: Form::Plain, ..self.meta().clone() })
    }

    /// Integers as the numbers that they stand for, in the same memory.
    pub fn quantized(&self, quantizer: Arc<Quantizer>) -> Tensor {
        self.detach_as(TensorMeta { form: Form::Quantized(quantizer), ..self.meta().clone() })
    }
}

impl PartialEq for Quantizer {
    /// Whether both have the same parameters; those of channels are compared by identity.
    fn eq(&self, other: &Quantizer) -> bool {
        match (self, other) {
            (
                Quantizer::PerTensor { scale, zero_point },
                Quantizer::PerTensor { scale: other_scale, zero_point: other_point },
            ) => scale == other_scale && zero_point == other_point,
            (
                Quantizer::PerChannel { scales, zero_points, axis },
                Quantizer::PerChannel { scales: other_scales, zero_points: other_points, axis: other_axis },
            ) => scales.ptr_eq(other_scales) && zero_points.ptr_eq(other_points) && axis == other_axis,
            _ => false,
        }
    }
}
