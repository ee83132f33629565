//! Views followed by a copy: `view_copy` and its kin; and other names of splits.

use rushlight_core::Result;

use crate::derive::Derivative;
use crate::op;
use crate::row::{DTypes, Out, Row, Run, Variants};
use crate::value::{Args, Output};
use crate::view::{diagonal, expand, narrow, reshape, split, squeeze, strided, transpose, unfold};

/// What a view shows, in memory of its own.
fn copied(row: &'static Row, args: &Args) -> Result<Output> {
    let copy = |view| op!(crate::convert::CLONE, view, "contiguous_format");
    match crate::call::call(Args { row, values: args.values.clone() })? {
        Output::Tensor(view) => copy(view).map(Output::Tensor),
        Output::List(views) => views.into_iter().map(copy).collect::<Result<_>>().map(Output::List),
        other => Ok(other),
    }
}

macro_rules! copies {
    ($($row:ident $name:literal $signature:literal $view:path, $variants:expr, $sample:literal;)*) => {$(
        pub static $row: Row = Row {
            name: $name,
            variants: $variants,
            signature: $signature,
            out: Out::STRICT,
            doc: "The view of the same name, copied into memory of its own.",
            dtypes: DTypes::ALL,
            run: Run::Compose(|args| copied(&$view, args)),
            derivative: Derivative::Composed,
            samples: &[$sample],
            ..Row::BASE
        };
    )*};
}

const PLAIN: Variants = Variants::FUNCTION.and(Variants::OUT);
const LIST: Variants = Variants::FUNCTION;

copies! {
    ALIAS "alias_copy" "(Tensor self) -> Tensor" narrow::ALIAS, PLAIN, "t(2, 3)";
    AS_STRIDED "as_strided_copy" "(Tensor self, int[] size, int[] stride, int? storage_offset=None) -> Tensor" strided::AS_STRIDED, PLAIN, "t(6), (2,), (3,)";
    DIAGONAL "diagonal_copy" "(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor" diagonal::DIAGONAL, PLAIN, "t(2, 3)";
    EXPAND "expand_copy" "(Tensor self, int[] size, *, bool implicit=False) -> Tensor" expand::EXPAND, PLAIN, "t(1, 3), (2, 3)";
    NARROW "narrow_copy" "(Tensor self, int dim, int start, int length) -> Tensor" narrow::NARROW, Variants::BOTH.and(Variants::OUT), "t(3), 0, 1, 2";
    PERMUTE "permute_copy" "(Tensor self, int[] dims) -> Tensor" transpose::PERMUTE, PLAIN, "t(2, 3), (1, 0)";
    SELECT "select_copy" "(Tensor self, int dim, int index) -> Tensor" narrow::SELECT, PLAIN, "t(2, 3), 0, 1";
    SPLIT "split_copy" "(Tensor self, int split_size, int dim=0) -> Tensor[]" split::SPLIT, LIST, "t(4), 2";
    SPLIT_WITH_SIZES "split_with_sizes_copy" "(Tensor self, int[] split_sizes, int dim=0) -> Tensor[]" split::SPLIT_WITH_SIZES, Variants::FUNCTION.and(Variants::OUT), "t(4), (1, 3)";
    SQUEEZE "squeeze_copy" "(Tensor self) -> Tensor" squeeze::SQUEEZE, PLAIN, "t(2, 1)";
    SQUEEZE_DIM "squeeze_copy.dim" "(Tensor self, int dim) -> Tensor" squeeze::SQUEEZE_DIM, PLAIN, "t(2, 1), 1";
    SQUEEZE_DIMS "squeeze_copy.dims" "(Tensor self, int[] dim) -> Tensor" squeeze::SQUEEZE_DIMS, PLAIN, "t(2, 1), (1,)";
    T "t_copy" "(Tensor self) -> Tensor" transpose::T, PLAIN, "t(2, 3)";
    TRANSPOSE "transpose_copy" "(Tensor self, int dim0, int dim1) -> Tensor" transpose::TRANSPOSE, PLAIN, "t(2, 3), 0, 1";
    UNBIND "unbind_copy" "(Tensor self, int dim=0) -> Tensor[]" narrow::UNBIND, Variants::FUNCTION.and(Variants::OUT), "t(2, 3)";
    UNFOLD "unfold_copy" "(Tensor self, int dimension, int size, int step) -> Tensor" unfold::UNFOLD, PLAIN, "t(4), 0, 2, 1";
    UNSQUEEZE "unsqueeze_copy" "(Tensor self, int dim) -> Tensor" squeeze::UNSQUEEZE, PLAIN, "t(2), 0";
    VIEW "view_copy" "(Tensor self, int[] size) -> Tensor" reshape::VIEW, PLAIN, "t(6), (2, 3)";
}

macro_rules! unsafe_splits {
    ($($row:ident $name:literal $signature:literal $view:path, $sample:literal;)*) => {$(
        pub static $row: Row = Row {
            name: $name,
            signature: $signature,
            doc: "The views of the function without `unsafe_` in its name.",
            dtypes: DTypes::ALL,
            run: Run::Compose(|args| crate::call::call(Args { row: &$view, values: args.values.clone() })),
            derivative: Derivative::Composed,
            samples: &[$sample],
            ..Row::BASE
        };
    )*};
}

unsafe_splits! {
    UNSAFE_SPLIT "unsafe_split" "(Tensor self, int split_size, int dim=0) -> Tensor[]" split::SPLIT, "t(4), 2";
    UNSAFE_SPLIT_WITH_SIZES "unsafe_split_with_sizes" "(Tensor self, int[] split_sizes, int dim=0) -> Tensor[]" split::SPLIT_WITH_SIZES, "t(4), (1, 3)";
    UNSAFE_CHUNK "unsafe_chunk" "(Tensor self, int chunks, int dim=0) -> Tensor[]" split::CHUNK, "t(4), 2";
}
