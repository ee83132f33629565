//! A generator's stream: an engine, its seed, the cached normals, and torch's saved state.

use crate::mt19937::{Mt19937, N};
use std::fmt;

/// The seed of a stream that was not seeded.
pub const DEFAULT_SEED: u64 = 67_280_421_310_721;

/// Bytes of a saved state, as in `torch.get_rng_state()`.
pub const STATE_LEN: usize = 5056;

/// A source of random numbers. Plain data without a lock; shared streams need one.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    pub(crate) engine: Mt19937,
    seed: u64,
    /// Normals come in pairs; the second is cached here. Single values and strided tensors use it, large ones do not.
    pub(crate) next_normal: Option<f64>,
    /// torch has and saves such a field for f32, though nothing on the CPU fills it.
    next_normal_f32: Option<f32>,
}

impl Default for Stream {
    fn default() -> Self {
        Self::new(DEFAULT_SEED)
    }
}

impl Stream {
    pub fn new(seed: u64) -> Self {
        Self { engine: Mt19937::new(seed), seed, next_normal: None, next_normal_f32: None }
    }

    /// Restarts the stream from `seed`.
    pub fn manual_seed(&mut self, seed: u64) {
        *self = Self::new(seed);
    }

    /// Restarts the stream from a seed of the operating system and returns it.
    pub fn seed(&mut self) -> u64 {
        let seed = random_seed();
        self.manual_seed(seed);
        seed
    }

    /// The seed this stream started from.
    pub fn initial_seed(&self) -> u64 {
        self.seed
    }

    /// The next 32 bits.
    #[inline]
    pub fn random(&mut self) -> u32 {
        self.engine.random()
    }

    /// The next 64 bits.
    #[inline]
    pub fn random64(&mut self) -> u64 {
        self.engine.random64()
    }

    /// A uniform number in [0, 1) of 53 bits.
    #[inline]
    pub fn uniform64(&mut self) -> f64 {
        unit64(self.random64())
    }

    /// The state in torch's layout, little-endian:
    ///
    /// | at   | type      | what                                                                    |
    /// |------|-----------|-------------------------------------------------------------------------|
    /// | 0    | u64       | seed                                                                    |
    /// | 8    | i32       | `left`: words left in the block plus one; 1 when the block must be made |
    /// | 12   | i32       | seeded, 1                                                               |
    /// | 16   | u64       | `next`: place of the next word                                          |
    /// | 24   | 624 x u64 | the block, a word in the low half of each                               |
    /// | 5024 | f64       | cached normal                                                           |
    /// | 5040 | i32       | whether there is one                                                    |
    /// | 5048 | f32       | cached normal of f32                                                    |
    /// | 5052 | bool      | whether there is one                                                    |
    pub fn state(&self) -> Vec<u8> {
        let mut bytes = vec![0; STATE_LEN];
        let mut put = |at: usize, what: &[u8]| bytes[at..at + what.len()].copy_from_slice(what);
        let (words, next) = self.engine.parts();
        put(0, &self.seed.to_le_bytes());
        put(8, &left_of(next).to_le_bytes());
        put(12, &1i32.to_le_bytes());
        put(16, &(next as u64).to_le_bytes());
        for (i, word) in words.iter().enumerate() {
            put(WORDS + 8 * i, &word.to_le_bytes());
        }
        if let Some(normal) = self.next_normal {
            put(NORMAL, &normal.to_le_bytes());
            put(HAS_NORMAL, &1i32.to_le_bytes());
        }
        if let Some(normal) = self.next_normal_f32 {
            put(NORMAL_F32, &normal.to_le_bytes());
            put(HAS_NORMAL_F32, &[1]);
        }
        bytes
    }

    /// Continues from a saved state. The bytes may come from anywhere; on an error nothing changes.
    ///
    /// Stricter than torch in one respect: `left` and `next` must agree. If they do not, torch reads beyond its block.
    pub fn set_state(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        let bytes: &[u8; STATE_LEN] = bytes.try_into().map_err(|_| StateError::Length { found: bytes.len() })?;
        let next = usize::try_from(u64::from_le_bytes(take(bytes, 16))).map_err(|_| StateError::Invalid)?;
        let left = i32::from_le_bytes(take(bytes, 8));
        let seeded = i32::from_le_bytes(take(bytes, 12)) != 0;
        let words = std::array::from_fn(|i| u32::from_le_bytes(take(bytes, WORDS + 8 * i)));
        let engine = Mt19937::from_parts(words, next).ok_or(StateError::Invalid)?;
        if !seeded || left != left_of(next) {
            return Err(StateError::Invalid);
        }
        let has_normal = i32::from_le_bytes(take(bytes, HAS_NORMAL)) != 0;
        *self = Self {
            engine,
            seed: u64::from_le_bytes(take(bytes, 0)),
            next_normal: has_normal.then(|| f64::from_le_bytes(take(bytes, NORMAL))),
            next_normal_f32: (bytes[HAS_NORMAL_F32] != 0).then(|| f32::from_le_bytes(take(bytes, NORMAL_F32))),
        };
        Ok(())
    }
}

const WORDS: usize = 24;
const NORMAL: usize = 5024;
const HAS_NORMAL: usize = 5040;
const NORMAL_F32: usize = 5048;
const HAS_NORMAL_F32: usize = 5052;

fn take<const LEN: usize>(bytes: &[u8; STATE_LEN], at: usize) -> [u8; LEN] {
    std::array::from_fn(|i| bytes[at + i])
}

/// torch's countdown, which is equivalent to the index: a new engine has index 0 and 1 left.
fn left_of(next: usize) -> i32 {
    if next == 0 { 1 } else { (N + 1 - next) as i32 }
}

/// Why a saved state is invalid; the words are torch's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateError {
    Length { found: usize },
    Invalid,
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { found } => write!(
                f,
                "Expected a CPUGeneratorImplState of size {STATE_LEN} but found the input RNG state size to be {found}"
            ),
            Self::Invalid => f.write_str("Invalid mt19937 state"),
        }
    }
}

impl std::error::Error for StateError {}

/// 64 random bits to a number in [0, 1): the low 53, as torch does.
#[inline(always)]
pub(crate) fn unit64(word: u64) -> f64 {
    (word & ((1 << 53) - 1)) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// 32 random bits to a number in [0, 1): the low 24, as torch does.
#[inline(always)]
pub(crate) fn unit32(word: u32) -> f32 {
    // Converts through i32, for which vector units have an instruction.
    (word & 0xff_ffff) as i32 as f32 * (1.0 / (1 << 24) as f32)
}

/// An unpredictable seed of 53 bits, so that a double represents it, as in torch.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    use std::io::Read;
    let mut bytes = [0; 8];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    let bits = match read {
        Ok(()) => u64::from_le_bytes(bytes),
        // Without the device, the standard library's own random keys; the process id and the time make the children of
        // a fork different.
        Err(_) => RandomState::new().hash_one((std::process::id(), std::time::SystemTime::now())),
    };
    bits & ((1 << 53) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_travels() {
        for draws in [0, 1, 623, 624, 625, 1248] {
            let mut source = Stream::new(u64::MAX - 3);
            (0..draws).for_each(|_| _ = source.random());
            source.next_normal = (draws % 2 == 1).then_some(-0.25);
            source.next_normal_f32 = (draws == 624).then_some(1.5);
            let mut copy = Stream::default();
            copy.set_state(&source.state()).unwrap();
            assert_eq!(copy, source);
            assert_eq!(copy.initial_seed(), u64::MAX - 3);
            assert_eq!(copy.random64(), source.random64());
        }
    }

    #[test]
    fn bad_states_are_refused_and_change_nothing() {
        let mut stream = Stream::new(1);
        stream.random();
        let before = stream.clone();
        let good = stream.state();
        let with = |at: usize, what: &[u8]| {
            let mut bytes = good.clone();
            bytes[at..at + what.len()].copy_from_slice(what);
            bytes
        };
        let cases = [
            with(8, &0i32.to_le_bytes()),
            with(8, &(-1i32).to_le_bytes()),
            with(8, &625i32.to_le_bytes()),
            with(8, &300i32.to_le_bytes()),
            with(12, &0i32.to_le_bytes()),
            with(16, &625u64.to_le_bytes()),
            with(16, &u64::MAX.to_le_bytes()),
        ];
        for bytes in cases {
            assert_eq!(stream.set_state(&bytes), Err(StateError::Invalid));
        }
        for length in [0, 100, STATE_LEN - 1, STATE_LEN + 1] {
            assert_eq!(stream.set_state(&vec![0; length]), Err(StateError::Length { found: length }));
        }
        assert_eq!(stream, before);
    }

    #[test]
    fn seeds_of_the_system_differ() {
        let mut stream = Stream::default();
        assert_eq!(stream.initial_seed(), DEFAULT_SEED);
        let (one, two) = (stream.seed(), stream.seed());
        assert_ne!(one, two);
        assert_eq!(stream.initial_seed(), two);
        assert_eq!(stream, Stream::new(two));
    }
}
