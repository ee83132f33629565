// The skeleton of every kernel that computes one element from one element of each operand. A program gives the function, the type
// `T` that it computes in, the types of the result and of the operands in memory, and how many elements a thread takes; see
// `elementwise.rs`. Flat operands and rows of adjacent elements are taken in packs, other elements one by one, and transposing copies
// in squares.

#pragma once

#include "geometry.cuh"

namespace rushlight {

template <int... I> struct Places {};
template <int N, int... I> struct MakePlaces : MakePlaces<N - 1, N - 1, I...> {};
template <int... I> struct MakePlaces<0, I...> {
    typedef Places<I...> type;
};

/// Adjacent elements, which are loaded and stored with one instruction.
template <class T, int ITEMS> struct alignas(ITEMS * sizeof(T)) Pack {
    typename stored<T>::type items[ITEMS];
    DEVICE T get(int n) const { return load<T>(&items[n]); }
};

/// A thread takes `PACKS` packs of `ITEMS` elements, which are at most 16 bytes of each operand. It loads all of them before it
/// computes, so that memory has many of its requests at once.
template <class Function, class T, int ITEMS, int PACKS, class Out, class... In> struct Elementwise {
    static constexpr int N = 1 + sizeof...(In);
    typedef typename MakePlaces<N - 1>::type Inputs;
    /// The packs of a block, whose threads take neighbouring ones.
    static constexpr u32 TILE = THREADS * PACKS;

    /// Where a thread's packs are in all operands. Of the block's packs there are `count`.
    struct Offsets {
        i64 at[PACKS][N];
        u32 count;
        DEVICE bool has(int pack) const { return threadIdx.x + pack * THREADS < count; }
    };
    template <class In_> struct Loaded {
        Pack<In_, ITEMS> packs[PACKS];
    };

    template <class In_> static DEVICE Loaded<In_> load_packs(const u8* from, const Offsets& offsets, int operand) {
        Loaded<In_> loaded;
#pragma unroll
        for (int n = 0; n < PACKS; n++) {
            if (offsets.has(n)) {
                loaded.packs[n] = *(const Pack<In_, ITEMS>*)(from + offsets.at[n][operand]);
            }
        }
        return loaded;
    }

    template <class... Operands>
    static DEVICE void compute(u8* to, const Numbers& numbers, const Offsets& offsets, const Operands&... operands) {
#pragma unroll
        for (int n = 0; n < PACKS; n++) {
            if (offsets.has(n)) {
                Pack<Out, ITEMS> result;
#pragma unroll
                for (int item = 0; item < ITEMS; item++) {
                    store<Out>(&result.items[item], Function::value(numbers, convert<T>(operands.packs[n].get(item))...));
                }
                *(Pack<Out, ITEMS>*)(to + offsets.at[n][0]) = result;
            }
        }
    }

    template <int... I>
    static DEVICE void take(const Pointers<N>& operands, const Numbers& numbers, const Offsets& offsets, Places<I...>) {
        compute(operands.at[0], numbers, offsets, load_packs<In>(operands.at[I + 1], offsets, I + 1)...);
    }

    template <int... I>
    static DEVICE void one(const Pointers<N>& operands, const Numbers& numbers, u64 element, Places<I...>) {
        store<Out>(operands.at[0] + element * sizeof(Out),
                   Function::value(numbers, convert<T>(load<In>(operands.at[I + 1] + element * sizeof(In)))...));
    }

    /// The first pack of the block's tile, and how many packs there are from there to the end, or in the tile.
    static DEVICE u64 tile() { return u64(blockIdx.x) * TILE; }
    static DEVICE u32 rest(u64 packs) { return packs - tile() < TILE ? u32(packs - tile()) : TILE; }

    /// All elements of all operands are adjacent, and begin with a whole pack.
    static DEVICE void flat(const Pointers<N>& operands, const Numbers& numbers, u64 count) {
        constexpr i64 WIDTHS[] = {i64(sizeof(Out)), i64(sizeof(In))...};
        const u64 packs = count / ITEMS;
        Offsets offsets;
        offsets.count = rest(packs);
#pragma unroll
        for (int n = 0; n < PACKS; n++) {
            for (int operand = 0; operand < N; operand++) {
                offsets.at[n][operand] = i64(tile() + threadIdx.x + n * THREADS) * (ITEMS * WIDTHS[operand]);
            }
        }
        take(operands, numbers, offsets, Inputs());
        if constexpr (ITEMS > 1) {
            const u64 element = packs * ITEMS + threadIdx.x;
            if (blockIdx.x + 1 == gridDim.x && element < count) {
                one(operands, numbers, element, Inputs());
            }
        }
    }

    /// Loops over packs. Each has its elements in all operands beside each other.
    template <class Index>
    static DEVICE void nested(const Pointers<N>& operands, const Numbers& numbers, u64 packs, const Loops<N>& loops) {
        Offsets offsets = {{}, rest(packs)};
        Index pack[PACKS];
#pragma unroll
        for (int n = 0; n < PACKS; n++) {
            pack[n] = Index(tile() + threadIdx.x + n * THREADS);
        }
        // As `move` of the loops, for all packs at once.
#pragma unroll 1
        for (u32 dim = 0; dim < loops.rank; dim++) {
#pragma unroll
            for (int n = 0; n < PACKS; n++) {
                const Index rest = dim + 1 < loops.rank ? loops.quotient(pack[n], dim) : 0;
                const i64 at = i64(pack[n] - rest * Index(loops.sizes[dim]));
                pack[n] = rest;
#pragma unroll
                for (int operand = 0; operand < N; operand++) {
                    offsets.at[n][operand] += at * loops.strides[dim][operand];
                }
            }
        }
        take(operands, numbers, offsets, Inputs());
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
