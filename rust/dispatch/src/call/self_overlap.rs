//! In-place changes of views whose elements share memory: `x.unfold(0, 2, 1).mul_(2)`.
//!
//! Like torch, elementwise operators change one element after the other, so that an element that several indices share
//! is changed as often; its gradient is that of one change. A dimension along which all indices share an element, as
//! with `expand`, is an error, unless a second change changes nothing.

use rushlight_autograd::Tensor;
use rushlight_autograd::modes::GradMode;
use rushlight_core::{Device, Error, Layout, Result};

use crate::node::InPlaceCall;
use crate::operator::{Args, BatchRule, Implementation, Tags};
use crate::overlap::OVERLAPS;
use crate::value::{Arg, Output, Target};

/// Carries out a call that failed because elements share memory, if that is possible.
#[cold]
pub fn retry(args: &Args, in_place: bool, error: Error) -> Result<Output> {
    let target = || if in_place { Target::InPlace } else { Target::Fresh };
    let elementwise = match args.op.implementation {
        Implementation::Pointwise(_) => in_place,
        Implementation::Update(_) => in_place && matches!(args.op.batch_rule, BatchRule::Broadcast),
        // The random numbers depend on how many are drawn at once.
        Implementation::InPlaceFill(_) => !args.op.tags.has(Tags::RANDOM),
        _ => false,
    };
    let Ok(own) = args.tensor(Arg::FIRST) else { return Err(error) };
    let layout = own.layout();
    let expanded: Vec<usize> = layout.expanded().collect();
    let refused = !expanded.is_empty() && !args.op.tags.has(Tags::IDEMPOTENT);
    if !elementwise || error.sentence() != OVERLAPS || refused {
        return Err(error);
    }
    let seen_once = |layout: &Layout| expanded.iter().fold(layout.clone(), |part, &dim| part.slice(dim, 0, 1, 1));
    let change = InPlaceCall::begin(args)?;
    {
        let _off = GradMode::new(false);
        let slow = slow(&seen_once(layout));
        let count: isize = slow.iter().map(|&dim| layout.sizes[dim]).product();
        // Without memory, one part is enough to check the arguments.
        let count = if own.device() == Device::Meta { count.min(1) } else { count };
        for number in 0..count {
            let place = place(number, &slow, &layout.sizes);
            let part = |tensor: &Tensor| -> Result<Tensor> {
                // A 0-d tensor is treated as a number.
                if tensor.rank() == 0 {
                    return Ok(tensor.clone());
                }
                let whole = seen_once(&tensor.layout().broadcast_to(&layout.sizes)?);
                let part = place.iter().fold(whole, |part, &(dim, at)| part.select(dim, at));
                Ok(Tensor::with_meta(tensor.meta_with(part)))
            };
            args.replaced(part)?.call_into(target())?;
        }
    }
    change.finish()
}

/// The dimensions along which parts must be processed in sequence, so that no two elements of a part share memory: the
/// slowest first.
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

/// The position of part `number` along the slow dimensions, the last dimension first.
fn place(mut number: isize, slow: &[usize], sizes: &[isize]) -> Vec<(usize, isize)> {
    let mut place = Vec::with_capacity(slow.len());
    for &dim in slow.iter().rev() {
        place.push((dim, number % sizes[dim]));
        number /= sizes[dim];
    }
    place.sort_unstable_by(|a, b| b.cmp(a));
    place
}
