//! What a pass of a recurrent network leaves for the next one, in memory that the caller reserves for it.
//!
//! It names the pass that wrote it last. Its numbers have the dtype of sums, and the passes backward write into the places of those that
//! they have used. The outputs of the last layer are not among them: the caller has these.

use crate::networks::{Cell, Network};

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

/// What is kept of all steps.
pub struct Reserve {
    all: Vec<Kept>,
    steps: usize,
    count: usize,
}

impl Network {
    pub fn reserve_bytes(&self) -> usize {
        let has_inner = matches!(self.cell, Cell::Lstm | Cell::Gru);
        let inner = if has_inner { self.width } else { 0 };
        let projected = if self.is_projected() { self.width + self.output } else { 0 };
        let each = self.gates() * self.width + inner + projected;
        let numbers = (self.last() + self.directions) * each + self.last() * self.output;
        HEADER + self.steps() * self.lengths.len() * numbers * self.data.summed().bytes()
    }
}

impl Reserve {
    pub fn new(network: &Network) -> Reserve {
        let list = |size: usize, is_kept: bool| vec![0.0; if is_kept { size } else { 0 }];
        let kept = Kept {
            gates: list(network.gates() * network.width, true),
            inner: list(network.width, matches!(network.cell, Cell::Lstm | Cell::Gru)),
            h: list(network.output, true),
            middle: list(network.width, network.is_projected()),
            dh: list(network.output, network.is_projected()),
        };
        let (steps, count) = (network.steps(), network.lengths.len());
        Reserve { all: vec![kept; network.layers * network.directions * steps * count], steps, count }
    }

    fn place(&self, pseudo: usize, step: usize, sequence: usize) -> usize {
        (pseudo * self.steps + step) * self.count + sequence
    }

    pub fn of(&self, pseudo: usize, step: usize, sequence: usize) -> &Kept {
        &self.all[self.place(pseudo, step, sequence)]
    }

    pub fn of_mut(&mut self, pseudo: usize, step: usize, sequence: usize) -> &mut Kept {
        let place = self.place(pseudo, step, sequence);
        &mut self.all[place]
    }

    /// The numbers with their addresses.
    fn numbers(&mut self, network: &Network, reserve: usize) -> impl Iterator<Item = (&mut f64, usize)> {
        let (last, bytes) = (self.place(network.last(), 0, 0), network.data.summed().bytes());
        let numbers = self.all.iter_mut().enumerate().flat_map(move |(place, kept)| {
            let Kept { gates, inner, h, middle, dh } = kept;
            let h = if place < last { &mut h[..] } else { &mut [] };
            gates.iter_mut().chain(inner).chain(h).chain(middle).chain(dh)
        });
        numbers.enumerate().map(move |(n, value)| (value, reserve + HEADER + n * bytes))
    }

    /// # Safety
    /// The reserve lies in memory.
    pub unsafe fn write(&mut self, network: &Network, reserve: usize, stage: Stage) {
        let (at, kind) = (std::ptr::with_exposed_provenance_mut::<u64>(reserve), network.data.summed());
        // SAFETY: guaranteed by the caller.
        unsafe {
            at.write(stage as u64);
            at.add(1).write(network.key());
            self.numbers(network, reserve).for_each(|(value, at)| kind.store(at, [*value, 0.0]));
        }
    }

    /// `None` if the reserve is of another stage or network.
    ///
    /// # Safety
    /// The reserve lies in memory.
    pub unsafe fn read(network: &Network, reserve: usize, stage: Stage) -> Option<Reserve> {
        let mut own = Reserve::new(network);
        let (at, kind) = (std::ptr::with_exposed_provenance::<u64>(reserve), network.data.summed());
        // SAFETY: guaranteed by the caller.
        unsafe {
            if [at.read(), at.add(1).read()] != [stage as u64, network.key()] {
                return None;
            }
            own.numbers(network, reserve).for_each(|(value, at)| *value = kind.load(at)[0]);
        }
        Some(own)
    }
}
