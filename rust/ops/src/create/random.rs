//! New tensors of random numbers.

use rushlight_autograd::Tensor;
use rushlight_core::alloc::{collected, filled, list};
use rushlight_core::broadcast::broadcast;
use rushlight_core::dtype::{bf16_, default_dtype, f16_};
use rushlight_core::layout::checked_new;
use rushlight_core::{DType, Device, Dims, Error, Layout, Result, Scalar, dispatch};
use rushlight_dispatch::allocate::allocate;
use rushlight_dispatch::create::{check_fits, scalar_of};
use rushlight_dispatch::generator::Generator;
use rushlight_dispatch::operator::{
    Accepts, Args, BatchRule, DTypes, Derivative, Implementation, Kernel, Operator, Out, Saves, Sparse, Tags,
    TensorSpec, Variants, formula, operator,
};
use rushlight_dispatch::value::{Arg, Output, Target};
use rushlight_dispatch::{copy, create, op};
use rushlight_rng::Float;
use rushlight_rng::distributions::{self, MultinomialError};

use super::constant::like;
use super::draw::{self, generator};
use super::fill::nothing;
use super::{Options, factory, on_cuda, sizes};
use crate::pointwise::arith::{ADD, MUL};

const WEIGHTS: &str = "Weights must be finite and non-negative, with at least one positive weight in each row.";
const RANDOM: Derivative = Derivative::NonDifferentiable("its result is random");
const BASE: Operator = Operator {
    variants: Variants::FUNCTION.union(Variants::OUT),
    out: Out::FACTORY.direct(),
    dtypes: DTypes::ALL,
    derivative: RANDOM,
    ..Operator::BASE
};

/// The spec of a factory's result, from its `size`.
fn made(args: &Args, arg: Arg, dtype: DType) -> Result<Vec<TensorSpec>> {
    let (options, sizes) = (Options::of(args)?, sizes(args, arg)?);
    checked_new(&sizes)?;
    let layout = Layout::contiguous(&sizes);
    Ok(vec![TensorSpec { layout, dtype: options.dtype.unwrap_or(dtype), device: options.device() }])
}

#[operator]
pub static RAND: Operator = Operator {
    name: "rand",
    signature: factory!("int[] size, *, Generator? generator=None"),
    doc: "Random numbers drawn uniformly from 0 (inclusive) to 1 (exclusive).

    >>> _ = torch.manual_seed(0)
    >>> torch.rand(3)
    tensor([0.4963, 0.7682, 0.0885])",
    tags: Tags::RANDOM,
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| made(args, SIZE, default_dtype()),
        |args, results| draw::uniform(&results[0], &generator(args, GENERATOR), 0.0, 1.0),
    )),
    samples: &["(2, 3)", "()", "(0, 2)", "(2, 3), dtype=torch.float64"],
    errors: &[
        ("(-1,)", "RuntimeError", "Trying to create tensor with negative dimension -1: [-1]"),
        ("(2,), dtype=torch.int64", "NotImplementedError", "\"check_uniform_bounds\" not implemented for 'Long'"),
    ],
    reference: "np.random.RandomState(0).randint(0, 2**32, size, np.uint32) % 2**24 / 2**24 if dtype is None else np.random.RandomState(0).randint(0, 2**64, size, np.uint64) % 2**53 / 2**53",
    ..BASE
};

#[operator]
pub static RANDN: Operator = Operator {
    name: "randn",
    signature: factory!("int[] size, *, Generator? generator=None"),
    doc: "Random numbers of the standard normal distribution.

    >>> _ = torch.manual_seed(0)
    >>> torch.randn(3)
    tensor([ 1.5410, -0.2934, -2.1788])",
    tags: Tags::RANDOM,
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| made(args, SIZE, default_dtype()),
        |args, results| draw::normal(&results[0], &generator(args, GENERATOR), 0.0, 1.0),
    )),
    out: BASE.out.resizes_first(),
    samples: &["(2, 3)", "(20,)", "()", "(2, 3), dtype=torch.float64"],
    errors: &[
        ("(-1,)", "RuntimeError", "Trying to create tensor with negative dimension -1: [-1]"),
        ("(2,), dtype=torch.int64", "NotImplementedError", "\"normal_kernel_cpu\" not implemented for 'Long'"),
    ],
    ..BASE
};

#[operator]
pub static RAND_LIKE: Operator = Operator {
    name: "rand_like",
    variants: Variants::FUNCTION,
    signature: factory!("Tensor self, *, Generator? generator=None, MemoryFormat? memory_format=None"),
    doc: "`rand` with another tensor's size and dtype.

    >>> _ = torch.manual_seed(0)
    >>> torch.rand_like(torch.ones(3))
    tensor([0.4963, 0.7682, 0.0885])",
    dtypes: DTypes::INEXACT,
    tags: Tags::RANDOM,
    sparse: Sparse::CompositeImplicit,
    batch_rule: BatchRule::ShapeOnly,
    implementation: Implementation::CompositeImplicit(|args| {
        let (options, tensor) = like(args)?;
        draw::uniform(&tensor, &generator(args, GENERATOR), 0.0, 1.0)?;
        options.finish(tensor)
    }),
    samples: &["t(2, 3)", "t(3, 2).t()"],
    errors: &[("i(3, 2)", "NotImplementedError", "\"check_uniform_bounds\" not implemented for 'Long'")],
    ..BASE
};

#[operator]
pub static RANDN_LIKE: Operator = Operator {
    name: "randn_like",
    variants: Variants::FUNCTION,
    signature: factory!("Tensor self, *, Generator? generator=None, MemoryFormat? memory_format=None"),
    doc: "`randn` with another tensor's size and dtype.

    >>> _ = torch.manual_seed(0)
    >>> torch.randn_like(torch.ones(3))
    tensor([ 1.5410, -0.2934, -2.1788])",
    dtypes: DTypes::INEXACT,
    tags: Tags::RANDOM,
    sparse: Sparse::CompositeImplicit,
    batch_rule: BatchRule::ShapeOnly,
    implementation: Implementation::CompositeImplicit(|args| {
        let (options, tensor) = like(args)?;
        draw::normal(&tensor, &generator(args, GENERATOR), 0.0, 1.0)?;
        options.finish(tensor)
    }),
    samples: &["t(2, 3)", "t(3, 2).t()", "t(20)"],
    errors: &[("i(3, 2)", "NotImplementedError", "\"normal_kernel_cpu\" not implemented for 'Long'")],
    ..BASE
};

#[operator]
pub static RANDINT: Operator = Operator {
    name: "randint",
    signature: factory!("int high, int[] size, *, Generator? generator=None"),
    doc: "Random integers from 0 (inclusive) to `high` (exclusive).

    >>> _ = torch.manual_seed(0)
    >>> torch.randint(10, (4,))
    tensor([4, 9, 3, 0])",
    tags: Tags::RANDOM,
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| made(args, SIZE, DType::I64),
        |args, results| draw::integers(&results[0], &generator(args, GENERATOR), 0, args.int(HIGH)?),
    )),
    samples: &["10, (2, 3)", "5, (4,), dtype=torch.float32", "2**40, (3,)"],
    errors: &[
        ("10, (-1,)", "RuntimeError", "Trying to create tensor with negative dimension -1: [-1]"),
        ("0, (2,)", "RuntimeError", "random_ expects 'from' to be less than 'to', but got from=0 >= to=0"),
    ],
    reference: "np.random.RandomState(0).randint(0, 2**32, size, np.uint32) % high if high < 2**32 else np.random.RandomState(0).randint(0, 2**64, size, np.uint64) % high",
    ..BASE
};

#[operator]
pub static RANDINT_LOW: Operator = Operator {
    name: "randint.low",
    signature: factory!("int low, int high, int[] size, *, Generator? generator=None"),
    doc: "Random integers from `low` (inclusive) to `high` (exclusive).

    >>> _ = torch.manual_seed(0)
    >>> torch.randint(3, 10, (4,))
    tensor([7, 6, 3, 5])",
    tags: Tags::RANDOM,
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| made(args, SIZE, DType::I64),
        |args, results| draw::integers(&results[0], &generator(args, GENERATOR), args.int(LOW)?, args.int(HIGH)?),
    )),
    samples: &["3, 10, (2, 3)", "-2, 3, ()"],
    errors: &[("5, 3, (2,)", "RuntimeError", "random_ expects 'from' to be less than 'to', but got from=5 >= to=3")],
    reference: "np.random.RandomState(0).randint(0, 2**32, size, np.uint32).astype(np.int64) % (high - low) + low",
    ..BASE
};

fn randint_like(args: &Args, low: i64, high: i64, stream: Arg) -> Result<Output> {
    let (options, tensor) = like(args)?;
    draw::integers(&tensor, &generator(args, stream), low, high)?;
    options.finish(tensor)
}

#[operator]
pub static RANDINT_LIKE: Operator = Operator {
    name: "randint_like",
    variants: Variants::FUNCTION,
    signature: factory!("Tensor self, int high, *, Generator? generator=None, MemoryFormat? memory_format=None"),
    doc: "Random integers from 0 (inclusive) to `high` (exclusive), with another tensor's size and dtype.

    >>> _ = torch.manual_seed(0)
    >>> torch.randint_like(torch.ones(4), 10)
    tensor([4., 9., 3., 0.])",
    dtypes: DTypes::REAL.union(DTypes::BOOL).union(DTypes::WIDE),
    tags: Tags::RANDOM,
    sparse: Sparse::CompositeImplicit,
    batch_rule: BatchRule::ShapeOnly,
    implementation: Implementation::CompositeImplicit(|args| randint_like(args, 0, args.int(HIGH)?, GENERATOR)),
    samples: &["t(2, 3), 2", "t(), 1"],
    errors: &[("t(2), 0", "RuntimeError", "random_ expects 'from' to be less than 'to', but got from=0 >= to=0")],
    reference: "np.random.RandomState(0).randint(0, 2**32, self.shape, np.uint32) % high",
    ..BASE
};

#[operator]
pub static RANDINT_LIKE_LOW: Operator = Operator {
    name: "randint_like.low_dtype",
    variants: Variants::FUNCTION,
    signature: factory!(
        "Tensor self, int low, int high, *, Generator? generator=None, MemoryFormat? memory_format=None"
    ),
    doc: "Random integers from `low` (inclusive) to `high` (exclusive), with another tensor's size and dtype.

    >>> _ = torch.manual_seed(0)
    >>> torch.randint_like(torch.ones(4), 3, 10)
    tensor([7., 6., 3., 5.])",
    dtypes: DTypes::REAL.union(DTypes::BOOL).union(DTypes::WIDE),
    tags: Tags::RANDOM,
    sparse: Sparse::CompositeImplicit,
    batch_rule: BatchRule::ShapeOnly,
    implementation: Implementation::CompositeImplicit(|args| {
        randint_like(args, args.int(LOW)?, args.int(HIGH)?, GENERATOR)
    }),
    samples: &["t(2, 3), 0, 2", "t(3, 2).t(), 1, 2"],
    errors: &[("t(2), 5, 3", "RuntimeError", "random_ expects 'from' to be less than 'to', but got from=5 >= to=3")],
    reference: "np.random.RandomState(0).randint(0, 2**32, self.shape, np.uint32) % (high - low) + low",
    ..BASE
};

#[operator]
pub static RANDPERM: Operator = Operator {
    name: "randperm",
    signature: factory!("int n, *, Generator? generator=None"),
    doc: "A random permutation of the integers from 0 (inclusive) to `n` (exclusive).

    >>> _ = torch.manual_seed(0)
    >>> torch.randperm(5)
    tensor([4, 0, 1, 3, 2])",
    tags: Tags::RANDOM,
    implementation: Implementation::CompositeImplicit(|args| {
        let (options, n) = (Options::of(args)?, args.int(N)?);
        let dtype = options.dtype.unwrap_or(DType::I64);
        let exact = [(DType::F16, 11, "2049"), (DType::F32, 24, "2^24+1"), (DType::F64, 53, "2^53+1")];
        if let Some((_, _, limit)) = exact.iter().find(|(own, digits, _)| *own == dtype && n > (1 << digits) + 1) {
            return Err(Error::runtime(format!("n cannot be greater than {limit} for {} type.", dtype.display_name())));
        }
        let tensor = options.empty(&[n as isize], DType::I64)?;
        check_fits(Scalar::Int((n - 1).max(0)), dtype)?;
        let stream = generator(args, GENERATOR);
        dispatch!(tensor.dtype(), T in [u8, i8, i16, i32, i64, f16_, bf16_, f32, f64] => {
            if on_cuda::draws(&tensor) {
                copy::copy(&tensor, &on_cuda::permutation(tensor.numel(), tensor.device(), &stream)?)?;
            } else {
                draw::fill::<T>(&tensor, &stream, distributions::randperm)?;
            }
        }, else => return Err(Error::unsupported("randperm", tensor.dtype())));
        options.finish(tensor)
    }),
    samples: &["5", "0", "6, dtype=torch.int32"],
    errors: &[("-1", "RuntimeError", "Trying to create tensor with negative dimension -1: [-1]")],
    ..BASE
};

/// Returns an error for negative standard deviations.
fn check_std(std: &Tensor) -> Result<()> {
    if std.dtype().is_complex() {
        return Err(Error::runtime("normal expects standard deviation to be non-complex"));
    }
    if std.dtype().is_wide_unsigned() && std.numel() > 0 {
        return Err(Error::unsupported("min_all", std.dtype()));
    }
    if std.device() != Device::Meta && !crate::convert::to_vec::<f64>(std)?.iter().all(|std| *std >= 0.0) {
        return Err(Error::runtime("normal expects all elements of std >= 0.0"));
    }
    Ok(())
}

/// The spec of `normal` with tensors: the broadcast size, in the first one's dtype.
fn normal_infer(args: &Args) -> Result<Vec<TensorSpec>> {
    let mut sizes = Dims::new();
    let mut like = None;
    for (at, tensor) in args.each_tensor() {
        if at == NORMAL_TENSORS::STD.position() {
            check_std(tensor)?;
        }
        sizes = broadcast(&sizes, tensor.sizes())?;
        like.get_or_insert(tensor);
    }
    let Some(like) = like else { return Err(Error::type_("normal() needs a tensor")) };
    Ok(vec![TensorSpec::new(&sizes, like.dtype(), like)])
}

/// Draws, then scales and shifts; none of it is recorded.
fn fill_normal(args: &Args, results: &[Tensor]) -> Result<()> {
    use NORMAL_TENSORS::*;

    let (result, stream) = (&results[0], generator(args, GENERATOR));
    let tensor = |arg| args.value(arg).as_tensor().map(Tensor::detach);
    let std = tensor(STD);
    draw::normal(result, &stream, 0.0, if std.is_some() { 1.0 } else { args.float(STD)? })?;
    if let Some(std) = std {
        Args::new(&MUL, [result.into(), (&std).into()]).call_into(Target::InPlace)?;
    }
    let mean = match tensor(MEAN) {
        Some(mean) => mean,
        None => scalar_of(Scalar::Float(args.float(MEAN)?), result.dtype(), result.device())?,
    };
    Args::new(&ADD, [result.into(), (&mean).into(), Scalar::ONE.into()]).call_into(Target::InPlace).map(drop)
}

const NORMAL: Operator = Operator {
    out: Out::ANY.direct(),
    implementation: Implementation::Kernel(Kernel::on_any_device(normal_infer, fill_normal)),
    ..BASE
};

#[operator]
pub static NORMAL_TENSORS: Operator = Operator {
    name: "normal.Tensor_Tensor",
    node: "NormalBackward3",
    signature: "(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor",
    doc: "Normally distributed numbers, each with the mean and the standard deviation at its index.

    >>> _ = torch.manual_seed(0)
    >>> torch.normal(torch.tensor([10., 20.]), torch.tensor([1., 2.]))
    tensor([11.5410, 19.4131])",
    dtypes: DTypes::FLOATS,
    tags: Tags::BROADCASTS.union(Tags::RANDOM),
    derivative: Derivative::Formulas(&[formula(MEAN, Saves::NOTHING, nothing), formula(STD, Saves::NOTHING, nothing)]),
    samples: &["t(2, 3), pos(2, 3)", "t(2, 1), pos(3)", "t(), pos(20)"],
    errors: &[
        (
            "t(2), t(3).abs()",
            "RuntimeError",
            "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0",
        ),
        ("t(2), torch.tensor([-1., 1.])", "RuntimeError", "normal expects all elements of std >= 0.0"),
        ("i(3, 2), i(3, 2)", "NotImplementedError", "\"normal_kernel_cpu\" not implemented for 'Long'"),
    ],
    ..NORMAL
};

#[operator]
pub static NORMAL_MEANS: Operator = Operator {
    name: "normal.Tensor_float",
    out: Out::ANY.direct().spanning(),
    signature: "(Tensor mean, float std=1, *, Generator? generator=None) -> Tensor",
    doc: "Normally distributed numbers, each with the mean at its index.

    >>> _ = torch.manual_seed(0)
    >>> torch.normal(torch.tensor([10., 20.]))
    tensor([11.5410, 19.7066])",
    dtypes: DTypes::INEXACT,
    derivative: Derivative::Formulas(&[formula(MEAN, Saves::NOTHING, nothing)]),
    tags: Tags::RANDOM,
    samples: &["t(2, 3)", "t(20), 0.5"],
    errors: &[
        ("t(2), -1.", "RuntimeError", "normal expects std >= 0.0, but found std -1"),
        ("i(3, 2)", "NotImplementedError", "\"normal_kernel_cpu\" not implemented for 'Long'"),
    ],
    ..NORMAL
};

#[operator]
pub static NORMAL_STDS: Operator = Operator {
    name: "normal.float_Tensor",
    signature: "(float mean, Tensor std, *, Generator? generator=None) -> Tensor",
    doc: "Normally distributed numbers, each with the standard deviation at its index.

    >>> _ = torch.manual_seed(0)
    >>> torch.normal(10., torch.tensor([1., 2.]))
    tensor([11.5410,  9.4131])",
    dtypes: DTypes::FLOATS,
    derivative: Derivative::Formulas(&[formula(STD, Saves::NOTHING, nothing)]),
    tags: Tags::RANDOM,
    samples: &["0., pos(2, 3)", "1., pos(20)"],
    errors: &[
        ("0., torch.tensor([-1.])", "RuntimeError", "normal expects all elements of std >= 0.0"),
        ("0., i(3, 2)", "NotImplementedError", "\"normal_kernel_cpu\" not implemented for 'Long'"),
    ],
    ..NORMAL
};

#[operator]
pub static NORMAL_SIZE: Operator = Operator {
    name: "normal.float_float",
    signature: factory!("float mean, float std, int[] size, *, Generator? generator=None"),
    doc: "Normally distributed numbers with one mean and standard deviation.

    >>> _ = torch.manual_seed(0)
    >>> torch.normal(10., 2., (2,))
    tensor([13.0820,  9.4131])",
    tags: Tags::RANDOM,
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| made(args, SIZE, default_dtype()),
        |args, results| draw::normal(&results[0], &generator(args, GENERATOR), args.float(MEAN)?, args.float(STD)?),
    )),
    samples: &["0., 1., (2, 3)", "10., 2., (20,)"],
    errors: &[
        ("0., -1., (2,)", "RuntimeError", "normal expects std >= 0.0, but found std -1"),
        ("0., 1., (-1,)", "RuntimeError", "Trying to create tensor with negative dimension -1: [-1]"),
    ],
    ..BASE
};

#[operator]
pub static BERNOULLI: Operator = Operator {
    name: "bernoulli",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, *, Generator? generator=None) -> Tensor",
    doc: "1 with the probability at the same index of the tensor, else 0.

    >>> torch.bernoulli(torch.tensor([0., 1.]))
    tensor([0., 1.])",
    dtypes: DTypes::FLOATS,
    out: Out::ANY.silently().direct(),
    tags: Tags::RANDOM,
    implementation: Implementation::Kernel(Kernel::on_any_device(same, |args, results| {
        draw::bernoulli_each(&results[0], &generator(args, GENERATOR), args.tensor(INPUT)?)
    })),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, nothing)]),
    samples: &["unit(2, 3).abs()", "unit(0, 3)", "unit(3, 2).abs().t()"],
    errors: &[("i(2, 2)", "NotImplementedError", "\"bernoulli_tensor_cpu_p_\" not implemented for 'Long'")],
    ..BASE
};

/// A row-major result of the first argument's size and dtype.
fn same(args: &Args) -> Result<Vec<TensorSpec>> {
    let input = args.tensor(BERNOULLI::INPUT)?;
    Ok(vec![TensorSpec::new(input.sizes(), input.dtype(), input)])
}

#[operator]
pub static BERNOULLI_P: Operator = Operator {
    name: "bernoulli.p",
    variants: Variants::BOTH,
    signature: "(Tensor self, float p, *, Generator? generator=None) -> Tensor",
    doc: "1 with probability `p`, else 0, in the tensor's size and dtype.

    >>> torch.bernoulli(torch.zeros(2), 1.)
    tensor([1., 1.])",
    dtypes: DTypes::REAL.union(DTypes::BOOL),
    tags: Tags::RANDOM,
    implementation: Implementation::Kernel(Kernel::on_any_device(same, |args, results| {
        draw::bernoulli(&results[0], &generator(args, GENERATOR), args.float(P)?)
    })),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, nothing)]),
    samples: &["t(2, 3), 0.5", "t(), 1."],
    errors: &[("t(2), 2.", "RuntimeError", "bernoulli_ expects p to be in [0, 1], but got p=2")],
    ..BASE
};

#[operator]
pub static MULTINOMIAL: Operator = Operator {
    name: "multinomial",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor",
    doc: "Indices drawn with the tensor's elements, or each row's, as weights.

    >>> torch.multinomial(torch.tensor([0., 3., 0.]), 1)
    tensor([1])",
    dtypes: DTypes::FLOATS,
    out: Out::new(Accepts::Same, &["multinomial expects Long tensor out, got: {Out}"]).silently(),
    tags: Tags::RANDOM,
    implementation: Implementation::CompositeImplicit(multinomial),
    samples: &["pos(4), 2", "pos(2, 5), 3", "pos(4), 6, True", "pos(2, 3), 1"],
    errors: &[
        ("pos(3), 0", "RuntimeError", "cannot sample n_sample <= 0 samples"),
        ("i(3, 3), 1", "RuntimeError", "multinomial only supports floating-point dtypes for input, got: Long"),
        (
            "torch.tensor([-1., 1.]), 1",
            "RuntimeError",
            "probability tensor contains either `inf`, `nan` or element < 0",
        ),
        ("torch.zeros(2), 2, True", "RuntimeError", "invalid multinomial distribution (sum of probabilities <= 0)"),
        (
            "pos(0), 1, True",
            "RuntimeError",
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.",
        ),
        ("t(2, 2, 2), 1", "RuntimeError", "prob_dist must be 1 or 2 dim"),
        ("pos(3), 4", "RuntimeError", "cannot sample n_sample > prob_dist.size(-1) samples without replacement"),
    ],
    ..BASE
};

fn multinomial(args: &Args) -> Result<Output> {
    use MULTINOMIAL::*;

    let (input, count, replacement) = (args.tensor(INPUT)?, args.int(NUM_SAMPLES)?, args.bool(REPLACEMENT)?);
    let rank = input.rank();
    if rank != 1 && rank != 2 {
        return Err(Error::runtime("prob_dist must be 1 or 2 dim"));
    }
    if !input.dtype().is_floating() {
        return Err(Error::runtime(format!(
            "multinomial only supports floating-point dtypes for input, got: {}",
            input.dtype().display_name()
        )));
    }
    let categories = input.sizes()[rank - 1];
    if count <= 0 {
        return Err(Error::runtime("cannot sample n_sample <= 0 samples").hint("num_samples must be positive."));
    }
    if !replacement && count > categories as i64 {
        return Err(Error::runtime("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
            .hint("Draw fewer samples, or use replacement=True."));
    }
    if categories == 0 && (rank == 1 || input.sizes()[0] > 0) {
        return Err(Error::runtime(if replacement && count != 1 {
            "invalid multinomial distribution (sum of probabilities <= 0)"
        } else {
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
        })
        .hint("At least one category is required."));
    }
    if categories > 1 << 24 {
        return Err(Error::runtime("number of categories cannot exceed 2^24"));
    }
    let mut sizes = input.sizes().clone();
    sizes[rank - 1] = count as isize;
    let stream = generator(args, GENERATOR);
    if on_cuda::draws(input) && input.numel() > 0 {
        let drawn = on_cuda::samples(&input.detach(), count as usize, replacement, &stream)?;
        let refused = |why| refusal(why, replacement && count > 1);
        return drawn.map(Output::Tensor).map_err(refused);
    }
    let result = create::empty(&sizes, DType::I64, input.device())?;
    if input.device() == Device::Cpu {
        let chosen = dispatch!(input.dtype(), T in [f16_, bf16_, f32, f64] => {
            choose::<T>(input, categories as usize, count as usize, replacement, &stream)?
        }, else => Vec::new());
        let flat = create::from_slice(&chosen)?;
        copy::copy(&op!(crate::view::reshape::VIEW, &result, [-1i64].as_slice())?, &flat)?;
    }
    Ok(Output::Tensor(result))
}

/// The error for weights, whose words depend on how samples are drawn.
fn refusal(why: MultinomialError, one_by_one: bool) -> Error {
    let sentence = match why {
        why if one_by_one => why.to_string(),
        MultinomialError::Zero => why.to_string(),
        _ => "probability tensor contains either `inf`, `nan` or element < 0".to_string(),
    };
    Error::runtime(sentence).hint(WEIGHTS)
}

fn choose<T: Float + PartialOrd + rushlight_core::Element>(
    input: &Tensor,
    categories: usize,
    count: usize,
    replacement: bool,
    generator: &Generator,
) -> Result<Vec<i64>> {
    let weights = crate::convert::to_vec::<T>(input)?;
    let rows = weights.chunks(categories.max(1));
    if replacement && count > 1 {
        let mut chosen = filled(0, rows.len().saturating_mul(count))?;
        let draw = |stream: &mut rushlight_rng::Stream| {
            rows.zip(chosen.chunks_mut(count))
                .try_for_each(|(row, out)| distributions::multinomial_with_replacement(stream, out, row))
        };
        generator.draw(draw).map_err(|why| refusal(why, true))?;
        return Ok(chosen);
    }
    if weights.iter().any(|weight| !(weight.to_f64().is_finite() && weight.to_f64() >= 0.0)) {
        return Err(refusal(MultinomialError::NotFinite, false));
    }
    if rows.clone().any(|row| row.iter().all(|weight| weight.to_f64() == 0.0)) {
        return Err(refusal(MultinomialError::Zero, false));
    }
    // The exponential number of each weight is drawn in the order of the weights in memory.
    let layout = Layout { sizes: input.sizes().clone(), strides: input.layout().preserved_strides(), offset: 0 };
    let drawn = allocate(&TensorSpec { layout, dtype: input.dtype(), device: input.device() })?;
    let alongside = draw::alongside::<T>(input, &drawn)?;
    draw::fill::<T>(&drawn, generator, |stream, out| distributions::exponential_race(stream, out, &alongside))?;
    let race = crate::convert::to_vec::<T>(&drawn)?;
    let mut winners = list(race.len().checked_div(categories).unwrap_or(0) * count)?;
    for row in race.chunks(categories) {
        let mut places = collected((0..categories).map(|place| place as i64))?;
        places.sort_unstable_by(|&a, &b| row[b as usize].to_f64().total_cmp(&row[a as usize].to_f64()).then(a.cmp(&b)));
        winners.extend(&places[..count]);
    }
    Ok(winners)
}
