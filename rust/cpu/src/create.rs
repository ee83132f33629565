//! Filling a contiguous range of memory with one value.

use rushlight_par::parallel_for;

/// Elements that one task writes; smaller stretches are written at once.
const GRAIN: usize = 1 << 16;

/// Writes the first `width` bytes of `bits` to `count` elements from `start` on.
///
/// # Safety
/// The range of `count * width` bytes is writable, and `width` is the size of an element type.
pub unsafe fn fill(start: *mut u8, count: usize, width: usize, bits: [u64; 2]) {
    let bytes: [u8; 16] = bytes_of(bits);
    let start = start as usize;
    let uniform = bytes[..width].iter().all(|byte| *byte == bytes[0]);
    parallel_for(count, GRAIN, |range| {
        let (first, length) = ((start + range.start * width) as *mut u8, range.len());
        // SAFETY: ranges lie within the caller's memory and do not overlap.
        unsafe {
            match width {
                _ if uniform => first.write_bytes(bytes[0], length * width),
                2 => repeat(first.cast::<u16>(), length, bits[0] as u16),
                4 => repeat(first.cast::<u32>(), length, bits[0] as u32),
                8 => repeat(first.cast::<u64>(), length, bits[0]),
                _ => repeat(first.cast::<[u64; 2]>(), length, bits),
            }
        }
    });
}

fn bytes_of(bits: [u64; 2]) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&bits[0].to_ne_bytes());
    bytes[8..].copy_from_slice(&bits[1].to_ne_bytes());
    bytes
}

/// # Safety
/// `length` elements from `first` on are writable.
unsafe fn repeat<T: Copy>(first: *mut T, length: usize, value: T) {
    for place in 0..length {
        // SAFETY: guaranteed by the caller (see `# Safety`); foreign memory may be unaligned.
        unsafe { first.add(place).write_unaligned(value) };
    }
}
