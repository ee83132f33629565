//! In the place of `core/src/limits.rs`: memory enough.

pub fn available() -> usize {
    usize::MAX
}
