//! Cumulative results along lines, and results of whole lines. The kernels are `lines.cuh`.

use rushlight_core::device_memory::StreamId;
use rushlight_core::{DType, Result};

use crate::card::Card;
use crate::launch::{Kind, Pointers, THREADS, argument, blocks, launch};
use crate::program::{Key, Program};

/// What is accumulated. The first dtype is that of the elements, the second that of the arithmetic.
#[derive(Clone, Copy)]
pub enum Accumulation {
    Sum {
        element: DType,
        compute: DType,
        sum: DType,
        result: DType,
    },
    Product {
        element: DType,
        compute: DType,
        sum: DType,
        result: DType,
    },
    LogSum {
        element: DType,
        compute: DType,
        sum: DType,
        result: DType,
    },
    /// The greatest or the least element, and the index of the first or the last of equal ones.
    Best {
        element: DType,
        compute: DType,
        up: bool,
        first: bool,
    },
    /// `x + factor * before`, with the factors as a second input.
    Recurrence {
        element: DType,
        compute: DType,
    },
}

impl Accumulation {
    /// The type in the source, and what distinguishes the program from others.
    fn source(self) -> (String, Key) {
        let name = |dtype: DType| Kind::Of(dtype).name();
        let code = |dtype: DType| Kind::Of(dtype).code();
        let sums = |title: &'static str, dtypes: [DType; 4]| {
            let [element, compute, sum, result] = dtypes.map(name);
            let codes = dtypes.map(code);
            let key = [codes[0], codes[1], codes[2], codes[3], 0, 0, 0, 0];
            (format!("{title}<{element}, {compute}, {sum}, {result}>"), (title, key))
        };
        match self {
            Accumulation::Sum { element, compute, sum, result } => {
                sums("CumulativeSum", [element, compute, sum, result])
            }
            Accumulation::Product { element, compute, sum, result } => {
                sums("CumulativeProduct", [element, compute, sum, result])
            }
            Accumulation::LogSum { element, compute, sum, result } => {
                sums("CumulativeLogSum", [element, compute, sum, result])
            }
            Accumulation::Best { element, compute, up, first } => {
                let key = [code(element), code(compute), u8::from(up), u8::from(first), 0, 0, 0, 0];
                (format!("Best<{}, {}, {up}, {first}>", name(element), name(compute)), ("Best", key))
            }
            Accumulation::Recurrence { element, compute } => {
                let key = [code(element), code(compute), 0, 0, 0, 0, 0, 0];
                (format!("Recurrence<{}, {}>", name(element), name(compute)), ("Recurrence", key))
            }
        }
    }
}

/// The shape of operands: `outer` blocks of `n` times `inner` elements.
#[derive(Clone, Copy)]
pub struct Shape {
    pub outer: usize,
    pub n: usize,
    pub inner: usize,
}

/// The longest line that one thread takes.
const SHORT: usize = 64;
const SERIAL: usize = 0;
const BLOCKS: usize = 1;

/// Accumulates lines that have elements. `operands` are two results, of which the first may be zero, and two inputs. With `each`
/// there is a result for every element, otherwise for every line.
///
/// # Safety
/// The operands are row-major, of this shape, and held for the stream.
pub unsafe fn accumulate(
    card: &Card,
    stream: StreamId,
    what: Accumulation,
    operands: [u64; 4],
    shape: Shape,
    each: bool,
) -> Result<()> {
    let (text, key) = what.source();
    let program = Program::find(card, key, &[c"serial", c"blocks"], || {
        format!(
            r#"#include "lines.cuh"
using namespace rushlight;
typedef rushlight::Lines<{text}> Rows;
extern "C" __global__ void serial(LineOperands operands, u64 lines, u64 n, u64 inner, u32 each) {{
    Rows::serial(operands, lines, n, inner, each);
}}
extern "C" __global__ void blocks(LineOperands operands, u64 lines, u64 n, u64 inner, u32 each) {{
    Rows::blocks(operands, lines, n, inner, each);
}}
"#
        )
    })?;
    let (mut pointers, mut lines) = (Pointers(operands), (shape.outer * shape.inner) as u64);
    let (mut n, mut inner, mut each) = (shape.n as u64, shape.inner as u64, u32::from(each));
    let mut arguments =
        [argument(&mut pointers), argument(&mut lines), argument(&mut n), argument(&mut inner), argument(&mut each)];
    let (kernel, work) = match shape.n <= SHORT {
        true => (SERIAL, lines),
        false => (BLOCKS, lines.saturating_mul(u64::from(THREADS))),
    };
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program.kernel(kernel), [blocks(card, work), 1], stream, &mut arguments) }
}
