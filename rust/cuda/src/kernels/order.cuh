// The order of elements along lines, which are rows of `n` elements: stable sorting, by integers that have the order of the
// elements. See `order.rs`.
//
// A block sorts short lines in its shared memory, as many of them as find room. Long lines are sorted by one byte of the integers
// after the other, from the lowest to the highest. A tile is the part of a line that a block takes. For each byte, one kernel counts
// its values in every tile, the counts are accumulated, and another kernel moves the elements behind all those with a lesser value
// and those of the same value in tiles before theirs.

#pragma once

#include "cumulative.cuh"

namespace rushlight {

/// The integer of an element. NaN is the greatest element, and zeros are equal.
template <class Key, class T> DEVICE Key sort_key(T x, bool descending) {
    constexpr Key SIGN = Key(1) << (8 * sizeof(T) - 1), ALL = SIGN | (SIGN - 1);
    Key key;
    if constexpr (floating<T> || is_half<T>) {
        const Key bits = to_bits(x);
        key = is_nan(x) ? ALL : bits == SIGN ? SIGN : bits & SIGN ? ALL ^ bits : bits | SIGN;
    } else {
        key = same<T, Bool> || T(-1) > T(0) ? Key(x) : (Key(x) ^ SIGN) & ALL;
    }
    return descending ? ALL ^ key : key;
}

/// The elements that a block sorts in shared memory.
constexpr u32 SORTED = 2048;

/// Sorts lines of at most 2^bits elements by a bitonic network. An element is compared by its integer and then by its place, so that
/// no two are equal; cells without an element come last.
template <class Key, class T> DEVICE void sort_lines(const u8* source, i64* places, u64 lines, u64 n, u32 bits, bool descending) {
    __shared__ Key keys[SORTED];
    __shared__ u16 own[SORTED];
    const u32 length = 1 << bits, together = SORTED >> bits;
    for (u64 first = u64(blockIdx.x) * together; first < lines; first += u64(gridDim.x) * together) {
        const auto is_element = [&](u32 cell) { return first + (cell >> bits) < lines && (cell & (length - 1)) < n; };
        const auto place_of = [&](u32 cell) { return (first + (cell >> bits)) * n + (cell & (length - 1)); };
        __syncthreads();
        for (u32 cell = threadIdx.x; cell < SORTED; cell += THREADS) {
            const bool given = is_element(cell);
            keys[cell] = given ? sort_key<Key>(load<T>(source + place_of(cell) * sizeof(T)), descending) : ~Key(0);
            own[cell] = u16(cell & (length - 1));
        }
        // The pairs of a warp are 64 adjacent cells, until they are further apart.
        u32 last = SORTED;
        for (u32 size = 2; size <= length; size *= 2) {
            for (u32 distance = size / 2; distance > 0; last = distance, distance /= 2) {
                if (distance > 32 || last > 32) {
                    __syncthreads();
                } else {
                    __syncwarp();
                }
                for (u32 pair = threadIdx.x; pair < SORTED / 2; pair += THREADS) {
                    const u32 low = 2 * pair - (pair & (distance - 1)), high = low + distance;
                    const bool up = !(low & size & (length - 1));
                    const Key a = keys[low], b = keys[high];
                    const u16 x = own[low], y = own[high];
                    if ((a < b || (a == b && x < y)) != up) {
                        keys[low] = b, keys[high] = a;
                        own[low] = y, own[high] = x;
                    }
                }
            }
        }
        __syncthreads();
        for (u32 cell = threadIdx.x; cell < SORTED; cell += THREADS) {
            if (is_element(cell)) {
                places[place_of(cell)] = own[cell];
            }
        }
    }
}

/// The elements at the places of their lines. A thread looks for several at once.
template <class T> DEVICE void take(const u8* source, const i64* places, u8* to, u64 count, u64 n) {
    constexpr int DEEP = 4;
    const u64 step = element_step();
    for (u64 first = first_element(); first < count; first += DEEP * step) {
        u64 from[DEEP];
        T items[DEEP];
#pragma unroll
        for (int item = 0; item < DEEP; item++) {
            const u64 at = first + item * step, line = count >> 32 ? at / n : u32(at) / u32(n);
            if (at < count) {
                from[item] = line * n + u64(places[at]);
            }
        }
#pragma unroll
        for (int item = 0; item < DEEP; item++) {
            if (first + item * step < count) {
                items[item] = ((const T*)source)[from[item]];
            }
        }
#pragma unroll
        for (int item = 0; item < DEEP; item++) {
            if (first + item * step < count) {
                ((T*)to)[first + item * step] = items[item];
            }
        }
    }
}

constexpr u32 DIGITS = 256;

/// Sorting by one byte, which begins at the bit `shift`. The first byte has elements instead of integers, and the places of the
/// last one are results. Counts are rows of lines, then of values, with one for each tile; they are accumulated before elements move.
template <class Key, class Index> struct Digits {
    const u8* source;
    const Key* keys;
    const Index* from;
    Key* keys_to;
    Index* to;
    i64* places;
    Index* counts;
    u64 lines, n, tiles;
    u32 shift, descending;

    /// The elements of a thread in a tile.
    static constexpr u32 WIDEST = sizeof(Key) > sizeof(Index) ? sizeof(Key) : sizeof(Index);
    static constexpr u32 ITEMS = 64 / WIDEST, TILE = THREADS * ITEMS;

    /// The integers of a thread's cells, 32 apart, of a tile whose cells begin at `start`. All are loaded before the first one is
    /// converted. Cells without an element have the greatest integer.
    template <class T> DEVICE void load_keys(Key (&own)[ITEMS], u64 start, u32 cell, u32 length) const {
        if (source) {
            typedef typename stored<T>::type Stored;
            const Stored* const at = (const Stored*)source + start + cell;
            Stored items[ITEMS];
#pragma unroll
            for (u32 item = 0; item < ITEMS; item++) {
                items[item] = cell + item * 32 < length ? at[item * 32] : Stored();
            }
#pragma unroll
            for (u32 item = 0; item < ITEMS; item++) {
                own[item] = cell + item * 32 < length ? sort_key<Key>(load<T>(&items[item]), descending) : ~Key(0);
            }
        } else {
#pragma unroll
            for (u32 item = 0; item < ITEMS; item++) {
                own[item] = cell + item * 32 < length ? keys[start + cell + item * 32] : ~Key(0);
            }
        }
    }
    /// A warp takes adjacent elements, 32 at a time.
    static DEVICE u32 first_cell() { return threadIdx.x / 32 * 32 * ITEMS + threadIdx.x % 32; }
    DEVICE u32 digit(Key key) const { return u32(key >> shift) & (DIGITS - 1); }
    /// The place of a tile's count of a value.
    DEVICE u64 count(u64 line, u32 digit, u64 tile) const { return (line * DIGITS + digit) * tiles + tile; }

    template <class T> DEVICE void count_tiles() const {
        __shared__ u32 found[DIGITS];
        for (u64 work = blockIdx.x; work < lines * tiles; work += gridDim.x) {
            const u64 line = work / tiles, tile = work % tiles, first = tile * TILE;
            const u32 length = n - first < TILE ? u32(n - first) : TILE;
            Key own[ITEMS];
            load_keys<T>(own, line * n + first, first_cell(), length);
            found[threadIdx.x] = 0;
            __syncthreads();
#pragma unroll
            for (u32 item = 0; item < ITEMS; item++) {
                if (first_cell() + item * 32 < length) {
                    atomicAdd(&found[digit(own[item])], 1u);
                }
            }
            __syncthreads();
            counts[count(line, threadIdx.x, tile)] = found[threadIdx.x];
        }
    }

    /// An element comes behind those of its value that its warp has seen, and those in lower lanes, which votes on the bits of the value
    /// find. Elements pass through shared memory in their new order, so that neighbouring threads write neighbouring ones.
    template <class T> DEVICE void move_tiles() const {
        __shared__ u32 seen[WARPS][DIGITS];
        __shared__ u32 sums[WARPS];
        __shared__ Index starts[DIGITS];
        __shared__ Key ordered[TILE];
        __shared__ Index moved[TILE];
        typedef CumulativeSum<u32, u32, u32, u32> Sum;
        const u32 warp = threadIdx.x / 32, lane = threadIdx.x & 31, own = first_cell();
        for (u64 work = blockIdx.x; work < lines * tiles; work += gridDim.x) {
            const u64 line = work / tiles, tile = work % tiles, first = tile * TILE, row = line * n;
            const u32 length = n - first < TILE ? u32(n - first) : TILE;
            Key own_keys[ITEMS];
            load_keys<T>(own_keys, row + first, own, length);
            u32 ranks[ITEMS];
            __syncthreads();
            for (u32 other = 0; other < WARPS; other++) {
                seen[other][threadIdx.x] = 0;
            }
            __syncthreads();
#pragma unroll
            for (u32 item = 0; item < ITEMS; item++) {
                const u32 value = digit(own_keys[item]);
                u32 peers = ~0u;
                for (u32 bit = 0; bit < 8; bit++) {
                    const u32 votes = __ballot_sync(~0u, value >> bit & 1);
                    peers &= value >> bit & 1 ? votes : ~votes;
                }
                const u32 lower = __popc(peers & ((1u << lane) - 1));
                ranks[item] = seen[warp][value] + lower;
                __syncwarp();
                if (lower == 0) {
                    seen[warp][value] += __popc(peers);
                }
                __syncwarp();
            }
            __syncthreads();
            u32 total = 0;
            for (u32 other = 0; other < WARPS; other++) {
                total += seen[other][threadIdx.x];
            }
            const u32 start = unwrap_or(before_thread<Sum>(total, THREADS, sums), 0u);
            for (u32 other = 0, before = start; other < WARPS; other++) {
                const u32 count = seen[other][threadIdx.x];
                seen[other][threadIdx.x] = before;
                before += count;
            }
            const u64 at = count(line, threadIdx.x, tile), begin = count(line, 0, 0);
            starts[threadIdx.x] = (at > begin ? counts[at - 1] : 0) - start;
            __syncthreads();
#pragma unroll
            for (u32 item = 0; item < ITEMS; item++) {
                ranks[item] += seen[warp][digit(own_keys[item])];
                if (own + item * 32 < length) {
                    ordered[ranks[item]] = own_keys[item];
                }
            }
            Index own_places[ITEMS];
#pragma unroll
            for (u32 item = 0; item < ITEMS; item++) {
                const u32 cell = own + item * 32;
                own_places[item] = from && cell < length ? from[row + first + cell] : Index(first + cell);
            }
#pragma unroll
            for (u32 item = 0; item < ITEMS; item++) {
                if (own + item * 32 < length) {
                    moved[ranks[item]] = own_places[item];
                }
            }
            __syncthreads();
            for (u32 cell = threadIdx.x; cell < length; cell += THREADS) {
                const Key key = ordered[cell];
                const u64 target = row + Index(starts[digit(key)] + cell);
                if (places) {
                    places[target] = moved[cell];
                } else {
                    keys_to[target] = key;
                    to[target] = moved[cell];
                }
            }
        }
    }
};

} // namespace rushlight
