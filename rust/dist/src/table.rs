//! Keys and values, and everything that can be asked of them.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::wire::{LONGEST as LONGEST_ANSWER, room};

/// More bytes than this are refused: a store is for addresses and small facts, not for tensors.
const CAPACITY: usize = 1 << 30;
/// The longest that one question may wait, so that who asks can look around in between.
const LONGEST: Duration = Duration::from_millis(100);

type Bytes = Vec<u8>;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Question {
    Set(Bytes, Bytes),
    /// The values of all keys, or nothing if one is missing.
    Get(Vec<Bytes>),
    /// Adds to a number in decimal digits; a missing key counts as zero.
    Add(Bytes, i64),
    /// Key, expected and desired value: the key gets the desired value if it has the expected one, or is missing and the
    /// expected one is empty. Answers what it has then.
    CompareSet(Bytes, Bytes, Bytes),
    /// Whether all keys are there, after waiting a little for them.
    Wait(Vec<Bytes>),
    /// Whether all keys are there.
    Check(Vec<Bytes>),
    Delete(Bytes),
    Append(Bytes, Bytes),
    Keys,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    Values(Vec<Bytes>),
    Truth(bool),
    Number(i64),
    /// Why the question cannot be answered.
    Refused(String),
}

#[derive(Default)]
struct Content {
    values: BTreeMap<Bytes, Bytes>,
    bytes: usize,
}

#[derive(Default)]
pub struct Table {
    content: Mutex<Content>,
    changed: Condvar,
}

impl Table {
    pub fn ask(&self, question: Question) -> Answer {
        let mut content = self.content.lock().unwrap_or_else(PoisonError::into_inner);
        match question {
            Question::Set(key, value) => self.put(&mut content, key, value),
            Question::Get(keys) => {
                let values: Option<Vec<&Bytes>> = keys.iter().map(|key| content.values.get(key)).collect();
                values.map_or(Answer::Truth(false), answer_with)
            }
            Question::Add(key, amount) => {
                let text = content.values.get(&key).map_or(&b"0"[..], Vec::as_slice);
                let number: Option<i64> = std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok());
                let Some(number) = number else { return Answer::Refused("the value is not a number".into()) };
                let Some(sum) = number.checked_add(amount) else {
                    return Answer::Refused(format!("{number} + {amount} is beyond 64 bits"));
                };
                match self.put(&mut content, key, sum.to_string().into_bytes()) {
                    Answer::Truth(_) => Answer::Number(sum),
                    refused => refused,
                }
            }
            Question::CompareSet(key, expected, desired) => {
                let now = content.values.get(&key);
                let agrees = now.map_or(expected.is_empty(), |value| *value == expected);
                if !agrees {
                    return Answer::Values(vec![now.cloned().unwrap_or(expected)]);
                }
                match self.put(&mut content, key, desired.clone()) {
                    Answer::Truth(_) => Answer::Values(vec![desired]),
                    refused => refused,
                }
            }
            Question::Check(keys) => Answer::Truth(content.has(&keys)),
            Question::Wait(keys) => {
                let deadline = Instant::now() + LONGEST;
                while !content.has(&keys) {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Answer::Truth(false);
                    }
                    content = self.changed.wait_timeout(content, left).unwrap_or_else(PoisonError::into_inner).0;
                }
                Answer::Truth(true)
            }
            Question::Delete(key) => {
                let old = content.values.remove(&key);
                content.bytes -= old.as_ref().map_or(0, |value| key.len() + value.len());
                Answer::Truth(old.is_some())
            }
            Question::Append(key, tail) => {
                let mut value = content.values.get(&key).cloned().unwrap_or_default();
                value.extend(tail);
                self.put(&mut content, key, value)
            }
            Question::Keys => answer_with(content.values.keys().collect()),
        }
    }

    fn put(&self, content: &mut Content, key: Bytes, value: Bytes) -> Answer {
        let old = content.values.get(&key).map_or(0, |value| key.len() + value.len());
        let bytes = content.bytes - old + key.len() + value.len();
        if bytes > CAPACITY {
            return Answer::Refused(format!("the store is full: it holds up to {CAPACITY} bytes"));
        }
        content.bytes = bytes;
        content.values.insert(key, value);
        self.changed.notify_all();
        Answer::Truth(true)
    }
}

/// Copies, if they are not too much: a small question may name one large value many times.
fn answer_with(values: Vec<&Bytes>) -> Answer {
    let bytes = room(values.iter().map(|value| value.len()));
    if bytes > LONGEST_ANSWER {
        return Answer::Refused(format!("an answer holds up to {LONGEST_ANSWER} bytes, this one would {bytes}"));
    }
    Answer::Values(values.into_iter().cloned().collect())
}

impl Content {
    fn has(&self, keys: &[Bytes]) -> bool {
        keys.iter().all(|key| self.values.contains_key(key))
    }
}
