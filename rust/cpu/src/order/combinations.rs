//! All combinations of `r` out of `n` numbers.

/// Writes the combinations in order, one per row.
///
/// # Safety
/// `places` has room for `rows * r` elements, which are not shared, and there are no more combinations than `rows`.
pub unsafe fn combinations(places: *mut i64, rows: usize, r: usize, n: i64, again: bool) {
    let least = |place: usize| if again { 0 } else { place as i64 };
    let most = |place: usize| if again { n - 1 } else { n - (r - place) as i64 };
    for row in 0..rows {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        let here = unsafe { std::slice::from_raw_parts_mut(places.add(row * r), r) };
        if row == 0 {
            here.iter_mut().enumerate().for_each(|(place, element)| *element = least(place));
            continue;
        }
        // SAFETY: the previous row lies immediately before this one.
        here.copy_from_slice(unsafe { std::slice::from_raw_parts(places.add((row - 1) * r), r) });
        let last = (0..r).rev().find(|&place| here[place] < most(place)).unwrap_or(0);
        let next = here[last] + 1;
        for (step, element) in here[last..].iter_mut().enumerate() {
            *element = if again { next } else { next + step as i64 };
        }
    }
}
