//! Distances between the rows of matrices, and their gradients. The kernels are `distance.cuh`.

use rushlight_core::device_memory::StreamId;
use rushlight_core::{DType, Result};

use crate::card::Card;
use crate::kernels::type_name;
use crate::launch::{ElementType, argument, blocks, launch};
use crate::program::{Key, Program};

/// How the differences of two rows become their distance: torch's `p` is 0, 1, 2 or infinite.
#[derive(Clone, Copy)]
pub enum Norm {
    Count,
    Sum,
    Euclid,
    Greatest,
}

impl Norm {
    /// The rule in the source.
    fn name(self) -> &'static str {
        match self {
            Norm::Count => "CountNorm",
            Norm::Sum => "SumNorm",
            Norm::Euclid => "EuclidNorm",
            Norm::Greatest => "GreatestNorm",
        }
    }
}

/// Matrices of `rows` and of `others` rows, which are `width` long.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PairSizes {
    pub batch: u64,
    pub rows: u64,
    pub others: u64,
    pub width: u64,
}

/// Floats of 32 or 64 bits.
fn program(card: &Card, norm: Norm, dtype: DType) -> Result<Program> {
    let key = Key::new(norm.name(), [ElementType::Of(dtype).code()]);
    Program::find(card, key, &[c"between", c"gradient"], || {
        let (norm, element) = (norm.name(), type_name(dtype));
        format!(
            r#"#include "distance.cuh"
using namespace rushlight;
extern "C" __global__ void between(const {element}* rows, const {element}* columns, {element}* out, u64 count, PairSizes sizes,
                                   u32 pairs) {{
    distances<{norm}>(rows, columns, out, count, sizes, pairs);
}}
extern "C" __global__ void gradient(const {element}* weights, const {element}* rows, const {element}* columns,
                                    const {element}* distances, {element}* out, u64 count, PairSizes sizes, u32 pairs) {{
    slopes<{norm}>(weights, rows, columns, distances, out, count, sizes, pairs);
}}
"#
        )
    })
}

/// Enqueues the distance of each row from each other row of its matrix, which is transposed, or with `pairs` from each row after it.
///
/// # Safety
/// The operands are row-major, of these sizes and of the dtype, and held for the stream.
pub unsafe fn between(
    card: &Card,
    stream: StreamId,
    (norm, dtype): (Norm, DType),
    [mut rows, mut columns, mut out]: [u64; 3],
    mut sizes: PairSizes,
    pairs: bool,
) -> Result<()> {
    let program = program(card, norm, dtype)?;
    let (mut count, mut pairs) = (sizes.batch * sizes.rows * sizes.others, u32::from(pairs));
    let mut arguments = [
        argument(&mut rows),
        argument(&mut columns),
        argument(&mut out),
        argument(&mut count),
        argument(&mut sizes),
        argument(&mut pairs),
    ];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program.kernel(0), [blocks(card, count), 1], stream, &mut arguments) }
}

/// Enqueues the gradients of rows from weights, rows, transposed others and distances.
///
/// # Safety
/// Same as for `between`.
pub unsafe fn gradient(
    card: &Card,
    stream: StreamId,
    (norm, dtype): (Norm, DType),
    mut operands: [u64; 4],
    mut out: u64,
    mut sizes: PairSizes,
    pairs: bool,
) -> Result<()> {
    let program = program(card, norm, dtype)?;
    let (mut count, mut pairs) = (sizes.batch * sizes.rows * sizes.width, u32::from(pairs));
    let [weights, rows, columns, distances] = &mut operands;
    let mut arguments = [
        argument(weights),
        argument(rows),
        argument(columns),
        argument(distances),
        argument(&mut out),
        argument(&mut count),
        argument(&mut sizes),
        argument(&mut pairs),
    ];
    let work = count.saturating_mul(32);
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program.kernel(1), [blocks(card, work), 1], stream, &mut arguments) }
}
