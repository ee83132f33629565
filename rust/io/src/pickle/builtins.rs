//! Builtins that a pickle calls to spell plain values: worked out here, so that nothing is called for them.

use super::policy::full_name;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builtin {
    /// `set([...])` and `frozenset([...])`.
    Set,
    FrozenSet,
    /// `complex(real, imaginary)`.
    Complex,
    /// `bytearray(bytes)` and `bytearray(text, "latin-1")`; with a number it would take memory at will.
    ByteArray,
    /// `_codecs.encode(text, "latin1")` is how protocol 2 spells bytes.
    Encode,
    /// `bytes()` is how protocol 2 spells the empty ones.
    Bytes,
}

impl Builtin {
    pub fn named(module: &str, name: &str) -> Option<Self> {
        Some(match full_name(module, name).as_str() {
            "builtins.set" => Builtin::Set,
            "builtins.frozenset" => Builtin::FrozenSet,
            "builtins.complex" => Builtin::Complex,
            "builtins.bytearray" => Builtin::ByteArray,
            "builtins.bytes" => Builtin::Bytes,
            "_codecs.encode" => Builtin::Encode,
            _ => return None,
        })
    }
}

/// Latin-1: each character is a byte. None if one does not fit.
pub fn latin1(text: &str, encoding: &str) -> Option<Vec<u8>> {
    if !matches!(encoding, "latin1" | "latin-1") {
        return None;
    }
    text.chars().map(|letter| u8::try_from(u32::from(letter)).ok()).collect()
}
