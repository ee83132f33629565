//! Why memory could not be shared.

use std::{fmt, io};

use crate::error::{Class, Error};

/// Why memory could not be shared.
#[derive(Debug)]
pub enum SharedError {
    /// The machine, or the control group of this process, has less memory than requested.
    NoMemory { wanted: usize, available: usize },
    /// A descriptor or handle that is not one of ours, or is no longer valid.
    Refused(&'static str),
    /// A system call failed.
    System { step: &'static str, error: io::Error },
}

impl fmt::Display for SharedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SharedError::NoMemory { wanted, available } => {
                write!(f, "not enough memory to share: you tried to allocate {wanted} bytes, {available} are available")
            }
            SharedError::Refused(why) => write!(f, "not a handle of shared memory: {why}"),
            SharedError::System { step, error } => write!(f, "sharing memory failed: {step}: {error}"),
        }
    }
}

impl std::error::Error for SharedError {}

impl From<SharedError> for Error {
    fn from(error: SharedError) -> Error {
        let class = match error {
            SharedError::NoMemory { .. } => Class::Memory,
            // A limit on the address space of the process, or a full file system.
            SharedError::System { ref error, .. }
                if matches!(error.raw_os_error(), Some(libc::ENOMEM | libc::ENOSPC)) =>
            {
                Class::Memory
            }
            _ => Class::Runtime,
        };
        Error::new(class, error.to_string())
    }
}

pub type Result<T> = std::result::Result<T, SharedError>;
