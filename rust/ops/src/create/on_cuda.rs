//! Random numbers on CUDA devices: those of torch's stream, drawn in the order of a tensor's memory.

use rushlight_autograd::Tensor;
use rushlight_core::loop_nest::LoopNest;
use rushlight_core::{DType, Device, Error, Result, Scalar};
use rushlight_cuda::card;
use rushlight_cuda::random::{self, Distribution, Place};
use rushlight_cuda::rejection::{self, Rejection};
use rushlight_cuda::replayed::{self, Generator as _};
use rushlight_dispatch::generator::Generator;
use rushlight_dispatch::{create, op};
use rushlight_rng::distributions::MultinomialError;

use crate::held::Held;
use crate::index::gather::GATHER;
use crate::index::on_cuda::Report;
use crate::order::on_cuda::{part, places};
use crate::order::search::SEARCHSORTED;
use crate::pointwise::bitwise::BITWISE_AND;
use crate::pointwise::compare::{EQ, GE, ISFINITE, MINIMUM};
use crate::pointwise::divide::DIV;
use crate::reduce::all_any::{ALL, ALL_DIM, ANY};
use crate::reduce::cumulative::CUMSUM;
use crate::reduce::extreme::ARGMAX;
use crate::reduce::sum::SUM_DIM;

/// Whether a tensor's numbers are drawn on a device.
pub fn draws(tensor: &Tensor) -> bool {
    matches!(tensor.device(), Device::Cuda(_))
}

/// The generator of a call on a device: the given one, or the device's default if it is that of the host.
fn chosen(tensor: &Tensor, generator: &Generator) -> Result<Generator> {
    match generator.device() {
        _ if generator.same(&Generator::default_stream()) => Ok(Generator::default_of(tensor.device())),
        Device::Cuda(_) => Ok(generator.clone()),
        _ => Err(Error::runtime("Expected a 'cuda' device type for generator but found 'cpu'")),
    }
}

/// Where a call's numbers begin on a stream, of which it takes some words. A graph finds out at each run.
fn reserved(held: &Held, generator: &Generator, words: u64) -> Result<Place> {
    Ok(replayed::place(held.card.index, held.stream, generator, words)?.unwrap_or_else(|| generator.take(words)))
}

/// Fills a tensor.
pub fn fill(tensor: &Tensor, generator: &Generator, distribution: Distribution) -> Result<()> {
    let count = tensor.numel();
    if count == 0 {
        return Ok(());
    }
    let dtype = tensor.dtype();
    let mut held = Held::on(tensor)?;
    let words = random::words_of(held.card, distribution, dtype, count);
    let place = reserved(&held, &chosen(tensor, generator)?, words)?;
    let nest = LoopNest::new([tensor.layout()], [dtype.size()]);
    let base = held.base(tensor.storage())?;
    // SAFETY: the layout stays within its storage, which is held for the stream.
    unsafe { random::draw(held.card, held.stream, distribution, dtype, base, &nest, place) }
}

/// Integers from `from`, `count` of them, or all of 64 bits if the count is zero.
pub fn integers(tensor: &Tensor, generator: &Generator, from: i64, count: u64) -> Result<()> {
    let distribution = match count {
        0 => Distribution::Whole,
        range => Distribution::Between { range, base: from, wide: range >= 1 << 28 },
    };
    fill(tensor, generator, distribution)
}

/// Any non-negative integers that the dtype holds.
pub fn anything(tensor: &Tensor, generator: &Generator) -> Result<()> {
    let range = match tensor.dtype() {
        DType::Bool => 2,
        DType::U8 => 1 << 8,
        DType::I8 => 1 << 7,
        DType::I16 => 1 << 15,
        DType::I32 => 1 << 31,
        DType::F16 => (1 << 11) + 1,
        DType::BF16 => (1 << 8) + 1,
        DType::F32 => (1 << 24) + 1,
        DType::F64 => (1 << 53) + 1,
        _ => 1 << 63,
    };
    let wide = matches!(tensor.dtype(), DType::I64 | DType::F64);
    fill(tensor, generator, Distribution::Between { range, base: 0, wide })
}

/// Bernoulli trials with the probabilities of a tensor, in double precision if the result is, and otherwise in single.
pub fn trials(tensor: &Tensor, generator: &Generator, chances: &Tensor) -> Result<()> {
    let dtype = tensor.dtype();
    let mut held = Held::on(tensor)?;
    let place = reserved(&held, &chosen(tensor, generator)?, random::WORDS_OF_TRIALS)?;
    let layout = chances.layout().broadcast_to(tensor.sizes())?;
    let nest = LoopNest::new([tensor.layout(), &layout], [dtype.size(), chances.dtype().size()]);
    let operands = held.bases([tensor, chances])?;
    // SAFETY: layouts stay within their storages, which are held for the stream.
    unsafe { random::trials(held.card, held.stream, dtype, operands, &nest, place) }
}

/// Draws by rejection for the parameters of each element, one or two tensors of the result's dtype; whether all of them are accepted.
pub fn reject(result: &Tensor, generator: &Generator, what: Rejection, parameters: [&Tensor; 2]) -> Result<bool> {
    if result.numel() == 0 {
        return Ok(true);
    }
    let report = Report::new(card::of(result.device())?)?;
    let mut held = Held::on(result)?;
    let place = reserved(&held, &chosen(result, generator)?, what.words())?;
    let [first, second] = parameters;
    let laid = |tensor: &Tensor| tensor.layout().broadcast_to(result.sizes());
    let width = result.dtype().size();
    let nest = LoopNest::new([result.layout(), &laid(first)?, &laid(second)?], [width; 3]);
    let operands = held.bases([result, first, second])?;
    let outside = report.address(&mut held)?;
    // SAFETY: layouts stay within their storages, which are held for the stream as the report is.
    unsafe { rejection::draw(held.card, held.stream, what, result.dtype(), operands, &nest, place, outside)? };
    drop(held);
    Ok(!matches!(what, Rejection::Poisson) || report.read()?.is_none())
}

/// Fills a new dense tensor with the mask of dropout.
pub fn dropout(mask: &Tensor, p: f64) -> Result<()> {
    let count = mask.numel();
    if count == 0 {
        return Ok(());
    }
    let mut held = Held::on(mask)?;
    let words = random::words_of_dropout(held.card, count);
    let place = reserved(&held, &Generator::default_of(mask.device()), words)?;
    let address = held.address(mask)?;
    // SAFETY: the mask is new and dense, and held for the stream.
    unsafe { random::dropout(held.card, held.stream, mask.dtype(), address, count, p, place) }
}

/// A random permutation of the integers below `count`: as torch does, it sorts random keys, and shuffles the places of equal ones.
pub fn permutation(count: usize, device: Device, generator: &Generator) -> Result<Tensor> {
    let all = count as f64;
    // With so many bits nine in ten permutations have no equal keys.
    let bits = (all - (6.0 * all * all + 1.0) / (12.0 * 0.9f64.ln())).log2().ceil().clamp(1.0, 64.0) as u32;
    let (dtype, least, range) = if bits <= 32 {
        (DType::I32, i64::from(i32::MIN), u64::from(u32::MAX))
    } else {
        (DType::I64, i64::MIN, u64::MAX)
    };
    let keys = create::empty(&[count as isize], dtype, device)?;
    integers(&keys, generator, least, range)?;
    let keys = match bits {
        32 | 64 => keys,
        _ => op!(BITWISE_AND, &keys, Scalar::Int((1 << bits) - 1))?,
    };
    let order = places(&keys, 0, false)?;
    if count == 0 {
        return Ok(order);
    }
    let keys = op!(GATHER, &keys, 0i64, &order)?;
    let mut held = Held::on(&keys)?;
    let place = reserved(&held, &chosen(&keys, generator)?, random::words_of_shuffle(count))?;
    let operands = held.addresses([&keys, &order])?;
    // SAFETY: both are new, dense and of this length, and held for the stream.
    unsafe { random::shuffle_equal(held.card, held.stream, dtype, operands, count, place)? };
    drop(held);
    Ok(order)
}

/// Whether all flags are set.
fn every(flags: &Tensor) -> Result<bool> {
    Ok(crate::convert::item(&op!(ALL, flags)?)? == Scalar::Bool(true))
}

/// Why weights are invalid: that some are negative or not finite, or that a row has none.
fn invalid(weights: &Tensor) -> Result<Option<MultinomialError>> {
    let zero = Scalar::Int(0);
    if !every(&op!(ISFINITE, weights)?)? {
        return Ok(Some(MultinomialError::NotFinite));
    }
    if !every(&op!(GE, weights, zero)?)? {
        return Ok(Some(MultinomialError::Negative));
    }
    let empty = op!(ALL_DIM, op!(EQ, weights, zero)?, -1i64)?;
    let any = crate::convert::item(&op!(ANY, &empty)?)? == Scalar::Bool(true);
    Ok(any.then_some(MultinomialError::Zero))
}

/// The indices of `count` samples of each row of weights.
pub fn samples(
    weights: &Tensor,
    count: usize,
    replacement: bool,
    generator: &Generator,
) -> Result<std::result::Result<Tensor, MultinomialError>> {
    if let Some(why) = invalid(weights)? {
        return Ok(Err(why));
    }
    let last = weights.rank() - 1;
    if !replacement || count == 1 {
        // The weights race: each is divided by an exponential number, and the greatest come first.
        let race = create::empty(weights.sizes(), weights.dtype(), weights.device())?;
        fill(&race, generator, Distribution::Exponential { rate: 1.0 })?;
        let race = op!(DIV, weights, &race)?;
        return Ok(Ok(match count {
            1 => op!(ARGMAX, &race, -1i64, true)?,
            _ => part(&places(&race, last, true)?, last, 0, count),
        }));
    }
    let mut sizes = weights.sizes().clone();
    sizes[last] = count as isize;
    let drawn = create::empty(&sizes, weights.dtype(), weights.device())?;
    let rows = drawn.numel() / count;
    let mut held = Held::on(&drawn)?;
    let place = reserved(&held, &chosen(weights, generator)?, random::words_of_one_each(rows))?;
    let address = held.address(&drawn)?;
    // SAFETY: the tensor is new and dense, has these sizes, and is held for the stream.
    unsafe { random::one_each(held.card, held.stream, drawn.dtype(), address, [rows, count], place)? };
    drop(held);
    let shares = op!(DIV, weights, op!(SUM_DIM, weights, &[-1i64][..], true)?)?;
    let bounds = op!(CUMSUM, &shares, -1i64)?;
    // Rounding may leave the last bound below one; without a limit the sample would be behind it.
    let all = Tensor::view_of(&bounds, bounds.layout().slice(last, bounds.sizes()[last] - 1, 1, 1));
    Ok(Ok(op!(SEARCHSORTED, &bounds, op!(MINIMUM, &drawn, &all)?)?))
}
