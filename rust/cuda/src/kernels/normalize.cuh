// Normalisation of groups of elements, and its gradients. See `normalize.rs`.
//
// A row is what has one mean and one variance. A group of threads reads a short row three times: for the mean, for the variance,
// and for the results. Long rows are divided into pieces: one kernel computes what each piece amounts to, and another one joins the
// pieces of a row, always in their order, before it writes the piece's results.

#pragma once

#include "reduce.cuh"

namespace rushlight {

/// Elements in the order of memory. A row is a group of one sample, or where samples are pooled a group of all of them.
struct View {
    u64 samples, groups, channels, run;
    u32 pooled, centred;

    DEVICE u64 rows() const { return pooled ? groups : samples * groups; }
    DEVICE u64 length() const { return pooled ? samples * run : channels * run; }
    /// Where an element of a row lies.
    DEVICE u64 offset(u64 row, u64 at) const {
        if (!pooled) {
            return row * channels * run + at;
        }
        const u64 sample = at >> 32 == 0 && run >> 32 == 0 ? u32(at) / u32(run) : at / run;
        return (sample * groups + row) * run + (at - sample * run);
    }
    /// The number of its scale and shift.
    DEVICE u64 parameter(u64 row, u64 at) const {
        if (pooled) {
            return row;
        }
        const u64 channel = run == 1 ? at : at >> 32 == 0 && run >> 32 == 0 ? u32(at) / u32(run) : at / run;
        return row % groups * channels + channel;
    }
};

/// Two sums.
template <class C> struct Sums {
    typedef Sums A;
    C first, second;
    static DEVICE Sums join(Sums a, Sums b) { return {a.first + b.first, a.second + b.second}; }
};

/// Mean and sum of the squares of deviations of some elements.
template <class C> struct Moments {
    C count, mean, squares;
    static DEVICE Moments join(Moments a, Moments b) {
        const C count = a.count + b.count, apart = b.mean - a.mean;
        return {count, a.mean + apart * (b.count / count), a.squares + b.squares + apart * apart * (a.count * b.count / count)};
    }
};

/// What is written for an element: `value` in the dtype `T` of the input.
template <class T, class C> struct Normalize {
    const View& view;
    C eps;
    const u8 *input, *grad;
    const C *weight, *bias;
    C *mean, *variance;
    u8* out;

    DEVICE C at(const u8* from, u64 row, u64 element) const {
        return convert<C>(load<T>(from + view.offset(row, element) * sizeof(T)));
    }
    DEVICE C scale(u64 row, u64 element) const { return weight ? weight[view.parameter(row, element)] : C(1); }
    DEVICE C rstd(C variance) const { return C(1) / sqrt(variance + eps); }

    /// Both sums of what a function gives for the elements of a piece, for all threads of the group.
    template <int GROUP, class Give> static DEVICE Sums<C> sums(u64 first, u64 end, const Give& give) {
        constexpr int DEEP = 4;
        Sums<C> totals[DEEP] = {};
        u64 element = first + threadIdx.x % GROUP;
        for (; element + (DEEP - 1) * GROUP < end; element += DEEP * GROUP) {
            for (int turn = 0; turn < DEEP; turn++) {
                totals[turn] = Sums<C>::join(totals[turn], give(element + turn * GROUP));
            }
        }
        for (; element < end; element += GROUP) {
            totals[0] = Sums<C>::join(totals[0], give(element));
        }
        const Sums<C> half = Sums<C>::join(totals[0], totals[1]), other = Sums<C>::join(totals[2], totals[3]);
        return share_group<GROUP>(join_group<Sums<C>, GROUP>(Sums<C>::join(half, other)));
    }

    template <int GROUP> DEVICE Moments<C> moments(u64 row, u64 first, u64 end) const {
        const C count = C(end - first);
        C middle = C(0);
        if (view.centred) {
            middle = sums<GROUP>(first, end, [&](u64 element) { return Sums<C>{at(input, row, element), C(0)}; }).first / count;
        }
        const auto square = [&](u64 element) {
            const C deviation = at(input, row, element) - middle;
            return Sums<C>{deviation * deviation, C(0)};
        };
        return {count, middle, sums<GROUP>(first, end, square).first};
    }

    template <int GROUP> DEVICE void write(const Moments<C>& all, u64 row, u64 first, u64 end) const {
        const C spread = all.squares / all.count, factor = rstd(spread);
        if (first == 0 && threadIdx.x % GROUP == 0) {
            mean[row] = all.mean;
            variance[row] = spread;
        }
#pragma unroll 4
        for (u64 element = first + threadIdx.x % GROUP; element < end; element += GROUP) {
            C value = (at(input, row, element) - all.mean) * factor;
            if (weight) {
                value = value * weight[view.parameter(row, element)];
            }
            if (bias) {
                value = value + bias[view.parameter(row, element)];
            }
            store<T>(out + view.offset(row, element) * sizeof(T), value);
        }
    }

    /// The sums of the gradients `v` of the normalised elements, and of their products with these elements.
    template <int GROUP> DEVICE Sums<C> gradients(u64 row, u64 first, u64 end) const {
        const C middle = mean[row], factor = rstd(variance[row]);
        const bool scaled = !view.pooled;
        return sums<GROUP>(first, end, [&](u64 element) {
            const C own = scaled ? at(grad, row, element) * scale(row, element) : at(grad, row, element);
            return Sums<C>{own, own * ((at(input, row, element) - middle) * factor)};
        });
    }

    template <int GROUP> DEVICE void write_gradient(const Sums<C>& all, u64 row, u64 first, u64 end) const {
        const C middle = mean[row], factor = rstd(variance[row]), count = C(view.length());
        const C common = view.centred ? all.first / count : C(0), along = all.second / count;
#pragma unroll 4
        for (u64 element = first + threadIdx.x % GROUP; element < end; element += GROUP) {
            const C normal = (at(input, row, element) - middle) * factor;
            const C own = at(grad, row, element) * scale(row, element);
            store<T>(out + view.offset(row, element) * sizeof(T), (own - common - normal * along) * factor);
        }
    }

    /// The same from sums that are not scaled where samples are pooled: a row has one scale then, so that the sums are also the
    /// gradients of scale and shift.
    template <int GROUP>
    DEVICE void write_gradients(Sums<C> all, u64 row, u64 first, u64 end, C* to_weight, C* to_bias) const {
        if (view.pooled) {
            if (first == 0 && threadIdx.x % GROUP == 0) {
                to_weight[row] = all.second;
                to_bias[row] = all.first;
            }
            const C factor = scale(row, 0);
            all = {all.first * factor, all.second * factor};
        }
        write_gradient<GROUP>(all, row, first, end);
    }

    /// Calls a function for each row of a group of threads, whose rows are as many as those of the other groups of its block.
    template <int GROUP, class Run> DEVICE void each_row(const Run& run) const {
        constexpr u64 GROUPS = THREADS / GROUP;
        const u64 rows = view.rows();
        for (u64 first = blockIdx.x * GROUPS; first < rows; first += gridDim.x * GROUPS) {
            const u64 row = first + threadIdx.x / GROUP;
            run(row < rows ? row : rows - 1);
        }
    }

    template <int GROUP> DEVICE void forward() const {
        const u64 n = view.length();
        each_row<GROUP>([&](u64 row) { write<GROUP>(moments<GROUP>(row, 0, n), row, 0, n); });
    }
    template <int GROUP> DEVICE void backward(C* to_weight, C* to_bias) const {
        const u64 n = view.length();
        each_row<GROUP>([&](u64 row) {
            write_gradients<GROUP>(gradients<GROUP>(row, 0, n), row, 0, n, to_weight, to_bias);
        });
    }

    /// For each piece of a long row, by a block.
    template <class Run> DEVICE void each_piece(u64 piece, const Run& run) const {
        const u64 n = view.length(), first = blockIdx.y * piece, end = first + piece < n ? first + piece : n;
        each_row<THREADS>([&](u64 row) { run(row, first, end); });
    }
    template <class Part> static DEVICE Part joined(const Part* parts, u64 row) {
        Part all = parts[row * gridDim.y];
        for (u64 n = 1; n < gridDim.y; n++) {
            all = Part::join(all, parts[row * gridDim.y + n]);
        }
        return all;
    }

    DEVICE void forward_parts(u64 piece, Moments<C>* parts) const {
        each_piece(piece, [&](u64 row, u64 first, u64 end) {
            const Moments<C> own = moments<THREADS>(row, first, end);
            if (threadIdx.x == 0) {
                parts[row * gridDim.y + blockIdx.y] = own;
            }
        });
    }
    DEVICE void forward_joined(u64 piece, const Moments<C>* parts) const {
        each_piece(piece, [&](u64 row, u64 first, u64 end) { write<THREADS>(joined(parts, row), row, first, end); });
    }
    DEVICE void backward_parts(u64 piece, Sums<C>* parts) const {
        each_piece(piece, [&](u64 row, u64 first, u64 end) {
            const Sums<C> own = gradients<THREADS>(row, first, end);
            if (threadIdx.x == 0) {
                parts[row * gridDim.y + blockIdx.y] = own;
            }
        });
    }
    DEVICE void backward_joined(u64 piece, const Sums<C>* parts, C* to_weight, C* to_bias) const {
        each_piece(piece, [&](u64 row, u64 first, u64 end) {
            write_gradients<THREADS>(joined(parts, row), row, first, end, to_weight, to_bias);
        });
    }

    /// The gradients of scales and shifts where samples are not pooled: a lane for each of 32 adjacent ones, and a row of the grid
    /// for each piece of the samples.
    DEVICE void parameters(u64 piece, Sums<C>* parts) const {
        __shared__ u128 bytes[THREADS * sizeof(Sums<C>) / sizeof(u128)];
        Sums<C>* const all = (Sums<C>*)bytes;
        const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
        const u64 count = view.groups * view.channels, rest = blockIdx.y * piece;
        const u64 end = rest + piece < view.samples ? rest + piece : view.samples;
        for (u64 first = u64(blockIdx.x) * WARP; first < count; first += u64(gridDim.x) * WARP) {
            const u64 parameter = first + lane < count ? first + lane : count - 1;
            const u64 group = parameter / view.channels, channel = parameter % view.channels;
            Sums<C> total = {};
            for (u64 sample = rest + warp; sample < end; sample += WARPS) {
                const u64 row = sample * view.groups + group;
                const C middle = mean[row], factor = rstd(variance[row]);
                for (u64 at_run = 0; at_run < view.run; at_run++) {
                    const u64 element = channel * view.run + at_run;
                    const C own = at(grad, row, element);
                    total = Sums<C>::join(total, {own, own * ((at(input, row, element) - middle) * factor)});
                }
            }
            __syncthreads();
            all[threadIdx.x] = total;
            __syncthreads();
            if (warp == 0 && first + lane < count) {
                for (int n = 1; n < WARPS; n++) {
                    total = Sums<C>::join(total, all[n * WARP + lane]);
                }
                parts[parameter * gridDim.y + blockIdx.y] = total;
            }
        }
    }
    DEVICE void join_parameters(u64 pieces, const Sums<C>* parts, C* to_weight, C* to_bias) const {
        for (u64 parameter = first_element(); parameter < view.groups * view.channels; parameter += element_step()) {
            Sums<C> all = parts[parameter * pieces];
            for (u64 n = 1; n < pieces; n++) {
                all = Sums<C>::join(all, parts[parameter * pieces + n]);
            }
            to_weight[parameter] = all.second;
            to_bias[parameter] = all.first;
        }
    }
};

} // namespace rushlight
