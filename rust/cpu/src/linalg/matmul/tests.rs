//! The product against a naive one: every type, layout and path, and the same bits on any number of threads.

use super::{GemmElement, Matrices, Product, Sum, gemm};
use half::{bf16, f16};
use num_complex::Complex;
use rushlight_simd::{Level, set_level};
use std::sync::{Mutex, PoisonError};

/// A small generator, so that failures can be repeated.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }
    fn below(&mut self, n: usize) -> usize {
        self.next() as usize % n
    }
}

/// An element as an exact complex number, and the allowed error of a result.
trait Checked: GemmElement + PartialEq + std::fmt::Debug {
    /// Error of one rounding of a sum, and of the final rounding; zero where results are exact.
    const ERROR: (f64, f64);
    fn random(random: &mut Random) -> Self;
    fn exact(self) -> Complex<f64>;
    fn scale(by: i32) -> Self::Sum;
}

macro_rules! checked {
    ($($t:ty, $error:expr, $make:expr, $exact:expr, $scale:expr;)*) => {$(
        impl Checked for $t {
            const ERROR: (f64, f64) = $error;
            fn random(random: &mut Random) -> Self {
                let (re, im) = (random.below(2001) as i32 - 1000, random.below(2001) as i32 - 1000);
                $make(re, im)
            }
            fn exact(self) -> Complex<f64> { $exact(self) }
            fn scale(by: i32) -> Self::Sum { $scale(by) }
        }
    )*};
}

const F32: f64 = f32::EPSILON as f64;
checked! {
    f32, (F32, F32), |re, _| re as f32 / 331.0, |x| Complex::from(x as f64), |s| s as f32;
    f64, (f64::EPSILON, f64::EPSILON), |re, _| re as f64 / 331.0, Complex::from, |s| s as f64;
    f16, (F32, 1.0 / 1024.0), |re, _| f16::from_f32(re as f32 / 331.0), |x: f16| Complex::from(x.to_f64()), |s| s as f32;
    bf16, (F32, 1.0 / 128.0), |re, _| bf16::from_f32(re as f32 / 331.0), |x: bf16| Complex::from(x.to_f64()), |s| s as f32;
    Complex<f32>, (F32, F32), |re, im| Complex::new(re as f32 / 331.0, im as f32 / 331.0),
        |x: Complex<f32>| Complex::new(x.re as f64, x.im as f64), |s| Complex::new(s as f32, 0.0);
    Complex<f64>, (f64::EPSILON, f64::EPSILON), |re, im| Complex::new(re as f64 / 331.0, im as f64 / 331.0),
        |x| x, |s| Complex::new(s as f64, 0.0);
    i8, (0.0, 0.0), |re, _| re as i8, |x| Complex::from(x as f64), |s| s;
    i16, (0.0, 0.0), |re, _| re as i16, |x| Complex::from(x as f64), |s| s;
    u8, (0.0, 0.0), |re, _| re as u8, |x| Complex::from(x as f64), |s| s;
    i32, (0.0, 0.0), |re, _| re * 77777, |x| Complex::from(x as f64), |s| s;
    i64, (0.0, 0.0), |re, _| re as i64 * 7777777777777, |x| Complex::from(x as f64), |s| s as i64;
}

/// A matrix with memory around it and any strides.
struct Owned<T> {
    data: Vec<T>,
    start: usize,
    strides: (isize, isize),
}

impl<T: Checked> Owned<T> {
    /// Layout 0 is row-major; the others are column-major, padded, reversed, repeated and spread out.
    fn new(random: &mut Random, rows: usize, cols: usize, layout: usize) -> Self {
        let (r, c) = (rows as isize, cols as isize);
        let strides = match layout {
            0 => (c, 1),
            1 => (1, r),
            2 => (c + 3, 1),
            3 => (-c, 1),
            4 => (1, -r),
            5 => (2 * c + 1, 2),
            6 => (0, 1),
            _ => (1, 0),
        };
        let span = |n: usize, s: isize| (n.max(1) - 1) as isize * s;
        let (down, right) = (span(rows, strides.0), span(cols, strides.1));
        let start = -(down.min(0) + right.min(0));
        let len = start + down.max(0) + right.max(0) + 1;
        Owned { data: (0..len).map(|_| T::random(random)).collect(), start: start as usize, strides }
    }

    fn index(&self, i: usize, j: usize) -> usize {
        (self.start as isize + i as isize * self.strides.0 + j as isize * self.strides.1) as usize
    }

    fn at(&self, i: usize, j: usize) -> T {
        self.data[self.index(i, j)]
    }

    fn source(&self) -> Matrices<*const T> {
        let ptr = self.data[self.start..].as_ptr();
        Matrices { ptr, batch_stride: 0, row_stride: self.strides.0, col_stride: self.strides.1 }
    }

    fn target(&mut self) -> Matrices<*mut T> {
        let ptr = self.data[self.start..].as_mut_ptr();
        Matrices { ptr, batch_stride: 0, row_stride: self.strides.0, col_stride: self.strides.1 }
    }
}

/// One product with the layouts of A, B, C and the addend, checked element by element.
fn check<T: Checked>(m: usize, n: usize, k: usize, layouts: [usize; 4], scales: (i32, Option<i32>)) {
    let mut random = Random((m * 31 + n * 7 + k) as u64);
    let a = Owned::<T>::new(&mut random, m, k, layouts[0]);
    let b = Owned::<T>::new(&mut random, k, n, layouts[1]);
    let mut c = Owned::<T>::new(&mut random, m, n, layouts[2]);
    let d = Owned::<T>::new(&mut random, m, n, layouts[3]);
    let (alpha, beta) = (T::scale(scales.0), scales.1.map(T::scale));
    let product = Product {
        batch: 1,
        m,
        n,
        k,
        alpha,
        a: a.source(),
        b: b.source(),
        addend: beta.map(|beta| (beta, d.source())),
        c: c.target(),
    };
    // SAFETY: the matrices cover the product, and C does not overlap the others.
    unsafe { gemm(&product).unwrap() };
    for i in 0..m {
        for j in 0..n {
            let got = c.at(i, j);
            if T::ERROR.0 == 0.0 {
                let sum = (0..k).fold(T::Sum::ZERO, |s, p| s.plus(a.at(i, p).widen().times(b.at(p, j).widen())));
                let sum = alpha.times(sum);
                let want = T::narrow(beta.map_or(sum, |beta| sum.plus(beta.times(d.at(i, j).widen()))));
                assert_eq!(got, want, "{m}x{n}x{k} {layouts:?} at {i},{j}");
                continue;
            }
            let (mut want, mut size) = (Complex::from(0.0), 0.0);
            for p in 0..k {
                let term = a.at(i, p).exact() * b.at(p, j).exact() * scales.0 as f64;
                (want, size) = (want + term, size + term.norm());
            }
            if let Some(beta) = scales.1 {
                let term = d.at(i, j).exact() * beta as f64;
                (want, size) = (want + term, size + term.norm());
            }
            let allowed = size * T::ERROR.0 * (k as f64 + 8.0) + want.norm() * T::ERROR.1;
            let off = (got.exact() - want).norm();
            assert!(off <= allowed, "{m}x{n}x{k} {layouts:?} {scales:?} at {i},{j}: {got:?} is not {want}");
        }
    }
}

/// Every path and edge for one type.
fn check_all<T: Checked>() {
    let mut random = Random(1);
    let sizes = [1, 2, 3, 4, 5, 6, 7, 13, 14, 15, 16, 17, 29, 31, 32, 33, 64, 65];
    for round in 0..120 {
        let [m, n, k] = std::array::from_fn(|_| sizes[random.below(sizes.len())]);
        let layouts = std::array::from_fn(|i| random.below(if i == 2 { 6 } else { 8 }));
        let alpha = [1, 1, 1, -2][round % 4];
        let beta = [None, Some(1), Some(3)][random.below(3)];
        check::<T>(m, n, k, layouts, (alpha, beta));
    }
    for (m, n, k) in
        [(3, 5, 255), (40, 70, 257), (15, 33, 513), (1, 70, 300), (70, 1, 300), (4, 9, 129), (250, 530, 20)]
    {
        for (a, b) in [(0, 0), (0, 1), (1, 0), (1, 1), (3, 4), (5, 5)] {
            for c in [0, 1, 5] {
                check::<T>(m, n, k, [a, b, c, 6], (1, Some(1)));
                check::<T>(m, n, k, [a, b, c, 0], (1, None));
            }
        }
    }
}

/// Runs a test at each level of the machine, one test at a time, because the level is a setting of the process.
fn at_every_level(test: impl Fn()) {
    static LEVEL: Mutex<()> = Mutex::new(());
    let _one = LEVEL.lock().unwrap_or_else(PoisonError::into_inner);
    for level in [Level::Base, Level::V3, Level::V4] {
        if set_level(level) == level {
            test();
        }
    }
}

macro_rules! every_type {
    ($($name:ident: $t:ty;)*) => {$(#[test] fn $name() { at_every_level(check_all::<$t>) })*};
}
every_type! {
    f32_is_right: f32; f64_is_right: f64; f16_is_right: f16; bf16_is_right: bf16;
    complex64_is_right: Complex<f32>; complex128_is_right: Complex<f64>;
    i8_is_right: i8; i16_is_right: i16; u8_is_right: u8; i32_is_right: i32; i64_is_right: i64;
}

fn row_major<P>(ptr: P, rows: usize, cols: usize) -> Matrices<P> {
    Matrices { ptr, batch_stride: (rows * cols) as isize, row_stride: cols as isize, col_stride: 1 }
}

fn product<T: Checked>(batch: usize, a: &[T], b: &[T], c: &mut [T], [m, n, k]: [usize; 3]) {
    let (alpha, addend) = (T::scale(1), None);
    let (a, b) = (row_major(a.as_ptr(), m, k), row_major(b.as_ptr(), k, n));
    let c = row_major(c.as_mut_ptr(), m, n);
    // SAFETY: the slices were made for these sizes.
    unsafe { gemm(&Product { batch, m, n, k, alpha, a, b, addend, c }).unwrap() }
}

fn random_vec<T: Checked>(random: &mut Random, len: usize) -> Vec<T> {
    (0..len).map(|_| T::random(random)).collect()
}

fn same_bits<T: Checked>(batch: usize, [m, n, k]: [usize; 3]) {
    let mut random = Random(9);
    let (a, b) = (random_vec::<T>(&mut random, batch * m * k), random_vec::<T>(&mut random, batch * k * n));
    let before = rushlight_par::num_threads();
    let results = [1, 2, 3, 7].map(|threads| {
        rushlight_par::set_num_threads(threads);
        let mut c = random_vec::<T>(&mut random, batch * m * n);
        product(batch, &a, &b, &mut c, [m, n, k]);
        c
    });
    rushlight_par::set_num_threads(before);
    // Equal values are equal bits here: signed zeros and NaN do not occur.
    assert!(results.iter().all(|c| *c == results[0]), "{batch}x{m}x{n}x{k}");
}

#[test]
fn bits_do_not_depend_on_threads() {
    at_every_level(bits_at_one_level);
}

fn bits_at_one_level() {
    for size in [[128, 128, 128], [301, 299, 300], [64, 128, 784], [17, 2000, 600], [2000, 17, 600], [1, 1000, 3000]] {
        same_bits::<f32>(1, size);
        same_bits::<f64>(1, size);
        same_bits::<bf16>(1, size);
        same_bits::<Complex<f32>>(1, size);
    }
    same_bits::<f32>(1, [1, 3, 200_000]);
    same_bits::<f32>(1, [4, 1, 200_000]);
    same_bits::<f32>(64, [33, 31, 65]);
    same_bits::<f32>(29, [160, 170, 160]);
}

#[test]
fn a_batch_is_its_items() {
    at_every_level(batch_at_one_level);
}

fn batch_at_one_level() {
    let mut random = Random(4);
    for (batch, size) in [(3, [5, 6, 7]), (40, [32, 32, 32]), (2, [200, 180, 190])] {
        let [m, n, k] = size;
        let (a, b) = (random_vec::<f32>(&mut random, batch * m * k), random_vec::<f32>(&mut random, batch * k * n));
        let mut c = vec![f32::NAN; batch * m * n];
        product(batch, &a, &b, &mut c, size);
        for i in 0..batch {
            let mut one = vec![0.0; m * n];
            product(1, &a[i * m * k..], &b[i * k * n..], &mut one, size);
            assert_eq!(c[i * m * n..][..m * n], one);
        }
        // One B for all items, which makes one tall product.
        let (pa, pc) = (row_major(a.as_ptr(), m, k), row_major(c.as_mut_ptr(), m, n));
        let pb = Matrices { batch_stride: 0, ..row_major(b.as_ptr(), k, n) };
        // SAFETY: as in `product`.
        unsafe { gemm(&Product { batch, m, n, k, alpha: 1.0, a: pa, b: pb, addend: None, c: pc }).unwrap() };
        for i in 0..batch {
            let mut one = vec![0.0; m * n];
            product(1, &a[i * m * k..], &b, &mut one, size);
            let item = &c[i * m * n..][..m * n];
            assert!(item.iter().zip(&one).all(|(x, y)| (x - y).abs() <= 1e-3 * y.abs().max(1.0)));
        }
    }
}

#[test]
fn nothing_to_sum_or_to_write() {
    let (mut c, bias) = ([f32::NAN; 6], [1.0f32, 2.0, 3.0]);
    product::<f32>(1, &[], &[], &mut c, [2, 3, 0]);
    assert_eq!(c, [0.0; 6]);
    let none = row_major(std::ptr::null(), 0, 0);
    let addend = Some((2.0, Matrices { ptr: bias.as_ptr(), batch_stride: 0, row_stride: 0, col_stride: 1 }));
    let target = row_major(c.as_mut_ptr(), 2, 3);
    // SAFETY: `k` is zero, so A and B are not read.
    unsafe { gemm(&Product { batch: 1, m: 2, n: 3, k: 0, alpha: 1.0, a: none, b: none, addend, c: target }).unwrap() };
    assert_eq!(c, [2.0, 4.0, 6.0, 2.0, 4.0, 6.0]);
    product::<f32>(1, &[1.0; 4], &[], &mut [], [4, 0, 1]);
    product::<f32>(0, &[], &[], &mut [], [4, 4, 4]);
    let mut large = vec![f32::NAN; 200 * 300];
    product::<f32>(1, &[], &[], &mut large, [200, 300, 0]);
    assert!(large.iter().all(|x| *x == 0.0));
}

#[test]
fn a_beta_of_zero_does_not_read_c() {
    for size in [4, 20, 100] {
        let (a, mut c) = (vec![1.0f32; size * size], vec![f32::NAN; size * size]);
        let (operand, target) = (row_major(a.as_ptr(), size, size), row_major(c.as_mut_ptr(), size, size));
        let addend = Some((0.0, row_major(target.ptr.cast_const(), size, size)));
        let (m, n, k) = (size, size, size);
        // SAFETY: the addend is C itself, which is allowed.
        unsafe { gemm(&Product { batch: 1, m, n, k, alpha: 1.0, a: operand, b: operand, addend, c: target }).unwrap() };
        assert!(c.iter().all(|x| *x == size as f32));
    }
}

fn not_finite<T: Checked>(nan: T, infinity: T, zero: T, is_nan: impl Fn(T) -> bool, is_infinite: impl Fn(T) -> bool) {
    for size in [3, 17, 40, 130] {
        let mut random = Random(2);
        let one = T::narrow(T::Sum::ONE);
        let mut a = vec![one; size * size];
        let mut b = random_vec::<T>(&mut random, size * size);
        b.iter_mut().for_each(|x| *x = one);
        (a[size], a[2 * size]) = (nan, infinity);
        b[1] = zero;
        let mut c = vec![zero; size * size];
        product(1, &a, &b, &mut c, [size; 3]);
        for i in 0..size {
            for j in 0..size {
                let (x, case) = (c[i * size + j], (size, i, j));
                assert_eq!(is_nan(x), i == 1 || (i == 2 && j == 1), "{case:?}");
                assert_eq!(is_infinite(x), i == 2 && j != 1, "{case:?}");
            }
        }
    }
}

#[test]
fn nan_and_infinity_spread_as_ieee_says() {
    at_every_level(not_finite_at_one_level);
}

fn not_finite_at_one_level() {
    not_finite(f32::NAN, f32::INFINITY, 0.0, f32::is_nan, f32::is_infinite);
    not_finite(f64::NAN, f64::INFINITY, 0.0, f64::is_nan, f64::is_infinite);
    not_finite(f16::NAN, f16::INFINITY, f16::ZERO, f16::is_nan, f16::is_infinite);
    not_finite(bf16::NAN, bf16::INFINITY, bf16::ZERO, bf16::is_nan, bf16::is_infinite);
}

#[test]
fn half_conversions_are_exact() {
    for bits in 0..=u16::MAX {
        let (h, b) = (f16::from_bits(bits), bf16::from_bits(bits));
        assert!(h.widen() == h.to_f32() || h.is_nan() && h.widen().is_nan());
        assert!(b.widen() == b.to_f32() || b.is_nan() && b.widen().is_nan());
    }
    let mut random = Random(6);
    for _ in 0..2_000_000 {
        let x = f32::from_bits((random.next() << 16 ^ random.next()) as u32);
        let (h, b) = (f16::narrow(x), bf16::narrow(x));
        assert!(h.to_bits() == f16::from_f32(x).to_bits() || x.is_nan() && h.is_nan(), "{x:e}");
        assert!(b.to_bits() == bf16::from_f32(x).to_bits() || x.is_nan() && b.is_nan(), "{x:e}");
    }
}
