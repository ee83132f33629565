// Normalisation of channels over a batch, and its gradient. A group has the elements of one channel: a run of each sample, between
// which lie the runs of the other groups. See `batch_norm.rs`.
//
// A block takes a piece of the elements of `LANES` adjacent groups, so that adjacent threads read adjacent elements: 32 groups if a
// run is one element, else one. Sums depend on the shape alone: each thread takes every `THREADS / LANES`-th element of its piece,
// the threads of a group join in a tree, and so do the pieces, in each block that needs their sum.

#pragma once

#include "elementary.cuh"
#include "geometry.cuh"

namespace rushlight {

struct Groups {
    u64 groups, run, count, pieces;
};

/// The sum of the threads of a group, for all of them.
template <class A, int LANES> DEVICE A join_lanes(A own) {
    __shared__ u128 bytes[THREADS * sizeof(A) / sizeof(u128)];
    A* const all = (A*)bytes;
    __syncthreads();
    all[threadIdx.x] = own;
    for (unsigned half = THREADS / 2; half >= LANES; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            all[threadIdx.x] = all[threadIdx.x] + all[threadIdx.x + half];
        }
    }
    __syncthreads();
    return all[threadIdx.x % LANES];
}

/// The part of a thread: elements of a piece of a group. `I` is an integer that counts all elements.
template <class A, class I, int LANES> struct Piece {
    static constexpr int WORKERS = THREADS / LANES;
    const Groups& own;
    I group, worker, first, end;
    bool inside;

    DEVICE Piece(const Groups& own) : own(own) {
        const I length = I((own.count + own.pieces - 1) / own.pieces), last = I(own.count);
        group = I(blockIdx.x) * LANES + I(threadIdx.x) % LANES;
        worker = I(threadIdx.x) / LANES;
        first = I(blockIdx.y) * length;
        end = first + length < last ? first + length : last;
        inside = group < I(own.groups);
    }

    /// Where an element of the group lies.
    DEVICE I at(I element) const {
        if (LANES > 1) {
            return element * I(own.groups) + group;
        }
        const I run = I(own.run), sample = element / run;
        return (sample * I(own.groups) + group) * run + (element - sample * run);
    }

    template <class F> DEVICE void each(F function) const {
        for (I element = first + worker; element < end && inside; element += WORKERS) {
            function(at(element));
        }
    }

    template <class F> DEVICE A sum(F term) const {
        A total = A(0);
        each([&](I at) { total = total + term(at); });
        return join_lanes<A, LANES>(total);
    }

    /// Keeps the sum of a piece.
    DEVICE void keep(A* sums, A sum) const {
        if (worker == 0 && inside) {
            sums[u64(blockIdx.y) * own.groups + group] = sum;
        }
    }

    /// The sum of all pieces.
    DEVICE A whole(const A* sums) const {
        A total = A(0);
        for (u64 piece = worker; piece < own.pieces && inside; piece += WORKERS) {
            total = total + sums[piece * own.groups + group];
        }
        return join_lanes<A, LANES>(total);
    }

    DEVICE bool speaks() const { return worker == 0 && blockIdx.y == 0 && inside; }
};

template <class T, class A, class I, int LANES> struct BatchNorm {
    typedef Piece<A, I, LANES> Own;

    static DEVICE A value(const T* from, I at) { return convert<A>(load<T>(from + at)); }

    static DEVICE A sum(const Own& own, const T* input) {
        return own.sum([&](I at) { return value(input, at); });
    }

    static DEVICE A sum_of_squares(const Own& own, const T* input, A mean) {
        return own.sum([&](I at) {
            const A centred = value(input, at) - mean;
            return centred * centred;
        });
    }

    static DEVICE void write(const Own& own, T* out, const T* input, const A* weight, const A* bias, A mean, A variance, A eps,
                             A* means, A* variances) {
        if (own.speaks()) {
            means[own.group] = mean;
            variances[own.group] = variance;
        }
        const A root = rsqrt(variance + eps);
        const A factor = weight && own.inside ? weight[own.group] : A(1), addend = bias && own.inside ? bias[own.group] : A(0);
        own.each([&](I at) {
            A normal = (value(input, at) - mean) * root;
            normal = weight ? normal * factor : normal;
            store<T>(out + at, bias ? normal + addend : normal);
        });
    }

    /// Sums of pieces.
    static DEVICE void sums(const Groups& groups, const T* input, A* sums) {
        const Own own(groups);
        own.keep(sums, sum(own, input));
    }

    static DEVICE void squares(const Groups& groups, const T* input, const A* sums, A* squares, bool centred) {
        const Own own(groups);
        const A mean = centred ? own.whole(sums) / A(groups.count) : A(0);
        own.keep(squares, sum_of_squares(own, input, mean));
    }

    static DEVICE void normalise(const Groups& groups, T* out, const T* input, const A* weight, const A* bias, const A* sums,
                                 const A* squares, A* means, A* variances, bool centred, A eps) {
        const Own own(groups);
        const A mean = centred ? own.whole(sums) / A(groups.count) : A(0);
        const A variance = own.whole(squares) / A(groups.count);
        write(own, out, input, weight, bias, mean, variance, eps, means, variances);
    }

    /// All of it, for groups of one piece.
    static DEVICE void whole(const Groups& groups, T* out, const T* input, const A* weight, const A* bias, A* means, A* variances,
                             bool centred, A eps) {
        const Own own(groups);
        const A mean = centred ? sum(own, input) / A(groups.count) : A(0);
        const A variance = sum_of_squares(own, input, mean) / A(groups.count);
        write(own, out, input, weight, bias, mean, variance, eps, means, variances);
    }

    /// What the gradient reads of a group.
    struct Statistics {
        A mean, root;
        DEVICE Statistics(const Own& own, const A* means, const A* variances, bool centred, A eps)
            : mean(centred && own.inside ? means[own.group] : A(0)),
              root(rsqrt((own.inside ? variances[own.group] : A(1)) + eps)) {}
        DEVICE A normal(A x) const { return (x - mean) * root; }
    };

    /// Sums of pieces: of the gradient, and of its products with the normalised elements.
    static DEVICE void gradient_sums(const Groups& groups, const T* grad, const T* input, const A* means, const A* variances,
                                     A* sums, A* products, bool centred, A eps) {
        const Own own(groups);
        const Statistics known(own, means, variances, centred, eps);
        own.keep(sums, sum(own, grad));
        own.keep(products, own.sum([&](I at) { return value(grad, at) * known.normal(value(input, at)); }));
    }

    static DEVICE void gradient(const Groups& groups, T* out, const T* grad, const T* input, const A* means, const A* variances,
                                const A* weight, const A* sums, const A* products, A* to_weight, A* to_bias, bool centred, A eps) {
        const Own own(groups);
        const Statistics known(own, means, variances, centred, eps);
        const A sum = own.whole(sums), product = own.whole(products);
        if (own.speaks()) {
            to_weight[own.group] = product;
            to_bias[own.group] = sum;
        }
        const A factor = weight && own.inside ? weight[own.group] : A(1);
        const A rest = centred ? factor * sum / A(groups.count) : A(0), along = factor * product / A(groups.count);
        own.each([&](I at) {
            const A weighted = factor * value(grad, at);
            store<T>(out + at, (weighted - rest - known.normal(value(input, at)) * along) * known.root);
        });
    }
};

} // namespace rushlight
