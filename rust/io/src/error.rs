//! The errors of reading a file.

use std::fmt;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug)]
pub enum Error {
    Io(std::io::Error),
    /// Too short to be an archive.
    NotAnArchive,
    /// No end of the central directory: most often a truncated file.
    NoCentralDirectory,
    /// The archive is inconsistent.
    BadArchive(String),
    /// A record is missing.
    NoRecord(String),
    /// The bytes of a record do not match their checksum.
    BadChecksum(String),
    /// The data end in the middle of an opcode or of a storage.
    UnexpectedEnd {
        missing: usize,
    },
    /// An opcode that is unknown or that only a full unpickler may run.
    Opcode(u8),
    /// A global that is not in the list of allowed names.
    Global(String),
    /// A known opcode in an impossible position; `at` is the opcode's offset.
    Pickle {
        at: usize,
        what: String,
    },
    /// Well-formed, but beyond the limits, which valid files do not reach.
    Limit(&'static str),
    /// Well-formed, but larger than the memory that is left.
    Memory {
        bytes: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io(error) => write!(out, "{error}"),
            Error::NotAnArchive => write!(out, "not a ZIP archive"),
            Error::NoCentralDirectory => write!(out, "failed finding central directory"),
            Error::BadArchive(what) => write!(out, "{what}"),
            Error::NoRecord(_) => write!(out, "file not found"),
            Error::BadChecksum(name) => write!(out, "CRC-32 check failed for record {name}"),
            Error::UnexpectedEnd { missing } => {
                write!(out, "unexpected EOF, expected {missing} more bytes. The file might be corrupted.")
            }
            Error::Opcode(opcode) => write!(out, "Unsupported operand {opcode}"),
            Error::Global(name) => write!(out, "Unsupported global: GLOBAL {name}"),
            Error::Pickle { at, what } => write!(out, "{what} (at byte {at} of the pickle)"),
            Error::Limit(what) => write!(out, "the pickle exceeds the limit on {what}"),
            Error::Memory { bytes } => write!(out, "not enough memory for {bytes} bytes of the file"),
        }
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Error::Io(error)
    }
}
