//! In the place of `core/src/error.rs`: an error without its facts.

pub enum Class {
    Memory,
    Runtime,
    Unreachable,
}

#[derive(Debug)]
pub struct Error(pub String);

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn new(_: Class, sentence: impl Into<String>) -> Error {
        Error(sentence.into())
    }

    pub fn runtime(sentence: impl Into<String>) -> Error {
        Error(sentence.into())
    }

    pub fn not_implemented(sentence: impl Into<String>) -> Error {
        Error(sentence.into())
    }

    pub fn hint(self, _: impl Into<String>) -> Error {
        self
    }
}
