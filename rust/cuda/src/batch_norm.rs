//! Normalisation of channels over a batch, and its gradient. The kernels are `batch_norm.cuh`.

use rushlight_core::device_memory::StreamId;
use rushlight_core::{DType, Error, Result};

use crate::card::Card;
use crate::kernels::type_name;
use crate::launch::{Kind, argument, launch};
use crate::memory;
use crate::program::{Key, Program};

/// The elements of a channel: a run of each sample, between which lie the runs of the other channels.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Groups {
    groups: u64,
    run: u64,
    count: u64,
    pieces: u64,
}

/// The elements of a piece of adjacent groups, and the most pieces of a group.
const PIECE: u64 = 8192;
const MOST_PIECES: u64 = 64;
/// The adjacent groups that a block takes, if their elements are adjacent.
const LANES: u64 = 32;

/// The operands of a normalisation, as addresses; 0 for a missing parameter. Parameters and statistics have the dtype of sums.
pub struct Forward {
    pub out: u64,
    pub input: u64,
    pub weight: u64,
    pub bias: u64,
    pub mean: u64,
    pub variance: u64,
}

/// The operands of the gradient, as addresses.
pub struct Backward {
    pub to_input: u64,
    pub grad: u64,
    pub input: u64,
    pub mean: u64,
    pub variance: u64,
    pub weight: u64,
    pub to_weight: u64,
    pub to_bias: u64,
}

impl Groups {
    pub fn new(samples: usize, groups: usize, run: usize) -> Groups {
        let mut own = Groups { groups: groups as u64, run: run as u64, count: (samples * run) as u64, pieces: 1 };
        own.pieces = (own.count * own.lanes()).div_ceil(PIECE).clamp(1, MOST_PIECES);
        own
    }

    fn lanes(&self) -> u64 {
        if self.run == 1 { LANES } else { 1 }
    }

    fn grid(&self) -> Result<[u32; 2]> {
        let blocks = u32::try_from(self.groups.div_ceil(self.lanes())).ok().filter(|&blocks| blocks <= i32::MAX as u32);
        let blocks = blocks.ok_or_else(|| Error::runtime("there are too many channels for one launch"))?;
        Ok([blocks, self.pieces as u32])
    }

    /// The types of a program: that of elements, that of sums, an integer that counts all elements, and the lanes.
    fn types(&self, dtype: DType, sum: DType) -> (String, [u8; 3]) {
        let wide = self.groups.saturating_mul(self.count) >= i32::MAX as u64;
        let index = if wide { "u64" } else { "u32" };
        let text = format!("{}, {}, {index}, {}", type_name(dtype), type_name(sum), self.lanes());
        (text, [Kind::Of(dtype).code(), u8::from(wide), self.lanes() as u8])
    }

    fn key(name: &'static str, [element, wide, lanes]: [u8; 3]) -> Key {
        (name, [element, wide, lanes, 0, 0, 0, 0, 0])
    }

    /// Memory for two sums of each piece.
    fn workspace(&self, card: &Card, sum: DType) -> Result<(rushlight_core::Storage, u64)> {
        let half = self.groups * self.pieces * sum.size() as u64;
        Ok((memory::allocate(card.index, 2 * half as usize)?, half))
    }

    /// Enqueues a normalisation of elements of one dtype, which are summed in another.
    ///
    /// # Safety
    /// The operands are row-major, have the sizes of these groups, and are held for the stream.
    pub unsafe fn normalise(
        mut self,
        card: &Card,
        stream: StreamId,
        [dtype, sum]: [DType; 2],
        mut own: Forward,
        centred: bool,
        mut eps: f64,
    ) -> Result<()> {
        let (types, codes) = self.types(dtype, sum);
        let names = [c"sums", c"squares", c"normalise", c"whole"];
        let program = Program::find(card, Groups::key("batch_norm", codes), &names, || source(dtype, sum, &types))?;
        let (grid, mut centred) = (self.grid()?, u32::from(centred));
        // Freed when the function returns: later work of the stream comes after the kernels.
        let (space, half) = self.workspace(card, sum)?;
        let pin = space.pin_on(stream)?;
        let mut sums = pin.address() as u64;
        let mut squares = sums + half;
        let groups = argument(&mut self);
        let [out, input] = [&mut own.out, &mut own.input].map(argument);
        let [weight, bias] = [&mut own.weight, &mut own.bias].map(argument);
        let [mean, variance] = [&mut own.mean, &mut own.variance].map(argument);
        let [sums, squares] = [&mut sums, &mut squares].map(argument);
        let (centred, eps) = (argument(&mut centred), argument(&mut eps));
        // SAFETY: guaranteed by the caller; the arguments have the types of the program that `source` writes.
        unsafe {
            if grid[1] == 1 {
                let mut arguments = [groups, out, input, weight, bias, mean, variance, centred, eps];
                return launch(card, program.kernel(3), grid, stream, &mut arguments);
            }
            launch(card, program.kernel(0), grid, stream, &mut [groups, input, sums])?;
            launch(card, program.kernel(1), grid, stream, &mut [groups, input, sums, squares, centred])?;
            let mut arguments = [groups, out, input, weight, bias, sums, squares, mean, variance, centred, eps];
            launch(card, program.kernel(2), grid, stream, &mut arguments)
        }
    }

    /// Enqueues the gradients of the elements and of both parameters.
    ///
    /// # Safety
    /// As `normalise`.
    pub unsafe fn gradients(
        mut self,
        card: &Card,
        stream: StreamId,
        [dtype, sum]: [DType; 2],
        mut own: Backward,
        centred: bool,
        mut eps: f64,
    ) -> Result<()> {
        let (types, codes) = self.types(dtype, sum);
        let names = [c"gradient_sums", c"gradient"];
        let key = Groups::key("batch_norm_backward", codes);
        let program = Program::find(card, key, &names, || gradient_source(dtype, sum, &types))?;
        let (grid, mut centred) = (self.grid()?, u32::from(centred));
        let (space, half) = self.workspace(card, sum)?;
        let pin = space.pin_on(stream)?;
        let mut sums = pin.address() as u64;
        let mut products = sums + half;
        let groups = argument(&mut self);
        let [out, grad, input] = [&mut own.to_input, &mut own.grad, &mut own.input].map(argument);
        let [mean, variance, weight] = [&mut own.mean, &mut own.variance, &mut own.weight].map(argument);
        let [to_weight, to_bias] = [&mut own.to_weight, &mut own.to_bias].map(argument);
        let [sums, products] = [&mut sums, &mut products].map(argument);
        let (centred, eps) = (argument(&mut centred), argument(&mut eps));
        // SAFETY: guaranteed by the caller; the arguments have the types of the program that `gradient_source` writes.
        unsafe {
            let mut arguments = [groups, grad, input, mean, variance, sums, products, centred, eps];
            launch(card, program.kernel(0), grid, stream, &mut arguments)?;
            let mut arguments =
                [groups, out, grad, input, mean, variance, weight, sums, products, to_weight, to_bias, centred, eps];
            launch(card, program.kernel(1), grid, stream, &mut arguments)
        }
    }
}

fn source(dtype: DType, sum: DType, types: &str) -> String {
    let (t, a) = (type_name(dtype), type_name(sum));
    format!(
        r#"#include "batch_norm.cuh"
using namespace rushlight;
typedef BatchNorm<{types}> Norm;
extern "C" __global__ void sums(Groups groups, const {t}* input, {a}* sums) {{ Norm::sums(groups, input, sums); }}
extern "C" __global__ void squares(Groups groups, const {t}* input, const {a}* sums, {a}* squares, u32 centred) {{
    Norm::squares(groups, input, sums, squares, centred);
}}
extern "C" __global__ void normalise(Groups groups, {t}* out, const {t}* input, const {a}* weight, const {a}* bias, const {a}* sums,
                                     const {a}* squares, {a}* means, {a}* variances, u32 centred, f64 eps) {{
    Norm::normalise(groups, out, input, weight, bias, sums, squares, means, variances, centred, {a}(eps));
}}
extern "C" __global__ void whole(Groups groups, {t}* out, const {t}* input, const {a}* weight, const {a}* bias, {a}* means,
                                 {a}* variances, u32 centred, f64 eps) {{
    Norm::whole(groups, out, input, weight, bias, means, variances, centred, {a}(eps));
}}
"#
    )
}

fn gradient_source(dtype: DType, sum: DType, types: &str) -> String {
    let (t, a) = (type_name(dtype), type_name(sum));
    format!(
        r#"#include "batch_norm.cuh"
using namespace rushlight;
typedef BatchNorm<{types}> Norm;
extern "C" __global__ void gradient_sums(Groups groups, const {t}* grad, const {t}* input, const {a}* means, const {a}* variances,
                                         {a}* sums, {a}* products, u32 centred, f64 eps) {{
    Norm::gradient_sums(groups, grad, input, means, variances, sums, products, centred, {a}(eps));
}}
extern "C" __global__ void gradient(Groups groups, {t}* out, const {t}* grad, const {t}* input, const {a}* means,
                                    const {a}* variances, const {a}* weight, const {a}* sums, const {a}* products, {a}* to_weight,
                                    {a}* to_bias, u32 centred, f64 eps) {{
    Norm::gradient(groups, out, grad, input, means, variances, weight, sums, products, to_weight, to_bias, centred, {a}(eps));
}}
"#
    )
}
