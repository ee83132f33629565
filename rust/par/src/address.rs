//! An address that several threads write through.

/// An address that threads share. The type guarantees nothing: each access states why no other thread interferes,
/// mostly because each task has elements of its own.
pub struct Address<T>(pub *mut T);

// SAFETY: an address alone is a number; only reading and writing through it are unsafe.
unsafe impl<T> Send for Address<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Address<T> {}

impl<T> Clone for Address<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Address<T> {}

impl<T> Address<T> {
    /// The address of element `place`, counted from this one.
    #[inline(always)]
    pub fn at(self, place: usize) -> *mut T {
        self.0.wrapping_add(place)
    }

    /// The address `count` elements ahead, or behind if negative.
    #[inline(always)]
    pub fn offset(self, count: isize) -> *mut T {
        self.0.wrapping_offset(count)
    }
}
