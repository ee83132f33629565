//! Builtins that pickles call to encode plain values. They are evaluated here, so that nothing is called for them.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builtin {
    /// `set([...])` and `frozenset([...])`.
    Set,
    FrozenSet,
    /// `complex(real, imaginary)`.
    Complex,
    /// `bytearray(bytes)` and `bytearray(text, "latin-1")`; a number is rejected, because it could allocate any amount
    /// of memory.
    ByteArray,
    /// `_codecs.encode(text, "latin1")`, with which protocol 2 encodes bytes.
    Encode,
    /// `bytes()`, with which protocol 2 encodes empty bytes.
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

/// `module.name`, with Python 2's name of the builtins module (which protocol 2 writes) replaced by the present one.
pub(super) fn full_name(module: &str, name: &str) -> String {
    format!("{}.{name}", if module == "__builtin__" { "builtins" } else { module })
}

/// Encodes text as Latin-1, one byte per character. `None` if a character does not fit.
pub fn latin1(text: &str, encoding: &str) -> Option<Vec<u8>> {
    if !matches!(encoding, "latin1" | "latin-1") {
        return None;
    }
    text.chars().map(|letter| u8::try_from(u32::from(letter)).ok()).collect()
}
