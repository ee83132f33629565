//! The elementwise part of a step of a recurrent network, after the products with its weights.

use rushlight_par::Address;
use rushlight_simd::multiversion;

use crate::float::Float;

/// Elements worth a task of their own.
pub(super) const TASK: usize = 1 << 12;

/// One step of a long short-term memory: from `[gates, state]` to `[output, state]`. Gates are input, forget, cell,
/// output.
///
/// # Safety
/// Row-major memory: `rows` times `4 * n` gates, and `rows` times `n` elements elsewhere. Results do not overlap
/// operands.
pub unsafe fn lstm<T: Float>(rows: usize, n: usize, [gates, state]: [*const T; 2], [out, next]: [*mut T; 2]) {
    let (gates, state) = (Address(gates.cast_mut()), Address(state.cast_mut()));
    let (out, next) = (Address(out), Address(next));
    rushlight_par::parallel_for(rows, TASK.div_ceil(n.max(1)), |range| {
        for row in range {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe { lstm_row(gates.at(row * 4 * n), state.at(row * n), out.at(row * n), next.at(row * n), n) };
        }
    });
}

/// One step of a gated recurrent unit: from `[gates of the input, gates of the state, state]` to the next state. Gates are
/// reset, update, new.
///
/// # Safety
/// Same as for `lstm`, with `3 * n` gates each.
pub unsafe fn gru<T: Float>(rows: usize, n: usize, [input, own, state]: [*const T; 3], next: *mut T) {
    let (input, own, state) = (Address(input.cast_mut()), Address(own.cast_mut()), Address(state.cast_mut()));
    let next = Address(next);
    rushlight_par::parallel_for(rows, TASK.div_ceil(n.max(1)), |range| {
        for row in range {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe { gru_row(input.at(row * 3 * n), own.at(row * 3 * n), state.at(row * n), next.at(row * n), n) };
        }
    });
}

multiversion! {
    /// # Safety
    /// Four times `n` gates, and `n` elements elsewhere.
    unsafe fn lstm_row<S, T: Float>(gates: *const T, state: *const T, out: *mut T, next: *mut T, n: usize) {
        for j in 0..n {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                let gate = |k: usize| *gates.add(k * n + j);
                let kept = S::sigmoid(gate(1)) * *state.add(j);
                let now = kept + S::sigmoid(gate(0)) * S::tanh(gate(2));
                next.add(j).write(now);
                out.add(j).write(S::sigmoid(gate(3)) * S::tanh(now));
            }
        }
    }
}

multiversion! {
    /// # Safety
    /// Three times `n` gates of each kind, and `n` elements elsewhere.
    unsafe fn gru_row<S, T: Float>(input: *const T, own: *const T, state: *const T, next: *mut T, n: usize) {
        for j in 0..n {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                let (x, h) = (|k: usize| *input.add(k * n + j), |k: usize| *own.add(k * n + j));
                let reset = S::sigmoid(x(0) + h(0));
                let update = S::sigmoid(x(1) + h(1));
                let new = S::tanh(x(2) + reset * h(2));
                next.add(j).write((*state.add(j) - new) * update + new);
            }
        }
    }
}
