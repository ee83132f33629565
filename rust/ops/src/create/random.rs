//! New tensors of random numbers.

use rushlight_autograd::Tensor;
use rushlight_core::alloc::{collected, filled, list};
use rushlight_core::broadcast::broadcast;
use rushlight_core::dtype::{bf16_, default_dtype, f16_};
use rushlight_core::layout::{Dims, checked_new};
use rushlight_core::{DType, Device, Error, Layout, Result, Scalar, dispatch};
use rushlight_rng::Float;
use rushlight_rng::distributions;

use super::constant::like;
use super::draw::{self, generator};
use super::overwrite::nothing;
use super::{Options, check_fits, factory, scalar_of, sizes};
use crate::call::{Target, call_into};
use crate::derive::{Derivative, Saves, formula};
use crate::mapped::Mapped;
use crate::op;
use crate::pointwise::arith::{ADD, MUL};
use crate::row::{Accepts, DTypes, Kernel, Out, Row, Run, Spec, Traits, Variants};
use crate::value::{Args, Output};

const WEIGHTS: &str = "Weights are finite and 0 or more, and one of each row is more than 0.";
const RANDOM: Derivative = Derivative::NonDifferentiable("its result is random");
const BASE: Row = Row {
    variants: Variants::FUNCTION.union(Variants::OUT),
    out: Out::MADE.direct(),
    dtypes: DTypes::ALL,
    derivative: RANDOM,
    ..Row::BASE
};

/// What a factory will give whose `size` stands at `place`.
fn made(args: &Args, place: usize, dtype: DType) -> Result<Vec<Spec>> {
    let (options, sizes) = (Options::of(args)?, sizes(args, place)?);
    checked_new(&sizes)?;
    let layout = Layout::contiguous(&sizes);
    Ok(vec![Spec { layout, dtype: options.dtype.unwrap_or(dtype), device: options.device() }])
}

pub static RAND: Row = Row {
    name: "rand",
    signature: factory!("int[] size, *, Generator? generator=None"),
    doc: "Random numbers drawn evenly from 0 up to 1.

    >>> _ = torch.manual_seed(0)
    >>> torch.rand(3)
    tensor([0.4963, 0.7682, 0.0885])",
    traits: Traits::DRAWS,
    run: Run::Kernel(Kernel {
        infer: |args| made(args, 0, default_dtype()),
        cpu: |args, results| draw::uniform(&results[0], &generator(args, 1), 0.0, 1.0),
    }),
    samples: &["(2, 3)", "()", "(0, 2)", "(2, 3), dtype=torch.float64"],
    errors: &[
        ("(-1,)", "RuntimeError", "Trying to create tensor with negative dimension -1: [-1]"),
        ("(2,), dtype=torch.int64", "NotImplementedError", "\"check_uniform_bounds\" not implemented for 'Long'"),
    ],
    reference: "np.random.RandomState(0).randint(0, 2**32, size, np.uint32) % 2**24 / 2**24 if dtype is None else np.random.RandomState(0).randint(0, 2**64, size, np.uint64) % 2**53 / 2**53",
    ..BASE
};

pub static RANDN: Row = Row {
    name: "randn",
    signature: factory!("int[] size, *, Generator? generator=None"),
    doc: "Random numbers of the standard normal distribution.

    >>> _ = torch.manual_seed(0)
    >>> torch.randn(3)
    tensor([ 1.5410, -0.2934, -2.1788])",
    traits: Traits::DRAWS,
    run: Run::Kernel(Kernel {
        infer: |args| made(args, 0, default_dtype()),
        cpu: |args, results| draw::normal(&results[0], &generator(args, 1), 0.0, 1.0),
    }),
    samples: &["(2, 3)", "(20,)", "()", "(2, 3), dtype=torch.float64"],
    errors: &[
        ("(-1,)", "RuntimeError", "Trying to create tensor with negative dimension -1: [-1]"),
        ("(2,), dtype=torch.int64", "NotImplementedError", "\"normal_kernel_cpu\" not implemented for 'Long'"),
    ],
    ..BASE
};

pub static RAND_LIKE: Row = Row {
    name: "rand_like",
    variants: Variants::FUNCTION,
    signature: factory!("Tensor self, *, Generator? generator=None, MemoryFormat? memory_format=None"),
    doc: "`rand` with another tensor's size and dtype.

    >>> _ = torch.manual_seed(0)
    >>> torch.rand_like(torch.ones(3))
    tensor([0.4963, 0.7682, 0.0885])",
    dtypes: DTypes::INEXACT,
    traits: Traits::DRAWS,
    mapped: Mapped::Shape,
    run: Run::Compose(|args| {
        let (options, tensor) = like(args)?;
        draw::uniform(&tensor, &generator(args, 1), 0.0, 1.0)?;
        options.finish(tensor)
    }),
    samples: &["t(2, 3)", "t(3, 2).t()"],
    errors: &[("i(3, 2)", "NotImplementedError", "\"check_uniform_bounds\" not implemented for 'Long'")],
    ..BASE
};

pub static RANDN_LIKE: Row = Row {
    name: "randn_like",
    variants: Variants::FUNCTION,
    signature: factory!("Tensor self, *, Generator? generator=None, MemoryFormat? memory_format=None"),
    doc: "`randn` with another tensor's size and dtype.

    >>> _ = torch.manual_seed(0)
    >>> torch.randn_like(torch.ones(3))
    tensor([ 1.5410, -0.2934, -2.1788])",
    dtypes: DTypes::INEXACT,
    traits: Traits::DRAWS,
    mapped: Mapped::Shape,
    run: Run::Compose(|args| {
        let (options, tensor) = like(args)?;
        draw::normal(&tensor, &generator(args, 1), 0.0, 1.0)?;
        options.finish(tensor)
    }),
    samples: &["t(2, 3)", "t(3, 2).t()", "t(20)"],
    errors: &[("i(3, 2)", "NotImplementedError", "\"normal_kernel_cpu\" not implemented for 'Long'")],
    ..BASE
};

pub static RANDINT: Row = Row {
    name: "randint",
    signature: factory!("int high, int[] size, *, Generator? generator=None"),
    doc: "Random integers from 0 up to `high`, without it.

    >>> _ = torch.manual_seed(0)
    >>> torch.randint(10, (4,))
    tensor([4, 9, 3, 0])",
    traits: Traits::DRAWS,
    run: Run::Kernel(Kernel {
        infer: |args| made(args, 1, DType::I64),
        cpu: |args, results| draw::integers(&results[0], &generator(args, 2), 0, args.int(0)?),
    }),
    samples: &["10, (2, 3)", "5, (4,), dtype=torch.float32", "2**40, (3,)"],
    errors: &[
        ("10, (-1,)", "RuntimeError", "Trying to create tensor with negative dimension -1: [-1]"),
        ("0, (2,)", "RuntimeError", "random_ expects 'from' to be less than 'to', but got from=0 >= to=0"),
    ],
    reference: "np.random.RandomState(0).randint(0, 2**32, size, np.uint32) % high if high < 2**32 else np.random.RandomState(0).randint(0, 2**64, size, np.uint64) % high",
    ..BASE
};

pub static RANDINT_LOW: Row = Row {
    name: "randint.low",
    signature: factory!("int low, int high, int[] size, *, Generator? generator=None"),
    doc: "Random integers from `low` up to `high`, without it.

    >>> _ = torch.manual_seed(0)
    >>> torch.randint(3, 10, (4,))
    tensor([7, 6, 3, 5])",
    traits: Traits::DRAWS,
    run: Run::Kernel(Kernel {
        infer: |args| made(args, 2, DType::I64),
        cpu: |args, results| draw::integers(&results[0], &generator(args, 3), args.int(0)?, args.int(1)?),
    }),
    samples: &["3, 10, (2, 3)", "-2, 3, ()"],
    errors: &[("5, 3, (2,)", "RuntimeError", "random_ expects 'from' to be less than 'to', but got from=5 >= to=3")],
    reference: "np.random.RandomState(0).randint(0, 2**32, size, np.uint32).astype(np.int64) % (high - low) + low",
    ..BASE
};

fn randint_like(args: &Args, low: i64, high: i64, stream: usize) -> Result<Output> {
    let (options, tensor) = like(args)?;
    draw::integers(&tensor, &generator(args, stream), low, high)?;
    options.finish(tensor)
}

pub static RANDINT_LIKE: Row = Row {
    name: "randint_like",
    variants: Variants::FUNCTION,
    signature: factory!("Tensor self, int high, *, Generator? generator=None, MemoryFormat? memory_format=None"),
    doc: "Random integers from 0 up to `high`, with another tensor's size and dtype.

    >>> _ = torch.manual_seed(0)
    >>> torch.randint_like(torch.ones(4), 10)
    tensor([4., 9., 3., 0.])",
    dtypes: DTypes::REAL.union(DTypes::BOOL).union(DTypes::WIDE),
    traits: Traits::DRAWS,
    mapped: Mapped::Shape,
    run: Run::Compose(|args| randint_like(args, 0, args.int(1)?, 2)),
    samples: &["t(2, 3), 2", "t(), 1"],
    errors: &[("t(2), 0", "RuntimeError", "random_ expects 'from' to be less than 'to', but got from=0 >= to=0")],
    reference: "np.random.RandomState(0).randint(0, 2**32, self.shape, np.uint32) % high",
    ..BASE
};

pub static RANDINT_LIKE_LOW: Row = Row {
    name: "randint_like.low_dtype",
    variants: Variants::FUNCTION,
    signature: factory!(
        "Tensor self, int low, int high, *, Generator? generator=None, MemoryFormat? memory_format=None"
    ),
    doc: "Random integers from `low` up to `high`, with another tensor's size and dtype.

    >>> _ = torch.manual_seed(0)
    >>> torch.randint_like(torch.ones(4), 3, 10)
    tensor([7., 6., 3., 5.])",
    dtypes: DTypes::REAL.union(DTypes::BOOL).union(DTypes::WIDE),
    traits: Traits::DRAWS,
    mapped: Mapped::Shape,
    run: Run::Compose(|args| randint_like(args, args.int(1)?, args.int(2)?, 3)),
    samples: &["t(2, 3), 0, 2", "t(3, 2).t(), 1, 2"],
    errors: &[("t(2), 5, 3", "RuntimeError", "random_ expects 'from' to be less than 'to', but got from=5 >= to=3")],
    reference: "np.random.RandomState(0).randint(0, 2**32, self.shape, np.uint32) % (high - low) + low",
    ..BASE
};

pub static RANDPERM: Row = Row {
    name: "randperm",
    signature: factory!("int n, *, Generator? generator=None"),
    doc: "The integers from 0 up to `n`, without it, in random order.

    >>> _ = torch.manual_seed(0)
    >>> torch.randperm(5)
    tensor([4, 0, 1, 3, 2])",
    traits: Traits::DRAWS,
    run: Run::Compose(|args| {
        let (options, n) = (Options::of(args)?, args.int(0)?);
        let dtype = options.dtype.unwrap_or(DType::I64);
        let exact = [(DType::F16, 11, "2049"), (DType::F32, 24, "2^24+1"), (DType::F64, 53, "2^53+1")];
        if let Some((_, _, limit)) = exact.iter().find(|(own, digits, _)| *own == dtype && n > (1 << digits) + 1) {
            return Err(Error::runtime(format!("n cannot be greater than {limit} for {} type.", dtype.title())));
        }
        let tensor = options.empty(&[n as isize], DType::I64)?;
        check_fits(Scalar::Int((n - 1).max(0)), dtype)?;
        let stream = generator(args, 1);
        dispatch!(tensor.dtype(), T in [u8, i8, i16, i32, i64, f16_, bf16_, f32, f64] => {
            draw::fill::<T>(&tensor, &stream, distributions::randperm)?;
        }, else => return Err(Error::unsupported("randperm", tensor.dtype())));
        options.finish(tensor)
    }),
    samples: &["5", "0", "6, dtype=torch.int32"],
    errors: &[("-1", "RuntimeError", "Trying to create tensor with negative dimension -1: [-1]")],
    ..BASE
};

/// Refuses negative deviations.
fn check_std(std: &Tensor) -> Result<()> {
    if std.dtype().is_complex() {
        return Err(Error::runtime("normal expects standard deviation to be non-complex"));
    }
    if std.device() == Device::Cpu && crate::convert::to_vec::<f64>(std)?.iter().any(|std| *std < 0.0) {
        return Err(Error::runtime("normal expects all elements of std >= 0.0"));
    }
    Ok(())
}

/// What `normal` of tensors will give: the broadcast size, in the first one's dtype.
fn normal_infer(args: &Args) -> Result<Vec<Spec>> {
    let mut sizes = Dims::new();
    let mut like = None;
    for (place, tensor) in args.each_tensor() {
        if place == 1 {
            check_std(tensor)?;
        }
        sizes = broadcast(&sizes, tensor.sizes())?;
        like.get_or_insert(tensor);
    }
    let Some(like) = like else { return Err(Error::type_("normal() needs a tensor")) };
    Ok(vec![Spec::new(&sizes, like.dtype(), like)])
}

/// Draws, then scales and moves; none of it is recorded.
fn normal_cpu(args: &Args, results: &[Tensor]) -> Result<()> {
    let (result, stream) = (&results[0], generator(args, 2));
    let tensor = |place| args.optional_tensor(place).map(Tensor::detach);
    let std = tensor(1);
    draw::normal(result, &stream, 0.0, if std.is_some() { 1.0 } else { args.float(1)? })?;
    if let Some(std) = std {
        call_into(Args::new(&MUL, [result.into(), (&std).into()]), Target::InPlace)?;
    }
    let mean = match tensor(0) {
        Some(mean) => mean,
        None => scalar_of(Scalar::Float(args.float(0)?), result.dtype(), result.device())?,
    };
    call_into(Args::new(&ADD, [result.into(), (&mean).into(), Scalar::ONE.into()]), Target::InPlace).map(drop)
}

const NORMAL: Row =
    Row { out: Out::ANY.direct(), run: Run::Kernel(Kernel { infer: normal_infer, cpu: normal_cpu }), ..BASE };

pub static NORMAL_TENSORS: Row = Row {
    name: "normal.Tensor_Tensor",
    node: "NormalBackward3",
    signature: "(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor",
    doc: "Normally distributed numbers, each with the mean and the deviation at its place.

    >>> _ = torch.manual_seed(0)
    >>> torch.normal(torch.tensor([10., 20.]), torch.tensor([1., 2.]))
    tensor([11.5410, 19.4131])",
    dtypes: DTypes::FLOATS,
    traits: Traits::BROADCASTS.union(Traits::DRAWS),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, nothing), formula(1, Saves::NOTHING, nothing)]),
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

pub static NORMAL_MEANS: Row = Row {
    name: "normal.Tensor_float",
    signature: "(Tensor mean, float std=1, *, Generator? generator=None) -> Tensor",
    doc: "Normally distributed numbers, each with the mean at its place.

    >>> _ = torch.manual_seed(0)
    >>> torch.normal(torch.tensor([10., 20.]))
    tensor([11.5410, 19.7066])",
    dtypes: DTypes::INEXACT,
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, nothing)]),
    traits: Traits::DRAWS,
    samples: &["t(2, 3)", "t(20), 0.5"],
    errors: &[
        ("t(2), -1.", "RuntimeError", "normal expects std >= 0.0, but found std -1"),
        ("i(3, 2)", "NotImplementedError", "\"normal_kernel_cpu\" not implemented for 'Long'"),
    ],
    ..NORMAL
};

pub static NORMAL_STDS: Row = Row {
    name: "normal.float_Tensor",
    signature: "(float mean, Tensor std, *, Generator? generator=None) -> Tensor",
    doc: "Normally distributed numbers, each with the deviation at its place.

    >>> _ = torch.manual_seed(0)
    >>> torch.normal(10., torch.tensor([1., 2.]))
    tensor([11.5410,  9.4131])",
    dtypes: DTypes::FLOATS,
    derivative: Derivative::Formulas(&[formula(1, Saves::NOTHING, nothing)]),
    traits: Traits::DRAWS,
    samples: &["0., pos(2, 3)", "1., pos(20)"],
    errors: &[
        ("0., torch.tensor([-1.])", "RuntimeError", "normal expects all elements of std >= 0.0"),
        ("0., i(3, 2)", "NotImplementedError", "\"normal_kernel_cpu\" not implemented for 'Long'"),
    ],
    ..NORMAL
};

pub static NORMAL_SIZE: Row = Row {
    name: "normal.float_float",
    signature: factory!("float mean, float std, int[] size, *, Generator? generator=None"),
    doc: "Normally distributed numbers of one mean and deviation.

    >>> _ = torch.manual_seed(0)
    >>> torch.normal(10., 2., (2,))
    tensor([13.0820,  9.4131])",
    traits: Traits::DRAWS,
    run: Run::Kernel(Kernel {
        infer: |args| made(args, 2, default_dtype()),
        cpu: |args, results| draw::normal(&results[0], &generator(args, 3), args.float(0)?, args.float(1)?),
    }),
    samples: &["0., 1., (2, 3)", "10., 2., (20,)"],
    errors: &[
        ("0., -1., (2,)", "RuntimeError", "normal expects std >= 0.0, but found std -1"),
        ("0., 1., (-1,)", "RuntimeError", "Trying to create tensor with negative dimension -1: [-1]"),
    ],
    ..BASE
};

pub static BERNOULLI: Row = Row {
    name: "bernoulli",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, *, Generator? generator=None) -> Tensor",
    doc: "1 with the probability that stands at the same place of the tensor, else 0.

    >>> torch.bernoulli(torch.tensor([0., 1.]))
    tensor([0., 1.])",
    dtypes: DTypes::FLOATS,
    out: Out::ANY.silently().direct(),
    traits: Traits::DRAWS,
    run: Run::Kernel(Kernel {
        infer: same,
        cpu: |args, results| draw::bernoulli_each(&results[0], &generator(args, 1), args.tensor(0)?),
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, nothing)]),
    samples: &["unit(2, 3).abs()", "unit(0, 3)", "unit(3, 2).abs().t()"],
    errors: &[("i(2, 2)", "NotImplementedError", "\"bernoulli_tensor_cpu_p_\" not implemented for 'Long'")],
    ..BASE
};

/// A row-major result of the first argument's size and dtype.
fn same(args: &Args) -> Result<Vec<Spec>> {
    let own = args.tensor(0)?;
    Ok(vec![Spec::new(own.sizes(), own.dtype(), own)])
}

pub static BERNOULLI_P: Row = Row {
    name: "bernoulli.p",
    variants: Variants::BOTH,
    signature: "(Tensor self, float p, *, Generator? generator=None) -> Tensor",
    doc: "1 with probability `p`, else 0, in the tensor's size and dtype.

    >>> torch.bernoulli(torch.zeros(2), 1.)
    tensor([1., 1.])",
    dtypes: DTypes::REAL.union(DTypes::BOOL),
    traits: Traits::DRAWS,
    run: Run::Kernel(Kernel {
        infer: same,
        cpu: |args, results| draw::bernoulli(&results[0], &generator(args, 2), args.float(1)?),
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, nothing)]),
    samples: &["t(2, 3), 0.5", "t(), 1."],
    errors: &[("t(2), 2.", "RuntimeError", "bernoulli_ expects p to be in [0, 1], but got p=2")],
    ..BASE
};

pub static MULTINOMIAL: Row = Row {
    name: "multinomial",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor",
    doc: "Indices drawn with the tensor's elements, or each row's, as weights.

    >>> torch.multinomial(torch.tensor([0., 3., 0.]), 1)
    tensor([1])",
    dtypes: DTypes::FLOATS,
    out: Out::new(Accepts::Same, &["multinomial expects Long tensor out, got: {Out}"]).silently(),
    traits: Traits::DRAWS,
    run: Run::Compose(multinomial),
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
    let (own, count, replacement) = (args.tensor(0)?, args.int(1)?, args.bool(2)?);
    let rank = own.rank();
    if rank != 1 && rank != 2 {
        return Err(Error::runtime("prob_dist must be 1 or 2 dim"));
    }
    if !own.dtype().is_floating() {
        return Err(Error::runtime(format!(
            "multinomial only supports floating-point dtypes for input, got: {}",
            own.dtype().title()
        )));
    }
    let categories = own.sizes()[rank - 1];
    if count <= 0 {
        return Err(Error::runtime("cannot sample n_sample <= 0 samples").hint("num_samples is 1 or more."));
    }
    if !replacement && count > categories as i64 {
        return Err(Error::runtime("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
            .hint("Draw fewer, or with replacement=True."));
    }
    if categories == 0 && (rank == 1 || own.sizes()[0] > 0) {
        return Err(Error::runtime(if replacement && count != 1 {
            "invalid multinomial distribution (sum of probabilities <= 0)"
        } else {
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
        })
        .hint("Give the probability of at least one category."));
    }
    if categories > 1 << 24 {
        return Err(Error::runtime("number of categories cannot exceed 2^24"));
    }
    let mut sizes = own.sizes().clone();
    sizes[rank - 1] = count as isize;
    let result = super::empty(&sizes, DType::I64, own.device())?;
    if own.device() == Device::Cpu {
        let stream = generator(args, 3);
        let chosen = dispatch!(own.dtype(), T in [f16_, bf16_, f32, f64] => {
            choose::<T>(own, categories as usize, count as usize, replacement, &stream)?
        }, else => Vec::new());
        let flat = super::from_slice(&chosen)?;
        crate::copy::copy(&op!(crate::view::reshape::VIEW, &result, [-1i64].as_slice())?, &flat)?;
    }
    Ok(Output::Tensor(result))
}

fn choose<T: Float + PartialOrd + rushlight_core::Element>(
    own: &Tensor,
    categories: usize,
    count: usize,
    replacement: bool,
    generator: &crate::Generator,
) -> Result<Vec<i64>> {
    let weights = crate::convert::to_vec::<T>(own)?;
    let rows = weights.chunks(categories.max(1));
    if replacement && count > 1 {
        let mut chosen = filled(0, rows.len().saturating_mul(count))?;
        let draw = |stream: &mut rushlight_rng::Stream| {
            rows.zip(chosen.chunks_mut(count))
                .try_for_each(|(row, out)| distributions::multinomial_with_replacement(stream, out, row))
        };
        generator.draw(draw).map_err(|error| Error::runtime(error.to_string()).hint(WEIGHTS))?;
        return Ok(chosen);
    }
    if weights.iter().any(|weight| !(weight.to_f64().is_finite() && weight.to_f64() >= 0.0)) {
        return Err(Error::runtime("probability tensor contains either `inf`, `nan` or element < 0").hint(WEIGHTS));
    }
    if rows.clone().any(|row| row.iter().all(|weight| weight.to_f64() == 0.0)) {
        return Err(Error::runtime("invalid multinomial distribution (sum of probabilities <= 0)").hint(WEIGHTS));
    }
    // Each weight's own exponential number is drawn in the order in which the weights lie in memory.
    let layout = Layout { sizes: own.sizes().clone(), strides: own.layout().preserved_strides(), offset: 0 };
    let drawn = crate::call::allocate(&Spec { layout, dtype: own.dtype(), device: own.device() })?;
    let alongside = draw::alongside::<T>(own, &drawn)?;
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
