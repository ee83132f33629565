//! Compares device functions with the CPU's loops. The generated header is compiled for the CPU, and each of its functions is
//! called with special values and random samples. The results must have the same bits.
//!
//! `LIMITS` lists the exceptions with their bounds and reasons.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use libloading::{Library, Symbol};
use rushlight::table::OPERATORS;
use rushlight::{DType, Scalar};
use rushlight_core::dtype::c128;
use rushlight_core::{Element, dispatch};
use rushlight_cpu::folds::FoldExpressions;
use rushlight_cpu::loops::Expression;
use rushlight_cpu::pointwise::InnerLoop;
use rushlight_cpu::reduce::Fold;
use rushlight_cuda::kernels::{function_name, type_name};
use rushlight_dispatch::operator::Implementation;

/// A function, and the loop that it must agree with.
struct Case {
    op: &'static str,
    dtype: DType,
    expression: &'static Expression,
    inner_loop: InnerLoop,
}

impl Case {
    fn name(&self) -> String {
        function_name(self.op, self.dtype)
    }

    fn result(&self) -> DType {
        self.expression.result.unwrap_or(self.dtype)
    }

    /// A C function that calls the device function for `n` elements.
    fn wrapper(&self) -> String {
        let (element, result, name) = (type_name(self.dtype), type_name(self.result()), self.name());
        let operands = (0..self.expression.operands.len()).map(|n| format!("static_cast<const T*>(inputs[{n}])[i]"));
        let first = self.expression.numbers.len();
        let numbers = (0..first).map(|n| format!("numbers[{n}]"));
        let optional = (0..self.expression.optional.len())
            .map(|n| format!("Option<T>{{count > {0}, count > {0} ? numbers[{0}] : T()}}", first + n));
        let arguments = operands.chain(numbers).chain(optional).collect::<Vec<_>>().join(", ");
        format!(
            "extern \"C\" void loop_{name}(void* out, const void* const* inputs, usize n, const void* given, usize count) {{\n    \
             using T = {element};\n    auto numbers = static_cast<const T*>(given);\n    (void)numbers; (void)count;\n    \
             for (usize i = 0; i < n; i++) static_cast<{result}*>(out)[i] = pointwise::{name}({arguments});\n}}\n"
        )
    }
}

fn cases() -> Vec<Case> {
    let pointwise = OPERATORS.iter().filter_map(|op| match &op.implementation {
        Implementation::Pointwise(body) => Some((*op, body.loops)),
        _ => None,
    });
    let mut cases = Vec::new();
    for (op, loops) in pointwise.chain(rushlight::pointwise::complex::LOOPS) {
        for expression in loops.expressions {
            for &dtype in expression.dtypes {
                let inner_loop = (loops.cpu)(dtype).expect("an expression has a loop");
                cases.push(Case { op: op.name, dtype, expression, inner_loop });
            }
        }
    }
    cases
}

/// Compiles the wrappers in a few pieces side by side.
fn compiled(wrappers: &[String]) -> Vec<Library> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cuda/src/kernels");
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let pieces = wrappers.chunks(wrappers.len().div_ceil(4)).enumerate().map(|(n, part)| {
        let (source, object) = (folder.join(format!("rows_{n}.cpp")), folder.join(format!("rows_{n}.so")));
        let text = format!(
            "#include <cmath>\n#include <cstring>\n#include \"expressions.cuh\"\nusing namespace rushlight;\n{}",
            part.concat()
        );
        std::fs::write(&source, text).expect("a file in the folder of the tests");
        let mut command = Command::new(&compiler);
        command.args([
            "-std=c++17",
            "-O1",
            "-ffp-contract=off",
            "-shared",
            "-fPIC",
            "-Wall",
            "-Werror",
            "-Wno-parentheses",
        ]);
        // Without the instruction a sum of a product is a call.
        #[cfg(target_arch = "x86_64")]
        command.arg("-mfma");
        command.arg("-I").arg(&kernels).arg("-o").arg(&object).arg(&source);
        let child = command.spawn().unwrap_or_else(|error| panic!("the C++ compiler {compiler}: {error}"));
        (child, object)
    });
    let pieces: Vec<_> = pieces.collect();
    let finished = pieces.into_iter().map(|(mut child, object)| {
        assert!(child.wait().expect("the compiler ends").success(), "the device functions do not compile");
        // SAFETY: the library was just made of functions without initialisers.
        unsafe { Library::new(object) }.expect("what was just compiled")
    });
    finished.collect()
}

/// A function of the libraries.
fn symbol<'a, F>(libraries: &'a [Library], name: &str) -> Symbol<'a, F> {
    // SAFETY: the wrappers were written with the signatures that the callers ask for.
    let found = libraries.iter().find_map(|library| unsafe { library.get(name.as_bytes()) }.ok());
    found.unwrap_or_else(|| panic!("{name} was not compiled"))
}

/// A stream of bits that is the same in every run.
struct Bits(u64);

impl Bits {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number between 0 and 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Where floats have their edges.
fn special_floats(dtype: DType) -> Vec<f64> {
    let (tiny, small, huge) = match dtype {
        DType::F16 => (6e-8, 6.103515625e-5, 65504.0),
        DType::F32 | DType::C64 => (1e-45, f64::from(f32::MIN_POSITIVE), f64::from(f32::MAX)),
        DType::BF16 => (9.2e-41, f64::from(f32::MIN_POSITIVE), 3.3895313892515355e38),
        _ => (5e-324, f64::MIN_POSITIVE, f64::MAX),
    };
    let sizes = [
        0.0,
        tiny,
        small * 0.5,
        small,
        1e-20,
        1e-8,
        0.1,
        0.25,
        0.5,
        1.0 - 1.0 / 4096.0,
        1.0,
        1.5,
        2.0,
        2.5,
        3.0,
        6.0,
        7.0,
        10.0,
        25.5,
        88.0,
        104.0,
        710.0,
        1e6,
        3e9,
        1e20,
        huge * 0.5,
        huge,
        f64::INFINITY,
    ];
    sizes.into_iter().flat_map(|size| [size, -size]).chain([f64::NAN]).collect()
}

fn special_integers(dtype: DType) -> Vec<i128> {
    let bits = 8 * dtype.size() as u32;
    let (low, high) = if dtype.signed() != dtype || dtype == DType::U8 {
        (0, (1i128 << bits) - 1)
    } else {
        (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
    };
    let all = [
        low,
        low + 1,
        low / 2,
        -7,
        -3,
        -2,
        -1,
        0,
        1,
        2,
        3,
        4,
        5,
        7,
        8,
        12,
        31,
        33,
        63,
        64,
        100,
        high / 2,
        high - 1,
        high,
    ];
    all.into_iter().filter(|value| (low..=high).contains(value)).collect()
}

/// Special values first, then samples: of all bits, and of ordinary sizes.
fn values(dtype: DType, bits: &mut Bits, samples: usize) -> Vec<Scalar> {
    let float = |bits: &mut Bits, n: usize| match n % 4 {
        0 if dtype == DType::F64 || dtype == DType::C128 => f64::from_bits(bits.next()),
        0 => f64::from(f32::from_bits(bits.next() as u32)),
        1 => bits.unit() * 2.0 - 1.0,
        2 => bits.unit() * 12.0,
        _ => (bits.unit() - 0.5) * 200.0,
    };
    if dtype.is_complex() {
        let parts = special_floats(dtype);
        let pairs = parts.iter().flat_map(|&re| parts.iter().step_by(3).map(move |&im| (re, im)));
        let mut all: Vec<_> = pairs.map(|(re, im)| Scalar::Complex(c128::new(re, im))).collect();
        all.extend((0..samples).map(|n| Scalar::Complex(c128::new(float(bits, n), float(bits, n / 2)))));
        return all;
    }
    if dtype.is_floating() {
        let mut all: Vec<_> = special_floats(dtype).into_iter().map(Scalar::Float).collect();
        all.extend((0..samples).map(|n| Scalar::Float(float(bits, n))));
        return all;
    }
    if dtype == DType::Bool {
        return vec![Scalar::Bool(false), Scalar::Bool(true)];
    }
    let mut all: Vec<_> = special_integers(dtype).into_iter().map(|value| Scalar::Int(value as i64)).collect();
    all.extend((0..samples).map(|n| Scalar::Int(bits.next() as i64 >> (n % 64))));
    all
}

/// The arguments of a call: operands by column, and the operator's numbers.
struct Call {
    operands: Vec<Vec<Scalar>>,
    numbers: Vec<Scalar>,
}

fn calls(case: &Case, bits: &mut Bits) -> Vec<Call> {
    let width = case.expression.operands.len();
    let specials = values(case.dtype, bits, 0);
    let pool = values(case.dtype, bits, 1500);
    let count = case.expression.numbers.len() + case.expression.optional.len();
    let pick = |from: &[Scalar], bits: &mut Bits| from[bits.next() as usize % from.len()];
    let tuples =
        |all: usize, bits: &mut Bits| -> Vec<Vec<Scalar>> {
            let mut rows: Vec<Vec<Scalar>> = match width {
                1 => pool.iter().map(|&value| vec![value]).collect(),
                2 if specials.len() < 100 => {
                    specials.iter().flat_map(|&x| specials.iter().map(move |&y| vec![x, y])).collect()
                }
                _ => Vec::new(),
            };
            rows.extend((0..all).map(|n| {
                (0..width).map(|_| if n % 3 == 0 { pick(&specials, bits) } else { pick(&pool, bits) }).collect()
            }));
            for row in &mut rows {
                limit_degree(case, row);
            }
            (0..width).map(|column| rows.iter().map(|row| row[column]).collect()).collect()
        };
    if count == 0 {
        return vec![Call { operands: tuples(3000, bits), numbers: Vec::new() }];
    }
    let draw = |bits: &mut Bits, n: usize| -> Vec<Scalar> {
        // A number that may be absent is so in every third call.
        let given = if n.is_multiple_of(3) { case.expression.numbers.len() } else { count };
        (0..given).map(|_| if n.is_multiple_of(2) { pick(&specials, bits) } else { pick(&pool, bits) }).collect()
    };
    let exponents = [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0].map(|number| vec![Scalar::Float(number); count]);
    let drawn = (0..20).map(|n| draw(bits, n)).collect::<Vec<_>>();
    let numbers = drawn.into_iter().chain(exponents.into_iter().filter(|_| case.dtype.is_differentiable()));
    numbers.map(|numbers| Call { operands: tuples(300, bits), numbers }).collect()
}

/// Polynomials of a high degree take a step for each, so that a few are enough.
fn limit_degree(case: &Case, row: &mut [Scalar]) {
    if case.op.contains("polynomial") && row[1].f64().abs() > 300.0 && row[1].f64().is_finite() {
        row[1] = Scalar::Float(row[1].f64() % 50.0);
    }
}

/// The elements of a dtype, one after another.
fn bytes(values: &[Scalar], dtype: DType) -> Vec<u128> {
    let mut memory = vec![0u128; (values.len() * dtype.size()).div_ceil(16).max(1)];
    dispatch!(dtype, T in all => for (n, &value) in values.iter().enumerate() {
        // SAFETY: there is room for all values, and `u128` is aligned for every dtype.
        unsafe { memory.as_mut_ptr().cast::<T>().add(n).write(T::from_scalar(value)) }
    });
    memory
}

/// How many numbers lie between two; NaN equals NaN, and zeros of two signs are far apart.
fn distance(a: &[u8], b: &[u8], dtype: DType) -> u64 {
    let apart = |a: f64, b: f64, a_bits: i64, b_bits: i64| match (a.is_nan(), b.is_nan()) {
        (true, true) => 0,
        (false, false) if a_bits == b_bits => 0,
        (false, false) if a != b => {
            let place = |value: f64, bits: i64| if value < 0.0 { -bits } else { bits };
            place(a, a_bits).abs_diff(place(b, b_bits))
        }
        _ => u64::MAX,
    };
    match dtype {
        DType::F32 | DType::C64 => (a.chunks(4).zip(b.chunks(4)))
            .map(|(a, b)| {
                let [a, b] = [a, b].map(|part| f32::from_le_bytes(part.try_into().expect("four bytes")));
                let size = |value: f32| {
                    i64::from(value.to_bits() & 0x7fff_ffff) | i64::from(value == 0.0 && value.is_sign_negative()) << 40
                };
                apart(a.into(), b.into(), size(a), size(b))
            })
            .max()
            .unwrap_or(0),
        DType::F64 | DType::C128 => (a.chunks(8).zip(b.chunks(8)))
            .map(|(a, b)| {
                let [a, b] = [a, b].map(|part| f64::from_le_bytes(part.try_into().expect("eight bytes")));
                let size = |value: f64| {
                    (value.to_bits() & !(1 << 63)) as i64 | i64::from(value == 0.0 && value.is_sign_negative()) << 62
                };
                apart(a, b, size(a), size(b))
            })
            .max()
            .unwrap_or(0),
        DType::F16 | DType::BF16 => {
            let [x, y] = [a, b].map(|part| u16::from_le_bytes([part[0], part[1]]));
            let nan = |bits: u16| bits & 0x7fff > if dtype == DType::F16 { 0x7c00 } else { 0x7f80 };
            if x == y || nan(x) && nan(y) { 0 } else { u64::MAX }
        }
        _ => {
            if a == b {
                0
            } else {
                u64::MAX
            }
        }
    }
}

fn view(memory: &[u128]) -> Vec<u8> {
    memory.iter().flat_map(|word| word.to_le_bytes()).collect()
}

impl Case {
    /// The largest distance, and where it was found.
    fn compare(&self, libraries: &[Library]) -> (u64, String) {
        type Device = unsafe extern "C" fn(*mut u8, *const *const u8, usize, *const u8, usize);
        let device: Device = *symbol(libraries, &format!("loop_{}", self.name()));
        let mut bits = Bits(0x9e37_79b9_7f4a_7c15);
        let (mut worst, mut place) = (0, String::new());
        for call in calls(self, &mut bits) {
            let n = call.operands[0].len();
            let columns: Vec<Vec<u128>> = call.operands.iter().map(|column| bytes(column, self.dtype)).collect();
            let inputs: Vec<*const u8> = columns.iter().map(|column| column.as_ptr().cast()).collect();
            let given = bytes(&call.numbers, self.dtype);
            let width = self.result().size();
            let [mut host, mut found] = [(); 2].map(|()| vec![0u128; (n * width).div_ceil(16)]);
            // SAFETY: `n` elements behind each pointer, and room for as many results.
            unsafe {
                (self.inner_loop)(host.as_mut_ptr().cast(), inputs.as_ptr(), n, &call.numbers);
                device(found.as_mut_ptr().cast(), inputs.as_ptr(), n, given.as_ptr().cast(), call.numbers.len());
            }
            let (host, found) = (view(&host), view(&found));
            for (i, (host, found)) in host.chunks(width).zip(found.chunks(width)).take(n).enumerate() {
                let far = distance(host, found, self.result());
                if far > worst {
                    worst = far;
                    let arguments: Vec<_> = call.operands.iter().map(|column| column[i]).collect();
                    let [host, found] = [host, found].map(|element| {
                        dispatch!(self.result(), T in all => {
                            // SAFETY: an element of the result's dtype.
                            format!("{:?}", unsafe { element.as_ptr().cast::<T>().read_unaligned() })
                        })
                    });
                    place = format!("{arguments:?} with {:?} gives {host} on the CPU and {found}", call.numbers);
                }
            }
        }
        (worst, place)
    }
}

/// A fold's functions, and the kernels that they must agree with.
struct FoldCase {
    name: &'static str,
    dtype: DType,
    expressions: &'static FoldExpressions,
    fold: Fold,
}

/// How many operators a fold is tested with, and how many elements each has.
const ROWS_OF_FOLDS: (usize, usize) = (300, 8);

impl FoldCase {
    /// A C function that folds operators, joins each with another, and ends.
    fn wrapper(&self) -> String {
        let part = |part: &str| function_name(&format!("{}.{part}", self.name), self.dtype);
        let accumulator = self.expressions.accumulator.unwrap_or(self.dtype);
        let (element, result) = (type_name(self.dtype), type_name(self.fold.gives[0]));
        let numbers = |count: usize| (0..count).map(|n| format!(", numbers[{n}]")).collect::<String>();
        format!(
            "extern \"C\" void fold_{}(const {element}* data, usize rows, usize n, const f64* numbers, {result}* results) {{\n    \
             using A = {};\n    auto row = [=](usize r) {{\n        A sum = folds::{}();\n        \
             for (usize i = 0; i < n; i++) sum = folds::{}(sum, data[r * n + i]{});\n        return sum;\n    }};\n    (void)numbers;\n    \
             for (usize r = 0; r < rows; r++) results[r] = folds::{}(folds::{}(row(r), row(rows - 1 - r)), 2 * n{});\n}}\n",
            function_name(self.name, self.dtype),
            type_name(accumulator),
            part("start"),
            part("take"),
            numbers(self.expressions.take.numbers.len()),
            part("done"),
            part("join"),
            numbers(self.expressions.done.numbers.len()),
        )
    }

    fn compare(&self, libraries: &[Library]) -> u64 {
        type Device = unsafe extern "C" fn(*const u8, usize, usize, *const f64, *mut u8);
        let (rows, n) = ROWS_OF_FOLDS;
        let mut bits = Bits(0x9e37_79b9_7f4a_7c15);
        let ordinary = values(self.dtype, &mut bits, rows * n);
        // The last operators have special values too.
        let special = values(self.dtype, &mut bits, 0);
        let drawn: Vec<Scalar> = (0..rows * n)
            .map(|i| match i > rows * n / 2 && bits.next().is_multiple_of(8) {
                true => special[bits.next() as usize % special.len()],
                false => ordinary[ordinary.len() - 1 - i % ordinary.len()],
            })
            .collect();
        let data = bytes(&drawn, self.dtype);
        let numbers = [2.5];
        let (width, result) = (self.fold.width, self.fold.gives[0]);
        let [mut host, mut found] = [(); 2].map(|()| vec![0u128; (rows * result.size()).div_ceil(16)]);
        let mut accumulators = vec![0u128; (rows * width).div_ceil(16)];
        let short = self.fold.short.expect("folds made of expressions fold short rows");
        let device: Device = *symbol(libraries, &format!("fold_{}", function_name(self.name, self.dtype)));
        // SAFETY: operators of `n` elements, and room for as many accumulators and results.
        unsafe {
            let step = (n * self.dtype.size()) as isize;
            short(accumulators.as_mut_ptr().cast(), data.as_ptr().cast(), step, rows, n, &numbers);
            let mut later = accumulators.clone();
            for r in 0..rows {
                let from = accumulators.as_ptr().cast::<u8>().add((rows - 1 - r) * width);
                std::ptr::copy_nonoverlapping(from, later.as_mut_ptr().cast::<u8>().add(r * width), width);
            }
            (self.fold.join)(accumulators.as_mut_ptr().cast(), later.as_ptr().cast(), rows);
            let outs = [host.as_mut_ptr().cast(), std::ptr::null_mut()];
            (self.fold.done)(outs.as_ptr(), accumulators.as_ptr().cast(), rows, 2 * n, &numbers);
            device(data.as_ptr().cast(), rows, n, numbers.as_ptr(), found.as_mut_ptr().cast());
        }
        let [host, found] = [host, found].map(|memory| view(&memory));
        let size = result.size();
        let each = host.chunks(size).zip(found.chunks(size)).take(rows);
        each.map(|(host, found)| distance(host, found, result)).max().unwrap_or(0)
    }
}

fn fold_cases() -> Vec<FoldCase> {
    let mut cases = Vec::new();
    for folds in rushlight::reduce::FOLDS {
        let name = folds.name;
        for expressions in folds.expressions {
            for &dtype in expressions.dtypes {
                let fold = (folds.cpu)(dtype).expect("expressions have kernels");
                cases.push(FoldCase { name, dtype, expressions, fold });
            }
        }
    }
    cases
}

/// Functions with other bits than the loops: the largest distance in units in the last place, and why.
const LIMITS: [(&str, u64, &str); 3] = [
    (
        "lgamma_f64",
        1 << 16,
        "the crate libm and the platform's library lose different digits beside zeros of the function",
    ),
    ("igamma", 1 << 16, "the exponential of a sum with lgamma magnifies its errors"),
    ("fold norm", 8, "short rows are folded by loops for the base instruction set, which round products"),
];

fn limit(name: &str) -> u64 {
    let listed = LIMITS.iter().find(|(listed, ..)| name.starts_with(listed));
    listed.map_or(0, |(_, limit, _)| *limit)
}

#[test]
fn device_functions_agree_with_the_loops() {
    #[cfg(target_arch = "x86_64")]
    if !std::arch::is_x86_feature_detected!("fma") {
        // The loops of such a processor round twice where device functions round once.
        return;
    }
    let (cases, folds) = (cases(), fold_cases());
    let wrappers: Vec<String> = cases.iter().map(Case::wrapper).chain(folds.iter().map(FoldCase::wrapper)).collect();
    let libraries = compiled(&wrappers);
    let results = cases.iter().map(|case| (case.name(), case.compare(&libraries)));
    let of_folds = folds.iter().map(|case| {
        (format!("fold {}", function_name(case.name, case.dtype)), (case.compare(&libraries), String::new()))
    });
    let (mut same, mut near, mut all, mut wrong) = (0, 0, 0, String::new());
    for (name, (far, place)) in results.chain(of_folds) {
        all += 1;
        same += usize::from(far == 0);
        near += usize::from((1..=4).contains(&far));
        if far > 0 {
            println!("{name}: {far} {place}");
        }
        if far > limit(&name) {
            let _ = writeln!(wrong, "{name} differs by {far} units in the last place: {place}");
        }
    }
    println!("{all} functions: {same} with the same bits, {near} within 4 units in the last place");
    assert!(wrong.is_empty(), "{wrong}");
}
