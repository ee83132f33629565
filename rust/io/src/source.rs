//! Where bytes come from: a file or memory, read at offsets and never beyond the end.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::{Error, Result};

/// Room for bytes whose number a file says.
pub(crate) fn room(bytes: usize) -> Result<Vec<u8>> {
    let mut room = Vec::new();
    room.try_reserve_exact(bytes).map_err(|_| Error::Memory { bytes })?;
    Ok(room)
}

/// The bytes of a file as a vector of their own.
pub(crate) fn copied(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut copy = room(bytes.len())?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// Random access to bytes whose number is known.
pub trait Source {
    fn size(&self) -> u64;

    /// Fills `into` from `offset` on, or fails.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()>;

    /// A range as a vector; a range beyond the end fails before any memory is taken.
    fn range(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        let end = offset.checked_add(length).filter(|&end| end <= self.size());
        if end.is_none() {
            let missing = length.saturating_sub(self.size().saturating_sub(offset));
            return Err(Error::UnexpectedEnd { missing: missing as usize });
        }
        let mut bytes = room(length as usize)?;
        bytes.resize(length as usize, 0);
        self.read_at(offset, &mut bytes)?;
        Ok(bytes)
    }
}

impl Source for [u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let found = usize::try_from(offset).ok().and_then(|start| self.get(start..)?.get(..into.len()));
        into.copy_from_slice(found.ok_or(Error::UnexpectedEnd { missing: into.len() })?);
        Ok(())
    }
}

impl Source for Vec<u8> {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.as_slice().read_at(offset, into)
    }
}

/// An open file with the size it had when it was opened.
pub struct FileSource {
    file: File,
    size: u64,
}

impl FileSource {
    pub fn new(file: File) -> Result<Self> {
        let size = file.metadata()?.len();
        Ok(Self { file, size })
    }
}

impl Source for FileSource {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        // A file that has shrunk meanwhile gives an error here; a mapping would end the process.
        Ok(self.file.read_exact_at(into, offset)?)
    }
}
