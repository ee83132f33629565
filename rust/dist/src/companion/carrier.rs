//! The process that calls MPI: it copies between the group's memory here and that on other machines.
//!
//! When all ranks of this machine have come to a meeting, each other machine gets one message with what they wrote for it.
//! When the messages of all other machines are there, their bytes are copied into the group's memory and the ranks go on. Besides,
//! the bytes of the rings between machines are forwarded, never more than the ring at the other end has room for, and each
//! change of a rank's state, after everything that the rank sent before.
//!
//! MPI is not called any more once the group has failed: a library may hang or crash then.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rushlight_core::futex;

use super::mpi::{Mpi, Request};
use crate::group::memory::{ABSENT, DEAD, GroupMemory, LEFT, PARTING, PRESENT};
use crate::group::ring::Ring;
use crate::group::transfer::Transfer;

/// How often the ranks' states are looked at.
const LOOK: Duration = Duration::from_millis(5);
/// How long to look for messages without a pause while ranks wait.
const BUSY: Duration = Duration::from_micros(100);
/// The pause after that, and after a longer time.
const NAP: Duration = Duration::from_micros(20);
const LONG: Duration = Duration::from_millis(20);
const LONG_NAP: Duration = Duration::from_micros(500);
/// How long the end of a rank is kept back for messages that nobody takes.
const DELIVERY: Duration = Duration::from_secs(1);
/// How long to wait for the other machines at the end.
const FAREWELL: Duration = Duration::from_secs(5);
const LINGER: Duration = Duration::from_millis(20);

/// The kinds of messages.
const MEETING: u8 = 0;
const STREAM: u8 = 1;
const TAKEN: u8 = 2;
const STATE: u8 = 3;
const BYE: u8 = 4;
const HEARD: u8 = 5;
const ARRIVED: u8 = 6;

/// A stream of bytes from one rank to another: how far it was forwarded, and how far the receiver has taken it.
#[derive(Clone, Copy, Default)]
struct Stream {
    forwarded: u64,
    taken: u64,
}

/// What another machine sends.
#[derive(Default)]
struct Peer {
    arriving: VecDeque<Request>,
    /// Messages of meetings that the ranks here have not ended yet: the present one, and perhaps the next.
    meetings: VecDeque<Vec<u8>>,
    said_bye: bool,
    heard_bye: bool,
}

pub struct Carrier<'a> {
    memory: &'a GroupMemory,
    mpi: Mpi,
    peers: Vec<Peer>,
    sending: Vec<Request>,
    spare: Vec<Vec<u8>>,
    /// The meetings that have ended, and whether the messages of the next one are sent.
    turn: u32,
    given: bool,
    /// By local seat and remote rank.
    out: Vec<Vec<Stream>>,
    /// How far the other machines know that ranks here have taken their streams.
    announced: Vec<Vec<u64>>,
    states: Vec<u32>,
    /// The last meetings of ranks here of which the other machines know that the rank waits in it.
    arrived: Vec<u32>,
    /// Since when a rank of this machine is gone.
    gone: Vec<Option<Instant>>,
    looked: Instant,
}

/// Reads numbers and bytes of a message.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or("another machine sent a broken message")?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().unwrap_or_default()))
    }
}

fn put(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&number.to_le_bytes());
}

fn read_words<const N: usize>(words: &[AtomicU64; N]) -> [u64; N] {
    std::array::from_fn(|index| words[index].load(Ordering::Relaxed))
}

impl<'a> Carrier<'a> {
    pub fn new(memory: &'a GroupMemory, mpi: Mpi) -> Carrier<'a> {
        let (local, ranks) = (memory.places.local().len(), memory.ranks);
        Carrier {
            memory,
            mpi,
            peers: (0..memory.places.machines()).map(|_| Peer::default()).collect(),
            sending: Vec::new(),
            spare: Vec::new(),
            turn: 0,
            given: false,
            out: vec![vec![Stream::default(); ranks]; local],
            announced: vec![vec![0; ranks]; local],
            states: vec![ABSENT; local],
            arrived: vec![0; local],
            gone: vec![None; local],
            looked: Instant::now(),
        }
    }

    /// Serves until all ranks of this machine are gone.
    pub fn serve(&mut self) -> Result<(), String> {
        let mut quiet = Instant::now();
        loop {
            let heard = self.memory.companion().bell.load(Ordering::Acquire);
            if self.memory.failure().is_some() {
                return Ok(());
            }
            let mut moved = self.receive()?;
            moved |= self.meet()?;
            moved |= self.forward()?;
            self.finish_sends()?;
            if self.looked.elapsed() >= LOOK {
                self.looked = Instant::now();
                self.tell_arrivals()?;
                if self.tell_states()? {
                    return self.say_bye();
                }
            }
            if moved {
                quiet = Instant::now();
                continue;
            }
            let bell = &self.memory.companion().bell;
            match quiet.elapsed() {
                _ if !self.is_awaited() => futex::wait_shared(bell, heard, LOOK),
                short if short < BUSY => std::thread::yield_now(),
                middle if middle < LONG => futex::wait_shared(bell, heard, NAP),
                _ => futex::wait_shared(bell, heard, LONG_NAP),
            }
        }
    }

    /// Whether anybody waits for messages.
    fn is_awaited(&self) -> bool {
        let expects = |&rank: &usize| self.memory.cell(rank).expects.load(Ordering::Acquire) != 0;
        self.given || !self.sending.is_empty() || self.memory.places.local().iter().any(expects)
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let own = self.memory.places.own_machine();
        (0..self.memory.places.machines()).filter(move |&machine| machine != own)
    }

    fn fresh(&mut self, kind: u8) -> Vec<u8> {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        put(&mut bytes, u64::from(kind));
        bytes
    }

    fn send(&mut self, bytes: Vec<u8>, machine: usize) -> Result<(), String> {
        if self.peers[machine].said_bye {
            return Ok(());
        }
        let mut request = self.mpi.send(bytes, machine)?;
        if self.mpi.is_done(&mut request)? {
            self.spare.push(request.bytes);
        } else {
            self.sending.push(request);
        }
        Ok(())
    }

    fn finish_sends(&mut self) -> Result<(), String> {
        let mut index = 0;
        while index < self.sending.len() {
            if self.mpi.is_done(&mut self.sending[index])? {
                let bytes = self.sending.swap_remove(index).bytes;
                self.spare.push(bytes);
            } else {
                index += 1;
            }
        }
        self.spare.truncate(2 * self.peers.len());
        Ok(())
    }

    /// Takes what has arrived; whether anything has.
    fn receive(&mut self) -> Result<bool, String> {
        let mut moved = false;
        while let Some((from, request)) = self.mpi.receive(&mut self.spare)? {
            let peer = self.peers.get_mut(from).ok_or("a message of an unknown machine")?;
            peer.arriving.push_back(request);
            moved = true;
        }
        for from in self.others() {
            // Messages of a machine are handled in their order, even if a long one is complete after a short one.
            while let Some(first) = self.peers[from].arriving.front_mut() {
                if !self.mpi.is_done(first)? {
                    break;
                }
                let Some(request) = self.peers[from].arriving.pop_front() else { break };
                self.handle(from, request.bytes)?;
                moved = true;
            }
        }
        Ok(moved)
    }

    fn handle(&mut self, from: usize, bytes: Vec<u8>) -> Result<(), String> {
        let memory = self.memory;
        let mut reader = Reader(&bytes);
        let kind = reader.number()? as u8;
        match kind {
            MEETING => {
                let turn = reader.number()? as u32;
                for &rank in memory.places.members(from) {
                    memory.cell(rank).meetings.store(turn, Ordering::Relaxed);
                }
                self.peers[from].meetings.push_back(bytes);
                return Ok(());
            }
            STREAM => {
                let (source, to) = self.ends(from, &mut reader)?;
                let ring = Ring::new(memory, source, to);
                let count = reader.0.len();
                if ring.size - ring.filled() < count {
                    return Err("another machine sent more than there is room for".to_owned());
                }
                // SAFETY: the bytes lie in the message, and the ring has room for them; this process alone writes to it.
                unsafe { ring.write(reader.0.as_ptr(), count) };
                memory.ring_bell(to);
            }
            TAKEN => {
                let (to, source) = self.ends(from, &mut reader)?;
                let taken = reader.number()?;
                self.out[memory.places.seat(source)][to].taken = taken;
            }
            STATE => {
                let rank = reader.number()? as usize;
                if memory.places.members(from).contains(&rank) {
                    let cell = memory.cell(rank);
                    cell.pid.store(reader.number()? as u32, Ordering::Relaxed);
                    cell.state.store(reader.number()? as u32, Ordering::Release);
                    memory.wake_all();
                }
            }
            ARRIVED => {
                let rank = reader.number()? as usize;
                if memory.places.members(from).contains(&rank) {
                    memory.cell(rank).meetings.store(reader.number()? as u32, Ordering::Relaxed);
                }
            }
            BYE => {
                let answer = self.fresh(HEARD);
                self.send(answer, from)?;
                self.peers[from].said_bye = true;
            }
            HEARD => self.peers[from].heard_bye = true,
            _ => return Err(format!("another machine sent a message of unknown kind {kind}")),
        }
        self.spare.push(bytes);
        Ok(())
    }

    /// A rank of another machine and one of this one, from a message.
    fn ends(&self, machine: usize, reader: &mut Reader<'_>) -> Result<(usize, usize), String> {
        let (far, near) = (reader.number()? as usize, reader.number()? as usize);
        let places = &self.memory.places;
        if places.members(machine).contains(&far) && places.local().contains(&near) {
            Ok((far, near))
        } else {
            Err("another machine sent a message for ranks that are elsewhere".to_owned())
        }
    }

    /// Takes part in the present meeting; whether anything happened.
    fn meet(&mut self) -> Result<bool, String> {
        let mut moved = false;
        let next = self.turn.wrapping_add(1);
        if !self.given && self.memory.header().ready.load(Ordering::Acquire) == next {
            for machine in self.others() {
                let message = self.meeting_message(next, machine);
                self.send(message, machine)?;
            }
            (self.given, moved) = (true, true);
        }
        if self.given && self.others().all(|machine| !self.peers[machine].meetings.is_empty()) {
            for machine in self.others() {
                if let Some(bytes) = self.peers[machine].meetings.pop_front() {
                    self.take_meeting_message(next, machine, &bytes)?;
                    self.spare.push(bytes);
                }
            }
            self.given = false;
            self.memory.end_meeting(self.turn);
            (self.turn, moved) = (next, true);
        }
        Ok(moved)
    }

    /// What the ranks of this machine wrote for those of another one.
    fn meeting_message(&mut self, turn: u32, machine: usize) -> Vec<u8> {
        let mut bytes = self.fresh(MEETING);
        let memory = self.memory;
        put(&mut bytes, u64::from(turn));
        for &rank in memory.places.local() {
            let cell = memory.cell(rank);
            for announcement in &cell.announcements {
                read_words(&announcement.words).into_iter().for_each(|word| put(&mut bytes, word));
            }
            for words in cell.transfers.iter().map(read_words) {
                words.into_iter().for_each(|word| put(&mut bytes, word));
                let transfer = Transfer::from_words(words, memory);
                if let Some(buffer) = transfer.lengths() {
                    for &to in memory.places.members(machine) {
                        put(&mut bytes, memory.length(buffer, rank, to).load(Ordering::Relaxed));
                    }
                }
                transfer.for_each(memory, rank, machine, &mut |start, count| {
                    let at = bytes.len();
                    bytes.reserve(count);
                    // SAFETY: transfers lie in the group's memory, and the ranks that write there wait in the meeting; `count`
                    // bytes are reserved behind the present ones, and written.
                    unsafe {
                        std::ptr::copy_nonoverlapping(start, bytes.as_mut_ptr().add(at), count);
                        bytes.set_len(at + count);
                    }
                });
            }
        }
        bytes
    }

    fn take_meeting_message(&self, turn: u32, machine: usize, bytes: &[u8]) -> Result<(), String> {
        let (memory, own) = (self.memory, self.memory.places.own_machine());
        let mut reader = Reader(bytes);
        reader.number()?;
        if reader.number()? != u64::from(turn) {
            return Err("the machines are not in step".to_owned());
        }
        for &rank in memory.places.members(machine) {
            let cell = memory.cell(rank);
            for announcement in &cell.announcements {
                for word in &announcement.words {
                    word.store(reader.number()?, Ordering::Relaxed);
                }
            }
            for _ in &cell.transfers {
                let words = [reader.number()?, reader.number()?, reader.number()?];
                let transfer = Transfer::from_words(words, memory);
                if let Some(buffer) = transfer.lengths() {
                    for &to in memory.places.local() {
                        memory.length(buffer, rank, to).store(reader.number()?, Ordering::Relaxed);
                    }
                }
                let mut whole = Ok(());
                transfer.for_each(memory, rank, own, &mut |start, count| match reader.take(count) {
                    // SAFETY: transfers lie in the group's memory, where no rank of this machine reads or writes during the meeting.
                    Ok(bytes) => unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, count) },
                    Err(error) => whole = Err(error),
                });
                whole?;
            }
        }
        Ok(())
    }

    /// Forwards the bytes of rings; whether there were any.
    fn forward(&mut self) -> Result<bool, String> {
        let memory = self.memory;
        let mut moved = false;
        for (seat, &near) in memory.places.local().iter().enumerate() {
            for far in memory.places.remote() {
                let machine = memory.places.machine_of(far);
                let ring = Ring::new(memory, near, far);
                let stream = self.out[seat][far];
                let room = ring.size.saturating_sub(stream.forwarded.wrapping_sub(stream.taken) as usize);
                let count = ring.filled().min(room);
                if count > 0 {
                    let mut bytes = self.fresh(STREAM);
                    put(&mut bytes, near as u64);
                    put(&mut bytes, far as u64);
                    let at = bytes.len();
                    bytes.reserve(count);
                    // SAFETY: `count` bytes are reserved, the ring has them, and this process alone reads from it.
                    unsafe {
                        ring.read(bytes.as_mut_ptr().add(at), count);
                        bytes.set_len(at + count);
                    }
                    self.out[seat][far].forwarded = stream.forwarded.wrapping_add(count as u64);
                    self.send(bytes, machine)?;
                    memory.ring_bell(near);
                    moved = true;
                }
                let taken = Ring::new(memory, far, near).taken();
                if taken.wrapping_sub(self.announced[seat][far]) as usize >= ring.size / 4 {
                    self.announced[seat][far] = taken;
                    let mut bytes = self.fresh(TAKEN);
                    put(&mut bytes, near as u64);
                    put(&mut bytes, far as u64);
                    put(&mut bytes, taken);
                    self.send(bytes, machine)?;
                    moved = true;
                }
            }
        }
        Ok(moved)
    }

    /// Tells the other machines which ranks wait for others of this machine, so that only those count as late.
    fn tell_arrivals(&mut self) -> Result<(), String> {
        let (memory, next) = (self.memory, self.turn.wrapping_add(1));
        if self.given || memory.header().ready.load(Ordering::Acquire) == next {
            return Ok(());
        }
        for (seat, &rank) in memory.places.local().iter().enumerate() {
            if memory.cell(rank).meetings.load(Ordering::Relaxed) != next || self.arrived[seat] == next {
                continue;
            }
            self.arrived[seat] = next;
            for machine in self.others() {
                let mut bytes = self.fresh(ARRIVED);
                put(&mut bytes, rank as u64);
                put(&mut bytes, u64::from(next));
                self.send(bytes, machine)?;
            }
        }
        Ok(())
    }

    /// Tells the other machines which ranks have come, left or died; whether all ranks of this machine are gone, and what
    /// they sent is delivered. A rank that never came is not waited for: the one that started this process came before.
    fn tell_states(&mut self) -> Result<bool, String> {
        let memory = self.memory;
        let mut gone = true;
        for (seat, &rank) in memory.places.local().iter().enumerate() {
            let cell = memory.cell(rank);
            let mut state = cell.state.load(Ordering::Acquire);
            if state == PRESENT && memory.departure(rank).is_some() {
                state = DEAD;
            }
            if matches!(state, LEFT | DEAD) {
                let since = self.gone[seat].get_or_insert_with(Instant::now).elapsed();
                let holds = |far| {
                    let present = memory.cell(far).state.load(Ordering::Acquire) == PRESENT;
                    present && Ring::new(memory, rank, far).filled() > 0
                };
                // What it sent comes first, if anybody takes it.
                if memory.places.remote().any(holds) {
                    gone = false;
                    if since < DELIVERY {
                        continue;
                    }
                }
            } else {
                gone &= state == ABSENT;
            }
            if state == self.states[seat] {
                continue;
            }
            self.states[seat] = state;
            for machine in self.others() {
                let mut bytes = self.fresh(STATE);
                put(&mut bytes, rank as u64);
                put(&mut bytes, u64::from(cell.pid.load(Ordering::Relaxed)));
                put(&mut bytes, u64::from(state));
                self.send(bytes, machine)?;
            }
        }
        Ok(gone)
    }

    /// Waits until the other machines have everything that was sent.
    fn say_bye(&mut self) -> Result<(), String> {
        self.memory.header().served.store(PARTING, Ordering::Release);
        for machine in self.others() {
            let bytes = self.fresh(BYE);
            self.send(bytes, machine)?;
        }
        let began = Instant::now();
        let mut done = None;
        while began.elapsed() < FAREWELL && self.memory.failure().is_none() {
            self.receive()?;
            self.finish_sends()?;
            let parted = |machine: usize| self.peers[machine].said_bye || self.peers[machine].heard_bye;
            if self.others().all(parted) {
                let since = *done.get_or_insert_with(Instant::now);
                if since.elapsed() >= LINGER {
                    break;
                }
            }
            std::thread::sleep(LONG_NAP);
        }
        Ok(())
    }
}
