/// An address that threads share. Having it promises nothing: whoever reads or writes there says why no other thread is in
/// the way, mostly because each task has elements of its own.
pub struct Address<T>(pub *mut T);

// SAFETY: an address alone is a number; reading and writing are the unsafe acts.
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
    /// The address of the element at `place`, counted from this one.
    #[inline(always)]
    pub fn at(self, place: usize) -> *mut T {
        self.0.wrapping_add(place)
    }

    /// The address `count` elements on, or back.
    #[inline(always)]
    pub fn offset(self, count: isize) -> *mut T {
        self.0.wrapping_offset(count)
    }
}
