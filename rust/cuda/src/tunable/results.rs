//! The fastest algorithm of each product, and the files of torch's format that record them.
//!
//! A file begins with lines `Validator,name,value`, which say where its results hold; those of another library, GPU or version are
//! ignored. What is measured is appended at once. Where a file ends with the results of another place, validators are written again
//! first, so that it keeps both.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::Write;

use rushlight_core::Result;
use rushlight_core::fork::{ForkMutex, Rank};

use super::settings::{Setting, change, get, log};

/// The names and values that must be the same where results are read and where they were measured.
pub type Validators = Vec<(String, String)>;

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub operator: String,
    pub parameters: String,
    pub solution: String,
    pub milliseconds: f64,
}

struct Results {
    /// The results by operator and parameters.
    found: BTreeMap<(String, String), (String, f64)>,
    /// The products that were written down to be measured later.
    untuned: BTreeSet<(String, String)>,
    file: String,
    /// Whether the file of results was looked for.
    is_read: bool,
    warning: Option<String>,
}

static RESULTS: ForkMutex<Results> = ForkMutex::new(
    Rank::Tables,
    Results { found: BTreeMap::new(), untuned: BTreeSet::new(), file: String::new(), is_read: false, warning: None },
);

/// A name with the number of a device: in place of `%d`, before the last dot, or at the end.
fn with_device(name: &str, device: u8) -> String {
    match (name.find("%d"), name.rfind('.')) {
        (Some(at), _) => format!("{}{device}{}", &name[..at], &name[at + 2..]),
        (None, Some(at)) => format!("{}{device}{}", &name[..at], &name[at..]),
        (None, None) => format!("{name}{device}"),
    }
}

/// Sets the file of results; with a device, its number is put into the name.
pub fn set_file(name: &str, device: Option<u8>) {
    let mut results = RESULTS.lock();
    results.file = match device {
        Some(device) if !name.is_empty() => with_device(name, device),
        _ => name.to_owned(),
    };
}

pub fn file() -> String {
    RESULTS.lock().file.clone()
}

/// What a file says.
struct Contents {
    entries: Vec<Entry>,
    /// Whether there is any part with the validators of this place, and whether the last part is one.
    holds: bool,
    ends_here: bool,
    is_empty: bool,
    ends_with_line: bool,
}

/// Refuses what is no file: opening a pipe may never end.
fn check_kind(name: &str) -> std::io::Result<()> {
    match std::fs::metadata(name) {
        Ok(found) if !found.is_file() => Err(std::io::Error::other("it is no regular file")),
        _ => Ok(()),
    }
}

/// Opens a file to write at its end.
fn open_end(name: &str) -> std::io::Result<File> {
    check_kind(name)?;
    OpenOptions::new().create(true).append(true).open(name)
}

/// Reads a file; `None` if there is none that can be read.
fn contents(name: &str, validators: &Validators) -> Option<Contents> {
    check_kind(name).ok()?;
    let bytes = std::fs::read(name).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let mut contents = Contents {
        entries: Vec::new(),
        holds: false,
        ends_here: false,
        is_empty: text.is_empty(),
        ends_with_line: text.ends_with('\n'),
    };
    let (mut given, mut in_validators, mut part) = (BTreeMap::new(), false, Vec::new());
    let here: BTreeMap<&str, &str> = validators.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let close = |contents: &mut Contents, given: &BTreeMap<&str, &str>, part: &mut Vec<Entry>| {
        contents.ends_here = *given == here;
        if contents.ends_here {
            contents.holds = true;
            contents.entries.append(part);
        }
        part.clear();
    };
    let lines: Vec<&str> = text.lines().collect();
    for line in &lines {
        let words: Vec<&str> = line.trim().split(',').collect();
        match *words {
            ["Validator", name, value, ..] => {
                if !in_validators {
                    close(&mut contents, &given, &mut part);
                    given.clear();
                }
                in_validators = true;
                given.insert(name, value);
            }
            [operator, parameters, solution, ref rest @ ..] => {
                in_validators = false;
                let milliseconds = rest.first().and_then(|text| text.parse().ok()).unwrap_or(0.0);
                let [operator, parameters, solution] = [operator, parameters, solution].map(str::to_owned);
                part.push(Entry { operator, parameters, solution, milliseconds });
            }
            _ if line.trim().is_empty() => {}
            _ => log(1, || format!("could not parse line: {line}")),
        }
    }
    close(&mut contents, &given, &mut part);
    Some(contents)
}

impl Results {
    /// Takes the results of a file over, those that are known already excepted; whether it has any that hold here.
    fn read(&mut self, name: &str, validators: &Validators) -> bool {
        log(1, || format!("reading tuning results from {name}"));
        let Some(contents) = contents(name, validators) else {
            log(1, || format!("could not open {name} for reading tuning results"));
            return false;
        };
        if !contents.holds {
            log(1, || "results validator check failed".to_owned());
        }
        for Entry { operator, parameters, solution, milliseconds } in contents.entries {
            self.found.entry((operator, parameters)).or_insert((solution, milliseconds));
        }
        contents.holds
    }

    /// Names the file of results, if a program has not, and reads it. Only the first call does.
    fn prepare(&mut self, device: u8, validators: &Validators) -> Result<()> {
        if self.is_read {
            return Ok(());
        }
        self.is_read = true;
        if self.file.is_empty() {
            let name = std::env::var("PYTORCH_TUNABLEOP_FILENAME").unwrap_or_else(|_| "tunableop_results.csv".into());
            self.file = if name.is_empty() { name } else { with_device(&name, device) };
        }
        if !self.file.is_empty() && get(Setting::RecordUntuned)? == 0 {
            self.read(&self.file.clone(), validators);
        }
        Ok(())
    }

    /// Appends a result to the file.
    fn append(&mut self, validators: &Validators, line: &str) {
        if self.file.is_empty() {
            return;
        }
        let name = self.file.clone();
        let written = open_end(&name).and_then(|mut file| {
            let mut text = String::new();
            let known = contents(&name, validators);
            if known.as_ref().is_some_and(|known| !known.is_empty && !known.ends_with_line) {
                text.push('\n');
            }
            if !known.is_some_and(|known| known.ends_here) {
                text.extend(validators.iter().map(|(name, value)| format!("Validator,{name},{value}\n")));
            }
            text += line;
            file.write_all(text.as_bytes())
        });
        if let Err(error) = written {
            self.warning = Some(format!("TunableOp realtime append: failed to open '{name}': {error}"));
        }
    }
}

/// Reads a file, by default that of results.
pub fn read(name: Option<&str>, validators: &Validators) -> bool {
    let mut results = RESULTS.lock();
    let name = name.filter(|name| !name.is_empty()).map_or_else(|| results.file.clone(), str::to_owned);
    let holds = results.read(&name, validators);
    drop(results);
    change();
    holds
}

/// All results.
pub fn all(device: u8, validators: &Validators) -> Result<Vec<Entry>> {
    let mut results = RESULTS.lock();
    results.prepare(device, validators)?;
    let entry = |((operator, parameters), (solution, milliseconds)): (&(String, String), &(String, f64))| Entry {
        operator: operator.clone(),
        parameters: parameters.clone(),
        solution: solution.clone(),
        milliseconds: *milliseconds,
    };
    Ok(results.found.iter().map(entry).collect())
}

/// The algorithm of a product, if it is known.
pub fn find(device: u8, validators: &Validators, names: &(String, String)) -> Result<Option<String>> {
    let mut results = RESULTS.lock();
    results.prepare(device, validators)?;
    Ok(results.found.get(names).map(|(solution, _)| solution.clone()))
}

/// Six digits, as torch writes them.
fn rounded(milliseconds: f64) -> f64 {
    format!("{milliseconds:.5e}").parse().unwrap_or(milliseconds)
}

/// Records what was measured, unless another thread was faster.
pub fn add(validators: &Validators, entry: Entry) -> Result<()> {
    let appends = get(Setting::Tuning)? == 1 && get(Setting::RecordUntuned)? == 0;
    let Entry { operator, parameters, solution, milliseconds } = entry;
    let mut results = RESULTS.lock();
    let names = (operator, parameters);
    if results.found.contains_key(&names) {
        return Ok(());
    }
    log(2, || format!("{}({}) -> {solution},{milliseconds}", names.0, names.1));
    let line = format!("{},{},{solution},{}\n", names.0, names.1, rounded(milliseconds));
    results.found.insert(names, (solution, milliseconds));
    if appends {
        results.append(validators, &line);
    }
    Ok(())
}

/// Writes a product down, which is to be measured later.
pub fn note_untuned(device: u8, names: &(String, String)) {
    let mut results = RESULTS.lock();
    if !results.untuned.insert(names.clone()) {
        return;
    }
    let name = std::env::var("PYTORCH_TUNABLEOP_UNTUNED_FILENAME").unwrap_or_else(|_| "tunableop_untuned.csv".into());
    let (stem, end) = name.rfind('.').map_or((name.as_str(), ""), |at| name.split_at(at));
    let place = format!("{stem}{device}{end}");
    let line = format!("{},{}\n", names.0, names.1);
    if let Err(error) = open_end(&place).and_then(|mut file| file.write_all(line.as_bytes())) {
        results.warning =
            Some(format!("failed to open file for writing; untuned gemm will not be saved ('{place}': {error})"));
    }
}

/// What could not be written since the last call, which is to be told to the program.
pub fn take_warning() -> Option<String> {
    RESULTS.lock().warning.take()
}
