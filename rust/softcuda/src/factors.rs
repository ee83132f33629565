//! Factorisations of matrices, as `solver` enqueues them: plain algorithms in double precision.

use crate::products::{Number, Type, plus, times};

/// A matrix by columns in memory.
#[derive(Clone, Copy)]
pub struct Place {
    pub at: usize,
    pub rows: usize,
    pub columns: usize,
    pub leading: usize,
    pub data: Type,
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
}
