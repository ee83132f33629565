//! How a call handles quantised operands (`Form::Quantized`).
//!
//! Views pass the form on, and composite operators leave it to their parts. Some operators have another body, which the
//! crate of the operators lists (`Primitives::quantized`); for all others a call raises an error.

use std::sync::Arc;

use rushlight_autograd::{Form, Quantizer, Tensor, TensorMeta};
use rushlight_core::{DType, Error, Layout, Result};

use crate::copy::copy;
use crate::interceptors::Rest;
use crate::node;
use crate::operator::{Args, Implementation, Tags, TensorSpec};
use crate::primitives::{QuantizedBody, primitives};
use crate::unsupported::unsupported_by;
use crate::value::{Arg, Output, Target};
use crate::variants::check_out;

/// Makes a call with quantised tensors, unless its operator runs as it is.
#[cold]
pub fn intercept(args: Args, target: Target, rest: Rest) -> Result<Output> {
    let op = args.op;
    let in_place = matches!(target, Target::InPlace);
    let makes_dtypes = op.schema().arg("dtype").is_some();
    let called = match (body(&args)?, &op.implementation, target) {
        (Some(body), Implementation::InPlaceFill(_), _) => body(&args),
        (Some(body), _, Target::Fresh) => body(&args),
        (Some(body), _, Target::InPlace) => changed(&args, body),
        (Some(body), _, Target::Out([out])) => written(&args, body, out),
        (None, Implementation::View(layout), Target::Fresh) => view(&args, *layout),
        (None, Implementation::MultiView(layouts), Target::Fresh) => views(&args, *layouts),
        // Their parts would take the integers' dtype.
        (None, Implementation::CompositeImplicit(_) | Implementation::Delegate(_), _) if makes_dtypes => {
            Err(unsupported(&args))
        }
        (
            None,
            Implementation::View(_) | Implementation::CompositeImplicit(_) | Implementation::Delegate(_),
            target,
        ) => {
            return rest.call(args, target);
        }
        _ => Err(unsupported(&args)),
    };
    called.map_err(|error| error.operator(op.display_name(in_place)))
}

/// The listed body of an operator.
fn body(args: &Args) -> Result<Option<QuantizedBody>> {
    let list = primitives()?.quantized.bodies;
    Ok(list.iter().find(|(own, _)| std::ptr::eq(*own, args.op)).map(|(_, body)| *body))
}

const ON_NUMBERS: &str = "Use x.dequantize() for the numbers, and quantise the result again.";

/// torch's name of the dtype of a tensor, which may be quantised, in errors.
fn name_of_dtype(tensor: &Tensor) -> &'static str {
    match (tensor.is_quantized(), tensor.dtype()) {
        (true, DType::U8) => "QUInt8",
        (true, DType::I8) => "QInt8",
        (true, _) => "QInt32",
        (false, dtype) => dtype.display_name(),
    }
}

/// torch's error for an operator that does not support quantised tensors.
#[cold]
pub fn unsupported(args: &Args) -> Error {
    let of_pairs = matches!(args.op.implementation, Implementation::Pointwise(_)) && args.op.broadcasting().len() == 2;
    let operands: Vec<_> = args.each_tensor().map(|(_, tensor)| tensor).collect();
    if of_pairs && operands.len() == 1 {
        return Error::runtime(
            "empty_strided not supported on quantized tensors yet see https://github.com/pytorch/pytorch/issues/74540",
        )
        .hint(ON_NUMBERS);
    }
    if let (true, [a, b]) = (of_pairs, &*operands)
        && a.is_quantized() != b.is_quantized()
    {
        return Error::runtime(format!(
            "promoteTypes with quantized numbers is not handled yet; figure out what the correct rules should be, offending types: {} {}",
            name_of_dtype(a),
            name_of_dtype(b)
        ))
        .hint(ON_NUMBERS);
    }
    unsupported_by(&args.op.flat_name(), "QuantizedCPU")
}

/// The numbers that a quantised tensor stands for, as float32; any other tensor itself.
pub fn dequantized(tensor: &Tensor) -> Result<Tensor> {
    if tensor.is_quantized() { (primitives()?.quantized.dequantize)(tensor) } else { Ok(tensor.clone()) }
}

/// A quantised tensor takes the integers of a new result, which has the same quantizer.
fn changed(args: &Args, body: QuantizedBody) -> Result<Output> {
    let input = args.tensor(Arg::FIRST)?;
    let Some(quantizer) = input.quantizer() else {
        // The operator's own error, if it has one.
        body(args)?;
        return Err(unsupported(args));
    };
    crate::variants::check_writable(input)?;
    let result = body(args)?.into_tensor()?;
    if result.ptr_eq(input) {
        return Ok(Output::Tensor(result));
    }
    if result.quantizer().is_none_or(|of_result| **of_result != **quantizer) || result.sizes() != input.sizes() {
        return Err(unsupported(args));
    }
    copy(&input.integers(), &result.integers())?;
    input.bump_version();
    Ok(Output::Tensor(input.clone()))
}

/// `out=` takes the numbers of a new result; a quantised one keeps its own quantizer.
fn written(args: &Args, body: QuantizedBody, out: &Tensor) -> Result<Output> {
    let result = body(args)?.into_tensor()?;
    if result.is_quantized() && !out.is_quantized() {
        return Err(unsupported(args));
    }
    check_out(args, 0, out, &TensorSpec::like(&result))?;
    match out.quantizer() {
        Some(own) if result.quantizer().is_none_or(|of_result| **of_result != **own) => {
            (primitives()?.copy_)(out, &dequantized(&result)?)?;
        }
        Some(_) => copy(&out.integers(), &result.integers())?,
        None => copy(out, &result)?,
    }
    out.bump_version();
    Ok(Output::Tensor(out.clone()))
}

/// The quantizer of a view. With one scale it is the tensor's own; with a scale for each channel the view must keep the
/// channels' dimension.
fn viewed(args: &Args, input: &Tensor, layout: &Layout) -> Result<Form> {
    let form = input.meta().form.clone();
    let Form::Quantized(quantizer) = &form else { return Ok(form) };
    let Quantizer::PerChannel { scales, zero_points, axis } = &**quantizer else { return Ok(form) };
    if !args.op.tags.has(Tags::KEEPS_CHANNELS) {
        return Err(Error::runtime("Setting strides is possible only on uniformly quantized tensor"));
    }
    // The elements before the channels' dimension, and its size, say which one it is in the view.
    let outer = |layout: &Layout, end: usize| layout.sizes[..end].iter().product::<isize>();
    let same =
        |end: &usize| outer(layout, *end) == outer(input.layout(), *axis) && layout.sizes[*end] == input.sizes()[*axis];
    let Some(axis) = (0..layout.rank()).find(same) else {
        return Err(Error::runtime(format!(
            "length of scales must equal to channel, expected {} got, {}",
            layout.sizes.get(*axis).copied().unwrap_or(0),
            scales.numel()
        )));
    };
    let (scales, zero_points) = (scales.clone(), zero_points.clone());
    Ok(Form::Quantized(Arc::new(Quantizer::PerChannel { scales, zero_points, axis })))
}

fn view(args: &Args, layout: fn(&Args) -> Result<Layout>) -> Result<Output> {
    let layout = layout(args)?;
    let form = viewed(args, args.tensor(Arg::FIRST)?, &layout)?;
    view_with(args, layout, form)
}

/// A view of the first argument with another geometry and another quantizer.
pub fn view_with(args: &Args, layout: Layout, form: Form) -> Result<Output> {
    let input = args.tensor(Arg::FIRST)?;
    layout.checked_bytes(input.dtype().size())?;
    let meta = TensorMeta { form, ..input.meta_with(layout.clone()) };
    let replay = move |base: &Tensor| Ok(base.detach_as(base.meta_with(layout.clone())));
    node::record(args, Output::Tensor(Tensor::view_with(input, meta, Arc::new(replay))))
}

fn views(args: &Args, layouts: fn(&Args) -> Result<Vec<Layout>>) -> Result<Output> {
    let input = args.tensor(Arg::FIRST)?;
    let views = layouts(args)?.into_iter().map(|layout| {
        layout.checked_bytes(input.dtype().size())?;
        viewed(args, input, &layout)?;
        Ok(Tensor::view_of_many(input, layout))
    });
    Ok(Output::List(views.collect::<Result<_>>()?))
}
