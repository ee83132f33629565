//! Green contexts: parts of a device's multiprocessors. Work on a stream of one runs on these multiprocessors alone.
//!
//! Memory, kernels and everything else belong to the device's context, so that a stream is all that differs. Blocks of memory refer to
//! the streams that use them: neither contexts nor their streams are destroyed, and a new context takes the place of one that was given
//! up.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;

use cudarc::driver::sys::{self, CUdevResourceType, CUgreenCtxCreate_flags};
use rushlight_core::device_memory::StreamId;
use rushlight_core::fork::{self, ForkMutex, Rank};
use rushlight_core::{Error, Result};

use crate::card;
use crate::driver::check;
use crate::stream::Stream;

/// The driver's handle of a context, and those of its streams.
#[derive(Default)]
struct Context {
    handle: usize,
    streams: Vec<usize>,
    /// How often a stream was asked for.
    asked: usize,
}

/// The contexts that were given up, by device and by the number of multiprocessors.
static IDLE: ForkMutex<BTreeMap<(u8, u32), Vec<Context>>> = ForkMutex::new(Rank::Tables, BTreeMap::new());

/// The streams of all contexts, each with its device.
static STREAMS: ForkMutex<Vec<(u8, usize)>> = ForkMutex::new(Rank::Tables, Vec::new());

/// The streams of a device's contexts.
pub fn streams_of(device: u8) -> Vec<Stream> {
    let all = STREAMS.lock();
    all.iter().filter(|(of, _)| *of == device).map(|(_, address)| Stream::of(device, StreamId(*address))).collect()
}

/// A part of a device.
pub struct GreenContext {
    device: u8,
    asked: u32,
    context: std::sync::Mutex<Context>,
    generation: u64,
}

impl GreenContext {
    /// A part with this number of multiprocessors; the driver gives more, if its parts are larger.
    pub fn new(device: u8, multiprocessors: u32) -> Result<GreenContext> {
        card::select(device)?;
        let key = (device, multiprocessors);
        let idle = IDLE.lock().get_mut(&key).and_then(Vec::pop);
        let context = idle.map_or_else(|| make(device, multiprocessors), Ok)?;
        Ok(GreenContext { device, asked: multiprocessors, context: context.into(), generation: fork::generation() })
    }

    pub fn device(&self) -> u8 {
        self.device
    }

    /// A stream of the part, which does not wait for the default stream. One that asks for many gets some again.
    pub fn stream(&self) -> Result<Stream> {
        card::select(self.device)?;
        let mut context = self.context.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if context.streams.len() < Stream::MOST {
            let mut stream = std::ptr::null_mut();
            let flags = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
            let own = std::ptr::with_exposed_provenance_mut(context.handle);
            // SAFETY: contexts are never destroyed, and the pointer is that of a local variable.
            check(unsafe { sys::cuGreenCtxStreamCreate(&raw mut stream, own, flags, 0) })?;
            context.streams.push(stream.expose_provenance());
            STREAMS.lock().push((self.device, stream.expose_provenance()));
        }
        let id = StreamId(context.streams[context.asked % context.streams.len()]);
        context.asked += 1;
        Ok(Stream::of(self.device, id))
    }
}

impl Drop for GreenContext {
    fn drop(&mut self) {
        if self.generation == fork::generation() {
            let context = std::mem::take(self.context.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner));
            IDLE.lock().entry((self.device, self.asked)).or_default().push(context);
        }
    }
}

fn make(device: u8, multiprocessors: u32) -> Result<Context> {
    let mut whole: MaybeUninit<sys::CUdevResource> = MaybeUninit::zeroed();
    let (mut part, mut rest) = (MaybeUninit::<sys::CUdevResource>::zeroed(), MaybeUninit::zeroed());
    let (mut number, mut parts) = (0, 1);
    let mut description = std::ptr::null_mut();
    let mut context = std::ptr::null_mut();
    // SAFETY: the driver is initialised, and all pointers are those of local variables, of which it writes one each.
    unsafe {
        check(sys::cuDeviceGet(&raw mut number, i32::from(device)))?;
        check(sys::cuDeviceGetDevResource(number, whole.as_mut_ptr(), CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM))?;
        check(sys::cuDevSmResourceSplitByCount(
            part.as_mut_ptr(),
            &raw mut parts,
            whole.as_ptr(),
            rest.as_mut_ptr(),
            0,
            multiprocessors,
        ))?;
        if parts != 1 {
            return Err(Error::runtime("Failed to create single resource group")
                .hint(format!("The device cannot give {multiprocessors} of its multiprocessors.")));
        }
        check(sys::cuDevResourceGenerateDesc(&raw mut description, part.as_mut_ptr(), 1))?;
        let flags = CUgreenCtxCreate_flags::CU_GREEN_CTX_DEFAULT_STREAM as u32;
        check(sys::cuGreenCtxCreate(&raw mut context, description, number, flags))?;
    }
    Ok(Context { handle: context.expose_provenance(), ..Context::default() })
}
