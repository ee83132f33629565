//! The triggers of interceptors: modes of threads, and forms of operands, for which one may replace a call. The list of interceptors is
//! in `call`.
//!
//! One number holds which modes are in use in any thread. It is nearly always zero, and then a call costs one relaxed
//! load for all modes. Otherwise the operator's definition says which modes apply to it, and each interceptor checks the
//! mode of its own thread.

use std::ops::BitOr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use rushlight_autograd::Tensor;
use rushlight_core::Result;

use crate::operator::{Args, Autocast, Implementation, Operator, Tags};
use crate::value::{Output, Target};

/// A set of modes of threads, which `IN_USE` counts (the lowest four bits), and of forms of operands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Triggers(u8);

impl Triggers {
    pub const NONE: Triggers = Triggers(0);
    /// Mixed precision.
    pub const AUTOCAST: Triggers = Triggers(1);
    /// A `vmap`, which applies to random operators.
    pub const VMAP: Triggers = Triggers(2);
    /// Python code that handles calls: results kept for a checkpoint, and modes of `__torch_dispatch__`.
    pub const PYTHON: Triggers = Triggers(4);
    pub const PROFILER: Triggers = Triggers(8);
    /// The forms of operands that are not plain.
    pub const SPARSE: Triggers = Triggers(16);
    pub const LAZY_CONJ: Triggers = Triggers(32);
    pub const BATCHED: Triggers = Triggers(64);
    pub const QUANTIZED: Triggers = Triggers(128);
    pub const ANY: Triggers = Triggers(255);

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    const fn meets(self, other: Triggers) -> bool {
        self.0 & other.0 != 0
    }

    /// The mode's place in `IN_USE`.
    const fn place(self) -> u32 {
        self.0.trailing_zeros() * WIDTH
    }

    /// Counts one more entry of this mode.
    pub fn enter(self) {
        IN_USE.fetch_add(1 << self.place(), Relaxed);
    }

    /// Counts `count` fewer.
    pub fn leave(self, count: usize) {
        IN_USE.fetch_sub((count as u64) << self.place(), Relaxed);
    }

    /// Sets the count to zero.
    pub fn clear(self) {
        IN_USE.fetch_and(!(COUNT << self.place()), Relaxed);
    }

    /// Whether any thread is in this mode.
    #[inline]
    pub fn is_in_use(self) -> bool {
        IN_USE.load(Relaxed) & (COUNT << self.place()) != 0
    }
}

impl BitOr for Triggers {
    type Output = Triggers;
    fn bitor(self, other: Triggers) -> Triggers {
        Triggers(self.0 | other.0)
    }
}

/// How often each mode is entered, over all threads: a field of bits for each of the first four.
static IN_USE: AtomicU64 = AtomicU64::new(0);
/// How many threads use mixed precision on CUDA devices. Its lists of operators are not those of the definitions.
static ON_CUDA: AtomicUsize = AtomicUsize::new(0);
const WIDTH: u32 = 16;
const COUNT: u64 = (1 << WIDTH) - 1;

/// Counts a thread that begins or ends mixed precision on CUDA devices.
pub fn count_autocast_on_cuda(begins: bool) {
    if begins {
        ON_CUDA.fetch_add(1, Relaxed);
    } else {
        ON_CUDA.fetch_sub(1, Relaxed);
    }
}

/// The modes in use that apply to this operator.
#[inline]
pub fn active(op: &Operator) -> Triggers {
    match IN_USE.load(Relaxed) {
        0 => Triggers::NONE,
        in_use => active_among(op, in_use),
    }
}

#[cold]
fn active_among(op: &Operator, in_use: u64) -> Triggers {
    let applies = |mode: Triggers| match mode {
        Triggers::AUTOCAST => {
            op.autocast.cpu != Autocast::Unchanged
                || op.autocast.cuda != Autocast::Unchanged && ON_CUDA.load(Relaxed) > 0
        }
        Triggers::VMAP => op.tags.has(Tags::RANDOM),
        // They apply to the operator that it calls instead.
        _ => !matches!(op.implementation, Implementation::Delegate(_)),
    };
    let modes = [Triggers::AUTOCAST, Triggers::VMAP, Triggers::PYTHON, Triggers::PROFILER].into_iter();
    let active = modes.filter(|&mode| in_use & (COUNT << mode.place()) != 0 && applies(mode));
    active.fold(Triggers::NONE, Triggers::bitor)
}

/// The forms of a call's tensors; none where their elements are what is stored, as they nearly always are.
#[inline]
pub fn forms(args: &Args, target: &Target) -> Triggers {
    let all_plain = args.all_tensors(Tensor::is_plain)
        && !matches!(target, Target::Out(outs) if !outs.iter().all(Tensor::is_plain));
    if all_plain { Triggers::NONE } else { forms_of(args, target) }
}

#[cold]
fn forms_of(args: &Args, target: &Target) -> Triggers {
    let outs = match target {
        Target::Out(outs) => *outs,
        _ => &[],
    };
    let form = |tensor: &Tensor| match tensor {
        tensor if tensor.is_sparse() => Triggers::SPARSE,
        tensor if tensor.is_lazy_conj() => Triggers::LAZY_CONJ,
        tensor if tensor.is_batched() => Triggers::BATCHED,
        tensor if tensor.is_quantized() => Triggers::QUANTIZED,
        tensor if tensor.is_wrapper() => Triggers::PYTHON,
        _ => Triggers::NONE,
    };
    args.each_tensor().map(|(_, tensor)| tensor).chain(outs).map(form).fold(Triggers::NONE, Triggers::bitor)
}

/// Makes the call, or another one instead, or passes it on to the rest.
pub type Interceptor = for<'a> fn(Args<'a>, Target<'_>, Rest) -> Result<Output>;

/// An interceptor, and its triggers.
pub struct Entry(pub Triggers, pub Interceptor);

/// The interceptors that a call has not passed yet, and the function after the last one.
#[derive(Clone, Copy)]
pub struct Rest {
    pub list: &'static [Entry],
    pub active: Triggers,
    pub end: for<'a> fn(Args<'a>, Target<'_>) -> Result<Output>,
}

impl Rest {
    /// Passes the call to the next interceptor that has one of its triggers, and after the last to `end`.
    pub fn call(self, args: Args, target: Target) -> Result<Output> {
        let mut list = self.list;
        while let [Entry(triggers, intercept), behind @ ..] = list {
            list = behind;
            if triggers.meets(self.active) {
                return intercept(args, target, Rest { list, ..self });
            }
        }
        (self.end)(args, target)
    }
}
