//! Attention without the matrix of scores. The kernels are `attention.cuh`, and in half precision `attention_half.cuh` and
//! `attention_half_gradients.cuh`.

use rushlight_core::device_memory::StreamId;
use rushlight_core::loop_nest::LoopNest;
use rushlight_core::{DType, Error, Result};

use crate::card::Card;
use crate::kernels::type_name;
use crate::launch::{DIMS, ElementType, Loops, THREADS, argument, launch_with};
use crate::program::{Key, Program};

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
/// The queries or keys of a block (`SQUARE` in the kernel), and the distance between a thread's columns (`APART`).
const SQUARE: u64 = 64;
const APART: u64 = 16;
/// The queries or keys of a block in half precision (`BLOCK_ROWS` in `half_tiles.cuh`).
const BLOCK_ROWS: u64 = 128;
/// The most queries and keys of these kernels, with room for a block.
const MOST_OF_HALVES: u64 = (1 << 30) - BLOCK_ROWS;
const MOST_BATCHES: usize = 65535;
/// The bytes that a copy to shared memory takes.
const PACK: u64 = 16;

/// The kernels of a call.
#[derive(Clone, Copy)]
enum Kernel {
    Forward,
    OfQueries,
    OfKeys,
}

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

    /// Whether the kernels for half precision take the call: cards have their instructions since compute capability 8.0.
    fn halves(&self, card: &Card) -> bool {
        let most = self.sizes.queries.max(self.sizes.keys);
        let blocks = most.div_ceil(BLOCK_ROWS).saturating_mul(self.batch.numel() as u64);
        matches!(self.dtype, DType::F16 | DType::BF16)
            && card.properties.major >= 8
            && most <= MOST_OF_HALVES
            && blocks <= i32::MAX as u64
    }

    /// Widths in units of 16 elements, for which there are kernels.
    fn columns(&self) -> u64 {
        self.sizes.width.max(self.sizes.depth).div_ceil(APART)
    }

    /// How many matrices of rows a warp has in half precision (`DEEP` in `half_tiles.cuh`): two where registers have room for both, for their
    /// sums, and for the addresses of a mask or of single elements. With two, a block has half as many threads.
    fn deep(&self, kernel: Kernel) -> u32 {
        let widest = match (kernel, self.mask) {
            (Kernel::Forward, None) if self.packed() => 8,
            (Kernel::Forward, _) => 6,
            (Kernel::OfQueries, _) => 4,
            (Kernel::OfKeys, _) => 3,
        };
        if self.columns() <= widest { 2 } else { 1 }
    }

    /// Whether rows are copied in packs of 16 bytes.
    fn packed(&self) -> bool {
        let (sizes, operands) = (&self.sizes, &self.operands);
        let is_whole = |bytes: u64| bytes.is_multiple_of(PACK);
        let element = self.dtype.size() as u64;
        let [query, key, value, _, grad] = std::array::from_fn(|n| {
            let steps = (0..self.batch.rank()).map(|dim| self.batch.strides(dim)[n]);
            operands.columns[n] == element as i64
                && is_whole(operands.at[n].wrapping_add_signed(self.batch.bases()[n] as i64))
                && is_whole(operands.rows[n].unsigned_abs())
                && steps.into_iter().all(|step| is_whole(step.unsigned_abs() as u64))
        });
        query && key && value && grad && is_whole(sizes.width * element) && is_whole(sizes.depth * element)
    }

    /// The kernel of the results, or those of the gradients.
    fn program(&self, card: &Card, gradients: bool) -> Result<Program> {
        let columns = self.columns();
        let mask = self.mask.map_or(u8::MAX, |mask| ElementType::Of(mask).code());
        let (halves, packed) = (self.halves(card), self.packed());
        let kind = if halves { 1 + u8::from(packed) } else { 0 };
        let codes = [ElementType::Of(self.dtype).code(), mask, columns as u8, kind, u8::from(gradients)];
        let names: &[_] = if gradients { &[c"of_queries", c"of_keys"] } else { &[c"forward"] };
        Program::find(card, Key::new("attention", codes), names, || {
            let kernel = if halves { "attention_half" } else { "attention" };
            let types = format!("{}, {}, {columns}", type_name(self.dtype), self.mask.map_or("Unmasked", type_name));
            // The bounds of a kernel, and its variant.
            let parts = |kernel| {
                if !halves {
                    return ("THREADS, 1".into(), types.clone());
                }
                let deep = self.deep(kernel);
                (format!("HALF_THREADS<{deep}>, {deep}"), format!("{types}, {deep}, {packed}"))
            };
            if gradients {
                let header = if halves { "attention_half_gradients" } else { "attention" };
                let [(of_queries, queries), (of_keys, keys)] = [Kernel::OfQueries, Kernel::OfKeys].map(parts);
                format!(
                    r#"#include "{header}.cuh"
using namespace rushlight;
extern "C" __global__ void __launch_bounds__({of_queries}) of_queries(AttentionOperands operands, Loops<5> batch, u64 batches,
                                                                      AttentionSizes sizes, const f32* sums, const f32* means, u8* out) {{
    {kernel}_of_queries<{queries}>(operands, batch, batches, sizes, sums, means, out);
}}
extern "C" __global__ void __launch_bounds__({of_keys}) of_keys(AttentionOperands operands, Loops<5> batch, u64 batches,
                                                                AttentionSizes sizes, const f32* sums, const f32* means,
                                                                u8* of_keys, u8* of_values) {{
    {kernel}_of_keys<{keys}>(operands, batch, batches, sizes, sums, means, of_keys, of_values);
}}
"#
                )
            } else {
                let (bounds, arguments) = parts(Kernel::Forward);
                format!(
                    r#"#include "{kernel}.cuh"
using namespace rushlight;
extern "C" __global__ void __launch_bounds__({bounds}) forward(AttentionOperands operands, Loops<5> batch, u64 batches,
                                                              AttentionSizes sizes, u8* out, f32* sums) {{
    {kernel}<{arguments}>(operands, batch, batches, sizes, out, sums);
}}
"#
                )
            }
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

    /// The blocks for that many queries or keys, and their threads.
    fn grid(&self, card: &Card, rows: u64, kernel: Kernel) -> ([u32; 2], u32) {
        let batches = self.batch.numel();
        if self.halves(card) {
            ([(rows.div_ceil(BLOCK_ROWS) * batches as u64) as u32, 1], THREADS / self.deep(kernel))
        } else {
            ([rows.div_ceil(SQUARE) as u32, batches.min(MOST_BATCHES) as u32], THREADS)
        }
    }

    /// Enqueues the results, and the logarithms of the sums of exponentials in `f32`.
    ///
    /// # Safety
    /// The operands at all places of the batch stay within memory that is held for the stream. The results are row-major, and held
    /// likewise.
    pub unsafe fn forward(&self, card: &Card, stream: StreamId, [mut out, mut sums]: [u64; 2]) -> Result<()> {
        let mut operands = self.first()?;
        let (program, mut loops, mut batches) =
            (self.program(card, false)?, Loops::of(self.batch), self.batch.numel() as u64);
        let mut sizes = self.sizes;
        let (grid, threads) = self.grid(card, sizes.queries, Kernel::Forward);
        let mut arguments = [
            argument(&mut operands),
            argument(&mut loops),
            argument(&mut batches),
            argument(&mut sizes),
            argument(&mut out),
            argument(&mut sums),
        ];
        // SAFETY: guaranteed by the caller; the arguments have the types of the program.
        unsafe { launch_with(card, program.kernel(0), grid, threads, stream, &mut arguments) }
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
        let (program, mut loops, mut batches) =
            (self.program(card, true)?, Loops::of(self.batch), self.batch.numel() as u64);
        let mut sizes = self.sizes;
        let [(queries, of_queries_threads), (keys, of_keys_threads)] =
            [(sizes.queries, Kernel::OfQueries), (sizes.keys, Kernel::OfKeys)]
                .map(|(rows, kernel)| self.grid(card, rows, kernel));
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
        unsafe { launch_with(card, program.kernel(0), queries, of_queries_threads, stream, &mut arguments)? };
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
        unsafe { launch_with(card, program.kernel(1), keys, of_keys_threads, stream, &mut arguments) }
    }
}
