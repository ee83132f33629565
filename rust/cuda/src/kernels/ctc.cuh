// Connectionist temporal classification: sums over the paths of labellings, and their gradients. See `ctc.rs`.
//
// Each sum has the order and the rounding of the CPU's (`rust/cpu/src/nn/ctc.rs`), so that both give the same numbers.

#pragma once

#include "geometry.cuh"
#include "platform.cuh"

namespace rushlight {

/// One sequence: its labels, of which the first is at the position `start`, and how many steps and labels it has.
struct CtcSequence {
    const i64* labels;
    u64 start, steps, count, classes;
    i64 blank;

    /// The number of positions of the labelling with its blanks.
    DEVICE u64 places() const { return 2 * count + 1; }
    /// A label that is no class counts as a blank: the losses have reported it.
    DEVICE i64 label(u64 place) const {
        const i64 own = place % 2 ? labels[start + place / 2] : blank;
        return u64(own) < classes ? own : blank;
    }
    /// Whether a path may reach this position from two positions before.
    DEVICE bool skips(u64 place) const { return place > 1 && place % 2 == 1 && label(place) != label(place - 2); }
};

/// A batch: all labels, three rows with where those of each sequence begin, its steps and its labels, and the sizes of logarithms
/// `(time, items, classes)` and of sums `(items, time, width)`.
struct CtcBatch {
    const i64 *labels, *bounds;
    u64 time, items, classes, width;
    i64 blank;

    DEVICE CtcSequence sequence(u64 item) const {
        return {labels, u64(bounds[item]), u64(bounds[items + item]), u64(bounds[2 * items + item]), classes, blank};
    }
    /// The place of a logarithm, and of the sums of a step.
    DEVICE u64 at(u64 step, u64 item, u64 label) const { return (step * items + item) * classes + label; }
    DEVICE u64 row(u64 item, u64 step) const { return (item * time + step) * width; }
};

/// The logarithm of the sum of exponentials.
template <class T> DEVICE T sum_of_paths(T a, T b, T c) {
    const f64 x = a, y = b, z = c;
    f64 top = x > neg_infinity<f64>() ? x : neg_infinity<f64>();
    top = y > top ? y : top;
    top = z > top ? z : top;
    if (top == neg_infinity<f64>()) {
        return T(top);
    }
    return T(libm::ln(libm::exp(x - top) + libm::exp(y - top) + libm::exp(z - top)) + top);
}

template <class T> DEVICE T ctc_exp(T x) { return T(libm::exp(f64(x))); }

/// The sums over paths from the start, for each step and position, and the losses; a block for each sequence. `outside` becomes the
/// first position of a label that is no class; see `report`.
template <class T> DEVICE void ctc_losses(const T* logs, T* losses, T* alphas, const CtcBatch& batch, u64* outside) {
    const T lowest = neg_infinity<T>();
    for (u64 item = blockIdx.x; item < batch.items; item += gridDim.x) {
        const CtcSequence own = batch.sequence(item);
        for (u64 at = own.start + threadIdx.x; at < own.start + own.count; at += THREADS) {
            if (u64(batch.labels[at]) >= batch.classes) {
                report(outside, at);
            }
        }
        for (u64 step = 0; step < batch.time; step++) {
            T* const now = alphas + batch.row(item, step);
            const T* const before = now - batch.width;
            for (u64 place = threadIdx.x; place < batch.width; place += THREADS) {
                T sum = lowest;
                if (step < own.steps && place < own.places()) {
                    const T log = logs[batch.at(step, item, own.label(place))];
                    if (step > 0) {
                        const T next = place > 0 ? before[place - 1] : lowest;
                        sum = sum_of_paths(before[place], next, own.skips(place) ? before[place - 2] : lowest) + log;
                    } else if (place < 2) {
                        sum = log;
                    }
                }
                now[place] = sum;
            }
            __syncthreads();
        }
        if (threadIdx.x == 0) {
            T loss = own.count ? infinity<T>() : T(0);
            if (own.steps) {
                const T* const last = alphas + batch.row(item, own.steps - 1);
                const u64 end = own.places() - 1;
                loss = T(0) - sum_of_paths(last[end], end ? last[end - 1] : lowest, lowest);
            }
            losses[item] = loss;
        }
    }
}

/// The sums over paths to the end, for each step and position of a sequence; a block for each sequence.
template <class T> DEVICE void ctc_betas(const T* logs, T* betas, const CtcBatch& batch) {
    const T lowest = neg_infinity<T>();
    for (u64 item = blockIdx.x; item < batch.items; item += gridDim.x) {
        const CtcSequence own = batch.sequence(item);
        const u64 end = own.places() - 1;
        for (u64 step = own.steps; step-- > 0;) {
            T* const now = betas + batch.row(item, step);
            const T* const later = now + batch.width;
            for (u64 place = threadIdx.x; place <= end; place += THREADS) {
                T onward = place + 1 >= end ? T(0) : lowest;
                if (step + 1 < own.steps) {
                    const T next = place < end ? later[place + 1] : lowest;
                    const bool skips = place + 2 <= end && own.skips(place + 2);
                    onward = sum_of_paths(later[place], next, skips ? later[place + 2] : lowest);
                }
                now[place] = onward + logs[batch.at(step, item, own.label(place))];
            }
            __syncthreads();
        }
    }
}

/// The gradient of a logarithm, from the sum over the paths through its class at its step.
template <class T> DEVICE T ctc_slope(T log, T paths, T loss, T grad) {
    return (ctc_exp(log) - ctc_exp(paths + loss - log)) * grad;
}

/// Whether a sequence has no gradient: its labelling is impossible, and counts as zero.
template <class T> DEVICE bool ctc_counts_as_zero(T loss, bool zero_infinity) { return zero_infinity && loss == infinity<T>(); }

/// The gradients of the logarithms of all classes as if no path went through them.
template <class T>
DEVICE void ctc_unlabelled(const T* logs, const T* losses, const T* grads, T* out, const CtcBatch& batch, bool zero_infinity) {
    const u64 row = batch.items * batch.classes;
    for (u64 element = first_element(); element < batch.time * row; element += element_step()) {
        const u64 item = element % row / batch.classes;
        const bool counts = element / row < batch.sequence(item).steps && !ctc_counts_as_zero(losses[item], zero_infinity);
        out[element] = counts ? ctc_slope(logs[element], neg_infinity<T>(), losses[item], grads[item]) : T(0);
    }
}

/// The gradients of the logarithms of a labelling's classes; a thread for each step and position, of which the first one of a class
/// adds all of them.
template <class T>
DEVICE void ctc_labelled(const T* logs, const T* alphas, const T* betas, const T* losses, const T* grads, T* out,
                         const CtcBatch& batch, bool zero_infinity) {
    for (u64 element = first_element(); element < batch.items * batch.time * batch.width; element += element_step()) {
        const u64 place = element % batch.width, row = element / batch.width;
        const u64 item = row / batch.time, step = row % batch.time;
        const CtcSequence own = batch.sequence(item);
        if (step >= own.steps || place >= own.places() || ctc_counts_as_zero(losses[item], zero_infinity)) {
            continue;
        }
        const i64 label = own.label(place);
        bool first = true;
        for (u64 other = 0; other < place && first; other++) {
            first = own.label(other) != label;
        }
        if (!first) {
            continue;
        }
        T paths = neg_infinity<T>();
        for (u64 other = place; other < own.places(); other++) {
            if (own.label(other) == label) {
                const u64 at = batch.row(item, step) + other;
                paths = sum_of_paths(paths, alphas[at] + betas[at], neg_infinity<T>());
            }
        }
        const u64 at = batch.at(step, item, label);
        out[at] = ctc_slope(logs[at], paths, losses[item], grads[item]);
    }
}

} // namespace rushlight
