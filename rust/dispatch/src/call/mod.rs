//! The steps of a call, in one order for every operator: check devices, promote, broadcast, infer the shape, allocate,
//! run, record for backward. Elementwise operators (`pointwise`) take all of them. A kernel (`kernels`) promotes and
//! broadcasts in its own shape function. A view (`views`) computes a layout and records.
//!
//! Before the steps, the interceptors in `INTERCEPTORS` run in their order, each only if its mode is in use or an operand
//! has its form (`interceptors`). The order matters: handlers of `__torch_dispatch__` come first, and
//! leave a call that mixed precision changes to the call with the cast operands; mixed precision sees the operands as the
//! user gave them and starts the call again with the cast ones; quantised operands are handled before anything reads their dtype, which is that of
//! their integers; an operator raises its own errors before anything is copied and before its tensors
//! are taken apart; random numbers inside a `vmap` are handled before batched operands. The last two interceptors wrap
//! the steps and make no other call. A call that starts again passes all interceptors again.
//!
//! Small pointwise calls try the fast path (`fast_path`) if no interceptor applies. It is tried once.

mod checks;
mod destination;
pub mod devices;
pub mod errors;
mod generators;
mod handled;
mod kernels;
pub mod lazy_conj;
mod numbers;
pub mod on_host;
mod pointwise;
pub mod pointwise_operands;
pub mod resolve_conj;
mod self_overlap;
mod temporaries;
pub mod through_copy;
mod truncated;
pub mod two_devices;
mod views;

use crate::value::{Arg, Operand, Output, Target, Value};
use rushlight_autograd::Tensor;
use rushlight_core::alloc::out_of_memory;
use rushlight_core::file_map::truncations;
use rushlight_core::{Error, Result, reserve};

use self::checks::checked;
use self::devices::check_devices;
use self::errors::with_context;
use crate::fast_path::{self, GilHeld};
use crate::interceptors::{self, Entry, Rest, Triggers};
use crate::operator::{Accepts, Args, Implementation, Operator, Tags};
use crate::variants::check_no_gradient;
use crate::{autocast, call_cache, create, node, profile, quantized, sparse, subgraph, vmap};

static INTERCEPTORS: [Entry; 10] = [
    Entry(Triggers::PYTHON, handled::intercept),
    Entry(Triggers::AUTOCAST, autocast::intercept),
    Entry(Triggers::QUANTIZED, quantized::intercept),
    Entry(Triggers::ANY, check),
    Entry(Triggers::VMAP, vmap::random::intercept),
    Entry(Triggers::SPARSE, sparse::intercept),
    Entry(Triggers::LAZY_CONJ, lazy_conj::intercept),
    Entry(Triggers::BATCHED, vmap::intercept),
    Entry(Triggers::PROFILER, profile::intercept),
    Entry(Triggers::PYTHON, call_cache::intercept),
];

impl Args<'_> {
    /// Calls the operator for a fresh result.
    #[inline]
    pub fn call(self) -> Result<Output> {
        self.call_into(Target::Fresh)
    }

    /// Calls the operator for a result at `target`.
    pub fn call_into(self, target: Target) -> Result<Output> {
        begin(self, target, false)
    }
}

impl Operator {
    /// Calls the operator from Rust.
    #[inline]
    pub fn call<const N: usize>(&'static self, values: [Value; N]) -> Result<Output> {
        Args::new(self, values).call()
    }

    /// Calls an operator that returns one tensor.
    #[inline]
    pub fn tensor<const N: usize>(&'static self, values: [Value; N]) -> Result<Tensor> {
        self.call(values)?.into_tensor()
    }

    /// `x op y`; the operator's other arguments take their defaults.
    #[inline]
    pub fn binary(&'static self, x: Operand, y: Operand, gil: Option<GilHeld>) -> Result<Tensor> {
        let arguments = || Args::new(self, [x.into(), y.into()]);
        let mut declined = false;
        if let Implementation::Pointwise(body) = &self.implementation
            && interceptors::active(self).is_empty()
            && (self.check.is_none() || fast_path::is_unchecked(self, x) && fast_path::is_unchecked(self, y))
        {
            let attempted = fast_path::attempt(self, body, &[x, y], &self.schema().numbers, None, gil);
            if let Some(result) = attempted.map_err(|error| with_context(error, &arguments(), false))? {
                let tracked = |operand: Operand| matches!(operand, Operand::Tensor(tensor) if tensor.is_tracked());
                if (tracked(x) || tracked(y)) && rushlight_autograd::modes::recording() {
                    let output = Output::Tensor(result);
                    node::record_node(&arguments(), &output)?;
                    return output.into_tensor();
                }
                return Ok(result);
            }
            declined = true;
        }
        begin(arguments(), Target::Fresh, declined)?.into_tensor()
    }
}

/// Carries out a call; `declined` is true if the fast path was tried.
fn begin(args: Args, target: Target, declined: bool) -> Result<Output> {
    // The allocation of a node, of a view or of an empty tensor cannot fail, so the reserve is checked here.
    if !reserve::hold() {
        return Err(out_of_memory(0));
    }
    let active = interceptors::active(args.op) | interceptors::forms(&args, &target);
    if !active.is_empty() {
        return intercepted(args, target, active);
    }
    let target = checked(&args, target)?;
    take_steps(args, target, declined)
}

#[cold]
fn intercepted(args: Args, target: Target, active: Triggers) -> Result<Output> {
    let end = |args: Args, target: Target| take_steps(args, target, false);
    Rest { list: &INTERCEPTORS, active, end }.call(args, target)
}

/// `checked` among the interceptors.
fn check(args: Args, target: Target, rest: Rest) -> Result<Output> {
    let target = checked(&args, target)?;
    rest.call(args, target)
}

// In both callers, so that `args` stays where it is: a copy costs as much as the lookup of a kernel.
#[inline(always)]
fn take_steps(args: Args, target: Target, declined: bool) -> Result<Output> {
    if let Implementation::Delegate(choose) = args.op.implementation {
        return delegate(choose, args, target);
    }
    if args.op.tags.has(Tags::RANDOM)
        && let Some(args) = generators::completed(&args).map_err(|error| error.operator(args.op.display_name(false)))?
    {
        return args.call_into(target);
    }
    let in_place = matches!(target, Target::InPlace);
    let output = execute(&args, target, declined);
    let output =
        if truncations() > 0 { output.and_then(|output| truncated::check_intact(&args, output)) } else { output };
    output
        .or_else(|error| self_overlap::retry(&args, in_place, error))
        .map_err(|error| with_context(error, &args, in_place))
}

/// Calls the operator that another one chooses.
#[inline(never)]
fn delegate<'a>(choose: fn(Args<'a>) -> Result<Args<'a>>, args: Args<'a>, target: Target) -> Result<Output> {
    let (op, in_place) = (args.op, matches!(target, Target::InPlace));
    if let Target::Out([first, ..]) = target {
        check_no_gradient(&args, first)?; // under the name of the called operator
    }
    let own = in_place.then(|| args.tensor(Arg::FIRST).cloned()).transpose()?;
    let chosen = choose(args).map_err(|error| error.operator(op.display_name(in_place)))?;
    if let (Target::Out([first, ..]), Accepts::Same, Some((_, operand))) =
        (&target, op.out.accepts, chosen.each_tensor().next())
    {
        op.out.check(&chosen, 0, operand.dtype(), first.dtype())?;
    }
    if let Some(own) = own {
        let base = chosen.tensor(Arg::FIRST)?;
        if !base.ptr_eq(&own) {
            return Err(Error::runtime(format!(
                "the base given to {}_ has dtype {} but the operation's result requires dtype {}",
                op.python_name(),
                own.dtype().display_name(),
                base.dtype().display_name()
            )));
        }
    }
    chosen.call_into(target).map_err(|error| error.called(op.display_name(in_place), Vec::new(), false))
}

#[inline(always)]
fn execute(args: &Args, target: Target, declined: bool) -> Result<Output> {
    match (&args.op.implementation, target) {
        (Implementation::Pointwise(body), target) => pointwise::pointwise(body, args, target, declined),
        (Implementation::Kernel(body), Target::Fresh) => {
            kernels::kernel(body, args).and_then(|output| create::in_asked_memory(args, output))
        }
        (Implementation::Update(body), target) => kernels::update(body, args, target),
        (Implementation::View(layout), Target::Fresh) => views::view(*layout, args),
        (Implementation::View(layout), Target::InPlace) => views::reshape_in_place(*layout, args),
        (Implementation::ViewDtype(form), Target::Fresh) => views::retype(*form, args),
        (Implementation::MultiView(layouts), Target::Fresh) => views::views(*layouts, args),
        (Implementation::CompositeImplicit(body), Target::Fresh) => {
            // What the body refuses itself comes first.
            let apart = check_devices(args).err();
            if let Some(error) = apart.as_ref().filter(|_| two_devices::is_checked_first(args.op)) {
                return Err(error.clone());
            }
            let output = subgraph::compose(*body, args)?;
            apart.map_or(Ok(output), Err)
        }
        (Implementation::ExplicitAutograd(body), Target::Fresh) => kernels::explicit_autograd(body, args),
        (Implementation::InPlaceFill(body), Target::Fresh) => kernels::in_place_fill(body, args),
        (implementation, target) => {
            if matches!(implementation, Implementation::CompositeImplicit(_))
                && let Err(error) = check_devices(args)
                && two_devices::is_checked_first(args.op)
            {
                return Err(error);
            }
            through_copy::through_copy(args, target)
        }
    }
}
