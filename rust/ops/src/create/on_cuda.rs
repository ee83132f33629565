//! Random numbers on CUDA devices: those of torch's stream, drawn in the order of a tensor's memory.

use rushlight_autograd::Tensor;
use rushlight_core::loop_nest::LoopNest;
use rushlight_core::{DType, Device, Error, Result};
use rushlight_cuda::random::{self, Distribution, Place};
use rushlight_cuda::{card, stream};
use rushlight_dispatch::generator::Generator;

/// Whether a tensor's numbers are drawn on a device.
pub fn draws(tensor: &Tensor) -> bool {
    matches!(tensor.device(), Device::Cuda(_))
}

/// The generator of a call on a device: the given one, or the device's default if it is that of the host.
fn chosen(tensor: &Tensor, generator: &Generator) -> Result<Generator> {
    match (tensor.device(), generator.device()) {
        (device, _) if generator.same(&Generator::default_stream()) => Ok(Generator::default_of(device)),
        (device, own) if own == device => Ok(generator.clone()),
        (device, own @ Device::Cuda(_)) => {
            Err(Error::runtime(format!("Expected a '{device}' generator device but found '{own}'")))
        }
        _ => Err(Error::runtime("Expected a 'cuda' device type for generator but found 'cpu'")),
    }
}

/// Where a call's numbers begin, of which it takes some words.
fn reserved(generator: &Generator, words: u64) -> Place {
    let counter = generator.reserve(words);
    Place { seed: counter.seed, offset: counter.offset }
}

/// Fills a tensor.
pub fn fill(tensor: &Tensor, generator: &Generator, distribution: Distribution) -> Result<()> {
    let count = tensor.numel();
    if count == 0 {
        return Ok(());
    }
    let (card, dtype) = (card::of(tensor.device())?, tensor.dtype());
    let words = random::words_of(card, distribution, dtype, count);
    let place = reserved(&chosen(tensor, generator)?, words);
    let stream = stream::current(card.index);
    let pin = tensor.storage().pin_on(stream)?;
    let nest = LoopNest::new([tensor.layout()], [dtype.size()]);
    // SAFETY: the layout stays within its storage, which is pinned on the stream.
    unsafe { random::draw(card, stream, distribution, dtype, pin.address() as u64, &nest, place) }
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
    let (card, dtype) = (card::of(tensor.device())?, tensor.dtype());
    let place = reserved(&chosen(tensor, generator)?, random::WORDS_OF_TRIALS);
    let stream = stream::current(card.index);
    let (to, from) = (tensor.storage().pin_on(stream)?, chances.storage().pin_on(stream)?);
    let layout = chances.layout().broadcast_to(tensor.sizes())?;
    let nest = LoopNest::new([tensor.layout(), &layout], [dtype.size(), chances.dtype().size()]);
    let operands = [to.address() as u64, from.address() as u64];
    // SAFETY: layouts stay within their storages, which are pinned on the stream.
    unsafe { random::trials(card, stream, dtype, operands, &nest, place) }
}

/// Fills a new dense tensor with the mask of dropout.
pub fn dropout(mask: &Tensor, p: f64) -> Result<()> {
    let count = mask.numel();
    if count == 0 {
        return Ok(());
    }
    let card = card::of(mask.device())?;
    let place = reserved(&Generator::default_of(mask.device()), random::words_of_dropout(card, count));
    let stream = stream::current(card.index);
    let pin = mask.storage().pin_on(stream)?;
    // SAFETY: the mask is new and dense, and pinned on the stream.
    unsafe { random::dropout(card, stream, mask.dtype(), pin.address() as u64, count, p, place) }
}
