//! Recurrent networks, as `cudnn_rnn` enqueues them. Sums are computed in 64 bits, and states are rounded to the dtype after each step.

use crate::dtype::{DType, tf32};
use crate::reserve::{Kept, Reserve, Sizes, Stage};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    Relu,
    Tanh,
    Lstm,
    Gru,
}

/// Layers, and the sequences that they run over, the longest first.
#[derive(Clone)]
pub struct Network {
    pub kind: Kind,
    pub data: DType,
    pub tf32: bool,
    pub biased: bool,
    pub directions: usize,
    pub layers: usize,
    pub input: usize,
    pub width: usize,
    pub output: usize,
    pub lengths: Vec<usize>,
    /// Whether rows of steps that a sequence does not have are left out.
    pub packed: bool,
}

/// The addresses of a call; those that it does not use are 0.
#[derive(Clone, Copy, Default)]
pub struct Places {
    pub x: usize,
    pub y: usize,
    pub hx: usize,
    pub hy: usize,
    pub cx: usize,
    pub cy: usize,
    pub weights: usize,
    pub reserve: usize,
    pub dx: usize,
    pub dy: usize,
    pub dhx: usize,
    pub dhy: usize,
    pub dcx: usize,
    pub dcy: usize,
}

/// The matrices of a layer in one direction, which cuDNN calls a pseudo layer, in the order of its numbers: of the input, of the hidden
/// state, and the projection.
#[derive(Clone, Copy)]
struct Layer {
    /// Elements from the buffer's begin.
    input: usize,
    hidden: usize,
    projection: usize,
    biases: [usize; 2],
    /// The features of its input.
    given: usize,
}

impl Network {
    pub fn gates(&self) -> usize {
        match self.kind {
            Kind::Relu | Kind::Tanh => 1,
            Kind::Lstm => 4,
            Kind::Gru => 3,
        }
    }

    pub fn steps(&self) -> usize {
        self.lengths[0]
    }

    pub fn rows(&self) -> usize {
        if self.packed { self.lengths.iter().sum() } else { self.steps() * self.lengths.len() }
    }

    fn layer(&self, pseudo: usize) -> Layer {
        let (gates, width) = (self.gates(), self.width);
        let given = |at: usize| if at < self.directions { self.input } else { self.output * self.directions };
        let projected = if self.is_projected() { self.output * width } else { 0 };
        let size = |at: usize| gates * width * (given(at) + self.output) + projected;
        let first: usize = (0..pseudo).map(size).sum();
        let biases = self.matrices() + pseudo * 2 * gates * width;
        Layer {
            input: first,
            hidden: first + gates * width * given(pseudo),
            projection: first + gates * width * (given(pseudo) + self.output),
            biases: [biases, biases + gates * width],
            given: given(pseudo),
        }
    }

    /// The elements of all matrices, and a gap before the biases.
    fn matrices(&self) -> usize {
        let pseudo = self.layers * self.directions;
        let (gates, width) = (self.gates(), self.width);
        let of_first = gates * width * (self.input + self.output);
        let of_others = gates * width * (self.output * self.directions + self.output);
        let projected = if self.is_projected() { self.output * width } else { 0 };
        let all = self.directions * of_first + (pseudo - self.directions) * of_others + pseudo * projected;
        (all + 8).next_multiple_of(8)
    }

    pub fn weight_elements(&self) -> usize {
        let biases = if self.biased { self.layers * self.directions * 2 * self.gates() * self.width } else { 0 };
        self.matrices() + biases
    }

    /// The first elements of a matrix and of its bias by cuDNN's number, and the sizes of the matrix.
    pub fn part(&self, pseudo: usize, number: usize) -> Option<(usize, Option<usize>, [usize; 2])> {
        let (layer, gates, width) = (self.layer(pseudo), self.gates(), self.width);
        let bias = |side: usize, gate: usize| self.biased.then_some(layer.biases[side] + gate * width);
        if number < gates {
            Some((layer.input + number * width * layer.given, bias(0, number), [width, layer.given]))
        } else if number < 2 * gates {
            let gate = number - gates;
            Some((layer.hidden + gate * width * self.output, bias(1, gate), [width, self.output]))
        } else if number == 2 * gates && self.is_projected() {
            Some((layer.projection, None, [self.output, width]))
        } else {
            None
        }
    }

    fn is_projected(&self) -> bool {
        self.output != self.width
    }

    fn kept(&self) -> Sizes {
        let has_inner = matches!(self.kind, Kind::Lstm | Kind::Gru);
        let [middle, dh] = if self.is_projected() { [self.width, self.output] } else { [0, 0] };
        Sizes {
            layers: self.layers * self.directions,
            below: self.last(),
            steps: self.steps(),
            sequences: self.lengths.len(),
            gates: self.gates() * self.width,
            inner: if has_inner { self.width } else { 0 },
            h: self.output,
            middle,
            dh,
            dtype: self.data.summed(),
            key: self.key(),
        }
    }

    pub fn reserve_bytes(&self) -> usize {
        self.kept().bytes()
    }

    pub fn work_bytes(&self) -> usize {
        64 + self.steps() * self.lengths.len() * self.width * 8
    }

    /// A number for all that the call depends on.
    fn key(&self) -> u64 {
        let mut key = 1u64;
        let numbers = [
            self.kind as usize,
            self.data.code() as usize,
            usize::from(self.biased),
            self.directions,
            self.layers,
            self.input,
            self.width,
            self.output,
            usize::from(self.packed),
        ];
        for &number in numbers.iter().chain(&self.lengths) {
            key = key.wrapping_mul(0x0100_0000_01b3).wrapping_add(number as u64 + 7);
        }
        key
    }

    /// The row of a step of a sequence in a tensor.
    fn row(&self, step: usize, sequence: usize) -> usize {
        match self.packed {
            false => step * self.lengths.len() + sequence,
            true => self.lengths.iter().map(|&length| length.min(step)).sum::<usize>() + sequence,
        }
    }

    /// The steps of a sequence, in the order of a direction.
    fn order(&self, direction: usize, sequence: usize) -> Vec<usize> {
        let steps = 0..self.lengths[sequence];
        if direction == 0 { steps.collect() } else { steps.rev().collect() }
    }

    fn rounded(&self, value: f64) -> f64 {
        let mut place = [0u8; 8];
        let at = place.as_mut_ptr().expose_provenance();
        // SAFETY: a local variable with room for each dtype.
        unsafe {
            self.data.store(at, [value, 0.0]);
            self.data.load(at)[0]
        }
    }

    fn factor(&self, value: f64) -> f64 {
        if self.tf32 { tf32(value) } else { value }
    }

    /// # Safety
    /// The element lies in memory.
    unsafe fn load(&self, base: usize, element: usize) -> f64 {
        // SAFETY: guaranteed by the caller.
        unsafe { self.data.load(base + element * self.data.bytes())[0] }
    }

    /// # Safety
    /// As `load`.
    unsafe fn list(&self, base: usize, first: usize, count: usize) -> Vec<f64> {
        // SAFETY: guaranteed by the caller.
        (0..count).map(|n| unsafe { if base == 0 { 0.0 } else { self.load(base, first + n) } }).collect()
    }

    /// # Safety
    /// As `load`.
    unsafe fn store(&self, base: usize, first: usize, values: &[f64]) {
        for (n, &value) in values.iter().enumerate() {
            // SAFETY: guaranteed by the caller.
            unsafe { self.data.store(base + (first + n) * self.data.bytes(), [value, 0.0]) };
        }
    }

    /// `sums += matrix vector`, or with the transposed matrix.
    ///
    /// # Safety
    /// The matrix lies in memory.
    unsafe fn multiply(
        &self,
        sums: &mut [f64],
        at: (usize, usize),
        [rows, columns]: [usize; 2],
        vector: &[f64],
        turned: bool,
    ) {
        for row in 0..rows {
            for column in 0..columns {
                // SAFETY: guaranteed by the caller.
                let own = self.factor(unsafe { self.load(at.0, at.1 + row * columns + column) });
                let (to, from) = if turned { (column, row) } else { (row, column) };
                sums[to] += own * self.factor(vector[from]);
            }
        }
    }

    /// Computes the results, and with a reserve what their gradients need.
    ///
    /// # Safety
    /// All tensors lie in memory.
    pub unsafe fn forward(&self, at: &Places) {
        let count = self.lengths.len();
        let mut reserve = Reserve::new(self.kept());
        for pseudo in 0..self.layers * self.directions {
            let (layer, direction) = (self.layer(pseudo), pseudo % self.directions);
            for sequence in 0..count {
                let (state, cell) = self.states(pseudo, sequence);
                // SAFETY: guaranteed by the caller.
                let (mut h, mut c) =
                    unsafe { (self.list(at.hx, state, self.output), self.list(at.cx, cell, self.width)) };
                for step in self.order(direction, sequence) {
                    // SAFETY: guaranteed by the caller.
                    let x = unsafe { self.given(at.x, &reserve, pseudo, step, sequence) };
                    let own = reserve.of_mut(pseudo, step, sequence);
                    // SAFETY: guaranteed by the caller.
                    unsafe { self.step(at.weights, &layer, &x, (&mut h, &mut c), own) };
                }
                // SAFETY: guaranteed by the caller.
                unsafe {
                    self.store(at.hy, state, &h);
                    if at.cy != 0 {
                        self.store(at.cy, cell, &c);
                    }
                }
            }
        }
        for direction in 0..self.directions {
            for (step, sequence) in self.places() {
                let h = &reserve.of(self.last() + direction, step, sequence).h;
                // SAFETY: guaranteed by the caller.
                unsafe { self.store(at.y, self.output_at(direction, step, sequence), h) };
            }
        }
        if at.reserve != 0 {
            // SAFETY: guaranteed by the caller.
            unsafe { reserve.write(at.reserve, Stage::Forward) };
        }
    }

    /// The first pseudo layer of the last layer.
    fn last(&self) -> usize {
        (self.layers - 1) * self.directions
    }

    /// The first elements of a sequence's state and of its cell.
    fn states(&self, pseudo: usize, sequence: usize) -> (usize, usize) {
        let row = pseudo * self.lengths.len() + sequence;
        (row * self.output, row * self.width)
    }

    /// The first element of an output of the last layer.
    fn output_at(&self, direction: usize, step: usize, sequence: usize) -> usize {
        (self.row(step, sequence) * self.directions + direction) * self.output
    }

    /// The steps of all sequences.
    fn places(&self) -> Vec<(usize, usize)> {
        let of = |sequence: usize| (0..self.lengths[sequence]).map(move |step| (step, sequence));
        (0..self.lengths.len()).flat_map(of).collect()
    }

    /// The input of a layer at a step.
    ///
    /// # Safety
    /// As `forward`.
    unsafe fn given(&self, x: usize, reserve: &Reserve, pseudo: usize, step: usize, sequence: usize) -> Vec<f64> {
        if pseudo < self.directions {
            // SAFETY: guaranteed by the caller.
            return unsafe { self.list(x, self.row(step, sequence) * self.input, self.input) };
        }
        let below = pseudo / self.directions * self.directions - self.directions;
        let of = |direction: usize| reserve.of(below + direction, step, sequence).h.clone();
        (0..self.directions).flat_map(of).collect()
    }

    /// # Safety
    /// As `forward`.
    unsafe fn step(
        &self,
        weights: usize,
        layer: &Layer,
        x: &[f64],
        (h, c): (&mut Vec<f64>, &mut Vec<f64>),
        own: &mut Kept,
    ) {
        let (gates, width) = (self.gates(), self.width);
        let (mut of_input, mut of_hidden) = (vec![0.0; gates * width], vec![0.0; gates * width]);
        // SAFETY: guaranteed by the caller.
        unsafe {
            if self.biased {
                of_input = self.list(weights, layer.biases[0], gates * width);
                of_hidden = self.list(weights, layer.biases[1], gates * width);
            }
            self.multiply(&mut of_input, (weights, layer.input), [gates * width, layer.given], x, false);
            self.multiply(&mut of_hidden, (weights, layer.hidden), [gates * width, self.output], h, false);
        }
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let mut middle = vec![0.0; width];
        for n in 0..width {
            let sum = |gate: usize| of_input[gate * width + n] + of_hidden[gate * width + n];
            let (activated, next) = match self.kind {
                Kind::Relu => (vec![sum(0).max(0.0)], sum(0).max(0.0)),
                Kind::Tanh => (vec![sum(0).tanh()], sum(0).tanh()),
                Kind::Lstm => {
                    let (i, f, g, o) = (sigmoid(sum(0)), sigmoid(sum(1)), sum(2).tanh(), sigmoid(sum(3)));
                    c[n] = f * c[n] + i * g;
                    own.inner[n] = c[n];
                    (vec![i, f, g, o], o * c[n].tanh())
                }
                Kind::Gru => {
                    let (r, z) = (sigmoid(sum(0)), sigmoid(sum(1)));
                    own.inner[n] = of_hidden[2 * width + n];
                    let new_gate = (of_input[2 * width + n] + r * own.inner[n]).tanh();
                    (vec![r, z, new_gate], (1.0 - z) * new_gate + z * h[n])
                }
            };
            activated.iter().enumerate().for_each(|(gate, &value)| own.gates[gate * width + n] = value);
            middle[n] = next;
        }
        let next = if self.is_projected() {
            let mut sums = vec![0.0; self.output];
            // SAFETY: guaranteed by the caller.
            unsafe { self.multiply(&mut sums, (weights, layer.projection), [self.output, width], &middle, false) };
            own.middle = middle;
            sums
        } else {
            middle
        };
        *h = next.into_iter().map(|value| self.rounded(value)).collect();
        own.h.clone_from(h);
    }

    /// What a pass has kept; `None` if the reserve is not that of this stage of the network.
    ///
    /// # Safety
    /// As `forward`.
    unsafe fn read(&self, at: &Places, stage: Stage) -> Option<Reserve> {
        // SAFETY: guaranteed by the caller.
        let mut reserve = unsafe { Reserve::read(self.kept(), at.reserve, stage)? };
        for direction in 0..self.directions {
            for (step, sequence) in self.places() {
                let place = self.output_at(direction, step, sequence);
                // SAFETY: guaranteed by the caller.
                reserve.of_mut(self.last() + direction, step, sequence).h =
                    unsafe { self.list(at.y, place, self.output) };
            }
        }
        Some(reserve)
    }

    /// The gradients of input and states. False if the reserve is not that of a pass forward of this network.
    ///
    /// # Safety
    /// As `forward`.
    pub unsafe fn backward_data(&self, at: &Places) -> bool {
        // SAFETY: guaranteed by the caller.
        let Some(mut reserve) = (unsafe { self.read(at, Stage::Forward) }) else { return false };
        let (gates, width, wide) = (self.gates(), self.width, self.directions * self.output);
        // SAFETY: guaranteed by the caller.
        let mut above: Vec<Vec<f64>> =
            (0..self.rows()).map(|row| unsafe { self.list(at.dy, row * wide, wide) }).collect();
        for level in (0..self.layers).rev() {
            let given = self.layer(level * self.directions).given;
            let mut below = vec![vec![0.0; given]; self.rows()];
            for direction in 0..self.directions {
                let pseudo = level * self.directions + direction;
                let layer = self.layer(pseudo);
                for sequence in 0..self.lengths.len() {
                    let (state, cell) = self.states(pseudo, sequence);
                    // SAFETY: guaranteed by the caller.
                    let (mut dh, mut dc) =
                        unsafe { (self.list(at.dhy, state, self.output), self.list(at.dcy, cell, width)) };
                    let order = self.order(direction, sequence);
                    for (turn, &step) in order.iter().enumerate().rev() {
                        let row = self.row(step, sequence);
                        for (n, own) in dh.iter_mut().enumerate() {
                            *own += above[row][direction * self.output + n];
                        }
                        let before = match turn {
                            // SAFETY: guaranteed by the caller.
                            0 => unsafe { [self.list(at.hx, state, self.output), self.list(at.cx, cell, width)] },
                            _ => {
                                let last = reserve.of(pseudo, order[turn - 1], sequence);
                                [last.h.clone(), last.inner.clone()]
                            }
                        };
                        let own = reserve.of_mut(pseudo, step, sequence);
                        // SAFETY: guaranteed by the caller.
                        dh = unsafe { self.step_back(at.weights, &layer, &before, (&dh, &mut dc), own) };
                        // SAFETY: guaranteed by the caller.
                        unsafe {
                            let sizes = [gates * width, self.output];
                            self.multiply(&mut dh, (at.weights, layer.hidden), sizes, &self.of_hidden(own), true);
                            let sizes = [gates * width, given];
                            self.multiply(&mut below[row], (at.weights, layer.input), sizes, &own.gates, true);
                        }
                    }
                    // SAFETY: guaranteed by the caller.
                    unsafe {
                        self.store(at.dhx, state, &dh);
                        if at.dcx != 0 {
                            self.store(at.dcx, cell, &dc);
                        }
                    }
                }
            }
            above = below;
        }
        for (row, values) in above.iter().enumerate() {
            // SAFETY: guaranteed by the caller.
            unsafe { self.store(at.dx, row * self.input, values) };
        }
        // SAFETY: guaranteed by the caller.
        unsafe { reserve.write(at.reserve, Stage::Data) };
        true
    }

    /// Replaces what a step has kept by the gradients of its gates, from those of its output and of the next cell, which becomes that
    /// of the cell before. Returns the part of the gradient of the state before that does not go through the gates.
    ///
    /// # Safety
    /// As `forward`.
    unsafe fn step_back(
        &self,
        weights: usize,
        layer: &Layer,
        [state, cell]: &[Vec<f64>; 2],
        (dh, dc): (&[f64], &mut [f64]),
        own: &mut Kept,
    ) -> Vec<f64> {
        let width = self.width;
        let middle = if self.is_projected() {
            let mut sums = vec![0.0; width];
            // SAFETY: guaranteed by the caller.
            unsafe { self.multiply(&mut sums, (weights, layer.projection), [self.output, width], dh, true) };
            own.dh = dh.to_vec();
            sums
        } else {
            dh.to_vec()
        };
        let mut direct = vec![0.0; self.output];
        let slope = |gate: f64| gate * (1.0 - gate);
        for n in 0..width {
            let gate = |at: usize| own.gates[at * width + n];
            let grads = match self.kind {
                Kind::Relu => vec![if gate(0) > 0.0 { middle[n] } else { 0.0 }],
                Kind::Tanh => vec![middle[n] * (1.0 - gate(0) * gate(0))],
                Kind::Lstm => {
                    let (i, f, g, o) = (gate(0), gate(1), gate(2), gate(3));
                    let bent = own.inner[n].tanh();
                    let grad = dc[n] + middle[n] * o * (1.0 - bent * bent);
                    dc[n] = grad * f;
                    vec![
                        grad * g * slope(i),
                        grad * cell[n] * slope(f),
                        grad * i * (1.0 - g * g),
                        middle[n] * bent * slope(o),
                    ]
                }
                Kind::Gru => {
                    let (r, z, new_gate) = (gate(0), gate(1), gate(2));
                    let to_new_gate = middle[n] * (1.0 - z) * (1.0 - new_gate * new_gate);
                    direct[n] = middle[n] * z;
                    let to_r = to_new_gate * own.inner[n] * slope(r);
                    own.inner[n] = to_new_gate * r;
                    vec![to_r, middle[n] * (state[n] - new_gate) * slope(z), to_new_gate]
                }
            };
            grads.into_iter().enumerate().for_each(|(at, value)| own.gates[at * width + n] = value);
        }
        direct
    }

    /// The gradients of the gates' products with the state, after `step_back`. Those of products with the input are the gates'.
    fn of_hidden(&self, own: &Kept) -> Vec<f64> {
        let mut grads = own.gates.clone();
        if self.kind == Kind::Gru {
            grads[2 * self.width..].copy_from_slice(&own.inner);
        }
        grads
    }

    /// Adds the gradients of the weights. False if the reserve is not what `backward_data` left.
    ///
    /// # Safety
    /// As `forward`.
    pub unsafe fn backward_weights(&self, at: &Places) -> bool {
        // SAFETY: guaranteed by the caller.
        let Some(reserve) = (unsafe { self.read(at, Stage::Data) }) else { return false };
        let mut sums = vec![0.0; self.weight_elements()];
        let mut add = |first: usize, left: &[f64], right: &[f64]| {
            for (row, &a) in left.iter().enumerate() {
                for (column, &b) in right.iter().enumerate() {
                    sums[first + row * right.len() + column] += self.factor(a) * self.factor(b);
                }
            }
        };
        for pseudo in 0..self.layers * self.directions {
            let layer = self.layer(pseudo);
            for sequence in 0..self.lengths.len() {
                let order = self.order(pseudo % self.directions, sequence);
                for (turn, &step) in order.iter().enumerate() {
                    let own = reserve.of(pseudo, step, sequence);
                    // SAFETY: guaranteed by the caller.
                    let (x, before) = unsafe {
                        let before = match turn {
                            0 => self.list(at.hx, self.states(pseudo, sequence).0, self.output),
                            _ => reserve.of(pseudo, order[turn - 1], sequence).h.clone(),
                        };
                        (self.given(at.x, &reserve, pseudo, step, sequence), before)
                    };
                    let of_hidden = self.of_hidden(own);
                    add(layer.input, &own.gates, &x);
                    add(layer.hidden, &of_hidden, &before);
                    if self.is_projected() {
                        add(layer.projection, &own.dh, &own.middle);
                    }
                    if self.biased {
                        add(layer.biases[0], &own.gates, &[1.0]);
                        add(layer.biases[1], &of_hidden, &[1.0]);
                    }
                }
            }
        }
        for (n, sum) in sums.into_iter().enumerate() {
            // SAFETY: guaranteed by the caller.
            unsafe { self.store(at.weights, n, &[self.load(at.weights, n) + sum]) };
        }
        true
    }
}
