//! Recurrent networks, as `rnn` enqueues them. Sums are computed in 64 bits, and states are rounded to the dtype after each step.

use crate::products::{Type, tf32};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cell {
    Relu,
    Tanh,
    Lstm,
    Gru,
}

/// Layers, and the sequences that they run over, the longest first.
#[derive(Clone)]
pub struct Network {
    pub cell: Cell,
    pub data: Type,
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

/// What a reserve holds at its begin: what last wrote into it, and for which call.
pub const HEADER: usize = 64;
const FORWARD: u64 = 0x666f_7277;
const DATA: u64 = 0x6461_7461;

/// The matrices of a layer in one direction, in the order of cuDNN's numbers: of the input, of the state, and the projection.
#[derive(Clone, Copy)]
struct Layer {
    /// Elements from the buffer's begin.
    input: usize,
    state: usize,
    projection: usize,
    biases: [usize; 2],
    /// The features of its input.
    given: usize,
}

impl Network {
    pub fn gates(&self) -> usize {
        match self.cell {
            Cell::Relu | Cell::Tanh => 1,
            Cell::Lstm => 4,
            Cell::Gru => 3,
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
        let projected = if self.output == width { 0 } else { self.output * width };
        let size = |at: usize| gates * width * (given(at) + self.output) + projected;
        let first: usize = (0..pseudo).map(size).sum();
        let biases = self.matrices() + pseudo * 2 * gates * width;
        Layer {
            input: first,
            state: first + gates * width * given(pseudo),
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
        let projected = if self.output == width { 0 } else { self.output * width };
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
            Some((layer.state + gate * width * self.output, bias(1, gate), [width, self.output]))
        } else if number == 2 * gates && self.output != width {
            Some((layer.projection, None, [self.output, width]))
        } else {
            None
        }
    }

    /// The numbers that are kept for each row and layer.
    fn kept(&self) -> usize {
        let (gates, width) = (self.gates(), self.width);
        3 * gates * width + 3 * width + 2 * self.output
    }

    pub fn reserve_bytes(&self) -> usize {
        HEADER + self.layers * self.directions * self.steps() * self.lengths.len() * self.kept() * 8
    }

    pub fn work_bytes(&self) -> usize {
        64 + self.steps() * self.lengths.len() * self.width * 8
    }

    /// A number for all that the call depends on.
    fn key(&self) -> u64 {
        let mut key = 1u64;
        let numbers = [
            self.cell as usize,
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
        let mut kept = Kept::new(self);
        for pseudo in 0..self.layers * self.directions {
            let (layer, direction) = (self.layer(pseudo), pseudo % self.directions);
            for sequence in 0..count {
                // SAFETY: guaranteed by the caller.
                let (mut h, mut c) = unsafe {
                    let state = (pseudo * count + sequence) * self.output;
                    let cell = (pseudo * count + sequence) * self.width;
                    (self.list(at.hx, state, self.output), self.list(at.cx, cell, self.width))
                };
                for step in self.order(direction, sequence) {
                    // SAFETY: guaranteed by the caller.
                    let x = unsafe { self.given(at.x, &kept, pseudo, step, sequence) };
                    let row = kept.row(pseudo, step, sequence);
                    // SAFETY: guaranteed by the caller.
                    unsafe { self.step(at.weights, &layer, &x, (&mut h, &mut c), &mut kept.rows[row]) };
                }
                // SAFETY: guaranteed by the caller.
                unsafe {
                    self.store(at.hy, (pseudo * count + sequence) * self.output, &h);
                    if at.cy != 0 {
                        self.store(at.cy, (pseudo * count + sequence) * self.width, &c);
                    }
                }
            }
        }
        let last = (self.layers - 1) * self.directions;
        for direction in 0..self.directions {
            for (step, sequence) in self.places() {
                let to = self.row(step, sequence) * self.directions * self.output + direction * self.output;
                let row = kept.row(last + direction, step, sequence);
                // SAFETY: guaranteed by the caller.
                unsafe { self.store(at.y, to, &kept.rows[row].h) };
            }
        }
        if at.reserve != 0 {
            // SAFETY: guaranteed by the caller.
            unsafe { kept.write(at.reserve, FORWARD) };
        }
    }

    fn places(&self) -> Vec<(usize, usize)> {
        let of = |sequence: usize| (0..self.lengths[sequence]).map(move |step| (step, sequence));
        (0..self.lengths.len()).flat_map(of).collect()
    }

    /// The input of a layer at a step.
    ///
    /// # Safety
    /// As `forward`.
    unsafe fn given(&self, x: usize, kept: &Kept, pseudo: usize, step: usize, sequence: usize) -> Vec<f64> {
        if pseudo < self.directions {
            // SAFETY: guaranteed by the caller.
            return unsafe { self.list(x, self.row(step, sequence) * self.input, self.input) };
        }
        let below = pseudo / self.directions * self.directions - self.directions;
        let of = |direction: usize| kept.rows[kept.row(below + direction, step, sequence)].h.clone();
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
        row: &mut Row,
    ) {
        let (gates, width) = (self.gates(), self.width);
        let (mut of_input, mut of_state) = (vec![0.0; gates * width], vec![0.0; gates * width]);
        // SAFETY: guaranteed by the caller.
        unsafe {
            if self.biased {
                of_input = self.list(weights, layer.biases[0], gates * width);
                of_state = self.list(weights, layer.biases[1], gates * width);
            }
            self.multiply(&mut of_input, (weights, layer.input), [gates * width, layer.given], x, false);
            self.multiply(&mut of_state, (weights, layer.state), [gates * width, self.output], h, false);
        }
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        for n in 0..width {
            let sum = |gate: usize| of_input[gate * width + n] + of_state[gate * width + n];
            match self.cell {
                Cell::Relu => row.gates[n] = sum(0).max(0.0),
                Cell::Tanh => row.gates[n] = sum(0).tanh(),
                Cell::Lstm => {
                    let own = [sigmoid(sum(0)), sigmoid(sum(1)), sum(2).tanh(), sigmoid(sum(3))];
                    own.iter().enumerate().for_each(|(gate, value)| row.gates[gate * width + n] = *value);
                    row.before[n] = c[n];
                    c[n] = own[1] * c[n] + own[0] * own[2];
                    row.cells[n] = c[n];
                    row.middle[n] = own[3] * c[n].tanh();
                }
                Cell::Gru => {
                    let (reset, update) = (sigmoid(sum(0)), sigmoid(sum(1)));
                    let fresh = (of_input[2 * width + n] + reset * of_state[2 * width + n]).tanh();
                    [reset, update, fresh]
                        .iter()
                        .enumerate()
                        .for_each(|(gate, value)| row.gates[gate * width + n] = *value);
                    row.before[n] = of_state[2 * width + n];
                    row.middle[n] = (1.0 - update) * fresh + update * h[n];
                }
            }
            if matches!(self.cell, Cell::Relu | Cell::Tanh) {
                row.middle[n] = row.gates[n];
            }
        }
        let next = match self.output == width {
            true => row.middle.clone(),
            false => {
                let mut sums = vec![0.0; self.output];
                // SAFETY: guaranteed by the caller.
                unsafe {
                    self.multiply(&mut sums, (weights, layer.projection), [self.output, width], &row.middle, false);
                }
                sums
            }
        };
        *h = next.into_iter().map(|value| self.rounded(value)).collect();
        row.h.clone_from(h);
    }

    /// The gradients of input and states. False if the reserve is not that of a pass forward of this network.
    ///
    /// # Safety
    /// As `forward`.
    pub unsafe fn backward_data(&self, at: &Places) -> bool {
        // SAFETY: guaranteed by the caller.
        let Some(mut kept) = (unsafe { Kept::read(self, at.reserve, FORWARD) }) else { return false };
        let (count, wide) = (self.lengths.len(), self.directions * self.output);
        let (gates, width) = (self.gates(), self.width);
        // SAFETY: guaranteed by the caller.
        let mut above: Vec<Vec<f64>> =
            self.places_of_all().map(|row| unsafe { self.list(at.dy, row * wide, wide) }).collect();
        for level in (0..self.layers).rev() {
            let given = self.layer(level * self.directions).given;
            let mut below = vec![vec![0.0; given]; self.rows()];
            for direction in 0..self.directions {
                let pseudo = level * self.directions + direction;
                let layer = self.layer(pseudo);
                for sequence in 0..count {
                    let (state, cell) =
                        ((pseudo * count + sequence) * self.output, (pseudo * count + sequence) * width);
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
                            0 => unsafe { self.list(at.hx, state, self.output) },
                            _ => kept.rows[kept.row(pseudo, order[turn - 1], sequence)].h.clone(),
                        };
                        let place = kept.row(pseudo, step, sequence);
                        let own = &mut kept.rows[place];
                        own.dh.clone_from(&dh);
                        // SAFETY: guaranteed by the caller.
                        let direct = unsafe { self.step_back(at.weights, &layer, &before, (&dh, &mut dc), own) };
                        dh = direct;
                        // SAFETY: guaranteed by the caller.
                        unsafe {
                            let sizes = [gates * width, self.output];
                            self.multiply(&mut dh, (at.weights, layer.state), sizes, &own.of_state, true);
                            let sizes = [gates * width, given];
                            self.multiply(&mut below[row], (at.weights, layer.input), sizes, &own.of_input, true);
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
        unsafe { kept.write(at.reserve, DATA) };
        true
    }

    fn places_of_all(&self) -> std::ops::Range<usize> {
        0..self.rows()
    }

    /// The gradients of the gates, and the part of that of the state before that does not go through them.
    ///
    /// # Safety
    /// As `forward`.
    unsafe fn step_back(
        &self,
        weights: usize,
        layer: &Layer,
        before: &[f64],
        (dh, dc): (&[f64], &mut [f64]),
        row: &mut Row,
    ) -> Vec<f64> {
        let width = self.width;
        let mut middle = vec![0.0; width];
        if self.output == width {
            middle.copy_from_slice(dh);
        } else {
            // SAFETY: guaranteed by the caller.
            unsafe { self.multiply(&mut middle, (weights, layer.projection), [self.output, width], dh, true) };
        }
        let mut direct = vec![0.0; self.output];
        let slope = |gate: f64| gate * (1.0 - gate);
        for n in 0..width {
            let gate = |at: usize| row.gates[at * width + n];
            let (own, hidden): (Vec<f64>, Option<f64>) = match self.cell {
                Cell::Relu => (vec![if gate(0) > 0.0 { middle[n] } else { 0.0 }], None),
                Cell::Tanh => (vec![middle[n] * (1.0 - gate(0) * gate(0))], None),
                Cell::Lstm => {
                    let (enter, keep, fresh, leave) = (gate(0), gate(1), gate(2), gate(3));
                    let bent = row.cells[n].tanh();
                    let state = dc[n] + middle[n] * leave * (1.0 - bent * bent);
                    dc[n] = state * keep;
                    let list = vec![
                        state * fresh * slope(enter),
                        state * row.before[n] * slope(keep),
                        state * enter * (1.0 - fresh * fresh),
                        middle[n] * bent * slope(leave),
                    ];
                    (list, None)
                }
                Cell::Gru => {
                    let (reset, update, fresh) = (gate(0), gate(1), gate(2));
                    let new = middle[n] * (1.0 - update) * (1.0 - fresh * fresh);
                    direct[n] = middle[n] * update;
                    let list =
                        vec![new * row.before[n] * slope(reset), middle[n] * (before[n] - fresh) * slope(update), new];
                    (list, Some(new * reset))
                }
            };
            for (at, &value) in own.iter().enumerate() {
                row.of_input[at * width + n] = value;
                row.of_state[at * width + n] = value;
            }
            if let Some(hidden) = hidden {
                row.of_state[2 * width + n] = hidden;
            }
        }
        direct
    }

    /// Adds the gradients of the weights. False if the reserve is not what `backward_data` left.
    ///
    /// # Safety
    /// As `forward`.
    pub unsafe fn backward_weights(&self, at: &Places) -> bool {
        // SAFETY: guaranteed by the caller.
        let Some(kept) = (unsafe { Kept::read(self, at.reserve, DATA) }) else { return false };
        let mut sums = vec![0.0; self.weight_elements()];
        let mut add = |first: usize, left: &[f64], right: &[f64]| {
            for (row, &a) in left.iter().enumerate() {
                for (column, &b) in right.iter().enumerate() {
                    sums[first + row * right.len() + column] += self.factor(a) * self.factor(b);
                }
            }
        };
        let count = self.lengths.len();
        for pseudo in 0..self.layers * self.directions {
            let layer = self.layer(pseudo);
            for sequence in 0..count {
                let order = self.order(pseudo % self.directions, sequence);
                for (turn, &step) in order.iter().enumerate() {
                    let own = &kept.rows[kept.row(pseudo, step, sequence)];
                    // SAFETY: guaranteed by the caller.
                    let (x, before) = unsafe {
                        let before = match turn {
                            0 => self.list(at.hx, (pseudo * count + sequence) * self.output, self.output),
                            _ => kept.rows[kept.row(pseudo, order[turn - 1], sequence)].h.clone(),
                        };
                        (self.given(at.x, &kept, pseudo, step, sequence), before)
                    };
                    add(layer.input, &own.of_input, &x);
                    add(layer.state, &own.of_state, &before);
                    if self.output != self.width {
                        add(layer.projection, &own.dh, &own.middle);
                    }
                    if self.biased {
                        add(layer.biases[0], &own.of_input, &[1.0]);
                        add(layer.biases[1], &own.of_state, &[1.0]);
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

/// What is kept of a step of a sequence in a layer.
#[derive(Clone)]
struct Row {
    gates: Vec<f64>,
    of_input: Vec<f64>,
    of_state: Vec<f64>,
    /// The cell before, or the state's part of a gated unit's new gate.
    before: Vec<f64>,
    cells: Vec<f64>,
    /// The output before it is projected.
    middle: Vec<f64>,
    h: Vec<f64>,
    dh: Vec<f64>,
}

/// The rows of all layers.
struct Kept {
    rows: Vec<Row>,
    steps: usize,
    count: usize,
    key: u64,
}

impl Kept {
    fn new(network: &Network) -> Kept {
        let (wide, width) = (network.gates() * network.width, network.width);
        let row = Row {
            gates: vec![0.0; wide],
            of_input: vec![0.0; wide],
            of_state: vec![0.0; wide],
            before: vec![0.0; width],
            cells: vec![0.0; width],
            middle: vec![0.0; width],
            h: vec![0.0; network.output],
            dh: vec![0.0; network.output],
        };
        let (steps, count) = (network.steps(), network.lengths.len());
        let rows = vec![row; network.layers * network.directions * steps * count];
        Kept { rows, steps, count, key: network.key() }
    }

    fn row(&self, pseudo: usize, step: usize, sequence: usize) -> usize {
        (pseudo * self.steps + step) * self.count + sequence
    }

    fn numbers(&mut self) -> impl Iterator<Item = &mut f64> {
        self.rows.iter_mut().flat_map(|row| {
            let Row { gates, of_input, of_state, before, cells, middle, h, dh } = row;
            [gates, of_input, of_state, before, cells, middle, h, dh].into_iter().flatten()
        })
    }

    /// # Safety
    /// The reserve lies in memory.
    unsafe fn write(&mut self, reserve: usize, stage: u64) {
        let at = std::ptr::with_exposed_provenance_mut::<u64>(reserve);
        let key = self.key;
        // SAFETY: guaranteed by the caller.
        unsafe {
            at.write(stage);
            at.add(1).write(key);
            let numbers = std::ptr::with_exposed_provenance_mut::<f64>(reserve + HEADER);
            self.numbers().enumerate().for_each(|(n, value)| numbers.add(n).write(*value));
        }
    }

    /// `None` if the reserve is of another stage or network.
    ///
    /// # Safety
    /// The reserve lies in memory.
    unsafe fn read(network: &Network, reserve: usize, stage: u64) -> Option<Kept> {
        let mut kept = Kept::new(network);
        let at = std::ptr::with_exposed_provenance::<u64>(reserve);
        // SAFETY: guaranteed by the caller.
        unsafe {
            if [at.read(), at.add(1).read()] != [stage, kept.key] {
                return None;
            }
            let numbers = std::ptr::with_exposed_provenance::<f64>(reserve + HEADER);
            kept.numbers().enumerate().for_each(|(n, value)| *value = numbers.add(n).read());
        }
        Some(kept)
    }
}
