//! Views followed by a copy: `view_copy` and so on; and other names of splits.

use rushlight_autograd::Tensor;
use rushlight_core::Result;
use rushlight_dispatch::op;
use rushlight_dispatch::operator::{
    Args, DTypes, Derivative, ExplicitAutograd, Implementation, Operator, Out, Saves, Tags, Variants, formula, operator,
};
use rushlight_dispatch::value::Output;

use crate::view::{diagonal, expand, narrow, reshape, split, squeeze, strided, transpose, unfold};

/// A view's elements in new memory.
fn copied(op: &'static Operator, args: &Args) -> Result<Output> {
    let base = args.tensor(ALIAS::INPUT)?;
    // A reshape that copied has new memory already.
    let copy = |shown: Tensor| match shown.storage().same(base.storage()) {
        true => op!(crate::convert::CLONE, shown, "contiguous_format"),
        false => Ok(shown),
    };
    let output = Args { op, values: args.values.clone() }.call()?;
    match output {
        Output::Tensor(view) => copy(view).map(Output::Tensor),
        Output::List(views) => views.into_iter().map(copy).collect::<Result<_>>().map(Output::List),
        other => Ok(other),
    }
}

macro_rules! copies {
    ($($op:ident $name:literal $node:literal $signature:literal $view:path, $variants:expr,
        $reference:literal $samples:expr, $errors:expr, $example:literal $(, $tags:expr)?;)*) => {$(
        #[operator]
        pub static $op: Operator = Operator {
            name: $name,
            node: $node,
            variants: $variants,
            signature: $signature,
            out: Out::EXACT,
            doc: concat!("A copy of the view of the same name.\n\n", $example),
            dtypes: DTypes::ALL,
            $(tags: $tags,)?
            implementation: Implementation::CompositeImplicit(|args| copied(&$view, args)),
            derivative: Derivative::CompositeImplicit,
            samples: $samples,
            errors: $errors,
            reference: $reference,
            ..Operator::BASE
        };
    )*};
}

const PLAIN: Variants = Variants::FUNCTION.union(Variants::OUT);
const LISTS: Variants = Variants::FUNCTION.union(Variants::OUT);

copies! {
    ALIAS "alias_copy" "AliasBackward0_copy" "(Tensor self) -> Tensor" narrow::ALIAS, PLAIN,
        "self"
        &["t(2, 3)", "t(2, 3).t()", "t()"],
        &[],
        "    >>> torch.alias_copy(torch.tensor([1, 2]))
    tensor([1, 2])";
    AS_STRIDED "as_strided_copy" "AsStridedBackward0_copy" "(Tensor self, int[] size, int[] stride, int? storage_offset=None) -> Tensor" strided::AS_STRIDED, PLAIN,
        "np.lib.stride_tricks.as_strided(self, size, [step * self.itemsize for step in stride])"
        &["t(6), (2,), (3,)", "t(4), (3, 2), (1, 1)"],
        &[
            ("t(4), (3,), (2,)", "RuntimeError", "setStorage: sizes [3], strides [2], storage offset 0, and itemsize 4 requiring a storage size of 20 are out of bounds for storage of size 16"),
            ("t(4), (2,), (1, 1)", "RuntimeError", "mismatch in length of strides and shape"),
        ],
        "    >>> torch.as_strided_copy(torch.arange(4), (3, 2), (1, 1))
    tensor([[0, 1],
            [1, 2],
            [2, 3]])", Tags::STRIDE_DEPENDENT;
    DIAGONAL "diagonal_copy" "DiagonalBackward0_copy" "(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor" diagonal::DIAGONAL, PLAIN,
        "np.diagonal(self, offset, dim1, dim2)"
        &["t(2, 3)", "t(3, 3, 2), 1, 0, 1"],
        &[
            ("t(3), 0", "IndexError", "Dimension out of range (expected to be in range of [-1, 0], but got 1)"),
            ("t(2, 3), 0, 1, 1", "RuntimeError", "diagonal dimensions cannot be identical 1, 1"),
        ],
        "    >>> torch.diagonal_copy(torch.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])";
    EXPAND "expand_copy" "ExpandBackward0_copy" "(Tensor self, int[] size, *, bool implicit=False) -> Tensor" expand::EXPAND, PLAIN,
        "np.broadcast_to(self, [self.shape[at - len(size)] if n == -1 else n for at, n in enumerate(size)])"
        &["t(1, 3), (2, 3)", "t(3), (2, -1)"],
        &[
            ("t(2, 3), (4,)", "RuntimeError", "expand(torch.FloatTensor{[2, 3]}, size=[4]): the number of sizes provided (1) must be greater or equal to the number of dimensions in the tensor (2)"),
            ("t(2, 3), (2, 4)", "RuntimeError", "The expanded size of the tensor (4) must match the existing size (3) at non-singleton dimension 1.  Target sizes: [2, 4].  Tensor sizes: [2, 3]"),
        ],
        "    >>> torch.expand_copy(torch.tensor([[1], [2]]), (2, 3))
    tensor([[1, 1, 1],
            [2, 2, 2]])";
    NARROW "narrow_copy" "NarrowCopyBackward0" "(Tensor self, int dim, int start, int length) -> Tensor" narrow::NARROW, Variants::BOTH.union(Variants::OUT),
        "self.take(range(start % self.shape[dim], start % self.shape[dim] + length), dim)"
        &["t(3), 0, 1, 2", "t(2, 3), -1, -2, 2"],
        &[
            ("t(4), 0, 3, 2", "RuntimeError", "start (3) + length (2) exceeds dimension size (4)."),
            ("t(), 0, 0, 1", "RuntimeError", "narrow() cannot be applied to a 0-dim tensor."),
            ("t(4), 0, 5, 0", "IndexError", "start out of range (expected to be in range of [-4, 4], but got 5)"),
        ],
        "    >>> torch.narrow_copy(torch.arange(5), 0, 1, 3)
    tensor([1, 2, 3])";
    PERMUTE "permute_copy" "PermuteBackward0_copy" "(Tensor self, int[] dims) -> Tensor" transpose::PERMUTE, PLAIN,
        "np.transpose(self, dims)"
        &["t(2, 3), (1, 0)", "t(2, 3, 4), (2, 0, 1)"],
        &[
            ("t(2, 3), (0,)", "RuntimeError", "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of dimensions i.e. input.dim() = 2 is not equal to len(dims) = 1"),
            ("t(2, 3), (0, 0)", "RuntimeError", "permute(): duplicate dims are not allowed."),
        ],
        "    >>> torch.permute_copy(torch.tensor([[1, 2, 3]]), (1, 0))
    tensor([[1],
            [2],
            [3]])";
    SELECT "select_copy" "SelectBackward0_copy" "(Tensor self, int dim, int index) -> Tensor" narrow::SELECT, PLAIN,
        "self.take(index, dim)"
        &["t(2, 3), 0, 1", "t(2, 3), 1, -1"],
        &[
            ("t(2, 3), 0, 2", "IndexError", "select(): index 2 out of range for tensor of size [2, 3] at dimension 0"),
            ("t(), 0, 0", "IndexError", "select() cannot be applied to a 0-dim tensor."),
        ],
        "    >>> torch.select_copy(torch.tensor([[1, 2], [3, 4]]), 0, 1)
    tensor([3, 4])";
    SPLIT "split_copy" "SplitBackward0_copy" "(Tensor self, int split_size, int dim=0) -> Tensor[]" split::SPLIT, LISTS,
        "np.split(self, range(split_size, self.shape[dim], split_size), dim)"
        &["t(4), 2", "t(2, 5), 2, 1"],
        &[
            ("t(5), -1", "RuntimeError", "split expects split_size be non-negative, but got split_size=-1"),
            ("t(5), 2, 1", "IndexError", "Dimension out of range (expected to be in range of [-1, 0], but got 1)"),
            ("t(), 2", "RuntimeError", "split expects at least a 1-dimensional tensor"),
        ],
        "    >>> torch.split_copy(torch.arange(5), 2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))";
    SPLIT_WITH_SIZES "split_with_sizes_copy" "SplitWithSizesBackward0_copy" "(Tensor self, int[] split_sizes, int dim=0) -> Tensor[]" split::SPLIT_WITH_SIZES, LISTS,
        "np.split(self, np.cumsum(split_sizes)[:-1], dim)"
        &["t(4), (1, 3)", "t(2, 4), (0, 4), 1"],
        &[
            ("t(5), [2, 2]", "RuntimeError", "split_with_sizes expects split_sizes to sum exactly to 5 (input tensor's size at dimension 0), but got split_sizes=[2, 2]"),
            ("t(5), [2, 3], 1", "IndexError", "Dimension out of range (expected to be in range of [-1, 0], but got 1)"),
        ],
        "    >>> torch.split_with_sizes_copy(torch.arange(5), (1, 4))
    (tensor([0]), tensor([1, 2, 3, 4]))";
    SQUEEZE "squeeze_copy" "SqueezeBackward0_copy" "(Tensor self) -> Tensor" squeeze::SQUEEZE, PLAIN,
        "np.squeeze(self)"
        &["t(2, 1)", "t(1, 1)"],
        &[],
        "    >>> torch.squeeze_copy(torch.tensor([[1, 2]]))
    tensor([1, 2])";
    SQUEEZE_DIM "squeeze_copy.dim" "SqueezeBackward1_copy" "(Tensor self, int dim) -> Tensor" squeeze::SQUEEZE_DIM, PLAIN,
        "np.squeeze(self, dim) if self.shape[dim] == 1 else self"
        &["t(2, 1), 1", "t(2, 1), 0"],
        &[("t(2, 1), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
        "    >>> torch.squeeze_copy(torch.tensor([[[1, 2]]]), 0)
    tensor([[1, 2]])";
    SQUEEZE_DIMS "squeeze_copy.dims" "SqueezeBackward2_copy" "(Tensor self, int[] dim) -> Tensor" squeeze::SQUEEZE_DIMS, PLAIN,
        "np.squeeze(self, tuple(at for at in dim if self.shape[at] == 1))"
        &["t(2, 1), (1,)", "t(1, 2, 1), (0, 1)"],
        &[("t(2, 1), (0, 0)", "RuntimeError", "dim 0 appears multiple times in the list of dims")],
        "    >>> torch.squeeze_copy(torch.tensor([[[1, 2]]]), (0, 1))
    tensor([1, 2])";
    T "t_copy" "TBackward0_copy" "(Tensor self) -> Tensor" transpose::T, PLAIN,
        "self.T"
        &["t(2, 3)", "t(2)"],
        &[("t(2, 3, 4)", "RuntimeError", "t() expects a tensor with <= 2 dimensions, but self is 3D")],
        "    >>> torch.t_copy(torch.tensor([[1, 2], [3, 4]]))
    tensor([[1, 3],
            [2, 4]])";
    TRANSPOSE "transpose_copy" "TransposeBackward0_copy" "(Tensor self, int dim0, int dim1) -> Tensor" transpose::TRANSPOSE, PLAIN,
        "np.swapaxes(self, dim0, dim1)"
        &["t(2, 3), 0, 1", "t(2, 3, 4), -1, 0"],
        &[("t(2, 3), 0, 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
        "    >>> torch.transpose_copy(torch.tensor([[1, 2], [3, 4]]), 0, 1)
    tensor([[1, 3],
            [2, 4]])";
    UNBIND "unbind_copy" "UnbindBackward0_copy" "(Tensor self, int dim=0) -> Tensor[]" split::UNBIND, LISTS,
        "list(np.moveaxis(self, dim, 0))"
        &["t(2, 3)", "t(2, 3), 1"],
        &[
            ("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)"),
            ("t()", "IndexError", "Dimension specified as 0 but tensor has no dimensions"),
        ],
        "    >>> torch.unbind_copy(torch.tensor([[1, 2], [3, 4]]))
    (tensor([1, 2]), tensor([3, 4]))";
    UNFOLD "unfold_copy" "UnfoldBackward0_copy" "(Tensor self, int dimension, int size, int step) -> Tensor" unfold::UNFOLD, PLAIN,
        "np.lib.stride_tricks.sliding_window_view(self, size, dimension)[(slice(None),) * dimension + (slice(None, None, step),)]"
        &["t(4), 0, 2, 1", "t(2, 5), 1, 3, 2"],
        &[
            ("t(4), 0, 5, 1", "RuntimeError", "maximum size for tensor at dimension 0 is 4 but size is 5"),
            ("t(4), 0, 2, 0", "RuntimeError", "step is 0 but must be > 0"),
        ],
        "    >>> torch.unfold_copy(torch.arange(5), 0, 3, 2)
    tensor([[0, 1, 2],
            [2, 3, 4]])";
    UNSQUEEZE "unsqueeze_copy" "UnsqueezeBackward0_copy" "(Tensor self, int dim) -> Tensor" squeeze::UNSQUEEZE, PLAIN,
        "np.expand_dims(self, dim)"
        &["t(2), 0", "t(2), -1"],
        &[("t(2), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
        "    >>> torch.unsqueeze_copy(torch.tensor([1, 2]), 0)
    tensor([[1, 2]])";
    VIEW "view_copy" "ViewBackward0_copy" "(Tensor self, int[] size) -> Tensor" reshape::RESHAPE, PLAIN,
        "self.reshape(size)"
        &["t(6), (2, 3)", "t(2, 3).t(), (6,)", "t(2, 3), (-1,)"],
        &[
            ("t(2, 3), (4,)", "RuntimeError", "shape '[4]' is invalid for input of size 6"),
            ("t(2, 3), (-1, -1)", "RuntimeError", "only one dimension can be inferred"),
        ],
        "    >>> torch.view_copy(torch.arange(4), (2, 2))
    tensor([[0, 1],
            [2, 3]])";
}

/// Views as tensors over the same memory that autograd treats as independent results: they may be changed in place one
/// by one, and the effect on the others is not checked.
fn unbound(op: &'static Operator, args: &Args) -> Result<Output> {
    let views = Args { op, values: args.values.clone() }.call()?.into_tensors();
    let own = |view: Tensor| Tensor::with_meta(view.meta().clone());
    Ok(Output::List(views.into_iter().map(own).collect()))
}

macro_rules! unsafe_splits {
    ($($op:ident $name:literal $node:literal $signature:literal $view:path, $reference:literal $samples:expr, $errors:expr, $example:literal $(, $tags:expr)?;)*) => {$(
        #[operator]
        pub static $op: Operator = Operator {
            name: $name,
            signature: $signature,
            doc: concat!("As the function without `unsafe_` in its name, but autograd does not treat the results as views of one tensor.\n\n", $example),
            dtypes: DTypes::ALL,
            implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| unbound(&$view, args))),
            derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| split::rejoin(d, d.int(DIM)))]),
            node: $node,
            samples: $samples,
            errors: $errors,
            reference: $reference,
            ..Operator::BASE
        };
    )*};
}

unsafe_splits! {
    UNSAFE_SPLIT "unsafe_split" "UnsafeSplitBackward0" "(Tensor self, int split_size, int dim=0) -> Tensor[]" split::SPLIT,
        "np.split(self, range(split_size, self.shape[dim], split_size), dim)"
        &["t(4), 2", "t(2, 5), 2, 1"],
        &[
            ("t(5), -1", "RuntimeError", "split expects split_size be non-negative, but got split_size=-1"),
            ("t(5), 2, 1", "IndexError", "Dimension out of range (expected to be in range of [-1, 0], but got 1)"),
        ],
        "    >>> torch.unsafe_split(torch.arange(5), 2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))";
    UNSAFE_SPLIT_WITH_SIZES "unsafe_split_with_sizes" "UnsafeSplitWithSizesBackward0" "(Tensor self, int[] split_sizes, int dim=0) -> Tensor[]" split::SPLIT_WITH_SIZES,
        "np.split(self, np.cumsum(split_sizes)[:-1], dim)"
        &["t(4), (1, 3)", "t(2, 4), (0, 4), 1"],
        &[("t(5), [2, 2]", "RuntimeError", "split_with_sizes expects split_sizes to sum exactly to 5 (input tensor's size at dimension 0), but got split_sizes=[2, 2]")],
        "    >>> torch.unsafe_split_with_sizes(torch.arange(5), (1, 4))
    (tensor([0]), tensor([1, 2, 3, 4]))";
    UNSAFE_CHUNK "unsafe_chunk" "UnsafeSplitBackward0" "(Tensor self, int chunks, int dim=0) -> Tensor[]" split::CHUNK,
        "np.split(self, range(-(-self.shape[dim] // chunks), self.shape[dim], -(-self.shape[dim] // chunks)), dim)"
        &["t(4), 2", "t(2, 5), 3, 1"],
        &[
            ("t(5), 0", "RuntimeError", "chunk expects `chunks` to be greater than 0, got: 0"),
            ("t(), 1", "RuntimeError", "chunk expects at least a 1-dimensional tensor"),
        ],
        "    >>> torch.unsafe_chunk(torch.arange(5), 2)
    (tensor([0, 1, 2]), tensor([3, 4]))";
}
