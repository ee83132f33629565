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

impl Memory {
    fn moved(self, offset: isize) -> Memory {
        Memory { address: self.address.wrapping_add_signed(offset), ..self }
    }
}

/// An input of the function.
#[derive(Clone, Copy)]
pub enum Input {
    /// The next operand in memory.
    Memory,
    /// The bits of a number, in the type of the computation.
    Number([u64; 2]),
}

/// The edge of the squares of a transposing copy (`EDGE` in the skeleton), and the least size of a loop that is worth them.
const EDGE: u64 = 32;
const LEAST_EDGE: usize = 8;
/// The bytes of a pack of the widest elements, of which one instruction loads no more.
const PACK: usize = 16;
/// The packs that a thread loads at once, of all operands together, and the most elements of an operand. Thus a multiprocessor asks
/// for 32 to 64 KiB at a time, with registers left for other blocks.
const LOADS: usize = 4;
const MOST_ITEMS: usize = 16;

/// The most operands in memory, the result among them.
const OPERANDS: usize = 5;

/// How threads share the elements. Each form is a kernel of its own, which is compiled when it is needed first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Packs of elements that are adjacent in all operands, from the first to the last.
    Flat,
    /// Packs of elements that are adjacent within rows.
    Packed,
    /// One element after the other.
    Strided,
    /// Squares of a copy whose operand runs across its result.
    Transposed,
}

impl Form {
    /// The elements of a pack (`ITEMS` in the skeleton).
    fn items(self, memory: &[Memory]) -> usize {
        match self {
            Form::Flat | Form::Packed => widest_pack(memory),
            Form::Strided | Form::Transposed => 1,
        }
    }

    /// The packs of a thread (`PACKS` in the skeleton).
    fn packs(self, memory: &[Memory]) -> usize {
        match self {
            Form::Strided => LOADS,
            _ => (LOADS / (memory.len() - 1).max(1)).min(MOST_ITEMS / self.items(memory)).max(1),
        }
    }

    /// The blocks that share this many packs.
    fn tiles(self, memory: &[Memory], packs: u64) -> u32 {
        packs.div_ceil(u64::from(THREADS) * self.packs(memory) as u64) as u32
    }
}

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
    if nest.numel() == 0 {
        return Ok(());
    }
    let second = if is_copy(function, inputs) { transposed_loop(nest, memory) } else { None };
    let has_packs = has_packs(nest, memory);
    for offsets in outer_offsets(nest) {
        let at: [Memory; N] = std::array::from_fn(|n| memory[n].moved(offsets[n]));
        let is_packed = has_packs && is_aligned(&at);
        if is_packed && nest.is_flat() {
            // SAFETY: guaranteed by the caller.
            unsafe { run_flat(card, stream, function, nest.numel(), &at, inputs, numbers)? };
            continue;
        }
        let (form, mut count, grid, mut loops) = match second {
            Some(dim) if !is_packed => {
                let loops = Loops::of(nest).with_second(dim);
                let edges = [loops.size(0), loops.size(1)];
                let squares = edges.map(|size| size.div_ceil(EDGE)).iter().product::<u64>()
                    * (loops.count() / (edges[0] * edges[1]));
                let grid = blocks(card, squares.saturating_mul(u64::from(THREADS)));
                (Form::Transposed, squares, grid, loops)
            }
            _ => {
                let form = if is_packed { Form::Packed } else { Form::Strided };
                let loops = Loops::of(nest).packed(form.items(memory) as u64);
                (form, loops.count(), form.tiles(memory, loops.count()), loops)
            }
        };
        let mut bits = all_numbers(numbers, inputs)?;
        let is_wide = nest.numel() > i32::MAX as usize;
        let program = find(card, function, memory, inputs, form, is_wide)?;
        let mut pointers = Pointers(at.map(|operand| operand.address as u64));
        let mut arguments = [argument(&mut pointers), argument(&mut bits), argument(&mut count), argument(&mut loops)];
        // SAFETY: guaranteed by the caller; the arguments have the types of the program that `source` writes.
        unsafe { launch(card, program.kernel(0), [grid, 1], stream, &mut arguments)? };
    }
    Ok(())
}

/// Computes `count` elements, which are adjacent and aligned in all operands.
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
    let form = Form::Flat;
    let program = find(card, function, memory, inputs, form, false)?;
    let mut pointers = [0; OPERANDS];
    for (pointer, operand) in pointers.iter_mut().zip(memory) {
        *pointer = operand.address as u64;
    }
    let (mut bits, mut count) = (all_numbers(numbers, inputs)?, count as u64);
    let grid = form.tiles(memory, count.div_ceil(form.items(memory) as u64));
    let mut arguments = [argument(&mut pointers), argument(&mut bits), argument(&mut count)];
    // SAFETY: guaranteed by the caller; the kernel reads as many pointers as there are operands.
    unsafe { launch(card, program.kernel(0), [grid, 1], stream, &mut arguments) }
}

/// Whether packs of adjacent elements may begin at all addresses.
pub fn is_aligned(memory: &[Memory]) -> bool {
    memory.iter().all(|operand| (operand.address as u64).is_multiple_of(alignment(memory, operand)))
}

fn find(
    card: &Card,
    function: Function,
    memory: &[Memory],
    inputs: &[Input],
    form: Form,
    is_wide: bool,
) -> Result<Program> {
    let key = key(function, memory, inputs, form, is_wide);
    Program::find(card, key, &[c"run"], || source(function, memory, inputs, form, is_wide))
}

/// The numbers of a call, those in place of operands among them.
fn all_numbers(numbers: &[[u64; 2]], inputs: &[Input]) -> Result<Numbers> {
    let number = |input: &Input| match input {
        Input::Number(bits) => Some(*bits),
        Input::Memory => None,
    };
    Numbers::new(numbers, inputs.iter().filter_map(number))
}

/// The elements of a pack, of which the widest fill it.
fn widest_pack(memory: &[Memory]) -> usize {
    PACK / memory.iter().map(|operand| operand.element.size()).max().unwrap_or(PACK)
}

/// The alignment of an operand's packs.
fn alignment(memory: &[Memory], operand: &Memory) -> u64 {
    (widest_pack(memory) * operand.element.size()) as u64
}

/// Whether all elements are in packs, but for the last ones of a single row.
fn has_packs<const N: usize>(nest: &LoopNest<N>, memory: &[Memory; N]) -> bool {
    let adjacent = |(operand, stride): (&Memory, isize)| stride == operand.element.size() as isize || nest.numel() == 1;
    let on_packs =
        |(operand, stride): (&Memory, isize)| (stride.unsigned_abs() as u64).is_multiple_of(alignment(memory, operand));
    memory.iter().zip(nest.inner_strides()).all(adjacent)
        && (nest.is_flat() || nest.inner().is_multiple_of(widest_pack(memory)))
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

/// What distinguishes the program from others: the types, which inputs are numbers, and the form.
fn key(function: Function, memory: &[Memory], inputs: &[Input], form: Form, is_wide: bool) -> Key {
    let mut codes = [0; 8];
    codes[0] = function.compute().code();
    for (code, operand) in codes[1..6].iter_mut().zip(memory) {
        *code = operand.element.code();
    }
    for (n, input) in inputs.iter().enumerate() {
        codes[6] |= u8::from(matches!(input, Input::Number(_))) << n;
    }
    codes[7] = form as u8 | u8::from(is_wide) << 2;
    Key::new(function.name(), codes)
}

/// The source of a program.
fn source(function: Function, memory: &[Memory], inputs: &[Input], form: Form, is_wide: bool) -> String {
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
    let (operands, index) = (memory.len(), if is_wide { "u64" } else { "u32" });
    let (items, packs) = (form.items(memory), form.packs(memory));
    let loops = if form == Form::Flat { String::new() } else { format!(", Loops<{operands}> loops") };
    let run = match form {
        Form::Flat => "Loop::flat(operands, numbers, count)".to_string(),
        Form::Packed | Form::Strided => format!("Loop::nested<{index}>(operands, numbers, count, loops)"),
        Form::Transposed => format!("transpose<Function, {compute}{types}, {index}>(operands, numbers, count, loops)"),
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
typedef Elementwise<Function, {compute}, {items}, {packs}{types}> Loop;
extern "C" __global__ void run(Pointers<{operands}> operands, Numbers numbers, u64 count{loops}) {{
    {run};
}}
"#
    )
}
