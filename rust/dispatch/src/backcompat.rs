//! Optional warnings about calls that broadcast or reduce differently than their author may expect:
//! `torch.utils.backcompat`.
//!
//! All are off by default; then a call costs one more load of a number, and another if its shapes differ.

use std::sync::atomic::{AtomicU8, Ordering};

use rushlight_core::broadcast::{broadcast, broadcast_info};
use rushlight_core::layout::Shape;
use rushlight_core::{Dims, Error, Result};

use crate::interpreter::{Warning, warn, warn_of};
use crate::operator::Args;

/// The checks of broadcasting: `BROADCAST`, and above it the level of strictness.
static BROADCAST_CHECKS: AtomicU8 = AtomicU8::new(0);
/// The checks of omitted arguments: `KEEPDIM` and `DIM`.
static OMISSION_CHECKS: AtomicU8 = AtomicU8::new(0);

/// The bit of `broadcast_warning`; the levels of `strict_broadcast` are the bits above.
const BROADCAST: u8 = 1;
/// The bit of `keepdim_warning`.
const KEEPDIM: u8 = 1;
/// The bit of `ambiguous_reduction`.
const DIM: u8 = 2;

/// Turns the warnings on or off; `strict` is a level from 0, which is off, to 3.
pub fn set(broadcast: bool, keepdim: bool, ambiguous: bool, strict: u8) {
    BROADCAST_CHECKS.store(strict << 1 | u8::from(broadcast), Ordering::Relaxed);
    OMISSION_CHECKS.store((u8::from(keepdim) * KEEPDIM) | (u8::from(ambiguous) * DIM), Ordering::Relaxed);
}

/// The shape to which two different shapes broadcast; warns first if a check is on.
pub fn broadcast_with_warnings(operator: &'static str, a: &[isize], b: &[isize]) -> Result<Dims> {
    let meeting = broadcast(a, b)?;
    let checks = BROADCAST_CHECKS.load(Ordering::Relaxed);
    // Derivatives broadcast on purpose.
    if checks != 0 && a != b && !rushlight_autograd::engine::in_backward() {
        warn_of_broadcast(checks, operator, a, b, &meeting)?;
    }
    Ok(meeting)
}

#[cold]
fn warn_of_broadcast(checks: u8, operator: &'static str, a: &[isize], b: &[isize], meeting: &[isize]) -> Result<()> {
    let elements = |sizes: &[isize]| sizes.iter().product::<isize>();
    if checks & BROADCAST != 0 && elements(a) == elements(b) {
        warn(&format!(
            "self and other do not have the same shape, but are broadcastable, and have the same number of elements. \
             Changing behavior in a backwards incompatible manner to broadcasting rather than viewing as 1-dimensional.\n\
             Here {a:?} and {b:?} make {meeting:?}."
        ))?;
    }
    let info = broadcast_info(a, b);
    // A riskier pair is reported from a lower level on.
    let level = match (info.both_stretch, info.implied && elements(a) == elements(b)) {
        (true, true) => 1,
        (true, false) => 2,
        // A single number broadcast with many elements is unambiguous.
        (false, _) => {
            if elements(a) == 1 || elements(b) == 1 {
                u8::MAX
            } else {
                3
            }
        }
    };
    if level <= checks >> 1 {
        let sentence = format!("strict_broadcast: {a:?} and {b:?} make {meeting:?}");
        let hint = match level {
            1 => {
                "For an elementwise result give both the same shape first (squeeze, unsqueeze, reshape, or keepdim in a reduction)."
            }
            2 => {
                "Every element of one is combined with every element of the other. Use `with strict_broadcast(0):` if that is intended."
            }
            _ => "One is expanded to the other's shape. Use `with strict_broadcast(0):` if that is intended.",
        };
        let warning =
            Error::runtime(sentence).operator(operator).shapes([a, b]).from_right().axis(info.axis).hint(hint);
        warn(&warning.to_string())?;
    }
    Ok(())
}

/// The arguments that a call has omitted.
pub struct OmittedArguments {
    /// `dim` is given, but `keepdim` is not.
    pub keepdim: bool,
    /// Other calls of this name take a `dim`.
    pub dim: bool,
}

/// Warns about omitted arguments, if a check is on.
#[inline]
pub fn warn_of_omitted(args: &Args, left_out: impl FnOnce() -> OmittedArguments) -> Result<()> {
    match OMISSION_CHECKS.load(Ordering::Relaxed) {
        0 => Ok(()),
        checks => warn_of_omission(checks, args, &left_out()),
    }
}

#[cold]
fn warn_of_omission(checks: u8, args: &Args, left_out: &OmittedArguments) -> Result<()> {
    // In old versions of torch the dimension was kept.
    if checks & KEEPDIM != 0 && left_out.keepdim {
        warn(
            "backwards compatibility: call uses default value for keepdim which has changed default to False. \
             Consider passing as kwarg.",
        )?;
    }
    if checks & DIM != 0 && left_out.dim {
        let mut tensors = args.each_tensor();
        // With two tensors the second one determines what the call does.
        if let (Some((_, only)), None) = (tensors.next(), tensors.next())
            && only.rank() > 1
        {
            let (name, shape) = (args.op.python_name(), Shape(only.sizes()));
            warn_of(
                &format!(
                    "{name}() reduces all dimensions of a tensor of shape {shape}: name the dimension, as in dim=0"
                ),
                Warning::AmbiguousReduction,
            )?;
        }
    }
    Ok(())
}
