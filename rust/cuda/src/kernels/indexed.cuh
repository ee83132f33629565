// Elements at positions that integers in memory give: reads, and writes in the order of the integers. See `indexed.rs`.

#pragma once

#include "geometry.cuh"
#include "tiles.cuh"

namespace rushlight {

/// Adds the bytes that indices stand for to the offsets at `to`, or begins them; without `to` indices are only checked. The
/// operands of the loops are a row-major list of eight bytes for each index, and the indices. `outside` becomes the first
/// position whose index is out of range; see `report`.
DEVICE void locate(u8* to, const u8* indices, u64 count, const Loops<2>& loops, i64 size, i64 step, bool wraps, bool begins,
                   u64* outside) {
    for (u64 element = first_element(); element < count; element += element_step()) {
        i64 offsets[2] = {};
        loops.move(element, offsets);
        const i64 value = load<i64>(indices + offsets[1]), index = wraps && value < 0 ? value + size : value;
        const bool inside = index >= 0 && index < size;
        if (!inside) {
            report(outside, u64(offsets[0]) / sizeof(i64));
        }
        if (to) {
            const i64 before = begins ? 0 : load<i64>(to + offsets[0]);
            store<i64>(to + offsets[0], before + (inside ? index * step : 0));
        }
    }
}

/// Copies elements from `scale` times an integer bytes further. The operands are the result, the source and the integers.
template <class T> DEVICE void read(const Pointers<3>& operands, u64 count, const Loops<3>& loops, i64 scale) {
    for (u64 element = first_element(); element < count; element += element_step()) {
        i64 offsets[3] = {};
        loops.move(element, offsets);
        const i64 index = load<i64>(operands.at[2] + offsets[2]);
        *(T*)(operands.at[0] + offsets[0]) = *(const T*)(operands.at[1] + offsets[1] + index * scale);
    }
}

/// How an element is merged with the one before, as in `rust/cpu/src/index/scatter.rs`; `C` is the type of the arithmetic.
struct Replaced {
    template <class C> static DEVICE C merge(C, C y) { return y; }
};
struct Added {
    template <class C> static DEVICE C merge(C x, C y) {
        if constexpr (same<C, Bool>) {
            return x || y;
        } else {
            return plus(x, y);
        }
    }
};
struct Multiplied {
    template <class C> static DEVICE C merge(C x, C y) {
        if constexpr (same<C, Bool>) {
            return x && y;
        } else {
            return times(x, y);
        }
    }
};
template <class C> constexpr bool has_order = !is_complex<C>;
struct Smallest {
    template <class C> static DEVICE C merge(C x, C y) {
        if constexpr (has_order<C>) {
            return x < y || x != x ? x : y;
        } else {
            return x;
        }
    }
};
struct Largest {
    template <class C> static DEVICE C merge(C x, C y) {
        if constexpr (has_order<C>) {
            return x > y || x != x ? x : y;
        } else {
            return x;
        }
    }
};

/// Merges elements into those at integers. A thread takes the elements of one column in their order, so that the result does
/// not depend on threads. The operands are the target, the values and the integers; `steps` lead along a column of the last two.
template <class Rule, class T, class C>
DEVICE void merge(const Pointers<3>& operands, u64 columns, const Loops<3>& loops, u64 length, i64 scale, i64 value_step,
                  i64 index_step) {
    for (u64 column = first_element(); column < columns; column += element_step()) {
        i64 offsets[3] = {};
        loops.move(column, offsets);
        for (i64 at = 0; at < i64(length); at++) {
            const i64 index = load<i64>(operands.at[2] + offsets[2] + at * index_step);
            u8* const to = operands.at[0] + offsets[0] + index * scale;
            const u8* const from = operands.at[1] + offsets[1] + at * value_step;
            if constexpr (same<Rule, Replaced>) {
                *(T*)to = *(const T*)from;
            } else {
                store<T>(to, Rule::template merge<C>(convert<C>(load<T>(to)), convert<C>(load<T>(from))));
            }
        }
    }
}

} // namespace rushlight
