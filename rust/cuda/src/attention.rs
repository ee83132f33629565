//! Attention without the matrix of scores. The kernels are `attention.cuh`, and `attention_half.cuh` for the results in half
//! precision.

use rushlight_core::device_memory::StreamId;
use rushlight_core::loop_nest::LoopNest;
use rushlight_core::{DType, Error, Result};

use crate::card::Card;
use crate::kernels::type_name;
use crate::launch::{DIMS, Kind, Loops, argument, launch};
use crate::program::Program;

/// The first bytes of query, key, value, mask and gradient, and the distances in bytes between their rows and columns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Operands {
    pub at: [u64; 5],
    pub rows: [i64; 5],
    pub columns: [i64; 5],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Sizes {
    pub queries: u64,
    pub keys: u64,
    /// Of queries and keys, and of values.
    pub width: u64,
    pub depth: u64,
    pub scale: f32,
    pub causal: u32,
}

/// The widest queries and values.
pub const WIDEST: u64 = 128;
/// The queries or keys of a block (`SQUARE` in the kernel), and the distance between a thread's columns (`SIDE`).
const SQUARE: u64 = 64;
const SIDE: u64 = 16;
/// The queries of a block in `attention_half.cuh`.
const BLOCK_QUERIES: u64 = 128;
/// The most queries, keys and blocks that it takes, with room for a block.
const MOST_OF_HALVES: u64 = i32::MAX as u64 - BLOCK_QUERIES;
const MOST_BATCHES: usize = 65535;

/// A call: its operands, the places of its batch, and the dtype of the mask.
pub struct Attention<'a> {
    pub dtype: DType,
    pub mask: Option<DType>,
    pub operands: Operands,
    pub sizes: Sizes,
    pub batch: &'a LoopNest<5>,
}

impl Attention<'_> {
    /// Whether the kernels take the call.
    pub fn fits(&self) -> bool {
        let sizes = &self.sizes;
        self.dtype.compute() == DType::F32
            && (1..=WIDEST).contains(&sizes.width)
            && (1..=WIDEST).contains(&sizes.depth)
            && self.mask.is_none_or(|mask| mask == DType::Bool || (mask.is_floating() && !mask.is_float8()))
            && self.batch.rank() <= DIMS
            && sizes.queries.max(sizes.keys).div_ceil(SQUARE) <= i32::MAX as u64
    }

    /// The blocks of `attention_half.cuh`, if it takes the call: cards have its instructions since compute capability 8.0.
    fn blocks_of_halves(&self, card: &Card) -> Option<u32> {
        let sizes = &self.sizes;
        let blocks = sizes.queries.div_ceil(BLOCK_QUERIES).saturating_mul(self.batch.numel() as u64);
        let takes = matches!(self.dtype, DType::F16 | DType::BF16)
            && card.properties.major >= 8
            && sizes.queries.max(sizes.keys).max(blocks) <= MOST_OF_HALVES;
        takes.then_some(blocks as u32)
    }

    fn program(&self, card: &Card) -> Result<Program> {
        let columns = self.sizes.width.max(self.sizes.depth).div_ceil(SIDE);
        let mask = self.mask.map_or(u8::MAX, |mask| Kind::Of(mask).code());
        let halves = self.blocks_of_halves(card).is_some();
        let key = [Kind::Of(self.dtype).code(), mask, columns as u8, u8::from(halves), 0, 0, 0, 0];
        Program::find(card, ("attention", key), &[c"forward", c"of_queries", c"of_keys"], || {
            let (element, mask) = (type_name(self.dtype), self.mask.map_or("Unmasked", type_name));
            let (forward, bounds) = if halves {
                ("attention_half", format!("THREADS, HALF_BLOCKS<{mask}, {columns}>"))
            } else {
                ("attention", "THREADS".to_owned())
            };
            format!(
                r#"#include "{forward}.cuh"
using namespace rushlight;
extern "C" __global__ void __launch_bounds__({bounds}) forward(AttentionOperands operands, Loops<5> batch, u64 batches,
                                                               AttentionSizes sizes, u8* out, f32* sums) {{
    {forward}<{element}, {mask}, {columns}>(operands, batch, batches, sizes, out, sums);
}}
extern "C" __global__ void of_queries(AttentionOperands operands, Loops<5> batch, u64 batches, AttentionSizes sizes,
                                      const f32* sums, const f32* means, u8* out) {{
    attention_of_queries<{element}, {mask}, {columns}>(operands, batch, batches, sizes, sums, means, out);
}}
extern "C" __global__ void of_keys(AttentionOperands operands, Loops<5> batch, u64 batches, AttentionSizes sizes,
                                   const f32* sums, const f32* means, u8* of_keys, u8* of_values) {{
    attention_of_keys<{element}, {mask}, {columns}>(operands, batch, batches, sizes, sums, means, of_keys, of_values);
}}
"#
            )
        })
    }

    /// The operands with the offsets of the batch's first place.
    fn first(&self) -> Result<Operands> {
        if !self.fits() {
            return Err(Error::runtime("the kernels do not take this attention"));
        }
        let mut operands = self.operands;
        for (first, offset) in operands.at.iter_mut().zip(self.batch.bases()) {
            *first = first.wrapping_add_signed(offset as i64);
        }
        Ok(operands)
    }

    fn grid(&self, rows: u64) -> [u32; 2] {
        [rows.div_ceil(SQUARE) as u32, self.batch.numel().min(MOST_BATCHES) as u32]
    }

    /// Enqueues the results, and the logarithms of the sums of exponentials in `f32`.
    ///
    /// # Safety
    /// The operands at all places of the batch stay within memory that is held for the stream. The results are row-major, and held
    /// likewise.
    pub unsafe fn forward(&self, card: &Card, stream: StreamId, [mut out, mut sums]: [u64; 2]) -> Result<()> {
        let mut operands = self.first()?;
        let (program, mut loops, mut batches) = (self.program(card)?, Loops::of(self.batch), self.batch.numel() as u64);
        let mut sizes = self.sizes;
        let grid = self.blocks_of_halves(card).map_or_else(|| self.grid(sizes.queries), |blocks| [blocks, 1]);
        let mut arguments = [
            argument(&mut operands),
            argument(&mut loops),
            argument(&mut batches),
            argument(&mut sizes),
            argument(&mut out),
            argument(&mut sums),
        ];
        // SAFETY: guaranteed by the caller; the arguments have the types of the program.
        unsafe { launch(card, program.kernel(0), grid, stream, &mut arguments) }
    }

    /// Enqueues the gradients of queries, keys and values, from the logarithms of the sums and the sums of the products of results
    /// and their gradients.
    ///
    /// # Safety
    /// Same as for `forward`; sums are row-major in `f32`.
    pub unsafe fn backward(
        &self,
        card: &Card,
        stream: StreamId,
        [mut sums, mut means]: [u64; 2],
        [mut of_queries, mut of_keys, mut of_values]: [u64; 3],
    ) -> Result<()> {
        let mut operands = self.first()?;
        let (program, mut loops, mut batches) = (self.program(card)?, Loops::of(self.batch), self.batch.numel() as u64);
        let mut sizes = self.sizes;
        let (queries, keys) = (self.grid(sizes.queries), self.grid(sizes.keys));
        let mut arguments = [
            argument(&mut operands),
            argument(&mut loops),
            argument(&mut batches),
            argument(&mut sizes),
            argument(&mut sums),
            argument(&mut means),
            argument(&mut of_queries),
        ];
        // SAFETY: guaranteed by the caller; the arguments have the types of the program.
        unsafe { launch(card, program.kernel(1), queries, stream, &mut arguments)? };
        let mut arguments = [
            argument(&mut operands),
            argument(&mut loops),
            argument(&mut batches),
            argument(&mut sizes),
            argument(&mut sums),
            argument(&mut means),
            argument(&mut of_keys),
            argument(&mut of_values),
        ];
        // SAFETY: see above.
        unsafe { launch(card, program.kernel(2), keys, stream, &mut arguments) }
    }
}
