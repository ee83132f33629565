// Pooling: one value for each window of a plane, and the values of the windows that an element lies in. Planes are row-major; `I`
// is an integer that counts all elements. See `pool.rs`.
//
// Every result is computed by one thread, in the order of the CPU's loops.

#pragma once

#include "geometry.cuh"
#include "integers.cuh"
#include "tiles.cuh"

namespace rushlight {

/// Windows along one dimension, as in `rust/core/src/window.rs`. If they have no size, they cover the input evenly.
struct PoolAxis {
    i64 input, output, kernel, stride, padding, dilation;
};
struct PoolAxes {
    PoolAxis at[3];
};

/// A range of elements, and their distance; or a range of windows.
template <class I> struct Range {
    I first, end, step;
    DEVICE bool empty() const { return first >= end; }
};

template <class I> DEVICE I smaller_of(I x, I y) { return x < y ? x : y; }

/// The elements that a window reads.
template <class I> DEVICE Range<I> elements_of(const PoolAxis& axis, I window) {
    const I input = I(axis.input), padding = I(axis.padding), dilation = I(axis.dilation);
    if (axis.kernel == 0) {
        const I output = I(axis.output);
        return {window * input / output, ((window + 1) * input + output - 1) / output, 1};
    }
    const I start = window * I(axis.stride) - padding, end = start + I(axis.kernel) * dilation;
    const I skipped = start < 0 ? (dilation - 1 - start) / dilation : 0;
    return {start + skipped * dilation, smaller_of(end > 0 ? end : 0, input), dilation};
}

/// The windows that an element may lie in: all of them, if their elements are adjacent.
template <class I> DEVICE Range<I> windows_of(const PoolAxis& axis, I element) {
    const I output = I(axis.output);
    if (axis.kernel == 0) {
        const I input = I(axis.input);
        return {element * output / input, smaller_of(((element + 1) * output + input - 1) / input, output), 1};
    }
    const I stride = I(axis.stride), last = element + I(axis.padding);
    const I before = last - (I(axis.kernel) - 1) * I(axis.dilation);
    return {before > 0 ? (before + stride - 1) / stride : 0, smaller_of(last / stride + 1, output), 1};
}

/// The length of a window in the divisor of a mean.
template <class I> DEVICE I length_of(const PoolAxis& axis, I window, const Range<I>& elements, bool with_padding) {
    if (!with_padding || axis.kernel == 0) {
        return elements.end - elements.first;
    }
    const I start = window * I(axis.stride) - I(axis.padding);
    return smaller_of(start + I(axis.kernel), I(axis.input + axis.padding)) - start;
}

/// A place in a volume of the size of the inputs, or of the outputs.
template <class I> struct Volume {
    I plane, at[3];
    DEVICE Volume(I element, I height, I width, I area) : plane(element / area) {
        const I within = element % area, row = within / width;
        at[0] = row / height;
        at[1] = row % height;
        at[2] = within % width;
    }
};
template <class I> DEVICE I area_of_input(const PoolAxes& axes) {
    return I(axes.at[0].input) * I(axes.at[1].input) * I(axes.at[2].input);
}
template <class I> DEVICE I area_of_output(const PoolAxes& axes) {
    return I(axes.at[0].output) * I(axes.at[1].output) * I(axes.at[2].output);
}
template <class I> DEVICE Volume<I> place_of_input(const PoolAxes& axes, I element) {
    return Volume<I>(element, I(axes.at[1].input), I(axes.at[2].input), area_of_input<I>(axes));
}
template <class I> DEVICE Volume<I> place_of_output(const PoolAxes& axes, I element) {
    return Volume<I>(element, I(axes.at[1].output), I(axes.at[2].output), area_of_output<I>(axes));
}

/// The greatest element of a window and its index in the plane. NaN is greater than all; of equal elements the first wins, of
/// several NaN the last. A window that reads nothing has the value `nothing`.
template <class T, class C, class I>
DEVICE void greatest(const T* plane, T* output, i64* place, I height, I width, const Range<I>& z, const Range<I>& y,
                     const Range<I>& x, const T& nothing) {
    I best = (z.first * height + y.first) * width + x.first;
    if (z.empty() || y.empty() || x.empty()) {
        *output = nothing;
        *place = best;
        return;
    }
    T found = plane[best];
    C most = convert<C>(found);
    for (I i = z.first; i < z.end; i += z.step) {
        for (I j = y.first; j < y.end; j += y.step) {
            const I row = (i * height + j) * width;
            for (I k = x.first; k < x.end; k += x.step) {
                const T own = plane[row + k];
                const C value = convert<C>(own);
                if (value > most || value != value) {
                    found = own;
                    most = value;
                    best = row + k;
                }
            }
        }
    }
    *output = found;
    *place = best;
}

/// The greatest element of each window.
template <class T, class C, class I>
DEVICE void pool_max(const T* input, T* output, i64* places, u64 count, const PoolAxes& axes, const T& nothing) {
    const I height = I(axes.at[1].input), width = I(axes.at[2].input), area = area_of_input<I>(axes);
    for (u64 element = first_element(); element < count; element += element_step()) {
        const Volume<I> window = place_of_output(axes, I(element));
        const Range<I> z = elements_of(axes.at[0], window.at[0]), y = elements_of(axes.at[1], window.at[1]);
        const Range<I> x = elements_of(axes.at[2], window.at[2]);
        const T* const plane = input + window.plane * area;
        greatest<T, C, I>(plane, output + element, places + element, height, width, z, y, x, nothing);
    }
}

/// The elements of a window at a random distance from the one before: evenly spaced on average, the last one at the end. `C` is the
/// type of the sample, which is from 0 to 1.
template <class C, class I> DEVICE Range<I> random_elements_of(const PoolAxis& axis, I window, C sample) {
    I first = I(axis.input - axis.kernel);
    if (window + 1 != I(axis.output)) {
        const C alpha = C(first) / C(I(axis.output) - 1);
        const I start = cast<I>((C(window) + sample) * alpha) - cast<I>(sample * alpha);
        first = start < 0 ? 0 : smaller_of(start, first);
    }
    return {first, first + I(axis.kernel), 1};
}

/// The greatest element of each window of random ones, from `dims` samples for each plane. Those of an image are for its width and its
/// height, in this order.
template <class T, class C, class I>
DEVICE void pool_random(const T* input, T* output, i64* places, u64 count, const PoolAxes& axes, const C* samples, u32 dims) {
    const I height = I(axes.at[1].input), width = I(axes.at[2].input), area = area_of_input<I>(axes);
    for (u64 element = first_element(); element < count; element += element_step()) {
        const Volume<I> window = place_of_output(axes, I(element));
        Range<I> at[3] = {{0, 1, 1}, {0, 1, 1}, {0, 1, 1}};
        for (u32 dim = 0; dim < dims; dim++) {
            const u32 axis = 3 - dims + dim;
            const C sample = samples[u64(window.plane) * dims + (dims == 2 ? 1 - dim : dim)];
            at[axis] = random_elements_of(axes.at[axis], window.at[axis], sample);
        }
        const T* const plane = input + window.plane * area;
        greatest<T, C, I>(plane, output + element, places + element, height, width, at[0], at[1], at[2], plane[0]);
    }
}

/// The sum, for each element of the planes, of the values whose places it is.
template <class T, class C, class I>
DEVICE void pool_max_backward(T* output, const T* values, const i64* places, u64 count, const PoolAxes& axes) {
    const I height = I(axes.at[1].output), width = I(axes.at[2].output);
    const I area = area_of_input<I>(axes), windows = area_of_output<I>(axes);
    for (u64 element = first_element(); element < count; element += element_step()) {
        const Volume<I> place = place_of_input(axes, I(element));
        const Range<I> z = windows_of(axes.at[0], place.at[0]), y = windows_of(axes.at[1], place.at[1]);
        const Range<I> x = windows_of(axes.at[2], place.at[2]);
        const i64 own = i64(I(element) - place.plane * area);
        C sum = C();
        for (I i = z.first; i < z.end; i++) {
            for (I j = y.first; j < y.end; j++) {
                const I row = place.plane * windows + (i * height + j) * width;
                for (I k = x.first; k < x.end; k++) {
                    if (places[row + k] == own) {
                        sum = plus(sum, convert<C>(values[row + k]));
                    }
                }
            }
        }
        output[element] = convert<T>(sum);
    }
}

/// What means are divided by: a number, or the length of the window.
struct Divisor {
    i64 given;
    u32 is_given, with_padding;
};

template <class C> DEVICE C divided(C x, i64 by) {
    if constexpr (floating<C>) {
        return x / C(by);
    } else {
        return trunc_div(x, C(by));
    }
}

template <class I> struct MeanWindow {
    Range<I> elements;
    I length;
    DEVICE MeanWindow(const PoolAxis& axis, I window, bool with_padding)
        : elements(elements_of(axis, window)), length(length_of(axis, window, elements, with_padding)) {}
};

template <class T, class C, class I>
DEVICE void pool_mean(const T* input, T* output, u64 count, const PoolAxes& axes, const Divisor& divisor) {
    const I height = I(axes.at[1].input), width = I(axes.at[2].input), area = area_of_input<I>(axes);
    for (u64 element = first_element(); element < count; element += element_step()) {
        const Volume<I> window = place_of_output(axes, I(element));
        const MeanWindow<I> z(axes.at[0], window.at[0], divisor.with_padding), y(axes.at[1], window.at[1], divisor.with_padding);
        const MeanWindow<I> x(axes.at[2], window.at[2], divisor.with_padding);
        const T* const plane = input + window.plane * area;
        C sum = C();
        for (I i = z.elements.first; i < z.elements.end; i++) {
            for (I j = y.elements.first; j < y.elements.end; j++) {
                const I row = (i * height + j) * width;
                for (I k = x.elements.first; k < x.elements.end; k++) {
                    sum = plus(sum, convert<C>(plane[row + k]));
                }
            }
        }
        const i64 by = divisor.is_given ? divisor.given : i64(z.length) * i64(y.length) * i64(x.length);
        output[element] = convert<T>(divided(sum, by));
    }
}

/// The sum, for each element of the planes, of its shares of the windows that it lies in.
template <class T, class C, class I>
DEVICE void pool_mean_backward(T* output, const T* values, u64 count, const PoolAxes& axes, const Divisor& divisor) {
    const I height = I(axes.at[1].output), width = I(axes.at[2].output), windows = area_of_output<I>(axes);
    for (u64 element = first_element(); element < count; element += element_step()) {
        const Volume<I> place = place_of_input(axes, I(element));
        const Range<I> z = windows_of(axes.at[0], place.at[0]), y = windows_of(axes.at[1], place.at[1]);
        const Range<I> x = windows_of(axes.at[2], place.at[2]);
        C sum = C();
        for (I i = z.first; i < z.end; i++) {
            const i64 depth = MeanWindow<I>(axes.at[0], i, divisor.with_padding).length;
            for (I j = y.first; j < y.end; j++) {
                const i64 face = depth * i64(MeanWindow<I>(axes.at[1], j, divisor.with_padding).length);
                const I row = place.plane * windows + (i * height + j) * width;
                for (I k = x.first; k < x.end; k++) {
                    const i64 size = face * i64(MeanWindow<I>(axes.at[2], k, divisor.with_padding).length);
                    sum = plus(sum, divided(convert<C>(values[row + k]), divisor.is_given ? divisor.given : size));
                }
            }
        }
        output[element] = convert<T>(sum);
    }
}

/// Finds for each element of planes of `area` elements the last of `pixels` values that has its index; `last` counts values from
/// one and begins as zeros. `outside` becomes the first position whose index is out of range.
DEVICE void find_last(u64* last, const i64* places, u64 count, u64 pixels, u64 area, u64* outside) {
    for (u64 element = first_element(); element < count; element += element_step()) {
        const i64 place = places[element];
        if (place < 0 || u64(place) >= area) {
            report(outside, element);
        } else {
            atomicMax(last + element / pixels * area + u64(place), element % pixels + 1);
        }
    }
}

/// Writes the values that `find_last` found, and zeros elsewhere.
template <class T> DEVICE void put_last(T* output, const T* values, const u64* last, u64 count, u64 pixels, u64 area) {
    for (u64 element = first_element(); element < count; element += element_step()) {
        output[element] = last[element] ? values[element / area * pixels + last[element] - 1] : T();
    }
}

} // namespace rushlight
