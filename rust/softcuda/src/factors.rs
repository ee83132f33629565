//! Factorisations of matrices, as `cusolver` enqueues them: plain algorithms in double precision.

use crate::dtype::{DType, Number, plus, times};

/// A matrix by columns in memory.
#[derive(Clone, Copy)]
pub struct Place {
    pub at: usize,
    pub rows: usize,
    pub columns: usize,
    pub leading: usize,
    pub data: DType,
}

impl Place {
    /// From the first to the last byte; `None` if its description is wrong.
    pub fn range(&self) -> Option<(usize, u64)> {
        let aligned = self.at.is_multiple_of(self.data.alignment());
        if !aligned || self.leading < self.rows.max(1) || self.rows == 0 || self.columns == 0 {
            return None;
        }
        Some((self.at, (((self.columns - 1) * self.leading + self.rows) * self.data.bytes()) as u64))
    }

    fn address(&self, row: usize, column: usize) -> usize {
        self.at + (column * self.leading + row) * self.data.bytes()
    }

    /// # Safety
    /// The matrix lies in memory.
    pub unsafe fn load(&self) -> Dense {
        // SAFETY: guaranteed by the caller.
        Dense::of(self.rows, self.columns, |row, column| unsafe { self.data.load(self.address(row, column)) })
    }

    /// Stores the elements for which `wanted` is true.
    ///
    /// # Safety
    /// The matrix lies in memory.
    pub unsafe fn store(&self, matrix: &Dense, wanted: impl Fn(usize, usize) -> bool) {
        for column in 0..self.columns {
            for row in (0..self.rows).filter(|&row| wanted(row, column)) {
                // SAFETY: guaranteed by the caller.
                unsafe { self.data.store(self.address(row, column), matrix.get(row, column)) };
            }
        }
    }
}

/// A matrix in memory of its own.
#[derive(Clone)]
pub struct Dense {
    pub rows: usize,
    pub columns: usize,
    numbers: Vec<Number>,
}

pub fn conjugate(x: Number) -> Number {
    [x[0], -x[1]]
}

pub fn minus(x: Number, y: Number) -> Number {
    [x[0] - y[0], x[1] - y[1]]
}

pub fn square(x: Number) -> f64 {
    x[0] * x[0] + x[1] * x[1]
}

pub fn over(x: Number, y: Number) -> Number {
    if y[1] == 0.0 {
        return [x[0] / y[0], x[1] / y[0]];
    }
    let product = times(x, conjugate(y));
    [product[0] / square(y), product[1] / square(y)]
}

impl Dense {
    pub fn of(rows: usize, columns: usize, element: impl Fn(usize, usize) -> Number) -> Dense {
        let numbers = (0..columns).flat_map(|column| (0..rows).map(move |row| (row, column)));
        Dense { rows, columns, numbers: numbers.map(|(row, column)| element(row, column)).collect() }
    }

    pub fn get(&self, row: usize, column: usize) -> Number {
        self.numbers[column * self.rows + row]
    }

    pub fn set(&mut self, row: usize, column: usize, value: Number) {
        self.numbers[column * self.rows + row] = value;
    }

    pub fn adjoint(&self) -> Dense {
        Dense::of(self.columns, self.rows, |row, column| conjugate(self.get(column, row)))
    }

    pub fn transposed(&self) -> Dense {
        Dense::of(self.columns, self.rows, |row, column| self.get(column, row))
    }

    fn swap_rows(&mut self, first: usize, second: usize) {
        (0..self.columns).for_each(|column| self.numbers.swap(column * self.rows + first, column * self.rows + second));
    }

    /// Replaces the lower triangle by the Cholesky factor; the order of the first minor that is not positive, or 0.
    pub fn cholesky(&mut self) -> i32 {
        for column in 0..self.rows {
            for row in column..self.rows {
                let terms = (0..column).map(|k| times(self.get(row, k), conjugate(self.get(column, k))));
                let rest = minus(self.get(row, column), terms.fold([0.0; 2], plus));
                let value = match (row == column, self.get(column, column)[0]) {
                    (true, _) if rest[0] > 0.0 => [rest[0].sqrt(), 0.0],
                    (true, _) => return column as i32 + 1,
                    (false, pivot) => over(rest, [pivot, 0.0]),
                };
                self.set(row, column, value);
            }
        }
        0
    }

    /// Replaces the matrix by its LU factors; the exchanged rows, counted from 1, and the first zero pivot, or 0.
    pub fn lu(&mut self) -> (Vec<i64>, i32) {
        let (mut pivots, mut info) = (Vec::new(), 0);
        for step in 0..self.rows.min(self.columns) {
            let size = |matrix: &Dense, row: usize| matrix.get(row, step)[0].abs() + matrix.get(row, step)[1].abs();
            let largest = (step + 1..self.rows)
                .fold(step, |best, row| if size(self, row) > size(self, best) { row } else { best });
            pivots.push(largest as i64 + 1);
            self.swap_rows(step, largest);
            let pivot = self.get(step, step);
            if pivot == [0.0; 2] {
                info = if info == 0 { step as i32 + 1 } else { info };
                continue;
            }
            for row in step + 1..self.rows {
                let factor = over(self.get(row, step), pivot);
                self.set(row, step, factor);
                for column in step + 1..self.columns {
                    let value = minus(self.get(row, column), times(factor, self.get(step, column)));
                    self.set(row, column, value);
                }
            }
        }
        (pivots, info)
    }

    /// Replaces right-hand sides by the solutions of systems with this triangle.
    pub fn solve(&self, sides: &mut Dense, upper: bool, unit: bool) {
        for column in 0..sides.columns {
            for step in 0..self.rows {
                let row = if upper { self.rows - 1 - step } else { step };
                let known = if upper { row + 1..self.rows } else { 0..row };
                let terms = known.map(|k| times(self.get(row, k), sides.get(k, column)));
                let rest = minus(sides.get(row, column), terms.fold([0.0; 2], plus));
                sides.set(row, column, if unit { rest } else { over(rest, self.get(row, row)) });
            }
        }
    }

    pub fn identity(n: usize) -> Dense {
        Dense::of(n, n, |row, column| if row == column { [1.0, 0.0] } else { [0.0; 2] })
    }

    /// Applies the reflection with this vector below row `step`, and this factor.
    fn reflect(&mut self, vector: &[Number], step: usize, factor: Number) {
        for column in 0..self.columns {
            let terms = vector.iter().enumerate().map(|(k, &v)| times(conjugate(v), self.get(step + k, column)));
            let amount = times(factor, terms.fold([0.0; 2], plus));
            for (k, &v) in vector.iter().enumerate() {
                let value = minus(self.get(step + k, column), times(v, amount));
                self.set(step + k, column, value);
            }
        }
    }

    /// The vector of the reflection of a step, which lies below the diagonal.
    fn vector(&self, step: usize) -> Vec<Number> {
        (step..self.rows).map(|row| if row == step { [1.0, 0.0] } else { self.get(row, step) }).collect()
    }

    /// Replaces the matrix by the reflections that make it upper triangular, and by that triangle; their factors, as in LAPACK.
    pub fn reflections(&mut self) -> Vec<Number> {
        let mut factors = Vec::new();
        for step in 0..self.rows.min(self.columns) {
            let first = self.get(step, step);
            let rest: f64 = (step + 1..self.rows).map(|row| square(self.get(row, step))).sum();
            if rest == 0.0 && first[1] == 0.0 {
                factors.push([0.0; 2]);
                continue;
            }
            let length = -(square(first) + rest).sqrt().copysign(first[0]);
            let factor = [(length - first[0]) / length, -first[1] / length];
            let divisor = minus(first, [length, 0.0]);
            for row in step + 1..self.rows {
                self.set(row, step, over(self.get(row, step), divisor));
            }
            let vector = self.vector(step);
            let mut others =
                Dense::of(self.rows, self.columns - step - 1, |row, column| self.get(row, step + 1 + column));
            others.reflect(&vector, step, conjugate(factor));
            for column in 0..others.columns {
                (0..self.rows).for_each(|row| self.set(row, step + 1 + column, others.get(row, column)));
            }
            self.set(step, step, [length, 0.0]);
            factors.push(factor);
        }
        factors
    }

    /// Multiplies `other` from the left by the product of these reflections, or by its adjoint.
    pub fn apply(&self, factors: &[Number], other: &mut Dense, adjoint: bool) {
        for place in 0..factors.len() {
            let step = if adjoint { place } else { factors.len() - 1 - place };
            let factor = if adjoint { conjugate(factors[step]) } else { factors[step] };
            other.reflect(&self.vector(step), step, factor);
        }
    }

    /// Turns two columns, so that a Hermitian matrix with the elements `[p, q]` on the diagonal and `x` beside loses `x`.
    fn turn(&mut self, (p, q): (usize, usize), [cosine, sine]: [f64; 2], phase: Number) {
        for row in 0..self.rows {
            let (first, second) = (self.get(row, p), times(self.get(row, q), conjugate(phase)));
            self.set(row, p, minus(times(first, [cosine, 0.0]), times(second, [sine, 0.0])));
            self.set(row, q, plus(times(first, [sine, 0.0]), times(second, [cosine, 0.0])));
        }
    }

    /// The eigenvalues of a Hermitian matrix, ascending, and the vectors, by Jacobi's method.
    pub fn eigen(&self) -> (Vec<f64>, Dense) {
        let (mut matrix, mut vectors) = (self.clone(), Dense::identity(self.rows));
        for _ in 0..100 {
            let mut turned = false;
            for (p, q) in pairs(self.rows) {
                let Some((angle, phase)) = angle(matrix.get(p, p)[0], matrix.get(q, q)[0], matrix.get(p, q)) else {
                    continue;
                };
                turned = true;
                matrix.turn((p, q), angle, phase);
                let mut other = matrix.adjoint();
                other.turn((p, q), angle, phase);
                matrix = other.adjoint();
                vectors.turn((p, q), angle, phase);
            }
            if !turned {
                break;
            }
        }
        let mut order: Vec<usize> = (0..self.rows).collect();
        order.sort_by(|&a, &b| matrix.get(a, a)[0].total_cmp(&matrix.get(b, b)[0]));
        let values = order.iter().map(|&n| matrix.get(n, n)[0]).collect();
        (values, Dense::of(self.rows, self.rows, |row, column| vectors.get(row, order[column])))
    }

    /// `(u, s, v)` with all columns of `u` and `v`, by Jacobi's method.
    pub fn singular(&self) -> (Dense, Vec<f64>, Dense) {
        if self.rows < self.columns {
            let (v, s, u) = self.adjoint().singular();
            return (u, s, v);
        }
        let (mut matrix, mut v) = (self.clone(), Dense::identity(self.columns));
        let dot = |matrix: &Dense, p: usize, q: usize| {
            (0..matrix.rows).map(|row| times(conjugate(matrix.get(row, p)), matrix.get(row, q))).fold([0.0; 2], plus)
        };
        for _ in 0..100 {
            let mut turned = false;
            for (p, q) in pairs(self.columns) {
                let found = angle(dot(&matrix, p, p)[0], dot(&matrix, q, q)[0], dot(&matrix, p, q));
                let Some((angle, phase)) = found else { continue };
                turned = true;
                matrix.turn((p, q), angle, phase);
                v.turn((p, q), angle, phase);
            }
            if !turned {
                break;
            }
        }
        let lengths: Vec<f64> = (0..self.columns).map(|column| dot(&matrix, column, column)[0].sqrt()).collect();
        let mut order: Vec<usize> = (0..self.columns).collect();
        order.sort_by(|&a, &b| lengths[b].total_cmp(&lengths[a]));
        let mut u = Dense::of(self.rows, self.rows, |_, _| [0.0; 2]);
        let mut candidates = 0..self.rows;
        for column in 0..self.rows {
            let own = order.get(column).filter(|&&n| lengths[n] > 1e-300);
            let mut vector: Vec<Number> = match own {
                Some(&n) => (0..self.rows).map(|row| over(matrix.get(row, n), [lengths[n], 0.0])).collect(),
                None => vec![[0.0; 2]; self.rows],
            };
            // Columns without a value are what is left of unit vectors beside the others.
            while own.is_none() && vector.iter().map(|&x| square(x)).sum::<f64>() < 0.5 / self.rows as f64 {
                let Some(unit) = candidates.next() else { break };
                vector = (0..self.rows).map(|row| if row == unit { [1.0, 0.0] } else { [0.0; 2] }).collect();
                for _ in 0..2 {
                    for other in 0..column {
                        let terms = (0..self.rows).map(|row| times(conjugate(u.get(row, other)), vector[row]));
                        let amount = terms.fold([0.0; 2], plus);
                        (0..self.rows)
                            .for_each(|row| vector[row] = minus(vector[row], times(u.get(row, other), amount)));
                    }
                }
            }
            let length = vector.iter().map(|&x| square(x)).sum::<f64>().sqrt();
            (0..self.rows).for_each(|row| u.set(row, column, over(vector[row], [length, 0.0])));
        }
        let v = Dense::of(self.columns, self.columns, |row, column| v.get(row, order[column]));
        (u, order.iter().map(|&n| lengths[n]).collect(), v)
    }
}

fn pairs(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).flat_map(move |p| (p + 1..n).map(move |q| (p, q)))
}

/// Cosine and sine of the angle by which two columns are turned, and the phase of `x`; `None` if `x` is small enough.
fn angle(p: f64, q: f64, x: Number) -> Option<([f64; 2], Number)> {
    let size = square(x).sqrt();
    if size.is_nan() || size <= 1e-17 * (p.abs() * q.abs()).sqrt() || size < 1e-300 {
        return None;
    }
    let slope = (q - p) / (2.0 * size);
    let tangent = 1f64.copysign(slope) / (slope.abs() + slope.hypot(1.0));
    let cosine = 1.0 / tangent.hypot(1.0);
    Some(([cosine, cosine * tangent], over(x, [size, 0.0])))
}
