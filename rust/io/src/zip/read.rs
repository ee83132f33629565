//! Reading an archive: first the end record, then the central directory, then the records.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crc32fast::Hasher;
use rushlight_par::parallel_reduce;

use super::*;
use crate::{Error, Result, Source};

/// The end record is followed by a comment of at most this many bytes.
const LONGEST_COMMENT: usize = u16::MAX as usize;
const ENCRYPTED: u16 = 1;
/// How much of a large record one thread reads at a time.
const PIECE: usize = 1 << 20;

/// One file in the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The offset of its bytes in the archive.
    pub offset: u64,
    pub size: u64,
    pub checksum: u32,
}

/// An archive whose directory has been read and checked.
pub struct Archive<S> {
    source: S,
    folder: String,
    records: HashMap<String, Record>,
    /// Whether the archive was written with checksums; without, all of them are zero.
    checks: bool,
}

impl<S: Source> Archive<S> {
    pub fn open(source: S) -> Result<Self> {
        let directory = find_directory(&source)?;
        let bytes = source.range(directory.offset, directory.size)?;
        let mut entries = Fields(&bytes);
        let mut records = HashMap::new();
        let mut folder = None;
        for _ in 0..directory.entries {
            let (name, record) = read_entry(&source, &mut entries)?;
            let Some((top, rest)) = name.split_once('/') else {
                return Err(Error::BadArchive(format!("file in archive is not in a subdirectory: {name}")));
            };
            if *folder.get_or_insert_with(|| top.to_owned()) != top {
                return Err(Error::BadArchive(format!("record {name} lies outside the archive's folder")));
            }
            if records.insert(rest.to_owned(), record).is_some() {
                return Err(Error::BadArchive(format!("record {name} appears twice in the archive")));
            }
        }
        refuse_overlap(&records)?;
        let checks = records.values().any(|record| record.checksum != 0);
        Ok(Self { source, folder: folder.unwrap_or_default(), records, checks })
    }

    pub fn source(&self) -> &S {
        &self.source
    }

    /// The folder of all records, usually the file's own name.
    pub fn folder(&self) -> &str {
        &self.folder
    }

    /// Names without the folder, in no particular order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.records.keys().map(String::as_str)
    }

    pub fn record(&self, name: &str) -> Result<&Record> {
        self.records.get(name).ok_or_else(|| Error::NoRecord(name.to_owned()))
    }

    /// The bytes of a record, checked against its checksum.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        let record = self.record(name)?;
        let bytes = self.source.range(record.offset, record.size)?;
        if self.checks {
            check(name, record, crc32fast::hash(&bytes))?;
        }
        Ok(bytes)
    }

    /// The same into memory of the caller, which must have the record's size. Each thread verifies the checksum of what
    /// it has just read, while it is in its cache.
    pub fn read_into(&self, name: &str, into: &mut [u8]) -> Result<()>
    where
        S: Sync,
    {
        let record = self.record(name)?;
        if into.len() as u64 != record.size {
            return Err(Error::BadArchive(format!("record {name} has {} bytes, not {}", record.size, into.len())));
        }
        let size = into.len();
        let pieces: Vec<Mutex<&mut [u8]>> = into.chunks_mut(PIECE).map(Mutex::new).collect();
        let read = |range: Range<usize>| -> Result<Hasher> {
            let mut piece = pieces[range.start / PIECE].lock().unwrap_or_else(PoisonError::into_inner);
            self.source.read_at(record.offset + range.start as u64, &mut piece)?;
            let mut checksum = Hasher::new();
            if self.checks {
                checksum.update(&piece);
            }
            Ok(checksum)
        };
        let joined = parallel_reduce(size, PIECE, read, |left, right| {
            let (mut left, right) = (left?, right?);
            left.combine(&right);
            Ok(left)
        });
        let checksum = joined.transpose()?.unwrap_or_default().finalize();
        if self.checks { check(name, record, checksum) } else { Ok(()) }
    }
}

/// Rejects records that share bytes: they would make a small file large in memory.
fn refuse_overlap(records: &HashMap<String, Record>) -> Result<()> {
    let mut spans: Vec<(u64, u64)> = records.values().map(|record| (record.offset, record.size)).collect();
    spans.sort_unstable();
    match spans.windows(2).all(|pair| pair[0].0.saturating_add(pair[0].1) <= pair[1].0) {
        true => Ok(()),
        false => Err(Error::BadArchive("records of the archive overlap".into())),
    }
}

fn check(name: &str, record: &Record, checksum: u32) -> Result<()> {
    if checksum == record.checksum { Ok(()) } else { Err(Error::BadChecksum(name.to_owned())) }
}

struct Directory {
    entries: u64,
    offset: u64,
    size: u64,
}

fn find_directory(source: &(impl Source + ?Sized)) -> Result<Directory> {
    let total = source.size();
    if total < END_SIZE as u64 {
        return Err(Error::NotAnArchive);
    }
    let tail_size = total.min((END_SIZE + LONGEST_COMMENT) as u64);
    let tail_start = total - tail_size;
    let tail = source.range(tail_start, tail_size)?;
    let place = (0..=tail.len() - END_SIZE)
        .rev()
        .find(|&at| tail[at..].starts_with(&END.to_le_bytes()))
        .ok_or(Error::NoCentralDirectory)?;
    let mut end = Fields(&tail[place + 4..]);
    let (disk, first_disk) = (end.u16()?, end.u16()?);
    let (entries_here, entries) = (end.u16()?, end.u16()?);
    let (size, offset) = (end.u32()?, end.u32()?);
    if disk != first_disk || entries_here != entries {
        return Err(Error::BadArchive("archives of several disks are not supported".into()));
    }
    let mut directory = Directory { entries: entries.into(), offset: offset.into(), size: size.into() };
    if entries == u16::MAX || size == SEE_64 || offset == SEE_64 {
        directory = read_end_64(source, tail_start + place as u64)?;
    }
    // Each entry takes at least its fixed part, so a wrong count cannot cause useless work.
    if directory.entries.saturating_mul(CENTRAL_SIZE as u64) > directory.size {
        return Err(Error::NoCentralDirectory);
    }
    Ok(directory)
}

fn read_end_64(source: &(impl Source + ?Sized), end: u64) -> Result<Directory> {
    let locator_at = end.checked_sub(LOCATOR_SIZE as u64).ok_or(Error::NoCentralDirectory)?;
    let bytes = source.range(locator_at, LOCATOR_SIZE as u64)?;
    let mut locator = Fields(&bytes);
    if locator.u32()? != END_64_LOCATOR {
        return Err(Error::NoCentralDirectory);
    }
    locator.skip(4)?;
    let bytes = source.range(locator.u64()?, END_64_SIZE as u64)?;
    let mut end = Fields(&bytes);
    if end.u32()? != END_64 {
        return Err(Error::NoCentralDirectory);
    }
    end.skip(28)?;
    Ok(Directory { entries: end.u64()?, size: end.u64()?, offset: end.u64()? })
}

fn read_entry(source: &(impl Source + ?Sized), entries: &mut Fields) -> Result<(String, Record)> {
    if entries.u32()? != CENTRAL_HEADER {
        return Err(Error::BadArchive("invalid header or archive is corrupted".into()));
    }
    entries.skip(4)?;
    let (flags, method) = (entries.u16()?, entries.u16()?);
    entries.skip(4)?;
    let checksum = entries.u32()?;
    let (stored, size) = (entries.u32()?, entries.u32()?);
    let (name_size, extra_size, comment_size) = (entries.u16()?, entries.u16()?, entries.u16()?);
    entries.skip(8)?;
    let local = entries.u32()?;
    let name = String::from_utf8_lossy(entries.take(name_size.into())?).into_owned();
    let extra = entries.take(extra_size.into())?;
    entries.skip(comment_size.into())?;

    let mut wide = Fields(extra_64(extra)?);
    let mut widen = |value: u32| if value == SEE_64 { wide.u64() } else { Ok(value.into()) };
    let (size, stored, local) = (widen(size)?, widen(stored)?, widen(local)?);
    if flags & ENCRYPTED != 0 {
        return Err(Error::BadArchive(format!("record {name} is encrypted")));
    }
    if method != 0 || stored != size {
        return Err(Error::BadArchive(format!("record {name} is compressed, which checkpoints never are")));
    }
    let offset = payload_offset(source, local)?;
    if offset.checked_add(size).is_none_or(|end| end > source.size()) {
        return Err(Error::BadArchive(format!("record {name} reaches beyond the end of the file")));
    }
    Ok((name, Record { offset, size, checksum }))
}

/// The local header repeats the name and has an extra field of its own; the payload begins behind both.
fn payload_offset(source: &(impl Source + ?Sized), local: u64) -> Result<u64> {
    let bytes = source.range(local, LOCAL_SIZE as u64)?;
    let mut header = Fields(&bytes);
    if header.u32()? != LOCAL_HEADER {
        return Err(Error::BadArchive("invalid header or archive is corrupted".into()));
    }
    header.skip(22)?;
    Ok(local + LOCAL_SIZE as u64 + u64::from(header.u16()?) + u64::from(header.u16()?))
}

/// The ZIP64 part of an extra field; empty if there is none.
fn extra_64(extra: &[u8]) -> Result<&[u8]> {
    let mut fields = Fields(extra);
    while fields.0.len() >= 4 {
        let (kind, size) = (fields.u16()?, fields.u16()?);
        let content = fields.take(size.into())?;
        if kind == EXTRA_64 {
            return Ok(content);
        }
    }
    Ok(&[])
}

/// A reader of consecutive little-endian numbers.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        if count > self.0.len() {
            return Err(Error::BadArchive("invalid header or archive is corrupted".into()));
        }
        let (head, rest) = self.0.split_at(count);
        self.0 = rest;
        Ok(head)
    }

    fn skip(&mut self, count: usize) -> Result<()> {
        self.take(count).map(|_| ())
    }

    fn number(&mut self, count: usize) -> Result<u64> {
        Ok(self.take(count)?.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn u16(&mut self) -> Result<u16> {
        Ok(self.number(2)? as u16)
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(self.number(4)? as u32)
    }

    fn u64(&mut self) -> Result<u64> {
        self.number(8)
    }
}
