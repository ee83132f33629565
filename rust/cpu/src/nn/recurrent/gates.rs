//! The elementwise part of a step of a recurrent network, after the products with its weights.

use rushlight_par::Address;
use rushlight_simd::multiversion;

use crate::float::Float;

/// Elements worth a task of their own.
pub(super) const TASK: usize = 1 << 12;

/// One step of a long short-term memory: from `[gates, cx]` to `[hy, cy]`. Gates are input, forget, cell, output.
///
/// # Safety
/// Row-major memory: `rows` times `4 * n` gates, and `rows` times `n` elements elsewhere. Results do not overlap
/// operands.
pub unsafe fn lstm<T: Float>(rows: usize, n: usize, [gates, cx]: [*const T; 2], [hy, cy]: [*mut T; 2]) {
    let (gates, cx) = (Address(gates.cast_mut()), Address(cx.cast_mut()));
    let (hy, cy) = (Address(hy), Address(cy));
    rushlight_par::parallel_for(rows, TASK.div_ceil(n.max(1)), |range| {
        for row in range {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe { lstm_row(gates.at(row * 4 * n), cx.at(row * n), hy.at(row * n), cy.at(row * n), n) };
        }
    });
}

/// The gradients of `lstm`: from those of `hy` and `cy`, its operands and `cy`, to `[gates, cx]`.
///
/// # Safety
/// Same as for `lstm`.
pub unsafe fn lstm_back<T: Float>(rows: usize, n: usize, from: [*const T; 5], [to_gates, to_cx]: [*mut T; 2]) {
    let [grad_hy, grad_cy, gates, cx, cy] = from.map(|operand| Address(operand.cast_mut()));
    let [to_gates, to_cx] = [to_gates, to_cx].map(Address);
    rushlight_par::parallel_for(rows, TASK.div_ceil(n.max(1)), |range| {
        for row in range {
            let (first, wide) = (row * n, row * 4 * n);
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                let from = [grad_hy.at(first), grad_cy.at(first), gates.at(wide), cx.at(first), cy.at(first)];
                lstm_row_back(from.map(<*mut T>::cast_const), [to_gates.at(wide), to_cx.at(first)], n);
            }
        }
    });
}

/// One step of a gated recurrent unit: from `[gates of the input, gates of the hidden state, hx]` to `hy`. Gates are reset,
/// update, new; the last one is `new_gate` below, since `n` is the width.
///
/// # Safety
/// Same as for `lstm`, with `3 * n` gates each.
pub unsafe fn gru<T: Float>(rows: usize, n: usize, [input, hidden, hx]: [*const T; 3], hy: *mut T) {
    let (input, hidden, hx) = (Address(input.cast_mut()), Address(hidden.cast_mut()), Address(hx.cast_mut()));
    let hy = Address(hy);
    rushlight_par::parallel_for(rows, TASK.div_ceil(n.max(1)), |range| {
        for row in range {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe { gru_row(input.at(row * 3 * n), hidden.at(row * 3 * n), hx.at(row * n), hy.at(row * n), n) };
        }
    });
}

/// The gradients of `gru`: from that of `hy`, and its operands, to `[gates of the input, gates of the hidden state, hx]`.
///
/// # Safety
/// Same as for `gru`.
pub unsafe fn gru_back<T: Float>(
    rows: usize,
    n: usize,
    [grad, input, hidden, hx]: [*const T; 4],
    [to_input, to_hidden, to_hx]: [*mut T; 3],
) {
    let [grad, input, hidden, hx] = [grad, input, hidden, hx].map(|operand| Address(operand.cast_mut()));
    let [to_input, to_hidden, to_hx] = [to_input, to_hidden, to_hx].map(Address);
    rushlight_par::parallel_for(rows, TASK.div_ceil(n.max(1)), |range| {
        for row in range {
            let (first, gates) = (row * n, row * 3 * n);
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                let from = [grad.at(first), input.at(gates), hidden.at(gates), hx.at(first)].map(<*mut T>::cast_const);
                gru_row_back(from, [to_input.at(gates), to_hidden.at(gates), to_hx.at(first)], n);
            }
        }
    });
}

multiversion! {
    /// # Safety
    /// Four times `n` gates, and `n` elements elsewhere.
    unsafe fn lstm_row<S, T: Float>(gates: *const T, cx: *const T, hy: *mut T, cy: *mut T, n: usize) {
        for j in 0..n {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                let gate = |k: usize| *gates.add(k * n + j);
                let kept = S::sigmoid(gate(1)) * *cx.add(j);
                let cell = kept + S::sigmoid(gate(0)) * S::tanh(gate(2));
                cy.add(j).write(cell);
                hy.add(j).write(S::sigmoid(gate(3)) * S::tanh(cell));
            }
        }
    }
}

multiversion! {
    /// # Safety
    /// Four times `n` gates, and `n` elements elsewhere.
    unsafe fn lstm_row_back<S, T: Float>(from: [*const T; 5], to: [*mut T; 2], n: usize) {
        let one = <T as Float>::narrow(1.0);
        for j in 0..n {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                let gate = |k: usize| *from[2].add(k * n + j);
                let (i, f) = (S::sigmoid(gate(0)), S::sigmoid(gate(1)));
                let (g, o) = (S::tanh(gate(2)), S::sigmoid(gate(3)));
                let (to_hy, bent) = (*from[0].add(j), S::tanh(*from[4].add(j)));
                let to_cy = *from[1].add(j) + to_hy * o * (one - bent * bent);
                let gates = [
                    to_cy * g * (i * (one - i)),
                    to_cy * *from[3].add(j) * (f * (one - f)),
                    to_cy * i * (one - g * g),
                    to_hy * bent * (o * (one - o)),
                ];
                for (k, gate) in gates.into_iter().enumerate() {
                    to[0].add(k * n + j).write(gate);
                }
                to[1].add(j).write(to_cy * f);
            }
        }
    }
}

multiversion! {
    /// # Safety
    /// Three times `n` gates of each kind, and `n` elements elsewhere.
    unsafe fn gru_row<S, T: Float>(input: *const T, hidden: *const T, hx: *const T, hy: *mut T, n: usize) {
        for j in 0..n {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                let (x, h) = (|k: usize| *input.add(k * n + j), |k: usize| *hidden.add(k * n + j));
                let r = S::sigmoid(x(0) + h(0));
                let z = S::sigmoid(x(1) + h(1));
                let new_gate = S::tanh(x(2) + r * h(2));
                hy.add(j).write((*hx.add(j) - new_gate) * z + new_gate);
            }
        }
    }
}

multiversion! {
    /// # Safety
    /// Three times `n` gates of each kind, and `n` elements elsewhere.
    unsafe fn gru_row_back<S, T: Float>(from: [*const T; 4], to: [*mut T; 3], n: usize) {
        let one = <T as Float>::narrow(1.0);
        for j in 0..n {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                let (x, h) = (|k: usize| *from[1].add(k * n + j), |k: usize| *from[2].add(k * n + j));
                let (grad, hx) = (*from[0].add(j), *from[3].add(j));
                let r = S::sigmoid(x(0) + h(0));
                let z = S::sigmoid(x(1) + h(1));
                let new_gate = S::tanh(x(2) + r * h(2));
                let to_new_gate = grad * (one - z) * (one - new_gate * new_gate);
                let to_z = grad * (hx - new_gate) * (z * (one - z));
                let to_r = to_new_gate * h(2) * (r * (one - r));
                for (k, gate) in [to_r, to_z, to_new_gate].into_iter().enumerate() {
                    to[0].add(k * n + j).write(gate);
                }
                for (k, gate) in [to_r, to_z, to_new_gate * r].into_iter().enumerate() {
                    to[1].add(k * n + j).write(gate);
                }
                to[2].add(j).write(grad * z);
            }
        }
    }
}
