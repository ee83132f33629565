// Steps of optimizers: the formulas of the host (`rushlight_cpu::fused`), for elements that lie in the same order. Numbers are computed
// by the host. See `optimizer.rs`.

#pragma once

#include "elementary.cuh"
#include "geometry.cuh"

namespace rushlight {

enum Sgd { RATE, DECAY, MOMENTUM, SHARE };
enum { MAXIMIZES = 1, DECAYS = 2, FIRST_STEP = 4, NESTEROV = 8 };

template <class T, class A>
DEVICE void sgd(T* param, const T* grad, T* buffer, u64 count, const Numbers& numbers, u32 flags) {
    const A rate = number<A>(numbers, RATE), decay = number<A>(numbers, DECAY);
    const A momentum = number<A>(numbers, MOMENTUM), share = number<A>(numbers, SHARE);
    for (u64 at = first_element(); at < count; at += element_step()) {
        const A own = convert<A>(load<T>(param + at)), given = convert<A>(load<T>(grad + at));
        A step = flags & MAXIMIZES ? -given : given;
        if (flags & DECAYS) {
            step = step + own * decay;
        }
        if (buffer) {
            const A direction = flags & FIRST_STEP ? step : convert<A>(load<T>(buffer + at)) * momentum + step * share;
            store<T>(buffer + at, direction);
            step = flags & NESTEROV ? step + direction * momentum : direction;
        }
        store<T>(param + at, own + step * rate);
    }
}

enum Adam { FACTOR, GRADIENT_DECAY, BETA1, SHARE1, BETA2, SHARE2, ROOT, EPS, ADAM_RATE };

template <class T, class A>
DEVICE void adam(T* param, const T* grad, T* mean, T* square, T* largest, u64 count, const Numbers& numbers, u32 flags) {
    const A factor = number<A>(numbers, FACTOR), decay = number<A>(numbers, GRADIENT_DECAY);
    const A beta1 = number<A>(numbers, BETA1), share1 = number<A>(numbers, SHARE1);
    const A beta2 = number<A>(numbers, BETA2), share2 = number<A>(numbers, SHARE2);
    const A root = number<A>(numbers, ROOT), eps = number<A>(numbers, EPS), rate = number<A>(numbers, ADAM_RATE);
    for (u64 at = first_element(); at < count; at += element_step()) {
        A own = convert<A>(load<T>(param + at));
        const A given = convert<A>(load<T>(grad + at)), before = convert<A>(load<T>(mean + at));
        A step = flags & MAXIMIZES ? -given : given;
        if (flags & DECAYS) {
            step = step + own * decay;
        }
        own = own * factor;
        // torch's `lerp` starts from the nearer end.
        const A average = share1 < A(0.5) ? before + (step - before) * share1 : step - (step - before) * beta1;
        A spread = convert<A>(load<T>(square + at)) * beta2 + step * share2 * step;
        store<T>(mean + at, average);
        store<T>(square + at, spread);
        if (largest) {
            // NaN wins.
            const A most = convert<A>(load<T>(largest + at));
            spread = most > spread || most != most ? most : spread;
            store<T>(largest + at, spread);
        }
        store<T>(param + at, own + average / (sqrt(spread) / root + eps) * rate);
    }
}

} // namespace rushlight
