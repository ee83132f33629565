//! The zip archive of a checkpoint: uncompressed records under one folder, each payload at a multiple of 64.
//!
//! [`Archive`] reads, [`Writer`] writes. Both support ZIP64. Neither supports compression: checkpoints do not use it,
//! so a compressed record is an error and cannot be a decompression bomb.

mod read;
mod write;

pub use read::{Archive, Record};
pub use write::Writer;

const LOCAL_HEADER: u32 = 0x0403_4b50;
const CENTRAL_HEADER: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const END_64: u32 = 0x0606_4b50;
const END_64_LOCATOR: u32 = 0x0706_4b50;
const DESCRIPTOR: u32 = 0x0807_4b50;
/// The extra field with the sizes that do not fit into 32 bits.
const EXTRA_64: u16 = 1;
const LOCAL_SIZE: usize = 30;
const CENTRAL_SIZE: usize = 46;
const END_SIZE: usize = 22;
const END_64_SIZE: usize = 56;
const LOCATOR_SIZE: usize = 20;
/// The value of a 32-bit field whose number is in the ZIP64 extra field.
const SEE_64: u32 = u32::MAX;

#[cfg(test)]
mod tests;
