//! The Mersenne Twister of Matsumoto and Nishimura, mt19937, in the variant that torch uses.
//!
//! The state is a block of 624 words. A block is computed from the one before it (`twist`), and each word is scrambled
//! before it is returned (`temper`). torch makes words one at a time; here both steps are loops over many words, which
//! the compiler vectorises.

use crate::vector::vectorised;

/// Words in a block.
pub(crate) const N: usize = 624;
/// Distance of the word that is mixed in.
const M: usize = 397;

/// The engine: a block of words and the index of the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mt19937 {
    words: [u32; N],
    /// 0 only between seeding and the first draw, when `words` is the seed block and must be twisted before use;
    /// `N` when the block is used up.
    next: usize,
}

impl Mt19937 {
    /// An engine seeded with the low 32 bits of `seed`, as in torch.
    pub fn new(seed: u64) -> Self {
        let mut words = [0; N];
        words[0] = seed as u32;
        for j in 1..N {
            let before: u32 = words[j - 1];
            words[j] = 1_812_433_253u32.wrapping_mul(before ^ (before >> 30)).wrapping_add(j as u32);
        }
        Self { words, next: 0 }
    }

    /// The block and the index of the next word, for saving.
    pub(crate) fn parts(&self) -> (&[u32; N], usize) {
        (&self.words, self.next)
    }

    /// An engine that continues from saved parts; `None` if `next` lies outside the block.
    pub(crate) fn from_parts(words: [u32; N], next: usize) -> Option<Self> {
        (next <= N).then_some(Self { words, next })
    }

    /// The next 32-bit word.
    #[inline]
    pub fn random(&mut self) -> u32 {
        let word = temper(self.rest()[0]);
        self.next += 1;
        word
    }

    /// The next 64 bits: the first word is the high half.
    #[inline]
    pub fn random64(&mut self) -> u64 {
        let high = self.random();
        join(high, self.random())
    }

    /// Fills `out` with one word per element, passed through `map`.
    #[inline]
    pub(crate) fn fill<T>(&mut self, out: &mut [T], map: impl Fn(u32) -> T + Copy) {
        let mut out = out;
        while !out.is_empty() {
            let rest = self.rest();
            let count = rest.len().min(out.len());
            let (now, later) = out.split_at_mut(count);
            map_words(now, rest, map);
            self.next += count;
            out = later;
        }
    }

    /// Fills `out` with two words per element, joined as in [`random64`](Self::random64) and passed through `map`.
    #[inline]
    pub(crate) fn fill64<T>(&mut self, out: &mut [T], map: impl Fn(u64) -> T + Copy) {
        // Pairs may straddle two blocks, so the words go through a buffer.
        let mut words = [0; 512];
        for part in out.chunks_mut(words.len() / 2) {
            let words = &mut words[..2 * part.len()];
            self.fill(words, |word| word);
            map_pairs(part, words, map);
        }
    }

    /// The words that are left in the block, at least one.
    #[inline]
    fn rest(&mut self) -> &[u32] {
        if self.next == 0 || self.next == N {
            twist(&mut self.words);
            self.next = 0;
        }
        &self.words[self.next..]
    }
}

#[inline(always)]
fn join(high: u32, low: u32) -> u64 {
    (u64::from(high) << 32) | u64::from(low)
}

#[inline(always)]
fn mix(this: u32, next: u32, far: u32) -> u32 {
    let joined = (this & 0x8000_0000) | (next & 0x7fff_ffff);
    far ^ (joined >> 1) ^ ((next & 1).wrapping_neg() & 0x9908_b0df)
}

vectorised! {
    /// Turns a block into the following one.
    #[inline(never)]
    fn twist(words: &mut [u32; N]) {
        // Two loops, because the far word is an old one at first and a new one afterwards.
        for j in 0..N - M {
            words[j] = mix(words[j], words[j + 1], words[j + M]);
        }
        for j in N - M..N - 1 {
            words[j] = mix(words[j], words[j + 1], words[j + M - N]);
        }
        words[N - 1] = mix(words[N - 1], words[0], words[M - 1]);
    }

    fn map_words<T>(out: &mut [T], words: &[u32], map: impl Fn(u32) -> T) {
        for (value, &word) in out.iter_mut().zip(words) {
            *value = map(temper(word));
        }
    }

    fn map_pairs<T>(out: &mut [T], words: &[u32], map: impl Fn(u64) -> T) {
        for (value, pair) in out.iter_mut().zip(words.as_chunks::<2>().0) {
            *value = map(join(pair[0], pair[1]));
        }
    }
}

/// The scrambling of a word before it is returned.
#[inline(always)]
fn temper(word: u32) -> u32 {
    let mut y = word;
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c_5680;
    y ^= (y << 15) & 0xefc6_0000;
    y ^ (y >> 18)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The C++ standard specifies the ten thousandth word for the default seed.
    #[test]
    fn ten_thousandth_word() {
        let mut engine = Mt19937::new(5489);
        let mut words = [0; 10_000];
        engine.fill(&mut words, |word| word);
        assert_eq!(words[9_999], 4_123_659_995);
    }

    #[test]
    fn filling_and_drawing_are_one_stream() {
        let (mut one, mut many) = (Mt19937::new(3), Mt19937::new(3));
        for length in [1, 5, 0, 622, 624, 700, 1300] {
            let mut words = vec![0; length];
            many.fill(&mut words, |word| word);
            assert!(words.iter().all(|&word| word == one.random()));
            let mut wide = vec![0; length];
            many.fill64(&mut wide, |word| word);
            assert!(wide.iter().all(|&word| word == one.random64()));
            assert_eq!(one, many);
        }
    }

    #[test]
    fn only_the_low_half_of_the_seed_counts() {
        assert_eq!(Mt19937::new(5), Mt19937::new((1 << 32) + 5));
    }
}
