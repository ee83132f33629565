// The negative log-likelihood of target classes, for scores in memory of `(n, classes, spots)`. See `nll.rs`.

#pragma once

#include "geometry.cuh"

namespace rushlight {

/// The targets `(n, spots)`, and the weights of the classes, if there are any. `ignored` is the target that counts nothing.
template <class T> struct NllTargets {
    const i64* targets;
    const T* weights;
    u64 count, classes, spots;
    i64 ignored;
};

/// Losses and weights of all targets. `outside` becomes the first position whose target is no class; see `report`.
template <class T, class C>
DEVICE void nll_losses(const T* scores, C* losses, C* weights, const NllTargets<T>& own, u64* outside) {
    for (u64 at = first_element(); at < own.count; at += element_step()) {
        const i64 target = own.targets[at];
        C loss = C(0), weight = C(0);
        if (target != own.ignored) {
            if (u64(target) < own.classes) {
                weight = own.weights ? convert<C>(own.weights[target]) : C(1);
                loss = convert<C>(scores[(at / own.spots * own.classes + target) * own.spots + at % own.spots]) * -weight;
            } else {
                report(outside, at);
            }
        }
        losses[at] = loss;
        weights[at] = weight;
    }
}

/// The gradients of all scores, from one for each target or one for all, over the sum of the weights if there is one. A target that
/// is no class has none: the losses have reported it.
template <class T, class C>
DEVICE void nll_gradients(T* out, const C* grads, u32 each, const C* total, const NllTargets<T>& own) {
    const u64 count = own.count * own.classes;
    for (u64 element = first_element(); element < count; element += element_step()) {
        const u64 row = element / own.spots, at = row / own.classes * own.spots + element % own.spots;
        const i64 place = row % own.classes;
        C value = C(0);
        if (own.targets[at] == place && place != own.ignored) {
            const C grad = grads[each ? at : 0];
            value = (total ? grad / *total : grad) * -(own.weights ? convert<C>(own.weights[place]) : C(1));
        }
        out[element] = convert<T>(value);
    }
}

} // namespace rushlight
