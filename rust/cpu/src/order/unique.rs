//! Unique elements or slices.

use rushlight_core::Result;
use rushlight_core::alloc::{filled, list};

use super::{Ranked, Sortable};

/// Runs of equal elements: the first index of each, its length, and the run of each element.
pub struct Runs {
    pub firsts: Vec<i64>,
    pub lengths: Vec<i64>,
    pub runs: Vec<i64>,
}

/// The runs of `n` contiguous elements, sorted or in their order; NaN equals nothing. `runs` only if `inverse`.
///
/// # Safety
/// `from` holds `n` elements.
pub unsafe fn distinct<T: Sortable>(from: *const T, n: usize, sorted: bool, inverse: bool) -> Result<Runs> {
    // SAFETY: guaranteed by the caller (see `# Safety`); unaligned because foreign memory may be.
    let element = |place: usize| unsafe { from.add(place).read_unaligned() };
    super::check_countable::<T>(n)?;
    let mut ranks = list(n)?;
    ranks.extend((0..n).map(|place| T::Ranked::new(element(place).key(), place)));
    if sorted {
        ranks.sort_unstable();
    }
    let fresh = |i: usize| !ranks[i].ties(ranks[i - 1]) || element(ranks[i].place()).is_nan();
    gather(n, inverse, |i| ranks[i].place(), fresh)
}

/// The runs of `n` slices of `width` contiguous elements, in lexicographic order, or in their order.
///
/// # Safety
/// `from` holds all slices.
pub unsafe fn distinct_slices<T: Sortable>(from: *const T, n: usize, width: usize, sorted: bool) -> Result<Runs> {
    let mut keys = list(n * width)?;
    // SAFETY: guaranteed by the caller (see `# Safety`); unaligned because foreign memory may be.
    keys.extend((0..n * width).map(|i| unsafe { from.add(i).read_unaligned() }.key()));
    let slice = |i: usize| &keys[i * width..(i + 1) * width];
    let mut order = list(n)?;
    order.extend(0..n);
    if sorted {
        // A stable sort would allocate memory.
        order.sort_unstable_by(|&a: &usize, &b: &usize| slice(a).cmp(slice(b)).then(a.cmp(&b)));
    }
    // SAFETY: as above. NaN equals nothing, so that a slice with one is a run of its own.
    let has_nan = |i: usize| (i * width..(i + 1) * width).any(|at| unsafe { from.add(at).read_unaligned() }.is_nan());
    gather(n, true, |i| order[i], |i| slice(order[i]) != slice(order[i - 1]) || has_nan(order[i]))
}

/// The runs, from the index of each element in its order and whether it differs from the previous one.
fn gather(n: usize, inverse: bool, place: impl Fn(usize) -> usize, fresh: impl Fn(usize) -> bool) -> Result<Runs> {
    let fresh = |i: usize| i == 0 || fresh(i);
    let count = (0..n).filter(|&i| fresh(i)).count();
    let (mut firsts, mut lengths) = (list(count)?, filled(0i64, count)?);
    let mut runs = filled(0i64, if inverse { n } else { 0 })?;
    for i in 0..n {
        if fresh(i) && firsts.len() < count {
            firsts.push(place(i) as i64);
        }
        lengths[firsts.len() - 1] += 1;
        if inverse {
            runs[place(i)] = firsts.len() as i64 - 1;
        }
    }
    Ok(Runs { firsts, lengths, runs })
}
