//! Elements at positions that integers in memory give. The kernels are `indexed.cuh`.

use rushlight_core::device_memory::StreamId;
use rushlight_core::loop_nest::LoopNest;
use rushlight_core::{DType, Error, Result};

use crate::card::Card;
use crate::launch::{DIMS, ElementType, Loops, Pointers, argument, blocks, launch, outer_offsets};
use crate::program::{Key, Program};

/// How an element is merged with the one before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    Replace,
    Add,
    Multiply,
    Min,
    Max,
}

impl Merge {
    /// The rule in the source.
    fn name(self) -> &'static str {
        match self {
            Merge::Replace => "Replaced",
            Merge::Add => "Added",
            Merge::Multiply => "Multiplied",
            Merge::Min => "Smallest",
            Merge::Max => "Largest",
        }
    }
}

/// What an index means: the size of its dimension, the bytes between two of its elements, and whether negative indices count
/// from the end.
#[derive(Clone, Copy)]
pub struct Dimension {
    pub size: isize,
    pub step: isize,
    pub wraps: bool,
}

/// Adds the bytes of indices to the offsets at `to`, or begins them; if `to` is zero, indices are only checked. The operands of
/// the nest are a row-major list of eight bytes for each index, and the indices, which are int64. The eight bytes at `outside`
/// become the first position whose index is out of range; if it is zero, such an index stops the device.
///
/// # Safety
/// The nest stays within the operands, which are held for the stream, as `outside` is.
pub unsafe fn locate(
    card: &Card,
    stream: StreamId,
    [mut to, indices]: [u64; 2],
    nest: &LoopNest<2>,
    dimension: Dimension,
    begins: bool,
    mut outside: u64,
) -> Result<()> {
    let program = Program::find(card, Key::new("locate", []), &[c"locate"], || {
        r#"#include "indexed.cuh"
using namespace rushlight;
extern "C" __global__ void locate(u8* to, const u8* indices, u64 count, Loops<2> loops, i64 size, i64 step, u32 wraps,
                                  u32 begins, u64* outside) {
    rushlight::locate(to, indices, count, loops, size, step, wraps, begins, outside);
}
"#
        .into()
    })?;
    let mut loops = checked(nest)?;
    let mut count = loops.count();
    let [first, from] = nest.bases();
    // The list begins at the first index.
    debug_assert_eq!(first, 0);
    let mut indices = indices.wrapping_add_signed(from as i64);
    let (mut size, mut step) = (dimension.size as i64, dimension.step as i64);
    let (mut wraps, mut begins) = (u32::from(dimension.wraps), u32::from(begins));
    let mut arguments = [
        argument(&mut to),
        argument(&mut indices),
        argument(&mut count),
        argument(&mut loops),
        argument(&mut size),
        argument(&mut step),
        argument(&mut wraps),
        argument(&mut begins),
        argument(&mut outside),
    ];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program.kernel(0), [blocks(card, count), 1], stream, &mut arguments) }
}

/// Copies elements of `width` bytes from `scale` times an integer bytes further. The operands are the result, the source and the
/// integers.
///
/// # Safety
/// The nest, moved by the integers, stays within the operands, which are held for the stream.
pub unsafe fn read(
    card: &Card,
    stream: StreamId,
    width: usize,
    operands: [u64; 3],
    nest: &LoopNest<3>,
    scale: isize,
) -> Result<()> {
    let element = ElementType::Raw(width as u8);
    let key = Key::new("indexed_read", [element.code()]);
    let program = Program::find(card, key, &[c"read"], || {
        let element = element.name();
        format!(
            r#"#include "indexed.cuh"
using namespace rushlight;
extern "C" __global__ void read(Pointers<3> operands, u64 count, Loops<3> loops, i64 scale) {{
    rushlight::read<{element}>(operands, count, loops, scale);
}}
"#
        )
    })?;
    let mut loops = Loops::of(nest);
    let (mut count, mut scale) = (loops.count(), scale as i64);
    for offsets in outer_offsets(nest) {
        let mut pointers = Pointers::<3>(std::array::from_fn(|n| operands[n].wrapping_add_signed(offsets[n] as i64)));
        let mut arguments = [argument(&mut pointers), argument(&mut count), argument(&mut loops), argument(&mut scale)];
        // SAFETY: guaranteed by the caller; the arguments have the types of the program.
        unsafe { launch(card, program.kernel(0), [blocks(card, count), 1], stream, &mut arguments)? };
    }
    Ok(())
}

/// The elements of a column: their number, the bytes between targets of successive integers, and the bytes between the values and
/// between the integers.
#[derive(Clone, Copy)]
pub struct Column {
    pub length: usize,
    pub scale: isize,
    pub value_step: isize,
    pub place_step: isize,
}

/// Merges the elements of columns into those at integers, in their order. The operands of the nest, which goes over columns, are
/// the target, the values and the integers.
///
/// # Safety
/// The nest, moved along columns and by the integers, stays within the operands, which are held for the stream. No two columns
/// write to one element.
pub unsafe fn merge(
    card: &Card,
    stream: StreamId,
    (dtype, merge): (DType, Merge),
    operands: [u64; 3],
    nest: &LoopNest<3>,
    column: Column,
) -> Result<()> {
    let element = if merge == Merge::Replace { ElementType::Raw(dtype.size() as u8) } else { ElementType::Of(dtype) };
    let compute = if merge == Merge::Replace { element } else { ElementType::Of(dtype.compute()) };
    let key = Key::new(merge.name(), [element.code()]);
    let program = Program::find(card, key, &[c"merge"], || {
        let (name, element, compute) = (merge.name(), element.name(), compute.name());
        format!(
            r#"#include "indexed.cuh"
using namespace rushlight;
extern "C" __global__ void merge(Pointers<3> operands, u64 columns, Loops<3> loops, u64 length, i64 scale, i64 value_step,
                                 i64 place_step) {{
    rushlight::merge<{name}, {element}, {compute}>(operands, columns, loops, length, scale, value_step, place_step);
}}
"#
        )
    })?;
    let mut loops = Loops::of(nest);
    let (mut columns, mut length) = (loops.count(), column.length as u64);
    let (mut scale, mut value_step, mut place_step) =
        (column.scale as i64, column.value_step as i64, column.place_step as i64);
    for offsets in outer_offsets(nest) {
        let mut pointers = Pointers::<3>(std::array::from_fn(|n| operands[n].wrapping_add_signed(offsets[n] as i64)));
        let mut arguments = [
            argument(&mut pointers),
            argument(&mut columns),
            argument(&mut loops),
            argument(&mut length),
            argument(&mut scale),
            argument(&mut value_step),
            argument(&mut place_step),
        ];
        // SAFETY: guaranteed by the caller; the arguments have the types of the program.
        unsafe { launch(card, program.kernel(0), [blocks(card, columns), 1], stream, &mut arguments)? };
    }
    Ok(())
}

/// The loops of a nest that one launch must cover.
fn checked<const N: usize>(nest: &LoopNest<N>) -> Result<Loops<N>> {
    if nest.rank() > DIMS {
        return Err(Error::runtime(format!("indices on CUDA have at most {DIMS} separate dimensions")));
    }
    Ok(Loops::of(nest))
}
