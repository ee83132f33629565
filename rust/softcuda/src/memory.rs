//! Memory of the devices, and page-locked memory of the host.
//!
//! A block ends at memory that may not be touched. The alignment may leave a few bytes before it; they hold a
//! pattern that is checked when the block is freed. New memory is full of ones, so that its floats are NaN, and so is freed memory
//! that another process still uses.

use std::collections::BTreeMap;
use std::ffi::{CString, c_int};

use crate::status::{
    ALREADY_REGISTERED, INVALID_CONTEXT, INVALID_HANDLE, INVALID_VALUE, NOT_REGISTERED, OUT_OF_MEMORY, SUCCESS, Status,
};

const PAGE: usize = 4096;
/// The bytes before and after a block that may not be touched.
const GUARD: usize = 4 << 20;
const ALIGNMENT: usize = 256;
const PATTERN: u8 = 0xa5;
/// In place of a device, for memory of the host.
pub const HOST: c_int = -1;

struct Block {
    bytes: usize,
    device: c_int,
    /// The memory file of a device's block, which other processes may open; -1 for other blocks.
    file: c_int,
    /// Whether it is a block of another process.
    received: bool,
    /// The pages of the block, and those around it.
    pages: usize,
    length: usize,
}

/// The beginning of a handle for other processes.
const HANDLE: u64 = 0x736f_6674_6375_6461;

/// Maps a whole file over reserved pages.
///
/// # Safety
/// The pages are reserved by the caller.
unsafe fn map_file(pages: usize, length: usize, file: c_int) -> bool {
    let flags = libc::MAP_SHARED | libc::MAP_FIXED;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: guaranteed by the caller.
    unsafe { libc::mmap(pages as *mut _, length, access, flags, file, 0) != libc::MAP_FAILED }
}

pub struct Memory {
    blocks: BTreeMap<usize, Block>,
    used: BTreeMap<c_int, usize>,
    pub capacity: usize,
    /// The number of blocks that were given out.
    pub allocations: u64,
    /// Memory of the program that was locked, by its address.
    registered: BTreeMap<usize, usize>,
}

impl Memory {
    pub fn new(capacity: usize) -> Memory {
        Memory { blocks: BTreeMap::new(), used: BTreeMap::new(), capacity, allocations: 0, registered: BTreeMap::new() }
    }

    /// The bytes in use on a device.
    pub fn used(&self, device: c_int) -> usize {
        self.used.get(&device).copied().unwrap_or(0)
    }

    /// New memory on a device, or of the host.
    pub fn allocate(&mut self, device: c_int, bytes: usize) -> Result<usize, Status> {
        if bytes == 0 {
            return Err(INVALID_VALUE);
        }
        if device != HOST && bytes > self.capacity - self.used(device) {
            return Err(OUT_OF_MEMORY);
        }
        let aligned = bytes.next_multiple_of(ALIGNMENT);
        let inner = aligned.next_multiple_of(PAGE);
        let length = inner + 2 * GUARD;
        let mut file = -1;
        // SAFETY: a new mapping; what lies between the guards becomes accessible.
        let address = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let pages = libc::mmap(std::ptr::null_mut(), length, libc::PROT_NONE, flags, -1, 0);
            if pages == libc::MAP_FAILED {
                return Err(OUT_OF_MEMORY);
            }
            let open = pages.byte_add(GUARD);
            if device == HOST {
                if libc::mprotect(open, inner, libc::PROT_READ | libc::PROT_WRITE) != 0 {
                    return Err(OUT_OF_MEMORY);
                }
            } else {
                file = libc::memfd_create(c"softcuda".as_ptr(), libc::MFD_CLOEXEC);
                if file < 0 || libc::ftruncate(file, inner as libc::off_t) != 0 || !map_file(open as usize, inner, file)
                {
                    return Err(OUT_OF_MEMORY);
                }
            }
            let start = open.byte_add(inner - aligned).cast::<u8>();
            start.write_bytes(0xff, bytes);
            start.add(bytes).write_bytes(PATTERN, aligned - bytes);
            start as usize
        };
        let pages = address + aligned - inner - GUARD;
        self.blocks.insert(address, Block { bytes, device, file, received: false, pages, length });
        *self.used.entry(device).or_default() += bytes;
        self.allocations += 1;
        Ok(address)
    }

    /// Locks memory of the program.
    pub fn register(&mut self, address: usize, bytes: usize) -> Status {
        if address == 0 || bytes == 0 {
            return INVALID_VALUE;
        }
        if self.registered.contains_key(&address) {
            return ALREADY_REGISTERED;
        }
        self.registered.insert(address, bytes);
        SUCCESS
    }

    pub fn unregister(&mut self, address: usize) -> Status {
        if self.registered.remove(&address).is_some() { SUCCESS } else { NOT_REGISTERED }
    }

    /// Makes a block inaccessible for ever. False if something was written behind its end.
    pub fn free(&mut self, address: usize, host: bool) -> Result<bool, Status> {
        match self.blocks.get(&address) {
            Some(block) if (block.device == HOST) == host && !block.received => {}
            _ => return Err(INVALID_VALUE),
        }
        let Some(block) = self.blocks.remove(&address) else { return Err(INVALID_VALUE) };
        *self.used.entry(block.device).or_default() -= block.bytes;
        let rest = block.bytes.next_multiple_of(ALIGNMENT) - block.bytes;
        // SAFETY: the block is mapped with its rest, and nothing else uses it; the new mapping covers the same pages, which thereby
        // stay reserved.
        let intact = unsafe {
            let end = std::ptr::with_exposed_provenance::<u8>(address + block.bytes);
            let intact = std::slice::from_raw_parts(end, rest).iter().all(|&byte| byte == PATTERN);
            if block.file >= 0 {
                // Another process that still uses the block finds NaN.
                std::ptr::with_exposed_provenance_mut::<u8>(address).write_bytes(0xff, block.bytes);
                libc::close(block.file);
            }
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
            libc::mmap(block.pages as *mut _, block.length, libc::PROT_NONE, flags, -1, 0);
            intact
        };
        Ok(intact)
    }

    /// The name of a block for other processes: process, descriptor, bytes and pages.
    pub fn handle(&self, address: usize) -> Result<[u64; 8], Status> {
        let block =
            self.blocks.get(&address).filter(|block| block.file >= 0 && !block.received).ok_or(INVALID_VALUE)?;
        let inner = (block.length - 2 * GUARD) as u64;
        Ok([HANDLE, u64::from(std::process::id()), block.file as u64, block.bytes as u64, inner, 0, 0, 0])
    }

    /// A block of another process.
    pub fn receive(&mut self, handle: &[u64; 8], device: c_int) -> Result<usize, Status> {
        let &[HANDLE, process, file, bytes, inner, ..] = handle else { return Err(INVALID_HANDLE) };
        if process == u64::from(std::process::id()) {
            return Err(INVALID_CONTEXT);
        }
        let (bytes, inner) = (bytes as usize, inner as usize);
        let path = CString::new(format!("/proc/{process}/fd/{file}")).map_err(|_| INVALID_HANDLE)?;
        let length = inner + 2 * GUARD;
        // SAFETY: a new mapping with the pages of the file between the guards.
        let pages = unsafe {
            let file = libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
            if file < 0 {
                return Err(INVALID_HANDLE);
            }
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let pages = libc::mmap(std::ptr::null_mut(), length, libc::PROT_NONE, flags, -1, 0) as usize;
            let mapped = map_file(pages + GUARD, inner, file);
            libc::close(file);
            if !mapped {
                return Err(OUT_OF_MEMORY);
            }
            pages
        };
        let address = pages + GUARD + inner - bytes.next_multiple_of(ALIGNMENT);
        self.blocks.insert(address, Block { bytes, device, file: -1, received: true, pages, length });
        Ok(address)
    }

    /// Ends the use of a block of another process.
    pub fn close(&mut self, address: usize) -> Result<(), Status> {
        if !self.blocks.get(&address).is_some_and(|block| block.received) {
            return Err(INVALID_VALUE);
        }
        if let Some(block) = self.blocks.remove(&address) {
            // SAFETY: the pages were mapped by `receive`; they stay reserved.
            unsafe {
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
                libc::mmap(block.pages as *mut _, block.length, libc::PROT_NONE, flags, -1, 0);
            }
        }
        Ok(())
    }

    /// Where another process finds the bytes of a range of a device's memory: a descriptor of this process, and an offset.
    pub fn place(&self, address: usize, bytes: usize) -> Option<(c_int, usize)> {
        let (&start, block) = self.blocks.range(..=address).next_back()?;
        let inside = address + bytes <= start + block.bytes && block.file >= 0;
        inside.then(|| (block.file, address - block.pages - GUARD))
    }

    /// The device of a range of memory, or `HOST` for page-locked memory; `None` if no block contains it.
    pub fn device_of(&self, address: usize, bytes: usize) -> Option<c_int> {
        let locked = self.registered.range(..=address).next_back();
        if locked.is_some_and(|(&start, &length)| address + bytes <= start + length) {
            return Some(HOST);
        }
        let (&start, block) = self.blocks.range(..=address).next_back()?;
        (address + bytes <= start + block.bytes).then_some(block.device)
    }
}
