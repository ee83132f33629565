//! The collective calls, each a sequence of chunks through the slots of the group's memory.
//!
//! In every step a rank writes its next chunk, meets the others, and reads the chunk before. Two buffers in turn make
//! one meeting a chunk enough: a buffer is written again only after the next meeting.

use std::sync::atomic::Ordering;

use rushlight_core::storage::Storage;
use rushlight_core::{DType, Error, Result};

use super::memory::{Buffer, GroupMemory};
use super::peers::Limit;
use super::reduce::{self, Reduction};
use super::transfer::{Transfer, range_start};

/// Up to so many bytes each rank reduces all of a chunk by itself, which saves a meeting.
const SMALL: usize = 16 << 10;

/// Consecutive bytes of a storage.
#[derive(Clone)]
pub struct Span {
    pub storage: Storage,
    pub offset: usize,
    pub bytes: usize,
}

/// What all ranks of a group do together. A list has one entry for each rank; an input is empty on ranks that give
/// nothing, an output on ranks that get nothing.
#[derive(Clone)]
pub enum Collective {
    AllReduce { span: Span, dtype: DType, reduction: Reduction },
    Reduce { span: Span, dtype: DType, reduction: Reduction, root: usize },
    Broadcast { span: Span, root: usize },
    AllGather { input: Span, outputs: Vec<Span> },
    Gather { input: Span, outputs: Vec<Span>, root: usize },
    Scatter { inputs: Vec<Span>, output: Span, root: usize },
    ReduceScatter { inputs: Vec<Span>, output: Span, dtype: DType, reduction: Reduction },
    AllToAll { inputs: Vec<Span>, outputs: Vec<Span> },
    Barrier,
}

/// What ranks know of a call by its number.
struct Kind {
    name: &'static str,
    /// Whether all messages of the call have one length.
    is_even: bool,
}

const fn even(name: &'static str) -> Kind {
    Kind { name, is_even: true }
}

const fn uneven(name: &'static str) -> Kind {
    Kind { name, is_even: false }
}

/// The calls, at the numbers that ranks compare (`Collective::number`).
const KINDS: [Kind; 9] = [
    even("all_reduce"),
    even("reduce"),
    even("broadcast"),
    even("all_gather"),
    even("gather"),
    even("scatter"),
    uneven("reduce_scatter"),
    uneven("all_to_all"),
    uneven("barrier"),
];

/// The numbers that ranks compare before they exchange bytes: the call, its root, reduction and dtype, its bytes, and
/// the longest of the messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Announced {
    sequence: u64,
    call: u64,
    details: u64,
    bytes: u64,
    longest: u64,
}

impl Announced {
    fn words(self) -> [u64; 5] {
        [self.sequence, self.call, self.details, self.bytes, self.longest]
    }

    fn describe(self) -> String {
        // Another process wrote the number.
        let kind = KINDS.get(self.call as usize).unwrap_or(const { &uneven("an unknown call") });
        let mut text = String::from(kind.name);
        let dtype = DType::ALL.get((self.details & 0xff) as usize);
        let reduction = Reduction::ALL.get((self.details >> 8 & 0xff) as usize);
        if let (Some(dtype), Some(reduction)) = (dtype, reduction) {
            text += &format!(" ({}) of {}", reduction.name(), dtype.name());
        }
        if kind.is_even {
            text += &format!(" with {} bytes", self.bytes);
        }
        let root = self.details >> 16;
        if root != 0 {
            text += &format!(", root {}", root - 1);
        }
        text
    }
}

impl Collective {
    /// The number of the call in `KINDS`.
    fn number(&self) -> usize {
        match self {
            Collective::AllReduce { .. } => 0,
            Collective::Reduce { .. } => 1,
            Collective::Broadcast { .. } => 2,
            Collective::AllGather { .. } => 3,
            Collective::Gather { .. } => 4,
            Collective::Scatter { .. } => 5,
            Collective::ReduceScatter { .. } => 6,
            Collective::AllToAll { .. } => 7,
            Collective::Barrier => 8,
        }
    }

    pub fn name(&self) -> &'static str {
        KINDS[self.number()].name
    }

    fn announced(&self, sequence: u64) -> Announced {
        let none = (0xff_u64, 0xff_u64);
        let of = |dtype: &DType, reduction: &Reduction| (*dtype as u64, *reduction as u64);
        let most = |spans: &[Span]| spans.iter().map(|span| span.bytes as u64).max().unwrap_or(0);
        let (bytes, (dtype, reduction), root, longest) = match self {
            Collective::AllReduce { span, dtype, reduction } => (span.bytes, of(dtype, reduction), None, 0),
            Collective::Reduce { span, dtype, reduction, root } => (span.bytes, of(dtype, reduction), Some(*root), 0),
            Collective::Broadcast { span, root } => (span.bytes, none, Some(*root), 0),
            Collective::AllGather { input, .. } => (input.bytes, none, None, 0),
            Collective::Gather { input, root, .. } => (input.bytes, none, Some(*root), 0),
            Collective::Scatter { output, root, .. } => (output.bytes, none, Some(*root), output.bytes as u64),
            Collective::ReduceScatter { inputs, output, dtype, reduction } => {
                (0, of(dtype, reduction), None, most(inputs).max(output.bytes as u64))
            }
            Collective::AllToAll { inputs, .. } => (0, none, None, most(inputs)),
            Collective::Barrier => (0, none, None, 0),
        };
        Announced {
            sequence,
            call: self.number() as u64,
            details: dtype | reduction << 8 | root.map_or(0, |root| root as u64 + 1) << 16,
            bytes: bytes as u64,
            longest,
        }
    }
}

/// One rank's part in the collective calls of a group, one after another.
pub struct Channel {
    sequence: u64,
    /// The number of chunks so far, which selects the buffer.
    chunks: usize,
}

/// A chunk: where it begins in the message, and how long it is.
#[derive(Clone, Copy)]
struct Chunk {
    at: usize,
    bytes: usize,
}

fn chunk(total: usize, size: usize, number: usize) -> Chunk {
    let at = (number * size).min(total);
    Chunk { at, bytes: (total - at).min(size) }
}

/// A chunk of the messages that all ranks address to this one.
struct Addressed {
    buffer: Buffer,
    /// Where this rank's part begins in each slot.
    part: usize,
    /// The bytes of a part.
    size: usize,
    /// The number of the chunk in the messages.
    number: usize,
}

impl Addressed {
    /// The chunk of the message that becomes `output`.
    fn chunk_of(&self, output: &Pinned<'_>) -> Chunk {
        chunk(output.bytes, self.size, self.number)
    }

    /// Where this rank's part of a rank's slot lies.
    fn slot(&self, memory: &GroupMemory, rank: usize) -> *const u8 {
        memory.slot(self.buffer, rank).wrapping_add(self.part)
    }

    /// Copies a rank's message to this one, whose length is checked before its first chunk.
    fn take(&self, memory: &GroupMemory, output: &Pinned<'_>, from: usize, name: &str) -> Result<()> {
        if self.number == 0 {
            check_length(memory, self.buffer, from, output.bytes, name)?;
        }
        output.take(self.chunk_of(output), self.slot(memory, from));
        Ok(())
    }
}

/// Pinned bytes. Other processes cannot reach them, other threads of this one should not use them meanwhile.
pub struct Pinned<'a> {
    _pin: rushlight_core::storage::Pin<'a>,
    start: *mut u8,
    bytes: usize,
}

impl Span {
    pub fn pin(&self) -> Result<Pinned<'_>> {
        let pin = self.storage.pin()?;
        if self.offset.checked_add(self.bytes).is_none_or(|end| end > pin.block().len()) {
            return Err(Error::runtime("the tensor's storage was made smaller during a collective call"));
        }
        let start = pin.as_ptr().wrapping_add(self.offset);
        Ok(Pinned { _pin: pin, start, bytes: self.bytes })
    }
}

fn pin_all(spans: &[Span]) -> Result<Vec<Pinned<'_>>> {
    spans.iter().map(Span::pin).collect()
}

impl Pinned<'_> {
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// Copies a chunk of the message to a slot.
    fn give(&self, chunk: Chunk, slot: *mut u8) {
        // SAFETY: the chunk lies in the pinned bytes, and is no longer than the place in the slot; they do not overlap,
        // because slots belong to the group alone.
        unsafe { std::ptr::copy_nonoverlapping(self.start.add(chunk.at), slot, chunk.bytes) };
    }

    /// Copies a chunk of the message from a slot.
    fn take(&self, chunk: Chunk, slot: *const u8) {
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(slot, self.start.add(chunk.at), chunk.bytes) };
    }
}

impl Default for Channel {
    fn default() -> Channel {
        Channel { sequence: 1, chunks: 0 }
    }
}

impl Channel {
    /// Carries out a call together with the other ranks.
    pub fn run(&mut self, memory: &GroupMemory, call: &Collective, limit: &mut Limit<'_>) -> Result<()> {
        memory.check()?;
        let mine = call.announced(self.sequence);
        let own = &memory.own().announcements[self.sequence as usize % 2];
        for (place, word) in own.words.iter().zip(mine.words()) {
            place.store(word, Ordering::Relaxed);
        }
        self.sequence += 1;
        let result = self.exchange(memory, call, mine, limit);
        // The other ranks would wait for the rest of it.
        result.map_err(|error| if memory.failure().is_none() { memory.fail(error) } else { error })
    }

    fn exchange(
        &mut self,
        memory: &GroupMemory,
        call: &Collective,
        mine: Announced,
        limit: &mut Limit<'_>,
    ) -> Result<()> {
        let mut steps = Steps { channel: self, memory, call, mine, limit, met: false, results: Transfer::Nothing };
        match call {
            Collective::Barrier => steps.meet(Transfer::Nothing),
            Collective::AllReduce { span, dtype, reduction } => {
                let span = span.pin()?;
                match span.bytes <= SMALL {
                    true => steps.reduce_small(&span, *reduction, *dtype),
                    false => steps.reduce(&span, *reduction, *dtype, true),
                }
            }
            Collective::Reduce { span, dtype, reduction, root } => {
                let span = span.pin()?;
                steps.reduce(&span, *reduction, *dtype, *root == memory.rank)
            }
            Collective::Broadcast { span, root } => {
                let (span, root) = (span.pin()?, *root);
                let given = (root == memory.rank).then_some(&span);
                steps.spread(span.bytes, given, |memory, buffer, chunk| {
                    if root != memory.rank {
                        span.take(chunk, memory.slot(buffer, root));
                    }
                })
            }
            Collective::AllGather { input, outputs } | Collective::Gather { input, outputs, .. } => {
                let (input, outputs) = (input.pin()?, pin_all(outputs)?);
                if let Some(odd) = outputs.iter().find(|output| output.bytes != input.bytes) {
                    return Err(wrong_size(call.name(), input.bytes, odd.bytes));
                }
                steps.spread(input.bytes, Some(&input), |memory, buffer, chunk| {
                    for (rank, output) in outputs.iter().enumerate() {
                        output.take(chunk, memory.slot(buffer, rank));
                    }
                })
            }
            Collective::Scatter { inputs, output, root } => {
                let (inputs, output) = (pin_all(inputs)?, output.pin()?);
                steps.address(&inputs, |memory, at| at.take(memory, &output, *root, call.name()))
            }
            Collective::ReduceScatter { inputs, output, dtype, reduction } => {
                steps.reduce_scatter(&pin_all(inputs)?, &output.pin()?, *reduction, *dtype)
            }
            Collective::AllToAll { inputs, outputs } => {
                let (inputs, outputs) = (pin_all(inputs)?, pin_all(outputs)?);
                steps.address(&inputs, |memory, at| {
                    let mut outputs = outputs.iter().enumerate();
                    outputs.try_for_each(|(rank, output)| at.take(memory, output, rank, call.name()))
                })
            }
        }
    }
}

fn wrong_size(name: &str, expected: usize, found: usize) -> Error {
    Error::runtime(format!("{name}: tensors of {expected} and of {found} bytes, which must have one size"))
}

/// Checks that a rank sends as many bytes as this one expects. The lengths of a call lie beside its first chunk.
fn check_length(memory: &GroupMemory, buffer: Buffer, from: usize, expected: usize, name: &str) -> Result<()> {
    let sent = memory.length(buffer, from, memory.rank).load(Ordering::Relaxed);
    if sent == expected as u64 {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "{name}: rank {from} sends {sent} bytes to rank {}, which expects {expected}",
        memory.rank
    )))
}

/// Reduces a chunk of all slots, in the order of the ranks, into the message at `start`. `own` is what this rank gives,
/// if that is not in its slot.
///
/// # Safety
/// The chunk lies in the message, and in each slot from `part` on; so many bytes lie behind `own`.
unsafe fn reduce_slots(
    memory: &GroupMemory,
    buffer: Buffer,
    part: usize,
    own: Option<*const u8>,
    chunk: Chunk,
    reduction: Reduction,
    dtype: DType,
    start: *mut u8,
) {
    let mut sources: Vec<*const u8> =
        (0..memory.ranks).map(|rank| memory.slot(buffer, rank).wrapping_add(part).cast_const()).collect();
    if let Some(own) = own {
        sources[memory.rank] = own;
    }
    // SAFETY: the caller's contract.
    unsafe { reduce::reduce(reduction, dtype, start.wrapping_add(chunk.at), &sources, chunk.bytes) };
}

/// The steps of one call.
struct Steps<'a, 'b> {
    channel: &'a mut Channel,
    memory: &'a GroupMemory,
    call: &'a Collective,
    mine: Announced,
    limit: &'a mut Limit<'b>,
    /// Whether the ranks have met in this call, and found that they make the same one.
    met: bool,
    /// The results that other ranks read after the next meeting.
    results: Transfer,
}

impl Steps<'_, '_> {
    /// Meets the other ranks, which read what this one has `given` in its slot.
    fn meet(&mut self, given: Transfer) -> Result<()> {
        let name = self.call.name();
        let results = std::mem::replace(&mut self.results, Transfer::Nothing);
        if self.memory.places.spans() {
            self.memory.announce([given, results]);
        }
        self.memory.meet(&|| name.to_owned(), self.limit)?;
        if !self.met {
            self.met = true;
            self.compare()?;
        }
        Ok(())
    }

    fn announced(&self, rank: usize) -> Announced {
        let words = &self.memory.cell(rank).announcements[self.mine.sequence as usize % 2].words;
        let [sequence, call, details, bytes, longest] =
            std::array::from_fn(|index| words[index].load(Ordering::Relaxed));
        Announced { sequence, call, details, bytes, longest }
    }

    /// Checks that all ranks make the same call.
    fn compare(&self) -> Result<()> {
        let key = |rank| Announced { longest: 0, ..self.announced(rank) };
        let first = key(0);
        let Some(odd) = (1..self.memory.ranks).find(|&rank| key(rank) != first) else { return Ok(()) };
        let (other, what) =
            (key(odd), if first.sequence == key(odd).sequence { "" } else { " (another call in order)" });
        Err(Error::runtime(format!(
            "Detected mismatch between collectives on ranks: rank 0 calls {}, rank {odd} calls {}{what}",
            first.describe(),
            other.describe()
        )))
    }

    /// The buffer of the next chunk.
    fn next(&mut self) -> Buffer {
        self.channel.chunks += 1;
        Buffer::of_chunk(self.channel.chunks)
    }

    /// Each rank that gives something gives the same to all. `read` gets every chunk once all have written it.
    fn spread(
        &mut self,
        bytes: usize,
        given: Option<&Pinned<'_>>,
        mut read: impl FnMut(&GroupMemory, Buffer, Chunk),
    ) -> Result<()> {
        let (memory, size) = (self.memory, self.memory.chunk_of(bytes));
        let count = bytes.div_ceil(size).max(1);
        let write = |buffer, number| {
            if let Some(given) = given {
                given.give(chunk(bytes, size, number), memory.slot(buffer, memory.rank));
            }
        };
        let to = match self.call {
            Collective::Gather { root, .. } => Some(*root),
            _ => None,
        };
        let mut buffer = self.next();
        write(buffer, 0);
        for number in 0..count {
            let now = given.map_or(0, |given| chunk(given.bytes, size, number).bytes);
            self.meet(Transfer::Slot { buffer, bytes: now, to })?;
            let ready = buffer;
            if number + 1 < count {
                buffer = self.next();
                write(buffer, number + 1);
            }
            read(memory, ready, chunk(bytes, size, number));
        }
        Ok(())
    }

    /// Each rank reduces the whole message, which is small, from the slots of all.
    fn reduce_small(&mut self, span: &Pinned<'_>, reduction: Reduction, dtype: DType) -> Result<()> {
        self.spread(span.bytes, Some(span), |memory, buffer, chunk| {
            // SAFETY: slots have the size of a chunk.
            unsafe { reduce_slots(memory, buffer, 0, None, chunk, reduction, dtype, span.start) };
        })
    }

    /// Each rank reduces the messages to itself.
    fn reduce_scatter(
        &mut self,
        inputs: &[Pinned<'_>],
        output: &Pinned<'_>,
        reduction: Reduction,
        dtype: DType,
    ) -> Result<()> {
        let name = self.call.name();
        self.address(inputs, |memory, at| {
            if at.number == 0 {
                for rank in 0..memory.ranks {
                    check_length(memory, at.buffer, rank, output.bytes, name)?;
                }
            }
            let chunk = at.chunk_of(output);
            // SAFETY: the parts of a slot have the size of a chunk.
            unsafe { reduce_slots(memory, at.buffer, at.part, None, chunk, reduction, dtype, output.start) };
            Ok(())
        })
    }

    /// Each rank gives a message of its own to every other one. `read` gets every chunk of the messages to this rank once
    /// all have written it.
    fn address(
        &mut self,
        given: &[Pinned<'_>],
        mut read: impl FnMut(&GroupMemory, Addressed) -> Result<()>,
    ) -> Result<()> {
        let memory = self.memory;
        let size = memory.slot_bytes / memory.ranks / 64 * 64;
        let longest_given = given.iter().map(|message| message.bytes).max().unwrap_or(0);
        let transfer =
            |buffer, number| Transfer::Parts { buffer, bytes: chunk(longest_given, size, number).bytes, size };
        let write = |buffer, number| {
            for (rank, message) in given.iter().enumerate() {
                let place = memory.slot(buffer, memory.rank).wrapping_add(rank * size);
                message.give(chunk(message.bytes, size, number), place);
            }
        };
        let mut buffer = self.next();
        for rank in 0..memory.ranks {
            let bytes = given.get(rank).map_or(0, |message| message.bytes);
            memory.length(buffer, memory.rank, rank).store(bytes as u64, Ordering::Relaxed);
        }
        write(buffer, 0);
        self.meet(transfer(buffer, 0))?;
        let longest = (0..memory.ranks).map(|rank| self.announced(rank).longest).max().unwrap_or(0);
        let count = usize::try_from(longest).unwrap_or(usize::MAX).div_ceil(size).max(1);
        for number in 0..count {
            let ready = buffer;
            if number + 1 < count {
                buffer = self.next();
                write(buffer, number + 1);
            }
            read(memory, Addressed { buffer: ready, part: memory.rank * size, size, number })?;
            if number + 1 < count {
                self.meet(transfer(buffer, number + 1))?;
            }
        }
        Ok(())
    }

    /// Each rank reduces a range of every chunk, and those that are to have the whole result take it.
    fn reduce(&mut self, span: &Pinned<'_>, reduction: Reduction, dtype: DType, wanted: bool) -> Result<()> {
        let (memory, bytes) = (self.memory, span.bytes);
        let size = memory.chunk_of(bytes);
        let count = bytes.div_ceil(size).max(1);
        let mut buffer = self.next();
        let to = match self.call {
            Collective::Reduce { root, .. } => Some(*root),
            _ => None,
        };
        // No other rank reads the range that this one reduces, so it stays in the message.
        let own = |chunk: Chunk| {
            let at = range_start(chunk.bytes, memory.rank, memory.ranks);
            Chunk { at, bytes: range_start(chunk.bytes, memory.rank + 1, memory.ranks) - at }
        };
        let give = |buffer, number| {
            let (chunk, slot) = (chunk(bytes, size, number), memory.slot(buffer, memory.rank));
            let Chunk { at, bytes } = own(chunk);
            let end = at + bytes;
            span.give(Chunk { at: chunk.at, bytes: at }, slot);
            span.give(Chunk { at: chunk.at + end, bytes: chunk.bytes - end }, slot.wrapping_add(end));
            chunk
        };
        let first = give(buffer, 0);
        self.meet(Transfer::Ranges { buffer, bytes: first.bytes })?;
        for number in 0..count {
            let (ready, now) = (buffer, chunk(bytes, size, number));
            let (result, range) = (memory.slot(ready, memory.ranks), own(now));
            let given = span.start.wrapping_add(now.at + range.at).cast_const();
            // SAFETY: the range lies in the chunk, and so in the message and in the slots, at the same place in each.
            unsafe { reduce_slots(memory, ready, range.at, Some(given), range, reduction, dtype, result) };
            self.results = Transfer::Results { buffer: ready, bytes: now.bytes, to };
            let mut given = Transfer::Nothing;
            if number + 1 < count {
                buffer = self.next();
                given = Transfer::Ranges { buffer, bytes: give(buffer, number + 1).bytes };
            }
            self.meet(given)?;
            if wanted {
                span.take(now, result);
            }
        }
        Ok(())
    }
}
