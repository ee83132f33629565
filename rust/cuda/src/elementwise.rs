//! Kernels that compute one element from one element of each operand: operators, conversions, copies, fills. The skeleton is
//! `elementwise.cuh`.

use std::fmt::Write;

use rushlight_core::device_memory::StreamId;
use rushlight_core::loop_nest::LoopNest;
use rushlight_core::{DType, Result};

use crate::card::Card;
use crate::kernels::{function_name, section};
use crate::launch::{Kind, Loops, Numbers, Pointers, argument, blocks, launch, outer_offsets};
use crate::program::{Key, Program};

/// What is computed.
#[derive(Clone, Copy)]
pub enum Function {
    /// The expression of an operator for a dtype. Of its numbers, those after the first `numbers` may be absent.
    Operator { name: &'static str, dtype: DType, numbers: usize, optional: usize },
    /// The element, converted to this type.
    Element(Kind),
    /// The second element where the first is not zero, elsewhere the third; all are converted to this dtype.
    Select(DType),
}

impl Function {
    fn name(self) -> &'static str {
        match self {
            Function::Operator { name, .. } => name,
            Function::Element(_) => "element",
            Function::Select(_) => "select",
        }
    }

    /// The type that operands are converted to.
    fn compute(self) -> Kind {
        match self {
            Function::Operator { dtype, .. } | Function::Select(dtype) => Kind::Of(dtype),
            Function::Element(kind) => kind,
        }
    }
}

/// An operand in memory: its first byte, and the type of its elements.
#[derive(Clone, Copy)]
pub struct Memory {
    pub address: usize,
    pub kind: Kind,
}

/// An input of the function.
#[derive(Clone, Copy)]
pub enum Input {
    /// The next operand in memory.
    Memory,
    /// The bits of a number, in the type of the computation.
    Number([u64; 2]),
}

/// The number of adjacent elements that a thread takes at once (`ITEMS` in the skeleton).
const ITEMS: u64 = 4;
const CONTIGUOUS: usize = 0;
const STRIDED: usize = 1;

/// Computes all elements of a nest over the operands in memory, of which the first is the result. `inputs` are the function's
/// inputs in their order.
///
/// # Safety
/// The layouts of the nest stay within the operands, which are held for the stream.
pub unsafe fn run<const N: usize>(
    card: &Card,
    stream: StreamId,
    function: Function,
    nest: &LoopNest<N>,
    memory: &[Memory; N],
    inputs: &[Input],
    numbers: &[[u64; 2]],
) -> Result<()> {
    let wide = nest.numel() > i32::MAX as usize;
    let program = Program::find(card, key(function, memory, inputs, wide), &[c"contiguous", c"strided"], || {
        source(function, memory, inputs, wide)
    })?;
    let number = |input: &Input| match input {
        Input::Number(bits) => Some(*bits),
        Input::Memory => None,
    };
    let mut numbers = Numbers::new(numbers, inputs.iter().filter_map(number))?;
    let adjacent = |(operand, stride): (&Memory, isize)| stride == operand.kind.size() as isize || nest.numel() == 1;
    let is_contiguous = nest.is_flat() && memory.iter().zip(nest.inner_strides()).all(adjacent);
    let mut loops = Loops::of(nest);
    let mut count = loops.count();
    for offsets in outer_offsets(nest) {
        let addresses: [u64; N] = std::array::from_fn(|n| memory[n].address.wrapping_add_signed(offsets[n]) as u64);
        let is_aligned =
            |(operand, address): (&Memory, &u64)| address.is_multiple_of((ITEMS * operand.kind.size() as u64).min(16));
        let mut aligned = u32::from(memory.iter().zip(&addresses).all(is_aligned));
        let mut pointers = Pointers(addresses);
        let (grid, kernel, last) = match is_contiguous {
            true => (blocks(card, count.div_ceil(ITEMS)), CONTIGUOUS, argument(&mut aligned)),
            false => (blocks(card, count), STRIDED, argument(&mut loops)),
        };
        let mut arguments = [argument(&mut pointers), argument(&mut numbers), argument(&mut count), last];
        // SAFETY: guaranteed by the caller; the arguments have the types of the program that `source` writes.
        unsafe { launch(card, program.kernel(kernel), [grid, 1], stream, &mut arguments)? };
    }
    Ok(())
}

/// What distinguishes the program from others: the types, and which inputs are numbers.
fn key(function: Function, memory: &[Memory], inputs: &[Input], wide: bool) -> Key {
    let mut codes = [0; 8];
    codes[0] = function.compute().code();
    for (code, operand) in codes[1..6].iter_mut().zip(memory) {
        *code = operand.kind.code();
    }
    for (n, input) in inputs.iter().enumerate() {
        codes[6] |= u8::from(matches!(input, Input::Number(_))) << n;
    }
    codes[7] = u8::from(wide);
    (function.name(), codes)
}

/// The source of a program.
fn source(function: Function, memory: &[Memory], inputs: &[Input], wide: bool) -> String {
    let compute = function.compute().name();
    let types = memory.iter().map(|operand| format!(", {}", operand.kind.name())).collect::<String>();
    let (mut values, mut parameters, mut constants) = (Vec::new(), String::new(), 0);
    for (n, input) in inputs.iter().enumerate() {
        match input {
            Input::Memory => {
                let _ = write!(parameters, ", {compute} x{n}");
                values.push(format!("x{n}"));
            }
            Input::Number(_) => {
                values.push(format!("number<{compute}>(numbers, {})", Numbers::place(constants)));
                constants += 1;
            }
        }
    }
    let (text, value) = match function {
        Function::Operator { name, dtype, numbers, optional } => {
            let given = (0..numbers).map(|n| format!("number<{compute}>(numbers, {n})"));
            let maybe = (numbers..numbers + optional).map(|n| format!("option<{compute}>(numbers, {n})"));
            values.extend(given.chain(maybe));
            let call = format!("pointwise::{}({})", function_name(name, dtype), values.join(", "));
            (section("pointwise", name), call)
        }
        Function::Element(_) => ("", values.concat()),
        Function::Select(_) => ("", format!("{} == {compute}() ? {} : {}", values[0], values[2], values[1])),
    };
    let operands = memory.len();
    let index = if wide { "u64" } else { "u32" };
    format!(
        r#"#include "elementwise.cuh"
#include "prelude.cuh"
namespace rushlight::pointwise {{
{text}
}}
using namespace rushlight;
struct Function {{
    static DEVICE auto value(const Numbers& numbers{parameters}) {{ return {value}; }}
}};
typedef Elementwise<Function, {compute}{types}> Loop;
extern "C" __global__ void contiguous(Pointers<{operands}> operands, Numbers numbers, u64 count, u32 aligned) {{
    Loop::contiguous(operands, numbers, count, aligned);
}}
extern "C" __global__ void strided(Pointers<{operands}> operands, Numbers numbers, u64 count, Loops<{operands}> loops) {{
    Loop::strided<{index}>(operands, numbers, count, loops);
}}
"#
    )
}
