//! A layer of long short-term memory over a whole sequence, forward and backward: a step is a product with the hidden
//! state's weights, written directly to the gates, and one pass over the gates. Nothing is allocated between steps.

use rushlight_core::Result;
use rushlight_core::alloc::filled;
use rushlight_simd::multiversion;

use super::gates::TASK;
use crate::float::Float;
use crate::linalg::matmul::{GemmElement, Matrices, Product, gemm};
use rushlight_par::Address;

/// The sizes of a layer, and whether it reads the sequence from its end.
#[derive(Clone, Copy)]
pub struct Sequence {
    pub steps: usize,
    pub rows: usize,
    pub width: usize,
    pub backwards: bool,
}

/// The products with the input, the first hidden and cell state, the hidden state's weights `(4 * width, width)`, and the
/// results of all steps: outputs, cells, and activated gates (input, forget, cell, output). Row-major.
pub struct Forward<T> {
    pub products: *const T,
    pub hx: *const T,
    pub cx: *const T,
    pub weight: *const T,
    pub outputs: *mut T,
    pub cells: *mut T,
    pub gates: *mut T,
}

/// The operands and results of the forward pass, the gradients of outputs and cells, and the resulting gradients.
pub struct Backward<T> {
    pub hx: *const T,
    pub cx: *const T,
    pub weight: *const T,
    pub outputs: *const T,
    pub cells: *const T,
    pub gates: *const T,
    pub grad_outputs: *const T,
    /// Null if there is no gradient.
    pub grad_cells: *const T,
    pub to_products: *mut T,
    pub to_hx: *mut T,
    pub to_cx: *mut T,
    pub to_weight: *mut T,
}

fn number<T: Float>(value: f64) -> T {
    <T as Float>::narrow(value)
}

/// `c = a @ b + addend`.
///
/// # Safety
/// Same as for `gemm`.
unsafe fn product<T: Float + GemmElement<Sum = T>>(
    [m, n, k]: [usize; 3],
    [a, b]: [Matrices<*const T>; 2],
    addend: Option<*const T>,
    c: *mut T,
) -> Result<()> {
    let one = number::<T>(1.0);
    let addend = addend.map(|addend| (one, Matrices::row_major(addend, n)));
    // SAFETY: guaranteed by the caller (see `# Safety`).
    unsafe { gemm(&Product { batch: 1, m, n, k, alpha: one, a, b, addend, c: Matrices::row_major(c, n) }) }
}

impl Sequence {
    /// The number of elements of a step's state.
    fn size(&self) -> usize {
        self.rows * self.width
    }

    /// The position in the sequence of step number `turn`.
    fn place(&self, turn: usize) -> usize {
        if self.backwards { self.steps - 1 - turn } else { turn }
    }

    /// The state before step number `turn`.
    fn before<T>(&self, turn: usize, first: *const T, all: *const T) -> *const T {
        if turn == 0 { first } else { all.wrapping_add(self.place(turn - 1) * self.size()) }
    }

    /// # Safety
    /// Every pointer covers its memory, and results do not overlap operands.
    pub unsafe fn forward<T: Float + GemmElement<Sum = T>>(&self, own: &Forward<T>) -> Result<()> {
        let (n, size) = (self.width, self.size());
        for turn in 0..self.steps {
            let place = self.place(turn);
            let gates = own.gates.wrapping_add(place * 4 * size);
            let products = own.products.wrapping_add(place * 4 * size);
            let hx = self.before(turn, own.hx, own.outputs);
            let weight = Matrices::row_major(own.weight, n).transposed();
            // SAFETY: guaranteed by the caller (see `# Safety`); a step's results are read only by later steps.
            unsafe { product([self.rows, 4 * n, n], [Matrices::row_major(hx, n), weight], Some(products), gates)? };
            let cx = Address(self.before(turn, own.cx, own.cells).cast_mut());
            let gates = Address(gates);
            let outputs = Address(own.outputs.wrapping_add(place * size));
            let cells = Address(own.cells.wrapping_add(place * size));
            rushlight_par::parallel_for(self.rows, TASK.div_ceil(n.max(1)), |rows| {
                for row in rows {
                    // SAFETY: guaranteed by the caller (see `# Safety`); the results belong to this row.
                    unsafe {
                        let to = [outputs.at(row * n), cells.at(row * n)];
                        step(gates.at(row * 4 * n), cx.at(row * n), to, n);
                    }
                }
            });
        }
        Ok(())
    }

    /// # Safety
    /// Same as for `forward`.
    pub unsafe fn backward<T: Float + GemmElement<Sum = T>>(&self, own: &Backward<T>) -> Result<()> {
        let (n, size) = (self.width, self.size());
        // The gradients of the states from the following steps; they are stored in those of the first states.
        let (to_hx, to_cx) = (own.to_hx, own.to_cx);
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            std::slice::from_raw_parts_mut(to_hx, size).fill(number::<T>(0.0));
            std::slice::from_raw_parts_mut(to_cx, size).fill(number::<T>(0.0));
            std::slice::from_raw_parts_mut(own.to_weight, 4 * n * n).fill(number::<T>(0.0));
        }
        let none = if own.grad_cells.is_null() { filled(number::<T>(0.0), size)? } else { Vec::new() };
        for turn in (0..self.steps).rev() {
            let place = self.place(turn);
            let at = |all: *const T| Address(all.wrapping_add(place * size).cast_mut());
            let (cells, grad_hy) = (at(own.cells), at(own.grad_outputs));
            let grad_cy = if own.grad_cells.is_null() { Address(none.as_ptr().cast_mut()) } else { at(own.grad_cells) };
            let gates = Address(own.gates.wrapping_add(place * 4 * size).cast_mut());
            let to = own.to_products.wrapping_add(place * 4 * size);
            let before = Address(self.before(turn, own.cx, own.cells).cast_mut());
            let (to_rows, to_hx_rows, to_cx_rows) = (Address(to), Address(to_hx), Address(to_cx));
            rushlight_par::parallel_for(self.rows, TASK.div_ceil(n.max(1)), |rows| {
                for row in rows {
                    let first = row * n;
                    // SAFETY: guaranteed by the caller (see `# Safety`); the results belong to this row.
                    unsafe {
                        let given =
                            [grad_hy.at(first), to_hx_rows.at(first), grad_cy.at(first)].map(<*mut T>::cast_const);
                        let cells = [before.at(first), cells.at(first)].map(<*mut T>::cast_const);
                        step_back(to_rows.at(4 * first), to_cx_rows.at(first), gates.at(4 * first), cells, given, n);
                    }
                }
            });
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                product(
                    [self.rows, n, 4 * n],
                    [Matrices::row_major(to.cast_const(), 4 * n), Matrices::row_major(own.weight, n)],
                    None,
                    to_hx,
                )?;
            }
        }
        // Each output is paired with the gradients of the step that reads it: one product for all steps but the first,
        // and one for the first.
        let (first, later) = (self.place(0), if self.backwards { [1, 0] } else { [0, 1] });
        let gradients = |place: usize| {
            Matrices::row_major(own.to_products.cast_const().wrapping_add(place * 4 * size), 4 * n).transposed()
        };
        let outputs = |place: usize| Matrices::row_major(own.outputs.wrapping_add(place * size), n);
        let onto = Some(own.to_weight.cast_const());
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            if self.steps > 1 {
                let operands = [gradients(later[1]), outputs(later[0])];
                product([4 * n, n, (self.steps - 1) * self.rows], operands, None, own.to_weight)?;
            }
            product([4 * n, n, self.rows], [gradients(first), Matrices::row_major(own.hx, n)], onto, own.to_weight)
        }
    }
}

multiversion! {
    /// Activates the gates of a row, in place, and computes its hidden and cell state, to `[hy, cy]`.
    ///
    /// # Safety
    /// Four times `n` gates, and `n` elements elsewhere.
    unsafe fn step<S, T: Float>(gates: *mut T, cx: *const T, to: [*mut T; 2], n: usize) {
        for j in 0..n {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                let gate = |k: usize| gates.add(k * n + j);
                let (i, f) = (S::sigmoid(*gate(0)), S::sigmoid(*gate(1)));
                let (g, o) = (S::tanh(*gate(2)), S::sigmoid(*gate(3)));
                let cell = f * *cx.add(j) + i * g;
                gate(0).write(i);
                gate(1).write(f);
                gate(2).write(g);
                gate(3).write(o);
                to[1].add(j).write(cell);
                to[0].add(j).write(o * S::tanh(cell));
            }
        }
    }
}

multiversion! {
    /// The gradients of the sums of a row's gates, and of `cx` in place of that of `cy` from later steps. `cells` are `cx` and
    /// `cy`; `given` are the gradients of `hy` from outside and from later steps, and of `cy` from outside.
    ///
    /// # Safety
    /// Four times `n` gates, and `n` elements elsewhere.
    unsafe fn step_back<S, T: Float>(to: *mut T, to_cx: *mut T, gates: *const T, cells: [*const T; 2], given: [*const T; 3], n: usize) {
        let one = T::narrow(1.0);
        for j in 0..n {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                let gate = |k: usize| *gates.add(k * n + j);
                let [i, f, g, o] = [gate(0), gate(1), gate(2), gate(3)];
                let tanh = S::tanh(*cells[1].add(j));
                let to_hy = *given[0].add(j) + *given[1].add(j);
                let to_cy = *to_cx.add(j) + *given[2].add(j) + to_hy * o * (one - tanh * tanh);
                to.add(j).write(to_cy * g * i * (one - i));
                to.add(n + j).write(to_cy * *cells[0].add(j) * f * (one - f));
                to.add(2 * n + j).write(to_cy * i * (one - g * g));
                to.add(3 * n + j).write(to_hy * tanh * o * (one - o));
                to_cx.add(j).write(to_cy * f);
            }
        }
    }
}
