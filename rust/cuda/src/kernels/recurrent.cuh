// Steps of recurrent networks after the products with their weights, as in `rust/cpu/src/nn/recurrent`. All tensors are row-major;
// gates are rows of several parts of `n` elements. See `recurrent.rs`.

#pragma once

#include "elementary.cuh"
#include "geometry.cuh"

namespace rushlight {

/// Gates are input, forget, cell, output.
template <class T, class C>
DEVICE void lstm_gates(const T* gates, const T* state, T* out, T* next, u64 count, u64 n) {
    for (u64 at = first_element(); at < count; at += element_step()) {
        const T* const own = gates + at / n * 4 * n + at % n;
        const C kept = sigmoid(convert<C>(own[n])) * convert<C>(state[at]);
        const C now = kept + sigmoid(convert<C>(own[0])) * tanh(convert<C>(own[2 * n]));
        next[at] = convert<T>(now);
        out[at] = convert<T>(sigmoid(convert<C>(own[3 * n])) * tanh(now));
    }
}

/// The gradients of `lstm_gates`, of the gates and the state, from those of its results, its operands and the next state.
template <class T, class C>
DEVICE void lstm_gates_back(const T* grad, const T* carried, const T* gates, const T* before, const T* next, T* to_gates,
                            T* to_state, u64 count, u64 n) {
    for (u64 at = first_element(); at < count; at += element_step()) {
        const u64 first = at / n * 4 * n + at % n;
        const T* const own = gates + first;
        const C enter = sigmoid(convert<C>(own[0])), keep = sigmoid(convert<C>(own[n])), one = C(1);
        const C fresh = tanh(convert<C>(own[2 * n])), leave = sigmoid(convert<C>(own[3 * n]));
        const C output = convert<C>(grad[at]), bent = tanh(convert<C>(next[at]));
        const C state = convert<C>(carried[at]) + output * leave * (one - bent * bent);
        to_gates[first] = convert<T>(state * fresh * (enter * (one - enter)));
        to_gates[first + n] = convert<T>(state * convert<C>(before[at]) * (keep * (one - keep)));
        to_gates[first + 2 * n] = convert<T>(state * enter * (one - fresh * fresh));
        to_gates[first + 3 * n] = convert<T>(output * bent * (leave * (one - leave)));
        to_state[at] = convert<T>(state * keep);
    }
}

/// Gates are reset, update, new.
template <class T, class C>
DEVICE void gru_gates(const T* input, const T* hidden, const T* state, T* next, u64 count, u64 n) {
    for (u64 at = first_element(); at < count; at += element_step()) {
        const u64 first = at / n * 3 * n + at % n;
        const T *const x = input + first, *const h = hidden + first;
        const C reset = sigmoid(convert<C>(x[0]) + convert<C>(h[0]));
        const C update = sigmoid(convert<C>(x[n]) + convert<C>(h[n]));
        const C fresh = tanh(convert<C>(x[2 * n]) + reset * convert<C>(h[2 * n]));
        next[at] = convert<T>((convert<C>(state[at]) - fresh) * update + fresh);
    }
}

/// The gradients of `gru_gates`: of the gates of input and state, and of the state.
template <class T, class C>
DEVICE void gru_gates_back(const T* grad, const T* input, const T* hidden, const T* state, T* to_input, T* to_hidden, T* to_state,
                           u64 count, u64 n) {
    for (u64 at = first_element(); at < count; at += element_step()) {
        const u64 first = at / n * 3 * n + at % n;
        const T *const x = input + first, *const h = hidden + first;
        const C given = convert<C>(grad[at]), own = convert<C>(h[2 * n]), one = C(1);
        const C reset = sigmoid(convert<C>(x[0]) + convert<C>(h[0]));
        const C update = sigmoid(convert<C>(x[n]) + convert<C>(h[n]));
        const C fresh = tanh(convert<C>(x[2 * n]) + reset * own);
        const C to_fresh = given * (one - update) * (one - fresh * fresh);
        const C to_update = given * (convert<C>(state[at]) - fresh) * (update * (one - update));
        const C to_reset = to_fresh * own * (reset * (one - reset));
        to_input[first] = to_hidden[first] = convert<T>(to_reset);
        to_input[first + n] = to_hidden[first + n] = convert<T>(to_update);
        to_input[first + 2 * n] = convert<T>(to_fresh);
        to_hidden[first + 2 * n] = convert<T>(to_fresh * reset);
        to_state[at] = convert<T>(given * update);
    }
}

/// A step that keeps the activated gates, in place of the sums.
template <class T, class C> DEVICE void lstm_step(T* gates, const T* before, T* out, T* cell, u64 count, u64 n) {
    for (u64 at = first_element(); at < count; at += element_step()) {
        T* const own = gates + at / n * 4 * n + at % n;
        const C enter = sigmoid(convert<C>(own[0])), keep = sigmoid(convert<C>(own[n]));
        const C fresh = tanh(convert<C>(own[2 * n])), leave = sigmoid(convert<C>(own[3 * n]));
        const C now = keep * convert<C>(before[at]) + enter * fresh;
        own[0] = convert<T>(enter);
        own[n] = convert<T>(keep);
        own[2 * n] = convert<T>(fresh);
        own[3 * n] = convert<T>(leave);
        cell[at] = convert<T>(now);
        out[at] = convert<T>(leave * tanh(now));
    }
}

/// What a step's gradient reads. The gradient of the cell from outside may be missing.
template <class T> struct LstmStep {
    const T *gates, *before, *cell, *grad_output, *grad_cell;
};

/// The gradients of the sums, and of the cell before in place of that of the cell after.
template <class T, class C> DEVICE void lstm_step_back(const LstmStep<T>& step, T* to_sums, T* to_cell, u64 count, u64 n) {
    for (u64 at = first_element(); at < count; at += element_step()) {
        const u64 first = at / n * 4 * n + at % n;
        const T* const own = step.gates + first;
        const C enter = convert<C>(own[0]), keep = convert<C>(own[n]), fresh = convert<C>(own[2 * n]);
        const C leave = convert<C>(own[3 * n]), one = C(1);
        const C bent = tanh(convert<C>(step.cell[at])), output = convert<C>(step.grad_output[at]);
        const C given = step.grad_cell ? convert<C>(step.grad_cell[at]) : C(0);
        const C state = convert<C>(to_cell[at]) + given + output * leave * (one - bent * bent);
        to_sums[first] = convert<T>(state * fresh * enter * (one - enter));
        to_sums[first + n] = convert<T>(state * convert<C>(step.before[at]) * keep * (one - keep));
        to_sums[first + 2 * n] = convert<T>(state * enter * (one - fresh * fresh));
        to_sums[first + 3 * n] = convert<T>(output * bent * leave * (one - leave));
        to_cell[at] = convert<T>(state * keep);
    }
}

} // namespace rushlight
