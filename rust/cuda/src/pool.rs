//! Pooling of row-major planes. The kernels are `pool.cuh`.

use rushlight_core::device_memory::StreamId;
use rushlight_core::window::WindowDim;
use rushlight_core::{DType, Result};

use crate::card::Card;
use crate::kernels::type_name;
use crate::launch::{ElementType, argument, blocks, launch};
use crate::program::{Key, Program};

/// Windows along one dimension; without a size they cover the input evenly.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct PoolAxis {
    input: i64,
    output: i64,
    kernel: i64,
    stride: i64,
    padding: i64,
    dilation: i64,
}

impl PoolAxis {
    pub(crate) fn of(dim: &WindowDim) -> PoolAxis {
        PoolAxis {
            input: dim.input as i64,
            output: dim.output as i64,
            kernel: dim.kernel as i64,
            stride: dim.stride as i64,
            padding: dim.padding as i64,
            dilation: dim.dilation as i64,
        }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
struct PoolAxes([PoolAxis; 3]);

/// Windows of planes, and the number of planes.
#[derive(Clone, Copy)]
pub struct Planes<'a> {
    pub axes: &'a [WindowDim; 3],
    pub count: usize,
}

impl Planes<'_> {
    fn axes(&self) -> PoolAxes {
        PoolAxes(self.axes.each_ref().map(PoolAxis::of))
    }

    fn inputs(&self) -> u64 {
        self.axes.iter().fold(self.count as u64, |all, dim| all.saturating_mul(dim.input as u64))
    }

    fn outputs(&self) -> u64 {
        self.axes.iter().fold(self.count as u64, |all, dim| all.saturating_mul(dim.output as u64))
    }

    /// An integer in which the kernels' sums and products fit.
    fn index(&self) -> &'static str {
        let along = |dim: &WindowDim| match dim.kernel {
            0 => (dim.input as u64 + 1).saturating_mul(dim.output as u64 + 1),
            _ => (dim.output as u64 + 1)
                .saturating_mul(dim.stride as u64)
                .saturating_add((dim.kernel as u64).saturating_mul(dim.dilation as u64))
                .saturating_add((dim.input + dim.padding + dim.dilation) as u64),
        };
        let most = self.axes.iter().map(along).fold(self.inputs().max(self.outputs()), u64::max);
        if most < i32::MAX as u64 { "i32" } else { "i64" }
    }

    fn key(&self, name: &'static str, dtype: DType) -> Key {
        Key::new(name, [ElementType::Of(dtype).code(), u8::from(self.index() == "i64")])
    }
}

/// The greatest element of each window, and its index in the plane. `nothing` has the bits of the value of a window that reads
/// nothing.
///
/// # Safety
/// `input` and `results`, the values and the indices of 64 bits, are row-major planes of these windows, held for the stream.
pub unsafe fn max(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    mut input: u64,
    [mut values, mut places]: [u64; 2],
    planes: Planes,
    mut nothing: u64,
) -> Result<()> {
    let program = Program::find(card, planes.key("pool_max", dtype), &[c"pool"], || {
        let (element, compute, index) = (type_name(dtype), type_name(dtype.compute()), planes.index());
        format!(
            r#"#include "pool.cuh"
using namespace rushlight;
extern "C" __global__ void pool(const {element}* input, {element}* output, i64* places, u64 count, PoolAxes axes, u64 nothing) {{
    pool_max<{element}, {compute}, {index}>(input, output, places, count, axes, load<{element}>(&nothing));
}}
"#
        )
    })?;
    let (mut count, mut axes) = (planes.outputs(), planes.axes());
    let mut arguments = [
        argument(&mut input),
        argument(&mut values),
        argument(&mut places),
        argument(&mut count),
        argument(&mut axes),
        argument(&mut nothing),
    ];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program.kernel(0), [blocks(card, count), 1], stream, &mut arguments) }
}

/// The greatest element of each window of random ones, and its index in the plane. `samples` has `dims` numbers from 0 to 1 for each
/// plane, in the compute dtype.
///
/// # Safety
/// Same as for `max`; windows are as long as the axes say and not longer than the input.
pub unsafe fn random(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    [mut input, mut samples]: [u64; 2],
    [mut values, mut places]: [u64; 2],
    planes: Planes,
    dims: usize,
) -> Result<()> {
    let program = Program::find(card, planes.key("pool_random", dtype), &[c"pool"], || {
        let (element, compute, index) = (type_name(dtype), type_name(dtype.compute()), planes.index());
        format!(
            r#"#include "pool.cuh"
using namespace rushlight;
extern "C" __global__ void pool(const {element}* input, {element}* output, i64* places, u64 count, PoolAxes axes,
                                const {compute}* samples, u32 dims) {{
    pool_random<{element}, {compute}, {index}>(input, output, places, count, axes, samples, dims);
}}
"#
        )
    })?;
    let (mut count, mut axes, mut dims) = (planes.outputs(), planes.axes(), dims as u32);
    let mut arguments = [
        argument(&mut input),
        argument(&mut values),
        argument(&mut places),
        argument(&mut count),
        argument(&mut axes),
        argument(&mut samples),
        argument(&mut dims),
    ];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program.kernel(0), [blocks(card, count), 1], stream, &mut arguments) }
}

/// Adds each value to the element at its index, which is one of its window.
///
/// # Safety
/// `output` and the inputs, values and indices, are row-major planes of these windows, held for the stream.
pub unsafe fn max_backward(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    mut output: u64,
    [mut values, mut places]: [u64; 2],
    planes: Planes,
) -> Result<()> {
    let program = Program::find(card, planes.key("pool_max_backward", dtype), &[c"pool"], || {
        let (element, compute, index) = (type_name(dtype), type_name(dtype.compute()), planes.index());
        format!(
            r#"#include "pool.cuh"
using namespace rushlight;
extern "C" __global__ void pool({element}* output, const {element}* values, const i64* places, u64 count, PoolAxes axes) {{
    pool_max_backward<{element}, {compute}, {index}>(output, values, places, count, axes);
}}
"#
        )
    })?;
    let (mut count, mut axes) = (planes.inputs(), planes.axes());
    let mut arguments = [
        argument(&mut output),
        argument(&mut values),
        argument(&mut places),
        argument(&mut count),
        argument(&mut axes),
    ];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program.kernel(0), [blocks(card, count), 1], stream, &mut arguments) }
}

/// What means are divided by.
#[repr(C)]
#[derive(Clone, Copy)]
struct Divisor {
    given: i64,
    is_given: u32,
    with_padding: u32,
}

/// The mean of each window, or with `backward` the sum of each element's shares of the means. The divisor is a number, or the size
/// of the window with its padding or without.
///
/// # Safety
/// `output` and `input` are row-major planes of these windows, held for the stream.
pub unsafe fn mean(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    [mut output, mut input]: [u64; 2],
    planes: Planes,
    (divisor, with_padding): (Option<i64>, bool),
    backward: bool,
) -> Result<()> {
    let name = if backward { "pool_mean_backward" } else { "pool_mean" };
    let program = Program::find(card, planes.key(name, dtype), &[c"pool"], || {
        let (element, compute, index) = (type_name(dtype), type_name(dtype.compute()), planes.index());
        let operands = if backward { "output, input" } else { "input, output" };
        format!(
            r#"#include "pool.cuh"
using namespace rushlight;
extern "C" __global__ void pool({element}* output, const {element}* input, u64 count, PoolAxes axes, Divisor divisor) {{
    {name}<{element}, {compute}, {index}>({operands}, count, axes, divisor);
}}
"#
        )
    })?;
    let (mut count, mut axes) = (if backward { planes.inputs() } else { planes.outputs() }, planes.axes());
    let mut by = Divisor {
        given: divisor.unwrap_or(1),
        is_given: u32::from(divisor.is_some()),
        with_padding: u32::from(with_padding),
    };
    let mut arguments =
        [argument(&mut output), argument(&mut input), argument(&mut count), argument(&mut axes), argument(&mut by)];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program.kernel(0), [blocks(card, count), 1], stream, &mut arguments) }
}

/// Planes of `pixels` values and of `area` elements.
#[derive(Clone, Copy)]
pub struct Areas {
    pub count: usize,
    pub pixels: usize,
    pub area: usize,
}

/// Writes for each element of the planes how many values there are up to the last one with its index. The eight bytes at
/// `outside` become the first position whose index is out of range; if it is zero, such an index stops the device.
///
/// # Safety
/// `last` has a zero of 64 bits for each element and `places` an index of 64 bits for each value. They are row-major and, like
/// `outside`, held for the stream.
pub unsafe fn find_last(
    card: &Card,
    stream: StreamId,
    mut last: u64,
    mut places: u64,
    areas: Areas,
    mut outside: u64,
) -> Result<()> {
    let program = Program::find(card, Key::new("find_last", []), &[c"find"], || {
        r#"#include "pool.cuh"
using namespace rushlight;
extern "C" __global__ void find(u64* last, const i64* places, u64 count, u64 pixels, u64 area, u64* outside) {
    find_last(last, places, count, pixels, area, outside);
}
"#
        .into()
    })?;
    let (mut pixels, mut area) = (areas.pixels as u64, areas.area as u64);
    let mut count = areas.count as u64 * pixels;
    let mut arguments = [
        argument(&mut last),
        argument(&mut places),
        argument(&mut count),
        argument(&mut pixels),
        argument(&mut area),
        argument(&mut outside),
    ];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program.kernel(0), [blocks(card, count), 1], stream, &mut arguments) }
}

/// Writes the values that `find_last` found, of `width` bytes, and zeros elsewhere.
///
/// # Safety
/// The operands are row-major planes of these sizes, held for the stream.
pub unsafe fn put_last(
    card: &Card,
    stream: StreamId,
    width: usize,
    [mut output, mut values, mut last]: [u64; 3],
    areas: Areas,
) -> Result<()> {
    let element_type = ElementType::Raw(width as u8);
    let program = Program::find(card, Key::new("put_last", [element_type.code()]), &[c"put"], || {
        let element = element_type.name();
        format!(
            r#"#include "pool.cuh"
using namespace rushlight;
extern "C" __global__ void put({element}* output, const {element}* values, const u64* last, u64 count, u64 pixels, u64 area) {{
    put_last(output, values, last, count, pixels, area);
}}
"#
        )
    })?;
    let (mut pixels, mut area) = (areas.pixels as u64, areas.area as u64);
    let mut count = areas.count as u64 * area;
    let mut arguments = [
        argument(&mut output),
        argument(&mut values),
        argument(&mut last),
        argument(&mut count),
        argument(&mut pixels),
        argument(&mut area),
    ];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program.kernel(0), [blocks(card, count), 1], stream, &mut arguments) }
}
