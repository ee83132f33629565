//! Fourier transforms by NVIDIA's cuFFT, where it is installed. What it does not take is transformed by the host.
//!
//! A plan is made for each shape and kept. A plan has a stream and a workspace as a state: a call takes it out of the cache, sets
//! both and puts it back, so that no two threads use one plan at a time.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_longlong, c_void};

use rushlight_core::device_memory::StreamId;
use rushlight_core::fork::{ForkMutex, Rank};
use rushlight_core::{Error, Result};

use crate::capture;
use crate::card::Card;
use crate::launch::enqueue;
use crate::library::functions;
use crate::memory::pointer;
use crate::stream;
use crate::workspace::Workspace;

functions! {
    /// The functions of cuFFT that are called.
    struct Functions from &["libcufft.so.12", "libcufft.so.11"];
    version = c"cufftGetVersion" (*mut c_int);
    create = c"cufftCreate" (*mut Handle);
    destroy = c"cufftDestroy" (Handle);
    set_auto_allocation = c"cufftSetAutoAllocation" (Handle, c_int);
    make_plan = c"cufftXtMakePlanMany" (
        Handle, c_int, *mut c_longlong, *mut c_longlong, c_longlong, c_longlong, c_int, *mut c_longlong, c_longlong,
        c_longlong, c_int, c_longlong, *mut usize, c_int,
    );
    set_stream = c"cufftSetStream" (Handle, *mut c_void);
    set_work_area = c"cufftSetWorkArea" (Handle, *mut c_void);
    execute = c"cufftXtExec" (Handle, *mut c_void, *mut c_void, c_int);
}

/// `cufftHandle`.
type Handle = c_int;
const SUCCESS: c_int = 0;
const FORWARD: c_int = -1;
const INVERSE: c_int = 1;

/// Whether transforms are given to cuFFT.
pub fn is_available() -> bool {
    Functions::found().is_some()
}

/// The version in words, for `python -m rushlight doctor`; `None` if the library is not installed.
pub fn describe() -> Option<String> {
    let mut version = 0;
    // SAFETY: the pointer is that of a local variable.
    let status = unsafe { (Functions::found()?.version)(&raw mut version) };
    (status == SUCCESS).then(|| format!("{}.{}", version / 1000, version % 1000 / 100))
}

/// The most dimensions that are transformed at once.
pub const DIMS: usize = 3;

/// From which numbers a transform leads to which.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Complex,
    /// Of the last dimension, the result has the first half and the element in the middle.
    RealToHalf,
    HalfToReal,
}

/// How operand or result lie in memory. Distances are in elements.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Placing {
    /// The sizes of the memory that the dimensions are a part of. The first one is not used.
    pub embed: [i64; DIMS],
    /// Between elements of the last dimension.
    pub stride: i64,
    /// Between transforms.
    pub step: i64,
}

/// What a plan is made for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    pub kind: Kind,
    /// Whether numbers are `float64` and not `float32`.
    pub double: bool,
    pub rank: usize,
    /// The sizes of a transform, of real numbers if it has some.
    pub sizes: [i64; DIMS],
    pub from: Placing,
    pub to: Placing,
    /// How many transforms there are.
    pub count: i64,
}

struct Plan {
    handle: Handle,
    /// The bytes of the workspace.
    bytes: usize,
    /// Whether a graph contains its work: it is never destroyed.
    captured: bool,
    /// The number of the last call that used it.
    used: u64,
}

impl Drop for Plan {
    fn drop(&mut self) {
        if let Some(library) = Functions::found().filter(|_| !self.captured) {
            let _relaxed = capture::Relaxed::begin();
            // SAFETY: this is the only owner. cuFFT frees the tables of the plan after the work that uses them.
            unsafe { (library.destroy)(self.handle) };
        }
    }
}

/// The plans of a device that no call uses at the moment.
struct Cache {
    plans: BTreeMap<Shape, Plan>,
    most: usize,
    calls: u64,
}

static CACHES: ForkMutex<BTreeMap<u8, Cache>> = ForkMutex::new(Rank::Tables, BTreeMap::new());

impl Default for Cache {
    fn default() -> Cache {
        // As in torch.
        Cache { plans: BTreeMap::new(), most: 4096, calls: 0 }
    }
}

impl Cache {
    /// Removes the plans beyond the limit that were not used for the longest time.
    fn shrink(&mut self) -> Vec<Plan> {
        let mut removed = Vec::new();
        while self.plans.len() > self.most {
            let oldest = self.plans.iter().min_by_key(|(_, plan)| plan.used).map(|(&shape, _)| shape);
            removed.extend(oldest.and_then(|shape| self.plans.remove(&shape)));
        }
        removed
    }

    /// Keeps a plan after a call; returns those that are removed for it.
    fn put(&mut self, shape: Shape, mut plan: Plan) -> Vec<Plan> {
        self.calls += 1;
        plan.used = self.calls;
        let mut removed: Vec<Plan> = self.plans.insert(shape, plan).into_iter().collect();
        removed.extend(self.shrink());
        removed
    }
}

fn with_cache<R>(device: u8, run: impl FnOnce(&mut Cache) -> R) -> R {
    run(CACHES.lock().entry(device).or_default())
}

/// The number of plans of a device, and the largest number of them.
pub fn plans(device: u8) -> (usize, usize) {
    with_cache(device, |cache| (cache.plans.len(), cache.most))
}

/// Sets the largest number of plans of a device.
pub fn limit_plans(card: &Card, most: usize) {
    drop(with_cache(card.index, |cache| {
        cache.most = most;
        cache.shrink()
    }));
}

/// Removes all plans of a device.
pub fn clear_plans(card: &Card) {
    drop(with_cache(card.index, |cache| std::mem::take(&mut cache.plans)));
}

#[cold]
fn failure(status: c_int) -> Error {
    let name = match status {
        1 => "CUFFT_INVALID_PLAN",
        2 => "CUFFT_ALLOC_FAILED",
        3 => "CUFFT_INVALID_TYPE",
        4 => "CUFFT_INVALID_VALUE",
        5 => "CUFFT_INTERNAL_ERROR",
        6 => "CUFFT_EXEC_FAILED",
        7 => "CUFFT_SETUP_FAILED",
        8 => "CUFFT_INVALID_SIZE",
        9 => "CUFFT_UNALIGNED_DATA",
        11 => "CUFFT_INVALID_DEVICE",
        13 => "CUFFT_NO_WORKSPACE",
        14 => "CUFFT_NOT_IMPLEMENTED",
        16 => "CUFFT_NOT_SUPPORTED",
        _ => return Error::runtime(format!("cuFFT error: {status}")),
    };
    Error::runtime(format!("cuFFT error: {name}"))
}

fn check(status: c_int) -> Result<()> {
    if status == SUCCESS { Ok(()) } else { Err(failure(status)) }
}

impl Shape {
    /// `cudaDataType_t` of operand, result and computation.
    fn types(&self) -> [c_int; 3] {
        let (real, complex) = if self.double { (1, 5) } else { (0, 4) };
        match self.kind {
            Kind::Complex => [complex, complex, complex],
            Kind::RealToHalf => [real, complex, complex],
            Kind::HalfToReal => [complex, real, complex],
        }
    }

    /// A new plan on the current device; `None` if cuFFT does not take the shape.
    fn plan(&self, library: &Functions) -> Option<Plan> {
        let _relaxed = capture::Relaxed::begin();
        let mut handle = 0;
        // SAFETY: the pointer is that of a local variable.
        check(unsafe { (library.create)(&raw mut handle) }).ok()?;
        let mut plan = Plan { handle, bytes: 0, captured: false, used: 0 };
        let [mut sizes, mut from, mut to] = [self.sizes, self.from.embed, self.to.embed];
        let types = self.types();
        // SAFETY: the plan is alive, and the lists have a number for each of the dimensions.
        unsafe {
            check((library.set_auto_allocation)(handle, 0)).ok()?;
            check((library.make_plan)(
                handle,
                self.rank as c_int,
                sizes.as_mut_ptr(),
                from.as_mut_ptr(),
                self.from.stride,
                self.from.step,
                types[0],
                to.as_mut_ptr(),
                self.to.stride,
                self.to.step,
                types[1],
                self.count,
                &raw mut plan.bytes,
                types[2],
            ))
            .ok()?;
        }
        Some(plan)
    }
}

/// Enqueues transforms of the memory at each of the pairs of addresses, operand and result, which may be the same. Results are not
/// divided by anything. False if cuFFT is not installed or does not take the shape; then nothing was enqueued.
///
/// # Safety
/// Operands and results lie within memory that is held for the stream. An operand of `HalfToReal` may be overwritten.
pub unsafe fn transform(
    card: &Card,
    stream: StreamId,
    shape: &Shape,
    forward: bool,
    addresses: impl Iterator<Item = [u64; 2]>,
) -> Result<bool> {
    let Some(library) = Functions::found() else { return Ok(false) };
    let kept = with_cache(card.index, |cache| cache.plans.remove(shape));
    let Some(mut plan) = kept.or_else(|| shape.plan(library)) else { return Ok(false) };
    plan.captured |= capture::is_capturing(card.index, stream);
    let workspace = Workspace::new(card.index, stream, plan.bytes)?;
    // SAFETY: the plan is alive, streams are never destroyed, and the workspace is held for the stream.
    unsafe {
        check((library.set_stream)(plan.handle, stream::handle(stream).cast()))?;
        check((library.set_work_area)(plan.handle, workspace.pointer()))?;
    }
    let direction = if forward { FORWARD } else { INVERSE };
    for [from, to] in addresses {
        let [from, to] = [from, to].map(pointer);
        enqueue(card, "cufftXtExec", stream, || {
            // SAFETY: guaranteed by the caller; the workspace is held for the stream.
            check(unsafe { (library.execute)(plan.handle, from, to, direction) })
        })?;
    }
    drop(with_cache(card.index, |cache| cache.put(*shape, plan)));
    Ok(true)
}
