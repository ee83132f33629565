//! Products of matrices by NVIDIA's cuBLASLt, where it is installed.
//!
//! It describes a matrix by columns, whose elements are adjacent. A row-major product is the product of the transposed factors
//! in the other order. What it does not take is left to the kernel of `matmul`.
//!
//! Each call has a workspace of its own, so that the bits of a result do not depend on other streams. Descriptions and the library's
//! choice are kept: asking again takes longer than a small product.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use cudarc::cublaslt::sys::{
    self as lt, cublasComputeType_t as Compute, cublasLtEpilogue_t as Epilogue,
    cublasLtMatmulDescAttributes_t as OperationAttribute, cublasLtMatmulPreferenceAttributes_t as PreferenceAttribute,
    cublasLtMatrixLayoutAttribute_t as LayoutAttribute, cublasLtReductionScheme_t as Reduction,
    cublasStatus_t as Status, cudaDataType_t as Data,
};
use once_cell::race::OnceBox;
use rushlight_core::device_memory::StreamId;
use rushlight_core::fork::{ForkMutex, Rank};
use rushlight_core::loop_nest::LoopNest;
use rushlight_core::{DType, Error, Result};
use smallvec::SmallVec;

use crate::card::Card;
use crate::launch::enqueue;
use crate::matmul::{Matrices, Sizes};
use crate::memory::pointer;
use crate::workspace::Workspace;
use crate::{capture, library, stream};

/// The oldest version with the functions that are called, as cuBLASLt writes it: 12.0.
const OLDEST: usize = 120_000;

/// The version of cuBLASLt; `None` if it is not installed. It is loaded by the first call.
fn found() -> Option<usize> {
    static VERSION: OnceBox<Option<usize>> = OnceBox::new();
    *VERSION.get_or_init(|| {
        // SAFETY: loading the library runs its initialisers, which any program may load.
        let present = || unsafe { lt::is_culib_present() };
        let loaded = present() || (library::load("libcublasLt.so.") && present());
        // SAFETY: the library is present, and every version of it has this function.
        Box::new(loaded.then(|| unsafe { lt::cublasLtGetVersion() }))
    })
}

/// Whether products are given to cuBLASLt.
pub fn is_available() -> bool {
    found().is_some_and(|version| version >= OLDEST)
}

/// The version in a sentence, for `python -m rushlight doctor`; `None` if the library is not installed.
pub fn describe() -> Option<String> {
    let name = |version: usize| format!("{}.{}", version / 10000, version % 10000 / 100);
    found().map(|version| match version < OLDEST {
        true => format!("{}, which is older than {}", name(version), name(OLDEST)),
        false => name(version),
    })
}

/// Whether float32 is rounded to TF32 before it is multiplied.
static TF32: AtomicBool = AtomicBool::new(false);
/// How the parts of a long sum may be joined in float16 and in bfloat16 (`cublasLtReductionScheme_t`).
static REDUCTIONS: [AtomicU32; 2] = [const { AtomicU32::new(Reduction::CUBLASLT_REDUCTION_SCHEME_MASK as u32) }; 2];

/// Sets whether float32 may be rounded to TF32 before it is multiplied.
pub fn allow_tf32(allowed: bool) {
    TF32.store(allowed, Ordering::Relaxed);
}

/// Sets whether a sum of float16 or bfloat16 may be divided, and whether its parts may be rounded to this dtype.
pub fn allow_reductions(dtype: DType, rounded: bool, divided: bool) {
    let scheme = match (rounded, divided) {
        (true, _) => Reduction::CUBLASLT_REDUCTION_SCHEME_MASK,
        (false, true) => Reduction::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE,
        (false, false) => Reduction::CUBLASLT_REDUCTION_SCHEME_NONE,
    };
    REDUCTIONS[usize::from(dtype == DType::BF16)].store(scheme as u32, Ordering::Relaxed);
}

/// How cuBLASLt names a dtype, what it computes in, and the dtype of the factors of the product and of the addend.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Types {
    data: Data,
    compute: Compute,
    scale: Data,
    reductions: u32,
}

impl Types {
    fn of(dtype: DType) -> Option<Types> {
        let all = Reduction::CUBLASLT_REDUCTION_SCHEME_MASK as u32;
        let single = match TF32.load(Ordering::Relaxed) {
            true => Compute::CUBLAS_COMPUTE_32F_FAST_TF32,
            false => Compute::CUBLAS_COMPUTE_32F,
        };
        let (data, compute, scale, reductions) = match dtype {
            DType::F16 | DType::BF16 => {
                let brief = dtype == DType::BF16;
                let reductions = REDUCTIONS[usize::from(brief)].load(Ordering::Relaxed);
                let data = if brief { Data::CUDA_R_16BF } else { Data::CUDA_R_16F };
                (data, Compute::CUBLAS_COMPUTE_32F, Data::CUDA_R_32F, reductions)
            }
            DType::F32 => (Data::CUDA_R_32F, single, Data::CUDA_R_32F, all),
            DType::C64 => (Data::CUDA_C_32F, single, Data::CUDA_C_32F, all),
            DType::F64 => (Data::CUDA_R_64F, Compute::CUBLAS_COMPUTE_64F, Data::CUDA_R_64F, all),
            DType::C128 => (Data::CUDA_C_64F, Compute::CUBLAS_COMPUTE_64F, Data::CUDA_C_64F, all),
            _ => return None,
        };
        Some(Types { data, compute, scale, reductions })
    }
}

/// Whether products in a dtype are given to cuBLASLt.
pub fn multiplies(dtype: DType) -> bool {
    Types::of(dtype).is_some() && is_available()
}

/// A matrix in memory. Distances are in elements.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct View {
    pub rows: i64,
    pub columns: i64,
    pub row_stride: i64,
    pub column_stride: i64,
}

impl View {
    fn transposed(self) -> View {
        let View { rows, columns, row_stride, column_stride } = self;
        View { rows: columns, columns: rows, row_stride: column_stride, column_stride: row_stride }
    }

    /// The distance between columns, if the elements of a column are adjacent and columns do not overlap.
    fn leading(self) -> Option<i64> {
        let apart = if self.columns == 1 { self.rows } else { self.column_stride };
        ((self.row_stride == 1 || self.rows == 1) && apart >= self.rows).then_some(apart)
    }

    fn is_row_major(self) -> bool {
        self.transposed().leading().is_some()
    }

    /// Whether cuBLASLt can read it: by columns or by rows.
    pub fn is_readable(self) -> bool {
        self.as_factor().is_some()
    }

    /// The matrix by columns that cuBLASLt reads, whether that is the transposition, and the distance between columns.
    fn as_factor(self) -> Option<(View, bool, i64)> {
        match self.leading() {
            Some(leading) => Some((self, false, leading)),
            None => self.transposed().leading().map(|leading| (self.transposed(), true, leading)),
        }
    }

    /// Whether it can be added to a result: it lies in the same order.
    pub fn adds_to(self, result: View) -> bool {
        if result.is_row_major() { self.is_row_major() } else { self.leading().is_some() }
    }

    /// Whether it is one row for all rows of a result, which cuBLASLt adds when it stores a row-major one.
    pub fn is_bias_of(self, result: View) -> bool {
        let row = self.columns == 1 || self.column_stride == 1;
        row && (self.rows == 1 || self.row_stride == 0) && result.is_row_major()
    }
}

/// Whether a row can be added when the result is stored.
pub fn adds_bias(dtype: DType) -> bool {
    !dtype.is_complex()
}

#[cold]
fn failure(status: Status, call: &str) -> Error {
    Error::runtime(format!("CUDA error: {status:?} when calling `{call}`"))
}

fn check(status: Status, call: &str) -> Result<()> {
    if status == Status::CUBLAS_STATUS_SUCCESS { Ok(()) } else { Err(failure(status, call)) }
}

/// What cuBLASLt creates to describe a call.
struct Object<H: Copy, A> {
    handle: H,
    set: unsafe fn(H, A, *const c_void, usize) -> Status,
    destroy: unsafe fn(H) -> Status,
}

impl<H: Copy, A> Object<H, A> {
    /// # Safety
    /// The value has the type of the attribute.
    unsafe fn set<V>(&self, attribute: A, value: V) -> Result<()> {
        // SAFETY: the object is alive, and cuBLASLt copies the value, which has the type that it expects.
        let status = unsafe { (self.set)(self.handle, attribute, (&raw const value).cast(), size_of::<V>()) };
        check(status, "cublasLt*SetAttribute( object, attribute, value, size)")
    }
}

impl<H: Copy, A> Drop for Object<H, A> {
    fn drop(&mut self) {
        // SAFETY: this is the only owner.
        unsafe { (self.destroy)(self.handle) };
    }
}

type Operation = Object<lt::cublasLtMatmulDesc_t, OperationAttribute>;
type MatrixLayout = Object<lt::cublasLtMatrixLayout_t, LayoutAttribute>;
type Preference = Object<lt::cublasLtMatmulPreference_t, PreferenceAttribute>;

fn layout_of(types: &Types, rows: i64, columns: i64, leading: i64, count: c_int, step: i64) -> Result<MatrixLayout> {
    let mut handle = std::ptr::null_mut();
    // SAFETY: the library is present, and the pointer is that of a local variable.
    let status =
        unsafe { lt::cublasLtMatrixLayoutCreate(&raw mut handle, types.data, rows as u64, columns as u64, leading) };
    check(status, "cublasLtMatrixLayoutCreate( &descriptor, type, rows, columns, leading)")?;
    let layout = Object { handle, set: lt::cublasLtMatrixLayoutSetAttribute, destroy: lt::cublasLtMatrixLayoutDestroy };
    if count > 1 {
        // SAFETY: these attributes are numbers of 32 and of 64 bits.
        unsafe {
            layout.set(LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count)?;
            layout.set(LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, step)?;
        }
    }
    Ok(layout)
}

fn preference_of(workspace: u64, reductions: u32, alignments: [u32; 4]) -> Result<Preference> {
    let mut handle = std::ptr::null_mut();
    // SAFETY: the library is present, and the pointer is that of a local variable.
    let status = unsafe { lt::cublasLtMatmulPreferenceCreate(&raw mut handle) };
    check(status, "cublasLtMatmulPreferenceCreate( &preference)")?;
    let preference =
        Object { handle, set: lt::cublasLtMatmulPreferenceSetAttribute, destroy: lt::cublasLtMatmulPreferenceDestroy };
    let [a, b, c, d] = alignments;
    // SAFETY: the size of the workspace is a number of 64 bits, the others are of 32 bits.
    unsafe {
        preference.set(PreferenceAttribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace)?;
        preference.set(PreferenceAttribute::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions)?;
        preference.set(PreferenceAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, a)?;
        preference.set(PreferenceAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, b)?;
        preference.set(PreferenceAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c)?;
        preference.set(PreferenceAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, d)?;
    }
    Ok(preference)
}

/// The library's state for a device, which any thread may use.
#[derive(Clone, Copy)]
struct Handle(lt::cublasLtHandle_t);

// SAFETY: a handle of cuBLASLt may be used by several threads.
unsafe impl Send for Handle {}

fn handle_of(card: &Card) -> Result<lt::cublasLtHandle_t> {
    static HANDLES: ForkMutex<BTreeMap<u8, Handle>> = ForkMutex::new(Rank::Tables, BTreeMap::new());
    let mut handles = HANDLES.lock();
    if let Some(handle) = handles.get(&card.index) {
        return Ok(handle.0);
    }
    let _relaxed = capture::Relaxed::begin();
    let mut handle = std::ptr::null_mut();
    // SAFETY: the device's context is current, and the pointer is that of a local variable.
    check(unsafe { lt::cublasLtCreate(&raw mut handle) }, "cublasLtCreate( &handle)")?;
    handles.insert(card.index, Handle(handle));
    Ok(handle)
}

/// The largest power of two that divides all addresses, up to what kernels make use of.
fn alignment(addresses: u64) -> u32 {
    1 << addresses.trailing_zeros().min(8)
}

/// The bytes that a product may use beside its operands, as torch gives them.
pub fn workspace_limit(card: &Card) -> u64 {
    if card.properties.major >= 9 { 32 << 20 } else { 8 << 20 }
}

/// The places of the operands in `Matrices`.
const OUT: usize = 0;
const ADDEND: usize = 3;

/// A product as cuBLASLt takes it: the result by columns, which is its transposition if it is row-major.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Plan {
    types: Types,
    /// How many products a call has, and the distances from the operands of one to those of the next.
    count: c_int,
    steps: [i64; 4],
    /// The factors in their order, and their places among the operands.
    factors: [View; 2],
    order: [usize; 2],
    rows: i64,
    columns: i64,
    /// The distances between the columns of the result and of the addend.
    leading: i64,
    added: i64,
    /// The operand that is added: without one the result, with the factor zero.
    third: usize,
    /// Whether the addend is one row for all, which is added when the result is stored.
    with_bias: bool,
}

impl Plan {
    /// `None` for a product that cuBLASLt does not take.
    fn of(
        dtype: DType,
        matrices: &Matrices,
        sizes: &Sizes,
        batch: &LoopNest<4>,
        beta: [u64; 2],
        has_addend: bool,
    ) -> Option<Plan> {
        if !is_available() || sizes.inner == 0 {
            return None;
        }
        let width = dtype.size() as i64;
        let in_elements = |bytes: i64| (bytes % width == 0).then_some(bytes / width);
        let view = |n: usize, rows: u64, columns: u64| {
            let (row_stride, column_stride) = (in_elements(matrices.rows[n])?, in_elements(matrices.columns[n])?);
            Some(View { rows: rows as i64, columns: columns as i64, row_stride, column_stride })
        };
        let (m, n, k) = (sizes.rows, sizes.columns, sizes.inner);
        let (out, a, b, addend) = (view(OUT, m, n)?, view(1, m, k)?, view(2, k, n)?, view(ADDEND, m, n)?);
        let step = |n: usize| in_elements(batch.inner_strides()[n] as i64).filter(|&step| step >= 0);
        let steps = [step(0)?, step(1)?, step(2)?, step(3)?];

        let turned = out.is_row_major();
        let turn = |view: View| if turned { view.transposed() } else { view };
        let (factors, order) = if turned { ([turn(b), turn(a)], [2, 1]) } else { ([a, b], [1, 2]) };
        let View { rows, columns, .. } = turn(out);
        let leading = turn(out).leading()?;
        let repeats = (0..batch.rank()).all(|dim| batch.strides(dim)[ADDEND] == 0);
        let with_bias = has_addend && repeats && addend.is_bias_of(out) && adds_bias(dtype) && is_one(beta, dtype);
        let adds_matrix = has_addend && !with_bias;
        let added = if adds_matrix { turn(addend).leading()? } else { leading };
        let (types, count) = (Types::of(dtype)?, c_int::try_from(batch.inner()).ok()?);
        let third = if adds_matrix { ADDEND } else { OUT };
        Some(Plan { types, count, steps, factors, order, rows, columns, leading, added, third, with_bias })
    }

    /// The operands in memory for each call.
    fn starts(matrices: &Matrices, batch: &LoopNest<4>) -> SmallVec<[[u64; 4]; 1]> {
        let mut starts = SmallVec::new();
        batch.runs(0..batch.numel(), |offsets, _| {
            starts.push([0, 1, 2, 3].map(|n| matrices.at[n].wrapping_add_signed(offsets[n] as i64)));
        });
        starts
    }

    /// What the addresses of the factors, of the addend and of the result have in common, in the order of the library's arguments.
    fn alignments(&self, starts: &[[u64; 4]]) -> [u32; 4] {
        let together = |n: usize| starts.iter().fold(0, |all, at| all | at[n]);
        let stored = together(OUT) | if self.with_bias { together(ADDEND) } else { 0 };
        [together(self.order[0]), together(self.order[1]), together(self.third), stored].map(alignment)
    }

    /// The description of the product. `bias` is the address of the row that is added when the result is stored.
    fn operation(&self, bias: u64) -> Result<Operation> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the library is present, and the pointer is that of a local variable.
        let status = unsafe { lt::cublasLtMatmulDescCreate(&raw mut handle, self.types.compute, self.types.scale) };
        check(status, "cublasLtMatmulDescCreate( &descriptor, compute_type, scale_type)")?;
        let operation =
            Object { handle, set: lt::cublasLtMatmulDescSetAttribute, destroy: lt::cublasLtMatmulDescDestroy };
        let transposed = self.factors.map(|view| view.as_factor().is_some_and(|(_, transposed, _)| transposed));
        // SAFETY: the epilogue and whether a factor is transposed are numbers of 32 bits, the bias is an address of the device.
        unsafe {
            operation.set(OperationAttribute::CUBLASLT_MATMUL_DESC_TRANSA, c_int::from(transposed[0]))?;
            operation.set(OperationAttribute::CUBLASLT_MATMUL_DESC_TRANSB, c_int::from(transposed[1]))?;
            if self.with_bias {
                operation.set(OperationAttribute::CUBLASLT_MATMUL_DESC_EPILOGUE, Epilogue::CUBLASLT_EPILOGUE_BIAS)?;
                operation.set(OperationAttribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias)?;
            }
        }
        Ok(operation)
    }
}

/// What the library's choice depends on: the device, the product, and the alignments of its operands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    device: u8,
    plan: Plan,
    alignments: [u32; 4],
}

/// A product that was described once: itself, the factors, the addend and the result, and the algorithm that the library chose.
struct Prepared {
    operation: Operation,
    left: MatrixLayout,
    right: MatrixLayout,
    addend: MatrixLayout,
    result: MatrixLayout,
    found: lt::cublasLtMatmulHeuristicResult_t,
}

// SAFETY: the objects are not changed any more, and any thread may use and destroy them.
unsafe impl Send for Prepared {}
// SAFETY: see above.
unsafe impl Sync for Prepared {}

/// The products that were described, `None` for those that the library does not take.
static PREPARED: ForkMutex<BTreeMap<Key, Option<Arc<Prepared>>>> = ForkMutex::new(Rank::Tables, BTreeMap::new());
/// When there are as many, all are forgotten.
const MOST_PREPARED: usize = 4096;

impl Prepared {
    /// The product, described now if it is new.
    fn find(card: &Card, key: Key, bias: u64) -> Result<Option<Arc<Prepared>>> {
        if let Some(known) = PREPARED.lock().get(&key) {
            return Ok(known.clone());
        }
        let _relaxed = capture::Relaxed::begin();
        let made = Prepared::new(card, &key, bias)?.map(Arc::new);
        let mut all = PREPARED.lock();
        if all.len() >= MOST_PREPARED {
            all.clear();
        }
        all.insert(key, made.clone());
        Ok(made)
    }

    /// `None` if a factor lies neither by columns nor by rows, or if the library has no algorithm.
    fn new(card: &Card, Key { plan, alignments, .. }: &Key, bias: u64) -> Result<Option<Prepared>> {
        let types = &plan.types;
        let factor = |n: usize| {
            let Some((matrix, _, leading)) = plan.factors[n].as_factor() else { return Ok(None) };
            layout_of(types, matrix.rows, matrix.columns, leading, plan.count, plan.steps[plan.order[n]]).map(Some)
        };
        let (Some(left), Some(right)) = (factor(0)?, factor(1)?) else { return Ok(None) };
        let summed =
            |leading: i64, n: usize| layout_of(types, plan.rows, plan.columns, leading, plan.count, plan.steps[n]);
        let (addend, result) = (summed(plan.added, plan.third)?, summed(plan.leading, OUT)?);
        let operation = plan.operation(bias)?;
        let preference = preference_of(workspace_limit(card), types.reductions, *alignments)?;
        let mut found: std::mem::MaybeUninit<lt::cublasLtMatmulHeuristicResult_t> = std::mem::MaybeUninit::zeroed();
        let mut count = 0;
        // SAFETY: all objects are alive, and there is room for one answer.
        let status = unsafe {
            lt::cublasLtMatmulAlgoGetHeuristic(
                handle_of(card)?,
                operation.handle,
                left.handle,
                right.handle,
                addend.handle,
                result.handle,
                preference.handle,
                1,
                found.as_mut_ptr(),
                &raw mut count,
            )
        };
        // Another failure may pass: it is an error, so that no later call takes the kernel for it.
        if status != Status::CUBLAS_STATUS_NOT_SUPPORTED && status != Status::CUBLAS_STATUS_INVALID_VALUE {
            check(
                status,
                "cublasLtMatmulAlgoGetHeuristic( handle, descriptor, a, b, c, d, preference, 1, &found, &count)",
            )?;
        }
        if status != Status::CUBLAS_STATUS_SUCCESS || count == 0 {
            return Ok(None);
        }
        // SAFETY: cuBLASLt has written an answer; before that all of it was zero.
        let found = unsafe { found.assume_init() };
        Ok(Some(Prepared { operation, left, right, addend, result, found }))
    }
}

/// Enqueues `alpha * (a @ b) + beta * addend` for every matrix of a batch, as `matmul::multiply`. False if cuBLASLt does not take
/// the product; then nothing was enqueued.
///
/// # Safety
/// As `matmul::multiply`.
pub unsafe fn multiply(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    matrices: &Matrices,
    sizes: &Sizes,
    batch: &LoopNest<4>,
    [alpha, beta]: [[u64; 2]; 2],
    has_addend: bool,
) -> Result<bool> {
    let Some(plan) = Plan::of(dtype, matrices, sizes, batch, beta, has_addend) else { return Ok(false) };
    let bias = matrices.at[ADDEND].wrapping_add_signed(batch.bases()[ADDEND] as i64);
    let starts = Plan::starts(matrices, batch);
    let key = Key { device: card.index, plan, alignments: plan.alignments(&starts) };
    let Some(prepared) = Prepared::find(card, key, bias)? else { return Ok(false) };
    // The description of a product with a bias has its address, so that each call has its own.
    let own = if plan.with_bias { Some(plan.operation(bias)?) } else { None };
    let operation = own.as_ref().unwrap_or(&prepared.operation);
    let handle = handle_of(card)?;
    let workspace = Workspace::new(card.index, stream, prepared.found.workspaceSize)?;
    // The bias is added with the factor one by the epilogue.
    let beta = if plan.third == ADDEND { beta } else { [0; 2] };
    for at in starts {
        enqueue(card, "cublasLtMatmul", stream, || {
            // SAFETY: the objects describe matrices in memory that the caller holds for the stream, as the workspace is
            // held; the factors have the dtype that the call was created with.
            let status = unsafe {
                lt::cublasLtMatmul(
                    handle,
                    operation.handle,
                    alpha.as_ptr().cast(),
                    pointer(at[plan.order[0]]),
                    prepared.left.handle,
                    pointer(at[plan.order[1]]),
                    prepared.right.handle,
                    beta.as_ptr().cast(),
                    pointer(at[plan.third]),
                    prepared.addend.handle,
                    pointer(at[OUT]),
                    prepared.result.handle,
                    &raw const prepared.found.algo,
                    workspace.pointer(),
                    workspace.bytes(),
                    stream::handle(stream).cast(),
                )
            };
            check(
                status,
                "cublasLtMatmul( handle, descriptor, &alpha, a, b, &beta, c, d, &algorithm, workspace, size, stream)",
            )
        })?;
    }
    Ok(true)
}

/// The bits of a number that are 1 in the dtype that products are summed in.
fn is_one(bits: [u64; 2], dtype: DType) -> bool {
    bits == if dtype == DType::F64 { [1f64.to_bits(), 0] } else { [u64::from(1f32.to_bits()), 0] }
}
