//! Philox4x32-10, the counter-based stream of Salmon, Moraes, Dror and Shaw (Random123).
//!
//! There is no sequential state: a key and a counter of 128 bits give four words, so every thread of a GPU computes its
//! own. As in curand and torch, the key is the seed, the upper half of the counter is the subsequence (the thread) and
//! the lower half the offset in it. It is for kernels on CUDA devices, of which there are none yet; the CPU uses
//! `mt19937`.

/// The four words of `counter` under `key`.
pub fn philox4x32_10(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let (mut c, mut k) = (counter, key);
    for round in 0..10 {
        if round > 0 {
            k = [k[0].wrapping_add(0x9e37_79b9), k[1].wrapping_add(0xbb67_ae85)];
        }
        let (high0, low0) = wide_product(c[0], 0xd251_1f53);
        let (high1, low1) = wide_product(c[2], 0xcd9e_8d57);
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0];
    }
    c
}

/// The four words at `offset` of `subsequence` of `seed`.
pub fn philox(seed: u64, subsequence: u64, offset: u64) -> [u32; 4] {
    let [seed, subsequence, offset] = [seed, subsequence, offset].map(|x| [x as u32, (x >> 32) as u32]);
    philox4x32_10([offset[0], offset[1], subsequence[0], subsequence[1]], seed)
}

fn wide_product(a: u32, b: u32) -> (u32, u32) {
    let product = u64::from(a) * u64::from(b);
    ((product >> 32) as u32, product as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vectors that Random123 publishes.
    #[test]
    fn known_answers() {
        let ones = u32::MAX;
        assert_eq!(philox4x32_10([0; 4], [0; 2]), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
        assert_eq!(philox4x32_10([ones; 4], [ones; 2]), [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]);
        let (counter, key) = ([0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344], [0xa4093822, 0x299f31d0]);
        assert_eq!(philox4x32_10(counter, key), [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1]);
    }

    #[test]
    fn seed_and_place_map_to_key_and_counter() {
        let place = philox(0x299f31d0_a4093822, 0x03707344_13198a2e, 0x85a308d3_243f6a88);
        assert_eq!(place, [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1]);
    }
}
