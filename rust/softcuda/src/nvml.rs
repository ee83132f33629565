//! The entry points of NVIDIA's management library, for devices that are always as busy.
#![allow(non_snake_case, clippy::missing_safety_doc)]

use std::ffi::{CStr, c_char, c_int, c_uint};

use crate::machine::{device_count, with};
use crate::status::SUCCESS;

type Status = c_int;
const INVALID_ARGUMENT: Status = 2;
const NOT_FOUND: Status = 6;
/// Handles are the numbers of the devices, after this one.
const DEVICES: usize = 0x2000;

#[repr(C)]
pub struct Process {
    id: c_uint,
    bytes: u64,
    instances: [c_uint; 2],
}

/// The bytes that are used on a device, and the whole.
fn used(device: usize) -> (u64, u64) {
    let mut found = (0, 0);
    with(|machine| {
        found = (machine.memory.used((device - DEVICES) as c_int) as u64, machine.memory.capacity as u64);
        SUCCESS
    });
    found
}

entries! {
    nvmlInit_v2() { SUCCESS }

    nvmlDeviceGetHandleByUUID(name: *const c_char, device: *mut usize) {
        // "softcuda device" and the number of the device.
        let prefix = "GPU-736f6674-6375-6461-2064-6576696365";
        let text = CStr::from_ptr(name).to_string_lossy();
        let number = text.strip_prefix(prefix).and_then(|rest| usize::from_str_radix(rest, 16).ok());
        let Some(number) = number.filter(|&number| number < device_count() as usize) else { return NOT_FOUND };
        *device = DEVICES + number;
        SUCCESS
    }

    nvmlDeviceGetUtilizationRates(_device: usize, rates: *mut [c_uint; 2]) { *rates = [37, 12]; SUCCESS }

    nvmlDeviceGetTemperature(_device: usize, sensor: c_int, degrees: *mut c_uint) {
        if sensor != 0 { return INVALID_ARGUMENT; }
        *degrees = 41;
        SUCCESS
    }

    nvmlDeviceGetPowerUsage(_device: usize, milliwatts: *mut c_uint) { *milliwatts = 71_500; SUCCESS }

    nvmlDeviceGetClockInfo(_device: usize, clock: c_int, megahertz: *mut c_uint) {
        if clock != 1 { return INVALID_ARGUMENT; }
        *megahertz = 1980;
        SUCCESS
    }

    nvmlDeviceGetMemoryInfo(device: usize, memory: *mut [u64; 3]) {
        let (used, all) = used(device);
        *memory = [all, all - used, used];
        SUCCESS
    }

    nvmlDeviceGetComputeRunningProcesses_v3(device: usize, count: *mut c_uint, processes: *mut Process) {
        if *count == 0 { return INVALID_ARGUMENT; }
        let bytes = used(device).0;
        *count = c_uint::from(bytes > 0);
        if bytes > 0 {
            processes.write(Process { id: std::process::id(), bytes, instances: [0; 2] });
        }
        SUCCESS
    }
}
