//! All windows of a size along one dimension.

use rushlight_core::layout::wrap_dim;
use rushlight_core::{Error, Layout, Result};
use rushlight_dispatch::operator::{
    Args, DTypes, Derivative, Implementation, Operator, Saves, Variants, formula, operator,
};

use crate::view::strided::embed;

#[operator]
pub static UNFOLD: Operator = Operator {
    name: "unfold",
    variants: Variants::METHOD,
    signature: "(Tensor self, int dimension, int size, int step) -> Tensor",
    doc: "A view of all windows of `size` along `dimension` in steps of `step`; the windows' elements are a new last dimension.

    >>> torch.arange(1., 6).unfold(0, 2, 2)
    tensor([[1., 2.],
            [3., 4.]])",
    dtypes: DTypes::ALL,
    implementation: Implementation::View(|args| unfold(args.tensor(INPUT)?.layout(), args)),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| embed(d, unfold))]),
    samples: &["t(5), 0, 2, 1", "t(2, 6), 1, 3, 2", "t(4, 3), -2, 2, 2", "t(), 0, 1, 1"],
    errors: &[
        ("t(3), 0, 5, 1", "RuntimeError", "maximum size for tensor at dimension 0 is 3 but size is 5"),
        ("t(3), 0, 1, 0", "RuntimeError", "step is 0 but must be > 0"),
        ("t(3), 0, -1, 1", "RuntimeError", "size is -1 but must be >= 0"),
    ],
    reference: "np.lib.stride_tricks.sliding_window_view(self, size, dimension)[(slice(None),) * (dimension % self.ndim) + (slice(None, None, step),)] if self.ndim else self.reshape(1)",
    ..Operator::BASE
};

fn unfold(own: &Layout, args: &Args) -> Result<Layout> {
    use UNFOLD::*;

    let dim = wrap_dim(args.int(DIMENSION)?, own.rank())?;
    let (size, step) = (args.int(SIZE)? as isize, args.int(STEP)? as isize);
    let held = own.sizes.get(dim).copied().unwrap_or(1);
    if size < 0 {
        return Err(Error::runtime(format!("size is {size} but must be >= 0")));
    }
    if size > held {
        return Err(Error::runtime(format!("maximum size for tensor at dimension {dim} is {held} but size is {size}"))
            .hint("Windows must not be larger than the dimension."));
    }
    if step <= 0 {
        return Err(Error::runtime(format!("step is {step} but must be > 0")));
    }
    let mut view = own.clone();
    view.sizes.push(size);
    view.strides.push(own.strides.get(dim).copied().unwrap_or(1));
    if dim < own.rank() {
        view.sizes[dim] = (held - size) / step + 1;
        // If the step overflows there is only one window.
        view.strides[dim] = view.strides[dim].wrapping_mul(step);
    }
    Ok(view)
}
