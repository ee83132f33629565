//! The source of the device functions, and their names.
//!
//! An elementwise operator defines its computation once, in `rushlight_cpu::loops!`: `|x, y; alpha| x + alpha * y`. The macro
//! builds the CPU's loops from the expression and keeps its text. `cargo dev generate` translates the text into C++ and writes
//! one function for each operator and dtype into `expressions.cuh`:
//!
//! ```text
//! DEVICE f32 add_f32(f32 x, f32 y, f32 alpha) { return x + alpha * y; }
//! ```
//!
//! The expressions of a reduction (`rushlight_cpu::folds!`) become four functions each: `sum_start_f32`, `sum_take_f32`,
//! `sum_join_f32` and `sum_done_f32`.
//!
//! The translation uses only the syntax. A function has the same name in both languages: `S::exp(x)`, `x.sqrt()` and
//! `analytic::tan(z)` become calls of `exp`, `sqrt` and `analytic::tan`. `prelude.cuh` and the files that it includes define these
//! functions, for devices (NVRTC) and for the CPU (C++17). They perform the operations of the Rust functions in the same order, so
//! that both devices give the same bits, except where the platform's mathematical library is used (`libm` in `platform.cuh`).
//! Products and sums are not contracted (`--fmad=false`, `-ffp-contract=off`) unless the expression uses `mul_add`.
//!
//! | Rust | C++ |
//! |---|---|
//! | `f64`, `c64`, `Bool` | the same names |
//! | `T`, `A`, `O` | the type of the element, the accumulator, the result |
//! | `0.5` | `lit(0.5)`, which takes the type of the other operand |
//! | `if a { b } else { c }` | `a ? b : c`, or statements if a branch contains `let` |
//! | `let y = ..` | `const auto y_1 = ..` |
//! | `x as T`, `f64::from(x)` | `cast<f32>(x)`, `from<f64>(x)` |
//! | `x.f(y)`, `S::f(x, y)` | `f(x, y)` |
//! | `T::new(a, b)`, `T::INFINITY`, `T::from_bits(b)` | `c64(a, b)`, `infinity<f32>()`, `from_bits<f16>(b)` |
//! | `x % y`, `!x` | `rem(x, y)`, `complement(x)` |
//!
//! `cargo dev generate` rejects other syntax; the expression must be rewritten. If the prelude lacks a function, the tests fail
//! to compile. `rust/dev/tests/expressions.rs` compiles all functions for the CPU and compares their results with those of the CPU's
//! loops. `tests/cuda/test_kernels.py` compiles them for several device architectures.

use rushlight_core::DType;

/// The name of a dtype in the sources.
pub const fn type_name(dtype: DType) -> &'static str {
    match dtype {
        DType::U8 => "u8",
        DType::I8 => "i8",
        DType::I16 => "i16",
        DType::I32 => "i32",
        DType::I64 => "i64",
        DType::U16 => "u16",
        DType::U32 => "u32",
        DType::U64 => "u64",
        DType::F16 => "f16",
        DType::BF16 => "bf16",
        DType::F32 => "f32",
        DType::F64 => "f64",
        DType::C64 => "c64",
        DType::C128 => "c128",
        DType::Bool => "Bool",
        DType::C32 => "c32",
        DType::F8E5M2 => "f8e5m2",
        DType::F8E4M3Fn => "f8e4m3fn",
        DType::F8E5M2Fnuz => "f8e5m2fnuz",
        DType::F8E4M3Fnuz => "f8e4m3fnuz",
        DType::F8E8M0Fnu => "f8e8m0fnu",
    }
}

/// The name of an operator's function for a dtype of elements: `max_other_f32` for `max.other`.
pub fn function_name(operator: &str, dtype: DType) -> String {
    format!("{}_{}", operator.replace('.', "_"), type_name(dtype).to_lowercase())
}

/// The headers, by the names under which the sources include them.
pub const HEADERS: &[(&str, &str)] = &[
    ("angles.cuh", include_str!("angles.cuh")),
    ("attention.cuh", include_str!("attention.cuh")),
    ("attention_half.cuh", include_str!("attention_half.cuh")),
    ("attention_half_gradients.cuh", include_str!("attention_half_gradients.cuh")),
    ("base.cuh", include_str!("base.cuh")),
    ("bessel.cuh", include_str!("bessel.cuh")),
    ("complex.cuh", include_str!("complex.cuh")),
    ("convert.cuh", include_str!("convert.cuh")),
    ("convolution.cuh", include_str!("convolution.cuh")),
    ("counts.cuh", include_str!("counts.cuh")),
    ("ctc.cuh", include_str!("ctc.cuh")),
    ("cumulative.cuh", include_str!("cumulative.cuh")),
    ("distance.cuh", include_str!("distance.cuh")),
    ("elementary.cuh", include_str!("elementary.cuh")),
    ("elementwise.cuh", include_str!("elementwise.cuh")),
    ("float8.cuh", include_str!("float8.cuh")),
    ("fold.cuh", include_str!("fold.cuh")),
    ("frexp.cuh", include_str!("frexp.cuh")),
    ("geometry.cuh", include_str!("geometry.cuh")),
    ("half_square.cuh", include_str!("half_square.cuh")),
    ("half_tiles.cuh", include_str!("half_tiles.cuh")),
    ("indexed.cuh", include_str!("indexed.cuh")),
    ("integers.cuh", include_str!("integers.cuh")),
    ("matmul.cuh", include_str!("matmul.cuh")),
    ("matrix.cuh", include_str!("matrix.cuh")),
    ("mix.cuh", include_str!("mix.cuh")),
    ("nll.cuh", include_str!("nll.cuh")),
    ("nonzero.cuh", include_str!("nonzero.cuh")),
    ("normalize.cuh", include_str!("normalize.cuh")),
    ("optimizer.cuh", include_str!("optimizer.cuh")),
    ("order.cuh", include_str!("order.cuh")),
    ("pivots.cuh", include_str!("pivots.cuh")),
    ("platform.cuh", include_str!("platform.cuh")),
    ("pool.cuh", include_str!("pool.cuh")),
    ("prelude.cuh", include_str!("prelude.cuh")),
    ("random.cuh", include_str!("random.cuh")),
    ("ranges.cuh", include_str!("ranges.cuh")),
    ("recurrent.cuh", include_str!("recurrent.cuh")),
    ("reduce.cuh", include_str!("reduce.cuh")),
    ("rejection.cuh", include_str!("rejection.cuh")),
    ("search.cuh", include_str!("search.cuh")),
    ("softmax.cuh", include_str!("softmax.cuh")),
    ("special.cuh", include_str!("special.cuh")),
    ("tables.cuh", include_str!("tables.cuh")),
    ("taps.cuh", include_str!("taps.cuh")),
    ("tiles.cuh", include_str!("tiles.cuh")),
    ("unique.cuh", include_str!("unique.cuh")),
    ("warps.cuh", include_str!("warps.cuh")),
];

/// The functions of an operator or a fold in `expressions.cuh`: only they are compiled with a kernel. `namespace` is
/// `pointwise` or `folds`.
pub fn section(namespace: &str, name: &str) -> &'static str {
    const ALL: &str = include_str!("expressions.cuh");
    let within = ALL.split_once(&format!("namespace rushlight::{namespace} {{\n")).map_or("", |(_, rest)| rest);
    let own = within.split_once(&format!("\n// {name}\n")).map_or("", |(_, rest)| rest);
    let end = ["\n// ", "\n} // namespace"].into_iter().filter_map(|mark| own.find(mark)).min();
    end.map_or(own, |end| &own[..end])
}
