//! Windows that slide along a dimension of an image: their number, and the element that each tap of a window reads.
//! Convolutions, pooling and `unfold` share them.

use std::ops::Range;

/// Windows along one dimension. Each window has `kernel` taps, `dilation` elements apart. Consecutive windows begin
/// `stride` elements apart, and the first one begins `padding` elements before the input.
#[derive(Clone, Copy, Debug)]
pub struct WindowDim {
    /// The number of elements of the image.
    pub input: usize,
    /// The number of windows.
    pub output: usize,
    pub kernel: usize,
    pub stride: usize,
    pub padding: usize,
    pub dilation: usize,
}

impl WindowDim {
    /// A dimension of one element, with one window of one tap.
    pub const FLAT: WindowDim = WindowDim { input: 1, output: 1, kernel: 1, stride: 1, padding: 0, dilation: 1 };

    /// The three spatial dimensions of a volume. An image or a sequence has fewer; the missing ones come first and are
    /// flat.
    pub fn space(
        input: &[isize],
        output: &[isize],
        [kernel, stride, padding, dilation]: [&[i64]; 4],
    ) -> [WindowDim; 3] {
        let mut space = [WindowDim::FLAT; 3];
        let missing = 3 - kernel.len();
        for dim in 0..kernel.len() {
            space[missing + dim] = WindowDim {
                input: input[dim] as usize,
                output: output[dim] as usize,
                kernel: kernel[dim] as usize,
                stride: stride[dim] as usize,
                padding: padding[dim] as usize,
                dilation: dilation[dim] as usize,
            };
        }
        space
    }

    /// The index that a tap of a window reads. Indices outside the input are padding.
    #[inline]
    pub fn place(&self, window: usize, tap: usize) -> isize {
        (window * self.stride + tap * self.dilation) as isize - self.padding as isize
    }

    /// The element that a tap of a window reads, or `None` for padding.
    #[inline]
    pub fn element(&self, window: usize, tap: usize) -> Option<usize> {
        usize::try_from(self.place(window, tap)).ok().filter(|&place| place < self.input)
    }

    /// The elements that a window reads, `dilation` apart.
    pub fn elements(&self, window: usize) -> Range<usize> {
        let first = self.place(window, 0);
        let skipped = if first < 0 { (-first as usize).div_ceil(self.dilation) } else { 0 };
        let start = (first + (skipped * self.dilation) as isize) as usize;
        start..(self.place(window, self.kernel).max(0) as usize).min(self.input)
    }

    /// Whether there are windows with taps, over at least one element.
    pub fn is_valid(&self) -> bool {
        let sane = self.kernel > 0 && self.stride > 0 && self.dilation > 0;
        sane && (self.output == 0 || self.input > 0)
    }

    /// Whether every window reads at least one element.
    pub fn all_read(&self) -> bool {
        (0..self.output).all(|window| !self.elements(window).is_empty())
    }
}

// Callers may pass any 64-bit numbers; their sums and products fit in 128 bits.

/// The distance between the first and the last tap of a window.
pub fn reach(kernel: i64, dilation: i64) -> i128 {
    i128::from(dilation) * (i128::from(kernel) - 1)
}

/// The number of windows within `padded` elements, which include the padding of both sides.
pub fn count(padded: i128, kernel: i64, dilation: i64, stride: i64) -> i128 {
    (padded - reach(kernel, dilation) - 1).div_euclid(i128::from(stride)) + 1
}

/// The number of elements that `count` windows cover, from the first tap of the first to the last tap of the last.
pub fn span(count: i64, kernel: i64, dilation: i64, stride: i64) -> i128 {
    (i128::from(count) - 1) * i128::from(stride) + reach(kernel, dilation) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_and_span_are_each_others_reverse() {
        for (kernel, dilation, stride) in [(1, 1, 1), (3, 1, 2), (2, 3, 4), (4, 2, 3)] {
            for windows in 1..5 {
                let needed = span(windows, kernel, dilation, stride);
                assert_eq!(count(needed, kernel, dilation, stride), i128::from(windows));
                assert_eq!(count(needed - 1, kernel, dilation, stride), i128::from(windows) - 1);
            }
        }
        assert_eq!(count(0, i64::MAX, i64::MAX, 1), -i128::from(i64::MAX) * i128::from(i64::MAX - 1));
    }

    #[test]
    fn a_window_reads_the_elements_of_its_taps() {
        for (kernel, stride, padding, dilation) in [(3, 2, 2, 1), (2, 1, 3, 3), (3, 4, 0, 2), (2, 3, 5, 4)] {
            let dim = WindowDim { input: 7, output: 4, kernel, stride, padding, dilation };
            for window in 0..dim.output {
                let own: Vec<usize> = (0..kernel).filter_map(|tap| dim.element(window, tap)).collect();
                assert_eq!(dim.elements(window).step_by(dilation).collect::<Vec<_>>(), own, "{dim:?} {window}");
            }
        }
    }

    #[test]
    fn windows_in_the_padding_read_nothing() {
        let dim = WindowDim { input: 2, output: 1, kernel: 2, stride: 1, padding: 2, dilation: 1 };
        assert!(!dim.all_read());
        assert!(WindowDim { padding: 1, ..dim }.all_read());
        assert!(!WindowDim { padding: 1, output: 4, ..dim }.all_read());
        assert!(dim.is_valid());
        assert!(!WindowDim { stride: 0, ..WindowDim::FLAT }.is_valid());
        assert!(!WindowDim { input: 0, ..dim }.is_valid());
        assert!(WindowDim { input: 0, output: 0, ..dim }.is_valid());
    }

    #[test]
    fn missing_dimensions_are_flat() {
        let [depth, height, width] = WindowDim::space(&[5], &[2], [&[3], &[2], &[1], &[1]]);
        assert_eq!((depth.input, height.kernel, width.input, width.output, width.padding), (1, 1, 5, 2, 1));
    }
}
