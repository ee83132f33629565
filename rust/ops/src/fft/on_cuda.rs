//! Transforms on CUDA devices by cuFFT. Each function is false if cuFFT is missing or refuses; then the host has to transform.
//!
//! Tensors have their dimensions in the order in which the result is row-major. The transformed ones are at the end.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Dims, Layout, Result, Scalar};
use rushlight_cuda::cufft::{DIMS, Kind, Placing, Shape, is_available, transform};
use rushlight_dispatch::operator::Args;
use rushlight_dispatch::value::Target;
use rushlight_dispatch::{copy, create};

use crate::held::Held;
use crate::pointwise::arith::MUL;

/// An operand or a result, without its dimensions of size one.
struct Side {
    tensor: Tensor,
    layout: Layout,
}

/// The dimensions of a call that are not of size one.
struct Kept {
    dims: Vec<usize>,
    /// How many of them, at the end, are transformed.
    rank: usize,
}

impl Kept {
    /// `half` is the dimension of which one side has the first half alone: it is kept in any case.
    fn of(sizes: &[isize], transformed: &[usize], half: Option<usize>) -> Option<Kept> {
        let dims: Vec<usize> = (0..sizes.len()).filter(|&dim| sizes[dim] != 1 || Some(dim) == half).collect();
        let rank = dims.iter().filter(|dim| transformed.contains(dim)).count();
        let at_end = dims[dims.len() - rank..].iter().all(|dim| transformed.contains(dim));
        (at_end && (half.is_none() || dims.last().copied() == half)).then_some(Kept { dims, rank })
    }

    fn side(&self, tensor: &Tensor) -> Side {
        let layout = tensor.layout();
        let of = |numbers: &[isize]| -> Dims { self.dims.iter().map(|&dim| numbers[dim]).collect() };
        let layout = Layout { sizes: of(&layout.sizes), strides: of(&layout.strides), offset: layout.offset };
        Side { tensor: tensor.clone(), layout }
    }
}

impl Side {
    /// How the last `rank` dimensions lie in memory, if cuFFT can describe it.
    fn placing(&self, rank: usize) -> Option<Placing> {
        let (sizes, strides) = (&self.layout.sizes, &self.layout.strides);
        let first = self.layout.rank() - rank;
        let joined = (1..first).all(|dim| strides[dim - 1] == strides[dim] * sizes[dim]);
        if !joined || strides.iter().any(|&stride| stride <= 0) {
            return None;
        }
        let mut embed = [1; DIMS];
        embed[0] = sizes[first] as i64;
        for dim in 1..rank {
            let (outer, inner) = (strides[first + dim - 1], strides[first + dim]);
            if outer % inner != 0 || outer / inner < sizes[first + dim] {
                return None;
            }
            embed[dim] = (outer / inner) as i64;
        }
        let stride = *strides.last()? as i64;
        let extent = stride * embed.iter().product::<i64>();
        let step = if first == 0 { extent } else { strides[first - 1] as i64 };
        // Transforms lie behind each other, or their elements alternate.
        (step >= extent || stride >= step * self.count(rank)).then_some(Placing { embed, stride, step })
    }

    /// How many transforms of `rank` dimensions there are.
    fn count(&self, rank: usize) -> i64 {
        self.layout.sizes[..self.layout.rank() - rank].iter().product::<isize>() as i64
    }

    /// Whether cuFFT can read it: complex numbers and pairs of real ones lie at multiples of their size.
    fn is_readable(&self, rank: usize) -> Result<bool> {
        let first = Held::on(&self.tensor)?.address(&self.tensor)?;
        let pair = 2 * self.tensor.dtype().to_real().size() as u64;
        Ok(first.is_multiple_of(pair) && self.placing(rank).is_some())
    }
}

/// From complex to complex numbers.
pub fn c2c(input: &Tensor, to: &Tensor, transformed: &[usize], forward: bool, scale: f64) -> Result<bool> {
    let Some(kept) = Kept::of(to.sizes(), transformed, None).filter(|_| is_available()) else { return Ok(false) };
    let (mut from, result) = (kept.side(input), kept.side(to));
    let at_once = kept.rank.min(DIMS);
    if to.numel() == 0 || kept.rank == 0 {
        copy::copy(to, input)?;
        return Ok(true);
    }
    if input.dtype() != to.dtype() || !from.is_readable(at_once)? {
        copy::copy(to, input)?;
        from = kept.side(to);
    }
    let done = last(Kind::Complex, at_once, &from, &result, forward)? && others(&result, kept.rank, at_once, forward)?;
    if done { scaled(to, scale) } else { Ok(false) }
}

/// From real numbers to the first half of the last transformed dimension.
pub fn r2c(input: &Tensor, to: &Tensor, transformed: &[usize], scale: f64) -> Result<bool> {
    let half = transformed.last().copied();
    let Some(kept) = Kept::of(input.sizes(), transformed, half).filter(|_| is_available()) else { return Ok(false) };
    if to.numel() == 0 {
        return Ok(true);
    }
    let (mut from, result) = (kept.side(input), kept.side(to));
    let at_once = kept.rank.min(DIMS);
    if !from.is_readable(at_once)? {
        let copied = create::empty(input.sizes(), input.dtype(), input.device())?;
        copy::copy(&copied, input)?;
        from = kept.side(&copied);
    }
    let done = last(Kind::RealToHalf, at_once, &from, &result, true)? && others(&result, kept.rank, at_once, true)?;
    if done { scaled(to, scale) } else { Ok(false) }
}

/// From the first half of the last transformed dimension to real numbers.
pub fn c2r(input: &Tensor, to: &Tensor, transformed: &[usize], scale: f64) -> Result<bool> {
    let half = transformed.last().copied();
    let Some(kept) = Kept::of(to.sizes(), transformed, half).filter(|_| is_available()) else { return Ok(false) };
    if to.numel() == 0 {
        return Ok(true);
    }
    // cuFFT overwrites the operand.
    let copied = create::empty(input.sizes(), input.dtype(), input.device())?;
    copy::copy(&copied, input)?;
    let (from, result) = (kept.side(&copied), kept.side(to));
    let at_once = kept.rank.min(DIMS);
    let done = others(&from, kept.rank, at_once, false)? && last(Kind::HalfToReal, at_once, &from, &result, false)?;
    if done { scaled(to, scale) } else { Ok(false) }
}

/// Transforms the last `rank` dimensions, of which there are at most `DIMS`.
fn last(kind: Kind, rank: usize, from: &Side, to: &Side, forward: bool) -> Result<bool> {
    let (Some(operand), Some(result)) = (from.placing(rank), to.placing(rank)) else { return Ok(false) };
    let real = if kind == Kind::RealToHalf { from } else { to };
    let mut sizes = [1; DIMS];
    let first = real.layout.rank() - rank;
    real.layout.sizes[first..].iter().zip(&mut sizes).for_each(|(&own, size)| *size = own as i64);
    let double = to.tensor.dtype().to_real() == DType::F64;
    let shape = Shape { kind, double, rank, sizes, from: operand, to: result, count: to.count(rank) };
    run(&shape, from, to, forward, 1, 0)
}

/// Transforms row-major complex numbers in place along those of the last `rank` dimensions that come before the last `done`.
fn others(side: &Side, rank: usize, done: usize, forward: bool) -> Result<bool> {
    let sizes: Vec<i64> = side.layout.sizes.iter().map(|&size| size as i64).collect();
    let (first, mut end) = (sizes.len() - rank, sizes.len() - done);
    let double = side.tensor.dtype().to_real() == DType::F64;
    while end > first {
        let begin = end.saturating_sub(DIMS).max(first);
        let mut lengths = [1; DIMS];
        lengths[..end - begin].copy_from_slice(&sizes[begin..end]);
        let inner = sizes[end..].iter().product();
        let placing = Placing { embed: lengths, stride: inner, step: 1 };
        let rank = end - begin;
        let shape =
            Shape { kind: Kind::Complex, double, rank, sizes: lengths, from: placing, to: placing, count: inner };
        let outer = sizes[..begin].iter().product::<i64>();
        if !run(&shape, side, side, forward, outer as u64, (inner * lengths.iter().product::<i64>()) as u64)? {
            return Ok(false);
        }
        end = begin;
    }
    Ok(true)
}

/// Runs a plan at places that are this many elements apart.
fn run(shape: &Shape, from: &Side, to: &Side, forward: bool, places: u64, apart: u64) -> Result<bool> {
    let mut held = Held::on(&to.tensor)?;
    let [operand, result] = held.addresses([&from.tensor, &to.tensor])?;
    let apart = apart * to.tensor.dtype().size() as u64;
    let places = (0..places).map(|place| [operand + place * apart, result + place * apart]);
    // SAFETY: placings stay within the layouts, and so within the storages, which are held for the stream. The operand of a
    // transform to real numbers is a copy.
    unsafe { transform(held.card, held.stream, shape, forward, places) }
}

fn scaled(to: &Tensor, scale: f64) -> Result<bool> {
    if scale != 1.0 {
        Args::new(&MUL, [to.into(), Scalar::Float(scale).into()]).call_into(Target::InPlace)?;
    }
    Ok(true)
}
