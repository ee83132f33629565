//! Kernels that compute one element from one element of each operand: operators, conversions, copies, fills. The skeleton is
//! `elementwise.cuh`.

use std::fmt::Write;

use rushlight_core::device_memory::StreamId;
use rushlight_core::loop_nest::LoopNest;
use rushlight_core::{DType, Result};

use crate::card::Card;
use crate::kernels::{function_name, section};
use crate::launch::{DIMS, ElementType, Loops, Numbers, Pointers, THREADS, argument, blocks, launch, outer_offsets};
use crate::program::{Key, Program};

/// What is computed.
#[derive(Clone, Copy)]
pub enum Function {
    /// The expression of an operator for a dtype. Of its numbers, those after the first `numbers` may be absent.
    Operator { name: &'static str, dtype: DType, numbers: usize, optional: usize },
    /// The element, converted to this type.
    Element(ElementType),
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
    fn compute(self) -> ElementType {
        match self {
            Function::Operator { dtype, .. } | Function::Select(dtype) => ElementType::Of(dtype),
            Function::Element(element) => element,
        }
    }
}

/// An operand in memory: its first byte, and the type of its elements.
#[derive(Clone, Copy)]
pub struct Memory {
    pub address: usize,
    pub element: ElementType,
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
/// The edge of the squares of a transposing copy (`EDGE` in the skeleton), and the least size of a loop that is worth them.
const EDGE: u64 = 32;
const LEAST_EDGE: usize = 8;
/// The most operands in memory, the result among them.
const OPERANDS: usize = 5;
const PACKED: usize = 0;
const STRIDED: usize = 1;
const TRANSPOSED: usize = 2;

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
    let program = find(card, function, memory, inputs, wide)?;
    let mut numbers = numbers_of(numbers, inputs)?;
    let second = if is_copy(function, inputs) { transposed_loop(nest, memory) } else { None };
    let has_rows = has_packs(nest, memory);
    for offsets in outer_offsets(nest) {
        let addresses: [u64; N] = std::array::from_fn(|n| memory[n].address.wrapping_add_signed(offsets[n]) as u64);
        let is_aligned =
            memory.iter().zip(&addresses).all(|(operand, address)| address.is_multiple_of(alignment(operand)));
        let mut pointers = Pointers(addresses);
        let loops = Loops::of(nest);
        let count = loops.count();
        let (kernel, mut loops, mut count, work) = match second {
            _ if has_rows && is_aligned => (PACKED, loops.packed(ITEMS), count, count.div_ceil(ITEMS)),
            Some(dim) => {
                let loops = loops.with_second(dim);
                let edges = [loops.size(0), loops.size(1)];
                let squares =
                    edges.map(|size| size.div_ceil(EDGE)).iter().product::<u64>() * (count / (edges[0] * edges[1]));
                (TRANSPOSED, loops, squares, squares.saturating_mul(u64::from(THREADS)))
            }
            None => (STRIDED, loops, count, count),
        };
        let grid = blocks(card, work);
        let mut arguments =
            [argument(&mut pointers), argument(&mut numbers), argument(&mut count), argument(&mut loops)];
        // SAFETY: guaranteed by the caller; the arguments have the types of the program that `source` writes.
        unsafe { launch(card, program.kernel(kernel), [grid, 1], stream, &mut arguments)? };
    }
    Ok(())
}

/// Computes `count` adjacent elements of the first operand from as many of the others.
///
/// # Safety
/// The elements lie within the operands, which are held for the stream.
pub unsafe fn run_flat(
    card: &Card,
    stream: StreamId,
    function: Function,
    count: usize,
    memory: &[Memory],
    inputs: &[Input],
    numbers: &[[u64; 2]],
) -> Result<()> {
    let program = find(card, function, memory, inputs, false)?;
    let mut numbers = numbers_of(numbers, inputs)?;
    let mut pointers = [0; OPERANDS];
    for (pointer, operand) in pointers.iter_mut().zip(memory) {
        *pointer = operand.address as u64;
    }
    let mut count = count as u64;
    let mut arguments = [argument(&mut pointers), argument(&mut numbers), argument(&mut count)];
    // SAFETY: guaranteed by the caller; the kernel reads as many pointers as there are operands.
    unsafe { launch(card, program.kernel(PACKED), [blocks(card, count.div_ceil(ITEMS)), 1], stream, &mut arguments) }
}

/// The program for a function and the types of its operands.
fn find(card: &Card, function: Function, memory: &[Memory], inputs: &[Input], wide: bool) -> Result<Program> {
    let kernels = [c"packed", c"strided", c"transposed"];
    let kernels = if is_copy(function, inputs) { &kernels[..] } else { &kernels[..TRANSPOSED] };
    Program::find(card, key(function, memory, inputs, wide), kernels, || source(function, memory, inputs, wide))
}

/// The numbers of a call, those in place of operands among them.
fn numbers_of(numbers: &[[u64; 2]], inputs: &[Input]) -> Result<Numbers> {
    let number = |input: &Input| match input {
        Input::Number(bits) => Some(*bits),
        Input::Memory => None,
    };
    Numbers::new(numbers, inputs.iter().filter_map(number))
}

/// The alignment of an operand's packs.
fn alignment(operand: &Memory) -> u64 {
    (ITEMS * operand.element.size() as u64).min(16)
}

/// Whether all elements are in packs, but for the last ones of a single row.
fn has_packs<const N: usize>(nest: &LoopNest<N>, memory: &[Memory; N]) -> bool {
    let adjacent = |(operand, stride): (&Memory, isize)| stride == operand.element.size() as isize || nest.numel() == 1;
    let on_packs =
        |(operand, stride): (&Memory, isize)| stride.unsigned_abs().is_multiple_of(alignment(operand) as usize);
    memory.iter().zip(nest.inner_strides()).all(adjacent)
        && (nest.is_flat() || nest.inner().is_multiple_of(ITEMS as usize))
        && (1..nest.rank()).all(|dim| memory.iter().zip(nest.strides(dim)).all(on_packs))
}

/// Whether the result is one operand in memory, perhaps in another dtype.
fn is_copy(function: Function, inputs: &[Input]) -> bool {
    matches!((function, inputs), (Function::Element(_), [Input::Memory]))
}

/// The loop along which the elements of a copy's operand are adjacent, if those of the result are adjacent along another one.
fn transposed_loop<const N: usize>(nest: &LoopNest<N>, memory: &[Memory; N]) -> Option<usize> {
    let widths = memory.map(|operand| operand.element.size() as isize);
    let ([to, from, ..], [out, own, ..]) = (&widths[..], &nest.inner_strides()[..]) else { return None };
    let dim = nest.across(1, *from as usize)?;
    let is_large = nest.inner().min(nest.size(dim)) >= LEAST_EDGE;
    (out == to && own != from && *own != 0 && is_large && dim < DIMS).then_some(dim)
}

/// What distinguishes the program from others: the types, and which inputs are numbers.
fn key(function: Function, memory: &[Memory], inputs: &[Input], wide: bool) -> Key {
    let mut codes = [0; 8];
    codes[0] = function.compute().code();
    for (code, operand) in codes[1..6].iter_mut().zip(memory) {
        *code = operand.element.code();
    }
    for (n, input) in inputs.iter().enumerate() {
        codes[6] |= u8::from(matches!(input, Input::Number(_))) << n;
    }
    codes[7] = u8::from(wide);
    Key::new(function.name(), codes)
}

/// The source of a program.
fn source(function: Function, memory: &[Memory], inputs: &[Input], wide: bool) -> String {
    let compute = function.compute().name();
    let types = memory.iter().map(|operand| format!(", {}", operand.element.name())).collect::<String>();
    let (mut values, mut parameters, mut constants) = (Vec::new(), String::new(), 0);
    for (n, input) in inputs.iter().enumerate() {
        match input {
            Input::Memory => {
                let _ = write!(parameters, ", {compute} x{n}");
                values.push(format!("x{n}"));
            }
            Input::Number(_) => {
                values.push(format!("number<{compute}>(numbers, {})", Numbers::index(constants)));
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
    let (operands, index) = (memory.len(), if wide { "u64" } else { "u32" });
    let transposed = match is_copy(function, inputs) {
        true => format!(
            r#"extern "C" __global__ void transposed(Pointers<2> operands, Numbers numbers, u64 squares, Loops<2> loops) {{
    transpose<Function, {compute}{types}, {index}>(operands, numbers, squares, loops);
}}
"#
        ),
        false => String::new(),
    };
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
extern "C" __global__ void packed(Pointers<{operands}> operands, Numbers numbers, u64 count, Loops<{operands}> loops) {{
    Loop::packed<{index}>(operands, numbers, count, loops);
}}
extern "C" __global__ void strided(Pointers<{operands}> operands, Numbers numbers, u64 count, Loops<{operands}> loops) {{
    Loop::strided<{index}>(operands, numbers, count, loops);
}}
{transposed}"#
    )
}
