//! The geometry of indexing: the dimensions before and after, the checked offsets, the errors.

use rushlight_autograd::Tensor;
use rushlight_core::index::{gathered, subspace};
use rushlight_core::layout::Shape;
use rushlight_core::loop_nest::result_layout;
use rushlight_core::storage::{Pin, pin_all};
use rushlight_core::{DType, Dims, Error, Layout, Result};
use rushlight_cpu::index::{Frame, Index, OutOfBounds};
use rushlight_dispatch::operands::integers;

use super::on_cuda;

/// The shape that all indices broadcast to.
pub fn common(indices: &[Tensor]) -> Result<Dims> {
    rushlight_core::broadcast::broadcast_all(indices.iter().map(|index| index.sizes().as_slice())).map_err(|_| {
        let shapes: Vec<String> = indices.iter().map(|index| Shape(index.sizes()).to_string()).collect();
        Error::index(format!(
            "shape mismatch: indexing tensors could not be broadcast together with shapes {}",
            shapes.join(", ")
        ))
        .shapes(indices.iter().map(|index| index.sizes().as_slice()))
    })
}

/// Returns an error for indices along an empty dimension.
pub fn check_not_empty_dims(input: &Tensor, dims: &[usize], common: &[isize]) -> Result<()> {
    if dims.iter().any(|&dim| input.sizes().get(dim) == Some(&0)) && !common.contains(&0) {
        return Err(Error::index("index is out of bounds for dimension with size 0").shapes([input.sizes().as_slice()]));
    }
    Ok(())
}

/// The error for a value that does not broadcast to the indexed shape.
#[cold]
pub fn value_shape_error(value: &Tensor, input: &Tensor, dims: &[usize], common: &[isize]) -> Error {
    let result = gathered(input.sizes(), dims, common);
    Error::runtime(format!(
        "shape mismatch: value tensor of shape {} cannot be broadcast to indexing result of shape {}",
        Shape(value.sizes()),
        Shape(&result)
    ))
    .hint("Use one value, or values whose shape broadcasts to the indexed shape.")
    .shapes([value.sizes().as_slice(), result.as_slice()])
}

/// Indices with the dimensions of an operand.
pub struct IndexGeometry {
    pub dims: Vec<usize>,
    pub common: Dims,
    /// Row-major integers of 64 bits, one tensor for each of `dims`.
    indices: Vec<Tensor>,
}

impl IndexGeometry {
    /// The indices of a call, broadcast against each other.
    pub fn new(input: &Tensor, indices: &[&Tensor], dims: &[i64]) -> Result<IndexGeometry> {
        let dims: Vec<usize> = dims.iter().map(|&dim| dim as usize).collect();
        if dims.len() != indices.len()
            || dims.iter().any(|&dim| dim >= input.rank())
            || dims.windows(2).any(|d| d[0] >= d[1])
        {
            return Err(Error::index(format!(
                "too many indices for tensor of dimension {} (got {})",
                input.rank(),
                indices.len()
            ))
            .hint("Use at most one index per dimension; a mask counts once for each of its dimensions."));
        }
        let indices: Vec<Tensor> = indices.iter().map(|&index| index.clone()).collect();
        let common = common(&indices)?;
        Ok(IndexGeometry { dims, common, indices })
    }

    /// The sizes of the indexed result.
    pub fn sizes(&self, input: &Tensor) -> Dims {
        gathered(input.sizes(), &self.dims, &self.common)
    }

    /// The layout of the indexed result: in the memory order of the operand and the indices.
    pub fn result(&self, input: &Tensor) -> Layout {
        let sizes = self.sizes(input);
        let layout = input.layout();
        if layout.row_major().is_some() && self.indices.iter().all(|index| index.layout().row_major().is_some()) {
            return Layout::contiguous(&sizes);
        }
        let split = subspace(&self.dims);
        // The operand has stride zero along the indices' dimensions, and an index along the others.
        let mut still = Layout::contiguous(&sizes);
        still.strides.fill(0);
        let mut rest = still.clone();
        let kept = (0..layout.rank()).filter(|dim| !self.dims.contains(dim));
        for (at, dim) in kept.enumerate() {
            let at = if at < split { at } else { at + self.common.len() };
            rest.strides[at] = layout.strides[dim];
        }
        // An index is a view with sizes of one for the other dimensions, whose strides count as well.
        let index_layouts = self.indices.iter().map(|index| {
            let expanded = index.layout().broadcast_to(&self.common).unwrap_or_else(|_| index.layout().clone());
            let mut moved = still.clone();
            for dim in (0..sizes.len()).filter(|&dim| sizes[dim] == 1) {
                moved.strides[dim] = if dim < split { index.numel() as isize } else { 1 };
            }
            moved.strides[split..split + self.common.len()].copy_from_slice(&expanded.strides);
            moved
        });
        let operands: Vec<Layout> = std::iter::once(rest).chain(index_layouts).collect();
        result_layout(&sizes, &operands)
    }

    /// The layouts before and after the indexed dimensions.
    pub fn frame(&self, own: &Layout) -> Frame {
        let split = subspace(&self.dims);
        let rest: Vec<usize> = (0..own.rank()).filter(|dim| !self.dims.contains(dim)).collect();
        let (before, after) = rest.split_at(split);
        Frame { before: own.permute(before), after: Layout { offset: 0, ..own.permute(after) } }
    }

    /// The same for values of the indexed sizes; also returns the layout of the dimensions between.
    pub fn source(&self, values: &Layout) -> (Frame, Layout) {
        let split = subspace(&self.dims);
        let end = split + self.common.len();
        let part = |range: std::ops::Range<usize>| range.collect::<Vec<usize>>();
        let middle = Layout { offset: 0, ..values.permute(&part(split..end)) };
        let after = Layout { offset: 0, ..values.permute(&part(end..values.rank())) };
        (Frame { before: values.permute(&part(0..split)), after }, middle)
    }

    /// The indices as row-major integers, broadcast against each other.
    fn plain(&self) -> Result<Vec<Tensor>> {
        self.indices.iter().map(|index| integers(index, &self.common)).collect()
    }

    /// The byte offset of every tuple of indices, checked, as integers on the device of the operand.
    pub fn offsets_on_cuda(&self, input: &Tensor) -> Result<Tensor> {
        let plain = self.plain()?;
        let step = |dim: usize| input.layout().strides[dim].wrapping_mul(input.dtype().size() as isize);
        let each = plain.iter().zip(&self.dims).map(|(index, &dim)| (index, input.sizes()[dim], step(dim)));
        let n = self.common.iter().product::<isize>() as usize;
        on_cuda::offsets(&each.collect::<Vec<_>>(), n, input)?.map_err(|bad| self.outside(input, bad))
    }

    /// The error for an index out of range.
    #[cold]
    fn outside(&self, input: &Tensor, OutOfBounds { number, value }: OutOfBounds) -> Error {
        let size = input.sizes()[self.dims[number]];
        Error::index(format!("index {value} is out of bounds for dimension {number} with size {size}")).hint(format!(
            "This is dimension {} of a tensor with sizes {}.",
            self.dims[number],
            Shape(input.sizes())
        ))
    }

    /// The byte offset of every tuple of indices, checked.
    pub fn offsets(&self, input: &Tensor) -> Result<Vec<isize>> {
        let plain = self.plain()?;
        let pins = pin_all(plain.iter().map(Tensor::storage))?;
        let layout = input.layout();
        let indices: Vec<Index> = self
            .dims
            .iter()
            .enumerate()
            .map(|(at, &dim)| Index {
                values: first(&pins[at], plain[at].layout(), plain[at].dtype()).cast_const().cast(),
                size: layout.sizes[dim],
                step: layout.strides[dim].wrapping_mul(input.dtype().size() as isize),
            })
            .collect();
        let n = self.common.iter().product::<isize>() as usize;
        // SAFETY: each index holds `n` contiguous integers.
        unsafe { rushlight_cpu::index::offsets(&indices, n) }?.map_err(|bad| self.outside(input, bad))
    }
}

/// The first element's address in a pinned storage; layouts stay within it, and an empty one may start at its end.
pub fn first(pin: &Pin, layout: &Layout, dtype: DType) -> *mut u8 {
    pin.as_ptr().wrapping_offset(layout.offset * dtype.size() as isize)
}
