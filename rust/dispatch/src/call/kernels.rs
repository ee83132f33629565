//! The steps of operators that have an algorithm or a body of their own.

use crate::value::{Arg, Output, Results, Target};
use rushlight_autograd::Tensor;
use rushlight_autograd::modes::GradMode;
use rushlight_core::{DType, Device, Error, Result};
use rushlight_cuda::tunable;

use super::devices::{Chosen, check_devices, select_kernel};
use super::errors::not_implemented;
use super::on_host;
use crate::allocate::allocate;
use crate::create::ask_gradient;
use crate::interpreter::{while_detached, while_waiting};
use crate::operator::{Args, ExplicitAutograd, InPlaceFill, Kernel, KernelFn, Tags, TensorSpec, Update};
use crate::overlap::{check_no_self_overlap, without_aliases};
use crate::variants::{check_in_place, check_out, check_writable};
use crate::{copy, node};

pub fn kernel(body: &Kernel, args: &Args) -> Result<Output> {
    let device = check_devices(args)?;
    // Errors of shapes are raised before those of dtypes.
    let mut specs = (body.infer)(args)?;
    check_stored(args)?;
    // A factory has no operand that determines the device.
    let device =
        if args.op.schema().options.is_some() { specs.first().map_or(device, |spec| spec.device) } else { device };
    let mut results = Results::new();
    // The operand that determines the shape may be a number on the host, beside others on a device.
    let is_mixed = !args.op.tags.has(Tags::MIXED_DEVICES) && !args.all_tensors(|tensor| tensor.device() == device);
    for spec in &mut specs {
        if is_mixed && spec.device == Device::Cpu {
            spec.device = device;
        }
        results.push(allocate(spec)?);
    }
    let chosen = select_kernel(args.op, device, body.cpu, body.cuda)?;
    let work = elements(results.iter().chain(args.each_tensor().map(|(_, tensor)| tensor)));
    let run = || fill(chosen, args, &results);
    // The first product of each geometry may be measured, however small it is.
    let may_measure = matches!(device, Device::Cuda(_)) && tunable::is_enabled();
    if may_measure {
        while_waiting(run)?
    } else {
        while_detached(work, run)?
    };
    if let (Some([.., wanted]), [result]) = (args.op.schema().options, results.as_slice()) {
        ask_gradient(result, args.optional_bool(wanted).unwrap_or(false))?;
    }
    node::record(args, args.op.gather(results))
}

/// Fills results by the chosen kernel.
pub fn fill(kernel: Chosen<KernelFn>, args: &Args, results: &[Tensor]) -> Result<()> {
    match kernel {
        Chosen::Here(kernel) => kernel(args, results),
        Chosen::OnHost(kernel) => on_host::fill(kernel, args, results),
        Chosen::Nowhere => Ok(()),
    }
}

/// Kernels choose their loops by dtype and would compute with a wider one: dtypes that are only stored are refused
/// here, unless the operator accepts them.
#[inline]
fn check_stored(args: &Args) -> Result<()> {
    if args.all_tensors(|tensor| !tensor.dtype().is_storage_only()) {
        return Ok(());
    }
    // The operand is converted to the dtype that the call asks for.
    if let Some(dtype) = args.op.schema().arg("dtype").and_then(|arg| args.dtype(arg))
        && args.op.dtypes.has(dtype)
    {
        return Ok(());
    }
    let refused = |dtype: DType| dtype.is_storage_only() && !args.op.dtypes.has(dtype);
    if args.op.tags.has(Tags::ANY_DTYPE_WITHOUT_ELEMENTS) && args.all_tensors(|tensor| tensor.numel() == 0) {
        return Ok(());
    }
    match args.each_tensor().map(|(_, tensor)| tensor.dtype()).find(|dtype| refused(*dtype)) {
        Some(dtype) => Err(not_implemented(args.op, dtype)),
        None => Ok(()),
    }
}

/// The number of elements that a kernel processes.
fn elements<'a>(tensors: impl Iterator<Item = &'a Tensor>) -> usize {
    tensors.fold(0, |sum: usize, tensor| sum.saturating_add(tensor.layout().numel()))
}

/// Changes a copy of the first argument, or the argument itself.
pub fn update(body: &Update, args: &Args, target: Target) -> Result<Output> {
    let device = check_devices(args)?;
    (body.check)(args)?;
    check_stored(args)?;
    let input = args.tensor(Arg::FIRST)?;
    let chosen = select_kernel(args.op, device, body.cpu, body.cuda)?;
    let run = |tensor: &Tensor| {
        let work = elements(args.each_tensor().map(|(_, tensor)| tensor));
        match &chosen {
            Chosen::Here(change) => {
                let without_aliases = without_aliases(args, tensor)?;
                while_detached(work, || change(without_aliases.as_ref().unwrap_or(args), tensor))
            }
            Chosen::OnHost(change) => while_detached(work, || on_host::change(*change, args, tensor)),
            Chosen::Nowhere => Ok(()),
        }
    };
    match target {
        Target::Fresh => {
            let result = copy::to_change(args.op, input)?;
            run(&result)?;
            node::record(args, Output::Tensor(result))
        }
        Target::InPlace => {
            let change = node::InPlaceCall::begin(args)?;
            check_in_place(args.op, input, input.sizes(), input.dtype())?;
            run(input)?;
            change.finish()
        }
        Target::Out(outs) => {
            let Some(out) = outs.first() else { return Err(Error::type_("out= needs a tensor")) };
            check_out(args, 0, out, &TensorSpec::like(input))?;
            if input.dtype() == out.dtype() && without_aliases(args, out)?.is_none() {
                copy::copy(out, input)?;
                run(out)?;
            } else {
                let result = copy::clone(input)?;
                run(&result)?;
                copy::copy(out, &result)?;
            }
            out.bump_version();
            Ok(Output::Tensor(out.clone()))
        }
    }
}

pub fn explicit_autograd(body: &ExplicitAutograd, args: &Args) -> Result<Output> {
    let device = check_devices(args)?;
    check_stored(args)?;
    let chosen = select_kernel(args.op, device, body.cpu, body.cuda)?;
    let output = {
        let _off = GradMode::new(false);
        match chosen {
            Chosen::Here(compute) => compute(args)?,
            Chosen::OnHost(compute) => on_host::compute(compute, args, device)?,
            Chosen::Nowhere => (body.cpu)(args)?,
        }
    };
    node::record(args, output)
}

/// Runs a body that fills the first argument, between autograd's checks and its record.
pub fn in_place_fill(body: &InPlaceFill, args: &Args) -> Result<Output> {
    let device = check_devices(args)?;
    check_stored(args)?;
    let chosen = select_kernel(args.op, device, body.cpu, body.cuda)?;
    let input = args.tensor(Arg::FIRST)?;
    check_writable(input)?;
    let each = if args.op.tags.has(Tags::UNIFORM) && input.layout().expanded().next().is_some() {
        let layout = input.layout();
        let seen_once = layout.expanded().collect::<Vec<_>>().into_iter().rev();
        &Tensor::with_meta(input.meta_with(seen_once.fold(layout.clone(), |layout, dim| layout.select(dim, 0))))
    } else {
        input
    };
    check_no_self_overlap(each)?;
    let change = node::InPlaceCall::begin(args)?;
    match chosen {
        Chosen::Here(fill) => fill(args, each)?,
        Chosen::OnHost(fill) => on_host::change(fill, args, each)?,
        Chosen::Nowhere => (body.cpu)(args, each)?,
    }
    change.finish()
}
