//! Random numbers drawn into a tensor, in place: `uniform_`, `normal_`, `random_` and the other distributions.
//!
//! Streams are sequential and the same as torch's: elements are drawn in the order of the tensor's memory, whatever its
//! strides. Only a new, contiguous tensor is filled directly; for others a buffer is filled and copied in that order.

use rushlight_autograd::Tensor;
use rushlight_core::dtype::{bf16_, f16_};
use rushlight_core::{DType, Device, Error, Layout, Result, dispatch};
use rushlight_cuda::random::Distribution;
use rushlight_dispatch::generator::Generator;
use rushlight_dispatch::operator::{
    Args, DTypes, Derivative, Implementation, InPlaceFill, Operator, Saves, Sparse, Tags, Variants, formula, operator,
};
use rushlight_dispatch::value::Arg;
use rushlight_dispatch::{copy, create, interpreter, overlap};
use rushlight_rng::distributions::{self, IntRange};
use rushlight_rng::{Element, FullRange64, Stream};

use super::fill::{ZERO_GRADIENT, nothing};
use super::{c_text, on_cuda};
use crate::view::complex::pairs;

/// The generator of a call, or the default one.
pub fn generator(args: &Args, arg: Arg) -> Generator {
    args.generator(arg).cloned().unwrap_or_default()
}

/// The dimensions of `layout` in the order in which those of `drawn` lie in memory: the largest stride first.
fn in_memory_order(layout: &Layout, drawn: &Layout) -> Layout {
    let mut order: Vec<usize> = (0..drawn.rank()).collect();
    order.sort_by_key(|&dim| std::cmp::Reverse(drawn.strides[dim].abs()));
    layout.permute(&order)
}

/// The elements of `tensor`, expanded to the size of `drawn`, in the order in which those of `drawn` are drawn.
pub fn alongside<T: rushlight_core::Element>(tensor: &Tensor, drawn: &Tensor) -> Result<Vec<T>> {
    let layout = crate::view::expand::stretched(
        tensor.layout(),
        || tensor.dtype().class_name(tensor.device()),
        drawn.sizes().clone(),
    )?;
    let ordered = in_memory_order(&layout, drawn.layout());
    crate::convert::to_vec(&Tensor::view_of(tensor, ordered))
}

/// Whether nothing else, on this thread or another, can reach the tensor's bytes yet.
fn is_fresh(tensor: &Tensor) -> bool {
    let storage = tensor.storage();
    !storage.is_shared() && storage.owners() == 1 && tensor.owners() == 1 && tensor.python().is_null()
}

/// Passes the elements to `draw` in the order of memory, as one slice that is to be overwritten.
pub fn fill<T: Element>(
    tensor: &Tensor,
    generator: &Generator,
    draw: impl FnOnce(&mut Stream, &mut [T]),
) -> Result<()> {
    let count = tensor.numel();
    if tensor.device() == Device::Meta || count == 0 {
        return Ok(());
    }
    // The stream of the CPU is drawn for memory of the host alone.
    drop(tensor.storage().pin()?);
    let mut draw = Some(draw);
    let mut run = |target: &Tensor| {
        interpreter::while_detached(count, || {
            let pin = target.storage().pin()?;
            let first = pin.as_ptr().cast::<T>().wrapping_offset(target.layout().offset);
            if let Some(draw) = draw.take() {
                // SAFETY: the target is contiguous and aligned, nothing else reaches its bytes, and any bytes are a
                // valid `T`.
                generator.draw(|stream| draw(stream, unsafe { std::slice::from_raw_parts_mut(first, count) }));
            }
            Ok(())
        })
    };
    let aligned = tensor.storage().address().is_multiple_of(align_of::<T>());
    if tensor.layout().is_contiguous() && aligned && is_fresh(tensor) {
        return run(tensor);
    }
    let ordered = in_memory_order(tensor.layout(), tensor.layout());
    let buffer = create::empty(&ordered.sizes, tensor.dtype(), Device::Cpu)?;
    run(&buffer)?;
    copy::copy(&Tensor::new(tensor.storage().clone(), ordered, tensor.dtype(), tensor.device()), &buffer)
}

/// Runs a body for a floating dtype; complex numbers are drawn as their parts, unless only real ones are supported.
/// With no elements to draw, every dtype is accepted.
macro_rules! floating {
    (real $tensor:ident, $kernel:expr, |$T:ident| $body:expr) => {
        dispatch!($tensor.dtype(), $T in [f16_, bf16_, f32, f64] => $body, else => undrawn($tensor, $kernel))
    };
    ($tensor:expr, $kernel:expr, |$target:ident, $T:ident| $body:expr) => {{
        let parts;
        let $target: &Tensor = if $tensor.dtype().is_complex() {
            parts = pairs($tensor);
            &parts
        } else {
            $tensor
        };
        dispatch!($target.dtype(), $T in [f16_, bf16_, f32, f64] => $body, else => undrawn($target, $kernel))
    }};
}

/// Runs a body for any real dtype, the wide unsigned ones if they are listed; bool is a byte of 0 or 1.
macro_rules! real {
    ($tensor:expr, $kernel:expr, $([$($more:ident),*],)? |$T:ident| $body:expr) => {{
        let dtype = if $tensor.dtype() == DType::Bool { DType::U8 } else { $tensor.dtype() };
        dispatch!(dtype, $T in [u8, i8, i16, i32, i64, $($($more,)*)? f16_, bf16_, f32, f64] => $body,
            else => undrawn($tensor, $kernel))
    }};
}

/// The error for a dtype that cannot be drawn; none if there are no elements.
fn undrawn(tensor: &Tensor, kernel: &str) -> Result<()> {
    if tensor.numel() == 0 { Ok(()) } else { Err(Error::unsupported(kernel, tensor.dtype())) }
}

fn refused(error: distributions::RangeError) -> Error {
    Error::runtime(error.to_string()).hint("from must be less than to, and both must be in the range of the dtype.")
}

/// Checks that the bounds, and their distance, are finite numbers of the dtype.
fn check_range(dtype: DType, from: f64, to: f64) -> Result<()> {
    let greatest = match dtype {
        DType::F16 => 65504.0,
        DType::BF16 => 3.389_531_389_251_535_5e38,
        DType::F32 => f64::from(f32::MAX),
        _ => f64::MAX,
    };
    for (name, bound) in [("from", from), ("to", to)] {
        if bound.is_nan() || bound.abs() > greatest {
            return Err(Error::runtime(format!("{name} is out of bounds for {}", dtype.c_name()))
                .hint("Use bounds in the range of the dtype, or a wider dtype."));
        }
    }
    if from > to {
        return Err(Error::runtime(format!(
            "uniform_ expects to return a [from, to) range, but found from={} > to={}",
            c_text(from),
            c_text(to)
        )));
    }
    if to - from > greatest {
        return Err(Error::runtime(format!(
            "uniform_ expects to-from <= std::numeric_limits<{}>::max(), but found to={} and from={} which result in to-from to exceed the limit",
            dtype.display_name(),
            c_text(to),
            c_text(from)
        )));
    }
    Ok(())
}

pub fn uniform(tensor: &Tensor, generator: &Generator, from: f64, to: f64) -> Result<()> {
    if !tensor.dtype().is_differentiable() {
        return Err(Error::unsupported("check_uniform_bounds", tensor.dtype()));
    }
    floating!(tensor, "check_uniform_bounds", |target, T| {
        check_range(target.dtype(), from, to)?;
        if on_cuda::draws(target) {
            return on_cuda::fill(target, generator, Distribution::Uniform { from, to });
        }
        fill::<T>(target, generator, |stream, out| distributions::uniform(stream, out, from, to))
    })
}

pub fn normal(tensor: &Tensor, generator: &Generator, mean: f64, std: f64) -> Result<()> {
    if std.is_nan() || std < 0.0 {
        return Err(Error::runtime(format!("normal expects std >= 0.0, but found std {}", c_text(std))));
    }
    // The variance of a complex number is divided between its parts.
    let std = if tensor.dtype().is_complex() { std / std::f64::consts::SQRT_2 } else { std };
    floating!(tensor, "normal_kernel_cpu", |target, T| {
        if on_cuda::draws(target) {
            return on_cuda::fill(target, generator, Distribution::Normal { mean, std });
        }
        let contiguous = target.layout().is_contiguous();
        fill::<T>(target, generator, |stream, out| {
            if contiguous {
                return distributions::normal(stream, out, mean, std);
            }
            let count = out.len();
            let mut slots = out.iter_mut();
            distributions::normal_serial(stream, count, mean, std, |value| {
                if let Some(slot) = slots.next() {
                    *slot = T::from_f64(value);
                }
            });
        })
    })
}

/// Warns about bounds beyond the whole numbers that a float dtype holds.
fn warn_of_gaps(dtype: DType, from: i64, last: i64) -> Result<()> {
    let digits = match dtype {
        DType::F16 => 11,
        DType::BF16 => 8,
        DType::F32 => 24,
        DType::F64 => 53,
        _ => return Ok(()),
    };
    for (name, bound) in [("from", from), ("to - 1", last)] {
        if bound.unsigned_abs() > 1 << digits {
            interpreter::warn(&format!(
                "{name} is out of bounds [-(2^{digits}), 2^{digits}]. Due to precision limitations {} can support discrete uniform distribution only within this range. This warning will become an error in version 1.7 release, please fix the code in advance",
                dtype.c_name()
            ))?;
        }
    }
    Ok(())
}

/// Integers in [from, to).
pub fn integers(tensor: &Tensor, generator: &Generator, from: i64, to: i64) -> Result<()> {
    if tensor.dtype().is_complex() {
        IntRange::new::<f64>(from, to).map_err(refused)?;
        return Err(no_complex("check_random_bounds"));
    }
    if tensor.dtype() == DType::Bool {
        let range = IntRange::new::<bool>(from, to).map_err(refused)?;
        if on_cuda::draws(tensor) {
            return on_cuda::integers(tensor, generator, range.base(), range.count());
        }
        return fill::<u8>(tensor, generator, |stream, out| distributions::random_from_to(stream, out, range));
    }
    real!(tensor, "random_update_from_to", [u16, u32, u64], |T| {
        let range = IntRange::new::<T>(from, to).map_err(refused)?;
        warn_of_gaps(tensor.dtype(), from, to - 1)?;
        if on_cuda::draws(tensor) {
            return on_cuda::integers(tensor, generator, range.base(), range.count());
        }
        fill::<T>(tensor, generator, |stream, out| distributions::random_from_to(stream, out, range))
    })
}

fn no_complex(who: &str) -> Error {
    Error::runtime(format!("{who} handles only integral, floating-point and boolean types"))
}

/// Integers from `from` to the greatest of the dtype.
fn integers_from(tensor: &Tensor, generator: &Generator, from: i64) -> Result<()> {
    fn whole<T: FullRange64>(tensor: &Tensor, generator: &Generator) -> Result<()> {
        if on_cuda::draws(tensor) {
            return on_cuda::integers(tensor, generator, 0, 0);
        }
        fill::<T>(tensor, generator, |stream, out| distributions::random_full_64_bits(stream, out))
    }
    if from == i64::MIN {
        const NAME: &str = "random_full_64_bits_range_kernel_cpu";
        return dispatch!(tensor.dtype(), T in [i64, f64, f32, bf16_] => whole::<T>(tensor, generator), else => {
            match tensor.dtype() {
                _ if tensor.numel() == 0 => Ok(()),
                DType::U8 | DType::I8 | DType::I16 | DType::I32 => {
                    Err(Error::runtime(format!("{NAME} handles only int64, double, float and bfloat16")))
                }
                other => Err(Error::unsupported(NAME, other)),
            }
        });
    }
    if tensor.dtype().is_complex() {
        return Err(no_complex("random_from_to_impl"));
    }
    if tensor.dtype() == DType::Bool {
        let range = IntRange::starting::<bool>(from).map_err(refused)?;
        if on_cuda::draws(tensor) {
            return on_cuda::integers(tensor, generator, range.base(), range.count());
        }
        return fill::<u8>(tensor, generator, |stream, out| distributions::random_from_to(stream, out, range));
    }
    real!(tensor, "random_update_from_to", [u16, u32, u64], |T| {
        let range = IntRange::starting::<T>(from).map_err(refused)?;
        if on_cuda::draws(tensor) {
            return on_cuda::integers(tensor, generator, range.base(), range.count());
        }
        fill::<T>(tensor, generator, |stream, out| distributions::random_from_to(stream, out, range))
    })
}

/// Any non-negative value of the dtype.
fn anything(tensor: &Tensor, generator: &Generator) -> Result<()> {
    if tensor.numel() == 0 {
        return Ok(());
    }
    if tensor.dtype() == DType::Bool {
        return integers(tensor, generator, 0, 2);
    }
    dispatch!(tensor.dtype(), T in [u8, i8, i16, i32, i64, f16_, bf16_, f32, f64] => {
        if on_cuda::draws(tensor) {
            return on_cuda::anything(tensor, generator);
        }
        fill::<T>(tensor, generator, distributions::random)
    }, else => Err(Error::unsupported("random_kernel_cpu", tensor.dtype())))
}

pub fn bernoulli(tensor: &Tensor, generator: &Generator, p: f64) -> Result<()> {
    if !(0.0..=1.0).contains(&p) {
        return Err(Error::runtime(format!("bernoulli_ expects p to be in [0, 1], but got p={}", c_text(p))));
    }
    real!(tensor, "bernoulli_scalar_cpu_", |T| {
        if on_cuda::draws(tensor) {
            return on_cuda::fill(tensor, generator, Distribution::Bernoulli { p });
        }
        fill::<T>(tensor, generator, |stream, out| distributions::bernoulli(stream, out, p))
    })
}

/// Bernoulli trials, each with the probability at its own index.
pub fn bernoulli_each(tensor: &Tensor, generator: &Generator, p: &Tensor) -> Result<()> {
    crate::view::expand::stretched(p.layout(), || p.dtype().class_name(p.device()), tensor.sizes().clone())?;
    overlap::check_overlap(tensor, p)?;
    if tensor.numel() == 0 {
        return Ok(());
    }
    real!(tensor, "bernoulli_tensor_cpu_self_", |T| {
        dispatch!(p.dtype(), P in [f16_, bf16_, f32, f64] => {
            if on_cuda::draws(tensor) {
                let wide = if tensor.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
                let chances = crate::convert::to_dtype(&crate::convert::to_device(&p.detach(), tensor.device())?, wide)?;
                return on_cuda::trials(tensor, generator, &chances);
            }
            let p = if p.device() == Device::Cpu { alongside::<P>(p, tensor)? } else { Vec::new() };
            if !p.iter().all(|p| (0.0..=1.0).contains(&p.to_f64())) {
                return Err(Error::runtime("Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message be improved?  If so, please report an enhancement request to PyTorch.)"));
            }
            fill::<T>(tensor, generator, |stream, out| distributions::bernoulli_each(stream, out, &p))
        }, else => Err(Error::unsupported("bernoulli_tensor_cpu_p_", p.dtype())))
    })
}

fn exponential(tensor: &Tensor, generator: &Generator, lambda: f64) -> Result<()> {
    if lambda.is_nan() || lambda <= 0.0 {
        return Err(Error::runtime(format!("exponential_ expects lambda > 0.0, but found lambda={}", c_text(lambda))));
    }
    if tensor.numel() > 0 && !tensor.dtype().is_floating() {
        return Err(Error::runtime(format!(
            "Exponential distribution is a continuous probability distribution. dtype must be a floating point but you specified {}",
            tensor.dtype().display_name()
        )));
    }
    floating!(real tensor, "exponential_cpu", |T| {
        if on_cuda::draws(tensor) {
            return on_cuda::fill(tensor, generator, Distribution::Exponential { rate: lambda });
        }
        fill::<T>(tensor, generator, |stream, out| distributions::exponential(stream, out, lambda))
    })
}

fn geometric(tensor: &Tensor, generator: &Generator, p: f64) -> Result<()> {
    if !(p > 0.0 && p < 1.0) {
        return Err(Error::runtime(format!("geometric_ expects p to be in (0, 1), but got p={}", c_text(p))));
    }
    if tensor.numel() > 0 && tensor.dtype() == DType::Bool {
        return Err(Error::unsupported("geometric_cpu", tensor.dtype()));
    }
    real!(tensor, "geometric_cpu", |T| {
        if on_cuda::draws(tensor) {
            return on_cuda::fill(tensor, generator, Distribution::Geometric { p });
        }
        fill::<T>(tensor, generator, |stream, out| distributions::geometric(stream, out, p))
    })
}

fn cauchy(tensor: &Tensor, generator: &Generator, median: f64, sigma: f64) -> Result<()> {
    if sigma.is_nan() || sigma <= 0.0 {
        return Err(Error::runtime(format!("cauchy_ expects sigma > 0.0, but found sigma={}", c_text(sigma))));
    }
    if !tensor.dtype().is_floating() {
        return Err(Error::runtime(format!(
            "Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you specified {}",
            tensor.dtype().c_name()
        )));
    }
    floating!(real tensor, "cauchy_cpu", |T| {
        if on_cuda::draws(tensor) {
            return on_cuda::fill(tensor, generator, Distribution::Cauchy { median, sigma });
        }
        fill::<T>(tensor, generator, |stream, out| distributions::cauchy(stream, out, median, sigma))
    })
}

fn log_normal(tensor: &Tensor, generator: &Generator, mean: f64, std: f64) -> Result<()> {
    if std.is_nan() || std <= 0.0 {
        return Err(Error::runtime(format!("log_normal_ expects std > 0.0, but found std={}", c_text(std))));
    }
    floating!(real tensor, "log_normal_cpu", |T| {
        if on_cuda::draws(tensor) {
            return on_cuda::fill(tensor, generator, Distribution::LogNormal { mean, std });
        }
        fill::<T>(tensor, generator, |stream, out| distributions::log_normal(stream, out, mean, std))
    })
}

const BASE: Operator =
    Operator { variants: Variants::METHOD, dtypes: DTypes::COMPUTED, derivative: ZERO_GRADIENT, ..Operator::BASE };

#[operator]
pub static UNIFORM_: Operator = Operator {
    name: "uniform_",
    signature: "(Tensor self, float from=0, float to=1, *, Generator? generator=None) -> Tensor",
    doc: "Fills the tensor with numbers drawn uniformly from `from` (inclusive) to `to` (exclusive).

    >>> _ = torch.manual_seed(0)
    >>> torch.empty(3).uniform_(-1, 1)
    tensor([-0.0075,  0.5364, -0.8230])",
    dtypes: DTypes::INEXACT.union(DTypes::COMPLEX32),
    tags: Tags::RANDOM,
    implementation: Implementation::InPlaceFill(InPlaceFill::on_any_device(|args, own| {
        uniform(own, &generator(args, GENERATOR), args.float(FROM)?, args.float(TO)?)
    })),
    samples: &["t(2, 3)", "t(4), -1, 2", "t()"],
    errors: &[
        ("t(2), nan, 1.", "RuntimeError", "from is out of bounds for float"),
        (
            "t(2), -3e38, 3e38",
            "RuntimeError",
            "uniform_ expects to-from <= std::numeric_limits<Float>::max(), but found to=3e+38 and from=-3e+38 which result in to-from to exceed the limit",
        ),
        ("t(2), 1, 0", "RuntimeError", "uniform_ expects to return a [from, to) range, but found from=1 > to=0"),
        ("i(3, 2)", "NotImplementedError", "\"check_uniform_bounds\" not implemented for 'Long'"),
        (
            "torch.ones(2, requires_grad=True)",
            "RuntimeError",
            "a leaf Variable that requires grad is being used in an in-place operation.",
        ),
    ],
    kernel_name: "check_uniform_bounds",
    ..BASE
};

#[operator]
pub static NORMAL_: Operator = Operator {
    name: "normal_",
    signature: "(Tensor self, float mean=0, float std=1, *, Generator? generator=None) -> Tensor",
    doc: "Fills the tensor with normally distributed numbers.

    >>> _ = torch.manual_seed(0)
    >>> torch.empty(2).normal_(mean=10, std=0.1)
    tensor([10.1541,  9.9707])",
    dtypes: DTypes::INEXACT.union(DTypes::COMPLEX32),
    tags: Tags::RANDOM,
    sparse: Sparse::ExplicitAutograd,
    implementation: Implementation::InPlaceFill(InPlaceFill::on_any_device(|args, own| {
        normal(own, &generator(args, GENERATOR), args.float(MEAN)?, args.float(STD)?)
    })),
    samples: &["t(2, 3)", "t(4), 1, 2", "t(20)", "t()"],
    errors: &[
        ("t(2), 0., nan", "RuntimeError", "normal expects std >= 0.0, but found std nan"),
        ("t(2), 0, -1", "RuntimeError", "normal expects std >= 0.0, but found std -1"),
        ("i(3, 2)", "NotImplementedError", "\"normal_kernel_cpu\" not implemented for 'Long'"),
    ],
    kernel_name: "normal_kernel_cpu",
    ..BASE
};

#[operator]
pub static RANDOM_: Operator = Operator {
    name: "random_",
    node: "RandomBackward2",
    signature: "(Tensor self, *, Generator? generator=None) -> Tensor",
    doc: "Fills the tensor with random integers from 0 to the greatest of its dtype.

    >>> bool((torch.empty(9, dtype=torch.int8).random_() >= 0).all())
    True",
    dtypes: DTypes::REAL.union(DTypes::BOOL),
    tags: Tags::RANDOM,
    implementation: Implementation::InPlaceFill(InPlaceFill::on_any_device(|args, own| {
        anything(own, &generator(args, GENERATOR))
    })),
    samples: &["t(2, 3)", "t()"],
    errors: &[(
        "torch.zeros(2, dtype=torch.complex64)",
        "NotImplementedError",
        "\"random_kernel_cpu\" not implemented for 'ComplexFloat'",
    )],
    kernel_name: "random_kernel_cpu",
    ..BASE
};

#[operator]
pub static RANDOM_TO_: Operator = Operator {
    name: "random_.to",
    node: "RandomBackward1",
    signature: "(Tensor self, int to, *, Generator? generator=None) -> Tensor",
    doc: "Fills the tensor with random integers from 0 (inclusive) to `to` (exclusive).

    >>> _ = torch.manual_seed(0)
    >>> torch.empty(4).random_(10)
    tensor([4., 9., 3., 0.])",
    dtypes: DTypes::REAL.union(DTypes::BOOL).union(DTypes::WIDE),
    tags: Tags::RANDOM,
    implementation: Implementation::InPlaceFill(InPlaceFill::on_any_device(|args, own| {
        integers(own, &generator(args, GENERATOR), 0, args.int(TO)?)
    })),
    samples: &["t(2, 3), 2", "t(), 1"],
    errors: &[("t(2), 0", "RuntimeError", "random_ expects 'from' to be less than 'to', but got from=0 >= to=0")],
    reference: "np.random.RandomState(0).randint(0, 2**32, self.shape, np.uint32) % to",
    ..BASE
};

#[operator]
pub static RANDOM_FROM_: Operator = Operator {
    name: "random_.from",
    node: "RandomBackward0",
    signature: "(Tensor self, int from, int? to, *, Generator? generator=None) -> Tensor",
    doc:
        "Fills the tensor with random integers from `from` (inclusive) to `to` (exclusive), or up to the greatest of its dtype.

    >>> _ = torch.manual_seed(0)
    >>> torch.empty(4).random_(10, 20)
    tensor([14., 19., 13., 10.])",
    dtypes: DTypes::REAL.union(DTypes::BOOL).union(DTypes::WIDE),
    tags: Tags::RANDOM,
    implementation: Implementation::InPlaceFill(InPlaceFill::on_any_device(|args, own| match args.optional_int(TO) {
        Some(to) => integers(own, &generator(args, GENERATOR), args.int(FROM)?, to),
        None => integers_from(own, &generator(args, GENERATOR), args.int(FROM)?),
    })),
    samples: &["t(2, 3), 0, 2", "i(4, 4), 1, None"],
    errors: &[
        ("t(2), 5, 3", "RuntimeError", "random_ expects 'from' to be less than 'to', but got from=5 >= to=3"),
        ("torch.zeros(2, dtype=torch.uint8), 0, 300", "RuntimeError", "to - 1 is out of bounds for unsigned char"),
        ("torch.zeros(2, dtype=torch.uint8), -1, 300", "RuntimeError", "from is out of bounds for unsigned char"),
    ],
    ..BASE
};

#[operator]
pub static BERNOULLI_: Operator = Operator {
    name: "bernoulli_.float",
    node: "BernoulliBackward2",
    signature: "(Tensor self, float p=0.5, *, Generator? generator=None) -> Tensor",
    doc: "Fills the tensor with 1 with probability `p`, else 0.

    >>> _ = torch.manual_seed(0)
    >>> torch.empty(4).bernoulli_(0.6)
    tensor([0., 0., 1., 0.])",
    dtypes: DTypes::REAL.union(DTypes::BOOL),
    tags: Tags::RANDOM,
    implementation: Implementation::InPlaceFill(InPlaceFill::on_any_device(|args, own| {
        bernoulli(own, &generator(args, GENERATOR), args.float(P)?)
    })),
    samples: &["t(2, 3)", "t(4), 0.25", "t(3), 1."],
    errors: &[
        ("t(2), 2.", "RuntimeError", "bernoulli_ expects p to be in [0, 1], but got p=2"),
        ("t(2), -1.", "RuntimeError", "bernoulli_ expects p to be in [0, 1], but got p=-1"),
    ],
    ..BASE
};

#[operator]
pub static BERNOULLI_TENSOR_: Operator = Operator {
    name: "bernoulli_.Tensor",
    node: "BernoulliBackward1",
    signature: "(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor",
    doc: "Fills the tensor with 1 with the probability at the same index of `p`, else 0.

    >>> torch.empty(2).bernoulli_(torch.tensor([0., 1.]))
    tensor([0., 1.])",
    dtypes: DTypes::REAL.union(DTypes::BOOL),
    tags: Tags::DATA_DEPENDENT.union(Tags::RANDOM),
    implementation: Implementation::InPlaceFill(InPlaceFill::on_any_device(|args, own| {
        bernoulli_each(own, &generator(args, GENERATOR), args.tensor(P)?)
    })),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, nothing), formula(P, Saves::NOTHING, nothing)]),
    samples: &["t(2, 3), torch.tensor([0.25, 0.5, 0.75])", "t(3), torch.tensor(0.5)"],
    errors: &[
        ("t(2), torch.tensor([0., 2.])", "RuntimeError", "Expected p_in >= 0 && p_in <= 1 to be true, but got false."),
        (
            "t(2), pos(2, 2)",
            "RuntimeError",
            "expand(torch.FloatTensor{[2, 2]}, size=[2]): the number of sizes provided (1) must be greater or equal to the number of dimensions in the tensor (2)",
        ),
        ("t(2), i(2, 2)", "NotImplementedError", "\"bernoulli_tensor_cpu_p_\" not implemented for 'Long'"),
    ],
    ..BASE
};

#[operator]
pub static EXPONENTIAL_: Operator = Operator {
    name: "exponential_",
    signature: "(Tensor self, float lambd=1, *, Generator? generator=None) -> Tensor",
    doc: "Fills the tensor with exponentially distributed numbers of rate `lambd`.

    >>> _ = torch.manual_seed(0)
    >>> torch.empty(2).exponential_()
    tensor([3.5083, 1.2304])",
    dtypes: DTypes::FLOATS,
    tags: Tags::RANDOM,
    implementation: Implementation::InPlaceFill(InPlaceFill::on_any_device(|args, own| {
        exponential(own, &generator(args, GENERATOR), args.float(LAMBD)?)
    })),
    samples: &["t(2, 3)", "t(4), 2."],
    errors: &[
        ("t(2), 0.", "RuntimeError", "exponential_ expects lambda > 0.0, but found lambda=0"),
        ("t(2), -1.", "RuntimeError", "exponential_ expects lambda > 0.0, but found lambda=-1"),
        (
            "i(3, 2)",
            "RuntimeError",
            "Exponential distribution is a continuous probability distribution. dtype must be a floating point but you specified Long",
        ),
    ],
    ..BASE
};

#[operator]
pub static GEOMETRIC_: Operator = Operator {
    name: "geometric_",
    signature: "(Tensor self, float p, *, Generator? generator=None) -> Tensor",
    doc: "Fills the tensor with the number of trials until the first success of probability `p`.

    >>> _ = torch.manual_seed(0)
    >>> torch.empty(4).geometric_(0.5)
    tensor([1., 1., 2., 1.])",
    dtypes: DTypes::REAL,
    tags: Tags::RANDOM,
    implementation: Implementation::InPlaceFill(InPlaceFill::on_any_device(|args, own| {
        geometric(own, &generator(args, GENERATOR), args.float(P)?)
    })),
    samples: &["t(2, 3), 0.5", "t(), 0.25"],
    errors: &[
        ("t(2), 0.", "RuntimeError", "geometric_ expects p to be in (0, 1), but got p=0"),
        ("t(2), 1.", "RuntimeError", "geometric_ expects p to be in (0, 1), but got p=1"),
    ],
    ..BASE
};

#[operator]
pub static CAUCHY_: Operator = Operator {
    name: "cauchy_",
    signature: "(Tensor self, float median=0, float sigma=1, *, Generator? generator=None) -> Tensor",
    doc: "Fills the tensor with numbers of the Cauchy distribution.

    >>> _ = torch.manual_seed(0)
    >>> torch.empty(2).cauchy_()
    tensor([10.5977,  0.7648])",
    dtypes: DTypes::FLOATS,
    tags: Tags::RANDOM,
    implementation: Implementation::InPlaceFill(InPlaceFill::on_any_device(|args, own| {
        cauchy(own, &generator(args, GENERATOR), args.float(MEDIAN)?, args.float(SIGMA)?)
    })),
    samples: &["t(2, 3)", "t(4), 1., 2."],
    errors: &[
        (
            "i(3, 2)",
            "RuntimeError",
            "Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you specified long int",
        ),
        ("t(2), 0., 0.", "RuntimeError", "cauchy_ expects sigma > 0.0, but found sigma=0"),
    ],
    ..BASE
};

#[operator]
pub static LOG_NORMAL_: Operator = Operator {
    name: "log_normal_",
    signature: "(Tensor self, float mean=1, float std=2, *, Generator? generator=None) -> Tensor",
    doc: "Fills the tensor with numbers whose logarithm is normally distributed.

    >>> _ = torch.manual_seed(0)
    >>> torch.empty(2).log_normal_()
    tensor([59.2634,  1.5116])",
    dtypes: DTypes::FLOATS,
    tags: Tags::RANDOM,
    implementation: Implementation::InPlaceFill(InPlaceFill::on_any_device(|args, own| {
        log_normal(own, &generator(args, GENERATOR), args.float(MEAN)?, args.float(STD)?)
    })),
    samples: &["t(2, 3)", "t(4), 0., 0.5"],
    errors: &[
        ("t(2), 0., 0.", "RuntimeError", "log_normal_ expects std > 0.0, but found std=0"),
        ("i(3, 2)", "NotImplementedError", "\"log_normal_cpu\" not implemented for 'Long'"),
    ],
    ..BASE
};
