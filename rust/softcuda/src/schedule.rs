//! When work runs: at the latest when something waits for it, and at random moments before.

use std::ffi::{c_int, c_uint};
use std::time::{Duration, Instant};

use crate::machine::Machine;
use crate::status::{
    ASSERT, BLOCKED, ILLEGAL_ADDRESS, INVALID_HANDLE, LAUNCH_FAILED, MISALIGNED, NOT_READY, SUCCESS, Status,
};
use crate::streams::{Source, Work};

/// How many questions find no work done, since one that did.
const PATIENCE: u32 = 8;
/// How long work runs during one question.
const TURN: Duration = Duration::from_millis(1);

impl Machine {
    /// Adds work to a stream, and perhaps runs some work of any stream.
    pub fn enqueue(&mut self, stream: usize, work: Work) {
        let Some(work) = self.graphs.take(stream, work) else { return };
        if let Some(stream) = self.streams.streams.get_mut(&stream) {
            stream.exchanges |= matches!(work, Work::Exchange(_));
            stream.queue.push_back(work);
        }
        self.progress();
    }

    /// Enqueues the work of a graph.
    pub fn launch_graph(&mut self, graph: usize, stream: usize) -> Status {
        let Some(work) = self.graphs.work(graph) else { return INVALID_HANDLE };
        for one in work {
            self.enqueue(stream, one);
        }
        SUCCESS
    }

    /// Runs a little work at random.
    pub fn progress(&mut self) {
        let draw = self.random();
        if draw == 0 || !draw.is_multiple_of(4) {
            return;
        }
        let keys = self.streams.keys(None);
        let Some(&chosen) = keys.get((draw >> 8) as usize % keys.len().max(1)) else { return };
        for _ in 0..(draw >> 32) % 4 {
            self.run_next(chosen);
        }
    }

    /// Runs work of a stream for a while if the program has asked many times whether it has run: a device works while a program asks.
    pub fn work_while_asked(&mut self, stream: usize) {
        self.questions += 1;
        let begun = Instant::now();
        while self.questions > PATIENCE && begun.elapsed() < TURN && matches!(self.run_next(stream), Step::Ran) {}
    }

    /// The answer to a question whether work has run.
    pub fn answer(&mut self, has_run: bool) -> Status {
        if !has_run {
            return NOT_READY;
        }
        self.questions = 0;
        SUCCESS
    }

    /// Enqueues the record of an event.
    pub fn record(&mut self, event: usize, stream: usize) {
        let Some(state) = self.streams.events.get_mut(&event) else { return };
        state.recorded += 1;
        state.stream = stream;
        let (ticket, shared) = (state.recorded, state.shared);
        self.enqueue(stream, Work::Record { event, ticket });
        if shared {
            self.drain(stream);
        }
    }

    /// Whether the last record of an event has run.
    pub fn has_passed(&self, event: usize) -> bool {
        self.streams.events.get(&event).is_none_or(|event| event.done >= event.recorded)
    }

    /// Runs everything before a record of an event. `BLOCKED` if this waits for another process.
    pub fn reach(&mut self, event: usize, ticket: u64) -> Status {
        loop {
            let Some(state) = self.streams.events.get(&event) else { return SUCCESS };
            let stream = state.stream;
            if state.done >= ticket {
                return SUCCESS;
            }
            match self.run_next(stream) {
                Step::Ran => {}
                Step::Empty => return SUCCESS,
                Step::Blocked => return BLOCKED,
            }
        }
    }

    /// Runs all work of a stream. `BLOCKED` if this waits for another process.
    pub fn drain(&mut self, stream: usize) -> Status {
        loop {
            match self.run_next(stream) {
                Step::Ran => {}
                Step::Empty => return SUCCESS,
                Step::Blocked => return BLOCKED,
            }
        }
    }

    /// Runs all work of a device; returns the device's error. `BLOCKED` if this waits for another process.
    pub fn drain_device(&mut self, device: c_int) -> Status {
        for stream in self.streams.keys(Some(device)) {
            if self.drain(stream) == BLOCKED {
                return BLOCKED;
            }
        }
        self.fault(device)
    }

    /// Runs the streams that exchange memory with other processes.
    pub fn run_exchanges(&mut self) {
        for stream in self.streams.keys(None) {
            if self.streams.streams.get(&stream).is_some_and(|state| state.exchanges) {
                self.drain(stream);
            }
        }
    }

    /// Runs the next work of a stream. A device with an error runs nothing.
    fn run_next(&mut self, stream: usize) -> Step {
        let Some(state) = self.streams.streams.get_mut(&stream) else { return Step::Empty };
        let (device, Some(work)) = (state.device, state.queue.pop_front()) else { return Step::Empty };
        let stopped = self.fault(device) != SUCCESS;
        let unfinished = match work {
            Work::Wait { event, ticket } => (self.reach(event, ticket) == BLOCKED).then_some(work),
            Work::Exchange(mut exchange) if !stopped => match exchange.advance(&self.memory) {
                true => None,
                false => Some(Work::Exchange(exchange)),
            },
            Work::If { value, body } if !stopped => {
                // SAFETY: values are never freed (`cuGraphConditionalHandleCreate`).
                if unsafe { std::ptr::with_exposed_provenance::<u32>(value).read() } != 0
                    && let Some(state) = self.streams.streams.get_mut(&stream)
                {
                    body.iter().rev().for_each(|work| state.queue.push_front(work.clone()));
                }
                None
            }
            work => {
                let part = self.streams.streams.get(&stream).map_or(0, |stream| stream.part);
                self.run((device, part), stopped, work);
                None
            }
        };
        let Some(work) = unfinished else { return Step::Ran };
        if let Some(state) = self.streams.streams.get_mut(&stream) {
            state.queue.push_front(work);
        }
        Step::Blocked
    }

    /// Runs work on a device, or on a part of its multiprocessors.
    fn run(&mut self, (device, part): (c_int, c_uint), stopped: bool, work: Work) {
        match work {
            Work::Record { event, ticket } => {
                if let Some(state) = self.streams.events.get_mut(&event) {
                    state.done = state.done.max(ticket);
                    state.time = Some(Instant::now());
                    if state.destroyed && state.done >= state.recorded {
                        self.streams.events.remove(&event);
                    }
                }
            }
            _ if stopped => {}
            // `run_next` runs these.
            Work::Wait { .. } | Work::Exchange(_) | Work::If { .. } => {}
            Work::Launch(launch) => {
                self.launches += 1;
                *self.launches_on.entry(part).or_default() += 1;
                let seed = self.random();
                if let Some(fault) = launch.run(seed) {
                    let status = match fault.split(' ').next() {
                        Some("illegal") => ILLEGAL_ADDRESS,
                        Some("misaligned") => MISALIGNED,
                        Some("assertion:") => ASSERT,
                        _ => LAUNCH_FAILED,
                    };
                    self.stop(device, status, &fault);
                }
            }
            Work::Call(run) => run(),
            Work::Compute(library, run) => {
                self.computed[library as usize] += 1;
                if let Err(fault) = run() {
                    self.stop(device, LAUNCH_FAILED, fault);
                }
            }
            Work::Copy { to, from, bytes } => {
                let from = match &from {
                    Source::Address(address) => std::ptr::with_exposed_provenance::<u8>(*address),
                    Source::Bytes(bytes) => bytes.as_ptr(),
                };
                // SAFETY: both ranges were checked when the work was enqueued, and freeing memory waits for its device.
                unsafe { std::ptr::copy(from, std::ptr::with_exposed_provenance_mut(to), bytes) };
            }
            Work::Fill { to, pattern, count } => {
                for n in 0..count {
                    // SAFETY: as above.
                    unsafe {
                        let to = std::ptr::with_exposed_provenance_mut::<u8>(to + n * pattern.len());
                        to.copy_from_nonoverlapping(pattern.as_ptr(), pattern.len());
                    }
                }
            }
        }
    }
}

/// What became of the next work of a stream.
enum Step {
    Ran,
    Empty,
    /// It waits for another process.
    Blocked,
}
