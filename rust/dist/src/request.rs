//! The requests to a store, and its responses.

pub(crate) type Bytes = Vec<u8>;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    Set(Bytes, Bytes),
    /// The values of all keys, or nothing if one is missing.
    Get(Vec<Bytes>),
    /// Adds to a number in decimal digits; a missing key counts as zero.
    Add(Bytes, i64),
    /// Key, expected and desired value: the key gets the desired value if it has the expected one, or if it is missing
    /// and the expected one is empty. The answer is the key's value afterwards.
    CompareSet(Bytes, Bytes, Bytes),
    /// Whether all keys exist, after a short wait for them.
    Wait(Vec<Bytes>),
    /// Whether all keys exist.
    Check(Vec<Bytes>),
    Delete(Bytes),
    Append(Bytes, Bytes),
    Keys,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Response {
    Values(Vec<Bytes>),
    Bool(bool),
    Number(i64),
    /// Why the request failed.
    Refused(String),
}
