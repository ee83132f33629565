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

/// The gradients of `lstm`: from those of output and next state, its operands and the next state, to `[gates, state]`.
///
/// # Safety
/// Same as for `lstm`.
pub unsafe fn lstm_back<T: Float>(rows: usize, n: usize, from: [*const T; 5], [to_gates, to_state]: [*mut T; 2]) {
    let [grad, carried, gates, state, next] = from.map(|operand| Address(operand.cast_mut()));
    let [to_gates, to_state] = [to_gates, to_state].map(Address);
    rushlight_par::parallel_for(rows, TASK.div_ceil(n.max(1)), |range| {
        for row in range {
            let (first, wide) = (row * n, row * 4 * n);
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                let from = [grad.at(first), carried.at(first), gates.at(wide), state.at(first), next.at(first)];
                lstm_row_back(from.map(<*mut T>::cast_const), [to_gates.at(wide), to_state.at(first)], n);
            }
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

/// The gradients of `gru`: from that of the next state, and its operands, to `[gates of the input, gates of the state, state]`.
///
/// # Safety
/// Same as for `gru`.
pub unsafe fn gru_back<T: Float>(
    rows: usize,
    n: usize,
    [grad, input, own, state]: [*const T; 4],
    [to_input, to_own, to_state]: [*mut T; 3],
) {
    let [grad, input, own, state] = [grad, input, own, state].map(|operand| Address(operand.cast_mut()));
    let [to_input, to_own, to_state] = [to_input, to_own, to_state].map(Address);
    rushlight_par::parallel_for(rows, TASK.div_ceil(n.max(1)), |range| {
        for row in range {
            let (first, gates) = (row * n, row * 3 * n);
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                let from = [grad.at(first), input.at(gates), own.at(gates), state.at(first)].map(<*mut T>::cast_const);
                gru_row_back(from, [to_input.at(gates), to_own.at(gates), to_state.at(first)], n);
            }
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
    /// Four times `n` gates, and `n` elements elsewhere.
    unsafe fn lstm_row_back<S, T: Float>(from: [*const T; 5], to: [*mut T; 2], n: usize) {
        let one = <T as Float>::narrow(1.0);
        for j in 0..n {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                let gate = |k: usize| *from[2].add(k * n + j);
                let (enter, keep) = (S::sigmoid(gate(0)), S::sigmoid(gate(1)));
                let (fresh, leave) = (S::tanh(gate(2)), S::sigmoid(gate(3)));
                let (output, bent) = (*from[0].add(j), S::tanh(*from[4].add(j)));
                let state = *from[1].add(j) + output * leave * (one - bent * bent);
                let gates = [
                    state * fresh * (enter * (one - enter)),
                    state * *from[3].add(j) * (keep * (one - keep)),
                    state * enter * (one - fresh * fresh),
                    output * bent * (leave * (one - leave)),
                ];
                for (k, gate) in gates.into_iter().enumerate() {
                    to[0].add(k * n + j).write(gate);
                }
                to[1].add(j).write(state * keep);
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

multiversion! {
    /// # Safety
    /// Three times `n` gates of each kind, and `n` elements elsewhere.
    unsafe fn gru_row_back<S, T: Float>(from: [*const T; 4], to: [*mut T; 3], n: usize) {
        let one = <T as Float>::narrow(1.0);
        for j in 0..n {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                let (x, h) = (|k: usize| *from[1].add(k * n + j), |k: usize| *from[2].add(k * n + j));
                let (grad, state) = (*from[0].add(j), *from[3].add(j));
                let reset = S::sigmoid(x(0) + h(0));
                let update = S::sigmoid(x(1) + h(1));
                let new = S::tanh(x(2) + reset * h(2));
                let to_new = grad * (one - update) * (one - new * new);
                let to_update = grad * (state - new) * (update * (one - update));
                let to_reset = to_new * h(2) * (reset * (one - reset));
                for (k, gate) in [to_reset, to_update, to_new].into_iter().enumerate() {
                    to[0].add(k * n + j).write(gate);
                }
                for (k, gate) in [to_reset, to_update, to_new * reset].into_iter().enumerate() {
                    to[1].add(k * n + j).write(gate);
                }
                to[2].add(j).write(grad * update);
            }
        }
    }
}
