// The skeleton of every kernel that computes one element from one element of each operand. A program gives the function, the type
// `T` that it computes in, and the types of the result and of the operands in memory; see `elementwise.rs`.

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

template <class T> DEVICE Pack<T> load_pack(const u8* from, u64 first) { return *(const Pack<T>*)(from + first * sizeof(T)); }

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

    template <int... I> static DEVICE void pack(const Pointers<N>& operands, const Numbers& numbers, u64 first, Places<I...>) {
        Pack<Out> result;
        compute_pack<Function, T, Out>(numbers, result, load_pack<In>(operands.at[I + 1], first)...);
        *(Pack<Out>*)(operands.at[0] + first * sizeof(Out)) = result;
    }

    /// All operands are contiguous; `aligned` if packs of all of them are.
    static DEVICE void contiguous(const Pointers<N>& operands, const Numbers& numbers, u64 count, bool aligned) {
        const i64 widths[] = {i64(sizeof(Out)), i64(sizeof(In))...};
        for (u64 first = first_element() * ITEMS; first < count; first += element_step() * ITEMS) {
            if (aligned && first + ITEMS <= count) {
                pack(operands, numbers, first, Inputs());
                continue;
            }
            for (u64 element = first; element < count && element < first + ITEMS; element++) {
                i64 offsets[N];
                for (int n = 0; n < N; n++) {
                    offsets[n] = i64(element) * widths[n];
                }
                one(operands, numbers, offsets, Inputs());
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

} // namespace rushlight
