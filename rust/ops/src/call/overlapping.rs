//! Changes in place of views whose elements share memory: `x.unfold(0, 2, 1).mul_(2)`.
//!
//! Like torch, operators that treat each element alone change one element after the other, so that what several elements
//! share is changed as often; its gradient is that of one change. An element that stands for many along a whole dimension,
//! as those of `expand` do, is refused.

use rushlight_autograd::Tensor;
use rushlight_autograd::modes::GradMode;
use rushlight_core::{Device, Error, Layout, Result};

use super::{Target, call_into};
use crate::mapped::Mapped;
use crate::mapped::each::replaced;
use crate::node::Change;
use crate::row::{Run, Traits};
use crate::value::{Args, Output};
use crate::variants::OVERLAPS;

/// Makes a call that was refused because elements share memory, where it can be made.
#[cold]
pub fn retry(args: &Args, in_place: bool, error: Error) -> Result<Output> {
    let target = || if in_place { Target::InPlace } else { Target::Fresh };
    let elementwise = match args.row.run {
        Run::Pointwise(_) => in_place,
        Run::Update(_) => in_place && matches!(args.row.mapped, Mapped::Aligned),
        // What is drawn depends on how much is drawn at once.
        Run::Overwrite(_) => !args.row.traits.has(Traits::DRAWS),
        _ => false,
    };
    let Ok(own) = args.tensor(0) else { return Err(error) };
    let stands_for_many = |(&size, &stride): (&isize, &isize)| size > 1 && stride == 0;
    let layout = own.layout();
    if !elementwise || error.sentence() != OVERLAPS || layout.sizes.iter().zip(&layout.strides).any(stands_for_many) {
        return Err(error);
    }
    let change = Change::begin(args)?;
    {
        let _off = GradMode::new(false);
        let slow = slow(layout);
        let count: isize = slow.iter().map(|&dim| layout.sizes[dim]).product();
        // Without memory, one part says all that there is to say about the arguments.
        let count = if own.device() == Device::Meta { count.min(1) } else { count };
        for number in 0..count {
            let place = place(number, &slow, &layout.sizes);
            let part = |tensor: &Tensor| -> Result<Tensor> {
                // A tensor without dimensions is a number among others.
                if tensor.rank() == 0 {
                    return Ok(tensor.clone());
                }
                let whole = tensor.layout().broadcast_to(&layout.sizes)?;
                let part = place.iter().fold(whole, |part, &(dim, at)| part.select(dim, at));
                Ok(Tensor::with_meta(tensor.meta_with(part)))
            };
            call_into(replaced(args, part)?, target())?;
        }
    }
    change.finish()
}

/// The dimensions along which parts must follow one another, so that no two elements of a part share memory: the slowest first.
fn slow(layout: &Layout) -> Vec<usize> {
    let mut dims: Vec<usize> = (0..layout.rank()).collect();
    dims.sort_by_key(|&dim| (layout.strides[dim].abs(), layout.sizes[dim]));
    let shares = |dims: &[usize]| {
        let of = |list: &[isize]| dims.iter().map(|&dim| list[dim]).collect();
        Layout { sizes: of(&layout.sizes), strides: of(&layout.strides), offset: 0 }.overlaps()
    };
    let fast = (1..=dims.len()).take_while(|&count| !shares(&dims[..count])).last().unwrap_or(0);
    dims.split_off(fast).into_iter().rev().collect()
}

/// Where the part of this number stands in the slow dimensions, the last dimension first.
fn place(mut number: isize, slow: &[usize], sizes: &[isize]) -> Vec<(usize, isize)> {
    let mut place = Vec::with_capacity(slow.len());
    for &dim in slow.iter().rev() {
        place.push((dim, number % sizes[dim]));
        number /= sizes[dim];
    }
    place.sort_unstable_by(|a, b| b.cmp(a));
    place
}
