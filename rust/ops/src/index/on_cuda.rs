//! Reading and writing by indices on CUDA devices. An index is checked before anything is read or written: the call waits for
//! the check, raises the host's error, and leaves the device as it was. Inside of a graph nothing can wait: there a bad index stops
//! the device when the graph runs, as in torch.

use rushlight_autograd::Tensor;
use rushlight_core::loop_nest::LoopNest;
use rushlight_core::{DType, Dims, Layout, Result, Scalar, Storage};
use rushlight_cpu::index::OutOfBounds;
use rushlight_cpu::index::scatter::ScatterOp;
use rushlight_cuda::card::Card;
use rushlight_cuda::indexed::{self, Column, Dimension, Merge};
use rushlight_cuda::{capture, card, copy as bytes, storage, stream};
use rushlight_dispatch::interpreter::while_waiting;
use rushlight_dispatch::{create, waits};

use crate::held::Held;

/// A number of eight bytes on a device, to which kernels report; none inside of a graph.
pub struct Report<'a> {
    card: &'a Card,
    storage: Option<Storage>,
}

impl<'a> Report<'a> {
    pub fn new(card: &'a Card) -> Result<Report<'a>> {
        let stream = stream::current(card.index);
        if capture::is_capturing(card.index, stream) {
            return Ok(Report { card, storage: None });
        }
        let storage = storage::allocate(card.index, size_of::<u64>())?;
        let pin = storage.pin_on(stream)?;
        // SAFETY: there are eight bytes at the address, which are held.
        unsafe { bytes::fill(card.index, pin.address(), u8::MAX, size_of::<u64>(), stream)? };
        drop(pin);
        Ok(Report { card, storage: Some(storage) })
    }

    /// Where kernels write the number; 0 inside of a graph.
    pub fn address<'b>(&'b self, held: &mut Held<'b>) -> Result<u64> {
        self.storage.as_ref().map_or(Ok(0), |storage| held.base(storage))
    }

    /// The number, after all work so far; none if no kernel wrote it, and inside of a graph.
    pub fn read(&self) -> Result<Option<usize>> {
        let Some(storage) = &self.storage else { return Ok(None) };
        waits::announce()?;
        let stream = stream::current(self.card.index);
        waits::tell_watcher(stream)?;
        let pin = storage.pin_on(stream)?;
        let mut found = 0u64;
        let to = (&raw mut found).cast();
        while_waiting(|| {
            // SAFETY: there are eight bytes at both addresses, and the number stays until the stream has passed.
            unsafe { bytes::to_host(self.card.index, to, pin.address(), size_of::<u64>(), stream)? };
            stream::synchronize(self.card.index, stream)
        })?;
        Ok(usize::try_from(found).ok().filter(|_| found != u64::MAX))
    }
}

/// Adds the bytes of an index to the offsets of all places, or only checks it.
fn locate(offsets: Option<&Tensor>, index: &Tensor, dimension: Dimension, begins: bool, report: &Report) -> Result<()> {
    let list = Layout::contiguous(index.sizes());
    let nest = LoopNest::new([&list, index.layout()], [size_of::<i64>(); 2]);
    let mut held = Held::on(index)?;
    let operands = [held.optional(offsets)?, held.base(index.storage())?];
    let outside = report.address(&mut held)?;
    // SAFETY: the offsets are a new row-major list, layouts stay within their storages, and all are held for the stream.
    unsafe { indexed::locate(held.card, held.stream, operands, &nest, dimension, begins, outside) }
}

/// The index at a position in row-major order.
pub fn value_at(index: &Tensor, position: usize) -> Result<i64> {
    let layout = Layout { sizes: Dims::new(), strides: Dims::new(), offset: index.layout().locate(position) };
    match crate::convert::item(&Tensor::view_of(&index.detach(), layout))? {
        Scalar::Int(value) => Ok(value),
        other => Ok(other.f64() as i64),
    }
}

/// The first index out of range, which must be integers of 64 bits.
pub fn first_outside(index: &Tensor, size: isize) -> Result<Option<OutOfBounds>> {
    let card = card::of(index.device())?;
    let report = Report::new(card)?;
    locate(None, index, Dimension { size, step: 0, wraps: false }, true, &report)?;
    let Some(position) = report.read()? else { return Ok(None) };
    Ok(Some(OutOfBounds { number: 0, value: value_at(index, position)? }))
}

/// The byte offset of every tuple of indices, which are row-major integers of 64 bits, or the first one that is out of range.
/// Each comes with the size of its dimension and its stride in bytes.
pub fn offsets(
    indices: &[(&Tensor, isize, isize)],
    n: usize,
    like: &Tensor,
) -> Result<std::result::Result<Tensor, OutOfBounds>> {
    let card = card::of(like.device())?;
    let offsets = create::zeros(&[n as isize], DType::I64, like.device())?;
    let mut reports = Vec::with_capacity(indices.len());
    for (number, &(index, size, step)) in indices.iter().enumerate() {
        let report = Report::new(card)?;
        let dimension = Dimension { size, step, wraps: true };
        locate(Some(&offsets), index, dimension, number == 0, &report)?;
        reports.push(report);
    }
    let mut first: Option<(usize, usize)> = None;
    for (number, report) in reports.iter().enumerate() {
        if let Some(position) = report.read()? {
            first = Some(first.map_or((position, number), |found| found.min((position, number))));
        }
    }
    match first {
        Some((position, number)) => Ok(Err(OutOfBounds { number, value: value_at(indices[number].0, position)? })),
        None => Ok(Ok(offsets)),
    }
}

/// Copies the elements of a source, at `scale` bytes times an integer, to a result. All layouts have the same sizes.
pub fn read(
    out: (&Tensor, &Layout),
    source: (&Tensor, &Layout),
    places: (&Tensor, &Layout),
    scale: isize,
) -> Result<()> {
    let width = out.0.dtype().size();
    let nest = LoopNest::new([out.1, source.1, places.1], [width, width, size_of::<i64>()]);
    let mut held = Held::on(out.0)?;
    let operands = held.bases([out.0, source.0, places.0])?;
    // SAFETY: indices were checked, layouts stay within their storages, and all are held for the stream.
    unsafe { indexed::read(held.card, held.stream, width, operands, &nest, scale) }
}

fn rule(merge: ScatterOp) -> Merge {
    match merge {
        ScatterOp::Set => Merge::Replace,
        ScatterOp::Add => Merge::Add,
        ScatterOp::Multiply => Merge::Multiply,
        ScatterOp::Min => Merge::Min,
        ScatterOp::Max => Merge::Max,
    }
}

/// Merges the values of columns into a target at integers. All layouts have the sizes of the columns.
pub fn merge(
    target: (&Tensor, &Layout),
    values: (&Tensor, &Layout),
    places: (&Tensor, &Layout),
    way: ScatterOp,
    column: Column,
) -> Result<()> {
    let dtype = target.0.dtype();
    let nest = LoopNest::new([target.1, values.1, places.1], [dtype.size(), dtype.size(), size_of::<i64>()]);
    let mut held = Held::on(target.0)?;
    let operands = held.bases([target.0, values.0, places.0])?;
    // SAFETY: indices were checked, layouts stay within their storages, and all are held for the stream. Columns differ in the
    // dimensions without an index, along which a target has no repeated elements.
    unsafe { indexed::merge(held.card, held.stream, (dtype, rule(way)), operands, &nest, column) }
}
