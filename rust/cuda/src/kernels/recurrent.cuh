// Steps of recurrent networks after the products with their weights, as in `rust/cpu/src/nn/recurrent`. All tensors are row-major;
// gates are rows of several parts of `n` elements. See `recurrent.rs`.

#pragma once

#include "elementary.cuh"
#include "geometry.cuh"

namespace rushlight {

/// Gates are input, forget, cell, output.
template <class T, class C>
DEVICE void lstm_gates(const T* gates, const T* cx, T* hy, T* cy, u64 count, u64 n) {
    for (u64 at = first_element(); at < count; at += element_step()) {
        const T* const own = gates + at / n * 4 * n + at % n;
        const C kept = sigmoid(convert<C>(own[n])) * convert<C>(cx[at]);
        const C cell = kept + sigmoid(convert<C>(own[0])) * tanh(convert<C>(own[2 * n]));
        cy[at] = convert<T>(cell);
        hy[at] = convert<T>(sigmoid(convert<C>(own[3 * n])) * tanh(cell));
    }
}

/// The gradients of `lstm_gates`, of the gates and the cell state, from those of its results, its operands and the next cell state.
template <class T, class C>
DEVICE void lstm_gates_back(const T* grad_hy, const T* grad_cy, const T* gates, const T* cx, const T* cy, T* to_gates, T* to_cx,
                            u64 count, u64 n) {
    for (u64 at = first_element(); at < count; at += element_step()) {
        const u64 first = at / n * 4 * n + at % n;
        const T* const own = gates + first;
        const C i = sigmoid(convert<C>(own[0])), f = sigmoid(convert<C>(own[n])), one = C(1);
        const C g = tanh(convert<C>(own[2 * n])), o = sigmoid(convert<C>(own[3 * n]));
        const C to_hy = convert<C>(grad_hy[at]), bent = tanh(convert<C>(cy[at]));
        const C to_cy = convert<C>(grad_cy[at]) + to_hy * o * (one - bent * bent);
        to_gates[first] = convert<T>(to_cy * g * (i * (one - i)));
        to_gates[first + n] = convert<T>(to_cy * convert<C>(cx[at]) * (f * (one - f)));
        to_gates[first + 2 * n] = convert<T>(to_cy * i * (one - g * g));
        to_gates[first + 3 * n] = convert<T>(to_hy * bent * (o * (one - o)));
        to_cx[at] = convert<T>(to_cy * f);
    }
}

/// Gates are reset, update, new; the last one is `new_gate` here, since `n` is the width.
template <class T, class C>
DEVICE void gru_gates(const T* input, const T* hidden, const T* hx, T* hy, u64 count, u64 n) {
    for (u64 at = first_element(); at < count; at += element_step()) {
        const u64 first = at / n * 3 * n + at % n;
        const T *const x = input + first, *const h = hidden + first;
        const C r = sigmoid(convert<C>(x[0]) + convert<C>(h[0]));
        const C z = sigmoid(convert<C>(x[n]) + convert<C>(h[n]));
        const C new_gate = tanh(convert<C>(x[2 * n]) + r * convert<C>(h[2 * n]));
        hy[at] = convert<T>((convert<C>(hx[at]) - new_gate) * z + new_gate);
    }
}

/// The gradients of `gru_gates`: of the gates of input and hidden state, and of the hidden state.
template <class T, class C>
DEVICE void gru_gates_back(const T* grad, const T* input, const T* hidden, const T* hx, T* to_input, T* to_hidden, T* to_hx,
                           u64 count, u64 n) {
    for (u64 at = first_element(); at < count; at += element_step()) {
        const u64 first = at / n * 3 * n + at % n;
        const T *const x = input + first, *const h = hidden + first;
        const C given = convert<C>(grad[at]), own = convert<C>(h[2 * n]), one = C(1);
        const C r = sigmoid(convert<C>(x[0]) + convert<C>(h[0]));
        const C z = sigmoid(convert<C>(x[n]) + convert<C>(h[n]));
        const C new_gate = tanh(convert<C>(x[2 * n]) + r * own);
        const C to_new_gate = given * (one - z) * (one - new_gate * new_gate);
        const C to_z = given * (convert<C>(hx[at]) - new_gate) * (z * (one - z));
        const C to_r = to_new_gate * own * (r * (one - r));
        to_input[first] = to_hidden[first] = convert<T>(to_r);
        to_input[first + n] = to_hidden[first + n] = convert<T>(to_z);
        to_input[first + 2 * n] = convert<T>(to_new_gate);
        to_hidden[first + 2 * n] = convert<T>(to_new_gate * r);
        to_hx[at] = convert<T>(given * z);
    }
}

/// A step that keeps the activated gates, in place of the sums.
template <class T, class C> DEVICE void lstm_step(T* gates, const T* cx, T* hy, T* cy, u64 count, u64 n) {
    for (u64 at = first_element(); at < count; at += element_step()) {
        T* const own = gates + at / n * 4 * n + at % n;
        const C i = sigmoid(convert<C>(own[0])), f = sigmoid(convert<C>(own[n]));
        const C g = tanh(convert<C>(own[2 * n])), o = sigmoid(convert<C>(own[3 * n]));
        const C cell = f * convert<C>(cx[at]) + i * g;
        own[0] = convert<T>(i);
        own[n] = convert<T>(f);
        own[2 * n] = convert<T>(g);
        own[3 * n] = convert<T>(o);
        cy[at] = convert<T>(cell);
        hy[at] = convert<T>(o * tanh(cell));
    }
}

/// What a step's gradient reads. The gradient of `cy` from outside may be missing.
template <class T> struct LstmStep {
    const T *gates, *cx, *cy, *grad_hy, *grad_cy;
};

/// The gradients of the sums, and of `cx` in place of that of `cy`.
template <class T, class C> DEVICE void lstm_step_back(const LstmStep<T>& step, T* to_sums, T* to_cx, u64 count, u64 n) {
    for (u64 at = first_element(); at < count; at += element_step()) {
        const u64 first = at / n * 4 * n + at % n;
        const T* const own = step.gates + first;
        const C i = convert<C>(own[0]), f = convert<C>(own[n]), g = convert<C>(own[2 * n]);
        const C o = convert<C>(own[3 * n]), one = C(1);
        const C bent = tanh(convert<C>(step.cy[at])), to_hy = convert<C>(step.grad_hy[at]);
        const C given = step.grad_cy ? convert<C>(step.grad_cy[at]) : C(0);
        const C to_cy = convert<C>(to_cx[at]) + given + to_hy * o * (one - bent * bent);
        to_sums[first] = convert<T>(to_cy * g * i * (one - i));
        to_sums[first + n] = convert<T>(to_cy * convert<C>(step.cx[at]) * f * (one - f));
        to_sums[first + 2 * n] = convert<T>(to_cy * i * (one - g * g));
        to_sums[first + 3 * n] = convert<T>(to_hy * bent * o * (one - o));
        to_cx[at] = convert<T>(to_cy * f);
    }
}

} // namespace rushlight
