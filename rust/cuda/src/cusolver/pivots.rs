//! The orders of rows that exchanges of rows make. The kernel is `pivots.cuh`.

use rushlight_core::Result;
use rushlight_core::device_memory::StreamId;

use crate::card::Card;
use crate::launch::{argument, blocks, launch};
use crate::program::{Key, Program};

/// Enqueues the orders of `size` rows of each matrix, as integers of 64 bits, from `steps` pivots of 32 bits, which count from one. An
/// inverse order tells where each row goes to. The eight bytes at `outside` become the first position of a pivot out of range; if it is
/// zero, such a pivot stops the device.
///
/// # Safety
/// The pivots and the orders are row-major, and held for the stream, as `outside` is.
pub unsafe fn orders(
    card: &Card,
    stream: StreamId,
    [mut pivots, mut to]: [u64; 2],
    [count, steps, size]: [usize; 3],
    inverse: bool,
    mut outside: u64,
) -> Result<()> {
    let program = Program::find(card, Key::new("pivots", []), &[c"orders"], || {
        r#"#include "pivots.cuh"
using namespace rushlight;
extern "C" __global__ void orders(const i32* pivots, i64* to, u64 count, u64 steps, u64 size, u32 inverse, u64* outside) {
    exchange_rows(pivots, to, count, steps, size, inverse, outside);
}
"#
        .into()
    })?;
    let [mut count, mut steps, mut size] = [count as u64, steps as u64, size as u64];
    let mut inverse = u32::from(inverse);
    let mut arguments = [
        argument(&mut pivots),
        argument(&mut to),
        argument(&mut count),
        argument(&mut steps),
        argument(&mut size),
        argument(&mut inverse),
        argument(&mut outside),
    ];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program.kernel(0), [blocks(card, count), 1], stream, &mut arguments) }
}
