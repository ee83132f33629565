//! What is wrong with an index.

/// An index that is out of range: which of the indices, and its value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutOfBounds {
    pub number: usize,
    pub value: i64,
}
