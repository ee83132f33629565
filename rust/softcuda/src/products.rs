//! Products of matrices, as `blas` enqueues them.

use half::{bf16, f16};

/// The dtype of elements. Only complex numbers have an imaginary part; others have zero.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Type {
    R16,
    B16,
    R32,
    R64,
    C32,
    C64,
}

pub type Number = [f64; 2];

impl Type {
    const ALL: [Type; 6] = [Type::R16, Type::B16, Type::R32, Type::R64, Type::C32, Type::C64];

    /// `cudaDataType_t`.
    pub fn code(self) -> u32 {
        match self {
            Type::R32 => 0,
            Type::R64 => 1,
            Type::R16 => 2,
            Type::C32 => 4,
            Type::C64 => 5,
            Type::B16 => 14,
        }
    }

    pub fn of(code: u32) -> Option<Type> {
        Type::ALL.into_iter().find(|own| own.code() == code)
    }

    pub fn is_complex(self) -> bool {
        matches!(self, Type::C32 | Type::C64)
    }

    pub fn bytes(self) -> usize {
        match self {
            Type::R16 | Type::B16 => 2,
            Type::R32 => 4,
            Type::R64 | Type::C32 => 8,
            Type::C64 => 16,
        }
    }

    /// The dtype of real and imaginary parts.
    pub fn real(self) -> Type {
        match self {
            Type::C32 => Type::R32,
            Type::C64 => Type::R64,
            other => other,
        }
    }

    /// What the address of an element must be divisible by.
    pub fn alignment(self) -> usize {
        self.bytes()
    }

    /// The dtype of sums.
    pub fn summed(self) -> Type {
        if matches!(self, Type::R16 | Type::B16) { Type::R32 } else { self }
    }

    /// # Safety
    /// An element can be read at the address.
    pub unsafe fn load(self, address: usize) -> Number {
        let at = std::ptr::with_exposed_provenance::<u8>(address);
        // SAFETY: guaranteed by the caller.
        unsafe {
            match self {
                Type::R16 => [at.cast::<f16>().read_unaligned().to_f64(), 0.0],
                Type::B16 => [at.cast::<bf16>().read_unaligned().to_f64(), 0.0],
                Type::R32 => [f64::from(at.cast::<f32>().read_unaligned()), 0.0],
                Type::R64 => [at.cast::<f64>().read_unaligned(), 0.0],
                Type::C32 => at.cast::<[f32; 2]>().read_unaligned().map(f64::from),
                Type::C64 => at.cast::<[f64; 2]>().read_unaligned(),
            }
        }
    }

    /// # Safety
    /// An element can be written at the address.
    pub unsafe fn store(self, address: usize, value: Number) {
        let at = std::ptr::with_exposed_provenance_mut::<u8>(address);
        // SAFETY: guaranteed by the caller.
        unsafe {
            match self {
                Type::R16 => at.cast::<f16>().write_unaligned(f16::from_f32(value[0] as f32)),
                Type::B16 => at.cast::<bf16>().write_unaligned(bf16::from_f32(value[0] as f32)),
                Type::R32 => at.cast::<f32>().write_unaligned(value[0] as f32),
                Type::R64 => at.cast::<f64>().write_unaligned(value[0]),
                Type::C32 => at.cast::<[f32; 2]>().write_unaligned(value.map(|part| part as f32)),
                Type::C64 => at.cast::<[f64; 2]>().write_unaligned(value),
            }
        }
    }
}

/// Where a matrix lies. Strides of rows and columns, and the step to the next matrix, are in elements.
#[derive(Clone, Copy)]
pub struct Matrix {
    pub address: usize,
    pub strides: [i64; 2],
    pub step: i64,
}

impl Matrix {
    fn at(&self, data: Type, batch: u64, row: u64, column: u64) -> usize {
        let elements = batch as i64 * self.step + row as i64 * self.strides[0] + column as i64 * self.strides[1];
        self.address.wrapping_add_signed(elements as isize * data.bytes() as isize)
    }
}

/// `d = alpha * a b + beta * c`, and perhaps a bias for each row.
#[derive(Clone)]
pub struct Product {
    pub data: Type,
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

pub fn times(x: Number, y: Number) -> Number {
    // A real number must not make a NaN of infinity.
    if x[1] == 0.0 && y[1] == 0.0 {
        return [x[0] * y[0], 0.0];
    }
    [x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]]
}

pub fn plus(x: Number, y: Number) -> Number {
    [x[0] + y[0], x[1] + y[1]]
}

/// Ten bits after the leading one.
pub fn tf32(value: f64) -> f64 {
    let bits = (value as f32).to_bits();
    if value.is_finite() { f64::from(f32::from_bits((bits + 0xfff + (bits >> 13 & 1)) & !0x1fff)) } else { value }
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
