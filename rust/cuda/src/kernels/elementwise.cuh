// The skeleton of every kernel that computes one element from one element of each operand. A program gives the function, the type
// `T` that it computes in, and the types of the result and of the operands in memory; see `elementwise.rs`.
// Rows of adjacent elements are taken in packs, other elements one by one, and transposing copies in squares.

#pragma once

#include "geometry.cuh"

namespace rushlight {

/// The number of adjacent elements that a thread takes at once.
constexpr int ITEMS = 4;

template <int... I> struct Places {};
template <int N, int... I> struct MakePlaces : MakePlaces<N - 1, N - 1, I...> {};
template <int... I> struct MakePlaces<0, I...> {
    typedef Places<I...> type;
};

template <int bytes> constexpr int pack_alignment = bytes < 16 ? bytes : 16;

/// Adjacent elements, which are loaded and stored with one instruction.
template <class T> struct alignas(pack_alignment<ITEMS * sizeof(T)>) Pack {
    typename stored<T>::type items[ITEMS];
    DEVICE T get(int n) const { return load<T>(&items[n]); }
};

template <class T> DEVICE Pack<T> load_pack(const u8* from) { return *(const Pack<T>*)from; }

template <class Function, class T, class Out, class... Packs>
DEVICE void compute_pack(const Numbers& numbers, Pack<Out>& result, Packs... packs) {
    for (int n = 0; n < ITEMS; n++) {
        store<Out>(&result.items[n], Function::value(numbers, convert<T>(packs.get(n))...));
    }
}

template <class Function, class T, class Out, class... In> struct Elementwise {
    static constexpr int N = 1 + sizeof...(In);
    typedef typename MakePlaces<N - 1>::type Inputs;

    template <int... I>
    static DEVICE void one(const Pointers<N>& operands, const Numbers& numbers, const i64* offsets, Places<I...>) {
        store<Out>(operands.at[0] + offsets[0],
                   Function::value(numbers, convert<T>(load<In>(operands.at[I + 1] + offsets[I + 1]))...));
    }

    template <int... I>
    static DEVICE void pack(const Pointers<N>& operands, const Numbers& numbers, const i64* offsets, Places<I...>) {
        Pack<Out> result;
        compute_pack<Function, T, Out>(numbers, result, load_pack<In>(operands.at[I + 1] + offsets[I + 1])...);
        *(Pack<Out>*)(operands.at[0] + offsets[0]) = result;
    }

    /// All operands have adjacent elements in the innermost loop, which counts packs. The last pack may have fewer elements.
    template <class Index>
    static DEVICE void packed(const Pointers<N>& operands, const Numbers& numbers, u64 count, const Loops<N>& loops) {
        const i64 widths[] = {i64(sizeof(Out)), i64(sizeof(In))...};
        for (u64 at = first_element(); at * ITEMS < count; at += element_step()) {
            i64 offsets[N] = {};
            loops.move(Index(at), offsets);
            if ((at + 1) * ITEMS <= count) {
                pack(operands, numbers, offsets, Inputs());
                continue;
            }
            for (u64 element = at * ITEMS; element < count; element++) {
                one(operands, numbers, offsets, Inputs());
                for (int n = 0; n < N; n++) {
                    offsets[n] += widths[n];
                }
            }
        }
    }

    template <class Index>
    static DEVICE void strided(const Pointers<N>& operands, const Numbers& numbers, u64 count, const Loops<N>& loops) {
        for (u64 element = first_element(); element < count; element += element_step()) {
            i64 offsets[N] = {};
            loops.move(Index(element), offsets);
            one(operands, numbers, offsets, Inputs());
        }
    }
};

constexpr u32 EDGE = 32;

/// A copy whose result has adjacent elements in the first loop, and its operand in the second one. Squares of both loops pass
/// through shared memory: they are read along the one and written along the other, so that neighbouring threads have neighbouring
/// elements both times. A cell is left free after each row of a square, or its columns would share a bank.
template <class Function, class T, class Out, class In, class Index>
DEVICE void transpose(const Pointers<2>& operands, const Numbers& numbers, u64 squares, const Loops<2>& loops) {
    typedef typename stored<Out>::type Stored;
    constexpr u32 STEP = THREADS / EDGE;
    // As bytes, because shared variables have no constructors.
    __shared__ u128 bytes[EDGE * (EDGE + 1) * sizeof(Stored) / sizeof(u128)];
    Stored* const square = (Stored*)bytes;
    const Index across = Index(loops.sizes[0]), down = Index(loops.sizes[1]);
    const Index columns = (across + EDGE - 1) / EDGE, rows = (down + EDGE - 1) / EDGE;
    const u32 lane = threadIdx.x % EDGE, first = threadIdx.x / EDGE;
    for (u64 at = blockIdx.x; at < squares; at += gridDim.x) {
        const Index line = Index(at) / columns, x = Index(at) % columns * EDGE, y = line % rows * EDGE;
        i64 offsets[2] = {};
        loops.move(Index(line / rows), offsets, 2);
        Stored own[EDGE / STEP];
#pragma unroll
        for (u32 n = 0; n < EDGE / STEP; n++) {
            const Index column = x + first + n * STEP, row = y + lane;
            if (column < across && row < down) {
                const i64 offset = offsets[1] + i64(column) * loops.strides[0][1] + i64(row) * i64(sizeof(In));
                store<Out>(&own[n], Function::value(numbers, convert<T>(load<In>(operands.at[1] + offset))));
            }
        }
        __syncthreads();
#pragma unroll
        for (u32 n = 0; n < EDGE / STEP; n++) {
            square[lane * (EDGE + 1) + first + n * STEP] = own[n];
        }
        __syncthreads();
#pragma unroll
        for (u32 n = 0; n < EDGE / STEP; n++) {
            const Index column = x + lane, row = y + first + n * STEP;
            if (column < across && row < down) {
                const i64 offset = offsets[0] + i64(column) * i64(sizeof(Out)) + i64(row) * loops.strides[1][0];
                *(Stored*)(operands.at[0] + offset) = square[(first + n * STEP) * (EDGE + 1) + lane];
            }
        }
    }
}

} // namespace rushlight
