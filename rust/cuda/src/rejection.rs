//! Random numbers by rejection, on streams of their own: the numbers are not torch's. The kernels are `rejection.cuh`.

use rushlight_core::device_memory::StreamId;
use rushlight_core::loop_nest::LoopNest;
use rushlight_core::{DType, Result};

use crate::card::Card;
use crate::kernels::type_name;
use crate::launch::{ElementType, Pointers, argument, blocks, launch};
use crate::program::{Key, Program};
use crate::random::{Place, checked};

#[derive(Clone, Copy, Debug)]
pub enum Rejection {
    StandardGamma,
    Poisson,
    Binomial,
}

impl Rejection {
    /// How far a call moves its generator, as in torch.
    pub fn words(self) -> u64 {
        match self {
            Rejection::StandardGamma => 12,
            Rejection::Poisson => 20,
            Rejection::Binomial => 44,
        }
    }
}

/// Draws each element for its parameters. The operands of the nest are the result and two parameters, of its dtype; a distribution
/// of one parameter does not use the second one. The eight bytes at `outside` become the first element whose parameter is refused.
///
/// # Safety
/// The nest stays within the operands, which are held for the stream, as `outside` is.
pub unsafe fn draw(
    card: &Card,
    stream: StreamId,
    what: Rejection,
    dtype: DType,
    operands: [u64; 3],
    nest: &LoopNest<3>,
    mut place: Place,
    mut outside: u64,
) -> Result<()> {
    let mut loops = checked(nest)?;
    let key = Key::new("rejection", [ElementType::Of(dtype).code(), what as u8]);
    let program = Program::find(card, key, &[c"fill"], || {
        let (name, element) = (format!("{what:?}"), type_name(dtype));
        format!(
            r#"#include "rejection.cuh"
using namespace rushlight;
extern "C" __global__ void fill(Pointers<3> operands, u64 count, Loops<3> loops, random::Place place, u64* outside) {{
    random::reject<random::{name}, {element}>(operands, count, loops, place, outside);
}}
"#
        )
    })?;
    let mut count = nest.numel() as u64;
    let bases = nest.bases();
    let mut pointers: Pointers<3> = Pointers(std::array::from_fn(|n| operands[n].wrapping_add_signed(bases[n] as i64)));
    let mut arguments = [
        argument(&mut pointers),
        argument(&mut count),
        argument(&mut loops),
        argument(&mut place),
        argument(&mut outside),
    ];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program.kernel(0), [blocks(card, count), 1], stream, &mut arguments) }
}
