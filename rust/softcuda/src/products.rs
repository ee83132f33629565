//! Products of matrices, as `cublaslt` enqueues them.

use crate::dtype::{DType, Number, plus, tf32, times};

/// Where a matrix lies. Strides of rows and columns, and the step to the next matrix, are in elements.
#[derive(Clone, Copy)]
pub struct Matrix {
    pub address: usize,
    pub strides: [i64; 2],
    pub step: i64,
}

impl Matrix {
    fn at(&self, data: DType, batch: u64, row: u64, column: u64) -> usize {
        let elements = batch as i64 * self.step + row as i64 * self.strides[0] + column as i64 * self.strides[1];
        self.address.wrapping_add_signed(elements as isize * data.bytes() as isize)
    }
}

/// `d = alpha * a b + beta * c`, and perhaps a bias for each row.
#[derive(Clone)]
pub struct Product {
    pub data: DType,
    pub tf32: bool,
    /// Rows, columns, and the length of the sums.
    pub sizes: [u64; 3],
    pub count: u64,
    pub alpha: Number,
    pub beta: Number,
    pub a: Matrix,
    pub b: Matrix,
    pub c: Matrix,
    pub d: Matrix,
    pub bias: Option<usize>,
    /// Memory for the halves of the sums, and the bytes of one.
    pub workspace: Option<(usize, usize)>,
}

impl Product {
    /// # Safety
    /// The matrices lie in memory, and the workspace has room.
    pub unsafe fn run(&self) {
        let [rows, columns, inner] = self.sizes;
        for batch in 0..self.count {
            for column in 0..columns {
                for row in 0..rows {
                    // SAFETY: guaranteed by the caller.
                    unsafe {
                        let sum = match self.workspace {
                            None => self.sum(batch, row, column, 0, inner),
                            Some((space, bytes)) => {
                                let own = if bytes == self.data.bytes() { self.data } else { self.data.summed() };
                                let place = space + ((batch * columns + column) * rows + row) as usize * 2 * bytes;
                                let half = inner / 2;
                                own.store(place, self.sum(batch, row, column, 0, half));
                                own.store(place + bytes, self.sum(batch, row, column, half, inner));
                                plus(own.load(place), own.load(place + bytes))
                            }
                        };
                        let mut value = times(self.alpha, sum);
                        if self.beta != [0.0; 2] {
                            value =
                                plus(value, times(self.beta, self.data.load(self.c.at(self.data, batch, row, column))));
                        }
                        if let Some(bias) = self.bias {
                            value = plus(value, self.data.load(bias + row as usize * self.data.bytes()));
                        }
                        self.data.store(self.d.at(self.data, batch, row, column), value);
                    }
                }
            }
        }
    }

    /// Overwrites the first element of the result with one that is wrong.
    ///
    /// # Safety
    /// As `run`.
    pub unsafe fn spoil(&self) {
        let first = self.d.at(self.data, 0, 0, 0);
        // SAFETY: guaranteed by the caller.
        unsafe { self.data.store(first, plus(self.data.load(first), [1.0, 0.0])) };
    }

    /// # Safety
    /// As `run`.
    unsafe fn sum(&self, batch: u64, row: u64, column: u64, from: u64, to: u64) -> Number {
        let factor = |matrix: &Matrix, row: u64, column: u64| {
            // SAFETY: guaranteed by the caller.
            let value = unsafe { self.data.load(matrix.at(self.data, batch, row, column)) };
            if self.tf32 { value.map(tf32) } else { value }
        };
        let terms = (from..to).map(|n| times(factor(&self.a, row, n), factor(&self.b, n, column)));
        terms.fold([0.0; 2], plus)
    }
}
