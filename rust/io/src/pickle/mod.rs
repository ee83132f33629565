//! A bounded interpreter of pickle's opcodes that executes nothing.
//!
//! [`interpret`] runs the opcodes on a stack of value numbers and records what an unpickler would have built, as a list
//! of [`Step`]s: value 0 is the string "weight", value 1 is a tuple of 0 and 0, and so on. Each step uses only values
//! of earlier steps, so a consumer builds the object with one loop and no recursion. Shared references stay shared.
//!
//! A global is only a name. Names that are not in the [`Policy`] are rejected, and only those with [`Use::Call`] may be
//! called; a handful of harmless builtins (`set()`, `complex()`, encoded bytes) are evaluated here. Two rules protect the
//! consumer:
//!
//! - every step costs at least one byte of input, and a step that copies its arguments is charged for them
//!   against a budget proportional to the input ([`Limits`]);
//! - keys of dicts and sets are limited in weight and depth, because hashing walks a tuple as a tree, which shared
//!   parts can make exponentially larger than the file.

mod builtins;
mod interpret;
mod opcode;
mod policy;

pub use interpret::{Outcome, interpret};
pub use policy::{Limits, Policy, STORAGES, Use};

/// The number of a value: values are numbered in the order of the steps that make them.
pub type Id = u32;

/// One step of building the object. Every variant up to [`Step::Build`] makes the next value.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    None,
    Bool(bool),
    Int(i64),
    /// Two's complement, little-endian; does not fit into 64 bits.
    BigInt(Vec<u8>),
    Float(f64),
    Complex(f64, f64),
    Str(String),
    Bytes(Vec<u8>),
    ByteArray(Vec<u8>),
    Tuple(Vec<Id>),
    /// Empty; items follow by [`Step::Append`].
    List,
    /// Empty; items follow by [`Step::SetItems`].
    Dict,
    /// Empty; items follow by [`Step::Add`].
    Set,
    FrozenSet(Vec<Id>),
    Global {
        module: String,
        name: String,
    },
    /// `function(*arguments)`; the function is a global that may be called, the arguments are a tuple.
    Call {
        function: Id,
        arguments: Id,
    },
    /// `class.__new__(class, *arguments)`.
    New {
        class: Id,
        arguments: Id,
    },
    /// A storage outside the pickle.
    Storage(Storage),
    Append {
        list: Id,
        items: Vec<Id>,
    },
    /// Sets items of a dict or of the result of a call (an OrderedDict).
    SetItems {
        dict: Id,
        items: Vec<(Id, Id)>,
    },
    Add {
        set: Id,
        items: Vec<Id>,
    },
    /// Sets the state of the result of a call.
    Build {
        object: Id,
        state: Id,
    },
}

impl Step {
    /// Whether the step makes a value (and not only changes one).
    pub fn makes_value(&self) -> bool {
        !matches!(self, Step::Append { .. } | Step::SetItems { .. } | Step::Add { .. } | Step::Build { .. })
    }
}

/// torch's persistent id: which storage, of what class, where it was, how many elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    pub module: String,
    pub class: String,
    pub key: String,
    pub location: String,
    pub elements: u64,
    /// In files of torch before 0.4: which elements of the storage are a storage of their own.
    pub slice: Option<Slice>,
}

/// A part of a storage: its name, its first element and how many there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    pub key: String,
    pub start: u64,
    pub elements: u64,
}

/// The integer as an `i64` if it fits, else as a big integer.
fn integer(bytes: &[u8]) -> Step {
    if bytes.len() <= 8 {
        let negative = bytes.last().is_some_and(|&byte| byte >= 0x80);
        let mut wide = [if negative { 0xff } else { 0 }; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        Step::Int(i64::from_le_bytes(wide))
    } else {
        Step::BigInt(bytes.to_vec())
    }
}

#[cfg(test)]
pub(crate) mod tests;
