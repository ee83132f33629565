//! The processes of a group: whether they live, and how long to wait for them.

use std::fs;
use std::io::ErrorKind;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rushlight_core::futex;
use rushlight_core::{Error, Result};

use super::memory::{ABSENT, DEAD, GroupMemory, LEFT, LOST, PRESENT};

/// How long a sleep lasts before the peers are looked at.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// How often to look at a number before sleeping: a meeting of ranks that all run takes less than this.
const SPINS: usize = 200;

/// Called while a wait takes long; an error ends the wait.
pub type Pause<'a> = &'a mut dyn FnMut() -> Result<()>;

/// How long a call may take, and for whom it is made.
pub struct Limit<'a> {
    pub timeout: Duration,
    pub began: Instant,
    pub pause: Pause<'a>,
}

impl<'a> Limit<'a> {
    pub fn new(timeout: Duration, pause: Pause<'a>) -> Limit<'a> {
        Limit { timeout, began: Instant::now(), pause }
    }

    pub fn is_over(&self) -> bool {
        self.began.elapsed() >= self.timeout
    }
}

/// The state of a process and the time at which it started, from `/proc`. `None` if it has ended.
fn look_up(pid: u32) -> Option<(char, u64)> {
    let unknown = Some(('?', 0));
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        // The name of the program, in parentheses, may contain anything.
        Ok(text) => {
            let Some((_, rest)) = text.rsplit_once(") ") else { return unknown };
            let mut fields = rest.split(' ');
            let state = fields.next().and_then(|field| field.chars().next()).unwrap_or('?');
            let started = fields.nth(18).and_then(|field| field.parse().ok()).unwrap_or(0);
            Some((state, started))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        // The process ended while its file was read.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => None,
        Err(_) => unknown,
    }
}

impl GroupMemory {
    /// Takes this rank's cell.
    pub fn join(&self) -> Result<()> {
        let cell = self.own();
        let pid = std::process::id();
        let started = look_up(pid).map_or(0, |(_, started)| started);
        cell.pid.store(pid, Ordering::Relaxed);
        cell.started.store(started, Ordering::Relaxed);
        match cell.state.compare_exchange(ABSENT, PRESENT, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::runtime(format!("rank {} of the group exists already", self.rank))),
        }
    }

    /// Leaves the group. Ranks that still wait for this one get an error.
    pub fn leave(&self) {
        self.own().state.store(LEFT, Ordering::Release);
        self.wake_all();
    }

    /// What became of a rank, or the companion, that takes no part any more.
    pub fn departure(&self, rank: usize) -> Option<String> {
        let cell = self.cell(rank);
        // Before the number of the process, which is there once the state says that the process is.
        let state = cell.state.load(Ordering::Acquire);
        let pid = cell.pid.load(Ordering::Relaxed);
        let name = if rank == self.ranks { "the companion".to_owned() } else { format!("rank {rank}") };
        match state {
            LEFT => Some(format!("{name} (process {pid}) has left the group")),
            DEAD => Some(format!("{name} (process {pid}) has died")),
            LOST => Some(format!("the machine of {name} (process {pid}) cannot be reached")),
            PRESENT if rank < self.ranks && !self.places.is_local(rank) => None,
            PRESENT => match look_up(pid) {
                Some((state, started))
                    if !matches!(state, 'Z' | 'X')
                        && (started == 0 || started == cell.started.load(Ordering::Relaxed)) =>
                {
                    None
                }
                _ => Some(format!("{name} (process {pid}) has died")),
            },
            _ => None,
        }
    }

    pub fn wake_all(&self) {
        futex::wake_shared(&self.header().turn, i32::MAX);
        for &rank in self.places.local() {
            self.ring_bell(rank);
        }
        self.ring_bell(self.ranks);
    }

    /// Wakes a rank, or the companion, which looks after ranks of other machines.
    pub fn ring_bell(&self, rank: usize) {
        let near = rank == self.ranks || self.places.is_local(rank);
        let bell = &self.cell(if near { rank } else { self.ranks }).bell;
        bell.fetch_add(1, Ordering::AcqRel);
        futex::wake_shared(bell, i32::MAX);
    }

    /// Sleeps until a ring of this rank changes, or a short time.
    pub fn await_bell(&self, heard: u32) {
        for _ in 0..SPINS {
            if self.own().bell.load(Ordering::Acquire) != heard {
                return;
            }
            std::hint::spin_loop();
        }
        futex::wait_shared(&self.own().bell, heard, CHECK_INTERVAL);
    }

    /// Tells the companion whether this rank waits for messages.
    pub fn expect(&self, messages: bool) {
        if self.places.spans() && self.own().expects.swap(u32::from(messages), Ordering::AcqRel) == 0 && messages {
            self.ring_bell(self.ranks);
        }
    }

    /// Ends the group for all ranks and returns the error.
    pub fn fail(&self, error: Error) -> Error {
        self.give_up(error.sentence());
        self.wake_all();
        error
    }

    pub fn check(&self) -> Result<()> {
        self.check_in(&|| "an earlier call".to_owned())
    }

    /// The error of a group that has failed. `what` is the call that meets it.
    pub fn check_in(&self, what: &dyn Fn() -> String) -> Result<()> {
        match self.failure() {
            None => Ok(()),
            Some((rank, why)) if rank == self.ranks => {
                Err(Error::runtime(format!("Connection closed by peer: {why}, in {}", what())))
            }
            Some((rank, why)) if rank == self.rank => {
                Err(Error::runtime(format!("the process group cannot be used after an error: {why}"))
                    .hint("Call destroy_process_group() and init_process_group() on every rank."))
            }
            Some((rank, why)) => Err(Error::runtime(format!("rank {rank} gave up: {why}"))),
        }
    }

    /// Waits until every rank has come here. What a rank wrote before is visible to all others afterwards.
    pub fn meet(&self, what: &dyn Fn() -> String, limit: &mut Limit<'_>) -> Result<()> {
        self.check()?;
        let header = self.header();
        let turn = header.turn.load(Ordering::Acquire);
        self.own().meetings.store(turn.wrapping_add(1), Ordering::Relaxed);
        if header.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.places.local().len() as u32 {
            header.arrived.store(0, Ordering::Relaxed);
            if !self.places.spans() {
                self.end_meeting(turn);
                return Ok(());
            }
            header.ready.store(turn.wrapping_add(1), Ordering::Release);
            self.ring_bell(self.ranks);
        }
        for _ in 0..SPINS {
            if header.turn.load(Ordering::Acquire) != turn {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        loop {
            let before = Instant::now();
            futex::wait_shared(&header.turn, turn, CHECK_INTERVAL.min(limit.timeout));
            if header.turn.load(Ordering::Acquire) != turn {
                return Ok(());
            }
            self.check_in(what)?;
            if before.elapsed() < CHECK_INTERVAL && !limit.is_over() {
                continue;
            }
            let late = (0..self.ranks)
                .filter(|&rank| self.cell(rank).meetings.load(Ordering::Relaxed) != turn.wrapping_add(1));
            let late: Vec<usize> = late.collect();
            let companion = self.places.spans().then(|| self.departure(self.ranks)).flatten();
            // A rank may have come here since, and ended after that.
            let lost = |&rank: &usize| {
                let is_late = |_: &String| self.cell(rank).meetings.load(Ordering::Relaxed) != turn.wrapping_add(1);
                self.departure(rank).filter(is_late)
            };
            if let Some(why) = late.iter().find_map(lost).or(companion) {
                return Err(self.fail(Error::runtime(format!("Connection closed by peer: {why}, in {}", what()))));
            }
            if let Err(interrupt) = (limit.pause)() {
                self.fail(Error::runtime(format!("it was interrupted in {}", what())));
                return Err(interrupt);
            }
            if limit.is_over() {
                let milliseconds = limit.timeout.as_millis();
                let listed: Vec<String> = late.iter().map(usize::to_string).collect();
                let far = late.iter().any(|&rank| !self.places.is_local(rank));
                let why = match (listed.is_empty(), far) {
                    (true, _) => "the other machines do not answer".to_owned(),
                    (_, true) => format!("rank {} did not call it, or cannot be reached", listed.join(", ")),
                    _ => format!("rank {} did not call it", listed.join(", ")),
                };
                return Err(self.fail(Error::runtime(format!(
                    "Timed out waiting {milliseconds}ms for {} operation to complete: {why}",
                    what()
                ))));
            }
        }
    }

    /// Lets all ranks of this machine go on from a meeting.
    pub fn end_meeting(&self, turn: u32) {
        self.header().turn.store(turn.wrapping_add(1), Ordering::Release);
        futex::wake_shared(&self.header().turn, i32::MAX);
    }
}
