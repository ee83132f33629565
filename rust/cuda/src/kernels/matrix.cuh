// Products of small matrices of halves by the threads of a warp, which hold the elements in registers: `a` of 16 rows and 16
// columns, `b` of 16 rows and 8 columns, and sums of 16 rows and 8 columns in `f32`.
//
// Devices have instructions for them since compute capability 8.0. On the CPU the same registers are read by shuffles. With
// `row = lane / 4` and `pair = lane % 4 * 2`, and the first of two halves in the lower bits, a lane holds
//
// | Register | Elements |
// |---|---|
// | `a[0]`, `a[1]` | the columns `pair` and `pair + 1` of the rows `row` and `row + 8` |
// | `a[2]`, `a[3]` | the columns `pair + 8` and `pair + 9` of the same rows |
// | `b[0]`, `b[1]` | the rows `pair` and `pair + 1`, and the rows `pair + 8` and `pair + 9`, of the column `row` |
// | `sums[0]`, `sums[1]` | the columns `pair` and `pair + 1` of the row `row` |
// | `sums[2]`, `sums[3]` | the same columns of the row `row + 8` |
//
// This is the layout of `mma.m16n8k16` in the reference of PTX.

#pragma once

#include "elementary.cuh"
#include "geometry.cuh"

namespace rushlight {

/// The rows and the columns of `a`.
constexpr int MATRIX = 16;

/// What a lane has of the rows of its warp, and the row of four matrices whose address it gives: of these the second
/// one is below the first one, or beside it.
struct Lane {
    const int warp = int(threadIdx.x) / WARP, lane = int(threadIdx.x) % WARP;
    const int row = lane / 4, column = lane % 4 * 2;
    const int below_row = lane % 16, below_column = lane / 16 * 8;
    const int beside_row = lane / 16 * 8 + lane % 8, beside_column = lane / 8 % 2 * 8;
};

#ifdef __CUDACC__

DEVICE u32 shared_address(const void* at) { return u32(__cvta_generic_to_shared(at)); }

/// Begins to copy 16 bytes to shared memory, or zeros.
DEVICE void begin_copy(u16* to, const u8* from, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(inside ? 16 : 0)
                 : "memory");
}

/// Waits for the copies that this thread has begun.
DEVICE void await_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

/// Loads four matrices of 8 rows and 8 columns. Each lane has the address of a row: the first eight lanes those of the first
/// matrix. A register holds the columns `pair` and `pair + 1` of the row `row`.
DEVICE void load_matrices(u32 (&to)[4], const u16* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/// The same with the matrices transposed: a register holds the rows `pair` and `pair + 1` of the column `row`.
DEVICE void load_transposed(u32 (&to)[4], const u16* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/// Adds a product to the sums.
template <class T> DEVICE void add_product(f32 (&sums)[4], const u32 (&a)[4], u32 first, u32 second) {
    if constexpr (same<T, f16>) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(first), "r"(second));
    } else {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(first), "r"(second));
    }
}

/// Two numbers rounded to halves.
template <class T> DEVICE u32 pair_of(f32 first, f32 second) {
    u32 both;
    if constexpr (same<T, f16>) {
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
    } else {
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
    }
    return both;
}

/// A power of two with an error of two units in the last place. Subnormal results are zero.
DEVICE f32 quick_exp2(f32 x) {
    f32 y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#else

DEVICE void begin_copy(u16* to, const u8* from, bool inside) { __pipeline_memcpy_async(to, from, 16, inside ? 0 : 16); }
DEVICE void await_copies() {
    __pipeline_commit();
    __pipeline_wait_prior(0);
}

DEVICE void load_matrices(u32 (&to)[4], const u16* row) {
    const int lane = int(threadIdx.x) % WARP;
    for (int n = 0; n < 4; n++) {
        const u16* const at = (const u16*)__shfl_sync(~0u, u64(row), n * 8 + lane / 4) + lane % 4 * 2;
        to[n] = at[0] | u32(at[1]) << 16;
    }
}

DEVICE void load_transposed(u32 (&to)[4], const u16* row) {
    const int lane = int(threadIdx.x) % WARP;
    for (int n = 0; n < 4; n++) {
        const u16* const first = (const u16*)__shfl_sync(~0u, u64(row), n * 8 + lane % 4 * 2);
        const u16* const second = (const u16*)__shfl_sync(~0u, u64(row), n * 8 + lane % 4 * 2 + 1);
        to[n] = first[lane / 4] | u32(second[lane / 4]) << 16;
    }
}

template <class T> DEVICE void add_product(f32 (&sums)[4], const u32 (&a)[4], u32 first, u32 second) {
    const int lane = int(threadIdx.x) % WARP, row = lane / 4, pair = lane % 4 * 2;
    // The lanes that hold the same row or column have a quarter of its elements each.
    for (int quarter = 0; quarter < 4; quarter++) {
        u32 left[4], right[2][2];
        for (int n = 0; n < 4; n++) {
            left[n] = __shfl_sync(~0u, a[n], row * 4 + quarter);
        }
        for (int column = 0; column < 2; column++) {
            right[column][0] = __shfl_sync(~0u, first, (pair + column) * 4 + quarter);
            right[column][1] = __shfl_sync(~0u, second, (pair + column) * 4 + quarter);
        }
        for (int n = 0; n < 16; n++) {
            const int below = n / 8, column = n / 4 % 2, half = n / 2 % 2, shift = n % 2 * 16;
            sums[below * 2 + column] += to_f32(T{u16(left[below + half * 2] >> shift)}) *
                                        to_f32(T{u16(right[column][half] >> shift)});
        }
    }
}

template <class T> DEVICE u32 pair_of(f32 first, f32 second) {
    return to_bits(convert<T>(first)) | u32(to_bits(convert<T>(second))) << 16;
}

DEVICE f32 quick_exp2(f32 x) { return exp2(x); }

#endif

} // namespace rushlight
