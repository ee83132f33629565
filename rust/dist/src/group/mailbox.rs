//! Messages between two ranks, through a ring of bytes for each pair and direction.
//!
//! A message is a frame (tag, length) and its bytes. Messages of a pair arrive in order. A receive takes the first one
//! with its tag; a message that nobody has asked for stays in the ring, and is set aside only if a later one is wanted.
//! Whoever waits moves the bytes of all messages of this rank, and otherwise a thread of the group does.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rushlight_core::{Error, Result};

use super::collectives::Span;
use super::memory::GroupMemory;
use super::ring::Ring;
use super::work::Work;

const FRAME: usize = 16;
/// The longest message that is set aside. A longer one waits in the ring until it is asked for.
const LONGEST_ASIDE: u64 = 1 << 30;

struct Send {
    span: Span,
    tag: u32,
    /// Bytes written so far, the frame included.
    done: usize,
    work: Arc<Work>,
    deadline: Deadline,
}

struct Receive {
    span: Span,
    /// Any rank if `None`.
    from: Option<usize>,
    tag: u32,
    work: Arc<Work>,
    deadline: Deadline,
}

#[derive(Clone, Copy)]
struct Deadline {
    began: Instant,
    timeout: Duration,
}

impl Deadline {
    fn is_over(self) -> bool {
        self.began.elapsed() >= self.timeout
    }

    fn error(self, what: &str) -> Error {
        let milliseconds = self.timeout.as_millis();
        Error::runtime(format!("Timed out waiting {milliseconds}ms for {what} operation to complete"))
    }
}

/// Where the bytes of an arriving message go.
enum Destination {
    Tensor(Receive),
    Aside(Vec<u8>),
    /// Of a message with another size than its receive.
    Nowhere,
}

struct Arriving {
    tag: u32,
    length: u64,
    done: u64,
    /// `None` while nobody has asked for it.
    destination: Option<Destination>,
}

/// A message that arrived before it was asked for.
struct Aside {
    from: usize,
    tag: u32,
    bytes: Vec<u8>,
}

/// All messages of this rank that are under way.
pub struct Mailbox {
    sends: Vec<VecDeque<Send>>,
    receives: VecDeque<Receive>,
    arriving: Vec<Option<Arriving>>,
    aside: VecDeque<Aside>,
    looked: Instant,
}

/// How often the peers are looked at while messages wait.
const LOOK: Duration = Duration::from_millis(10);

fn wrong_length(from: usize, tag: u32, length: u64, expected: usize) -> Error {
    Error::runtime(format!(
        "recv of {expected} bytes: rank {from} sends {length} bytes with tag {tag}\n  Both ranks need tensors of one size and dtype."
    ))
}

impl Send {
    /// Moves as many bytes as fit; whether any did.
    fn advance(&mut self, ring: &Ring<'_>) -> Result<bool> {
        let mut moved = false;
        if self.done == 0 {
            if ring.size - ring.filled() < FRAME {
                return Ok(false);
            }
            let mut frame = [0; FRAME];
            frame[..4].copy_from_slice(&self.tag.to_le_bytes());
            frame[8..].copy_from_slice(&(self.span.bytes as u64).to_le_bytes());
            // SAFETY: the frame has so many bytes, and the ring has room for it.
            unsafe { ring.write(frame.as_ptr(), FRAME) };
            (self.done, moved) = (FRAME, true);
        }
        let sent = self.done - FRAME;
        let count = (ring.size - ring.filled()).min(self.span.bytes - sent);
        if count > 0 {
            let source = self.span.pin()?;
            // SAFETY: the bytes lie in the pinned message behind what was sent, and the ring has room for them.
            unsafe { ring.write(source.start().add(sent), count) };
            self.done += count;
            moved = true;
        }
        Ok(moved)
    }

    fn is_done(&self) -> bool {
        self.done == FRAME + self.span.bytes
    }
}

impl Mailbox {
    pub fn new(ranks: usize) -> Mailbox {
        Mailbox {
            sends: (0..ranks).map(|_| VecDeque::new()).collect(),
            receives: VecDeque::new(),
            arriving: (0..ranks).map(|_| None).collect(),
            aside: VecDeque::new(),
            looked: Instant::now(),
        }
    }

    pub fn is_idle(&self) -> bool {
        let taken = |arriving: &Option<Arriving>| {
            matches!(arriving, Some(Arriving { destination: Some(Destination::Tensor(_)), .. }))
        };
        self.receives.is_empty() && self.sends.iter().all(VecDeque::is_empty) && !self.arriving.iter().any(taken)
    }

    pub fn send(&mut self, span: Span, to: usize, tag: u32, timeout: Duration) -> Arc<Work> {
        let work = Arc::new(Work::default());
        let deadline = Deadline { began: Instant::now(), timeout };
        self.sends[to].push_back(Send { span, tag, done: 0, work: work.clone(), deadline });
        work
    }

    pub fn receive(&mut self, span: Span, from: Option<usize>, tag: u32, timeout: Duration) -> Arc<Work> {
        let work = Arc::new(Work::default());
        let receive =
            Receive { span, from, tag, work: work.clone(), deadline: Deadline { began: Instant::now(), timeout } };
        let known = |aside: &Aside| aside.tag == tag && from.is_none_or(|from| from == aside.from);
        match self.aside.iter().position(known).and_then(|index| self.aside.remove(index)) {
            Some(aside) => receive.take_aside(&aside),
            None => self.receives.push_back(receive),
        }
        work
    }

    /// Moves what can be moved; whether anything was.
    pub fn advance(&mut self, memory: &GroupMemory) -> bool {
        let mut moved = false;
        for to in 0..memory.ranks {
            moved |= self.advance_sends(memory, to);
        }
        for from in 0..memory.ranks {
            moved |= self.advance_arriving(memory, from);
        }
        if !moved && self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            self.give_up_lost(memory);
        }
        memory.expect(!self.is_idle());
        moved
    }

    fn advance_sends(&mut self, memory: &GroupMemory, to: usize) -> bool {
        let mut moved = false;
        while let Some(send) = self.sends[to].front_mut() {
            match send.advance(&Ring::new(memory, memory.rank, to)) {
                Ok(some) => moved |= some,
                Err(error) => {
                    send.work.fail(memory.fail(error));
                    self.sends[to].pop_front();
                    continue;
                }
            }
            if !send.is_done() {
                break;
            }
            send.work.finish(Ok(None));
            self.sends[to].pop_front();
        }
        if moved {
            memory.ring_bell(to);
        }
        moved
    }

    fn advance_arriving(&mut self, memory: &GroupMemory, from: usize) -> bool {
        let ring = Ring::new(memory, from, memory.rank);
        let mut moved = false;
        loop {
            if self.arriving[from].is_none() {
                if ring.filled() < FRAME {
                    break;
                }
                let mut frame = [0; FRAME];
                // SAFETY: the ring has a frame.
                unsafe { ring.read(frame.as_mut_ptr(), FRAME) };
                let (tag, length) = (&frame[..4], &frame[8..]);
                self.arriving[from] = Some(Arriving {
                    tag: u32::from_le_bytes(tag.try_into().unwrap_or_default()),
                    length: u64::from_le_bytes(length.try_into().unwrap_or_default()),
                    done: 0,
                    destination: None,
                });
                moved = true;
            }
            self.choose_destination(from);
            let Some(arriving) = &mut self.arriving[from] else { break };
            let Some(destination) = &mut arriving.destination else { break };
            let left = arriving.length - arriving.done;
            let count = ring.filled().min(usize::try_from(left).unwrap_or(usize::MAX));
            let at = arriving.done as usize;
            match destination {
                Destination::Tensor(receive) => {
                    // SAFETY: the message has the size of the span, so that its next bytes lie in it.
                    let read = receive.span.pin().map(|target| unsafe { ring.read(target.start().add(at), count) });
                    if let Err(error) = read {
                        receive.work.fail(error);
                        *destination = Destination::Nowhere;
                        continue;
                    }
                }
                Destination::Aside(bytes) => {
                    if bytes.try_reserve(count).is_err() {
                        *destination = Destination::Nowhere;
                        memory.fail(Error::runtime("no memory for a message that nobody has received yet"));
                        continue;
                    }
                    // SAFETY: `count` bytes were reserved behind the present ones, and the read fills them.
                    unsafe {
                        ring.read(bytes.as_mut_ptr().add(at), count);
                        bytes.set_len(at + count);
                    }
                }
                Destination::Nowhere => ring.skip(count),
            }
            arriving.done += count as u64;
            moved |= count > 0;
            if arriving.done < arriving.length {
                break;
            }
            let Some(Arriving { tag, destination, .. }) = self.arriving[from].take() else { break };
            match destination {
                Some(Destination::Tensor(receive)) => receive.work.finish(Ok(Some(from))),
                Some(Destination::Aside(bytes)) => self.aside.push_back(Aside { from, tag, bytes }),
                _ => {}
            }
        }
        if moved {
            memory.ring_bell(from);
        }
        moved
    }

    /// Whether bytes of a rank lie here that have a place to go to.
    fn can_read(&self, memory: &GroupMemory, from: usize) -> bool {
        let filled = Ring::new(memory, from, memory.rank).filled();
        match &self.arriving[from] {
            None => filled >= FRAME,
            Some(arriving) => filled > 0 && arriving.destination.is_some(),
        }
    }

    fn choose_destination(&mut self, from: usize) {
        let Some(arriving) = &mut self.arriving[from] else { return };
        if arriving.destination.is_some() {
            return;
        }
        let (tag, length) = (arriving.tag, arriving.length);
        let wants = |receive: &Receive| receive.from.is_none_or(|rank| rank == from);
        let place = self.receives.iter().position(|receive| wants(receive) && receive.tag == tag);
        if let Some(receive) = place.and_then(|place| self.receives.remove(place)) {
            arriving.destination = Some(if receive.span.bytes as u64 == length {
                Destination::Tensor(receive)
            } else {
                receive.work.fail(wrong_length(from, tag, length, receive.span.bytes));
                Destination::Nowhere
            });
        } else if length <= LONGEST_ASIDE && self.receives.iter().any(wants) {
            arriving.destination = Some(Destination::Aside(Vec::new()));
        }
    }

    /// Ends what waits for a rank that is gone, and what waits too long.
    fn give_up_lost(&mut self, memory: &GroupMemory) {
        let failed = memory.failure();
        let mut gone: Vec<Option<Option<String>>> = vec![None; memory.ranks];
        let mut lost = |rank: usize| gone[rank].get_or_insert_with(|| memory.departure(rank)).clone();
        // Why a message ends that waits for a rank which is gone for a reason, or `None` if it may still come.
        let ended = |why: Option<String>, deadline: Deadline, what: &str| match (&failed, why) {
            (Some(_), _) => memory.check_in(&|| what.to_owned()).err(),
            (None, Some(why)) => Some(Error::runtime(format!("Connection closed by peer: {why}, in {what}"))),
            (None, None) => deadline.is_over().then(|| deadline.error(what)),
        };
        for to in 0..memory.ranks {
            let Some(first) = self.sends[to].front() else { continue };
            let why = lost(to);
            // A part of a message cannot be taken back.
            let breaks_off = first.done > 0 && failed.is_none() && why.is_none();
            let Some(error) = ended(why, first.deadline, &format!("send to rank {to} with tag {}", first.tag)) else {
                continue;
            };
            if breaks_off {
                memory.fail(error.clone());
            }
            for send in self.sends[to].drain(..) {
                send.work.fail(error.clone());
            }
        }
        // What a rank sent before it ended comes first. Its end is looked up before the ring, which it filled before.
        let can_read: Vec<bool> =
            (0..memory.ranks).map(|from| lost(from).is_some() && self.can_read(memory, from)).collect();
        let mut lost = |rank: usize| lost(rank).filter(|_| !can_read[rank]);
        for (from, arriving) in self.arriving.iter_mut().enumerate() {
            let Some(Arriving { destination: Some(destination), .. }) = arriving else { continue };
            let Destination::Tensor(receive) = destination else { continue };
            let what = format!("recv from rank {from} with tag {}", receive.tag);
            if let Some(error) = ended(lost(from), receive.deadline, &what) {
                receive.work.fail(error);
                *destination = Destination::Nowhere;
            }
        }
        self.receives.retain(|receive| {
            let named = receive.from.map_or("any rank".to_owned(), |rank| format!("rank {rank}"));
            let others = || (0..memory.ranks).filter(|&rank| rank != memory.rank);
            let why = match receive.from {
                Some(rank) => lost(rank),
                // A message of any rank can come while one of them lives.
                None => others().map(&mut lost).collect::<Option<Vec<String>>>().map(|all| all.join(", ")),
            };
            let error = ended(why, receive.deadline, &format!("recv from {named} with tag {}", receive.tag));
            error.map(|error| receive.work.fail(error)).is_none()
        });
    }
}

impl Receive {
    fn take_aside(self, aside: &Aside) {
        let outcome = self.span.pin().and_then(|target| {
            if self.span.bytes != aside.bytes.len() {
                return Err(wrong_length(aside.from, aside.tag, aside.bytes.len() as u64, self.span.bytes));
            }
            // SAFETY: both have so many bytes; a fresh vector does not overlap a storage.
            unsafe { std::ptr::copy_nonoverlapping(aside.bytes.as_ptr(), target.start(), aside.bytes.len()) };
            Ok(Some(aside.from))
        });
        self.work.finish(outcome);
    }
}
