//! The format before torch 1.6, read only: five pickles (a magic number, a version, the writer's platform, the object,
//! the keys of its storages), then each storage as a count of elements and its bytes.

use crate::pickle::{Limits, Outcome, Policy, Step, interpret};
use crate::{Error, Result};

/// 119547037146038801333356, as a pickle encodes it.
const MAGIC: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];
const VERSION: i64 = 1001;

/// A file of the old format up to its storages.
pub struct Legacy {
    pub object: Outcome,
    /// The position of the object's pickle.
    pub start: usize,
    /// The keys in the order in which the storages follow.
    pub keys: Vec<String>,
    /// The position of the first storage.
    pub storages: usize,
    pub little_endian: bool,
}

fn is_magic(outcome: &Outcome) -> bool {
    matches!(value(outcome, outcome.root), Some(Step::BigInt(bytes)) if bytes[..] == MAGIC)
}

pub fn read(bytes: &[u8], policy: &Policy, limits: Limits) -> Result<Legacy> {
    let mut position = 0;
    let mut next = |policy: &Policy| -> Result<Outcome> {
        let outcome = interpret(&bytes[position..], policy, limits)?;
        position += outcome.length;
        Ok(outcome)
    };
    let plain = Policy::default();
    if !is_magic(&next(&plain)?) {
        return Err(wrong("Invalid magic number; corrupt file?"));
    }
    let version = next(&plain)?;
    if !matches!(value(&version, version.root), Some(&Step::Int(VERSION))) {
        return Err(wrong("Invalid protocol version"));
    }
    let sys_info = next(&plain)?;
    let object = next(policy)?;
    let last = next(&plain)?;
    let start = position - last.length - object.length;
    Ok(Legacy { start, object, keys: keys(&last)?, storages: position, little_endian: little_endian(&sys_info) })
}

/// The step that made the value.
fn value(outcome: &Outcome, id: u32) -> Option<&Step> {
    outcome.steps.iter().filter(|step| step.makes_value()).nth(id as usize)
}

fn keys(outcome: &Outcome) -> Result<Vec<String>> {
    let mut keys = Vec::new();
    for step in &outcome.steps {
        match step {
            Step::Str(key) => keys.push(key.clone()),
            Step::List | Step::Append { .. } => {}
            _ => return Err(wrong("the keys of the storages are not a list of strings")),
        }
    }
    Ok(keys)
}

fn little_endian(sys_info: &Outcome) -> bool {
    let values: Vec<&Step> = sys_info.steps.iter().filter(|step| step.makes_value()).collect();
    let pairs = sys_info.steps.iter().filter_map(|step| match step {
        Step::SetItems { items, .. } => Some(items),
        _ => None,
    });
    let found = pairs
        .flatten()
        .find(|(key, _)| matches!(values.get(*key as usize), Some(Step::Str(name)) if name == "little_endian"));
    !matches!(found.and_then(|&(_, flag)| values.get(flag as usize)), Some(Step::Bool(false)))
}

fn wrong(what: &str) -> Error {
    Error::Pickle { at: 0, what: what.to_owned() }
}
