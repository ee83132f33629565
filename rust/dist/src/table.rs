//! Keys and values, and every request on them.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::request::{Bytes, Request, Response};
use crate::wire::{LONGEST as LONGEST_ANSWER, buffer_size};

/// The most bytes that the store holds: it is for addresses and small values, not for tensors.
const CAPACITY: usize = 1 << 30;
/// The longest that one request may wait, so that the client can check for interrupts in between.
const LONGEST: Duration = Duration::from_millis(100);

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
    pub fn handle(&self, request: Request) -> Response {
        let mut content = self.content.lock().unwrap_or_else(PoisonError::into_inner);
        match request {
            Request::Set(key, value) => self.put(&mut content, key, value),
            Request::Get(keys) => {
                let values: Option<Vec<&Bytes>> = keys.iter().map(|key| content.values.get(key)).collect();
                values.map_or(Response::Bool(false), answer_with)
            }
            Request::Add(key, amount) => {
                let text = content.values.get(&key).map_or(&b"0"[..], Vec::as_slice);
                let number: Option<i64> = std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok());
                let Some(number) = number else { return Response::Refused("the value is not a number".into()) };
                let Some(sum) = number.checked_add(amount) else {
                    return Response::Refused(format!("{number} + {amount} is beyond 64 bits"));
                };
                match self.put(&mut content, key, sum.to_string().into_bytes()) {
                    Response::Bool(_) => Response::Number(sum),
                    refused => refused,
                }
            }
            Request::CompareSet(key, expected, desired) => {
                let now = content.values.get(&key);
                let agrees = now.map_or(expected.is_empty(), |value| *value == expected);
                if !agrees {
                    return Response::Values(vec![now.cloned().unwrap_or(expected)]);
                }
                match self.put(&mut content, key, desired.clone()) {
                    Response::Bool(_) => Response::Values(vec![desired]),
                    refused => refused,
                }
            }
            Request::Check(keys) => Response::Bool(content.has(&keys)),
            Request::Wait(keys) => {
                let deadline = Instant::now() + LONGEST;
                while !content.has(&keys) {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Response::Bool(false);
                    }
                    content = self.changed.wait_timeout(content, left).unwrap_or_else(PoisonError::into_inner).0;
                }
                Response::Bool(true)
            }
            Request::Delete(key) => {
                let old = content.values.remove(&key);
                content.bytes -= old.as_ref().map_or(0, |value| key.len() + value.len());
                Response::Bool(old.is_some())
            }
            Request::Append(key, tail) => {
                let mut value = content.values.get(&key).cloned().unwrap_or_default();
                value.extend(tail);
                self.put(&mut content, key, value)
            }
            Request::Keys => answer_with(content.values.keys().collect()),
        }
    }

    fn put(&self, content: &mut Content, key: Bytes, value: Bytes) -> Response {
        let old = content.values.get(&key).map_or(0, |value| key.len() + value.len());
        let bytes = content.bytes - old + key.len() + value.len();
        if bytes > CAPACITY {
            return Response::Refused(format!("the store is full: it holds up to {CAPACITY} bytes"));
        }
        content.bytes = bytes;
        content.values.insert(key, value);
        self.changed.notify_all();
        Response::Bool(true)
    }
}

/// Copies the values, unless they are too much: a small request may name one large value many times.
fn answer_with(values: Vec<&Bytes>) -> Response {
    let bytes = buffer_size(values.iter().map(|value| value.len()));
    if bytes > LONGEST_ANSWER {
        return Response::Refused(format!("an answer holds up to {LONGEST_ANSWER} bytes, this one would {bytes}"));
    }
    Response::Values(values.into_iter().cloned().collect())
}

impl Content {
    fn has(&self, keys: &[Bytes]) -> bool {
        keys.iter().all(|key| self.values.contains_key(key))
    }
}
