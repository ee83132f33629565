//! `repr(tensor)`: torch's text, character for character.
//!
//! First the elements that will be shown are visited to find one number format and one width for all. Then the text is
//! written: as many elements on a line as fit, and beyond the threshold only the edges of each dimension.

use std::sync::atomic::{AtomicI8, AtomicUsize, Ordering::Relaxed};

use pyo3::prelude::*;
use rushlight::{DType, Device, Layout, Scalar, Tensor};
use rushlight_autograd::Quantizer;
use rushlight_autograd::modes::current;
use rushlight_core::dtype::default_dtype;
use rushlight_core::{Class, Element, Error, Result, dispatch};
use rushlight_dispatch::copy::{on_host, readable};
use rushlight_dispatch::quantized::dequantized;
use rushlight_dispatch::vmap;

use crate::{attach, object};

static PRECISION: AtomicUsize = AtomicUsize::new(4);
static THRESHOLD: AtomicUsize = AtomicUsize::new(1000);
static EDGE_ITEMS: AtomicUsize = AtomicUsize::new(3);
static LINE_WIDTH: AtomicUsize = AtomicUsize::new(80);
/// Scientific notation: 1 always, 0 never, -1 if the numbers require it.
static SCIENTIFIC: AtomicI8 = AtomicI8::new(-1);

#[derive(Clone, Copy)]
struct Options {
    precision: usize,
    threshold: usize,
    edge: usize,
    width: usize,
    scientific: Option<bool>,
}

fn options() -> Options {
    Options {
        precision: PRECISION.load(Relaxed),
        threshold: THRESHOLD.load(Relaxed),
        edge: EDGE_ITEMS.load(Relaxed),
        width: LINE_WIDTH.load(Relaxed),
        scientific: match SCIENTIFIC.load(Relaxed) {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        },
    }
}

#[pyfunction]
pub fn _set_print_options(
    precision: usize,
    threshold: usize,
    edgeitems: usize,
    linewidth: usize,
    sci_mode: Option<bool>,
) {
    PRECISION.store(precision.min(300), Relaxed);
    THRESHOLD.store(threshold, Relaxed);
    EDGE_ITEMS.store(edgeitems, Relaxed);
    LINE_WIDTH.store(linewidth, Relaxed);
    SCIENTIFIC.store(sci_mode.map_or(-1, i8::from), Relaxed);
}

/// A float as C prints it with `%.*f`.
fn fixed(value: f64, precision: usize) -> String {
    if value.is_nan() { "nan".into() } else { format!("{value:.precision$}") }
}

/// A float as C prints it with `%.*e`.
fn scientific(value: f64, precision: usize) -> String {
    if !value.is_finite() {
        return fixed(value, precision);
    }
    let text = format!("{value:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
    format!("{digits}e{sign}{exponent:0>2}")
}

/// The number format of one tensor (of a complex one: of its real or its imaginary parts).
struct Format {
    floating: bool,
    /// Whether all numbers are integers: a point then marks them as floats.
    whole: bool,
    scientific: bool,
    width: usize,
    precision: usize,
}

impl Format {
    fn of(values: &[Scalar], floating: bool, options: Options) -> Format {
        let precision = options.precision;
        let mut format = Format { floating, whole: true, scientific: false, width: 1, precision };
        if !floating {
            format.width = values.iter().map(|value| plain(*value).len()).fold(1, usize::max);
            return format;
        }
        let finite = values.iter().map(|value| value.f64()).filter(|value| value.is_finite() && *value != 0.0);
        let finite: Vec<f64> = finite.collect();
        if finite.is_empty() {
            return format;
        }
        let least = finite.iter().fold(f64::INFINITY, |least, value| least.min(value.abs()));
        let most = finite.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
        format.whole = finite.iter().all(|value| *value == value.ceil());
        format.scientific = options.scientific.unwrap_or(most / least > 1000.0 || most > 1e8 || least < 1e-4);
        let width = |value: &f64| match (format.scientific, format.whole) {
            (true, _) => scientific(*value, precision).len(),
            (false, true) => fixed(*value, 0).len() + 1,
            (false, false) => fixed(*value, precision).len(),
        };
        format.width = finite.iter().map(width).fold(1, usize::max);
        format
    }

    fn write(&self, value: Scalar) -> String {
        let text = if !self.floating {
            plain(value)
        } else {
            let value = value.f64();
            match (self.scientific, self.whole) {
                (true, _) => scientific(value, self.precision),
                (false, true) if value.is_finite() => fixed(value, 0) + ".",
                (false, true) => fixed(value, 0),
                (false, false) => fixed(value, self.precision),
            }
        };
        format!("{text:>width$}", width = self.width)
    }
}

fn plain(value: Scalar) -> String {
    match value {
        Scalar::Bool(true) => "True".into(),
        Scalar::Bool(false) => "False".into(),
        Scalar::UInt(value) => value.to_string(),
        other => other.i64().to_string(),
    }
}

/// State while a tensor is formatted.
struct Writer<'a> {
    read: &'a dyn Fn(isize) -> Scalar,
    options: Options,
    summarize: bool,
    real: Format,
    imaginary: Option<Format>,
}

/// The indices of a dimension that are shown: all, or the edges.
fn shown(size: isize, summarize: bool, edge: usize) -> (std::ops::Range<isize>, std::ops::Range<isize>) {
    let edge = edge as isize;
    if summarize && size > 2 * edge { (0..edge, size - edge..size) } else { (0..size, size..size) }
}

/// The values that decide the format.
fn collect(layout: &Layout, dim: usize, offset: isize, summarize: bool, edge: usize, visit: &mut dyn FnMut(isize)) {
    if dim == layout.rank() {
        return visit(offset);
    }
    if summarize && edge == 0 && layout.rank() - dim > 1 {
        return;
    }
    // A vector without edges is visited as a whole, as in torch.
    let vector = dim + 1 == layout.rank() && edge == 0;
    let (first, last) = shown(layout.sizes[dim], summarize && !vector, edge);
    for place in first.chain(last) {
        collect(layout, dim + 1, offset + place * layout.strides[dim], summarize, edge, visit);
    }
}

impl Writer<'_> {
    fn element(&self, offset: isize) -> String {
        let value = (self.read)(offset);
        let Some(imaginary) = &self.imaginary else { return self.real.write(value) };
        let value = value.complex();
        let real = self.real.write(Scalar::Float(value.re));
        let imaginary = imaginary.write(Scalar::Float(value.im)) + "j";
        let imaginary = imaginary.trim_start();
        let sign = if imaginary.starts_with(['+', '-']) { "" } else { "+" };
        format!("{real}{sign}{imaginary}")
    }

    fn vector(&self, size: isize, stride: isize, offset: isize, indent: usize) -> String {
        let edge = self.options.edge;
        let element = self.real.width + 2 + self.imaginary.as_ref().map_or(0, |format| format.width + 1);
        let per_line = (self.options.width.saturating_sub(indent) / element).max(1);
        let texts: Vec<String> = if self.summarize && edge == 0 {
            vec!["...".into()]
        } else {
            let (first, last) = shown(size, self.summarize, edge);
            let gap = (first.end < last.start).then(|| " ...".to_owned());
            let text = |place: isize| self.element(offset + place * stride);
            first.map(text).chain(gap).chain(last.map(text)).collect()
        };
        let lines: Vec<String> = texts.chunks(per_line).map(|line| line.join(", ")).collect();
        format!("[{}]", lines.join(&format!(",\n{}", " ".repeat(indent + 1))))
    }

    fn nested(&self, layout: &Layout, dim: usize, offset: isize, indent: usize) -> String {
        let left = layout.rank() - dim;
        match left {
            0 => return self.element(offset),
            1 => return self.vector(layout.sizes[dim], layout.strides[dim], offset, indent),
            _ => {}
        }
        let (first, last) = shown(layout.sizes[dim], self.summarize, self.options.edge);
        let gap = (first.end < last.start).then(|| "...".to_owned());
        let text = |place: isize| self.nested(layout, dim + 1, offset + place * layout.strides[dim], indent + 1);
        let texts: Vec<String> = first.map(text).chain(gap).chain(last.map(text)).collect();
        format!("[{}]", texts.join(&format!(",{}{}", "\n".repeat(left - 1), " ".repeat(indent + 1))))
    }
}

/// The text of the elements in brackets, or dots if there is no memory with elements. An error if a GPU has failed, or memory for a
/// copy is missing.
fn elements(tensor: &Tensor, indent: usize) -> Result<String> {
    if tensor.numel() == 0 {
        return Ok("[]".into());
    }
    let options = options();
    let summarize = tensor.numel() > options.threshold;
    let tensor = match on_host(tensor).and_then(|tensor| readable(&tensor)) {
        Ok(tensor) => tensor,
        Err(error) => return without_elements(error),
    };
    let layout = tensor.layout();
    let pin = match tensor.storage().pin() {
        Ok(pin) => pin,
        Err(error) => return without_elements(error),
    };
    let read = |offset: isize| -> Scalar {
        dispatch!(tensor.dtype(), T in all => {
            // SAFETY: only offsets within the layout are used; foreign memory may be unaligned.
            unsafe { pin.as_ptr().cast::<T>().offset(offset).read_unaligned() }.to_scalar()
        })
    };
    let mut values = Vec::new();
    collect(layout, 0, layout.offset, summarize, options.edge, &mut |offset| values.push(read(offset)));
    let (real, imaginary) = if tensor.dtype().is_complex() {
        let part = |part: fn(Scalar) -> f64| values.iter().map(|v| Scalar::Float(part(*v))).collect::<Vec<_>>();
        let (real, imaginary) = (part(|value| value.complex().re), part(|value| value.complex().im));
        (Format::of(&real, true, options), Some(Format::of(&imaginary, true, options)))
    } else {
        (Format::of(&values, tensor.dtype().is_floating(), options), None)
    };
    let writer = Writer { read: &read, options, summarize, real, imaginary };
    Ok(writer.nested(layout, 0, layout.offset, indent))
}

fn without_elements(error: Error) -> Result<String> {
    match error.class() {
        Class::Accelerator | Class::DeviceMemory | Class::Memory => Err(error),
        _ => Ok("...".into()),
    }
}

/// `(2, 3)`, as Python prints a tuple.
fn tuple(sizes: &[isize]) -> String {
    let texts: Vec<String> = sizes.iter().map(isize::to_string).collect();
    if let [one] = texts.as_slice() { format!("({one},)") } else { format!("({})", texts.join(", ")) }
}

/// The text of a tensor whose class is called `class`.
pub fn text(class: &str, tensor: &Tensor) -> Result<String> {
    let prefix = format!("{class}(");
    let indent = prefix.len();
    let dtype = tensor.dtype();
    let default = default_dtype();
    let mut suffixes = Vec::new();
    if tensor.is_sparse() {
        return sparse(prefix, tensor);
    }
    if tensor.is_batched() {
        return batched(class, tensor);
    }
    if let Some(quantizer) = tensor.quantizer() {
        return quantized(prefix, tensor, quantizer);
    }
    if tensor.device() != Device::Cpu {
        suffixes.push(format!("device='{}'", tensor.device()));
    }
    let contents = if tensor.device() == Device::Meta {
        suffixes.push(format!("size={}", tuple(tensor.sizes())));
        if dtype != default {
            suffixes.push(format!("dtype={dtype}"));
        }
        "...".into()
    } else if tensor.numel() == 0 {
        if tensor.rank() != 1 {
            suffixes.push(format!("size={}", tuple(tensor.sizes())));
        }
        if dtype != default {
            suffixes.push(format!("dtype={dtype}"));
        }
        "[]".into()
    } else {
        if options().edge == 0 {
            suffixes.push(format!("size={}", tuple(tensor.sizes())));
        }
        let known = [default, default.to_complex(), DType::I64, DType::Bool];
        if !known.contains(&dtype) {
            suffixes.push(format!("dtype={dtype}"));
        }
        elements(tensor, indent)?
    };
    suffixes.extend(history(tensor));
    Ok(with_suffixes(prefix + &contents, &suffixes, indent))
}

/// The text of a quantised tensor: its numbers, and the parameters of its quantizer.
fn quantized(prefix: String, tensor: &Tensor, quantizer: &Quantizer) -> Result<String> {
    let indent = prefix.len();
    let contents = match dequantized(tensor) {
        Ok(numbers) => elements(&numbers, indent)?,
        Err(error) => without_elements(error)?,
    };
    let mut suffixes = vec![
        format!(
            "size={}",
            match tensor.rank() {
                0 => "()".into(),
                _ => tuple(tensor.sizes()),
            }
        ),
        format!("dtype=torch.q{}", tensor.dtype().name()),
        format!("quantization_scheme=torch.{}", scheme_name(quantizer)),
    ];
    match quantizer {
        Quantizer::PerTensor { scale, zero_point } => {
            suffixes.push(format!("scale={}", python_float(*scale)));
            suffixes.push(format!("zero_point={zero_point}"));
        }
        Quantizer::PerChannel { scales, zero_points, axis } => {
            suffixes.push(format!("scale={}", text("tensor", scales)?));
            suffixes.push(format!("zero_point={}", text("tensor", zero_points)?));
            suffixes.push(format!("axis={axis}"));
        }
    }
    Ok(with_suffixes(prefix + &contents, &suffixes, indent))
}

/// A float as Python writes it.
fn python_float(value: f64) -> String {
    attach::acquire(|py| value.into_pyobject(py)?.repr()?.extract::<String>())
        .unwrap_or_else(|_: Error| value.to_string())
}

/// The text of a batched tensor: all samples, with the hidden dimensions first.
fn batched(class: &str, tensor: &Tensor) -> Result<String> {
    let (shown, axes) = vmap::all_physical(tensor);
    let mut text = text(class, &shown)?;
    for number in 1..=axes.len() {
        let inner = text.replace('\n', "\n    ");
        text = format!("BatchedTensor(lvl={number}, bdim=0, value=\n    {inner}\n)");
    }
    Ok(text)
}

/// The suffixes for a tensor's history: its own, and the tangent of a dual tensor.
fn history(tensor: &Tensor) -> impl Iterator<Item = String> {
    let tangent = (current().tangents && tensor.is_tracked()).then(|| {
        attach::acquire(|py| {
            let dual = object::wrap_bound(py, tensor.clone())?;
            let found = py.import("rushlight.autograd.forward_ad")?.call_method1("unpack_dual", (dual,))?;
            let tangent = found.getattr("tangent")?;
            if tangent.is_none() {
                Ok(None)
            } else {
                Ok(Some(format!("tangent={}", tangent.call_method1("__format__", ("",))?)))
            }
        })
    });
    // A tangent that cannot be computed is not shown.
    let tangent = tangent.and_then(|tangent: Result<_>| tangent.ok().flatten());
    source_location(tensor).into_iter().chain(tangent)
}

fn source_location(tensor: &Tensor) -> Option<String> {
    match tensor.grad_fn() {
        Err(_) => Some("grad_fn=<Invalid>".into()),
        Ok(Some(node)) => Some(format!("grad_fn=<{}>", node.short_name())),
        Ok(None) => tensor.requires_grad().then(|| "requires_grad=True".into()),
    }
}

/// The text of a sparse tensor: its parts on separate lines, and the suffixes.
fn sparse(prefix: String, tensor: &Tensor) -> Result<String> {
    let (layout, size) = (tensor.python_layout(), format!("size={}", tuple(tensor.sizes())));
    let (parts, count) = match (tensor.parts(), tensor.compressed_parts()) {
        (Some(own), _) => {
            let count = own.indices.sizes()[1];
            (vec![("indices", own.indices.clone()), ("values", own.values.clone())], count)
        }
        (None, Some(own)) => {
            let [compressed, plain] = own.format.index_names();
            let indices = [(compressed, own.compressed.clone()), (plain, own.plain.clone())];
            (indices.into_iter().chain([("values", own.values.clone())]).collect(), own.count())
        }
        (None, None) => (Vec::new(), 0),
    };
    let indent = prefix.len();
    let without_data = tensor.device() == Device::Meta;
    let part = |name: &str, part: &Tensor| -> Result<String> {
        let head = format!("{name}=tensor(");
        let column = indent + head.len();
        let mut own = Vec::new();
        if without_data || part.numel() == 0 {
            own.push(format!("size={}", tuple(part.sizes())));
        }
        let contents = if without_data { "...".into() } else { elements(part, column)? };
        Ok(with_suffixes(head + &contents, &own, column))
    };
    let gap = format!(",\n{}", " ".repeat(indent));
    let mut text =
        prefix.clone() + &parts.iter().map(|(name, own)| part(name, own)).collect::<Result<Vec<_>>>()?.join(&gap);
    let mut suffixes = Vec::new();
    if tensor.device() != Device::Cpu {
        suffixes.push(format!("device='{}'", tensor.device()));
    }
    suffixes.push(size);
    if !without_data {
        suffixes.push(format!("nnz={count}"));
    }
    // Behind coordinates the first of them is on a line of its own.
    if tensor.parts().is_some() {
        text = format!("{text}{gap}{}", suffixes.remove(0));
    }
    let dtype = tensor.dtype();
    if ![default_dtype(), default_dtype().to_complex(), DType::I64, DType::Bool].contains(&dtype) {
        suffixes.push(format!("dtype={dtype}"));
    }
    suffixes.push(format!("layout=torch.{layout}"));
    suffixes.extend(history(tensor));
    Ok(with_suffixes(text, &suffixes, indent))
}

/// Adds the suffixes after the elements, on new lines if they do not fit.
fn with_suffixes(mut text: String, suffixes: &[String], indent: usize) -> String {
    let width = options().width;
    // torch's counting: one more than the line has, and two more for the first line.
    let mut line = text.len() - text.rfind('\n').map_or(0, |at| at) + if text.contains('\n') { 1 } else { 2 };
    for suffix in suffixes {
        if line + suffix.len() + 2 > width {
            text.push_str(&format!(",\n{}{suffix}", " ".repeat(indent)));
            line = indent + suffix.len();
        } else {
            text.push_str(", ");
            text.push_str(suffix);
            line += suffix.len() + 2;
        }
    }
    text.push(')');
    text
}

/// The name of a quantizer's scheme.
pub fn scheme_name(quantizer: &Quantizer) -> &'static str {
    match quantizer {
        Quantizer::PerTensor { .. } => "per_tensor_affine",
        Quantizer::PerChannel { zero_points, .. } if zero_points.dtype().is_floating() => {
            "per_channel_affine_float_qparams"
        }
        Quantizer::PerChannel { .. } => "per_channel_affine",
    }
}
