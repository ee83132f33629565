//! Normalisation of groups of elements. The kernels are `normalize.cuh`.

use std::ffi::{CStr, c_void};

use rushlight_core::device_memory::StreamId;
use rushlight_core::{DType, Result};

use crate::card::Card;
use crate::launch::{ElementType, THREADS, WARP, argument, blocks, launch};
use crate::program::{Key, Program};
use crate::workspace::Workspace;

/// The elements as `samples` of `groups` of `channels`, each with a `run` of adjacent ones. A group of each sample has a mean and a
/// variance, or where samples are `pooled` a group of all of them. Without `centred` the mean counts as zero.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct View {
    pub samples: u64,
    pub groups: u64,
    pub channels: u64,
    pub run: u64,
    pub pooled: u32,
    pub centred: u32,
}

/// A normalisation of elements of a dtype, with statistics and parameters in the dtype of the arithmetic. Addresses are those of
/// row-major tensors; an absent weight or bias is zero.
#[derive(Clone, Copy)]
pub struct Normalize {
    pub view: View,
    pub eps: f64,
    pub dtype: DType,
    pub compute: DType,
    pub input: u64,
    pub weight: u64,
    pub bias: u64,
    pub mean: u64,
    pub variance: u64,
    /// The result, or the gradient of the input.
    pub out: u64,
}

/// The gradients of a result, of a weight and of a bias.
#[derive(Clone, Copy)]
pub struct Gradients {
    pub grad: u64,
    pub to_weight: u64,
    pub to_bias: u64,
}

/// The longest row that a warp takes.
const MEDIUM: u64 = 1024;
/// The longest row that a block takes alone. Where samples are pooled rows are few, and several blocks pay sooner.
const LONG: u64 = 1 << 14;
const LONG_OF_POOLED: u64 = 1 << 11;
/// The fewest elements of a piece, and how many pieces all rows together have at least.
const PIECE: u64 = 2048;
const PIECES: u64 = 1024;
const MOST_PIECES: u64 = 1024;

/// The parts of a kernel's source that a program may contain.
const KERNELS: [(&CStr, &str); 8] = [
    (c"forward_warps", "forward<WARP>()"),
    (c"forward_blocks", "forward<THREADS>()"),
    (c"forward_parts", "forward_parts(piece, (Moments<C>*)parts)"),
    (c"forward_joined", "forward_joined(piece, (const Moments<C>*)parts)"),
    (c"backward_warps", "backward<WARP>(to_weight, to_bias)"),
    (c"backward_blocks", "backward<THREADS>(to_weight, to_bias)"),
    (c"backward_parts", "backward_parts(piece, (Sums<C>*)parts)"),
    (c"backward_joined", "backward_joined(piece, (const Sums<C>*)parts, to_weight, to_bias)"),
];
const PARAMETERS: [(&CStr, &str); 2] = [
    (c"parameters", "parameters(piece, (Sums<C>*)parts)"),
    (c"join_parameters", "join_parameters(piece, (const Sums<C>*)parts, to_weight, to_bias)"),
];

impl Normalize {
    /// Writes the result, the means and the variances.
    ///
    /// # Safety
    /// The addresses are those of tensors that fit the view, and are held for the stream.
    pub unsafe fn forward(&self, card: &Card, stream: StreamId) -> Result<()> {
        let none = Gradients { grad: 0, to_weight: 0, to_bias: 0 };
        // SAFETY: guaranteed by the caller.
        unsafe { self.rows(card, stream, &none, &KERNELS[..4], 3) }
    }

    /// Writes the gradients of the input, of the weight and of the bias, from the means and the variances.
    ///
    /// # Safety
    /// As for `forward`; the gradients of parameters have room for all of them.
    pub unsafe fn backward(&self, card: &Card, stream: StreamId, gradients: &Gradients) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            self.rows(card, stream, gradients, &KERNELS[4..], 2)?;
            if self.view.pooled == 0 { self.parameters(card, stream, gradients) } else { Ok(()) }
        }
    }

    /// Rows and their length.
    fn shape(&self) -> [u64; 2] {
        let View { samples, groups, channels, run, pooled, .. } = self.view;
        if pooled == 0 { [samples * groups, channels * run] } else { [groups, samples * run] }
    }

    /// Runs a kernel for whole rows, or two for pieces of them, each of which has `numbers`.
    ///
    /// # Safety
    /// As for the callers.
    unsafe fn rows(
        &self,
        card: &Card,
        stream: StreamId,
        gradients: &Gradients,
        kernels: &'static [(&CStr, &str)],
        numbers: usize,
    ) -> Result<()> {
        let [rows, length] = self.shape();
        if length <= if self.view.pooled == 0 { LONG } else { LONG_OF_POOLED } {
            let (kernel, threads) = if length <= MEDIUM { (0, u64::from(WARP)) } else { (1, u64::from(THREADS)) };
            let grid = [blocks(card, rows.saturating_mul(threads)), 1];
            // SAFETY: guaranteed by the caller.
            return unsafe {
                self.launch(
                    card,
                    stream,
                    gradients,
                    &kernels[kernel..=kernel],
                    0,
                    [grid, grid],
                    std::ptr::null_mut(),
                    0,
                )
            };
        }
        let even = (rows.saturating_mul(length) / PIECES).max(PIECE);
        let piece = even.max(length.div_ceil(MOST_PIECES));
        let pieces = length.div_ceil(piece);
        let parts = Workspace::new(card.index, stream, (rows * pieces) as usize * numbers * self.compute.size())?;
        let grid = [blocks(card, rows.saturating_mul(u64::from(THREADS))), pieces as u32];
        // SAFETY: guaranteed by the caller; the parts have room for the numbers of each piece of a row.
        unsafe { self.launch(card, stream, gradients, &kernels[2..], piece, [grid, grid], parts.pointer(), piece) }
    }

    /// The gradients of weight and bias.
    ///
    /// # Safety
    /// As for `backward`.
    unsafe fn parameters(&self, card: &Card, stream: StreamId, gradients: &Gradients) -> Result<()> {
        let View { samples, groups, channels, .. } = self.view;
        let count = groups * channels;
        let piece = (count.div_ceil(u64::from(WARP)).saturating_mul(samples) / PIECES)
            .max(u64::from(WARP))
            .max(samples.div_ceil(MOST_PIECES));
        let pieces = samples.div_ceil(piece);
        let parts = Workspace::new(card.index, stream, (count * pieces) as usize * 2 * self.compute.size())?;
        let lanes = blocks(card, count.div_ceil(u64::from(WARP)).saturating_mul(u64::from(THREADS)));
        let grids = [[lanes, pieces as u32], [blocks(card, count), 1]];
        // SAFETY: guaranteed by the caller; the parts have room for two sums of each piece.
        unsafe { self.launch(card, stream, gradients, &PARAMETERS, piece, grids, parts.pointer(), pieces) }
    }

    /// Runs the kernels of a program one after the other; the second one has another `piece`.
    ///
    /// # Safety
    /// As for the callers; `parts` has room for what the kernels write there.
    unsafe fn launch(
        &self,
        card: &Card,
        stream: StreamId,
        gradients: &Gradients,
        kernels: &'static [(&'static CStr, &'static str)],
        piece: u64,
        grids: [[u32; 2]; 2],
        mut parts: *mut c_void,
        second: u64,
    ) -> Result<()> {
        let [element, compute] = [self.dtype, self.compute].map(ElementType::Of);
        let names: Vec<&CStr> = kernels.iter().map(|(name, _)| *name).collect();
        let title = names[0].to_str().unwrap_or("normalize");
        let program = Program::find(card, Key::new(title, [element.code(), compute.code()]), &names, || {
            source(element.name(), compute.name(), kernels)
        })?;
        let (mut view, mut eps) = (self.view, self.eps);
        let mut addresses = [
            self.input,
            gradients.grad,
            self.weight,
            self.bias,
            self.mean,
            self.variance,
            self.out,
            gradients.to_weight,
            gradients.to_bias,
        ];
        for (at, mut piece) in [piece, second].into_iter().enumerate().take(kernels.len()) {
            let mut arguments: Vec<*mut c_void> = vec![argument(&mut view), argument(&mut eps)];
            arguments.extend(addresses.iter_mut().map(argument));
            arguments.extend([argument(&mut piece), argument(&mut parts)]);
            // SAFETY: guaranteed by the caller; the arguments have the types of the program.
            unsafe { launch(card, program.kernel(at), grids[at], stream, &mut arguments)? };
        }
        Ok(())
    }
}

fn source(element: &str, compute: &str, kernels: &[(&CStr, &str)]) -> String {
    let mut text = format!(
        r#"#include "normalize.cuh"
#include "prelude.cuh"
using namespace rushlight;
typedef {compute} C;
"#
    );
    for (name, call) in kernels {
        text += &format!(
            r#"extern "C" __global__ void {name}(View view, f64 eps, const u8* input, const u8* grad, const C* weight, const C* bias, C* mean,
                                  C* variance, u8* out, C* to_weight, C* to_bias, u64 piece, void* parts) {{
    const Normalize<{element}, C> all{{view, C(eps), input, grad, weight, bias, mean, variance, out}};
    all.{call};
}}
"#,
            name = name.to_str().unwrap_or_default(),
        );
    }
    text
}
