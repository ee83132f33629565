//! Launches of kernels, and what all kernels take: `Numbers`, `Pointers` and `Loops` of `geometry.cuh`.

use std::ffi::c_void;

use cudarc::driver::sys;
use once_cell::race::OnceBool;
use rushlight_core::device_memory::StreamId;
use rushlight_core::loop_nest::LoopNest;
use rushlight_core::{DType, Error, Result};

use crate::capture;
use crate::card::Card;
use crate::driver::check;
use crate::kernels::type_name;
use crate::program::Kernel;
use crate::{profile, stream};

pub const DIMS: usize = 12;
pub const THREADS: u32 = 256;
pub const WARP: u32 = 32;
const NUMBERS: usize = 12;

/// The numbers of a call.
#[repr(C)]
pub struct Numbers {
    bits: [[u64; 2]; NUMBERS],
    count: u32,
}

impl Numbers {
    /// The numbers of an operator, each with the bits of the dtype that the kernel computes in. `operands` are numbers in place of
    /// operands, which stand at the end.
    pub fn new(numbers: &[[u64; 2]], operands: impl Iterator<Item = [u64; 2]>) -> Result<Numbers> {
        let mut bits = [[0; 2]; NUMBERS];
        let mut free = NUMBERS;
        for number in operands {
            free = free.saturating_sub(1);
            bits[free] = number;
        }
        match bits[..free].get_mut(..numbers.len()) {
            Some(own) => own.copy_from_slice(numbers),
            None => return Err(Error::runtime(format!("a kernel takes at most {NUMBERS} numbers"))),
        }
        Ok(Numbers { bits, count: numbers.len() as u32 })
    }

    /// The index of the n-th number that stands for an operand.
    pub fn index(n: usize) -> usize {
        NUMBERS - 1 - n
    }
}

/// The first bytes of the operands.
#[repr(C)]
pub struct Pointers<const N: usize>(pub [u64; N]);

/// The innermost loops of a nest.
#[repr(C)]
pub struct Loops<const N: usize> {
    rank: u32,
    sizes: [u64; DIMS],
    strides: [[i64; N]; DIMS],
    multipliers: [u32; DIMS],
    shifts: [u32; DIMS],
}

impl<const N: usize> Loops<N> {
    pub fn of(nest: &LoopNest<N>) -> Loops<N> {
        let rank = nest.rank().min(DIMS);
        Loops::over((0..rank).map(|dim| (nest.size(dim) as u64, nest.strides(dim).map(|stride| stride as i64))))
    }

    /// At most twelve loops with these sizes and strides, the innermost first.
    pub fn over(given: impl Iterator<Item = (u64, [i64; N])>) -> Loops<N> {
        let mut loops =
            Loops { rank: 0, sizes: [1; DIMS], strides: [[0; N]; DIMS], multipliers: [1; DIMS], shifts: [0; DIMS] };
        for (dim, (size, strides)) in given.enumerate() {
            loops.rank += 1;
            loops.set(dim, size, strides);
        }
        loops
    }

    /// Sets a loop. The quotient of a number `n` below 2^31 and the size is `(n * multiplier / 2^32 + n) / 2^shift`, rounded down:
    /// the multiplier is `2^32 * (2^shift / size - 1)`, rounded up, for the least power of two that is not less than the size.
    fn set(&mut self, dim: usize, size: u64, strides: [i64; N]) {
        (self.sizes[dim], self.strides[dim]) = (size, strides);
        if let 1..=0x7fff_ffff = size {
            let power = size.next_power_of_two();
            self.shifts[dim] = power.trailing_zeros();
            self.multipliers[dim] = (((power - size) << 32) / size + 1) as u32;
        }
    }

    /// The loops over packs of `items` adjacent elements of the innermost one.
    pub fn packed(mut self, items: u64) -> Loops<N> {
        self.set(0, self.sizes[0].div_ceil(items), self.strides[0].map(|stride| stride * items as i64));
        self
    }

    /// The loops with another one as the second.
    pub fn with_second(mut self, dim: usize) -> Loops<N> {
        let [second, other] = [1, dim].map(|dim| (self.sizes[dim], self.strides[dim]));
        self.set(1, other.0, other.1);
        self.set(dim, second.0, second.1);
        self
    }

    pub fn size(&self, dim: usize) -> u64 {
        self.sizes[dim]
    }

    /// The number of elements.
    pub fn count(&self) -> u64 {
        self.sizes[..self.rank as usize].iter().product()
    }
}

/// The offsets of the operands for each combination of the loops outside of `Loops`, of which there is nearly always one.
pub fn outer_offsets<const N: usize>(nest: &LoopNest<N>) -> impl Iterator<Item = [isize; N]> {
    let outer = DIMS.min(nest.rank())..nest.rank();
    let count: usize = outer.clone().map(|dim| nest.size(dim)).product();
    (0..count).map(move |mut number| {
        let mut offsets = nest.bases();
        for dim in outer.clone() {
            let (at, strides) = (number % nest.size(dim), nest.strides(dim));
            number /= nest.size(dim);
            for n in 0..N {
                offsets[n] += at as isize * strides[n];
            }
        }
        offsets
    })
}

/// The type of an element in the memory of a kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ElementType {
    Of(DType),
    /// Bytes without a meaning, for copies.
    Raw(u8),
}

impl ElementType {
    /// The type in the source.
    pub fn name(self) -> &'static str {
        match self {
            ElementType::Of(dtype) => type_name(dtype),
            ElementType::Raw(1) => "u8",
            ElementType::Raw(2) => "u16",
            ElementType::Raw(4) => "u32",
            ElementType::Raw(8) => "u64",
            ElementType::Raw(_) => "u128",
        }
    }

    pub fn size(self) -> usize {
        match self {
            ElementType::Of(dtype) => dtype.size(),
            ElementType::Raw(bytes) => usize::from(bytes),
        }
    }

    /// The type in a program's key.
    pub fn code(self) -> u8 {
        match self {
            ElementType::Of(dtype) => dtype as u8,
            ElementType::Raw(bytes) => 128 + bytes,
        }
    }
}

/// How many blocks share `work` pieces of work, one for each thread.
pub fn blocks(card: &Card, work: u64) -> u32 {
    let most = card.properties.multiprocessors.max(1) as u64 * 32;
    work.div_ceil(u64::from(THREADS)).clamp(1, most) as u32
}

/// Whether every launch waits for its kernel, as torch's variable says.
fn is_blocking() -> bool {
    static BLOCKING: OnceBool = OnceBool::new();
    BLOCKING.get_or_init(|| std::env::var("CUDA_LAUNCH_BLOCKING").is_ok_and(|value| value == "1"))
}

/// Enqueues a kernel of 256 threads in each block.
///
/// # Safety
/// The arguments point to values of the kernel's types, and the memory that it uses is held for the stream.
pub unsafe fn launch(
    card: &Card,
    kernel: Kernel,
    grid: [u32; 2],
    stream: StreamId,
    arguments: &mut [*mut c_void],
) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    unsafe { launch_with(card, kernel, grid, THREADS, stream, arguments) }
}

/// Enqueues a kernel with another number of threads in each block.
///
/// # Safety
/// As for `launch`.
pub unsafe fn launch_with(
    card: &Card,
    kernel: Kernel,
    grid: [u32; 2],
    threads: u32,
    stream: StreamId,
    arguments: &mut [*mut c_void],
) -> Result<()> {
    let queue = stream::handle(stream);
    enqueue(card, kernel.name, stream, || {
        // SAFETY: guaranteed by the caller.
        check(unsafe {
            sys::cuLaunchKernel(
                kernel.function,
                grid[0],
                grid[1],
                1,
                threads,
                1,
                1,
                0,
                queue,
                arguments.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        })
    })
}

/// Runs a function that enqueues work, which a profiler may measure.
pub fn enqueue(card: &Card, name: &'static str, stream: StreamId, run: impl FnOnce() -> Result<()>) -> Result<()> {
    let before = profile::before(card.index, stream);
    run()?;
    profile::after(before, name, stream);
    if is_blocking() && !capture::is_capturing(card.index, stream) {
        stream::synchronize(card.index, stream)
    } else {
        Ok(())
    }
}

/// The pointer to an argument of a kernel.
pub fn argument<T>(value: &mut T) -> *mut c_void {
    std::ptr::from_mut(value).cast()
}
