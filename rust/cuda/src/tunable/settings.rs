//! What `torch.cuda.tunable` sets, and the variables `PYTORCH_TUNABLEOP_*`, which are read once and come before what is set.

use std::io::Write;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};

use once_cell::race::OnceBox;
use rushlight_core::fork::{ForkMutex, Rank};
use rushlight_core::{Error, Result};

/// A setting that is a number; switches are 0 or 1.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    Enabled,
    Tuning,
    RecordUntuned,
    /// The most milliseconds, and the most runs, for one algorithm; 0 for no limit.
    Duration,
    Iterations,
    /// The same for the runs before the measured ones; 0 for none.
    WarmupDuration,
    WarmupIterations,
    /// The megabytes of operands that runs take in turns; negative for those of the second-level cache.
    RotatingBuffer,
}

const SETTINGS: usize = Setting::RotatingBuffer as usize + 1;

/// What programs have set, in the order of `Setting`.
static SET: [AtomicI64; SETTINGS] = {
    const fn number(value: i64) -> AtomicI64 {
        AtomicI64::new(value)
    }
    [number(0), number(1), number(0), number(30), number(100), number(0), number(0), number(-1)]
};

struct Variable {
    name: &'static str,
    /// The one value of a switch that counts, and what it makes of the setting.
    switch: Option<(&'static str, i64)>,
}

const VARIABLES: [Variable; SETTINGS] = [
    Variable { name: "PYTORCH_TUNABLEOP_ENABLED", switch: Some(("1", 1)) },
    Variable { name: "PYTORCH_TUNABLEOP_TUNING", switch: Some(("0", 0)) },
    Variable { name: "PYTORCH_TUNABLEOP_RECORD_UNTUNED", switch: Some(("1", 1)) },
    Variable { name: "PYTORCH_TUNABLEOP_MAX_TUNING_DURATION_MS", switch: None },
    Variable { name: "PYTORCH_TUNABLEOP_MAX_TUNING_ITERATIONS", switch: None },
    Variable { name: "PYTORCH_TUNABLEOP_MAX_WARMUP_DURATION_MS", switch: None },
    Variable { name: "PYTORCH_TUNABLEOP_MAX_WARMUP_ITERATIONS", switch: None },
    Variable { name: "PYTORCH_TUNABLEOP_ROTATING_BUFFER_SIZE", switch: None },
];

/// The text of the environment for each setting, as it was when one was first asked for.
fn environment() -> &'static [Option<String>; SETTINGS] {
    static TEXTS: OnceBox<[Option<String>; SETTINGS]> = OnceBox::new();
    TEXTS.get_or_init(|| Box::new(VARIABLES.map(|variable| std::env::var(variable.name).ok())))
}

/// The value of a setting.
pub fn get(setting: Setting) -> Result<i64> {
    let n = setting as usize;
    let (set, Variable { name, switch }) = (SET[n].load(Ordering::SeqCst), &VARIABLES[n]);
    let Some(text) = &environment()[n] else { return Ok(set) };
    match switch {
        Some((value, meaning)) => Ok(if text == value { *meaning } else { set }),
        None => text.trim().parse().map(|number| at_least_zero(setting, number)).map_err(|_| {
            Error::runtime(format!("{name} is not a number: {text}")).hint("Set it to a whole number, or remove it.")
        }),
    }
}

/// Negative numbers are 0, but where they have a meaning.
fn at_least_zero(setting: Setting, value: i64) -> i64 {
    if setting == Setting::RotatingBuffer { value } else { value.max(0) }
}

/// Sets a setting. The environment's value, if there is one, remains in force.
pub fn set(setting: Setting, value: i64) {
    SET[setting as usize].store(at_least_zero(setting, value), Ordering::SeqCst);
    // Before the state is forgotten: `find_enabled` compares the counts.
    change();
    if setting == Setting::Enabled {
        STATE.store(UNKNOWN, Ordering::SeqCst);
    }
}

/// Whether TunableOp is in use, which every product asks.
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 2;

/// Whether TunableOp is in use.
#[inline]
pub fn is_enabled() -> bool {
    match STATE.load(Ordering::Relaxed) {
        UNKNOWN => find_enabled(),
        state => state == 1,
    }
}

#[cold]
fn find_enabled() -> bool {
    let generation = generation();
    let enabled = get(Setting::Enabled).is_ok_and(|value| value == 1);
    STATE.store(u8::from(enabled), Ordering::SeqCst);
    // Another thread may have changed the setting after it was read.
    if generation != self::generation() {
        STATE.store(UNKNOWN, Ordering::SeqCst);
    }
    enabled
}

/// Counts changes of settings and of results that were read, after which choices are made anew.
static GENERATION: AtomicU64 = AtomicU64::new(0);

pub fn generation() -> u64 {
    GENERATION.load(Ordering::SeqCst)
}

pub fn change() {
    GENERATION.fetch_add(1, Ordering::SeqCst);
}

/// The bytes of operands that runs take in turns, where the second-level cache has `cache` bytes.
pub fn rotating_bytes(cache: usize) -> Result<usize> {
    let megabytes = get(Setting::RotatingBuffer)?;
    Ok(usize::try_from(megabytes).map_or(cache, |megabytes| megabytes.saturating_mul(1 << 20)))
}

/// How far the result of an algorithm may be from that of the recommended one.
#[derive(Clone, Copy)]
pub struct Check {
    pub enabled: bool,
    pub atol: f64,
    pub rtol: f64,
}

static CHECK: ForkMutex<Check> = ForkMutex::new(Rank::Tables, Check { enabled: false, atol: 1e-5, rtol: 1e-5 });

pub fn set_check(check: Check) -> Result<()> {
    if !(check.atol > 0.0 && check.rtol > 0.0) {
        return Err(Error::runtime("Numerical check tolerances must be positive")
            .hint(format!("They are atol={} and rtol={}.", check.atol, check.rtol)));
    }
    *CHECK.lock() = check;
    change();
    Ok(())
}

/// The check that is in force. Its variable is read each time, as in torch.
pub fn numerical_check() -> Result<Check> {
    let Ok(text) = std::env::var("PYTORCH_TUNABLEOP_NUMERICAL_CHECK") else { return Ok(*CHECK.lock()) };
    if text == "0" {
        return Ok(Check { enabled: false, atol: 1e-5, rtol: 1e-5 });
    }
    let hint = "Set PYTORCH_TUNABLEOP_NUMERICAL_CHECK to 1e-5_1e-5, for example, or to 0.";
    let Some((atol, rtol)) = text.split_once('_') else {
        let sentence = "Invalid PYTORCH_TUNABLEOP_NUMERICAL_CHECK format. Expected 'atol_rtol', got: ";
        return Err(Error::runtime(format!("{sentence}{text}")).hint(hint));
    };
    let (Ok(atol), Ok(rtol)) = (atol.parse::<f64>(), rtol.parse::<f64>()) else {
        return Err(Error::runtime(format!("Failed to parse PYTORCH_TUNABLEOP_NUMERICAL_CHECK: {text}")).hint(hint));
    };
    if !(atol > 0.0 && rtol > 0.0) {
        let sentence = format!("Tolerance values must be positive. atol={atol}, rtol={rtol}");
        return Err(Error::runtime(sentence).hint(hint));
    }
    Ok(Check { enabled: true, atol, rtol })
}

/// Writes a line for `PYTORCH_TUNABLEOP_VERBOSE` of at least `level`, to the file of `PYTORCH_TUNABLEOP_VERBOSE_FILENAME`.
pub fn log(level: u8, line: impl FnOnce() -> String) {
    static LEVEL: OnceBox<u8> = OnceBox::new();
    let read = || std::env::var("PYTORCH_TUNABLEOP_VERBOSE").ok().and_then(|text| text.trim().parse().ok());
    if *LEVEL.get_or_init(|| Box::new(read().unwrap_or(0))) < level {
        return;
    }
    let line = line() + "\n";
    let place = std::env::var("PYTORCH_TUNABLEOP_VERBOSE_FILENAME").unwrap_or_else(|_| "err".into());
    // A line that cannot be written is no reason for a product to fail.
    let _ = match place.as_str() {
        "err" => std::io::stderr().write_all(line.as_bytes()),
        "out" => std::io::stdout().write_all(line.as_bytes()),
        file => std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(file)
            .and_then(|mut file| file.write_all(line.as_bytes())),
    };
}
