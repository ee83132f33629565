//! How a tensor prints in Rust: as with `<<` in torch's C++ front end, its elements and a line with its type and sizes.
//!
//! Python prints tensors in its own way (`py/src/print.rs`).

use std::fmt;

use rushlight_core::Device;

use crate::arithmetic::arithmetic;
use crate::graph::{Form, Tensor};

/// Columns of characters, into which the columns of a matrix are divided.
const LINE: usize = 80;

/// How the elements of a vector or a matrix are written, so that they stand below each other.
struct Columns {
    style: Style,
    /// By what the elements are divided.
    scale: f64,
    width: usize,
}

#[derive(Clone, Copy)]
enum Style {
    /// As few digits as possible, at most six.
    General,
    /// Four digits after the point.
    Fixed,
    /// The same with an exponent.
    Exponent,
}

impl Columns {
    fn of(elements: &[f64]) -> Columns {
        let plain = |style, width| Columns { style, scale: 1.0, width };
        let finite = elements.iter().filter(|x| x.is_finite());
        let whole = finite.clone().all(|x| x.fract() == 0.0);
        let digits = |x: f64| if x == 0.0 { 1 } else { x.log10().floor() as i64 + 1 };
        let sizes = finite.map(|x| x.abs());
        let (least, most) = match sizes.clone().reduce(f64::max) {
            None => (1, 1),
            Some(most) => (digits(sizes.fold(f64::INFINITY, f64::min)), digits(most)),
        };
        match (whole, most) {
            (true, 10..) => plain(Style::Exponent, 11),
            (true, _) => plain(Style::General, most.max(0) as usize + 1),
            (false, _) if most - least > 4 => {
                plain(Style::Exponent, if most.abs() > 99 || least.abs() > 99 { 12 } else { 11 })
            }
            (false, 6.. | ..0) => Columns { style: Style::Fixed, scale: 10f64.powi(most as i32 - 1), width: 7 },
            (false, _) => plain(Style::Fixed, most.max(1) as usize + 6),
        }
    }

    fn element(&self, x: f64) -> String {
        let (x, width) = (x / self.scale, self.width);
        let text = match self.style {
            _ if x.is_nan() => "nan".to_owned(),
            _ if x.is_infinite() => if x > 0.0 { "inf" } else { "-inf" }.to_owned(),
            Style::General => general(x),
            Style::Fixed => format!("{x:.4}"),
            Style::Exponent => with_exponent(&format!("{x:.4e}")),
        };
        format!("{text:>width$}")
    }

    /// The line of the factor by which all elements are to be multiplied, if there is one.
    fn write_scale(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scale == 1.0 {
            true => Ok(()),
            false => writeln!(f, "{} *", shortest(self.scale)),
        }
    }
}

/// An exponent with a sign and two digits at least, as in C: `1.5e-07`.
fn with_exponent(text: &str) -> String {
    let Some((digits, exponent)) = text.split_once('e') else { return text.to_owned() };
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
    format!("{digits}e{sign}{exponent:0>2}")
}

/// A number with at most six digits, as C's `%g`.
fn general(x: f64) -> String {
    let rounded = format!("{x:.5e}");
    let Some((digits, exponent)) = rounded.split_once('e') else { return rounded };
    match exponent.parse::<i32>() {
        Ok(-4..6) => rounded.parse::<f64>().unwrap_or(x).to_string(),
        _ => with_exponent(&format!("{}e{exponent}", digits.trim_end_matches('0').trim_end_matches('.'))),
    }
}

/// The fewest digits from which the number can be read back.
fn shortest(x: f64) -> String {
    match x.abs() {
        _ if !x.is_finite() => x.to_string().to_lowercase(),
        0.0 | 1e-4..1e16 => x.to_string(),
        _ => with_exponent(&format!("{x:e}")),
    }
}

/// A matrix, over as many blocks of columns as its width needs. As in torch the first line is not indented; under the line of a factor all are,
/// those after the first by one more.
fn write_matrix(f: &mut fmt::Formatter<'_>, elements: &[f64], columns: usize, indent: &str) -> fmt::Result {
    if elements.is_empty() {
        return Ok(());
    }
    let form = Columns::of(elements);
    let scaled = form.scale != 1.0;
    let (first_indent, other_indent) = match scaled {
        true => (indent.to_owned(), format!("{indent} ")),
        false => (String::new(), indent.to_owned()),
    };
    let at_once = (LINE - indent.len()) / (form.width + 1);
    for first in (0..columns).step_by(at_once) {
        let last = columns.min(first + at_once);
        if at_once < columns {
            let gap = if first == 0 { "" } else { "\n" };
            write!(f, "{gap}Columns {} to {last}{}", first + 1, if scaled { "\n" } else { indent })?;
        }
        form.write_scale(f)?;
        for (row, elements) in elements.chunks(columns).enumerate() {
            let line: Vec<String> = elements[first..last].iter().map(|&x| form.element(x)).collect();
            let indent = if row == 0 { &first_indent } else { &other_indent };
            writeln!(f, "{indent}{}", line.join(" "))?;
        }
    }
    Ok(())
}

/// Each matrix of a tensor under its indices, the first index first.
fn write_matrices(f: &mut fmt::Formatter<'_>, elements: &[f64], sizes: &[isize]) -> fmt::Result {
    let outer = sizes.len() - 2;
    let (rows, columns) = (sizes[outer] as usize, sizes[outer + 1] as usize);
    let count: usize = sizes[..outer].iter().map(|&size| size as usize).product();
    for number in 0..count {
        let (mut rest, mut place, mut stride) = (number, 0, count);
        let mut indices = String::new();
        for &size in &sizes[..outer] {
            let index = rest % size as usize;
            rest /= size as usize;
            stride /= size as usize;
            place += index * stride;
            indices += &format!("{},", index + 1);
        }
        writeln!(f, "{}({indices}.,.) = ", if number == 0 { "" } else { "\n" })?;
        write_matrix(f, &elements[place * rows * columns..][..rows * columns], columns, " ")?;
    }
    Ok(())
}

/// Elements, and the tensor's type and sizes. Elements of complex tensors are their real parts, as in torch. Tensors on `meta`, and those that are not
/// dense, print the last line alone; the parts of a sparse tensor can be printed.
impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes = self.sizes();
        let form = &self.meta().form;
        let dense = matches!(form, Form::Plain | Form::LazyConj);
        let readable = dense && self.device() != Device::Meta;
        let elements = match readable {
            true => arithmetic().and_then(|table| (table.elements)(self)).unwrap_or_default(),
            false => Vec::new(),
        };
        match (elements.as_slice(), sizes.as_slice()) {
            ([], _) => {}
            ([x], []) => writeln!(f, "{}", shortest(*x))?,
            (elements, [_]) => {
                let form = Columns::of(elements);
                form.write_scale(f)?;
                elements.iter().try_for_each(|&x| writeln!(f, "{}", form.element(x)))?;
            }
            (elements, [_, columns]) => write_matrix(f, elements, *columns as usize, "")?,
            (elements, sizes) => write_matrices(f, elements, sizes)?,
        }
        let kind = match form {
            Form::Sparse(_) => "Sparse",
            Form::Compressed(_) => "SparseCsr",
            Form::Quantized(_) => "Quantized",
            _ => "",
        };
        let backend = match self.device() {
            Device::Meta => "Meta",
            Device::Cuda(_) => "CUDA",
            _ => "CPU",
        };
        let sizes: Vec<String> = sizes.iter().map(isize::to_string).collect();
        write!(f, "[ {kind}{backend}{}Type{{{}}} ]", self.dtype().display_name(), sizes.join(","))
    }
}
