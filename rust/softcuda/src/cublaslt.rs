//! The entry points of cuBLASLt that rushlight calls. NVIDIA's documentation of cuBLAS describes them.
//!
//! Every product is checked: the descriptions of its matrices, that they are those for which the algorithm was asked, ranges of
//! memory, alignments and the workspace. Long sums are divided where the caller permits it, and their parts go through the workspace.
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
pub struct Call {
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
pub struct Wishes {
    workspace: u64,
    reductions: c_uint,
    alignments: [c_uint; 4],
}

/// `cublasLtMatmulAlgo_t`, 64 bytes.
#[repr(C)]
pub struct Algorithm {
    /// Decides whether it belongs to a call.
    digest: u64,
    alignments: [c_uint; 4],
    parts: u64,
    workspace: u64,
    rest: [u64; 3],
}

/// `cublasLtMatmulHeuristicResult_t`.
#[repr(C)]
pub struct Answer {
    algorithm: Algorithm,
    workspace: usize,
    state: Status,
    waves: f32,
    reserved: [c_int; 4],
}

/// Everything that an algorithm was asked for, in one number.
fn digest(call: &Call, layouts: [&Layout; 4]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (call.compute, call.scale, call.transposed, call.epilogue).hash(&mut hasher);
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
fn length(call: &Call, [a, b, c, d]: [&Layout; 4]) -> Option<u64> {
    let turned = |layout: &Layout, transposed: c_uint| match transposed {
        0 => Some((layout.rows, layout.columns)),
        1 => Some((layout.columns, layout.rows)),
        _ => None,
    };
    let ((m, k), (inner, n)) = (turned(a, call.transposed[0])?, turned(b, call.transposed[1])?);
    let counts = [a, b, c].iter().all(|layout| layout.count == d.count);
    // Results must not overlap.
    let apart = d.count == 1 || d.step as u64 >= (d.columns - 1) * d.leading as u64 + d.rows;
    let same = [a, b, c].iter().all(|layout| layout.data == d.data);
    let fits = k == inner && [(c.rows, c.columns), (d.rows, d.columns)] == [(m, n); 2];
    (fits && counts && apart && same).then_some(k)
}

/// Whether the library multiplies this dtype so.
fn is_supported(call: &Call, data: DType) -> bool {
    let scale = match data {
        DType::R16 | DType::B16 => DType::R32,
        other => other,
    };
    let bias = call.epilogue == EPILOGUE_DEFAULT || !data.is_complex();
    let reduced = call.compute != COMPUTE_TF32 || matches!(data, DType::R32 | DType::C32);
    call.scale == scale.code() && bias && reduced
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

    cublasLtMatmulDescCreate(made: *mut *mut Call, compute: c_uint, scale: c_uint) {
        if !is_known(compute, scale) { return INVALID_VALUE; }
        *made = Box::into_raw(Box::new(Call { compute, scale, transposed: [0; 2], epilogue: EPILOGUE_DEFAULT, bias: 0 }));
        SUCCESS
    }

    cublasLtMatmulDescSetAttribute(call: *mut Call, attribute: c_uint, from: *const c_void, bytes: usize) {
        let call = &mut *call;
        match attribute {
            3 => read(from, bytes, &mut call.transposed[0]),
            4 => read(from, bytes, &mut call.transposed[1]),
            7 => read(from, bytes, &mut call.epilogue),
            8 => read(from, bytes, &mut call.bias),
            _ => INVALID_VALUE,
        }
    }

    cublasLtMatmulDescDestroy(call: *mut Call) { drop(Box::from_raw(call)); SUCCESS }

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

    cublasLtMatmulPreferenceCreate(made: *mut *mut Wishes) {
        // Without wishes addresses are taken to be multiples of 256.
        *made = Box::into_raw(Box::new(Wishes { workspace: 0, reductions: 7, alignments: [256; 4] }));
        SUCCESS
    }

    cublasLtMatmulPreferenceSetAttribute(wishes: *mut Wishes, attribute: c_uint, from: *const c_void, bytes: usize) {
        let wishes = &mut *wishes;
        match attribute {
            1 => read(from, bytes, &mut wishes.workspace),
            3 => read(from, bytes, &mut wishes.reductions),
            5..=8 => read(from, bytes, &mut wishes.alignments[attribute as usize - 5]),
            _ => INVALID_VALUE,
        }
    }

    cublasLtMatmulPreferenceDestroy(wishes: *mut Wishes) { drop(Box::from_raw(wishes)); SUCCESS }

    cublasLtMatmulAlgoGetHeuristic(
        handle: *const Handle, call: *const Call, a: *const Layout, b: *const Layout, c: *const Layout, d: *const Layout,
        wishes: *const Wishes, wanted: c_int, answers: *mut Answer, count: *mut c_int
    ) {
        let (call, wishes, layouts) = (&*call, &*wishes, [&*a, &*b, &*c, &*d]);
        if handle.is_null() || wanted < 1 || !layouts.iter().all(|layout| layout.is_valid()) { return INVALID_VALUE; }
        *count = 0;
        let (Some(inner), Some(data)) = (length(call, layouts), DType::of(layouts[3].data)) else { return INVALID_VALUE };
        let aligned = wishes.alignments.iter().all(|&bytes| bytes as usize >= data.alignment());
        if !is_supported(call, data) || !aligned { return NOT_SUPPORTED; }
        // A long sum is two, whose parts are joined in the workspace.
        let results = layouts[3].rows * layouts[3].columns * layouts[3].count as u64;
        let part = match wishes.reductions {
            mask if mask & PARTS_OF_RESULTS != 0 => data.bytes() as u64,
            mask if mask & PARTS_OF_SUMS != 0 => data.summed().bytes() as u64,
            _ => 0,
        };
        let space = 2 * results * part;
        let divided = inner >= LONG && part > 0 && space <= wishes.workspace;
        let workspace = if divided { space } else { 0 };
        let algorithm = Algorithm {
            digest: digest(call, layouts),
            alignments: wishes.alignments,
            parts: if divided { part } else { 0 },
            workspace,
            rest: [0; 3],
        };
        let answer = Answer { algorithm, workspace: workspace as usize, state: SUCCESS, waves: 1.0, reserved: [0; 4] };
        answers.write(answer);
        *count = 1;
        with(|machine| {
            machine.choices += 1;
            SUCCESS
        })
    }

    cublasLtMatmul(
        handle: *const Handle, call: *const Call, alpha: *const c_void, a: usize, a_layout: *const Layout, b: usize,
        b_layout: *const Layout, beta: *const c_void, c: usize, c_layout: *const Layout, d: usize, d_layout: *const Layout,
        algorithm: *const Algorithm, workspace: usize, bytes: usize, stream: usize
    ) {
        let (call, algorithm) = (&*call, &*algorithm);
        let layouts = [&*a_layout, &*b_layout, &*c_layout, &*d_layout];
        let Ok(device) = current() else { return NOT_INITIALIZED };
        let (Some(inner), Some(data)) = (length(call, layouts), DType::of(layouts[3].data)) else { return INVALID_VALUE };
        if (*handle).device != device || algorithm.digest != digest(call, layouts) { return INVALID_VALUE; }
        if c == d && layouts[2] != layouts[3] { return INVALID_VALUE; }
        let addresses = [a, b, c, d];
        let aligned = |n: usize| addresses[n].is_multiple_of(algorithm.alignments[n] as usize);
        let has_bias = call.epilogue == EPILOGUE_BIAS;
        if !(0..4).all(aligned) || (has_bias && !call.bias.is_multiple_of(data.alignment())) { return INVALID_VALUE; }
        let mut ranges: Vec<(usize, u64)> =
            addresses.iter().zip(layouts).map(|(&at, layout)| (at, layout.extent() * data.bytes() as u64)).collect();
        if has_bias { ranges.push((call.bias, layouts[3].rows * data.bytes() as u64)); }
        if algorithm.workspace > 0 {
            if (bytes as u64) < algorithm.workspace || !workspace.is_multiple_of(16) { return INVALID_VALUE; }
            ranges.push((workspace, algorithm.workspace));
        }
        let summed = data.summed();
        let product = Product {
            data,
            tf32: call.compute == COMPUTE_TF32,
            sizes: [layouts[3].rows, layouts[3].columns, inner],
            count: layouts[3].count as u64,
            alpha: summed.load(alpha as usize),
            beta: summed.load(beta as usize),
            a: layouts[0].matrix(a, call.transposed[0] == 1),
            b: layouts[1].matrix(b, call.transposed[1] == 1),
            c: layouts[2].matrix(c, false),
            d: layouts[3].matrix(d, false),
            bias: has_bias.then_some(call.bias),
            workspace: (algorithm.workspace > 0).then_some((workspace, algorithm.parts as usize)),
        };
        // SAFETY: the matrices are checked when the work is enqueued, and freeing memory waits for its device.
        let run = move || unsafe { product.run() };
        match enqueue(device, stream, &ranges, Library::Products, run) {
            Enqueued::Done => SUCCESS,
            Enqueued::Invalid => INVALID_VALUE,
            Enqueued::Stopped => EXECUTION_FAILED,
        }
    }
}
