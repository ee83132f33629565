//! The innermost loop of the matrix product: one small tile of C held in registers.
//!
//! A tile is `R` rows by `NV` vectors. For each step of `k` the kernel loads one packed row of B (`NV` vectors),
//! broadcasts one element of each row of A and multiplies-and-adds. Every element of C is therefore the same chain of
//! additions wherever its tile lies, and so the product's bits do not depend on how C is divided among threads.
//!
//! `Lanes` abstracts the vector unit; [`portable`](Portable) arrays work on every machine and `x86.rs` has the
//! registers of AVX2 and AVX-512. `isa!` makes one module per level, each with the same functions compiled for that
//! level, collected in a table ([`Kernels`]).

use super::element::{Runs, Sum, Taps, Tile};
use std::marker::PhantomData;

/// Steps of `k` that are multiplied before the partial sums are written to C. The result's bits depend on it.
pub const fn k_steps<E>() -> usize {
    if size_of::<E>() == 8 { 256 } else { 384 }
}

/// How many rows ahead B is prefetched.
const AHEAD: isize = 12;

/// The distance between two packed rows of A: one cache line more than a block of `k`, so that rows do not map to the
/// same cache sets.
pub const fn a_stride<E>() -> usize {
    k_steps::<E>() + 64 / size_of::<E>()
}

/// A vector register of sums, and the operations on it.
pub trait Lanes {
    /// One packed element of A or B.
    type Elem: Copy;
    /// One sum.
    type Acc: Copy;
    /// A register.
    type V: Copy;
    /// The number of sums in a register.
    const WIDTH: usize;

    /// # Safety
    /// The machine has the level's instructions. This holds for all functions here.
    unsafe fn zero() -> Self::V;
    /// # Safety
    /// `p` points to `WIDTH` readable elements.
    unsafe fn load(p: *const Self::Elem) -> Self::V;
    /// # Safety
    /// `p` points to a readable element.
    unsafe fn splat(p: *const Self::Elem) -> Self::V;
    /// `acc + a * b`.
    ///
    /// # Safety
    /// Same as for the trait.
    unsafe fn mul_add(a: Self::V, b: Self::V, acc: Self::V) -> Self::V;
    /// Prefetches the cache line at `p`, if the machine can.
    #[inline(always)]
    fn prefetch<P>(p: *const P) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a hint that reads nothing; every x86-64 has it.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(p.cast());
        }
        let _ = p;
    }
    /// Writes the first `lanes` sums to `c`, or adds them to it.
    ///
    /// # Safety
    /// `c` points to `lanes` writable sums, initialised if `add`.
    unsafe fn store(v: Self::V, c: *mut Self::Acc, lanes: usize, add: bool);
}

/// # Safety
/// The tile's pointers cover `R` rows, `NV` vectors and `k` steps; the machine has the level.
#[inline(always)]
unsafe fn tile<L: Lanes, const R: usize, const NV: usize>(t: &Tile<L::Elem, L::Acc>) {
    // SAFETY: the caller's guarantee covers each access.
    unsafe {
        let mut acc = [[L::zero(); NV]; R];
        for r in 0..R {
            let c = t.c.wrapping_offset(r as isize * t.c_stride);
            for v in 0..NV {
                L::prefetch(c.wrapping_add(v * L::WIDTH));
            }
        }
        let (mut a, mut b) = (t.a, t.b);
        for _ in 0..t.k {
            let mut row = [L::zero(); NV];
            for v in 0..NV {
                row[v] = L::load(b.add(v * L::WIDTH));
            }
            for r in 0..R {
                let x = L::splat(a.offset(r as isize * t.a_stride));
                for v in 0..NV {
                    acc[r][v] = L::mul_add(x, row[v], acc[r][v]);
                }
            }
            // B is read from the second-level cache; the hint runs further ahead than the hardware prefetcher.
            for v in 0..NV {
                L::prefetch(b.wrapping_offset(AHEAD * t.b_stride).wrapping_add(v * L::WIDTH));
            }
            a = a.wrapping_add(1);
            b = b.wrapping_offset(t.b_stride);
        }
        for r in 0..R {
            let c = t.c.offset(r as isize * t.c_stride);
            for v in 0..NV {
                let lanes = t.cols.saturating_sub(v * L::WIDTH).min(L::WIDTH);
                if lanes > 0 {
                    L::store(acc[r][v], c.add(v * L::WIDTH), lanes, t.add);
                }
            }
        }
    }
}

/// # Safety
/// Same as for `tile`; the table has `k` entries, at each of which `NV` vectors can be read.
#[inline(always)]
unsafe fn taps<L: Lanes, const R: usize, const NV: usize>(t: &Taps<L::Elem, L::Acc>) {
    // SAFETY: the caller's guarantee covers each access.
    unsafe {
        let mut acc = [[L::zero(); NV]; R];
        let mut a = t.a;
        for k in 0..t.k {
            let b = t.b.offset(*t.steps.add(k));
            let mut row = [L::zero(); NV];
            for v in 0..NV {
                row[v] = L::load(b.add(v * L::WIDTH));
            }
            for r in 0..R {
                let x = L::splat(a.offset(r as isize * t.a_stride));
                for v in 0..NV {
                    acc[r][v] = L::mul_add(x, row[v], acc[r][v]);
                }
            }
            a = a.wrapping_add(1);
        }
        for r in 0..R {
            let c = t.c.offset(r as isize * t.c_stride);
            for v in 0..NV {
                L::store(acc[r][v], c.add(v * L::WIDTH), L::WIDTH, t.add);
            }
        }
    }
}

/// # Safety
/// Same as for `tile`; the table has `R` entries, at each of which the runs can be read.
#[inline(always)]
unsafe fn runs<L: Lanes, const R: usize, const NV: usize>(t: &Runs<L::Elem, L::Acc>) {
    // SAFETY: guaranteed by the caller (see `# Safety`) is the one each access needs.
    unsafe {
        let mut acc = [[L::zero(); NV]; R];
        let mut rows = [t.a; R];
        for r in 0..R {
            rows[r] = t.a.offset(*t.rows.add(r));
        }
        let (mut b, mut at) = (t.b, 0);
        for _ in 0..t.runs {
            for _ in 0..t.run {
                let mut row = [L::zero(); NV];
                for v in 0..NV {
                    row[v] = L::load(b.add(v * L::WIDTH));
                }
                for r in 0..R {
                    let x = L::splat(rows[r].add(at));
                    for v in 0..NV {
                        acc[r][v] = L::mul_add(x, row[v], acc[r][v]);
                    }
                }
                b = b.add(2 * L::WIDTH);
                at += 1;
            }
            at += t.jump;
        }
        for r in 0..R {
            let c = t.c.offset(r as isize * t.c_stride);
            for v in 0..NV {
                L::store(acc[r][v], c.add(v * L::WIDTH), L::WIDTH, t.add);
            }
        }
    }
}

/// One module per level: the same functions, compiled for the level's instructions.
macro_rules! isa {
    ($name:ident, $avx:literal, [$($rows:literal)*]) => {
        pub mod $name {
            use super::Lanes;
            use super::super::element::{
                Combine, Format, GemmElement, Kernels, Runs, RunsFn, Source, Taps, TapsFn, Tile, TileFn, Vector, VectorKernels,
            };

            rushlight_simd::instructions! { $name
                /// # Safety
                /// The machine has the module's features; the rest is the contract of the inner function.
                unsafe fn tile<L: Lanes, const R: usize, const NV: usize>(t: &Tile<L::Elem, L::Acc>) {
                    // SAFETY: guaranteed by the caller (see `# Safety`), as for all functions of this module.
                    unsafe { super::tile::<L, R, NV>(t) }
                }
            }
            rushlight_simd::instructions! { $name
                /// # Safety
                /// The machine has the module's features; the rest is the contract of the inner function.
                unsafe fn taps<L: Lanes, const R: usize, const NV: usize>(t: &Taps<L::Elem, L::Acc>) {
                    // SAFETY: as above.
                    unsafe { super::taps::<L, R, NV>(t) }
                }
            }
            rushlight_simd::instructions! { $name
                /// # Safety
                /// The machine has the module's features; the rest is the contract of the inner function.
                unsafe fn runs<L: Lanes, const R: usize, const NV: usize>(t: &Runs<L::Elem, L::Acc>) {
                    // SAFETY: as above.
                    unsafe { super::runs::<L, R, NV>(t) }
                }
            }
            rushlight_simd::instructions! { $name
                /// # Safety
                /// The machine has the module's features; the rest is the contract of the inner function.
                unsafe fn pack_a<F: Format>(src: &Source<F::T>, rows: usize, k: usize, dst: *mut F::Elem) {
                    // SAFETY: as above.
                    unsafe { F::pack_a::<$avx>(src, rows, k, dst) }
                }
            }
            rushlight_simd::instructions! { $name
                /// # Safety
                /// The machine has the module's features; the rest is the contract of the inner function.
                unsafe fn pack_b<F: Format>(src: &Source<F::T>, k: usize, cols: usize, width: usize, dst: *mut F::Elem) {
                    // SAFETY: as above.
                    unsafe { F::pack_b::<$avx>(src, k, cols, width, dst) }
                }
            }
            rushlight_simd::instructions! { $name
                /// # Safety
                /// The machine has the module's features; the rest is the contract of the inner function.
                unsafe fn combine<T: GemmElement>(job: &Combine<T>) {
                    // SAFETY: as above.
                    unsafe { job.run() }
                }
            }
            rushlight_simd::instructions! { $name
                /// # Safety
                /// The machine has the module's features; the rest is the contract of the inner function.
                unsafe fn dots<T: GemmElement, L: Lanes<Elem = T::Sum, Acc = T::Sum>>(job: &Vector<T>) {
                    // SAFETY: as above.
                    unsafe { job.dots::<L>() }
                }
            }
            rushlight_simd::instructions! { $name
                /// # Safety
                /// The machine has the module's features; the rest is the contract of the inner function.
                unsafe fn sums<T: GemmElement>(job: &Vector<T>) {
                    // SAFETY: as above.
                    unsafe { job.sums() }
                }
            }

            struct Tiles<L>(L);
            impl<L: Lanes + 'static> Tiles<L> {
                const ONE: &'static [TileFn<L::Elem, L::Acc>] = &[$(tile::<L, $rows, 1>),*];
                const TWO: &'static [TileFn<L::Elem, L::Acc>] = &[$(tile::<L, $rows, 2>),*];
                const TAPS_ONE: &'static [TapsFn<L::Elem, L::Acc>] = &[$(taps::<L, $rows, 1>),*];
                const TAPS_TWO: &'static [TapsFn<L::Elem, L::Acc>] = &[$(taps::<L, $rows, 2>),*];
                const RUNS_ONE: &'static [RunsFn<L::Elem, L::Acc>] = &[$(runs::<L, $rows, 1>),*];
                const RUNS_TWO: &'static [RunsFn<L::Elem, L::Acc>] = &[$(runs::<L, $rows, 2>),*];
            }

            /// The table of format `F`, with tiles of `L` and dot products in `D`.
            pub const fn kernels<F, L, D>() -> Kernels<F>
            where
                F: Format,
                L: Lanes<Elem = F::Elem, Acc = F::Acc> + 'static,
                D: Lanes<Elem = <F::T as GemmElement>::Sum, Acc = <F::T as GemmElement>::Sum>,
            {
                Kernels {
                    width: L::WIDTH,
                    tiles: [Tiles::<L>::ONE, Tiles::<L>::TWO],
                    taps: [Tiles::<L>::TAPS_ONE, Tiles::<L>::TAPS_TWO],
                    runs: [Tiles::<L>::RUNS_ONE, Tiles::<L>::RUNS_TWO],
                    pack_a: pack_a::<F>,
                    pack_b: pack_b::<F>,
                    combine: combine::<F::T>,
                    vector: VectorKernels { dots: dots::<F::T, D>, sums: sums::<F::T> },
                }
            }
        }
    };
}

isa!(base, false, [1 2 3 4 5 6]);
#[cfg(target_arch = "x86_64")]
isa!(v3, true, [1 2 3 4 5 6]);
#[cfg(target_arch = "x86_64")]
isa!(v4, true, [1 2 3 4 5 6 7 8 9 10 11 12 13 14]);
#[cfg(target_arch = "x86_64")]
isa!(v4_bf16, true, [1 2 3 4 5 6 7 8 9 10 11 12 13 14]);

/// A vector of `N` sums as an array, for machines and types without registers in `x86.rs`.
pub struct Portable<T, const N: usize>(PhantomData<T>);

impl<T: Sum, const N: usize> Lanes for Portable<T, N> {
    type Elem = T;
    type Acc = T;
    type V = [T; N];
    const WIDTH: usize = N;

    #[inline(always)]
    unsafe fn zero() -> [T; N] {
        [T::ZERO; N]
    }
    #[inline(always)]
    unsafe fn load(p: *const T) -> [T; N] {
        // SAFETY: the caller guarantees `N` readable elements.
        unsafe { p.cast::<[T; N]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn splat(p: *const T) -> [T; N] {
        // SAFETY: the caller guarantees a readable element.
        [unsafe { *p }; N]
    }
    #[inline(always)]
    unsafe fn mul_add(a: [T; N], b: [T; N], mut acc: [T; N]) -> [T; N] {
        for i in 0..N {
            acc[i] = acc[i].plus(a[i].times(b[i]));
        }
        acc
    }
    #[inline(always)]
    unsafe fn store(v: [T; N], c: *mut T, lanes: usize, add: bool) {
        for (i, x) in v.into_iter().enumerate().take(lanes) {
            // SAFETY: the caller guarantees `lanes` sums.
            unsafe { *c.add(i) = if add { (*c.add(i)).plus(x) } else { x } };
        }
    }
}
