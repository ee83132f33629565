//! Random numbers in graphs. A recorded kernel finds the state of its generator in memory of the device, where each run of the graph
//! writes it, so that each run draws anew.

use std::collections::BTreeMap;
use std::sync::Arc;

use rushlight_core::device_memory::StreamId;
use rushlight_core::fork::{ForkMutex, Rank};
use rushlight_core::{Error, Result, Storage};

use crate::capture::{self, CaptureId};
use crate::random::Place;
use crate::{copy, storage};

/// A generator whose numbers a graph draws.
pub trait Generator: Send + Sync {
    /// Takes words of its stream: where they begin.
    fn take(&self, words: u64) -> Place;

    /// A number of the state, which only generators that share it have.
    fn id(&self) -> usize;
}

/// A generator, the words by which one run of a graph moves it, and the memory in which the kernels find its state.
pub struct Replayed {
    generator: Arc<dyn Generator>,
    words: u64,
    /// Whether any kernel draws. A program may set the words back to those of an earlier state.
    draws: bool,
    state: Storage,
}

impl Replayed {
    pub fn new(device: u8, generator: Arc<dyn Generator>) -> Result<Replayed> {
        Ok(Replayed { generator, words: 0, draws: false, state: storage::allocate(device, size_of::<[u64; 2]>())? })
    }

    /// Writes the generator's state for a run on a stream, and moves the generator behind the words of the run.
    pub fn prepare(&self, device: u8, stream: StreamId) -> Result<()> {
        if !self.draws {
            return Ok(());
        }
        let Place { seed, offset, .. } = self.generator.take(self.words);
        let state = [seed, offset];
        let pin = self.state.pin_on(stream)?;
        // SAFETY: the block has room for the state, and is held for the stream.
        unsafe { copy::from_host(device, pin.address(), state.as_ptr().cast(), size_of_val(&state), stream) }
    }
}

/// The generators of each capture.
static CAPTURED: ForkMutex<BTreeMap<CaptureId, Vec<Replayed>>> = ForkMutex::new(Rank::Tables, BTreeMap::new());

/// Begins to count the words that captured work takes.
pub fn begin(capture: CaptureId, generators: Vec<Replayed>) {
    let before = CAPTURED.lock().insert(capture, generators);
    drop(before);
}

/// The generators of a capture that has ended, with the words of one run.
pub fn end(capture: CaptureId) -> Vec<Replayed> {
    CAPTURED.lock().remove(&capture).unwrap_or_default()
}

/// Runs a function on a generator of the capture of a stream; `None` if the stream is not captured.
fn with<T>(
    device: u8,
    stream: StreamId,
    generator: &dyn Generator,
    run: impl FnOnce(&mut Replayed) -> T,
) -> Result<Option<T>> {
    let Some(capture) = capture::of(device, stream) else { return Ok(None) };
    // A generator takes a lock that comes before this table's.
    let id = generator.id();
    let mut captured = CAPTURED.lock();
    let known = captured.get_mut(&capture).and_then(|all| all.iter_mut().find(|one| one.generator.id() == id));
    let one = known.ok_or_else(|| {
        Error::runtime(
            "RNG op during graph capture but generator is not registered with the capturing graph. Call \
             graph.register_generator_state() before capture_begin().",
        )
    })?;
    Ok(Some(run(one)))
}

/// Where captured work on a stream finds its numbers; `None` if the stream is not captured.
pub fn place(device: u8, stream: StreamId, generator: &dyn Generator, words: u64) -> Result<Option<Place>> {
    with(device, stream, generator, |one| {
        let offset = one.words;
        // A program may have set the words to any number.
        one.words = one.words.wrapping_add(words.next_multiple_of(4));
        one.draws = true;
        Place { seed: 0, offset, run: one.state.address() as u64 }
    })
}

/// The words of a run that captured work on a stream has taken so far; `None` if the stream is not captured.
pub fn words(device: u8, stream: StreamId, generator: &dyn Generator) -> Result<Option<u64>> {
    with(device, stream, generator, |one| one.words)
}

/// Lets later captured work on a stream draw from these words of a run on; `None` if the stream is not captured.
pub fn set_words(device: u8, stream: StreamId, generator: &dyn Generator, words: u64) -> Result<Option<()>> {
    with(device, stream, generator, |one| one.words = words)
}
