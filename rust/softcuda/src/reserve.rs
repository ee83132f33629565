//! What a pass of a recurrent network leaves for the next one, in memory that the caller reserves for it.
//!
//! It names the pass that wrote it last. Its numbers have the dtype of sums, and the passes backward write into the places of those that
//! they have used. The outputs of the last layer are not among them: the caller has these.

use crate::dtype::DType;

/// The bytes before the numbers: the pass, and the network.
const HEADER: usize = 64;

/// The pass that wrote a reserve last.
#[derive(Clone, Copy)]
#[repr(u64)]
pub enum Stage {
    Forward = 0x666f_7277,
    Data = 0x6461_7461,
}

/// What is kept of a step of a sequence in a layer and direction.
#[derive(Clone)]
pub struct Kept {
    /// The activated gates, then the gradients of their sums.
    pub gates: Vec<f64>,
    /// The cell of an LSTM. Of a gated unit, the state's part of the new gate, then its gradient.
    pub inner: Vec<f64>,
    pub h: Vec<f64>,
    /// With a projection, the output before it, and the gradient after it.
    pub middle: Vec<f64>,
    pub dh: Vec<f64>,
}

/// The sizes of what a network keeps.
pub struct Sizes {
    /// Of all layers and directions, and of those below the last layer.
    pub layers: usize,
    pub below: usize,
    pub steps: usize,
    pub sequences: usize,
    /// The numbers of `Kept`; those that a network has not are none.
    pub gates: usize,
    pub inner: usize,
    pub h: usize,
    pub middle: usize,
    pub dh: usize,
    pub dtype: DType,
    /// A number for all that the network depends on.
    pub key: u64,
}

impl Sizes {
    pub fn bytes(&self) -> usize {
        let numbers = self.layers * (self.gates + self.inner + self.middle + self.dh) + self.below * self.h;
        HEADER + self.steps * self.sequences * numbers * self.dtype.bytes()
    }

    fn place(&self, layer: usize, step: usize, sequence: usize) -> usize {
        (layer * self.steps + step) * self.sequences + sequence
    }
}

/// What is kept of all steps.
pub struct Reserve {
    sizes: Sizes,
    all: Vec<Kept>,
}

impl Reserve {
    pub fn new(sizes: Sizes) -> Reserve {
        let kept = Kept {
            gates: vec![0.0; sizes.gates],
            inner: vec![0.0; sizes.inner],
            h: vec![0.0; sizes.h],
            middle: vec![0.0; sizes.middle],
            dh: vec![0.0; sizes.dh],
        };
        let all = vec![kept; sizes.place(sizes.layers, 0, 0)];
        Reserve { sizes, all }
    }

    pub fn of(&self, layer: usize, step: usize, sequence: usize) -> &Kept {
        &self.all[self.sizes.place(layer, step, sequence)]
    }

    pub fn of_mut(&mut self, layer: usize, step: usize, sequence: usize) -> &mut Kept {
        &mut self.all[self.sizes.place(layer, step, sequence)]
    }

    /// The numbers with their addresses.
    fn numbers(&mut self, reserve: usize) -> impl Iterator<Item = (&mut f64, usize)> {
        let (last, bytes) = (self.sizes.place(self.sizes.below, 0, 0), self.sizes.dtype.bytes());
        let numbers = self.all.iter_mut().enumerate().flat_map(move |(place, kept)| {
            let Kept { gates, inner, h, middle, dh } = kept;
            let h = if place < last { &mut h[..] } else { &mut [] };
            gates.iter_mut().chain(inner).chain(h).chain(middle).chain(dh)
        });
        numbers.enumerate().map(move |(n, value)| (value, reserve + HEADER + n * bytes))
    }

    /// # Safety
    /// The reserve lies in memory.
    pub unsafe fn write(&mut self, reserve: usize, stage: Stage) {
        let (at, dtype) = (std::ptr::with_exposed_provenance_mut::<u64>(reserve), self.sizes.dtype);
        // SAFETY: guaranteed by the caller.
        unsafe {
            at.write(stage as u64);
            at.add(1).write(self.sizes.key);
            self.numbers(reserve).for_each(|(value, at)| dtype.store(at, [*value, 0.0]));
        }
    }

    /// `None` if the reserve is of another stage or network.
    ///
    /// # Safety
    /// The reserve lies in memory.
    pub unsafe fn read(sizes: Sizes, reserve: usize, stage: Stage) -> Option<Reserve> {
        let mut own = Reserve::new(sizes);
        let (at, dtype) = (std::ptr::with_exposed_provenance::<u64>(reserve), own.sizes.dtype);
        // SAFETY: guaranteed by the caller.
        unsafe {
            if [at.read(), at.add(1).read()] != [stage as u64, own.sizes.key] {
                return None;
            }
            own.numbers(reserve).for_each(|(value, at)| *value = dtype.load(at)[0]);
        }
        Some(own)
    }
}
