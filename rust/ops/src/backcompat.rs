//! Warnings that a program may ask for where shapes meet otherwise than its author may think: `torch.utils.backcompat`.
//!
//! All are off until asked for; then a call costs one load of a number more, and another where its shapes differ.

use std::sync::atomic::{AtomicU8, Ordering};

use rushlight_core::broadcast::{broadcast, meeting_of};
use rushlight_core::layout::{Dims, Shape};
use rushlight_core::{Error, Result};

use crate::host::{Warning, warn, warn_of};
use crate::value::Args;

/// What broadcasting is watched for: `OLD_PROGRAMS`, and above it the level of strictness.
static WATCHED: AtomicU8 = AtomicU8::new(0);
/// What calls are watched for that leave an argument out: `KEEPDIM` and `DIM`.
static LEFT_OUT: AtomicU8 = AtomicU8::new(0);

/// The bit of `broadcast_warning`; the levels of `strict_broadcast` are the bits above.
const OLD_PROGRAMS: u8 = 1;
/// The bit of `keepdim_warning`.
const KEEPDIM: u8 = 1;
/// The bit of `ambiguous_reduction`.
const DIM: u8 = 2;

/// Turns the warnings on or off; `strict` is a level from 0, which is off, to 3.
pub fn set(broadcast: bool, keepdim: bool, ambiguous: bool, strict: u8) {
    WATCHED.store(strict << 1 | u8::from(broadcast), Ordering::Relaxed);
    LEFT_OUT.store((u8::from(keepdim) * KEEPDIM) | (u8::from(ambiguous) * DIM), Ordering::Relaxed);
}

/// The shape that two different shapes take together, once those who want to know about it have been told.
pub fn meet(operator: &'static str, a: &[isize], b: &[isize]) -> Result<Dims> {
    let meeting = broadcast(a, b)?;
    let watched = WATCHED.load(Ordering::Relaxed);
    // What derivatives broadcast is nobody's slip.
    if watched != 0 && a != b && !rushlight_autograd::engine::walking() {
        note(watched, operator, a, b, &meeting)?;
    }
    Ok(meeting)
}

#[cold]
fn note(watched: u8, operator: &'static str, a: &[isize], b: &[isize], meeting: &[isize]) -> Result<()> {
    let elements = |sizes: &[isize]| sizes.iter().product::<isize>();
    if watched & OLD_PROGRAMS != 0 && elements(a) == elements(b) {
        warn(&format!(
            "self and other do not have the same shape, but are broadcastable, and have the same number of elements. \
             Changing behavior in a backwards incompatible manner to broadcasting rather than viewing as 1-dimensional.\n\
             Here {a:?} and {b:?} make {meeting:?}."
        ))?;
    }
    let facts = meeting_of(a, b);
    // A pair of more risk is named from a lower level on.
    let level = match (facts.both_stretch, facts.implied && elements(a) == elements(b)) {
        (true, true) => 1,
        (true, false) => 2,
        // A single number with many has but one meaning.
        (false, _) => {
            if elements(a) == 1 || elements(b) == 1 {
                u8::MAX
            } else {
                3
            }
        }
    };
    if level <= watched >> 1 {
        let sentence = format!("strict_broadcast: {a:?} and {b:?} make {meeting:?}");
        let hint = match level {
            1 => {
                "Element by element? Give both the same shape first (squeeze, unsqueeze, reshape, or keepdim in a reduction)."
            }
            2 => {
                "Every element of one meets every element of the other. Meant so? `with strict_broadcast(0):` says it."
            }
            _ => "One is repeated to the other's shape. Meant so? `with strict_broadcast(0):` says it.",
        };
        let told = Error::runtime(sentence).operator(operator).shapes([a, b]).axis(facts.axis).hint(hint);
        warn(&told.to_string())?;
    }
    Ok(())
}

/// What a call has left to its defaults.
pub struct LeftOut {
    /// `dim` is given, and not whether to keep it.
    pub keepdim: bool,
    /// Other calls of this name take a `dim`.
    pub dim: bool,
}

/// Tells of a call that leaves out what it should say, where somebody wants to know.
#[inline]
pub fn note_left_out(args: &Args, left_out: impl FnOnce() -> LeftOut) -> Result<()> {
    match LEFT_OUT.load(Ordering::Relaxed) {
        0 => Ok(()),
        watched => tell(watched, args, &left_out()),
    }
}

#[cold]
fn tell(watched: u8, args: &Args, left_out: &LeftOut) -> Result<()> {
    // Once, the dimension was kept.
    if watched & KEEPDIM != 0 && left_out.keepdim {
        warn(
            "backwards compatibility: call uses default value for keepdim which has changed default to False. \
             Consider passing as kwarg.",
        )?;
    }
    if watched & DIM != 0 && left_out.dim {
        let mut tensors = args.each_tensor();
        // Of two tensors the second says what to do.
        if let (Some((_, only)), None) = (tensors.next(), tensors.next())
            && only.rank() > 1
        {
            let (name, shape) = (args.row.python_name(), Shape(only.sizes()));
            warn_of(
                &format!("{name}() takes all dimensions of a tensor of shape {shape}: say which, as in dim=0"),
                Warning::AmbiguousReduction,
            )?;
        }
    }
    Ok(())
}
