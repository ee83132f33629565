//! Triangles of matrices.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Device, Error, Result, Scalar};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    BatchRule, DTypes, Derivative, Implementation, Operator, Out, Saves, Tags, Update, Variants, formula, operator,
};
use rushlight_dispatch::value::{Operand, sizes_value};
use rushlight_dispatch::{device_loops, op};

use crate::create::range::integers;
use crate::expr_ext::ExprExt;

macro_rules! triangles {
    ($($op:ident $name:literal $upper:literal $reference:literal $doc:literal;)*) => {$(
        #[operator]
        pub static $op: Operator = Operator {
            name: $name,
            variants: Variants::ALL,
            out: Out::STRICT,
            signature: "(Tensor self, int diagonal=0) -> Tensor",
            doc: $doc,
            dtypes: DTypes::COMPUTED.union(DTypes::COMPLEX32),
            tags: Tags::ROW_MAJOR,
            batch_rule: BatchRule::LeadingDims,
            implementation: Implementation::Update(Update::on_any_device(
                |args| {
                    if args.tensor(INPUT)?.rank() < 2 {
                        return Err(Error::runtime(concat!($name, ": input tensor must have at least 2 dimensions")));
                    }
                    Ok(())
                },
                |args, target| clear(target, args.int(DIAGONAL)?, $upper),
            )),
            derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| d.grad().call(&$op, [d.int(DIAGONAL).into()]))]),
            samples: &["t(3, 3)", "t(3, 4), 1", "t(2, 3, 4), -1", "t(4, 3).t(), 9"],
            errors: &[("t(3)", "RuntimeError", concat!($name, ": input tensor must have at least 2 dimensions"))],
            reference: $reference,
            kernel_name: $name,
            ..Operator::BASE
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

/// The same on a CUDA device, from the numbers of rows and columns.
fn clear_on_cuda(target: &Tensor, diagonal: i64, upper: bool) -> Result<()> {
    let [.., rows, columns] = target.sizes()[..] else { return Ok(()) };
    let numbers = |count: isize, step: [isize; 2]| -> Result<Tensor> {
        let line = integers([0, count as i64, 1], DType::I64, target.device())?;
        op!(crate::view::RESHAPE, line, sizes_value(&step.map(|own| if own == 0 { 1 } else { count })))
    };
    let distance = Expr::from(numbers(columns, [0, 1])?) - numbers(rows, [1, 0])?;
    // A distance beyond the matrix is like the next one.
    let diagonal = diagonal.clamp(-(rows as i64) - 1, columns as i64 + 1);
    let keeps = if upper { distance.above(diagonal - 1) } else { distance.below(diagonal + 1) }.done()?;
    let zero = Operand::Number(Scalar::ZERO);
    device_loops::select(target, Operand::Tensor(&keeps), Operand::Tensor(target), zero)
}

/// Zeros outside the triangle.
fn clear(target: &Tensor, diagonal: i64, upper: bool) -> Result<()> {
    if let Device::Cuda(_) = target.device() {
        return clear_on_cuda(target, diagonal, upper);
    }
    let (layout, pin) = (target.layout(), target.storage().pin()?);
    // Another thread may have changed the tensor's geometry since it was checked.
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
