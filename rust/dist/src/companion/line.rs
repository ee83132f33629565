//! Lines of text over a socket, without waiting.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// The longest line.
const LONGEST: usize = 64 << 10;

pub struct Link {
    file: File,
    input: Vec<u8>,
    output: Vec<u8>,
    /// The other end has closed, or broken the rules.
    pub is_closed: bool,
}

impl Link {
    /// Over a socket that does not block.
    pub fn new(socket: OwnedFd) -> Link {
        Link { file: File::from(socket), input: Vec::new(), output: Vec::new(), is_closed: false }
    }

    pub fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Sends a line, now or later.
    pub fn send(&mut self, line: &str) {
        self.output.extend_from_slice(line.as_bytes());
        self.output.push(b'\n');
        self.flush();
    }

    pub fn flush(&mut self) {
        while !self.output.is_empty() && !self.is_closed {
            match self.file.write(&self.output) {
                Ok(count) => drop(self.output.drain(..count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.is_closed = true,
            }
        }
    }

    /// The lines that have arrived.
    pub fn receive(&mut self) -> Vec<String> {
        let mut bytes = [0; 4096];
        while !self.is_closed {
            match self.file.read(&mut bytes) {
                Ok(0) => self.is_closed = true,
                Ok(count) => self.input.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.is_closed = true,
            }
            if self.input.len() > LONGEST && !self.input.contains(&b'\n') {
                self.is_closed = true;
            }
        }
        let Some(end) = self.input.iter().rposition(|&byte| byte == b'\n') else { return Vec::new() };
        let whole: Vec<u8> = self.input.drain(..=end).collect();
        String::from_utf8_lossy(&whole).lines().map(str::to_owned).collect()
    }
}
