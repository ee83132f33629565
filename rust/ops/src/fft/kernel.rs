//! The three rows that compute.

use rushlight_autograd::Tensor;
use rushlight_core::alloc::collected;
use rushlight_core::layout::wrap_dim;
use rushlight_core::{DType, Dims, Error, Layout, Result};
use rushlight_cpu::fft::{Lines, complex, from_real, to_real};

use super::Scale;
use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::mapped::Mapped;
use crate::operands::plain;
use crate::row::{DTypes, Kernel, Row, Run, Spec, Variants};
use crate::value::{Args, Value};

pub static C2C: Row = Row {
    name: "_fft_c2c",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int[] dim, int normalization, bool forward) -> Tensor",
    doc: "The Fourier transform of complex numbers along some dimensions, divided by nothing (0), the root of their size (1) or their size (2).

    >>> torch._fft_c2c(torch.ones(2, dtype=torch.complex64), (0,), 0, True).real
    tensor([2., 0.])",
    dtypes: DTypes::COMPLEX,
    mapped: Mapped::Along(1),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let own = args.tensor(0)?;
            check_complex(own)?;
            let order = order(own.layout(), &inwards(own, &dims(args)?));
            Ok(vec![ordered(own.sizes(), &order, own.dtype(), own)])
        },
        cpu: |args, results| {
            let (own, dims) = (args.tensor(0)?, dims(args)?);
            let order = order(own.layout(), &inwards(own, &dims));
            let (own, to, dims) = (seen(own, &order), seen(&results[0], &order), places(&dims, &order));
            crate::copy::copy(&to, &own)?;
            let scale = Scale::factor(args.int(2)?, elements(&to, &dims));
            transform(&to, &dims, args.bool(3)?, scale)
        },
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| {
        d.grad().call(&C2C, [d.ints(1).into(), d.int(2).into(), (!d.flag(3)).into()])
    })]),
    samples: &["t(4), (0,), 0, True", "t(2, 3, 4), (0, 2), 2, False", "t(5), (0,), 1, True"],
    ..Row::BASE
};

pub static R2C: Row = Row {
    name: "_fft_r2c",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor",
    doc: "The Fourier transform of real numbers; `onesided` leaves away the last dimension's conjugates.

    >>> torch._fft_r2c(torch.ones(2), (0,), 0, True).real
    tensor([2., 0.])",
    dtypes: DTypes::of(&[DType::F32, DType::F64]),
    mapped: Mapped::Along(1),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let own = args.tensor(0)?;
            check_float(own)?;
            let dims = dims(args)?;
            let mut sizes = own.sizes().clone();
            if let (true, Some(&last)) = (args.bool(3)?, dims.last()) {
                sizes[last] = sizes[last] / 2 + 1;
            }
            let order = order(own.layout(), &last_innermost(own, &dims));
            Ok(vec![ordered(&sizes, &order, own.dtype().to_complex(), own)])
        },
        cpu: |args, results| {
            let (own, dims) = (args.tensor(0)?, dims(args)?);
            let order = order(own.layout(), &last_innermost(own, &dims));
            let (own, to, dims) = (&seen(own, &order), &seen(&results[0], &order), places(&dims, &order));
            let scale = Scale::factor(args.int(2)?, elements(own, &dims));
            let Some((&last, rest)) = dims.split_last().filter(|_| args.bool(3).unwrap_or(false)) else {
                crate::copy::copy(to, own)?;
                return transform(to, &dims, true, scale);
            };
            let own = plain(own, own.dtype())?;
            if own.numel() == 0 {
                return Ok(());
            }
            let (from, out) = (own.storage().pin()?, to.storage().pin()?);
            let (lines, offset) = (lines(own.sizes(), last), own.layout().offset);
            // SAFETY: both are row-major, of the sizes that `infer` gave the result, and pinned.
            unsafe {
                match own.dtype() {
                    DType::F32 => {
                        from_real(lines, from.as_ptr().cast::<f32>().offset(offset), out.as_ptr().cast(), scale)
                    }
                    _ => from_real(lines, from.as_ptr().cast::<f64>().offset(offset), out.as_ptr().cast(), scale),
                }?;
            }
            transform(to, rest, true, 1.0)
        },
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, r2c_gradient)]),
    samples: &["t(4), (0,), 0, True", "t(2, 3, 5), (0, 2), 2, True", "t(5), (0,), 1, False"],
    ..Row::BASE
};

pub static C2R: Row = Row {
    name: "_fft_c2r",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int[] dim, int normalization, int last_dim_size) -> Tensor",
    doc: "The inverse transform of frequencies whose conjugates were left away, to real numbers.

    >>> torch._fft_c2r(torch.tensor([2.+0j, 0j]), (0,), 2, 2)
    tensor([1., 1.])",
    dtypes: DTypes::COMPLEX,
    mapped: Mapped::Along(1),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let own = args.tensor(0)?;
            check_complex(own)?;
            let (dims, size) = (dims(args)?, args.int(3)? as isize);
            super::check_length(size)?;
            let Some(&last) = dims.last() else {
                return Err(Error::runtime("_fft_c2r must transform at least one dimension"));
            };
            if own.sizes()[last] != size / 2 + 1 {
                return Err(Error::runtime("_fft_c2r: the last dimension must have last_dim_size / 2 + 1 elements"));
            }
            let mut sizes = own.sizes().clone();
            sizes[last] = size;
            Ok(vec![ordered(&sizes, &real_order(own, &dims), own.dtype().to_real(), own)])
        },
        cpu: |args, results| {
            let (own, dims) = (args.tensor(0)?, dims(args)?);
            let order = real_order(own, &dims);
            let (given, to, dims) = (seen(own, &order), &seen(&results[0], &order), places(&dims, &order));
            let Some((&last, rest)) = dims.split_last() else { return Ok(()) };
            let scale = Scale::factor(args.int(2)?, elements(to, &dims));
            if to.numel() == 0 {
                return Ok(());
            }
            let own = crate::create::empty(given.sizes(), given.dtype(), to.device())?;
            crate::copy::copy(&own, &given)?;
            transform(&own, rest, false, 1.0)?;
            let (from, out) = (own.storage().pin()?, to.storage().pin()?);
            let lines = lines(to.sizes(), last);
            // SAFETY: both are row-major, of the sizes that `infer` checked, and pinned.
            unsafe {
                match to.dtype() {
                    DType::F32 => to_real(lines, from.as_ptr().cast(), out.as_ptr().cast::<f32>(), scale),
                    _ => to_real(lines, from.as_ptr().cast(), out.as_ptr().cast::<f64>(), scale),
                }
            }
        },
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, c2r_gradient)]),
    samples: &["t(3), (0,), 0, 4", "t(2, 3, 3), (0, 2), 2, 5"],
    ..Row::BASE
};

fn check_complex(own: &Tensor) -> Result<()> {
    if own.dtype().is_complex() {
        return Ok(());
    }
    Err(Error::runtime(format!("a complex tensor is transformed, but got {}", own.dtype().title())))
}

fn check_float(own: &Tensor) -> Result<()> {
    if matches!(own.dtype(), DType::F32 | DType::F64) {
        return Ok(());
    }
    Err(Error::runtime(format!("Only supports floating-point dtypes, but found: {}", own.dtype().title())))
}

fn dims(args: &Args) -> Result<Vec<usize>> {
    let own = args.tensor(0)?;
    let dims = args.ints(1)?.iter().map(|&dim| wrap_dim(dim, own.rank())).collect::<Result<Vec<_>>>()?;
    for (at, &dim) in dims.iter().enumerate() {
        if dims[..at].contains(&dim) {
            return Err(Error::runtime("FFT dims must be unique"));
        }
        super::check_length(own.sizes().get(dim).copied().unwrap_or(0))?;
    }
    Ok(dims)
}

/// The dimensions in the order in which torch has a result of a transform lie: those that are not transformed as in the
/// operand, then those that are. The row-major elements of that view are what kernels write.
fn order(own: &Layout, transformed: &[usize]) -> Vec<usize> {
    let rest = (0..own.rank()).filter(|dim| !transformed.contains(dim)).collect();
    let mut order = by_stride(own, rest);
    order.extend(transformed);
    order
}

/// Dimensions from the outermost to the innermost.
fn by_stride(own: &Layout, mut dims: Vec<usize>) -> Vec<usize> {
    dims.sort_by_key(|&dim| std::cmp::Reverse(own.strides[dim]));
    dims
}

/// The dimensions that complex numbers are transformed along.
fn inwards(own: &Tensor, dims: &[usize]) -> Vec<usize> {
    by_stride(own.layout(), dims.to_vec())
}

/// Those that real numbers are transformed along, of which the last one loses its conjugates.
fn last_innermost(own: &Tensor, dims: &[usize]) -> Vec<usize> {
    let Some((&last, rest)) = dims.split_last() else { return Vec::new() };
    let mut order = by_stride(own.layout(), rest.to_vec());
    order.push(last);
    order
}

/// The order of a result of real numbers: complex numbers are transformed along all dimensions but the last one before.
fn real_order(own: &Tensor, dims: &[usize]) -> Vec<usize> {
    let Some((last, rest)) = dims.split_last() else { return (0..own.rank()).collect() };
    if rest.is_empty() {
        return order(own.layout(), dims);
    }
    let before = ordered(own.sizes(), &order(own.layout(), &inwards(own, rest)), own.dtype(), own);
    order(&before.layout, std::slice::from_ref(last))
}

/// A dense result that is row-major when its dimensions are seen in this order.
fn ordered(sizes: &[isize], order: &[usize], dtype: DType, like: &Tensor) -> Spec {
    let mut back = vec![0; order.len()];
    order.iter().enumerate().for_each(|(at, &dim)| back[dim] = at);
    let turned: Dims = order.iter().map(|&dim| sizes[dim]).collect();
    Spec { layout: Layout::contiguous(&turned).permute(&back), dtype, device: like.device() }
}

/// A tensor with its dimensions in another order.
fn seen(tensor: &Tensor, order: &[usize]) -> Tensor {
    Tensor::view_of(tensor, tensor.layout().permute(order))
}

/// Where dimensions stand in an order.
fn places(dims: &[usize], order: &[usize]) -> Vec<usize> {
    dims.iter().filter_map(|dim| order.iter().position(|other| other == dim)).collect()
}

/// How many elements one transform takes together.
fn elements(tensor: &Tensor, dims: &[usize]) -> f64 {
    dims.iter().map(|&dim| tensor.sizes()[dim] as f64).product()
}

fn lines(sizes: &[isize], dim: usize) -> Lines {
    let product = |sizes: &[isize]| sizes.iter().product::<isize>() as usize;
    Lines { outer: product(&sizes[..dim]), n: sizes[dim] as usize, inner: product(&sizes[dim + 1..]) }
}

/// Transforms a fresh row-major tensor in place, one dimension after the other.
fn transform(tensor: &Tensor, dims: &[usize], forward: bool, scale: f64) -> Result<()> {
    if tensor.numel() == 0 {
        return Ok(());
    }
    let pin = tensor.storage().pin()?;
    for (at, &dim) in dims.iter().enumerate() {
        let lines = lines(tensor.sizes(), dim);
        let scale = if at == 0 { scale } else { 1.0 };
        // SAFETY: the tensor is fresh, row-major and pinned.
        unsafe {
            match tensor.dtype() {
                DType::C64 => complex::<f32>(lines, pin.as_ptr().cast(), forward, scale),
                _ => complex::<f64>(lines, pin.as_ptr().cast(), forward, scale),
            }?;
        }
    }
    Ok(())
}

/// The gradient of the frequencies that were left away is zero.
fn r2c_gradient(d: &Derive) -> Expr {
    let (grad, dims) = (d.grad(), d.ints(1));
    let full = match (grad, dims.last()) {
        (Expr::Tensor(grad), Some(&last)) if d.flag(3) => {
            let size = wrap_dim(last, grad.rank()).and_then(|dim| super::resized(&grad, dim, d.sizes(0)[dim]));
            Expr::new(size)
        }
        (grad, _) => grad,
    };
    full.call(&C2C, [dims.into(), d.int(2).into(), false.into()]).real()
}

/// Each frequency that stands for its conjugate too counts twice.
fn c2r_gradient(d: &Derive) -> Expr {
    let dims = d.ints(1);
    let grad = match d.grad() {
        Expr::Tensor(grad) => grad,
        other => return other,
    };
    let Some(dim) = dims.last().and_then(|&last| wrap_dim(last, grad.rank()).ok()) else { return Expr::Nothing };
    let (size, half) = (d.int(3) as usize, d.sizes(0)[dim] as usize);
    let twice = collected((0..half).map(|k| if k == 0 || 2 * k == size { 1.0 } else { 2.0 }));
    let weights = twice.and_then(|twice| crate::from_slice(&twice)).and_then(|weights| {
        let mut sizes = Dims::from_elem(1, grad.rank());
        sizes[dim] = half as isize;
        let weights = crate::convert::to_dtype(&weights, grad.dtype())?;
        let weights = crate::convert::to_device(&weights, grad.device())?;
        crate::view::RESHAPE.tensor([Value::Own(weights), crate::view::reshape::sizes_value(&sizes)])
    });
    Expr::from(grad).call(&R2C, [dims.into(), d.int(2).into(), true.into()]) * weights
}
