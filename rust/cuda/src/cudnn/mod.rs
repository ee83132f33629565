//! Convolutions and recurrent networks by NVIDIA's cuDNN, where it is installed.
//!
//! The convolutions are here, and `recurrent` has the networks. What cuDNN does not take is left to the caller. Each call has a
//! workspace. A plan, which is a list of algorithms, is kept for each geometry, because asking for one takes longer than many
//! convolutions do.

mod functions;
pub mod recurrent;

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rushlight_core::convolution::Computed;
use rushlight_core::device_memory::StreamId;
use rushlight_core::fork::{ForkMutex, Rank};
use rushlight_core::{Class, DType, Result};

use crate::card::Card;
use crate::launch::enqueue;
use crate::memory::pointer;
use crate::workspace::Workspace;
use crate::{capture, stream};
use functions::{Functions, Object, Performance, SUCCESS, Status};

/// The oldest version with the functions that are called, as cuDNN writes it: 9.0.0.
const OLDEST: usize = 90_000;

/// `cudnnMathType_t`: what may be rounded before it is multiplied. The default permits TF32.
const DEFAULT_MATH: c_int = 0;
const TENSOR_OP_MATH: c_int = 1;
const FMA_MATH: c_int = 3;
/// `cudnnConvolutionMode_t`: weights are not turned.
const CROSS_CORRELATION: c_int = 1;
/// `cudnnDeterminism_t`.
const DETERMINISTIC: c_int = 1;
/// The most algorithms that are asked for; there are fewer.
const MOST: usize = 16;
/// The most plans that are kept.
const MOST_PLANS: usize = 4096;

/// The settings of `torch.backends.cudnn`.
pub struct Settings {
    pub enabled: AtomicBool,
    /// Whether algorithms are measured.
    pub benchmark: AtomicBool,
    /// Whether equal calls give equal bits.
    pub deterministic: AtomicBool,
    /// Whether float32 may be rounded to TF32 before it is multiplied.
    pub tf32: AtomicBool,
}

pub static SETTINGS: Settings = Settings {
    enabled: AtomicBool::new(true),
    benchmark: AtomicBool::new(false),
    deterministic: AtomicBool::new(false),
    tf32: AtomicBool::new(true),
};

/// The version, as cuDNN writes it; `None` if the library is not installed.
pub fn version() -> Option<usize> {
    // SAFETY: the function has no parameters.
    Functions::found().map(|library| unsafe { (library.version)() })
}

/// Whether cuDNN can be used.
pub fn is_available() -> bool {
    version().is_some_and(|version| version >= OLDEST)
}

/// The version in a sentence, for `python -m rushlight doctor`; `None` if the library is not installed.
pub fn describe() -> Option<String> {
    let name = |version: usize| {
        // Versions before 9 have one digit less in the major number.
        let major = if version < OLDEST { 1000 } else { 10_000 };
        format!("{}.{}.{}", version / major, version % major / 100, version % 100)
    };
    version().map(|version| match version < OLDEST {
        true => format!("{}, which is older than {}", name(version), name(OLDEST)),
        false => name(version),
    })
}

/// How cuDNN names a dtype, and the dtype that it sums in (`cudnnDataType_t`).
fn types(dtype: DType) -> Option<[c_int; 2]> {
    const FLOAT: c_int = 0;
    const DOUBLE: c_int = 1;
    Some(match dtype {
        DType::F32 => [FLOAT, FLOAT],
        DType::F64 => [DOUBLE, DOUBLE],
        DType::F16 => [2, FLOAT],
        DType::BF16 => [9, FLOAT],
        _ => return None,
    })
}

/// Whether work in a dtype is given to cuDNN.
pub fn takes(dtype: DType) -> bool {
    types(dtype).is_some() && SETTINGS.enabled.load(Ordering::Relaxed) && is_available()
}

/// A convolution. Sizes have samples, channels, and two or three dimensions of space, and so does the weight: features, channels
/// of a group, and the kernel. All tensors are dense, in this order or with the channels last.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Convolution {
    pub computed: Computed,
    pub dtype: DType,
    pub channels_last: bool,
    pub input: Vec<c_int>,
    pub weight: Vec<c_int>,
    pub output: Vec<c_int>,
    pub strides: Vec<c_int>,
    /// At both sides.
    pub padding: Vec<c_int>,
    pub dilation: Vec<c_int>,
    pub groups: c_int,
    /// Whether equal calls must give equal bits, besides the setting.
    pub deterministic: bool,
}

/// What cuDNN creates to describe a call.
struct Description {
    object: Object,
    destroy: unsafe extern "C" fn(Object) -> Status,
}

impl Drop for Description {
    fn drop(&mut self) {
        // SAFETY: this is the only owner.
        unsafe { (self.destroy)(self.object) };
    }
}

impl Description {
    /// `None` if cuDNN refuses the values.
    fn new(
        create: unsafe extern "C" fn(*mut Object) -> Status,
        destroy: unsafe extern "C" fn(Object) -> Status,
        set: impl FnOnce(Object) -> Status,
    ) -> Option<Description> {
        let mut object = std::ptr::null_mut();
        // SAFETY: the pointer is that of a local variable.
        let status = unsafe { create(&raw mut object) };
        let description = (status == SUCCESS).then_some(Description { object, destroy })?;
        (set(object) == SUCCESS).then_some(description)
    }

    fn tensor(library: &Functions, dtype: c_int, sizes: &[c_int], channels_last: bool) -> Option<Description> {
        let mut strides = vec![0; sizes.len()];
        let mut step: c_int = 1;
        let rank = sizes.len();
        let inner = channels_last.then_some(1);
        let order = inner.into_iter().chain((2..rank).rev()).chain((!channels_last).then_some(1)).chain([0]);
        for dim in order {
            strides[dim] = step;
            step = step.saturating_mul(sizes[dim]);
        }
        Description::new(library.create_tensor, library.destroy_tensor, |object| {
            // SAFETY: the description was created as one, and both lists have the length that is passed.
            unsafe { (library.set_tensor)(object, dtype, rank as c_int, sizes.as_ptr(), strides.as_ptr()) }
        })
    }

    fn weight(library: &Functions, dtype: c_int, sizes: &[c_int], channels_last: bool) -> Option<Description> {
        Description::new(library.create_weight, library.destroy_weight, |object| {
            // SAFETY: the description was created as one, and the list has the length that is passed.
            unsafe {
                (library.set_weight)(object, dtype, c_int::from(channels_last), sizes.len() as c_int, sizes.as_ptr())
            }
        })
    }
}

/// A call of cuDNN: its handle, and the descriptions of the two operands, of the result and of the convolution.
struct Call<'a> {
    library: &'static Functions,
    handle: &'a Handle,
    operands: [Description; 2],
    result: Description,
    convolution: Description,
    computed: Computed,
}

/// An algorithm, and how it is called.
#[derive(Clone, Copy)]
struct Algorithm {
    number: c_int,
    math: c_int,
    workspace: usize,
}

/// What may be rounded before it is multiplied.
fn math_of(dtype: DType) -> c_int {
    match dtype {
        DType::F16 | DType::BF16 => TENSOR_OP_MATH,
        DType::F32 if !SETTINGS.tf32.load(Ordering::Relaxed) => FMA_MATH,
        _ => DEFAULT_MATH,
    }
}

impl Call<'_> {
    /// `None` if cuDNN cannot describe the convolution.
    fn new<'a>(library: &'static Functions, handle: &'a Handle, geometry: &Convolution) -> Option<Call<'a>> {
        let [dtype, sum] = types(geometry.dtype)?;
        let input = Description::tensor(library, dtype, &geometry.input, geometry.channels_last)?;
        let output = Description::tensor(library, dtype, &geometry.output, geometry.channels_last)?;
        let weight = Description::weight(library, dtype, &geometry.weight, geometry.channels_last)?;
        let convolution = Description::new(library.create_convolution, library.destroy_convolution, |object| {
            let [padding, strides, dilation] =
                [&geometry.padding, &geometry.strides, &geometry.dilation].map(|list| list.as_ptr());
            let count = geometry.padding.len() as c_int;
            // SAFETY: the description was created as one, and all lists have the length that is passed.
            unsafe { (library.set_convolution)(object, count, padding, strides, dilation, CROSS_CORRELATION, sum) }
        })?;
        // SAFETY: the description was created as one.
        let refused = unsafe {
            (library.set_groups)(convolution.object, geometry.groups) != SUCCESS
                || (library.set_math)(convolution.object, math_of(geometry.dtype)) != SUCCESS
        };
        if refused {
            return None;
        }
        let (operands, result) = match geometry.computed {
            Computed::Output => ([input, weight], output),
            Computed::Input => ([weight, output], input),
            Computed::Weight => ([input, output], weight),
        };
        Some(Call { library, handle, operands, result, convolution, computed: geometry.computed })
    }

    /// The algorithms that cuDNN recommends, the best one first.
    fn recommended(&self) -> Vec<Performance> {
        let function = self.library.recommend[self.computed as usize];
        let (mut found, mut count) = ([Performance::EMPTY; MOST], 0);
        let [first, second] = [self.operands[0].object, self.operands[1].object];
        // SAFETY: all objects are alive, and there is room for all of them.
        let status = unsafe {
            function(
                self.handle.object,
                first,
                second,
                self.convolution.object,
                self.result.object,
                MOST as c_int,
                &raw mut count,
                found.as_mut_ptr(),
            )
        };
        if status == SUCCESS { found[..(count.max(0) as usize).min(MOST)].to_vec() } else { Vec::new() }
    }

    /// The algorithms by the time that they take, as cuDNN measures it. It overwrites the result.
    ///
    /// # Safety
    /// As `convolve`.
    unsafe fn measure(
        &self,
        card: &Card,
        stream: StreamId,
        [first, second, result]: [u64; 3],
    ) -> Result<Vec<Performance>> {
        let function = self.library.measure[self.computed as usize];
        // Algorithms that need more than there is are not measured.
        let mut sizes: Vec<usize> = self.recommended().iter().map(|one| one.workspace).collect();
        sizes.sort_unstable();
        sizes.push(0);
        sizes.rotate_right(1);
        let mut workspace = None;
        while let (None, Some(bytes)) = (&workspace, sizes.pop()) {
            workspace = room(card, stream, bytes)?;
        }
        let Some(workspace) = workspace else { return Ok(Vec::new()) };
        let (mut found, mut count) = ([Performance::EMPTY; MOST], 0);
        // SAFETY: all objects are alive, the memory is held, and there is room for all of them.
        let status = unsafe {
            function(
                self.handle.object,
                self.operands[0].object,
                pointer(first),
                self.operands[1].object,
                pointer(second),
                self.convolution.object,
                self.result.object,
                pointer(result),
                MOST as c_int,
                &raw mut count,
                found.as_mut_ptr(),
                workspace.pointer(),
                workspace.bytes(),
            )
        };
        Ok(if status == SUCCESS { found[..(count.max(0) as usize).min(MOST)].to_vec() } else { Vec::new() })
    }

    /// The algorithms that the settings permit.
    fn algorithms(&self, geometry: &Convolution, found: &[Performance], deterministic: bool) -> Vec<Algorithm> {
        let function = self.library.size[self.computed as usize];
        let exact = math_of(geometry.dtype) == FMA_MATH;
        let permitted =
            |one: &&Performance| one.status == SUCCESS && (!deterministic || one.determinism == DETERMINISTIC);
        let algorithm = |one: &Performance| {
            let math = if exact { FMA_MATH } else { one.math };
            let mut workspace = 0;
            // SAFETY: all objects are alive, and the pointer is that of a local variable.
            let status = unsafe {
                (self.library.set_math)(self.convolution.object, math);
                function(
                    self.handle.object,
                    self.operands[0].object,
                    self.operands[1].object,
                    self.convolution.object,
                    self.result.object,
                    one.algorithm,
                    &raw mut workspace,
                )
            };
            (status == SUCCESS).then_some(Algorithm { number: one.algorithm, math, workspace })
        };
        found.iter().filter(permitted).filter_map(algorithm).collect()
    }

    /// # Safety
    /// As `convolve`.
    unsafe fn run(
        &self,
        dtype: DType,
        algorithm: Algorithm,
        workspace: *mut c_void,
        [first, second, result]: [u64; 3],
    ) -> Status {
        let function = self.library.run[self.computed as usize];
        let (single, double) = ([1f32, 0.0], [1f64, 0.0]);
        let [alpha, beta]: [*const c_void; 2] = match dtype {
            DType::F64 => [(&raw const double[0]).cast(), (&raw const double[1]).cast()],
            _ => [(&raw const single[0]).cast(), (&raw const single[1]).cast()],
        };
        // SAFETY: all objects are alive and describe memory that the caller holds; the factors have the dtype of sums.
        unsafe {
            let status = (self.library.set_math)(self.convolution.object, algorithm.math);
            if status != SUCCESS {
                return status;
            }
            function(
                self.handle.object,
                alpha,
                self.operands[0].object,
                pointer(first),
                self.operands[1].object,
                pointer(second),
                self.convolution.object,
                algorithm.number,
                workspace,
                algorithm.workspace,
                beta,
                self.result.object,
                pointer(result),
            )
        }
    }

    fn name(&self) -> &'static str {
        match self.computed {
            Computed::Output => "cudnnConvolutionForward",
            Computed::Input => "cudnnConvolutionBackwardData",
            Computed::Weight => "cudnnConvolutionBackwardFilter",
        }
    }
}

/// The library's state for a device, which one thread uses at a time, with the stream that it enqueues on.
struct Handle {
    device: u8,
    object: Object,
}

/// The handles that no call uses, as addresses.
static IDLE: ForkMutex<BTreeMap<u8, Vec<usize>>> = ForkMutex::new(Rank::Tables, BTreeMap::new());

impl Handle {
    fn take(library: &Functions, card: &Card, stream: StreamId) -> Result<Handle> {
        let idle = IDLE.lock().entry(card.index).or_default().pop();
        let mut object = idle.map_or(std::ptr::null_mut(), std::ptr::with_exposed_provenance_mut);
        if idle.is_none() {
            // SAFETY: the device's context is current, and the pointer is that of a local variable.
            library.check(unsafe { (library.create)(&raw mut object) })?;
        }
        let handle = Handle { device: card.index, object };
        // SAFETY: the handle is alive and this thread's alone, and streams are never destroyed.
        library.check(unsafe { (library.set_stream)(object, stream::handle(stream).cast()) })?;
        Ok(handle)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        IDLE.lock().entry(self.device).or_default().push(self.object.expose_provenance());
    }
}

/// A workspace; `None` if there is not enough memory.
fn room(card: &Card, stream: StreamId, bytes: usize) -> Result<Option<Workspace>> {
    match Workspace::new(card.index, stream, bytes) {
        Err(error) if error.class() == Class::DeviceMemory => Ok(None),
        found => found.map(Some),
    }
}

/// What a plan depends on: the device, the convolution, and the settings.
type Key = (u8, Convolution, [bool; 3]);
static PLANS: ForkMutex<BTreeMap<Key, Arc<[Algorithm]>>> = ForkMutex::new(Rank::Tables, BTreeMap::new());

/// The algorithms to compute a convolution, the best one first.
///
/// # Safety
/// As `convolve`.
unsafe fn plan(
    call: &Call,
    card: &Card,
    stream: StreamId,
    geometry: &Convolution,
    at: [u64; 3],
) -> Result<Arc<[Algorithm]>> {
    let measured = SETTINGS.benchmark.load(Ordering::Relaxed) && !capture::is_capturing(card.index, stream);
    let deterministic = geometry.deterministic || SETTINGS.deterministic.load(Ordering::Relaxed);
    let tf32 = SETTINGS.tf32.load(Ordering::Relaxed);
    let key = (card.index, geometry.clone(), [measured, deterministic, tf32]);
    if let Some(known) = PLANS.lock().get(&key) {
        return Ok(known.clone());
    }
    let mut found = Vec::new();
    if measured {
        // SAFETY: guaranteed by the caller.
        found = unsafe { call.measure(card, stream, at)? };
    }
    if found.is_empty() {
        found = call.recommended();
    }
    let algorithms: Arc<[Algorithm]> = call.algorithms(geometry, &found, deterministic).into();
    let mut plans = PLANS.lock();
    if plans.len() >= MOST_PLANS {
        plans.clear();
    }
    plans.insert(key, algorithms.clone());
    Ok(algorithms)
}

/// Enqueues a convolution of tensors at these addresses, which are multiples of 16: of the input, of the weight and of the output.
/// False if cuDNN does not take it; then the result has no values.
///
/// # Safety
/// The addresses are those of tensors of the convolution's sizes, in memory of the device that is held for the stream.
pub unsafe fn convolve(
    card: &Card,
    stream: StreamId,
    geometry: &Convolution,
    [input, weight, output]: [u64; 3],
) -> Result<bool> {
    let Some(library) = Functions::found().filter(|_| takes(geometry.dtype)) else { return Ok(false) };
    let at = match geometry.computed {
        Computed::Output => [input, weight, output],
        Computed::Input => [weight, output, input],
        Computed::Weight => [input, output, weight],
    };
    let _relaxed = capture::Relaxed::begin();
    let handle = Handle::take(library, card, stream)?;
    let Some(call) = Call::new(library, &handle, geometry) else { return Ok(false) };
    // SAFETY: guaranteed by the caller.
    let algorithms = unsafe { plan(&call, card, stream, geometry, at)? };
    for &algorithm in &*algorithms {
        let Some(workspace) = room(card, stream, algorithm.workspace)? else { continue };
        let mut status = SUCCESS;
        enqueue(card, call.name(), stream, || {
            // SAFETY: guaranteed by the caller; the workspace is held for the stream.
            status = unsafe { call.run(geometry.dtype, algorithm, workspace.pointer(), at) };
            if is_refusal(status) { Ok(()) } else { library.check(status) }
        })?;
        if status == SUCCESS {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a status says that something is not supported; then nothing was enqueued.
fn is_refusal(status: Status) -> bool {
    status / 1000 == 3
}
