//! The first line of a tensor of several dimensions as C++ prints it, which some of torch's messages end with.

use rushlight_autograd::Tensor;
use rushlight_core::layout::Shape;
use rushlight_core::{Device, Result};

use crate::convert::to_vec;

/// The width of a line.
const LINE: usize = 80;

pub fn first_line(tensor: &Tensor) -> Result<String> {
    let sizes = tensor.sizes();
    if tensor.numel() == 0 || tensor.device() == Device::Meta {
        let shape = Shape(sizes).to_string().replace(", ", ",");
        let kind = tensor.dtype().class_name(tensor.device());
        return Ok(format!("[ {kind}{{{}}} ]", shape.trim_matches(['[', ']'])));
    }
    if tensor.rank() > 2 {
        let first = vec!["1"; tensor.rank() - 2].join(",");
        return Ok(format!("({first},.,.) = "));
    }
    let numbers = to_vec::<f64>(tensor)?;
    let format = Format::of(&numbers);
    let columns = sizes.last().map_or(1, |&size| size as usize);
    let fitting = LINE / (format.width + 1);
    if fitting < columns {
        return Ok(format!("Columns 1 to {fitting}"));
    }
    if format.scale != 1.0 {
        return Ok(format!("{} *", crate::create::c_text(format.scale)));
    }
    let row: Vec<String> = numbers[..columns].iter().map(|&number| format.padded(number)).collect();
    Ok(row.join(" "))
}

#[derive(Clone, Copy)]
enum Style {
    Integers,
    Fixed,
    Scientific,
}

struct Format {
    style: Style,
    width: usize,
    scale: f64,
}

impl Format {
    /// One format for all numbers: by whether they are whole, and by the decimal digits of the smallest and the largest.
    fn of(numbers: &[f64]) -> Format {
        let finite = || numbers.iter().copied().filter(|number| number.is_finite());
        let whole = finite().all(|number| number == number.ceil());
        let digits = |size: f64| if size == 0.0 { 1.0 } else { size.log10().floor() + 1.0 };
        let (least, most) = match finite().map(f64::abs).fold(None, |found: Option<(f64, f64)>, size| match found {
            None => Some((size, size)),
            Some((least, most)) => Some((least.min(size), most.max(size))),
        }) {
            Some((least, most)) => (digits(least), digits(most)),
            None => (1.0, 1.0),
        };
        let format = |style, width, scale| Format { style, width, scale };
        if whole {
            return match most > 9.0 {
                true => format(Style::Scientific, 11, 1.0),
                false => format(Style::Integers, most as usize + 1, 1.0),
            };
        }
        if most - least > 4.0 {
            let wide = most.abs() > 99.0 || least.abs() > 99.0;
            return format(Style::Scientific, 11 + usize::from(wide), 1.0);
        }
        if !(0.0..=5.0).contains(&most) {
            return format(Style::Fixed, 7, 10f64.powf(most - 1.0));
        }
        format(Style::Fixed, if most == 0.0 { 7 } else { most as usize + 6 }, 1.0)
    }

    fn padded(&self, number: f64) -> String {
        let text = match self.style {
            _ if number.is_nan() => "nan".to_owned(),
            _ if number.is_infinite() => number.to_string(),
            Style::Integers => crate::create::c_text(number),
            Style::Fixed => format!("{number:.4}"),
            Style::Scientific => {
                let text = format!("{number:.4e}");
                let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
                let exponent: i32 = exponent.parse().unwrap_or(0);
                format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
            }
        };
        format!("{text:>width$}", width = self.width)
    }
}
