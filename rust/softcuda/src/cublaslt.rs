//! The entry points of cuBLASLt that rushlight calls. NVIDIA's documentation of cuBLAS describes them.
//!
//! Every product is checked: the descriptions of its matrices, that they are those for which the algorithm was asked, ranges of
//! memory, alignments and the workspace. Long sums are divided where the caller permits it, and their parts go through the workspace.
//!
//! There are as many algorithms as `SOFTCUDA_BLAS_ALGORITHMS` names, by default one, the recommended one first: `90,10,wrong,refused` are
//! two that take 90 and 10 microseconds more than the product, one whose results are wrong, and one that is refused when it is called.
#![allow(non_snake_case, clippy::missing_safety_doc, clippy::too_many_arguments)]

use std::ffi::{c_int, c_uint, c_void};

use crate::driver::current;
use crate::dtype::DType;
use crate::library::{Enqueued, enqueue};
use crate::machine::{number, with};
use crate::products::{Matrix, Product};
use crate::status::SUCCESS;
use crate::streams::Library;

type Status = c_int;
const NOT_INITIALIZED: Status = 1;
const INVALID_VALUE: Status = 7;
const EXECUTION_FAILED: Status = 13;
const NOT_SUPPORTED: Status = 15;

const COMPUTE_32F: c_uint = 68;
const COMPUTE_64F: c_uint = 70;
const COMPUTE_TF32: c_uint = 77;
const EPILOGUE_DEFAULT: c_uint = 1;
const EPILOGUE_BIAS: c_uint = 4;
/// The bits of `cublasLtReductionScheme_t` for parts in the dtype of sums and in that of results.
const PARTS_OF_SUMS: c_uint = 2;
const PARTS_OF_RESULTS: c_uint = 4;
/// Sums of this length are divided.
const LONG: u64 = 64;

pub struct Handle {
    device: c_int,
}

/// `cublasLtMatmulDesc_t`.
#[derive(Clone, Copy)]
pub struct Operation {
    compute: c_uint,
    scale: c_uint,
    transposed: [c_uint; 2],
    epilogue: c_uint,
    bias: usize,
}

/// `cublasLtMatrixLayout_t`.
#[derive(Clone, Copy, PartialEq)]
pub struct Layout {
    data: c_uint,
    rows: u64,
    columns: u64,
    leading: i64,
    count: i32,
    step: i64,
}

/// `cublasLtMatmulPreference_t`.
#[derive(Clone, Copy)]
pub struct Preference {
    workspace: u64,
    reductions: c_uint,
    alignments: [c_uint; 4],
}

/// `cublasLtMatmulAlgo_t`, 64 bytes.
#[repr(C)]
pub struct Algorithm {
    /// Decides whether it belongs to a operation.
    digest: u64,
    alignments: [c_uint; 4],
    parts: u64,
    workspace: u64,
    /// Which of the algorithms it is.
    number: u64,
    rest: [u64; 2],
}

/// What an algorithm does beside its product.
#[derive(Clone, Copy, PartialEq)]
enum Habit {
    Takes(u64),
    IsWrong,
    IsRefused,
}

/// The algorithms that there are.
fn habits() -> Vec<Habit> {
    let text = std::env::var("SOFTCUDA_BLAS_ALGORITHMS").unwrap_or_else(|_| "0".into());
    let habit = |word: &str| match word {
        "wrong" => Habit::IsWrong,
        "refused" => Habit::IsRefused,
        time => Habit::Takes(time.parse().unwrap_or(0)),
    };
    text.split(',').map(habit).collect()
}

/// `cublasLtMatmulHeuristicResult_t`.
#[repr(C)]
pub struct Heuristic {
    algorithm: Algorithm,
    workspace: usize,
    state: Status,
    waves: f32,
    reserved: [c_int; 4],
}

/// Everything that an algorithm was asked for, in one number.
fn digest(operation: &Operation, layouts: [&Layout; 4]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (operation.compute, operation.scale, operation.transposed, operation.epilogue).hash(&mut hasher);
    for layout in layouts {
        (layout.data, layout.rows, layout.columns, layout.leading, layout.count, layout.step).hash(&mut hasher);
    }
    hasher.finish()
}

/// Reads an attribute of a type.
///
/// # Safety
/// `from` points to `bytes` bytes.
unsafe fn read<T: Copy>(from: *const c_void, bytes: usize, to: &mut T) -> Status {
    if bytes != size_of::<T>() {
        return INVALID_VALUE;
    }
    // SAFETY: guaranteed by the caller.
    *to = unsafe { from.cast::<T>().read_unaligned() };
    SUCCESS
}

/// Whether sums may be computed so, and the dtype of the factors of the product and of the addend belongs to it.
fn is_known(compute: c_uint, scale: c_uint) -> bool {
    match compute {
        COMPUTE_32F | COMPUTE_TF32 => [DType::R32, DType::C32].iter().any(|own| own.code() == scale),
        COMPUTE_64F => [DType::R64, DType::C64].iter().any(|own| own.code() == scale),
        _ => false,
    }
}

impl Layout {
    fn is_valid(&self) -> bool {
        let batched = self.count > 0 && self.step >= 0;
        DType::of(self.data).is_some()
            && self.rows > 0
            && self.columns > 0
            && self.leading >= self.rows as i64
            && batched
    }

    /// The elements from the first to the last one.
    fn extent(&self) -> u64 {
        let last = (self.columns - 1) * self.leading as u64 + (self.count as u64 - 1) * self.step as u64;
        last + self.rows
    }

    fn matrix(&self, address: usize, transposed: bool) -> Matrix {
        let strides = if transposed { [self.leading, 1] } else { [1, self.leading] };
        Matrix { address, strides, step: self.step }
    }
}

/// The length of the sums, if the matrices fit each other.
fn length(operation: &Operation, [a, b, c, d]: [&Layout; 4]) -> Option<u64> {
    let turned = |layout: &Layout, transposed: c_uint| match transposed {
        0 => Some((layout.rows, layout.columns)),
        1 => Some((layout.columns, layout.rows)),
        _ => None,
    };
    let ((m, k), (inner, n)) = (turned(a, operation.transposed[0])?, turned(b, operation.transposed[1])?);
    let counts = [a, b, c].iter().all(|layout| layout.count == d.count);
    // Results must not overlap.
    let apart = d.count == 1 || d.step as u64 >= (d.columns - 1) * d.leading as u64 + d.rows;
    let same = [a, b, c].iter().all(|layout| layout.data == d.data);
    let fits = k == inner && [(c.rows, c.columns), (d.rows, d.columns)] == [(m, n); 2];
    (fits && counts && apart && same).then_some(k)
}

/// Whether the library multiplies this dtype so.
fn is_supported(operation: &Operation, data: DType) -> bool {
    let scale = match data {
        DType::R16 | DType::B16 => DType::R32,
        other => other,
    };
    let bias = operation.epilogue == EPILOGUE_DEFAULT || !data.is_complex();
    let reduced = operation.compute != COMPUTE_TF32 || matches!(data, DType::R32 | DType::C32);
    operation.scale == scale.code() && bias && reduced
}

#[unsafe(no_mangle)]
pub extern "C" fn cublasLtGetVersion() -> usize {
    number("SOFTCUDA_BLAS_VERSION").unwrap_or(130_000) as usize
}

entries! {
    cublasLtCreate(handle: *mut *mut Handle) {
        let Ok(device) = current() else { return NOT_INITIALIZED };
        *handle = Box::into_raw(Box::new(Handle { device }));
        SUCCESS
    }

    cublasLtMatmulDescCreate(made: *mut *mut Operation, compute: c_uint, scale: c_uint) {
        if !is_known(compute, scale) { return INVALID_VALUE; }
        *made = Box::into_raw(Box::new(Operation { compute, scale, transposed: [0; 2], epilogue: EPILOGUE_DEFAULT, bias: 0 }));
        SUCCESS
    }

    cublasLtMatmulDescSetAttribute(operation: *mut Operation, attribute: c_uint, from: *const c_void, bytes: usize) {
        let operation = &mut *operation;
        match attribute {
            3 => read(from, bytes, &mut operation.transposed[0]),
            4 => read(from, bytes, &mut operation.transposed[1]),
            7 => read(from, bytes, &mut operation.epilogue),
            8 => read(from, bytes, &mut operation.bias),
            _ => INVALID_VALUE,
        }
    }

    cublasLtMatmulDescDestroy(operation: *mut Operation) { drop(Box::from_raw(operation)); SUCCESS }

    cublasLtMatrixLayoutCreate(made: *mut *mut Layout, data: c_uint, rows: u64, columns: u64, leading: i64) {
        *made = Box::into_raw(Box::new(Layout { data, rows, columns, leading, count: 1, step: 0 }));
        SUCCESS
    }

    cublasLtMatrixLayoutSetAttribute(layout: *mut Layout, attribute: c_uint, from: *const c_void, bytes: usize) {
        match attribute {
            5 => read(from, bytes, &mut (*layout).count),
            6 => read(from, bytes, &mut (*layout).step),
            _ => INVALID_VALUE,
        }
    }

    cublasLtMatrixLayoutDestroy(layout: *mut Layout) { drop(Box::from_raw(layout)); SUCCESS }

    cublasLtMatmulPreferenceCreate(made: *mut *mut Preference) {
        // Without preference addresses are taken to be multiples of 256.
        *made = Box::into_raw(Box::new(Preference { workspace: 0, reductions: 7, alignments: [256; 4] }));
        SUCCESS
    }

    cublasLtMatmulPreferenceSetAttribute(preference: *mut Preference, attribute: c_uint, from: *const c_void, bytes: usize) {
        let preference = &mut *preference;
        match attribute {
            1 => read(from, bytes, &mut preference.workspace),
            3 => read(from, bytes, &mut preference.reductions),
            5..=8 => read(from, bytes, &mut preference.alignments[attribute as usize - 5]),
            _ => INVALID_VALUE,
        }
    }

    cublasLtMatmulPreferenceDestroy(preference: *mut Preference) { drop(Box::from_raw(preference)); SUCCESS }

    cublasLtMatmulAlgoGetHeuristic(
        handle: *const Handle, operation: *const Operation, a: *const Layout, b: *const Layout, c: *const Layout, d: *const Layout,
        preference: *const Preference, wanted: c_int, heuristics: *mut Heuristic, count: *mut c_int
    ) {
        let (operation, preference, layouts) = (&*operation, &*preference, [&*a, &*b, &*c, &*d]);
        if handle.is_null() || wanted < 1 || !layouts.iter().all(|layout| layout.is_valid()) { return INVALID_VALUE; }
        *count = 0;
        let (Some(inner), Some(data)) = (length(operation, layouts), DType::of(layouts[3].data)) else { return INVALID_VALUE };
        let aligned = preference.alignments.iter().all(|&bytes| bytes as usize >= data.alignment());
        if !is_supported(operation, data) || !aligned { return NOT_SUPPORTED; }
        // A long sum is two, whose parts are joined in the workspace.
        let results = layouts[3].rows * layouts[3].columns * layouts[3].count as u64;
        let part = match preference.reductions {
            mask if mask & PARTS_OF_RESULTS != 0 => data.bytes() as u64,
            mask if mask & PARTS_OF_SUMS != 0 => data.summed().bytes() as u64,
            _ => 0,
        };
        let space = 2 * results * part;
        let divided = inner >= LONG && part > 0 && space <= preference.workspace;
        let workspace = if divided { space } else { 0 };
        let all = habits().len().min(wanted as usize);
        for number in 0..all {
            let algorithm = Algorithm {
                digest: digest(operation, layouts),
                alignments: preference.alignments,
                parts: if divided { part } else { 0 },
                workspace,
                number: number as u64,
                rest: [0; 2],
            };
            let heuristic = Heuristic { algorithm, workspace: workspace as usize, state: SUCCESS, waves: 1.0, reserved: [0; 4] };
            heuristics.add(number).write(heuristic);
        }
        *count = all as c_int;
        with(|machine| {
            machine.choices += 1;
            SUCCESS
        })
    }

    cublasLtMatmul(
        handle: *const Handle, operation: *const Operation, alpha: *const c_void, a: usize, a_layout: *const Layout, b: usize,
        b_layout: *const Layout, beta: *const c_void, c: usize, c_layout: *const Layout, d: usize, d_layout: *const Layout,
        algorithm: *const Algorithm, workspace: usize, bytes: usize, stream: usize
    ) {
        let (operation, algorithm) = (&*operation, &*algorithm);
        let layouts = [&*a_layout, &*b_layout, &*c_layout, &*d_layout];
        let Ok(device) = current() else { return NOT_INITIALIZED };
        let (Some(inner), Some(data)) = (length(operation, layouts), DType::of(layouts[3].data)) else { return INVALID_VALUE };
        if (*handle).device != device || algorithm.digest != digest(operation, layouts) { return INVALID_VALUE; }
        if c == d && layouts[2] != layouts[3] { return INVALID_VALUE; }
        let Some(&habit) = habits().get(algorithm.number as usize) else { return INVALID_VALUE };
        if habit == Habit::IsRefused { return NOT_SUPPORTED; }
        let addresses = [a, b, c, d];
        let aligned = |n: usize| addresses[n].is_multiple_of(algorithm.alignments[n] as usize);
        let has_bias = operation.epilogue == EPILOGUE_BIAS;
        if !(0..4).all(aligned) || (has_bias && !operation.bias.is_multiple_of(data.alignment())) { return INVALID_VALUE; }
        let mut ranges: Vec<(usize, u64)> =
            addresses.iter().zip(layouts).map(|(&at, layout)| (at, layout.extent() * data.bytes() as u64)).collect();
        if has_bias { ranges.push((operation.bias, layouts[3].rows * data.bytes() as u64)); }
        if algorithm.workspace > 0 {
            if (bytes as u64) < algorithm.workspace || !workspace.is_multiple_of(16) { return INVALID_VALUE; }
            ranges.push((workspace, algorithm.workspace));
        }
        let summed = data.summed();
        let product = Product {
            data,
            tf32: operation.compute == COMPUTE_TF32,
            sizes: [layouts[3].rows, layouts[3].columns, inner],
            count: layouts[3].count as u64,
            alpha: summed.load(alpha as usize),
            beta: summed.load(beta as usize),
            a: layouts[0].matrix(a, operation.transposed[0] == 1),
            b: layouts[1].matrix(b, operation.transposed[1] == 1),
            c: layouts[2].matrix(c, false),
            d: layouts[3].matrix(d, false),
            bias: has_bias.then_some(operation.bias),
            workspace: (algorithm.workspace > 0).then_some((workspace, algorithm.parts as usize)),
        };
        // SAFETY: the matrices are checked when the work is enqueued, and freeing memory waits for its device.
        let run = move || unsafe {
            product.run();
            match habit {
                Habit::Takes(0) => {}
                Habit::Takes(time) => std::thread::sleep(std::time::Duration::from_micros(time)),
                _ => product.spoil(),
            }
        };
        match enqueue(device, stream, &ranges, Library::Products, run) {
            Enqueued::Done => SUCCESS,
            Enqueued::Invalid => INVALID_VALUE,
            Enqueued::Stopped => EXECUTION_FAILED,
        }
    }
}
