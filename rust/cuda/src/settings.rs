//! The settings of the allocators: `PYTORCH_ALLOC_CONF` and its older names, in torch's grammar and with its sentences.
//!
//! A text is a list of keys with values, `max_split_size_mb:128,expandable_segments:True`. As in torch, what stands between a key
//! and its value, and between a value and the next key, is any one of `,`, `:`, `[` and `]`; keys before a mistake count, and
//! keys that a text does not name keep their values.

use rushlight_core::fork::{ForkMutex, Rank};
use rushlight_core::{Class, Error, Result};

const MIB: usize = 1 << 20;
/// Sizes are multiples of this.
const UNIT: usize = 512;
/// The ranges of sizes that have divisions of their own: up to 2 MiB, then one for each power of two.
const RANGES: usize = 16;
const MOST_THREADS: u64 = 128;

/// The variables, the first of which counts.
const VARIABLES: [&str; 3] = ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"];

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Blocks of this size and more are not divided.
    pub max_split: usize,
    /// How much larger than its request a block may be that is not divided.
    pub max_non_split_rounding: usize,
    /// The segment of medium blocks.
    pub large_segment: usize,
    /// The part of the permitted memory above which free segments are given back; 0 for none.
    pub collection_threshold: f64,
    /// Into how many steps each power of two is divided, by ranges of sizes; 0 for multiples of 512 bytes.
    pub divisions: [u64; RANGES],
    /// The part of a device's memory that is taken from the driver.
    pub memory_fraction: f64,
    /// Blocks of page-locked memory are powers of two up to this size, and are kept up to the other one.
    pub pinned_round: usize,
    pub pinned_cached: usize,
    /// Whether page-locked memory is memory of the process that the driver locks.
    pub pinned_registers: bool,
    /// What has no effect here: see `docs/cuda.md`.
    pub expandable_segments: bool,
    pub pinned_threads: u64,
    pub releases_lock: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            max_split: usize::MAX,
            max_non_split_rounding: 20 * MIB,
            large_segment: 20 * MIB,
            collection_threshold: 0.0,
            divisions: [0; RANGES],
            memory_fraction: 1.0,
            pinned_round: usize::MAX,
            pinned_cached: usize::MAX,
            pinned_registers: false,
            expandable_segments: false,
            pinned_threads: 1,
            releases_lock: false,
        }
    }
}

/// A text in the pieces that torch sees.
struct Tokens(Vec<String>);

fn beyond_end() -> Error {
    Error::runtime("Index out of bounds in ConfigTokenizer").hint("A key needs a value: key:value,key:value.")
}

impl Tokens {
    fn of(text: &str) -> Tokens {
        let mut tokens = Vec::new();
        let mut word = String::new();
        for letter in text.chars().filter(|letter| !letter.is_whitespace()) {
            if ",:[]".contains(letter) {
                tokens.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
                tokens.push(letter.to_string());
            } else {
                word.push(letter);
            }
        }
        tokens.extend((!word.is_empty()).then_some(word));
        Tokens(tokens)
    }

    fn at(&self, index: usize) -> Result<&str> {
        self.0.get(index).map(String::as_str).ok_or_else(beyond_end)
    }

    /// The integer at the beginning of a piece. Below zero it counts back from the largest one, as in C.
    fn integer(&self, index: usize) -> Result<u64> {
        let text = self.at(index)?;
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let digits = &digits[..digits.bytes().take_while(u8::is_ascii_digit).count()];
        if digits.is_empty() {
            return Err(Error::value("stoull").hint(format!("'{text}' is no integer.")));
        }
        let value: u64 = digits.parse().map_err(|_| Error::index("stoull").hint(format!("{digits} is too large.")))?;
        Ok(if negative { value.wrapping_neg() } else { value })
    }

    /// A number of MiB as bytes, or the largest size.
    fn mebibytes(&self, index: usize) -> Result<u64> {
        Ok(self.integer(index)?.min((usize::MAX / MIB) as u64))
    }

    /// The number at the beginning of a piece.
    fn number(&self, index: usize) -> Result<f64> {
        let text = self.at(index)?;
        let prefixes = (1..=text.len()).rev().filter_map(|end| text.get(..end));
        let (used, value) = prefixes
            .filter_map(|used| Some((used, used.parse::<f64>().ok()?)))
            .next()
            .ok_or_else(|| Error::value("stod").hint(format!("'{text}' is no number.")))?;
        if value.is_infinite() && used.ends_with(|last: char| last.is_ascii_digit()) {
            return Err(Error::index("stod").hint(format!("{used} is too large.")));
        }
        Ok(value)
    }

    fn truth(&self, index: usize) -> Result<bool> {
        match self.at(index)? {
            "True" => Ok(true),
            "False" => Ok(false),
            other => Err(Error::value(format!(
                "Expected 'True' or 'False' at index {index} in ConfigTokenizer but got '{other}'"
            ))),
        }
    }
}

impl Settings {
    /// The size of the block for a request.
    pub fn rounded(&self, bytes: usize) -> usize {
        let plain = bytes.max(1).next_multiple_of(UNIT);
        let range = (bytes.max(1).ilog2() as usize).saturating_sub(MIB.ilog2() as usize).min(RANGES - 1);
        let divisions = self.divisions[range] as usize;
        if divisions <= 1 || bytes <= UNIT.saturating_mul(divisions) || bytes.is_power_of_two() {
            return plain;
        }
        bytes.next_multiple_of((1 << bytes.ilog2()) / divisions)
    }

    /// Takes over what a text says, up to its first mistake.
    fn read(&mut self, text: &str, backend: &mut String) -> Result<()> {
        let tokens = Tokens::of(text);
        let mut at = 0;
        while at < tokens.0.len() {
            at = self.read_key(&tokens, at, backend)? + 2;
        }
        Ok(())
    }

    /// Takes over the value of the key at a place; returns the place of the value's end.
    fn read_key(&mut self, tokens: &Tokens, at: usize, backend: &mut String) -> Result<usize> {
        let value = at + 2;
        match tokens.at(at)? {
            "max_split_size_mb" => self.max_split = self.at_least_a_segment(tokens, at)?,
            "max_non_split_rounding_mb" => self.max_non_split_rounding = self.at_least_a_segment(tokens, at)?,
            "large_segment_size_mb" => {
                let size = tokens.mebibytes(value)? as usize;
                if size <= 10 {
                    return Err(Error::value("CachingAllocator option large_segment_size_mb must be > 10 MB"));
                }
                self.large_segment = size * MIB;
            }
            "garbage_collection_threshold" => {
                let part = tokens.number(value)?;
                if !(part > 0.0 && part < 1.0) {
                    return Err(Error::value("garbage_collect_threshold is invalid, set it in (0.0, 1.0)"));
                }
                self.collection_threshold = part;
            }
            "per_process_memory_fraction" => {
                let part = tokens.number(value)?;
                if !(0.0..=1.0).contains(&part) {
                    return Err(Error::value("per_process_memory_fraction is invalid, set it in [0.0, 1.0]"));
                }
                self.memory_fraction = part;
            }
            "roundup_power2_divisions" => return self.read_divisions(tokens, value),
            "pinned_max_round_threshold_mb" => self.pinned_round = tokens.mebibytes(value)? as usize * MIB,
            "pinned_max_cached_size_mb" => self.pinned_cached = tokens.mebibytes(value)? as usize * MIB,
            "pinned_use_cuda_host_register" | "pinned_use_hip_host_register" => {
                self.pinned_registers = tokens.truth(value)?;
            }
            "pinned_num_register_threads" => {
                let threads = tokens.integer(value)?;
                if !threads.is_power_of_two() {
                    let sentence = format!("Number of register threads has to be power of 2, got {threads}");
                    return Err(Error::value(sentence));
                }
                if threads > MOST_THREADS {
                    return Err(Error::value(format!(
                        "Number of register threads should be less than or equal to {MOST_THREADS}, got {threads}"
                    )));
                }
                self.pinned_threads = threads;
            }
            "pinned_reserve_segment_size_mb" => {
                if tokens.integer(value)? == 0 {
                    return Err(Error::value("Pinned reserve segment size has to be greater than 0"));
                }
            }
            "expandable_segments" => self.expandable_segments = tokens.truth(value)?,
            "release_lock_on_cudamalloc" | "release_lock_on_hipmalloc" => self.releases_lock = tokens.truth(value)?,
            "pinned_use_background_threads" | "graph_capture_record_stream_reuse" | "throw_on_cudamalloc_oom" => {
                tokens.truth(value)?;
            }
            "backend" => match tokens.at(value)? {
                name @ ("native" | "cudaMallocAsync") => *backend = name.into(),
                _ => {
                    return Err(Error::value("Unknown allocator backend, options are native and cudaMallocAsync"));
                }
            },
            key => {
                return Err(Error::value(format!("Unrecognized key '{key}' in Accelerator allocator config.")).hint(
                    "docs/cuda.md lists the keys of PYTORCH_ALLOC_CONF and of torch.cuda.memory._set_allocator_settings.",
                ));
            }
        }
        Ok(value)
    }

    /// The bytes of a value in MiB that is no smaller than the segment of medium blocks.
    fn at_least_a_segment(&self, tokens: &Tokens, at: usize) -> Result<usize> {
        let (size, least) = (tokens.mebibytes(at + 2)? as usize, self.large_segment / MIB);
        if size < least {
            let key = tokens.at(at)?;
            return Err(Error::value(format!("CachingAllocator option {key} too small, must be >= {least}")));
        }
        Ok(size * MIB)
    }

    /// `4` for all sizes, or `[256:1,512:2,>:4]`: the first pair counts for smaller sizes too, and `>` for all larger ones.
    fn read_divisions(&mut self, tokens: &Tokens, begin: usize) -> Result<usize> {
        if tokens.at(begin)? != "[" {
            let divisions = tokens.integer(begin)?;
            if !divisions.is_power_of_two() {
                return Err(Error::value("For roundups, the divisions has to be power of 2 "));
            }
            self.divisions = [divisions; RANGES];
            return Ok(begin);
        }
        let (mut at, mut next) = (begin + 1, 0);
        loop {
            let name = tokens.0.get(at).map(String::as_str).ok_or_else(|| {
                Error::runtime("Expected closing bracket ']' in ConfigTokenizer but reached end of config")
            })?;
            if name == "]" {
                return Ok(at);
            }
            tokens.at(at + 2)?;
            let range = match name {
                ">" => next.min(RANGES)..RANGES,
                _ => {
                    let size = tokens.integer(at)?;
                    if !size.is_power_of_two() {
                        return Err(Error::value("For roundups, the intervals have to be power of 2 "));
                    }
                    let index = (size.ilog2() as usize).min(RANGES - 1);
                    (if next == 0 { 0 } else { index })..index + 1
                }
            };
            let divisions = tokens.integer(at + 2)?;
            if divisions != 0 && !divisions.is_power_of_two() {
                return Err(Error::value("For roundups, the divisions has to be power of 2 or 0 to disable roundup "));
            }
            next = range.end;
            self.divisions[range].fill(divisions);
            at += 3;
            if tokens.at(at)? == "," {
                at += 1;
            }
        }
    }
}

/// What counts, and the text that was read last.
struct State {
    settings: Settings,
    text: String,
    /// What was wrong with the variable.
    mistake: Option<Error>,
}

/// Taken while blocks are given out, so that it comes after their locks.
static STATE: ForkMutex<Option<State>> = ForkMutex::new(Rank::MemoryRecord, None);

/// Runs a function on the settings, which begin with those of the variable.
fn with<T>(run: impl FnOnce(&mut State) -> T) -> T {
    let from_variable = || {
        let found = VARIABLES.iter().find_map(|name| Some((*name, std::env::var(name).ok()?)));
        let (name, text) = found.unwrap_or_default();
        let mut settings = Settings::default();
        // The variable may name either backend: docs/cuda.md says what becomes of the second one.
        let mistake = settings.read(&text, &mut String::new()).err();
        let mistake = mistake.map(|error| error.note(format!("The environment variable {name} is '{text}'.")));
        State { settings, text, mistake }
    };
    run(STATE.lock().get_or_insert_with(from_variable))
}

/// The settings; those before its mistake if the variable has one.
pub fn current() -> Settings {
    with(|state| state.settings)
}

/// An error if the variable has a mistake.
pub fn check() -> Result<()> {
    with(|state| state.mistake.clone().map_or(Ok(()), Err))
}

/// The text that was read last.
pub fn text() -> String {
    with(|state| state.text.clone())
}

/// Takes over what a text says. `memory::read_settings` gives it to the allocators.
pub fn read(text: &str) -> Result<()> {
    with(|state| {
        state.text = text.into();
        let mut backend = String::from("native");
        state.settings.read(text, &mut backend)?;
        if backend != "native" {
            return Err(Error::new(
                Class::Runtime,
                format!(
                    "Allocator backend parsed at runtime != allocator backend parsed at load time, {backend} != native"
                ),
            ));
        }
        Ok(())
    })
}
