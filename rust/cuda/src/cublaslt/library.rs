//! cuBLASLt as a library: whether it is there, its state for a device, and the objects that describe a call.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};

use cudarc::cublaslt::sys::{
    self as lt, cublasComputeType_t as Compute, cublasLtMatmulDescAttributes_t as OperationAttribute,
    cublasLtMatmulPreferenceAttributes_t as PreferenceAttribute, cublasLtMatrixLayoutAttribute_t as LayoutAttribute,
    cublasStatus_t as Status, cudaDataType_t as Data,
};
use once_cell::race::OnceBox;
use rushlight_core::fork::{ForkMutex, Rank};
use rushlight_core::{Error, Result};

use crate::card::Card;
use crate::{capture, library};

/// The oldest version with the functions that are called, as cuBLASLt writes it: 12.0.
const OLDEST: usize = 120_000;

/// The version of cuBLASLt; `None` if it is not installed. It is loaded by the first call.
pub fn found() -> Option<usize> {
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

#[cold]
fn failure(status: Status, call: &str) -> Error {
    Error::runtime(format!("CUDA error: {status:?} when calling `{call}`"))
}

pub fn check(status: Status, call: &str) -> Result<()> {
    if status == Status::CUBLAS_STATUS_SUCCESS { Ok(()) } else { Err(failure(status, call)) }
}

/// What cuBLASLt creates to describe a call.
pub struct Object<H: Copy, A> {
    pub handle: H,
    set: unsafe fn(H, A, *const c_void, usize) -> Status,
    destroy: unsafe fn(H) -> Status,
}

impl<H: Copy, A> Object<H, A> {
    /// # Safety
    /// The value has the type of the attribute.
    pub unsafe fn set<V>(&self, attribute: A, value: V) -> Result<()> {
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

pub type Operation = Object<lt::cublasLtMatmulDesc_t, OperationAttribute>;
pub type MatrixLayout = Object<lt::cublasLtMatrixLayout_t, LayoutAttribute>;
pub type Preference = Object<lt::cublasLtMatmulPreference_t, PreferenceAttribute>;

pub fn operation_of(compute: Compute, scale: Data) -> Result<Operation> {
    let mut handle = std::ptr::null_mut();
    // SAFETY: the library is present, and the pointer is that of a local variable.
    let status = unsafe { lt::cublasLtMatmulDescCreate(&raw mut handle, compute, scale) };
    check(status, "cublasLtMatmulDescCreate( &descriptor, compute_type, scale_type)")?;
    Ok(Object { handle, set: lt::cublasLtMatmulDescSetAttribute, destroy: lt::cublasLtMatmulDescDestroy })
}

pub fn layout_of(data: Data, rows: i64, columns: i64, leading: i64, count: c_int, step: i64) -> Result<MatrixLayout> {
    let mut handle = std::ptr::null_mut();
    // SAFETY: the library is present, and the pointer is that of a local variable.
    let status = unsafe { lt::cublasLtMatrixLayoutCreate(&raw mut handle, data, rows as u64, columns as u64, leading) };
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

pub fn preference_of(workspace: u64, reductions: u32, alignments: [u32; 4]) -> Result<Preference> {
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

pub fn handle_of(card: &Card) -> Result<lt::cublasLtHandle_t> {
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

/// The bytes that a product may use beside its operands, as torch gives them.
pub fn workspace_limit(card: &Card) -> u64 {
    if card.properties.major >= 9 { 32 << 20 } else { 8 << 20 }
}
