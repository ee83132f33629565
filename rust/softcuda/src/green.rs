//! The entry points of the driver for green contexts, which are parts of the multiprocessors. Parts have an even number of these.
#![allow(non_snake_case, clippy::missing_safety_doc)]

use std::ffi::{c_int, c_uint};

use crate::driver::{MULTIPROCESSORS, current, on_device};
use crate::status::{INVALID_HANDLE, INVALID_RESOURCE, INVALID_VALUE, SUCCESS, Status};

const PARTS_OF: c_uint = 2;
const MULTIPROCESSORS_KIND: c_uint = 1;
const NON_BLOCKING: c_uint = 1;

/// `CUdevResource`, 144 bytes.
#[repr(C)]
pub struct Resource {
    kind: c_uint,
    device: c_int,
    padding: [c_uint; 22],
    count: c_uint,
    smallest: c_uint,
    multiple: c_uint,
    rest: [c_uint; 9],
}

/// A description of a context, and a context: a device and a number of multiprocessors.
pub struct Part {
    device: c_int,
    count: c_uint,
}

fn resource(device: c_int, count: c_uint) -> Resource {
    let (kind, smallest, multiple) = (MULTIPROCESSORS_KIND, PARTS_OF, PARTS_OF);
    Resource { kind, device, padding: [0; 22], count, smallest, multiple, rest: [0; 9] }
}

entries! {
    cuDeviceGetDevResource(device: c_int, to: *mut Resource, kind: c_uint) {
        if kind != MULTIPROCESSORS_KIND { return INVALID_VALUE; }
        to.write(resource(device, MULTIPROCESSORS));
        SUCCESS
    }

    cuDevSmResourceSplitByCount(
        parts: *mut Resource, number: *mut c_uint, whole: *const Resource, rest: *mut Resource, _flags: c_uint, least: c_uint
    ) {
        let whole = &*whole;
        if whole.kind != MULTIPROCESSORS_KIND || *number == 0 { return INVALID_VALUE; }
        let each = least.max(1).next_multiple_of(PARTS_OF);
        if least > whole.count { return INVALID_RESOURCE; }
        let made = (*number).min(whole.count / each);
        for n in 0..made { parts.add(n as usize).write(resource(whole.device, each)); }
        rest.write(resource(whole.device, whole.count - made * each));
        *number = made;
        SUCCESS
    }

    cuDevResourceGenerateDesc(description: *mut *mut Part, resources: *const Resource, number: c_uint) {
        let only = &*resources;
        if number != 1 || only.kind != MULTIPROCESSORS_KIND || only.count == 0 { return INVALID_RESOURCE; }
        *description = Box::into_raw(Box::new(Part { device: only.device, count: only.count }));
        SUCCESS
    }

    cuGreenCtxCreate(context: *mut *mut Part, description: *mut Part, device: c_int, flags: c_uint) {
        // Programs must ask for a default stream.
        if flags != 1 || (*description).device != device { return INVALID_VALUE; }
        *context = Box::into_raw(Box::new(Part { device, count: (*description).count }));
        SUCCESS
    }

    cuGreenCtxStreamCreate(stream: *mut usize, context: *const Part, flags: c_uint, priority: c_int) {
        let part = &*context;
        if flags != NON_BLOCKING { return INVALID_VALUE; }
        if current() != Ok(part.device) { return INVALID_HANDLE; }
        on_device(|machine, device| {
            *stream = machine.streams.create(device, priority.clamp(-5, 0));
            if let Some(own) = machine.streams.streams.get_mut(&*stream) { own.part = part.count; }
            SUCCESS
        })
    }
}
