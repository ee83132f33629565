//! The state of the driver, behind one lock.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::graphs::Graphs;
use crate::memory::Memory;
use crate::modules::Modules;
use crate::status::{BLOCKED, NO_DEVICE, NOT_INITIALIZED, SUCCESS, Status};
use crate::streams::{Library, Streams};

pub struct Machine {
    pub process: u32,
    pub memory: Memory,
    pub streams: Streams,
    pub modules: Modules,
    pub graphs: Graphs,
    /// The error of each device, which every later call returns.
    pub faults: HashMap<c_int, Status>,
    pub launches: u64,
    /// The launches by the multiprocessors of their streams, 0 for all.
    pub launches_on: HashMap<u32, u64>,
    /// How often each library has computed something.
    pub computed: [u64; Library::ALL],
    /// How often the algorithms for a convolution were measured.
    pub measurements: u64,
    /// How often the algorithm of a product was asked for.
    pub choices: u64,
    /// Whether a profiler collects.
    pub is_profiled: bool,
    /// How often the program has asked whether work has run since it enqueued some.
    pub questions: u32,
    random: u64,
}

/// How long a thread waits for another process before it looks again.
pub const PAUSE: Duration = Duration::from_micros(200);

static MACHINE: Mutex<Option<Machine>> = Mutex::new(None);

/// Runs a function on the state; an error before `cuInit`, and in a process forked after it. A function that returns `BLOCKED` is
/// called again after a while, in which other threads have the state.
pub fn with(mut run: impl FnMut(&mut Machine) -> Status) -> Status {
    loop {
        let status = match lock().as_mut() {
            Some(machine) if machine.process == std::process::id() => run(machine),
            _ => NOT_INITIALIZED,
        };
        if status != BLOCKED {
            return status;
        }
        std::thread::sleep(PAUSE);
    }
}

fn lock() -> MutexGuard<'static, Option<Machine>> {
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `cuInit`.
pub fn start() -> Status {
    if device_count() == 0 {
        return NO_DEVICE;
    }
    let mut machine = lock();
    let made = machine.get_or_insert_with(|| Machine {
        process: std::process::id(),
        memory: Memory::new(number("SOFTCUDA_MEMORY").unwrap_or(1 << 30) as usize),
        streams: Streams::default(),
        modules: Modules::default(),
        graphs: Graphs::default(),
        faults: HashMap::new(),
        launches: 0,
        launches_on: HashMap::new(),
        computed: [0; Library::ALL],
        measurements: 0,
        choices: 0,
        is_profiled: false,
        questions: 0,
        random: number("SOFTCUDA_SEED").unwrap_or(0),
    });
    if made.process == std::process::id() { SUCCESS } else { NOT_INITIALIZED }
}

pub fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// The number of devices that the process sees.
pub fn device_count() -> c_int {
    let all = number("SOFTCUDA_DEVICES").unwrap_or(1) as c_int;
    match std::env::var("CUDA_VISIBLE_DEVICES") {
        // The list ends at the first device that does not exist.
        Ok(list) => {
            let named = list.split(',').map(|name| name.trim().parse::<c_int>());
            named.take_while(|index| index.as_ref().is_ok_and(|&index| (0..all).contains(&index))).count() as c_int
        }
        Err(_) => all,
    }
}

impl Machine {
    /// A random number; always 0 without a seed.
    pub fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// The error of a device, if it has one.
    pub fn fault(&self, device: c_int) -> Status {
        self.faults.get(&device).copied().unwrap_or(SUCCESS)
    }

    /// Stops a device with an error.
    pub fn stop(&mut self, device: c_int, status: Status, reason: &str) {
        eprintln!("softcuda: device {device}: {reason}");
        self.faults.entry(device).or_insert(status);
    }
}
