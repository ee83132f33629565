//! The three operators that compute transforms.

use rushlight_autograd::Tensor;
use rushlight_core::alloc::collected;
use rushlight_core::layout::wrap_dim;
use rushlight_core::{DType, Dims, Error, Layout, Result};
use rushlight_cpu::fft::{Lines, complex, from_real, to_real};
use rushlight_dispatch::call::on_host;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operands::plain;
use rushlight_dispatch::operator::{
    Args, BackwardContext, BatchRule, DTypes, Derivative, Implementation, Kernel, OnCuda, Operator, Saves, TensorSpec,
    Variants, formula, operator,
};
use rushlight_dispatch::value::Value;
use rushlight_dispatch::{copy, create, value};

use super::{FftNorm, on_cuda};
use crate::expr_ext::ExprExt;

#[operator]
pub static C2C: Operator = Operator {
    name: "_fft_c2c",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int[] dim, int normalization, bool forward) -> Tensor",
    doc: "The Fourier transform of complex numbers along some dimensions, divided by nothing (0), the root of their size (1) or their size (2).

    >>> torch._fft_c2c(torch.ones(2, dtype=torch.complex64), (0,), 0, True).real
    tensor([2., 0.])",
    dtypes: DTypes::COMPLEX,
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let input = args.tensor(INPUT)?;
            check_complex(input)?;
            let order = complex_order(input, &dims(args)?);
            Ok(vec![ordered(input.sizes(), &order, input.dtype(), input)])
        },
        cpu: c2c_on_host,
        cuda: OnCuda::Own(c2c_on_cuda),
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| {
        d.grad().call(&C2C, [d.ints(DIM).into(), d.int(NORMALIZATION).into(), (!d.flag(FORWARD)).into()])
    })]),
    samples: &["t(4), (0,), 0, True", "t(2, 3, 4), (0, 2), 2, False", "t(5), (0,), 1, True"],
    ..Operator::BASE
};

#[operator]
pub static R2C: Operator = Operator {
    name: "_fft_r2c",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor",
    doc: "The Fourier transform of real numbers; `onesided` omits the last dimension's conjugates.

    >>> torch._fft_r2c(torch.ones(2), (0,), 0, True).real
    tensor([2., 0.])",
    dtypes: DTypes::of(&[DType::F32, DType::F64]),
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let input = args.tensor(INPUT)?;
            check_float(input)?;
            let dims = dims(args)?;
            let mut sizes = input.sizes().clone();
            if let (true, Some(&last)) = (args.bool(ONESIDED)?, dims.last()) {
                sizes[last] = sizes[last] / 2 + 1;
            }
            let order = half_order(input, &dims);
            Ok(vec![ordered(&sizes, &order, input.dtype().to_complex(), input)])
        },
        cpu: r2c_on_host,
        cuda: OnCuda::Own(r2c_on_cuda),
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, r2c_gradient)]),
    samples: &["t(4), (0,), 0, True", "t(2, 3, 5), (0, 2), 2, True", "t(5), (0,), 1, False"],
    ..Operator::BASE
};

#[operator]
pub static C2R: Operator = Operator {
    name: "_fft_c2r",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int[] dim, int normalization, int last_dim_size) -> Tensor",
    doc: "The inverse transform, to real numbers, of frequencies without their conjugates.

    >>> torch._fft_c2r(torch.tensor([2.+0j, 0j]), (0,), 2, 2)
    tensor([1., 1.])",
    dtypes: DTypes::COMPLEX,
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let input = args.tensor(INPUT)?;
            check_complex(input)?;
            let (dims, size) = (dims(args)?, args.int(LAST_DIM_SIZE)? as isize);
            super::check_length(size)?;
            let Some(&last) = dims.last() else {
                return Err(Error::runtime("_fft_c2r must transform at least one dimension"));
            };
            if input.sizes()[last] != size / 2 + 1 {
                return Err(Error::runtime("_fft_c2r: the last dimension must have last_dim_size / 2 + 1 elements"));
            }
            let mut sizes = input.sizes().clone();
            sizes[last] = size;
            Ok(vec![ordered(&sizes, &real_order(input, &dims), input.dtype().to_real(), input)])
        },
        cpu: c2r_on_host,
        cuda: OnCuda::Own(c2r_on_cuda),
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, c2r_gradient)]),
    samples: &["t(3), (0,), 0, 4", "t(2, 3, 3), (0, 2), 2, 5"],
    ..Operator::BASE
};

fn c2c_on_host(args: &Args, results: &[Tensor]) -> Result<()> {
    use C2C::*;

    let (input, dims) = (args.tensor(INPUT)?, dims(args)?);
    let order = complex_order(input, &dims);
    let (input, to, dims) = (seen(input, &order), seen(&results[0], &order), places(&dims, &order));
    copy::copy(&to, &input)?;
    let scale = FftNorm::factor(args.int(NORMALIZATION)?, elements(&to, &dims));
    transform(&to, &dims, args.bool(FORWARD)?, scale)
}

fn c2c_on_cuda(args: &Args, results: &[Tensor]) -> Result<()> {
    use C2C::*;

    let (input, dims) = (args.tensor(INPUT)?, dims(args)?);
    let order = complex_order(input, &dims);
    let (input, to, dims) = (seen(input, &order), seen(&results[0], &order), places(&dims, &order));
    let scale = FftNorm::factor(args.int(NORMALIZATION)?, elements(&to, &dims));
    let done = on_cuda::c2c(&input, &to, &dims, args.bool(FORWARD)?, scale)?;
    if done { Ok(()) } else { on_host::fill(c2c_on_host, args, results) }
}

fn r2c_on_host(args: &Args, results: &[Tensor]) -> Result<()> {
    use R2C::*;

    let (input, dims) = (args.tensor(INPUT)?, dims(args)?);
    let order = half_order(input, &dims);
    let (input, to, dims) = (&seen(input, &order), &seen(&results[0], &order), places(&dims, &order));
    let scale = FftNorm::factor(args.int(NORMALIZATION)?, elements(input, &dims));
    let Some((&last, rest)) = dims.split_last().filter(|_| args.bool(ONESIDED).unwrap_or(false)) else {
        copy::copy(to, input)?;
        return transform(to, &dims, true, scale);
    };
    let input = plain(input, input.dtype())?;
    if input.numel() == 0 {
        return Ok(());
    }
    let (from, out) = (input.storage().pin()?, to.storage().pin()?);
    let (lines, offset) = (lines(input.sizes(), last), input.layout().offset);
    // SAFETY: both are row-major, of the sizes that `infer` gave the result, and pinned.
    unsafe {
        match input.dtype() {
            DType::F32 => from_real(lines, from.as_ptr().cast::<f32>().offset(offset), out.as_ptr().cast(), scale),
            _ => from_real(lines, from.as_ptr().cast::<f64>().offset(offset), out.as_ptr().cast(), scale),
        }?;
    }
    transform(to, rest, true, 1.0)
}

fn r2c_on_cuda(args: &Args, results: &[Tensor]) -> Result<()> {
    use R2C::*;

    let (input, dims) = (args.tensor(INPUT)?, dims(args)?);
    let order = half_order(input, &dims);
    let (input, to, dims) = (seen(input, &order), seen(&results[0], &order), places(&dims, &order));
    let scale = FftNorm::factor(args.int(NORMALIZATION)?, elements(&input, &dims));
    let done = match args.bool(ONESIDED)? && !dims.is_empty() {
        true => on_cuda::r2c(&input, &to, &dims, scale)?,
        false => on_cuda::c2c(&input, &to, &dims, true, scale)?,
    };
    if done { Ok(()) } else { on_host::fill(r2c_on_host, args, results) }
}

fn c2r_on_host(args: &Args, results: &[Tensor]) -> Result<()> {
    use C2R::*;

    let (input, dims) = (args.tensor(INPUT)?, dims(args)?);
    let order = real_order(input, &dims);
    let (given, to, dims) = (seen(input, &order), &seen(&results[0], &order), places(&dims, &order));
    let Some((&last, rest)) = dims.split_last() else { return Ok(()) };
    let scale = FftNorm::factor(args.int(NORMALIZATION)?, elements(to, &dims));
    if to.numel() == 0 {
        return Ok(());
    }
    let input = create::empty(given.sizes(), given.dtype(), to.device())?;
    copy::copy(&input, &given)?;
    transform(&input, rest, false, 1.0)?;
    let (from, out) = (input.storage().pin()?, to.storage().pin()?);
    let lines = lines(to.sizes(), last);
    // SAFETY: both are row-major, of the sizes that `infer` checked, and pinned.
    unsafe {
        match to.dtype() {
            DType::F32 => to_real(lines, from.as_ptr().cast(), out.as_ptr().cast::<f32>(), scale),
            _ => to_real(lines, from.as_ptr().cast(), out.as_ptr().cast::<f64>(), scale),
        }
    }
}

fn c2r_on_cuda(args: &Args, results: &[Tensor]) -> Result<()> {
    use C2R::*;

    let (input, dims) = (args.tensor(INPUT)?, dims(args)?);
    let order = real_order(input, &dims);
    let (input, to, dims) = (seen(input, &order), seen(&results[0], &order), places(&dims, &order));
    let scale = FftNorm::factor(args.int(NORMALIZATION)?, elements(&to, &dims));
    if on_cuda::c2r(&input, &to, &dims, scale)? { Ok(()) } else { on_host::fill(c2r_on_host, args, results) }
}

fn check_complex(input: &Tensor) -> Result<()> {
    if input.dtype().is_complex() {
        return Ok(());
    }
    Err(Error::runtime(format!("a complex tensor is transformed, but got {}", input.dtype().display_name())))
}

fn check_float(input: &Tensor) -> Result<()> {
    if matches!(input.dtype(), DType::F32 | DType::F64) {
        return Ok(());
    }
    Err(Error::runtime(format!("Only supports floating-point dtypes, but found: {}", input.dtype().display_name())))
}

fn dims(args: &Args) -> Result<Vec<usize>> {
    use C2C::*;

    let input = args.tensor(INPUT)?;
    let dims = args.ints(DIM)?.iter().map(|&dim| wrap_dim(dim, input.rank())).collect::<Result<Vec<_>>>()?;
    for (at, &dim) in dims.iter().enumerate() {
        if dims[..at].contains(&dim) {
            return Err(Error::runtime("FFT dims must be unique"));
        }
        super::check_length(input.sizes().get(dim).copied().unwrap_or(0))?;
    }
    Ok(dims)
}

/// The order of dimensions of a transform's result in torch: those that are not transformed, in the operand's order,
/// then those that are. Kernels write the row-major elements of that view.
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

/// The order of the dimensions in the result of a transform from complex to complex numbers.
fn complex_order(input: &Tensor, dims: &[usize]) -> Vec<usize> {
    order(input.layout(), &by_stride(input.layout(), dims.to_vec()))
}

/// The same for real to complex numbers: the last transformed dimension, which omits the conjugates, is the innermost.
fn half_order(input: &Tensor, dims: &[usize]) -> Vec<usize> {
    let mut transformed = Vec::new();
    if let Some((&last, rest)) = dims.split_last() {
        transformed = by_stride(input.layout(), rest.to_vec());
        transformed.push(last);
    }
    order(input.layout(), &transformed)
}

/// The order of a real result: complex numbers are transformed along all dimensions but the last one first.
fn real_order(input: &Tensor, dims: &[usize]) -> Vec<usize> {
    let Some((last, rest)) = dims.split_last() else { return (0..input.rank()).collect() };
    if rest.is_empty() {
        return order(input.layout(), dims);
    }
    let before = ordered(input.sizes(), &complex_order(input, rest), input.dtype(), input);
    order(&before.layout, std::slice::from_ref(last))
}

/// A dense result that is row-major with its dimensions in this order.
fn ordered(sizes: &[isize], order: &[usize], dtype: DType, like: &Tensor) -> TensorSpec {
    let mut back = vec![0; order.len()];
    order.iter().enumerate().for_each(|(at, &dim)| back[dim] = at);
    let turned: Dims = order.iter().map(|&dim| sizes[dim]).collect();
    TensorSpec { layout: Layout::contiguous(&turned).permute(&back), dtype, device: like.device() }
}

/// A tensor with its dimensions in another order.
fn seen(tensor: &Tensor, order: &[usize]) -> Tensor {
    Tensor::view_of(tensor, tensor.layout().permute(order))
}

/// The positions of dimensions in an order.
fn places(dims: &[usize], order: &[usize]) -> Vec<usize> {
    dims.iter().filter_map(|dim| order.iter().position(|other| other == dim)).collect()
}

/// The number of elements of one transform.
fn elements(tensor: &Tensor, dims: &[usize]) -> f64 {
    dims.iter().map(|&dim| tensor.sizes()[dim] as f64).product()
}

fn lines(sizes: &[isize], dim: usize) -> Lines {
    let product = |sizes: &[isize]| sizes.iter().product::<isize>() as usize;
    Lines { outer: product(&sizes[..dim]), n: sizes[dim] as usize, inner: product(&sizes[dim + 1..]) }
}

/// Transforms a new row-major tensor in place, one dimension after the other.
fn transform(tensor: &Tensor, dims: &[usize], forward: bool, scale: f64) -> Result<()> {
    if tensor.numel() == 0 {
        return Ok(());
    }
    let pin = tensor.storage().pin()?;
    for (at, &dim) in dims.iter().enumerate() {
        let lines = lines(tensor.sizes(), dim);
        let scale = if at == 0 { scale } else { 1.0 };
        // SAFETY: the tensor is new, row-major and pinned.
        unsafe {
            match tensor.dtype() {
                DType::C64 => complex::<f32>(lines, pin.as_ptr().cast(), forward, scale),
                _ => complex::<f64>(lines, pin.as_ptr().cast(), forward, scale),
            }?;
        }
    }
    Ok(())
}

/// The gradient of the omitted frequencies is zero.
fn r2c_gradient(d: &BackwardContext) -> Expr {
    use R2C::*;

    let (grad, dims) = (d.grad(), d.ints(DIM));
    let full = match (grad, dims.last()) {
        (Expr::Tensor(grad), Some(&last)) if d.flag(ONESIDED) => {
            let size = wrap_dim(last, grad.rank()).and_then(|dim| super::resized(&grad, dim, d.sizes(INPUT)[dim]));
            Expr::new(size)
        }
        (grad, _) => grad,
    };
    full.call(&C2C, [dims.into(), d.int(NORMALIZATION).into(), false.into()]).real()
}

/// Each frequency that also represents its conjugate counts twice.
fn c2r_gradient(d: &BackwardContext) -> Expr {
    use C2R::*;

    let dims = d.ints(DIM);
    let grad = match d.grad() {
        Expr::Tensor(grad) => grad,
        other => return other,
    };
    let Some(dim) = dims.last().and_then(|&last| wrap_dim(last, grad.rank()).ok()) else { return Expr::Nothing };
    let (size, half) = (d.int(LAST_DIM_SIZE) as usize, d.sizes(INPUT)[dim] as usize);
    let twice = collected((0..half).map(|k| if k == 0 || 2 * k == size { 1.0 } else { 2.0 }));
    let weights = twice.and_then(|twice| create::from_slice(&twice)).and_then(|weights| {
        let mut sizes = Dims::from_elem(1, grad.rank());
        sizes[dim] = half as isize;
        let weights = crate::convert::to_dtype(&weights, grad.dtype())?;
        let weights = crate::convert::to_device(&weights, grad.device())?;
        crate::view::RESHAPE.tensor([Value::Own(weights), value::sizes_value(&sizes)])
    });
    Expr::from(grad).call(&R2C, [dims.into(), d.int(NORMALIZATION).into(), true.into()]) * weights
}
