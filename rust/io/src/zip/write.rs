//! Writing an archive with torch's layout, byte for byte: no compression, checksum and sizes behind each payload, and
//! every payload at a multiple of [`ALIGNMENT`], or of another number, so that a mapping can be used in place.

use std::io::Write;

use super::*;
use crate::{Error, Result};

pub const ALIGNMENT: u64 = 64;
/// The largest alignment: the size of the padding and of the rest of the extra field has 16 bits.
const MOST_ALIGNED: u64 = 1 << 15;
/// Names are UTF-8, and the checksum follows the payload.
const FLAGS: u16 = 0x808;
/// An empty payload is not followed by a checksum.
const FLAGS_EMPTY: u16 = 0x800;
/// The padding is an extra field of this kind, filled with this letter.
const PADDING_KIND: &[u8; 2] = b"FB";
const PADDING: u8 = b'Z';
/// Made by version 3.0 on Unix, to be read by version 4.5, which supports ZIP64.
const VERSIONS_64: [u8; 4] = [30, 3, 45, 0];

struct Entry {
    name: String,
    header: u64,
    size: u64,
    checksum: u32,
}

/// Writes records one after the other, without seeking, so any stream can be used.
pub struct Writer<W> {
    out: W,
    folder: String,
    alignment: u64,
    checks: bool,
    position: u64,
    entries: Vec<Entry>,
    open: Option<Open>,
}

struct Open {
    entry: Entry,
    left: u64,
    /// `None` if the archive has no checksums.
    checksum: Option<crc32fast::Hasher>,
}

impl<W: Write> Writer<W> {
    pub fn new(out: W, folder: &str) -> Self {
        Self {
            out,
            folder: folder.to_owned(),
            alignment: ALIGNMENT,
            checks: true,
            position: 0,
            entries: Vec::new(),
            open: None,
        }
    }

    /// Sets another alignment of payloads.
    pub fn aligned(self, alignment: u64) -> Result<Self> {
        if !(1..=MOST_ALIGNED).contains(&alignment) {
            return Err(misuse("storages are aligned to 1 to 32768 bytes"));
        }
        Ok(Self { alignment, ..self })
    }

    /// Sets whether checksums are computed; a file without them has zeros in their place.
    pub fn with_checksums(self, checks: bool) -> Self {
        Self { checks, ..self }
    }

    /// Writes a whole record.
    pub fn record(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        self.begin(name, bytes.len() as u64)?;
        self.data(bytes)?;
        self.end()
    }

    /// Begins a record of `size` bytes, which follow through [`data`](Self::data) up to [`end`](Self::end).
    pub fn begin(&mut self, name: &str, size: u64) -> Result<()> {
        if self.open.is_some() {
            return Err(misuse("a record is still open"));
        }
        let name = format!("{}/{name}", self.folder);
        let name_size = u16::try_from(name.len()).map_err(|_| misuse("the name of a record is too long"))?;
        let mut extra = if needs_64(size) { extra_64(&[size, size]) } else { Vec::new() };
        let unpadded = self.position + (LOCAL_SIZE + name.len() + extra.len() + 4) as u64;
        let padding = (self.alignment - unpadded % self.alignment) % self.alignment;
        extra.extend_from_slice(PADDING_KIND);
        extra.extend_from_slice(&(padding as u16).to_le_bytes());
        extra.resize(extra.len() + padding as usize, PADDING);

        let mut header = Vec::with_capacity(LOCAL_SIZE);
        header.extend_from_slice(&LOCAL_HEADER.to_le_bytes());
        for field in [0, if size == 0 { FLAGS_EMPTY } else { FLAGS }, 0, 0, 0] {
            header.extend_from_slice(&field.to_le_bytes());
        }
        // Checksum and sizes follow the payload.
        header.extend_from_slice(&[0; 4]);
        let sizes = if needs_64(size) { SEE_64 } else { 0 };
        header.extend_from_slice(&sizes.to_le_bytes());
        header.extend_from_slice(&sizes.to_le_bytes());
        header.extend_from_slice(&name_size.to_le_bytes());
        header.extend_from_slice(&(extra.len() as u16).to_le_bytes());

        let entry = Entry { name, header: self.position, size, checksum: 0 };
        self.put(&header)?;
        self.put(entry.name.as_bytes())?;
        self.put(&extra)?;
        self.open = Some(Open { entry, left: size, checksum: self.checks.then(crc32fast::Hasher::new) });
        Ok(())
    }

    pub fn data(&mut self, bytes: &[u8]) -> Result<()> {
        let open = self.open.as_mut().ok_or_else(|| misuse("no record is open"))?;
        open.left =
            open.left.checked_sub(bytes.len() as u64).ok_or_else(|| misuse("more bytes than the record has"))?;
        if let Some(checksum) = &mut open.checksum {
            checksum.update(bytes);
        }
        self.put(bytes)
    }

    pub fn end(&mut self) -> Result<()> {
        let Some(Open { mut entry, left: 0, checksum }) = self.open.take() else {
            return Err(misuse("fewer bytes than the record has"));
        };
        entry.checksum = checksum.map_or(0, crc32fast::Hasher::finalize);
        if entry.size > 0 {
            let mut descriptor = DESCRIPTOR.to_le_bytes().to_vec();
            descriptor.extend_from_slice(&entry.checksum.to_le_bytes());
            for size in [entry.size, entry.size] {
                match u32::try_from(size) {
                    Ok(size) if !needs_64(entry.size) => descriptor.extend_from_slice(&size.to_le_bytes()),
                    _ => descriptor.extend_from_slice(&size.to_le_bytes()),
                }
            }
            self.put(&descriptor)?;
        }
        self.entries.push(entry);
        Ok(())
    }

    /// The checksums of all records so far, which identify the content.
    pub fn checksums(&self) -> impl Iterator<Item = u32> {
        self.entries.iter().map(|entry| entry.checksum)
    }

    /// Writes the directory and returns the stream.
    pub fn finish(mut self) -> Result<W> {
        if self.open.is_some() {
            return Err(misuse("a record is still open"));
        }
        let start = self.position;
        let entries = std::mem::take(&mut self.entries);
        for entry in &entries {
            self.put(&central_header(entry))?;
        }
        let size = self.position - start;
        let count = entries.len() as u64;
        // Always written, as in torch: one path for small and large archives.
        self.put(&end_64(count, size, start, self.position))?;
        let mut end = END.to_le_bytes().to_vec();
        let count = u16::try_from(count).unwrap_or(u16::MAX);
        for field in [0, 0, count, count] {
            end.extend_from_slice(&field.to_le_bytes());
        }
        end.extend_from_slice(&narrow(size).to_le_bytes());
        end.extend_from_slice(&narrow(start).to_le_bytes());
        end.extend_from_slice(&[0; 2]);
        self.put(&end)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes)?;
        self.position += bytes.len() as u64;
        Ok(())
    }
}

fn central_header(entry: &Entry) -> Vec<u8> {
    let wide: Vec<u64> = if needs_64(entry.size) { vec![entry.size; 2] } else { Vec::new() }
        .into_iter()
        .chain(needs_64(entry.header).then_some(entry.header))
        .collect();
    let extra = if wide.is_empty() { Vec::new() } else { extra_64(&wide) };
    let mut header = CENTRAL_HEADER.to_le_bytes().to_vec();
    for field in [0, 0, if entry.size == 0 { FLAGS_EMPTY } else { FLAGS }, 0, 0, 0] {
        header.extend_from_slice(&u16::to_le_bytes(field));
    }
    header.extend_from_slice(&entry.checksum.to_le_bytes());
    header.extend_from_slice(&narrow(entry.size).to_le_bytes());
    header.extend_from_slice(&narrow(entry.size).to_le_bytes());
    header.extend_from_slice(&(entry.name.len() as u16).to_le_bytes());
    header.extend_from_slice(&(extra.len() as u16).to_le_bytes());
    header.extend_from_slice(&[0; 10]); // comment, disk, attributes
    header.extend_from_slice(&narrow(entry.header).to_le_bytes());
    header.extend_from_slice(entry.name.as_bytes());
    header.extend_from_slice(&extra);
    header
}

/// The ZIP64 end record and its locator.
fn end_64(count: u64, size: u64, start: u64, position: u64) -> Vec<u8> {
    let mut end = END_64.to_le_bytes().to_vec();
    end.extend_from_slice(&(END_64_SIZE as u64 - 12).to_le_bytes());
    end.extend_from_slice(&VERSIONS_64);
    end.extend_from_slice(&[0; 8]); // disks
    for field in [count, count, size, start] {
        end.extend_from_slice(&field.to_le_bytes());
    }
    end.extend_from_slice(&END_64_LOCATOR.to_le_bytes());
    end.extend_from_slice(&0u32.to_le_bytes());
    end.extend_from_slice(&position.to_le_bytes());
    end.extend_from_slice(&1u32.to_le_bytes());
    end
}

fn extra_64(values: &[u64]) -> Vec<u8> {
    let mut extra = EXTRA_64.to_le_bytes().to_vec();
    extra.extend_from_slice(&(values.len() as u16 * 8).to_le_bytes());
    extra.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    extra
}

fn needs_64(value: u64) -> bool {
    value >= u64::from(SEE_64)
}

fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(SEE_64)
}

fn misuse(what: &str) -> Error {
    Error::BadArchive(what.to_owned())
}
