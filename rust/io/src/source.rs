//! Sources of bytes: a file or memory, read at offsets and never beyond the end.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::{Error, Result};

/// A buffer for a number of bytes that a file states.
pub(crate) fn with_capacity(bytes: usize) -> Result<Vec<u8>> {
    let mut with_capacity = Vec::new();
    with_capacity.try_reserve_exact(bytes).map_err(|_| Error::Memory { bytes })?;
    Ok(with_capacity)
}

/// A copy of the bytes of a file.
pub(crate) fn copied(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut copy = with_capacity(bytes.len())?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// Random access to bytes whose number is known.
pub trait Source {
    fn size(&self) -> u64;

    /// Fills `into` from `offset` on, or fails.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()>;

    /// A range as a vector; a range beyond the end fails before any memory is allocated.
    fn range(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        let end = offset.checked_add(length).filter(|&end| end <= self.size());
        if end.is_none() {
            let missing = length.saturating_sub(self.size().saturating_sub(offset));
            return Err(Error::UnexpectedEnd { missing: missing as usize });
        }
        let mut bytes = with_capacity(length as usize)?;
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
        // Reading a file that was truncated meanwhile is an error; accessing a mapping would end the process.
        Ok(self.file.read_exact_at(into, offset)?)
    }
}
