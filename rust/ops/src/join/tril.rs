//! Triangles of matrices.

use rushlight_core::{Error, Result};

use crate::Tensor;
use crate::derive::{Derivative, Saves, formula};
use crate::mapped::Mapped;
use crate::row::{DTypes, Out, Row, Run, Traits, Update, Variants};

macro_rules! triangles {
    ($($row:ident $name:literal $upper:literal $reference:literal $doc:literal;)*) => {$(
        pub static $row: Row = Row {
            name: $name,
            variants: Variants::ALL,
            out: Out::STRICT,
            signature: "(Tensor self, int diagonal=0) -> Tensor",
            doc: $doc,
            dtypes: DTypes::ALL,
            traits: Traits::ROW_MAJOR,
            mapped: Mapped::Batch,
            run: Run::Update(Update {
                check: |args| {
                    if args.tensor(0)?.rank() < 2 {
                        return Err(Error::runtime(concat!($name, ": input tensor must have at least 2 dimensions")));
                    }
                    Ok(())
                },
                cpu: |args, target| clear(target, args.int(1)?, $upper),
            }),
            derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| d.grad().call(&$row, [d.int(1).into()]))]),
            samples: &["t(3, 3)", "t(3, 4), 1", "t(2, 3, 4), -1", "t(4, 3).t(), 9"],
            errors: &[("t(3)", "RuntimeError", concat!($name, ": input tensor must have at least 2 dimensions"))],
            reference: $reference,
            ..Row::BASE
        };
    )*};
}

triangles! {
    TRIL "tril" false "np.tril(self, diagonal)"
    "The lower triangle of matrices, up to `diagonal`; zeros above.

    >>> torch.tril(torch.tensor([[1, 2], [3, 4]]))
    tensor([[1, 0],
            [3, 4]])";
    TRIU "triu" true "np.triu(self, diagonal)"
    "The upper triangle of matrices, from `diagonal` on; zeros below.

    >>> torch.triu(torch.tensor([[1, 2], [3, 4]]))
    tensor([[1, 2],
            [0, 4]])";
}

/// Zeros outside the triangle.
fn clear(target: &Tensor, diagonal: i64, upper: bool) -> Result<()> {
    let (layout, pin) = (target.layout(), target.storage().pin()?);
    // Another thread may have given the tensor another geometry since it was checked.
    if layout.rank() < 2 {
        return Err(Error::runtime("the tensor lost its dimensions to another thread"));
    }
    // SAFETY: the layout stays within the pinned storage.
    unsafe {
        rushlight_cpu::convert::copy::clear_triangle(
            pin.as_ptr(),
            layout,
            target.dtype().size(),
            diagonal as isize,
            upper,
        );
    }
    Ok(())
}
