//! Every function against references, at every level: `f64` against a table from mpmath (`tools/oracle.py`), `f32`
//! against `f64` functions over the bit patterns of all `f32`.

use super::{Isa, slices};
use crate::testing::for_each_level;
use crate::{Base, Level, convert, simd_loop};
use std::collections::BTreeMap;

type Loop1<T> = unsafe fn(*mut T, *const T, usize);
type Loop2<T> = unsafe fn(*mut T, *const T, *const T, usize);

macro_rules! unary {
    ($t:ty, $name:ident) => {
        simd_loop!(for<S> |dst: *mut $t, a: *const $t, n: usize| {
            for i in 0..n {
                // SAFETY: the callers below pass vectors of length n.
                unsafe { *dst.add(i) = S::$name(*a.add(i)) }
            }
        })
    };
}

macro_rules! binary {
    ($t:ty, $name:ident) => {
        simd_loop!(for<S> |dst: *mut $t, a: *const $t, b: *const $t, n: usize| {
            for i in 0..n {
                // SAFETY: the callers below pass vectors of length n.
                unsafe { *dst.add(i) = S::$name(*a.add(i), *b.add(i)) }
            }
        })
    };
}

/// A function of one argument: its loops, the largest error allowed in each precision, an independent reference.
struct Unary {
    name: &'static str,
    double: Loop1<f64>,
    single: Loop1<f32>,
    limit: f64,
    limit_32: f64,
    reference: fn(f64) -> f64,
}

macro_rules! unaries {
    ($($name:ident $limit:literal $limit_32:literal $reference:expr;)*) => {
        [$(Unary {
            name: stringify!($name),
            double: unary!(f64, $name),
            single: unary!(f32, $name),
            limit: $limit,
            limit_32: $limit_32,
            reference: $reference,
        }),*]
    };
}

fn unaries() -> Vec<Unary> {
    let mut all = Vec::from(unaries! {
        exp 1.0 1.0 libm::exp;
        exp2 1.0 1.0 libm::exp2;
        expm1 1.1 1.0 libm::expm1;
        sigmoid 2.0 2.4 |x| 1.0 / (1.0 + libm::exp(-x));
        sinh 2.0 1.0 libm::sinh;
        cosh 2.0 1.0 libm::cosh;
        tanh 2.0 1.1 libm::tanh;
        log 1.0 1.0 libm::log;
        log2 1.0 1.0 libm::log2;
        log10 1.0 1.0 libm::log10;
        log1p 1.1 1.0 libm::log1p;
        asinh 2.0 1.0 libm::asinh;
        acosh 2.0 1.0 |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) };
        atanh 2.0 1.1 libm::atanh;
        sin 1.0 1.0 libm::sin;
        cos 1.0 1.0 libm::cos;
        tan 2.0 1.0 libm::tan;
        asin 1.0 1.0 libm::asin;
        acos 1.0 1.0 libm::acos;
        atan 2.0 1.0 libm::atan;
        erf 1.0 1.1 libm::erf;
        erfc 3.0 1.0 libm::erfc;
        erfinv 3.5 1.0 |x| Base::erfinv(x);
        rsqrt 1.5 1.5 |x| 1.0 / x.sqrt();
        lgamma 3.0 1.0 libm::lgamma;
        digamma 64.0 1.0 |x| Base::digamma(x);
    });
    let loops: [(&str, Loop1<f64>, Loop1<f32>); 3] = [
        ("sin", slices::sin::<f64>, slices::sin::<f32>),
        ("cos", slices::cos::<f64>, slices::cos::<f32>),
        ("tan", slices::tan::<f64>, slices::tan::<f32>),
    ];
    for (name, double, single) in loops {
        let like = all.iter().find(|f| f.name == name).expect("listed above");
        all.push(Unary { double, single, name, ..*like });
    }
    all
}

/// Runs a loop over a vector.
fn map<T: Copy + Default>(f: Loop1<T>, a: &[T]) -> Vec<T> {
    let mut out = vec![T::default(); a.len()];
    // SAFETY: equal lengths.
    unsafe { f(out.as_mut_ptr(), a.as_ptr(), a.len()) };
    out
}

fn map2<T: Copy + Default>(f: Loop2<T>, a: &[T], b: &[T]) -> Vec<T> {
    let mut out = vec![T::default(); a.len()];
    // SAFETY: equal lengths.
    unsafe { f(out.as_mut_ptr(), a.as_ptr(), b.as_ptr(), a.len()) };
    out
}

/// The error of `got` in ulp; the true value is `want` plus `rest` units.
fn error(got: f64, want: f64, rest: f64) -> f64 {
    if got.is_nan() || got.is_sign_negative() != want.is_sign_negative() {
        return f64::INFINITY;
    }
    let steps = (got.abs().to_bits() as i64 - want.abs().to_bits() as i64) as f64;
    (steps - if want < 0.0 { -rest } else { rest }).abs()
}

/// The error of an `f32`, in its own units.
fn error_32(got: f32, want: f64) -> f64 {
    if got.is_nan() || want.is_nan() {
        return if got.is_nan() && want.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if got == want as f32 && (got.is_infinite() || got == 0.0) {
        return if got.is_sign_negative() == want.is_sign_negative() { 0.0 } else { f64::INFINITY };
    }
    let exponent = ((want.abs().to_bits() >> 52) as i32 - 1023).clamp(-126, 127);
    ((got as f64 - want) / 2f64.powi(exponent - 23)).abs()
}

/// The table of `tools/oracle.py`: function, arguments, nearest value, rest.
fn oracle() -> BTreeMap<String, Vec<(Vec<f64>, f64, f64)>> {
    let text = match std::env::var("RUSHLIGHT_ORACLE") {
        Ok(path) => std::fs::read_to_string(path).expect("the table named by RUSHLIGHT_ORACLE"),
        Err(_) => include_str!("oracle.txt").to_string(),
    };
    let mut table: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [name, floats @ .., rest] = &fields[..] else { panic!("short line {line}") };
        let mut floats: Vec<f64> =
            floats.iter().map(|f| f64::from_bits(u64::from_str_radix(f, 16).expect("hexadecimal"))).collect();
        let want = floats.pop().expect("a value");
        table.entry(name.to_string()).or_default().push((floats, want, rest.parse().expect("a number")));
    }
    table
}

/// The largest error of a function over its table, with the first argument where it occurs.
fn worst(got: &[f64], points: &[(Vec<f64>, f64, f64)]) -> (f64, f64) {
    let errors = got.iter().zip(points).map(|(&g, (x, want, rest))| (error(g, *want, *rest), x[0]));
    errors.fold((0.0, 0.0), |a, b| if b.0 > a.0 { b } else { a })
}

#[test]
fn double_precision_against_the_table() {
    let table = oracle();
    let mut wrong = Vec::new();
    for_each_level(|level| {
        let mut check = |name: &str, got: &[f64], limit: f64| {
            let (error, at) = worst(got, &table[name]);
            println!("{level:?} {name} {error:.3} ulp at {at:e}");
            if error > limit {
                wrong.push(format!("{level:?} {name}: {error:.3} ulp at {at:e}"));
            }
        };
        for f in unaries() {
            let x: Vec<f64> = table[f.name].iter().map(|p| p.0[0]).collect();
            check(f.name, &map(f.double, &x), f.limit);
        }
        let pairs: [(&str, Loop2<f64>, f64); 2] =
            [("pow", binary!(f64, pow), 1.0), ("atan2", binary!(f64, atan2), 2.0)];
        for (name, f, limit) in pairs {
            let x: Vec<f64> = table[name].iter().map(|p| p.0[0]).collect();
            let y: Vec<f64> = table[name].iter().map(|p| p.0[1]).collect();
            check(name, &map2(f, &x, &y), limit);
        }
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Sweeps the bit patterns `first, first + step, ...` of all `f32`, in runs, and checks the worst error of every
/// function.
fn sweep(first: usize, step: usize) {
    let mut wrong = Vec::new();
    for_each_level(|level| {
        for f in unaries() {
            let (mut worst, mut at) = (0.0, 0.0f32);
            let mut bits = (first..1 << 32).step_by(step).map(|b| f32::from_bits(b as u32)).peekable();
            while bits.peek().is_some() {
                let x: Vec<f32> = bits.by_ref().take(65536).collect();
                for (&x, got) in x.iter().zip(map(f.single, &x)) {
                    let error = error_32(got, (f.reference)(x as f64));
                    if error > worst {
                        (worst, at) = (error, x);
                    }
                }
            }
            println!("{level:?} {} {worst:.3} ulp at {at:e}", f.name);
            // Without FMA every step of a polynomial rounds twice.
            let limit = f.limit_32 + if level == Level::Base { 0.5 } else { 0.0 };
            if worst > limit {
                wrong.push(format!("{level:?} {}: {worst:.3} ulp at {at:e}", f.name));
            }
        }
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn single_precision_over_all_exponents() {
    sweep(7, 40_009);
}

#[test]
#[ignore = "all 2^32 arguments of every function at every level take hours"]
fn single_precision_everywhere() {
    sweep(0, 1);
}

#[test]
#[ignore = "a bench: prints nanoseconds per element, run with --nocapture"]
fn speed() {
    /// The best of many runs over a block that stays in the first-level cache.
    fn time(mut run: impl FnMut()) -> f64 {
        let best = (0..200).map(|_| {
            let start = std::time::Instant::now();
            run();
            start.elapsed().as_secs_f64()
        });
        best.fold(f64::INFINITY, f64::min) * 1e9 / 1024.0
    }
    println!("{:18} {:>24} {:>24}", "ns/element", "f32 base, v3, v4", "f64 base, v3, v4");
    let argument = |name: &str, i: usize| if name == "acosh" { 1.0 } else { 0.0 } + (i as f64 + 0.5) / 1024.0;
    let mut lines = BTreeMap::new();
    for_each_level(|_| {
        let mut note = |name: &str, single: f64, double: f64| {
            let line: &mut (String, String) = lines.entry(name.to_string()).or_default();
            line.0 += &format!("{single:8.2}");
            line.1 += &format!("{double:8.2}");
        };
        for (i, f) in unaries().iter().enumerate() {
            let a: Vec<f64> = (0..1024).map(|i| argument(f.name, i)).collect();
            let a32: Vec<f32> = a.iter().map(|&x| x as f32).collect();
            let (mut out, mut out32) = (a.clone(), a32.clone());
            // SAFETY: equal lengths.
            let double = time(|| unsafe { (f.double)(out.as_mut_ptr(), a.as_ptr(), 1024) });
            // SAFETY: equal lengths.
            let single = time(|| unsafe { (f.single)(out32.as_mut_ptr(), a32.as_ptr(), 1024) });
            note(&format!("{}{}", f.name, if i >= 26 { "[]" } else { "" }), single, double);
        }
        let a: Vec<f64> = (0..1024).map(|i| argument("", i) + 0.5).collect();
        let a32: Vec<f32> = a.iter().map(|&x| x as f32).collect();
        let (mut out, mut out32) = (a.clone(), a32.clone());
        let (pow, pow32) = (binary!(f64, pow), binary!(f32, pow));
        // SAFETY: equal lengths.
        let double = time(|| unsafe { pow(out.as_mut_ptr(), a.as_ptr(), a.as_ptr(), 1024) });
        // SAFETY: equal lengths.
        let single = time(|| unsafe { pow32(out32.as_mut_ptr(), a32.as_ptr(), a32.as_ptr(), 1024) });
        note("pow", single, double);
        let (mut h, mut b) = (vec![half::f16::ONE; 1024], vec![half::bf16::ONE; 1024]);
        // SAFETY: equal lengths.
        let widen = time(|| unsafe { convert::f16_to_f32(out32.as_mut_ptr(), h.as_ptr(), 1024) });
        // SAFETY: equal lengths.
        let narrow = time(|| unsafe { convert::f32_to_f16(h.as_mut_ptr(), a32.as_ptr(), 1024) });
        note("f16 to, from f32", widen, narrow);
        // SAFETY: equal lengths.
        let widen = time(|| unsafe { convert::bf16_to_f32(out32.as_mut_ptr(), b.as_ptr(), 1024) });
        // SAFETY: equal lengths.
        let narrow = time(|| unsafe { convert::f32_to_bf16(b.as_mut_ptr(), a32.as_ptr(), 1024) });
        note("bf16 to, from f32", widen, narrow);
    });
    for (name, (single, double)) in lines {
        println!("{name:18} {single:>24} {double:>24}");
    }
}

/// Special values; functions of two arguments are tested with every pair.
const SPECIAL: [f64; 23] = [
    0.0,
    5e-324,
    1e-310,
    1e-45,
    1e-40,
    0.25,
    0.5,
    1.0,
    1.5,
    2.0,
    3.0,
    5.0,
    1000.0,
    16777215.0,
    16777217.0,
    4503599627370497.0,
    9007199254740991.0,
    9007199254740994.0,
    1e30,
    3.4028234663852886e38,
    1e300,
    f64::MAX,
    f64::INFINITY,
];

fn specials() -> Vec<f64> {
    SPECIAL.iter().flat_map(|&x| [x, -x]).chain([f64::NAN]).collect()
}

/// Equal, or both NaN, or finite and close; zeros must have the same sign.
fn agree(got: f64, want: f64, relative: f64) -> bool {
    let close = (got - want).abs() <= relative * want.abs() + 1e-307 && want != 0.0;
    got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()) || close
}

#[test]
fn special_values_of_one_argument() {
    let doubles = specials();
    let singles: Vec<f32> = doubles.iter().map(|&x| x as f32).collect();
    for_each_level(|level| {
        for f in unaries().iter().filter(|f| f.name != "erfinv" && f.name != "digamma") {
            for (x, got) in doubles.iter().zip(map(f.double, &doubles)) {
                let want = (f.reference)(*x);
                // libm's lgamma and the reference for sigmoid underflow differently for large arguments.
                assert!(agree(got, want, 1e-14), "{level:?} {}({x:e}) = {got:e}, not {want:e}", f.name);
            }
            for (x, got) in singles.iter().zip(map(f.single, &singles)) {
                let want = (f.reference)(*x as f64);
                assert!(error_32(got, want) <= f.limit_32, "{level:?} {}({x:e}) = {got:e}, not {want:e}", f.name);
            }
        }
    });
}

#[test]
fn the_normal_distribution_errs_little_beside_one() {
    let x: Vec<f32> = (-120_000..=120_000).map(|i| i as f32 / 1e4).collect();
    let wide: Vec<f64> = x.iter().map(|&x| x.into()).collect();
    let exact: Vec<f64> = wide.iter().map(|x| 0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)).collect();
    for_each_level(|level| {
        for (i, got) in map(unary!(f32, ndtr), &x).into_iter().enumerate() {
            assert!((f64::from(got) - exact[i]).abs() < 1.3e-7, "{level:?}: {got} for {}", x[i]);
        }
        for (i, got) in map(unary!(f64, ndtr), &wide).into_iter().enumerate() {
            assert!((got - exact[i]).abs() < 2e-16, "{level:?}: {got} for {}", x[i]);
        }
        let ends = map(unary!(f32, ndtr), &[f32::NEG_INFINITY, f32::INFINITY, f32::NAN]);
        assert!(ends[0] == 0.0 && ends[1] == 1.0 && ends[2].is_nan(), "{level:?}: {ends:?}");
    });
}

#[test]
fn expm1_is_infinite_far_out() {
    const INF: f64 = f64::INFINITY;
    for_each_level(|_| {
        let far = map(unary!(f64, expm1), &[INF, 1e300, 1000.0, 710.1, 709.9, -INF]);
        assert_eq!(far, [INF, INF, INF, INF, INF, -1.0]);
    });
}

/// scipy's and torch's values, where libm has no such function.
#[test]
fn special_values_of_erfinv_and_digamma() {
    const INF: f64 = f64::INFINITY;
    for_each_level(|_| {
        let erfinv = map(unary!(f64, erfinv), &[1.0, -1.0, 0.0, -0.0, 1.5, -INF, f64::NAN]);
        assert_eq!(erfinv[..2], [INF, -INF]);
        assert_eq!(erfinv[2..4].iter().map(|y| y.to_bits()).collect::<Vec<_>>(), [0, 1 << 63]);
        assert!(erfinv[4..].iter().all(|y| y.is_nan()));
        let digamma = map(unary!(f64, digamma), &[0.0, -0.0, INF, 1.0, -0.5, -1.0, -INF, f64::NAN]);
        assert_eq!(digamma[..3], [-INF, INF, INF]);
        assert!((digamma[3] + 0.5772156649015329).abs() < 1e-15 && (digamma[4] - 0.03648997397857652).abs() < 1e-15);
        assert!(digamma[5..].iter().all(|y| y.is_nan()), "{digamma:?}");
    });
}

#[test]
fn special_values_of_two_arguments() {
    let all = specials();
    let a: Vec<f64> = all.iter().flat_map(|&x| vec![x; all.len()]).collect();
    let b: Vec<f64> = all.iter().cycle().take(a.len()).copied().collect();
    let (a32, b32): (Vec<f32>, Vec<f32>) = a.iter().zip(&b).map(|(&x, &y)| (x as f32, y as f32)).unzip();
    type Binary = (&'static str, Loop2<f64>, Loop2<f32>, fn(f64, f64) -> f64);
    let functions: [Binary; 2] = [
        ("pow", binary!(f64, pow), binary!(f32, pow), libm::pow),
        ("atan2", binary!(f64, atan2), binary!(f32, atan2), libm::atan2),
    ];
    for_each_level(|level| {
        for (name, double, single, reference) in functions {
            for (i, got) in map2(double, &a, &b).into_iter().enumerate() {
                let want = reference(a[i], b[i]);
                assert!(agree(got, want, 1e-14), "{level:?} {name}({:e}, {:e}) = {got:e}, not {want:e}", a[i], b[i]);
            }
            for (i, got) in map2(single, &a32, &b32).into_iter().enumerate() {
                let want = reference(a32[i] as f64, b32[i] as f64);
                assert!(
                    error_32(got, want) <= 1.0,
                    "{level:?} {name}({:e}, {:e}) = {got:e}, not {want:e}",
                    a32[i],
                    b32[i]
                );
            }
        }
    });
}

/// A multiplicative walk over pairs of all exponents.
#[test]
fn single_precision_of_two_arguments() {
    let mut state = 1u64;
    let mut draw = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 32) as u32
    };
    let a: Vec<f32> = (0..100_000).map(|_| f32::from_bits(draw())).collect();
    let b: Vec<f32> = a.iter().map(|x| 100.0 / x.abs().ln() * (draw() as f32 / 2f32.powi(31) - 1.0)).collect();
    for_each_level(|level| {
        let pow: (Loop2<f32>, fn(f64, f64) -> f64) = (binary!(f32, pow), libm::pow);
        for (f, reference) in [pow, (binary!(f32, atan2), libm::atan2)] {
            for (i, got) in map2(f, &a, &b).into_iter().enumerate() {
                let want = reference(a[i] as f64, b[i] as f64);
                assert!(error_32(got, want) <= 1.0, "{level:?} f({:e}, {:e}) = {got:e}, not {want:e}", a[i], b[i]);
            }
        }
    });
}
