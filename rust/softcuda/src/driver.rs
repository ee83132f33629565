//! The entry points of the driver that rushlight calls. NVIDIA's documentation of the CUDA driver API describes them.
#![allow(non_snake_case, clippy::missing_safety_doc, clippy::too_many_arguments)]

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_ushort, c_void};

use crate::machine::{Machine, device_count, number, start, with};
use crate::memory::HOST;
use crate::status::{
    ALREADY_REGISTERED, ASSERT, BLOCKED, CAPTURE_INVALIDATED, CAPTURE_UNJOINED, CAPTURE_UNSUPPORTED, CAPTURED_EVENT,
    ILLEGAL_ADDRESS, INVALID_CONTEXT, INVALID_DEVICE, INVALID_HANDLE, INVALID_VALUE, LAUNCH_FAILED, MISALIGNED,
    NOT_FOUND, NOT_INITIALIZED, NOT_READY, NOT_REGISTERED, OUT_OF_MEMORY, SUCCESS, Status,
};
use crate::streams::{Source, Work};

/// Contexts are the numbers of their devices, after this one.
const CONTEXTS: usize = 0x1000;
/// The beginning of an event's name for other processes.
const EVENT: u64 = 0x736f_6674_6576_656e;
/// `CU_EVENT_DISABLE_TIMING` and `CU_EVENT_INTERPROCESS`.
const DISABLE_TIMING: c_uint = 2;
const INTERPROCESS: c_uint = 4;
const MOST_THREADS: c_uint = 1024;

/// The multiprocessors of a device.
pub const MULTIPROCESSORS: c_uint = 4;

/// The name of memory for other processes (`CUipcMemHandle`).
#[repr(C)]
pub struct Handle([u64; 8]);

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
    /// How this thread's unsafe calls are treated during a capture: `CU_STREAM_CAPTURE_MODE_GLOBAL` at first.
    static CAPTURE_MODE: Cell<c_int> = const { Cell::new(0) };
}

/// The device of this thread's context.
pub fn current() -> Result<c_int, Status> {
    match CURRENT.get() {
        0 => Err(INVALID_CONTEXT),
        context => Ok((context - CONTEXTS) as c_int),
    }
}

/// What this thread may do during captures.
pub fn capture_mode() -> c_int {
    CAPTURE_MODE.get()
}

/// Runs a function on the device of this thread's context, unless an error has stopped it.
pub fn on_device(mut run: impl FnMut(&mut Machine, c_int) -> Status) -> Status {
    let device = match current() {
        Ok(device) => device,
        Err(status) => return status,
    };
    with(|machine| match machine.fault(device) {
        SUCCESS => run(machine, device),
        fault => fault,
    })
}

/// Runs a function on a stream of this thread's context.
pub fn on_stream(stream: usize, mut run: impl FnMut(&mut Machine, usize) -> Status) -> Status {
    on_device(|machine, device| match machine.streams.find(device, stream) {
        Some(stream) => run(machine, stream),
        None => INVALID_HANDLE,
    })
}

entries! {
    cuInit(_flags: c_uint) { start() }

    cuDriverGetVersion(version: *mut c_int) { *version = number("SOFTCUDA_VERSION").unwrap_or(13000) as c_int; SUCCESS }

    cuDeviceGetCount(count: *mut c_int) { with(|_| { *count = device_count(); SUCCESS }) }

    cuDeviceGet(device: *mut c_int, index: c_int) {
        with(|_| {
            if !(0..device_count()).contains(&index) { return INVALID_DEVICE; }
            *device = index;
            SUCCESS
        })
    }

    cuDeviceGetName(name: *mut c_char, length: c_int, _device: c_int) {
        let text = c"Software card";
        let count = text.count_bytes().min(length.max(1) as usize - 1);
        name.copy_from_nonoverlapping(text.as_ptr(), count);
        *name.add(count) = 0;
        SUCCESS
    }

    cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) {
        *uuid = *b"softcuda device\0";
        (*uuid)[15] = device as u8;
        SUCCESS
    }

    cuDeviceTotalMem_v2(bytes: *mut usize, _device: c_int) { with(|machine| { *bytes = machine.memory.capacity; SUCCESS }) }

    cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, _device: c_int) {
        *value = match attribute {
            1..=3 => MOST_THREADS as c_int, // threads of a block, and its sizes
            5 => 0x7fff_ffff,                   // sizes of a grid
            6 | 7 => 65535,
            8 | 81 | 97 => 48 << 10,            // shared memory of a block and of a multiprocessor
            10 => 32,                           // the size of a warp
            12 | 82 => 65536,                   // registers
            13 => 1_980_000,                    // the clock in kHz
            16 => MULTIPROCESSORS as c_int,
            36 => 2_619_000,                    // the clock of the memory in kHz
            37 => 6144,                         // the bits of the memory's bus
            38 => 1 << 22,                      // second-level cache
            39 => 2048,                         // threads of a multiprocessor
            41 => 1,                            // unified addressing
            75 => 9,                            // compute capability
            _ => 0,
        };
        SUCCESS
    }

    cuDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) { *can = c_int::from(device != peer); SUCCESS }

    cuDevicePrimaryCtxRetain(context: *mut usize, device: c_int) {
        with(|_| {
            if !(0..device_count()).contains(&device) { return INVALID_DEVICE; }
            *context = CONTEXTS + device as usize;
            SUCCESS
        })
    }

    cuCtxSetCurrent(context: usize) { with(|_| { CURRENT.set(context); SUCCESS }) }

    cuCtxGetCurrent(context: *mut usize) { with(|_| { *context = CURRENT.get(); SUCCESS }) }

    cuCtxSynchronize() {
        on_device(|machine, device| {
            if machine.graphs.forbids(CAPTURE_MODE.get()) { return CAPTURE_UNSUPPORTED; }
            machine.drain_device(device)
        })
    }

    cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) { *least = 0; *greatest = -5; SUCCESS }

    cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        on_device(|machine, device| {
            *total = machine.memory.capacity;
            *free = *total - machine.memory.used(device);
            SUCCESS
        })
    }

    cuMemAlloc_v2(address: *mut usize, bytes: usize) {
        on_device(|machine, device| {
            if machine.graphs.forbids(CAPTURE_MODE.get()) { return CAPTURE_UNSUPPORTED; }
            give(machine.memory.allocate(device, bytes), address)
        })
    }

    cuMemFree_v2(address: usize) { free(address, false) }

    cuMemHostAlloc(address: *mut usize, bytes: usize, _flags: c_uint) {
        on_device(|machine, _| give(machine.memory.allocate(HOST, bytes), address))
    }

    cuMemFreeHost(address: usize) { free(address, true) }

    cuMemHostRegister_v2(address: usize, bytes: usize, _flags: c_uint) {
        on_device(|machine, _| machine.memory.register(address, bytes))
    }

    cuMemHostUnregister(address: usize) { on_device(|machine, _| machine.memory.unregister(address)) }

    cuPointerGetAttribute(value: *mut c_int, attribute: c_int, address: usize) {
        on_device(|machine, _| match (attribute, machine.memory.device_of(address, 1)) {
            // `CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`
            (9, Some(device)) if device != HOST => { *value = device; SUCCESS }
            _ => INVALID_VALUE,
        })
    }

    cuProfilerStart() { on_device(|machine, _| { machine.is_profiled = true; SUCCESS }) }

    cuProfilerStop() { on_device(|machine, _| { machine.is_profiled = false; SUCCESS }) }

    cuMemcpyHtoDAsync_v2(to: usize, from: *const u8, bytes: usize, stream: usize) {
        on_stream(stream, |machine, stream| {
            if !is_on_device(machine, to, bytes) { return INVALID_VALUE; }
            let from = match machine.memory.device_of(from as usize, bytes) {
                Some(HOST) => Source::Address(from as usize),
                // A graph would read the memory at each launch.
                _ if machine.graphs.is_capturing(stream) => return machine.graphs.invalidate(stream),
                _ => Source::Bytes(std::slice::from_raw_parts(from, bytes).to_vec()),
            };
            machine.enqueue(stream, Work::Copy { to, from, bytes });
            SUCCESS
        })
    }

    cuMemcpyDtoHAsync_v2(to: usize, from: usize, bytes: usize, stream: usize) {
        let mut locked = false;
        let status = on_stream(stream, |machine, stream| {
            if !is_on_device(machine, from, bytes) { return INVALID_VALUE; }
            locked = machine.memory.device_of(to, bytes) == Some(HOST);
            if !locked && machine.graphs.is_capturing(stream) { return machine.graphs.invalidate(stream); }
            machine.enqueue(stream, Work::Copy { to, from: Source::Address(from), bytes });
            SUCCESS
        });
        if locked || status != SUCCESS { return status; }
        // A driver copies to other memory of the host before it returns.
        on_stream(stream, drain)
    }

    cuMemcpyDtoDAsync_v2(to: usize, from: usize, bytes: usize, stream: usize) { copy(to, from, bytes, stream) }

    cuMemcpyPeerAsync(to: usize, _to_context: usize, from: usize, _from_context: usize, bytes: usize, stream: usize) {
        copy(to, from, bytes, stream)
    }

    cuMemsetD8Async(to: usize, value: u8, count: usize, stream: usize) { fill(to, &value.to_ne_bytes(), count, stream) }

    cuMemsetD16Async(to: usize, value: c_ushort, count: usize, stream: usize) { fill(to, &value.to_ne_bytes(), count, stream) }

    cuMemsetD32Async(to: usize, value: c_uint, count: usize, stream: usize) { fill(to, &value.to_ne_bytes(), count, stream) }

    cuStreamCreateWithPriority(stream: *mut usize, _flags: c_uint, priority: c_int) {
        on_device(|machine, device| { *stream = machine.streams.create(device, priority.clamp(-5, 0)); SUCCESS })
    }

    cuStreamCreate(stream: *mut usize, _flags: c_uint) {
        on_device(|machine, device| { *stream = machine.streams.create(device, 0); SUCCESS })
    }

    cuLaunchHostFunc(stream: usize, run: unsafe extern "C" fn(*mut c_void), data: usize) {
        on_stream(stream, |machine, stream| {
            let run = move || run(std::ptr::with_exposed_provenance_mut(data));
            machine.enqueue(stream, Work::Call(std::sync::Arc::new(run)));
            SUCCESS
        })
    }

    cuStreamGetPriority(stream: usize, priority: *mut c_int) {
        on_stream(stream, |machine, stream| {
            *priority = machine.streams.streams.get(&stream).map_or(0, |stream| stream.priority);
            SUCCESS
        })
    }

    cuStreamDestroy_v2(stream: usize) {
        on_stream(stream, |machine, stream| {
            let status = machine.drain(stream);
            if status == SUCCESS { machine.streams.remove(stream); }
            status
        })
    }

    cuStreamSynchronize(stream: usize) {
        on_stream(stream, |machine, stream| {
            if machine.graphs.is_capturing(stream) { return machine.graphs.invalidate(stream); }
            drain(machine, stream)
        })
    }

    cuStreamQuery(stream: usize) {
        on_stream(stream, |machine, stream| {
            if machine.graphs.is_capturing(stream) { return machine.graphs.invalidate(stream); }
            machine.progress();
            machine.work_while_asked(stream);
            let is_idle = machine.streams.is_idle(stream);
            machine.answer(is_idle)
        })
    }

    cuStreamWaitEvent(stream: usize, event: usize, _flags: c_uint) {
        // The event may belong to another device.
        on_stream(stream, |machine, stream| {
            let Some(state) = machine.streams.event(event) else { return INVALID_HANDLE };
            let ticket = state.recorded;
            machine.enqueue(stream, Work::Wait { event, ticket });
            SUCCESS
        })
    }

    cuEventCreate(event: *mut usize, flags: c_uint) {
        let shared = flags & INTERPROCESS != 0;
        if shared && flags & DISABLE_TIMING == 0 { return INVALID_VALUE; }
        on_device(|machine, device| { *event = machine.streams.create_event(device, shared); SUCCESS })
    }

    cuEventDestroy_v2(event: usize) {
        with(|machine| {
            if machine.streams.event(event).is_none() { return INVALID_HANDLE; }
            if machine.has_passed(event) {
                machine.streams.events.remove(&event);
            } else if let Some(state) = machine.streams.events.get_mut(&event) {
                state.destroyed = true;
            }
            SUCCESS
        })
    }

    cuEventRecord(event: usize, stream: usize) {
        on_stream(stream, |machine, key| {
            let device = current().unwrap_or(HOST);
            match machine.streams.event(event) {
                Some(state) if state.device == device => {}
                _ => return INVALID_HANDLE,
            }
            machine.record(event, key);
            SUCCESS
        })
    }

    cuEventQuery(event: usize) {
        with(|machine| {
            if machine.streams.event(event).is_none() { return INVALID_HANDLE; }
            if machine.graphs.is_captured(event) { return CAPTURED_EVENT; }
            machine.progress();
            if !machine.has_passed(event) { machine.work_while_asked(machine.streams.events[&event].stream); }
            let has_passed = machine.has_passed(event);
            machine.answer(has_passed)
        })
    }

    cuEventSynchronize(event: usize) {
        with(|machine| {
            let Some(state) = machine.streams.event(event) else { return INVALID_HANDLE };
            let (ticket, device) = (state.recorded, state.device);
            if machine.graphs.is_captured(event) { return CAPTURED_EVENT; }
            match machine.reach(event, ticket) {
                SUCCESS => machine.fault(device),
                blocked => blocked,
            }
        })
    }

    cuEventElapsedTime_v2(milliseconds: *mut f32, from: usize, to: usize) {
        with(|machine| {
            if !machine.has_passed(from) || !machine.has_passed(to) { return NOT_READY; }
            let time = |event: usize| machine.streams.event(event).and_then(|event| event.time);
            let device = |event: usize| machine.streams.event(event).map(|event| event.device);
            if device(from) != device(to) { return INVALID_HANDLE; }
            let (Some(from), Some(to)) = (time(from), time(to)) else { return INVALID_HANDLE };
            let apart = |later: std::time::Instant, earlier| later.duration_since(earlier).as_secs_f32() * 1e3;
            *milliseconds = if to >= from { apart(to, from) } else { -apart(from, to) };
            SUCCESS
        })
    }

    cuStreamBeginCapture_v2(stream: usize, mode: c_int) {
        // The default stream cannot be captured.
        if stream == 0 { return CAPTURE_UNSUPPORTED; }
        on_stream(stream, |machine, stream| machine.graphs.begin(stream, mode))
    }

    cuStreamEndCapture(stream: usize, graph: *mut usize) {
        on_stream(stream, |machine, stream| give(machine.graphs.end(stream), graph))
    }

    cuStreamGetCaptureInfo_v3(
        stream: usize, state: *mut c_int, id: *mut u64, graph: *mut usize, nodes: *mut *const usize, _edges: *mut usize,
        count: *mut usize
    ) {
        on_stream(stream, |machine, stream| {
            (*state, *id) = machine.graphs.state(stream);
            if let Some((found, last)) = machine.graphs.captured(stream) {
                (*graph, *nodes, *count) = (found, last.as_ptr(), last.len());
            }
            SUCCESS
        })
    }

    cuThreadExchangeStreamCaptureMode(mode: *mut c_int) { *mode = CAPTURE_MODE.replace(*mode); SUCCESS }

    cuIpcGetMemHandle(handle: *mut Handle, address: usize) {
        on_device(|machine, _| match machine.memory.handle(address) {
            Ok(made) => { handle.write_unaligned(Handle(made)); SUCCESS }
            Err(status) => status,
        })
    }

    cuIpcOpenMemHandle_v2(address: *mut usize, handle: Handle, _flags: c_uint) {
        on_device(|machine, device| give(machine.memory.receive(&handle.0, device), address))
    }

    cuIpcCloseMemHandle(address: usize) {
        on_device(|machine, device| {
            if machine.drain_device(device) == BLOCKED { return BLOCKED; }
            machine.memory.close(address).map_or_else(|status| status, |()| SUCCESS)
        })
    }

    // NVRTC asks for tables of functions that no documentation describes, and goes on without them.
    cuGetExportTable(_table: *mut *const c_void, _id: *const c_void) { NOT_FOUND }

    cuIpcGetEventHandle(handle: *mut Handle, event: usize) {
        with(|machine| match machine.streams.event(event) {
            Some(state) if state.shared => {
                handle.write_unaligned(Handle([EVENT, u64::from(std::process::id()), event as u64, 0, 0, 0, 0, 0]));
                SUCCESS
            }
            _ => INVALID_HANDLE,
        })
    }

    cuIpcOpenEventHandle(event: *mut usize, handle: Handle) {
        on_device(|machine, device| match handle.0 {
            [EVENT, process, ..] if process == u64::from(std::process::id()) => INVALID_CONTEXT,
            // What was recorded has run, in whichever process.
            [EVENT, ..] => { *event = machine.streams.create_event(device, true); SUCCESS }
            _ => INVALID_HANDLE,
        })
    }

    cuModuleLoadData(module: *mut usize, image: *const u8) {
        on_device(|machine, device| give(machine.modules.load(image, device), module))
    }

    cuModuleUnload(module: usize) {
        on_device(|machine, _| if machine.modules.unload(module) { SUCCESS } else { INVALID_HANDLE })
    }

    cuModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) {
        on_device(|machine, _| give(machine.modules.function(module, CStr::from_ptr(name)), function))
    }

    cuFuncGetParamInfo(function: usize, at: usize, offset: *mut usize, size: *mut usize) {
        on_device(|machine, _| {
            let Some(found) = machine.modules.find(function) else { return INVALID_HANDLE };
            let Some(parameter) = found.parameter(at) else { return INVALID_VALUE };
            (*offset, *size) = parameter;
            SUCCESS
        })
    }

    cuFuncSetAttribute(_function: usize, attribute: c_int, value: c_int) {
        // `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`; a block has 48 KiB.
        if attribute == 8 && value <= 48 << 10 { SUCCESS } else { INVALID_VALUE }
    }

    cuLaunchKernel(
        function: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint,
        shared: c_uint, stream: usize, arguments: *mut *mut c_void, _extra: *mut *mut c_void
    ) {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let threads = block.iter().try_fold(1, |all: c_uint, &size| all.checked_mul(size));
        let fits = threads.is_some_and(|threads| (1..=MOST_THREADS).contains(&threads));
        if !fits || grid.contains(&0) || grid_y > 65535 || grid_z > 65535 || shared > 0 {
            return INVALID_VALUE;
        }
        on_stream(stream, |machine, stream| {
            let Some(found) = machine.modules.find(function) else { return INVALID_HANDLE };
            if Ok(found.device) != current() { return INVALID_HANDLE; }
            let launch = found.prepare(function, arguments.cast(), grid, block);
            machine.enqueue(stream, Work::Launch(launch));
            SUCCESS
        })
    }

    cuGetErrorName(status: Status, text: *mut *const c_char) { *text = name_of(status).as_ptr(); SUCCESS }

    cuGetErrorString(status: Status, text: *mut *const c_char) {
        let found = sentence_of(status);
        *text = found.map_or(std::ptr::null(), CStr::as_ptr);
        if found.is_some() { SUCCESS } else { INVALID_VALUE }
    }
}

/// Stores a new handle or address.
///
/// # Safety
/// `to` can be written.
pub unsafe fn give(made: Result<usize, Status>, to: *mut usize) -> Status {
    match made {
        Ok(made) => {
            // SAFETY: guaranteed by the caller.
            unsafe { *to = made };
            SUCCESS
        }
        Err(status) => status,
    }
}

/// Runs all work of a stream of this thread's context.
fn drain(machine: &mut Machine, stream: usize) -> Status {
    match machine.drain(stream) {
        SUCCESS => current().map_or_else(|status| status, |device| machine.fault(device)),
        blocked => blocked,
    }
}

fn is_on_device(machine: &Machine, address: usize, bytes: usize) -> bool {
    machine.memory.device_of(address, bytes).is_some_and(|device| device != HOST)
}

fn copy(to: usize, from: usize, bytes: usize, stream: usize) -> Status {
    on_stream(stream, |machine, stream| {
        if !is_on_device(machine, to, bytes) || !is_on_device(machine, from, bytes) {
            return INVALID_VALUE;
        }
        machine.enqueue(stream, Work::Copy { to, from: Source::Address(from), bytes });
        SUCCESS
    })
}

fn fill(to: usize, pattern: &[u8], count: usize, stream: usize) -> Status {
    on_stream(stream, |machine, stream| {
        if !is_on_device(machine, to, pattern.len() * count) {
            return INVALID_VALUE;
        }
        machine.enqueue(stream, Work::Fill { to, pattern: pattern.to_vec(), count });
        SUCCESS
    })
}

/// Frees memory once all work has run, as a driver does.
fn free(address: usize, host: bool) -> Status {
    with(|machine| {
        if machine.graphs.forbids(CAPTURE_MODE.get()) {
            return CAPTURE_UNSUPPORTED;
        }
        for device in 0..device_count() {
            if machine.drain_device(device) == BLOCKED {
                return BLOCKED;
            }
        }
        match machine.memory.free(address, host) {
            Ok(true) => SUCCESS,
            Ok(false) => {
                let device = current().unwrap_or(0);
                machine.stop(device, ILLEGAL_ADDRESS, "something wrote behind the end of a block");
                SUCCESS
            }
            Err(status) => status,
        }
    })
}

fn name_of(status: Status) -> &'static CStr {
    match status {
        SUCCESS => c"CUDA_SUCCESS",
        INVALID_VALUE => c"CUDA_ERROR_INVALID_VALUE",
        OUT_OF_MEMORY => c"CUDA_ERROR_OUT_OF_MEMORY",
        NOT_INITIALIZED => c"CUDA_ERROR_NOT_INITIALIZED",
        INVALID_DEVICE => c"CUDA_ERROR_INVALID_DEVICE",
        INVALID_CONTEXT => c"CUDA_ERROR_INVALID_CONTEXT",
        INVALID_HANDLE => c"CUDA_ERROR_INVALID_HANDLE",
        ILLEGAL_ADDRESS => c"CUDA_ERROR_ILLEGAL_ADDRESS",
        ASSERT => c"CUDA_ERROR_ASSERT",
        ALREADY_REGISTERED => c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
        NOT_REGISTERED => c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
        MISALIGNED => c"CUDA_ERROR_MISALIGNED_ADDRESS",
        LAUNCH_FAILED => c"CUDA_ERROR_LAUNCH_FAILED",
        CAPTURE_UNSUPPORTED => c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        CAPTURE_INVALIDATED => c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
        CAPTURE_UNJOINED => c"CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
        CAPTURED_EVENT => c"CUDA_ERROR_CAPTURED_EVENT",
        _ => c"CUDA_ERROR_UNKNOWN",
    }
}

/// NVIDIA's sentence, or none for a number that is no status.
fn sentence_of(status: Status) -> Option<&'static CStr> {
    Some(match status {
        SUCCESS => c"no error",
        INVALID_VALUE => c"invalid argument",
        OUT_OF_MEMORY => c"out of memory",
        NOT_INITIALIZED => c"initialization error",
        INVALID_DEVICE => c"invalid device ordinal",
        INVALID_CONTEXT => c"invalid device context",
        INVALID_HANDLE => c"invalid resource handle",
        NOT_FOUND => c"named symbol not found",
        ILLEGAL_ADDRESS => c"an illegal memory access was encountered",
        ASSERT => c"device-side assert triggered",
        ALREADY_REGISTERED => c"part or all of the requested memory range is already mapped",
        NOT_REGISTERED => c"pointer does not correspond to a registered memory region",
        MISALIGNED => c"misaligned address",
        LAUNCH_FAILED => c"unspecified launch failure",
        CAPTURE_UNSUPPORTED => c"operation not permitted when stream is capturing",
        CAPTURE_INVALIDATED => c"operation failed due to a previous error during capture",
        CAPTURE_UNJOINED => c"capturing stream has unjoined work",
        CAPTURED_EVENT => c"operation not permitted on an event last recorded in a capturing stream",
        999 => c"unknown error",
        _ => return None,
    })
}
