//! The measurement of algorithms: each runs several times between events, and slow ones are given up early, as in torch.

use rushlight_core::Result;
use rushlight_core::device_memory::StreamId;

use super::settings::{Setting, get, log};
use crate::stream::Event;

/// Runs whose times are taken together, so that there are not too many events.
const TOGETHER: i64 = 256;
/// Runs before each measurement, which are not measured.
const BEFORE: i64 = 2;
/// The runs of the two first measurements, and how much slower than the best an algorithm may then be.
const FIRST: [(i64, f64); 2] = [(3, 1.5), (10, 1.15)];
/// The runs of the last measurement where nothing limits them.
const RUNS: i64 = 100;

/// What is measured.
pub trait Trial {
    /// The number of algorithms.
    fn candidates(&self) -> usize;
    fn name(&self, candidate: usize) -> &str;
    /// Enqueues a run of an algorithm with the operands of a turn; false if the library refuses it.
    fn run(&mut self, candidate: usize, turn: usize) -> Result<bool>;
    /// Whether the result of an algorithm is near enough to that of the first one.
    fn is_right(&mut self, candidate: usize) -> Result<bool>;
}

/// The events around runs, which are used again.
struct Clock {
    device: u8,
    stream: StreamId,
    events: Vec<[Event; 2]>,
    turn: usize,
}

impl Clock {
    /// Runs an algorithm without taking the time; false if it is refused.
    fn warm(&mut self, trial: &mut dyn Trial, candidate: usize, runs: i64) -> Result<bool> {
        for _ in 0..runs {
            self.turn += 1;
            if !trial.run(candidate, self.turn)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The mean of the milliseconds of a run; `None` if it is refused.
    fn mean(&mut self, trial: &mut dyn Trial, candidate: usize, runs: i64) -> Result<Option<f64>> {
        if !self.warm(trial, candidate, BEFORE)? {
            return Ok(None);
        }
        let (mut sum, mut left) = (0.0, runs);
        while left > 0 {
            let batch = left.min(TOGETHER) as usize;
            while self.events.len() < batch {
                self.events.push([Event::new(self.device, true)?, Event::new(self.device, true)?]);
            }
            for n in 0..batch {
                self.events[n][0].record(self.stream)?;
                self.turn += 1;
                if !trial.run(candidate, self.turn)? {
                    return Ok(None);
                }
                self.events[n][1].record(self.stream)?;
            }
            self.events[batch - 1][1].synchronize()?;
            for [before, after] in &self.events[..batch] {
                sum += f64::from(before.elapsed_to(after)?);
            }
            left -= batch as i64;
        }
        Ok(Some(sum / runs as f64))
    }
}

/// How many runs fit into a duration in milliseconds, of which there are at most `runs`; 0 is no limit, for both.
fn limited(duration: i64, runs: i64, each: f64) -> Option<i64> {
    let fitting = (duration > 0).then(|| (duration as f64 / each.max(1e-6)) as i64);
    match (fitting, runs > 0) {
        (Some(fitting), true) => Some(fitting.min(runs)),
        (Some(fitting), false) => Some(fitting),
        (None, true) => Some(runs),
        (None, false) => None,
    }
}

/// The fastest algorithm and its mean in milliseconds; `None` if all are refused.
pub fn fastest(device: u8, stream: StreamId, trial: &mut dyn Trial) -> Result<Option<(usize, f64)>> {
    let limits = [Setting::Duration, Setting::Iterations, Setting::WarmupDuration, Setting::WarmupIterations];
    let mut numbers = [0; 4];
    for (number, setting) in numbers.iter_mut().zip(limits) {
        *number = get(setting)?;
    }
    let [duration, runs, warm_duration, warm_runs] = numbers;
    let mut clock = Clock { device, stream, events: Vec::new(), turn: 0 };
    let mut best: Option<(usize, f64)> = None;
    'candidates: for candidate in 0..trial.candidates() {
        if !trial.run(candidate, 0)? {
            log(3, || format!("├──unsupported id={candidate}, {}", trial.name(candidate)));
            continue;
        }
        let mut each = 0.0;
        for (runs, slower) in FIRST {
            let Some(mean) = clock.mean(trial, candidate, runs)? else { continue 'candidates };
            if best.is_some_and(|(_, best)| mean > slower * best) {
                log(3, || format!("├──skip slow instance id={candidate}, {} {mean}ms", trial.name(candidate)));
                continue 'candidates;
            }
            each = mean;
        }
        if !trial.is_right(candidate)? {
            log(3, || format!("├──numerics check failed for id={candidate}, {}", trial.name(candidate)));
            continue;
        }
        if !clock.warm(trial, candidate, limited(warm_duration, warm_runs, each).unwrap_or(0))? {
            continue;
        }
        let runs = limited(duration, runs, each).unwrap_or(RUNS).max(1);
        let Some(mean) = clock.mean(trial, candidate, runs)? else { continue };
        log(3, || format!("├──measured id={candidate}, {} {mean}ms in {runs} runs", trial.name(candidate)));
        if best.is_none_or(|(_, best)| mean < best) {
            best = Some((candidate, mean));
        }
    }
    Ok(best)
}
