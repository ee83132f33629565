//! Steps of optimizers over a parameter, its gradient and its state. The kernels are `optimizer.cuh`.

use rushlight_core::device_memory::StreamId;
use rushlight_core::{DType, Result};

use crate::card::Card;
use crate::kernels::type_name;
use crate::launch::{ElementType, Numbers, argument, blocks, launch};
use crate::program::{Key, Program};

/// What a step does besides (`MAXIMIZES` and the others in the kernel).
#[derive(Clone, Copy, Default)]
pub struct Flags {
    pub maximizes: bool,
    pub decays: bool,
    pub first: bool,
    pub nesterov: bool,
}

impl Flags {
    fn bits(self) -> u32 {
        [self.maximizes, self.decays, self.first, self.nesterov]
            .iter()
            .enumerate()
            .map(|(n, &is_set)| u32::from(is_set) << n)
            .sum()
    }
}

/// Which rule makes the step, and so which tensors it takes.
#[derive(Clone, Copy)]
pub enum Algorithm {
    /// The state is a buffer.
    Sgd,
    /// The state are the mean, the mean square and the largest mean square.
    Adam,
}

/// Enqueues a step for `count` elements. `tensors` are the addresses of the parameter, the gradient and the state, 0 for what is
/// missing. `numbers` have the bits of the dtype of the arithmetic.
///
/// # Safety
/// The tensors are those of the algorithm. They have so many elements in the same order, are held for the stream, and do not overlap each other.
pub unsafe fn step<const N: usize>(
    card: &Card,
    stream: StreamId,
    algorithm: Algorithm,
    dtype: DType,
    mut tensors: [u64; N],
    mut count: u64,
    numbers: &[[u64; 2]],
    flags: Flags,
) -> Result<()> {
    let (name, parameters, values) = match algorithm {
        Algorithm::Sgd => ("sgd", "T* param, const T* grad, T* buffer", "param, grad, buffer"),
        Algorithm::Adam => {
            ("adam", "T* param, const T* grad, T* mean, T* square, T* largest", "param, grad, mean, square, largest")
        }
    };
    let program = Program::find(card, Key::new(name, [ElementType::Of(dtype).code()]), &[c"step"], || {
        let (element, sum) = (type_name(dtype), type_name(dtype.compute()));
        format!(
            r#"#include "optimizer.cuh"
using namespace rushlight;
typedef {element} T;
extern "C" __global__ void step({parameters}, u64 count, Numbers numbers, u32 flags) {{
    {name}<T, {sum}>({values}, count, numbers, flags);
}}
"#
        )
    })?;
    let mut numbers = Numbers::new(numbers, std::iter::empty())?;
    let mut flags = flags.bits();
    let grid = [blocks(card, count), 1];
    let mut arguments: Vec<_> = tensors.iter_mut().map(argument).collect();
    arguments.extend([argument(&mut count), argument(&mut numbers), argument(&mut flags)]);
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program.kernel(0), grid, stream, &mut arguments) }
}
