// Convolutions and their gradients. Each is a product of a factor with windows, which nobody copies: where an element of a window
// lies is found when a slice is copied to shared memory.
//
// | computed | factor | windows | rows | columns | inner dimension |
// |---|---|---|---|---|---|
// | output | weight | input | features | samples and pixels of the output | channels and taps |
// | input | weight | output | channels | samples and pixels of the input | features and taps |
// | weight | output | input | features | channels and taps | samples and pixels of the output |
//
// A row, a column and a place along the inner dimension are numbers, from which `Loops` make distances in two operands: one in bytes,
// and one along each dimension of space, by which elements in the padding are recognised.
//
// With strides, an element of the input meets only some taps, and those that are a stride apart meet the same ones. The input is
// therefore computed in phases, as many as the product of the strides; within a phase everything is regular. See `convolution.rs`.

#pragma once

#include "half_square.cuh"
#include "reduce.cuh"

namespace rushlight {

constexpr int SPACE = 3;
enum { FACTOR, WINDOWS, RESULT };

/// The first byte, the distances in bytes between groups and along the dimensions of space, and their sizes.
struct ConvolutionOperand {
    u8* first_byte;
    i64 group, steps[SPACE], sizes[SPACE];
};

/// The geometry along a dimension of space. There are as many phases as the stride, unless the input is shorter.
struct ConvolutionAxis {
    i64 padding, stride, dilation, phases;
};

struct Convolution {
    ConvolutionOperand operands[3];
    ConvolutionAxis axes[SPACE];
    /// Distances in the factor and the result, in the windows and the result, and in the factor and the windows.
    Loops<2 * (1 + SPACE)> rows, columns, inner;
    u64 row_count, column_count, inner_count, groups, phases;
    /// The inner dimension is cut into pieces of a length, which is a multiple of the depth of all slices.
    u64 pieces, length;
    const u8* bias;
    i64 bias_step;
    /// Whether the input is computed, and whether neighbours in memory are neighbours along the inner dimension.
    u32 of_input, factor_along, windows_along;

    /// Takes the last digit, of `count` values, off the number of a block.
    static DEVICE u32 split(u32& number, u64 count) {
        const u32 digit = number % u32(count);
        number /= u32(count);
        return digit;
    }
};

/// Where elements lie: the distance in bytes, and the coordinate in each dimension. No coordinate, nor a distance, is as far as an
/// eighth of the range of `P`; a line or a place of the inner dimension that does not exist is in the middle of its upper parts.
template <class P, int DIMS, int N> struct Places {
    i64 offsets[N];
    P coordinates[DIMS][N];
};
/// The signed integer as wide as an unsigned one.
template <class P> struct signed_of {
    typedef i64 type;
};
template <> struct signed_of<u32> {
    typedef i32 type;
};
template <class P> constexpr P NO_LINE = P(1) << (8 * sizeof(P) - 1);
template <class P> constexpr P NO_PLACE = P(1) << (8 * sizeof(P) - 2);

/// Lines whose elements are found by the sum of two places, of the line and of the place along the inner dimension.
template <class T, class P, int DIMS, int DEPTH> struct PlacedLines {
    const u8* first_byte;
    const Places<P, DIMS, SQUARE>& lines;
    const Places<P, DIMS, DEPTH>& inner;
    P sizes[DIMS];
    bool is_along;

    DEVICE bool along() const { return is_along; }

    DEVICE T element(int line, int place, u64) const {
        bool inside = true;
#pragma unroll
        for (int dim = 0; dim < DIMS; dim++) {
            inside = inside && P(lines.coordinates[dim][line] + inner.coordinates[dim][place]) < sizes[dim];
        }
        return inside ? load<T>(first_byte + lines.offsets[line] + inner.offsets[place]) : T();
    }
};

/// The places of the operands with which a phase begins.
struct Origins {
    i64 first[3][SPACE];

    /// Finds them, with a thread for each dimension. Numbers fit into `I`. The first tap of a phase is the first one that reads an
    /// element of its windows; there may be none.
    template <class I> DEVICE void find(const Convolution& call, I phase) {
        const int dim = int(threadIdx.x);
        if (dim >= SPACE) {
            return;
        }
        const ConvolutionAxis& axis = call.axes[dim];
        I tap = 0, window = -I(axis.padding), element = 0;
        if (call.of_input) {
            for (int last = SPACE - 1; last > dim; last--) {
                phase /= I(call.axes[last].phases);
            }
            element = phase % I(axis.phases);
            const I taps = call.operands[FACTOR].sizes[dim], stride = axis.stride, dilation = axis.dilation;
            I apart = element + I(axis.padding);
            while (tap < taps && apart % stride != 0) {
                tap++;
                apart -= dilation;
            }
            window = apart / stride;
        }
        first[FACTOR][dim] = tap;
        first[WINDOWS][dim] = window;
        first[RESULT][dim] = element;
    }

    /// The first byte of an operand for a group.
    DEVICE u8* start(const Convolution& call, int operand, u64 group) const {
        const ConvolutionOperand& given = call.operands[operand];
        u8* start = given.first_byte + i64(group) * given.group;
#pragma unroll
        for (int dim = 0; dim < SPACE; dim++) {
            start += first[operand][dim] * given.steps[dim];
        }
        return start;
    }

    /// Whether an operand has an element at distances from its first place.
    DEVICE bool has(const Convolution& call, int operand, const i64* moved) const {
        bool inside = true;
#pragma unroll
        for (int dim = 0; dim < SPACE; dim++) {
            inside = inside && u64(first[operand][dim] + moved[dim]) < u64(call.operands[operand].sizes[dim]);
        }
        return inside;
    }
};

template <class T, class A> DEVICE void store_result(const Convolution& call, u8* to, u64 group, u64 row, A sum) {
    if (call.bias) {
        sum = plus(sum, convert<A>(load<T>(call.bias + i64(group * call.row_count + row) * call.bias_step)));
    }
    store<T>(to, sum);
}

template <class T, class A, bool HALVES> struct square_of {
    typedef Square<A> type;
};
template <class T> struct square_of<T, f32, true> {
    typedef HalfSquare<T> type;
};

/// The blocks that a multiprocessor runs together, as far as registers suffice.
template <class A> constexpr int SQUARE_BLOCKS = sizeof(A) < 16 ? 2 : 1;

/// A square of results for each block, or `parts` of their sums, one for each piece.
template <class S, class T, class P> DEVICE void convolve_squares(const Convolution& call, typename S::A* parts) {
    constexpr int DEPTH = S::DEPTH;
    __shared__ typename S::Slice first, second;
    __shared__ Places<P, 1, SQUARE> rows;
    __shared__ Places<P, SPACE, SQUARE> columns;
    __shared__ Places<P, 1, DEPTH> factor_inner;
    __shared__ Places<P, SPACE, DEPTH> window_inner;
    __shared__ Origins origins;
    u32 number = blockIdx.x;
    const u64 row = u64(Convolution::split(number, (call.row_count + SQUARE - 1) / SQUARE)) * SQUARE;
    const u64 column = u64(Convolution::split(number, (call.column_count + SQUARE - 1) / SQUARE)) * SQUARE;
    const u64 group = Convolution::split(number, call.groups), phase = Convolution::split(number, call.phases), piece = number;
    origins.find(call, typename signed_of<P>::type(phase));
    __syncthreads();
    const int thread = int(threadIdx.x);
    if (thread < SQUARE) {
        i64 moved[8] = {};
        if (row + thread < call.row_count) {
            call.rows.move(P(row + thread), moved);
        }
        rows.offsets[thread] = moved[0];
        rows.coordinates[0][thread] = row + thread < call.row_count ? 0 : NO_LINE<P>;
    } else if (thread < 2 * SQUARE) {
        const int line = thread - SQUARE;
        const bool exists = column + line < call.column_count;
        i64 moved[8] = {};
        if (exists) {
            call.columns.move(P(column + line), moved);
        }
        columns.offsets[line] = moved[0];
#pragma unroll
        for (int dim = 0; dim < SPACE; dim++) {
            columns.coordinates[dim][line] = exists ? P(origins.first[WINDOWS][dim] + moved[1 + dim]) : NO_LINE<P>;
        }
    }
    const u64 begin = piece * call.length;
    const u64 end = begin + call.length < call.inner_count ? begin + call.length : call.inner_count;
    const auto prepare = [&](u64 start) {
        if (thread < DEPTH) {
            i64 moved[8] = {};
            bool exists = start + thread < end;
            if (exists) {
                call.inner.move(P(start + thread), moved);
                exists = origins.has(call, FACTOR, moved + 1);
            }
            factor_inner.offsets[thread] = moved[0];
            factor_inner.coordinates[0][thread] = exists ? 0 : NO_PLACE<P>;
            window_inner.offsets[thread] = moved[4];
#pragma unroll
            for (int dim = 0; dim < SPACE; dim++) {
                window_inner.coordinates[dim][thread] = exists ? P(moved[5 + dim]) : NO_PLACE<P>;
            }
        }
    };
    const i64(&sizes)[SPACE] = call.operands[WINDOWS].sizes;
    const PlacedLines<T, P, 1, DEPTH> factor{origins.start(call, FACTOR, group), rows, factor_inner, {P(1)}, call.factor_along != 0};
    const PlacedLines<T, P, SPACE, DEPTH> windows{origins.start(call, WINDOWS, group),
                                                  columns,
                                                  window_inner,
                                                  {P(sizes[0]), P(sizes[1]), P(sizes[2])},
                                                  call.windows_along != 0};
    S square;
    add_products(square, first, second, factor, windows, begin, end, prepare);
    __syncthreads();
    // Where results lie takes the place of where operands do.
    if (thread < SQUARE && row + thread < call.row_count) {
        i64 moved[8] = {};
        call.rows.move(P(row + thread), moved);
        rows.offsets[thread] = moved[4];
    } else if (thread >= SQUARE && thread < 2 * SQUARE && column + thread - SQUARE < call.column_count) {
        i64 moved[8] = {};
        call.columns.move(P(column + thread - SQUARE), moved);
        columns.offsets[thread - SQUARE] = moved[4];
        columns.coordinates[0][thread - SQUARE] = origins.has(call, RESULT, moved + 5) ? 0 : NO_LINE<P>;
    }
    __syncthreads();
    u8* const to = origins.start(call, RESULT, group);
    square.each([&](int r, int c, typename S::A sum) {
        if (rows.coordinates[0][r] != 0 || columns.coordinates[0][c] == NO_LINE<P>) {
            return;
        }
        if (parts) {
            const u64 place = (piece * call.phases + phase) * call.groups + group;
            parts[(place * call.row_count + row + r) * call.column_count + column + c] = sum;
        } else {
            store_result<T>(call, to + rows.offsets[r] + columns.offsets[c], group, row + r, sum);
        }
    });
}

/// Stores results of a phase, for each of which `sum` is called with its number, its group, and the distances of its row and column. All
/// phases have as many blocks. Groups of 256 threads have a result together, which the first one stores.
template <class T, class P, int GROUP, class Sum>
DEVICE void store_results(const Convolution& call, const Origins& origins, const Sum& sum) {
    const P each = P(gridDim.x / u32(call.phases)) * (THREADS / GROUP);
    const P count = P(call.groups * call.row_count * call.column_count);
    P result = P(blockIdx.x % (gridDim.x / u32(call.phases))) * (THREADS / GROUP) + threadIdx.x / GROUP;
    for (; result < count; result += each) {
        const P line = result / P(call.column_count), group = line / P(call.row_count), row = line - group * P(call.row_count);
        i64 of_row[8] = {}, of_column[8] = {};
        call.rows.move(row, of_row);
        call.columns.move(P(result - line * P(call.column_count)), of_column);
        if (!origins.has(call, RESULT, of_column + 5)) {
            continue;
        }
        const auto value = sum(result, group, of_row, of_column);
        if (GROUP == 1 || threadIdx.x % GROUP == 0) {
            store_result<T>(call, origins.start(call, RESULT, group) + of_row[4] + of_column[4], group, row, value);
        }
    }
}

/// The number of the phase that `store_results` takes.
DEVICE u64 phase_of_block(const Convolution& call) { return blockIdx.x / (gridDim.x / u32(call.phases)); }

/// Joins the sums of pieces, in their order.
template <class T, class A, class P> DEVICE void join_pieces(const Convolution& call, const A* parts) {
    __shared__ Origins origins;
    const u64 phase = phase_of_block(call), count = call.groups * call.row_count * call.column_count;
    origins.find(call, typename signed_of<P>::type(phase));
    __syncthreads();
    store_results<T, P, 1>(call, origins, [&](P result, P, const i64*, const i64*) {
        A sum = parts[phase * count + result];
        for (u64 piece = 1; piece < call.pieces; piece++) {
            sum = plus(sum, parts[(piece * call.phases + phase) * count + result]);
        }
        return sum;
    });
}

/// Where a thread is in the factor and in the windows.
template <class P> struct Walk {
    i64 offsets[2];
    P coordinates[2][SPACE];

    DEVICE void move(const i64* by, i64 times) {
#pragma unroll
        for (int n = 0; n < 2; n++) {
            offsets[n] += by[4 * n] * times;
#pragma unroll
            for (int dim = 0; dim < SPACE; dim++) {
                coordinates[n][dim] += P(by[4 * n + 1 + dim]) * P(times);
            }
        }
    }

    DEVICE bool is_inside(const Convolution& call, int operand) const {
        bool inside = true;
#pragma unroll
        for (int dim = 0; dim < SPACE; dim++) {
            inside = inside && coordinates[operand][dim] < P(call.operands[operand].sizes[dim]);
        }
        return inside;
    }

    /// Adds a product. Taps that do not exist add nothing, not even if their other factor is infinite.
    template <class T, class A> DEVICE void add(A& sum, const Convolution& call, const u8* factor, const u8* windows) const {
        if (is_inside(call, FACTOR)) {
            const A other = is_inside(call, WINDOWS) ? convert<A>(load<T>(windows + offsets[WINDOWS])) : A();
            sum = multiply_add(sum, convert<A>(load<T>(factor + offsets[FACTOR])), other);
        }
    }

    /// Adds the products of the loops up to `dim`, and returns to where it was.
    template <class T, int DIM, class A> DEVICE void add_loops(A& sum, const Convolution& call, const u8* factor, const u8* windows) {
        if constexpr (DIM < 0) {
            add<T>(sum, call, factor, windows);
        } else {
            const i64 size = i64(call.inner.sizes[DIM]);
#pragma unroll 1
            for (i64 n = 0; n < size; n++) {
                add_loops<T, DIM - 1>(sum, call, factor, windows);
                move(call.inner.strides[DIM], 1);
            }
            move(call.inner.strides[DIM], -size);
        }
    }
};

template <class P> DEVICE Walk<P> begin_walk(const Origins& origins, const i64* of_row, const i64* of_column) {
    Walk<P> walk;
    walk.offsets[FACTOR] = of_row[0];
    walk.offsets[WINDOWS] = of_column[0];
#pragma unroll
    for (int dim = 0; dim < SPACE; dim++) {
        walk.coordinates[FACTOR][dim] = P(origins.first[FACTOR][dim]);
        walk.coordinates[WINDOWS][dim] = P(origins.first[WINDOWS][dim] + of_column[1 + dim]);
    }
    return walk;
}

/// A thread for each result: for few rows, of which a square would have hardly any.
template <class T, class A, class P> DEVICE void convolve_by_threads(const Convolution& call) {
    __shared__ Origins origins;
    origins.find(call, typename signed_of<P>::type(phase_of_block(call)));
    __syncthreads();
    store_results<T, P, 1>(call, origins, [&](P, P group, const i64* of_row, const i64* of_column) {
        A sum = A();
        Walk<P> walk = begin_walk<P>(origins, of_row, of_column);
        walk.template add_loops<T, SPACE>(sum, call, origins.start(call, FACTOR, group), origins.start(call, WINDOWS, group));
        return sum;
    });
}

template <class Sum> struct JoinSums {
    typedef Sum A;
    static DEVICE A join(A a, A b) { return plus(a, b); }
};

/// A block for each result: the same for long sums, as those of the weight are.
template <class T, class A, class P> DEVICE void convolve_by_blocks(const Convolution& call) {
    __shared__ Origins origins;
    origins.find(call, typename signed_of<P>::type(phase_of_block(call)));
    __syncthreads();
    store_results<T, P, THREADS>(call, origins, [&](P, P group, const i64* of_row, const i64* of_column) {
        const u8* const factor = origins.start(call, FACTOR, group);
        const u8* const windows = origins.start(call, WINDOWS, group);
        const Walk<P> start = begin_walk<P>(origins, of_row, of_column);
        A sum = A();
        for (P place = threadIdx.x; place < P(call.inner_count); place += THREADS) {
            i64 moved[8] = {};
            call.inner.move(place, moved);
            Walk<P> walk = start;
            walk.move(moved, 1);
            walk.template add<T>(sum, call, factor, windows);
        }
        return join_group<JoinSums<A>, THREADS>(sum);
    });
}

} // namespace rushlight
