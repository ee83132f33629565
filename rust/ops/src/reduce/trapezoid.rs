//! Integrals by the trapezoidal rule.

use rushlight_autograd::Tensor;
use rushlight_core::layout::wrap_dim;
use rushlight_core::{DType, Error, Result};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{Args, DTypes, Derivative, Implementation, Operator, Variants, operator};
use rushlight_dispatch::value::{Arg, Ints, Output, Value, sizes_value};
use rushlight_dispatch::{create, op};

use super::cumulative::{CUMSUM, DIFF};
use super::sum::SUM_DIM;
use crate::view::narrow::{SELECT, sliced};

/// The distance between samples.
enum Spacing<'a> {
    Even(f64),
    At(&'a Tensor),
}

/// The sums of neighbouring samples.
fn sides(input: &Tensor, dim: usize) -> Result<Expr> {
    let count = input.sizes()[dim];
    let side = |start: isize| sliced(input, dim, start, (count - 1).max(0), 1).map(Expr::from);
    Ok(side(count.min(1))? + side(0)?)
}

/// The distances between neighbouring places. As in torch, `dim` counts from the front, in places of a higher rank too.
fn steps(input: &Tensor, places: &Tensor, dim: usize, name: &str) -> Result<Expr> {
    let places = if places.rank() == 1 {
        if places.sizes()[0] != input.sizes()[dim] {
            return Err(Error::runtime(format!("{name}: There must be one `x` value for each sample point")));
        }
        let mut shape = vec![1; input.rank()];
        shape[dim] = places.sizes()[0];
        op!(crate::view::RESHAPE, places, sizes_value(&shape))?
    } else if places.rank() < input.rank() {
        let mut shape = vec![1; input.rank() - places.rank()];
        shape.extend(places.sizes());
        op!(crate::view::RESHAPE, places, sizes_value(&shape))?
    } else {
        places.clone()
    };
    op!(DIFF, &places, 1i64, dim as i64).map(Expr::from)
}

fn refuse_bool(name: &str, input: &Tensor, spacing: &Spacing) -> Result<()> {
    let is_bool = |tensor: &Tensor| tensor.dtype() == DType::Bool;
    match spacing {
        Spacing::Even(_) if is_bool(input) => {
            Err(Error::runtime(format!("{name}: received a bool input for `y`, but bool is not supported")))
        }
        Spacing::At(places) if is_bool(input) || is_bool(places) => {
            Err(Error::runtime(format!("{name}: received a bool input for `x` or `y`, but bool is not supported")))
        }
        _ => Ok(()),
    }
}

fn integral(input: &Tensor, dim: i64, spacing: Spacing) -> Result<Output> {
    refuse_bool("trapezoid", input, &spacing)?;
    if input.rank() == 0 {
        let dim = if matches!(spacing, Spacing::At(_)) { wrap_dim(dim, 0)? as i64 } else { dim };
        return Err(Error::index(format!("Dimension specified as {dim} but tensor has no dimensions")));
    }
    let dim = wrap_dim(dim, input.rank())?;
    if input.sizes()[dim] == 0 {
        let mut sizes = input.sizes().clone();
        sizes.remove(dim);
        return create::zeros(&sizes, input.dtype(), input.device()).map(Output::Tensor);
    }
    let sum = |samples: Expr| samples.call(&SUM_DIM, [Ints::from_slice(&[dim as i64]).into()]);
    let integral = match spacing {
        Spacing::Even(step) => {
            let end = |at: i64| op!(SELECT, input, dim as i64, at).map(Expr::from);
            (sum(Expr::from(input)) - (end(0)? + end(-1)?) * 0.5) * step
        }
        Spacing::At(places) => {
            let steps = steps(input, places, dim, "trapezoid")?;
            sum(sides(input, dim)? * steps) / 2.0
        }
    };
    integral.done().map(Output::Tensor)
}

fn running(input: &Tensor, dim: i64, spacing: Spacing) -> Result<Output> {
    refuse_bool("cumulative_trapezoid", input, &spacing)?;
    if input.rank() == 0 {
        return Err(
            Error::index("slice() cannot be applied to a 0-dim tensor.").hint("Use x.reshape(1) to add a dimension.")
        );
    }
    let at = wrap_dim(dim, input.rank())?;
    let sum = |areas: Expr| areas.call(&CUMSUM, [Value::Int(at as i64)]);
    let integral = match spacing {
        Spacing::Even(step) => sum(sides(input, at)? * (step / 2.0)),
        Spacing::At(places) => {
            let steps = steps(input, places, at, "cumulative_trapezoid")?;
            sum(sides(input, at)? * steps) / 2.0
        }
    };
    integral.done().map(Output::Tensor)
}

/// A distance that torch reads as a number of any kind, and then refuses those that are not real.
fn real(args: &Args, dx: Arg) -> Result<f64> {
    let number = args.scalar(dx)?;
    if number.is_complex() || number.is_bool() {
        return Err(Error::runtime(format!(
            "{}: Currently, we only support dx as a real number.",
            args.op.python_name()
        )));
    }
    Ok(number.f64())
}

fn float(args: &Args, dx: Arg) -> Result<f64> {
    args.float(dx)
}

macro_rules! rules {
    ($($x:ident $dx:ident $name:literal $function:ident $distance:ident $kind:literal $refused:expr, $refusal:literal $doc:literal $even:literal $at:literal $reference:literal $at_reference:literal;)*) => {$(
        #[operator]
        pub static $x: Operator = Operator {
            name: concat!($name, ".x"),
            variants: Variants::FUNCTION,
            signature: "(Tensor y, Tensor x, *, int dim=-1) -> Tensor",
            doc: concat!($doc, " of samples `y` at places `x`, by the trapezoidal rule.\n\n    >>> torch.", $name, $at),
            dtypes: DTypes::NUMBERS,
            implementation: Implementation::CompositeImplicit(|args: &Args| $function(args.tensor(Y)?, args.int(DIM)?, Spacing::At(args.tensor(X)?))),
            derivative: Derivative::CompositeImplicit,
            samples: &["t(4), t(4)", "t(2, 3), t(3)", "t(3, 2), t(3, 2), dim=0"],
            errors: &[("t(3), t(2)", "RuntimeError", $refusal)],
            reference: $at_reference,
            ..Operator::BASE
        };

        #[operator]
        pub static $dx: Operator = Operator {
            name: $name,
            variants: Variants::FUNCTION,
            signature: concat!("(Tensor y, *, ", $kind, " dx=1, int dim=-1) -> Tensor"),
            doc: concat!($doc, " of samples at equal distances, by the trapezoidal rule.\n\n    >>> torch.", $name, $even),
            dtypes: DTypes::NUMBERS,
            implementation: Implementation::CompositeImplicit(|args: &Args| {
                $function(args.tensor(Y)?, args.int(DIM)?, Spacing::Even($distance(args, DX)?))
            }),
            derivative: Derivative::CompositeImplicit,
            samples: &["t(4)", "t(2, 3), dx=2", "t(3, 2), dim=0"],
            errors: &[
                ("t(3), dim=1", "IndexError", "Dimension out of range (expected to be in range of [-1, 0], but got 1)"),
                $refused,
            ],
            reference: $reference,
            ..Operator::BASE
        };
    )*};
}

rules! {
    TRAPEZOID_X TRAPEZOID "trapezoid" integral real "Scalar" ("t(3), dx=1j", "RuntimeError", "trapezoid: Currently, we only support dx as a real number."), "trapezoid: There must be one `x` value for each sample point" "The integral"
    "(torch.tensor([1., 5., 10.]))\n    tensor(10.5000)"
    "(torch.tensor([1., 5., 10.]), torch.tensor([1., 3., 6.]))\n    tensor(28.5000)"
    "np.trapezoid(y, dx=dx, axis=dim)" "np.trapezoid(y, x, axis=dim)";
    TRAPZ_X TRAPZ "trapz" integral float "float" ("t(3), dx=1j", "TypeError", "trapz() received an invalid combination of arguments - got (Tensor, dx=complex), but expected one of:"), "trapezoid: There must be one `x` value for each sample point" "The integral"
    "(torch.tensor([1., 5., 10.]))\n    tensor(10.5000)"
    "(torch.tensor([1., 5., 10.]), torch.tensor([1., 3., 6.]))\n    tensor(28.5000)"
    "np.trapezoid(y, dx=dx, axis=dim)" "np.trapezoid(y, x, axis=dim)";
    CUMULATIVE_X CUMULATIVE "cumulative_trapezoid" running real "Scalar" ("t(3), dx=1j", "RuntimeError", "cumulative_trapezoid: Currently, we only support dx as a real number."), "cumulative_trapezoid: There must be one `x` value for each sample point" "The running integrals"
    "(torch.tensor([1., 5., 10.]))\n    tensor([ 3.0000, 10.5000])"
    "(torch.tensor([1., 5., 10.]), torch.tensor([1., 3., 6.]))\n    tensor([ 6.0000, 28.5000])"
    "np.cumsum((y + np.roll(y, -1, dim)).take(range(y.shape[dim] - 1), dim), dim) * (dx / 2)" "";
}
