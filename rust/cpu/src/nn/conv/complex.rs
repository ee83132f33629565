//! Complex convolutions: the real and the imaginary parts of a channel are two real channels, and a filter is the real
//! matrix of complex multiplication.

use num_complex::Complex;
use rushlight_core::Result;
use rushlight_core::convolution::{Computed, Geometry};

use rushlight_par::Address;

use super::operands::{Pixel, TypedConv};
use crate::linalg::matmul::scratch::Scratch;

/// Splits blocks of `inner` elements each, `count` of them: all real parts of a block, then all imaginary ones.
///
/// # Safety
/// `from` holds the elements and `to` has room for twice as many.
unsafe fn take_apart<R: Copy>(from: *const Complex<R>, count: usize, inner: usize, to: *mut R) {
    for block in 0..count {
        for i in 0..inner {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                let value = *from.add(block * inner + i);
                to.add(2 * block * inner + i).write(value.re);
                to.add((2 * block + 1) * inner + i).write(value.im);
            }
        }
    }
}

/// The inverse of `take_apart`.
///
/// # Safety
/// Same as for `take_apart`.
unsafe fn put_together<R: Copy>(from: *const R, count: usize, inner: usize, to: *mut Complex<R>) {
    for block in 0..count {
        for i in 0..inner {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                let (re, im) = (*from.add(2 * block * inner + i), *from.add((2 * block + 1) * inner + i));
                to.add(block * inner + i).write(Complex { re, im });
            }
        }
    }
}

/// # Safety
/// Same as for `super::convolve`.
pub(super) unsafe fn convolve<R: Pixel + std::ops::Neg<Output = R> + std::ops::Sub<Output = R>>(
    computed: Computed,
    g: &Geometry,
    call: TypedConv<Complex<R>>,
) -> Result<()> {
    let images = g.batch * g.groups;
    let (inputs, outputs, depth) = (g.channels * g.area(), g.features * g.pixels(), g.depth());
    let rows = g.groups * g.features;
    let input = Scratch::<R>::take(2 * images * inputs)?;
    let output = Scratch::<R>::take(2 * images * outputs)?;
    let weight = Scratch::<R>::take(4 * rows * depth)?;
    let bias = Scratch::<R>::take(2 * rows)?;
    // The row of a filter's real or imaginary feature in the real weight, with its real channels first.
    let row = |filter: usize, imaginary: usize| {
        let (group, feature) = (filter / g.features, filter % g.features);
        weight.ptr().wrapping_add(((2 * group + imaginary) * g.features + feature) * 2 * depth)
    };
    // SAFETY: guaranteed by the caller (see `# Safety`); the scratch has room for the parts of all operands.
    unsafe {
        if computed != Computed::Input {
            take_apart(call.input.at(0), images, inputs, input.ptr());
        }
        if computed != Computed::Output {
            take_apart(call.output.at(0), images, outputs, output.ptr());
        }
        if let Some(values) = call.bias {
            take_apart(values.at(0), g.groups, g.features, bias.ptr());
        }
        if computed != Computed::Weight {
            for filter in 0..rows {
                for k in 0..depth {
                    let value = *call.weight.at(filter * depth + k);
                    // The transpose of a complex number's matrix is that of its conjugate.
                    let im = if computed == Computed::Output { value.im } else { -value.im };
                    row(filter, 0).add(k).write(value.re);
                    row(filter, 0).add(depth + k).write(-im);
                    row(filter, 1).add(k).write(im);
                    row(filter, 1).add(depth + k).write(value.re);
                }
            }
        }
        let real = TypedConv {
            g: Geometry { channels: 2 * g.channels, features: 2 * g.features, ..*g },
            input: Address(input.ptr()),
            weight: Address(weight.ptr()),
            output: Address(output.ptr()),
            bias: call.bias.map(|_| Address(bias.ptr())),
        };
        real.run(computed)?;
        match computed {
            Computed::Output => put_together(output.ptr(), images, outputs, call.output.at(0)),
            Computed::Input => put_together(input.ptr(), images, inputs, call.input.at(0)),
            Computed::Weight => {
                for filter in 0..rows {
                    let (real, imaginary) = (row(filter, 0), row(filter, 1));
                    for k in 0..depth {
                        call.weight.at(filter * depth + k).write(Complex {
                            re: *real.add(k) - *imaginary.add(depth + k),
                            im: (*real.add(depth + k)).plus(*imaginary.add(k)),
                        });
                    }
                }
            }
        }
    }
    Ok(())
}
