//! How busy, warm and full devices are, from NVIDIA's management library, which the driver brings.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::null_mut;

use once_cell::race::OnceBool;
use rushlight_core::{Error, Result};

use crate::card::Card;
use crate::library::functions;

type Device = *mut c_void;
const SUCCESS: c_int = 0;
/// There is not enough room for the list.
const INSUFFICIENT_SIZE: c_int = 7;
/// The clock of the multiprocessors.
const MULTIPROCESSORS: c_int = 1;

#[repr(C)]
#[derive(Default)]
struct Rates {
    gpu: u32,
    memory: u32,
}

#[repr(C)]
#[derive(Default)]
struct Memory {
    total: u64,
    free: u64,
    used: u64,
}

/// A process that uses a device, and the bytes that it has.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Process {
    pub id: u32,
    pub bytes: u64,
    _instances: [u32; 2],
}

functions! {
    struct Functions from &["libnvidia-ml.so.1"];
    init = c"nvmlInit_v2"();
    by_uuid = c"nvmlDeviceGetHandleByUUID"(*const c_char, *mut Device);
    rates = c"nvmlDeviceGetUtilizationRates"(Device, *mut Rates);
    temperature = c"nvmlDeviceGetTemperature"(Device, c_int, *mut u32);
    power = c"nvmlDeviceGetPowerUsage"(Device, *mut u32);
    clock = c"nvmlDeviceGetClockInfo"(Device, c_int, *mut u32);
    memory = c"nvmlDeviceGetMemoryInfo"(Device, *mut Memory);
    processes = c"nvmlDeviceGetComputeRunningProcesses_v3"(Device, *mut u32, *mut Process);
}

/// The library after its initialisation; `None` if there is none.
fn library() -> Option<&'static Functions> {
    static STARTED: OnceBool = OnceBool::new();
    let library = Functions::found()?;
    // SAFETY: the function takes nothing.
    STARTED.get_or_init(|| unsafe { (library.init)() } == SUCCESS).then_some(library)
}

/// Whether the library can be used.
pub fn is_available() -> bool {
    library().is_some()
}

/// What can be asked of a device.
#[derive(Clone, Copy)]
pub enum Question {
    /// The percentage of the last moments in which kernels ran.
    Busy,
    /// The percentage in which memory was read or written.
    MemoryBusy,
    /// The temperature in degrees Celsius.
    Temperature,
    /// The power in milliwatts.
    Power,
    /// The clock of the multiprocessors in megahertz.
    Clock,
    /// The bytes that are in use, by all processes.
    UsedMemory,
}

/// The library, and a device in it.
fn device(card: &Card) -> Result<(&'static Functions, Device)> {
    let library = library().ok_or_else(|| Error::runtime("NVML is not available"))?;
    let hex: String = card.properties.uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    let name = CString::new(format!("GPU-{}", parts.join("-"))).unwrap_or_default();
    let mut device = null_mut();
    // SAFETY: the string ends with a zero byte, and the pointer is that of a local variable.
    check(unsafe { (library.by_uuid)(name.as_ptr(), &raw mut device) })?;
    Ok((library, device))
}

fn check(status: c_int) -> Result<()> {
    match status {
        SUCCESS => Ok(()),
        _ => Err(Error::runtime(format!("NVML error: status {status}"))),
    }
}

pub fn ask(card: &Card, question: Question) -> Result<u64> {
    let (library, device) = device(card)?;
    let (mut rates, mut memory, mut number) = (Rates::default(), Memory::default(), 0u32);
    // SAFETY: the device was just found, and the pointers are those of local variables of the types that NVML writes.
    check(unsafe {
        match question {
            Question::Busy | Question::MemoryBusy => (library.rates)(device, &raw mut rates),
            Question::Temperature => (library.temperature)(device, 0, &raw mut number),
            Question::Power => (library.power)(device, &raw mut number),
            Question::Clock => (library.clock)(device, MULTIPROCESSORS, &raw mut number),
            Question::UsedMemory => (library.memory)(device, &raw mut memory),
        }
    })?;
    Ok(match question {
        Question::Busy => rates.gpu.into(),
        Question::MemoryBusy => rates.memory.into(),
        Question::UsedMemory => memory.used,
        _ => number.into(),
    })
}

/// The processes that compute on a device.
pub fn processes(card: &Card) -> Result<Vec<Process>> {
    let (library, device) = device(card)?;
    let mut found = vec![Process::default(); 16];
    loop {
        let mut count = found.len() as u32;
        // SAFETY: there is room for as many processes as the number says.
        let status = unsafe { (library.processes)(device, &raw mut count, found.as_mut_ptr()) };
        match status {
            // New ones may begin meanwhile.
            INSUFFICIENT_SIZE => found.resize(count as usize + 16, Process::default()),
            status => {
                check(status)?;
                found.truncate(count as usize);
                return Ok(found);
            }
        }
    }
}
