//! The opcodes, with the names of Python's `pickletools`, and the reader of their arguments.

use crate::{Error, Result};

macro_rules! opcodes {
    ($($name:ident = $value:expr;)*) => { $(pub const $name: u8 = $value;)* };
}

opcodes! {
    MARK = b'('; STOP = b'.'; POP = b'0'; POP_MARK = b'1'; DUP = b'2';
    FLOAT = b'F'; INT = b'I'; BININT = b'J'; BININT1 = b'K'; LONG = b'L'; BININT2 = b'M'; NONE = b'N';
    BINPERSID = b'Q'; REDUCE = b'R'; BINSTRING = b'T'; SHORT_BINSTRING = b'U'; UNICODE = b'V'; BINUNICODE = b'X';
    APPEND = b'a'; BUILD = b'b'; GLOBAL = b'c'; DICT = b'd'; APPENDS = b'e'; GET = b'g'; BINGET = b'h';
    LONG_BINGET = b'j'; LIST = b'l'; PUT = b'p'; BINPUT = b'q'; LONG_BINPUT = b'r'; SETITEM = b's'; TUPLE = b't';
    SETITEMS = b'u'; EMPTY_TUPLE = b')'; EMPTY_LIST = b']'; EMPTY_DICT = b'}'; BINFLOAT = b'G';
    PROTO = 0x80; NEWOBJ = 0x81; TUPLE1 = 0x85; TUPLE2 = 0x86; TUPLE3 = 0x87; NEWTRUE = 0x88; NEWFALSE = 0x89;
    LONG1 = 0x8a; LONG4 = 0x8b; BINBYTES = b'B'; SHORT_BINBYTES = b'C'; SHORT_BINUNICODE = 0x8c; BINUNICODE8 = 0x8d;
    BINBYTES8 = 0x8e; EMPTY_SET = 0x8f; ADDITEMS = 0x90; FROZENSET = 0x91; STACK_GLOBAL = 0x93; MEMOIZE = 0x94;
    FRAME = 0x95; BYTEARRAY8 = 0x96;
}

/// The bytes of a pickle and the position of the reader.
pub struct Reader<'a> {
    bytes: &'a [u8],
    pub position: usize,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    pub fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let left = self.bytes.len() - self.position;
        if count > left {
            return Err(Error::UnexpectedEnd { missing: count - left });
        }
        self.position += count;
        Ok(&self.bytes[self.position - count..self.position])
    }

    pub fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    /// An unsigned little-endian number of up to eight bytes.
    pub fn number(&mut self, count: usize) -> Result<u64> {
        Ok(self.take(count)?.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    /// Bytes preceded by their length.
    pub fn sized(&mut self, length_bytes: usize) -> Result<&'a [u8]> {
        let length = usize::try_from(self.number(length_bytes)?).unwrap_or(usize::MAX);
        self.take(length)
    }

    pub fn text(&mut self, length_bytes: usize) -> Result<String> {
        let at = self.position;
        // A lone surrogate is legal in Python's strings but not in Rust's.
        let text = std::str::from_utf8(self.sized(length_bytes)?);
        Ok(text.map_err(|_| bad(at, "a string is not UTF-8"))?.to_owned())
    }

    /// A line without its end.
    pub fn line(&mut self) -> Result<&'a str> {
        let at = self.position;
        let rest = &self.bytes[at..];
        let length = rest.iter().position(|&byte| byte == b'\n').ok_or(Error::UnexpectedEnd { missing: 1 })?;
        self.position += length + 1;
        std::str::from_utf8(&rest[..length]).map_err(|_| bad(at, "a line is not UTF-8"))
    }
}

pub fn bad(at: usize, what: impl Into<String>) -> Error {
    Error::Pickle { at, what: what.into() }
}
